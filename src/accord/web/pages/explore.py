"""Explore page: any score, metadata entry or metric by any other, as one chart whose address is its state.

Without choices it shows the mean score of each system. The conversations are those of the board with the same filters.
The server draws the chart from a bounded sample of their scores, or of the ratings if nothing is scored.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from random import Random
from statistics import quantiles
from typing import Any
from urllib.parse import parse_qs

import numpy as np
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from markupsafe import Markup

from accord.board import Board, BoardFilters, SelectedScores
from accord.charts import Axis, ChartLine, ChartRow, bar_chart, line_chart, range_rows, ticks
from accord.edges import BadInput, sendable
from accord.project import Project, comparable_labels
from accord.scoring import ConversationFacts
from accord.statistics import Clusters, group_means
from accord.store import scores_of_conversations
from accord.values import Conversation, Estimate, Question, Sample
from accord.web.context import WorkbenchContext, add_page

SAMPLE_SIZE = 2000
"""Maximum number of scores in a chart; a larger run is sampled with the project's seed."""
CATEGORIES, SERIES = 20, 6
"""Maximum number of categories and of colors; the rarest values are pooled as `OTHER`."""
OTHER, NONE = "(other)", "(none)"
X_BINS, COLOR_BINS = 12, 4
MEAN, MEDIAN, COUNT, RAW = "mean", "median", "count", "none"
AGGREGATES = {
    MEAN: "mean with 95% interval", MEDIAN: "median with middle half", COUNT: "number", RAW: "every value as a point",
}  # fmt: skip
ENDS = {MEAN: "95% interval of the mean", MEDIAN: "middle half of the values"}
"""Meaning of `low` and `high` in the JSON of a chart."""
SCORE_FIELDS = ("value", "low", "high", "variance", "entropy")
QUESTION = "question: "
SCORE, RATING, DAY = "score: value", "rating", "day"
USUAL_GROUPS = tuple(f"metadata: {name}" for name in ("system", "language", "topic", "domain", "category"))
"""Columns to group by without a choice, the most useful first."""
CHART_SIZE = (300, 240)
Cell = str | float | bool | None


