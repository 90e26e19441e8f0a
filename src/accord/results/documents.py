"""Documents: sections of texts, tables and charts, which every renderer shows alike.

The terminal, pages, Markdown and notebooks render the same blocks, so a result and a plug-in need no rendering code.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

from pydantic import TypeAdapter

from accord.results.figures import Figure
from accord.values import Estimate

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
    """Table: a name per row, then texts, figures, or estimates with `digits` decimals; rows in `own` are highlighted.

    The cells of a table of sentences (`is_text`) are aligned left and wrapped in a terminal.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str | Estimate | Figure]]
    digits: int = 2
    own: frozenset[int] = frozenset()
    is_text: bool = False
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


Part = Text | Table | Charts | Fold


@dataclass(frozen=True)
class Section:
    """Section of a document: heading, first paragraph, and parts; details are shown on request in a terminal."""

    heading: str
    lead: str = ""
    parts: Sequence[Part] = ()
    is_detail: bool = False


@dataclass(frozen=True)
class Document:
    """A result: its finding as a title and a sentence, and sections in the order of reading.

    Attributes:
        title: The finding in a few words.
        lead: The finding in one or two sentences; may be empty.
        sections: Sections; the first screen of a terminal has those that are not details.
        more: Command or option that shows the details, for the end of the first screen.
    """

    title: str
    lead: str = ""
    sections: Sequence[Section] = ()
    more: str = ""

    def with_sections(self, *sections: Section | None) -> Document:
        """Return a copy with further sections; None is left out."""
        return replace(self, sections=[*self.sections, *(each for each in sections if each is not None)])

    def to_json(self) -> dict[str, Any]:
        """Return the document as JSON: figures with their definition and set, texts and tables as they are."""
        return {
            "title": self.title,
            "lead": self.lead,
            "sections": [
                {"heading": each.heading, "lead": each.lead, "parts": [_part_json(part) for part in each.parts]}
                for each in self.sections
            ],
        }


def _part_json(part: Part) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"kind": part.kind, "text": part.text, "label": part.label, "style": part.style}
    if isinstance(part, Table):
        rows = [[cell if isinstance(cell, str) else cell.to_json() for cell in row] for row in part.rows]
        return {"kind": part.kind, "header": list(part.header), "rows": rows}
    if isinstance(part, Fold):
        inner = [_part_json(each) for each in part.parts]
        return {"kind": part.kind, "summary": part.summary, "note": part.note, "parts": inner}
    charts = [
        {"caption": chart.caption, "axis": chart.axis,
         "points": [{"name": point.name, **point.figure.to_json()} for point in chart.points]}
        for chart in part.charts if isinstance(chart, Points)
    ]  # fmt: skip
    return {"kind": part.kind, "charts": charts, "legend": list(part.legend)}
