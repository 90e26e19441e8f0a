"""Conversations of a file as rows of the store: parsed, checked and hashed in this process or in several.

Most of an import is spent before anything is written, and no conversation needs another one for it. So the lines of a
large file go to worker processes some hundreds at a time, and come back as rows, in the file's order, to the one
process that writes. Formats whose conversations span lines, and files that are no JSON lines, are prepared here.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent import futures
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from accord.edges import MB, AccordError, BadInput, BadRow
from accord.formats import (
    BAD_AT_ONCE,
    UNNAMED,
    Lines,
    Record,
    RoleCounts,
    Source,
    answer_to,
    chunks_of_lines,
    intended_role,
    labels_beside,
    locate,
    read,
    records_of_lines,
    with_roles,
)
from accord.learning import cores
from accord.store import Columns, Keys, conversation_row, label_row, now
from accord.values import ISSUE, Annotation, Label, PlainTurns, Rubric, check_label

ROWS_AT_ONCE = 2000
PART_BYTES = 4 * MB
"""What a part holds at most: conversations, or about so much text of them; it is written in one transaction."""
LARGE_BYTES = 16 * MB
"""The smallest file, packed or not, that is worth starting processes for."""
MOST_WORKERS = 4
AHEAD = 2
"""Parts of a file per worker that are under way or wait to be written: memory holds no more of them."""


@dataclass(frozen=True)
class Reading:
    """The columns with labels, and the names of roles and annotators, where a file alone does not define them.

    Attributes:
        beside: Columns or metadata beside the text that hold labels; `None` for a look at the files first.
        turns: Questions about turns: a cell about the whole conversation is repeated for each reply.
        unnamed: Annotators are places in a list (r1, r2, ...), not persons: all count as one unnamed crowd.
        roles: Roles as the files have them to `user`, `assistant`, `system` or `tool`.
        levels: Of some questions, the level of their labels (`turn`, `conversation`); labels of other levels are
            left out.
        wide: Columns of tables of labels that hold labels, although the rubric has no such question.
        raters: Columns that each hold one person's ratings, with the person.
    """

    beside: Sequence[str] | None = None
    turns: Sequence[str] = ()
    unnamed: bool = False
    roles: Mapping[str, str] = field(default_factory=dict)
    levels: Mapping[str, str] = field(default_factory=dict)
    wide: Sequence[str] = ()
    raters: Mapping[str, str] = field(default_factory=dict)

    def named(self, labels: Iterable[Label]) -> Iterator[Label]:
        """Labels of their question's level, each by who is known to have given it."""
        return self._named(labels) if self.levels or self.unnamed else iter(labels)

    def _named(self, labels: Iterable[Label]) -> Iterator[Label]:
        for label in labels:
            level = self.levels.get(label.question)
            if level is None or (label.target.turn is None) == (level == "conversation"):
                yield replace(label, annotator=UNNAMED) if self.unnamed else label


@dataclass
class Seen(RoleCounts):
    """Counts of labels, and of what a user should know about.

    Attributes:
        questions: Labels that were read, by question.
        other_questions: Those on questions that the rubric does not ask.
        annotators: The annotators of the labels.
        passed_over: Reasons why nothing was read from spans and log records of traces.
    """

    questions: Counter[str] = field(default_factory=Counter)
    other_questions: Counter[str] = field(default_factory=Counter)
    annotators: set[str] = field(default_factory=set)
    passed_over: Counter[str] = field(default_factory=Counter)
    _wordings: dict[str, str | None] = field(default_factory=dict, repr=False, compare=False)

    def plus(self, other: Seen) -> None:
        """Add the counts of another part."""
        for mine, more in ((self.questions, other.questions), (self.other_questions, other.other_questions),
                           (self.roles, other.roles), (self.speakers, other.speakers),
                           (self.passed_over, other.passed_over)):  # fmt: skip
            mine.update(more)
        self.annotators |= other.annotators

    def noted(self, labels: Iterable[Label], rubric: Rubric) -> Iterator[Label]:
        """Count the labels, and yield each with the wording of its question."""
        for label in labels:
            wording = self.wording(label, rubric)
            yield label if wording is None else replace(label, wording=wording)

    def wording(self, label: Label, rubric: Rubric) -> str | None:
        """Count a label, and return the wording of its question; `None` if the rubric does not ask it."""
        self.annotators.add(label.annotator)
        self.count(label.question, rubric)
        if label.question not in self._wordings:
            question = rubric.get(label.question)
            self._wordings[label.question] = None if question is None else question.key
        return self._wordings[label.question]

    def count(self, question: str, rubric: Rubric) -> None:
        """Count an answer to a question."""
        self.questions[question] += 1
        if rubric.get(question) is None and not question.startswith(ISSUE):
            self.other_questions[question] += 1


