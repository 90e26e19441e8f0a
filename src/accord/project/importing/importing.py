"""Import files of conversations, labels and annotations into the store, and export its annotations."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from accord.edges import BadInput, BadRow, Step, UnknownName, count_of
from accord.formats import (
    RECORDED_JUDGEMENTS,
    VALUE_KEYS,
    AnnotationWriter,
    FileKind,
    JudgedAnswer,
    Record,
    Source,
    TableRoles,
    answer_to,
    parse_orders,
    read,
    read_annotations,
    read_labels,
    role_named,
    scores_error,
    sniff,
    tables_of,
    unclear_to_import,
)
from accord.project.importing.file_survey import MOST_SURVEYED, FileSurvey, roles_of, survey_files
from accord.project.importing.id_matching import with_matched_ids
from accord.project.importing.imported import Imported
from accord.project.importing.raters import RaterNames
from accord.project.importing.rubric_inference import infer_rubric, set_orders
from accord.project.importing.worker import BATCH_ROWS, ImportBatch, ImportJob, ImportOptions, import_batches
from accord.redaction import find_redacted_quote, first_with_redacted_quote
from accord.store import (
    ANNOTATION_BATCH,
    AnnotationKeys,
    ImportRecord,
    ImportRun,
    Imports,
    IssueAnnotations,
    LabelCounts,
    RemovedCounts,
    Store,
    TableRow,
    changed_conversation,
    label_of,
    label_row,
)
from accord.values import (
    ANNOTATOR_KINDS,
    ISSUE,
    Annotation,
    IssueAnnotation,
    Label,
    Question,
    Rubric,
    Target,
    Turn,
    check_label,
    find_quote,
    with_located_quotes,
)


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
    survey: FileSurvey | None = None,
    order: str | Collection[str] | None = None,
) -> Imported:
    """Read conversations, labels and annotations into the store; conversations first, in any order of files.

    Labels on questions outside the rubric are stored too; `Imported.counts` counts them. The store records the import,
    so that `Imports.undo` can remove its rows.

    Args:
        store: The store.
        rubric: Labels on its questions are validated against its scales.
        paths: A file, a benchmark folder or a table in memory (see `accord.formats.MemoryTable`), or a list of these.
        format: The conversations' format, or `auto`.
        columns: Accord's column names to the files'; each file uses those that it has.
        skip_bad_rows: Count and report bad rows instead of stopping at the first.
        on_progress: Called now and then with the number of rows read so far.
        options: The columns with labels, and the names of roles and annotators; by default the columns are chosen by
            name and values, as `survey_files` does.
        workers: Number of processes that parse and validate a large file of JSON lines.
        replace: Undo the earlier import of each file first. Both are one transaction: if reading fails, the earlier
            import stays.
        survey: Survey of these files with the same columns, so that they are not opened again for their kind.
        order: Order of words of a scale, the highest first, such as `A>B>C`, or `grade=A>B>C` for one column; several
            in a list. A value that the order lacks is an error.

    Raises:
        BadInput: A file cannot be read.
        BadRow: A row is bad and `skip_bad_rows` is not set; the rows before it stay.
    """
    sources = tables_of(paths)
    if order is not None:
        survey = survey or survey_files(sources, format, columns, skips_unreadable=True)
        set_orders(survey.questions, parse_orders(order), rubric)
    if options.rating_columns is None:
        survey = survey or survey_files(sources, format, columns, limit=MOST_SURVEYED, skips_unreadable=True)
        options = survey_options(survey, rubric, options)
    survey = survey or FileSurvey()
    kinds = {path: survey.kinds[path] if path in survey.kinds else sniff(path, columns) for path in sources}
    _check_kinds(kinds, columns)
    surveyed = survey.roles if options.named == survey.named else {}
    roles = {
        path: surveyed[path] if path in surveyed else roles_of(path, kind, options.named)
        for path, kind in kinds.items()
    }
    _check_roles(roles)
    if options.roles:
        chats = {
            path: roles[path].columns(kind.columns) for path, kind in kinds.items() if kind.content == "conversations"
        }
        _check_speakers(chats, format, options.roles)
    result = Imported(names=RaterNames(LabelCounts(store).annotators()))
    importer = _Importer(store, rubric, result, options, skip_bad_rows)
    names, imports = list(map(str, kinds)), Imports(store)
    earlier = [Path(file) for record in imports.known() for file in record.files]
    recording: ImportRun | None = None
    try:
        with imports.replacing(names) if replace else nullcontext(RemovedCounts()) as result.replaced:
            with imports.recording(names) as recording:
                # Files that refer to conversations come after the files that hold them.
                order = ("conversations", "answers", "labels", "annotations")
                for path in sorted(kinds, key=lambda path: order.index(kinds[path].content)):
                    recording.begin(list(kinds).index(path))
                    kind = kinds[path]
                    if kind.content == "labels":
                        importer.add_labels(path, kind.columns, roles[path])
                    elif kind.content == "annotations":
                        importer.add_annotations(path, kind.columns)
                    else:
                        job = ImportJob(
                            path, rubric, format, roles[path].columns(kind.columns), options, skip_bad_rows,
                            kind.content == "answers", roles[path], store.redactor,
                        )  # fmt: skip
                        job = dataclasses.replace(job, stem=_id_prefix(store, job, [*earlier, *kinds]))
                        importer.add_conversations(job, workers, on_progress)
                importer.resolve_judged(options.main or rubric.main_question)
                if store.redactor is not None:  # an error may quote the row
                    result.bad_rows[:] = [store.redactor.begin().text(row) for row in result.bad_rows]
                recording.results.update(result.to_json())
            result.id = recording.id
    except BadInput as error:
        if replace or recording is None or recording.id is None or type(error) not in (BadInput, BadRow):
            raise
        raise _with_stored_rows(error, imports.find(recording.id)) from None
    return result


def _id_prefix(store: Store, job: ImportJob, known: Sequence[Source]) -> str | None:
    """Return the prefix of generated conversation ids, or `None` to use the name of the file.

    A file whose name an earlier file in another folder has also has the names of its folders, as many as tell it apart.
    A file that was moved, whose first conversation is in the store, keeps its ids.

    Args:
        store: The store.
        job: The file.
        known: Imported files in the order of their imports, and all files of this import.
    """
    if not isinstance(job.path, Path):
        return None
    path, named = job.path.absolute(), [each.absolute() for each in known if isinstance(each, Path)]
    stem = path.name.split(".")[0]
    same = [each for each in dict.fromkeys(named) if each.name.split(".")[0] == stem]
    folders = [each.parent.parts for each in same[: same.index(path)] if each.parent != path.parent]
    if not folders:
        return None
    first = next(read(path, job.format, job.columns, lambda error: None, limit=1), None)
    stored = None if first is None else next(iter(store.conversations([first.conversation.id])), None)
    if first is None or stored is None or not (first.conversation.id + "-").startswith(f"{stem}-"):
        return None
    conversation = first.conversation
    if store.redactor is not None:
        conversation = store.redactor.begin().conversation(conversation)
    said, kept = ([turn.content for turn in each.turns] for each in (conversation, stored))
    if said == kept[: len(said)]:
        return None
    own = path.parent.parts
    depth = next(depth for depth in range(1, len(own) + 1) if all(each[-depth:] != own[-depth:] for each in folders))
    return "-".join([*own[-depth:], stem])


def _with_stored_rows(error: BadInput, stored: ImportRecord) -> BadInput:
    """Return the error about a row with the number of rows before it, which stay, and the command that removes them."""
    counts = {kind: stored.results.get(kind, {}).get("new", 0) for kind in ("conversations", "labels")}
    listed = " and ".join(count_of(count, kind.removesuffix("s")) for kind, count in counts.items() if count)
    undo = Step("import", undo=stored.id)
    kept = (
        f"; the rows before the bad one are import {stored.id}{f' ({listed})' if listed else ''}. Correct it and "
        f"import again, or remove them: {undo}"
    )
    if isinstance(error, BadRow):
        return BadRow(error.path, error.line, f"{error.reason.rstrip('.')}{kept}", *error.steps, undo)
    return BadInput(f"{str(error).rstrip('.')}{kept}", *error.steps, undo)


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


def _check_roles(roles: Mapping[Source, TableRoles]) -> None:
    """Reject columns that hold ratings of people or a model's answers."""
    unclear = {name: path for path, found in roles.items() for name in found.unclear}
    if unclear:
        raise BadInput(unclear_to_import(str(next(iter(unclear.values()))), list(unclear)))


