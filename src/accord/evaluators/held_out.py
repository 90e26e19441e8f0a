"""Predictions of ratings by evaluators that never saw their conversations: what every honest figure is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from accord.agreement import Paired
from accord.errors import AccordError
from accord.evaluators.ratings import Ratings
from accord.evidence.table import EvidenceTable
from accord.labels import Labels
from accord.rubric import Question
from accord.score import Score, Unscored
from accord.splits import Split

Floats = NDArray[np.float64]


class Predictor(Protocol):
    """What has learned: an evaluator, or a peer of a benchmark."""

    def predict_each(self, evidence: EvidenceTable, annotators: Sequence[str | None], /) -> list[Score | Unscored]:
        """One score a row, each for that row's annotator."""
        ...


class Learner(Protocol):
    """What can learn: an evaluator, or a choice among several."""

    def fit(self, evidence: EvidenceTable, labels: Labels, /) -> Predictor:
        """What was learned."""
        ...


Factory = Callable[[Question], Learner]


@dataclass(frozen=True)
class System:
    """One system's predictions of every rating, made without that rating's conversation.

    Attributes:
        name: The method.
        probabilities: (n, K); rows without a prediction are 0.
        value: (n,).
        anybody: (n,) what a person nobody has met is predicted to say; NaN without a prediction.
        scored: (n,) which rows have a prediction.
        band: (n, 2) ends of the conformal interval; NaN where a prediction comes without one.
        reasons: Why the others have none, counted.
    """

    name: str
    probabilities: Floats
    value: Floats
    anybody: Floats
    scored: NDArray[np.bool_]
    band: Floats
    reasons: Mapping[str, int] = field(default_factory=dict)

    def paired(self, rated: Ratings) -> Paired:
        """These predictions beside what people said, all rows; those not scored hold zeros."""
        return Paired(rated.options, rated.answer, self.probabilities, self.value, self.band)


def held_out(
    name: str,
    make: Factory,
    question: Question,
    evidence: EvidenceTable,
    labels: Labels,
    rated: Ratings,
    splits: Iterable[Split],
) -> System:
    """Each rating predicted by an evaluator that never saw its conversation, for its own annotator and for anybody.

    Where a method cannot learn on one side of a split, the other side's rows stay unscored with its reason.
    """
    n, options = len(rated), len(rated.options)
    probabilities, value, scored = np.zeros((n, options)), np.zeros(n), np.zeros(n, dtype=bool)
    anybody, band = np.full(n, np.nan), np.full((n, 2), np.nan)
    reasons: dict[str, int] = {}
    conversation = rated.conversation
    for split in splits:
        rows = np.flatnonzero([each in split.test for each in conversation])
        try:
            learned = make(question).fit(evidence.of(split.train), labels.of(split.train))
            tested = evidence.take(rated.row[rows])
            scores = learned.predict_each(tested, list(rated.annotator[rows]))
            strangers = learned.predict_each(tested, [None] * len(rows))
        except AccordError as error:
            reasons[str(error)] = reasons.get(str(error), 0) + len(rows)
            continue
        anybody[rows] = [score.value if isinstance(score, Score) else np.nan for score in strangers]
        for row, score in zip(rows, scores, strict=True):
            if isinstance(score, Score):
                probabilities[row], value[row], scored[row] = score.probabilities, score.value, True
                band[row] = score.band or (np.nan, np.nan)
            else:
                reasons[score.reason] = reasons.get(score.reason, 0) + 1
    return System(name, probabilities, value, anybody, scored, band, reasons)
