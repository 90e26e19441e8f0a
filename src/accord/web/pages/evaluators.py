"""Evaluators page: fitted evaluators with their verdicts, a side-by-side comparison, the candidate, and the choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse, Response
from markupsafe import Markup
from starlette.exceptions import HTTPException

from accord.charts import Axis, ChartRow, axis_around, axis_svg, interval_svg, row_chart
from accord.decisions import NEAR_PEOPLE
from accord.learning import CARD
from accord.project import (
    IN_USE,
    candidate_folder,
    costs_of,
    fitted_evaluators,
    has_learned_all,
    other_question,
    verdict_in_use,
)
from accord.results import Figure, Ledger
from accord.values import Estimate
from accord.web.context import WorkbenchContext, add_page, saved_time, time_in_words
from accord.web.next_steps import refit_text
from accord.web.reports import CANDIDATE, Reports

_BEFORE = ".before-"
_SHOWN = ("error", "known_error", "r", "within_one", "band", "decided", "bad_found")
"""Figures of a verdict that two evaluators are compared by."""
Row = dict[str, Any]


def add_routes(app: FastAPI, context: WorkbenchContext) -> None:
    """Add the pages and their form."""
    pages = _EvaluatorPages(context)
    add_page(app, "/evaluators", pages.overview)
    add_page(app, "/evaluators/report", Reports(context).show)
    app.post("/evaluators/use")(pages.use)


class _EvaluatorPages:
    def __init__(self, context: WorkbenchContext) -> None:
        self.context = context

    def overview(self, request: Request, first: str = "", second: str = "") -> Response:
        """Show all evaluators, the candidate for the next one, and a side-by-side comparison of two evaluators."""
        visitor = self.context.visitor(request, "lead")
        state, rows, project = self.context.learning.state(), self._rows(), self.context.project
        in_use = next((row for row in rows if row["is_in_use"]), None)
        candidate, folder = state["candidate"], project.folder()
        choices = [*rows, *([_candidate_row(folder, candidate)] if candidate else [])]
        pair = _pair(choices, first, second)
        compared = None if pair is None else _compared(*pair, candidate)
        counts = self.context.counts(None if in_use is None else in_use["learned"])
        data: dict[str, Any] = {"evaluators": rows, "question": project.question.text, "main": project.question.id,
                "wordings": counts["wordings"], "refit": "" if in_use else refit_text(project.store, folder),
                "counts": counts,
                "candidate": None if candidate is None else candidate["summary"], "costs": self._costs(rows),
                "compared": compared, "fitting": state["fitting"]}  # fmt: skip
        return self.context.render_or_json(
            request, "evaluators", visitor, data, learning=state, choices=choices,
            is_fitted=in_use is not None, drawn=None if compared is None else _drawn(compared),
            cost_chart=_cost_chart(data["costs"]["rows"]), waiting=bool(state["fitting"]),
            is_learned=candidate is not None
            and has_learned_all(self.context.project, candidate_folder(folder), candidate["ratings"]),
            undo=next((row for row in rows if row["is_earlier"]), None),
            candidate_name=candidate_folder(folder).name,
            candidate_made="" if candidate is None else time_in_words(datetime.fromisoformat(candidate["made"])),
            table=_table(rows), facts=self._facts(in_use),
        )  # fmt: skip

    def _costs(self, rows: Sequence[Row]) -> Row:
        """Return the typical error and the cost of each evaluator, and the sentence of the last comparison."""
        project, named = self.context.project, {row["name"]: row for row in rows if not row["is_earlier"]}
        costs = costs_of(project, named)
        if not any(each.roles for each in costs.values()):
            return {"rows": [], "text": ""}
        last = next((run["results"] or {} for run in reversed(project.store.runs("compare", "fit"))), {})
        found = [{"name": name, "typical": named[name]["typical"], "error": named[name]["error"], **each.to_json()}
                 for name, each in costs.items()]  # fmt: skip
        return {
            "rows": sorted(found, key=lambda row: row["money"]["value"] or row["tokens"]["value"] or 0),
            "text": last.get("cheapest_text", ""),
        }

    def _facts(self, in_use: Row | None) -> dict[str, Any] | None:
        """Return what the evaluator in use reads, learns and was checked on, and the effects of what it reads."""
        folder = self.context.project.folder()
        if in_use is None or not (folder / CARD).is_file():
            return None
        verdict = verdict_in_use(self.context.project, folder) or {}
        ledger = Ledger.from_json(in_use["ledger"])
        refused = [each for each in verdict.get("uses", ()) if not each["is_allowed"]]
        limits = [each.get("missing") or each["rule"] for each in refused][:1]
        rows = [("Learns", f"{in_use['learned']:,} ratings" if in_use["learned"] is not None else "unknown")]
        rows += [("Checked", ledger["error"].about)] if "error" in ledger else []
        rows += [("Limits", "; ".join(limits))] if limits else []
        return {"name": in_use["base"], "rows": rows, "uses": verdict.get("uses", ())}

    def _rows(self) -> list[Row]:
        """Return the evaluators: the one in use first, then others, then its earlier versions, the last one first."""
        project, rows = self.context.project, []
        in_use = project.folder().name
        for name in fitted_evaluators(project.evaluators_folder, project.question.id):
            base = name.partition(_BEFORE)[0]
            if name != base and base != in_use:
                continue  # versions of evaluators that are not in use
            folder = project.folder(name)
            rows.append({
                "name": name, "base": base, "is_in_use": name == in_use, "is_earlier": name != base,
                "saved": saved_time(folder / CARD), "other": other_question(project.rubric, folder),
                "refit": refit_text(project.store, folder),
                **_verdict_fields(verdict_in_use(project, folder)),
            })  # fmt: skip
        rows.sort(key=lambda row: row["name"], reverse=True)
        rows.sort(key=lambda row: (not row["is_in_use"], row["is_earlier"], "" if row["is_earlier"] else row["name"]))
        for row in rows:
            row["label"] = f"{row['base']}, saved {row['saved']}" if row["is_earlier"] else row["base"]
        return rows

    async def use(self, request: Request) -> Response:
        """Choose the evaluator in use."""
        _, fields = await self.context.read_form(request, "lead")
        await run_in_threadpool(self.context.learning.use, str(fields.get("name", "")))
        return RedirectResponse("/evaluators?done=used", 303)


REFERENCES = (("people_error", "people_r", "Another person", "people"),
              ("constant_error", "", "Constant guess", "neutral"))  # fmt: skip
"""Rows of the table that no evaluator made: keys of their error and correlation, name, and color."""


def _table(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the rows of the table with their errors drawn on one axis, and the references of the evaluator in use."""
    ledgers = [Ledger.from_json(row["ledger"]) for row in rows]
    found: list[dict[str, Any]] = [
        {**row, "kind": "tool", "plot": None, "figure": each.get("error"), "correlation": each.get("r")}
        for row, each in zip(rows, ledgers, strict=True)
    ]
    own = next((each for each in ledgers if "error" in each), Ledger())
    found += [
        {"name": "", "label": name, "kind": kind, "figure": own[key], "correlation": own.get(r), "learned": own[key].n}
        for key, r, name, kind in REFERENCES if key in own
    ]  # fmt: skip
    drawn = [row["figure"].estimate for row in found if row["figure"] is not None]
    if not drawn:
        return {"rows": found, "axis": None, "note": ""}
    axis = axis_around(drawn)
    limit = None if "people_error" not in own else NEAR_PEOPLE * (own["people_error"].value or 0.0)
    for row in found:
        zone = None if limit is None else (None, limit)
        row["plot"] = (
            None if row["figure"] is None else interval_svg(row["figure"].estimate, axis, row["kind"], zone=zone)
        )
    green = "" if limit is None else " Green: within 10% of another person."
    return {
        "rows": found,
        "axis": axis_svg(axis),
        "note": f"Held-out error: each conversation is scored by a fit without its own ratings.{green}",
    }


