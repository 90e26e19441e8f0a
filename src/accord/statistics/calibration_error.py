"""Smooth calibration error with its interval, and reliability diagrams.

The error of a calibrated model is above 0, because the noise of the answers raises it, and answers that are drawn again
are noisier still: the middle of bootstrap draws lies above the error that they should surround. The interval is
therefore found by inverting a test. The residuals r = y - p are split into a smooth part m, their kernel regression on
p, and noise u = r - m. For each scale c, residuals c·m ± u are drawn, with one random sign per conversation (wild
bootstrap; Wu, 1986; by cluster: Cameron, Gelbach & Miller, 2008). The scales with the observed error in the middle 95%
of their draws are kept, and the interval is the error of c·m alone, without noise, from the smallest to the largest of
them; c = 0 is a calibrated model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accord.statistics.agreement import Paired, range_names
from accord.statistics.defaults import CONFIDENCE
from accord.statistics.resampled_statistics import SMECE_BINS, residuals_in_bins, smooth_error, smoothed
from accord.statistics.resampling import Clusters
from accord.values import Estimate

Floats = NDArray[np.float64]

SMECE_DRAWS = 100
"""Draws of signs per scale."""
_SCALES = 40
"""Number of scales c that are tested, from 0 to the largest that draws can reach."""
_TINY = 1e-9


def smece_estimates(paired: Paired, clusters: Clusters, seed: int = 0) -> list[Estimate]:
    """Return the smECE of each option's probability, or of each range of a long scale, with its 95% interval.

    The interval is for the true error. It may lie below the value, which noise raises, and begins at 0 if the
    residuals are compatible with a calibrated model. It is undefined for fewer than two conversations.

    Args:
        paired: n predictions.
        clusters: Groups of the n rows.
        seed: Seed of the signs.
    """
    shown = paired.in_ranges()
    return [_estimate(shown, [option], clusters, seed) for option in range(len(shown.options))]


def mean_smece(paired: Paired, clusters: Clusters, seed: int = 0) -> Estimate:
    """Return the mean smECE of the options' probabilities; arguments and interval as in `smece_estimates`."""
    shown = paired.in_ranges()
    return _estimate(shown, range(len(shown.options)), clusters, seed)


def _estimate(paired: Paired, options: Sequence[int], clusters: Clusters, seed: int) -> Estimate:
    """Return the mean smECE of some options with its interval; the scale c and the signs are common to them."""
    if not len(paired):
        return Estimate()
    residuals = [_Residuals.of(paired, option) for option in options]
    value = float(np.mean([each.error for each in residuals]))
    if len(clusters) < 2:
        return Estimate(value)
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], size=(SMECE_DRAWS, len(clusters)))
    smooth = np.concatenate([each.smooth_part() for each in residuals], axis=1) / len(options)
    noise = np.concatenate([each.noise(signs[:, clusters.of_row]) for each in residuals], axis=1) / len(options)
    # Beyond this scale even the draw with the strongest noise exceeds the value.
    largest = (value + np.abs(noise).sum(axis=1).max()) / np.abs(smooth).sum()
    scales = np.linspace(0.0, largest, _SCALES + 1)
    is_above = np.array([(np.abs(scale * smooth + noise).sum(axis=1) > value).sum() for scale in scales])
    tail = (1 - CONFIDENCE) / 2 * (SMECE_DRAWS + 1) - 1
    kept = (is_above > tail) & (SMECE_DRAWS - is_above > tail)
    kept[0] = is_above[0] > tail  # an error below the error of noise alone fits no scale better than 0
    first, last = np.flatnonzero(kept)[[0, -1]] if kept.any() else (0, 0)
    ends = scales[[max(first - 1, 0), min(last + 1, _SCALES)]]  # the ends are between two scales
    low, high = np.mean([each.errors_without_noise(ends) for each in residuals], axis=0)
    return Estimate(value, float(low), float(high))


