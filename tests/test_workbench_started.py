"""Verbs that pages start: the comparison of evaluators, mean ratings, and the models, within a hard budget."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from misbehaving_endpoint import answer_any
from served_workbench import Browser, StartWorkbench, token
from test_workbench_lead import Panel, led
from waiting import until

from accord import Project
from accord.learning import EvaluatorSettings
from accord.models import Caps, ModelSettings
from accord.testing.server import ChatServer, Wire

QUICK = {"default": EvaluatorSettings(head="ridge")}
KEY = "sk-loopback-1234567890"
PAGES = ("/evaluators/compare", "/board/estimate", "/judge")


def ended(browser: Browser, page: str, query: str = "") -> dict[str, Any]:
    """Return the JSON of a page once no work that it shows is in progress."""

    def found() -> dict[str, Any]:
        return dict(json.loads(browser.get(f"{page}.json{query}")))

    def is_done() -> bool:
        return not any((found().get(part) or {}).get("is_running") for part in ("run", "plan"))

    until(is_done)
    return found()


def test_a_lead_compares_evaluators_and_estimates_means(
    workbench: StartWorkbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = led(tmp_path, monkeypatch)
    monkeypatch.setattr(Project, "evaluator_names", lambda self: ["default"])
    opened.config = opened.config.model_copy(update={"draws": 20, "repeats": 1, "folds": 2, "evaluators": QUICK})
    bench = workbench(["ann"], ["lee"], opened)
    lee, ann = bench.browser("lee"), bench.browser("ann")
    page = lee.get("/evaluators")
    assert "Compare all evaluators" not in page, "there is nothing to compare on"
    assert lee.post("/evaluators/compare", form=token(lee.get("/evaluators/compare")))[0] == 303
    failed = ended(lee, "/evaluators/compare")["run"]["error"]
    assert failed and failed in lee.get("/evaluators/compare").replace("&#39;", "'")
    Panel(bench.session()).everybody(6)
    assert 'action="/evaluators/compare"' in lee.get("/evaluators")

    assert lee.post("/evaluators/compare", form=token(page))[::2] == (303, "/evaluators/compare")
    waiting = lee.get("/evaluators/compare")
    assert "data-waiting" not in waiting or "<progress" in waiting and 'http-equiv="refresh"' in waiting
    found = ended(lee, "/evaluators/compare")
    assert not found["run"]["error"] and found["run"]["step"] and found["result"]["decision"]
    page = lee.get("/evaluators/compare")
    assert "Decision" in page and "Compare again" in page and "constant" in page and "style=" not in page
    with Project(bench.project.config) as project:
        assert [run["command"] for run in project.store.runs("compare")][-1:] == ["compare"]

    assert lee.post("/board/estimate", form=token(page), question="Q0")[::2] == (303, "/board/estimate?question=Q0")
    found = ended(lee, "/board/estimate", "?question=Q0")
    page = lee.get("/board/estimate?question=Q0")
    assert found["result"]["question"] == "Q0" and "Mean rating of 1 assistant version" in page
    assert json.loads(lee.get("/board/estimate.json?question=Q1"))["result"] is None, "that of another question"
    for question in ("Q9", "<script>alert(1)</script>", "Q0\x00", "a" * 5000):
        status, said, _ = lee.post("/board/estimate", form=token(page), question=question)
        assert status == 422 and "<script>alert" not in said, question
    check_refusals(bench.port, lee, ann)


def check_refusals(port: int, lee: Browser, ann: Browser) -> None:
    """Nobody but a lead sees the pages or starts anything, and no form without its token does."""
    form = token(ann.get("/rate/look"))
    for path in PAGES:
        for ending in ("", ".json"):
            said = ann.get(path + ending)
            assert ann.status == 403 and "the role lead" in said, path
        for where in (path, f"{path}/stop") if path == "/judge" else (path,):
            assert ann.post(where, form=form, amount="1", unit="tokens")[0] == 403, where
            assert Browser(port).post(where, amount="1", unit="tokens")[0] in (401, 403), where
            assert lee.post(where, form="0" * 64, amount="1", unit="tokens")[0] == 403, where
            assert lee.ask("POST", where, "form=x", Origin="https://example.org")[0] == 403, where


def test_without_a_model_the_page_says_how_to_name_one(workbench: StartWorkbench) -> None:
    browser = workbench().browser()
    page = browser.get("/judge")
    assert "models: {judge: {mode: logprobs, model: NAME}}" in page and "data-copy=" in page
    assert "data-waiting" not in page and 'action="/judge"' not in page
    assert browser.post("/judge", form=token(page), amount="10", unit="requests")[0] == 422


class Gate:
    """A model server that holds every request after the first few until it is opened."""

    def __init__(self, free: int) -> None:
        self.left, self.opened = free, Event()

    def __call__(self, request: Mapping[str, Any]) -> Wire:
        self.left -= 1
        if self.left < 0:
            self.opened.wait(20)
        return answer_any(request)


def test_a_lead_asks_models_within_a_hard_budget(
    workbench: StartWorkbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    gate = Gate(10**6)
    with ChatServer(gate) as server:
        opened = led(tmp_path, monkeypatch)
        judge = ModelSettings(mode="decisions", model="m1", base_url=server.url)
        config = opened.config.model_copy(update={"models": {"judge": judge}, "budget": Caps(requests=500)})
        opened.close()
        bench = workbench(["ann"], ["lee"], Project(config))
        lee, ann = bench.browser("lee"), bench.browser("ann")
        assert "No conversation has ratings" in (lee.get("/judge"), ended(lee, "/judge"), lee.get("/judge"))[2]
        Panel(bench.session()).everybody(4)
        found = ended(lee, "/judge")
        [row] = found["plan"]["result"]["roles"]
        page = lee.get("/judge")
        assert (row["role"], row["model"]) == ("judge", "m1") and row["requests"] > 4 and not server.requests
        assert f"{row['requests']:,}</td>" in page and "price unknown" in page and 'value="money"' not in page
        assert ended(lee, "/judge", "?which=all")["plan"]["result"]["samples"] == 30
        form = token(page)

        for fields in (
            {}, {"amount": "", "unit": "tokens"}, {"amount": "0", "unit": "requests"}, {"amount": "-1", "unit": "tokens"},
            {"amount": "1e9", "unit": "tokens"}, {"amount": "٣", "unit": "requests"}, {"amount": "inf", "unit": "money"},
            {"amount": "nan", "unit": "money"}, {"amount": "5", "unit": "<b>"}, {"amount": "501", "unit": "requests"},
            {"amount": "9" * 4000, "unit": "tokens"}, {"amount": "5", "unit": "requests", "which": "none"},
            {"amount": "5", "unit": "shared"},
        ):  # fmt: skip
            status, said, _ = lee.post("/judge", form=form, **fields)
            assert status == 422 and "<b>" not in said, fields
        assert not server.requests

        assert lee.post("/judge", form=form, amount="3", unit="requests", which="rated")[::2] == (303, "/judge")
        run = ended(lee, "/judge")["run"]
        assert len(server.requests) <= 3 and run["result"]["spent"]["requests"] <= 3 and run["total"] >= run["done"]
        assert "budget of 3 requests" in run["result"]["stopped"] and "budget of 3 requests" in lee.get("/judge")

        sent = len(server.requests)
        assert lee.post("/judge", form=form, amount="9.99", unit="money")[0] == 303, "a budget without a price stops it"
        assert "no price" in ended(lee, "/judge")["run"]["error"] and len(server.requests) == sent

        gate.left = 1
        assert lee.post("/judge", form=form, amount="400", unit="requests")[0] == 303
        status, said, _ = lee.post("/judge", form=form, amount="400", unit="requests")
        assert status == 422 and "is running already" in said
        until(lambda: gate.left < 0)
        page = lee.get("/judge")
        assert "<progress" in page and "data-waiting" in page and 'action="/judge"' not in page
        status, said, _ = lee.post("/erase", form=form, do="erase", conversation="chat-00")
        assert status == 422 and "stop the run" in said, "its answers would be stored after the erasure"
        assert ann.post("/judge/stop", form=token(ann.get("/rate/look")))[0] == 403
        assert lee.post("/judge/stop", form=form)[0] == 303 and "Ends after the requests" in lee.get("/judge")
        gate.opened.set()
        run = ended(lee, "/judge")["run"]
        assert "stopped by lee" in run["result"]["stopped"] and len(server.requests) < sent + row["requests"]

        assert lee.post("/judge", form=form, amount="400", unit="requests")[0] == 303
        assert not ended(lee, "/judge")["run"]["result"]["stopped"]
        for path in ("/judge", "/judge.json", "/judge?which=all", "/evaluators"):
            said = lee.get(path)
            assert KEY not in said and server.url not in said and str(tmp_path) not in said, path
        assert "Every question has an answer" in (ended(lee, "/judge"), lee.get("/judge"))[1]
        check_refusals(bench.port, lee, ann)
