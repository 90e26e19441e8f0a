"""Explore (`/explore`): any score, metadata entry or metric against any other, as one chart whose address is its state.

Vega-Lite draws it in the browser, from the file that `vl-convert` carries: nothing comes from elsewhere, and nothing is
evaluated (`ast`). What is drawn is counted or averaged in the browser over a bounded sample, and the page says so.
Conversations that nobody held are left out unless they are asked for.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from random import Random
from threading import Lock
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response

from accord.edges import BadInput, sendable
from accord.project import Project
from accord.scoring import latest
from accord.values import Conversation, Sample
from accord.web.app import Bench

MOST = 2000
"""Scores that are drawn, at most; of more, a sample by the project's seed."""
KINDS = 20
"""Values of a category that are told apart; the rarest of more are together `OTHER`."""
OTHER = "(other)"
COUNT = "count"
MARKS = ("point", "bar", "line", "boxplot")
AGGREGATES = ("none", "count", "mean", "median", "min", "max")
SCORE = ("value", "low", "high", "variance", "entropy")
Cell = str | float | bool | None
Row = dict[str, Cell]


@dataclass(frozen=True)
class Explored:
    """Rows to draw.

    Attributes:
        run: The run whose scores they are; empty without any.
        rows: A value per column, `None` where it has none.
        columns: Names, each with whether it holds numbers alone.
        total: How many scores the run has that are not left out.
        synthetic: Scores of conversations that nobody held; left out unless they were asked for.
        unknown: Scores of the sample whose conversation the store does not hold.
    """

    run: str = ""
    rows: Sequence[Row] = ()
    columns: Mapping[str, bool] = field(default_factory=dict)
    total: int = 0
    synthetic: int = 0
    unknown: int = 0


def rows_for_exploring(project: Project, synthetic: bool = False, most: int = MOST) -> Explored:
    """The latest scores of the store, each with its conversation's metadata and cheap metrics.

    Args:
        project: Whose store and sources.
        synthetic: Whether conversations that nobody held are drawn too.
        most: Rows, at most.
    """
    found = latest(project.store, "score", "run")
    if found is None:
        return Explored()
    draw, kept, total, left_out = Random(project.config.seed), list[Mapping[str, Any]](), 0, 0
    made = set() if synthetic else {each.id for each in project.store.conversations(synthetic="only")}
    for row in project.store.scores(found["id"]):
        if row["conversation"] in made:
            left_out += 1
            continue
        total += 1
        if len(kept) < most:
            kept.append(row)
        elif (place := draw.randrange(total)) < most:  # a sample of all of them, by one pass
            kept[place] = row
    known = {each.id: each for each in project.store.conversations({row["conversation"] for row in kept})}
    rows = [_row(row, known.get(row["conversation"])) for row in kept]
    for row, more in zip(rows, _metrics(project, kept, known), strict=True):
        row.update(more)
    unknown = sum(row["conversation"] not in known for row in kept)
    return Explored(found["id"], rows, _columns(rows), total, left_out, unknown)


def _row(score: Mapping[str, Any], conversation: Conversation | None) -> Row:
    """A score's numbers, what it says of other questions, and the plain entries of the metadata."""
    row: Row = {f"score: {name}": score.get(name) for name in SCORE}
    row |= {"score: annotator": score.get("annotator"), "score: warning": bool(score.get("warning"))}
    for name, answer in ((score.get("notes") or {}).get("questions") or {}).items():
        row[f"question: {name}"] = answer.get("value")
    if conversation is not None:
        row["turns"] = len(conversation.turns)
        for name, value in conversation.metadata.items():
            if isinstance(value, str | int | float):
                row[sendable(f"metadata: {name}")] = sendable(value)[:200] if isinstance(value, str) else value
        row["synthetic"] = conversation.is_synthetic
    return row


def _metrics(
    project: Project, scores: Sequence[Mapping[str, Any]], known: Mapping[str, Conversation]
) -> list[dict[str, float]]:
    """What the project's sources that ask nobody say of each score's target."""
    sources = [source for name in project.evidence if not (source := project.source(name)).roles]
    samples = {
        (row["conversation"], row.get("turn")): Sample(known[row["conversation"]], row.get("turn"))
        for row in scores
        if row["conversation"] in known and (row.get("turn") or 0) < len(known[row["conversation"]].turns)
    }
    table = project.measure(sources, list(samples.values()))
    place = {tuple(target): row for row, target in enumerate(table.targets)}
    found = []
    for each in scores:
        row = place.get((each["conversation"], each.get("turn")))
        own = () if row is None else enumerate(table.columns)
        found.append(
            {f"metric: {column.name}": float(table.values[row, at]) for at, column in own if table.present[row, at]}
        )
    return found


def _columns(rows: Sequence[Row]) -> dict[str, bool]:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: all(_is_number(row.get(name)) or row.get(name) is None for row in rows) for name in names}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


