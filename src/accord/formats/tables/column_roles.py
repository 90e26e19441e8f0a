"""Roles of the columns of a table: answers of a judge, ratings of people, names, and the other columns.

Every reader asks `table_roles`: `accord check`, imports, runs and the upload page. Names decide, then values; the
reason of each choice is kept. A column that names a model's answers (`judge_score`, `gpt4_rating`, `predicted`) holds a
judge's answers; a column such as `judge_model` names the judge of each row. A column that could be either, such as
`score` alone in a table without texts, is unclear: the user says who gave it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

from accord.formats.labels.rating_columns import UNNAMED, VALUE_KEYS, is_rating_name, words_of
from accord.formats.record import ANNOTATOR_KEYS, Fields, plain_name
from accord.formats.table import ALIASES as OF_TEXT
from accord.formats.tables import words as vocabulary
from accord.formats.tables.people import bare_name, is_person, may_hold_names, rater_columns
from accord.formats.tables.scales import (
    has_scale,
    has_scale_values,
    infer_scale,
    is_missing,
    is_number,
    observed_answers,
)
from accord.values import ScaleKind, Target

Columns = Mapping[str, Sequence[Any]]
"""Cells of each column; a missing cell is None."""

ROLE_ROWS = 2000
"""Rows of a table that decide the roles of its columns."""
MAX_GROUPS, MAX_VALUES, MAX_SYSTEMS, MIN_TEXT = 5, 20, 50, 20
MIN_EQUAL = 20
"""Smallest number of rows without a difference that looks like a copy."""
NO_COLUMN = "none"
"""Value of `--labels` for no column."""
_NUMBERED = re.compile(r"(?:^|(?<=.[ _-]))judge[ _-]?(?:\d{1,2}|[a-z])(?=\Z|[ _-].)", re.IGNORECASE)
_VERSIONED = re.compile(r"\d|^(?:mini|turbo|pro|flash|opus|sonnet|haiku|instruct|chat|large|small|nano|judge)\Z", re.I)
NO_ANSWERS = frozenset(vocabulary.LABEL_COLUMNS - {"answer", *ANNOTATOR_KEYS})
"""Columns of tables of labels that hold neither answers nor names of those who answered."""
TEXTS = frozenset(name for ours in ("content", "prompt", "response") for name in (ours, *OF_TEXT[ours])) - {
    "value", "question", "answer", "from", "message",
}  # fmt: skip
"""Columns that hold the text of a conversation."""
_WEAK = {"user", "customer", "client", "person", "people", "worker", "kunde", "nutzer", "label", "labels", "annotation"}
"""Words of columns that hold ratings of people only if nothing else in the name says otherwise."""


@dataclass(frozen=True)
class TableOptions:
    """Columns of a table that the user names; names and values decide the rest.

    Attributes:
        judges: Columns with a judge's answers, columns that name the judge, or values of the column that names who
            rated, each with the judge's name or an empty text.
        people: Columns with the ratings of one person each, with the name or an empty text.
        questions: Columns with ratings of people, a question each; `NO_COLUMN` for none.
        item, system, length, confidence: Columns, or None.
        groups: Columns that slice the table.
    """

    judges: Mapping[str, str] = field(default_factory=dict)
    people: Mapping[str, str] = field(default_factory=dict)
    questions: Sequence[str] = ()
    item: str | None = None
    system: str | None = None
    length: str | None = None
    groups: Sequence[str] = ()
    confidence: str | None = None

    @property
    def rated(self) -> tuple[str, ...]:
        """Columns with ratings of people."""
        return (*self.questions, *self.people)


NO_OPTIONS = TableOptions()


def columns_with_names(given: Collection[str]) -> dict[str, str]:
    """Return the columns of `COLUMN` or `COLUMN=NAME` options with the names, empty where none is given.

    >>> columns_with_names(["judge", "nora_rating=Nora"])
    {'judge': '', 'nora_rating': 'Nora'}
    """
    pairs = (each.rpartition("=") for each in given)
    return {column or name: name if column else "" for column, _, name in pairs}


@dataclass(frozen=True)
class TableRoles:
    """Roles of a table's columns.

    Attributes:
        judges: Columns with a judge's answers, with the name of the judge.
        people: Columns with ratings of people that are named like it, or that nothing else can be.
        names: Column that names the judge of each row, or None.
        are_all_judged: True if every value of the table is an answer of a judge.
        annotator: Column that names who gave the ratings of each row, or None.
        models: Values of `annotator` that are judges.
        unclear: Columns that hold ratings of people or answers of a model.
        left_out: Columns of scores that do not belong to the judge or to people, because other columns do.
        unread: Columns that are not read, and may hold ratings or the names of those who rated.
        copies: Pairs of columns with equal values in all rows that both fill, with the number of rows.
        reasons: Reason of each choice that another reader could make otherwise, by column.
        item, system, run, split, length: Columns, or None (`structure`).
        text: Column with the judged text; its words are counted as the length if no column is the length.
        confidence: Column with the judge's confidence.
        groups: Columns that slice the table.
        notes: Remarks on choices that could be others.
    """

    judges: Mapping[str, str] = field(default_factory=dict)
    people: Sequence[str] = ()
    names: str | None = None
    are_all_judged: bool = False
    annotator: str | None = None
    models: Sequence[str] = ()
    unclear: Sequence[str] = ()
    left_out: Sequence[str] = ()
    unread: Sequence[str] = ()
    copies: Sequence[tuple[str, str, int]] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)
    item: str | None = None
    system: str | None = None
    run: str | None = None
    split: str | None = None
    length: str | None = None
    text: str | None = None
    confidence: str | None = None
    groups: Sequence[str] = ()
    notes: Sequence[str] = ()

    def judge_of(self, question: str, annotator: str | None) -> str | None:
        """Return the judge that gave an answer, or `None` for an answer of a person."""
        if question in self.judges:
            return self.judges[question]
        if annotator is not None and (column := self._column_of(annotator, question)) is not None:
            return self.judges[column]
        is_model = annotator is not None and (annotator in self.models or is_model_name(annotator))
        is_judge = annotator is not None and annotator != UNNAMED and (self.are_all_judged or is_model)
        return annotator if is_judge else "judge" if self.are_all_judged else None

    def _column_of(self, annotator: str, question: str) -> str | None:
        """Return the column of a judge whose name a reader split into annotator and question: `fluency_judge_1`."""
        names = {annotator, *(f"{question}{gap}{annotator}" for gap in "_- ")}
        names |= {f"{annotator}{gap}{question}" for gap in "_- "}
        return next((column for column in self.judges if column in names), None)

    def without_judges(self, fields: Fields) -> Fields:
        """Return a row without the columns of judges."""
        if not (self.judges or self.names):
            return fields
        return {name: value for name, value in fields.items() if name not in self.judges and name != self.names}

    def columns(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return a column map with the column that names who rated, unless it names one, or every reader knows it.

        A column of ratings with the name of an annotator's column gets another name.
        """
        named = (self.names if self.are_all_judged else None) or self.annotator
        is_known = named is None or "annotator" in given or plain_name(named) in ANNOTATOR_KEYS
        ratings = {f"{name} rating": name for name in self.people if plain_name(name) in ANNOTATOR_KEYS}
        return {**given, **ratings} if is_known or named is None else {**given, **ratings, "annotator": named}

    def texts(self) -> dict[str, str]:
        """Return the chosen columns by role."""
        said = {
            "judge": ", ".join(self.models or self.judges), "people": ", ".join(self.people),
            "annotator": self.annotator, "run": self.run, "item": self.item, "system": self.system,
            "groups": ", ".join(self.groups), "length": self.length or (f"words of {self.text}" if self.text else ""),
            "split": self.split, "confidence": self.confidence,
        }  # fmt: skip
        return {role: columns for role, columns in said.items() if columns}


