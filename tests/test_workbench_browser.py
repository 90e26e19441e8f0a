"""The workbench in a browser: by keyboard alone, without a connection, with two people, without script, on a phone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from browsing import chromium, faults, tab
from served_workbench import project, served

from accord import Conversation, Turn
from accord.project import Project
from accord.store import Studies
from accord.values import Annotation, Document, Issue, IssueAnnotation, Target, find_quote
from accord.web import add_person

pytestmark = [pytest.mark.browser, pytest.mark.slow]

RUBRIC = """
name: tried
main: good
instructions: Read the whole conversation first.
questions:
  - id: good
    text: How good is the answer?
    options: {1: Poor., 2: Fair., 3: Good., 4: Very good.}
  - id: topic
    text: What is it about?
    scale: nominal
    options: [weather, trains, else]
  - id: share
    text: What share of it is true, in percent?
    scale: real
    low: 0
    high: 100
  - id: better
    text: Which of the two helps more?
    options: {0: the second, 1: about the same, 2: the first}
    applies: pairs
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as opened:
        yield opened


@contextmanager
def workbench(
    folder: Path, people: tuple[str, ...] = (), **settings: Any
) -> Iterator[tuple[Project, int, dict[str, str]]]:
    """A served project with its port and the keys of its people's links."""
    (folder / "rubric.yaml").write_text(RUBRIC, encoding="utf-8")
    with project(folder, rubric=str(folder / "rubric.yaml"), **settings) as opened:
        studies = Studies(opened.store)
        keys = {name: add_person(studies, name) for name in people}
        studies.close()
        with served(opened) as port:
            yield opened, port, keys


def sign_in(page: Any, key: str, name: str) -> None:
    page.goto(f"/in/{key}")
    page.get_by_role("button", name=f"Continue as {name}").click()
    page.wait_for_url("**/")


def let_in(page: Any, port: int, key: str) -> None:
    """Sign in without a page."""
    assert page.request.post("/in", form={"key": key}, headers={"Origin": f"http://localhost:{port}"}).ok


def at_item(page: Any, number: int, total: int = 12) -> None:
    """Wait until the page of an item has come, with its script."""
    page.locator(f"label[for=progress]:text-is('{number} of {total}')").wait_for()
    page.locator("fieldset.current").first.wait_for()


def state(page: Any, said: str) -> None:
    """Wait for a state of the page; on a timeout show its state and unsent answers."""
    try:
        page.locator(f"#state:text-is('{said}')").wait_for()
    except Exception as error:
        there = "[document.getElementById('state').textContent, document.hasFocus(), {...localStorage}]"
        raise AssertionError(f"not {said!r} but {page.evaluate(there)}") from error


def answers(opened: Project) -> list[Annotation]:
    return [each for each in opened.store.annotations() if each.kind == "person"]


# --- by keyboard, without a connection ------------------------------------------------------------------------------


