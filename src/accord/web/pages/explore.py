"""Explore page: chart of any score, metadata entry or metric by any other. Its address holds its state.

By default it shows the mean of each assistant version. It has the filters of the board, with the same conversations,
and the same choice between scores and ratings. The server draws the chart from a bounded sample.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import quantiles
from typing import Any
from urllib.parse import parse_qs

import numpy as np
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from markupsafe import Markup
from numpy.typing import NDArray

from accord.board import DIMENSIONS, BoardFilters
from accord.charts import Axis, ChartLine, ChartRow, key, row_chart, scatter, ticks
from accord.edges import BadInput
from accord.statistics import Clusters, group_means
from accord.values import Estimate
from accord.web.context import WorkbenchContext, add_page
from accord.web.pages.explore_table import CATEGORIES, METADATA, ScoreTable, is_number, load_score_table

SERIES = 6
"""Maximum number of colors; the rarest values are pooled as `OTHER`."""
OTHER, NONE = "(other)", "(none)"
X_BINS, COLOR_BINS = 12, 4
MEAN, MEDIAN, COUNT, RAW = "mean", "median", "count", "none"
AGGREGATES = {
    MEAN: "Mean", MEDIAN: "Median", COUNT: "Number", RAW: "Every value",
}  # fmt: skip
ENDS = {MEAN: "95% interval of the mean", MEDIAN: "middle half of the values"}
"""Meaning of `low` and `high` in the JSON of a chart."""


# --- chart ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ChartSettings:
    """Columns for x, y and color (empty for none), and the aggregate of y."""

    x: str
    y: str
    color: str
    aggregate: str

    @classmethod
    def from_query(cls, fields: Mapping[str, str], table: ScoreTable) -> ChartSettings:
        """Return the settings of a query; by default the mean by group, or the distribution without groups.

        Raises:
            BadInput: A field names an unknown column or aggregate, or the combination cannot be drawn.
        """
        y = fields.get("y") or table.value
        x = fields.get("x") or table.default_group() or y
        settings = cls(x, y, fields.get("color", ""), fields.get("aggregate") or (COUNT if x == y else MEAN))
        choices: list[tuple[str, Iterable[str], str]] = [(settings.aggregate, AGGREGATES, "aggregate")]
        if table.columns:
            choices += [(name, ("", *table.columns), "column") for name in (x, y, settings.color)]
        for value, allowed, kind in choices:
            if value not in allowed:
                raise BadInput(f"{kind}: got {value[:60]!r}, allowed: {', '.join(filter(None, allowed))}")
        if settings.aggregate != COUNT and not table.columns.get(y, True):
            raise BadInput(f"y: {y[:60]!r} holds text; choose a column of numbers, or the aggregate count")
        return settings


@dataclass(frozen=True)
class Group:
    """Rows with the same value of x and of color; `at` is the place on the x axis, `n` the number of rows.

    `estimate` has the 95% interval of the mean over conversations. With a median, it has the middle half of the values
    instead (`ENDS`), which is not an interval of the median.
    """

    x: str
    at: float
    color: str
    n: int
    estimate: Estimate

    @property
    def label(self) -> str:
        """The x value and the color."""
        return ", ".join(filter(None, (self.x, self.color)))


@dataclass(frozen=True)
class ExploreChart:
    """A chart of a table."""

    table: ScoreTable
    settings: ChartSettings

    def groups(self) -> list[Group]:
        """Return the groups in the order of the x axis; groups by one metadata text are ordered by their number."""
        keys, values, conversations = [], list[float](), []
        for (x, color, value), conversation in zip(self._cells(is_binned=True), self.table.conversations, strict=True):
            if x is not None and color is not None and value is not None:
                keys.append((x[1], x[0], color[1], color[0]))
                values.append(value)
                conversations.append(conversation)
        order = sorted(set(keys))
        place = np.array([order.index(key) for key in keys], dtype=np.intp)
        found = self._estimates(place, np.array(values), conversations, len(order))
        counts = np.bincount(place, minlength=len(order)).tolist()
        groups = [
            Group(x, at, color, n, estimate)
            for (at, x, _, color), n, estimate in zip(order, counts, found, strict=True)
        ]
        is_numeric = self.table.columns.get(self.settings.x)
        is_learned = self.table.scores is not None and self.table.scores.is_self_made  # these rank nothing
        if self.settings.color or is_numeric or is_learned or not self.settings.x.startswith(METADATA):
            return groups
        return sorted(groups, key=lambda group: (group.x in (OTHER, NONE), -(group.estimate.value or 0.0)))

    def _estimates(
        self, place: NDArray[np.intp], values: NDArray[np.float64], conversations: Sequence[str], groups: int
    ) -> list[Estimate]:
        """Return the number, the median or the mean of each group."""
        if self.settings.aggregate == COUNT:
            return [Estimate(float(n)) for n in np.bincount(place, minlength=groups)]
        if self.settings.aggregate == MEDIAN:
            return [_middle_half(values[place == at]) for at in range(groups)]
        return group_means(Clusters(conversations), place, values, groups)

    def points(self) -> list[tuple[tuple[str, float], str, float]]:
        """Return the label and place on the x axis, the color and the value of each row."""
        cells = self._cells(is_binned=False)
        return [(x, color[0], y) for x, color, y in cells if x is not None and color is not None and y is not None]

    def _cells(self, is_binned: bool) -> list[tuple[tuple[str, float] | None, tuple[str, float] | None, float | None]]:
        """Return the x, the color and the value of each row; `None` for missing ones."""
        settings, table = self.settings, self.table
        xs = _binned(table, settings.x, CATEGORIES, X_BINS, is_binned)
        colors = _binned(table, settings.color, SERIES, COLOR_BINS) if settings.color else [("", 0.0)] * len(xs)
        ys = [1.0 if settings.aggregate == COUNT else row.get(settings.y) for row in table.rows]
        return [
            (x, color, float(y) if is_number(y) else None)  # type: ignore[arg-type]
            for x, color, y in zip(xs, colors, ys, strict=True)
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the settings, the title and the numbers of the chart and of its table."""
        groups = [
            {"x": g.x, "color": g.color, "n": g.n, "y": g.estimate.value, "low": g.estimate.low,
             "high": g.estimate.high}
            for g in self.groups()
        ]  # fmt: skip
        data = {**vars(self.settings), "title": self.title, "ends": ENDS.get(self.settings.aggregate), "groups": groups}
        if self.settings.aggregate == RAW:
            data["points"] = [{"x": x, "color": color, "y": y} for (x, _), color, y in self.points()]
        return data

    @property
    def title(self) -> str:
        """Description of the chart."""
        settings = self.settings
        y, noun = self.table.short_name(settings.y), f"{self.table.noun}s"
        title = {MEAN: f"Mean {y}", MEDIAN: f"Median {y}", COUNT: f"Number of {noun}", RAW: y}[settings.aggregate]
        color = f", colored by {self.table.short_name(settings.color)}" if settings.color else ""
        return f"{title[:1].upper()}{title[1:]} by {self.table.short_name(settings.x)}{color}"

    def draw(self, filters: BoardFilters | None = None) -> Markup:
        """Return the chart: dots with intervals, bars from 0 for counts, or a point for every value.

        With the filters of the page, the name of a group opens its board.
        """
        settings = self.settings
        axis, question = Axis(self.table.short_name(settings.y)), self.table.questions.get(settings.y)
        if question is not None and question.scale.is_ordered:
            axis = Axis(axis.title, min(question.scale.numbers), max(question.scale.numbers))
        if settings.aggregate == RAW:
            return self._draw_points(axis)
        groups = self.groups()
        colors = sorted({group.color for group in groups})
        kinds = {color: f"s{place}" for place, color in enumerate(colors)}
        if not settings.color:
            kinds = {"": "model" if self.table.noun == "score" else "people"}
        if settings.aggregate == COUNT:
            rows = [ChartRow(group.label, group.estimate, kinds[group.color]) for group in groups]
            return row_chart(rows, Axis(f"number of {self.table.noun}s", 0), self.title, is_bars=True)
        rows = [
            ChartRow(group.label, group.estimate, kinds[group.color], self._board_of(group, filters), count=group.n)
            for group in groups
        ]
        return row_chart(rows, axis, f"{self.title}, with the number of {self.table.noun}s")

    def _board_of(self, group: Group, filters: BoardFilters | None) -> str:
        name = self.settings.x.removeprefix(METADATA)
        is_dimension = self.settings.x.startswith(METADATA) and name in DIMENSIONS
        if filters is None or not is_dimension or group.x == OTHER or self.table.scores is None:
            return ""
        return f"/board?{filters.to_query(**{name: '' if group.x == NONE else group.x})}"

    def _draw_points(self, y: Axis) -> Markup:
        points = self.points()
        x = Axis(self.table.short_name(self.settings.x))
        if not self.table.columns.get(self.settings.x):
            x = Axis(x.title, labels={at: label for (label, at), _, _ in sorted(points)})
        lines = []
        for number, color in enumerate(sorted({color for _, color, _ in points})):
            own = [(at, value) for (_, at), its, value in points if its == color]
            xs, ys = zip(*own, strict=True)
            lines.append(ChartLine(xs, ys, kind=f"s{number}", name=color, draws="points"))
        drawn = scatter(lines, x, y, self.title, height=320)
        if not self.settings.color:
            return drawn
        return Markup("<p>{}</p>{}").format(Markup("").join(key(line.kind, line.name) for line in lines), drawn)


