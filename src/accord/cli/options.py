"""Options that several commands share, and opening what they name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from accord.project import Project

ConfigFile = Annotated[Path | None, typer.Option("--config", help="The project's file; default accord.yaml here.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Format = Annotated[str, typer.Option("--format", help="The conversations' format; `auto` tells by the first row.")]
Columns = Annotated[
    list[str] | None,
    typer.Option("--columns", metavar="OURS=THEIRS", help="Map a column, e.g. annotator=rater; repeat."),
]
EvaluatorFolder = Annotated[
    Path | None, typer.Option("--evaluator", help="The fitted evaluator's folder; default: where fit puts it.")
]
Annotator = Annotated[str | None, typer.Option("--annotator", help="Score as this person would.")]
RowsOut = typer.Option("--out", "-o", help="Append a row a reply here, as JSON lines.")
IsWatched = Annotated[bool, typer.Option("--watch/--no-watch", help="Add up scores in the store, and raise alarms.")]
SkipBadRows = Annotated[bool, typer.Option("--skip-bad-rows", help="Report and skip bad rows instead of stopping.")]


MaxRequests = Annotated[int | None, typer.Option("--max-requests", help="Stop before the next request.")]
MaxTokens = Annotated[int | None, typer.Option("--max-tokens", help="Stop before tokens pass this.")]
MaxMoney = Annotated[float | None, typer.Option("--max-money", help="Stop before money passes this.")]


Setting = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting for this run, e.g. sources.issues.by=judge; repeat."),
]


def open_project(config_file: Path | None, settings: list[str] | None = None, question: str | None = None) -> Project:
    """Read the project's file, with some settings in place of its own, and open its store and rubric.

    Raises:
        BadInput: The file cannot be read, or a setting cannot be.
    """
    from accord.project import Project, load_config, with_settings

    return Project(with_settings(load_config(config_file), settings or ()), question=question)


def column_map(pairs: list[str] | None) -> dict[str, str]:
    """`OURS=THEIRS` pairs as a mapping.

    Raises:
        BadInput: A pair has no `=`.
    """
    from accord.values import BadInput

    for pair in pairs or ():
        if "=" not in pair:
            raise BadInput(f"--columns takes OURS=THEIRS, got {pair!r}; for example annotator=rater_id")
    return dict(pair.split("=", 1) for pair in pairs or ())
