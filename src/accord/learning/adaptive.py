"""The adaptive rubric (LLM-RUBRIC, appendix B): ask next what is expected to say most about the main answer.

What the judge might answer is guessed from conversations that it answered in full: each of them completes the answers
that are missing, with a weight that grows with its likeness in what is known. The predicted main answer then varies
over the completions; the best next question is the one after whose answer it is expected to vary least.

    V = Var_w(ŷ(x_known, h_j))        gain(q) = V - E_j[Var_w(ŷ | answer to q = h_jq)]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput
from accord.evidence import EvidenceTable
from accord.learning.answer_model import missing_reason
from accord.learning.calibration import Calibration
from accord.learning.conformal import bands
from accord.learning.head import Head
from accord.values import POPULATION, Score, Unscored, score_from

Floats = NDArray[np.float64]

NEEDED = "sources: [rubric], head: mixed"
LIKENESS = 0.5
"""Width of the likeness between conversations, in standard deviations of an answer."""
_FEWEST = 10


@dataclass(frozen=True)
class Outlook:
    """What is expected of a conversation whose answers are known in part.

    Attributes:
        spread: How far the predicted main answer varies with what is not known, a standard deviation in units of
            the scale.
        gains: For each question that is not answered, the expected fall of that variance; in units squared.
        distribution: (K,) of the main answer, averaged over what the missing answers might be.
    """

    spread: float
    gains: dict[str, float]
    distribution: Floats

    @property
    def best(self) -> str | None:
        """The question to ask next; `None` where all are answered."""
        return max(self.gains, key=lambda name: self.gains[name]) if self.gains else None


class AdaptiveRubric:
    """A fitted calibration that can do with some of its questions."""

    def __init__(self, evaluator: Head) -> None:
        """Prepare.

        Raises:
            BadInput: The head cannot do with some answers, or it learned from no answers of a judge, or from too few
                complete ones.
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
            raise BadInput("this evaluator learned from no answers of a judge; an adaptive rubric has nothing to ask")
        if len(self.table) < _FEWEST:
            raise BadInput(
                f"{len(self.table)} conversations with every answer were learned from; an adaptive rubric needs "
                f"{_FEWEST} or more. Judge what is rated in full, and fit again."
            )
        self._asked = np.isin(np.arange(len(self.table.columns)), [p for each in self.places.values() for p in each])
        self._scale = np.where(self.table.values.std(axis=0) > 0, self.table.values.std(axis=0), 1.0)

    @property
    def questions(self) -> list[str]:
        """What can be asked, in the order of the evidence."""
        return list(self.places)

    def outlook(self, features: EvidenceTable, row: int, annotators: Sequence[str | None] = (None,)) -> Outlook:
        """What is expected of one row of evidence, for some annotators together.

        Args:
            features: The evaluator's own columns; unanswered questions are missing.
            row: Which row.
            annotators: Whose answers are predicted, averaged; by default a person's nobody has met.
        """
        present = features.present[row]
        # Only answers are guessed: a metric that cannot be measured stays missing.
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
        """(m,) weights of the completions, summing to 1: a Gaussian of the distance in what is known."""
        if not present.any():
            return np.full(len(self.table), 1 / len(self.table))
        apart = ((self.table.values - values) / self._scale)[:, present]
        square = (apart**2).sum(axis=1) / (LIKENESS**2 * max(1.0, np.sqrt(present.sum())))
        near = np.exp(-0.5 * (square - square.min()))
        return np.asarray(near / near.sum())

    def _left(self, predicted: Floats, weight: Floats, places: list[int]) -> float:
        """E_j[Var_w(ŷ | the answer is h_j's)]: the variance that is expected to be left after one answer."""
        answers = self.table.values[:, places] / self._scale[places]
        square = ((answers[:, None] - answers[None]) ** 2).sum(axis=-1)
        near = np.exp(-0.5 * square / LIKENESS**2) * weight
        near /= near.sum(axis=1, keepdims=True)
        mean = near @ predicted
        return float(weight @ np.maximum(near @ predicted**2 - mean**2, 0.0))

    def predict(self, evidence: EvidenceTable, annotator: str | None = None) -> list[Score | Unscored]:
        """One score a row, whose answers are known in part; the missing ones are averaged over.

        Raises:
            BadInput: The evidence is made otherwise than the evaluator's.
            UnknownName: The annotator gave no label that was learned from.
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
            [(low, high)] = bands(self.side.options, shares[None], self.side.quantile).tolist()
            scores.append(score_from(target, who, self.side.options, shares, made, (low, high), warnings[row]))
        return scores


def _variance(values: Floats, weight: Floats) -> float:
    middle = float(weight @ values)
    return float(weight @ (values - middle) ** 2)
