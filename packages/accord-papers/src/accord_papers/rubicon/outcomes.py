"""Statistics of RUBICON's tables (section 4.2), with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from accord.evidence import Training
from accord.methods.learned_rubric.assertion_selector import (
    ClassifiedSamples,
    NetSatOutcome,
    verdict_statistics,
)
from accord.methods.learned_rubric.findings import (
    RubricResult,
    clusters_of,
)
from accord.methods.learned_rubric.selection_policies import UncertaintyWindow
from accord.statistics import DRAWS, Clusters, estimate_from_draws
from accord.values import Estimate
from accord_papers.study import Row, mean_interval, spread_of

OF_PAPER = ("delta_netsat", "yield_rate", "accuracy", "precision", "recall", "f1")
"""Columns of the paper's tables, in order."""
STATISTICS = (*OF_PAPER, "yield_deployed", "precision_deployed", "sat_dsat")
HEADINGS = {
    "delta_netsat": "ΔNetSAT", "yield_rate": "yield", "accuracy": "accuracy", "precision": "precision",
    "recall": "recall", "f1": "F1", "yield_deployed": "yield, bounds of training side",
    "precision_deployed": "precision of these labels", "sat_dsat": "r of SAT and DSAT",
}  # fmt: skip


def figures(tested: NetSatOutcome) -> dict[str, float | None]:
    """Return all statistics of a system; `None` if undefined.

    `precision`, `recall` and `f1` count a score above the training side's threshold as good. `yield_rate` is the share
    outside the window of the paper, which comes from the tested labels. `sat_dsat` is Pearson's r of the sums over the
    SAT and over the DSAT assertions, before the latter are negated.
    """
    good, scores = tested.good, tested.scores
    if not good.any() or good.all():
        return dict.fromkeys(STATISTICS)
    predicted_good = scores > tested.threshold
    right = int((predicted_good & good).sum())
    precision = right / int(predicted_good.sum()) if predicted_good.any() else None
    recall = right / int(good.sum())
    window = UncertaintyWindow.read(scores, good, tested.threshold, tested.precision)
    varies = np.ptp(tested.sat) > 0 and np.ptp(tested.dsat) > 0
    values = {
        **verdict_statistics(tested),
        "yield_rate": float(((scores > window.high) | (scores <= window.low)).mean()),
        "precision": precision,
        "recall": recall,
        "f1": 0.0 if not right or precision is None else 2 * precision * recall / (precision + recall),
        "sat_dsat": float(np.corrcoef(tested.sat, -tested.dsat)[0, 1]) if varies else None,
    }
    return {name: values[name] for name in STATISTICS}


def all_intervals(tested: NetSatOutcome, clusters: Clusters, draws: int = DRAWS, seed: int = 0) -> dict[str, Estimate]:
    """Return all statistics with intervals from resamples of whole conversations."""
    counts = clusters.counts(draws if len(clusters) > 1 else 0, seed)
    drawn = [figures(_taken(tested, clusters.rows(count))) for count in counts]
    return {
        name: Estimate()
        if value is None
        else estimate_from_draws(value, np.array([row[name] for row in drawn], dtype=float))
        for name, value in figures(tested).items()
    }


def _taken(tested: NetSatOutcome, rows: NDArray[np.intp]) -> NetSatOutcome:
    """Return some of the conversations, with repetitions."""
    parts = {name: getattr(tested, name)[rows] for name in ("scores", "good", "sat", "dsat")}
    return replace(tested, **parts)


def result_row(result: RubricResult, test: Training, decided: ClassifiedSamples) -> Row:
    """Return the row of a rubric on the held-out side."""
    if result.outcome is None:
        return result.row({})
    return result.row(all_intervals(result.outcome, clusters_of(test, decided), test.draws, test.seed))


def mean_row(rows: Sequence[Mapping[str, float | None]], *, are_independent: bool) -> Row:
    """Return the mean of each statistic over repeats.

    Args:
        rows: Statistics of each repeat.
        are_independent: True for the 95% interval of the mean (`mean_interval`); False for the spread of repeats that
            share data, such as halvings (`spread_of`).
    """
    found: Row = {}
    for name in rows[0]:
        values = [value for row in rows if (value := row[name]) is not None]
        if values:
            found |= mean_interval(name, values) if are_independent else spread_of(name, values)
    return found
