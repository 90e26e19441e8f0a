"""The first stage: files of conversations, labels and annotations into the store, and annotations out of it again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from accord.formats import (
    UNNAMED,
    VALUE_KEYS,
    AnnotationWriter,
    Record,
    answer_to,
    answers_beside,
    columns_of,
    is_annotation_file,
    is_label_file,
    labels_beside,
    raw_label_rows,
    read,
    read_annotations,
    read_labels,
)
from accord.project.inferring import positions_among
from accord.store import Added, IssueAnnotations, Store, batches, changed_conversation, unknown_target
from accord.values import (
    ANNOTATOR_KINDS,
    ISSUE,
    Annotation,
    BadInput,
    Conversation,
    IssueAnnotation,
    Label,
    Rubric,
    UnknownName,
    check_label,
    located,
)

ROWS_AT_ONCE = 500


@dataclass
class Imported:
    """What an import kept, and what it skipped.

    Attributes:
        conversations: How many were new, and how many known.
        labels: The same of labels.
        assessments: Of assessments of turns.
        annotations: Of annotations that were exported.
        bad_rows: The first bad rows that were skipped.
        skipped: How many there were.
        other_questions: Labels on questions that the rubric does not ask, counted.
        other_files: Files of labels that answer no question of the rubric, and were left out.
        beside: Columns beside the text that are called like a question of the rubric, and were not read as labels.
        annotators: Who gave the labels.
        roles: Who speaks in conversations without an assistant, by role.
        passed_over: Why spans and log records of traces said nothing, counted.
    """

    conversations: Added = Added()
    labels: Added = Added()
    assessments: Added = Added()
    annotations: Added = Added()
    bad_rows: list[str] = field(default_factory=list)
    skipped: int = 0
    other_questions: Counter[str] = field(default_factory=Counter)
    other_files: list[str] = field(default_factory=list)
    beside: Counter[str] = field(default_factory=Counter)
    annotators: set[str] = field(default_factory=set)
    roles: Counter[str] = field(default_factory=Counter)
    passed_over: Counter[str] = field(default_factory=Counter)

    _MOST_SHOWN = 20

    def skip(self, error: BadInput) -> None:
        """Note a bad row that was skipped."""
        self.skipped += 1
        if len(self.bad_rows) < self._MOST_SHOWN:
            self.bad_rows.append(str(error))

    def to_json(self) -> dict[str, Any]:
        """Counts, and the first bad rows."""
        return {
            "conversations": self.conversations._asdict(),
            "labels": self.labels._asdict(),
            "assessments": self.assessments._asdict(),
            "annotations": self.annotations._asdict(),
            "skipped": self.skipped,
            "bad_rows": self.bad_rows,
            "other_questions": dict(self.other_questions),
            "other_files": self.other_files,
            "beside": dict(self.beside),
            "positions": positions_among(self.annotators),
            "roles": dict(self.roles),
            "passed_over": dict(self.passed_over),
        }

    def pass_over(self, reason: str) -> None:
        """Count a row that said nothing."""
        self.passed_over[reason] += 1


@dataclass(frozen=True)
class Reading:
    """How ratings and speakers are read, where a file alone does not say it.

    Attributes:
        beside: Columns or metadata beside the text that hold labels, each a question of the rubric.
        turns: Those that are asked about turns: a cell that speaks of the whole conversation speaks of each reply.
        unnamed: Annotators are places in a list (r1, r2, ...), not persons: all count as one unnamed crowd.
        roles: Roles as the files have them to `user`, `assistant`, `system` or `tool`.
        levels: Of some questions, what their labels are about (`turn`, `conversation`); others of them are left out.
    """

    beside: Sequence[str] = ()
    turns: Sequence[str] = ()
    unnamed: bool = False
    roles: Mapping[str, str] = field(default_factory=dict)
    levels: Mapping[str, str] = field(default_factory=dict)

    def named(self, labels: Iterable[Label]) -> Iterator[Label]:
        """Labels of their question's level, each by who is known to have given it."""
        for label in labels:
            level = self.levels.get(label.question)
            if level is None or (label.target.turn is None) == (level == "conversation"):
                yield replace(label, annotator=UNNAMED) if self.unnamed else label

    def spoken(self, conversation: Conversation) -> Conversation:
        """A conversation whose roles have our names."""
        if not self.roles:
            return conversation
        turns = (replace(turn, role=self.roles.get(turn.role, turn.role)) for turn in conversation.turns)
        return replace(conversation, turns=tuple(turns))


