"""Pages in the browser and live scores: `accord serve`, `follow`, `watch` and `view`."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
import webbrowser
from collections.abc import Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Annotated, cast

import typer

from accord.cli.app import PARTLY_UNSCORED, command, stop
from accord.cli.options import (
    Format,
    HostOptions,
    LiveOptions,
    Port,
    ProjectOptions,
    ResultOptions,
    RowsOut,
    RowsOutIfNamed,
    broken_study_notes,
    server_url,
    sign_in_notes,
)
from accord.cli.outputs import CHECKED_BY_COMMAND
from accord.cli.terminal import Progress, figure_text, note, say, table
from accord.edges import BadInput, GateFailed, UnknownName, count_of

if TYPE_CHECKING:
    from accord.live import App, DayRow, MonitoringReport, Sink
    from accord.verbs import Project

REPORT = "report.html"
HOST, PORT = "127.0.0.1", 8700
STARTS_WITHIN = 60.0
"""Seconds within which a board that was started answers."""


@command("serve")
def serve(
    live: LiveOptions,
    address: HostOptions,
    options: ProjectOptions,
    port: Port = 8700,
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
) -> None:
    """Serve the studies of accord.yaml to annotators, and score messages live.

    Pages: / is for users added with `accord users add`. Without users, the server is reachable from this machine only,
    and prints a sign-in link that works in one browser. /board shows all scores to leads.

    Live scoring: POST /v1/scores, OpenTelemetry at /v1/traces, Prometheus at /metrics, API description at /docs.
    Clients send `Authorization: Bearer TOKEN` with the token of the environment variable ACCORD_TOKEN, or the token
    printed at start. If the evaluator cannot score live, these paths answer 503 with the reason, and the pages work.

    In a folder without a project, the first page imports conversations and creates the project.

    SIGTERM stops the server after the requests under way. For more throughput, run several processes behind a proxy:
    examples/deploy.
    """
    from accord.edges import register_secret
    from accord.live import (
        RowLog,
        anchor_rounds,
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
    from accord.project import DailyExpiry

    check_installed()
    with options.open(creates=True, starts=True) as project, ExitStack() as stack:
        folder, names, proxies = live.folder(project), address.names or (), checked_proxies(proxy or ())
        problem = scoring_problem(project, folder, live.ask)
        if problem is not None and live.evaluator is not None and not live.evaluator.exists():
            raise BadInput(problem)
        exposed, env_token = exposure(address.host, names, proxies), os.environ.get("ACCORD_TOKEN") or None
        missing_token = "live scoring needs a token there: set ACCORD_TOKEN" if exposed and not env_token else None
        url, notes = address.url(port), list[str]()
        stack.enter_context(DailyExpiry(project.config, options.open, note))
        stack.enter_context(anchor_rounds.AnchorRounds(project.config, options.open, note))
        pages = _pages(project, options, url, [address.host, *names], exposed, stack, problem or missing_token, notes)
        token = checked_token(env_token, exposed if problem is None else "")
        if env_token is None and problem is None:
            notes.append(f"token of live scoring until this server stops (set ACCORD_TOKEN to choose one): {token}")
        body, loopback_only = int(max_body * 2**20), env_token is None and not exposed
        if problem is not None:
            scores: App = unavailable_app(problem, token, body, loopback_only=loopback_only)
            notes.append(f"live scoring is off, its addresses answer 503: {problem}")
        else:
            service = stack.enter_context(
                open_service(
                    project, folder, live.annotator, conversations, minutes * 60, live.watch, live.ask, note,
                    [*_sinks(project, stack), *([] if out is None else [stack.enter_context(RowLog(out))])],
                )
            )  # fmt: skip
            scores = make_app(service, token, body, loopback_only=loopback_only)
            scorer = service.ingestor.scorer
            notes += [f"serving {scorer.signature} at {url}/docs", scorer.plausibility_text, *scorer.level_notes]

        def on_listen() -> None:
            note(*notes)
            register_secret(token)  # from now on, it is never printed

        run_server(combine_apps(scores, pages), address.host, port, proxies, on_listen)
    note("stopped; answers are kept" if project.config.studies else "stopped")


def _sinks(project: Project, stack: ExitStack) -> list[Sink]:
    """Open the receivers of live scores outside Accord: an OpenTelemetry collector, and the hosts of `push:`."""
    from accord.hosts.otel import EventSink, open_events
    from accord.hosts.shared import push_live

    events = stack.enter_context(open_events(project.config.monitoring.otel, note))
    pushers = stack.enter_context(push_live.live_pushers(project, note))
    return [*([] if events is None else [EventSink(events, project.store)]), *pushers]


def _pages(
    project: Project,
    options: ProjectOptions,
    url: str,
    names: Sequence[str],
    exposed: str,
    stack: ExitStack,
    scoring_problem: str | None,
    notes: list[str],
) -> App | None:
    """Open the pages; `notes` receives their address, the sign-in link and the studies that cannot be opened.

    Without user accounts, pages are not served to other machines: a project without studies then serves live scoring
    only, which a token protects.
    """
    from accord.values import PROJECT_FILE, find_project_file
    from accord.web import ProjectFiles, WorkbenchContext, workbench_app

    file = options.config_file or find_project_file()
    if file is None:
        file = Path(PROJECT_FILE)
        notes.append(f"no project in {Path.cwd()} yet: the first page imports conversations and creates {file}")
    try:
        bench = WorkbenchContext(project, exposed, ProjectFiles(file, options.load))
    except BadInput as error:
        if project.config.studies or scoring_problem:
            raise BadInput(f"{error}. {scoring_problem}" if scoring_problem else str(error)) from None
        notes.append("the workbench is off, because there are no users: accord users add NAME --role lead")
        return None
    stack.callback(bench.close)
    pages: App = workbench_app(bench, frozenset(map(str.lower, names)))
    notes += broken_study_notes(bench)
    notes.append(f"studies at {url}/: {', '.join(bench.sessions) or 'none'}; the board at /board")
    notes += sign_in_notes(bench, url)
    return pages


@command("follow")
def follow(
    log: Annotated[Path, typer.Argument(help="Log of JSON lines (messages or conversations); - for standard input.")],
    live: LiveOptions,
    options: ProjectOptions,
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
    format: Format = "auto",
) -> None:
    """Score every reply of a log once, and continue after a restart; SIGTERM or Ctrl-C stops the command.

    The log may be renamed and created again, or truncated, while the command runs. If lines may have been lost, the
    command prints a note and ends with exit code 5.
    """
    from accord.live import LiveContext, LogFollower, RowLog, open_ingestor

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
        options.open(creates=True) as project,
        RowLog(out) as rows,
        Progress("lines read") as progress,
        ExitStack() as stack,
        open_ingestor(
            live.folder(project), live.annotator, LiveContext.of(project, live.watch, live.ask),
            _sinks(project, stack), note, follows=log != Path("-"),
        ) as ingestor,
    ):  # fmt: skip
        note(ingestor.scorer.plausibility_text, *ingestor.scorer.level_notes)
        follower = LogFollower(log, ingestor, rows, position_path, format, stop_event, note)
        lines = follower.run(once, interval, progress.at)
    say(f"{count_of(lines, 'line')} read; scores in {out}, position in {position_path}")
    if follower.gaps:
        stop("some lines of the log may have been lost, as noted above", PARTLY_UNSCORED)


@command("watch")
def watch(
    options: ResultOptions,
    days: Annotated[int, typer.Option("--days", min=1, max=366, help="Number of days.")] = 14,
    labels: Annotated[int, typer.Option("--label-next", min=0, help="Number of replies to suggest for labeling.")] = 5,
    fail: Annotated[bool, typer.Option("--fail-on-alarm", help="Exit with code 3 if there is a new alarm.")] = False,
) -> None:
    """Show mean live scores by assistant version and day, check batches and finished days, and send alarms.

    The latest batch (a run of `accord score`, or a week of live scores) is compared with the earlier ones. Drift of the
    scores is attributed to the assistant or to the judge, by anchors: accord judge --anchors.
    """
    from accord.board import drift
    from accord.live import post_alarms, raise_alarms, recover, report, send_alarms
    from accord.project import change_report

    with options.open() as project:
        config = project.config.monitoring
        recover(project.store, project.mart)
        new = [alarm.message for alarm in raise_alarms(project.store, config.false_alarm_rate)]
        used = drift.in_use(project)
        change, is_new = change_report(project, used=used)
        new += [change.summary] if change and is_new else []
        attributed, is_new = drift.drift_report(project, used=used)
        new += [attributed["summary"]] if attributed and is_new else []
        found = {"change": None if change is None else change.to_json(), "drift": attributed, "new_alarms": len(new)}
        result = {**report(project.store, days, labels=labels), **found}
        options.show(result, lambda result: _report_text(cast("MonitoringReport", result)))
        if config.webhook is not None:
            send_alarms(project.store, partial(post_alarms, config.webhook))
        if fail and new:
            raise GateFailed(f"{count_of(len(new), 'new alarm')}: {new[0]}")


def _report_text(report: MonitoringReport) -> str:
    drift, change = report.get("drift"), report.get("change")
    attributed = [f"batch: {change['lines'][0]}", *(f"  {line}" for line in change["lines"][1:])] if change else []
    attributed += [f"drift: {drift['summary']}"] if drift else []
    if not report["days"]:
        alarms = [f"alarm: {alarm['message']}" for alarm in report["alarms"]]
        start = "no live scores in these days; start one of: accord serve, accord follow LOG --out scores.jsonl"
        return "\n".join([start, *attributed, *alarms])
    by_day = sorted(report["days"], key=lambda row: row["day"])
    numbers = {name: str(number) for number, name in enumerate(dict.fromkeys(row["evaluator"] for row in by_day), 1)}
    rows = [
        [
            row["system"],
            row["day"],
            numbers[row["evaluator"]],
            str(row["replies"]),
            _conversations_text(row),
            figure_text(row["mean"], row["low"], row["high"]),
            str(sum(row["unscored"].values())),
            str(row["warned"]),
        ]
        for row in report["days"]
    ]
    header = ["assistant version", "day", "evaluator", "replies", "conversations", "mean", "unscored", "warned"]
    lines = [table(header, rows), "", *(f"evaluator {number}: {name}" for name, number in numbers.items())]
    for change in report["evaluator_changes"]:
        number = numbers[change["evaluator"]]
        lines.append(f"{change['system']}: evaluator {number} from {change['day']} on; a step may be due to the change")
    lines += ["", *attributed] if attributed else []
    if report["alarms"]:
        lines += ["", *(f"alarm: {alarm['message']}" for alarm in report["alarms"])]
    if report["label_next"]:
        lines += ["", "label next (highest variance):"]
        lines += [
            f"  {reply['conversation']} turn {reply['turn']}: {reply['score']:.2f}, variance {reply['variance']:.2f}"
            for reply in report["label_next"]
        ]
    return "\n".join(lines)


def _conversations_text(row: DayRow) -> str:
    low, high = row["conversations_low"], row["conversations_high"]
    return str(row["conversations"]) if low == high else f"about {row['conversations']} [{low}, {high}]"


@command("view")
def view(
    options: ProjectOptions,
    page: Annotated[str, typer.Argument(metavar="report|board", help="What to open.")] = "report",
    file: Annotated[
        Path | None,
        typer.Option("--file", help="Report to open; default: report.html here or in the project's folder."),
    ] = None,
    opens: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the browser, or only print the address.")
    ] = True,
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Port of the board.")] = PORT,
) -> None:
    """Open the report or the board in the browser; without a display, print its address.

    The board is served by `accord serve`; unless it runs already, it is started, and Ctrl-C stops it.
    """
    if page not in ("report", "board"):
        raise UnknownName("page", page, ["report", "board"])
    opens = opens and has_display()
    if page == "report":
        _open(_report(file, options).resolve().as_uri(), opens)
        return
    address = _board(port, options)
    if _answers(port):
        _open(address, opens)
        return
    say(address)
    if opens:
        Thread(target=_open_later, args=(address, port), daemon=True).start()
    serve(LiveOptions(), HostOptions(), options, port)


def has_display() -> bool:
    """Return False on a machine without a screen: a browser in the terminal would take it over."""
    return sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def _report(file: Path | None, options: ProjectOptions) -> Path:
    """Return the report's path."""
    from accord.values import find_project_file

    project = options.config_file or find_project_file()
    places = [file] if file is not None else [Path(REPORT), *([project.parent / REPORT] if project else [])]
    for place in places:
        if place.is_file():
            return place
    raise BadInput(f"there is no report {places[0]}. Write one: accord report; or name another: --file PATH")


def _board(port: int, options: ProjectOptions) -> str:
    """Return the board's address; for a project without users, a link that signs the browser in once."""
    from accord.store import Studies
    from accord.values import find_project_file
    from accord.web import local_sign_in_link

    site = server_url(HOST, port)
    if options.config_file is None and find_project_file() is None:
        return f"{site}/board"
    with options.open(creates=True) as project, closing(Studies(project.store)) as studies:
        return f"{site}/board" if studies.accounts.list_users() else local_sign_in_link(studies, site, "/board")


def _open(address: str, opens: bool) -> None:
    say(address)
    if opens and not webbrowser.open(address):
        note("no browser could be opened; copy the address into one")


def _open_later(address: str, port: int) -> None:
    end = time.monotonic() + STARTS_WITHIN
    while time.monotonic() < end:
        if _answers(port):
            webbrowser.open(address)
            return
        time.sleep(0.2)


def _answers(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), timeout=0.5).close()
    except OSError:
        return False
    return True
