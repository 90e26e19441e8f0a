"""Form that adds a study to accord.yaml: its fields, the change of the file, and a preview of the rating page."""

from __future__ import annotations

import copy
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from itertools import islice
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import PlainTextResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException

from accord.edges import BadInput, parse_whole_number, reason_of, redact_message
from accord.project import study_yaml, text_diff, with_study
from accord.store import Conflict
from accord.studies import StudySession, sample_items
from accord.values import PROJECT_FILE, StudySettings, read_study
from accord.verbs import Project
from accord.web.accounts import Visitor
from accord.web.context import WorkbenchContext, check_printable
from accord.web.pages.rate import render_preview
from accord.web.project_editing import FilesChanged

PAGE = "/studies/new"
MAX_SURVEYED = 5000
"""Conversations whose metadata the form offers as filters."""
MAX_VALUES = 30
"""Values of a metadata entry above which it is not offered as a filter."""
NUMBERS = ("annotators_per_item", "items_per_annotator")
ORDERS = {"random": "Random, another for each person", "given": "The same for everybody",
          "informative": "First those that teach the evaluator most"}  # fmt: skip
DEFAULTS = {"title": "", "name": "", "guidelines": "", "level": "conversation", "filter": "", "sample": "60",
            "stratify": "", "annotators_per_item": "2", "items_per_annotator": "", "order": "random"}  # fmt: skip
_SECRET = re.compile(r"^([-+ ]?\s*webhook:).*")


def add_routes(app: FastAPI, context: WorkbenchContext) -> None:
    """Add the form of a new study, and the entry of each study as YAML."""
    pages = _StudyForm(context)
    app.get(PAGE)(pages.form)
    app.get(f"{PAGE}/preview")(pages.preview)
    app.get(f"{PAGE}/rating")(pages.rating)
    app.post(PAGE)(pages.submit)
    app.get("/studies/{name}.yaml")(pages.entry)


