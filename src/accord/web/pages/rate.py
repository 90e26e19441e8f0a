"""Rating pages: an item with its questions, and the annotator's own ratings.

Pages work as forms without scripts; the script sends each answer as it is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException

from accord.edges import BadInput, escape_controls, parse_whole_number
from accord.store import Conflict
from accord.studies import BOTH_BAD, ItemView, StudySession, SubmittedAnswer
from accord.values import ISSUE, Annotation, Question
from accord.web.accounts import Visitor
from accord.web.context import WorkbenchContext, add_page, is_json, status_and_reason
from accord.web.pages.rating_view import (
    SIDES,
    RejectedForm,
    earlier_answers,
    own_ratings,
    question_views,
    rated_items,
    saved_item,
    tie_option,
    time_left,
    turn_views,
)  # fmt: skip

MAX_ANSWERS = 100
"""Number of answers in one request."""
MAX_SEARCH = 200
"""Length of a search text, in characters."""
ACTIONS = ("save", "finish", "skip", "reopen", "mark", "unmark")


def add_routes(app: FastAPI, context: WorkbenchContext) -> None:
    """Add the rating pages and their forms."""
    pages = _RatingPages(context)
    app.get("/rate")(lambda: RedirectResponse("/", 303))
    add_page(app, "/rate/{study}", pages.begin)
    app.get("/rate/{study}/next")(pages.next)
    add_page(app, "/rate/{study}/done", pages.own_ratings)
    add_page(app, "/rate/{study}/{id}", pages.item)
    app.post("/answers")(pages.answer)
    app.post("/rate/{study}/{id}")(pages.submit)


def render_preview(context: WorkbenchContext, visitor: Visitor, study: StudySession, view: ItemView) -> Response:
    """Render the rating page of an item with all of its controls disabled."""
    return _RatingPages(context)._render(visitor, study, view, RejectedForm(), template="rate_preview")


class _RatingPages:
    def __init__(self, context: WorkbenchContext) -> None:
        self.context = context

    def _visitor_and_study(self, study: str, request: Request) -> tuple[Visitor, StudySession]:
        visitor = self.context.visitor(request)
        return visitor, self.context.study(study, visitor)

    def begin(self, study: str, request: Request) -> Response:
        """Show the guidelines at the first visit, and the current item later."""
        visitor, session = self._visitor_and_study(study, request)
        is_first = session.settings.guidelines and not session.studies.assignments_of(study, visitor.person.name)
        if not is_first and not is_json(request):
            return self.next(study, request)
        session.begin()
        finished, total = session.progress(visitor.person.name)
        data = {"title": session.title, "guidelines": session.settings.guidelines, "finished": finished, "total": total}
        return self.context.render_or_json(request, "guidelines", visitor, data, study=session)

    def next(self, study: str, request: Request) -> Response:
        visitor, session = self._visitor_and_study(study, request)
        session.begin()
        assignment = session.take(visitor.person.name)
        if assignment is None and session.settings.chat is not None:
            return RedirectResponse(session.start, 303)
        page = "done" if assignment is None else assignment.id
        saved = request.query_params.get("saved", "")
        return RedirectResponse(f"/rate/{study}/{page}{f'?saved={quote(saved)}' if saved else ''}", 303)

    def own_ratings(self, study: str, request: Request, q: str = "", state: str = "") -> Response:
        """List the annotator's items with their answers; `q` searches in the texts, `state` selects."""
        visitor, session = self._visitor_and_study(study, request)
        assignments = session.studies.assignments_of(study, visitor.person.name)
        finished, total = session.progress(visitor.person.name)
        rows = rated_items(session, own_ratings(assignments), assignments, q[:MAX_SEARCH], state)
        data = {"ratings": rows, "finished": finished, "total": total}
        saved = saved_item(assignments, request.query_params.get("saved"))
        return self.context.render_or_json(
            request, "own_ratings", visitor, data, study=session, saved=saved, q=q[:MAX_SEARCH], state=state,
            is_any=bool(assignments),
        )  # fmt: skip

    def item(self, study: str, id: str, request: Request) -> Response:
        visitor, session = self._visitor_and_study(study, request)
        view = session.view(session.assignment(id, visitor.person.name))
        if is_json(request):
            return JSONResponse(view_json(view))
        errors = {}
        if "open" in request.query_params:
            errors = dict.fromkeys(session.missing(view), "Not answered yet: choose an answer, then save.")
        saved = request.query_params.get("saved")
        return self._render(visitor, session, view, RejectedForm(errors=errors), saved=saved)

    def _render(
        self,
        visitor: Visitor,
        study: StudySession,
        view: ItemView,
        form: RejectedForm,
        status: int = 200,
        saved: str | None = None,
        template: str = "rate",
    ) -> Response:
        settings, assignments = study.settings, study.studies.assignments_of(study.name, visitor.person.name)
        ids = [assignment.id for assignment in assignments][::-1]
        place = ids.index(view.assignment.id)
        finished, total = study.progress(visitor.person.name)
        history = study.studies.answers_in(view.assignment, history=True)
        names = SIDES if len(view.sides) > 1 else ("",)
        return self.context.render(
            template, visitor, status, study=study, view=view, form=form,
            sides=[(side, turn_views(view, side, name)) for side, name in zip(view.sides, names, strict=True)],
            questions=question_views(view, settings, history, form),
            before=earlier_answers(view, study.rubric, settings), place=place + 1, finished=finished, total=total,
            predictions=study.revealed(view.assignment), earlier=ids[place - 1] if place else None,
            step=view.assignment.stage + 1, saved=saved_item(assignments, saved),
            left=time_left(assignments, total - finished),
        )  # fmt: skip

    async def answer(self, request: Request) -> Response:
        """Save the answers sent by the script: one, or several under `answers`."""
        visitor, row = await self.context.read_form(request)
        if "answers" in row:
            return JSONResponse({"answers": await run_in_threadpool(self._save_each, visitor, row["answers"])})
        study = self.context.study(str(row.pop("study", "")), visitor)
        answer = SubmittedAnswer.from_json(row)
        annotation, is_repeated = await run_in_threadpool(study.answer, visitor.person.name, answer)
        status = 200 if is_repeated else 201
        return JSONResponse({"id": annotation.answer, "again": is_repeated, "time": annotation.time}, status)

    def _save_each(self, visitor: Visitor, rows: Any) -> list[dict[str, Any]]:
        """Save answers in order, with one transaction per study, and return the id or the refusal of each answer.

        A failure of the store fails the request: the script sends it again, and answers that were saved are recognized.
        """
        if not isinstance(rows, list) or len(rows) > MAX_ANSWERS or not all(isinstance(row, dict) for row in rows):
            raise BadInput(f"answers: a list of at most {MAX_ANSWERS} answers is allowed")
        results: list[dict[str, Any]] = [{"id": row.get("id")} for row in rows]
        for name, group in groupby(zip(rows, results, strict=True), lambda pair: str(pair[0].get("study", ""))):
            study: StudySession | None = None
            valid: list[tuple[SubmittedAnswer, dict[str, Any]]] = []
            for row, result in group:
                try:
                    study = study or self.context.study(name, visitor)
                    fields = {key: value for key, value in row.items() if key != "study"}
                    valid.append((SubmittedAnswer.from_json(fields), result))
                except (BadInput, HTTPException) as error:
                    result["status"], result["error"] = status_and_reason(error)
            if study is None or not valid:
                continue
            saved = study.answer_each(visitor.person.name, [answer for answer, _ in valid])
            for (_, result), each in zip(valid, saved, strict=True):
                if isinstance(each, BadInput):
                    result["status"], result["error"] = status_and_reason(each)
                else:
                    result |= {"id": each[0].answer, "again": each[1], "time": each[0].time}
        return results

    async def submit(self, study: str, id: str, request: Request) -> Response:
        """Save the answers of a form and do the action of its button; scripts receive the next address as JSON."""
        visitor, fields = await self.context.read_form(request)
        session = self.context.study(study, visitor)
        by_script = "x-accord-form" in request.headers
        try:
            address = await run_in_threadpool(_do_action, session, visitor.person.name, id, fields, by_script)
        except _RejectedAnswer as error:
            if by_script:
                raise error.reason from None
            return await run_in_threadpool(self._show_rejected, visitor, session, id, fields, error)
        return JSONResponse({"next": address}) if by_script else RedirectResponse(address, 303)

    def _show_rejected(
        self, visitor: Visitor, study: StudySession, id: str, fields: dict[str, Any], error: _RejectedAnswer
    ) -> Response:
        """Show the form again with its values, and the error next to its question."""
        view = study.view(study.assignment(id, visitor.person.name))
        status = 409 if isinstance(error.reason, Conflict) else 422
        return self._render(visitor, study, view, RejectedForm(fields, {error.question: str(error.reason)}), status)


