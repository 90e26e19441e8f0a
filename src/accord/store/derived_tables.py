"""Tables of derived data: embeddings, computed results, issues found by models, sketches and alarms of monitoring."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, func, or_, select, update

from accord.store.engine import StoreError, database_errors, lock_writing, read_json
from accord.store.erasure.tombstones import without_erased_in_day
from accord.store.rows import BATCH, MODEL, AddedCounts, AnnotationKeys, annotation_from, annotation_row, batches, now
from accord.store.schema import alarms, annotation_table, cache, days
from accord.store.store import Store
from accord.values import (
    ISSUE,
    OVERALL,
    Annotation,
    Conversation,
    IssueAnnotation,
    canonical_json,
    issues_from,
    turn_digests,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

VECTOR, COMPUTED = "vector", "computed"
POSITION = "position"
"""Kind of rows with the position of a follower in a log."""
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
        """Return the width of an embedder's vectors, or `None` if the store has none."""
        query = select(cache.c.bytes).where(cache.c.kind == VECTOR, cache.c.maker == embedder).limit(1)
        return next((len(unpacked(packed)) for (packed,) in self._store._stream(query)), None)

    def add(
        self,
        embedder: str,
        rows: Mapping[str, NDArray[Any]],
        conversations: Mapping[str, Sequence[str] | None] | None = None,
    ) -> AddedCounts:
        """Add an embedder's vectors by key, one transaction per batch.

        `conversations` has the conversations of each key's text; None, or no entry, if they are unknown.
        """
        counts, sources = AddedCounts(), conversations or {}
        for batch in batches(rows.items(), BATCH):
            shared = {"kind": VECTOR, "maker": embedder, "content": None, "added": now()}
            packed = [
                {
                    **shared, "key": key, "bytes": vector.astype(VECTOR_DTYPE).tobytes(),
                    "conversations": sources.get(key),
                }
                for key, vector in batch
            ]  # fmt: skip
            with database_errors(self._store.url), self._store._engine.begin() as connection:
                new = self._store.add_cached(connection, packed)
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


_IS_OVERALL = (
    annotation_table.c.kind == MODEL,
    annotation_table.c.question == OVERALL,
    annotation_table.c.signature.is_not(None),
)


class IssueAnnotations:
    """Issue annotations in a store; of each turn and signature the first stays."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, new: Iterable[IssueAnnotation]) -> AddedCounts:
        """Add issue annotations and return the counts of turns."""
        counts, keys, places, added = AddedCounts(), AnnotationKeys(), self._store._last_places(), now()
        for batch in batches(new, BATCH):
            items = (item for each in batch for item in Annotation.from_issues(each))
            rows = [annotation_row(item, keys.of(item), added) for item in items]
            count, *_ = self._store._insert_annotations(rows, places)
            counts = counts.plus(AddedCounts(count, len(batch) - count))
        return counts

    def of(self, conversations: Iterable[Conversation], signature: str) -> Iterator[IssueAnnotation]:
        """Yield the annotations of one signature for the turns of conversations, in order.

        Annotations of a stored conversation with the same ID but other texts are left out.
        """
        table = annotation_table.c
        query = select(annotation_table).where(table.signature == signature)
        for batch in batches(conversations, BATCH):
            in_batch = query.where(table.conversation.in_([conversation.id for conversation in batch]))
            rows = self._store._stream(in_batch.order_by(table.turn, table.place, table.key))
            by_conversation: dict[str, list[IssueAnnotation]] = {}
            for item in issues_from(row for row in map(annotation_from, rows) if row.is_of_issues):
                by_conversation.setdefault(item.target.conversation, []).append(item)
            for conversation in batch:
                yield from _of_same_texts(conversation, by_conversation.get(conversation.id, ()))

    def conversations(self, signature: str) -> list[str]:
        """Return the IDs of conversations with an annotated turn of one signature."""
        query = (
            select(annotation_table.c.conversation)
            .where(*_IS_OVERALL, annotation_table.c.signature == signature)
            .distinct()
        )
        return sorted(name for (name,) in self._store._stream(query))

    def of_any_maker(self, conversations: Iterable[str] | None = None) -> Iterator[Annotation]:
        """Yield what models and people wrote about issues: of some conversations, by default of all."""
        table = annotation_table.c
        about = select(annotation_table).where(
            or_(table.question == OVERALL, table.question.startswith(ISSUE, autoescape=True))
        )
        queries = [about] if conversations is None else [
            about.where(table.conversation.in_(batch)) for batch in batches(sorted(set(conversations)), BATCH)
        ]  # fmt: skip
        for query in queries:
            yield from map(annotation_from, self._store._stream(query.order_by(table.place, table.key)))

    def makers(self) -> dict[str, int]:
        """Return the number of annotated turns by signature."""
        query = (
            select(annotation_table.c.signature, func.count())
            .where(*_IS_OVERALL)
            .group_by(annotation_table.c.signature)
        )
        return dict(sorted(tuple(row) for row in self._store._stream(query)))


def _of_same_texts(conversation: Conversation, items: Sequence[IssueAnnotation]) -> Iterator[IssueAnnotation]:
    """Yield the first annotation of each turn whose texts equal the conversation's texts."""
    digests = turn_digests(conversation) if items else []
    annotated_turns = set()
    for item in items:
        turn = item.target.turn or 0
        exists = turn < len(digests) or not digests
        is_same = exists and (not item.said or not digests or item.said == digests[turn])
        if is_same and turn not in annotated_turns:
            annotated_turns.add(turn)
            yield item


