"""Embedders by name (in this process, sentence-transformers, an embeddings endpoint), and their stored vectors."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput, BudgetReached, MissingExtra, ModelError, Unmeasured, sendable
from accord.models.factory import ClientOptions, wrap_wire
from accord.models.model import CallFailed, Failure, Model, Unanswered, Usage
from accord.models.requests.budget import Budget, Budgeted
from accord.models.requests.client import Endpoint
from accord.models.requests.exchange import Assumption, Exchange, Missing, Plan, answer_all
from accord.models.requests.flow import EMBEDDER, NOT_ASKED, OUT_OF_BUDGET, gather_all, wait
from accord.models.requests.redacting import address_of, current_redactor
from accord.models.requests.reply_parsing import MALFORMED, read_usage, require_index, require_list, require_object
from accord.models.requests.request_ledger import RequestLedger
from accord.models.requests.wrappers import ATTEMPTS
from accord.store import VECTOR_DTYPE, PaidRow, Store, VectorCache
from accord.values import content_hash

Floats = NDArray[np.float32]

DEFAULT = "minilm-l6"
SENTENCE_TRANSFORMERS, ENDPOINT = "sentence-transformers:", "endpoint:"
AT_ONCE = 64
"""Texts per request."""
LONGEST, LONGEST_HERE = 24_000, 10_000
"""Maximum characters of a text that are sent to an endpoint, and that are read in this process."""
PASSING = frozenset({"timeout", "unreachable", "rate-limited", "server", OUT_OF_BUDGET})
"""Reasons for missing vectors that another request may resolve."""
KEPT = 16_384
FIRST_WORD = 1996
"""Index of the most frequent word in BERT's vocabulary; before it are punctuation, letters and unused entries."""


_payer: ContextVar[Budget | None] = ContextVar("payer", default=None)


@contextmanager
def paid_from(budget: Budget) -> Iterator[None]:
    """Charge the budget for embedders at endpoints that code in the block opens by name, as metrics do."""
    token = _payer.set(budget)
    try:
        yield
    finally:
        _payer.reset(token)


class Embedder(Protocol):
    """A model that turns texts into vectors of length 1; a text without a vector raises `Unmeasured`."""

    name: str

    @property
    def identity(self) -> str:
        """Identity in the keys of stored vectors: everything known that can change them, without secrets."""
        return self.name

    @staticmethod
    def redaction_of(name: str) -> str:
        """Return the signature of the redaction of texts for the embedder of this name; empty without one."""
        redactor = current_redactor(address_of(None)) if is_remote(name) else None
        return "" if redactor is None else redactor.signature

    def embed(self, text: str) -> Floats:
        """Return (width,) the vector of a text; all zero for a text without tokens."""
        ...

    def states(self, text: str) -> tuple[Floats, Floats]:
        """Return (n,) the weight of each token, and (n, width) its vector of length 1."""
        raise ModelError(f"{self.name} gives vectors of texts, not of tokens; BERTScore needs another embedder")

    def prepare(self, texts: Iterable[str]) -> None:
        """Embed texts in advance if embedding them together is cheaper."""
        return None


def open_remote(name: str, budget: Budget | None = None) -> Remote:
    """Open the embedder `endpoint:MODEL`; its requests are paid from the budget."""
    wire = EmbeddingsEndpoint(name.removeprefix(ENDPOINT))
    terms = ClientOptions() if budget is None else ClientOptions(budget=budget)
    return Remote(name, wrap_wire(wire, terms), wire.endpoint, is_paid=budget is not None)


@cache
def open_embedder(name: str) -> Embedder:
    """Open an embedder by name; nothing is loaded or sent before its first use.

    Args:
        name: A downloaded model (`accord models list`), `sentence-transformers:NAME`, or `endpoint:MODEL` at
            OPENAI_BASE_URL; empty for the default.

    Raises:
        BadInput: No embedder has this name.
        ModelError: The API key of the endpoint is missing.
    """
    if name in {SENTENCE_TRANSFORMERS, ENDPOINT}:
        raise BadInput(f"{name!r} has no model name after the colon")
    if name.startswith(SENTENCE_TRANSFORMERS):
        return SentenceTransformers(name.removeprefix(SENTENCE_TRANSFORMERS))
    if name.startswith(ENDPOINT):
        return open_remote(name)
    if name in {"", DEFAULT}:
        return Local(DEFAULT)
    raise BadInput(f"no embedder {name!r}; allowed: {DEFAULT}, {SENTENCE_TRANSFORMERS}NAME, {ENDPOINT}MODEL")


