"""The plot area of a chart: SVG elements, style sheet, scales, axes with labels that do not collide, guides, legend."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from markupsafe import Markup, escape

from accord.charts.look import STYLE
from accord.edges import escape_controls

PARTS = ("tokens", "charts")
"""Layers of the style sheet that a chart as a file needs."""
LABEL, TICK = 13, 12
"""Font sizes in pixels."""


def text_width(text: str, size: float) -> float:
    """Return the estimated width of a text in pixels; the estimate errs on the wide side."""
    wide = (
        1.05 if unicodedata.east_asian_width(char) in "WF" else 0.95 if char in "%@MWmw—" else 0.58
        for char in escape_controls(text)
    )
    return size * sum(wide)


def cut_text(text: str, width: float, size: float = TICK) -> str:
    """Return a text shortened to a width in pixels, with an ellipsis."""
    while len(text) > 1 and text_width(text, size) > width:
        text = text[: max(int(len(text) * 0.9) - 1, 0)].rstrip("…") + "…"
    return text


def wrap_text(text: str, width: float, size: float = TICK, count: int = 3) -> list[str]:
    """Return a text in at most `count` lines of a width in pixels; an ellipsis ends a line that is too long."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and len(lines) < count and text_width(longer, size) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return [cut_text(line, width, size) for line in lines]


def escape_text(text: str) -> str:
    """Return a text as markup on one line, with control characters made visible."""
    return _escaped(text) if len(text) <= _SHORT else _escaped.__wrapped__(text)


_SHORT = 40
"""Longest text that is kept: a page has thousands of charts, whose classes and labels are the same."""


@lru_cache(maxsize=4096)
def _escaped(text: str) -> str:
    return str(escape(escape_controls(text.replace("\n", " ").replace("\t", " "))))


@lru_cache(maxsize=256)
def _attribute(key: str) -> str:
    """Return the name of an attribute for a keyword argument."""
    return key if key == "viewBox" else key.rstrip("_").replace("_", "-")


def tag(name: str, content: str = "", **attributes: str | float) -> str:
    """Return an element; `content` is markup, attribute values are escaped."""
    pairs = "".join([
        f' {_attribute(key)}="{escape_text(value) if isinstance(value, str) else format(round(value, 1), "g")}"'
        for key, value in attributes.items()
    ])  # fmt: skip
    return f"<{name}{pairs}>{content}</{name}>" if content else f"<{name}{pairs}/>"


def svg_of(content: str, width: int, height: int, **attributes: str) -> Markup:
    """Return an SVG element around its content."""
    kind, box = "chart large" if width > 440 else "chart", f"0 0 {width} {height}"
    return Markup(tag("svg", content, class_=kind, viewBox=box, width=width, height=height, **attributes))


def svg_file(chart: Markup) -> str:
    """Return a chart as the content of an SVG file with its own styles, readable on light and dark pages."""
    head, _, content = str(chart).partition(">")
    layers = (f"@layer {name} {{{STYLE.partition(f'@layer {name} {{')[2].partition('@layer ')[0]}" for name in PARTS)
    style = f"<style>{''.join(layers)}</style>"
    return f'{head} xmlns="http://www.w3.org/2000/svg">{style}{content}\n'


def slanted_text(x: float, y: float, short: str, text: str) -> str:
    """Return a slanted label that ends at a point, with its full text as tooltip."""
    turn = f"rotate(-35 {x:.1f} {y:.1f})"
    return tag("text", tooltip(short, text), class_="tick", x=x, y=y, text_anchor="end", transform=turn)


def line_of(x1: float, x2: float, y1: float, y2: float, kind: str) -> str:
    """Return a straight line with a CSS class."""
    return tag("line", class_=kind, x1=x1, x2=x2, y1=y1, y2=y2)


def circle(x: float, y: float, radius: float) -> str:
    """Return a filled circle."""
    return tag("circle", class_="point", cx=x, cy=y, r=radius)


def text_of(x: float, y: float, content: str, kind: str = "", anchor: str = "") -> str:
    """Return a text with a CSS class, anchored at its start by default."""
    more = {"class_": kind, "text_anchor": anchor}
    return tag("text", escape_text(content), x=x, y=y, **{name: value for name, value in more.items() if value})


def tooltip(short: str, text: str) -> str:
    """Return a text, with its full form as tooltip if it was shortened."""
    return escape_text(short) + (tag("title", escape_text(text)) if short != text else "")


