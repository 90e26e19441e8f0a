"""Survey of files before an import: their kinds, and the questions that their labels answer."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

from accord.edges import BadInput, BadRow, UnknownName, count_of, read_json_file
from accord.formats import (
    AGAINST,
    MAX_LOCATIONS,
    NO_COLUMN,
    PEOPLE,
    RATING,
    UNNAMED,
    FileKind,
    HeldRows,
    MemoryTable,
    ObservedAnswers,
    Record,
    Row,
    RowLocation,
    Source,
    TableOptions,
    TableRoles,
    bare_name,
    check_pair_file,
    columns_with_names,
    copies_text,
    ends_of,
    file_roles,
    formats,
    has_scale_values,
    is_rating_name,
    may_be_answer,
    may_be_rater,
    may_hold_names,
    number_of,
    person_in,
    positions_among,
    rater_columns,
    rating_cells,
    raw_label_rows,
    read,
    read_annotations,
    read_rows,
    scores_error,
    share_scale,
    sniff_rows,
    source_of,
    unclear_to_import,
    under_our_names,
    unread_text,
    words_of,
)
from accord.models import JUDGEMENTS_FILE
from accord.project.importing.data_files import QUESTIONS_FILE, files_in
from accord.project.importing.raters import RaterNames, raters_text
from accord.values import ISSUE, Question, Rubric, Scale, ScaleKind

MOST_SURVEYED = 2000
"""Rows of each file that an import surveys before it reads them."""
_NO_QUESTION = Question(id="\uffff", text="?", scale=Scale(kind=ScaleKind.BINARY, options=(0, 1)))
_NO_RUBRIC = Rubric(name="none", main=_NO_QUESTION.id, questions=(_NO_QUESTION,))
"""Rubric without a question that a file could answer."""
_PROGRESS_ROWS = 500
SIDES = {"against": AGAINST}
COMPARISON = "Which conversation is better?"
SIDE_MEANINGS = {"-1": "the second", "0": "neither", "1": "the first"}

Answers = dict[str, ObservedAnswers]


@dataclass
class FileSurvey:
    """Kinds of files and the questions that they answer.

    Attributes:
        conversations: Files of conversations.
        labels: Files of labels without text.
        annotations: Files of `accord export`.
        recordings: Files of a judge's recorded answers, or folders that hold one.
        kinds: Kind of each file that was opened.
        roles: Roles of the columns of files of labels or conversations.
        questions: Observed answers by question.
        rating_columns: Questions answered in columns or metadata of conversations.
        other_candidates: Other columns with values on a scale.
        guessed_columns: Columns in `rating_columns` that were chosen only for their values.
        skipped_files: Files of a folder that were skipped, each with the reason.
        label_columns: Questions answered in tables of labels.
        raters: Columns that each hold the ratings of one annotator, with the annotator.
        possible_raters: Columns that are read as questions, but may hold the ratings of one annotator each.
        mismatched_raters: Columns that look like annotators but share no scale.
        raters_are_guessed: True if the user named no columns of annotators.
        name_columns: Columns that are not read, and may name who rated, in files that name no annotator.
        judges: Number of a model's answers in columns of the files, by judge.
        unclear: Columns that hold ratings of people or a model's answers, with the file.
        people_columns: Columns with ratings of people, by the roles of each file.
        role_notes: Sentences on choices of roles that another reader could make otherwise, and on copies.
        unread: Columns that no role takes, and that may hold ratings or names.
        named: Columns that the user says hold ratings of people, and columns of judges with the judge.
    """

    conversations: list[Source] = field(default_factory=list)
    labels: list[Source] = field(default_factory=list)
    annotations: list[Source] = field(default_factory=list)
    recordings: list[Path] = field(default_factory=list)
    kinds: dict[Source, FileKind] = field(default_factory=dict)
    roles: dict[Source, TableRoles] = field(default_factory=dict)
    questions: Answers = field(default_factory=dict)
    rating_columns: list[str] = field(default_factory=list)
    other_candidates: list[str] = field(default_factory=list)
    guessed_columns: list[str] = field(default_factory=list)
    skipped_files: list[str] = field(default_factory=list)
    label_columns: list[str] = field(default_factory=list)
    raters: dict[str, str] = field(default_factory=dict)
    possible_raters: list[str] = field(default_factory=list)
    mismatched_raters: list[str] = field(default_factory=list)
    raters_are_guessed: bool = True
    name_columns: list[str] = field(default_factory=list)
    judges: Counter[str] = field(default_factory=Counter)
    unclear: dict[str, str] = field(default_factory=dict)
    people_columns: list[str] = field(default_factory=list)
    role_notes: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    named: TableOptions = field(default_factory=TableOptions)

    @property
    def people(self) -> dict[str, int]:
        """Number of ratings by person, on all questions; spellings of one name are one person."""
        counts: Counter[str] = Counter()
        for answers in self.questions.values():
            counts.update(answers.annotators)
            counts[UNNAMED] += answers.total - answers.annotators.total()
        return RaterNames().counts(+counts)

    @property
    def who_rated(self) -> str:
        """People and judges, each with the number of ratings."""
        return raters_text(self.people, self.judges)

    @property
    def rater_notes(self) -> list[str]:
        """A sentence for each guess about columns of annotators, with the options that override it."""
        notes = [*self.role_notes, *self.name_notes]
        if self.raters and self.raters_are_guessed:
            noun = "column {} is" if len(self.raters) == 1 else "columns {} are"
            notes.append(
                f"{noun.format(', '.join(self.raters))} read as {count_of(len(self.raters), 'annotator')} of one "
                f"question, {RATING!r} (a guess from names and values). If each is a question: "
                f"{_options('--labels', self.raters)}"
            )
        if self.possible_raters:
            notes.append(
                f"columns {', '.join(self.possible_raters)} share a scale and are read as questions (a guess). If each "
                f"holds one person's ratings: {_options('--rater', self.possible_raters)}"
            )
        if self.mismatched_raters:
            notes.append(
                f"columns {', '.join(self.mismatched_raters)} look like annotators, but their values share no scale. "
                f"Convert them to one scale; if each is a question: {_options('--labels', self.mismatched_raters)}"
            )
        return notes

    @property
    def name_notes(self) -> list[str]:
        """The sentence about columns that are not read, and may name who rated, with the option that reads one."""
        unread = [name for name in self.unread if name not in self.name_columns]
        notes = [unread_text(unread)] if unread else []
        if self.name_columns:
            listed = ", ".join(map(repr, self.name_columns))
            notes.append(
                f"no column names who rated, so all ratings are by {UNNAMED!r}; not read: {listed}. If one holds the "
                f"names of those who rated: --columns annotator={shlex.quote(self.name_columns[0])}"
            )
        return notes

    @property
    def files(self) -> list[Source]:
        """All files that can be imported."""
        return [*self.conversations, *self.labels, *self.annotations]

    @property
    def turn_questions(self) -> list[str]:
        """Questions with most answers about turns."""
        return [name for name, answers in self.questions.items() if answers.level == "turn"]

    @property
    def positions(self) -> list[str]:
        """Names of annotators that may be positions in a list, not persons: r1, r2, ...; else an empty list."""
        return positions_among({name for answers in self.questions.values() for name in answers.annotators})


def _options(option: str, names: Iterable[str]) -> str:
    return " ".join(
        shlex.quote(f"{option}={name}") if name.startswith("-") else f"{option} {shlex.quote(name)}" for name in names
    )


def survey_files(
    paths: Sequence[str | Source],
    format: str = "auto",
    columns: Mapping[str, str] | None = None,
    named: Collection[str] = (),
    on_progress: Callable[[int], None] | None = None,
    raters: Collection[str] = (),
    limit: int | None = None,
    skips_unreadable: bool = False,
    judges: Collection[str] = (),
    command: str | None = None,
) -> FileSurvey:
    """Survey files without storing anything.

    Args:
        paths: Files, benchmark folders, folders of files, or tables in memory. Unreadable files of a folder are
            skipped.
        format: The conversations' format, or `auto`.
        columns: Accord's column names to the files'.
        named: Columns of conversation files that hold ratings; by default chosen by name and values. `NO_COLUMN`: none.
        on_progress: Called now and then with the number of rows read so far.
        raters: Columns that each hold the ratings of one annotator, as `COLUMN` or `COLUMN=NAME`; by default chosen by
            name and values.
        limit: Rows of each file to read; by default all.
        skips_unreadable: Skip every file that cannot be read, including named ones.
        judges: Columns with a judge's answers or with names of judges, as `COLUMN` or `COLUMN=NAME`; by default chosen
            by name and values.
        command: Command with the files that an error about unclear columns repeats; by default an import.

    Raises:
        BadInput: A named file, or every file of a folder, cannot be read; or it is unclear if a column holds ratings
            of people or a model's answers.
    """
    persons = columns_with_names(raters)
    people = TableOptions(columns_with_names(judges), persons, tuple(named))
    survey = _Surveyor(format, columns, limit, on_progress, people)
    survey.add_all(list(map(source_of, paths)), skips_unreadable)
    survey.check_roles(command or f"accord import {shlex.join(str(source_of(path)) for path in paths)}")
    persons = {name: person for name, person in persons.items() if name not in survey.annotator_columns}
    tables = {name: column for name, column in survey.in_tables.items() if name not in survey.left_out}
    _choose_columns(survey.result, tables, survey.beside_text, named, persons)
    named_people = {name for answers in survey.result.questions.values() for name in answers.annotators} - {UNNAMED}
    if survey.result.questions and not named_people:
        survey.result.name_columns = [
            *(name for name, column in survey.texts.items() if may_hold_names(column)),
            *(name for name, column in survey.beside_text.items() if may_hold_names(column, is_metadata=True)),
        ]
    result = survey.result
    read = {*result.questions, *result.rating_columns, *result.label_columns, *result.raters, *result.name_columns}
    known = {*read, *result.guessed_columns, *result.other_candidates, *result.mismatched_raters}
    result.unread = [name for name in dict.fromkeys(survey.unread) if name not in known]
    for answers in survey.result.questions.values():
        if answers.ends is None:
            answers.ends = _ends_in(bare_name(answers.name)[1], answers.values)
        if answers.ends is None and len(answers.scales) == 1 and answers.scales.total() == answers.total:
            answers.ends = _ends_in([*next(iter(answers.scales))], answers.values)
    return survey.result


def set_scales(survey: FileSurvey, scales: Mapping[str, tuple[float, float]]) -> None:
    """Set the lowest and highest value of questions instead of inferring them.

    Raises:
        BadInput: The values of a question are words.
        UnknownName: No label answers the question.
    """
    for name, ends in scales.items():
        if name not in survey.questions:
            raise UnknownName("question of --scale", name, survey.questions)
        answers = survey.questions[name]
        word = next((value for value in answers.values if number_of(value) is None), None)
        if word is not None:
            raise BadInput(f"--scale {name}=...: {name!r} has values that are words, such as {word!r}")
        answers.ends = ends


def roles_of(
    path: Source, kind: FileKind, options: TableOptions, rows: Iterable[Row | BadRow] | None = None
) -> TableRoles:
    """Return the roles of the columns of a file; `rows` are its rows, if it is open already.

    Raises:
        BadInput: The file cannot be read.
    """
    if kind.content not in ("labels", "conversations"):
        return TableRoles()
    has_text = kind.content == "conversations"
    if has_text and kind.fields is not None and formats.get("pairs").accepts(kind.fields):
        check_pair_file(islice(read_rows(path) if rows is None else rows, MOST_SURVEYED), options.judges, str(path))
        return TableRoles()
    roles = file_roles(path, kind.columns, has_text, options, rows=rows)
    return replace(roles, unclear=()) if NO_COLUMN in options.questions else roles


class _Surveyor:
    """Collect the answers of files: in tables of labels, next to the text, or marked by a format."""

    def __init__(
        self,
        format: str,
        columns: Mapping[str, str] | None,
        limit: int | None,
        on_progress: Callable[[int], None] | None,
        named: TableOptions,
    ) -> None:
        self.named = named
        self.annotator_columns: set[str] = set()
        self.judge_columns: set[str] = set()
        self.format, self.columns, self.limit, self.on_progress = format, columns, limit, on_progress
        self.result = FileSurvey(named=named)
        self.in_tables: Answers = {}
        self.beside_text: Answers = {}
        self.texts: Answers = {}
        self.unread: list[str] = []
        self.left_out: set[str] = set()

    def add_all(self, sources: Sequence[Source], skips_unreadable: bool) -> None:
        """Read files, the files of folders, and tables.

        Raises:
            BadInput: A named file cannot be read, unless `skips_unreadable` is set; or nothing can be read.
        """
        skipped = self.result.skipped_files
        files = [source for source in sources if isinstance(source, Path)]
        tables = [source for source in sources if isinstance(source, MemoryTable)]
        for source in (*(files_in(files, skipped) if files else ()), *tables):
            try:
                self.add(source)
            except BadInput as error:
                if source in sources and not skips_unreadable:
                    raise
                skipped.append(str(error))
        if not (self.result.files or self.result.recordings or skips_unreadable):
            raise BadInput("; ".join(skipped) or "no file to read")

    def check_roles(self, command: str) -> None:
        """Check that the named columns of judges exist, and that no column is unclear.

        Raises:
            BadInput: A column is missing or unclear; the error repeats `command` with the options that are missing.
        """
        unknown = next((name for name in self.named.judges if name not in self.judge_columns), None)
        if unknown is not None:
            raise BadInput(f"--judge {unknown}: no file has a column {unknown!r}")
        if unclear := self.result.unclear:
            raise BadInput(unclear_to_import(next(iter(unclear.values())), list(unclear), command))

    def add(self, path: Source) -> None:
        """Read a file.

        Raises:
            BadInput: The file cannot be read, or has no conversation.
        """
        kind, rows = sniff_rows(path, self.columns)
        self.result.kinds[path] = kind
        with closing(rows):
            self._add(path, kind, rows)

    def _add(self, path: Source, kind: FileKind, rows: HeldRows) -> None:
        if kind.content == "judgements" and isinstance(path, Path):
            self.result.recordings.append(path)
        elif kind.content == "scores":
            raise BadInput(f"{scores_error(path)}; name another file")
        elif kind.content == "annotations":
            self._add_annotations(path, kind.columns, rows)
        elif kind.content == "labels" and self.format == "auto":
            self._add_labels(path, kind.columns, self._roles(path, kind, rows), rows)
        else:
            self._add_conversations(path, kind.columns, self._roles(path, kind, rows), rows)

    def _roles(self, path: Source, kind: FileKind, rows: HeldRows) -> TableRoles:
        """Return the roles of a file's columns, and note them."""
        roles = self.result.roles[path] = roles_of(path, kind, self.named, rows.again())
        self.judge_columns |= {*roles.judges, *roles.models, *([roles.names] if roles.names else [])}
        self.annotator_columns |= {roles.annotator} if roles.annotator else set()
        self.result.unclear |= {name: str(path) for name in roles.unclear}
        self.result.people_columns += [name for name in roles.people if name not in self.result.people_columns]
        self.result.role_notes += [*roles.reasons.values(), *copies_text(roles.copies)]
        self.unread += roles.unread
        self.left_out |= set(roles.left_out)
        return roles

    def _add_annotations(self, path: Source, columns: Mapping[str, str], rows: HeldRows) -> None:
        self.result.annotations.append(path)
        annotations = read_annotations(path, _NO_RUBRIC, columns, lambda error: None, rows)
        for annotation in islice(annotations, self.limit):
            if annotation.kind == "person" and annotation.value is not None:
                answers = _answers_to(self.result.questions, annotation.question)
                answers.add(annotation.value, annotation.by, annotation.target.turn)

    def _add_labels(self, path: Source, columns: Mapping[str, str], roles: TableRoles, rows: HeldRows) -> None:
        self.result.labels.append(path)
        for line, target, row, judged, fields in islice(raw_label_rows(path, columns, roles, rows), self.limit):
            self.result.judges.update(answer.judge for answer in judged)
            scale = fields.get("scale")
            for name, cell in fields.items():
                if isinstance(name, str) and isinstance(cell, str) and number_of(cell) is None:
                    _answers_to(self.texts, name).add(cell, None, None)
            compares = under_our_names(fields, SIDES).get("against") not in (None, "")
            for question, annotator, value in row:
                if isinstance(value, str | int | float) and value != "":
                    observed, location = _answers_to(self.in_tables, question), RowLocation(str(path), line)
                    observed.add(value, annotator, target.turn, location, scale)
                    observed.compares = observed.compares or compares

    def _add_conversations(self, path: Source, columns: Mapping[str, str], roles: TableRoles, rows: HeldRows) -> None:
        marked, beside = Answers(), Answers()
        reasons: list[str] = []

        def note(reason: BadInput | str) -> None:
            if not reasons:  # the first one explains a file without conversations
                reasons.append(str(reason))

        count = 0
        records = read(path, self.format, roles.columns(columns), note, note, limit=self.limit, rows=rows)
        for count, record in enumerate(records, 1):
            self.result.judges.update(_add_record(record, RowLocation(str(path), record.line), marked, beside, roles))
            if self.on_progress is not None and count % _PROGRESS_ROWS == 0:
                self.on_progress(count)
        if not count:
            reason = f": {reasons[0]}" if reasons else "; it has no rows"
            raise BadInput(f"{path} holds no conversation that can be read{reason}")
        self.result.conversations.append(path)
        if isinstance(path, Path):
            for observed in marked.values():
                _read_question_list(observed, path)
            if path.is_dir() and (path / JUDGEMENTS_FILE).is_file():
                self.result.recordings.append(path)
        _merge(self.result.questions, marked)
        _merge(self.beside_text, beside)


