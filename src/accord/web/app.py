"""The workbench as an ASGI application: routes of every page, security headers, and checks of the Host header."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from fastapi import FastAPI
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from accord.edges import AccordError
from accord.live import REQUEST_SECONDS, App, Guard, Refused, host_name, is_loopback
from accord.version import __version__
from accord.web.context import WorkbenchContext
from accord.web.pages import board, chat, conversation, explore, lead, login, rate

MAX_BODY = 256 * 2**10
"""Maximum size of a form in bytes."""
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


class _WithHeaders:
    """Middleware that adds the security headers to every response."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(event: MutableMapping[str, Any]) -> None:
            if event["type"] == "http.response.start":
                headers = MutableHeaders(scope=event)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(event)

        await self.app(scope, receive, with_headers)


class HostGuard(Guard):
    """Middleware that rejects requests for unknown host names, to prevent DNS rebinding."""

    def __init__(self, app: App, names: frozenset[str], body: int = MAX_BODY, seconds: float = REQUEST_SECONDS) -> None:
        super().__init__(app, body, seconds)
        self.names = names

    def _check_sender(self, scope: Any, headers: dict[bytes, bytes]) -> None:
        name = host_name(headers)
        if not is_loopback(name) and name not in self.names:
            raise Refused(421, f"{name[:80]!r} is not a name of this server; add it: accord serve --name {name[:80]}")


def workbench_app(
    context: WorkbenchContext, names: frozenset[str] = frozenset(), seconds: float = REQUEST_SECONDS
) -> App:
    """Return the ASGI application.

    Args:
        context: State shared by the pages.
        names: Host names of the server besides loopback names, in lower case.
        seconds: Time limit for receiving a request.
    """
    app = FastAPI(title="Accord", version=__version__, docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(_WithHeaders)
    for kind in (Refused, AccordError, OSError, HTTPException):
        app.exception_handler(kind)(context.render_error)
    for page in (login, rate, chat, lead, board, conversation, explore):
        page.add_routes(app, context)
    return HostGuard(app, names, MAX_BODY, seconds)
