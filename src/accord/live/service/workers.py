"""Live scoring by several processes at one address: who starts them, again where one died, and how they end together.

The parent binds the address and a socket for each worker on the loopback interface, and keeps them: what connects to a
worker that died waits in its queue until the next one is there. Workers are spawned on every system, never forked. They
do what the parent says over a pipe, and end when it is cut, so that none outlives the parent. To stop, all of them
first finish the requests that came in, while each still answers the others; then they end.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from threading import Thread
from types import FrameType
from typing import Any

import uvicorn

from accord.edges import AccordError, BadInput
from accord.learning import load_evaluator
from accord.live.ingest import opened
from accord.live.monitoring.monitor import report
from accord.live.scorer import LiveScorer
from accord.live.service.app import Service, make_app
from accord.live.service.links import Address, Forwarded, Listener
from accord.live.service.middleware import App, together
from accord.live.service.peers import Peers
from accord.live.service.server import FINISHING, config_of, tune
from accord.project import Config, Project

FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0
"""Seconds until a worker is started again that died at its start, and the most after many times."""
WELL = 10.0
"""Seconds after which a worker that died was no failure of its start."""
ENDING = 15.0
"""Seconds for a worker to keep what it holds when all is finished."""
BACKLOG = 2048
READY, FAILED, SAY, DRAINED = "ready", "failed", "say", "drained"
"""What a worker tells its parent."""
STOP, END = "stop", "end"
"""What a parent tells its workers: take no more requests in; and end."""
FIGURES = "PROMETHEUS_MULTIPROC_DIR"
Say = Callable[[str], None]


@dataclass(frozen=True)
class Opening:
    """What scores, for whom, and where it is kept: all that a process needs in order to open it.

    Attributes:
        config: Of the project; its `live`, `watch`, `budget` and store are used.
        evaluator: The folder of a fitted evaluator.
        annotator: Whom scores imitate; without one, a person nobody has met.
        out: A file of JSON lines for the rows of replies; each of several workers has its own, `rows-1.jsonl` and on.
        conversations, seconds: How many are remembered, all workers together, and how long.
        watches: Whether what is scored is added up in the store.
        asks: Whether sources that are not live may ask their models.
        token: Required from every client of live scoring.
        loopback_only: Whether a client's address and its Host header must be loopback.
        body: Bytes that a request may have.
        proxies: Addresses of proxies that are believed for whom they ask.
    """

    config: Config
    evaluator: Path
    annotator: str | None = None
    out: Path | None = None
    conversations: int = 10_000
    seconds: float = 3600.0
    watches: bool = True
    asks: bool = False
    token: str = ""
    loopback_only: bool = False
    body: int = 4 * 2**20
    proxies: tuple[str, ...] = ()

    def share(self, number: int, of: int) -> Opening:
        """That of one of several workers: a part of the memory, and a file of its own."""
        live = self.config.live.model_copy(update={"memory_mb": self.config.live.memory_mb / of})
        out = None if self.out is None else self.out.with_name(f"{self.out.stem}-{number + 1}{self.out.suffix}")
        few = max(1, self.conversations // of)
        return replace(self, config=self.config.model_copy(update={"live": live}), out=out, conversations=few)


def scoring_problem(opening: Opening, project: Project) -> str | None:
    """Return why the evaluator cannot score live; `None` if it can."""
    models = project.models if opening.asks else None
    try:
        LiveScorer(load_evaluator(opening.evaluator), models=models, limits=opening.config.live)
    except AccordError as error:
        return str(error)
    return None


@contextmanager
def opened_service(opening: Opening, project: Project, say: Say, looks: bool = True) -> Iterator[Service]:
    """A service with all that it needs open.

    Raises:
        BadInput: There is no such evaluator, or it cannot score live.
        UnknownName: It does not know the annotator.
    """
    about, config = opening, opening.config
    store, models = project.store if about.watches else None, project.models if about.asks else None
    taking = opened(
        about.evaluator, about.annotator, about.out, store, config.monitoring, say, about.conversations, about.seconds,
        models, config.live, looks, project.mart if about.watches else None,
    )  # fmt: skip
    with taking as ingestor:
        watched = None if ingestor.watch is None else partial(report, project.store, before=lambda _: ingestor.settle())
        yield Service(ingestor, watched, say=say)


# --- a worker -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Place:
    """Where a worker stands: its number, the sockets that it listens on, and where the others and the pages are."""

    number: int
    public: socket.socket
    own: socket.socket
    addresses: Sequence[Address]
    pages: Address | None
    secret: bytes


class _Led(uvicorn.Server):
    """A server whose parent says when to stop: a signal to all processes of a group reaches the parent too."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Nothing."""


