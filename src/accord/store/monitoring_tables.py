"""Sketches of days and alarms of live monitoring."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import select, update

from accord.store.engine import database_errors, read_json
from accord.store.rows import now
from accord.store.schema import alarms, days
from accord.store.store import Store
from accord.values import canonical_json


class MonitoringTables:
    """Days and alarms in a store; several processes may write, each its own sketches."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def put_days(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write rows with `key`, `evaluator`, `system`, `day` and `content` (JSON); an equal key is replaced."""
        with database_errors(self._store.url), self._store._engine.begin() as connection:
            for row in sorted(rows, key=lambda row: str(row["key"])):
                values = {**row, "content": canonical_json(row["content"])}
                insert = self._store._insert(days).values(**values)
                connection.execute(insert.on_conflict_do_update(index_elements=["key"], set_=values))

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
