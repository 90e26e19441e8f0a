"""Charts of issues: how often each kind occurs, at which scores, over dialogues, along them, and by system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from accord.report.charts import ACCENT, SECOND, THIRD, inline, svg

PALETTE = ["#3b7dd8", "#d9822b", "#4c9f70", "#b0557f", "#8a8f98", "#7a63c7", "#c2a83e", "#3aa6b9", "#a8554a", "#5f6b3c"]


def kinds(rows: Sequence[Mapping[str, Any]]) -> str:
    """Bars, one a kind, critical ones in another colour. Rows: `type`, `share`, `critical`."""
    import altair as alt

    colour = alt.condition("datum.critical", alt.value(SECOND), alt.value(ACCENT))
    x = alt.X("share:Q", title="share of turns", axis=alt.Axis(format="%"))
    y = alt.Y("type:N", sort="-x", title=None)
    chart = alt.Chart(inline(rows)).mark_bar(height=12).encode(y=y, x=x, color=colour)
    return svg(chart.properties(width=330, height=20 * len(rows)))


def counts(rows: Sequence[Mapping[str, Any]], name: str, counted: str) -> str:
    """Upright bars. Rows: a place `name` and how many are `counted` there."""
    import altair as alt

    x = alt.X(f"{name}:O", title=name, axis=alt.Axis(labelAngle=0))
    chart = alt.Chart(inline(rows)).mark_bar(color=ACCENT).encode(x=x, y=alt.Y(f"{counted}:Q", title=counted))
    return svg(chart.properties(width=240, height=150))


def by_score(rows: Sequence[Mapping[str, Any]], order: Sequence[str]) -> str:
    """What issues turns of each score have, as shares. Rows: `score`, `type`, `issues`."""
    import altair as alt

    domain = [name for name in order if any(row["type"] == name for row in rows)]
    colours = [PALETTE[place % len(PALETTE)] for place in range(len(domain))]
    colour = alt.Color("type:N", scale=alt.Scale(domain=domain, range=colours), title=None)
    x = alt.X("issues:Q", stack="normalize", title="share of the issues", axis=alt.Axis(format="%"))
    chart = alt.Chart(inline(rows)).mark_bar().encode(y=alt.Y("score:O", title="score"), x=x, color=colour)
    return svg(chart.properties(width=330, height=150))


def of_dialogues(mean: Sequence[Mapping[str, Any]], lowest: Sequence[Mapping[str, Any]]) -> str:
    """Scores of dialogues as the mean of their turns, and as the lowest. Rows: `score`, `dialogues`."""
    import altair as alt

    rows = [{**row, "by": by} for by, each in (("mean", mean), ("lowest", lowest)) for row in each]
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


def along(rows: Sequence[Mapping[str, Any]], title: str) -> str:
    """The share of turns with an issue, along turns or days. Rows: `group`, `with_issues`."""
    import altair as alt

    x = alt.X("group:O", title=title, axis=alt.Axis(labelAngle=0 if isinstance(rows[0]["group"], int) else -40))
    y = alt.Y("with_issues:Q", title="turns with an issue", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%"))
    base = alt.Chart(inline(rows)).encode(x=x, y=y)
    chart = base.mark_line(color=THIRD, strokeWidth=1.5) + base.mark_point(
        filled=True, color=ACCENT, size=50, opacity=1
    )
    return svg(chart.properties(width=330, height=150))
