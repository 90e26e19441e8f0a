"""Explore page: tables, settings, charts, roles, and accessibility."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from browsing import DARK, LIGHT, faults, tab
from read_conversations import RICH, reading_project
from scored_rows import add_scores
from served_workbench import StartWorkbench, project, served
from test_workbench_pages import EVIL, strange

from accord import Conversation, Turn
from accord.project import Project
from accord.scoring import score
from accord.web.pages.explore import CATEGORIES, OTHER, ChartSettings, ExploreChart, ScoreTable, load_score_table

VALUE = "score: value"


def scored(opened: Project, folder: Path) -> None:
    score(opened, opened.load(), list(opened.store.conversations(synthetic="with")), folder / "scores.jsonl")


@pytest.mark.slow
def test_score_table_has_metadata_and_metrics_without_synthetic_conversations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with reading_project(tmp_path, monkeypatch, fits=False) as opened:
        assert load_score_table(opened).rows == ()
        opened.fit(every_question=True)
        scored(opened, tmp_path)
        found = load_score_table(opened)
        assert (len(found.rows), found.total, found.synthetic, found.unknown) == (31, 31, 1, 0)
        assert not any(row["synthetic"] for row in found.rows)
        assert found.columns[VALUE] and found.columns["question: Q1"] and found.columns["metric: words-per-reply"]
        assert not found.columns["metadata: system"] and found.columns["metadata: week"]
        assert sum(row["synthetic"] for row in load_score_table(opened, synthetic=True).rows) == 1
        few = load_score_table(opened, size=10)
        assert (len(few.rows), few.total) == (10, 31) and few == load_score_table(opened, size=10)


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Callable[..., ScoreTable]]:
    """Store scores of a project of twelve conversations and others, and return its table."""
    with project(tmp_path) as opened:

        def load(rows: Iterable[Mapping[str, Any]], *others: Conversation) -> ScoreTable:
            opened.store.add_conversations(others)
            with opened.store.run("score", {}) as kept:
                add_scores(opened, kept.id, rows)
            return load_score_table(opened)

        yield load


def chart_of(found: ScoreTable, **fields: str) -> ExploreChart:
    return ExploreChart(found, ChartSettings.from_query(fields, found.columns))


def test_a_conversation_that_the_store_does_not_hold_has_its_score_alone(table: Callable[..., ScoreTable]) -> None:
    found = table(
        {"conversation": name, "turn": turn, "value": 2.0, "annotator": "population"}
        for name, turn in (("elsewhere", None), ("gpt-9-1", 1), ("gpt-9-1", 99))
    )
    assert found.unknown == 1 and [row.get("metadata: system") for row in found.rows] == [None, "gpt-9", "gpt-9"]
    assert [row.get("metric: question-rate") for row in found.rows] == [None, 0.0, None]


def test_a_chart_counts_in_bins_and_names_no_field_by_its_text(table: Callable[..., ScoreTable]) -> None:
    turns = (Turn("user", "a"), Turn("assistant", "b"))
    chats = (Conversation(f"c{n}", turns, metadata={EVIL: f"{n % 30}"}) for n in range(60))
    found = table(({"conversation": f"c{n}", "value": n / 7} for n in range(60)), *chats)
    made = chart_of(found, x=f"metadata: {EVIL}", y=VALUE, color=VALUE)
    groups = made.to_json()["groups"]
    counted = Counter[str]()
    for group in groups:
        counted[group["x"]] += group["n"]
    assert len(counted) == CATEGORIES + 1 and counted[OTHER] == 60 - 2 * CATEGORIES
    assert len({group["color"] for group in groups}) <= 5 and EVIL not in made.draw()
    plain = chart_of(found, x=VALUE, y=VALUE, mark="point", aggregate="none")
    assert plain.is_raw and len(plain.to_json()["points"]) == 60 and plain.draw().count("<circle") == 60


@pytest.mark.parametrize(
    ("fields", "drawn"),
    [
        ({"x": VALUE, "aggregate": "count"}, "<rect"),
        ({"x": "metadata: topic", "mark": "quartiles"}, "<circle"),
        ({"x": "metadata: topic", "mark": "line", "color": "metadata: system"}, "<polyline"),
        ({"x": "metadata: topic", "mark": "point", "aggregate": "none"}, "<circle"),
        ({"x": "turns", "y": "metadata: system", "aggregate": "count"}, "<rect"),
    ],
)
def test_every_mark_draws(table: Callable[..., ScoreTable], fields: dict[str, str], drawn: str) -> None:
    chart = chart_of(table({"conversation": f"gpt-9-{n}", "value": n / 7} for n in range(12)), **fields)
    assert drawn in chart.draw() and sum(group["n"] for group in chart.to_json().get("groups", [{"n": 12}])) == 12


@pytest.mark.slow
def test_explore_is_for_leads_and_refuses_unknown_columns(
    workbench: StartWorkbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = workbench(["ann"], ["lee"], reading_project(tmp_path, monkeypatch))
    lee, ann = bench.browser("lee"), bench.browser("ann")

    def explore(**fields: str) -> str:
        return lee.get("/explore?" + urlencode(fields))

    assert "No conversation has been scored yet" in explore() and lee.status == 200
    scored(bench.project, tmp_path)
    page = explore(x="turns", aggregate="count")
    assert "31 of 31 scores" in page and "1 score of synthetic conversations is left out" in page
    assert not strange(page) and 'value="turns" selected' in page
    for wrong in (
        {"x": EVIL},
        {"mark": "image"},
        {"aggregate": "sum(x)"},
        {"y": "metadata: topic"},
        {"aggregate": "none"},
    ):
        refused = explore(**wrong)
        assert lee.status == 422 and not strange(refused), wrong
        assert "allowed: " in refused or "choose" in refused
    assert "are included" in explore(synthetic="yes")
    for path in ("/explore", "/explore.json"):
        assert RICH not in ann.get(path) and ann.status == 403, path
    assert json.loads(ann.get("/explore.json"))["error"]


# --- in a browser -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A lead's page of a project in which everything was scored."""
    folder = tmp_path_factory.mktemp("explored")
    with pytest.MonkeyPatch.context() as patch, reading_project(folder, patch) as opened:
        scored(opened, folder)
        with served(opened) as port, tab(browser, port) as page:
            yield page


@pytest.mark.browser
@pytest.mark.slow
def test_charts_are_drawn_under_the_policy_and_are_accessible(page: Any) -> None:
    wrong: list[str] = []
    page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    page.on("request", lambda asked: "//localhost:" in asked.url or wrong.append(asked.url))
    for fields in (
        {}, {"x": VALUE, "aggregate": "count", "color": "metadata: system"},
        {"x": "metric: words-per-reply", "mark": "point", "aggregate": "none"},
        {"x": "metadata: topic", "mark": "quartiles"}, {"x": "metadata: week", "mark": "line"},
    ):  # fmt: skip
        page.goto("/explore?" + urlencode(fields))
        assert page.locator("#chart svg .bar, #chart svg .point").count() > 1
        assert not faults(page, [LIGHT, DARK]), fields
    page.get_by_label("Mark").select_option("bar")
    page.get_by_role("button", name="Draw").click()
    page.wait_for_url("**mark=bar*")
    page.locator("#chart svg").wait_for()
    assert not wrong, wrong


@pytest.mark.browser
@pytest.mark.slow
def test_lead_pages_are_accessible_in_light_and_dark(page: Any) -> None:
    for path in ("/lead", "/lead/look", "/lead/look/disagree"):
        page.goto(path)
        for fold in page.locator("details").all():
            fold.evaluate("each => { each.open = true; }")
        assert not faults(page), path
