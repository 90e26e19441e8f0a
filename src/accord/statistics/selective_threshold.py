"""Which calls are sure enough: the widest share of them that agrees with people as often as is promised.

Ratings that were predicted without their groups are sorted by how sure the call was. The surest fifth is tested first,
then 5 % more at a time, each at the same level: is the share of wrong calls, at its upper confidence bound, within what
was promised? At the first that fails testing stops; the last that passed gives the threshold (fixed-sequence testing;
Jung, Brahman & Choi, "Trust or Escalate", 2024). Chance that the threshold breaks the promise: 1 - confidence.

Ratings of one group may be wrong together, so the bound is Clopper and Pearson's for as many independent ratings as
they are worth (Korn & Graubard, 1998).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accord.statistics.defaults import CONFIDENCE
from accord.statistics.tails import beta_quantile, t_quantile

Floats = NDArray[np.float64]

FIRST, STEP = 0.2, 0.05
"""Share of the ratings that is tested first, and how much wider each further one is."""


@dataclass(frozen=True)
class Tested:
    """The surest calls of the held-out ratings.

    Attributes:
        threshold: How sure the least sure of them is, a probability from .5 to 1.
        share: Of all held-out ratings.
        called: How many they are.
        agreement: Share of them that agrees with what people said.
        at_least: Its lower confidence bound.
        groups: How many groups they are of.
    """

    threshold: float
    share: float
    called: int
    agreement: float
    at_least: float
    groups: int

    def to_json(self) -> dict[str, float]:
        """Everything."""
        return asdict(self)


def fixed_sequence(
    sure: Floats, right: NDArray[np.bool_], group: ArrayLike, agree: float, confidence: float = CONFIDENCE
) -> tuple[Tested | None, Tested]:
    """The widest share that passed, `None` where the first one failed; and the one that was tested last.

    Args:
        sure: (n,) probability of the called side.
        right: (n,) whether a person said the same.
        group: (n,) what belongs together.
        agree: Share of the calls that people should agree with.
        confidence: With which the promise should hold.
    """
    order, names = np.argsort(-sure, kind="stable"), np.asarray(group).astype(str)
    passed = None
    for share in np.arange(FIRST, 1.0 + STEP / 2, STEP):
        least = sure[order[max(int(np.ceil(share * len(sure) - 1e-9)), 1) - 1]]
        rows = np.flatnonzero(sure >= least)  # of equally sure ones all
        bound = upper_bound(~right[rows], names[rows], confidence)
        tested = Tested(
            float(least), len(rows) / len(sure), len(rows), float(right[rows].mean()), 1.0 - bound,
            len(set(names[rows])),
        )  # fmt: skip
        if tested.at_least < agree:
            return passed, tested
        passed = tested
    assert passed is not None
    return passed, passed


def upper_bound(wrong: NDArray[np.bool_], group: ArrayLike, confidence: float = CONFIDENCE) -> float:
    """The one-sided upper confidence bound of a share, from rows that come in groups.

        n* = p(1 - p) / v · (t_{n-1} / t_{G-1})²,  bound = Beta⁻¹(confidence; n*·p + 1, n*·(1 - p))

    v is the variance of p between groups; n* is at most n, and G where nothing was wrong or everything was.
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
