"""Reliability diagrams (LLM-RUBRIC, appendix K): observed frequency of an option by its predicted probability.

The curve is a kernel regression of outcomes on predictions, with the bandwidth at which the smooth calibration error is
measured (Błasiok & Nakkiran, 2023); its density is that of the predictions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accord.statistics.agreement import Paired, range_names, smece
from accord.statistics.resampled_statistics import smece as smece_drawn
from accord.statistics.resampling import Clusters, estimate_from_draws
from accord.values import Estimate

Floats = NDArray[np.float64]

DRAWS, SMECE_DRAWS = 200, 60
_POINTS = 41
_THINNEST = 0.02


@dataclass(frozen=True)
class Diagram:
    """Curve of one option.

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


def diagrams(paired: Paired, clusters: Clusters, draws: int = DRAWS, seed: int = 0) -> list[Diagram]:
    """Return one diagram per option of the scale, or per range of a long one; bands use at most `DRAWS` draws."""
    counts, shown = clusters.counts(min(draws, DRAWS), seed), paired.in_ranges()
    names = enumerate(range_names(paired.options))
    return [_diagram(shown, option, name, clusters, counts) for option, name in names]


def _diagram(paired: Paired, option: int, name: str, clusters: Clusters, counts: Floats) -> Diagram:
    p, happened = paired.probabilities[:, option], paired.answer == option
    error = smece(p, happened)
    width = max(error or 0.0, 0.02)
    axis = np.linspace(0, 1, _POINTS)
    kernel = sum(np.exp(-0.5 * ((axis[:, None] - mirror) / width) ** 2) for mirror in (p, -p, 2 - p))
    mass = np.asarray(kernel).sum(axis=1)
    shown = mass / mass.max() >= _THINNEST
    numerator, denominator = (clusters.sums((np.asarray(kernel) * each).T) for each in (happened, np.ones(len(p))))
    with np.errstate(invalid="ignore", divide="ignore"):
        drawn = (counts @ numerator) / (counts @ denominator)
        curve = numerator.sum(axis=0) / denominator.sum(axis=0)
    low, high = np.nanquantile(drawn[:, shown], [0.025, 0.975], axis=0)
    calibration = estimate_from_draws(error, smece_drawn(p, happened, counts[:SMECE_DRAWS, clusters.of_row]))
    return Diagram(name, axis[shown], curve[shown], low, high, (mass / mass.max())[shown], calibration)
