"""Rubric page: edit the wording of questions and answers, compare it with the present one, and save a new version.

A version is a file of its own, such as `rubric-2.yaml`, so that earlier versions stay. Ids, scales and conditions are
edited in the file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse, Response

from accord.edges import BadInput, reason_of, redact_message, validation_messages
from accord.project import gap_searches, text_diff, with_rubric_file
from accord.results import Figure, agreement_word
from accord.studies import Adjudication
from accord.values import MAX_NAME, PROJECT_FILE, Question, Rubric, content_hash, dump_rubric, load_rubric
from accord.web.accounts import MAX_FIELDS, Visitor
from accord.web.context import WorkbenchContext, add_page, check_printable
from accord.web.pages.lead import progress_of
from accord.web.project_editing import FilesChanged, ProjectFiles

MAX_OPTIONS = 12
"""Number of options above which the page does not list their meanings."""
MAX_TEXT = 20_000
PAGE = "/rubric"


def add_routes(app: FastAPI, context: WorkbenchContext) -> None:
    """Add the rubric page and its form."""
    pages = _RubricPages(context)
    add_page(app, "/rubric", pages.overview)
    app.get("/rubric/preview")(pages.preview)
    app.post(f"{PAGE}/gaps")(pages.gaps)
    app.post("/rubric")(pages.submit)


class _RubricPages:
    def __init__(self, context: WorkbenchContext) -> None:
        self.context = context

    def overview(self, request: Request, saved: str = "") -> Response:
        """Show the wording in a form, and after a change the name of the new file."""
        visitor = self.context.visitor(request, "lead")
        try:
            rubric, error = rubric_on_disk(self.context), ""
        except BadInput as problem:
            rubric, error = self.context.project.rubric, str(problem)
        data = {"name": rubric.name, "main": rubric.main, "hash": rubric.hash, "questions": [
            {"id": each.id, "name": each.name, "text": each.text, "scale": str(each.scale),
             "meanings": dict(each.meanings)}
            for each in rubric.questions
        ]}  # fmt: skip
        draft = None if error else self.context.drafts.of(visitor, PAGE)
        values = self._values(rubric, error) if draft is None else self._draft_values(rubric, draft)
        is_saved = bool(saved) and Path(self.context.project.config.rubric).name == saved
        return self.context.render_or_json(request, "rubric", visitor, data, **{**values, "saved": saved * is_saved})

    def _values(self, rubric: Rubric, error: str = "", seen: str | None = None, sent: Any = ()) -> dict[str, Any]:
        """Return the values of the form's page; `sent` are texts of an earlier form that fit no question."""
        return {"rubric": rubric, "error": error, "saved": "", "listed": _listed_options(rubric), "sent": sent,
                "is_draft": False,
                "ordered": sorted(rubric.questions, key=lambda each: each.id != rubric.main),
                **self._disputes(rubric),
                "search": next(gap_searches(self.context.project.store, rubric.main), None),
                "main_place": [each.id for each in rubric.questions].index(rubric.main),
                "studies": [(name, each.title) for name, each in self.context.sessions.items()],
                "seen": _digest(rubric) if seen is None else seen, "shape": _shape(rubric), "max_name": MAX_NAME,
                "is_loaded": dump_rubric(rubric) == dump_rubric(self.context.project.rubric),
                "can_write": self.context.files is not None and self.context.files.exists}  # fmt: skip

    async def gaps(self, request: Request) -> Response:
        """Search conversations where people and the judge, or people among themselves, read the main question apart."""
        await self.context.read_form(request, "lead")
        await run_in_threadpool(self.context.project.gaps)
        return RedirectResponse(f"{PAGE}?done=gaps#gaps", 303)

    def _disputes(self, rubric: Rubric) -> dict[str, Any]:
        """Return the agreement on each question in the study with most answers, and the items that are unclear."""
        unclear, most, agreement = [], dict[str, int](), dict[str, tuple[str, Figure]]()
        keys = {each.id: each.key for each in rubric.questions}
        for name, session in self.context.sessions.items():
            try:
                progress = progress_of(self.context, name)
            except BadInput:
                continue  # its own page shows the error
            examples = [each for clause in Adjudication(progress).clauses() for each in clause["examples"]]
            if count := len({each["item"] for each in examples if each["reason"] == "guideline"}):
                unclear.append({"study": name, "title": session.title, "count": count})
            for row in progress.by_question:
                is_same = keys.get(row.question) == session.rubric[row.question].key
                if is_same and row.agreement.value is not None and row.answers > most.get(row.question, 0):
                    most[row.question] = row.answers
                    agreement[row.question] = agreement_word(row.agreement), row.alpha
        return {"unclear": unclear, "agreement": agreement}

    def _draft_values(self, before: Rubric, draft: Mapping[str, str]) -> dict[str, Any]:
        """Return the values of the form with the wording that was previewed and not saved."""
        try:
            if draft.get("shape", _shape(before)) == _shape(before):
                edited = edited_rubric(before, draft)
                if edited == before:
                    return self._values(before)
                values = self._values(edited, seen=draft.get("seen", _digest(before)))
                return {**values, "is_draft": True, "is_loaded": True}
        except BadInput:
            pass  # the file has changed so that the draft does not fit it
        return self._values(before)

    def preview(self, request: Request) -> Response:
        """Show the difference between the rubric and the wording that was sent."""
        visitor = self.context.visitor(request, "lead")
        draft, before = self.context.drafts.of(visitor, PAGE), rubric_on_disk(self.context)
        if draft is None or draft.get("shape", _shape(before)) != _shape(before):
            return RedirectResponse(PAGE, 303)
        conflict = "" if draft.get("seen", _digest(before)) == _digest(before) else str(FilesChanged())
        return self._preview(visitor, draft, before, edited_rubric(before, draft), conflict)

    async def submit(self, request: Request) -> Response:
        """Keep the wording for a preview, or save the new version that was shown."""
        visitor, fields = await self.context.read_form(request, "lead")
        return await run_in_threadpool(self._submit, visitor, fields)

    def _submit(self, visitor: Visitor, fields: Mapping[str, Any]) -> Response:
        context, action = self.context, str(fields.get("do", "preview"))
        before = rubric_on_disk(self.context)
        seen, conflict = str(fields.get("seen", _digest(before))), ""
        if fields.get("shape", _shape(before)) != _shape(before):
            error = ("the questions of the rubric have changed since this page was made, so nothing was saved. Below "
                     "are the present questions; copy your wording again")  # fmt: skip
            edits = ("name.", "text.", "clause.", "meaning.")
            sent = [str(value) for name, value in fields.items() if name.startswith(edits) and value]
            return context.render("rubric", visitor, 409, **self._values(before, error, sent=sent))
        try:
            check_printable(fields)
            rubric = edited_rubric(before, fields)
        except BadInput as error:
            return context.render("rubric", visitor, 422, **self._values(before, reason_of(error), seen))
        if action == "discard":
            context.drafts.drop(visitor, PAGE)
            return RedirectResponse(PAGE, 303)
        context.drafts.put(visitor, PAGE, {"seen": seen, "shape": _shape(before), **_kept(fields)})
        if action == "edit":
            return RedirectResponse(PAGE, 303)
        try:
            changed = changed_files(self.context.project_files(), rubric)
            if seen != _digest(before):
                conflict = str(FilesChanged())
            elif action == "save":
                context.project_files().change(changed, str(fields.get("shown", "")), context.reload)
                context.drafts.drop(visitor, PAGE)
                if (study := str(fields.get("study", ""))) in context.sessions:  # whose page has the form
                    return RedirectResponse(f"/lead/{quote(study)}?done=wording", 303)
                return RedirectResponse(f"{PAGE}?done=wording&saved={quote(next(iter(changed)))}", 303)
            else:
                return RedirectResponse(f"{PAGE}/preview", 303)
        except FilesChanged as error:
            conflict = str(error)
        except BadInput as error:
            return context.render("rubric", visitor, 422, **self._values(rubric, reason_of(error), seen))
        return self._preview(visitor, fields, before, rubric, conflict)

    def _preview(
        self, visitor: Visitor, fields: Mapping[str, Any], before: Rubric, rubric: Rubric, conflict: str
    ) -> Response:
        """Show the difference between the rubric on disk and the new version."""
        context, changed = self.context, changed_files(self.context.project_files(), rubric)
        name = next(iter(changed))
        changes = {
            question.id: len(context.project.rated(question.id))
            for question, old in zip(rubric.questions, before.questions, strict=True)
            if question.key != old.key
        }
        project_lines = text_diff(context.project_files().text(), changed[PROJECT_FILE], PROJECT_FILE)
        return context.render(
            "rubric_preview", visitor, 409 if conflict else 200, conflict=conflict, name=name,
            diff=text_diff(dump_rubric(before), changed[name], "rubric"),
            project_diff=[redact_message(line) for line in project_lines if line[:1] in "+-"], changes=changes,
            fields={**_kept(fields), "seen": _digest(before), "shape": _shape(before)},
            shown=context.project_files().digest(changed), hash=rubric.hash[:13], is_same=rubric == before,
        )  # fmt: skip


