"""Home page: own progress for annotators; state of the project and next steps for leads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse, Response
from markupsafe import Markup

from accord.board import BoardFilters, dimension_in_words
from accord.charts import Axis, ChartRow, row_chart
from accord.edges import AccordError, format_size, reason_of
from accord.learning import CARD
from accord.project import (
    candidate_folder,
    comparable_labels,
    has_learned_all,
    modified_at,
    other_question,
    verdict_in_use,
    wordings_text,
)
from accord.results import Figure, Ledger, agreement_word
from accord.store import LabelCounts
from accord.studies import AnswerMatrix, agreement_figure
from accord.values import Annotation
from accord.web.accounts import Visitor
from accord.web.context import WorkbenchContext, add_page, is_json
from accord.web.difference_chart import difference_chart, difference_note, difference_title, with_people
from accord.web.next_steps import main_button, next_steps, refit_text, reminder, step_of
from accord.web.study_rows import study_row
from accord.web.uploads import MAX_UPLOAD

UNCLEAR = ("unclear", "not beyond chance")
"""Words for agreement that may be chance."""
GROUPS_SHOWN = 6
"""Number of assistant versions, or other groups of the board, on the page."""
PERMITTED = ("triage", "systems", "single")
"""States of a verdict that permit a use of the scores."""
_OF_SCORES: tuple[str, str, dict[str, str]] = ("score", "tool", {})
"""Words, kind and filters of means of scores."""


def add_routes(app: FastAPI, context: WorkbenchContext) -> None:
    """Add the home page."""
    pages = _HomePages(context)
    add_page(app, "/", pages.home)
    app.get("/index.json")(pages.home)
    app.get("/help")(pages.help)


class _HomePages:
    def __init__(self, context: WorkbenchContext) -> None:
        self.context = context

    def home(self, request: Request) -> Response:
        """Show the studies of an annotator, the dashboard of a lead, or sign-in instructions."""
        context = self.context
        visitor = context.visitor(request) if is_json(request) else context.accounts.visitor(request)
        if visitor is None:
            is_single_user = context.accounts.is_single_user
            return context.render("login", None, 401, person=None, key="", is_single_user=is_single_user)
        is_lead = visitor.may("lead")
        has_data = bool(context.project.config.studies or context.project.store.count_conversations())
        if is_lead and not has_data and not is_json(request):
            return self._first_page(request, visitor)
        studies = [
            study_row(context, each, visitor)
            for each in context.sessions.values()
            if each.is_for(visitor.person) or is_lead
        ]
        data: dict[str, Any] = {"studies": studies, "broken": context.errors_for(visitor)}
        if not is_lead:
            return context.render_or_json(request, "home", visitor, data)
        for row in studies:
            row["reminder"] = reminder(row, str(request.base_url))
        evaluator = self._evaluator()
        verdict = evaluator["verdict"] or {}
        trend, means, differences = self._scores()
        counts = context.counts(verdict.get("learned"))
        new_scores = None if trend is None else trend["new"]
        data |= {"evaluator": evaluator, "counts": counts, "trend": trend,
                 "next": next_steps(studies, evaluator, counts, new_scores)}  # fmt: skip
        steps = list(data["next"])
        if verdict.get("state") in PERMITTED:  # its page comes first, if people need not settle the wording before
            address, button = main_button(verdict, new_scores)
            own = next((step for step in steps if step["address"] == address), None)
            dispute = next((step for step in steps if step["is_dispute"] and evaluator["is_unclear"]), None)
            first = [each for each in (dispute, own or step_of(button, _meaning(verdict), address, button)) if each]
            steps = [*first, *(step for step in steps if step not in (dispute, own))]
        hero = next((step for step in steps if not step["reminder"]), steps[0] if steps else None)
        stated = with_people(differences, Ledger.from_json(verdict.get("ledger")).values())
        return context.render_or_json(
            request, "dashboard", visitor, data, title=self._title(evaluator), means=means,
            headline=_headline(evaluator, counts, trend), uses=verdict.get("uses", ()), hero=hero,
            steps=[step for step in steps if step is not hero],
            difference=difference_chart(stated), difference_of=difference_title(stated),
            scores_note=f"{difference_note(stated)} {trend['note'] if trend else ''}".strip(),
            waiting=bool(evaluator["fitting"] or evaluator["scoring"]),
        )  # fmt: skip

    def _first_page(self, request: Request, visitor: Visitor) -> Response:
        """Show the first steps of a project without conversations; an import in progress has a page of its own."""
        context = self.context
        if context.uploads.is_running or (context.uploads.state is not None and context.uploads.state.error):
            return RedirectResponse("/import", 303)
        files = context.files
        return context.render(
            "first", visitor, can_upload=files is not None, limit=format_size(MAX_UPLOAD),
            is_new=files is not None and not files.exists,
            folder=context.project.config.folder.absolute().name if files is None else files.folder.absolute().name,
        )  # fmt: skip

    def help(self, request: Request) -> Response:
        """Show the help page, which explains each part of the menu."""
        return self.context.render("help", self.context.visitor(request))

    def _evaluator(self) -> dict[str, Any]:
        """Return the evaluator in use with its verdict, the candidate, and the number of ratings to learn from."""
        context, learning = self.context, self.context.learning
        project, state = context.project, learning.state()
        folder = project.folder()
        is_fitted = (folder / CARD).is_file()
        agreement, is_unclear = self._new_agreement(folder) if is_fitted else ("", False)
        return {
            "name": folder.name if is_fitted else None,
            "question": project.question.id,
            "text": project.question.text,
            "wordings": wordings_text(
                LabelCounts(project.store).wordings(project.question), project.store.other_scales
            ),
            "other": other_question(project.rubric, folder) if is_fitted else "",
            "verdict": verdict_in_use(project, folder) if is_fitted else None,
            "new_agreement": agreement,
            "is_unclear": is_unclear,
            "refit": self._refit(folder),
            "candidate": None if state["candidate"] is None else state["candidate"]["summary"],
            "is_candidate_current": state["candidate"] is not None
            and has_learned_all(project, candidate_folder(folder), state["candidate"]["ratings"]),
            "fit_seconds": _fit_seconds(project.store.runs("fit")[-1:]),
            "fitting": state["fitting"],
            "failed": state["failed"].get("fit"),
            "scoring": state["scoring"],
            "failed_scoring": state["failed"].get("score"),
        }

    def _refit(self, folder: Path) -> str:
        """Return why the evaluator in use has to be fitted again; empty if a candidate was fitted since."""
        store, candidate = self.context.project.store, candidate_folder(folder)
        is_renewed = (candidate / CARD).is_file() and not refit_text(store, candidate)
        return "" if is_renewed else refit_text(store, folder)

    def _new_agreement(self, folder: Path) -> tuple[str, bool]:
        """Return a clause on how much people agree in ratings newer than an evaluator, and whether that is unclear.

        The clause is empty if the agreement is unknown.
        """
        project = self.context.project
        question, since = project.question, modified_at(folder)
        new = [
            Annotation(each.target, each.question, each.annotator, "person", each.value, against=each.against)
            for each in comparable_labels(project.store, question.id)
            if each.time is not None and each.time > since
        ]
        alpha = agreement_figure(AnswerMatrix.of(question, new))
        if alpha.value is None:
            return "", False
        word, shown = agreement_word(alpha.estimate), f"{alpha.short} on {alpha.about}"
        if word in UNCLEAR:
            return f"it is not clear that people agree ({shown}), so discuss them first", True
        return f"people agree {word} ({shown})", False

    def _title(self, evaluator: Mapping[str, Any]) -> str:
        """Return the title of the tab: the typical error of the scores, if it is known, and the folder's name."""
        ledger = Ledger.from_json((evaluator["verdict"] or {}).get("ledger"))
        folder, question = self.context.project.config.folder.absolute().name, self.context.project.question.shown
        return (
            f"{question}: typical error {ledger['error'].short} · {folder}" if "error" in ledger else f"Home · {folder}"
        )

    def _scores(self) -> tuple[dict[str, Any] | None, Markup | None, list[Figure]]:
        """Return headline and figures of the board, its groups drawn, and its stated difference; `None` without scores.

        If the evaluator learned from all scored conversations, the means are of people's ratings.
        """
        try:
            found = self.context.board.figures(BoardFilters())
        except AccordError as error:
            said = dict.fromkeys(("headline", "by", "note", "unlike", "changes"), "")
            failed = {"summary": f"{reason_of(error)}.", "is_given": False, "new": 0, "groups": [], "figures": []}
            return {**said, **failed}, None, []
        if found is None:
            return None, None, []
        scores, figures = found
        is_given = scores.selection.answers == "given"
        by = figures.table.by
        rows = [row for row in figures.table.rows if row.mean.value is not None and row.value]
        rows = sorted(rows, key=lambda row: -(row.mean.value or 0.0))[:GROUPS_SHOWN]
        what, kind, query = ("rating by people", "people", {"answers": "given"}) if is_given else _OF_SCORES
        drawn = [ChartRow(row.name, row.mean, kind, f"/board?{urlencode({**query, by: row.value})}",
                          count=row.texts) for row in rows]  # fmt: skip
        summary = {
            "headline": f"{figures.headline}.", "changes": figures.changes, "unlike": figures.unlike,
            "summary": f"{figures.headline}." if is_given else figures.summary,
            "note": scores.learned if scores.is_all_learned else "", "is_given": is_given, "new": scores.new[0],
            "mean": str(figures.mean),
            "by": dimension_in_words(by),
            "groups": [{"name": row.name, "texts": row.texts, **row.mean.to_json()} for row in rows],
            "figures": figures.ledger().to_json(),
        }  # fmt: skip
        title = f"Mean {what} on {scores.shown(str(scores.selection.question))} by {dimension_in_words(by)}"
        means = row_chart(drawn, Axis("", scores.low, scores.high), title) if rows else None
        stated = figures.stated_figure
        return summary, means, [] if stated is None else [stated]


def _meaning(verdict: Mapping[str, Any]) -> str:
    sentence = str(verdict.get("meaning") or verdict["sentence"])
    return sentence[:1].upper() + sentence[1:]


def _headline(evaluator: Mapping[str, Any], counts: Mapping[str, Any], trend: Mapping[str, Any] | None = None) -> str:
    """Return the finding of the board if the verdict permits it, else the permitted use or what is missing."""
    if trend and trend["headline"] and (evaluator["verdict"] or {}).get("state") in ("systems", "single"):
        return str(trend["headline"]).rstrip(".")
    if evaluator["verdict"] and evaluator["verdict"]["title"]:
        return str(evaluator["verdict"]["title"])
    if evaluator["name"]:
        return "The scores are not tested yet"
    return "No evaluator yet" if counts["ratings"] else "No ratings yet"


def _fit_seconds(runs: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the duration of the last fit."""
    if not runs or not runs[0]["finished"]:
        return None
    started, finished = (datetime.fromisoformat(runs[0][name]) for name in ("started", "finished"))
    return (finished - started).total_seconds()
