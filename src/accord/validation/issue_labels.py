"""How well labels of issues are predicted where nothing was learned from: a row per kind, the raw finding beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.evidence import EvidenceTable
from accord.learning import IssueLabels, finding, kinds_of, labels_of
from accord.methods import kind_question
from accord.statistics import Clusters, Split, interval, krippendorff_alpha, smece
from accord.values import BadInput, Labels

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

RAW = "as it was found"
CALLED = 0.5
"""A raw finding, a count or a probability, counts as a call from here on."""
DRAWS = 500


@dataclass(frozen=True)
class CalledFigures:
    """How well calls of one kind agree with people's marks; precision, recall and F1 are `None` where nothing counts.

    Attributes:
        marks: How many labels there are.
        marked, called: Shares of them, 0 to 1.
        f1_low, f1_high: Ends of the 95 % interval over conversations.
        alpha: Krippendorff's, of the calls with people.
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
    calibration_error: float | None


@dataclass(frozen=True)
class CalledRow:
    """The figures of a system and a kind of issue; of `macro` the mean F1 over kinds alone."""

    system: str
    issue: str
    f1: float | None
    figures: CalledFigures | None = None

    def to_json(self) -> dict[str, Any]:
        """A flat row."""
        own = {"system": self.system, "issue": self.issue, "f1": self.f1}
        return own if self.figures is None else own | asdict(self.figures)


@dataclass
class Called:
    """The marks of one kind that were held out, a row a mark, and what was said of them without seeing them.

    Attributes:
        marked: Whether a person marked the turn.
        called: Whether the system calls the issue there.
        chance: How probable it finds a mark.
        conversation: Of the turn.
    """

    marked: list[bool] = field(default_factory=list)
    called: list[bool] = field(default_factory=list)
    chance: list[float] = field(default_factory=list)
    conversation: list[str] = field(default_factory=list)

    def figures(self, draws: int = DRAWS, seed: int = 0) -> CalledFigures:
        """Precision, recall, F1 with its interval over conversations, α with people, calibration error."""
        marked, called = np.array(self.marked, dtype=bool), np.array(self.called, dtype=bool)
        counts = np.column_stack([marked & called, called, marked]).astype(float)
        clusters = Clusters(self.conversation)
        drawn = clusters.counts(draws, seed) @ clusters.sums(counts)
        spread = interval(2 * drawn[:, 0] / np.maximum(drawn[:, 1] + drawn[:, 2], 1e-9))
        both, said, true = counts.sum(axis=0)
        units = [{"people": float(m), "model": float(c)} for m, c in zip(marked, called, strict=True)]
        return CalledFigures(
            marks=len(marked),
            marked=float(marked.mean()),
            called=float(called.mean()),
            precision=both / said if said else None,
            recall=both / true if true else None,
            f1=2 * both / (said + true) if said + true else None,
            f1_low=spread.low,
            f1_high=spread.high,
            alpha=krippendorff_alpha(units, "nominal"),
            calibration_error=smece(np.array(self.chance), marked),
        )


def cross_validate_labels(
    evidence: EvidenceTable, labels: Labels, splits: Sequence[Split], seed: int = 0
) -> tuple[dict[str, Called], dict[str, Called]]:
    """By kind what is called where the group was not learned from: calibrated, and as it was found."""
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
            found = np.clip(own[rows], 0.0, 1.0)
            _add(raw.setdefault(kind, Called()), marked, found >= CALLED, found, names)
    return calibrated, raw


def rows_of(calibrated: dict[str, Called], raw: dict[str, Called], seed: int = 0) -> list[CalledRow]:
    """A row per system and a kind, then one a system with its mean F1 over kinds."""
    rows = []
    for system, by_kind in (("issues", calibrated), (RAW, raw)):
        each = {kind: called.figures(seed=seed) for kind, called in by_kind.items()}
        scores = [found.f1 for found in each.values() if found.f1 is not None]
        rows += [CalledRow(system, kind, found.f1, found) for kind, found in each.items()]
        rows.append(CalledRow(system, "macro", sum(scores) / len(scores) if scores else None))
    return rows


def _add(to: Called, marked: Flags, called: Flags, chance: Floats, conversations: Sequence[str]) -> None:
    to.marked += marked.tolist()
    to.called += called.tolist()
    to.chance += chance.tolist()
    to.conversation += conversations
