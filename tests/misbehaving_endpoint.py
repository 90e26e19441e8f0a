"""Well-formed answers on every wire of Accord, and their faults on demand."""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

from accord.testing import completion
from accord.testing.server import (
    Respond,
    Wire,
    tokens_in,
)
from accord.values import Json

FAULTS = (
    "429", "500", "slow", "truncated", "refusal", "invalid JSON", "no logprobs", "half-closed", "wrong content type",
    "another request's answer",
)  # fmt: skip
SLOW_SECONDS = 0.5


def answer_any(request: Mapping[str, Any]) -> Wire:
    """A well-formed answer to a request on any wire; equal requests get equal answers."""
    path = request["_path"]
    if path.endswith("/decisions"):
        return _decisions(request)
    if path.endswith("/systemone"):
        return _system_one(request)
    if path.endswith("/chat/completions"):
        return _chat(request)
    if path.endswith("/completions"):
        return _completion(request)
    if path.endswith("/models"):
        return Wire({"object": "list", "data": [{"id": "m1", "object": "model", "max_model_len": 8192}]})
    return Wire({"error": {"message": f"no such path {path}"}}, status=404)


def _shares(seed: str, count: int) -> list[float]:
    """`count` probabilities that follow from a text, with some mass outside the options."""
    digest = hashlib.sha256(seed.encode("utf-8", "surrogatepass")).digest()
    weights = [1 + byte for byte in digest[:count]]
    return [0.96 * weight / sum(weights) for weight in weights]


def _chat(request: Mapping[str, Any]) -> Wire:
    text = request["messages"][-1]["content"]
    sent = tokens_in(*(message["content"] for message in request["messages"]))
    if "response_format" in request:
        return completion(json.dumps(_stated(request["response_format"]["json_schema"]["schema"], text)), sent=sent)
    asked = re.search(r"Answer with one of ([^\n]*) and nothing else", text)
    labels = asked[1].split(", ") if asked else ["yes", "no"]
    shares = _shares(text, len(labels))
    mass = dict(zip(labels, shares, strict=True))
    if request.get("temperature"):
        drawn = random.Random(text + str(random.random())).choices(labels, shares)[0]
        return completion(drawn, sent=sent)
    return completion(max(mass, key=mass.__getitem__), mass if request.get("logprobs") else None, sent=sent)


def _completion(request: Mapping[str, Any]) -> Wire:
    """A plain completion; `echo` gives the prompt back with its tokens' log probabilities."""
    words = list(re.finditer(r"\S+\s*", request["prompt"])) if request.get("echo") else []
    text = f"{request['prompt']} x" if request.get("echo") else "x"
    logprobs = {
        "tokens": [*(word[0] for word in words), "x"],
        "token_logprobs": [None, *(-len(word[0]) / 10 for word in words[1:]), -1.0][: len(words) + 1],
        "text_offset": [*(word.start() for word in words), len(request["prompt"])],
    }
    return Wire({"object": "text_completion", "choices": [{"index": 0, "text": text, "logprobs": logprobs}]})


def _stated(schema: Mapping[str, Any], seed: str) -> dict[str, dict[str, float]]:
    questions = schema["properties"]
    return {
        name: dict(zip(inner["properties"], _shares(seed + name, len(inner["properties"])), strict=True))
        for name, inner in questions.items()
    }


def _decisions(request: Mapping[str, Any]) -> Wire:
    answers = [_decision(question, request["input"]) for question in request["questions"]]
    details = {"input_tokens_details": {"cache_write_tokens": 0, "cached_tokens": 0}}
    sent = tokens_in(request["input"], json.dumps(request["questions"]))
    more = {"output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": sent}
    usage = {"input_tokens": sent, "output_tokens": 0, **details, **more}
    return Wire({"answers": answers, "model": request["model"], "usage": usage})


def _decision(question: Mapping[str, Any], text: str) -> dict[str, Json]:
    about: dict[str, Json] = {"type": question["type"], "name": question.get("name")}
    seed = text + question["instructions"]
    if question["type"] == "predicate":
        return {**about, "probability": _shares(seed, 2)[0]}
    if question["type"] == "choice":
        options = [choice["value"] for choice in question["choices"]]
        mass: list[Json] = [
            {"value": o, "probability": p} for o, p in zip(options, _shares(seed, len(options)), strict=True)
        ]
        return {**about, "choice": options[0], "confidence": 0.5, "probabilities": mass}
    levels = [level["label"] for level in question["levels"]]
    shares = _shares(seed, len(levels))
    named: list[Json] = [
        {"label": o, "value": i, "probability": p} for i, (o, p) in enumerate(zip(levels, shares, strict=True))
    ]
    return {**about, "score": sum(i * p for i, p in enumerate(shares)), "confidence": 0.5, "probabilities": named}


