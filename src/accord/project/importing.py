"""Import files of conversations, labels and annotations into the store, and export its annotations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from accord.edges import BadInput, UnknownName, count_of
from accord.evidence import Readable
from accord.formats import (
    RECORDED_JUDGEMENTS,
    VALUE_KEYS,
    AnnotationWriter,
    FileKind,
    Record,
    Source,
    answer_to,
    read_annotations,
    read_labels,
    scores_error,
    sniff,
    tables_of,
)
from accord.project.file_survey import MOST_SURVEYED, FileSurvey, survey_files
from accord.project.id_matching import with_matched_ids
from accord.project.import_worker import BATCH_ROWS, ImportBatch, ImportCounts, ImportJob, ImportOptions, import_batches
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
)
from accord.values import (
    ANNOTATOR_KINDS,
    ISSUE,
    Annotation,
    IssueAnnotation,
    Rubric,
    Target,
    Turn,
    check_label,
    find_quote,
    with_located_quotes,
)


@dataclass(repr=False)
class Imported(Readable):
    """Result of an import: counts of stored and skipped rows.

    Attributes:
        conversations: New and known conversations.
        labels: New and known labels.
        assessments: New and known assessments of turns.
        annotations: New and known annotations from exported files, and human answers with quotes or comments.
        bad_rows: The first bad rows that were skipped.
        skipped: Number of bad rows that were skipped.
        counts: Counts by question, role and reason.
        id: The id of this import; `None` if earlier imports brought all rows.
        replaced: Counts of earlier imports of the same files that this one replaced.
    """

    conversations: AddedCounts = AddedCounts()
    labels: AddedCounts = AddedCounts()
    assessments: AddedCounts = AddedCounts()
    annotations: AddedCounts = AddedCounts()
    bad_rows: list[str] = field(default_factory=list)
    skipped: int = 0
    counts: ImportCounts = field(default_factory=ImportCounts)
    id: str | None = None
    replaced: RemovedCounts = RemovedCounts()

    _MAX_BAD_ROWS = 20
    _KINDS = ("conversations", "labels", "assessments", "annotations")

    def skip(self, error: BadInput) -> None:
        """Count a bad row that was skipped."""
        self.skipped += 1
        if len(self.bad_rows) < self._MAX_BAD_ROWS:
            self.bad_rows.append(str(error))

    def summary(self) -> dict[str, Any]:
        """Return the counts of new conversations and labels, and of skipped rows."""
        return {"conversations": self.conversations.new, "labels": self.labels.new, "skipped": self.skipped or None}

    def shown_rows(self) -> list[dict[str, Any]]:
        """Return the new and known rows of each kind."""
        return [{"kind": name, **getattr(self, name)._asdict()} for name in self._KINDS if any(getattr(self, name))]

    def to_json(self) -> dict[str, Any]:
        """Convert the counts and the first bad rows to JSON."""
        counts = self.counts
        return {
            **{name: getattr(self, name)._asdict() for name in self._KINDS},
            "skipped": self.skipped,
            "bad_rows": self.bad_rows,
            "questions": dict(counts.questions),
            "other_questions": dict(counts.other_questions),
            "positions": positions_among(counts.annotators),
            "roles": dict(counts.roles),
            "ignored": dict(counts.ignored),
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
    options: ImportOptions = ImportOptions(),
    workers: int = 1,
    replace: bool = False,
) -> Imported:
    """Read conversations, labels and annotations into the store; conversations first, in any order of files.

    Labels on questions outside the rubric are stored too; `Imported.counts` counts them. The store records the import,
    so that `Imports.undo` can remove its rows.

    Args:
        store: The store.
        rubric: Labels on its questions are validated against its scales.
        paths: A file, a benchmark folder or a table in memory (see `accord.formats.MemoryTable`), or a list of them.
        format: The conversations' format, or `auto`.
        columns: Accord's column names to the files'; each file uses those that it has.
        skip_bad_rows: Count and report bad rows instead of stopping at the first.
        on_progress: Called now and then with the number of rows read so far.
        options: The columns with labels, and the names of roles and annotators; by default the columns are chosen by
            name and values, as `survey_files` does.
        workers: Number of processes that parse and validate a large file of JSON lines.
        replace: Undo the earlier import of each file first. Both are one transaction: if reading fails, the earlier
            import stays.

    Raises:
        BadInput: A file cannot be read.
        BadRow: A row is bad and `skip_bad_rows` is not set; the rows before it stay.
    """
    sources = tables_of(paths)
    if options.rating_columns is None:
        survey = survey_files(sources, format, columns, limit=MOST_SURVEYED, skips_unreadable=True)
        options = survey_options(survey, rubric, options)
    kinds = {path: sniff(path, columns) for path in sources}
    _check_kinds(kinds, columns)
    result = Imported()
    importer = _Importer(store, rubric, result, options, skip_bad_rows)
    names, imports = list(map(str, kinds)), Imports(store)
    with imports.replacing(names) if replace else nullcontext(RemovedCounts()) as result.replaced:
        with imports.recording(names) as recording:
            # Files that refer to conversations come after the files that hold them.
            order = ("conversations", "answers", "labels", "annotations")
            for path in sorted(kinds, key=lambda path: order.index(kinds[path].content)):
                recording.begin(list(kinds).index(path))
                kind = kinds[path]
                if kind.content == "labels":
                    importer.add_labels(path, kind.columns)
                elif kind.content == "annotations":
                    importer.add_annotations(path, kind.columns)
                else:
                    job = ImportJob(
                        path, rubric, format, kind.columns, options, skip_bad_rows, kind.content == "answers"
                    )  # fmt: skip
                    importer.add_conversations(job, workers, on_progress)
            recording.results.update(result.to_json())
        result.id = recording.id
    return result


def _check_kinds(kinds: Mapping[Source, FileKind], columns: Mapping[str, str] | None) -> None:
    """Reject recorded judgements, scores, and columns of the column map that no file has."""
    for path, kind in kinds.items():
        if kind.content == "judgements":
            raise BadInput(f"{path}: {RECORDED_JUDGEMENTS}")
        if kind.content == "scores":
            raise BadInput(f"{scores_error(path)}; name another file")
    for ours, theirs in (columns or {}).items():
        if not any(ours in kind.columns for kind in kinds.values()):
            names = sorted({name for kind in kinds.values() for name in kind.names if isinstance(name, str)})
            raise UnknownName(f"column to read as {ours!r}:", theirs, names)


_DEFAULT_RUBRIC = "llm-rubric"


def survey_options(survey: FileSurvey, rubric: Rubric, options: ImportOptions = ImportOptions()) -> ImportOptions:
    """Set the columns with labels to those of a survey, and to every column named after a question.

    Columns that were chosen only for their values are excluded, since logs have other whole numbers than ratings. A
    table with one value per row and no question answers the main question of a rubric that is not the default one.
    """
    by_name = [name for name in survey.rating_columns if name not in survey.guessed_columns]
    names = list(dict.fromkeys([*by_name, *(question.id for question in rubric.questions)]))
    answers_main = rubric.name != _DEFAULT_RUBRIC and set(survey.label_columns) <= set(VALUE_KEYS)
    return replace(
        options, rating_columns=names, turn_questions=[name for name in names if name in survey.turn_questions],
        label_columns=[] if answers_main else survey.label_columns, raters=survey.raters,
    )  # fmt: skip


def imported_text(result: Mapping[str, Any]) -> str:
    """Return the counts of rows that an import stored and skipped."""
    c, labels = result["conversations"], result["labels"]
    lines = [
        f"{count_of(c['new'], 'conversation')} imported, {c['known']} already there",
        f"{count_of(labels['new'], 'label')} imported, {labels['known']} already there",
    ]
    found = result["assessments"]
    if found["new"] or found["known"]:
        lines.append(f"{count_of(found['new'], 'assessment')} of turns imported, {found['known']} already there")
    found = result["annotations"]
    if found["new"] or found["known"]:
        lines.append(f"{count_of(found['new'], 'annotation')} imported, {found['known']} already there")
    others = result["other_questions"]
    counts = [
        f"{name} ({count}, not in the rubric)" if name in others else f"{name} ({count})"
        for name, count in result["questions"].items()
    ]
    if counts:
        lines.append(f"labels read by question: {', '.join(counts)}")
    lines += [f"{count_of(count, 'row')} ignored: {why}" for why, count in result["ignored"].items()]
    if result["skipped"]:
        lines += [f"{count_of(result['skipped'], 'bad row')} skipped:", *(f"  {row}" for row in result["bad_rows"])]
    return "\n".join(lines)


def column_notes(
    survey: FileSurvey, read: Sequence[str], labels: Sequence[str], command: Callable[..., str]
) -> Iterator[str]:
    """Yield sentences on columns that were read as labels by a guess, and on columns that could have been.

    Args:
        survey: Survey of the files.
        read: Columns that were read as labels.
        labels: Columns that the user named.
        command: Function that returns the import command with other columns as `labels` or `raters`.
    """
    chosen = [name for name in survey.rating_columns if name in read]
    if survey.raters or survey.mismatched_raters:
        yield from survey.rater_notes
    elif chosen and not labels:
        yield f"columns read as labels: {', '.join(chosen)} (--labels NAME for others, --labels none for none)"
    could_be = [name for name in (*survey.guessed_columns, *survey.other_candidates) if not labels and name not in read]
    if could_be:
        raters = [name for name in survey.possible_raters if name in could_be]
        by_person = f"; if each holds one person's ratings: {command(raters=raters)}" if raters else ""
        yield (
            f"columns with values on a scale, not read as labels: {', '.join(could_be)}. To read them: "
            f"{command(could_be)}{by_person}"
        )


def export_annotations(
    store: Store,
    path: Path,
    kinds: Sequence[str] | None = None,
    on_progress: Callable[[int], None] | None = None,
    question: str | None = None,
) -> dict[str, int]:
    """Write the store's annotations to a file from which `import_files` restores every field.

    Args:
        store: The store.
        path: JSON lines, CSV or Parquet, by its suffix.
        kinds: Kinds of annotators: `person`, `model`, `metric`; default: all.
        on_progress: Called now and then with the number of annotations written so far.
        question: Only answers to this question, such as `issue:Other`.

    Returns:
        Number of annotations by kind.

    Raises:
        UnknownName: A kind is unknown.
        BadInput: Files with this suffix cannot be written.
    """
    unknown = next((kind for kind in kinds or () if kind not in ANNOTATOR_KINDS), None)
    if unknown is not None:
        raise UnknownName("kind of annotation", unknown, ANNOTATOR_KINDS)
    counts = {str(kind): 0 for kind in ANNOTATOR_KINDS if kind in (kinds or ANNOTATOR_KINDS)}
    with AnnotationWriter(path) as writer:
        for count, annotation in enumerate(store.annotations(list(counts), question), 1):
            writer.write(annotation)
            counts[annotation.kind] += 1
            if on_progress is not None and count % BATCH_ROWS == 0:
                on_progress(count)
    return counts


class _Importer:
    """Import of several files into one store.

    Args:
        store: The store.
        rubric: Labels on its questions are validated against its scales.
        result: Receives the counts.
        options: The columns with labels, and the names of roles and annotators.
        skips: Skip bad rows instead of raising the first.
    """

    def __init__(self, store: Store, rubric: Rubric, result: Imported, options: ImportOptions, skips: bool) -> None:
        self.store, self.rubric, self.result, self.options, self.skips = store, rubric, result, options, skips

    def add_labels(self, path: Source, columns: Mapping[str, str]) -> None:
        """Import a file of labels."""
        options, counts = self.options, self.result.counts
        on_bad_row = self.result.skip if self.skips else None
        labels = read_labels(path, self.rubric, columns, on_bad_row, options.label_columns, options.raters)
        labels = with_matched_ids(self.store, path, columns, labels)
        counted = counts.with_wording(options.selected(labels), self.rubric)
        self.result.labels = self.result.labels.plus(self.store.add_labels(counted, self.report_unknown(path)))

    def add_annotations(self, path: Source, columns: Mapping[str, str]) -> None:
        """Import a file of exported annotations, with their wordings and times."""

        def counted() -> Iterator[Annotation]:
            on_bad_row = self.result.skip if self.skips else None
            for annotation in read_annotations(path, self.rubric, columns, on_bad_row):
                if annotation.kind == "person" and annotation.value is not None:
                    self.result.counts.count(annotation.question, self.rubric)
                yield annotation

        added = self.store.add_annotations(counted(), self._reporter(path))
        self.result.annotations = self.result.annotations.plus(added)

    def add_conversations(self, job: ImportJob, workers: int, on_progress: Callable[[int], None] | None) -> None:
        """Import a file of conversations with its labels, batch by batch."""
        rows = 0
        with _LabelBuffer(self, job.path) as labels:
            for batch in import_batches(job, workers):
                for error in batch.bad:
                    self.result.skip(error)
                self.result.counts.add(batch.counts)
                self._write(job.path, batch, labels)
                if batch.failure is not None:
                    raise batch.failure
                rows += len(batch.conversations)
                if on_progress is not None:
                    on_progress(rows)

    def _report(self, error: BadInput) -> None:
        if not self.skips:
            raise error
        self.result.skip(error)

    def _reporter(self, path: Source) -> Callable[[BadInput | str], None]:
        return lambda error: self._report(BadInput(f"{path}: {error}"))

    def report_unknown(self, path: Source) -> Callable[[BadInput], None]:
        """Return a function that reports a label on an unknown conversation or turn."""
        return lambda error: self._report(BadInput(f"{path}: {error}"))

    def _write(self, path: Source, batch: ImportBatch, labels: _LabelBuffer) -> None:
        """Write a batch; rows about a conversation that the store has with other content are left out."""
        changed: set[str] = set()
        known = {each.id for each in self.store.conversations(batch.without_text)} if batch.without_text else set()
        known |= batch.referenced
        rows = [row for row in batch.conversations if row["id"] not in known]
        added = self.store.add_conversation_rows(rows, changed.add, BATCH_ROWS)
        self.result.conversations = self.result.conversations.plus(added)
        for name in changed:
            self._reporter(path)(changed_conversation(name))
        label_rows = [row for row in batch.labels if row["conversation"] not in changed] if changed else batch.labels
        labels.add(label_rows, {str(row["id"]): int(row["turns"] or 0) for row in rows if row["id"] not in changed})
        answers = [answer for answer in batch.answers if answer.target.conversation not in changed]
        if answers:
            labels.flush()  # keeps the order of the file
            self._add_answers(path, answers)
        assessed = [record for record in batch.assessed if record.conversation.id not in changed]
        if assessed:
            added = IssueAnnotations(self.store).add(_located_assessments(self.store, assessed))
            self.result.assessments = self.result.assessments.plus(added)

    def _add_answers(self, path: Source, answers: Iterable[Annotation]) -> None:
        """Store answers with quotes or comments, on the scales of their questions and with their quotes located."""
        report, valid = self._reporter(path), list[Annotation]()
        for answer in answers:
            question = self.rubric.get(answer.question)
            try:
                value = None if answer.value is None else answer_to(question, answer.value, answer.question)
                answer = replace(answer, value=value, wording=None if question is None else question.wording)
                check_label(answer.to_label(), self.rubric)
            except BadInput as error:
                report(error)
                continue
            if not answer.question.startswith(ISSUE):
                self.result.counts.count(answer.question, self.rubric)
            self.result.counts.annotators.add(answer.by)
            valid.append(answer)
        names = {answer.target.conversation for answer in valid if answer.quote and answer.target.turn is None}
        turns = {each.id: each.turns for each in self.store.conversations(names)} if names else {}
        placed = [_with_quote_located(answer, turns.get(answer.target.conversation, ())) for answer in valid]
        self.result.annotations = self.result.annotations.plus(self.store.add_annotations(placed, report))


_BUFFERED_BATCHES = 4


class _LabelBuffer:
    """Labels of the last few batches, written in one transaction.

    Keys of labels are spread over the whole index: single labels in a large store change a page each, while many
    labels at once share pages. The buffer is also written when an import fails.
    """

    def __init__(self, importer: _Importer, path: Source) -> None:
        self._importer, self._path = importer, path
        self._labels: list[TableRow] = []
        self._turns: dict[str, int] = {}
        self._batches = 0

    def __enter__(self) -> _LabelBuffer:
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()

    def add(self, labels: Sequence[TableRow], turns: Mapping[str, int]) -> None:
        """Add the labels of a batch.

        Args:
            labels: Rows of labels.
            turns: Number of turns by conversation, for conversations of the batch.
        """
        self._labels += labels
        self._turns |= {name: turns[name] for name in {str(row["conversation"]) for row in labels} & turns.keys()}
        self._batches += 1
        if len(self._labels) >= ANNOTATION_BATCH or self._batches >= _BUFFERED_BATCHES:
            self.flush()

    def flush(self) -> None:
        """Write the labels; those on unknown conversations or turns are reported and left out."""
        labels, turns, self._labels, self._turns, self._batches = self._labels, self._turns, [], {}, 0
        if labels:
            importer = self._importer
            added = importer.store.add_annotation_rows(labels, importer.report_unknown(self._path), turns)
            importer.result.labels = importer.result.labels.plus(added)


def _located_assessments(store: Store, records: Sequence[Record]) -> Iterator[IssueAnnotation]:
    """Yield assessments with their quotes located, in the stored conversation if the file has no text."""
    without_text = [record.conversation.id for record in records if not record.conversation.turns]
    stored = {each.id: each.turns for each in store.conversations(without_text)} if without_text else {}
    for record in records:
        turns = record.conversation.turns or stored.get(record.conversation.id, ())
        for assessment in record.assessments:
            turn = assessment.target.turn or 0
            yield with_located_quotes(assessment, turns[turn].content) if turn < len(turns) else assessment


def _with_quote_located(answer: Annotation, turns: Sequence[Turn]) -> Annotation:
    """Move an answer about a whole conversation to the first turn that contains its quote."""
    for number, turn in enumerate(turns) if answer.quote and answer.target.turn is None else ():
        start = turn.content.find(answer.quote)
        span = find_quote(answer.quote, turn.content) if start < 0 else (start, start + len(answer.quote))
        if span is not None:
            return replace(answer, target=Target(answer.target.conversation, number), span=span)
    return answer
