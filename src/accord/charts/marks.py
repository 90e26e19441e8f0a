"""Charts with positions in pixels, which are also saved as files: intervals, bars, columns, lines, histogram, shares.

Every chart has a title, and a description with its numbers for screen readers. The color of a mark is the class of
its kind: `people`, `model`, `neutral`, `flagged`, or a series from `s0` to `s9`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from markupsafe import Markup

from accord.charts.plot_area import (
    LABEL,
    Axis,
    Guide,
    PlotArea,
    circle,
    domain_of,
    draw_legend,
    escape_text,
    format_number,
    line_of,
    svg_of,
    tag,
    text_of,
    text_width,
    ticks,
    tooltip,
    wrap_text,
)
from accord.charts.rows import ChartRow
from accord.values import Estimate

ROW, LINE, GAP = 26, 18, 12
"""Height of a row, height of a line of text, and space between columns, in pixels."""
WIDTH, NARROWEST_PLOT = 430, 150
"""Width of a chart of rows, which fits a phone, and smallest width of a plot with labels at its side, in pixels."""
INSET = 8
"""Left edge of a plot whose labels stand above their rows."""


@dataclass(frozen=True)
class ChartLine:
    """A line over (n,) `x` with an optional band from `low` to `high`.

    Attributes:
        ends: (n,) intervals of the points, drawn as vertical lines.
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
class ChartLink:
    """A part of the x axis that opens a page."""

    low: float
    high: float
    href: str
    label: str


def interval_plot(
    rows: Sequence[ChartRow],
    axis: Axis,
    title: str,
    reference: float | None = None,
    guides: Sequence[Guide] = (),
) -> Markup:
    """Draw a dot with its interval and its number per row, with dashed lines at the `reference` and at `guides`.

    The labels of guides stand above the rows.
    """
    guides = [*guides, *([] if reference is None else [Guide(reference)])]
    numbers = [end for row in rows for end in _ends(row.estimate)]
    if axis.low is not None and min(numbers, default=axis.low) < axis.low:  # an axis holds its intervals
        axis = replace(axis, low=None)
    if axis.high is not None and max(numbers, default=axis.high) > axis.high:
        axis = replace(axis, high=None)
    low, high = domain_of([*numbers, *(guide.at for guide in guides)], axis)
    texts = [str(row.estimate) for row in rows]
    area = _row_area(rows, texts, axis, (low, high))
    lines = area.label_lines(guides)
    marks = _draw_rows(rows, texts, area, LINE * (max(lines, default=-1) + 1), _dot_and_interval)
    parts = [area.x_axis()]
    parts += [
        area.guide(guide, LINE * line) for guide, line in zip(guides, lines, strict=True) if low <= guide.at <= high
    ]
    descriptions = [f"{row.label}: {row.estimate}" for row in rows] + [guide.label for guide in guides if guide.label]
    return area.svg(title, descriptions, [*parts, *marks], any(row.href for row in rows))


