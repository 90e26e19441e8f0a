"""Workbench in Chromium, from an empty folder to a study with people: uploads, forms, links; axe-core on each page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from browsing import PHONE, faults, tab
from served_workbench import open_workbench
from test_workbench_setup import CHATS, LABELS

from accord.project import Project, config_from
from accord.web import ProjectFiles

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.mark.parametrize("script", [True, False])
def test_lead_sets_up_a_project_in_the_browser(browser: Any, tmp_path: Path, script: bool) -> None:
    (tmp_path / "data").mkdir()
    for name, text in (("chats.jsonl", CHATS), ("labels.csv", LABELS)):
        (tmp_path / "data" / name).write_text(text)
    opened = Project(config_from({"store": f"sqlite:///{tmp_path}/accord.db"}, folder=tmp_path))
    with opened, open_workbench(opened, files=ProjectFiles(tmp_path / "accord.yaml")) as bench:
        with tab(browser, bench.port, java_script_enabled=script, viewport={"width": 390, "height": 800}) as page:
            wrong: list[str] = []

            def check() -> None:
                wrong.extend(f"{page.url}: {fault}" for fault in (faults(page) if script else ()))
                page.set_viewport_size({"width": PHONE[1], "height": 800})

            page.goto("/")
            check()
            files = [str(tmp_path / "data" / name) for name in ("chats.jsonl", "labels.csv")]
            page.set_input_files("#files", files)
            page.get_by_role("button", name="Import").click()
            page.wait_for_url("**/import")
            while not page.get_by_role("link", name="Continue").is_visible():
                page.wait_for_timeout(200)
                page.goto("/import")
            assert "12 labels imported" in page.inner_text("main")
            check()
            page.get_by_role("link", name="Continue").click()
            check()
            page.get_by_role("link", name="Create a study").click()
            page.get_by_label("Title, as people see it").fill("Tone")
            page.get_by_label("People per item").fill("1")
            check()
            page.get_by_role("button", name="Check and preview").click()
            check()
            with page.context.expect_page() as preview:
                page.get_by_role("button", name="Preview the rating page").click()
            preview.value.get_by_text("nothing is saved here").wait_for()
            assert preview.value.get_by_role("radio").first.is_disabled()
            page.get_by_role("button", name="Create the study").click()
            page.wait_for_url("**/lead/tone")
            page.get_by_role("link", name="People", exact=True).click()
            page.get_by_role("button", name="Create my account").click()
            page.get_by_label("Names, separated").fill("ann bob")
            page.get_by_role("button", name="Add, and show their links").click()
            assert page.locator("input[readonly]").count() == 2
            check()
            page.goto("/")
            assert "6 of 6 items of Tone need ratings" in page.inner_text("main")
            check()
            assert not wrong, "\n".join(wrong)
        with tab(browser, bench.port, "") as other:
            other.goto("/")
            assert "Open your personal link" in other.inner_text("main")
