"""Opening a database so that several processes may write to it: SQLite in WAL mode, or PostgreSQL; and migrating it."""

from __future__ import annotations

import json
import logging
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import msgspec
from sqlalchemy import URL, Connection, Engine, create_engine, create_mock_engine, event, inspect, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.pool import QueuePool
from sqlalchemy.schema import ExecutableDDLElement

from accord.edges import AccordError, BadInput, MissingExtra, create_private, register_url_secrets
from accord.store.foreign_objects import UnsafeStore, changed_keys, check_active, check_objects, check_tables
from accord.store.schema import metadata

# A connection that is lost is one line of ours; SQLAlchemy's own log of it is for who asks for it.
logging.getLogger("sqlalchemy").addHandler(logging.NullHandler())

LOCK_WAIT_MS = 60_000
_LOCK_LOOK = 0.02
CHECKPOINT = "wal_autocheckpoint=16000"
"""Pages (64 MB) that wait in a file's log: written back together, a page of an index that many rows touch goes once."""
_MIGRATION_LOCK = 0xACC0D
_MIGRATIONS = "accord.store.migrations"


class StoreError(AccordError):
    """The database cannot do what was asked: full, locked, unreachable, damaged."""


def open_engine(url: str) -> Engine:
    """Connect to a store and bring its tables up to date.

    Args:
        url: `sqlite:///file.db`, `sqlite:///:memory:`, `postgresql://user@host/name`, or a path of a SQLite file.

    Raises:
        BadInput: The URL names no database Accord knows, or a store from a newer Accord.
        StoreError: The database cannot be reached or written, or has triggers or other objects that change its rows.
    """
    with database_errors(url):
        engine = reachable(url)
        if not _is_newest(engine):
            _migrate(engine)
            _is_newest(engine, warns=False)
    return engine


def parsed_url(url: str) -> URL:
    """What a store's URL, or the path of a SQLite file, names.

    Raises:
        BadInput: No database that Accord knows.
    """
    register_url_secrets(url)
    try:
        parsed = make_url(url if "://" in url else f"sqlite:///{url}")
        kind = parsed.get_backend_name()
    except (ArgumentError, NoSuchModuleError, ValueError):
        # The URL may hold a password: say its shape, not its text.
        raise BadInput("the store is no database URL; write sqlite:///accord.db or postgresql://host/name") from None
    if kind not in {"sqlite", "postgresql"}:
        raise BadInput(
            f"a store is SQLite or PostgreSQL, got {kind}; write sqlite:///accord.db or postgresql://host/name"
        )
    if kind == "sqlite" and (parsed.host or parsed.username or parsed.password or parsed.port):
        raise BadInput("a SQLite store is a file and has no host; write sqlite:///accord.db, with three slashes")
    return parsed


def store_file(url: str) -> Path | None:
    """Return the file of a SQLite store; `None` for a store in memory or on a server.

    Raises:
        BadInput: The URL names no database that Accord knows.
    """
    parsed = parsed_url(url)
    is_file = parsed.get_backend_name() == "sqlite" and not is_in_memory(parsed)
    return Path(str(parsed.database)) if is_file else None


def located_store(url: str, folder: Path) -> str:
    """Return a store's URL with the path of a SQLite file relative to `folder`; any other URL stays as it is."""
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
    """Whether a database is gone with its one connection."""
    return url.get_backend_name() == "sqlite" and url.database in {None, "", ":memory:"}


_NO_ROOM = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN})
"""Error codes of SQLite if it cannot create the log and the index of a database."""
Access = Literal["shared", "exclusive", "immutable"]
"""Access to a SQLite file: shared with other processes, for this one only, or read-only."""


def reachable(url: str) -> Engine:
    """Connect to a database and try the connection; if a disk is full or read-only, connect for reading.

    Processes share a SQLite file in WAL mode by an index file of some kilobytes. Without room for it, the file can be
    read under an exclusive lock, with the index in memory. On a read-only disk, it can be read if its log is empty.

    Raises:
        BadInput: The URL names no database.
        DBAPIError: The database cannot be reached.
    """
    engine = connected(url)
    try:
        engine.connect().close()
        return engine
    except DBAPIError as error:
        if (getattr(error.orig, "sqlite_errorcode", 0) & 0xFF) not in _NO_ROOM:
            raise
        failure = error
    log = Path(f"{parsed_url(url).database}-wal")
    ways: list[Access] = ["exclusive"] if log.is_file() and log.stat().st_size else ["exclusive", "immutable"]
    for access in ways:
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
    """Return True if threads take turns on one connection: a database in memory, or one that is locked exclusively."""
    return isinstance(engine.pool, QueuePool) and engine.pool.size() == 1


