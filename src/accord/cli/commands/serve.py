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
    Setting,
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
    workers: Annotated[
        int,
        typer.Option("--workers", min=1, max=64, help="Processes that score; a conversation belongs to one of them."),
    ] = 1,
    proxy: Annotated[
        list[str] | None,
        typer.Option(
            "--proxy", help="Address of a proxy whose X-Forwarded-For and -Proto are believed; more than once for more."
        ),
    ] = None,
    watch: IsWatched = True,
    ask: Asks = False,
    settings: Setting = None,
    config_file: ConfigFile = None,
) -> None:
    """Serve the studies of accord.yaml to those who rate, and score messages as they are said.

    Pages: / for whoever was added with `accord users add`; on this machine, where nobody was added, for you alone;
    /board, which shows all scores, for those who lead.
    Scores: POST /v1/scores, OpenTelemetry at /v1/traces, figures at /metrics, /docs; their token is the environment
    variable ACCORD_TOKEN. Without an evaluator the studies are served alone. SIGTERM stops it when what is under way is
    finished.
    """
    from contextlib import ExitStack

    from accord.live import (
        Opening,
        check_installed,
        checked_binding,
        checked_proxies,
        is_loopback,
        make_app,
        opened_service,
        serve_workers,
        together,
    )
    from accord.live import serve as listen
    from accord.values import BadInput

    check_installed()
    token = os.environ.get("ACCORD_TOKEN") or None
    with open_project(config_file, settings, creates=True) as project, ExitStack() as open_:
        config, folder = project.config, evaluator or project.folder()
        is_scoring = evaluator is not None or not config.studies or folder.exists()
        proxies = checked_proxies(proxy or ())
        if is_scoring:
            checked_binding(host, token)
        elif workers > 1:
            from accord.values import BadInput

            raise BadInput(
                "--workers score; there is no evaluator yet, and pages are served by one process: accord fit"
            )
        pages = None
        if config.studies or is_loopback(host):  # the board is there without a study too
            from accord.workbench import Bench, workbench_app

            bench = Bench(project, host)
            open_.callback(bench.close)
            pages = workbench_app(bench, frozenset(map(str.lower, [host, *(name or ())])))
            note(f"studies at http://{host}:{port}/: {', '.join(bench.open) or 'none'}; the board at /board")
        opening = Opening(
            config, folder, annotator, out, conversations, minutes * 60, watch, ask, token, int(max_body * 2**20),
            proxies,
        )  # fmt: skip
        if workers > 1:
            note(f"serving {folder} by {workers} workers at http://{host}:{port}/docs")
            serve_workers(opening, workers, host, port, pages, note)
        elif is_scoring:
            service = open_.enter_context(opened_service(opening, project, note))
            scores = make_app(service, token, opening.body)
            note(f"serving {service.ingestor.scorer.signature} at http://{host}:{port}/docs")
            listen(scores if pages is None else together(scores, pages), host, port, proxies)
        elif pages is not None:
            listen(pages, host, port, proxies)
    note("stopped; answers are kept" if config.studies else "stopped")
