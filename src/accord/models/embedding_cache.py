"""The vectors of texts, each embedded once for all time: what the store holds is not asked for again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accord.edges import BudgetReached, ModelError, Unmeasured
from accord.models.budget import Budget
from accord.models.embedders import Embedder, is_remote
from accord.models.event_loop import wait
from accord.models.request_ledger import Ledger
from accord.store import WIRE, Embedded, Store, batches
from accord.values import content_hash

Floats = NDArray[np.float32]

TOGETHER = 512
"""Texts that are embedded before their vectors are kept: what an interruption may lose."""
STAND_IN_WIDTH = 8
"""Width of the vectors that a plan draws where none is known."""


def embed(texts: Sequence[str], embedder: Embedder, store: Store, budget: Budget | None = None) -> Floats:
    """(n, width) the vectors of texts, in their order; (0, 0) for none.

    Args:
        texts: What to embed; equal ones are embedded once.
        embedder: Reads the texts that the store lacks, and is not read from disk where there are no texts.
        store: Keeps each new vector, under what made it and the text.
        budget: Is stopped where the store fails.

    Raises:
        ModelError: A text has no vector, or one of another width than the others; the vectors made before are kept.
        BudgetReached: A text was not asked for, since that could pass the budget; the vectors made before are kept.
        StoreError: The store failed; vectors that were paid for are spooled.
    """
    if not texts:
        return np.zeros((0, 0), dtype=np.float32)
    identity, kept = embedder.identity, Embedded(store)
    keys = [content_hash([identity, text], length=40) for text in texts]
    found = kept.vectors(keys)
    lacking = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
    ledger = Ledger(store, kept.vectors, budget)
    for part in batches(lacking.items(), TOGETHER):
        if is_remote(embedder.name):
            found |= wait(_paid(dict(part), embedder, ledger, found))
            _check_widths(found, embedder)
        else:
            new = _made(part, embedder)
            found |= new.vectors
            _check_widths(found, embedder)
            kept.add(identity, new.vectors)
            new.check(embedder)
    return np.stack([found[key] for key in keys])


async def _paid(
    part: Mapping[str, str], embedder: Embedder, ledger: Ledger[Floats], before: Mapping[str, Floats]
) -> dict[str, Floats]:
    """The vectors of texts by key, each asked for by one process alone."""
    found: dict[str, Floats] = {}

    async def ask(keys: list[str]) -> None:
        new = await asyncio.to_thread(_made, [(key, part[key]) for key in keys], embedder)
        _check_widths({**before, **new.vectors}, embedder)
        await ledger.keep(
            {"kind": "vector", "key": key, "maker": embedder.identity, "bytes": vector.astype(WIRE).tobytes()}
            for key, vector in new.vectors.items()
        )
        new.check(embedder)
        found.update(new.vectors)

    async with ledger.settled():
        found |= await ledger.once(part, ask)
    return found


def foreseen(
    texts: Sequence[str], embedder: Embedder, store: Store, width: int | None = None
) -> tuple[Floats, list[str]]:
    """(n, width) the kept vectors of texts, drawn stand-ins for the others; and those others, each once.

    Stand-ins are as wide as `width` says; without it as any vector that the store keeps of the embedder.
    """
    keys = [content_hash([embedder.identity, text], length=40) for text in texts]
    kept = Embedded(store)
    found = kept.vectors(keys)
    lacking = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
    if lacking:
        width = width or kept.width(embedder.identity) or STAND_IN_WIDTH
    for key in lacking:
        drawn = np.random.default_rng(list(key.encode())).standard_normal(width).astype(np.float32)
        found[key] = drawn / np.linalg.norm(drawn)
    return np.stack([found[key] for key in keys]), list(lacking.values())


class _Made(NamedTuple):
    """Vectors by key, by key what is to be said of the texts that have none, and whether the budget is spent."""

    vectors: dict[str, Floats]
    failed: dict[str, str]
    over: BudgetReached | None

    def check(self, embedder: Embedder) -> None:
        """Refuse to go on where a text has no vector."""
        if self.over is not None:
            raise self.over
        if self.failed:
            texts = len(self.failed) + len(self.vectors)
            raise ModelError(
                f"{embedder.name} has no vector for {len(self.failed)} of {texts} texts; "
                f"{next(iter(self.failed.values()))}. The other vectors are kept: run the command again to go on."
            )


def _made(part: Sequence[tuple[str, str]], embedder: Embedder) -> _Made:
    new = _Made({}, {}, None)
    embedder.prepare([text for _, text in part])
    for key, text in part:
        try:
            new.vectors[key] = np.asarray(embedder.embed(text), dtype=np.float32)
        except Unmeasured as error:
            new.failed[key] = str(error)
        except BudgetReached as error:
            return new._replace(over=error)
    return new


def _check_widths(found: Mapping[str, Floats], embedder: Embedder) -> None:
    """Refuse vectors that cannot be compared: those of another model under the same name."""
    widths = sorted({len(vector) for vector in found.values()})
    if len(widths) > 1:
        raise ModelError(
            f"{embedder.name} gives vectors of {' and of '.join(map(str, widths))} numbers: another model answers "
            "under the name by now. Use another store, or another embedder."
        )
