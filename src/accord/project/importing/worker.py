"""Prepare the rows of an import: parse, validate and hash conversations, in this process or in several.

Most of the time of an import is spent before anything is written, and conversations are independent. The lines of a
large file go to worker processes in batches, and return as rows, in the order of the file, to the process that writes.
Files without lines, and formats whose conversations span lines, are prepared in this process.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from accord.edges import MB, AccordError, BadInput, BadRow
from accord.formats import (
    MAX_BAD_ROWS,
    UNNAMED,
    JudgedAnswer,
    Lines,
    RatingCell,
    Record,
    RoleCounts,
    Source,
    TableOptions,
    TableRoles,
    answer_to,
    intended_role,
    line_batches,
    locate,
    may_be_answer,
    on_comparison,
    rating_labels,
    read,
    read_lines,
    with_roles,
)
from accord.redaction import Redactor
from accord.runtime import (
    WorkerLost,
    WorkerThreads,
    cores,
)
from accord.store import AnnotationKeys, TableRow, conversation_row, label_row, now
from accord.values import ISSUE, Annotation, Label, PlainTurns, Question, Rubric, Target, check_label

BATCH_ROWS = 2000
BATCH_BYTES = 4 * MB
"""Maximum size of a batch, in conversations and in bytes of text. A batch is written in one transaction."""
LARGE_BYTES = 16 * MB
"""Minimum size of a file, compressed or not, for which worker processes are started."""
MAX_WORKERS = 4
_BATCHES_AHEAD = 2
"""Batches per worker that are in progress or wait to be written, which bounds memory."""


@dataclass(frozen=True)
class ImportOptions:
    """Columns with labels, and names of roles and annotators.

    Attributes:
        rating_columns: Columns or metadata of conversations that hold labels; `None` chooses them by a survey.
        turn_questions: Questions about turns: an answer about the whole conversation is repeated for each reply.
        is_anonymous: Names of annotators are positions in a list (r1, r2, ...), not persons; all become one annotator.
        roles: Names of roles in the files to `user`, `assistant`, `system` or `tool`.
        levels: Level of labels (`turn`, `conversation`) by question; labels of the other level are left out.
        label_columns: Columns of tables of labels that hold labels on questions outside the rubric.
        raters: Columns that each hold the ratings of one annotator, with the annotator.
        named: Columns that the user says hold ratings of people or a judge's answers.
        main: Question of a judge's answers that name none; by default the rubric's main question.

    >>> from accord.testing import sample_project
    >>> turns = [{"role": "client", "content": "Hi."}, {"role": "operator", "content": "Hello!"}]
    >>> roles = ImportOptions(roles={"client": "user", "operator": "assistant"})
    >>> with sample_project() as project:
    ...     _ = project.import_([{"id": "new", "messages": turns}], options=roles)
    ...     [turn.role for turn in next(project.store.conversations(["new"])).turns]
    ['user', 'assistant']
    """

    rating_columns: Sequence[str] | None = None
    turn_questions: Sequence[str] = ()
    is_anonymous: bool = False
    roles: Mapping[str, str] = field(default_factory=dict)
    levels: Mapping[str, str] = field(default_factory=dict)
    label_columns: Sequence[str] = ()
    raters: Mapping[str, str] = field(default_factory=dict)
    named: TableOptions = TableOptions()
    main: Question | None = None

    def selected(self, labels: Iterable[Label]) -> Iterator[Label]:
        """Yield the labels of the right level, without the names of annotators if these are positions."""
        return self._selected(labels) if self.levels or self.is_anonymous else iter(labels)

    def _selected(self, labels: Iterable[Label]) -> Iterator[Label]:
        for label in labels:
            level = self.levels.get(label.question)
            if level is None or (label.target.turn is None) == (level == "conversation"):
                yield replace(label, annotator=UNNAMED) if self.is_anonymous else label


@dataclass
class ImportCounts(RoleCounts):
    """Counts of labels, roles and ignored rows.

    Attributes:
        questions: Labels by question.
        other_questions: Labels on questions outside the rubric.
        annotators: Labels by annotator, as spelled in the files.
        ignored: Rows without content, such as spans of databases, by reason.
    """

    questions: Counter[str] = field(default_factory=Counter)
    other_questions: Counter[str] = field(default_factory=Counter)
    annotators: Counter[str] = field(default_factory=Counter)
    ignored: Counter[str] = field(default_factory=Counter)
    _wordings: dict[str, str | None] = field(default_factory=dict, repr=False, compare=False)

    def add(self, other: ImportCounts) -> None:
        """Add the counts of another batch."""
        for name in ("questions", "other_questions", "annotators", "roles", "speakers", "split", "ignored"):
            getattr(self, name).update(getattr(other, name))

    def with_wording(self, labels: Iterable[Label], rubric: Rubric) -> Iterator[Label]:
        """Count the labels, and yield each with the wording of its question."""
        for label in labels:
            wording = self.wording(label, rubric)
            yield label if wording is None else replace(label, wording=wording)

    def wording(self, label: Label, rubric: Rubric) -> str | None:
        """Count a label, and return the wording of its question; `None` for a question outside the rubric."""
        self.annotators[label.annotator] += 1
        self.count(label.question, rubric)
        if label.question not in self._wordings:
            question = rubric.get(label.question)
            self._wordings[label.question] = None if question is None else question.wording
        return self._wordings[label.question]

    def count(self, question: str, rubric: Rubric) -> None:
        """Count an answer to a question."""
        self.questions[question] += 1
        if rubric.get(question) is None and not question.startswith(ISSUE):
            self.other_questions[question] += 1


@dataclass(frozen=True)
class ImportJob:
    """File of conversations to read; sent to each worker once.

    Attributes:
        path: The file, or a table in memory.
        rubric: Labels on its questions are validated against its scales.
        format: The conversations' format, or `auto`.
        columns: Accord's column names to the file's.
        options: Columns with labels, roles and annotators.
        skips: Skip bad rows instead of stopping at the first.
        has_answers: The file holds answers on conversations of another file.
        roles: Roles of the file's columns.
        redactor: Redacts conversations and annotations; None stores them as they are.
        stem: Prefix of the ids of conversations without one; by default the file's name.
    """

    path: Source
    rubric: Rubric
    format: str = "auto"
    columns: Mapping[str, str] | None = None
    options: ImportOptions = ImportOptions()
    skips: bool = False
    has_answers: bool = False
    roles: TableRoles = TableRoles()
    redactor: Redactor | None = None
    stem: str | None = None


@dataclass
class ImportBatch:
    """Rows of some conversations of a file, ready to be written.

    Attributes:
        conversations: Rows of conversations.
        without_text: Ids of conversations without turns, which may refer to stored conversations.
        referenced: Ids without turns to which answers refer; they are never stored as conversations.
        answers: Human answers with quotes or comments, as read.
        labels: Rows of labels.
        judged: A model's answers, each with the line of its row.
        lines: Line of each conversation with labels; 0 if unknown.
        assessed: Records with assessments of their turns.
        counts: Counts of labels, roles and ignored rows.
        bad: Errors of rows that were skipped.
        failure: Error that ended the file.
    """

    conversations: list[TableRow] = field(default_factory=list)
    without_text: set[str] = field(default_factory=set)
    referenced: set[str] = field(default_factory=set)
    answers: list[Annotation] = field(default_factory=list)
    labels: list[TableRow] = field(default_factory=list)
    judged: list[tuple[int, JudgedAnswer]] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)
    assessed: list[Record] = field(default_factory=list)
    counts: ImportCounts = field(default_factory=ImportCounts)
    bad: list[BadInput] = field(default_factory=list)
    failure: BadInput | None = None


def default_workers() -> int:
    """Return the number of workers for the fastest import on this machine; further ones would wait for the writer."""
    return min(cores(), MAX_WORKERS)


def import_batches(job: ImportJob, workers: int = 1) -> Iterator[ImportBatch]:
    """Yield the conversations and labels of a file, in batches and in order.

    Args:
        job: The file.
        workers: Number of processes; with one, the batches are prepared in this process.

    Raises:
        BadInput: The file cannot be read as a whole. The error of a row is the `failure` of its batch.
        AccordError: A worker was killed.
    """
    split, path = None, locate(job.path)
    if workers > 1 and not job.columns and isinstance(path, Path) and path.stat().st_size >= LARGE_BYTES:
        split = line_batches(path, job.format, BATCH_ROWS, BATCH_BYTES)
    yield from _serial(job) if split is None else _parallel(replace(job, format=split[0]), split[1], workers)


def _serial(job: ImportJob) -> Iterator[ImportBatch]:
    batch = ImportBatch()

    def on_bad_row(error: BadInput) -> None:
        batch.bad.append(error)

    def on_skip(reason: str) -> None:
        batch.counts.ignored[reason] += 1

    report = on_bad_row if job.skips else None
    records, is_over = read(job.path, job.format, job.columns, report, on_skip, job.stem), False
    while not is_over:
        try:
            is_over = _fill(batch, records, job)
        except (Exception, KeyboardInterrupt):
            yield batch  # the rows before the failure
            raise
        yield batch
        batch = ImportBatch()


def _fill(batch: ImportBatch, records: Iterator[Record], job: ImportJob) -> bool:
    """Add conversations and labels up to the size of a batch; returns True after the last one.

    A `BadInput` becomes the batch's `failure`; after any other exception, the batch holds the rows before it.
    """
    added, keys, size = now(), AnnotationKeys(), 0
    valid: set[tuple[str, Any]] = set()
    roles = job.options.roles
    try:
        for record in records:
            unmapped = record.conversation
            record = replace(record, conversation=with_roles(unmapped, roles)) if roles else record
            conversation = record.conversation
            if (error := _misspelled_role(record, job)) is not None:
                if not job.skips:
                    raise error
                batch.bad.append(error)
                continue
            batch.counts.count_roles(conversation, unmapped if roles else None)
            stored = _redacted(record, job.redactor)
            row = conversation_row(stored.conversation, added)
            batch.conversations.append(row)
            if not row["turns"]:
                batch.without_text.add(conversation.id)
                if job.has_answers and (record.labels or record.annotations):
                    batch.referenced.add(conversation.id)
            batch.answers += stored.annotations
            if stored.assessments:
                batch.assessed.append(stored)
            for label in job.options.selected(_labels_of(record, job, batch, valid)):
                batch.lines[label.target.conversation] = record.line
                batch.labels.append(label_row(label, keys, added, batch.counts.wording(label, job.rubric)))
            size += len(str(row["content"]))
            if len(batch.conversations) >= BATCH_ROWS or size >= BATCH_BYTES:
                return False
    except BadInput as error:
        batch.failure = error
    return True


def _redacted(record: Record, redactor: Redactor | None) -> Record:
    """Return a record with placeholders in its conversation and annotations; labels are read from the original."""
    if redactor is None:
        return record
    redaction, turns = redactor.begin(), record.conversation.turns
    conversation = redaction.conversation(record.conversation)
    if conversation is record.conversation and not (record.annotations or record.assessments):
        return record
    return replace(
        record, conversation=conversation,
        annotations=tuple(redaction.annotation(each, turns) for each in record.annotations),
        assessments=tuple(redaction.assessment(each, turns) for each in record.assessments),
    )  # fmt: skip


def _misspelled_role(record: Record, job: ImportJob) -> BadInput | None:
    """Return the error for a misspelled role, whose turns would be read as turns of a third speaker."""
    turns = record.conversation.turns
    for role in () if isinstance(turns, PlainTurns) else {turn.role for turn in turns}:
        if (intended := intended_role(role)) is not None:
            return BadRow(
                str(job.path), record.line,
                f"unknown role {role!r}. Did you mean {intended!r}? Roles are user, assistant, system and tool; "
                f"correct the file, or add --role {role}={intended}",
            )  # fmt: skip
    return None


def _labels_of(record: Record, job: ImportJob, batch: ImportBatch, valid: set[tuple[str, Any]]) -> Iterator[Label]:
    """Yield the labels of a record and of its rating columns, on the scales of their questions.

    The batch receives a model's answers, and the errors of labels that are skipped; `valid` collects whole numbers that
    are valid answers.
    """

    def report(error: BadInput) -> None:
        error = BadRow(str(job.path), record.line, str(error)) if record.line else BadInput(f"{job.path}: {error}")
        if not job.skips:
            raise error
        batch.bad.append(error)

    labels = [on_comparison(label, job.rubric) for label in record.labels]
    try:
        labels += _labels_beside(record, job, batch)
    except BadInput as error:
        report(error)
    for label in labels:
        answer = (label.question, label.value) if type(label.value) is int and label.against is None else None
        try:
            if answer not in valid:
                label = _validated(label, job.rubric)
        except BadInput as error:
            report(error)
        else:
            if answer is not None:
                valid.add(answer)
            yield label


def _labels_beside(record: Record, job: ImportJob, batch: ImportBatch) -> list[Label]:
    """Return the labels in a record's columns and metadata; the batch receives a model's answers there."""
    options, roles, conversation = job.options, job.roles, record.conversation
    questions = {*(options.rating_columns or ()), *roles.judges}
    if roles.are_all_judged:
        questions.update(name for name in conversation.metadata if isinstance(name, str))
    if not (questions or options.raters):
        return []

    def on_judged(cell: RatingCell, judge: str) -> None:
        if cell.question in roles.judges or may_be_answer(cell.question, cell.value):
            answer = JudgedAnswer(Target(conversation.id, cell.turn), cell.question, judge, cell.value)
            batch.judged.append((record.line, answer))

    return rating_labels(conversation, questions, options.turn_questions, options.raters, roles.judge_of, on_judged)


def _validated(label: Label, rubric: Rubric) -> Label:
    """Return a label with a value of its question's scale."""
    question = rubric.get(label.question)
    if label.value is not None:
        value = answer_to(question, label.value, label.question)
        label = label if value is label.value else replace(label, value=value)
    check_label(label, rubric)
    return label


