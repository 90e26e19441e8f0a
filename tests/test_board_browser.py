"""The board in a browser: a lead opens a list and comes back; by keyboard, without script, by axe-core."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from browsing import faults, tab
from served_workbench import project, served
from test_board import DAY, annotated, planted

from accord import Conversation, Turn

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def served_board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with project(tmp_path_factory.mktemp("board")) as opened:
        scores = [{**row, "turn": 1 + 2 * (place % 3)} for place, row in enumerate(planted())]
        opened.store.add_conversations(
            Conversation(name, tuple(Turn(("user", "assistant")[n % 2], f"Turn {n + 1} of {name}.") for n in range(6)))
            for name in {row["conversation"] for row in scores}
        )
        opened.mart.add(scores)
        opened.mart.add([{**row, "conversation": f"of-{row['conversation']}"} for row in annotated()])
        old = [{**row, "evaluator": "first@1", "scored": row["scored"] - DAY} for row in scores]
        opened.mart.add([{**row, "value": row["value"] - 0.1 + n % 3 / 100} for n, row in enumerate(old)])
        with served(opened) as port:
            yield port


@pytest.fixture(scope="module")
def page(browser: Any, served_board: int) -> Iterator[Any]:
    with tab(browser, served_board) as opened:
        yield opened


class Clicks:
    """Counter of the clicks on a page."""

    def __init__(self, page: Any) -> None:
        self.page, self.count = page, 0

    def on(self, link: Any) -> None:
        link.click()
        self.count += 1


def at(page: Any) -> str:
    return str(page.evaluate("location.pathname + location.search"))


def test_a_lead_opens_a_list_reads_the_worst_and_comes_back(page: Any) -> None:
    page.goto("/lead")
    page.get_by_role("link", name="Scores").click()
    page.get_by_label("By", exact=True).select_option("topic")
    page.wait_for_url("**by=topic**")
    page.locator(".axes").get_by_role("link", name="t1", exact=True).click()
    page.locator("h1", has_text="with topic t1").wait_for()
    board = at(page)
    page.locator(".plot-svg a").first.click()
    page.locator("h1", has_text="lowest scores first").wait_for()
    first = page.locator("main .tbl tbody tr")
    values = [float(row.locator("td").first.inner_text()) for row in first.all()]
    assert values == sorted(values) and values
    here, worst = at(page), page.locator("main .tbl tbody th").first
    said = worst.locator(".why").inner_text()  # such as "c17, turn 2"
    name, turn = said.partition(",")[0], int(said.rpartition(" ")[2])
    assert worst.locator("a").inner_text() == f"Turn {turn - 1} of {name}.", "the words of the user before the reply"
    worst.locator("a").click()
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Studies").wait_for()
    page.locator(".meta", has_text=f"{name} · ").wait_for()
    assert at(page).startswith(f"/conversation/{name}?")
    chosen = page.locator("article.is-rated")
    assert chosen.count() == 1 and f"Turn {said.rpartition(' ')[2]} of {name}." in chosen.inner_text()
    page.keyboard.press("u")
    page.locator("h1", has_text="first").wait_for()
    assert at(page) == here
    page.get_by_role("navigation", name="Path").get_by_role("link", name="Board").click()
    page.locator("h1", has_text="with topic t1").wait_for()
    assert at(page) == board
    page.get_by_role("link", name="topic t1").click()  # the filter is taken away
    page.locator("h1", has_text=re.compile(r"between the .*topics|topic t\d scores")).wait_for()
    assert "topic=t1" not in at(page)


def filters(page: Any) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


def test_filters_stay_through_pages_transcripts_and_comparisons(page: Any) -> None:
    """From the board of a topic: all texts, second page, transcript, back, back to the board, compare two systems."""
    kept = {"topic": ["t1"], "since": ["2026-06-02"]}

    def has_kept() -> bool:
        return kept.items() <= filters(page).items()

    page.goto("/board?topic=t1&since=2026-06-02")
    page.get_by_role("link", name=re.compile(r"^All \d+$")).click()
    page.get_by_role("link", name="Next page").first.click()
    page.get_by_text("Page 2 of").first.wait_for()
    assert has_kept()
    page.get_by_role("link", name="Highest", exact=True).click()
    page.locator("h1", has_text="highest scores first").wait_for()
    page.get_by_role("link", name="Next page").first.click()
    page.get_by_text("Page 2 of").first.wait_for()
    listed = at(page)
    assert has_kept() and filters(page)["page"] == ["2"] and filters(page)["order"] == ["best"]
    page.locator("main .tbl tbody a").last.click()
    page.get_by_role("navigation", name="Path").get_by_role("link", name="Conversations").click()
    page.locator("h1", has_text="first").wait_for()
    assert at(page) == listed
    page.get_by_role("navigation", name="Path").get_by_role("link", name="Board").click()
    page.locator(".plot-svg").first.wait_for()
    assert has_kept() and "page" not in filters(page) and "order" not in filters(page)
    page.get_by_text("More", exact=True).click()
    page.get_by_role("navigation", name="Compare").get_by_role("link", name="assistant versions b and a").click()
    page.locator("h1", has_text=re.compile(r"b scores .* higher than a")).wait_for()
    assert has_kept()
    page.get_by_label("By", exact=True).select_option("version")
    page.wait_for_url("**by=version**")
    assert not page.get_by_role("button", name="Apply").is_visible()
    page.get_by_label("Search in conversations").fill("turn")
    page.get_by_role("searchbox").press("Enter")
    page.get_by_role("link", name="the words “turn”").wait_for()
    assert has_kept() and filters(page)["find"] == ["turn"] and "first" not in filters(page)
    page.get_by_role("group", name="Scores").get_by_role("link", name="Ratings of people").click()
    page.locator("h1").wait_for()
    assert has_kept() and filters(page)["find"] == ["turn"]


def test_two_versions_and_two_evaluators_are_compared_in_one_click(page: Any) -> None:
    for link, result in (
        (
            "assistant versions b and a",
            r"b scores 0\.\d\d points higher than a on Satisfaction",
        ),
        (
            "with evaluator first",
            r"Evaluator e \(1 Jun 2026\) scores the same \d+ replies 0\.09 points higher than first .* on Satisfaction",
        ),
    ):
        page.goto("/board")
        page.get_by_text("More", exact=True).click()
        clicks = Clicks(page)
        clicks.on(page.get_by_role("navigation", name="Compare").get_by_role("link", name=link))
        page.locator("h1", has_text=re.compile(result)).wait_for()
        assert page.locator("nav[aria-label=Compare] [aria-current]").count() == 1
        assert clicks.count == 1


@pytest.mark.parametrize("part", ["part of the chart", "all"])
def test_a_transcript_is_two_clicks_from_the_board(page: Any, part: str) -> None:
    page.goto("/board")
    clicks = Clicks(page)
    clicks.on({
        "part of the chart": page.locator(".plot-svg a").first,
        "all": page.get_by_role("link", name=re.compile(r"^All \d+$")),
    }[part])  # fmt: skip
    clicks.on(page.locator("main .tbl tbody a").first)
    page.locator("article.is-rated").wait_for()
    assert clicks.count <= 2 and page.url.startswith(page.evaluate("location.origin") + "/conversation/")


def test_the_parts_of_a_figure_are_reached_by_keyboard(page: Any) -> None:
    page.goto("/board")
    page.locator(".plot-svg a").nth(2).focus()
    page.keyboard.press("Tab")
    said = page.evaluate("document.activeElement.getAttribute('aria-label')")
    count = said.rpartition(", ")[2]
    page.keyboard.press("Enter")
    page.locator("h1", has_text=count).wait_for()
    page.go_back()
    page.locator(".plot-svg").first.wait_for()


def test_it_works_without_script(browser: Any, served_board: int) -> None:
    with tab(browser, served_board, java_script_enabled=False) as page:
        page.goto("/board")
        page.get_by_label("By", exact=True).select_option("topic")
        page.get_by_role("button", name="Apply").click()
        page.wait_for_url("**by=topic**")
        page.get_by_text("compare two").click()
        page.locator("select[name=first]").select_option("t1")
        page.locator("select[name=second]").select_option("t0")
        page.get_by_role("button", name="Compare").click()
        page.locator("h1", has_text="topic t1 scores").wait_for()
        assert "first=t1" in page.url and "by=topic" in page.url


def test_nothing_is_wrong_by_axe(page: Any) -> None:
    for path in ("/board", "/board?annotators=ann&annotators=bob", "/board?view=each&by=topic",
                 "/board?against=first%401", "/board?training=with", "/board/list",
                 "/board/list?order=apart&page=2", "/board?system=nobody", "/board?find=turn&order=best"):  # fmt: skip
        page.goto(path)
        assert not faults(page, [(scheme, width) for scheme in ("light", "dark") for width in (390, 1200)]), path
