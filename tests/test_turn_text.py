"""Texts of turns as HTML: the joined text nodes are the stored text, no text is lost, and hostile texts are harmless."""

from __future__ import annotations

import random
import re
from html.parser import HTMLParser

import pytest

from accord.edges import escape_controls
from accord.web import turn_text
from accord.web.transcript import result_count, tool_call_line, turn_content
from accord.web.turn_text import MAX_MARKDOWN, render_text

TAGS = {
    "div", "p", "span", "strong", "em", "s", "code", "pre", "ul", "ol", "li", "blockquote", "table", "thead", "tbody",
    "tr", "th", "td", "hr", "a", "mark",
}  # fmt: skip


class Nodes(HTMLParser):
    """Text nodes of a page in order, each with True if it is visible, and its marked texts."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[tuple[str, dict[str, str | None]]] = []
        self.nodes: list[tuple[str, bool]] = []
        self.marked: dict[str, str] = {}
        self.feed(page)
        self.close()
        assert not self.open, "an element is not closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS, tag
        for name, value in attrs:
            assert name in ("class", "hidden", "tabindex", "start", "scope", "dir", "href", "data-numbers"), name
            assert name != "href" or re.fullmatch(r"#d\d+", value or ""), value
        if tag != "hr":
            self.open.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop()[0] == tag
        assert (
            not self.open
            or self.open[-1][0] not in ("tr", "table", "tbody")
            or tag in ("td", "th", "tr", "thead", "tbody")
        )

    def handle_data(self, data: str) -> None:
        tags = [tag for tag, _ in self.open]
        assert tags[-1] not in ("table", "thead", "tbody", "tr", "ul", "ol"), "browsers move or refuse text here"
        self.nodes.append((data, not any("hidden" in attrs for _, attrs in self.open)))

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.nodes)

    @property
    def visible(self) -> str:
        return "".join(text for text, is_visible in self.nodes if is_visible)


def nodes(text: str, *spans: tuple[tuple[int, int], int, bool], documents: int = 3) -> Nodes:
    """Return the nodes of a text; fail if they are not the text, with each control character as its sign."""
    found = Nodes(str(render_text(text, spans, True, documents)))
    assert found.text == escape_controls(text.replace("\r\n", "\n")), text
    return found


CASES = {
    "**bold** _it_ ***both*** ~~old~~": "bold it both old",
    "`a*b` and `` c`d ``": "a*b and  c`d ",
    "2 * 3 * 4 and snake_case_name": "2 * 3 * 4 and snake_case_name",
    r"\*no\* \[no\] \(x\) C:\dir": r"*no* \[no\] \(x\) C:\dir",
    "# Head #\n\nText\n====\n\nbelow": "HeadTextbelow",
    "- a\n- b\n  - c\n\n7. d": "abcd",
    "> quoted\nand on": "quoted\nand on",
    "| a | b |\n|---|--:|\n| 1 | x\\|y | 3 |\n| 2 |": "ab1x|y | 3 |2",
    "```python\nif a:\n    b\n```\nafter": "pythonif a:\n    b\nafter",
    "```\nno end": "no end",
    "see [the page](javascript:alert(1)) ![a dog](data:image/png;base64,AAAA)": "see the page(javascript:alert(1)) a dog",
    "![](data:x) [x] [a][b]\n\n[b]: http://c.d": "![](data:x) [x] [a][b][b]: http://c.d",
    "<b>x</b> <img src=x onerror=y> &amp; <http://a.b> http://c.d": "<b>x</b> <img src=x onerror=y> &amp; <http://a.b> http://c.d",
    "yes [1], [doc2], [9]": "yes 1, doc2, [9]",
    "***": "***", "": "", "- ": "- ", "```\n```": "```\n```",
    "a\r\nb **c\r\nd**": "a\nb c\nd",
    "\u05e9\u05dc\u05d5\u05dd **\u05e2\u05d5\u05dc\u05dd** e\u0301 \U0001f468\u200d\U0001f469 `\U0001f31e`":
        "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd e\u0301 \U0001f468\u200d\U0001f469 \U0001f31e",
    "**\x07\u202e**": "\\u0007\\u202e",
}  # fmt: skip


@pytest.mark.parametrize("text", CASES, ids=lambda text: repr(text)[:40])
def test_markdown_hides_its_syntax_and_keeps_the_text(text: str) -> None:
    assert nodes(text).visible == CASES[text]


def test_elements_of_markdown() -> None:
    page = str(render_text("# A\n\n- b\n\n| c | d |\n|---|:-:|\n| e | f |\n\n> g\n\n---\n\n`h` [2] [4]", (), True, 3))
    for part in (
        '<p class="heading large">', "<ul><li>", '<th scope="col" class="center">', "<blockquote><p>", "<hr>", "<code>",
        '<a class="cite" href="#d2">',
    ):  # fmt: skip
        assert part in page, part
    assert 'href="#d4"' not in page, "there is no such document"
    assert 'href="#dA2"' in render_text("so [2]", (), True, 3, "dA")


ATOMS = [
    "**", "*", "_", "__", "~~", "`", "``", "```", "\n", "\n", "\n\n", "- ", "  ", "1. ", "> ", "#", " ", "a", "b c", "|",
    "| d | e |\n|--|--|\n", "\\", "[1]", "[doc2]", "[f](http://g)", "![h](i)", "<b>", "&amp;", "\U0001f31e", "e\u0301",
    "\u05e9\u05dc", "\t", "\r\n", "\r", "\x07", "\u202e", "---\n", "===\n", "    ", "7)", "* ", "~~~",
]  # fmt: skip


def test_every_character_of_any_text_has_its_place_and_every_letter_is_visible() -> None:
    draw = random.Random(7)
    for _ in range(800):
        text = "".join(draw.choices(ATOMS, k=draw.randint(1, 25)))
        ends = [sorted(draw.choices(range(len(text) + 1), k=2)) for _ in range(2)]
        spans = [((a, b), number, bool(number % 2)) for number, (a, b) in enumerate(ends, 1) if a < b]
        plain = nodes(text)
        assert nodes(text, *spans).nodes and nodes(text, *spans).visible == plain.visible
        letters = re.sub(r"\(i\)|[^a-h\u05d0-\u05ea\U0001f31e]", "", re.sub(r"!\[h\]\(i\)", "h", text))
        assert sorted(
            re.findall(r"[a-h\u05d0-\u05ea\U0001f31e]", re.sub(r"\\u00..|\\u202e|\\r", "", plain.visible))
        ) == sorted(letters), text


def test_quotes_cross_elements_and_their_number_follows_the_last_piece() -> None:
    text = "Yes, **45 days** from\n- delivery `x`\n\n| a | b |\n|---|---|\n| c | d |\n"
    start, end = text.index("45"), text.index("| d")
    page = str(render_text(text, [((start, end), 1, False), ((0, 4), 2, True)], True, 0))
    assert Nodes(page).text == text
    marked = "".join(re.findall(r"<mark[^>]*>([^<]*)</mark>", page))
    assert marked == "Yes,45 days fromdelivery xabc"
    assert page.count('data-numbers="1"') == 1 and '<mark data-numbers="1">c</mark>' in page
    assert '<mark class="found" data-numbers="2">Yes,</mark>' in page
    hidden = str(render_text("a **b** c", [((2, 4), 1, False)], True, 0))
    assert "<mark" not in hidden, "a quote of syntax alone marks nothing"
    overlap = str(render_text("abcdef", [((0, 4), 1, False), ((2, 6), 2, True)]))
    assert overlap == (
        '<div class="text" dir="auto"><mark>ab</mark><mark data-numbers="1">cd</mark>'
        '<mark class="found" data-numbers="2">ef</mark></div>'
    )


def test_control_characters_count_as_one_and_are_signs() -> None:
    page = str(render_text("a\x00b\r\nc \U0001f31e d", [((2, 6), 1, False)]))
    assert page == (
        '<div class="text" dir="auto">a<span class="sign">\\u0000</span><mark>b</mark><span class="sign"></span>'
        '<mark data-numbers="1">\nc</mark> \U0001f31e d</div>'
    )


HOSTILE = {
    "quotes 10,000 deep": ">" * 10_000 + " x",
    "lists 10,000 deep": "- " * 9_000 + "x",
    "nested list": "\n".join("  " * depth + "- x" for depth in range(130)),
    "brackets": "[" * 19_000,
    "links without end": "[a](" * 4_900 + "(a" * 50,
    "stars": "*a_ " * 4_900,
    "backticks": "a".join("`" * (place % 150) for place in range(250)),
    "wide table": "|a" * 3_000 + "|\n" + "|-" * 3_000 + "|\n" + "|b\n" * 400,
    "long table": "|a|b|\n|-|-|\n" + "|c|d|\n" * 3_000,
    "empty cells": "|" + "a|" * 49 + "\n|" + "-|" * 49 + "\n" + "|b\n" * 5_000,
    "1 MB": "**a** | `b`\n" * 90_000,
    "control characters": "**\x00**\x1b[31m" * 1_500,
    "citations": "[1]" * 6_000,
    "script": "<script>alert(1)</script>**<svg onload=x>**" * 100,
}


@pytest.mark.attack
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_are_shown_whole(name: str) -> None:
    text = HOSTILE[name]
    found = nodes(text)
    assert found.visible.strip() or not text.strip()


def test_work_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "<strong>" in render_text("**a**" + " " * (MAX_MARKDOWN - 5), (), True)
    assert "<strong>" not in render_text("**a**" + " " * (MAX_MARKDOWN - 4), (), True)
    assert "<table>" not in render_text(HOSTILE["long table"], (), True), "too many cells"
    monkeypatch.setattr(turn_text, "_parser", None)  # a text without syntax needs no parser
    assert "plain, 2 - 1" in render_text("plain, 2 - 1", (), True)


def test_people_and_tools_are_shown_as_written() -> None:
    assert "<strong>" in turn_content("assistant", "**a** [1]", documents=1)["html"]
    for role in ("user", "tool", "function"):
        assert "**a** [1]" in turn_content(role, "**a** [1]", documents=1)["html"]
    assert turn_content("system", "x")["folded"] == "System prompt" and not turn_content("bot", "x")["folded"]


@pytest.mark.parametrize(
    ("call", "name", "arguments"),
    [
        ('{"function": {"name": "find", "arguments": "{\\"city\\": \\"Paris\\", \\"n\\": 2}"}}', "find", 'city: "Paris", n: 2'),
        ('{"name": "find", "input": {"city": ["a"]}}', "find", 'city: ["a"]'),
        ('{"name": "find", "arguments": "not json"}', "find", '"not json"'),
        ('{"name": "find"}', "find", ""),
        ("look_up('Paris')", "", "look_up('Paris')"),
        ('{"name": 3}', "", '{"name": 3}'),
        ("[" * 90_000, "", "["),
        ('{"function": null}', "", '{"function": null}'),
    ],
)  # fmt: skip
def test_tool_calls_are_one_line_with_name_and_arguments(call: str, name: str, arguments: str) -> None:
    line = tool_call_line(call)
    assert line["name"] == name and line["text"] == call
    assert line["arguments"] == arguments or (len(call) > 1000 and len(line["arguments"]) < 200)


def test_results_of_a_tool_are_counted() -> None:
    assert [result_count(text) for text in ('["a"]', "[1, 2]", "{}", "21 degrees", "[", "")] == [
        "1 result", "2 results", "", "", "", "",
    ]  # fmt: skip