def import_files(
    store: Store,
    rubric: Rubric,
    paths: Iterable[str | Path],
    format: str = "auto",
    columns: Mapping[str, str] | None = None,
    skip_bad_rows: bool = False,
    on_progress: Callable[[int], None] | None = None,
    reading: Reading = Reading(),
) -> Imported:
    """Read files of conversations, labels and annotations into the store; conversations first, whatever the order.

    Args:
        store: Where they are kept.
        rubric: Labels on its questions are checked against its scales.
        paths: Files, or benchmark folders.
        format: The conversations' format, or `auto`.
        columns: Our column names to the files', where they differ; each file takes the part that speaks of it.
        skip_bad_rows: Count and report bad rows instead of stopping at the first.
        on_progress: Called with the number of rows read so far, now and then.
        reading: Which columns beside the text are labels, and who roles and annotators are.

    Raises:
        BadInput: A file cannot be read, or labels alone answer no question of the rubric.
        BadRow: A row is bad and `skip_bad_rows` is not set; what came before it is kept.
    """
    done = Imported()
    on_bad_row = done.skip if skip_bad_rows else None
    files = {Path(path): _columns_here(Path(path), columns) for path in paths}
    _check_used(files, columns)
    exported = [path for path, here in files.items() if is_annotation_file(path, here)]
    of_labels = [path for path, here in files.items() if path not in exported and is_label_file(path, here)]
    strange = {path: names for path in of_labels if (names := _unasked(path, rubric, files[path]))}
    if strange and len(strange) == len(files):
        raise BadInput("; ".join(_not_asked(path, names, rubric) for path, names in strange.items()))
    for path, here in files.items():
        if path not in of_labels and path not in exported:
            _import_conversations(store, rubric, path, format, here, done, on_bad_row, on_progress, reading)
    for path in of_labels:
        if path in strange:
            done.other_files.append(_not_asked(path, strange[path], rubric))
            continue
        found = _noted(reading.named(read_labels(path, rubric, files[path], on_bad_row)), rubric, done)
        _add_labels(store, path, found, done, on_bad_row)
    for path in exported:
        _import_annotations(store, rubric, path, files[path], done, on_bad_row)
    return done


def export_annotations(
    store: Store,
    path: Path,
    kinds: Sequence[str] | None = None,
    on_progress: Callable[[int], None] | None = None,
    question: str | None = None,
) -> dict[str, int]:
    """Write the store's annotations to a file that `import_files` reads back to the last field.

    Args:
        store: Where they are.
        path: JSON lines, CSV or Parquet, by its ending.
        kinds: Only what these said: `person`, `model`, `metric`; all of them by default.
        on_progress: Called with the number of annotations written so far, now and then.
        question: Only answers to this question, as `issue:Other`.

    Returns:
        How many of each kind were written.

    Raises:
        UnknownName: There is no such kind.
        BadInput: The file's ending is none that can be written.
    """
    unknown = next((kind for kind in kinds or () if kind not in ANNOTATOR_KINDS), None)
    if unknown is not None:
        raise UnknownName("kind of annotation", unknown, ANNOTATOR_KINDS)
    counts = dict.fromkeys((kind for kind in ANNOTATOR_KINDS if kind in (kinds or ANNOTATOR_KINDS)), 0)
    with AnnotationWriter(path) as writer:
        for count, annotation in enumerate(store.annotations(list(counts), question), 1):
            writer.write(annotation)
            counts[annotation.kind] += 1
            if on_progress is not None and count % ROWS_AT_ONCE == 0:
                on_progress(count)
    return {str(kind): count for kind, count in counts.items()}


