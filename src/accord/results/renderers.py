"""Renderers of documents: text for a terminal, Markdown, and HTML for pages and notebooks.

A renderer escapes and aligns; it computes, rounds and rewords nothing. Charts of pages are drawn by `accord.charts`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from html import escape
from itertools import pairwise
from shutil import get_terminal_size
from textwrap import wrap

from accord.edges import LONGEST_NAME, one_line, page_text
from accord.results.documents import Charts, Document, Fold, Part, Points, Section, Table, Text
from accord.results.figures import Figure
from accord.values import Estimate

WIDTH, NARROWEST = 118, 60
"""Columns that wrapped tables fill at most, and at least in a narrow terminal."""
Cell = str | Estimate | Figure
_SPECIAL = re.compile(r"([\\`*_\[\]<>|~])")


# --- text -----------------------------------------------------------------------------------------------------------


def document_text(document: Document, details: bool = False) -> str:
    """Return a document as text for a terminal; without details, the first screen and how to see the rest."""
    shown = [section for section in document.sections if details or not section.is_detail]
    head = one_line(f"{document.title}: {document.lead}" if document.lead else document.title)
    is_more = len(shown) < len(document.sections) and document.more
    blocks = [*filter(None, [head, *map(section_text, shown), document.more if is_more else ""])]
    text = blocks[0] if blocks else ""
    for before, block in pairwise(blocks):  # sentences of one line stand together below the first
        text += "\n" if before is not head and "\n" not in before + block else "\n\n"
        text += block
    return text


def section_text(section: Section) -> str:
    """Return a section as text: folds by their summaries, charts by their values."""
    head = ": ".join(filter(None, [section.heading, section.lead]))
    blocks = [head] if head else []
    for part in section.parts:
        text = _part_text(part)
        is_listed = isinstance(part, Fold) and bool(blocks) and blocks[-1].startswith("- ")
        if is_listed:
            blocks[-1] += f"\n{text}"
        elif text:
            blocks.append(text)
    return "\n\n".join(blocks)


def _part_text(part: Part) -> str:
    if isinstance(part, Text):
        return f"{part.label}: {part.text}" if part.label else part.text
    if isinstance(part, Table):
        rows = [[cell_text(cell, part.digits) for cell in row] for row in part.rows]
        for place in part.own:
            rows[place][0] += " *"
        return wrapped_table(part.header, rows) if part.is_text else text_table(part.header, rows)
    if isinstance(part, Fold):
        return f"- {part.summary}" + (f" ({part.note})" if part.note else "")
    charts = [chart for chart in part.charts if isinstance(chart, Points)]
    return "\n\n".join(
        text_table([chart.axis, ""], [[p.name, p.figure.text()] for p in chart.points]) for chart in charts
    )


def cell_text(cell: Cell, digits: int = 2) -> str:
    """Return a cell as text."""
    if isinstance(cell, Figure):
        return cell.text()
    return cell.text(digits, digits).replace("-", "−") if isinstance(cell, Estimate) else cell


def text_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format rows as plain text, with the first column left-aligned and each cell one line of limited length."""
    lines = [[one_line(cell, LONGEST_NAME) for cell in line] for line in (header, *rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(header))]
    shown = (
        "  ".join(cell.ljust(width) if place == 0 else cell.rjust(width)
                  for place, (cell, width) in enumerate(zip(line, widths, strict=True)))
        for line in lines
    )  # fmt: skip
    return "\n".join(line.rstrip() for line in shown)