class _RejectedAnswer(Exception):
    """An answer of a form that could not be saved; the answers before it were saved."""

    def __init__(self, question: str, reason: BadInput) -> None:
        super().__init__(str(reason))
        self.question, self.reason = question, reason


def _do_action(study: StudySession, person: str, id: str, fields: dict[str, Any], by_script: bool) -> str:
    """Do the action of a form's button, and return the next address.

    Raises:
        _RejectedAnswer: An answer could not be saved.
        BadInput: The action is unknown or not possible.
    """
    here, action = f"/rate/{study.name}/{id}", fields.get("do", "finish")
    match action:
        case "skip":
            study.skip(person, id, str(fields.get("reason", "")))
            return f"/rate/{study.name}?saved={quote(id)}"
        case "reopen":
            study.reopen(person, id)
            return here
        case "mark" | "unmark":
            study.answer(person, _mark(id, fields, action == "unmark"))
            return f"{here}#turn-{fields.get('turn', '')}"
        case "save" | "finish":
            return _save_answers(study, person, id, fields, by_script, action == "finish")
    raise BadInput(f"do: got {str(action)[:20]!r}, allowed: {', '.join(ACTIONS)}")


def _save_answers(
    study: StudySession, person: str, id: str, fields: dict[str, Any], by_script: bool, finishes: bool
) -> str:
    here = f"/rate/{study.name}/{id}"
    view = study.view(study.assignment(id, person))
    if fields.get("stage", view.stage.id) != view.stage.id:
        return here  # the form was submitted twice, and its stage is finished
    read, invalid = list[tuple[str, SubmittedAnswer]](), None
    for question, answer in _new_answers(view, id, fields):
        try:
            read.append((question, SubmittedAnswer.from_json(answer)))
        except BadInput as reason:
            invalid = _RejectedAnswer(question, reason)
            break
    saved = study.answer_each(person, [answer for _, answer in read], stops=True)
    for (question, _), each in zip(read, saved, strict=True):
        if isinstance(each, BadInput):
            raise _RejectedAnswer(question, each) from each
    if invalid is not None:
        raise invalid from invalid.reason
    if not finishes:
        return here
    if not by_script and study.missing(study.view(study.assignment(id, person))):
        return f"{here}?open=1#questions"
    finished = study.finish(person, id)
    stays = finished.state == "open" or study.revealed(finished)
    return here if stays else f"/rate/{study.name}?saved={quote(id)}"


