"""Change of the mean of scores from batch to batch within strata, valid at every batch.

**Difference within strata.** Strata s are assistant versions, so that another mix of versions is not a change. With
n_sb conversations of stratum s in batch b, and the strata that have conversations on both sides,

    D = Σ_s w_s·(m_s,new - m_s,reference),    w_s = n_s,new / Σ n_s,new.

Batches may differ by themselves, as weeks do: a score is the mean of its stratum, an effect of its batch with variance
τ², and noise with a variance σ² on each side. Both are estimated from the sums of squares within and between the
reference batches (analysis of variance for unequal sizes: Searle, Casella & McCulloch, "Variance Components", 1992,
chapter 3); τ² needs three reference batches, and is 0 before. Then

    var D = σ²_new·Σ_s w_s²/n_s,new + σ²_ref·Σ_s w_s²/n_s,ref + τ²·(Σ_{b new} u_b² + Σ_{b ref} u_b²)

with u_b = Σ_s w_s·n_sb/n_s, and the degrees of freedom of Satterthwaite (1946).

**Every batch.** The k-th comparison spends the level α/(k·(k + 1)), which sums to α over all k (alpha spending: Lan &
DeMets, "Discrete sequential boundaries for clinical trials", Biometrika 70, 1983; the bound is the union bound, so
nothing is assumed about the dependence of the comparisons). All intervals at all batches hold together with the
confidence 1 - α, however often they are read.

**Sight.** S is a score, Q the mean rating that people of the same kind would give. If a change moves scores as
differences among conversations do, a change of people's mean by q moves the scores by κ·q, with

    κ = cov(S, Q) / var Q.

cov(S, Q) is the covariance of held-out scores and mean ratings. var Q is the variance of the mean ratings minus the
variance that the disagreement of people about one text adds. Regression of ratings on scores would answer another
question (the best guess of one rating), and understate a change by the factor r². This is the classical estimator of
calibration (Eisenhart, "The interpretation of certain regression methods and their use in biological and industrial
research", 1939; Carroll, Ruppert, Stefanski & Crainiceanu, "Measurement Error in Nonlinear Models", 2006).

**Change in people's points.** q = D/κ, with Fieller's interval of all q with (D - q·κ)² ≤ h_D² + q²·h_κ², where h are
half widths and D and κ come from different conversations (Fieller, JRSS B 16, 1954).

**Change by labels.** Labels of some conversations of both sides measure the change itself, whatever its cause. Ratings
are regressed on the side, with an effect of each version and of each annotator, and the score; with the coefficients β
of the side and λ of the score, the change is β + λ·D (regression estimator of double sampling: Cochran, "Sampling
Techniques", 1977, chapter 12). Its variance is clustered by conversation, plus λ²·var D.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import inf, sqrt

import numpy as np
from numpy.typing import NDArray

from accord.statistics.defaults import CONFIDENCE
from accord.statistics.intervals import t_quantile, t_tail
from accord.statistics.jackknife import jackknife_of
from accord.values import Estimate

Floats = NDArray[np.float64]

FEWEST_CONVERSATIONS = 10
"""Smallest number of compared conversations on each side."""
USUAL, USUAL_FREEDOM = 0.05, 4.0
"""Assumed standard deviation of the effects of batches, in standard deviations of scores, and its weight in batches."""
FEWEST_REPEATED = 20
"""Smallest number of further ratings of texts for the variance of people's disagreement about one text."""
FEWEST_TEXTS = 20
"""Smallest number of rated texts for a sight."""


@dataclass(frozen=True)
class Cells:
    """Sums of scores by batch and stratum.

    Attributes:
        n, total, squares: (B, S) number of conversations, sum and sum of squares of their scores.
    """

    n: Floats
    total: Floats
    squares: Floats

    @classmethod
    def of(cls, values: Floats, batch: NDArray[np.intp], stratum: NDArray[np.intp], shape: tuple[int, int]) -> Cells:
        """Sum (n,) scores with the indices of their batch and stratum."""
        place = batch * shape[1] + stratum
        sums = (np.bincount(place, weights, shape[0] * shape[1]).reshape(shape).astype(float)
                for weights in (None, values, values**2))  # fmt: skip
        return cls(*sums)