# --- several processes ---------------------------------------------------------------------------------------------


def _prepare_lines(job: ImportJob, lines: Lines) -> ImportBatch:
    batch, ignored = ImportBatch(), list[str]()
    assert isinstance(job.path, Path)
    report = batch.bad.append if job.skips else None
    records = read_lines(job.path, job.format, lines, report, ignored.append, job.stem)
    while not _fill(batch, records, job):
        pass  # the lines were split by size before
    batch.counts.ignored.update(ignored)
    return batch


def _parallel(job: ImportJob, batches: Iterator[Lines], workers: int) -> Iterator[ImportBatch]:
    pending: deque[Future[ImportBatch]] = deque()
    bad, is_over, failure = 0, False, None
    with WorkerThreads(partial(_prepare_lines, job), workers, (__name__,)) as threads:
        while pending or not is_over:
            try:
                lines = None if is_over else next(batches, None)
            except BadInput as error:  # the batches before it are still in progress
                lines, failure = None, error
            is_over = lines is None
            if lines is not None:
                pending.append(threads.submit(lines))
            if pending and (is_over or len(pending) >= _BATCHES_AHEAD * workers):
                batch = _result(pending.popleft(), job)
                yield batch
                bad = 0 if batch.conversations else bad + len(batch.bad)
                if bad > MAX_BAD_ROWS:
                    raise BadInput(f"{job.path}: {bad:,} bad rows in succession")
    if failure is not None:
        raise failure


def _result(future: Future[ImportBatch], job: ImportJob) -> ImportBatch:
    try:
        return future.result()
    except WorkerLost:
        raise AccordError(
            f"a worker that read {job.path} was killed, perhaps for lack of memory. The rows before are stored; run "
            "the command again with --workers 1"
        ) from None
