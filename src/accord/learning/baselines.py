"""Baselines: heads that repeat the ratings' or the judge's answers, or fit a line on one column."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput
from accord.evidence import Arrays, Column, EvidenceTable, Ratings, by_row, options_of, ratings
from accord.learning.head import Head, heads
from accord.methods import LOWEST_SCORE, NOT_ASSESSED, SCORE
from accord.values import (
    MAX_SCORE,
    MIN_SCORE,
    POPULATION,
    Labels,
    Question,
    Score,
    Signature,
    Unscored,
    score_from,
)
from accord.version import __version__


class Unlearned(Head):
    """A baseline without learned parameters."""

    def __init__(self, question: Question) -> None:
        super().__init__(question)
        self.options_ = options_of(question)

    @property
    def is_fitted(self) -> bool:
        """Always True, because this baseline learns nothing."""
        return True

    @property
    def annotators(self) -> list[str]:
        """Empty: the prediction is the same for every annotator."""
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


class LabelsAlone(Head):
    """Baseline that ignores the evidence and counts the options that each annotator chose."""

    def __init__(self, question: Question) -> None:
        super().__init__(question)
        self.shares_: dict[str, Floats] = {}

    def fit(self, evidence: EvidenceTable, labels: Labels) -> Self:
        """Count the answers of all annotators together and of each annotator.

        Raises:
            BadInput: No label has evidence.
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
            # A pseudo-label with the overall shares keeps annotators with few labels from certainty.
            self.shares_[str(name)] = (own + self.shares_[_EVERYONE]) / (own.sum() + 1.0)
        return self

    @property
    def is_fitted(self) -> bool:
        """True after `fit` or `restore`."""
        return bool(self.shares_)

    @property
    def everyone(self) -> Floats:
        """(K,) shares of all training ratings."""
        return self.shares_[_EVERYONE]

    @property
    def annotators(self) -> list[str]:
        """Sorted names of the annotators of the training ratings."""
        return sorted(name for name in self.shares_ if name != _EVERYONE)

    def describe(self) -> dict[str, Any]:
        """Return the share of each option by annotator."""
        return {"method": self.method, "shares": {name: shares.tolist() for name, shares in self.shares_.items()}}

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the shares by annotator."""
        names = list(self.shares_)
        return {"names": names}, {"shares": np.stack([self.shares_[name] for name in names]), "options": self.options_}

    def restore(self, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """Restore the learned state from `state`."""
        self.shares_ = dict(zip(card["names"], arrays["shares"], strict=True))
        self.options_ = arrays["options"]
        return self

    def _scores(
        self, evidence: EvidenceTable, rows: Sequence[tuple[str, Floats]], warnings: Sequence[str | None] | None = None
    ) -> list[Score | Unscored]:
        signature = Signature.of(self.method, question=self.question.id, version=__version__)
        return [
            score_from(target, who, self.options_, shares, signature, warning=warning)
            for target, (who, shares), warning in zip(
                evidence.targets, rows, warnings or [None] * len(rows), strict=True
            )
        ]


_EVERYONE = ""


@heads.register("constant")
class Constant(LabelsAlone):
    """Predicts the distribution of all training ratings for every row."""

    method = "constant"

    def predict_each(self, evidence: EvidenceTable, annotators: Sequence[str | None]) -> list[Score | Unscored]:
        """Return the same distribution for every row."""
        return self._scores(evidence, [(name or POPULATION, self.shares_[_EVERYONE]) for name in annotators])


@heads.register("annotator-mean")
class AnnotatorMean(LabelsAlone):
    """Predicts the distribution of the annotator's own training ratings for every row."""

    method = "annotator-mean"

    def predict_each(self, evidence: EvidenceTable, annotators: Sequence[str | None]) -> list[Score | Unscored]:
        """Return each annotator's own distribution; a new annotator gets the distribution of all ratings."""
        everyone = self.shares_[_EVERYONE]
        return self._scores(
            evidence, [(name or POPULATION, self.shares_.get(name or _EVERYONE, everyone)) for name in annotators]
        )


