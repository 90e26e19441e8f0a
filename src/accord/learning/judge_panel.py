"""Baselines of several judges: the best judge, chosen on training ratings; mean, median and weighted mean of all.

A judge is a model with answers: the judge itself, a further judge `judge-NAME`, or another model of a recording. Each
has one vote, its answer to the main question; a judge that was not asked it votes with the question whose answers
correlate most with the training ratings.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple, Self

import numpy as np

from accord.edges import BadInput
from accord.evidence import Arrays, Column, EvidenceTable, Ratings, columns_from, ratings
from accord.learning.answer_models.simple import Ridge
from accord.learning.baselines import BestColumn, Floats, LabelsAlone, closest_column, tilted
from accord.learning.head import heads
from accord.learning.presets import JUDGE_PANEL
from accord.values import POPULATION, Labels, Question, Score, Unscored

PANEL = JUDGE_PANEL
BEST_JUDGE, JUDGES_MEAN, JUDGES_MEDIAN, JUDGES_WEIGHTED = PANEL
OWN = "judge"
"""Name of the judge whose questions have no suffix."""


class Vote(NamedTuple):
    """Answer of one judge: name of the judge, index of its column, and slope of the ratings on it."""

    judge: str
    place: int
    slope: float


def judges_of(columns: Sequence[Column], main: str) -> dict[str, dict[str, int]]:
    """Return the questions of each judge with their places in a table of expected answers (`EvidenceTable.expected`).

    >>> found = judges_of([Column(q, "s", q) for q in ("Q0", "Q1", "Q0 (judge-law)", "fine (b (7B))")], "Q0")
    >>> {judge: list(questions) for judge, questions in found.items()}
    {'judge': ['Q0', 'Q1'], 'judge-law': ['Q0'], 'b (7B)': ['fine']}
    """
    found: dict[str, dict[str, int]] = {}
    for place, column in enumerate(columns):
        if column.question is not None:
            question, _, judge = column.question.partition(" (")
            judge = judge[:-1] if judge.endswith(")") and question and column.question != main else ""
            question, judge = (question, judge) if judge else (column.question, OWN)
            found.setdefault(judge, {})[question] = place
    return found


def votes(answers: EvidenceTable, rated: Ratings, main: str) -> list[Vote]:
    """Return the votes of the judges whose answers vary with the ratings.

    Args:
        answers: Expected answers.
        rated: The training ratings.
        main: Id of the main question.
    """
    found = []
    for judge, questions in judges_of(answers.columns, main).items():
        asked = [place for question, place in questions.items() if question.casefold() == main.casefold()]
        line = closest_column(answers, rated, asked or questions.values())
        if line is not None:
            found.append(Vote(judge, line.place, line.slope))
    return found


@heads.register(BEST_JUDGE)
class BestJudge(BestColumn):
    """Least squares on the answer of the judge that explains most of the training ratings' variance."""

    method = BEST_JUDGE
    nothing = "no judge's answer"

    def _places(self, answers: EvidenceTable, rated: Ratings) -> Sequence[int]:
        return [vote.place for vote in votes(answers, rated, self.question.id)]