def _work(opening: Opening, place: _Place, pipe: Connection) -> None:
    """A worker's whole life."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    told = _Telling(pipe)
    mine = opening.share(place.number, len(place.addresses))
    try:
        with Project(mine.config) as project, opened_service(mine, project, told.say, place.number == 0) as service:
            tune()
            with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                runner.run(_serve(service, mine, place, told))
    except AccordError as error:
        told(FAILED, str(error))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


class _Telling:
    """A worker's end of the pipe."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe = pipe

    def __call__(self, what: str, text: str = "") -> None:
        """Tell the parent, if it is there."""
        with suppress(OSError):
            self.pipe.send((what, text))

    def say(self, text: str) -> None:
        """Have the parent print a line."""
        self(SAY, text)

    def hear(self, stop: Callable[[], object], end: Callable[[], object]) -> None:
        """Do what the parent says, until it has said all, or is gone."""
        with suppress(OSError, EOFError, RuntimeError):
            while self.pipe.recv() != END:
                stop()
        with suppress(RuntimeError):  # the loop has ended
            stop()
            end()


async def _serve(service: Service, opening: Opening, place: _Place, told: _Telling) -> None:
    peers = service.peers = Peers(place.number, place.addresses, place.secret, service)
    app: App = make_app(service, opening.token, opening.body, loopback_only=opening.loopback_only)
    if place.pages is not None:
        app = together(app, Forwarded(place.pages, place.secret))
    host, port = place.public.getsockname()[:2]
    server, ended, loop = (
        _Led(config_of(app, host, port, opening.proxies, "off")),
        asyncio.Event(),
        asyncio.get_running_loop(),
    )
    scoring = asyncio.create_task(service.batcher.run())
    others = await asyncio.start_server(Listener(place.secret, peers.answer), sock=place.own)
    stop = partial(loop.call_soon_threadsafe, setattr, server, "should_exit", True)
    Thread(target=told.hear, args=(stop, partial(loop.call_soon_threadsafe, ended.set)), daemon=True).start()
    begun = asyncio.create_task(_begun(server, told))
    await server.serve(sockets=[place.public])
    told(DRAINED)
    await ended.wait()
    begun.cancel()
    others.close()
    peers.close()
    scoring.cancel()


async def _begun(server: uvicorn.Server, told: _Telling) -> None:
    while not server.started:
        await asyncio.sleep(0.02)
    told(READY)


# --- the parent -----------------------------------------------------------------------------------------------------


@dataclass
class _Worker:
    """A worker as its parent sees it."""

    process: SpawnProcess
    pipe: Connection
    since: float = field(default_factory=time.monotonic)
    is_ready: bool = False
    is_drained: bool = False


def serve_workers(
    opening: Opening, count: int, host: str, port: int, pages: App | None = None, say: Say = lambda text: None
) -> None:
    """Serve live scoring by so many processes, and pages from this one, until SIGINT or SIGTERM.

    Raises:
        BadInput: It cannot listen there, or a worker could not begin.
    """
    if opening.asks and opening.config.budget.shared is None and _is_capped(opening.config):
        budget = opening.config.budget.model_copy(update={"shared": f"accord serve {secrets.token_hex(8)}"})
        opening = replace(opening, config=opening.config.model_copy(update={"budget": budget}))
    before = os.environ.get(FIGURES)
    figures = os.environ[FIGURES] = tempfile.mkdtemp(prefix="accord-figures-")
    try:
        with ExitStack() as open_:
            public = open_.enter_context(_listening(host, port))
            own = [open_.enter_context(_listening("127.0.0.1", 0)) for _ in range(count)]
            secret = secrets.token_bytes(32)
            shown = None if pages is None else open_.enter_context(_paging(pages, secret))
            addresses = [each.getsockname()[:2] for each in own]
            places = [_Place(n, public, each, addresses, shown, secret) for n, each in enumerate(own)]
            _Workers(opening, places, say).run()
    finally:
        del os.environ[FIGURES]
        if before is not None:
            os.environ[FIGURES] = before
        shutil.rmtree(figures, ignore_errors=True)


def _is_capped(config: Config) -> bool:
    budget = config.budget
    return (budget.requests, budget.tokens, budget.money) != (None, None, None)


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host.strip("[]"), port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise BadInput(f"cannot listen on {host}:{port}: {error.strerror}; name another --host or --port") from None


@contextmanager
def _paging(pages: App, secret: bytes) -> Iterator[Address]:
    """Pages served to workers, from a thread with a loop of its own; the address."""
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, name="pages", daemon=True)
    thread.start()

    def done(work: Awaitable[Any]) -> Any:
        async def awaited() -> Any:
            return await work

        return asyncio.run_coroutine_threadsafe(awaited(), loop).result()

    server = done(asyncio.start_server(Listener(secret, app=pages), "127.0.0.1", 0))
    try:
        yield server.sockets[0].getsockname()[:2]
    finally:
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(FINISHING)


