"""Metrics in bins: where a value stands among those seen, as a place between knots (soft) or as one of five (hard)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

BINS = 5
KEPT = 1000
"""The most values of a metric that its ranks are told from."""


@dataclass(frozen=True)
class Bins:
    """Where values stand among those seen.

    Ranks carry over between places where raw values do not; a value beyond all seen counts as the last.

    Attributes:
        seen: (m, M) each metric's values, rising; NaN at the end where there were fewer.
    """

    seen: Floats

    @classmethod
    def fit(cls, X: Floats) -> Bins:
        """From (n, M) values, NaN where missing."""
        ordered = np.sort(X, axis=0)  # NaN comes last
        if len(X) <= KEPT:
            return cls(ordered)
        known = np.isfinite(ordered).sum(axis=0)
        places = np.linspace(0, 1, KEPT)[:, None] * np.maximum(known - 1, 0)
        return cls(np.take_along_axis(ordered, places.round().astype(int), axis=0))

    def ranks(self, X: Floats) -> Floats:
        """(n, M) each value's mid-rank among those seen, 0 to 1; NaN where it is missing or none was seen."""
        found = np.full(X.shape, np.nan)
        for place, known in enumerate(self._known):
            if len(known):
                both = known.searchsorted(X[:, place], "left") + known.searchsorted(X[:, place], "right")
                found[:, place] = both / (2 * len(known))
        found[np.isnan(X)] = np.nan
        return found

    @cached_property
    def _known(self) -> list[Floats]:
        return [column[np.isfinite(column)] for column in self.seen.T]

    def soft(self, X: Floats) -> Floats:
        """(n, M, BINS + 1) how much each value belongs to each bin, summing to 1; the last says that it is missing."""
        ranks = self.ranks(X)
        missing = np.isnan(ranks)
        knots = np.linspace(0, 1, BINS)
        hats = np.maximum(0.0, 1 - np.abs(np.where(missing, 0.0, ranks)[..., None] - knots) * (BINS - 1))
        return np.concatenate([np.where(missing[..., None], 0.0, hats), missing[..., None]], axis=-1)

    def hard(self, X: Floats) -> Floats:
        """(n, M, BINS + 1) 1 for the bin that each value falls into, all bins equally full; the last where missing."""
        ranks = self.ranks(X)
        place = np.where(np.isnan(ranks), BINS, np.minimum(np.nan_to_num(ranks) * BINS, BINS - 1)).astype(int)
        return np.asarray(np.eye(BINS + 1)[place])
