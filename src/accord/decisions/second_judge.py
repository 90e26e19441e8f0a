"""Use of several judges: the number of independent votes, and whether a second judge improves on the best one.

The error of a judge is the part of its answer that people's mean rating of the text does not explain (least squares).
With the mean correlation ρ of the errors of k judges, the mean answer has the error variance of

    votes = k / (1 + (k - 1)·ρ)

independent judges (design effect of Kish, "Survey Sampling", 1965, with judges as a cluster). Ratings are noisy, and
their noise counts as a common error of all judges, so the number of votes is a lower bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.decisions.recommendation import Contest
from accord.edges import count_of
from accord.evidence import EvidenceTable, Ratings
from accord.learning import judge_panel
from accord.results import p_text
from accord.statistics import SIGNIFICANT, PairedTest, holm
from accord.validation import Repeats
from accord.values import Question

TOGETHER = (judge_panel.JUDGES_MEAN, judge_panel.JUDGES_MEDIAN, judge_panel.JUDGES_WEIGHTED)
_LEAST_TEXTS = 3
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class JudgePanel:
    """Votes of several judges, and tests of their combinations against the best one.

    Attributes:
        answers: Number of answers of each judge about a conversation or turn.
        correlation: Mean correlation of their errors, or `None` if it is unknown.
        best: The judge that was chosen in most folds.
        default: The evaluator that was compared.
        rmse: RMSE for a new annotator, by system.
        tests: Tests of combinations of judges against the best judge, with Holm's correction.
        default_test: Test of the evaluator against the best judge.
        tokens: Mean number of tokens that each judge uses for a conversation or turn; empty if it is unknown.
    """

    answers: Mapping[str, int]
    correlation: float | None
    best: str
    default: str
    rmse: Mapping[str, float]
    tests: Mapping[str, PairedTest]
    default_test: PairedTest | None
    tokens: Mapping[str, float] = field(default_factory=dict)

    @property
    def judges(self) -> int:
        """Number of judges."""
        return len(self.answers)

    @property
    def columns(self) -> int:
        """Number of answers of all judges."""
        return sum(self.answers.values())

    @property
    def votes(self) -> float | None:
        """Number of independent votes, 1 to the number of judges, or `None` if it is unknown."""
        return None if self.correlation is None else effective_votes(self.judges, self.correlation)

    @property
    def adds(self) -> str | None:
        """The combination with the smallest error significantly below the best judge's error, or `None`."""
        better = [name for name, test in self.tests.items() if test.difference < 0 and test.p < SIGNIFICANT]
        return min(better, key=self.rmse.__getitem__, default=None)

    @property
    def is_default_worse(self) -> bool:
        """True if the evaluator has a significantly larger error than the best judge."""
        test = self.default_test
        return test is not None and test.difference > 0 and test.p < SIGNIFICANT

    def to_json(self) -> dict[str, Any]:
        """Return the figures as JSON, with their text."""
        tests = [{"system": name, **_json(test)} for name, test in self.tests.items()]
        return {
            "judges": self.judges, "columns": self.columns, "votes": self.votes, "correlation": self.correlation,
            "best": self.best, "rmse": dict(self.rmse), "tests": tests, "adds": self.adds,
            "default": None if self.default_test is None else {"system": self.default, **_json(self.default_test)},
            "answers": dict(self.answers), **({"tokens": dict(self.tokens)} if self.tokens else {}), "text": str(self),
        }  # fmt: skip

    def __str__(self) -> str:
        votes = "an unknown number of votes" if self.votes is None else f"{self.votes:.1f} votes"
        known = "" if self.correlation is None else f": their errors correlate by {self.correlation:.2f}"
        lines = [
            f"{self.judges} judges, {count_of(self.columns, 'column')}, {votes}{known}. Best judge on the training "
            f"folds: {self.best} (RMSE for a new annotator {self.rmse[judge_panel.BEST_JUDGE]:.3f})"
        ]
        tried = ", ".join(
            f"{name} {self.rmse[name]:.3f} ({'larger, ' if test.difference > 0 else ''}{p_text(test.p)})"
            for name, test in self.tests.items()
        )
        if self.adds is not None:
            lines.append(f"More judges help: {self.adds} has a smaller error than the best judge ({tried})")
        elif tried:
            lines.append(f"A second judge adds nothing that these ratings show ({tried}): one is enough")
        if self.is_default_worse:
            lines.append(
                f"{self.default} has a larger error ({self.rmse[self.default]:.3f}) than the best judge alone: use "
                f"{judge_panel.BEST_JUDGE} (accord fit {judge_panel.BEST_JUDGE})"
            )
        if self.best in self.answers:
            tokens = ""
            if self.tokens.keys() >= self.answers.keys():
                every = sum(self.tokens[name] for name in self.answers)
                tokens = f"; {every:,.0f} tokens, of the best judge alone {self.tokens[self.best]:,.0f}"
            lines.append(
                f"Cost: {count_of(self.columns, 'answer')} about each conversation or turn, of the best judge alone "
                f"{self.answers[self.best]}{tokens}"
            )
        return ". ".join(lines)


