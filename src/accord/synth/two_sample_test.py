"""How unlike real conversations synthetic ones are: a classifier two-sample test (Lopez-Paz and Oquab, ICLR 2017).

A classifier learns from the metric bank to tell the two apart, and is tried on groups of conversations that it has not
seen. Its AUC is the chance that of a synthetic and a real conversation it finds the synthetic one; .5 is a coin. The
p-value is by permutation of whole groups, the interval by bootstrap of groups. Each metric alone says what gives
synthetic conversations away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput
from accord.evidence import EvidenceTable
from accord.statistics import FOLDS, Clusters, grouped_folds, holm

FEWEST = 10
"""Groups on either side that a comparison needs."""
MOST = 1000
"""Conversations of a side that are looked at; of more, so many are drawn."""
PERMUTATIONS, DRAWS = 1999, 1000
_AT_ONCE = 250
"""Permutations that are ranked together."""
RIDGE = 10.0
_CLIPPED = 3.0
"""Standard deviations at which a metric is cut off: one odd conversation decides nothing."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class DiscriminativeFeature:
    """One metric of the two kinds.

    Attributes:
        metric: Its name.
        synthetic, real: Its means.
        effect: Difference of the means in pooled standard deviations; above 0 where synthetic ones have more of it.
        higher: The chance that of a synthetic and a real conversation the synthetic one has more of it.
        p_holm: By permutation of groups, corrected over all metrics.
    """

    metric: str
    synthetic: float
    real: float
    effect: float
    higher: float
    p_holm: float


@dataclass(frozen=True)
class TwoSampleResult:
    """What tells synthetic conversations from real ones.

    Attributes:
        synthetic, real: How many conversations were looked at.
        groups: How many groups they make; a group stays on one side of a split.
        auc: Of the classifier, on groups that it has not seen.
        low, high: The 95 % interval of it.
        p: How probable such an AUC is where the two are alike.
        giveaways: A row per metric, the largest effect first.
    """

    synthetic: int
    real: int
    groups: int
    auc: float
    low: float
    high: float
    p: float
    giveaways: Sequence[DiscriminativeFeature]

    def to_json(self) -> dict[str, Any]:
        """Everything, and the sentence."""
        rows = [{name: getattr(each, name) for name in DiscriminativeFeature.__slots__} for each in self.giveaways]
        names = ("synthetic", "real", "groups", "auc", "low", "high", "p")
        return {**{name: getattr(self, name) for name in names}, "giveaways": rows, "said": str(self)}

    def __str__(self) -> str:
        about = f"AUC {self.auc:.2f} [{self.low:.2f}, {self.high:.2f}], p = {self.p:.4f}"
        if self.p >= 0.05:
            return (
                f"the metrics do not tell {self.synthetic} synthetic conversations from {self.real} real ones: {about}"
            )
        return f"the metrics tell {self.synthetic} synthetic conversations from {self.real} real ones: {about}"