def bar_chart(rows: Sequence[ChartRow], axis: Axis, title: str) -> Markup:
    """Draw a bar from zero and its number per row; bars below zero go to the left."""
    values = [row.estimate.value or 0.0 for row in rows]
    texts = [_bar_number(value, axis.is_share) for value in values]
    area = _row_area(rows, texts, axis, domain_of([0.0, *values], axis))
    marks = _draw_rows(rows, texts, area, 0, _bar)
    parts = [area.x_axis(), line_of(area.x(0), area.x(0), 0, area.height, "axis"), *marks]
    return area.svg(title, [f"{row.label}: {text}" for row, text in zip(rows, texts, strict=True)], parts)


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
    """Draw vertical bars, one per category and series.

    Args:
        categories: (n,) labels along the x axis; only every k-th is drawn if they would overlap.
        series: (n,) heights by name.
        x: The x axis; only its title is used.
        y: The axis of the heights, from 0.
        title: Of the chart.
        is_stacked: Draw the series of a category on top of each other instead of in a row.
        has_legend: Name the series above the chart, if there are several.
        size: Width and height of the plot in pixels.
    """
    heights = [sum(column) if is_stacked else max(column, default=0) for column in zip(*series.values(), strict=True)]
    places = Axis(x.title, -0.5, len(categories) - 0.5, labels=dict(enumerate(categories)))
    area = PlotArea(0, *size, places, y, (-0.5, len(categories) - 0.5), domain_of([0.0, *heights], y))
    parts, lower = [area.y_axis(), area.x_axis()], [0.0] * len(categories)
    wide = 0.8 if is_stacked else 0.8 / max(len(series), 1)
    for number, values in enumerate(series.values()):
        for place, value in enumerate(values):
            base, left = (lower[place], place - 0.4) if is_stacked else (0.0, place - 0.4 + number * wide)
            top, bottom = area.y(base + value), area.y(base)
            parts.append(tag("rect", class_=f"bar s{number % 10}", x=area.x(left), y=top,
                              width=area.x(left + wide) - area.x(left), height=bottom - top))  # fmt: skip
            lower[place] += value
    if has_legend and len(series) > 1:
        area.legend = [(name, f"s{number % 10}") for number, name in enumerate(series)]
    descriptions = [
        f"{f'{name}, ' if len(series) > 1 else ''}{category}: {format_number(value, y.is_share)}"
        for name, values in series.items()
        for category, value in zip(categories, values, strict=True)
    ]
    return area.svg(title, descriptions, parts)


def values_of(lines: Sequence[ChartLine]) -> tuple[list[float], list[float]]:
    """Return all values on the x axis, and all on the y axis with the ends of bands and intervals."""
    across = [value for line in lines for value in line.x]
    return across, [end for line in lines for end in (*line.y, *line.low, *line.high, *_all_ends(line.ends))]


def line_chart(
    lines: Sequence[ChartLine],
    x: Axis,
    y: Axis,
    title: str,
    *,
    guides: Sequence[Guide] = (),
    links: Sequence[ChartLink] = (),
    size: tuple[int, int] = (330, 170),
) -> Markup:
    """Draw lines with bands, points, or both: curves, densities, calibration, values over time.

    Args:
        lines: Lines; several with names get a legend.
        x: The axis of `ChartLine.x`.
        y: The axis of `ChartLine.y`.
        title: Of the chart.
        guides: Straight lines across the plot.
        links: Parts of the x axis that open a page.
        size: Width and height of the plot in pixels.
    """
    across, upright = values_of(lines)
    area = PlotArea(0, *size, x, y, domain_of(across, x), domain_of(upright, y))
    parts = [area.y_axis(), area.x_axis()]
    for line in lines:
        if len(line.low):
            there = [area.at(*point) for point in zip(line.x, line.high, strict=True)]
            back = [area.at(*point) for point in zip(line.x, line.low, strict=True)][::-1]
            parts.append(tag("polygon", class_=f"band {line.kind}", points=" ".join(there + back)))
    parts += [area.guide(guide) for guide in guides]
    parts += [_draw_line(line, area) for line in lines]
    for link in links:
        left, right = area.x(link.low), area.x(link.high)
        strip = line_of(left + 1, max(right - 1, left + 1), area.height + 2.5, area.height + 2.5, "strip")
        box = strip + tag("rect", class_="hit", x=left, y=0, width=max(right - left, 1), height=area.height)
        parts.append(tag("a", tag("title", escape_text(link.label)) + box, href=link.href, aria_label=link.label))
    named = {line.name: line.kind for line in lines if line.name}
    area.legend = list(named.items()) if len(named) > 1 else []
    return area.svg(title, describe_lines(lines, x), parts, bool(links))


