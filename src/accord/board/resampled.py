"""Means, densities and differences with intervals over whole conversations, from sums by cluster.

All that is resampled is a sum over rows; so the rows of each cluster are added up once, and a draw is a product of how
often each cluster came with these sums. A million rows cost what their 512 bundles cost.
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
"""Bootstrap draws of a figure: its band is looked at, and no test rests on it."""
STEPS = 200
FEWEST = 5
"""Clusters from which on an interval is given."""


def counts(clusters: int, draws: int = DRAWS, seed: int = 0) -> Floats:
    """(draws, C) how often each cluster is drawn, with replacement."""
    return np.random.default_rng(seed).multinomial(clusters, np.full(clusters, 1 / clusters), size=draws).astype(float)


def ends(drawn: Floats) -> tuple[Any, Any]:
    """The central 95 % of draws, along their first axis."""
    low, high = np.quantile(drawn, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], axis=0)
    return low, high


def means(group: NDArray[np.intp], cluster: NDArray[np.intp], value: Floats, groups: int) -> list[Estimate]:
    """The mean of each of some groups of n rows, clusters being drawn together across groups.

    Args:
        group: (n,) from 0; rows of none are below 0.
        cluster: (n,) from 0.
        value: (n,)
        groups: How many there are.
    """
    many = int(cluster.max()) + 1 if len(cluster) else 0
    kept = group >= 0
    place = cluster[kept] * groups + group[kept]
    count = np.bincount(place, minlength=many * groups).reshape(many, groups).astype(float)
    total = np.bincount(place, value[kept], many * groups).reshape(many, groups)
    size, sums = count.sum(axis=0), total.sum(axis=0)
    there = (count > 0).sum(axis=0)
    found = [Estimate(float(s / n)) if n else Estimate(None) for s, n in zip(sums, size, strict=True)]
    if many < FEWEST:
        return found
    present = np.flatnonzero(count.sum(axis=1))
    drawn = counts(len(present))
    with np.errstate(invalid="ignore", divide="ignore"):
        each = (drawn @ total[present]) / (drawn @ count[present])
    for place_of in np.flatnonzero(there >= FEWEST):
        column = each[np.isfinite(each[:, place_of]), place_of]
        low, high = ends(column)
        found[place_of] = Estimate(found[place_of].value, float(low), float(high))
    return found


def quantiles(
    value: Floats, cluster: NDArray[np.intp], shares: Sequence[float], low: float, high: float
) -> list[Estimate]:
    """Quantiles of n rows; the ends of their intervals are to a `STEPS`th of the scale.

    Args:
        value: (n,), at least one.
        cluster: (n,) from 0.
        shares: Which quantiles.
        low: Where the scale begins.
        high: Where it ends.
    """
    whole = [Estimate(float(each)) for each in np.quantile(value, shares)]
    present = np.bincount(cluster) > 0
    many, place = int(present.sum()), (np.cumsum(present) - 1)[cluster]
    if many < FEWEST:
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
