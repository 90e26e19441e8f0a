"""Texts of turns as HTML: Markdown, citations and quotes, with each character at its place in the stored text.

The text nodes of the HTML, joined, are the stored text: syntax such as `**` stays in the page as hidden text. So an
offset in the page is an offset in the text, and a quote selected in the page is a part of the text. No HTML of the
text, no image and no link is active.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline.backticks import backtick
from markdown_it.token import Token
from markupsafe import Markup, escape

from accord.edges import escape_controls
from accord.studies import CitationFinder
from accord.values import Span

MAX_MARKDOWN = 20_000
"""Length of a text, in characters, above which it is shown as plain text."""
MAX_TOKENS = 5_000
"""Number of paragraphs, cells, list items and other elements above which a text is shown as plain text."""
MAX_COLUMNS = 50
"""Number of bars in a line above which a text is shown as plain text."""
MAX_NESTING = 20
"""Number of levels of lists and quotes; deeper ones are shown as written."""
_SYNTAX = re.compile(r"[*_`~\[\\|]|^[ \t]*(?:[#>+-]|\d{1,9}[.)])|^ {0,3}=+[ \t]*$", re.MULTILINE)
_HIDDEN_GAP = re.compile(r"(?:[\s>*+\-#=|:`~_]|\d{1,9}[.)](?=\s|$))*")
"""Text between two elements that is syntax; other text there is shown."""
_LINK = re.compile(r"(!?)\[([^\[\]]*)\](\((?:[^()<>\s]|\([^()<>\s]*\))*(?:\s\"[^\"\n]*\")?\))")
_ESCAPED = frozenset("!\"#$%&'*+,-./:;<=>?@^_`{|}~\\\n")
"""Characters before which a backslash is hidden; brackets are left out, since `\\(` begins a formula."""
_ALIGNMENT = {"text-align:right": ' class="right"', "text-align:center": ' class="center"'}


class _Mark(NamedTuple):
    """A visible piece of a text inside quotes, with the numbers of marks and of issues of a model."""

    text: str
    marks: tuple[int, ...]
    issues: tuple[int, ...]


def render_text(
    text: str,
    spans: Sequence[tuple[Span, int, bool]] = (),
    is_markdown: bool = False,
    documents: int = 0,
    anchor: str = "d",
) -> Markup:
    """Return a text as HTML.

    Args:
        text: Text of a turn.
        spans: Quotes, each with its span, its number, and True if it is an issue of a model.
        is_markdown: Render Markdown and citations.
        documents: Number of documents that the text can cite.
        anchor: Beginning of the documents' ids in the page; the number of the document follows.
    """
    if spans:
        return _render(text, spans, is_markdown, documents, anchor)
    return _render_cached(text, is_markdown, documents, anchor)


@lru_cache(maxsize=1024)
def _render_cached(text: str, is_markdown: bool, documents: int, anchor: str) -> Markup:
    return _render(text, (), is_markdown, documents, anchor)


def _render(
    text: str, spans: Sequence[tuple[Span, int, bool]], is_markdown: bool, documents: int, anchor: str
) -> Markup:
    page = _Page(text, spans)
    if not (is_markdown and _is_parsed(text)) or not _write_markdown(page, documents, anchor):
        page = _Page(text, spans)
        page.show(0, len(text))
    return Markup(f'<div class="text" dir="auto">{page.joined()}</div>')


def _is_parsed(text: str) -> bool:
    """Return True if a text may have Markdown and is not so large that a page would be slow."""
    return (
        len(text) <= MAX_MARKDOWN
        and _SYNTAX.search(text) is not None
        and max(line.count("|") for line in text.split("\n")) <= MAX_COLUMNS
    )


class _Page:
    """HTML of a text, written from its first character to its last.

    Attributes:
        html: Parts of the HTML.
        place: End of the text that was written.
        has_text: True if a character is visible.
    """

    def __init__(self, text: str, spans: Sequence[tuple[Span, int, bool]]) -> None:
        inside = [((max(0, start), min(end, len(text))), number, by_model) for (start, end), number, by_model in spans]
        self.text, self.quotes = text, inside
        self.html: list[str | _Mark] = []
        self.place, self.has_text = 0, False
        self._cuts = sorted({end for span, _, _ in inside for end in span})
        self._has_signs = escape_controls(text) != text

    def show(self, start: int, end: int) -> None:
        """Write visible text after the text before it, of which syntax is hidden."""
        self._fill(start)
        if start >= end:
            return
        self.place = end
        self.has_text = self.has_text or not self.text[start:end].isspace()
        cuts = self._cuts[bisect_left(self._cuts, start) : bisect_left(self._cuts, end)]
        for first, last in zip([start, *cuts], [*cuts, end], strict=True):
            quotes = [(number, by_model) for (a, b), number, by_model in self.quotes if a <= first and last <= b]
            marks, issues = (tuple(n for n, by_model in quotes if by_model is kind) for kind in (False, True))
            for part, is_sign in self._parts(first, last):
                shown = part if is_sign or not quotes else _Mark(part, marks, issues)
                self.html.append(shown)

    def hide(self, end: int) -> None:
        """Write the text up to a place as hidden."""
        if self.place < end:
            hidden = "".join(part for part, _ in self._parts(self.place, end))
            self.html.append(f"<span hidden>{hidden}</span>")
            self.place = end

    def _fill(self, end: int) -> None:
        """Write the text up to a place: syntax is hidden, other text is shown."""
        if _HIDDEN_GAP.fullmatch(self.text, self.place, end):
            self.hide(end)
        elif self.place < end:
            self.show(self.place, end)

    def _parts(self, start: int, end: int) -> Iterator[tuple[str, bool]]:
        """Yield escaped parts of the text, and True for one that stands for a single control character."""
        part = self.text[start:end]
        if not self._has_signs or escape_controls(part) == part:
            if part:
                yield str(escape(part)), False
            return
        first = start
        for place in range(start, end):
            sign = escape_controls(self.text[place])
            if sign == self.text[place]:
                continue
            if first < place:
                yield str(escape(self.text[first:place])), False
            is_line_end = sign == "\\r" and self.text[place + 1 : place + 2] == "\n"  # Windows line ending
            yield f'<span class="sign">{"" if is_line_end else escape(sign)}</span>', True
            first = place + 1
        if first < end:
            yield str(escape(self.text[first:end])), False

    def joined(self) -> str:
        """Return the HTML; the number of a quote follows its last piece."""
        last = {(is_issue, number): index for index, each in enumerate(self.html) if isinstance(each, _Mark)
                for is_issue, numbers in enumerate((each.marks, each.issues)) for number in numbers}  # fmt: skip
        parts = []
        for index, each in enumerate(self.html):
            if isinstance(each, str):
                parts.append(each)
                continue
            numbers = ((kind, number) for kind in (0, 1) for number in (each.marks, each.issues)[kind])
            ends = ",".join(str(number) for kind, number in numbers if last[kind, number] == index)
            ends = f' data-numbers="{ends}"' if ends else ""
            kind = "" if each.marks else ' class="found"'
            parts.append(f"<mark{kind}{ends}>{each.text}</mark>")
        return "".join(parts)


# --- Markdown -------------------------------------------------------------------------------------------------------


class _Lines:
    """A text as the parser reads it: control characters replaced, Windows line endings as a single character."""

    def __init__(self, text: str) -> None:
        parts = text.split("\r\n")
        clean = "\n".join(parts)
        self.text = clean if escape_controls(clean) == clean else _without_controls(clean)
        self.starts = [0, *(match.end() for match in re.finditer("\n", self.text))]
        self._breaks, at = [], -1
        for part in parts[:-1]:
            at += len(part) + 1
            self._breaks.append(at)  # places of the line breaks that are two characters in the text

    def source(self, place: int) -> int:
        """Return the place in the text."""
        return place + bisect_left(self._breaks, place)

    def line(self, number: int) -> tuple[int, str]:
        """Return the place of a line, and its text."""
        start = self.starts[number]
        end = self.starts[number + 1] - 1 if number + 1 < len(self.starts) else len(self.text)
        return start, self.text[start:end]


def _without_controls(text: str) -> str:
    return "".join(char if escape_controls(char) == char else "\ufffd" for char in text)


class _Content(NamedTuple):
    """Text of a paragraph, heading or cell as the inline parser reads it, with the place of each of its lines."""

    lines: tuple[tuple[int, str], ...]

    @property
    def text(self) -> str:
        return "\n".join(line for _, line in self.lines)

    def runs(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the places in the parsed text of a part of the content; a line break belongs to its line."""
        at = 0
        for place, line in self.lines:
            first, last = max(start, at), min(end, at + len(line) + 1)
            if first < last:
                yield place + first - at, place + last - at
            at += len(line) + 1
            if at >= end:
                return


