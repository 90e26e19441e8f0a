"""Intervals: means and sums over groups, confidence sequences, and thresholds of selective prediction.

**A mean of rows in groups.** Rows of one group (a conversation) are dependent, so the standard error of a mean comes
from the groups' sums of residuals (Liang & Zeger, 1986), with the factor G/(G - 1) for few groups (Cameron & Miller,
2015). Every standard error of one mean in Accord is this one.

**Sums over whole groups** (means, and differences of means that share groups). The variance is estimated from each
group's contribution, so that systems that answered the same inputs are compared input by input. The degrees of freedom
follow from the variance that the estimate would have if members were independent (Satterthwaite, 1946; Welch, 1947; by
groups Bell & McCaffrey, 2002). With one member per group they are Welch's; if two means share every group, they equal
the degrees of the paired t test.

**A mean at every number of labels.** A fixed-size interval is valid at one sample size. If a reader checks it after
every label, it will eventually fail. A confidence sequence is valid at all sample sizes at once. For each candidate
mean m, a bet against it has the capital

    K⁺_t(m) = Π_i (1 + λ⁺_i(m)·(x_i - m)),    K⁻_t(m) = Π_i (1 - λ⁻_i(m)·(x_i - m)),

with λ_i chosen from x_1 … x_{i-1} only. If m is the mean, each capital exceeds 2/α with probability at most α/2
(Ville's inequality). The interval holds the means whose capital never exceeded it: the hedged capital process of
Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", JRSS B 86 (2024), theorem 3. It is
exact for every n.

**The widest share of calls that agree with people as often as required.** Held-out ratings are sorted by the confidence
of the call. The most confident 30% are tested first, then 5% more at a time, each at the same level: is the share of
wrong calls, at its upper confidence bound, within the limit? Testing stops at the first failure, and the last share
that passed gives the threshold (fixed-sequence testing; Jung, Brahman & Choi, "Trust or Escalate", 2024). The
probability that the threshold violates the requirement is 1 - confidence. Ratings of one group may be wrong together,
so the bound is Clopper and Pearson's for the effective number of independent ratings (Korn & Graubard, 1998).

Tails and quantiles come from `scipy.special`; importing `scipy.stats` would take half a second.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from accord.statistics.defaults import CONFIDENCE
from accord.values import Estimate


def normal_tail(z: ArrayLike) -> Any:
    """Return P(Z > z) of a standard normal variable, in the shape of `z`."""
    return scipy.special.ndtr(np.negative(z))


def normal_quantile(p: ArrayLike) -> Any:
    """Return the `p` quantile of a standard normal variable."""
    return scipy.special.ndtri(p)


def t_tail(value: float, freedom: float) -> float:
    """Return P(T > value) of Student's t."""
    return float(scipy.special.stdtr(freedom, -value))


def t_quantile(p: float, freedom: float) -> float:
    """Return the `p` quantile of Student's t."""
    return float(scipy.special.stdtrit(freedom, p))


def beta_quantile(p: float, a: float, b: float) -> float:
    """Return the `p` quantile of a Beta(a, b) variable."""
    return float(scipy.special.betaincinv(a, b, p))


def gamma_quantile(p: float, shape: float) -> float:
    """Return the `p` quantile of a Gamma(shape) variable with scale 1."""
    return float(scipy.special.gammaincinv(shape, p))


Floats = NDArray[np.float64]

# --- a mean over groups -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ClusteredMean:
    """Mean of rows in groups, with its standard error.

    Attributes:
        mean: Mean of the rows.
        error: Standard error clustered by group; infinite with fewer than two groups.
        groups: Number of groups G.
        n: Number of rows.
    """

    mean: float
    error: float
    groups: int
    n: int

    @property
    def p(self) -> float:
        """Two-sided p of the mean 0 by Student's t with G - 1 degrees of freedom; 1 if the error is 0 or infinite."""
        if not 0.0 < self.error < np.inf:
            return 1.0
        return 2 * t_tail(abs(self.mean) / self.error, self.groups - 1)

    @property
    def is_within_error(self) -> bool:
        """True if the mean is at most one standard error above 0; with fewer than two groups, if it is at most 0."""
        return self.mean <= (self.error if self.groups > 1 else 0.0)

    def interval(self, confidence: float = CONFIDENCE) -> Estimate:
        """Return the mean with its t interval with G - 1 degrees of freedom; without ends for fewer than two groups."""
        if self.groups < 2:
            return Estimate(self.mean)
        half = t_quantile((1 + confidence) / 2, self.groups - 1) * self.error
        return Estimate(self.mean, self.mean - half, self.mean + half)


