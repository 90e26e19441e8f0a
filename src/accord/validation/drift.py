"""Drift: comparison of feature distributions between training data and new conversations.

Turns of one conversation, and other members of a group, are dependent; treated as independent rows they cause false
alarms. So one row of each group is sampled, and these rows are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.edges import count_of
from accord.evidence import Column, EvidenceTable
from accord.learning import UNLIKE
from accord.statistics import SIGNIFICANT, holm
from accord.values import Target

Floats = NDArray[np.float64]

BINS = 10
MIN_GROUPS = 20
"""Minimum number of groups on each side."""
MOST_UNLIKE = 0.2
"""Share of conversations unlike the training data above which they differ as a whole, regardless of single features."""
_NEXT = "Label new conversations and fit again."
SHIFT_THRESHOLD = 0.2
"""Common threshold of the stability index for a shift."""


@dataclass(frozen=True, slots=True)
class Shift:
    """Shift of one feature between training data and new data.

    Attributes:
        feature: Name of the feature.
        then, now: Means of the training data and of the new data.
        stability: Population stability index over the deciles of the training data, Σ (p - q)·log(p/q).
        p_holm: p-value of the two-sample Kolmogorov-Smirnov test, with Holm's correction over all features.
    """

    feature: str
    then: float
    now: float
    stability: float
    p_holm: float

    @property
    def is_shifted(self) -> bool:
        """True if the shift is significant and its stability index reaches `SHIFT_THRESHOLD`."""
        return self.p_holm < SIGNIFICANT and self.stability >= SHIFT_THRESHOLD

    def to_json(self) -> dict[str, Any]:
        """Return a flat row of JSON values."""
        names = ("feature", "then", "now", "stability", "p_holm")
        return {**{name: getattr(self, name) for name in names}, "is_shifted": self.is_shifted}


def shifts(
    then: EvidenceTable,
    now: EvidenceTable,
    group_of: Callable[[Target], str] = lambda target: target.conversation,
) -> list[Shift]:
    """Return the shift of each feature with enough groups, the largest first.

    Args:
        then: The training data; its groups are its conversations.
        now: The new data.
        group_of: Function that returns the group of a new row.
    """
    after = {column.name: values for column, values in sample_one_per_group(now, group_of).items()}
    pairs = [
        (column.name, values, after[column.name])
        for column, values in sample_one_per_group(then).items()
        if min(len(values), len(after.get(column.name, ()))) >= MIN_GROUPS
    ]
    corrected = holm([ks_p_value(old, new) for _, old, new in pairs])
    all_shifts = [
        Shift(name, float(old.mean()), float(new.mean()), stability(old, new), p)
        for (name, old, new), p in zip(pairs, corrected, strict=True)
    ]
    return sorted(all_shifts, key=lambda shift: -shift.stability)


def sample_one_per_group(
    table: EvidenceTable, group_of: Callable[[Target], str] = lambda target: target.conversation
) -> dict[Column, Floats]:
    """Return by column the values, (G,), of one random row of each group that has the column."""
    order = np.random.default_rng(0).permutation(len(table))
    groups = np.array([group_of(table.targets[row]) for row in order], dtype=str)
    sampled = {}
    for place, column in enumerate(table.columns):
        rows = table.present[order, place]
        _, first = np.unique(groups[rows], return_index=True)
        sampled[column] = table.values[order[rows][first], place]
    return sampled


def ks_p_value(then: Floats, now: Floats) -> float:
    """Return the asymptotic p-value of the two-sample Kolmogorov-Smirnov test."""
    from scipy.stats import ks_2samp

    return float(ks_2samp(then, now, method="asymp").pvalue)  # the exact method fails with a warning at some sizes


def stability(then: Floats, now: Floats) -> float:
    """Return the population stability index of `now` over the deciles of `then`; 0 for equal distributions.

    Half a count is added to each bin, so that the index of an empty bin is finite.
    """
    edges = np.unique(np.quantile(then, np.linspace(0, 1, BINS + 1)[1:-1]))
    counts = [np.bincount(np.searchsorted(edges, side, side="right"), minlength=len(edges) + 1) for side in (then, now)]
    p, q = ((count + 0.5) / (count.sum() + 0.5 * len(count)) for count in counts)
    return float(((p - q) * np.log(p / q)).sum())


def drift_summary(all_shifts: Sequence[Shift], unlike: int = 0, conversations: int = 0) -> str:
    """Return a sentence on the conversations that are unlike the training data, and on the shifted features.

    Args:
        all_shifts: Shift of each feature that could be compared.
        unlike: Number of conversations whose scores have a warning that they are unlike the training data.
        conversations: Number of conversations.
    """
    moved = [shift.feature for shift in all_shifts if shift.is_shifted]
    alone = f"{unlike} of {count_of(conversations, 'conversation')} {'is' if unlike == 1 else 'are'} {UNLIKE}"
    if moved:
        names = ", ".join(moved[:5]) + (", …" if len(moved) > 5 else "")
        shifted = f"{len(moved)} of {count_of(len(all_shifts), 'feature')} shifted: {names}"
        return f"{alone + ', and ' if unlike else ''}{shifted}. {_NEXT}"
    if unlike > conversations * MOST_UNLIKE:
        return f"{alone}{', although no single feature shifted' if all_shifts else ''}. {_NEXT}"
    if not all_shifts:
        return f"{alone}." if unlike else "Too few conversations to compare with the training data."
    if unlike:
        return f"{alone}; no single feature is shown to be shifted."
    return f"No feature of {len(all_shifts):,} is shown to be shifted from the training data."
