"""`accord import`: conversations, labels and annotations from files into the store."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from accord.cli.app import command
from accord.cli.options import (
    AsJson,
    Columns,
    ConfigFile,
    Format,
    LabelColumns,
    Roles,
    Setting,
    SkipBadRows,
    Unnamed,
    are_positions,
    column_map,
    open_project,
    role_map,
)
from accord.cli.show import Progress, imported_text, note, show


@command("import")
def import_(
    sources: Annotated[
        list[Path],
        typer.Argument(help="Files of conversations, labels and exported annotations, or folders of them."),
    ],
    labels: LabelColumns = None,
    unnamed: Unnamed = False,
    roles: Roles = None,
    settings: Setting = None,
    config_file: ConfigFile = None,
    format: Format = "auto",
    columns: Columns = None,
    skip_bad_rows: SkipBadRows = False,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Processes that parse large files; by default one a core.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Read conversations, labels and exported annotations into the store. Running it again adds nothing twice.

    Labels that no question of the rubric asks stop with the command that writes a rubric for them.
    """
    from accord.project import Reading, files_in, import_files, is_recording, survey, workers_here
    from accord.report import positions_said
    from accord.values import BadInput

    passed: list[str] = []
    named = column_map(columns)
    with open_project(config_file, settings, creates=True) as project:
        unasked = next((name for name in labels or () if project.rubric.get(name) is None), None)
        if unasked is not None:
            asked = ", ".join(question.id for question in project.rubric.questions)
            raise BadInput(
                f"the rubric does not ask {unasked!r}; it asks {asked}. Write one that does: accord init --from "
                f"{sources[0]} --labels {unasked}"
            )
        files = files_in(sources, passed)
        for path in [path for path in files if path not in sources and is_recording(path)]:
            files.remove(path)
            passed.append(
                f"{path}: a judge's recorded answers (models: {{judge: {{mode: recorded, paths: [{path}]}}}})"
            )
        turns: list[str] = []
        if labels or (sys.stdin.isatty() and sys.stderr.isatty()):
            found = survey(files, format, named, labels or ())
            turns = [name for name in labels or () if name in found.of_turns]
            unnamed = unnamed or are_positions(lambda: found.positions)
        reading = Reading(labels or (), turns, unnamed, role_map(roles))
        with Progress("rows read") as progress:
            done = import_files(
                project.store,
                project.rubric,
                files,
                format,
                named,
                skip_bad_rows,
                progress.at,
                reading,
                workers or workers_here(),
            )
        result = done.to_json()
        show(result, as_json, imported_text)
    for reason in [*(f"passed over: {reason}" for reason in passed), *result["other_files"]]:
        note(reason)
    files_said = " ".join(str(path) for path in sources)
    if result["other_questions"]:
        note(f"a rubric that asks what these labels answer: accord init --from {files_said}")
    if result["beside"]:
        names = list(result["beside"])
        flags = " ".join(f"--labels {name!r}" if " " in name else f"--labels {name}" for name in names)
        note(f"columns {', '.join(names)} match the rubric; to read them as labels: accord import {files_said} {flags}")
    if result["positions"] and not unnamed:
        note(positions_said(result["positions"]))
    _check_traces(result)
    if len(result["roles"]) > 1:
        note(
            f"conversations without an assistant: {', '.join(result['roles'])} speak; whoever speaks last is scored. "
            "To say who is who: --role NAME=assistant, in a store of its own"
        )


def _check_traces(result: Mapping[str, Any]) -> None:
    """Say what traces, or other rows of which nothing was read, lack.

    Raises:
        BadInput: Nothing could be read from them.
    """
    from accord.formats import NO_CALL, NO_CONTENT, NO_MESSAGES, SAYS_A_CALL
    from accord.values import BadInput

    is_lost = NO_MESSAGES in result["passed_over"]
    is_read = any(sum(result[kind].values()) for kind in ("conversations", "labels", "annotations"))
    if result["passed_over"] and not is_read and not is_lost and NO_CALL not in result["passed_over"]:
        raise BadInput(f"nothing was read: {', '.join(result['passed_over'])}")
    if result["passed_over"] and not is_read:
        raise BadInput(NO_CONTENT if is_lost else f"these traces hold no model call that can be read; {SAYS_A_CALL}")
    if is_lost:
        note(NO_CONTENT)
