"""`accord follow`: score a log as it grows."""

from __future__ import annotations

import signal
from pathlib import Path
from threading import Event
from typing import Annotated

import typer

from accord.cli.app import PARTLY_UNSCORED, command
from accord.cli.app import stop as end
from accord.cli.options import (
    Annotator,
    Asks,
    ConfigFile,
    EvaluatorFolder,
    Format,
    IsWatched,
    RowsOut,
    Setting,
    evaluator_folder,
    open_project,
)
from accord.cli.outputs import CHECKED_BY_COMMAND
from accord.cli.terminal import Progress, note, say


@command("follow")
def follow(
    log: Annotated[Path, typer.Argument(help="Log of JSON lines: messages, or conversations so far.")],
    out: RowsOut,
    place: Annotated[
        Path | None,
        typer.Option("--place", help="File that notes how far the log was read; default: OUT.place."),
        CHECKED_BY_COMMAND,
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Stop at the present end of the log.")] = False,
    every: Annotated[float, typer.Option("--every", min=0.01, help="Seconds between looks at the log.")] = 0.5,
    evaluator: EvaluatorFolder = None,
    annotator: Annotator = None,
    watch: IsWatched = True,
    ask: Asks = False,
    format: Format = "auto",
    settings: Setting = None,
    config_file: ConfigFile = None,
) -> None:
    """Score every reply in a log once, rotated files included, continuing where it stopped; SIGTERM or Ctrl-C ends it.

    What was lost before it was read (a rotated file deleted, a log cut short) is noted; it then ends with exit code 5.
    """
    from accord.live import Follower, RowLog, opened

    noted = place or out.with_name(out.name + ".place")
    stop = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    if not once and not log.exists():
        note(f"waiting for {log}")
    with (
        open_project(config_file, settings, creates=True) as project,
        RowLog(out) as rows,
        Progress("lines read") as progress,
    ):
        folder = evaluator_folder(project, evaluator)
        store = project.store if watch else None
        models = project.models if ask else None
        config, mart = project.config, project.mart if watch else None
        about = (folder, annotator, None, store, config.monitoring, note)
        with opened(*about, models=models, limits=config.live, mart=mart) as ingestor:
            follower = Follower(log, ingestor, rows, noted, format, stop, note)
            lines = follower.run(once, every, progress.at)
    say(f"{lines} lines read; scores in {out}, the place in {noted}")
    if follower.gaps:
        end("some replies could not be found and stay unscored, as noted above", PARTLY_UNSCORED)
