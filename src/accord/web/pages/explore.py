"""Explore page: any score, metadata entry or metric against any other, as one chart whose address is its state.

The server draws the chart from a bounded sample of the latest scores. Synthetic conversations are left out by default.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random
from statistics import fmean, median, quantiles
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from markupsafe import Markup

from accord.charts import Axis, ChartLine, ChartRow, column_chart, interval_plot, line_chart, ticks
from accord.edges import BadInput, sendable
from accord.project import Project
from accord.scoring import latest_scored
from accord.store import scores_of_run
from accord.values import Conversation, Estimate, Sample
from accord.web.context import WorkbenchContext, add_page

SAMPLE_SIZE = 2000
"""Maximum number of scores in a chart; a larger run is sampled with the project's seed."""
CATEGORIES, SERIES = 20, 6
"""Maximum number of categories and of colors; the rarest values are pooled as `OTHER`."""
OTHER, COUNT, NONE = "(other)", "count", "(none)"
X_BINS, COLOR_BINS = 12, 4
MARKS = ("bar", "line", "point", "quartiles")
AGGREGATES = ("mean", "median", "min", "max", COUNT, "none")
_STATISTICS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "mean": fmean, "median": median, "min": min, "max": max, COUNT: len,
}  # fmt: skip
SCORE_FIELDS = ("value", "low", "high", "variance", "entropy")
CHART_SIZE = (640, 320)
Cell = str | float | bool | None


@dataclass(frozen=True)
class ScoreTable:
    """Sampled scores of the latest run: values by column name, `None` for a missing one.

    `columns` are True if they hold only numbers, `total` counts the scores of the run without those left out, and
    `unknown` the sampled scores whose conversation is not in the store.
    """

    run: str = ""
    rows: Sequence[dict[str, Cell]] = ()
    columns: Mapping[str, bool] = field(default_factory=dict)
    total: int = 0
    synthetic: int = 0
    unknown: int = 0


def load_score_table(project: Project, synthetic: bool = False, size: int = SAMPLE_SIZE) -> ScoreTable:
    """Return the latest scores with metadata and metrics of their conversations.

    Args:
        project: Project whose store and sources are used.
        synthetic: True to include synthetic conversations.
        size: Maximum number of rows.
    """
    run = latest_scored(project.store, project.mart)
    if run is None:
        return ScoreTable()
    random, sample, total, left_out = Random(project.config.seed), list[Mapping[str, Any]](), 0, 0
    excluded = set() if synthetic else {each.id for each in project.store.conversations(synthetic="only")}
    for score in scores_of_run(project.mart, run):
        if score["conversation"] in excluded:
            left_out += 1
            continue
        total += 1
        if len(sample) < size:
            sample.append(score)
        elif (place := random.randrange(total)) < size:  # reservoir sampling: one pass over all scores
            sample[place] = score
    conversations = {each.id: each for each in project.store.conversations({row["conversation"] for row in sample})}
    rows = [_table_row(score, conversations.get(score["conversation"])) for score in sample]
    for row, metrics in zip(rows, _metrics(project, sample, conversations), strict=True):
        row.update(metrics)
    unknown = sum(score["conversation"] not in conversations for score in sample)
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: all(_is_number(row.get(name)) or row.get(name) is None for row in rows) for name in names}
    return ScoreTable(run, rows, columns, total, left_out, unknown)


def _table_row(score: Mapping[str, Any], conversation: Conversation | None) -> dict[str, Cell]:
    row: dict[str, Cell] = {f"score: {name}": score.get(name) for name in SCORE_FIELDS}
    row |= {"score: annotator": score.get("annotator"), "score: warning": bool(score.get("warning"))}
    for name, answer in ((score.get("notes") or {}).get("other_questions") or {}).items():
        row[f"question: {name}"] = answer.get("value")
    if conversation is not None:
        row["turns"] = len(conversation.turns)
        for name, value in conversation.metadata.items():
            if isinstance(value, str | int | float):
                row[sendable(f"metadata: {name}")] = sendable(value)[:200] if isinstance(value, str) else value
        row["synthetic"] = conversation.is_synthetic
    return row


def _metrics(
    project: Project, scores: Sequence[Mapping[str, Any]], conversations: Mapping[str, Conversation]
) -> list[dict[str, float]]:
    """Return the metrics of each score's target, from the sources that need no model."""
    sources = [source for name in project.evidence if not (source := project.source(name)).roles]
    samples = {
        (row["conversation"], row.get("turn")): Sample(conversations[row["conversation"]], row.get("turn"))
        for row in scores
        if row["conversation"] in conversations
        and (row.get("turn") or 0) < len(conversations[row["conversation"]].turns)
    }
    table = project.measure(sources, list(samples.values()))
    index = {tuple(target): number for number, target in enumerate(table.targets)}
    rows = [index.get((score["conversation"], score.get("turn"))) for score in scores]
    return [
        {}
        if row is None
        else {
            f"metric: {column.name}": float(table.values[row, at])
            for at, column in enumerate(table.columns)
            if table.present[row, at]
        }
        for row in rows
    ]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


