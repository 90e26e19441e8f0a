"""Checks of a store: the database's own checks, its version, foreign objects, and every row; every part of the mart.

| check | result |
|---|---|
| the file's pages, and each index against its table (`PRAGMA integrity_check`) | what SQLite says of each |
| references between tables (`PRAGMA foreign_key_check`) | the table and its row |
| the number of the last migration | whether an older or a newer Accord wrote it, and whether the tables are of it |
| tables and columns | which are missing, and which have another definition |
| primary keys of tables with another definition | the keys of several rows |
| conversations of people's labels | the number of labels whose conversation is missing |
| triggers, views, indexes, tables and functions that Accord did not make | each by name; damage if it changes rows |
| every row: types of columns, JSON, content | which cannot be read, and why |
| every file of the mart of scores, if there is one | which cannot be read, and why |

Nothing is written, and a store that other commands cannot open is checked as far as it can be read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, get_args

from sqlalchemy import Column, Connection, Integer, LargeBinary, Table, func, inspect, or_, select, text
from sqlalchemy.exc import DBAPIError

from accord.edges import AccordError, BadInput, redact_message
from accord.store.accounts import ROLES
from accord.store.engine import (
    RECOVER,
    StoreError,
    connected,
    database_errors,
    migrations,
    newest_migration,
    parsed_url,
    reachable,
    upgrade_to,
    version_of,
)
from accord.store.foreign_objects import (
    RECREATE,
    ForeignObject,
    changed_keys,
    changed_tables,
    foreign_objects,
    own_indexes,
)
from accord.store.mart import Mart
from accord.store.mart_files import DAMAGED
from accord.store.parts import COMPUTED, VECTOR, check_vector
from accord.store.request_claims import spool_folders
from accord.store.rows import annotation_from
from accord.store.schema import (
    alarms,
    annotated,
    assignments,
    cache,
    claims,
    confirmations,
    conversations,
    days,
    items,
    metadata,
    people,
    predictions,
    runs,
    sessions,
    studies,
    talk_messages,
    talks,
)
from accord.store.studies import ItemKind, State
from accord.store.talks import SaidState, TalkState
from accord.values import Conversation

SHOWN = 3
"""Keys of rows that are named where many cannot be read."""
MOST_LINES = 20
"""Lines of SQLite's own check that are shown."""


class Damage(NamedTuple):
    """What is damaged, and how to repair it."""

    what: str
    repair: str


