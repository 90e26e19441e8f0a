"""Report blocks: numbers with intervals, and the findings of a source as text, tables and charts.

The terminal, the report and the pages render the same blocks, so a plug-in needs no rendering code.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any, ClassVar, Literal, Self

from pydantic import TypeAdapter

from accord.edges import LONGEST_NAME, one_line


@dataclass(frozen=True)
class Estimate:
    """A number with its 95% interval, or with another range that the head or legend beside it names.

    Attributes:
        value: `None` if the number is undefined.
        low, high: Ends of the interval or range; `None` if the data are too few for one. The interval of a quantity
            that noise raises, such as a calibration error, may lie below the value.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None

    def text(self, digits: int = 2, ends: int = 2) -> str:
        """Return the value and its interval as text; a dash for an undefined value.

        Args:
            digits: Decimals of the value.
            ends: Decimals of the ends of the interval.
        """
        if self.value is None:
            return "–"
        value = f"{self.value:.{digits}f}"
        if self.low is None or self.high is None:
            return value
        return f"{value} [{self.low:.{ends}f}, {self.high:.{ends}f}]"

    def __str__(self) -> str:
        return self.text()

    def to_json(self) -> dict[str, float | None]:
        """Return the fields by name."""
        return asdict(self)


Ends = tuple[float | None, float | None]


class Findings(ABC):
    """Findings of a source: a frozen dataclass whose fields are its JSON.

    Attributes:
        cautions: Limits of the findings, as sentences without a full stop.
        again: Number of failed requests that may succeed if retried.
    """

    cautions: Sequence[str] = ()
    again: float = 0

    @abstractmethod
    def section(self) -> Section:
        """Return the blocks that the report and the terminal show, without the cautions."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain JSON values."""
        return dict(TypeAdapter(type(self)).dump_python(self, mode="json", by_alias=True))

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Self:
        """Invert `to_json`.

        Raises:
            ValueError: The row does not hold such findings.
        """
        return TypeAdapter(cls).validate_python(dict(row))


# --- figures ------------------------------------------------------------------------------------------------------


def number(value: float | None, digits: int = 3) -> str:
    """Format a number for a page; a dash if it is undefined."""
    return "–" if value is None else f"{value:.{digits}f}".replace("-", "−")


def told_apart(value: float, limit: float, spec: str = ".2f") -> tuple[str, str]:
    """Format a value and its limit with the fewest digits, from those of `spec`, that show which one is larger.

    >>> told_apart(0.71, 0.5), told_apart(0.496, 0.5), told_apart(0.504, 0.5, ".0%")
    (('0.71', '0.50'), ('0.496', '0.500'), ('50.4%', '50.0%'))
    """
    first = int(spec[1])
    shown = ((f"{value:.{digits}{spec[2]}}", f"{limit:.{digits}{spec[2]}}") for digits in range(first, first + 6))
    texts = next((texts for texts in shown if len({float(text.rstrip("%")) for text in texts}) > 1), None)
    return texts if texts is not None and value != limit else (f"{value:{spec}}", f"{limit:{spec}}")


def percent(share: float | None) -> str:
    """Format a share as a percentage for a page; a dash if it is undefined."""
    return "–" if share is None else f"{share:.0%}"


def counts(conversations: int, ratings: int, people: int, learned: int | None = None, rated: int | None = None) -> str:
    """Return the numbers of conversations and ratings as every page, the report and the terminal state them.

    Args:
        conversations: Number of conversations.
        ratings: Number of ratings of the main question.
        people: Number of people who gave them.
        learned: Number of ratings that the evaluator learned from, if one is in use.
        rated: Number of conversations with a rating, if it may differ from `conversations`.

    >>> counts(150, 571, 4, learned=507)
    '150 conversations, 571 ratings by 4 people: 507 learned, 64 new'
    >>> counts(1000, 1, 1, rated=1), counts(3, 0, 0)
    ('1,000 conversations (1 rated), 1 rating by 1 person', '3 conversations, no ratings')
    """
    noun = "conversation" if conversations == 1 else "conversations"
    some = "" if rated is None or rated == conversations or not ratings else f" ({rated:,} rated)"
    text = f"{conversations:,} {noun}{some}, "
    if not ratings:
        return f"{text}no ratings"
    text += f"{ratings:,} rating{'' if ratings == 1 else 's'} by {people:,} {'person' if people == 1 else 'people'}"
    if learned is None:
        return text
    new = max(ratings - learned, 0)
    return f"{text}: all learned" if not new else f"{text}: {ratings - new:,} learned, {new:,} new"


