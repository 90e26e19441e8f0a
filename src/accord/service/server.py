"""Running the service until it is told to stop: no more is taken, what is under way is finished."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from accord.errors import BadInput, MissingExtra
from accord.service.guard import SECONDS, App

CONNECTIONS = 1024
"""The most connections at once; more are turned away."""
FINISHING = 20
"""Seconds for what is under way when the service is told to stop."""


def check_installed() -> None:
    """Say how to install what the service needs.

    Raises:
        MissingExtra: It is not there.
    """
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise MissingExtra("the service", "serve") from None


def serve(app: App, host: str, port: int) -> None:
    """Serve an ASGI application, until SIGINT or SIGTERM.

    Raises:
        BadInput: It cannot listen there.
    """
    import uvicorn

    from accord.service.patience import impatient

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