def _write_markdown(page: _Page, documents: int, anchor: str) -> bool:
    """Write the page's text as Markdown; return False if it has to be shown as written."""
    lines, parser = _Lines(page.text), _parser()
    tokens: list[Token] = []
    parser.block.parse(lines.text, parser, {}, tokens)
    if len(tokens) > MAX_TOKENS:
        return False
    row, row_end = 0, 0  # places in the row of a table: after the last cell, and its end
    for token, after in zip(tokens, [*(token.type for token in tokens[1:]), ""], strict=True):
        if token.type == "inline":
            is_cell = after in ("th_close", "td_close")
            content = _cell(token, lines, row) if is_cell else _content(token, lines)
            if is_cell and content.lines:
                place, line = content.lines[-1]
                row = place + len(line)
            _write_inline(page, content, lines, documents, anchor)
        elif token.type == "tr_open":
            assert token.map is not None
            row, line = lines.line(token.map[0])
            row_end = lines.source(row + len(line))
        elif token.type in ("fence", "hr"):
            _write_lines(page, token, lines)
        elif token.tag in ("th", "td") and after == "tr_close":
            page.show(row_end, row_end)  # cells without a column
        if token.nesting and not token.hidden and token.type in _TAGS:
            page.html.append(_TAGS[token.type](token))
    page.show(len(page.text), len(page.text))
    return page.has_text


