"""Counts of scores, and the results of scoring a file or a folder of parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from accord.edges import BadInput, count_of
from accord.evidence import Readable, Tabular
from accord.formats import read_rows
from accord.values import BAD_ROW, ScoreRow, row_of_cells, score_frame

if TYPE_CHECKING:
    import polars as pl

Count = Annotated[int, Field(ge=0, strict=True)]
_Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class ScoreCounts:
    """Counts and sums of rows of scores.

    Attributes:
        rows: All rows.
        scored: Rows with a value.
        total: Sum of the values.
        unscored: Rows without a value by reason; bad rows are counted separately.
        rated: Rows whose target people had rated when the evaluator was fitted.
        in_training: Rows of conversations that the evaluator learned from.
        bad_rows: Rows of the input that hold no conversation.
        warnings: Scores with a warning by kind.
        spent: Requests, tokens, money.
    """

    rows: Count = 0
    scored: Count = 0
    total: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    unscored: Mapping[str, Count] = field(default_factory=dict)
    rated: Count = 0
    in_training: Count = 0
    bad_rows: Count = 0
    warnings: Mapping[str, Count] = field(default_factory=dict)
    spent: Mapping[str, _Amount] = field(default_factory=dict)

    @classmethod
    def of(cls, table: pl.DataFrame) -> ScoreCounts:
        """Count a table of scores (`score_frame`)."""
        is_bad, values = table["status"] == BAD_ROW, table["value"].drop_nulls()
        reasons = table.filter(~is_bad)["unscored"].drop_nulls()
        kinds = [warning.split(":")[0] for warning in table["warning"].drop_nulls()]
        return cls(
            len(table), len(values), float(values.sum()), dict(Counter(reasons)), int(table["rated"].sum()),
            int(table["in_training"].sum()), int(is_bad.sum()), dict(Counter(kinds)),
        )  # fmt: skip

    def plus(self, other: ScoreCounts) -> ScoreCounts:
        """Add other counts."""
        sums: dict[str, Any] = {}
        for name, count in vars(self).items():
            more = getattr(other, name)
            if isinstance(count, Mapping):
                names = sorted({*count, *more}) if name == "spent" else dict.fromkeys((*count, *more))
                sums[name] = {key: count.get(key, 0) + more.get(key, 0) for key in names}
            else:
                sums[name] = count + more
        return ScoreCounts(**sums)

    @property
    def mean(self) -> float | None:
        """Mean of the values, or `None` if all texts are unscored."""
        return self.total / self.scored if self.scored else None


def sum_counts(counts: Iterable[ScoreCounts]) -> ScoreCounts:
    """Add counts."""
    total = ScoreCounts()
    for each in counts:
        total = total.plus(each)
    return total


@dataclass(frozen=True, repr=False)
class ScoreRun(Tabular):
    """Result of scoring a file or a table; a table with a row per score.

    Attributes:
        counts: Counts of the scores.
        level: Level of the samples: `turn` or `conversation`.
        out: File of scores, or `None` if `scores` holds them.
        run: Id of the run in the store.
        conversations: Number of conversations with a row.
        in_training: Number of training conversations among them.
        skipped: Number of bad rows that were skipped.
        bad_rows: Reasons of the first bad rows.
        drift: Shift of each feature from the training data.
        drift_said: Sentence on the shifts.
        selection: Guarantee of selective scores and its evidence (`Selection.to_json`).
        certificate: Test of the bands in a new domain on fresh labels (`Certificate.to_json`).
        left_out: Conversations that the setting `synthetic` excludes.
        plausibility: Sentence on the plausibility check of the evaluator.
        change: Comparison of the run with the evaluator's earlier batches of scores (`BatchChange.to_json`).
        role_notes: Sentences on mapped roles that no conversation has, and on conversations without an assistant.
        scores: Rows of scores if `out` is `None`.

    >>> from accord.testing import sample_project
    >>> with sample_project() as project:
    ...     evaluator = project.fit("constant").evaluator
    ...     run = project.score([{"id": "a", "prompt": "Hi.", "response": "Hello!"}], evaluator=evaluator)
    >>> run.counts.scored, [row["conversation"] for row in run], run.to_polars().height
    (1, ['a'], 1)
    """

    counts: ScoreCounts
    level: str
    out: str | None
    run: str
    conversations: int = 0
    in_training: int = 0
    skipped: int = 0
    bad_rows: Sequence[str] = ()
    drift: Sequence[Mapping[str, Any]] = ()
    drift_said: str | None = None
    selection: Mapping[str, Any] | None = None
    certificate: Mapping[str, Any] | None = None
    left_out: int = 0
    plausibility: str = ""
    change: Mapping[str, Any] | None = None
    role_notes: Sequence[str] = ()
    scores: Sequence[ScoreRow] = field(default=(), compare=False)

    def records(self) -> Sequence[Mapping[str, Any]]:
        """Return the scores as flat rows, from the file if they were written to one."""
        if self.out is None:
            return self.scores
        rows = (row.fields for row in read_rows(Path(self.out)) if not isinstance(row, BadInput))
        return [fields if self.out.endswith(".jsonl") else row_of_cells(fields) for fields in rows]

    def summary(self) -> dict[str, Any]:
        """Return the counts, the mean and the file."""
        unscored = sum(self.counts.unscored.values())
        counts = {"scored": self.counts.scored, "unscored": unscored, "skipped": self.skipped or None}
        return {**counts, "mean": self.counts.mean, "level": self.level, "out": self.out}

    def shown_rows(self) -> list[dict[str, Any]]:
        """Return the scores with their intervals and warnings."""
        names = ("conversation", "turn", "annotator", "value", "low", "high", "warning", "unscored")
        return [{name: row.get(name) for name in names} for row in self.records()]

    def to_polars(self) -> pl.DataFrame:
        """Return the scores as a Polars DataFrame, with the columns of a Parquet file of scores and their status."""
        return score_frame(self.records())

    def to_json(self) -> dict[str, Any]:
        """Return the counts; the scores are in the file or in `scores`."""
        counts = self.counts
        return {
            "scored": counts.scored, "mean": counts.mean, "unscored": counts.unscored, "warnings": counts.warnings,
            "rated": counts.rated,
            **{name: value for name, value in vars(self).items() if name not in ("counts", "scores")},
        }  # fmt: skip


@dataclass(frozen=True, repr=False)
class PartsRun(Readable):
    """Result of scoring into a folder of parts.

    Attributes:
        out: The folder.
        parts: Number of planned parts of all shards.
        made: Number of parts written by this run.
        there: Number of parts that existed before this run.
        left: Number of missing parts, which belong to other shards or failed.
        counts: Counts of all parts in the folder.
        failed: Reason of each failed part, by input.
        signature: Signature of the scores.
        level: Level of the samples: `turn` or `conversation`.
        plausibility: Sentence on the plausibility check of the evaluator.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from accord.scoring import Execution
    >>> from accord.testing import sample_project
    >>> with sample_project() as project, tempfile.TemporaryDirectory() as folder:
    ...     chats, fitted = Path(folder, "chats.jsonl"), project.fit("constant").folder
    ...     _ = chats.write_text('{"id": "a", "prompt": "Hi.", "response": "Hello!"}', encoding="utf-8")
    ...     run = project.score_parts(chats, Path(folder, "out"), fitted, execution=Execution(workers=1))
    >>> run.parts, run.counts.scored
    (1, 1)
    """

    out: str
    parts: int
    made: int
    there: int
    left: int
    counts: ScoreCounts
    failed: dict[str, str] = field(default_factory=dict)
    signature: str = ""
    level: str = "conversation"
    plausibility: str = ""

    def summary(self) -> dict[str, Any]:
        """Return the folder and the counts of its parts and scores."""
        return {"out": self.out, "parts": self.parts, "made": self.made, "left": self.left, **asdict(self.counts)}

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {**vars(self), "counts": {**asdict(self.counts), "mean": self.counts.mean}}


def training_text(scored: Mapping[str, Any]) -> list[str]:
    """Return sentences on scores of rated turns and of conversations in the training data."""
    lines, rated, of_all = [], scored["rated"], scored["scored"] + sum(scored["unscored"].values())
    if scored["level"] in ("turn", "step") and 0 < rated < of_all:
        lines.append(f"{rated} of {of_all} scored {scored['level']}s have ratings (column `rated`)")
    if known := scored["in_training"]:
        lines.append(
            f"{known} of {count_of(scored['conversations'], 'scored conversation')} "
            f"{'was used in training; its' if known == 1 else 'were used in training; their'} scores are closer to the "
            "ratings than those of new ones will be (column `in_training`)"
        )
    return lines