def _middle_half(values: Sequence[float]) -> Estimate:
    """Return the median with the ends of the middle half of the values, the first and third quartile."""
    if len(values) < 2:
        return Estimate(float(values[0]))
    low, middle, high = quantiles(values, n=4, method="inclusive")
    return Estimate(middle, low, high)


def _binned(
    table: ScoreTable, name: str, categories: int, bins: int, is_binned: bool = True
) -> list[tuple[str, float] | None]:
    """Return each row's label and place on an axis: bins of numbers, or the most frequent texts and `OTHER`."""
    column = [row.get(name) for row in table.rows]
    if not table.columns.get(name):
        return list(_ordered_texts([NONE if value is None else str(value) for value in column], categories))
    numbers = [None if value is None else float(value) for value in column]
    distinct = {value for value in numbers if value is not None}
    if not is_binned or len(distinct) <= bins:
        return [None if value is None else (f"{value:g}", value) for value in numbers]
    edges = ticks(min(distinct), max(distinct), bins)
    step = edges[1] - edges[0]
    return [None if value is None else _bin(value, step) for value in numbers]


def _bin(value: float, step: float) -> tuple[str, float]:
    """Return the label and the lower end of the bin of a value."""
    low = math.floor(value / step + 1e-9) * step
    return f"{low:.4g} to {low + step:.4g}", low


