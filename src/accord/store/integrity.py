"""Checks of a store: the database's own checks, its version, foreign objects, and every row; every part of the mart.

| check | result |
|---|---|
| the file's pages, and each index against its table (`PRAGMA integrity_check`) | messages of SQLite |
| references between tables (`PRAGMA foreign_key_check`) | the table and its row |
| the schema version | the version found and the version that this Accord reads |
| tables and columns | missing ones, and those with another definition |
| primary keys of tables with another definition | the keys of several rows |
| rows of undone imports; targets of people's labels | the number of rows that belong to nothing |
| triggers, views, indexes, tables and functions that Accord did not create | each by name; damage if it changes rows |
| every row: types of columns, JSON, content | rows that cannot be read, with the reason |
| every file of the mart of scores | files that cannot be read, with the reason |

Nothing is written. A store that other commands cannot open is checked as far as it can be read.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, get_args

from sqlalchemy import Column, Connection, Integer, LargeBinary, Table, and_, func, inspect, or_, select, text
from sqlalchemy.exc import DBAPIError

from accord.edges import AccordError, BadInput, count_of, redact_message
from accord.store import schema
from accord.store.anchors import anchor_of
from accord.store.derived_tables import COMPUTED, VECTOR, check_vector
from accord.store.engine import (
    RECOVER,
    StoreError,
    connect_or_read_only,
    database_errors,
    parsed_url,
    version_of,
)
from accord.store.erasure.erasing import Erasures
from accord.store.erasure.tombstones import ErasedKind
from accord.store.foreign_objects import (
    RECREATE,
    ForeignObject,
    changed_keys,
    changed_tables,
    foreign_objects,
    own_indexes,
)
from accord.store.imports import find_orphans
from accord.store.mart.files import DAMAGED, SCORE_AGAIN
from accord.store.mart.mart import Mart
from accord.store.people.accounts import ROLES
from accord.store.people.chats import ChatState, MessageState
from accord.store.people.studies import ItemKind, State
from accord.store.request_claims import spool_folders
from accord.store.rows import annotation_from
from accord.store.schema import SCHEMA_VERSION, VERSION_TABLE, annotation_table, conversations, metadata
from accord.values import Conversation

NAMED_ROWS = 3
"""Maximum number of unreadable rows named in a message."""
MAX_LINES = 20
"""Maximum number of lines of SQLite's own check."""
RESTORE = "restore a backup: accord store restore FILE"
REPAIR = "remove them: accord store check --repair; imported files can be imported again"


class Damage(NamedTuple):
    """A damaged part of a store, and its repair."""

    what: str
    repair: str


@dataclass
class StoreCheck:
    """Result of a check: the store's URL without its password, its schema version, and the readable rows by table.

    `damage` is empty for an intact store. `foreign` has objects that Accord did not create and that change no rows.
    `interrupted` is the number of erasures that have not ended.
    """

    store: str
    version: int | str | None = None
    rows: dict[str, int] = field(default_factory=dict)
    damage: list[Damage] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    interrupted: int = 0

    @property
    def is_earlier(self) -> bool:
        """True for a store of an earlier version without other damage: its rows can be checked after its upgrade."""
        return schema.can_upgrade(self.version) and len(self.damage) == 1

    def to_json(self) -> dict[str, Any]:
        """Return all fields as JSON values."""
        return {**asdict(self), "damage": [item._asdict() for item in self.damage]}


def check_store(url: str, mart: Path | None = None, rows_only: bool = False) -> StoreCheck:
    """Check a store, all its tables, and the `mart` of its scores if its folder is given.

    With `rows_only`, only the rows are checked, as needed to copy them: the copy has no triggers and views of the
    store.

    Raises:
        BadInput: The store does not exist.
        StoreError: A database server cannot be reached.
    """
    parsed = parsed_url(url)
    file = Path(str(parsed.database)) if parsed.get_backend_name() == "sqlite" and parsed.database else None
    if file is not None and not file.is_file():
        raise BadInput(f"there is no store {file} to check; name one in accord.yaml: store: sqlite:///FILE")
    check = StoreCheck(parsed.render_as_string(hide_password=True))
    try:
        with database_errors(url):
            engine = connect_or_read_only(url)
            try:
                with engine.connect().execution_options(reading=True) as connection:
                    _Check(connection, check, file, rows_only).run()
            finally:
                engine.dispose()
    except StoreError as error:
        if file is None:
            raise
        check.damage.append(Damage(str(error), RECOVER.format(file=file)))
    if mart is not None:
        _check_mart(mart, check)
    if check.interrupted:
        check.notes.append("an erasure is running or was interrupted; to continue it: accord store erase --resume")
    waiting = [folder for folder in spool_folders(url) if any(folder.glob("*.jsonl"))]
    check.notes += [f"paid answers wait in {folder}; the next command stores them" for folder in waiting]
    return check


