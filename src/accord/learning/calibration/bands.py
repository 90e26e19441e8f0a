"""Bands of scores: conformal prediction by groups, in units of the predicted standard deviation.

    band(x) = the options within mean ± q·sd
    q = the `coverage` quantile of  N/(N+1) · Σ_g Σ_{i in g} δ(s_i) / (G·n_g)  +  δ(∞) / (N+1)
    N = G / (ρ + (1 - ρ)·mean_g(1/n_g))

with s_i = |y_i - mean_i| / sd_i of ratings predicted without their groups (Vovk et al., 2005; the normalized score of
Papadopoulos et al., 2008; groups as in Dunn, Wasserman and Ramdas, 2022, and Lee, Barber and Willett, 2023). The G
groups are exchangeable, and the scores of one group correlate by ρ (analysis of variance). N is the number of
independent ones (design effect of Kish, "Survey Sampling", 1965). With N = G, as for ρ = 1 or one rating in each group,
a rating of a new group falls into its band with probability `coverage`, on average over groups, for any distributions;
but where few groups hold several ratings each, such bands hold more often and are wide (docs/methods.md). With fewer
than coverage / (1 - coverage) groups q is ∞: the band is the whole scale, and scores carry a note. The ends are options
of the scale, as in ordinal conformal sets (arXiv:2509.18658), unless the mean is beyond them.

A new annotator is a new draw too, and there are few annotators. Predictions know the levels of the A annotators that
they were learned from. Therefore held-out residuals hold 1 - 1/A of the variance between annotators, and residuals of
a new annotator hold 1 + 1/A. q of a new annotator is multiplied by

    f = Q / (z·√V),   r = μ + δ_a + ε,   δ ~ N(0, g²s²),   ε ~ N(0, s²)

with the residuals r, of variance V, in predicted standard deviations. Q is the quantile that belongs to `coverage` of
∫ N(0, s²·(1 + g²·(1 + 1/A))) p(g | r) dg, z the one of N(0, 1), and p(g | r) the restricted likelihood times a prior
(docs/decisions/0059). f approaches 1 with many annotators; for a single one it rests on the prior.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from accord.evidence import Ratings, by_row
from accord.statistics import normal_quantile

Floats = NDArray[np.float64]

FEW_ANNOTATORS = 5
"""With fewer annotators, the band of a new one depends on the prior of `new_annotator_factor`."""
LEVEL_SPREAD, LEVEL_FREEDOM = 0.5, 4
"""Scale and degrees of freedom of g's half-t prior: its median is .37; in 24 questions of public data it was .4."""
_RATIOS = 8 * ((np.arange(80) + 0.5) / 80) ** 2
_STEP = np.sqrt(_RATIOS)
"""Values of g, and the distance between them up to a factor."""
_MANY = 1000
"""With more annotators f is 1."""
_LEAST_SPREAD = 1e-3


def moments(options: Floats, distributions: Floats) -> tuple[Floats, Floats]:
    """Return mean and standard deviation, (n,) each, of (n, K) distributions over the options."""
    mean = by_row(distributions, options)
    spread = np.sqrt(np.maximum((distributions * (options - mean[:, None]) ** 2).sum(axis=1), 0.0))
    return mean, np.maximum(spread, _LEAST_SPREAD * (options[-1] - options[0]))


def band_quantile(
    options: Floats,
    distributions: Floats,
    truth: Floats,
    coverage: float,
    group: ArrayLike | None = None,
    is_exact: bool = True,
) -> float:
    """Return q, the half width of the band in standard deviations; ∞ if there are too few groups.

    Args:
        options: (K,) options of the scale.
        distributions: (n, K) distributions predicted without the rating's group.
        truth: (n,) ratings.
        coverage: Share of new ratings that the band should contain, between 0 and 1.
        group: (n,) group of each rating; None makes every rating a group of its own.
        is_exact: True for bands that hold for any dependence within groups (N = G), False to estimate the dependence.
    """
    mean, spread = moments(options, distributions)
    scores = np.abs(truth - mean) / spread
    names = np.arange(len(scores)) if group is None else np.asarray(group).astype(str)
    _, of, size = np.unique(names, return_inverse=True, return_counts=True)
    if len(size) < groups_needed(coverage):
        return float("inf")
    number = len(size) if is_exact else independent_scores(scores, of, size)
    order = np.argsort(scores, kind="stable")
    cumulative = np.cumsum(1.0 / size[of[order]]) / len(size) * number / (number + 1)
    place = int(np.searchsorted(cumulative, coverage - 1e-9))
    return float(scores[order[place]]) if place < len(scores) else float("inf")