class _Panel(LabelsAlone):
    """Least squares on one value of all judges' answers, each standardized; a missing answer has no vote."""

    @abstractmethod
    def _combine(self, Z: Floats) -> Floats:
        """Return (n,) one value of (n, k) standardized answers, NaN where one is missing."""

    def _learn(self, Z: Floats, mean: Floats, count: Floats) -> None:
        """Learn from the standardized answers (T, k) about T texts, their mean ratings and numbers of ratings."""

    def __init__(self, question: Question) -> None:
        super().__init__(question)
        self.columns_: tuple[Column, ...] = ()
        self.names_: tuple[str, ...] = ()
        self.mean_, self.scale_, self.line_ = np.zeros(0), np.zeros(0), (0.0, 0.0, 0.0)
        self.weights_ = np.zeros(0)

    def fit(self, evidence: EvidenceTable, labels: Labels) -> Self:
        """Standardize the answers and fit the line.

        Raises:
            BadInput: No label has evidence, or no judge's answer varies with the ratings.
        """
        super().fit(evidence, labels)
        answers, rated = evidence.expected(), ratings(evidence, labels, self.question)
        found = votes(answers, rated, self.question.id)
        if not found:
            raise BadInput(f"no judge's answer varies with the ratings of {self.question.id!r}")
        questions = [str(answers.columns[vote.place].question) for vote in found]
        self.names_ = tuple(questions)
        self.columns_ = tuple(column for name in questions for column in evidence.columns if column.question == name)
        rows, places = rated.row, [vote.place for vote in found]
        known = answers.present[rows][:, places]
        values = np.where(known, answers.values[rows][:, places], np.nan)
        # An answer to another question may be high where ratings are low.
        sign = np.array([-1.0 if vote.slope < 0 else 1.0 for vote in found])
        self.mean_, self.scale_ = np.nanmean(values, axis=0), np.nanstd(values, axis=0) * sign
        Z, is_known = self._standardized(evidence)
        texts, place = np.unique(rows, return_inverse=True)
        count = np.bincount(place).astype(float)
        self._learn(Z[texts], np.bincount(place, rated.value) / count, count)
        x, is_known = self._value(evidence)
        x, y = x[rows][is_known[rows]], rated.value[is_known[rows]]
        slope = float((x - x.mean()) @ y / ((x - x.mean()) @ (x - x.mean()))) if np.ptp(x) > 0 else 0.0
        self.line_ = (slope, float(x.mean()), float(y.mean()))
        return self

    def _standardized(self, evidence: EvidenceTable) -> tuple[Floats, Any]:
        """Return (n, k) standardized answers, NaN where one is missing, and a mask of the rows with an answer."""
        answers = evidence.align(self.columns_).expected()
        order = [[column.question for column in answers.columns].index(name) for name in self.names_]
        known = answers.present[:, order]
        return np.where(known, (answers.values[:, order] - self.mean_) / self.scale_, np.nan), known.any(axis=1)

    def _value(self, evidence: EvidenceTable) -> tuple[Floats, Any]:
        """Return (n,) the value of the judges' answers, and a mask of the rows with an answer."""
        Z, is_known = self._standardized(evidence)
        value = np.zeros(len(Z))
        value[is_known] = self._combine(Z[is_known])
        return value, is_known

    @property
    def columns(self) -> tuple[Column, ...] | None:
        """The judges' answers."""
        return self.columns_ or None

    @property
    def annotators(self) -> list[str]:
        """Empty: the prediction is the same for every annotator."""
        return []

    def describe(self) -> dict[str, Any]:
        """Return the questions, the slope, and the weights if they are learned."""
        weights = {"weights": self.weights_.tolist()} if len(self.weights_) else {}
        return {"method": self.method, "questions": list(self.names_), "slope": self.line_[0], **weights}

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the shares, the columns and the line."""
        card, arrays = super().state()
        columns = [asdict(column) for column in self.columns_]
        card |= {"columns": columns, "questions": list(self.names_), "line": list(self.line_)}
        return card, {**arrays, "mean": self.mean_, "scale": self.scale_, "weights": self.weights_}

    def restore(self, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """Restore the learned state from `state`."""
        slope, center, mean = map(float, card["line"])
        self.columns_, self.line_ = columns_from(card["columns"]), (slope, center, mean)
        self.names_ = tuple(map(str, card["questions"]))
        names = ("mean", "scale", "weights")
        self.mean_, self.scale_, self.weights_ = (np.asarray(arrays[name], dtype=float) for name in names)
        if not len(self.names_) == len(self.mean_) == len(self.scale_) == (len(self.weights_) or len(self.names_)):
            raise ValueError("the judges and their answers have different numbers")
        return super().restore(card, arrays)

    def predict_each(self, evidence: EvidenceTable, annotators: Sequence[str | None]) -> list[Score | Unscored]:
        """Return the line's prediction for every row, which is the same for every annotator."""
        value, is_known = self._value(evidence)
        slope, center, mean = self.line_
        base = self.everyone
        at = np.where(is_known, mean + slope * (value - center), base @ self.options_)
        rows = tilted(base, self.options_, at)
        warnings = [None if known else "lacks judges: this is the distribution of all ratings" for known in is_known]
        return self._scores(
            evidence, [(name or POPULATION, row) for name, row in zip(annotators, rows, strict=True)], warnings
        )


@heads.register(JUDGES_MEAN)
class JudgesMean(_Panel):
    """Least squares on the mean of all judges' standardized answers."""

    method = JUDGES_MEAN

    def _combine(self, Z: Floats) -> Floats:
        return np.asarray(np.nanmean(Z, axis=1))


@heads.register(JUDGES_MEDIAN)
class JudgesMedian(_Panel):
    """Least squares on the median of all judges' standardized answers."""

    method = JUDGES_MEDIAN

    def _combine(self, Z: Floats) -> Floats:
        return np.asarray(np.nanmedian(Z, axis=1))


@heads.register(JUDGES_WEIGHTED)
class JudgesWeighted(_Panel):
    """Ridge regression on all judges' standardized answers; a missing answer is at its judge's mean.

    The penalty is chosen by generalized cross-validation (`Ridge`).
    """

    method = JUDGES_WEIGHTED

    def _learn(self, Z: Floats, mean: Floats, count: Floats) -> None:
        Z = np.nan_to_num(Z)
        level, center = np.average(mean, weights=count), np.average(Z, axis=0, weights=count)
        self.weights_ = Ridge().slopes(Z - center, mean - level, count)

    def _combine(self, Z: Floats) -> Floats:
        return np.asarray(np.nan_to_num(Z) @ self.weights_)