@dataclass(frozen=True)
class Difference:
    """Difference of the mean of new batches and reference batches.

    Attributes:
        value: The difference, new minus reference.
        error: Standard error.
        freedom: Its degrees of freedom.
        new, reference: Numbers of compared conversations.
        between: Standard deviation τ of the effects of batches.
    """

    value: float
    error: float
    freedom: float
    new: int
    reference: int
    between: float

    def interval(self, level: float = 1 - CONFIDENCE) -> Estimate:
        """Return the difference with the interval that misses it with the probability `level`."""
        half = t_quantile(1 - level / 2, self.freedom) * self.error
        return Estimate(self.value, self.value - half, self.value + half)

    @property
    def p(self) -> float:
        """Two-sided p of the difference 0."""
        return 2 * t_tail(abs(self.value) / self.error, self.freedom) if self.error > 0 else 1.0


def spent_level(number: int, level: float = 1 - CONFIDENCE) -> float:
    """Return the level of the k-th comparison, k from 1.

    >>> [round(spent_level(k), 4) for k in (1, 2, 12)]
    [0.025, 0.0083, 0.0003]
    """
    return level / (number * (number + 1))


def difference(cells: Cells, new: Sequence[int], reference: Sequence[int], within: bool = True) -> Difference | None:
    """Return the difference of new batches and reference batches, or `None` if too few conversations are comparable.

    Args:
        cells: Sums by batch and stratum.
        new: Indices of the new batches.
        reference: Indices of the reference batches.
        within: True to compare within strata; False to compare the means of all conversations.
    """
    if not within:
        cells = Cells(*(each.sum(axis=1, keepdims=True) for each in (cells.n, cells.total, cells.squares)))
    sides = [Cells(*(each[list(rows)] for each in (cells.n, cells.total, cells.squares))) for rows in (new, reference)]
    shared = np.flatnonzero((sides[0].n.sum(axis=0) > 0) & (sides[1].n.sum(axis=0) > 0))
    if not len(shared):
        return None
    counts = [side.n[:, shared] for side in sides]
    n = [count.sum(axis=0) for count in counts]
    if min(each.sum() for each in n) < FEWEST_CONVERSATIONS or min(each.sum() for each in n) <= len(shared):
        return None
    totals = [side.total[:, shared] for side in sides]
    means = [total.sum(axis=0) / size for total, size in zip(totals, n, strict=True)]
    weight = n[0] / n[0].sum()
    # Noise: rows around the mean of their cell of a stratum and a batch.
    parts, of_freedom = [], []
    for side, count, total, size in zip(sides, counts, totals, n, strict=True):
        cell_squares = total**2 / np.maximum(count, 1)
        free = float(count.sum() - (count > 0).sum())
        if free <= 0:
            return None
        noise = max(float(side.squares[:, shared].sum() - cell_squares.sum()) / free, 0.0)
        parts.append(noise * float((weight**2 / size).sum()))
        of_freedom.append(free)
    between = _between(counts[1], totals[1], means[1], sides[1].squares[:, shared], of_freedom[1])
    loads = [((weight * count / size).sum(axis=1) ** 2).sum() for count, size in zip(counts, n, strict=True)]
    parts.append(between * float(sum(loads)))
    of_freedom.append(USUAL_FREEDOM + len(counts[1]) - 1)
    variance = sum(parts)
    if variance <= 0:
        return None
    freedom = variance**2 / sum(part**2 / free for part, free in zip(parts, of_freedom, strict=True))
    return Difference(
        float(weight @ (means[0] - means[1])), sqrt(variance), freedom, int(n[0].sum()), int(n[1].sum()),
        sqrt(between),
    )  # fmt: skip


