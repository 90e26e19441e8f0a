"""Choosing settings inside the training side: an inner cross-validation, so that the outer one stays honest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from accord.evaluators.base import Evaluator
from accord.evaluators.held_out import held_out
from accord.evaluators.ratings import ratings
from accord.evidence.table import EvidenceTable
from accord.labels import Labels
from accord.rubric import Question
from accord.splits import INNER_FOLDS, grouped_folds


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
            BadInput: Too few rated conversations for the inner folds, or for every candidate.
        """
        losses = [self._loss(make, evidence, labels) for make in self.candidates]
        return self.candidates[int(np.argmin(losses))](self.question).fit(evidence, labels)

    def _loss(self, make: Callable[[Question], Evaluator], evidence: EvidenceTable, labels: Labels) -> float:
        """Mean -log probability of each rating, predicted without its conversation; unscored rows are left out."""
        rated = ratings(evidence, labels, self.question)
        splits = grouped_folds(list(rated.conversation), INNER_FOLDS, self.seed)
        found = held_out("candidate", make, self.question, evidence, labels, rated, splits)
        chance = found.probabilities[np.arange(len(rated)), rated.answer]
        return float(-np.log(chance[chance > 0]).mean()) if (chance > 0).any() else np.inf
