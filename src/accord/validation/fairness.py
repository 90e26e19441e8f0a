"""Agreement by group: systems, annotators, judge versions, wordings.

An evaluator that is accurate on average may be biased for a group: it may score one system's conversations too low, or
imitate a single annotator. The errors of each group are compared with the errors of all others, with intervals over
conversations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.evidence import Ratings
from accord.statistics import (
    DETAIL_DRAWS,
    SIGNIFICANT,
    STATISTICS,
    Clusters,
    MeanStatistic,
    Paired,
    bootstrap,
    group_biases,
    holm,
    known_groups,
    mean_smece,
    normal_quantile,
    normal_tail,
    pearson,
)
from accord.validation.metrics_table import Repeats
from accord.values import Estimate

Floats = NDArray[np.float64]

ANNOTATOR = "annotator"
"""Grouping by annotator: each one's ratings are compared with the predictions for that annotator. In all other
groupings the predictions are for a new annotator, like the default predictions of `accord score`."""


@dataclass(frozen=True)
class GroupAccuracy:
    """Accuracy of predictions in one group of ratings.

    Attributes:
        by: Grouping (`system`, `annotator`, …).
        name: Name of the group.
        n: Number of ratings.
        bias: Mean of prediction minus rating, in units of the scale; positive if the evaluator is too generous.
        rmse, pearson: RMSE and correlation.
        calibration_error: Mean smECE of the options' probabilities.
        apart: Difference of the bias from the bias of all other groups.
        p_holm: Cluster-robust p-value of that difference, with Holm's correction over all groups of the grouping.
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
        """Return a flat row of JSON values."""
        row: dict[str, Any] = {"by": self.by, "group": self.name, "n": self.n}
        for name in (*GROUP_STATISTICS, "calibration_error"):
            estimate = getattr(self, name)
            row |= {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
        return row | {"apart": self.apart, "p_holm": self.p_holm}


def _error(paired: Paired) -> Floats:
    return np.asarray(paired.value - paired.truth)[:, None]


BIAS = MeanStatistic(_error, lambda means: np.asarray(means[..., 0]))
GROUP_STATISTICS = {
    "bias": BIAS,
    "rmse": STATISTICS["rmse"],
    "pearson": STATISTICS["pearson"],
}


def by_group(
    repeats: Repeats,
    rated: Ratings,
    groups: Sequence[str | None],
    by: str,
    draws: int = DETAIL_DRAWS,
    seed: int = 0,
) -> list[GroupAccuracy]:
    """Return the accuracy of each group of ratings, the most biased first.

    Args:
        repeats: Out-of-fold predictions of the ratings in each repetition of the cross-validation.
        rated: n ratings.
        groups: (n,) group of each rating; `None` means no group.
        by: Name of the grouping.
        draws: Number of bootstrap samples.
        seed: Seed of the bootstrap.

    Returns:
        The groups with at least `MIN_GROUP_RATINGS` predicted ratings; an empty list for fewer than two such groups.
    """
    pairs = [each.paired(rated) if by == ANNOTATOR else each.paired_new(rated) for each in repeats]
    scored = np.logical_and.reduce(
        [each.scored if by == ANNOTATOR else np.isfinite(each.new_value) for each in repeats]
    )
    names, known = known_groups(scored, groups)
    error = np.where(scored, np.mean([paired.value for paired in pairs], axis=0) - rated.value, np.nan)
    rows_by_group = []
    for name, (apart, p) in group_biases(error, rated.group, groups).items():
        rows = np.flatnonzero(known & (names == name))
        members, clusters = [paired.take(rows) for paired in pairs], Clusters(rated.group[rows])
        estimates = {stat: bootstrap(clusters, of, members, draws, seed) for stat, of in GROUP_STATISTICS.items()}
        estimates["calibration_error"] = mean_smece(members[0], clusters, seed)
        rows_by_group.append(GroupAccuracy(by, name, len(rows), **estimates, apart=apart, p_holm=p))
    return sorted(rows_by_group, key=lambda group: -abs(group.apart))


MIN_ANNOTATOR_LABELS = 15
"""Minimum number of labels of an annotator."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """An annotator whose labels look reversed or random.

    Attributes:
        annotator: ID of the annotator.
        labels: Number of labels.
        r: Correlation of the labels with the predictions for a new annotator.
        others: The same correlation for all other annotators together.
        kind: `reversed` for r below 0, or `random` for r below the others' and not above 0.
        p: p-value, with Holm's correction over all annotators.
    """

    annotator: str
    labels: int
    r: float
    others: float
    kind: str
    p: float

    def __str__(self) -> str:
        relation = "contradict" if self.kind == "reversed" else "are unrelated to"
        return (
            f"the {self.labels} labels of {self.annotator} {relation} the other annotators' ratings of similar "
            f"conversations (r = {self.r:.2f}, others {self.others:.2f}); ask how {self.annotator} reads the question"
        )


def annotator_quality(rated: Ratings, predicted: Floats) -> list[Suspect]:
    """Return annotators whose labels look reversed or random compared with all others.

    Args:
        rated: n ratings.
        predicted: (n,) out-of-fold predictions for a new annotator.

    Returns:
        Annotators with a significant Fisher's z after Holm's correction, provided that the labels of all others
        correlate with the predictions.
    """
    correlations: list[tuple[str, int, float, float]] = []
    for name in sorted(set(rated.annotator)):
        own = (rated.annotator == name) & np.isfinite(predicted)
        rest = ~own & np.isfinite(predicted)
        r, others = pearson(rated.value[own], predicted[own]), pearson(rated.value[rest], predicted[rest])
        if r is not None and others is not None and own.sum() >= MIN_ANNOTATOR_LABELS and others > 0:
            correlations.append((str(name), int(own.sum()), r, others))
    below = holm([float(normal_tail(-_z(r) * np.sqrt(n - 3))) for _, n, r, _ in correlations])
    apart = holm([float(normal_tail((_z(others) - _z(r)) * np.sqrt(n - 3))) for _, n, r, others in correlations])
    suspects: list[Suspect] = []
    for (name, n, r, others), reverse, random in zip(correlations, below, apart, strict=True):
        if reverse < SIGNIFICANT:
            suspects.append(Suspect(name, n, r, others, "reversed", reverse))
        elif random < SIGNIFICANT and not _is_above_zero(r, n):
            suspects.append(Suspect(name, n, r, others, "random", random))
    return suspects


def _z(r: float) -> float:
    return float(np.arctanh(np.clip(r, -0.999, 0.999)))


def _is_above_zero(r: float, n: int) -> bool:
    return bool(_z(r) * np.sqrt(n - 3) > normal_quantile(1 - SIGNIFICANT))
