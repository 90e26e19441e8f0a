"""`accord board`: maintenance of the mart, the scores that the board shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from accord.cli.app import command_group, guarded
from accord.cli.options import AsJson, ConfigFile, Setting, open_project
from accord.cli.terminal import show

board = command_group("board", "Maintain the scores that the board shows.")


@board.callback()
def _group() -> None:
    """Maintain the scores that the board shows."""


@board.command("repair")
@guarded
def repair(
    folders: Annotated[
        list[str] | None, typer.Argument(help="Folders that `accord score --out FOLDER` wrote, local or s3://.")
    ] = None,
    settings: Setting = None,
    config_file: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Repair the mart of scores: set damaged files aside, add folders of score parts, and compact the rest."""
    from accord.scoring import repair as repair_mart

    with open_project(config_file, settings) as project:
        result = repair_mart(project, folders or ())
    show(result.to_json(), as_json, _text)


def _text(result: Mapping[str, Any]) -> str:
    lines = [f"{result['rows']:,} scores on the board, {result['added']:,} added now"]
    return "\n".join([*lines, *(f"note: {sentence}" for sentence in result["set_aside"])])
