"""Requests are paid once and no paid answer is lost: claims, failing stores, spools, processes."""

from __future__ import annotations

import asyncio
import json
import random
import re
import sqlite3
import stat
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from misbehaving_endpoint import answer_any
from processes import Forked
from special_files import make_pipe
from waiting import PATIENCE

from accord import Conversation, Project, Question, Rubric, Scale, Store, Turn
from accord.edges import BudgetReached
from accord.evidence.rubric_answers import judge_samples
from accord.models import (
    Answer,
    Budget,
    Caps,
    ChatMessage,
    EmbeddingText,
    Failure,
    Judged,
    LikelihoodRequest,
    Models,
    ModelSettings,
    Plan,
    Prompt,
    Questions,
    Reply,
    Request,
    RequestLedger,
    ScriptedJudge,
    Unanswered,
    wait,
)
from accord.models.ask_judge import judge_all
from accord.models.requests.request_ledger import Lease
from accord.project import config_from
from accord.store import Claims, PaidRow, Spool, StoreError, UnsavedAnswers, VectorCache
from accord.testing import ChatServer
from accord.testing.server import Wire
from accord.values import Sample

KEYS = [f"s256:{place:03}" for place in range(300)]
SECRET = "sk-not-to-be-written-anywhere"


class Clock:
    """A clock that a test moves forward."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def forward(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


# --- claims ---------------------------------------------------------------------------------------------------------


def test_claim_has_one_owner_until_it_is_released_or_expires(store: Store) -> None:
    clock = Clock()
    one, two = (Claims(store, clock, lease=60) for _ in range(2))
    assert one.exchange((), KEYS[:3]).mine == set(KEYS[:3])
    taken = two.exchange((), KEYS[1:5])
    assert taken.mine == set(KEYS[3:5]) and taken.until == "2026-01-01T00:01:00.000+00:00"
    assert two.held(KEYS) == set(KEYS[:3]) and one.held(KEYS) == set(KEYS[3:5])
    one.exchange(KEYS[:1], ())
    assert two.exchange((), KEYS[:3]).mine == {KEYS[0]}, "a released key is free; other owners' keys stay claimed"
    clock.forward(59)
    one.exchange((), (), renew=True)
    clock.forward(2)
    assert two.exchange((), KEYS[1:3]).mine == frozenset(), "renewed claims are held"
    late = one.exchange((), [KEYS[0], *KEYS[3:5]])
    assert (late.mine, late.over) == ({KEYS[0], *KEYS[3:5]}, 3), "claims that were not renewed have expired"


@pytest.mark.parametrize("ahead", [timedelta(minutes=3), timedelta(days=3650)], ids=str)
def test_claim_made_while_the_clock_was_ahead_has_expired(store: Store, ahead: timedelta) -> None:
    clock, wrong = Clock(), Clock()
    wrong.now += ahead
    killed, other = Claims(store, wrong, lease=60), Claims(store, clock, lease=60)
    assert killed.exchange((), KEYS[:3]).mine == set(KEYS[:3])
    assert other.held(KEYS) == set()
    taken = other.exchange((), KEYS[:3])
    assert (taken.mine, taken.over, taken.until) == (set(KEYS[:3]), 3, "")


def test_claim_of_a_clock_slightly_ahead_is_held(store: Store) -> None:
    clock, ahead = Clock(), Clock()
    ahead.forward(50)
    Claims(store, ahead, lease=60).exchange((), KEYS[:3])
    other = Claims(store, clock, lease=60)
    assert other.held(KEYS) == set(KEYS[:3]) and not other.exchange((), KEYS[:3]).mine


@pytest.mark.parametrize("before", ["free", "expired"])
def test_concurrent_claims_give_each_key_to_one_owner(store: Store, before: str) -> None:
    clock = Clock()
    if before == "expired":
        Claims(store, clock, lease=60).exchange((), KEYS)
        clock.forward(61)

    def claim(seed: int) -> list[str]:
        mine = Claims(store, clock, lease=60)
        order = random.Random(seed).sample(KEYS, len(KEYS))
        return [key for at in range(0, len(KEYS), 50) for key in mine.exchange((), order[at : at + 50]).mine]

    with ThreadPoolExecutor(4) as pool:
        assert sorted(key for keys in pool.map(claim, range(4)) for key in keys) == KEYS


def test_concurrent_releases_and_claims_do_not_deadlock(store: Store) -> None:
    def exchange(seed: int) -> None:
        drawn, claims, mine = random.Random(seed), Claims(store), frozenset[str]()
        for _ in range(25):
            freed = drawn.sample(sorted(mine), len(mine))
            mine = claims.exchange(freed, drawn.sample(KEYS[:60], 30), renew=True).mine
        claims.exchange(mine, ())

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(exchange, range(4)))
    assert not Claims(store).held(KEYS)


# --- the ledger ------------------------------------------------------------------------------------------------------


class Asking:
    """Asks for replies through its own ledger, and records the keys it asks for."""

    def __init__(
        self, store: Store, lease: Lease | None = None, fails: Callable[[str], bool] = lambda _: False
    ) -> None:
        self.asked: list[str] = []
        self.fails = fails
        self.ledger: RequestLedger[str] = RequestLedger(store, store.replies, lease=lease or Lease(look=0.02))

    async def all(self, keys: Sequence[str]) -> dict[str, str]:
        async def ask(mine: list[str]) -> None:
            self.asked += mine
            await asyncio.sleep(0)
            await self.ledger.keep(paid(key) for key in mine if not self.fails(key))

        found = await self.ledger.ask_each_once(keys, ask)
        await self.ledger.close()
        return found


def paid(key: str, said: str = "hello") -> PaidRow:
    content = {"text": said, "model": "m", "first_token": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
    return {"kind": "reply", "key": key, "maker": "m", "content": json.dumps(content)}


@pytest.fixture
def other(store: Store) -> Iterator[Store]:
    """A second connection to the same store, like another process."""
    opened = Store(store.url)
    yield opened
    opened.close()


def test_ledger_waits_for_keys_of_another_owner(store: Store, other: Store) -> None:
    one, two = Asking(store), Asking(other)

    async def both() -> None:
        async with asyncio.TaskGroup() as group:
            for keys in (KEYS[:40], KEYS[20:60]):
                group.create_task(one.all(keys))
                group.create_task(two.all(keys))

    wait(both())
    assert sorted(one.asked + two.asked) == KEYS[:60]
    assert set(store.replies(KEYS)) == set(KEYS[:60]) and not Claims(store).held(KEYS)


def test_ledger_asks_for_keys_that_another_owner_failed_to_get(store: Store, other: Store) -> None:
    one, two = Asking(store, fails=lambda key: True), Asking(other)

    async def both() -> None:
        first = asyncio.create_task(one.all(KEYS[:5]))
        while not one.asked:  # by then it holds all keys, or has released them
            await asyncio.sleep(0.001)
        await two.all(KEYS[:5])
        await first

    wait(both())
    assert one.asked == two.asked == KEYS[:5] and set(store.replies(KEYS)) == set(KEYS[:5])


def test_expired_claims_of_a_killed_process_are_taken_over(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    Claims(store, clock, lease=60).exchange((), KEYS[:5])
    next_one = Asking(store, Lease(60, 0.01, clock))

    async def later() -> None:
        asking = asyncio.create_task(next_one.all(KEYS[:7]))
        while "waiting for its answers" not in caplog.text:
            await asyncio.sleep(0.01)
        assert next_one.asked == KEYS[5:7]
        clock.forward(61)
        await asking

    wait(asyncio.wait_for(later(), PATIENCE))
    assert next_one.asked == [*KEYS[5:7], *KEYS[:5]] and set(store.replies(KEYS)) == set(KEYS[:7])
    assert "same prompts until 2026-01-01T00:01:00" in caplog.text and "5 prompts that another process" in caplog.text
    assert caplog.text.count("waiting") == 1


def test_interrupt_releases_claims(store: Store) -> None:
    asking = Asking(store)

    async def interrupted() -> None:
        async def ask(_: list[str]) -> None:
            await asyncio.sleep(60)

        task = asyncio.create_task(asking.ledger.ask_each_once(KEYS[:5], ask))
        while not Claims(store).held(KEYS):
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asking.ledger.close()

    wait(interrupted())
    assert not Claims(store).held(KEYS)


# --- every kind of request -----------------------------------------------------------------------------------------

OPTIONS = Scale(options=(1, 2))
QUESTIONS = tuple(Question(id=name, text=f"{name}?", scale=OPTIONS, applies="always") for name in ("Q1", "Q2"))
RUBRIC = Rubric(name="two", questions=QUESTIONS, main="Q1")
SAMPLES = [Sample(Conversation(f"c{n}", (Turn("user", f"Is it {n}?"), Turn("assistant", "Yes.")))) for n in range(6)]
JUDGED = [Request("judge", Questions(sample, RUBRIC)) for sample in SAMPLES]
PARTS: dict[str, tuple[str, list[Request]]] = {
    "chat": ("scorer", [Request("scorer", Prompt((ChatMessage("user", f"say {n}"),))) for n in range(12)]),
    "likelihood": (
        "likelihood",
        [Request("likelihood", LikelihoodRequest((ChatMessage("user", f"say {n}"),), (0,))) for n in range(12)],
    ),
    "logprobs": ("judge", JUDGED),
    "sampling": ("judge", JUDGED),
    "verbalised": ("judge", JUDGED),
    "decisions": ("judge", JUDGED),
    "embeddings": ("", [Request("embedder", EmbeddingText("endpoint:e1", "x" * n)) for n in range(1, 600)]),
}
QUICKEST_FIRST = ["logprobs", *(pytest.param(part, marks=pytest.mark.slow) for part in PARTS if part != "logprobs")]
"""One kind of request in `make check`, all in `make test`."""


class Payment:
    """Requests of one kind, and a server that records them; before answer number `n` it calls `then[n]`."""

    def __init__(self, part: str) -> None:
        role, self.requests = PARTS[part]
        self._part, self._role = part, role
        self.then: dict[int, Callable[[], None]] = {}
        self.server = ChatServer(self._answer)

    def _answer(self, request: Mapping[str, Any]) -> Wire:
        for number in [n for n in list(self.then) if n <= len(self.server.requests)]:  # other threads remove entries
            self.then.pop(number, lambda: None)()
        if "input" in request and self._part == "embeddings":
            said = enumerate(request["input"])
            return Wire({"data": [{"index": i, "embedding": [1.0, len(each)]} for i, each in said]})
        return answer_any(request)

    def models(self, store: Store, budget: Budget | None = None) -> Models:
        mode = self._part if self._role == "judge" else None
        own = ModelSettings(mode=mode, model="m", base_url=self.server.url, samples=3, concurrency=4)
        return Models({self._role: own} if self._role else {}, store, budget)

    def ask(self, store: Store, budget: Budget | None = None) -> list[Any]:
        models = self.models(store, budget)
        try:
            return wait(models.answer(self.requests))
        finally:
            models.close()

    @property
    def paid(self) -> Counter[str]:
        """Number of payments for each request."""
        if self._part == "embeddings":
            return Counter(said for request in self.server.requests for said in request["input"])
        return Counter(json.dumps(request, sort_keys=True) for request in self.server.requests)


@pytest.fixture
def payment(part: str, api_key: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Payment]:
    found = Payment(part)
    with found.server:
        monkeypatch.setenv("OPENAI_BASE_URL", found.server.url)
        yield found


@pytest.fixture
def once(payment: Payment, memory: Store) -> Counter[str]:
    """Payments of a single user."""
    assert said(payment.ask(memory))
    expected = payment.paid
    payment.server.requests.clear()
    return expected


@pytest.mark.parametrize("part", QUICKEST_FIRST)
def test_two_users_with_the_same_requests_pay_once(
    payment: Payment, once: Counter[str], store: Store, other: Store
) -> None:
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(payment.ask, (store, other)))
    assert payment.paid == once
    assert said(found[0]) == said(found[1])
    assert not Claims(store).held(payment.paid)


@pytest.mark.parametrize("part", QUICKEST_FIRST)
def test_plan_equals_the_next_payments_and_uses_one_lookup(
    payment: Payment, memory: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything, payment.requests = payment.requests, payment.requests[::2]
    kept = payment.ask(memory)
    payment.server.requests.clear()
    looks: list[str] = []
    for place, name in ((Store, "answers"), (Store, "replies"), (VectorCache, "vectors")):
        look = getattr(place, name)
        monkeypatch.setattr(place, name, lambda *given, name=name, look=look: looks.append(name) or look(*given))
    planned, models = Plan(), payment.models(memory)
    priced = models.price(everything, planned)
    models.close()
    assert len(looks) == 1 and said(priced[::2]) == said(kept)
    assert not payment.server.requests
    payment.requests = everything
    payment.ask(memory)
    assert planned.requests == len(payment.server.requests) > 0


def said(answers: Sequence[Any]) -> list[Any]:
    """Return the answers without usage, and check that none is missing."""
    plain: list[Any] = []
    for each in answers:
        if isinstance(each, Judged):
            assert all(isinstance(answer, Answer) for answer in each.answers)
            plain.append(each.answers)
        elif isinstance(each, Reply):
            plain.append((each.text, each.model))
        else:
            assert not isinstance(each, Failure)
            plain.append(each.tolist() if isinstance(each, np.ndarray) else each)
    return plain


def execute(url: str, sql: str) -> None:
    """Change a database from outside."""
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30, isolation_level=None)
        connection.execute(sql)
        connection.close()
    else:
        import psycopg

        with psycopg.connect(url, autocommit=True) as other:
            other.execute(sql)


def later(url: str) -> None:
    """Let all claims expire."""
    execute(url, "UPDATE claims SET until = '2000-01-01T00:00:00.000+00:00'")


KEPT_AS = {"logprobs": "annotations", "verbalised": "annotations", "decisions": "annotations"}


@pytest.mark.parametrize("lost", ["claims", "answers"])
@pytest.mark.parametrize("part", QUICKEST_FIRST)
def test_failing_store_loses_no_paid_answer(
    payment: Payment,
    once: Counter[str],
    store: Store,
    part: str,
    lost: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    table = lost if lost == "claims" else KEPT_AS.get(part, "cache")
    payment.then[2] = lambda: execute(store.url, f"ALTER TABLE {table} RENAME TO elsewhere")
    payment.then |= {
        number: lambda: time.sleep(1) for number in range(6, 40)
    }  # a write fails before all requests are sent
    with pytest.raises(StoreError, match=table) as caught:
        payment.ask(store)
    payment.then.clear()
    assert "\n" not in str(caught.value)
    assert payment.paid < once, "asking stopped"
    execute(store.url, f"ALTER TABLE elsewhere RENAME TO {table}")
    later(store.url)
    spooled = re.search(r"(\d+) paid answers are in (\S+);", str(caught.value))
    if lost == "answers":
        assert spooled and tmp_path in Path(spooled[2]).parents, "in a folder that the next command finds"
        assert private(Path(spooled[2])) and len(list(Path(spooled[2]).iterdir()))
        rows = [
            json.loads(line) for path in Path(spooled[2]).iterdir() for line in path.read_text("utf-8").splitlines()
        ]
        assert int(spooled[1]) == sum(row["kind"] != "usage" for row in rows), "the usage of a request is no answer"
    for line in Spool(store).take_in():
        assert spooled and line == f"stored {spooled[1]} paid answers that the store could not take before"
    assert not list(tmp_path.rglob("*.unsaved")), "loaded files are removed"
    again = said(payment.ask(store))
    assert payment.paid == once
    assert again == said(payment.ask(store)) and payment.paid == once


def private(folder: Path) -> bool:
    """Return True if only the owner can read a folder and its files."""
    return all(stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 for path in (folder, *folder.iterdir()))


# --- the spool ------------------------------------------------------------------------------------------------------


def spooled(store: Store, *rows: PaidRow) -> Path:
    """Return the one file of a spool with these rows."""
    folder = Spool(store).put(rows)
    assert folder is not None
    [path] = folder.iterdir()
    return path


@pytest.fixture
def file_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    opened = Store(f"sqlite:///{tmp_path}/store.db")
    yield opened
    opened.close()


ANSWER: PaidRow = {
    "kind": "answer", "key": "a", "conversation": "c", "turn": None, "question": "Q1", "judge": "j", "mode": "logprobs",
    "probabilities": '{"1":0.5,"2":0.25}', "outside": 0.25, "made_from": '{"prompt":"s256:1"}', "version": "m-1",
}  # fmt: skip
VECTOR: PaidRow = {"kind": "vector", "key": "v", "maker": "e", "bytes": np.array([1, 2], "<f4").tobytes()}


def test_spool_is_private_and_restores_every_kind_without_secrets(
    file_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    path = spooled(file_store, ANSWER, VECTOR, paid("k", f"odd \u2028 {SECRET} \n"))
    assert private(path.parent) and SECRET not in path.read_text(encoding="utf-8")
    assert Spool(file_store).take_in() == ["stored 3 paid answers that the store could not take before"]
    assert not path.parent.exists() and Spool(file_store).take_in() == []
    assert json.loads(file_store.replies(["k"])["k"])["text"] == "odd \u2028 [secret] \n"
    assert VectorCache(file_store).vectors(["v"])["v"].tolist() == [1, 2]
    [kept] = file_store.annotations()
    assert (kept.distribution, kept.outside, kept.version) == ({"1": 0.5, "2": 0.25}, 0.25, "m-1")


WRONG = {
    "invalid JSON": "{",
    "deeply nested": "[" * 5000,
    "not an object": "7",
    "another kind": json.dumps({**paid("k"), "kind": "label"}),
    "another field": json.dumps({**paid("k"), "more": 1}),
    "a number as a key": json.dumps({**paid("k"), "key": 7}),
    "an invalid reply": json.dumps({**paid("k"), "content": '{"text": 7}'}),
    "a reply that is not JSON": json.dumps({**paid("k"), "content": "hello"}),
    "an invalid token probability": json.dumps(paid("k")).replace("null", '{\\"1\\": 1.5}'),
    "a likelihood above 1": json.dumps({**paid("k"), "content": "[[0.5, 3]]"}),
    "a negative probability": json.dumps({**ANSWER, "probabilities": '{"1": -0.5}'}),
    "a probability that is not a number": json.dumps({**ANSWER, "probabilities": '{"1": NaN}'}),
    "an invalid vector": json.dumps({**VECTOR, "bytes": "AAA="}),
    "an infinite vector": json.dumps({**VECTOR, "bytes": "AADAfw=="}),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_spool_rejects_invalid_lines(file_store: Store, wrong: str) -> None:
    path = spooled(file_store, paid("first"))
    path.write_text(path.read_text(encoding="utf-8") + WRONG[wrong] + "\n", encoding="utf-8")
    said_first, said_then = Spool(file_store).take_in()
    assert said_first.startswith("stored 1 paid answers") and "line 2 is not a paid answer" in said_then
    assert set(file_store.replies(["first", "k"])) == {"first"} and not list(file_store.annotations())
    assert Spool(file_store).take_in() == [] and path.with_suffix(".refused").exists(), (
        "it is moved aside, and reported once"
    )


def test_spool_ignores_files_that_others_can_write_and_pipes(file_store: Store, tmp_path: Path) -> None:
    path = spooled(file_store, paid("k"))
    path.chmod(0o622)
    [said_once] = Spool(file_store).take_in()
    assert "can be written by other users" in said_once and path.exists()
    path.unlink()
    make_pipe(path)
    [said_once] = Spool(file_store).take_in()
    assert "is a named pipe, not a file" in said_once
    assert not file_store.replies(["k"])


def test_spool_uses_the_user_folder_and_reports_lost_answers(
    file_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "store.db.unsaved").write_text("something else", encoding="utf-8")
    elsewhere = Spool(file_store).put([paid("k")])
    assert elsewhere is not None and elsewhere.is_relative_to(tmp_path / "state") and private(elsewhere)
    assert Spool(file_store).take_in()[0].startswith("stored 1 ") and file_store.reply("k")
    (tmp_path / "state").rename(tmp_path / "gone")
    (tmp_path / "state").write_text("something else", encoding="utf-8")
    assert Spool(file_store).put([paid("k")]) is None
    failure = UnsavedAnswers("the store failed.")
    failure.spooled(3, None)
    assert str(failure) == "the store failed. 3 paid answers could not be written anywhere and are lost."


def test_opening_a_project_loads_the_spool(file_store: Store, caplog: pytest.LogCaptureFixture) -> None:
    path = spooled(file_store, paid("k"))
    with Project(config_from({"store": file_store.url}), RUBRIC) as project:
        assert project.store.reply("k")
    assert "stored 1 paid answers" in caplog.text and not path.exists()


# --- draws, processes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["sampling"])
def test_budget_stop_loses_no_sampled_reply(payment: Payment, once: Counter[str], store: Store) -> None:
    for _ in range(once.total() // 5):
        with pytest.raises(BudgetReached):
            payment.ask(store, Budget(Caps(requests=5), {}))
    assert payment.paid.total() == once.total() // 5 * 5
    assert said(payment.ask(store)) and payment.paid == once


PROCESS = """
import sys
from accord.evidence.rubric_answers import judge_samples
from accord import Conversation, Rubric, Turn
from accord import Project
from accord.project import config_from
from accord.values import Sample
samples = [Sample(Conversation(f"c{n}", (Turn("user", f"Is it {n}?"), Turn("assistant", "Yes.")))) for n in range(30)]
judge = {"mode": "logprobs", "model": "m", "base_url": sys.argv[2], "concurrency": 4}
config = config_from({"store": sys.argv[1], "models": {"judge": judge}})
with Project(config, Rubric.model_validate_json(sys.argv[3])) as project:
    table = project.measure([project.source("rubric")], samples, project.models)
    print(int((table.values == table.values).all()))