class _Workers:
    """All workers of a service; starts them, and again whichever died."""

    def __init__(self, opening: Opening, places: Sequence[_Place], say: Say) -> None:
        self.opening, self.places, self.say = opening, places, say
        self._context = get_context("spawn")
        self._workers: dict[int, _Worker] = {}
        self._due: dict[int, float] = {}  # when a worker is started again
        self._failures = [0] * len(places)
        self._problem: str | None = None

    def run(self) -> None:
        """Until a signal comes, or a worker cannot begin.

        Raises:
            BadInput: With the reason of a worker that could not begin.
        """
        heard, hears = self._context.Pipe(duplex=False)
        with _on_signals(lambda: hears.send(STOP)), heard, hears:
            for place in self.places:
                self._start(place.number)
            try:
                while not heard.poll() and self._problem is None:
                    self._look(heard)
            finally:
                self._stop()
        if self._problem is not None:
            raise BadInput(self._problem)

    def _start(self, number: int) -> None:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(
            target=_work, args=(self.opening, self.places[number], theirs), name=f"accord worker {number + 1}"
        )
        process.start()
        theirs.close()
        self._workers[number] = _Worker(process, ours)

    def _look(self, *also: Connection) -> None:
        """Wait for whatever happens next, and see to it."""
        now = time.monotonic()
        for number in [number for number, due in self._due.items() if due <= now]:
            del self._due[number]
            self._start(number)
        pause = min(self._due.values(), default=now + 60.0) - now
        known = [each for worker in self._workers.values() for each in (worker.pipe, worker.process.sentinel)]
        wait([*also, *known], max(0.0, pause))
        for number, worker in list(self._workers.items()):
            self._hear(number, worker)
            if not worker.process.is_alive():
                self._hear(number, worker)  # what it said last
                self._died(number, worker)

    def _hear(self, number: int, worker: _Worker) -> None:
        with suppress(OSError, EOFError):
            while worker.pipe.poll():
                what, text = worker.pipe.recv()
                if what == SAY:
                    self.say(text)
                elif what == FAILED and not any(self._failures) and not worker.is_ready:
                    self._problem = text
                elif what == FAILED:
                    self.say(f"worker {number + 1} cannot begin: {text}")
                worker.is_ready |= what == READY
                worker.is_drained |= what == DRAINED

    def _died(self, number: int, worker: _Worker) -> None:
        """See to it that another takes its place."""
        del self._workers[number]
        worker.pipe.close()
        if self._problem is not None:
            return
        lived = time.monotonic() - worker.since
        self._failures[number] = 1 if worker.is_ready and lived > WELL else self._failures[number] + 1
        pause = 0.0 if worker.is_ready else min(FIRST_WAIT * 2.0 ** self._failures[number], LONGEST_WAIT)
        self._due[number] = time.monotonic() + pause
        self.say(
            f"worker {number + 1} ended ({_how(worker.process.exitcode)}) and is started again; "
            "what it remembered of its conversations is gone"
        )

    def _stop(self) -> None:
        """Have all finish what is under way, then end; whoever does not is ended."""
        self._tell(STOP)
        self._await(lambda worker: worker.is_drained, FINISHING + 5)
        self._tell(END)
        self._await(lambda worker: False, ENDING)
        for worker in self._workers.values():
            worker.process.kill()
            worker.process.join()

    def _tell(self, what: str) -> None:
        for worker in self._workers.values():
            with suppress(OSError):
                worker.pipe.send(what)

    def _await(self, is_done: Callable[[_Worker], bool], seconds: float) -> None:
        """Wait until each has done something, or ended."""
        limit = time.monotonic() + seconds
        while self._workers and not all(map(is_done, self._workers.values())) and time.monotonic() < limit:
            known = [each for worker in self._workers.values() for each in (worker.pipe, worker.process.sentinel)]
            wait(known, limit - time.monotonic())
            for number, worker in list(self._workers.items()):
                self._hear(number, worker)
                if not worker.process.is_alive():
                    self._hear(number, worker)
                    del self._workers[number]


def _how(code: int | None) -> str:
    if code is not None and code < 0:
        with suppress(ValueError):
            return signal.Signals(-code).name
    return f"exit code {code}"


@contextmanager
def _on_signals(heard: Callable[[], object]) -> Iterator[None]:
    """SIGINT and SIGTERM call this, and nothing else."""
    before = {number: signal.signal(number, lambda *_: heard()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
