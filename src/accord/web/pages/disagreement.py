"""Disagreement in a study: items that leads adjudicate, habits of annotators, and clauses to clarify."""

from __future__ import annotations

import csv
import io
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

from accord.charts import Axis, ChartRow, row_chart
from accord.edges import BadInput, escape_formula, one_line
from accord.results import Figure
from accord.store import Item
from accord.studies import (
    Adjudication,
    AnnotatorHabit,
    ConversationView,
    DisagreementParts,
    Dispute,
    StudyProgress,
    annotator_habits,
    conversation_view,
    decompose_disagreement,
    describe_parts,
    level_figures,
)  # fmt: skip
from accord.values import ISSUE, Question, Value
from accord.web.accounts import new_key
from accord.web.context import WorkbenchContext, add_page, is_json
from accord.web.pages.lead import agreement_sentences, disagreement_address, estimate_text, progress_of

MAX_ITEMS = 200
"""Number of items in the list of the page."""
MAX_WORDS = 120
MAX_OPTIONS = 12
"""Number of options above which an item's page lists only the given answers, and a field for another one."""
MAX_CELLS, MAX_CELL = 7, 6
"""Number of options, and length of an option, up to which the options of a question stand in one row."""
KEYS = {"guideline": "g", "slip": "s", "taste": "t", "broken": "b"}
"""Key of each reason."""
STATES = {"open": "open", "adjudicated": "adjudicated", "changed": "rated again since"}


def add_routes(app: FastAPI, context: WorkbenchContext) -> None:
    """Add the pages about disagreement and the form that adjudicates an item."""
    pages = _DisagreementPages(context)
    add_page(app, "/disagree", pages.studies)
    add_page(app, "/lead/{study}/disagree", pages.overview)
    app.get("/lead/{study}/disagree/next")(pages.next)
    add_page(app, "/lead/{study}/disagree/{item}", pages.item)
    app.get("/lead/{study}/clauses.csv")(pages.clauses_table)
    add_page(app, "/lead/{study}/clauses", pages.clauses)
    app.post("/lead/{study}/adjudicate")(pages.adjudicate)


