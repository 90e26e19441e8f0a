"""`accord import`: conversations, labels and annotations from files into the store."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    RaterColumns,
    Roles,
    SkipBadRows,
    Unnamed,
    are_positions,
    column_map,
    open_project,
    role_map,
)
from accord.cli.show import Progress, imported_text, note, show

if TYPE_CHECKING:
    from accord.project import Survey


@command("import")
def import_(
    sources: Annotated[
        list[Path],
        typer.Argument(
            help="Files of conversations, labels, exported annotations and recorded judgements, or folders of them."
        ),
    ],
    labels: LabelColumns = None,
    raters: RaterColumns = None,
    unnamed: Unnamed = False,
    roles: Roles = None,
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

    Recorded judgements become the judge in accord.yaml, if it names none. Labels on questions that the rubric does not
    ask are stored too, and reported with the command that adds them.
    """
    from accord.project import (
        MOST_SURVEYED,
        Reading,
        files_in,
        found_reading,
        import_files,
        recordings_among,
        register_recordings,
        survey,
        workers_here,
    )
    from accord.report import positions_said

    passed: list[str] = []
    named = column_map(columns)
    with open_project(config_file) as project:
        files = files_in(sources, passed)
        recorded = recordings_among(files)
        files = [path for path in files if path not in recorded or path.is_dir()]
        most = None if labels or raters else MOST_SURVEYED
        found = survey(files, format, named, labels or (), raters=raters or (), most=most, skips=True)
        unnamed = unnamed or are_positions(lambda: found.positions)
        reading = found_reading(found, project.rubric, Reading(unnamed=unnamed, roles=role_map(roles)))
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
        registered = register_recordings(recorded, config_file) if recorded else None
        result = {**done.to_json(), "recorded": {} if registered is None else registered.models}
        show(result, as_json, imported_text)
    for sentence in [
        *(f"passed over: {reason}" for reason in passed),
        *_column_notes(found, reading.beside or (), labels, sources),
        *([] if registered is None else [registered.message]),
    ]:
        note(sentence)
    if result["other_questions"]:
        options = [*_options("--labels", labels), *_options("--rater", raters), *_options("--columns", columns)]
        note(
            f"the rubric does not ask {', '.join(result['other_questions'])}. To add questions for these labels: "
            f"{_command('accord init --from', sources[:1], *_options('--from', sources[1:]), *options)}"
        )
    if result["positions"] and not unnamed:
        note(positions_said(result["positions"]))
    _check_traces(result)
    if len(result["roles"]) > 1:
        note(
            f"conversations without an assistant: {', '.join(result['roles'])} speak; whoever speaks last is scored. "
            "To say who is who: --role NAME=assistant, in a store of its own"
        )


def _column_notes(
    found: Survey, beside: Sequence[str], labels: Sequence[str] | None, sources: Sequence[Path]
) -> Iterator[str]:
    """Sentences on columns that were read as labels by a guess, and on columns that could have been."""
    chosen = [name for name in found.beside if name in beside]
    if found.raters or found.apart:
        yield from found.said
    elif chosen and not labels:
        yield f"columns read as labels: {', '.join(chosen)} (--labels NAME for others, --labels none for none)"
    could_be = [name for name in (*found.guessed, *found.could_be) if not labels and name not in beside]
    if could_be:
        raters = _options("--rater", [name for name in found.may_be_raters if name in could_be])
        by_person = (
            f"; if each holds one person's ratings: {_command('accord import', sources, *raters)}" if raters else ""
        )
        yield (
            f"columns with values on a scale, not read as labels: {', '.join(could_be)}. To read them: "
            f"{_command('accord import', sources, *_options('--labels', could_be))}{by_person}"
        )


def _options(option: str, values: Iterable[str | Path] | None) -> list[str]:
    return [part for value in values or () for part in (option, str(value))]


def _command(start: str, paths: Iterable[Path], *options: str) -> str:
    return " ".join([start, *(shlex.quote(str(part)) for part in (*paths, *options))])


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
