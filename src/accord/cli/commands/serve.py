"""`accord serve`: score live messages over HTTP."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from accord.cli.app import command
from accord.cli.options import (
    Annotator,
    Asks,
    ConfigFile,
    EvaluatorFolder,
    IsWatched,
    RowsOut,
    open_project,
)
from accord.cli.show import note


@command("serve")
def serve(
    evaluator: EvaluatorFolder = None,
    annotator: Annotator = None,
    host: Annotated[
        str, typer.Option("--host", help="Where to listen; beyond this machine ACCORD_TOKEN is needed.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=1, max=65535)] = 8700,
    out: Annotated[Path | None, RowsOut] = None,
    conversations: Annotated[
        int, typer.Option("--conversations", min=1, help="The most that are remembered.")
    ] = 10_000,
    minutes: Annotated[float, typer.Option("--minutes", min=0.1, help="How long after their last message.")] = 60.0,
    max_body: Annotated[
        float, typer.Option("--max-body", min=0.001, max=1024, help="MB that a request may have.")
    ] = 4.0,
    watch: IsWatched = True,
    ask: Asks = False,
    config_file: ConfigFile = None,
) -> None:
    """Score messages as they are said: POST /v1/scores, OpenTelemetry at /v1/traces, figures at /metrics, /docs.

    Its token is the environment variable ACCORD_TOKEN. SIGTERM stops it when what is under way is finished.
    """
    from functools import partial

    from accord.live import Service, check_installed, checked_binding, make_app, opened, report
    from accord.live import serve as listen

    check_installed()
    token = os.environ.get("ACCORD_TOKEN") or None
    checked_binding(host, token)
    with open_project(config_file) as project:
        folder = evaluator or project.folder()
        store = project.store if watch else None
        models = project.models if ask else None
        config = project.config
        with opened(
            folder, annotator, out, store, config.watch, note, conversations, minutes * 60, models, config.live
        ) as ingestor:
            watched = None if ingestor.watch is None else partial(report, project.store, before=ingestor.watch.flush)
            note(f"serving {ingestor.scorer.signature} at http://{host}:{port}/docs")
            listen(make_app(Service(ingestor, watched, say=note), token, int(max_body * 2**20)), host, port)
    note("stopped")
