"""`accord serve`: the workbench in the browser, and live scoring over HTTP."""

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
        str,
        typer.Option(
            "--host", help="Where to listen; beyond this machine scoring needs ACCORD_TOKEN, rating accord users add."
        ),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=1, max=65535)] = 8700,
    name: Annotated[
        list[str] | None,
        typer.Option("--name", help="Host name that browsers use beyond this machine; may be given more than once."),
    ] = None,
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
    """Serve the studies of accord.yaml to those who rate, and score messages as they are said.

    Pages: / for whoever was added with `accord users add`; on this machine, where nobody was added, for you alone.
    Scores: POST /v1/scores, OpenTelemetry at /v1/traces, figures at /metrics, /docs; their token is the environment
    variable ACCORD_TOKEN. Without an evaluator the studies are served alone. SIGTERM stops it when what is under way is
    finished.
    """
    from contextlib import ExitStack
    from functools import partial

    from accord.live import Service, check_installed, checked_binding, make_app, opened, report
    from accord.live import serve as listen

    check_installed()
    token = os.environ.get("ACCORD_TOKEN") or None
    with open_project(config_file) as project, ExitStack() as open_:
        config, folder = project.config, evaluator or project.folder()
        scores = pages = None
        if evaluator is not None or not config.studies or folder.exists():
            checked_binding(host, token)
            store, models = project.store if watch else None, project.models if ask else None
            about = (annotator, out, store, config.watch, note, conversations, minutes * 60, models, config.live)
            ingestor = open_.enter_context(opened(folder, *about))
            watched = None if ingestor.watch is None else partial(report, project.store, before=ingestor.watch.flush)
            scores = make_app(Service(ingestor, watched, say=note), token, int(max_body * 2**20))
            note(f"serving {ingestor.scorer.signature} at http://{host}:{port}/docs")
        if config.studies:
            from accord.workbench import Bench, workbench_app

            bench = Bench(project, host)
            open_.callback(bench.close)
            pages = workbench_app(bench, frozenset(map(str.lower, [host, *(name or ())])))
            note(f"studies at http://{host}:{port}/: {', '.join(bench.open)}")
        if pages is None or scores is None:
            listen(pages or scores, host, port)  # type: ignore[arg-type]
        else:
            from accord.workbench import together

            listen(together(scores, pages), host, port)
    note("stopped; answers are kept" if config.studies else "stopped")