@dataclass
class StoreCheck:
    """What a check found.

    Attributes:
        store: The store's URL, without its password.
        version: The number of the last migration; `None` where the store has none.
        rows: How many rows of each table can be read.
        damage: What is damaged; empty where nothing is.
        notes: Other remarks.
        foreign: Objects that Accord did not make and that change no rows.
    """

    store: str
    version: str | None = None
    rows: dict[str, int] = field(default_factory=dict)
    damage: list[Damage] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Everything."""
        return {**asdict(self), "damage": [each._asdict() for each in self.damage]}


def check_store(url: str, mart: Path | None = None, rows_only: bool = False) -> StoreCheck:
    """Check a store and all its tables.

    Args:
        url: The store.
        mart: The folder of its mart of scores, which is checked too.
        rows_only: Check the rows, which is enough to copy them: triggers and views of the store are left behind then.

    Raises:
        BadInput: There is no store of that name.
        StoreError: The database cannot be reached at all.
    """
    parsed = parsed_url(url)
    file = Path(str(parsed.database)) if parsed.get_backend_name() == "sqlite" and parsed.database else None
    if file is not None and not file.is_file():
        raise BadInput(f"there is no store {file} to check; name one in accord.yaml: store: sqlite:///FILE")
    found = StoreCheck(parsed.render_as_string(hide_password=True))
    try:
        with database_errors(url):
            engine = reachable(url)
            try:
                with engine.connect().execution_options(reading=True) as connection:
                    _look(connection, found, file, rows_only)
            finally:
                engine.dispose()
    except StoreError as error:
        if file is None:
            raise
        found.damage.append(Damage(str(error), _recover(file)))
    if mart is not None:
        _check_mart(mart, found)
    waiting = [folder for folder in spool_folders(url) if any(folder.glob("*.jsonl"))]
    found.notes += [f"answers that were paid for wait in {each}; the next command takes them in" for each in waiting]
    return found


def _check_mart(folder: Path, found: StoreCheck) -> None:
    if folder.exists() and not folder.is_dir():
        repair = f"move it away, then accord board repair: {folder}"
        found.damage.append(Damage(f"mart: {folder} is not a folder", repair))
        return
    again = "accord board repair; then score again, or restore the file from a backup"
    found.damage += [Damage(f"mart: {fault}", again) for fault in Mart(folder).faults()]
    aside = sorted(folder.glob(f"*{DAMAGED}")) if folder.is_dir() else []
    found.notes += [f"{each} was set aside because it could not be read; nothing reads it" for each in aside]


def _look(connection: Connection, found: StoreCheck, file: Path | None, rows_only: bool) -> None:
    if file is not None:
        found.damage += _pages(connection, file, rows_only)
    replaced = _check_objects(connection, found, foreign_objects(connection), rows_only)
    if "alembic_version" in replaced or not inspect(connection).has_table("alembic_version"):
        found.damage.append(Damage("it has no table of versions: it is no store of Accord", "name another database"))
        return
    if not _is_newest(connection, found):
        return
    _check_objects(connection, found, changed_keys(connection), rows_only)
    changed = changed_tables(connection)
    for table in metadata.tables.values():
        if table.name not in replaced:
            _check_table(connection, table, changed.get(table.name, []), found, file, rows_only)
    if not rows_only:
        _check_indexes(connection, found)
    if not (found.damage or rows_only):
        found.notes += _labels_without_conversation(connection)


def _is_newest(connection: Connection, found: StoreCheck) -> bool:
    """Check the version of a store, and return True if it is the newest."""
    found.version, newest = version_of(connection), newest_migration()
    if found.version is None:
        found.damage.append(Damage("its table of versions is empty", _version_repair(connection)))
    elif found.version not in migrations():
        what = f"its version is {found.version}, the newest this Accord knows {newest}"
        found.damage.append(Damage(what, f"upgrade Accord, or {GO_BACK}"))
    elif found.version < newest and (later := _names_in(connection) & _newest_names() - _names_at(found.version)):
        what = f"its version is {found.version}, but it has {', '.join(sorted(later)[:SHOWN])} of a later version"
        found.damage.append(Damage(what, _version_repair(connection)))
    elif found.version < newest:
        found.notes.append(
            f"it is of version {found.version}; any other command brings it to {newest}, then check again"
        )
    return found.version == newest


def _check_table(
    connection: Connection,
    table: Table,
    differences: Sequence[str],
    found: StoreCheck,
    file: Path | None,
    rows_only: bool,
) -> None:
    """Check the definition, the keys and the rows of a table."""
    if missing := _missing(connection, table):
        found.damage.append(Damage(f"table {table.name}: {missing}", GO_BACK))
    if differences:
        damage = Damage(f"table {table.name} {', '.join(differences)}", RECREATE)
        found.damage += () if rows_only else (damage,)
        found.damage += () if missing else _double_keys(connection, table)
    if not missing:
        _check_rows(connection, table, READERS.get(table, lambda row: None), found, file)


def _check_indexes(connection: Connection, found: StoreCheck) -> None:
    """Name missing indexes: without a unique one, rows can be there twice."""
    seen = inspect(connection)
    tables = [name for name in seen.get_table_names() if name in metadata.tables]
    there = {index["name"] for table in tables for index in seen.get_indexes(table)}
    for name, is_unique in own_indexes().items():
        if name not in there and is_unique:
            found.damage.append(Damage(f"unique index {name} is missing", RECREATE))
        elif name not in there:
            found.notes.append(f"index {name} is missing, so that queries are slow; {RECREATE}")


GO_BACK = "restore a backup: accord store restore FILE"


def _version_repair(connection: Connection) -> str:
    """Return the repair of a store whose stated version is wrong."""
    newest = newest_migration()
    if _newest_names() - _names_in(connection):
        return GO_BACK
    set_version = f"DELETE FROM alembic_version; INSERT INTO alembic_version VALUES ('{newest}')"
    return f"the tables are those of version {newest}; set it: {set_version}; then check again. Or {GO_BACK}"


def _newest_names() -> set[str]:
    """Return the names of the tables, columns and indexes of the newest version."""
    tables = metadata.tables.values()
    columns = {f"column {table.name}.{column.name}" for table in tables for column in table.columns}
    return {f"table {table.name}" for table in tables} | columns | {f"index {name}" for name in own_indexes()}


def _names_in(connection: Connection) -> set[str]:
    """Return the names of the tables, columns and indexes of a store."""
    seen, names = inspect(connection), set[str]()
    for table in seen.get_table_names():
        names.add(f"table {table}")
        names |= {f"column {table}.{column['name']}" for column in seen.get_columns(table)}
        names |= {f"index {index['name']}" for index in seen.get_indexes(table)}
    return names


def _names_at(version: str) -> set[str]:
    """Return the names of the tables, columns and indexes that a new store of a version has."""
    engine = connected("sqlite:///:memory:")
    try:
        with engine.begin() as connection:
            upgrade_to(version, connection)
            return _names_in(connection)
    finally:
        engine.dispose()


def _double_keys(connection: Connection, table: Table) -> Iterator[Damage]:
    """Yield the damage of rows with equal keys; tables with their primary key have none."""
    keys = list(table.primary_key.columns)
    groups = select(*keys, func.count().label("rows")).group_by(*keys).having(func.count() > 1).order_by(*keys)
    if doubled := connection.execute(groups).all():
        named = "; ".join(f"{', '.join(map(str, row[:-1]))} ({row[-1]} rows)" for row in doubled[:SHOWN])
        more = f" and {len(doubled) - SHOWN} more keys" if len(doubled) > SHOWN else ""
        row_id = "rowid" if connection.dialect.name == "sqlite" else "ctid"
        columns = ", ".join(f'"{key.name}"' for key in keys)
        first = f"SELECT min({row_id}) FROM {table.name} GROUP BY {columns}"
        yield Damage(
            f"table {table.name} has several rows with the same key: {named}{more}",
            f"keep the first row of each key: DELETE FROM {table.name} WHERE {row_id} NOT IN ({first})",
        )


def _labels_without_conversation(connection: Connection) -> Iterator[str]:
    """Yield a note on labels of people that name a missing conversation."""
    known = select(conversations.c.id)
    lost = or_(annotated.c.conversation.not_in(known), annotated.c.against.not_in(known))
    if count := connection.execute(
        select(func.count()).select_from(annotated).where(annotated.c.kind == "person", lost)
    ).scalar():
        yield (
            f"{count} labels name a conversation that the store does not hold; commands leave them out. Import the "
            "conversations again to use them"
        )


def _check_objects(
    connection: Connection, found: StoreCheck, objects: Sequence[ForeignObject], rows_only: bool
) -> set[str]:
    """Name objects that Accord did not make, and return the tables of the store that are replaced by some of them."""
    for each in objects:
        if each.replaces_table or (each.is_active and not rows_only):
            found.damage.append(_foreign_damage(each, connection))
        else:
            found.foreign.append(str(each))
    return {each.name.lower() for each in objects if each.replaces_table}


def _foreign_damage(found: ForeignObject, connection: Connection) -> Damage:
    repair = "copy the rows into a new store: accord store restore FILE"
    if not found.name.startswith("sqlite_autoindex"):
        repair = f"if you did not make it, do not trust the store; remove it: {found.drop(connection.dialect.name)}"
    return Damage(f"{found} was not made by Accord and changes rows of the store", repair)


def _pages(connection: Connection, file: Path, rows_only: bool) -> Iterator[Damage]:
    """Yield the damage that SQLite's own checks find."""
    lines = [str(line) for (line,) in connection.execute(text(f"PRAGMA integrity_check({MOST_LINES})"))]
    for line in lines if lines != ["ok"] else ():
        is_index = "index" in line.lower() and "missing" in line.lower()
        yield Damage(" ".join(line.split()), f"sqlite3 {file} REINDEX" if is_index else _recover(file))
    for row in () if rows_only else connection.execute(text("PRAGMA foreign_key_check")):
        yield Damage(f"table {row[0]}: row {row[1]} refers to a row of {row[2]} that is not there", _recover(file))


