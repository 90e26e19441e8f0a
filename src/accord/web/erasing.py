"""Erasing pages: the question with counts by place, the erasure in the background, and its receipt.

An erasure is recorded in the store before its form is answered. If the server stops, the page of the receipt continues
it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any
from urllib.parse import urlencode

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse, Response
from starlette.exceptions import HTTPException

from accord.edges import AccordError, BadInput, count_of, sendable
from accord.live import Refused
from accord.project import PLACE_WORDS, Erasure, Selection, erase, plan_erasure, refit_sentences, resume
from accord.store import Erasures
from accord.studies import BackgroundJobs, text_field
from accord.web.accounts import Visitor
from accord.web.context import WorkbenchContext, add_page, conversation_address, time_in_words
from accord.web.pages.conversation import back_address
from accord.web.pages.people import check_may_manage

WAIT_SECONDS = 3.0
"""Time that a page waits for counts or for an erasure before it says that they are in progress."""
PLAN_SECONDS, MAX_PLANS = 60.0, 100
"""Time for which counts are kept, and their number."""
MAX_NAME = 4000
"""Length of an ID or a name in a form, in characters."""
JOB = "erase"
Row = dict[str, Any]


def add_routes(app: FastAPI, context: WorkbenchContext) -> None:
    """Add the pages and their form."""
    pages = _ErasurePages(context)
    context.on_close.append(pages.jobs.close)
    add_page(app, "/erase", pages.question)
    app.post("/erase")(pages.act)
    add_page(app, "/erasures/{id}", pages.receipt)


class _ErasurePages:
    def __init__(self, context: WorkbenchContext) -> None:
        self.context = context
        self.jobs = BackgroundJobs()
        self._plans: dict[str, tuple[float, Erasure | Exception]] = {}
        self._lock = Lock()

    # --- pages --------------------------------------------------------------------------------------------------

    def question(self, request: Request, conversation: str = "", annotator: str = "", back: str = "") -> Response:
        """Ask before a conversation or an annotator is erased, with counts by place."""
        visitor, back = self.context.visitor(request, "lead"), back_address(back)
        if (unfinished := self._unfinished(conversation, annotator)) is not None:
            return RedirectResponse(f"/erasures/{unfinished}", 303)
        selection = self._selection(visitor, conversation, annotator)
        plan = self._plan(selection)
        data = {
            "conversation": conversation, "annotator": annotator, "counted": plan is not None,
            "plan": None if plan is None else places_of(plan.to_json(), self.context.project.config.folder),
        }  # fmt: skip
        return self.context.render_or_json(
            request, "erase", visitor, data, back=back, waiting=plan is None,
            cancel=conversation_address(conversation, None, back) if conversation else "/people",
        )  # fmt: skip

    def receipt(self, id: str, request: Request, back: str = "") -> Response:
        """Show the receipt of an erasure, or its progress."""
        visitor = self.context.visitor(request, "lead")
        is_at_work = bool(self.jobs.state(JOB))  # before the run is read, which may end in between
        run = next((run for run in self._runs() if run["id"] == id), None)
        if run is None:
            raise HTTPException(404)
        state = "done" if run["status"] == "done" else "running" if is_at_work else "interrupted"
        data = {
            **erasure_row(run), "state": state, "failed": self.jobs.failed.get(JOB, "") if state != "done" else "",
            "places": places_of(run["results"] or {}, self.context.project.config.folder),
        }  # fmt: skip
        return self.context.render_or_json(
            request, "erasure", visitor, data, back=back_address(back), waiting=state == "running"
        )

    def _plan(self, selection: Selection) -> Erasure | None:
        """Return the counts of the rows to erase, or `None` if counting takes longer than `WAIT_SECONDS`."""
        key = f"count {selection}"
        if (found := self._kept_plan(key)) is None:
            self.jobs.add(key, lambda: self._count(key, selection))
            self.jobs.wait(WAIT_SECONDS)
            found = self._kept_plan(key)
        if isinstance(found, Exception):
            raise found
        return found

    def _kept_plan(self, key: str) -> Erasure | Exception | None:
        """Return counts that were made a short time ago: a page that waited for them is loaded twice."""
        made, found = self._plans.get(key, (0.0, None))
        return found if monotonic() - made < PLAN_SECONDS else None

    def _count(self, key: str, selection: Selection) -> None:
        found: Erasure | Exception
        try:
            found = plan_erasure(self.context.project, selection)
        except (AccordError, OSError) as error:
            found = error
        self._plans = {**dict(list(self._plans.items())[-MAX_PLANS:]), key: (monotonic(), found)}

    # --- forms --------------------------------------------------------------------------------------------------

    async def act(self, request: Request) -> Response:
        """Erase a conversation or an annotator, or continue an erasure that was interrupted."""
        visitor, fields = await self.context.read_form(request, "lead")
        return RedirectResponse(await run_in_threadpool(self._act, visitor, fields), 303)

    def _act(self, visitor: Visitor, fields: Mapping[str, Any]) -> str:
        action, back = text_field(fields, "do", 100), back_address(text_field(fields, "back", MAX_NAME))
        if action == "erase":
            with self._lock:
                id = self._begin(visitor, fields)
        elif action == "continue":
            id = text_field(fields, "id", 100)
            if not any(run["id"] == id for run in self._runs()):
                raise BadInput(f"there is no erasure {id!r}; the page Settings lists all")
        else:
            raise BadInput(f"do: got {action[:20]!r}, allowed: erase, continue")
        self.jobs.add(JOB, self._erase)
        self.jobs.wait(WAIT_SECONDS)
        is_done = any(run["id"] == id and run["status"] == "done" for run in self._runs())
        query = {name: value for name, value in (("done", "erased" if is_done else ""), ("back", back)) if value}
        return f"/erasures/{id}{'?' if query else ''}{urlencode(query)}"

    def _begin(self, visitor: Visitor, fields: Mapping[str, Any]) -> str:
        """Record an erasure, and return its ID; a form that is sent twice has one erasure."""
        conversation, annotator = (text_field(fields, name, MAX_NAME) for name in ("conversation", "annotator"))
        if (unfinished := self._unfinished(conversation, annotator)) is not None:
            return unfinished
        run = self.context.started.judge.last(self.context.project)
        if conversation and run is not None and run.is_running:  # its answers would be stored after the erasure
            raise BadInput("models are asked about conversations at present; stop the run on the page Judge first")
        selection, keeps = self._selection(visitor, conversation, annotator), fields.get("keep") in ("on", True)
        selection = replace(selection, keep_scores=keeps and bool(conversation), keep_labels=keeps and bool(annotator))
        return erase(self.context.project, selection, later=True).id

    def _erase(self) -> None:
        """Do all erasures that were recorded, and drop copies in memory."""
        try:
            resume(self.context.project)
        finally:
            self._plans = {}
            self.context.learning.forget_erased()

    # --- selection ----------------------------------------------------------------------------------------------

    def _runs(self) -> list[dict[str, Any]]:
        return self.context.project.store.runs(Erasures.command)

    def _unfinished(self, conversation: str, annotator: str) -> str | None:
        """Return the ID of the unfinished erasure of a conversation or an annotator."""
        for run in self._runs():
            names = run["settings"].get("people" if annotator else "ids", ())
            if run["status"] == "running" and (annotator or conversation) in names:
                return str(run["id"])
        return None

    def _selection(self, visitor: Visitor, conversation: str, annotator: str) -> Selection:
        """Return what to erase, after checking that the user may erase it.

        Raises:
            BadInput: Not exactly one name is given, or it is the name of the user's own account.
            Refused: 404 for a conversation that was erased; 403 for an account that only admins manage.
        """
        if bool(conversation) == bool(annotator):
            raise BadInput(
                "name one conversation or one annotator to erase: open the conversation's page, or the page People"
            )
        name = conversation or annotator
        if len(name) > MAX_NAME:
            raise BadInput(f"a name has at most {MAX_NAME:,} characters; got {len(name):,}, beginning {name[:40]!r}")
        if erased := self.context.erased(name, "conversation" if conversation else "annotator"):
            raise Refused(404, erased)
        if conversation:
            return Selection(conversations=(conversation,))
        if annotator == visitor.person.name:
            raise BadInput(
                "your own account cannot be erased while you are signed in with it; ask another admin, or run on the "
                f"machine of the server: accord store erase --annotator {annotator}"
            )
        role = next((each.role for each in self.context.studies.accounts.list_users() if each.name == annotator), None)
        check_may_manage(visitor, role or "annotator")
        return Selection(annotators=(annotator,))


# --- counts and receipts in words -----------------------------------------------------------------------------------


def last_erasures(context: WorkbenchContext, count: int) -> list[Row]:
    """Return the last erasures, the latest first."""
    return [erasure_row(run) for run in context.project.store.runs(Erasures.command)[: -count - 1 : -1]]


def erasure_row(run: Mapping[str, Any]) -> Row:
    """Return the time, the counts and the ID of an erasure, without names."""
    found = run["results"] or {**run["settings"], "conversations": len(run["settings"].get("ids", ()))}
    people = found.get("annotators", len(run["settings"].get("people", ())))
    parts = [count_of(found["conversations"], "conversation")] if found["conversations"] or not people else []
    parts += [count_of(people, "annotator")] if people else []
    return {
        "id": run["id"], "is_done": run["status"] == "done", "text": " and ".join(parts),
        "hash": run["settings"]["hash"],
        "time": time_in_words(datetime.fromisoformat(run["finished"] or run["started"])),
    }  # fmt: skip


def places_of(found: Mapping[str, Any], folder: Path) -> Row:
    """Return the counts of an erasure by place, and the places left to the user, in words.

    Args:
        found: Erasure as JSON; empty for one that is not finished.
        folder: Folder of the project; paths are shown relative to it.
    """
    rows = [(PLACE_WORDS.get(name, name), count) for name, count in found.get("rows", {}).items()]
    rows += [("scores of the board", found["scores"])] if found.get("scores") else []
    files = [(each["kind"], _relative(each["path"], folder), each["rows"]) for each in found.get("files", ())]
    changed = [(f"{PLACE_WORDS[kind]}: {path}", count or None) for kind, path, count in files if kind in PLACE_WORDS]
    return {
        "rows": [{"place": place, "rows": count} for place, count in (*rows, *changed)],
        "yours": [path for kind, path, _ in files if kind == "yours"],
        "unreadable": [path for kind, path, _ in files if kind == "unreadable"],
        "batches": list(found.get("batches", ())), "refit": list(found.get("refit", ())),
        "learned": refit_sentences(found.get("learned", ()), bool(found.get("id"))),
        "summary": _summary([count for _, count in rows], len(changed)), "conversations": found.get("conversations", 0),
    }  # fmt: skip


def _summary(counts: Sequence[int], files: int) -> str:
    rows = f"{count_of(sum(counts), 'row')} of the store and the board"
    return f"{rows} and {count_of(files, 'file')}" if files else rows


def _relative(path: str, folder: Path) -> str:
    place = Path(path)
    inside = place.relative_to(folder.resolve()) if place.is_relative_to(folder.resolve()) else Path(place.name)
    return sendable(str(inside))
