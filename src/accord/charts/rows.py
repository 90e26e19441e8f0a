"""The row chart: estimates on a common axis in a table, drawn by the server as SVG.

Positions are percentages and text is HTML, so a chart of any width has letters of the same size and needs no script.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from accord.charts.plot_area import Axis, domain_of, escape_text, format_number, tag, ticks
from accord.values import Estimate

MOST_DOTS = 150
"""Largest number of dots of a row; more are drawn as columns of a histogram."""
STACKED = 3
"""Largest number of values in a bin that are drawn as dots above each other."""
HEIGHT, DOTS = 32, 26
"""Height of a row of marks, and of the dots above them, in pixels."""
_COLUMNS = 40
LONG = 18
"""Length of a label in characters from which the labels get a wider column."""


@dataclass(frozen=True)
class ChartRow:
    """A row of the chart.

    Attributes:
        label: Name; links to `href` if there is one.
        estimate: Value with its interval.
        kind: Color: `tool` for the evaluator, `people`, or `neutral`. `model` is the earlier name of `tool`.
        href: Page that the label opens.
        words: Text in a column after the numbers.
        count: Number next to the label, such as the conversations of a version.
        dots: Single values, drawn above the interval.
        bins: Numbers of values from a low to a high end, in place of `dots` for many values.
        more: Further estimates of the row with their kinds, drawn below the first; each has its own number.
    """

    label: str
    estimate: Estimate
    kind: str = "tool"
    href: str = ""
    words: str = ""
    count: int | None = None
    dots: Sequence[float] = ()
    bins: Sequence[tuple[float, float, int]] = ()
    more: Sequence[tuple[Estimate, str]] = ()


def row_chart(
    rows: Sequence[ChartRow],
    axis: Axis,
    title: str,
    *,
    zone: tuple[float | None, float | None] | None = None,
    zone_label: str = "",
    is_signed: bool = False,
    is_bars: bool = False,
    heads: Sequence[str] = (),
) -> Markup:
    """Draw a table with a row per estimate: name, mark with its 95% interval on a common axis, number, ends.

    The chart and the table are one, so each number stands once.

    Args:
        rows: Rows from top to bottom.
        axis: The axis of the numbers; without ends it fits the intervals.
        title: Caption, for screen readers.
        zone: Low and high end of a colored part of the axis, such as the allowed errors; `None` for an open end.
        zone_label: Meaning of the zone, for screen readers.
        is_signed: Write the sign of each number and a line at 0: differences and effects.
        is_bars: Draw a bar from 0 in place of a dot with its interval.
        heads: Heads of the columns of numbers; empty for none.

    >>> chart = row_chart([ChartRow("v2 − v1", Estimate(0.66, 0.14, 1.19))], Axis(), "Difference", is_signed=True)
    >>> "+0.66" in chart and "0.14 to 1.19" in chart
    True
    """
    numbers = [end for row in rows for each in (row.estimate, *(more for more, _ in row.more)) for end in _ends(each)]
    numbers += [value for row in rows for value in (*row.dots, *(end for each in row.bins for end in each[:2]))]
    numbers += [end for end in zone or () if end is not None]
    low, high = domain_of([*numbers, *([0.0] if is_signed or is_bars else [])], axis)
    places = ticks(low, high, 4)
    has_ends = any(row.estimate.low is not None and not row.more for row in rows) and not is_bars
    has_signs = is_signed or (is_bars and axis.low != 0)  # an axis from 0 holds counts and shares
    numbered = max((1 + len(row.more) for row in rows), default=1)
    has_words = any(row.words for row in rows)

    def at(value: float) -> str:
        return f"{100 * min(max((value - low) / (high - low), 0.0), 1.0):.1f}%"

    def mark(estimate: Estimate, kind: str, y: float) -> str:
        if estimate.value is None:
            return ""
        kind = "tool" if kind == "model" else kind
        if is_bars:
            return f'<line class="bar {kind}" x1="{at(0.0)}" x2="{at(estimate.value)}" y1="{y:g}" y2="{y:g}"/>'
        ends = _ends(estimate)
        line = f'<line class="ci {kind}" x1="{at(ends[0])}" x2="{at(ends[-1])}" y1="{y:g}" y2="{y:g}"/>'
        return f'{line if len(ends) > 1 else ""}<circle class="pt {kind}" cx="{at(estimate.value)}" cy="{y:g}" r="5"/>'

    def plot(row: ChartRow) -> str:
        tall = DOTS if row.dots or row.bins else 0
        height = tall + HEIGHT + 10 * len(row.more)
        parts = ['<g class="grid-line">']
        parts += [f'<line x1="{at(place)}" x2="{at(place)}" y2="{height}"/>' for place in places]
        parts.append("</g>")
        if zone is not None:
            start, end = (at(low if zone[0] is None else zone[0]), at(high if zone[1] is None else zone[1]))
            wide = float(end[:-1]) - float(start[:-1])
            parts.insert(0, f'<rect class="zone" x="{start}" width="{wide:.1f}%" height="{height}"/>')
        if is_signed or is_bars:
            parts.append(f'<line class="zero" x1="{at(0.0)}" x2="{at(0.0)}" y2="{height}"/>')
        kind = "tool" if row.kind == "model" else row.kind
        bins = row.bins or (_bins_of(row.dots, low, high) if len(row.dots) > MOST_DOTS else ())
        most = max((count for *_, count in bins), default=1) or 1
        if most <= STACKED:  # few values: a dot for each
            parts += [
                f'<circle class="dot {kind}" cx="{at((left + right) / 2)}" cy="{22 - 8 * place}" r="4"/>'
                for left, right, count in bins
                for place in range(count)
            ]
        for left, right, count in bins if most > STACKED else ():
            if count:
                start, size = at(left), DOTS * count / most
                wide = max(float(at(right)[:-1]) - float(start[:-1]) - 0.3, 0.4)
                parts.append(
                    f'<rect class="dot {kind}" x="{start}" width="{wide:.1f}%" y="{DOTS - size:.1f}" '
                    f'height="{size:.1f}"/>'
                )
        if not bins:
            parts += [
                f'<circle class="dot {kind}" cx="{at(value)}" cy="{6 + (place * 7) % 18}" r="4.5"/>'
                for place, value in enumerate(sorted(row.dots))
            ]
        parts.append(mark(row.estimate, row.kind, tall + 16))
        parts += [mark(each, kind, tall + 26 + 10 * place) for place, (each, kind) in enumerate(row.more)]
        return (
            f'<td class="plot"><svg class="plot-svg" height="{height}" aria-hidden="true">{"".join(parts)}</svg></td>'
        )

    body = []
    for row in rows:
        name = f'<a class="link" href="{escape_text(row.href)}">{escape_text(row.label)}</a>' if row.href else (
            escape_text(row.label)
        )  # fmt: skip
        count = "" if row.count is None else f' <small class="soft">{row.count:,}</small>'
        cells = [f'<th scope="row" dir="auto" title="{escape_text(row.label)}">{name}{count}</th>', plot(row)]
        shown = [row.estimate, *(each for each, _ in row.more)]
        cells += [f'<td class="num"><b>{_number(each, has_signs, axis.is_share)}</b></td>' for each in shown]
        cells += ["<td></td>"] * (numbered - len(shown))
        cells += [f'<td class="num soft wide">{_interval(row.estimate)}</td>'] if has_ends else []
        cells += [f'<td class="soft">{escape_text(row.words)}</td>'] if has_words else []
        body.append(f"<tr>{''.join(cells)}</tr>")
    is_long = max((len(row.label) for row in rows), default=0) > LONG
    columns = f'<col class="col-label{" long" if is_long else ""}"/><col/>' + '<col class="col-num"/>' * numbered
    columns += ('<col class="col-ci wide"/>' if has_ends else "") + ("<col/>" if has_words else "")
    hidden = ' class="wide"' if numbered > 1 else ""
    marks = "".join(
        f'<text{hidden if count % 2 else ""} x="{at(place)}" y="14" text-anchor="middle">'
        f"{format_number(place, axis.is_share)}</text>"
        for count, place in enumerate(places)  # next to two columns, a phone has room for every second number
    )
    line = f'<line class="axis-line" x1="{at(low)}" x2="{at(high)}" y1="1" y2="1"/>'
    scale = f'<svg class="plot-svg" height="18" aria-hidden="true">{line}{marks}</svg>'
    foot = f'<tr class="axis" aria-hidden="true"><td></td><td class="plot">{scale}</td>{"<td></td>" * numbered}'
    foot += ('<td class="wide"></td>' if has_ends else "") + ("<td></td>" if has_words else "") + "</tr>"
    caption = escape_text("; ".join(filter(None, (title, axis.title, zone_label))))
    names = [*heads, *[""] * (numbered + has_words - len(heads))]
    head = "".join(f'<th scope="col" class="num">{escape_text(name)}</th>' for name in names)
    ends_head = '<td class="wide"></td>' if has_ends else ""
    top = f"<thead><tr><td></td><td></td>{head}{ends_head}</tr></thead>" if heads else ""
    return Markup(
        f'<table class="tbl tight axes"><caption class="sr">{caption}</caption><colgroup>{columns}</colgroup>{top}'
        f"<tbody>{''.join(body)}{foot}</tbody></table>"
    )


def interval_svg(
    estimate: Estimate, axis: Axis, kind: str = "tool", *, zone: tuple[float | None, float | None] | None = None
) -> Markup:
    """Draw one estimate with its interval for a cell of a table whose rows share an axis; the table has the number.

    Args:
        estimate: Value with its interval.
        axis: The axis, with both ends.
        kind: Color of the marks.
        zone: Low and high end of a colored part of the axis; `None` for an open end.
    """
    at = _places_on(axis)
    assert axis.low is not None and axis.high is not None
    grid = "".join(f'<line x1="{at(place)}" x2="{at(place)}" y2="28"/>' for place in ticks(axis.low, axis.high, 4))
    parts = [f'<g class="grid-line">{grid}</g>']
    if zone is not None:
        start, end = (at(axis.low if zone[0] is None else zone[0]), at(axis.high if zone[1] is None else zone[1]))
        wide = float(end[:-1]) - float(start[:-1])
        parts.insert(0, f'<rect class="zone" x="{start}" width="{wide:.1f}%" height="28"/>')
    ends = _ends(estimate)
    if len(ends) > 1:
        parts.append(f'<line class="ci {kind}" x1="{at(ends[0])}" x2="{at(ends[-1])}" y1="14" y2="14"/>')
    if estimate.value is not None:
        parts.append(f'<circle class="pt {kind}" cx="{at(estimate.value)}" cy="14" r="5"/>')
    return Markup(f'<svg class="plot-svg" height="28" aria-hidden="true">{"".join(parts)}</svg>')


def axis_svg(axis: Axis) -> Markup:
    """Draw the numbers of the axis of `interval_svg`, for the last row of its table."""
    at = _places_on(axis)
    assert axis.low is not None and axis.high is not None
    marks = "".join(
        f'<text x="{at(place)}" y="14" text-anchor="middle">{format_number(place, axis.is_share)}</text>'
        for place in ticks(axis.low, axis.high, 4)
    )
    line = '<line class="axis-line" x1="0%" x2="100%" y1="1" y2="1"/>'
    return Markup(f'<svg class="plot-svg" height="18" aria-hidden="true">{line}{marks}</svg>')


def axis_around(estimates: Sequence[Estimate], is_share: bool = False) -> Axis:
    """Return an axis whose ends are round numbers around the intervals of estimates."""
    low, high = domain_of([end for each in estimates for end in _ends(each)], Axis())
    return Axis("", low, high, is_share)


def _places_on(axis: Axis) -> Callable[[float], str]:
    assert axis.low is not None and axis.high is not None
    low, span = axis.low, (axis.high - axis.low) or 1.0
    return lambda value: f"{100 * min(max((value - low) / span, 0.0), 1.0):.1f}%"


def key(kind: str, label: str) -> Markup:
    """Return an entry of a legend: a dot in the color of a kind, and its name."""
    return Markup(f'<span class="key {escape_text(kind)}">{escape_text(label)}</span>')


def _ends(estimate: Estimate) -> list[float]:
    """Return the low end, the value and the high end, without those that are missing."""
    return [end for end in (estimate.low, estimate.value, estimate.high) if end is not None]


def _number(estimate: Estimate, is_signed: bool, is_share: bool = False) -> str:
    value = estimate.value
    if value is None:
        return "–"
    sign = "+" if is_signed else ""
    if is_share:
        return tag("data", f"{value:{sign}.0%}".replace("-", "−"), value=f"{value:.6g}")
    is_whole = estimate.low is None and value == round(value) and not is_signed  # such as the rating of a person
    return tag("data", f"{value:{sign}.{0 if is_whole else 2}f}".replace("-", "−"), value=f"{value:.6g}")


def _interval(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return ""
    return f"{estimate.low:.2f} to {estimate.high:.2f}".replace("-", "−")


def _bins_of(values: Sequence[float], low: float, high: float) -> list[tuple[float, float, int]]:
    step = (high - low) / _COLUMNS
    counts = [0] * _COLUMNS
    for value in values:
        counts[min(max(int((value - low) / step), 0), _COLUMNS - 1)] += 1
    return [(low + place * step, low + (place + 1) * step, count) for place, count in enumerate(counts)]
