"""Backup, restore, pruning and vacuuming of a store, while other processes read and write.

| | SQLite | PostgreSQL |
|---|---|---|
| `backup` | `VACUUM INTO`: one reading transaction | rows of one snapshot (`REPEATABLE READ`) |
| `restore` | rows to a new file, which SQLite's backup copies over the store | one transaction that locks the tables |
| `vacuum` | `VACUUM`, `ANALYZE`, the log emptied | `VACUUM (ANALYZE)` of each table |
| `prune` | some thousand rows per transaction | the same |

A copy is one SQLite file for both databases: it can be inspected, used as a store, and restored into either.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Table, and_, delete, func, not_, select, text, tuple_

from accord.edges import BadInput, create_private
from accord.store.derived_tables import COMPUTED
from accord.store.engine import LOCK_WAIT_MS, StoreError, add_rows, connected, database_errors, open_engine, parsed_url
from accord.store.erasure.erased_text import ErasedText
from accord.store.erasure.erasing import Erasures
from accord.store.erasure.tombstones import ANNOTATOR, CONVERSATION, tombstone_key
from accord.store.import_parts import IMPORT
from accord.store.integrity import check_store
from accord.store.rows import PERSON, batches
from accord.store.schema import (
    alarms,
    annotation_table,
    cache,
    cache_conversations,
    can_upgrade,
    claims,
    days,
    erased,
    metadata,
    runs,
    sessions,
    users,
)
from accord.store.store import Store

COPY_BATCH = 5000
"""Rows per transaction: other writers wait for less than a second."""
_logger = logging.getLogger("accord")


@contextmanager
def _temporary_copy(target: Path) -> Iterator[Path]:
    """Yield the path of a temporary database next to a target, and delete its files afterwards."""
    path = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}")
    try:
        yield path
    finally:
        for ending in ("", "-wal", "-shm", "-journal"):
            path.with_name(path.name + ending).unlink(missing_ok=True)


@contextmanager
def _sqlite_errors(what: str) -> Iterator[None]:
    """Turn errors of SQLite's own driver into one line."""
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(f"{what}: {error}") from None


def backup(url: str, target: Path) -> dict[str, int]:
    """Copy a store as it is at one moment to a new SQLite file.

    Returns:
        The number of rows by table.

    Raises:
        BadInput: The file exists, or the store to copy does not exist.
        StoreError: The store cannot be read, or the copy cannot be written; no partial copy stays.
    """
    if target.exists():
        raise BadInput(f"there is a file {target} already; name another one")
    source, parsed = open_engine(url), parsed_url(url)
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with _temporary_copy(target) as part:
            if parsed.get_backend_name() == "sqlite":
                with database_errors(url), source.connect() as connection:
                    driver = connection.connection.driver_connection
                    assert driver is not None
                    with suppress(OSError):  # SQLite reports why a file cannot be created
                        create_private(part)
                    with _sqlite_errors(f"cannot copy to {target}"):
                        driver.execute("VACUUM INTO ?", (str(part),))
            else:
                _copy_rows(source, url, part)
            check = check_store(str(part))
            if check.damage:
                raise StoreError(f"the copy is damaged: {check.damage[0].what}. Check the store: accord store check")
            with part.open("rb+") as stream:
                os.fsync(stream.fileno())
            part.replace(target)
    finally:
        source.dispose()
    return check.rows


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
                        _add_all(writing, table, rows)
    finally:
        copy.dispose()


