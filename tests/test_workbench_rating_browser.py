"""Rating in a browser: digits that go on to the next question, undo after saving, turns by speaker, a phone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from browsing import LIGHT, PHONE, faults, tab
from served_workbench import StartWorkbench, Workbench
from waiting import until

from accord import Conversation, Turn
from accord.values import Document

pytestmark = pytest.mark.browser

COUNT = 14
RUBRIC = "name: many\nmain: a\nquestions:\n" + "".join(
    f"  - {{id: {chr(97 + n)}, text: 'Question {n + 1}?', options: [1, 2, 3, 4]}}\n" for n in range(COUNT)
)
SHARE = "  - {id: share, text: 'What share, in percent?', scale: real, low: 0, high: 100}\n"
NINE = [*(f"Q{number}" for number in range(1, 9)), "Q0"]
DIGITS = [3, 1, 4, 1, 2, 2, 4, 3, 3, 1, 4, 2, 1, 4]
OpenItem = Callable[..., AbstractContextManager[tuple[Workbench, Any]]]


@pytest.fixture
def rating(browser: Any, workbench: StartWorkbench, tmp_path: Path) -> OpenItem:
    """Open the first item of a study of fourteen questions and one in percent, of which some are asked."""

    @contextmanager
    def start(questions: str = "", **options: Any) -> Iterator[tuple[Workbench, Any]]:
        (tmp_path / "rubric.yaml").write_text(RUBRIC + SHARE, encoding="utf-8")
        asked = list(questions) or [chr(97 + n) for n in range(COUNT)]
        asked = ["share" if name == "%" else name for name in asked]
        bench = workbench(rubric=f"{tmp_path}/rubric.yaml", stages=[{"questions": asked}])
        with tab(browser, bench.port, **options) as page:
            page.goto("/rate/look")
            at_item(page, 1)
            yield bench, page

    return start


def at_item(page: Any, number: int) -> None:
    """Wait until the page of an item has come, with its script."""
    page.get_by_text(f"Item {number} ·").wait_for()
    page.locator("fieldset.is-current").first.wait_for()


def press(page: Any, *keys: Any) -> None:
    for key in keys:
        page.keyboard.press(str(key))


def focused(page: Any) -> str:
    """Return the name of the field with the focus."""
    return str(page.evaluate("document.activeElement.name"))


def saved(bench: Workbench) -> dict[str, Any]:
    return {each.question: each.value for each in bench.store.labels()}


def test_digits_answer_one_question_each_and_enter_saves_and_goes_on(rating: OpenItem) -> None:
    with rating() as (bench, page):
        press(page, 3, 1, "Enter")
        page.get_by_text("Not answered yet").first.wait_for()
        page.locator("#state:text-is('saved')").wait_for()
        assert saved(bench) == {"a": 3, "b": 1} and focused(page) == "value.c"
        press(page, *DIGITS[2:], "Enter")
        at_item(page, 2)
        assert list(saved(bench).values()) == DIGITS
        press(page, *DIGITS[::-1], "Enter")
        at_item(page, 3)
        assert len({(each.target, each.question) for each in bench.store.labels()}) == 2 * COUNT


def test_digits_skip_answered_questions_and_typed_numbers_end_with_enter(rating: OpenItem) -> None:
    with rating("ab%d") as (bench, page):
        page.locator("[name='value.b'][value='2']").check()  # question b, with the mouse
        page.locator("[name='value.a']").first.focus()
        press(page, 4)
        assert focused(page) == "value.share"
        page.keyboard.type("40")
        press(page, "Enter")
        assert focused(page) == "value.d", "a question is left, so that Enter goes to it"
        press(page, "k", "Enter", 1)
        assert saved_after(page, bench) == {"a": 4, "b": 2, "share": 40.0, "d": 1}
        press(page, "k", "k", "k", 2, 3)  # all are answered: each digit goes on to the following question
        assert focused(page) == "value.share"
        assert saved_after(page, bench) == {"a": 2, "b": 3, "share": 40.0, "d": 1}
        press(page, "n", "Enter")
        at_item(page, 2)


def saved_after(page: Any, bench: Workbench) -> dict[str, Any]:
    """Return the answers in the store after the page has sent all of them."""
    page.locator("#state:text-is('saved')").wait_for()
    page.wait_for_function("!Object.keys(localStorage).some((key) => key.startsWith('accord '))")
    return saved(bench)


def test_undo_reopens_the_saved_item_with_its_answers(rating: OpenItem) -> None:
    with rating("ab") as (bench, page):
        press(page, 3, 1, "Enter")
        at_item(page, 2)
        assert page.locator("#undo [role=status]").inner_text() == "Item 1 saved."
        assert not faults(page, [LIGHT, ("dark", 390)])
        press(page, 4)
        assert not page.locator("#undo").is_visible(), "the note goes with the first answer"
        page.reload()
        page.get_by_role("button", name="Undo").click()
        at_item(page, 1)
        assert [each.input_value() for each in page.locator("fieldset :checked").all()] == ["3", "1"]
        assert [each.state for each in bench.studies.assignments_of("look", bench_person(bench))] == ["open", "open"]
        press(page, 2, 2, "Enter")
        at_item(page, 2)
        press(page, "u")
        at_item(page, 1)
        assert [each.input_value() for each in page.locator("fieldset :checked").all()] == ["2", "2"]
        page.goto("/rate/look/nothing?saved=x")
        assert not page.locator("#undo").count()


def bench_person(bench: Workbench) -> str:
    """Return the name of the only annotator."""
    [name] = {each.person for each in bench.studies.all_assignments("look")}
    return name


def test_forty_quick_answers_go_in_one_request(browser: Any, workbench: StartWorkbench, tmp_path: Path) -> None:
    count = 40
    names = [f"q{n:02}" for n in range(count)]
    lines = "".join(f"  - {{id: {name}, text: 'Question {name}?', options: [1, 2, 3, 4]}}\n" for name in names)
    (tmp_path / "forty.yaml").write_text(f"name: forty\nmain: q00\nquestions:\n{lines}", encoding="utf-8")
    bench = workbench(rubric=f"{tmp_path}/forty.yaml")
    with tab(browser, bench.port) as page:
        page.goto("/rate/look")
        at_item(page, 1)
        sent: list[int] = []
        held: list[Any] = []

        def hold(route: Any) -> None:  # the first request is answered after all answers are typed
            sent.append(len(route.request.post_data_json["answers"]))
            held.append(route) if len(sent) == 1 else route.continue_()

        page.route("**/answers", hold)
        press(page, *(n % 4 + 1 for n in range(count)), "Enter")
        page.locator("#state:text-is('saving')").wait_for()
        until(lambda: sent or page.wait_for_timeout(20))  # the route is told a moment later
        assert sent == [1] and not saved(bench)
        held[0].continue_()
        at_item(page, 2)
        assert sent == [1, count - 1]
        assert saved(bench) == {name: n % 4 + 1 for n, name in enumerate(names)}


def test_a_refused_answer_does_not_hold_the_others_of_its_request(rating: OpenItem) -> None:
    with rating("abc") as (bench, page):
        [item] = bench.studies.assignments_of("look", bench_person(bench))
        row = {"study": "look", "assignment": item.id, "stage": "rate", "comment": "", "value": "2"}
        rows = {"a": row, "nowhere": row, "b": row, "c": {**row, "comment": "x" * 20_001}}
        page.evaluate("""(rows) => {
            const person = document.querySelector("meta[name=accord-person]").content;
            Object.entries(rows).forEach(([question, row], place) => {
                const id = `${"x".repeat(20)}${place}`;
                localStorage.setItem(`accord ${person} ${place} ${id}`, JSON.stringify({ ...row, question, id }));
            });
        }""", rows)  # fmt: skip
        page.reload()
        page.locator("#state:text-is('2 refused and saved in this browser')").wait_for()
        assert saved(bench) == {"a": 2, "b": 2}
        assert page.locator("#questions .notice").count() == 2


def test_four_questions_and_the_button_fit_one_screen(rating: OpenItem) -> None:
    with rating("abcd", viewport={"width": 1440, "height": 900}) as (_, page):
        boxes = [each.bounding_box() for each in page.locator("fieldset, .dock").all()]
        assert len(boxes) == 5 and all(box["y"] + box["height"] <= 900 for box in boxes)
        rows = [
            {each.bounding_box()["y"] for each in row.locator("label").all()} for row in page.locator(".scale").all()
        ]
        assert [len(row) for row in rows] == [1] * 4
        assert page.locator("fieldset.is-current").count() == 1


def test_long_questions_are_whole_above_a_button_that_stays(browser: Any, workbench: StartWorkbench) -> None:
    bench = workbench(rubric="llm-rubric", items={"ids": ["one"]}, stages=[{"questions": NINE}])
    turns = (Turn("user", "How long can I return it?"), Turn("assistant", "For 45 days [1]."))
    bench.store.add_conversations([Conversation("one", turns, (Document("You can return it for 45 days."),))])
    with tab(browser, bench.port, viewport={"width": 1440, "height": 900}) as page:
        page.goto("/rate/look")
        at_item(page, 1)
        assert page.locator("#progress").get_attribute("value") == "0", "as the words beside it: what is done"
        page.get_by_text("0 of 1 done").wait_for()
        page.get_by_text("Item 1 · 2 messages · you see no score and no other person’s rating").wait_for()
        foot = page.locator(".dock").bounding_box()
        assert foot["y"] + foot["height"] <= 900 and foot["height"] < 64, "one row, above the edge"
        cut = "(all) => all.filter((each) => each.scrollHeight > each.clientHeight + 1).length"
        assert page.locator(".wording").count() == 9 and page.locator(".wording").evaluate_all(cut) == 0
        scale, likely = page.locator(".scale").first.bounding_box(), page.get_by_text("Likely", exact=False).last
        assert page.locator(".ends").first.inner_text().split("\n")[0] == "1 Unlikely"
        assert likely.bounding_box()["x"] + likely.bounding_box()["width"] <= scale["x"] + scale["width"]
        press(page, 4)
        page.locator("[name='value.Q3'][value='2']").locator("xpath=..").click()
        assert page.locator("[name='value.Q3']:checked").input_value() == "2"
        assert page.locator("fieldset.is-current").get_attribute("name") == "Q3"
        assert page.locator("#answered").inner_text() == "2 of 9"
        assert not faults(page, [LIGHT, ("dark", 1440)])


def test_save_is_off_until_all_are_answered_and_forty_questions_keep_one_row_of_buttons(
    browser: Any, workbench: StartWorkbench, tmp_path: Path
) -> None:
    lines = "".join(f"  - {{id: q{n}, text: 'Question {n}?', options: [1, 2, 3, 4]}}\n" for n in range(40))
    (tmp_path / "forty.yaml").write_text(f"name: forty\nmain: q0\nquestions:\n{lines}", encoding="utf-8")
    bench = workbench(rubric=f"{tmp_path}/forty.yaml")
    with tab(browser, bench.port, viewport={"width": 1440, "height": 900}) as page:
        page.goto("/rate/look")
        at_item(page, 1)
        save = page.get_by_role("button", name="Save and next")
        buttons = [each for each in page.locator(".dock button").all() if each.is_visible()]
        boxes = [each.bounding_box() for each in buttons]
        assert [each.inner_text().split()[0] for each in buttons] == ["Save", "Undo", "Skip", "Comment"]
        middles = {round(box["y"] + box["height"] / 2) for box in boxes}
        edge = page.locator("#questions").bounding_box()
        assert len(middles) == 1 and max(box["x"] + box["width"] for box in boxes) < edge["x"] + edge["width"] - 12
        press(page, *[1] * 39)
        assert save.is_disabled()
        press(page, 1)
        assert save.is_enabled()
        save.click()
        at_item(page, 2)
        page.get_by_text("1 of 12 done").wait_for()
    with tab(browser, bench.port, java_script_enabled=False) as page:
        page.goto("/rate/look")
        assert page.get_by_role("button", name="Save and next").is_enabled(), "without scripts the server answers"


def test_a_phone_shows_the_whole_wording_in_a_sheet(browser: Any, workbench: StartWorkbench) -> None:
    bench = workbench(rubric="llm-rubric", stages=[{"questions": NINE}])
    with tab(browser, bench.port, viewport={"width": 390, "height": 800}) as page:
        page.goto("/rate/look")
        at_item(page, 1)
        sheet = page.locator(".sheet").bounding_box()
        assert sheet["height"] <= 400 and sheet["y"] + sheet["height"] == pytest.approx(800, abs=1)
        for name in ("Previous question", "Next question"):
            box = page.get_by_label(name).bounding_box()
            assert min(box["width"], box["height"]) >= 44
        wording = page.locator("fieldset.is-current .wording")
        assert wording.evaluate("(each) => each.scrollHeight <= each.clientHeight + 1")
        assert not faults(page, [PHONE, ("dark", 320)])
    with tab(browser, bench.port, viewport={"width": 390, "height": 800}, java_script_enabled=False) as page:
        page.goto("/rate/look")
        assert page.locator("fieldset:visible").count() == 5, "without scripts all questions follow the conversation"
        assert page.locator(".dock").bounding_box()["y"] > 800


def test_a_phone_asks_one_question_at_a_time_below_the_conversation(rating: OpenItem) -> None:
    with rating("ab%", viewport={"width": 390, "height": 800}) as (bench, page):
        page.get_by_text("Question 1 of 3").wait_for()
        assert page.locator("fieldset:visible").count() == 1
        page.locator("[name='value.a'][value='3']").check()
        page.get_by_text("Question 2 of 3").wait_for()
        save, onward = page.get_by_role("button", name="Save and next item"), page.locator("#onward")
        assert onward.bounding_box()["y"] > 650 and not save.is_visible(), "the thumb reaches it"
        assert onward.is_disabled(), "the question has no answer"
        page.get_by_label("Next question").click()
        assert page.locator("fieldset:visible").get_attribute("name") == "share" and onward.is_disabled()
        page.get_by_label("0 to 100").fill("30")
        onward.click()
        assert page.locator("fieldset:visible").get_attribute("name") == "b", "the first question without an answer"
        page.get_by_role("button", name="Previous question").click()
        assert page.locator("fieldset:visible").get_attribute("name") == "a" and onward.is_enabled()
        page.get_by_label("Next question").click()
        assert not faults(page, [PHONE, ("dark", 320)])
        page.locator("[name='value.b'][value='1']").check()
        assert save.is_enabled() and not onward.is_visible()
        save.click()
        at_item(page, 2)
        assert saved(bench) == {"a": 3, "b": 1, "share": 30.0}


MARKDOWN = "Yes, it is **sunny** in `Paris`:\n\n| day | sun |\n|---|---|\n| Mon | 9 h |\n\nSee [2]."


def test_a_quote_across_markdown_is_part_of_the_stored_text(browser: Any, workbench: StartWorkbench) -> None:
    bench = workbench(items={"ids": ["one"]}, issue_taxonomy="soda-eval")
    bench.store.add_conversations([Conversation("one", (Turn("user", "How is it?"), Turn("assistant", MARKDOWN)))])
    with tab(browser, bench.port) as page:
        page.goto("/rate/look")
        page.locator("fieldset.is-current").wait_for()
        assert page.locator("[data-turn] td").all_inner_texts() == ["Mon", "9 h"]
        page.evaluate("""() => {
            const [strong] = document.querySelectorAll('[data-turn] strong'), cell = document.querySelector('[data-turn] td');
            const range = document.createRange(), first = strong.childNodes[1], last = cell.lastChild;
            range.setStart(first, 2);
            range.setEnd(last, 2);
            getSelection().addRange(range);
        }""")
        page.locator(".marker[open]").wait_for()
        page.locator(".kinds button").first.click()
        page.locator("[data-turn] mark").first.wait_for()
        [mark] = [each for each in bench.store.annotations() if each.question.startswith("issue:")]
        start, end = MARKDOWN.index("nny"), MARKDOWN.index("n | 9 h")
        assert mark.span == (start, end) and mark.quote == MARKDOWN[start:end]
        assert page.locator("[data-turn] mark").all_inner_texts()[0] == "nny"
        assert page.locator("mark[data-numbers]").count() == 1
        assert not faults(page, [LIGHT, ("dark", 390)])


def test_speakers_look_different_and_system_prompts_are_folded(browser: Any, workbench: StartWorkbench) -> None:
    bench = workbench(items={"ids": ["one"]})
    turns = (Turn("system", "<b>Be brief.</b> " * 40), Turn("user", "Hello"), Turn("assistant", "Hi"))
    bench.store.add_conversations([Conversation("one", (*turns, Turn("tool", "21 degrees")))])
    with tab(browser, bench.port) as page:
        page.goto("/rate/look")
        assert not page.get_by_text("Be brief.").is_visible() and not page.get_by_text("21 degrees").is_visible()
        page.get_by_text("System prompt").click()
        assert page.get_by_text("<b>Be brief.</b>").is_visible()
        colors = "(name) => { const { backgroundColor: back, borderLeftColor: bar } = getComputedStyle(document.querySelector(name)); return back + bar; }"
        assert page.evaluate(colors, ".msg.user .text") != page.evaluate(colors, ".msg.assistant .text")
        assert not faults(page, [LIGHT, ("dark", 390)])


@pytest.mark.parametrize("width", [390, 320])
def test_phone_has_a_header_of_one_line_and_no_keycaps(rating: OpenItem, width: int) -> None:
    with rating("ab", viewport={"width": width, "height": 800}) as (_, page):
        page.locator("[name='value.a'][value='3']").check()
        page.locator("[name='value.b'][value='1']").check()
        page.get_by_role("button", name="Save and next").click()
        at_item(page, 2)
        assert page.locator("header.topbar").bounding_box()["height"] < 80
        assert page.get_by_role("link", name="Previous").is_visible()
        assert not any(each.is_visible() for each in page.locator("kbd").all())
        assert not faults(page, [PHONE])
