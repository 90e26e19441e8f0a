"""What the verbs of a project give back: values that the command line, the report and the pages show alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from accord.evidence import Counts, EvidenceTable, Findings, Training
from accord.learning import Evaluator
from accord.validation import CalledRow, Comparison, Estimate, Gap, Group

Spent = Mapping[str, float | int | None]


@dataclass(frozen=True)
class JudgeRun:
    """What asking the sources came to.

    Attributes:
        samples: How many were looked at.
        known: By source, how many samples it knows something of.
        answered: How many answers there are by now.
        asked: By role, how many of them were asked for now.
        unanswered: Why something is missing, counted.
        passed_over: Dialogues that were not looked at, with the reason.
        counts: By source, what it counts beyond that.
        spent: Requests, tokens, money.
    """

    samples: int
    known: Mapping[str, int]
    answered: int
    asked: Mapping[str, int]
    unanswered: Mapping[str, int]
    passed_over: Mapping[str, int] = field(default_factory=dict)
    counts: Mapping[str, Counts] = field(default_factory=dict)
    spent: Spent = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Everything."""
        return {**vars(self), "counts": {name: each.to_json() for name, each in self.counts.items()}}


@dataclass(frozen=True)
class Compared:
    """A comparison with what it was made from.

    Attributes:
        comparison: The table; the system that the decision is about comes first.
        evidence: Of the sources that do not learn.
        train: What was rated.
        groups: Agreement of the first system by group, where it was asked for.
    """

    comparison: Comparison
    evidence: EvidenceTable
    train: Training
    groups: Sequence[Group] = ()

    @property
    def best(self) -> str:
        """The evaluator to fit: the recommended one, or the best guess while there are too few labels."""
        found = self.comparison
        return found.systems[0].name if found.decision is None else found.decision.evaluator

    def to_json(self) -> dict[str, Any]:
        """The table and the groups."""
        return {**self.comparison.to_json(), "groups_by": [group.to_json() for group in self.groups]}


@dataclass(frozen=True)
class Fitted:
    """An evaluator that has learned, and how far it can be trusted.

    Attributes:
        evaluator: With everything that was learned.
        tried: Its predictions of what it had not seen, beside the baselines; `None` where nobody rated the question.
        learned_from: How many samples, where nobody rated any.
        labels: A row per kind of issue whose labels were learned, with the raw finding beside it.
        findings: What each source found out about itself, by name.
        cautions: Sentences on what the data could not support.
        spent: Requests, tokens, money.
        folder: Where it was saved.
        questions: The same of each other question of the rubric, where those were learned too.
    """

    evaluator: Evaluator
    tried: Compared | None = None
    learned_from: int = 0
    labels: Sequence[CalledRow] = ()
    findings: Mapping[str, Findings] = field(default_factory=dict)
    cautions: Sequence[str] = ()
    spent: Spent = field(default_factory=dict)
    folder: Path | None = None
    questions: Sequence[Fitted] = ()

    @property
    def lacking(self) -> int:
        """How many requests came to nothing that may succeed another time."""
        return sum(int(found.again) for found in self.findings.values())

    @property
    def comparison(self) -> Comparison | None:
        """How it did beside the baselines."""
        return None if self.tried is None else self.tried.comparison

    def to_json(self) -> dict[str, Any]:
        """Everything that is kept of a run."""
        return {
            "evaluator": self.evaluator.describe(),
            "folder": None if self.folder is None else str(self.folder),
            "comparison": None if self.comparison is None else self.comparison.to_json(),
            "learned_from": self.learned_from,
            "labels": [row.to_json() for row in self.labels],
            "findings": {name: found.to_json() for name, found in self.findings.items()},
            "cautions": list(self.cautions),
            "spent": dict(self.spent),
            **({"questions": self.by_question()} if self.questions else {}),
        }

    def by_question(self) -> list[dict[str, Any]]:
        """Agreement out of fold with intervals, a row per question that was learned, the main one first."""
        tried = [each.comparison for each in (self, *self.questions)]
        return [{"question": each.question.id, **each.results[0].to_json()} for each in tried if each is not None]


@dataclass(frozen=True)
class ScoreRun:
    """What scoring came to.

    Attributes:
        scored: How many samples have a score.
        mean: Of their values; `None` where none has one.
        level: What was scored: turns or conversations.
        unscored: Why others have none, counted.
        warnings: Of scores, counted by their kind.
        out: The file of scores.
        run: The run's id in the store.
        skipped: Bad rows that were skipped, and the first of them in `bad_rows`.
        drift: How far each feature moved from what was learned from, and a sentence on it.
        selection: What was promised of selective scores, and what that rests on (`Selection.to_json`).
        certificate: What fresh labels said of the bands in a new domain (`Certificate.to_json`).
        rated: Number of rows whose target people had rated when the evaluator was fitted.
        conversations: Number of conversations with a row.
        in_training: Number of training conversations among them.
        left_out: Conversations that were not looked at, for nobody held them (or people did, where only those that
            nobody held were asked for).
    """

    scored: int
    mean: float | None
    level: str
    unscored: Mapping[str, int]
    warnings: Mapping[str, int]
    out: str
    run: str
    skipped: int = 0
    bad_rows: Sequence[str] = ()
    drift: Sequence[Mapping[str, Any]] = ()
    drift_said: str | None = None
    selection: Mapping[str, Any] | None = None
    certificate: Mapping[str, Any] | None = None
    rated: int = 0
    conversations: int = 0
    in_training: int = 0
    left_out: int = 0

    def to_json(self) -> dict[str, Any]:
        """Everything."""
        return asdict(self)


@dataclass(frozen=True)
class NextLabel:
    """A label worth having: of what, by whom, and the share of the remaining uncertainty that it takes away.

    `reason` says why it comes before what would take more away.
    """

    conversation: str
    turn: int | None
    question: str
    annotator: str
    gain: float
    reason: str | None = None

    def to_json(self) -> dict[str, Any]:
        """A flat row."""
        return asdict(self)


@dataclass(frozen=True)
class Estimates:
    """How good each system is on average, and every difference."""

    question: str
    systems: Sequence[Estimate]
    differences: Sequence[Gap]

    def to_json(self) -> dict[str, Any]:
        """Rows."""
        return {
            "question": self.question,
            "systems": [each.to_json() for each in self.systems],
            "differences": [each.to_json() for each in self.differences],
        }
