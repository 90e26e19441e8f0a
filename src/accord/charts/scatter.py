"""The scatter: points and lines over two axes, drawn by the server as SVG with positions in percent."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from markupsafe import Markup

from accord.charts.marks import ChartLine, ChartLink, describe_lines, values_of
from accord.charts.plot_area import Axis, Guide, domain_of, escape_text, format_number, ticks

LEFT, RIGHT, BOTTOM, TOP = 9.0, 98.0, 40, 10
"""Sides of the plot in percent of the width, and space below and above it in pixels."""


def scatter(
    lines: Sequence[ChartLine],
    x: Axis,
    y: Axis,
    title: str,
    *,
    guides: Sequence[Guide] = (),
    links: Sequence[ChartLink] = (),
    has_diagonal: bool = False,
    height: int = 210,
) -> Markup:
    """Draw points, lines, or both, with bands: people against scores, curves, values over time.

    Args:
        lines: Points and lines, by `draws`. The name of a line is drawn at its last point; several sets of points have
            a legend.
        x: The axis of `ChartLine.x`; its title stands below.
        y: The axis of `ChartLine.y`; its title belongs to the head of the card, and is read by screen readers.
        title: Title, for screen readers.
        guides: Straight lines across the plot.
        links: Parts of the x axis that open a page.
        has_diagonal: Draw the line on which both axes are equal.
        height: Height in pixels.
    """
    across, upright = values_of(lines)
    across += [guide.at for guide in guides if not guide.is_level]
    upright += [guide.at for guide in guides if guide.is_level]
    (left, right), (low, high) = domain_of(across, x), domain_of(upright, y)
    bottom = height - BOTTOM

    def at(value: float) -> str:
        return f"{LEFT + (RIGHT - LEFT) * min(max((value - left) / (right - left), 0.0), 1.0):.2f}%"

    def up(value: float) -> str:
        return f"{bottom - (bottom - TOP) * min(max((value - low) / (high - low), 0.0), 1.0):.1f}"

    x_labels = list(x.labels.items()) or [(value, format_number(value, x.is_share)) for value in ticks(left, right, 5)]
    y_labels = list(y.labels.items()) or [(value, format_number(value, y.is_share)) for value in ticks(low, high, 4)]
    every = max(len(x_labels) // 8, 1)
    parts = ['<g class="grid-line">']
    parts += [f'<line x1="{LEFT}%" x2="{RIGHT}%" y1="{up(value)}" y2="{up(value)}"/>' for value, _ in y_labels]
    parts.append("</g>")
    parts += [
        f'<text x="{LEFT - 1}%" y="{float(up(value)) + 4:.1f}" text-anchor="end">{escape_text(label)}</text>'
        for value, label in y_labels
    ]
    parts += [
        f'<text x="{at(value)}" y="{bottom + 16}" text-anchor="middle">{escape_text(label)}</text>'
        for place, (value, label) in enumerate(x_labels)
        if place % every == 0
    ]
    if x.title:
        middle = f"{(LEFT + RIGHT) / 2:g}%"
        parts.append(f'<text x="{middle}" y="{height - 6}" text-anchor="middle">{escape_text(x.title)}</text>')
    if has_diagonal:
        start, end = max(left, low), min(right, high)
        parts.append(f'<line class="guide" x1="{at(start)}" x2="{at(end)}" y1="{up(start)}" y2="{up(end)}"/>')
    for guide in guides:
        kind = "axis-line" if guide.is_solid else "guide"
        if guide.is_level:
            parts.append(f'<line class="{kind}" x1="{LEFT}%" x2="{RIGHT}%" y1="{up(guide.at)}" y2="{up(guide.at)}"/>')
            where = f'x="{RIGHT}%" y="{float(up(guide.at)) - 4:.1f}" text-anchor="end"'
        else:
            parts.append(f'<line class="{kind}" x1="{at(guide.at)}" x2="{at(guide.at)}" y1="{TOP}" y2="{bottom}"/>')
            where = f'x="{at(guide.at)}" y="{TOP + 2}" text-anchor="middle"'
        parts += [f"<text {where}>{escape_text(guide.label)}</text>"] if guide.label else []
    for line in lines:
        kind = "tool" if line.kind in ("model", "") else line.kind
        points = list(zip(line.x, line.y, strict=True))
        if len(line.low):
            parts.append(_band(line, kind, (left, right), (low, high), bottom))
        if "line" in line.draws or line.draws == "both":
            dash = " dashed" if line.is_dashed else ""
            parts += [
                f'<line class="area {kind}{dash}" x1="{at(x1)}" x2="{at(x2)}" y1="{up(y1)}" y2="{up(y2)}"/>'
                for (x1, y1), (x2, y2) in pairwise(points)
            ]
        for (across_at, _), ends in zip(points, line.ends, strict=False):
            if ends.low is not None and ends.high is not None:
                sides = f'x1="{at(across_at)}" x2="{at(across_at)}" y1="{up(ends.low)}" y2="{up(ends.high)}"'
                parts.append(f'<line class="ci {kind}" {sides}/>')
        if "points" in line.draws or line.draws == "both":
            is_cloud = "line" not in line.draws and not line.ends and len(points) > 40
            mark = f'class="dot {kind}" r="4"' if is_cloud else f'class="pt {kind}" r="4"'
            parts += [f'<circle {mark} cx="{at(value)}" cy="{up(height_of)}"/>' for value, height_of in points]
        if line.name and points and (line.draws != "points" or len(points) == 1):
            value, top = points[-1]
            place, anchor = max(float(up(top)) - 8, TOP + 2), "end"
            if line.is_dashed and len(points) == 2:  # a reference: its name stands below its middle, away from the ends
                value, top = (points[0][0] + points[1][0]) / 2, (points[0][1] + points[1][1]) / 2
                place, anchor = float(up(top)) + 16, "start"
            where = f'x="{at(value)}" y="{place:.1f}" text-anchor="{anchor}"'
            parts.append(f'<text class="{kind}" {where}>{escape_text(line.name)}</text>')
    for link in links:
        left_at = at(link.low)
        wide = float(at(link.high)[:-1]) - float(left_at[:-1])
        box = f'<rect class="hit" x="{left_at}" y="{TOP}" width="{max(wide, 0.5):.2f}%" height="{bottom - TOP}"/>'
        label = escape_text(link.label)
        parts.append(f'<a href="{escape_text(link.href)}" aria-label="{label}"><title>{label}</title>{box}</a>')
    about = escape_text("; ".join(filter(None, (title, y.title, *describe_lines(lines, x)))))
    role = "group" if links else "img"
    return Markup(f'<svg class="plot-svg" height="{height}" role="{role}" aria-label="{about}">{"".join(parts)}</svg>')


def _band(line: ChartLine, kind: str, x: tuple[float, float], y: tuple[float, float], bottom: int) -> str:
    """Return the band of a line as a polygon that is stretched over the plot."""
    (left, right), (low, high) = x, y

    def point(across: float, upright: float) -> str:
        return f"{100 * (across - left) / (right - left):.2f},{100 * (1 - (upright - low) / (high - low)):.2f}"

    there = [point(*pair) for pair in zip(line.x, line.high, strict=True)]
    back = [point(*pair) for pair in zip(line.x, line.low, strict=True)][::-1]
    shape = f'<polygon class="band {kind}" points="{" ".join(there + back)}"/>'
    place = f'x="{LEFT}%" y="{TOP}" width="{RIGHT - LEFT}%" height="{bottom - TOP}"'
    return f'<svg {place} viewBox="0 0 100 100" preserveAspectRatio="none">{shape}</svg>'
