"""Conversation page: a transcript with answers, issues, scores, predictions and metrics, for leads.

Predictions of the evaluator in use are computed in the background. Everything else comes from the store. Texts of logs,
models and people are always escaped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any
from urllib.parse import parse_qs

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse, Response
from markupsafe import Markup
from starlette.exceptions import HTTPException

from accord.board import PAGE, BoardFilters, opening_words
from accord.charts import Axis, ChartRow, row_chart, share_bars
from accord.edges import AccordError, BadInput, count_of, one_line_json, parse_whole_number, sendable
from accord.learning import CARD
from accord.live import Refused
from accord.project import correct_issue, undo_correction
from accord.store import Erasures, scores_of_conversation
from accord.studies import (
    CitationFinder,
    ConversationPredictions,
    DocumentUse,
    PredictionService,
    excerpts,
    text_field,
    tool_calls_of,
)  # fmt: skip
from accord.values import ISSUE, SYNTHETIC, Annotation, Conversation, Estimate, Rubric, Target, Turn
from accord.web.accounts import new_key
from accord.web.context import WorkbenchContext, conversation_address, saved_time
from accord.web.pages.conversation_details import (
    ConversationDetails,
    Place,
    load_details,
)
from accord.web.pages.rating_view import issue_views, numbered_spans, user_words
from accord.web.transcript import turn_content
from accord.web.turn_text import render_text

_BACK = re.compile(r"/(?:board|explore|lead/[\w\-.~%]+/items)(?:[/?][\w\-.~!$&'()*+,;=:@/?%]*)?", re.ASCII)
"""Addresses that the "back" link may have: the board, and lists of conversations."""
_NUMBER = re.compile(r"\d{1,9}", re.ASCII)
MAX_UNFOLDED = 400
"""Length of an instruction or tool output, in characters, above which it is folded."""
_METADATA_NAMES = {"system": "Assistant version"}
"""Names of metadata on the page that differ from the names in logs."""
MAX_RUNS = 8
MAX_ATTRIBUTIONS = 12
MAX_PREDICTED = 6
"""Number of people whose predicted ratings are drawn for a conversation without ratings."""
NOT_STORED = (
    "this conversation has scores, but the store does not have its text: it was scored live or from a file; to read "
    "it, import its log with the same id: accord import chats.jsonl"
)

ONLY_SCORES = "this conversation was erased, and only its scores were kept, under a pseudonym"
_PSEUDONYM = re.compile(r"erased-[0-9a-f]{16}", re.ASCII)


def add_routes(app: FastAPI, context: WorkbenchContext) -> None:
    """Add the conversation page."""
    page = _ConversationPage(context)
    context.on_close.append(page.predictions.jobs.close)
    app.get("/conversation/{id:path}")(page.show)
    app.post("/correct-issue")(page.correct)


def back_address(back: str) -> str:
    """Return the address if it is one of the board of this server; else an empty string.

    >>> back_address("/board/list?question=Q0"), back_address("//elsewhere.org/board"), back_address("/boards")
    ('/board/list?question=Q0', '', '')
    """
    return back if len(back) <= 4000 and _BACK.fullmatch(back) and "//" not in back.partition("?")[0] else ""


class _ConversationPage:
    def __init__(self, context: WorkbenchContext) -> None:
        self.context = context
        self.predictions = PredictionService(context.project)

    def show(self, id: str, request: Request, turn: str = "", back: str = "", open: str = "") -> Response:
        """Show a conversation, or return its data if `.json` follows the id."""
        visitor = self.context.visitor(request, "lead")
        details, is_json = self._load(id)
        if details is None:
            raise self._missing(id)
        conversation = details.conversation
        predictions = self.predictions.predict(conversation)
        if is_json:
            # ASCII: escapes can carry invalid Unicode, such as half of a surrogate pair.
            return Response(json.dumps(details.to_json(predictions), default=str), media_type="application/json")
        card = self.predictions.folder / CARD
        chosen = int(turn) if _NUMBER.fullmatch(turn) and int(turn) < len(conversation.turns) else None
        here, metadata = conversation_address(conversation.id, None, back_address(back)), conversation.metadata
        origin = metadata.get(SYNTHETIC, {})  # how a synthetic conversation was made
        shown = {
            name: value for name, value in metadata.items() if name != SYNTHETIC and value not in ("", None, [], {})
        }
        [words] = user_words([conversation], [Target(conversation.id)]).values()
        near = self._neighbors(back_address(back), conversation.id, chosen)
        return self.context.render(
            "conversation", visitor, conversation=conversation, turns=list(_turns(details, predictions)),
            chosen=chosen, back=back_address(back), is_open=open == "all", here=here,
            trained=_trained(details, predictions), saved=saved_time(card) if card.is_file() else "",
            whole=_place_details(details, predictions, None, details.scores()), documents=_documents(conversation),
            predictions=predictions, origin=_text_pairs(origin if isinstance(origin, Mapping) else {"origin": origin}),
            metadata=_text_pairs({_METADATA_NAMES.get(name, name): value for name, value in shown.items()}),
            words=words, kept=_kept_score(details, predictions), near=near,
            join="&" if "?" in here else "?", kinds=details.kinds.names if details.kinds else (),
        )  # fmt: skip

    def _neighbors(self, back: str, name: str, turn: int | None) -> dict[str, str]:
        """Return the pages before and after this conversation in the list of `back`, and its place there."""
        none = {"earlier": "", "later": "", "place_in_list": ""}
        path, _, query = back.partition("?")
        if path not in ("/board", "/board/list"):
            return none
        try:
            selection = BoardFilters.from_query(query, ("page", "back"))
            number = parse_whole_number(parse_qs(query).get("page", ["1"])[-1]) or 1
            found = self.context.board.page(selection, number)
        except AccordError:
            return none
        rows = [] if found is None else list(found[1].rows)
        at = next((at for at, row in enumerate(rows) if row.conversation == name and turn in (None, row.turn)), None)
        if found is None or at is None:
            return none
        address = [conversation_address(row.conversation, row.turn, back) for row in rows]
        return {
            "earlier": address[at - 1] if at else "", "later": address[at + 1] if at + 1 < len(rows) else "",
            "place_in_list": f"{(found[1].number - 1) * PAGE + at + 1:,} of {found[1].total:,}",
        }  # fmt: skip

    def _missing(self, id: str) -> Exception:
        """Return the error for a conversation without a text: it was erased, or only scored, or does not exist."""
        project = self.context.project
        for name in dict.fromkeys((id, id.removesuffix(".json"))):
            if erased := self.context.erased(name):
                return Refused(404, erased)
            if _PSEUDONYM.fullmatch(name) and name.removeprefix("erased-") in Erasures(project.store).hashes():
                return Refused(404, ONLY_SCORES)
            if scores_of_conversation(project.store, project.mart, name):
                return Refused(404, NOT_STORED)
        return HTTPException(404)

    async def correct(self, request: Request) -> Response:
        """Give another kind to an issue that a model found, remove it, or undo the lead's own correction."""
        visitor, fields = await self.context.read_form(request, "lead")
        address = await run_in_threadpool(self._correct, visitor.person.name, fields)
        return RedirectResponse(address, 303)

    def _correct(self, person: str, fields: Mapping[str, Any]) -> str:
        texts = {name: text_field(fields, name, 2000) for name in ("conversation", "turn", "signature", "seen", "part")}
        details = load_details(self.context.project, texts["conversation"])
        places = [parse_whole_number(texts[name]) for name in ("turn", "part")]
        turn, part = (-1 if place is None else place for place in places)
        maker = (texts["signature"], texts["seen"])
        found = next(
            (each.annotation for each in (details.issues.get(turn, ()) if details else ())
             if (each.annotation.signature, each.annotation.said) == maker),
            None,
        )  # fmt: skip
        if details is None or details.kinds is None or found is None:
            raise BadInput("the store has no such issue; reload the page")
        store, id, action = self.context.project.store, text_field(fields, "id", 50), fields.get("do")
        if action == "undo":
            undo_correction(store, found, part, person)
        elif action not in ("move", "remove") or len(id) < 16:
            raise BadInput("the form is incomplete; reload the page")
        else:
            kind = text_field(fields, "kind", 100) if action == "move" else None
            correct_issue(store, found, part, person, id, details.kinds, kind)
        return conversation_address(details.conversation.id, turn, back_address(text_field(fields, "back", 4000)))

    def _load(self, id: str) -> tuple[ConversationDetails | None, bool]:
        """Return the conversation of an address, and True if its JSON is requested; an id may end in `.json`."""
        project = self.context.project
        details = load_details(project, id)
        if details is None and id.endswith(".json"):
            return load_details(project, id.removesuffix(".json")), True
        return details, False


