"""Objects of a database that Accord did not create: triggers, rules, views, indexes, tables and functions.

An object is active if it can change or hide rows: a trigger deletes new rows, a unique index makes
`ON CONFLICT DO NOTHING` drop rows, a view replaces a table. A store with active objects is not opened. Other objects
are only reported. The definitions of Accord's own tables are compared with the schema: a table without its primary key
accepts the same row twice.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from sqlalchemy import Column, Connection, Table, text

from accord.store.schema import INDEXES, VERSION_TABLE, metadata

RECREATE = "copy the rows into a new store: name it in accord.yaml, then accord store restore FILE"
"""Repair of a store whose tables have other definitions."""
NAMED_OBJECTS = 3
"""Maximum number of objects named in a message."""
_logger = logging.getLogger("accord")


class ForeignObject(NamedTuple):
    """An object that Accord did not create.

    Attributes:
        kind: Such as `trigger`, `rule`, `view`, `unique index` or `function`.
        name: Its name, which may hold any character.
        table: The table of the object; empty if it belongs to none.
        is_active: True if it can change or hide rows of the store.
        replaces_table: True if it has the name of a table of the store.
    """

    kind: str
    name: str
    table: str = ""
    is_active: bool = False
    replaces_table: bool = False

    def __str__(self) -> str:
        """Return the kind, the name and the table in one line."""
        name, table = (re.sub(r"[^\w .-]", "?", part)[:60] for part in (self.name, self.table))
        return f"{self.kind} {name} on table {table}" if table else f"{self.kind} {name}"

    def drop(self, dialect: str) -> str:
        """Return the statement that removes the object."""
        kind = self.kind.removeprefix("unique ").upper()
        name, table = ('"' + part.replace('"', '""') + '"' for part in (self.name, self.table))
        is_of_table = dialect == "postgresql" and self.kind in {"trigger", "rule", "policy"}
        return f"DROP {kind} {name} ON {table}" if is_of_table else f"DROP {kind} {name}"


def foreign_objects(connection: Connection) -> list[ForeignObject]:
    """Return the objects that Accord did not create, except changed keys (see `changed_keys`)."""
    return list((_sqlite_objects if connection.dialect.name == "sqlite" else _postgresql_objects)(connection))


def changed_keys(connection: Connection) -> list[ForeignObject]:
    """Return unique indexes and primary keys that Accord did not create: conflicts with them drop new rows.

    The store must have the current schema version.
    """
    is_sqlite, changed = connection.dialect.name == "sqlite", list[ForeignObject]()
    tables = {table.name: table for table in metadata.sorted_tables}
    for name, index, is_primary, columns in connection.execute(text(_SQLITE_KEYS if is_sqlite else _POSTGRESQL_KEYS)):
        if name not in tables:
            continue
        key = {column.name for column in tables[name].primary_key.columns}
        is_own = {*str(columns).split(",")} == key if is_primary else own_indexes().get(index, False)
        if not is_own:
            changed.append(ForeignObject("unique index", index, name, True))
    return changed


def changed_tables(connection: Connection) -> dict[str, list[str]]:
    """Return the differences between the tables of a store and those of the schema, by the name of the table.

    Missing tables, missing columns and changed unique keys are not among them. The store must have the current schema
    version.
    """
    find = _sqlite_differences if connection.dialect.name == "sqlite" else _postgresql_differences
    return {name: differences for name, differences in find(connection).items() if differences}


def check_tables(connection: Connection) -> None:
    """Refuse a store whose tables differ from those of the schema.

    Raises:
        UnsafeStore: There are such tables.
    """
    if changed := changed_tables(connection):
        named = "; ".join(f"table {name} {found[0]}" for name, found in [*changed.items()][:NAMED_OBJECTS])
        raise UnsafeStore(
            f"tables of the store differ from the schema: {named}. accord store check lists all "
            f"differences; to repair the store, {RECREATE}"
        )


def check_objects(connection: Connection, warns: bool = True) -> None:
    """Refuse a store with active foreign objects, and warn of views.

    Raises:
        UnsafeStore: There are active objects.
    """
    objects = foreign_objects(connection)
    check_active(objects)
    views = [item for item in objects if "view" in item.kind]
    if views and warns:
        names = ", ".join(map(str, views[:NAMED_OBJECTS]))
        _logger.warning("the store has objects that Accord did not create: %s", names)


def check_active(objects: list[ForeignObject]) -> None:
    """Refuse a store with active objects.

    Raises:
        UnsafeStore: One of the objects is active.
    """
    if active := [item for item in objects if item.is_active]:
        named = ", ".join(map(str, active[:NAMED_OBJECTS]))
        more = f" and {len(active) - NAMED_OBJECTS} more" if len(active) > NAMED_OBJECTS else ""
        raise UnsafeStore(
            f"the store has objects that Accord did not create and that change its rows: {named}{more}. If you did not "
            "create them, do not trust the store. accord store check lists them with statements that remove them; or "
            "copy only the rows into a new store: name it in accord.yaml, then accord store restore FILE"
        )


class UnsafeStore(Exception):
    """A store with active foreign objects or changed tables."""


@cache
def _own_names() -> frozenset[str]:
    return frozenset({VERSION_TABLE, *(table.name for table in metadata.sorted_tables)})


@cache
def own_indexes() -> dict[str, bool]:
    """Return the names of Accord's indexes, each with True if it is unique."""
    indexes = {str(index.name): bool(index.unique) for table in metadata.sorted_tables for index in table.indexes}
    for statement in INDEXES:
        unique, name = re.findall(r"^(UNIQUE )?INDEX (\w+)", statement)[0]
        indexes[name] = bool(unique)
    return indexes


