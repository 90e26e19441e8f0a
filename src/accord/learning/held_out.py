"""Predictions of ratings by evaluators that never saw their conversations: what every honest figure is made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from accord.edges import AccordError
from accord.evidence import EvidenceTable, Ratings, ratings
from accord.learning.head import Head
from accord.statistics import INNER_FOLDS, Paired, Split, grouped_folds
from accord.values import Labels, Question, Score, Unscored

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
        strangers: (n, K) the distribution for a person nobody has met; rows without a prediction are 0.
        reasons: Why the others have none, counted.
        choices: What the system chose inside the folds (`Head.choices`), with the number of folds.
    """

    name: str
    probabilities: Floats
    value: Floats
    anybody: Floats
    scored: NDArray[np.bool_]
    band: Floats
    strangers: Floats
    reasons: Mapping[str, int] = field(default_factory=dict)
    choices: Mapping[str, int] = field(default_factory=dict)

    def with_rows(self, other: System, rated: Ratings, split: Split) -> System:
        """These predictions, with another's of the ratings that a split tests."""
        mine = np.array([name in split.test for name in rated.group], dtype=bool)
        reasons, choices = (
            Counter(one) + Counter(two) for one, two in ((self.reasons, other.reasons), (self.choices, other.choices))
        )
        wide = mine[:, None]
        return System(
            self.name, np.where(wide, other.probabilities, self.probabilities), np.where(mine, other.value, self.value),
            np.where(mine, other.anybody, self.anybody), np.where(mine, other.scored, self.scored),
            np.where(wide, other.band, self.band), np.where(wide, other.strangers, self.strangers), reasons, choices,
        )  # fmt: skip

    def paired(self, rated: Ratings) -> Paired:
        """These predictions beside what people said, all rows; those not scored hold zeros."""
        return Paired(rated.options, rated.answer, self.probabilities, self.value, self.band)

    def paired_new(self, rated: Ratings) -> Paired:
        """Predictions for a new annotator next to the ratings, all rows; a row without a prediction has value NaN.

        `accord score` makes this prediction unless an annotator is named.
        """
        return Paired(rated.options, rated.answer, self.strangers, self.anybody)


@dataclass(frozen=True)
class HeldOut:
    """What an evaluator said of ratings that it had not learned from: what its calls are worth on new ones.

    Attributes:
        own: (n, K) the distribution for the rating's own annotator.
        anybody: (n, K) that for a person nobody has met.
        answer: (n,) index of the option that was chosen.
        group: (n,) number of the group.
        options: (K,) of the question.
    """

    own: Floats
    anybody: Floats
    answer: NDArray[np.intp]
    group: NDArray[np.intp]
    options: Floats

    @classmethod
    def of(cls, system: System, rated: Ratings) -> HeldOut:
        """The ratings that a system scored."""
        rows = np.flatnonzero(system.scored & (system.strangers.sum(axis=1) > 0))
        group = np.unique(rated.group[rows].astype(str), return_inverse=True)[1].astype(np.intp)
        return cls(system.probabilities[rows], system.strangers[rows], rated.answer[rows], group, rated.options)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The same as arrays to save."""
        return {name: np.asarray(array) for name, array in vars(self).items()}

    @classmethod
    def restored(cls, arrays: Mapping[str, NDArray[Any]]) -> HeldOut:
        """The inverse of `arrays`.

        Raises:
            ValueError: They do not fit each other.
        """
        found = cls(**{name: arrays[name] for name in cls.__dataclass_fields__})
        n, options = len(found.answer), len(found.options)
        if found.own.shape != (n, options) or found.anybody.shape != (n, options) or found.group.shape != (n,):
            raise ValueError("held-out predictions of another shape")
        if found.answer.dtype.kind not in "iu" or ((found.answer < 0) | (found.answer >= options)).any():
            raise ValueError("held-out answers that are no options")
        return found


def unscored(name: str, rated: Ratings, split: Split | None = None, reason: str = "") -> System:
    """No prediction of any rating; where a split's side could not be learned from, with the reason."""
    n, lost = len(rated), 0 if split is None else sum(each in split.test for each in rated.group)
    nobody, band = np.full(n, np.nan), np.full((n, 2), np.nan)
    none, nothing = np.zeros(n, dtype=bool), np.zeros((n, len(rated.options)))
    return System(name, nothing, np.zeros(n), nobody, none, band, nothing, {reason: lost} if lost else {})


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
    anybody, band, shares = np.full(n, np.nan), np.full((n, 2), np.nan), np.zeros((n, options))
    reasons: dict[str, int] = {}
    choices: Counter[str] = Counter()
    group = rated.group
    for split in splits:
        rows = np.flatnonzero([each in split.test for each in group])
        try:
            learned = make(question).fit(evidence.filter(split.train, labels.group_of), labels.filter(split.train))
            tested = evidence.take(rated.row[rows])
            scores = learned.predict_each(tested, list(rated.annotator[rows]))
            strangers = learned.predict_each(tested, [None] * len(rows))
        except AccordError as error:
            reasons[str(error)] = reasons.get(str(error), 0) + len(rows)
            continue
        choices.update(getattr(learned, "choices", tuple)())
        for row, score, stranger in zip(rows, scores, strangers, strict=True):
            if isinstance(stranger, Score):
                anybody[row], shares[row] = stranger.value, stranger.probabilities
            if isinstance(score, Score):
                probabilities[row], value[row], scored[row] = score.probabilities, score.value, True
                band[row] = score.band or (np.nan, np.nan)
            else:
                reasons[score.reason] = reasons.get(score.reason, 0) + 1
    return System(name, probabilities, value, anybody, scored, band, shares, reasons, choices)


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
    candidates: Sequence[Callable[[Question], Head]]
    seed: int = 0

    def fit(self, evidence: EvidenceTable, labels: Labels) -> Head:
        """The best candidate, fitted on everything.

        Raises:
            BadInput: Too few rated conversations for the inner folds, or for every candidate.
        """
        losses = [self._loss(make, evidence, labels) for make in self.candidates]
        return self.candidates[int(np.argmin(losses))](self.question).fit(evidence, labels)

    def _loss(self, make: Callable[[Question], Head], evidence: EvidenceTable, labels: Labels) -> float:
        """Mean -log probability of each rating, predicted without its conversation; unscored rows are left out."""
        rated = ratings(evidence, labels, self.question)
        splits = grouped_folds(list(rated.group), INNER_FOLDS, self.seed)
        found = held_out("candidate", make, self.question, evidence, labels, rated, splits)
        chance = found.probabilities[np.arange(len(rated)), rated.answer]
        return float(-np.log(chance[chance > 0]).mean()) if (chance > 0).any() else np.inf
