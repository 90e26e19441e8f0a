"""Answer model `balanced`: logistic regression with class weights, for rare faults of steps.

A question with two options, such as "is this step right?", has few wrong answers of each kind. A regression that keeps
their frequency calls a step wrong only if several columns agree, so faults that one column shows are missed. Here both
options weigh the same: a score is the probability of the upper option if both were equally frequent. The middle of the
scale is the threshold for calls; the mean of the scores is not an estimate of the mean rating.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Self

import numpy as np

from accord.edges import BadInput
from accord.evidence import Arrays, EvidenceTable, Ratings, by_row
from accord.learning.answer_models.binary import Design
from accord.learning.answer_models.contract import (
    AnswerModel,
    Floats,
    card_names,
    card_number,
    fold_masks,
    inner_folds,
)
from accord.learning.answer_models.registry import AnswerModelSettings, answer_models
from accord.learning.calibration.heads import answer_model_head
from accord.learning.head import heads
from accord.values import Labels

NAME = "balanced"
FEWEST = 5
"""Smallest number of ratings of each option."""
STRENGTH = 1.0
"""Inverse strength of the ridge penalty on standardized columns."""


class BalancedAnswers(AnswerModel):
    """Probability of the upper of two options if both were equally frequent."""

    name = NAME
    uses_other_questions = False
    differs_by_annotator = False

    def fit_predict(self, features: EvidenceTable, rated: Ratings, labels: Labels) -> Floats:
        """Learn from the ratings, and predict each without its fold; labels of other questions are ignored.

        Raises:
            BadInput: The question has more than two options, or an option has too few ratings.
        """
        if len(rated.options) != 2:
            raise BadInput(f"the head {NAME!r} needs a question with two options; this one has {len(rated.options)}")
        upper = rated.answer == 1
        least = min(int(upper.sum()), int((~upper).sum()))
        if least < FEWEST:
            raise BadInput(f"the head {NAME!r} needs {FEWEST} ratings of each option; one has {least}. Collect more "
                           "labels, or choose another head, such as ridge")  # fmt: skip
        self.people_ = sorted({str(name) for name in rated.annotator})
        unseen = np.empty(len(rated))
        for train, test in fold_masks(inner_folds(rated)):
            self._fit_part(features, rated.take(np.flatnonzero(train)))
            unseen[test] = self._chances(features.take(rated.row[test]))
        self._fit_part(features, rated)
        return np.column_stack([1.0 - unseen, unseen])

    def _fit_part(self, features: EvidenceTable, rated: Ratings) -> None:
        from sklearn.linear_model import LogisticRegression

        self.design_ = Design.fit(features.take(np.unique(rated.row)), "")
        inputs, upper = self.design_.of(features.take(rated.row)), rated.answer == 1
        if upper.all() or not upper.any() or not inputs.shape[1]:
            self.coef_, self.intercept_ = np.zeros(inputs.shape[1]), 0.0
            return
        model = LogisticRegression(C=STRENGTH, class_weight="balanced", max_iter=1000).fit(inputs, upper)
        self.coef_, self.intercept_ = model.coef_[0].astype(float), float(model.intercept_[0])

    def _chances(self, features: EvidenceTable) -> Floats:
        logit = by_row(self.design_.of(features), self.coef_) + self.intercept_
        return np.asarray(1.0 / (1.0 + np.exp(-np.clip(logit, -30, 30))))

    def distributions(self, features: EvidenceTable, annotators: Sequence[str | None]) -> Floats:
        """Return (n, 2) the probabilities of both options, the same for every annotator."""
        chances = self._chances(features)
        return np.column_stack([1.0 - chances, chances])

    @property
    def annotators(self) -> list[str]:
        """Sorted names of the annotators that the model learned from; all get the same predictions."""
        return self.people_

    def describe(self) -> dict[str, Any]:
        """Return the weights per standard deviation."""
        return {"intercept": self.intercept_, "weights": self.coef_.tolist()}

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the learned state as JSON and arrays."""
        arrays = {f"design.{name}": array for name, array in vars(self.design_).items()}
        return {"intercept": self.intercept_, "people": self.people_}, {**arrays, "coef": self.coef_}

    def restore(self, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """Restore the learned state from `state`."""
        self.design_ = Design(**{each.name: arrays[f"design.{each.name}"] for each in fields(Design)})
        self.coef_ = np.asarray(arrays["coef"], dtype=float)
        self.intercept_, self.people_ = card_number(card, "intercept"), card_names(card, "people")
        return self


def _make(settings: AnswerModelSettings) -> BalancedAnswers:
    """Logistic regression with class weights, for rare faults of steps."""
    return BalancedAnswers()


answer_models.register(NAME)(_make)
heads.register(NAME)(
    answer_model_head(NAME, "Logistic regression with class weights, for rare faults: two options of equal weight.")
)