def wrapped_table(header: Sequence[str], rows: Iterable[Sequence[str]], width: int | None = None) -> str:
    """Format rows of sentences as plain text, aligned left, in as few lines as fit into a width.

    The width is by default that of the terminal. Columns are as wide as their longest word at least.
    """
    lines = [[" ".join(cell.split()) for cell in line] for line in (header, *rows)]
    width = width or max(NARROWEST, min(WIDTH, get_terminal_size((WIDTH, 0)).columns))
    columns = list(zip(*lines, strict=True))
    widths = [max(map(len, column)) for column in columns]
    least = [max((len(word) for cell in column for word in cell.split()), default=0) for column in columns]

    def height(place: int) -> tuple[int, int]:
        """Return the lines of the table if a column is narrower by one, and the negative width of the column."""
        sizes = [size - (each == place) for each, size in enumerate(widths)]
        heights = ([len(wrap(cell, size)) for cell, size in zip(line, sizes, strict=True)] for line in lines)
        return sum(map(max, heights)), -widths[place]

    while sum(widths) + 2 * (len(widths) - 1) > width:
        wide = [place for place, size in enumerate(widths) if size > least[place]]
        if not wide:
            break
        widths[min(wide, key=height)] -= 1
    shown = []
    for line in lines:
        cells = [wrap(cell, size) or [""] for cell, size in zip(line, widths, strict=True)]
        for place in range(max(map(len, cells))):
            parts = (cell[place] if place < len(cell) else "" for cell in cells)
            shown.append("  ".join(part.ljust(size) for part, size in zip(parts, widths, strict=True)).rstrip())
    return "\n".join(shown)


# --- Markdown -------------------------------------------------------------------------------------------------------


def document_markdown(document: Document, level: int = 1) -> str:
    """Return a document as Markdown, with headings from a level; texts of users are escaped."""
    lines = [f"{'#' * level} {plain_markdown(document.title)}", ""]
    lines += [plain_markdown(document.lead), ""] if document.lead else []
    for section in document.sections:
        lines += [f"{'#' * (level + 1)} {plain_markdown(section.heading)}", ""] if section.heading else []
        lines += [plain_markdown(section.lead), ""] if section.lead else []
        for part in section.parts:
            lines += [*_part_markdown(part), ""]
    return "\n".join(lines).rstrip() + "\n"


def _part_markdown(part: Part) -> list[str]:
    if isinstance(part, Text):
        text = plain_markdown(part.text)
        return [f"**{plain_markdown(part.label)}**: {text}" if part.label else text]
    if isinstance(part, Table):
        return markdown_table(part.header, [[cell_text(cell, part.digits) for cell in row] for row in part.rows])
    if isinstance(part, Fold):
        note = f" ({plain_markdown(part.note)})" if part.note else ""
        return [f"- {plain_markdown(part.summary)}{note}"]
    return [
        line for chart in part.charts if isinstance(chart, Points)
        for line in markdown_table([chart.axis, ""], [[p.name, p.figure.text()] for p in chart.points])
    ]  # fmt: skip


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table; texts of users are escaped."""
    lines = [header, ["---"] * len(header), *rows]
    cells = [row if place == 1 else [*map(plain_markdown, row)] for place, row in enumerate(lines)]
    return [f"| {' | '.join(row)} |" for row in cells]


def plain_markdown(text: str) -> str:
    """Return text without a meaning in Markdown or HTML, on one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(str(text).split()))


# --- HTML -----------------------------------------------------------------------------------------------------------

Draw = Callable[[Charts], str]
"""Function that returns the pictures of a row of charts as HTML."""
_TAGS = {"plain": "p", "soft": "p", "heading": "h3", "quote": "blockquote"}


def document_html(document: Document, draw: Draw | None = None) -> str:
    """Return a document as HTML, for a notebook or inside a page."""
    lead = f": {_text_html(document.lead)}" if document.lead else ""
    head = f"<p><b>{_text_html(document.title)}</b>{lead}</p>"
    return "\n".join([head, *(section_html(each, draw, 3) for each in document.sections)])


def section_html(section: Section, draw: Draw | None = None, level: int = 2) -> str:
    """Return a section as HTML with classes of the product's sheet."""
    parts = [f"<h{level}>{_text_html(section.heading)}</h{level}>"] if section.heading else []
    parts += [f"<p>{_text_html(section.lead)}</p>"] if section.lead else []
    return "\n".join([*parts, *(part_html(part, draw) for part in section.parts)])


