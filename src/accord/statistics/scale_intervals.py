"""Intervals of shares and of means on a bounded scale, for few labels and values near an end of the scale.

The t interval of a share misses it too often near 0 and 1, where few labels show the rarer answer. Wilson's interval
(1927) does not: it holds the shares p with |p̂ - p| ≤ z·√(p(1 - p)/n). Any estimate θ of a mean on the scale 0 to 1 with
the squared standard error v is as precise as θ(1 - θ)/v independent labels, so Wilson's interval with this effective
number holds for it, too (Korn & Graubard, 1998, for survey samples); the interval stays within the scale.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from accord.statistics.defaults import CONFIDENCE
from accord.statistics.intervals import clustered_mean, normal_quantile, t_quantile
from accord.values import Estimate

TAIL = (1 + CONFIDENCE) / 2


def wilson(share: float, n: float, quantile: float) -> tuple[float, float]:
    """Return Wilson's interval of a share from `n` labels."""
    square = quantile**2
    middle = (share + square / (2 * n)) / (1 + square / n)
    half = quantile * np.sqrt(share * (1 - share) / n + square / (4 * n**2)) / (1 + square / n)
    return float(max(middle - half, 0.0)), float(min(middle + half, 1.0))


def clustered_quantile(n: float, freedom: float) -> float:
    """Return the normal quantile of an interval, wider for n rows with fewer degrees of freedom than n - 1."""
    ratio = t_quantile(TAIL, max(freedom, 1.0)) / t_quantile(TAIL, max(n - 1, 1.0))
    return float(normal_quantile(TAIL)) * max(ratio, 1.0)


def share_interval(events: ArrayLike, group: ArrayLike) -> Estimate:
    """Return the share of n events that occurred, with Wilson's interval for rows in G groups.

    The number of rows is divided by the design effect: the variance over groups divided by the variance of independent
    rows. If no event or every event occurred, it is G.

    Args:
        events: (n,) True for an event that occurred.
        group: (n,) group of each row.
    """
    x = np.asarray(events, dtype=float)
    if not len(x):
        return Estimate()
    found = clustered_mean(x, group)
    if found.groups < 2:
        return Estimate(found.mean)
    p, n = found.mean, float(found.n)
    if 0 < p < 1:
        effect = found.error**2 * (n - 1) / (p * (1 - p)) if n > 1 else 1.0
        n = min(n, n / effect) if effect > 0 else n
    else:
        n = float(found.groups)
    return Estimate(p, *wilson(p, n, clustered_quantile(found.n, found.groups - 1)))


def scale_interval(
    mean: float, error: float, freedom: float, n: int, ends: tuple[float, float], is_two_valued: bool
) -> tuple[float, float]:
    """Return Wilson's interval of a mean on a scale from its standard error.

    A variance that follows from the mean, as for two values, takes the normal quantile; other variances take
    Student's.

    Args:
        mean: The mean.
        error: Its standard error, above 0.
        freedom: Degrees of freedom of the error.
        n: Number of labels.
        ends: Lowest and highest value of the scale.
        is_two_valued: True if the scale has only these two values.
    """
    low, wide = ends[0], ends[1] - ends[0]
    share = min(max((mean - low) / wide, 1 / (2 * n)), 1 - 1 / (2 * n))
    effective = share * (1 - share) / (error / wide) ** 2
    quantile = clustered_quantile(n, freedom) if is_two_valued else t_quantile(TAIL, freedom)
    first, last = wilson(share, effective, quantile)
    return min(low + wide * first, mean), max(low + wide * last, mean)


def mean_on_scale(values: ArrayLike, group: ArrayLike, ends: tuple[float, float], is_two_valued: bool) -> Estimate:
    """Return the mean of (n,) values on a scale with an interval over groups, if both values and groups differ."""
    x = np.asarray(values, dtype=float)
    if not len(x):
        return Estimate()
    if is_two_valued and set(np.unique(x)) <= set(ends):
        share, wide = share_interval(x == ends[1], group), ends[1] - ends[0]
        return Estimate(
            *(None if end is None else ends[0] + wide * end for end in (share.value, share.low, share.high))
        )
    found = clustered_mean(x, group)
    if found.groups < 2 or not found.error > 0 or ends[0] == ends[1]:
        return Estimate(found.mean)
    low, high = scale_interval(found.mean, found.error, found.groups - 1, found.n, ends, is_two_valued)
    return Estimate(found.mean, low, high)
