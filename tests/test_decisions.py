"""A decisions endpoint as a chat model, against a loopback server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from misbehaving_endpoint import Misbehaving, answer_any, fault

from accord import Question, Scale, Store
from accord.edges import BadInput, BudgetReached, ModelError
from accord.models import (
    Budget,
    CallFailed,
    Caps,
    ChatMessage,
    ClientOptions,
    Prompt,
    Reply,
    Usage,
    answer_labels,
    estimated_usage,
    open_uncached,
    wait,
)
from accord.models.factory import open_chat
from accord.models.judges.decisions import (
    DecisionQuestion,
    DecisionsRequest,
    decisions_request_of,
)
from accord.models.requests.wrappers import (
    Cached,
    reply_key,
)
from accord.testing import ChatServer
from accord.testing.server import (
    Respond,
    Wire,
    tokens_in,
)

GOOD = Question(id="Q1", text="How good?", scale=Scale(options=(1, 2, 3)), meanings={"1": "Bad."})
DONE = Question(id="Q2", text="Resolved?", scale=Scale(kind="binary", options=(0, 1)), meanings={"1": "It is."})
TONE = Question(id="Q3", text="Which tone?", scale=Scale(kind="nominal", options=("warm", "cold")))
TEN = Question(id="Q4", text="How long?", scale=Scale(options=tuple(range(1, 11))))
DECIDED = ("decisions", "systemone")
PROMPT = Prompt(
    (ChatMessage("system", "Examples: ..."), ChatMessage("user", "Now this one.")), max_tokens=1, top_logprobs=20
)


@pytest.fixture(autouse=True)
def key(api_key: None) -> None:
    """Set an API key for every test."""


def billed(request: Mapping[str, Any]) -> int:
    """Return the usage that the loopback server reports."""
    return tokens_in(request.get("input") or request["state"], json.dumps(request["questions"]))


def asked(
    mode: str,
    url: str,
    store: Store,
    question: Question = GOOD,
    prompt: Prompt = PROMPT,
    terms: ClientOptions | None = None,
) -> Reply:
    """Return one reply of a new model."""
    opened = open_uncached("m1", url, terms or ClientOptions(attempts=1), mode, question)
    model = Cached(opened, store)
    try:
        return wait(model.ask(prompt))
    finally:
        wait(model.close())


def failed(mode: str, respond: Respond, store: Store, question: Question = GOOD, timeout: float = 60.0) -> str:
    """Return the failure in place of a reply."""
    with ChatServer(respond) as server, pytest.raises(CallFailed) as caught:
        asked(mode, server.url, store, question, terms=ClientOptions(attempts=1, timeout=timeout))
    assert "sk-secret" not in str(caught.value)
    return caught.value.failure.reason


@pytest.mark.parametrize("question", [GOOD, DONE, TONE, TEN], ids=lambda question: question.id)
@pytest.mark.parametrize("mode", DECIDED)
def test_reply_is_the_distribution_of_one_question(mode: str, question: Question, memory: Store) -> None:
    with ChatServer(answer_any) as server:
        reply = asked(mode, server.url, memory, question)
    [request] = server.requests
    assert request["input" if mode == "decisions" else "state"] == "Examples: ...\n\nNow this one."
    assert len(request["questions"]) == 1 and question.text in str(request["questions"])
    assert reply.first_token is not None
    assert list(reply.first_token) == list(answer_labels(question.scale))
    assert 0.9 < sum(reply.first_token.values()) < 1.0 + 1e-9, "outside mass is not redistributed"
    assert reply.text == max(reply.first_token, key=reply.first_token.__getitem__)
    assert (reply.model, reply.usage) == ("m1", Usage(billed(request), 0))


def test_reply_keeps_probabilities_of_options(memory: Store) -> None:
    def told(request: Mapping[str, Any]) -> Wire:
        if request["_path"].endswith("/systemone"):
            return Wire({"answers": {"Q1": {"type": "score", "probabilities": {"0": 0.1, "1": 0.0, "2": 0.6}}}})
        answer = {"type": "predicate", "name": "Q2", "probability": 0.75}
        return Wire({**answer_any(request).body, "answers": [answer], "model": "m1-2026"})  # type: ignore[dict-item]

    with ChatServer(told) as server:
        score = asked("systemone", server.url, memory)
        predicate = asked("decisions", server.url, memory, DONE)
    assert (score.text, score.first_token) == ("3", {"1": 0.1, "2": 0.0, "3": 0.6})
    assert (predicate.text, predicate.first_token, predicate.model) == ("1", {"0": 0.25, "1": 0.75}, "m1-2026")


@pytest.mark.parametrize("mode", DECIDED)
def test_replies_are_stored_by_question_and_dialect(mode: str, memory: Store) -> None:
    with ChatServer(answer_any) as server:
        first = asked(mode, server.url, memory)
        again = asked(mode, server.url, memory)
        assert len(server.requests) == 1 and again.usage == Usage(), "a kept reply costs nothing"
        assert (again.text, again.first_token, again.model) == (first.text, first.first_token, first.model)
        other = GOOD.model_copy(update={"text": "How bad?"})
        assert asked(mode, server.url, memory, other).first_token != first.first_token
        asked(next(dialect for dialect in DECIDED if dialect != mode), server.url, memory)
        asked(mode, server.url, memory, prompt=Prompt((ChatMessage("user", "Another."),)))
        assert len(server.requests) == 4
        kept, other = (open_uncached("m1", server.url, ClientOptions(), mode, of).endpoint for of in (GOOD, DONE))
        assert memory.reply(reply_key(kept, "m1", PROMPT)) is not None, "a plan finds the stored reply"
        assert memory.reply(reply_key(other, "m1", PROMPT)) is None
        chat = open_chat("m1", server.url, memory, ClientOptions(attempts=1))
        assert wait(chat.ask(PROMPT)).model == "loopback", "a chat model's reply is another one"
        wait(chat.close())


@pytest.mark.parametrize("mode", DECIDED)
def test_invalid_answer_is_a_failure_and_is_not_stored(mode: str, memory: Store) -> None:
    expected = {
        "refusal": "refused",
        "another request's answer": "malformed",
        "truncated": "malformed",
        "no logprobs": "malformed",
        "429": "rate-limited",
        "slow": "timeout",
    }
    for kind, reason in expected.items():
        patience = 0.3 if kind == "slow" else 60.0
        wrong = lambda request, kind=kind: fault(kind, request, answer_any(request))  # noqa: E731
        assert failed(mode, wrong, memory, timeout=patience) == reason

    def elsewhere(request: Mapping[str, Any]) -> Wire:
        mass = [{"value": "tepid", "probability": 1.0}]
        answer = {"type": "choice", "choice": "tepid", "confidence": 1.0, "name": "Q3", "probabilities": mass}
        named = {"Q3": {"type": "choice", "choice": "tepid", "probabilities": {"tepid": 1.0}}}
        return Wire({**answer_any(request).body, "answers": [answer] if mode == "decisions" else named})  # type: ignore[dict-item]

    assert failed(mode, elsewhere, memory, TONE) == "no option"
    with ChatServer(answer_any) as server:
        assert asked(mode, server.url, memory, TONE).text in {"A", "B"}
        assert len(server.requests) == 1
    with ChatServer(lambda _: Wire({"error": {}}, status=404)) as server, pytest.raises(ModelError, match="no model"):
        asked(mode, server.url, memory)


@pytest.mark.parametrize("mode", DECIDED)
def test_passing_faults_are_retried_and_refusals_are_not(mode: str, memory: Store) -> None:
    flaky = Misbehaving(share=0.6, kinds=("429", "truncated"), seed=1)
    with ChatServer(flaky) as server:
        for place in range(3):
            prompt = Prompt((ChatMessage("user", f"{place}"),))
            assert asked(mode, server.url, memory, prompt=prompt, terms=ClientOptions(attempts=12)).first_token
    assert sum(flaky.met.values()) > 0
    refusing = lambda request: fault("refusal", request, answer_any(request))  # noqa: E731
    with ChatServer(refusing) as server, pytest.raises(CallFailed, match="refused"):
        asked(mode, server.url, memory, terms=ClientOptions(attempts=12))
    assert len(server.requests) == 1


@pytest.mark.parametrize("mode", DECIDED)
def test_budget_counts_sent_requests(mode: str, memory: Store) -> None:
    long = Prompt((ChatMessage("user", "long " * 4000),))
    estimate = estimated_usage(decisions_request_of(long, GOOD))
    assert estimate.input_tokens > 5000 and estimate.output_tokens == 0
    with ChatServer(answer_any) as server:
        terms = ClientOptions(budget=Budget(Caps(tokens=5000), {}))
        with pytest.raises(BudgetReached, match="exceed the budget of 5,000 tokens"):
            asked(mode, server.url, memory, prompt=long, terms=terms)
        assert not server.requests
        asked(mode, server.url, memory, terms=terms)
        asked(mode, server.url, memory, terms=terms)
        assert (terms.budget.requests, terms.budget.spent) == (1, Usage(billed(server.requests[0]), 0)), (
            "a kept reply is not paid for"
        )
        asked(mode, server.url, memory, prompt=long, terms=ClientOptions())


def test_request_has_no_invalid_characters() -> None:
    odd = Prompt((ChatMessage("user", "half a pair \ud83d"), ChatMessage("assistant", "")))
    assert decisions_request_of(odd, DONE) == DecisionsRequest(
        "half a pair \ufffd\n\n", (DecisionQuestion("Q2", "predicate", "Resolved? yes: It is."),)
    )


def test_unsupported_questions_and_modes_are_errors(memory: Store) -> None:
    real = Question(id="Q5", text="How much?", scale=Scale(kind="real", low=0, high=1))
    many = Question(id="Q6", text="How much?", scale=Scale(options=tuple(range(11))))
    pairs = Question(id="Q7", text="Which is better?", scale=GOOD.scale, applies="pairs")
    for question, said in ((real, r"'Q5' \(0.0 to 1.0\)"), (many, r"'Q6' \(0, 1, "), (pairs, "about one conversation")):
        with pytest.raises(BadInput, match=said):
            open_uncached("m1", "http://one.test/v1", ClientOptions(), "decisions", question)
    with pytest.raises(BadInput, match="'gguf:x' runs in this process and has no systemone endpoint"):
        open_uncached("gguf:x", None, ClientOptions(), "systemone", GOOD)
    url = "http://user:sk-secret@one.test/v1?key=sk-secret"
    kept_under = open_uncached("m1", url, ClientOptions(), "decisions", GOOD).endpoint
    assert kept_under.startswith("http://one.test/v1/") and "secret" not in kept_under