def connected(url: str, access: Access = "shared") -> Engine:
    """Connect to a database, whose content may be anything; see `open_engine` for errors."""
    parsed = parsed_url(url)
    kind = parsed.get_backend_name()
    if kind == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
    in_memory = is_in_memory(parsed)
    # A database in memory is its connection: every thread shares the one, and waits for its turn.
    alone = {"poolclass": QueuePool, "pool_size": 1, "max_overflow": 0, "pool_timeout": LOCK_WAIT_MS / 1000}
    takes_turns = in_memory or access == "exclusive"
    shared: dict[str, Any] = {**alone, "connect_args": {"check_same_thread": False}} if takes_turns else {}
    if access == "immutable":
        file = f"{Path(str(parsed.database)).absolute().as_uri()}?mode=ro&immutable=1"
        shared = {"creator": lambda: sqlite3.connect(file, uri=True, check_same_thread=False)}
    try:
        engine = create_engine(parsed, **shared)
    except ModuleNotFoundError:
        raise MissingExtra("a PostgreSQL store", "postgres") from None
    if engine.dialect.name == "sqlite":
        if not in_memory:
            Path(str(parsed.database)).parent.mkdir(parents=True, exist_ok=True)
            if access == "shared":
                with suppress(OSError):  # SQLite tells why a file cannot be made
                    create_private(Path(str(parsed.database)))
        if access == "exclusive":
            event.listen(engine, "connect", _lock_exclusively)
        event.listen(engine, "connect", _read_only_settings if access == "immutable" else _sqlite_settings)
        event.listen(engine, "begin", _sqlite_begin)
    return engine


def _lock_exclusively(connection: Any, _: Any) -> None:
    connection.execute("PRAGMA locking_mode=EXCLUSIVE")  # before anything else: the index then stays in memory


def _read_only_settings(connection: Any, _: Any) -> None:
    connection.isolation_level = None
    connection.execute("SELECT 1 FROM sqlite_master")


