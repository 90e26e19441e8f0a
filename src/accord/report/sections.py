"""The report's part on scoring in context: how well it does, who picks the examples, which prompts stayed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from accord.methods import TABLES, AssertionFindings, Figure, InContextFindings, RubricFindings, SystemFigures
from accord.project import Insights
from accord.report import charts


def found_sections(findings: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The sections of sources that say something of themselves; `None` for each that was not learned."""
    rubric, examples = findings.get("learned-rubric"), findings.get("in-context")
    return {
        "rubric": None if rubric is None else rubric_section(RubricFindings.of_json(rubric)),
        "in_context": InContextFindings.from_json(examples) if examples else None,
    }


COLUMNS = (
    ("delta_netsat", "ΔNetSAT"), ("yield_rate", "yield"), ("yield_deployed", "yield deployed"),
    ("precision_deployed", "right there"), ("accuracy", "accuracy"), ("precision", "precision"), ("recall", "recall"),
    ("f1", "F1"),
)  # fmt: skip
MOST_POINTS = 400
"""Of a precision curve: more would not be seen."""


@dataclass(frozen=True)
class RubricSection:
    """The learned rubric on the page: its findings, its tables as titles with lines, and its charts as SVG."""

    found: RubricFindings
    tables: Sequence[tuple[str, Sequence[SystemFigures]]]
    separations: str
    scores_chart: str
    curves_chart: str
    columns: Sequence[tuple[str, str]] = COLUMNS

    @property
    def best(self) -> Mapping[str, Figure]:
        """The figures of the learned rubric."""
        return self.found.rows[0].figures

    @property
    def worst(self) -> AssertionFindings:
        """The assertion that fails most."""
        return self.found.assertions[0]

    @property
    def uncertain(self) -> float:
        """The share of the held-out conversations without a label."""
        return sum(one.said == "uncertain" for one in self.found.scores) / len(self.found.scores)


def rubric_section(found: RubricFindings) -> RubricSection:
    """Everything the page shows of the findings of a learned rubric."""
    low, high = found.window
    tables = [(title, found.table(number)) for number, title in TABLES.items()]
    curves = found.curves[:: max(1, len(found.curves) // MOST_POINTS)]
    return RubricSection(
        found,
        [(title, rows) for title, rows in tables if len(rows) > 1],
        charts.separations(_separations(found.assertions)),
        charts.distribution(list(map(asdict, found.scores)), found.threshold, low, high),
        charts.precisions(list(map(asdict, curves)), found.precision, low, high),
    )


def _separations(assertions: Sequence[AssertionFindings]) -> list[dict[str, Any]]:
    return [
        {
            "assertion": f"{one.id}: {one.text}", "value": one.separation,
            "low": one.separation_low, "high": one.separation_high,
            "flagged": one.separation_low is None or one.separation_low <= 0,
        }
        for one in sorted(assertions, key=lambda one: -one.separation)
    ]  # fmt: skip


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
