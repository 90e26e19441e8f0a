"""Settings of synthetic conversations: `synth:` of accord.yaml."""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator

from accord.values import Topic

SynthMethod = Literal["DS1", "DS2", "DS3", "DS4", "DS5"]
SYNTH_METHODS: tuple[SynthMethod, ...] = get_args(SynthMethod)
READERS = frozenset(SYNTH_METHODS) - {"DS1"}
"""Methods that need documents."""


class SynthSettings(BaseModel):
    """Topics, personas, methods (LLM-RUBRIC, appendix F) and limits."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    methods: tuple[SynthMethod, ...] = Field(
        default=(),
        description="DS1: the model writes the whole dialogue without documents; DS2: with the documents of the topic; "
        "DS3: with the best documents for the topic by BM25; DS4: user and assistant take turns, and the assistant "
        "reads the best documents for the dialogue; DS5: for a query that it writes. Default: all that topics and "
        "documents allow.",
    )
    topics: tuple[Topic, ...] | str | int = Field(
        default=(),
        description="Texts, or texts with the ids of their documents; a file (one per line, or rows with `text` and "
        "`documents`); or the number of topics that the user's model writes.",
    )
    personas: tuple[str, ...] | str | int = Field(
        default=(),
        description="Personas of the user: sentences, a file with one per line, or the number that the model writes.",
    )
    subject: str = Field(default="", max_length=500, description="Subject of written topics and personas.")
    documents: str | None = Field(
        default=None, description="Documents of the assistant: a folder of .txt and .md files, or a file of rows."
    )
    count: int | None = Field(
        default=None, ge=1, le=1_000_000, description="Conversations per method; default: one per topic."
    )
    max_documents: int = Field(default=5, ge=1, le=50, description="Documents per retrieval, at most.")
    document_characters: int = Field(
        default=12_000, ge=100, le=200_000, description="Characters of a document in a prompt, at most."
    )
    max_turns: int = Field(default=8, ge=1, le=100, description="Messages of the user in DS4 and DS5, at most.")
    max_characters: int = Field(
        default=20_000,
        ge=100,
        le=200_000,
        description="Characters of a message, at most; a longer one discards its conversation.",
    )
    max_tokens: int = Field(default=512, ge=16, le=32_768, description="Tokens of a message, at most.")
    dialogue_tokens: int = Field(default=2048, ge=64, le=32_768, description="Tokens of a whole dialogue, at most.")
    temperature: float = Field(default=1.0, ge=0, le=2, description="Sampling temperature.")
    concurrency: int = Field(default=32, ge=1, le=1024, description="Conversations in progress at the same time.")

    @field_validator("topics", mode="before")
    @classmethod
    def _accept_texts(cls, topics: object) -> object:
        if isinstance(topics, list | tuple):
            return [{"text": topic} if isinstance(topic, str) else topic for topic in topics]
        return topics

    @field_validator("topics", "personas")
    @classmethod
    def _check_number(cls, setting: object) -> object:
        if isinstance(setting, int) and (isinstance(setting, bool) or not 1 <= setting <= 100_000):
            raise ValueError("the number to write is 1 to 100,000")
        return setting
