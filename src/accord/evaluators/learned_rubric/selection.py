"""Selecting rubrics from a pool (RUBICON, algorithm 1): the next one is the one that improves the whole set most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accord.evaluators.learned_rubric.sharpness import TOP, Flags, Floats, Moments, Whole, moments, sharpness_loss

DIGITS = 9
"""Objectives that agree in so many digits are equal, and the earlier rubric is taken: on every machine alike."""
CELLS_AT_ONCE = 1 << 14
"""Scores that are sorted together: their curves stay in the processor's cache."""
Set = frozenset[int]


@dataclass(frozen=True)
class Pool:
    """What a judge said of every rubric of a pool about every conversation that people called good or bad.

    Attributes:
        points: (P, C) whole thousandths: 0 to 10,000 for a SAT rubric, −10,000 to 0 for a DSAT one, times its weight.
        sat: (P,) which rubrics speak for a conversation; the others speak against it.
        good: (C,) which conversations are good.
        weight: (P,) what each rubric counts; 1 each without it.
    """

    points: Whole
    sat: Flags
    good: Flags
    weight: Floats | None = None

    def of(self, conversations: NDArray[np.intp] | Flags) -> Pool:
        """The same pool on some of the conversations."""
        return Pool(self.points[:, conversations], self.sat, self.good[conversations], self.weight)

    @property
    def separation(self) -> Floats:
        """(P,) what each rubric adds to the difference between the classes' means, in points."""
        classes = (self.points[:, self.good].mean(axis=1), self.points[:, ~self.good].mean(axis=1))
        return np.asarray((classes[0] - classes[1]) * 10 / TOP)

    def net_sat(self, chosen: Sequence[int]) -> Whole:
        """(C,) NetSAT in thousandths: the sum over a set of rubrics."""
        return np.asarray(self.points[list(chosen)].sum(axis=0, dtype=np.int32))


@dataclass(frozen=True, slots=True)
class Budget:
    """How many rubrics of each class a selection may hold."""

    sat: int
    dsat: int

    def allows(self, pool: Pool, chosen: Sequence[int]) -> NDArray[np.intp]:
        """The rubrics that may come next: of a class whose budget is not full, and not chosen yet."""
        taken = int(pool.sat[list(chosen)].sum())
        open_ = np.where(pool.sat, taken < self.sat, len(chosen) - taken < self.dsat)
        open_[list(chosen)] = False
        return np.flatnonzero(open_)


class Candidates:
    """LC and LS of every set that is a given one and one rubric more; LS is computed once, whatever α asks for it."""

    def __init__(self, pool: Pool, pooled: bool = False) -> None:
        """`pooled` stretches the targets of sharpness to the spread of the scores, and to [0, 1]."""
        self.pool, self.pooled = pool, pooled
        good, points = pool.good, pool.points.astype(np.float64)  # whole numbers far below 2⁵³: sums stay exact
        self._good, self._bad = int(good.sum()), int((~good).sum())
        self._points = points
        self._weight = np.ones(len(points)) if pool.weight is None else pool.weight
        self._good_sums, self._bad_sums = points[:, good].sum(axis=1), points[:, ~good].sum(axis=1)
        self._squares = np.einsum("ij,ij->i", points, points)
        self._keys = 2 * pool.points + good.astype(np.int32)
        self._sharpness: dict[Set, Floats] = {}

    def best(self, chosen: Sequence[int], rows: NDArray[np.intp], alpha: float) -> int:
        """Which of `rows` makes LC/range − α·LS largest beside the chosen ones; the earliest of equals."""
        now = self.pool.net_sat(chosen)
        found = self._moments(now)
        objective = found.separation[rows] / (TOP * (self._weight[list(chosen)].sum() + self._weight[rows]))
        if alpha:
            objective -= alpha * self._losses(chosen, rows, now, found)
        return int(rows[int(np.round(objective, DIGITS).argmax())])

    def _losses(self, chosen: Sequence[int], rows: NDArray[np.intp], now: Whole, found: Moments) -> Floats:
        known = self._sharpness.setdefault(frozenset(chosen), np.full(len(self._keys), np.nan))
        new = rows[np.isnan(known[rows])]
        block, twice = max(1, CELLS_AT_ONCE // len(now)), 2 * now
        for some in (new[start : start + block] for start in range(0, len(new), block)):
            spread = found.pooled[some] if self.pooled else None
            known[some] = sharpness_loss(self._keys[some] + twice, self._good, found.threshold[some], spread)
        return known[rows]

    def _moments(self, now: Whole) -> Moments:
        """Of every rubric of the pool beside a set that scores `now`."""
        sums, good = now.astype(np.float64), self.pool.good
        squares = sums @ sums + 2 * (self._points @ sums) + self._squares
        of_good, of_bad = sums[good].sum() + self._good_sums, sums[~good].sum() + self._bad_sums
        return moments(of_good, of_bad, squares, self._good, self._bad)


def select(candidates: Candidates, budget: Budget, alpha: float) -> list[int]:
    """Algorithm 1: rubrics in the order they were chosen, until both budgets are full or the pool is empty.

    The paper's line 11 adds α·LS, an error; it is subtracted here, and LC divided by what the scores could span, so
    that α has no unit.
    """
    chosen: list[int] = []
    while len(rows := budget.allows(candidates.pool, chosen)):
        chosen.append(candidates.best(chosen, rows, alpha))
    return chosen
