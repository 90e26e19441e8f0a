"""Upkeep of a store: copies and their return, old rows, space; all of it while others read and write.

| | SQLite | PostgreSQL |
|---|---|---|
| `backup` | `VACUUM INTO`: one reading transaction | rows by one snapshot (`REPEATABLE READ`) |
| `restore` | rows to a new file, which SQLite's backup copies over the store | one transaction that locks the tables |
| `vacuum` | `VACUUM`, `ANALYZE`, the log emptied | `VACUUM (ANALYZE)` of each table |
| `prune` | some thousand rows a transaction | the same |

A copy is one SQLite file whatever the store is, so that it can be looked into, used as a store, and restored into
either kind.
"""

from __future__ import annotations

import logging
import shutil
import sqlite3
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Table, and_, delete, func, not_, select, text, tuple_

from accord.edges import BadInput, create_private
from accord.store.bulk_insert import add_rows
from accord.store.engine import (
    LOCK_WAIT_MS,
    StoreError,
    connected,
    database_errors,
    newest_migration,
    open_engine,
    parsed_url,
)
from accord.store.foreign_objects import foreign_objects
from accord.store.imports import IMPORT
from accord.store.integrity import check_store
from accord.store.parts import COMPUTED
from accord.store.rows import batches
from accord.store.schema import alarms, cache, claims, days, metadata, runs, sessions
from accord.store.store import Store

ROWS_AT_ONCE = 5000
"""Rows of one transaction: short enough that others who write wait for less than a second."""
CACHED = "cache"
_logger = logging.getLogger("accord")


def backup(url: str, target: Path) -> dict[str, int]:
    """Copy a store as it is at one moment to a new SQLite file; rows per table.

    Raises:
        BadInput: There is a file already, or no store to copy.
        StoreError: The store cannot be read, or the copy not written; no half copy is left.
    """
    if target.exists():
        raise BadInput(f"there is a file {target} already; name another one")
    source, parsed = open_engine(url), parsed_url(url)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}")
    try:
        if parsed.get_backend_name() == "sqlite":
            with database_errors(url), source.connect() as connection:
                driver = connection.connection.driver_connection
                assert driver is not None
                with suppress(OSError):  # SQLite tells why a file cannot be made
                    create_private(part)
                with _named(f"cannot copy to {target}"):
                    driver.execute("VACUUM INTO ?", (str(part),))
        else:
            _copy_rows(source, url, part)
        found = check_store(str(part))
        if found.damage:
            raise StoreError(f"the copy is not whole: {found.damage[0].what}. Check the store: accord store check")
        _synced(part)
        part.replace(target)
    finally:
        source.dispose()
        for left in (part, *(part.with_name(part.name + end) for end in ("-wal", "-shm", "-journal"))):
            left.unlink(missing_ok=True)
    return found.rows


@contextmanager
def _named(what: str) -> Iterator[None]:
    """Turn the failure of SQLite's own driver into one line."""
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(f"{what}: {error}") from None


def _synced(path: Path) -> None:
    """Wait until a file is on the disk: a copy that a power cut takes is none."""
    import os

    with path.open("rb+") as stream:
        os.fsync(stream.fileno())


def _copy_rows(source: Engine, url: str, part: Path, tables: Sequence[Table] = tuple(metadata.sorted_tables)) -> None:
    """Copy the rows of tables, as of one moment, to a new SQLite store."""
    copy = open_engine(str(part))
    is_sqlite = source.dialect.name == "sqlite"
    options: dict[str, Any] = {"reading": True} if is_sqlite else {"isolation_level": "REPEATABLE READ"}
    try:
        with database_errors(url), source.connect().execution_options(**options) as snapshot:
            for table in tables:
                for rows in _rows(snapshot, table):
                    with database_errors(str(part)), copy.begin() as writing:
                        _add_each(writing, table, rows)
    finally:
        copy.dispose()


