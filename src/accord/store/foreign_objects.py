"""Objects of a database that Accord did not create: triggers, rules, views, indexes, tables and functions.

An object is active if it can change or hide rows: a trigger deletes new rows, a unique index makes
`ON CONFLICT DO NOTHING` drop rows, a view replaces a table. A store with active objects is not opened. Other objects
are only reported. The definitions of Accord's own tables are compared with the schema: a table without its primary key
accepts the same row twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from sqlalchemy import Connection, text

from accord.store.schema import VERSION_TABLE, metadata, table_statements

RECREATE = "copy the rows into a new store: name it in accord.yaml, then accord store restore FILE"
"""Repair of a store whose tables have other definitions."""
NAMED_OBJECTS = 3
"""Maximum number of objects named in a message."""


class ForeignObject(NamedTuple):
    """An object that Accord did not create: its kind, such as `trigger` or `unique index`, its name and its table.

    `is_active` is True if it can change or hide rows of the store, `replaces_table` if it has the name of a table of
    the store.
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
    changed: list[ForeignObject] = []
    if connection.dialect.name == "sqlite":
        for kind, name, table, sql in connection.execute(text(_SQLITE)):
            is_unique = kind == "index" and table in metadata.tables and sql.upper().startswith("CREATE UNIQUE")
            if is_unique and _plain(sql) != _own_definitions().get(name):
                changed.append(ForeignObject("unique index", name, table, True))
        return changed
    for table, name, is_primary, columns in connection.execute(text(_POSTGRESQL_KEYS)):
        if table in metadata.tables:
            key = {column.name for column in metadata.tables[table].primary_key.columns}
            is_own = {*str(columns).split(",")} == key if is_primary else own_indexes().get(name, False)
            changed += [] if is_own else [ForeignObject("unique index", name, table, True)]
    return changed


def changed_tables(connection: Connection) -> list[str]:
    """Return the names of tables whose definition differs from the schema; missing tables are not among them.

    The store must have the current schema version.
    """
    if connection.dialect.name == "sqlite":
        rows = connection.execute(text(_SQLITE)).all()
        tables = {name: sql for kind, name, _, sql in rows if kind == "table" and name in metadata.tables}
        return [name for name, sql in tables.items() if _plain(sql) != _own_definitions()[name]]
    constraints = connection.execute(text(_POSTGRESQL_CONSTRAINTS))
    return [
        name for name, kinds in constraints if name in metadata.tables and ("p" not in kinds or {*"cfx"} & {*kinds})
    ]


def active_fault(objects: list[ForeignObject]) -> str:
    """Return the message about a store with active objects; empty if there is none."""
    active = [item for item in objects if item.is_active]
    if not active:
        return ""
    named = ", ".join(map(str, active[:NAMED_OBJECTS]))
    more = f" and {len(active) - NAMED_OBJECTS} more" if len(active) > NAMED_OBJECTS else ""
    return (
        f"the store has objects that Accord did not create and that change its rows: {named}{more}. If you did not "
        "create them, do not trust the store. accord store check lists them with statements that remove them; or "
        "copy only the rows into a new store: name it in accord.yaml, then accord store restore FILE"
    )


@cache
def _own_names() -> frozenset[str]:
    return frozenset({VERSION_TABLE, *(table.name for table in metadata.sorted_tables)})


@cache
def own_indexes() -> dict[str, bool]:
    """Return the names of Accord's indexes, each with True if it is unique."""
    definitions = {name: each.split()[1] for name, each in _own_definitions().items()}
    return {name: kind == "UNIQUE" for name, kind in definitions.items() if kind != "TABLE"}


_SQLITE = "SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_master"


def _plain(sql: str) -> str:
    """Return a definition without line breaks and repeated spaces."""
    return " ".join(sql.split())


@cache
def _own_definitions() -> dict[str, str]:
    """Return the definitions of Accord's tables and indexes, as SQLite stores them."""
    names = re.compile(r"CREATE (?:UNIQUE )?(?:TABLE|INDEX) (\w+)")
    return {names.findall(each)[0]: each for each in map(_plain, table_statements("sqlite"))}


def _sqlite_objects(connection: Connection) -> Iterator[ForeignObject]:
    for kind, name, table, sql in connection.execute(text(_SQLITE)):
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


_POSTGRESQL_KEYS = """
SELECT c.relname, x.relname, i.indisprimary, (SELECT string_agg(a.attname, ',') FROM pg_attribute a
       WHERE a.attrelid = c.oid AND a.attnum = ANY(i.indkey))
FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_class x ON x.oid = i.indexrelid
WHERE i.indisunique AND c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())
"""
_POSTGRESQL_CONSTRAINTS = """
SELECT c.relname, coalesce(string_agg(k.contype::text, ''), '') FROM pg_class c LEFT JOIN pg_constraint k
ON k.conrelid = c.oid WHERE c.relkind = 'r'
AND c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema()) GROUP BY c.relname
"""
