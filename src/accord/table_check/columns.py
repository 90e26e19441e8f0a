"""Roles of the columns of a table: judge, people, item, system, groups, length, and the forms of repeats.

A judge or a person has one column, or several: `judge_1` and `judge_2` are runs of one judge, `human_1` and `human_2`
two people. In a long table, a column names the run or the annotator of each row. Names decide, and values of a scale;
every choice is printed, and an option overrides it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from accord.edges import BadInput
from accord.formats import ANNOTATOR_KEYS, OTHER_WORDS, is_model_name, judge_in, plain_name, words_of
from accord.table_check.scales import has_scale, is_missing, is_number, no_scale

Columns = Mapping[str, Sequence[Any]]
"""Cells of each column; None for a missing one."""

ITEM = (
    "item", "item_id", "example_id", "example", "conversation", "conversation_id", "dialogue_id", "dialog_id",
    "session_id", "session", "prompt_id", "question_id", "input_id", "case_id", "case", "sample_id", "task_id",
    "trace_id", "ticket", "ticket_id", "uid", "id",
)  # fmt: skip
SYSTEM = ("system", "system_id", "assistant", "bot", "model", "model_name", "candidate", "variant", "arm", "version",
          "system_version", "prompt_version", "app_version", "experiment")  # fmt: skip
RUN = ("run", "run_id", "judge_run", "repeat", "repetition", "trial", "attempt", "epoch")
SPLIT = ("split", "partition", "subset", "set", "data_split")
GROUP = ("group", "slice", "segment", "category", "topic", "domain", "language", "lang", "locale", "channel",
         "dataset", "intent", "tier", "country", "difficulty", "task", "type", "source")  # fmt: skip
TEXT = ("response", "answer", "output", "completion", "reply", "generation", "model_output", "text", "content")
_LENGTH = {"length", "len", "tokens", "chars", "characters", "words"}
_HUMAN = {"human", "humans", "people", "person", "expert", "experts", "annotator", "annotators", "rater", "raters",
          "reviewer", "coder", "labeler", "labeller", "crowd", "worker", "gold", "golden", "truth", "manual", "label",
          "labels", "sme", "user", "customer", "reviewed", "annotation", "mensch", "annotated"}  # fmt: skip
_CONSENSUS = {"gold", "golden", "consensus", "majority", "final", "adjudicated", "mean", "average", "agreed"}
_JUDGE = {"grader", "evaluator", "verdict", "score", "scores", "rating", "result", "grade", "passed", "pass"}
"""Words of a judge's column if no column is named more clearly."""
_PLAIN = {"score", "scores", "rating", "ratings", "label", "labels", "value", "grade", "verdict", "result", "passed",
          "pass", "answer", "llm", "as", "a", "auto"}  # fmt: skip
_NOT_VALUES = OTHER_WORDS - {"model", "run", "level", "user"}
_RUN_NUMBER = re.compile(r"[ _-]?(?:run|repeat|rep|trial|epoch|attempt)?[ _-]?(\d{1,2})$", re.IGNORECASE)
MAX_GROUPS, MAX_VALUES, MAX_SYSTEMS, MIN_TEXT = 5, 20, 50, 20


@dataclass(frozen=True)
class ColumnRoles:
    """Roles of columns.

    Attributes:
        judges: Columns of the judge, one for each run.
        people: Columns of people, one for each.
        item, system, length: Columns, or None.
        groups: Columns that slice the table.
        annotator, run: Columns of a long table that name who rated, and which run of the judge it is.
        split: Column that names the part of the data.
        text: Column whose words are counted as the length.
        models: Values of `annotator` that are the judge, in a table without a column of its own for the judge.
        notes: Remarks on choices that could be others.
    """

    judges: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    item: str | None = None
    system: str | None = None
    groups: tuple[str, ...] = ()
    length: str | None = None
    annotator: str | None = None
    run: str | None = None
    split: str | None = None
    text: str | None = None
    models: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def texts(self) -> dict[str, str]:
        """Return the chosen columns by role."""
        said = {
            "judge": ", ".join(self.models or self.judges), "people": ", ".join(self.people),
            "annotator": self.annotator, "run": self.run, "item": self.item, "system": self.system,
            "groups": ", ".join(self.groups), "length": self.length or (f"words of {self.text}" if self.text else ""),
            "split": self.split,
        }  # fmt: skip
        return {role: columns for role, columns in said.items() if columns}


@dataclass(frozen=True)
class GivenColumns:
    """Columns that the user names; empty ones are detected."""

    judges: Sequence[str] = ()
    people: Sequence[str] = ()
    item: str | None = None
    system: str | None = None
    groups: Sequence[str] = ()
    length: str | None = None
    taken: frozenset[str] = field(default=frozenset(), repr=False)


