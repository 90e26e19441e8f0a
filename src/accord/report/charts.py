"""Charts as inline SVG: drawn by Altair, without a script, in colours that follow the page into the dark."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

# A colour nobody would choose stands for the page's own ink; the SVG is told afterwards.
_INK = "#010203"
_FAINT = "#040506"
ACCENT, SECOND, THIRD = "#3b7dd8", "#d9822b", "#8a8f98"


def intervals(rows: Sequence[Mapping[str, Any]], title: str, sort: Sequence[str]) -> str:
    """Points with intervals, one a system. Rows: `system`, `value`, `low`, `high`, `ours`."""
    import altair as alt

    y = alt.Y("system:N", sort=list(sort), title=None)
    colour = alt.condition("datum.ours", alt.value(ACCENT), alt.value(THIRD))
    base = alt.Chart(_inline(rows))
    x = alt.X("low:Q", title=title, scale=alt.Scale(zero=False))
    bars = base.mark_rule(strokeWidth=2.5).encode(y=y, x=x, x2="high:Q", color=colour)
    points = base.mark_point(filled=True, size=70, opacity=1).encode(y=y, x="value:Q", color=colour)
    return _svg((bars + points).properties(width=330, height=26 * len(rows)))


COLOURS = (ACCENT, SECOND, THIRD)
"""Of the kinds of bars in `habit`, in their order; the page draws the legend once."""


def habit(rows: Sequence[Mapping[str, Any]], kinds: Sequence[str], highest: float) -> str:
    """One annotator's answers as small bars. Rows: `option`, `kind`, `share`; `highest` is the axis's end."""
    import altair as alt

    chart = (
        alt.Chart(_inline(rows))
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
    return _svg(chart)


def weights(rows: Sequence[Mapping[str, Any]]) -> str:
    """Bars to the left and right of zero, one a feature. Rows: `feature`, `weight`."""
    import altair as alt

    chart = (
        alt.Chart(_inline(rows))
        .mark_bar(height=12)
        .encode(
            y=alt.Y("feature:N", sort="-x", title=None),
            x=alt.X("weight:Q", title="change of the expected answer per standard deviation"),
            color=alt.condition("datum.weight > 0", alt.value(ACCENT), alt.value(SECOND)),
        )
        .properties(width=330, height=20 * len(rows))
    )
    return _svg(chart)


def _inline(rows: Sequence[Mapping[str, Any]]) -> Any:
    import altair as alt

    return alt.Data(values=list(rows))  # type: ignore[no-untyped-call]


def _svg(chart: Any) -> str:
    """The chart as SVG text, its ink and lines in the page's own colours."""
    import vl_convert

    axis = {"labelColor": _INK, "titleColor": _INK, "tickColor": _FAINT, "domainColor": _FAINT, "gridColor": _FAINT}
    styled = chart.configure(background="transparent", font="sans-serif").configure_axis(
        **axis, titleFontWeight="normal", gridOpacity=0.35
    )
    styled = styled.configure_legend(labelColor=_INK).configure_header(labelColor=_INK).configure_view(stroke=None)
    svg = str(vl_convert.vegalite_to_svg(styled.to_json()))
    svg = svg.replace(_INK, "currentColor").replace(_FAINT, "var(--line)")
    return re.sub(r"^<svg ", '<svg role="img" ', svg)
