"""`accord import`: conversations, labels and annotations from files into the store, and imports taken back."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    command_line,
    open_project,
    role_map,
)
from accord.cli.show import Progress, imported_text, note, show, table

if TYPE_CHECKING:
    from accord.store import Store
    from accord.values import Rubric


@command("import")
def import_(
    sources: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FILE]...", help="Files of conversations, labels and exported annotations, or folders of them."
        ),
    ] = None,
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
    replace: Annotated[
        bool, typer.Option("--replace", help="Undo the earlier import of each file, then read it: for corrected files.")
    ] = False,
    undo: Annotated[
        bool,
        typer.Option("--undo", help="Undo the import with this id (--undo ID), or the last one."),
    ] = False,
    lists: Annotated[bool, typer.Option("--list", help="List the imports with their ids; read nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Read conversations, labels and exported annotations into the store. Running it again adds nothing twice.

    Labels without a question in the rubric are an error that names the command to write such a rubric. Each import has
    an id. --undo removes its labels and conversations, except rows of other imports and conversations that people rated
    in the workbench. Answers of the workbench and of models always stay.
    """
    from accord.project import Reading, files_in, import_files, is_recording, survey, workers_here

    if lists or undo:
        _show_imports(config_file, settings, as_json) if lists else _undo(sources or (), config_file, settings, as_json)
        return
    if not sources:
        raise typer.BadParameter("name the files to import, such as: accord import chats.jsonl labels.csv")
    passed: list[str] = []
    named = column_map(columns)
    with open_project(config_file, settings, creates=True) as project:
        _check_asked(project.rubric, labels or (), sources, columns)
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
        with Progress("rows read") as progress, _noting_what_stays(project.store):
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
                replace,
            )
        result = done.to_json()
        show(result, as_json, _text)
    for reason in [*(f"passed over: {reason}" for reason in passed), *result["other_files"]]:
        note(reason)
    _note_next(result, sources, columns, unnamed)
    _check_traces(result)
    if len(result["roles"]) > 1:
        note(
            f"conversations without an assistant: {', '.join(result['roles'])} speak; whoever speaks last is scored. "
            "To say who is who: --role NAME=assistant, in a store of its own"
        )


def _check_asked(rubric: Rubric, labels: Sequence[str], sources: Sequence[Path], columns: list[str] | None) -> None:
    """Refuse columns of labels that the rubric has no question for.

    Raises:
        BadInput: Names the first, and the command that writes a rubric for it.
    """
    from accord.values import BadInput

    unasked = next((name for name in labels if rubric.get(name) is None), None)
    if unasked is not None:
        asked = ", ".join(question.id for question in rubric.questions)
        command = command_line("accord init --from", [sources[0]], [unasked], columns)
        raise BadInput(f"the rubric does not ask {unasked!r}; it asks {asked}. Write one that does: {command}")


def _note_next(result: Mapping[str, Any], sources: Sequence[Path], columns: list[str] | None, unnamed: bool) -> None:
    """Print notes on unread labels, with the commands that read them."""
    from accord.report import positions_said

    if result["other_questions"]:
        command = command_line("accord init --from", sources, (), columns)
        note(f"a rubric that asks what these labels answer: {command}")
    if result["beside"]:
        names = list(result["beside"])
        command = command_line("accord import", sources, names, columns)
        note(f"columns {', '.join(names)} match the rubric; to read them as labels: {command}")
    if result["positions"] and not unnamed:
        note(positions_said(result["positions"]))


def _text(result: Mapping[str, Any]) -> str:
    lines = [imported_text(result)]
    replaced = result["replaced"]
    if any(replaced.values()):
        lines.insert(0, f"replaced the earlier import: {_removed_text(replaced)}")
    if result["id"] is not None:
        lines.append(f"import {result['id']}; to take it back: accord import --undo {result['id']}")
    return "\n".join(lines)


@contextmanager
def _noting_what_stays(store: Store) -> Iterator[None]:
    """Note the id of an import that failed halfway, since the rows that it read before stay."""
    from accord.store import Imports
    from accord.values import BadInput

    before = {each.id for each in Imports(store).known()}
    try:
        yield
    except BadInput:
        for each in Imports(store).known():
            if each.id not in before:
                note(f"the rows before the bad one are import {each.id}; remove them: accord import --undo {each.id}")
        raise


def _show_imports(config_file: Path | None, settings: list[str] | None, as_json: bool) -> None:
    from accord.store import Imports

    with open_project(config_file, settings) as project:
        found = [each.to_json() for each in Imports(project.store).known()]
    show({"imports": found}, as_json, lambda _: _imports_text(found))


def _imports_text(found: Sequence[Mapping[str, Any]]) -> str:
    if not found:
        return "no imports yet"
    rows = [
        [
            each["id"],
            each["started"][:19],
            *(str(each["results"].get(kind, {}).get("new", "–")) for kind in ("conversations", "labels")),
            each["status"],
            ", ".join(Path(file).name for file in each["files"]),
        ]
        for each in found
    ]
    return table(["import", "started (UTC)", "conversations", "labels", "status", "files"], rows)


def _undo(names: Sequence[Path], config_file: Path | None, settings: list[str] | None, as_json: bool) -> None:
    from accord.store import Imports
    from accord.values import BadInput

    if len(names) > 1:
        raise BadInput(f"--undo takes one id, got {len(names)}. List them with: accord import --list")
    with open_project(config_file, settings) as project:
        found, removed = Imports(project.store).undo(str(names[0]) if names else None)
    result = {"undone": found.id, "files": list(found.files), "removed": removed._asdict()}
    show(result, as_json, lambda _: _undone_text(result))


def _undone_text(result: Mapping[str, Any]) -> str:
    names = ", ".join(Path(file).name for file in result["files"])
    return f"import {result['undone']} of {names} undone: {_removed_text(result['removed'])}"


def _removed_text(removed: Mapping[str, int]) -> str:
    kept = {
        "confirmed": "rows stay, since another import has them too",
        "kept_conversations": "conversations stay, since people rated them otherwise or have them to rate",
        "kept_answers": "answers of models stay",
    }
    said = [f"{removed['conversations']} conversations and {removed['labels']} labels removed"]
    return "; ".join([*said, *(f"{removed[name]} {why}" for name, why in kept.items() if removed[name])])


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
