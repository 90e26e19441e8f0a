"""Mean ratings from few labels and many scores, by strata of the scores (stratified PPI++).

    θ = Σ_h W_h·(mean(y - λ·f, labeled rows of h) + λ·mean(f, all rows of h))

Strata h are intervals of the scores with equal shares of a system's rows, and W_h is the share of h (Fisch et al.,
"Stratified prediction-powered inference", 2024, with one λ for all strata). The levels of the strata follow any curve
of labels on scores, where PPI++ (`corrected_means`) follows a line. Labels may be a random sample of all rows, or of
each stratum with the same rate.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from accord.statistics.corrected_means import LabeledSystem, SystemMean, label_part_of, missing_interval
from accord.statistics.intervals import CenteredPart, reach

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

MOST_STRATA, LEAST_IN_STRATUM = 4, 4
"""Largest number of strata of a system, and smallest number of labels in each stratum."""


def stratified_means(systems: Sequence[LabeledSystem]) -> list[SystemMean]:
    """Return the stratified mean of each system; without unlabeled units it is the mean of the labels."""
    strata = [_strata(each) for each in systems]
    together = squares = 0.0
    for each, (own, _) in zip(systems, strata, strict=True):
        f = _centered(each.predicted, own)
        together, squares = together + float(f @ _centered(each.said, own)), squares + float(f @ f)
    slope = float(np.clip(together / squares, 0.0, 1.0)) if squares > 0 else 0.0
    return [_stratified_mean(each, *places, slope) for each, places in zip(systems, strata, strict=True)]


def _strata(given: LabeledSystem) -> tuple[Places, Places]:
    """Return the stratum of each labeled unit, (n,), and of each unit, labeled first, (n + N,).

    Neighbors with fewer than `LEAST_IN_STRATUM` labels are one stratum.
    """
    every = np.concatenate([given.predicted, given.unlabelled])
    n = len(given.predicted)
    if not len(given.unlabelled):
        return np.zeros(n, dtype=np.intp), np.zeros(n, dtype=np.intp)
    cuts = np.quantile(every, np.arange(1, MOST_STRATA) / MOST_STRATA)
    place = np.searchsorted(cuts, every, side="left")
    counts = np.bincount(place[:n], minlength=MOST_STRATA)
    number, found, waiting = np.zeros(MOST_STRATA, dtype=np.intp), 0, 0
    for stratum, count in enumerate(counts):
        number[stratum], waiting = found, waiting + int(count)
        if waiting >= LEAST_IN_STRATUM and counts[stratum + 1 :].sum() >= LEAST_IN_STRATUM:
            found, waiting = found + 1, 0
    return number[place[:n]], number[place]


def _means(values: Floats, place: Places) -> Floats:
    count = np.bincount(place)
    return np.bincount(place, values) / np.maximum(count, 1)


def _centered(values: Floats, place: Places) -> Floats:
    return values - _means(values, place)[place]


def _stratified_mean(given: LabeledSystem, own: Places, place: Places, slope: float) -> SystemMean:
    n, every = len(given.said), np.concatenate([given.predicted, given.unlabelled])
    rest = len(given.unlabelled)
    slope = slope if rest else 0.0
    labels, rows = np.bincount(own), np.bincount(place)
    shares, level = rows / len(every), _means(every, place)
    means = _means(given.said, own) + slope * (level - _means(given.predicted, own))
    mean = float(shares @ means)
    residual = _centered(given.said, own) - slope * _centered(given.predicted, own)
    # `spread_of` multiplies the squares by n / (n - 1); each stratum has its own number of labels.
    factor = np.sqrt(labels / (labels - 1) * (n - 1) / n)
    group, other = given.groups
    parts = (
        CenteredPart((residual * (shares / labels * factor)[own]), group),
        CenteredPart(
            (means[place] + slope * (every - level[place]) - mean) / len(every), np.concatenate([group, other])
        ),
    )
    reason, alone, label_mean = missing_interval(given), label_part_of(given), float(given.said.mean())
    half, label_half = (None, None) if reason else (reach(parts if rest else [alone]), reach([alone]))

    def around(middle: float, width: float | None) -> tuple[float | None, float | None]:
        return (None, None) if width is None else (middle - width, middle + width)

    return SystemMean(
        given.system, n, n + rest, mean, *around(mean, half), label_mean, *around(label_mean, label_half), slope,
        reason, parts if rest else (alone,), label_part=alone,
    )  # fmt: skip