def _system_one(request: Mapping[str, Any]) -> Wire:
    answers = {name: _system_one_answer(q, request["state"]) for name, q in request["questions"].items()}
    usage = {"input_tokens": tokens_in(request["state"], json.dumps(request["questions"])), "output_tokens": 0}
    return Wire({"model": request["model"], "answers": answers, "usage": usage})


def _system_one_answer(question: Mapping[str, Any], text: str) -> dict[str, Json]:
    seed = text + question["instructions"]
    if question["type"] == "noul":
        return {"type": "noul", "noul": _shares(seed, 2)[0]}
    options = list(question["criteria"])
    shares = _shares(seed, len(options))
    if question["type"] == "choice":
        return {"type": "choice", "choice": options[0], "probabilities": dict(zip(options, shares, strict=True))}
    return {"type": "score", "score": 1.0, "probabilities": {str(i): p for i, p in enumerate(shares)}}


class Misbehaving:
    """Answers as `respond` does, but for a share of requests in one of `kinds` of wrong ways, drawn from a seed.

    `met` counts the faults by kind.
    """

    def __init__(
        self, respond: Respond = answer_any, share: float = 0.2, kinds: Sequence[str] = FAULTS, seed: int = 0
    ) -> None:
        self.met: Counter[str] = Counter()
        self._respond, self._share, self._kinds = respond, share, tuple(kinds)
        self._random, self._lock = random.Random(seed), Lock()

    def __call__(self, request: Mapping[str, Any]) -> Wire:
        """The answer, right or wrong."""
        with self._lock:
            wrong = self._random.random() < self._share
            kind = self._random.choice(self._kinds) if wrong else None
            if kind is not None:
                self.met[kind] += 1
        right = self._respond(request)
        return right if kind is None else fault(kind, request, right)


def fault(kind: str, request: Mapping[str, Any], right: Wire) -> Wire:
    """The right answer gone wrong in one way."""
    body = json.dumps(right.body).encode() if not isinstance(right.body, bytes) else right.body
    match kind:
        case "429":
            return Wire({"error": {"message": "too many requests"}}, 429, {"Retry-After": "0.05"})
        case "500":
            return Wire({"error": {"message": "internal error"}}, 500)
        case "slow":
            return Wire(right.body, after=SLOW_SECONDS)
        case "truncated":
            return Wire(body[: len(body) // 2])
        case "half-closed":
            return Wire(body, close_after=len(body) // 2)
        case "wrong content type":
            return Wire(b"<html>busy</html>", headers={"Content-Type": "text/html"})
        case "refusal":
            return _refusing(request, right)
        case "invalid JSON":
            return Wire(b'{"choices": [{"message": {"content": "3"}, ]}')
        case "no logprobs":
            return completion("3") if request["_path"].endswith("/chat/completions") else Wire(b"{}")
        case _:
            return (
                completion("", {"Sure": 0.9}) if request["_path"].endswith("/chat/completions") else _strangers(right)
            )


def _refusing(request: Mapping[str, Any], right: Wire) -> Wire:
    if request["_path"].endswith("/chat/completions"):
        return completion("", refusal="I cannot judge that.")
    if request["_path"].endswith("/decisions"):
        first, *others = right.body["answers"]  # type: ignore[call-overload]
        return Wire({**right.body, "answers": [{"type": "refusal", "name": first["name"]}, *others]})  # type: ignore[dict-item]
    answers = dict(list(right.body["answers"].items())[1:])  # type: ignore[call-overload]
    return Wire({**right.body, "answers": answers})  # type: ignore[dict-item]


def _strangers(right: Wire) -> Wire:
    """Answers that name questions of another request."""
    answers = right.body["answers"]  # type: ignore[call-overload]
    if isinstance(answers, dict):
        others = {f"other {name}": answer for name, answer in answers.items()}
        return Wire({**right.body, "answers": others})  # type: ignore[dict-item]
    return Wire({**right.body, "answers": [{**answer, "name": "other"} for answer in answers]})  # type: ignore[dict-item]
