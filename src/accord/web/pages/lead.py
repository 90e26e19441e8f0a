"""Lead: how each study stands, where people differ and why, adjudication, norming rounds, and the next evaluator.

People are listed by name and never ranked; what is shown of them has its interval and no judgement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypedDict
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse, Response
from markupsafe import Markup
from starlette.exceptions import HTTPException

from accord.charts import Axis, ChartLine, ChartRow, Guide, interval_plot, line_chart
from accord.edges import BadInput, parse_whole_number
from accord.store import ADJUDICATED, Item
from accord.studies import (
    FIT,
    Apart,
    CountedEstimate,
    Habit,
    Loop,
    Order,
    Side,
    Standing,
    Unit,
    habits,
    norming_items,
    side_of,
    taken_apart,
    text_in,
    value_in,
    worst,
)
from accord.values import ISSUE, MAX_ROUNDS, Annotation, Question, Value
from accord.web.context import WorkbenchContext
from accord.web.forms import new_key

SHOWN = 10
"""Items on the page of disagreement."""
NORMING = 8
"""Items of a norming round, unless told otherwise."""


def add_routes(app: FastAPI, context: WorkbenchContext) -> None:
    """The routes of this part."""
    lead = _Lead(context)
    context.on_close.append(lead.loop.jobs.close)
    for path, page in (("", lead.studies), ("/{study}", lead.study), ("/{study}/disagree", lead.disagree)):
        app.get(f"/lead{path}.json")(page)
        app.get(f"/lead{path}")(page)
    app.post("/lead/fit")(lead.fit)
    app.post("/lead/promote")(lead.promote)
    app.post("/lead/{study}/norm")(lead.norm)
    app.post("/lead/{study}/adjudicate")(lead.adjudicate)


class _Lead:
    def __init__(self, context: WorkbenchContext) -> None:
        self.context = context
        self.loop = Loop(context.open)

    def _standing(self, name: str) -> Standing:
        if name in self.context.broken:
            raise BadInput(self.context.broken[name])
        if name not in self.context.open:
            raise HTTPException(404)
        self.context.open[name].begin()
        return Standing(self.context.open[name])

    def _sentence(self, name: str) -> str:
        try:
            return self._standing(name).sentence()
        except BadInput as error:
            return str(error)

    # --- pages --------------------------------------------------------------------------------------------------

    def studies(self, request: Request) -> Response:
        """Every study in one sentence, and the evaluator that learns from them."""
        visitor = self.context.visitor(request, "lead")
        rows = [
            {"study": name, "title": study.title, "said": self._sentence(name)}
            for name, study in self.context.open.items()
        ]
        data = {"studies": rows, "broken": self.context.broken, "learning": self.loop.state()}
        return self.context.answer(request, "lead", visitor, data)

    def study(self, study: str, request: Request) -> Response:
        """One study."""
        visitor = self.context.visitor(request, "lead")
        standing = self._standing(study)
        live, order = _live(standing), self.loop.orders.get(study)
        data = {
            "study": study, "title": standing.study.title, "said": standing.sentence(),
            "annotators_per_item": standing.study.settings.annotators_per_item, "items": standing.wanted,
            "people": [asdict(each) for each in standing.by_person],
            "questions": [asdict(each) for each in standing.by_question],
            "live": live, "order": None if order is None else order.to_json(),
            "order_failed": self.loop.jobs.failed.get(f"order {study}"),
            "rounds": [asdict(each) for each in standing.rounds],
            "no_predictions": self.loop.reasons.get(study),
        }  # fmt: skip
        charts = {
            "agreement": _from_chance(
                [ChartRow(each.question, each.agreement, "people", f"{_differ(study)}?question={quote(each.question)}")
                 for each in standing.by_question], "How far people agree, by question",
            ),
            "live": _live_chart(standing, live),
            "narrowing": _narrowing(order) if order and order.left else None,
        }  # fmt: skip
        return self.context.answer(request, "lead_study", visitor, data, charts=charts, standing=standing,
                                 norming=NORMING, figure=_said)  # fmt: skip

    def disagree(self, study: str, request: Request, question: str = "") -> Response:
        """Where people differ on a question: habits, the rest, and the items with everybody's answers."""
        visitor = self.context.visitor(request, "lead")
        standing = self._standing(study)
        asked = _question(standing, question or standing.main.id)
        table = standing.tables[asked.id]
        others = [each for name, each in standing.tables.items() if name != asked.id and each.question.scale.is_ordered]
        ordered = asked.scale.is_ordered
        apart, found = taken_apart(table), habits(table, others) if ordered and len(table.units) else []
        items = [_item(standing, unit, apart_by) for unit, apart_by in worst(table, SHOWN)]
        data = {
            "study": study, "title": standing.study.title, "question": asked.id, "text": asked.text,
            "said": _apart_said(asked, apart), "apart": None if apart is None else apart.to_json(),
            "habits": [each.to_json() for each in found], "items": items,
        }  # fmt: skip
        charts = _habit_charts(asked, apart, found)
        return self.context.answer(
            request, "lead_disagree", visitor, data, charts=charts, standing=standing, asked=asked, figure=_said,
            others=[each.question.id for each in others], keys=[new_key() for _ in items],
        )  # fmt: skip

    # --- forms --------------------------------------------------------------------------------------------------

    async def fit(self, request: Request) -> Response:
        """Learn again, in the background."""
        await self.context.posted(request, "lead")
        self.loop.jobs.add(FIT, self.loop.refit)
        return RedirectResponse("/lead", 303)

    async def promote(self, request: Request) -> Response:
        """Use the candidate that the page showed."""
        _, fields = await self.context.posted(request, "lead")
        await run_in_threadpool(self._promote, str(fields.get("made", "")))
        return RedirectResponse("/lead", 303)

    def _promote(self, made: str) -> None:
        candidate = self.loop.state()["candidate"]
        if candidate is not None and candidate["made"] != made:
            raise BadInput("another candidate was made in the meantime; load the page again and look at that one")
        self.loop.promote()

    async def norm(self, study: str, request: Request) -> Response:
        """Open a norming round."""
        _, fields = await self.context.posted(request, "lead")
        await run_in_threadpool(self._norm, study, fields)
        return RedirectResponse(f"/lead/{quote(study)}", 303)

    def _norm(self, name: str, fields: Mapping[str, Any]) -> None:
        standing, items = self._standing(name), str(fields.get("items", NORMING))
        count = parse_whole_number(items)
        if count is None or not 1 <= count <= 100:
            raise BadInput(f"items: got {items[:20]!r}, allowed: 1 to 100")
        if max((item.round for item in standing.items), default=1) >= MAX_ROUNDS:
            raise BadInput(f"a study has at most {MAX_ROUNDS} rounds; begin another study")
        if len(standing.people) < 2:
            raise BadInput("a norming round needs two people; accord users add NAME, or name them under `people`")
        found = norming_items(standing.study, standing, count, fields.get("do") == "again")
        standing.study.studies.add_items(found)

    async def adjudicate(self, study: str, request: Request) -> Response:
        """Add the lead's own answer about an item."""
        visitor, fields = await self.context.posted(request, "lead")
        question = await run_in_threadpool(self._adjudicate, study, visitor.person.name, fields)
        return RedirectResponse(f"{_differ(study)}?question={quote(question)}", 303)

    def _adjudicate(self, name: str, person: str, fields: Mapping[str, Any]) -> str:
        standing = self._standing(name)
        question = _question(standing, str(fields.get("question", "")))
        item = next((each for each in standing.items if each.key == fields.get("item")), None)
        if item is None:
            raise BadInput("this study has no such item; load the page again")
        answer = text_in(fields, "id", 64)
        if len(answer) < 16:
            raise BadInput("the answer's id is missing; load the page again")
        value = value_in(question, fields.get("value"))
        if value is None:
            raise BadInput(f"{question.id}: no answer was chosen; allowed: {question.scale}. Choose one.")
        standing.study.studies.adjudicate(Annotation(
            item.target, question.id, person, "person", value, comment=text_in(fields, "comment"), wording=question.key,
            against=item.against, answer=answer, study=f"{name}/{ADJUDICATED}", stage=ADJUDICATED,
            rubric=standing.study.rubric.hash, shown="everybody's answers",
        ))  # fmt: skip
        return question.id


