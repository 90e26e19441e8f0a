"""The reading view (`/conversation/ID`): a transcript with everything that people, models and metrics said of it.

For leads alone. What takes long (what the evaluator in use expects of each person) is worked out in the background; all
else is what the store holds. Everything that a log, a model or a person wrote is text on the page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response
from markupsafe import Markup
from starlette.exceptions import HTTPException

from accord.charts import Axis, ChartRow, bar_chart, share_bars
from accord.edges import one_line_json, sendable, truncate_middle
from accord.live import Refused
from accord.project import Project
from accord.store import scores_of_conversation
from accord.studies import Expected, Guess, Passages, Perspectives, Used, excerpts, tool_calls_of
from accord.values import ISSUE, NON_SPEAKERS, SYNTHETIC, Annotation, Conversation, Estimate, Turn
from accord.web.context import WorkbenchContext, reading_address
from accord.web.pages.conversation_details import Answer, Found, Judgement, Place, Reading, reading_of
from accord.web.pages.rating_view import Finding, Piece, pieces

_BACK = re.compile(r"/board(?:[/?][\w\-.~!$&'()*+,;=:@/?%]*)?", re.ASCII)
"""Where a page may lead back to: the board of this server and nothing else."""
_NUMBER = re.compile(r"\d{1,9}", re.ASCII)
FOLDED = 400
"""Characters of an instruction or a tool's output that is not folded in."""
RUNS = 8
"""Runs whose scores are listed for each target, the latest first."""
PUSHES = 12
"""The weightiest attributions that are drawn."""
TEXTLESS = (
    "this conversation was scored live, and its text is not kept here; to read it, import its log under the same id: "
    "accord import chats.jsonl"
)


def add_routes(app: FastAPI, context: WorkbenchContext) -> None:
    """The routes of this part."""
    transcripts = _Transcripts(context)
    context.on_close.append(transcripts.perspectives.jobs.close)
    app.get("/conversation/{id:path}")(transcripts.page)


def way_back(back: str) -> str:
    """The page of the board to go back to; empty where the address names any other place.

    >>> way_back("/board/list?question=Q0"), way_back("//elsewhere.org/board"), way_back("/boards")
    ('/board/list?question=Q0', '', '')
    """
    return back if len(back) <= 4000 and _BACK.fullmatch(back) and "//" not in back.partition("?")[0] else ""


class _Transcripts:
    def __init__(self, context: WorkbenchContext) -> None:
        self.context = context
        self.perspectives = Perspectives(context.project)

    def page(self, id: str, request: Request, turn: str = "", back: str = "", open: str = "") -> Response:
        """A conversation; its data where `.json` stands behind its id."""
        visitor = self.context.visitor(request, "lead")
        reading, is_json = self._read(id)
        if reading is None:
            project = self.context.project
            if scores_of_conversation(project.store, project.mart, id.removesuffix(".json")):
                raise Refused(404, TEXTLESS)
            raise HTTPException(404)
        found = self.perspectives.of(reading.conversation)
        if is_json:
            # In ASCII: escapes carry what no encoding does, such as half of a surrogate pair.
            data = {**reading.to_json(), "expected": found.to_json()}
            return Response(json.dumps(data, default=str), media_type="application/json")
        chosen = int(turn) if _NUMBER.fullmatch(turn) and int(turn) < len(reading.conversation.turns) else None
        here = reading_address(reading.conversation.id, None, way_back(back))
        return self.context.page(
            "conversation", visitor, about=reading, blocks=list(_blocks(reading, found, self.context.project)),
            chosen=chosen, back=way_back(back), is_open=open == "all", here=here, whole=_whole(reading, found),
            documents=_documents(reading.conversation), expected=found, made=_made(reading.conversation),
            metadata=_metadata(reading.conversation), join="&" if "?" in here else "?",
        )  # fmt: skip

    def _read(self, id: str) -> tuple[Reading | None, bool]:
        """The conversation of an address, and whether its data are wanted: an id may end in `.json` itself."""
        project = self.context.project
        found = reading_of(project, id)
        if found is None and id.endswith(".json"):
            return reading_of(project, id.removesuffix(".json")), True
        return found, False


