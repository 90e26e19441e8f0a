"""Rate: an item, its questions, and one's own list; as pages with forms, and for a script that saves each answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, RedirectResponse, Response

from accord.edges import BadInput, escape_controls, parse_whole_number
from accord.store import Conflict
from accord.studies import BOTH_BAD, OpenStudy, Sheet
from accord.values import ISSUE, Annotation
from accord.web.accounts import Visitor
from accord.web.context import WorkbenchContext
from accord.web.pages.rating_view import Sent, asked, before, blocks, own_list, short, tie_of

ACTIONS = ("save", "finish", "skip", "reopen", "mark", "unmark")


def add_routes(app: FastAPI, context: WorkbenchContext) -> None:
    """The routes of this part."""
    rate = _Rate(context)
    app.get("/rate")(lambda: RedirectResponse("/", 303))
    app.get("/rate/{study}")(rate.begin)
    app.get("/rate/{study}/next")(rate.next)
    for ending in (".json", ""):
        app.get(f"/rate/{{study}}/done{ending}")(rate.done)
        app.get(f"/rate/{{study}}/{{id}}{ending}")(rate.sheet)
    app.post("/answers")(rate.answer)
    app.post("/rate/{study}/{id}")(rate.save)


class _Rate:
    def __init__(self, context: WorkbenchContext) -> None:
        self.context = context

    def _of(self, study: str, request: Request) -> tuple[Visitor, OpenStudy]:
        visitor = self.context.visitor(request)
        return visitor, self.context.study(study, visitor)

    def begin(self, study: str, request: Request) -> Response:
        """Whoever comes for the first time reads the guidelines; all others get what they are at."""
        visitor, found = self._of(study, request)
        if found.settings.guidelines and not found.studies.mine(study, visitor.person.name):
            found.begin()
            _, total = found.progress(visitor.person.name)
            return self.context.page("begin", visitor, study=found, total=total, short=short)
        return self.next(study, request)

    def next(self, study: str, request: Request) -> Response:
        visitor, found = self._of(study, request)
        found.begin()
        assignment = found.take(visitor.person.name)
        done = f"/rate/{study}/done" if found.settings.chat is None else found.start
        where = done if assignment is None else f"/rate/{study}/{assignment.id}"
        return RedirectResponse(where, 303)

    def done(self, study: str, request: Request) -> Response:
        visitor, found = self._of(study, request)
        mine = own_list(found.studies.mine(study, visitor.person.name))
        finished, total = found.progress(visitor.person.name)
        shown = {"mine": mine, "finished": finished, "total": total}
        return self.context.answer(request, "done", visitor, shown, study=found)

    def sheet(self, study: str, id: str, request: Request) -> Response:
        visitor, found = self._of(study, request)
        shown = found.sheet(found.assignment(id, visitor.person.name))
        if request.url.path.endswith(".json"):
            return JSONResponse(sheet_json(shown))
        wrong = {}
        if "open" in request.query_params:
            wrong = dict.fromkeys(found.wanted(shown), "Not answered yet: choose one, then save.")
        return self._page(visitor, found, shown, Sent(wrong=wrong))

    def _page(self, visitor: Visitor, study: OpenStudy, sheet: Sheet, sent: Sent, status: int = 200) -> Response:
        settings, mine = study.settings, study.studies.mine(study.name, visitor.person.name)
        ids = [each.id for each in mine][::-1]
        place = ids.index(sheet.assignment.id)
        _, total = study.progress(visitor.person.name)
        sides = [(side, blocks(sheet, side)) for side in sheet.sides]
        return self.context.page(
            "rate", visitor, status, study=study, sheet=sheet, sides=sides,
            asked=asked(sheet, settings, study.studies.said_in(sheet.assignment, history=True), sent),
            before=before(sheet, study.rubric, settings), sent=sent, place=place + 1, total=total,
            revealed=study.revealed(sheet.assignment),
            earlier=ids[place - 1] if place else None, step=sheet.assignment.stage + 1, short=short,
        )  # fmt: skip

    async def answer(self, request: Request) -> Response:
        """Keep one answer that a script sends."""
        visitor, row = await self.context.posted(request)
        study = self.context.study(str(row.pop("study", "")), visitor)
        kept, again = await run_in_threadpool(study.answer, visitor.person.name, row)
        return JSONResponse({"id": kept.answer, "again": again, "time": kept.time}, 200 if again else 201)

    async def save(self, study: str, id: str, request: Request) -> Response:
        """Keep what a form has, and do what its button says; a script is told where to go on."""
        visitor, fields = await self.context.posted(request)
        found = self.context.study(study, visitor)
        by_script = "x-accord-form" in request.headers
        try:
            where = await run_in_threadpool(_saved, found, visitor.person.name, id, fields, by_script)
        except _Refused as error:
            if by_script:
                raise error.reason from None
            return await run_in_threadpool(self._refused, visitor, found, id, fields, error)
        return JSONResponse({"next": where}) if by_script else RedirectResponse(where, 303)

    def _refused(
        self, visitor: Visitor, study: OpenStudy, id: str, fields: dict[str, Any], error: _Refused
    ) -> Response:
        """The page again, with all that was typed, and what is wrong beside the question it is about."""
        sheet = study.sheet(study.assignment(id, visitor.person.name))
        status = 409 if isinstance(error.reason, Conflict) else 422
        return self._page(visitor, study, sheet, Sent(fields, {error.about: str(error.reason)}), status)


class _Refused(Exception):
    """One answer of a form was not kept; those before it were."""

    def __init__(self, about: str, reason: BadInput) -> None:
        super().__init__(str(reason))
        self.about, self.reason = about, reason


def _saved(study: OpenStudy, person: str, id: str, fields: dict[str, Any], by_script: bool) -> str:
    """Keep the answers of a whole form, do what its button says; returns where to go on.

    Raises:
        _Refused: An answer was not kept.
        BadInput: What is asked for cannot be done.
    """
    here, do = f"/rate/{study.name}/{id}", fields.get("do", "finish")
    match do:
        case "skip":
            study.skip(person, id, str(fields.get("reason", "")))
            return f"/rate/{study.name}"
        case "reopen":
            study.reopen(person, id)
            return here
        case "mark" | "unmark":
            study.answer(person, _mark_of(id, fields, do == "unmark"))
            return f"{here}#turn-{fields.get('turn', '')}"
        case "save" | "finish":
            sheet = study.sheet(study.assignment(id, person))
            if fields.get("stage", sheet.stage.id) != sheet.stage.id:
                return here  # it was sent twice, and the stage is behind
            for about, row in _rows(sheet, id, fields):
                try:
                    study.answer(person, row)
                except BadInput as reason:
                    raise _Refused(about, reason) from reason
            if do == "save":
                return here
            if not by_script and study.wanted(study.sheet(study.assignment(id, person))):
                return f"{here}?open=1#questions"
            finished = study.finish(person, id)
            return here if finished.state == "open" or study.revealed(finished) else f"/rate/{study.name}"
    raise BadInput(f"do: got {str(do)[:20]!r}, allowed: {', '.join(ACTIONS)}")


def _rows(sheet: Sheet, id: str, fields: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The answers of a form that are new, as `OpenStudy.answer` reads them, each with the question it is about."""
    found: list[tuple[str, dict[str, Any]]] = []
    for question in sheet.questions:
        name = question.id
        common = {"assignment": id, "stage": sheet.stage.id}
        is_bad, was_bad = f"bad.{name}" in fields, sheet.given.get(f"{name}:{BOTH_BAD}")
        value, comment = fields.get(f"value.{name}"), str(fields.get(f"comment.{name}", "")).replace("\r\n", "\n")
        if f"none.{name}" in fields:
            value = ""
        elif value == "" and f"number.{name}" in fields:
            value = None
        if value is None and is_bad and question.compares:
            value = tie_of(question.scale)  # whoever says that both are bad, and no more, prefers neither
        given = sheet.given.get(name)
        new = None if value in (None, "") else str(value)
        old = None if given is None or given.value is None else str(given.value)
        said = (
            () if given is None else (given.comment, escape_controls(given.comment))
        )  # as it is, and as the page wrote it
        if value is not None and (new != old or comment not in said):
            row = {"id": fields.get(f"id.{name}"), "question": name, "comment": comment, "value": new}
            found.append((name, {**common, **row}))
        if question.compares and is_bad != (was_bad is not None and was_bad.value == 1) and value is not None:
            row = {"id": fields.get(f"bad-id.{name}"), "question": f"{name}:{BOTH_BAD}", "value": int(is_bad)}
            found.append((name, {**common, **row}))
    return found


