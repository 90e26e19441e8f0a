"""Settings of a study in which annotators chat with an assistant and rate it (LLM-RUBRIC, appendix H).

They are written under `chat:` of a study in accord.yaml: the assistants, the topics and the documents. Annotators do
not see which assistant they have; the next conversation goes to the assistant with the fewest conversations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, field_validator, model_validator

from accord.edges import is_web_address
from accord.values.scale import FrozenModel


class Topic(FrozenModel):
    """Topic of a conversation."""

    text: str = Field(min_length=1, max_length=500, description="Text of the topic, shown to the annotator.")
    documents: tuple[str, ...] = Field(
        default=(), description="Ids of the documents for assistants with `retrieval: given`."
    )


class Assistant(FrozenModel):
    """Assistant of a chat study: a model, its instructions and its documents."""

    role: str | None = Field(default=None, description="Role under `models:` whose model is used.")
    model: str | None = Field(
        default=None, description="Model instead of a role: a name at an endpoint, `embedded:NAME` or `gguf:PATH`."
    )
    base_url: str | None = Field(default=None, description="OpenAI-compatible endpoint; default OPENAI_BASE_URL.")
    instructions: str = Field(default="", max_length=50_000, description="System message.")
    retrieval: Literal["nothing", "given", "topic", "messages"] = Field(
        default="nothing",
        description="Documents in the prompt: `nothing`; `given`: those of the topic; `topic`, `messages`: the best by "
        "BM25 for the topic or for the messages so far.",
    )
    knows_topic: bool = Field(default=False, description="Put the topic into the system message.")
    max_tokens: int = Field(default=1024, ge=1, le=32_768, description="Tokens of a reply, at most.")
    temperature: float = Field(default=0.7, ge=0, le=2, description="Sampling temperature.")
    stream: bool = Field(default=True, description="Stream replies; set false for an endpoint without streaming.")
    attempts: int = Field(default=3, ge=1, le=20, description="Attempts per request, at most.")
    timeout: float = Field(default=120.0, gt=0, le=3600, description="Seconds per attempt, at most.")

    @field_validator("base_url")
    @classmethod
    def _is_an_address(cls, url: str | None) -> str | None:
        if url is not None and not is_web_address(url):
            raise ValueError(
                "an endpoint is an address that begins with http:// or https://"
            )  # the address may contain a secret
        return url

    @model_validator(mode="after")
    def _has_a_model(self) -> Assistant:
        if (self.role is None) == (self.model is None):
            raise ValueError("an assistant needs either `role` or `model`, not both")
        if self.role is not None and self.base_url is not None:
            raise ValueError("an assistant with a `role` uses the endpoint under `models:`; remove `base_url`")
        return self


class ChatSettings(FrozenModel):
    """Settings of chats with assistants."""

    assistants: Mapping[str, Assistant] = Field(
        min_length=1, description="Assistants by name; annotators do not see the names."
    )
    topics: tuple[Topic, ...] = Field(min_length=1, max_length=100_000, description="Texts, or texts with documents.")
    documents: str | None = Field(
        default=None, description="Documents for retrieval: a folder of .txt and .md files, or a file of rows."
    )
    max_documents: int = Field(default=5, ge=1, le=50, description="Documents per retrieval, at most.")
    greeting: str = Field(default="", max_length=2000, description="First message of every assistant.")
    max_characters: int = Field(default=4000, ge=1, le=20_000, description="Characters of a message, at most.")
    max_messages: int = Field(
        default=30, ge=1, le=500, description="Messages of the annotator in one conversation, at most."
    )
    max_conversations: int | None = Field(default=None, ge=1, description="Conversations per annotator, at most.")

    @field_validator("topics", mode="before")
    @classmethod
    def _texts_too(cls, topics: object) -> object:
        if not isinstance(topics, list | tuple):
            return topics
        return [{"text": topic} if isinstance(topic, str) else topic for topic in topics]

    @model_validator(mode="after")
    def _fits(self) -> ChatSettings:
        readers = [name for name, assistant in self.assistants.items() if assistant.retrieval != "nothing"]
        if readers and self.documents is None:
            raise ValueError(f"assistant {readers[0]!r} retrieves documents, but the chat has no `documents`")
        texts = [topic.text for topic in self.topics]
        if len(set(texts)) != len(texts):
            raise ValueError("a topic is listed twice")
        return self
