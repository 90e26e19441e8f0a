"""Labels of one question with several wordings or scales: counts by wording, and labels on the present scale.

A label keeps the key of its question and the range of its scale (`Question.wording`). Labels of older stores keep the
key alone, and labels that were stored before the rubric had their question keep neither; their values tell whether
the present scale holds them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from accord.edges import BadInput, count_of
from accord.formats.labels.answers import answer_to
from accord.formats.record import WrongShape
from accord.values import Label, Question, Rubric, Value

OtherScales = Literal["stop", "leave-out", "map", "keep"]
"""Treatment of labels on another scale than their question has now."""
OTHER_SCALES: tuple[OtherScales, ...] = get_args(OtherScales)
UNKNOWN_SCALE = "an unknown scale"
_NUMBER = r"(-?\d{1,20}(?:\.\d{1,20})?(?:e[-+]?\d{1,2})?)"
_RANGE = re.compile(rf"{_NUMBER}\.\.{_NUMBER}(?: \(\d+\))?")


@dataclass(frozen=True)
class LabelWordings:
    """Numbers of labels of a question by wording and scale.

    Attributes:
        question: Short name of the question, or its id.
        present: Labels of the present wording.
        earlier: Labels of another wording on the present scale.
        unknown: Labels without a stored wording, with values of the present scale.
        other_scales: Labels on other scales, by the range of the scale.
    """

    question: str
    present: int = 0
    earlier: int = 0
    unknown: int = 0
    other_scales: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_mixed(self) -> bool:
        """True if labels answer more than one wording."""
        return bool(self.earlier or self.other_scales or (self.present and self.unknown))

    def __str__(self) -> str:
        """Return the counts as a sentence without a full stop; empty if there is one wording."""
        if not self.is_mixed:
            return ""
        clauses = [f"{self.earlier:,} an earlier one"] if self.earlier else []
        clauses += [f"{self.unknown:,} one that is not stored"] if self.unknown else []
        clauses += [f"{count:,} one with the scale {scale}" for scale, count in self.other_scales.items()]
        first = f"{count_of(self.present, 'label')} of {self.question!r} answer{'s' * (self.present == 1)}"
        return f"{first} the present wording, {', '.join(clauses)}"


def label_wordings(question: Question, counted: Iterable[tuple[str | None, Value, int]]) -> LabelWordings:
    """Return the numbers of labels of a question by wording.

    Args:
        question: The question with its present scale.
        counted: Wording, value and number of equal labels.
    """
    present, earlier, unknown, others = 0, 0, 0, dict[str, int]()
    for wording, value, count in counted:
        if (other := other_scale(question, wording, value)) is not None:
            others[other] = others.get(other, 0) + count
        elif wording is None:
            unknown += count
        elif _key(wording) == question.key:
            present += count
        else:
            earlier += count
    return LabelWordings(question.shown, present, earlier, unknown, dict(sorted(others.items())))


def other_scale(question: Question, wording: str | None, value: Value) -> str | None:
    """Return the range of a label's scale if it differs from the range of its question, else None."""
    if wording is not None and _key(wording) == question.key:
        return None
    known = "" if wording is None else wording.partition(" ")[2]
    if known:
        return None if known == question.scale.range else known
    return None if question.scale.holds(value) or _is_answer(question, value) else UNKNOWN_SCALE


def on_present_scale(labels: Iterable[Label], rubric: Rubric, how: OtherScales) -> Iterator[Label]:
    """Yield the labels with those on another scale left out, mapped linearly, or kept with their values.

    `stop` yields all labels unchanged. A mapped value is the nearest one of the present scale.

    Raises:
        BadInput: A label cannot be mapped: its scale is unknown, or one of the scales has no order.
    """
    if how == "stop":
        yield from labels
        return
    changes: dict[tuple[str, str | None, Value], Callable[[Label], Label | None] | None] = {}
    for label in labels:
        if label.value is None or (question := rubric.get(label.question)) is None:
            yield label
            continue
        case = label.question, label.wording, label.value
        if case not in changes:
            other = other_scale(question, label.wording, label.value)
            changes[case] = None if other is None else _change(question, label, other, how)
        change = changes[case]
        if (changed := label if change is None else change(label)) is not None:
            yield changed


def _change(question: Question, label: Label, other: str, how: OtherScales) -> Callable[[Label], Label | None]:
    """Return the function that leaves out, maps or keeps labels like this one."""
    if how == "leave-out":
        return lambda label: None
    value = label.value if how == "keep" else _mapped(question, label, other)
    wording = f"{_key(label.wording or 'unknown')} {question.scale.range}"
    return lambda label: replace(label, value=value, wording=wording)


def _mapped(question: Question, label: Label, other: str) -> Value:
    found, scale = _RANGE.fullmatch(other), question.scale
    low, high = (0.0, 0.0) if found is None else (float(found[1]), float(found[2]))
    if low >= high or not scale.is_ordered or not isinstance(label.value, int | float):
        raise BadInput(
            f"{question.id!r}: the label {label.value!r} of {label.annotator!r} is on {other}, which cannot be mapped "
            f"to {scale.range}. Leave such labels out: --other-scales leave-out, or other_scales: leave-out in "
            "accord.yaml; or correct them"
        )
    numbers = scale.numbers
    place = numbers[0] + (label.value - low) / (high - low) * (numbers[-1] - numbers[0])
    if not scale.options:
        return min(max(place, numbers[0]), numbers[-1])
    return min(scale.options, key=lambda option: (abs(float(option) - place), -float(option)))


def _key(wording: str) -> str:
    return wording.partition(" ")[0]


def _is_answer(question: Question, value: Value) -> bool:
    """Return True if a value of a file, such as "yes", is an answer of the scale by its text or meaning."""
    try:
        answer = answer_to(question, value, question.id)
    except WrongShape:
        return False
    return answer is None or question.scale.holds(answer)
