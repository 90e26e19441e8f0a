"""Accuracy of predicted issue labels on held-out dialogues, by kind of issue.

Calling an issue everywhere has an F1 of 2p/(1 + p) for a share p of marks, and so does a detector without any
information at the threshold of highest expected F1. The table therefore includes calling everywhere, and kinds whose
agreement with people is not above chance (the 95% interval of α includes 0) are named and left out of a second mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.evidence import EvidenceTable, ratings
from accord.learning import Experiment, finding, kinds_of, make_head
from accord.methods import kind_question
from accord.statistics import REPEATED_DRAWS, Clusters, Split, alpha_estimate, estimate_from_draws, smece
from accord.values import Labels, Question, Score, Target, Unscored

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

CALIBRATED = "issues"
"""Name of the calls of the evaluator of issues."""
RAW, ALWAYS = "raw finding", "always"
MACRO, ABOVE_CHANCE = "macro", "macro, above chance"
"""Mean F1 over all kinds, and over those whose calibrated calls agree with people better than chance."""
CALLED = 0.5
"""Smallest raw finding, a count or a probability, that counts as a call."""


@dataclass(frozen=True)
class CalledRow:
    """Agreement of a system's calls of one kind of issue with people's marks.

    A row of `MACRO` or `ABOVE_CHANCE` has a mean F1 only. Precision, recall and F1 are `None` if undefined.

    Attributes:
        system: Name of the system.
        issue: Kind of issue.
        marks: Number of labels.
        marked, called: Shares of these labels, 0 to 1.
        f1_low, f1_high: Ends of the 95% interval over conversations.
        alpha: Krippendorff's α of the calls with people; 0 is chance.
        alpha_low, alpha_high: Ends of its 95% interval over conversations.
        calibration_error: smECE of the probabilities.
    """

    system: str
    issue: str
    f1: float | None
    marks: int | None = None
    marked: float | None = None
    called: float | None = None
    precision: float | None = None
    recall: float | None = None
    f1_low: float | None = None
    f1_high: float | None = None
    alpha: float | None = None
    alpha_low: float | None = None
    alpha_high: float | None = None
    calibration_error: float | None = None

    @property
    def is_above_chance(self) -> bool:
        """True if the calls agree with people better than chance."""
        return (self.alpha_low or 0.0) > 0

    def to_json(self) -> dict[str, Any]:
        """Return a flat row; a mean has its F1 only."""
        row = asdict(self)
        return row if self.marks is not None else {name: row[name] for name in ("system", "issue", "f1")}


@dataclass(frozen=True)
class Called:
    """Held-out marks of one kind, with calls that were made without seeing them.

    Attributes:
        marked: (n,) True if an annotator marked the turn.
        called: (n,) True if the system calls the issue.
        chance: (n,) predicted probability of a mark.
        conversation: (n,) group of the turn, a conversation or several with a common context.
    """

    marked: Flags
    called: Flags
    chance: Floats
    conversation: Sequence[str]

    def row(self, system: str, issue: str, draws: int = REPEATED_DRAWS, seed: int = 0) -> CalledRow:
        """Return precision, recall, F1, α and calibration error, with intervals over conversations."""
        marked, called = self.marked, self.called
        counts = np.column_stack([marked & called, called, marked]).astype(float)
        clusters = Clusters(self.conversation)
        drawn = clusters.counts(draws, seed) @ clusters.sums(counts)
        spread = estimate_from_draws(None, 2 * drawn[:, 0] / np.maximum(drawn[:, 1] + drawn[:, 2], 1e-9))
        both, called_count, true = counts.sum(axis=0)
        alpha = alpha_estimate(marked, called, self.conversation, draws, seed)
        return CalledRow(
            system,
            issue,
            marks=len(marked),
            marked=float(marked.mean()),
            called=float(called.mean()),
            precision=both / called_count if called_count else None,
            recall=both / true if true else None,
            f1=2 * both / (called_count + true) if called_count + true else None,
            f1_low=spread.low,
            f1_high=spread.high,
            alpha=alpha.value,
            alpha_low=alpha.low,
            alpha_high=alpha.high,
            calibration_error=smece(self.chance, marked),
        )

    def everywhere(self) -> Called:
        """Return the same marks with every turn called."""
        return replace(self, called=np.ones(len(self.marked), dtype=bool), chance=np.ones(len(self.marked)))


def cross_validate_labels(
    evidence: EvidenceTable, labels: Labels, splits: Sequence[Split]
) -> tuple[dict[str, Called], dict[str, Called]]:
    """Return held-out calls by kind, calibrated and raw; folds in which a kind cannot be learned have no such calls."""
    calibrated: dict[str, Called] = {}
    raw: dict[str, Called] = {}
    tested = frozenset[str]().union(*(split.test for split in splits))
    for kind in kinds_of(evidence):
        own, is_assessed = finding(evidence, kind)
        question = kind_question(kind)
        rated = ratings(evidence, labels, question)
        is_tested = is_assessed[rated.row] & np.array([group in tested for group in rated.group], dtype=bool)
        rated = rated.take(np.flatnonzero(is_tested))
        experiment, caller = Experiment(question, evidence, labels, rated, splits, len(splits)), _Caller(question)
        predicted = experiment.run(CALIBRATED, caller.unfitted)
        rows = np.flatnonzero(predicted.scored)
        if not len(rows):
            continue
        marked, groups = rated.answer[rows] == 1, [str(name) for name in rated.group[rows]]
        called = np.array([caller.called[rated.target[row]] for row in rows], dtype=bool)
        found = np.clip(own[rated.row[rows]], 0.0, 1.0)
        calibrated[kind] = Called(marked, called, predicted.probabilities[rows, 1], groups)
        raw[kind] = Called(marked, found >= CALLED, found, groups)
    return calibrated, raw


def rows_of(calibrated: dict[str, Called], raw: dict[str, Called], seed: int = 0) -> list[CalledRow]:
    """Return a row per system and kind, the mean F1 over all kinds, and over those predicted better than by chance."""
    always = {kind: called.everywhere() for kind, called in calibrated.items()}
    systems = {CALIBRATED: calibrated, RAW: raw, ALWAYS: always}
    by_system = {
        system: [called.row(system, kind, seed=seed) for kind, called in by_kind.items()]
        for system, by_kind in systems.items()
    }
    above_chance = {row.issue for row in by_system[CALIBRATED] if row.is_above_chance}
    rows = []
    for system, of_system in by_system.items():
        rows += of_system
        for name, kinds in ((MACRO, set(calibrated)), (ABOVE_CHANCE, above_chance)):
            scores = [row.f1 or 0.0 for row in of_system if row.issue in kinds]
            rows.append(CalledRow(system, name, sum(scores) / len(scores) if scores else None))
    return rows


def no_better_than_chance(rows: Sequence[CalledRow]) -> list[str]:
    """Return the kinds whose calibrated calls agree with people no better than chance."""
    ours = [row for row in rows if row.system not in (RAW, ALWAYS)]
    return [row.issue for row in ours if row.marks is not None and not row.is_above_chance]


class _Caller:
    """Head of a kind of issue that records the calls of the rows that it predicts."""

    def __init__(self, question: Question) -> None:
        self.head = make_head("issue-labels", question, {})
        self.called: dict[Target, bool] = {}

    def unfitted(self, question: Question) -> _Caller:
        """Return itself."""
        return self

    def fit(self, evidence: EvidenceTable, labels: Labels) -> _Caller:
        """Fit the head."""
        self.head.fit(evidence, labels)
        return self

    def predict_each(self, evidence: EvidenceTable, annotators: Sequence[str | None]) -> list[Score | Unscored]:
        """Return the scores of the head, and record their calls."""
        scores = self.head.predict_each(evidence, annotators)
        self.called |= {score.target: score.notes["called"] for score in scores if isinstance(score, Score)}
        return scores