def clustered_mean(values: ArrayLike, group: ArrayLike) -> ClusteredMean:
    """Return the mean m of n rows in G groups, with its standard error clustered by group.

        error² = G / (G - 1) · Σ_g (Σ_{i in g} (x_i - m))² / n²

    With one row per group it is the usual standard error s/√n. A difference of two means that share only some groups is
    a sum of two parts; use `p_value` and `reach`.

    Args:
        values: (n,) finite values, n at least 1.
        group: (n,) group of each value.

    Raises:
        ValueError: `values` is empty.
    """
    x = np.asarray(values, dtype=float)
    if not len(x):
        raise ValueError("a mean needs at least one value")
    names = np.asarray(group)
    _, place = np.unique(names.astype(str) if names.dtype == object else names, return_inverse=True)
    mean, groups = float(x.mean()), int(place.max()) + 1
    sums = np.bincount(place, x - mean, groups).astype(float)
    return ClusteredMean(mean, clustered_error(sums, len(x)), groups, len(x))


def clustered_error(sums: Floats, n: float) -> float:
    """Return the standard error √(G / (G - 1) · Σ_g S_g²) / n of a mean or of a ratio of sums; infinite for G < 2.

    Args:
        sums: (G,) sums of the residuals of each group: values minus their mean, or for a ratio r numerators minus r
            times denominators.
        n: Number of rows, or sum of the denominators.
    """
    groups = len(sums)
    return float(np.sqrt(groups / (groups - 1) * (sums @ sums))) / n if groups > 1 else float("inf")


# --- sums over groups -------------------------------------------------------------------------------------------------


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

    `clustered_mean` cannot express such a sum: its parts have different numbers of groups and share some, so neither
    one factor G/(G - 1) nor G - 1 degrees of freedom fit. For one part with one conversation per group both agree.

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


# --- confidence sequences ---------------------------------------------------------------------------------------------

_POINTS = 1000
_MOST = 0.75
"""Largest share of the capital that a bet risks."""


def mean_sequence(values: Floats, low: float, high: float, confidence: float = CONFIDENCE) -> Estimate:
    """Return the interval of a mean after n values; the intervals at all n hold together with this confidence.

    Args:
        values: (n,) values in order of arrival, one per conversation, independent given earlier ones and with the same
            mean.
        low: Smallest possible value.
        high: Largest possible value.
        confidence: Confidence at all n together.

    Returns:
        Interval within `low` to `high`; the whole range without values.

    Raises:
        ValueError: A value is outside `low` to `high`.
    """
    x = (np.asarray(values, dtype=float) - low) / (high - low)
    if ((x < -1e-9) | (x > 1 + 1e-9)).any():
        raise ValueError(f"values must be from {low} to {high}")
    if not len(x):
        return Estimate(None, low, high)
    bound = np.log(2 / (1 - confidence))
    m = np.linspace(0, 1, _POINTS + 1)
    n = np.arange(1, len(x) + 1)
    mean = (0.5 + np.cumsum(x)) / (n + 1)
    variance = (0.25 + np.cumsum((x - mean) ** 2)) / (n + 1)
    before = np.concatenate([[0.25], variance[:-1]])
    bet = np.sqrt(2 * bound / (before * n * np.log(n + 1)))[:, None]
    with np.errstate(divide="ignore"):
        up, down = np.minimum(bet, _MOST / m), np.minimum(bet, _MOST / (1 - m))
    off = x[:, None] - m
    wealth = np.maximum(np.cumsum(np.log1p(up * off), axis=0), np.cumsum(np.log1p(-down * off), axis=0))
    left = np.flatnonzero(wealth.max(axis=0) < bound)
    if not len(left):  # the mean has changed, so no mean fits all values
        return Estimate(float(values.mean()))
    first, last = max(left[0] - 1, 0), min(left[-1] + 1, _POINTS)  # the ends are between two points
    return Estimate(float(values.mean()), float(low + m[first] * (high - low)), float(low + m[last] * (high - low)))


