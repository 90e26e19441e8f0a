"""Likelihood models: the log probability of messages, given all messages before them.

A model needs the probabilities of its prompt's own tokens for this: the embedded model, or an endpoint that supports
`echo` (`accord models check` tries it).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from accord.edges import BudgetReached, ModelError, NotSent
from accord.models.model import CallFailed, ChatMessage, Failure, Model, ModelWrapper, Usage
from accord.models.requests.budget import Budget
from accord.models.requests.client import Endpoint
from accord.models.requests.exchange import Assumption, Exchange, Missing
from accord.models.requests.flow import NOT_MEASURED, OUT_OF_BUDGET, Request
from accord.models.requests.reply_parsing import (
    read_usage,
    require_index,
    require_list,
    require_log_probability,
    require_object,
    require_text,
)
from accord.models.requests.request_ledger import RequestLedger
from accord.store import PaidRow, Store
from accord.values import content_hash

NO_ECHO = "no echo"
PASSAGES_TOGETHER = 64
"""Passages measured in this process before they are stored; an interruption loses at most this many."""


@dataclass(frozen=True, slots=True)
class LikelihoodRequest:
    """Messages whose likelihoods are requested.

    Attributes:
        messages: The messages in order.
        spoken: Indices of the messages to measure, each given all messages before it.
        conversations: As in `Prompt`.
    """

    messages: tuple[ChatMessage, ...]
    spoken: tuple[int, ...]
    conversations: tuple[str, ...] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Likelihood:
    """The natural log probability of one message, at most 0, and its number of tokens."""

    log_probability: float
    tokens: int


LikelihoodResult = tuple[Likelihood, ...] | Failure
"""One likelihood per measured message, or the reason for having none."""


class LikelihoodModel(Protocol):
    """A model that measures likelihoods of messages."""

    name: str

    def made_from(self, passage: LikelihoodRequest) -> Mapping[str, Any]:
        """Return everything that can change the answer, as JSON without secrets; the answer's key is its hash."""
        ...

    def requests(self, passages: Sequence[LikelihoodRequest]) -> Sequence[Any]:
        """Return the requests that `measure` sends, for pricing; empty for a model in this process."""
        return ()

    async def measure(self, passages: Sequence[LikelihoodRequest]) -> list[LikelihoodResult]:
        """Return one result per passage, in order; a ModelError means that no request can succeed."""
        ...

    async def close(self) -> None:
        """Close connections, if there are any."""
        return None


class LikelihoodExchange(Exchange[Request, tuple[Likelihood, ...]]):
    """Passages to a likelihood model."""

    not_sent = NOT_MEASURED
    hint = "run: accord judge"
    needs_all = True

    def __init__(self, likelihood: LikelihoodModel, store: Store, concurrency: int, budget: Budget) -> None:
        super().__init__(RequestLedger(store, store.replies, budget), likelihood.name)
        self._likelihood = likelihood
        # A request over a wire is paid for, so each passage is stored as soon as it is measured. A model in this
        # process reads passages with a common beginning together.
        is_wired = bool(likelihood.requests([LikelihoodRequest((), ())]))
        self.concurrency, self.together = (concurrency, 1) if is_wired else (1, PASSAGES_TOGETHER)

    def key(self, request: Request) -> str:
        """Return the hash of `LikelihoodModel.made_from`."""
        return content_hash(dict(self._likelihood.made_from(request.content)), length=40)

    async def ask(self, requests: Sequence[Request]) -> Sequence[tuple[Likelihood, ...] | Missing]:
        """Measure some passages."""
        try:
            return await self._likelihood.measure([request.content for request in requests])
        except ModelError as error:
            if self.cost(requests):
                raise
            raise NotSent(str(error)) from None

    def cost(self, requests: Sequence[Request], assume: Assumption = "stand_in") -> Sequence[Any]:
        """Return the model's requests. A model in this process sends no requests."""
        return self._likelihood.requests([request.content for request in requests])

    def encode(self, key: str, request: Request, answer: tuple[Likelihood, ...]) -> PaidRow:
        """Return likelihoods as JSON pairs of log probability and tokens."""
        content = json.dumps([[likelihood.log_probability, likelihood.tokens] for likelihood in answer])
        row = {"kind": "reply", "key": key, "maker": self.model, "content": content}
        return {**row, "conversations": request.content.conversations and list(request.content.conversations)}

    def decode(self, request: Request, stored: str) -> tuple[Likelihood, ...]:
        """Return likelihoods from JSON pairs."""
        return tuple(Likelihood(*pair) for pair in json.loads(stored))


@dataclass(frozen=True, slots=True)
class Echo:
    """A text whose token probabilities are requested."""

    text: str