def test_ten_are_rated_by_keyboard_alone_with_the_connection_lost_in_the_middle(browser: Any, tmp_path: Path) -> None:
    with workbench(tmp_path, ("ann",), stages=[{"questions": ["good", "topic", "share"]}]) as (opened, port, keys):
        with tab(browser, port) as page:
            page.goto(f"/in/{keys['ann']}")
            page.keyboard.press("Tab")  # past the content link, to the first thing that can be pressed
            while page.evaluate("document.activeElement.textContent") != "Continue as ann":
                page.keyboard.press("Tab")
            page.keyboard.press("Enter")
            page.wait_for_url("**/")
            while page.evaluate("document.activeElement.textContent") != "First look":
                page.keyboard.press("Tab")
            page.keyboard.press("Enter")
            for number in range(1, 11):
                at_item(page, number)
                page.keyboard.press(str(number % 4 + 1))
                page.keyboard.press("j")
                page.keyboard.press("2")
                if number == 5:  # answers are saved; from now on the server is gone
                    state(page, "saved")
                    page.context.set_offline(True)
                page.keyboard.press("j")
                page.keyboard.type(str(number * 10))
                if number == 5:
                    page.keyboard.press("Enter")
                    state(page, "1 not sent yet")
                    page.keyboard.press("k")
                    page.keyboard.press("3")
                    state(page, "2 not sent yet")
                    page.context.set_offline(False)
                    at_item(page, 6)
                    continue
                if number == 7:  # and again after the page is closed
                    state(page, "saved")
                    page.context.set_offline(True)
                    page.keyboard.press("Tab")
                    state(page, "1 not sent yet")
                    page.goto("about:blank")
                    page.context.set_offline(False)
                    page.goto("/rate/look")
                    at_item(page, 7)
                    state(page, "saved")
                    assert page.locator("input[type=number]").input_value() == "70"
                page.keyboard.press("Enter")
            at_item(page, 11)
        given = answers(opened)
        assert len({each.answer for each in given}) == len(given) == 31, "one answer was changed once"
        assert Counter(each.question for each in opened.store.labels()) == {"good": 10, "topic": 10, "share": 10}
        assert sorted(each.value for each in opened.store.labels().on("share")) == [10.0 * n for n in range(1, 11)]
        assert sorted(Counter(each.value for each in opened.store.labels().on("topic")).items()) == [
            ("else", 1),
            ("trains", 9),
        ]
        assert all(each.seconds is not None and each.rubric for each in given)


ANSWERS: dict[str, dict[str, Any]] = {
    "captive portal": {"status": 200, "body": "<h1>Log in to the network</h1>", "content_type": "text/html"},
    "error in a 200": {"status": 200, "json": {"error": "not kept"}},
    "another id": {"status": 200, "json": {"id": "another"}},
    "500": {"status": 500, "body": "broken"},
    "503": {"status": 503, "json": {"error": "busy"}},
    "429": {"status": 429, "json": {"error": "slowly"}},
}


def fulfilled(answer: dict[str, Any]) -> Callable[[Any], None]:
    return lambda route: route.fulfill(**answer)


def test_only_the_servers_own_yes_empties_a_slot(browser: Any, tmp_path: Path) -> None:
    with (
        workbench(tmp_path, ("ann",), stages=[{"questions": ["good"]}]) as (opened, port, keys),
        tab(browser, port) as page,
    ):
        let_in(page, port, keys["ann"])
        page.goto("/rate/look")
        for number, (name, answer) in enumerate(ANSWERS.items(), 1):
            at_item(page, number)
            page.route("**/answers", fulfilled(answer))
            page.locator("input[value='3']").check()
            state(page, "1 not sent yet")
            page.reload()
            at_item(page, number)
            assert page.locator("input[value='3']").is_checked() and len(answers(opened)) == number - 1, name
            page.unroute("**/answers")
            page.reload()
            state(page, "saved")
            assert [each.value for each in answers(opened)] == [3] * number, name
            page.keyboard.press("Enter")


def test_signed_out_annotator_keeps_answers_that_others_cannot_send(browser: Any, tmp_path: Path) -> None:
    with workbench(tmp_path, ("ann", "bob"), stages=[{"questions": ["good"]}]) as (opened, port, keys):  # noqa: SIM117
        with tab(browser, port) as page:
            sign_in(page, keys["ann"], "ann")
            page.goto("/rate/look")
            at_item(page, 1)
            other = page.context.new_page()
            other.goto("/")
            other.get_by_role("button", name="Sign out").click()
            other.get_by_role("heading", name="Sign in").wait_for()
            page.keyboard.press("4")
            state(page, "signed out: your answers are saved in this browser")
            sign_in(other, keys["bob"], "bob")
            other.goto("/rate/look")
            at_item(other, 1)
            other.keyboard.press("2")
            state(other, "saved")
            assert [(each.by, each.value) for each in answers(opened)] == [("bob", 2)]
            other.get_by_role("button", name="Sign out").click()
            sign_in(other, keys["ann"], "ann")
            page.bring_to_front()
            state(page, "saved")  # the first tab goes on by itself
            assert {(each.by, each.value) for each in answers(opened)} == {("bob", 2), ("ann", 4)}


