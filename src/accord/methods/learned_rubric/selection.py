"""Selecting rubrics from a pool (RUBICON, algorithm 1): the next one is the one that improves the whole set most."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from accord.evidence import Settings
from accord.methods.learned_rubric.sharpness import POINT, TOP, Flags, Floats, Moments, Whole, moments, sharpness_loss
from accord.statistics import FOLDS, fold_of
from accord.values import BadInput

POOLED = "pooled"
ALPHAS = (0.0, 0.5, 1.0, 2.0, 4.0)

Alpha = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]
Count = Annotated[int, Field(ge=0, strict=True)]
Rating = Annotated[float, Field(strict=True)]


class SelectionSettings(Settings):
    """How assertions are selected, and when a conversation is called good or bad."""

    policy: Literal["rubicon", "correctness", "brute-force", "ucb", "all"] = Field(
        default="rubicon", description="How assertions are chosen from the pool: algorithm 1, or a baseline."
    )
    alphas: tuple[Alpha, ...] = Field(
        default=ALPHAS, min_length=1, description="Weights of the sharpness loss, of which five folds choose one."
    )
    budgets: tuple[tuple[Count, Count], ...] = Field(
        default=((10, 10),),
        min_length=1,
        description="Pairs of the most SAT and the most DSAT assertions, of which the same folds choose one.",
    )
    answers: Literal["expected", "likeliest"] = Field(
        default="expected", description="How a distribution becomes points: its expected answer, or the likeliest one."
    )
    bad: Rating | None = Field(
        default=None, description="The highest mean rating of a bad conversation; default: below the scale's middle."
    )
    good: Rating | None = Field(
        default=None, description="The lowest mean rating of a good one; what lies between is neither."
    )
    precision: float = Field(
        default=0.9, gt=0.5, lt=1, description="The precision that labels have outside the uncertainty window."
    )
    targets: Literal["paper", "pooled"] = Field(
        default="paper", description="Targets of the sharpness loss: as printed, or stretched to the scores' spread."
    )

    @field_validator("budgets")
    @classmethod
    def _selects_something(cls, budgets: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
        if not all(map(max, budgets)):
            raise ValueError("budgets are pairs [SAT, DSAT] of how many assertions to choose, one of them above 0")
        return budgets


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


PULLS = 5
"""Of the bandit: batches that it may look at, for each rubric of the pool."""
BATCH = 10
"""Conversations of one batch."""


def reward(pool: Pool) -> Floats:
    """(P,) each rubric's score: the sum over conversations of what it adds, less the bad ones' share of it.

    As the paper puts it, the sum of its scores over a batch: Σ y·eval with y = 1 for good and −1 for bad ones. Unlike
    a difference of means it favours what is true of every conversation where good ones are more.
    """
    return np.asarray(pool.points @ np.where(pool.good, 1.0, -1.0))


def brute_force(pool: Pool, budget: Budget) -> list[int]:
    """The best rubrics of each class one by one, whatever they are worth together."""
    return _best(reward(pool), pool.sat, budget)


def correctness_alone(pool: Pool, budget: Budget) -> list[int]:
    """Algorithm 1 with α = 0."""
    return select(Candidates(pool), budget, 0.0)


def everything(pool: Pool, budget: Budget) -> list[int]:
    """The whole pool, whatever the budget."""
    return list(range(len(pool.sat)))


def ucb(pool: Pool, budget: Budget, seed: int = 0, pulls: int = PULLS) -> list[int]:
    """UCB1 over the rubrics, each pull a random batch: as if evaluations were dear (Pryzant et al., 2023).

    A pull's reward is Σ y·eval over the batch, brought to [0, 1]; pulls go to the largest mean + √(2·ln t / n).
    """
    rng = np.random.default_rng(seed)
    size, conversations = len(pool.sat), len(pool.good)
    signs = np.where(pool.good, 1.0, -1.0)
    totals, counts = np.zeros(size), np.zeros(size)
    for pull in range(size * pulls):
        waiting = np.flatnonzero(counts == 0)
        bonus = np.sqrt(2 * np.log(pull + 1) / np.maximum(counts, 1))
        arm = int(waiting[0]) if len(waiting) else int((totals / counts + bonus).argmax())
        batch = rng.choice(conversations, size=min(BATCH, conversations), replace=False)
        mean = float(pool.points[arm, batch] @ signs[batch]) / (len(batch) * TOP)
        totals[arm] += (mean + 1) / 2
        counts[arm] += 1
    return _best(totals / np.maximum(counts, 1), pool.sat, budget)


POLICIES: Mapping[str, Callable[[Pool, Budget], list[int]]] = {
    "correctness": correctness_alone,
    "brute-force": brute_force,
    "ucb": ucb,
    "all": everything,
}
"""The baselines, by name."""
RUBICON = "rubicon"
Choose = Callable[[Candidates, Budget, float], list[int]]


def chooser(policy: str, seed: int) -> Choose:
    """How a policy chooses from candidates, within a budget, at an α that only `rubicon` looks at."""
    if policy == RUBICON:
        return select
    baseline = partial(ucb, seed=seed) if policy == "ucb" else POLICIES[policy]
    return lambda candidates, budget, _: baseline(candidates.pool, budget)


def _best(values: Floats, sat: Flags, budget: Budget) -> list[int]:
    """The rubrics with the largest values, so many of each class; the earlier of equals."""
    order: NDArray[np.intp] = np.argsort(-values, kind="stable")
    return [*order[sat[order]][: budget.sat].tolist(), *order[~sat[order]][: budget.dsat].tolist()]


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
