"""Lead pages: progress of studies, norming rounds, and the next evaluator.

Annotators are listed by name and never ranked. Their statistics have intervals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse, Response
from markupsafe import Markup
from starlette.exceptions import HTTPException

from accord.charts import Axis, ChartLine, ChartRow, Guide, row_chart, scatter
from accord.edges import BadInput, parse_whole_number
from accord.results import agreement_word, number
from accord.studies import (
    FIT,
    SCORE,
    Adjudication,
    AnnotatorHabit,
    ItemOrder,
    QuestionProgress,
    StudyProgress,
    StudySession,
    annotator_habits,
    describe_agreement,
    describe_agreement_on,
    describe_level,
    describe_levels,
    level_figures,
    norming_items,
    study_annotators,
)  # fmt: skip
from accord.values import MAX_ROUNDS, Estimate
from accord.web.accounts import Visitor
from accord.web.context import WorkbenchContext, add_page
from accord.web.next_steps import reminder
from accord.web.study_rows import study_row

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

    # --- pages --------------------------------------------------------------------------------------------------

    def overview(self, request: Request) -> Response:
        """Show each study in one sentence."""
        visitor = self.context.visitor(request, "lead")
        rows = [self._row(name, visitor) for name in self.context.sessions]
        data = {"studies": rows, "broken": self.context.invalid_studies, "learning": self.learning.state()}
        return self.context.render_or_json(request, "lead", visitor, data)

    def study(self, study: str, request: Request) -> Response:
        """Show the progress of a study."""
        visitor = self.context.visitor(request, "lead")
        progress = self._progress(study)
        live, order, queue = _live_accuracy(progress), self.learning.orders.get(study), Adjudication(progress)
        people = self._people(progress)
        own_done, own_total = progress.study.progress(visitor.person.name)
        row = {"study": study, "title": progress.study.title, "address": progress.study.start}
        data = {
            "study": study, "title": progress.study.title, "summary": progress.sentence(),
            "headline": _headline(progress), "parts": _counted(progress, queue),
            "generated": [each.id for each in progress.study.generated_questions()],
            "agreement": agreement_sentences(progress, progress.main.id),
            "figures": [progress.main_progress.alpha.to_json(), queue.figure().to_json()],
            "annotators_per_item": progress.study.settings.annotators_per_item, "items": progress.item_count,
            "full": progress.main_progress.full, "disputed": len(queue.disputes), "adjudicated": queue.done,
            "people": people, "questions": _questions(progress),
            "live": live, "order": None if order is None else order.to_json(),
            "order_failed": self.learning.jobs.failed.get(f"order {study}"),
            "rounds": [asdict(each) for each in progress.rounds],
            "no_predictions": self.learning.reasons.get(study),
        }  # fmt: skip
        charts = {
            "agreement": _agreement_ranges(progress),
            "live": _live_chart(progress, live),
            "blind": None if progress.accuracy is None else progress.accuracy.ledger(),
            "narrowing": _narrowing_chart(order) if order and order.remaining_variance else None,
        }
        waiting = [each["person"] for each in people if each["finished"] < each["total"]]
        return self.context.render_or_json(
            request, "lead_study", visitor, data, charts=charts, progress=progress, norming=NORMING_ITEMS,
            edits=self._can_edit(progress.study), estimate=estimate_text,
            button=_next_button(progress, queue, own_total - own_done, waiting),
            reminder=reminder(row, str(request.base_url)) if waiting and not progress.study.settings.chat else "",
        )  # fmt: skip

    def _row(self, name: str, visitor: Visitor) -> dict[str, Any]:
        """Return the progress of a study in the list of studies, or the reason why it cannot be opened."""
        session = self.context.sessions[name]
        row = {**study_row(self.context, session, visitor), "generated": len(session.generated_questions())}
        if row["problem"]:
            return {**row, "summary": row["problem"]}
        progress = self._progress(name)
        return {
            **row, "question": progress.main.id, "strength": agreement_word(progress.main_progress.agreement),
            "figures": [Adjudication(progress).figure().to_json()],
        }  # fmt: skip

    def _people(self, progress: StudyProgress) -> list[dict[str, Any]]:
        """Return the progress of each annotator, and the differences from the answers of other annotators."""
        matrix = progress.matrices[progress.main.id]
        is_ordered = matrix.question.scale.is_ordered and len(matrix.people) > 1 and len(matrix.units) > 0
        habits = annotator_habits(matrix) if is_ordered else []
        levels = {each.person: each.level for each in habits}
        figures = dict(zip(levels, level_figures(habits, progress.study.name), strict=True))
        rows = []
        for each in progress.by_annotator:
            finished, total = progress.study.progress(each.person)
            level = levels.get(each.person)
            rows.append({
                **asdict(each), "finished": finished, "total": total,
                "level": None if level is None else level.to_json(),
                "figure": None if level is None else figures[each.person].to_json(),
                "habit": "" if level is None else describe_level(level),
            })  # fmt: skip
        return rows

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


def _headline(progress: StudyProgress) -> str:
    """Return the agreement on the main question in words; without ratings, that there are none."""
    if not progress.main_progress.answers:
        return "No ratings yet"
    return describe_agreement_on(progress.main.shown, progress.main_progress.alpha)


def _counted(progress: StudyProgress, queue: Adjudication) -> list[str]:
    """Return the progress of a study in parts of a line: items with all ratings, items left, disputed items."""
    if not progress.answers:
        return [progress.sentence()]
    left = max(progress.item_count - progress.main_progress.full, 0)
    parts = [progress.completed() + progress.synthetic_note()]
    parts += [f"{left:,} still need{'s' if left == 1 else ''} a rating"] if left else []
    if queue.disputes:
        parts.append(f"{len(queue.disputes):,} disputed, {queue.done:,} adjudicated")
    return parts


def _next_button(
    progress: StudyProgress, queue: Adjudication, own_left: int, waiting: Sequence[str]
) -> tuple[str, str] | None:
    """Return the address and the text of the next thing to do in a study."""
    study, open_disputes = progress.study, len(queue.disputes) - queue.done
    left = progress.item_count - progress.main_progress.full
    if study.generated_questions():
        return None  # the form for the wording has the button
    if open_disputes:
        text = f"Discuss {open_disputes:,} disputed item{'' if open_disputes == 1 else 's'}"
        return disagreement_address(study.name), text
    if study.settings.chat is not None:
        return study.start, "Chat"
    if left > 0 and not study_annotators(study):
        return "/people", "Add people"
    if left > 0 and own_left > 0:
        return study.start, f"Rate {own_left:,}"
    if left > 0 and waiting:
        return "#people", "Copy a reminder"
    return ("/evaluators#next", "Fit an evaluator") if progress.main_progress.answers else ("/import", "Import")


UNASKED = {
    "with-documents": "conversations without documents",
    "without-documents": "conversations with documents",
    "multi-turn": "conversations of one turn",
    "steps": "replies and whole conversations",
}
"""Conversations about which a question is not asked, by its condition."""


def _questions(progress: StudyProgress) -> list[dict[str, Any]]:
    """Return the answers by question, the main one first, with the number of ratings that lack one."""
    ratings = max((row.answers for row in progress.by_question), default=0)
    return [
        {**asdict(row), "alpha": row.alpha.to_json(), "missing": ratings - row.answers,
         "unasked": UNASKED.get(progress.study.rubric[row.question].applies, "left out")}
        for row in _main_first(progress)
    ]  # fmt: skip


def _main_first(progress: StudyProgress) -> list[QuestionProgress]:
    return sorted(progress.by_question, key=lambda row: row.question != progress.main.id)


def _agreement_ranges(progress: StudyProgress) -> Markup | None:
    """Draw the agreement on each question as ranges with links to its disagreement; `None` without any."""
    address = disagreement_address(progress.study.name)
    rows = [
        ChartRow(progress.study.rubric.shown(row.question), row.agreement, "people",
                 f"{address}?question={quote(row.question)}",
                 f"{agreement_word(row.agreement)}, {row.alpha.about.partition(' in the study ')[0]}")
        for row in _main_first(progress)
    ]  # fmt: skip
    known = [row.estimate for row in rows if row.estimate.value is not None]
    lowest = min(((each.value or 0.0) if each.low is None else each.low for each in known), default=0.0)
    title = "Agreement of people by question, with 95% intervals"
    return row_chart(rows, Axis(low=min(math.floor(4 * lowest) / 4, 0.0), high=1), title) if known else None


def _live_accuracy(progress: StudyProgress) -> dict[str, Any] | None:
    accuracy = progress.accuracy
    if accuracy is None:
        return None
    return {
        "evaluator": accuracy.evaluator, "question": accuracy.question.id, "answers": len(accuracy.paired),
        "unpredicted": accuracy.unpredicted, "left_out": accuracy.left_out, "text": accuracy.sentence(),
        "figures": accuracy.ledger().to_json(), "conversations": len(accuracy.completed), "range": accuracy.range,
        "estimates": {name: estimate.to_json() for name, estimate in accuracy.estimates().items()},
    }  # fmt: skip


def _live_chart(progress: StudyProgress, live: Mapping[str, Any] | None) -> Markup | None:
    if live is None or not live["estimates"]:
        return None
    estimates = {name: _estimate(fields) for name, fields in live["estimates"].items()}
    rmse = estimates["rmse"]
    error = Estimate(*(None if end is None else end / live["range"] for end in (rmse.value, rmse.low, rmse.high)))
    asked = next(row for row in progress.by_question if row.question == live["question"])
    rows = [
        ChartRow(f"annotators: α (n = {asked.alpha.n:,})", asked.agreement, "people"),
        ChartRow("evaluator: r", estimates["pearson"]),
        ChartRow("error / scale", error), ChartRow("within 80% interval", estimates["covered"]),
        ChartRow("gain over own mean", estimates["gain"]),
    ]  # fmt: skip
    return agreement_chart(rows, "Agreement of annotators, and of the evaluator with annotators")


def agreement_chart(rows: Sequence[ChartRow], title: str) -> Markup:
    """Draw agreement on an axis from 0 (chance) to 1, or from the lowest end of an interval."""
    return row_chart(rows, Axis(low=min(0.0, *(_least(row.estimate) for row in rows)), high=1), title)


def _least(estimate: Estimate) -> float:
    return min(end for end in (estimate.value, estimate.low, 1.0) if end is not None)


def _narrowing_chart(order: ItemOrder) -> Markup:
    """Draw the width of the evaluator's interval after each of the next labels, as a share of its current width."""
    widths = [share**0.5 for share in (1.0, *order.remaining_variance)]
    lines = [ChartLine(range(len(widths)), widths)]
    if order.labels_to_halve is not None:
        lines.append(ChartLine([order.labels_to_halve], [0.5], draws="points"))
    x, y = Axis("more labels", 0), Axis("width of the interval", 0, 1, is_share=True)
    return scatter(lines, x, y, order.sentence(), guides=[Guide(0.5, is_level=True)])


def agreement_sentences(progress: StudyProgress, question: str, habits: Sequence[AnnotatorHabit] | None = None) -> str:
    """Return the agreement on a question, and the people who are stricter or more lenient, in words."""
    matrix = progress.matrices[question]
    agreement = describe_agreement(next(row.alpha for row in progress.by_question if row.question == question))
    if len(matrix.people) < 2 or not matrix.question.scale.is_ordered:
        return agreement
    return f"{agreement} {describe_levels(annotator_habits(matrix) if habits is None else habits)}"


def _estimate(fields: Mapping[str, Any]) -> Estimate:
    return Estimate(fields["value"], fields["low"], fields["high"])


def estimate_text(fields: Mapping[str, Any]) -> str:
    """Return the text of an estimate given by its fields, such as "0.30 [−0.02, 0.55]"."""
    ends = interval_text(fields)
    return number(fields["value"], 2) + (f" [{ends}]" if ends else "")


def interval_text(fields: Mapping[str, Any]) -> str:
    """Return the interval of an estimate given by its fields; empty without one."""
    low, high = fields["low"], fields["high"]
    return "" if low is None or high is None else f"{number(low, 2)}, {number(high, 2)}"
