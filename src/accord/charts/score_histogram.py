"""Histogram of scores next to people's ratings, whose bars open lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from accord.charts.plot_area import draw_legend, escape_text, format_number, tag, ticks

HEIGHT, LINE, LEGEND = 120, 18, 320
"""Height of the bars, height of a line of labels, and width of the legend, in pixels."""
BAR, LEFT, RIGHT, EDGE = 0.88, 7.0, 98.0, 15.0
"""Share of a bin that its bars fill, ends of the scale in percent, and distance from one within which labels begin."""


@dataclass(frozen=True)
class HistogramBin:
    """A bin from `low` to `high`: numbers of scores and ratings; its bars open `href`."""

    low: float
    high: float
    scores: int
    ratings: int
    href: str = ""


def score_histogram(
    bins: Sequence[HistogramBin], title: str, mean: float | None = None,
    kinds: tuple[str, str] = ("model", "people"), names: tuple[str, str] = ("scores", "ratings of people"),
) -> Markup:  # fmt: skip
    """Draw the number of scores in each bin, next to the number of people's ratings.

    Numbers of different totals are drawn as shares.

    Args:
        bins: Bins of equal width in ascending order.
        title: Of the chart.
        mean: Mean score, marked by a line.
        kinds: Classes of the two kinds of bars.
        names: Names of the two kinds of bars.
    """
    counts = sum(each.scores for each in bins), sum(each.ratings for each in bins)
    columns = list(kinds if counts[1] else kinds[:1])
    is_share = bool(counts[1]) and counts[0] != counts[1]
    values = _heights(bins, counts if is_share else (1, 1), len(columns))
    most = max(max(value) for value in values) or 1.0
    scale = _Scale(bins[0].low, bins[-1].high)
    legend, _, rows = draw_legend(list(zip(names, columns, strict=True)) if counts[1] else [], LEGEND)
    top = 20 * rows + LINE * (mean is not None) + 4
    bottom = top + HEIGHT
    parts = _counts_axis(most, bottom, is_share)
    parts += [
        _bin_marks(scale, each, [HEIGHT * part / most for part in value], columns, (top, bottom), names)
        for each, value in zip(bins, values, strict=True)
        if any(value)
    ]
    parts.append(tag("line", class_="axis", x1=f"{LEFT}%", x2=f"{RIGHT}%", y1=bottom, y2=bottom))
    parts += [
        scale.text(place, bottom + 16, format_number(place), "tick", 0) for place in ticks(scale.low, scale.high, 6)
    ]
    facts = [f"{count:,} {name}" for count, name in zip(counts, names, strict=True)][: len(columns)]
    if mean is not None:
        facts.append(f"mean {mean:.2f}")
        parts.append(scale.text(mean, top - 8, "mean", "strong"))
        at = f"{scale.at(mean):.2f}%"
        parts.append(tag("line", class_="guide ink", x1=at, x2=at, y1=top - 4, y2=bottom))
    head = tag("title", escape_text(title)) + tag("desc", escape_text("; ".join(facts)))
    content = head + "".join(legend) + "".join(parts)
    return Markup(tag("svg", content, class_="chart scores", width="100%", height=bottom + 22, role="group"))


def _heights(bins: Sequence[HistogramBin], totals: tuple[int, int], columns: int) -> list[list[float]]:
    """Return the numbers of each bin as shares of totals; a total of 1 keeps them as they are."""
    scores, ratings = (max(total, 1) for total in totals)
    return [[each.scores / scores, each.ratings / ratings][:columns] for each in bins]


def _counts_axis(most: float, bottom: int, is_share: bool) -> list[str]:
    """Return the grid lines of the numbers in a bin with their labels, left of the scale."""
    parts = []
    for value in ticks(0.0, most, 3):
        if is_share or value == int(value):
            y = bottom - HEIGHT * value / most
            parts.append(tag("line", class_="grid", x1=f"{LEFT}%", x2=f"{RIGHT}%", y1=y, y2=y))
            text = format_number(value, is_share)
            parts.append(tag("text", text, x=f"{LEFT - 1}%", y=y + 4, class_="tick", text_anchor="end"))
    return parts


def _bin_marks(
    scale: _Scale, bin: HistogramBin, heights: Sequence[float], columns: Sequence[str], ends: tuple[int, int],
    names: tuple[str, str],
) -> str:  # fmt: skip
    """Return the bars of a bin with a tooltip, as a link if the bin has scores."""
    bars = []
    for place, (height, kind) in enumerate(zip(heights, columns, strict=True)):
        tall = max(height, 2.0) if height else 0.0
        bars += [_bar(scale, bin, place, len(columns), ends[1], tall, kind)] if tall > 0 else []
    said = f"{bin.low:.2f} to {bin.high:.2f}: {bin.scores:,}"
    said += f", {names[1]}: {bin.ratings:,}" if len(columns) > 1 else ""
    left, right = scale.at(bin.low), scale.at(bin.high)
    hit = tag("rect", class_="hit", x=f"{left:.2f}%", y=ends[0], width=f"{right - left:.2f}%", height=HEIGHT)
    inside = tag("title", escape_text(said)) + "".join(bars) + hit
    return tag("a", inside, href=bin.href, aria_label=said) if bin.href and bin.scores else tag("g", inside)


def _bar(scale: _Scale, bin: HistogramBin, place: int, columns: int, bottom: float, tall: float, kind: str) -> str:
    left, right = scale.at(bin.low), scale.at(bin.high)
    wide = BAR * (right - left) / columns
    start = left + (1 - BAR) / 2 * (right - left) + place * wide
    return tag("rect", class_=f"bar {kind}", x=f"{start:.2f}%", y=bottom - tall, width=f"{wide:.2f}%", height=tall)


@dataclass(frozen=True)
class _Scale:
    """Places on the scale in percent of the width: a picture of any width has letters of the same size."""

    low: float
    high: float

    def at(self, value: float) -> float:
        return LEFT + (RIGHT - LEFT) * (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)

    def text(self, value: float, y: float, text: str, kind: str, edge: float = EDGE) -> str:
        """Return a label at a value; near an end it begins or ends there."""
        at = self.at(value)
        anchor = "start" if at < LEFT + edge else "end" if at > RIGHT - edge else "middle"
        return tag(
            "text", escape_text(text), x=f"{at:.2f}%", y=y, class_=kind, text_anchor=anchor if edge else "middle"
        )
