"""Selection of assertions from a pool (RUBICON, algorithm 1), and the objective: separation and sharpness.

    LC(R)  = mean score of good conversations − mean score of bad ones
    θc(R)  = half of the sum of these two means
    LS(R)  = mean over θ of ½·(|t₊(θ) − Prec₊(R, θ)| + |t₋(θ) − Prec₋(R, θ)|)
    t₊(θ)  = π + (1 − π)·(1 + tanh(θ − θc))/2,   t₋(θ) = (1 − π) + π·(1 − tanh(θ − θc))/2

Prec₊(θ) is the share of good conversations with scores above θ, Prec₋(θ) the share of bad ones among the others. θ runs
over the midpoints between distinct scores, in points; π is the share of good conversations. A set of assertions
maximizes LC/range − α·LS. The range is the span of its possible scores, so that neither term has a unit. Decision
0018 explains why the targets are not scaled to the spread of the scores (`pooled`). Scores are whole thousandths, so
that sums are exact in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from accord.edges import BadInput, UnknownName
from accord.evidence import SourceSettings
from accord.statistics import FOLDS, fold_of
from accord.values import Contract, Registry

Floats = NDArray[np.float64]
Whole = NDArray[np.int32]
Flags = NDArray[np.bool_]

POINT = 1000
"""Thousandths per point of the Likert range 0 to 10."""
TOP = 10 * POINT


def sharpness_loss(keys: Whole, good: int, threshold: Floats, spread: Floats | None = None) -> Floats:
    """Return LS of m candidate sets, each in [0, 1]; 1 for a set whose scores are all equal.

    With U = 1 + tanh(θ − θc), LS is a quarter of |2·(1 − Prec₊) − (1 − π)·(2 − U)| + |2·(1 − Prec₋) − π·U|.

    Args:
        keys: (m, C) twice each score, plus one for a good conversation, so that sorting by score keeps the class in the
            last bit. Sorted in place.
        good: Number of good conversations.
        threshold: (m,) θc.
        spread: (m,) pooled standard deviations. If given, targets run from 0 to 1 and θ − θc is divided by them.
    """
    keys.sort(axis=1)
    size, good_below = keys.shape[1], np.cumsum(keys[:, :-1] & 1, axis=1, dtype=np.int32)
    below = np.arange(1, size, dtype=np.int32)
    keys >>= 1
    unit = np.full(len(keys), float(POINT)) if spread is None else spread
    curve = steps(keys[:, 1:] + keys[:, :-1], threshold[:, None], unit[:, None])
    curve += 1.0
    positive, negative = (good / size, 1 - good / size) if spread is None else (1.0, 1.0)
    errors = (good_below + (size - good - below)) * (2.0 / (size - below))  # bad above / all above
    errors -= negative * (2.0 - curve)
    np.abs(errors, out=errors)
    others = good_below * (2.0 / below)
    curve *= positive
    others -= curve
    np.abs(others, out=others)
    errors += others
    apart = keys[:, 1:] != keys[:, :-1]
    if apart.all():
        return np.asarray(errors.sum(axis=1) / (4 * (size - 1)))
    errors *= apart  # no threshold between equal scores
    count = np.count_nonzero(apart, axis=1)
    return np.where(count > 0, errors.sum(axis=1) / np.maximum(4 * count, 1), 1.0)


def steps(twice: Whole, threshold: Floats, unit: Floats) -> Floats:
    """Return tanh((θ − θc)/unit) for `twice` = 2·θ; a unit of 0 makes it a step function."""
    if not unit.all():
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.tanh(np.nan_to_num((twice / 2 - threshold) / unit, nan=0.0)))
    x = twice * (0.5 / unit)
    x -= threshold / unit
    return np.tanh(x, out=x)


GOOD, BAD, UNCERTAIN = "good", "bad", "uncertain"


def curves(scores: Floats, good: Flags) -> tuple[Floats, Floats, Floats]:
    """Return, for (C,) scores, the increasing midpoints θ between distinct ones, Prec₊ and Prec₋ there; each (t,)."""
    order = np.argsort(scores, kind="stable")
    ordered, good_so_far = scores[order], np.cumsum(good[order])
    at = np.flatnonzero(ordered[1:] > ordered[:-1])
    below = at + 1.0
    above = (good.sum() - good_so_far[at]) / (len(scores) - below)
    return (ordered[at] + ordered[at + 1]) / 2, above, 1.0 - good_so_far[at] / below


@dataclass(frozen=True)
class UncertaintyWindow:
    """Scores up to `low` have the label bad (−∞: none), scores above `high` the label good (∞: none)."""

    low: float
    high: float

    @classmethod
    def read(cls, scores: Floats, good: Flags, threshold: float, precision: float) -> UncertaintyWindow:
        """Return the window between the largest θ with Prec₋ ≥ precision and the smallest θ with Prec₊ ≥ precision.

        If the two overlap, the window is empty, at the threshold clipped to both bounds.
        """
        theta, above, below = curves(scores, good)
        low, high = theta[below >= precision].max(initial=-np.inf), theta[above >= precision].min(initial=np.inf)
        if low >= high:
            low = high = float(np.clip(threshold, high, low))
        return cls(float(low), float(high))

    def says(self, scores: Floats) -> NDArray[np.object_]:
        """Return the (n,) labels `good`, `bad` or `uncertain`."""
        return np.where(scores > self.high, GOOD, np.where(scores <= self.low, BAD, UNCERTAIN)).astype(object)


def threshold_of(scores: Floats, good: Flags) -> float:
    """Return θc: the midpoint between the mean scores of good and bad conversations."""
    return float((scores[good].mean() + scores[~good].mean()) / 2)


RUBICON, ALL, POOLED = "rubicon", "all", "pooled"
ALPHAS = (0.0, 0.5, 1.0, 2.0, 4.0)

Alpha = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]
Count = Annotated[int, Field(ge=0, strict=True)]
Rating = Annotated[float, Field(strict=True)]


class SelectionSettings(SourceSettings):
    """Settings for selecting assertions and labeling conversations."""

    policy: str = Field(
        default=RUBICON,
        description="Selection of assertions from the pool: rubicon (algorithm 1), correctness (separation only), "
        "all (the whole pool), or a registered selection policy.",
    )
    alphas: tuple[Alpha, ...] = Field(
        default=ALPHAS,
        min_length=1,
        description="Weights of the sharpness loss to try; one is chosen by five-fold cross-validation.",
    )
    budgets: tuple[tuple[Count, Count], ...] = Field(
        default=((10, 10),),
        min_length=1,
        description="Pairs of the maximum number of SAT and of DSAT assertions; one is chosen on the same folds.",
    )
    answers: Literal["expected", "likeliest"] = Field(
        default="expected", description="Points of an answer distribution: its expectation, or its mode."
    )
    bad: Rating | None = Field(
        default=None, description="Highest mean rating of a bad conversation; default: below the scale's middle."
    )
    good: Rating | None = Field(
        default=None,
        description="Lowest mean rating of a good conversation; default: above the scale's middle. Ratings between "
        "bad and good are undecided.",
    )
    precision: float = Field(
        default=0.9, gt=0.5, lt=1, description="Precision of the labels given outside the uncertainty window."
    )
    targets: Literal["paper", "pooled"] = Field(
        default="paper", description="Targets of the sharpness loss: as published, or scaled to the scores' spread."
    )

    @field_validator("policy")
    @classmethod
    def _is_known(cls, policy: str) -> str:
        if policy != RUBICON and policy not in selection_policies:
            raise ValueError(str(UnknownName("selection policy", policy, [RUBICON, *selection_policies.names()])))
        return policy

    @field_validator("budgets")
    @classmethod
    def _selects_something(cls, budgets: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
        if not all(map(max, budgets)):
            raise ValueError("budgets are pairs [SAT, DSAT] of numbers of assertions; one must be above 0")
        return budgets


DIGITS = 9
"""Objectives that agree to this many digits are equal; the earlier assertion wins, on every machine."""
CELLS_AT_ONCE = 1 << 14
"""Scores sorted together; their curves fit into the processor's cache."""
Set = frozenset[int]