def test_an_expired_lease_keeps_the_text_and_says_so(browser: Any, tmp_path: Path) -> None:
    with workbench(tmp_path, ("ann", "bob"), annotators_per_item=1, stages=[{"questions": ["good"]}]) as (
        opened,
        port,
        keys,
    ):
        with tab(browser, port) as ann, tab(browser, port) as bob:
            for page, name in ((ann, "ann"), (bob, "bob")):
                let_in(page, port, keys[name])
            ann.goto("/rate/look")
            at_item(ann, 1)
            studies = Studies(opened.store)
            [mine] = studies.assignments_of("look", "ann")
            studies.move(mine.id, "ann", "open", 0, "2020-01-01T00:00:00.000+00:00")
            bob.goto("/rate/look")
            at_item(bob, 1)
            bob.keyboard.press("1")
            bob.keyboard.press("Enter")
            at_item(bob, 2)
            ann.keyboard.press("c")
            ann.keyboard.type("What I think of it")
            ann.keyboard.press("Escape")
            ann.keyboard.press("4")
            ann.get_by_text("others have answered it, and your text stays here").first.wait_for()
            ann.goto("/rate/look")
            state(ann, "1 refused and saved in this browser")
            assert "What I think of it" in ann.locator(".caution").inner_text()
            ann.get_by_role("button", name="Discard").click()
            ann.reload()
            ann.get_by_text("2 of 11").wait_for()
            ann.locator("fieldset.current").wait_for()
            assert not ann.locator(".caution").count() and ann.evaluate("localStorage.length") == 0
            studies.close()
        assert [each.by for each in answers(opened)] == ["bob"]


def test_seconds_are_those_the_page_was_seen_with_the_focus(browser: Any, tmp_path: Path) -> None:
    with workbench(tmp_path, stages=[{"questions": ["good"]}]) as (opened, port, _), tab(browser, port) as page:
        page.clock.install()
        page.request.get("/")
        page.goto("/rate/look")
        at_item(page, 1)
        page.clock.fast_forward(20_000)
        page.evaluate("document.hasFocus = () => false; dispatchEvent(new Event('blur'))")
        page.clock.fast_forward(600_000)
        page.evaluate("document.hasFocus = () => true; dispatchEvent(new Event('focus'))")
        page.keyboard.press("3")
        state(page, "saved")
        [given] = answers(opened)
        assert given.seconds is not None and 20 <= given.seconds < 500


# --- questions ------------------------------------------------------------------------------------------------


def test_each_item_gets_exactly_two_annotators(browser: Any, tmp_path: Path) -> None:
    people = ("ann", "bob", "cy")
    items = {"sample": 3}
    with workbench(tmp_path, people, stages=[{"questions": ["good"]}], items=items) as (opened, port, keys):
        for person in people:
            with tab(browser, port) as page:
                let_in(page, port, keys[person])
                page.goto("/rate/look")
                for number in (1, 2, 3):
                    if person == "cy":
                        break
                    at_item(page, number, 3)
                    page.keyboard.press(str(number))
                    page.keyboard.press("Enter")
                page.get_by_text("No items left" if person != "cy" else "No ratings yet").wait_for()
        labels = opened.store.labels()
        assert Counter(each.annotator for each in labels) == {"ann": 3, "bob": 3}
        assert set(Counter(each.target for each in labels).values()) == {2}