def _sqlite_objects(connection: Connection) -> Iterator[ForeignObject]:
    rows = connection.execute(text("SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_master"))
    for kind, name, table, sql in rows:
        is_own = name.lower() in _own_names()
        if kind == "trigger":
            yield ForeignObject(kind, name, table, True)
        elif kind == "view" or (kind == "table" and sql.upper().startswith("CREATE VIRTUAL")):
            kind = kind if kind == "view" else "virtual table"
            yield ForeignObject(kind, name, is_active=is_own, replaces_table=is_own)
        elif kind == "table" and not is_own and not name.startswith("sqlite_"):
            yield ForeignObject(kind, name)
        elif kind == "index" and sql and name not in own_indexes():
            yield ForeignObject(kind, name, table)


_NO_EXTENSION = "NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = {}.oid AND d.deptype = 'e')"
_POSTGRESQL = f"""
WITH place AS (SELECT oid FROM pg_namespace WHERE nspname = current_schema()),
relations AS (SELECT c.* FROM pg_class c, place WHERE c.relnamespace = place.oid AND {_NO_EXTENSION.format("c")})
SELECT 'trigger', t.tgname, c.relname FROM pg_trigger t JOIN relations c ON c.oid = t.tgrelid WHERE NOT t.tgisinternal
UNION ALL
SELECT 'rule', r.rulename, c.relname FROM pg_rewrite r JOIN relations c ON c.oid = r.ev_class
WHERE r.rulename <> '_RETURN'
UNION ALL
SELECT 'policy', p.polname, c.relname FROM pg_policy p JOIN relations c ON c.oid = p.polrelid
UNION ALL
SELECT CASE c.relkind WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' WHEN 'f' THEN 'foreign table'
       WHEN 'p' THEN 'partitioned table' ELSE 'table' END, c.relname, ''
FROM relations c WHERE c.relkind IN ('r', 'v', 'm', 'f', 'p')
UNION ALL
SELECT CASE p.prokind WHEN 'p' THEN 'procedure' WHEN 'a' THEN 'aggregate' ELSE 'function' END, p.proname, ''
FROM pg_proc p, place WHERE p.pronamespace = place.oid AND {_NO_EXTENSION.format("p")}
UNION ALL
SELECT 'event trigger', evtname, '' FROM pg_event_trigger
"""


def _postgresql_objects(connection: Connection) -> Iterator[ForeignObject]:
    for kind, name, table in connection.execute(text(_POSTGRESQL)):
        is_own = name in _own_names()
        if table:
            yield ForeignObject(kind, name, table, table in _own_names())
        elif kind != "table" or not is_own:
            replaces = is_own and kind in {"view", "materialized view", "foreign table", "partitioned table"}
            yield ForeignObject(kind, name, is_active=replaces, replaces_table=replaces)


