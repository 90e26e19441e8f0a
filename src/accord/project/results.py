"""Results of a project's methods, for the command line, the report, the pages and notebooks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accord.edges import BadInput
from accord.evidence import EvidenceTable, Readable, SourceCounts, Tabular, Training
from accord.formats import SCORE_NESTED, SCORE_TYPES, decoded_json, read_rows, score_frame
from accord.learning import Evaluator
from accord.models import IN_BATCH, NEVER_SENT, NOT_RECORDED
from accord.validation import CalledRow, Comparison, Decision, Gap, Group, SystemMean
from accord.values import Findings

if TYPE_CHECKING:
    import polars as pl

Spent = Mapping[str, float | int | None]


@dataclass(frozen=True, repr=False)
class JudgeRun(Readable):
    """SourceCounts of a run of `judge`.

    Attributes:
        samples: Samples in the run.
        known: Samples with any evidence, by source.
        answered: Questions with an answer, including answers of earlier runs.
        requests: Requests sent in this run, by model; their sum is `spent["requests"]`.
        unanswered: Questions without an answer, by reason.
        passed_over: Conversations that were excluded, by reason.
        counts: Further counts, by source.
        spent: Requests, tokens, money.
        stopped: Error that ended the run early, if any.
        rejection: Explanation of one of the rejected requests, if any.
    """

    samples: int
    known: Mapping[str, int]
    answered: int
    requests: Mapping[str, int]
    unanswered: Mapping[str, int]
    passed_over: Mapping[str, int] = field(default_factory=dict)
    counts: Mapping[str, SourceCounts] = field(default_factory=dict)
    spent: Spent = field(default_factory=dict)
    stopped: str | None = None
    rejection: str | None = None

    @property
    def failed(self) -> int:
        """Questions that were asked without success; excludes those of a recording and of an open batch."""
        return sum(self.unanswered.values()) - self._unanswered({NOT_RECORDED, IN_BATCH, *NEVER_SENT})

    @property
    def not_asked(self) -> int:
        """Questions whose requests were never sent because the run stopped first."""
        return self._unanswered(NEVER_SENT)

    def _unanswered(self, reasons: Collection[str]) -> int:
        return sum(self.unanswered.get(reason, 0) for reason in reasons)

    def summary(self) -> dict[str, Any]:
        """Return the counts of samples, answers and requests."""
        counts = {"samples": self.samples, "answered": self.answered, "failed": self.failed}
        counts["not_asked"] = self.not_asked
        return {**counts, "requests": self.spent.get("requests"), "stopped": self.stopped}

    def shown_rows(self) -> list[dict[str, Any]]:
        """Return the samples with evidence by source, and the questions without an answer by reason."""
        rows = [{"what": f"evidence of {source}", "count": count} for source, count in self.known.items()]
        return rows + [{"what": f"unanswered: {why}", "count": count} for why, count in self.unanswered.items()]

    def to_json(self) -> dict[str, Any]:
        """Return all counts."""
        counts = {name: each.to_json() for name, each in self.counts.items()}
        return {**vars(self), "failed": self.failed, "not_asked": self.not_asked, "counts": counts}


@dataclass(frozen=True, repr=False)
class Compared(Tabular):
    """A comparison with its evidence and labels; a table with a row per system.

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

    def records(self) -> list[dict[str, Any]]:
        """Return a flat row per system, the best first."""
        return self.comparison.records()

    def summary(self) -> dict[str, Any]:
        """Return the question, the number of ratings and the best system."""
        return self.comparison.summary()

    def shown_rows(self) -> list[dict[str, Any]]:
        """Return the statistics of each system with their intervals."""
        return self.comparison.shown_rows()

    def to_json(self) -> dict[str, Any]:
        """The table and the groups."""
        return {**self.comparison.to_json(), "groups_by": [group.to_json() for group in self.groups]}