def draw_legend(names: Sequence[tuple[str, str]], width: float) -> tuple[list[str], float, int]:
    """Return squares with names in rows of at most `width`, the width that they need, and the number of rows."""
    parts, x, row, needed = [], 0.0, 0, 0.0
    for name, kind in names:
        wide = text_width(name, TICK) + 30
        if x and x + wide > width:
            x, row = 0.0, row + 1
        square = tag("rect", class_=f"bar {kind}", x=x, y=20 * row + 3, width=10, height=10)
        parts += [square, text_of(x + 15, 20 * row + 12, name, "tick")]
        x += wide
        needed = max(needed, x)
    return parts, needed, row + 1 if names else 0


# --- plot area --------------------------------------------------------------------------------------------------------


DESCRIBED = 24
"""Number of values in a chart's description."""


@dataclass(frozen=True)
class Axis:
    """An axis.

    Attributes:
        title: Name and unit.
        low, high: Ends; `None` fits the data, rounded outward to a tick, but not beyond `limits`.
        is_share: Ticks are percentages.
        labels: Labels by position, in place of numeric ticks.
    """

    title: str = ""
    low: float | None = None
    high: float | None = None
    is_share: bool = False
    labels: Mapping[float, str] = field(default_factory=dict)
    limits: tuple[float, float] = (-math.inf, math.inf)


@dataclass(frozen=True)
class Guide:
    """A straight line across a chart: vertical `at` a value of the x axis, or horizontal."""

    at: float
    label: str = ""
    is_level: bool = False
    is_solid: bool = False


