"""Chat pages: a conversation with an assistant that the annotator rates afterwards (LLM-RUBRIC, appendix H).

Pages work as forms without scripts: the response waits for the reply, and "stop", "another topic" and "end of
conversation" are buttons. With the script, replies stream as Server-Sent Events. No page, JSON or header names the
assistant, and its documents are shown only after the conversation has ended.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from time import monotonic
from typing import Any

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException

from accord.edges import BadInput, parse_whole_number, reason_of
from accord.store import DIED, Chat, ChatTurn, Conflict
from accord.studies import ChatSession
from accord.web.accounts import Visitor, new_key
from accord.web.context import WorkbenchContext, add_page, is_json

WAIT_SECONDS = 20.0
"""Time that the response to a form waits for the reply."""
STREAM_SECONDS = 15.0
"""Maximum duration of one stream; browsers reconnect, and a server can stop."""
POLL_SECONDS = 0.05
_ID = re.compile(r"[A-Za-z0-9_-]{16,64}", re.ASCII)
REASONS = {
    "timeout": "the assistant did not answer in time",
    "unreachable": "the assistant could not be reached",
    "rate-limited": "the assistant has too many requests",
    "too long": "the conversation is too long for this assistant",
    "refused": "the assistant declined to answer",
    "filtered": "a filter withheld the answer",
    "budget": "the budget of this study is used up; tell the person who runs it",
    "settings": "the assistant is not available; tell the person who runs the study",
    DIED: "the server stopped while the assistant was writing",
    "cut off": "the connection to the assistant broke",
    "too large": "the answer became too long",
    "empty": "the assistant sent an empty answer",
}
"""Messages for replies that were cut off; they do not reveal the assistant."""


def add_routes(app: FastAPI, context: WorkbenchContext) -> None:
    """Add the chat pages; a study with invalid documents or assistants is withdrawn."""
    pages = _ChatPages(context)
    add_page(app, "/talk/{study}", pages.overview)
    app.post("/talk/{study}")(pages.begin)
    app.get("/talk/{study}/{id}/stream")(pages.stream)
    add_page(app, "/talk/{study}/{id}", pages.chat)
    app.post("/talk/{study}/{id}")(pages.act)


class _ChatPages:
    def __init__(self, context: WorkbenchContext) -> None:
        self.context = context
        self.sessions: dict[str, ChatSession] = {}
        for name, study in list(context.sessions.items()):
            if study.settings.chat is not None:
                try:
                    self.sessions[name] = ChatSession(study)
                except BadInput as error:
                    context.withdraw(name, error)
        context.on_close += [session.close for session in self.sessions.values()]

    def _session(self, study: str, visitor: Visitor) -> ChatSession:
        self.context.study(study, visitor)
        if study not in self.sessions:
            raise HTTPException(404)
        return self.sessions[study]

    # --- pages --------------------------------------------------------------------------------------------------

    def overview(self, study: str, request: Request) -> Response:
        """Show the annotator's chats of a study, and a button to begin."""
        visitor = self.context.visitor(request)
        session = self._session(study, visitor)
        chats = [
            {"id": talk.id, "topic": talk.topic, "state": talk.state, "began": talk.began, "ended": talk.ended}
            for talk in session.talks.chats_of(study, visitor.person.name)
        ]
        limit = session.settings.max_conversations
        left = None if limit is None else max(0, limit - sum(chat["state"] == "ended" for chat in chats))
        data = {"chats": chats, "left": left}
        return self.context.render_or_json(request, "chats", visitor, data, study=session.study)

    def chat(self, study: str, id: str, request: Request) -> Response:
        """Show a chat, or redirect to the questions if it has ended."""
        visitor = self.context.visitor(request)
        session = self._session(study, visitor)
        talk = session.talk(id, visitor.person.name)
        if is_json(request):
            return JSONResponse(_view(session, talk))
        if talk.state != "open":
            return RedirectResponse(_next_address(talk), 303)
        return self._render(session, talk, visitor)

    async def stream(self, study: str, id: str, request: Request) -> Response:
        """Stream the current reply: its text so far, its additions, and its end."""
        visitor = await run_in_threadpool(self.context.visitor, request)
        session = self._session(study, visitor)
        await run_in_threadpool(session.talk, id, visitor.person.name)
        return StreamingResponse(_events(session, id), media_type="text/event-stream")

    def _render(
        self, session: ChatSession, talk: Chat, visitor: Visitor, status: int = 200, error: str = "", draft: str = ""
    ) -> Response:
        """Render a chat; a message that could not be sent is kept as a draft with its error."""
        return self.context.render(
            "chat", visitor, status, talk=_view(session, talk), key=new_key(), study=session.study,
            settings=session.settings, error=error, draft=draft,
            streams=session.pending_reply(talk.id) is not None,
        )  # fmt: skip

    # --- forms --------------------------------------------------------------------------------------------------

    async def begin(self, study: str, request: Request) -> Response:
        visitor, _ = await self.context.read_form(request)
        session = self._session(study, visitor)
        talk = await run_in_threadpool(session.begin, visitor.person.name)
        return RedirectResponse(f"/talk/{study}/{talk.id}", 303)

    async def act(self, study: str, id: str, request: Request) -> Response:
        """Do the action of a button; errors are shown on the page, which keeps the text."""
        visitor, fields = await self.context.read_form(request)
        session, person = self._session(study, visitor), visitor.person.name
        try:
            address = await run_in_threadpool(_do_action, session, person, id, fields)
        except BadInput as error:
            talk = await run_in_threadpool(session.talk, id, person)
            if talk.state != "open":
                return RedirectResponse(_next_address(talk), 303)
            status, draft = 409 if isinstance(error, Conflict) else 422, str(fields.get("text", ""))
            return await run_in_threadpool(self._render, session, talk, visitor, status, reason_of(error), draft)
        if fields.get("wait") != "no":
            await _wait_for_reply(session, id)
        return RedirectResponse(address, 303)


