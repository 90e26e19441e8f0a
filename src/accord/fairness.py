"""Whether agreement is the same for every group: of conversations, of annotators, of judge versions, of wordings.

An evaluator that is right on the whole may be wrong for some: it may put one system's conversations too low, or
imitate one annotator alone. Each group's errors stand beside those of all others, with intervals over conversations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.agreement import STATISTICS, MeanStatistic, Paired, RankStatistic, smece_by_option
from accord.evaluators.held_out import System
from accord.evaluators.ratings import Ratings
from accord.resampling import Clusters, Interval, bootstrap, holm

Floats = NDArray[np.float64]

FEWEST = 10
"""Ratings that a group needs to be looked at by itself."""
DRAWS = 1000
_SMECE_DRAWS = 60


@dataclass(frozen=True)
class Group:
    """How well one group's ratings are predicted.

    Attributes:
        by: What groups are made by (`system`, `annotator`, …).
        name: Of the group.
        n: Its ratings.
        bias: Mean of prediction minus rating, in units of the scale: above 0 the evaluator is too generous.
        rmse, pearson: As in every table.
        calibration_error: Mean smECE of the options' probabilities.
        intervals: Of each of these, by its name.
        apart: By how much the bias differs from that of all others.
        p_holm: Of that difference, by cluster-robust z, corrected over all groups of one comparison.
    """

    by: str
    name: str
    n: int
    bias: float | None
    rmse: float | None
    pearson: float | None
    calibration_error: float | None
    intervals: dict[str, Interval]
    apart: float
    p_holm: float

    def to_json(self) -> dict[str, Any]:
        """A flat row under the names every table uses."""
        row: dict[str, Any] = {"by": self.by, "group": self.name, "n": self.n}
        for name, found in self.intervals.items():
            row |= {name: getattr(self, name), f"{name}_low": found.low, f"{name}_high": found.high}
        return row | {"apart": self.apart, "p_holm": self.p_holm}


def _error(paired: Paired) -> Floats:
    return np.asarray(paired.value - paired.truth)[:, None]


def _mean_smece(paired: Paired) -> float | None:
    found = [value for value in smece_by_option(paired) if value is not None]
    return float(np.mean(found)) if found else None


BIAS = MeanStatistic(_error, lambda means: np.asarray(means[..., 0]))
SHOWN = {
    "bias": BIAS,
    "rmse": STATISTICS["rmse"],
    "pearson": STATISTICS["pearson"],
    "calibration_error": RankStatistic(_mean_smece),
}


def by_group(
    system: System, rated: Ratings, groups: Sequence[str | None], by: str, draws: int = DRAWS, seed: int = 0
) -> list[Group]:
    """The agreement within each group of ratings, the most biased first.

    Args:
        system: Predictions made without the ratings' conversations.
        rated: n ratings.
        groups: (n,) each rating's group; `None` belongs to none.
        by: What the groups are made by.
        draws: Bootstrap samples.
        seed: Of them.

    Returns:
        The groups with at least `FEWEST` predicted ratings; none where only one is as large as that.
    """
    names = np.array([str(group) if group is not None else "" for group in groups], dtype=object)
    known = system.scored & np.array([group is not None for group in groups])
    large = [name for name in sorted(set(names[known])) if (known & (names == name)).sum() >= FEWEST]
    if len(large) < 2:
        return []
    paired = system.paired(rated)
    tests = [_apart(paired, rated, known, names == name) for name in large]
    corrected = holm([p for _, p in tests])
    found = []
    for name, (apart, _), p in zip(large, tests, corrected, strict=True):
        rows = np.flatnonzero(known & (names == name))
        mine, clusters = paired.take(rows), Clusters(rated.conversation[rows])
        intervals = {
            stat: bootstrap(clusters, of, [mine], _SMECE_DRAWS if stat == "calibration_error" else draws, seed)
            for stat, of in SHOWN.items()
        }
        values = {stat: of(mine) for stat, of in SHOWN.items()}
        found.append(Group(by, name, len(rows), **values, intervals=intervals, apart=apart, p_holm=p))
    return sorted(found, key=lambda group: -abs(group.apart))


def _apart(paired: Paired, rated: Ratings, known: NDArray[np.bool_], inside: NDArray[np.bool_]) -> tuple[float, float]:
    """The difference of a group's bias from the rest's, and its p: a mean of clusters' influence, normal."""
    from scipy.stats import norm

    here, rest = known & inside, known & ~inside
    if not rest.any():
        return 0.0, 1.0
    error = paired.value - paired.truth
    difference = float(error[here].mean() - error[rest].mean())
    influence = np.zeros(len(error))
    influence[here] = (error[here] - error[here].mean()) / here.sum()
    influence[rest] = -(error[rest] - error[rest].mean()) / rest.sum()
    total = Clusters(rated.conversation).sums(influence[:, None])[:, 0]
    spread = float(np.sqrt((total**2).sum()))
    return difference, float(2 * norm.sf(abs(difference) / spread)) if spread > 0 else 1.0
