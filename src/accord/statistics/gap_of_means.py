"""Difference of the means of two groups of texts, with an interval over inputs or conversations that both may share.

The gap is the difference of the two reported means, which use the same rows. Texts of one input are one
unit in both groups: an input that both groups answered makes the interval narrower, as a paired comparison does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accord.statistics.chart_intervals import MIN_CLUSTERS
from accord.statistics.intervals import CenteredPart, p_value, reach
from accord.values import Estimate

Floats = NDArray[np.float64]
_NO_ERROR = 1e-12


@dataclass(frozen=True)
class GapOfMeans:
    """Difference of two means, first minus second.

    Attributes:
        gap: The difference with its t interval; without one if a side has fewer than `MIN_CLUSTERS` units, or if
            nothing varies.
        p: Two-sided p of no difference, or `None` without an interval.
        means: Mean of each side, or `None` without texts.
        sizes: Number of texts of each side.
        shared: Number of units with texts on both sides.
    """

    gap: Estimate
    p: float | None
    means: tuple[float | None, float | None]
    sizes: tuple[int, int]
    shared: int


def gap_of_means(first: ArrayLike, first_unit: ArrayLike, second: ArrayLike, second_unit: ArrayLike) -> GapOfMeans:
    """Return the difference of the means of two groups of texts.

    Args:
        first: (n,) values of the texts of the first group.
        first_unit: (n,) unit of each text, such as its input or its conversation; equal names are one unit.
        second: (m,) values of the texts of the second group.
        second_unit: (m,) unit of each of these.

    >>> found = gap_of_means([4, 4, 5, 3, 4], list("abcde"), [3, 4, 4, 2, 3], list("abcde"))
    >>> found.gap.text(), found.shared, found.means
    ('0.80 [0.24, 1.36]', 5, (4.0, 3.2))
    """
    sides = [(np.asarray(values, dtype=float), np.asarray(unit)) for values, unit in
             ((first, first_unit), (second, second_unit))]  # fmt: skip
    sizes = len(sides[0][0]), len(sides[1][0])
    means = tuple(float(values.mean()) if len(values) else None for values, _ in sides)
    units = [np.unique(unit, return_inverse=True) for _, unit in sides]
    shared = len(np.intersect1d(units[0][0], units[1][0])) if all(sizes) else 0
    if means[0] is None or means[1] is None:
        return GapOfMeans(Estimate(), None, (means[0], means[1]), sizes, shared)
    gap = means[0] - means[1]
    parts = [
        CenteredPart(sign * np.bincount(place, values - values.mean()) / len(values), names.astype(str))
        for sign, (values, _), (names, place) in zip((1.0, -1.0), sides, units, strict=True)
    ]
    half = reach(parts) if min(len(part.adds) for part in parts) >= MIN_CLUSTERS else 0.0
    if half <= _NO_ERROR:
        return GapOfMeans(Estimate(gap), None, (means[0], means[1]), sizes, shared)
    return GapOfMeans(Estimate(gap, gap - half, gap + half), p_value(gap, parts), (means[0], means[1]), sizes, shared)
