"""Connections to a store (SQLite in WAL mode, or PostgreSQL), its schema version, database errors and bulk inserts."""

from __future__ import annotations

import functools
import json
import logging
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal

import msgspec
from sqlalchemy import (
    URL,
    Connection,
    Engine,
    ExceptionContext,
    Float,
    Integer,
    LargeBinary,
    String,
    Table,
    create_engine,
    event,
    inspect,
    literal,
    make_url,
    select,
    text,
)
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, PendingRollbackError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import QueuePool

from accord.edges import AccordError, BadInput, MissingExtra, check_address, create_private, register_url_secrets
from accord.store.foreign_objects import (
    NAMED_OBJECTS,
    RECREATE,
    active_fault,
    changed_keys,
    changed_tables,
    foreign_objects,
)
from accord.store.schema import (
    ADDED_TABLES,
    SCHEMA_VERSION,
    UNKNOWN_CONVERSATION,
    UPGRADE,
    VERSION_TABLE,
    cache_conversations,
    can_upgrade,
    is_newer,
    metadata,
    table_statements,
)

# Accord reports a lost connection in one line; SQLAlchemy's own log stays off unless the user configures it.
logging.getLogger("sqlalchemy").addHandler(logging.NullHandler())

LOCK_WAIT_MS = 60_000
_LOCK_POLL_SECONDS = 0.02
CHECKPOINT = "wal_autocheckpoint=16000"
"""Pages (64 MB) of the write-ahead log before a checkpoint: an index page that many rows change is written once."""
_CREATION_LOCK = 0xACC0D


class StoreError(AccordError):
    """A failure of the database: full, locked, unreachable or damaged."""


def open_engine(url: str, reads_only: bool = False) -> Engine:
    """Connect to a store, and create its tables if the database is empty.

    Args:
        url: `sqlite:///file.db`, `sqlite:///:memory:`, `postgresql://user@host/name`, or a path of a SQLite file.
        reads_only: True for a connection whose database rejects all writes; it creates and upgrades nothing.

    Raises:
        BadInput: The URL names no supported database, or a store with another schema version.
        StoreError: The database cannot be reached or written, or has triggers or other objects that change its rows.
    """
    reads_only = reads_only and not is_in_memory(parsed_url(url))
    with database_errors(url):
        engine = connect_or_read_only(url, "reading" if reads_only else "shared")
        try:
            if not _has_current_version(engine):
                if reads_only:
                    raise BadInput(
                        "the store is empty or was written by another version of Accord, and is opened for reading. "
                        "Open it once for writing: accord store vacuum"
                    )
                _create_tables(engine)
                _has_current_version(engine, warns=False)
        except BaseException:
            engine.dispose()
            raise
    event.listen(engine, "handle_error", partial(_raise_store_error, url))
    if (file := store_file(url)) is not None:
        _watch_file(engine, file)
    return engine


def parsed_url(url: str) -> URL:
    """Parse the URL of a store, or the path of a SQLite file.

    Raises:
        BadInput: The URL names no supported database.
    """
    register_url_secrets(url)
    try:
        parsed = make_url(url if "://" in url else f"sqlite:///{url}")
        backend = parsed.get_backend_name()
    except (ArgumentError, NoSuchModuleError, ValueError):
        # The URL may contain a password, so the message does not repeat it.
        raise BadInput("the store is not a database URL; write sqlite:///accord.db or postgresql://host/name") from None
    if backend not in {"sqlite", "postgresql"}:
        raise BadInput(
            f"a store is SQLite or PostgreSQL, got {backend}; write sqlite:///accord.db or postgresql://host/name"
        )
    if backend == "sqlite" and (parsed.host or parsed.username or parsed.password or parsed.port):
        raise BadInput("a SQLite store is a file and has no host; write sqlite:///accord.db, with three slashes")
    return parsed


def store_file(url: str) -> Path | None:
    """Return the file of a SQLite store, or `None` for a store in memory or on a server.

    Raises:
        BadInput: The URL names no supported database.
    """
    parsed = parsed_url(url)
    is_file = parsed.get_backend_name() == "sqlite" and not is_in_memory(parsed)
    return Path(str(parsed.database)) if is_file else None


