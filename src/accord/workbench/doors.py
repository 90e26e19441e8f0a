"""Coming in and going out: the first page, personal links, sessions, and the files that pages load."""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse, Response
from starlette.exceptions import HTTPException

from accord.workbench.accounts import COOKIE, SESSION_DAYS
from accord.workbench.app import Bench, static_file
from accord.workbench.forms import check_same_origin, fields_of, new_key

_NO_LINK = "this link is not valid any more; ask for a new one"


def add_routes(app: FastAPI, bench: Bench) -> None:
    """The routes of this part."""
    doors = _Doors(bench)
    app.get("/")(doors.home)
    app.get("/healthz")(doors.healthz)
    app.get("/static/{name}")(doors.static)
    app.get("/favicon.ico")(doors.icon)
    app.get("/in/{key}")(doors.door)
    app.post("/in")(doors.enter)
    app.post("/out")(doors.leave)


class _Doors:
    def __init__(self, bench: Bench) -> None:
        self.bench = bench

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
        """The studies; on one's own machine the first visit begins a session."""
        bench, visitor = self.bench, self.bench.accounts.visitor(request.cookies)
        if visitor is None and bench.accounts.is_alone and COOKIE not in request.cookies:
            answer = RedirectResponse("/", 303)
            _keep(request, answer, new_key())
            return answer
        if visitor is None:
            return bench.page("door", None, person=None, key="")
        mine = [study for study in bench.open.values() if study.is_for(visitor.person) or visitor.may("lead")]
        return bench.page("home", visitor, studies=mine, broken=bench.errors_for(visitor))

    def door(self, key: str, request: Request) -> Response:
        """What a personal link shows: whose it is, and a button; to look at it changes nothing."""
        person = self.bench.accounts.invited(key)
        if person is None:
            raise self.bench.guesses.wrong(request.scope, _NO_LINK)
        return self.bench.page("door", None, person=person, key=key)

    async def enter(self, request: Request) -> Response:
        check_same_origin(request.headers, request.url.scheme)
        fields = fields_of(await request.body(), request.headers.get("content-type", ""))
        accounts = self.bench.accounts
        person = await run_in_threadpool(accounts.invited, fields.get("key", ""))
        if person is None:
            raise self.bench.guesses.wrong(request.scope, _NO_LINK)
        answer = RedirectResponse("/", 303)
        _keep(request, answer, await run_in_threadpool(accounts.enter, person))
        return answer

    async def leave(self, request: Request) -> Response:
        visitor, _ = await self.bench.posted(request)
        await run_in_threadpool(self.bench.accounts.leave, visitor)
        answer = RedirectResponse("/", 303)
        answer.delete_cookie(COOKIE, path="/")
        return answer


def _keep(request: Request, answer: Response, key: str) -> None:
    secure = request.url.scheme == "https"
    days = SESSION_DAYS * 24 * 3600
    answer.set_cookie(COOKIE, key, max_age=days, path="/", secure=secure, httponly=True, samesite="lax")
