"""Every mode of a judge against a loopback server with and without faults, and the wrappers of models."""

from __future__ import annotations

import asyncio
import json
import math
import time
from pathlib import Path
from typing import Any

import pytest
from commands import accord_json, invoke, refused, write
from misbehaving_endpoint import FAULTS, Misbehaving, answer_any, fault
from new_project import new_project

from accord import Conversation, Document, Question, Scale, Store, Turn
from accord import open as open_project
from accord.edges import BadInput, BudgetReached
from accord.models import (
    Answer,
    Budget,
    CallFailed,
    Caps,
    ChatMessage,
    ClientOptions,
    EmbeddingText,
    Failure,
    Models,
    Prompt,
    Reply,
    Request,
    ScriptedModel,
    Unanswered,
    Usage,
    attacks,
    estimated_usage,
    open_judge,
    wait,
)
from accord.models.judges.chat_judges import (
    frequencies,
    read_stated,
)
from accord.models.requests.budget import (
    Budgeted,
    Price,
    load_prices,
)
from accord.models.requests.client import ChatCompletions
from accord.models.requests.wrappers import (
    Cached,
    Limit,
    Limited,
    Retrying,
)
from accord.project import config_from
from accord.testing import (
    ChatServer,
    completion,
)
from accord.testing.server import Wire
from accord.values import Sample

OPTIONS = Scale(options=(1, 2, 3))
QUESTIONS = [
    Question(id="Q1", text="How good?", scale=OPTIONS, meanings={"1": "Bad."}),
    Question(id="Q2", text="Resolved?", scale=Scale(kind="binary", options=(0, 1)), meanings={"1": "It is."}),
    Question(id="Q3", text="Which tone?", scale=Scale(kind="nominal", options=("warm", "cold"))),
    Question(id="Q4", text="How long?", scale=Scale(options=tuple(range(1, 11)))),
]
MODES = ("decisions", "systemone", "logprobs", "sampling", "verbalised")
CHAT = Conversation("c1", (Turn("user", "Is it 4?"), Turn("assistant", "It is 4.")), (Document("Four."),))


@pytest.fixture(autouse=True)
def key(api_key: None) -> None:
    """Set an API key for every test."""


def prompt(text: str = "hello", **fields: Any) -> Prompt:
    return Prompt((ChatMessage("user", text),), **fields)


def judged(
    mode: str, respond: Any, terms: ClientOptions | None = None, sample: Sample | None = None
) -> tuple[list[Any], ChatServer]:
    """Return the answers to all questions, and the loopback server."""
    with ChatServer(respond) as server:
        judge = open_judge(mode, "m1", server.url, "Judge.", terms or ClientOptions(attempts=1), samples=5)

        async def ask() -> list[Any]:
            groups = [QUESTIONS[i : i + judge.together] for i in range(0, len(QUESTIONS), judge.together)]
            return [answer for group in groups for answer in await judge.answer(sample or Sample(CHAT), group)]

        try:
            return wait(ask()), server
        finally:
            wait(judge.close())


def test_unknown_mode_lists_the_same_modes_everywhere() -> None:
    listed = "decisions, systemone, logprobs, sampling, verbalised, recorded, number"
    with pytest.raises(BadInput, match=f"no judge by mode 'logprobz'; allowed: {listed}"):
        open_judge("logprobz", "m1", "http://one.test/v1", "", ClientOptions(), 1)
    with pytest.raises(BadInput, match="got 'logprobz'") as caught:
        config_from({"models": {"judge": {"model": "m1", "mode": "logprobz"}}})
    assert str(caught.value).replace("'", "").replace(" or ", ", ").count(listed) == 1


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_gives_distributions_with_outside_mass(mode: str) -> None:
    answers, server = judged(mode, answer_any)
    for question, answer in zip(QUESTIONS, answers, strict=True):
        assert isinstance(answer, Answer), answer
        assert set(answer.probabilities) == {str(option) for option in question.scale.options}
        assert sum(answer.probabilities.values()) + answer.outside == pytest.approx(1.0)
    expected = {"decisions": 1, "systemone": 1, "logprobs": 4, "sampling": 20, "verbalised": 1}
    assert len(server.requests) == expected[mode], "questions go together where the wire allows it"