@dataclass(frozen=True)
class Pool:
    """A judge's points for every assertion of a pool and every good or bad conversation.

    Attributes:
        points: (P, C) thousandths: 0 to 10,000 for a SAT assertion, −10,000 to 0 for a DSAT one, times its weight.
        sat: (P,) mask of the assertions that speak for a conversation; the others speak against it.
        good: (C,) mask of good conversations.
        weight: (P,) weights; 1 by default.
    """

    points: Whole
    sat: Flags
    good: Flags
    weight: Floats | None = None

    def of(self, conversations: NDArray[np.intp] | Flags) -> Pool:
        """Return the pool on some of the conversations."""
        return Pool(self.points[:, conversations], self.sat, self.good[conversations], self.weight)

    @property
    def separation(self) -> Floats:
        """(P,) contribution of each assertion to the difference of the class means, in points."""
        classes = (self.points[:, self.good].mean(axis=1), self.points[:, ~self.good].mean(axis=1))
        return np.asarray((classes[0] - classes[1]) * 10 / TOP)

    def net_sat(self, chosen: Sequence[int]) -> Whole:
        """Return the (C,) NetSAT in thousandths: the sum over a set of assertions."""
        return np.asarray(self.points[list(chosen)].sum(axis=0, dtype=np.int32))


