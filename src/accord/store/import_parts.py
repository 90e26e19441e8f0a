"""Rows of an import in progress: the part that added them, confirmations, and the lock between imports and undoing.

A row of conversations or annotations names the part of the import that added it: the import's ID and the place of the
file among its files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Table, delete, or_, select, text, update

from accord.edges import BadInput, parse_time
from accord.store.rows import BATCH, PERSON, TableRow, batches
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


def match_times(connection: Connection, rows: Sequence[TableRow], known: set[str], part: ImportPart | None) -> None:
    """Give labels the key of the equal one that was stored before, if only one of the two has a time.

    A file of labels that is exported again with times, or without them, has the same labels. The stored one takes the
    time. Labels of one file are never matched with each other: a person may have rated twice.

    Args:
        connection: Transaction that adds the rows.
        rows: Rows of annotations, whose keys are changed.
        known: Keys that rows of the same call have; the keys of `rows` are added.
        part: Import that adds the rows; None outside an import.
    """
    table = annotation_table.c
    labels = [row for row in rows if row["kind"] == PERSON and row["answer"] is None]
    keys = {str(row["key"]) for row in labels}
    stored = {key for batch in batches(sorted(keys), BATCH)
              for (key,) in connection.execute(select(table.key).where(table.key.in_(batch)))}  # fmt: skip
    known |= stored
    new = [row for row in labels if row["key"] not in known]
    equal: dict[tuple[Any, ...], list[tuple[str, Any]]] = {}
    columns = [table[name] for name in _LABEL_FIELDS]
    others = select(table.key, table.time, *columns).where(table.kind == PERSON, table.answer.is_(None))
    if part is not None:
        others = others.where(or_(table.imported.is_(None), table.imported != part.name))
    for batch in batches(sorted({str(row["conversation"]) for row in new}), BATCH):
        for key, time, *fields in connection.execute(others.where(table.conversation.in_(batch))):
            equal.setdefault(tuple(fields), []).append((key, time))
    for row in new:
        candidates = equal.get(tuple(row[name] for name in _LABEL_FIELDS), [])
        found = next(
            ((key, time) for key, time in candidates if key not in known and _is_same(time, row["time"])), None
        )
        if found is not None:
            row["key"], time = found
            if time is None:
                connection.execute(update(annotation_table).where(table.key == row["key"]).values(time=row["time"]))
        known.add(str(row["key"]))


_LABEL_FIELDS = ("conversation", "turn", "question", "by", "value", "against", "against_turn", "content")


def _is_same(time: Any, other: Any) -> bool:
    """Return True if one of two times is missing, or both are the same moment."""
    return time is None or other is None or (parse_time(time) is not None and parse_time(time) == parse_time(other))


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
