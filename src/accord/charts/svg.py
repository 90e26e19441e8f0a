"""SVG elements, text measurements and the style sheet of charts."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from markupsafe import Markup, escape

from accord.edges import escape_controls

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
.chart .line { stroke: currentColor; fill: none; }
.chart .line:not([stroke-width]) { stroke-width: 2.2; }
.chart .band { opacity: .2; }
.chart .overlay { opacity: .6; }
.chart .hit { fill: transparent; }
.chart .strip { stroke: light-dark(#2457d6, #7aa2ff); stroke-width: 4; }
.chart a text { fill: light-dark(#2457d6, #7aa2ff); text-decoration: underline; }
.chart a:hover .hit { fill: light-dark(#2457d6, #7aa2ff); fill-opacity: .12; }
.chart a:focus { outline: none; }
.chart a:focus-visible .hit, .chart a:focus-visible text { stroke: light-dark(#2457d6, #7aa2ff); stroke-width: 2; }
"""
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


def escape_text(text: str) -> str:
    """Return a text as markup on one line, with control characters made visible."""
    return str(escape(escape_controls(text.replace("\n", " ").replace("\t", " "))))


def tag(name: str, content: str = "", **attributes: str | float) -> str:
    """Return an element; `content` is markup, attribute values are escaped."""
    pairs = "".join(
        f' {key if key == "viewBox" else key.rstrip("_").replace("_", "-")}="'
        f'{escape_text(value) if isinstance(value, str) else format(round(value, 1), "g")}"'
        for key, value in attributes.items()
    )
    return f"<{name}{pairs}>{content}</{name}>" if content else f"<{name}{pairs}/>"


def svg_of(content: str, width: int, height: int, **attributes: str) -> Markup:
    """Return an SVG element around its content."""
    kind, box = "chart large" if width > 440 else "chart", f"0 0 {width} {height}"
    return Markup(tag("svg", content, class_=kind, viewBox=box, width=width, height=height, **attributes))


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
