"""The scale of a table's labels, and the judge's answers on it.

Labels decide the scale. The judge may answer in other words for the same two values, with scores that a threshold turns
into them, or on another scale, which still predicts labels but has no bias.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput, one_line
from accord.formats import NOT_APPLICABLE
from accord.project import InferredScale, ObservedAnswers, infer_scale, mixed_scales, number_of
from accord.values import Scale, ScaleKind

Floats = NDArray[np.float64]
Kind = Literal["two-valued", "ordered", "continuous", "nominal"]
Parse = Callable[[Any], float | None]

MIN_PARSED = 0.8
"""Smallest share of a column's values that must be on its scale; the others are left out with a note."""
USUAL_HIGHS = (1, 5, 7, 10, 100)


@dataclass(frozen=True)
class TableScale:
    """Scale of the labels.

    Attributes:
        kind: `two-valued`, `ordered` (up to 101 options), `continuous`, or `nominal` (no order).
        options: Values that occur or lie between those that do, in order.
        names: Name of each option, if it is a word.
        has_same: True if the judge answers on the same scale, by itself or by the threshold.
        threshold: Lowest value that counts as upper; None for a nominal scale.
        judge_threshold: Score of a judge on another scale from which its answer is the upper value; None if unknown.
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
        """Return the name of a value."""
        return self.names.get(value) or f"{value:.3g}"

    def __str__(self) -> str:
        low, high = map(self.name, self.ends)
        if self.is_two_valued:
            return f"{low} or {high}; shares are of {high}"
        if self.kind == "nominal":
            return ", ".join(map(self.name, self.options))
        return f"{low} to {high}" + ("" if self.kind == "continuous" else f", {len(self.options)} values")


def is_missing(cell: Any) -> bool:
    """Return True for an empty cell and words for "no answer"."""
    if cell is None or (isinstance(cell, float) and not math.isfinite(cell)):
        return True
    return isinstance(cell, str) and (not cell.strip() or cell.strip().casefold() in NOT_APPLICABLE)


def is_number(cell: Any) -> bool:
    """Return True for a number, or the text of one."""
    return isinstance(cell, bool | int | float | str) and number_of(_plain(cell)) is not None


def _plain(cell: Any) -> Any:
    return cell.strip() if isinstance(cell, str) else int(cell) if isinstance(cell, bool) else cell


def _observed(cells: Iterable[Any]) -> ObservedAnswers:
    observed = ObservedAnswers("values")
    for cell in cells:
        if not is_missing(cell) and isinstance(cell, str | int | float):
            observed.add(cell, None, None)
    return observed


def has_scale(cells: Sequence[Any]) -> bool:
    """Return True if the cells of a column can be answers: numbers, one word, or words of a scale."""
    observed = _observed(cells)
    if not observed.total:
        return False
    words = {str(value).casefold() for value in observed.values if number_of(value) is None}
    if infer_scale(observed) is not None:
        return True
    is_single = len(observed.values) == 1 and all(len(word) <= 30 for word in words)
    return is_single or _upper_share(observed) >= MIN_PARSED


def no_scale(cells: Sequence[Any]) -> str:
    """Return the reason why the cells of a column are no answers, as a predicate."""
    observed = _observed(cells)
    if not observed.total:
        return "is empty"
    words = Counter({str(value): n for value, n in observed.values.items() if number_of(value) is None})
    if 0 < words.total() < observed.total:
        listed = ", ".join(repr(one_line(word, 30)) for word, _ in words.most_common(3))
        return f"mixes {observed.total - words.total()} numbers with {words.total()} words ({listed})"
    return f"has {len(observed.values)} different values that form no scale"


def _upper_share(observed: ObservedAnswers) -> float:
    """Return the share of the two most frequent words if they are the two values of a scale, else 0."""
    top = Counter({str(value).casefold(): count for value, count in observed.values.items()}).most_common(2)
    scale = infer_scale(_observed([word for word, _ in top]))
    is_pair = scale is not None and scale.scale.kind is ScaleKind.BINARY
    return sum(count for _, count in top) / observed.total if is_pair else 0.0


def table_scale(
    people: Sequence[Any], judge: Sequence[Any], yes: str | None, threshold: float | None, name: str
) -> tuple[TableScale, Parse, Parse]:
    """Return the scale of labels, and the functions that convert cells of people and of the judge to numbers.

    Args:
        people: Labels of people.
        judge: Answers of the judge.
        yes: Word that counts as the upper of two values.
        threshold: Lowest value that counts as upper; by default the first option above the middle.
        name: Name of the table, for errors.

    Raises:
        BadInput: The labels or the answers form no scale.
    """
    own, other, both = _observed(people), _observed(judge), _observed([*people, *judge])
    _check_values(own, "labels of people", name)
    _check_values(other, "scores of the judge", name)
    if yes is not None:
        return _by_word(yes, own, other, threshold, name)
    labels, answers = _inferred(own), _inferred(other)
    if labels is not None and labels.meanings and _share_parsed(other, parser := _parser(labels)) >= MIN_PARSED:
        return _scale_of(labels, True, threshold), parser, parser
    joint = _inferred(both)
    if joint is not None and joint.scale.is_ordered and _is_one_scale(labels, answers):
        parse = _parser(joint)
        return _scale_of(joint, True, threshold), parse, parse
    if labels is None and joint is not None and joint.scale.is_ordered:
        labels = joint
    if labels is None:
        raise BadInput(_no_scale(name, own))
    if answers is None or not labels.scale.is_ordered or not answers.scale.is_ordered:
        return _nominal(both, own, other, labels, name)
    return _two_scales(labels, answers, threshold)


def _check_values(observed: ObservedAnswers, of: str, name: str) -> None:
    """Raise `BadInput` for a column without values, or with values on two scales."""
    if not observed.total:
        raise BadInput(f"{name}: the {of} are empty; name another column with --human or --judge")
    if (mixed := mixed_scales(observed)) is not None:
        low, high = (f"{sum(side.values())} from {min(side):g} to {max(side):g}" for side in mixed)
        raise BadInput(f"{name}: the {of} have values on two scales, {low} and {high}; convert them to one scale")


def _two_scales(
    labels: InferredScale, answers: InferredScale, threshold: float | None
) -> tuple[TableScale, Parse, Parse]:
    """Return the scale of labels beside answers on another scale; two answers are the two labels in their order."""
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
    """Return the scale of values; words beside the two most frequent ones are left out if they are rare."""
    found = infer_scale(observed)
    if (found is None or not found.scale.is_ordered) and _upper_share(observed) >= MIN_PARSED:
        top = Counter({str(value): count for value, count in observed.values.items()}).most_common(2)
        return infer_scale(_observed([word for word, _ in top]))
    return found


def _parser(inferred: InferredScale) -> Parse:
    """Return the function that converts a cell to a number of the scale; None for a missing or another value."""
    words = {text.casefold(): float(option) for option, text in inferred.meanings.items()}

    def parse(cell: Any) -> float | None:
        if is_missing(cell) or not isinstance(cell, str | int | float):
            return None
        value = _plain(cell)
        number = number_of(value)
        return words.get(str(value).casefold()) if words else number

    return parse


def ordered_parser(cells: Iterable[Any]) -> Parse | None:
    """Return the function that converts words with an order, such as low and high, to numbers; None for other cells."""
    found = infer_scale(_observed(cells))
    return _parser(found) if found is not None and found.scale.is_ordered else None


def _share_parsed(observed: ObservedAnswers, parse: Parse) -> float:
    parsed = sum(count for value, count in observed.values.items() if parse(value) is not None)
    return parsed / max(observed.total, 1)


def _is_one_scale(labels: InferredScale | None, answers: InferredScale | None) -> bool:
    """Return True if numbers of both sides can be on one scale: their usual highest values are equal."""
    if labels is None or answers is None:
        return True
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
    """Return the scale of labels beside scores on another scale, with the threshold that turns them into two values."""
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
        return None if is_missing(cell) else codes.get(str(_plain(cell)).casefold())

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