class PlotArea:
    """Position of a plot, its axes, and the texts around it."""

    def __init__(
        self, left: float, width: int, height: int, across: Axis, upright: Axis, x_ends: tuple[float, float],
        y_ends: tuple[float, float],
    ) -> None:  # fmt: skip
        self.width, self.height, self.right, self.outside = width, float(height), 12.0, 0.0
        self.across, self.upright, self.x_ends, self.y_ends = across, upright, x_ends, y_ends
        self.legend: list[tuple[str, str]] = []
        self.top = 4.0
        self.y_labels = [] if left else _tick_labels(upright, *y_ends, max(height // 40, 2))
        self.left = left or max((text_width(label, TICK) for _, label in self.y_labels), default=0.0) + 10
        self.bottom = 22.0 + (18 if across.title else 0)

    def x(self, value: float) -> float:
        """Return the pixel of a value on the x axis."""
        return self.left + self.width * _share(value, *self.x_ends)

    def y(self, value: float) -> float:
        """Return the pixel of a value on the y axis."""
        return self.height * (1 - _share(value, *self.y_ends))

    def at(self, x: float, y: float) -> str:
        """Return the pixels of a point, as `x,y`."""
        return f"{self.x(x):.1f},{self.y(y):.1f}"

    def x_axis(self) -> str:
        """Return the line, the labels that do not collide, and the title."""
        parts, bottom, last = (
            [line_of(self.left, self.left + self.width, self.height, self.height, "axis")],
            self.height,
            -math.inf,
        )
        labels = _tick_labels(self.across, *self.x_ends, max(self.width // 60, 2))
        room = self.width / max(len(labels), 1) - 6
        is_crowded = any(text_width(label, TICK) > room for _, label in labels) and bool(self.across.labels)
        slants = is_crowded and not all(label[:1].isdigit() for _, label in labels)
        for value, label in labels:
            if slants and self.x(value) - last >= 14:
                short, last = cut_text(label, 120), self.x(value)
                parts.append(slanted_text(last, bottom + 14, short, label))
                self.bottom = max(self.bottom, 24 + 0.52 * text_width(short, TICK) + (18 if self.across.title else 0))
                self.outside = max(self.outside, 0.82 * text_width(short, TICK) - last)
            elif not slants and self.x(value) - text_width(label, TICK) / 2 > last + 6:
                parts.append(text_of(self.x(value), bottom + 16, label, "tick", "middle"))
                last = self.x(value) + text_width(label, TICK) / 2
                self.outside = max(self.outside, text_width(label, TICK) / 2 - self.x(value))
        if self.across.title:
            half = text_width(self.across.title, TICK) / 2
            middle = max(self.left + self.width / 2, half)
            parts.append(text_of(middle, bottom + self.bottom - 6, self.across.title, "axis-title", "middle"))
            self.right = max(self.right, middle + half - self.left - self.width + 4)
        self.right = max(self.right, last - self.left - self.width + 4)
        return "".join(parts)

    def y_axis(self) -> str:
        """Return grid lines and their labels; the title stands above the axis."""
        parts = []
        for value, label in self.y_labels:
            parts.append(line_of(self.left, self.left + self.width, self.y(value), self.y(value), "grid"))
            parts.append(text_of(self.left - 6, self.y(value) + 4, label, "tick", "end"))
        self.top = 10.0
        if self.upright.title:
            self.top = 24.0
            parts.append(text_of(0, -10, self.upright.title, "axis-title"))
        return "".join(parts)

    def label_lines(self, guides: Sequence[Guide]) -> list[int]:
        """Return the line of each guide's label, from 0, so that labels do not collide; -1 without a label."""
        lines: list[int] = []
        for place, guide in enumerate(guides):
            left, right = self._label_ends(guide)
            ends = [(lines[before], *self._label_ends(guides[before])) for before in range(place)]
            taken = {
                line for line, other_left, other_right in ends if other_left < right + 8 and left < other_right + 8
            }
            lines.append(next(line for line in range(len(guides)) if line not in taken) if guide.label else -1)
        return lines

    def _label_ends(self, guide: Guide) -> tuple[float, float]:
        """Return the ends of a guide's label, which stays inside the plot."""
        half = text_width(guide.label, TICK) / 2
        middle = min(max(self.x(guide.at), self.left + half), max(self.left + self.width - half, self.left + half))
        return middle - half, middle + half

    def guide(self, guide: Guide, top: float = 0.0) -> str:
        """Return a line across the plot with its label, which stays inside the plot, from `top` in pixels."""
        kind = "axis" if guide.is_solid else "guide"
        if guide.is_level:
            return line_of(self.left, self.left + self.width, self.y(guide.at), self.y(guide.at), kind)
        middle = sum(self._label_ends(guide)) / 2
        label = text_of(middle, top + 11, guide.label, "tick", "middle") if guide.label else ""
        at, start = self.x(guide.at), top + 14 if guide.label else 0
        return line_of(at, at, start, self.height, kind) + label

    def svg(self, title: str, descriptions: Sequence[str], parts: Sequence[str], has_links: bool = False) -> Markup:
        """Return the whole chart."""
        width, above = self.outside + self.left + self.width + self.right, self.top
        if self.upright.title:
            width = max(width, text_width(self.upright.title, TICK) + 4)
        names, needed, rows = draw_legend(self.legend, width)
        width, above = max(width, needed), above + 20 * rows
        height = above + self.height + self.bottom
        more = f"; and {len(descriptions) - DESCRIBED:,} more" if len(descriptions) > DESCRIBED else ""
        head = tag("title", escape_text(title)) + tag("desc", escape_text("; ".join(descriptions[:DESCRIBED]) + more))
        body = tag("g", "".join(parts), transform=f"translate({self.outside:.0f} {above:g})")
        return svg_of(
            head + "".join(names) + body, math.ceil(width), math.ceil(height), role="group" if has_links else "img"
        )


def ticks(low: float, high: float, count: int) -> list[float]:
    """Return at most about `count` round numbers from `low` to `high`."""
    rough = (high - low) / max(count, 1)
    if rough <= 0 or not math.isfinite(rough):
        return [low]
    exponent = math.floor(math.log10(rough))
    power = 10.0**exponent
    step = next(size * power for size in (1, 2, 2.5, 5, 10) if size * power >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(place * step, 3 - exponent) for place in range(first, last + 1)]


def domain_of(values: Sequence[float], axis: Axis) -> tuple[float, float]:
    """Return the ends of the axis: the given ends, else the ends of the data, rounded outward within the limits."""
    low = min(values, default=0.0) if axis.low is None else axis.low
    high = max(values, default=1.0) if axis.high is None else axis.high
    if high - low < 1e-12:
        low, high = (low - 0.5, high + 0.5) if axis.low is None else (low, low + 1.0)
    places = ticks(low, high, 5)
    step = places[1] - places[0] if len(places) > 1 else high - low
    first, last = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
    return (
        low if axis.low is not None else max(first, min(axis.limits[0], low)),
        high if axis.high is not None else min(last, max(axis.limits[1], high)),
    )


def _tick_labels(axis: Axis, low: float, high: float, count: int) -> list[tuple[float, str]]:
    if axis.labels:
        return list(axis.labels.items())
    return [(value, format_number(value, axis.is_share)) for value in ticks(low, high, count)]


def _share(value: float, low: float, high: float) -> float:
    return (min(max(value, low), high) - low) / (high - low)


def format_number(value: float, is_share: bool = False) -> str:
    """Return a number with up to four digits, or as a percentage."""
    return (f"{value:.0%}" if is_share else f"{value:.4g}").replace("-", "−")
