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

from accord.evidence import Ratings
from accord.learning import Predictions
from accord.statistics import (
    STATISTICS,
    Clusters,
    MeanStatistic,
    Paired,
    WeightedStatistic,
    bootstrap,
    holm,
    normal_quantile,
    normal_tail,
    pearson,
    smece_of,
)
from accord.values import Estimate

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
    bias: Estimate
    rmse: Estimate
    pearson: Estimate
    calibration_error: Estimate
    apart: float
    p_holm: float

    def to_json(self) -> dict[str, Any]:
        """A flat row under the names every table uses."""
        row: dict[str, Any] = {"by": self.by, "group": self.name, "n": self.n}
        for name in SHOWN:
            estimate = getattr(self, name)
            row |= {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
        return row | {"apart": self.apart, "p_holm": self.p_holm}


def _error(paired: Paired) -> Floats:
    return np.asarray(paired.value - paired.truth)[:, None]


def _mean_smece(paired: Paired, weights: Floats) -> Floats:
    shown = paired.in_ranges()
    return np.asarray(np.mean([smece_of(option).of(shown, weights) for option in range(len(shown.options))], axis=0))


BIAS = MeanStatistic(_error, lambda means: np.asarray(means[..., 0]))
SHOWN = {
    "bias": BIAS,
    "rmse": STATISTICS["rmse"],
    "pearson": STATISTICS["pearson"],
    "calibration_error": WeightedStatistic(_mean_smece),
}


def by_group(
    system: Predictions, rated: Ratings, groups: Sequence[str | None], by: str, draws: int = DRAWS, seed: int = 0
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
        mine, clusters = paired.take(rows), Clusters(rated.group[rows])
        estimates = {
            stat: bootstrap(clusters, of, [mine], _SMECE_DRAWS if stat == "calibration_error" else draws, seed)
            for stat, of in SHOWN.items()
        }
        found.append(Group(by, name, len(rows), **estimates, apart=apart, p_holm=p))
    return sorted(found, key=lambda group: -abs(group.apart))


def _apart(paired: Paired, rated: Ratings, known: NDArray[np.bool_], inside: NDArray[np.bool_]) -> tuple[float, float]:
    """The difference of a group's bias from the rest's, and its p: a mean of clusters' influence, normal."""
    here, rest = known & inside, known & ~inside
    if not rest.any():
        return 0.0, 1.0
    error = paired.value - paired.truth
    difference = float(error[here].mean() - error[rest].mean())
    influence = np.zeros(len(error))
    influence[here] = (error[here] - error[here].mean()) / here.sum()
    influence[rest] = -(error[rest] - error[rest].mean()) / rest.sum()
    total = Clusters(rated.group).sums(influence[:, None])[:, 0]
    spread = float(np.sqrt((total**2).sum()))
    return difference, float(2 * normal_tail(abs(difference) / spread)) if spread > 0 else 1.0


FEWEST_RATINGS = 15
"""Labels that an annotator needs before anything is said of them."""
LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class Suspect:
    """An annotator to talk to.

    Attributes:
        annotator: Who.
        labels: How many they gave.
        r: Correlation of their labels with what a person nobody has met would say of the same texts.
        others: The same for all other annotators together.
        kind: `reversed`, where r is below 0, or `random`, where it is below the others' and not above 0.
        p: Of that, corrected over all annotators.
    """

    annotator: str
    labels: int
    r: float
    others: float
    kind: str
    p: float

    def __str__(self) -> str:
        shown = "run against" if self.kind == "reversed" else "have nothing to do with"
        return (
            f"{self.annotator}'s {self.labels} labels {shown} what others say of like conversations "
            f"(r = {self.r:.2f}, others {self.others:.2f}); ask them how they read the question"
        )


def annotator_quality(rated: Ratings, anybody: Floats) -> list[Suspect]:
    """Annotators whose labels look reversed or random, beside everybody else's.

    Args:
        rated: n ratings.
        anybody: (n,) what a person nobody has met is predicted to say, without the rating's conversation.

    Returns:
        Those for whom Fisher's z says so after Holm's correction; only where the others' labels follow the
        evidence at all.
    """
    found: list[tuple[str, int, float, float]] = []
    for name in sorted(set(rated.annotator)):
        mine = (rated.annotator == name) & np.isfinite(anybody)
        rest = ~mine & np.isfinite(anybody)
        r, others = pearson(rated.value[mine], anybody[mine]), pearson(rated.value[rest], anybody[rest])
        if r is not None and others is not None and mine.sum() >= FEWEST_RATINGS and others > 0:
            found.append((str(name), int(mine.sum()), r, others))
    below = holm([float(normal_tail(-_z(r) * np.sqrt(n - 3))) for _, n, r, _ in found])
    apart = holm([float(normal_tail((_z(others) - _z(r)) * np.sqrt(n - 3))) for _, n, r, others in found])
    named: list[Suspect] = []
    for (name, n, r, others), reverse, random in zip(found, below, apart, strict=True):
        if reverse < LEVEL:
            named.append(Suspect(name, n, r, others, "reversed", reverse))
        elif random < LEVEL and not _is_above_zero(r, n):
            named.append(Suspect(name, n, r, others, "random", random))
    return named


def _z(r: float) -> float:
    return float(np.arctanh(np.clip(r, -0.999, 0.999)))


def _is_above_zero(r: float, n: int) -> bool:
    return bool(_z(r) * np.sqrt(n - 3) > normal_quantile(1 - LEVEL))
