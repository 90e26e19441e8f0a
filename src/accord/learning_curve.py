"""How much labelling is enough (LLM-RUBRIC, appendix J): agreement against the share of the labels learned from."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from accord.agreement import STATISTICS
from accord.evaluators.held_out import Factory, System, held_out
from accord.evaluators.ratings import Ratings
from accord.evidence.table import EvidenceTable
from accord.labels import Labels
from accord.resampling import Clusters, Interval, bootstrap
from accord.rubric import Question
from accord.splits import FOLDS, Split, grouped_folds

SHARES = (0.1, 0.25, 0.5, 0.75, 1.0)
REPEATS = 1
DRAWS = 500
SHOWN = ("rmse", "pearson", "log_loss")


@dataclass(frozen=True)
class Point:
    """One point of the curve.

    Attributes:
        share: Of the training conversations that was learned from.
        labels: How many labels that is on average, in the folds' training sides.
        values: Statistics over the held-out ratings that every repeat predicts, means over the repeats; `None` where
            nothing could be learned.
        intervals: Theirs, over conversations.
    """

    share: float
    labels: float
    values: dict[str, float | None]
    intervals: dict[str, Interval]

    def to_json(self) -> dict[str, Any]:
        """A flat row."""
        row: dict[str, Any] = {"share": self.share, "labels": self.labels}
        for name, found in self.intervals.items():
            row |= {name: self.values[name], f"{name}_low": found.low, f"{name}_high": found.high}
        return row


def learning_curve(
    make: Factory,
    question: Question,
    evidence: EvidenceTable,
    labels: Labels,
    rated: Ratings,
    shares: Sequence[float] = SHARES,
    repeats: int = REPEATS,
    folds: int = FOLDS,
    seed: int = 0,
) -> list[Point]:
    """Predict every rating without its conversation, from growing random shares of the other conversations."""
    conversations = list(rated.conversation)
    points = []
    for share in shares:
        runs, counts = [], []
        for repeat in range(repeats if share < 1 else 1):
            whole = grouped_folds(conversations, folds, seed)
            splits = [_thinned(split, share, seed + 1000 * repeat + place) for place, split in enumerate(whole)]
            runs.append(held_out("curve", make, question, evidence, labels, rated, splits))
            counts += [sum(name in split.train for name in conversations) for split in splits]
        points.append(_point(share, sum(counts) / len(counts), runs, rated))
    return points


def _thinned(split: Split, share: float, seed: int) -> Split:
    """The split with a random share of its training side."""
    names = sorted(split.train)
    kept = random.Random(seed).sample(names, max(1, round(share * len(names))))
    return Split(frozenset(kept), split.test)


def _point(share: float, count: float, runs: Sequence[System], rated: Ratings) -> Point:
    rows = np.flatnonzero(np.all([run.scored for run in runs], axis=0))
    if not len(rows):
        nothing = Interval(None, None)
        return Point(share, count, dict.fromkeys(SHOWN), dict.fromkeys(SHOWN, nothing))
    paired, clusters = [run.paired(rated).take(rows) for run in runs], Clusters(rated.conversation[rows])
    values = {}
    for name in SHOWN:
        found = [value for each in paired if (value := STATISTICS[name](each)) is not None]
        values[name] = sum(found) / len(found) if found else None
    intervals = {name: bootstrap(clusters, STATISTICS[name], paired, DRAWS, 0) for name in SHOWN}
    return Point(share, count, values, intervals)
