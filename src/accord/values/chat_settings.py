"""A study in which people talk with an assistant and rate it afterwards (LLM-RUBRIC, appendix H).

It is written under `talk:` of a study in accord.yaml: who is talked with, about what, and what the assistants may read.
Nobody is told which of the assistants they have; who is next has had fewest conversations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, field_validator, model_validator

from accord.edges import is_web_address
from accord.values.scale import Frozen


class Topic(Frozen):
    """What a conversation is about."""

    text: str = Field(min_length=1, max_length=500, description="As the person reads it.")
    documents: tuple[str, ...] = Field(
        default=(), description="Ids of the documents that are given to assistants with `retrieves: given`."
    )


class Assistant(Frozen):
    """Somebody to talk with: a model, what it is told, and what it may read."""

    role: str | None = Field(default=None, description="Whose model it has: a role under `models:`.")
    model: str | None = Field(
        default=None, description="Or a model of its own: a name at an endpoint, `embedded:NAME`, `gguf:PATH`."
    )
    base_url: str | None = Field(default=None, description="Its OpenAI-compatible endpoint; default OPENAI_BASE_URL.")
    instructions: str = Field(default="", max_length=50_000, description="Its system message.")
    retrieves: Literal["nothing", "given", "topic", "messages"] = Field(
        default="nothing",
        description="Which documents it reads: none; those given with the topic; the best by BM25 for the topic, or "
        "for what was said so far.",
    )
    knows_topic: bool = Field(default=False, description="Whether it is told the topic.")
    max_tokens: int = Field(default=1024, ge=1, le=32_768, description="The longest reply.")
    temperature: float = Field(default=0.7, ge=0, le=2)
    streams: bool = Field(default=True, description="Show replies as they are written; not every endpoint can.")
    attempts: int = Field(default=3, ge=1, le=20, description="How often a failing call is tried in all.")
    timeout: float = Field(default=120.0, gt=0, le=3600, description="Seconds that one attempt may take.")

    @field_validator("base_url")
    @classmethod
    def _is_an_address(cls, url: str | None) -> str | None:
        if url is not None and not is_web_address(url):
            raise ValueError("an endpoint is an address that begins with http:// or https://")  # it may hold a secret
        return url

    @model_validator(mode="after")
    def _has_a_model(self) -> Assistant:
        if (self.role is None) == (self.model is None):
            raise ValueError("an assistant has the model of a `role`, or a `model` of its own: name one of the two")
        if self.role is not None and self.base_url is not None:
            raise ValueError("a `role` has its endpoint under `models:`; leave `base_url` out")
        return self


class TalkSettings(Frozen):
    """Who is talked with, and about what."""

    assistants: Mapping[str, Assistant] = Field(min_length=1, description="By name; nobody who talks is told a name.")
    topics: tuple[Topic, ...] = Field(min_length=1, max_length=100_000, description="Texts, or texts with documents.")
    documents: str | None = Field(
        default=None, description="What assistants may read: a folder of .txt and .md files, or a file of rows."
    )
    best: int = Field(default=5, ge=1, le=50, description="Documents that are retrieved at a time.")
    greeting: str = Field(default="", max_length=2000, description="What every assistant says first.")
    characters: int = Field(default=4000, ge=1, le=20_000, description="The longest message.")
    messages: int = Field(default=30, ge=1, le=500, description="The most messages of a person in one conversation.")
    conversations: int | None = Field(default=None, ge=1, description="The most conversations per person.")

    @field_validator("topics", mode="before")
    @classmethod
    def _texts_too(cls, found: object) -> object:
        if not isinstance(found, list | tuple):
            return found
        return [{"text": each} if isinstance(each, str) else each for each in found]

    @model_validator(mode="after")
    def _fits(self) -> TalkSettings:
        readers = [name for name, each in self.assistants.items() if each.retrieves != "nothing"]
        if readers and self.documents is None:
            raise ValueError(f"assistant {readers[0]!r} retrieves, and there are no `documents`")
        texts = [topic.text for topic in self.topics]
        if len(set(texts)) != len(texts):
            raise ValueError("a topic is named twice")
        return self
