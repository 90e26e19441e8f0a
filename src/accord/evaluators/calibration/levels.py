"""Answers on a long or real scale as a few levels: what a core learns, and the way back to every option.

A core gives each level a probability for each annotator; inside a level the options keep the shares that all
annotators together give them. The two make a piecewise density over the scale (LLM-RUBRIC, appendix B, asks for a
parametric one; this one follows the data).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from accord.evaluators.ratings import Ratings

Floats = NDArray[np.float64]

MOST_LEVELS = 10


@dataclass(frozen=True)
class Levels:
    """How K options fall into L levels; with `MOST_LEVELS` options or fewer each is a level of its own.

    Attributes:
        of: (K,) each option's level, rising from 0 to L-1.
        within: (K,) each option's share of its level, summing to 1 in each.
    """

    of: NDArray[np.intp]
    within: Floats

    @classmethod
    def fit(cls, rated: Ratings) -> Levels:
        """Levels with about equally many of the ratings in each."""
        options = len(rated.options)
        if options <= MOST_LEVELS:
            return cls(np.arange(options), np.ones(options))
        ranks = np.arange(1, MOST_LEVELS) / MOST_LEVELS
        last = np.unique(np.quantile(rated.answer, ranks, method="higher"))
        inner = last[last < options - 1]
        of = np.searchsorted(inner if len(inner) else np.array([options // 2]), np.arange(options))
        counts = np.bincount(rated.answer, minlength=options) + 1.0
        return cls(of, counts / np.bincount(of, weights=counts)[of])

    def coarse(self, rated: Ratings) -> Ratings:
        """The ratings with levels as their options; what was said keeps its value."""
        if len(self.of) == self.of[-1] + 1:
            return rated
        middles = np.bincount(self.of, weights=self.within * rated.options).astype(float)
        return replace(rated, answer=self.of[rated.answer], options=middles)

    def fine(self, distributions: Floats) -> Floats:
        """(n, K) distributions over the options from (n, L) over the levels."""
        return np.asarray(distributions[:, self.of] * self.within)
