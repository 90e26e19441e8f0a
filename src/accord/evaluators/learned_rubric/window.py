"""From scores to verdicts (RUBICON, sections 3.3 and 4.2): a threshold, and the window in which nothing is said."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accord.evaluators.learned_rubric.sharpness import Flags, Floats

GOOD, BAD, UNCERTAIN = "good", "bad", "uncertain"


@dataclass(frozen=True)
class Curves:
    """Precision against the threshold; each (t,), at the midpoints between distinct scores, rising.

    Attributes:
        theta: The thresholds.
        good: Prec₊: the share of good ones among conversations that score higher.
        bad: Prec₋: the share of bad ones among the others.
    """

    theta: Floats
    good: Floats
    bad: Floats


def curves(scores: Floats, good: Flags) -> Curves:
    """The precision curves of (C,) scores."""
    order = np.argsort(scores, kind="stable")
    ordered, found = scores[order], np.cumsum(good[order])
    at = np.flatnonzero(ordered[1:] > ordered[:-1])
    below = at + 1.0
    above = (good.sum() - found[at]) / (len(scores) - below)
    return Curves((ordered[at] + ordered[at + 1]) / 2, above, 1.0 - found[at] / below)


@dataclass(frozen=True)
class Window:
    """Where labels begin to be precise enough.

    Attributes:
        low: A conversation that scores no higher is called bad; −∞ where none can be.
        high: A conversation that scores higher is called good; ∞ where none can be.
    """

    low: float
    high: float

    @classmethod
    def read(cls, scores: Floats, good: Flags, threshold: float, precision: float) -> Window:
        """The window between the largest θ with Prec₋ ≥ precision and the smallest θ with Prec₊ ≥ precision.

        Where the two overlap nothing is uncertain, and the threshold decides as far as both allow it. Beyond the
        outermost thresholds a curve keeps its last value, so that a side that is never precise enough stays unsaid.
        """
        found = curves(scores, good)
        sure_bad, sure_good = found.theta[found.bad >= precision], found.theta[found.good >= precision]
        low, high = sure_bad.max(initial=-np.inf), sure_good.min(initial=np.inf)
        if low >= high:
            low = high = float(np.clip(threshold, high, low))
        return cls(float(low), float(high))

    def says(self, scores: Floats) -> NDArray[np.object_]:
        """(n,) `good`, `bad` or `uncertain` for each score."""
        return np.where(scores > self.high, GOOD, np.where(scores <= self.low, BAD, UNCERTAIN)).astype(object)


def threshold_of(scores: Floats, good: Flags) -> float:
    """θc: halfway between the mean score of the good and that of the bad."""
    return float((scores[good].mean() + scores[~good].mean()) / 2)