NO_ROLES = TableRoles()


class JudgedAnswer(NamedTuple):
    """A model's answer in a file: target, column or question, judge, and raw value."""

    target: Target
    question: str
    judge: str
    value: Any


@lru_cache(maxsize=4096)
def is_model_name(name: str) -> bool:
    """Return True if an annotator's name is the name of a model.

    >>> is_model_name("gpt-4o"), is_model_name("claude-3-opus"), is_model_name("Claude"), is_model_name("nora")
    (True, True, False, False)
    """
    words = words_of(name)
    found = [word for word in words if word in vocabulary.FAMILIES]
    if not found or set(words) & vocabulary.PEOPLE:
        return False
    return found != ["claude"] or any(_VERSIONED.search(word) for word in words)


def is_machine(name: str) -> bool:
    """Return True if an annotator's name is the name of a model, a judge or another program.

    >>> is_machine("gpt-4o"), is_machine("LLM judge"), is_machine("Claude"), is_machine("Judy")
    (True, True, False, False)
    """
    return is_model_name(name) or bool({"llm", "model", "judge", "synthetic"} & set(words_of(name)))


def judge_in(column: str) -> tuple[str, str]:
    """Return the judge and the question in the name of a column with a judge's answers; either may be empty.

    >>> judge_in("judge_score"), judge_in("gpt-4o_helpfulness"), judge_in("predicted"), judge_in("score")
    (('judge', ''), ('gpt-4o', 'helpfulness'), ('predicted', ''), ('', ''))
    """
    parts = [part for part in re.split(r"[ _.:/]+", column) if part]
    parts = words_of(column) if len(parts) == 1 and not {"-"} & set(column) else parts
    judge: list[str] = []
    question: list[str] = []
    for place, part in enumerate(parts):
        words = set(words_of(part))
        follows = len(judge) == place and bool(judge)
        if (
            words & vocabulary.JUDGES
            or (follows and _VERSIONED.search(part))
            or words & vocabulary.PERHAPS_MODEL
            and not judge
        ):
            judge.append(part)
        elif not words <= vocabulary.SCORES:
            question.append(part)
    return "_".join(judge), "_".join(question)