def _import_annotations(
    store: Store,
    rubric: Rubric,
    path: Path,
    columns: Mapping[str, str] | None,
    done: Imported,
    on_bad_row: Callable[[BadInput], None] | None,
) -> None:
    """A file's annotations as they were exported: the wording and the time of each are the file's."""

    def counted() -> Iterator[Annotation]:
        for annotation in read_annotations(path, rubric, columns, on_bad_row):
            if annotation.kind == "person" and rubric.get(annotation.question) is None:
                done.other_questions[annotation.question] += 1
            yield annotation

    def bad(error: BadInput) -> None:
        _complain(BadInput(f"{path}: {error}"), on_bad_row)

    done.annotations = done.annotations.plus(store.add_annotations(counted(), bad))


def _columns_here(path: Path, columns: Mapping[str, str] | None) -> dict[str, str]:
    """The part of a column map that speaks of this file: one map serves conversations and labels."""
    if not columns:
        return {}
    names = columns_of(path)
    return {ours: theirs for ours, theirs in columns.items() if theirs in names}


def _check_used(files: Mapping[Path, Mapping[str, str]], columns: Mapping[str, str] | None) -> None:
    """Refuse a mapped column that no file has.

    Raises:
        BadInput: Names it.
    """
    for ours, theirs in (columns or {}).items():
        if not any(ours in here for here in files.values()):
            raise BadInput(f"none of the files has a column {theirs!r} to read as {ours!r}")


def _import_conversations(
    store: Store,
    rubric: Rubric,
    path: Path,
    format: str,
    columns: Mapping[str, str] | None,
    done: Imported,
    on_bad_row: Callable[[BadInput], None] | None,
    on_progress: Callable[[int], None] | None,
    reading: Reading,
) -> None:
    """A file's conversations with the labels beside them; each batch is kept before the next is read."""
    seen = 0
    asked = {question.id for question in rubric.questions}
    for records in batches(read(path, format, columns, on_bad_row, done.pass_over), ROWS_AT_ONCE):
        records = [replace(record, conversation=reading.spoken(record.conversation)) for record in records]
        for record in records:
            _note(record.conversation, asked - set(reading.beside), done)
        changed: set[str] = set()
        added = store.add_conversations(_told(store, records), changed.add)
        done.conversations = done.conversations.plus(added)
        for name in changed:
            _complain(BadInput(f"{path}: {changed_conversation(name)}"), on_bad_row)
        labels_of = partial(_labels_of, reading=reading, rubric=rubric, path=path, on_bad_row=on_bad_row)
        beside = (each for record in records if record.conversation.id not in changed for each in labels_of(record))
        labels = _noted(reading.named(_checked(beside, rubric, path, on_bad_row)), rubric, done)
        _add_labels(store, path, labels, done, on_bad_row)
        kept = [record for record in records if record.assessments and record.conversation.id not in changed]
        done.assessments = done.assessments.plus(IssueAnnotations(store).add(_located(store, kept)))
        seen += len(records)
        if on_progress is not None:
            on_progress(seen)


def _labels_of(
    record: Record, reading: Reading, rubric: Rubric, path: Path, on_bad_row: Callable[[BadInput], None] | None
) -> Iterator[Label]:
    """The labels that a record came with, and those in columns that are read as such, as their scales write them."""
    try:
        beside = labels_beside(record.conversation, reading.beside, reading.turns) if reading.beside else []
    except BadInput as error:
        _complain(BadInput(f"{path}: {error}"), on_bad_row)
        beside = []
    for label in (*record.labels, *beside):
        question = rubric.get(label.question)
        if question is None or label.value is None:
            yield label
            continue
        try:
            value = answer_to(question, label.value, label.question)
        except BadInput as error:
            _complain(BadInput(f"{path}: {error}"), on_bad_row)
        else:
            yield replace(label, value=value)