def _json(test: PairedTest) -> dict[str, float | None]:
    return {"difference": test.difference, "low": test.low, "high": test.high, "p": test.p}


def effective_votes(judges: int, correlation: float) -> float:
    """Return the number of independent judges whose mean has the same error.

    >>> effective_votes(9, 0.5), effective_votes(4, 0.0), effective_votes(3, 1.0)
    (1.8, 4.0, 1.0)
    """
    return judges / (1 + (judges - 1) * min(max(correlation, 0.0), 1.0))


def error_correlation(answers: Floats, people: Floats) -> float | None:
    """Return the mean correlation of the errors of k judges about n texts, or `None` if no pair can be compared.

    Args:
        answers: (n, k) answers, NaN where one is missing; higher ones predict higher ratings.
        people: (n,) mean rating of each text.
    """
    errors = np.full(answers.shape, np.nan)
    for column in range(answers.shape[1]):
        rows = np.flatnonzero(np.isfinite(answers[:, column]))
        if len(rows) >= _LEAST_TEXTS and np.ptp(people[rows]) > 0:
            line = np.polyfit(people[rows], answers[rows, column], 1)
            errors[rows, column] = answers[rows, column] - np.polyval(line, people[rows])
    found = []
    for one, other in combinations(errors.T, 2):
        both = np.isfinite(one) & np.isfinite(other)
        if both.sum() >= _LEAST_TEXTS and np.ptp(one[both]) > 0 and np.ptp(other[both]) > 0:
            found.append(float(np.corrcoef(one[both], other[both])[0, 1]))
    return float(np.mean(found)) if found else None


def judge_panel_of(
    systems: Mapping[str, Repeats],
    default: str,
    rated: Ratings,
    evidence: EvidenceTable,
    question: Question,
    tokens: Mapping[str, float] | None = None,
) -> JudgePanel | None:
    """Return the votes of the judges and the tests of their combinations, or `None` for fewer than two judges.

    Args:
        systems: Predictions of the evaluators and the baselines in each repetition, by name.
        default: Name of the evaluator that is compared with the best judge.
        rated: The ratings that were predicted.
        evidence: Answers of all judges.
        question: The main question.
        tokens: Mean number of tokens that each judge uses for a conversation or turn, if it is known.
    """
    answers = evidence.expected()
    votes = judge_panel.votes(answers, rated, question.id)
    if len(votes) < 2 or judge_panel.BEST_JUDGE not in systems:
        return None
    contest = Contest(systems, rated)
    if judge_panel.BEST_JUDGE not in contest.rmse:
        return None
    found = {name: test for name in TOGETHER if (test := contest.test(name, judge_panel.BEST_JUDGE)) is not None}
    corrected = holm([test.p for test in found.values()])
    tests = {name: replace(test, p=p) for (name, test), p in zip(found.items(), corrected, strict=True)}
    rows, place = np.unique(rated.row, return_inverse=True)
    people = np.bincount(place, rated.value) / np.bincount(place)
    places = [vote.place for vote in votes]
    values = np.where(answers.present[rows][:, places], answers.values[rows][:, places], np.nan)
    signs = np.array([-1.0 if vote.slope < 0 else 1.0 for vote in votes])
    chosen = systems[judge_panel.BEST_JUDGE][0].choices
    judges = judge_panel.judges_of(answers.columns, question.id)
    of_question = {
        str(answers.columns[place].question): judge
        for judge, questions in judges.items()
        for place in questions.values()
    }
    best = of_question.get(max(chosen, key=chosen.__getitem__, default=""), "")
    names = (*tests, judge_panel.BEST_JUDGE, default)
    return JudgePanel(
        {vote.judge: len(judges[vote.judge]) for vote in votes}, error_correlation(values * signs, people), best,
        default, {name: contest.rmse[name] for name in names if name in contest.rmse}, tests,
        contest.test(default, judge_panel.BEST_JUDGE), dict(tokens or {}),
    )  # fmt: skip
