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
from accord.models.flow import OUT_OF_BUDGET, wait
from accord.models.model import CallFailed, Model

Floats = NDArray[np.float32]

DEFAULT = "minilm-l6"
SENTENCE_TRANSFORMERS, ENDPOINT = "sentence-transformers:", "endpoint:"
AT_ONCE = 64
"""Texts of one request."""
LONGEST, LONGEST_HERE = 24_000, 10_000
"""Characters of a text that an endpoint is sent, and that are read in this process: the rest is not looked at."""
PASSING = frozenset({"timeout", "unreachable", "rate-limited", "server", OUT_OF_BUDGET})
"""Why a text was not embedded this time, and may be the next."""
KEPT = 16_384
FIRST_WORD = 1996
"""Place of the most frequent word in BERT's vocabulary; before it stand marks, letters and unused entries."""


_payer: ContextVar[Budget | None] = ContextVar("payer", default=None)


@contextmanager
def paid_from(budget: Budget) -> Iterator[None]:
    """Whatever an endpoint's embedder is asked for by name meanwhile, as metrics do, is paid from the budget."""
    before = _payer.set(budget)
    try:
        yield
    finally:
        _payer.reset(before)


class Embedder(Protocol):
    """Texts to vectors of length 1. What it cannot embed raises `Unmeasured`."""

    name: str

    @property
    def identity(self) -> str:
        """What its vectors are kept under: all that can change them, as far as it can be known; no secret."""
        ...

    def embed(self, text: str) -> Floats:
        """(width,) a text's vector; all zero for a text without a token."""
        ...

    def states(self, text: str) -> tuple[Floats, Floats]:
        """(n,) how much each token weighs, and (n, width) its vector, of length 1."""
        ...

    def prepare(self, texts: Iterable[str]) -> None:
        """Embed ahead what will be asked for, where that is cheaper together."""
        ...


def open_remote(name: str, budget: Budget | None = None) -> Remote:
    """The endpoint's embedder of a name `endpoint:MODEL`; what it is asked is paid from the budget."""
    wire = EmbeddingsEndpoint(name.removeprefix(ENDPOINT))
    terms = ClientOptions() if budget is None else ClientOptions(budget=budget)
    return Remote(name, wrap_wire(wire, terms), wire.endpoint, is_paid=budget is not None)


@cache
def open_embedder(name: str) -> Embedder:
    """The embedder of a name; nothing is loaded or sent before it is asked.

    Args:
        name: A pulled model (`accord models list`), `sentence-transformers:NAME`, or `endpoint:MODEL` at
            OPENAI_BASE_URL; empty for the default.

    Raises:
        BadInput: The name says nothing of this kind.
        ModelError: There is no key for the endpoint.
    """
    if name in {SENTENCE_TRANSFORMERS, ENDPOINT}:
        raise BadInput(f"{name!r} names no model; write it behind the colon")
    if name.startswith(SENTENCE_TRANSFORMERS):
        return SentenceTransformers(name.removeprefix(SENTENCE_TRANSFORMERS))
    if name.startswith(ENDPOINT):
        return open_remote(name)
    if name in {"", DEFAULT}:
        return Local(DEFAULT)
    raise BadInput(f"no embedder {name!r}; allowed: {DEFAULT}, {SENTENCE_TRANSFORMERS}NAME, {ENDPOINT}MODEL")


def idf(tokens: Sequence[int]) -> Floats:
    """(n,) each token's weight, at least log 2.

    A WordPiece vocabulary is in the order of frequency: by Zipf's law the logarithm of a token's place stands in for
    its idf.
    """
    places = np.maximum(np.asarray(tokens) - FIRST_WORD, 0)
    return np.asarray(np.log(2.0 + places), dtype=np.float32)


def is_remote(name: str) -> bool:
    """Whether an embedder of this name is asked over the network."""
    return name.startswith(ENDPOINT)


class Local:
    """The small embedder in this process (`accord models pull`)."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def _model(self) -> Any:
        return import_module("accord.embedded").open_sentence_embedder(self.name)

    @property
    def identity(self) -> str:
        """Its name and the beginning of its weights' SHA-256."""
        return f"{self.name}:{self._model.fingerprint}"

    def embed(self, text: str) -> Floats:
        """A text's vector."""
        vector: Floats = self._model.embed(text[:LONGEST_HERE])
        return vector

    def states(self, text: str) -> tuple[Floats, Floats]:
        """Each token's idf and vector."""
        tokens, states = self._model.token_states(text[:LONGEST_HERE])
        return idf(tokens), states

    def prepare(self, texts: Iterable[str]) -> None:
        """Nothing is cheaper together."""