# --- selective prediction ---------------------------------------------------------------------------------------------

FIRST, STEP = 0.3, 0.05
"""Share of the ratings that is tested first, and the increase of each further share.

With a first share of 20% the bound of so few ratings often fails: on 20 splits of each of five data sets, a first share
of 30% called 53% of the replies where anything could be promised, 20% called 46%; both broke 4 promises of 100.
"""


@dataclass(frozen=True)
class SelectiveTest:
    """The most confident calls of the held-out ratings.

    Attributes:
        threshold: Confidence of the least confident call, a probability from .5 to 1.
        share: Share of all held-out ratings.
        called: Number of calls.
        agreement: Share of the calls that agrees with the ratings; `at_least` is its lower confidence bound.
        groups: Number of groups.
    """

    threshold: float
    share: float
    called: int
    agreement: float
    at_least: float
    groups: int

    def to_json(self) -> dict[str, float]:
        """Return the fields."""
        return asdict(self)


def fixed_sequence(
    sure: Floats,
    right: NDArray[np.bool_],
    group: ArrayLike,
    agree: float,
    confidence: float = CONFIDENCE,
    ratings: int | None = None,
) -> tuple[SelectiveTest | None, SelectiveTest]:
    """Return the widest share that passed, or `None` if the first one failed, and the last share that was tested.

    Args:
        sure: (n,) probability of the called side.
        right: (n,) True if the rating agrees with the call.
        group: (n,) group of each rating.
        agree: Required share of calls that agree with the ratings.
        confidence: Confidence of the requirement.
        ratings: Number of distinct ratings, if each has a row for every repetition of the cross-validation, or
            `None` if every row is a rating.
    """
    passed = None
    for tested in tradeoff(sure, right, group, confidence, ratings):
        if tested.at_least < agree:
            return passed, tested
        passed = tested
    assert passed is not None
    return passed, passed


def tradeoff(
    sure: Floats,
    right: NDArray[np.bool_],
    group: ArrayLike,
    confidence: float = CONFIDENCE,
    ratings: int | None = None,
) -> Iterator[SelectiveTest]:
    """Yield the agreement of the most confident calls for growing shares of the ratings; arguments as above."""
    order, names = np.argsort(-sure, kind="stable"), np.asarray(group).astype(str)
    repeats = len(sure) / (ratings or len(sure))
    for share in np.arange(FIRST, 1.0 + STEP / 2, STEP):
        least = sure[order[max(int(np.ceil(share * len(sure) - 1e-9)), 1) - 1]]
        rows = np.flatnonzero(sure >= least)  # includes all ties
        bound = upper_bound(~right[rows], names[rows], confidence, len(rows) / repeats)
        yield SelectiveTest(
            float(least), len(rows) / len(sure), round(len(rows) / repeats), float(right[rows].mean()), 1.0 - bound,
            len(set(names[rows])),
        )  # fmt: skip


def upper_bound(
    wrong: NDArray[np.bool_], group: ArrayLike, confidence: float = CONFIDENCE, ratings: float | None = None
) -> float:
    """Return the one-sided upper confidence bound of a share, from rows in groups.

        n* = p(1 - p) / v · (t_{n-1} / t_{G-1})²,  bound = Beta⁻¹(confidence; n*·p + 1, n*·(1 - p))

    v is the squared standard error of p, clustered by group. n* is at most n, and G if no row or every row was wrong. n
    is the number of rows, or of `ratings` if some rows repeat the same rating.
    """
    rows, p = len(wrong), float(np.mean(wrong))
    n = max(rows if ratings is None else ratings, 2.0)
    _, place, size = np.unique(np.asarray(group).astype(str), return_inverse=True, return_counts=True)
    groups = len(size)
    if p == 1.0 or groups < 2:
        return 1.0
    worth = float(groups)
    if p > 0.0:
        off = np.bincount(place, wrong, groups) - p * size
        v = clustered_error(off, rows) ** 2
        fewer = (t_quantile(confidence, n - 1) / t_quantile(confidence, groups - 1)) ** 2
        worth = min(float(n), p * (1 - p) / v * fewer) if v > 0 else worth
    return beta_quantile(confidence, worth * p + 1, worth * (1 - p))
