"""Whether new conversations are like those that were learned from: each feature's distribution, then and now.

Turns of one conversation, and whatever else belongs together, are alike: taken for independent ones they raise an alarm
at any few conversations. So one row of each group is drawn, and these are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.evidence import Column, EvidenceTable
from accord.statistics import holm
from accord.values import Target

Floats = NDArray[np.float64]

BINS = 10
FEWEST = 20
"""Groups on either side that a comparison needs."""
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


def shifts(
    then: EvidenceTable,
    now: EvidenceTable,
    group_of: Callable[[Target], str] = lambda target: target.conversation,
) -> list[Shift]:
    """Each feature's shift, the largest first; features of too few groups on a side are left out.

    Args:
        then: What was learned from; its groups are its conversations (`TrainedOn.texts`).
        now: What is new.
        group_of: The group of each new row.
    """
    after = {column.name: values for column, values in one_per_group(now, group_of).items()}
    found = [
        (column.name, values, after[column.name])
        for column, values in one_per_group(then).items()
        if min(len(values), len(after.get(column.name, ()))) >= FEWEST
    ]
    corrected = holm([chance(old, new) for _, old, new in found])
    all_shifts = [
        Shift(name, float(old.mean()), float(new.mean()), stability(old, new), p)
        for (name, old, new), p in zip(found, corrected, strict=True)
    ]
    return sorted(all_shifts, key=lambda shift: -shift.stability)


def one_per_group(
    table: EvidenceTable, group_of: Callable[[Target], str] = lambda target: target.conversation
) -> dict[Column, Floats]:
    """The (G,) values of each column in one row, drawn at random, of each group that has it."""
    order = np.random.default_rng(0).permutation(len(table))
    groups = np.array([group_of(table.targets[row]) for row in order], dtype=str)
    drawn = {}
    for place, column in enumerate(table.columns):
        rows = table.present[order, place]
        _, first = np.unique(groups[rows], return_index=True)
        drawn[column] = table.values[order[rows][first], place]
    return drawn


def chance(then: Floats, now: Floats) -> float:
    """How probable so different values are by chance: the two-sample Kolmogorov-Smirnov test, asymptotically."""
    from scipy.stats import ks_2samp

    return float(ks_2samp(then, now, method="asymp").pvalue)  # the exact one gives up, with a warning, at some sizes


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
