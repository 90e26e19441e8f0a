"""Interfaces of models: `ChatModel.ask` returns text, `Judge.answer` one distribution per question; their settings."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, Protocol, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, field_validator

from accord.edges import FROM_ENVIRONMENT, AccordError, is_web_address, project_that_set, redact, redact_message
from accord.values import Contract, JsonSchema, Question, Registry, Sample, content_hash


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a prompt."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """A request to a chat model.

    Attributes:
        messages: Messages in order.
        max_tokens: Maximum tokens of the reply.
        temperature: Sampling temperature.
        top_logprobs: Number of likeliest tokens to return for the first position; 0 for none.
        schema: JSON Schema of the reply.
        repeat: Number that makes equal prompts different requests.
        conversations: Conversations whose text, or text derived from it, the messages contain, or `None`
            if they are unknown. They are not part of the request.
    """

    messages: tuple[ChatMessage, ...]
    max_tokens: int = 1024
    temperature: float = 0.0
    top_logprobs: int = 0
    schema: JsonSchema | None = None
    repeat: int = 0
    conversations: tuple[str, ...] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of a request and its reply."""

    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def total(self) -> int:
        """Sum of input and output tokens."""
        return self.input_tokens + self.output_tokens

    def plus(self, other: Usage) -> Usage:
        """Return the sum of two usages."""
        return Usage(self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens)

    def minus(self, other: Usage) -> Usage:
        """Return the difference of two usages."""
        return Usage(self.input_tokens - other.input_tokens, self.output_tokens - other.output_tokens)


@dataclass(frozen=True, slots=True)
class Reply:
    """A chat model's reply.

    Attributes:
        text: The text.
        model: Name of the model that answered.
        first_token: Probability of each of the likeliest first tokens, or `None` if the endpoint omits them.
        usage: Tokens that the endpoint reports.
    """

    text: str
    model: str = ""
    first_token: Mapping[str, float] | None = None
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed request.

    Attributes:
        reason: One word to group failures by: `refused`, `timeout`, ...
        detail: A sentence.
        retry_after: Seconds until the endpoint accepts requests again, if known.
        is_sent: False if the request never left this machine, so that it does not count against a budget.
    """

    reason: str
    detail: str = ""
    retry_after: float | None = None
    is_sent: bool = True


class CallFailed(AccordError):
    """A failed request as an exception; batches of requests store its `failure` instead."""

    def __init__(self, reason: str, detail: str, retry_after: float | None = None, is_sent: bool = True) -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.failure = Failure(redact(reason), redact_message(detail), retry_after, is_sent)


Q = TypeVar("Q", contravariant=True)
A = TypeVar("A", covariant=True)


class Model(Protocol[Q, A]):
    """A model that answers questions. Wrappers (cache, limit, retries, budget) are models too.

    `endpoint` is part of the keys of stored answers; the same name at another endpoint is another model.

    A `ChatModel` takes a prompt (a sequence of `ChatMessage`) and returns a `Reply`:

    >>> import asyncio
    >>> class Echo(ChatModel):
    ...     name, endpoint = "echo", ""
    ...
    ...     async def ask(self, prompt):
    ...         return Reply(prompt[-1].content)
    >>> asyncio.run(Echo().ask([ChatMessage("user", "Hello!")])).text
    'Hello!'
    """

    name: str
    endpoint: str

    async def ask(self, question: Q, /) -> A:
        """Answer one question.

        Raises:
            CallFailed: This request failed; others may succeed.
            ModelError: No request can succeed (wrong key, no such model).
        """
        ...

    async def close(self) -> None:
        """Close connections, if there are any."""
        return None


class ModelWrapper(Generic[Q, A]):
    """A model, a judge or another object that asks a model and closes it."""

    def __init__(self, model: Model[Q, A]) -> None:
        self.name = model.name
        self.endpoint: str = getattr(model, "endpoint", "")
        self._model = model

    async def close(self) -> None:
        """Close the model's connections."""
        await self._model.close()


ChatModel = Model[Prompt, Reply]
"""A model that returns text: `ask(prompt) -> Reply`."""


EMBEDDED, GGUF, HF = "embedded:", "gguf:", "hf:"
"""Prefixes of models in this process: Accord's embedded model, GGUF files, Hugging Face folders."""


MADE = "accord.json"
"""Name of the file in a fine-tuned model's folder that describes its training."""

IN_PROCESS_CONTEXT = 8192
"""Maximum tokens of a request to a model in this process."""


def in_process(model: str) -> bool:
    """Return True if a model runs in this process, free and without an API key."""
    return model.startswith((EMBEDDED, GGUF, HF))


