"""`accord push`: send scores to tracing platforms."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from accord.cli.app import PARTLY_UNSCORED, command, stop
from accord.cli.options import ResultOptions
from accord.cli.terminal import Progress
from accord.edges import AccordError, count_of


@command("push")
def push(
    options: ResultOptions,
    scores: Annotated[str, typer.Argument(help="Scores: .jsonl, .csv, .parquet, or a folder of parts.")],
    to: Annotated[list[str], typer.Option("--to", metavar="HOST", help="langfuse, phoenix or langsmith; repeatable.")],
    conversations: Annotated[
        list[Path] | None,
        typer.Option("--from", help="File of traces that was scored, for ids that the store lacks; repeatable."),
    ] = None,
    ids: Annotated[
        Literal["session", "trace"] | None,
        typer.Option("--ids", help="Kind of the conversations' ids, where no import recorded one."),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of the scores; default: the question.")] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Count what would be sent; send nothing.")] = False,
) -> None:
    """Send scores to Langfuse, Phoenix or LangSmith, each to the session, trace or span that it is about.

    A score that was sent before is sent again only if it has changed. Texts of conversations are never sent. The same
    command continues a run that was stopped.
    """
    from accord.edges import UnknownName
    from accord.hosts import push_file
    from accord.project import config_sections

    for host in to:
        if host not in config_sections.HOSTS:
            raise UnknownName("host", host, config_sections.HOSTS)
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
    if not is_complete:
        stop("some scores were not sent, each with its reason; the same command sends the rest", PARTLY_UNSCORED)


def _text(result: Mapping[str, Any]) -> str:
    return "\n".join(line for run in result["hosts"] for line in _lines(run))


def _lines(run: Mapping[str, Any]) -> list[str]:
    if "error" in run:
        return [f"{run['host']}: {run['error']}"]
    verb = "would be sent" if run["is_plan"] else "sent"
    about = ", ".join(f"{count} about {kind}s" for kind, count in run["kinds"].items())
    lines = [f"{run['host']}: {count_of(run['sent'], 'score')} {verb} of {count_of(run['rows'], 'row')}"]
    lines += [f"  {about}"] if about else []
    lines += [f"  {run['unchanged']} sent before and unchanged"] if run["unchanged"] else []
    lines += [f"  {count} not sent: {reason}" for reason, count in run["skipped"].items()]
    lines += [f"  {count} {reason}" for reason, count in run["refused"].items()]
    lines += [f"  {run['left']} left: {run['problem'] or 'stopped'}"] if run["left"] else []
    return lines