def find_columns(columns: Columns, given: GivenColumns, name: str) -> ColumnRoles:
    """Return the roles of a table's columns.

    Args:
        columns: The cells.
        given: Columns that the user names.
        name: Name of the table, for errors.

    Raises:
        BadInput: A named column does not exist, or no column holds a judge's scores or people's labels.
    """
    annotator = _first(columns, ANNOTATOR_KEYS, _is_text)
    _check_given(columns, given, annotator, name)
    roles = ColumnRoles(
        item=given.item or _first(columns, ITEM),
        system=given.system or _first(columns, SYSTEM, lambda cells: _is_category(cells, MAX_SYSTEMS)),
        run=_first(columns, RUN),
        split=_first(columns, SPLIT, _is_text),
        annotator=annotator,
    )
    used = {roles.item, roles.system, roles.run, roles.split, annotator, given.length, *given.groups}
    free = [column for column in columns if column not in used or column in given.judges or column in given.people]
    roles = _with_values(columns, free, given, roles, name)
    taken = {*used, *roles.judges, *roles.people}
    length = given.length or next((each for each in columns if each not in taken and _is_length(each, columns)), None)
    text = None if length else _first(columns, TEXT, lambda cells: _is_text(cells) and _mean_length(cells) > MIN_TEXT)
    groups = tuple(given.groups) or group_columns(columns, {*taken, length, text})
    return replace(roles, groups=groups, length=length, text=None if text in taken else text)


def _check_given(columns: Columns, given: GivenColumns, annotator: str | None, name: str) -> None:
    """Raise `BadInput` for a named column that does not exist; a judge may be a value of the annotator column."""
    named = [*given.judges, *given.people, *given.groups, given.item, given.system, given.length]
    known_models = set(map(str, columns[annotator])) if annotator else set()
    for column in filter(None, named):
        if column not in columns and not (column in given.judges and column in known_models):
            listed = ", ".join(map(repr, list(columns)[:30]))
            raise BadInput(f"{name} has no column {column!r}; its columns: {listed}")


def _with_values(
    columns: Columns, free: Sequence[str], given: GivenColumns, roles: ColumnRoles, name: str
) -> ColumnRoles:
    """Return the roles with the columns of the judge and of people."""
    scaled = [each for each in free if has_scale(columns[each]) and not set(words_of(each)) & _NOT_VALUES]
    judges, models, people = _value_columns(columns, scaled, given, roles)
    if not (judges or models):
        raise BadInput(_missing(name, columns, "scores of a judge", "--judge"))
    if not people:
        raise BadInput(_missing(name, columns, "labels of people", "--human"))
    notes: list[str] = []
    judges, people = _of_one_judge(judges, people, given, notes)
    people = people[:1] if roles.annotator is not None else people
    return replace(roles, judges=tuple(judges), people=tuple(people), models=models, notes=tuple(notes))


def _value_columns(
    columns: Columns, scaled: Sequence[str], given: GivenColumns, roles: ColumnRoles
) -> tuple[list[str], tuple[str, ...], list[str]]:
    """Return all columns of judges, the annotators that are judges, and all columns of people; clear names first."""
    judges, models = _named_judges(columns, scaled, given, roles)
    people = list(given.people) or [each for each in scaled if each not in judges and set(words_of(each)) & _HUMAN]
    if not judges and not models:
        judges = [each for each in scaled if each not in people and set(words_of(each)) & _JUDGE][:1]
    people = people or _unnamed_people(columns, [each for each in scaled if each not in judges], bool(models))
    return judges, models, people


def _named_judges(
    columns: Columns, scaled: Sequence[str], given: GivenColumns, roles: ColumnRoles
) -> tuple[list[str], tuple[str, ...]]:
    """Return the columns and the annotators that are judges: those of the user, else those named like one."""
    if given.judges:
        judges = [each for each in given.judges if each in columns]
        return judges, tuple(each for each in given.judges if each not in columns)
    judges = [each for each in scaled if each not in given.people and _is_judge(each)]
    return judges, _models(columns, roles, judges)


def _unnamed_people(columns: Columns, scaled: Sequence[str], is_long: bool) -> list[str]:
    """Return the column with labels of people by its values: any in a long table, else the only one with gaps."""
    sparse = [each for each in scaled if any(map(is_missing, columns[each]))]
    return list(scaled[:1]) if is_long else sparse if len(sparse) == 1 else []


def _missing(name: str, columns: Columns, what: str, option: str) -> str:
    """Return the error about a role without a column, with the reason of a column that only its name fits."""
    listed = ", ".join(map(repr, list(columns)[:30]))
    named = [each for each in columns if (set(words_of(each)) & _HUMAN if option == "--human" else _is_judge(each))]
    reasons = [f"{each!r} {no_scale(columns[each])}" for each in named if not set(words_of(each)) & _NOT_VALUES][:3]
    found = f"no column holds {what}: {'; '.join(reasons)}" if reasons else f"no column is named like {what}"
    return f"{name}: {found}; its columns: {listed}. Name it: {option} COLUMN"


def _models(columns: Columns, roles: ColumnRoles, judges: Sequence[str]) -> tuple[str, ...]:
    """Return the annotators of a long table that are models, if the judge has no column of its own."""
    if roles.annotator is None or judges:
        return ()
    names = dict.fromkeys(str(each) for each in columns[roles.annotator] if not is_missing(each))
    found = [each for each in names if is_model_name(each) or "judge" in words_of(each)]
    return tuple(found[:1]) if len(found) < len(names) else ()