def table_roles(
    columns: Columns,
    options: TableOptions = NO_OPTIONS,
    has_text: bool = False,
    is_named: Callable[[str], bool] = is_person,
) -> TableRoles:
    """Return the roles of the columns of a table that hold answers, or names of those who answered.

    Args:
        columns: Cells of its first rows (`ROLE_ROWS`).
        options: Columns that the user names.
        has_text: True if its rows hold texts of conversations.
        is_named: Returns True for the name of a person.

    >>> roles = table_roles({"score": [3, 4, 5], "expert": [3, 3, 5]})
    >>> dict(roles.judges), roles.people
    ({'score': 'judge'}, ('expert',))
    >>> table_roles({"score": [3, 4, 5]}).unclear
    ('score',)
    """
    known = NO_ANSWERS | (TEXTS if has_text else frozenset())
    filled = {name: [cell for cell in cells if not is_missing(cell)] for name, cells in columns.items()}
    # A column without a name is the index of a data frame.
    cells = {n: values for n, values in filled.items() if values and n.strip() and plain_name(n) not in known}
    annotator = next((name for name in cells if _names_raters(name, columns, cells, options)), None)
    free = {name: values for name, values in cells.items() if name != annotator}
    given = {name: judge for name, judge in options.judges.items() if name in cells}
    if of_names := [name for name in given if name == annotator or _holds_names(name, free)]:
        return TableRoles(names=of_names[0], are_all_judged=True)
    names = None if annotator is not None else _column_of_names(free, has_text, options)
    if names is not None and plain_name(names) in vocabulary.NAMES_OF_EITHER:
        persons = {str(value) for value in free[names]}
        models = set(filter(is_model_name, persons))
        if names in options.rated or (models < persons and all(map(is_named, persons - models))):
            annotator, names = names, None
        elif models != persons:
            return TableRoles(unclear=(names,))
        free = {name: values for name, values in free.items() if name != annotator}
    answers = [name for name, values in free.items() if name != names and _may_hold_answers(name, values)]
    roles = _Answers(free, answers, options, has_text, annotator, given).roles()
    if annotator is not None and not roles.judges:
        roles = replace(roles, models=_models(cells[annotator], options))
    if names is not None:
        explicit = [name for name in roles.people if vocabulary.HUMAN & set(words_of(name))]
        if roles.judges or not explicit:
            roles = replace(roles, are_all_judged=not roles.judges)
        else:
            beside = [name for name in answers if name not in explicit and (_is_value(name) or is_rating_name(name))]
            roles = replace(roles, judges=dict.fromkeys(beside, "judge"), people=tuple(explicit))
        if roles.judges and len(called := {str(value) for value in free[names]}) == 1:
            roles = replace(roles, judges={name: next(iter(called)) for name in roles.judges})
        roles = replace(roles, names=names, unclear=())
    roles = replace(roles, annotator=annotator)
    return replace(roles, copies=tuple(_copies(columns, roles)), unread=tuple(_unread(cells, roles, names)))


