"""Request counts: requests that were sent count against the budget, and a run spends what its plan states."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from commands import invoke
from misbehaving_endpoint import answer_any
from scripted_models import Finder
from small_sample import sources
from waiting import PATIENCE

from accord.edges import BudgetReached, NotSent
from accord.models import (
    Budget,
    CallFailed,
    Caps,
    ChatMessage,
    ClientOptions,
    Failure,
    Prompt,
    ScriptedModel,
    wait,
)
from accord.models.factory import wrap_wire
from accord.models.requests.budget import Budgeted
from accord.models.requests.client import ChatCompletions
from accord.testing import (
    ChatServer,
    completion,
)
from accord.testing.server import Wire

QUESTIONS = 9
"""Questions of the shipped rubric that a judge can be asked."""
CONVERSATIONS = 6
REFUSED = "127.0.0.1:9"
"""The discard port, which has no server."""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "hush")
    for name in ("ACCORD_STORE", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    chats, ratings = sources()
    lines = chats.read_text(encoding="utf-8").splitlines(keepends=True)[:CONVERSATIONS]
    Path("chats.jsonl").write_text("".join(lines), encoding="utf-8")
    ids = [json.loads(line)["id"] for line in lines]
    pl.read_csv(ratings).filter(pl.col("conversation").is_in(ids)).write_csv("ratings.csv")
    return tmp_path


run = partial(invoke, code=None)


def configure(models: str, more: str = "") -> None:
    """Write a project with these models, and import the conversations."""
    Path("accord.yaml").write_text(f"metrics: [words]\nmodels: {{{models}}}\n{more}", encoding="utf-8")
    invoke("import", "chats.jsonl", "ratings.csv")


def prompt() -> Prompt:
    return Prompt((ChatMessage("user", "hello"),))


@pytest.mark.parametrize("mode", ["logprobs", "sampling", "verbalised", "decisions"])
def test_judge_without_key_sends_nothing_and_names_the_variable_once(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    configure(f"judge: {{mode: {mode}, model: m1}}")
    result = run("judge", "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 1 and result.stderr.count("OPENAI_API_KEY") == 1 and "spent" not in result.stderr
    assert (found["answered"], found["failed"], found["not_asked"]) == (0, 0, CONVERSATIONS * QUESTIONS)
    assert found["spent"]["requests"] == 0 and "OPENAI_API_KEY" in found["stopped"]
    counts = f"0 answers (0 requests sent in this run), 0 failed, {CONVERSATIONS * QUESTIONS} not asked"
    assert counts in run("judge").stdout


@pytest.mark.parametrize("host", [REFUSED, "nowhere.invalid:4000"])
def test_judge_stops_at_an_endpoint_that_accepts_no_connection(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCORD_TRUST", "1")
    configure(f"judge: {{mode: logprobs, model: m1, base_url: 'http://user:password@{host}/v1'}}")
    result = run("judge", "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 1 and found["spent"]["requests"] == 0
    assert f"cannot connect to {host} " in result.stderr and f"cannot connect to {host} " in found["stopped"]
    assert "password" not in result.output


@pytest.mark.parametrize(
    ("respond", "reason"),
    [
        (lambda _: Wire({"error": {}}, status=500), "server"),
        (lambda _: Wire(b"{", close_after=0, headers={"Content-Length": "9"}), "unreachable"),
        (lambda _: Wire(b"nothing", headers={"Content-Type": "text/plain"}), "malformed"),
    ],
)
def test_failed_request_counts_if_it_was_sent(respond: Callable[[Any], Wire], reason: str) -> None:
    with ChatServer(respond) as server:
        configure(f"judge: {{mode: logprobs, model: m1, base_url: '{server.url}', attempts: 1}}")
        result = run("judge", "--json", "--limit", "2")
        found = json.loads(result.stdout)
    assert result.exit_code == 5 and set(found["unanswered"]) == {reason}
    assert found["failed"] == 2 * QUESTIONS and found["spent"]["requests"] == len(server.requests) == 2 * QUESTIONS


REFUSED_KEY = Wire({"error": {}}, status=401)
LOGPROBS = "judge: {{mode: logprobs, model: m1, base_url: '{url}', attempts: 1, concurrency: 2}}"
VERBALISED = "judge: {{mode: verbalised, model: m1, base_url: '{url}', attempts: 1, concurrency: 2}}"
ISSUES = "finder: {{model: m1, base_url: '{url}', attempts: 1, concurrency: 2}}"


@pytest.mark.parametrize(
    ("models", "respond", "arguments", "reasons"),
    [
        (LOGPROBS, answer_any, ["--max-requests", "7"], set()),
        (LOGPROBS, lambda _: REFUSED_KEY, [], {"model error"}),
        (LOGPROBS, lambda _: Wire({"error": {}}, status=500), ["--max-requests", "7"], {"server"}),
        (VERBALISED, answer_any, ["--max-requests", "2"], set()),
        (VERBALISED, lambda _: REFUSED_KEY, [], {"model error"}),
        (ISSUES, lambda _: REFUSED_KEY, [], {"model error"}),
        (ISSUES, lambda _: Wire({"error": {}}, status=500), ["--max-requests", "2"], {"server"}),
    ],
    ids=["budget", "key", "failing", "written-budget", "written-key", "finder-key", "finder-failing"],
)
def test_stopped_run_counts_sent_failed_and_unsent_requests(
    models: str, respond: Callable[[Any], Wire], arguments: list[str], reasons: set[str]
) -> None:
    with ChatServer(respond) as server:
        configure(models.format(url=server.url))
        result = run("judge", "--json", *arguments)
        found, sent = json.loads(result.stdout), len(server.requests)
        assert found["spent"]["requests"] == sum(found["requests"].values()) == sent > 0
        assert f"spent: {sent} requests" in result.stderr and result.exit_code == (4 if arguments else 1)
        assert set(found["unanswered"]) - {"not judged yet", "not asked yet"} == reasons
        assert found["failed"] == sum(found["unanswered"].get(reason, 0) for reason in reasons)
        assert found["not_asked"] == sum(found["unanswered"].values()) - found["failed"] > 0
        assert (found["failed"] > 0) == bool(reasons) and (found["answered"] > 0) == (not reasons)
        if models is LOGPROBS:
            assert found["answered"] + found["failed"] == sent
            assert sent + found["not_asked"] == CONVERSATIONS * QUESTIONS
        text = run("judge", *arguments).stdout
        assert f"({len(server.requests) - sent} requests sent in this run)" in text and " not asked" in text


def test_timed_out_request_counts() -> None:
    released = threading.Event()
    with ChatServer(lambda request: (released.wait(PATIENCE), answer_any(request))[1]) as server:
        budget = Budget(Caps(), {})
        wire = ChatCompletions("m1", server.url, timeout=0.2)
        with pytest.raises(CallFailed, match="timeout") as caught:
            wait(wrap_wire(wire, ClientOptions(attempts=1, budget=budget)).ask(prompt()))
        released.set()
    assert caught.value.failure.is_sent and budget.requests == 1 and budget.spent.total > 0


def test_budget_stays_hard_after_unsent_requests() -> None:
    model = ScriptedModel([Failure("unreachable", is_sent=False), "yes", "never"])
    budget = Budget(Caps(requests=1), {})
    budgeted = Budgeted(model, budget)
    with pytest.raises(CallFailed):
        wait(budgeted.ask(prompt()))
    assert (budget.requests, budget.spent.total) == (0, 0)
    assert wait(budgeted.ask(prompt())).text == "yes"
    with pytest.raises(BudgetReached):
        wait(budgeted.ask(prompt()))
    assert budget.requests == 1 and len(model.asked) == 2


def test_refused_connection_is_retried_only_after_an_answer() -> None:
    refused = Failure("unreachable", "cannot connect", is_sent=False)
    for script, attempts in (([refused] * 9, 1), (["yes", *[refused] * 9], 1 + 2)):
        model = ScriptedModel(script)
        model.endpoint = "http://here/"  # type: ignore[attr-defined]
        budget = Budget(Caps(), {})
        asked = wrap_wire(model, ClientOptions(attempts=2, budget=budget))
        if script[0] == "yes":
            wait(asked.ask(prompt()))
        for _ in range(2):
            with pytest.raises(NotSent, match="cannot connect for model 'scripted': nothing was sent"):
                wait(asked.ask(prompt()))
            assert len(model.asked) == attempts
            attempts += 1
        assert budget.requests == (script[0] == "yes")


# --- plans --------------------------------------------------------------------------------------------------------


def is_dialogue(request: Any) -> bool:
    return "turns" in request.get("response_format", {}).get("json_schema", {}).get("schema", {}).get("properties", {})


def verdict_of_unknown_kind(request: Any) -> Wire:
    """No verdict on a dialogue; on a turn one with a loss and with an issue of an unknown kind; no list of kinds."""
    issue = {"type": "bad manners", "comment": str(hash(request["messages"][0]["content"])), "quote": ""}
    return completion("?" if is_dialogue(request) else json.dumps({"issues": [issue, 1], "comment": "", "score": 2}))


class Failing:
    """Fails each request with a 503 until it is sent for the last time."""

    def __init__(self, respond: Callable[[Any], Wire], attempts: int) -> None:
        self.respond, self.attempts, self.sent = respond, attempts, Counter[str]()
        self.lock = threading.Lock()

    def __call__(self, request: Any) -> Wire:
        with self.lock:
            key = json.dumps(request)
            self.sent[key] += 1
            fails = self.sent[key] % self.attempts
        return Wire({"error": {}}, status=503, headers={"Retry-After": "0"}) if fails else self.respond(request)


FINDER = "finder: {{model: m1, base_url: '{url}', attempts: 2}}"
JUDGE = "judge: {{mode: {mode}, samples: 3, model: m1, base_url: '{url}', attempts: 2}}"


@pytest.mark.parametrize(
    ("models", "respond", "expected"),
    [
        (FINDER, lambda: Finder(), "fewest"),
        (FINDER, lambda: lambda request: completion("I cannot say."), "between"),
        (FINDER, lambda: verdict_of_unknown_kind, "most"),
        (FINDER, lambda: Failing(verdict_of_unknown_kind, 2), "retried"),
        (JUDGE.replace("{mode}", "sampling"), lambda: answer_any, "fewest"),
        (JUDGE.replace("{mode}", "sampling"), lambda: lambda request: completion("I cannot say."), "fewest"),
        (JUDGE.replace("{mode}", "verbalised"), lambda: answer_any, "fewest"),
        (JUDGE.replace("{mode}", "verbalised"), lambda: lambda request: completion("?"), "fewest"),
        (JUDGE.replace("{mode}", "verbalised"), lambda: Failing(answer_any, 2), "retried"),
    ],
)
def test_run_sends_the_requests_of_its_plan(
    models: str, respond: Callable[[], Callable[[Any], Wire]], expected: str
) -> None:
    with ChatServer(respond()) as server:
        configure(models.format(url=server.url))
        planned = run("judge", "--plan", "--json", "--source", "issues" if models is FINDER else "rubric")
        plan = json.loads(planned.stdout)
        assert not server.requests
        done = json.loads(run("judge", "--json", "--source", "issues" if models is FINDER else "rubric").stdout)
        spent = done["spent"]["requests"]
    fewest, most = plan["min_requests"], plan["max_requests"]
    assert spent == len(server.requests) and plan["attempts"] == 2
    assert {
        "fewest": spent == fewest == plan["requests"],
        "between": fewest < spent < most,
        "most": spent == most > fewest,
        "retried": spent == 2 * most,
    }[expected], (fewest, spent, most)


def test_plan_states_its_range() -> None:
    configure(FINDER.format(url=f"http://{REFUSED}/v1"))
    said = run("judge", "--plan").stdout
    assert "15 to 54 requests; 15 expected" in said
    assert "a request that fails is sent up to 2 times; each time counts" in said