def located_model(model: str, folder: Path) -> str:
    """Return a model's name with the path of its file or folder relative to `folder`; other names stay as they are."""
    for prefix in (GGUF, HF):
        if model.startswith(prefix):
            return f"{prefix}{folder / model.removeprefix(prefix)}"
    return model


def key_of(name: str, question: Any) -> str:
    """Return the key of a question to a model: a hash of everything that can change the answer, without secrets."""
    return content_hash([name, type(question).__name__, question], length=40, default=_fields)


def _fields(value: Any) -> list[Any]:
    """Return the fields of a dataclass that are part of a request, in order."""
    kind: Any = type(value)
    return [getattr(value, name) for name in _names(kind)]


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind) if each.compare)


_WHOLE = json.JSONEncoder(default=_fields)


def estimated_usage(question: Any) -> Usage:
    """Return an upper estimate of a request's usage, without a tokenizer.

    Four bytes count as a token: scripts with more bytes per character have more tokens.
    """
    return Usage(estimated_tokens(question), int(getattr(question, "max_tokens", 0)))


def estimated_tokens(content: Any) -> int:
    """Return an upper estimate of the tokens of a text or dataclass; see `estimated_usage`."""
    return len(_WHOLE.encode(content)) // 4 + 1


MOST_CHARACTERS = 8
"""Maximum characters per token, as a mean over a text of any language."""


def least_tokens(content: Any) -> int:
    """Return a lower bound of the tokens of a text or dataclass."""
    return _characters(content) // MOST_CHARACTERS


def _characters(content: Any) -> int:
    if isinstance(content, str):
        return len(content)
    if isinstance(content, tuple):
        return sum(map(_characters, content))
    return sum(map(_characters, _fields(content))) if is_dataclass(content) else 0


@dataclass(frozen=True, slots=True)
class Answer:
    """A distribution over a question's options.

    Attributes:
        question: Id of the question.
        probabilities: Probability of each option, by the option's text.
        outside: Mass outside all options.
        version: Model version that the endpoint reports, such as a dated snapshot.
    """

    question: str
    probabilities: Mapping[str, float]
    outside: float = 0.0
    version: str = ""


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A question without an answer: a reason to group by, and a detail in words."""

    question: str
    reason: str
    detail: str = ""


FEW = 10
"""Maximum number of questions per request of a judge that writes its answers as text."""


def in_requests(judge: Judge, questions: Sequence[Question]) -> list[list[Question]]:
    """Return questions in groups, one request each.

    A judge that writes its answers gets questions about satisfaction and dissatisfaction in separate requests, so that
    one kind does not influence the other (RUBICON, section 3.1).
    """
    kinds: dict[object, list[Question]] = {}
    for question in questions:
        kinds.setdefault(question.side if judge.together <= FEW else None, []).append(question)
    size = judge.together
    return [kind[start : start + size] for kind in kinds.values() for start in range(0, len(kind), size)]


class NamedModel(Protocol):
    """A model's name and mode."""

    @property
    def name(self) -> str:
        """Name of the model."""
        ...

    @property
    def mode(self) -> str:
        """Way to obtain a distribution: `decisions`, `logprobs`, `sampling`, `verbalised` or `recorded`."""
        ...


class Judge(Protocol):
    """A model that returns a distribution per question about one sample.

    Attributes:
        name: Name of the model, part of the keys of its answers.
        mode: Way of asking, part of the signature of its answers.
        together: Maximum number of questions about one sample in one request.

    >>> import asyncio
    >>> from accord import Conversation, load_rubric
    >>> from accord.values import Sample
    >>> class Coin(Judge):
    ...     name, mode, together = "coin", "equal", 100
    ...
    ...     async def answer(self, sample, questions):
    ...         return [Answer(each.id, {str(option): 0.25 for option in each.scale.options}) for each in questions]
    >>> question = load_rubric("llm-rubric").main_question
    >>> asyncio.run(Coin().answer(Sample(Conversation("c1", ())), [question]))[0].probabilities
    {'1': 0.25, '2': 0.25, '3': 0.25, '4': 0.25}
    """

    name: str
    mode: str
    together: int

    def made_from(self, sample: Sample, question: Question) -> Mapping[str, Any]:
        """Return everything that can change the answer, as JSON without secrets; the answer's key is its hash.

        By default these are the name, the mode, the conversation and the question.
        """
        turns: list[Any] = [turn.to_json() for turn in sample.conversation.up_to(sample.turn)]
        turns += [sample.turn] if sample.is_step else []  # steps with one reply have the same turns
        documents = [document.to_json() for document in sample.conversation.documents]
        shown = {"input": content_hash([turns, documents, sample.hidden]), "question": question.key}
        return {"judge": self.name, "mode": self.mode, **shown}

    def requests(self, sample: Sample, questions: Sequence[Question]) -> Sequence[Any]:
        """Return the requests that `answer` sends for the same arguments, for pricing; empty for a recording."""
        return ()

    async def answer(self, sample: Sample, questions: Sequence[Question]) -> list[Answer | Unanswered]:
        """Return one answer per question, in order.

        Raises:
            ModelError: No request can succeed.
        """
        ...

    async def close(self) -> None:
        """Close connections, if there are any."""
        return None


