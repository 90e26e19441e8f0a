"""Bias of scores by group of rows, at the same covariate, and by a covariate such as the length; over clusters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accord.statistics.intervals import CenteredPart, p_value, reach
from accord.statistics.resampling import holm
from accord.values import Estimate

Floats = NDArray[np.float64]

MIN_GROUP_RATINGS = 10
"""Minimum number of ratings of a group."""
MAX_LEVERAGE = 0.9
"""Largest leverage by which residuals are corrected, and largest share of the spread of a covariate in one cluster."""


def group_biases(
    error: Floats, cluster: NDArray[np.object_], groups: Sequence[str | None]
) -> dict[str, tuple[float, float]]:
    """Return each group's bias minus the bias of all other groups, and its p with Holm's correction.

    Args:
        error: (n,) prediction minus rating; NaN without a prediction.
        cluster: (n,) conversation, or another cluster, of each rating.
        groups: (n,) group of each rating; `None` means no group.
    """
    tests = group_bias_tests(error, cluster, groups)
    corrected = holm([p for _, p in tests.values()])
    return {name: (apart.value or 0.0, p) for (name, (apart, _)), p in zip(tests.items(), corrected, strict=True)}


def group_bias_tests(
    error: Floats, cluster: NDArray[np.object_], groups: Sequence[str | None]
) -> dict[str, tuple[Estimate, float]]:
    """Return each group's bias minus the bias of all other groups with its interval, and its p without correction."""
    names, known = known_groups(np.isfinite(error), groups)
    large = [name for name in sorted(set(names[known])) if (known & (names == name)).sum() >= MIN_GROUP_RATINGS]
    if len(large) < 2:
        return {}
    return {name: bias_difference(error, cluster.astype(str), known, names == name) for name in large}


def known_groups(
    scored: NDArray[np.bool_], groups: Sequence[str | None]
) -> tuple[NDArray[np.object_], NDArray[np.bool_]]:
    """Return the (n,) group of each rating, and True if it has a group and a prediction."""
    names = np.array([str(group) if group is not None else "" for group in groups], dtype=object)
    return names, scored & np.array([group is not None for group in groups], dtype=bool)


def bias_difference(
    error: Floats, names: NDArray[np.str_], known: NDArray[np.bool_], inside: NDArray[np.bool_]
) -> tuple[Estimate, float]:
    """Return the difference of a group's bias from the rest's, and its p-value over clusters.

    p is 1 if the group or the rest has a single cluster, because its variance is unknown then.
    """
    members, rest = known & inside, known & ~inside
    if not rest.any():
        return Estimate(0.0), 1.0
    difference = float(error[members].mean() - error[rest].mean())
    if min(len(set(names[rows])) for rows in (members, rest)) < 2:
        return Estimate(difference), 1.0
    parts = [
        CenteredPart(sign * (error[rows] - error[rows].mean()) / rows.sum(), names[rows])
        for sign, rows in ((1, members), (-1, rest))
    ]
    half = reach(parts)
    return Estimate(difference, difference - half, difference + half), p_value(difference, parts)


class AdjustedDifference(NamedTuple):
    """Difference of two groups at the same covariate, its p over clusters, and the covariate's slope inside them."""

    difference: float
    p: float
    slope: float


def adjusted_difference(
    outcome: Floats,
    covariate: Floats,
    instrument: Floats,
    cluster: NDArray[np.str_],
    inside: NDArray[np.bool_],
    degree: int = 1,
) -> AdjustedDifference:
    """Return the difference of a group's mean outcome from the rest's at the same covariate.

    It is γ of outcome = α + Σ_d β_d·covariate^d + γ·inside + error, estimated by instrumental variables with the powers
    of the instrument (Wooldridge, "Econometric Analysis of Cross Section and Panel Data", 2010, section 5.1). An
    instrument that is the covariate itself gives least squares. The variance comes from the influence of clusters on γ:
    that on the difference of the residuals' means, and that on β times the difference of the covariate's means.

    Args:
        outcome: (n,) values.
        covariate: (n,) values at which groups are compared.
        instrument: (n,) instrument of the covariate, or the covariate itself.
        cluster: (n,) cluster of each row.
        inside: (n,) True for rows of the group.
        degree: Highest power d.
    """

    def powers(values: Floats) -> Floats:
        scaled = (values - values.mean()) / (values.std() or 1.0)
        return np.stack([scaled**power for power in range(1, degree + 1)], axis=1)

    def within(rows: Floats) -> Floats:
        centered = rows.copy()
        for side in (inside, ~inside):
            centered[side] -= rows[side].mean(axis=0)
        return centered

    x, z = powers(covariate), within(powers(instrument))
    solve = np.linalg.pinv(z.T @ x, rcond=1e-9)  # a square of two values repeats them
    residual = outcome - x @ (solve @ (z.T @ outcome))
    difference = float(residual[inside].mean() - residual[~inside].mean())
    spread, apart = within(residual), x[inside].mean(axis=0) - x[~inside].mean(axis=0)
    parts = [
        *(CenteredPart(sign * spread[side] / side.sum(), cluster[side]) for sign, side in ((1, inside), (-1, ~inside))),
        CenteredPart(-(z @ (solve.T @ apart)) * spread, cluster),
    ]
    shared = float(z[:, 0] @ covariate)
    slope = float(z[:, 0] @ outcome) / shared if abs(shared) > 1e-9 * len(z) * covariate.std() else 0.0
    return AdjustedDifference(difference, p_value(difference, parts), slope)


def bias_slope(error: Floats, cluster: NDArray[np.object_], x: Floats) -> tuple[Estimate, float] | None:
    """Return the rise of the error per unit of (n,) x with its interval and p over clusters.

    The result is `None` if x is constant or one cluster holds nearly all of its spread: then this cluster alone decides
    the slope, and no residual shows its error.
    """
    if len(x) < MIN_GROUP_RATINGS or not np.ptp(x) > 0:
        return None
    centered = x - x.mean()
    squares = float(centered @ centered)
    _, place = np.unique(cluster.astype(str), return_inverse=True)
    if np.bincount(place, centered**2).max() >= MAX_LEVERAGE * squares:
        return None
    slope = float(centered @ error) / squares
    residual = error - error.mean() - slope * centered
    leverage = np.minimum(1 / len(x) + centered**2 / squares, MAX_LEVERAGE)
    adds = centered * residual / (1 - leverage) / squares
    parts = [CenteredPart(adds - adds.mean(), cluster.astype(str))]
    half = reach(parts)
    return Estimate(slope, slope - half, slope + half), p_value(slope, parts)
