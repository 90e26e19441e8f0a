"""Tombstones: hashes of erased conversations and annotators, by which no process stores them again.

A writer looks for tombstones in the transaction that adds rows. On PostgreSQL it also holds a shared lock, and an
erasure waits for all such locks after its tombstones are visible: no row of an erased conversation is added later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Literal, TypeVar

from sqlalchemy import Connection, delete, select

from accord.store.engine import lock_writing
from accord.store.erasure.erased_text import ErasedText, strings_in
from accord.store.rows import BATCH, batches
from accord.store.schema import erased

R = TypeVar("R", bound=Mapping[str, Any])
ErasedKind = Literal["conversation", "annotator"]
CONVERSATION: ErasedKind = "conversation"
ANNOTATOR: ErasedKind = "annotator"
NamesOf = Callable[[Any], Iterable[tuple[ErasedKind, str | None]]]
"""Return the conversations and annotators that a row names."""


def name_hash(name: object) -> int:
    """Return a uniform 64-bit hash of a name."""
    return int.from_bytes(blake2b(str(name).encode("utf-8", "replace"), digest_size=8).digest(), "big")


def tombstone_key(kind: ErasedKind, name: str) -> str:
    """Return the key of a tombstone: its kind and the hash of its name, as hexadecimal digits."""
    return f"{kind} {name_hash(name):016x}"


def of_conversation(row: Mapping[str, Any]) -> list[tuple[ErasedKind, str | None]]:
    """Return the name in a row of `conversations`."""
    return [(CONVERSATION, row["id"])]


def of_annotation(row: Mapping[str, Any]) -> list[tuple[ErasedKind, str | None]]:
    """Return the conversations and the annotator in a row of `annotations`."""
    return [(CONVERSATION, row["conversation"]), (CONVERSATION, row["against"]), (ANNOTATOR, row["by"])]


def of_cached(row: Mapping[str, Any]) -> list[tuple[ErasedKind, str | None]]:
    """Return the conversations that a row of the cache was made from."""
    return [(CONVERSATION, name) for name in row.get("conversations") or ()]


def without_erased(connection: Connection, rows: Sequence[R], names: NamesOf) -> list[R]:
    """Return the rows that name nothing erased; until the transaction ends, no erasure begins to delete rows."""
    lock_writing(connection)
    if not rows or not has_tombstones(connection):
        return list(rows)
    keys = [[tombstone_key(kind, name) for kind, name in names(row) if name] for row in rows]
    found = tombstones_among(connection, {key for each in keys for key in each})
    return [row for row, each in zip(rows, keys, strict=True) if found.isdisjoint(each)] if found else list(rows)


def has_tombstones(connection: Connection) -> bool:
    """Return True if anything was erased."""
    return connection.execute(select(erased.c.key).limit(1)).first() is not None


def tombstones_among(connection: Connection, keys: Iterable[str]) -> set[str]:
    """Return the keys that are tombstones."""
    query = select(erased.c.key)
    pages = (connection.execute(query.where(erased.c.key.in_(batch))) for batch in batches(sorted(keys), BATCH))
    return {key for rows in pages for (key,) in rows}


def without_erased_names(connection: Connection, results: Any) -> Any:
    """Return results of a run without conversations that were erased while it ran."""
    lock_writing(connection)
    if not has_tombstones(connection):
        return results
    names = {name for text in strings_in(results, keys=True) for name in (text, text.rpartition("#")[0]) if name}
    keys = {tombstone_key(CONVERSATION, name): name for name in names}
    gone = [keys[key] for key in tombstones_among(connection, keys)]
    return ErasedText(names=gone).scrub(results) if gone else results


def without_erased_in_day(connection: Connection, sketch: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the statistics of a day without erased conversations, which its process may still hold in memory."""
    uncertain, sample = sketch.get("uncertain") or (), sketch.get("sample") or {}
    if not (uncertain or sample) or not has_tombstones(connection):
        return sketch
    hashes = {name: f"{CONVERSATION} {int(name):016x}" for name in sample}
    names = {reply[1]: tombstone_key(CONVERSATION, reply[1]) for reply in uncertain}
    found = tombstones_among(connection, {*hashes.values(), *names.values()})
    kept = [reply for reply in uncertain if names[reply[1]] not in found]
    return {**sketch, "uncertain": kept, "sample": {k: row for k, row in sample.items() if hashes[k] not in found}}


def remove_tombstones(connection: Connection, rows: Sequence[R], names: NamesOf) -> None:
    """Remove the tombstones that rows name, so that they are stored again."""
    keys = {tombstone_key(kind, name) for row in rows for kind, name in names(row) if name}
    for batch in batches(sorted(keys), BATCH):
        connection.execute(delete(erased).where(erased.c.key.in_(batch)))
