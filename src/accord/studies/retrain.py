"""Closing the loop: learn again from what was answered since, say what that changed, and use it once it is promoted.

The evaluator in use stands in `evaluators/NAME`, the candidate beside it in `NAME.candidate`; what is replaced stays in
`NAME.before-TIME`. A folder is written under another name and then renamed, so that whatever stops the process leaves
each of them whole; a promotion that was cut in two is ended at the next start.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypedDict, cast

from accord.edges import BadInput, write_atomically
from accord.evidence import EvidenceTable
from accord.learning import CARD, Evaluator, Experiment, Predictions, learns, load_evaluator, untested_groups
from accord.project import Fitted, Project
from accord.statistics import grouped_folds
from accord.validation import MetricsTable, differences_of
from accord.values import Labels

REPORT = "refit.json"
IN_USE = "in use"
SURE = 0.05
Line = dict[str, float | None]
"""How well one predicts out of fold: `n`, and `rmse`, `pearson` and `log_loss` with their ends."""


class Report(TypedDict):
    """What learning again changed, as the candidate's folder keeps it.

    `now` is the candidate and `before` the one in use; `usual` is the candidate against each person's own mean; `tests`
    are the candidate against the one in use, as `Difference.to_json` has them; `said` is the outcome in a sentence.
    """

    made: str
    name: str
    labels: int
    digest: str
    now: Line | None
    before: Line | None
    usual: dict[str, Any] | None
    tests: list[dict[str, Any]]
    said: str


def _report(made: str = "", name: str = "") -> Report:
    return {"made": made, "name": name, "labels": 0, "digest": "", "now": None, "before": None, "usual": None,
            "tests": [], "said": ""}  # fmt: skip


def candidate_of(folder: Path) -> Path:
    """Where the candidate for a folder stands."""
    return folder.with_name(f"{folder.name}.candidate")


def refitted(project: Project, folder: Path) -> Report:
    """Learn the project's evaluator again, asking nobody, and keep it as the candidate; returns what changed.

    Raises:
        BadInput: There is too little to learn from, or a source would have to ask.
    """
    recovered(folder)
    fitted = project.fit_offline(every_question=_predicts_every_question(folder))
    found = report(project, fitted, folder)
    candidate = candidate_of(folder)
    made = folder.with_name(f"{folder.name}.making")
    shutil.rmtree(made, ignore_errors=True)
    fitted.evaluator.save(made)
    write_atomically(made / REPORT, json.dumps(found, indent=1) + "\n")
    shutil.rmtree(candidate, ignore_errors=True)
    os.replace(made, candidate)
    return found


def _predicts_every_question(folder: Path) -> bool:
    """Whether the evaluator in use predicts the rubric's other questions too: then so does what takes its place."""
    try:
        return any(other.shares_evidence for other in load_evaluator(folder).other_questions)
    except BadInput:
        return False