class _Answers:
    """Columns that can hold answers, divided into columns of judges, columns of people, and unclear columns."""

    def __init__(
        self, cells: Columns, answers: Sequence[str], options: TableOptions, has_text: bool, annotator: str | None,
        given: Mapping[str, str],
    ) -> None:  # fmt: skip
        self.cells, self.options, self.annotator, self.given = cells, options, annotator, given
        self.has_text, self.is_rated = has_text, has_text or annotator is not None
        self.reasons: dict[str, str] = {}
        self.free = [name for name in answers if name not in given and name not in options.rated]
        numbered = [name for name in self.free if _NUMBERED.search(name)]
        self.numbered = numbered if len(numbered) > 1 else []  # several people who judge, or several models
        self.clear = [name for name in self.free if name not in self.numbered and _is_of_judge(name, has_text)]

    def roles(self) -> TableRoles:
        """Return the columns of judges, of people, and the unclear ones."""
        judges = {name: judge or judge_in(name)[0] or "judge" for name, judge in self.given.items()}
        judges |= {name: judge_in(name)[0] for name in self.clear}
        people = self._named_people(judges)
        perhaps = [name for name in self.free if name not in (*judges, *people) and self._is_perhaps_judged(name)]
        if people or self.options.rated:
            judges |= {name: judge_in(name)[0] or "judge" for name in perhaps}
            perhaps = []
            if not judges and self.annotator is None and self._are_alone(people):
                judges |= self._by_elimination(people)
        left = [name for name in self.free if name not in (*judges, *people)]
        left_out: list[str] = []
        bare = [name for name in left if set(words_of(name)) <= {"score", "scores"} and name not in perhaps]
        if bare and not self.is_rated:
            gaps = [name for name in bare if len(self.cells[name]) < max(map(len, self.cells.values()))]
            if judges and (people or self.options.rated):
                left_out = bare
            elif not (judges and gaps == bare):
                perhaps += bare
        others = self._unnamed_people(judges, [name for name in left if name not in (*perhaps, *left_out)])
        rated = [name for name in self.options.rated if name in self.cells]
        return TableRoles(
            judges,
            tuple(dict.fromkeys((*rated, *people, *others))),
            unclear=tuple(perhaps),
            left_out=tuple(left_out),
            reasons=self.reasons,
        )

    def _named_people(self, judges: Collection[str]) -> list[str]:
        """Return the columns whose name says that people gave their values."""
        left = [name for name in self.free if name not in judges and name not in self.numbered]
        asked = {question_in(name) for name in judges} - {()}
        words = {name: _nominal_words(self.cells[name]) for name in self.free}
        found = [
            name
            for name in left
            if _is_of_people(name, self.cells[name], asked)
            and not (words[name] and not any(words[name] & others for other, others in words.items() if other != name))
        ]
        observed = {name: observed_answers(self.cells[name], name) for name in left if not is_rating_name(name)}
        persons = rater_columns(observed)[0]
        return [name for name in left if name in found or name in persons]

    def _is_perhaps_judged(self, name: str) -> bool:
        words = set(words_of(name))
        is_model = words & vocabulary.PERHAPS_MODEL and words & vocabulary.SCORES
        return name in self.numbered or bool(is_model and words <= vocabulary.PERHAPS_MODEL | vocabulary.SCORES)

    def _are_alone(self, people: Sequence[str]) -> bool:
        """Return True if some columns are clearly of people, so that a further column of scores is the judge's."""
        named = [set(words_of(name)) & vocabulary.HUMAN for name in people]
        return bool(self.options.rated) or any(words - {"user", "customer", "client"} for words in named)

    def _by_elimination(self, people: Sequence[str]) -> dict[str, str]:
        """Return the first column of scores that no name gives to people, as the judge's."""
        for name in self.free:
            if name not in people and set(words_of(name)) & vocabulary.PERHAPS_JUDGE:
                whose = ", ".join(map(repr, [*self.options.rated, *people][:3]))
                self.reasons[name] = (
                    f"{name!r} is read as a judge's answers, since {whose} holds those of people. If people gave it: "
                    f"--rater {shlex.quote(name)}"
                )
                return {name: "judge"}
        return {}

    def _unnamed_people(self, judges: Collection[str], left: Sequence[str]) -> list[str]:
        """Return further columns of people: in a table that names annotators, named like a rating, or with gaps."""
        if self.annotator is not None:
            return [name for name in left if _is_value(name) or is_rating_name(name)] or list(left[:1])
        named = [name for name in left if _is_value(name) or is_rating_name(name)]
        asked = {question_in(name) for name in judges} - {()}
        named += [name for name in left if name not in named and question_in(name) in asked]
        if named or not judges:
            return named
        most = max(map(len, self.cells.values()))
        sparse = [name for name in left if len(self.cells[name]) < most]
        return sparse if len(sparse) == 1 else []


