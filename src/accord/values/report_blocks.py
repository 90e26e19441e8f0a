"""What a source found out while it learned: its own words for the terminal, its own section for the report.

A section is made of a few kinds of parts, so that a page shows the findings of a source that it has never heard of.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any, ClassVar, Literal

from accord.edges import LONGEST_NAME, one_line
from accord.values.estimate import Estimate

Ends = tuple[float | None, float | None]


class Findings(ABC):
    """What a source found out about itself: a frozen dataclass whose fields are its JSON.

    Attributes:
        cautions: Sentences on what the data could not support, without their full stop.
        again: How many requests came to nothing that may succeed another time.
    """

    cautions: Sequence[str] = ()
    again: float = 0

    @abstractmethod
    def section(self) -> Section:
        """Return the blocks that the report and the terminal show, without the cautions."""

    def to_json(self) -> dict[str, Any]:
        """The fields, as plain JSON values."""
        return asdict(self)  # type: ignore[call-overload, no-any-return]  # every one is a dataclass


# --- figures ------------------------------------------------------------------------------------------------------


def number(value: float | None, digits: int = 3) -> str:
    """A number as a page writes it; a dash where it is undefined."""
    return "–" if value is None else f"{value:.{digits}f}".replace("-", "−")


def percent(share: float | None) -> str:
    """A share in per cent, as a page writes it; a dash where it is undefined."""
    return "–" if share is None else f"{100 * share:.0f} %"


def text_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns of plain text, the first to the left, the others to the right; each cell is one line, and bounded."""
    lines = [[one_line(cell, LONGEST_NAME) for cell in line] for line in (header, *rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(header))]
    shown = (
        "  ".join(cell.ljust(width) if place == 0 else cell.rjust(width)
                  for place, (cell, width) in enumerate(zip(line, widths, strict=True)))
        for line in lines
    )  # fmt: skip
    return "\n".join(line.rstrip() for line in shown)


def html_table(header: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> str:
    """Return an HTML table for a notebook; each cell is one line, bounded and escaped."""

    def cells(tag: str, line: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{_escaped(cell)}</{tag}>" for cell in line) + "</tr>"

    head = f"<thead>{cells('th', header)}</thead>" if header else ""
    title = f"<caption>{_escaped(caption)}</caption>" if caption else ""
    return f"<table>{title}{head}<tbody>{''.join(cells('td', line) for line in rows)}</tbody></table>"


def _escaped(cell: str) -> str:
    return escape(one_line(cell, LONGEST_NAME))


# --- charts -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Point:
    """A named figure; one that is flagged has another colour."""

    name: str
    figure: Estimate
    is_flagged: bool = False


@dataclass(frozen=True)
class Points:
    """Figures with intervals around zero, one below the other; `axis` says what they are."""

    caption: str
    axis: str
    points: Sequence[Point]


@dataclass(frozen=True)
class Histogram:
    """Values of two groups, by name, counted; a line stands `at` a value, dashed ones at the `window`'s ends."""

    caption: str
    axis: str
    counted: str
    groups: Mapping[str, Sequence[float]]
    at: float | None = None
    window: Ends = (None, None)


# --- sections -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Text:
    """A paragraph, a heading, a quotation; `label` says whose words it is, or where they stand."""

    text: str
    style: Literal["plain", "soft", "heading", "code", "quote", "turn"] = "plain"
    label: str = ""
    kind: ClassVar[str] = "text"


@dataclass(frozen=True)
class Table:
    """Rows of a name, then texts or figures with `digits` decimals; the rows at the places `own` stand out."""

    header: Sequence[str]
    rows: Sequence[Sequence[str | Estimate]]
    digits: int = 2
    own: frozenset[int] = frozenset()
    kind: ClassVar[str] = "table"


@dataclass(frozen=True)
class Charts:
    """Charts beside each other; the `legend` names their two colours."""

    charts: Sequence[Points | Histogram]
    legend: Sequence[str] = ()
    kind: ClassVar[str] = "charts"


@dataclass(frozen=True)
class Fold:
    """Parts under a line that opens them; the `note` on that line is set back."""

    summary: str
    parts: Sequence[Text | Table]
    note: str = ""
    is_open: bool = False
    kind: ClassVar[str] = "fold"


@dataclass(frozen=True)
class Section:
    """A section of the report: its heading, its first paragraph, and what comes after the cautions."""

    heading: str
    lead: str
    parts: Sequence[Text | Table | Charts | Fold] = ()

    def plain_text(self) -> str:
        """Return the section as text for a terminal: folds by their summaries, charts by their values."""
        blocks = [f"{self.heading}: {self.lead}"]
        for part in self.parts:
            text = _plain_text(part)
            is_listed = isinstance(part, Fold) and blocks[-1].startswith("- ")
            if is_listed:
                blocks[-1] += f"\n{text}"
            elif text:
                blocks.append(text)
        return "\n\n".join(blocks)


def _plain_text(part: Text | Table | Charts | Fold) -> str:
    if isinstance(part, Text):
        return f"{part.label}: {part.text}" if part.label else part.text
    if isinstance(part, Table):
        rows = [
            [cell.text(part.digits, part.digits) if isinstance(cell, Estimate) else cell for cell in row]
            for row in part.rows
        ]
        for place in part.own:
            rows[place][0] += " *"
        return text_table(part.header, rows)
    if isinstance(part, Fold):
        return f"- {part.summary}" + (f" ({part.note})" if part.note else "")
    charts = [chart for chart in part.charts if isinstance(chart, Points)]
    return "\n\n".join(
        text_table([chart.axis, ""], [[p.name, p.figure.text()] for p in chart.points]) for chart in charts
    )
