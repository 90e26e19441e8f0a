"""Decisions endpoint on the loopback interface that answers by a rule, for demonstrations of a judge without a key."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from accord.testing.server import ChatServer, Wire, decisions

RULE = (
    "a reply loses points for words of apology or refusal, and the conversation for every turn of the user after the "
    "first two"
)
"""The rule in words, for messages."""
_TURN = re.compile(r"^\[\d+\] (user|assistant):\n", re.MULTILINE)
_REFUSALS = re.compile(
    r"\b(?:sorry|apolog\w+|unfortunately|unable|cannot|can't|couldn't|don't know|not sure|no information)\b", re.I
)
_LOSS_BY_TURN, _LOSS_BY_REFUSAL, _SHARPNESS = 0.12, 0.25, 1.2


def quality(text: str) -> float:
    r"""Return the quality of the conversation in a judge's input by `RULE`, 0 to 1.

    >>> quality("[0] user:\nHi.\n\n[1] assistant:\nYes."), quality("[0] user:\nHi.\n\n[1] assistant:\nSorry, no.")
    (1.0, 0.75)
    """
    parts = _TURN.split(text)
    users = parts[1::2].count("user")
    replies = [content for role, content in zip(parts[1::2], parts[2::2], strict=True) if role == "assistant"]
    refusals = sum(len(_REFUSALS.findall(reply)) for reply in replies) / max(1, len(replies))
    return max(0.0, 1.0 - _LOSS_BY_TURN * max(0, users - 2) - _LOSS_BY_REFUSAL * refusals)


def answer(request: Mapping[str, Any]) -> Wire:
    """Answer a request of OpenAI's dialect: the best level is likeliest for the best conversation, and so on.

    The probability of level k of K is proportional to exp(-s·(k - q·(K - 1))²), with the quality q and a constant s.
    """
    q = quality(request["input"])
    return decisions("scripted", [_answer(question, q) for question in request["questions"]])


def _answer(question: Mapping[str, Any], q: float) -> dict[str, Any]:
    options = question.get("levels") or question.get("choices") or [{"label": "no"}, {"label": "yes"}]
    weights = [math.exp(-_SHARPNESS * (place - q * (len(options) - 1)) ** 2) for place in range(len(options))]
    p = [weight / sum(weights) for weight in weights]
    about = {"type": question["type"], "name": question["name"]}
    if question["type"] == "predicate":
        return {**about, "probability": p[1]}
    if question["type"] == "choice":
        rows = [{"value": option["value"], "probability": share} for option, share in zip(options, p, strict=True)]
        return {**about, "choice": max(rows, key=lambda row: row["probability"])["value"], "confidence": max(p),
                "probabilities": rows}  # fmt: skip
    levels = [
        {"label": option["label"], "value": place, "probability": share}
        for place, (option, share) in enumerate(zip(options, p, strict=True))
    ]
    score = sum(place * share for place, share in enumerate(p))
    return {**about, "score": score, "confidence": max(p), "probabilities": levels}


def scripted_judge() -> ChatServer:
    """Return the server, not started."""
    return ChatServer(answer)
