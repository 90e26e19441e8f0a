"""How synthetic conversations are made: `synth:` of accord.yaml."""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator

from accord.values import Topic

SynthMethod = Literal["DS1", "DS2", "DS3", "DS4", "DS5"]
SYNTH_METHODS: tuple[SynthMethod, ...] = get_args(SynthMethod)
READERS = frozenset(SYNTH_METHODS) - {"DS1"}
"""Ways that need documents."""


class SynthSettings(BaseModel):
    """Who talks about what, and in which of five ways (LLM-RUBRIC, appendix F)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    methods: tuple[SynthMethod, ...] = Field(
        default=(),
        description="DS1: the model writes the whole dialogue and knows no document; DS2: it is shown the topic's own "
        "documents; DS3: the best for the topic by BM25; DS4: user and assistant take turns, and the assistant reads "
        "the best for what was said; DS5: for a query that it writes. Default: all that topics and documents allow.",
    )
    topics: tuple[Topic, ...] | str | int = Field(
        default=(),
        description="Texts, or texts with the ids of their documents; a file of them (one a line, or rows with `text` "
        "and `documents`); or how many the model of the user is to write.",
    )
    personas: tuple[str, ...] | str | int = Field(
        default=(), description="Who asks: sentences, a file with one a line, or how many are to be written."
    )
    subject: str = Field(default="", max_length=500, description="What written topics and personas are about.")
    documents: str | None = Field(
        default=None, description="What assistants may read: a folder of .txt and .md files, or a file of rows."
    )
    count: int | None = Field(
        default=None, ge=1, le=1_000_000, description="Conversations of each way; default: one for each topic."
    )
    max_documents: int = Field(default=5, ge=1, le=50, description="Documents that are retrieved at a time.")
    document_characters: int = Field(
        default=12_000, ge=100, le=200_000, description="Characters of a document that are shown."
    )
    max_turns: int = Field(default=8, ge=1, le=100, description="The most messages of a user, where they take turns.")
    max_characters: int = Field(
        default=20_000, ge=100, le=200_000, description="The longest message; a longer one loses its conversation."
    )
    max_tokens: int = Field(default=512, ge=16, le=32_768, description="Tokens of a message.")
    dialogue_tokens: int = Field(default=2048, ge=64, le=32_768, description="Tokens of a whole dialogue.")
    temperature: float = Field(default=1.0, ge=0, le=2)
    concurrency: int = Field(default=32, ge=1, le=1024, description="Conversations under way.")

    @field_validator("topics", mode="before")
    @classmethod
    def _texts_too(cls, found: object) -> object:
        if isinstance(found, list | tuple):
            return [{"text": each} if isinstance(each, str) else each for each in found]
        return found

    @field_validator("topics", "personas")
    @classmethod
    def _some(cls, found: object) -> object:
        if isinstance(found, int) and (isinstance(found, bool) or not 1 <= found <= 100_000):
            raise ValueError("to be written are 1 to 100,000 of them")
        return found
