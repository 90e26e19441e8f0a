"""Rendering of self-contained HTML pages: escaped texts, shared style, no script, no network."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from markupsafe import Markup

from accord.charts import STYLE, Axis, ChartRow, Guide, histogram, interval_plot, legend
from accord.edges import page_text, redact
from accord.values import Histogram, Points, number, percent


def render_page(name: str, values: Mapping[str, Any]) -> str:
    """Return a page as HTML.

    Args:
        name: File name of the template in this package.
        values: Values of the template. Texts are escaped and secrets are redacted.
    """
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    def read(name: str) -> str:
        return files("accord.report").joinpath(name).read_text(encoding="utf-8")

    environment = Environment(
        loader=FunctionLoader(read),
        autoescape=True,
        finalize=page_text,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(number=number, percent=percent, chart=draw_chart, legend=legend)
    return redact(environment.get_template(name).render(style=read("style.css") + STYLE, **values))


def draw_chart(chart: Points | Histogram) -> Markup:
    """Return the SVG of a chart block."""
    if isinstance(chart, Points):
        rows = [
            ChartRow(point.name, point.figure, "flagged" if point.is_flagged else "people") for point in chart.points
        ]
        return interval_plot(rows, Axis(chart.axis), chart.caption, 0.0)
    threshold = [] if chart.at is None else [Guide(chart.at, is_solid=True)]
    window = [Guide(end) for end in chart.window if end is not None]
    return histogram(chart.groups, Axis(chart.axis), Axis(chart.counted, low=0), chart.caption, threshold + window)
