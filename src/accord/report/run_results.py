"""Options and results of `accord run`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from accord.edges import one_line_json
from accord.project import Compared, Fitted, Imported, RecordedAgreement, imported_text
from accord.report.judge_alone import judge_sections
from accord.results import Document, Figure, Section, Table, Text
from accord.scoring import ScoreRun, Turns, training_text
from accord.table_check import CheckResult
from accord.values import Estimate

DISPUTED = "disputed.csv"
"""File of the rows on which the judge and a person differ, in the folder of a run."""


@dataclass(frozen=True)
class RunResult:
    """Results of a run.

    Attributes:
        imported: Counts of the import.
        compared: Comparison of all evaluators; `None` if an evaluator was named.
        fitted: The fitted evaluator.
        scored: Scores of all conversations.
        recorded: Agreement of each recorded model with people.
        files: Written files by name: `report`, `scores`, ...
        notes: Sentences on guesses and limits.
        about: Text about the conversations and ratings.
        checked: Check of the judge alone, if the run shows it.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from accord.testing import sample_project
    >>> chats = [{"id": f"c{n}", "prompt": "How?", "response": " ".join(["step"] * (1 + n % 5))} for n in range(12)]
    >>> labels = [{"conversation": f"c{n}", "annotator": "ann", "helpful": 1 + n % 5} for n in range(12)]
    >>> with sample_project() as project, tempfile.TemporaryDirectory() as folder:
    ...     done = project.run([chats, labels], Path(folder, "run"), options=RunOptions(evaluator="constant"))
    ...     done.files["report"].exists(), done.scored.counts.scored
    (True, 12)
    """

    imported: Imported
    compared: Compared | None
    fitted: Fitted
    scored: ScoreRun
    recorded: Sequence[RecordedAgreement]
    files: Mapping[str, Path]
    notes: Sequence[str] = ()
    about: str = ""
    checked: CheckResult | None = None

    def document(self) -> Document:
        """Return the verdict and the link of the report; imports, comparison and files are details.

        With a check of the judge, the first screen has the judge alone and what learning adds; the uses are details.
        """
        tried, scored = self.fitted.held_out, self.scored.to_json()
        name = self.fitted.evaluator.name
        found = Document(f"learned {name}", "without held-out ratings") if tried is None else tried.verdict.document()
        if tried is not None and self.checked is not None:
            own = [replace(each, is_detail=True) for each in found.sections]
            found = replace(found, sections=[*judge_sections(tried, self.checked, DISPUTED), *own])
        report = self.files.get("report")
        link = None if report is None else Section("", "", [Text(report.resolve().as_uri(), label="report")])
        compared = self.compared or tried
        recorded: list[list[str | Estimate | Figure]] = [
            [f"{row.model}: {row.question_name}", f"{row.n:,}", Estimate(row.pearson), Estimate(row.spearman)]
            for row in self.recorded
        ]
        judges = Section("Recorded judges and mean ratings", "", [Table(["judge: question", "n", "r", "ρ"], recorded)])
        units = {"turn": "replies", "step": "steps"}.get(self.scored.level, "conversations")
        mean = Estimate(scored["mean"]).text()
        summary = [f"{scored['scored']:,} {units} scored, mean {mean}", *training_text(scored)]
        files = Table(["file", "path"], [[name, str(path)] for name, path in self.files.items()], is_text=True)
        details = [
            Section("", "", [Text(imported_text(one_line_json(self.imported.to_json())))]),
            judges if recorded else None,
            *([] if compared is None else compared.sections(everything=True)),
            *self.fitted.sections(),
            Section("", "", [Text("\n".join(summary)), files]),
        ]
        where = "" if report is None else f" in {report.parent}"
        return replace(
            found.with_sections(
                Section("", self.about) if self.about else None,
                link,
                *(replace(each, is_detail=True) for each in details if each is not None),
            ),
            more=f"all figures: the report; as text{where}: accord compare --all",
        )

    def to_json(self) -> dict[str, Any]:
        """Return the results of each step as JSON."""
        tried = self.fitted.held_out
        comparison = self.fitted.comparison if self.compared is None else self.compared.comparison
        return {
            "about": self.about,
            "verdict": None if tried is None else tried.verdict.to_json(),
            "imported": self.imported.to_json(),
            "fitted": self.fitted.to_json(),
            "comparison": None if comparison is None else comparison.to_json(),
            "recorded": [row.to_json() for row in self.recorded],
            "judge": None if self.checked is None else self._judge_alone(self.checked),
            "scored": self.scored.to_json(),
            "unscored": dict(self.scored.counts.unscored),
            "files": {name: str(path) for name, path in self.files.items()},
            "notes": list(self.notes),
        }

    def _judge_alone(self, checked: CheckResult) -> dict[str, Any]:
        """Return the means with the judge's bias, and the counts of rows, as JSON."""
        found = checked.to_json()
        return {name: found[name] for name in ("means", "labeled", "disputed")}


@dataclass(frozen=True)
class RunOptions:
    """Options of a run that replace inferred settings.

    Attributes:
        infers: Infer the rubric from the labels instead of using the project's rubric.
        main: Main question of an inferred rubric.
        labels: Columns with ratings in the files of conversations.
        raters: Columns with the ratings of one person each.
        scales: Lowest and highest value by question.
        is_anonymous: Treat annotators as positions in a list, not as persons.
        roles: Roles of the files mapped to Accord's roles.
        recorded_model: Recorded model to use as the judge.
        evaluator: Evaluator to fit without comparing all.
        about: Text for the report about the conversations and ratings.
        turns: Turns that an evaluator of turns scores (`ScoreOptions.turns`).
        template: Content of the project file that the settings come from, with its `${VARIABLES}` in place.
        judges: Columns with a judge's answers, or with names of judges.
        orders: Orders of the words of scales, the highest first, such as `A>B>C` or `grade=A>B>C`.
        shows_judge: Check the judge alone, and show it on the first screen.

    >>> RunOptions(main="helpful", scales={"helpful": (1, 5)}).turns
    'rated'
    """

    infers: bool = True
    main: str | None = None
    labels: Sequence[str] = ()
    raters: Sequence[str] = ()
    scales: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    is_anonymous: bool = False
    roles: Mapping[str, str] = field(default_factory=dict)
    recorded_model: str | None = None
    evaluator: str | None = None
    about: str = ""
    turns: Turns = "rated"
    template: Mapping[str, Any] = field(default_factory=dict)
    judges: Sequence[str] = ()
    orders: Sequence[str] = ()
    shows_judge: bool = False
