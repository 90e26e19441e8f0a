"""Conversations with planted ideas, and a server that writes and judges assertions about them."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from accord.testing import completion
from accord.testing.server import (
    Wire,
    decisions,
)
from accord.values import Conversation, Turn

IDEAS = {
    "thanks": (
        "thank you so much", "The user thanks the assistant warmly",
        ["The user thanks the assistant.", "The user expresses gratitude."], True,
    ),
    "steps": (
        "first, second, third", "The assistant lays the solution out in steps",
        ["The assistant gives steps in order."], True,
    ),
    "checks": ("did that help", "The assistant checks whether it helped", ["The assistant checks the outcome."], True),
    "repeats": (
        "as i said before", "The assistant repeats itself", ["The assistant repeats an earlier answer."], False,
    ),
    "angry": (
        "this is useless", "The user loses patience", ["The user loses patience.", "The user is annoyed."], False,
    ),
    "vague": ("it depends", "The assistant stays vague", ["The assistant avoids a clear answer."], False),
    "weather": ("nice weather", "The user talks about the weather", ["The user mentions the weather."], True),
}  # fmt: skip
"""By name: words that show it, the reason they give, assertions that say it, whether it speaks for a conversation."""
INFORMATIVE = {name for name in IDEAS if name != "weather"}


def conversations(count: int = 80, seed: int = 0) -> list[tuple[Conversation, bool]]:
    """Return conversations, of which half are good. An idea occurs in 80% of its own class and in 10% of the other one."""
    rng = random.Random(seed)
    made = []
    for place in range(count):
        good = place % 2 == 0
        said = [
            words
            for name, (words, _, _, speaks_for) in IDEAS.items()
            if rng.random() < (0.5 if name == "weather" else 0.8 if speaks_for is good else 0.1)
        ]
        turns = (Turn("user", f"My printer is stuck, case {place}."), Turn("assistant", ". ".join([*said, "Goodbye."])))
        made.append(
            (Conversation(f"chat-{place:03d}", turns, metadata={"system": f"bot-{place % 2 + place % 3}"}), good)
        )
    return made


def write_files(folder: Path, made: list[tuple[Conversation, bool]]) -> tuple[Path, Path]:
    """The conversations as messages, and thumbs of one person."""
    chats, labels = folder / "chats.jsonl", folder / "labels.csv"
    with chats.open("w") as stream:
        for conversation, _ in made:
            messages = [{"role": turn.role, "content": turn.content} for turn in conversation.turns]
            stream.write(json.dumps({"id": conversation.id, "messages": messages, **conversation.metadata}) + "\n")
    rows = [f"{conversation.id},helped,ann,{int(good)}" for conversation, good in made]
    labels.write_text("\n".join(["conversation,question,annotator,value", *rows]) + "\n", encoding="utf-8")
    return chats, labels


class Author:
    """A model that finds the planted ideas, writes them down, and knows which conversations show them."""

    def __init__(self) -> None:
        """`asked` lists the purpose of each request."""
        self.asked: list[str] = []

    def __call__(self, request: Mapping[str, Any]) -> Wire:
        """A reply on the wire that the request came by."""
        if request["_path"].endswith("/decisions"):
            self.asked.append("decisions")
            return self._decide(request)
        text = request["messages"][-1]["content"]
        if "response_format" not in request:
            self.asked.append("logprobs")
            return self._judge(text)
        [key] = request["response_format"]["json_schema"]["schema"]["properties"]
        self.asked.append(key)
        return completion(json.dumps({key: list(getattr(self, f"_{key}")(text))}))

    def _reasons(self, text: str) -> Iterator[dict[str, Any]]:
        transcript, good = _fenced(text, 0), "went well" in text
        for words, reason, _, speaks_for in IDEAS.values():
            if words in transcript.lower() and speaks_for is good:
                yield {"reason": reason, "quote": words}

    def _assertions(self, text: str) -> Iterator[dict[str, Any]]:
        reasons = _fenced(text, 1 if "The list as it is now" in text else 0).splitlines()
        for _, reason, assertions, _ in IDEAS.values():
            numbers = [int(line.split(".")[0]) for line in reasons if line.endswith(reason)]
            for assertion in assertions if numbers else ():
                yield {"text": assertion, "numbers": numbers}

    def _repeats(self, text: str) -> Iterator[dict[str, Any]]:
        lines = [line.split(". ", 1)[1] for line in _fenced(text, 0).splitlines()]
        for _, _, assertions, _ in IDEAS.values():
            places = [lines.index(each) + 1 for each in assertions if each in lines]
            for place in places[1:]:
                yield {"number": place, "number_of_earlier": places[0]}

    def _judge(self, text: str) -> Wire:
        question = re.search(r"^Question: (.*)$", text, re.MULTILINE)
        assert question is not None
        labels = re.findall(r"^Answer with one of (.*) and nothing else", text, re.MULTILINE)[-1].split(", ")
        found = dict(zip(labels, _shares(question[1], _fenced(text, 0), len(labels)), strict=True))
        return completion(max(found, key=found.__getitem__), found)

    def _decide(self, request: Mapping[str, Any]) -> Wire:
        answers = []
        for question in request["questions"]:
            about = {"type": question["type"], "name": question.get("name")}
            if question["type"] == "predicate":
                answers.append({**about, "probability": _shares(question["instructions"], request["input"], 2)[1]})
            else:
                levels = [level["label"] for level in question["levels"]]
                shares = _shares(question["instructions"], request["input"], len(levels))
                listed = [
                    {"label": o, "value": i, "probability": p}
                    for i, (o, p) in enumerate(zip(levels, shares, strict=True))
                ]
                answers.append({**about, "score": 1.0, "confidence": 0.5, "probabilities": listed})
        return decisions(request["model"], answers)


def _fenced(text: str, block: int) -> str:
    """Return the text between two lines of the fence."""
    found = re.findall(r"^(=====\[\w+\]=====)\n(.*?)\n\1$", text, re.MULTILINE | re.DOTALL)
    return str(found[block][1])


def _shares(question: str, transcript: str, options: int) -> tuple[float, ...]:
    """The probability of each option, from disagreement to agreement: 2, 5 or 6 of them."""
    words = next((idea[0] for idea in IDEAS.values() if any(each in question for each in idea[2])), None)
    if words is None:
        return (1 / options,) * options
    agree = (0.02, 0.03, 0.05, 0.3, 0.6)
    five = agree if words in transcript.lower() else agree[::-1]
    if options == 2:
        return sum(five[:2]) + five[2] / 2, sum(five[3:]) + five[2] / 2
    return five if options == 5 else (*five[:2], five[2] / 2, five[2] / 2, *five[3:])
