"""Shared state of the pages: project, studies, user accounts, and rendering of pages, errors and static files.

Every page is also available as JSON under its address with `.json`. Pages load nothing from other sites, run no script
but the workbench's own files, and work without scripts.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, JSONResponse, Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.exceptions import HTTPException

from accord.charts import STYLE
from accord.edges import BadInput, page_text, sendable
from accord.live import AttemptLimiter, Refused, media_type
from accord.project import Project
from accord.store import Conflict, LeaseExpired, Role, Studies
from accord.studies import OpenStudy
from accord.values import InvalidStudy
from accord.version import __version__
from accord.web.accounts import Accounts, Visitor
from accord.web.forms import JSON, TOKEN, check_same_origin, check_token, fields_of, form_token, object_of

_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_IMPORT = re.compile(rb'from "\./([\w.]+)"')


class WorkbenchContext:
    """State that all routes share.

    Attributes:
        open: The studies that can be used, by name.
        broken: The error of each study that cannot be opened, by name.
    """

    def __init__(self, project: Project, exposure: str = "") -> None:
        """Open every study of the project; a study that cannot be opened blocks no other.

        Args:
            project: The project.
            exposure: The option that makes the server reachable from other machines; see `exposure`.

        Raises:
            BadInput: No user account exists, and other machines can reach the server.
        """
        self.project = project
        self.studies = Studies(project.store)
        self.accounts = Accounts(self.studies, exposure)
        self.open: dict[str, OpenStudy] = {}
        self.broken: dict[str, str] = {}
        for name in project.config.studies:
            try:
                self.open[name] = OpenStudy(project, name, self.studies)
            except BadInput as error:
                self.withdraw(name, error)
        self.attempts = AttemptLimiter()
        self.on_close: list[Callable[[], None]] = []

    def close(self) -> None:
        """Finish what is under way and what is being written."""
        for each in self.on_close:
            each()
        self.studies.close()

    def withdraw(self, name: str, error: BadInput) -> None:
        """Stop serving a study that cannot be used; its pages show the error."""
        self.open.pop(name, None)
        reason = str(error)
        self.broken[name] = reason if reason.startswith(f"study {name!r}") else f"study {name!r}: {reason}"

    def errors_for(self, visitor: Visitor) -> dict[str, str]:
        """Return why studies are not served, by name: the errors for leads, and a notice for their annotators.

        An error may quote a setting that annotators must not see, such as a known answer.
        """
        if visitor.may("lead"):
            return self.broken
        closed = {name: self.project.config.studies[name] for name in self.broken}
        return {
            name: f"study {name!r} is not available, because its settings are invalid. Ask the person who runs it."
            for name, study in closed.items()
            if isinstance(study, InvalidStudy) or not study.annotators or visitor.person.name in study.annotators
        }

    def study(self, name: str, visitor: Visitor) -> OpenStudy:
        """Return a study that this person takes part in, or leads.

        Raises:
            BadInput: The study cannot be opened.
            HTTPException: With 404, also for studies that this person does not take part in.
        """
        if (error := self.errors_for(visitor).get(name)) is not None:
            raise BadInput(error)
        found = self.open.get(name)
        if found is None or not (found.is_for(visitor.person) or visitor.may("lead")):
            raise HTTPException(404)
        return found

    # --- requests -----------------------------------------------------------------------------------------------

    def visitor(self, request: Request, role: Role = "annotator") -> Visitor:
        """Return the signed-in user of a request.

        Raises:
            Refused: With 401 without a session, with 403 if the user's role does not allow the request.
        """
        found = self.accounts.visitor(request)
        if found is None:
            link = "the sign-in link that accord serve printed, or a new one: accord users link"
            link = link if self.accounts.is_single_user else "your personal link again"
            raise Refused(401, f"you are not signed in, or your session is over; open {link}")
        found.check_may(role)
        return found

    async def posted(self, request: Request, role: Role = "annotator") -> tuple[Visitor, dict[str, Any]]:
        """Who sends a form, and what it says; a script sends the same as JSON, with its token in a header.

        Raises:
            Refused: It is not from a page of this server, or not from somebody who may.
            BadInput: It cannot be read.
        """
        check_same_origin(request.headers, request.url.scheme)
        visitor = await run_in_threadpool(self.visitor, request, role)
        kind, body = request.headers.get("content-type", ""), await request.body()
        sent = request.headers.get("x-accord-form")
        if sent is None and media_type(kind) == JSON:
            raise Refused(403, "JSON needs the header X-Accord-Form: the key in the page's meta tag accord-form")
        found: dict[str, Any] = fields_of(body, kind) if sent is None else object_of(body, kind)
        check_token(str(found.pop(TOKEN, "")) if sent is None else sent, visitor.key)
        return visitor, found

    # --- answers ------------------------------------------------------------------------------------------------

    def page(self, name: str, visitor: Visitor | None, status: int = 200, **shown: Any) -> HTMLResponse:
        """A page from its template."""
        about: dict[str, Any] = {"visitor": visitor, "token": form_token(visitor.key) if visitor else "", **shown}
        return HTMLResponse(_templates().get_template(f"{name}.html").render(about), status)

    def answer(self, request: Request, name: str, visitor: Visitor, data: Mapping[str, Any], **shown: Any) -> Response:
        """A page, or its data where the address ends in `.json`; `shown` is for the page alone."""
        if request.url.path.endswith(".json"):
            return JSONResponse(dict(data))
        return self.page(name, visitor, **data, **shown)

    async def render_error(self, request: Request, error: Exception) -> Response:
        """Say what went wrong, as a page, or as JSON to whoever asked for that."""
        status, reason = _told(error)
        headers = error.headers if isinstance(error, Refused) else {}
        is_script = "x-accord-form" in request.headers or media_type(request.headers.get("content-type", "")) == JSON
        if request.url.path.endswith(".json") or is_script:
            return JSONResponse({"error": reason}, status, headers)
        visitor = None
        if status not in {503}:
            visitor = await run_in_threadpool(self.accounts.visitor, request)
        answer = self.page("wrong", visitor, status, reason=reason)
        answer.headers.update(headers)
        return answer


def _told(error: Exception) -> tuple[int, str]:
    """The status of a failure, and what to say of it."""
    if isinstance(error, Refused):
        return error.status, error.reason
    if isinstance(error, HTTPException):
        return error.status_code, f"{error.detail}: there is no such page"
    if isinstance(error, LeaseExpired):
        return 409, str(error)
    if isinstance(error, Conflict):
        return 409, str(error)
    return (422 if isinstance(error, BadInput) else 503), str(error)


CHART_STYLE = "charts.css"

# --- files and templates --------------------------------------------------------------------------------------------


def static_file(name: str) -> tuple[bytes, str, str] | None:
    """Return a file that pages load, its type, and the digest in its address; None if there is no such file."""
    return _read_static(name) if name in _static_names() else None


@cache
def _static_names() -> frozenset[str]:
    """Return the names of all files that pages load: no other name reaches the file system or the cache."""
    names = [file.name for file in files("accord.web").joinpath("static").iterdir() if file.is_file()]
    return frozenset(name for name in (CHART_STYLE, *names) if Path(name).suffix in _TYPES)


@cache
def _read_static(name: str) -> tuple[bytes, str, str]:
    # What a module imports is named by its digest too.
    folder = files("accord.web").joinpath("static")
    content = STYLE.encode() if name == CHART_STYLE else folder.joinpath(name).read_bytes()
    content = _IMPORT.sub(lambda found: f'from "{_address(found[1].decode())}"'.encode(), content)
    return content, _TYPES[Path(name).suffix], hashlib.sha256(content).hexdigest()[:12]


def _address(name: str) -> str:
    """Where a page loads a file from; the address changes with the file, so that browsers may keep it."""
    found = static_file(name)
    assert found is not None, f"no file {name}"
    return f"/static/{name}?{found[2]}"


def reading_address(conversation: str, turn: int | None = None, back: str = "") -> str:
    """The address of a conversation's reading view, at a turn where one is meant, with a way back to the board.

    >>> reading_address("chats/7 é?", 3)
    '/conversation/chats%2F7%20%C3%A9%3F?turn=3#t3'
    """
    more = {name: value for name, value in (("turn", turn), ("back", back)) if value not in (None, "")}
    place = "" if turn is None else f"#t{turn}"
    return f"/conversation/{quote(sendable(conversation), safe='')}{'?' if more else ''}{urlencode(more)}{place}"


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("accord.web"), autoescape=True, finalize=page_text, trim_blocks=True,
        lstrip_blocks=True, undefined=StrictUndefined,
    )  # fmt: skip
    environment.globals.update(static=_address, version=__version__)
    environment.filters["zip_same"] = lambda names: [(name, name) for name in names]
    environment.filters["zip_words"] = lambda names: [(name, name.replace("_", " ")) for name in names]
    environment.filters["number"] = lambda value: f"{value:g}"
    environment.filters["reading"] = reading_address
    return environment