def two_sample_test(
    table: EvidenceTable, groups: Sequence[str], is_synthetic: Sequence[bool], seed: int = 0
) -> TwoSampleResult:
    """How well, and by what, the two kinds are told apart.

    Args:
        table: A row per conversation, a column per metric.
        groups: (n,) what belongs together.
        is_synthetic: (n,) which kind each is.
        seed: Of the folds, the draws and the permutations.

    Raises:
        BadInput: There are too few of a kind.
    """
    kinds = np.array(is_synthetic, dtype=bool)
    rows = _some(kinds, seed)
    table, truth = table.take(rows), kinds[rows]
    names = np.array(groups, dtype=object)[rows]
    for kind, mine in (("synthetic", truth), ("real", ~truth)):
        there = len(set(names[mine]))
        if there < FEWEST:
            raise BadInput(
                f"{there} {kind} conversations that have nothing to do with each other; a comparison needs {FEWEST}: "
                + ("make some with accord synth" if kind == "synthetic" else "import some with accord import")
            )
    clusters = Clusters(names)
    permuted = _permuted(truth, clusters, seed)
    folds = _folds(names, seed)
    scored = _Classifier(_features(table), folds)
    scores = scored.scores(truth[None])
    [found] = _aucs(scores, truth[None], folds)
    some = np.array_split(permuted, -(-len(permuted) // _AT_ONCE))
    by_chance = np.concatenate([_aucs(scored.scores(kinds), kinds, folds) for kinds in some])
    low, high = _interval(scores[0], truth, folds, clusters, seed)
    p = (1 + np.sum(by_chance >= found - 1e-12)) / (1 + len(by_chance))
    sizes = (int(truth.sum()), int((~truth).sum()), len(clusters))
    return TwoSampleResult(*sizes, float(found), low, high, float(p), _giveaways(table, truth, permuted))


def _some(is_synthetic: NDArray[np.bool_], seed: int) -> NDArray[np.intp]:
    """The rows that are looked at."""
    rng = np.random.default_rng(seed)
    sides = [np.flatnonzero(is_synthetic), np.flatnonzero(~is_synthetic)]
    drawn = [rng.choice(side, MOST, replace=False) if len(side) > MOST else side for side in sides]
    return np.sort(np.concatenate(drawn))


def _folds(names: NDArray[np.object_], seed: int) -> NDArray[np.intp]:
    """(n,) the fold of each row; a group is in one."""
    found = np.zeros(len(names), dtype=np.intp)
    for number, split in enumerate(grouped_folds(list(names), FOLDS, seed)):
        found[np.isin(names, list(split.test))] = number
    return found


def _permuted(truth: NDArray[np.bool_], clusters: Clusters, seed: int) -> NDArray[np.bool_]:
    """(P, n) the kinds exchanged between groups; within a group of both kinds each row stays with or against it."""
    share = np.bincount(clusters.of_row, truth, len(clusters)) / clusters.sizes
    major = share >= 0.5
    against = truth != major[clusters.of_row]
    rng = np.random.default_rng(seed)
    return np.array([rng.permutation(major)[clusters.of_row] != against for _ in range(PERMUTATIONS)])


def _features(table: EvidenceTable) -> Floats:
    """(n, m) each metric in standard deviations, its square, and whether it is missing where it is for some."""
    values, there = table.values, table.present
    columns = []
    for place in range(values.shape[1]):
        mine, known = values[:, place], there[:, place]
        if known.sum() < 2 or np.ptp(mine[known]) == 0:
            z = np.zeros(len(mine))
        else:
            centred = (mine - mine[known].mean()) / mine[known].std()
            z = np.where(known, np.clip(centred, -_CLIPPED, _CLIPPED), 0.0)
        columns += [z, z**2 - (z**2).mean()]
        if 0 < known.sum() < len(known):
            columns.append((known - known.mean()) / known.std())
    return np.column_stack(columns)


class _Classifier:
    """A ridge regression of the kind, learned on all folds but one and tried on that.

    It is linear in the kinds, so that a permutation costs a product.
    """

    def __init__(self, features: Floats, folds: NDArray[np.intp]) -> None:
        self._parts = []
        for fold in np.unique(folds):
            train, test = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
            x = features[train]
            # (X Xᵀ + λ)⁻¹ in place of (Xᵀ X + λ)⁻¹ where there are fewer rows than columns
            if len(train) <= x.shape[1]:
                hat = features[test] @ x.T @ np.linalg.inv(x @ x.T + RIDGE * np.eye(len(train)))
            else:
                hat = features[test] @ np.linalg.solve(x.T @ x + RIDGE * np.eye(x.shape[1]), x.T)
            self._parts.append((train, test, hat))

    def scores(self, kinds: NDArray[np.bool_]) -> Floats:
        """(P, n) held-out scores for P ways in which the kinds could lie; higher where a row looks synthetic."""
        found = np.zeros(kinds.shape)
        for train, test, hat in self._parts:
            mine = kinds[:, train].astype(float)
            found[:, test] = (mine - mine.mean(axis=1, keepdims=True)) @ hat.T
        return found


def _aucs(scores: Floats, kinds: NDArray[np.bool_], folds: NDArray[np.intp]) -> Floats:
    """(P,) of pairs within a fold, the share in which the synthetic one scores higher; ties count half.

    Args:
        scores: (P, n).
        kinds: (P, n) which rows are taken for synthetic.
        folds: (n,).
    """
    from scipy.stats import rankdata

    won, pairs = np.zeros(len(kinds)), np.zeros(len(kinds))
    for fold in np.unique(folds):
        mine = folds == fold
        ranks, own = rankdata(scores[:, mine], axis=1), kinds[:, mine]
        ours, others = own.sum(axis=1), (~own).sum(axis=1)
        won += np.where(others > 0, (ranks * own).sum(axis=1) - ours * (ours + 1) / 2, 0.0)
        pairs += ours * others
    return np.where(pairs > 0, won / np.maximum(pairs, 1), 0.5)


def _interval(
    scores: Floats, kinds: NDArray[np.bool_], folds: NDArray[np.intp], clusters: Clusters, seed: int
) -> tuple[float, float]:
    """The 95 % interval of the AUC of held-out scores, by bootstrap of groups."""
    ours, others = np.flatnonzero(kinds), np.flatnonzero(~kinds)
    same = folds[ours][:, None] == folds[others][None]
    apart = scores[ours][:, None] - scores[others][None]
    won = np.where(same, (apart > 0) + 0.5 * (apart == 0), 0.0)
    weights = clusters.counts(DRAWS, seed)[:, clusters.of_row]
    above = ((weights[:, ours] @ won) * weights[:, others]).sum(axis=1)
    pairs = ((weights[:, ours] @ same.astype(float)) * weights[:, others]).sum(axis=1)
    found = above[pairs > 0] / pairs[pairs > 0]
    low, high = np.quantile(found, [0.025, 0.975])
    return float(low), float(high)


def _giveaways(
    table: EvidenceTable, truth: NDArray[np.bool_], permuted: NDArray[np.bool_]
) -> list[DiscriminativeFeature]:
    """Each metric alone, over the conversations that have it."""
    from scipy.stats import rankdata

    found, chances = [], []
    for place, column in enumerate(table.columns):
        known = table.present[:, place]
        values, kinds = table.values[known, place], truth[known]
        ours, others = values[kinds], values[~kinds]
        if min(len(ours), len(others)) < FEWEST or np.ptp(values) == 0:
            continue
        spread = np.sqrt((ours.var(ddof=1) * (len(ours) - 1) + others.var(ddof=1) * (len(others) - 1))
                         / (len(values) - 2))  # fmt: skip
        effect = float((ours.mean() - others.mean()) / spread) if spread > 0 else 0.0
        ranks = rankdata(values)
        middle = (len(values) + 1) / 2
        apart = abs(ranks[kinds].mean() - middle)
        other = permuted[:, known]
        counts = np.maximum(other.sum(axis=1), 1)
        by_chance = np.abs(other @ ranks / counts - middle)
        chances.append(float((1 + np.sum(by_chance >= apart - 1e-9)) / (1 + len(permuted))))
        higher = float((ranks[kinds].sum() - len(ours) * (len(ours) + 1) / 2) / (len(ours) * len(others)))
        found.append((column.name, float(ours.mean()), float(others.mean()), effect, higher))
    corrected = holm(chances) if chances else []
    rows = [DiscriminativeFeature(*each, p) for each, p in zip(found, corrected, strict=True)]
    return sorted(rows, key=lambda each: -abs(each.effect))