# --- chart ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ChartSettings:
    """Columns for x, y and color (empty for none), a mark, and the aggregate of y."""

    x: str
    y: str
    color: str
    mark: str
    aggregate: str

    @classmethod
    def from_query(cls, fields: Mapping[str, str], columns: Mapping[str, bool]) -> ChartSettings:
        """Return the settings of a query, with defaults for missing fields.

        Raises:
            BadInput: A field names an unknown column, mark or aggregate, or the combination cannot be drawn.
        """
        of_metadata = sorted((name for name in columns if name.startswith("metadata: ")), key="metadata: system".__ne__)
        settings = cls(
            fields.get("x") or next(iter(of_metadata), "turns"), fields.get("y") or "score: value",
            fields.get("color", ""), fields.get("mark") or "bar", fields.get("aggregate") or "mean",
        )  # fmt: skip
        choices = [(settings.mark, MARKS, "mark"), (settings.aggregate, AGGREGATES, "aggregate")]
        names = ("", *columns) if columns else None
        choices += [(name, names, "column") for name in (settings.x, settings.y, settings.color) if names]
        for value, allowed, kind in choices:
            if value not in allowed:
                raise BadInput(f"{kind}: got {value[:60]!r}, allowed: {', '.join(filter(None, allowed))}")
        if settings.aggregate == "none" and settings.mark == "bar":
            raise BadInput("aggregate 'none' needs the mark point, line or quartiles; choose one of them")
        needs_numbers = settings.mark == "quartiles" or settings.aggregate != COUNT
        if needs_numbers and not columns.get(settings.y, True):
            raise BadInput(f"y: {settings.y[:60]!r} holds text; choose a column of numbers, or the aggregate count")
        return settings


@dataclass(frozen=True)
class Group:
    """Rows with the same value of x and of color; `at` is the place on the x axis."""

    x: str
    at: float
    color: str
    values: Sequence[float]


@dataclass(frozen=True)
class ExploreChart:
    """A chart of a table."""

    table: ScoreTable
    settings: ChartSettings

    @property
    def is_raw(self) -> bool:
        """True if every score is drawn as its own point."""
        return self.settings.aggregate == "none" and self.settings.mark != "quartiles"

    def groups(self) -> list[Group]:
        """Return the scores by x and color, in the order of the x axis."""
        settings, table = self.settings, self.table
        xs = _binned(table, settings.x, CATEGORIES, X_BINS, is_binned=not self.is_raw)
        colors = _binned(table, settings.color, SERIES, COLOR_BINS) if settings.color else [("", 0.0)] * len(xs)
        is_counted = settings.aggregate == COUNT and settings.mark != "quartiles"
        cells: dict[tuple[str, float, str], list[float]] = {}
        for row, x, color in zip(table.rows, xs, colors, strict=True):
            value = 1.0 if is_counted else row.get(settings.y)
            if x is not None and color is not None and _is_number(value):
                cells.setdefault((*x, color[0]), []).append(float(value))  # type: ignore[arg-type]
        return sorted((Group(*key, values) for key, values in cells.items()), key=lambda group: (group.at, group.color))

    def to_json(self) -> dict[str, Any]:
        """Return the settings and the numbers that are drawn."""
        settings = vars(self.settings)
        if self.is_raw:
            points = [{"x": g.x, "color": g.color, "y": y} for g in self.groups() for y in g.values]
            return {**settings, "points": points}
        statistic = _quartiles if self.settings.mark == "quartiles" else _STATISTICS[self.settings.aggregate]
        groups = [{"x": g.x, "color": g.color, "n": len(g.values), "y": statistic(g.values)} for g in self.groups()]
        return {**settings, "groups": groups}

    @property
    def title(self) -> str:
        """Description of the chart."""
        settings = self.settings
        y = "Number of scores" if settings.aggregate == COUNT and settings.mark != "quartiles" else settings.y
        color = f", colored by {settings.color}" if settings.color else ""
        summary = "" if self.is_raw or settings.aggregate == COUNT else f"; {settings.aggregate} of the scores shown"
        summary = "; median and quartiles" if settings.mark == "quartiles" else summary
        return f"{y} by {settings.x}{color}{summary}"

    def draw(self) -> Markup:
        """Return the chart as SVG."""
        settings, groups = self.settings, self.groups()
        x_axis = Axis(settings.x)
        if settings.mark == "quartiles":
            rows = [
                ChartRow(", ".join(filter(None, (group.x, group.color))), Estimate(*_quartiles(group.values)), "people")
                for group in groups
            ]
            return interval_plot(rows, Axis(settings.y), self.title)
        aggregate = settings.aggregate
        y_axis = Axis(COUNT if aggregate == COUNT else settings.y if self.is_raw else f"{aggregate} of {settings.y}")
        places = dict(sorted({group.at: group.x for group in groups}.items()))
        series: dict[str, dict[float, Sequence[float]]] = {}
        for group in groups:
            series.setdefault(group.color, {})[group.at] = group.values
        if settings.mark == "bar":
            heights = {
                color: [_STATISTICS[aggregate](values[at]) if at in values else 0.0 for at in places]
                for color, values in series.items()
            }
            return column_chart(list(places.values()), heights, x_axis, y_axis, self.title, size=CHART_SIZE)
        if not self.table.columns.get(settings.x) or not self.is_raw:
            x_axis = Axis(settings.x, labels=places)
        draws = "points" if settings.mark == "point" else "line points"
        lines = [self._line(values, f"s{n % 10}", color, draws) for n, (color, values) in enumerate(series.items())]
        return line_chart(lines, x_axis, y_axis, self.title, size=CHART_SIZE)

    def _line(self, values: Mapping[float, Sequence[float]], kind: str, name: str, draws: str) -> ChartLine:
        if self.is_raw:
            points = [(at, y) for at, ys in values.items() for y in ys]
        else:
            points = [(at, _STATISTICS[self.settings.aggregate](ys)) for at, ys in values.items()]
        return ChartLine([at for at, _ in points], [y for _, y in points], kind=kind, name=name, draws=draws)