@dataclass(frozen=True)
class ScoreTable:
    """Sampled scores of a selection, or ratings of the main question: values by column name, `None` if missing.

    Attributes:
        scores: The board's selection of scores; None for ratings.
        rows: Values of each score.
        conversations: Conversation of each row.
        columns: True for columns that hold only numbers.
        questions: Questions of the rubric whose answers a column holds.
        total: Number of scores without those left out.
        synthetic: Number of scores left out because their conversations are synthetic.
        unknown: Number of rows whose conversation is not in the store.
    """

    scores: SelectedScores | None = None
    rows: Sequence[dict[str, Cell]] = ()
    conversations: Sequence[str] = ()
    columns: Mapping[str, bool] = field(default_factory=dict)
    questions: Mapping[str, Question] = field(default_factory=dict)
    total: int = 0
    synthetic: int = 0
    unknown: int = 0

    @property
    def value(self) -> str:
        """Column of the main question."""
        return RATING if self.scores is None else SCORE

    @property
    def noun(self) -> str:
        """Word for a row: a score, or a rating by a person."""
        return "rating" if self.scores is None or self.scores.selection.answers == "given" else "score"

    def column_name(self, column: str) -> str:
        """Return the name of a column for lists: the question's short name instead of its id."""
        question = self.questions.get(column)
        return f"{QUESTION}{question.shown}" if column.startswith(QUESTION) and question is not None else column

    def short_name(self, column: str) -> str:
        """Return a column's name for titles: `score` for its value, metadata and named questions without a prefix."""
        question = self.questions.get(column)
        if question is not None and question.name and column.startswith(QUESTION):
            return question.name
        name = "score" if column == SCORE else column.removeprefix("metadata: ")
        return name if len(name) <= 40 else name[:39] + "…"

    def default_group(self) -> str:
        """Return the first column with 2 to `CATEGORIES` values: system, language, topic, ..., day; else none."""
        others = [name for name in self.columns if name.startswith("metadata: ")]
        for name in (*USUAL_GROUPS, *others, DAY):
            if 2 <= len({row.get(name) for row in self.rows} - {None}) <= min(CATEGORIES, len(self.rows) // 2):
                return name
        return ""


def load_score_table(
    project: Project, board: Board | None = None, selection: BoardFilters | None = None, size: int = SAMPLE_SIZE
) -> ScoreTable:
    """Return the scores of a selection, or the ratings if nothing is scored, with metadata and metrics.

    Args:
        project: Project whose store and sources are used.
        board: The project's board; by default a new one.
        selection: Filters of the board; by default none.
        size: Maximum number of rows.
    """
    board, selection = board or Board(project), selection or BoardFilters()
    random = Random(project.config.seed)
    selected = board.scores(selection)
    if selected is None:
        is_included = selection.synthetic != "without"
        excluded = set() if is_included else {each.id for each in project.store.conversations(synthetic="only")}
        sample, total, left_out = _sample(_ratings(project), excluded, size, random)
    else:
        sample, total = _sampled_scores(project, selected, size, random)
        left_out = selected.left_out
    conversations = {each.id: each for each in project.store.conversations({row["conversation"] for row in sample})}
    rows = [_table_row(score, conversations.get(score["conversation"]), selected is not None) for score in sample]
    for row, metrics in zip(rows, _metrics(project, sample, conversations), strict=True):
        row.update(metrics)
    questions = {f"{QUESTION}{question.id}": question for question in project.rubric.questions}
    ids = [score["conversation"] for score in sample]
    value, asked = RATING, project.question
    if selected is not None:
        value, asked = SCORE, project.rubric.get(str(selected.selection.question)) or project.question
    return ScoreTable(
        selected, rows, ids, _columns_of(rows), {**questions, value: asked}, total, left_out,
        sum(name not in conversations for name in ids),
    )  # fmt: skip


def _sampled_scores(
    project: Project, selected: SelectedScores, size: int, random: Random
) -> tuple[list[Mapping[str, Any]], int]:
    """Return a random sample of the selected scores, or of people's ratings of the same texts, and their number."""
    scored = selected.scored.select("conversation", "turn", "annotator", "value")
    count = len(scored)
    if count > size:
        scored = scored[sorted(random.sample(range(count), size))]
    names = scored["annotator"].cast(str).to_list()
    keys = list(zip(scored["conversation"], scored["turn"], names, strict=True))
    about = selected.selection
    if about.answers == "given":
        return [
            {"conversation": name, "turn": turn, "annotator": annotator, "value": value}
            for (name, turn, annotator), value in zip(keys, scored["value"], strict=True)
        ], count  # fmt: skip
    ids = {name for name, *_ in keys}
    rows = scores_of_conversations(project.mart, str(about.question), str(about.evaluator), ids)
    by_key = {(row["conversation"], row.get("turn"), str(row.get("annotator"))): row for row in rows}
    return [by_key[key] for key in keys if key in by_key], count


def _columns_of(rows: Sequence[Mapping[str, Cell]]) -> dict[str, bool]:
    """Return the names of all columns, with True for those that hold numbers alone."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: all(_is_number(row.get(name)) or row.get(name) is None for row in rows) for name in names}


def _sample(
    scores: Iterable[Mapping[str, Any]], excluded: Collection[str], size: int, random: Random
) -> tuple[list[Mapping[str, Any]], int, int]:
    """Return a random sample in one pass (reservoir sampling), and the numbers of included and excluded scores."""
    sample, total, left_out = list[Mapping[str, Any]](), 0, 0
    for score in scores:
        if score["conversation"] in excluded:
            left_out += 1
            continue
        total += 1
        if len(sample) < size:
            sample.append(score)
        elif (place := random.randrange(total)) < size:
            sample[place] = score
    return sample, total, left_out


def _ratings(project: Project) -> Iterable[Mapping[str, Any]]:
    """Return the ratings of the main question as rows of scores."""
    return (
        {"conversation": each.target.conversation, "turn": each.target.turn, "annotator": each.annotator,
         "value": each.value}
        for each in comparable_labels(project.store, project.question.id)
        if each.against is None and _is_number(each.value)
    )  # fmt: skip


def _table_row(score: Mapping[str, Any], conversation: Conversation | None, is_scored: bool) -> dict[str, Cell]:
    if is_scored:
        row: dict[str, Cell] = {f"score: {name}": score.get(name) for name in SCORE_FIELDS}
        row |= {"score: annotator": score.get("annotator"), "score: warning": bool(score.get("warning"))}
    else:
        row = {RATING: score["value"], "annotator": score["annotator"]}
    for name, answer in ((score.get("notes") or {}).get("other_questions") or {}).items():
        row[f"{QUESTION}{name}"] = answer.get("value")
    if conversation is not None:
        row["turns"] = len(conversation.turns)
        for name, value in conversation.metadata.items():
            if isinstance(value, str | int | float):
                row[sendable(f"metadata: {name}")] = sendable(value)[:200] if isinstance(value, str) else value
        if (time := ConversationFacts.of(conversation).time) is not None:
            row[DAY] = datetime.fromtimestamp(time / 1000, UTC).date().isoformat()
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

    The ends of `estimate` are those of the 95% interval of the mean over conversations; with a median those of the
    middle half of the values (`ENDS`), which is no interval of the median.
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
        numbers = np.array(values)
        if self.settings.aggregate == COUNT:
            found = [Estimate(float(n)) for n in np.bincount(place, minlength=len(order))]
        elif self.settings.aggregate == MEDIAN:
            found = [_middle_half(numbers[place == at]) for at in range(len(order))]
        else:
            found = group_means(Clusters(conversations), place, numbers, len(order))
        counts = np.bincount(place, minlength=len(order)).tolist()
        groups = [
            Group(x, at, color, n, estimate)
            for (at, x, _, color), n, estimate in zip(order, counts, found, strict=True)
        ]
        is_numeric = self.table.columns.get(self.settings.x)
        if self.settings.color or is_numeric or not self.settings.x.startswith("metadata: "):
            return groups
        return sorted(groups, key=lambda group: (group.x in (OTHER, NONE), -(group.estimate.value or 0.0)))

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
            (x, color, float(y) if _is_number(y) else None)  # type: ignore[arg-type]
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

    def draw(self) -> Markup:
        """Return the chart as SVG: dots with intervals, bars from 0 for counts, or a point for every value."""
        settings = self.settings
        limits, question = (-math.inf, math.inf), self.table.questions.get(settings.y)
        if question is not None and question.scale.is_ordered:
            limits = question.scale.numbers[0], question.scale.numbers[-1]
        axis = Axis(self.table.short_name(settings.y), limits=limits)
        if settings.aggregate == RAW:
            return self._draw_points(axis)
        groups = self.groups()
        colors = sorted({group.color for group in groups})
        kinds = {color: f"s{place}" for place, color in enumerate(colors)}
        if not settings.color:
            kinds = {"": "people" if self.table.noun == "rating" else "model"}
        if settings.aggregate == COUNT:
            rows = [ChartRow(group.label, group.estimate, kinds[group.color]) for group in groups]
            return bar_chart(rows, Axis(f"number of {self.table.noun}s"), self.title)
        rows = [ChartRow(f"{group.label} ({group.n:,})", group.estimate, kinds[group.color]) for group in groups]
        return range_rows(rows, axis, f"{self.title}, with the number of {self.table.noun}s")

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
        return line_chart(lines, x, y, self.title, size=CHART_SIZE)


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
FORM_FIELDS = ("find", "system", "topic", "synthetic")
"""Fields of the chart, and filters of the board that the form shows."""


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
        query = request.url.query.replace("synthetic=yes", "synthetic=with")  # the address of earlier versions
        selection = BoardFilters.from_query(query, CHART_FIELDS).base
        table = self._table(self.context.board.state(selection), selection)
        settings = ChartSettings.from_query(fields, table)
        chart = ExploreChart(table, settings)
        counted = f"{table.total:,} {table.noun}{'' if table.total == 1 else 's'}"
        data = {"shown": len(table.rows), "total": table.total, "synthetic": table.synthetic, "unknown": table.unknown,
                "counted": counted if table.scores is None else table.scores.counted}  # fmt: skip
        if request.url.path.endswith(".json"):
            return JSONResponse({**data, "columns": dict(table.columns), "chart": chart.to_json()})
        chosen = [(name, fields[name]) for name in CHART_FIELDS if fields.get(name)]
        filters = parse_qs(selection.to_query(), keep_blank_values=True)
        kept = [(name, value) for name, values in filters.items() for value in values]
        return self.context.render(
            "explore", visitor, data=data, settings=settings, columns=list(table.columns), aggregates=AGGREGATES,
            query=request.url.query, groups=chart.groups(), scores=table.scores, noun=table.noun, selection=selection,
            short_name=table.short_name, column_name=table.column_name, chosen_fields=chosen, kept_filters=kept,
            other_filters=[(name, value) for name, value in kept if name not in FORM_FIELDS],
            board=f"/board?{selection.to_query()}".rstrip("?"), list=f"/board/list?{selection.to_query()}".rstrip("?"),
            chart=chart.draw() if table.rows else None, title=chart.title, question=table.questions.get(settings.y),
        )  # fmt: skip