def _mark_of(id: str, fields: Mapping[str, Any], is_gone: bool) -> dict[str, str | int | None]:
    """A mark of an issue, or what takes it back, as `OpenStudy.answer` reads it."""
    turn = str(fields.get("turn", ""))
    row = {
        "assignment": id, "id": fields.get("id"), "question": f"{ISSUE}{fields.get('kind', '')}",
        "value": None if is_gone else 1, "turn": parse_whole_number(turn),
        "stage": fields.get("stage"),
    }  # fmt: skip
    told = {name: fields[name] for name in ("comment", "quote", "replaces") if fields.get(name)}
    return row | told


# --- JSON ---------------------------------------------------------------------------------------------------------


def sheet_json(sheet: Sheet) -> dict[str, Any]:
    """What a page shows, as JSON."""
    return {
        "assignment": sheet.assignment.id,
        "state": sheet.assignment.state,
        "stage": sheet.stage.id,
        "sides": [
            {
                "turns": [
                    {"place": turn.place, "role": turn.role, "text": turn.text, "rated": turn.is_rated,
                     "calls": list(turn.calls)}
                    for turn in side.turns
                ],
                "documents": [{"title": title, "text": text} for title, text in side.documents],
            }
            for side in sheet.sides
        ],
        "questions": [
            {
                "id": each.id, "text": each.text, "options": list(each.scale.options), "low": each.scale.low,
                "high": each.scale.high, "meanings": dict(each.meanings),
            }
            for each in sheet.questions
        ],
        "kinds": [] if sheet.kinds is None else list(sheet.kinds.names),
        "issues": None if sheet.issues is None else [
            {"turn": turn, "type": each.type, "comment": each.comment, "quote": each.quote, "span": each.span}
            for turn, issues in sorted(sheet.issues.items())
            for each in issues
        ],
        "given": {name: _answer_json(each) for name, each in sheet.given.items()},
        "marks": [_answer_json(each) for each in sheet.marks],
        "before": dict(sheet.before),
    }  # fmt: skip


def _answer_json(each: Annotation) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": each.answer, "question": each.question, "value": each.value, "comment": each.comment}
    if each.question.startswith(ISSUE):
        shown |= {"turn": each.target.turn, "quote": each.quote, "span": list(each.span) if each.span else None}
    return shown