class _DisagreementPages:
    def __init__(self, context: WorkbenchContext) -> None:
        self.context = context

    def studies(self, request: Request) -> Response:
        """Show the studies with their disputed items, or the page of the only study."""
        visitor, sessions = self.context.visitor(request, "lead"), self.context.sessions
        if len(sessions) == 1 and not is_json(request):
            return RedirectResponse(disagreement_address(next(iter(sessions))), 303)
        rows = []
        for name, session in sessions.items():
            try:
                queue = Adjudication(progress_of(self.context, name))
            except BadInput:
                continue  # its own page shows the error
            rows.append({"study": name, "title": session.title, "disputed": len(queue.disputes), "done": queue.done})
        return self.context.render_or_json(request, "disagreements", visitor, {"studies": rows})

    def overview(self, request: Request, study: str, question: str = "") -> Response:
        """Show the disputed items, of one question or all, and the habits of annotators."""
        visitor = self.context.visitor(request, "lead")
        progress = progress_of(self.context, study)
        selected = _question(progress, question or progress.main.id)
        parts, habits, others, summary = _habits_of(progress, selected)
        queue = Adjudication(progress)
        disputed = [each for each in queue.disputes if not question or question in each.disputed]
        shown = [
            *disputed,
            *(each for each in queue.differences if each not in disputed
              and (not question or question in {*each.sizes, *each.decisions})),
        ]  # fmt: skip
        words = _first_words(progress, [each.item for each in shown[:MAX_ITEMS]])
        items = [
            {**_row(progress, each, words), "is_disputed": place < len(disputed)}
            for place, each in enumerate(shown[:MAX_ITEMS])
        ]
        data = {
            "study": study, "title": progress.study.title, "question": selected.id, "text": selected.text,
            "summary": summary, "parts": None if parts is None else asdict(parts),
            "habits": [asdict(habit) for habit in habits], "items": items, "shown": len(items),
            "listed": len(disputed), "smaller": len(shown) - len(disputed),
            "done": sum(each.state == "adjudicated" for each in disputed), "clauses": len(queue.clauses()),
            "figures": [each.to_json() for each in (queue.figure(), *_figures(progress, selected, habits))],
        }  # fmt: skip
        return self.context.render_or_json(
            request, "disagreement", visitor, data, charts=habit_charts(selected, parts, habits), progress=progress,
            selected=question, estimate=estimate_text, others=others,
            states=STATES,
        )  # fmt: skip

    def next(self, request: Request, study: str, after: str = "") -> Response:
        """Redirect to the next item to adjudicate, or to the list when all are."""
        self.context.visitor(request, "lead")
        dispute = Adjudication(progress_of(self.context, study)).next(after)
        list_address, done = disagreement_address(study), request.query_params.get("done", "")
        address = list_address if dispute is None else f"{list_address}/{dispute.item.key}"
        return RedirectResponse(address + (f"?done={quote(done)}" if done else ""), 303)

    def item(self, request: Request, study: str, item: str) -> Response:
        """Show one disputed item with everybody's answers, and the form that adjudicates it."""
        visitor = self.context.visitor(request, "lead")
        progress = progress_of(self.context, study)
        queue = Adjudication(progress)
        dispute = queue.dispute(item)
        if dispute is None:
            raise HTTPException(404)
        listed = queue.disputes if dispute.disputed else queue.smaller
        keys, sides = [each.item.key for each in listed], _conversation_views(progress, dispute.item)
        place = keys.index(item)
        words = _first_words(progress, [dispute.item])
        data = {
            **_row(progress, dispute, words), "study": study, "title": progress.study.title, "place": place + 1,
            "total": len(keys), "done": sum(each.state == "adjudicated" for each in listed),
            "answers": {name: dict(e) for name, e in dispute.ratings.items()},
            "decisions": {name: asdict(each) for name, each in dispute.decisions.items()},
            "comments": _comments(progress, dispute.item), "marks": _marks(progress, dispute.item),
            "sides": [_turns_shown(view) for view in sides],
        }  # fmt: skip
        names = [*dispute.sizes, *(name for name in dispute.decisions if name not in dispute.sizes)]
        return self.context.render_or_json(
            request, "dispute", visitor, data, progress=progress, dispute=dispute, states=STATES, keys=KEYS,
            questions=[_question_view(_question(progress, name), dispute) for name in names],
            agreed=_agreed(progress, dispute), reasons=Adjudication.reasons, new_key=new_key,
            before=keys[place - 1] if place else "", after=keys[place + 1] if place + 1 < len(keys) else "",
            chosen=next((each.reason for each in dispute.decisions.values() if each.reason), ""),
            note=next((each.note for each in dispute.decisions.values() if each.note), ""),
        )  # fmt: skip

    def clauses(self, request: Request, study: str) -> Response:
        """Show the clauses of the rubric to clarify."""
        visitor = self.context.visitor(request, "lead")
        progress = progress_of(self.context, study)
        data = {"study": study, "title": progress.study.title, "clauses": Adjudication(progress).clauses()}
        return self.context.render_or_json(
            request, "clauses", visitor, data, progress=progress, reasons=Adjudication.reasons
        )

    def clauses_table(self, request: Request, study: str) -> Response:
        """Return the reasons and notes of all adjudications as CSV."""
        self.context.visitor(request, "lead")
        rows = Adjudication(progress_of(self.context, study)).clause_rows()
        text = io.StringIO()
        names = list(rows[0]) if rows else ["question", "conversation", "adjudicated", "reason", "note"]
        writer = csv.DictWriter(text, names)
        writer.writeheader()
        for row in rows:
            writer.writerow(
                {name: escape_formula(cell) if isinstance(cell, str) else cell for name, cell in row.items()}
            )
        headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(study, safe='')}-clauses.csv"}
        return Response(text.getvalue().encode(errors="replace"), media_type="text/csv", headers=headers)

    async def adjudicate(self, study: str, request: Request) -> Response:
        """Save the decisions on an item, or withdraw them."""
        visitor, fields = await self.context.read_form(request, "lead")
        address = await run_in_threadpool(self._adjudicate, study, visitor.person.name, fields)
        return RedirectResponse(address, 303)

    def _adjudicate(self, name: str, lead: str, fields: Mapping[str, Any]) -> str:
        progress = progress_of(self.context, name)
        key = str(fields.get("item", ""))[:64]
        progress.study.studies.adjudicate(Adjudication(progress).annotations(key, fields, lead))
        if fields.get("do") == "withdraw":
            return f"{disagreement_address(name)}?done=withdrawn"
        return f"{disagreement_address(name)}/next?after={quote(key)}&done=adjudicated"