"""


def test_processes_on_one_store_pay_once(store: Store, api_key: None) -> None:
    with ChatServer(lambda request: replace(answer_any(request), after=0.002)) as server:
        command = ["-c", PROCESS, store.url, server.url, RUBRIC.model_dump_json()]
        running = [Forked(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
        for process in running:
            out, errors = process.communicate(timeout=PATIENCE)
            assert out == b"1\n", errors.decode()
        times = Counter(json.dumps(request, sort_keys=True) for request in server.requests)
    assert len(times) == 60 and set(times.values()) == {1}


class Held(ScriptedJudge):
    """A judge that holds its answers until an event."""

    def __init__(self, until: asyncio.Event) -> None:
        super().__init__(lambda *_: {"1": 0.5, "2": 0.5})
        self.until = until

    async def answer(self, sample: Sample, questions: Sequence[Question]) -> list[Answer | Unanswered]:
        found = await super().answer(sample, questions)
        await self.until.wait()
        return found


def test_requests_of_another_process_do_not_delay_the_others(store: Store, other: Store) -> None:
    async def both() -> tuple[Held, ScriptedJudge]:
        slow, quick = Held(asyncio.Event()), ScriptedJudge(lambda *_: {"1": 0.5, "2": 0.5})

        async def judged(judge: ScriptedJudge, store: Store) -> int:
            lease = Lease(look=0.02)
            return sum([1 async for _ in judge_all(judge, RUBRIC, SAMPLES, store, concurrency=1, lease=lease)])

        first = asyncio.create_task(judged(slow, store))
        while not slow.asked:
            await asyncio.sleep(0.005)
        second = asyncio.create_task(judged(quick, other))
        while len(quick.asked) < 2 * len(SAMPLES[1:]):
            await asyncio.sleep(0.005)
        slow.until.set()
        assert await first == await second == len(SAMPLES)
        return slow, quick

    slow, quick = wait(asyncio.wait_for(both(), PATIENCE))
    assert {each.target for each, _ in slow.asked} == {SAMPLES[0].target}
    assert [each.target for each, _ in quick.asked[::2]] == [each.target for each in SAMPLES[1:]]


def test_questions_with_equal_wording_are_asked_once(store: Store) -> None:
    twins = tuple(Question(id=name, text="How?", scale=OPTIONS, applies="always") for name in ("A", "B"))
    judge = ScriptedJudge(lambda *_: {"1": 0.5, "2": 0.5})
    judge.made_from = lambda sample, question: {"target": str(sample.target), "text": question.text}  # type: ignore[method-assign]
    table = judge_samples(judge, Rubric(name="twins", questions=twins, main="A"), SAMPLES, store)
    assert len(judge.asked) == len(SAMPLES) and not np.isnan(table.values).any()
