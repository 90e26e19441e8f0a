"""The report's part on scoring in context: how well it does, who picks the examples, which prompts stayed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from accord.methods import TABLES
from accord.project import Insights
from accord.report import charts


def found_sections(findings: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The sections of sources that say something of themselves; `None` for each that was not learned."""
    about = {name: findings.get(name) for name in ("learned-rubric", "in-context")}
    rubric, examples = about["learned-rubric"], about["in-context"]
    return {"rubric": rubric and rubric_section(rubric), "in_context": examples and dict(examples)}


COLUMNS = (
    ("delta_netsat", "ΔNetSAT"), ("yield_rate", "yield"), ("yield_deployed", "yield deployed"),
    ("precision_deployed", "right there"), ("accuracy", "accuracy"), ("precision", "precision"), ("recall", "recall"),
    ("f1", "F1"),
)  # fmt: skip
MOST_POINTS = 400
"""Of a precision curve: more would not be seen."""


def rubric_section(found: Mapping[str, Any]) -> dict[str, Any]:
    """Everything the page shows of the findings of a learned rubric."""
    assertions = found["assertions"]
    low, high = found["window"]
    tables = [(title, [row for row in found["rows"] if row["table"] == number]) for number, title in TABLES.items()]
    return {
        **found,
        "tables": [(title, rows) for title, rows in tables if len(rows) > 1],
        "columns": COLUMNS,
        "best": next(row for row in found["rows"] if row["table"] == 1),
        "separations": charts.separations(_separations(assertions)),
        "scores_chart": charts.distribution(found["scores"], found["threshold"], low, high),
        "curves_chart": charts.precisions(_thinned(found["curves"]), found["precision"], low, high),
        "worst": assertions[0],
        "has_systems": len(assertions[0]["by_system"]) > 1,
        "uncertain": sum(one["said"] == "uncertain" for one in found["scores"]) / len(found["scores"]),
    }


def _separations(assertions: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "assertion": f"{one['id']}: {one['text']}", "value": one["separation"],
            "low": one["separation_low"], "high": one["separation_high"],
            "flagged": one["separation_low"] is None or one["separation_low"] <= 0,
        }
        for one in sorted(assertions, key=lambda one: -one["separation"])
    ]  # fmt: skip


def _thinned(points: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return list(points[:: max(1, len(points) // MOST_POINTS)])


GROUPS_SHOWN = 12
FLAGGED = 0.05


def sections(insights: Insights, drift: Sequence[Mapping[str, Any]], scale: str) -> dict[str, Any]:
    """Charts, rows and sentences of every part; a part of which nothing can be said is `None`."""
    return {
        "cautions": insights.cautions,
        "reliability": _reliability(insights),
        "groups": _groups(insights),
        "importance": _importance(insights, scale),
        "curve": _curve(insights),
        "adaptive": _adaptive(insights),
        "drift": _drift(drift),
    }


def _reliability(insights: Insights) -> dict[str, Any] | None:
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
    return {"panels": panels, "worst": worst.option, "error": worst.error or 0.0}


def _groups(insights: Insights) -> dict[str, Any] | None:
    if not insights.groups:
        return None
    shown = insights.groups[:GROUPS_SHOWN]
    rows = [
        {
            "group": f"{g.by}: {g.name}",
            "value": g.bias,
            "low": g.intervals["bias"].low,
            "high": g.intervals["bias"].high,
            "flagged": g.p_holm < FLAGGED,
        }
        for g in sorted(shown, key=lambda group: (group.by, group.name))
        if g.bias is not None and g.intervals["bias"].low is not None
    ]
    flagged = [f"{g.by} {g.name} ({g.apart:+.2f})" for g in insights.groups if g.p_holm < FLAGGED]
    chart = charts.biases(rows) if rows else None
    return {"chart": chart, "rows": insights.groups, "flagged": flagged, "left_out": len(insights.groups) - len(shown)}


def _importance(insights: Insights, scale: str) -> dict[str, Any] | None:
    rows = [
        {"question": one.question, "value": one.value, "low": one.interval.low, "high": one.interval.high}
        for one in insights.importance
        if one.interval.low is not None
    ]
    if not rows:
        return None
    first = insights.importance[0]
    return {"chart": charts.importance(rows), "first": first.question, "value": first.value, "scale": scale}


def _curve(insights: Insights) -> dict[str, Any] | None:
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
    return {"panels": [panel for panel in panels if panel[1]], "gain": worse - better, "more": round(after - before)}


def _adaptive(insights: Insights) -> dict[str, Any] | None:
    from accord.statistics import STATISTICS

    known = [(one.most, value) for one in insights.adaptive if (value := STATISTICS["rmse"](one.paired)) is not None]
    if len(known) < 2:
        return None
    enough = next(most for most, value in known if value <= 1.01 * known[-1][1])
    rows = [{"labels": most, "value": value, "low": None, "high": None} for most, value in known]
    return {"chart": charts.curve(rows, "questions asked", "RMSE"), "enough": enough, "all": known[-1][0]}


def _drift(drift: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    if not drift:
        return None
    rows = [{"feature": row["feature"], "value": row["stability"], "flagged": row["is_shifted"]} for row in drift[:15]]
    moved = [row["feature"] for row in drift if row["is_shifted"]]
    return {"chart": charts.stability(rows), "moved": moved, "of": len(drift)}