@dataclass(frozen=True, slots=True)
class Echoed:
    """Tokens of a text: offset and log probability of each, given the tokens before it."""

    offsets: tuple[int, ...]
    log_probabilities: tuple[float | None, ...]
    usage: Usage = Usage()


class EchoCompletions(Endpoint):
    """Completions endpoint with `echo`, as in vLLM."""

    async def ask(self, question: Echo, /) -> Echoed:
        """Send one text; see `Endpoint.ask` and `read_echo` for errors."""
        body = {"model": self.name, "prompt": question.text, "echo": True, "max_tokens": 1, "logprobs": 1}
        return read_echo(await self.fetch("/completions", body), question.text, self.endpoint)


def read_echo(body: Any, text: str, endpoint: str) -> Echoed:
    """Return a text's token probabilities from the JSON of a completion.

    Raises:
        CallFailed: `no echo` if there are none; `malformed` or `no distribution` if they are invalid.
    """
    completion = require_object(body, "completion")
    choices = require_list(completion.get("choices"), "list of choices")
    choice = require_object(choices[0] if choices else None, "choice")
    logprobs = require_object(choice.get("logprobs") or {}, "logprobs")
    offsets = require_list(logprobs.get("text_offset") or [], "list of offsets")
    mass = require_list(logprobs.get("token_logprobs") or [], "list of log probabilities")
    echoed = require_text(choice.get("text"), "text")
    if not echoed.startswith(text) or not offsets or len(offsets) != len(mass):
        raise CallFailed(NO_ECHO, f"{endpoint} gave no probabilities of the prompt's own tokens")
    return Echoed(
        tuple(require_index(offset, "offset of a token", len(echoed) + 1) for offset in offsets),
        tuple(None if p is None else require_log_probability(p) for p in mass),
        read_usage(completion.get("usage")),
    )


class EchoLikelihood(ModelWrapper[Echo, Echoed]):
    """Likelihoods by an endpoint with `echo`: the passage is plain text, with a line `role: content` per message.

    The first request is sent alone and shows whether the endpoint supports `echo`; without support, no other is sent.
    """

    def __init__(self, model: Model[Echo, Echoed]) -> None:
        """`model` is the endpoint with its wrappers."""
        super().__init__(model)
        self._is_tried, self._first = False, asyncio.Lock()
        self._unsupported: Failure | None = None

    def made_from(self, passage: LikelihoodRequest) -> Mapping[str, Any]:
        """Return the endpoint, the model and the hash of the text."""
        return {"model": self.name, "endpoint": self.endpoint, "passage": passage_hash(passage)}

    def requests(self, passages: Sequence[LikelihoodRequest]) -> Sequence[Echo]:
        """Return one text per passage."""
        return [Echo(_plain(passage)[0]) for passage in passages]

    async def measure(self, passages: Sequence[LikelihoodRequest]) -> list[LikelihoodResult]:
        """Send one request per passage, as long as the endpoint supports `echo`."""
        return list(await asyncio.gather(*map(self._one, passages)))

    async def _one(self, passage: LikelihoodRequest) -> LikelihoodResult:
        if not self._is_tried:
            async with self._first:
                if not self._is_tried:
                    result = await self._send(passage)
                    self._is_tried = True
                    if isinstance(result, Failure) and result.reason == NO_ECHO:
                        self._unsupported = result
                    return result
        return self._unsupported or await self._send(passage)

    async def _send(self, passage: LikelihoodRequest) -> LikelihoodResult:
        text, spans = _plain(passage)
        try:
            echoed = await self._model.ask(Echo(text))
        except CallFailed as error:
            return error.failure
        except BudgetReached as error:
            return Failure(OUT_OF_BUDGET, str(error))
        likelihoods = tuple(_within(echoed, spans[index]) for index in passage.spoken)
        if not all(likelihood.tokens for likelihood in likelihoods):
            return Failure("no tokens", f"{self.name} gave no probability for any token of a reply")
        return likelihoods


def _plain(passage: LikelihoodRequest) -> tuple[str, list[range]]:
    """Return the passage as text, and the span of each message's content."""
    text, spans = "", []
    for message in passage.messages:
        text += f"{message.role}:"
        content = f" {message.content}"  # in most vocabularies a token begins with the space before its word
        spans.append(range(len(text), len(text) + len(content)))
        text += f"{content}\n"
    return text, spans


def _within(echoed: Echoed, span: range) -> Likelihood:
    """Return the likelihood of the tokens that begin in a span; the first token of a text has no probability."""
    pairs = zip(echoed.offsets, echoed.log_probabilities, strict=True)
    inside = [p for offset, p in pairs if offset in span and p is not None]
    return Likelihood(float(sum(inside)), len(inside))


def passage_hash(passage: LikelihoodRequest) -> str:
    """Return a hash of the messages and the measured indices."""
    return content_hash([[[m.role, m.content] for m in passage.messages], list(passage.spoken)])