def test_back_undo_comments_and_history(browser: Any, tmp_path: Path) -> None:
    with (
        workbench(tmp_path, stages=[{"questions": ["good"]}], hide_numbers=True) as (opened, port, _),
        tab(browser, port) as page,
    ):
        page.request.get("/")
        page.goto("/rate/look")
        at_item(page, 1)
        assert (
            page.locator("fieldset kbd").all_inner_texts() == ["n", "c"]
            and page.locator("fieldset b").first.inner_text() == "Poor."
        )
        page.keyboard.press("2")
        page.keyboard.press("4")
        page.keyboard.press("u")
        state(page, "saved")
        assert page.locator("input[value='2']").is_checked()
        page.keyboard.press("c")
        page.keyboard.type("because\nof this")
        page.reload()  # the draft is restored
        at_item(page, 1)
        assert page.locator("textarea").input_value() == "because\nof this"
        page.keyboard.press("Enter")
        at_item(page, 2)
        page.keyboard.press("u")
        at_item(page, 1)
        page.get_by_text("Earlier answers").click()
        assert page.locator("fieldset li").all_inner_texts()[0].startswith("Fair.")
        page.keyboard.press("?")
        page.get_by_role("dialog", name="Keys").wait_for()
        page.keyboard.press("Escape")
        page.goto("/rate/look")
        at_item(page, 2)
        page.keyboard.press("s")
        page.keyboard.type("cannot tell")
        page.keyboard.press("Enter")
        at_item(page, 3)
        page.goto("/rate/look/done")
        page.get_by_text("skipped: cannot tell").wait_for()
        page.get_by_role("link", name="Reopen").click()
        page.get_by_role("button", name="Reopen it").click()
        page.get_by_text("Skip this item").wait_for()
        assert [(each.value, each.comment) for each in answers(opened)] == [
            (2, ""),
            (4, ""),
            (2, ""),
            (2, "because\nof this"),
        ]
        assert len(opened.store.labels()) == 1


def test_a_screening_answer_ends_the_questions(browser: Any, tmp_path: Path) -> None:
    settings = {"stages": [{"questions": ["topic", "good"]}], "stop_on": {"topic": ["else"]}}
    with workbench(tmp_path, **settings) as (opened, port, _), tab(browser, port) as page:
        page.request.get("/")
        page.goto("/rate/look")
        at_item(page, 1)
        page.keyboard.press("3")
        page.get_by_text("Your answer ends the questionnaire").wait_for()
        assert page.locator("fieldset:visible").count() == 1
        page.keyboard.press("1")
        assert page.locator("fieldset:visible").count() == 2
        page.keyboard.press("Enter")
        page.get_by_text("Not answered yet").wait_for()
        assert page.evaluate("document.activeElement.name") == "value.good"
        page.keyboard.press("k")
        page.keyboard.press("3")
        page.keyboard.press("Enter")
        at_item(page, 2)
        assert [each.value for each in opened.store.labels()] == ["else"]


def test_pairs_stand_side_by_side_with_a_tie_and_both_bad(browser: Any, tmp_path: Path) -> None:
    with workbench(tmp_path, level="pair") as (opened, port, _), tab(browser, port) as page:
        for place in range(2):
            opening = Turn("user", "The same question")
            opened.store.add_conversations([Conversation(f"p{place}", (opening, Turn("assistant", f"Reply {place}")))])
        page.request.get("/")
        page.goto("/rate/look")
        at_item(page, 1, 1)
        a, b = (page.locator(".transcript").nth(side).bounding_box() for side in (0, 1))
        assert a["y"] == b["y"] and a["x"] + a["width"] <= b["x"]
        assert [each.strip() for each in page.locator(".choice b").all_inner_texts()] == ["A", "Tie", "B"]
        page.keyboard.press("b")
        state(page, "saved")
        page.keyboard.press("Enter")
        page.get_by_text("No items left").wait_for()
        assert {(each.question, each.value) for each in answers(opened)} == {("better", 1), ("better:both-bad", 1)}
        assert all(each.against is not None for each in answers(opened))


TEXT = "It is\r\nsunny \U0001f31e and \x07warm in Paris today."


