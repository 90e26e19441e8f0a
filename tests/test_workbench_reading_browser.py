"""The reading view in a browser: by keyboard, folded and open, late expectations, light, dark, on a phone, accessible."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import DARK, LIGHT, PHONE, faults, tab
from read_conversations import RICH, reading_project, rich
from served_workbench import StartWorkbench, served

from accord import Conversation, Project, Turn
from accord.scoring import score
from accord.web.context import conversation_address

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with pytest.MonkeyPatch.context() as patch, reading_project(tmp_path_factory.mktemp("read"), patch) as opened:
        yield opened


@pytest.fixture(scope="module")
def page(browser: Any, opened: Project) -> Iterator[Any]:
    with served(opened) as port, tab(browser, port) as page:
        yield page


def predicted(page: Any) -> None:
    """Wait for the evaluator's row above people's ratings, which is filled in when it is worked out."""
    row = page.locator("th").filter(has_text=re.compile("^(Evaluator|A new person)"))
    row.first.wait_for(state="attached")


def focused(page: Any) -> str:
    return str(page.evaluate("document.activeElement.id || document.activeElement.textContent.trim()"))


def test_a_lead_reads_by_keyboard(page: Any) -> None:
    page.goto(conversation_address(RICH, 4, "/lead"))
    assert page.locator("[rel=up]").get_attribute("href") == "/board", "a way back to the board alone"
    predicted(page)
    assert focused(page) == "t4"
    for key, where in (("j", "t5"), ("k", "t4"), ("k", "t3"), ("j", "t4")):
        page.keyboard.press(key)
        assert focused(page) == where
    page.keyboard.press("n")
    assert focused(page) == "it can be returned"
    page.keyboard.press("n")
    assert focused(page) == "We always pay for that"
    page.keyboard.press("p")
    assert focused(page) == "it can be returned"
    page.keyboard.press("?")
    page.get_by_label("Use single-key shortcuts").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    assert focused(page) != "t5"
    page.keyboard.press("?")
    page.get_by_label("Use single-key shortcuts").check()
    page.keyboard.press("Escape")
    page.keyboard.press("o")
    page.wait_for_url("**open=all*")
    assert page.locator("details:not([open])").count() == 0
    assert page.get_by_text("find_article").first.is_visible()


def test_the_reading_view_is_accessible_and_fits(page: Any, opened: Project, tmp_path: Path) -> None:
    score(opened, opened.load(), [rich()], tmp_path / "scores.jsonl")
    for looks in ([LIGHT, DARK], [PHONE]):
        page.set_viewport_size({"width": looks[0][1], "height": 800})  # on a phone the page comes folded
        for address in (conversation_address(RICH, 4), f"{conversation_address(RICH)}?open=all", "/conversation/made"):
            page.goto(address)
            predicted(page)
            assert not faults(page, looks), address


def test_five_hundred_turns_are_one_page_without_script_too(browser: Any, workbench: StartWorkbench) -> None:
    bench = workbench()
    turns = tuple(Turn("assistant" if place % 2 else "user", f"Turn number {place}. " * 20) for place in range(500))
    bench.store.add_conversations([Conversation("long", turns)])
    with tab(browser, bench.port, java_script_enabled=False) as page:
        page.goto("/conversation/long?turn=400#t400")
        assert page.locator(".turn").count() == 500
        assert page.locator("#t400").is_visible()
        page.get_by_label("Turns").locator("summary").click()  # the list of turns comes folded
        page.get_by_role("link", name="451 user").click()
        assert page.url.endswith("#t450")