@heads.register("random")
class RandomDraw(LabelsAlone):
    """Draws an option at random with the shares of the training ratings."""

    method = "random"

    def __init__(self, question: Question, random_state: int = 0) -> None:
        super().__init__(question)
        self.random_state = random_state

    def predict_each(self, evidence: EvidenceTable, annotators: Sequence[str | None]) -> list[Score | Unscored]:
        """Return distributions with all mass on the drawn option."""
        draws = np.random.default_rng(self.random_state).choice(
            len(self.options_), size=len(annotators), p=self.shares_[_EVERYONE]
        )
        certain = np.eye(len(self.options_))
        return self._scores(
            evidence, [(name or POPULATION, certain[i]) for name, i in zip(annotators, draws, strict=True)]
        )


class _JudgeAlone(Unlearned):
    """A baseline that repeats the judge's answer and learns no weights.

    If the judge did not answer the main question, the baseline reads the question whose answers correlate most with
    the training ratings. Its scale is stretched linearly, and reversed if the correlation is negative.
    """

    def __init__(self, question: Question) -> None:
        super().__init__(question)
        self.answered_ = question.id
        self.is_reversed_ = False

    def fit(self, evidence: EvidenceTable, labels: Labels) -> Self:
        """Find the judge's question to read.

        Raises:
            BadInput: The evidence holds no answers of a judge, or none that vary with the ratings.
        """
        if any(column.question == self.question.id for column in evidence.columns) or self.question.compares:
            evidence.distribution(self.question.id)
            return self
        answers = evidence.expected()
        judged = [place for place, column in enumerate(answers.columns) if column.question is not None]
        result = closest_column(answers, ratings(evidence, labels, self.question), judged)
        if result is None:
            raise BadInput(f"no judge answered {self.question.id!r}, or a question that varies with its ratings")
        self.answered_, self.is_reversed_ = str(answers.columns[result.place].question), result.slope < 0
        return self

    def choices(self) -> list[str]:
        """Return the judge's question that is read, if it differs from the main question."""
        if self.answered_ == self.question.id:
            return []
        return [f"the judge's answer to {self.answered_!r}{', reversed' if self.is_reversed_ else ''}"]

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the judge's question that is read."""
        return {"answered": self.answered_, "reversed": self.is_reversed_}, {}

    def restore(self, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """Restore the learned state from `state`."""
        self.answered_, self.is_reversed_ = str(card["answered"]), bool(card["reversed"])
        return self

    @abstractmethod
    def _answer(self, shares: Floats) -> Floats:
        """Return the prediction (K,) for the judge's distribution (K,)."""

    def predict_each(self, evidence: EvidenceTable, annotators: Sequence[str | None]) -> list[Score | Unscored]:
        """Return the judge's answer, which is the same for every annotator."""
        options, shares, known = evidence.distribution(self.answered_)
        if self.answered_ != self.question.id:
            shares = shares @ _stretched(np.array(options), self.options_, self.is_reversed_)
        signature = Signature.of(self.method, question=self.question.id, version=__version__)
        scores: list[Score | Unscored] = []
        for row, (target, name) in enumerate(zip(evidence.targets, annotators, strict=True)):
            if known[row]:
                scores.append(
                    score_from(target, name or POPULATION, self.options_, self._answer(shares[row]), signature)
                )
            else:
                reason = evidence.absences.get((target, self.answered_), "the judge gave no answer")
                scores.append(Unscored(target, name or POPULATION, reason, signature))
        return scores


def _stretched(own: Floats, options: Floats, is_reversed: bool) -> Floats:
    """(K', K) matrix that moves mass from a judge's options (K',) to the two nearest of the question's options (K,)."""
    low, high = (own.max(), own.min()) if is_reversed else (own.min(), own.max())
    if low == high:
        raise BadInput("the judge's question has a single option")
    at = options[0] + (own - low) / (high - low) * (options[-1] - options[0])
    return np.array([_between(place, options) for place in at])


def _between(at: float, options: Floats) -> Floats:
    """Return (K,) all mass on the two options around a position, so that the mean equals the position."""
    above = int(np.clip(np.searchsorted(options, at), 1, len(options) - 1))
    share = float(np.clip((at - options[above - 1]) / (options[above] - options[above - 1]), 0.0, 1.0))
    shares = np.zeros(len(options))
    shares[above - 1], shares[above] = 1.0 - share, share
    return shares


@heads.register("judge-expected")
class JudgeExpected(_JudgeAlone):
    """The judge's distribution, unchanged; its value is the expected answer."""

    method = "judge-expected"

    def _answer(self, shares: Floats) -> Floats:
        return shares


@heads.register("judge-argmax")
class JudgeArgmax(_JudgeAlone):
    """The judge's most probable option, with all the mass on it."""

    method = "judge-argmax"

    def _answer(self, shares: Floats) -> Floats:
        return np.asarray(np.eye(len(shares))[int(shares.argmax())])


class ColumnLine(NamedTuple):
    """Least-squares line of the ratings on one column: column index, slope, and means of column and ratings."""

    place: int
    slope: float
    center: float
    mean: float


def closest_column(table: EvidenceTable, rated: Ratings, places: Iterable[int]) -> ColumnLine | None:
    """Return the column that explains most of the ratings' variance; ratings without a value count as unexplained."""
    best, most = None, 0.0
    for place in places:
        rows = np.flatnonzero(table.present[rated.row, place])
        x, y = table.values[rated.row[rows], place], rated.value[rows]
        if len(rows) < _LEAST_RATINGS or np.ptp(x) == 0 or np.ptp(y) == 0:
            continue
        slope, r = float(np.cov(x, y)[0, 1] / np.var(x, ddof=1)), float(np.corrcoef(x, y)[0, 1])
        if r * r * len(rows) > most:
            best, most = ColumnLine(place, slope, float(x.mean()), float(y.mean())), r * r * len(rows)
    return best


_LEAST_RATINGS = 3
"""Minimum number of points; a line through two points always fits exactly."""


@heads.register("best-column")
class BestColumn(LabelsAlone):
    """Least squares on the single evidence column that explains most of the ratings' variance.

    The distribution is the one closest to all ratings' (in Kullback-Leibler divergence) that has the predicted mean.
    A conversation without that column gets the mean of all ratings.
    """

    method = "best-column"
    nothing: ClassVar[str] = "no feature"

    def __init__(self, question: Question) -> None:
        super().__init__(question)
        self.columns_: tuple[Column, ...] = ()
        self.line_ = (0.0, 0.0, 0.0)

    def fit(self, evidence: EvidenceTable, labels: Labels) -> Self:
        """Choose the column and fit the line.

        Raises:
            BadInput: No label has evidence, or no column varies with the ratings.
        """
        super().fit(evidence, labels)
        answers, rated = evidence.expected(), ratings(evidence, labels, self.question)
        result = closest_column(answers, rated, self._places(answers, rated))
        if result is None:
            raise BadInput(f"{self.nothing} varies with the ratings of {self.question.id!r}")
        chosen = answers.columns[result.place]
        self.columns_ = tuple(
            column for column in evidence.columns if chosen.name in (column.name, column.option and column.question)
        )
        self.line_ = (result.slope, result.center, result.mean)
        return self

    def _places(self, answers: EvidenceTable, rated: Ratings) -> Sequence[int]:
        """Return the columns to choose from."""
        return range(len(answers.columns))

    @property
    def columns(self) -> tuple[Column, ...] | None:
        """The chosen column, or the options of the chosen question."""
        return self.columns_ or None

    @property
    def annotators(self) -> list[str]:
        """Empty: the prediction is the same for every annotator."""
        return []

    def choices(self) -> list[str]:
        """The chosen column."""
        return [self._name]

    @property
    def _name(self) -> str:
        first = self.columns_[0]
        return first.name if first.option is None else str(first.question)

    def describe(self) -> dict[str, Any]:
        """Return the chosen column and its slope."""
        return {"method": self.method, "column": self._name, "slope": self.line_[0]}

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the shares, the column and the line."""
        card, arrays = super().state()
        return {**card, "columns": [asdict(column) for column in self.columns_], "line": list(self.line_)}, arrays

    def restore(self, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """Restore the learned state from `state`."""
        slope, center, mean = map(float, card["line"])
        self.columns_, self.line_ = tuple(Column(**column) for column in card["columns"]), (slope, center, mean)
        return super().restore(card, arrays)

    def predict_each(self, evidence: EvidenceTable, annotators: Sequence[str | None]) -> list[Score | Unscored]:
        """Return the line's prediction for every row, which is the same for every annotator."""
        table = evidence.align(self.columns_).expected()
        slope, center, mean = self.line_
        base = self.shares_[_EVERYONE]
        at = np.where(table.present[:, 0], mean + slope * (table.values[:, 0] - center), base @ self.options_)
        rows = tilted(base, self.options_, at)
        names = (name or POPULATION for name in annotators)
        missing = f"lacks {self._name}: this is the distribution of all ratings"
        warnings = [None if known else missing for known in table.present[:, 0]]
        return self._scores(evidence, list(zip(names, rows, strict=True)), warnings)


def tilted(base: Floats, options: Floats, means: Floats) -> Floats:
    """Return the distributions (n, K) closest to `base` (K,) with given means (n,), clipped to the scale.

    Each is base · exp(λ · option), normalized, with λ found by bisection.

    >>> tilted(np.array([0.25, 0.5, 0.25]), np.array([1.0, 2.0, 3.0]), np.array([2.0])).round(3).tolist()
    [[0.25, 0.5, 0.25]]
    """
    from scipy.special import softmax  # imported here, so that commands that do not fit load no SciPy

    width = float(np.ptp(options))
    targets = np.clip(means, options[0] + 0.01 * width, options[-1] - 0.01 * width)
    place, log_base = (options - options[0]) / width, np.log(np.maximum(base, 1e-12))
    low, high = np.full(len(targets), -_STEEPEST), np.full(len(targets), _STEEPEST)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        shares = softmax(log_base + middle[:, None] * place, axis=1)
        is_below = by_row(shares, options) < targets
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    return np.asarray(shares)


_STEEPEST, _BISECTIONS = 2000.0, 60


class _TurnScores(Unlearned):
    """Stretches a model's score of the turns to the question's scale, without learning."""

    column: ClassVar[str]

    def fit(self, evidence: EvidenceTable, labels: Labels) -> Self:
        """Check that turns were scored.

        Raises:
            BadInput: The evidence has no turn scores.
        """
        self._place(evidence)
        return self

    def predict_each(self, evidence: EvidenceTable, annotators: Sequence[str | None]) -> list[Score | Unscored]:
        """Return the turns' score, split between the two nearest options; it is the same for every annotator."""
        place = self._place(evidence)
        signature = Signature.of(self.method, question=self.question.id, version=__version__)
        result: list[Score | Unscored] = []
        for row, (target, name) in enumerate(zip(evidence.targets, annotators, strict=True)):
            if evidence.present[row, place]:
                shares = self._shares(float(evidence.values[row, place]))
                result.append(score_from(target, name or POPULATION, self.options_, shares, signature))
            else:
                result.append(Unscored(target, name or POPULATION, NOT_ASSESSED, signature))
        return result

    def _place(self, evidence: EvidenceTable) -> int:
        names = [column.name for column in evidence.columns]
        if self.column not in names:
            raise BadInput(
                f"no turn has an overall score ({self.column}); have them assessed: accord judge --source issues"
            )
        return names.index(self.column)

    def _shares(self, score: float) -> Floats:
        """Return (K,) all mass on the two options around a score of 1 to 5, mapped to the question's scale."""
        low, high = self.options_[0], self.options_[-1]
        return _between(low + (score - MIN_SCORE) / (MAX_SCORE - MIN_SCORE) * (high - low), self.options_)


@heads.register("mean-turn")
class MeanTurn(_TurnScores):
    """The mean of the scores that a model gave to the turns of a dialogue."""

    method, column = "mean-turn", SCORE


@heads.register("lowest-turn")
class LowestTurn(_TurnScores):
    """The lowest of the scores that a model gave to the turns of a dialogue."""

    method, column = "lowest-turn", LOWEST_SCORE
