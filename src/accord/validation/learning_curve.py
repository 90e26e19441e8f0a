"""How much labelling is enough (LLM-RUBRIC, appendix J): agreement against the share of the labels learned from."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.evidence import EvidenceTable, Ratings
from accord.learning import AdaptiveRubric, Constant, Factory, Head, System, held_out
from accord.statistics import FOLDS, STATISTICS, Clusters, Paired, Split, bootstrap_all, grouped_folds
from accord.validation.comparison import Keep
from accord.validation.recommendation import Gain, gain_over
from accord.values import Estimate, Labels, Question

SHARES = (0.1, 0.25, 0.5, 0.75)
GAIN_SHARES = (0.5, 0.75)
"""Smaller shares of few labels often hold too little to learn from."""
DRAWS = 500
SHOWN = ("rmse", "pearson", "log_loss")


@dataclass(frozen=True)
class Point:
    """One point of the curve.

    Attributes:
        share: Of the training conversations that was learned from.
        labels: How many labels that is on average, in the folds' training sides.
        estimates: Statistics over the held-out ratings, undefined if nothing could be learned.
    """

    share: float
    labels: float
    estimates: dict[str, Estimate]

    def to_json(self) -> dict[str, Any]:
        """A flat row."""
        row: dict[str, Any] = {"share": self.share, "labels": self.labels}
        for name, estimate in self.estimates.items():
            row |= {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
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
    draws: int = DRAWS,
    keep: Keep = lambda name, about, work: work(),
) -> list[Point]:
    """Predict every rating without its conversation, from growing random shares of the other conversations.

    `whole` are the predictions from all of them, on the same folds: the last point. `always` are conversations that
    are learned from and never tested. Intervals take at most `DRAWS` of the `draws`; `keep` may know a share's
    predictions already.
    """
    splits = list(grouped_folds(list(rated.group), folds, seed, always))
    conversations = [labels.group_of(label.target) for label in labels.on(question.id)]

    def labels_of(some: Sequence[Split]) -> float:
        return sum(name in split.train for split in some for name in conversations) / len(some)

    points = []
    for share in shares:
        thinned = [_thinned(split, share, seed + place) for place, split in enumerate(splits)]
        sides = [[sorted(split.train), sorted(split.test)] for split in thinned]
        work = partial(held_out, "curve", make, question, evidence, labels, rated, thinned)
        points.append(_point(share, labels_of(thinned), keep("curve", ["curve", sides], work), rated, draws))
    return [*points, _point(1.0, labels_of(splits), whole, rated, draws)]


def _thinned(split: Split, share: float, seed: int) -> Split:
    """The split with a random share of its training side."""
    names = sorted(split.train)
    kept = random.Random(seed).sample(names, max(1, round(share * len(names))))
    return Split(frozenset(kept), split.test)


def _point(share: float, count: float, run: System, rated: Ratings, draws: int) -> Point:
    rows = np.flatnonzero(run.scored)
    if not len(rows):
        return Point(share, count, dict.fromkeys(SHOWN, Estimate()))
    paired, clusters = run.paired(rated).take(rows), Clusters(rated.group[rows])
    statistics = {name: STATISTICS[name] for name in SHOWN}
    return Point(share, count, bootstrap_all(clusters, statistics, [paired], min(DRAWS, draws), 0))


def gain_curve(
    make: Factory,
    question: Question,
    evidence: EvidenceTable,
    labels: Labels,
    rated: Ratings,
    splits: Sequence[Split],
    seed: int = 0,
    shares: Sequence[float] = GAIN_SHARES,
) -> list[Gain]:
    """Gain over the constant for a new annotator, from growing random shares of each fold's training groups.

    Args:
        make: Returns the unfitted evaluator.
        question: The question that is predicted.
        evidence: Evidence of everything that is rated.
        labels: All labels, with their groups.
        rated: The ratings to predict.
        splits: The folds; the last point of the curve, that from all groups, is left to the caller.
        seed: Random seed of the shares.
        shares: Shares of the groups, each in (0, 1).
    """
    gains = []
    for share in shares:
        thin = [_thinned(split, share, seed + place) for place, split in enumerate(splits)]
        ours = held_out("curve", make, question, evidence, labels, rated, thin)
        constant = held_out("constant", Constant, question, evidence, labels, rated, thin)
        count = sum(name in split.train for split in thin for name in rated.group) / len(thin)
        gains.append(gain_over(constant, ours, rated, count))
    return [gain for gain in gains if gain is not None]


Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Asked:
    """Predictions after a number of questions.

    Attributes:
        most: Questions that may be asked.
        mean: Questions that were asked on average.
        paired: The predictions beside what people said.
    """

    most: int
    mean: float
    paired: Paired


def adaptive_curve(
    make: Callable[[Question], Head],
    question: Question,
    evidence: EvidenceTable,
    labels: Labels,
    rated: Ratings,
    splits: Iterable[Split],
    most: int | None = None,
    until: float = 0.0,
) -> list[Asked]:
    """Every rating predicted after 0, 1, 2, … answers, each conversation's questions in its own order.

    Args:
        make: How to make the calibration that asks.
        question: The main question.
        evidence: With all answers.
        labels: To learn from.
        rated: To predict.
        splits: Of conversations.
        most: The most questions to ask; by default all.
        until: Ask no further once the prediction varies less than this with what is not known, in units of the scale.
    """
    shares: list[Floats] = []
    asked: list[Floats] = []
    for split in splits:
        rubric = AdaptiveRubric(
            make(question).fit(evidence.filter(split.train, labels.group_of), labels.filter(split.train))
        )
        features = rubric.evaluator.features(evidence.filter(split.test, labels.group_of))
        count = len(rubric.questions) if most is None else min(most, len(rubric.questions))
        while len(shares) <= count:
            shares.append(np.zeros((len(rated), len(rated.options))))
            asked.append(np.zeros(len(rated)))
        for row, target in enumerate(features.targets):
            mine = [place for place, label in enumerate(rated.labels) if label.target == target]
            _ask(rubric, features, row, mine, rated, until, shares, asked)
    return [
        Asked(step, float(asked[step].mean()), Paired(rated.options, rated.answer, each, each @ rated.options))
        for step, each in enumerate(shares)
    ]


def _ask(
    rubric: AdaptiveRubric,
    features: EvidenceTable,
    row: int,
    mine: list[int],
    rated: Ratings,
    until: float,
    shares: list[Floats],
    asked: list[Floats],
) -> None:
    """One conversation, question by question; once asking stops, later steps repeat what is known."""
    whole = features.take([row])
    present = whole.present.copy()
    for places in rubric.places.values():
        present[:, places] = False
    known, done = 0, False
    for step in range(len(shares)):
        part = whole.with_only(present)
        for place in mine:
            who = (rated.annotator[place],)
            shares[step][place] = shares[step - 1][place] if done else rubric.outlook(part, 0, who).distribution
            asked[step][place] = known
        if done:
            continue
        found = rubric.outlook(part, 0)
        given = {name: gain for name, gain in found.gains.items() if whole.present[:, rubric.places[name]].all()}
        if given and found.spread > until and step + 1 < len(shares):
            present = present.copy()
            present[:, rubric.places[max(given, key=lambda name: given[name])]] = True
            known += 1
        else:
            done = True
