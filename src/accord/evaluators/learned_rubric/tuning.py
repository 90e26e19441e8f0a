"""α and budgets by cross-validation inside the training conversations (RUBICON, section 3.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accord.evaluators.learned_rubric.selection import Budget, Candidates, Pool, select
from accord.evaluators.learned_rubric.sharpness import POINT, Flags, Floats
from accord.splits import FOLDS, fold_of

TOLERANCE = 1e-9


@dataclass(frozen=True)
class Trying:
    """One pair of α and budget, and what it reached on the folds that it was not chosen on."""

    alpha: float
    budget: Budget
    sharpness: float
    separation: float


@dataclass(frozen=True)
class Tuned:
    """What cross-validation chose.

    Attributes:
        alpha: The weight of the sharpness loss.
        budget: Rubrics of each class.
        scores: (C,) NetSAT in points by the rubrics that were chosen without that conversation.
        tried: All pairs that were tried, in their order.
    """

    alpha: float
    budget: Budget
    scores: Floats
    tried: Sequence[Trying]


def stratified(groups: Sequence[str], good: Flags, seed: int, folds: int = FOLDS) -> NDArray[np.intp]:
    """(C,) each conversation's fold: whole groups, the good ones and the bad ones dealt out apart.

    There are no more folds than the rarer class has groups.
    """
    names = np.asarray(groups, dtype=str)
    kinds = [sorted(set(names[good]) - set(names[~good])), sorted(set(names[~good]))]
    folds = max(min(folds, *(len(set(names[each])) for each in (good, ~good))), 2)
    place = {name: fold for kind in kinds for name, fold in fold_of(kind, folds, seed).items()}
    return np.array([place[name] for name in names], dtype=np.intp)


def tuned(
    pool: Pool,
    fold: NDArray[np.intp],
    alphas: Sequence[float],
    budgets: Sequence[Budget],
    choose: Callable[[Candidates, Budget, float], list[int]] = select,
    pooled: bool = False,
) -> Tuned:
    """The α and the budget whose held-out scores keep the classes apart best; of equals the smaller α.

    A pair is judged by how well the fitted curve tells held-out conversations apart: minus the mean log loss of
    (1 + tanh((score − θc)/s))/2, with θc and s of the training folds.
    """
    sides = [(Candidates(pool.of(fold != each), pooled), np.flatnonzero(fold == each)) for each in np.unique(fold)]
    best: tuple[Trying, Floats] | None = None
    tried = []
    for budget in budgets:
        for alpha in alphas:
            scores, units = np.zeros(len(pool.good)), np.zeros(len(pool.good))
            for candidates, rows in sides:
                chosen = choose(candidates, budget, alpha)
                scores[rows], units[rows] = _held_out(candidates.pool, pool, chosen, rows)
            one = Trying(alpha, budget, _sharp(units, pool.good), _apart(scores, pool.good))
            tried.append(one)
            if best is None or one.sharpness > best[0].sharpness + TOLERANCE:
                best = one, scores
    assert best is not None
    return Tuned(best[0].alpha, best[0].budget, best[1], tried)


def _held_out(train: Pool, pool: Pool, chosen: Sequence[int], rows: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """NetSAT of held-out conversations in points, and in standard deviations around the training side's threshold."""
    inside: Floats = train.net_sat(chosen) / POINT
    outside: Floats = pool.net_sat(chosen)[rows] / POINT
    means = inside[train.good].mean(), inside[~train.good].mean()
    residual = inside - np.where(train.good, *means)
    spread = float(np.sqrt(residual @ residual / max(len(inside) - 2, 1)))
    return outside, np.asarray((outside - sum(means) / 2) / max(spread, TOLERANCE), dtype=np.float64)


def _sharp(units: Floats, good: Flags) -> float:
    return -float(np.logaddexp(0.0, np.where(good, -2.0, 2.0) * units).mean())


def _apart(scores: Floats, good: Flags) -> float:
    return float(scores[good].mean() - scores[~good].mean())
