"""`accord import`: conversations, labels and annotations from files into the store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from accord.cli.app import command
from accord.cli.options import AsJson, Columns, ConfigFile, Format, SkipBadRows, column_map, open_project
from accord.cli.show import Progress, imported_text, show


@command("import")
def import_(
    sources: Annotated[
        list[Path],
        typer.Argument(help="Files of conversations, labels and exported annotations, or benchmark folders."),
    ],
    config_file: ConfigFile = None,
    format: Format = "auto",
    columns: Columns = None,
    skip_bad_rows: SkipBadRows = False,
    as_json: AsJson = False,
) -> None:
    """Read conversations, labels and exported annotations into the store. Running it again adds nothing twice."""
    from accord.project import import_files

    with open_project(config_file) as project:
        with Progress("rows read") as progress:
            done = import_files(
                project.store, project.rubric, sources, format, column_map(columns), skip_bad_rows, progress.at
            )
        show(done.to_json(), as_json, imported_text)