# --- a chart ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Choice:
    """What a form chose: columns for x, y and colour (empty for none), a mark, an aggregate of y."""

    x: str
    y: str
    colour: str
    mark: str
    aggregate: str

    @classmethod
    def of(cls, fields: Mapping[str, str], columns: Mapping[str, bool]) -> Choice:
        """The choice of an address, with what it leaves open.

        Raises:
            BadInput: It names what there is not.
        """
        of_metadata = sorted((name for name in columns if name.startswith("metadata: ")), key="metadata: system".__ne__)
        first = next(iter(of_metadata), "turns")
        found = cls(
            fields.get("x") or first, fields.get("y") or "score: value", fields.get("colour", ""),
            fields.get("mark") or "bar", fields.get("aggregate") or "mean",
        )  # fmt: skip
        allowed = ((found.mark, MARKS, "mark"), (found.aggregate, AGGREGATES, "aggregate"))
        named = tuple((name, ("", *columns), "column") for name in (found.x, found.y, found.colour) if columns)
        for value, those, what in (*allowed, *named):
            if value not in those:
                raise BadInput(f"{what}: got {value[:60]!r}, allowed: {', '.join(filter(None, those))}")
        return found


@dataclass(frozen=True)
class Chart:
    """Rows, drawn as a form chose."""

    explored: Explored
    choice: Choice

    def to_json(self) -> dict[str, Any]:
        """A Vega-Lite specification with its data; fields have our own names, so that no text is read as a path."""
        explored, choice = self.explored, self.choice
        fields = {"x": choice.x, "y": choice.y, "color": choice.colour}
        own = {channel: f"c{place}" for place, channel in enumerate(fields)}
        told = {channel: _values(explored, name) for channel, name in fields.items() if name}
        places = range(len(explored.rows))
        values = [{own[channel]: column[place] for channel, column in told.items()} for place in places]
        is_counted = choice.aggregate == COUNT
        is_plain = choice.aggregate == "none" or choice.mark == "boxplot"
        sums_up = not is_plain and (is_counted or _numbers(explored, choice.y))
        encoding: dict[str, Any] = {}
        for channel, name in fields.items():
            if not name:
                continue
            is_number = _numbers(explored, name)
            about: dict[str, Any] = {
                "field": own[channel],
                "type": "quantitative" if is_number else "nominal",
                "title": name,
            }
            if is_number and channel in ("x", "color") and (sums_up or choice.mark == "boxplot"):
                about["bin"] = {"maxbins": 12 if channel == "x" else 4}
            encoding[channel] = about
        if sums_up:
            of = {} if is_counted else {"field": own["y"]}
            title = COUNT if is_counted else f"{choice.aggregate} of {choice.y}"
            encoding["y"] = {**of, "aggregate": choice.aggregate, "type": "quantitative", "title": title}
        return {"data": {"values": values}, "mark": {"type": choice.mark}, "encoding": encoding,
                "width": "container", "height": 380}  # fmt: skip


def _numbers(explored: Explored, name: str) -> bool:
    return bool(explored.columns.get(name))


def _values(explored: Explored, name: str) -> list[Cell]:
    """A column's values; of a category with many the rarest are one."""
    column = [row.get(name) for row in explored.rows]
    if _numbers(explored, name):
        return column
    texts = ["(none)" if each is None else str(each) for each in column]
    often = {each for each, _ in Counter(texts).most_common(KINDS)}
    return [each if each in often else OTHER for each in texts]


# --- pages ----------------------------------------------------------------------------------------------------------


def add_routes(app: FastAPI, bench: Bench) -> None:
    """The routes of this part."""
    pages = _Explore(bench)
    app.get("/static/explore/vega.js")(pages.library)
    app.get("/explore.json")(pages.page)
    app.get("/explore")(pages.page)


class _Explore:
    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self._rows = lru_cache(maxsize=2)(self._gather)

    def _gather(self, run: str, synthetic: bool) -> Explored:
        return rows_for_exploring(self.bench.project, synthetic)

    def page(self, request: Request) -> Response:
        """The form and the chart; with `.json`, what is drawn."""
        visitor = self.bench.visitor(request, "lead")
        fields = {name: str(value) for name, value in request.query_params.items()}
        run = latest(self.bench.project.store, "score", "run")
        explored = self._rows("" if run is None else run["id"], fields.get("synthetic") == "yes")
        choice = Choice.of(fields, explored.columns)
        said = {"run": explored.run, "shown": len(explored.rows), "total": explored.total,
                "synthetic": explored.synthetic, "unknown": explored.unknown}  # fmt: skip
        if request.url.path.endswith(".json"):
            return JSONResponse({**said, "columns": dict(explored.columns), "chart": Chart(explored, choice).to_json()})
        return self.bench.page(
            "explore", visitor, said=said, choice=choice, columns=list(explored.columns), marks=MARKS,
            aggregates=AGGREGATES, with_synthetic=fields.get("synthetic") == "yes", query=request.url.query,
            library=f"/static/explore/vega.js?{_made()}",
        )  # fmt: skip

    def library(self) -> Response:
        """Vega, Vega-Lite and Vega-Embed, as one file of this server."""
        kept = {"Cache-Control": "public, max-age=31536000, immutable"}
        return Response(_library(), media_type="text/javascript", headers=kept)


def _made() -> str:
    """Which library it is, for its address: browsers keep it as long as that is the same."""
    from importlib.metadata import version

    return version("vl-convert-python")


_ONE = Lock()


def _library() -> bytes:
    with _ONE:  # it takes seconds: whoever comes meanwhile waits for the same
        return _bundled()


@cache
def _bundled() -> bytes:
    from vl_convert import javascript_bundle

    return str(javascript_bundle("window.vegaEmbed = vegaEmbed;")).encode()
