"""Number of further ratings that would show an evaluator's gain over a constant guess, from a learning curve."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accord.evidence import Ratings
from accord.learning import Predictions
from accord.statistics import clustered_mean

DETECTED = 3.4
"""Standard errors by which an effect must exceed 0 to be found at p < 0.01 with a probability of 80%."""
LEAST_MORE = 0.1
"""Smallest number of further ratings to report, as a share of the present ones; smaller estimates are imprecise."""
FEWEST_MORE = 30
"""Smallest number of further ratings to suggest: fewer rarely change a test."""
MOST_TIMES = 50
"""Estimates above this multiple of the present labels are not printed."""

Floats = NDArray[np.float64]


class Gain(NamedTuple):
    """Mean squared error of the constant minus the error of a candidate that learned from some number of labels."""

    labels: float
    value: float
    error: float


def gain_over(
    constant: Sequence[Predictions], system: Sequence[Predictions], rated: Ratings, labels: float
) -> Gain | None:
    """Mean squared error of the constant minus a system's, for a new annotator; `None` without predictions.

    Args:
        constant: Predictions of the constant in each repetition of the cross-validation.
        system: Predictions of the system in each repetition.
        rated: The ratings that both predict.
        labels: The number of ratings that both learned from, on average over the folds.
    """
    ours, other = (
        np.mean([(each.new_value - rated.value) ** 2 for each in repeats], axis=0) for repeats in (system, constant)
    )
    gain = gain_of(other, ours, rated)
    return gain._replace(labels=labels) if math.isfinite(gain.error) else None


def labels_needed(curve: Sequence[Gain]) -> int | None:
    """Estimate the number of further ratings that would show the gain over the constant, from a learning curve.

    The gain from n ratings is taken to be a - b / n with b >= 0, fitted by least squares weighted by n. Its standard
    error shrinks with the square root of n.

    Args:
        curve: Gains for growing numbers of ratings; the last one from all ratings.

    Returns:
        The number of ratings beyond the last point's, rounded up to two digits; `None` if the curve does not rise
        above 0, or more than `MOST_TIMES` as many would be needed.

    >>> labels_needed([Gain(50, 0.10, 0.10), Gain(100, 0.15, 0.10)])
    240
    >>> labels_needed([Gain(100, -0.1, 0.1)]) is None
    True
    """
    if not math.isfinite(curve[-1].error):
        return None
    n, value = (np.array([getattr(point, name) for point in curve], dtype=float) for name in ("labels", "value"))
    last = curve[-1]
    limit, slope = float(np.average(value, weights=n)), 0.0
    if len(curve) > 1:
        root = np.sqrt(n)
        (fitted, falling), *_ = np.linalg.lstsq(np.column_stack([root, -root / n]), root * value, rcond=None)
        limit, slope = (float(fitted), float(falling)) if falling > 0 else (limit, 0.0)
    for total in np.geomspace(last.labels, MOST_TIMES * last.labels, 400):
        if limit - slope / total >= DETECTED * last.error * math.sqrt(last.labels / total):
            more = max(total - last.labels, LEAST_MORE * last.labels, FEWEST_MORE)
            digits = 10 ** max(int(math.log10(more)) - 1, 0)
            return int(math.ceil(more / digits) * digits)
    return None


def gain_of(other: Floats, ours: Floats, rated: Ratings) -> Gain:
    """Return the mean of `other` - `ours` (n,) over ratings that have both, and its standard error over groups."""
    rows = np.flatnonzero(np.isfinite(other) & np.isfinite(ours))
    if len(set(rated.group[rows])) < 2:
        return Gain(len(rows), -math.inf, math.inf)
    difference = clustered_mean((other - ours)[rows], rated.group[rows])
    return Gain(len(rows), difference.mean, difference.error)