def _content(token: Token, lines: _Lines) -> _Content:
    """Return the place of each line of a paragraph or heading: the end of its line in the text."""
    assert token.map is not None
    found = []
    for number, wanted in enumerate(token.content.split("\n"), token.map[0]):
        start, line = lines.line(number)
        part = wanted.strip()
        at = len(line.rstrip()) - len(part)
        if line[max(at, 0) :].rstrip() != part:  # a heading with closing signs
            at = line.find(part, line.find("#") + 1)
        found.append((start + at, part) if at >= 0 else (start, line))
    return _Content(tuple(found))


def _cell(token: Token, lines: _Lines, row: int) -> _Content:
    """Return the place of a cell: its first occurrence in the row after the cells before it."""
    assert token.map is not None
    start, line = lines.line(token.map[0])
    text = token.content.replace("|", "\\|")  # a row writes a bar inside a cell like this
    at = line.find(text, row - start) if text else -1
    return _Content(((start + at, text),) if at >= 0 else ())


def _write_lines(page: _Page, token: Token, lines: _Lines) -> None:
    """Write a block of code, or the line between two paragraphs."""
    assert token.map is not None
    first, last = token.map
    code = token.content.removesuffix("\n").split("\n") if token.content else []
    page.html.append('<pre tabindex="0"><code>' if token.type == "fence" else "")
    place, opening = lines.line(first)
    if language := token.info.strip():
        at = place + opening.rindex(language)
        page.hide(lines.source(at))
        page.html.append('<span class="address">')
        page.show(lines.source(at), lines.source(at + len(language)))
        page.html.append("</span>")
    page.hide(lines.source(place + len(opening) + (1 if code else 0)))
    for number, wanted in enumerate(code, first + 1):
        place, line = lines.line(number)
        at = len(line) - len(wanted) if line.endswith(wanted) else len(line) - len(line.lstrip())
        end = place + len(line)
        page.hide(lines.source(place + at))
        page.show(lines.source(place + at), lines.source(min(end + 1, len(lines.text))))
    if token.type == "fence":
        page.html.append("</code></pre>")
    place, closing = lines.line(last - 1)
    page.hide(lines.source(place + len(closing)) if last - 1 > first + len(code) or not code else page.place)
    page.html.append("<hr>" if token.type == "hr" else "")


def _write_inline(page: _Page, content: _Content, lines: _Lines, documents: int, anchor: str) -> None:
    """Write the text of a paragraph, heading or cell."""
    if not content.lines:
        return
    tokens: list[Token] = []
    parser = _parser()
    parser.inline.parse(content.text, parser, {}, tokens)
    if sum(len(token.content or token.markup) for token in tokens) != len(content.text):
        tokens = [Token("text", "", 0, content=content.text)]  # never met: every rule keeps the text
    start = lines.source(content.lines[0][0])
    page.show(start, start)
    at = 0
    for token in tokens:
        opening, closing, parts = _inline_parts(token, documents, anchor)
        page.html.append(opening)
        for length, is_shown in parts:
            for first, last in content.runs(at, at + length):
                end = min(lines.source(last), len(page.text))
                page.show(lines.source(first), end) if is_shown else page.hide(end)
            at += length
        page.html.append(closing)


