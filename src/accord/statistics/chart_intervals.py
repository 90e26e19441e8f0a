"""Bootstrap intervals for charts of many rows: means of groups, quantiles, and slopes.

Every statistic is a function of sums over rows. The rows of each cluster are summed once, and a draw multiplies these
sums with the number of times that each cluster is drawn, so the cost depends on the number of clusters, not of rows.
Few draws are enough, because no test uses these intervals.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from accord.statistics.defaults import CHART_DRAWS
from accord.statistics.resampling import Clusters, Floats, Indices, central, estimate_from_draws
from accord.values import Estimate

MIN_CLUSTERS = 5
"""Minimum number of clusters for an interval."""
_STEPS = 200


def group_means(clusters: Clusters, group: Indices, value: Floats, groups: int) -> list[Estimate]:
    """Return the mean of each group; clusters are drawn jointly for all groups.

    Args:
        clusters: Clusters of the n rows.
        group: (n,) group of each row, from 0.
        value: (n,) values.
        groups: Number of groups.

    Returns:
        Estimates without a value for groups without rows, and without an interval for groups with fewer than
        `MIN_CLUSTERS` clusters.
    """
    place = clusters.of_row * groups + group
    count = np.bincount(place, minlength=len(clusters) * groups).reshape(len(clusters), groups).astype(float)
    total = np.bincount(place, value, len(clusters) * groups).reshape(len(clusters), groups)
    sizes, sums, there = count.sum(axis=0), total.sum(axis=0), (count > 0).sum(axis=0)
    means = [Estimate(float(s / n) if n else None) for s, n in zip(sums, sizes, strict=True)]
    if len(clusters) < MIN_CLUSTERS:
        return means
    times = clusters.counts(CHART_DRAWS, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        drawn = (times @ total) / (times @ count)
    return [
        estimate_from_draws(mean.value, drawn[:, place]) if there[place] >= MIN_CLUSTERS else mean
        for place, mean in enumerate(means)
    ]


def quantiles(clusters: Clusters, value: Floats, shares: Sequence[float], low: float, high: float) -> list[Estimate]:
    """Return quantiles at `shares` of (n,) values, with intervals in steps of 1/200 of the scale `low` to `high`."""
    whole = [Estimate(float(each)) for each in np.quantile(value, shares)]
    many = len(clusters)
    if many < MIN_CLUSTERS:
        return whole
    step = (high - low) / _STEPS
    cell = np.clip(((value - low) / step).astype(np.intp), 0, _STEPS - 1)
    counted = np.bincount(clusters.of_row * _STEPS + cell, minlength=many * _STEPS).reshape(many, _STEPS).astype(float)
    below = np.cumsum(clusters.counts(CHART_DRAWS, 0) @ counted, axis=1)
    estimates = []
    for each, share in zip(whole, shares, strict=True):
        reached = (below >= share * below[:, -1:]).argmax(axis=1)
        ends = central(low + step * (reached + 0.5))
        estimates.append(Estimate(each.value, float(ends[0]), float(ends[1])))
    return estimates


def slope(clusters: Clusters, x: Floats, y: Floats) -> Estimate:
    """Return the least-squares slope of (n,) y on (n,) x, with an interval over clusters."""
    sums = clusters.sums(np.column_stack([np.ones_like(x), x, y, x * y, x * x]))

    def of_sums(total: Floats) -> Floats:
        n, sx, sy, sxy, sxx = total.T
        squares = n * sxx - sx * sx
        squares[squares <= 1e-12 * n * sxx] = np.nan  # a draw of equal x, whose squares are rounding errors
        return np.asarray((n * sxy - sx * sy) / squares)

    whole = float(of_sums(sums.sum(axis=0)[None, :])[0])
    if len(clusters) < MIN_CLUSTERS:
        return Estimate(whole)
    return estimate_from_draws(whole, of_sums(clusters.counts(CHART_DRAWS, 0) @ sums))
