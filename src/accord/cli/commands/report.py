"""`accord report`: one self-contained HTML file of what the store holds and what an evaluator makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from accord.cli.app import command
from accord.cli.options import AsJson, ConfigFile, open_project
from accord.cli.show import show


@command("report")
def report(
    out: Annotated[Path, typer.Option("--out", "-o", help="The HTML file.")] = Path("report.html"),
    config_file: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Write the report: agreement, habits, misses with transcripts, what stayed unscored and why."""
    from accord.pipeline import latest_audit, latest_drift, latest_in_context, latest_rubric, latest_scores, try_out
    from accord.report import write_report

    with open_project(config_file) as project:
        trial = try_out(project.store, project.config, project.rubric, project.models)
        store = project.store
        latest = latest_scores(store), latest_audit(store), latest_drift(store), latest_rubric(store)
        path = write_report(trial, trial.insights(), out, *latest, in_context=latest_in_context(store))
        show({"report": str(path)}, as_json, lambda result: f"report in {result['report']}")
