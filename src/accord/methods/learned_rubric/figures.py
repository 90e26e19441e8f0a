"""What rubrics are worth on conversations they were not chosen on (RUBICON, section 4.2), with intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.methods.learned_rubric.selection import Pool
from accord.methods.learned_rubric.sharpness import BAD, GOOD, UNCERTAIN, Flags, Floats, Window
from accord.statistics import DRAWS, Clusters, Interval, interval

Rows = NDArray[np.intp]


@dataclass(frozen=True)
class Outcome:
    """Scores of n conversations with what people called them, and how the training side would label them.

    Attributes:
        scores: (n,) NetSAT in points.
        good: (n,) what people said.
        threshold: θ of the training side.
        window: The uncertainty window of the training side.
        precision: What a label's precision has to be, such as .9.
        sat: (n,) the part of the score that SAT rubrics give.
        dsat: (n,) the part that DSAT rubrics give, negative.
    """

    scores: Floats
    good: Flags
    threshold: float
    window: Window
    precision: float
    sat: Floats
    dsat: Floats

    def take(self, rows: Rows) -> Outcome:
        """Some of the conversations, each as often as it is named."""
        some = (self.scores[rows], self.good[rows], self.threshold, self.window, self.precision)
        return Outcome(*some, self.sat[rows], self.dsat[rows])


def figures(tested: Outcome) -> dict[str, float | None]:
    """Every figure of a table's row; `None` where it is not defined.

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

ROW = tuple(f"{name}{end}" for name in NAMES for end in ("", "_low", "_high"))
"""The names in a flat row."""


def with_intervals(tested: Outcome, clusters: Clusters, draws: int = DRAWS, seed: int = 0) -> dict[str, Any]:
    """The figures as a flat row, each with `_low` and `_high` of its 95 % interval over conversations."""
    samples = resampled(tested, clusters, draws, seed)
    row: dict[str, Any] = {}
    for name, value in figures(tested).items():
        found = interval(samples[name]) if value is not None else Interval(None, None)
        row |= {name: value, f"{name}_low": found.low, f"{name}_high": found.high}
    return row


def resampled(tested: Outcome, clusters: Clusters, draws: int, seed: int) -> Mapping[str, Floats]:
    """(draws,) each figure on resamples of whole conversations; NaN where it is not defined."""
    if len(clusters) < 2:
        return {name: np.full(draws, np.nan) for name in NAMES}
    each = [figures(tested.take(clusters.rows(count))) for count in clusters.counts(draws, seed)]
    return {name: np.array([one[name] for one in each], dtype=float) for name in NAMES}


RESAMPLES = 50
SHAKY = 0.5
"""A chosen rubric that is chosen less often than this is chosen by chance."""

Choose = Callable[[Pool], list[int]]


def stability(pool: Pool, choose: Choose, clusters: Clusters, draws: int = RESAMPLES, seed: int = 0) -> Floats:
    """(P,) the share of bootstrap resamples of the conversations in which each rubric is chosen.

    Resamples without one of the classes are left out.
    """
    chosen, used = np.zeros(len(pool.sat)), 0
    for count in clusters.counts(draws, seed):
        drawn = pool.of(clusters.rows(count))
        if drawn.good.any() and not drawn.good.all():
            chosen[choose(drawn)] += 1
            used += 1
    return chosen / max(used, 1)
