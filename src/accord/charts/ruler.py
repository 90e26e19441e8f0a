"""Ruler of an evaluator's error between a constant guess and another person, and the row of its four states."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from accord.charts.plot_area import LABEL, escape_text, tag, text_width
from accord.values import Estimate

NARROW = 300.0
"""Width in pixels, of a card on a phone, at which no two texts of a ruler overlap."""
EDGE = 0.025
"""Share of the width on each side of the outermost points."""
NEAR_EDGE = 0.3
"""Share of the width on each side in which texts begin or end at their point."""
LINE, GAP = 18, 8
"""Height of a line of text and smallest distance of two texts, in pixels."""


def step_bar(names: Sequence[str], current: int, title: str) -> Markup:
    """Draw steps in a row as a list, of which the `current` one and those before it are reached.

    The first step is that nothing is reached, so it is shown only as the current one.
    """
    items = []
    for place, name in enumerate(names):
        if place == current:
            items.append(tag("li", escape_text(name), **({"class_": "reached"} if place else {}), aria_current="step"))
        elif place:
            said = "Reached: " if place < current else "Not reached: "
            text = f"{tag('span', said, class_='visually-hidden')}{escape_text(name)}"
            items.append(tag("li", text, class_="reached" if place < current else "ahead"))
    return Markup(tag("ol", "".join(items), class_="steps", aria_label=title))


def ruler(
    guess: float | None,
    evaluator: Estimate,
    people: float | None,
    mark: tuple[float, str] | None = None,
    title: str = "Typical error of a score, in points",
) -> Markup:
    """Draw the error of an evaluator with its interval on a line from a constant guess to another person.

    Smaller errors are further to the right. The line ends at no error if people are unknown. Positions are shares of
    the width, so texts keep their size on every screen. The evaluator's words are above the line, all others below.

    Args:
        guess: Error of a constant guess, if it is known.
        evaluator: Error of the evaluator; nothing is drawn without its value.
        people: Error of another person, if it is known.
        mark: An error with its words, drawn as a dashed line.
        title: Unit of the errors, for screen readers.
    """
    error = evaluator.value
    if error is None:
        return Markup("")
    at = _Scale([guess, error, 0.0 if people is None else people, None if mark is None else mark[0]])
    band = _band_words(evaluator)
    middle = LINE * (2 if band else 1) + 20
    ends = _ends_of(guess, people)
    lines = _lines([(at(value), text_width(f"{text} {number}", LABEL)) for value, text, number, _ in ends])
    first, last = at(ends[0][0]), at(error)
    parts = [_bar(at(at.high), at(at.low), middle, 8, "line")]
    if guess is not None:
        parts.append(_bar(first, last, middle, 8, "bar model" if last >= first else "bar flagged"))
    if evaluator.low is not None and evaluator.high is not None:
        parts.append(_bar(at(evaluator.high), at(evaluator.low), middle, 18, "band model"))
    below = middle + 26 + LINE * max(lines)
    if mark is not None:
        x = at(mark[0])
        parts += [tag("line", class_="line model", x1=_percent(x), x2=_percent(x), y1=middle - 16, y2=middle + 16,
                      stroke_width=2, stroke_dasharray="3 3"), *_mark_words(x, below + 20, mark)]  # fmt: skip
        below += 20 + LINE
    for (value, text, number, kind), line in zip(ends, lines, strict=True):
        parts.append(tag("circle", class_=f"point {kind}", cx=_percent(at(value)), cy=middle, r=7))
        parts.append(_text(at(value), middle + 26 + LINE * line, f"{text} {number}", kind))
    parts.append(tag("circle", class_="point model", cx=_percent(last), cy=middle, r=9))
    parts.append(_text(last, LINE - 4, f"evaluator {_points(error)}", "model strong"))
    parts += [_text(last, 2 * LINE - 4, band, "neutral")] if band else []
    label = f"{title}: {_in_words(guess, evaluator, people, mark)}"
    return Markup(tag("svg", "".join(parts), class_="chart ruler", width="100%", height=round(below + 6), role="img",
                      aria_label=label))  # fmt: skip


def _ends_of(guess: float | None, people: float | None) -> list[tuple[float, str, str, str]]:
    """Return the errors that the evaluator stands between, each with its name, its number and its kind.

    Without people the end is no error.
    """
    goal = (
        (0.0, "no error", "0", "neutral") if people is None else (people, "another person", _points(people), "people")
    )
    return [goal] if guess is None else [(guess, "constant guess", _points(guess), "neutral"), goal]


def _band_words(error: Estimate) -> str:
    if error.low is None or error.high is None:
        return ""
    return f"95% interval {_points(error.low)} – {_points(error.high)}"


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
    """Return a line for each text, given its place and its width, so that none overlap on a narrow screen."""
    lines: list[int] = []
    extents: list[tuple[float, float]] = []
    for share, width in texts:
        x, anchor = _anchored(share)
        left = x * NARROW - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
        taken = {
            line
            for line, (other_left, other_right) in zip(lines, extents, strict=True)
            if left < other_right + GAP and other_left < left + width + GAP
        }
        extents.append((left, left + width))
        lines.append(next(line for line in range(len(texts)) if line not in taken))
    return lines


def _anchored(share: float) -> tuple[float, str]:
    """Return the place of a text about a point and its anchor there, so that it stays inside near both ends."""
    if share < NEAR_EDGE:
        return max(share - EDGE, 0.0), "start"
    return (min(share + EDGE, 1.0), "end") if share > 1 - NEAR_EDGE else (share, "middle")


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
    interval = f" ({band})" if (band := _band_words(evaluator)) else ""
    parts = [
        "" if guess is None else f"constant guess {_points(guess)}",
        f"this evaluator {_points(evaluator.value or 0.0)}{interval}",
        "other people unknown" if people is None else f"another person {_points(people)}",
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


def _text(share: float, y: float, text: str, kind: str) -> str:
    x, anchor = _anchored(share)
    return tag("text", escape_text(text), class_=f"label {kind}", x=_percent(x), y=y, text_anchor=anchor)
