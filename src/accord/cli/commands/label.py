"""`accord label`: what to label next."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from accord.cli.app import app, guarded
from accord.cli.options import AsJson, ConfigFile, open_project
from accord.cli.show import show, table

label = typer.Typer(help="Decide what people should label.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(label, name="label")


@label.command("next")
@guarded
def next_(
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=1000, help="Number of labels to suggest.")] = 10,
    annotator: Annotated[
        list[str] | None,
        typer.Option("--annotator", help="Annotator who can label; repeat. Default: everyone who has labelled."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Also write the suggestions to this CSV file.")
    ] = None,
    config_file: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Suggest which conversation each annotator should label next to reduce prediction uncertainty most."""
    with open_project(config_file) as project:
        found = [each.to_json() for each in project.label_next(count, annotator or ())]
        if out is not None:
            with out.open("w", encoding="utf-8", newline="") as stream:
                writer = csv.DictWriter(stream, ["conversation", "turn", "question", "annotator", "value"])
                writer.writeheader()
                writer.writerows({**{k: v for k, v in row.items() if k != "gain"}, "value": ""} for row in found)
        show({"labels": found, "out": None if out is None else str(out)}, as_json, _text)


def _text(result: Mapping[str, Any]) -> str:
    rows = [
        [
            row["conversation"] + ("" if row["turn"] is None else f"#{row['turn']}"),
            row["annotator"],
            f"{row['gain']:.1%}",
        ]
        for row in result["labels"]
    ]
    shown = table(["conversation", "annotator", "uncertainty reduced by"], rows)
    return shown + (f"\n\nto fill in: {result['out']}" if result["out"] else "")