def located_store(url: str, folder: Path) -> str:
    """Return a store's URL with the path of a SQLite file relative to `folder`; other URLs stay unchanged."""
    file = store_file(url)
    if file is None:
        return url
    path = str(folder / file)
    return parsed_url(url).set(database=path).render_as_string(hide_password=False) if "://" in url else path


def store_exists(url: str) -> bool:
    """Return False if a store is a SQLite file that does not exist yet."""
    file = store_file(url)
    return file is None or file.is_file()


def is_in_memory(url: URL) -> bool:
    """Return True for a SQLite database in memory, which is lost with its connection."""
    return url.get_backend_name() == "sqlite" and url.database in {None, "", ":memory:"}


# --- connections ----------------------------------------------------------------------------------------------------

_NO_SPACE = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN})
"""Error codes of SQLite if it cannot create the log and the index of a database."""
Access = Literal["shared", "reading", "exclusive", "immutable"]
"""Access to a database: shared with other processes, the same without writes, for this process only, or to a SQLite
file that does not change."""
READ_WAIT_MS = 5_000
"""Longest wait of a connection without writes for a lock, since a user waits for its answer."""


def connect_or_read_only(url: str, access: Access = "shared") -> Engine:
    """Connect to a database and try the connection; if a disk is full or read-only, connect for reading.

    Processes share a SQLite file in WAL mode by an index file of a few kilobytes. If the disk is full, the file can be
    read under an exclusive lock, with the index in memory. On a read-only disk, it can be read if its log is empty.

    Raises:
        BadInput: The URL names no supported database.
        DBAPIError: The database cannot be reached.
        NotSent: A project names the address of the database, and the user has not confirmed it.
    """
    check_address(url)
    engine = connected(url, access)
    try:
        engine.connect().close()
        return engine
    except DBAPIError as error:
        if (getattr(error.orig, "sqlite_errorcode", 0) & 0xFF) not in _NO_SPACE:
            raise
        failure = error
    log = Path(f"{parsed_url(url).database}-wal")
    fallbacks: list[Access] = [] if access == "reading" else ["exclusive"]
    fallbacks += [] if log.is_file() and log.stat().st_size else ["immutable"]
    for access in fallbacks:
        engine.dispose()
        engine = connected(url, access)
        with suppress(DBAPIError):
            engine.connect().close()
            logging.getLogger("accord").warning(
                "the store cannot be written (%s): it is opened for reading. Free its disk, or make it writable",
                failure.orig,
            )
            return engine
    raise failure


def has_one_connection(engine: Engine) -> bool:
    """Return True if threads share one connection: a database in memory, or one that is locked exclusively."""
    return isinstance(engine.pool, QueuePool) and engine.pool.size() == 1


def connected(url: str, access: Access = "shared") -> Engine:
    """Return an engine for a database of any content; see `open_engine` for errors."""
    parsed = parsed_url(url)
    if parsed.get_backend_name() == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
    in_memory = is_in_memory(parsed)
    options: dict[str, Any] = {}
    if in_memory or access == "exclusive":
        # All threads share one connection and wait for it; a database in memory exists only in its connection.
        options = {"poolclass": QueuePool, "pool_size": 1, "max_overflow": 0, "pool_timeout": LOCK_WAIT_MS / 1000}
        options["connect_args"] = {"check_same_thread": False}
    elif access in ("immutable", "reading") and parsed.get_backend_name() == "sqlite":
        mode = "mode=ro&immutable=1" if access == "immutable" else "mode=ro"
        file = f"{Path(str(parsed.database)).absolute().as_uri()}?{mode}"
        options = {"creator": lambda: sqlite3.connect(file, READ_WAIT_MS / 1000, uri=True, check_same_thread=False)}
    try:
        engine = create_engine(parsed, **options)
    except ModuleNotFoundError:
        raise MissingExtra("a PostgreSQL store", "postgres") from None
    if engine.dialect.name == "sqlite":
        if not in_memory and access != "reading":
            Path(str(parsed.database)).parent.mkdir(parents=True, exist_ok=True)
            if access == "shared":
                with suppress(OSError):  # SQLite reports why a file cannot be created
                    create_private(Path(str(parsed.database)))
        if access == "exclusive":
            event.listen(engine, "connect", _lock_exclusively)
        is_reading = access in ("immutable", "reading")
        event.listen(engine, "connect", _set_read_only if is_reading else _set_pragmas)
        event.listen(engine, "begin", _begin_transaction)
    elif access == "reading":
        event.listen(engine, "connect", _refuse_writes)
    return engine


