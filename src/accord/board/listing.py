"""The conversations behind a part of a figure, worst first, a page at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from accord.board.reading import Texts

PAGE = 50


@dataclass(frozen=True)
class Listed:
    """A text in a list: its score, for whom it is worst, and what its conversation says of itself.

    Attributes:
        value: Averaged over annotators, or the annotator's own; `None` without a score.
        apart: How far annotators differ (standard deviation); `None` of one.
        annotator: Whose score it is, where annotators stand beside each other.
        unscored: Why there is none.
    """

    conversation: str
    turn: int | None
    value: float | None
    apart: float | None
    annotator: str | None
    system: str | None
    version: str | None
    topic: str | None
    day: str | None
    unscored: str | None


@dataclass(frozen=True)
class Page:
    """A page of a list.

    Attributes:
        rows: Its rows.
        number: Of the page, from 1.
        pages: How many there are.
        total: Rows of all pages.
        said: What the list is of, in a sentence.
    """

    rows: tuple[Listed, ...]
    number: int
    pages: int
    total: int
    said: str

    def to_json(self) -> dict[str, Any]:
        """Everything."""
        return {**vars(self), "rows": [vars(each) for each in self.rows]}


def listed(found: Texts, number: int = 1, size: int = PAGE) -> Page:
    """A page of the texts of a selection; one past the end is the last.

    Args:
        found: Its rows.
        number: Of the page, from 1.
        size: Rows per page.
    """
    import polars as pl

    about = found.selection
    if about.unscored:
        rows = found.rows.filter(pl.col("value").is_null()).with_columns(pl.lit(None, pl.Float64).alias("apart"))
    elif about.view == "each":
        rows = found.scored.with_columns(pl.lit(None, pl.Float64).alias("apart"))
    else:
        rows = found.texts()
    if about.low is not None:
        rows = rows.filter(pl.col("value") >= about.low)
    if about.high is not None:
        is_end = about.high >= found.high - 1e-9
        rows = rows.filter(pl.col("value") <= about.high if is_end else pl.col("value") < about.high)
    keys = {
        "worst": (["value"], [False]), "best": (["value"], [True]), "apart": (["apart"], [True]),
        "newest": (["day"], [True]),
    }[about.order]  # fmt: skip
    columns, down = [*keys[0], "conversation", "turn"], [*keys[1], False, False]
    total = len(rows)
    pages = max(-(-total // size), 1)
    number = min(max(number, 1), pages)
    shown = _first(rows, columns, down, number * size).slice((number - 1) * size, size)
    cells = [
        Listed(
            row["conversation"], row["turn"], row["value"], row["apart"],
            str(row["annotator"]) if about.view == "each" else None, row["system"], row["version"], row["topic"],
            None if row["day"] is None else row["day"].isoformat(), row["unscored"],
        )
        for row in shown.iter_rows(named=True)
    ]  # fmt: skip
    return Page(tuple(cells), number, pages, total, _said(found, total))


def _first(rows: Any, columns: list[str], down: list[bool], count: int) -> Any:
    """The first rows of an order, without ordering all: those up to the value of the last of them."""
    import polars as pl

    key = rows[columns[0]]
    cut = (key.top_k(count) if down[0] else key.bottom_k(count)).sort(descending=down[0])
    known = cut.drop_nulls()
    if len(known) < count:
        return rows.sort(columns, descending=down, nulls_last=True)
    edge = known[-1]
    near = rows.filter(pl.col(columns[0]) >= edge if down[0] else pl.col(columns[0]) <= edge)
    return near.sort(columns, descending=down, nulls_last=True)


def _said(found: Texts, total: int) -> str:
    about = found.selection
    what = "text" if total == 1 else "texts"
    if about.view != "panel":
        what = f"{'score' if total == 1 else 'scores'} of a text for an annotator"
    where = [f"{name} {value or 'not said'}" for name, value in about.filters().items()]
    if about.low is not None or about.high is not None:
        low, high = (found.low if about.low is None else about.low), (found.high if about.high is None else about.high)
        where.append(f"{about.question} from {low:g} to {high:g}")
    order = {"worst": "worst first", "best": "best first", "apart": "most disputed first", "newest": "newest first"}
    kind = f"{what} without a score" if about.unscored else what
    return f"{total:,} {kind}{' with ' + ', '.join(where) if where else ''}, {order[about.order]}"
