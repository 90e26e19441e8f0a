"""What people called good and bad: the classes of conversations that a rubric is learned from, and tried on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accord.evidence import EvidenceTable, Ratings, Training, ratings
from accord.methods.learned_rubric.selection import SelectionSettings
from accord.methods.learned_rubric.sharpness import Flags
from accord.values import BadInput, Labels, Question, Sample, Target

FEWEST = 2
"""Conversations of each class, without which nothing can be told apart."""


@dataclass(frozen=True)
class Verdicts:
    """What people called good and bad, one row per conversation (or turn).

    Attributes:
        row: (n,) row of the evidence table.
        good: (n,) whether their mean rating is good; the others' is bad.
        undecided: (m,) rows whose mean rating lies between.
        contradicted: How many were called good by some and bad by others, whatever their mean says.
    """

    row: NDArray[np.intp]
    good: Flags
    undecided: NDArray[np.intp]
    contradicted: int


def cuts(question: Question, bad: float | None, good: float | None) -> tuple[float, float]:
    """The highest mean rating that is bad and the lowest that is good; by default those beyond the scale's middle.

    Raises:
        BadInput: They overlap.
    """
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
    return Verdicts(rows[decided], mean[decided] >= high, rows[~decided], torn)


def verdicts_of(targets: Iterable[Target], labels: Labels, question: Question, settings: SelectionSettings) -> Verdicts:
    """The class of each rated target; rows are places among the targets.

    Raises:
        BadInput: The question compares, its scale has no order, or the cuts overlap.
    """
    if question.compares:
        raise BadInput(f"{question.id!r} compares two conversations; a rubric is learned from ratings of one")
    bare = EvidenceTable.from_rows([], {target: {} for target in targets})
    return verdicts(ratings(bare, labels, question), question, settings.bad, settings.good)


def check_both(found: Verdicts, question: Question, fewest: int = FEWEST) -> None:
    """Refuse to learn from one class.

    Raises:
        BadInput: Fewer than `fewest` conversations are good, or bad.
    """
    good, bad = int(found.good.sum()), int((~found.good).sum())
    if min(good, bad) < fewest:
        raise BadInput(
            f"by {question.id!r}, {good} conversations with evidence are good, {bad} bad and {len(found.undecided)} "
            f"undecided; a rubric is learned from at least {fewest} of each. Import labels of the rarer kind, or say "
            "which ratings are bad and good: sources: {learned-rubric: {bad: 2, good: 4}}"
        )


@dataclass(frozen=True)
class Decided:
    """The samples that people called good or bad.

    Attributes:
        pairs: Samples with whether they are good.
        contradicted: How many were called good by some and bad by others.
    """

    pairs: Sequence[tuple[Sample, bool]]
    contradicted: int = 0

    @classmethod
    def of(cls, train: Training, settings: SelectionSettings, fewest: int = FEWEST) -> Decided:
        """Those among the samples that there is to learn from, or to try on.

        Raises:
            BadInput: There are fewer than `fewest` good ones, or bad ones.
        """
        found = verdicts_of(train.targets, train.labels, train.question, settings)
        check_both(found, train.question, fewest)
        pairs = [(train.samples[row], bool(good)) for row, good in zip(found.row, found.good, strict=True)]
        return cls(pairs, found.contradicted)

    @property
    def samples(self) -> list[Sample]:
        """The samples alone."""
        return [sample for sample, _ in self.pairs]

    @property
    def good(self) -> Flags:
        """(n,) which are good."""
        return np.array([good for _, good in self.pairs], dtype=bool)