def cells_of(rows: Sequence[Fields]) -> dict[str, list[Any]]:
    """Return the cells of each column of some rows; a missing cell is None."""
    names = dict.fromkeys(name for row in rows for name in row if isinstance(name, str))
    return {name: [row.get(name) for row in rows] for name in names}


def unclear_text(file: str, columns: Sequence[str], of_people: str, of_judge: str) -> str:
    """Return the error about columns that hold ratings of people or a model's answers, with the command for each."""
    names = "column" if len(columns) == 1 else "columns"
    return (
        f"{file}: {names} {', '.join(map(repr, columns))} can hold ratings of people or answers of a model, and "
        f"nothing says which. If people gave them: {of_people}. If a model did: {of_judge}"
    )


def unclear_to_import(file: str, columns: Sequence[str], command: str | None = None) -> str:
    """Return the error about columns that hold ratings of people or a model's answers in an import.

    `command` names the files; by default it imports this file.
    """
    command = f"accord import {shlex.quote(file)}" if command is None else command
    people, judge = (
        f"{command} {' '.join(f'{option} {shlex.quote(name)}' for name in columns)}"
        for option in ("--rater", "--judge")
    )
    return unclear_text(file, columns, people, judge)


def may_be_answer(column: str, value: Any) -> bool:
    """Return True if a column next to the name of a judge may hold the judge's answers."""
    if plain_name(column) in VALUE_KEYS or is_rating_name(column) or _is_numbered(column):
        return True
    return not set(words_of(column)) & (vocabulary.OTHER_WORDS | vocabulary.COMMENTS) and (
        isinstance(value, list) or is_number(value)
    )


# --- names ----------------------------------------------------------------------------------------------------------