class _StudyForm:
    def __init__(self, context: WorkbenchContext) -> None:
        self.context = context

    def form(self, request: Request) -> Response:
        """Show the form: empty, or with the fields that were previewed and not saved."""
        visitor = self.context.visitor(request, "lead")
        if (draft := self.context.drafts.of(visitor, PAGE)) is not None:
            return self._render(visitor, {**DEFAULTS, **draft}, is_draft=True)
        try:  # further ratings on the level of those that exist
            level = self.context.project.level() or DEFAULTS["level"]
        except BadInput:
            level = DEFAULTS["level"]
        return self._render(visitor, {**DEFAULTS, "level": level})

    def entry(self, name: str, request: Request) -> Response:
        """Return the entry of a study for accord.yaml."""
        self.context.visitor(request, "lead")
        settings = self.context.project.config.studies.get(name)
        if not isinstance(settings, StudySettings):
            raise HTTPException(404)
        entry = study_yaml(name, settings.model_dump(mode="json", exclude_unset=True))
        text = "studies:\n" + "".join(f"  {line}\n" for line in entry.removesuffix("\n").split("\n"))
        headers = {"Content-Disposition": f'attachment; filename="{name}.yaml"'}
        return PlainTextResponse(text, media_type="application/yaml", headers=headers)

    def _check_people(self, names: Sequence[str]) -> None:
        """Raise `BadInput` for an annotator without an account."""
        known = [person.name for person in self.context.studies.accounts.list_users()]
        if unknown := next((name for name in names if name not in known), None):
            allowed = f"the users are {', '.join(known)}" if known else "there are no users yet"
            raise BadInput(f"no user {unknown[:60]!r}; {allowed}. Add people on the page People first")

    async def submit(self, request: Request) -> Response:
        """Check the fields and keep them for a preview, or create the study that was shown."""
        visitor, fields = await self.context.read_form(request, "lead")
        return await run_in_threadpool(self._submit, visitor, fields)

    def _submit(self, visitor: Visitor, fields: Mapping[str, Any]) -> Response:
        values = {**DEFAULTS, **{name: str(value) for name, value in fields.items()}}
        action = values.pop("do", "preview")
        drafts = self.context.drafts
        if action == "discard":
            drafts.drop(visitor, PAGE)
            return RedirectResponse(PAGE, 303)
        drafts.put(visitor, PAGE, _kept(values))
        if action == "edit":
            return RedirectResponse(PAGE, 303)
        try:
            check_printable(values)
            name, settings = study_from_form(values, self.context.project)
            self._check_people(settings.get("annotators") or [])
            self._count_items(name, settings)
            if action == "create":
                files = self.context.project_files()
                changed = {PROJECT_FILE: with_study(files.text(), name, settings)}
                files.change(changed, values.get("shown", ""), self.context.reload)
                drafts.drop(visitor, PAGE)
                return RedirectResponse(f"/lead/{quote(name)}?done=created", 303)
        except FilesChanged as error:
            return self._preview(visitor, values, str(error))
        except BadInput as error:
            status = 409 if isinstance(error, Conflict) else 422
            return self._render(visitor, values, reason_of(error), status)
        return RedirectResponse(f"{PAGE}/{'rating' if action == 'rating' else 'preview'}", 303)

    def preview(self, request: Request) -> Response:
        """Show the change that creates the study, or the form with an error."""
        return self._of_draft(request, self._preview)

    def rating(self, request: Request) -> Response:
        """Show the rating page of the first item, as people would see it."""
        return self._of_draft(request, self._rating_page)

    def _of_draft(self, request: Request, show: Callable[[Visitor, Mapping[str, str]], Response]) -> Response:
        visitor = self.context.visitor(request, "lead")
        draft = self.context.drafts.of(visitor, PAGE)
        if draft is None:
            return RedirectResponse(PAGE, 303)
        values = {**DEFAULTS, **draft}
        try:
            return show(visitor, values)
        except BadInput as error:
            return self._render(visitor, values, reason_of(error), 409 if isinstance(error, Conflict) else 422)

    def _preview(self, visitor: Visitor, values: Mapping[str, str], conflict: str = "") -> Response:
        name, settings = study_from_form(values, self.context.project)
        files = self.context.project_files()
        shown, before = files.digest({PROJECT_FILE: ""}), files.text()
        changed = with_study(before, name, settings)
        people = settings.get("annotators") or [
            person.name for person in self.context.studies.accounts.list_users() if person.role == "annotator"
        ]
        count = self._count_items(name, settings)
        lines = [_SECRET.sub(r"\1 (hidden)", redact_message(line)) for line in text_diff(before, changed, PROJECT_FILE)]
        return self.context.render(
            "study_preview", visitor, 409 if conflict else 200, conflict=conflict, name=name, settings=settings,
            fields=_kept(values), diff=lines, count=count, people=people, shown=shown,
            questions=self._questions(settings), each=_items_each(settings, count, len(people)),
        )  # fmt: skip

    def _questions(self, settings: Mapping[str, Any]) -> list[str]:
        rubric = self.context.project.rubric
        names = settings.get("stages", [{}])[0].get("questions")
        level = str(settings.get("level") or "conversation")
        return [each.text for each in rubric.questions if (each.id in names if names else each.suits(level))]

    def _count_items(self, name: str, settings: Mapping[str, Any]) -> int:
        """Return the number of items of the sample, and check the study as its session does.

        Raises:
            BadInput: No conversation matches, or the questions do not fit the study.
        """
        project, study = self.context.project, read_study(name, dict(settings))
        count = sum(1 for _ in sample_items(name, study, project.store, 1))
        if not count:
            raise BadInput("no conversation matches; choose another filter, or import conversations")
        return count

    def _rating_page(self, visitor: Visitor, values: Mapping[str, str]) -> Response:
        """Render the rating page of the first item, from a copy of its conversations in memory."""
        name, settings = study_from_form(values, self.context.project)
        project, study = self.context.project, read_study(name, dict(settings))
        item = next(sample_items(name, study, project.store, 1), None)
        if item is None:
            raise BadInput("no conversation matches; choose another filter, or import conversations")
        ids = {item.target.conversation, *([item.against.conversation] if item.against else [])}
        own = {**settings, "items": {"ids": sorted(ids)}, "annotators": []}
        config = project.config.model_copy(
            update={"store": "sqlite:///:memory:", "studies": {name: read_study(name, own)}}
        )
        with Project(config, rubric=project.rubric) as preview:
            preview.store.add_conversations(project.store.conversations(ids))
            with closing(WorkbenchContext(preview)) as context:
                if name in context.invalid_studies:
                    raise BadInput(context.invalid_studies[name])
                session: StudySession = context.sessions[name]
                session.begin()
                assignment = session.take(visitor.person.name)
                assert assignment is not None
                return render_preview(context, visitor, session, session.view(assignment))

    def _render(
        self, visitor: Visitor, values: Mapping[str, str], error: str = "", status: int = 200, is_draft: bool = False
    ) -> Response:
        project = self.context.project
        questions = sorted(project.rubric.questions, key=lambda each: each.id != project.rubric.main)
        people = [person for person in self.context.studies.accounts.list_users() if person.role == "annotator"]
        return self.context.render(
            "study_form", visitor, status, values=copy.copy(dict(values)), error=error, people=people,
            questions=questions, rubric=project.rubric, facets=self._facets(), orders=ORDERS,
            conversations=project.store.count_conversations(), can_write=self.context.files is not None,
            is_draft=is_draft,
        )  # fmt: skip

    def _facets(self) -> dict[str, list[tuple[str, int]]]:
        """Return metadata entries with their values, the most frequent first, of the first conversations.

        An entry that always repeats the version of the assistant is left out.
        """
        counts: dict[str, Counter[str]] = {}
        differing = {"system"}
        for conversation in islice(self.context.project.store.conversations(), MAX_SURVEYED):
            entries = {**conversation.metadata, "system": conversation.system}
            for key, value in entries.items():
                if isinstance(value, str | int | bool) and value != "":
                    counts.setdefault(key, Counter())[str(value)] += 1
                    differing.update([key] if value != conversation.system else [])
        return {
            key: found.most_common() for key, found in sorted(counts.items())
            if key in differing and 1 < len(found) <= MAX_VALUES
        }  # fmt: skip


