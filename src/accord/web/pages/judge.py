"""Judge page: the plan of the models' requests, a form with a hard budget that starts them, progress and result.

No key, no address of an endpoint and no folder is shown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse, Response

from accord.edges import (
    BadInput,
    BudgetReached,
    ModelError,
    ModelSetting,
    hide_folders,
    one_line,
    parse_whole_number,
    reason_of,
    redact_message,
)
from accord.models import Caps, Plan
from accord.project import JudgeRun, JudgeSelection, model_sources, role_costs
from accord.verbs import Project
from accord.web.context import WorkbenchContext, add_page
from accord.web.pages.settings import model_in_words
from accord.web.started_verbs import Run

PAGE = "/judge"
UNITS = ("tokens", "requests", "money")
"""Units of a budget."""
_COUNTS = (
    "samples", "questions", "answered", "requests", "min_requests", "max_requests", "attempts", "money", "max_money",
)  # fmt: skip


def add_routes(app: FastAPI, context: WorkbenchContext) -> None:
    """Add the page and its forms."""
    pages = _JudgePages(context)
    add_page(app, PAGE, pages.overview)
    app.post(PAGE)(pages.judge)
    app.post(f"{PAGE}/stop")(pages.stop)


class _JudgePages:
    def __init__(self, context: WorkbenchContext) -> None:
        self.context = context

    def overview(self, request: Request, which: str = "rated") -> Response:
        """Show the plan and the form, or the progress of a run; and the result of the last run."""
        visitor = self.context.visitor(request, "lead")
        project, run = self.context.project, self.context.started.judge.last(self.context.project)
        everything = _is_everything(which)
        is_running, problem, plan = run is not None and run.is_running, "", None
        is_configured = True
        try:
            model_sources(project)
        except BadInput as error:
            is_configured, problem = False, reason_of(error)
            problem = "" if any(isinstance(step, ModelSetting) for step in error.steps) else problem
        if is_configured and not is_running:
            plan = self._plan(everything, "again" in request.query_params)
        spent = None if run is None or run.budget is None else run.budget.to_json()
        data = {
            "is_configured": is_configured, "problem": problem, "which": which,
            "limits": {unit: getattr(project.config.budget, unit) for unit in UNITS},
            "plan": None if plan is None else {**plan.state(), "result": plan.result},
            "run": None if run is None else {**run.state(), "spent": spent, "result": run.result, **run.about},
        }  # fmt: skip
        return self.context.render_or_json(
            request, "judge", visitor, data, waiting=is_running or (plan is not None and plan.is_running), units=UNITS
        )

    def _plan(self, everything: bool, again: bool) -> Run | None:
        """Return the plan of a selection, which is made in the background when the project has changed."""
        project, started = self.context.project, self.context.started
        known = (project.store.labels_version(), project.store.count_conversations(), started.judge.count)
        state = (everything, id(project), *known)
        plan = started.plan.last(project)
        if plan is not None and (plan.is_running or (plan.about["state"] == state and not (again and plan.error))):
            return plan
        selection = JudgeSelection(everything)
        try:
            return started.plan.start(project, lambda own, run: _planned(own, selection), {"state": state})
        except BadInput as error:
            found = started.plan.last(project)  # another request has started it
            if found is None or not found.is_running:
                raise BadInput(reason_of(error)) from None
            return found

    async def judge(self, request: Request) -> Response:
        """Start the requests within the budget of the form."""
        visitor, fields = await self.context.read_form(request, "lead")
        await run_in_threadpool(self._judge, visitor.person.name, fields)
        return RedirectResponse(PAGE, 303)

    def _judge(self, person: str, fields: Mapping[str, Any]) -> None:
        project = self.context.project
        which = str(fields.get("which", "rated"))
        selection = JudgeSelection(_is_everything(which))
        model_sources(project)  # an error without any belongs to the form
        unit, amount = _budget_of(fields, project.config.budget)
        self.context.started.judge.start(
            project, lambda own, run: _judged(own, run, selection, {unit: amount}),
            {"which": which, "unit": unit, "amount": amount, "person": person},
        )  # fmt: skip

    async def stop(self, request: Request) -> Response:
        """Stop the run: no further request is sent, and all answers are kept."""
        visitor, _ = await self.context.read_form(request, "lead")
        self.context.started.judge.stop(f"stopped by {visitor.person.name}. Earlier answers are stored")
        return RedirectResponse(f"{PAGE}?done=stopping", 303)


def _is_everything(which: str) -> bool:
    """Return True for all conversations, False for the rated ones.

    Raises:
        BadInput: The text is neither.
    """
    if which not in ("rated", "all"):
        raise BadInput(f"which conversations: got {which[:20]!r}, allowed: rated, all")
    return which == "all"


def _budget_of(fields: Mapping[str, Any], limits: Caps) -> tuple[str, float]:
    """Return the unit and the amount of the budget in a form.

    Raises:
        BadInput: The amount is missing, not a number above 0, or above the limit of the settings.
    """
    unit, text = str(fields.get("unit", "")), str(fields.get("amount", "")).strip()
    if unit not in UNITS:
        raise BadInput(f"budget: got the unit {unit[:20]!r}, allowed: {', '.join(UNITS)}")
    amount = _money(text) if unit == "money" else parse_whole_number(text)
    if not amount:
        kind = "an amount above 0, such as 0.50" if unit == "money" else "a whole number from 1, such as 100000"
        raise BadInput(f"budget: got {text[:20]!r}; give {kind}. A run always has a budget")
    limit = getattr(limits, unit)
    if limit is not None and amount > limit:
        raise BadInput(f"budget: at most {limit:,} {unit}, the limit of the project (budget in accord.yaml)")
    return unit, amount


def _money(text: str) -> float | None:
    """Return a plain decimal number up to a billion, or None."""
    whole, _, cents = text.partition(".")
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in (whole or "0", cents or "0")):
        return None
    found = float(text) if whole or cents else 0.0
    return found if math.isfinite(found) else None


def _planned(project: Project, selection: JudgeSelection) -> dict[str, Any]:
    """Return the plan by role, as `accord judge --plan` makes it, and the costs that were measured so far."""
    plan: Plan = project.plan_judge((), selection)
    measured = role_costs(project)
    rows: list[dict[str, Any]] = []
    for (role, model), usage in sorted(plan.most_used.items()):
        price, expected = project.budget.price(model), plan.used.get((role, model))
        rows.append({
            "role": role, "model": hide_folders(model_in_words(model)), "requests": plan.counts[role, model],
            "input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens,
            "money": None if price is None or expected is None else price.of(expected),
            "max_money": None if price is None else price.of(usage),
            "measured": measured[role].text() if role in measured else "",
        })  # fmt: skip
    unpriced = None if plan.unpriced is None else hide_folders(model_in_words(plan.unpriced))
    return {"roles": rows, **{name: getattr(plan, name) for name in _COUNTS}, "unpriced": unpriced,
            "max_tokens": sum(usage.total for usage in plan.most_used.values())}  # fmt: skip


def _judged(project: Project, run: Run, selection: JudgeSelection, caps: Mapping[str, float]) -> dict[str, Any]:
    """Ask the models within the budget; a run that a budget, an error or a person ends keeps its counts."""
    project.cap(**caps)
    run.opened(project.budget)
    run.total = project.plan_judge((), selection).steps
    halfway: list[JudgeRun] = []
    try:
        return _counts(project.judge((), selection, run.answered, halfway.append))
    except (BudgetReached, ModelError) as error:
        if not halfway:
            raise
        return {**_counts(halfway[0]), "stopped": one_line(reason_of(error))}


def _counts(done: JudgeRun) -> dict[str, Any]:
    """Return the counts of a run as the page shows them, without secrets and folders."""
    rejection = None if done.rejection is None else hide_folders(redact_message(one_line(done.rejection)))
    return {
        "samples": done.samples, "answered": done.answered, "failed": done.failed, "not_asked": done.not_asked,
        "known": dict(done.known), "unanswered": dict(done.unanswered), "excluded": dict(done.excluded),
        "spent": dict(done.spent), "rejection": rejection, "stopped": "",
        "lines": [line for counts in done.counts.values() for line in counts.lines()],
    }  # fmt: skip
