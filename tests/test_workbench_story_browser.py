"""A whole project in Chromium, from an empty folder: import, study, people, ratings, fit, verdict, worst conversation."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from browsing import DARK, LIGHT, PHONE, faults, tab
from served_workbench import Workbench, open_workbench

from accord import Project
from accord.project import config_from
from accord.values import Label, Target
from accord.web import ProjectFiles

pytestmark = pytest.mark.browser

QUALITIES = ("wrong", "vague", "fine", "clear and complete")
CHATS = "".join(
    json.dumps({"id": f"chat-{place}", "system": "bot-b" if place % 3 else "bot-a", "messages": [
        {"role": "user", "content": f"How do I reset device {place}?"},
        {"role": "assistant", "content": f"{QUALITIES[place % 4]}. " * (1 + place % 4) + "<b>Hold</b> the button."},
    ]}) + "\n"
    for place in range(24)
)  # fmt: skip
LABELS = "conversation,annotator,question,value\n" + "".join(
    f"chat-{place},{name},{question},{1 + place % 4}\n"
    for place in range(12, 24) for name in ("eve", "dan") for question in ("helpful", "polite")
)  # fmt: skip
LOOKS = [
    pytest.param({"viewport": {"width": 1280, "height": 900}}, (LIGHT, DARK), id="laptop"),
    pytest.param({"viewport": {"width": PHONE[1], "height": 800}}, (PHONE,), id="phone"),
    pytest.param({"viewport": {"width": 1280, "height": 900}, "java_script_enabled": False}, (), id="no-script"),
]
"""Options of the window, and the looks in which faults of each page are searched."""


@pytest.mark.parametrize(("options", "looks"), LOOKS)
def test_lead_and_two_people_go_from_an_empty_folder_to_a_verdict(
    browser: Any, tmp_path: Path, options: dict[str, Any], looks: Sequence[tuple[str, int]]
) -> None:
    has_script = options.get("java_script_enabled", True)
    (tmp_path / "data").mkdir()
    for name, text in (("chats.jsonl", CHATS), ("labels.csv", LABELS)):
        (tmp_path / "data" / name).write_text(text, encoding="utf-8")
    wrong: list[str] = []

    def check(page: Any) -> None:
        wrong.extend(f"{page.url}: {fault}" for fault in (faults(page, looks) if looks else ()))
        page.set_viewport_size(options["viewport"])

    quick = {"draws": 20, "metrics": ["words"], "evaluators": {"default": {"head": "mixed"}}}
    opened = Project(config_from({"store": f"sqlite:///{tmp_path}/accord.db", **quick}, folder=tmp_path))
    with (
        opened,
        open_workbench(opened, files=ProjectFiles(tmp_path / "accord.yaml")) as bench,
        tab(browser, bench.port, **options) as lead,
    ):
        import_files(lead, tmp_path / "data", check)
        create_study(lead, check)
        links = invite(lead, check)
        for name, link in links.items():
            rate_ten(browser, bench, link, options, looks, wrong, differs=name == "bob")
            done = stored(bench, name)
            helpful = [label.value for label in done if label.question == "helpful"]
            assert len(done) == 20 and sorted(helpful) == ([3] * 10 if name == "ann" else [1, *[3] * 9])
            assert {label.value for label in done if label.question == "polite"} == {1}
        adjudicate(lead, has_script, check)
        fit_and_read(lead, bench, check)
    assert not wrong, "\n".join(wrong)


def test_example_is_loaded_from_the_first_page(browser: Any, tmp_path: Path) -> None:
    opened = Project(config_from({"store": f"sqlite:///{tmp_path}/accord.db"}, folder=tmp_path))
    with (
        opened,
        open_workbench(opened, files=ProjectFiles(tmp_path / "accord.yaml")) as bench,
        tab(browser, bench.port) as page,
    ):
        page.goto("/")
        assert not faults(page) and page.get_by_role("button", name="New study").is_disabled()
        page.get_by_role("button", name=re.compile("Use the example")).click()
        page.get_by_role("link", name="Continue").wait_for()
        assert "150 conversations" in page.inner_text("h1")
        assert not faults(page)
        page.locator("summary").filter(has_text="Undo").click()
        page.get_by_role("button", name=re.compile("Undo the import")).click()
        page.get_by_role("status").filter(has_text="The import is undone.").wait_for()
        for address in ("/people", "/rubric", "/settings", "/studies/new", "/help", "/lead", "/disagree", "/import"):
            page.goto(address)
            found = faults(page)
            assert not found, (address, found)


def import_files(page: Any, folder: Path, check: Callable[[Any], None]) -> None:
    """Upload conversations and ratings on the first page of an empty project."""
    page.goto("/")
    check(page)
    page.set_input_files("#files", [str(folder / name) for name in ("chats.jsonl", "labels.csv")])
    page.get_by_role("button", name="Import", exact=True).click()
    page.wait_for_url("**/import")
    while not page.get_by_role("link", name="Continue").is_visible():
        page.wait_for_timeout(200)
        page.goto("/import")
    assert "24 conversations and 48 ratings imported" in page.inner_text("main")
    check(page)
    page.get_by_role("link", name="Continue").click()
    check(page)


def create_study(page: Any, check: Callable[[Any], None]) -> None:
    """Create a study of ten conversations that two people rate, after a look at the rating page."""
    page.goto("/studies/new")
    page.get_by_label("Title", exact=True).fill("Reset help")
    page.get_by_label("People per item").fill("2")
    page.get_by_label(re.compile("drawn at random")).fill("10")
    check(page)
    page.get_by_role("button", name="Check and preview").click()
    check(page)
    with page.context.expect_page() as preview:
        page.get_by_role("button", name="Preview the rating page").click()
    preview.value.get_by_text("nothing is saved here").wait_for()
    assert preview.value.get_by_role("radio").first.is_disabled()
    preview.value.close()
    page.get_by_role("button", name="Create the study").click()
    page.wait_for_url("**/lead/reset-help?done=created")


def invite(page: Any, check: Callable[[Any], None]) -> dict[str, str]:
    """Create the lead's account and two others, and return the links of these two by name."""
    page.goto("/people")
    page.get_by_role("button", name="Create my account").click()
    page.get_by_label(re.compile("^Names")).fill("ann bob")
    page.get_by_role("button", name="Add, and show their links").click()
    fields = page.locator("input[readonly]")
    links = [fields.nth(place).input_value() for place in range(fields.count())]
    assert len(links) == 2
    check(page)
    page.goto("/lead/reset-help")
    if page.get_by_role("button", name=re.compile("Open")).count():
        page.get_by_role("button", name=re.compile("Open")).first.click()
    page.goto("/")
    assert "10 items still need a rating" in page.inner_text("main")
    check(page)
    return dict(zip(("ann", "bob"), links, strict=True))


