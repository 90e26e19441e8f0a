"""What is watched, in the store: sketches of days, and alarms."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import select, update

from accord.conversation import canonical_json
from accord.store.engine import said
from accord.store.rows import now
from accord.store.schema import alarms, days
from accord.store.store import Store


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