def _recover(file: Path) -> str:
    return RECOVER.format(file=file)


def _missing(connection: Connection, table: Table) -> str:
    """Which columns of a table are not there, or that all of it is not."""
    if not inspect(connection).has_table(table.name):
        return "it is not there"
    there = {column["name"] for column in inspect(connection).get_columns(table.name)}
    lacking = [column.name for column in table.columns if column.name not in there]
    return f"it has no {', '.join(lacking)}" if lacking else ""


def _check_rows(
    connection: Connection, table: Table, reader: Callable[[Any], object], found: StoreCheck, file: Path | None
) -> None:
    """Read every row of a table."""
    wrong: list[tuple[Mapping[str, Any], str]] = []
    count, keys, check_types = 0, [column.name for column in table.primary_key.columns], _type_check(table)
    try:
        for row in connection.execution_options(yield_per=500).execute(select(table)):
            try:
                check_types(row)
                reader(row)
                count += 1
            except (AccordError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                wrong.append(({key: getattr(row, key) for key in keys}, _reason(error)))
    except DBAPIError as error:
        if file is None:
            raise
        found.damage.append(Damage(f"table {table.name} cannot be read to its end: {error.orig}", _recover(file)))
    found.rows[table.name] = count
    if wrong:
        found.damage.append(Damage(_told(table, wrong), _removal(table, wrong)))


def _reason(error: Exception) -> str:
    first = redact_message(str(error)).splitlines() or [""]
    return f"{type(error).__name__}: {first[0][:120]}" if not isinstance(error, AccordError) else first[0][:200]


def _told(table: Table, wrong: Sequence[tuple[Mapping[str, Any], str]]) -> str:
    named = "; ".join(f"{', '.join(map(str, key.values()))} ({reason})" for key, reason in wrong[:SHOWN])
    more = f" and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
    return f"table {table.name}: {len(wrong)} rows cannot be read: {named}{more}"


AGAIN = {
    "conversations": "import them again",
    "annotations": "import labels again, ask for answers again: accord judge",
    "cache": "they are asked for or computed again when they are needed",
    "claims": "they are made again",
}
"""How the rows of a table are had again."""
LOST = "what they held is lost then"
MOST_REMOVED = 50
"""Rows that one statement removes."""


def _removal(table: Table, wrong: Sequence[tuple[Mapping[str, Any], str]]) -> str:
    """How to remove rows, and how to have them again."""
    keys = [key for key, _ in wrong[:MOST_REMOVED]]
    names, values = list(keys[0]), [f"({', '.join(map(_literal, key.values()))})" for key in keys]
    rest = "" if len(wrong) <= MOST_REMOVED else ", and check again for the others"
    remove = f"DELETE FROM {table.name} WHERE ({', '.join(names)}) IN (VALUES {', '.join(values)})"
    return f"go back to a copy of the store, or remove them{rest}: {remove}; {AGAIN.get(table.name, LOST)}"


def _literal(value: Any) -> str:
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"


# --- reading rows ---------------------------------------------------------------------------------------------------


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


def _conversation(row: Any) -> None:
    Conversation.from_json(json.loads(row.content))
    if row.hash != "s256:" + hashlib.sha256(row.content.encode("utf-8", "surrogatepass")).hexdigest():
        raise ValueError("its content is not what was written")


def _cached(row: Any) -> None:
    if row.kind == VECTOR:
        return check_vector(row.bytes or b"")
    if row.kind == COMPUTED:
        from safetensors.numpy import load

        load(row.bytes)
    json.loads(row.content)


def _run(row: Any) -> None:
    json.loads(row.settings), json.loads(row.results or "null")


def _content(row: Any) -> None:
    json.loads(row.content)


def _one_of(column: str, allowed: Collection[str]) -> Callable[[Any], None]:
    """Return a reader that checks the value of a column."""

    def check(row: Any) -> None:
        if getattr(row, column) not in allowed:
            raise ValueError(f"column {column} holds none of {', '.join(allowed)}")

    return check


def _message(row: Any) -> None:
    _one_of("state", get_args(SaidState))(row)
    json.loads(row.about)


READERS: Mapping[Table, Callable[[Any], object]] = {
    conversations: _conversation,
    annotated: annotation_from,
    confirmations: lambda row: str(row.key),
    cache: _cached,
    claims: lambda row: datetime.fromisoformat(row.until),
    runs: _run,
    days: _content,
    alarms: _content,
    people: _one_of("role", ROLES),
    sessions: lambda row: datetime.fromisoformat(row.until),
    studies: _content,
    items: _one_of("kind", get_args(ItemKind)),
    assignments: _one_of("state", get_args(State)),
    predictions: _content,
    talks: _one_of("state", get_args(TalkState)),
    talk_messages: _message,
}
"""Check the content of a table's rows; `budgets` and others need no more than their types."""