def _verdict_fields(verdict: Mapping[str, Any] | None) -> Row:
    """Return the parts of a verdict that a row shows."""
    found = verdict or {}
    ledger = Ledger.from_json(found.get("ledger"))
    return {
        "title": found.get("title", ""), "sentence": found.get("sentence", ""), "meaning": found.get("meaning", ""),
        "learned": found.get("learned"), "ledger": ledger.to_json(),
        "typical": ledger["error"].to_json() if "error" in ledger else None,
        "error": ledger["error"].estimate.to_json() if "error" in ledger else Estimate().to_json(),
    }  # fmt: skip


def _candidate_row(folder: Path, candidate: Mapping[str, Any]) -> Row:
    learned = candidate["labels"] if candidate["ratings"] is None else candidate["ratings"]
    verdict = {**(candidate["verdict"] or {}), "learned": learned}
    name = candidate_folder(folder).name
    return {"name": name, "base": folder.name, "label": f"{folder.name} (candidate)", "is_in_use": False,
            **_verdict_fields(verdict)}  # fmt: skip


def _pair(choices: Sequence[Row], first: str, second: str) -> tuple[Row, Row] | None:
    """Return the two evaluators that an address names, or `None` if it names none.

    Raises:
        HTTPException: 404 for an unknown name.
    """
    if not first and not second:
        return None
    known = {row["name"]: row for row in choices}
    if first not in known or second not in known:
        raise HTTPException(404)
    return known[first], known[second]


