"""The report's parts beyond agreement: calibration, groups, questions, learning curves, drift, as values and SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from accord.project import Insights
from accord.report import charts
from accord.statistics import STATISTICS
from accord.validation import Group
from accord.values import Estimate, Point

GROUPS_SHOWN, FEATURES_SHOWN = 12, 15
FLAGGED = 0.05
Panels = Sequence[tuple[str, str]]
"""Charts as SVG, each with its title."""


@dataclass(frozen=True)
class Reliability:
    """How often each answer was given where predicted; the answer whose probabilities are worst, and its smECE."""

    panels: Panels
    worst: str
    error: float


def reliability(insights: Insights) -> Reliability | None:
    """Calibration of each answer; `None` where nothing can be said."""
    shown = [one for one in insights.diagrams if len(one.predicted) > 1]
    if not shown:
        return None
    worst = max(shown, key=lambda one: one.error or 0.0)
    panels = []
    for one in shown:
        rows = [
            {"predicted": float(p), "happened": float(h), "low": float(low), "high": float(high), "density": float(d)}
            for p, h, low, high, d in zip(one.predicted, one.happened, one.low, one.high, one.density, strict=True)
        ]
        error = "–" if one.error is None else f"{one.error:.3f}"
        panels.append((f"answer {one.option}: smECE {error}", charts.reliability(rows)))
    return Reliability(panels, worst.option, worst.error or 0.0)


@dataclass(frozen=True)
class GroupErrors:
    """Every group (`rows`), the names of those that differ from all others, and how many are not in the chart."""

    chart: str | None
    rows: Sequence[Group]
    flagged: Sequence[str]
    left_out: int


def group_errors(insights: Insights) -> GroupErrors | None:
    """Errors by group; `None` where there are no groups."""
    if not insights.groups:
        return None
    shown = insights.groups[:GROUPS_SHOWN]
    points = [
        Point(f"{g.by}: {g.name}", Estimate(g.bias, band.low, band.high), g.p_holm < FLAGGED)
        for g in sorted(shown, key=lambda group: (group.by, group.name))
        if g.bias is not None and (band := g.intervals["bias"]).low is not None
    ]
    flagged = [f"{g.by} {g.name} ({g.apart:+.2f})" for g in insights.groups if g.p_holm < FLAGGED]
    chart = charts.points(points, "prediction minus rating") if points else None
    return GroupErrors(chart, insights.groups, flagged, len(insights.groups) - len(shown))


@dataclass(frozen=True)
class QuestionImportance:
    """The question that matters most (`first`) with its worth a step, on the main answer's `scale`."""

    chart: str
    first: str
    value: float
    scale: str


def question_importance(insights: Insights, scale: str) -> QuestionImportance | None:
    """Importance of the questions; `None` where none has an interval."""
    points = [
        Point(one.question, Estimate(one.value, one.interval.low, one.interval.high))
        for one in insights.importance
        if one.interval.low is not None
    ]
    if not points:
        return None
    first = insights.importance[0]
    return QuestionImportance(charts.points(points, "rise of the main answer"), first.question, first.value, scale)


@dataclass(frozen=True)
class LearningCurve:
    """Agreement by labels learned from; by how much the last `more` labels lowered RMSE (`gain`)."""

    panels: Panels
    gain: float
    more: int


def learning_curve(insights: Insights) -> LearningCurve | None:
    """The learning curve; `None` where it has no two points."""
    rows = [
        {"labels": point.labels, "value": point.values[name], "low": found.low, "high": found.high, "statistic": name}
        for point in insights.curve
        for name, found in point.intervals.items()
        if point.values[name] is not None and found.low is not None
    ]
    whole = [(point.labels, value) for point in insights.curve if (value := point.values["rmse"]) is not None]
    if len(whole) < 2:
        return None
    (before, worse), (after, better) = whole[-2:]
    panels = [
        (title, charts.curve([row for row in rows if row["statistic"] == name], "labels learned from", title))
        for name, title in (("rmse", "RMSE"), ("pearson", "r"))
    ]
    return LearningCurve([panel for panel in panels if panel[1]], worse - better, round(after - before))


@dataclass(frozen=True)
class AdaptiveCurve:
    """Error by questions asked; how many come within 1 % of the RMSE of `all`."""

    chart: str
    enough: int
    all: int


def adaptive_curve(insights: Insights) -> AdaptiveCurve | None:
    """The adaptive rubric's curve; `None` where it has no two points."""
    known = [(one.most, value) for one in insights.adaptive if (value := STATISTICS["rmse"](one.paired)) is not None]
    if len(known) < 2:
        return None
    enough = next(most for most, value in known if value <= 1.01 * known[-1][1])
    rows = [{"labels": most, "value": value, "low": None, "high": None} for most, value in known]
    return AdaptiveCurve(charts.curve(rows, "questions asked", "RMSE"), enough, known[-1][0])


@dataclass(frozen=True)
class Drift:
    """Features by how far they moved: the names of those that did, `of` how many."""

    chart: str
    moved: Sequence[str]
    of: int


def drift_of(rows: Sequence[Mapping[str, Any]]) -> Drift | None:
    """Drift since training; `None` where nothing was scored."""
    if not rows:
        return None
    shown = [
        {"feature": row["feature"], "value": row["stability"], "flagged": row["is_shifted"]}
        for row in rows[:FEATURES_SHOWN]
    ]
    return Drift(charts.stability(shown), [row["feature"] for row in rows if row["is_shifted"]], len(rows))