def _view(session: ChatSession, talk: Chat) -> dict[str, Any]:
    """Return a chat as its annotator sees it, without the name of the assistant."""
    reply = session.pending_reply(talk.id)
    lines = [
        _line(message, reply.shown if reply is not None and message is talk.writing else message.content)
        for message in talk.transcript
    ]
    sent = sum(message.role == "user" for message in talk.messages)
    last = talk.messages[-1] if talk.messages else None
    return {
        "id": talk.id, "topic": talk.topic, "state": talk.state, "messages": lines, "after": len(talk.messages),
        "left": max(0, session.limits.messages - sent), "writing": talk.writing is not None,
        "again": last is not None and last.role == "assistant" and last.state in ("cut", "stopped"),
        "can_end": any(each.role == "assistant" and each.content and each.place for each in talk.transcript),
    }  # fmt: skip


def _next_address(talk: Chat) -> str:
    """Return the page that follows a chat that is not open."""
    return f"/talk/{talk.study}" if talk.assignment is None else f"/rate/{talk.study}/{talk.assignment}"


def _do_action(session: ChatSession, person: str, id: str, fields: dict[str, Any]) -> str:
    """Do the action of a form, and return the next address."""
    here = f"/talk/{session.study.name}/{id}"
    match fields.get("do", "say"):
        case "say":
            message = str(fields.get("message", ""))
            if not _ID.fullmatch(message):
                raise BadInput("the message's id has 16 to 64 letters, digits, '-' and '_'; reload the page")
            session.say(id, person, message, str(fields.get("text", "")), _message_count(fields))
        case "again":
            session.ask_again(id, person, _message_count(fields))
        case "stop":
            session.stop(id, person)
        case "another":
            return f"/talk/{session.study.name}/{session.another(id, person).id}"
        case "end":
            return f"/rate/{session.study.name}/{session.end(id, person).id}"
        case other:
            raise BadInput(f"do: got {str(other)[:20]!r}, allowed: say, again, stop, another, end")
    return here


def _message_count(fields: dict[str, Any]) -> int:
    """Return the number of messages that the page showed."""
    after = parse_whole_number(str(fields.get("after", "")))
    if after is None or after >= 10**6:
        raise BadInput("the form lacks the number of messages; reload the page")
    return after


async def _wait_for_reply(session: ChatSession, id: str) -> None:
    until = monotonic() + WAIT_SECONDS
    while session.pending_reply(id) is not None and monotonic() < until:
        await asyncio.sleep(POLL_SECONDS)


async def _events(session: ChatSession, id: str) -> AsyncIterator[str]:
    """Yield Server-Sent Events with JSON data: `all` with the reply so far, `more` with its next part, and `end`."""
    sent, until, last = "", monotonic() + STREAM_SECONDS, None
    yield _event("all", "")
    while monotonic() < until:
        reply = session.pending_reply(id)
        last = reply or last  # a finished reply may end with text that was not sent yet
        text = "" if last is None else last.shown
        if not text.startswith(sent):
            yield _event("all", text)
        elif text != sent:
            yield _event("more", text[len(sent) :])
        sent = text
        if reply is None:
            yield _event("end", "")
            return
        await asyncio.sleep(POLL_SECONDS)


def _event(kind: str, text: str) -> str:
    return f"event: {kind}\ndata: {json.dumps(text)}\n\n"


def _line(message: ChatTurn, text: str) -> dict[str, str]:
    line = {"role": message.role, "text": text, "state": message.state}
    if message.state == "cut":
        line["reason"] = REASONS.get(message.reason or "", "the assistant could not answer")
    return line
