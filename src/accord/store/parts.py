"""What was found wrong with each turn, in the store: one assessment a turn and a way of making it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import func, select, update

from accord.store.engine import said
from accord.store.schema import alarms, assessments, days, embeddings
from accord.store.store import BATCH, Added, Store, batches, now
from accord.values import Conversation, IssueAnnotation, Target, canonical_json, content_hash, digests


class IssueAnnotations:
    """The assessments of a store. The first one of a turn stays, for each way of making them."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, found: Iterable[IssueAnnotation]) -> Added:
        """Keep assessments, a batch a transaction; those of a turn that the same maker has assessed change nothing."""
        total = Added()
        for batch in batches(found, BATCH):
            rows = {row["key"]: row for row in map(_row, reversed(batch))}
            with said(self._store.url), self._store._engine.begin() as connection:
                new = self._store._add(connection, assessments, list(rows.values()))
            total = total.plus(Added(new, len(batch) - new))
        return total

    def of(self, conversations: Iterable[Conversation], made_by: str) -> Iterator[IssueAnnotation]:
        """What one maker said of the turns of some conversations, in their order and by turn.

        An assessment of other words under the same id is none of theirs.
        """
        for batch in batches(conversations, BATCH):
            names = [conversation.id for conversation in batch]
            query = select(assessments).where(assessments.c.conversation.in_(names), assessments.c.made_by == made_by)
            found: dict[str, list[IssueAnnotation]] = {}
            for row in self._store._stream(query.order_by(assessments.c.turn, assessments.c.key)):
                target, content = Target(row.conversation, row.turn), json.loads(row.content)
                found.setdefault(row.conversation, []).append(IssueAnnotation.from_json(target, row.made_by, content))
            for conversation in batch:
                yield from _of(conversation, found.get(conversation.id, ()))

    def conversations(self, made_by: str) -> list[str]:
        """The ids of conversations of which one maker has assessed a turn."""
        query = select(assessments.c.conversation).where(assessments.c.made_by == made_by).distinct()
        return sorted(name for (name,) in self._store._stream(query))

    def makers(self) -> dict[str, int]:
        """How many turns each maker has assessed."""
        query = select(assessments.c.made_by, func.count()).group_by(assessments.c.made_by)
        return dict(sorted(tuple(row) for row in self._store._stream(query)))


def _of(conversation: Conversation, found: Sequence[IssueAnnotation]) -> Iterator[IssueAnnotation]:
    """Those of some assessments that are about these words, one a turn."""
    said = digests(conversation) if found else []
    seen = set()
    for each in found:
        turn = each.target.turn or 0
        there = turn < len(said) or not said
        same = there and (not each.said or not said or each.said == said[turn])
        if same and turn not in seen:
            seen.add(turn)
            yield each


def _row(found: IssueAnnotation) -> dict[str, object]:
    return {
        "key": content_hash([*found.target, found.made_by, found.said], length=40),
        "conversation": found.target.conversation,
        "turn": found.target.turn,
        "made_by": found.made_by,
        "content": canonical_json(found.to_json()),
        "added": now(),
    }


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
            stamped = [_embedded_row(embedder, key, vector) for key, vector in batch]
            with said(self._store.url), self._store._engine.begin() as connection:
                new = self._store._add(connection, embeddings, stamped)
            total = total.plus(Added(new, len(batch) - new))
        return total


def _embedded_row(embedder: str, key: str, vector: NDArray[Any]) -> dict[str, object]:
    return {"key": key, "embedder": embedder, "vector": np.asarray(vector, dtype=WIRE).tobytes(), "added": now()}


class Watched:
    """The days and alarms of a store; several processes may write, each its own sketches."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def put_days(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Keep rows with `key`, `evaluator`, `system`, `day` and `content` (JSON); an equal key is replaced."""
        stored = [{**row, "content": canonical_json(row["content"])} for row in rows]
        with said(self._store.url), self._store._engine.begin() as connection:
            for row in sorted(stored, key=lambda each: str(each["key"])):
                insert = self._store._insert(days).values(**row)
                connection.execute(insert.on_conflict_do_update(index_elements=["key"], set_=dict(row)))

    def days(self, since: str = "") -> Iterator[dict[str, Any]]:
        """The rows of all days from `since` (ISO) on, in the order of days."""
        query = select(days).where(days.c.day >= since).order_by(days.c.day, days.c.key)
        return ({**row._mapping, "content": json.loads(row.content)} for row in self._store._stream(query))

    def raise_alarms(self, found: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """Keep alarms by key; the keys of those that were not raised before."""
        new = []
        with said(self._store.url), self._store._engine.begin() as connection:
            for key, content in sorted(found.items()):
                row = {"key": key, "content": canonical_json(content), "raised": now(), "sent": None}
                insert = self._store._insert(alarms).values(**row).on_conflict_do_nothing().returning(alarms.c.key)
                new += [each for (each,) in connection.execute(insert)]
        return new

    def alarms(self, unsent: bool = False) -> list[dict[str, Any]]:
        """Alarms in the order they were raised, with their `key`, when they were `raised` and `sent`."""
        query = select(alarms).order_by(alarms.c.raised, alarms.c.key)
        rows = self._store._stream(query.where(alarms.c.sent.is_(None)) if unsent else query)
        return [{"key": r.key, "raised": r.raised, "sent": r.sent, **json.loads(r.content)} for r in rows]

    def mark_sent(self, keys: Sequence[str]) -> None:
        """Note that alarms have reached whoever is to be told."""
        with said(self._store.url), self._store._engine.begin() as connection:
            connection.execute(update(alarms).where(alarms.c.key.in_(list(keys))).values(sent=now()))
