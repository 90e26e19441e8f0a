"""The first stage: files of conversations, labels and annotations into the store, and annotations out of it again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from accord.formats import (
    AnnotationWriter,
    Record,
    columns_of,
    is_annotation_file,
    is_label_file,
    read,
    read_annotations,
    read_labels,
)
from accord.store import Added, IssueAnnotations, Store, batches, changed_conversation, unknown_target
from accord.values import (
    ANNOTATOR_KINDS,
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
    """What an import kept, and what it skipped."""

    conversations: Added = Added()
    labels: Added = Added()
    assessments: Added = Added()
    annotations: Added = Added()
    bad_rows: list[str] = field(default_factory=list)
    skipped: int = 0
    other_questions: Counter[str] = field(default_factory=Counter)

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
        }


def import_files(
    store: Store,
    rubric: Rubric,
    paths: Iterable[str | Path],
    format: str = "auto",
    columns: Mapping[str, str] | None = None,
    skip_bad_rows: bool = False,
    on_progress: Callable[[int], None] | None = None,
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

    Raises:
        BadInput: A file cannot be read.
        BadRow: A row is bad and `skip_bad_rows` is not set; what came before it is kept.
    """
    done = Imported()
    on_bad_row = done.skip if skip_bad_rows else None
    files = {Path(path): _columns_here(Path(path), columns) for path in paths}
    _check_used(files, columns)
    exported = [path for path, here in files.items() if is_annotation_file(path, here)]
    of_labels = [path for path, here in files.items() if path not in exported and is_label_file(path, here)]
    for path, here in files.items():
        if path not in of_labels and path not in exported:
            _import_conversations(store, rubric, path, format, here, done, on_bad_row, on_progress)
    for path in of_labels:
        found = _noted(read_labels(path, rubric, files[path], on_bad_row), rubric, done)
        _add_labels(store, path, found, done, on_bad_row)
    for path in exported:
        _import_annotations(store, rubric, path, files[path], done, on_bad_row)
    return done


def export_annotations(
    store: Store, path: Path, kinds: Sequence[str] | None = None, on_progress: Callable[[int], None] | None = None
) -> dict[str, int]:
    """Write the store's annotations to a file that `import_files` reads back to the last field.

    Args:
        store: Where they are.
        path: JSON lines, CSV or Parquet, by its ending.
        kinds: Only what these said: `person`, `model`, `metric`; all of them by default.
        on_progress: Called with the number of annotations written so far, now and then.

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
        for count, annotation in enumerate(store.annotations(list(counts)), 1):
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
) -> None:
    """A file's conversations with the labels beside them; each batch is kept before the next is read."""
    seen = 0
    for records in batches(read(path, format, columns, on_bad_row), ROWS_AT_ONCE):
        changed: set[str] = set()
        added = store.add_conversations(_told(store, records), changed.add)
        done.conversations = done.conversations.plus(added)
        for name in changed:
            _complain(BadInput(f"{path}: {changed_conversation(name)}"), on_bad_row)
        beside = (label for record in records if record.conversation.id not in changed for label in record.labels)
        labels = _noted(_checked(beside, rubric, path, on_bad_row), rubric, done)
        _add_labels(store, path, labels, done, on_bad_row)
        kept = [record for record in records if record.assessments and record.conversation.id not in changed]
        done.assessments = done.assessments.plus(IssueAnnotations(store).add(_located(store, kept)))
        seen += len(records)
        if on_progress is not None:
            on_progress(seen)


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
        yield label if question is None else replace(label, wording=question.key)