# --- what pages are told ----------------------------------------------------------------------------------------------


class Disputed(TypedDict):
    """An item that people answered differently, with everybody's answers, marks and comments, and its text."""

    key: str
    conversation: str
    turn: int | None
    apart: float
    synthetic: bool
    people: list[str]
    answers: dict[str, dict[str, Value | None]]
    comments: list[dict[str, str]]
    marks: list[dict[str, str | int | None]]
    adjudicated: list[dict[str, Value | None]]
    sides: list[list[dict[str, str | bool]]]


def _differ(study: str) -> str:
    """The address of the page on where people differ."""
    return f"/lead/{quote(study)}/disagree"


def _question(standing: Standing, name: str) -> Question:
    found = next((each for each in standing.questions if each.id == name), None)
    if found is None:
        raise BadInput(
            f"question {name[:60]!r} is not asked here; asked are {', '.join(q.id for q in standing.questions)}"
        )
    return found


def _live(standing: Standing) -> dict[str, Any] | None:
    """The evaluator held against the answers as they came."""
    found = standing.tested
    if found is None:
        return None
    return {
        "evaluator": found.evaluator, "question": found.question.id, "answers": len(found.paired),
        "without": found.without, "conversations": len(found.counted), "range": found.range,
        "figures": {name: figure.to_json() for name, figure in found.figures().items()},
    }  # fmt: skip


