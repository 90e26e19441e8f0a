"""Agreement of predictions with ratings.

Most statistics are means of per-row numbers followed by a formula, so that they can be recomputed on thousands of
resamples without the predictions. `None` marks an undefined statistic (no variation, no rows); it is never
reported as 0 or NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from accord.statistics import resampled_statistics as resampled

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Level = Literal["ordinal", "interval", "nominal"]

LONG, RANGES = 10, 5
"""Scales with more than `LONG` options are reported in `RANGES` ranges of equal width."""
_TINY = 1e-12


@dataclass(frozen=True)
class Paired:
    """n predictions paired with ratings.

    Attributes:
        options: (K,) rising values of the scale.
        answer: (n,) index of the chosen option.
        probabilities: (n, K) predicted distribution.
        value: (n,) predicted number, in units of the scale.
        band: (n, 2) ends of the interval around it; NaN or `None` if unknown.
    """

    options: Floats
    answer: Indices
    probabilities: Floats
    value: Floats
    band: Floats | None = None

    def __len__(self) -> int:
        return len(self.answer)

    @property
    def truth(self) -> Floats:
        """(n,) ratings as numbers."""
        return np.asarray(self.options[self.answer])

    @property
    def step(self) -> float:
        """Mean distance between neighboring options, in units of the scale; a tenth of a long scale."""
        return float(np.ptp(self.options)) / min(max(len(self.options) - 1, 1), 10)

    @property
    def decided(self) -> Indices:
        """(n,) index of the option that is nearest to each predicted value."""
        return np.asarray(np.abs(self.value[:, None] - self.options).argmin(axis=1))

    def in_ranges(self) -> Paired:
        """Return the pairs with the ranges of a long scale as options (`ranges`); a short scale is unchanged."""
        groups = ranges(self.options)
        if groups[-1] + 1 == len(self.options):
            return self
        members = np.eye(groups[-1] + 1)[groups]
        middles = (self.options @ members) / members.sum(axis=0)
        return Paired(middles, groups[self.answer], self.probabilities @ members, self.value, self.band)

    def take(self, rows: Indices) -> Paired:
        """Return the rows with these indices, repeats included."""
        band = None if self.band is None else self.band[rows]
        return Paired(self.options, self.answer[rows], self.probabilities[rows], self.value[rows], band)


def ranges(options: Floats) -> Indices:
    """Return (K,) the index of each option's range. On a short scale each option is its own range."""
    if len(options) <= LONG:
        return np.arange(len(options))
    part = (options - options[0]) / np.ptp(options)
    group = np.minimum((part * RANGES).astype(int), RANGES - 1)
    return np.asarray(np.unique(group, return_inverse=True)[1])


def range_names(options: Floats) -> list[str]:
    """Return the names of the ranges: `3`, or `20 to 38`."""
    groups = ranges(options)
    ends = [options[groups == group][[0, -1]] for group in range(groups[-1] + 1)]
    return [f"{low:g}" if low == high else f"{low:g} to {high:g}" for low, high in ends]


@dataclass(frozen=True)
class MeanStatistic:
    """Statistic that is a formula of means over rows.

    Attributes:
        rows: Maps n predictions to (n, m) numbers.
        finish: Maps their means, (..., m), to the statistic, (...); NaN if undefined.
    """

    rows: Callable[[Paired], Floats]
    finish: Callable[[Floats], Floats]

    def __call__(self, paired: Paired) -> float | None:
        """Return the statistic of all rows."""
        return number(self.finish(self.rows(paired).mean(axis=0))) if len(paired) else None


@dataclass(frozen=True)
class WeightedStatistic:
    """Statistic that needs all rows together, computed for many draws at once.

    Attributes:
        of: Maps n predictions and (D, n) draw counts to the statistic, (D,); NaN if undefined.
    """

    of: Callable[[Paired, Floats], Floats]

    def __call__(self, paired: Paired) -> float | None:
        """Return the statistic of all rows."""
        return number(self.of(paired, np.ones((1, len(paired))))[0]) if len(paired) else None


Statistic = MeanStatistic | WeightedStatistic


def number(value: Any) -> float | None:
    """Return a float, or `None` if it is not finite."""
    return float(value) if np.isfinite(value) else None


# --- means --------------------------------------------------------------------------------------------------------


def _only(means: Floats) -> Floats:
    return np.asarray(means[..., 0])


def _squared_error(paired: Paired) -> Floats:
    return np.asarray((paired.truth - paired.value)[:, None] ** 2)


def _absolute_error(paired: Paired) -> Floats:
    return np.asarray(np.abs(paired.truth - paired.value))[:, None]


def _exact(paired: Paired) -> Floats:
    return np.asarray(paired.answer == paired.decided, dtype=float)[:, None]


