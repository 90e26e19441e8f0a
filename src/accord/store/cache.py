"""Cached embeddings and computed results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, select

from accord.store.engine import StoreError, database_errors, read_json
from accord.store.rows import BATCH, AddedCounts, batches, now
from accord.store.schema import cache
from accord.store.store import Store
from accord.values import canonical_json

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

VECTOR, COMPUTED = "vector", "computed"
VECTOR_DTYPE = "<f4"
MAX_COMPUTED = 200
"""Number of computed results to keep; the oldest are deleted."""


class VectorCache:
    """Embeddings in a store; the first vector of a key stays."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def vectors(self, keys: Iterable[str]) -> dict[str, NDArray[np.float32]]:
        """Return the stored vectors by key, each of shape (width,)."""
        query = select(cache.c.key, cache.c.bytes).where(cache.c.kind == VECTOR)
        return {
            key: unpacked(packed)
            for batch in batches(dict.fromkeys(keys), BATCH)
            for key, packed in self._store._stream(query.where(cache.c.key.in_(batch)))
        }

    def width(self, embedder: str) -> int | None:
        """Return the width of an embedder's vectors; None without any."""
        query = select(cache.c.bytes).where(cache.c.kind == VECTOR, cache.c.maker == embedder).limit(1)
        return next((len(unpacked(packed)) for (packed,) in self._store._stream(query)), None)

    def add(self, embedder: str, rows: Mapping[str, NDArray[Any]]) -> AddedCounts:
        """Add an embedder's vectors by key, one transaction per batch."""
        counts = AddedCounts()
        for batch in batches(rows.items(), BATCH):
            shared = {"kind": VECTOR, "maker": embedder, "content": None, "added": now()}
            packed = [{**shared, "key": key, "bytes": vector.astype(VECTOR_DTYPE).tobytes()} for key, vector in batch]
            with database_errors(self._store.url), self._store._engine.begin() as connection:
                new = self._store._add(connection, cache, packed)
            counts = counts.plus(AddedCounts(new, len(batch) - new))
        return counts


def unpacked(packed: bytes) -> NDArray[np.float32]:
    """Return a stored vector, of shape (width,)."""
    import numpy as np  # slow to import, and most commands read no vector

    return np.frombuffer(packed, VECTOR_DTYPE).astype(np.float32)


def check_vector(packed: bytes) -> None:
    """Validate a stored vector.

    Raises:
        ValueError: It is empty or has numbers that are not finite.
    """
    import numpy as np

    vector = unpacked(packed)
    if not len(vector) or not np.isfinite(vector).all():
        raise ValueError("not a vector of finite numbers")


class ComputedCache:
    """Results computed from a store's content (JSON and arrays) by the hash of their inputs.

    They can be computed again: a store that cannot be written keeps none, without an error.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, key: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]] | None:
        """Return the JSON and the arrays of a key, or None."""
        from safetensors.numpy import load

        query = select(cache.c.content, cache.c.bytes).where(cache.c.key == key, cache.c.kind == COMPUTED)
        for content, packed in self._store._stream(query):
            return read_json(content), load(packed)
        return None

    def add(self, key: str, maker: str, content: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Store a result of `maker`, and delete the oldest results beyond `MAX_COMPUTED`."""
        import numpy as np
        from safetensors.numpy import save

        packed = save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
        row = {"key": key, "kind": COMPUTED, "maker": maker, "content": canonical_json(content), "bytes": packed}
        newest = select(cache.c.key).where(cache.c.kind == COMPUTED).order_by(cache.c.added.desc(), cache.c.key)
        with suppress(StoreError), database_errors(self._store.url), self._store._engine.begin() as connection:
            self._store._add(connection, cache, [{**row, "added": now()}])
            surplus = [old_key for (old_key,) in connection.execute(newest.offset(MAX_COMPUTED))]
            if surplus:
                connection.execute(delete(cache).where(cache.c.kind == COMPUTED, cache.c.key.in_(surplus)))
