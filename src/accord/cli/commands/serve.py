"""`accord serve`: the workbench in the browser, and live scoring over HTTP."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from accord.cli.app import command
from accord.cli.options import (
    Annotator,
    Asks,
    ConfigFile,
    EvaluatorFolder,
    IsWatched,
    RowsOutIfNamed,
    Setting,
    evaluator_folder,
    note_broken_studies,
    note_sign_in_link,
    open_project,
    site_of,
)
from accord.cli.terminal import note

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
            "--host", help="Address to listen on. Beyond this machine, pages need users and scoring needs ACCORD_TOKEN."
        ),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=1, max=65535)] = 8700,
    name: Annotated[
        list[str] | None,
        typer.Option("--name", help="Host name that browsers use beyond this machine; may be given more than once."),
    ] = None,
    out: RowsOutIfNamed = None,
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
    """Serve the studies of accord.yaml to annotators, and score messages live.

    Pages: / for users added with `accord users add`. Without users, only this machine is served, and the sign-in link
    that is printed lets one browser in. /board, with all scores, is for leads.
    Scores: POST /v1/scores, OpenTelemetry at /v1/traces, figures at /metrics, /docs. Clients send the token from the
    environment variable ACCORD_TOKEN, or the one printed at start, as Authorization: Bearer TOKEN. If the evaluator
    cannot score live, these addresses answer 503 with the reason, and the pages work.
    SIGTERM stops the server after the requests under way.
    """
    from accord.edges import BadInput, register_secret
    from accord.live import (
        Opening,
        check_installed,
        checked_proxies,
        checked_token,
        exposure,
        make_app,
        opened_service,
        scoring_problem,
        serve_workers,
        together,
        unavailable_app,
    )
    from accord.live import serve as listen

    check_installed()
    with open_project(config_file, settings, creates=True) as project, ExitStack() as open_:
        config, folder = project.config, evaluator_folder(project, evaluator)
        names, proxies = name or (), checked_proxies(proxy or ())
        opening = Opening(
            config, folder, annotator, out, conversations, minutes * 60, watch, ask, body=int(max_body * 2**20),
            proxies=proxies,
        )  # fmt: skip
        problem = scoring_problem(opening, project)
        if problem is not None and evaluator is not None and not evaluator.exists():
            raise BadInput(problem)
        exposed, given = exposure(host, names, proxies), os.environ.get("ACCORD_TOKEN") or None
        unserved = problem or (None if given or not exposed else "live scoring needs a token there: set ACCORD_TOKEN")
        pages = _pages(project, site_of(host, port), [host, *names], exposed, open_, unserved)
        token = checked_token(given, exposed if problem is None else "")
        opening = replace(opening, token=token, loopback_only=given is None and not exposed)
        if given is None and problem is None:
            note(f"token of live scoring until this server stops, if ACCORD_TOKEN sets none: {token}")
        register_secret(token)
        if problem is not None:
            app = unavailable_app(problem, token, opening.body, loopback_only=opening.loopback_only)
            note(f"live scoring is off, its addresses answer 503: {problem}")
            listen(together(app, pages), host, port, proxies)
        elif workers > 1:
            note(f"serving {folder} by {workers} workers at {site_of(host, port)}/docs")
            serve_workers(opening, workers, host, port, pages, note)
        else:
            service = open_.enter_context(opened_service(opening, project, note))
            scores = make_app(service, token, opening.body, loopback_only=opening.loopback_only)
            note(f"serving {service.ingestor.scorer.signature} at {site_of(host, port)}/docs")
            listen(together(scores, pages), host, port, proxies)
    note("stopped; answers are kept" if config.studies else "stopped")


def _pages(
    project: Project, site: str, names: Sequence[str], exposed: str, open_: ExitStack, unserved: str | None
) -> App | None:
    """Open the workbench, and print its address, its sign-in link and the studies that cannot be opened.

    Without user accounts, no workbench is served to other machines: a project without studies serves live scoring,
    which has a token, alone.

    Args:
        project: The project.
        site: The URL of the server on this machine.
        names: Host names of the server.
        exposed: The option that makes the server reachable from other machines, or an empty text.
        open_: Closes the workbench.
        unserved: The reason why live scoring is not served, or `None`.

    Raises:
        BadInput: Other machines reach the server, there are no user accounts, and live scoring cannot be served alone.
    """
    from accord.edges import BadInput
    from accord.web import WorkbenchContext, workbench_app

    try:
        bench = WorkbenchContext(project, exposed)
    except BadInput as error:
        if project.config.studies or unserved:
            raise BadInput(f"{error}. {unserved}" if unserved else str(error)) from None
        note("the workbench is off, because there are no users: accord users add NAME --role lead")
        return None
    open_.callback(bench.close)
    pages: App = workbench_app(bench, frozenset(map(str.lower, names)))
    note_broken_studies(bench)
    note(f"studies at {site}/: {', '.join(bench.sessions) or 'none'}; the board at /board")
    note_sign_in_link(bench, site)
    return pages
