"""Mutated replies raise only AccordError, and no stored number is NaN."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from misbehaving_endpoint import answer_any

from accord import Conversation, Question, Scale, Turn
from accord.edges import AccordError
from accord.models import (
    Answer,
    ClientOptions,
    Reply,
    open_judge,
    wait,
)
from accord.models.requests import client
from accord.models.requests.batching import read_batch
from accord.models.requests.reply_parsing import parse_json, read_chat_reply
from accord.values import Sample

ODD: list[Any] = [
    None, True, -1, 0, 10**30, 10**400, 1e308, -0.5, 1.5, 5e-324, math.nan, math.inf, -math.inf, "", "x", "2",
    "a\x1b[31m", "\ud800\0", [], [1], [None], {}, {"a": 1}, [{}],
]  # fmt: skip
QUESTIONS = (
    Question(id="Q1", text="How good?", scale=Scale(options=(1, 2, 3))),
    Question(id="Q2", text="Resolved?", scale=Scale(kind="binary", options=(0, 1))),
    Question(id="Q3", text="Which tone?", scale=Scale(kind="nominal", options=("warm", "cold"))),
)
CHAT = Sample(Conversation("c1", (Turn("user", "Is it 4?"), Turn("assistant", "It is 4."))))


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield path
    entries = value.items() if isinstance(value, dict) else enumerate(value[:3]) if isinstance(value, list) else ()
    for key, inner in entries:
        yield from places(inner, (*path, key))


def mutated(value: Any, drawn: Random) -> Any:
    """Return a value with one or two parts replaced or removed."""
    for _ in range(drawn.randint(1, 2)):
        path, odd = drawn.choice(list(places(value))), drawn.choice(ODD)
        if not path:
            return odd
        place = value
        for key in path[:-1]:
            place = place[key]
        if drawn.random() < 0.7:
            place[path[-1]] = odd
        else:
            del place[path[-1]]
    return value


def assert_finite(reply: Reply) -> None:
    numbers = [*(reply.first_token or {}).values(), reply.usage.input_tokens, reply.usage.output_tokens]
    assert all(math.isfinite(number) and number >= 0 for number in numbers)
    reply.text.encode("utf-8")
    reply.model.encode("utf-8")


@pytest.mark.parametrize("mode", ["decisions", "systemone", "logprobs", "sampling", "verbalised"])
@settings(max_examples=150, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32))
@pytest.mark.attack
def test_mutated_replies_are_answers_or_unanswered(mode: str, seed: int) -> None:
    drawn = Random(seed)  # replies are made in another thread, where hypothesis draws nothing

    async def fetch(self: Any, path: str, body: Mapping[str, Any] | None = None) -> Any:
        right = json.loads(json.dumps(answer_any({**(body or {}), "_path": path}).body))
        if mode == "verbalised" and drawn.random() < 0.5:
            message = right["choices"][0]["message"]
            message["content"] = json.dumps(mutated(json.loads(message["content"]), drawn))
            return parse_json(json.dumps(right))
        return parse_json(json.dumps(mutated(right, drawn)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "sk-of-this-test")
        patch.setattr(client.Endpoint, "fetch", fetch)
        judge = open_judge(mode, "m1", "http://127.0.0.1:9/v1", "", ClientOptions(attempts=1), samples=2)
        questions = QUESTIONS[: judge.together]
        for answer in wait(judge.answer(CHAT, questions)):
            if isinstance(answer, Answer):
                shares = [*answer.probabilities.values(), answer.outside]
                assert all(math.isfinite(share) and 0 <= share <= 1.001 for share in shares)
                assert sum(shares) == pytest.approx(1.0, abs=0.03) and sum(answer.probabilities.values()) > 1e-7


@settings(max_examples=300, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32))
@pytest.mark.attack
def test_mutated_completions_and_batch_lines_are_replies_or_reasons(seed: int) -> None:
    drawn = Random(seed)
    body = json.loads(json.dumps(answer_any({"_path": "/chat/completions", "messages": [{"content": "x"}]}).body))
    with suppress(AccordError):
        assert_finite(read_chat_reply(parse_json(json.dumps(mutated(json.loads(json.dumps(body)), drawn))), "m1"))
    line = {"custom_id": "k", "response": {"status_code": 200, "body": body}, "error": None}
    for key, found in read_batch(json.dumps(mutated(line, drawn)).encode(), "m1"):
        assert isinstance(key, str)
        if isinstance(found, Reply):
            assert_finite(found)
        else:
            assert found.isprintable() and len(found) < 200