def _rows(connection: Connection, table: Table) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of a table in batches."""
    rows = connection.execution_options(yield_per=ROWS_AT_ONCE).execute(select(table)).mappings()
    for batch in batches(rows, ROWS_AT_ONCE):
        yield [dict(row) for row in batch]


def _add_each(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    """Add rows to a table.

    Raises:
        StoreError: Two rows have the same key, which the tables of a store do not allow.
    """
    if add_rows(connection, table, rows) != len(rows):
        raise StoreError(f"table {table.name} of the copy has several rows with the same key")


def restore(url: str, source: Path, replace: bool = False) -> dict[str, int]:
    """Replace the content of a store with the rows of a copy, all of them or none.

    Only rows of Accord's tables are copied, into tables that Accord makes; triggers, views and other objects of the
    copy are not. Sessions are not copied either, so that users sign in again.

    Args:
        url: The store.
        source: The copy, which is not changed.
        replace: Whether the store may hold rows, which are deleted.

    Returns:
        The number of rows of each table.

    Raises:
        BadInput: There is no such copy, it is damaged or of a newer Accord, or the store holds rows and `replace` is
            not set.
        StoreError: The store cannot be written; it is as it was.
    """
    found = check_store(str(source), rows_only=True)
    if found.damage:
        raise BadInput(f"{source} cannot be restored: {found.damage[0].what}")
    for each in found.foreign:
        _logger.warning("not restored: %s", each)
    store = Store(url)
    older: Path | None = None
    try:
        held = {table: count for table, count in _counts(store).items() if count and table != claims.name}
        if held and not replace:
            listed = ", ".join(f"{count} {table}" for table, count in held.items())
            raise BadInput(f"the store holds {listed}; to put the copy in their place: --replace (back it up before)")
        if found.version != newest_migration():  # the copy stays as it is: a copy of it is brought up to date
            older = source.with_name(f".{source.name}.{uuid.uuid4().hex[:8]}")
            shutil.copyfile(source, create_private(older))
            _drop_objects(older)
            open_engine(str(older)).dispose()
            if (migrated := check_store(str(older), rows_only=True)).damage:
                raise BadInput(f"{source} cannot be restored: {migrated.damage[0].what}")
        with database_errors(url):
            _put_back(store, older or source)
        return _counts(store)
    finally:
        store.close()
        for left in () if older is None else (older, *(older.with_name(older.name + end) for end in ("-wal", "-shm"))):
            left.unlink(missing_ok=True)


def _counts(store: Store) -> dict[str, int]:
    return {table.name: store._one(select(func.count()).select_from(table)) or 0 for table in metadata.sorted_tables}


def _drop_objects(copy: Path) -> None:
    """Drop triggers, views and foreign indexes of a copy, before migrations write to it."""
    engine = connected(str(copy))
    try:
        with database_errors(str(copy)), engine.begin() as connection:
            for each in foreign_objects(connection):
                if each.kind in {"trigger", "view", "index"}:
                    connection.exec_driver_sql(each.drop("sqlite"))
    finally:
        engine.dispose()


def _put_back(store: Store, copy: Path) -> None:
    parsed, reader = parsed_url(store.url), connected(str(copy))
    tables = [table for table in metadata.sorted_tables if table is not sessions]
    try:
        if parsed.get_backend_name() == "sqlite":
            _replace_file(Path(str(parsed.database)), reader, copy, tables)
            return
        names = ", ".join(table.name for table in metadata.sorted_tables)
        with reader.connect().execution_options(reading=True) as reading, store._engine.begin() as connection:
            connection.exec_driver_sql(f"TRUNCATE {names}")  # locks the tables until all rows are there
            for table in tables:
                for rows in _rows(reading, table):
                    _add_each(connection, table, rows)
    finally:
        reader.dispose()


def _replace_file(file: Path, reader: Engine, copy: Path, tables: Sequence[Table]) -> None:
    """Copy rows to a new SQLite file, and that file over the store in one transaction."""
    part = file.with_name(f".{file.name}.{uuid.uuid4().hex[:8]}")
    try:
        _copy_rows(reader, str(copy), part, tables)
        with (
            _named(f"cannot restore {copy}"),
            closing(sqlite3.connect(part)) as reading,
            closing(sqlite3.connect(file, timeout=LOCK_WAIT_MS / 1000)) as writing,
        ):
            reading.backup(writing)
    finally:
        for left in (part, *(part.with_name(part.name + end) for end in ("-wal", "-shm", "-journal"))):
            left.unlink(missing_ok=True)


def vacuum(url: str) -> tuple[int, int]:
    """Give unused space back and count anew what queries are planned by; the store's size in bytes, before and after.

    Raises:
        StoreError: The store cannot be written, or somebody has been writing to it for a minute.
    """
    engine = open_engine(url)
    try:
        before = _size(engine)
        with database_errors(url), engine.connect() as connection:
            if engine.dialect.name == "sqlite":
                driver = connection.connection.driver_connection
                assert driver is not None
                with _named("the store failed"):
                    for statement in ("VACUUM", "ANALYZE", "PRAGMA wal_checkpoint(TRUNCATE)"):
                        driver.execute(statement).fetchall()
            else:
                outside = connection.execution_options(isolation_level="AUTOCOMMIT")
                for table in metadata.sorted_tables:
                    outside.execute(text(f"VACUUM (ANALYZE) {table.name}"))
        return before, _size(engine)
    finally:
        engine.dispose()


def _size(engine: Engine) -> int:
    with engine.connect().execution_options(reading=True) as connection:
        if engine.dialect.name == "sqlite":
            pages = connection.execute(text("PRAGMA page_count")).scalar() or 0
            return int(pages) * int(connection.execute(text("PRAGMA page_size")).scalar() or 0)
        sizes = (func.pg_total_relation_size(table.name) for table in metadata.sorted_tables)
        return sum(int(connection.execute(select(size)).scalar() or 0) for size in sizes)


def prune(
    store: Store, older_than: timedelta, with_cache: bool = False, dry_run: bool = False, now: datetime | None = None
) -> dict[str, int]:
    """Remove what is old and can be missed; rows per table.

    Removes ended runs, days of live scores, sent alarms, expired claims and computed results. Keeps
    imports, the last finished run of each command, conversations, ratings and answers that were paid for; `with_cache`
    also removes replies and vectors.

    Args:
        store: The store.
        older_than: How old a row has to be.
        with_cache: Whether replies and vectors may go too; they are paid for once more when they are needed.
        dry_run: Count alone.
        now: The time; the clock's by default.
    """
    time = (now or datetime.now(UTC)) - older_than
    before = time.isoformat(timespec="milliseconds")
    last = select(func.max(runs.c.started)).where(runs.c.status == "done").group_by(runs.c.command)
    ended = and_(
        runs.c.started < before, runs.c.status != "running", runs.c.started.not_in(last), runs.c.command != IMPORT
    )
    old: list[tuple[Table, Any]] = [
        (runs, ended),
        (days, days.c.day < time.date().isoformat()),
        (alarms, and_(alarms.c.raised < before, not_(alarms.c.sent.is_(None)))),
        (claims, claims.c.until < before),
        (cache, cache.c.added < before if with_cache else and_(cache.c.kind == COMPUTED, cache.c.added < before)),
    ]
    return {table.name: _pruned(store, table, condition, dry_run) for table, condition in old}


def _pruned(store: Store, table: Table, condition: Any, dry_run: bool) -> int:
    if dry_run:
        return store._one(select(func.count()).select_from(table).where(condition)) or 0
    key = tuple_(*table.primary_key.columns)
    some = delete(table).where(key.in_(select(*table.primary_key.columns).where(condition).limit(ROWS_AT_ONCE)))
    total = 0
    while True:
        with database_errors(store.url), store._engine.begin() as connection:
            gone = connection.execute(some).rowcount
        total += gone
        if gone < ROWS_AT_ONCE:
            return total
