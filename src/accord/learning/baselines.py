"""What evaluators share that repeat somebody else's answer: nothing is learned, nothing is saved."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from accord.evidence import Arrays, EvidenceTable, options_of, ratings
from accord.learning.head import Head, heads
from accord.methods import LOWEST_SCORE, NOT_ASSESSED, SCORE
from accord.values import (
    HIGHEST,
    LOWEST,
    POPULATION,
    BadInput,
    Labels,
    Question,
    Score,
    Signature,
    Unscored,
    score_from,
)
from accord.version import __version__


class Unlearned(Head):
    """A baseline without anything to learn: it imitates no one, and is always ready."""

    def __init__(self, question: Question) -> None:
        super().__init__(question)
        self.options_ = options_of(question)

    @property
    def is_fitted(self) -> bool:
        """Always: there is nothing to learn."""
        return True

    @property
    def annotators(self) -> list[str]:
        """Nobody."""
        return []

    def describe(self) -> dict[str, Any]:
        """The method's name."""
        return {"method": self.method}

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Nothing."""
        return {}, {}

    def restore(self, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """Nothing to restore."""
        return self


Floats = NDArray[np.float64]


class _LabelsAlone(Head):
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


@heads.register("constant")
class Constant(_LabelsAlone):
    """Says of everything what people say on the whole."""

    method = "constant"

    def predict_each(self, evidence: EvidenceTable, annotators: Sequence[str | None]) -> list[Score | Unscored]:
        """The same distribution for every row."""
        return self._scores(evidence, [(name or POPULATION, self.shares_[_EVERYONE]) for name in annotators])


@heads.register("annotator-mean")
class AnnotatorMean(_LabelsAlone):
    """Says of everything what this annotator says on the whole."""

    method = "annotator-mean"

    def predict_each(self, evidence: EvidenceTable, annotators: Sequence[str | None]) -> list[Score | Unscored]:
        """Each annotator's own distribution; everyone's for a person nobody met."""
        everyone = self.shares_[_EVERYONE]
        return self._scores(
            evidence, [(name or POPULATION, self.shares_.get(name or _EVERYONE, everyone)) for name in annotators]
        )


@heads.register("random")
class RandomDraw(_LabelsAlone):
    """Draws an answer as people give them, without looking."""

    method = "random"

    def __init__(self, question: Question, random_state: int = 0) -> None:
        super().__init__(question)
        self.random_state = random_state

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


@heads.register("judge-expected")
class JudgeExpected(_JudgeAlone):
    """The judge's distribution as it is; its value is the expected answer."""

    method = "judge-expected"

    def _answer(self, shares: Floats) -> Floats:
        return shares


@heads.register("judge-argmax")
class JudgeArgmax(_JudgeAlone):
    """The judge's likeliest option, with all the mass on it."""

    method = "judge-argmax"

    def _answer(self, shares: Floats) -> Floats:
        return np.asarray(np.eye(len(shares))[int(shares.argmax())])


class _TurnScores(Unlearned):
    """Repeats what a model said of turns, moved to the question's scale, and learns nothing."""

    column: ClassVar[str]

    def fit(self, evidence: EvidenceTable, labels: Labels) -> Self:
        """Check that turns were scored.

        Raises:
            BadInput: They were not.
        """
        self._place(evidence)
        return self

    def predict_each(self, evidence: EvidenceTable, annotators: Sequence[str | None]) -> list[Score | Unscored]:
        """The turns' score, between the two nearest options, whoever is asked for."""
        place = self._place(evidence)
        signature = Signature.of(self.method, question=self.question.id, version=__version__)
        found: list[Score | Unscored] = []
        for row, (target, name) in enumerate(zip(evidence.targets, annotators, strict=True)):
            if evidence.present[row, place]:
                shares = self._shares(float(evidence.values[row, place]))
                found.append(score_from(target, name or POPULATION, self.options_, shares, signature))
            else:
                found.append(Unscored(target, name or POPULATION, NOT_ASSESSED, signature))
        return found

    def _place(self, evidence: EvidenceTable) -> int:
        names = [column.name for column in evidence.columns]
        if self.column not in names:
            raise BadInput(
                f"no turn has an overall score ({self.column}); have them assessed: accord judge --source issues"
            )
        return names.index(self.column)

    def _shares(self, score: float) -> Any:
        """(K,) all mass on the two options around where 1 to 5 lies on the question's scale."""
        options = self.options_
        at = options[0] + (score - LOWEST) / (HIGHEST - LOWEST) * (options[-1] - options[0])
        above = int(np.clip(np.searchsorted(options, at), 1, len(options) - 1))
        share = (at - options[above - 1]) / (options[above] - options[above - 1])
        shares = np.zeros(len(options))
        shares[above - 1], shares[above] = 1.0 - share, share
        return shares


@heads.register("mean-turn")
class MeanTurn(_TurnScores):
    """Says of a dialogue the mean of what a model said of its turns."""

    method, column = "mean-turn", SCORE


@heads.register("lowest-turn")
class LowestTurn(_TurnScores):
    """Says of a dialogue the lowest of what a model said of its turns: one critical error spoils it."""

    method, column = "lowest-turn", LOWEST_SCORE