def _add_record(
    record: Record, location: RowLocation, marked: Answers, beside: Answers, roles: TableRoles
) -> list[str]:
    """Add the labels of a record to `marked`, and the cells of its other columns to `beside`.

    Returns:
        The judge of each answer of a model.
    """
    judges = []
    answers = (each.to_label() for each in record.annotations if not each.question.startswith(ISSUE))
    for label, scale in zip_longest((*record.labels, *answers), record.scales):
        if label is not None and isinstance(label.value, str | int | float):
            observed = _answers_to(marked, label.question)
            observed.add(label.value, label.annotator, label.target.turn, location, scale)
            if label.against is not None:
                observed.compares, observed.text, observed.meanings = True, COMPARISON, dict(SIDE_MEANINGS)
    for cell in rating_cells(record.conversation):
        judge = roles.judge_of(cell.question, cell.annotator)
        if judge is not None:
            judges += [judge] if may_be_answer(cell.question, cell.value) or cell.question in roles.judges else []
            continue
        observed = _answers_to(beside, cell.question)
        observed.add(cell.value, cell.annotator, cell.turn, location)
        observed.is_marked = observed.is_marked or cell.is_marked
    return judges


def _answers_to(answers: Answers, name: str) -> ObservedAnswers:
    return answers.setdefault(name, ObservedAnswers(name))


