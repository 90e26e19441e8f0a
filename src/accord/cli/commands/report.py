"""`accord report`: one self-contained HTML file of what the store holds and what an evaluator makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from accord.cli.app import command
from accord.cli.options import AsJson, ConfigFile, Setting, open_project
from accord.cli.show import show


@command("report")
def report(
    name: Annotated[str | None, typer.Argument(help="An evaluator of the project; default its own.")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="HTML file to write.")] = Path("report.html"),
    settings: Setting = None,
    config_file: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Write the report: agreement, calibration, errors with transcripts, what is unscored and why."""
    from accord.report import write_report

    with open_project(config_file, settings) as project:
        path = write_report(project, out, None if name is None else project.tried(name))
        show({"report": str(path)}, as_json, lambda result: f"report in {result['report']}")
