"""Embeddings of texts, each computed or requested once: vectors in the store are not requested again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from accord.edges import BudgetReached, ModelError, Unmeasured
from accord.models.budget import Budget
from accord.models.client import EmbeddingRequest
from accord.models.embedders import AT_ONCE, Embedder, is_remote
from accord.models.exchange import (
    Assumption,
    Exchange,
    Missing,
    Plan,
    answer_all,
    price,
    raise_if_over,
    stored_answers,
)
from accord.models.flow import EMBEDDER, NOT_ASKED, OUT_OF_BUDGET, wait
from accord.models.model import Failure, Unanswered
from accord.models.request_ledger import RequestLedger
from accord.models.wrappers import ATTEMPTS
from accord.store import VECTOR_DTYPE, PaidRow, Store, VectorCache
from accord.values import content_hash

Floats = NDArray[np.float32]

TOGETHER = 512
"""Texts that are embedded before their vectors are stored; an interruption loses at most this many."""
STAND_IN_WIDTH = 8
"""Width of the random vectors in a plan if no vector is stored."""


class EmbeddingExchange(Exchange[str, Floats]):
    """Texts to an embedder. All vectors of one embedder have the same width."""

    role = EMBEDDER
    attempts = ATTEMPTS
    not_sent = NOT_ASKED
    counts_questions = False

    def __init__(self, embedder: Embedder, store: Store, budget: Budget | None = None) -> None:
        self.embedder, self.cache = embedder, VectorCache(store)
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
        return {"kind": "vector", "key": key, "maker": self._identity, "bytes": answer.astype(VECTOR_DTYPE).tobytes()}

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

    def width(self) -> int:
        """Return the width of any stored vector of the embedder, or a width for stand-ins."""
        return self.cache.width(self._identity) or STAND_IN_WIDTH

    def stand_in(self, text: str, width: int) -> Floats:
        """Draw a unit vector for a text."""
        drawn = np.random.default_rng(list(self.key(text).encode())).standard_normal(width).astype(np.float32)
        return np.asarray(drawn / np.linalg.norm(drawn), dtype=np.float32)


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
    step: Callable[[], None] = lambda: None,
) -> list[Floats]:
    """Return the vector of each text; equal texts are embedded once, and new vectors are stored.

    Args:
        texts: Texts to embed.
        embedder: The embedder; its weights are not read if there are no texts.
        store: Store of the vectors.
        budget: Stopped if the store fails.
        step: Called once per text.

    Raises:
        ModelError: A text has no vector, or one of another width than the others; the other vectors are stored.
        BudgetReached: The next request could exceed the budget; earlier vectors are stored.
        StoreError: The store failed; vectors that were paid for are spooled.
    """
    if not texts:
        return []
    exchange = await asyncio.to_thread(EmbeddingExchange, embedder, store, budget)
    async with exchange.ledger.closing():
        answers = await answer_all(exchange, texts, 1, step, TOGETHER)
        raise_if_over(answers)
    return answers  # type: ignore[return-value]  # none is a failure


def stored_vectors(texts: Sequence[str], embedder: Embedder, store: Store) -> list[Floats | Missing]:
    """Return the stored vector of each text, or a failure."""
    return stored_answers(EmbeddingExchange(embedder, store), texts, "run: accord fit")


def price_vectors(
    texts: Sequence[str], embedder: Embedder, store: Store, plan: Plan, width: int | None = None
) -> list[Floats]:
    """Count the requests for vectors in a plan; return stored vectors and random stand-ins of `width` numbers."""
    exchange = EmbeddingExchange(embedder, store)
    plan.has_follow_ups = True
    vectors = price(exchange, texts, plan)
    if any(vector is None for vector in vectors):
        width = width or exchange.width()
    return [
        exchange.stand_in(text, width or STAND_IN_WIDTH) if vector is None else vector
        for text, vector in zip(texts, vectors, strict=True)
    ]
