"""A budget shared by processes: the sum never exceeds a cap, and unspent parts are returned."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from misbehaving_endpoint import answer_any
from processes import Forked
from synthetic_corpus import rated_chats

from accord import Project
from accord.edges import BudgetReached
from accord.models import (
    Budget,
    Caps,
    ChatMessage,
    Prompt,
    ScriptedModel,
    Usage,
    wait,
)
from accord.models.requests.budget import (
    Budgeted,
    Price,
)
from accord.project import config_from
from accord.store import MONEY_UNITS, Amounts, SharedBudget, Store, StoreError
from accord.testing import ChatServer
from accord.testing.server import Wire
from accord.values import Rubric
from accord.values.rubric import Applies

PROMPT = Prompt((ChatMessage("user", "hello" * 40),), max_tokens=10)


def shared(store: Store, name: str = "november", **caps: float) -> Budget:
    return Budget(Caps(**caps), {"m": Price(input=1, output=2)}, SharedBudget(store, name))  # type: ignore[arg-type]


def test_two_budgets_spend_a_shared_cap_once(store: Store) -> None:
    one, two = shared(store, requests=10), shared(store, requests=10)
    asked = Counter[int]()
    for turn in range(30):
        budget = (one, two)[turn % 2]
        try:
            budget.reserve("m", Usage(1, 1))
            budget.settle("m", Usage(1, 1), Usage(1, 1))
            asked[turn % 2] += 1
        except BudgetReached as error:
            assert "shared budget 'november'" in str(error) or "the budget of 10 requests" in str(error)
    assert asked == {0: 5, 1: 5} and SharedBudget(store, "november").taken().requests == 10


def test_close_returns_the_unspent_part(store: Store) -> None:
    budget, account = shared(store, tokens=64_000), SharedBudget(store, "november")
    budget.reserve("m", Usage(10, 5))
    assert account.taken().tokens == 1000, "a slice: 1/64 of the remaining budget"
    budget.settle("m", Usage(10, 5), Usage(8, 1))
    budget.close()
    assert account.taken() == Amounts.of(1, 9, (8 + 2) / 1e6), "requests and money had no cap, and are counted"
    budget.close()
    assert account.taken().tokens == 9, "a second time changes nothing"


def test_large_request_gets_more_than_a_slice(store: Store) -> None:
    budget = shared(store, money=0.01)
    budget.reserve("m", Usage(6000, 2000))
    with pytest.raises(BudgetReached):
        budget.reserve("m", Usage(1, 0))
    assert SharedBudget(store, "november").taken().money == 0.01 * MONEY_UNITS


def test_shared_budgets_have_names_and_caps_can_grow(store: Store) -> None:
    first, other = shared(store, requests=1), shared(store, "december", requests=1)
    for budget in (first, other):
        budget.reserve("m", Usage())
    with pytest.raises(BudgetReached):
        shared(store, requests=1).reserve("m", Usage())
    larger = shared(store, requests=2)
    larger.reserve("m", Usage())
    with pytest.raises(BudgetReached):
        larger.reserve("m", Usage())


def test_killed_process_has_spent_its_slice(store: Store) -> None:
    killed = shared(store, requests=640)
    killed.reserve("m", Usage())  # without `close`
    left = shared(store, requests=640)
    count = 0
    with pytest.raises(BudgetReached):
        while True:
            left.reserve("m", Usage())
            count += 1
    assert count == 630


def test_close_keeps_reservations_of_requests_in_progress(store: Store) -> None:
    budget, account = shared(store, tokens=64_000), SharedBudget(store, "november")
    budget.reserve("m", Usage(10, 5))
    budget.close()
    assert account.taken().tokens == 15, "another thread waits for its answer"
    budget.settle("m", Usage(10, 5), Usage(8, 1))
    budget.close()
    assert account.taken() == Amounts.of(1, 9, (8 + 2) / 1e6)


def test_concurrent_threads_never_exceed_the_cap(store: Store) -> None:
    def spend(_: int) -> int:
        budget, count = shared(store, tokens=5000), 0
        try:
            while True:
                budget.reserve("m", Usage(7, 0))
                budget.settle("m", Usage(7, 0), Usage(5, 0))
                count += 5
        except BudgetReached:
            budget.close()
        return count

    with ThreadPoolExecutor(8) as pool:
        spent = sum(pool.map(spend, range(8)))
    assert spent <= 5000 and SharedBudget(store, "november").taken().tokens == spent
    assert spent > 4500, "slices shrink with the remaining budget"


def test_model_takes_slices_without_blocking_the_loop(store: Store) -> None:
    budget = shared(store, requests=3)
    model = Budgeted(ScriptedModel(lambda _: "yes", "m"), budget)
    for _ in range(3):
        assert wait(model.ask(PROMPT)).text == "yes"
    with pytest.raises(BudgetReached):
        wait(model.ask(PROMPT))


def test_failing_store_stops_requests(store: Store) -> None:
    budget = shared(store, requests=3)
    with store._engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE budgets")
    with pytest.raises(StoreError, match="budgets"):
        budget.reserve("m", Usage())
    assert budget.requests == 0


PROCESS = """
import json, sys
from accord.evidence.rubric_answers import judge_samples
from accord import Conversation, Rubric, Turn
from accord import Project
from accord.project import config_from
from accord.edges import BudgetReached
from accord.values import Sample
samples = [Sample(Conversation(f"c{n}", (Turn("user", f"Is it {n}?"), Turn("assistant", "Yes.")))) for n in range(60)]
judge = {"mode": "logprobs", "model": "m", "base_url": sys.argv[2], "concurrency": 4}
budget = {"requests": int(sys.argv[4]), "shared": "november"}
config = config_from({"store": sys.argv[1], "models": {"judge": judge}, "budget": budget})
with Project(config, Rubric.model_validate_json(sys.argv[3])) as project:
    try:
        project.measure([project.source("rubric")], samples, project.models)
    except BudgetReached:
        pass
    print(project.budget.requests)
