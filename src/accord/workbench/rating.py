"""Rate: an item, its questions, and one's own list; as pages with forms, and for a script that saves each answer."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, RedirectResponse, Response

from accord.store import Assignment
from accord.values import ISSUE, Annotation, BadInput
from accord.workbench.app import Bench
from accord.workbench.asking import OpenStudy, Sheet
from accord.workbench.forms import new_key


def add_routes(app: FastAPI, bench: Bench) -> None:
    """The routes of this part."""

    @app.get("/rate/{study}")
    def begin(study: str, request: Request) -> Response:
        visitor = bench.visitor(request)
        found = bench.study(study, visitor)
        found.begin()
        assignment = found.take(visitor.person.name)
        where = f"/rate/{study}/done" if assignment is None else f"/rate/{study}/{assignment.id}"
        return RedirectResponse(where, 303)

    @app.get("/rate/{study}/done.json")
    @app.get("/rate/{study}/done")
    def done(study: str, request: Request) -> Response:
        visitor = bench.visitor(request)
        found = bench.study(study, visitor)
        mine = found.studies.mine(study, visitor.person.name)
        return bench.answer(request, "done", visitor, {"mine": [_about(each) for each in mine]}, study=found)

    @app.get("/rate/{study}/{id}.json")
    @app.get("/rate/{study}/{id}")
    def sheet(study: str, id: str, request: Request) -> Response:
        visitor = bench.visitor(request)
        found = bench.study(study, visitor)
        shown = found.sheet(found.assignment(id, visitor.person.name))
        if request.url.path.endswith(".json"):
            return JSONResponse(sheet_json(shown))
        ids = {question.id: new_key() for question in shown.questions}
        return bench.page("rate", visitor, study=found, sheet=shown, ids=ids)

    @app.post("/answers")
    async def answer(request: Request) -> Response:
        visitor, row = await bench.posted(request)
        study = bench.study(str(row.pop("study", "")), visitor)
        kept, again = await run_in_threadpool(study.answer, visitor.person.name, row)
        return JSONResponse({"id": kept.answer, "again": again, "time": kept.time}, 200 if again else 201)

    @app.post("/rate/{study}/{id}")
    async def save(study: str, id: str, request: Request) -> Response:
        visitor, fields = await bench.posted(request)
        found = bench.study(study, visitor)
        where = await run_in_threadpool(_saved, found, visitor.person.name, id, fields)
        return RedirectResponse(where, 303)


def _saved(study: OpenStudy, person: str, id: str, fields: dict[str, Any]) -> str:
    """Keep the answers of a whole form, do what its button says; returns where to go on."""
    here = f"/rate/{study.name}/{id}"
    match fields.get("do", "finish"):
        case "skip":
            study.skip(person, id, str(fields.get("reason", "")))
            return f"/rate/{study.name}"
        case "reopen":
            study.reopen(person, id)
            return here
        case "save" | "finish" as done:
            sheet = study.sheet(study.assignment(id, person))
            for row in _rows(sheet, id, fields):
                study.answer(person, row)
            if done == "save":
                return here
            finished = study.finish(person, id)
            return f"/rate/{study.name}" if finished.state == "done" else here
        case other:
            raise BadInput(f"do: got {str(other)[:20]!r}, allowed: save, finish, skip, reopen")


def _rows(sheet: Sheet, id: str, fields: dict[str, Any]) -> list[dict[str, Any]]:
    """The answers of a form that are new, as `OpenStudy.answer` reads them."""
    found = []
    for question in sheet.questions:
        name = question.id
        value, comment = fields.get(f"value.{name}"), str(fields.get(f"comment.{name}", ""))
        if value is None:
            continue
        before = sheet.given.get(name)
        if before is not None and str(before.value) == str(value) and before.comment == comment:
            continue
        found.append({
            "assignment": id, "id": fields.get(f"id.{name}"), "question": name, "comment": comment,
            "value": None if value == "" else value, "stage": fields.get("stage", sheet.stage.id),
        })  # fmt: skip
    return found


def sheet_json(sheet: Sheet) -> dict[str, Any]:
    """What a page shows, as JSON."""
    return {
        "assignment": sheet.assignment.id,
        "state": sheet.assignment.state,
        "stage": sheet.stage.id,
        "sides": [
            {
                "turns": [
                    {"place": turn.place, "role": turn.role, "text": turn.text, "rated": turn.is_rated}
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
        "given": {name: _answer_json(each) for name, each in sheet.given.items()},
        "marks": [_answer_json(each) for each in sheet.marks],
        "before": dict(sheet.before),
    }  # fmt: skip


def _answer_json(each: Annotation) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": each.answer, "question": each.question, "value": each.value, "comment": each.comment}
    if each.question.startswith(ISSUE):
        shown |= {"turn": each.target.turn, "quote": each.quote, "span": list(each.span) if each.span else None}
    return shown


def _about(each: Assignment) -> dict[str, Any]:
    return {
        "id": each.id, "state": each.state, "reason": each.reason, "began": each.began, "ended": each.ended,
        "place": each.item.place + 1,
    }  # fmt: skip
