"""How much labelling is enough (LLM-RUBRIC, appendix J): agreement against the share of the labels learned from."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from accord.agreement import STATISTICS, summary
from accord.evaluators.held_out import Factory, System, held_out
from accord.evaluators.ratings import Ratings
from accord.evidence.table import EvidenceTable
from accord.labels import Labels
from accord.resampling import Clusters, Interval, bootstrap
from accord.rubric import Question
from accord.splits import FOLDS, Split, grouped_folds

SHARES = (0.1, 0.25, 0.5, 0.75)
DRAWS = 500
SHOWN = ("rmse", "pearson", "log_loss")


@dataclass(frozen=True)
class Point:
    """One point of the curve.

    Attributes:
        share: Of the training conversations that was learned from.
        labels: How many labels that is on average, in the folds' training sides.
        values: Statistics over the held-out ratings; `None` where nothing could be learned.
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
    whole: System,
    folds: int = FOLDS,
    seed: int = 0,
    always: Collection[str] = (),
    shares: Sequence[float] = SHARES,
) -> list[Point]:
    """Predict every rating without its conversation, from growing random shares of the other conversations.

    `whole` are the predictions from all of them, on the same folds: the last point. `always` are conversations that
    are learned from and never tested.
    """
    splits = list(grouped_folds(list(rated.conversation), folds, seed, always))
    conversations = [label.target.conversation for label in labels.on(question.id)]

    def labels_of(some: Sequence[Split]) -> float:
        return sum(name in split.train for split in some for name in conversations) / len(some)

    points = []
    for share in shares:
        thinned = [_thinned(split, share, seed + place) for place, split in enumerate(splits)]
        run = held_out("curve", make, question, evidence, labels, rated, thinned)
        points.append(_point(share, labels_of(thinned), run, rated))
    return [*points, _point(1.0, labels_of(splits), whole, rated)]


def _thinned(split: Split, share: float, seed: int) -> Split:
    """The split with a random share of its training side."""
    names = sorted(split.train)
    kept = random.Random(seed).sample(names, max(1, round(share * len(names))))
    return Split(frozenset(kept), split.test)


def _point(share: float, count: float, run: System, rated: Ratings) -> Point:
    rows = np.flatnonzero(run.scored)
    if not len(rows):
        nothing = Interval(None, None)
        return Point(share, count, dict.fromkeys(SHOWN), dict.fromkeys(SHOWN, nothing))
    paired, clusters = run.paired(rated).take(rows), Clusters(rated.conversation[rows])
    intervals = {name: bootstrap(clusters, STATISTICS[name], [paired], DRAWS, 0) for name in SHOWN}
    return Point(share, count, summary(paired, SHOWN), intervals)