class SentenceTransformers:
    """A model of the sentence-transformers library (`accord[embedders]`), from its own cache or hub."""

    def __init__(self, model: str) -> None:
        self.name = f"{SENTENCE_TRANSFORMERS}{model}"
        self._called = model
        self.embed = lru_cache(KEPT)(self._embed)

    @property
    def identity(self) -> str:
        """Its name: the library tells of no weights."""
        return self.name

    @property
    def _model(self) -> Any:
        return _sentence_transformer(self._called)

    def _embed(self, text: str) -> Floats:
        return _unit(self._model.encode([sendable(text[:LONGEST_HERE])], show_progress_bar=False)[0])

    def states(self, text: str) -> tuple[Floats, Floats]:
        """Every token weighs the same: of an unknown vocabulary nothing is known."""
        shown = sendable(text[:LONGEST_HERE])
        found = self._model.encode([shown], output_value="token_embeddings", show_progress_bar=False)[0]
        states = np.asarray(getattr(found, "cpu", lambda: found)(), dtype=np.float32)[1:-1]
        lengths = np.linalg.norm(states, axis=1, keepdims=True)
        weights = np.ones(len(states), dtype=np.float32)
        return weights, np.asarray(states / np.where(lengths > 0, lengths, 1), dtype=np.float32)

    def prepare(self, texts: Iterable[str]) -> None:
        """Nothing: a text at a time is what live scoring does too."""


@cache
def _sentence_transformer(name: str) -> Any:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise MissingExtra("sentence-transformers", "embedders") from None
    return SentenceTransformer(name)


class Remote:
    """An embeddings endpoint; what it answered is remembered as long as this process lives."""

    def __init__(
        self, name: str, model: Model[EmbeddingRequest, EmbeddingReply], address: str = "", is_paid: bool = True
    ) -> None:
        """`address` is where the model answers, without a secret; one that is not paid yet pays from `paid_from`."""
        self.name = name
        self._address = address
        self._model = model
        self._is_paid = is_paid
        self._known: dict[str, Floats | str] = {}
        self._width = 0
        self._over = ""

    @property
    def identity(self) -> str:
        """Its name and where it answers: the same name elsewhere is another model."""
        return f"{self.name} {self._address}"

    def embed(self, text: str) -> Floats:
        """A text's vector.

        Raises:
            Unmeasured: The endpoint did not give it.
            BudgetReached: It was not asked, since that could pass the budget.
            ModelError: It never will: wrong key, no such model.
        """
        self.prepare([text])
        found = self._known[_sent(text)]
        if isinstance(found, str):
            if found in PASSING:
                del self._known[_sent(text)]
            if found == OUT_OF_BUDGET:
                raise BudgetReached(self._over)
            raise Unmeasured(f"no embedding: {found}")
        return found

    def states(self, text: str) -> tuple[Floats, Floats]:
        """An endpoint tells of no tokens.

        Raises:
            ModelError: Always.
        """
        raise ModelError(f"{self.name} gives vectors of texts, not of tokens; BERTScore needs another embedder")

    def prepare(self, texts: Iterable[str]) -> None:
        """Ask for what is not known yet, many texts a request; a request that fails is asked for text by text."""
        wanted = dict.fromkeys(map(_sent, texts))
        for text in wanted.keys() & self._known.keys():
            self._known[text] = self._known.pop(text)  # of those that are let go of, they are the last
        new = [text for text in wanted if text not in self._known]
        for old in list(self._known)[: max(len(self._known) + len(new) - KEPT, 0) if new else 0]:
            del self._known[old]
        parts = [new[start : start + AT_ONCE] for start in range(0, len(new), AT_ONCE)]
        payer = None if self._is_paid else _payer.get()
        model = self._model if payer is None else Budgeted(self._model, payer)
        for part in wait(_gathered([self._asked(part, model) for part in parts])) if parts else ():
            self._known.update(part)

    def close(self) -> None:
        """Let go of connections."""
        wait(self._model.close())

    async def _asked(
        self, texts: Sequence[str], model: Model[EmbeddingRequest, EmbeddingReply]
    ) -> dict[str, Floats | str]:
        """Vectors, or reasons why there are none."""
        try:
            found = await model.ask(EmbeddingRequest(tuple(text or " " for text in texts)))
        except BudgetReached as error:
            self._over = str(error)
            return dict.fromkeys(texts, OUT_OF_BUDGET)
        except CallFailed as error:
            if len(texts) == 1 or error.failure.reason in PASSING:
                return dict.fromkeys(texts, error.failure.reason)
            singly = await asyncio.gather(*(self._asked([text], model) for text in texts))
            return {text: vector for each in singly for text, vector in each.items()}
        return {text: self._checked(vector) for text, vector in zip(texts, found.vectors, strict=True)}

    def _checked(self, vector: Sequence[float]) -> Floats | str:
        """The vector of length 1; all are finite, and as wide as the first."""
        self._width = self._width or len(vector)
        return _unit(vector) if len(vector) == self._width and np.isfinite(vector).all() else "malformed"


async def _gathered(work: Iterable[Any]) -> list[Any]:
    return list(await asyncio.gather(*work))


def _sent(text: str) -> str:
    return sendable(text[:LONGEST])


def _unit(vector: Any) -> Floats:
    found = np.asarray(vector, dtype=np.float32)
    length = float(np.linalg.norm(found))
    return found / length if length > 0 else found
