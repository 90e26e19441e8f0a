"""Rubric page: edit the wording of questions and answers, compare it with the present one, and save a new version.

A version is a file of its own, such as `rubric-2.yaml`, so that earlier versions stay. Ids, scales and conditions are
edited in the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse, Response

from accord.edges import BadInput, redact_message
from accord.project import text_diff, with_rubric_file
from accord.values import PROJECT_FILE, Question, Rubric, dump_rubric
from accord.web.accounts import MAX_FIELDS, Visitor
from accord.web.context import WorkbenchContext, add_page, reason_of

MAX_OPTIONS = 12
"""Number of options above which the page does not list their meanings."""
MAX_TEXT = 20_000


def add_routes(app: FastAPI, context: WorkbenchContext) -> None:
    """Add the rubric page and its form."""
    pages = _RubricPages(context)
    add_page(app, "/rubric", pages.overview)
    app.post("/rubric")(pages.submit)


class _RubricPages:
    def __init__(self, context: WorkbenchContext) -> None:
        self.context = context

    def overview(self, request: Request) -> Response:
        """Show the wording in a form."""
        visitor = self.context.visitor(request, "lead")
        rubric = self.context.project.rubric
        data = {"name": rubric.name, "main": rubric.main, "hash": rubric.hash, "questions": [
            {"id": each.id, "text": each.text, "scale": str(each.scale), "meanings": dict(each.meanings)}
            for each in rubric.questions
        ]}  # fmt: skip
        return self.context.render_or_json(request, "rubric", visitor, data, **self._values(rubric))

    def _values(self, rubric: Rubric, error: str = "") -> dict[str, Any]:
        return {"rubric": rubric, "error": error, "listed": _listed_options(rubric),
                "can_write": self.context.files is not None and self.context.files.exists}  # fmt: skip

    async def submit(self, request: Request) -> Response:
        """Show the difference, or save the new version that was shown."""
        visitor, fields = await self.context.read_form(request, "lead")
        return await run_in_threadpool(self._submit, visitor, fields)

    def _submit(self, visitor: Visitor, fields: Mapping[str, Any]) -> Response:
        context, action = self.context, str(fields.get("do", "preview"))
        before = context.project.rubric
        try:
            rubric = edited_rubric(before, fields)
        except BadInput as error:
            return context.render("rubric", visitor, 422, **self._values(before, reason_of(error)))
        if action == "edit":
            return context.render("rubric", visitor, **self._values(rubric))
        try:
            changed = self._changed_files(rubric)
            if action == "save":
                context.project_files().change(changed, str(fields.get("shown", "")), context.reload)
                return RedirectResponse("/rubric", 303)
        except BadInput as error:
            return context.render("rubric", visitor, 422, **self._values(rubric, reason_of(error)))
        name = next(iter(changed))
        changes = {
            question.id: len(context.project.rated(question.id))
            for question, old in zip(rubric.questions, before.questions, strict=True)
            if question.key != old.key
        }
        project_lines = text_diff(context.project_files().text(), changed[PROJECT_FILE], PROJECT_FILE)
        return context.render(
            "rubric_preview", visitor, name=name, diff=text_diff(dump_rubric(before), changed[name], "rubric"),
            project_diff=[redact_message(line) for line in project_lines if line[:1] in "+-"], changes=changes,
            fields={key: str(value) for key, value in fields.items() if key not in ("do", "shown")},
            shown=context.project_files().digest(changed), hash=rubric.hash[:13], is_same=rubric == before,
        )  # fmt: skip

    def _changed_files(self, rubric: Rubric) -> dict[str, str]:
        """Return the new rubric file and the changed project file, by name."""
        files = self.context.project_files()
        if not files.exists:
            raise BadInput(f"there is no {PROJECT_FILE} yet; import conversations first")
        name = next(
            name for number in range(2, 10_000) if not (files.folder / (name := f"rubric-{number}.yaml")).exists()
        )
        return {name: dump_rubric(rubric), PROJECT_FILE: with_rubric_file(files.text(), name)}


def edited_rubric(rubric: Rubric, fields: Mapping[str, Any]) -> Rubric:
    """Return a rubric with the wording of a form; fields that the form lacks stay as they are.

    Raises:
        BadInput: A text is empty or too long.
    """
    questions = tuple(_edited(question, place, fields) for place, question in enumerate(rubric.questions))
    instructions = _text(fields, "instructions", rubric.instructions, "instructions")
    return rubric.model_copy(update={"questions": questions, "instructions": instructions})


def _edited(question: Question, place: int, fields: Mapping[str, Any]) -> Question:
    text = _text(fields, f"text.{place}", question.text, f"text of {question.id}")
    if not text:
        raise BadInput(f"question {question.id!r} has no text; write it")
    meanings = dict(question.meanings)
    for number, option in enumerate(question.scale.options):
        about = f"meaning of {option} in {question.id}"
        meaning = _text(fields, f"meaning.{place}.{number}", meanings.get(str(option), ""), about)
        meanings[str(option)] = meaning
    return question.model_copy(update={"text": text, "meanings": {key: each for key, each in meanings.items() if each}})


def _text(fields: Mapping[str, Any], name: str, default: str, about: str) -> str:
    if name not in fields:
        return default
    text = str(fields[name]).replace("\r\n", "\n").strip()
    if len(text) > MAX_TEXT:
        raise BadInput(f"{about}: got {len(text):,} characters, allowed: {MAX_TEXT:,}")
    return text


def _listed_options(rubric: Rubric) -> set[str]:
    """Return the questions whose options the form lists: those with few options, as long as the form has room."""
    listed, room = set(), MAX_FIELDS - len(rubric.questions) - 10
    for question in rubric.questions:
        if 0 < len(question.scale.options) <= min(MAX_OPTIONS, room):
            listed.add(question.id)
            room -= len(question.scale.options)
    return listed
