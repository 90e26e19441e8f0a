"""Bootstrap over conversations from sums by cluster.

Every statistic is a function of sums over rows. The rows of each cluster are summed once, and a draw multiplies these
sums with the number of times each cluster is drawn. The cost depends on the number of clusters, not of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.statistics import CONFIDENCE
from accord.values import Estimate

Floats = NDArray[np.float64]

DRAWS = 200
"""Number of bootstrap samples; enough for intervals in charts, which no test uses."""
STEPS = 200
MIN_CLUSTERS = 5
"""Minimum number of clusters for an interval."""


def counts(clusters: int, draws: int = DRAWS, seed: int = 0) -> Floats:
    """(draws, C) number of times that each cluster is drawn, with replacement."""
    return np.random.default_rng(seed).multinomial(clusters, np.full(clusters, 1 / clusters), size=draws).astype(float)


def ends(drawn: Floats) -> tuple[Any, Any]:
    """Return the ends of the central 95% of draws along the first axis."""
    low, high = np.quantile(drawn, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], axis=0)
    return low, high


def means(group: NDArray[np.intp], cluster: NDArray[np.intp], value: Floats, groups: int) -> list[Estimate]:
    """Return the mean of each group; clusters are drawn jointly for all groups.

    Args:
        group: (n,) group of each row, from 0; negative for rows without a group.
        cluster: (n,) cluster of each row, from 0.
        value: (n,) values.
        groups: Number of groups.
    """
    many = int(cluster.max()) + 1 if len(cluster) else 0
    kept = group >= 0
    place = cluster[kept] * groups + group[kept]
    count = np.bincount(place, minlength=many * groups).reshape(many, groups).astype(float)
    total = np.bincount(place, value[kept], many * groups).reshape(many, groups)
    size, sums = count.sum(axis=0), total.sum(axis=0)
    there = (count > 0).sum(axis=0)
    found = [Estimate(float(s / n)) if n else Estimate(None) for s, n in zip(sums, size, strict=True)]
    if many < MIN_CLUSTERS:
        return found
    present = np.flatnonzero(count.sum(axis=1))
    drawn = counts(len(present))
    with np.errstate(invalid="ignore", divide="ignore"):
        each = (drawn @ total[present]) / (drawn @ count[present])
    for place_of in np.flatnonzero(there >= MIN_CLUSTERS):
        column = each[np.isfinite(each[:, place_of]), place_of]
        low, high = ends(column)
        found[place_of] = Estimate(found[place_of].value, float(low), float(high))
    return found


def quantiles(
    value: Floats, cluster: NDArray[np.intp], shares: Sequence[float], low: float, high: float
) -> list[Estimate]:
    """Return quantiles at `shares` of (n,) values, with intervals in steps of 1/`STEPS` of the scale."""
    whole = [Estimate(float(each)) for each in np.quantile(value, shares)]
    present = np.bincount(cluster) > 0
    many, place = int(present.sum()), (np.cumsum(present) - 1)[cluster]
    if many < MIN_CLUSTERS:
        return whole
    step = (high - low) / STEPS
    cell = np.clip(((value - low) / step).astype(np.intp), 0, STEPS - 1)
    counted = np.bincount(place * STEPS + cell, minlength=many * STEPS).reshape(many, STEPS).astype(float)
    below = np.cumsum(counts(many) @ counted, axis=1)
    found = []
    for each, share in zip(whole, shares, strict=True):
        reached = (below >= share * below[:, -1:]).argmax(axis=1)
        ends_of = ends(low + step * (reached + 0.5))
        found.append(Estimate(each.value, float(ends_of[0]), float(ends_of[1])))
    return found


def slope(x: Floats, y: Floats, cluster: NDArray[np.intp]) -> Estimate:
    """Return the least-squares slope of y on x, with an interval over clusters."""
    many = int(cluster.max()) + 1
    sums = np.stack([np.bincount(cluster, each, many) for each in (np.ones_like(x), x, y, x * y, x * x)], axis=1)

    def of_sums(total: Floats) -> Floats:
        n, sx, sy, sxy, sxx = total.T
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray((n * sxy - sx * sy) / (n * sxx - sx * sx))

    drawn = of_sums(counts(many) @ sums)
    drawn = drawn[np.isfinite(drawn)]
    low, high = ends(drawn) if len(drawn) and many >= MIN_CLUSTERS else (None, None)
    whole = float(of_sums(sums.sum(axis=0)[None, :])[0])
    return Estimate(whole, None if low is None else float(low), None if high is None else float(high))