def _within_one(paired: Paired) -> Floats:
    return np.asarray(np.abs(paired.truth - paired.value) <= paired.step, dtype=float)[:, None]


def _surprise(paired: Paired) -> Floats:
    with np.errstate(divide="ignore"):
        return np.asarray(-np.log(paired.probabilities[np.arange(len(paired)), paired.answer])[:, None])


def _covered(paired: Paired) -> Floats:
    band = np.full((len(paired), 2), np.nan) if paired.band is None else paired.band
    inside = (band[:, 0] <= paired.truth) & (paired.truth <= band[:, 1])
    return np.where(np.isnan(band[:, 0]), np.nan, inside)[:, None]


def _band_width(paired: Paired) -> Floats:
    return np.full((len(paired), 1), np.nan) if paired.band is None else np.diff(paired.band, axis=1)


def _products(paired: Paired) -> Floats:
    # Centering on the middle of the scale reduces rounding, and is the same for all systems, so they can be swapped.
    middle = paired.options.mean()
    y, v = paired.truth - middle, paired.value - middle
    return np.column_stack([y, v, y * y, v * v, y * v])


def _correlation(means: Floats) -> Floats:
    y, v, yy, vv, yv = np.moveaxis(means, -1, 0)
    of_y, of_v = yy - y * y, vv - v * v
    varies = (of_y > _TINY * yy) & (of_v > _TINY * vv)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(varies, (yv - y * v) / np.sqrt(np.where(varies, of_y * of_v, 1.0)), np.nan)


def _places(paired: Paired) -> Floats:
    i, j = paired.answer.astype(float), paired.decided.astype(float)
    return np.column_stack([i, j, i * i + j * j, (i - j) ** 2])


def _kappa(means: Floats) -> Floats:
    # With quadratic weights Σ w·expected is E[i²] + E[j²] - 2 E[i] E[j].
    i, j, squares, observed = np.moveaxis(means, -1, 0)
    chance = squares - 2 * i * j
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(chance > _TINY, 1 - observed / chance, np.nan)


STATISTICS: Mapping[str, Statistic] = {
    # √(mean (y - ŷ)²), in units of the scale
    "rmse": MeanStatistic(_squared_error, lambda means: np.sqrt(_only(means))),
    # mean |y - ŷ|
    "mae": MeanStatistic(_absolute_error, _only),
    # covariance over the product of standard deviations, -1 to 1
    "pearson": MeanStatistic(_products, _correlation),
    # Pearson's r of the ranks, ties at their mean rank
    "spearman": WeightedStatistic(lambda p, weights: resampled.spearman(p.truth, p.value, weights)),
    # τ-b: (concordant - discordant) / √((pairs untied in y)(pairs untied in ŷ))
    "kendall": WeightedStatistic(lambda p, weights: resampled.kendall(p.truth, p.value, weights)),
    # mean [nearest option = answer]
    "accuracy": MeanStatistic(_exact, _only),
    # mean [|y - ŷ| ≤ one step of the scale]
    "within_one": MeanStatistic(_within_one, _only),
    # quadratic weights: 1 - Σ w·observed / Σ w·expected, w = (i - j)² (Cohen, 1968)
    "weighted_kappa": MeanStatistic(_places, _kappa),
    # Krippendorff's ordinal α between people and the nearest options, as two coders
    "alpha": WeightedStatistic(
        lambda p, weights: resampled.ordinal_alpha(len(p.options), p.answer, p.decided, weights)
    ),
    # share of answers inside the conformal band
    "coverage": MeanStatistic(_covered, _only),
    # mean width of the conformal band, in units of the scale
    "width": MeanStatistic(_band_width, _only),
    # mean -log p(answer), in nats
    "log_loss": MeanStatistic(_surprise, _only),
}
"""One-number statistics by their names in tables and benchmark rows."""


def _hits(paired: Paired) -> Floats:
    is_upper, called = paired.answer == 1, paired.decided == 1
    return np.column_stack([is_upper & called, is_upper, ~is_upper & ~called, ~is_upper]).astype(float)


def _share(part: int) -> Callable[[Floats], Floats]:
    def of(means: Floats) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(means[..., part + 1] > 0, means[..., part] / means[..., part + 1], np.nan)

    return of


TWO_VALUED: Mapping[str, Statistic] = {
    # Cohen's κ of the answer and the nearest option; with two options all weightings are equal
    "kappa": MeanStatistic(_places, _kappa),
    # share of upper-option answers that are predicted correctly
    "tpr": MeanStatistic(_hits, _share(0)),
    # share of lower-option answers that are predicted correctly
    "tnr": MeanStatistic(_hits, _share(2)),
    # share of the upper option among the answers: the accuracy of always predicting it
    "base_rate": MeanStatistic(lambda paired: (paired.answer == 1).astype(float)[:, None], _only),
}
"""Additional statistics for a scale of two options."""


