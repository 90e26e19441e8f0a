"""The first stage: files of conversations, labels and annotations into the store, and annotations out of it again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from accord.edges import BadInput, UnknownName
from accord.evidence import Readable
from accord.formats import (
    VALUE_KEYS,
    AnnotationWriter,
    Record,
    Source,
    answer_to,
    columns_of,
    is_annotation_file,
    is_label_file,
    read_annotations,
    read_labels,
    stands_alone,
    tables_of,
)
from accord.project.file_survey import MOST_SURVEYED, Survey, survey
from accord.project.import_worker import ROWS_AT_ONCE, Job, Prepared, Reading, Seen, prepared_parts
from accord.project.rubric_inference import positions_among
from accord.store import (
    ANNOTATION_BATCH,
    AddedCounts,
    Imports,
    IssueAnnotations,
    RemovedCounts,
    Store,
    TableRow,
    changed_conversation,
    unknown_target,
)
from accord.values import (
    ANNOTATOR_KINDS,
    ISSUE,
    Annotation,
    IssueAnnotation,
    Label,
    Rubric,
    Target,
    Turn,
    check_label,
    find_quote,
    with_located_quotes,
)


@dataclass(repr=False)
class Imported(Readable):
    """Counts of what an import stored and skipped.

    Attributes:
        conversations: New and known conversations.
        labels: New and known labels.
        assessments: New and known assessments of turns.
        annotations: New and known annotations from exported files, and human answers with quotes or comments.
        bad_rows: The first bad rows that were skipped.
        skipped: Number of bad rows that were skipped.
        seen: Counts by question, role and reason.
        id: The id of this import; `None` if the store had all rows already, by no other import.
        replaced: Counts of earlier imports of the same files that this one replaced.
    """

    conversations: AddedCounts = AddedCounts()
    labels: AddedCounts = AddedCounts()
    assessments: AddedCounts = AddedCounts()
    annotations: AddedCounts = AddedCounts()
    bad_rows: list[str] = field(default_factory=list)
    skipped: int = 0
    seen: Seen = field(default_factory=Seen)
    id: str | None = None
    replaced: RemovedCounts = RemovedCounts()

    _MOST_SHOWN = 20

    def skip(self, error: BadInput) -> None:
        """Note a bad row that was skipped."""
        self.skipped += 1
        if len(self.bad_rows) < self._MOST_SHOWN:
            self.bad_rows.append(str(error))

    def summary(self) -> dict[str, Any]:
        """Return the counts of new conversations and labels, and of skipped rows."""
        return {"conversations": self.conversations.new, "labels": self.labels.new, "skipped": self.skipped or None}

    def shown_rows(self) -> list[dict[str, Any]]:
        """Return the new and known rows of each kind."""
        kinds = ("conversations", "labels", "assessments", "annotations")
        return [{"kind": name, **getattr(self, name)._asdict()} for name in kinds if any(getattr(self, name))]

    def to_json(self) -> dict[str, Any]:
        """Counts, and the first bad rows."""
        return {
            "conversations": self.conversations._asdict(),
            "labels": self.labels._asdict(),
            "assessments": self.assessments._asdict(),
            "annotations": self.annotations._asdict(),
            "skipped": self.skipped,
            "bad_rows": self.bad_rows,
            "questions": dict(self.seen.questions),
            "other_questions": dict(self.seen.other_questions),
            "positions": positions_among(self.seen.annotators),
            "roles": dict(self.seen.roles),
            "passed_over": dict(self.seen.passed_over),
            "id": self.id,
            "replaced": self.replaced._asdict(),
        }


def import_files(
    store: Store,
    rubric: Rubric,
    paths: Any,
    format: str = "auto",
    columns: Mapping[str, str] | None = None,
    skip_bad_rows: bool = False,
    on_progress: Callable[[int], None] | None = None,
    reading: Reading = Reading(),
    workers: int = 1,
    replace: bool = False,
) -> Imported:
    """Read conversations, labels and annotations into the store; conversations first, in any order of files.

    Labels are always stored, also those on questions that the rubric does not ask; `Imported.seen` counts them.

    The store records the import, so that `Imports.undo` can remove what it brought.

    Args:
        store: The store.
        rubric: Labels on its questions are checked against its scales.
        paths: A file, a benchmark folder or a table in memory (see `accord.formats.MemoryTable`), or a list of them.
        format: The conversations' format, or `auto`.
        columns: Accord's column names to the files', where they differ; each file takes those that it has.
        skip_bad_rows: Count and report bad rows instead of stopping at the first.
        on_progress: Called with the number of rows read so far, now and then.
        reading: The columns with labels, and the names of roles and annotators; by default the columns are chosen by
            name and values, as `survey` does.
        workers: How many processes parse and check a large file of JSON lines. More than one needs a script that does
            its work under `if __name__ == "__main__":`.
        replace: Undo the earlier import of each file first. Both are one transaction: if reading fails, the earlier
            import stays.

    Raises:
        BadInput: A file cannot be read.
        BadRow: A row is bad and `skip_bad_rows` is not set; what came before it is kept.
    """
    sources = tables_of(paths)
    if reading.beside is None:
        found = survey(sources, format, columns, most=MOST_SURVEYED, skips=True)
        reading = found_reading(found, rubric, reading)
    done = Imported()
    on_bad_row = done.skip if skip_bad_rows else None
    files = {path: _columns_here(path, columns) for path in sources}
    _check_used(files, columns)
    exported = [path for path, here in files.items() if is_annotation_file(path, here)]
    of_labels = [path for path, here in files.items() if path not in exported and is_label_file(path, here)]
    others = {path: here for path, here in files.items() if path not in of_labels and path not in exported}
    alone = {path: stands_alone(path, here) for path, here in others.items()}
    places, imports = {path: place for place, path in enumerate(files)}, Imports(store)
    names = list(map(str, files))
    with imports.replacing(names) if replace else nullcontext(RemovedCounts()) as done.replaced:
        with imports.recording(names) as recording:
            for path, here in sorted(others.items(), key=lambda item: alone[item[0]]):
                recording.begin(places[path])
                job = Job(path, rubric, format, here, reading, skip_bad_rows, alone[path])
                _import_conversations(store, job, workers, done, on_progress)
            for path in of_labels:
                recording.begin(places[path])
                labels = read_labels(path, rubric, files[path], on_bad_row, reading.wide, reading.raters)
                _add_labels(store, path, done.seen.noted(reading.named(labels), rubric), done, on_bad_row)
            for path in exported:
                recording.begin(places[path])
                _import_annotations(store, rubric, path, files[path], done, on_bad_row)
            recording.results.update(done.to_json())
        done.id = recording.id
    return done


_DEFAULT_RUBRIC = "llm-rubric"


def found_reading(found: Survey, rubric: Rubric, reading: Reading = Reading()) -> Reading:
    """Return a reading with the columns that a survey found, and every column that is named after a question.

    Columns that were chosen for their values alone are left out: a log has other whole numbers than ratings. A table
    with a single value per row and no question answers the main question of a rubric that is not the default one.
    """
    beside = [name for name in found.beside if name not in found.guessed]
    asked = list(dict.fromkeys([*beside, *(question.id for question in rubric.questions)]))
    answers_main = rubric.name != _DEFAULT_RUBRIC and set(found.wide) <= set(VALUE_KEYS)
    return replace(
        reading, beside=asked, turns=[name for name in asked if name in found.of_turns],
        wide=[] if answers_main else found.wide, raters=found.raters,
    )  # fmt: skip


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
    path: Source,
    columns: Mapping[str, str] | None,
    done: Imported,
    on_bad_row: Callable[[BadInput], None] | None,
) -> None:
    """A file's annotations as they were exported: the wording and the time of each are the file's."""

    def counted() -> Iterator[Annotation]:
        for annotation in read_annotations(path, rubric, columns, on_bad_row):
            if annotation.kind == "person" and annotation.value is not None:
                done.seen.count(annotation.question, rubric)
            yield annotation

    def bad(error: BadInput) -> None:
        _complain(BadInput(f"{path}: {error}"), on_bad_row)

    done.annotations = done.annotations.plus(store.add_annotations(counted(), bad))


def _columns_here(path: Source, columns: Mapping[str, str] | None) -> dict[str, str]:
    """The part of a column map that speaks of this file: one map serves conversations and labels."""
    if not columns:
        return {}
    names = columns_of(path)
    return {ours: theirs for ours, theirs in columns.items() if theirs in names}


def _check_used(files: Mapping[Source, Mapping[str, str]], columns: Mapping[str, str] | None) -> None:
    """Refuse a mapped column that no file has.

    Raises:
        BadInput: Names it.
    """
    for ours, theirs in (columns or {}).items():
        if not any(ours in here for here in files.values()):
            raise BadInput(f"none of the files has a column {theirs!r} to read as {ours!r}")


def _import_conversations(
    store: Store, job: Job, workers: int, done: Imported, on_progress: Callable[[int], None] | None
) -> None:
    """A file's conversations with the labels beside them; what is prepared is kept before more is read."""
    seen = 0
    with _Waiting(store, job, done) as waiting:
        for part in prepared_parts(job, workers):
            for error in part.bad:
                done.skip(error)
            done.seen.plus(part.seen)
            _keep(store, job, part, done, waiting)
            if part.failure is not None:
                raise part.failure
            seen += len(part.conversations)
            if on_progress is not None:
                on_progress(seen)