def _compared(first: Row, second: Row, candidate: Mapping[str, Any] | None) -> Row:
    """Return the figures of two evaluators: on the same ratings if these are stored, else from their verdicts."""
    names = [first["label"], second["label"]]
    own = {row["name"].endswith(CANDIDATE): row for row in (first, second)}
    ledger = Ledger.from_json(candidate["ledger"]) if candidate else Ledger()
    is_same = bool(candidate) and own.keys() == {True, False} and own[False]["is_in_use"]
    if candidate and is_same and "error_change" in ledger:
        parts = ["candidate" if row is own[True] else IN_USE for row in (first, second)]
        known = [candidate["now" if row is own[True] else "before"] for row in (first, second)]
        rows = [_figures_row([ledger[f"error:{part}"] for part in parts])]
        rows.append(_figures_row([_known_error(each, part) for each, part in zip(known, parts, strict=True)]))
        change = ledger["error_change"]
        return {"names": names, "rows": rows, "note": candidate["summary"], "figures": [change.to_json()]}
    note = f"{candidate['summary']} " if candidate and is_same and candidate["tests"] else ""
    return {"names": names, **_of_verdicts(first, second, note), "figures": []}


def _known_error(metrics: Mapping[str, float | None] | None, part: str) -> Figure:
    """Return the error for known annotators that is stored with a candidate."""
    found = metrics or {}
    n = None if found.get("n") is None else int(found["n"] or 0)
    value, low, high = (found.get(f"rmse{end}") for end in ("", "_low", "_high"))
    return Figure("known_error", value, low, high, n, "" if n is None else f"{n:,} held-out ratings",
                  over="conversations", part=part)  # fmt: skip


def _of_verdicts(first: Row, second: Row, note: str) -> Row:
    """Return the figures that were measured when two evaluators were fitted, with a note about their ratings."""
    if first["learned"] != second["learned"]:
        counts = [f"{row['learned']:,}" if row["learned"] is not None else "unknown" for row in (first, second)]
        note += f"Measured when each was fitted, on different ratings ({' and '.join(counts)}); fit again to compare " \
                "both on the same."  # fmt: skip
    elif first["learned"]:
        note += f"Measured when each was fitted, on {first['learned']:,} ratings."
    ledgers = [Ledger.from_json(row["ledger"]) for row in (first, second)]
    names = [name for name in _SHOWN if any(name in each for each in ledgers)]
    return {"note": note, "rows": [
        _figures_row([each.get(name) or Figure(name, None) for each in ledgers]) for name in names
    ]}  # fmt: skip


def _figures_row(figures: Sequence[Figure]) -> Row:
    """Return a row of the comparison: the label of a figure, and one of each evaluator."""
    label = figures[0].definition.label
    return {
        "figure": label[:1].upper() + label[1:],
        "values": [each.estimate.to_json() for each in figures],
        "figures": [each.to_json() for each in figures],
    }


def _cost_chart(costs: Sequence[Row]) -> Markup:
    """Return the typical error of each evaluator with a cost, the cheapest first; empty for fewer than two."""
    rows = [ChartRow(f"{row['name']}, {row['text']}", Estimate(**row["error"])) for row in costs
            if row["is_recorded"] and row["error"]["value"] is not None]  # fmt: skip
    return row_chart(rows, Axis(), "Typical error, the cheapest first") if len(rows) > 1 else Markup("")


def _drawn(compared: Row) -> dict[str, Any]:
    """Return the first figure as ranges, and all figures as a table."""
    if not compared["rows"]:
        return {"title": "", "chart": Markup(""), "rows": []}
    first = compared["rows"][0]
    estimates = [Estimate(**value) for value in first["values"]]
    rows = [ChartRow(name, value) for name, value in zip(compared["names"], estimates, strict=True)]
    chart = (
        row_chart(rows, Axis(), first["figure"]) if any(each.value is not None for each in estimates) else Markup("")
    )
    return {"title": first["figure"], "chart": chart, "rows": compared["rows"]}