# --- values of the template -----------------------------------------------------------------------------------------


def _trained(details: ConversationDetails, predictions: ConversationPredictions) -> list[str]:
    """Return the evaluators that learned from the conversation: the one in use, or the evaluators of saved scores."""
    if any(row.get("in_training") for row in predictions.scores.values()):
        return [predictions.evaluator.rpartition(" ")[0]]
    runs = [run for run in details.runs if any(row["in_training"] for row in run.rows)]
    return list(dict.fromkeys(f"{run.evaluator or run.command} ({run.started[:10]})" for run in runs))


def _kept_score(details: ConversationDetails, predictions: ConversationPredictions) -> Mapping[str, Any] | None:
    """Return the latest saved score of the whole conversation, unless a prediction is ready."""
    rows = () if predictions.state == "ready" else details.scores().get(None, ())
    return next((row for row in rows if row.get("value") is not None), None)


def _turns(details: ConversationDetails, predictions: ConversationPredictions) -> Iterator[dict[str, Any]]:
    """Yield each turn with its details; marks and issues are numbered through the page."""
    conversation = details.conversation
    citations, numbers, scores = CitationFinder(conversation.documents), count(1), details.scores()
    replies = {id(turn) for turn in conversation.replies}
    for place, turn in enumerate(conversation.turns):
        text = sendable(turn.content)
        marks = [(next(numbers), mark, mark.question.removeprefix(ISSUE)) for mark in details.marks.get(place, ())]
        spans, issues = [(mark.span, number, False) for number, mark, _ in marks if mark.span], []
        for found in details.issues.get(place, ()):
            views = issue_views(found.annotation.issues, details.kinds, numbers)
            for part, view in enumerate(views, 1):
                view |= _correction_view(found.corrections.get(part))
            issues.append((found, views))
            spans += numbered_spans(found.annotation.issues, views, True)
        uses = citations.uses(turn) if id(turn) in replies else ()
        remaining = sum(not view["is_removed"] for _, views in issues for view in views)
        calls = [sendable(call) for call in tool_calls_of(turn)]
        content = turn_content(turn.role, text, calls, spans, len(conversation.documents))
        if len(text) <= MAX_UNFOLDED:
            content["folded"] = ""
        yield {
            **content, "place": place, "role": turn.role, "by": " · ".join(filter(None, (turn.name, turn.time))),
            "start": opening_words(text),
            "more": _other_fields(turn), "documents": [_excerpt(conversation, use) for use in uses], "marks": marks,
            "issues": issues, "issue_count": len(marks) + remaining,
            "details": _place_details(details, predictions, place, scores),
        }  # fmt: skip


