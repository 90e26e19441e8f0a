"""Efficient means from few labels and many scores, and the correction by error rates.

**Efficient mean.** With labels of a random part of the rows, no regular estimator of the mean has a smaller variance
than the one whose influence function is y - m(f) on labeled rows and m(f) - θ on all rows, with m(f) the mean label of
rows with score f (Robins & Rotnitzky, 1995; for judges with two answers Chen et al., "Efficient inference for noisy
LLM-as-a-judge evaluation", 2026):

    θ = mean(m(f), all rows) + mean(y - m(f), labeled rows)

Here m is a line, which for two-valued scores is the mean label of each value, so the estimator is the efficient one. It
equals PPI++ (`corrected_means`) with a weight of the scores that is neither cross-fitted nor limited to 0 to 1. The
slope is common to all systems, and each system has a level of its own. The residuals are divided by √(1 - h) for their
leverage h (MacKinnon & White's HC2).

**Few labels of two values.** A group of rows with the same score whose few labels are all equal has no variance in the
sample, and a positive one outside it. For two-valued labels and scores, each group therefore has the variance of
its share with a quarter of a label of either value added, in place of the leverages.

**Rogan and Gladen (1978)** invert the error rates of a judge: θ = (share of upper answers + TNR - 1) / (TPR + TNR - 1).
Its variance follows from the influence of each row on the three shares. It exceeds the variance of the efficient mean
and is undefined for a judge that is at most as good as chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from accord.statistics.corrected_means import LabeledSystem, SystemMean, label_part_of, missing_interval
from accord.statistics.intervals import CenteredPart, spread_of
from accord.statistics.scale_intervals import mean_on_scale, scale_interval

Floats = NDArray[np.float64]
Ends = tuple[float, float]

PSEUDO = 0.25
"""Labels of each value that are added to the labels of a group for the variance."""
MAX_LEVERAGE = 0.9
LEAST_SKILL = 0.05
"""TPR + TNR - 1 below which error rates are not inverted."""


def efficient_means(systems: Sequence[LabeledSystem], ends: Ends, is_two_valued: bool) -> list[SystemMean]:
    """Return the efficient mean of each system with its interval within the scale.

    Args:
        systems: Labels and scores of each system.
        ends: Lowest and highest value of the scale of the labels.
        is_two_valued: True if labels have only these two values.
    """
    slope = _slope(systems)
    means = [_efficient_mean(system, slope, ends, is_two_valued) for system in systems]
    return [on_scale(mean, system, ends, is_two_valued) for mean, system in zip(means, systems, strict=True)]


def on_scale(mean: SystemMean, system: LabeledSystem, ends: Ends, is_two_valued: bool) -> SystemMean:
    """Return a mean with intervals within the scale in place of t intervals."""
    alone = mean_on_scale(system.said, system.groups[0], ends, is_two_valued)
    mean = replace(mean, label_low=alone.low, label_high=alone.high)
    error, freedom = spread_of(mean.parts, mean.spent)
    if mean.reason or not error > 0 or ends[0] == ends[1]:
        return replace(mean, low=None, high=None)
    low, high = scale_interval(mean.mean, error, freedom, mean.labelled, ends, is_two_valued)
    return replace(mean, low=low, high=high)


def _slope(systems: Sequence[LabeledSystem]) -> float:
    """Return the least-squares slope of labels on scores within systems; 0 for constant scores."""
    products = squares = 0.0
    for each in systems:
        if len(each.predicted) and np.ptp(each.predicted) > 0:  # a mean of equal scores differs from them by rounding
            f = each.predicted - each.predicted.mean()
            products, squares = products + float(f @ each.said), squares + float(f @ f)
    return products / squares if squares > 0 else 0.0


def _efficient_mean(given: LabeledSystem, slope: float, ends: Ends, is_two_valued: bool) -> SystemMean:
    n, rest = len(given.said), len(given.unlabelled)
    every = np.concatenate([given.predicted, given.unlabelled])
    label_mean, shift = float(given.said.mean()), float(every.mean() - given.predicted.mean())
    centered = given.predicted - given.predicted.mean()
    residual = given.said - label_mean - slope * centered
    squares = float(centered @ centered)
    leverage = np.minimum(1 / n + (centered**2 / squares if squares > 0 and slope else 0.0), MAX_LEVERAGE)
    has_groups = is_two_valued and len(np.unique(every)) <= 2
    variance = float((residual**2 / (1.0 if has_groups else 1 - leverage)).sum()) / n**2
    if has_groups:
        variance += _unseen_variance(given, every, ends)
    plain = float(residual @ residual) * n / max(n - 1, 1) / n**2  # as `spread_of` estimates it
    adds = (residual - residual.mean()) / n * np.sqrt(variance / plain if plain > 0 else 1.0)
    group, other = given.groups
    parts = (
        CenteredPart(adds, group),
        CenteredPart(slope * (every - every.mean()) / len(every), np.concatenate([group, other])),
    )
    reason = missing_interval(given)
    mean = min(max(label_mean + slope * shift, ends[0]), ends[1])
    return SystemMean(
        given.system, n, n + rest, mean, None, None, label_mean, None, None, slope, reason, parts,
        label_part=label_part_of(given),
    )  # fmt: skip


def _unseen_variance(given: LabeledSystem, every: Floats, ends: Ends) -> float:
    """Return the variance that a quarter of a label of either value adds to each group of equal scores."""
    wide, total = ends[1] - ends[0], 0.0
    for value in np.unique(given.predicted):
        labels = (given.said[given.predicted == value] - ends[0]) / wide
        n, share = len(labels), float((every == value).mean())
        seen, smooth = float(labels.mean()), (float(labels.sum()) + PSEUDO) / (n + 2 * PSEUDO)
        total += share**2 * (smooth * (1 - smooth) - seen * (1 - seen)) / n
    return total * wide**2


def rogan_gladen(given: LabeledSystem) -> SystemMean | str:
    """Return the share of a system's upper labels by its judge's error rates, or the reason why it is undefined.

    Args:
        given: Labels 0 or 1, and scores from 0 to 1.
    """
    y, f = given.said, given.predicted
    every = np.concatenate([f, given.unlabelled])
    n, upper = len(y), float(y.sum())
    if not 0 < upper < n:
        return f"all {n} labels are equal, so an error rate of the judge is unknown"
    observed, tpr, tnr = float(every.mean()), float(f @ y) / upper, float((1 - f) @ (1 - y)) / (n - upper)
    skill = tpr + tnr - 1
    if skill < LEAST_SKILL:
        return f"TPR + TNR is {tpr + tnr:.2f}: a judge that is no better than chance has no error rates to invert"
    raw = (observed + tnr - 1) / skill
    mean = min(max(raw, 0.0), 1.0)
    hits = -raw / skill * y * (f - tpr) / upper
    rejections = (1 - raw) / skill * (1 - y) * (1 - f - tnr) / (n - upper)
    group, other = given.groups
    parts = (
        CenteredPart(hits + rejections, group),
        CenteredPart((every - observed) / len(every) / skill, np.concatenate([group, other])),
    )
    found = SystemMean(
        given.system, n, len(every), mean, None, None, upper / n, None, None, 1.0, missing_interval(given), parts
    )
    return on_scale(found, given, (0.0, 1.0), True)