def histogram(
    groups: Mapping[str, Sequence[float]], x: Axis, y: Axis, title: str, guides: Sequence[Guide] = (), bins: int = 30
) -> Markup:
    """Draw a histogram: the number of values of each group in bins of equal width."""
    values = [value for group in groups.values() for value in group]
    low, high = domain_of(values, x)
    steps = ticks(low, high, bins)
    step = steps[1] - steps[0] if len(steps) > 1 else (high - low) or 1.0
    first = math.floor(low / step)
    counts = {
        name: _bin_counts(group, first, step, math.ceil(high / step) - first + 1) for name, group in groups.items()
    }
    most = max((count for column in counts.values() for count in column), default=1)
    area = PlotArea(0, 330, 190, x, y, (low, high), (0, float(max(most, 1))))
    parts = [area.y_axis(), area.x_axis()]
    for number, column in enumerate(counts.values()):
        for place, count in enumerate(column):
            left, right = (min(max((first + place + at) * step, low), high) for at in (0, 1))
            if count and right > left:
                top = area.y(count)
                parts.append(tag("rect", class_=f"bar overlay s{number % 10}", x=area.x(left), y=top,
                                  width=area.x(right) - area.x(left), height=area.height - top))  # fmt: skip
    parts += [area.guide(guide) for guide in guides]
    descriptions = [
        f"{name}: {len(group)} values from {format_number(min(group))} to {format_number(max(group))}"
        for name, group in groups.items()
        if group
    ]
    return area.svg(title, descriptions, parts)


def share_bars(shares: Mapping[str, float], title: str, kind: str = "model") -> Markup:
    """Draw a small bar per option of an answer distribution; options with short names are written below."""
    total, bar, tall = sum(shares.values()) or 1.0, 20.0, 26
    wide = bar if len(shares) <= 12 else 12 * bar / len(shares)
    names = [name if len(name) <= 3 and wide == bar else "" for name in shares]
    width, height = round(max(wide * len(names), bar)), tall + (14 if any(names) else 2)
    parts, css = [line_of(0, width, tall, tall, "axis")], escape_text(kind)
    for place, share in enumerate(shares.values()):  # a page may have thousands of these, so no `tag`
        top = tall * max(1 - share / total, 0)
        parts.append(
            f'<rect class="bar {css}" x="{wide * (place + 0.15):.4g}" y="{top:.3g}" width="{wide * 0.7:.3g}" '
            f'height="{tall - top:.3g}"/>'
        )
    for place, name in enumerate(names):
        if name:
            at = f'x="{bar * (place + 0.5):.4g}" y="{height - 2}"'
            parts.append(f'<text {at} class="tick" text-anchor="middle">{escape_text(name)}</text>')
    descriptions = ", ".join(f"{name}: {share / total:.0%}" for name, share in shares.items())
    return svg_of("".join(parts), width, height, role="img", aria_label=f"{title}: {descriptions}")


def legend(names: Sequence[str]) -> Markup:
    """Draw a legend of the series `s0`, `s1` and so on, shared by several charts."""
    parts, width, _ = draw_legend([(name, f"s{number % 10}") for number, name in enumerate(names)], 1200)
    return svg_of("".join(parts), math.ceil(width), 20, role="img", aria_label="Colors: " + ", ".join(names))


def _draw_line(line: ChartLine, area: PlotArea) -> str:
    parts, kind = [], f"line {line.kind}{' dashed' if line.is_dashed else ''}"
    points = [(area.x(x), area.y(y)) for x, y in zip(line.x, line.y, strict=True)]
    if line.weights:
        for ((x1, y1), (x2, y2)), weight in zip(pairwise(points), line.weights[1:], strict=True):
            parts.append(tag("line", class_=kind, x1=x1, y1=y1, x2=x2, y2=y2, stroke_width=0.5 + 4.5 * weight))
    elif "line" in line.draws:
        parts.append(tag("polyline", class_=kind, points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points)))
    for (x, _), ends in zip(points, line.ends, strict=False):
        if ends.low is not None and ends.high is not None:
            parts.append(tag("line", class_=f"line {line.kind}", x1=x, x2=x, y1=area.y(ends.low), y2=area.y(ends.high)))
    if "points" in line.draws:
        parts.append(tag("g", "".join(circle(x, y, 3.5) for x, y in points), class_=line.kind))
    return "".join(parts)


