"""Detect columns of a wide table that each hold the ratings of one annotator.

The name of such a column looks like a person (a first name, an email address, a worker id, `rater_a`), and its values
share a scale with another such column. `--rater` and `--labels` override the detection.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping

from accord.formats.labels.rating_columns import RATING, UNNAMED, first_names, is_rating_name, words_of
from accord.formats.record import plain_name
from accord.formats.tables.scales import ObservedAnswers, ends_of, infer_scale, mixed_scales, number_of
from accord.formats.tables.words import LABEL_COLUMNS, NAMING, OTHER_WORDS
from accord.values import ScaleKind

_ID = re.compile(
    r"[^@\s]+@[^@\s]+\.\w+|A[0-9A-Z]{10,15}|(?:rater|annotator|judge|coder|labell?er|reviewer)[ _-]?\w+", re.IGNORECASE
)
_SCORE_WORDS = {"rating", "ratings", "score", "scores", "label", "labels", "vote", "grade", "bewertung", "note", "by"}


def bare_name(column: str) -> tuple[str, tuple[float, float] | None]:
    """Return the name of a column without a scale in brackets at its end, and the ends of that scale.

    >>> bare_name("Anna (1-5)"), bare_name("clarity [0..100]"), bare_name("f1 (macro)")
    (('Anna', (1, 5)), ('clarity', (0, 100)), ('f1 (macro)', None))
    """
    stripped = column.rstrip()
    start = max(stripped.rfind("("), stripped.rfind("["))
    ends = ends_of(stripped[start + 1 : -1]) if start > 0 and stripped[-1] in ")]" else None
    return (column, None) if ends is None else (stripped[:start].rstrip(), ends)


def person_in(column: str) -> str | None:
    """Return the person in the name of a column, or `None`.

    >>> person_in("nora"), person_in("Sam_rating"), person_in("clarity")
    ('nora', 'Sam', None)
    >>> person_in("Anna (1-5)")
    'Anna'
    """
    column = bare_name(column)[0]
    if _ID.fullmatch(column):
        return column
    words = words_of(column)
    rest = [word for word in words if word not in _SCORE_WORDS]
    if not rest or len(rest) > 2 or rest[0] not in first_names():
        return None
    if len(rest) == len(words):
        return column
    parts = re.split(r"[ _-]+", column)
    return " ".join(part for part in parts if part.casefold() not in _SCORE_WORDS) or None


def is_person(name: str) -> bool:
    """Return True if a name in a column of judges belongs to a person."""
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
        persons |= {name: bare_name(name)[0] for name in others}
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
    name = bare_name(column.name)[0]
    is_other = is_rating_name(name) or bool(set(words_of(name)) & OTHER_WORDS) or not name.isalpha()
    return not is_other and not column.is_marked and set(column.annotators) <= {UNNAMED}


def may_hold_names(column: ObservedAnswers, is_metadata: bool = False) -> bool:
    """Return True if a column of texts may name who rated: few short texts, each several times.

    In metadata of conversations, other texts have this form too, so the column's name or its texts must name people.
    """
    texts = [str(value) for value in column.values]
    is_short = all(len(text) <= 40 and len(text.split()) <= 3 and number_of(text) is None for text in texts)
    if not (2 <= len(texts) <= 50 and is_short and column.total >= 2 * len(texts)):
        return False
    words = set(words_of(column.name))
    if words & NAMING:
        return True
    scale = infer_scale(column)
    is_scale = scale is not None and scale.scale.kind is not ScaleKind.NOMINAL
    is_known = bool(words & OTHER_WORDS) or plain_name(column.name) in LABEL_COLUMNS or is_scale
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