def _answers_and_calls(paired: Paired) -> Floats:
    return np.column_stack([paired.answer == paired.decided, paired.answer == 1, paired.decided == 1]).astype(float)


def _ac1(means: Floats) -> Floats:
    observed, answers, calls = np.moveaxis(means, -1, 0)
    upper = (answers + calls) / 2
    chance = 2 * upper * (1 - upper)
    return np.asarray((observed - chance) / (1 - chance))


AC1 = MeanStatistic(_answers_and_calls, _ac1)
"""Gwet's AC1 (2008) of two options: (p_o - p_e) / (1 - p_e), p_e = 2π(1 - π), π the mean share of the upper option.

Unlike κ it is defined, and high, if both sides nearly always give the same option.
"""


def within(groups: NDArray[np.object_]) -> dict[str, WeightedStatistic]:
    """Return agreement inside groups of rows, which removes differences between annotators or between chat systems.

    Args:
        groups: (n,) annotator, or chat system, of each prediction.

    Returns:
        `pearson`: r after subtracting each group's means from ratings and predictions. `kendall`: τ-b over the pairs
            inside
        groups.
    """
    code = np.unique(groups.astype(str), return_inverse=True)[1].astype(np.intp)
    return {
        "pearson": WeightedStatistic(lambda p, weights: resampled.pearson_within(p.truth, p.value, weights, code)),
        "kendall": WeightedStatistic(lambda p, weights: resampled.kendall(p.truth, p.value, weights, code)),
    }


LOWER_IS_BETTER = frozenset({"rmse", "mae", "log_loss", "smece"})


def summary(paired: Paired, names: Sequence[str] = tuple(STATISTICS)) -> dict[str, float | None]:
    """Return the named statistics of all rows."""
    return {name: STATISTICS[name](paired) for name in names}


def pearson(truth: Floats, value: Floats) -> float | None:
    """Return Pearson's r of two (n,) arrays, -1 to 1, or `None` if one array is constant."""
    nobody = np.zeros((len(truth), 0))
    if not len(truth):
        return None
    paired = Paired(np.asarray(truth, dtype=float), np.arange(len(truth)), nobody, np.asarray(value, dtype=float))
    return STATISTICS["pearson"](paired)


def krippendorff_alpha(units: Sequence[Mapping[str, float]], level: Level = "ordinal") -> float | None:
    """Return Krippendorff's α of several annotators on the same units: 1 - observed / expected disagreement.

    Args:
        units: One mapping per unit (a conversation, a turn) from annotator to value.
        level: `ordinal`, `interval` or `nominal`.
    """
    shared = [list(unit.values()) for unit in units if len(unit) > 1]
    values = np.unique([value for unit in shared for value in unit])
    if len(values) < 2:
        return None
    counts = np.array([np.bincount(np.searchsorted(values, unit), minlength=len(values)) for unit in shared])
    pairable = counts.sum(axis=1) - 1.0
    coincidences = counts.T @ (counts / pairable[:, None]) - np.diag((counts / pairable[:, None]).sum(axis=0))
    totals = coincidences.sum(axis=0)
    ranks = np.cumsum(totals) - totals / 2
    distance = {
        "nominal": 1.0 - np.eye(len(values)),
        "interval": np.subtract.outer(values, values) ** 2,
        "ordinal": np.subtract.outer(ranks, ranks) ** 2,
    }[level]
    expected = (np.outer(totals, totals) * distance).sum()
    return float(1 - (totals.sum() - 1) * (coincidences * distance).sum() / expected)


def smece(probability: Floats, happened: NDArray[np.bool_]) -> float | None:
    """Return the smooth expected calibration error (Błasiok & Nakkiran, 2023), 0 to 1; see `resampled_statistics`.

    Args:
        probability: (n,) predicted probability.
        happened: (n,) True for an event that occurred.
    """
    return (
        float(resampled.smece(probability, happened, np.ones((1, probability.size)))[0]) if probability.size else None
    )


def smece_of(option: int) -> WeightedStatistic:
    """Return the smECE of one option's predicted probability, by its index, as a statistic of predictions."""
    return WeightedStatistic(
        lambda paired, weights: resampled.smece(paired.probabilities[:, option], paired.answer == option, weights)
    )


def smece_by_option(paired: Paired) -> list[float | None]:
    """Return the smECE of each option's predicted probability, or of each range of a long scale."""
    shown = paired.in_ranges()
    return [smece_of(option)(shown) for option in range(len(shown.options))]


def lowest_rmse(truth: Floats, r: float) -> float:
    """Return SD·√(1 - r²), the smallest RMSE of any prediction with this correlation (SD over n)."""
    return float(np.std(truth) * np.sqrt(1 - r**2))