def _correction_view(correction: Annotation | None) -> dict[str, Any]:
    is_removed = correction is not None and correction.value != 1
    moved_to = "" if correction is None or is_removed else correction.question.removeprefix(ISSUE)
    return {"correction": correction, "is_removed": is_removed, "moved_to": moved_to, "key": new_key()}


def _place_details(
    details: ConversationDetails,
    predictions: ConversationPredictions,
    place: Place,
    scores: Mapping[Place, Sequence[Mapping[str, Any]]],
) -> dict[str, Any]:
    """Return the details of a turn or of the whole conversation; `earlier` runs are not listed."""
    rubric = details.rubric
    questions = [_question_view(row, rubric) for row in details.questions(place, predictions)]
    rows, prediction = scores.get(place, ()), predictions.scores.get(place)
    attributions = next((row["attributions"] for row in (prediction, *rows) if row and row.get("attributions")), None)
    values = {
        "questions": questions, "others": [row for row in questions if not row["is_listed"]],
        "ratings": sum(len(row["ratings"]) for row in questions), "prediction": prediction,
        "scores": rows[:MAX_RUNS], "earlier": max(0, len(rows) - MAX_RUNS),
        "attributions": _attribution_chart(attributions, rubric) if attributions else None,
        "metrics": predictions.metrics.get(place, {}),
    }  # fmt: skip
    return {**values, "is_any": any(values[name] for name in ("questions", "scores", "metrics"))}


def _question_view(row: Mapping[str, Any], rubric: Rubric) -> dict[str, Any]:
    """Return a question with charts of distributions, and counts of the folded answers."""
    people = [
        (name, each, share_bars(each["distribution"], name) if "distribution" in each else None)
        for name, each in row["predicted_ratings"].items()
    ]
    judge = [
        (
            "" if each["expected"] is None else f"{each['expected']:.3g}",
            ", ".join(filter(None, (each["by"], each["mode"]))),
            share_bars(each["shares"], rubric.shown(row["question"])),
        )
        for each in row["judge"]
    ]
    ratings = row["ratings"]
    numbers = {"predicted": (row["prediction"] or {}).get("value"), "rated": row["mean"],
               "judge": next((each["expected"] for each in row["judge"]), None)}  # fmt: skip
    figures = " · ".join(f"{name} {value:.3g}" for name, value in numbers.items() if value is not None)
    is_listed = bool(row["text"] or row["prediction"] or ratings)  # answers of a judge alone need no fold each
    ranges = _ranges(row, rubric) if row["is_main"] else None
    return {**row, "predicted_ratings": people, "judge": judge, "notes": _folded_notes(ratings), "figures": figures,
            "is_listed": is_listed, "ranges": ranges}  # fmt: skip


