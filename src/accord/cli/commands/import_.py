"""`accord import`: conversations, labels, annotations and runs of scores into the store, and back; `accord export`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from accord.cli.app import command
from accord.cli.options import (
    Anonymous,
    LabelOptions,
    ReadingOptions,
    ResultOptions,
    StatisticsOptions,
    are_positions,
    column_map,
    command_line,
)
from accord.cli.outputs import EXPORTED
from accord.cli.terminal import Progress, note, table
from accord.edges import BadInput, count_of


@command("import")
def import_(
    answers: LabelOptions,
    reading: ReadingOptions,
    options: ResultOptions,
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="files",
            help="Files of conversations, labels, exported annotations and recorded judgments, or folders; "
            "also folders of scores, here or s3://.",
        ),
    ] = None,
    anonymous: Anonymous = False,
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
    with_erased: Annotated[
        bool, typer.Option("--with-erased", help="Import conversations and annotators again that were erased.")
    ] = False,
    lists: Annotated[bool, typer.Option("--list", help="List the imports with their ids; read nothing.")] = False,
) -> None:
    """Read conversations, labels and exported annotations into the store. Running it again adds nothing twice.

    Recorded judgments become the judge in accord.yaml, if it names none, or are added to its recorded judge. Labels on
    questions that the rubric does not ask are stored too, and reported with the command that adds them. A folder of
    scores, by `accord score --out FOLDER` on any machine, is added to the board. Each import of other files has an id.
    --undo removes its labels, its conversations and the judgments that it wrote, except rows of other imports,
    conversations that people rated in the workbench, and changed files. Answers of the workbench and of models always
    stay.
    """
    from accord.formats import parse_orders
    from accord.project import (
        MOST_SURVEYED,
        ImportOptions,
        column_notes,
        default_workers,
        files_in,
        find_recordings,
        import_files,
        keep_judgements,
        note_judgements,
        restore_scores,
        set_orders,
        survey_files,
        survey_options,
    )

    if lists:
        return _show_imports(options)
    if undo:
        return _undo(sources or (), options)
    if not sources:
        raise typer.BadParameter("name the files to import, such as: accord import chats.jsonl labels.csv")
    runs = [each for each in sources if _is_run(each)]
    sources = [each for each in sources if each not in runs]
    if runs and not sources:
        return _import_runs(runs, options)
    passed: list[str] = []
    roles, (labels, raters, judges) = reading.role_map, answers.named_columns
    with options.open(creates=True) as project:
        project.store.restores_erased = with_erased
        named = column_map(reading.columns, project.rubric)
        files = files_in(sources, passed)
        reads_all = bool(labels or raters or answers.orders)
        survey = survey_files(
            files, reading.format, named, labels, raters=raters, limit=None if reads_all else MOST_SURVEYED,
            skips_unreadable=True, judges=judges,
            command=command_line("accord import", sources, labels, reading.columns, raters, judges=judges),
        )  # fmt: skip
        set_orders(survey.questions, parse_orders(answers.orders), project.rubric)
        recorded = find_recordings(files, survey.recordings)
        files = [path for path in files if path not in recorded or path.is_dir()]
        anonymous = anonymous or are_positions(lambda: survey.positions)
        columns = survey_options(survey, project.rubric, ImportOptions(is_anonymous=anonymous, roles=roles))
        with Progress("rows read") as progress:
            done = import_files(
                project.store, project.rubric, files, reading.format, named, reading.skip_bad_rows, progress.at,
                columns, workers or default_workers(), replace, survey,
            )  # fmt: skip
        restore_scores(project)
        added = {folder: project.add_scores(folder) for folder in runs}
        registered = keep_judgements(done.judged, options.config_file, recorded)
        note_judgements(project.store, done.id, registered)
        models, message = ({}, ()) if registered is None else (registered.models, (registered.message,))
        result = {**done.to_json(), "recorded": models, "judges": {**models, **done.judged.judges}, "scores": added}
        options.show(result, _text)
    note(
        *(f"skipped: {reason}" for reason in passed),
        *column_notes(survey, columns.rating_columns or (), labels, partial(command_line, "accord import", sources)),
        *message,
    )
    init = command_line(
        "accord init --from", sources[:1], labels, reading.columns, raters, sources[1:], judges, answers.orders
    )
    _note_guesses(result, init, anonymous)
    _check_traces(result)
    note(*done.counts.turn_notes())
    undo_first = "To import again with other roles, undo this import first: accord import --undo"
    note(*(f"{sentence}. {undo_first}" for sentence in done.counts.role_notes(roles)))


def _note_guesses(result: Mapping[str, Any], init: str, anonymous: bool) -> None:
    """Note questions that the rubric lacks, with the command that adds them, and names that may be positions."""
    from accord.project import positions_note

    if others := result["other_questions"]:
        note(f"the rubric does not ask {', '.join(others)}. To add questions for them: {init}")
    if result["positions"] and not anonymous:
        note(positions_note(result["positions"]))


def _text(result: Mapping[str, Any]) -> str:
    from accord.project import imported_text

    lines = [imported_text(result), *_added_lines(result["scores"])]
    replaced = result["replaced"]
    if any(replaced.values()):
        lines.insert(0, f"replaced the earlier import: {_removed_text(replaced)}")
    if result["id"] is not None:
        lines.append(f"import {result['id']}; to take it back: accord import --undo {result['id']}")
    return "\n".join(lines)


def _is_run(place: str) -> bool:
    """Return True for a folder of scores in parts."""
    is_url = "://" in place
    if Path(place).suffix if is_url else not (Path(place) / "manifest.json").is_file():
        return False  # without the imports of scoring; a file in object storage is not imported
    from accord.scoring import is_run

    return is_run(place)


def _import_runs(folders: Sequence[str], options: ResultOptions) -> None:
    """Add folders of scores to the board, and nothing else."""
    with options.open(creates=True) as project:
        result = {"scores": {folder: project.add_scores(folder) for folder in folders}}
    options.show(result, lambda found: "\n".join(_added_lines(found["scores"])))


def _added_lines(scores: Mapping[str, int]) -> list[str]:
    return [f"{count_of(count, 'score')} of {folder} added to the board" for folder, count in scores.items()]


def _show_imports(options: ResultOptions) -> None:
    from accord.store import Imports

    with options.open() as project:
        found = [each.to_json() for each in Imports(project.store).known()]
    options.show({"imports": found}, lambda _: _imports_text(found))


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


def _undo(names: Sequence[str], options: ResultOptions) -> None:
    from accord.project import remove_judgements
    from accord.store import Imports

    if len(names) > 1:
        raise BadInput(f"--undo takes one id, got {len(names)}. List them with: accord import --list")
    with options.open() as project:
        imports = Imports(project.store)
        found, removed = imports.undo(names[0] if names else None)
        said = remove_judgements(imports.files_of(found), options.config_file)
    result = {"undone": found.id, "files": list(found.files), "removed": removed._asdict(), "judgments": said}
    options.show(result, lambda _: _undone_text(result))


def _undone_text(result: Mapping[str, Any]) -> str:
    names = ", ".join(Path(file).name for file in result["files"])
    said = "; ".join([_removed_text(result["removed"]), *result["judgments"]])
    return f"import {result['undone']} of {names} undone: {said}"


def _removed_text(removed: Mapping[str, int]) -> str:
    kept = {
        "confirmed": "rows stay, since another import has them too",
        "kept_conversations": "conversations stay, since people rated them otherwise or have them to rate",
        "kept_answers": "answers of models stay",
    }
    conversations, labels = count_of(removed["conversations"], "conversation"), count_of(removed["labels"], "label")
    said = [f"{conversations} and {labels} removed"]
    return "; ".join([*said, *(f"{removed[name]} {why}" for name, why in kept.items() if removed[name])])


def _check_traces(result: Mapping[str, Any]) -> None:
    """Say what traces, or other rows of which nothing was read, lack."""
    from accord.formats import NO_CALL, NO_CONTENT, NO_MESSAGES, SUPPORTED_CONVENTIONS

    is_lost = NO_MESSAGES in result["ignored"]
    is_read = any(sum(result[kind].values()) for kind in ("conversations", "labels", "annotations"))
    if result["ignored"] and not is_read and not is_lost and NO_CALL not in result["ignored"]:
        raise BadInput(f"nothing was read: {', '.join(result['ignored'])}")
    if result["ignored"] and not is_read:
        raise BadInput(
            NO_CONTENT if is_lost else f"these traces hold no model call that can be read; {SUPPORTED_CONVENTIONS}"
        )
    if is_lost:
        note(NO_CONTENT)


@command("export")
def export(
    options: StatisticsOptions,
    out: Annotated[str, typer.Argument(help="The file to write: .jsonl, .csv or .parquet."), EXPORTED],
    kind: Annotated[
        list[str] | None,
        typer.Option("--kind", help="Only annotations by a person, model or metric; repeat. Default: all."),
    ] = None,
    question: Annotated[
        str | None, typer.Option("--question", help="Only answers to this question, e.g. issue:Other.")
    ] = None,
    scores: Annotated[
        str | None,
        typer.Option("--scores", metavar="FOLDER", help="Write the parts of this folder of scores, here or s3://."),
    ] = None,
) -> None:
    """Write the store's annotations to a file that `accord import` reads back: labels, judge answers, issues.

    With --scores, write a run of `accord score --out FOLDER` to one file instead, in the order of its input. Refused
    where a part is missing, or a conversation was scored twice.
    """
    from accord.project import export_annotations
    from accord.scoring import merge_parts

    if scores is not None:
        if kind or question:
            raise BadInput("--kind and --question choose annotations; leave them out, or leave out --scores")
        written = merge_parts(scores, out)
        result = {"out": out, **asdict(written), "mean": written.mean}
        options.show(result, lambda done: f"{count_of(done['rows'], 'row')} in {done['out']}")
        return
    with options.open_counted() as project:
        with Progress("annotations written") as progress:
            counts = export_annotations(project.store, Path(out), kind, progress.at, question)
        options.show({"annotations": counts, "out": out}, _export_text)


def _export_text(result: Mapping[str, Any]) -> str:
    plural = {"person": "people", "model": "models", "metric": "metrics"}
    counted = ", ".join(f"{count} by {plural[kind]}" for kind, count in result["annotations"].items())
    return f"annotations written to {result['out']}: {counted}"
