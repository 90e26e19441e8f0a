"""Embedders by name: the small one in this process, sentence-transformers, or an embeddings endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, lru_cache
from importlib import import_module
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput, BudgetReached, MissingExtra, ModelError, Unmeasured, sendable
from accord.models.budget import Budget, Budgeted
from accord.models.client import EmbeddingReply, EmbeddingRequest, EmbeddingsEndpoint
from accord.models.factory import ClientOptions, wrap_wire
from accord.models.flow import OUT_OF_BUDGET, gather_all, wait
from accord.models.model import CallFailed, Model

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
        ...

    def embed(self, text: str) -> Floats:
        """Return (width,) the vector of a text; all zero for a text without tokens."""
        ...

    def states(self, text: str) -> tuple[Floats, Floats]:
        """Return (n,) the weight of each token, and (n, width) its vector of length 1."""
        ...

    def prepare(self, texts: Iterable[str]) -> None:
        """Embed texts in advance if embedding them together is cheaper."""
        ...


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
        ModelError: There is no API key for the endpoint.
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


class Local:
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

    def prepare(self, texts: Iterable[str]) -> None:
        """Do nothing: embedding texts one by one costs the same."""


class SentenceTransformers:
    """A model of the sentence-transformers library (`accord[embedders]`), from its cache or hub."""

    def __init__(self, model: str) -> None:
        self.name = f"{SENTENCE_TRANSFORMERS}{model}"
        self._model_name = model
        self.embed = lru_cache(KEPT)(self._embed)

    @property
    def identity(self) -> str:
        """Name of the model; the library does not identify its weights."""
        return self.name

    @property
    def _model(self) -> Any:
        return _sentence_transformer(self._model_name)

    def _embed(self, text: str) -> Floats:
        return _unit(self._model.encode([sendable(text[:LONGEST_HERE])], show_progress_bar=False)[0])

    def states(self, text: str) -> tuple[Floats, Floats]:
        """Return equal weights, since the vocabulary is unknown, and the vector of each token."""
        texts = [sendable(text[:LONGEST_HERE])]
        encoded = self._model.encode(texts, output_value="token_embeddings", show_progress_bar=False)[0]
        states = np.asarray(getattr(encoded, "cpu", lambda: encoded)(), dtype=np.float32)[1:-1]
        lengths = np.linalg.norm(states, axis=1, keepdims=True)
        weights = np.ones(len(states), dtype=np.float32)
        return weights, np.asarray(states / np.where(lengths > 0, lengths, 1), dtype=np.float32)

    def prepare(self, texts: Iterable[str]) -> None:
        """Do nothing: live scoring embeds one text at a time too."""


@cache
def _sentence_transformer(name: str) -> Any:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise MissingExtra("sentence-transformers", "embedders") from None
    return SentenceTransformer(name)


class Remote:
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
        vector = self._known[_sent(text)]
        if isinstance(vector, str):
            if vector in PASSING:
                del self._known[_sent(text)]
            if vector == OUT_OF_BUDGET:
                raise BudgetReached(self._budget_detail)
            raise Unmeasured(f"no embedding: {vector}")
        return vector

    def states(self, text: str) -> tuple[Floats, Floats]:
        """Raise ModelError: an endpoint returns no vectors of tokens."""
        raise ModelError(f"{self.name} gives vectors of texts, not of tokens; BERTScore needs another embedder")

    def prepare(self, texts: Iterable[str]) -> None:
        """Embed the texts without a known vector, many per request; a failed request is repeated text by text."""
        unique = dict.fromkeys(map(_sent, texts))
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


def _sent(text: str) -> str:
    return sendable(text[:LONGEST])


def _unit(vector: Any) -> Floats:
    array = np.asarray(vector, dtype=np.float32)
    length = float(np.linalg.norm(array))
    return array / length if length > 0 else array
