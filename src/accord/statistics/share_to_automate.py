"""The widest share of a judge's answers that keeps its error below a limit, from few labels.

The labeled rows are sorted by the judge's confidence, and growing shares of the most confident ones are tested in a
fixed order, each at the same level: is the share of errors, at its upper confidence bound, within the limit?

    bound(s) = Beta⁻¹(confidence; n*·p + 1, n*·(1 - p)) ≤ error,   p = errors among the n most confident of the share s

Testing stops at the first failure, and the last share that passed gives the threshold. With probability `confidence`
the error of all rows like these, at and above the threshold, is within the limit (fixed-sequence testing: Angelopoulos,
Bates, Candès, Jordan & Lei, "Learn then Test", Annals of Applied Statistics 2025). n* is the effective number of
independent rows (`accord.statistics.upper_bound`), because rows of one item may be wrong together.

`fixed_sequence` is the same test with other shares, 30% and then 5% more at a time, which suit the hundreds of
held-out ratings of an evaluator; saved evaluators keep their thresholds. Here the shares follow from the error and from
the number of labels.
"""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from accord.statistics.defaults import CONFIDENCE
from accord.statistics.intervals import SelectiveTest, normal_quantile, upper_bound

Floats = NDArray[np.float64]

MOST_WRONG, LARGEST_START = 2, 1 / 3
"""Wrong answers that the first share allows, and its largest size."""
STEP, MANY, LONG_STEP = 0.005, 20_000, 0.02
"""Increase of the share, and for more than `MANY` rows, whose tests take time."""


def shares_to_test(groups: int, error: float, confidence: float = CONFIDENCE) -> Floats:
    """Return the (S,) shares of the labels that `widest_share` tests to bound a small error from few labels.

    The first share is the smallest whose bound is within the error although k of its answers are wrong,

        n_k = min {n: P(X ≤ k) ≤ 1 - confidence},   X ~ Binomial(n, error),

    with the largest k of 0, 1, 2 for which n_k is at most a third of the labels. With k = 0 one wrong answer among the
    surest ones often ends the test; a larger k cannot find small shares. The shares depend on the number of labels
    only, so the test stays valid.

    Args:
        groups: Number of labels, or of groups of dependent ones.
        error: Largest share of wrong answers, between 0 and 1.
        confidence: Confidence of the bound.

    Returns:
        No shares if the bound of all labels exceeds the error even if none is wrong.

    >>> [round(float(shares_to_test(groups, 0.05)[0]), 3) for groups in (59, 300, 1000)]
    [1.0, 0.317, 0.126]
    >>> len(shares_to_test(58, 0.05))
    0
    """
    sizes = np.arange(1.0, groups + 1)
    firsts = []
    for wrong in range(MOST_WRONG + 1):
        worth = sizes
        if wrong:  # the fewest that `upper_bound` counts for n groups with some wrong ones
            t = scipy.special.stdtrit(np.maximum(sizes - 1, 1), confidence)
            worth = (sizes - 1) * (normal_quantile(confidence) / t) ** 2
        right = worth * (1 - wrong / sizes)
        passes = (right > 0) & (scipy.special.betainc(worth - right + 1, np.maximum(right, 1e-9), error) >= confidence)
        if passes.any():
            firsts.append(int(np.argmax(passes)) + 1)
    if not firsts:
        return np.zeros(0)
    first = max([size for size in firsts if size <= LARGEST_START * groups], default=firsts[0]) / groups
    return np.append(np.arange(first, 1.0 - 1e-9, STEP if groups <= MANY else LONG_STEP), 1.0)


def widest_share(
    sure: Floats, wrong: NDArray[np.bool_], group: ArrayLike, error: float, confidence: float = CONFIDENCE
) -> tuple[SelectiveTest | None, SelectiveTest | None]:
    """Return the widest share that passed and the last share that was tested.

    Args:
        sure: (n,) confidence of each answer; higher is surer.
        wrong: (n,) True if the answer is wrong.
        group: (n,) group of each row; rows of one group may be wrong together.
        error: Largest share of wrong answers, between 0 and 1.
        confidence: Confidence of the bound.

    Returns:
        No passed share if the first one failed, and no tested share if there are too few rows for any.
    """
    order, names = np.argsort(-sure, kind="stable"), np.unique(np.asarray(group).astype(str), return_inverse=True)[1]
    passed = tested = None
    for share in shares_to_test(int(names.max(initial=-1)) + 1, error, confidence):
        least = sure[order[max(int(np.ceil(share * len(sure) - 1e-9)), 1) - 1]]
        rows = np.flatnonzero(sure >= least)  # includes all ties
        bound = upper_bound(wrong[rows], names[rows], confidence)
        tested = SelectiveTest(
            float(least), len(rows) / len(sure), len(rows), 1.0 - float(wrong[rows].mean()), 1.0 - bound,
            len(np.unique(names[rows])),
        )  # fmt: skip
        if bound > error:
            break
        passed = tested
    return passed, tested
