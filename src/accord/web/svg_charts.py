"""Small charts as SVG: no script, no inline style, printable; what can be opened is a link, reachable by keyboard.

People have one colour and the model another, whatever is shown (`static/lead.css`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup, escape

from accord.edges import on_page
from accord.studies import CountedEstimate

LEFT, WIDE, RIGHT, ROW = 170, 300, 170, 30


@dataclass(frozen=True)
class Mark:
    """One row of a chart: a figure of people or of the model, and what its name leads to."""

    name: str
    figure: CountedEstimate
    kind: Literal["people", "model"] = "people"
    href: str = ""


def intervals(marks: Sequence[Mark], low: float, high: float, about: str, at: float | None = None) -> Markup:
    """A point and its interval per row, the number beside it.

    Args:
        marks: The rows.
        low: Where the axis begins.
        high: Where it ends; what lies outside is drawn at the end.
        about: What the chart shows, for those who do not see it.
        at: Where a line is drawn that says "none": 0, or 1.
    """
    height = ROW * len(marks) + 26
    parts = [_axis(low, high, at, height)]
    for place, mark in enumerate(marks):
        y = ROW * place + ROW // 2
        name = _text(LEFT - 12, y + 5, "name", _short(mark.name))
        parts.append(Markup('<a href="{}">{}</a>').format(mark.href, name) if mark.href else name)
        parts.append(_mark(mark, low, high, y))
    return _svg(LEFT + WIDE + RIGHT, height, "group", about, parts)


def _svg(width: int, height: int, role: str, about: str, parts: Sequence[Markup]) -> Markup:
    size = Markup('viewBox="0 0 {} {}" width="{}" height="{}"').format(width, height, width, height)
    head = Markup('<svg class="chart" {} role="{}" aria-label="{}">').format(size, role, on_page(about))
    return head + Markup("").join(parts) + Markup("</svg>")


def _line(x1: float, x2: float, y1: float, y2: float, kind: str) -> Markup:
    return Markup('<line class="{}" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(kind, x1, x2, y1, y2)


def _text(x: float, y: float, kind: str, said: str) -> Markup:
    return Markup('<text class="{}" x="{}" y="{}">{}</text>').format(kind, x, y, on_page(said))


def _axis(low: float, high: float, at: float | None, height: int) -> Markup:
    bottom = height - 22
    parts = [_line(LEFT, LEFT + WIDE, bottom, bottom, "axis")]
    if at is not None:
        parts.append(_line(_x(at, low, high), _x(at, low, high), 0, bottom, "none"))
    parts += [_text(_x(value, low, high), bottom + 16, "tick", f"{value:g}") for value in (low, (low + high) / 2, high)]
    return Markup("").join(parts)


def _mark(mark: Mark, low: float, high: float, y: int) -> Markup:
    figure = mark.figure
    said = _text(LEFT + WIDE + 12, y + 5, "number", str(figure))
    if figure.value is None:
        return said
    x = _x(figure.value, low, high)
    ends = [_x(figure.value if end is None else end, low, high) for end in (figure.low, figure.high)]
    shape = Markup('<circle cx="{}" cy="{}" r="5"/>').format(x, y) if mark.kind == "people" else (
        Markup('<rect x="{}" y="{}" width="9" height="9"/>').format(round(x - 4.5, 1), y - 4.5)
    )  # fmt: skip
    line = _line(ends[0], ends[1], y, y, "ends")
    return Markup('<g class="{}">{}{}</g>{}').format(mark.kind, line, shape, said)


def _x(value: float, low: float, high: float) -> float:
    share = (min(max(value, low), high) - low) / (high - low)
    return round(LEFT + WIDE * share, 1)


def _short(name: str) -> str:
    return name if len(name) <= 22 else name[:21] + "…"


def narrowing(left: Sequence[float], half: int | None, about: str) -> Markup:
    """How wide the evaluator's interval is after each of the next labels, in shares of its width now."""
    width, height, edge, bottom = 440, 150, 34, 116
    reach = max(len(left), 1)

    def at(labels: int, share: float) -> tuple[float, float]:
        return round(edge + (width - 2 * edge) * labels / reach, 1), round(bottom - (bottom - 10) * share, 1)

    points = [at(count, share**0.5) for count, share in enumerate([1.0, *left])]
    parts = [
        _line(edge, width - edge, bottom, bottom, "axis"),
        _line(edge, width - edge, at(0, 0.5)[1], at(0, 0.5)[1], "none"),
        Markup('<polyline class="model" points="{}"/>').format(" ".join(f"{x},{y}" for x, y in points)),
        _text(edge, bottom + 18, "tick", "0"), _text(width - edge - 30, bottom + 18, "tick", f"{reach} more labels"),
        _text(edge - 16, 14, "tick", "1"), _text(edge - 16, at(0, 0.5)[1] + 4, "tick", "½"),
    ]  # fmt: skip
    if half is not None:
        parts.append(Markup('<circle class="model" cx="{}" cy="{}" r="5"/>').format(*at(half, 0.5)))
    return _svg(width, height, "img", about, parts)


