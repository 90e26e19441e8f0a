"""Classifier two-sample test of synthetic and real conversations (Lopez-Paz and Oquab, ICLR 2017).

A classifier on the metric bank is tested on held-out groups of conversations. Its AUC is the probability that it ranks
a synthetic conversation above a real one; 0.5 is chance. The p-value is by permutation of groups, the interval by
bootstrap of groups. Each metric is also tested alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput
from accord.results import p_text
from accord.statistics import DETAIL_DRAWS, FOLDS, SIGNIFICANT, Clusters, grouped_folds, holm

MIN_GROUPS = 10
"""Minimum number of groups of each kind."""
MAX_CONVERSATIONS = 1000
"""Maximum number of conversations of each kind; more are sampled."""
PERMUTATIONS = 1999
_PERMUTATION_BATCH = 250
RIDGE = 10.0
_MAX_DEVIATION = 3.0
"""Standard deviations at which a metric is clipped, against outliers."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class DiscriminativeFeature:
    """Difference of one metric between the two kinds.

    Attributes:
        metric: Name of the metric.
        synthetic, real: Means of the two kinds.
        effect: Difference of the means in pooled standard deviations; positive if synthetic ones are higher.
        higher: Probability that a synthetic conversation has a higher value than a real one.
        p_holm: p-value by permutation of groups, with Holm's correction over all metrics.
    """

    metric: str
    synthetic: float
    real: float
    effect: float
    higher: float
    p_holm: float


@dataclass(frozen=True)
class TwoSampleResult:
    """Result of the two-sample test.

    Attributes:
        synthetic, real: Number of conversations of each kind.
        groups: Number of groups; a group stays on one side of a split.
        auc: AUC of the classifier on held-out groups.
        low, high: 95% interval of the AUC.
        p: p-value of the AUC under the hypothesis that the kinds do not differ.
        features: A row per metric, the largest effect first.
    """

    synthetic: int
    real: int
    groups: int
    auc: float
    low: float
    high: float
    p: float
    features: Sequence[DiscriminativeFeature]

    def to_json(self) -> dict[str, Any]:
        """Return all fields and the summary as JSON values."""
        return {**asdict(self), "summary": str(self)}

    def __str__(self) -> str:
        figures = f"AUC {self.auc:.2f} [{self.low:.2f}, {self.high:.2f}], {p_text(self.p)}"
        if self.p >= SIGNIFICANT:
            return f"the metrics do not tell {self.synthetic} synthetic conversations from {self.real} real: {figures}"
        return f"the metrics tell {self.synthetic} synthetic conversations from {self.real} real ones: {figures}"