# --- what the template is told -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Excerpt:
    """A document as a turn uses it: its cuts, each as pieces in which what the turn repeats is marked."""

    number: int
    title: str
    is_cited: bool
    is_repeated: bool
    cuts: tuple[tuple[Piece, ...], ...]


@dataclass(frozen=True)
class Block:
    """A turn with all that stands below it. Numbers of marks and of findings go through the page.

    Attributes:
        place: Of the turn, from 0.
        role: Who speaks.
        by: The name and the time that the log has, where it has them.
        pieces: What is said, cut where quotes stand.
        start: The beginning of it, for the outline.
        is_folded: Whether it is an instruction, or a tool's long output.
        calls: What tools were called: names and arguments.
        more: What else the log kept of the turn, as JSON; may be empty.
        documents: Those that it uses.
        marks: People's, by number.
        found: Models', by number, with whom each is by and the score given with them.
        said: What is said of the turn as a whole.
    """

    place: int
    role: str
    by: str
    pieces: tuple[Piece, ...]
    start: str
    is_folded: bool
    calls: tuple[tuple[str, str], ...]
    more: str
    documents: tuple[Excerpt, ...]
    marks: tuple[tuple[int, Annotation, str], ...]
    found: tuple[tuple[Found, tuple[Finding, ...]], ...]
    said: SaidOf

    @property
    def issues(self) -> int:
        """How many issues people marked and models found in it."""
        return len(self.marks) + sum(len(findings) for _, findings in self.found)


@dataclass(frozen=True)
class SaidOf:
    """What is said of a turn, or of the conversation: answers, a judge's answers, scores, predictions, metrics."""

    answers: Sequence[Answer]
    judged: Sequence[tuple[Judgement, Markup]]
    scores: Sequence[Mapping[str, Any]]
    earlier: int
    expected: Mapping[str, Any] | None
    people: Sequence[tuple[str, Guess, Markup | None]]
    attributions: Markup | None
    metrics: Mapping[str, float]

    @property
    def is_any(self) -> bool:
        """Whether there is anything to show."""
        return bool(self.answers or self.judged or self.scores or self.expected or self.metrics)


def _blocks(reading: Reading, expected: Expected, project: Project) -> Iterator[Block]:
    conversation = reading.conversation
    passages, numbers, scores = Passages(conversation.documents), count(1), reading.scores()
    replies = {id(turn) for turn in conversation.replies}
    for place, turn in enumerate(conversation.turns):
        text = sendable(turn.content)
        marks = tuple((next(numbers), each, each.question.removeprefix(ISSUE)) for each in reading.marks.get(place, ()))
        found = tuple((each, _findings(each, reading, numbers)) for each in reading.found.get(place, ()))
        spans = [(each.span, number, False) for number, each, _ in marks if each.span]
        spans += [
            (issue.span, finding.number, True)
            for each, findings in found
            for issue, finding in zip(each.annotation.issues, findings, strict=True)
            if issue.span
        ]
        used = passages.used_by(turn) if id(turn) in replies else ()
        yield Block(
            place, turn.role, " · ".join(filter(None, (turn.name, turn.time))), tuple(pieces(text, spans)),
            _start(text), turn.role in NON_SPEAKERS and len(text) > FOLDED, _named_calls(turn),
            _more(turn), tuple(_excerpt(conversation, each) for each in used), marks, found,
            _said_of(reading, expected, place, scores),
        )  # fmt: skip


def _start(text: str) -> str:
    """The first words of a text, for one line."""
    words = " ".join(text[:200].split())
    return words if len(words) <= 90 else words[:89] + "…"


def _whole(reading: Reading, expected: Expected) -> SaidOf:
    return _said_of(reading, expected, None, reading.scores())


