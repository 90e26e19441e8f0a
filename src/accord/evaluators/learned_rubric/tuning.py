"""α and budgets by cross-validation inside the training conversations (RUBICON, section 3.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accord.errors import BadInput
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


def kinds_of(groups: Sequence[str], good: Flags) -> list[list[str]]:
    """The groups in which all is good, and the others, sorted: the two are dealt out apart."""
    names = np.asarray(groups, dtype=str)
    bad = set(names[~good])
    return [sorted(set(names) - bad), sorted(bad)]


def stratified(groups: Sequence[str], good: Flags, seed: int, folds: int = FOLDS) -> NDArray[np.intp]:
    """(C,) each conversation's fold: whole groups, good ones and bad ones dealt out apart.

    There are as many folds as leave good and bad conversations to learn from beside each, and no more than `folds`.

    Raises:
        BadInput: Two are too many: one class belongs to a single group.
    """
    names = np.asarray(groups, dtype=str)
    folds = min(folds, *(len(set(names[each])) for each in (good, ~good)))
    for count in range(folds, 1, -1):
        place = {name: fold for kind in kinds_of(groups, good) for name, fold in fold_of(kind, count, seed).items()}
        fold = np.array([place[name] for name in names], dtype=np.intp)
        if all(len(set(good[fold != each])) == 2 for each in range(count)):
            return fold
    raise BadInput(
        "all good ones, or all bad ones, belong to one conversation: nothing can be learned from some conversations "
        "and tried on others. Label more conversations"
    )


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
