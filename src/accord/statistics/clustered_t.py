"""t intervals of sums over whole groups: means, and differences of means that share groups.

The variance is estimated from each group's contribution, so that systems that answered the same inputs are compared
input by input. The degrees of freedom follow from the variance that the estimate would have if members were independent
(Satterthwaite, 1946; Welch, 1947; by groups Bell & McCaffrey, 2002). With one member per group they are Welch's; if two
means share every group, those of the paired t test.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accord.statistics.defaults import CONFIDENCE
from accord.statistics.tails import t_quantile, t_tail

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class CenteredPart:
    """Centered contributions of n conversations to a sum, with their groups.

    Attributes:
        adds: (n,) estimated contribution of each conversation beyond its expectation; they sum to 0.
        group: (n,) group of each conversation.
    """

    adds: Floats
    group: NDArray[np.str_]

    def times(self, factor: float) -> CenteredPart:
        """Return the contributions to a multiple of the sum."""
        return CenteredPart(factor * self.adds, self.group)


def spread_of(parts: Sequence[CenteredPart], spent: float = 0.0) -> tuple[float, float]:
    """Return the standard error of a sum of parts, and the degrees of freedom of its square.

    With z_pg the contribution of group g to part p, the variance is Σ_g (Σ_p f_p·z_pg)². If the n_p conversations of
    part p were independent with variance σ_p², the f_p·z_pg would have the covariances M_p = f_p²·σ_p²·(diag(n_pg) -
    n_p·n_p'/n_p). f_p makes tr M_p = n_p·σ_p², which makes the variance unbiased then, and with M = Σ_p M_p its degrees
    of freedom are (tr M)² / tr M².

    Args:
        parts: Parts, each centered around its own mean; a part with a single group counts every conversation as a
            group.
        spent: Share of the degrees of freedom that other estimates used.
    """
    counted = [part for part in parts if len(part.adds) > 1 and np.ptp(part.adds) > 0]
    if not counted:
        return 0.0, 1.0
    names = [part.group if len(set(part.group)) > 1 else np.arange(len(part.adds)).astype(str) for part in counted]
    every, place = np.unique(np.concatenate(names), return_inverse=True)
    added, D, roots = np.zeros(len(every)), np.zeros(len(every)), []
    for part, mine in zip(counted, np.split(place, np.cumsum([len(each) for each in names])[:-1]), strict=True):
        n, size = len(mine), np.bincount(mine, minlength=len(every))
        factor = 1.0 / (1.0 - float((size**2).sum()) / n**2)
        variance = factor * float(part.adds @ part.adds) / (n - 1)
        added += np.sqrt(factor) * np.bincount(mine, part.adds, len(every))
        D += variance * size
        roots.append(np.sqrt(variance / n) * size)
    a, left = np.array(roots), 1.0 - spent
    trace = float(D.sum() - (a**2).sum())
    squared = float((D**2).sum() - 2 * (a**2 @ D).sum() + ((a @ a.T) ** 2).sum())
    return float(np.sqrt(added @ added / left)), max(trace**2 / squared * left, 1.0)


def reach(parts: Sequence[CenteredPart], spent: float = 0.0) -> float:
    """Return the half width of the interval of a sum of parts; arguments as in `spread_of`."""
    error, freedom = spread_of(parts, spent)
    return t_quantile((1 + CONFIDENCE) / 2, freedom) * error


def p_value(value: float, parts: Sequence[CenteredPart], spent: float = 0.0) -> float:
    """Return the two-sided p of a sum of parts with expectation 0; 1 if nothing varies."""
    error, freedom = spread_of(parts, spent)
    return 2 * t_tail(abs(value) / error, freedom) if error > 0 else 1.0