@dataclass(frozen=True, slots=True)
class AssertionBudget:
    """Maximum number of selected assertions of each class."""

    sat: int
    dsat: int

    def allows(self, pool: Pool, chosen: Sequence[int]) -> NDArray[np.intp]:
        """Return the assertions that may come next: not selected, of a class below its maximum."""
        sat_count = int(pool.sat[list(chosen)].sum())
        open_ = np.where(pool.sat, sat_count < self.sat, len(chosen) - sat_count < self.dsat)
        open_[list(chosen)] = False
        return np.flatnonzero(open_)


class Candidates:
    """LC and LS of every set that extends a given one by one assertion; LS is computed once for all α."""

    def __init__(self, pool: Pool, pooled: bool = False) -> None:
        """Prepare a pool; `pooled` scales the targets of sharpness to the spread of the scores, and to [0, 1]."""
        self.pool, self.pooled = pool, pooled
        good, points = pool.good, pool.points.astype(np.float64)  # integers far below 2⁵³: sums are exact
        self._good, self._bad = int(good.sum()), int((~good).sum())
        self._points = points
        self._weight = np.ones(len(points)) if pool.weight is None else pool.weight
        self._good_sums, self._bad_sums = points[:, good].sum(axis=1), points[:, ~good].sum(axis=1)
        self._squares = np.einsum("ij,ij->i", points, points)
        self._keys = 2 * pool.points + good.astype(np.int32)
        self._sharpness: dict[Set, Floats] = {}

    def best(self, chosen: Sequence[int], rows: NDArray[np.intp], alpha: float) -> int:
        """Return the row among `rows` that maximizes LC/range − α·LS with the selected ones; the earliest in a tie."""
        current, good = self.pool.net_sat(chosen), self.pool.good
        sums = current.astype(np.float64)
        of_good, of_bad = sums[good].sum() + self._good_sums, sums[~good].sum() + self._bad_sums
        plus, minus = of_good / self._good, of_bad / self._bad
        objective = (plus - minus)[rows] / (TOP * (self._weight[list(chosen)].sum() + self._weight[rows]))
        if alpha:
            squares = sums @ sums + 2 * (self._points @ sums) + self._squares
            within = squares - of_good * of_good / self._good - of_bad * of_bad / self._bad
            spread = np.sqrt(np.maximum(within, 0.0) / max(len(good) - 2, 1)) if self.pooled else None
            objective -= alpha * self._losses(chosen, rows, current, (plus + minus) / 2, spread)
        return int(rows[int(np.round(objective, DIGITS).argmax())])

    def _losses(
        self, chosen: Sequence[int], rows: NDArray[np.intp], current: Whole, threshold: Floats, spread: Floats | None
    ) -> Floats:
        """Return LS of the selected assertions with each of `rows`; known values are cached."""
        known = self._sharpness.setdefault(frozenset(chosen), np.full(len(self._keys), np.nan))
        new = rows[np.isnan(known[rows])]
        block, twice = max(1, CELLS_AT_ONCE // len(current)), 2 * current
        for some in (new[start : start + block] for start in range(0, len(new), block)):
            unit = None if spread is None else spread[some]
            known[some] = sharpness_loss(self._keys[some] + twice, self._good, threshold[some], unit)
        return known[rows]


def select(candidates: Candidates, budget: AssertionBudget, alpha: float) -> list[int]:
    """Select assertions by algorithm 1, in order, until both budgets are full or the pool is empty.

    The paper's line 11 adds α·LS, an error. Here it is subtracted, and LC is divided by the span of possible scores, so
    that α has no unit.
    """
    chosen: list[int] = []
    while len(rows := budget.allows(candidates.pool, chosen)):
        chosen.append(candidates.best(chosen, rows, alpha))
    return chosen


Policy = Callable[[Pool, AssertionBudget, int], Sequence[int]]
"""Maps a pool, a budget and a seed to rows of the pool."""
selection_policies: Registry[Policy] = Registry(
    "selection policy",
    contract=Contract.function(3, "a function of a pool, a budget and a seed", "check_selection_policy"),
)
"""Alternatives to algorithm 1: functions of a pool, a budget and a seed that return rows of the pool."""


@selection_policies.register("correctness")
def correctness_alone(pool: Pool, budget: AssertionBudget, seed: int) -> list[int]:
    """Algorithm 1 with α = 0: separation only."""
    return select(Candidates(pool), budget, 0.0)


@selection_policies.register(ALL)
def everything(pool: Pool, budget: AssertionBudget, seed: int) -> list[int]:
    """The whole pool, for any budget."""
    return list(range(len(pool.sat)))


Choose = Callable[[Candidates, AssertionBudget, float], Sequence[int]]


def chooser(policy: str, seed: int) -> Choose:
    """Return the function that selects from candidates; only `rubicon` uses α."""
    if policy == RUBICON:
        return select
    chosen = selection_policies.get(policy)
    return lambda candidates, budget, _: chosen(candidates.pool, budget, seed)


# --- the choice of α and budget -------------------------------------------------------------------------------------

TOLERANCE = 1e-9


@dataclass(frozen=True)
class TuningTrial:
    """One pair of α and budget, with its held-out sharpness and separation."""

    alpha: float
    sat: int
    dsat: int
    sharpness: float
    separation: float


@dataclass(frozen=True)
class TunedSelection:
    """Chosen α and budget, (C,) NetSAT in points from assertions selected without the conversation, and all trials."""

    alpha: float
    budget: AssertionBudget
    scores: Floats
    tried: Sequence[TuningTrial]


def kinds_of(groups: Sequence[str], good: Flags) -> list[list[str]]:
    """Return the names of the groups without bad conversations, and of the others, sorted."""
    names = np.asarray(groups, dtype=str)
    bad = set(names[~good])
    return [sorted(set(names) - bad), sorted(bad)]


def stratified(groups: Sequence[str], good: Flags, seed: int, folds: int = FOLDS) -> NDArray[np.intp]:
    """Return the (C,) fold of each conversation: whole groups, good and bad ones dealt separately.

    The number of folds is the largest one, up to `folds`, that leaves good and bad conversations outside each fold.
    `BadInput` if one class belongs to a single group.
    """
    names = np.asarray(groups, dtype=str)
    folds = min(folds, *(len(set(names[each])) for each in (good, ~good)))
    for count in range(folds, 1, -1):
        fold_of_group = {
            name: fold for kind in kinds_of(groups, good) for name, fold in fold_of(kind, count, seed).items()
        }
        fold = np.array([fold_of_group[name] for name in names], dtype=np.intp)
        if all(len(set(good[fold != each])) == 2 for each in range(count)):
            return fold
    raise BadInput(
        "all good conversations, or all bad ones, belong to one conversation, so that none are left to test on. Label "
        "more conversations"
    )


def tuned(
    pool: Pool,
    fold: NDArray[np.intp],
    alphas: Sequence[float],
    budgets: Sequence[AssertionBudget],
    choose: Choose = select,
    pooled: bool = False,
) -> TunedSelection:
    """Return the α and the budget whose held-out scores separate the classes best; in a tie the smaller α.

    The criterion is minus the mean log loss of (1 + tanh((score − θc)/s))/2 on held-out conversations, with θc and s of
    the training folds.
    """
    sides = [
        (Candidates(pool.of(fold != held_out), pooled), np.flatnonzero(fold == held_out))
        for held_out in np.unique(fold)
    ]
    best: tuple[TuningTrial, Floats] | None = None
    tried = []
    for budget in budgets:
        for alpha in alphas:
            scores, units = np.zeros(len(pool.good)), np.zeros(len(pool.good))
            for candidates, rows in sides:
                selected = choose(candidates, budget, alpha)
                scores[rows], units[rows] = _held_out(candidates.pool, pool, selected, rows)
            sharpness = -float(np.logaddexp(0.0, np.where(pool.good, -2.0, 2.0) * units).mean())
            separation = float(scores[pool.good].mean() - scores[~pool.good].mean())
            trial = TuningTrial(alpha, budget.sat, budget.dsat, sharpness, separation)
            tried.append(trial)
            if best is None or trial.sharpness > best[0].sharpness + TOLERANCE:
                best = trial, scores
    assert best is not None
    return TunedSelection(best[0].alpha, AssertionBudget(best[0].sat, best[0].dsat), best[1], tried)


def _held_out(train: Pool, pool: Pool, chosen: Sequence[int], rows: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """Return NetSAT of held-out conversations in points, and in standard deviations around the training threshold."""
    inside: Floats = train.net_sat(chosen) / POINT
    outside: Floats = pool.net_sat(chosen)[rows] / POINT
    means = inside[train.good].mean(), inside[~train.good].mean()
    residual = inside - np.where(train.good, *means)
    spread = float(np.sqrt(residual @ residual / max(len(inside) - 2, 1)))
    return outside, np.asarray((outside - sum(means) / 2) / max(spread, TOLERANCE), dtype=np.float64)
