"""The server around the routes: a port, timeouts, and a quiet end.

`impatient` lets go of connections that ask nothing, and `serve` listens until it is told to stop.
"""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Literal

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from accord.edges import BadInput
from accord.live.service.middleware import SECONDS, App

if TYPE_CHECKING:
    import uvicorn


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


CONNECTIONS = 1024
"""The most connections at once; more are turned away."""
FINISHING = 20
"""Seconds for what is under way when the service is told to stop."""


def config_of(
    app: App, host: str, port: int, proxies: Sequence[str] = (), lifespan: Literal["on", "off"] = "on"
) -> uvicorn.Config:
    """How an application is served.

    What `X-Forwarded-For` and `X-Forwarded-Proto` say is believed of these `proxies` (addresses or networks) alone: of
    nobody else, a client on this machine included.
    """
    import uvicorn

    return uvicorn.Config(
        app,
        host, port, log_level="warning", access_log=False, server_header=False, lifespan=lifespan,
        http=impatient(SECONDS), limit_concurrency=CONNECTIONS, timeout_graceful_shutdown=FINISHING,
        timeout_keep_alive=30, proxy_headers=bool(proxies), forwarded_allow_ips=list(proxies),
    )  # fmt: skip


def tune() -> None:
    """Prepare this process to serve, when all is opened."""
    gc.freeze()  # what is there by now stays; it need not be looked through again
    gc.set_threshold(
        50_000, 50, 100
    )  # conversations are many objects and no cycles: to look through all takes a second
    sys.setswitchinterval(0.001)  # threads that score and read let the loop answer others sooner


def checked_proxies(proxies: Sequence[str]) -> tuple[str, ...]:
    """Addresses or networks of proxies, if they are some.

    Raises:
        BadInput: One is a name, or everybody.
    """
    for each in proxies:
        try:
            network = ipaddress.ip_network(each, strict=False)
        except ValueError:
            raise BadInput(f"--proxy {each!r} is no address; give that of the proxy, such as 10.0.0.7 or ::1") from None
        if network.prefixlen == 0:
            raise BadInput(f"--proxy {each} would believe everybody what they say of themselves; name the proxy")
    return tuple(proxies)


def serve(app: App, host: str, port: int, proxies: Sequence[str] = ()) -> None:
    """Serve an ASGI application, until SIGINT or SIGTERM.

    Raises:
        BadInput: It cannot listen there.
    """
    import uvicorn

    config = config_of(app, host, port, proxies)
    tune()
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