def test_decisions_request_has_types_and_a_fenced_conversation() -> None:
    _, server = judged("decisions", answer_any)
    [request] = server.requests
    assert [question["type"] for question in request["questions"]] == ["score", "predicate", "choice", "score"]
    assert request["questions"][0]["levels"][0] == {"label": "1", "description": "Bad."}
    assert request["input"].startswith("Judge.\n\n=====[") and "It is 4." in request["input"]
    _, server = judged("systemone", answer_any, sample=Sample(CHAT, turn=0))
    [request] = server.requests
    assert request["questions"]["Q1"]["criteria"] == ["1: Bad.", "2", "3"]
    assert request["questions"]["Q2"]["type"] == "noul"
    assert "It is 4." not in request["state"], "a turn is judged with the turns before it"


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("mode", MODES)
def test_faults_are_never_answers(mode: str, kind: str) -> None:
    if kind == "no logprobs" and mode in {"sampling", "verbalised"}:
        pytest.skip("this way needs none")
    terms = ClientOptions(attempts=1, timeout=0.3 if kind == "slow" else 60.0)
    answers, _ = judged(mode, lambda request: fault(kind, request, answer_any(request)), terms)
    lost = [answer for answer in answers if isinstance(answer, Unanswered)]
    if kind == "refusal" and mode in {"decisions", "systemone"}:
        assert [answer.reason for answer in lost] == ["refused"], "one refused question does not lose the others"
    else:
        assert len(lost) == len(QUESTIONS)
        assert all(answer.reason for answer in lost)
    assert "sk-secret" not in str(answers)


@pytest.mark.parametrize("mode", MODES)
def test_passing_faults_are_retried(mode: str) -> None:
    flaky = Misbehaving(share=0.4, kinds=("429", "500", "truncated", "half-closed", "wrong content type"), seed=3)
    answers, _ = judged(mode, flaky, ClientOptions(attempts=12))
    assert all(isinstance(answer, Answer) for answer in answers) and sum(flaky.met.values()) > 0


# --- reading ------------------------------------------------------------------------------------------------------


def test_frequencies_are_smoothed_and_other_replies_are_outside() -> None:
    answer = frequencies(QUESTIONS[0], ["2", " 2.", "3", "well"])
    assert isinstance(answer, Answer) and answer.outside == pytest.approx(0.25)
    assert answer.probabilities == pytest.approx({"1": 0.75 * 0.5 / 4.5, "2": 0.75 * 2.5 / 4.5, "3": 0.75 * 1.5 / 4.5})
    lost = frequencies(QUESTIONS[0], ["well", "2", "I would say 3", "4"])
    assert isinstance(lost, Unanswered) and lost.reason == "no option"


@pytest.mark.parametrize(
    ("stated", "reason"),
    [
        ({"1": 0.5, "2": 0.4, "3": 0.1}, None),
        ({"1": 0.5, "2": 0.4, "3": 0.0}, None),
        ({"1": 0.5, "2": 0.4}, "invalid JSON"),
        ({"1": 0.5, "2": 0.4, "3": 0.1, "4": 0.0}, "invalid JSON"),
        ({"1": 50, "2": 40, "3": 10}, "no distribution"),
        ({"1": 1.5, "2": -0.5, "3": 0.0}, "no distribution"),
        ({"1": "0.5", "2": 0.4, "3": 0.1}, "no distribution"),
        ({"1": True, "2": 0, "3": 0}, "no distribution"),
        ({"1": 5e-324, "2": 0, "3": 0}, "no distribution"),
        ({"1": 0, "2": 0, "3": 0}, "no distribution"),
        ({"1": 0.2, "2": 0.2, "3": 0.0}, "no distribution"),
        ({"1": 0.3, "2": 0.3, "3": 0.0}, None),
        ("2", "invalid JSON"),
        (None, "invalid JSON"),
    ],
)
def test_invalid_stated_numbers_are_unanswered(stated: Any, reason: str | None) -> None:
    answer = read_stated(QUESTIONS[0], stated)
    assert getattr(answer, "reason", None) == reason


# --- wrappers -----------------------------------------------------------------------------------------------------