PARTS_TOGETHER = 4


class _Waiting:
    """Labels of the last few parts, whose conversations are kept already: they are written in one transaction.

    A label's key may stand anywhere in the index of keys. Of few labels in a large store each changes a page of its
    own, of many some change one together. Whatever ends the import but a kill, those that wait are written.
    """

    def __init__(self, store: Store, job: Job, done: Imported) -> None:
        self._store, self._job, self._done = store, job, done
        self._labels: list[TableRow] = []
        self._turns: dict[str, int] = {}
        self._parts = 0

    def __enter__(self) -> _Waiting:
        return self

    def __exit__(self, *_: object) -> None:
        self.write()

    def add(self, labels: Sequence[TableRow], turns: Mapping[str, int]) -> None:
        """Let a part's labels wait until there are enough, or enough parts; `turns` of its conversations are known."""
        self._labels += labels
        self._turns |= {name: turns[name] for name in {str(row["conversation"]) for row in labels} & turns.keys()}
        self._parts += 1
        if len(self._labels) >= ANNOTATION_BATCH or self._parts >= PARTS_TOGETHER:
            self.write()

    def write(self) -> None:
        """Write those that wait; what is about nothing that the store holds is left out."""
        labels, turns, self._labels, self._turns, self._parts = self._labels, self._turns, [], {}, 0
        unknown = partial(_unknown, self._job, self._done)
        if labels:
            self._done.labels = self._done.labels.plus(self._store.add_label_rows(labels, unknown, turns))