"""


def test_processes_stop_at_a_shared_budget_and_continue_with_a_larger_one(
    store: Store, api_key: None, rubric: Rubric
) -> None:
    questions = tuple(
        q.model_copy(update={"applies": Applies.ALWAYS}) for q in rubric.questions if q.id in ("Q0", "Q1")
    )
    few = rubric.model_copy(update={"questions": questions})
    failed = Counter[str]()

    def answer(request: dict[str, object]) -> Wire:
        key = json.dumps(request["messages"], sort_keys=True)
        failed[key] += 1
        first = failed[key] == 1 and hash(key) % 5 == 0
        wire = answer_any(request)
        return Wire({"error": {"message": "later"}}, status=500) if first else replace(wire, after=0.002)

    def run(server: ChatServer, cap: int) -> int:
        command = ["-c", PROCESS, store.url, server.url, few.model_dump_json(), str(cap)]
        running = [Forked(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
        return sum(int(each.communicate()[0]) for each in running)

    with ChatServer(answer) as server:  # type: ignore[arg-type]
        run(server, 50)
        assert len(server.requests) <= 50, "the sum over processes, with failed attempts"
        assert len(server.requests) > 40
        assert SharedBudget(store, "november").taken().requests == len(server.requests)
        run(server, 1000)
        answered = Counter(key for key, count in failed.items())
        assert len(answered) == 120 and sum(failed.values()) == 120 + sum(hash(key) % 5 == 0 for key in failed)


WORKER = """
import json, sys
import polars as pl
from accord.models import Caps
from accord.scoring import ModelAccess, BatchScorer
folder, store, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
scorer = BatchScorer(folder, access=ModelAccess(True, store, Caps(requests=6400, shared="november")))
def row(n):
    said = [{"role": "user", "content": f"Is it {number}.{n}?"}, {"role": "assistant", "content": "It is."}]
    return {"id": f"c{number}.{n}", "messages": said}
for batch in range(2):
    table = scorer(pl.DataFrame([row(10 * batch + n) for n in range(10)]))
    print(int((table["status"] == "scored").sum()), flush=True)
    sys.stdin.readline()