def _new_answers(view: ItemView, id: str, fields: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the new or changed answers of a form as fields of `SubmittedAnswer`, each with its question."""
    answers: list[tuple[str, dict[str, Any]]] = []
    for question in view.questions:
        name = question.id
        common = {"assignment": id, "stage": view.stage.id}
        is_bad, was_bad = f"bad.{name}" in fields, view.given.get(f"{name}:{BOTH_BAD}")
        value, comment = _new_value(question, fields), str(fields.get(f"comment.{name}", "")).replace("\r\n", "\n")
        given = view.given.get(name)
        new = None if value in (None, "") else str(value)
        old = None if given is None or given.value is None else str(given.value)
        old_comments = (
            () if given is None else (given.comment, escape_controls(given.comment))
        )  # as saved and as rendered
        if value is not None and (new != old or comment not in old_comments):
            fields_of_answer = {"id": fields.get(f"id.{name}"), "question": name, "comment": comment, "value": new}
            answers.append((name, {**common, **fields_of_answer}))
        if question.compares and is_bad != (was_bad is not None and was_bad.value == 1) and value is not None:
            bad = {"id": fields.get(f"bad-id.{name}"), "question": f"{name}:{BOTH_BAD}", "value": int(is_bad)}
            answers.append((name, {**common, **bad}))
    return answers


def _new_value(question: Question, fields: Mapping[str, Any]) -> Any:
    """Return the answer to a question in a form: `None` if it is unanswered, an empty text if it does not apply."""
    if f"none.{question.id}" in fields:
        return ""
    value = fields.get(f"value.{question.id}")
    value = None if value == "" and f"number.{question.id}" in fields else value
    if value is None and f"bad.{question.id}" in fields and question.compares:
        return tie_option(question.scale)  # "both are bad" alone prefers neither side
    return value


def _mark(id: str, fields: Mapping[str, Any], is_removed: bool) -> SubmittedAnswer:
    """Return the mark of a form, or the answer that removes one."""
    texts = {name: fields.get(name) or "" for name in ("id", "comment", "quote", "replaces", "stage")}
    turn, value = parse_whole_number(str(fields.get("turn", ""))), None if is_removed else 1
    question = f"{ISSUE}{fields.get('kind', '')}"
    return SubmittedAnswer.from_json({"assignment": id, "question": question, "value": value, "turn": turn, **texts})


# --- JSON -----------------------------------------------------------------------------------------------------------


def view_json(view: ItemView) -> dict[str, Any]:
    """Return an item's view as JSON."""
    return {
        "assignment": view.assignment.id,
        "state": view.assignment.state,
        "stage": view.stage.id,
        "sides": [
            {
                "turns": [
                    {"place": turn.place, "role": turn.role, "text": turn.text, "rated": turn.is_rated,
                     "calls": list(turn.calls)}
                    for turn in side.turns
                ],
                "documents": [{"title": title, "text": text} for title, text in side.documents],
            }
            for side in view.sides
        ],
        "questions": [
            {
                "id": question.id, "text": question.text, "options": list(question.scale.options),
                "low": question.scale.low, "high": question.scale.high, "meanings": dict(question.meanings),
            }
            for question in view.questions
        ],
        "kinds": [] if view.kinds is None else list(view.kinds.names),
        "issues": None if view.issues is None else [
            {"turn": turn, "type": issue.type, "comment": issue.comment, "quote": issue.quote, "span": issue.span}
            for turn, issues in sorted(view.issues.items())
            for issue in issues
        ],
        "given": {name: _annotation_json(annotation) for name, annotation in view.given.items()},
        "marks": [_annotation_json(mark) for mark in view.marks],
        "before": dict(view.before),
    }  # fmt: skip


def _annotation_json(annotation: Annotation) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": annotation.answer, "question": annotation.question, "value": annotation.value,
        "comment": annotation.comment,
    }  # fmt: skip
    if annotation.question.startswith(ISSUE):
        span = list(annotation.span) if annotation.span else None
        row |= {"turn": annotation.target.turn, "quote": annotation.quote, "span": span}
    return row