STRENGTHS = ((0.8, "well"), (0.667, "fairly well"), (0.4, "moderately"), (0.0, "a little"))
"""Words for Krippendorff's α above chance, each with its smallest value (Krippendorff, 2004, for the first two)."""


def agreement_word(alpha: Estimate) -> str:
    """Return the strength of an agreement in words, for Krippendorff's α, κ or r.

    >>> agreement_word(Estimate(0.27, 0.2, 0.3)), agreement_word(Estimate(0.27, -0.1, 0.5)), agreement_word(Estimate())
    ('a little', 'unclear', 'unknown')
    """
    if alpha.value is None:
        return "unknown"
    if alpha.value <= 0:
        return "not beyond chance"
    if alpha.low is not None and alpha.low <= 0:
        return "unclear"
    return next(word for least, word in STRENGTHS if round(alpha.value, 2) >= least)  # as the number is shown


def agreement_words(alpha: Estimate) -> str:
    """Return the strength of an agreement in words with its number.

    >>> agreement_words(Estimate(0.27, 0.2, 0.3)), agreement_words(Estimate())
    ('a little, 0.27', 'unknown')
    """
    word = agreement_word(alpha)
    return word if alpha.value is None else f"{word}, {number(alpha.value, 2)}"


def p_text(p: float) -> str:
    """Format the p of a test; a value below 0.001 is not printed as 0, and none is rounded to a usual level.

    >>> p_text(0.0142), p_text(0.0002), p_text(0.0497)
    ('p = 0.014', 'p < 0.001', 'p = 0.0497')
    """
    if p < 0.001:
        return "p < 0.001"
    shown = (f"{p:.{digits}g}" for digits in range(2, 7))
    return f"p = {next((text for text in shown if float(text) not in (0.05, 0.01) or float(text) == p), f'{p:.2g}')}"


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


def html_table(header: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> str:
    """Return an HTML table for a notebook; the caption and each cell are one escaped line of limited length."""

    def cells(tag: str, line: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{_escaped(cell)}</{tag}>" for cell in line) + "</tr>"

    head = f"<thead>{cells('th', header)}</thead>" if header else ""
    title = f"<caption>{escape(one_line(caption))}</caption>" if caption else ""
    return f"<table>{title}{head}<tbody>{''.join(cells('td', line) for line in rows)}</tbody></table>"


def _escaped(cell: str) -> str:
    return escape(one_line(cell, LONGEST_NAME))


# --- charts -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Point:
    """A named number; a flagged one has another color."""

    name: str
    figure: Estimate
    is_flagged: bool = False


@dataclass(frozen=True)
class Points:
    """Interval plot of several estimates around zero; `axis` is the label of the axis."""

    caption: str
    axis: str
    points: Sequence[Point]


@dataclass(frozen=True)
class Histogram:
    """Histogram of groups of values, with a line `at` a value and dashed lines at the ends of `window`."""

    caption: str
    axis: str
    counted: str
    groups: Mapping[str, Sequence[float]]
    at: float | None = None
    window: Ends = (None, None)


# --- sections -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Text:
    """A paragraph, heading or quotation; `label` names the speaker or the place of a quotation."""

    text: str
    style: Literal["plain", "soft", "heading", "code", "quote", "turn"] = "plain"
    label: str = ""
    kind: ClassVar[str] = "text"


@dataclass(frozen=True)
class Table:
    """Table: a name per row, then texts or estimates with `digits` decimals; rows in `own` are highlighted."""

    header: Sequence[str]
    rows: Sequence[Sequence[str | Estimate]]
    digits: int = 2
    own: frozenset[int] = frozenset()
    kind: ClassVar[str] = "table"


@dataclass(frozen=True)
class Charts:
    """Charts in one row; `legend` names their two colors."""

    charts: Sequence[Points | Histogram]
    legend: Sequence[str] = ()
    kind: ClassVar[str] = "charts"


@dataclass(frozen=True)
class Fold:
    """Collapsible parts under a summary line with an optional `note`."""

    summary: str
    parts: Sequence[Text | Table]
    note: str = ""
    is_open: bool = False
    kind: ClassVar[str] = "fold"


@dataclass(frozen=True)
class Section:
    """Section of the report: heading, first paragraph, and the parts after the cautions."""

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
