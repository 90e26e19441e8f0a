"""How well scores separate good conversations from bad ones, and how sharply (RUBICON, sections 3.3 and 4.2).

    LC(R)  = mean score of the good − mean score of the bad
    θc(R)  = half of the sum of these two means
    LS(R)  = mean over θ of ½·(|t₊(θ) − Prec₊(R, θ)| + |t₋(θ) − Prec₋(R, θ)|)
    t₊(θ)  = π + (1 − π)·(1 + tanh(θ − θc))/2,   t₋(θ) = (1 − π) + π·(1 − tanh(θ − θc))/2

Prec₊(θ) is the share of good ones among conversations that score above θ, Prec₋(θ) the share of bad ones among the
others; θ runs over the midpoints between distinct scores, in points, and π is the share of good conversations. A set of
rubrics maximises LC/range − α·LS, where the range is what its scores could span: neither term has a unit then. Decision
0018 says why the targets are not scaled to the spread of the scores (`pooled`). Scores are whole thousandths: sums are
exact in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from accord.edges import BadInput, UnknownName
from accord.evidence import Settings
from accord.statistics import DRAWS, FOLDS, Clusters, estimate_from_draws, fold_of
from accord.values import Estimate, Registry

Floats = NDArray[np.float64]
Whole = NDArray[np.int32]
Flags = NDArray[np.bool_]

POINT = 1000
"""Thousandths in a point of the Likert range 0 to 10."""
TOP = 10 * POINT


def sharpness_loss(keys: Whole, good: int, threshold: Floats, spread: Floats | None = None) -> Floats:
    """LS of m candidate sets, each in [0, 1]; 1 for one whose scores are all equal.

    With U = 1 + tanh(θ − θc) this is a quarter of |2·(1 − Prec₊) − (1 − π)·(2 − U)| + |2·(1 − Prec₋) − π·U|.

    Args:
        keys: (m, C) twice each score, plus one where the conversation is good: what sorts by score tells the classes
            apart in its last bit. They are sorted in place.
        good: How many conversations are good.
        threshold: (m,) θc.
        spread: (m,) pooled standard deviations; where given, targets run from 0 to 1 and θ − θc is divided by them.
    """
    keys.sort(axis=1)
    size, found = keys.shape[1], np.cumsum(keys[:, :-1] & 1, axis=1, dtype=np.int32)
    below = np.arange(1, size, dtype=np.int32)
    keys >>= 1
    unit = np.full(len(keys), float(POINT)) if spread is None else spread
    curve = steps(keys[:, 1:] + keys[:, :-1], threshold[:, None], unit[:, None])
    curve += 1.0
    positive, negative = (good / size, 1 - good / size) if spread is None else (1.0, 1.0)
    errors = (found + (size - good - below)) * (2.0 / (size - below))  # the bad ones above, by all above
    errors -= negative * (2.0 - curve)
    np.abs(errors, out=errors)
    others = found * (2.0 / below)
    curve *= positive
    others -= curve
    np.abs(others, out=others)
    errors += others
    apart = keys[:, 1:] != keys[:, :-1]
    if apart.all():
        return np.asarray(errors.sum(axis=1) / (4 * (size - 1)))
    errors *= apart  # between equal scores there is no threshold
    count = np.count_nonzero(apart, axis=1)
    return np.where(count > 0, errors.sum(axis=1) / np.maximum(4 * count, 1), 1.0)


def steps(twice: Whole, threshold: Floats, unit: Floats) -> Floats:
    """tanh((θ − θc)/unit) where `twice` is 2·θ; a unit of nothing makes it a step."""
    if not unit.all():
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.tanh(np.nan_to_num((twice / 2 - threshold) / unit, nan=0.0)))
    x = twice * (0.5 / unit)
    x -= threshold / unit
    return np.tanh(x, out=x)


GOOD, BAD, UNCERTAIN = "good", "bad", "uncertain"


@dataclass(frozen=True)
class Curves:
    """Prec₊ (`good`) and Prec₋ (`bad`) at the midpoints between distinct scores (`theta`), rising; each (t,)."""

    theta: Floats
    good: Floats
    bad: Floats


def curves(scores: Floats, good: Flags) -> Curves:
    """The precision curves of (C,) scores."""
    order = np.argsort(scores, kind="stable")
    ordered, found = scores[order], np.cumsum(good[order])
    at = np.flatnonzero(ordered[1:] > ordered[:-1])
    below = at + 1.0
    above = (good.sum() - found[at]) / (len(scores) - below)
    return Curves((ordered[at] + ordered[at + 1]) / 2, above, 1.0 - found[at] / below)


@dataclass(frozen=True)
class Window:
    """Scores up to `low` are labelled bad (−∞: none is), scores above `high` good (∞: none is)."""

    low: float
    high: float

    @classmethod
    def read(cls, scores: Floats, good: Flags, threshold: float, precision: float) -> Window:
        """The window between the largest θ with Prec₋ ≥ precision and the smallest θ with Prec₊ ≥ precision.

        Where the two overlap nothing is uncertain, and the threshold decides as far as both allow it.
        """
        found = curves(scores, good)
        sure_bad, sure_good = found.theta[found.bad >= precision], found.theta[found.good >= precision]
        low, high = sure_bad.max(initial=-np.inf), sure_good.min(initial=np.inf)
        if low >= high:
            low = high = float(np.clip(threshold, high, low))
        return cls(float(low), float(high))

    def says(self, scores: Floats) -> NDArray[np.object_]:
        """(n,) `good`, `bad` or `uncertain` for each score."""
        return np.where(scores > self.high, GOOD, np.where(scores <= self.low, BAD, UNCERTAIN)).astype(object)


def threshold_of(scores: Floats, good: Flags) -> float:
    """θc: halfway between the mean score of the good and that of the bad."""
    return float((scores[good].mean() + scores[~good].mean()) / 2)


# --- figures ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """NetSAT of n conversations with what people called them, and how the training side would label them.

    `scores` are (n,) points, the sum of `sat` and `dsat` (negative); `threshold` and `window` are the training side's;
    `precision` is what a label's precision has to be, such as .9.
    """

    scores: Floats
    good: Flags
    threshold: float
    window: Window
    precision: float
    sat: Floats
    dsat: Floats

    def take(self, rows: NDArray[np.intp]) -> Outcome:
        """Some of the conversations, each as often as it is named."""
        some = (self.scores[rows], self.good[rows], self.threshold, self.window, self.precision)
        return Outcome(*some, self.sat[rows], self.dsat[rows])


def figures(tested: Outcome) -> dict[str, float | None]:
    """Every figure of a line of a table (RUBICON, section 4.2); `None` where it is not defined.

    `delta_netsat` is the difference of the classes' means, in points; `accuracy`, `precision`, `recall` and `f1` are of
    calling good what scores above the training side's threshold. `yield_rate` is the share outside the window as the
    paper reads it, from the labels that are tested on; `yield_deployed` the share outside the training side's window,
    `precision_deployed` how often a label given there is right. `sat_dsat` is Pearson's r of both parts of the score.
    """
    good, scores = tested.good, tested.scores
    if not good.any() or good.all():
        return dict.fromkeys(NAMES)
    called = scores > tested.threshold
    right = int((called & good).sum())
    precision = right / int(called.sum()) if called.any() else None
    recall = right / int(good.sum())
    said = tested.window.says(scores)
    labelled = said != UNCERTAIN
    hindsight = Window.read(scores, good, tested.threshold, tested.precision).says(scores)
    varied = np.ptp(tested.sat) > 0 and np.ptp(tested.dsat) > 0
    return {
        "delta_netsat": float(scores[good].mean() - scores[~good].mean()),
        "yield_rate": float((hindsight != UNCERTAIN).mean()),
        "yield_deployed": float(labelled.mean()),
        "precision_deployed": float((said == np.where(good, GOOD, BAD))[labelled].mean()) if labelled.any() else None,
        "accuracy": float((called == good).mean()),
        "precision": precision,
        "recall": recall,
        "f1": 0.0 if not right or precision is None else 2 * precision * recall / (precision + recall),
        "sat_dsat": float(np.corrcoef(tested.sat, tested.dsat)[0, 1]) if varied else None,
    }


NAMES = (
    "delta_netsat", "yield_rate", "yield_deployed", "precision_deployed",
    "accuracy", "precision", "recall", "f1", "sat_dsat",
)  # fmt: skip


def with_intervals(tested: Outcome, clusters: Clusters, draws: int = DRAWS, seed: int = 0) -> dict[str, Estimate]:
    """The figures, each with its interval over resamples of whole conversations."""
    own, draws = figures(tested), draws if len(clusters) > 1 else 0
    drawn = [figures(tested.take(clusters.rows(count))) for count in clusters.counts(draws, seed)]
    return {
        name: Estimate() if value is None else estimate_from_draws(value, np.array([one[name] for one in drawn], float))
        for name, value in own.items()
    }


RUBICON, ALL, POOLED = "rubicon", "all", "pooled"
ALPHAS = (0.0, 0.5, 1.0, 2.0, 4.0)

Alpha = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]
Count = Annotated[int, Field(ge=0, strict=True)]
Rating = Annotated[float, Field(strict=True)]


class SelectionSettings(Settings):
    """How assertions are selected, and when a conversation is called good or bad."""

    policy: str = Field(
        default=RUBICON,
        description="How assertions are selected from the pool: rubicon (algorithm 1), correctness (separation alone), "
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
        default="expected", description="How an answer distribution becomes points: its expectation, or its mode."
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
            raise ValueError("budgets are pairs [SAT, DSAT] of how many assertions to choose, one of them above 0")
        return budgets


DIGITS = 9
"""Objectives that agree in so many digits are equal, and the earlier rubric is taken: on every machine alike."""
CELLS_AT_ONCE = 1 << 14
"""Scores that are sorted together: their curves stay in the processor's cache."""
Set = frozenset[int]