def rubric_on_disk(context: WorkbenchContext) -> Rubric:
    """Return the rubric that the project's files have now, which another server or an editor may have changed.

    Raises:
        BadInput: A file is invalid.
    """
    files = context.files
    return load_rubric(files.load().rubric) if files is not None and files.exists else context.project.rubric


def changed_files(files: ProjectFiles, rubric: Rubric) -> dict[str, str]:
    """Return the file of a new version of the rubric and the changed project file, by name.

    Raises:
        BadInput: The project file does not exist yet, or cannot be changed.
    """
    if not files.exists:
        raise BadInput(f"there is no {PROJECT_FILE} yet; import conversations first")
    names = (f"rubric-{number}.yaml" for number in range(2, 10_000))
    name = next(name for name in names if not os.path.lexists(files.folder / name))  # a link may lead anywhere
    return {name: dump_rubric(rubric), PROJECT_FILE: with_rubric_file(files.text(), name)}


def _kept(fields: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields that the forms of the next page send again."""
    return {key: str(value) for key, value in fields.items() if key not in ("do", "shown")}


def _digest(rubric: Rubric) -> str:
    """Return a digest of everything in a rubric."""
    return content_hash(dump_rubric(rubric))


def _shape(rubric: Rubric) -> str:
    """Return a digest of the questions and options that the fields of the form are numbered by."""
    return content_hash([[each.id, [str(option) for option in each.scale.options]] for each in rubric.questions])


def edited_rubric(rubric: Rubric, fields: Mapping[str, Any]) -> Rubric:
    """Return a rubric with the wording of a form; fields that the form lacks stay as they are.

    Raises:
        BadInput: A text is empty or too long, or a name does not fit.
    """
    questions = tuple(_edited(question, place, fields) for place, question in enumerate(rubric.questions))
    instructions = _text(fields, "instructions", rubric.instructions, "instructions")
    try:
        same = {name: getattr(rubric, name) for name in Rubric.model_fields}
        return Rubric(**{**same, "questions": questions, "instructions": instructions})
    except ValueError as error:
        raise BadInput(validation_messages(error)[0]) from None


def _edited(question: Question, place: int, fields: Mapping[str, Any]) -> Question:
    text = _text(fields, f"text.{place}", question.text, f"text of {question.id}")
    if not text:
        raise BadInput(f"question {question.id!r} has no text; write it")
    meanings = dict(question.meanings)
    for number, option in enumerate(question.scale.options):
        about = f"meaning of {option} in {question.id}"
        meaning = _text(fields, f"meaning.{place}.{number}", meanings.get(str(option), ""), about)
        meanings[str(option)] = meaning
    if clause := _text(fields, f"clause.{place}", "", f"clause for {question.id}"):
        text = f"{text} {clause}"
    name = _text(fields, f"name.{place}", question.name, f"name of {question.id}")
    kept = {key: each for key, each in meanings.items() if each}
    try:
        return Question(**{**dict(question), "name": name, "text": text, "meanings": kept})
    except ValueError as error:
        raise BadInput(validation_messages(error)[0]) from None


def _text(fields: Mapping[str, Any], name: str, default: str, about: str) -> str:
    if name not in fields:
        return default
    text = str(fields[name]).strip()
    if len(text) > MAX_TEXT:
        raise BadInput(f"{about}: got {len(text):,} characters, allowed: {MAX_TEXT:,}")
    return text


def _listed_options(rubric: Rubric) -> set[str]:
    """Return the questions whose options the form lists: those with few options, as long as the form has room."""
    listed, room = set(), MAX_FIELDS - 2 * len(rubric.questions) - 10
    for question in rubric.questions:
        if 0 < len(question.scale.options) <= min(MAX_OPTIONS, room):
            listed.add(question.id)
            room -= len(question.scale.options)
    return listed