# --- settings: an entry of `models:` in accord.yaml -------------------------------------------------------------------

URL_VARIABLE = "OPENAI_BASE_URL"
DEFAULT_URL = "https://api.openai.com/v1"
NO_ADDRESS = "an endpoint begins with http:// or https://; leave it out to use OPENAI_BASE_URL"
Mode = Literal["decisions", "systemone", "logprobs", "sampling", "verbalised", "recorded", "number"]
MODES: tuple[str, ...] = get_args(Mode)


def own_addresses() -> list[str]:
    """Return the addresses of models that the user chose independently of a project."""
    own = "" if project_that_set(URL_VARIABLE) else os.environ.get(URL_VARIABLE)
    return [DEFAULT_URL, *([own] if own else [])]


judge_modes: Registry[Callable[[ModelSettings, str], Judge]] = Registry(
    "judge",
    contract=Contract.function(
        2, "a function of the settings of a model and the instructions of a rubric that returns an accord.models.Judge",
        "check_judge",
    ),
)  # fmt: skip
"""Makers of judges by further modes; Accord's own modes are in `open_judge`."""


class Caps(BaseModel):
    """Caps of a run, or of all runs that share a budget; a run stops before the request that would exceed a cap."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    requests: int | None = Field(default=None, ge=0, description="Requests, including failed attempts.")
    tokens: int | None = Field(default=None, ge=0, description="Input and output tokens.")
    money: float | None = Field(
        default=None, ge=0, allow_inf_nan=False, description="Money, at the prices of prices.yaml."
    )
    shared: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="Name of a shared budget: all runs on the same store with this name share the caps.",
    )

    @property
    def any(self) -> bool:
        """Return True if there is a cap."""
        return (self.requests, self.tokens, self.money) != (None, None, None)


class ModelSettings(BaseModel):
    """Settings of one role's model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str | None = Field(
        default=None,
        description="Name of the model at its endpoint, `embedded:NAME`, `gguf:PATH` or `hf:FOLDER`; for a recording "
        "the name of one of its models.",
    )
    mode: Annotated[str, WithJsonSchema({"anyOf": [{"enum": list(MODES)}, {"type": "string"}]})] | None = Field(
        default=None,
        description="Way to obtain a distribution, for roles that give one (`judge`, `scorer`). No other way is tried. "
        "`number` reads the number that a scorer writes. A plug-in may bring further modes of judges.",
    )
    base_url: str | None = Field(
        default=None,
        json_schema_extra=FROM_ENVIRONMENT,
        description="OpenAI-compatible endpoint; default OPENAI_BASE_URL. May hold ${VARIABLE}.",
    )
    paths: list[str] = Field(default_factory=list, description="Files of recorded judgements, or benchmark folders.")
    context: int | None = Field(
        default=None,
        ge=512,
        description="Maximum tokens per request; longer conversations are shown in part, with a notice.",
    )
    samples: int = Field(default=10, ge=2, le=100, description="Replies per question in mode sampling.")
    concurrency: int = Field(default=64, ge=1, le=1024, description="Largest number of requests in progress.")
    attempts: int = Field(default=5, ge=1, le=20, description="Number of times a failing request is sent.")
    timeout: float = Field(
        default=120.0, gt=0, allow_inf_nan=False, description="Time limit of one attempt, in seconds."
    )

    @field_validator("mode")
    @classmethod
    def _is_known(cls, mode: str | None) -> str | None:
        if mode is not None and mode not in MODES and mode not in judge_modes:
            allowed = ", ".join([*MODES, *judge_modes.names()])
            raise ValueError(f"allowed: {allowed}; got {mode!r}. {judge_modes.elsewhere}")
        return mode

    @field_validator("base_url")
    @classmethod
    def _is_an_address(cls, url: str | None) -> str | None:
        if url is not None and not is_web_address(url):
            raise ValueError(NO_ADDRESS)  # without the address, which may hold a secret
        return url