def _quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the median and the first and third quartile."""
    if len(values) < 2:
        return values[0], values[0], values[0]
    low, middle, high = quantiles(values, n=4, method="inclusive")
    return middle, low, high


def _binned(
    table: ScoreTable, name: str, categories: int, bins: int, is_binned: bool = True
) -> list[tuple[str, float] | None]:
    """Return each row's label and place on an axis: bins of numbers, or the most frequent texts and `OTHER`."""
    column = [row.get(name) for row in table.rows]
    if not table.columns.get(name):
        texts = [NONE if value is None else str(value) for value in column]
        frequent = {text for text, _ in Counter(texts).most_common(categories)}
        pooled = [text if text in frequent else OTHER for text in texts]
        ordered = sorted(set(pooled), key=lambda text: (text == OTHER, text))
        order = {text: float(place) for place, text in enumerate(ordered)}
        return [(text, order[text]) for text in pooled]
    numbers = [None if value is None else float(value) for value in column]
    known = [value for value in numbers if value is not None]
    if not is_binned or len(set(known)) <= bins:
        return [None if value is None else (f"{value:g}", value) for value in numbers]
    edges = ticks(min(known), max(known), bins)
    step = edges[1] - edges[0]
    lows = [None if value is None else math.floor(value / step + 1e-9) * step for value in numbers]
    return [None if low is None else (f"{low:.4g} to {low + step:.4g}", low) for low in lows]


# --- page -----------------------------------------------------------------------------------------------------------


def add_routes(app: FastAPI, context: WorkbenchContext) -> None:
    """Add the explore page and its data."""
    page = _ExplorePage(context)
    add_page(app, "/explore", page.show)


class _ExplorePage:
    def __init__(self, context: WorkbenchContext) -> None:
        self.context = context
        self._table = lru_cache(maxsize=2)(self._load)

    def _load(self, run: str, synthetic: bool) -> ScoreTable:
        return load_score_table(self.context.project, synthetic)

    def show(self, request: Request) -> Response:
        """Show the form and the chart; with `.json`, the numbers that are drawn."""
        visitor = self.context.visitor(request, "lead")
        fields = {name: str(value) for name, value in request.query_params.items()}
        with_synthetic = fields.get("synthetic") == "yes"
        run = latest_scored(self.context.project.store, self.context.project.mart)
        table = self._table(run or "", with_synthetic)
        settings = ChartSettings.from_query(fields, table.columns)
        chart = ExploreChart(table, settings)
        data = {"run": table.run, "shown": len(table.rows), "total": table.total, "synthetic": table.synthetic,
                "unknown": table.unknown}  # fmt: skip
        if request.url.path.endswith(".json"):
            return JSONResponse({**data, "columns": dict(table.columns), "chart": chart.to_json()})
        return self.context.render(
            "explore", visitor, data=data, settings=settings, columns=list(table.columns), marks=MARKS,
            aggregates=AGGREGATES, with_synthetic=with_synthetic, query=request.url.query,
            chart=chart.draw() if table.rows else None, title=chart.title,
        )  # fmt: skip