@dataclass(frozen=True, eq=False)
class _Residuals:
    """Residuals of an option's probability, split into a smooth part and noise.

    Attributes:
        probability: (n,) p.
        smooth: (n,) m, the kernel regression of the residuals on p.
        rest: (n,) u, the noise.
        error: smECE, which is also the width of the kernel.
    """

    probability: Floats
    smooth: Floats
    rest: Floats
    error: float

    @classmethod
    def of(cls, paired: Paired, option: int) -> _Residuals:
        p = paired.probabilities[:, option]
        residual = (paired.answer == option) - p
        rows = residuals_in_bins(p, np.ones(len(p)))  # (n, bins) shares of each row
        in_bins = np.stack([rows.T @ residual, rows.T @ np.ones(len(p))]) / len(p)
        error = float(smooth_error(in_bins[:1])[0])
        of_residuals, of_rows = smoothed(in_bins, max(error, 1.0 / SMECE_BINS), SMECE_BINS)
        smooth = rows @ np.where(of_rows > _TINY, of_residuals / np.maximum(of_rows, _TINY), 0.0)
        if np.abs(smooth).mean() < _TINY:  # all residuals cancel out, so the direction of an error is unknown
            smooth = np.full(len(p), _TINY)
        return cls(p, smooth, residual - smooth, error)

    def _curve(self, mass: Floats) -> Floats:
        return smoothed(mass / len(self.probability), max(self.error, 1.0 / SMECE_BINS))

    def smooth_part(self) -> Floats:
        """Return (1, points) the smoothed m."""
        return self._curve(residuals_in_bins(self.probability, self.smooth).sum(axis=0)[None])

    def noise(self, signs: Floats) -> Floats:
        """Return (D, points) the smoothed noise under (D, n) signs."""
        return self._curve((residuals_in_bins(self.probability, self.rest).T @ signs.T).T)

    def errors_without_noise(self, scales: Floats) -> Floats:
        """Return smECE of c·m for each scale c; at most 1."""
        parts = np.clip(scales[:, None] * self.smooth, -1.0, 1.0)
        mass = (residuals_in_bins(self.probability, np.ones(len(self.probability))).T @ parts.T).T
        return np.where(scales > 0, smooth_error(mass / len(self.probability)), 0.0)


# --- reliability diagrams ---------------------------------------------------------------------------------------------

DIAGRAM_DRAWS = 200
_POINTS = 41
_THINNEST = 0.02


@dataclass(frozen=True)
class Diagram:
    """Observed frequency of an option by its predicted probability (LLM-RUBRIC, appendix K).

    The curve is a kernel regression of outcomes on predictions, with the bandwidth at which the smooth calibration
    error is measured (Błasiok & Nakkiran, 2023). Its density is the density of the predictions.

    Attributes:
        option: Name of the option, or of a range of a long scale.
        predicted: (m,) probabilities along the axis with enough predictions.
        happened: (m,) share of ratings with the option; `low` and `high` are its band over conversations.
        low: (m,) lower end of the band.
        high: (m,) upper end of the band.
        density: (m,) density of the predictions, at most 1.
        error: Smooth calibration error with its interval.
    """

    option: str
    predicted: Floats
    happened: Floats
    low: Floats
    high: Floats
    density: Floats
    error: Estimate


def diagrams(paired: Paired, clusters: Clusters, draws: int = DIAGRAM_DRAWS, seed: int = 0) -> list[Diagram]:
    """Return one diagram per option of the scale, or per range of a long one; bands use few draws."""
    counts, shown = clusters.counts(min(draws, DIAGRAM_DRAWS), seed), paired.in_ranges()
    errors = smece_estimates(shown, clusters, seed)
    names = enumerate(range_names(paired.options))
    return [_diagram(shown, option, name, clusters, counts, errors[option]) for option, name in names]


def _diagram(paired: Paired, option: int, name: str, clusters: Clusters, counts: Floats, error: Estimate) -> Diagram:
    p, happened = paired.probabilities[:, option], paired.answer == option
    width = max(error.value or 0.0, 0.02)
    axis = np.linspace(0, 1, _POINTS)
    kernel = sum(np.exp(-0.5 * ((axis[:, None] - mirror) / width) ** 2) for mirror in (p, -p, 2 - p))
    mass = np.asarray(kernel).sum(axis=1)
    shown = mass / mass.max() >= _THINNEST
    numerator, denominator = (clusters.sums((np.asarray(kernel) * each).T) for each in (happened, np.ones(len(p))))
    with np.errstate(invalid="ignore", divide="ignore"):
        drawn = (counts @ numerator) / (counts @ denominator)
        curve = numerator.sum(axis=0) / denominator.sum(axis=0)
    low, high = np.nanquantile(drawn[:, shown], [0.025, 0.975], axis=0)
    return Diagram(name, axis[shown], curve[shown], low, high, (mass / mass.max())[shown], error)