def _names_raters(name: str, columns: Columns, cells: Columns, options: TableOptions) -> bool:
    """Return True if a column with the name of an annotator's column names who rated, and does not hold ratings.

    Numbers can be ids of annotators: with several rows per item, or if another column has the name of a rating.
    """
    if plain_name(name) not in ANNOTATOR_KEYS or name in options.rated:
        return False
    if not all(map(is_number, cells[name])):
        return True
    if plain_name(name).endswith("_id"):
        return True
    item = next((each for each in columns if plain_name(each) in vocabulary.ITEM), None)
    if item is not None and len({str(each) for each in columns[item] if not is_missing(each)}) < len(cells[name]):
        return True
    others = [each for each in cells if each != name and (_is_value(each) or is_rating_name(each))]
    return any(not _is_of_judge(each, False) for each in others)


def _is_value(name: str) -> bool:
    return plain_name(name) in VALUE_KEYS


def _is_numbered(name: str) -> bool:
    """Return True for the name of a numbered question: Q0, q12."""
    return name[:1] in "qQ" and name[1:].isdecimal()


def _holds_names(column: str, cells: Columns) -> bool:
    """Return True if a column of judges holds their names, and another column the values."""
    others = [name for name in cells if name != column and (_is_value(name) or is_rating_name(name))]
    known = ("judge", *vocabulary.NAMES_OF_JUDGES, *vocabulary.NAMES_OF_MODELS)
    is_name = _are_names(cells[column]) or (plain_name(column) in known and not has_scale(cells[column]))
    return not holds_answers(cells[column]) or (bool(others) and is_name)


def _column_of_names(cells: Columns, has_text: bool, options: TableOptions) -> str | None:
    """Return the column that names the judge or the model that gave the value of each row, or `None`."""
    plain = {plain_name(name): name for name in cells}
    answers = [name for name in cells if name not in options.rated]
    rated = {name for name in answers if _is_value(name)}
    values = rated | set(filter(is_rating_name, answers))
    for name in (plain[key] for key in (*vocabulary.NAMES_OF_JUDGES, *vocabulary.NAMES_OF_EITHER) if key in plain):
        if values - {name} and _are_names(cells[name]):
            return name
    if not rated or has_text:  # a file with texts names the model that wrote them
        return None
    # Numbers can identify judges.
    keys = (key for key in vocabulary.NAMES_OF_MODELS if key in plain)
    return next((plain[key] for key in keys if not all(map(is_number, cells[plain[key]]))), None)


def _are_names(values: Sequence[Any]) -> bool:
    """Return True if values are texts other than words of a scale, such as pass and fail."""
    if not all(isinstance(value, str) and not is_number(value) for value in values):
        return False
    found = infer_scale(observed_answers(values))
    return found is None or found.scale.kind is ScaleKind.NOMINAL


def _models(values: Sequence[Any], options: TableOptions) -> tuple[str, ...]:
    """Return the judges: the annotators that the user names, else all with a judge's name, unless all have one."""
    names = list(dict.fromkeys(str(value) for value in values))
    given = [name for name in options.judges if name in names]
    found = given or [name for name in names if is_model_name(name) or "judge" in words_of(name)]
    return tuple(found) if len(found) < len(names) else ()


# --- columns of answers ---------------------------------------------------------------------------------------------


def holds_answers(values: Sequence[Any]) -> bool:
    """Return True if the filled cells of a column can be answers: values of a scale, or lists of numbers."""
    if any(isinstance(value, list) for value in values):
        return all(isinstance(value, list) and _are_numbers(value) for value in values)
    return has_scale(values) and not any(isinstance(value, str) and is_model_name(value) for value in values)


def _are_numbers(values: Sequence[Any]) -> bool:
    """Return True if the entries of a list are numbers, apart from missing ones."""
    return all(is_number(value) for value in values if value is not None)


def _may_hold_answers(name: str, values: Sequence[Any]) -> bool:
    return not set(words_of(name)) & vocabulary.NOT_VALUES and holds_answers(values)


