"""Erasing of conversations and annotators in a store: tombstones first, then all rows in one transaction.

1. `Erasures.bury` adds tombstones: from then on, no process adds rows with these names.
2. The caller removes traces in files (`accord.project.erasing`), which it finds by the rows.
3. `Erasures.erase` deletes the rows in one transaction, and removes mentions from results of runs and settings.
4. `vacuum` overwrites the freed space. The run of the erasure is then finished.

A killed erasure is continued from the run that step 1 recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, Table, and_, delete, func, or_, select, tuple_, update

from accord.store.derived_tables import COMPUTED
from accord.store.engine import database_errors, lock_writing, read_json
from accord.store.erasure.erased_text import ErasedText
from accord.store.erasure.tombstones import CONVERSATION, ErasedKind, name_hash, tombstone_key
from accord.store.import_parts import lock_imports
from accord.store.rows import BATCH, batches, now
from accord.store.schema import (
    UNKNOWN_CONVERSATION,
    alarms,
    anchors,
    annotation_table,
    assignments,
    cache,
    cache_conversations,
    chat_messages,
    chats,
    confirmations,
    conversations,
    days,
    erased,
    items,
    predictions,
    runs,
    sessions,
    studies,
    users,
)
from accord.store.store import USAGE, Store
from accord.values import ANNOTATION_WORDS, Turn, canonical_json

Counts = dict[str, int]
"""Numbers of rows by table."""
_JSON_COLUMNS: Sequence[tuple[Table, str, Sequence[str]]] = (
    (runs, "id", ("settings", "results")),
    (alarms, "key", ("content",)),
    (studies, "name", ("content",)),
)
"""Tables whose JSON may mention a conversation, with their key and these columns."""


class Erasures:
    """Tombstones and deletions of one store; methods raise `StoreError` and leave the store unchanged then.

    `command` is the command of the runs that record erasures, and `people_keys` are the keys of results of runs,
    settings and evaluators whose values are annotators.
    """

    command = "erase"
    people_keys = frozenset(
        {"annotator", "annotators", "by", "counts", "joined_raters", "people", "person", "raters", "users"}
    )

    def __init__(self, store: Store) -> None:
        self._store = store

    # --- tombstones ---------------------------------------------------------------------------------------------

    def bury(self, names: Mapping[str, str | None], kind: ErasedKind = CONVERSATION) -> None:
        """Add tombstones by name, with the digest of each conversation's texts if it is known."""
        store = self._store
        rows = [
            {"key": tombstone_key(kind, name), "kind": kind, "time": now(), "digest": digest}
            for name, digest in names.items()
        ]
        for batch in batches(rows, BATCH):
            with database_errors(store.url), store._engine.begin() as connection:
                insert = store._insert(erased)
                change = {"digest": func.coalesce(insert.excluded.digest, erased.c.digest)}
                connection.execute(insert.on_conflict_do_update(index_elements=["key"], set_=change), batch)

    def count_digests(self, digests: Collection[str] | None = None) -> int:
        """Return the number of erased conversations whose texts have one of some digests, or any digest."""
        query = select(func.count()).select_from(erased).where(erased.c.digest.is_not(None))
        if digests is None:
            return self._store._one(query) or 0
        return sum(self._store._one(query.where(erased.c.digest.in_(batch))) or 0 for batch in batches(digests, BATCH))

    def hashes(self) -> list[str]:
        """Return the hash of every erased conversation (`accord.store.erasure.tombstones`)."""
        keys = self._store._stream(select(erased.c.key).where(erased.c.kind == CONVERSATION))
        return [key.rpartition(" ")[2] for (key,) in keys]

    def among(self, names: Iterable[str], kind: ErasedKind = CONVERSATION) -> dict[str, str]:
        """Return the time of the erasure (UTC) of each conversation or annotator that was erased, by name."""
        keys = {tombstone_key(kind, name): name for name in names}
        query = select(erased.c.key, erased.c.time)
        pages = (self._store._stream(query.where(erased.c.key.in_(batch))) for batch in batches(sorted(keys), BATCH))
        return {keys[key]: time for rows in pages for key, time in rows}

    # --- conversations ------------------------------------------------------------------------------------------

    def named_conversations(self) -> set[str]:
        """Return the conversations that any row names, also those whose texts the store does not have."""
        columns = (
            conversations.c.id, annotation_table.c.conversation, annotation_table.c.against, items.c.conversation,
            items.c.against, cache_conversations.c.conversation,
        )  # fmt: skip
        return {name for column in columns for (name,) in self._store._stream(select(column).distinct()) if name}

    def common_names(self) -> set[str]:
        """Return the questions, annotators, judges and metrics of all annotations."""
        columns = (annotation_table.c.question, annotation_table.c.by)
        return {name for column in columns for (name,) in self._store._stream(select(column).distinct()) if name}

    def count(self, ids: Collection[str]) -> Counts:
        """Return the numbers of rows that `erase` deletes, by table, without changing anything."""
        counts: Counter[str] = Counter()
        for batch in batches(sorted(ids), BATCH):
            for table, condition in _conditions(batch):
                counts[table.name] += self._store._one(select(func.count()).select_from(table).where(condition)) or 0
        return _positive(counts)

    def erase(self, found: ErasedText, ids: Collection[str], keeps_scores: bool = False) -> Counts:
        """Delete in one transaction all rows about conversations, and their mentions in other rows.

        Args:
            found: What else to look for in results of runs, alarms and settings of studies.
            ids: The conversations; they have tombstones.
            keeps_scores: True leaves their part in the statistics of days.

        Returns:
            The numbers of deleted or changed rows by table.
        """
        counts: Counter[str] = Counter()
        with self._transaction() as connection:
            for batch in batches(sorted(ids), BATCH):
                for table, condition in _conditions(batch):
                    counts[table.name] += connection.execute(delete(table).where(condition)).rowcount
            _delete_sources(connection)
            for table, key, columns in _JSON_COLUMNS:
                counts[table.name] += _scrub_json(connection, table, key, columns, found)
            counts[days.name] += _scrub_days(connection, ids, keeps_scores)
        return _positive(counts)

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        """Yield a transaction that excludes other writers; SQLite overwrites the rows that it deletes."""
        with database_errors(self._store.url), self._store._engine.begin() as connection:
            if connection.dialect.name == "sqlite":
                connection.exec_driver_sql("PRAGMA secure_delete=ON")
            lock_imports(connection)
            lock_writing(connection, is_erasure=True)
            yield connection

    def expire_replies(self, before: datetime, plan: bool = False) -> int:
        """Delete cached replies and vectors that were stored before a time (UTC), and return their number.

        With `plan`, they are only counted.
        """
        is_old = and_(cache.c.kind.not_in((COMPUTED, USAGE)), cache.c.added < before.isoformat(timespec="milliseconds"))
        if plan:
            return self._store._one(select(func.count()).select_from(cache).where(is_old)) or 0
        with self._transaction() as connection:
            count = connection.execute(delete(cache).where(is_old)).rowcount
            _delete_sources(connection)
        return count

    def facts(self, words: Collection[str] = ()) -> Iterator[ConversationFactsRow]:
        """Yield the facts by which conversations are selected, of all that contain one of some words, or of all."""
        query = select(conversations.c.content, conversations.c.added).order_by(conversations.c.id)
        contents = [conversations.c.content.contains(canonical_json(word)[1:-1], autoescape=True) for word in words]
        for content, added in self._store._stream(query.where(or_(*contents)) if contents else query):
            try:
                row = _DECODER.decode(content)
            except (msgspec.MsgspecError, UnicodeError):  # texts that msgspec rejects, such as half a surrogate pair
                row = msgspec.convert(read_json(content), _StoredFacts)
            turns = [Turn("", "", time=turn.time, extra=turn.extra) for turn in row.turns if turn.time or turn.extra]
            yield ConversationFactsRow(row.id, row.metadata, turns, datetime.fromisoformat(added))

    # --- annotators ---------------------------------------------------------------------------------------------

    def chats_by(self, name: str) -> list[str]:
        """Return the conversations that an annotator's chats with an assistant became."""
        query = select(items.c.conversation).join(assignments, assignments.c.item == items.c.key)
        query = query.join(chats, chats.c.assignment == assignments.c.id).where(chats.c.person == name)
        return sorted({conversation for (conversation,) in self._store._stream(query)})

    def count_annotator(self, name: str) -> Counts:
        """Return the numbers of an annotator's rows by table."""
        counts = {
            table.name: self._store._one(select(func.count()).select_from(table).where(condition)) or 0
            for table, condition in _annotator_rows(name)
        }
        return _positive(counts)

    def person(self, name: str) -> dict[str, list[dict[str, Any]]]:
        """Return an annotator's account, assignments, predictions and chats with their messages, as rows."""
        account = select(users.c.name, users.c.role, users.c.added).where(users.c.name == name)
        own = {"account": account, "assignments": select(assignments).where(assignments.c.person == name),
               "predictions": select(predictions).where(predictions.c.person == name),
               "chats": select(chats).where(chats.c.person == name)}  # fmt: skip
        found = {file: [dict(row._mapping) for row in self._store._stream(query)] for file, query in own.items()}
        for chat in found["chats"]:
            query = select(chat_messages).where(chat_messages.c.chat == chat["id"]).order_by(chat_messages.c.place)
            chat["messages"] = [dict(row._mapping) for row in self._store._stream(query)]
        return found

    def erase_annotator(self, name: str, pseudonym: str | None = None, is_common: bool = False) -> Counts:
        """Delete an annotator's account, labels, chats and assignments in one transaction.

        Args:
            name: The annotator.
            pseudonym: Name under which labels, assignments and predictions stay, without comments, quotes and chats.
            is_common: True if a question or a setting has the same name, so that only entries of annotators
                name this one in results of runs and settings of studies.
        """
        counts: Counter[str] = Counter()
        with self._transaction() as connection:
            for table, condition in _annotator_rows(name):
                if pseudonym is None or table not in _RENAMED:
                    counts[table.name] += connection.execute(delete(table).where(condition)).rowcount
                    continue
                if table is annotation_table:
                    _remove_comments(connection, condition)
                change = update(table).where(condition).values({_RENAMED[table]: pseudonym})
                counts[table.name] += connection.execute(change).rowcount
            counts[cache.name] += connection.execute(delete(cache).where(cache.c.kind == COMPUTED)).rowcount
            for table, key, columns in _JSON_COLUMNS:
                counts[table.name] += _rename_json(connection, table, key, columns, name, pseudonym, is_common)
        return _positive(counts)


