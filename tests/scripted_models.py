"""Scripted models: one that finds planted issues, and a base for likelihood models."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from issue_finder import SIGNS, verdict

from accord.models import Failure, LikelihoodRequest, LikelihoodResult
from accord.testing import completion
from accord.testing.server import (
    Wire,
    decisions,
)

_FENCE = re.compile(r"^(=====\[\w+\]=====)\n(.*?)\n\1$", re.MULTILINE | re.DOTALL)
_TURN = re.compile(r"^\[(\d+)\] (\w+):\n(.*?)(?=\n\n\[\d+\] |\Z)", re.MULTILINE | re.DOTALL)


class Finder:
    """A chat model on a loopback server that finds planted issues, per dialogue or per turn."""

    def __init__(self) -> None:
        """`asked` records the kind of each request: `turns`, `turn`, `kinds`, `yes`, or `decisions`."""
        self.asked: list[str] = []

    def __call__(self, request: Mapping[str, Any]) -> Wire:
        """Return a reply of the server."""
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


def _replies(text: str) -> Iterator[tuple[int, str]]:
    transcript = [block for _, block in _FENCE.findall(text) if block.startswith("[0]")][-1]  # examples come before
    for place, role, said in _TURN.findall(transcript):
        if role == "assistant":
            yield int(place), said


class ScriptedLikelihood:
    """A likelihood model that records its passages; subclasses define `_one`."""

    def __init__(self, fail: str = "") -> None:
        self.asked: list[LikelihoodRequest] = []
        self.fail = fail

    def made_from(self, passage: LikelihoodRequest) -> Mapping[str, Any]:
        return {"said": [[m.role, m.content] for m in passage.messages], "spoken": list(passage.spoken)}

    def requests(self, passages: Sequence[LikelihoodRequest]) -> Sequence[Any]:
        return ()

    async def measure(self, passages: Sequence[LikelihoodRequest]) -> list[LikelihoodResult]:
        self.asked += passages
        return [Failure(self.fail) if self.fail else self._one(passage) for passage in passages]

    async def close(self) -> None:
        pass

    def _one(self, passage: LikelihoodRequest) -> LikelihoodResult:
        raise NotImplementedError