def _is_of_judge(column: str, has_text: bool) -> bool:
    """Return True if the name of a column says that a model gave its values."""
    words = set(words_of(column))
    own = (*vocabulary.NAMES_OF_JUDGES, *vocabulary.NAMES_OF_MODELS[:-1])
    if not words & vocabulary.JUDGES or words & (vocabulary.HUMAN - {"label", "labels"}) or plain_name(column) in own:
        return False
    if words <= {"auto", "automatic", "automated"}:  # in a table with texts, often a flag
        return not has_text
    question = judge_in(column)[1]
    if not question or is_rating_name(question) or _is_numbered(question):
        return True
    others = set(words_of(question))
    return not others & (vocabulary.OTHER_WORDS | vocabulary.COMMENTS) and ("judge" in words or not has_text)


def _nominal_words(values: Sequence[Any]) -> set[str]:
    """Return the words of a column of words without an order, which may be names; empty for any other column."""
    found = infer_scale(observed_answers(values))
    if found is None or found.scale.kind is not ScaleKind.NOMINAL:
        return set()
    return {str(option).casefold() for option in found.scale.options}


def _is_of_people(column: str, values: Sequence[Any], asked: Collection[tuple[str, ...]]) -> bool:
    """Return True if the name of a column says that people gave its values; `asked` are the questions of judges."""
    words = set(words_of(column))
    found = words & vocabulary.HUMAN
    if not found:
        return False
    may_be_topic = found <= vocabulary.LABELS and not words & {*vocabulary.CONSENSUS, "truth", "annotated", "reviewed"}
    if may_be_topic and not asked and _nominal_words(values):
        return False
    if not found <= _WEAK:
        return True
    rest = words - vocabulary.HUMAN - vocabulary.SCORES - vocabulary.CONSENSUS
    is_plain = all(word.isdecimal() or len(word) == 1 for word in rest)
    return is_plain or is_rating_name(column) or question_in(column) in asked


def question_in(column: str) -> tuple[str, ...]:
    """Return the words of a column's name that are about the question.

    >>> question_in("judge_helpfulness_1"), question_in("human_score"), question_in("gpt-4o clarity")
    (('helpfulness',), (), ('clarity',))
    """
    column = bare_name(column)[0]
    judge = words_of(judge_in(column)[0])
    others = {*judge, *vocabulary.HUMAN, *vocabulary.PLAIN, *vocabulary.CONSENSUS}
    words = words_of(column)
    if words and words[-1].isdecimal():
        words = words[:-1]
    if words and words[-1] in ("run", "repeat", "rep", "trial", "epoch", "attempt"):
        words = words[:-1]
    return tuple(word for word in words if word not in others and not word.isdigit() and len(word) > 1)


def _copies(columns: Columns, roles: TableRoles) -> Iterator[tuple[str, str, int]]:
    """Yield pairs of columns of answers with equal values in all rows that both fill, and the number of rows."""
    chosen = [name for name in (*roles.people, *roles.judges) if name in columns]
    for place, one in enumerate(chosen):
        for other in chosen[place + 1 :]:
            pairs = [
                (a, b)
                for a, b in zip(columns[one], columns[other], strict=True)
                if not (is_missing(a) or is_missing(b))
            ]
            if len(pairs) >= MIN_EQUAL and len({str(a) for a, _ in pairs}) > 1 and all(a == b for a, b in pairs):
                yield one, other, len(pairs)


def copies_text(copies: Sequence[tuple[str, str, int]]) -> list[str]:
    """Return a sentence for each pair of columns with equal values."""
    return [
        f"columns {one!r} and {other!r} are equal in all {rows:,} rows that both fill, as two people's ratings rarely "
        "are; a copy is no second person. Leave one out"
        for one, other, rows in copies
    ]


def _unread(cells: Columns, roles: TableRoles, names: str | None) -> Iterator[str]:
    """Yield columns that no role takes, and that may hold ratings, or names of those who rated if none is known."""
    yield from roles.left_out
    taken = {*roles.judges, *roles.people, *roles.unclear, *roles.left_out, roles.annotator, names}
    for name, values in cells.items():
        if name in taken or set(words_of(name)) & vocabulary.OTHER_WORDS:
            continue
        observed = observed_answers(values, name)
        if (
            roles.annotator is None
            and not roles.are_all_judged
            and may_hold_names(observed, is_metadata=True)
            or has_scale_values(observed)
            and not is_rating_name(name)
        ):
            yield name


