"""The workbench as an ASGI application: routes of every page, security headers, and checks of the Host header."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, MutableMapping
from threading import Lock, Thread
from typing import Any

from fastapi import FastAPI, Request
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import Receive, Scope, Send

from accord.edges import AccordError
from accord.live import REQUEST_SECONDS, App, Guard, Refused, host_name, is_loopback
from accord.verbs import Project
from accord.version import __version__
from accord.web import erasing
from accord.web.context import WorkbenchContext
from accord.web.pages import (
    board,
    chat,
    comments,
    conversation,
    disagreement,
    document_runs,
    evaluators,
    explore,
    home,
    imports,
    judge,
    lead,
    login,
    new_study,
    people,
    rate,
    rubric,
    settings,
    study_items,
    styles,
)
from accord.web.uploads import MAX_UPLOAD, UPLOAD_PATH, UPLOAD_SECONDS

PAGES = (
    login, home, rate, chat, lead, board, conversation, explore, imports, people, new_study, rubric, evaluators,
    study_items, disagreement, comments, settings, styles, erasing, document_runs, judge,
)  # fmt: skip
MAX_BODY = 256 * 2**10
"""Maximum size of a form in bytes."""
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; "
    "img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
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
    """Return the ASGI application, which serves the project as it is after the last reload.

    Args:
        context: State shared by the pages.
        names: Host names of the server besides loopback names, in lower case.
        seconds: Time limit for receiving a request.
    """
    pages = ReloadingPages(context, _pages)
    forms = HostGuard(pages, names, MAX_BODY, seconds)
    uploads = UploadGuard(pages, names)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        is_upload = scope["type"] == "http" and (scope["method"], scope["path"]) == ("POST", UPLOAD_PATH)
        await (uploads if is_upload else forms)(scope, receive, send)

    return app


def _pages(context: WorkbenchContext) -> App:
    """Return the application of all pages for one state of the project."""
    app = FastAPI(title="Accord", version=__version__, docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(GZipMiddleware, compresslevel=6)
    app.add_middleware(_WithHeaders)
    for kind in (Refused, AccordError, OSError, HTTPException):
        app.exception_handler(kind)(context.render_error)
    for page in PAGES:
        page.add_routes(app, context)
    return app


class ReloadingPages:
    """ASGI application of the pages that opens the project again after a form has changed its files.

    Requests in progress end with the state that they began with. That state is closed after its last request.
    """

    def __init__(self, context: WorkbenchContext, make: Callable[[WorkbenchContext], App]) -> None:
        self.context, self._make, self._app = context, make, make(context)
        self._first, self._lock, self._is_reloading = context, Lock(), Lock()
        self._requests = Counter[WorkbenchContext]()
        context.reload = self.reload
        context.on_stop.append(self._close)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request with the current state."""
        with self._lock:
            context, app = self.context, self._app
            self._requests[context] += 1
        try:
            await app(scope, receive, send)
        finally:
            with self._lock:
                self._requests[context] -= 1
                is_unused = context is not self.context and not self._requests[context]
            if is_unused:
                self._retire(context)

    def reload(self) -> Project:
        """Open the project again, serve all later requests from it, and return it.

        Raises:
            BadInput: The changed files are not valid; the earlier state is served on.
        """
        with self._is_reloading:
            before = self.context
            project = Project(before.project_files().load(), given=before.project.given)
            try:
                context = before.continued(project)
                app = self._make(context)
            except BaseException:
                project.close()
                raise
            with self._lock:
                self.context, self._app = context, app
                is_unused = not self._requests[before]
            if is_unused:
                self._retire(before)
            return project

    def _retire(self, context: WorkbenchContext) -> None:
        """Close an earlier state in a thread of its own, because its background work may take long."""
        del self._requests[context]
        Thread(target=self._close_one, args=(context,), name="accord-retire", daemon=True).start()

    def _close_one(self, context: WorkbenchContext) -> None:
        context.retire()
        if context is not self._first:  # the caller closes the first project
            context.project.close()

    def _close(self) -> None:
        if self.context is not self._first:
            self._close_one(self.context)


class UploadGuard(HostGuard):
    """Middleware for large uploads, which reads the body only for a signed-in lead."""

    def __init__(self, pages: ReloadingPages, names: frozenset[str]) -> None:
        super().__init__(pages, names, MAX_UPLOAD, UPLOAD_SECONDS)
        self.pages = pages

    def _check_sender(self, scope: Any, headers: dict[bytes, bytes]) -> None:
        super()._check_sender(scope, headers)
        self.pages.context.visitor(Request(scope), "lead")
