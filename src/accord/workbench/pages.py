"""Forms of pages without a script: read strictly, and only taken from pages that this server itself has given."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs, urlsplit

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException

from accord.live import SECONDS, App, AuthCookie, Guard, Guesses, Refused, media_type
from accord.values import AccordError, BadInput, on_page
from accord.version import __version__
from accord.workbench.participants import Participant, Participants
from accord.workbench.study import At, NotNow, Study, Task

FORM = "application/x-www-form-urlencoded"
FIELDS = 8
"""The most fields that a form may have."""
_KEY = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)
_WHOLE = re.compile(r"-?[0-9]{1,6}", re.ASCII)


def new_key() -> str:
    """A random key for a cookie, of 256 bits."""
    return secrets.token_urlsafe(32)


def key_of(cookies: Mapping[str, str], name: str) -> str | None:
    """The key in a cookie; `None` where there is none of the right form."""
    found = cookies.get(name, "")
    return found if _KEY.fullmatch(found) else None


def form_token(key: str, *about: object) -> str:
    """What a form carries so that no other page can have made it: of the browser's key and what the form is about."""
    said = "\n".join(map(str, about))
    return hmac.new(key.encode(), said.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


def check_token(given: str, key: str, *about: object) -> None:
    """Refuse a form whose token is not that of this browser and this form.

    Raises:
        Refused: With 403.
    """
    if not hmac.compare_digest(given.encode("utf-8", "replace"), form_token(key, *about).encode()):
        raise Refused(403, "this form is not from the page you have open; load the page again and answer there")


def check_same_origin(headers: Mapping[str, str], scheme: str) -> None:
    """Refuse a form that a page of another origin sent: browsers say so in `Origin`, or at least in `Referer`.

    Args:
        headers: Of the request.
        scheme: By which it came, `http` or `https`; behind a proxy with TLS, as `X-Forwarded-Proto` says.

    Raises:
        Refused: With 403.
    """
    source = headers.get("origin") or headers.get("referer") or ""
    try:
        split = urlsplit(source)
    except ValueError:
        split = urlsplit("")
    if split.scheme != scheme or split.netloc.lower() != headers.get("host", "").lower():
        raise Refused(403, "this form was not sent from a page of this server; open the page here and answer there")


def fields_of(body: bytes, content_type: str, *names: str) -> dict[str, str]:
    """The named fields of a form, each once; those that are missing are empty.

    Raises:
        BadInput: It is no form, has other fields, or a field twice.
    """
    if media_type(content_type) != FORM:
        raise BadInput(f"content type {content_type[:60]!r}; send a form, {FORM}")
    try:
        found = parse_qs(body.decode("utf-8"), keep_blank_values=True, max_num_fields=FIELDS, errors="strict")
    except ValueError:
        raise BadInput("the form cannot be read; load the page again and answer there") from None
    if set(found) - set(names) or any(len(values) > 1 for values in found.values()):
        raise BadInput(f"the form has other fields than {', '.join(names)}, or one twice; load the page again")
    return {name: found.get(name, [""])[0] for name in names}


def whole(text: str) -> int:
    """A whole number.

    Raises:
        BadInput: It is none.
    """
    if not _WHOLE.fullmatch(text):
        raise BadInput(f"no answer is chosen (got {text[:20]!r}); go back and choose one")
    return int(text)


BODY = 16 * 2**10
"""Bytes that a form may have."""
KEPT = 180 * 24 * 3600
"""Seconds that a browser keeps its key."""


def validation_app(study: Study, participants: Participants, token: str | None = None, seconds: float = SECONDS) -> App:
    """The ASGI application of one study.

    Args:
        study: What is validated.
        participants: Who takes part.
        token: What everyone has to name, where it listens beyond this machine (`middleware.checked_binding`).
        seconds: For a request to arrive in.
    """
    guesses = Guesses()
    pages = _Pages(study, participants, token, guesses).app()
    guarded = Guard(pages, token, BODY, seconds, AuthCookie.OPEN, guesses)
    return guarded if token is None else AuthCookie(guarded, token)


class _Pages:
    """What the routes share, and the routes."""

    def __init__(self, study: Study, participants: Participants, token: str | None, guesses: Guesses) -> None:
        self.study, self.participants, self.token, self.guesses = study, participants, token, guesses
        tag = study.plan.key.rpartition(":")[2]
        self.seated, self.visiting = f"accord_seat_{tag}", f"accord_visit_{tag}"

    def app(self) -> FastAPI:
        """The routes."""
        app = FastAPI(title="Accord validation", version=__version__, docs_url=None, redoc_url=None, openapi_url=None)
        app.middleware("http")(_with_headers)
        for kind in (Refused, AccordError, OSError, HTTPException):
            app.exception_handler(kind)(self.wrong)
        app.get("/healthz")(self.healthz)
        app.get("/")(self.start)
        app.post("/start")(self.begin)
        app.get("/task")(self.here)
        app.get("/task/{place}/{stage}.json")(self.task_json)
        app.get("/task/{place}/{stage}")(self.task_page)
        app.post("/task/{place}/{stage}")(self.answer)
        if self.token is not None:
            app.get(AuthCookie.PATH)(self.door)
            app.post(AuthCookie.PATH)(self.enter)
        return app

    async def healthz(self) -> Response:
        return JSONResponse({"status": "ok"})

    # --- who somebody is ----------------------------------------------------------------------------------------

    def start(self, request: Request) -> Response:
        if self._seat(request) is not None:
            return RedirectResponse("/task", 303)
        key = key_of(request.cookies, self.visiting) or new_key()
        answer = self._page("start", form=form_token(key, "start"))
        self._keep(request, answer, self.visiting, key)
        return answer

    async def begin(self, request: Request) -> Response:
        check_same_origin(request.headers, request.url.scheme)
        fields = await _fields(request, "name", "form")
        visiting = key_of(request.cookies, self.visiting)
        if visiting is None:
            raise Refused(403, "your browser keeps no cookie of this page; allow cookies, and begin there again")
        check_token(fields["form"], visiting, "start")
        old = key_of(request.cookies, self.seated)
        key = old if old is not None and self.participants.of(old) is not None else visiting
        await run_in_threadpool(self.participants.take, fields["name"].strip(), key)
        answer = RedirectResponse("/task", 303)
        self._keep(request, answer, self.seated, key)
        return answer

    def _keep(self, request: Request, answer: Response, name: str, key: str) -> None:
        secure = request.url.scheme == "https"
        answer.set_cookie(name, key, max_age=KEPT, path="/", secure=secure, httponly=True, samesite="strict")

    def _seat(self, request: Request) -> Participant | None:
        return self.participants.of(key_of(request.cookies, self.seated) or "")

    def _own_seat(self, request: Request) -> Participant:
        seat = self._seat(request)
        if seat is None:
            raise Refused(401, "you have not begun, or your browser lost its cookie; begin on the first page")
        return seat

    # --- tasks --------------------------------------------------------------------------------------------------

    def here(self, request: Request) -> Response:
        seat = self._seat(request)
        if seat is None:
            return RedirectResponse("/", 303)
        at = self.study.current(seat)
        if at is None:
            return self._page("done", name=seat.name, of=len(self.study.turns(seat)))
        return RedirectResponse(f"/task/{at.place}/{at.stage}", 303)

    def task_page(self, request: Request, place: str, stage: str) -> Response:
        try:
            seat, task = self._task(request, place, stage)
        except NotNow as error:
            if error.stored is None:
                raise
            return RedirectResponse("/task", 303)  # back, or loaded again, after the answer
        key = key_of(request.cookies, self.seated) or ""
        return self._page("task", task=task, name=seat.name, form=form_token(key, *task.at))

    def task_json(self, request: Request, place: str, stage: str) -> Response:
        _, task = self._task(request, place, stage)
        return JSONResponse(task.to_json())

    def _task(self, request: Request, place: str, stage: str) -> tuple[Participant, Task]:
        seat = self._own_seat(request)
        return seat, self.study.task(seat, _at(place, stage))

    async def answer(self, request: Request, place: str, stage: str) -> Response:
        check_same_origin(request.headers, request.url.scheme)
        seat, at = self._own_seat(request), _at(place, stage)
        fields = await _fields(request, "answer", "form")
        check_token(fields["form"], key_of(request.cookies, self.seated) or "", *at)
        value = whole(fields["answer"])
        try:
            await run_in_threadpool(self.study.answer, seat, at, value)
        except NotNow as error:
            if error.stored != value:
                raise  # else it was sent twice, and is stored once
        return RedirectResponse("/task", 303)

    # --- the door -----------------------------------------------------------------------------------------------

    def door(self) -> Response:
        return self._page("door")

    async def enter(self, request: Request) -> Response:
        check_same_origin(request.headers, request.url.scheme)
        fields = await _fields(request, "token")
        if self.token is None or not AuthCookie.is_token(fields["token"].strip(), self.token):
            raise self.guesses.wrong(request.scope, "this is not the token; ask whoever invited you, and try again")
        answer = RedirectResponse("/", 303)
        self._keep(request, answer, AuthCookie.NAME, AuthCookie.value(self.token))
        return answer

    # --- pages --------------------------------------------------------------------------------------------------

    async def wrong(self, request: Request, error: Exception) -> Response:
        """Say what went wrong, as a page, or as JSON to whoever asked for that."""
        status, reason = _told(error)
        if request.url.path.endswith(".json"):
            return JSONResponse({"error": reason}, status)
        back = AuthCookie.PATH if request.url.path == AuthCookie.PATH else "/"
        return self._page("wrong", status, reason=reason, back=back)

    def _page(self, page: str, status: int = 200, **shown: Any) -> Response:
        template, _ = _template()
        flow, taxonomy = self.study.flow, self.study.taxonomy
        return HTMLResponse(template.render(page=page, flow=flow, taxonomy=taxonomy, **shown), status)


def _told(error: Exception) -> tuple[int, str]:
    """The status of a failure, and what to say of it."""
    if isinstance(error, Refused):
        return error.status, error.reason
    if isinstance(error, HTTPException):
        return error.status_code, f"{error.detail}: there is no such page"
    if isinstance(error, OSError):
        return 503, f"your answer cannot be kept now: {error.strerror}; send it again later"
    return 409 if isinstance(error, NotNow) else 400 if isinstance(error, BadInput) else 503, str(error)


def _at(place: str, stage: str) -> At:
    return At(whole(place), stage)


async def _fields(request: Request, *names: str) -> dict[str, str]:
    return fields_of(await request.body(), request.headers.get("content-type", ""), *names)


async def _with_headers(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    """Every answer: nothing from elsewhere, no frame, nothing kept, so that "back" asks again."""
    answer = await call_next(request)
    answer.headers.update(
        {
            "Content-Security-Policy": f"default-src 'none'; style-src '{_template()[1]}'; form-action 'self'; "
            "base-uri 'none'; frame-ancestors 'none'",
            "Cache-Control": "no-store",
            "Referrer-Policy": "same-origin",
            "X-Content-Type-Options": "nosniff",
        }
    )
    return answer


@cache
def _template() -> tuple[Any, str]:
    """The page's template, and the digest of its one style sheet as a browser checks it."""
    from jinja2 import Environment, StrictUndefined

    text = files("accord.workbench").joinpath("validation.html").read_text(encoding="utf-8")
    style = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    environment = Environment(
        autoescape=True, finalize=on_page, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
    )
    return environment.from_string(text), f"sha256-{digest}"
