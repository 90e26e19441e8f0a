"""Lead pages: progress of studies, disagreement and adjudication, norming rounds, and the next evaluator.

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

from accord.charts import Axis, ChartLine, ChartRow, Guide, interval_plot, line_chart
from accord.edges import BadInput, parse_whole_number, reason_of
from accord.store import ADJUDICATED, Item
from accord.studies import (
    FIT,
    SCORE,
    AnnotatorHabit,
    AnswerMatrix,
    ConversationView,
    DisagreementParts,
    ItemOrder,
    StudyProgress,
    StudySession,
    Unit,
    agreement_of,
    annotator_habits,
    conversation_view,
    decompose_disagreement,
    describe_agreement,
    describe_levels,
    describe_parts,
    most_disputed,
    norming_items,
    parse_value,
    text_field,
)  # fmt: skip
from accord.values import ISSUE, MAX_ROUNDS, Annotation, Estimate, Question, Target, Value
from accord.web.accounts import new_key
from accord.web.context import WorkbenchContext, add_page

MAX_ITEMS = 10
"""Number of items on the page about disagreement."""
NORMING_ITEMS = 8
"""Default number of items of a norming round."""


def add_routes(app: FastAPI, context: WorkbenchContext) -> None:
    """Add the lead pages and their forms."""
    pages = _LeadPages(context)
    add_page(app, "/lead", pages.overview)
    add_page(app, "/lead/{study}", pages.study)
    add_page(app, "/lead/{study}/disagree", pages.disagreement)
    app.post("/lead/fit")(pages.fit)
    app.post("/lead/score")(pages.score)
    app.post("/lead/promote")(pages.promote)
    app.post("/lead/{study}/open")(pages.open)
    app.post("/lead/{study}/norm")(pages.norm)
    app.post("/lead/{study}/adjudicate")(pages.adjudicate)


class _LeadPages:
    def __init__(self, context: WorkbenchContext) -> None:
        self.context = context
        self.learning = context.learning

    def _progress(self, name: str) -> StudyProgress:
        if name in self.context.invalid_studies:
            raise BadInput(self.context.invalid_studies[name])
        if name not in self.context.sessions:
            raise HTTPException(404)
        self.context.sessions[name].begin()
        return StudyProgress(self.context.sessions[name])

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
            "agreement": _agreement_sentences(progress.matrices[progress.main.id]),
            "annotators_per_item": progress.study.settings.annotators_per_item, "items": progress.item_count,
            "people": [asdict(row) for row in progress.by_annotator],
            "questions": [asdict(row) for row in progress.by_question],
            "live": live, "order": None if order is None else order.to_json(),
            "order_failed": self.learning.jobs.failed.get(f"order {study}"),
            "rounds": [asdict(row) for row in progress.rounds],
            "no_predictions": self.learning.reasons.get(study),
        }  # fmt: skip
        address = _disagreement_address(study)
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
            estimate=_estimate_text,
        )  # fmt: skip

    def disagreement(self, study: str, request: Request, question: str = "") -> Response:
        """Show the disagreement on a question: habits of annotators, and the most disputed items."""
        visitor = self.context.visitor(request, "lead")
        progress = self._progress(study)
        selected = _question(progress, question or progress.main.id)
        matrix, is_ordered = progress.matrices[selected.id], selected.scale.is_ordered
        others = [
            other
            for name, other in progress.matrices.items()
            if name != selected.id and other.question.scale.is_ordered
        ]
        parts = decompose_disagreement(matrix)
        habits = annotator_habits(matrix, others) if is_ordered and len(matrix.units) else []
        summary = " ".join([_agreement_sentences(matrix, habits), *([describe_parts(parts)] if parts else [])])
        items = [_disputed_item(progress, unit, value) for unit, value in most_disputed(matrix, MAX_ITEMS)]
        data = {
            "study": study, "title": progress.study.title, "question": selected.id, "text": selected.text,
            "summary": summary, "parts": None if parts is None else asdict(parts),
            "habits": [asdict(habit) for habit in habits], "items": items,
        }  # fmt: skip
        return self.context.render_or_json(
            request, "lead_disagree", visitor, data, charts=habit_charts(selected, parts, habits), progress=progress,
            selected=selected, estimate=_estimate_text, others=[other.question.id for other in others],
            keys=[new_key() for _ in items],
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
        return RedirectResponse(f"/lead/{quote(study)}", 303)

    def _open(self, name: str, rubric: str) -> None:
        session = self._progress(name).study
        if rubric != session.rubric.hash:
            raise BadInput("the wording has changed since this page was made; reload the page and check it again")
        session.accept_wording()

    async def norm(self, study: str, request: Request) -> Response:
        """Open a norming round."""
        _, fields = await self.context.read_form(request, "lead")
        await run_in_threadpool(self._norm, study, fields)
        return RedirectResponse(f"/lead/{quote(study)}", 303)

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

    async def adjudicate(self, study: str, request: Request) -> Response:
        """Save the lead's own answer to an item."""
        visitor, fields = await self.context.read_form(request, "lead")
        question = await run_in_threadpool(self._adjudicate, study, visitor.person.name, fields)
        return RedirectResponse(f"{_disagreement_address(study)}?question={quote(question)}", 303)

    def _adjudicate(self, name: str, person: str, fields: Mapping[str, Any]) -> str:
        progress = self._progress(name)
        question = _question(progress, str(fields.get("question", "")))
        item = next((each for each in progress.items if each.key == fields.get("item")), None)
        if item is None:
            raise BadInput("this study has no such item; reload the page")
        id = text_field(fields, "id", 64)
        if len(id) < 16:
            raise BadInput("the answer has no id; reload the page")
        value = parse_value(question, fields.get("value"))
        if value is None:
            raise BadInput(f"{question.shown}: no answer chosen; allowed: {question.scale}. Choose one.")
        progress.study.studies.adjudicate(Annotation(
            item.target, question.id, person, "person", value, comment=text_field(fields, "comment"),
            wording=question.wording, against=item.against, answer=id, study=f"{name}/{ADJUDICATED}", stage=ADJUDICATED,
            rubric=progress.study.rubric.hash, shown="everybody's answers",
        ))  # fmt: skip
        return question.id