def _rows(connection: Connection, table: Table) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of a table in batches."""
    rows = connection.execution_options(yield_per=COPY_BATCH).execute(select(table)).mappings()
    for batch in batches(rows, COPY_BATCH):
        yield [dict(row) for row in batch]


def _add_all(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    """Add rows to a table; raises `StoreError` if two rows have the same key."""
    if add_rows(connection, table, rows) != len(rows):
        raise StoreError(f"table {table.name} of the copy has several rows with the same key")


def restore(url: str, source: Path, replace: bool = False) -> dict[str, int]:
    """Replace the content of a store with the rows of a copy, in a single transaction.

    Only rows of Accord's tables are copied, into tables that Accord creates; triggers, views and other objects of the
    copy are not. Sessions are not copied either, so users sign in again.

    Args:
        url: The store.
        source: The copy, which stays unchanged.
        replace: True deletes the rows of the store; False refuses a store with rows.

    Returns:
        The number of rows by table.

    Raises:
        BadInput: The copy does not exist, is damaged or has a schema version that cannot be upgraded, or the store has
            rows and `replace` is False.
        StoreError: The store cannot be written; it is unchanged.
    """
    if not source.is_file():
        raise BadInput(f"there is no store {source} to restore; name a file that `accord store backup FILE` wrote")
    check = check_store(str(source), rows_only=True)
    if can_upgrade(check.version):
        with tempfile.TemporaryDirectory(prefix="accord-") as folder:
            return restore(url, _upgraded(source, Path(folder)), replace)
    if check.damage:
        raise BadInput(f"{source} cannot be restored: {check.damage[0].what}")
    for name in check.foreign:
        _logger.warning("not restored: %s", name)
    store = Store(url)
    try:
        counts = {table: count for table, count in _counts(store).items() if count and table != claims.name}
        if counts and not replace:
            listed = ", ".join(f"{count} {table}" for table, count in counts.items())
            raise BadInput(f"the store holds {listed}; to replace them with the copy: --replace (back it up before)")
        buried = list(store._stream(select(erased))) if counts else []
        with database_errors(url):
            _replace_rows(store, source)
        _erase_again(store, [dict(row._mapping) for row in buried])
        return _counts(store)
    finally:
        store.close()


def _upgraded(copy: Path, folder: Path) -> Path:
    """Return a file in a folder with the rows of a copy of an earlier schema version, and the new tables."""
    path = create_private(folder / copy.name)
    with (
        _sqlite_errors(f"cannot restore {copy}"),
        closing(sqlite3.connect(f"{copy.absolute().as_uri()}?mode=ro", uri=True)) as reading,
        closing(sqlite3.connect(path)) as writing,
    ):
        reading.backup(writing)
    open_engine(str(path)).dispose()
    return path


def _erase_again(store: Store, buried: Sequence[dict[str, Any]]) -> None:
    """Repeat in a restored store the erasures since the copy was made."""
    if not buried:
        return
    with database_errors(store.url), store._engine.begin() as connection:
        add_rows(connection, erased, buried)
    keys, erasures = {row["key"] for row in buried}, Erasures(store)
    ids = {name for name in erasures.named_conversations() if tombstone_key(CONVERSATION, name) in keys}
    if ids:
        found = ErasedText(store.conversations(ids), ids)
        found.keep_own((each for each in store.conversations(synthetic="with") if each.id not in ids),
                       erasures.common_names())  # fmt: skip
        erasures.erase(found, ids)
    people = store._stream(select(annotation_table.c.by).where(annotation_table.c.kind == PERSON).distinct())
    accounts = store._stream(select(users.c.name))
    for name in {name for (name,) in [*people, *accounts] if tombstone_key(ANNOTATOR, name) in keys}:
        erasures.erase_annotator(name)
    vacuum(store.url, rewrites=True)
    _logger.warning("erased again what was erased since the copy was made: %s conversations", len(ids))


def _counts(store: Store) -> dict[str, int]:
    return {table.name: store._one(select(func.count()).select_from(table)) or 0 for table in metadata.sorted_tables}


def _replace_rows(store: Store, copy: Path) -> None:
    parsed, reader = parsed_url(store.url), connected(str(copy))
    tables = [table for table in metadata.sorted_tables if table is not sessions]
    try:
        if parsed.get_backend_name() == "sqlite":
            _replace_file(Path(str(parsed.database)), reader, copy, tables)
            return
        names = ", ".join(table.name for table in metadata.sorted_tables)
        with reader.connect().execution_options(reading=True) as reading, store._engine.begin() as connection:
            connection.exec_driver_sql(f"TRUNCATE {names}")  # locks the tables until all rows are copied
            for table in tables:
                for rows in _rows(reading, table):
                    _add_all(connection, table, rows)
    finally:
        reader.dispose()


def _replace_file(file: Path, reader: Engine, copy: Path, tables: Sequence[Table]) -> None:
    """Copy rows to a new SQLite file, and that file over the store in one transaction."""
    with _temporary_copy(file) as part:
        _copy_rows(reader, str(copy), part, tables)
        with (
            _sqlite_errors(f"cannot restore {copy}"),
            closing(sqlite3.connect(part)) as reading,
            closing(sqlite3.connect(file, timeout=LOCK_WAIT_MS / 1000)) as writing,
        ):
            reading.backup(writing)


def vacuum(url: str, rewrites: bool = False) -> tuple[int, int]:
    """Free unused space and update the statistics of the query planner.

    `rewrites` rewrites all tables of PostgreSQL, under a lock, so that no deleted row stays in their files. SQLite
    always does so.

    Returns:
        The store's size in bytes before and after.

    Raises:
        StoreError: The store cannot be written, or another process has been writing for a minute.
    """
    engine = open_engine(url)
    try:
        before = _size(engine)
        with database_errors(url), engine.connect() as connection:
            if engine.dialect.name == "sqlite":
                driver = connection.connection.driver_connection
                assert driver is not None
                with _sqlite_errors("the store failed"):
                    for statement in ("VACUUM", "ANALYZE"):
                        driver.execute(statement).fetchall()
                    _empty_log(driver)
            else:
                autocommit = connection.execution_options(isolation_level="AUTOCOMMIT")
                for table in metadata.sorted_tables:
                    autocommit.execute(text(f"VACUUM ({'FULL, ' if rewrites else ''}ANALYZE) {table.name}"))
                if rewrites:  # the planner's statistics hold frequent values, such as IDs; needs the database's owner
                    autocommit.execute(text("VACUUM FULL pg_catalog.pg_statistic"))
        return before, _size(engine)
    finally:
        engine.dispose()


def _empty_log(driver: Any) -> None:
    """Copy the write-ahead log into the file and truncate it; a long reading transaction of another process delays it.

    Raises:
        StoreError: Another process was reading for a minute.
    """
    deadline = time.monotonic() + LOCK_WAIT_MS / 1000
    while driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
        if time.monotonic() > deadline:
            raise StoreError("another process reads the store, so its log was not emptied; try again when it has ended")
        time.sleep(0.1)


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
    """Delete old rows that can be missed, and return their number by table; with `dry_run` only count them.

    Deletes finished runs, days of live scores, sent alarms, expired claims and computed results; `with_cache` also
    replies and vectors, which are paid for again when needed. Keeps imports, the last finished run of each command,
    conversations, ratings and paid answers.
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
    counts = {table.name: _prune_table(store, table, condition, dry_run) for table, condition in old}
    if with_cache and not dry_run:
        _prune_sources(store)
    return counts


def _prune_sources(store: Store) -> None:
    """Delete the conversations of cached rows that are gone."""
    named = cache_conversations.c
    kept = select(cache.c.key).where(cache.c.kind == named.kind, cache.c.key == named.key)
    _prune_table(store, cache_conversations, ~kept.exists(), dry_run=False)


def _prune_table(store: Store, table: Table, condition: Any, dry_run: bool) -> int:
    if dry_run:
        return store._one(select(func.count()).select_from(table).where(condition)) or 0
    key = tuple_(*table.primary_key.columns)
    batch = delete(table).where(key.in_(select(*table.primary_key.columns).where(condition).limit(COPY_BATCH)))
    total = 0
    while True:
        with database_errors(store.url), store._engine.begin() as connection:
            deleted = connection.execute(batch).rowcount
        total += deleted
        if deleted < COPY_BATCH:
            return total
