"""Files of new users in eight kinds and thirteen forms, with the reading and the verdict that are expected."""

from __future__ import annotations

import csv
import io
import json
import random
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from accord import Project

COUNT = 48
Cells = list[list[Any]]


@dataclass(frozen=True)
class Kind:
    """Files of one kind and their expected reading.

    Attributes:
        name: Short name.
        write: Writes the files into a folder.
        chats: Files of conversations.
        labels: File of ratings.
        people: Ratings by person.
        judges: Answers by judge.
        replies: Replies of the assistant in each conversation.
        scored: Rows of the scores of all conversations.
        systems: Versions of the assistant.
        in_python: True if the files are read as data frames in Python.
        questions: Names of the questions; `None` for a single question of any name.
        options: Options of `accord run`.
        documents: True if each conversation has documents.
        is_pairs: True if the ratings are preferences between two responses.
    """

    name: str
    write: Callable[[Path], None]
    chats: tuple[str, ...]
    labels: str
    people: Mapping[str, int]
    judges: Mapping[str, int] = field(default_factory=dict)
    replies: int = 1
    scored: int = COUNT
    systems: frozenset[str] = frozenset()
    in_python: bool = False
    questions: frozenset[str] | None = None
    options: tuple[str, ...] = ()
    documents: bool = False
    is_pairs: bool = False


TOPICS = ("order", "refund", "invoice", "password", "delivery", "warranty", "booking", "contract")


def _asked(i: int) -> str:
    return f"Where is my {TOPICS[i % 8]} number {100 + i}?"


def _reply(i: int) -> str:
    topic = TOPICS[i % 8]
    return (
        "I do not know.",
        f"Please wait for your {topic}.",
        f"Your {topic} number {100 + i} arrives on Monday, and we sent you an email.",
        f"Your {topic} number {100 + i} arrives on Monday at nine. We sent you an email with all of the details, and "
        "you can call us at any time if it is late.",
    )[i % 4]


def _rating(i: int, who: int = 0) -> int:
    """Return a rating from 1 to 5 that follows the reply; annotators differ by up to a point."""
    rng = random.Random(f"{i} {who}")
    return max(1, min(5, i % 4 + 1 + (rng.random() < 0.4) + (0, 1, -1)[who]))


def _messages(i: int) -> list[dict[str, Any]]:
    return [{"role": "user", "content": _asked(i)}, {"role": "assistant", "content": _reply(i)}]


def _jsonl(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _csv(path: Path, rows: Cells, encoding: str = "utf-8", delimiter: str = ",") -> None:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter).writerows(rows)
    path.write_bytes(text.getvalue().encode(encoding))


def _chats(folder: Path) -> None:
    _jsonl(folder / "chats.jsonl", [{"id": f"c{i:03d}", "messages": _messages(i)} for i in range(COUNT)])


def _one_annotator(folder: Path) -> None:
    _chats(folder)
    _csv(folder / "ratings.csv", [["id", "rating"], *([f"c{i:03d}", _rating(i)] for i in range(COUNT))])


def _excel(folder: Path) -> None:
    _chats(folder)
    rows = [
        [f"c{i:03d}", name, _rating(i, who), "fine"] for i in range(COUNT) for who, name in enumerate(("Nora", "Ben"))
    ]
    workbook(str(folder / "ratings.xlsx"), [["Conversation ID", "Rater", "Helpfulness", "Comment"], *rows])


def _completions(folder: Path) -> None:
    rows = []
    for i in range(COUNT):
        asked, reply = _messages(i)
        log = {"id": f"chatcmpl-{i:03d}", "model": ("gpt-4o-mini", "gpt-4o")[i % 2], "created": 1_700_000_000 + 60 * i}
        choice = {"index": 0, "message": reply, "finish_reason": "stop"}
        rows.append({**log, "messages": [asked], "choices": [choice], "usage": {"total_tokens": 50 + i}})
    _jsonl(folder / "log.jsonl", rows)
    ratings = [[f"chatcmpl-{i:03d}", "nora", _rating(i)] for i in range(COUNT)]
    _csv(folder / "ratings.csv", [["id", "annotator", "rating"], *ratings])


