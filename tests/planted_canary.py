"""A project with a canary in every place, written by the real commands: texts, IDs and names of one conversation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from commands import accord, write_rows
from misbehaving_endpoint import answer_any

from accord import open as open_project
from accord.cli import commands  # noqa: F401 - registers the commands
from accord.store import Store, Studies
from accord.store.schema import metadata
from accord.studies import StudySession, SubmittedAnswer
from accord.testing import completion
from accord.testing.server import Wire

VICTIM, USER = "victim-4711xyz", "user-0815abc"
CANARIES = ("CANARY-user-90210", "CANARY-reply-90211", "CANARY-doc-90212", "CANARY-call-90213", "CANARY-comment-90214")
SAID, REPLIED, DOCUMENT, CALL, COMMENT = CANARIES
MARKS = [each.encode() for each in (*CANARIES, VICTIM, USER)]


def chat(name: str, place: int = 0, **metadata: Any) -> dict[str, Any]:
    return {
        "id": name, "user": f"user-{place}", "system": f"bot-{place % 2}", "time": f"2026-03-{place % 28 + 1:02d}",
        "messages": [
            {"role": "user", "content": f"Where is parcel {place} of mine?"},
            {"role": "assistant", "content": "It arrives " + "very " * (place % 5) + "soon."},
        ],
        **metadata,
    }  # fmt: skip


def victim() -> dict[str, Any]:
    calls = [{"function": {"name": "find", "arguments": json.dumps({"card": CALL})}}]
    return {
        **chat(VICTIM), "user": USER, "documents": [{"text": f"The file says {DOCUMENT}."}],
        "messages": [
            {"role": "user", "content": f"My number is {SAID}, please call me back about the parcel today"},
            {"role": "assistant", "content": f"I will call {REPLIED}.", "tool_calls": calls},
            {"role": "user", "content": "Thanks."},
            {"role": "assistant", "content": "You are welcome."},
        ],
    }  # fmt: skip


def answered(request: Mapping[str, Any]) -> Wire:
    """A model that quotes what it reads."""
    text = json.dumps(request)
    quotes = [mark for mark in CANARIES if mark in text]
    if "response_format" in request and "issues" in json.dumps(request["response_format"]):
        found = [{"type": "Coherence", "comment": f"It says {quote}.", "quote": quote} for quote in quotes[:2]]
        return completion(json.dumps({"issues": found, "comment": f"About {quotes}.", "score": 3}))
    return answer_any(request)


def settings(url: str, store: str) -> dict[str, Any]:
    model = {"model": "m1", "base_url": url, "concurrency": 4}
    example = {"level": "dialogue", "candidates": 0, "selector": "random", "rivals": [], "demonstrations": 3}
    return {
        "store": store, "draws": 20, "repeats": 1, "metrics": ["words"], "budget": {"shared": "all", "requests": 100_000},
        "models": {"judge": {**model, "mode": "sampling", "samples": 2}, "finder": model, "scorer": {**model, "mode": "logprobs"}},
        "sources": {"issues": {"whole_dialogue": False}, "in-context": example},
        "evaluators": {
            "default": {"head": "mixed"}, "shots": {"sources": ["in-context"], "head": "auto"},
            "metrics": {"sources": ["metrics"], "head": "mixed"},
        },
        "studies": {"look": {"title": "Look", "items": {"sample": 30}, "annotators_per_item": 1}},
        "privacy": {"retention": {"conversations": "20 years"}},
    }  # fmt: skip


def fill(folder: Path, inputs: Path, url: str, store: str) -> None:
    """Write the canary into a project by the real commands, in the working folder."""
    Path("accord.yaml").write_text(json.dumps(settings(url, store)), encoding="utf-8")
    chats = write_rows(str(inputs / "chats.jsonl"), [victim(), *(chat(f"chat-{n}", n) for n in range(24))])
    rows = [
        {"conversation": name, "question": "Q0", "annotator": by, "value": 1 + (place + shift) % 4}
        for place, name in enumerate([VICTIM, *(f"chat-{n}" for n in range(24))])
        for shift, by in enumerate(("ann", "bob"))
    ]
    labels = write_rows(str(inputs / "labels.jsonl"), rows)
    new = write_rows(str(inputs / "new.jsonl"), [victim(), chat("new-1", 3)])
    accord("import", chats, labels)
    accord("judge", code=None)
    rate()
    accord("fit", "default")
    accord("fit", "shots")
    accord("fit", "metrics")
    accord("fit", "default")
    for out in ("scores.jsonl", "scores.csv", "scores.parquet"):
        accord("score", new, "--out", out, "--evaluator", "evaluators/default")
    accord("score", new, "--out", "parts", "--evaluator", "evaluators/default")
    log = write_rows(str(inputs / "log.jsonl"), [victim(), chat("new-2", 4)])
    accord("follow", log, "--out", "rows.jsonl", "--once", "--evaluator", "evaluators/metrics")
    accord("report", "--out", "report.html")
    accord("issues", "--out", "issues.html")
    accord("compare", "--only", "default", code=None)
    accord("export", "annotations.jsonl")
    accord("gaps", code=None)
    Path("judgments").mkdir()
    write_rows("judgments/own.jsonl", [{"item_id": VICTIM, "value": 3}, {"item_id": "chat-1", "value": 3}])
    Path("push-spool/langfuse").mkdir(parents=True)
    write_rows("push-spool/langfuse/1.jsonl", [{"id": "s1", "conversation": VICTIM}, {"id": "s2", "conversation": "c"}])
    Path("uploads").mkdir()
    write_rows("uploads/chats.jsonl", [victim()])
    if store.startswith("sqlite"):
        accord("store", "backup", "copies/backup.db")


def rate() -> None:
    """Answer all items of the study, with a comment."""
    with open_project("accord.yaml") as project:
        studies = Studies(project.store)
        look = StudySession(project, "look", studies)
        look.begin()
        number = 0
        while (assignment := look.take("cleo")) is not None:
            comment = f"{COMMENT} here" if assignment.item.target.conversation == VICTIM else "fine"
            for question in look.view(assignment).questions:
                number += 1
                answer = {"assignment": assignment.id, "id": f"answer-{number:012}", "question": question.id}
                look.answer("cleo", SubmittedAnswer.from_json({**answer, "value": 2, "comment": comment}))
            look.finish("cleo", assignment.id)
        studies.close()


def marks_in(*folders: Path) -> dict[str, list[str]]:
    """Marks in all bytes below folders, by file."""
    found: dict[str, list[str]] = {}
    for path in (each for folder in folders for each in folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            content = path.read_bytes()
            if marks := [mark.decode() for mark in MARKS if mark in content]:
                found[str(path)] = marks
    return found


def others(url: str = "sqlite:///accord.db") -> dict[str, Any]:
    """Everything of other conversations that must stay."""
    with closing(Store(url)) as store:
        chats = {each.id: each.to_json() for each in store.conversations(synthetic="with") if each.id != VICTIM}
        rows = [each.to_json() for each in store.annotations() if each.target.conversation != VICTIM]
        budgets = list(store._stream(metadata.tables["budgets"].select()))
    return {"chats": chats, "rows": rows, "budgets": [tuple(each) for each in budgets]}
