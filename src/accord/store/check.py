"""Checking a store: the database's own checks, its version, its tables, and whether every row can be read.

| what is looked at | what is said |
|---|---|
| the file's pages, and each index against its table (`PRAGMA integrity_check`) | what SQLite says of each |
| references between tables (`PRAGMA foreign_key_check`) | the table and its row |
| the number of the last migration | whether an older or a newer Accord wrote it |
| tables and columns | which are missing |
| every row | which cannot be read, and why |

Nothing is written, and a store that cannot be opened otherwise is checked as far as it can be read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Connection, Table, inspect, select, text
from sqlalchemy.exc import DBAPIError

from accord.store.engine import (
    RECOVER,
    StoreError,
    connected,
    migrations,
    newest_migration,
    parsed_url,
    said,
    version_of,
)
from accord.store.paid import spool_folders
from accord.store.parts import COMPUTED, VECTOR, check_vector
from accord.store.rows import annotation_from
from accord.store.schema import (
    alarms,
    annotated,
    budgets,
    cache,
    claims,
    confirmations,
    conversations,
    days,
    runs,
    scores,
)
from accord.values import AccordError, BadInput, Conversation, redacted_message

SHOWN = 3
"""Keys of rows that are named where many cannot be read."""
MOST_LINES = 20
"""Lines of SQLite's own check that are shown."""


class Damage(NamedTuple):
    """What is damaged, and how to repair it."""

    what: str
    repair: str


@dataclass
class Checked:
    """What a check found.

    Attributes:
        store: The store's URL, without its password.
        version: The number of the last migration; `None` where the store has none.
        rows: How many rows of each table can be read.
        damage: What is damaged; empty where nothing is.
        notes: What else to know.
    """

    store: str
    version: str | None = None
    rows: dict[str, int] = field(default_factory=dict)
    damage: list[Damage] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Everything."""
        return {**asdict(self), "damage": [each._asdict() for each in self.damage]}


def check_store(url: str) -> Checked:
    """Check a store, and everything in it.

    Raises:
        BadInput: There is no store of that name.
        StoreError: The database cannot be reached at all.
    """
    parsed = parsed_url(url)
    file = Path(str(parsed.database)) if parsed.get_backend_name() == "sqlite" and parsed.database else None
    if file is not None and not file.is_file():
        raise BadInput(f"there is no store {file} to check; name one in accord.yaml: store: sqlite:///FILE")
    found = Checked(parsed.render_as_string(hide_password=True))
    engine = connected(url)
    try:
        with said(url), engine.connect().execution_options(reading=True) as connection:
            _look(connection, found, file)
    except StoreError as error:
        if file is None:
            raise
        found.damage.append(Damage(str(error), _recover(file)))
    finally:
        engine.dispose()
    waiting = [folder for folder in spool_folders(url) if any(folder.glob("*.jsonl"))]
    found.notes += [f"answers that were paid for wait in {each}; the next command takes them in" for each in waiting]
    return found


def _look(connection: Connection, found: Checked, file: Path | None) -> None:
    if file is not None:
        found.damage += _pages(connection, file)
    if not inspect(connection).has_table("alembic_version"):
        found.damage.append(Damage("it has no table of versions: it is no store of Accord", "name another database"))
        return
    found.version, newest = version_of(connection), newest_migration()
    if found.version not in migrations():
        what = f"its version is {found.version}, the newest this Accord knows {newest}"
        found.damage.append(Damage(what, "upgrade Accord, or go back to a copy of the store"))
        return
    if found.version < newest:
        found.notes.append(
            f"it is of version {found.version}; any other command brings it to {newest}, then check again"
        )
        return
    for table, reader in READERS.items():
        missing = _missing(connection, table)
        if missing:
            found.damage.append(Damage(f"table {table.name}: {missing}", "go back to a copy of the store"))
        else:
            _check_rows(connection, table, reader, found, file)


def _pages(connection: Connection, file: Path) -> Iterator[Damage]:
    """What SQLite's own checks say."""
    lines = [str(line) for (line,) in connection.execute(text(f"PRAGMA integrity_check({MOST_LINES})"))]
    for line in lines if lines != ["ok"] else ():
        is_index = "index" in line.lower() and "missing" in line.lower()
        yield Damage(" ".join(line.split()), f"sqlite3 {file} REINDEX" if is_index else _recover(file))
    for row in connection.execute(text("PRAGMA foreign_key_check")):
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
    connection: Connection, table: Table, reader: Callable[[Any], object], found: Checked, file: Path | None
) -> None:
    """Read every row of a table."""
    wrong: list[tuple[Mapping[str, Any], str]] = []
    count, keys = 0, [column.name for column in table.primary_key.columns]
    try:
        for row in connection.execution_options(yield_per=500).execute(select(table)):
            try:
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
    first = redacted_message(str(error)).splitlines() or [""]
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


READERS: Mapping[Table, Callable[[Any], object]] = {
    conversations: _conversation,
    annotated: annotation_from,
    confirmations: lambda row: str(row.key),
    cache: _cached,
    claims: lambda row: datetime.fromisoformat(row.until),
    budgets: lambda row: (int(row.requests), int(row.tokens), int(row.money)),
    runs: _run,
    scores: _content,
    days: _content,
    alarms: _content,
}
