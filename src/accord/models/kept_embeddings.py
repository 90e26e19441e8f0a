"""The vectors of texts, each embedded once for all time: what the store holds is not asked for again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from accord.models.embedders import Embedder
from accord.store import Embedded, Store, batches
from accord.values import BudgetReached, ModelError, Unmeasured, content_hash

Floats = NDArray[np.float32]

TOGETHER = 512
"""Texts that are embedded before their vectors are kept: what an interruption may lose."""
STAND_IN_WIDTH = 8
"""Width of the vectors that a plan draws where none is known."""


def embedded(texts: Sequence[str], embedder: Embedder, store: Store) -> Floats:
    """(n, width) the vectors of texts, in their order; (0, 0) for none.

    Args:
        texts: What to embed; equal ones are embedded once.
        embedder: Reads the texts that the store lacks, and is not read from disk where there are no texts.
        store: Keeps each new vector, under what made it and the text.

    Raises:
        ModelError: A text has no vector, or one of another width than the others; the vectors made before are kept.
        BudgetReached: A text was not asked for, since that could pass the budget; the vectors made before are kept.
    """
    if not texts:
        return np.zeros((0, 0), dtype=np.float32)
    identity, kept = embedder.identity, Embedded(store)
    keys = [content_hash([identity, text], length=40) for text in texts]
    found = kept.vectors(keys)
    lacking = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
    for part in batches(lacking.items(), TOGETHER):
        new, failed, over = _embed(part, embedder)
        found |= new
        _check_widths(found, embedder)
        kept.add(identity, new)
        if over is not None:
            raise over
        if failed:
            raise ModelError(
                f"{embedder.name} has no vector for {len(failed)} of {len(part)} texts; {next(iter(failed.values()))}. "
                "The other vectors are kept: run the command again to go on."
            )
    return np.stack([found[key] for key in keys])


def foreseen(texts: Sequence[str], embedder: Embedder, store: Store) -> tuple[Floats, list[str]]:
    """(n, width) the kept vectors of texts, drawn stand-ins for the others; and those others, each once."""
    keys = [content_hash([embedder.identity, text], length=40) for text in texts]
    found = Embedded(store).vectors(keys)
    lacking = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
    width = next((len(vector) for vector in found.values()), STAND_IN_WIDTH)
    for key in lacking:
        drawn = np.random.default_rng(list(key.encode())).standard_normal(width).astype(np.float32)
        found[key] = drawn / np.linalg.norm(drawn)
    return np.stack([found[key] for key in keys]), list(lacking.values())


def _embed(
    part: Sequence[tuple[str, str]], embedder: Embedder
) -> tuple[dict[str, Floats], dict[str, str], BudgetReached | None]:
    """Vectors by key, by key what is to be said of the texts that have none, and whether the budget is spent."""
    new, failed, over = {}, {}, None
    embedder.prepare([text for _, text in part])
    for key, text in part:
        try:
            new[key] = np.asarray(embedder.embed(text), dtype=np.float32)
        except Unmeasured as error:
            failed[key] = str(error)
        except BudgetReached as error:
            over = error
            break
    return new, failed, over


def _check_widths(found: Mapping[str, Floats], embedder: Embedder) -> None:
    """Refuse vectors that cannot be compared: those of another model under the same name."""
    widths = sorted({len(vector) for vector in found.values()})
    if len(widths) > 1:
        raise ModelError(
            f"{embedder.name} gives vectors of {' and of '.join(map(str, widths))} numbers: another model answers "
            "under the name by now. Use another store, or another embedder."
        )