def independent_scores(scores: Floats, of: NDArray[np.intp], size: NDArray[np.intp]) -> float:
    """Return N, the number of independent ones of n scores, from the number of groups G to n.

    Args:
        scores: (n,) scores.
        of: (n,) index of the group of each.
        size: (G,) number of scores in each group.
    """
    count, groups = len(scores), len(size)
    if count == groups or groups < 2:
        return float(groups)
    means = np.bincount(of, scores) / size
    between = float((size * (means - scores.mean()) ** 2).sum()) / (groups - 1)
    inside = float(((scores - means[of]) ** 2).sum()) / (count - groups)
    usual = (count - float((size**2).sum()) / count) / (groups - 1)
    total = between + (usual - 1) * inside
    correlation = min(max((between - inside) / total, 0.0), 1.0) if total > 0 else 1.0
    return float(groups / (correlation + (1 - correlation) * np.mean(1 / size)))


def new_annotator_factor(residual: Floats, annotator: ArrayLike, group: ArrayLike, coverage: float) -> float:
    """Return f, at least 1, the ratio of a new annotator's q to the quantile of the held-out residuals.

    Args:
        residual: (n,) held-out rating minus mean, in standard deviations, of predictions for a new annotator.
        annotator: (n,) annotator of each rating.
        group: (n,) group of each rating; an annotator's ratings in a group count as a single rating.
        coverage: Share of new ratings that the band should contain, between 0 and 1.
    """
    mean, of, inside = _by_annotator(residual, annotator, group)
    count, number = len(mean), np.bincount(of)
    seen = float(((mean - mean.mean()) ** 2).sum()) / max(count - 1, 1) + inside if count else 0.0
    if count < 2 or not seen > 0 or len(number) > _MANY:
        return 1.0
    level = np.bincount(of, weights=mean) / number
    weight = number / (1 + _RATIOS[:, None] ** 2 * number)  # (ratios, A) inverse variance of each level, times s²
    total = weight.sum(axis=1)
    center = (weight @ level) / total
    squares = ((mean - level[of]) ** 2).sum() + (weight * (level - center[:, None]) ** 2).sum(axis=1)
    squares = np.maximum(squares, 1e-9 * seen)
    fit = np.log(weight / number).sum(axis=1) - np.log(total) - (count - 1) * np.log(squares)
    prior = _STEP * (1 + (_RATIOS / LEVEL_SPREAD) ** 2 / LEVEL_FREEDOM) ** (-(LEVEL_FREEDOM + 1) / 2)
    share = np.exp(0.5 * (fit - fit.max())) * prior
    effective = count**2 / float((number**2).sum())
    spread = np.sqrt(squares / (count - 1) * (1 + _RATIOS**2 * (1 + 1 / effective)) + inside)
    z = float(normal_quantile((1 + coverage) / 2))
    reaches = z * np.geomspace(0.99 * spread.min(), 1.01 * spread.max(), 400)
    within = scipy.special.ndtr(reaches[:, None] / spread) @ (share / share.sum())
    return max(1.0, float(np.interp((1 + coverage) / 2, within, reaches) / (z * np.sqrt(seen))))