def _check_speakers(files: Mapping[Source, Mapping[str, str] | None], format: str, roles: Mapping[str, str]) -> None:
    """Reject a mapping of a role that no conversation has; files are read until all of the roles were seen.

    A role that Accord itself maps to the same one, such as `operator` to `assistant`, counts as seen.
    """
    seen = {theirs: None for theirs, ours in roles.items() if theirs != ours and role_named(theirs) == ours}
    known = set(seen)
    for path, columns in files.items():
        for record in read(path, format, columns, lambda error: None):
            seen |= dict.fromkeys(turn.role for turn in record.conversation.turns)
            if seen.keys() >= roles.keys():
                return
    unused = ", ".join(repr(name) for name in roles if name not in seen)
    seen = {name: None for name in seen if name not in known}
    found = ", ".join(map(repr, list(seen)[:_LISTED_ROLES])) or "none"
    raise BadInput(
        f"--role: no conversation has the role {unused}. Roles found: {found}{', ...' * (len(seen) > _LISTED_ROLES)}"
    )


_LISTED_ROLES = 10
_DEFAULT_RUBRIC = "llm-rubric"


def survey_options(survey: FileSurvey, rubric: Rubric, options: ImportOptions = ImportOptions()) -> ImportOptions:
    """Set the columns with labels to the columns of a survey, and to every column named after a question.

    Columns that were chosen only for their values are excluded, since logs have other whole numbers than ratings. A
    table with one value per row and no question answers the main question of a rubric that is not the default one.
    """
    by_name = [name for name in survey.rating_columns if name not in survey.guessed_columns]
    names = list(dict.fromkeys([*by_name, *(question.id for question in rubric.questions)]))
    answers_main = rubric.name != _DEFAULT_RUBRIC and set(survey.label_columns) <= set(VALUE_KEYS)
    return replace(
        options, rating_columns=names, turn_questions=[name for name in names if name in survey.turn_questions],
        label_columns=[] if answers_main else survey.label_columns, raters=survey.raters, named=survey.named,
        main=None if answers_main else _main_of(survey, rubric),
    )  # fmt: skip