def _german(folder: Path) -> None:
    chats: Cells = [["Gespräch", "Rolle", "Text", "Version"]]
    for i in range(COUNT):
        chats += [[f"g{i}", "Kunde", f"Grüße! {_asked(i)}", "v1"], [f"g{i}", "Bot", f"{_reply(i)} Für 5 €.", "v1"]]
    _csv(folder / "gespräche.csv", chats, "cp1252", ";")
    ratings = [[f"g{i}", name, _rating(i, who)] for i in range(COUNT) for who, name in enumerate(("Jürgen", "Käthe"))]
    _csv(folder / "bewertungen.csv", [["Gespräch", "Prüfer", "Bewertung"], *ratings], "cp1252", ";")


def _texts(folder: Path) -> None:
    for i in range(COUNT):
        (folder / f"chat{i:03d}.txt").write_text(f"Customer: Grüße! {_asked(i)}\nAgent: {_reply(i)}\n", "utf-8")
    ratings = [[f"chat{i:03d}.txt", "Nora", _rating(i)] for i in range(COUNT)]
    _csv(folder / "ratings.csv", [["File", "Rated by", "Score"], *ratings], "utf-16", "\t")


def _turns(folder: Path) -> None:
    chats, ratings = [], []
    for i in range(COUNT // 2):
        messages = [*_messages(i), *_messages(i + 1)]
        for turn in (1, 3):
            messages[turn]["documents"] = [f"Handbook: a {TOPICS[i % 8]} arrives on Monday.", "Calls are free."]
            ratings += [[f"r{i}", turn, name, _rating(i + turn // 2, who)] for who, name in enumerate(("nora", "ben"))]
        chats.append({"id": f"r{i}", "messages": messages})
    _jsonl(folder / "rag.jsonl", chats)
    _csv(folder / "ratings.csv", [["conversation_id", "turn", "annotator", "faithful"], *ratings])


def _wide(folder: Path) -> None:
    rows = [
        [f"w{i}", _asked(i), _reply(i), _rating(i), _rating(i, 1) if i % 3 else "", _rating(i, 2)] for i in range(COUNT)
    ]
    _csv(folder / "all.csv", [["id", "prompt", "response", "nora", "ben", "gpt4_score"], *rows])


_NORA_AND_BEN = {"nora": COUNT, "ben": COUNT}
KINDS = (
    Kind("JSON lines and ratings of one annotator", _one_annotator, ("chats.jsonl",), "ratings.csv", {"unnamed": COUNT}),
    Kind("Excel ratings of two annotators", _excel, ("chats.jsonl",), "ratings.xlsx", {"Nora": COUNT, "Ben": COUNT}),
    Kind(
        "log of chat completions", _completions, ("log.jsonl",), "ratings.csv", {"nora": COUNT},
        systems=frozenset({"gpt-4o", "gpt-4o-mini"}),
    ),
    Kind(
        "German tables in Windows-1252", _german, ("gespräche.csv",), "bewertungen.csv",
        {"Jürgen": COUNT, "Käthe": COUNT}, systems=frozenset({"v1"}),
    ),
    Kind(
        "text files and ratings in UTF-16", _texts, tuple(f"chat{i:03d}.txt" for i in range(COUNT)), "ratings.csv",
        {"Nora": COUNT},
    ),
    Kind("ratings of turns with documents", _turns, ("rag.jsonl",), "ratings.csv", _NORA_AND_BEN, replies=2),
    Kind(
        "a table with a judge's column", _wide, ("all.csv",), "all.csv",
        {"nora": COUNT, "ben": COUNT - COUNT // 3}, {"gpt4": COUNT},
    ),
    Kind("data frames in Python", _one_annotator, ("chats.jsonl",), "ratings.csv", {"unnamed": COUNT}, in_python=True),
)  # fmt: skip
"""Files of 48 ratings per person; data frames have the files of the first kind."""


# --- forms of own files -------------------------------------------------------------------------------------------

MANY = 96
"""Conversations of a form."""
START = 1_780_214_400


def _good(i: int, who: int = 0) -> bool:
    """Return True if a person likes a reply: the two better replies of four, with an error in one of ten."""
    return (i % 4 >= 2) != (random.Random(f"good {i} {who}").random() < 0.1)


def _version(i: int) -> str:
    """Return the version of the assistant; the one of the better replies is 2.0 more often."""
    return "2.0" if (i % 4 >= 2) != (i % 3 == 0) else "1.0"


def _iso(i: int, second: int = 0) -> str:
    return datetime.fromtimestamp(START + 3600 * i + second, UTC).isoformat().replace("+00:00", "Z")


def _write_json(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")


def _zendesk(folder: Path) -> None:
    rows = []
    for i in range(MANY):
        customer, agent = 20_000 + i, 900 + i % 2
        comments = [
            {"id": 10 * i, "author_id": customer, "plain_body": _asked(i), "public": True, "created_at": _iso(i)},
            {"id": 10 * i + 1, "author_id": agent, "plain_body": "Look at the carrier.", "public": False},
            {
                "id": 10 * i + 2, "author_id": agent, "html_body": f"<p>{_reply(i)}</p>", "public": True,
                "created_at": _iso(i, 60),
            },
        ]  # fmt: skip
        score = "good" if _good(i) else "bad"
        ticket = {"id": 35_000 + i, "created_at": _iso(i), "subject": _asked(i), "status": "solved"}
        ticket |= {"requester_id": customer, "submitter_id": customer, "comments": comments}
        rows.append({**ticket, "satisfaction_rating": {"id": i, "score": score, "created_at": _iso(i, 600)}})
    _jsonl(folder / "tickets.jsonl", rows)


def _intercom(folder: Path) -> None:
    chats = []
    for i in range(MANY):
        customer = {"type": "user", "id": f"u{i:03d}", "name": f"Customer {i}"}
        reply = {"type": "conversation_part", "id": f"p{i}", "part_type": "comment", "body": f"<p>{_reply(i)}</p>"}
        closed = {"type": "conversation_part", "id": f"q{i}", "part_type": "close", "body": None}
        bot = {"type": "bot", "id": "77", "name": "Fin"}
        parts = [{**reply, "author": bot, "created_at": START + 60}, {**closed, "author": bot}]
        rating = {"rating": _rating(i), "remark": "", "created_at": START + 90, "contact": {"id": f"u{i:03d}"}}
        chats.append(
            {
                "type": "conversation", "id": str(500 + i), "created_at": START + 3600 * i,
                "source": {"type": "conversation", "body": f"<p>{_asked(i)}</p>", "author": customer},
                "contacts": {"type": "contact.list", "contacts": [{"type": "contact", "id": f"u{i:03d}"}]},
                "custom_attributes": {"app_version": _version(i)}, "conversation_rating": rating,
                "conversation_parts": {"type": "conversation_part.list", "conversation_parts": parts},
            }
        )  # fmt: skip
    content = {"type": "conversation.list", "total_count": MANY, "conversations": chats}
    _write_json(folder / "conversations.json", content)


def _slack(folder: Path) -> None:
    days: dict[str, list[Any]] = {}
    for i in range(MANY):
        thread = f"{START + 3600 * i}.000100"
        asked = {"type": "message", "user": f"U{i % 7}", "text": _asked(i), "ts": thread, "thread_ts": thread}
        reactions = []
        for name, is_up in (("+1", True), ("-1", False)):
            users = [user for who, user in enumerate(("UANNA", "UBEN")) if _good(i, who) == is_up]
            reactions += [{"name": name, "users": users, "count": len(users)}] if users else []
        reply: dict[str, Any] = {"type": "message", "subtype": "bot_message", "bot_id": "B1", "username": "helpbot"}
        reply |= {"text": _reply(i)}
        reply |= {"ts": f"{START + 3600 * i + 5}.000200", "thread_ts": thread, "reactions": reactions}
        days.setdefault(_iso(i)[:10], []).extend([asked, reply])
    for day, messages in days.items():
        _write_json(folder / "support-bot" / f"{day}.json", messages)
    _write_json(folder / "users.json", [{"id": f"U{n}", "name": f"user{n}"} for n in range(7)])
    _write_json(folder / "channels.json", [{"id": "C1", "name": "support-bot"}])


def _whatsapp(folder: Path) -> None:
    lines = []
    for i in range(MANY):
        day = f"{1 + i % 28:02d}/06/2026"
        lines = [
            f"{day}, 10:01 - Messages and calls are end-to-end encrypted.",
            f"{day}, 10:02 - Customer {i}: {_asked(i)}", f"{day}, 10:03 - Shop Bot: {_reply(i)}",
        ]  # fmt: skip
        (folder / f"chat{i:03d}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    rows: Cells = [["Ratings of June"], ["File", "Nora", None, "Ben", None]]
    rows.append([None, "Helpfulness", "Clarity", "Helpfulness", "Clarity"])
    for i in range(MANY):
        rows.append([f"chat{i:03d}.txt", *(_rating(i + shift, who) for who in (0, 1) for shift in (0, 1))])
    workbook(str(folder / "ratings.xlsx"), rows, merges=("B2:C2", "D2:E2"))


def _thumbs_of_log(folder: Path) -> None:
    rows = []
    for i in range(MANY):
        asked, reply = _messages(i)
        row: dict[str, Any] = {
            "id": f"req-{i:03d}",
            "model": f"bot-{_version(i)}",
            "messages": [asked],
            "response": reply["content"],
        }
        rows.append({**row, "created_at": _iso(i), "thumbs": None if i % 8 == 7 else "up" if _good(i) else "down"})
    _jsonl(folder / "live.jsonl", rows)


def _langfuse(folder: Path) -> None:
    rows = []
    for i in range(MANY):
        asked, reply = _messages(i)
        given = [
            {"name": "helpful", "value": _rating(i, who), "source": "ANNOTATION", "authorUserId": name}
            for who, name in enumerate(("nora", "ben"))
        ]
        given.append({"name": "hallucination", "value": 0.1, "source": "EVAL", "authorUserId": None})
        scores = [{"id": f"s{i}-{n}", "dataType": "NUMERIC", **score} for n, score in enumerate(given)]
        trace: dict[str, Any] = {
            "id": f"t{i:03d}",
            "timestamp": _iso(i),
            "name": "chat",
            "userId": f"u{i % 7}",
            "sessionId": f"s{i:03d}",
        }
        trace |= {"version": _version(i), "input": {"messages": [asked]}, "output": reply, "scores": scores}
        rows.append(trace)
    _write_json(folder / "traces.json", {"data": rows, "meta": {"page": 1, "limit": 100, "totalItems": MANY}})


def _mlflow(folder: Path) -> None:
    rows = []
    for i in range(MANY):
        asked, reply = _messages(i)
        spans = {"mlflow.spanInputs": json.dumps({"messages": [asked]}), "mlflow.spanOutputs": json.dumps(reply)}
        span = {"trace_id": f"tr-{i:03d}", "span_id": "a", "parent_span_id": None, "name": "chat", "attributes": spans}
        sources = [("HUMAN", "nora@example.com", 0), ("HUMAN", "ben@example.com", 1), ("LLM_JUDGE", "gpt-4o", 1)]
        assessments = [
            {
                "assessment_name": "helpful", "trace_id": f"tr-{i:03d}", "feedback": {"value": _rating(i, who)},
                "source": {"source_type": kind, "source_id": name}, "create_time": _iso(i, 600), "valid": True,
            }
            for kind, name, who in sources
        ]  # fmt: skip
        info: dict[str, Any] = {"trace_id": f"tr-{i:03d}", "request_time": _iso(i), "assessments": assessments}
        info |= {"trace_metadata": {"mlflow.trace.session": f"m{i:03d}"}, "tags": {"version": _version(i)}}
        rows.append({"info": info, "data": {"spans": [span]}})
    _jsonl(folder / "traces.jsonl", rows)


def _otlp(folder: Path) -> None:
    spans = []
    for i in range(MANY):
        asked, reply = _messages(i)
        sent = [{"role": "user", "parts": [{"type": "text", "content": asked["content"]}]}]
        received = [{"role": "assistant", "parts": [{"type": "text", "content": reply["content"]}]}]
        attributes = {
            "gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o", "gen_ai.conversation.id": f"o{i:03d}",
            "gen_ai.input.messages": json.dumps(sent), "gen_ai.output.messages": json.dumps(received),
        }  # fmt: skip
        start = (START + 3600 * i) * 10**9
        span = {"traceId": f"{i + 1:032x}", "spanId": f"{i + 1:016x}", "name": "chat gpt-4o", "kind": 3}
        span |= {"startTimeUnixNano": str(start), "endTimeUnixNano": str(start + 10**9), "status": {}}
        spans.append((_version(i), {**span, "attributes": _attributes(attributes)}))
    resources = [
        {
            "resource": {"attributes": _attributes({"service.name": "bot", "service.version": version})},
            "scopeSpans": [{"scope": {"name": "openai"}, "spans": [span for each, span in spans if each == version]}],
        }
        for version in ("1.0", "2.0")
    ]
    _write_json(folder / "spans.json", {"resourceSpans": resources})
    ratings = [[f"o{i:03d}", name, _rating(i, who)] for i in range(MANY) for who, name in enumerate(("nora", "ben"))]
    _csv(folder / "ratings.csv", [["conversation", "annotator", "helpful"], *ratings])


def _attributes(values: Mapping[str, str]) -> list[Any]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in values.items()]


def _sheets(folder: Path) -> None:
    header = ["Timestamp", "ID", "Question", "Answer", "Bot version", "Nora", "Ben", "Käthe"]
    rows = [
        ["6/1/2026 10:00:00", f"w{i}", _asked(i), _reply(i), f"v{_version(i)}"]
        + [str(_rating(i)), str(_rating(i, 1)) if i % 3 else "", str(_rating(i, 2))]
        for i in range(MANY)
    ]
    _csv(folder / "Ratings - Sheet1.csv", [header, *rows])


def _letters(folder: Path) -> None:
    _jsonl(folder / "chats.jsonl", [{"id": f"c{i:03d}", "messages": _messages(i)} for i in range(MANY)])
    grades = ["", "F", "D", "C", "B", "A"]
    rows = [
        [f"c{i:03d}", name, grades[_rating(i, who)]] for i in range(MANY) for who, name in enumerate(("Nora", "Ben"))
    ]
    _csv(folder / "grades.csv", [["Conversation ID", "Rater", "Grade"], *rows])


WIN_RATE = 0.75
"""Share of the pairs that version 2.0 wins."""
FAVOR = 0.125
"""Rise of the judge's rate of preferring the first response: in one of four rows, it prefers this one anyway."""


def _pairs(folder: Path) -> None:
    rows: Cells = [["id", "prompt", "model_a", "model_b", "response_a", "response_b", "human_winner", "judge_winner"]]
    for i in range(2 * MANY):
        rng = random.Random(f"pair {i}")
        texts = {"2.0": _reply(4 * i + (3 if i % 4 else 1)), "1.0": _reply(4 * i + (1 if i % 4 else 3))}
        first, second = rng.sample(["1.0", "2.0"], 2)
        best = "model_a" if first == ("2.0" if i % 4 else "1.0") else "model_b"
        judge = "model_a" if rng.random() < 0.25 else best
        rows.append([i, _asked(i), first, second, texts[first], texts[second], best if i < MANY else "", judge])
    _csv(folder / "pairs.csv", rows)


def _folders(folder: Path) -> None:
    for version in ("1.0", "2.0"):
        chats = [{"id": f"c{i:03d}", "messages": _messages(i)} for i in range(MANY) if _version(i) == version]
        (folder / f"v{version}").mkdir()
        _jsonl(folder / f"v{version}" / "chats.jsonl", chats)
    ratings = [[f"c{i:03d}", name, _rating(i, who)] for i in range(MANY) for who, name in enumerate(("nora", "ben"))]
    _csv(folder / "ratings.csv", [["id", "annotator", "rating"], *ratings])


def _retrieved(folder: Path) -> None:
    rows, ratings = [], []
    for i in range(MANY):
        texts = [f"Handbook: the {TOPICS[i % 8]} number {100 + i} arrives on Monday.", "Calls are free."]
        rows.append({"id": f"r{i:03d}", "user_input": _asked(i), "response": _reply(i), "retrieved_contexts": texts})
        ratings += [[f"r{i:03d}", name, _rating(i, who)] for who, name in enumerate(("nora", "ben"))]
    _jsonl(folder / "rag.jsonl", rows)
    _csv(folder / "ratings.csv", [["id", "annotator", "faithful"], *ratings])


_BOTH = frozenset({"1.0", "2.0"})
_NORA_BEN = {"nora": MANY, "ben": MANY}
FORMS = (
    Kind(
        "Zendesk export", _zendesk, ("tickets.jsonl",), "", {str(20_000 + i): 1 for i in range(MANY)},
        questions=frozenset({"satisfaction"}), scored=MANY,
    ),
    Kind(
        "Intercom export", _intercom, ("conversations.json",), "", {f"u{i:03d}": 1 for i in range(MANY)}, systems=_BOTH,
        questions=frozenset({"satisfaction"}), scored=MANY,
    ),
    Kind(
        "Slack export", _slack, ("support-bot",), "", {"UANNA": MANY, "UBEN": MANY}, systems=frozenset({"helpbot"}),
        questions=frozenset({"thumbs"}), scored=MANY,
    ),
    Kind(
        "WhatsApp chats, workbook with merged headers", _whatsapp, tuple(f"chat{i:03d}.txt" for i in range(MANY)),
        "ratings.xlsx", {"Nora": 2 * MANY, "Ben": 2 * MANY}, questions=frozenset({"Helpfulness", "Clarity"}),
        scored=MANY, options=("--role", "Shop Bot=assistant"),
    ),
    Kind(
        "log with thumbs", _thumbs_of_log, ("live.jsonl",), "", {"unnamed": MANY - MANY // 8},
        systems=frozenset({"bot-1.0", "bot-2.0"}), scored=MANY,
    ),
    Kind("Langfuse export", _langfuse, ("traces.json",), "", _NORA_BEN, systems=_BOTH, scored=MANY),
    Kind(
        "MLflow traces", _mlflow, ("traces.jsonl",), "", {"nora@example.com": MANY, "ben@example.com": MANY},
        systems=_BOTH, scored=MANY,
    ),
    Kind(
        "OTLP JSON and a CSV of ratings", _otlp, ("spans.json",), "ratings.csv", _NORA_BEN, systems=_BOTH, scored=MANY,
    ),
    Kind(
        "Google Sheets CSV, a column per person", _sheets, ("Ratings - Sheet1.csv",), "",
        {"Nora": MANY, "Ben": MANY - MANY // 3, "Käthe": MANY}, systems=frozenset({"v1.0", "v2.0"}), scored=MANY,
    ),
    Kind("letters A to F", _letters, ("chats.jsonl",), "grades.csv", {"Nora": MANY, "Ben": MANY}, scored=MANY),
    Kind(
        "pairs", _pairs, ("pairs.csv",), "", {"human_winner": MANY}, {"judge_winner": 2 * MANY}, is_pairs=True,
        systems=_BOTH, scored=2 * MANY,
    ),
    Kind(
        "folders by version", _folders, ("v1.0", "v2.0"), "ratings.csv", _NORA_BEN,
        systems=frozenset({"v1.0", "v2.0"}), scored=MANY,
    ),
    Kind("retrieved documents", _retrieved, ("rag.jsonl",), "ratings.csv", _NORA_BEN, scored=MANY, documents=True),
)  # fmt: skip
"""Own files of which the ratings follow the replies, so that scores can be better than a constant guess."""


def wrong_readings(kind: Kind, project: Project, people: Mapping[str, int], judges: Mapping[str, int]) -> list[str]:
    """Return the readings of files that differ from what they hold."""
    chats = list(project.store.conversations())
    replies = {sum(turn.role == "assistant" and bool(turn.content) for turn in chat.turns) for chat in chats}
    systems = {chat.version or chat.system for chat in chats} - {None}
    questions = {label.question for label in project.store.labels()}
    pairs = {
        "people": (dict(people), dict(kind.people)), "judges": (dict(judges), dict(kind.judges)),
        "replies": (replies, {kind.replies}), "versions": (systems, set(kind.systems)),
        "questions": (questions, set(kind.questions)) if kind.questions else (len(questions), 1),
        "conversations": (len(chats) * kind.replies, kind.scored),
        "documents": (kind.documents and not all(chat.documents for chat in chats), False),
    }  # fmt: skip
    return [f"{name}: {found}, not {expected}" for name, (found, expected) in pairs.items() if found != expected]


MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGES = "http://schemas.openxmlformats.org/package/2006"
KIND = "application/vnd.openxmlformats-officedocument.spreadsheetml"


def workbook(name: str, *sheets: list[list[Any]], merges: Sequence[str] = ()) -> str:
    """Write a workbook with inline texts and numbers; `merges` are the merged cells of each sheet."""

    def cell(value: Any) -> str:
        if value is None:
            return "<c/>"
        text = f'<c t="inlineStr"><is><t>{value}</t></is></c>'
        return text if isinstance(value, str) else f"<c><v>{value}</v></c>"

    def each_sheet(template: str) -> str:
        return "".join(template.format(n=n, r=RELATIONS, k=KIND) for n in range(1, len(sheets) + 1))

    parts = {
        "[Content_Types].xml": f'<Types xmlns="{PACKAGES}/content-types"><Default Extension="rels" ContentType="'
        'application/vnd.openxmlformats-package.relationships+xml"/><Override PartName="/xl/workbook.xml" '
        f'ContentType="{KIND}.sheet.main+xml"/>'
        + each_sheet('<Override PartName="/xl/worksheets/s{n}.xml" ContentType="{k}.worksheet+xml"/>') + "</Types>",
        "_rels/.rels": f'<Relationships xmlns="{PACKAGES}/relationships"><Relationship Id="r1" '
        f'Type="{RELATIONS}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{RELATIONS}"><sheets>'
        + each_sheet('<sheet name="S{n}" sheetId="{n}" r:id="r{n}"/>') + "</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{PACKAGES}/relationships">'
        + each_sheet('<Relationship Id="r{n}" Type="{r}/worksheet" Target="worksheets/s{n}.xml"/>') + "</Relationships>",
    }  # fmt: skip
    for number, rows in enumerate(sheets, 1):
        lines = "".join(f"<row>{''.join(map(cell, row))}</row>" for row in rows)
        merged = "".join(f'<mergeCell ref="{each}"/>' for each in merges)
        tail = f"<mergeCells>{merged}</mergeCells>" if merges else ""
        sheet = f'<worksheet xmlns="{MAIN}"><sheetData>{lines}</sheetData>{tail}</worksheet>'
        parts[f"xl/worksheets/s{number}.xml"] = sheet
    with zipfile.ZipFile(name, "w") as archive:
        for place, text in parts.items():
            archive.writestr(place, text)
    return name