def rate_ten(
    browser: Any,
    bench: Workbench,
    link: str,
    options: dict[str, Any],
    looks: Sequence[tuple[str, int]],
    wrong: list[str],
    differs: bool,
) -> None:
    """Open a personal link and answer both questions of ten items: by the keys 3, 1, Enter, or by forms.

    A person who differs gives one item 1 instead of 3.
    """
    with tab(browser, bench.port, "", **options) as page:
        page.goto(urlsplit(link).path)
        page.get_by_role("button", name=re.compile("Continue as")).click()
        page.goto("/rate/reset-help")
        for number in range(1, 11):
            first = 1 if differs and number == 4 else 3
            page.get_by_text(f"Item {number} ·").wait_for()
            if options.get("java_script_enabled", True):
                page.locator("fieldset.is-current").first.wait_for()
                if number == 1:
                    wrong.extend(f"{page.url}: {fault}" for fault in faults(page, looks))
                    page.set_viewport_size(options["viewport"])
                for key in (str(first), "1", "Enter"):
                    page.keyboard.press(key)
            else:
                for question, value in (("helpful", first), ("polite", 1)):
                    page.locator(f"input[name='value.{question}'][value='{value}']").check()
                page.get_by_role("button", name=re.compile("Save")).first.click()
        page.get_by_text("No items left, thank you").wait_for()


