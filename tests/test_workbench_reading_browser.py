"""The reading view in a browser: by keyboard, folded and open, late expectations, light, dark, on a phone, accessible."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import chromium, faults, tab
from read_conversations import RICH, reading_project, rich
from served_workbench import project, served

from accord import Conversation, Turn
from accord.project import score
from accord.workbench.app import reading_address

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as opened:
        yield opened


def focused(page: Any) -> str:
    return str(page.evaluate("document.activeElement.id || document.activeElement.textContent.trim()"))


def test_a_lead_reads_by_keyboard(browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with reading_project(tmp_path, monkeypatch) as opened, served(opened) as port, tab(browser, port) as page:
        page.goto("/")
        page.goto(reading_address(RICH, 4, "/lead"))
        assert page.locator("[rel=up]").count() == 0, "a way back to the board alone"
        page.get_by_text("Who would rate it how").wait_for()  # filled in when it is worked out
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
        page.get_by_label("Single keys do this").uncheck()
        page.keyboard.press("Escape")
        page.keyboard.press("j")
        assert focused(page) != "t5"
        page.keyboard.press("?")
        page.get_by_label("Single keys do this").check()
        page.keyboard.press("Escape")
        page.keyboard.press("o")
        page.wait_for_url("**open=all*")
        assert page.locator("details:not([open])").count() == 0
        assert page.get_by_text("find_article").first.is_visible()


def test_the_reading_view_is_accessible_and_fits(browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with reading_project(tmp_path, monkeypatch) as opened:
        score(opened, opened.load(), [rich()], tmp_path / "scores.jsonl")
        looks: list[dict[str, Any]] = [
            {"color_scheme": "light"}, {"color_scheme": "dark"}, {"viewport": {"width": 390, "height": 800}}
        ]  # fmt: skip
        with served(opened) as port:
            for look in looks:
                with tab(browser, port, **look) as page:
                    page.goto("/")
                    for address in (
                        reading_address(RICH, 4),
                        f"{reading_address(RICH)}?open=all",
                        "/conversation/made",
                    ):
                        page.goto(address)
                        page.get_by_text("Who would rate it how").wait_for()
                        assert not faults(page), (look, address)
                        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (look, address)


def test_five_hundred_turns_are_one_page_without_script_too(browser: Any, tmp_path: Path) -> None:
    turns = tuple(Turn("assistant" if place % 2 else "user", f"Turn number {place}. " * 20) for place in range(500))
    with project(tmp_path) as opened:
        opened.store.add_conversations([Conversation("long", turns)])
        with served(opened) as port, tab(browser, port, java_script_enabled=False) as page:
            page.goto("/")
            page.goto("/conversation/long?turn=400#t400")
            assert page.locator(".turn").count() == 500
            assert page.locator("#t400").is_visible()
            page.get_by_role("link", name="451 user").click()
            assert page.url.endswith("#t450")
