"""The store: conversations, annotations, runs and the cache, behind one URL."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple

from sqlalchemy import Connection, Table, func, select, update

from accord.edges import BadInput, redact_json
from accord.formats import on_scales
from accord.store.bulk_insert import add_rows, insert_of, takes_rows
from accord.store.engine import CHECK, StoreError, database_errors, has_one_connection, open_engine, read_json
from accord.store.filters import counts, is_about, last_said
from accord.store.imports import Part, confirm, is_tracked
from accord.store.rows import (
    BATCH,
    AddedCounts,
    AnnotationKeys,
    Kept,
    TableRow,
    annotation_from,
    annotation_row,
    answer_from,
    batches,
    changed_conversation,
    conversation_row,
    is_row_there,
    is_there,
    issue_alone,
    label_from,
    label_row,
    now,
    overall_key,
    unknown_target,
)
from accord.store.schema import annotated, cache, conversations, runs
from accord.values import (
    ANNOTATOR_KINDS,
    WITHOUT_SYNTHETIC,
    Annotation,
    Conversation,
    Label,
    Labels,
    Rubric,
    Synthetic,
    canonical_json,
)

PERSON, MODEL = "person", "model"
REPLY = "reply"
ANNOTATION_BATCH = 8000
"""Labels of one transaction: they are small, and the more there are, the fewer pages of the index each changes."""


class Run(NamedTuple):
    """A command under way: its id, and what it found so far."""

    id: str
    results: dict[str, Any]


class Store:
    """Conversations, annotations, runs and the cache behind one URL.

    Every write is one transaction a batch: what a batch wrote stays, whatever happens after it. Writing the same
    row again changes nothing, so an interrupted command can be run again.

    Synthetic conversations are left out of every listing unless `synthetic` says otherwise; a conversation that is
    asked for by its ID is returned. Labels are read on the scales of `rubric`.
    """

    def __init__(self, url: str, synthetic: Synthetic = WITHOUT_SYNTHETIC, rubric: Rubric | None = None) -> None:
        """Open (and create or migrate) the store at `url`; see `engine.open_engine` for the URLs."""
        self.url, self.synthetic, self.rubric = url, synthetic, rubric
        self._engine = open_engine(url)
        self._insert = insert_of(self._engine.dialect.name)
        self.part: Part | None = None
        """The file of an import that new rows belong to."""

    def close(self) -> None:
        """Let go of all connections."""
        self._engine.dispose()

    # --- conversations ------------------------------------------------------------------------------------------

    def add_conversations(
        self, found: Iterable[Conversation], on_changed: Callable[[str], None] | None = None
    ) -> AddedCounts:
        """Keep conversations, a batch a transaction.

        Args:
            found: The conversations.
            on_changed: Called with the id of each conversation that the store holds with other content, which stays.

        Raises:
            BadInput: There is one, and `on_changed` is not given; the others of its batch are kept.
        """
        return self.add_conversation_rows((conversation_row(each, now()) for each in found), on_changed)

    def add_conversation_rows(
        self, found: Iterable[TableRow], on_changed: Callable[[str], None] | None = None, at_once: int = BATCH
    ) -> AddedCounts:
        """Keep rows of conversations, so many a transaction; see `add_conversations`."""
        total = AddedCounts()
        for rows in batches(found, at_once):
            with database_errors(self.url), self._engine.begin() as connection:
                new = self._add(connection, conversations, rows)
            total = total.plus(AddedCounts(new, len(rows) - new))
            for name in self._changed(rows) if new < len(rows) else ():
                if on_changed is None:
                    raise BadInput(changed_conversation(name))
                on_changed(name)
        return total

    def _changed(self, rows: Sequence[Mapping[str, Any]]) -> list[str]:
        """The ids that the store holds with other content than these rows."""
        named = conversations.c.id.in_([row["id"] for row in rows])
        query = select(conversations.c.id, conversations.c.hash).where(named)
        stored = dict(tuple(row) for row in self._stream(query))
        for row in rows:
            if row["id"] not in stored:
                raise StoreError(f"the store dropped conversation {row['id']!r} when it was added. {CHECK}")
        return [row["id"] for row in rows if stored[row["id"]] != row["hash"]]

    def conversations(
        self, ids: Iterable[str] | None = None, synthetic: Synthetic | None = None
    ) -> Iterator[Conversation]:
        """All conversations, or those named, in the order of their ids; one at a time.

        `synthetic` says which of all count, in place of the store's own setting.
        """
        if ids is not None:
            for batch in batches(sorted(set(ids)), BATCH):
                query = select(conversations.c.content).where(conversations.c.id.in_(batch))
                yield from self._conversations(query.order_by(conversations.c.id))
        else:
            query = select(conversations.c.content).where(counts(synthetic or self.synthetic))
            yield from self._conversations(query.order_by(conversations.c.id))

    def _conversations(self, query: Any) -> Iterator[Conversation]:
        for (content,) in self._stream(query):
            yield Conversation.from_json(read_json(content))

    def conversation_ids(self) -> Iterator[str]:
        """All ids in order, read a page at a time, so that others may write in between."""
        last = ""
        while page := list(self._stream(_ids_after(last).where(counts(self.synthetic)))):
            yield from (name for (name,) in page)
            last = page[-1][0]

    def count_conversations(self, synthetic: Synthetic = "with") -> int:
        """How many conversations the store holds: all, or those alone that people held, or that nobody held."""
        return self._one(select(func.count()).select_from(conversations).where(counts(synthetic))) or 0

    def synthetic_among(self, ids: Iterable[str]) -> set[str]:
        """Those of some conversations that nobody held."""
        query = select(conversations.c.id).where(conversations.c.synthetic.is_not(None))
        found = (self._stream(query.where(conversations.c.id.in_(batch))) for batch in batches(sorted(set(ids)), BATCH))
        return {name for rows in found for (name,) in rows}

    # --- annotations --------------------------------------------------------------------------------------------

    def add_annotations(
        self, found: Iterable[Annotation], on_bad: Callable[[BadInput], None] | None = None
    ) -> AddedCounts:
        """Keep annotations of every kind, one transaction per batch; the same call again adds nothing.

        Equal annotations of a person within one call are kept apart (a person may rate twice). Of what a model made,
        the first stays: a judge's answer per what it was made from, an overall score with its issues per signature
        and words of the turn. A person's annotation names something that the store holds; a model may have been asked
        about conversations that were only scored.

        Args:
            found: The annotations. An issue may stand before the overall score of its turn.
            on_bad: Called with what is wrong with each one that cannot be kept, which is then skipped.

        Raises:
            BadInput: There is one, and `on_bad` is not given; the others of its batch are kept.
        """
        total, keys, places = AddedCounts(), AnnotationKeys(), self._places()
        early: list[Annotation] = []
        for batch in batches(found, BATCH):
            named = Labels(each.to_label() for each in batch if each.kind == PERSON).targets
            turns = self._turns(side.conversation for side in named)
            known = [each for each in batch if each.kind != PERSON or is_there(each, turns)]
            kept = self._add_annotations(known, keys, places)
            total, early = total.plus(kept.added(len(known))), early + kept.alone
            for each in batch if len(known) < len(batch) else ():
                if each.kind == PERSON and not is_there(each, turns):
                    _complain(unknown_target(each), on_bad)
        for batch in batches(early, BATCH):
            kept = self._add_annotations(batch, keys, places)
            total = total.plus(kept.added(len(batch)))
            for each in kept.alone:
                _complain(issue_alone(each), on_bad)
        return total

    def _add_annotations(self, batch: Sequence[Annotation], keys: AnnotationKeys, places: Counter[str]) -> Kept:
        """Keep a batch, overall scores before their issues: only those of the score that stayed are kept."""
        rows: list[dict[str, Any]] = []
        issues: list[tuple[Annotation, dict[str, Any]]] = []
        added = now()
        for each in batch:
            places[each.kind] += 1
            row = annotation_row(each, keys.of(each), places[each.kind], added)
            if each.is_of_issues and each.part:
                issues.append((each, row))
            else:
                rows.append(row)
        with database_errors(self.url), self._engine.begin() as connection:
            new = self._add(connection, annotated, rows)
            groups = self._groups(connection, {overall_key(each) for each, _ in issues})
            kept = [row for each, row in issues if groups.get(overall_key(each)) == each.group]
            new_issues = self._add(connection, annotated, kept)
        return Kept(new, new_issues, [each for each, _ in issues if overall_key(each) not in groups])

    def _groups(self, connection: Connection, overall: Collection[str]) -> dict[str, str]:
        """The group of each of these overall scores that the store holds: issues of another belong to none of them."""
        query = select(annotated.c.key, annotated.c.content).where(annotated.c.key.in_(sorted(overall)))
        rows = connection.execute(query).all() if overall else ()
        return {key: read_json(content or "{}").get("group", "") for key, content in rows}

    def _places(self) -> Counter[str]:
        """The last place of each kind of annotation."""
        last = {kind: select(func.max(annotated.c.place)).where(annotated.c.kind == kind) for kind in ANNOTATOR_KINDS}
        [found] = self._stream(select(*(query.scalar_subquery() for query in last.values())))
        return Counter({kind: place or 0 for kind, place in zip(last, found, strict=True)})

    def annotations(
        self,
        kinds: Collection[str] | None = None,
        question: str | None = None,
        conversations: Iterable[str] | None = None,
        synthetic: Synthetic | None = None,
    ) -> Iterator[Annotation]:
        """All annotations, one at a time: kind by kind, and within each in the order they were added.

        Args:
            kinds: Only what these said: `person`, `model`, `metric`.
            question: Only answers to this question.
            conversations: Only those of these conversations and their turns, some hundred conversations at a time.
            synthetic: Of all conversations, which count; as the store's own setting has it where it is left out.
        """
        table, query = annotated.c, select(annotated)
        if question is not None:
            query = query.where(table.question == question)
        if conversations is None:
            query = query.where(is_about(synthetic or self.synthetic))
            wanted = query if kinds is None else query.where(table.kind.in_(sorted(kinds)))
            yield from map(annotation_from, self._stream(wanted.order_by(table.kind, table.place, table.key)))
            return
        for batch in batches(sorted(set(conversations)), BATCH):
            # SQLite takes a kind to be rarer than a conversation, and would read all of it: no condition on kinds here.
            rows = list(self._stream(query.where(table.conversation.in_(batch))))
            for row in sorted(rows, key=lambda row: (row.kind, row.place, row.key)):
                if kinds is None or row.kind in kinds:
                    yield annotation_from(row)

    def _turns(self, ids: Iterable[str]) -> dict[str, int]:
        """How many turns each of the named conversations has; those the store does not hold are left out."""
        query = select(conversations.c.id, conversations.c.turns)
        wanted = sorted(set(ids))
        return dict(tuple(row) for row in self._stream(query.where(conversations.c.id.in_(wanted)))) if wanted else {}

    # --- people's labels, judges' answers -----------------------------------------------------------------------

    def add_labels(self, found: Iterable[Label], on_unknown: Callable[[Label], None] | None = None) -> AddedCounts:
        """Keep labels of conversations, and of turns of them, that the store holds.

        Equal labels within one call are kept apart (a person may rate twice); the same call again adds nothing.

        Args:
            found: The labels.
            on_unknown: Called with each label of something the store does not hold, which is then skipped.

        Raises:
            BadInput: Such a label, and `on_unknown` is not given; the others of its batch are kept.
        """
        keys, added = AnnotationKeys(), now()
        return self.add_label_rows((label_row(label, keys, added) for label in found), on_unknown)

    def add_label_rows(
        self,
        found: Iterable[TableRow],
        on_unknown: Callable[[Label], None] | None = None,
        known: Mapping[str, int] | None = None,
    ) -> AddedCounts:
        """Keep rows of labels, in their order after all others, which each is told; see `add_labels`.

        `known` says how many turns some conversations have that the store is known to hold.
        """
        known = {} if known is None else known
        total, place = AddedCounts(), self._places()[PERSON]
        for batch in batches(found, ANNOTATION_BATCH):
            named = {str(name) for row in batch for name in (row["conversation"], row["against"]) if name}
            turns = {**known, **self._turns(named - known.keys())}
            rows = []
            for row in batch:
                if is_row_there(row, turns):
                    place += 1
                    row["place"] = place
                    rows.append(row)
            with database_errors(self.url), self._engine.begin() as connection:
                new = self._add(connection, annotated, rows)
            total = total.plus(AddedCounts(new, len(rows) - new))
            for row in batch if len(rows) < len(batch) else ():
                if not is_row_there(row, turns):
                    label = label_from(SimpleNamespace(**row))
                    if on_unknown is None:
                        raise BadInput(unknown_target(label))
                    on_unknown(label)
        return total

    def labels(self, question: str | None = None) -> Labels:
        """All human labels, or those on one question, in the order they were added; of a changed one the last."""
        columns = ("conversation", "turn", "question", "by", "value", "time", "wording", "against", "against_turn")
        query = select(*(annotated.c[name] for name in columns)).where(annotated.c.kind == PERSON, last_said())
        query = query.where(is_about(self.synthetic))
        if question is not None:
            query = query.where(annotated.c.question == question)
        found = map(label_from, self._stream(query.order_by(annotated.c.place, annotated.c.key)))
        return Labels(found if self.rubric is None else on_scales(found, self.rubric))

    def add_answers(self, rows: Iterable[Mapping[str, Any]]) -> AddedCounts:
        """Keep a judge's answers; equal keys are kept once.

        Each has a `key`, its `conversation` and `turn`, the `question`, the `judge` and its `mode`, `probabilities`
        and `made_from` as JSON, the mass `outside` the options, and the endpoint's `version`.
        """
        total, places = AddedCounts(), self._places()
        for batch in batches(rows, BATCH):
            stored, added = [], now()
            for row in batch:
                places[MODEL] += 1
                stored.append(annotation_row(answer_from(row), str(row["key"]), places[MODEL], added))
            with database_errors(self.url), self._engine.begin() as connection:
                new = self._add(connection, annotated, stored)
            total = total.plus(AddedCounts(new, len(stored) - new))
        return total

    def answers(self, keys: Iterable[str]) -> dict[str, Mapping[str, Any]]:
        """The answers with these keys, by key: `probabilities` (JSON), the mass `outside`, the judge's `version`."""
        query = select(annotated.c.key, annotated.c.distribution, annotated.c.content)
        query = query.where(annotated.c.distribution.is_not(None))
        found: dict[str, Mapping[str, Any]] = {}
        for batch in batches(keys, BATCH):
            for key, distribution, content in self._stream(query.where(annotated.c.key.in_(batch))):
                more = read_json(content)
                found[key] = {
                    "probabilities": distribution, "outside": more["outside"], "version": more.get("version", ""),
                }  # fmt: skip
        return found

    def answered(self) -> list[tuple[str, str]]:
        """The conversation and the question of every answer."""
        query = select(annotated.c.conversation, annotated.c.question)
        query = query.where(annotated.c.kind == MODEL, annotated.c.distribution.is_not(None))
        return [(name, question) for name, question in self._stream(query)]

    # --- cache --------------------------------------------------------------------------------------------------

    def add_replies(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Keep replies, each with its `key`, its `maker` and its `content` as JSON; equal keys are kept once."""
        for batch in batches(rows, BATCH):
            shared = {"kind": REPLY, "bytes": None, "added": now()}
            with database_errors(self.url), self._engine.begin() as connection:
                self._add(connection, cache, [{**row, **shared} for row in batch])

    def replies(self, keys: Iterable[str]) -> dict[str, str]:
        """The replies with these keys, as JSON, by key."""
        query = select(cache.c.key, cache.c.content).where(cache.c.kind == REPLY)
        found = (self._stream(query.where(cache.c.key.in_(batch))) for batch in batches(keys, BATCH))
        return {key: content for rows in found for key, content in rows}

    def reply(self, key: str) -> str | None:
        """The reply with this key, as JSON."""
        return self.replies([key]).get(key)

    # --- runs ----------------------------------------------------------------------------------------

    def start_run(self, command: str, settings: Mapping[str, Any]) -> str:
        """Note that a command began, after all others whatever the clock says; returns the run's id."""
        run = uuid.uuid4().hex[:12]
        row = {"id": run, "command": command, "settings": canonical_json(settings), "status": "running"}
        row["started"] = now(after=self._one(select(func.max(runs.c.started))))
        with database_errors(self.url), self._engine.begin() as connection:
            self._add(connection, runs, [{**row, "results": None, "finished": None}])
        return run

    def change_run(self, run: str, settings: Mapping[str, Any]) -> None:
        """Put other settings in the place of a run's: what it knows by now."""
        with database_errors(self.url), self._engine.begin() as connection:
            connection.execute(update(runs).where(runs.c.id == run).values(settings=canonical_json(settings)))

    def finish_run(self, run: str, status: str, results: Mapping[str, Any]) -> None:
        """Record the end of a run: its status (`done`, `failed`, `interrupted`) and its results, redacted."""
        change = {"status": status, "results": canonical_json(redact_json(results)), "finished": now()}
        with database_errors(self.url), self._engine.begin() as connection:
            connection.execute(update(runs).where(runs.c.id == run).values(**change))

    @contextmanager
    def run(self, command: str, settings: Mapping[str, Any]) -> Iterator[Run]:
        """A command as a run: what is put into `results` is kept, and how the block ended."""
        run = Run(self.start_run(command, settings), {})
        try:
            yield run
        except BaseException as error:
            self.finish_run(run.id, "interrupted" if isinstance(error, KeyboardInterrupt) else "failed", run.results)
            raise
        self.finish_run(run.id, "done", run.results)

    def runs(self, *commands: str) -> list[dict[str, Any]]:
        """Runs with their settings and results, oldest first: of some commands, or all."""
        of_these = [runs.c.command.in_(commands)] if commands else []
        return [
            {**row._mapping, "settings": read_json(row.settings), "results": read_json(row.results or "null")}
            for row in self._stream(select(runs).where(*of_these).order_by(runs.c.started, runs.c.id))
        ]

    # --- one place that speaks to the database ------------------------------------------------------------------

    def _add(self, connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> int:
        """Insert the rows whose primary key is new; returns how many were."""
        if self.part is None or not is_tracked(table):
            return add_rows(connection, table, rows) if takes_rows(table) else len(self._added(connection, table, rows))
        marked = [{**row, "imported": self.part.name} for row in rows]
        new = add_rows(connection, table, marked)
        if new < len(rows):
            confirm(connection, self._insert, table, marked, self.part)
        return new

    def _added(self, connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> Sequence[Any]:
        """Insert the rows whose primary key is new; returns their keys.

        Rows go in the order of their keys: two writers of the same rows then wait for each other, and never in a ring.
        """
        if not rows:
            return ()
        keys = [column.name for column in table.primary_key.columns]
        insert = self._insert(table).on_conflict_do_nothing().returning(*table.primary_key.columns)
        return connection.execute(insert, sorted(rows, key=lambda row: [row[key] for key in keys])).all()

    def _stream(self, query: Any) -> Iterator[Any]:
        is_left = False
        try:
            with database_errors(self.url), self._engine.connect() as connection:
                reading = connection.execution_options(reading=True, yield_per=BATCH)
                if has_one_connection(self._engine):  # a caller may run other queries between two rows
                    found = reading.execute(query).all()
                    connection.close()
                    yield from found
                    return
                with reading.execute(query) as rows:
                    try:
                        yield from rows
                    except GeneratorExit:
                        is_left = True
                        raise
        except StoreError:
            if not is_left:  # nobody reads on: it does not matter how the connection ends
                raise

    def _one(self, query: Any) -> Any:
        with database_errors(self.url), self._engine.connect() as connection:
            return connection.execution_options(reading=True).execute(query).scalar()


def _complain(reason: str, on_bad: Callable[[BadInput], None] | None) -> None:
    error = BadInput(reason)
    if on_bad is None:
        raise error
    on_bad(error)


def _ids_after(last: str) -> Any:
    return select(conversations.c.id).where(conversations.c.id > last).order_by(conversations.c.id).limit(BATCH)