def _is_judge(column: str) -> bool:
    judge = judge_in(column)[0]
    return bool(judge) and not set(words_of(column)) & (_HUMAN - {"label", "labels"})


def _question(column: str) -> tuple[str, ...]:
    """Return the words of a column's name that are about the question."""
    judge = words_of(judge_in(column)[0])
    words = words_of(_RUN_NUMBER.sub("", column))
    others = {*judge, *_HUMAN, *_PLAIN, *_CONSENSUS}
    return tuple(word for word in words if word not in others and not word.isdigit() and len(word) > 1)


def _of_one_judge(
    judges: Sequence[str], people: Sequence[str], given: GivenColumns, notes: list[str]
) -> tuple[list[str], list[str]]:
    """Return the runs of one judge and the columns of single people, for one question."""
    judges, people = _of_one_question(judges, people, given, notes)
    if not given.people:
        people = _without_consensus(people, notes)
    if not given.judges:
        judges = _runs(judges, notes)
    return judges, people


def _of_one_question(
    judges: Sequence[str], people: Sequence[str], given: GivenColumns, notes: list[str]
) -> tuple[list[str], list[str]]:
    """Return the columns of the first question that both sides answer; all columns if names name no question."""
    asked = list(dict.fromkeys(map(_question, judges)))
    answered = list(dict.fromkeys(map(_question, people)))
    both = [each for each in asked if each in answered]
    if len(answered) < 2 and len(asked) < 2 or not both:
        return list(judges), list(people)
    chosen = both[0]
    kept = list(judges) if given.judges else [each for each in judges if _question(each) == chosen]
    kept_people = list(people) if given.people else [each for each in people if _question(each) == chosen]
    notes += [_unchecked_note(judges, people, other) for other in both[1:]]
    return kept, kept_people


def _unchecked_note(judges: Sequence[str], people: Sequence[str], question: tuple[str, ...]) -> str:
    """Return the remark on a further question, with the options that check it."""
    judge = next(each for each in judges if _question(each) == question)
    person = next(each for each in people if _question(each) == question)
    return f"not checked: {' '.join(question)}; check it with --judge {judge} --human {person}"


def _without_consensus(people: Sequence[str], notes: list[str]) -> list[str]:
    """Return the columns of single people if a further column sums them up."""
    single = [each for each in people if not set(words_of(each)) & _CONSENSUS]
    if len(single) < 2 or len(single) == len(people):
        return list(people)
    left = [each for each in people if each not in single]
    notes.append(f"left out: {', '.join(left)}, which sums up other columns; check it with --human {left[0]}")
    return single


def _runs(judges: Sequence[str], notes: list[str]) -> list[str]:
    """Return the columns of one judge: its runs, or the first of several judges."""
    bases: dict[str, list[tuple[int, str]]] = {}
    for column in judges:
        number = _RUN_NUMBER.search(column)
        if number is not None:
            bases.setdefault(column[: number.start()].casefold(), []).append((int(number[1]), column))
    for runs in bases.values():
        numbers = [number for number, _ in sorted(runs)]
        if len(numbers) > 1 and numbers[0] in (0, 1) and numbers == list(range(numbers[0], numbers[0] + len(numbers))):
            return [column for _, column in sorted(runs)]
    if len(judges) > 1:
        notes.append(f"other judges are not checked: {', '.join(judges[1:])}; name one with --judge")
    return list(judges[:1])


def _first(columns: Columns, names: Sequence[str], fits: Any = lambda cells: True) -> str | None:
    plain = {plain_name(column): column for column in reversed(list(columns))}
    return next((plain[name] for name in names if name in plain and fits(columns[plain[name]])), None)


def _is_text(cells: Sequence[Any]) -> bool:
    present = [cell for cell in cells[:1000] if not is_missing(cell)]
    return bool(present) and all(isinstance(cell, str) and not is_number(cell) for cell in present)


def _mean_length(cells: Sequence[Any]) -> float:
    lengths = [len(cell) for cell in cells[:1000] if isinstance(cell, str)]
    return sum(lengths) / max(len(lengths), 1)


def _is_category(cells: Sequence[Any], most: int = MAX_VALUES) -> bool:
    values = {str(cell) for cell in cells if not is_missing(cell)}
    return 2 <= len(values) <= min(most, max(len(cells) // 5, 2))


def _is_length(column: str, columns: Columns) -> bool:
    if not set(words_of(column)) & _LENGTH:
        return False
    present = [cell for cell in columns[column] if not is_missing(cell)]
    return bool(present) and all(map(is_number, present))


def group_columns(columns: Columns, taken: set[str | None]) -> tuple[str, ...]:
    """Return columns with few values: those with usual names first, then texts."""
    left = [each for each in columns if each not in taken and _is_category(columns[each])]
    named = [each for each in left if plain_name(each) in GROUP]
    rest = (each for each in left if each not in named and _is_text(columns[each]))
    others = [each for each in rest if not _is_judge(each) and not set(words_of(each)) & _HUMAN]
    return tuple([*named, *others][:MAX_GROUPS])
