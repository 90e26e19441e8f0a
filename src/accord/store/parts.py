"""Parts of a store with callers of their own: issues that models found, vectors, what was computed, watched days."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, func, select, update

from accord.store.engine import StoreError, database_errors, read_json
from accord.store.rows import BATCH, AddedCounts, AnnotationKeys, annotation_from, batches, now
from accord.store.schema import alarms, annotated, cache, days
from accord.store.store import MODEL, Store
from accord.values import OVERALL, Annotation, Conversation, IssueAnnotation, canonical_json, issues_from, turn_digests

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_OVERALL = (annotated.c.kind == MODEL, annotated.c.question == OVERALL, annotated.c.signature.is_not(None))


class IssueAnnotations:
    """What models found wrong with turns. The first annotation of a turn stays, per signature."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, found: Iterable[IssueAnnotation]) -> AddedCounts:
        """Keep them, one transaction per batch; a turn that the same maker has annotated already stays as it is."""
        total, keys, places = AddedCounts(), AnnotationKeys(), self._store._places()
        for batch in batches(found, BATCH):
            rows = [row for each in batch for row in Annotation.from_issues(each)]
            new = self._store._add_annotations(rows, keys, places).new
            total = total.plus(AddedCounts(new, len(batch) - new))
        return total

    def of(self, conversations: Iterable[Conversation], signature: str) -> Iterator[IssueAnnotation]:
        """What one maker said of the turns of some conversations, in their order and by turn.

        An annotation of other words under the same id is none of theirs.
        """
        table = annotated.c
        query = select(annotated).where(table.signature == signature)
        for batch in batches(conversations, BATCH):
            here = query.where(table.conversation.in_([conversation.id for conversation in batch]))
            rows = self._store._stream(here.order_by(table.turn, table.place, table.key))
            found: dict[str, list[IssueAnnotation]] = {}
            for each in issues_from(row for row in map(annotation_from, rows) if row.is_of_issues):
                found.setdefault(each.target.conversation, []).append(each)
            for conversation in batch:
                yield from _of(conversation, found.get(conversation.id, ()))

    def conversations(self, signature: str) -> list[str]:
        """The ids of conversations of which one maker has annotated a turn."""
        query = select(annotated.c.conversation).where(*_OVERALL, annotated.c.signature == signature).distinct()
        return sorted(name for (name,) in self._store._stream(query))

    def makers(self) -> dict[str, int]:
        """How many turns each maker has annotated."""
        query = select(annotated.c.signature, func.count()).where(*_OVERALL).group_by(annotated.c.signature)
        return dict(sorted(tuple(row) for row in self._store._stream(query)))


def _of(conversation: Conversation, found: Sequence[IssueAnnotation]) -> Iterator[IssueAnnotation]:
    """Those of some annotations that are about these words, one per turn."""
    database_errors = turn_digests(conversation) if found else []
    seen = set()
    for each in found:
        turn = each.target.turn or 0
        there = turn < len(database_errors) or not database_errors
        same = there and (not each.said or not database_errors or each.said == database_errors[turn])
        if same and turn not in seen:
            seen.add(turn)
            yield each


VECTOR_DTYPE = "<f4"
VECTOR = "vector"


class VectorCache:
    """The embeddings in a store's cache. The first one of a key stays."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def vectors(self, keys: Iterable[str]) -> dict[str, NDArray[np.float32]]:
        """(width,) the vector of each of these keys that the store holds."""
        query = select(cache.c.key, cache.c.bytes).where(cache.c.kind == VECTOR)
        return {
            key: unpacked(packed)
            for batch in batches(dict.fromkeys(keys), BATCH)
            for key, packed in self._store._stream(query.where(cache.c.key.in_(batch)))
        }

    def width(self, embedder: str) -> int | None:
        """Of any vector that the store holds of an embedder; `None` where it holds none."""
        query = select(cache.c.bytes).where(cache.c.kind == VECTOR, cache.c.maker == embedder).limit(1)
        return next((len(unpacked(packed)) for (packed,) in self._store._stream(query)), None)

    def add(self, embedder: str, rows: Mapping[str, NDArray[Any]]) -> AddedCounts:
        """Keep an embedder's vectors, by key, a batch a transaction; a key that is there already changes nothing."""
        total = AddedCounts()
        for batch in batches(rows.items(), BATCH):
            stamped = [_embedded_row(embedder, key, vector) for key, vector in batch]
            with database_errors(self._store.url), self._store._engine.begin() as connection:
                new = self._store._add(connection, cache, stamped)
            total = total.plus(AddedCounts(new, len(batch) - new))
        return total