def _ordered_texts(texts: Sequence[str], categories: int) -> Iterator[tuple[str, float]]:
    """Yield each text, or `OTHER` for all but the most frequent ones, with its place in order; `OTHER` is the last."""
    frequent = {text for text, _ in Counter(texts).most_common(categories)}
    pooled = [text if text in frequent else OTHER for text in texts]
    ordered = sorted(set(pooled), key=lambda text: (text == OTHER, text))
    order = {text: float(place) for place, text in enumerate(ordered)}
    return ((text, order[text]) for text in pooled)


# --- page -----------------------------------------------------------------------------------------------------------


def add_routes(app: FastAPI, context: WorkbenchContext) -> None:
    """Add the explore page and its data."""
    page = _ExplorePage(context)
    add_page(app, "/explore", page.show)


CHART_FIELDS = ("x", "y", "color", "aggregate")
FORM_FIELDS = ("find", "system", "topic", "synthetic", "answers")
"""Fields of the chart, and filters of the board that the form shows."""


def _filled(table: ScoreTable, settings: ChartSettings) -> list[str]:
    """Return the columns to choose from: those with a value, and the chosen ones."""
    chosen = {settings.x, settings.y, settings.color}
    return [name for name in table.columns if name in chosen or any(row.get(name) is not None for row in table.rows)]


class _ExplorePage:
    def __init__(self, context: WorkbenchContext) -> None:
        self.context = context
        self._table = lru_cache(maxsize=4)(self._load)

    def _load(self, version: Hashable, selection: BoardFilters) -> ScoreTable:
        return load_score_table(self.context.project, self.context.board, selection)

    def show(self, request: Request) -> Response:
        """Show the chart and the forms; with `.json`, the numbers that are drawn."""
        visitor = self.context.visitor(request, "lead")
        fields = {name: str(value) for name, value in request.query_params.items()}
        selection = BoardFilters.from_query(request.url.query, CHART_FIELDS).base
        table = self._table(self.context.board.state(selection), selection)
        settings = ChartSettings.from_query(fields, table)
        chart = ExploreChart(table, settings)
        counted = f"{table.total:,} {table.noun}{'' if table.total == 1 else 's'}"
        data = {"shown": len(table.rows), "total": table.total, "synthetic": table.synthetic, "unknown": table.unknown,
                "counted": counted if table.scores is None else table.scores.counted}  # fmt: skip
        if request.url.path.endswith(".json"):
            return JSONResponse({**data, "columns": dict(table.columns), "chart": chart.to_json()})
        filters = parse_qs(selection.to_query(), keep_blank_values=True)
        kept = [(name, value) for name, values in filters.items() for value in values]
        return self.context.render(
            "explore", visitor, data=data, settings=settings, columns=_filled(table, settings), aggregates=AGGREGATES,
            query=request.url.query, groups=chart.groups(), scores=table.scores, noun=table.noun, selection=selection,
            quiet=() if table.scores is None else table.scores.quiet_notes,
            short_name=table.short_name, column_name=table.column_name,
            other_filters=[(name, value) for name, value in kept if name not in FORM_FIELDS],
            board=f"/board?{selection.to_query()}".rstrip("?"), list=f"/board/list?{selection.to_query()}".rstrip("?"),
            chart=chart.draw(selection) if table.rows else None, title=chart.title,
            question=table.questions.get(settings.y),
        )  # fmt: skip