def two_sample_test(
    metrics: Sequence[str],
    values: Floats,
    present: NDArray[np.bool_],
    groups: Sequence[str],
    is_synthetic: Sequence[bool],
    seed: int = 0,
) -> TwoSampleResult:
    """Test whether the metrics distinguish synthetic from real conversations.

    Args:
        metrics: Names of m metrics.
        values: (n, m) metrics of n conversations.
        present: (n, m) True where the metric has a value.
        groups: (n,) group of each conversation.
        is_synthetic: (n,) True for synthetic conversations.
        seed: Seed of the folds, the bootstrap and the permutations.

    Raises:
        BadInput: A kind has fewer than `MIN_GROUPS` groups.
    """
    kinds = np.array(is_synthetic, dtype=bool)
    rows = _sampled_rows(kinds, seed)
    values, present, truth = values[rows], present[rows], kinds[rows]
    names = np.array(groups, dtype=object)[rows]
    for kind, members in (("synthetic", truth), ("real", ~truth)):
        count = len(set(names[members]))
        if count < MIN_GROUPS:
            raise BadInput(
                f"{count} independent {kind} conversations; a comparison needs {MIN_GROUPS}: "
                + ("make some with accord synth" if kind == "synthetic" else "import some with accord import")
            )
    clusters = Clusters(names)
    permuted = _permuted(truth, clusters, seed)
    folds = _folds(names, seed)
    classifier = _Classifier(_design(values, present), folds)
    scores = classifier.scores(truth[None])
    [auc] = _aucs(scores, truth[None], folds)
    parts = np.array_split(permuted, -(-len(permuted) // _PERMUTATION_BATCH))
    by_chance = np.concatenate([_aucs(classifier.scores(kinds), kinds, folds) for kinds in parts])
    low, high = _interval(scores[0], truth, folds, clusters, seed)
    p = (1 + np.sum(by_chance >= auc - 1e-12)) / (1 + len(by_chance))
    sizes = (int(truth.sum()), int((~truth).sum()), len(clusters))
    return TwoSampleResult(
        *sizes, float(auc), low, high, float(p), _compare_metrics(metrics, values, present, truth, permuted)
    )


def _sampled_rows(is_synthetic: NDArray[np.bool_], seed: int) -> NDArray[np.intp]:
    rng = np.random.default_rng(seed)
    sides = [np.flatnonzero(is_synthetic), np.flatnonzero(~is_synthetic)]
    sampled = [
        rng.choice(side, MAX_CONVERSATIONS, replace=False) if len(side) > MAX_CONVERSATIONS else side for side in sides
    ]
    return np.sort(np.concatenate(sampled))


def _folds(names: NDArray[np.object_], seed: int) -> NDArray[np.intp]:
    """Return the fold of each row, (n,); a group is in one fold."""
    folds = np.zeros(len(names), dtype=np.intp)
    for number, split in enumerate(grouped_folds(list(names), FOLDS, seed)):
        folds[np.isin(names, list(split.test))] = number
    return folds


def _permuted(truth: NDArray[np.bool_], clusters: Clusters, seed: int) -> NDArray[np.bool_]:
    """Return permuted kinds, (P, n): kinds are exchanged between groups.

    In a group of both kinds, each row keeps its agreement with the majority of its group.
    """
    share = np.bincount(clusters.of_row, truth, len(clusters)) / clusters.sizes
    majority = share >= 0.5
    deviates = truth != majority[clusters.of_row]
    rng = np.random.default_rng(seed)
    return np.array([rng.permutation(majority)[clusters.of_row] != deviates for _ in range(PERMUTATIONS)])


def _design(values: Floats, present: NDArray[np.bool_]) -> Floats:
    """Return the features, (n, m): each metric standardized, its square, and an indicator of missing values."""
    columns = []
    for place in range(values.shape[1]):
        column, known = values[:, place], present[:, place]
        if known.sum() < 2 or np.ptp(column[known]) == 0:
            z = np.zeros(len(column))
        else:
            standardized = (column - column[known].mean()) / column[known].std()
            z = np.where(known, np.clip(standardized, -_MAX_DEVIATION, _MAX_DEVIATION), 0.0)
        columns += [z, z**2 - (z**2).mean()]
        if 0 < known.sum() < len(known):
            columns.append((known - known.mean()) / known.std())
    return np.column_stack(columns)


class _Classifier:
    """Ridge regression of the kind, fitted on all folds but one and evaluated on that fold.

    The scores are linear in the kinds, so a permutation costs one matrix product.
    """

    def __init__(self, features: Floats, folds: NDArray[np.intp]) -> None:
        self._parts = []
        for fold in np.unique(folds):
            train, test = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
            x = features[train]
            # (X Xᵀ + λ)⁻¹ in place of (Xᵀ X + λ)⁻¹ for fewer rows than columns
            if len(train) <= x.shape[1]:
                hat = features[test] @ x.T @ np.linalg.inv(x @ x.T + RIDGE * np.eye(len(train)))
            else:
                hat = features[test] @ np.linalg.solve(x.T @ x + RIDGE * np.eye(x.shape[1]), x.T)
            self._parts.append((train, test, hat))

    def scores(self, kinds: NDArray[np.bool_]) -> Floats:
        """Return held-out scores, (P, n), for P assignments of kinds; higher for rows like synthetic ones."""
        scores = np.zeros(kinds.shape)
        for train, test, hat in self._parts:
            targets = kinds[:, train].astype(float)
            scores[:, test] = (targets - targets.mean(axis=1, keepdims=True)) @ hat.T
        return scores


def _aucs(scores: Floats, kinds: NDArray[np.bool_], folds: NDArray[np.intp]) -> Floats:
    """Return the share of pairs within a fold in which the synthetic row scores higher, (P,); ties count half.

    Args:
        scores: (P, n) held-out scores.
        kinds: (P, n) True for rows assigned to the synthetic kind.
        folds: (n,) fold of each row.
    """
    from scipy.stats import rankdata

    won, pairs = np.zeros(len(kinds)), np.zeros(len(kinds))
    for fold in np.unique(folds):
        in_fold = folds == fold
        ranks, is_synthetic = rankdata(scores[:, in_fold], axis=1), kinds[:, in_fold]
        count, others = is_synthetic.sum(axis=1), (~is_synthetic).sum(axis=1)
        won += np.where(others > 0, (ranks * is_synthetic).sum(axis=1) - count * (count + 1) / 2, 0.0)
        pairs += count * others
    return np.where(pairs > 0, won / np.maximum(pairs, 1), 0.5)


def _interval(
    scores: Floats, kinds: NDArray[np.bool_], folds: NDArray[np.intp], clusters: Clusters, seed: int
) -> tuple[float, float]:
    """Return the 95% interval of the AUC of held-out scores, by bootstrap of groups."""
    synthetic, real = np.flatnonzero(kinds), np.flatnonzero(~kinds)
    same = folds[synthetic][:, None] == folds[real][None]
    difference = scores[synthetic][:, None] - scores[real][None]
    won = np.where(same, (difference > 0) + 0.5 * (difference == 0), 0.0)
    weights = clusters.counts(DETAIL_DRAWS, seed)[:, clusters.of_row]
    above = ((weights[:, synthetic] @ won) * weights[:, real]).sum(axis=1)
    pairs = ((weights[:, synthetic] @ same.astype(float)) * weights[:, real]).sum(axis=1)
    aucs = above[pairs > 0] / pairs[pairs > 0]
    low, high = np.quantile(aucs, [0.025, 0.975])
    return float(low), float(high)


def _compare_metrics(
    metrics: Sequence[str],
    values: Floats,
    present: NDArray[np.bool_],
    truth: NDArray[np.bool_],
    permuted: NDArray[np.bool_],
) -> list[DiscriminativeFeature]:
    """Test each metric alone, over the conversations that have it."""
    from scipy.stats import rankdata

    rows, p_values = [], []
    for place, metric in enumerate(metrics):
        known = present[:, place]
        column, kinds = values[known, place], truth[known]
        synthetic, real = column[kinds], column[~kinds]
        if min(len(synthetic), len(real)) < MIN_GROUPS or np.ptp(column) == 0:
            continue
        spread = np.sqrt((synthetic.var(ddof=1) * (len(synthetic) - 1) + real.var(ddof=1) * (len(real) - 1))
                         / (len(column) - 2))  # fmt: skip
        effect = float((synthetic.mean() - real.mean()) / spread) if spread > 0 else 0.0
        ranks = rankdata(column)
        middle = (len(column) + 1) / 2
        difference = abs(ranks[kinds].mean() - middle)
        assigned = permuted[:, known]
        counts = np.maximum(assigned.sum(axis=1), 1)
        by_chance = np.abs(assigned @ ranks / counts - middle)
        p_values.append(float((1 + np.sum(by_chance >= difference - 1e-9)) / (1 + len(permuted))))
        count = len(synthetic)
        higher = float((ranks[kinds].sum() - count * (count + 1) / 2) / (count * len(real)))
        rows.append((metric, float(synthetic.mean()), float(real.mean()), effect, higher))
    corrected = holm(p_values) if p_values else []
    features = [DiscriminativeFeature(*row, p) for row, p in zip(rows, corrected, strict=True)]
    return sorted(features, key=lambda feature: -abs(feature.effect))