# --- values of templates ---------------------------------------------------------------------------------------------


def _question(progress: StudyProgress, name: str) -> Question:
    question = next((each for each in progress.questions if each.id == name), None)
    if question is None:
        allowed = ", ".join(each.id for each in progress.questions)
        raise BadInput(f"question {name[:60]!r} is not part of this study; allowed: {allowed}")
    return question


def _habits_of(
    progress: StudyProgress, selected: Question
) -> tuple[DisagreementParts | None, list[AnnotatorHabit], list[str], str]:
    """Return the sources of the disagreement on a question, habits, the questions behind them, and all in words."""
    matrix = progress.matrices[selected.id]
    others = [
        other for name, other in progress.matrices.items() if name != selected.id and other.question.scale.is_ordered
    ]
    parts = decompose_disagreement(matrix)
    has_habits = selected.scale.is_ordered and len(matrix.units) > 0
    habits = list(annotator_habits(matrix, others)) if has_habits else []
    sentences = [agreement_sentences(progress, selected.id, habits), *([describe_parts(parts)] if parts else [])]
    return parts, habits, [other.question.id for other in others], " ".join(sentences)


def _figures(progress: StudyProgress, selected: Question, habits: Sequence[AnnotatorHabit]) -> list[Figure]:
    """Return the agreement on a question, and the level of each person."""
    alpha = next(row.alpha for row in progress.by_question if row.question == selected.id)
    return [alpha, *level_figures(habits, alpha.part)]


def _row(progress: StudyProgress, dispute: Dispute, words: Mapping[str, str]) -> dict[str, Any]:
    """Return a disputed item in a row: the user's words, the disputed questions, and its state."""
    target = dispute.item.target
    return {
        "key": dispute.item.key, "conversation": target.conversation, "turn": target.turn, "size": dispute.size,
        "words": words.get(target.conversation, ""), "synthetic": target.conversation in progress.synthetic,
        "people": len({person for given in dispute.ratings.values() for person in given}),
        "disputed": {name: _answers_apart(_question(progress, name), dispute) for name in dispute.sizes},
        "adjudicated": {name: each.value for name, each in dispute.decisions.items()}, "state": dispute.state,
    }  # fmt: skip


def _answers_apart(question: Question, dispute: Dispute) -> str:
    """Return the different answers in words, such as "1, 2, 4"."""
    given = {value for value in dispute.ratings.get(question.id, {}).values() if value is not None}
    options = [*question.scale.options, *sorted(given - {*question.scale.options}, key=str)]
    shown = [option for option in options if option in given]
    return ", ".join(f"{option:g}" if isinstance(option, float) else str(option) for option in shown)


def _question_view(question: Question, dispute: Dispute) -> dict[str, Any]:
    """Return a question with its options, and the people who chose each."""
    given, decision = dispute.ratings.get(question.id, {}), dispute.decisions.get(question.id)
    decided = None if decision is None else decision.value
    options: Sequence[Value] = question.scale.options
    is_listed = 0 < len(options) <= MAX_OPTIONS
    if not is_listed:
        chosen = {value for value in (*given.values(), decided) if value is not None}
        options = sorted(chosen, key=lambda value: (str(type(value)), value))
    is_short = len(options) <= MAX_CELLS and all(len(str(option)) <= MAX_CELL for option in options)
    return {
        "question": question, "options": _option_rows(question, options, given, decided), "is_listed": is_listed,
        "id": new_key(), "changed": decision is not None and decision.ratings != given,
        "is_row": is_listed and is_short, "last": dispute.last.get(question.id, ""), "none": _who(given, None),
        "decision": decision,
    }  # fmt: skip


