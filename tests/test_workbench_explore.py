"""Explore page: tables, settings, charts, roles, and accessibility."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from xml.etree import ElementTree

import pytest
from browsing import DARK, LIGHT, PHONE, faults, tab
from read_conversations import RICH, reading_project
from scored_rows import add_scores
from served_workbench import StartWorkbench, project, served
from test_workbench_pages import EVIL, strange

from accord import Conversation, Project, Turn
from accord.board import BoardFilters
from accord.scoring import score
from accord.web.pages.explore import CATEGORIES, OTHER, ChartSettings, ExploreChart, ScoreTable, load_score_table

VALUE = "score: value"


def scored(opened: Project, folder: Path) -> None:
    score(opened, opened.load(), list(opened.store.conversations(synthetic="with")), folder / "scores.jsonl")


def test_score_table_has_metadata_and_metrics_without_synthetic_conversations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with reading_project(tmp_path, monkeypatch, fits=False) as opened:
        rated = load_score_table(opened)
        assert (rated.value, rated.total, len(rated.rows)) == ("rating", 92, 92), "without scores, the ratings"
        assert rated.default_group() == "metadata: system" and rated.columns["rating"]
        opened.fit(every_question=True)
        scored(opened, tmp_path)
        learned = load_score_table(opened)
        assert (learned.noun, learned.columns[VALUE]) == ("mean rating", True), "the evaluator learned from all of them"
        predicted = BoardFilters(answers="predicted")
        found = load_score_table(opened, selection=predicted)
        assert (len(found.rows), found.total, found.synthetic, found.unknown) == (31, 31, 1, 0)
        assert not any(row["synthetic"] for row in found.rows)
        assert found.columns[VALUE] and found.columns["question: Q1"] and found.columns["metric: words-per-reply"]
        assert not found.columns["metadata: system"] and found.columns["metadata: week"]
        both = load_score_table(opened, selection=BoardFilters(synthetic="with", answers="predicted"))
        assert sum(bool(row["synthetic"]) for row in both.rows) == 1
        few, again = (load_score_table(opened, selection=predicted, size=10) for _ in range(2))
        assert (len(few.rows), few.total) == (10, 31) and few.rows == again.rows


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
    return ExploreChart(found, ChartSettings.from_query(fields, found))


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
    plain = chart_of(found, x=VALUE, y=VALUE, aggregate="none")
    assert len(plain.to_json()["points"]) == 60 and plain.draw().count("<circle") == 60


@pytest.mark.parametrize(
    ("fields", "drawn"),
    [
        ({"x": VALUE, "aggregate": "count"}, 'class="bar '),
        ({"x": "metadata: topic", "aggregate": "median"}, "<circle"),
        ({"x": "metadata: topic", "color": "metadata: system"}, "<circle"),
        ({"x": "metadata: topic", "aggregate": "none"}, "<circle"),
        ({"x": "metadata: system", "color": "metadata: topic", "aggregate": "none"}, "<circle"),
        ({"x": "turns", "y": "metadata: system", "aggregate": "count"}, 'class="bar '),
    ],
)
def test_every_aggregate_draws_and_means_are_never_bars(
    table: Callable[..., ScoreTable], fields: dict[str, str], drawn: str
) -> None:
    chart = chart_of(table({"conversation": f"gpt-9-{n}", "value": n / 7} for n in range(12)), **fields)
    picture = chart.draw()
    assert drawn in picture and sum(group["n"] for group in chart.to_json()["groups"]) == 12
    ends = {"mean": "95% interval of the mean", "median": "middle half of the values"}
    assert chart.to_json()["ends"] == ends.get(chart.settings.aggregate)
    assert ("<table" in picture) == (fields.get("aggregate") != "none"), "a chart and table in one"
    assert ('class="bar ' in picture) == (fields.get("aggregate") == "count")
    assert picture.count('class="key ') == (3 if fields.get("color") and fields.get("aggregate") == "none" else 0)
    for drawing in ElementTree.fromstring(f"<div>{re.sub('<col [^>]*>|<col>', '', picture)}</div>").iter("svg"):
        places = [
            drawing.get("width", "0%"),
            *(each.get(name) for each in drawing.iter() for name in ("x", "x1", "cx")),
        ]
        assert all(place.endswith("%") for place in places if place), "it fits a phone"


def test_default_chart_is_the_mean_by_system_with_intervals_inside_the_scale(table: Callable[..., ScoreTable]) -> None:
    chart = chart_of(table({"conversation": f"gpt-9-{n}", "value": 4.5 if n % 2 else 1.5 + n / 12} for n in range(12)))
    data = chart.to_json()
    assert (data["x"], data["y"], data["aggregate"]) == ("metadata: system", VALUE, "mean")
    assert data["title"] == chart.title == "Mean Satisfaction by assistant version"
    best, other = data["groups"]
    assert (best["x"], best["n"], best["y"], best["low"], best["high"]) == ("gpt-9", 6, 4.5, 4.5, 4.5)
    assert other["low"] < other["y"] < other["high"]
    shown = " ".join(re.sub("<[^>]*>", " ", chart.draw()).split())
    assert f"gpt-9 6 4.50 4.50 to 4.50 {other['x']} 6 1.92 {other['low']:.2f} to {other['high']:.2f} " in shown
    ticks = [float(text) for text in re.findall(r'text-anchor="middle">([\d.]+)</text>', chart.draw())]
    assert (ticks[0], ticks[-1]) == (1, 4), "the axis is that of the scale"


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"system": "one", "language": "en de", "topic": "a b c"}, "metadata: language"),
        ({"system": "one", "country": "at ch", "domain": "x y"}, "metadata: domain"),
        ({"system": "one", "country": "at ch", "id": "@"}, "metadata: country"),
        ({"time": "@"}, "day"),
        ({"system": "one"}, VALUE),
    ],
)
def test_with_one_system_the_default_chart_is_by_another_group_or_the_distribution(
    table: Callable[..., ScoreTable], metadata: dict[str, str], expected: str
) -> None:
    def value(texts: str, n: int) -> str:
        return f"2026-03-0{n % 3 + 1}T10:{n:02d}:00" if texts == "@" else texts.split()[n % len(texts.split())]

    turns = (Turn("user", "a"), Turn("assistant", "b"))
    chats = [
        Conversation(f"c{n}", turns, metadata={name: value(texts, n) for name, texts in metadata.items()})
        for n in range(30)
    ]
    chart = chart_of(table(({"conversation": chat.id, "value": n / 10} for n, chat in enumerate(chats)), *chats))
    assert chart.settings.x == expected
    assert chart.settings.aggregate == ("count" if expected == VALUE else "mean")
    assert sum(group.n for group in chart.groups()) == 30 and chart.draw()


def test_explore_is_for_leads_and_refuses_unknown_columns(
    workbench: StartWorkbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = workbench(["ann"], ["lee"], reading_project(tmp_path, monkeypatch))
    lee, ann = bench.browser("lee"), bench.browser("ann")

    def explore(**fields: str) -> str:
        return lee.get("/explore?" + urlencode(fields))

    page = explore()
    assert (
        "92 ratings of the main question" in page
        and "by assistant version</h1>" in page
        and page.count("<form") == 2
        and "How good is it?" in page
    )
    scored(bench.project, tmp_path)
    page = explore()
    assert "by assistant version</h1>" in page and re.search(r">desk-1</a> <small[^>]*>\d+<", page)
    page = explore(x="turns", aggregate="count")
    counted = re.search(r'<p class="meta">.* · (.*?)</p>', lee.get("/board"))
    assert counted is not None and f"List the {counted[1]}" in page, (
        "the board and explore count the same conversations"
    )
    assert "1 score of synthetic conversations is left out" in page
    assert not strange(page) and 'value="turns" selected' in page
    for choices in (
        {"answers": "given", "y": "score: entropy"},
        {"answers": "predicted"},
        {"answers": "given", "view": "each"},
    ):
        assert not strange(explore(**choices)) and lee.status == 200, choices
    assert 'href="/board?' in explore(answers="predicted") and "metadata: system<" not in page
    for wrong in (
        {"x": EVIL},
        {"aggregate": "sum(x)"},
        {"y": "metadata: topic"},
    ):
        refused = explore(**wrong)
        assert lee.status == 422 and not strange(refused), wrong
        assert "allowed: " in refused or "choose" in refused
    assert "are included" in explore(synthetic="with")
    found = json.loads(lee.get("/explore.json?find=" + EVIL[:3]))
    assert found["total"] == json.loads(lee.get("/board.json?find=" + EVIL[:3]))["texts"] < 31
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


def scrolling(page: Any, kind: str) -> list[str]:
    """Return the elements that scroll sideways on a phone."""
    page.set_viewport_size({"width": PHONE[1], "height": 800})
    find = "kind => [...document.querySelectorAll(kind)].filter(each => each.scrollWidth > each.clientWidth)"
    return list(page.evaluate(f"{find}.map(each => each.textContent)", kind))


@pytest.mark.browser
def test_charts_are_drawn_under_the_policy_and_are_accessible(page: Any) -> None:
    wrong: list[str] = []
    page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    page.on("request", lambda asked: "//localhost:" in asked.url or wrong.append(asked.url))
    for fields in (
        {}, {"x": VALUE, "aggregate": "count", "color": "metadata: system"},
        {"x": "metric: words-per-reply", "aggregate": "none"}, {"x": "metadata: topic", "aggregate": "median"},
    ):  # fmt: skip
        page.goto("/explore?" + urlencode(fields))
        assert page.locator(".card .plot-svg :is(.bar, .pt, .dot)").count() > 1
        assert not faults(page, [LIGHT, DARK]), fields
        assert not faults(page, [PHONE]), fields
        wide = "[...document.querySelectorAll('figure, .card > .body, .tbl-wrap')].filter(each => each.scrollWidth > each.clientWidth).length"
        assert page.evaluate("innerWidth") == PHONE[1] and page.evaluate(wide) == 0, "nothing scrolls on a phone"
    page.get_by_label("Show").select_option("count")
    page.wait_for_url("**aggregate=count*")
    page.locator(".card .plot-svg .bar").first.wait_for(state="attached")  # a level line has no height
    assert not wrong, wrong


@pytest.mark.browser
def test_lead_pages_are_accessible_in_light_and_dark(page: Any) -> None:
    for path in ("/lead", "/lead/look", "/lead/look/disagree"):
        page.goto(path)
        for fold in page.locator("details").all():
            fold.evaluate("each => { each.open = true; }")
        assert not faults(page), path
        assert not scrolling(page, "figure"), path
