"""`accord serve`: the workbench in the browser, and live scoring over HTTP."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from accord.cli.app import command
from accord.cli.options import (
    Annotator,
    Asks,
    ConfigFile,
    EvaluatorFolder,
    IsWatched,
    RowsOut,
    note_broken_studies,
    open_project,
)
from accord.cli.show import note

if TYPE_CHECKING:
    from accord.live import App
    from accord.project import Project


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
    config_file: ConfigFile = None,
) -> None:
    """Serve the studies of accord.yaml to annotators, and score messages live.

    Pages: / for users added with `accord users add`, or for you alone on this machine while there are none;
    /board, with all scores, for leads.
    Scores: POST /v1/scores, OpenTelemetry at /v1/traces, figures at /metrics, /docs; their token is the environment
    variable ACCORD_TOKEN. If the evaluator cannot score live, these addresses answer 503 with the reason, and the pages
    work. SIGTERM stops the server after the requests under way.
    """
    from accord.live import (
        Opening,
        check_installed,
        checked_binding,
        checked_proxies,
        is_loopback,
        make_app,
        opened_service,
        scoring_problem,
        serve_workers,
        together,
        unavailable_app,
    )
    from accord.live import serve as listen
    from accord.values import BadInput

    check_installed()
    token = os.environ.get("ACCORD_TOKEN") or None
    with open_project(config_file) as project, ExitStack() as open_:
        config, folder = project.config, evaluator or project.folder()
        proxies = checked_proxies(proxy or ())
        opening = Opening(
            config, folder, annotator, out, conversations, minutes * 60, watch, ask, token, int(max_body * 2**20),
            proxies,
        )  # fmt: skip
        problem = scoring_problem(opening, project)
        has_pages = bool(config.studies) or is_loopback(host)  # the board needs no study
        if problem is None:
            checked_binding(host, token)
        elif not has_pages or (evaluator is not None and not evaluator.exists()):
            raise BadInput(problem)
        pages = _pages(project, host, port, name or (), open_) if has_pages else None
        if problem is not None:
            note(f"live scoring is off, its addresses answer 503: {problem}")
            listen(together(unavailable_app(problem, token, opening.body), pages), host, port, proxies)
        elif workers > 1:
            note(f"serving {folder} by {workers} workers at http://{host}:{port}/docs")
            serve_workers(opening, workers, host, port, pages, note)
        else:
            service = open_.enter_context(opened_service(opening, project, note))
            scores = make_app(service, token, opening.body)
            note(f"serving {service.ingestor.scorer.signature} at http://{host}:{port}/docs")
            listen(together(scores, pages), host, port, proxies)
    note("stopped; answers are kept" if config.studies else "stopped")


def _pages(project: Project, host: str, port: int, names: Sequence[str], open_: ExitStack) -> App:
    """Open the workbench, and print its address and the studies that cannot be opened."""
    from accord.workbench import Bench, workbench_app

    bench = Bench(project, host)
    open_.callback(bench.close)
    pages: App = workbench_app(bench, frozenset(map(str.lower, [host, *names])))
    note_broken_studies(bench)
    note(f"studies at http://{host}:{port}/: {', '.join(bench.open) or 'none'}; the board at /board")
    return pages