# --- values of templates ---------------------------------------------------------------------------------------------


def _disagreement_address(study: str) -> str:
    return f"/lead/{quote(study)}/disagree"


def _question(progress: StudyProgress, name: str) -> Question:
    question = next((each for each in progress.questions if each.id == name), None)
    if question is None:
        allowed = ", ".join(each.id for each in progress.questions)
        raise BadInput(f"question {name[:60]!r} is not part of this study; allowed: {allowed}")
    return question


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


def _agreement_sentences(matrix: AnswerMatrix, habits: Sequence[AnnotatorHabit] | None = None) -> str:
    """Return the agreement, and the people who are stricter or more lenient, in words."""
    agreement = describe_agreement(agreement_of(matrix))
    if len(matrix.people) < 2 or not matrix.question.scale.is_ordered:
        return agreement
    habits = annotator_habits(matrix) if habits is None else habits
    return f"{agreement} {describe_levels(habits, _length(matrix.question))}"


def _length(question: Question) -> float:
    return max(question.scale.numbers) - min(question.scale.numbers) if question.scale.is_ordered else 1.0


def habit_charts(
    question: Question, parts: DisagreementParts | None, habits: Sequence[AnnotatorHabit]
) -> dict[str, Markup | None]:
    """Draw the sources of the disagreement, and the level and the width of each annotator, on axes that hold them."""
    charts: dict[str, Markup | None] = {"parts": None, "level": None, "width": None}
    if parts is not None:
        names = {"level": "stricter or more lenient", "width": "use of the scale", "residual": "single conversations"}
        rows = [ChartRow(text, getattr(parts, name), "people") for name, text in names.items()]
        charts["parts"] = interval_plot(rows, Axis("share of the disagreement", 0, 1), "Sources of the disagreement")
    if habits:
        levels = [ChartRow(habit.person, habit.level, "people") for habit in habits]
        widths = [ChartRow(habit.person, habit.width, "people") for habit in habits]
        step = _length(question) / 8
        ends = [end for row in levels for end in (row.estimate.value, row.estimate.low, row.estimate.high) if end]
        reach = max(math.ceil(max(map(abs, ends), default=0) / step), 1) * step
        axis = Axis("stricter  ←  points from the others  →  more lenient", -reach, reach)
        charts["level"] = interval_plot(levels, axis, "Stricter or more lenient than the others", 0)
        axis = Axis("less  ←  use of the scale, others = 1  →  more", 0, 2)
        charts["width"] = interval_plot(widths, axis, "Use of the scale compared with the others", 1)
    return charts