@dataclass(frozen=True, repr=False)
class Fitted(Readable):
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

    def with_decision(self, decision: Decision | None) -> Fitted:
        """Return the same with the decision that led to this evaluator, for the report."""
        if self.tried is None:
            return self
        comparison = replace(self.tried.comparison, decision=decision)
        return replace(self, tried=replace(self.tried, comparison=comparison))

    @property
    def lacking(self) -> int:
        """How many requests came to nothing that may succeed another time."""
        return sum(int(found.again) for found in self.findings.values())

    @property
    def comparison(self) -> Comparison | None:
        """How it did beside the baselines."""
        return None if self.tried is None else self.tried.comparison

    def summary(self) -> dict[str, Any]:
        """Return the evaluator, its question, its folder and its accuracy on held-out ratings."""
        values = {} if self.comparison is None else self.comparison.results[0].values
        about = {"evaluator": self.evaluator.name, "question": self.evaluator.question.id, "folder": self.folder}
        return {
            **about,
            "learned_from": self.learned_from or None,
            "rmse": values.get("rmse"),
            "r": values.get("pearson"),
        }

    def shown_rows(self) -> list[dict[str, Any]]:
        """Return the statistics of the evaluator and the baselines with their intervals."""
        return [] if self.comparison is None else self.comparison.shown_rows()

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


@dataclass(frozen=True, repr=False)
class ScoreRun(Tabular):
    """SourceCounts of a run of `score`; a table with a row per score.

    Attributes:
        scored: Samples with a score.
        mean: Mean of the scores; None without any.
        level: Level of the samples: `turn` or `conversation`.
        unscored: Samples without a score, by reason.
        warnings: Scores with a warning, by kind.
        out: File of scores; None if `rows` holds them.
        run: Id of the run in the store.
        skipped: Bad rows that were skipped, and the first of them in `bad_rows`.
        drift: How far each feature moved from what was learned from, and a sentence on it.
        selection: What was promised of selective scores, and what that rests on (`Selection.to_json`).
        certificate: What fresh labels said of the bands in a new domain (`Certificate.to_json`).
        rated: Number of rows whose target people had rated when the evaluator was fitted.
        conversations: Number of conversations with a row.
        in_training: Number of training conversations among them.
        left_out: Conversations that were not looked at, for nobody held them (or people did, where only those that
            nobody held were asked for).
        role_notes: Sentences on mapped roles that no conversation has, and on conversations without an assistant.
    """

    scored: int
    mean: float | None
    level: str
    unscored: Mapping[str, int]
    warnings: Mapping[str, int]
    out: str | None
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
    role_notes: Sequence[str] = ()
    rows: Sequence[Mapping[str, Any]] = field(default=(), compare=False)

    def records(self) -> Sequence[Mapping[str, Any]]:
        """Return the scores as flat rows, from the file if they were written to one."""
        if self.out is None:
            return self.rows
        found = (row.fields for row in read_rows(Path(self.out)) if not isinstance(row, BadInput))
        return [{name: _nested(name, cell) for name, cell in fields.items()} for fields in found]

    def summary(self) -> dict[str, Any]:
        """Return the counts, the mean and the file."""
        unscored = sum(self.unscored.values())
        counts = {"scored": self.scored, "unscored": unscored, "skipped": self.skipped or None}
        return {**counts, "mean": self.mean, "level": self.level, "out": self.out}

    def shown_rows(self) -> list[dict[str, Any]]:
        """Return the scores with their intervals and warnings."""
        shown = ("conversation", "turn", "annotator", "value", "low", "high", "warning", "unscored")
        return [{name: row.get(name) for name in shown} for row in self.records()]

    def to_polars(self) -> pl.DataFrame:
        """Return the scores as a Polars DataFrame, with the columns of a Parquet file of scores and their status."""
        return score_frame(self.records())

    def to_json(self) -> dict[str, Any]:
        """Return the counts; the scores themselves are in the file or in `rows`."""
        return {name: value for name, value in vars(self).items() if name != "rows"}


def _nested(name: str, cell: Any) -> Any:
    """Decode a cell of a table of text: a nested or a boolean one."""
    if cell == "":
        return None
    if SCORE_TYPES.get(name) is bool and isinstance(cell, str):
        return cell.casefold() == "true"
    return decoded_json(cell) if name in SCORE_NESTED and isinstance(cell, str) else cell


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


@dataclass(frozen=True, repr=False)
class Estimates(Tabular):
    """Mean rating of each system with its interval, and all differences; a table with a row per system."""

    question: str
    systems: Sequence[SystemMean]
    differences: Sequence[Gap]

    def records(self) -> list[dict[str, Any]]:
        """Return a flat row per system."""
        return [each.to_json() for each in self.systems]

    def summary(self) -> dict[str, Any]:
        """Return the question and the number of systems."""
        return {"question": self.question, "systems": len(self.systems)}

    def to_json(self) -> dict[str, Any]:
        """Rows."""
        return {
            "question": self.question,
            "systems": self.records(),
            "differences": [each.to_json() for each in self.differences],
        }
