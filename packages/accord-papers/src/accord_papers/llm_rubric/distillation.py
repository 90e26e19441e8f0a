"""Distillation (Limitations): a fast evaluator learns from answers drawn from the calibrated judge's distributions.

    y ~ p̂_a(y | judge's answers to T) for texts T with or without ratings;   fast evaluator: fit(cheap metrics of T, y)

The fast evaluator asks no model. Its prediction is the mean over evaluators of several draws (multiple imputation).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from accord.evidence import EvidenceTable
from accord.learning import Calibration, Constant, Head
from accord.values import Label, Labels, Question, Score
from accord_papers.llm_rubric.protocols import (
    DataSet,
    Predict,
    Predicted,
    cross_validated,
    fold_rows,
    learned,
    predictions,
)
from accord_papers.study import Row

SHARES = (0.2, 1.0)
"""Shares of the training groups that have ratings; the judge answered about all groups."""
DRAWS = 3
"""Draws of answers, with a fast evaluator for each."""
PER_TEXT = 3
"""Number of annotators with a drawn answer to each text, as in the paper's synthetic set."""


def drawn(head: Head, evidence: EvidenceTable, labels: Labels, question: Question, seed: int) -> Labels:
    """Return answers of random annotators to each text, drawn from the head's distribution for that annotator.

    Args:
        head: Fitted head.
        evidence: Texts to answer about; those without a prediction are left out.
        labels: Ratings with the annotators to draw for, and the groups of the texts.
        question: Question of the answers.
        seed: Random seed.
    """
    rng = np.random.default_rng(seed)
    people = sorted({str(label.annotator) for label in labels.on(question.id)})
    each = min(PER_TEXT, len(people))
    names = [str(name) for _ in evidence.targets for name in rng.choice(people, each, replace=False)]
    scores = head.predict_each(evidence.take(np.repeat(np.arange(len(evidence)), each)), names)
    return Labels(
        (
            Label(score.target, question.id, score.annotator, float(rng.choice(score.options, p=score.probabilities)))
            for score in scores
            if isinstance(score, Score)
        ),
        labels.groups,
    )


def distilled(question: Question, teacher: Head | None = None) -> Predict:
    """Return the fast evaluator that learns from a teacher.

    Args:
        question: Question to predict.
        teacher: Fitted head on the judge's answers; None fits one on the training ratings.
    """

    def predict(train: EvidenceTable, labels: Labels, test: EvidenceTable, annotators: Sequence[str]) -> Predicted:
        slow, fast = judged(train), metrics_of(train)
        head = teacher or Calibration(question, "mixed").fit(slow, labels)
        found = [
            predictions(
                Calibration(question, "mixed").fit(fast, drawn(head, slow, labels, question, seed)),
                metrics_of(test),
                annotators,
            )
            for seed in range(DRAWS)
        ]
        shares = [each.shares for each in found if each.shares is not None]
        return Predicted(np.mean([each.value for each in found], axis=0), np.mean(shares, axis=0))

    return predict


def judged(evidence: EvidenceTable) -> EvidenceTable:
    """Return the judge's answers."""
    return evidence.select([place for place, column in enumerate(evidence.columns) if column.question is not None])


def metrics_of(evidence: EvidenceTable) -> EvidenceTable:
    """Return the cheap metrics."""
    return evidence.select([place for place, column in enumerate(evidence.columns) if column.question is None])


def reading(make: Predict, part: Callable[[EvidenceTable], EvidenceTable]) -> Predict:
    """Return the system with a part of the columns."""

    def predict(train: EvidenceTable, labels: Labels, test: EvidenceTable, annotators: Sequence[str]) -> Predicted:
        return make(part(train), labels, part(test), annotators)

    return predict


def rated_in_part(make: Predict, share: float) -> Predict:
    """Return the system with the ratings of a random share of the training groups, and the evidence of all."""

    def predict(train: EvidenceTable, labels: Labels, test: EvidenceTable, annotators: Sequence[str]) -> Predicted:
        names = sorted({labels.group_of(label.target) for label in labels})
        kept = random.Random(0).sample(names, max(round(share * len(names)), 2))
        return make(train, labels.filter(frozenset(kept)), test, annotators)

    return predict


def distillation(data: DataSet, metrics: EvidenceTable, seeds: Sequence[int], teacher: Head | None = None) -> list[Row]:
    """Compare the calibrated judge, the fast evaluator learned from ratings, and the distilled one.

    Args:
        data: Ratings, and the judge's answers.
        metrics: Cheap metrics of the same texts.
        seeds: Seeds of the folds.
        teacher: Fitted head on the judge's answers to other texts, as a further teacher.
    """
    question = data.question
    both = replace(data, evidence=data.evidence.join(metrics).take(range(len(data.evidence))))
    mixed = learned(partial(Calibration, question, "mixed"))
    systems = {
        "judge, calibrated": reading(mixed, judged),
        "fast, from ratings": reading(mixed, metrics_of),
        "fast, distilled": distilled(question),
        "constant": learned(partial(Constant, question)),
    }
    rows = []
    for share in SHARES:
        found = {name: cross_validated(rated_in_part(each, share), both, seeds) for name, each in systems.items()}
        rows += [{**row, "rated": f"{share:.0%}"} for row in fold_rows("distillation", data, found)]
    if teacher is not None:
        found = {"fast, distilled": cross_validated(distilled(question, teacher), both, seeds)}
        rows += [{**row, "rated": "0%"} for row in fold_rows("distillation", data, found)]
    return rows