def is_store_file(path: Path) -> bool:
    """Return True if a SQLite file holds the tables of a store."""
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as copy:
        names = {name for (name,) in copy.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        return {conversations.name, annotation_table.name, VERSION_TABLE} <= names
    return False


def _check_mart(folder: Path, check: StoreCheck) -> None:
    if folder.exists() and not folder.is_dir():
        repair = f"move it away: {folder}"
        check.damage.append(Damage(f"mart: {folder} is not a folder", repair))
        return
    check.damage += [Damage(f"mart: {fault}", SCORE_AGAIN) for fault in Mart(folder).faults()]
    set_aside = sorted(folder.glob(f"*{DAMAGED}")) if folder.is_dir() else []
    check.notes += [f"{path} was set aside because it could not be read; nothing reads it" for path in set_aside]


class _Check:
    """A check in progress: it reads from a connection and adds to a `StoreCheck`."""

    def __init__(self, connection: Connection, check: StoreCheck, file: Path | None, rows_only: bool) -> None:
        self.connection, self.check, self.file, self.rows_only = connection, check, file, rows_only

    def run(self) -> None:
        """Run all checks, until one makes the rest impossible."""
        connection, check = self.connection, self.check
        if self.file is not None:
            check.damage += self._pages(self.file)
        replaced = self._check_objects(foreign_objects(connection))
        if VERSION_TABLE in replaced or not inspect(connection).has_table(VERSION_TABLE):
            check.damage.append(Damage("it has no schema version: it is no store of Accord", "name another database"))
            return
        check.version = version_of(connection)
        if check.version != SCHEMA_VERSION:
            check.damage.append(self._wrong_version())
            return
        self._check_objects(changed_keys(connection))
        changed = changed_tables(connection)
        for table in metadata.tables.values():
            if table.name not in replaced:
                self._check_table(table, table.name in changed)
        if not self.rows_only:
            self._check_indexes()
        if not (check.damage or self.rows_only):
            is_open = and_(schema.runs.c.command == Erasures.command, schema.runs.c.status == "running")
            check.interrupted = connection.execute(select(func.count()).where(is_open)).scalar() or 0
            check.damage += self._orphans()
            check.notes += self._labels_without_conversation()

    def _pages(self, file: Path) -> Iterator[Damage]:
        """Yield the damage that SQLite's own checks find."""
        recover = RECOVER.format(file=file)
        lines = [str(line) for (line,) in self.connection.execute(text(f"PRAGMA integrity_check({MAX_LINES})"))]
        for line in lines if lines != ["ok"] else ():
            is_index = "index" in line.lower() and "missing" in line.lower()
            yield Damage(" ".join(line.split()), f"sqlite3 {file} REINDEX" if is_index else recover)
        for row in () if self.rows_only else self.connection.execute(text("PRAGMA foreign_key_check")):
            yield Damage(f"table {row[0]}: row {row[1]} refers to a missing row of {row[2]}", recover)

    def _check_objects(self, objects: Sequence[ForeignObject]) -> set[str]:
        """Report foreign objects, and return the names of the tables that foreign objects replace."""
        for item in objects:
            if item.replaces_table or (item.is_active and not self.rows_only):
                repair = "copy the rows into a new store: accord store restore FILE"
                if not item.name.startswith("sqlite_autoindex"):
                    drop = item.drop(self.connection.dialect.name)
                    repair = f"if you did not create it, do not trust the store; remove it: {drop}"
                what = f"{item} was not created by Accord and changes rows of the store"
                self.check.damage.append(Damage(what, repair))
            else:
                self.check.foreign.append(str(item))
        return {item.name.lower() for item in objects if item.replaces_table}

    def _wrong_version(self) -> Damage:
        version = self.check.version
        if version is None:
            columns = (column for table in metadata.tables.values() for column in self._missing_columns(table))
            if any(columns):
                return Damage("its schema version is missing", RESTORE)
            insert = f"INSERT INTO {VERSION_TABLE} VALUES ({SCHEMA_VERSION})"
            repair = f"the tables are those of version {SCHEMA_VERSION}; set it: {insert}; then check again"
            return Damage("its schema version is missing", f"{repair}. Or {RESTORE}")
        what = f"its schema version is {version}, this Accord reads version {SCHEMA_VERSION}"
        if schema.can_upgrade(version):
            return Damage(what, "the next command that opens the store adds the new tables: accord import --list")
        if schema.is_newer(version):
            return Damage(what, schema.UPGRADE)
        return Damage(what, f"use the Accord that wrote it, or {RESTORE}")

    def _check_table(self, table: Table, is_changed: bool) -> None:
        """Check the definition, the keys and the rows of a table."""
        damage = self.check.damage
        missing = self._missing_columns(table)
        if missing:
            what = "is missing" if len(missing) == len(table.columns) else f"has no {', '.join(missing)}"
            damage.append(Damage(f"table {table.name} {what}", RESTORE))
        elif is_changed and not self.rows_only:
            damage.append(Damage(f"table {table.name} has another definition than Accord's", RECREATE))
        if not missing:
            damage += self._double_keys(table) if is_changed else ()
            self._check_rows(table)

    def _missing_columns(self, table: Table) -> list[str]:
        seen = inspect(self.connection)
        present = {column["name"] for column in seen.get_columns(table.name)} if seen.has_table(table.name) else set()
        return [column.name for column in table.columns if column.name not in present]

    def _double_keys(self, table: Table) -> Iterator[Damage]:
        """Yield the damage of rows with equal keys; tables with their primary key have none."""
        keys = list(table.primary_key.columns)
        groups = select(*keys, func.count().label("rows")).group_by(*keys).having(func.count() > 1).order_by(*keys)
        if doubled := self.connection.execute(groups).all():
            names = "; ".join(f"{', '.join(map(str, row[:-1]))} ({row[-1]} rows)" for row in doubled[:NAMED_ROWS])
            more = f" and {len(doubled) - NAMED_ROWS} more keys" if len(doubled) > NAMED_ROWS else ""
            row_id = "rowid" if self.connection.dialect.name == "sqlite" else "ctid"
            columns = ", ".join(f'"{key.name}"' for key in keys)
            first = f"SELECT min({row_id}) FROM {table.name} GROUP BY {columns}"
            yield Damage(
                f"table {table.name} has several rows with the same key: {names}{more}",
                f"keep the first row of each key: DELETE FROM {table.name} WHERE {row_id} NOT IN ({first})",
            )

    def _check_rows(self, table: Table) -> None:
        """Read every row of a table."""
        bad_rows: list[tuple[Mapping[str, Any], str]] = []
        keys, check_types = [column.name for column in table.primary_key.columns], _type_check(table)
        check_content, count = CONTENT_CHECKS.get(table, lambda row: None), 0
        try:
            for row in self.connection.execution_options(yield_per=500).execute(select(table)):
                try:
                    check_types(row)
                    check_content(row)
                    count += 1
                except (AccordError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                    bad_rows.append(({key: getattr(row, key) for key in keys}, _reason(error)))
        except DBAPIError as error:
            if self.file is None:
                raise
            what = f"table {table.name} cannot be read to its end: {error.orig}"
            self.check.damage.append(Damage(what, RECOVER.format(file=self.file)))
        self.check.rows[table.name] = count
        if bad_rows:
            self.check.damage.append(_unreadable_rows(table, bad_rows))

    def _check_indexes(self) -> None:
        """Report missing indexes: without a unique one, the same row can be stored twice."""
        seen = inspect(self.connection)
        tables = [name for name in seen.get_table_names() if name in metadata.tables]
        present = {index["name"] for table in tables for index in seen.get_indexes(table)}
        for name, is_unique in own_indexes().items():
            if name not in present and is_unique:
                self.check.damage.append(Damage(f"unique index {name} is missing", RECREATE))
            elif name not in present:
                self.check.notes.append(f"index {name} is missing, so queries are slow; {RECREATE}")

    def _orphans(self) -> Iterator[Damage]:
        """Yield the damage of rows of undone imports and of imported labels without their target."""
        found = find_orphans(self.connection)
        if any(found):
            rows = f"{count_of(found.conversations, 'conversation')} and {count_of(found.labels, 'label')}"
            yield Damage(f"{rows} belong to undone imports, or to conversations that the store does not hold", REPAIR)

    def _labels_without_conversation(self) -> Iterator[str]:
        """Yield a note on labels of people, not of imports, whose conversation is missing."""
        known, table = select(conversations.c.id), annotation_table.c
        is_lost = or_(table.conversation.not_in(known), table.against.not_in(known))
        query = select(func.count()).select_from(annotation_table)
        query = query.where(table.kind == "person", table.imported.is_(None), is_lost)
        if count := self.connection.execute(query).scalar():
            yield (
                f"{count} labels name a conversation that the store does not hold; commands leave them out. Import the "
                "conversations again to use them"
            )


# --- rows that cannot be read ---------------------------------------------------------------------------------------

_RECREATED_BY = {
    "conversations": "import them again",
    "annotations": "import labels again, request answers again: accord judge",
    "cache": "they are requested or computed again when needed",
    "claims": "they are made again",
}
"""Commands that create the rows of a table again."""
MAX_DELETED = 50
"""Maximum number of rows in one statement of a repair."""


def _reason(error: Exception) -> str:
    line = (redact_message(str(error)).splitlines() or [""])[0]
    return line[:200] if isinstance(error, AccordError) else f"{type(error).__name__}: {line[:120]}"


def _unreadable_rows(table: Table, rows: Sequence[tuple[Mapping[str, Any], str]]) -> Damage:
    """Return the damage of unreadable rows; the repair deletes them."""
    names = "; ".join(f"{', '.join(map(str, key.values()))} ({reason})" for key, reason in rows[:NAMED_ROWS])
    more = f" and {len(rows) - NAMED_ROWS} more" if len(rows) > NAMED_ROWS else ""
    keys = [key for key, _ in rows[:MAX_DELETED]]
    values = [f"({', '.join(map(_literal, key.values()))})" for key in keys]
    rest = "" if len(rows) <= MAX_DELETED else ", and check again for the others"
    delete = f"DELETE FROM {table.name} WHERE ({', '.join(keys[0])}) IN (VALUES {', '.join(values)})"
    recreated = _RECREATED_BY.get(table.name, "their content is lost then")
    return Damage(
        f"table {table.name}: {len(rows)} rows cannot be read: {names}{more}",
        f"restore a copy of the store, or delete them{rest}: {delete}; {recreated}",
    )


def _literal(value: Any) -> str:
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"


# --- checks of rows -------------------------------------------------------------------------------------------------


def _type_check(table: Table) -> Callable[[Sequence[Any]], None]:
    """Return a function that checks the types of a row: SQLite stores any value in any column."""
    expected = [(column.name, _type_of(column), bool(column.nullable)) for column in table.columns]

    def check(row: Sequence[Any]) -> None:
        for value, (name, kind, is_nullable) in zip(row, expected, strict=True):
            if not (isinstance(value, kind) or (value is None and is_nullable)):
                raise ValueError(f"column {name} holds {type(value).__name__}, not {kind.__name__}")

    return check


def _type_of(column: Column[Any]) -> type:
    return int if isinstance(column.type, Integer) else bytes if isinstance(column.type, LargeBinary) else str


def _check_conversation(row: Any) -> None:
    Conversation.from_json(json.loads(row.content))
    if row.hash != "s256:" + hashlib.sha256(row.content.encode("utf-8", "surrogatepass")).hexdigest():
        raise ValueError("its content does not match its hash")


def _check_cached(row: Any) -> None:
    if row.kind == VECTOR:
        return check_vector(row.bytes or b"")
    if row.kind == COMPUTED:
        from safetensors.numpy import load

        load(row.bytes)
    json.loads(row.content)


def _holds(*json_columns: str, **allowed: Collection[str]) -> Callable[[Any], None]:
    """Return a function that checks the JSON of some columns, or null, and the values of others."""

    def check(row: Any) -> None:
        for column, values in allowed.items():
            if getattr(row, column) not in values:
                raise ValueError(f"column {column} holds another value than {', '.join(values)}")
        for content in (getattr(row, column) for column in json_columns):
            json.loads("null" if content is None else content)

    return check


CONTENT_CHECKS: Mapping[Table, Callable[[Any], object]] = {
    conversations: _check_conversation,
    annotation_table: annotation_from,
    schema.confirmations: lambda row: str(row.key),
    schema.cache: _check_cached,
    schema.cache_conversations: lambda row: str(row.key),
    schema.erased: _holds(kind=get_args(ErasedKind)),
    schema.claims: lambda row: datetime.fromisoformat(row.until),
    schema.runs: _holds("settings", "results"),
    schema.days: _holds("content"),
    schema.alarms: _holds("content"),
    schema.anchors: anchor_of,
    schema.users: _holds(role=ROLES),
    schema.sessions: lambda row: datetime.fromisoformat(row.until),
    schema.studies: _holds("content"),
    schema.items: _holds(kind=get_args(ItemKind)),
    schema.assignments: _holds(state=get_args(State)),
    schema.predictions: _holds("content"),
    schema.chats: _holds(state=get_args(ChatState)),
    schema.chat_messages: _holds("details", state=get_args(MessageState)),
}
"""Functions that check a row's content, by table; the types are enough for the other tables."""
