"""Ruler of an evaluator's error between a constant guess and other people, and the bar of its four states."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from accord.charts.plot_area import LABEL, escape_text, tag, text_width
from accord.values import Estimate

NARROW = 300.0
"""Width in pixels, of a card on a phone, at which no two texts of a ruler overlap."""
EDGE = 0.11
"""Share of the width on each side of the outermost points."""
LINE, GAP = 18, 8
"""Height of a line of text and smallest distance of two texts, in pixels."""


def step_bar(names: Sequence[str], current: int, title: str) -> Markup:
    """Draw steps in a row as a list, of which the `current` one and those before it are reached."""
    items = [
        tag("li", escape_text(name), aria_current="step") if place == current
        else tag("li", escape_text(name), **({"class_": "reached"} if place < current else {}))
        for place, name in enumerate(names)
    ]  # fmt: skip
    return Markup(tag("ol", "".join(items), class_="steps", aria_label=title))


def ruler(
    guess: float | None,
    evaluator: Estimate,
    people: float | None,
    mark: tuple[float, str] | None = None,
    title: str = "Typical error in points",
) -> Markup:
    """Draw the error of an evaluator with its interval on a line from a constant guess to other people.

    Smaller errors are further to the right. The line ends at no error if people are unknown. Positions are shares of
    the width, so texts keep their size on every screen.

    Args:
        guess: Error of a constant guess, if it is known.
        evaluator: Error of the evaluator; nothing is drawn without its value.
        people: Error of other people, if it is known.
        mark: An error with its words, drawn as a dashed line.
        title: Unit of the errors, for screen readers.
    """
    if evaluator.value is None:
        return Markup("")
    at = _Scale([guess, evaluator.value, 0.0 if people is None else people, None if mark is None else mark[0]])
    points = _points_of(guess, evaluator.value, people)
    lines = _lines([(at(value), max(text_width(name, LABEL), text_width(number, LABEL)))
                    for value, name, number, _, _ in points])  # fmt: skip
    middle = LINE * (1 + max(lines)) + 22
    first, last = at(points[0][0]), at(evaluator.value)
    parts = [_bar(at(at.high), at(at.low), middle, 8, "line")]
    if guess is not None:
        parts.append(_bar(first, last, middle, 8, "bar model" if last >= first else "bar flagged"))
    parts += _interval(evaluator, at, middle)
    below = middle + 14 + LINE * (1 + max(lines))
    if mark is not None:
        x = at(mark[0])
        parts += [tag("line", class_="line model", x1=_percent(x), x2=_percent(x), y1=middle - 16, y2=below + 6,
                      stroke_width=2, stroke_dasharray="3 3"), *_mark_words(x, below + 20, mark)]  # fmt: skip
        below += 20 + LINE
    for (value, name, number, kind, radius), line in zip(points, lines, strict=True):
        place, color = _percent(at(value)), {"tool": "model", "people": "people"}.get(kind, "neutral")
        parts.append(tag("circle", class_=f"point {color}", cx=place, cy=middle, r=radius))
        for text, y, is_bold in ((name, middle - 20 - LINE * line, kind != "soft"),
                                 (number, middle + 30 + LINE * line, kind == "tool")):  # fmt: skip
            style = f"{color if text == name else 'ink' if is_bold else 'neutral'}{' strong' if is_bold else ''}"
            parts.append(_text(place, y, text, style))
    label = f"{title}: {_in_words(guess, evaluator, people, mark)}"
    return Markup(tag("svg", "".join(parts), class_="chart ruler", width="100%", height=round(below + 6), role="img",
                      aria_label=label))  # fmt: skip


_Point = tuple[float, str, str, str, float]
"""An error with its name, its number, its kind and the radius of its dot."""


def _points_of(guess: float | None, error: float, people: float | None) -> list[_Point]:
    """Return the points of a ruler; without people its end is no error."""
    goal: _Point = (
        (0.0, "no error", "0", "soft", 7) if people is None else (people, "people", _points(people), "people", 7)
    )
    first: list[_Point] = [] if guess is None else [(guess, "guess", _points(guess), "soft", 7)]
    return [*first, goal, (error, "evaluator", f"{_points(error)} off", "tool", 9)]


def _interval(error: Estimate, at: _Scale, middle: float) -> list[str]:
    if error.low is None or error.high is None:
        return []
    return [_bar(at(error.high), at(error.low), middle, 16, "band model")]


class _Scale:
    """Places of errors as shares of the width, the largest error at the left."""

    def __init__(self, errors: Sequence[float | None]) -> None:
        known = [error for error in errors if error is not None]
        self.low, self.high = min(known), max(known)

    def __call__(self, error: float) -> float:
        span = self.high - self.low
        share = 0.5 if span < 1e-9 else (self.high - error) / span
        return min(max(EDGE + (1 - 2 * EDGE) * share, 0.02), 0.98)


def _lines(texts: Sequence[tuple[float, float]]) -> list[int]:
    """Return a line for each text, given its middle and its width, so that none overlap on a narrow screen."""
    lines: list[int] = []
    for place, (middle, width) in enumerate(texts):
        taken = {
            lines[other]
            for other, (other_middle, other_width) in enumerate(texts[:place])
            if abs(middle - other_middle) * NARROW < (width + other_width) / 2 + GAP
        }
        lines.append(next(line for line in range(len(texts)) if line not in taken))
    return lines


def _mark_words(x: float, y: float, mark: tuple[float, str]) -> list[str]:
    """Return the words of the mark near its line: on one line, and for narrow screens on two."""
    number, words = _points(mark[0]), mark[1]
    whole = f"{number} {words}"
    anchor, share = ("end", min(x + 0.05, 1.0)) if x > 0.5 else ("start", max(x - 0.05, 0.0))
    parts = whole.split(" ")
    half = next((place for place in range(1, len(parts)) if 2 * len(" ".join(parts[:place])) >= len(whole)), 1)
    halves = [" ".join(parts[:half]), " ".join(parts[half:])]
    half_width = max(text_width(line, LABEL) for line in halves) / 2 / NARROW
    centered = min(max(x, half_width), 1 - half_width)
    long = tag("text", escape_text(whole), class_="model long", x=_percent(share), y=y, text_anchor=anchor)
    short = [
        tag("text", escape_text(line), class_="model short", x=_percent(centered), y=y + LINE * place,
            text_anchor="middle")
        for place, line in enumerate(halves)
    ]  # fmt: skip
    return [long, *short]


def _in_words(guess: float | None, evaluator: Estimate, people: float | None, mark: tuple[float, str] | None) -> str:
    """Return the numbers of a ruler as a sentence."""
    low, high = evaluator.low, evaluator.high
    interval = "" if low is None or high is None else f" (between {_points(low)} and {_points(high)})"
    parts = [
        "" if guess is None else f"constant guess {_points(guess)}",
        f"this evaluator {_points(evaluator.value or 0.0)}{interval}",
        "other people unknown" if people is None else f"other people {_points(people)}",
    ]
    needed = "" if mark is None else f"; {_points(mark[0])} is needed {mark[1]}"
    return ", ".join(filter(None, parts)) + needed


def _points(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def _bar(left: float, right: float, middle: float, height: float, kind: str) -> str:
    left, right = sorted((left, right))
    return tag("rect", class_=kind, x=_percent(left), y=middle - height / 2, width=_percent(right - left),
               height=height, rx=height / 2)  # fmt: skip


def _text(x: str, y: float, text: str, kind: str) -> str:
    return tag("text", escape_text(text), class_=kind, x=x, y=y, text_anchor="middle")
