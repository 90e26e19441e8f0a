"""Good and bad conversations, from what people said of them on the main question."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accord.errors import BadInput
from accord.evaluators.learned_rubric.settings import is_number
from accord.evaluators.learned_rubric.sharpness import Flags
from accord.evaluators.ratings import Ratings
from accord.rubric import Question

FEWEST = 2
"""Conversations of each class, without which nothing can be told apart."""


@dataclass(frozen=True)
class Verdicts:
    """What people called good and bad, one row a conversation (or turn).

    Attributes:
        row: (n,) row of the evidence table.
        good: (n,) whether their mean rating is good; the others' is bad.
        undecided: How many lie between, and are left out.
        contradicted: How many were called good by some and bad by others, whatever their mean says.
    """

    row: NDArray[np.intp]
    good: Flags
    undecided: int
    contradicted: int


def cuts(question: Question, bad: float | None, good: float | None) -> tuple[float, float]:
    """The highest mean rating that is bad and the lowest that is good; by default those beyond the scale's middle.

    Raises:
        BadInput: They overlap.
    """
    for name, value in (("bad", bad), ("good", good)):
        if value is not None and not is_number(value):
            raise BadInput(f"{name} is a rating on the scale of {question.id!r}, got {value!r}")
    numbers = question.scale.numbers
    middle, hair = (numbers[0] + numbers[-1]) / 2, (numbers[-1] - numbers[0]) * 1e-9
    low, high = middle - hair if bad is None else bad, middle + hair if good is None else good
    if low >= high:
        raise BadInput(f"a rating of at most {low:g} is bad and of at least {high:g} good; the two may not overlap")
    return low, high


def verdicts(rated: Ratings, question: Question, bad: float | None = None, good: float | None = None) -> Verdicts:
    """Each rated row's class by its mean rating.

    Raises:
        BadInput: The cuts overlap.
    """
    low, high = cuts(question, bad, good)
    rows, place = np.unique(rated.row, return_inverse=True)
    count = np.bincount(place, minlength=len(rows))
    mean = np.bincount(place, weights=rated.value, minlength=len(rows)) / np.maximum(count, 1)
    lowest, highest = np.full(len(rows), np.inf), np.full(len(rows), -np.inf)
    np.minimum.at(lowest, place, rated.value)
    np.maximum.at(highest, place, rated.value)
    decided = (mean <= low) | (mean >= high)
    torn = int(((lowest <= low) & (highest >= high)).sum())
    return Verdicts(rows[decided], mean[decided] >= high, int((~decided).sum()), torn)


def check_both(found: Verdicts, question: Question, fewest: int = FEWEST) -> None:
    """Refuse to learn from one class.

    Raises:
        BadInput: Fewer than `fewest` conversations are good, or bad.
    """
    good, bad = int(found.good.sum()), int((~found.good).sum())
    if min(good, bad) < fewest:
        raise BadInput(
            f"by {question.id!r}, {good} conversations with evidence are good, {bad} bad and {found.undecided} "
            f"undecided; a rubric is learned from at least {fewest} of each. Import labels of the rarer kind, or say "
            "which ratings are bad and good: evaluator: {settings: {bad: 2, good: 4}}"
        )
