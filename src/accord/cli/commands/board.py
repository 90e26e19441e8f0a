"""`accord board`: the scores that the board shows, made anew from what is kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from accord.cli.app import command_group, guarded
from accord.cli.options import AsJson, ConfigFile, Setting, open_project
from accord.cli.terminal import show

board = command_group("board", "Look after the scores that the board shows.")


@board.callback()
def _group() -> None:
    """Look after the scores that the board shows."""


@board.command("rebuild")
@guarded
def rebuild(
    folders: Annotated[
        list[str] | None, typer.Argument(help="Folders that `accord score --out FOLDER` wrote, here or s3://.")
    ] = None,
    settings: Setting = None,
    config_file: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Make the mart of scores anew: from the runs in the store, and from folders of score parts.

    What live scoring wrote stands nowhere else and is kept. Scores that come in meanwhile are kept too.
    """
    from accord.scoring import rebuild as made_anew

    with open_project(config_file, settings) as project:
        found = made_anew(project, folders or ())
    show(found.to_json(), as_json, _text)


def _text(found: Mapping[str, Any]) -> str:
    counted = f"{found['rows']:,} scores on the board: of {found['runs']} runs, {found['folders']} folders, and "
    return "\n".join(
        [f"{counted}{found['live']:,} of live scoring", *(f"note: {each}" for each in found["passed_over"])]
    )
