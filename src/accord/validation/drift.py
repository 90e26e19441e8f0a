"""Whether new conversations are like those that were learned from: each feature's distribution, then and now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.evidence import EvidenceTable
from accord.statistics import holm

Floats = NDArray[np.float64]

BINS = 10
FEWEST = 20
"""Rows on either side that a comparison needs."""
LEVEL = 0.05
SHIFTED = 0.2
"""Stability index from which a feature is commonly called shifted."""


@dataclass(frozen=True, slots=True)
class Shift:
    """One feature then and now.

    Attributes:
        feature: Its name.
        then, now: Its means.
        stability: Population stability index over deciles of then, Σ (p - q)·log(p/q).
        p_holm: Of the two-sample Kolmogorov-Smirnov test, corrected over all features.
    """

    feature: str
    then: float
    now: float
    stability: float
    p_holm: float

    @property
    def is_shifted(self) -> bool:
        """Whether the shift is both larger than chance and large enough to matter."""
        return self.p_holm < LEVEL and self.stability >= SHIFTED

    def to_json(self) -> dict[str, Any]:
        """A flat row."""
        names = ("feature", "then", "now", "stability", "p_holm")
        return {**{name: getattr(self, name) for name in names}, "is_shifted": self.is_shifted}


def shifts(then: EvidenceTable, now: EvidenceTable) -> list[Shift]:
    """Each feature's shift, the largest first; features with too few values on a side are left out."""
    from scipy.stats import ks_2samp

    found: list[tuple[str, Floats, Floats]] = []
    place = {column.name: index for index, column in enumerate(now.columns)}
    for index, column in enumerate(then.columns):
        if column.name not in place:
            continue
        before = then.values[then.present[:, index], index]
        after = now.values[now.present[:, place[column.name]], place[column.name]]
        if len(before) >= FEWEST and len(after) >= FEWEST:
            found.append((column.name, before, after))
    corrected = holm([float(ks_2samp(before, after).pvalue) for _, before, after in found])
    all_shifts = [
        Shift(name, float(before.mean()), float(after.mean()), stability(before, after), p)
        for (name, before, after), p in zip(found, corrected, strict=True)
    ]
    return sorted(all_shifts, key=lambda shift: -shift.stability)


def stability(then: Floats, now: Floats) -> float:
    """Population stability index: how far `now` fills the deciles of `then` otherwise; 0 where just the same.

    Half a count is added to each bin, so that an empty one is no infinity.
    """
    edges = np.unique(np.quantile(then, np.linspace(0, 1, BINS + 1)[1:-1]))
    counts = [np.bincount(np.searchsorted(edges, each, side="right"), minlength=len(edges) + 1) for each in (then, now)]
    p, q = ((count + 0.5) / (count.sum() + 0.5 * len(count)) for count in counts)
    return float(((p - q) * np.log(p / q)).sum())


def said(found: Sequence[Shift]) -> str:
    """One sentence on what moved."""
    moved = [shift.feature for shift in found if shift.is_shifted]
    if not found:
        return "Too few conversations to compare with those that were learned from."
    if not moved:
        return "The new conversations are like those that were learned from."
    shown = ", ".join(moved[:5]) + (", …" if len(moved) > 5 else "")
    return f"{len(moved)} of {len(found)} features moved: {shown}. Label some of the new conversations and fit again."