_RENAMED = {annotation_table: "by", assignments: "person", predictions: "person", items: "person"}
"""Tables whose rows stay under a pseudonym, with the column of the name."""


def _positive(counts: Mapping[str, int]) -> Counts:
    return {name: count for name, count in counts.items() if count}


class ConversationFactsRow(NamedTuple):
    """ID and metadata of a conversation, its turns without their texts, and the time (UTC) at which it was added."""

    id: str
    metadata: Mapping[str, Any]
    turns: Sequence[Turn]
    added: datetime


class _StoredTurn(msgspec.Struct):
    time: str | None = None
    extra: dict[str, Any] = {}


class _StoredFacts(msgspec.Struct):
    id: str
    turns: list[_StoredTurn]
    metadata: dict[str, Any]


_DECODER = msgspec.json.Decoder(_StoredFacts)


# --- conversations in other rows --------------------------------------------------------------------------------------


def _conditions(ids: Sequence[str]) -> Iterator[tuple[Table, Any]]:
    """Yield the tables with rows about some conversations, dependent ones first, and the condition for the rows."""
    table = annotation_table.c
    is_annotation = or_(table.conversation.in_(ids), table.against.in_(ids))
    item_keys = select(items.c.key).where(or_(items.c.conversation.in_(ids), items.c.against.in_(ids)))
    assignment_ids = select(assignments.c.id).where(assignments.c.item.in_(item_keys))
    chat_ids = select(chats.c.id).where(chats.c.assignment.in_(assignment_ids))
    sources = cache_conversations.c
    named = select(sources.kind, sources.key).where(sources.conversation.in_([*ids, UNKNOWN_CONVERSATION]))
    is_cached = tuple_(cache.c.kind, cache.c.key).in_(named)
    confirmed = confirmations.c
    yield confirmations, or_(
        and_(confirmed.table_name == conversations.name, confirmed.key.in_(ids)),
        and_(
            confirmed.table_name == annotation_table.name, confirmed.key.in_(select(table.key).where(is_annotation))
        ),
    )  # fmt: skip
    yield cache, or_(cache.c.kind == COMPUTED, is_cached)
    yield chat_messages, chat_messages.c.chat.in_(chat_ids)
    yield chats, chats.c.id.in_(chat_ids)
    yield predictions, predictions.c.item.in_(item_keys)
    yield assignments, assignments.c.item.in_(item_keys)
    yield items, items.c.key.in_(item_keys)
    yield anchors, anchors.c.conversation.in_(ids)
    yield annotation_table, is_annotation
    yield conversations, conversations.c.id.in_(ids)


