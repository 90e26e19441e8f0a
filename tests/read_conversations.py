"""Project with all kinds of annotations, for tests of the conversation page and of charts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accord import Conversation, Project, Turn
from accord.project import Config
from accord.values import (
    SYNTHETIC,
    Annotation,
    Document,
    Issue,
    IssueAnnotation,
    Label,
    Target,
    find_quote,
    turn_digests,
)

RUBRIC = """
name: help
main: Q0
questions:
  - {id: Q0, text: "How good is it?", options: {1: Poor., 2: Fair., 3: Good., 4: Very good.}}
  - {id: Q1, text: "Is it clear?", options: {1: No., 2: Hardly., 3: Mostly., 4: Yes.}}
"""
POLICY = (
    "An opened router can be returned within 45 days of delivery. The buyer pays for sending it back. Whatever came "
    "with it has to be in the box."
)
REPLY = "Yes, it can be returned within 45 days of delivery [1]. We always pay for that, whatever you bought."
PEOPLE = {"ann": -0.7, "bob": 0.0, "cy": 0.8}
RICH = "chats/7 é?"
"""Id of the conversation with all annotations; it needs quoting in a URL."""


def rich() -> Conversation:
    """Create a conversation with documents, tool calls, instructions and four turns."""
    call = {"function": {"name": "find_article", "arguments": json.dumps({"query": "return router"})}}
    turns = (
        Turn("system", "You are the help desk of a shop. " * 20),
        Turn("user", "Can I return an opened router?", time="2026-03-01T09:00:00Z"),
        Turn("assistant", "Let me look.", extra={"tool_calls": [call]}),
        Turn("tool", "articles found: 1", name="find_article"),
        Turn("assistant", REPLY, extra={"documents": ["policy"], "latency": 1.5}),
        Turn("user", "Thanks."),
        Turn("assistant", "You are welcome. Is there anything else?"),
    )
    documents = (Document(POLICY, id="policy", title="Returns"), Document("Nothing of the kind.", id="other"))
    return Conversation(RICH, turns, documents, {"system": "desk-2", "topic": "returns", "more": {"a": [1, 2]}})


def issues_of(conversation: Conversation, turn: int = 4) -> IssueAnnotation:
    """Create issues of a reply: one with a quote from it, and one with another quote."""
    quotes = ("We always pay for that", "you may keep it for ever")
    text = conversation.turns[turn].content
    found = tuple(Issue("Unsupported", f"no document says {q}", q, find_quote(q, text)) for q in quotes)
    return IssueAnnotation(
        Target(conversation.id, turn),
        found,
        2,
        "One claim is wrong.",
        "issues|model:finder",
        said=turn_digests(conversation)[turn],
    )


def _person(target: Target, by: str, value: int, answer: str, **more: Any) -> Annotation:
    return Annotation(target, "Q0", by, "person", value, answer=answer.ljust(16, "-"), study="look", **more)


def said_of(conversation: Conversation) -> list[Annotation]:
    """Create answers with one change, a mark, and a withdrawn mark."""
    whole, reply = Target(conversation.id), Target(conversation.id, 4)
    text = conversation.turns[4].content
    mark: dict[str, Any] = {
        "quote": "it can be returned",
        "span": find_quote("it can be returned", text),
        "study": "look",
    }
    return [
        _person(whole, "ann", 1, "ann-first", comment="too curt", time="2026-03-02T10:00:00+00:00"),
        _person(whole, "ann", 2, "ann-second", replaces="ann-first".ljust(16, "-"), comment="on reflection"),
        _person(whole, "bob", 4, "bob-first", comment="fine"),
        Annotation(reply, "issue:Vague", "bob", "person", 1, answer="bob-mark".ljust(16, "-"), **mark),
        Annotation(reply, "issue:Rude", "cy", "person", 1, answer="cy-mark".ljust(16, "-"), study="look"),
        Annotation(reply, "issue:Rude", "cy", "person", None, answer="cy-back".ljust(16, "-"), study="look",
                   replaces="cy-mark".ljust(16, "-")),
        *Annotation.from_issues(issues_of(conversation)),
    ]  # fmt: skip


def answers(targets: list[Target]) -> list[dict[str, Any]]:
    """Create a judge's distributions over the options of both questions."""
    return [
        {"key": f"{target}-{question}", "conversation": target.conversation, "turn": target.turn, "question": question,
         "judge": "judge-1", "mode": "logprobs", "outside": 0.02, "version": "",
         "probabilities": json.dumps({"1": 0.1, "2": 0.2, "3": 0.3, "4": 0.4}),
         "made_from": json.dumps({"question": question})}
        for target in targets
        for question in ("Q0", "Q1")
    ]  # fmt: skip


def reading_project(folder: Path, monkeypatch: pytest.MonkeyPatch, fits: bool = True, head: str = "mixed") -> Project:
    """Create a project of thirty rated conversations with good long replies, and `rich`, with a fitted evaluator."""
    monkeypatch.chdir(folder)
    (folder / "help.yaml").write_text(RUBRIC, encoding="utf-8")
    study = {"title": "First look", "annotators": sorted(PEOPLE)}
    content = {
        "store": f"sqlite:///{folder}/accord.db", "rubric": "help.yaml", "draws": 50, "studies": {"look": study},
        "evaluators": {"default": {"head": head}},
    }  # fmt: skip
    rng = np.random.default_rng(3)
    lengths = rng.integers(1, 25, 30).tolist()
    chats = [
        Conversation(
            f"chat-{n:02d}", (Turn("user", f"Question {n}?"), Turn("assistant", " ".join(["step"] * words))),
            metadata={"system": "desk-1" if n % 2 else "desk-2", "topic": str(n % 3), "week": n // 10},
        )
        for n, words in enumerate(lengths)
    ]  # fmt: skip
    labels = [
        Label(Target(chat.id), question, name, int(np.clip(round(2.5 + weight * (words - 12) / 5 + level + noise), 1, 4)))
        for chat, words in zip(chats, lengths, strict=True)
        for name, level in PEOPLE.items()
        for question, weight, noise in (("Q0", 1.0, rng.normal(scale=0.5)), ("Q1", -0.7, rng.normal(scale=0.5)))
    ]  # fmt: skip
    made = Conversation("made", (Turn("user", "Hi"), Turn("assistant", "Hello.")),
                        metadata={SYNTHETIC: {"scheme": "DS1", "user": "model-a"}})  # fmt: skip
    opened = Project(Config.model_validate(content))
    opened.store.add_conversations([*chats, rich(), made])
    opened.store.add_labels(labels)
    opened.store.add_annotations(said_of(rich()))
    opened.store.add_answers(answers([Target(RICH), Target(RICH, 4)]))
    if fits:
        opened.fit()
    return opened
