"""All of it: import, judge, fit, score everything and report, in one folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from accord.project import Config, Fitted, Imported, Project, ScoreRun, Selected, score
from accord.report.report import write_report


@dataclass(frozen=True)
class Whole:
    """What a whole run leaves behind."""

    imported: Imported
    fitted: Fitted
    scored: ScoreRun
    files: Mapping[str, Path]


def whole_run(
    config: Config,
    sources: Sequence[str | Path],
    out: Path,
    format: str = "auto",
    columns: Mapping[str, str] | None = None,
    skip_bad_rows: bool = False,
    on_stage: Callable[[str], None] = lambda _: None,
) -> Whole:
    """Import, judge, fit, score everything and report, in one folder. Running it again goes on from there.

    Raises:
        BadInput: A file cannot be read, or there is too little to learn from.
    """
    out.mkdir(parents=True, exist_ok=True)
    files = {"evaluator": out / "evaluator", "scores": out / "scores.jsonl", "report": out / "report.html"}
    with Project(config) as project:
        on_stage("reading")
        imported = project.import_(sources, format, columns, skip_bad_rows)
        if project.evaluator().roles:
            on_stage("asking models")
            project.judge(selected=Selected(everything=True))
        on_stage("comparing and learning")
        fitted = project.fit(out=files["evaluator"])
        on_stage("scoring")
        scored = score(project, fitted.evaluator, project.store.conversations(), files["scores"], command="run")
        on_stage("reporting")
        write_report(project, files["report"], fitted)
    return Whole(imported, fitted, scored, files)