def _note(conversation: Conversation, asked: Collection[str], done: Imported) -> None:
    """Count what a conversation has that could be labels, and speakers of whom none is known to be the assistant."""
    done.beside.update({each.question for each in answers_beside(conversation) if each.question in asked})
    roles = dict.fromkeys(turn.role for turn in conversation.turns if turn.role not in ("system", "tool"))
    if roles and "assistant" not in roles:
        done.roles.update(list(roles))  # in the order in which they speak


def _unasked(path: Path, rubric: Rubric, columns: Mapping[str, str]) -> list[str]:
    """The questions that a file of labels answers, where the rubric asks none of them; else nothing."""
    found: Counter[str] = Counter()
    for place, (_, answers) in enumerate(raw_label_rows(path, columns)):
        for question, _, _ in answers:
            if rubric.get(question) is not None or question.startswith(ISSUE):
                return []
            found[question] += 1
        if place >= ROWS_AT_ONCE:
            break
    answered_alone = set(found) <= set(VALUE_KEYS) and rubric.name not in ("llm-rubric",)
    return [] if answered_alone else [name for name, _ in found.most_common()]


def _not_asked(path: Path, names: Sequence[str], rubric: Rubric) -> str:
    shown = ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
    return (
        f"{path} answers {shown}, which the rubric {rubric.name!r} does not ask (it asks "
        f"{', '.join(question.id for question in rubric.questions)}). Write one that does: accord init --from {path}"
    )


def _located(store: Store, records: Sequence[Record]) -> Iterator[IssueAnnotation]:
    """The records' assessments; quotes are looked up in the stored dialogue where the file does not have it."""
    bare = [record.conversation.id for record in records if not record.conversation.turns]
    known = {conversation.id: conversation.turns for conversation in store.conversations(bare)} if bare else {}
    for record in records:
        turns = record.conversation.turns or known.get(record.conversation.id, ())
        for each in record.assessments:
            place = each.target.turn or 0
            yield located(each, turns[place].content) if place < len(turns) else each


def _told(store: Store, records: Sequence[Record]) -> Iterator[Conversation]:
    """The records' conversations; one without texts, which only names another, is left out where that is stored."""
    bare = [record.conversation.id for record in records if not record.conversation.turns]
    known = {conversation.id for conversation in store.conversations(bare)} if bare else set()
    return (record.conversation for record in records if record.conversation.id not in known)


def _add_labels(
    store: Store, path: Path, labels: Iterable[Label], done: Imported, on_bad_row: Callable[[BadInput], None] | None
) -> None:
    def unknown(label: Label) -> None:
        _complain(BadInput(f"{path}: {unknown_target(label)}"), on_bad_row)

    done.labels = done.labels.plus(store.add_labels(labels, unknown))


def _complain(error: BadInput, on_bad_row: Callable[[BadInput], None] | None) -> None:
    if on_bad_row is None:
        raise error
    on_bad_row(error)


def _checked(
    labels: Iterable[Label], rubric: Rubric, path: Path, on_bad_row: Callable[[BadInput], None] | None
) -> Iterator[Label]:
    """Labels that stood beside their conversation, those whose value is on its question's scale."""
    for label in labels:
        try:
            check_label(label, rubric)
        except BadInput as error:
            _complain(BadInput(f"{path}: {error}"), on_bad_row)
        else:
            yield label


def _noted(labels: Iterable[Label], rubric: Rubric, done: Imported) -> Iterator[Label]:
    """The labels, each with its question's wording; those on questions that the rubric does not ask are counted."""
    for label in labels:
        question = rubric.get(label.question)
        if question is None:
            done.other_questions[label.question] += 1
        done.annotators.add(label.annotator)
        yield label if question is None else replace(label, wording=question.key)