def _embedded_row(embedder: str, key: str, vector: NDArray[Any]) -> dict[str, object]:
    content = vector.astype(VECTOR_DTYPE).tobytes()
    return {"key": key, "kind": VECTOR, "maker": embedder, "content": None, "bytes": content, "added": now()}


def unpacked(packed: bytes) -> NDArray[np.float32]:
    """(width,) a vector that was kept."""
    import numpy as np  # here: most commands open a store without asking for a vector

    return np.frombuffer(packed, VECTOR_DTYPE).astype(np.float32)


def check_vector(packed: bytes) -> None:
    """Look at what was kept as a vector.

    Raises:
        ValueError: It holds no numbers, or some that are not finite.
    """
    import numpy as np

    vector = unpacked(packed)
    if not len(vector) or not np.isfinite(vector).all():
        raise ValueError("no vector of finite numbers")


COMPUTED = "computed"
MOST_COMPUTED = 200
"""Rows that are kept of what was computed; the oldest go when more come."""


class ComputedCache:
    """What was computed from a store's content, under the hash of all that could change it: JSON and arrays.

    Nothing here is anybody's word or paid for: whatever is missing is computed again, and a store that cannot be
    written to keeps nothing.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, key: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]] | None:
        """The JSON and the arrays under a key; `None` where nothing was computed under it."""
        from safetensors.numpy import load

        query = select(cache.c.content, cache.c.bytes).where(cache.c.key == key, cache.c.kind == COMPUTED)
        for content, packed in self._store._stream(query):
            return read_json(content), load(packed)
        return None

    def add(self, key: str, maker: str, content: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Keep what `maker` computed, and let go of the oldest rows beyond `MOST_COMPUTED`."""
        import numpy as np
        from safetensors.numpy import save

        packed = save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
        row = {"key": key, "kind": COMPUTED, "maker": maker, "content": canonical_json(content), "bytes": packed}
        old = select(cache.c.key).where(cache.c.kind == COMPUTED).order_by(cache.c.added.desc(), cache.c.key)
        with suppress(StoreError), database_errors(self._store.url), self._store._engine.begin() as connection:
            self._store._add(connection, cache, [{**row, "added": now()}])
            surplus = [each for (each,) in connection.execute(old.offset(MOST_COMPUTED))]
            if surplus:
                connection.execute(delete(cache).where(cache.c.kind == COMPUTED, cache.c.key.in_(surplus)))


class MonitoringTables:
    """The days and alarms of a store; several processes may write, each its own sketches."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def put_days(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Keep rows with `key`, `evaluator`, `system`, `day` and `content` (JSON); an equal key is replaced."""
        stored = [{**row, "content": canonical_json(row["content"])} for row in rows]
        with database_errors(self._store.url), self._store._engine.begin() as connection:
            for row in sorted(stored, key=lambda each: str(each["key"])):
                insert = self._store._insert(days).values(**row)
                connection.execute(insert.on_conflict_do_update(index_elements=["key"], set_=dict(row)))

    def days(self, since: str = "") -> Iterator[dict[str, Any]]:
        """The rows of all days from `since` (ISO) on, in the order of days."""
        query = select(days).where(days.c.day >= since).order_by(days.c.day, days.c.key)
        return ({**row._mapping, "content": read_json(row.content)} for row in self._store._stream(query))

    def raise_alarms(self, found: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """Keep alarms by key; the keys of those that were not raised before."""
        new = []
        with database_errors(self._store.url), self._store._engine.begin() as connection:
            for key, content in sorted(found.items()):
                row = {"key": key, "content": canonical_json(content), "raised": now(), "sent": None}
                insert = self._store._insert(alarms).values(**row).on_conflict_do_nothing().returning(alarms.c.key)
                new += [each for (each,) in connection.execute(insert)]
        return new

    def alarms(self, unsent: bool = False) -> list[dict[str, Any]]:
        """Alarms in the order they were raised, with their `key`, when they were `raised` and `sent`."""
        query = select(alarms).order_by(alarms.c.raised, alarms.c.key)
        rows = self._store._stream(query.where(alarms.c.sent.is_(None)) if unsent else query)
        return [{"key": r.key, "raised": r.raised, "sent": r.sent, **read_json(r.content)} for r in rows]

    def mark_sent(self, keys: Sequence[str]) -> None:
        """Note that alarms have reached whoever is to be told."""
        with database_errors(self._store.url), self._store._engine.begin() as connection:
            connection.execute(update(alarms).where(alarms.c.key.in_(list(keys))).values(sent=now()))


def labels_version(store: Store) -> tuple[int, str]:
    """How many annotations people made, and when the last came: another value wherever labels may be others."""
    query = select(func.count(), func.max(annotated.c.added)).where(annotated.c.kind == "person")
    [(count, last)] = list(store._stream(query))
    return int(count), str(last)