"""


def test_scoring_processes_return_slices_between_batches(store: Store, api_key: None, tmp_path: Path) -> None:
    chats, labels, rubric = rated_chats(40)
    account = SharedBudget(store, "november")
    with ChatServer(answer_any) as server:
        judge = {"mode": "logprobs", "model": "m", "base_url": server.url}
        evaluators = {"asks": {"sources": ["rubric"], "head": "curves"}}
        config = config_from({"store": store.url, "models": {"judge": judge}, "evaluators": evaluators})
        with Project(config, rubric) as project:
            project.store.add_conversations(chats)
            project.store.add_labels(labels)
            project.judge()
            project.fit("asks", tmp_path / "asks")
        before = len(server.requests)
        command = ["-c", WORKER, str(tmp_path / "asks"), store.url]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        workers = [Forked([*command, str(number)], **pipes) for number in range(2)]
        try:
            for batch in (1, 2):
                assert [worker.stdout.readline().strip() for worker in workers] == ["10"] * 2
                asked = len(server.requests) - before
                assert asked == 20 * batch and account.taken().requests == asked, "no request is lost"
                for worker in workers if batch == 1 else ():
                    worker.stdin.write("\n")
                    worker.stdin.flush()
        finally:
            for worker in workers:
                worker.kill()
                worker.communicate()
    assert account.taken().requests == 40, "of a batch that was done a worker that is killed loses nothing"


def test_project_names_its_shared_budget(store: Store, rubric: Rubric) -> None:
    config = config_from({"store": store.url, "budget": {"requests": 5, "shared": "november"}})
    with Project(config, rubric) as project:
        project.budget.reserve("m", Usage())
        assert project.budget.account is not None and project.budget.account.name == "november"
    assert SharedBudget(store, "november").taken().requests == 1, "closing the project returns the rest of its slice"


def test_reservations_count_before_they_are_settled() -> None:
    budget = Budget(Caps(tokens=100), {})
    budget.reserve("m", Usage(40, 20))
    with pytest.raises(BudgetReached, match="exceed the budget of 100 tokens"):
        budget.reserve("m", Usage(40, 20))
    budget.reserve("m", Usage(40, 0))
    budget.settle("m", Usage(40, 20), Usage(5, 5))
    budget.reserve("m", Usage(25, 25))  # 10 spent, 40 and 50 reserved
    with pytest.raises(BudgetReached):
        budget.reserve("m", Usage(1, 0))
    assert budget.requests == 3 and budget.spent == Usage(5, 5)


def test_money_of_reservations_counts_before_they_are_settled() -> None:
    budget = Budget(Caps(money=1.0), {"m": Price(input=1e4, output=0)})
    budget.reserve("m", Usage(60, 0))
    with pytest.raises(BudgetReached, match="exceed the budget of 1 money"):
        budget.reserve("m", Usage(60, 0))
    budget.settle("m", Usage(60, 0), None)
    budget.reserve("m", Usage(60, 0))
    assert budget.requests == 1


def test_a_slice_for_one_unit_gives_nothing_back_of_another(store: Store) -> None:
    budget, account = shared(store, requests=2, tokens=64_000), SharedBudget(store, "november")
    budget.reserve("m", Usage(600, 0))
    before = account.taken()
    assert (before.requests, before.tokens) == (1, 1000)
    budget.reserve("m", Usage(1, 0))  # its tokens are in the slice, another request is not
    after = account.taken()
    assert after.requests == 2 and after.tokens >= before.tokens
    budget.close()
    assert account.taken().tokens == 601


def test_a_unit_without_a_cap_is_recorded_when_the_budget_is_closed(store: Store) -> None:
    budget, account = shared(store, requests=2), SharedBudget(store, "november")
    budget.reserve("m", Usage(600, 0))
    budget.settle("m", Usage(600, 0), Usage(5, 5))
    budget.reserve("m", Usage(1, 0))  # takes a request, and gives no tokens back
    assert (account.taken().requests, account.taken().tokens) == (2, 600)
    budget.close()
    assert (account.taken().requests, account.taken().tokens) == (2, 11)
    assert budget.to_json() == {"requests": 2, "input_tokens": 5, "output_tokens": 5, "money": pytest.approx(15e-6)}
    assert Budget(Caps(), {}).to_json()["money"] is None


@pytest.mark.parametrize(
    ("caps", "is_any"), [(Caps(), False), (Caps(requests=0), True), (Caps(tokens=1), True), (Caps(money=0.0), True)]
)
def test_a_budget_of_nothing_is_a_cap(caps: Caps, is_any: bool) -> None:
    assert caps.any is is_any