BAR, TALL = 20, 26
"""Width of an option's bar, and height of a certain answer's, in units of the drawing."""


def shares(distribution: Mapping[str, float], about: str, kind: Literal["people", "model"] = "model") -> Markup:
    """A small bar per option, in the options' order, and below it the option where its name is short."""
    each, total = distribution.items(), sum(distribution.values()) or 1.0
    wide = BAR if len(distribution) <= 12 else round(12 * BAR / len(distribution), 2)
    names = [option if len(option) <= 3 and wide == BAR else "" for option in distribution]
    width, height = round(max(wide * len(names), BAR)), TALL + (14 if any(names) else 2)
    parts = [f'<line class="axis" x1="0" x2="{width}" y1="{TALL}" y2="{TALL}"/>']
    for place, share in enumerate(distribution.values()):
        tall = round(max(TALL * share / total, 0), 1)
        x, thick = round(wide * (place + 0.15), 2), round(wide * 0.7, 2)
        parts.append(f'<rect x="{x:g}" y="{TALL - tall:g}" width="{thick:g}" height="{tall:g}"/>')
    parts += [
        f'<text class="tick" x="{BAR * place + BAR // 2}" y="{height - 2}">{escape(on_page(name))}</text>'
        for place, name in enumerate(names)
        if name
    ]
    said = escape(on_page(about + ": " + ", ".join(f"{option}: {share / total:.0%}" for option, share in each)))
    head = f'<svg class="chart shares {kind}" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
    return Markup(f'{head}role="img" aria-label="{said}">{"".join(parts)}</svg>')


def pushes(attributions: Mapping[str, float], about: str) -> Markup:
    """What raised a score and what lowered it: a bar to the right or to the left of none, the number beside it."""
    reach = max((abs(each) for each in attributions.values()), default=0.0) or 1.0
    middle, row = LEFT + WIDE // 2, 24
    height = row * len(attributions) + 4
    parts = [_line(middle, middle, 0, height, "none")]
    for place, (name, value) in enumerate(attributions.items()):
        y, long = row * place + 4, round(abs(value) / reach * WIDE / 2, 1)
        parts.append(_text(LEFT - 12, y + 14, "name", _short(name)))
        kind, x = ("raises", middle) if value >= 0 else ("lowers", middle - long)
        parts.append(Markup('<rect class="{}" x="{}" y="{}" width="{}" height="16"/>').format(kind, x, y, long))
        parts.append(_text(LEFT + WIDE + 12, y + 14, "number", f"{value:+.3g}"))
    said = ", ".join(f"{name} {value:+.3g}" for name, value in attributions.items())
    return _svg(LEFT + WIDE + 80, height, "img", f"{about}: {said}", parts)