def _inline_parts(token: Token, documents: int, anchor: str) -> tuple[str, str, list[tuple[int, bool]]]:
    """Return the HTML before and after a token, and the lengths of its parts with True for a visible part."""
    length = len(token.content or token.markup)
    if token.nesting:
        tag = f"<{'/' if token.nesting < 0 else ''}{token.tag}>"
        return (tag, "", [(length, False)]) if token.nesting > 0 else ("", tag, [(length, False)])
    if token.type == "cite" and 1 <= int(token.info) <= documents:
        link = f'<a class="cite" href="#{anchor}{int(token.info)}">'
        return link, "</a>", [(1, False), (length - 2, True), (1, False)]
    if token.type == "code_inline":
        ticks = len(token.markup)
        return "<code>", "</code>", [(ticks, False), (length - 2 * ticks, True), (ticks, False)]
    if token.type == "address":
        return '<span class="address">', "</span>", [(length, True)]
    return "", "", [(length, token.type != "syntax")]


def _cell_tag(token: Token) -> str:
    scope = ' scope="col"' if token.tag == "th" else ""
    return f"<{token.tag}{scope}{_ALIGNMENT.get(str(token.attrGet('style')), '')}>"


_TAGS: dict[str, Callable[[Token], str]] = {
    "table_open": lambda token: '<div class="cells" tabindex="0"><table>',
    "table_close": lambda token: "</table></div>",
    "heading_open": lambda token: '<p class="heading large">' if token.tag in ("h1", "h2") else '<p class="heading">',
    "heading_close": lambda token: "</p>",
    "ordered_list_open": lambda token: f'<ol start="{token.attrs.get("start", 1)}">',
    "th_open": _cell_tag,
    "td_open": _cell_tag,
    **{f"{name}_open": lambda token: f"<{token.tag}>"
       for name in ("paragraph", "blockquote", "bullet_list", "list_item", "thead", "tbody", "tr")},
    **{f"{name}_close": lambda token: f"</{token.tag}>"
       for name in ("paragraph", "blockquote", "bullet_list", "ordered_list", "list_item", "thead", "tbody", "tr", "th",
                    "td")},
}  # fmt: skip


@cache
def _parser() -> MarkdownIt:
    """Return the parser: CommonMark with tables, without HTML, entities, images and links; each rule keeps the text."""
    parser = MarkdownIt("zero", {"maxNesting": MAX_NESTING})
    parser.block.ruler.enable(["table", "fence", "blockquote", "hr", "list", "heading", "lheading"])
    parser.inline.ruler.enable(["emphasis", "strikethrough"])
    parser.inline.ruler2.enable(["emphasis", "strikethrough"])
    parser.inline.ruler.push("own_escape", _backslash)
    parser.inline.ruler.push("own_backticks", _backticks)
    parser.inline.ruler.push("own_link", _link)
    parser.inline.ruler.push("own_citation", _citation)
    return parser


def _backslash(state: StateInline, silent: bool) -> bool:
    if state.src[state.pos] != "\\" or state.src[state.pos + 1 : state.pos + 2] not in _ESCAPED:
        return False
    _push(state, "syntax", "\\")
    _push(state, "text", state.src[state.pos])
    return True


def _backticks(state: StateInline, silent: bool) -> bool:
    start, count = state.pos, len(state.tokens)
    if not backtick(state, silent):
        return False
    if len(state.tokens) > count and state.tokens[-1].type == "code_inline":
        state.tokens[-1].content = state.src[start : state.pos]
    return True


def _link(state: StateInline, silent: bool) -> bool:
    """Read a link or an image: the label is text, a link's address is shown, an image's address is hidden."""
    if state.src[state.pos] not in "[!":
        return False
    found = _LINK.match(state.src, state.pos, state.posMax)
    if found is None or not found[2].strip():
        return False
    _push(state, "syntax", f"{found[1]}[")
    _push(state, "text", found[2])
    _push(state, "syntax", "]")
    _push(state, "syntax" if found[1] else "address", found[3])
    return True


def _citation(state: StateInline, silent: bool) -> bool:
    found = CitationFinder.citation.match(state.src, state.pos, state.posMax)
    if found is None:
        return False
    _push(state, "cite", found[0], found[1])
    return True


def _push(state: StateInline, kind: str, content: str, info: str = "") -> None:
    token: Any = state.push(kind, "", 0)
    token.content, token.info = content, info
    state.pos += len(content)