def unread_text(unread: Sequence[str], of_names: str = "") -> str:
    """Return the sentence about columns that are not read, with the options that read one; empty for none.

    `of_names` is the advice for a column with names of annotators; by default the option of an import.
    """
    if not unread:
        return ""
    name = shlex.quote(unread[0])
    return (
        f"not read: {', '.join(map(repr, unread))}. If {unread[0]!r} holds ratings of people: --rater {name}; if a "
        f"judge's answers: --judge {name}; if the names of those who rated: {of_names or f'--columns annotator={name}'}"
    )


# --- the other columns ----------------------------------------------------------------------------------------------


def structure(columns: Columns, roles: TableRoles, options: TableOptions) -> TableRoles:
    """Return roles with the columns that name the item, the system, the run, the part, slices and the length."""
    own = TableRoles(
        item=options.item or _first(columns, vocabulary.ITEM),
        system=options.system or _first(columns, vocabulary.SYSTEM, lambda cells: _is_category(cells, MAX_SYSTEMS)),
        run=_first(columns, vocabulary.RUN),
        split=_first(columns, vocabulary.SPLIT, _is_text),
        confidence=options.confidence or _first(columns, vocabulary.CONFIDENCE_NAMES, _is_confidence),
    )
    taken = {own.item, own.system, own.run, own.split, own.confidence, roles.annotator}
    taken |= {options.length, *options.groups}
    taken |= {*roles.judges, *roles.people}
    length = options.length or next((each for each in columns if each not in taken and _is_length(each, columns)), None)
    text = _first(columns, vocabulary.TEXT, _is_prose)
    groups = tuple(options.groups) or group_columns(columns, {*taken, length, text})
    return replace(
        roles, item=own.item, system=own.system, run=own.run, split=own.split, length=length, groups=groups,
        text=None if text in taken else text, confidence=own.confidence,
    )  # fmt: skip


def _first(columns: Columns, names: Sequence[str], fits: Callable[[Sequence[Any]], bool] = bool) -> str | None:
    plain = {plain_name(column): column for column in reversed(list(columns))}
    return next((plain[name] for name in names if name in plain and fits(columns[plain[name]])), None)


def _is_text(cells: Sequence[Any]) -> bool:
    present = [cell for cell in cells[:1000] if not is_missing(cell)]
    return bool(present) and all(isinstance(cell, str) and not is_number(cell) for cell in present)


def _is_prose(cells: Sequence[Any]) -> bool:
    lengths = [len(cell) for cell in cells[:1000] if isinstance(cell, str)]
    return _is_text(cells) and sum(lengths) > MIN_TEXT * len(lengths)


def _is_category(cells: Sequence[Any], most: int = MAX_VALUES) -> bool:
    values = {str(cell) for cell in cells if not is_missing(cell)}
    return 2 <= len(values) <= min(most, max(len(cells) // 5, 2))


def _is_length(column: str, columns: Columns) -> bool:
    if not set(words_of(column)) & vocabulary.LENGTH:
        return False
    present = [cell for cell in columns[column] if not is_missing(cell)]
    return bool(present) and all(map(is_number, present))


def _is_confidence(cells: Sequence[Any]) -> bool:
    return has_scale([cell.removesuffix("%") if isinstance(cell, str) else cell for cell in cells])


def group_columns(columns: Columns, taken: set[str | None]) -> tuple[str, ...]:
    """Return columns with few values: those with usual names first, then texts."""
    left = [each for each in columns if each not in taken and _is_category(columns[each])]
    named = [each for each in left if plain_name(each) in vocabulary.GROUP]
    rest = (each for each in left if each not in named and _is_text(columns[each]))
    others = [each for each in rest if not judge_in(each)[0] and not set(words_of(each)) & vocabulary.HUMAN]
    return tuple([*named, *others][:MAX_GROUPS])