def _choose_columns(
    survey: FileSurvey, in_tables: Answers, beside: Answers, named: Collection[str], raters: Mapping[str, str]
) -> None:
    """Choose the columns with ratings: the named ones, else those whose name or values look like ratings."""
    columns = {**in_tables, **beside}
    for name in (*named, *raters):
        if name not in {*columns, *survey.questions, NO_COLUMN}:
            raise BadInput(f"no file has a column {name!r}; there are {', '.join(columns) or 'no columns'}")
    is_guessed = not (named or raters)
    survey.raters_are_guessed = not raters
    survey.raters = {name: person or _person_of(name) for name, person in raters.items()}
    if is_guessed:
        known = _names_of(columns, lambda column: column.is_marked or column.name in survey.questions)
        survey.raters, survey.mismatched_raters = rater_columns(columns, known)
        survey.raters |= {name: name for name in survey.people_columns if _is_person_alone(name, columns, survey)}
    survey.label_columns = _names_of(
        in_tables, lambda each: _is_question(each, (*named, *survey.people_columns)), survey.raters
    )
    _merge(survey.questions, {name: in_tables[name] for name in survey.label_columns})
    left = {name: column for name, column in beside.items() if name not in survey.raters}
    survey.rating_columns = _rating_columns(survey, left, named)
    _merge(survey.questions, {name: beside[name] for name in survey.rating_columns})
    for name, person in survey.raters.items():
        column = columns[name]
        ends = column.ends or _ends_in(bare_name(name)[1], column.values)
        as_answers = replace(column, name=RATING, annotators=Counter({person: column.total}), ends=ends)
        _merge(survey.questions, {RATING: as_answers})
    if is_guessed and not survey.raters:
        survey.possible_raters = _possible_raters(columns, survey.questions)