@dataclass(frozen=True)
class Job:
    """What is read, and how; a worker is handed it once.

    Attributes:
        path: The file, or a table in memory.
        rubric: Labels on its questions are checked against its scales.
        format: The conversations' format, or `auto`.
        columns: Our column names to the file's, where they differ.
        reading: Which columns beside the text are labels, and who roles and annotators are.
        skips: Whether bad rows are passed by.
        is_alone: Whether the file holds answers about conversations of another one.
    """

    path: Source
    rubric: Rubric
    format: str = "auto"
    columns: Mapping[str, str] | None = None
    reading: Reading = Reading()
    skips: bool = False
    is_alone: bool = False


@dataclass
class Prepared:
    """Some conversations of a file, ready to be written.

    Attributes:
        conversations: Rows of the store's conversations.
        bare: The ids of those without texts, which may only name one that the store holds.
        named: Those among them that people's answers name: of no use without what they are about.
        answers: What people said that a label does not hold (quotes, comments), as it was read.
        labels: Rows of the labels that stood beside them; where in the store's order they stand is for it to say.
        assessed: Those with assessments of their turns.
        seen: What was noticed.
        bad: What is wrong with rows that were passed by.
        failure: Why nothing after them is read.
    """

    conversations: list[Columns] = field(default_factory=list)
    bare: set[str] = field(default_factory=set)
    named: set[str] = field(default_factory=set)
    answers: list[Annotation] = field(default_factory=list)
    labels: list[Columns] = field(default_factory=list)
    assessed: list[Record] = field(default_factory=list)
    seen: Seen = field(default_factory=Seen)
    bad: list[BadInput] = field(default_factory=list)
    failure: BadInput | None = None


def workers_here() -> int:
    """How many workers an import is quickest with on this machine: beyond a few they wait for the one that writes."""
    return min(cores(), MOST_WORKERS)


def prepared_parts(job: Job, workers: int = 1) -> Iterator[Prepared]:
    """A file's conversations with the labels beside them, some hundreds at a time and in order.

    Args:
        job: What is read.
        workers: How many processes prepare what they are given; with one, this one does.

    Raises:
        BadInput: The file cannot be read as a whole. What is wrong with a row comes out with what stood before it.
        AccordError: A worker was killed.
    """
    found, path = None, locate(job.path)
    if workers > 1 and not job.columns and isinstance(path, Path) and path.stat().st_size >= LARGE_BYTES:
        found = chunks_of_lines(path, job.format, ROWS_AT_ONCE, PART_BYTES)
    yield from _here(job) if found is None else _elsewhere(replace(job, format=found[0]), found[1], workers)


def _here(job: Job) -> Iterator[Prepared]:
    done = Prepared()

    def complain(error: BadInput) -> None:
        done.bad.append(error)

    def pass_over(reason: str) -> None:
        done.seen.passed_over[reason] += 1

    records, is_over = read(job.path, job.format, job.columns, complain if job.skips else None, pass_over), False
    while not is_over:
        try:
            is_over = _prepare(records, job, done)
        except (Exception, KeyboardInterrupt):
            yield done  # what stands before it
            raise
        yield done
        done = Prepared()


def _prepare(records: Iterator[Record], job: Job, done: Prepared) -> bool:
    """Add rows of some conversations, and of the labels beside them, up to a part's size; whether these are the last.

    Whatever else is raised than `BadInput`, which is a part's `failure`, what stands before it is there.
    """
    added, keys, size = now(), Keys(), 0
    checked: set[tuple[str, Any]] = set()
    try:
        for record in records:
            unmapped, roles = record.conversation, job.reading.roles
            record = replace(record, conversation=with_roles(unmapped, roles)) if roles else record
            conversation = record.conversation
            if (error := _misspelled(record, job)) is not None:
                if not job.skips:
                    raise error
                done.bad.append(error)
                continue
            done.seen.note(conversation, unmapped if roles else None)
            row = conversation_row(conversation, added)
            done.conversations.append(row)
            if not row["turns"]:
                done.bare.add(conversation.id)
                if job.is_alone and (record.labels or record.annotations):
                    done.named.add(conversation.id)
            done.answers += record.annotations
            if record.assessments:
                done.assessed.append(record)
            for label in job.reading.named(_labels_of(record, job, done.bad, checked)):
                done.labels.append(label_row(label, keys, added, done.seen.wording(label, job.rubric)))
            size += len(str(row["content"]))
            if len(done.conversations) >= ROWS_AT_ONCE or size >= PART_BYTES:
                return False
    except BadInput as error:
        done.failure = error
    return True