def test_equal_prompts_in_progress_are_sent_once(memory: Store) -> None:
    class Slow(ScriptedModel):
        async def ask(self, prompt: Prompt) -> Reply:
            await asyncio.sleep(0.02)
            return await super().ask(prompt)

    model = Slow(lambda p: p.messages[0].content.upper())

    async def ask() -> list[Any]:
        once = Cached(model, memory)
        leaver = asyncio.create_task(once.ask(prompt("a")))
        await asyncio.sleep(0)
        others = [asyncio.create_task(once.ask(p)) for p in (prompt("a"), prompt("a", repeat=1), prompt("b"))]
        leaver.cancel()
        return [reply.text for reply in await asyncio.gather(*others)]

    assert wait(ask()) == ["A", "A", "B"]
    assert len(model.asked) == 3


def test_replies_are_stored_and_failures_are_not(memory: Store) -> None:
    failing = [Failure("server"), Reply("fine", usage=Usage(5, 1))]
    model = ScriptedModel(failing)
    cached = Cached(model, memory)
    with pytest.raises(CallFailed):
        wait(cached.ask(prompt()))
    assert wait(cached.ask(prompt())).text == "fine"
    again = wait(cached.ask(prompt()))
    assert again.text == "fine" and again.usage == Usage(), "a stored reply costs nothing"
    assert len(model.asked) == 2
    other = ScriptedModel(["other"])
    other.endpoint = "http://there"
    elsewhere = Cached(other, memory)
    assert wait(elsewhere.ask(prompt())).text == "other", "the same name at another endpoint is another model"


def test_retries_wait_and_stop_on_permanent_failures() -> None:
    model = ScriptedModel([Failure("rate-limited", retry_after=0.15), Failure("server"), "done"])
    start = time.monotonic()
    assert wait(Retrying(model, first=0.01).ask(prompt())).text == "done"
    assert time.monotonic() - start > 0.15
    for script, asked in (
        ([Failure("refused")], 1),
        ([Failure("rate-limited", retry_after=3600.0)], 1),
        ([Failure("timeout")] * 9, 3),
    ):
        model = ScriptedModel(script)
        with pytest.raises(CallFailed):
            wait(Retrying(model, attempts=3, first=0.001).ask(prompt()))
        assert len(model.asked) == asked


def test_limit_grows_slowly_and_shrinks_on_rate_limits() -> None:
    limit = Limit(most=20, start=4)
    most = 0

    class Counting(ScriptedModel):
        async def ask(self, prompt: Prompt) -> Reply:
            nonlocal most
            most = max(most, limit.running)
            await asyncio.sleep(0.001)
            return await super().ask(prompt)

    async def many(count: int) -> None:
        limited = Limited(Counting(lambda p: "x"), limit)
        await asyncio.gather(*(limited.ask(prompt(str(i))) for i in range(count)))

    wait(many(8))
    assert most <= 6
    wait(many(300))
    assert 15 < limit.height <= 20 and most <= 20 and limit.running == 0
    before = limit.height
    limit.slow_down()
    limit.slow_down()
    assert limit.height == pytest.approx(before * 0.7), "a burst shrinks it once"


def test_cancelled_wait_releases_its_slot() -> None:
    async def run() -> int:
        limit = Limit(most=1, start=1)

        async def hold(seconds: float) -> None:
            async with limit:
                await asyncio.sleep(seconds)

        holder = asyncio.create_task(hold(0.02))
        await asyncio.sleep(0)
        waiters = [asyncio.create_task(hold(0)) for _ in range(5)]
        await asyncio.sleep(0)
        for waiter in waiters[::2]:
            waiter.cancel()
        await asyncio.gather(holder, *waiters, return_exceptions=True)
        return limit.running

    assert wait(run()) == 0


# --- budget -------------------------------------------------------------------------------------------------------


def test_budget_stops_before_the_request_that_would_exceed_it() -> None:
    prices = {"scripted": Price(input=10.0, output=30.0)}
    for caps, calls in ((Caps(requests=3), 3), (Caps(tokens=1000), 3), (Caps(money=0.01), 2)):
        model = ScriptedModel(lambda p: Reply("x", usage=Usage(200, 50)))
        budget = Budget(caps, prices)
        budgeted = Budgeted(model, budget)
        done = 0
        with pytest.raises(BudgetReached, match="the next request would exceed") as caught:
            for i in range(50):
                wait(budgeted.ask(prompt(str(i), max_tokens=100)))
                done += 1
        assert caught.value.exit_code == 4
        assert calls <= done <= 4 and len(model.asked) == done
        assert budget.spent == Usage(200 * done, 50 * done)
        assert budget.money == pytest.approx(done * (200 * 10 + 50 * 30) / 1e6)


