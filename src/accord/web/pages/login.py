"""Signing in and out: the first page, sign-in links, sessions, and the files that pages load."""

from __future__ import annotations

import re

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse, Response
from starlette.exceptions import HTTPException

from accord.web.accounts import COOKIE, SESSION_DAYS
from accord.web.context import WorkbenchContext, static_file
from accord.web.forms import check_same_origin, fields_of

_NO_LINK = "this link is not valid any more; ask for a new one"
_USED_LINK = "this link was used, or is older than a day. Print a new one: accord users link"
_PAGE = re.compile(r"/(?:[\w.-]+/?)*", re.ASCII)
"""Pages that a one-time link may lead to: addresses of this server."""


def add_routes(app: FastAPI, context: WorkbenchContext) -> None:
    """The routes of this part."""
    doors = _Doors(context)
    app.get("/")(doors.home)
    app.get("/healthz")(doors.healthz)
    app.get("/static/{name}")(doors.static)
    app.get("/favicon.ico")(doors.icon)
    app.get("/in/{key}")(doors.door)
    app.post("/in")(doors.enter)
    app.post("/out")(doors.leave)


class _Doors:
    def __init__(self, context: WorkbenchContext) -> None:
        self.context = context

    async def healthz(self) -> dict[str, str]:
        return {"status": "ok"}

    def static(self, name: str) -> Response:
        found = static_file(name)
        if found is None:
            raise HTTPException(404)
        kept = {"Cache-Control": "public, max-age=31536000, immutable"}
        return Response(found[0], media_type=found[1], headers=kept)

    def icon(self) -> Response:
        """The mark, where browsers look for one unasked."""
        found = static_file("mark.svg")
        assert found is not None
        return Response(found[0], media_type=found[1], headers={"Cache-Control": "public, max-age=86400"})

    def home(self, request: Request) -> Response:
        """Show the studies, or how to sign in."""
        context, visitor = self.context, self.context.accounts.visitor(request)
        if visitor is None:
            is_single_user = context.accounts.is_single_user
            return context.page("door", None, 401, person=None, key="", is_single_user=is_single_user)
        mine = [study for study in context.open.values() if study.is_for(visitor.person) or visitor.may("lead")]
        return context.page("home", visitor, studies=mine, broken=context.errors_for(visitor))

    def door(self, key: str, request: Request, page: str = "/") -> Response:
        """Show the account of a personal link, with a button to sign in; or sign in by a one-time link."""
        accounts = self.context.accounts
        if accounts.is_single_user:
            return self._enter_by_link(key, request, page if _PAGE.fullmatch(page) else "/")
        person = accounts.invited(key)
        if person is None:
            raise self.context.attempts.record(request.scope, _NO_LINK)
        return self.context.page("door", None, person=person, key=key, is_single_user=False)

    def _enter_by_link(self, key: str, request: Request, page: str) -> Response:
        session, answer = self.context.accounts.enter_by_link(key, request), RedirectResponse(page, 303)
        if session is not None:
            _keep(request, answer, session)
        elif self.context.accounts.visitor(request) is None:
            raise self.context.attempts.record(request.scope, _USED_LINK)
        return answer

    async def enter(self, request: Request) -> Response:
        check_same_origin(request.headers, request.url.scheme)
        fields = fields_of(await request.body(), request.headers.get("content-type", ""))
        accounts = self.context.accounts
        person = await run_in_threadpool(accounts.invited, fields.get("key", ""))
        if person is None:
            raise self.context.attempts.record(request.scope, _NO_LINK)
        answer = RedirectResponse("/", 303)
        _keep(request, answer, await run_in_threadpool(accounts.enter, person))
        return answer

    async def leave(self, request: Request) -> Response:
        visitor, _ = await self.context.posted(request)
        await run_in_threadpool(self.context.accounts.leave, visitor)
        answer = RedirectResponse("/", 303)
        answer.delete_cookie(COOKIE, path="/")
        return answer


def _keep(request: Request, answer: Response, key: str) -> None:
    secure = request.url.scheme == "https"
    days = SESSION_DAYS * 24 * 3600
    answer.set_cookie(COOKIE, key, max_age=days, path="/", secure=secure, httponly=True, samesite="lax")
