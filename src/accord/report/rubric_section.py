"""The report's part on a learned rubric: what separates, how sharply, what fails most and for whom, what it cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from accord.pipeline.rubric_study import TABLES
from accord.report import charts

COLUMNS = (
    ("delta_netsat", "ΔNetSAT"), ("yield_rate", "yield"), ("yield_deployed", "yield deployed"),
    ("precision_deployed", "right there"), ("accuracy", "accuracy"), ("precision", "precision"), ("recall", "recall"),
    ("f1", "F1"),
)  # fmt: skip
MOST_POINTS = 400
"""Of a precision curve: more would not be seen."""


def rubric_section(found: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Everything the page shows of the findings of `accord fit learned-rubric`; `None` where there are none."""
    if found is None:
        return None
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
