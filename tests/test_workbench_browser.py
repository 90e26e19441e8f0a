"""The workbench in a browser: by keyboard alone, without a connection, with two people, without script, on a phone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from browsing import faults, tab
from served_workbench import StartWorkbench, Workbench

from accord import Conversation, Turn
from accord.store import IssueAnnotations
from accord.values import Annotation, Document, Issue, IssueAnnotation, Target, find_quote

pytestmark = pytest.mark.browser

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


def sign_in(page: Any, key: str, name: str) -> None:
    page.goto(f"/in/{key}")
    page.get_by_role("button", name=f"Continue as {name}").click()
    page.wait_for_url("**/")


RateIn = Callable[..., AbstractContextManager[tuple[Workbench, Any]]]


@pytest.fixture
def rating(browser: Any, workbench: StartWorkbench, tmp_path: Path) -> RateIn:
    """Serve a study of one question, or with other settings, and open its first item as its first person."""

    @contextmanager
    def start(
        people: tuple[str, ...] = (), path: str = "/rate/look", **settings: Any
    ) -> Iterator[tuple[Workbench, Any]]:
        (tmp_path / "rubric.yaml").write_text(RUBRIC, encoding="utf-8")
        usual = {"rubric": f"{tmp_path}/rubric.yaml", "stages": [{"questions": ["good"]}]}
        bench = workbench(people, **{**usual, **settings})
        with tab(browser, bench.port, bench.keys[people[0]] if people else "") as page:
            page.goto(path)
            yield bench, page

    return start


def at_item(page: Any, number: int, total: int = 12) -> None:
    """Wait until the page of an item has come, with its script."""
    page.get_by_text(f"Item {number} ·").wait_for()
    page.get_by_text(f" of {total} done").wait_for()
    page.locator("fieldset.is-current").first.wait_for()


def press(page: Any, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def press_until(page: Any, key: str, text: str) -> None:
    """Press a key until the focus is on an element with a text, then press Enter."""
    page.keyboard.press(key)
    while page.evaluate("document.activeElement.textContent") != text:
        page.keyboard.press(key)
    page.keyboard.press("Enter")


def state(page: Any, said: str) -> None:
    """Wait for a state of the page; on a timeout show its state and unsent answers."""
    try:
        page.locator(f"#state:text-is('{said}')").wait_for()
    except Exception as error:
        there = "[document.getElementById('state').textContent, document.hasFocus(), {...localStorage}]"
        raise AssertionError(f"not {said!r} but {page.evaluate(there)}") from error


def answers(bench: Workbench) -> list[Annotation]:
    return [each for each in bench.store.annotations() if each.kind == "person"]


# --- by keyboard, without a connection ------------------------------------------------------------------------------


def test_ten_are_rated_by_keyboard_alone_with_the_connection_lost_in_the_middle(browser: Any, rating: RateIn) -> None:
    with (
        rating(["ann"], stages=[{"questions": ["good", "topic", "share"]}]) as (bench, _),
        tab(browser, bench.port) as page,
    ):
        page.goto(f"/in/{bench.keys['ann']}")
        press_until(page, "Tab", "Continue as ann")
        page.wait_for_url("**/")
        press_until(page, "Tab", "Start: First look")
        for number in range(1, 11):
            at_item(page, number)
            press(page, str(number % 4 + 1), "2")
            if number == 5:  # answers are saved; from now on the server is gone
                state(page, "saved")
                page.context.set_offline(True)
            page.keyboard.type(str(number * 10))
            if number == 5:
                page.keyboard.press("Enter")
                state(page, "1 not sent yet")
                press(page, "k", "3")
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
        given, labels = answers(bench), bench.store.labels()
        assert len({each.answer for each in given}) == len(given) == 31, "one answer was changed once"
        assert Counter(each.question for each in labels) == {"good": 10, "topic": 10, "share": 10}
        assert sorted(each.value for each in labels.on("share")) == [10.0 * n for n in range(1, 11)]
        assert Counter(each.value for each in labels.on("topic")) == {"else": 1, "trains": 9}
        assert all(each.seconds is not None and each.rubric for each in given)


ANSWERS: dict[str, dict[str, Any]] = {
    "captive portal": {"status": 200, "body": "<h1>Log in to the network</h1>", "content_type": "text/html"},
    "error in a 200": {"status": 200, "json": {"error": "not kept"}},
    "another id": {"status": 200, "json": {"answers": [{"id": "another"}]}},
    "no list": {"status": 200, "json": {"answers": "all"}},
    "an error of one": {"status": 200, "json": {"answers": [{"error": "busy", "status": 503}]}},
    "500": {"status": 500, "body": "broken"},
    "503": {"status": 503, "json": {"error": "busy"}},
    "429": {"status": 429, "json": {"error": "slowly"}},
}


def fulfilled(answer: dict[str, Any]) -> Callable[[Any], None]:
    return lambda route: route.fulfill(**answer)


def test_only_the_servers_own_yes_empties_a_slot(rating: RateIn) -> None:
    with rating(["ann"]) as (bench, page):
        for number, (name, answer) in enumerate(ANSWERS.items(), 1):
            at_item(page, number)
            page.route("**/answers", fulfilled(answer))
            page.locator("input[value='3']").check()
            state(page, "1 not sent yet")
            page.reload()
            at_item(page, number)
            assert page.locator("input[value='3']").is_checked() and len(answers(bench)) == number - 1, name
            page.unroute("**/answers")
            page.reload()
            state(page, "saved")
            assert [each.value for each in answers(bench)] == [3] * number, name
            page.keyboard.press("Enter")


@pytest.mark.attack
def test_without_a_server_only_a_growing_interval_sends_again(rating: RateIn) -> None:
    with rating(["ann"], path="about:blank") as (bench, page):
        page.clock.install()
        page.goto("/rate/look")
        at_item(page, 1)
        page.clock.pause_at(page.evaluate("Date.now()") + 60_000)
        sent: list[str] = []
        page.on("request", lambda request: sent.append(request.url))
        page.context.set_offline(True)
        page.keyboard.press("3")
        state(page, "1 not sent yet")
        for _ in range(20):
            page.keyboard.press("Enter")
        page.keyboard.press("2")
        state(page, "2 not sent yet")
        assert len(sent) == 1, "Enter and a changed answer wait for the next attempt"
        for attempt, seconds in enumerate((1, 2, 4, 8, 15, 15), 2):
            waited = 0
            while len(sent) < attempt:
                page.clock.run_for(500)
                waited += 500
            assert len(sent) == attempt and waited >= seconds * 1000 - 500, (attempt, waited)
        page.context.set_offline(False)
        at_item(page, 2)
        assert [each.value for each in answers(bench)] == [3, 2]


@pytest.mark.attack
def test_a_double_click_shows_links_once_made(browser: Any, workbench: StartWorkbench) -> None:
    bench = workbench(leads=["eva"])
    with tab(browser, bench.port, bench.keys["eva"]) as page:
        page.goto("/people")
        page.fill("#names", "ann bob")
        page.get_by_role("button", name="Add, and show their links").dblclick()
        page.get_by_role("heading", name="Personal links").wait_for()
        links = [page.input_value(f"#link-{number}") for number in (1, 2)]
    for link, name in zip(links, ("ann", "bob"), strict=True):
        with tab(browser, bench.port) as page:
            sign_in(page, link.rpartition("/")[2], name)


@pytest.mark.attack
def test_a_double_click_on_the_first_account_shows_its_link(browser: Any, workbench: StartWorkbench) -> None:
    with tab(browser, workbench().port) as page:
        page.goto("/people")
        page.fill("#names", "eva")
        page.get_by_role("button", name="Create my account").dblclick()
        page.get_by_role("heading", name="Personal link").wait_for()
        assert "/in/" in page.input_value("#link-1")


def test_signed_out_annotator_keeps_answers_that_others_cannot_send(rating: RateIn) -> None:
    with rating(["ann", "bob"]) as (bench, page):
        at_item(page, 1)
        other = page.context.new_page()
        other.goto("/")
        other.get_by_role("button", name="Sign out").click()
        other.get_by_role("heading", name="Sign in").wait_for()
        page.keyboard.press("4")
        state(page, "signed out: your answers are saved in this browser")
        sign_in(other, bench.keys["bob"], "bob")
        other.goto("/rate/look")
        at_item(other, 1)
        other.keyboard.press("2")
        state(other, "saved")
        other.get_by_role("link", name="Home").click()
        assert [(each.by, each.value) for each in answers(bench)] == [("bob", 2)]
        other.get_by_role("button", name="Sign out").click()
        sign_in(other, bench.keys["ann"], "ann")
        page.bring_to_front()
        state(page, "saved")  # the first tab goes on by itself
        assert {(each.by, each.value) for each in answers(bench)} == {("bob", 2), ("ann", 4)}


def test_an_expired_lease_keeps_the_text_and_says_so(browser: Any, rating: RateIn) -> None:
    with rating(["ann", "bob"], annotators_per_item=1) as (bench, ann):
        at_item(ann, 1)
        [mine] = bench.studies.assignments_of("look", "ann")
        bench.studies.move(mine.id, "ann", "open", 0, "2020-01-01T00:00:00.000+00:00")
        with tab(browser, bench.port, bench.keys["bob"]) as bob:
            bob.goto("/rate/look")
            at_item(bob, 1)
            press(bob, "1", "Enter")
            at_item(bob, 2)
        ann.keyboard.press("c")
        ann.keyboard.type("What I think of it")
        press(ann, "Escape", "4")
        ann.get_by_text("others have answered it, and your text stays here").first.wait_for()
        ann.goto("/rate/look")
        state(ann, "1 refused and saved in this browser")
        assert "What I think of it" in ann.locator("#questions .notice").inner_text()
        ann.get_by_role("button", name="Discard").click()
        ann.reload()
        ann.get_by_text("Item 2 ·").wait_for()
        ann.locator("fieldset.is-current").wait_for()
        assert not ann.locator("#questions .notice").count() and ann.evaluate("localStorage.length") == 0
        assert [each.by for each in answers(bench)] == ["bob"]


def test_seconds_are_those_the_page_was_seen_with_the_focus(rating: RateIn) -> None:
    with rating(path="about:blank") as (bench, page):
        page.clock.install()
        page.goto("/rate/look")
        at_item(page, 1)
        page.clock.fast_forward(20_000)
        page.evaluate("document.hasFocus = () => false; dispatchEvent(new Event('blur'))")
        page.clock.fast_forward(600_000)
        page.evaluate("document.hasFocus = () => true; dispatchEvent(new Event('focus'))")
        page.keyboard.press("3")
        state(page, "saved")
        [given] = answers(bench)
        assert 20 <= given.seconds < 500


# --- questions ------------------------------------------------------------------------------------------------


def test_each_item_gets_exactly_two_annotators(browser: Any, rating: RateIn) -> None:
    with rating(["cy", "ann", "bob"], path="about:blank", items={"sample": 3}) as (bench, last):
        for person in ("ann", "bob"):
            with tab(browser, bench.port, bench.keys[person]) as page:
                page.goto("/rate/look")
                for number in (1, 2, 3):
                    at_item(page, number, 3)
                    press(page, str(number), "Enter")
                page.get_by_text("No items left").wait_for()
        last.goto("/rate/look")
        last.get_by_text("No items for you in this study").wait_for()
        labels = bench.store.labels()
        assert Counter(each.annotator for each in labels) == {"ann": 3, "bob": 3}
        assert set(Counter(each.target for each in labels).values()) == {2}


def test_back_undo_comments_and_history(rating: RateIn) -> None:
    with rating(hide_numbers=True) as (bench, page):
        at_item(page, 1)
        assert page.locator("fieldset kbd").all_inner_texts() == ["n"]
        assert page.locator("fieldset label").first.inner_text() == "Poor."
        press(page, "2", "4", "u")
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
        page.get_by_role("button", name="Save and next").click()
        at_item(page, 2)
        page.keyboard.press("s")
        page.keyboard.type("cannot tell")
        page.keyboard.press("Enter")
        at_item(page, 3)
        page.goto("/rate/look/done")
        page.get_by_text("skipped: cannot tell").wait_for()
        page.get_by_role("link", name="reopen").click()
        page.get_by_role("button", name="Reopen it").click()
        page.get_by_role("button", name="Skip this item").wait_for()
        given = [(each.value, each.comment) for each in answers(bench)]
        assert given == [(2, ""), (4, ""), (2, ""), (2, "because\nof this")]
        assert len(bench.store.labels()) == 1


def test_a_screening_answer_ends_the_questions(rating: RateIn) -> None:
    with rating(stages=[{"questions": ["topic", "good"]}], stop_on={"topic": ["else"]}) as (bench, page):
        at_item(page, 1)
        page.keyboard.press("3")
        page.get_by_text("Your answer ends the questionnaire").wait_for()
        assert page.locator("fieldset:visible").count() == 1
        page.keyboard.press("1")
        assert page.locator("fieldset:visible").count() == 2
        page.keyboard.press("Enter")
        page.get_by_text("Not answered yet").wait_for()
        assert page.evaluate("document.activeElement.name") == "value.good"
        press(page, "k", "3", "Enter")
        at_item(page, 2)
        assert [each.value for each in bench.store.labels()] == ["else"]


def test_pairs_stand_side_by_side_with_a_tie_and_both_bad(rating: RateIn) -> None:
    with rating(path="about:blank", level="pair", stages=[{"questions": ["better"]}]) as (bench, page):
        opening = Turn("user", "The same question")
        bench.store.add_conversations(
            Conversation(f"p{place}", (opening, Turn("assistant", f"Reply {place}"))) for place in range(2)
        )
        page.goto("/rate/look")
        at_item(page, 1, 1)
        a, b = (page.locator(".talk").nth(side).bounding_box() for side in (0, 1))
        assert a["y"] == b["y"] and a["x"] + a["width"] <= b["x"]
        assert [each.strip() for each in page.locator(".scale label:not(.na)").all_text_contents()] == [
            "A the first", "Tie about the same", "B the second",
        ]  # fmt: skip
        page.keyboard.press("b")
        state(page, "saved")
        page.keyboard.press("Enter")
        page.get_by_text("No items left").wait_for()
        assert {(each.question, each.value) for each in answers(bench)} == {("better", 1), ("better:both-bad", 1)}
        assert all(each.against is not None for each in answers(bench))


TEXT = "It is\r\nsunny \U0001f31e and \x07warm in Paris today."


STAGES = [
    {"id": "first", "questions": ["good"], "show": []},
    {"id": "second", "questions": ["good"], "show": ["issues", "documents"]},
]
FOUND = {"level": "turn", "issue_taxonomy": "soda-eval", "items": {"ids": ["one"]}, "stages": STAGES}


@pytest.fixture
def rating_issues(rating: RateIn) -> RateIn:
    """Serve a study of one conversation whose reply a model has looked into."""

    @contextmanager
    def start() -> Iterator[tuple[Workbench, Any]]:
        with rating(path="about:blank", **FOUND) as (bench, page):
            bench.project.config.sources["issues"] = {"by": "recorded", "model": "secret-model"}
            turns = (Turn("user", "How is it?"), Turn("assistant", TEXT, extra={"tool_calls": ["look_up('Paris')"]}))
            chat = Conversation("one", turns, (Document("Paris is warm.", title="Weather"),))
            issue = Issue("Coherence", "Says too much.", "sunny", find_quote("sunny", TEXT))
            signature = "issues|model:secret-model|taxonomy:x"
            bench.store.add_conversations([chat])
            found = IssueAnnotation(Target("one", 1), (issue,), 2, "OVERALL-COMMENT", signature)
            IssueAnnotations(bench.store).add([found])
            page.goto("/rate/look")
            at_item(page, 1, 1)
            yield bench, page

    return start


def test_words_are_marked_in_stages_and_issues_shown_where_a_stage_shows_them(rating_issues: RateIn) -> None:
    with rating_issues() as (bench, page):
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
        [mark] = answers(bench)
        assert mark.quote == "warm in Paris" and TEXT[slice(*mark.span)] == mark.quote
        assert mark.comment == "Not asked for" and page.locator("[data-turn] mark").inner_text() == "warm in Paris"
        page.get_by_role("button", name="Remove").click()
        page.locator("[data-turn] mark").wait_for(state="detached")
        press(page, "2", "Enter")
        page.get_by_text("Step 2 of 2").wait_for()
        page.locator("fieldset.is-current").wait_for()
        assert page.locator("mark.found").inner_text() == "sunny" and "Says too much" in page.content()
        assert page.get_by_text("1 document").count() == 1 and "Fair." in page.locator("#questions dd").first.inner_text()
        said = page.content() + page.evaluate("async () => (await fetch(location.pathname + '.json')).text()")
        assert "secret-model" not in said and "OVERALL-COMMENT" not in said
        press(page, "4", "Enter")
        page.get_by_text("No items left").wait_for()
        given = [(each.stage, each.value, each.shown) for each in answers(bench) if each.question == "good"]
        assert given == [("first", 2, ""), ("second", 4, "documents,issues")]


# --- without script, for everybody -----------------------------------------------------------------------------------


def test_without_script_a_study_is_rated_whole(browser: Any, rating: RateIn) -> None:
    settings = {"issue_taxonomy": "soda-eval", "stages": [{"questions": ["good", "share"]}], "guidelines": "Read on."}
    with (
        rating(["ann"], path="about:blank", items={"sample": 2}, **settings) as (bench, _),
        tab(browser, bench.port, java_script_enabled=False) as page,
    ):
        save = page.get_by_role("button", name="Save and next")
        sign_in(page, bench.keys["ann"], "ann")
        page.locator("a.primary", has_text="Start").click()
        page.get_by_text("Read on.").wait_for()
        page.get_by_role("link", name="Begin").click()
        page.get_by_label("Poor.").check()
        save.click()
        page.get_by_text("Not answered yet").wait_for()
        assert page.get_by_label("Poor.").is_checked()
        page.get_by_label("0 to 100").fill("140")
        save.click()
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
        save.click()
        page.get_by_text("1 of 2 done").wait_for()
        page.get_by_role("button", name="Skip this item").click()
        page.get_by_label("Reason.").fill("no idea")
        page.get_by_role("button", name="Skip", exact=True).click()
        page.get_by_role("link", name="reopen").click()
        page.get_by_role("button", name="Reopen it").click()
        page.get_by_label("Does not apply").first.check()
        page.get_by_label("Does not apply").last.check()
        save.click()
        page.get_by_text("No items left").wait_for()
        given = [(each.question, each.value, each.comment) for each in answers(bench)]
        assert [each for each in given if not each[0].startswith("issue:")] == [
            ("good", 1, ""), ("good", 1, "two\nlines"), ("share", 40.0, ""), ("good", None, ""), ("share", None, ""),
        ]  # fmt: skip


LOOKS = [(scheme, width) for scheme in ("light", "dark") for width in (1280, 390, 320)]
"""On a laptop, on a phone, and four times as large."""


def test_axe_finds_nothing_on_any_page(rating_issues: RateIn) -> None:
    with rating_issues() as (_, page):
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
        press(page, "Escape", "Enter")
        page.get_by_text("Not answered yet").wait_for()
        found["something wrong"] = faults(page, LOOKS)
        press(page, "2", "Enter")
        page.locator("mark.found").wait_for()
        found["second stage"] = faults(page, LOOKS)
        page.keyboard.press("?")
        found["keys"] = faults(page, LOOKS)
        assert not any(found.values()), found


def test_the_switch_of_light_and_dark_is_remembered(browser: Any, workbench: StartWorkbench) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    dark, light = "rgb(17, 17, 19)", "rgb(249, 249, 251)"
    with tab(browser, workbench().port, color_scheme="dark") as page:
        page.goto("/")
        assert page.evaluate(colour) == dark
        page.emulate_media(color_scheme="light")
        page.reload()
        assert page.evaluate(colour) == light
        page.get_by_role("button", name="Dark").click()
        page.reload()
        assert page.evaluate(colour) == dark
        page.get_by_role("button", name="Light").click()
        assert page.evaluate(f"[{colour}, Object.keys(localStorage)]") == [light, ["look"]]