def adjudicate(page: Any, has_script: bool, check: Callable[[Any], None]) -> None:
    """Decide the only disputed item by keys or by the form, and read the clause to clarify."""
    page.goto("/disagree")
    page.wait_for_url("**/lead/reset-help/disagree")
    assert page.inner_text("h1") == "People disagree on 1 item"
    check(page)
    page.get_by_role("link", name="Discuss them").click()
    check(page)
    assert page.locator("#settle .choice .badge").all_inner_texts() == ["bob", "ann"]
    page.get_by_label("Note (optional)").fill("What counts as helpful?")
    if has_script:
        page.locator("#settle fieldset").first.locator("input[type=radio]").first.focus()
        for key in ("2", "g", "Enter"):
            page.keyboard.press(key)
    else:
        page.locator("input[name='value.helpful'][value='2']").check()
        page.get_by_label("guideline unclear").check()
        page.get_by_role("button", name="Save and next").click()
    page.get_by_text("The disputed item is adjudicated").wait_for()
    assert page.get_by_role("status").filter(has_text="Adjudication saved.").count() == 1
    page.get_by_role("link", name="Clauses to clarify").click()
    assert "What counts as helpful?" in page.inner_text("main") and "guideline unclear: 1" in page.inner_text("main")
    check(page)


def stored(bench: Workbench, name: str) -> list[Any]:
    """Return the labels of an annotator."""
    return [label for label in bench.project.store.labels() if label.annotator == name]


def fit_and_read(page: Any, bench: Workbench, check: Callable[[Any], None]) -> None:
    """Fit an evaluator, fit and promote the next, read its verdict, and open the conversation with the lowest rating.

    The first evaluator is in use at once; a new rating makes the next one.
    """
    page.goto("/evaluators")
    page.get_by_role("button", name=re.compile("Fit")).click()
    page.goto("/")
    assert "Nothing is left to do" not in page.inner_text("main")
    wait_for(page, "/evaluators", page.locator(".badge", has_text="in use"))
    assert "No evaluator is fitted yet" not in page.inner_text("main") and page.get_by_text("Promote").count() == 0
    check(page)
    bench.project.store.add_labels([Label(Target("chat-0"), "helpful", "eve", 1)])
    page.goto("/evaluators")
    page.get_by_role("button", name="Fit again with 1 new rating").click()
    promote = page.locator("summary", has_text="Promote")
    wait_for(page, "/evaluators", promote)
    check(page)
    promote.first.click()
    page.get_by_role("button", name="Promote").first.click()
    page.goto("/")
    verdict = page.inner_text("h1")
    assert re.search(r"new conversations|Not yet", verdict), verdict
    check(page)
    page.get_by_role("link", name="Report", exact=True).click()
    wait_for(page, "/evaluators/report", page.locator("#agreement"))
    assert page.inner_text("h1") == verdict, "one sentence on both pages"
    check(page)
    page.goto("/")
    page.get_by_role("button", name=re.compile("Score all|Score the conversations")).click()
    board = page.get_by_role("link", name="Board", exact=True)
    wait_for(page, "/", board)
    board.click()
    check(page)
    page.get_by_role("link", name=re.compile(r"^All \d")).first.click()
    check(page)
    page.locator("tbody a").first.click()
    assert "How do I reset device" in page.inner_text("main")
    check(page)


def wait_for(page: Any, address: str, element: Any) -> None:
    """Load a page again until it shows an element."""
    for _ in range(300):
        page.goto(address)
        if element.count():
            return
        page.wait_for_timeout(200)
    raise AssertionError(f"{address} never showed {element}")