def _delete_sources(connection: Connection) -> None:
    """Delete the conversations of cached rows that are gone."""
    named = cache_conversations.c
    known = select(cache.c.key).where(cache.c.kind == named.kind, cache.c.key == named.key)
    connection.execute(delete(cache_conversations).where(~known.exists()))


def _scrub_json(connection: Connection, table: Table, key: str, columns: Sequence[str], found: ErasedText) -> int:
    """Remove mentions from JSON columns, except in the run of the erasure itself; return the number of changed rows."""
    changed = 0
    query = select(table.c[key], *(table.c[name] for name in columns))
    if table is runs:
        query = query.where(or_(runs.c.command != Erasures.command, runs.c.status != "running"))
    for name, *contents in connection.execute(query).all():
        values: dict[str, str] = {}
        for column, content in zip(columns, contents, strict=True):
            if content is not None and (scrubbed := _scrubbed(table, column, content, found)) != content:
                values[column] = scrubbed
        if values:
            connection.execute(update(table).where(table.c[key] == name).values(**values))
            changed += 1
    return changed


def _scrubbed(table: Table, column: str, content: str, found: ErasedText) -> str:
    value = read_json(content)
    is_settings = table is runs and column == "settings" and isinstance(value, dict)
    if is_settings and isinstance(value.get("conversations"), dict):  # a number in runs of other erasures
        value = _without_requests(value, found)
    scrubbed = found.scrub(value)
    return content if scrubbed == value and value == read_json(content) else canonical_json(scrubbed)


