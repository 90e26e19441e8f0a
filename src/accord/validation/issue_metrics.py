"""Accuracy of predicted issue labels on held-out dialogues, by kind of issue.

Calling an issue everywhere has an F1 of 2p/(1 + p) for a share p of marks, and so does a detector without any
information at the threshold of highest expected F1. The table therefore includes calling everywhere, and kinds whose
agreement with people is not above chance (the 95% interval of α includes 0) are named and left out of a second mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput
from accord.evidence import EvidenceTable
from accord.learning import IssueLabels, finding, kinds_of, labels_of
from accord.methods import kind_question
from accord.statistics import REPEATED_DRAWS, Clusters, Split, alpha_estimate, estimate_from_draws, smece
from accord.values import Labels

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
class CalledFigures:
    """Agreement of the calls of one kind with people's marks; precision, recall and F1 are None if undefined.

    Attributes:
        marks: Number of labels.
        marked, called: Shares of them, 0 to 1.
        f1_low, f1_high: Ends of the 95% interval over conversations.
        alpha: Krippendorff's α of the calls with people; 0 is chance.
        alpha_low, alpha_high: Ends of its 95% interval over conversations.
        calibration_error: smECE of the probabilities.
    """

    marks: int
    marked: float
    called: float
    precision: float | None
    recall: float | None
    f1: float | None
    f1_low: float | None
    f1_high: float | None
    alpha: float | None
    alpha_low: float | None
    alpha_high: float | None
    calibration_error: float | None

    @property
    def is_above_chance(self) -> bool:
        """True if the calls agree with people better than chance."""
        return (self.alpha_low or 0.0) > 0


@dataclass(frozen=True)
class CalledRow:
    """Metrics of a system and a kind of issue; a mean F1 only for `MACRO` and `ABOVE_CHANCE`."""

    system: str
    issue: str
    f1: float | None
    figures: CalledFigures | None = None

    def to_json(self) -> dict[str, Any]:
        """Return a flat row."""
        own = {"system": self.system, "issue": self.issue, "f1": self.f1}
        return own if self.figures is None else own | asdict(self.figures)


@dataclass
class Called:
    """Held-out marks of one kind, with calls that were made without seeing them.

    Attributes:
        marked: True if an annotator marked the turn.
        called: True if the system calls the issue.
        chance: Predicted probability of a mark.
        conversation: Conversation of the turn.
    """

    marked: list[bool] = field(default_factory=list)
    called: list[bool] = field(default_factory=list)
    chance: list[float] = field(default_factory=list)
    conversation: list[str] = field(default_factory=list)

    def figures(self, draws: int = REPEATED_DRAWS, seed: int = 0) -> CalledFigures:
        """Return precision, recall, F1, α and calibration error, with intervals over conversations."""
        marked, called = np.array(self.marked, dtype=bool), np.array(self.called, dtype=bool)
        counts = np.column_stack([marked & called, called, marked]).astype(float)
        clusters = Clusters(self.conversation)
        drawn = clusters.counts(draws, seed) @ clusters.sums(counts)
        spread = estimate_from_draws(None, 2 * drawn[:, 0] / np.maximum(drawn[:, 1] + drawn[:, 2], 1e-9))
        both, called_count, true = counts.sum(axis=0)
        alpha = alpha_estimate(marked, called, self.conversation, draws, seed)
        return CalledFigures(
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
            calibration_error=smece(np.array(self.chance), marked),
        )

    def everywhere(self) -> Called:
        """Return the same marks with every turn called."""
        return replace(self, called=[True] * len(self.marked), chance=[1.0] * len(self.marked))


def cross_validate_labels(
    evidence: EvidenceTable, labels: Labels, splits: Sequence[Split], seed: int = 0
) -> tuple[dict[str, Called], dict[str, Called]]:
    """Return held-out calls by kind, calibrated and raw."""
    calibrated: dict[str, Called] = {}
    raw: dict[str, Called] = {}
    for split in splits:
        train = evidence.filter(split.train, labels.group_of)
        test = evidence.filter(split.test, labels.group_of)
        for kind in kinds_of(evidence):
            try:
                head = IssueLabels(kind_question(kind), seed).fit(train, labels.filter(split.train))
            except BadInput:
                continue
            rows, marked = labels_of(test, labels, kind)
            own, known = finding(test, kind)
            rows, marked = rows[known[rows]], marked[known[rows]]
            chances, _ = head.chances(test)
            names = [labels.group_of(test.targets[row]) for row in rows]
            _add(calibrated.setdefault(kind, Called()), marked, chances[rows] >= head.threshold, chances[rows], names)
            result = np.clip(own[rows], 0.0, 1.0)
            _add(raw.setdefault(kind, Called()), marked, result >= CALLED, result, names)
    return calibrated, raw


def rows_of(calibrated: dict[str, Called], raw: dict[str, Called], seed: int = 0) -> list[CalledRow]:
    """Return a row per system and kind, the mean F1 over all kinds, and over those predicted better than by chance."""
    always = {kind: called.everywhere() for kind, called in calibrated.items()}
    figures = {
        system: {kind: called.figures(seed=seed) for kind, called in by_kind.items()}
        for system, by_kind in ((CALIBRATED, calibrated), (RAW, raw), (ALWAYS, always))
    }
    above_chance = {kind for kind, result in figures[CALIBRATED].items() if result.is_above_chance}
    rows = []
    for system, each in figures.items():
        rows += [CalledRow(system, kind, result.f1, result) for kind, result in each.items()]
        for name, kinds in ((MACRO, each.keys()), (ABOVE_CHANCE, above_chance)):
            scores = [each[kind].f1 or 0.0 for kind in each if kind in kinds]
            rows.append(CalledRow(system, name, sum(scores) / len(scores) if scores else None))
    return rows


def no_better_than_chance(rows: Sequence[CalledRow]) -> list[str]:
    """Return the kinds whose calibrated calls agree with people no better than chance."""
    ours = [row for row in rows if row.system not in (RAW, ALWAYS)]
    return [row.issue for row in ours if row.figures is not None and not row.figures.is_above_chance]


def _add(to: Called, marked: Flags, called: Flags, chance: Floats, conversations: Sequence[str]) -> None:
    to.marked += marked.tolist()
    to.called += called.tolist()
    to.chance += chance.tolist()
    to.conversation += conversations