def _by_annotator(residual: Floats, annotator: ArrayLike, group: ArrayLike) -> tuple[Floats, NDArray[np.intp], float]:
    """Return (m,) mean residuals of an annotator in a group, the annotator of each, and the variance within them."""
    who, of_group = (np.unique(np.asarray(each).astype(str), return_inverse=True)[1] for each in (annotator, group))
    groups = len(np.unique(of_group))
    cells, cell, size = np.unique(who * groups + of_group, return_inverse=True, return_counts=True)
    if not len(cells):
        return np.zeros(0), np.zeros(0, dtype=np.intp), 0.0
    mean = np.bincount(cell, weights=residual) / size
    return mean, (cells // groups).astype(np.intp), float(((residual - mean[cell]) ** 2).mean())


def groups_needed(coverage: float) -> int:
    """Return the smallest number of groups with a finite band of this coverage."""
    return int(np.ceil(coverage / (1 - coverage) - 1e-9))


def bands(options: Floats, distributions: Floats, width: float | Floats) -> Floats:
    """Return (n, 2) the lowest and the highest option within mean ± q·sd; the band always holds the mean.

    Ratings are options, so these ends cover as many ratings as mean ± q·sd, and are closer to each other. `width` is q
    for all rows, or (n,) one per row.
    """
    mean, spread = moments(options, distributions)
    reach, slack = width * spread, 1e-9 * (options[-1] - options[0])
    low = options[np.minimum(np.searchsorted(options, mean - reach - slack), len(options) - 1)]
    high = options[np.maximum(np.searchsorted(options, mean + reach + slack, side="right") - 1, 0)]
    return np.column_stack([np.minimum(low, mean), np.maximum(high, mean)])


@dataclass(frozen=True)
class Bands:
    """Learned widths of the bands of scores.

    Attributes:
        quantile: q for known annotators; ∞ if there are too few groups.
        quantile_new: q for a new annotator.
        groups: Number of groups that the bands rest on.
        annotators: Number of annotators that the bands rest on; `None` if an earlier version learned the bands.
        coverage: Share of new ratings that a band should contain, between 0 and 1.
    """

    quantile: float
    quantile_new: float
    groups: int = 0
    annotators: int | None = None
    coverage: float = 0.9

    @classmethod
    def fit(
        cls, rated: Ratings, distributions: tuple[Floats, Floats], raters: NDArray[np.object_], coverage: float
    ) -> Self:
        """Return the bands of n ratings.

        Args:
            rated: The ratings.
            distributions: (n, K) held-out distributions for each rating's annotator, and for a new one.
            raters: (n,) annotator of each rating, before annotators are pooled.
            coverage: Share of new ratings that a band should contain.
        """
        groups = [str(name) for name in rated.group]
        known, new = (
            band_quantile(rated.options, each, rated.value, coverage, groups, is_exact=False) for each in distributions
        )
        mean, spread = moments(rated.options, distributions[1])
        new *= new_annotator_factor((rated.value - mean) / spread, raters, groups, coverage)
        return cls(known, new, len(set(groups)), len(set(raters)), coverage)

    def ends(
        self, options: Floats, distributions: Floats, is_new: NDArray[np.bool_], is_lacking: NDArray[np.bool_]
    ) -> Floats:
        """Return (n, 2) the ends of each row's band.

        A row that lacks usual evidence gets at least a normal interval: q was measured on complete rows, so it does
        not apply to distributions that are wide because evidence is missing.

        Args:
            options: (K,) options of the scale.
            distributions: (n, K) distribution of each row.
            is_new: (n,) True for a new annotator.
            is_lacking: (n,) True for rows that lack usual evidence.
        """
        quantile = np.where(is_new, self.quantile_new, self.quantile)
        least = float(normal_quantile((1 + self.coverage) / 2))
        return bands(options, distributions, np.where(is_lacking, np.maximum(quantile, least), quantile))

    @property
    def no_band(self) -> str | None:
        """Reason why the band is the whole scale, or None."""
        if np.isfinite(self.quantile):
            return None
        return (
            f"its band is the whole scale: a {self.coverage:.0%} band needs {groups_needed(self.coverage)} groups, "
            f"learned from {self.groups}"
        )

    @property
    def few_annotators(self) -> str | None:
        """Sentence on the bands for new annotators if they rest on few annotators, or None."""
        count = self.annotators
        if self.no_band or count is None or not 0 < count < FEW_ANNOTATORS:
            return None
        return (
            f"Bands for a new annotator are learned from {count} annotator{'s' if count > 1 else ''}, so they may hold "
            f"less often than {self.coverage:.0%}; with {FEW_ANNOTATORS} annotators the ratings show how much "
            "annotators differ"
        )

    def describe(self) -> dict[str, Any]:
        """Return the band as JSON."""
        if self.no_band:
            return {"band_quantile": None, "band": self.no_band}
        found = {"band_quantile": self.quantile, "band_quantile_new": self.quantile_new}
        return {**found, **({"band_new": self.few_annotators} if self.few_annotators else {})}