def _between(n: Floats, total: Floats, mean: Floats, squares: Floats, free: float) -> float:
    """Return the estimate t² of the variance of the effects of (B,) reference batches."""
    cell = total / np.maximum(n, 1)
    noise = max(float(squares.sum() - (total * cell).sum()) / free, 0.0)
    found = float((n * (cell - mean) ** 2).sum()) - (int((n > 0).sum()) - n.shape[1]) * noise
    load = float((n.sum(axis=0) - (n**2).sum(axis=0) / n.sum(axis=0)).sum())
    observed = max(found / load, 0.0) if load > 0 else 0.0
    batches = len(n) - 1
    return (USUAL_FREEDOM * USUAL**2 * noise + batches * observed) / (USUAL_FREEDOM + batches)


# --- people's points --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sight:
    """Part of a change of people's mean rating that the scores of an evaluator show, κ.

    Attributes:
        least: κ with its 95% interval if all variance among mean ratings is of the texts.
        most: κ if the texts vary as little as the scores allow. Both are equal if people's disagreement about one text
            is measured.
        texts, ratings: Number of held-out texts and ratings behind it.
        is_repeated: True if people's disagreement about one text is measured.
        spread: Standard deviation of the mean ratings of texts.
    """

    least: Estimate
    most: Estimate
    texts: int
    ratings: int
    is_repeated: bool
    spread: float = 0.0

    @property
    def is_clear(self) -> bool:
        """True if scores rise with people's ratings, by the 95% interval."""
        return self.least.low is not None and self.least.low > 0

    def change(self, scores: Estimate) -> Estimate:
        """Return the change of people's mean rating behind a change of scores, with Fieller's interval.

        Its ends are infinite if κ may be 0. If people's disagreement is not measured, the interval reaches from the
        change for the largest κ to the change for the smallest, and its value is in the middle.
        """
        if scores.value is None or self.least.value is None or self.most.value is None:
            return Estimate()
        found = [ratio(scores, each) for each in (self.least, self.most)]
        if any(each.value is None for each in found):
            return Estimate(None, -inf, inf)
        ends = [end for each in found for end in (each.low, each.high) if end is not None]
        return Estimate(sum(each.value or 0.0 for each in found) / 2, min(ends), max(ends))


def ratio(top: Estimate, bottom: Estimate) -> Estimate:
    """Return the ratio of two independent estimates with Fieller's interval; without a value if the divisor may be 0.

    >>> ratio(Estimate(-0.14, -0.18, -0.1), Estimate(0.15, 0.1, 0.2)).text()
    '-0.93 [-1.50, -0.60]'
    """
    if top.value is None or bottom.value is None:
        return Estimate()
    h_top, h_bottom = (((each.high or 0.0) - (each.low or 0.0)) / 2 for each in (top, bottom))
    t, b, divisor = top.value, bottom.value, bottom.value**2 - h_bottom**2
    if divisor <= 0 or bottom.value <= 0:
        return Estimate(None, -inf, inf)
    root = sqrt(max((t * b) ** 2 - divisor * (t**2 - h_top**2), 0.0))
    return Estimate(t / b, (t * b - root) / divisor, (t * b + root) / divisor)


def sight(score: Floats, rating: Floats, text: NDArray[np.intp], group: NDArray[np.intp]) -> Sight | None:
    """Return the sight of an evaluator by held-out ratings, or `None` with too few texts or groups.

    Args:
        score: (n,) held-out score of the text of each rating, for a new annotator.
        rating: (n,) ratings.
        text: (n,) index of the text of each rating.
        group: (n,) index of its group; texts of one group are dependent.
    """
    names, first, place, counts = np.unique(text, return_index=True, return_inverse=True, return_counts=True)
    if len(names) < FEWEST_TEXTS:
        return None
    mean, s = np.bincount(place, rating) / counts, np.bincount(place, score) / counts
    spread = np.bincount(place, (rating - mean[place]) ** 2)
    middle = float(s.mean()), float(mean.mean())
    s, mean = s - middle[0], mean - middle[1]
    groups, of = np.unique(group[first], return_inverse=True)
    if len(groups) < 3:
        return None
    columns = (np.ones(len(s)), s, mean, s * mean, mean**2, s**2, spread, counts - 1.0, 1.0 / counts)
    sums = np.stack([np.bincount(of, column, len(groups)) for column in columns], axis=1).astype(float)
    is_repeated = bool((counts - 1).sum() >= FEWEST_REPEATED and (counts > 1).mean() >= 0.1)
    found = []
    for end in ("least",) if is_repeated else ("least", "most"):
        value = float(_kappa(sums.sum(axis=0)[None], is_repeated, end)[0])
        kappa = partial(_of_groups, sums, is_repeated, end)
        found.append(jackknife_of(kappa, len(groups), len(s), value if np.isfinite(value) else None, is_bounded=False))
    return Sight(found[0], found[-1], len(names), len(rating), is_repeated, float(mean.std()))