def spent_at(usage: Any, cap: int) -> tuple[Budget, int]:
    """Return the budget and the number of prompts of 400 characters until it is spent."""

    def respond(request: Any) -> Wire:
        return Wire({**completion("x" * 80).body, "usage": usage})  # type: ignore[dict-item]

    budget = Budget(Caps(tokens=cap), {})
    with ChatServer(respond) as server:
        wire = ChatCompletions("m1", server.url)
        with pytest.raises(BudgetReached):
            for place in range(100):
                wait(Budgeted(wire, budget).ask(prompt(f"{place:<400}", max_tokens=20)))
        wait(wire.close())
    return budget, len(server.requests)


@pytest.mark.parametrize(
    "usage",
    [
        None, "much", [], {}, {"prompt_tokens": None, "completion_tokens": None},
        *({"prompt_tokens": n, "completion_tokens": n} for n in (-5, -1e9, 0, 1, math.nan, math.inf, -math.inf, "9", True)),
    ],
    ids=repr,
)  # fmt: skip
def test_budget_is_hard_for_any_reported_usage(usage: Any) -> None:
    honest, sent = spent_at({"prompt_tokens": 100, "completion_tokens": 20}, 2000)
    assert honest.spent == Usage(100 * sent, 20 * sent)
    budget, asked = spent_at(usage, 2000)
    assert asked <= sent, "not one more than with an honest report"
    estimate = estimated_usage(prompt(f"{0:<400}", max_tokens=20))
    assert budget.spent == Usage(asked * estimate.input_tokens, asked * (len(json.dumps("x" * 80)) // 4 + 1))


def test_budget_counts_invalid_answers() -> None:
    for failure, is_billed in (("malformed", True), ("refused", True), ("timeout", True), ("rate-limited", False)):
        budget = Budget(Caps(), {})
        with pytest.raises(CallFailed):
            wait(Budgeted(ScriptedModel([Failure(failure)]), budget).ask(prompt(max_tokens=7)))
        assert budget.requests == 1 and bool(budget.spent.total) == is_billed, failure


@pytest.mark.parametrize("cap", ["nan", "inf", "-inf", "-1"])
@pytest.mark.attack
def test_invalid_cap_is_an_error(cap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    new_project()
    with open_project("accord.yaml") as project, pytest.raises(BadInput, match=r"budget: money: .*, got"):
        project.cap(money=float(cap))
    for command in (["judge"], ["fit", "in-context"]):
        result = invoke(*command, f"--max-money={cap}", code=None)
        assert (
            result.exit_code == 1
            and (
                "accord: budget: money: Input should be greater than or equal to 0, got -1"
                if cap == "-1"
                else "takes a finite number"
            )
            in result.stderr
            and result.stderr.count("\n") == 1
        )
    Path("accord.yaml").write_text(
        f"budget: {{money: {cap.replace('nan', '.nan').replace('inf', '.inf')}}}\n", encoding="utf-8"
    )
    result = invoke("judge", code=None)
    said = "budget.money" if cap == "-1" else "is not a finite number"
    assert result.exit_code == 1 and said in result.stderr


def test_budget_stops_embeddings_and_keeps_earlier_vectors(memory: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def embeds(request: Any) -> Wire:
        return Wire({"data": [{"index": i, "embedding": [1.0, i]} for i, _ in enumerate(request["input"])]})

    texts = [Request("embedder", EmbeddingText("endpoint:e1", f"text {place}")) for place in range(200)]
    with ChatServer(embeds) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        models = Models({}, memory, Budget(Caps(requests=2), {}))
        with pytest.raises(BudgetReached, match="budget of 2 requests"):
            wait(models.answer(texts))
        models.close()
        assert len(server.requests) == 2 and models.budget.spent.input_tokens > 100
        again = Models({}, memory)
        assert len(wait(again.answer(texts))) == 200
        again.close()
        assert len(server.requests) == 4 and sum(len(each["input"]) for each in server.requests) == 200


def test_budget_counts_requests_in_progress() -> None:
    class Slow(ScriptedModel):
        async def ask(self, prompt: Prompt) -> Reply:
            await asyncio.sleep(0.01)
            return await super().ask(prompt)

    async def many() -> list[Any]:
        budgeted = Budgeted(Slow(lambda p: "x"), Budget(Caps(requests=5), {}))
        return await asyncio.gather(*(budgeted.ask(prompt(str(i))) for i in range(20)), return_exceptions=True)

    results = wait(many())
    assert sum(isinstance(result, Reply) for result in results) == 5
    assert sum(isinstance(result, BudgetReached) for result in results) == 15


def test_prices_come_from_the_file_and_a_missing_one_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_prices() == {}
    Path("prices.yaml").write_text("models: {m1: {input: 1, output: 2}}\n", encoding="utf-8")
    assert load_prices()["m1"].of(Usage(1_000_000, 500_000)) == 2.0
    Path("prices.yaml").write_text("models: {m1: {input: 1, outptu: 2}}\n", encoding="utf-8")
    with pytest.raises(BadInput, match="Did you mean 'output'"):
        load_prices()
    Path("prices.yaml").write_text("[]\n", encoding="utf-8")
    with pytest.raises(BadInput, match=r"^prices.yaml: should be a mapping of keys to values, got \[\]$"):
        load_prices()
    with pytest.raises(BadInput, match="no price for model 'scripted', which a budget in money needs"):
        wait(Budgeted(ScriptedModel(["x"]), Budget(Caps(money=1.0), {})).ask(prompt()))


def test_answers_of_two_endpoints_have_different_keys() -> None:
    keys = set()
    for url in ("http://one.test/v1", "http://user:secret@two.test/v1?key=secret"):
        for mode in MODES:
            judge = open_judge(mode, "m1", url, "", ClientOptions(), 3)
            made = judge.made_from(Sample(CHAT), QUESTIONS[0])
            keys.add(str(made))
            assert "secret" not in str(made)
            wait(judge.close())
    assert len(keys) == 2 * len(MODES)


@pytest.mark.parametrize(
    "attack", [text for _, text in attacks("3")][:13] + [" ".join(t for _, t in attacks("3")), "3"]
)
@pytest.mark.parametrize("mode", MODES)
def test_hostile_transcript_changes_no_parsing(mode: str, attack: str) -> None:
    hostile = Sample(Conversation("c", (Turn("user", attack), Turn("assistant", attack))))

    def steady(request: Any) -> Wire:
        """A model that ignores the conversation."""
        blind = {**request, "input": "", "state": ""}
        if "messages" in request:
            blind["messages"] = [
                {
                    "content": "Answer with one of "
                    + request["messages"][0]["content"].rsplit("Answer with one of ", 1)[-1]
                }
            ]
        blind.pop("temperature", None) if mode == "logprobs" else None
        return answer_any(blind)

    calm = Sample(Conversation("c", (Turn("user", "hello"), Turn("assistant", "hi"))))
    if mode == "sampling":
        answers, _ = judged(mode, steady, sample=hostile)
        assert all(isinstance(answer, Answer) for answer in answers)
        return
    if mode == "verbalised":
        answers, _ = judged(mode, answer_any, sample=hostile)
        assert all(isinstance(answer, Answer) for answer in answers)
        return
    assert judged(mode, steady, sample=hostile)[0] == judged(mode, steady, sample=calm)[0]


def checked(respond: Any) -> dict[str, Any]:
    with ChatServer(respond) as server:
        arguments = ["models", "check", "m1", "--base-url", server.url, "--timeout", "30", "--json"]
        result = invoke(*arguments)
    return json.loads(result.stdout)  # type: ignore[no-any-return]


def test_capabilities_need_evidence_in_the_reply() -> None:
    found = checked(answer_any)
    assert {c["capability"]: c["able"] for c in found["capabilities"]} == dict.fromkeys(
        ["chat", "logprobs", "json schema", "decisions", "systemone", "echo", "context length"], True
    )
    assert found["best_mode"] == "decisions"
    assert "8192 tokens" in str(found)


def test_check_takes_a_role_and_reads_the_project_and_its_env_file(
    working_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):  # set by the command, and restored after the test
        monkeypatch.setenv(name, "x")
        monkeypatch.delenv(name)
    with ChatServer(answer_any) as server:
        write("accord.yaml", f"models: {{judge: {{model: m7, mode: sampling, base_url: '{server.url}'}}}}\n")
        write(".env", "OPENAI_API_KEY=sk-of-the-env-file\n")
        said = invoke("models", "check", "judge").stdout
        assert "mode: decisions" in said and "accord.yaml sets mode: sampling" in said
        assert {request["model"] for request in server.requests if "model" in request} == {"m7"}
        write(".env", f"OPENAI_API_KEY=sk-of-the-env-file\nOPENAI_BASE_URL={server.url}\n")
        assert accord_json("models", "check", "m9")["model"] == "m9"
    assert "no model configured for role 'scorer'" in refused("models", "check", "scorer")


def test_llama_cpp_states_context_and_reasons() -> None:
    def llama(request: Any) -> Wire:
        if request["_path"].endswith("/models"):
            about = {"id": "/models/a.gguf", "owned_by": "llamacpp", "meta": {"n_ctx_train": 131072, "n_ctx": 4096}}
            return Wire({"object": "list", "data": [about]})
        if request["_path"].endswith("/chat/completions"):
            return answer_any(request)
        return Wire(
            {"error": {"code": 501, "message": "This server does not support it. Start it with --x"}}, status=501
        )

    shown = {c["capability"]: (c["able"], c["shown_by"]) for c in checked(llama)["capabilities"]}
    assert shown["context length"] == (True, "4096 tokens")
    assert not shown["echo"][0] and "HTTP 501): This server does not support it. Start it with --x" in shown["echo"][1]


def test_endpoint_that_ignores_parameters_lacks_capabilities() -> None:
    def only_chat(request: Any) -> Wire:
        if request["_path"].endswith("/chat/completions"):
            return answer_any({k: v for k, v in request.items() if k not in {"logprobs", "response_format"}})
        if request["_path"].endswith("/completions"):
            return answer_any({**request, "echo": False})
        return Wire({"error": {"message": "no such path"}}, status=404)

    found = checked(only_chat)
    shown = {c["capability"]: (c["able"], c["shown_by"]) for c in found["capabilities"]}
    assert shown["chat"][0] and found["best_mode"] == "sampling"
    assert shown["logprobs"] == (False, "no token probabilities in the reply")
    assert shown["echo"] == (False, "the reply has no tokens of the prompt")
    assert not shown["decisions"][0] and not shown["json schema"][0] and not shown["context length"][0]


def test_models_check_reports_an_unreachable_endpoint_and_a_missing_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for more in ([], ["--json"]):
        result = invoke("models", "check", "m1", "--base-url", "http://127.0.0.1:1/v1", *more, code=1)
        assert not result.stdout
        assert result.stderr.count("\n") == 1
        assert "the endpoint is unreachable: cannot connect to 127.0.0.1:1 (http://127.0.0.1:1/v1/)" in result.stderr
    monkeypatch.delenv("OPENAI_API_KEY")
    result = invoke("models", "check", "m1", code=1)
    assert "set OPENAI_API_KEY" in result.stderr


@pytest.mark.parametrize("command", [["judge", "--all", "--set", "models.judge.model=m1"], ["models", "check", "m1"]])
@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("127.0.0.1:18210", "127.0.0.1:18210"),
        ("localhost/v1", "localhost/v1"),
        ("ftp://ada:lovelace@example.test/v1?key=byron", "example.test/v1"),
    ],
)
def test_base_url_variable_without_a_web_scheme_is_named(
    command: list[str], url: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    chat = {"id": "c", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]}
    Path("chats.jsonl").write_text(json.dumps(chat) + "\n", encoding="utf-8")
    for setup in (["init"], ["import", "chats.jsonl"]):
        invoke(*setup)
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    result = invoke(*command, code=1)
    assert f"accord: OPENAI_BASE_URL is {shown}; it needs http:// or https:// in front" in result.stderr
