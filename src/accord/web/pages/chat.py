"""Talk: a conversation with an assistant that is rated afterwards (LLM-RUBRIC, appendix H).

Pages work by forms alone: a message is sent, the answer waits for the reply, and "stop", "another topic" and "end of
conversation" are buttons. With the script the reply is shown as it is written (Server-Sent Events). No page, no JSON
and no header names the assistant, and what it could read is shown only when the conversation has ended.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from time import monotonic
from typing import Any, NotRequired, TypedDict

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException

from accord.edges import BadInput, parse_whole_number
from accord.store import DIED, Chat, ChatTurn, Conflict
from accord.studies import OpenTalk
from accord.web.accounts import Visitor
from accord.web.context import WorkbenchContext
from accord.web.forms import new_key

WAIT_SECONDS = 20.0
"""How long the answer to a form waits for the reply; the page then says that it is still being written."""
STREAM_SECONDS = 15.0
"""How long one connection streams: browsers come again by themselves, and a server that stops waits no longer."""
LOOK_SECONDS = 0.05
_ID = re.compile(r"[A-Za-z0-9_-]{16,64}", re.ASCII)
REASONS = {
    "timeout": "the assistant did not answer in time",
    "unreachable": "the assistant could not be reached",
    "rate-limited": "the assistant has too much to do",
    "too long": "the conversation is too long for this assistant",
    "refused": "the assistant declined to answer",
    "filtered": "the answer was withheld by a filter",
    "budget": "the budget of this study is spent; tell whoever leads it",
    "settings": "the assistant cannot answer at all; tell whoever leads the study",
    DIED: "the server was stopped while the assistant was writing",
    "cut off": "the connection to the assistant broke",
    "too large": "the answer became too long",
    "empty": "the assistant said nothing",
}
"""What is said of a reply that was cut off; no detail that could tell which assistant it is."""


class Line(TypedDict):
    """A message as it is shown; one that was cut off says why."""

    role: str
    text: str
    state: str
    reason: NotRequired[str]


class Shown(TypedDict):
    """All that anybody is told of a conversation: nothing here names the assistant."""

    id: str
    topic: str
    state: str
    messages: list[Line]
    after: int
    left: int
    writing: bool
    again: bool
    can_end: bool


def add_routes(app: FastAPI, context: WorkbenchContext) -> None:
    """Add the routes of this part; a study whose documents or assistants cannot be used is withdrawn."""
    pages = _Pages(context)
    app.get("/talk/{study}.json")(pages.start)
    app.get("/talk/{study}")(pages.start)
    app.post("/talk/{study}")(pages.begin)
    app.get("/talk/{study}/{id}/stream")(pages.stream)
    app.get("/talk/{study}/{id}.json")(pages.talk)
    app.get("/talk/{study}/{id}")(pages.talk)
    app.post("/talk/{study}/{id}")(pages.act)


class _Pages:
    def __init__(self, context: WorkbenchContext) -> None:
        self.context = context
        self.open: dict[str, OpenTalk] = {}
        for name, study in list(context.open.items()):
            if study.settings.chat is not None:
                try:
                    self.open[name] = OpenTalk(study)
                except BadInput as error:
                    context.withdraw(name, error)
        context.on_close += [each.close for each in self.open.values()]

    def _open(self, study: str, visitor: Visitor) -> OpenTalk:
        self.context.study(study, visitor)
        if study not in self.open:
            raise HTTPException(404)
        return self.open[study]

    # --- looking ------------------------------------------------------------------------------------------------

    def start(self, study: str, request: Request) -> Response:
        """One's conversations of a study, and a button to begin."""
        visitor = self.context.visitor(request)
        found = self._open(study, visitor)
        mine = [
            {"id": each.id, "topic": each.topic, "state": each.state, "began": each.began, "ended": each.ended}
            for each in found.talks.mine(study, visitor.person.name)
        ]
        most = found.settings.max_conversations
        left = None if most is None else max(0, most - sum(each["state"] == "ended" for each in mine))
        return self.context.answer(request, "talks", visitor, {"mine": mine, "left": left}, study=found.study)

    def talk(self, study: str, id: str, request: Request) -> Response:
        """One conversation; one that has ended leads on to its questions."""
        visitor = self.context.visitor(request)
        found = self._open(study, visitor)
        talk = found.talk(id, visitor.person.name)
        if request.url.path.endswith(".json"):
            return JSONResponse(self._shown(found, talk))
        if talk.state != "open":
            return RedirectResponse(_after(talk), 303)
        return self._page(found, talk, visitor)

    async def stream(self, study: str, id: str, request: Request) -> Response:
        """The reply that is being written: all of it so far, then what is added, then the end."""
        visitor = await run_in_threadpool(self.context.visitor, request)
        found = self._open(study, visitor)
        await run_in_threadpool(found.talk, id, visitor.person.name)
        return StreamingResponse(_events(found, id), media_type="text/event-stream")

    def _page(
        self, found: OpenTalk, talk: Chat, visitor: Visitor, status: int = 200, problem: str = "", draft: str = ""
    ) -> Response:
        """The page; what could not be sent stands in its box again, beside what is wrong."""
        shown = self._shown(found, talk)
        about = {"study": found.study, "settings": found.settings, "problem": problem, "draft": draft}
        is_streamed = found.writing(talk.id) is not None
        return self.context.page("talk", visitor, status, talk=shown, key=new_key(), streams=is_streamed, **about)

    def _shown(self, found: OpenTalk, talk: Chat) -> Shown:
        """All that anybody is told of a conversation."""
        writing = found.writing(talk.id)
        said = [_line(each, writing.shown if writing is not None and each is talk.writing else each.content)
                for each in talk.heard]  # fmt: skip
        used = sum(each.role == "user" for each in talk.said)
        last = talk.said[-1] if talk.said else None
        return {
            "id": talk.id, "topic": talk.topic, "state": talk.state, "messages": said, "after": len(talk.said),
            "left": max(0, found.limits.messages - used), "writing": talk.writing is not None,
            "again": last is not None and last.role == "assistant" and last.state in ("cut", "stopped"),
            "can_end": any(each.role == "assistant" and each.content and each.place for each in talk.heard),
        }  # fmt: skip

    # --- acting -------------------------------------------------------------------------------------------------

    async def begin(self, study: str, request: Request) -> Response:
        visitor, _ = await self.context.posted(request)
        found = self._open(study, visitor)
        talk = await run_in_threadpool(found.begin, visitor.person.name)
        return RedirectResponse(f"/talk/{study}/{talk.id}", 303)

    async def act(self, study: str, id: str, request: Request) -> Response:
        """Do what a button of the page says; what is wrong with it is said on the page, which keeps the text."""
        visitor, fields = await self.context.posted(request)
        found, person = self._open(study, visitor), visitor.person.name
        try:
            where = await run_in_threadpool(_done, found, person, id, fields)
        except BadInput as error:
            talk = await run_in_threadpool(found.talk, id, person)
            if talk.state != "open":
                return RedirectResponse(_after(talk), 303)
            status, draft = 409 if isinstance(error, Conflict) else 422, str(fields.get("text", ""))
            return await run_in_threadpool(self._page, found, talk, visitor, status, str(error), draft)
        if fields.get("wait") != "no":
            await _finished(found, id)
        return RedirectResponse(where, 303)