def _said_of(
    reading: Reading, expected: Expected, place: Place, scores: Mapping[Place, Sequence[Mapping[str, Any]]]
) -> SaidOf:
    judged = [(row, share_bars(row["shares"], row["question"])) for row in reading.judged.get(place, ())]
    people = [(name, row, _drawn(row, name)) for name, row in expected.people.get(place, {}).items()]
    mine, now = scores.get(place, ()), expected.scores.get(place)
    pushed = next((row["attributions"] for row in (now, *mine) if row and row.get("attributions")), None)
    drawn = None
    if pushed:
        largest = sorted(pushed.items(), key=lambda pair: -abs(pair[1]))[:PUSHES]
        rows = [ChartRow(name, Estimate(effect), "model" if effect >= 0 else "flagged") for name, effect in largest]
        drawn = bar_chart(rows, Axis("effect on the score"), "Effect of each input on the score")
    return SaidOf(
        reading.answers.get(place, ()), judged, mine[:RUNS], max(0, len(mine) - RUNS), now, people, drawn,
        expected.metrics.get(place, {}),
    )  # fmt: skip


def _drawn(row: Guess, name: str) -> Markup | None:
    return share_bars(row["distribution"], name) if "distribution" in row else None


def _findings(found: Found, reading: Reading, numbers: Iterator[int]) -> tuple[Finding, ...]:
    rows = []
    for issue in found.annotation.issues:
        kind = None if reading.kinds is None else reading.kinds.find(issue.type)
        definition = "" if kind is None else kind.definition
        rows.append(Finding(next(numbers), issue.type, definition, issue.comment, issue.quote, issue.is_made_up))
    return tuple(rows)


def _named_calls(turn: Turn) -> tuple[tuple[str, str], ...]:
    """Each tool call with its tool's name, where the log says it."""
    called = turn.extra.get("tool_calls")
    rows = called if isinstance(called, list | tuple) else [called]
    return tuple((_tool(row), sendable(text)) for row, text in zip(rows, tool_calls_of(turn), strict=False))


def _tool(row: Any) -> str:
    about = row.get("function", row) if isinstance(row, Mapping) else None
    name = about.get("name") if isinstance(about, Mapping) else None
    return truncate_middle(sendable(name), 80) if isinstance(name, str) else ""


def _more(turn: Turn) -> str:
    rest = {name: value for name, value in turn.extra.items() if name not in {"tool_calls", "documents"}}
    return sendable(json.dumps(rest, ensure_ascii=False, indent=1, default=str)) if rest else ""


def _excerpt(conversation: Conversation, used: Used) -> Excerpt:
    document = conversation.documents[used.number - 1]
    text = sendable(document.text)
    cuts = excerpts(text, used.spans) or [((0, min(len(text), FOLDED)), ())]
    shown = tuple(
        tuple(pieces(text[start:end], [((first - start, last - start), used.number, True) for first, last in inside]))
        for (start, end), inside in cuts
    )
    return Excerpt(used.number, sendable(document.title or ""), used.is_cited, bool(used.spans), shown)


def _documents(conversation: Conversation) -> list[tuple[int, str, str]]:
    return [
        (number, sendable(each.title or each.id or ""), sendable(each.text))
        for number, each in enumerate(conversation.documents, 1)
    ]


def _made(conversation: Conversation) -> list[tuple[str, str]]:
    """How a conversation that nobody held was made, as its metadata say."""
    about = conversation.metadata.get(SYNTHETIC)
    return [] if about is None else _lines(about if isinstance(about, Mapping) else {"made": about})


def _metadata(conversation: Conversation) -> list[tuple[str, str]]:
    return _lines({name: value for name, value in conversation.metadata.items() if name != SYNTHETIC})


def _lines(about: Mapping[str, Any]) -> list[tuple[str, str]]:
    found = []
    for name, value in about.items():
        text = value if isinstance(value, str) else json.dumps(one_line_json(value), ensure_ascii=False, default=str)
        found.append((sendable(str(name)), sendable(text)))
    return found
