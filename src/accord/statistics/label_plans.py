"""Numbers of labels: the smallest difference of two systems that labels can show, and the labels that one needs.

The variance of a mean, or of a difference, is a/n + b for n labels: a/n of the labels beyond the scores, b of the
scores of all rows. A test at the level `SIGNIFICANT` finds a difference d with the probability `POWER` if

    d = (t + z)·√(a/n + b),   t = quantile of Student's t at 1 - SIGNIFICANT/2,   z = normal quantile at POWER
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from accord.statistics.corrected_means import SystemMean
from accord.statistics.defaults import SIGNIFICANT
from accord.statistics.intervals import CenteredPart, normal_quantile, spread_of, t_quantile

POWER = 0.8
"""Probability of finding a difference that exists."""


@dataclass(frozen=True)
class DifferencePlan:
    """Differences that the labels of two systems can show.

    Attributes:
        first, second: Names of the systems.
        smallest: Smallest difference that the present labels show with the probability `POWER`.
        labels: Present labels of both.
        asked: The asked difference.
        needed: Labels of both that it needs with the scores, or `None` if the scores of all units are too few.
        needed_alone: Labels of both that it needs without scores.
    """

    first: str
    second: str
    smallest: float
    labels: int
    asked: float
    needed: int | None
    needed_alone: int

    @property
    def fewest(self) -> int:
        """Labels of both that the asked difference needs, with or without scores."""
        return self.needed_alone if self.needed is None else min(self.needed, self.needed_alone)

    def to_json(self) -> dict[str, Any]:
        """Return a flat row of JSON values."""
        return {**asdict(self), "fewest": self.fewest}


def labels_for(error: float, present: int, labels: float, scores: float, alone: float) -> tuple[float, float]:
    """Return the labels that a standard error needs, with scores (infinite if they are too few) and without.

    Args:
        error: The standard error.
        present: Present number of labels.
        labels: Their part of the present variance, a/n.
        scores: Part of the scores, b.
        alone: Variance from the present labels alone.
    """
    wanted = error**2
    return (present * labels / (wanted - scores) if wanted > scores else math.inf), present * alone / wanted


def difference_plan(first: SystemMean, second: SystemMean, asked: float) -> DifferencePlan | None:
    """Return the differences that the labels of two systems show, or `None` if a system has no interval.

    Both get more labels in proportion to those that they have.

    Args:
        first: Mean of a system.
        second: Mean of the other one.
        asked: Difference to plan for, above 0.
    """
    if first.reason or second.reason:
        return None

    def variance(*parts: CenteredPart | None) -> float:
        return spread_of([part for part in parts if part is not None])[0] ** 2

    error, freedom = spread_of([*first.parts, *(part.times(-1.0) for part in second.parts)], first.spent)
    away = float(normal_quantile(POWER))
    present = first.labelled + second.labelled
    scored = len(first.parts) > 1 and len(second.parts) > 1
    needed, alone = labels_for(
        asked / (float(normal_quantile(1 - SIGNIFICANT / 2)) + away), present,
        variance(first.parts[0], second.parts[0].times(-1.0)),
        variance(first.parts[1], second.parts[1].times(-1.0)) if scored else 0.0,
        variance(first.label_part, second.label_part and second.label_part.times(-1.0)),
    )  # fmt: skip
    smallest = (t_quantile(1 - SIGNIFICANT / 2, freedom) + away) * error
    return DifferencePlan(
        first.system, second.system, smallest, present, asked, math.ceil(needed) if needed < math.inf else None,
        math.ceil(alone),
    )  # fmt: skip
