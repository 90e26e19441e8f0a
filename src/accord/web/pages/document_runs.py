"""Pages whose result is a document: the comparison of all evaluators, and the mean ratings of assistant versions.

A form starts `accord compare` or `accord estimate` in the background; the page shows its progress, then its document.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse, Response
from markupsafe import Markup

from accord.edges import UnknownName, redact, redact_json
from accord.project import lines
from accord.report import show_section
from accord.results import Section
from accord.values import Question
from accord.verbs import Project
from accord.web.context import WorkbenchContext, add_page
from accord.web.started_verbs import Run, StartedVerb, Work

COMPARE, ESTIMATE = "/evaluators/compare", "/board/estimate"


def add_routes(app: FastAPI, context: WorkbenchContext) -> None:
    """Add both pages and their forms."""
    pages = _DocumentPages(context)
    add_page(app, COMPARE, pages.comparison)
    app.post(COMPARE)(pages.compare)
    add_page(app, ESTIMATE, pages.means)
    app.post(ESTIMATE)(pages.estimate)


class _DocumentPages:
    def __init__(self, context: WorkbenchContext) -> None:
        self.context = context

    def comparison(self, request: Request) -> Response:
        """Show the last comparison, or its progress."""
        visitor = self.context.visitor(request, "lead")
        project, verb = self.context.project, self.context.started.compare
        run = verb.last(project)
        data = {"question": project.question.id, **_run_fields(run)}
        return self.context.render_or_json(
            request, "comparison", visitor, data, shown=_shown(run), waiting=_is_running(run)
        )

    async def compare(self, request: Request) -> Response:
        """Start a comparison of all evaluators of the project on the main question."""
        await self.context.read_form(request, "lead")
        await run_in_threadpool(self._start, self.context.started.compare, _compare)
        return RedirectResponse(COMPARE, 303)

    def means(self, request: Request, question: str = "") -> Response:
        """Show the last estimate of a question, or its progress."""
        visitor = self.context.visitor(request, "lead")
        asked, run = self._question(question), self.context.started.estimate.last(self.context.project)
        other = None if run is None or run.about["question"] == asked.id else run
        own = None if other is not None else run
        questions = [each.id for each in self.context.project.rubric.questions if not each.compares]
        data = {
            "question": asked.id,
            "questions": questions,
            "other_is_running": _is_running(other),
            **_run_fields(own),
        }
        return self.context.render_or_json(
            request, "mean_ratings", visitor, data, shown=_shown(own), waiting=_is_running(run),
            names={id: self.context.project.rubric[id].shown for id in questions},
        )  # fmt: skip

    async def estimate(self, request: Request) -> Response:
        """Start an estimate of the mean ratings of assistant versions for one question."""
        _, fields = await self.context.read_form(request, "lead")
        question = self._question(str(fields.get("question", ""))).id
        await run_in_threadpool(self._start, self.context.started.estimate, _estimate, question)
        return RedirectResponse(f"{ESTIMATE}?{urlencode({'question': question})}", 303)

    def _start(self, verb: StartedVerb, work: Work, question: str | None = None) -> None:
        project = self.context.project
        verb.start(project, work, {"question": question or project.question.id}, question)

    def _question(self, id: str) -> Question:
        """Return a question that has an estimate; by default the main one.

        Raises:
            UnknownName: The rubric has no such question, or it compares conversations.
        """
        project = self.context.project
        found = project.rubric.get(id) if id else project.question
        if found is None or found.compares:
            known = [each.id for each in project.rubric.questions if not each.compares]
            raise UnknownName("question", id[:60], known)
        return found


def _compare(project: Project, run: Run) -> dict[str, Any]:
    """Compare all evaluators in this process alone, so that pages stay quick."""
    found = project.compare(jobs=1, on_step=run.begin)
    decision = "" if found.decision is None else str(found.decision)
    uses, sections = found.verdict.document().sections[0], found.sections()
    shown = [each for each in sections if each.parts != [lines(decision)]]
    return {
        "title": found.verdict.title, "lead": found.verdict.sentence, "decision": decision,
        "command": "" if found.best == project.config.evaluator else f"accord fit {shlex.quote(found.best)}",
        "rated_by": project.raters_text(), "groups": _groups([uses, *shown], "On the same ratings"),
        "json": redact_json(found.to_json()),
    }  # fmt: skip


def _estimate(project: Project, run: Run) -> dict[str, Any]:
    run.begin("evidence and scores")
    found = project.estimate()
    document = found.document()
    return {"title": document.title, "groups": _groups(document.sections, "Versions"),
            "json": redact_json(found.to_json())}  # fmt: skip


def _groups(sections: Sequence[Section], heading: str) -> list[dict[str, Any]]:
    """Return the sections as HTML in groups with a heading each; one without a heading joins the group before it."""
    groups: list[dict[str, Any]] = [{"heading": heading, "is_detail": False, "parts": []}]
    for each in sections:
        if each.heading or each.is_detail != groups[-1]["is_detail"]:
            groups.append({"heading": each.heading or "Remarks", "is_detail": each.is_detail, "parts": []})
        groups[-1]["parts"].append(Markup(redact(show_section(replace(each, heading="")))))
    return groups


def _run_fields(run: Run | None) -> dict[str, Any]:
    """Return the progress and the result of a run as JSON."""
    state, result = None if run is None else run.state(), None if run is None or run.result is None else run.result
    return {"run": state, "result": None if result is None else result["json"]}


def _shown(run: Run | None) -> dict[str, Any] | None:
    return None if run is None or run.is_running else run.result


def _is_running(run: Run | None) -> bool:
    return run is not None and run.is_running
