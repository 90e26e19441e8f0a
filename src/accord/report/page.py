"""Rendering of self-contained HTML pages: escaped texts, shared style, no script, no network."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from markupsafe import Markup

from accord.charts import Axis, ChartRow, Guide, histogram, icon, key, legend, row_chart, style_with_font
from accord.edges import page_text, redact
from accord.results import Charts, Figure, Histogram, Points, Section, figure_html, number, percent, section_html

TERMS = {
    "evaluator": "What Accord learned from the ratings: it scores conversations as people would.",
    "assistant": "The chat assistant whose conversations are judged.",
    "assistant version": "One version of the assistant; versions are compared by their mean scores.",
    "feature": "One measurement of a text: a judge's answer to a question, or a metric.",
    "annotator": "A person who rated conversations.",
    "RMSE": "Root mean squared error: the typical distance between a score and a rating, in points of the scale.",
    "new annotator": "A person whose ratings the evaluator has not seen. Scores are predictions for a new annotator "
    "unless one is named.",
    "constant guess": "The same answer for every conversation. It is the error of knowing nothing about them.",
    "other people": "The mean rating of the other people who rated the same conversation, as a prediction.",
    "best single feature": "The one feature that predicts the ratings best.",
    "raw judge": "The answers of the judge model, without learning from the ratings.",
    "r": "Pearson's correlation of scores and ratings, from −1 to 1; 0 is chance.",
    "within annotators": "After subtracting each annotator's mean from scores and ratings, so that knowing who is "
    "strict does not count as agreement.",
    "within assistant versions": "After subtracting the mean of each assistant version from scores and ratings.",
    "within 1": "Share of scores at most one step of the scale from the rating.",
    "ρ": "Spearman's rank correlation.",
    "τ": "Kendall's rank correlation, τ-b.",
    "κ": "Cohen's kappa with quadratic weights: agreement beyond chance.",
    "log loss": "Mean of −log of the probability that was predicted for the given answer; lower is better.",
    "smECE": "Smooth calibration error: the mean distance between a predicted probability and the observed frequency.",
    "α": "Krippendorff's α: agreement among annotators beyond chance.",
    "band": "Range of answers that holds a new rating with the stated probability.",
    "bias": "Mean of score minus rating; above 0 the scores are too high.",
    "95% interval": "Range of the figure over resampled conversations.",
}
"""Definitions of the report's terms."""


def term(name: str, shown: str = "") -> Markup:
    """Return a term with its definition as tooltip."""
    return Markup('<abbr title="{}">{}</abbr>').format(TERMS[name], shown or name)


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
    environment.globals.update(term=term, terms=TERMS, show=show_section, figure=show_figure, icon=icon, key=key)
    environment.filters.update(number=number, percent=percent, legend=legend)
    return redact(environment.get_template(name).render(style=style_with_font(), **values))


def show_section(section: Section) -> Markup:
    """Return a section of a document as HTML with drawn charts."""
    return Markup(section_html(section, draw_charts))


def show_figure(figure: Figure) -> Markup:
    """Return a figure as HTML: its text, with its full value, definition and set."""
    return Markup(figure_html(figure))


def draw_charts(part: Charts) -> Markup:
    """Return the charts of a section in one row, with their captions and the legend."""
    figures = Markup("").join(
        Markup("<figure><figcaption>{}</figcaption>{}</figure>").format(chart.caption, _drawn(chart))
        for chart in part.charts
    )
    return Markup('{}<div class="charts">{}</div>').format(legend(part.legend) if part.legend else "", figures)


def _drawn(chart: Points | Histogram) -> Markup:
    if isinstance(chart, Points):
        rows = [ChartRow(point.name, point.figure, "tool" if point.is_flagged else "people") for point in chart.points]
        return row_chart(rows, Axis(chart.axis), chart.caption, is_signed=True)
    threshold = [] if chart.at is None else [Guide(chart.at, is_solid=True)]
    window = [Guide(end) for end in chart.window if end is not None]
    return histogram(chart.groups, Axis(chart.axis), Axis(chart.counted, low=0), chart.caption, threshold + window)
