"""Sign-in links and sessions, static files."""

from __future__ import annotations

import re

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse, Response
from starlette.exceptions import HTTPException

from accord.web.accounts import COOKIE, SESSION_DAYS, check_same_origin, parse_form
from accord.web.context import WorkbenchContext, static_file

_INVALID_LINK = "this link is not valid; ask the person who runs the study for a new one"
_USED_LINK = "this link was used before, or is older than a day. Print a new one: accord users link"
_PAGE = re.compile(r"/(?:[\w.-]+/)*[\w.-]*", re.ASCII)
"""Addresses that a one-time link may open: pages of this server."""


def add_routes(app: FastAPI, context: WorkbenchContext) -> None:
    """Add sign-in and static files."""
    pages = _LoginPages(context)
    app.get("/healthz")(pages.healthz)
    app.get("/static/{name}")(pages.static)
    app.get("/favicon.ico")(pages.icon)
    app.get("/in/{key}")(pages.open_link)
    app.post("/in")(pages.sign_in)
    app.post("/out")(pages.sign_out)


class _LoginPages:
    def __init__(self, context: WorkbenchContext) -> None:
        self.context = context

    async def healthz(self) -> dict[str, str]:
        return {"status": "ok"}

    def static(self, name: str) -> Response:
        file = static_file(name)
        if file is None:
            raise HTTPException(404)
        headers = {"Cache-Control": "public, max-age=31536000, immutable"}
        return Response(file[0], media_type=file[1], headers=headers)

    def icon(self) -> Response:
        """Return the icon at the address that browsers request by default."""
        file = static_file("mark.svg")
        assert file is not None
        return Response(file[0], media_type=file[1], headers={"Cache-Control": "public, max-age=86400"})

    def open_link(self, key: str, request: Request, page: str = "/") -> Response:
        """Show the account of a personal link with a button to sign in, or sign in by a one-time link."""
        accounts = self.context.accounts
        if accounts.is_single_user:
            return self._use_one_time_link(key, request, page if _PAGE.fullmatch(page) else "/")
        person = accounts.account_of_link(key)
        if person is None:
            raise self.context.attempts.record(request.scope, _INVALID_LINK)
        return self.context.render("login", None, person=person, key=key, is_single_user=False)

    def _use_one_time_link(self, key: str, request: Request, page: str) -> Response:
        session = self.context.accounts.sign_in_by_one_time_link(key, request)
        response = RedirectResponse(page, 303)
        if session is not None:
            set_session_cookie(request, response, session)
        elif self.context.accounts.visitor(request) is None:
            raise self.context.attempts.record(request.scope, _USED_LINK)
        return response

    async def sign_in(self, request: Request) -> Response:
        check_same_origin(request.headers, request.url.scheme)
        fields = parse_form(await request.body(), request.headers.get("content-type", ""))
        accounts = self.context.accounts
        person = await run_in_threadpool(accounts.account_of_link, fields.get("key", ""))
        if person is None:
            raise self.context.attempts.record(request.scope, _INVALID_LINK)
        response = RedirectResponse("/", 303)
        set_session_cookie(request, response, await run_in_threadpool(accounts.sign_in, person))
        return response

    async def sign_out(self, request: Request) -> Response:
        visitor, _ = await self.context.read_form(request)
        await run_in_threadpool(self.context.accounts.sign_out, visitor)
        response = RedirectResponse("/", 303)
        response.delete_cookie(COOKIE, path="/")
        return response


def set_session_cookie(request: Request, response: Response, key: str) -> None:
    """Start a session in a browser."""
    secure = request.url.scheme == "https"
    max_age = SESSION_DAYS * 24 * 3600
    response.set_cookie(COOKIE, key, max_age=max_age, path="/", secure=secure, httponly=True, samesite="lax")
