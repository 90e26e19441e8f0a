"""Detect columns of a wide table that each hold the ratings of one annotator.

The name of such a column looks like a person (a first name, an email address, a worker id, `rater_a`), and its values
share a scale with another such column. `--rater` and `--labels` override the detection.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import NamedTuple

from accord.edges import BadRow
from accord.formats import (
    LABEL_COLUMNS,
    OTHER_WORDS,
    RATING,
    UNNAMED,
    FileKind,
    FileRoles,
    Row,
    Source,
    check_pair_file,
    file_roles,
    formats,
    is_rating_name,
    plain_name,
    read_rows,
    words_of,
)
from accord.project.importing.rubric_inference import ObservedAnswers, infer_scale, mixed_scales, number_of

MOST_CHECKED = 2000
"""Rows of a file of pairs whose columns are checked before it is read."""
NO_COLUMN = "none"
"""Value of `--labels` for no column."""
_ID = re.compile(
    r"[^@\s]+@[^@\s]+\.\w+|A[0-9A-Z]{10,15}|(?:rater|annotator|judge|coder|labell?er|reviewer)[ _-]?\w+", re.IGNORECASE
)
_SCORE_WORDS = {"rating", "ratings", "score", "scores", "label", "labels", "vote", "grade", "bewertung", "note", "by"}


@cache
def _first_names() -> frozenset[str]:
    return frozenset((files("accord.project") / "first_names.txt").read_text(encoding="utf-8").split())


def person_in(column: str) -> str | None:
    """Return the person in the name of a column, or `None`.

    >>> person_in("nora"), person_in("Sam_rating"), person_in("clarity")
    ('nora', 'Sam', None)
    """
    if _ID.fullmatch(column):
        return column
    words = words_of(column)
    rest = [word for word in words if word not in _SCORE_WORDS]
    if not rest or len(rest) > 2 or rest[0] not in _first_names():
        return None
    if len(rest) == len(words):
        return column
    parts = re.split(r"[ _-]+", column)
    return " ".join(part for part in parts if part.casefold() not in _SCORE_WORDS) or None


def is_person(name: str) -> bool:
    """Return True if a name in a column of judges is that of a person."""
    return person_in(name) is not None and not name.casefold().startswith("judge")


def rater_columns(
    columns: Mapping[str, ObservedAnswers], questions: Collection[str] = ()
) -> tuple[dict[str, str], list[str]]:
    """Return the columns of one annotator each with the annotator, and columns named after persons without a scale.

    Args:
        columns: Observed answers by column.
        questions: Columns that are known to be questions.
    """
    unrated = _unrated(columns, questions)
    persons = {name: who for name in unrated if (who := person_in(name)) is not None}
    others = [name for name, column in unrated.items() if name not in persons and may_be_rater(column)]
    if len(persons) >= len(others) and share_scale([unrated[name] for name in (*persons, *others)]):
        persons |= {name: name for name in others}
    if share_scale([unrated[name] for name in persons]):
        return persons, []
    numeric = [name for name in persons if _high(unrated[name].values) is not None]
    return {}, (numeric if len(numeric) > 1 else [])


def _unrated(columns: Mapping[str, ObservedAnswers], but: Collection[str]) -> dict[str, ObservedAnswers]:
    """Return the columns with several values and no named annotator, except some."""
    return {
        name: column
        for name, column in columns.items()
        if name not in but and len(column.values) > 1 and set(column.annotators) <= {UNNAMED}
    }


def may_be_rater(column: ObservedAnswers) -> bool:
    """Return True unless a column's name or values show that it does not hold ratings."""
    name = column.name
    is_other = is_rating_name(name) or bool(set(words_of(name)) & OTHER_WORDS) or not name.isalpha()
    return not is_other and not column.is_marked and set(column.annotators) <= {UNNAMED}


_NAMING_WORDS = {"teacher", "expert", "examiner", "grader", "assessor", "auditor", "inspector", "checker", "lehrer",
                 "lehrerin", "prüferin", "expertin", "by"}  # fmt: skip
"""Words in the names of columns that name who rated, beside those that are always read."""


def may_hold_names(column: ObservedAnswers, is_metadata: bool = False) -> bool:
    """Return True if a column of texts may name who rated: few short texts, each several times.

    In metadata of conversations, where other texts have this form too, its name or its texts are those of people.
    """
    texts = [str(value) for value in column.values]
    is_short = all(len(text) <= 40 and len(text.split()) <= 3 and number_of(text) is None for text in texts)
    if not (2 <= len(texts) <= 50 and is_short and column.total >= 2 * len(texts)):
        return False
    words = set(words_of(column.name))
    if words & _NAMING_WORDS:
        return True
    is_known = bool(words & OTHER_WORDS) or plain_name(column.name) in LABEL_COLUMNS or infer_scale(column) is not None
    people = sum(person_in(text) is not None for text in texts)
    return not is_known and (2 * people > len(texts) if is_metadata else True)


def share_scale(columns: Collection[ObservedAnswers]) -> bool:
    """Return True if two or more columns have values on one scale."""
    merged = ObservedAnswers(RATING)
    for column in columns:
        merged.values.update(column.values)
    if len(columns) < 2 or infer_scale(merged) is None or mixed_scales(merged) is not None:
        return False
    highs = [_high(column.values) for column in columns]
    if any(high is None for high in highs):
        words = [{str(value).casefold() for value in column.values} for column in columns]
        return all(high is None for high in highs) and bool(set.intersection(*words))
    return all(2 * (high or 0) >= max(highs, key=lambda high: high or 0) for high in highs)  # type: ignore[operator]


def _high(values: Counter[int | float | str]) -> float | None:
    """Return the highest value, or `None` if most values are words."""
    numbers = [number for value in values if (number := number_of(value)) is not None]
    return max(numbers) if 2 * len(numbers) > len(values) else None


# --- columns that the user names -------------------------------------------------------------------------------------


class NamedColumns(NamedTuple):
    """Columns that the user names: with ratings of people, and with a judge's answers (the name may be empty)."""

    people: Sequence[str] = ()
    judges: Mapping[str, str] = {}

    def roles(self, path: Source, kind: FileKind, rows: Iterable[Row | BadRow] | None = None) -> FileRoles:
        """Return the roles of the columns of a file; `rows` are its rows, if it is open already.

        Raises:
            BadInput: The file cannot be read.
        """
        if kind.content not in ("labels", "conversations"):
            return FileRoles()
        has_text = kind.content == "conversations"
        if has_text and kind.fields is not None and formats.get("pairs").accepts(kind.fields):
            check_pair_file(islice(read_rows(path) if rows is None else rows, MOST_CHECKED), self.judges, str(path))
            return FileRoles()
        roles = file_roles(path, kind.columns, has_text, self.judges, self.people, is_person, rows)
        return replace(roles, unclear=()) if NO_COLUMN in self.people else roles


def columns_with_names(given: Collection[str]) -> dict[str, str]:
    """Return the columns of `COLUMN` or `COLUMN=NAME` options with the names, empty where none is given."""
    pairs = (each.rpartition("=") for each in given)
    return {column or name: name if column else "" for column, _, name in pairs}
