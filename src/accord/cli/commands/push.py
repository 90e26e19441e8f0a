"""`accord push`: send scores to tracing platforms, or write them as predictions for annotation tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from accord.cli.app import PARTLY_UNSCORED, command, stop
from accord.cli.options import ResultOptions
from accord.cli.outputs import PREDICTIONS
from accord.cli.terminal import Progress, note
from accord.edges import AccordError, BadInput, UnknownName, count_of


@command("push")
def push(
    options: ResultOptions,
    scores: Annotated[str, typer.Argument(help="Scores: .jsonl, .csv, .parquet, or a folder of parts.")],
    to: Annotated[
        list[str],
        typer.Option("--to", metavar="HOST", help="langfuse, phoenix, langsmith, label-studio or argilla; repeatable."),
    ],
    conversations: Annotated[
        list[Path] | None,
        typer.Option("--from", help="File of traces that was scored, for ids that the store lacks; repeatable."),
    ] = None,
    ids: Annotated[
        Literal["session", "trace"] | None,
        typer.Option("--ids", help="Kind of the conversations' ids, if no import recorded one."),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of the scores; default: the question.")] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="File to write for label-studio or argilla: tasks or records in JSON."),
        PREDICTIONS,
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Count what would be sent; send nothing.")] = False,
) -> None:
    """Send scores to Langfuse, Phoenix or LangSmith, or write them as predictions for Label Studio or Argilla.

    A score is sent to the session, trace or span that it is about, and again only if it has changed. Texts of
    conversations are never sent. The same command continues a run that was stopped.

    For an annotation tool, --out names a file of conversations with predictions, which the tool imports.
    """
    from accord.hosts.shared import predictions, push_file

    tool = _tool(to, out, plan)
    if tool is not None and out is not None:
        with options.open() as project, Progress("rows read") as progress:
            file = predictions.write_predictions(project, tool, scores, out, conversations or (), progress.at)
        if file.sent:
            note(file.hint)
        options.show({"hosts": [file.to_json()]}, _text)
        _stop_if_incomplete(file.is_complete, "written")
        return
    runs: list[dict[str, Any]] = []
    failures: list[AccordError] = []
    is_complete = True
    with options.open() as project:
        for host in dict.fromkeys(to):
            try:
                with Progress("rows read") as progress:
                    run = push_file.push_file(project, host, scores, conversations or (), ids, name, plan, progress.at)
            except AccordError as error:
                if len(to) == 1:
                    raise
                failures.append(error)
                runs.append({"host": host, "error": str(error)})
            else:
                is_complete = is_complete and run.is_complete
                runs.append(run.to_json())
    options.show({"hosts": runs}, _text)
    if failures:
        stop(failures[0].for_commands, failures[0].exit_code)
    _stop_if_incomplete(is_complete, "sent", plan, any(run.get("left") for run in runs))


def _tool(to: Sequence[str], out: Path | None, is_plan: bool) -> str | None:
    """Return the annotation tool of `--to`, or None for hosts.

    Raises:
        BadInput: An option does not suit the hosts.
        UnknownName: A host is unknown.
    """
    from accord.hosts.shared import predictions
    from accord.project import config_sections

    known = (*config_sections.HOSTS, *predictions.TOOLS)
    for host in to:
        if host not in known:
            raise UnknownName("host", host, known)
    tool = next((host for host in to if host in predictions.TOOLS), None)
    if tool is not None and (len(to) > 1 or is_plan):
        raise BadInput(f"--to {tool} writes a file; leave out other hosts and --plan")
    if (tool is None) != (out is None):
        raise BadInput("--out names the file of an annotation tool: accord push SCORES --to label-studio --out FILE")
    return tool


def _stop_if_incomplete(is_complete: bool, done: str, is_plan: bool = False, has_left: bool = False) -> None:
    if not is_complete:
        again = "; send those that are left by the same command" if has_left else ""
        stop(
            f"some scores {'would not be' if is_plan else 'were not'} {done}, each with its reason{again}",
            PARTLY_UNSCORED,
        )


def _text(result: Mapping[str, Any]) -> str:
    return "\n".join(line for run in result["hosts"] for line in _lines(run))


def _lines(run: Mapping[str, Any]) -> list[str]:
    if "error" in run:
        return [f"{run['host']}: {run['error']}"]
    if "out" in run:
        place = f" in {run['out']}" if run["sent"] else f"; {run['out']} was not written"
        lines = [f"{count_of(run['sent'], 'prediction')} of {count_of(run['rows'], 'row')}{place}"]
        return [*lines, *(f"  {count} left out: {reason}" for reason, count in run["skipped"].items())]
    verb = "would be sent" if run["is_plan"] else "sent"
    about = ", ".join(f"{count} about {kind}s" for kind, count in run["kinds"].items())
    lines = [f"{run['host']}: {count_of(run['sent'], 'score')} {verb} of {count_of(run['rows'], 'row')}"]
    lines += [f"  {about}"] if about else []
    lines += [f"  {run['unchanged']} sent before and unchanged"] if run["unchanged"] else []
    lines += [f"  {count} not sent: {reason}" for reason, count in run["skipped"].items()]
    lines += [f"  {count} {reason}" for reason, count in run["refused"].items()]
    lines += [f"  {run['left']} left: {run['problem'] or 'stopped'}"] if run["left"] else []
    return lines
