"""Roles of the columns of rating files: who gave the values, people or models.

One table of words decides for every reader. A column that names a model's answers (`judge_score`, `gpt4_rating`,
`predicted`) holds a judge's answers; a column such as `judge_model` names the judge of each row. A column that could be
either, such as `score` without annotator and text, is unclear: the user says who gave it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from accord.formats.labels.rating_columns import UNNAMED, VALUE_KEYS, is_rating_name, number_in, words_of
from accord.formats.record import ANNOTATOR_KEYS, Fields, plain_name
from accord.values import Target

OTHER_WORDS = {
    "id", "ids", "index", "idx", "turn", "turns", "count", "num", "number", "length", "len", "tokens", "token", "words",
    "chars", "age", "year", "month", "day", "hour", "date", "time", "timestamp", "duration", "latency", "seconds",
    "minutes", "ms", "version", "temperature", "seed", "model", "system", "bot", "user", "topic", "domain", "language",
    "lang", "locale", "country", "gender", "channel", "source", "dataset", "split", "fold", "batch", "run", "cost",
    "price", "url", "comment", "comments", "reason", "explanation", "name", "email", "session", "trace", "title",
    "items", "level", "order", "rank", "position", "category", "type", "status", "n", "k", "p", "confidence",
}  # fmt: skip
"""Words in the names of columns that hold something other than ratings."""
FAMILIES = {
    "gpt", "chatgpt", "openai", "claude", "anthropic", "gemini", "gemma", "llama", "mistral", "mixtral", "qwen",
    "deepseek", "grok", "llm", "llms", "prometheus",
}  # fmt: skip
"""Words in the names of models."""
_JUDGE = {
    *FAMILIES, "judge", "judges", "judged", "predicted", "prediction", "predictions", "pred", "preds", "auto",
    "automatic", "automated", "autorater", "autograder", "autoscore", "autorating",
}  # fmt: skip
_PERHAPS_MODEL = {"model", "models", "ai", "machine"}
_PEOPLE = {
    "human", "humans", "people", "person", "user", "customer", "client", "annotator", "rater", "expert", "experts",
    "crowd", "worker", "manual", "nutzer", "kunde",
}  # fmt: skip
_SCORE = {"score", "scores", "rating", "ratings", "label", "value", "grade", "result", "verdict"}
_NAMES_OF_JUDGES = ("judge_model", "judge_name", "judge_id", "judge_llm", "llm_model", "llm_name", "grader_model",
                    "evaluator_model", "rater_model")  # fmt: skip
_NAMES_OF_MODELS = ("model", "model_name", "model_id", "ai_model", "llm")
_NUMBERED = re.compile(r"(?:^|(?<=.[ _-]))judge[ _-]?(?:\d{1,2}|[a-z])(?=\Z|[ _-].)", re.IGNORECASE)
_COMMENTS = {"rationale", "reasoning", "feedback", "text", "prompt", "reply", "response", "answer", "output", "notes"}
_VERSIONED = re.compile(r"\d|^(?:mini|turbo|pro|flash|opus|sonnet|haiku|instruct|chat|large|small|nano|judge)\Z", re.I)
_MAX_WORDS, _MAX_LENGTH = 10, 30
_Cells = Sequence[Any]


@dataclass(frozen=True)
class FileRoles:
    """Roles of a file's columns.

    Attributes:
        judges: Columns with a judge's answers, with the name of the judge.
        names: Column that names the judge of each row; `None` if there is none.
        are_all_judged: True if every value of the file is an answer of a judge.
        annotator: Column that names the annotator and is not known by its name alone; `None` if there is none.
        unclear: Columns that hold ratings of people or answers of a model.
    """

    judges: Mapping[str, str] = field(default_factory=dict)
    names: str | None = None
    are_all_judged: bool = False
    annotator: str | None = None
    unclear: Sequence[str] = ()

    def judge_of(self, question: str, annotator: str | None) -> str | None:
        """Return the judge that gave an answer, or `None` for an answer of a person."""
        if question in self.judges:
            return self.judges[question]
        is_judge = annotator is not None and annotator != UNNAMED and (self.are_all_judged or is_model_name(annotator))
        return annotator if is_judge else "judge" if self.are_all_judged else None

    def without_judges(self, fields: Fields) -> Fields:
        """Return a row without the columns of judges."""
        if not (self.judges or self.names):
            return fields
        return {name: value for name, value in fields.items() if name not in self.judges and name != self.names}

    def columns(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return a column map with the column that names the annotator, unless it names one already."""
        named = (self.names if self.are_all_judged else None) or self.annotator
        return dict(given) if named is None or "annotator" in given else {**given, "annotator": named}