def idf(tokens: Sequence[int]) -> Floats:
    """Return (n,) the weight of each token, at least log 2.

    A WordPiece vocabulary is ordered by frequency, so by Zipf's law the logarithm of a token's rank approximates its
    inverse document frequency.
    """
    ranks = np.maximum(np.asarray(tokens) - FIRST_WORD, 0)
    return np.asarray(np.log(2.0 + ranks), dtype=np.float32)


def is_remote(name: str) -> bool:
    """Return True if the embedder of this name is at an endpoint."""
    return name.startswith(ENDPOINT)


class Local(Embedder):
    """The embedded sentence model (`accord models pull`)."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def _model(self) -> Any:
        return import_module("accord.embedded").open_sentence_embedder(self.name)

    @property
    def identity(self) -> str:
        """Name and the beginning of the SHA-256 of the weights."""
        return f"{self.name}:{self._model.fingerprint}"

    def embed(self, text: str) -> Floats:
        """Return the vector of a text."""
        vector: Floats = self._model.embed(text[:LONGEST_HERE])
        return vector

    def states(self, text: str) -> tuple[Floats, Floats]:
        """Return the weight and the vector of each token."""
        tokens, states = self._model.token_states(text[:LONGEST_HERE])
        return idf(tokens), states


class SentenceTransformers(Embedder):
    """A model of the sentence-transformers library (`accord[embedders]`), from its cache or hub."""

    def __init__(self, model: str) -> None:
        self.name = f"{SENTENCE_TRANSFORMERS}{model}"
        self._model_name = model
        self._encoded = lru_cache(KEPT)(self._encode)

    @property
    def _model(self) -> Any:
        return _sentence_transformer(self._model_name)

    def embed(self, text: str) -> Floats:
        """Return the vector of a text."""
        return self._encoded(text)

    def _encode(self, text: str) -> Floats:
        return _unit(self._model.encode([sendable(text[:LONGEST_HERE])], show_progress_bar=False)[0])

    def states(self, text: str) -> tuple[Floats, Floats]:
        """Return equal weights, since the vocabulary is unknown, and the vector of each token."""
        texts = [sendable(text[:LONGEST_HERE])]
        encoded = self._model.encode(texts, output_value="token_embeddings", show_progress_bar=False)[0]
        states = np.asarray(getattr(encoded, "cpu", lambda: encoded)(), dtype=np.float32)[1:-1]
        lengths = np.linalg.norm(states, axis=1, keepdims=True)
        weights = np.ones(len(states), dtype=np.float32)
        return weights, np.asarray(states / np.where(lengths > 0, lengths, 1), dtype=np.float32)


@cache
def _sentence_transformer(name: str) -> Any:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise MissingExtra("sentence-transformers", "embedders") from None
    return SentenceTransformer(name)


@dataclass(frozen=True, slots=True)
class EmbeddingRequest:
    """Texts to embed in one request."""

    texts: tuple[str, ...]

    @property
    def text(self) -> str:
        """All texts, to estimate the usage."""
        return "\n".join(self.texts)


@dataclass(frozen=True, slots=True)
class EmbeddingReply:
    """One vector per text, in order."""

    vectors: tuple[tuple[float, ...], ...]
    usage: Usage = Usage()


class EmbeddingsEndpoint(Endpoint):
    """An embeddings model at an OpenAI-compatible endpoint."""

    async def ask(self, question: EmbeddingRequest, /) -> EmbeddingReply:
        """Send some texts; another number of vectors is `malformed` (see `Endpoint.ask`)."""
        body = {"model": self.name, "input": list(question.texts), "encoding_format": "float"}
        reply = require_object(await self.fetch("/embeddings", body), "list of vectors")
        vectors: dict[int, tuple[float, ...]] = {}
        for row in require_list(reply.get("data"), "list of vectors"):
            place = require_index(require_object(row, "vector").get("index"), "index of a vector", len(question.texts))
            vectors[place] = _vector(row.get("embedding"))
        if len(vectors) < max(len(question.texts), len(reply["data"])):
            raise CallFailed(MALFORMED, f"{self.endpoint} gave {len(vectors)} vectors of {len(question.texts)}")
        return EmbeddingReply(
            tuple(vectors[place] for place in range(len(question.texts))), read_usage(reply.get("usage"))
        )


def _vector(value: Any) -> tuple[float, ...]:
    numbers = require_list(value, "vector")
    if not numbers or any(isinstance(x, bool) or not isinstance(x, int | float) for x in numbers):
        raise CallFailed(MALFORMED, "a vector is not a list of numbers")
    try:
        return tuple(map(float, numbers))
    except OverflowError:
        raise CallFailed(MALFORMED, "a number in a vector is too large for a float") from None


class Remote(Embedder):
    """An embeddings endpoint, with a cache of vectors in memory."""

    def __init__(
        self, name: str, model: Model[EmbeddingRequest, EmbeddingReply], address: str = "", is_paid: bool = True
    ) -> None:
        """`address` is the endpoint without secrets; unless `is_paid`, requests are paid from `paid_from`."""
        self.name = name
        self._address = address
        self._model = model
        self._is_paid = is_paid
        self._known: dict[str, Floats | str] = {}
        self._width = 0
        self._budget_detail = ""

    @property
    def identity(self) -> str:
        """Name and endpoint; the same name at another endpoint is another model."""
        return f"{self.name} {self._address}"

    def embed(self, text: str) -> Floats:
        """Return the vector of a text.

        Raises:
            Unmeasured: The endpoint returned no vector.
            BudgetReached: The request could exceed the budget.
            ModelError: No request can succeed: wrong key, no such model.
        """
        self.prepare([text])
        sent = self._sent(text)
        vector = self._known[sent]
        if isinstance(vector, str):
            if vector in PASSING:
                del self._known[sent]
            if vector == OUT_OF_BUDGET:
                raise BudgetReached(self._budget_detail)
            raise Unmeasured(f"no embedding: {vector}")
        return vector

    def prepare(self, texts: Iterable[str]) -> None:
        """Embed the texts without a known vector, many per request; a failed request is repeated text by text."""
        unique = dict.fromkeys(map(self._sent, texts))
        for text in unique.keys() & self._known.keys():
            self._known[text] = self._known.pop(text)  # moves them to the end, to be dropped last
        new = [text for text in unique if text not in self._known]
        for old in list(self._known)[: max(len(self._known) + len(new) - KEPT, 0) if new else 0]:
            del self._known[old]
        parts = [new[start : start + AT_ONCE] for start in range(0, len(new), AT_ONCE)]
        payer = None if self._is_paid else _payer.get()
        model = self._model if payer is None else Budgeted(self._model, payer)
        for part in wait(gather_all(self._request(part, model) for part in parts)) if parts else ():
            self._known.update(part)

    def _sent(self, text: str) -> str:
        """Return a text as it is sent: of limited length, and with placeholders to another machine."""
        redactor = current_redactor(self._address)
        return sendable((text if redactor is None else redactor.begin().text(text))[:LONGEST])

    def close(self) -> None:
        """Close connections."""
        wait(self._model.close())

    async def _request(
        self, texts: Sequence[str], model: Model[EmbeddingRequest, EmbeddingReply]
    ) -> dict[str, Floats | str]:
        """Return the vector of each text, or the reason for having none."""
        try:
            reply = await model.ask(EmbeddingRequest(tuple(text or " " for text in texts)))
        except BudgetReached as error:
            self._budget_detail = str(error)
            return dict.fromkeys(texts, OUT_OF_BUDGET)
        except CallFailed as error:
            if len(texts) == 1 or error.failure.reason in PASSING:
                return dict.fromkeys(texts, error.failure.reason)
            singly = await asyncio.gather(*(self._request([text], model) for text in texts))
            return {text: vector for result in singly for text, vector in result.items()}
        return {text: self._checked(vector) for text, vector in zip(texts, reply.vectors, strict=True)}

    def _checked(self, vector: Sequence[float]) -> Floats | str:
        """Return the vector scaled to length 1, or `malformed` if it is not finite or of another width."""
        self._width = self._width or len(vector)
        return _unit(vector) if len(vector) == self._width and np.isfinite(vector).all() else "malformed"


def _unit(vector: Any) -> Floats:
    array = np.asarray(vector, dtype=np.float32)
    length = float(np.linalg.norm(array))
    return array / length if length > 0 else array


# --- stored vectors -------------------------------------------------------------------------------------------------

TEXTS_TOGETHER = 512
"""Texts that are embedded before their vectors are stored; an interruption loses at most this many."""
STAND_IN_WIDTH = 8
"""Width of the random vectors in a plan if no vector is stored."""


class EmbeddingExchange(Exchange[str, Floats]):
    """Texts to an embedder. All vectors of one embedder have the same width."""

    role = EMBEDDER
    attempts = ATTEMPTS
    not_sent = NOT_ASKED
    hint = "run: accord fit"
    together = TEXTS_TOGETHER
    needs_all = True
    counts_questions = False

    def __init__(
        self,
        embedder: Embedder,
        store: Store,
        budget: Budget | None = None,
        width: int | None = None,
        sources: Mapping[str, Sequence[str] | None] | None = None,
    ) -> None:
        """`width` is the width of a plan's random vectors, by default the width of the stored vectors.

        `sources` has the conversations of each text; None, or no entry, if they are unknown.
        """
        self._sources = sources or {}
        self.embedder, self.cache, self._width = embedder, VectorCache(store), width
        self._identity = embedder.identity
        self._widths: set[int] = set()
        super().__init__(RequestLedger(store, self.cache.vectors, budget), embedder.name)

    def key(self, request: str) -> str:
        """Return the hash of embedder and text."""
        return content_hash([self._identity, request], length=40)

    async def ask(self, requests: Sequence[str]) -> list[Floats | Missing]:
        """Embed some texts in a thread of their own.

        Raises:
            ModelError: The vectors have another width than those in the store.
        """
        answers = await asyncio.to_thread(self._embed, requests)
        for vector in answers:
            if not isinstance(vector, Failure | Unanswered):
                self._check_width(vector)
        return answers

    def _embed(self, texts: Sequence[str]) -> list[Floats | Missing]:
        self.embedder.prepare(texts)
        answers: list[Floats | Missing] = []
        for text in texts:
            try:
                answers.append(np.asarray(self.embedder.embed(text), dtype=np.float32))
            except Unmeasured as error:
                answers.append(Failure("unmeasured", str(error)))
            except BudgetReached as error:
                left = len(texts) - len(answers)
                return answers + [Failure(OUT_OF_BUDGET, str(error))] * left
        return answers

    def cost(self, requests: Sequence[str], assume: Assumption = "stand_in") -> list[EmbeddingRequest]:
        """Return the endpoint's requests; texts of a request that is rejected are embedded one by one."""
        if not is_remote(self.model):
            return []
        groups = [
            EmbeddingRequest(tuple(requests[start : start + AT_ONCE])) for start in range(0, len(requests), AT_ONCE)
        ]
        single = [EmbeddingRequest((text,)) for group in groups if len(group.texts) > 1 for text in group.texts]
        return groups + single if assume == "most" else groups

    def encode(self, key: str, request: str, answer: Floats) -> PaidRow:
        """Return a vector as bytes."""
        sources = self._sources.get(request)
        return {
            "kind": "vector", "key": key, "maker": self._identity, "bytes": answer.astype(VECTOR_DTYPE).tobytes(),
            "conversations": None if sources is None else list(sources),
        }  # fmt: skip

    def decode(self, request: str, stored: Floats) -> Floats:
        """Return a stored vector."""
        self._check_width(stored)
        return stored

    def _check_width(self, vector: Floats) -> None:
        self._widths.add(len(vector))
        if len(self._widths) > 1:
            raise ModelError(
                f"{self.model} gives vectors of {' and of '.join(map(str, sorted(self._widths)))} numbers: another "
                "model has this name now. Use another store, or another embedder."
            )

    def check(self, answers: Mapping[str, Floats | Missing]) -> None:
        """Raise ModelError if a text has no vector."""
        failed = [a for a in answers.values() if isinstance(a, Failure) and a.reason != OUT_OF_BUDGET]
        if failed:
            raise ModelError(
                f"{self.model} has no vector for {len(failed)} of {len(answers)} texts; {failed[0].detail}. "
                "The other vectors are stored: run the command again to continue."
            )

    def assumed(self, request: str, plan: Plan) -> Floats:
        """Draw a unit vector for a text."""
        plan.has_follow_ups = True
        self._width = self._width or self.cache.width(self._identity) or STAND_IN_WIDTH
        return random_vector(self.key(request), self._width)


