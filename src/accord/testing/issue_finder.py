"""Dialogues with planted issues, and a server that finds them: for tests and benchmarks of `accord judge --issues`."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from accord.conversation import Conversation, Turn
from accord.testing.server import Wire, completion, decisions

SIGNS = {
    "Coherence": "as I told you I never said that",
    "Repetition": "let me repeat let me repeat",
    "Engagement": "whatever",
    "Antisocial": "you fool",
    "Commonsense": "water is dry",
}
"""By kind: words that show it."""
Rated = dict[str, Any]
COSTS = {"Coherence": 2, "Commonsense": 2, "Antisocial": 3, "Repetition": 1, "Engagement": 1}
"""What each takes from a score of 5."""
_FENCE = re.compile(r"^(=====\[\w+\]=====)\n(.*?)\n\1$", re.MULTILINE | re.DOTALL)
_TURN = re.compile(r"^\[(\d+)\] (\w+):\n(.*?)(?=\n\n\[\d+\] |\Z)", re.MULTILINE | re.DOTALL)


def dialogues(count: int = 40, turns: int = 6, seed: int = 0, rate: float = 0.15) -> list[Conversation]:
    """Dialogues of so many turns; a reply shows each kind of issue with the given chance, worse ones in every third."""
    rng = random.Random(seed)
    made = []
    for place in range(count):
        said = []
        for turn in range(turns):
            words = [f"Line {turn} of dialogue {place}."]
            if turn % 2:
                chance = rate * (2.0 if place % 3 == 0 else 0.5)
                words += [f"{sign.capitalize()}." for sign in SIGNS.values() if rng.random() < chance]
            said.append(Turn("assistant" if turn % 2 else "user", " ".join(words)))
        made.append(Conversation(f"dialogue-{place:03d}", tuple(said), metadata={"system": f"bot-{place % 2}"}))
    return made


def verdict(reply: str) -> dict[str, Any]:
    """The truth about one reply."""
    found = [(kind, sign) for kind, sign in SIGNS.items() if sign.lower() in reply.lower()]
    issues = [{"type": kind, "comment": f"It says {sign!r}.", "quote": sign} for kind, sign in found]
    score = max(5 - sum(COSTS[kind] for kind, _ in found), 1)
    return {"issues": issues, "comment": "Fine." if not issues else "It has issues.", "score": score}


class Finder:
    """A chat model behind a wire that finds the planted issues, by a dialogue or by a turn."""

    def __init__(self) -> None:
        """`asked` remembers what each request was for: `turns`, `turn`, `kinds`, `yes`, or `decisions`."""
        self.asked: list[str] = []

    def __call__(self, request: Mapping[str, Any]) -> Wire:
        """A reply on the wire."""
        if request["_path"].endswith("/decisions"):
            self.asked.append("decisions")
            return self._decide(request)
        text = request["messages"][0]["content"]
        keys = list(request["response_format"]["json_schema"]["schema"]["properties"])
        self.asked.append(keys[0] if len(keys) == 1 else "turn")
        if len(keys) > 1:
            said = dict(_replies(text))
            asked = re.search(r"Judge the turn \[(\d+)\]", text)
            assert asked is not None
            return completion(json.dumps(verdict(said[int(asked[1])])))
        if keys == ["turns"]:
            asked_turns = re.search(r"Judge each of these turns: ([\d\[\], ]+)\.", text)
            assert asked_turns is not None
            wanted = [int(number) for number in re.findall(r"\d+", asked_turns[1])]
            said = dict(_replies(text))
            return completion(json.dumps({"turns": [{"turn": turn, **verdict(said[turn])} for turn in wanted]}))
        return completion(json.dumps({keys[0]: []}))

    def _decide(self, request: Mapping[str, Any]) -> Wire:
        reply = [text for _, text in _replies(request["input"])][-1]
        answers = []
        for question in request["questions"]:
            there = any(
                f"{kind}:" in question["instructions"] and sign.lower() in reply.lower() for kind, sign in SIGNS.items()
            )
            about = {"type": question["type"], "name": question.get("name")}
            answers.append({**about, "probability": 0.9 if there else 0.05})
        return decisions(request["model"], answers)


def ratings(
    made: Sequence[Conversation], people: Sequence[str] = ("ann", "bob"), seed: int = 0
) -> list[dict[str, Any]]:
    """A person's rating of each dialogue, 1 to 5: near the mean of its worst and its average reply."""
    rng = random.Random(seed)
    rows = []
    for conversation in made:
        scores = [verdict(turn.content)["score"] for turn in conversation.by("assistant")]
        truth = (min(scores) + sum(scores) / len(scores)) / 2
        for person in people:
            value = min(max(round(truth + rng.gauss(0, 0.5)), 1), 5)
            rows.append({"conversation": conversation.id, "annotator": person, "value": value})
    return rows


def _replies(text: str) -> Iterator[tuple[int, str]]:
    transcript = [block for _, block in _FENCE.findall(text) if block.startswith("[0]")][-1]  # examples come before
    for place, role, said in _TURN.findall(transcript):
        if role == "assistant":
            yield int(place), said
