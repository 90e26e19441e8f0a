"""Sections of the report: calibration, errors by group, importance of questions, learning curves, drift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from accord.charts import Axis, ChartLine, ChartRow, bar_chart, interval_plot, line_chart
from accord.project import Insights
from accord.statistics import STATISTICS, Diagram
from accord.validation import GroupAccuracy
from accord.values import Estimate

GROUPS_SHOWN, FEATURES_SHOWN = 12, 15
SIGNIFICANCE = 0.05
Panels = Sequence[tuple[str, Markup]]
"""Charts with their titles."""


@dataclass(frozen=True)
class Reliability:
    """Calibration curve of each answer, and the answer with the largest smECE (`error`)."""

    panels: Panels
    worst: str
    error: float


def reliability(insights: Insights) -> Reliability | None:
    """Return the calibration of each answer; `None` without predictions."""
    shown = [one for one in insights.diagrams if len(one.predicted) > 1]
    if not shown:
        return None
    worst = max(shown, key=lambda one: one.error.value or 0.0)
    panels = []
    for one in shown:
        error = "–" if one.error.value is None else f"{one.error.value:.3f}"
        panels.append((f"answer {one.option}: smECE {error}", _reliability_curve(one)))
    return Reliability(panels, worst.option, worst.error.value or 0.0)


def _reliability_curve(diagram: Diagram) -> Markup:
    """Draw the observed frequency by predicted probability, with a wider line where predictions are dense."""
    lines = [
        ChartLine(diagram.predicted.tolist(), diagram.happened.tolist(), diagram.low.tolist(), diagram.high.tolist(),
             kind="s0", weights=diagram.density.tolist()),
        ChartLine([0, 1], [0, 1], kind="neutral", is_dashed=True),
    ]  # fmt: skip
    title = f"Calibration of answer {diagram.option}"
    return line_chart(lines, Axis("predicted", 0, 1), Axis("observed", 0, 1), title, size=(150, 150))


@dataclass(frozen=True)
class GroupErrors:
    """Errors of all groups (`rows`), names of groups that differ, and the number of groups not in the chart."""

    chart: Markup | None
    rows: Sequence[GroupAccuracy]
    flagged: Sequence[str]
    left_out: int


def group_errors(insights: Insights) -> GroupErrors | None:
    """Return the errors by group; `None` without groups."""
    if not insights.groups:
        return None
    shown = insights.groups[:GROUPS_SHOWN]
    points = [
        ChartRow(f"{g.by}: {g.name}", g.bias, "flagged" if g.p_holm < SIGNIFICANCE else "people")
        for g in sorted(shown, key=lambda group: (group.by, group.name))
        if g.bias.value is not None and g.bias.low is not None
    ]
    flagged = [f"{g.by} {g.name} ({g.apart:+.2f})" for g in insights.groups if g.p_holm < SIGNIFICANCE]
    chart = interval_plot(points, Axis("prediction minus rating"), "Errors by group", 0.0) if points else None
    return GroupErrors(chart, insights.groups, flagged, len(insights.groups) - len(shown))


@dataclass(frozen=True)
class QuestionImportance:
    """The most important question (`first`) with its effect per step, on the `scale` of the main question."""

    chart: Markup
    first: str
    value: float
    scale: str


def question_importance(insights: Insights, scale: str) -> QuestionImportance | None:
    """Return the importance of the questions; `None` without intervals."""
    points = [
        ChartRow(one.question, one.estimate, "people") for one in insights.importance if one.estimate.low is not None
    ]
    if not points:
        return None
    first, axis = insights.importance[0], Axis("rise of the main answer")
    return QuestionImportance(
        interval_plot(points, axis, "Importance of the questions", 0.0),
        first.question,
        first.estimate.value or 0.0,
        scale,
    )


@dataclass(frozen=True)
class LearningCurve:
    """Agreement by number of labels; `gain` is the decrease of RMSE by the last `more` labels."""

    panels: Panels
    gain: float
    more: int


def learning_curve(insights: Insights) -> LearningCurve | None:
    """Return the learning curve; `None` with fewer than two points."""
    whole = [(point.labels, value) for point in insights.curve if (value := point.estimates["rmse"].value) is not None]
    if len(whole) < 2:
        return None
    (before, worse), (after, better) = whole[-2:]
    panels = [(title, _curve(insights, name, title)) for name, title in (("rmse", "RMSE"), ("pearson", "r"))]
    return LearningCurve([panel for panel in panels if panel[1]], worse - better, round(after - before))


def _curve(insights: Insights, statistic: str, title: str) -> Markup:
    """Draw a statistic with its interval by number of labels; empty without an interval."""
    points = [
        (point.labels, estimate.value, estimate.low, estimate.high)
        for point in insights.curve
        if (estimate := point.estimates[statistic]).value is not None
        and estimate.low is not None and estimate.high is not None
    ]  # fmt: skip
    if not points:
        return Markup("")
    labels, values, low, high = zip(*points, strict=True)
    line = ChartLine(labels, values, low, high, draws="line points")
    return line_chart([line], Axis("labels learned from"), Axis(title), f"Learning curve: {title}")


@dataclass(frozen=True)
class AdaptiveCurve:
    """Error by number of questions; `enough` questions come within 1% of the RMSE of `all`."""

    chart: Markup
    enough: int
    all: int


def adaptive_curve(insights: Insights) -> AdaptiveCurve | None:
    """Return the curve of the adaptive rubric; `None` with fewer than two points."""
    known = [(one.most, value) for one in insights.adaptive if (value := STATISTICS["rmse"](one.paired)) is not None]
    if len(known) < 2:
        return None
    enough = next(most for most, value in known if value <= 1.01 * known[-1][1])
    line = ChartLine([most for most, _ in known], [value for _, value in known], draws="line points")
    chart = line_chart([line], Axis("questions asked"), Axis("RMSE"), "Error by number of questions")
    return AdaptiveCurve(chart, enough, known[-1][0])


@dataclass(frozen=True)
class Drift:
    """Drift by feature: names of the features with drift, and the number of all (`of`)."""

    chart: Markup
    moved: Sequence[str]
    of: int


def drift_of(rows: Sequence[Mapping[str, Any]]) -> Drift | None:
    """Return the drift since training; `None` without scores."""
    if not rows:
        return None
    bars = [
        ChartRow(row["feature"], Estimate(row["stability"]), "flagged" if row["is_shifted"] else "model")
        for row in rows[:FEATURES_SHOWN]
    ]
    chart = bar_chart(bars, Axis("population stability index"), "Drift by feature")
    return Drift(chart, [row["feature"] for row in rows if row["is_shifted"]], len(rows))
