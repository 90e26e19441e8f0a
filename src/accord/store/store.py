"""The store: conversations, annotations, runs and cached replies behind one URL."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection, Select, Table, and_, func, select

from accord.edges import BadInput
from accord.formats import OtherScales, on_present_scale, on_scales
from accord.redaction import Redactor
from accord.store.engine import (
    CHECK,
    StoreError,
    add_rows,
    database_errors,
    has_one_connection,
    insert_of,
    open_engine,
    read_json,
    takes_rows,
)
from accord.store.erasure.tombstones import (
    NamesOf,
    of_annotation,
    of_cached,
    of_conversation,
    remove_tombstones,
    without_erased,
)
from accord.store.import_parts import ImportPart, check_running, confirm, is_tracked, match_times, take_scales
from accord.store.rows import (
    BATCH,
    MODEL,
    PERSON,
    AddedCounts,
    AnnotationKeys,
    TableRow,
    annotation_from,
    annotation_row,
    answer_row,
    batches,
    changed_conversation,
    conversation_row,
    current_labels,
    has_target,
    issue_group,
    label_from,
    label_row,
    missing_overall_score,
    now,
    unknown_target,
)
from accord.store.run_records import RunRecords
from accord.store.schema import (
    UNKNOWN_CONVERSATION,
    annotation_table,
    cache,
    cache_conversations,
    conversations,
    has_included_target,
    is_current_answer,
    is_included,
    is_rating,
)
from accord.values import (
    ANNOTATOR_KINDS,
    WITHOUT_SYNTHETIC,
    Annotation,
    Conversation,
    Label,
    Labels,
    Rubric,
    Synthetic,
)

REPLY, USAGE = "reply", "usage"
_CACHED = tuple(column.name for column in cache.columns)
R = TypeVar("R", bound=Mapping[str, Any])
ANNOTATION_BATCH = 8000
"""Annotations per transaction: rows are small, and a larger batch changes fewer index pages per row."""


class Store(RunRecords):
    """Conversations, annotations, runs and cached replies behind one URL; methods raise `StoreError`.

    Every batch is one transaction. Writing a row again changes nothing, so interrupted commands can be repeated.

    Args:
        url: `sqlite:///FILE`, `sqlite:///:memory:` or `postgresql://...`; a missing store is created.
        synthetic: Synthetic conversations in listings: `without`, `with`, or `only`. One is always found by its ID.
        rubric: Rubric on whose scales labels are read; `other_scales` treats those on another scale.
        reads_only: True to let the database reject all writes; it creates nothing.

    >>> store = Store("sqlite:///:memory:")
    >>> store.add_conversations([Conversation("c1", ())]).new, store.count_conversations()
    (1, 1)
    """

    def __init__(
        self,
        url: str,
        synthetic: Synthetic = WITHOUT_SYNTHETIC,
        rubric: Rubric | None = None,
        reads_only: bool = False,
    ) -> None:
        self.url, self.synthetic, self.rubric = url, synthetic, rubric
        self.other_scales: OtherScales = "stop"
        self.redactor: Redactor | None = None  # of new conversations; their rows come redacted
        self._engine = open_engine(url, reads_only)
        self._insert = insert_of(self._engine.dialect.name)
        self.replaces = ""  # URL of the store that does not exist and that this empty one in memory replaces
        self.import_part: ImportPart | None = None
        """The file of an import that new rows belong to."""
        self.restores_erased = False
        """True to store erased conversations and annotators again; otherwise their rows are left out."""

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    # --- conversations ------------------------------------------------------------------------------------------

    def add_conversations(
        self, new: Iterable[Conversation], on_changed: Callable[[str], None] | None = None
    ) -> AddedCounts:
        """Add conversations; those that the store holds stay unchanged.

        Raises:
            BadInput: The store holds one with other content, and there is no `on_changed` to call with its ID; the
                others of its batch are added.
        """
        kept = map(self.redactor.imported, new) if self.redactor else new
        return self.add_conversation_rows((conversation_row(each, now()) for each in kept), on_changed)

    def add_conversation_rows(
        self, rows: Iterable[TableRow], on_changed: Callable[[str], None] | None = None, batch_size: int = BATCH
    ) -> AddedCounts:
        """Add rows of conversations, `batch_size` per transaction; see `add_conversations`."""
        counts = AddedCounts()
        for batch in batches(rows, batch_size):
            with database_errors(self.url), self._engine.begin() as connection:
                kept = self.without_erased(connection, batch, of_conversation)
                new = self._add(connection, conversations, kept)
            counts = counts.plus(AddedCounts(new, len(kept) - new, len(batch) - len(kept)))
            for name in self._changed(kept) if new < len(kept) else ():
                if on_changed is None:
                    raise BadInput(changed_conversation(name))
                on_changed(name)
        return counts

    def _changed(self, rows: Sequence[Mapping[str, Any]]) -> list[str]:
        """Return the IDs that the store holds with other content than these rows."""
        query = select(conversations.c.id, conversations.c.hash)
        query = query.where(conversations.c.id.in_([row["id"] for row in rows]))
        stored = dict(tuple(row) for row in self._stream(query))
        for row in rows:
            if row["id"] not in stored:
                raise StoreError(f"the store dropped conversation {row['id']!r} when it was added. {CHECK}")
        return [row["id"] for row in rows if stored[row["id"]] != row["hash"]]

    def conversations(
        self, ids: Iterable[str] | None = None, synthetic: Synthetic | None = None
    ) -> Iterator[Conversation]:
        """Yield conversations in the order of their IDs.

        Without `ids`, all that `synthetic` includes, by default the store's own setting.
        """
        query = select(conversations.c.content).order_by(conversations.c.id)
        if ids is None:
            queries = [query.where(is_included(synthetic or self.synthetic))]
        else:
            queries = [query.where(conversations.c.id.in_(batch)) for batch in batches(sorted(set(ids)), BATCH)]
        for each_query in queries:
            for (content,) in self._stream(each_query):
                yield Conversation.from_json(read_json(content))

    def conversation_ids(self) -> Iterator[str]:
        """Yield all IDs in order, read a page at a time, so that other processes can write in between."""
        last = ""
        query = select(conversations.c.id).where(is_included(self.synthetic)).order_by(conversations.c.id).limit(BATCH)
        while page := list(self._stream(query.where(conversations.c.id > last))):
            yield from (name for (name,) in page)
            last = page[-1][0]

    def count_conversations(self, synthetic: Synthetic = "with") -> int:
        """Return the number of conversations under a setting for synthetic ones; by default of all."""
        return self._one(select(func.count()).select_from(conversations).where(is_included(synthetic))) or 0

    def synthetic_among(self, ids: Iterable[str]) -> set[str]:
        """Return the IDs that belong to synthetic conversations."""
        query = select(conversations.c.id).where(conversations.c.synthetic.is_not(None))
        pages = (self._stream(query.where(conversations.c.id.in_(batch))) for batch in batches(sorted(set(ids)), BATCH))
        return {name for rows in pages for (name,) in rows}

    # --- annotations --------------------------------------------------------------------------------------------

    def add_annotations(
        self, new: Iterable[Annotation], on_bad: Callable[[BadInput], None] | None = None
    ) -> AddedCounts:
        """Add annotations of all kinds; the same call again adds nothing.

        Equal annotations of a person within one call are separate ratings. Of a judge's answers, the first per input
        stays; of overall scores with their issues, the first per signature and turn. A person's annotation needs a
        conversation or turn of the store; a model's does not.

        Args:
            new: The annotations. An issue may precede the overall score of its turn.
            on_bad: Called with the error of each annotation that cannot be stored; it is skipped.

        Raises:
            BadInput: There is such an annotation and no `on_bad`; the others of its batch are added.
        """
        keys, added = AnnotationKeys(), now()
        return self.add_annotation_rows((annotation_row(item, keys.of(item), added) for item in new), on_bad)

    def add_labels(self, new: Iterable[Label], on_bad: Callable[[BadInput], None] | None = None) -> AddedCounts:
        """Add labels of people; see `add_annotations`."""
        keys, added = AnnotationKeys(), now()
        return self.add_annotation_rows((label_row(label, keys, added) for label in new), on_bad)

    def add_answers(self, answers: Iterable[Mapping[str, Any]]) -> AddedCounts:
        """Add answers of judges; of equal keys the first stays.

        They are mappings with `key`, `conversation`, `turn`, `question`, `judge`, `mode`, `probabilities` (JSON),
        `made_from` (JSON), `outside` (probability of other answers) and `version` (of the endpoint).
        """
        added = now()
        return self.add_annotation_rows(answer_row(answer, added) for answer in answers)

    def add_annotation_rows(
        self,
        rows: Iterable[TableRow],
        on_bad: Callable[[BadInput], None] | None = None,
        turns: Mapping[str, int] | None = None,
    ) -> AddedCounts:
        """Add rows of annotations and set their places, one transaction per batch; see `add_annotations`.

        `turns` has the number of turns of conversations that the store is known to hold.
        """
        counts, places = AddedCounts(), self._last_places()
        early: list[TableRow] = []
        has_labels = self._one(select(annotation_table.c.key).where(annotation_table.c.kind == PERSON).limit(1))
        keys = set[str]() if has_labels is not None else None
        for batch in batches(rows, ANNOTATION_BATCH):
            known = self._turns(batch, turns or {})
            valid = [row for row in batch if row["kind"] != PERSON or has_target(row, known)]
            new, new_issues, waiting, erased = self._insert_annotations(valid, places, keys)
            added = new + new_issues
            same = len(valid) - len(waiting) - added - erased
            counts, early = counts.plus(AddedCounts(added, same, erased)), early + waiting
            if len(valid) < len(batch):
                unknown = [row for row in batch if row["kind"] == PERSON and not has_target(row, known)]
                counts = counts.plus(self._report_unknown(unknown, on_bad))
        for batch in batches(early, ANNOTATION_BATCH):
            _, new_issues, alone, erased = self._insert_annotations(batch, places)
            counts = counts.plus(AddedCounts(new_issues, len(batch) - len(alone) - new_issues - erased, erased))
            for row in alone:
                _report(missing_overall_score(row), on_bad)
        return counts

    def _report_unknown(self, rows: Sequence[TableRow], on_bad: Callable[[BadInput], None] | None) -> AddedCounts:
        """Report annotations without their conversation or turn, and count those about erased conversations."""
        with database_errors(self.url), self._engine.begin() as connection:
            left = self.without_erased(connection, rows, of_annotation)
        for row in left:
            _report(unknown_target(row), on_bad)
        return AddedCounts(erased=len(rows) - len(left))

    def _insert_annotations(
        self, rows: Sequence[TableRow], places: Counter[str], keys: set[str] | None = None
    ) -> tuple[int, int, list[TableRow], int]:
        """Insert rows in one transaction, overall scores before their issues.

        An issue is stored only with the overall score of its own group, which is the first of its turn. `keys` has the
        keys of labels of the same call, if the store had labels before it (`match_times`).

        Returns:
            The number of new rows other than issues, the number of new issues, the issues without overall score, and
            the number of rows that name something erased.
        """
        others: list[TableRow] = []
        issues: list[tuple[str, str, TableRow]] = []
        with database_errors(self.url), self._engine.begin() as connection:
            kept = self.without_erased(connection, rows, of_annotation)
            if keys is not None:
                match_times(connection, kept, keys, self.import_part)
            for row in kept:
                kind = str(row["kind"])
                places[kind] += 1
                row["place"] = places[kind]
                group = issue_group(row)
                if group is None:
                    others.append(row)
                else:
                    issues.append((*group, row))
            new = self._add(connection, annotation_table, others)
            groups = self._groups(connection, {key for key, *_ in issues})
            complete = [row for key, group, row in issues if groups.get(key) == group]
            new_issues = self._add(connection, annotation_table, complete)
        return new, new_issues, [row for key, _, row in issues if key not in groups], len(rows) - len(kept)

    def _groups(self, connection: Connection, keys: Collection[str]) -> dict[str, str]:
        """Return the groups of stored overall scores by key."""
        query = select(annotation_table.c.key, annotation_table.c.content).where(
            annotation_table.c.key.in_(sorted(keys))
        )
        rows = connection.execute(query).all() if keys else ()
        return {key: read_json(content or "{}").get("group", "") for key, content in rows}

    def _last_places(self) -> Counter[str]:
        """Return the last place of each kind of annotation."""
        table = annotation_table.c
        last = [select(func.max(table.place)).where(table.kind == kind).scalar_subquery() for kind in ANNOTATOR_KINDS]
        [places] = self._stream(select(*last))
        return Counter({kind: place or 0 for kind, place in zip(ANNOTATOR_KINDS, places, strict=True)})

    def _turns(self, rows: Iterable[TableRow], known: Mapping[str, int]) -> Mapping[str, int]:
        """Return the number of turns of the stored conversations that people's annotations are about."""
        people = (row for row in rows if row["kind"] == PERSON)
        names = {str(name) for row in people for name in (row["conversation"], row["against"]) if name}
        if not (missing := names - known.keys()):
            return known
        query = select(conversations.c.id, conversations.c.turns).where(conversations.c.id.in_(sorted(missing)))
        return {**known, **dict(tuple(row) for row in self._stream(query))}

    def annotations(
        self,
        kinds: Collection[str] | None = None,
        question: str | None = None,
        conversations: Iterable[str] | None = None,
        synthetic: Synthetic | None = None,
    ) -> Iterator[Annotation]:
        """Yield annotations by people, models or metrics, ordered by kind and place.

        Args:
            kinds: `person`, `model` or `metric`; by default all.
            question: ID of a question; by default all.
            conversations: Conversations to restrict to, with their turns; ordered per batch.
            synthetic: Setting without `conversations`, by default the store's own.
        """
        table, query = annotation_table.c, select(annotation_table)
        if question is not None:
            query = query.where(table.question == question)
        if conversations is None:
            query = query.where(has_included_target(synthetic or self.synthetic))
            query = query if kinds is None else query.where(table.kind.in_(sorted(kinds)))
            yield from map(annotation_from, self._stream(query.order_by(table.kind, table.place, table.key)))
            return
        for batch in batches(sorted(set(conversations)), BATCH):
            # SQLite would use the index on kinds, which is less selective, so kinds are filtered here.
            rows = list(self._stream(query.where(table.conversation.in_(batch))))
            for row in sorted(rows, key=lambda row: (row.kind, row.place, row.key)):
                if kinds is None or row.kind in kinds:
                    yield annotation_from(row)

    def labels(self, question: str | None = None, other_scales: OtherScales | None = None) -> Labels:
        """Return the labels of people in the order they were added, for one question or all, without adjudications.

        Of several by one person on the same question and target the last counts (`current_labels`). `other_scales`
        replaces the store's treatment of labels on another scale than their question has now.
        """
        names = "conversation turn question by value time wording against against_turn content"
        query = self._of_people(select(*(annotation_table.c[name] for name in names.split())), question)
        stored = map(label_from, self._stream(query.order_by(annotation_table.c.place, annotation_table.c.key)))
        if self.rubric is None:
            return Labels(current_labels(stored))
        labels = current_labels(on_scales(stored, self.rubric))
        return Labels(on_present_scale(labels, self.rubric, other_scales or self.other_scales))

    def _of_people(self, query: Select[Any], question: str | None) -> Select[Any]:
        is_label = and_(annotation_table.c.kind == PERSON, is_current_answer(), is_rating())
        query = query.where(is_label, has_included_target(self.synthetic))
        return query if question is None else query.where(annotation_table.c.question == question)

    def labels_version(self) -> tuple[int, str]:
        """Return a value that changes with every added label: the number of labels and the time of the last."""
        query = select(func.count(), func.max(annotation_table.c.added)).where(annotation_table.c.kind == PERSON)
        [(count, last)] = list(self._stream(query))
        return int(count), str(last)

    def answers(self, keys: Iterable[str]) -> dict[str, Mapping[str, Any]]:
        """Return answers of judges by key: `probabilities` (JSON), the mass `outside`, the endpoint's `version`."""
        query = select(annotation_table.c.key, annotation_table.c.distribution, annotation_table.c.content)
        query = query.where(annotation_table.c.distribution.is_not(None))
        answers: dict[str, Mapping[str, Any]] = {}
        for batch in batches(keys, BATCH):
            for key, distribution, content in self._stream(query.where(annotation_table.c.key.in_(batch))):
                details = read_json(content)
                answers[key] = {
                    "probabilities": distribution, "outside": details["outside"], "version": details.get("version", ""),
                }  # fmt: skip
        return answers

    def answered(self) -> list[tuple[str, str]]:
        """Return the conversation and the question of every answer of a judge."""
        query = select(annotation_table.c.conversation, annotation_table.c.question)
        query = query.where(annotation_table.c.kind == MODEL, annotation_table.c.distribution.is_not(None))
        return [(name, question) for name, question in self._stream(query)]

    # --- cached replies -----------------------------------------------------------------------------------------

    def usage(self) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
        """Yield conversation, model, key and usage of each stored request, a row for each conversation in it."""
        named = cache_conversations.c
        query = select(named.conversation, cache.c.maker, cache.c.key, cache.c.content).where(
            cache.c.kind == USAGE, named.kind == USAGE, named.key == cache.c.key
        )
        for row in self._stream(query):
            yield row.conversation, row.maker, row.key, json.loads(row.content)

    def add_replies(self, rows: Iterable[Mapping[str, Any]], kind: str = REPLY) -> None:
        """Add replies, or the usage of requests, with `key`, `maker` and `content` (JSON); the first of a key stays.

        `conversations` names the conversations whose text the request contains; None or no entry if they are unknown.
        """
        for batch in batches(rows, BATCH):
            shared = {"kind": kind, "bytes": None, "added": now()}
            with database_errors(self.url), self._engine.begin() as connection:
                self.add_cached(connection, [{**row, **shared} for row in batch])

    def add_cached(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> int:
        """Insert rows of the cache whose key is new, with their `conversations`, and return their number."""
        kept = self.without_erased(connection, rows, of_cached)
        new = self._add(connection, cache, [{name: row[name] for name in _CACHED} for row in kept])
        self._add(connection, cache_conversations, [
            {"conversation": name, "kind": row["kind"], "key": row["key"]}
            for row in kept
            for name in ((UNKNOWN_CONVERSATION,) if row.get("conversations") is None else row["conversations"])
        ])  # fmt: skip
        return new

    def replies(self, keys: Iterable[str]) -> dict[str, str]:
        """Return replies as JSON by key."""
        query = select(cache.c.key, cache.c.content).where(cache.c.kind == REPLY)
        pages = (self._stream(query.where(cache.c.key.in_(batch))) for batch in batches(keys, BATCH))
        return {key: content for rows in pages for key, content in rows}

    def reply(self, key: str) -> str | None:
        """Return the reply with a key as JSON, or None."""
        return self.replies([key]).get(key)

    # --- database access ----------------------------------------------------------------------------------------

    def without_erased(self, connection: Connection, rows: Sequence[R], names: NamesOf) -> list[R]:
        """Return the rows that name nothing erased, or all rows if `restores_erased` is set."""
        if self.restores_erased:
            remove_tombstones(connection, rows, names)
        return without_erased(connection, rows, names)

    def _add(self, connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> int:
        """Insert the rows whose primary key is new, and return their number.

        Raises:
            BadInput: They belong to an import that another process ended.
        """
        if self.import_part is None or not is_tracked(table):
            return add_rows(connection, table, rows) if takes_rows(table) else len(self._added(connection, table, rows))
        check_running(connection, self.import_part)
        marked = [{**row, "imported": self.import_part.name} for row in rows]
        new = add_rows(connection, table, marked)
        if new < len(rows):
            confirm(connection, self._insert, table, marked, self.import_part)
            if table is annotation_table:
                take_scales(connection, marked)
        return new

    def _added(self, connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> Sequence[Any]:
        """Insert the rows whose primary key is new, and return their keys.

        Rows are inserted in the order of their keys, so that two writers of the same rows cannot deadlock.
        """
        if not rows:
            return ()
        keys = [column.name for column in table.primary_key.columns]
        insert = self._insert(table).on_conflict_do_nothing().returning(*table.primary_key.columns)
        return connection.execute(insert, sorted(rows, key=lambda row: [row[key] for key in keys])).all()

    def _stream(self, query: Any) -> Iterator[Any]:
        is_abandoned = False
        try:
            with database_errors(self.url), self._engine.connect() as connection:
                reading = connection.execution_options(reading=True, yield_per=BATCH)
                if has_one_connection(self._engine):  # a caller may run other queries between two rows
                    rows = reading.execute(query).all()
                    connection.close()
                    yield from rows
                    return
                with reading.execute(query) as cursor:
                    try:
                        yield from cursor
                    except GeneratorExit:
                        is_abandoned = True
                        raise
        except StoreError:
            if not is_abandoned:  # a failure to close the cursor of an abandoned query does not matter
                raise

    def _one(self, query: Any) -> Any:
        with database_errors(self.url), self._engine.connect() as connection:
            return connection.execution_options(reading=True).execute(query).scalar()


def _report(reason: str, on_bad: Callable[[BadInput], None] | None) -> None:
    error = BadInput(reason)
    if on_bad is None:
        raise error
    on_bad(error)
