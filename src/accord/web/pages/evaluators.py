"""Evaluators page: all fitted evaluators with their verdicts, and the choice of the one in use."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse, Response

from accord.learning import CARD
from accord.project import fitted_evaluators, other_question, wordings_text
from accord.store import LabelCounts
from accord.studies import verdict_in_use
from accord.web.context import WorkbenchContext, add_page, saved_time

_BEFORE = ".before-"


def add_routes(app: FastAPI, context: WorkbenchContext) -> None:
    """Add the page and its form."""
    pages = _EvaluatorPages(context)
    add_page(app, "/evaluators", pages.overview)
    app.post("/evaluators/use")(pages.use)


class _EvaluatorPages:
    def __init__(self, context: WorkbenchContext) -> None:
        self.context = context

    def overview(self, request: Request) -> Response:
        """Show all evaluators, and the candidate for the next one."""
        visitor = self.context.visitor(request, "lead")
        state = self.context.learning.state()
        data = {"evaluators": self._rows(), "question": self.context.project.question.text,
                "main": self.context.project.question.id,
                "wordings": self._wordings(),
                "candidate": None if state["candidate"] is None else state["candidate"]["summary"],
                "fitting": state["fitting"]}  # fmt: skip
        return self.context.render_or_json(request, "evaluators", visitor, data, learning=state)

    def _wordings(self) -> str:
        project = self.context.project
        return wordings_text(LabelCounts(project.store).wordings(project.question), project.store.other_scales)

    def _rows(self) -> list[dict[str, Any]]:
        """Return the evaluators: the one in use first, then others, then its earlier versions."""
        project, rows = self.context.project, []
        in_use = project.folder().name
        for name in fitted_evaluators(project.evaluators_folder, project.question.id):
            base = name.partition(_BEFORE)[0]
            if name != base and base != in_use:
                continue  # versions of evaluators that are not in use
            folder = project.folder(name)
            verdict = verdict_in_use(project, folder)
            rows.append({
                "name": name, "base": base, "is_in_use": name == in_use, "is_earlier": name != base,
                "saved": saved_time(folder / CARD), "other": other_question(project.rubric, folder),
                "title": verdict["title"] if verdict else "", "sentence": verdict["sentence"] if verdict else "",
            })  # fmt: skip
        return sorted(rows, key=lambda row: (not row["is_in_use"], row["is_earlier"], row["name"]))

    async def use(self, request: Request) -> Response:
        """Choose the evaluator in use."""
        _, fields = await self.context.read_form(request, "lead")
        await run_in_threadpool(self.context.learning.use, str(fields.get("name", "")))
        return RedirectResponse("/evaluators", 303)
