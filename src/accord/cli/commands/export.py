"""`accord export`: annotations from the store into a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from accord.cli.app import command
from accord.cli.options import AsJson, ConfigFile, Setting, Synthetic, open_counted
from accord.cli.outputs import ANNOTATIONS
from accord.cli.terminal import Progress, show


@command("export")
def export(
    out: Annotated[Path, typer.Argument(help="The file to write: .jsonl, .csv or .parquet."), ANNOTATIONS],
    kind: Annotated[
        list[str] | None,
        typer.Option("--kind", help="Only annotations by a person, model or metric; repeat. Default: all."),
    ] = None,
    question: Annotated[
        str | None, typer.Option("--question", help="Only answers to this question, e.g. issue:Other.")
    ] = None,
    synthetic: Synthetic = None,
    settings: Setting = None,
    config_file: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Write the store's annotations to a file that `accord import` reads back: labels, judge answers, issues."""
    from accord.project import export_annotations

    with open_counted(config_file, synthetic, settings) as project:
        with Progress("annotations written") as progress:
            counts = export_annotations(project.store, out, kind, progress.at, question)
        show({"annotations": counts, "out": str(out)}, as_json, _text)


def _text(result: Mapping[str, Any]) -> str:
    plural = {"person": "people", "model": "models", "metric": "metrics"}
    counted = ", ".join(f"{count} by {plural[kind]}" for kind, count in result["annotations"].items())
    return f"annotations written to {result['out']}: {counted}"
