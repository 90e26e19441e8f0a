"""SVG charts for the report and the web pages: no script, no inline style, readable in light and dark.

Every chart has a title and a description with its numbers, for readers who do not see it. A mark's color is the class
of its kind (`people`, `model`, `neutral`, `flagged`, or a series `s0` to `s9`); `STYLE` holds the rules.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from markupsafe import Markup, escape

from accord.edges import on_page
from accord.values import Estimate

STYLE = """\
.chart { display: block; max-width: 100%; height: auto; font: 13px system-ui, sans-serif; }
.chart.large { min-width: 30rem; }
.chart text { fill: light-dark(#1a1d21, #e7eaee); }
.chart .tick, .chart .axis-title { fill: light-dark(#5b6470, #9aa4b2); font-size: 12px; }
.chart .axis, .chart .guide { stroke: light-dark(#838c98, #6b7583); }
.chart .grid { stroke: light-dark(#dfe3e8, #2a323d); }
.chart .guide, .chart .dashed { stroke-dasharray: 4 3; }
.chart .people, .chart .s1 { color: light-dark(#b45f06, #f0a24b); }
.chart .model, .chart .s0 { color: light-dark(#2457d6, #7aa2ff); }
.chart .neutral, .chart .s7 { color: light-dark(#6a727d, #9aa4b2); }
.chart .flagged { color: light-dark(#b3261e, #ff8a7a); }
.chart .s2 { color: light-dark(#1f7a4d, #5fc28d); }
.chart .s3 { color: light-dark(#a43d77, #e38bbd); }
.chart .s4 { color: light-dark(#6647b8, #b39cf2); }
.chart .s5 { color: light-dark(#7a6a00, #d2bd4a); }
.chart .s6 { color: light-dark(#0b7285, #54c4d6); }
.chart .s8 { color: light-dark(#9c3f33, #e6917f); }
.chart .s9 { color: light-dark(#4f5d2f, #a9bb7c); }
.chart .bar, .chart .point, .chart .band { fill: currentColor; }
.chart .line { stroke: currentColor; stroke-width: 2.2; fill: none; }
.chart .band { opacity: .2; }
.chart .overlay { opacity: .6; }
.chart .hit { fill: transparent; }
.chart .strip { stroke: light-dark(#2457d6, #7aa2ff); stroke-width: 4; }
.chart a text { fill: light-dark(#2457d6, #7aa2ff); text-decoration: underline; }
.chart a:hover .hit { fill: light-dark(#2457d6, #7aa2ff); fill-opacity: .12; }
.chart a:focus { outline: none; }
.chart a:focus-visible .hit, .chart a:focus-visible text { stroke: light-dark(#2457d6, #7aa2ff); stroke-width: 2; }
"""
LABEL, TICK, ROW, GAP = 13, 12, 26, 12
"""Font sizes, height of a row and space between columns, in pixels."""
LONGEST_LABEL = 300
"""Pixels of a row's label; a longer one is cut, and its full text is its tooltip."""
DESCRIBED = 24
"""Numbers that a chart's description holds."""


@dataclass(frozen=True)
class Row:
    """A row of an interval plot or a bar chart; the label links to `href` if there is one."""

    label: str
    estimate: Estimate
    kind: str = "model"
    href: str = ""


@dataclass(frozen=True)
class Axis:
    """An axis.

    Attributes:
        title: Name and unit.
        low, high: Ends; `None` fits the data.
        is_share: Ticks are percentages.
        labels: Labels by position, in place of numeric ticks.
    """

    title: str = ""
    low: float | None = None
    high: float | None = None
    is_share: bool = False
    labels: Mapping[float, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Line:
    """A line over (n,) `x` with an optional band from `low` to `high`.

    Attributes:
        ends: (n,) intervals of the points, drawn as upright lines.
        weights: (n,) from 0 to 1, drawn as the line's width.
        draws: `line`, `points` or both.
    """

    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    kind: str = "model"
    name: str = ""
    is_dashed: bool = False
    ends: Sequence[Estimate] = ()
    weights: Sequence[float] = ()
    draws: str = "line"


@dataclass(frozen=True)
class Guide:
    """A straight line across a chart, upright `at` a place of the x axis unless it is level."""

    at: float
    label: str = ""
    is_level: bool = False
    is_solid: bool = False


@dataclass(frozen=True)
class Link:
    """A part of the x axis that opens a page."""

    low: float
    high: float
    href: str
    label: str


# --- marks ----------------------------------------------------------------------------------------------------------


def interval_plot(rows: Sequence[Row], axis: Axis, title: str, reference: float | None = None) -> Markup:
    """Draw a dot with its interval and its number per row, over a dashed line at the `reference`."""
    numbers = [end for row in rows for end in _ends(row.estimate)]
    low, high = _domain([*numbers, *([] if reference is None else [reference])], axis)
    frame = _Frame(_label_width(row.label for row in rows), 300, ROW * len(rows), axis, Axis(), (low, high), (0, 1))
    parts = [frame.x_axis()]
    if reference is not None and low <= reference <= high:
        parts.append(frame.guide(Guide(reference)))
    for place, row in enumerate(rows):
        y = ROW * place + ROW // 2
        parts.append(_row_label(row, frame.left - GAP, y))
        parts.append(_text(frame.left + frame.width + GAP, y + 5, str(row.estimate)))
        if row.estimate.value is not None:
            first, last = (frame.x(end) for end in (_ends(row.estimate)[0], _ends(row.estimate)[-1]))
            dot = _circle(frame.x(row.estimate.value), y, 5) if row.kind != "model" else (
                _tag("rect", class_="bar", x=frame.x(row.estimate.value) - 4.5, y=y - 4.5, width=9, height=9)
            )  # fmt: skip
            parts.append(_tag("g", _line(first, last, y, y, "line") + dot, class_=row.kind))
    frame.right = GAP + 6 + max((_width(str(row.estimate), LABEL) for row in rows), default=0)
    return frame.svg(title, [f"{row.label}: {row.estimate}" for row in rows], parts, any(row.href for row in rows))


def bar_chart(rows: Sequence[Row], axis: Axis, title: str) -> Markup:
    """Draw a bar from zero and its number per row; bars below zero go to the left."""
    values = [row.estimate.value or 0.0 for row in rows]
    low, high = _domain([0.0, *values], axis)
    frame = _Frame(
        _label_width(row.label for row in rows), 300, (ROW - 4) * len(rows), axis, Axis(), (low, high), (0, 1)
    )
    parts = [frame.x_axis(), _line(frame.x(0), frame.x(0), 0, frame.height, "axis")]
    numbers = [f"{value:.0%}" if axis.is_share else f"{value:.3g}" for value in values]
    for place, (row, value, number) in enumerate(zip(rows, values, numbers, strict=True)):
        y, start, end = (ROW - 4) * place, *sorted((frame.x(0), frame.x(value)))
        parts.append(_row_label(row, frame.left - GAP, y + 11))
        parts.append(_tag("rect", class_=f"bar {row.kind}", x=start, y=y + 3, width=end - start, height=15))
        parts.append(_text(frame.left + frame.width + GAP, y + 15, number.replace("-", "−")))
    frame.right = GAP + 6 + max((_width(number, LABEL) for number in numbers), default=0)
    return frame.svg(title, [f"{row.label}: {number}" for row, number in zip(rows, numbers, strict=True)], parts)


def column_chart(
    categories: Sequence[str],
    series: Mapping[str, Sequence[float]],
    x: Axis,
    y: Axis,
    title: str,
    *,
    is_stacked: bool = False,
    has_legend: bool = True,
    size: tuple[int, int] = (300, 150),
) -> Markup:
    """Draw upright bars, one per category and series.

    Args:
        categories: (n,) labels along the x axis; every k-th is written where they would collide.
        series: (n,) heights by name.
        x: Only its title counts.
        y: The axis of the heights, from 0.
        title: Of the chart.
        is_stacked: Draw the series of a category on top of each other, not beside each other.
        has_legend: Name the series above the chart, if there are several.
        size: Width and height of the plot in pixels.
    """
    heights = [sum(column) if is_stacked else max(column, default=0) for column in zip(*series.values(), strict=True)]
    places = Axis(x.title, -0.5, len(categories) - 0.5, labels=dict(enumerate(categories)))
    frame = _Frame(0, *size, places, y, (-0.5, len(categories) - 0.5), _domain([0.0, *heights], y))
    parts, lower = [frame.y_axis(), frame.x_axis()], [0.0] * len(categories)
    wide = 0.8 if is_stacked else 0.8 / max(len(series), 1)
    for number, values in enumerate(series.values()):
        for place, value in enumerate(values):
            base, left = (lower[place], place - 0.4) if is_stacked else (0.0, place - 0.4 + number * wide)
            top, bottom = frame.y(base + value), frame.y(base)
            parts.append(_tag("rect", class_=f"bar s{number % 10}", x=frame.x(left), y=top,
                              width=frame.x(left + wide) - frame.x(left), height=bottom - top))  # fmt: skip
            lower[place] += value
    if has_legend and len(series) > 1:
        frame.legend = [(name, f"s{number % 10}") for number, name in enumerate(series)]
    told = [
        f"{f'{name}, ' if len(series) > 1 else ''}{category}: {_number(value, y.is_share)}"
        for name, values in series.items()
        for category, value in zip(categories, values, strict=True)
    ]
    return frame.svg(title, told, parts)


def line_chart(
    lines: Sequence[Line],
    x: Axis,
    y: Axis,
    title: str,
    *,
    guides: Sequence[Guide] = (),
    links: Sequence[Link] = (),
    size: tuple[int, int] = (330, 170),
) -> Markup:
    """Draw lines with bands, points, or both: curves, densities, calibration, values over time.

    Args:
        lines: Lines; several with names get a legend.
        x: The axis of `Line.x`.
        y: The axis of `Line.y`.
        title: Of the chart.
        guides: Straight lines across the plot.
        links: Parts of the x axis that open a page.
        size: Width and height of the plot in pixels.
    """
    across = [value for line in lines for value in line.x]
    upright = [value for line in lines for value in (*line.y, *line.low, *line.high, *_all_ends(line.ends))]
    frame = _Frame(0, *size, x, y, _domain(across, x), _domain(upright, y))
    parts = [frame.y_axis(), frame.x_axis()]
    for line in lines:
        if len(line.low):
            there = [frame.at(*point) for point in zip(line.x, line.high, strict=True)]
            back = [frame.at(*point) for point in zip(line.x, line.low, strict=True)][::-1]
            parts.append(_tag("polygon", class_=f"band {line.kind}", points=" ".join(there + back)))
    parts += [frame.guide(guide) for guide in guides]
    parts += [_drawn(line, frame) for line in lines]
    for link in links:
        left, right = frame.x(link.low), frame.x(link.high)
        strip = _line(left + 1, max(right - 1, left + 1), frame.height + 2.5, frame.height + 2.5, "strip")
        box = strip + _tag("rect", class_="hit", x=left, y=0, width=max(right - left, 1), height=frame.height)
        parts.append(_tag("a", _tag("title", _safe(link.label)) + box, href=link.href, aria_label=link.label))
    named = {line.name: line.kind for line in lines if line.name}
    frame.legend = list(named.items()) if len(named) > 1 else []
    return frame.svg(title, _described(lines, x), parts, bool(links))


def histogram(
    groups: Mapping[str, Sequence[float]], x: Axis, y: Axis, title: str, guides: Sequence[Guide] = (), bins: int = 30
) -> Markup:
    """Draw how many values of each group lie in each of some bins of equal width."""
    values = [value for group in groups.values() for value in group]
    low, high = _domain(values, x)
    steps = _ticks(low, high, bins)
    step = steps[1] - steps[0] if len(steps) > 1 else (high - low) or 1.0
    first = math.floor(low / step)
    counts = {name: _counted(group, first, step, math.ceil(high / step) - first + 1) for name, group in groups.items()}
    most = max((count for column in counts.values() for count in column), default=1)
    frame = _Frame(0, 330, 190, x, y, (low, high), (0, float(max(most, 1))))
    parts = [frame.y_axis(), frame.x_axis()]
    for number, column in enumerate(counts.values()):
        for place, count in enumerate(column):
            left, right = (min(max((first + place + at) * step, low), high) for at in (0, 1))
            if count and right > left:
                top = frame.y(count)
                parts.append(_tag("rect", class_=f"bar overlay s{number % 10}", x=frame.x(left), y=top,
                                  width=frame.x(right) - frame.x(left), height=frame.height - top))  # fmt: skip
    parts += [frame.guide(guide) for guide in guides]
    told = [
        f"{name}: {len(group)} values from {_number(min(group))} to {_number(max(group))}"
        for name, group in groups.items()
        if group
    ]
    return frame.svg(title, told, parts)


def share_bars(shares: Mapping[str, float], title: str, kind: str = "model") -> Markup:
    """Draw a small bar per option of an answer distribution; options with short names are written below."""
    total, bar, tall = sum(shares.values()) or 1.0, 20.0, 26
    wide = bar if len(shares) <= 12 else 12 * bar / len(shares)
    names = [name if len(name) <= 3 and wide == bar else "" for name in shares]
    width, height = round(max(wide * len(names), bar)), tall + (14 if any(names) else 2)
    parts = [_line(0, width, tall, tall, "axis")]
    for place, share in enumerate(shares.values()):
        top = tall * max(1 - share / total, 0)
        parts.append(
            _tag("rect", class_=f"bar {kind}", x=wide * (place + 0.15), y=top, width=wide * 0.7, height=tall - top)
        )
    parts += [
        _text(bar * (place + 0.5), height - 2, name, "tick", "middle") for place, name in enumerate(names) if name
    ]
    told = ", ".join(f"{name}: {share / total:.0%}" for name, share in shares.items())
    return _svg("".join(parts), width, height, role="img", aria_label=f"{title}: {told}")


def legend(names: Sequence[str]) -> Markup:
    """Draw the names of the series `s0`, `s1` and so on, for charts that share a legend."""
    parts, width, _ = _legend([(name, f"s{number % 10}") for number, name in enumerate(names)], 1200)
    return _svg("".join(parts), math.ceil(width), 20, role="img", aria_label="Colors: " + ", ".join(names))


# --- the frame of a plot ----------------------------------------------------------------------------------------------


class _Frame:
    """A plot's place, its axes, and the texts around it."""

    def __init__(
        self, left: float, width: int, height: int, across: Axis, upright: Axis, x_ends: tuple[float, float],
        y_ends: tuple[float, float],
    ) -> None:  # fmt: skip
        self.width, self.height, self.right, self.outside = width, height, 12.0, 0.0
        self.across, self.upright, self.x_ends, self.y_ends = across, upright, x_ends, y_ends
        self.legend: list[tuple[str, str]] = []
        self.top = 4.0
        self.y_labels = [] if left else _tick_labels(upright, *y_ends, max(height // 40, 2))
        self.left = left or max((_width(label, TICK) for _, label in self.y_labels), default=0.0) + 10
        self.bottom = 22.0 + (18 if across.title else 0)

    def x(self, value: float) -> float:
        return self.left + self.width * _share(value, *self.x_ends)

    def y(self, value: float) -> float:
        return self.height * (1 - _share(value, *self.y_ends))

    def at(self, x: float, y: float) -> str:
        return f"{self.x(x):.1f},{self.y(y):.1f}"

    def x_axis(self) -> str:
        """Return the line, the labels that do not collide, and the title."""
        parts, bottom, last = (
            [_line(self.left, self.left + self.width, self.height, self.height, "axis")],
            self.height,
            -math.inf,
        )
        labels = _tick_labels(self.across, *self.x_ends, max(self.width // 60, 2))
        room = self.width / max(len(labels), 1) - 6
        is_crowded = any(_width(label, TICK) > room for _, label in labels) and bool(self.across.labels)
        slants = is_crowded and not all(label[:1].isdigit() for _, label in labels)
        for value, label in labels:
            if slants and self.x(value) - last >= 14:
                short, last = _cut(label, 120), self.x(value)
                turn = f"rotate(-35 {last:.1f} {bottom + 14})"
                place = {"x": last, "y": bottom + 14, "text_anchor": "end", "transform": turn}
                parts.append(_tag("text", _tooltip(short, label), class_="tick", **place))
                self.bottom = max(self.bottom, 24 + 0.52 * _width(short, TICK) + (18 if self.across.title else 0))
                self.outside = max(self.outside, 0.82 * _width(short, TICK) - last)
            elif not slants and self.x(value) - _width(label, TICK) / 2 > last + 6:
                parts.append(_text(self.x(value), bottom + 16, label, "tick", "middle"))
                last = self.x(value) + _width(label, TICK) / 2
                self.outside = max(self.outside, _width(label, TICK) / 2 - self.x(value))
        if self.across.title:
            middle = self.left + self.width / 2
            parts.append(_text(middle, bottom + self.bottom - 6, self.across.title, "axis-title", "middle"))
            half = _width(self.across.title, TICK) / 2
            self.right = max(self.right, half - self.width / 2 + 4)
        self.right = max(self.right, last - self.left - self.width + 4)
        return "".join(parts)

    def y_axis(self) -> str:
        """Return grid lines and their labels; the title stands above the axis."""
        parts = []
        for value, label in self.y_labels:
            parts.append(_line(self.left, self.left + self.width, self.y(value), self.y(value), "grid"))
            parts.append(_text(self.left - 6, self.y(value) + 4, label, "tick", "end"))
        self.top = 10.0
        if self.upright.title:
            self.top = 24.0
            parts.append(_text(0, -10, self.upright.title, "axis-title"))
        return "".join(parts)

    def guide(self, guide: Guide) -> str:
        """Return a line across the plot with its label, which stays inside the plot."""
        kind = "axis" if guide.is_solid else "guide"
        if guide.is_level:
            return _line(self.left, self.left + self.width, self.y(guide.at), self.y(guide.at), kind)
        at, half = self.x(guide.at), _width(guide.label, TICK) / 2
        middle = min(max(at, self.left + half), self.left + self.width - half)
        label = _text(middle, 11, guide.label, "tick", "middle") if guide.label else ""
        return _line(at, at, 14 if guide.label else 0, self.height, kind) + label

    def svg(self, title: str, told: Sequence[str], parts: Sequence[str], has_links: bool = False) -> Markup:
        """Return the whole chart."""
        width, above = self.outside + self.left + self.width + self.right, self.top
        if self.upright.title:
            width = max(width, _width(self.upright.title, TICK) + 4)
        names, needed, rows = _legend(self.legend, width)
        width, above = max(width, needed), above + 20 * rows
        height = above + self.height + self.bottom
        more = f"; and {len(told) - DESCRIBED:,} more" if len(told) > DESCRIBED else ""
        head = _tag("title", _safe(title)) + _tag("desc", _safe("; ".join(told[:DESCRIBED]) + more))
        body = _tag("g", "".join(parts), transform=f"translate({self.outside:.0f} {above:g})")
        return _svg(
            head + "".join(names) + body, math.ceil(width), math.ceil(height), role="group" if has_links else "img"
        )


def _drawn(line: Line, frame: _Frame) -> str:
    parts, kind = [], f"line {line.kind}{' dashed' if line.is_dashed else ''}"
    points = [(frame.x(x), frame.y(y)) for x, y in zip(line.x, line.y, strict=True)]
    if line.weights:
        for (one, other), weight in zip(pairwise(points), line.weights[1:], strict=True):
            parts.append(
                _tag(
                    "line", class_=kind, x1=one[0], y1=one[1], x2=other[0], y2=other[1], stroke_width=0.5 + 4.5 * weight
                )
            )
    elif "line" in line.draws:
        parts.append(_tag("polyline", class_=kind, points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points)))
    for (x, _), ends in zip(points, line.ends, strict=False):
        if ends.low is not None and ends.high is not None:
            parts.append(
                _tag("line", class_=f"line {line.kind}", x1=x, x2=x, y1=frame.y(ends.low), y2=frame.y(ends.high))
            )
    if "points" in line.draws:
        parts.append(_tag("g", "".join(_circle(x, y, 3.5) for x, y in points), class_=line.kind))
    return "".join(parts)


def _described(lines: Sequence[Line], x: Axis) -> list[str]:
    """Return each line's points, or its ends where it has many."""
    told = []
    for line in lines:
        points = list(zip(line.x, line.y, strict=True))
        few = points if len(points) <= 12 else [points[0], points[len(points) // 2], points[-1]]
        texts = [f"{x.labels.get(at, _number(at))}: {_number(value)}" for at, value in few]
        told.append((f"{line.name}: " if line.name else "") + ", ".join(texts))
    return told


# --- numbers and texts ------------------------------------------------------------------------------------------------


def _ends(estimate: Estimate) -> list[float]:
    """Return the low end, the value and the high end, as far as they are known."""
    return [end for end in (estimate.low, estimate.value, estimate.high) if end is not None]


def _all_ends(estimates: Iterable[Estimate]) -> list[float]:
    return [end for estimate in estimates for end in _ends(estimate)]


def _domain(values: Sequence[float], axis: Axis) -> tuple[float, float]:
    """Return the axis's ends: as given, else those of the data, rounded outwards to a tick."""
    low = min(values, default=0.0) if axis.low is None else axis.low
    high = max(values, default=1.0) if axis.high is None else axis.high
    if high <= low:
        low, high = (low - 0.5, high + 0.5) if axis.low is None else (low, low + 1.0)
    ticks = _ticks(low, high, 5)
    step = ticks[1] - ticks[0] if len(ticks) > 1 else high - low
    low = low if axis.low is not None else math.floor(low / step + 1e-9) * step
    return low, high if axis.high is not None else math.ceil(high / step - 1e-9) * step


def _ticks(low: float, high: float, count: int) -> list[float]:
    """Return at most about `count` round numbers from `low` to `high`."""
    rough = (high - low) / max(count, 1)
    if rough <= 0 or not math.isfinite(rough):
        return [low]
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(size * power for size in (1, 2, 2.5, 5, 10) if size * power >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(place * step, 12) for place in range(first, last + 1)]


def _tick_labels(axis: Axis, low: float, high: float, count: int) -> list[tuple[float, str]]:
    if axis.labels:
        return list(axis.labels.items())
    return [(value, _number(value, axis.is_share)) for value in _ticks(low, high, count)]


def _share(value: float, low: float, high: float) -> float:
    return (min(max(value, low), high) - low) / (high - low)


def _counted(values: Sequence[float], first: int, step: float, bins: int) -> list[int]:
    counts = [0] * bins
    for value in values:
        counts[min(max(math.floor(value / step + 1e-9) - first, 0), bins - 1)] += 1
    return counts


def _number(value: float, is_share: bool = False) -> str:
    return (f"{value:.0%}" if is_share else f"{value:.4g}").replace("-", "−")


def _width(text: str, size: float) -> float:
    """Return the estimated width of a text in pixels, rather too wide than too narrow."""
    wide = (
        1.05 if unicodedata.east_asian_width(char) in "WF" else 0.95 if char in "%@MWmw—" else 0.58
        for char in on_page(text)
    )
    return size * sum(wide)


def _label_width(labels: Iterable[str]) -> float:
    return min(max((_width(label, LABEL) for label in labels), default=0.0), LONGEST_LABEL) + GAP + 4


def _cut(text: str, width: float, size: float = TICK) -> str:
    while len(text) > 1 and _width(text, size) > width:
        text = text[: max(int(len(text) * 0.9) - 1, 0)].rstrip("…") + "…"
    return text


def _row_label(row: Row, x: float, y: float) -> str:
    content = _tooltip(_cut(row.label, LONGEST_LABEL, LABEL), row.label)
    label = _tag("text", content, x=x, y=y + 5, text_anchor="end")
    return _tag("a", label, href=row.href) if row.href else label


def _tooltip(short: str, text: str) -> str:
    return _safe(short) + (_tag("title", _safe(text)) if short != text else "")


def _legend(names: Sequence[tuple[str, str]], width: float) -> tuple[list[str], float, int]:
    """Return squares with names in rows of at most `width`, the width that they need, and the number of rows."""
    parts, x, row, needed = [], 0.0, 0, 0.0
    for name, kind in names:
        wide = _width(name, TICK) + 30
        if x and x + wide > width:
            x, row = 0.0, row + 1
        square = _tag("rect", class_=f"bar {kind}", x=x, y=20 * row + 3, width=10, height=10)
        parts += [square, _text(x + 15, 20 * row + 12, name, "tick")]
        x += wide
        needed = max(needed, x)
    return parts, needed, row + 1 if names else 0


# --- SVG elements -----------------------------------------------------------------------------------------------------


def _safe(text: str) -> str:
    return str(escape(on_page(text)))


def _tag(name: str, content: str = "", **attributes: str | float) -> str:
    """Return an element; `content` is markup, attribute values are escaped."""
    pairs = "".join(
        f' {key if key == "viewBox" else key.rstrip("_").replace("_", "-")}="'
        f'{_safe(value) if isinstance(value, str) else format(round(value, 1), "g")}"'
        for key, value in attributes.items()
    )
    return f"<{name}{pairs}>{content}</{name}>" if content else f"<{name}{pairs}/>"


def _svg(content: str, width: int, height: int, **attributes: str) -> Markup:
    kind = "chart large" if width > 440 else "chart"
    size = {"viewBox": f"0 0 {width} {height}", "width": width, "height": height}
    return Markup(_tag("svg", content, class_=kind, **size, **attributes))


def _line(x1: float, x2: float, y1: float, y2: float, kind: str) -> str:
    return _tag("line", class_=kind, x1=x1, x2=x2, y1=y1, y2=y2)


def _circle(x: float, y: float, radius: float) -> str:
    return _tag("circle", class_="point", cx=x, cy=y, r=radius)


def _text(x: float, y: float, content: str, kind: str = "", anchor: str = "") -> str:
    more = {"class_": kind, "text_anchor": anchor}
    return _tag("text", _safe(content), x=x, y=y, **{name: value for name, value in more.items() if value})
