"""Shared state of the pages: project, studies, user accounts, and rendering of pages, errors and static files.

Every page is also available as JSON under its address with `.json`. Pages load nothing from other sites, run no scripts
but the workbench's own files, and work without scripts.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache, cached_property
from importlib.resources import files
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any, Literal
from urllib.parse import quote, urlencode

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, JSONResponse, Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.exceptions import HTTPException

from accord.board import Board, SelectedScores, dimension_in_words
from accord.charts import FONT, Axis, icon, interval_svg, look_file
from accord.edges import AccordError, BadInput, escape_controls, page_text, reason_of, sendable
from accord.learning import CARD
from accord.live import AttemptLimiter, Refused, media_type
from accord.project import modified_at, rating_counts
from accord.results import Figure, figure_html
from accord.sample import conversation_texts
from accord.store import Conflict, Erasures, LeaseExpired, Role, Studies
from accord.studies import BackgroundLearning, StudySession
from accord.values import Estimate, InvalidStudy, Rubric
from accord.verbs import Project
from accord.version import __version__
from accord.web.accounts import (
    JSON,
    TOKEN,
    Accounts,
    Visitor,
    check_same_origin,
    check_token,
    digest_of,
    form_token,
    masked_token,
    parse_form,
    parse_json,
)
from accord.web.project_editing import ProjectFiles
from accord.web.started_verbs import StartedVerbs
from accord.web.transcript import turn_content
from accord.web.uploads import Uploads

DONE = {
    "saved": "Saved.",
    "adjudicated": "Adjudication saved.",
    "withdrawn": "Adjudication withdrawn.",
    "created": "The study is created.",
    "opened": "The study is open.",
    "round": "The norming round is open.",
    "undone": "The import is undone.",
    "added": "Added.",
    "link": "The earlier link no longer works.",
    "role": "The role is changed.",
    "removed": "The account is removed. Its ratings stay.",
    "erased": "Erased.",
    "gaps": "The search is done.",
    "wording": "The new wording is saved. Studies show it from now on.",
    "settings": "The settings are saved.",
    "promoted": "The candidate is now the evaluator in use.",
    "used": "The evaluator in use is changed.",
    "stopping": "The run ends after the requests that are under way.",
}
"""Success messages by the value of `done` in an address. A page shows only these texts, none from the address."""
MAX_DRAFTS = 100
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".woff2": "font/woff2"}
_IMPORT = re.compile(rb'from "\./([\w.]+)"')
_TOOLTIP = Markup('<abbr title="{}" dir="auto">{}</abbr>')


class Drafts:
    """Fields of forms that are previewed and not saved yet, by session and page; they end with the server."""

    def __init__(self) -> None:
        self._fields: OrderedDict[tuple[str, str], dict[str, str]] = OrderedDict()
        self._lock = Lock()

    def put(self, visitor: Visitor, page: str, fields: Mapping[str, Any]) -> None:
        """Keep the fields of a form; the oldest drafts of all sessions are dropped above `MAX_DRAFTS`."""
        with self._lock:
            self._fields[digest_of(visitor.key), page] = {name: str(value) for name, value in fields.items()}
            self._fields.move_to_end((digest_of(visitor.key), page))
            while len(self._fields) > MAX_DRAFTS:
                self._fields.popitem(last=False)

    def of(self, visitor: Visitor, page: str) -> dict[str, str] | None:
        """Return the fields that a session has sent from a page, or None."""
        with self._lock:
            found = self._fields.get((digest_of(visitor.key), page))
            return None if found is None else dict(found)

    def drop(self, visitor: Visitor, page: str) -> None:
        """Forget the draft of a page, after it was saved or discarded."""
        with self._lock:
            self._fields.pop((digest_of(visitor.key), page), None)


class StudyClosed(BadInput):
    """A study that does not take answers yet; its page says when it will."""


class WorkbenchContext:
    """State shared by all routes.

    Attributes:
        sessions: Session of each valid study, by name.
        invalid_studies: Error of each study that cannot be opened, by name.
        files: Project file that forms change; `None` for a project without one.
        learning: Background learning of the studies.
        board: Statistics of scores.
        drafts: Forms that were previewed and not saved; the same after a reload.
        uploads: Imports of uploaded files; the same after a reload.
        started: Verbs that pages start; the same after a reload.
        on_close: Functions to call when the server stops, or when the project was opened again.
        on_stop: Functions to call when the server stops.
        reload: Opens the project again after a change of its files, and returns it.
    """

    def __init__(self, project: Project, exposure: str = "", files: ProjectFiles | None = None) -> None:
        """Open every study of the project. A study that cannot be opened does not affect the others.

        Args:
            project: The project.
            exposure: Option that makes the server reachable from other machines; empty if none does.
            files: Project file that forms change.

        Raises:
            BadInput: No user account exists, and other machines can reach the server.
        """
        self.project, self.exposure, self.files = project, exposure, files
        self.studies = Studies(project.store)
        self.accounts = Accounts(self.studies, exposure)
        self.sessions: dict[str, StudySession] = {}
        self.invalid_studies: dict[str, str] = {}
        for name in project.config.studies:
            try:
                self.sessions[name] = StudySession(project, name, self.studies)
            except BadInput as error:
                self.withdraw(name, error)
        self.attempts = AttemptLimiter()
        self.uploads = Uploads()
        self.started = StartedVerbs()
        self.drafts = Drafts()
        self.on_close: list[Callable[[], None]] = []
        self.on_stop: list[Callable[[], None]] = [self.uploads.jobs.close, self.started.close]
        self.reload: Callable[[], Project] = lambda: self.project
        self._is_closed = False
        self._counts: tuple[Any, dict[str, Any]] = None, {}
        self._demo: tuple[list[str], bool] = [], False

    @cached_property
    def learning(self) -> BackgroundLearning:
        """Background learning of the studies, which starts at its first use."""
        learning = BackgroundLearning(self.sessions, self.project)
        self.on_close.append(learning.jobs.close)
        return learning

    @cached_property
    def board(self) -> Board:
        """Statistics of scores, opened at its first use."""
        return Board(self.project)

    def close(self) -> None:
        """Finish all background work and pending writes when the server stops."""
        for function in self.on_stop:
            function()
        self.retire()

    def retire(self) -> None:
        """Finish background work and pending writes of this project, once."""
        if not self._is_closed:
            self._is_closed = True
            for function in self.on_close:
                function()
            self.studies.close()

    def continued(self, project: Project) -> WorkbenchContext:
        """Return the state for the project opened again; sign-in attempts and imports stay the same."""
        context = WorkbenchContext(project, self.exposure, self.files)
        context.attempts, context.uploads, context.reload = self.attempts, self.uploads, self.reload
        context.drafts, context.started = self.drafts, self.started
        return context

    def erased(self, name: str, kind: Literal["conversation", "annotator"] = "conversation") -> str:
        """Return the sentence that a conversation or an annotator was erased, with the day; empty if it was not."""
        time = Erasures(self.project.store).among([name], kind).get(name)
        if time is None:
            return ""
        return f"this {kind} was erased on {time_in_words(datetime.fromisoformat(time)).partition(',')[0]}"

    def project_files(self) -> ProjectFiles:
        """Return the project file that forms change.

        Raises:
            BadInput: The project has none.
        """
        if self.files is None:
            raise BadInput("this project was opened without a project file, so pages cannot change its settings")
        return self.files

    def withdraw(self, name: str, error: BadInput) -> None:
        """Stop serving a study; its pages show the error."""
        self.sessions.pop(name, None)
        reason = reason_of(error)
        self.invalid_studies[name] = reason if reason.startswith(f"study {name!r}") else f"study {name!r}: {reason}"

    def errors_for(self, visitor: Visitor) -> dict[str, str]:
        """Return the reason why each study is not served: the error for leads, a notice for annotators.

        An error may quote a setting that annotators must not see, such as a known answer.
        """
        if visitor.may("lead"):
            return self.invalid_studies
        closed = {name: self.project.config.studies[name] for name in self.invalid_studies}
        return {
            name: f"study {name!r} is not available, because its settings are invalid. Ask the person who runs it."
            for name, study in closed.items()
            if isinstance(study, InvalidStudy) or not study.annotators or visitor.person.name in study.annotators
        }

    def study(self, name: str, visitor: Visitor) -> StudySession:
        """Return a study that this person takes part in, or leads.

        Raises:
            BadInput: The study cannot be opened.
            StudyClosed: A lead has to check its wording first.
            HTTPException: 404 for an unknown study, and for a study in which this person has no part.
        """
        if (error := self.errors_for(visitor).get(name)) is not None:
            raise BadInput(error)
        study = self.sessions.get(name)
        if study is None or not (study.is_for(visitor.person) or visitor.may("lead")):
            raise HTTPException(404)
        if reason := self.reason_closed(study, visitor):
            raise StudyClosed(reason)
        return study

    def reason_closed(self, study: StudySession, visitor: Visitor) -> str:
        """Return the reason why a study is not open yet; an empty text if it is."""
        can_check = visitor.may("lead") or any(user.role != "annotator" for user in self.studies.accounts.list_users())
        if not can_check or not study.generated_questions():
            return ""
        advice = "check it on the study's page" if visitor.may("lead") else (
            "it opens when the person who runs it has checked it. You have nothing to do until then"
        )  # fmt: skip
        return f"{study.title} is not open yet: the wording of its questions was generated; {advice}."

    # --- requests -----------------------------------------------------------------------------------------------

    def visitor(self, request: Request, role: Role = "annotator") -> Visitor:
        """Return the signed-in user of a request.

        Raises:
            Refused: 401 without a session, 403 if the user's role does not allow the request.
        """
        visitor = self.accounts.visitor(request)
        if visitor is None:
            link = "the sign-in link that accord serve printed, or a new one: accord users link"
            link = link if self.accounts.is_single_user else "your personal link again"
            raise Refused(401, f"you are not signed in, or your session is over; open {link}")
        visitor.check_may(role)
        return visitor

    async def read_form(self, request: Request, role: Role = "annotator") -> tuple[Visitor, dict[str, Any]]:
        """Return the sender and the fields of a form; scripts send JSON with the form token in a header.

        Raises:
            Refused: The form is not from a page of this server, or the user's role does not allow it.
            BadInput: The form cannot be parsed.
        """
        check_same_origin(request.headers, request.url.scheme)
        visitor = await run_in_threadpool(self.visitor, request, role)
        kind, body = request.headers.get("content-type", ""), await request.body()
        token = request.headers.get("x-accord-form")
        if token is None and media_type(kind) == JSON:
            raise Refused(403, "JSON needs the header X-Accord-Form: the key in the page's meta tag accord-form")
        fields: dict[str, Any] = parse_form(body, kind) if token is None else parse_json(body, kind)
        check_token(str(fields.pop(TOKEN, "")) if token is None else token, visitor.key)
        return visitor, fields

    def counts(self, learned: int | None = None) -> dict[str, Any]:
        """Return the numbers of conversations and ratings of the main question, and the sentence that states them.

        Args:
            learned: Number of ratings that the fit of the evaluator in use recorded, or `None` if none is in use.
        """
        store, folder = self.project.store, self.project.folder()
        is_fitted = learned is not None and (folder / CARD).is_file()
        fitted = (folder, modified_at(folder), learned) if is_fitted else None
        state = (store.labels_version(), store.count_conversations(), fitted)
        if state != self._counts[0]:  # all ratings are read, so only after a change
            self._counts = state, rating_counts(self.project, folder if is_fitted else None, learned).to_json()
        return dict(self._counts[1])

    def is_demo(self) -> bool:
        """Return True if all conversations of the project are from the sample that ships with Accord."""
        store, known = self.project.store, conversation_texts()
        try:
            ids = list(islice(store.conversation_ids(), len(known) + 1))
            if ids != self._demo[0]:  # texts are compared only after a change
                is_sample = known.keys() >= set(ids) and all(
                    known[each.id] == tuple(turn.content for turn in each.turns) for each in store.conversations(ids)
                )
                self._demo = ids, is_sample
        except AccordError:
            pass  # the page says what is wrong with the store
        return self._demo[1]

    # --- responses ------------------------------------------------------------------------------------------------

    def render(self, template: str, visitor: Visitor | None, status: int = 200, **values: Any) -> HTMLResponse:
        """Render a page from its template.

        Args:
            template: Name of the template.
            visitor: Signed-in user.
            status: Status of the response.
            values: Values of the template. With `waiting=True` the page loads again until background work ends;
                `success` is a message about a form that was sent.
        """
        token = masked_token(form_token(visitor.key)) if visitor else ""
        names: dict[tuple[str, int], Markup | str] = {}

        def asked(question: str, rubric: Rubric | None = None) -> Markup | str:
            key = question, id(rubric)  # a page names a question up to thousands of times
            if key not in names:
                names[key] = self._asked(question, rubric)
            return names[key]

        shared: dict[str, Any] = {"visitor": visitor, "token": token, "asked": asked, "waiting": False, "success": "",
                                  "project_name": self.project.config.folder.absolute().name,
                                  "is_demo": visitor is not None and self.is_demo(), **values}  # fmt: skip
        return HTMLResponse(_templates().get_template(f"{template}.html").render(shared), status)

    def _asked(self, question: str, rubric: Rubric | None = None) -> Markup | str:
        """Return the short name of a question, with its wording as a tooltip; the ID itself if it is unknown."""
        known = (rubric or self.project.rubric).get(question)
        return question if known is None else _TOOLTIP.format(page_text(known.text), page_text(known.shown))

    def render_or_json(
        self, request: Request, template: str, visitor: Visitor, data: Mapping[str, Any], **values: Any
    ) -> Response:
        """Render a page, or return its data if the address ends in `.json`; `values` are for the page only."""
        if is_json(request):
            return JSONResponse(dict(data))
        return self.render(template, visitor, **{"success": success_of(request), **data, **values})

    async def render_error(self, request: Request, error: Exception) -> Response:
        """Render an error as a page, or as JSON for scripts and `.json` addresses."""
        status, reason = status_and_reason(error)
        headers = error.headers if isinstance(error, Refused) else {}
        is_script = "x-accord-form" in request.headers or media_type(request.headers.get("content-type", "")) == JSON
        if is_json(request) or is_script:
            return JSONResponse({"error": reason}, status, headers)
        visitor = None
        if status not in {503}:
            visitor = await run_in_threadpool(self.accounts.visitor, request)
        title = "Not open yet" if isinstance(error, StudyClosed) else "Error"
        response = self.render("error", visitor, status, reason=reason, title=title)
        response.headers.update(headers)
        return response


def check_printable(fields: Mapping[str, Any]) -> None:
    """Check that texts for a file of the project hold no control characters, which pages show only escaped.

    Raises:
        BadInput: A field holds one besides line breaks and tabs.
    """
    for name, value in fields.items():
        if escape_controls(str(value)) != str(value):
            raise BadInput(f"{name}: has a control character; write the text again without it")


def success_of(request: Request) -> str:
    """Return the success message that an address names, or an empty text."""
    return DONE.get(request.query_params.get("done", ""), "")


def is_json(request: Request) -> bool:
    """Return True if the address of a page ends in `.json`."""
    return request.url.path.endswith(".json")


def add_page(app: FastAPI, path: str, page: Callable[..., Any]) -> None:
    """Add a page, and its JSON at the same path with `.json`."""
    app.get(f"{path}.json")(page)
    app.get(path)(page)


def status_and_reason(error: Exception) -> tuple[int, str]:
    """Return the status and the text of a response for an error."""
    if isinstance(error, Refused):
        return error.status, error.reason
    if isinstance(error, HTTPException):
        return error.status_code, f"{error.detail}: this page does not exist"
    if isinstance(error, LeaseExpired | Conflict):
        return 409, reason_of(error)
    return (422 if isinstance(error, BadInput) else 503), reason_of(error)


def saved_time(path: Path) -> str:
    """Return the time (UTC) at which a file was written, in words to the minute."""
    return time_in_words(datetime.fromtimestamp(path.stat().st_mtime, UTC))


def time_in_words(time: datetime) -> str:
    """Return a time to the minute as pages show it.

    >>> time_in_words(datetime(2026, 11, 28, 4, 5))
    '28 November 2026, 04:05'
    """
    return f"{time.day} {time:%B %Y, %H:%M}"


STYLE_SHEET = "accord.css"

# --- static files and templates -------------------------------------------------------------------------------------


def static_file(name: str) -> tuple[bytes, str, str] | None:
    """Return a file that pages load, its type, and the digest in its address, or `None` if it does not exist."""
    return _read_static(name) if name in _static_names() else None


@cache
def _static_names() -> frozenset[str]:
    """Return the names of all files that pages load. Other names do not reach the file system or the cache."""
    names = [file.name for file in files("accord.web").joinpath("static").iterdir() if file.is_file()]
    return frozenset(name for name in (STYLE_SHEET, FONT, *names) if Path(name).suffix in _TYPES)


@cache
def _read_static(name: str) -> tuple[bytes, str, str]:
    folder = files("accord.web").joinpath("static")
    if name == STYLE_SHEET:
        content = look_file("style.css").replace(FONT.encode(), _address(FONT).encode())
    else:
        content = look_file(FONT) if name == FONT else folder.joinpath(name).read_bytes()
    content = _IMPORT.sub(lambda match: f'from "{_address(match[1].decode())}"'.encode(), content)
    return content, _TYPES[Path(name).suffix], hashlib.sha256(content).hexdigest()[:12]


def _figure(figure: Figure | Mapping[str, Any]) -> Markup:
    """Return a figure, or a figure as JSON, as HTML."""
    return Markup(figure_html(figure if isinstance(figure, Figure) else Figure.from_json(figure)))


def _drawn_score(row: Mapping[str, Any], scores: SelectedScores) -> Markup:
    """Return a score of a list with its 80% interval as a drawing on the scale, with the ends as text."""
    low, high = row["interval"]
    if low is None or high is None:
        return Markup("")
    drawn = interval_svg(Estimate(row["value"], low, high), Axis("", scores.low, scores.high))
    return drawn + Markup('<span class="sr">{:.2f} to {:.2f}</span>').format(low, high)


def _address(name: str) -> str:
    """Return the address of a static file; it contains a digest of the content, so that browsers can cache it."""
    file = static_file(name)
    assert file is not None, f"no file {name}"
    return f"/static/{name}?{file[2]}"


def conversation_address(conversation: str, turn: int | None = None, back: str = "") -> str:
    """Return the address of a conversation's page, or of one of its turns, with a link back to the board.

    >>> conversation_address("chats/7 é?", 3)
    '/conversation/chats%2F7%20%C3%A9%3F?turn=3#t3'
    """
    query = {name: value for name, value in (("turn", turn), ("back", back)) if value not in (None, "")}
    anchor = "" if turn is None else f"#t{turn}"
    return f"/conversation/{quote(sendable(conversation), safe='')}{'?' if query else ''}{urlencode(query)}{anchor}"


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("accord.web"), autoescape=True, finalize=page_text, trim_blocks=True,
        lstrip_blocks=True, undefined=StrictUndefined,
    )  # fmt: skip
    environment.globals.update(static=_address, version=__version__, icon=icon)
    environment.filters["zip_same"] = lambda names: [(name, name) for name in names]
    environment.filters["named"] = lambda ids, names: [(id, names[id]) for id in ids]
    environment.filters["dimension"] = dimension_in_words
    environment.filters["figure"] = environment.globals["figure"] = _figure
    environment.filters["drawn"] = _drawn_score
    environment.filters["number"] = lambda value: f"{value:g}"
    environment.filters["json_text"] = lambda value: json.dumps(value, ensure_ascii=False)
    environment.filters["reading"] = conversation_address
    environment.filters["said"] = lambda turn: turn_content(turn["role"], turn["text"], turn.get("calls", ()))
    return environment
