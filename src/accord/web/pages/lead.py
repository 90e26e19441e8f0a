"""Lead pages: progress of studies, norming rounds, and the next evaluator.

Annotators are listed by name and never ranked. Their statistics have intervals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse, Response
from markupsafe import Markup
from starlette.exceptions import HTTPException

from accord.charts import Axis, ChartLine, ChartRow, Guide, interval_plot, line_chart
from accord.edges import BadInput, parse_whole_number, reason_of
from accord.studies import (
    FIT,
    SCORE,
    AnnotatorHabit,
    AnswerMatrix,
    ItemOrder,
    StudyProgress,
    StudySession,
    agreement_of,
    annotator_habits,
    describe_agreement,
    describe_levels,
    norming_items,
)  # fmt: skip
from accord.values import MAX_ROUNDS, Estimate, Question
from accord.web.context import WorkbenchContext, add_page

NORMING_ITEMS = 8
"""Default number of items of a norming round."""


def add_routes(app: FastAPI, context: WorkbenchContext) -> None:
    """Add the lead pages and their forms."""
    pages = _LeadPages(context)
    add_page(app, "/lead", pages.overview)
    add_page(app, "/lead/{study}", pages.study)
    app.post("/lead/fit")(pages.fit)
    app.post("/lead/score")(pages.score)
    app.post("/lead/promote")(pages.promote)
    app.post("/lead/{study}/open")(pages.open)
    app.post("/lead/{study}/norm")(pages.norm)


class _LeadPages:
    def __init__(self, context: WorkbenchContext) -> None:
        self.context = context
        self.learning = context.learning

    def _progress(self, name: str) -> StudyProgress:
        return progress_of(self.context, name)

    def _sentence(self, name: str) -> str:
        try:
            return self._progress(name).sentence()
        except BadInput as error:
            return reason_of(error)

    # --- pages --------------------------------------------------------------------------------------------------

    def overview(self, request: Request) -> Response:
        """Show each study in one sentence."""
        visitor = self.context.visitor(request, "lead")
        rows = [
            {
                "study": name,
                "title": study.title,
                "summary": self._sentence(name),
                "generated": len(study.generated_questions()),
            }
            for name, study in self.context.sessions.items()
        ]
        data = {"studies": rows, "broken": self.context.invalid_studies, "learning": self.learning.state()}
        return self.context.render_or_json(request, "lead", visitor, data)

    def study(self, study: str, request: Request) -> Response:
        """Show the progress of a study."""
        visitor = self.context.visitor(request, "lead")
        progress = self._progress(study)
        live, order = _live_accuracy(progress), self.learning.orders.get(study)
        data = {
            "study": study, "title": progress.study.title, "summary": progress.sentence(),
            "generated": [each.id for each in progress.study.generated_questions()],
            "agreement": agreement_sentences(progress.matrices[progress.main.id]),
            "annotators_per_item": progress.study.settings.annotators_per_item, "items": progress.item_count,
            "people": [asdict(row) for row in progress.by_annotator],
            "questions": [asdict(row) for row in progress.by_question],
            "live": live, "order": None if order is None else order.to_json(),
            "order_failed": self.learning.jobs.failed.get(f"order {study}"),
            "rounds": [asdict(row) for row in progress.rounds],
            "no_predictions": self.learning.reasons.get(study),
        }  # fmt: skip
        address = disagreement_address(study)
        agreement = [
            ChartRow(
                progress.study.rubric.shown(row.question),
                row.agreement,
                "people",
                f"{address}?question={quote(row.question)}",
            )
            for row in progress.by_question
        ]
        charts = {
            "agreement": agreement_chart(agreement, "Agreement of annotators by question")
            if any(row.estimate.value is not None for row in agreement)
            else None,
            "live": _live_chart(progress, live),
            "narrowing": _narrowing_chart(order) if order and order.remaining_variance else None,
        }
        return self.context.render_or_json(
            request, "lead_study", visitor, data, charts=charts, progress=progress, norming=NORMING_ITEMS,
            edits=self._can_edit(progress.study),
            estimate=estimate_text,
        )  # fmt: skip

    def _can_edit(self, session: StudySession) -> bool:
        """Return True if the rubric page edits the questions of a study."""
        files = self.context.files
        return files is not None and files.exists and session.rubric == self.context.project.rubric

    # --- forms --------------------------------------------------------------------------------------------------

    async def fit(self, request: Request) -> Response:
        """Start a fit in the background."""
        await self.context.read_form(request, "lead")
        self.learning.jobs.add(FIT, self.learning.retrain)
        return RedirectResponse("/evaluators#next", 303)

    async def score(self, request: Request) -> Response:
        """Start scoring all stored conversations in the background."""
        await self.context.read_form(request, "lead")
        if self.learning.evaluator is None:
            raise BadInput("no evaluator is in use yet. Fit one on the page Evaluators, then score")
        self.learning.jobs.add(SCORE, self.learning.score)
        return RedirectResponse("/", 303)

    async def promote(self, request: Request) -> Response:
        """Promote the candidate that the page showed."""
        _, fields = await self.context.read_form(request, "lead")
        await run_in_threadpool(self._promote, str(fields.get("made", "")))
        return RedirectResponse("/evaluators?done=promoted", 303)

    def _promote(self, made: str) -> None:
        candidate = self.learning.state()["candidate"]
        if candidate is not None and candidate["made"] != made:
            raise BadInput("there is a newer candidate; reload the page and check it")
        self.learning.promote()

    async def open(self, study: str, request: Request) -> Response:
        """Open a study with the generated wording that the page showed."""
        _, fields = await self.context.read_form(request, "lead")
        await run_in_threadpool(self._open, study, str(fields.get("rubric", "")))
        return RedirectResponse(f"/lead/{quote(study)}?done=opened", 303)

    def _open(self, name: str, rubric: str) -> None:
        session = self._progress(name).study
        if rubric != session.rubric.hash:
            raise BadInput("the wording has changed since this page was made; reload the page and check it again")
        session.accept_wording()

    async def norm(self, study: str, request: Request) -> Response:
        """Open a norming round."""
        _, fields = await self.context.read_form(request, "lead")
        await run_in_threadpool(self._norm, study, fields)
        return RedirectResponse(f"/lead/{quote(study)}?done=round", 303)

    def _norm(self, name: str, fields: Mapping[str, Any]) -> None:
        progress, text = self._progress(name), str(fields.get("items", NORMING_ITEMS))
        count = parse_whole_number(text)
        if count is None or not 1 <= count <= 100:
            raise BadInput(f"items: got {text[:20]!r}, allowed: 1 to 100")
        if max((item.round for item in progress.items), default=1) >= MAX_ROUNDS:
            raise BadInput(f"a study has at most {MAX_ROUNDS} rounds; start another study")
        if len(progress.people) < 2:
            raise BadInput(
                "a norming round needs two annotators. Add them: accord users add NAME; or name them under `annotators`"
            )
        items = norming_items(progress.study, progress, count, fields.get("do") == "again")
        progress.study.studies.add_items(items)


# --- values of templates ---------------------------------------------------------------------------------------------


def progress_of(context: WorkbenchContext, name: str) -> StudyProgress:
    """Return the progress of a study, which begins if it has not begun.

    Raises:
        BadInput: The study cannot be opened.
        HTTPException: 404 for an unknown study.
    """
    if name in context.invalid_studies:
        raise BadInput(context.invalid_studies[name])
    if name not in context.sessions:
        raise HTTPException(404)
    context.sessions[name].begin()
    return StudyProgress(context.sessions[name])


def disagreement_address(study: str) -> str:
    """Return the address of the page about disagreement in a study."""
    return f"/lead/{quote(study)}/disagree"


def _live_accuracy(progress: StudyProgress) -> dict[str, Any] | None:
    accuracy = progress.accuracy
    if accuracy is None:
        return None
    return {
        "evaluator": accuracy.evaluator, "question": accuracy.question.id, "answers": len(accuracy.paired),
        "unpredicted": accuracy.unpredicted, "conversations": len(accuracy.completed), "range": accuracy.range,
        "estimates": {name: estimate.to_json() for name, estimate in accuracy.estimates().items()},
    }  # fmt: skip


def _live_chart(progress: StudyProgress, live: Mapping[str, Any] | None) -> Markup | None:
    if live is None or not live["estimates"]:
        return None
    estimates = {name: _estimate(fields) for name, fields in live["estimates"].items()}
    rmse = estimates["rmse"]
    error = Estimate(*(None if end is None else end / live["range"] for end in (rmse.value, rmse.low, rmse.high)))
    alpha = next(row.agreement for row in progress.by_question if row.question == live["question"])
    rows = [
        ChartRow("annotators: α", alpha, "people"), ChartRow("evaluator: r", estimates["pearson"]),
        ChartRow("error / scale", error), ChartRow("within 80% interval", estimates["covered"]),
        ChartRow("gain over own mean", estimates["gain"]),
    ]  # fmt: skip
    return agreement_chart(rows, "Agreement of annotators, and of the evaluator with annotators")


def agreement_chart(rows: Sequence[ChartRow], title: str) -> Markup:
    """Draw agreement on an axis from 0 (chance) to 1, or from the lowest end of an interval."""
    return interval_plot(rows, Axis(low=0, high=1), title, 0)


def _narrowing_chart(order: ItemOrder) -> Markup:
    """Draw the width of the evaluator's interval after each of the next labels, as a share of its current width."""
    widths = [share**0.5 for share in (1.0, *order.remaining_variance)]
    lines = [ChartLine(range(len(widths)), widths)]
    if order.labels_to_halve is not None:
        lines.append(ChartLine([order.labels_to_halve], [0.5], draws="points"))
    x, y = Axis("more labels", 0), Axis("width of the interval", 0, 1, is_share=True)
    return line_chart(lines, x, y, order.sentence(), guides=[Guide(0.5, is_level=True)])


def agreement_sentences(matrix: AnswerMatrix, habits: Sequence[AnnotatorHabit] | None = None) -> str:
    """Return the agreement, and the people who are stricter or more lenient, in words."""
    agreement = describe_agreement(agreement_of(matrix))
    if len(matrix.people) < 2 or not matrix.question.scale.is_ordered:
        return agreement
    habits = annotator_habits(matrix) if habits is None else habits
    return f"{agreement} {describe_levels(habits, scale_length(matrix.question))}"


def scale_length(question: Question) -> float:
    """Return the difference of the ends of an ordered scale; 1 for a nominal one."""
    return max(question.scale.numbers) - min(question.scale.numbers) if question.scale.is_ordered else 1.0


def _estimate(fields: Mapping[str, Any]) -> Estimate:
    return Estimate(fields["value"], fields["low"], fields["high"])


def estimate_text(fields: Mapping[str, Any]) -> str:
    """Return the text of an estimate given by its fields."""
    return _estimate(fields).text()
