"""Histogram of scores with people's ratings beside them, whose bars open lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from accord.charts.plot_area import draw_legend, escape_text, format_number, tag, ticks

HEIGHT, LINE, LEGEND = 120, 18, 320
"""Height of the bars, height of a line of labels, and width of the legend, in pixels."""
BAR, EDGE = 0.88, 15.0
"""Share of a bin that its bars fill, and distance from an end, in percent, within which labels begin or end."""


@dataclass(frozen=True)
class HistogramBin:
    """A bin from `low` to `high` with the numbers of scores and of people's ratings; its bars open `href`."""

    low: float
    high: float
    scores: int
    ratings: int
    href: str = ""


def score_histogram(
    bins: Sequence[HistogramBin], title: str, worst: float | None = None, mean: float | None = None,
    kinds: tuple[str, str] = ("model", "people"), names: tuple[str, str] = ("scores", "ratings of people"),
) -> Markup:  # fmt: skip
    """Draw the share of scores in each bin, and beside it that of people's ratings.

    Args:
        bins: Bins of equal width in ascending order.
        title: Of the chart.
        worst: Upper end of the worst 10%, whose bars are dark.
        mean: Mean score, marked by a line.
        kinds: Classes of the two kinds of bars.
        names: Names of the two kinds of bars.
    """
    counts = sum(each.scores for each in bins), sum(each.ratings for each in bins)
    columns = list(kinds if counts[1] else kinds[:1])
    shares = [[each.scores / max(counts[0], 1), each.ratings / max(counts[1], 1)][: len(columns)] for each in bins]
    most = max(max(share) for share in shares) or 1.0
    scale = _Scale(bins[0].low, bins[-1].high)
    legend, _, rows = draw_legend(list(zip(names, columns, strict=True)) if counts[1] else [], LEGEND)
    top = 20 * rows + LINE * ((worst is not None) + (mean is not None)) + 4
    bottom = top + HEIGHT
    parts = [
        _bin_marks(scale, each, [HEIGHT * part / most for part in share], columns, (top, bottom), names, worst)
        for each, share in zip(bins, shares, strict=True)
        if any(share)
    ]
    parts.append(tag("line", class_="axis", x1="1%", x2="99%", y1=bottom, y2=bottom))
    parts += [
        scale.text(place, bottom + 16, format_number(place), "tick", 3) for place in ticks(scale.low, scale.high, 6)
    ]
    facts = [f"{count:,} {name}" for count, name in zip(counts, names, strict=True)][: len(columns)]
    if worst is not None:
        facts.append(f"worst 10%: {worst:.2f} or less")
        parts.append(tag("text", escape_text(facts[-1]), x="1%", y=20 * rows + LINE - 4, class_=f"strong {kinds[0]}"))
    if mean is not None:
        facts.append(f"mean {mean:.2f}")
        parts.append(scale.text(mean, top - 8, facts[-1], "strong"))
        at = f"{scale.at(mean):.2f}%"
        parts.append(tag("line", class_="guide ink", x1=at, x2=at, y1=top - 4, y2=bottom))
    head = tag("title", escape_text(title)) + tag("desc", escape_text("; ".join(facts)))
    content = head + "".join(legend) + "".join(parts)
    return Markup(tag("svg", content, class_="chart scores", width="100%", height=bottom + 22, role="group"))


def _bin_marks(
    scale: _Scale, bin: HistogramBin, heights: Sequence[float], columns: Sequence[str], ends: tuple[int, int],
    names: tuple[str, str], worst: float | None,
) -> str:  # fmt: skip
    """Return the bars of a bin with a tooltip, as a link if the bin has scores."""
    is_faint = worst is not None and bin.low > worst
    bars = [
        _bar(
            scale,
            bin,
            place,
            len(columns),
            ends[1],
            max(tall, 2.0),
            f"{kind} faint" if is_faint and not place else kind,
        )
        for place, (tall, kind) in enumerate(zip(heights, columns, strict=True))
        if tall
    ]
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
        return 1 + 98 * (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)

    def text(self, value: float, y: float, text: str, kind: str, edge: float = EDGE) -> str:
        """Return a label at a value; near an end it begins or ends there."""
        at = self.at(value)
        anchor = "start" if at < edge else "end" if at > 100 - edge else "middle"
        return tag("text", escape_text(text), x=f"{at:.2f}%", y=y, class_=kind, text_anchor=anchor)