@dataclass(frozen=True)
class Pool:
    """A judge's points for every assertion of a pool and every good or bad conversation.

    Attributes:
        points: (P, C) thousandths: 0 to 10,000 for a SAT assertion, −10,000 to 0 for a DSAT one, times its weight.
        sat: (P,) which assertions speak for a conversation; the others speak against it.
        good: (C,) which conversations are good.
        weight: (P,) of each assertion; 1 each without it.
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
        now, good = self.pool.net_sat(chosen), self.pool.good
        sums = now.astype(np.float64)
        of_good, of_bad = sums[good].sum() + self._good_sums, sums[~good].sum() + self._bad_sums
        plus, minus = of_good / self._good, of_bad / self._bad
        objective = (plus - minus)[rows] / (TOP * (self._weight[list(chosen)].sum() + self._weight[rows]))
        if alpha:
            squares = sums @ sums + 2 * (self._points @ sums) + self._squares
            within = squares - of_good * of_good / self._good - of_bad * of_bad / self._bad
            spread = np.sqrt(np.maximum(within, 0.0) / max(len(good) - 2, 1)) if self.pooled else None
            objective -= alpha * self._losses(chosen, rows, now, (plus + minus) / 2, spread)
        return int(rows[int(np.round(objective, DIGITS).argmax())])

    def _losses(
        self, chosen: Sequence[int], rows: NDArray[np.intp], now: Whole, threshold: Floats, spread: Floats | None
    ) -> Floats:
        """LS of the chosen ones with each of `rows`; what is known is not computed again."""
        known = self._sharpness.setdefault(frozenset(chosen), np.full(len(self._keys), np.nan))
        new = rows[np.isnan(known[rows])]
        block, twice = max(1, CELLS_AT_ONCE // len(now)), 2 * now
        for some in (new[start : start + block] for start in range(0, len(new), block)):
            unit = None if spread is None else spread[some]
            known[some] = sharpness_loss(self._keys[some] + twice, self._good, threshold[some], unit)
        return known[rows]


def select(candidates: Candidates, budget: Budget, alpha: float) -> list[int]:
    """Algorithm 1: rubrics in the order they were chosen, until both budgets are full or the pool is empty.

    The paper's line 11 adds α·LS, an error; it is subtracted here, and LC divided by what the scores could span, so
    that α has no unit.
    """
    chosen: list[int] = []
    while len(rows := budget.allows(candidates.pool, chosen)):
        chosen.append(candidates.best(chosen, rows, alpha))
    return chosen


Policy = Callable[[Pool, Budget, int], Sequence[int]]
"""A pool, a budget and a seed in, rows of the pool out."""
selection_policies: Registry[Policy] = Registry("selection policy")
"""Other ways to select than algorithm 1; each stands beside it in the table of selections."""


@selection_policies.register("correctness")
def correctness_alone(pool: Pool, budget: Budget, seed: int) -> list[int]:
    """Algorithm 1 with α = 0: separation alone."""
    return select(Candidates(pool), budget, 0.0)


@selection_policies.register(ALL)
def everything(pool: Pool, budget: Budget, seed: int) -> list[int]:
    """The whole pool, whatever the budget."""
    return list(range(len(pool.sat)))


Choose = Callable[[Candidates, Budget, float], Sequence[int]]


def chooser(policy: str, seed: int) -> Choose:
    """How a policy chooses from candidates, within a budget, at an α that only `rubicon` looks at."""
    if policy == RUBICON:
        return select
    chosen = selection_policies.get(policy)
    return lambda candidates, budget, _: chosen(candidates.pool, budget, seed)


# --- the choice of α and budget -------------------------------------------------------------------------------------

TOLERANCE = 1e-9


@dataclass(frozen=True)
class Trial:
    """One pair of α and budget, and what it reached on the folds that it was not chosen on."""

    alpha: float
    sat: int
    dsat: int
    sharpness: float
    separation: float


@dataclass(frozen=True)
class Tuned:
    """What cross-validation chose, and (C,) NetSAT in points by rubrics that were chosen without the conversation."""

    alpha: float
    budget: Budget
    scores: Floats
    tried: Sequence[Trial]


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
    choose: Choose = select,
    pooled: bool = False,
) -> Tuned:
    """The α and the budget whose held-out scores keep the classes apart best; of equals the smaller α.

    A pair is judged by how well the fitted curve tells held-out conversations apart: minus the mean log loss of
    (1 + tanh((score − θc)/s))/2, with θc and s of the training folds.
    """
    sides = [(Candidates(pool.of(fold != each), pooled), np.flatnonzero(fold == each)) for each in np.unique(fold)]
    best: tuple[Trial, Floats] | None = None
    tried = []
    for budget in budgets:
        for alpha in alphas:
            scores, units = np.zeros(len(pool.good)), np.zeros(len(pool.good))
            for candidates, rows in sides:
                chosen = choose(candidates, budget, alpha)
                scores[rows], units[rows] = _held_out(candidates.pool, pool, chosen, rows)
            sharpness = -float(np.logaddexp(0.0, np.where(pool.good, -2.0, 2.0) * units).mean())
            separation = float(scores[pool.good].mean() - scores[~pool.good].mean())
            one = Trial(alpha, budget.sat, budget.dsat, sharpness, separation)
            tried.append(one)
            if best is None or one.sharpness > best[0].sharpness + TOLERANCE:
                best = one, scores
    assert best is not None
    return Tuned(best[0].alpha, Budget(best[0].sat, best[0].dsat), best[1], tried)


def _held_out(train: Pool, pool: Pool, chosen: Sequence[int], rows: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """NetSAT of held-out conversations in points, and in standard deviations around the training side's threshold."""
    inside: Floats = train.net_sat(chosen) / POINT
    outside: Floats = pool.net_sat(chosen)[rows] / POINT
    means = inside[train.good].mean(), inside[~train.good].mean()
    residual = inside - np.where(train.good, *means)
    spread = float(np.sqrt(residual @ residual / max(len(inside) - 2, 1)))
    return outside, np.asarray((outside - sum(means) / 2) / max(spread, TOLERANCE), dtype=np.float64)
