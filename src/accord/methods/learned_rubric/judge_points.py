"""What selection is learned from: people's ratings as good and bad conversations, a judge's answers as points.

RUBICON, section 3.1: the lowest option is 0 points, the highest 10, and what does not apply 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput
from accord.evidence import EvidenceTable, Ratings, Training, ratings
from accord.methods.learned_rubric.selection_policies import SelectionSettings
from accord.methods.learned_rubric.separation_metrics import POINT, TOP, Flags, Whole
from accord.models import NOT_APPLICABLE
from accord.values import Labels, Question, Sample, Target

FEWEST = 2
"""Conversations of each class, without which nothing can be told apart."""


@dataclass(frozen=True)
class Verdicts:
    """(n,) rows of the evidence table with a good or a bad mean rating, which are good, and the (m,) undecided rows.

    `contradicted` counts those called good by some and bad by others, whatever their mean says.
    """

    row: NDArray[np.intp]
    good: Flags
    undecided: NDArray[np.intp]
    contradicted: int


def cuts(question: Question, settings: SelectionSettings) -> tuple[float, float]:
    """The highest mean rating that is bad and the lowest that is good; `BadInput` where they overlap."""
    numbers, bad, good = question.scale.numbers, settings.bad, settings.good
    middle, hair = (numbers[0] + numbers[-1]) / 2, (numbers[-1] - numbers[0]) * 1e-9
    low, high = middle - hair if bad is None else bad, middle + hair if good is None else good
    if low >= high:
        raise BadInput(f"a rating of at most {low:g} is bad and of at least {high:g} good; the two may not overlap")
    return low, high


def verdicts(rated: Ratings, question: Question, settings: SelectionSettings, fewest: int = 0) -> Verdicts:
    """Each rated row's class by its mean rating.

    Raises:
        BadInput: The cuts overlap, or fewer than `fewest` rows are good, or bad.
    """
    low, high = cuts(question, settings)
    rows, place = np.unique(rated.row, return_inverse=True)
    count = np.bincount(place, minlength=len(rows))
    mean = np.bincount(place, weights=rated.value, minlength=len(rows)) / np.maximum(count, 1)
    lowest, highest = np.full(len(rows), np.inf), np.full(len(rows), -np.inf)
    np.minimum.at(lowest, place, rated.value)
    np.maximum.at(highest, place, rated.value)
    decided = (mean <= low) | (mean >= high)
    found = mean[decided] >= high
    good, bad, undecided = int(found.sum()), int((~found).sum()), int((~decided).sum())
    if min(good, bad) < fewest:
        raise BadInput(
            f"by {question.id!r}, {good} conversations with evidence are good, {bad} bad and {undecided} "
            f"undecided; a rubric is learned from at least {fewest} of each. Import labels of the rarer kind, or say "
            "which ratings are bad and good: sources: {learned-rubric: {bad: 2, good: 4}}"
        )
    return Verdicts(rows[decided], found, rows[~decided], int(((lowest <= low) & (highest >= high)).sum()))


def verdicts_of(
    targets: Iterable[Target], labels: Labels, question: Question, settings: SelectionSettings, fewest: int = 0
) -> Verdicts:
    """The class of each rated target; rows are places among the targets.

    Raises:
        BadInput: As `verdicts`, or the question compares, or its scale has no order.
    """
    if question.compares:
        raise BadInput(f"{question.id!r} compares two conversations; a rubric is learned from ratings of one")
    bare = EvidenceTable.from_rows([], {target: {} for target in targets})
    return verdicts(ratings(bare, labels, question), question, settings, fewest)


@dataclass(frozen=True)
class Decided:
    """The samples that people called good or bad, (n,) which are good, and how many have contradicting labels."""

    samples: Sequence[Sample]
    good: Flags
    contradicted: int

    @classmethod
    def of(cls, train: Training, settings: SelectionSettings, fewest: int = FEWEST) -> Decided:
        """Those of one side; `BadInput` where fewer than `fewest` are good, or bad."""
        found = verdicts_of(train.targets, train.labels, train.question, settings, fewest)
        return cls([train.samples[row] for row in found.row], found.good, found.contradicted)


# --- a judge's answers as points -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Points:
    """(P, n) thousandths of a point from 0 to 10,000, 5,000 without an answer; which have none although they apply."""

    values: Whole
    missing: Flags


def points(evidence: EvidenceTable, questions: Sequence[str], reading: str) -> Points:
    """Answers as points: the expectation of each distribution, or its likeliest option.

    Raises:
        BadInput: A question was not answered in this evidence.
    """
    values = np.full((len(questions), len(evidence)), TOP // 2, dtype=np.int32)
    missing = np.zeros(values.shape, dtype=bool)
    for row, name in enumerate(questions):
        options, shares, known = evidence.distribution(name)
        place = (np.array(options) - options[0]) / (options[-1] - options[0])
        read = shares @ place if reading == "expected" else place[shares.argmax(axis=1)]
        values[row, known] = np.rint(read[known] * 10 * POINT)
        silent = [evidence.absences.get((target, name)) == NOT_APPLICABLE for target in evidence.targets]
        missing[row] = ~known & ~np.array(silent, dtype=bool)
    return Points(values, missing)


def signed(values: Whole, sat: Flags, weights: Sequence[float]) -> Whole:
    """(P, n) what each answer adds to NetSAT: negated for DSAT, times the assertion's weight."""
    factors = np.where(sat, 1.0, -1.0) * np.array(weights, dtype=float)
    return np.asarray(np.rint(values * factors[:, None]), dtype=np.int32)
