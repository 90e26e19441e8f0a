"""The server around the routes: a port, timeouts, a queue of messages, and a quiet end.

`impatient` lets go of connections that ask nothing, `Batcher` has the messages of all requests scored together in a
thread of their own, in the order in which they came, and `serve` listens until it is told to stop.
"""

from __future__ import annotations

import asyncio
import signal
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import FrameType
from typing import NamedTuple

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from accord.live.ingest import Row, Takes
from accord.live.messages import Message
from accord.live.service.middleware import SECONDS, App
from accord.values import BadInput


class Impatient(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """Gives a request some seconds to arrive in, from the connection or from its first byte on."""

    seconds = 10.0
    late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Take in part of a request, and wait for the rest."""
        super().data_received(data)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        super().connection_lost(exc)
        if self.late is not None:
            self.late.cancel()

    def _wait(self) -> None:
        if self._is_asked():
            if self.late is not None:
                self.late.cancel()
            self.late = None
        elif self.late is None:
            self.late = self.loop.call_later(self.seconds, self._give_up)

    def _is_asked(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _give_up(self) -> None:
        if not self._is_asked() and not self.transport.is_closing():
            self.transport.close()


def impatient(seconds: float) -> type[asyncio.Protocol]:
    """The protocol with so many seconds."""
    return type("Impatient", (Impatient,), {"seconds": seconds})


AT_ONCE = 256
"""Messages that are scored together."""
WAITING = 2048
"""The most messages that wait."""


class Busy(Exception):
    """As many messages wait as may; come again."""


class _Job(NamedTuple):
    batch: Sequence[Message]
    done: asyncio.Future[list[Row]]


class Batcher:
    """Hands messages to a thread of its own, in the order in which they came.

    While it scores some, others gather: under load each call scores more of them, and costs less a message.
    """

    def __init__(self, ingestor: Takes, most: int = WAITING) -> None:
        self.ingestor, self.most = ingestor, most
        self.waiting = 0
        self._jobs: deque[_Job] = deque()
        self._wake = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="scoring")

    def check_room(self, count: int = 1) -> None:
        """Raise `Busy` where so many messages more are too many; one batch may always wait."""
        if self.waiting and self.waiting + count > self.most:
            raise Busy

    async def take(self, batch: Sequence[Message]) -> list[Row]:
        """A row a message; see to it that there is room first."""
        job = _Job(batch, asyncio.get_running_loop().create_future())
        self._jobs.append(job)
        self.waiting += len(batch)
        self._wake.set()
        return await job.done

    async def run(self) -> None:
        """Score what comes until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._jobs:
                await self._score(self._next())

    def _next(self) -> list[_Job]:
        jobs = [self._jobs.popleft()]
        while self._jobs and sum(len(job.batch) for job in jobs) + len(self._jobs[0].batch) <= AT_ONCE:
            jobs.append(self._jobs.popleft())
        return jobs

    async def _score(self, jobs: Sequence[_Job]) -> None:
        batch = [said for job in jobs for said in job.batch]
        try:
            rows = await asyncio.get_running_loop().run_in_executor(self._thread, self.ingestor.take, batch)
        except Exception as error:  # whoever asked is told; the next is served
            for job in jobs:
                if not job.done.done():
                    job.done.set_exception(error)
        else:
            remaining = iter(rows)
            for job in jobs:
                own = [next(remaining) for _ in job.batch]
                if not job.done.done():  # a client that went away is not waited for
                    job.done.set_result(own)
        finally:
            self.waiting -= len(batch)


CONNECTIONS = 1024
"""The most connections at once; more are turned away."""
FINISHING = 20
"""Seconds for what is under way when the service is told to stop."""


def serve(app: App, host: str, port: int) -> None:
    """Serve an ASGI application, until SIGINT or SIGTERM.

    Raises:
        BadInput: It cannot listen there.
    """
    import uvicorn

    config = uvicorn.Config(
        app,
        host, port, log_level="warning", access_log=False, server_header=False, lifespan="on", http=impatient(SECONDS),
        limit_concurrency=CONNECTIONS, timeout_graceful_shutdown=FINISHING, timeout_keep_alive=30,
    )  # fmt: skip
    with _signals_end_quietly():
        try:
            uvicorn.Server(config).run()
        except SystemExit:  # uvicorn has said why on stderr
            raise BadInput(
                f"cannot listen on {host}:{port}, for the reason above; name another --host or --port"
            ) from None


@contextmanager
def _signals_end_quietly() -> Iterator[None]:
    """The server stops gracefully on a signal and raises it again afterwards: to it we say nothing more."""

    def heard(number: int, frame: FrameType | None) -> None:
        """Nothing: the server has stopped already."""

    before = {number: signal.signal(number, heard) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
