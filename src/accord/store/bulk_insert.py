"""Bulk inserts of rows with new keys: one statement per batch on SQLite, `COPY` on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, Float, Integer, LargeBinary, String, Table
from sqlalchemy.exc import DBAPIError

COPY_FROM = 20
"""Number of rows from which `COPY` with its preparation is faster than one insert."""


def add_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> int:
    """Insert the rows whose primary key is new, and return their number.

    Rows are inserted in the order of their keys, so that two writers of the same rows cannot deadlock.

    Args:
        connection: A connection with an open transaction.
        table: A table for which `takes_rows` is True.
        rows: Values by column name; a missing value is null.
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


@cache
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


@cache
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
