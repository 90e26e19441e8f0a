"""What of all scores a figure is about: filters that go through the query of a URL and come back the same."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import date
from typing import Any, Literal, cast, get_args
from urllib.parse import parse_qsl, urlencode

from accord.edges import BadInput, UnknownName

Dimension = Literal["system", "version", "topic", "user_group", "language"]
DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)
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
LONGEST, MOST = 512, 64
"""Characters of a value, and values of a query."""


@dataclass(frozen=True)
class Selection:
    """Filters; `None` stands for all.

    Attributes:
        question: Of the rubric; by default the main one.
        evaluator: Whose scores; by default the one that scored last. Scores of two are never mixed.
        system, version, topic, user_group, language: Of conversations; "" of those that do not say.
        since, until: Days (UTC), both included, on which conversations were held, or else scored.
        annotators: The trusted: scores of these alone. None: of anybody, or where there are none of all.
        view: Whether a text's scores are averaged over annotators (`panel`) or stand beside each other (`each`).
        answers: Predicted, or given by people.
        synthetic: Whether conversations that nobody held are left out.
        training: Whether predicted scores of conversations that the evaluator learned from are left out. If there are
            no others, these are shown.
        by: What figures are taken apart by.
        first, second: Two values of `by` whose difference is looked at.
        low, high: Scores from `low` up to below `high`; `high` at the end of the scale includes it.
        unscored: Only what has no score.
        order: Of a list.
    """

    question: str | None = None
    evaluator: str | None = None
    system: str | None = None
    version: str | None = None
    topic: str | None = None
    user_group: str | None = None
    language: str | None = None
    since: str | None = None
    until: str | None = None
    annotators: tuple[str, ...] = ()
    view: View = "panel"
    answers: Answers = "predicted"
    synthetic: Synthetic = "without"
    training: Training = "without"
    by: Dimension = "system"
    first: str | None = None
    second: str | None = None
    low: float | None = None
    high: float | None = None
    unscored: bool = False
    order: Order = "worst"

    @classmethod
    def from_query(cls, query: str, also: Sequence[str] = ()) -> Selection:
        """The selection that a URL's query names; entries called as `also` says are somebody else's.

        Raises:
            BadInput: It is too long, or a value is none that can be.
            UnknownName: There is no such entry or choice.
        """
        if len(query) > LONGEST * MOST:
            raise BadInput(f"a query of {len(query)} characters; at most {LONGEST * MOST}")
        try:
            pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=MOST, errors="strict")
        except ValueError as error:
            raise BadInput(f"this query cannot be read ({error}); begin again at /board") from None
        names = {each.name for each in fields(cls)}
        found: dict[str, Any] = {}
        for name, value in pairs:
            if name in also:
                continue
            if name not in names:
                raise UnknownName("filter", name[:40], sorted(names))
            if len(value) > LONGEST or "\0" in value:
                raise BadInput(f"the filter {name!r} has {len(value)} characters; at most {LONGEST}, none of them NUL")
            if name == "annotators":
                found[name] = (*found.get(name, ()), value)
            elif name in found:
                raise BadInput(f"the filter {name!r} stands in the query twice; leave out one of them")
            else:
                found[name] = _value(name, value)
        return cls(**found)

    def to_query(self, **changes: Any) -> str:
        """The query that names it, after some changes; what is as by default is left out."""
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
        """What is set."""
        return {
            each.name: list(value) if isinstance(value, tuple) else value
            for each in fields(self)
            if (value := getattr(self, each.name)) != each.default
        }

    @property
    def base(self) -> Selection:
        """The same without what only lists and comparisons look at: figures of one base share what was read."""
        return replace(self, first=None, second=None, low=None, high=None, unscored=False, order="worst", by="system")

    def filters(self) -> dict[str, str]:
        """The filters of conversations that are set, by name."""
        names = (*DIMENSIONS, "since", "until")
        return {name: value for name in names if (value := getattr(self, name)) is not None}


def _value(name: str, value: str) -> Any:
    if name in _CHOICES:
        if value not in _CHOICES[name]:
            raise UnknownName(f"choice of {name!r}", value[:40], _CHOICES[name])
        return cast(Any, value)
    if name in ("low", "high"):
        return _number(name, value)
    if name in ("since", "until"):
        return _day(name, value)
    if name == "unscored":
        if value not in ("1", "0"):
            raise BadInput(f"unscored is 1 or 0, got {value[:40]!r}")
        return value == "1"
    return value


def _number(name: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise BadInput(f"{name} is a number of the scale, got {value[:40]!r}")
    return number


def _day(name: str, value: str) -> str:
    try:
        found = date.fromisoformat(value)
    except ValueError:
        raise BadInput(f"{name} is a day such as 2026-11-23, got {value[:40]!r}") from None
    if not 1900 <= found.year <= 2200:
        raise BadInput(f"{name} is a day between the years 1900 and 2200, got {value[:40]!r}")
    return found.isoformat()
