"""What each further question of an adaptive rubric adds: agreement against questions asked, on held-out ratings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accord.agreement import Paired
from accord.evaluators.adaptive import AdaptiveRubric
from accord.evaluators.calibration import Calibration
from accord.evaluators.ratings import Ratings
from accord.evidence.table import EvidenceTable
from accord.labels import Labels
from accord.rubric import Question
from accord.splits import Split

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
    make: Callable[[Question], Calibration],
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
        rubric = AdaptiveRubric(make(question).fit(evidence.of(split.train), labels.of(split.train)))
        features = rubric.evaluator.features(evidence.of(split.test))
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
