"""Levels of long scales.

Answers on a long or real scale are reduced to a few levels for learning. A model gives each level a probability for
each annotator; inside a level the options keep the shares that all annotators together give them. Together they form a
piecewise density over the scale (LLM-RUBRIC, appendix B, asks for a parametric one; this one follows the data).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from accord.evidence import Ratings

Floats = NDArray[np.float64]

MOST_LEVELS = 10
IMAGINED = 1.0
"""Imagined ratings in all, spread evenly over the options of a long scale, as in the constant model.

n ratings of K options give an option within a level a weight of its count + `IMAGINED` / K. The share of imagined
ratings is `IMAGINED` / (n + `IMAGINED`) on every scale, so that many options cannot outweigh few ratings.
"""


@dataclass(frozen=True)
class ScaleLevels:
    """Assignment of K options to L levels; with at most `MOST_LEVELS` options each one is a level.

    Attributes:
        of: (K,) level of each option, rising from 0 to L-1.
        within: (K,) share of each option in its level, summing to 1 in each level.
    """

    of: NDArray[np.intp]
    within: Floats

    @classmethod
    def fit(cls, rated: Ratings) -> ScaleLevels:
        """Return levels with about the same number of ratings each, and shares inside them with `IMAGINED` ratings."""
        options = len(rated.options)
        if options <= MOST_LEVELS:
            return cls(np.arange(options), np.ones(options))
        if not len(rated):
            of = np.arange(options) * MOST_LEVELS // options
            return cls(of, 1 / np.bincount(of)[of])
        ranks = np.arange(1, MOST_LEVELS) / MOST_LEVELS
        last = np.unique(np.quantile(rated.answer, ranks, method="higher"))
        inner = last[last < options - 1]
        of = np.searchsorted(inner if len(inner) else np.array([options // 2]), np.arange(options))
        counts = np.bincount(rated.answer, minlength=options) + IMAGINED / options
        return cls(of, counts / np.bincount(of, weights=counts)[of])

    def coarse(self, rated: Ratings) -> Ratings:
        """Return the ratings with levels as options; values stay unchanged."""
        if len(self.of) == self.of[-1] + 1:
            return rated
        middles = np.bincount(self.of, weights=self.within * rated.options).astype(float)
        return replace(rated, answer=self.of[rated.answer], options=middles)

    def fine(self, distributions: Floats) -> Floats:
        """Return (n, K) distributions over the options from (n, L) distributions over the levels."""
        return np.asarray(distributions[:, self.of] * self.within)
