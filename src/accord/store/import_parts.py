"""Rows of an import in progress: the part that added them, confirmations, and the lock between imports and undoing.

A row of conversations or annotations names the part of the import that added it: the import's ID and the place of the
file among its files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Table, delete, select, text, update

from accord.edges import BadInput
from accord.store.rows import PERSON, TableRow
from accord.store.schema import annotation_table, confirmations, conversations, runs

KEYS: Mapping[Table, str] = {conversations: "id", annotation_table: "key"}
"""Tables whose rows name their import, with their primary keys."""
IMPORT = "import"
"""Command of the runs of imports."""
RUNNING = "running"
UNDONE = "undone"
_LOCK = 0xACC1D


class ImportPart(NamedTuple):
    """A file of an import in progress: its name in the tables, and the names of earlier imports of the same file."""

    name: str
    older: tuple[str, ...] = ()


def part_name(run: str, place: int) -> str:
    """Return the name of a part in the tables."""
    return f"{run}.{place}"


def is_tracked(table: Table) -> bool:
    """Return True for tables whose rows name their import."""
    return table in KEYS


def lock_imports(connection: Connection, is_shared: bool = False) -> None:
    """Wait until no import is being undone and, unless shared, no import writes; the lock ends with the transaction.

    SQLite has one writer anyway.
    """
    if connection.dialect.name == "postgresql":
        suffix = "_shared" if is_shared else ""
        connection.execute(text(f"SELECT pg_advisory_xact_lock{suffix}({_LOCK})"))


def check_running(connection: Connection, part: ImportPart) -> None:
    """Check that the import of a part was not undone, and prevent that until the transaction ends.

    Raises:
        BadInput: Another process ended the import.
    """
    lock_imports(connection, is_shared=True)
    run = part.name.rpartition(".")[0]
    status = connection.execute(select(runs.c.status).where(runs.c.id == run)).scalar()
    if status != RUNNING:
        raise BadInput(
            f"import {run} was ended by another process ({status or 'its record was removed'}) while it ran; "
            "no further rows are stored. Import the files again"
        )


def confirm(connection: Connection, insert: Any, table: Table, rows: Sequence[TableRow], part: ImportPart) -> None:
    """Record that a file has rows that another import, or another file, added before.

    Of several imports of one file, the last one confirms its rows: repeated imports of a file add no rows.
    """
    key = table.c[KEYS[table]]
    columns = [key, table.c["hash"]] if table is conversations else [key]
    imported = {tuple(row[column.name] for column in columns) for row in rows}
    query = select(*columns).where(key.in_([values[0] for values in imported]), table.c["imported"] != part.name)
    keys = [row[0] for row in connection.execute(query) if tuple(row) in imported]
    if not keys:
        return
    if part.older:
        is_older = confirmations.c["import"].in_(part.older)
        is_same_table = confirmations.c.table_name == table.name
        connection.execute(delete(confirmations).where(is_older, is_same_table, confirmations.c.key.in_(keys)))
    new_rows = [{"import": part.name, "table_name": table.name, "key": name} for name in keys]
    connection.execute(insert(confirmations).on_conflict_do_nothing(), new_rows)


def take_scales(connection: Connection, rows: Sequence[TableRow]) -> None:
    """Give stored labels the wording of equal ones that are imported again under another scale."""
    imported = {str(row["key"]): row["wording"] for row in rows if row["kind"] == PERSON and row["wording"]}
    table = annotation_table.c
    query = select(table.key, table.wording).where(table.key.in_(sorted(imported)), table.kind == PERSON)
    changed: dict[str, list[str]] = {}
    for key, wording in connection.execute(query).all() if imported else ():
        if _scale(wording) != _scale(imported[key]):
            changed.setdefault(str(imported[key]), []).append(key)
    for wording, keys in changed.items():
        connection.execute(update(annotation_table).where(table.key.in_(keys)).values(wording=wording))


def _scale(wording: object) -> str:
    """Return the range of the scale in a label's wording; empty if it is not stored."""
    return str(wording or "").partition(" ")[2]
