"""The alternative annotator test: may a judge replace one of several people?

For a row i that annotator j and others labeled, the judge's answer f and the label h_j are compared with the labels of
the others: S is the share of equal ones, or minus the root mean squared difference on an ordered scale. With
W^f = [S(f) ≥ S(h_j)] and W^h = [S(h_j) ≥ S(f)], the hypothesis that the judge is worse than annotator j by more than a
margin ε,

    H_0j: ρ^f_j ≤ ρ^h_j - ε,   ρ^f_j = mean_i W^f_ij,   ρ^h_j = mean_i W^h_ij,

is tested by a one-sided paired t test of d_i = W^h_i - W^f_i against ε. The winning rate ω is the share of annotators
whose hypothesis is rejected at a false discovery rate of .05 (Benjamini & Yekutieli, 2001), and the judge passes if ω
is at least .5. The advantage probability ρ is the mean of ρ^f_j. The paper suggests ε = .2 for experts, .15 for trained
annotators and .1 for crowd workers (Calderon, Reichart & Dror, "The Alternative Annotator Test for LLM-as-a-Judge",
ACL 2025, arXiv:2501.10970).

The paper takes rows as independent. Here the t test clusters rows of one item; with one row an item both are equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accord.statistics.defaults import SIGNIFICANT
from accord.statistics.intervals import clustered_mean, t_tail
from accord.statistics.jackknife import jackknife_of
from accord.statistics.resampling import Clusters
from accord.values import Estimate

Floats = NDArray[np.float64]

MARGINS = (0.2, 0.15, 0.1)
"""ε for experts, trained annotators and crowd workers."""
MIN_ANNOTATORS, MIN_SHARED = 3, 30
"""Annotators that the test needs, and rows of each that another annotator labeled."""
PASSES = 0.5
"""Smallest winning rate of a judge that may replace an annotator."""
_TINY = 1e-9


@dataclass(frozen=True)
class AlternativeAnnotators:
    """Result of the alternative annotator test.

    Attributes:
        annotators: Places of the annotators that were tested.
        rows: Number of rows by annotator.
        advantages: ρ^f by annotator.
        winning_rates: ω by margin ε.
        advantage: ρ, the mean of the advantages, with its interval over items.
    """

    annotators: Sequence[int]
    rows: Sequence[int]
    advantages: Sequence[float]
    winning_rates: Mapping[float, float]
    advantage: Estimate


def alternative_annotator_test(
    labels: Floats, answer: Floats, item: NDArray[np.object_], is_ordered: bool
) -> AlternativeAnnotators | str:
    """Test whether a judge may replace one of several annotators.

    Args:
        labels: (n, A) labels; NaN for none.
        answer: (n,) the judge's answers; NaN for none.
        item: (n,) item of each row.
        is_ordered: True if labels are compared by their distance, False if only equal ones agree.

    Returns:
        The reason as a text if fewer than 3 annotators share 30 rows with others.
    """
    known = ~np.isnan(labels)
    count = known.sum(axis=1)
    row, who = np.nonzero(known & (~np.isnan(answer) & (count > 1))[:, None])
    shared = np.bincount(who, minlength=labels.shape[1])
    enough = np.flatnonzero(shared >= MIN_SHARED)
    if len(enough) < MIN_ANNOTATORS:
        people = labels.shape[1]
        having = f"{len(enough)} of {people} do" if people >= MIN_ANNOTATORS else f"the table has {people}"
        return f"it needs {MIN_ANNOTATORS} people who share {MIN_SHARED} rows with others; {having}"
    own, judge, others = labels[row, who], answer[row], count[row] - 1.0
    if is_ordered:
        squares, sums = np.nansum(labels**2, axis=1)[row], np.nansum(labels, axis=1)[row]

        def score(value: Floats) -> Floats:
            distance = squares - 2 * value * sums + count[row] * value**2 - (value - own) ** 2
            return np.asarray(-np.sqrt(np.maximum(distance, 0.0) / others))
    else:
        values = np.unique(labels[known])
        counts = np.column_stack([*((labels == value).sum(axis=1) for value in values), np.zeros(len(labels))])

        def score(value: Floats) -> Floats:
            place = np.minimum(np.searchsorted(values, value), len(values) - 1)
            equal = counts[row, np.where(values[place] == value, place, len(values))]
            return np.asarray((equal - (value == own)) / others)

    gap = score(judge) - score(own)
    judge_wins, person_wins = (gap >= -_TINY).astype(float), (gap <= _TINY).astype(float)
    names = np.asarray(item)[row]
    p_values: dict[float, list[float]] = {margin: [] for margin in MARGINS}
    for each in enough:
        rows = who == each
        found = clustered_mean((person_wins - judge_wins)[rows], names[rows])
        for margin in MARGINS:
            below = margin - found.mean
            if 0 < found.error < np.inf:
                p_values[margin].append(t_tail(below / found.error, found.groups - 1))
            else:  # no difference between the rows, or one item
                p_values[margin].append(0.0 if found.error == 0 and below > 0 else 1.0)
    clusters, column = Clusters(names), np.full(labels.shape[1], -1)
    column[enough] = np.arange(len(enough))
    tested = column[who] >= 0
    cell = clusters.of_row[tested] * len(enough) + column[who[tested]]
    wins, cells = (
        np.bincount(cell, weights, len(clusters) * len(enough)).reshape(len(clusters), -1)
        for weights in (judge_wins[tested], np.ones(len(cell)))
    )

    def advantage(kept: Floats) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(((kept @ wins) / (kept @ cells)).mean(axis=1))

    value = float(advantage(np.ones((1, len(clusters))))[0])
    interval = jackknife_of(advantage, len(clusters), len(cell), value, is_bounded=False)
    ends = (None if end is None else min(max(end, 0.0), 1.0) for end in (interval.low, interval.high))
    return AlternativeAnnotators(
        [int(each) for each in enough], [int(shared[each]) for each in enough],
        [float(judge_wins[who == each].mean()) for each in enough],
        {margin: float(np.mean(_rejected(values))) for margin, values in p_values.items()}, Estimate(value, *ends),
    )  # fmt: skip


def _rejected(p_values: Sequence[float]) -> NDArray[np.bool_]:
    """Return which hypotheses Benjamini and Yekutieli's procedure rejects at the rate `SIGNIFICANT`."""
    p = np.asarray(p_values)
    order, ranks = np.argsort(p, kind="stable"), np.arange(1, len(p) + 1)
    passes = np.flatnonzero(p[order] <= ranks / (len(p) * (1.0 / ranks).sum()) * SIGNIFICANT)
    rejected = np.zeros(len(p), dtype=bool)
    if len(passes):
        rejected[order[: passes[-1] + 1]] = True
    return rejected