class MonitoringTables:
    """Days and alarms in a store; several processes may write, each its own sketches."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def put_days(self, rows: Sequence[Mapping[str, Any]], position: tuple[str, str] | None = None) -> None:
        """Write rows with `key`, `evaluator`, `system`, `day` and `content` (JSON); an equal key is replaced.

        `position` is the key and the JSON of the place in a log up to which the rows count its replies. It is written
        in the same transaction.
        """
        with database_errors(self._store.url), self._store._engine.begin() as connection:
            lock_writing(connection)
            for row in sorted(rows, key=lambda row: str(row["key"])):
                values = {**row, "content": canonical_json(without_erased_in_day(connection, row["content"]))}
                insert = self._store._insert(days).values(**values)
                connection.execute(insert.on_conflict_do_update(index_elements=["key"], set_=values))
            if position is not None:
                key, content = position
                values = {"key": key, "kind": POSITION, "maker": "", "content": content, "added": now()}
                insert = self._store._insert(cache).values(**values)
                connection.execute(insert.on_conflict_do_update(index_elements=["key", "kind"], set_=values))

    def position(self, key: str) -> str | None:
        """Return the JSON of the last position with a key, or `None` if the key has no position."""
        query = select(cache.c.content).where(cache.c.key == key, cache.c.kind == POSITION)
        content = self._store._one(query)
        return None if content is None else str(content)

    def drop_positions(self, keys: Collection[str]) -> None:
        """Delete the positions of logs that are gone."""
        with database_errors(self._store.url), self._store._engine.begin() as connection:
            for batch in batches(sorted(keys), BATCH):
                connection.execute(delete(cache).where(cache.c.kind == POSITION, cache.c.key.in_(batch)))

    def days(self, since: str = "") -> Iterator[dict[str, Any]]:
        """Yield the rows from a day (ISO) on, in the order of days."""
        query = select(days).where(days.c.day >= since).order_by(days.c.day, days.c.key)
        return ({**row._mapping, "content": read_json(row.content)} for row in self._store._stream(query))

    def raise_alarms(self, contents: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """Store alarms by key, and return the keys of those that were not raised before."""
        new = []
        with database_errors(self._store.url), self._store._engine.begin() as connection:
            for key, content in sorted(contents.items()):
                row = {"key": key, "content": canonical_json(content), "raised": now(), "sent": None}
                insert = self._store._insert(alarms).values(**row).on_conflict_do_nothing().returning(alarms.c.key)
                new += [new_key for (new_key,) in connection.execute(insert)]
        return new

    def alarms(self, unsent: bool = False) -> list[dict[str, Any]]:
        """Return alarms, or unsent ones, in the order they were raised, with `key`, `raised` and `sent`."""
        query = select(alarms).order_by(alarms.c.raised, alarms.c.key)
        rows = self._store._stream(query.where(alarms.c.sent.is_(None)) if unsent else query)
        return [{"key": row.key, "raised": row.raised, "sent": row.sent, **read_json(row.content)} for row in rows]

    def mark_sent(self, keys: Sequence[str]) -> None:
        """Record that alarms were delivered."""
        with database_errors(self._store.url), self._store._engine.begin() as connection:
            connection.execute(update(alarms).where(alarms.c.key.in_(list(keys))).values(sent=now()))