def _lock_exclusively(connection: Any, _: Any) -> None:
    connection.execute("PRAGMA locking_mode=EXCLUSIVE")  # before any other statement: keeps the index in memory


def _set_read_only(connection: Any, _: Any) -> None:
    connection.isolation_level = None
    connection.execute("SELECT 1 FROM sqlite_master")


def _refuse_writes(connection: Any, _: Any) -> None:
    """Let PostgreSQL reject writes in all transactions of a connection."""
    connection.execute("SET default_transaction_read_only = on")
    connection.execute(f"SET lock_timeout = {READ_WAIT_MS}")
    connection.commit()


def _set_pragmas(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # `_begin_transaction` begins transactions, not the driver
    for pragma in (f"busy_timeout={LOCK_WAIT_MS}", "journal_mode=WAL", "synchronous=NORMAL", CHECKPOINT):
        _set_pragma(connection, pragma)


def _set_pragma(connection: Any, pragma: str) -> None:
    """Set a pragma, and retry while the file is locked: SQLite does not wait for the lock of `journal_mode`."""
    deadline = time.monotonic() + LOCK_WAIT_MS / 1000
    while True:
        try:
            connection.execute(f"PRAGMA {pragma}")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(_LOCK_POLL_SECONDS)


def _begin_transaction(connection: Connection) -> None:
    # A writer locks at its start: an upgrade from reading to writing can fail however long it waits.
    is_reading = connection.get_execution_options().get("reading")
    connection.exec_driver_sql("BEGIN" if is_reading else "BEGIN IMMEDIATE")


_WRITING_LOCK = 0xACC2D


def lock_writing(connection: Connection, is_erasure: bool = False) -> None:
    """Exclude erasures until the transaction ends, or for an erasure wait for all writers; SQLite has one writer."""
    if connection.dialect.name == "postgresql":
        suffix = "" if is_erasure else "_shared"
        connection.execute(text(f"SELECT pg_advisory_xact_lock{suffix}({_WRITING_LOCK})"))


# --- the file of a SQLite store ---------------------------------------------------------------------------------------


def _watch_file(engine: Engine, file: Path) -> None:
    """Let transactions fail once the file of a store is another one than when it was opened.

    SQLite continues to write to a file that was moved or deleted, so acknowledged rows would be lost. For the next
    connection it would create an empty file in its place.
    """
    opened = _identity(file)

    def check(*_: Any) -> None:
        if _identity(file) != opened:
            raise StoreError(
                f"the store's file {file} was moved, replaced or deleted since it was opened; nothing was stored. "
                "Put it back, or start Accord again to open the file that is there now"
            )

    for name in ("do_connect", "begin", "commit"):
        event.listen(engine, name, check)


def _identity(file: Path) -> tuple[int, int] | None:
    """Return the device and number of a file, or `None` for a missing file."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


# --- errors ---------------------------------------------------------------------------------------------------------

_DAMAGE = ("malformed", "not a database", "could not decode", "file is encrypted")
"""Parts of SQLite's messages about a damaged file."""
_REASON_CHARACTERS = 200
CHECK = "To see the damage and its repair: accord store check"
RECOVER = (
    "restore a backup, or save the readable rows: "
    "sqlite3 {file} .recover | sqlite3 recovered.db, then name recovered.db as the store"
)
"""Repair of a damaged SQLite file."""


@contextmanager
def database_errors(url: str = "") -> Iterator[None]:
    """Turn database errors into one line; the message about a damaged file names `accord store check`.

    Raises:
        StoreError: The database failed.
    """
    try:
        yield
    except (DBAPIError, PoolTimeout, PendingRollbackError) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        lines = str(cause).strip().splitlines()
        reason = lines[0] if lines else type(cause).__name__
        reason = reason.partition(" with text ")[0][:_REASON_CHARACTERS]  # without the text of the unreadable row
        name = f" ({make_url(url).render_as_string(hide_password=True)})" if "://" in url else ""
        file = url if "://" not in url else make_url(url).database if url.startswith("sqlite") else None
        if file and any(word in reason.lower() for word in _DAMAGE):
            raise StoreError(f"the store{name} is damaged: {reason}. {CHECK}") from None
        raise StoreError(f"the store{name} failed: {reason}. Earlier writes are kept.") from None


def _raise_store_error(url: str, context: ExceptionContext) -> None:
    """Turn an error of any read or write of an open database into a StoreError."""
    if isinstance(context.sqlalchemy_exception, DBAPIError):
        with database_errors(url):
            raise context.sqlalchemy_exception


_DECODER = msgspec.json.Decoder()


def read_json(content: str) -> Any:
    """Decode a column that holds JSON.

    Raises:
        StoreError: The column holds no JSON.
    """
    with suppress(msgspec.MsgspecError, RecursionError, ValueError):  # `json` decides on what msgspec rejects
        return _DECODER.decode(content)
    try:
        return json.loads(content)
    except ValueError as error:
        reason = getattr(error, "msg", str(error))
        raise StoreError(f"the store is damaged: a row is not valid JSON ({reason}). {CHECK}") from None


# --- schema version -------------------------------------------------------------------------------------------------


def version_of(connection: Connection) -> int | str | None:
    """Return the schema version of a store, any other value as printable text, or `None` if the version is missing."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    version = connection.execute(text(f"SELECT version FROM {VERSION_TABLE}")).scalar()
    if version is None or isinstance(version, int):
        return version
    return "".join(letter if letter.isprintable() else "?" for letter in str(version)[:20])


def _has_current_version(engine: Engine, warns: bool = True) -> bool:
    """Return True if a store has the current schema version.

    Raises:
        StoreError: It has foreign objects that change its rows, or tables with other definitions.
    """
    with engine.connect().execution_options(reading=True) as connection:
        objects = foreign_objects(connection)
        is_current = version_of(connection) == SCHEMA_VERSION if not active_fault(objects) else False
        if fault := active_fault(objects) or (is_current and _definition_fault(connection)):
            raise StoreError(fault)
        if warns and (views := ", ".join([str(item) for item in objects if "view" in item.kind][:NAMED_OBJECTS])):
            logging.getLogger("accord").warning("the store has objects that Accord did not create: %s", views)
        return is_current


def _definition_fault(connection: Connection) -> str:
    """Return the message about keys and tables that differ from the schema; empty if none does."""
    if changed := changed_tables(connection):
        names = ", ".join(changed[:NAMED_OBJECTS])
        return f"the store's definition of {names} differs from Accord's. To repair the store, {RECREATE}"
    return active_fault(changed_keys(connection))


def _create_tables(engine: Engine) -> None:
    """Create all tables in an empty database; processes that open it at the same time wait for the first.

    Raises:
        BadInput: The database holds a store with another schema version.
        StoreError: The database has tables of a store but no version.
    """
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _CREATION_LOCK})
        version = version_of(connection)
        if version == SCHEMA_VERSION:
            return
        if isinstance(version, int) and can_upgrade(version):
            _add_tables(connection, version)
            return
        if version is not None:
            older = "Use the Accord that wrote it, or import the data into a new store"
            raise BadInput(
                f"the store has schema version {version}, this Accord reads version {SCHEMA_VERSION}. "
                + (f"A later Accord wrote it; {UPGRADE}" if is_newer(version) else older)
            )
        if not metadata.tables.keys().isdisjoint(inspect(connection).get_table_names()):
            raise StoreError(f"the store has tables but no schema version. {CHECK}")
        for statement in table_statements(engine.dialect.name):
            connection.exec_driver_sql(statement)
        connection.execute(text(f"CREATE TABLE IF NOT EXISTS {VERSION_TABLE} (version INTEGER NOT NULL PRIMARY KEY)"))
        connection.execute(text(f"INSERT INTO {VERSION_TABLE} VALUES (:version)"), {"version": SCHEMA_VERSION})


def _add_tables(connection: Connection, version: int) -> None:
    """Add the tables of later versions to a store of an earlier version.

    Replies that were cached before the store recorded their conversations may hold the text of any conversation.
    """
    for number in range(version + 1, SCHEMA_VERSION + 1):
        metadata.create_all(connection, ADDED_TABLES[number])
    if version < 2:
        cached = metadata.tables["cache"]
        row = [literal(UNKNOWN_CONVERSATION), cached.c.kind, cached.c.key]
        old = select(*row).where(cached.c.kind != "computed")
        connection.execute(cache_conversations.insert().from_select(["conversation", "kind", "key"], old))
    connection.execute(text(f"UPDATE {VERSION_TABLE} SET version = :version"), {"version": SCHEMA_VERSION})
    logging.getLogger("accord").warning("the store was upgraded from version %s to %s", version, SCHEMA_VERSION)


# --- bulk inserts: one statement per batch on SQLite, `COPY` on PostgreSQL --------------------------------------------

COPY_FROM = 20
"""Number of rows from which `COPY` with its preparation is faster than one insert."""


def add_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> int:
    """Insert the rows whose primary key is new into a table that `takes_rows`, and return their number.

    Rows are inserted in the order of their keys, so that two writers of the same rows cannot deadlock. A missing value
    is null. The connection has an open transaction.
    """
    if not rows:
        return 0
    names = [column.name for column in table.columns]
    ordered = sorted(rows, key=itemgetter(*(column.name for column in table.primary_key.columns)))
    try:
        cells = list(map(itemgetter(*names), ordered))
    except KeyError:
        cells = [tuple(map(row.get, names)) for row in ordered]
    if connection.dialect.name == "postgresql" and len(cells) >= COPY_FROM:
        return _copy(connection, table, cells)
    # A column that is null in every row is left out: binding null costs as much as binding a value.
    columns = [(name, column) for name, column in zip(names, zip(*cells, strict=True), strict=True)
               if column.count(None) < len(column)]  # fmt: skip
    statement = _insert(table, tuple(name for name, _ in columns), connection.dialect.paramstyle)
    return connection.exec_driver_sql(statement, list(zip(*(column for _, column in columns), strict=True))).rowcount


@functools.cache
def takes_rows(table: Table) -> bool:
    """Return True if the drivers accept the values of all columns without conversion by SQLAlchemy."""
    return all(isinstance(column.type, String | Integer | Float | LargeBinary) for column in table.columns)


def insert_of(dialect: str) -> Callable[[Table], Any]:
    """Return the `insert` of a dialect, which handles conflicts; the other dialect is slow to import."""
    if dialect == "postgresql":
        from sqlalchemy.dialects.postgresql import insert

        return insert
    from sqlalchemy.dialects.sqlite import insert as sqlite_insert

    return sqlite_insert


@functools.cache
def _insert(table: Table, names: Sequence[str], paramstyle: str) -> str:
    values = ", ".join(["?" if paramstyle == "qmark" else "%s"] * len(names))
    return f"INSERT INTO {table.name} ({_quoted(names)}) VALUES ({values}) ON CONFLICT DO NOTHING"


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _copy(connection: Connection, table: Table, cells: Sequence[tuple[Any, ...]]) -> int:
    """Copy rows to a temporary table, and insert the new ones from there: `COPY` does not handle conflicts."""
    import psycopg

    names, temporary = _quoted(column.name for column in table.columns), f"incoming_{table.name}"
    connection.exec_driver_sql(f"CREATE TEMP TABLE IF NOT EXISTS {temporary} (LIKE {table.name}) ON COMMIT DELETE ROWS")
    connection.exec_driver_sql(f"TRUNCATE {temporary}")
    driver = connection.connection.driver_connection
    assert driver is not None
    try:
        with driver.cursor() as cursor, cursor.copy(f"COPY {temporary} ({names}) FROM STDIN") as copy:
            for row in cells:
                copy.write_row(row)
    except psycopg.Error as error:  # SQLAlchemy does not wrap errors of the driver's own methods
        raise DBAPIError.instance(f"COPY {temporary}", None, error, psycopg.Error) from None
    insert = f"INSERT INTO {table.name} ({names}) SELECT {names} FROM {temporary} ORDER BY ctid ON CONFLICT DO NOTHING"
    return connection.exec_driver_sql(insert).rowcount
