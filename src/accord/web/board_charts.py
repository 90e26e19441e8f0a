"""The board's charts as SVG: every bin and every point is a link to what is behind it, reachable by keyboard.

No script, no inline style; colours are those of `static/board.css`, people's always another than the model's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from markupsafe import Markup

from accord.board import Density, OverTime
from accord.edges import on_page

WIDTH, HEIGHT, EDGE, BOTTOM, TOP = 680, 250, 44, 206, 18
NAMED = 6
"""Names below the axis of time."""


def density_chart(found: Density, given: Density | None, low: float, high: float, link: Callable[[int], str]) -> Markup:
    """A density with its band, people's beside it, and twenty bins to open.

    Args:
        found: The density.
        given: Of people's answers.
        low: Where the scale begins.
        high: Where it ends.
        link: Where a bin leads to, by its number.
    """
    top = max([*found.density, *found.high, *(given.density if given else ())], default=1.0) or 1.0

    def at(value: float, density: float) -> str:
        share = (value - low) / (high - low)
        return f"{EDGE + (WIDTH - 2 * EDGE) * share:.1f},{BOTTOM - (BOTTOM - TOP) * min(density / top, 1):.1f}"

    parts = []
    if found.low:
        there = [at(v, d) for v, d in zip(found.at, found.high, strict=True)]
        back = [at(v, d) for v, d in zip(found.at, found.low, strict=True)][::-1]
        parts.append(_shape("polygon", "band", [*there, *back]))
    parts.append(_shape("polyline", "model line", [at(v, d) for v, d in zip(found.at, found.density, strict=True)]))
    if given is not None:
        parts.append(
            _shape("polyline", "people line", [at(v, d) for v, d in zip(given.at, given.density, strict=True)])
        )
    parts.append(_line(EDGE, WIDTH - EDGE, BOTTOM, BOTTOM, "axis"))
    for place in range(5):
        value = low + (high - low) * place / 4
        parts.append(_text(float(at(value, 0).split(",")[0]), BOTTOM + 18, "tick", f"{value:g}"))
    if found.mean.value is not None:
        x = float(at(found.mean.value, 0).split(",")[0])
        parts += [_line(x, x, TOP, BOTTOM, "mean"), _text(x, 12, "tick", f"mean {found.mean}")]
    for number, each in enumerate(found.bins):
        left, right = (float(at(value, 0).split(",")[0]) for value in (each.low, each.high))
        said = f"{each.low:.2f} to {each.high:.2f}: {each.count:,}"
        box = Markup('<rect class="bin" x="{}" y="{}" width="{}" height="{}"/>').format(
            left, TOP, round(right - left, 1), BOTTOM - TOP
        )
        tick = _line(left, right, BOTTOM + 3, BOTTOM + 3, "some" if each.count else "empty")
        parts.append(
            Markup('<a href="{}" aria-label="{}"><title>{}</title>{}{}</a>').format(link(number), said, said, box, tick)
            if each.count else tick
        )  # fmt: skip
    about = f"Density of {found.rows:,} scores from {low:g} to {high:g}; each of its parts is a link to the texts in it"
    return _svg(about, parts)


def time_chart(found: OverTime, low: float, high: float, link: Callable[[int], str]) -> Markup:
    """Means with their intervals over time, from the lowest to the highest tenth as a band; what happened as lines.

    Args:
        found: The moments.
        low: Where the scale begins.
        high: Where it ends.
        link: Where a moment leads to, by its number.
    """
    moments = found.moments
    wide = (WIDTH - 2 * EDGE) / max(len(moments), 1)

    def x(place: float) -> float:
        return round(EDGE + wide * (place + 0.5), 1)

    def y(value: float) -> float:
        return round(BOTTOM - (BOTTOM - TOP) * min(max((value - low) / (high - low), 0), 1), 1)

    there = [f"{x(n)},{y(each.highest.value or low)}" for n, each in enumerate(moments)]
    back = [f"{x(n)},{y(each.lowest.value or low)}" for n, each in enumerate(moments)][::-1]
    parts = [_shape("polygon", "band", [*there, *back]), _line(EDGE, WIDTH - EDGE, BOTTOM, BOTTOM, "axis")]
    parts += [_text(EDGE - 18, y(value) + 4, "tick", f"{value:g}") for value in (low, (low + high) / 2, high)]
    for number, happened in enumerate(found.happened, 1):
        place = next((n for n, each in enumerate(moments) if each.since <= happened.day <= each.until), None)
        if place is not None:
            parts += [_line(x(place), x(place), TOP, BOTTOM, "alarm"), _text(x(place), 12, "tick alarmed", str(number))]
    line = [f"{x(n)},{y(each.mean.value)}" for n, each in enumerate(moments) if each.mean.value is not None]
    parts.append(_shape("polyline", "model line", line))
    step = max(len(moments) // NAMED, 1)
    for number, each in enumerate(moments):
        mean, said = each.mean, f"{each.since}: {each.mean}, {each.texts:,} texts"
        marks = [Markup('<rect class="bin" x="{}" y="{}" width="{}" height="{}"/>').format(
            round(x(number) - wide / 2, 1), TOP, round(wide, 1), BOTTOM - TOP)]  # fmt: skip
        if mean.low is not None and mean.high is not None:
            marks.append(_line(x(number), x(number), y(mean.low), y(mean.high), "ends"))
        if mean.value is not None:
            marks.append(Markup('<circle class="model" cx="{}" cy="{}" r="4"/>').format(x(number), y(mean.value)))
        inner = Markup("").join(marks)
        parts.append(Markup('<a href="{}" aria-label="{}"><title>{}</title>{}</a>').format(
            link(number), said, said, inner))  # fmt: skip
        if number % step == 0:
            parts.append(_text(x(number), BOTTOM + 18, "tick", each.since[5:]))
    return _svg(f"Mean score by {found.step}; each point is a link to its texts", parts)


def missing_between(found: OverTime) -> bool:
    """Whether days or weeks without scores lie between those that are shown."""
    return any(one.until < other.since[:10] and _gap(one.until, other.since) for one, other in pairwise(found.moments))


def _gap(until: str, since: str) -> bool:
    from datetime import date

    return (date.fromisoformat(since) - date.fromisoformat(until)).days > 1


def _svg(about: str, parts: Sequence[Markup]) -> Markup:
    size = Markup('viewBox="0 0 {} {}" width="{}" height="{}"').format(WIDTH, HEIGHT, WIDTH, HEIGHT)
    head = Markup('<svg class="chart board" {} role="group" aria-label="{}">').format(size, about)
    return head + Markup("").join(parts) + Markup("</svg>")


def _shape(name: str, kind: str, points: Sequence[str]) -> Markup:
    return Markup('<{} class="{}" points="{}"/>').format(Markup(name), kind, " ".join(points))


def _line(x1: float, x2: float, y1: float, y2: float, kind: str) -> Markup:
    return Markup('<line class="{}" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(kind, x1, x2, y1, y2)


def _text(x: float, y: float, kind: str, said: str) -> Markup:
    return Markup('<text class="{}" x="{}" y="{}">{}</text>').format(kind, x, y, on_page(said))