def study_from_form(values: Mapping[str, str], project: Project) -> tuple[str, dict[str, Any]]:
    """Return the name and the settings of a study from the fields of the form; defaults are left out.

    Raises:
        BadInput: A field is missing or invalid.
    """
    title = values["title"].strip()
    if not title:
        raise BadInput("the study has no title; write what people rate, such as: Was it helpful?")
    name = values["name"].strip() or re.sub(r"[^a-z0-9]+", "-", title.casefold()).strip("-")[:40] or "study"
    settings: dict[str, Any] = {"title": title}
    if guidelines := values["guidelines"].strip():
        settings["guidelines"] = guidelines + "\n"
    if values["level"] != "conversation":
        settings["level"] = values["level"]
    if chosen := _chosen_questions(values, project):
        settings["stages"] = [{"id": "rate", "questions": chosen}]
    if items := _items(values):
        settings["items"] = items
    settings |= {key: number for key in NUMBERS if (number := _number(key, values[key])) is not None}
    if people := [key.removeprefix("person.") for key, value in values.items() if key.startswith("person.") and value]:
        settings["annotators"] = people
    settings["order"] = values["order"]
    read_study(name, dict(settings))
    return name, settings


def _chosen_questions(values: Mapping[str, str], project: Project) -> list[str]:
    """Return the ids of the chosen questions; an empty list for all that fit the unit."""
    questions = project.rubric.questions
    chosen = [each.id for each in questions if values.get(f"question.{each.id}")]
    fitting = [each.id for each in questions if each.suits(values["level"])]
    if not chosen:
        raise BadInput("no question chosen; choose at least one")
    if wrong := [each for each in chosen if each not in fitting]:
        asked = project.rubric[wrong[0]]
        if asked.compares:
            kind = "two conversations side by side"
        else:
            kind = "single calls of tools" if asked.is_about_steps else "single conversations and replies"
        raise BadInput(f"question {wrong[0]!r} is about {kind}; choose other questions, or another unit")
    return [] if chosen == fitting else chosen


def _items(values: Mapping[str, str]) -> dict[str, Any]:
    sample = _number("sample", values["sample"])
    return {
        **({"filter": _filter(values["filter"])} if values["filter"] else {}),
        **({} if sample is None else {"sample": sample}),
        **({"stratify_by": [values["stratify"]]} if values["stratify"] else {}),
    }


def _number(name: str, text: str) -> int | None:
    if not text.strip():
        return None
    number = parse_whole_number(text.strip())
    if number is None or number < 1:
        raise BadInput(f"{name.replace('_', ' ')}: got {text[:20]!r}, allowed: a whole number from 1, or nothing")
    return number


def _filter(text: str) -> dict[str, str]:
    """Return the filter of the form's option, a JSON list of an entry and its value."""
    try:
        key, value = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        raise BadInput("the filter cannot be read; choose it again") from None
    return {str(key): str(value)}


def _items_each(settings: Mapping[str, Any], count: int, people: int) -> int:
    """Return about how many items each person rates; 0 without people."""
    if not people:
        return 0
    share = math.ceil(count * min(settings.get("annotators_per_item", 1), people) / people)
    return int(min(share, settings.get("items_per_annotator", share)))


def _kept(values: Mapping[str, str]) -> dict[str, str]:
    """Return the fields that the forms of the next page send again."""
    return {name: value for name, value in values.items() if value and name not in ("do", "shown")}
