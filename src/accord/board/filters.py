"""Filters of the board, which convert to the query of a URL and back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import date
from typing import Any, Literal, cast, get_args
from urllib.parse import parse_qsl, urlencode

from accord.edges import BadInput, UnknownName
from accord.store import words_of

Dimension = Literal["system", "version", "topic", "user_group", "language"]
DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)
_WORDS = {"system": "assistant version", "find": "the words", "issue": "the issue"}
Order = Literal["worst", "best", "apart", "newest"]
ORDERS: tuple[Order, ...] = get_args(Order)
View = Literal["panel", "each"]
Answers = Literal["predicted", "given"]
Synthetic = Literal["without", "only", "with"]
Training = Literal["without", "with"]
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "by": DIMENSIONS, "view": get_args(View), "answers": get_args(Answers), "synthetic": get_args(Synthetic),
    "training": get_args(Training),
    "order": ORDERS,
}  # fmt: skip
MAX_LENGTH, MAX_VALUES = 512, 64
"""Maximum length of a value in characters, and maximum number of values in a query."""
ANY = "*"
"""Value of a dimension in a form that selects all: an empty one selects conversations without the dimension."""
LEFT_OUT = "{:,} scores of conversations that the evaluator learned from are left out"
_CLOSER = "their scores are closer to the ratings than those of new conversations will be"
_EMPTY_IS_ALL = (
    "question", "evaluator", "against", "since", "until", "find", "issue", "low", "high", "by",
)  # fmt: skip
"""Filters of which forms send an empty value for all."""


def dimension_in_words(name: str) -> str:
    """Return the name of a dimension, a period or `annotator` for readers.

    >>> dimension_in_words("system"), dimension_in_words("user_group")
    ('assistant version', 'user group')
    """
    return _WORDS.get(name, name.replace("_", " "))


def filter_in_words(name: str, value: str, unknown: str = "unknown") -> str:
    """Return a filter for readers.

    >>> filter_in_words("topic", "refunds"), filter_in_words("topic", ""), filter_in_words("find", "charged twice")
    ('topic refunds', 'topic unknown', 'the words “charged twice”')
    """
    return f"{dimension_in_words(name)} {f'“{value}”' if name == 'find' else value or unknown}"


def learned_words(count: int, is_all: bool) -> str:
    """Return the number of conversations that the evaluator learned from, and the meaning of their scores."""
    if is_all:
        return f"the evaluator learned from {'the conversation' if count == 1 else f'all {count:,} conversations'}"
    return f"the evaluator learned from {count:,} of these conversations; {_CLOSER}"


@dataclass(frozen=True)
class BoardFilters:
    """Filters; `None` means all.

    Attributes:
        question: Question of the rubric; by default the main one.
        evaluator: Evaluator of the scores; by default the one that scored last. Evaluators are never mixed.
        against: Another evaluator, whose scores of the same texts are compared.
        system, version, topic, user_group, language: Dimensions of conversations; "" selects missing values.
        since, until: First and last day (UTC) of the conversations, or of scoring if the log has no time.
        find: Words that the text of a conversation contains, in any order and case.
        issue: Kind of an issue that a model found, or a person marked, in the conversation.
        annotators: Count only scores for these annotators; empty for the population, or for all if there is none.
        view: `panel` averages the scores of a text over annotators; `each` keeps them apart.
        answers: `predicted` scores, or ratings `given` by people. By default scores, unless the evaluator learned from
            every shown conversation and people rated some.
        synthetic: Leave synthetic conversations out, show only these, or include them.
        training: Leave out or include scores of conversations that the evaluator learned from. If the project has only
            such scores, they are shown.
        by: Dimension of the table; by default `system`, or `version` if only versions differ.
        first, second: Two values of `by` to compare.
        low, high: Scores from `low` up to, but not including, `high`; the upper end of the scale is included.
        unscored: Only texts without a score.
        order: Order of a list.
    """

    question: str | None = None
    evaluator: str | None = None
    against: str | None = None
    system: str | None = None
    version: str | None = None
    topic: str | None = None
    user_group: str | None = None
    language: str | None = None
    since: str | None = None
    until: str | None = None
    find: str | None = None
    issue: str | None = None
    annotators: tuple[str, ...] = ()
    view: View = "panel"
    answers: Answers | None = None
    synthetic: Synthetic = "without"
    training: Training = "without"
    by: Dimension | None = None
    first: str | None = None
    second: str | None = None
    low: float | None = None
    high: float | None = None
    unscored: bool = False
    order: Order = "worst"

    @classmethod
    def from_query(cls, query: str, also: Sequence[str] = ()) -> BoardFilters:
        """Return the filters in the query of a URL; the fields in `also` are ignored.

        Raises:
            BadInput: The query is too long, or a value is invalid.
            UnknownName: There is no such filter or choice.
        """
        if len(query) > MAX_LENGTH * MAX_VALUES:
            raise BadInput(f"a query of {len(query)} characters; at most {MAX_LENGTH * MAX_VALUES}")
        try:
            pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=MAX_VALUES, errors="strict")
        except ValueError as error:
            raise BadInput(f"the query cannot be parsed ({error}); start again at /board") from None
        names = {each.name for each in fields(cls)}
        found: dict[str, Any] = {}
        for name, value in pairs:
            if name in also:
                continue
            if name not in names:
                raise UnknownName("filter", name[:40], sorted(names))
            if len(value) > MAX_LENGTH or "\0" in value:
                raise BadInput(f"the filter {name!r} has {len(value)} characters; allowed: {MAX_LENGTH}, without NUL")
            if name == "annotators":
                found[name] = (*found.get(name, ()), *([value] if value else []))
            elif name in found:
                raise BadInput(f"the filter {name!r} occurs twice in the query; remove one of them")
            else:
                found[name] = None if _is_all(name, value) else _value(name, value)
        return cls(**found)

    def to_query(self, **changes: Any) -> str:
        """Return the query of the filters with some changes; defaults are omitted."""
        changed = replace(self, **changes) if changes else self
        pairs: list[tuple[str, str]] = []
        for each in fields(self):
            value = getattr(changed, each.name)
            if value == each.default or value is None:
                continue
            if each.name == "annotators":
                pairs += [("annotators", name) for name in value]
            else:
                pairs.append(
                    (each.name, "1" if value is True else f"{value:.10g}" if isinstance(value, float) else value)
                )
        return urlencode(pairs)

    def to_json(self) -> dict[str, Any]:
        """Return the filters that differ from their defaults."""
        return {
            each.name: list(value) if isinstance(value, tuple) else value
            for each in fields(self)
            if (value := getattr(self, each.name)) != each.default
        }

    @property
    def base(self) -> BoardFilters:
        """The filters, except the filters of lists and comparisons; selections with the same base share their data."""
        return replace(
            self, against=None, first=None, second=None, low=None, high=None, unscored=False, order="worst", by=None
        )

    def filters(self) -> dict[str, str]:
        """Return the filters of conversations that are set, by name."""
        names = (*DIMENSIONS, "since", "until", "find", "issue")
        return {name: value for name in names if (value := getattr(self, name)) is not None}


def _is_all(name: str, value: str) -> bool:
    """Return True if a field of a form selects all, or the default."""
    return (name in _EMPTY_IS_ALL and not value) or (name in DIMENSIONS and value == ANY)


def _value(name: str, value: str) -> Any:
    if name in _CHOICES:
        if value not in _CHOICES[name]:
            raise UnknownName(f"choice of {name!r}", value[:40], _CHOICES[name])
        return cast(Any, value)
    if name == "find":
        words_of(value)  # the search is valid
    if name in ("low", "high"):
        return _number(name, value)
    if name in ("since", "until"):
        return _day(name, value)
    if name == "unscored":
        if value not in ("1", "0"):
            raise BadInput(f"unscored: got {value[:40]!r}, allowed: 1, 0")
        return value == "1"
    return value


def _number(name: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise BadInput(f"{name}: got {value[:40]!r}, allowed: a number")
    return number


def _day(name: str, value: str) -> str:
    try:
        found = date.fromisoformat(value)
    except ValueError:
        raise BadInput(f"{name}: got {value[:40]!r}, allowed: a day such as 2026-11-23") from None
    if not 1900 <= found.year <= 2200:
        raise BadInput(f"{name}: got {value[:40]!r}, allowed: a day in the years 1900 to 2200")
    return found.isoformat()