def _sqlite_settings(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # transactions begin where `_sqlite_begin` says, not where the driver guesses
    for pragma in (f"busy_timeout={LOCK_WAIT_MS}", "journal_mode=WAL", "synchronous=NORMAL", CHECKPOINT):
        _set(connection, pragma)


def _set(connection: Any, pragma: str) -> None:
    """A new file's mode is changed by one at a time, and of all locks this is the one that SQLite does not wait for."""
    until = time.monotonic() + LOCK_WAIT_MS / 1000
    while True:
        try:
            connection.execute(f"PRAGMA {pragma}")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(_LOCK_LOOK)


def _sqlite_begin(connection: Connection) -> None:
    # A writer takes its lock at the start: one that upgraded from reading could fail halfway, however long it waits.
    reading = connection.get_execution_options().get("reading")
    connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")


_DAMAGE = ("malformed", "not a database", "could not decode", "file is encrypted")
"""What SQLite says where a file was cut off, overwritten or is none of its own."""
_SHOWN = 200
CHECK = "What is damaged, and how to repair it, says: accord store check"
RECOVER = (
    "go back to a copy of the store, or save what can be read: "
    "sqlite3 {file} .recover | sqlite3 recovered.db, then name recovered.db as the store"
)
"""How a SQLite file is repaired."""


@contextmanager
def database_errors(url: str = "") -> Iterator[None]:
    """Turn the database's own failures into one clear line, and say of a damaged file what tells more."""
    try:
        yield
    except DBAPIError as error:
        reason = str(error.orig).strip().splitlines()[0] if str(error.orig).strip() else type(error.orig).__name__
        where = f" ({make_url(url).render_as_string(hide_password=True)})" if "://" in url else ""
        reason = reason.partition(" with text ")[0][:_SHOWN]  # not the transcript that could not be read
        file = url if "://" not in url else make_url(url).database if url.startswith("sqlite") else None
        if file and any(word in reason.lower() for word in _DAMAGE):
            raise StoreError(f"the store{where} is damaged: {reason}. {CHECK}") from None
        raise StoreError(f"the store{where} failed: {reason}. What was written before is kept.") from None


_FAST = msgspec.json.Decoder()


def read_json(content: str) -> Any:
    """What a column holds that was written as JSON.

    Raises:
        StoreError: Something wrote over it.
    """
    with suppress(msgspec.MsgspecError, RecursionError, ValueError):  # what it refuses, `json` decides
        return _FAST.decode(content)
    try:
        return json.loads(content)
    except ValueError as error:
        reason = getattr(error, "msg", str(error))
        raise StoreError(f"the store is damaged: a row of it is no JSON any more ({reason}). {CHECK}") from None


def migrations() -> list[str]:
    """The numbers of the migrations this version of Accord knows, the first one first."""
    folder = files(_MIGRATIONS) / "versions"
    return sorted(entry.name[:4] for entry in folder.iterdir() if entry.name.endswith(".py"))


def newest_migration() -> str:
    """The number of the last migration this version of Accord knows."""
    return migrations()[-1]


def _is_newest(engine: Engine, warns: bool = True) -> bool:
    """Return whether a store has the newest version.

    Raises:
        StoreError: It has objects that change its rows and that Accord did not make, or tables with other definitions.
    """
    with engine.connect().execution_options(reading=True) as connection:
        try:
            check_objects(connection, warns)
            is_newest = version_of(connection) == newest_migration()
            if is_newest:
                check_active(changed_keys(connection))
                check_tables(connection)
        except UnsafeStore as error:
            raise StoreError(str(error)) from None
        return is_newest


def _version(engine: Engine) -> str | None:
    with engine.connect().execution_options(reading=True) as connection:
        return version_of(connection)


def version_of(connection: Connection) -> str | None:
    """The number of the last migration of a store, as it may be shown; `None` where it has none."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return None if found is None else "".join(each if each.isprintable() else "?" for each in str(found)[:20])


def _migrate(engine: Engine) -> None:
    """Bring the tables up to date: of an empty database all at once, of any other one migration after another."""
    found = _version(engine)
    if found is not None and found not in migrations():
        raise BadInput(
            f"the store was written by a newer Accord (its version {found}, ours {newest_migration()}); upgrade"
        )
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})
        if names := inspect(connection).get_table_names():
            if version_of(connection) is None and not metadata.tables.keys().isdisjoint(names):
                raise StoreError(f"the store has tables but no version. {CHECK}")
            with _named_conflict(connection):
                upgrade_to("head", connection)
        else:
            for statement in _tables(engine.dialect.name):
                connection.exec_driver_sql(statement)
            connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"))
            connection.execute(text("INSERT INTO alembic_version VALUES (:newest)"), {"newest": newest_migration()})


@cache
def _tables(dialect: str) -> list[str]:
    """What makes every table and index in an empty database; to write it takes longer than to run it."""
    made: list[ExecutableDDLElement] = []
    mock = create_mock_engine(f"{dialect}://", lambda ddl, *_, **__: made.append(ddl))
    metadata.create_all(mock, checkfirst=False)
    return [str(ddl.compile(dialect=mock.dialect)) for ddl in made]


@contextmanager
def _named_conflict(connection: Connection) -> Iterator[None]:
    """Raise `StoreError` if a migration would make a table, a column or an index that is there already."""
    found = version_of(connection)
    try:
        yield
    except DBAPIError as error:
        if not any(word in str(error.orig).lower() for word in ("duplicate column", "already exists")):
            raise
        reason = str(error.orig).strip().splitlines()[0]
        raise StoreError(f"the tables of the store are not those of its version {found}: {reason}. {CHECK}") from None


def upgrade_to(version: str, connection: Connection) -> None:
    """Run the migrations up to a version."""
    from alembic.command import upgrade
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(files(_MIGRATIONS)))
    config.attributes["connection"] = connection
    upgrade(config, version)
