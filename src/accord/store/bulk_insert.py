"""Many rows at once: one statement for a batch on SQLite, and `COPY` on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, Float, Integer, LargeBinary, String, Table
from sqlalchemy.exc import DBAPIError

FEW = 20
"""Rows below which PostgreSQL is quicker with one insert than with a `COPY` and what has to come before it."""


def add_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> int:
    """Insert the rows whose primary key is new; returns how many were.

    Rows go in the order of their keys: two writers of the same rows then wait for each other, and never in a ring.

    Args:
        connection: With a transaction open.
        table: Where to; one that `takes_rows`.
        rows: A value for every column of the table; one that is left out is null.
    """
    if not rows:
        return 0
    names = [column.name for column in table.columns]
    keys = itemgetter(*(column.name for column in table.primary_key.columns))
    ordered = sorted(rows, key=keys)
    try:
        cells = list(map(itemgetter(*names), ordered))
    except KeyError:
        cells = [tuple(map(row.get, names)) for row in ordered]
    if connection.dialect.name == "postgresql" and len(cells) >= FEW:
        return _copied(connection, table, cells)
    # A column that is null in every row is left out: binding it costs as much as binding a value.
    columns = [(name, column) for name, column in zip(names, zip(*cells, strict=True), strict=True)
               if column.count(None) < len(column)]  # fmt: skip
    statement = _insert(table, tuple(name for name, _ in columns), connection.dialect.paramstyle)
    return connection.exec_driver_sql(statement, list(zip(*(column for _, column in columns), strict=True))).rowcount


@cache
def takes_rows(table: Table) -> bool:
    """Whether the drivers know all columns' types; values of others have to be turned into theirs by SQLAlchemy."""
    return all(isinstance(column.type, String | Integer | Float | LargeBinary) for column in table.columns)


def insert_of(dialect: str) -> Callable[[Table], Any]:
    """Return the insert of a dialect, which handles conflicts; the other dialect, slow to load, stays unloaded."""
    if dialect == "postgresql":
        from sqlalchemy.dialects.postgresql import insert

        return insert
    from sqlalchemy.dialects.sqlite import insert as into_file

    return into_file


@cache
def _insert(table: Table, names: Sequence[str], paramstyle: str) -> str:
    values = ", ".join(["?" if paramstyle == "qmark" else "%s"] * len(names))
    return f"INSERT INTO {table.name} ({_quoted(names)}) VALUES ({values}) ON CONFLICT DO NOTHING"


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _copied(connection: Connection, table: Table, cells: Sequence[tuple[Any, ...]]) -> int:
    """`COPY` knows no conflicts: rows go to a table of this connection alone, and from there the new ones to theirs."""
    import psycopg

    names, waiting = _quoted(column.name for column in table.columns), f"incoming_{table.name}"
    connection.exec_driver_sql(f"CREATE TEMP TABLE IF NOT EXISTS {waiting} (LIKE {table.name}) ON COMMIT DELETE ROWS")
    connection.exec_driver_sql(f"TRUNCATE {waiting}")
    driver = connection.connection.driver_connection
    assert driver is not None
    try:
        with driver.cursor() as cursor, cursor.copy(f"COPY {waiting} ({names}) FROM STDIN") as copy:
            for row in cells:
                copy.write_row(row)
    except psycopg.Error as error:  # the driver's own, which nothing has turned into SQLAlchemy's
        raise DBAPIError.instance(f"COPY {waiting}", None, error, psycopg.Error) from None
    moved = f"INSERT INTO {table.name} ({names}) SELECT {names} FROM {waiting} ORDER BY ctid ON CONFLICT DO NOTHING"
    return connection.exec_driver_sql(moved).rowcount