def random_vector(key: str, width: int) -> Floats:
    """Draw the unit vector that stands in for a text in a plan."""
    return _unit(np.random.default_rng(list(key.encode())).standard_normal(width))


def embed(texts: Sequence[str], embedder: Embedder, store: Store, budget: Budget | None = None) -> Floats:
    """Return (n, width) the vectors of texts, in order; (0, 0) for no texts. See `embed_all` for errors."""
    if not texts:
        return np.zeros((0, 0), dtype=np.float32)
    return np.stack(wait(embed_all(texts, embedder, store, budget)))


async def embed_all(
    texts: Sequence[str],
    embedder: Embedder,
    store: Store,
    budget: Budget | None = None,
    sources: Mapping[str, Sequence[str] | None] | None = None,
) -> list[Floats]:
    """Return the vector of each text; equal texts are embedded once, and new vectors are stored.

    `sources` has the conversations of each text (see `EmbeddingExchange`).

    Raises:
        ModelError: A text has no vector, or one of another width than the others; the other vectors are stored.
        BudgetReached: The next request could exceed the budget; earlier vectors are stored.
        StoreError: The store failed; vectors that were paid for are spooled.
    """
    exchange = await asyncio.to_thread(EmbeddingExchange, embedder, store, budget, sources=sources)
    async with exchange.ledger.closing():
        return await answer_all(exchange, texts)  # type: ignore[return-value]  # none is a failure
