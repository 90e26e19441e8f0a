"""Costs of judging: usage of each request in the store, cost of 1,000 conversations, cheapest evaluator of a verdict."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from misbehaving_endpoint import answer_any

from accord import Project
from accord.project import Selection, costs_of, erase, role_costs
from accord.project.evaluators.costs import FREE, NO_MODEL, NOT_RECORDED, Cost
from accord.project.results import Compared
from accord.store import Spool, add_paid_rows
from accord.testing import ChatServer, sample_project
from accord.values import Estimate


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """A project whose judge was asked about each conversation."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    with ChatServer(answer_any) as server:
        model = {"model": "m1", "base_url": server.url, "mode": "verbalised"}
        with sample_project(5, models={"judge": model}) as project:
            project.judge()
            yield project


def test_each_request_is_stored_with_its_usage(judged: Project) -> None:
    spent, rows = judged.budget.to_json(), list(judged.store.usage())
    assert len(rows) == spent["requests"] == 5 and {row[1] for row in rows} == {"m1"}
    for unit in ("input_tokens", "output_tokens"):
        assert sum(row[3][unit] for row in rows) == spent[unit] > 0
    assert {row[0] for row in rows} == {each.id for each in judged.store.conversations()}
    judged.judge()
    assert len(list(judged.store.usage())) == 5, "a stored answer costs nothing again"
    erase(judged, Selection(conversations=(rows[0][0],)))
    assert len(left := list(judged.store.usage())) == 4 and rows[0][0] not in {row[0] for row in left}


def test_an_evaluator_states_what_1000_conversations_cost(judged: Project) -> None:
    spent = judged.budget.to_json()
    tokens = 1000 * (spent["input_tokens"] + spent["output_tokens"]) / 5
    cost = costs_of(judged, ["default", "judge-expected", "constant", "best-column"])
    assert cost["default"].tokens.value == pytest.approx(tokens) and cost["default"].requests == 1000
    assert cost["default"].money.value is None and "tokens [" in cost["default"].text()
    assert cost["judge-expected"] == cost["default"] and "best-column" not in cost
    assert cost["constant"].text() == NO_MODEL and cost["constant"].tokens.value == 0
    judged.budget.prices = {"m1": judged.budget.price("embedded:x").model_copy(update={"input": 2.0, "output": 2.0})}
    priced = role_costs(judged)["judge"].money
    judged.models.settings["judge"] = judged.models.settings["judge"].model_copy(update={"model": "another"})
    assert role_costs(judged) == {}, "the cost of one model is not the cost of another"
    assert priced.value == pytest.approx(tokens * 2 / 1e6) and priced.low < priced.value < priced.high


def test_a_judge_without_stored_usage_is_not_recorded_and_never_0() -> None:
    with sample_project(5, models={"judge": {"model": "m1", "mode": "verbalised"}}) as project:
        [cost] = costs_of(project, ["default"]).values()
    assert cost.text() == NOT_RECORDED and cost.tokens.value is None and cost.to_json()["requests"] is None


def test_usage_survives_the_spool_and_refuses_nonsense(judged: Project, tmp_path: Any) -> None:
    row = {"kind": "usage", "key": "k", "maker": "m1", "conversations": ["support-001"],
           "content": '{"input_tokens":7,"output_tokens":1,"requests":1,"role":"judge"}'}  # fmt: skip
    add_paid_rows(judged.store, [row, row])
    assert [each[3]["input_tokens"] for each in judged.store.usage() if each[2] == "k"] == [7]
    with pytest.raises(ValueError, match="usage"):
        Spool(judged.store).put([{**row, "content": '{"role": "judge"}'}])


def test_the_cheapest_that_reaches_the_verdict_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def priced(value: float) -> Cost:
        return Cost(Estimate(value), Estimate(value / 1e6), 1000, 50, ("judge",))

    reached = {"default": 2, "small": 2, "smaller": 0}
    monkeypatch.setattr(Compared, "_state_of", lambda self, name: reached[name])
    found = SimpleNamespace(systems=[SimpleNamespace(name="default")])
    costs = {"default": priced(9e6), "small": priced(4e6), "smaller": priced(1e6), "constant": FREE, "old": Cost()}
    compared = Compared(found, None, None, costs=costs)  # type: ignore[arg-type]
    for state, name, said in (
        ("systems", "small", "small is the cheapest that reaches the verdict (4.00 for 1,000 conversations), as"),
        ("not yet", None, "No evaluator reaches a verdict yet"),
    ):
        vars(compared).update({"verdict": SimpleNamespace(state=state)})
        vars(compared).pop("cheapest", None)
        assert compared.cheapest[0] == name and compared.cheapest[1].startswith(said)
    vars(compared).update({"verdict": SimpleNamespace(state="systems"), "costs": {"default": Cost(roles=("judge",))}})
    vars(compared).pop("cheapest")
    assert compared.cheapest == (None, "The cost of default, which reaches the verdict, is not recorded.")