def _of_groups(sums: Floats, is_repeated: bool, end: str, kept: Floats) -> Floats:
    """Return (B,) κ for (B, G) weights of the groups."""
    return _kappa(kept @ sums, is_repeated, end)


def _kappa(sums: Floats, is_repeated: bool, end: str) -> Floats:
    """Return (m,) κ from (m, 9) sums; NaN where the texts do not vary."""
    n, s, y, sy, yy, ss, spread, repeats, inverse = sums.T
    with np.errstate(divide="ignore", invalid="ignore"):
        covariance = (sy - s * y / n) / (n - 1)
        variance = (yy - y**2 / n) / (n - 1)
        if is_repeated:
            variance = variance - spread / repeats * inverse / n
        elif end == "most":
            return np.asarray((ss - s**2 / n) / (n - 1) / np.where(covariance > 0, covariance, np.nan))
        return np.asarray(covariance / np.where(variance > 0, variance, np.nan))


# --- labels -----------------------------------------------------------------------------------------------------------

FEWEST_RATED = 5
"""Smallest number of labeled conversations on each side."""
FEWEST_WITH_SCORES = 20
"""Smallest number of labeled conversations from which scores help."""


def rated_change(
    rating: Floats,
    is_new: NDArray[np.bool_],
    version: Sequence[str],
    annotator: Sequence[str],
    conversation: Sequence[str],
    score: Floats,
    scores: Difference | None,
) -> Estimate:
    """Return the change of people's mean rating by labels; without ends if the labels cannot separate it.

    They cannot with fewer than `FEWEST_RATED` conversations on a side, or if other people rated the two sides.

    Args:
        rating: (n,) ratings.
        is_new: (n,) True for conversations of the new batches, False for the reference.
        version: (n,) version of each conversation.
        annotator: (n,) annotator of each rating.
        conversation: (n,) conversation of each rating.
        score: (n,) score of the conversation.
        scores: Difference of all scores; `None` ignores the scores.
    """
    names, cluster = np.unique(np.asarray(conversation, dtype=str), return_inverse=True)
    sides = [len(set(cluster[is_new == side].tolist())) for side in (True, False)]
    if min(sides) < FEWEST_RATED:
        return Estimate()
    columns = [np.equal.outer(np.asarray(each, dtype=str), np.unique(np.asarray(each, dtype=str)))
               for each in (version, annotator)]  # fmt: skip
    effects = np.concatenate(columns, axis=1).astype(float)
    with_scores = scores is not None and len(names) >= FEWEST_WITH_SCORES and float(np.ptp(score)) > 0
    own = [is_new.astype(float), *([score - score.mean()] if with_scores else [])]
    design = np.column_stack([effects, *own])
    rank = int(np.linalg.matrix_rank(design))
    freedom = len(names) - rank
    if rank == np.linalg.matrix_rank(np.delete(design, effects.shape[1], axis=1)) or freedom < 3:
        return Estimate()
    inverse = np.linalg.pinv(design)
    coefficients = inverse @ rating
    wanted = np.zeros(design.shape[1])
    wanted[effects.shape[1]] = 1.0
    error_of_scores = 0.0
    if with_scores and scores is not None:
        wanted[-1] = scores.value
        error_of_scores = float(coefficients[-1]) * scores.error
    influence = np.bincount(cluster, (wanted @ inverse) * (rating - design @ coefficients))
    variance = len(names) / max(freedom, 1) * float(influence @ influence) + error_of_scores**2
    value, half = float(wanted @ coefficients), t_quantile((1 + CONFIDENCE) / 2, freedom) * sqrt(variance)
    return Estimate(value, value - half, value + half)
