"""HTTP server: port, timeouts, proxies and graceful shutdown."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import signal
import sys
from collections.abc import Callable, Sequence
from socket import socket
from types import FrameType
from typing import TYPE_CHECKING

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from accord.edges import BadInput
from accord.live.service.middleware import REQUEST_SECONDS, App

if TYPE_CHECKING:
    import uvicorn

MAX_CONNECTIONS = 1024
SHUTDOWN_SECONDS = 20
"""Time for requests under way when the server stops."""


class TimeoutProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """HTTP protocol that closes a connection if a request does not arrive in time.

    The time starts with the connection or with the first byte of a request. Uvicorn has no such timeout, and a server
    without one runs out of connections.
    """

    seconds = 10.0
    timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Start the timer for the first request."""
        super().connection_made(transport)
        self._update_timer()

    def data_received(self, data: bytes) -> None:
        """Process part of a request, and start or stop the timer."""
        super().data_received(data)
        self._update_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        super().connection_lost(exc)
        if self.timer is not None:
            self.timer.cancel()

    def _update_timer(self) -> None:
        if self._has_request():
            if self.timer is not None:
                self.timer.cancel()
            self.timer = None
        elif self.timer is None:
            self.timer = self.loop.call_later(self.seconds, self._close)

    def _has_request(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _close(self) -> None:
        if not self._has_request() and not self.transport.is_closing():
            self.transport.close()


def timeout_protocol(seconds: float) -> type[asyncio.Protocol]:
    """Return the protocol class with a timeout in seconds."""
    return type("TimeoutProtocol", (TimeoutProtocol,), {"seconds": seconds})


def server_config(app: App, host: str, port: int, proxies: Sequence[str] = ()) -> uvicorn.Config:
    """Return the configuration of a server.

    `X-Forwarded-For` and `X-Forwarded-Proto` are trusted from these `proxies` (addresses or networks) only, and not
    from other clients on this machine.
    """
    import uvicorn

    return uvicorn.Config(
        app,
        host,
        port,
        log_level="warning",
        access_log=False,
        server_header=False,
        http=timeout_protocol(REQUEST_SECONDS),
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        timeout_keep_alive=30,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=list(proxies),
    )


def checked_proxies(proxies: Sequence[str]) -> tuple[str, ...]:
    """Return the addresses or networks of proxies.

    Raises:
        BadInput: An entry is a host name, or a network that contains every address.
    """
    for proxy in proxies:
        try:
            network = ipaddress.ip_network(proxy, strict=False)
        except ValueError:
            raise BadInput(f"--proxy {proxy!r} is no address; give one such as 10.0.0.7 or ::1") from None
        if network.prefixlen == 0:
            raise BadInput(f"--proxy {proxy} would trust the forwarded address of every client; name the proxy")
    return tuple(proxies)


def serve(
    app: App, host: str, port: int, proxies: Sequence[str] = (), on_listen: Callable[[], None] = lambda: None
) -> None:
    """Serve an ASGI application until SIGINT or SIGTERM; a signal that arrives before the server listens stops it too.

    Args:
        app: The application.
        host: Address to listen on.
        port: Port to listen on.
        proxies: Addresses or networks of trusted proxies.
        on_listen: Called once the server listens.

    Raises:
        BadInput: The server cannot listen on the address.
    """
    import uvicorn

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started and not self.should_exit:
                on_listen()

    server = Server(server_config(app, host, port, proxies))
    gc.freeze()  # objects loaded so far stay in memory; collection need not traverse them
    gc.set_threshold(50_000, 50, 100)  # conversations are many objects without cycles; a full collection takes a second
    sys.setswitchinterval(0.001)  # scoring and parsing threads yield to the event loop sooner

    def stop(number: int, frame: FrameType | None) -> None:
        """Stop the server; uvicorn raises the signal of a graceful stop again, when it has stopped already."""
        server.should_exit = True

    handlers = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        server.run()
    except SystemExit:  # uvicorn has printed the reason on stderr
        raise BadInput(f"cannot listen on {host}:{port}, for the reason above; name another --host or --port") from None
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