def _disputed_item(progress: StudyProgress, unit: Unit, disagreement: float) -> dict[str, Any]:
    """Return a disputed item with its text, and all answers, marks, comments and adjudications."""
    target, against = unit
    item = next(each for each in progress.items if (each.target, each.against) == unit)
    annotations = [each for each in progress.answers if (each.target, each.against) == unit]
    name = progress.study.name
    answers = [each for each in annotations if each.study == name and not each.question.startswith(ISSUE)]
    return {
        "key": item.key, "conversation": target.conversation, "turn": target.turn, "disagreement": disagreement,
        "synthetic": target.conversation in progress.synthetic,
        "people": sorted({each.by for each in answers}),
        "answers": _answers_by_question(progress.questions, answers),
        "comments": [{"person": e.by, "question": e.question, "text": e.comment} for e in answers if e.comment],
        "marks": _marks_in(target, progress.first),
        "adjudicated": [{"person": e.by, "question": e.question, "value": e.value, "comment": e.comment}
                        for e in annotations if e.study.endswith(f"/{ADJUDICATED}")],
        "sides": [_turns_shown(view) for view in _conversation_views(progress, item)],
    }  # fmt: skip


def _answers_by_question(
    questions: Sequence[Question], answers: Sequence[Annotation]
) -> dict[str, dict[str, Value | None]]:
    """Return the answer of each annotator to each question."""
    found: dict[str, dict[str, Value | None]] = {question.id: {} for question in questions}
    for answer in answers:
        found.get(answer.question, {})[answer.by] = answer.value
    return found


def _marks_in(item: Target, answers: Sequence[Annotation]) -> list[dict[str, Any]]:
    """Return the marks of issues in a turn, or in all turns of a conversation."""
    return [
        {"person": e.by, "kind": e.question.removeprefix(ISSUE), "turn": e.target.turn, "quote": e.quote}
        for e in answers
        if e.question.startswith(ISSUE)
        and e.target.conversation == item.conversation
        and item.turn in (None, e.target.turn)
    ]


def _turns_shown(view: ConversationView) -> list[dict[str, Any]]:
    return [
        {"role": turn.role, "text": turn.text, "rated": turn.is_rated, "calls": list(turn.calls)} for turn in view.turns
    ]


def _conversation_views(progress: StudyProgress, item: Item) -> list[ConversationView]:
    targets = [item.target] if item.against is None else [item.target, item.against]
    names = {target.conversation for target in targets}
    conversations = {each.id: each for each in progress.study.project.store.conversations(names)}
    return [conversation_view(conversations[target.conversation], target.turn, False) for target in targets]


def _estimate(fields: Mapping[str, Any]) -> Estimate:
    return Estimate(fields["value"], fields["low"], fields["high"])


def _estimate_text(fields: Mapping[str, Any]) -> str:
    """Return the text of an estimate given by its fields."""
    return _estimate(fields).text()