def assessed(opened: Project) -> None:
    """One conversation whose reply a model has looked into."""
    turns = (Turn("user", "How is it?"), Turn("assistant", TEXT, extra={"tool_calls": ["look_up('Paris')"]}))
    opened.store.add_conversations([Conversation("one", turns, (Document("Paris is warm.", title="Weather"),))])
    quote = "sunny"
    issue = Issue("Coherence", "Says too much.", quote, find_quote(quote, TEXT))
    found = IssueAnnotation(Target("one", 1), (issue,), 2, "OVERALL-COMMENT", "issues|model:secret-model|taxonomy:x")
    from accord.store import IssueAnnotations

    IssueAnnotations(opened.store).add([found])


STAGES = [
    {"id": "first", "questions": ["good"], "show": []},
    {"id": "second", "questions": ["good"], "show": ["issues", "documents"]},
]
FOUND = {"level": "turn", "issue_taxonomy": "soda-eval", "items": {"ids": ["one"]}, "stages": STAGES}


@contextmanager
def with_issues(folder: Path) -> Iterator[tuple[Project, int]]:
    with workbench(folder, **FOUND) as (opened, port, _):
        opened.config.sources["issues"] = {"by": "recorded", "model": "secret-model"}
        assessed(opened)
        yield opened, port


def test_words_are_marked_in_stages_and_issues_shown_where_a_stage_shows_them(browser: Any, tmp_path: Path) -> None:
    with with_issues(tmp_path) as (opened, port), tab(browser, port) as page:
        page.request.get("/")
        page.goto("/rate/look")
        at_item(page, 1, 1)
        assert "Says too much" not in page.content() and "Weather" not in page.content()
        page.evaluate("""() => {
            const text = document.querySelector('[data-turn="1"] .text'), range = document.createRange();
            const walker = document.createTreeWalker(text, NodeFilter.SHOW_TEXT);
            let start, node;
            while ((node = walker.nextNode())) if (node.data.includes('warm')) start = node;
            range.setStart(start, start.data.indexOf('warm'));
            range.setEnd(start, start.data.indexOf('Paris') + 5);
            getSelection().addRange(range);
        }""")
        page.locator(".marker[open]").wait_for()
        page.get_by_label("Comment", exact=True).fill("Not asked for")
        page.locator(".kinds button").first.click()
        page.locator("[data-turn] mark").wait_for()
        [mark] = answers(opened)
        assert mark.quote == "warm in Paris" and mark.span is not None and TEXT[slice(*mark.span)] == mark.quote
        assert mark.comment == "Not asked for" and page.locator("[data-turn] mark").inner_text() == "warm in Paris"
        page.get_by_role("button", name="Remove").click()
        page.locator("[data-turn] mark").wait_for(state="detached")
        page.keyboard.press("2")
        page.keyboard.press("Enter")
        page.get_by_text("Step 2 of 2").wait_for()
        page.locator("fieldset.current").wait_for()
        assert page.locator("mark.found").inner_text() == "sunny" and "Says too much" in page.content()
        assert page.get_by_text("1 document").count() == 1 and "Fair." in page.locator(".box dd").first.inner_text()
        said = page.content() + page.evaluate("async () => (await fetch(location.pathname + '.json')).text()")
        assert "secret-model" not in said and "OVERALL-COMMENT" not in said
        page.keyboard.press("4")
        page.keyboard.press("Enter")
        page.get_by_text("No items left").wait_for()
        given = [(each.stage, each.value, each.shown) for each in answers(opened) if each.question == "good"]
        assert given == [("first", 2, ""), ("second", 4, "documents,issues")]


# --- without script, for everybody -----------------------------------------------------------------------------------