def _ranges(row: Mapping[str, Any], rubric: Rubric) -> Markup | None:
    """Draw the prediction with its interval above people's ratings. Return `None` if answers are not numbers."""
    question, predicted = rubric.get(row["question"]), row["prediction"] or {}
    ratings = [each for each in row["ratings"] if isinstance(each["value"], int | float) and not each["against"]]
    if question is None or not question.scale.is_ordered or len(ratings) < len(row["ratings"]):
        return None
    rows = [ChartRow(sendable(each["person"]), Estimate(float(each["value"])), "people") for each in ratings]
    if len(ratings) > 1 and len({each["value"] for each in ratings}) == 1:
        rows = [ChartRow(f"{len(ratings)} people", rows[0].estimate, "people")]
    elif len(ratings) > 1 and row["mean"] is not None:
        rows.insert(0, ChartRow("Mean of people", Estimate(row["mean"]), "people"))
    if predicted.get("value") is not None:
        rows.insert(0, ChartRow("Evaluator", Estimate(predicted["value"], predicted["low"], predicted["high"])))
    low, high = question.scale.numbers[0], question.scale.numbers[-1]
    people = [] if predicted.get("value") is None else [
        ChartRow(sendable(person), Estimate(each["value"], each["low"], each["high"]))
        for person, each in list(row["predicted_ratings"].items())[:MAX_PREDICTED]
        if each.get("value") is not None and not ratings
    ]  # fmt: skip
    if people:
        rows[0] = replace(rows[0], label="A new person")
    return row_chart([*rows, *people], Axis("", low, high), f"{question.shown}: evaluator and people") if rows else None


def _folded_notes(ratings: Sequence[Mapping[str, Any]]) -> str:
    """Return the numbers of comments and corrections of ratings; without any, "times" if something else is folded."""
    counts = {
        "comment": sum(bool(each["comment"]) for each in ratings),
        "correction": sum(len(each["history"]) for each in ratings),
    }
    notes = ", ".join(count_of(count, noun) for noun, count in counts.items() if count)
    has_more = any(each["time"] or each["study"] or each["against"] for each in ratings)
    return notes or ("times" if has_more else "")


def _attribution_chart(attributions: Mapping[str, float], rubric: Rubric) -> Markup:
    largest = sorted(attributions.items(), key=lambda pair: -abs(pair[1]))[:MAX_ATTRIBUTIONS]
    rows = [
        ChartRow(rubric.shown(name), Estimate(effect), "tool" if effect >= 0 else "neutral") for name, effect in largest
    ]
    return row_chart(rows, Axis("effect on the score"), "Effect of each input on the score", is_bars=True)


def _other_fields(turn: Turn) -> str:
    rest = {name: value for name, value in turn.extra.items() if name not in {"tool_calls", "documents"}}
    return sendable(json.dumps(rest, ensure_ascii=False, indent=1, default=str)) if rest else ""


def _excerpt(conversation: Conversation, use: DocumentUse) -> dict[str, Any]:
    """Return the parts of a document that a turn uses, with repeated passages marked."""
    document = conversation.documents[use.number - 1]
    text = sendable(document.text)
    cuts = excerpts(text, use.spans) or [((0, min(len(text), MAX_UNFOLDED)), ())]
    parts = [
        render_text(text[start:end], [((a - start, b - start), use.number, True) for a, b in inside])
        for (start, end), inside in cuts
    ]
    return {"number": use.number, "title": sendable(document.title or ""), "is_cited": use.is_cited,
            "is_repeated": bool(use.spans), "parts": parts}  # fmt: skip


def _documents(conversation: Conversation) -> list[tuple[int, str, str]]:
    return [
        (number, sendable(document.title or document.id or ""), sendable(document.text))
        for number, document in enumerate(conversation.documents, 1)
    ]


def _text_pairs(fields: Mapping[str, Any]) -> list[tuple[str, str]]:
    pairs = []
    for name, value in fields.items():
        text = value if isinstance(value, str) else json.dumps(one_line_json(value), ensure_ascii=False, default=str)
        pairs.append((sendable(str(name)), sendable(text)))
    return pairs
