"""The vectors of texts, in the store: under a key each, as the bytes of little-endian 32-bit floats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select

from accord.store.engine import said
from accord.store.rows import batches, now
from accord.store.schema import embeddings
from accord.store.store import BATCH, Added, Store

WIRE = np.dtype("<f4")


class Embedded:
    """The embeddings of a store. The first one of a key stays."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def vectors(self, keys: Iterable[str]) -> dict[str, NDArray[np.float32]]:
        """(width,) the vector of each of these keys that the store holds."""
        columns = (embeddings.c.key, embeddings.c.vector)
        return {
            key: np.frombuffer(vector, dtype=WIRE).astype(np.float32)
            for batch in batches(dict.fromkeys(keys), BATCH)
            for key, vector in self._store._stream(select(*columns).where(embeddings.c.key.in_(batch)))
        }

    def add(self, embedder: str, rows: Mapping[str, NDArray[Any]]) -> Added:
        """Keep an embedder's vectors, by key, a batch a transaction; a key that is there already changes nothing."""
        total = Added()
        for batch in batches(rows.items(), BATCH):
            stamped = [_row(embedder, key, vector) for key, vector in batch]
            with said(self._store.url), self._store._engine.begin() as connection:
                new = self._store._add(connection, embeddings, stamped)
            total = total.plus(Added(new, len(batch) - new))
        return total


def _row(embedder: str, key: str, vector: NDArray[Any]) -> dict[str, object]:
    return {"key": key, "embedder": embedder, "vector": np.asarray(vector, dtype=WIRE).tobytes(), "added": now()}