def test_without_script_a_study_is_rated_whole(browser: Any, tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "issue_taxonomy": "soda-eval",
        "stages": [{"questions": ["good", "share"]}],
        "guidelines": "Read on.",
    }
    with workbench(tmp_path, ("ann",), items={"sample": 2}, **settings) as (opened, port, keys):
        with tab(browser, port, java_script_enabled=False) as page:
            sign_in(page, keys["ann"], "ann")
            page.get_by_role("link", name="First look", exact=True).click()
            page.get_by_text("Read on.").wait_for()
            page.get_by_role("link", name="Begin").click()
            page.get_by_label("Poor.").check()
            page.get_by_role("button", name="Save and continue").click()
            page.get_by_text("Not answered yet").wait_for()
            assert page.get_by_label("Poor.").is_checked()
            page.get_by_label("0 to 100").fill("140")
            page.get_by_role("button", name="Save and continue").click()
            page.get_by_text("got '140.0', allowed: 0.0 to 100.0").wait_for()
            assert page.get_by_label("0 to 100").input_value() == "140"
            page.get_by_label("0 to 100").fill("40")
            page.locator("summary:has-text('Comment')").first.click()
            page.locator("textarea").first.fill("two\nlines")
            page.get_by_role("button", name="Save", exact=True).click()
            assert page.locator("textarea").first.input_value() == "two\nlines"
            page.get_by_text("Mark an issue").click()
            page.get_by_label("Quote from the turn").fill("Answer")
            page.locator(".kinds button").first.click()
            assert page.locator("[data-turn] mark").inner_text() == "Answer"
            page.get_by_role("button", name="Remove").click()
            assert not page.locator("[data-turn] mark").count()
            page.get_by_role("button", name="Save and continue").click()
            page.get_by_text("2 of 2").wait_for()
            page.get_by_text("Skip this item").click()
            page.get_by_label("Reason.").fill("no idea")
            page.get_by_role("button", name="Skip", exact=True).click()
            page.get_by_role("link", name="Reopen").click()
            page.get_by_role("button", name="Reopen it").click()
            page.get_by_label("Does not apply").first.check()
            page.get_by_label("Does not apply").last.check()
            page.get_by_role("button", name="Save and continue").click()
            page.get_by_text("No items left").wait_for()
        given = [
            (each.question, each.value, each.comment)
            for each in answers(opened)
            if not each.question.startswith("issue:")
        ]
        assert given == [
            ("good", 1, ""),
            ("good", 1, "two\nlines"),
            ("share", 40.0, ""),
            ("good", None, ""),
            ("share", None, ""),
        ]


LOOKS = [(scheme, width) for scheme in ("light", "dark") for width in (1280, 390, 320)]
"""On a laptop, on a phone, and four times as large."""


def test_axe_finds_nothing_on_any_page(browser: Any, tmp_path: Path) -> None:
    with with_issues(tmp_path) as (opened, port), tab(browser, port) as page:
        found = {}
        for path in ("/in/" + "x" * 43, "/", "/rate/look/done", "/rate/look", "/nothing"):
            page.goto(path)
            found[path] = faults(page, LOOKS)
        page.goto("/rate/look")
        at_item(page, 1, 1)
        for details in page.locator("details").all():
            details.evaluate("each => { each.open = true; }")
        found["everything open"] = faults(page, LOOKS)
        page.get_by_label("Quote from the turn").fill("warm in Paris")
        page.locator(".kinds button").first.click()
        page.locator("[data-turn] mark").wait_for()
        page.keyboard.press("Escape")
        page.keyboard.press("Enter")
        page.get_by_text("Not answered yet").wait_for()
        found["something wrong"] = faults(page, LOOKS)
        page.keyboard.press("2")
        page.keyboard.press("Enter")
        page.locator("mark.found").wait_for()
        found["second stage"] = faults(page, LOOKS)
        page.keyboard.press("?")
        found["keys"] = faults(page, LOOKS)
        assert not any(found.values()), found


def test_the_switch_of_light_and_dark_is_remembered(browser: Any, tmp_path: Path) -> None:
    with workbench(tmp_path) as (_, port, _keys), tab(browser, port, color_scheme="dark") as page:
        page.goto("/")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(15, 19, 24)"
        page.emulate_media(color_scheme="light")
        page.reload()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        page.get_by_role("button", name="Dark").click()
        page.reload()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(15, 19, 24)"
        page.get_by_role("button", name="Light").click()
        assert page.evaluate("[getComputedStyle(document.body).backgroundColor, Object.keys(localStorage)]") == [
            "rgb(255, 255, 255)",
            ["look"],
        ]