def _without_requests(settings: dict[str, Any], found: ErasedText) -> dict[str, Any]:
    """Remove the keys of requests about a conversation from a batch file, so that their replies are not stored."""
    named = settings.get("conversations", {})
    gone = {key for name, keys in named.items() if name in found.ids for key in keys}
    return {**settings, "keys": [key for key in settings.get("keys", ()) if key not in gone]} if gone else settings


def _scrub_days(connection: Connection, ids: Collection[str], keeps_scores: bool) -> int:
    """Remove conversations from the samples of day statistics; return the number of changed rows."""
    hashes, changed = {str(name_hash(name)) for name in ids}, 0
    for key, content in connection.execute(select(days.c.key, days.c.content)).all():
        sketch = read_json(content)
        uncertain = [reply for reply in sketch.get("uncertain") or () if len(reply) < 2 or reply[1] not in ids]
        sample = sketch.get("sample") or {}
        kept = sample if keeps_scores else {each: row for each, row in sample.items() if each not in hashes}
        if len(kept) < len(sample) or len(uncertain) < len(sketch.get("uncertain") or ()):
            new = canonical_json({**sketch, "uncertain": uncertain, "sample": kept})
            connection.execute(update(days).where(days.c.key == key).values(content=new))
            changed += 1
    return changed


# --- annotators in other rows -----------------------------------------------------------------------------------------


def _annotator_rows(name: str) -> Iterator[tuple[Table, Any]]:
    """Yield the tables with rows of an annotator, dependent ones first, and the condition for the rows."""
    own_chats = select(chats.c.id).where(chats.c.person == name)
    own_keys = select(annotation_table.c.key).where(annotation_table.c.by == name, annotation_table.c.kind == "person")
    is_label = confirmations.c.table_name == annotation_table.name
    yield confirmations, and_(is_label, confirmations.c.key.in_(own_keys))
    yield chat_messages, chat_messages.c.chat.in_(own_chats)
    yield chats, chats.c.person == name
    yield predictions, predictions.c.person == name
    yield assignments, assignments.c.person == name
    yield items, items.c.person == name
    yield annotation_table, and_(annotation_table.c.by == name, annotation_table.c.kind == "person")
    yield sessions, sessions.c.person == name
    yield users, users.c.name == name


def _remove_comments(connection: Connection, condition: Any) -> None:
    """Remove comments, quotes and answers in free text of an annotator."""
    table = annotation_table.c
    for key, content in connection.execute(select(table.key, table.content).where(condition)).all():
        details = read_json(content) if content else {}
        kept = {each: value for each, value in details.items() if each not in ANNOTATION_WORDS}
        if kept != details:
            new = canonical_json(kept) if kept else None
            connection.execute(update(annotation_table).where(table.key == key).values(content=new))


def _rename_json(
    connection: Connection,
    table: Table,
    key: str,
    columns: Sequence[str],
    name: str,
    pseudonym: str | None,
    is_common: bool,
) -> int:
    """Replace a name in JSON columns, or remove entries that have it; return the number of changed rows."""
    changed = 0
    for row_key, *contents in connection.execute(select(table.c[key], *(table.c[each] for each in columns))).all():
        values: dict[str, str] = {}
        for column, content in zip(columns, contents, strict=True):
            if content is not None and name in content:
                new = canonical_json(_renamed(read_json(content), name, pseudonym, not is_common))
                values |= {column: new} if new != content else {}
        if values:
            connection.execute(update(table).where(table.c[key] == row_key).values(**values))
            changed += 1
    return changed


def _renamed(value: Any, name: str, pseudonym: str | None, is_person: bool) -> Any:
    """Return a JSON value with a pseudonym, or without the name; `is_person` is True where it names an annotator."""
    if isinstance(value, dict):
        entries = ((pseudonym if is_person and key == name else key, key, inner) for key, inner in value.items())
        return {
            new: _renamed(inner, name, pseudonym, is_person or key in Erasures.people_keys)
            for new, key, inner in entries
            if new is not None
        }
    if isinstance(value, list):
        rows = value if pseudonym is not None else [each for each in value if not _has_name(each, name, is_person)]
        return [_renamed(inner, name, pseudonym, is_person) for inner in rows]
    return (pseudonym or "(erased)") if is_person and value == name else value


def _has_name(value: Any, name: str, is_person: bool) -> bool:
    if isinstance(value, dict):
        return any(cell == name and (is_person or key in Erasures.people_keys) for key, cell in value.items())
    return bool(is_person and value == name)
