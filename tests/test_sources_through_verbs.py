"""Every source that asks a model, through every verb: plan, fit, budget, save, load, score, compare and report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from test_sources import LITTLE, RUBRIC, answer, corpus

from accord.cli import fitted_text
from accord.edges import BudgetReached
from accord.formats import ConversationWriter
from accord.learning import load_evaluator
from accord.models import open_embedder, run
from accord.project import Fitted, Project, config_from
from accord.report import write_report
from accord.testing import ChatServer
from accord.values import Score

SOURCES = ("rubric", "likelihood", "in-context", "learned-rubric", "issues")
LEARNED = {"in-context", "learned-rubric"}
"""Sources that ask while they learn, and have findings."""
EMBEDDER = {"in-context": {"embedder": "endpoint:m1"}}


@dataclass
class Workplace:
    """A store with the corpus of `test_sources`, a server that answers every role, and one evaluator of a source."""

    name: str
    folder: Path
    server: ChatServer

    def plan(self, project: Project) -> int:
        """Return the largest number of requests until the evaluator is fitted."""
        plan = project.plan_fit("mine") if self.name in LEARNED else project.plan_judge([self.name])
        return max(plan.requests, plan.max_requests)

    def fit(self, project: Project) -> Fitted:
        """Ask for evidence, unless learning does, and fit the evaluator."""
        if self.name not in LEARNED:
            project.judge([self.name])
        return project.fit("mine", self.folder / "mine")

    def open(self, **budget: int) -> Project:
        url = self.server.url
        models = {role: {"model": "m1", "base_url": url, "mode": "logprobs"} for role in ("judge", "scorer")}
        models |= {role: {"model": "m1", "base_url": url} for role in ("writer", "finder", "likelihood")}
        settings = {**LITTLE.get(self.name, {}), **EMBEDDER.get(self.name, {})}
        return Project(
            config_from({
                "store": f"sqlite:///{self.folder}/accord.db", "models": models, "budget": budget, "folds": 2, "draws": 20,
                "sources": {self.name: settings}, "evaluators": {"mine": {"sources": [self.name], "head": "mixed"}},
            }),
            RUBRIC,
        )  # fmt: skip


@pytest.fixture(params=SOURCES)
def workplace(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workplace]:
    open_embedder.cache_clear()
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with ChatServer(answer) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        place = Workplace(request.param, tmp_path, server)
        train = corpus()
        with place.open() as project:
            project.store.add_conversations(sample.conversation for sample in train.samples)
            project.store.add_labels(train.labels)
        yield place


@pytest.mark.slow
def test_plan_bounds_requests_and_stored_answers_cost_nothing(workplace: Workplace) -> None:
    with workplace.open() as project:
        planned, before = workplace.plan(project), len(workplace.server.requests)
        workplace.fit(project)
        sent = len(workplace.server.requests) - before
        assert 0 < sent <= planned
        assert workplace.plan(project) == 0
        workplace.fit(project)
        assert len(workplace.server.requests) - before == sent


@pytest.mark.slow
def test_budget_stops_fit_and_next_run_continues(workplace: Workplace) -> None:
    with workplace.open(requests=5) as project, pytest.raises(BudgetReached, match="budget of 5 requests"):
        workplace.fit(project)
    assert len(workplace.server.requests) == 5
    with workplace.open() as project:
        workplace.fit(project)
        assert workplace.plan(project) == 0


@pytest.mark.slow
def test_saved_evaluator_scores_the_same_and_known_conversations_cost_nothing(workplace: Workplace) -> None:
    with workplace.open() as project:
        fitted = workplace.fit(project)
        samples = list(project.all_samples())
        before = run(fitted.evaluator.predict(samples), project.models)
        again = run(load_evaluator(workplace.folder / "mine").predict(samples), project.models)
        assert again == before and sum(isinstance(score, Score) for score in before) == len(samples)
        with ConversationWriter(workplace.folder / "chats.jsonl") as writer:
            writer.write(sample.conversation for sample in samples)
        sent = len(workplace.server.requests)
        out = workplace.folder / "scores.jsonl"
        project.score(workplace.folder / "chats.jsonl", out, workplace.folder / "mine")
        assert len(workplace.server.requests) == sent and len(out.read_text().splitlines()) == len(samples)


@pytest.mark.slow
def test_findings_are_shown_in_terminal_report_and_comparison(workplace: Workplace) -> None:
    with workplace.open() as project:
        fitted = workplace.fit(project)
        text = fitted_text(fitted)
        page = write_report(project, workplace.folder / "report.html", fitted).read_text()
        assert set(fitted.findings) == {workplace.name} & LEARNED
        for findings in fitted.findings.values():
            section = findings.section()
            assert section.heading in text and section.heading in page and section.lead in text
        compared = project.compare(only=["mine"]).comparison
        assert {"mine", "constant"} <= {result.system for result in compared.results}