def _main_of(survey: FileSurvey, rubric: Rubric) -> Question | None:
    """Return the question that a judge's answers without a question are compared with; `None` for the rubric's main."""
    if rubric.main in survey.questions:
        return None
    try:
        inferred = infer_rubric(survey.questions.values()).rubric.main_question
    except BadInput:  # no labels in these files
        return None
    return rubric.get(inferred.id) or inferred


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

    def add_labels(self, path: Source, columns: Mapping[str, str], roles: TableRoles) -> None:
        """Import a file of labels, and keep its answers of a model for `resolve_judged`."""
        options, counts = self.options, self.result.counts
        on_bad_row = self.result.skip if self.skips else None
        line = 0

        def on_line(number: int) -> None:
            nonlocal line
            line = number

        def on_judged(answer: JudgedAnswer) -> None:
            self.result.judged.add(str(path), line, answer)

        labels = read_labels(
            path, self.rubric, columns, on_bad_row, options.label_columns, options.raters, roles, on_line, on_judged
        )
        labels = with_matched_ids(self.store, path, columns, labels, self.result.matched.append)

        def named() -> Iterator[Label]:
            for label in options.selected(labels):
                name = self.result.names.of(label.annotator)
                yield label if name == label.annotator else replace(label, annotator=name)

        def noted() -> Iterator[Label]:
            for label in counts.with_wording(named(), self.rubric):
                self._note_repeat(path, line, label.annotator, label.question, label.target, label.against)
                yield label

        self.result.labels = self.result.labels.plus(self.store.add_labels(noted(), self.report_unknown(path)))

    def resolve_judged(self, main: Question) -> None:
        """Name the questions of a model's answers; `main` is the question of those that name none."""
        self.result.judged.resolve(self.store, self.rubric, main, self._report)

    def _note_repeat(
        self, path: Source, line: int, annotator: str, question: str, target: Target, against: Target | None
    ) -> None:
        """Count a rating that a later one of the same person replaces, and its annotator once."""
        place = f"{path}, line {line}" if line else str(path)
        if self.result.repeated.is_repeat(place, annotator, question, target, against):
            self.result.counts.annotators[annotator] -= 1

    def add_annotations(self, path: Source, columns: Mapping[str, str]) -> None:
        """Import a file of exported annotations, with their wordings and times."""

        def counted() -> Iterator[Annotation]:
            on_bad_row = self.result.skip if self.skips else None
            for annotation in read_annotations(path, self.rubric, columns, on_bad_row):
                if annotation.kind == "person":
                    annotation = self._with_name(annotation)
                    if annotation.value is not None:
                        self.result.counts.count(annotation.question, self.rubric)
                        self.result.counts.annotators[annotation.by] += 1
                yield self._redacted(annotation)

        added = self.store.add_annotations(counted(), self._reporter(path))
        self.result.annotations = self.result.annotations.plus(added)

    def _redacted(self, annotation: Annotation) -> Annotation:
        """Return an annotation of a stored conversation with placeholders, and its quote as in the stored turn."""
        if self.store.redactor is None:
            return annotation
        redacted = self.store.redactor.begin().annotation(annotation, ())
        if redacted.quote == annotation.quote or redacted.target.turn is None:
            return redacted
        stored = next(iter(self.store.conversations([redacted.target.conversation])), None)
        turns = () if stored is None else stored.turns[redacted.target.turn : redacted.target.turn + 1]
        return next((_with_quote_at(redacted, turn) for turn in turns), redacted)

    def _with_name(self, annotation: Annotation) -> Annotation:
        """Return a person's annotation with the kept spelling of the name."""
        name = self.result.names.of(annotation.by)
        return annotation if name == annotation.by else replace(annotation, by=name)

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
        label_rows = self._named_rows(path, label_rows, batch.lines)
        for line, answer in batch.judged:
            self.result.judged.add(str(path), line, answer)
        labels.add(label_rows, _turn_counts(rows, changed))
        answers = [answer for answer in batch.answers if answer.target.conversation not in changed]
        if answers:
            labels.flush()  # keeps the order of the file
            self._add_answers(path, answers)
        assessed = [record for record in batch.assessed if record.conversation.id not in changed]
        if assessed:
            added = IssueAnnotations(self.store).add(_located_assessments(self.store, assessed))
            self.result.assessments = self.result.assessments.plus(added)

    def _named_rows(self, path: Source, rows: Sequence[TableRow], lines: Mapping[str, int]) -> list[TableRow]:
        """Return rows of labels with the kept spellings of names; counts repeats."""
        keys, named = AnnotationKeys(), []
        for row in rows:
            if (name := self.result.names.of(str(row["by"]))) != row["by"]:
                row = label_row(replace(label_of(row), annotator=name), keys, str(row["added"]))
            conversation, against = str(row["conversation"]), row["against"]
            target = Target(conversation, None if row["turn"] is None else int(row["turn"]))
            other = None if against is None else Target(str(against), None)
            if row["content"] is None:  # no deliberate repeat
                self._note_repeat(path, lines.get(conversation, 0), name, str(row["question"]), target, other)
            named.append(row)
        return named

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
            answer = self._with_name(answer)
            self.result.counts.annotators[answer.by] += 1
            if not answer.question.startswith(ISSUE):
                self._note_repeat(path, 0, answer.by, answer.question, answer.target, answer.against)
            valid.append(answer)
        names = {answer.target.conversation for answer in valid if answer.quote and answer.target.turn is None}
        turns = {each.id: each.turns for each in self.store.conversations(names)} if names else {}
        placed = [_with_quote_located(answer, turns.get(answer.target.conversation, ())) for answer in valid]
        self.result.annotations = self.result.annotations.plus(self.store.add_annotations(placed, report))


def _turn_counts(rows: Iterable[TableRow], but: Collection[str]) -> dict[str, int]:
    """Return the number of turns of each conversation, except some."""
    return {str(row["id"]): int(row["turns"] or 0) for row in rows if row["id"] not in but}


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
    if not answer.quote or answer.target.turn is not None:
        return answer
    number = first_with_redacted_quote(answer.quote, [turn.content for turn in turns])
    if number is None:
        return answer
    target, start = Target(answer.target.conversation, number), turns[number].content.find(answer.quote)
    if start >= 0:
        return replace(answer, target=target, span=(start, start + len(answer.quote)))
    found = _with_quote_at(answer, turns[number])
    return answer if found.span is None else replace(found, target=target)


def _with_quote_at(answer: Annotation, turn: Turn) -> Annotation:
    """Return an annotation with the span of its quote in a turn, and with the numbers of the turn's placeholders."""
    span = find_redacted_quote(answer.quote, turn.content)
    if span is None:
        return replace(answer, span=None)
    is_same = find_quote(answer.quote, turn.content) is not None
    return replace(answer, span=span, quote=answer.quote if is_same else turn.content[slice(*span)])
