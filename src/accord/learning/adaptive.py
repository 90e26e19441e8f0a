"""Adaptive rubric (LLM-RUBRIC, appendix B): ask next the question that is expected to be most informative.

Missing answers of the judge are completed from conversations that it answered in full, weighted by their similarity in
the known answers. The predicted main answer varies over the completions. The best next question is the one whose answer
is expected to leave the least variance.

    V = Var_w(ŷ(x_known, h_j))        gain(q) = V - E_j[Var_w(ŷ | answer to q = h_jq)]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput
from accord.evidence import EvidenceTable
from accord.learning.answer_models.contract import missing_reason
from accord.learning.calibration.bands import bands
from accord.learning.calibration.calibration import Calibration
from accord.learning.head import Head
from accord.values import POPULATION, Score, Unscored, score_from

Floats = NDArray[np.float64]

NEEDED = "sources: [rubric], head: mixed"
LIKENESS = 0.5
"""Kernel width of the similarity between conversations, in standard deviations of an answer."""
_FEWEST = 10


@dataclass(frozen=True)
class Outlook:
    """Prediction for a conversation with some answers missing.

    Attributes:
        spread: Standard deviation of the predicted main answer over possible answers, in units of the scale.
        gains: Expected decrease of that variance by unanswered question, in squared units.
        distribution: (K,) distribution of the main answer, averaged over possible answers.
    """

    spread: float
    gains: dict[str, float]
    distribution: Floats

    @property
    def best(self) -> str | None:
        """Question to ask next, or `None` if all are answered."""
        return max(self.gains, key=lambda name: self.gains[name]) if self.gains else None


class AdaptiveRubric:
    """A fitted calibration that predicts from some of its questions."""

    def __init__(self, evaluator: Head) -> None:
        """Prepare the completions.

        Raises:
            BadInput: The head is not a calibration, or it learned from too few complete answers of a judge.
        """
        if not isinstance(evaluator, Calibration):
            raise BadInput(f"an adaptive rubric needs a calibration of a judge's answers: {NEEDED}")
        self.evaluator = evaluator
        evaluator.check_fitted()
        self.side = evaluator.reference_
        self.table = self.side.texts()
        self.places: dict[str, list[int]] = {}
        for place, column in enumerate(self.table.columns):
            if column.question is not None:
                self.places.setdefault(column.question, []).append(place)
        if not self.places:
            raise BadInput("this evaluator learned from no answers of a judge, so there is no question to ask")
        if len(self.table) < _FEWEST:
            raise BadInput(
                f"only {len(self.table)} training conversations have all answers; an adaptive rubric needs at least "
                f"{_FEWEST}. Judge the rated conversations in full, and fit again."
            )
        self._asked = np.isin(np.arange(len(self.table.columns)), [p for each in self.places.values() for p in each])
        self._scale = np.where(self.table.values.std(axis=0) > 0, self.table.values.std(axis=0), 1.0)

    @property
    def questions(self) -> list[str]:
        """Questions that can be asked, in the order of the evidence."""
        return list(self.places)

    def outlook(self, features: EvidenceTable, row: int, annotators: Sequence[str | None] = (None,)) -> Outlook:
        """Predict one row of evidence for some annotators together.

        Args:
            features: The evaluator's own columns; unanswered questions are missing.
            row: Index of the row.
            annotators: Annotators whose predictions are averaged; None stands for a new annotator.
        """
        present = features.present[row]
        # Only answers are imputed; metrics that cannot be measured stay missing.
        completed = np.where(self._asked & ~present, self.table.values, features.values[row])
        weight = self._likeness(features.values[row], present & self.table.present.all(axis=0))
        there = np.broadcast_to(self._asked | present, completed.shape)
        whole = replace(features.take([row] * len(self.table)), values=completed, present=there)
        each = [self.evaluator.distributions(whole, [name] * len(whole)) for name in annotators]
        shares = np.mean(each, axis=0)
        predicted = shares @ self.side.options
        variance = _variance(predicted, weight)
        missing = {name: places for name, places in self.places.items() if not present[places].all()}
        gains = {name: variance - self._left(predicted, weight, places) for name, places in missing.items()}
        return Outlook(float(np.sqrt(variance)), gains, np.asarray(weight @ shares))

    def _likeness(self, values: Floats, present: NDArray[np.bool_]) -> Floats:
        """Return (m,) weights of the completions, summing to 1: a Gaussian kernel of the distance in known answers."""
        if not present.any():
            return np.full(len(self.table), 1 / len(self.table))
        apart = ((self.table.values - values) / self._scale)[:, present]
        square = (apart**2).sum(axis=1) / (LIKENESS**2 * max(1.0, np.sqrt(present.sum())))
        near = np.exp(-0.5 * (square - square.min()))
        return np.asarray(near / near.sum())

    def _left(self, predicted: Floats, weight: Floats, places: list[int]) -> float:
        """Return E_j[Var_w(ŷ | the answer is h_j's)], the variance expected after one answer."""
        answers = self.table.values[:, places] / self._scale[places]
        square = ((answers[:, None] - answers[None]) ** 2).sum(axis=-1)
        near = np.exp(-0.5 * square / LIKENESS**2) * weight
        near /= near.sum(axis=1, keepdims=True)
        mean = near @ predicted
        return float(weight @ np.maximum(near @ predicted**2 - mean**2, 0.0))

    def predict(self, evidence: EvidenceTable, annotator: str | None = None) -> list[Score | Unscored]:
        """Return one score per row, averaged over possible values of missing answers.

        Raises:
            BadInput: The evidence was computed differently from the evaluator's.
            UnknownName: No label of the annotator was learned from.
        """
        features, speaker = self.evaluator.features(evidence), self.evaluator.speaker(annotator)
        who = POPULATION if speaker is None else speaker
        warnings, signature, reasons = (
            self.side.warnings(features, lacking=False), self.evaluator.signature(), features.reasons()
        )  # fmt: skip
        scores: list[Score | Unscored] = []
        for row, target in enumerate(features.targets):
            known = sum(bool(features.present[row, places].all()) for places in self.places.values())
            made = signature.with_part("asked", f"{known} of {len(self.places)}")
            if not features.present[row].any():
                scores.append(Unscored(target, who, missing_reason(reasons, target), made))
                continue
            shares = self.outlook(features, row, (speaker,)).distribution
            quantile = self.side.bands.quantile_new if speaker is None else self.side.bands.quantile
            [(low, high)] = bands(self.side.options, shares[None], quantile).tolist()
            scores.append(score_from(target, who, self.side.options, shares, made, (low, high), warnings[row]))
        return scores


def _variance(values: Floats, weight: Floats) -> float:
    middle = float(weight @ values)
    return float(weight @ (values - middle) ** 2)