def _after(talk: Chat) -> str:
    """Where a conversation leads that is not open any more."""
    return f"/talk/{talk.study}" if talk.assignment is None else f"/rate/{talk.study}/{talk.assignment}"


def _done(found: OpenTalk, person: str, id: str, fields: dict[str, Any]) -> str:
    """Do what a form says; returns where to go on."""
    here = f"/talk/{found.study.name}/{id}"
    match fields.get("do", "say"):
        case "say":
            message = str(fields.get("message", ""))
            if not _ID.fullmatch(message):
                raise BadInput("the message's id has 16 to 64 letters, digits, '-' and '_'; load the page again")
            found.say(id, person, message, str(fields.get("text", "")), _whole(fields))
        case "again":
            found.ask_again(id, person, _whole(fields))
        case "stop":
            found.stop(id, person)
        case "another":
            return f"/talk/{found.study.name}/{found.another(id, person).id}"
        case "end":
            return f"/rate/{found.study.name}/{found.end(id, person).id}"
        case other:
            raise BadInput(f"do: got {str(other)[:20]!r}, allowed: say, again, stop, another, end")
    return here


def _whole(fields: dict[str, Any]) -> int:
    after = parse_whole_number(str(fields.get("after", "")))
    if after is None or after >= 10**6:
        raise BadInput("the form does not say after what it was written; load the page again")
    return after


async def _finished(found: OpenTalk, id: str) -> None:
    """Wait for a reply to be written, for a while."""
    until = monotonic() + WAIT_SECONDS
    while found.writing(id) is not None and monotonic() < until:
        await asyncio.sleep(LOOK_SECONDS)


async def _events(found: OpenTalk, id: str) -> AsyncIterator[str]:
    """Server-Sent Events: `all` of the reply so far, `more` of it, `end`. Data is JSON: text is only ever text."""
    sent, until, last = "", monotonic() + STREAM_SECONDS, None
    yield _event("all", "")
    while monotonic() < until:
        writing = found.writing(id)
        last = writing or last  # one that has ended since may have had more to say
        text = "" if last is None else last.shown
        if not text.startswith(sent):
            yield _event("all", text)
        elif text != sent:
            yield _event("more", text[len(sent) :])
        sent = text
        if writing is None:
            yield _event("end", "")
            return
        await asyncio.sleep(LOOK_SECONDS)


def _event(kind: str, text: str) -> str:
    return f"event: {kind}\ndata: {json.dumps(text)}\n\n"


def _line(each: ChatTurn, text: str) -> Line:
    line: Line = {"role": each.role, "text": text, "state": each.state}
    if each.state == "cut":
        line["reason"] = REASONS.get(each.reason or "", "the assistant could not answer")
    return line
