"""Reports of evaluators as a page: each built once in the background for each state of the evaluator, then kept."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from fastapi import Request
from fastapi.responses import Response
from markupsafe import Markup
from starlette.exceptions import HTTPException

from accord.learning import CARD, saved_as
from accord.project import candidate_folder, fit_offline, fitted_evaluators, modified_at
from accord.report import report_body
from accord.store import Erasures
from accord.web.accounts import Visitor
from accord.web.context import WorkbenchContext
from accord.web.next_steps import PAGES, refit_text

MAX_REPORTS = 8
"""Number of reports that are kept."""
CANDIDATE = ".candidate"
_Key = tuple[str, int, int]
"""Name and time of an evaluator, and the number of erased conversations: no report outlives texts that it quotes."""


class Built(NamedTuple):
    """A report as HTML, and its verdict as JSON."""

    body: Markup
    verdict: dict[str, Any]


class Reports:
    """Page of the reports, and those that are built."""

    def __init__(self, context: WorkbenchContext) -> None:
        self.context = context
        self._built: OrderedDict[_Key, Built] = OrderedDict()
        self._lock = Lock()

    def show(self, request: Request, name: str = "") -> Response:
        """Show the report of a fitted evaluator or of the candidate, by default of the evaluator in use."""
        visitor = self.context.visitor(request, "lead")
        folder = self._folder(name)
        if folder is None:
            refit = refit_text(self.context.project.store, self.context.project.folder())
            return self._response(request, visitor, {"name": None, "is_candidate": False, "is_building": False,
                                                     "failed": "", "verdict": None, "refit": refit}, None)  # fmt: skip
        key = folder.name, (folder / CARD).stat().st_mtime_ns, Erasures(self.context.project.store).count_digests()
        with self._lock:
            for outdated in [each for each in self._built if each[2] != key[2]]:
                del self._built[outdated]
            built = self._built.get(key)
            if built is not None:
                self._built.move_to_end(key)
        jobs, job = self.context.learning.jobs, f"report {folder.name}"
        failed = "" if built is not None else jobs.failed.get(job, "")
        is_building = built is None and (not failed or "again" in request.query_params)
        if is_building and not jobs.state(job):
            jobs.failed.pop(job, None)
            jobs.add(job, lambda: self._build(key, folder))
            failed = ""
        data = {"name": folder.name, "is_candidate": folder.name.endswith(CANDIDATE), "is_building": is_building,
                "failed": failed, "verdict": None if built is None else built.verdict,
                "refit": refit_text(self.context.project.store, folder)}  # fmt: skip
        return self._response(request, visitor, data, None if built is None else built.body)

    def _response(self, request: Request, visitor: Visitor, data: dict[str, Any], body: Markup | None) -> Response:
        return self.context.render_or_json(
            request, "report", visitor, data, body=body, waiting=data["is_building"],
            folder=self.context.project.config.folder.absolute().name,
        )  # fmt: skip

    def _folder(self, name: str) -> Path | None:
        """Return the folder of an evaluator, or `None` if none is named and none is in use.

        Raises:
            HTTPException: 404 if there is no such evaluator of the main question.
        """
        project = self.context.project
        in_use = project.folder()
        known = {
            each: project.folder(each) for each in fitted_evaluators(project.evaluators_folder, project.question.id)
        }
        candidate = candidate_folder(in_use)
        if (candidate / CARD).is_file():
            known[candidate.name] = candidate
        if in_use.name not in known and (in_use / CARD).is_file():
            known[in_use.name] = in_use
        found = known.get(name or in_use.name)
        if found is None and name:
            raise HTTPException(404)
        return found

    def _build(self, key: _Key, folder: Path) -> None:
        """Fit the evaluator again from the labels that it learned from, without a request, and keep its report."""
        project = self.context.project
        fitted = fit_offline(project, saved_as(folder)["name"], until=modified_at(folder))
        body = report_body(project, fitted, PAGES)
        assert fitted.held_out is not None  # a report needs held-out predictions
        with self._lock:
            self._built[key] = Built(body, fitted.held_out.verdict.to_json())
            while len(self._built) > MAX_REPORTS:
                self._built.popitem(last=False)