def _live_chart(standing: Standing, live: Mapping[str, Any] | None) -> Any:
    if live is None or not live["figures"]:
        return None
    figures = {name: CountedEstimate(**each) for name, each in live["figures"].items()}
    value, low, high = (
        None if end is None else end / live["range"]
        for end in (figures["rmse"].value, figures["rmse"].low, figures["rmse"].high)
    )
    shares = CountedEstimate(value, low, high, figures["rmse"].n)
    alpha = next(each.agreement for each in standing.by_question if each.question == live["question"])
    marks = [
        ChartRow("people: α", alpha, "people"), ChartRow("evaluator: r", figures["pearson"], "model"),
        ChartRow("its error / scale", shares, "model"), ChartRow("within its 80 %", figures["covered"], "model"),
        ChartRow("ahead of own mean", figures["gain"], "model"),
    ]  # fmt: skip
    return _from_chance(marks, "People with people, and the evaluator with people")


def _from_chance(rows: Sequence[ChartRow], title: str) -> Markup:
    """Draw agreement from 0, the level of chance, to 1; from -1 if an interval goes clearly below chance."""
    ends = [row.estimate.value if row.estimate.low is None else row.estimate.low for row in rows]
    is_less = any(end is not None and end < -0.2 for end in ends)
    return interval_plot(rows, Axis(low=-1 if is_less else -0.2, high=1), title, 0)


def _narrowing(order: Order) -> Markup:
    """Draw the width of the evaluator's interval after each of the next labels, as a share of its width now."""
    widths = [share**0.5 for share in (1.0, *order.left)]
    lines = [ChartLine(range(len(widths)), widths)]
    if order.to_half is not None:
        lines.append(ChartLine([order.to_half], [0.5], draws="points"))
    x, y = Axis("more labels", 0), Axis("width of the interval", 0, 1, is_share=True)
    return line_chart(lines, x, y, order.said(), guides=[Guide(0.5, is_level=True)])


def _apart_said(question: Question, apart: Apart | None) -> str:
    if apart is None:
        return f"Too little is shared to take {question.id} apart: it needs ten items with two answers, and a scale."
    return (
        f"Of what people differ by on {question.id}, {apart.level} is their level (harsh or lenient), {apart.width} "
        f"how much of the scale they use, and {apart.rest} the rest."
    )


def _habit_charts(question: Question, apart: Apart | None, found: Sequence[Habit]) -> dict[str, Markup | None]:
    reach = max(question.scale.numbers) - min(question.scale.numbers) if question.scale.is_ordered else 1.0
    charts: dict[str, Markup | None] = {"apart": None, "level": None, "width": None}
    if apart is not None:
        shares = [ChartRow(name, getattr(apart, name), "people") for name in ("level", "width", "rest")]
        charts["apart"] = interval_plot(shares, Axis("share", -0.2, 1), "Parts of the disagreement", 0)
    if found:
        levels = [ChartRow(each.person, each.level, "people") for each in found]
        widths = [ChartRow(each.person, each.width, "people") for each in found]
        axis = Axis("own answers minus the others' to the same items", -reach / 2, reach / 2)
        charts["level"] = interval_plot(levels, axis, "Level by annotator", 0)
        axis = Axis("spread of the own answers as a share of the others'", 0, 2)
        charts["width"] = interval_plot(widths, axis, "Width by annotator", 1)
    return charts


def _item(standing: Standing, unit: Unit, apart: float) -> Disputed:
    """An item with everybody's answers, marks and comments, and its text."""
    target, against = unit
    item = next(each for each in standing.items if (each.target, each.against) == unit)
    mine = [each for each in standing.answers if (each.target, each.against) == unit]
    said = [each for each in mine if each.study == standing.study.name and not each.question.startswith(ISSUE)]
    here = [e for e in standing.first if e.target.conversation == target.conversation and e.question.startswith(ISSUE)]
    marks = [each for each in here if target.turn in (None, each.target.turn)]
    names = {each.by for each in said}
    return {
        "key": item.key, "conversation": target.conversation, "turn": target.turn, "apart": apart,
        "synthetic": target.conversation in standing.synthetic,
        "people": sorted(names),
        "answers": {q.id: {each.by: each.value for each in said if each.question == q.id} for q in standing.questions},
        "comments": [{"person": e.by, "question": e.question, "text": e.comment} for e in said if e.comment],
        "marks": [{"person": e.by, "kind": e.question.removeprefix(ISSUE), "turn": e.target.turn, "quote": e.quote}
                  for e in marks],
        "adjudicated": [{"person": e.by, "question": e.question, "value": e.value, "comment": e.comment}
                        for e in mine if e.study.endswith(f"/{ADJUDICATED}")],
        "sides": [_turns(side) for side in _sides(standing, item)],
    }  # fmt: skip


def _sides(standing: Standing, item: Item) -> list[Side]:
    targets = [item.target] if item.against is None else [item.target, item.against]
    found = {each.id: each for each in standing.study.project.store.conversations({t.conversation for t in targets})}
    return [side_of(found[target.conversation], target.turn, False) for target in targets]


def _turns(side: Side) -> list[dict[str, str | bool]]:
    return [{"role": turn.role, "text": turn.text, "rated": turn.is_rated} for turn in side.turns]


def _said(found: Mapping[str, Any]) -> str:
    """A figure that has become a mapping, in words."""
    return str(CountedEstimate(**found))