def _unknown(job: Job, done: Imported, label: Label) -> None:
    _complain(BadInput(f"{job.path}: {unknown_target(label)}"), done.skip if job.skips else None)


def _keep(store: Store, job: Job, part: Prepared, done: Imported, waiting: _Waiting) -> None:
    """Write prepared rows; what belongs to a conversation that the store has with other content is left out."""

    def complain(reason: str) -> None:
        _complain(BadInput(f"{job.path}: {reason}"), done.skip if job.skips else None)

    changed: set[str] = set()
    told = {each.id for each in store.conversations(part.bare)} if part.bare else set()
    told |= part.named
    rows = [row for row in part.conversations if row["id"] not in told]
    done.conversations = done.conversations.plus(store.add_conversation_rows(rows, changed.add, ROWS_AT_ONCE))
    for name in changed:
        complain(changed_conversation(name))
    labels = [row for row in part.labels if row["conversation"] not in changed] if changed else part.labels
    turns = {str(row["id"]): int(row["turns"] or 0) for row in rows if row["id"] not in changed}
    waiting.add(labels, turns)
    said = [each for each in part.answers if each.target.conversation not in changed]
    if said:
        waiting.write()  # what was said first stands first
        _add_answers(store, job.rubric, job.path, said, done, done.skip if job.skips else None)
    kept = [record for record in part.assessed if record.conversation.id not in changed]
    if kept:
        done.assessments = done.assessments.plus(IssueAnnotations(store).add(_located(store, kept)))


def _located(store: Store, records: Sequence[Record]) -> Iterator[IssueAnnotation]:
    """The records' assessments; quotes are looked up in the stored dialogue where the file does not have it."""
    bare = [record.conversation.id for record in records if not record.conversation.turns]
    known = {conversation.id: conversation.turns for conversation in store.conversations(bare)} if bare else {}
    for record in records:
        turns = record.conversation.turns or known.get(record.conversation.id, ())
        for each in record.assessments:
            place = each.target.turn or 0
            yield with_located_quotes(each, turns[place].content) if place < len(turns) else each


def _add_answers(
    store: Store,
    rubric: Rubric,
    path: Source,
    said: Iterable[Annotation],
    done: Imported,
    on_bad_row: Callable[[BadInput], None] | None,
) -> None:
    """What people said that a label does not hold, as their questions' scales write it; quotes are looked up."""

    def bad(error: BadInput) -> None:
        _complain(BadInput(f"{path}: {error}"), on_bad_row)

    found: list[Annotation] = []
    for each in said:
        question = rubric.get(each.question)
        try:
            value = None if each.value is None else answer_to(question, each.value, each.question)
            read = replace(each, value=value, wording=None if question is None else question.key)
            check_label(read.to_label(), rubric)
        except BadInput as error:
            bad(error)
            continue
        if not each.question.startswith(ISSUE):
            done.seen.count(each.question, rubric)
        done.seen.annotators.add(each.by)
        found.append(read)
    names = {each.target.conversation for each in found if each.quote and each.target.turn is None}
    turns = {each.id: each.turns for each in store.conversations(names)} if names else {}
    with_located_quotes = [_quoted(each, turns.get(each.target.conversation, ())) for each in found]
    done.annotations = done.annotations.plus(store.add_annotations(with_located_quotes, bad))


def _quoted(each: Annotation, turns: Sequence[Turn]) -> Annotation:
    """A mark of a whole conversation as one of the first turn that has its words."""
    for place, turn in enumerate(turns) if each.quote and each.target.turn is None else ():
        start = turn.content.find(each.quote)
        span = find_quote(each.quote, turn.content) if start < 0 else (start, start + len(each.quote))
        if span is not None:
            return replace(each, target=Target(each.target.conversation, place), span=span)
    return each


def _add_labels(
    store: Store, path: Source, labels: Iterable[Label], done: Imported, on_bad_row: Callable[[BadInput], None] | None
) -> None:
    def unknown(label: Label) -> None:
        _complain(BadInput(f"{path}: {unknown_target(label)}"), on_bad_row)

    done.labels = done.labels.plus(store.add_labels(labels, unknown))


def _complain(error: BadInput, on_bad_row: Callable[[BadInput], None] | None) -> None:
    if on_bad_row is None:
        raise error
    on_bad_row(error)
