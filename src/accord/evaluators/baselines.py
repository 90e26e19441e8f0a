"""What a learned evaluator has to beat: a constant, each annotator's habit, chance, and the judge's raw answer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accord.errors import BadInput
from accord.evaluators.base import Arrays, Evaluator, evaluators
from accord.evaluators.ratings import ratings
from accord.evaluators.unlearned import Unlearned
from accord.evidence.table import EvidenceTable
from accord.labels import Labels
from accord.rubric import Question
from accord.score import POPULATION, Score, Signature, Unscored, score_from
from accord.version import __version__

Floats = NDArray[np.float64]


class _LabelsAlone(Evaluator):
    """A baseline that never looks at the evidence: it knows how often each option was chosen, and by whom."""

    def __init__(self, question: Question) -> None:
        super().__init__(question)
        self.shares_: dict[str, Floats] = {}

    def fit(self, evidence: EvidenceTable, labels: Labels) -> Self:
        """Count the answers of everyone together and of each annotator.

        Raises:
            BadInput: There is no label with evidence.
        """
        rated = ratings(evidence, labels, self.question)
        if not len(rated):
            raise BadInput(f"no label on {self.question.id!r} has evidence")
        options = len(rated.options)
        everyone = np.bincount(rated.answer, minlength=options) + 1.0 / options
        self.options_ = rated.options
        self.shares_ = {_EVERYONE: everyone / everyone.sum()}
        for name in np.unique(rated.annotator.astype(str)):
            own = np.bincount(rated.answer[rated.annotator == name], minlength=options)
            # One label's worth of everyone's habit keeps a person with few labels from certainty.
            self.shares_[str(name)] = (own + self.shares_[_EVERYONE]) / (own.sum() + 1.0)
        return self

    def settings(self) -> dict[str, Any]:
        """None."""
        return {}

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` or `restore` has run."""
        return bool(self.shares_)

    @property
    def annotators(self) -> list[str]:
        """Everyone who rated something."""
        return sorted(name for name in self.shares_ if name != _EVERYONE)

    def describe(self) -> dict[str, Any]:
        """How often each option was chosen."""
        return {"method": self.method, "shares": {name: shares.tolist() for name, shares in self.shares_.items()}}

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """The shares, by name."""
        names = list(self.shares_)
        return {"names": names}, {"shares": np.stack([self.shares_[name] for name in names]), "options": self.options_}

    def restore(self, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """The inverse of `state`."""
        self.shares_ = dict(zip(card["names"], arrays["shares"], strict=True))
        self.options_ = arrays["options"]
        return self

    def _scores(self, evidence: EvidenceTable, rows: Sequence[tuple[str, Floats]]) -> list[Score | Unscored]:
        signature = Signature.of(self.method, question=self.question.id, version=__version__)
        return [
            score_from(target, who, self.options_, shares, signature)
            for target, (who, shares) in zip(evidence.targets, rows, strict=True)
        ]


_EVERYONE = ""


@evaluators.register("constant")
class Constant(_LabelsAlone):
    """Says of everything what people say on the whole."""

    method = "constant"

    def predict_each(self, evidence: EvidenceTable, annotators: Sequence[str | None]) -> list[Score | Unscored]:
        """The same distribution for every row."""
        return self._scores(evidence, [(name or POPULATION, self.shares_[_EVERYONE]) for name in annotators])


@evaluators.register("annotator-mean")
class AnnotatorMean(_LabelsAlone):
    """Says of everything what this annotator says on the whole."""

    method = "annotator-mean"

    def predict_each(self, evidence: EvidenceTable, annotators: Sequence[str | None]) -> list[Score | Unscored]:
        """Each annotator's own distribution; everyone's for a person nobody met."""
        everyone = self.shares_[_EVERYONE]
        return self._scores(
            evidence, [(name or POPULATION, self.shares_.get(name or _EVERYONE, everyone)) for name in annotators]
        )


@evaluators.register("random")
class RandomDraw(_LabelsAlone):
    """Draws an answer as people give them, without looking."""

    method = "random"

    def __init__(self, question: Question, random_state: int = 0) -> None:
        super().__init__(question)
        self.random_state = random_state

    def settings(self) -> dict[str, Any]:
        """The seed."""
        return {"random_state": self.random_state}

    def predict_each(self, evidence: EvidenceTable, annotators: Sequence[str | None]) -> list[Score | Unscored]:
        """A distribution with all its mass on the option that was drawn."""
        draws = np.random.default_rng(self.random_state).choice(
            len(self.options_), size=len(annotators), p=self.shares_[_EVERYONE]
        )
        certain = np.eye(len(self.options_))
        return self._scores(
            evidence, [(name or POPULATION, certain[i]) for name, i in zip(annotators, draws, strict=True)]
        )


class _JudgeAlone(Unlearned):
    """A baseline that repeats what the judge said to the main question, and learns nothing."""

    def fit(self, evidence: EvidenceTable, labels: Labels) -> Self:
        """Check that the judge was asked the question.

        Raises:
            BadInput: It was not.
        """
        evidence.distribution(self.question.id)
        return self

    @abstractmethod
    def _answer(self, shares: Floats) -> Floats:
        """(K,) what this baseline makes of the judge's distribution (K,)."""

    def predict_each(self, evidence: EvidenceTable, annotators: Sequence[str | None]) -> list[Score | Unscored]:
        """The judge's answer, whoever is asked for."""
        _, shares, known = evidence.distribution(self.question.id)
        signature = Signature.of(self.method, question=self.question.id, version=__version__)
        scores: list[Score | Unscored] = []
        for row, (target, name) in enumerate(zip(evidence.targets, annotators, strict=True)):
            if known[row]:
                scores.append(
                    score_from(target, name or POPULATION, self.options_, self._answer(shares[row]), signature)
                )
            else:
                reason = evidence.absences.get((target, self.question.id), "the judge gave no answer")
                scores.append(Unscored(target, name or POPULATION, reason, signature))
        return scores


@evaluators.register("judge-expected")
class JudgeExpected(_JudgeAlone):
    """The judge's distribution as it is; its value is the expected answer."""

    method = "judge-expected"

    def _answer(self, shares: Floats) -> Floats:
        return shares


@evaluators.register("judge-argmax")
class JudgeArgmax(_JudgeAlone):
    """The judge's likeliest option, with all the mass on it."""

    method = "judge-argmax"

    def _answer(self, shares: Floats) -> Floats:
        return np.asarray(np.eye(len(shares))[int(shares.argmax())])