def _option_rows(
    question: Question, options: Sequence[Value], given: Mapping[str, Value | None], decided: Value | None
) -> list[dict[str, Any]]:
    """Return each option with its key, its meaning, and the people who chose it."""
    has_digits = all(type(option) is int and 0 <= option <= 9 for option in options)
    return [
        {"value": option, "key": str(option) if has_digits else str(place) if place < 10 else "",
         "meaning": question.meanings.get(str(option), ""), "is_chosen": option == decided,
         "people": _who(given, option)}
        for place, option in enumerate(options, 1)
    ]  # fmt: skip


def _who(given: Mapping[str, Value | None], answer: Value | None) -> list[str]:
    """Return the people who gave an answer; None is "does not apply"."""
    return [name for name, value in sorted(given.items()) if value == answer]


def _agreed(progress: StudyProgress, dispute: Dispute) -> list[tuple[str, str]]:
    """Return the undisputed questions with their answers."""
    skipped = {*dispute.sizes, *dispute.decisions}
    return [
        (question.id, _answers_apart(question, dispute) or "does not apply")
        for question in progress.questions
        if question.id not in skipped and dispute.ratings.get(question.id)
    ]


def _comments(progress: StudyProgress, item: Item) -> list[dict[str, Any]]:
    return [
        {"person": each.by, "question": each.question, "text": each.comment}
        for each in progress.first
        if each.comment and (each.target, each.against) == (item.target, item.against)
        and not each.question.startswith(ISSUE)
    ]  # fmt: skip


def _marks(progress: StudyProgress, item: Item) -> list[dict[str, Any]]:
    """Return the marks of issues in a turn, or in all turns of a conversation."""
    return [
        {"person": e.by, "kind": e.question.removeprefix(ISSUE), "turn": e.target.turn, "quote": e.quote}
        for e in progress.first
        if e.question.startswith(ISSUE)
        and e.target.conversation == item.target.conversation
        and item.target.turn in (None, e.target.turn)
    ]


def _first_words(progress: StudyProgress, items: Sequence[Item]) -> dict[str, str]:
    """Return the first words of the user in each conversation."""
    names = {item.target.conversation for item in items}
    words = {}
    for each in progress.study.project.store.conversations(names) if names else ():
        turn = next((turn for turn in each.turns if turn.role == "user"), None) or next(iter(each.turns), None)
        text = "" if turn is None else one_line(turn.content)
        words[each.id] = text if len(text) <= MAX_WORDS else f"{text[: MAX_WORDS - 1].rstrip()}…"
    return words


def _turns_shown(view: ConversationView) -> list[dict[str, Any]]:
    return [
        {"role": turn.role, "text": turn.text, "rated": turn.is_rated, "calls": list(turn.calls)} for turn in view.turns
    ]


def _conversation_views(progress: StudyProgress, item: Item) -> list[ConversationView]:
    targets = [item.target] if item.against is None else [item.target, item.against]
    names = {target.conversation for target in targets}
    conversations = {each.id: each for each in progress.study.project.store.conversations(names)}
    known = [target for target in targets if target.conversation in conversations]
    return [conversation_view(conversations[target.conversation], target.turn, False) for target in known]


def habit_charts(
    question: Question, parts: DisagreementParts | None, habits: Sequence[AnnotatorHabit]
) -> dict[str, Markup | None]:
    """Draw the sources of the disagreement, and the level and the width of each annotator, on axes that hold them."""
    charts: dict[str, Markup | None] = {"parts": None, "level": None, "width": None}
    if parts is not None:
        names = {"level": "Strictness", "width": "Use of the scale", "residual": "Conversations"}
        rows = [ChartRow(text, getattr(parts, name), "people") for name, text in names.items()]
        charts["parts"] = row_chart(rows, Axis("", 0, 1), "Sources of the disagreement")
    if habits:
        levels = [ChartRow(habit.person, habit.level, "people") for habit in habits]
        widths = [ChartRow(habit.person, habit.width, "people") for habit in habits]
        step = question.scale.length / 8
        ends = [end for row in levels for end in (row.estimate.value, row.estimate.low, row.estimate.high) if end]
        reach = max(math.ceil(max(map(abs, ends), default=0) / step), 1) * step
        axis = Axis("points", -reach, reach)
        charts["level"] = row_chart(levels, axis, "Stricter or more lenient than the others", is_signed=True)
        charts["width"] = row_chart(widths, Axis("", 0, 2), "Use of the scale compared with the others")
    return charts
