"""Choosing settings inside the training side: an inner cross-validation, so that the outer one stays honest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from accord.evaluators.base import Evaluator
from accord.evaluators.ratings import ratings
from accord.evidence.table import EvidenceTable
from accord.labels import Labels
from accord.rubric import Question
from accord.score import Score
from accord.splits import grouped_folds

INNER_FOLDS = 4


class Learner(Protocol):
    """What can learn: an evaluator, or a choice among several."""

    def fit(self, evidence: EvidenceTable, labels: Labels, /) -> Evaluator:
        """A fitted evaluator."""
        ...


@dataclass(frozen=True)
class Choice:
    """Learns with whichever candidate predicts best on folds inside the labels it is given, by log loss.

    Inside `compare` this is nested cross-validation: no choice ever sees a conversation that it is tested on.

    Attributes:
        question: The main question.
        candidates: Makers of unfitted evaluators, the simplest first: an equal one does not replace it.
        seed: Of the inner folds.
    """

    question: Question
    candidates: Sequence[Callable[[Question], Evaluator]]
    seed: int = 0

    def fit(self, evidence: EvidenceTable, labels: Labels) -> Evaluator:
        """The best candidate, fitted on everything.

        Raises:
            BadInput: Too few rated conversations for the inner folds, or for a candidate.
        """
        losses = [self._loss(make, evidence, labels) for make in self.candidates]
        return self.candidates[int(np.argmin(losses))](self.question).fit(evidence, labels)

    def _loss(self, make: Callable[[Question], Evaluator], evidence: EvidenceTable, labels: Labels) -> float:
        """Mean -log probability of each rating, predicted without its conversation; unscored rows are left out."""
        rated = ratings(evidence, labels, self.question)
        losses = np.full(len(rated), np.inf)
        for split in grouped_folds(list(rated.conversation), INNER_FOLDS, self.seed):
            rows = np.flatnonzero([name in split.test for name in rated.conversation])
            learned = make(self.question).fit(evidence.of(split.train), labels.of(split.train))
            scores = learned.predict_each(evidence.take(rated.row[rows]), list(rated.annotator[rows]))
            for row, score in zip(rows, scores, strict=True):
                if isinstance(score, Score) and score.probabilities[rated.answer[row]] > 0:
                    losses[row] = -np.log(score.probabilities[rated.answer[row]])
        known = np.isfinite(losses)
        return float(losses[known].mean()) if known.any() else np.inf