def describe_lines(lines: Sequence[ChartLine], x: Axis) -> list[str]:
    """Return the points of each line, or only its ends if it has many points."""
    descriptions = []
    for line in lines:
        points = list(zip(line.x, line.y, strict=True))
        few = points if len(points) <= 12 else [points[0], points[len(points) // 2], points[-1]]
        texts = [f"{x.labels.get(at, format_number(at))}: {format_number(value)}" for at, value in few]
        descriptions.append((f"{line.name}: " if line.name else "") + ", ".join(texts))
    return descriptions


def _ends(estimate: Estimate) -> list[float]:
    """Return the low end, the value and the high end, without those that are missing."""
    return [end for end in (estimate.low, estimate.value, estimate.high) if end is not None]


def _all_ends(estimates: Iterable[Estimate]) -> list[float]:
    return [end for estimate in estimates for end in _ends(estimate)]


def _bin_counts(values: Sequence[float], first: int, step: float, bins: int) -> list[int]:
    counts = [0] * bins
    for value in values:
        counts[min(max(math.floor(value / step + 1e-9) - first, 0), bins - 1)] += 1
    return counts


def _row_area(rows: Sequence[ChartRow], numbers: Sequence[str], axis: Axis, ends: tuple[float, float]) -> PlotArea:
    """Return the plot area of a chart of rows; labels are left of the rows if they are short, else above them."""
    right = GAP + 6 + max((text_width(number, LABEL) for number in numbers), default=0)
    beside = GAP + 4 + max((text_width(row.label, LABEL) for row in rows), default=0)
    left = beside if WIDTH - beside - right >= NARROWEST_PLOT else INSET
    area = PlotArea(left, round(WIDTH - left - right), 0, axis, Axis(), ends, (0, 1))
    area.right = right
    return area


def _draw_rows(
    rows: Sequence[ChartRow],
    numbers: Sequence[str],
    area: PlotArea,
    top: float,
    mark: Callable[[ChartRow, PlotArea, float], str],
) -> list[str]:
    """Return the label, the mark and the number of each row, and set the height of the area."""
    parts, is_above = [], area.left == INSET
    for row, number in zip(rows, numbers, strict=True):
        lines = wrap_text(row.label, area.left + area.width + area.right, LABEL) if is_above else [row.label]
        middle = top + (LINE * len(lines) + 10 if is_above else ROW / 2)
        x, y, anchor = (0.0, top + 13, "start") if is_above else (area.left - GAP, middle + 5, "end")
        full = row.label if " ".join(lines) != " ".join(row.label.split()) else ""
        label = "".join(
            tag("text", tooltip(line, full or line), class_="label", x=x, y=y + LINE * place, text_anchor=anchor)
            for place, line in enumerate(lines)
        )
        parts.append(tag("a", label, href=row.href) if row.href else label)
        parts.append(mark(row, area, middle))
        parts.append(text_of(area.left + area.width + GAP, middle + 5, number))
        top = middle + (LINE if is_above else ROW / 2)
    area.height = top
    return parts


def _dot_and_interval(row: ChartRow, area: PlotArea, y: float) -> str:
    if row.estimate.value is None:
        return ""
    ends, x = _ends(row.estimate), area.x(row.estimate.value)
    dot = circle(x, y, 5) if row.kind not in ("tool", "model") else (
        tag("rect", class_="bar", x=x - 4.5, y=y - 4.5, width=9, height=9)
    )  # fmt: skip
    return tag("g", line_of(area.x(ends[0]), area.x(ends[-1]), y, y, "line") + dot, class_=row.kind)


def _bar(row: ChartRow, area: PlotArea, y: float) -> str:
    start, end = sorted((area.x(0), area.x(row.estimate.value or 0.0)))
    return tag("rect", class_=f"bar {row.kind}", x=start, y=y - 7.5, width=end - start, height=15)


def _bar_number(value: float, is_share: bool) -> str:
    """Return the label of a bar: a percentage, a count with thousands separators, or three digits."""
    text = f"{value:.0%}" if is_share else f"{value:,.0f}" if value == int(value) else f"{value:.3g}"
    return text.replace("-", "−")
