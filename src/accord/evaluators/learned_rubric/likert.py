"""A judge's answers as points (RUBICON, section 3.1): the lowest option is 0, the highest 10, what does not apply 5."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accord.evaluators.learned_rubric.sharpness import POINT, TOP, Flags, Whole
from accord.evidence.judging import NOT_APPLICABLE
from accord.evidence.table import EvidenceTable

EXPECTED, LIKELIEST = "expected", "likeliest"
READINGS = (EXPECTED, LIKELIEST)


@dataclass(frozen=True)
class Points:
    """What was answered about n conversations to P assertions.

    Attributes:
        values: (P, n) whole thousandths of a point from 0 to 10,000; 5,000 where there is no answer.
        missing: (P, n) which have none although they apply.
    """

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
        read = shares @ place if reading == EXPECTED else place[shares.argmax(axis=1)]
        values[row, known] = np.rint(read[known] * 10 * POINT)
        silent = [evidence.absences.get((target, name)) == NOT_APPLICABLE for target in evidence.targets]
        missing[row] = ~known & ~np.array(silent, dtype=bool)
    return Points(values, missing)


def signed(values: Whole, sat: Flags, weights: Sequence[float]) -> Whole:
    """(P, n) what each answer adds to NetSAT: negated for DSAT, times the assertion's weight."""
    factors = np.where(sat, 1.0, -1.0) * np.array(weights, dtype=float)
    return np.asarray(np.rint(values * factors[:, None]), dtype=np.int32)


def answered(evidence: EvidenceTable, main: str) -> list[str]:
    """The questions that a judge answered on an ordered scale, without the main one, in the order of their columns."""
    names: Mapping[str, None] = dict.fromkeys(
        c.question for c in evidence.columns if c.question and c.option is not None
    )
    return [name for name in names if name != main]


def sides(values: Whole, good: NDArray[np.bool_]) -> Flags:
    """(P,) which questions speak for a conversation, where nobody says so: those answered higher about good ones."""
    return np.asarray(values[:, good].mean(axis=1) >= values[:, ~good].mean(axis=1))