def waiting(folder: Path) -> Report | None:
    """What is known of the candidate; `None` where there is none."""
    candidate = candidate_of(folder)
    try:
        found = json.loads((candidate / REPORT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    known = isinstance(found, dict) and (candidate / CARD).is_file()
    return cast("Report", {**_report(), **found}) if known else None


def promote(folder: Path) -> None:
    """Put the candidate in the place of the evaluator in use, which stays beside it.

    Raises:
        BadInput: There is no candidate.
    """
    recovered(folder)
    if waiting(folder) is None:
        raise BadInput("there is no candidate to promote; fit again first")
    if folder.exists():
        time = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
        os.replace(folder, folder.with_name(f"{folder.name}.before-{time}"))
    os.replace(candidate_of(folder), folder)


def recovered(folder: Path) -> bool:
    """End a promotion that was cut in two: the one in use was set aside, and the candidate not yet in its place."""
    aside = list(folder.parent.glob(f"{folder.name}.before-*")) if folder.parent.is_dir() else []
    if folder.exists() or not aside or waiting(folder) is None:
        return False
    os.replace(candidate_of(folder), folder)
    return True


# --- what changed ---------------------------------------------------------------------------------------------------


def report(project: Project, fitted: Fitted, folder: Path) -> Report:
    """What learning again changed: a paired test against the evaluator in use, on the same folds.

    The one in use has learned from some of these ratings, so that its own predictions of them would be too good: it is
    learned again without each fold, with its settings, from the labels that it had.
    """
    about = _report(datetime.now(UTC).isoformat(timespec="seconds"), fitted.evaluator.name)
    if fitted.held_out is None:
        return {**about, "said": "Nobody rated what it learned: nothing can be compared."}
    comparison = fitted.held_out.comparison
    line = comparison.results[0]
    about |= {"labels": len(comparison.ratings), "digest": fitted.evaluator.digest(), "now": _line(line.to_json())}
    about["usual"] = _against(comparison.differences, "annotator-mean")
    try:
        before = load_evaluator(folder)
        old = _in_use(project, fitted, before, _time_of(folder))
    except (BadInput, FileNotFoundError) as error:
        return {**about, "said": f"There is nothing to compare it with: {error}"}
    table = MetricsTable(comparison.ratings, comparison.folds, comparison.seed, comparison.draws)
    about["before"] = _line(table.row(old, old.scored & comparison.systems[0].scored).to_json())
    tests = [each.to_json() for each in differences_of([comparison.systems[0], old], table)]
    return {**about, "tests": tests, "said": _said(tests)}


def _line(row: Mapping[str, Any]) -> Line:
    names = [f"{name}{end}" for name in ("rmse", "pearson", "log_loss") for end in ("", "_low", "_high")]
    return {name: row.get(name) for name in ("n", *names)}


def _against(differences: Any, name: str) -> dict[str, Any] | None:
    return next((each.to_json() for each in differences if each.against == name and each.statistic == "rmse"), None)


def _time_of(folder: Path) -> str:
    written = (folder / CARD).stat().st_mtime
    return datetime.fromtimestamp(written, UTC).isoformat(timespec="milliseconds")


def _in_use(project: Project, fitted: Fitted, before: Evaluator, time: str) -> Predictions:
    """What the evaluator in use says of every rating out of fold, learned from the labels that it had."""
    assert fitted.held_out is not None
    train, comparison = fitted.held_out.train, fitted.held_out.comparison
    if any(map(learns, before.sources)) or comparison.folds < 2 or train.question.compares:
        raise BadInput("it is compared where it can be learned again without each fold, and its sources learn")
    evidence: EvidenceTable = project.measure(before.sources, train.samples)
    had = Labels((each for each in train.labels if each.time is None or each.time <= time), train.labels.groups)
    never = untested_groups(evidence, train.labels, train.question, comparison.seen)
    splits = tuple(grouped_folds(list(comparison.ratings.group), comparison.folds, comparison.seed, never))
    rated = replace(comparison.ratings, row=evidence.rows_of(comparison.ratings.target))
    experiment = Experiment(train.question, evidence, had, rated, splits, comparison.folds, comparison.seed)
    found = experiment.run(IN_USE, lambda question: before.learner)
    if not found.scored.any():
        raise BadInput(next(iter(found.reasons), "it predicts nothing"))
    return found


def _said(tests: list[dict[str, Any]]) -> str:
    """One sentence on the squared error."""
    found = next((each for each in tests if each["statistic"] == "rmse"), None)
    if found is None:
        return "The two cannot be told apart: too few conversations."
    low, high = found["difference_low"], found["difference_high"]
    ends = "" if low is None else f" [{low:+.3f}, {high:+.3f}]"
    moved = f"RMSE out of fold changes by {found['difference']:+.3f}{ends}, p = {found['p_holm']:.3f}"
    if found["p_holm"] >= SURE:
        return f"{moved}: no difference is shown."
    return f"{moved}: the candidate is {'better' if found['difference'] < 0 else 'worse'}."
