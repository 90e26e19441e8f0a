"""A page from a template of this room: every text is escaped, the look is shared, nothing is loaded from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.resources import files
from typing import Any

from accord.edges import in_lines, on_page, redacted
from accord.validation import GroupCounts, KindAtScore, KindCounts
from accord.values import Histogram, Point, Points, number, percent


def page(name: str, content: object) -> str:
    """The page as HTML, of the fields of `content`. Every text that came from outside is escaped by the template."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    def read(name: str) -> str:
        return files("accord.report").joinpath(name).read_text(encoding="utf-8")

    environment = Environment(
        loader=FunctionLoader(read),
        autoescape=True,
        finalize=on_page,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = number
    environment.filters["percent"] = percent
    environment.filters["chart"] = chart
    environment.globals["colours"] = COLOURS
    return redacted(environment.get_template(name).render(style=read("style.css"), **vars(content)))


# A colour nobody would choose stands for the page's own ink; the SVG is told afterwards.
_INK = "#010203"
_FAINT = "#040506"
ACCENT, SECOND, THIRD = "#3b7dd8", "#d9822b", "#8a8f98"


def intervals(rows: Sequence[Mapping[str, Any]], title: str, sort: Sequence[str]) -> str:
    """Points with intervals, one a system. Rows: `system`, `value`, `low`, `high`, `ours`."""
    import altair as alt

    y = alt.Y("system:N", sort=list(sort), title=None)
    colour = alt.condition("datum.ours", alt.value(ACCENT), alt.value(THIRD))
    base = alt.Chart(inline(rows))
    x = alt.X("low:Q", title=title, scale=alt.Scale(zero=False))
    bars = base.mark_rule(strokeWidth=2.5).encode(y=y, x=x, x2="high:Q", color=colour)
    points = base.mark_point(filled=True, size=70, opacity=1).encode(y=y, x="value:Q", color=colour)
    return svg((bars + points).properties(width=330, height=26 * len(rows)))


COLOURS = (ACCENT, SECOND, THIRD)
"""Of the kinds of bars in `habit`, in their order; the page draws the legend once."""


def habit(rows: Sequence[Mapping[str, Any]], kinds: Sequence[str], highest: float) -> str:
    """One annotator's answers as small bars. Rows: `option`, `kind`, `share`; `highest` is the axis's end."""
    import altair as alt

    chart = (
        alt.Chart(inline(rows))
        .mark_bar()
        .encode(
            x=alt.X("option:O", title=None, axis=alt.Axis(labelAngle=0)),
            xOffset=alt.XOffset("kind:N", sort=list(kinds)),
            y=alt.Y(
                "share:Q", title=None, scale=alt.Scale(domain=[0, highest]), axis=alt.Axis(format="%", tickCount=3)
            ),
            color=alt.Color(
                "kind:N", scale=alt.Scale(domain=list(kinds), range=list(COLOURS[: len(kinds)])), legend=None
            ),
        )
        .properties(width=150, height=80)
    )
    return svg(chart)


def weights(rows: Sequence[Mapping[str, Any]]) -> str:
    """Bars to the left and right of zero, one a feature. Rows: `feature`, `weight`."""
    import altair as alt

    colour = alt.condition("datum.weight > 0", alt.value(ACCENT), alt.value(SECOND))
    return _bars(rows, "weight", "change of the expected answer per standard deviation", colour)


def reliability(rows: Sequence[Mapping[str, Any]]) -> str:
    """How often it happened where it was predicted. Rows: `predicted`, `happened`, `low`, `high`, `density`."""
    import altair as alt

    base = alt.Chart(inline(rows))
    x = alt.X("predicted:Q", title="predicted", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(tickCount=3))
    y = alt.Y("happened:Q", title="happened", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(tickCount=3))
    band = base.mark_area(opacity=0.25, color=ACCENT).encode(x=x, y=alt.Y("low:Q", title="happened"), y2="high:Q")
    size = alt.Size("density:Q", scale=alt.Scale(domain=[0, 1], range=[0.5, 5]), legend=None)
    line = base.mark_trail(color=ACCENT).encode(x=x, y=y, size=size)
    diagonal = alt.Chart(inline([{"a": 0, "b": 0}, {"a": 1, "b": 1}])).mark_line(color=THIRD, strokeDash=[4, 3])
    return svg((band + diagonal.encode(x="a:Q", y="b:Q") + line).properties(width=150, height=150))


def chart(shown: Points | Histogram) -> str:
    """A chart of a source's section, as SVG."""
    if isinstance(shown, Points):
        return points(shown.points, shown.axis)
    return histogram(shown)


def points(shown: Sequence[Point], axis: str) -> str:
    """Figures with intervals around zero, one below the other."""
    import altair as alt

    rows = [{"name": each.name, "flagged": each.is_flagged, **asdict(each.figure)} for each in shown]
    y = alt.Y("name:N", sort=[each.name for each in shown], title=None, axis=alt.Axis(labelLimit=480))
    colour = alt.condition("datum.flagged", alt.value(SECOND), alt.value(ACCENT))
    base = alt.Chart(inline(rows))
    bars = base.mark_rule(strokeWidth=2.5).encode(
        y=y, x=alt.X("low:Q", title=axis, axis=alt.Axis(tickCount=6)), x2="high:Q", color=colour
    )
    dots = base.mark_point(filled=True, size=60, opacity=1).encode(y=y, x="value:Q", color=colour)
    zero = alt.Chart(inline([{"at": 0}])).mark_rule(color=THIRD, strokeDash=[4, 3]).encode(x="at:Q")
    return svg((zero + bars + dots).properties(width=330, height=24 * len(rows)))


def curve(rows: Sequence[Mapping[str, Any]], along: str, title: str) -> str:
    """A line with its band. Rows: `labels` (the place along the axis), `value`, `low`, `high`."""
    import altair as alt

    if not rows:
        return ""
    base = alt.Chart(inline(rows))
    x = alt.X("labels:Q", title=along, axis=alt.Axis(tickCount=5))
    y = alt.Y("value:Q", title=title, scale=alt.Scale(zero=False))
    line = base.mark_line(color=ACCENT, point=alt.OverlayMarkDef(color=ACCENT)).encode(x=x, y=y)
    if rows[0]["low"] is not None:
        area = alt.Y("low:Q", title=title, scale=alt.Scale(zero=False))
        line = base.mark_area(opacity=0.2, color=ACCENT).encode(x=x, y=area, y2="high:Q") + line
    return svg(line.properties(width=330, height=170))


def stability(rows: Sequence[Mapping[str, Any]]) -> str:
    """Bars, one a feature. Rows: `feature`, `value`, `flagged`."""
    import altair as alt

    colour = alt.condition("datum.flagged", alt.value(SECOND), alt.value(ACCENT))
    return _bars(rows, "value", "population stability index", colour)


def reach(rows: Sequence[Mapping[str, Any]]) -> str:
    """Bars from zero, one a metric. Rows: `feature`, `weight`."""
    import altair as alt

    return _bars(rows, "weight", "between its worst and best place, in units of the scale", alt.value(ACCENT))


def histogram(shown: Histogram) -> str:
    """Values of two groups, counted; the ends of the window are dashed."""
    import altair as alt

    rows = [{"value": value, "group": name} for name, values in shown.groups.items() for value in values]
    colour = alt.Color("group:N", scale=alt.Scale(domain=list(shown.groups), range=[ACCENT, SECOND]), legend=None)
    bars = (
        alt.Chart(inline(rows))
        .mark_bar(opacity=0.6)
        .encode(
            x=alt.X("value:Q", bin=alt.Bin(maxbins=30), title=shown.axis),
            y=alt.Y("count():Q", stack=None, title=shown.counted, axis=alt.Axis(tickMinStep=1)),
            color=colour,
        )
    )
    return svg((bars + _upright(shown.at, *shown.window)).properties(width=330, height=190))


def _upright(threshold: float | None, low: float | None, high: float | None) -> Any:
    """Upright lines: the threshold, and the ends of the uncertainty window, dashed."""
    import altair as alt

    rows = [
        {"at": at, "kind": kind} for at, kind in ((threshold, "θ"), (low, "window"), (high, "window")) if at is not None
    ]
    dash = alt.condition("datum.kind == 'window'", alt.value([5, 4]), alt.value([1, 0]))
    return alt.Chart(inline(rows)).mark_rule(color=THIRD, strokeWidth=1.5).encode(x="at:Q", strokeDash=dash)


def _bars(rows: Sequence[Mapping[str, Any]], name: str, title: str, colour: Any) -> str:
    import altair as alt

    y, x = alt.Y("feature:N", sort="-x", title=None), alt.X(f"{name}:Q", title=title)
    chart = alt.Chart(inline(rows)).mark_bar(height=12).encode(y=y, x=x, color=colour)
    return svg(chart.properties(width=330, height=20 * len(rows)))


def inline(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Rows as a chart's own data."""
    import altair as alt

    return alt.Data(values=list(rows))  # type: ignore[no-untyped-call]


def svg(chart: Any) -> str:
    """The chart as SVG text, its ink and lines in the page's own colours."""
    import vl_convert

    axis = {"labelColor": _INK, "titleColor": _INK, "tickColor": _FAINT, "domainColor": _FAINT, "gridColor": _FAINT}
    styled = chart.configure(background="transparent", font="sans-serif").configure_axis(
        **axis, titleFontWeight="normal", gridOpacity=0.35
    )
    styled = styled.configure_legend(labelColor=_INK).configure_header(labelColor=_INK).configure_view(stroke=None)
    # What cannot be drawn, drawing says: to check a chart against the whole schema before takes as long again.
    drawn = in_lines(styled.to_dict(validate=False))  # a character that XML does not know would abort the process
    svg = str(vl_convert.vegalite_to_svg(drawn))
    svg = svg.replace(_INK, "currentColor").replace(_FAINT, "var(--line)")
    return re.sub(r"^<svg ", '<svg role="img" ', svg)


PALETTE = ["#3b7dd8", "#d9822b", "#4c9f70", "#b0557f", "#8a8f98", "#7a63c7", "#c2a83e", "#3aa6b9", "#a8554a", "#5f6b3c"]


def kinds(shown: Sequence[KindCounts]) -> str:
    """Bars, one a kind of issue, critical ones in another colour."""
    import altair as alt

    colour = alt.condition("datum.critical", alt.value(SECOND), alt.value(ACCENT))
    x = alt.X("share:Q", title="share of turns", axis=alt.Axis(format="%"))
    y = alt.Y("type:N", sort="-x", title=None)
    chart = alt.Chart(inline(list(map(asdict, shown)))).mark_bar(height=12).encode(y=y, x=x, color=colour)
    return svg(chart.properties(width=330, height=20 * len(shown)))


def counts(shown: Mapping[int, int], name: str, counted: str) -> str:
    """Upright bars: how many are `counted` at each place of an axis `name`."""
    import altair as alt

    rows = [{name: place, counted: count} for place, count in shown.items()]
    x = alt.X(f"{name}:O", title=name, axis=alt.Axis(labelAngle=0))
    chart = alt.Chart(inline(rows)).mark_bar(color=ACCENT).encode(x=x, y=alt.Y(f"{counted}:Q", title=counted))
    return svg(chart.properties(width=240, height=150))


def by_score(shown: Sequence[KindAtScore], order: Sequence[str]) -> str:
    """What issues turns of each score have, as shares."""
    import altair as alt

    domain = [name for name in order if any(each.type == name for each in shown)]
    colours = [PALETTE[place % len(PALETTE)] for place in range(len(domain))]
    colour = alt.Color("type:N", scale=alt.Scale(domain=domain, range=colours), title=None)
    x = alt.X("issues:Q", stack="normalize", title="share of the issues", axis=alt.Axis(format="%"))
    base = alt.Chart(inline(list(map(asdict, shown)))).mark_bar()
    return svg(base.encode(y=alt.Y("score:O", title="score"), x=x, color=colour).properties(width=330, height=150))


def of_dialogues(mean: Mapping[int, int], lowest: Mapping[int, int]) -> str:
    """Scores of dialogues as the mean of their turns, and as the lowest: how many dialogues have which."""
    import altair as alt

    rows = [
        {"score": score, "dialogues": count, "by": by}
        for by, each in (("mean", mean), ("lowest", lowest))
        for score, count in each.items()
    ]
    colour = alt.Color("by:N", scale=alt.Scale(domain=["mean", "lowest"], range=[ACCENT, SECOND]), title=None)
    chart = (
        alt.Chart(inline(rows))
        .mark_bar()
        .encode(
            x=alt.X("score:O", title="score", axis=alt.Axis(labelAngle=0)),
            xOffset=alt.XOffset("by:N", sort=["mean", "lowest"]),
            y=alt.Y("dialogues:Q", title="dialogues"),
            color=colour,
        )
    )
    return svg(chart.properties(width=240, height=150))


def along(shown: Sequence[GroupCounts], title: str) -> str:
    """The share of turns with an issue, along turns or days."""
    import altair as alt

    x = alt.X("group:O", title=title, axis=alt.Axis(labelAngle=0 if isinstance(shown[0].group, int) else -40))
    y = alt.Y("with_issues:Q", title="turns with an issue", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%"))
    base = alt.Chart(inline(list(map(asdict, shown)))).encode(x=x, y=y)
    chart = base.mark_line(color=THIRD, strokeWidth=1.5) + base.mark_point(
        filled=True, color=ACCENT, size=50, opacity=1
    )
    return svg(chart.properties(width=330, height=150))
