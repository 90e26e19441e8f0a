"""The scale of a table's labels, and the judge's answers on it.

Labels decide the scale. The judge may answer in other words for the same two values, with scores that a threshold turns
into them, or on another scale, which still predicts labels but has no bias.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput, one_line
from accord.formats import (
    MAX_ORDERED,
    MIN_PARSED,
    InferredScale,
    ObservedAnswers,
    WordOrder,
    has_none,
    infer_scale,
    is_missing,
    is_none,
    is_number,
    mixed_scales,
    number_of,
    observed_answers,
    order_for,
    typed,
    upper_share,
)
from accord.values import Scale, ScaleKind

Floats = NDArray[np.float64]
Kind = Literal["two-valued", "ordered", "continuous", "nominal"]
Parse = Callable[[Any], float | None]

USUAL_HIGHS = (1, 5, 7, 10, 100)


@dataclass(frozen=True)
class TableScale:
    """Scale of the labels.

    Attributes:
        kind: `two-valued`, `ordered` (up to 101 options), `continuous`, or `nominal` (no order).
        options: Values that occur or lie between those that do, in order.
        names: Name of each option, if it is a word.
        has_same: True if the judge answers on the same scale, by itself or by the threshold.
        threshold: Lowest value that counts as upper, or `None` for a nominal scale.
        judge_threshold: Lowest score of a judge on another scale that counts as upper, or `None` if unknown.
    """

    kind: Kind
    options: Floats
    names: Mapping[float, str]
    has_same: bool
    threshold: float | None = None
    judge_threshold: float | None = None

    @property
    def ends(self) -> tuple[float, float]:
        """Lowest and highest value."""
        return float(self.options[0]), float(self.options[-1])

    @property
    def is_two_valued(self) -> bool:
        """True for two values."""
        return self.kind == "two-valued"

    def name(self, value: float) -> str:
        """Return the name of a value; a number between the options is rounded."""
        return self.exact_name(value) if value in self.options else f"{value:.3g}"

    def exact_name(self, value: float) -> str:
        """Return the name of a value with all digits."""
        return self.names.get(value) or f"{value:.15g}"

    def __str__(self) -> str:
        low, high = map(self.name, self.ends)
        if self.is_two_valued:
            return f"{low} or {high}; shares are of {high}"
        if self.kind == "nominal":
            return ", ".join(map(self.name, self.options))
        return f"{low} to {high}" + ("" if self.kind == "continuous" else f", {len(self.options)} values")


def has_none_as_answer(cells: Sequence[Any], orders: Sequence[WordOrder]) -> bool:
    """Return True if the word "none" in a column is an answer, by the other words or by an order of the user."""
    if any(order.place("none") is not None for order in orders):
        return True
    words = {cell for cell in cells if isinstance(cell, str) and not is_none(cell)}
    return len(words) <= MAX_ORDERED and has_none(words)


def stated_order(orders: Sequence[WordOrder], cells: Sequence[tuple[int, str, Any]], name: str) -> WordOrder | None:
    """Return the order of words that the user states for the labels and the judge's answers, or `None` if not stated.

    Args:
        orders: Orders that the user states.
        cells: Row, column and content of each label and answer.
        name: Name of the table, for errors.

    Raises:
        BadInput: There are several orders, the order lacks a word of a column, or no column has its words.
    """
    if not orders:
        return None
    if len(orders) > 1:
        raise BadInput(f"--order: a check has one scale, got {len(orders)} orders; name one of them")
    words: dict[str, dict[Any, None]] = {}
    for _, column, cell in cells:
        if not is_missing(cell):
            words.setdefault(column, {})[typed(cell)] = None
    worded = {column: values for column, values in words.items() if not all(map(is_number, values))}
    found = [order_for(orders, column, values) for column, values in worded.items()]
    if not any(found):
        raise BadInput(
            f"{name}: --order {orders[0]}: no column has these words; columns of labels and answers with words: "
            f"{', '.join(worded) or 'none'}"
        )
    for column, values in worded.items():
        orders[0].check(column, values)
    return orders[0]


def table_scale(
    people: Sequence[Any],
    judge: Sequence[Any],
    yes: str | None,
    threshold: float | None,
    name: str,
    order: WordOrder | None = None,
) -> tuple[TableScale, Parse, Parse]:
    """Return the scale of labels, and the functions that convert cells of people and of the judge to numbers.

    Args:
        people: Labels of people.
        judge: Answers of the judge.
        yes: Word that counts as the upper of two values.
        threshold: Lowest value that counts as upper; by default the first option above the middle.
        name: Name of the table, for errors.
        order: Order of words that the user states.

    Raises:
        BadInput: The labels or the answers form no scale.
    """
    own, other, both = observed_answers(people), observed_answers(judge), observed_answers([*people, *judge])
    for observed in (own, other, both):
        if order is not None and not any(number_of(value) is not None for value in observed.values):
            observed.order = order
    _check_values(own, "labels of people", name, any(isinstance(cell, list) for cell in people))
    _check_values(other, "scores of the judge", name, any(isinstance(cell, list) for cell in judge))
    if yes is not None:
        return _by_word(yes, own, other, threshold, name)
    labels, answers = _inferred(own), _inferred(other)
    if labels is not None and labels.meanings and _share_parsed(other, parser := _parser(labels)) >= MIN_PARSED:
        return _scale_of(labels, True, threshold), parser, parser
    joint = _inferred(both)
    if joint is not None and joint.scale.is_ordered and _is_one_scale(labels, answers, joint):
        parse = _parser(joint)
        return _scale_of(joint, True, threshold), parse, parse
    if labels is None and joint is not None and joint.scale.is_ordered:
        labels = joint
    if labels is None:
        raise BadInput(_no_scale(name, own))
    if answers is None or not labels.scale.is_ordered or not answers.scale.is_ordered:
        return _nominal(both, own, other, labels, name)
    return _two_scales(labels, answers, threshold)


def _check_values(observed: ObservedAnswers, of: str, name: str, has_lists: bool) -> None:
    """Raise `BadInput` for a column without values, or with values on two scales."""
    if not observed.total:
        reason = "in lists; write a column for each, such as judge_1 and judge_2" if has_lists else "empty"
        raise BadInput(f"{name}: the {of} are {reason}, or name another column with --human or --judge")
    if (mixed := mixed_scales(observed)) is not None:
        low, high = (f"{sum(side.values())} from {min(side):g} to {max(side):g}" for side in mixed)
        raise BadInput(f"{name}: the {of} have values on two scales, {low} and {high}; convert them to one scale")


def _two_scales(
    labels: InferredScale, answers: InferredScale, threshold: float | None
) -> tuple[TableScale, Parse, Parse]:
    """Return the scale of labels with answers on another scale; two answers match the two labels in their order."""
    parse, parse_judge = _parser(labels), _parser(answers)
    if len(labels.scale.options) == 2 and len(answers.scale.options) == 2:
        return _scale_of(labels, True, None), parse, _on_ends(parse_judge, answers, labels)
    return _with_threshold(labels, answers, threshold), parse, parse_judge


def _on_ends(parse: Parse, answers: InferredScale, labels: InferredScale) -> Parse:
    """Return the function that converts one of two answers to the label in the same place."""
    targets = dict(zip(_ends(answers.scale), _ends(labels.scale), strict=True))

    def parse_answer(cell: Any) -> float | None:
        number = parse(cell)
        return None if number is None else targets.get(number)

    return parse_answer


def _inferred(observed: ObservedAnswers) -> InferredScale | None:
    """Return the scale of values; words other than the two most frequent ones are left out if they are rare."""
    found = infer_scale(observed)
    if (found is None or not found.scale.is_ordered) and upper_share(observed) >= MIN_PARSED:
        top = Counter({str(value): count for value, count in observed.values.items()}).most_common(2)
        return infer_scale(observed_answers([word for word, _ in top]))
    return found


def _parser(inferred: InferredScale) -> Parse:
    """Return the function that converts a cell to a number of the scale, or to `None` if it has none."""
    words = {text.casefold(): float(option) for option, text in inferred.meanings.items()}

    def parse(cell: Any) -> float | None:
        if not isinstance(cell, str | int | float) or (is_missing(cell) and not (words and is_none(cell))):
            return None
        value = typed(cell)
        number = number_of(value)
        return words.get(str(value).casefold()) if words else number

    return parse


def ordered_parser(cells: Iterable[Any]) -> Parse | None:
    """Return the function that converts ordered words, such as low and high, to numbers, or `None` for other cells."""
    found = infer_scale(observed_answers(cells))
    return _parser(found) if found is not None and found.scale.is_ordered else None


def _share_parsed(observed: ObservedAnswers, parse: Parse) -> float:
    parsed = sum(count for value, count in observed.values.items() if parse(value) is not None)
    return parsed / max(observed.total, 1)


def _is_one_scale(labels: InferredScale | None, answers: InferredScale | None, joint: InferredScale) -> bool:
    """Return True if both sides can be on one scale: words with an order, or numbers with equal usual highest values.

    A side with few of the words, such as two letters, has no order of its own.
    """
    if labels is None or answers is None:
        return True
    if not (labels.scale.is_ordered and answers.scale.is_ordered):
        return bool(joint.meanings)
    if labels.meanings or answers.meanings:
        return bool(labels.meanings) and bool(answers.meanings)
    own, other = _ends(labels.scale), _ends(answers.scale)
    if own in ((0.0, 1.0), (-1.0, 1.0)) and len(labels.scale.options) == 2 and len(answers.scale.options) != 2:
        return False  # two values, and scores between them
    return _usual_high(own) == _usual_high(other) and min(own[0], other[0]) >= -1


def _ends(scale: Scale) -> tuple[float, float]:
    return scale.numbers[0], scale.numbers[-1]


def _usual_high(ends: tuple[float, float]) -> float:
    return next((high for high in USUAL_HIGHS if ends[1] <= high), ends[1])


def _scale_of(inferred: InferredScale, has_same: bool, threshold: float | None) -> TableScale:
    scale = inferred.scale
    names = {float(option): text for option, text in inferred.meanings.items()}
    is_continuous = scale.kind is ScaleKind.REAL
    options = np.array(scale.numbers, dtype=float)
    kind: Kind = "continuous" if is_continuous else "two-valued" if len(options) == 2 else "ordered"
    limit = float(options[-1]) if kind == "two-valued" else _threshold(options, is_continuous, threshold)
    return TableScale(kind, options, names, has_same, limit)


def _threshold(options: Floats, is_continuous: bool, threshold: float | None) -> float:
    if threshold is not None:
        return threshold
    middle = float(options[0] + options[-1]) / 2
    return middle if is_continuous else float(options[options > middle][0])


def _with_threshold(labels: InferredScale, answers: InferredScale, threshold: float | None) -> TableScale:
    """Return the scale of labels with the threshold that turns scores on another scale into two values."""
    if len(labels.scale.options) != 2:
        return _scale_of(labels, False, threshold)
    low, high = _ends(answers.scale)
    limit = threshold if threshold is not None else 0.5 if (low, high) == (0.0, 1.0) else None
    base = _scale_of(labels, limit is not None, None)
    return TableScale(base.kind, base.options, base.names, base.has_same, base.threshold, limit)


def _by_word(
    yes: str, own: ObservedAnswers, other: ObservedAnswers, threshold: float | None, name: str
) -> tuple[TableScale, Parse, Parse]:
    """Return the scale of two values, of which the user names the upper one."""
    upper = yes.strip().casefold()
    words = Counter({str(value).casefold(): count for value, count in own.values.items()})
    if upper not in words:
        listed = ", ".join(repr(str(value)) for value in list(own.values)[:10])
        raise BadInput(f"{name}: no label of people is {yes!r}; labels are {listed}. Name one of them with --yes")
    lower = next((word for word, _ in words.most_common() if word != upper), f"not {upper}")
    inferred = InferredScale(Scale(kind=ScaleKind.BINARY, options=(0, 1)), {"0": lower, "1": upper})
    parse, answers = _parser(inferred), _inferred(other)
    if _share_parsed(other, parse) >= MIN_PARSED or answers is None or not answers.scale.is_ordered:
        return _scale_of(inferred, True, None), parse, parse
    return _with_threshold(inferred, answers, threshold), parse, _parser(answers)


def _nominal(
    both: ObservedAnswers, own: ObservedAnswers, other: ObservedAnswers, labels: InferredScale, name: str
) -> tuple[TableScale, Parse, Parse]:
    """Return a scale without order: names are numbered."""
    words = sorted({str(value).casefold() for value in both.values})
    if labels.scale.is_ordered or len(words) > MAX_NAMES:
        raise BadInput(_no_scale(name, own if labels.scale.kind is ScaleKind.NOMINAL else other))
    codes = {word: float(place) for place, word in enumerate(words)}

    def parse(cell: Any) -> float | None:
        return None if is_missing(cell) else codes.get(str(typed(cell)).casefold())

    names = {code: word for word, code in codes.items()}
    return TableScale("nominal", np.array(sorted(names)), names, True), parse, parse


MAX_NAMES = 20
"""Largest number of names of a scale without order."""


def _no_scale(name: str, observed: ObservedAnswers) -> str:
    values = [repr(one_line(str(value), 30)) for value in list(observed.values)[:6]]
    if len(observed.values) == 1:
        return f"{name}: every label is {values[0]}, so agreement is unknown; label rows that people judge differently"
    return (
        f"{name}: {len(observed.values)} different values ({', '.join(values)}, ...) form no scale. Allowed: numbers, "
        "yes and no, words with an order (poor, good), or up to 10 names. Name another column with --human or --judge"
    )
