"""The two seams to a model: `ChatModel.ask` gives text, `Judge.answer` gives one distribution per question."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeVar

from accord.edges import AccordError, redacted, redacted_message
from accord.values import JsonSchema, Question, Sample, content_hash


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a prompt."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """What is asked of a chat model.

    `top_logprobs` > 0 asks for the likeliest tokens at the first position; a `schema` for JSON that keeps it;
    `repeat` tells apart equal prompts that are asked on purpose several times.
    """

    messages: tuple[ChatMessage, ...]
    max_tokens: int = 1024
    temperature: float = 0.0
    top_logprobs: int = 0
    schema: JsonSchema | None = None
    repeat: int = 0


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens a call was billed for."""

    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def total(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens

    def plus(self, other: Usage) -> Usage:
        """Both added up."""
        return Usage(self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens)

    def minus(self, other: Usage) -> Usage:
        """The difference."""
        return Usage(self.input_tokens - other.input_tokens, self.output_tokens - other.output_tokens)


@dataclass(frozen=True, slots=True)
class Reply:
    """What a chat model answered.

    `first_token` holds the probability of each of the likeliest first tokens, where they were asked for and the
    endpoint gave them; `None` says that it gave none.
    """

    text: str
    model: str = ""
    first_token: Mapping[str, float] | None = None
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed call.

    Attributes:
        reason: One word to count by: `refused`, `timeout`, ...
        detail: A sentence.
        retry_after: Seconds until the endpoint accepts requests again, if known.
        is_sent: False if the request never left this machine, so that it does not count against a budget.
    """

    reason: str
    detail: str = ""
    retry_after: float | None = None
    is_sent: bool = True


class CallFailed(AccordError):
    """Raised at the edge by a model whose call failed; batches turn it into its `Failure`."""

    def __init__(self, reason: str, detail: str, retry_after: float | None = None, is_sent: bool = True) -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.failure = Failure(redacted(reason), redacted_message(detail), retry_after, is_sent)


Q = TypeVar("Q", contravariant=True)
A = TypeVar("A", covariant=True)


class Model(Protocol[Q, A]):
    """Something that answers over a wire. Wrappers (cache, limit, retry, budget) are models themselves."""

    name: str

    async def ask(self, question: Q, /) -> A:
        """Answer one question.

        Raises:
            CallFailed: This call failed; others may succeed.
            ModelError: No call can succeed (wrong key, no such model).
        """
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


ChatModel = Model[Prompt, Reply]
"""The seam for text: `ask(prompt) -> Reply`."""


EMBEDDED, GGUF, HF = "embedded:", "gguf:", "hf:"
"""What the names of models in this process begin with: Accord's own small one, GGUF files, Hugging Face folders."""


MADE = "accord.json"
"""File that Accord's fine-tuning leaves beside a model's weights: how the model was trained."""

IN_PROCESS_CONTEXT = 8192
"""Tokens that a model in this process is given to read."""


def in_process(model: str) -> bool:
    """Whether a model's name says that it runs here, costs nothing and needs no key."""
    return model.startswith((EMBEDDED, GGUF, HF))


def located_model(model: str, folder: Path) -> str:
    """Return a model's name with the path of its file or folder relative to `folder`; other names stay as they are."""
    for prefix in (GGUF, HF):
        if model.startswith(prefix):
            return f"{prefix}{folder / model.removeprefix(prefix)}"
    return model


def key_of(name: str, question: Any) -> str:
    """The key of a question to a model: all that can change the answer, and no secret."""
    return content_hash([name, type(question).__name__, question], length=40, default=_fields)


def _fields(value: Any) -> list[Any]:
    """A frozen value's fields in their order."""
    kind: Any = type(value)
    return [getattr(value, name) for name in _names(kind)]


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


_WHOLE = json.JSONEncoder(default=_fields)


def estimated_usage(question: Any) -> Usage:
    """What a call may use at the most, before any tokenizer has seen it.

    Four bytes make a token of English; scripts that need more bytes a character need more tokens too.
    """
    return Usage(estimated_tokens(question), int(getattr(question, "max_tokens", 0)))


def estimated_tokens(content: Any) -> int:
    """Tokens that a text, or the texts of a frozen value, may have at the most; see `estimated_usage`."""
    return len(_WHOLE.encode(content)) // 4 + 1


MOST_CHARACTERS = 8
"""Characters that a tokenizer puts into one token, on average over a text of any language, at the most."""


def least_tokens(content: Any) -> int:
    """Tokens that a text, or the texts of a frozen value, have at the least."""
    return _characters(content) // MOST_CHARACTERS


def _characters(content: Any) -> int:
    if isinstance(content, str):
        return len(content)
    if isinstance(content, tuple):
        return sum(map(_characters, content))
    return sum(map(_characters, _fields(content))) if is_dataclass(content) else 0


@dataclass(frozen=True, slots=True)
class Answer:
    """One question's distribution: a probability per option, by the option's text, and the mass outside them all.

    `version` is what the endpoint says answered (a dated snapshot, say), which may change under one name.
    """

    question: str
    probabilities: Mapping[str, float]
    outside: float = 0.0
    version: str = ""


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A question without an answer, and why: one word to count by, and a sentence."""

    question: str
    reason: str
    detail: str = ""


FEW = 10
"""A judge that takes no more questions than this together writes its answers itself."""


def in_requests(judge: Judge, questions: Sequence[Question]) -> list[list[Question]]:
    """Questions in groups that go into one request.

    A judge that writes its answers is asked apart about what speaks for a conversation and what speaks against it, so
    that no answer leans on the other kind (RUBICON, section 3.1); others take them together.
    """
    kinds: dict[object, list[Question]] = {}
    for question in questions:
        kinds.setdefault(question.side if judge.together <= FEW else None, []).append(question)
    size = judge.together
    return [kind[start : start + size] for kind in kinds.values() for start in range(0, len(kind), size)]


class Judge(Protocol):
    """Distributions out: every question about one subject at once, so that a wire can send them together."""

    @property
    def name(self) -> str:
        """The judging model's name."""
        ...

    @property
    def mode(self) -> str:
        """How a distribution is obtained: `decisions`, `logprobs`, `sampling`, `verbalised` or `recorded`."""
        ...

    @property
    def together(self) -> int:
        """How many questions about one subject go into one request."""
        ...

    def made_from(self, sample: Sample, question: Question) -> Mapping[str, Any]:
        """Everything that can change the answer, as JSON: the answer's key is its hash. No secrets."""
        ...

    def requests(self, sample: Sample, questions: Sequence[Question]) -> Sequence[Any]:
        """What `answer` would send for the same arguments, so that it can be priced; nothing for a recording."""
        ...

    async def answer(self, sample: Sample, questions: Sequence[Question]) -> list[Answer | Unanswered]:
        """One answer per question, in their order.

        Raises:
            ModelError: No call can succeed.
        """
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...
