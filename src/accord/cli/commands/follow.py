"""`accord follow`: score a growing log."""

from __future__ import annotations

import signal
from pathlib import Path
from threading import Event
from typing import Annotated

import typer

from accord.cli.app import PARTLY_UNSCORED, command, stop
from accord.cli.options import (
    Annotator,
    AskModels,
    ConfigFile,
    EvaluatorFolder,
    Format,
    Monitoring,
    RowsOut,
    Setting,
    evaluator_folder,
    open_project,
)
from accord.cli.outputs import CHECKED_BY_COMMAND
from accord.cli.terminal import Progress, note, say


@command("follow")
def follow(
    log: Annotated[Path, typer.Argument(help="Log of JSON lines (messages or conversations); - for standard input.")],
    out: RowsOut,
    position: Annotated[
        Path | None,
        typer.Option("--position", help="File that stores how far the log was read; default: OUT.position."),
        CHECKED_BY_COMMAND,
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Stop at the current end of the log.")] = False,
    interval: Annotated[
        float, typer.Option("--interval", min=0.01, help="Seconds between checks for new lines.")
    ] = 0.5,
    evaluator: EvaluatorFolder = None,
    annotator: Annotator = None,
    watch: Monitoring = True,
    ask: AskModels = False,
    format: Format = "auto",
    settings: Setting = None,
    config_file: ConfigFile = None,
) -> None:
    """Score every reply of a log once, and continue after a restart; SIGTERM or Ctrl-C stops the command.

    The log may be renamed and created again, or truncated, while the command runs. If lines may have been lost, the
    command prints a note and ends with exit code 5.
    """
    from accord.live import LogFollower, RowLog, open_ingestor

    position_path = position or out.with_name(f"{out.name}.position")
    stop_event = Event()
    if log == Path("-"):  # a read that blocks ends with an exception only
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    else:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop_event.set())
        if not once and not log.exists():
            note(f"waiting for {log}")
    with (
        open_project(config_file, settings, creates=True) as project,
        RowLog(out) as rows,
        Progress("lines read") as progress,
        open_ingestor(
            evaluator_folder(project, evaluator),
            annotator,
            store=project.store if watch else None,
            watching=project.config.monitoring,
            log=note,
            models=project.models if ask else None,
            limits=project.config.live,
            mart=project.mart if watch else None,
        ) as ingestor,
    ):
        follower = LogFollower(log, ingestor, rows, position_path, format, stop_event, note)
        lines = follower.run(once, interval, progress.at)
    say(f"{lines} lines read; scores in {out}, position in {position_path}")
    if follower.gaps:
        stop("some lines of the log may have been lost, as noted above", PARTLY_UNSCORED)
