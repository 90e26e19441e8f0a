"""Threshold of selective prediction: the widest share of calls that agree with people as often as required.

Held-out ratings are sorted by the confidence of the call. The most confident 30% are tested first, then 5% more at a
time, each at the same level: is the share of wrong calls, at its upper confidence bound, within the limit? Testing
stops at the first failure, and the last share that passed gives the threshold (fixed-sequence testing; Jung, Brahman &
Choi, "Trust or Escalate", 2024). The probability that the threshold violates the requirement is 1 - confidence.

Ratings of one group may be wrong together, so the bound is Clopper and Pearson's for the effective number of
independent ratings (Korn & Graubard, 1998).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accord.statistics.defaults import CONFIDENCE
from accord.statistics.tails import beta_quantile, t_quantile

Floats = NDArray[np.float64]

FIRST, STEP = 0.3, 0.05
"""Share of the ratings that is tested first, and the increase of each further share.

On 20 splits of each of five data sets, 30% called 53% of the replies where anything could be promised and 20% called
46%, with 4 broken promises of 100 each: the bound of fewer ratings is too wide to pass.
"""


@dataclass(frozen=True)
class SelectiveTest:
    """The most confident calls of the held-out ratings.

    Attributes:
        threshold: Confidence of the least confident of them, a probability from .5 to 1.
        share: Share of all held-out ratings.
        called: Number of calls.
        agreement: Share of them that agrees with the ratings.
        at_least: Lower confidence bound of the agreement.
        groups: Number of groups.
    """

    threshold: float
    share: float
    called: int
    agreement: float
    at_least: float
    groups: int

    def to_json(self) -> dict[str, float]:
        """Return the fields."""
        return asdict(self)


def fixed_sequence(
    sure: Floats, right: NDArray[np.bool_], group: ArrayLike, agree: float, confidence: float = CONFIDENCE
) -> tuple[SelectiveTest | None, SelectiveTest]:
    """Return the widest share that passed (None if the first one failed) and the last share that was tested.

    Args:
        sure: (n,) probability of the called side.
        right: (n,) True if the rating agrees with the call.
        group: (n,) group of each rating.
        agree: Required share of calls that agree with the ratings.
        confidence: Confidence of the requirement.
    """
    passed = None
    for tested in tradeoff(sure, right, group, confidence):
        if tested.at_least < agree:
            return passed, tested
        passed = tested
    assert passed is not None
    return passed, passed


def tradeoff(
    sure: Floats, right: NDArray[np.bool_], group: ArrayLike, confidence: float = CONFIDENCE
) -> Iterator[SelectiveTest]:
    """Yield the agreement of the most confident calls for growing shares of the ratings; arguments as above."""
    order, names = np.argsort(-sure, kind="stable"), np.asarray(group).astype(str)
    for share in np.arange(FIRST, 1.0 + STEP / 2, STEP):
        least = sure[order[max(int(np.ceil(share * len(sure) - 1e-9)), 1) - 1]]
        rows = np.flatnonzero(sure >= least)  # includes all ties
        bound = upper_bound(~right[rows], names[rows], confidence)
        yield SelectiveTest(
            float(least), len(rows) / len(sure), len(rows), float(right[rows].mean()), 1.0 - bound,
            len(set(names[rows])),
        )  # fmt: skip


def upper_bound(wrong: NDArray[np.bool_], group: ArrayLike, confidence: float = CONFIDENCE) -> float:
    """Return the one-sided upper confidence bound of a share, from rows in groups.

        n* = p(1 - p) / v · (t_{n-1} / t_{G-1})²,  bound = Beta⁻¹(confidence; n*·p + 1, n*·(1 - p))

    v is the variance of p between groups. n* is at most n, and G if no row or every row was wrong.
    """
    n, p = len(wrong), float(np.mean(wrong))
    _, place, size = np.unique(np.asarray(group).astype(str), return_inverse=True, return_counts=True)
    groups = len(size)
    if p == 1.0 or groups < 2:
        return 1.0
    worth = float(groups)
    if p > 0.0:
        off = np.bincount(place, wrong, groups) - p * size
        v = groups / (groups - 1) * float(off @ off) / n**2
        fewer = (t_quantile(confidence, n - 1) / t_quantile(confidence, groups - 1)) ** 2
        worth = min(float(n), p * (1 - p) / v * fewer) if v > 0 else worth
    return beta_quantile(confidence, worth * p + 1, worth * (1 - p))