def _misspelled(record: Record, job: Job) -> BadInput | None:
    """The error for a role that is one of ours misspelled: its turns would be read as a third speaker's."""
    turns = record.conversation.turns
    for role in () if isinstance(turns, PlainTurns) else {turn.role for turn in turns}:
        if (meant := intended_role(role)) is not None:
            return BadRow(
                str(job.path), record.line,
                f"unknown role {role!r}. Did you mean {meant!r}? Roles are user, assistant, system and tool; correct "
                f"the file, or add --role {role}={meant}",
            )  # fmt: skip
    return None


def _labels_of(record: Record, job: Job, bad: list[BadInput], checked: set[tuple[str, Any]]) -> Iterator[Label]:
    """The labels that a record came with, and those in columns that are read as such, each on its question's scale.

    `checked` collects whole numbers that are answers to a question: of many labels few answers are looked at.

    Raises:
        BadInput: One is not, and bad rows are not passed by.
    """

    def complain(error: BadInput) -> None:
        error = BadRow(str(job.path), record.line, str(error)) if record.line else BadInput(f"{job.path}: {error}")
        if not job.skips:
            raise error
        bad.append(error)

    reading, found = job.reading, list(record.labels)
    if reading.beside or reading.raters:
        try:
            found += labels_beside(record.conversation, reading.beside or (), reading.turns, reading.raters)
        except BadInput as error:
            complain(error)
    for label in found:
        said = (label.question, label.value) if type(label.value) is int and label.against is None else None
        try:
            if said not in checked:
                label = _checked(label, job.rubric)
        except BadInput as error:
            complain(error)
        else:
            if said is not None:
                checked.add(said)
            yield label


def _checked(label: Label, rubric: Rubric) -> Label:
    """A label as its question's scale writes it.

    Raises:
        BadInput: It is no answer to its question.
    """
    question = rubric.get(label.question)
    if label.value is not None:
        value = answer_to(question, label.value, label.question)
        label = label if value is label.value else replace(label, value=value)
    check_label(label, rubric)
    return label


# --- in several processes -------------------------------------------------------------------------------------------

_JOB: Job | None = None
"""What the pool of this worker is about."""


def _begin(job: Job) -> None:
    global _JOB
    _JOB = job
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it says what an interruption means
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End where the process that would take the rows is gone: a worker would wait for more of them for ever."""
    from multiprocessing import parent_process
    from multiprocessing.connection import wait

    parent = parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def _work(lines: Lines) -> Prepared:
    """What some lines of the file hold."""
    job, done, over = _JOB, Prepared(), list[str]()
    assert job is not None
    assert isinstance(job.path, Path)
    records = records_of_lines(job.path, job.format, lines, done.bad.append if job.skips else None, over.append)
    while not _prepare(records, job, done):
        pass  # the part is as large as the lines were
    done.seen.passed_over.update(over)
    return done


def _elsewhere(job: Job, parts: Iterator[Lines], workers: int) -> Iterator[Prepared]:
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_all_start_methods, get_context

    # Never a plain fork: what other threads of this process hold at that moment would stay locked in the child.
    context = get_context("forkserver" if "forkserver" in get_all_start_methods() else "spawn")
    with suppress(AttributeError):
        context.set_forkserver_preload([__name__])  # imported once, not once per worker
    pool = futures.ProcessPoolExecutor(workers, context, _begin, (job,))
    under_way: deque[futures.Future[Prepared]] = deque()
    bad, is_over, failure = 0, False, None
    try:
        while under_way or not is_over:
            try:
                part = None if is_over else next(parts, None)
            except BadInput as error:  # what came before it is still under way
                part, failure = None, error
            is_over = part is None
            if part is not None:
                under_way.append(pool.submit(_work, part))
            if under_way and (is_over or len(under_way) >= AHEAD * workers):
                found = under_way.popleft().result()
                yield found
                bad = 0 if found.conversations else bad + len(found.bad)
                if bad > BAD_AT_ONCE:
                    raise BadInput(f"{job.path}: {bad:,} rows one after another are none")
        if failure is not None:
            raise failure
    except BrokenProcessPool:
        raise AccordError(
            f"a worker that read {job.path} was killed, perhaps for the memory it took. What was read before is kept; "
            "run it again with --workers 1"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)