NO_ROLES = FileRoles()


class JudgedAnswer(NamedTuple):
    """A model's answer in a file: target, column or question, judge, and raw value."""

    target: Target
    question: str
    judge: str
    value: Any


@lru_cache(maxsize=4096)
def is_model_name(name: str) -> bool:
    """Return True if an annotator's name is that of a model.

    >>> is_model_name("gpt-4o"), is_model_name("claude-3-opus"), is_model_name("Claude"), is_model_name("nora")
    (True, True, False, False)
    """
    words = words_of(name)
    found = [word for word in words if word in FAMILIES]
    if not found or set(words) & _PEOPLE:
        return False
    return found != ["claude"] or any(_VERSIONED.search(word) for word in words)


def is_machine(name: str) -> bool:
    """Return True if an annotator's name is that of a model, a judge or another program.

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
        if words & _JUDGE or (follows and _VERSIONED.search(part)) or words & _PERHAPS_MODEL and not judge:
            judge.append(part)
        elif not words <= _SCORE:
            question.append(part)
    return "_".join(judge), "_".join(question)


def column_roles(
    rows: Sequence[Fields],
    has_text: bool,
    known: Collection[str] = (),
    judges: Mapping[str, str] = {},
    people: Collection[str] = (),
    is_person: Callable[[str], bool] = lambda name: False,
) -> FileRoles:
    """Return the roles of the columns of a file.

    Args:
        rows: Its first rows.
        has_text: True if the rows hold conversations.
        known: Columns with another meaning, such as the conversation's id, by `plain_name`.
        judges: Columns that the user says hold a judge's answers, with the name of the judge or an empty text.
        people: Columns that the user says hold ratings of people.
        is_person: Returns True for the name of a person.
    """
    cells = _filled_cells(rows, known)
    annotator = next((name for name in cells if plain_name(name) in ANNOTATOR_KEYS), None)
    free = _but(cells, [annotator])
    given = {name: judges[name] for name in cells if name in judges}
    if of_names := [name for name in given if name == annotator or _holds_names(name, free)]:
        return FileRoles(names=of_names[0], are_all_judged=True)
    names = None if annotator is not None else _column_of_names(free, has_text, people)
    if names is not None and plain_name(names) == "judge":
        return _roles_of_names(names, free[names], people, is_person)
    found, unclear = _judges_by_name(_but(free, {*given, *people}), has_text, has_text or annotator is not None)
    scores = _named_judges(given) | found
    if names is not None and not scores:
        return FileRoles(names=names, are_all_judged=True)
    return FileRoles(scores, names, unclear=tuple(unclear))


def _named_judges(judges: Mapping[str, str]) -> dict[str, str]:
    """Return the judge of each column that the user names: the given one, or that in the column's name."""
    return {name: judge or judge_in(name)[0] or "judge" for name, judge in judges.items()}


def _but(cells: Mapping[str, _Cells], names: Collection[str | None]) -> dict[str, _Cells]:
    return {name: values for name, values in cells.items() if name not in names}


def _filled_cells(rows: Sequence[Fields], known: Collection[str]) -> dict[str, list[Any]]:
    """Return the values of each column that has any and is not `known` for another meaning."""
    cells: dict[str, list[Any]] = {}
    for row in rows:
        for name, value in row.items():
            if isinstance(name, str) and value not in (None, "") and plain_name(name) not in known:
                cells.setdefault(name, []).append(value)
    return cells


def _judges_by_name(
    cells: Mapping[str, Sequence[Any]], has_text: bool, is_rated: bool
) -> tuple[dict[str, str], list[str]]:
    """Return the judge of each column whose name says that a model gave its scores, and the unclear columns."""
    scored = [name for name, values in cells.items() if holds_scores(values)]
    numbered = [name for name in scored if _NUMBERED.search(name)]
    unclear = numbered if len(numbered) > 1 else []  # several people who judge, or several models
    clear = [name for name in scored if name not in unclear]
    scores = {name: judge_in(name)[0] for name in clear if _is_of_judge(name, has_text)}
    return scores, [*unclear, *(name for name in clear if name not in scores and _is_unclear(name, is_rated))]


