"""Importance of questions for the main one (LLM-RUBRIC, appendix A), with bootstrap intervals.

    importance(i) = ∇ŷ₀·∇ŷ_i / ∇ŷ_i·∇ŷ_i

The rise of the main answer per unit of question i's answer, if a text changes in the direction in which question i's
answer rises fastest. ŷ_i is the expected answer of a new annotator to question i, by a mixed model with annotator
offsets; its gradient is over all evidence, in standard deviations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput
from accord.evidence import EvidenceTable, Ratings, ratings
from accord.learning.answer_models.contract import matrix
from accord.learning.answer_models.mixed.equations import DENSE, EffectEquations
from accord.learning.answer_models.mixed.layout import standardization
from accord.learning.answer_models.mixed.model import MixedModel
from accord.statistics import IMPORTANCE_DRAWS, Clusters, estimate_from_draws
from accord.values import Estimate, Labels, Question, ScaleKind

Floats = NDArray[np.float64]

_FEWEST = 30
_LEAST_EXPLAINED = 0.002


@dataclass(frozen=True, slots=True)
class Importance:
    """Importance of one question.

    Attributes:
        question: Id of the question.
        estimate: Units of the main scale per unit of the question's scale, with its interval.
        labels: Number of labels on the question.
    """

    question: str
    estimate: Estimate
    labels: int


def importance(
    evidence: EvidenceTable,
    labels: Labels,
    main: Question,
    questions: Sequence[Question],
    draws: int = IMPORTANCE_DRAWS,
    seed: int = 0,
) -> list[Importance]:
    """Return each question's importance for the main one, most important first.

    Questions are left out if they have fewer than thirty labels, if their answers have no order, or if the evidence
    hardly explains them. Intervals resample conversations and fit again at the variance ratios of all data.

    Raises:
        BadInput: The main question has fewer than 30 labels, or all its labels are equal.
    """
    of_main = ratings(evidence, labels, main)
    if len(of_main) < _FEWEST:
        raise BadInput(f"{len(of_main)} labels on {main.id!r} have evidence; importance needs {_FEWEST} or more")
    features = evidence.expected()
    mean, scale = standardization(matrix(features))
    Z = np.nan_to_num((matrix(features) - mean) / scale, nan=0.0)
    fits = {
        q.id: _QuestionFit(Z, ratings(evidence, labels, q))
        for q in (main, *questions)
        if _has_order(q, evidence, labels)
    }
    if main.id not in fits:
        raise BadInput(f"all labels on {main.id!r} are equal, so importance is undefined")
    whole = {name: fit.gradient(None) for name, fit in fits.items()}
    others = [name for name in fits if name != main.id and fits[name].explains(whole[name]) >= _LEAST_EXPLAINED]
    if not others:
        return []
    drawn = _drawn_gradients(fits, draws, seed)
    found = []
    for name in others:
        rises = np.array([_rise(each[main.id], each[name]) for each in drawn])
        estimate = estimate_from_draws(_rise(whole[main.id], whole[name]), rises)
        found.append(Importance(name, estimate, len(fits[name].rated)))
    return sorted(found, key=lambda each: -(each.estimate.value or 0.0))


def _drawn_gradients(fits: Mapping[str, _QuestionFit], draws: int, seed: int) -> list[dict[str, Floats]]:
    """Return the gradient of each question on each resample of the conversations."""
    names = sorted({str(name) for fit in fits.values() for name in fit.rated.group})
    resamples = [dict(zip(names, count, strict=True)) for count in Clusters(names).counts(draws, seed)]
    return [{name: fit.gradient(counts) for name, fit in fits.items()} for counts in resamples]


def _has_order(question: Question, evidence: EvidenceTable, labels: Labels) -> bool:
    if question.scale.kind is ScaleKind.NOMINAL:
        return False
    rated = ratings(evidence, labels, question)
    return len(rated) >= _FEWEST and bool(np.ptp(rated.value) > 0)


def _rise(main: Floats, other: Floats) -> float:
    length = float(other @ other)
    return float(main @ other) / length if length > 1e-12 else np.nan


class _QuestionFit:
    """One question's mixed model on all conversations, and on resampled ones."""

    def __init__(self, Z: Floats, rated: Ratings) -> None:
        self.rated = rated
        self.X = Z[rated.row]
        self.annotator, self.text = rated.annotator.astype(str), rated.text.astype(str)
        self.ratios = MixedModel(own_slopes=False).fit(self.X, rated.value, self.annotator, self.text).ratios_
        people, who = np.unique(self.annotator, return_inverse=True)
        _, first, which = np.unique(self.text, return_index=True, return_inverse=True)
        self.group_of_text = rated.group[first].astype(str)
        self.design = EffectEquations.of(self.X, rated.value, who, len(people), which, own_slopes=False)

    def explains(self, gradient: Floats) -> float:
        """Return the share of the variance of the answers that lies along a gradient."""
        return float(np.var(self.X @ gradient) / np.var(self.rated.value))

    def gradient(self, counts: dict[str, float] | None) -> Floats:
        """Return (p,) the slope of the expected answer, with conversations counted as often as they were drawn."""
        draws = np.array([1.0 if counts is None else counts[name] for name in self.group_of_text])
        of_row, p = draws[self.design.nesting.text], self.X.shape[1]
        if not of_row.any():
            return np.zeros(p)
        if len(self.design.block) > DENSE:
            return self._written_out(np.repeat(np.arange(len(of_row)), of_row.astype(int)))
        units = np.ones(len(self.design.block))
        units[1 : 1 + p] = standardization(self.X, of_row)[1]
        return self.design.drawn_effects(self.ratios, draws, units)[1 : 1 + p]

    def _written_out(self, rows: NDArray[np.intp]) -> Floats:
        """Return (p,) the same for more annotators than can be solved densely."""
        model = MixedModel(own_slopes=False, ratios=self.ratios)
        model.fit(self.X[rows], self.rated.value[rows], self.annotator[rows], self.text[rows])
        return np.asarray(model.coef_ / model.feature_scale_)