_SQLITE_KEYS = """
SELECT m.name, l.name, l.origin = 'pk', group_concat(i.name) FROM sqlite_master m, pragma_index_list(m.name) l,
pragma_index_info(l.name) i WHERE m.type = 'table' AND l."unique" GROUP BY m.name, l.name
"""
_POSTGRESQL_KEYS = """
SELECT c.relname, x.relname, i.indisprimary, (SELECT string_agg(a.attname, ',') FROM pg_attribute a
       WHERE a.attrelid = c.oid AND a.attnum = ANY(i.indkey))
FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_class x ON x.oid = i.indexrelid
WHERE i.indisunique AND c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())
"""


# --- definitions of tables ------------------------------------------------------------------------------------------

_SQLITE_COLUMNS = """
SELECT m.name, m.sql, x.name, x.type, x."notnull", x.dflt_value, x.pk > 0, x.hidden
FROM sqlite_master m, pragma_table_xinfo(m.name) x WHERE m.type = 'table'
"""
_QUOTED = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\[[^\]]*\]|--[^\n]*|/\*.*?\*/""", re.DOTALL)
"""Quoted names, string literals and comments in SQL."""
_CLAUSES = re.compile(r"\b(COLLATE|CHECK|CONFLICT|REFERENCES|STRICT|ROWID|AUTOINCREMENT)\b", re.IGNORECASE)
"""Clauses that change or reject rows; no table of Accord has one."""
_POSTGRESQL_CONSTRAINTS = """
SELECT c.relname, coalesce(string_agg(k.contype::text, ''), '') FROM pg_class c LEFT JOIN pg_constraint k
ON k.conrelid = c.oid WHERE c.relkind = 'r'
AND c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema()) GROUP BY c.relname
"""
_CONSTRAINTS = {"c": "CHECK", "f": "REFERENCES", "x": "EXCLUDE"}


def _key_of(table: Table) -> str:
    return ", ".join(column.name for column in table.primary_key.columns)


def _sqlite_differences(connection: Connection) -> dict[str, list[str]]:
    differences: dict[str, list[str]] = {}
    keyed_tables: set[str] = set()
    for name, sql, column, *definition in connection.execute(text(_SQLITE_COLUMNS)):
        table = metadata.tables.get(name)
        if table is None:
            continue
        if name not in differences:
            clauses = sorted({clause.upper() for clause in _CLAUSES.findall(_QUOTED.sub(" ", sql))})
            differences[name] = [f"has a {clause} clause" for clause in clauses]
        if definition[3]:
            keyed_tables.add(name)
        if difference := _column_difference(table.columns.get(column), *definition):
            differences[name].append(f"has a column {column} that {difference}")
    for name, lines in differences.items():
        if name not in keyed_tables:
            lines.insert(0, f"has no primary key (expected: {_key_of(metadata.tables[name])})")
    return differences


def _column_difference(
    own: Column[str | int | bytes] | None, kind: str, not_null: int, default: str | None, in_key: int, hidden: int
) -> str:
    """Return the first difference of a SQLite column from the schema; an empty string if there is none."""
    if hidden:
        return "is generated"
    if own is None:
        return "Accord did not create"
    differences = {
        f"has the type {kind or 'none'}": _affinity(kind) != _affinity(str(own.type)) or not kind,
        "may be null": not own.nullable and not not_null,
        "may not be null": own.nullable and bool(not_null),
        "has a default": default is not None,
        "is not in the primary key": own.primary_key and not in_key,
    }
    return next((difference for difference, applies in differences.items() if applies), "")


def _affinity(kind: str) -> str:
    """Return the affinity of a declared type, by the rules of SQLite."""
    names = {"INT": "integer", "CHAR": "text", "CLOB": "text", "TEXT": "text", "BLOB": "blob"}
    return next((affinity for word, affinity in names.items() if word in kind.upper()), kind.upper())


def _postgresql_differences(connection: Connection) -> dict[str, list[str]]:
    differences: dict[str, list[str]] = {}
    for name, kinds in connection.execute(text(_POSTGRESQL_CONSTRAINTS)):
        if name in metadata.tables:
            missing = [] if "p" in kinds else [f"has no primary key (expected: {_key_of(metadata.tables[name])})"]
            clauses = [f"has a {clause} clause" for kind, clause in _CONSTRAINTS.items() if kind in kinds]
            differences[name] = missing + clauses
    return differences
