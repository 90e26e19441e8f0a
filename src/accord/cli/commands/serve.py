"""`accord serve`: pages in the browser, and live scoring over HTTP."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from accord.cli.app import command
from accord.cli.options import (
    Annotator,
    AskModels,
    ConfigFile,
    EvaluatorFolder,
    Host,
    HostNames,
    Monitoring,
    Port,
    RowsOutIfNamed,
    Setting,
    evaluator_folder,
    note_broken_studies,
    note_sign_in_link,
    open_project,
    server_url,
)
from accord.cli.terminal import note

if TYPE_CHECKING:
    from accord.live import App
    from accord.project import Project


@command("serve")
def serve(
    evaluator: EvaluatorFolder = None,
    annotator: Annotator = None,
    host: Host = "127.0.0.1",
    port: Port = 8700,
    name: HostNames = None,
    out: RowsOutIfNamed = None,
    conversations: Annotated[
        int, typer.Option("--conversations", min=1, help="Maximum number of conversations in memory.")
    ] = 10_000,
    minutes: Annotated[
        float, typer.Option("--minutes", min=0.1, help="Time after its last message that a conversation is in memory.")
    ] = 60.0,
    max_body: Annotated[
        float, typer.Option("--max-body", min=0.001, max=1024, help="Maximum size of a request in MB.")
    ] = 4.0,
    proxy: Annotated[
        list[str] | None,
        typer.Option("--proxy", help="Address of a proxy whose X-Forwarded-For and -Proto are trusted; repeatable."),
    ] = None,
    watch: Monitoring = True,
    ask: AskModels = False,
    settings: Setting = None,
    config_file: ConfigFile = None,
) -> None:
    """Serve the studies of accord.yaml to annotators, and score messages live.

    Pages: / is for users added with `accord users add`. Without users, the server is reachable from this machine only,
    and prints a sign-in link that works in one browser. /board shows all scores to leads.

    Live scoring: POST /v1/scores, OpenTelemetry at /v1/traces, Prometheus at /metrics, API description at /docs.
    Clients send `Authorization: Bearer TOKEN` with the token of the environment variable ACCORD_TOKEN, or the token
    printed at start. If the evaluator cannot score live, these paths answer 503 with the reason, and the pages work.

    SIGTERM stops the server after the requests under way. For more throughput, run several processes behind a proxy:
    examples/deploy.
    """
    from accord.edges import BadInput, register_secret
    from accord.live import (
        check_installed,
        checked_proxies,
        checked_token,
        combine_apps,
        exposure,
        make_app,
        open_service,
        scoring_problem,
        unavailable_app,
    )
    from accord.live import serve as run_server

    check_installed()
    with open_project(config_file, settings, creates=True) as project, ExitStack() as stack:
        folder, names, proxies = evaluator_folder(project, evaluator), name or (), checked_proxies(proxy or ())
        problem = scoring_problem(project, folder, ask)
        if problem is not None and evaluator is not None and not evaluator.exists():
            raise BadInput(problem)
        exposed, env_token = exposure(host, names, proxies), os.environ.get("ACCORD_TOKEN") or None
        missing_token = "live scoring needs a token there: set ACCORD_TOKEN" if exposed and not env_token else None
        pages = _pages(project, server_url(host, port), [host, *names], exposed, stack, problem or missing_token)
        token = checked_token(env_token, exposed if problem is None else "")
        if env_token is None and problem is None:
            note(f"token of live scoring until this server stops (set ACCORD_TOKEN to choose one): {token}")
        register_secret(token)
        body, loopback_only = int(max_body * 2**20), env_token is None and not exposed
        if problem is not None:
            scores: App = unavailable_app(problem, token, body, loopback_only=loopback_only)
            note(f"live scoring is off, its addresses answer 503: {problem}")
        else:
            service = stack.enter_context(
                open_service(project, folder, annotator, out, conversations, minutes * 60, watch, ask, note)
            )
            scores = make_app(service, token, body, loopback_only=loopback_only)
            note(f"serving {service.ingestor.scorer.signature} at {server_url(host, port)}/docs")
        run_server(combine_apps(scores, pages), host, port, proxies)
    note("stopped; answers are kept" if project.config.studies else "stopped")


def _pages(
    project: Project, url: str, names: Sequence[str], exposed: str, stack: ExitStack, scoring_problem: str | None
) -> App | None:
    """Open the pages, and print their address, the sign-in link and the studies that cannot be opened.

    Without user accounts, pages are not served to other machines: a project without studies then serves live scoring
    only, which a token protects.

    Args:
        project: The project.
        url: URL of the server on this machine.
        names: Host names of the server.
        exposed: Option that makes the server reachable from other machines, or an empty text.
        stack: Closes the pages.
        scoring_problem: Reason why live scoring is not served, or `None`.

    Raises:
        BadInput: Other machines reach the server, there are no user accounts, and live scoring cannot be served alone.
    """
    from accord.edges import BadInput
    from accord.web import WorkbenchContext, workbench_app

    try:
        bench = WorkbenchContext(project, exposed)
    except BadInput as error:
        if project.config.studies or scoring_problem:
            raise BadInput(f"{error}. {scoring_problem}" if scoring_problem else str(error)) from None
        note("the workbench is off, because there are no users: accord users add NAME --role lead")
        return None
    stack.callback(bench.close)
    pages: App = workbench_app(bench, frozenset(map(str.lower, names)))
    note_broken_studies(bench)
    note(f"studies at {url}/: {', '.join(bench.sessions) or 'none'}; the board at /board")
    note_sign_in_link(bench, url)
    return pages