def unclear_text(file: str, columns: Sequence[str], command: str | None = None) -> str:
    """Return the error about columns that hold ratings of people or a model's answers, with both commands.

    `command` names the files; by default it imports this file.
    """
    command = f"accord import {shlex.quote(file)}" if command is None else command
    listed = ", ".join(map(repr, columns))
    people, judge = (
        f"{command} {' '.join(f'{option} {shlex.quote(name)}' for name in columns)}"
        for option in ("--rater", "--judge")
    )
    names = "column" if len(columns) == 1 else "columns"
    return (
        f"{file}: {names} {listed} can hold ratings of people or answers of a model, and nothing says which. If people "
        f"gave them: {people}. If a model did: {judge}"
    )


def holds_scores(values: Sequence[Any]) -> bool:
    """Return True if values are numbers, lists of numbers, or a few short texts."""
    if all(_is_number(value) or (isinstance(value, list) and all(map(_is_number, value))) for value in values):
        return True
    texts = {value.strip().casefold() for value in values if isinstance(value, str)}
    return len(texts) <= _MAX_WORDS and all(
        isinstance(value, str) and len(value) <= _MAX_LENGTH and not is_model_name(value) for value in values
    )


def may_be_answer(column: str, value: Any) -> bool:
    """Return True if a column next to the name of a judge may hold the judge's answers."""
    if plain_name(column) in VALUE_KEYS or is_rating_name(column) or re.fullmatch(r"q\d+", column, re.IGNORECASE):
        return True
    return not set(words_of(column)) & (OTHER_WORDS | _COMMENTS) and _is_number(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float) or (isinstance(value, str) and number_in(value.strip()) is not None)


def _holds_names(column: str, cells: Mapping[str, Sequence[Any]]) -> bool:
    """Return True if a column of judges holds their names, beside a column with values."""
    others = [name for name in cells if name != column and (plain_name(name) in VALUE_KEYS or is_rating_name(name))]
    is_name = _are_texts(cells[column]) or plain_name(column) in ("judge", *_NAMES_OF_JUDGES, *_NAMES_OF_MODELS)
    return not holds_scores(cells[column]) or (bool(others) and is_name)


def _column_of_names(cells: Mapping[str, Sequence[Any]], has_text: bool, people: Collection[str]) -> str | None:
    """Return the column that names the judge or the model of each row beside a value; `None` if there is none."""
    plain = {plain_name(name): name for name in cells}
    answers = [name for name in cells if name not in people]
    rated = {name for name in answers if plain_name(name) in VALUE_KEYS}
    values = rated | set(filter(is_rating_name, answers))
    for name in (plain[key] for key in (*_NAMES_OF_JUDGES, "judge") if key in plain):
        if values - {name} and _are_texts(cells[name]):
            return name
    if not rated:
        return None
    # Numbers can identify judges; a file with texts names the model that wrote them.
    keys = ("judge",) if has_text else ("judge", *_NAMES_OF_MODELS)
    return next((plain[key] for key in keys if key in plain), None)


def _are_texts(values: Sequence[Any]) -> bool:
    return all(isinstance(value, str) and number_in(value.strip()) is None for value in values)


def _roles_of_names(
    column: str, values: Sequence[Any], people: Collection[str], is_person: Callable[[str], bool]
) -> FileRoles:
    """Return the roles of a file whose column `judge` names who rated, by the names in it."""
    names = {str(value) for value in values}
    models = set(filter(is_model_name, names))
    if column in people or (models < names and all(is_person(name) for name in names - models)):
        return FileRoles(annotator=column)
    return FileRoles(names=column, are_all_judged=True) if models == names else FileRoles(unclear=(column,))


def _is_of_judge(column: str, has_text: bool) -> bool:
    """Return True if the name of a column says that a model gave its values."""
    words = set(words_of(column))
    if not words & _JUDGE or words & _PEOPLE or plain_name(column) in (*_NAMES_OF_JUDGES, *_NAMES_OF_MODELS[:-1]):
        return False
    question = judge_in(column)[1]
    others = set(words_of(question))
    if words <= {"auto", "automatic", "automated"}:  # beside text, often a flag
        return not has_text
    if not question or is_rating_name(question) or re.fullmatch(r"q\d+", question, re.IGNORECASE):
        return True
    return not others & (OTHER_WORDS | _COMMENTS) and ("judge" in words or not has_text)


def _is_unclear(column: str, is_rated: bool) -> bool:
    """Return True if a column holds ratings of people or a model's; `is_rated` if the file names who rated, or text."""
    words = set(words_of(column))
    is_bare = bool(words) and words <= {"score", "scores"}
    return (is_bare and not is_rated) or bool(
        words & _PERHAPS_MODEL and words & {"score", "scores", "rating", "ratings", "grade"}
        and words <= _PERHAPS_MODEL | _SCORE
    )  # fmt: skip
