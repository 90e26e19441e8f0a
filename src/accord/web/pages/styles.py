"""A page with every component of the pages, for people who change them."""

from __future__ import annotations

import random

from fastapi import FastAPI, Request
from fastapi.responses import Response
from markupsafe import Markup

from accord.charts import Axis, ChartLine, ChartRow, key, row_chart, scatter
from accord.values import Estimate
from accord.web.context import WorkbenchContext


def add_routes(app: FastAPI, context: WorkbenchContext) -> None:
    """Add the page; the menu does not link to it."""

    @app.get("/styles")
    def styles(request: Request) -> Response:
        visitor = context.visitor(request, "lead")
        rng = random.Random(0)
        scores = [round(rng.uniform(2, 4.5), 2) for _ in range(60)]
        ratings = [min(max(round(3 * (score + rng.gauss(0, 0.7))) / 3, 1.0), 5.0) for score in scores]
        errors = [
            ChartRow("Constant guess", Estimate(1.14, 1.06, 1.22), "neutral"),
            ChartRow("Evaluator", Estimate(0.98, 0.92, 1.05)),
            ChartRow("Another person", Estimate(0.93, 0.86, 1.0), "people"),
        ]
        gap = [
            ChartRow("18 new, scores", Estimate(0.66, 0.14, 1.19)),
            ChartRow("138 rated, people", Estimate(0.66, 0.36, 0.96), "people"),
        ]
        versions = [
            ChartRow("v2", Estimate(3.62, 3.36, 3.98), count=9, dots=[3.0, 3.2, 3.3, 3.3, 3.7, 3.8, 4.0, 4.0, 4.3]),
            ChartRow("v1", Estimate(2.96, 2.55, 3.33), count=9, dots=[2.2, 2.4, 2.5, 2.6, 2.8, 3.1, 3.5, 3.7, 3.8]),
        ]
        effects = [ChartRow("Words per reply", Estimate(0.3)), ChartRow("Apologies", Estimate(-0.4), "neutral")]
        found = ChartLine([0, 7, 14, 21, 28, 42], [0, 2, 6, 8, 8, 12], name="12 of 18", draws="both")
        chance = ChartLine([0, 42], [0, 5.5], kind="neutral", name="by chance", is_dashed=True)
        return context.render(
            "styles", visitor, legend=Markup("").join([key("people", "people"), key("tool", "scores")]),
            rows=row_chart(errors, Axis("points"), "Error of one score", zone=(None, 1.02)),
            difference=row_chart(gap, Axis(), "Difference", is_signed=True),
            cloud=scatter([ChartLine(scores, ratings, draws="points")], Axis("score", 1, 5), Axis("people", 1, 5),
                          "People against scores", has_diagonal=True),
            curve=scatter([found, chance], Axis("conversations read, lowest score first", 0), Axis("found", 0, 18),
                          "Bad conversations found"),
            dots=row_chart(versions, Axis("", 1, 5), "Scores by version"),
            bars=row_chart(effects, Axis(), "What raises a score", is_bars=True),
        )  # fmt: skip
