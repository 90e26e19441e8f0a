"""Home page: own progress for annotators; state of the project and next steps for leads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse, Response
from markupsafe import Markup

from accord.board import BoardFilters
from accord.charts import Axis, ChartLine, line_chart
from accord.edges import AccordError, BadInput, format_size, reason_of
from accord.learning import CARD
from accord.project import other_question, wordings_text
from accord.store import LabelCounts
from accord.studies import StudyProgress, StudySession, study_annotators, verdict_in_use
from accord.web.accounts import Visitor
from accord.web.context import WorkbenchContext, add_page, is_json
from accord.web.uploads import MAX_UPLOAD

MAX_STEPS = 3
"""Number of next steps on the page."""
MAX_MOMENTS, MAX_TICKS = 24, 6
"""Numbers of days or weeks in the chart of scores, and of their dates below it."""


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
            self._study(each, visitor) for each in context.sessions.values() if each.is_for(visitor.person) or is_lead
        ]
        data: dict[str, Any] = {"studies": studies, "broken": context.errors_for(visitor)}
        if not is_lead:
            return context.render_or_json(request, "home", visitor, data)
        trend, chart = self._trend()
        evaluator = self._evaluator()
        steps = self._steps(studies, evaluator, trend is not None)
        data |= {"evaluator": evaluator, "trend": trend, "next": steps[:MAX_STEPS]}
        return context.render_or_json(request, "dashboard", visitor, data, chart=chart, title=self._title(evaluator))

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
        """Show what each part of the menu is for."""
        return self.context.render("help", self.context.visitor(request))

    def _study(self, study: StudySession, visitor: Visitor) -> dict[str, Any]:
        """Return the own progress of a person in a study, and for leads that of all annotators."""
        try:
            study.begin()
            done, total = study.progress(visitor.person.name)
        except BadInput as error:
            done, total, problem = 0, 0, reason_of(error)
        else:
            problem = ""
        row: dict[str, Any] = {
            "study": study.name, "title": study.title, "level": study.settings.level, "rubric": study.rubric.name,
            "address": study.start, "done": done, "total": total, "problem": problem,
            "is_chat": study.settings.chat is not None, "closed": self.context.reason_closed(study, visitor),
        }  # fmt: skip
        if visitor.may("lead") and not problem:
            progress = StudyProgress(study)
            main = progress.main_progress
            row |= {
                "summary": progress.sentence(), "full": main.full, "items": progress.item_count,
                "annotators_per_item": study.settings.annotators_per_item, "people": len(study_annotators(study)),
            }  # fmt: skip
        return row

    def _evaluator(self) -> dict[str, Any]:
        """Return the evaluator in use with its verdict, the candidate, and the number of ratings to learn from."""
        context, learning = self.context, self.context.learning
        project, state = context.project, learning.state()
        folder = project.folder()
        is_fitted = (folder / CARD).is_file()
        return {
            "name": folder.name if is_fitted else None,
            "question": project.question.id,
            "text": project.question.text,
            "wordings": wordings_text(
                LabelCounts(project.store).wordings(project.question), project.store.other_scales
            ),
            "other": other_question(project.rubric, folder) if is_fitted else "",
            "verdict": verdict_in_use(project, folder) if is_fitted else None,
            "candidate": None if state["candidate"] is None else state["candidate"]["summary"],
            "fitting": state["fitting"],
            "failed": state["failed"].get("fit"),
            "scoring": state["scoring"],
            "failed_scoring": state["failed"].get("score"),
            "ratings": len(project.rated(project.question.id)),
        }

    def _title(self, evaluator: Mapping[str, Any]) -> str:
        """Return the title of the tab: the typical error of the scores, if it is known, and the folder's name."""
        facts = (evaluator["verdict"] or {}).get("facts", ())
        folder = self.context.project.config.folder.absolute().name
        shown = f"{evaluator['question']}: {facts[0]['value']} off" if facts else "Home"
        return f"{shown} · {folder}"

    def _trend(self) -> tuple[dict[str, Any] | None, Markup | None]:
        """Return the summary of the board with the latest means, and their chart if there are two; `None` if empty."""
        try:
            found = self.context.board.figures(BoardFilters.from_query("", ()))
        except AccordError as error:
            return {"summary": f"{reason_of(error)}.", "step": "", "means": []}, None
        if found is None:
            return None, None
        scores, figures = found
        moments = [each for each in figures.time.moments if each.mean.value is not None][-MAX_MOMENTS:]
        means = [{"since": each.since, "mean": str(each.mean), "texts": each.texts} for each in moments]
        trend = {"summary": figures.summary, "step": figures.time.step, "means": means}
        if len(moments) < 2:
            return trend, None
        places = range(len(moments))
        line = ChartLine(
            places, [moment.mean.value or 0.0 for moment in moments], draws="line points",
            ends=[moment.mean for moment in moments],
        )  # fmt: skip
        apart = -(-len(moments) // MAX_TICKS)
        x = Axis("", -0.5, len(moments) - 0.5, labels={at: moments[at].since[5:] for at in places[::apart]})
        return trend, line_chart([line], x, Axis("", scores.low, scores.high), f"Mean score by {figures.time.step}")

    def _steps(
        self, studies: Sequence[Mapping[str, Any]], evaluator: Mapping[str, Any], has_scores: bool
    ) -> list[dict[str, str]]:
        """Return what to do next, the most urgent first: a sentence with a page or a command."""
        steps: list[dict[str, str]] = []

        def add(text: str, address: str = "", command: str = "") -> None:
            steps.append({"text": text, "address": address, "command": command})

        if evaluator["candidate"]:
            add("Check the fitted candidate, and promote it", "/evaluators#next")
        if not studies and not evaluator["ratings"]:
            add("Create a study, so that people rate conversations", "/studies/new")
        for study in studies:
            if (step := _study_step(study)) is not None:
                add(*step)
        if evaluator["ratings"] and not evaluator["name"] and not evaluator["candidate"] and not evaluator["fitting"]:
            ratings, question = evaluator["ratings"], self.context.project.question.shown
            add(f"Fit an evaluator to the {ratings:,} ratings of {question}", "/evaluators#next")
        for action in (evaluator["verdict"] or {}).get("actions", ()):
            add(action["text"], command=action["command"])
        if evaluator["name"] and not has_scores:
            add("Score conversations", command="accord score chats.jsonl --out scores.jsonl")
        return steps


def _study_step(study: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return what to do next in a study and its page; `None` if nothing is to be done."""
    title, page = study["title"], f"/lead/{quote(study['study'])}"
    if study["problem"]:
        return None
    if study["closed"]:
        return f"Check the wording of {title}, so that it opens", f"{page}#wording"
    if study["is_chat"] or study["full"] >= study["items"]:
        return None
    if not study["people"]:
        return f"Add people who rate {title}, or rate it yourself", "/people"
    left = study["items"] - study["full"]
    return f"{left:,} of {study['items']:,} items of {title} need ratings: send people their links", page