def part_html(part: Part, draw: Draw | None = None) -> str:
    """Return a part of a section as HTML; without `draw`, a chart is a table of its values."""
    if isinstance(part, Text):
        text = _text_html(part.text)
        if part.style == "turn":
            who = f'<div class="who">{_text_html(part.label)}</div>'
            side = "user" if part.label.startswith("user") else "assistant"
            return f'<div class="msg {side}">{who}<div class="text">{text}</div></div>'
        if part.style == "code":
            return f"<p>{f'<b>{_text_html(part.label)}</b> ' if part.label else ''}<code>{text}</code></p>"
        label = f"<b>{_text_html(part.label)}</b>: " if part.label else ""
        kind = ' class="soft"' if part.style == "soft" else ""
        text = text.replace("\n", "<br>\n") if part.style in ("plain", "soft") else text
        return f"<{_TAGS[part.style]}{kind}>{label}{text}</{_TAGS[part.style]}>"
    if isinstance(part, Table):
        rows = [[cell_html(cell, part.digits) for cell in row] for row in part.rows]
        table = _table_html(part.header, rows, part.own, is_text=part.is_text)
        return f'<div class="tbl-wrap" tabindex="0">{table}</div>'
    if isinstance(part, Fold):
        note = f' <span class="soft">{_text_html(part.note)}</span>' if part.note else ""
        inner = "\n".join(part_html(each, draw) for each in part.parts)
        is_open = " open" if part.is_open else ""
        return (
            f'<details class="fold"{is_open}><summary>{_text_html(part.summary)}{note}</summary>\n{inner}\n</details>'
        )
    if draw is not None:
        return draw(part)
    rows_of = [
        (chart.axis, [[_text_html(point.name), cell_html(point.figure)] for point in chart.points])
        for chart in part.charts if isinstance(chart, Points)
    ]  # fmt: skip
    return "\n".join(_table_html([axis, ""], rows) for axis, rows in rows_of)


def cell_html(cell: Cell, digits: int = 2) -> str:
    """Return a cell as HTML; a figure has its full value, and its definition and set as a tooltip."""
    if isinstance(cell, Figure):
        return figure_html(cell)
    return _text_html(cell_text(cell, digits))


def figure_html(figure: Figure) -> str:
    """Return a figure as a `data` element: its text, with the key, the full value, the definition and the set."""
    value = "" if figure.value is None else f"{figure.value:.6g}"
    about = ". ".join(filter(None, [figure.definition.meaning, figure.about]))
    marks = {"figure": figure.key, "about": figure.about, "of": figure.of}
    named = " ".join(f'data-{name}="{_text_html(text)}"' for name, text in marks.items())
    return (
        f'<data class="figure" value="{value}" {named} title="{_text_html(about)}">{_text_html(figure.text())}</data>'
    )


def html_table(header: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> str:
    """Return an HTML table for a notebook; the caption and each cell are one escaped line of limited length."""
    lines = [[_text_html(one_line(cell, LONGEST_NAME)) for cell in line] for line in rows]
    return _table_html(header, lines, caption=caption)


def _table_html(
    header: Sequence[str], rows: Iterable[Sequence[str]], own: frozenset[int] = frozenset(), caption: str = "",
    is_text: bool = False,
) -> str:  # fmt: skip
    def cells(tag: str, line: Sequence[str]) -> str:
        return "".join(f"<{tag}>{cell}</{tag}>" if cell else "<td></td>" for cell in line)  # no empty heading

    head = f"<thead><tr>{cells('th', [*map(_text_html, header)])}</tr></thead>" if header else ""
    title = f"<caption>{_text_html(caption)}</caption>" if caption else ""
    body = ""
    for place, row in enumerate(rows):
        kind = ' class="own"' if place in own else ""
        body += f"<tr{kind}>{cells('td', row)}</tr>"
    opened = f'<table class="tbl{" stack" if is_text else ""}">'
    return f"{opened}{title}{head}<tbody>{body}</tbody></table>"


def _text_html(text: str) -> str:
    return escape(str(page_text(text)))
