"""Runs: records of commands with their settings, status and results."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, Table, and_, func, select, update

from accord.edges import redact_json
from accord.store.engine import database_errors, read_json
from accord.store.erasure.tombstones import without_erased_names
from accord.store.import_parts import UNDONE
from accord.store.rows import Run, now
from accord.store.schema import runs
from accord.values import canonical_json


class RunRecords:
    """The runs of a `Store`, which inherits from this class; methods raise `StoreError`."""

    url: str
    _engine: Engine

    def _add(self, connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> int:
        raise NotImplementedError

    def _stream(self, query: Any) -> Iterator[Any]:
        raise NotImplementedError

    def _one(self, query: Any) -> Any:
        raise NotImplementedError

    def start_run(self, command: str, settings: Mapping[str, Any]) -> str:
        """Record the start of a command, after all other starts even if the clock went back, and return its ID."""
        run = uuid.uuid4().hex[:12]
        row = {"id": run, "command": command, "settings": canonical_json(settings), "status": "running"}
        row["started"] = now(after=self._one(select(func.max(runs.c.started))))
        with database_errors(self.url), self._engine.begin() as connection:
            self._add(connection, runs, [{**row, "results": None, "finished": None}])
        return run

    def change_run(self, run: str, settings: Mapping[str, Any]) -> None:
        """Replace the settings of a run."""
        with database_errors(self.url), self._engine.begin() as connection:
            connection.execute(update(runs).where(runs.c.id == run).values(settings=canonical_json(settings)))

    def finish_run(self, run: str, status: str, results: Mapping[str, Any]) -> None:
        """Record the end of a run: its status (`done`, `failed`, `interrupted`) and its redacted results."""
        is_run = and_(runs.c.id == run, runs.c.status != UNDONE)  # an undone import stays undone
        with database_errors(self.url), self._engine.begin() as connection:
            kept = without_erased_names(connection, redact_json(results))
            change = {"status": status, "results": canonical_json(kept), "finished": now()}
            connection.execute(update(runs).where(is_run).values(**change))

    @contextmanager
    def run(self, command: str, settings: Mapping[str, Any]) -> Iterator[Run]:
        """Record a block as a run; its `results` and its status are stored when it ends."""
        run = Run(self.start_run(command, settings), {})
        try:
            yield run
        except BaseException as error:
            self.finish_run(run.id, "interrupted" if isinstance(error, KeyboardInterrupt) else "failed", run.results)
            raise
        self.finish_run(run.id, "done", run.results)

    def runs(self, *commands: str) -> list[dict[str, Any]]:
        """Return runs of some commands, or of all, with their settings and results, the oldest first."""
        conditions = [runs.c.command.in_(commands)] if commands else []
        return [
            {**row._mapping, "settings": read_json(row.settings), "results": read_json(row.results or "null")}
            for row in self._stream(select(runs).where(*conditions).order_by(runs.c.started, runs.c.id))
        ]