def _is_person_alone(name: str, columns: Answers, survey: FileSurvey) -> bool:
    """Return True if a column's name names people and not a question: `expert`, `teacher`."""
    words = {word for word in words_of(bare_name(name)[0]) if not word.isdecimal() and len(word) > 1}
    column = columns.get(name)
    return (
        column is not None and bool(words) and words <= PEOPLE and not column.is_marked
        and name not in survey.raters and name not in survey.questions and set(column.annotators) <= {UNNAMED}
    )  # fmt: skip


def _names_of(columns: Answers, fits: Callable[[ObservedAnswers], bool], but: Collection[str] = ()) -> list[str]:
    """Return the names of the columns that fit, in order, except some."""
    return [name for name, column in columns.items() if name not in but and fits(column)]


def _possible_raters(columns: Answers, questions: Collection[str]) -> list[str]:
    """Return the questions that may be columns of one person each, since they share a scale."""
    possible = [columns[name] for name in questions if name in columns and may_be_rater(columns[name])]
    return [column.name for column in possible] if share_scale(possible) else []


def _person_of(column: str) -> str:
    """Return the annotator of a column: its name, or `UNNAMED` if that is the name of a rating."""
    return UNNAMED if is_rating_name(column) and person_in(column) is None else column


def _is_question(column: ObservedAnswers, named: Collection[str]) -> bool:
    """Return True if a column of a table of labels holds answers, by its name or by values on a scale."""
    is_named = column.name in named or column.name.casefold().startswith("q")
    return is_named or is_rating_name(column.name) or has_scale_values(column)


def _rating_columns(survey: FileSurvey, beside: Answers, named: Collection[str]) -> list[str]:
    """Choose the columns of tables with texts that hold ratings, and note the other candidates and the guesses."""
    if named:
        return [name for name in named if name in beside]
    scaled = {name: column for name, column in beside.items() if len(column.values) > 1}
    by_name = _names_of(scaled, lambda column: is_rating_name(column.name) or column.name in survey.people_columns)
    if survey.questions or survey.raters:  # labels exist, so further columns are not guessed
        known = {*survey.questions, *survey.people_columns}
        chosen = _names_of(scaled, lambda column: column.is_marked or column.name in known)
        survey.other_candidates = [name for name in by_name if name not in chosen]
        return chosen
    chosen = list(dict.fromkeys([*_names_of(scaled, lambda column: column.is_marked), *by_name]))
    by_values = _names_of(scaled, has_scale_values, chosen)
    if chosen:
        survey.other_candidates = by_values
        return chosen
    survey.guessed_columns = by_values
    # A column with one value gives an error later, with its name.
    return by_values or _names_of(beside, lambda column: is_rating_name(column.name))


def _merge(into: Answers, more: Mapping[str, ObservedAnswers]) -> None:
    for name, new in more.items():
        known = into.setdefault(name, ObservedAnswers(name))
        known.values.update(new.values)
        for value, locations in new.locations.items():
            known.locations[value] = [*known.locations.get(value, ()), *locations][:MAX_LOCATIONS]
        known.annotators.update(new.annotators)
        known.scales.update(new.scales)
        known.missing.update(new.missing)
        known.turn_answers += new.turn_answers
        known.text, known.ends = known.text or new.text, known.ends or new.ends
        known.meanings, known.compares = known.meanings or new.meanings, known.compares or new.compares
        known.is_marked = known.is_marked or new.is_marked


def _read_question_list(answers: ObservedAnswers, folder: Path) -> None:
    """Take the wording, the options and the ends of the scale of a question from the list of a benchmark folder."""
    path = folder / QUESTIONS_FILE
    try:
        content = read_json_file(path) if path.is_file() else None
    except (OSError, BadInput):
        return
    for entry in content.get("questions", ()) if isinstance(content, dict) else ():
        if not isinstance(entry, dict) or entry.get("name", entry.get("id")) != answers.name:
            continue
        text, options = entry.get("text"), entry.get("options")
        answers.text = text if isinstance(text, str) else ""
        answers.ends = _ends_in(entry.get("scale"), answers.values) or answers.ends
        if isinstance(options, dict) and answers.ends is not None:
            answers.meanings = {str(key): str(text) for key, text in options.items()}


def _ends_in(scale: Any, values: Iterable[Any]) -> tuple[float, float] | None:
    """Return the lowest and highest value of a stated scale, unless an answer is outside."""
    ends = scale if isinstance(scale, tuple) else ends_of(scale)
    if ends is None:
        return None
    numbers = [value for value in values if isinstance(value, int | float)]
    return ends if all(ends[0] <= number <= ends[1] for number in numbers) else None
