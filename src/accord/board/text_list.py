"""Pages of the texts of a selection, by default the lowest scores first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from accord.board.score_reader import NOT_SAID, SelectedScores

PAGE = 50


@dataclass(frozen=True)
class ListedText:
    """A text in a list, with its score and the dimensions of its conversation.

    Attributes:
        value: Mean over annotators, or the score of one; `None` without a score.
        apart: Standard deviation over annotators; `None` for a single one.
        annotator: Annotator of the score in the view of each annotator.
        unscored: Reason for a missing score.
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
class TextPage:
    """A page of a list.

    Attributes:
        rows: Texts on the page.
        number: Number of the page, from 1.
        pages: Number of pages.
        total: Number of texts on all pages.
        summary: Filters and order in one sentence.
    """

    rows: tuple[ListedText, ...]
    number: int
    pages: int
    total: int
    summary: str

    def to_json(self) -> dict[str, Any]:
        """Return the fields by name."""
        return {**vars(self), "rows": [vars(each) for each in self.rows]}


def listed(scores: SelectedScores, number: int = 1, size: int = PAGE) -> TextPage:
    """Return a page of the texts of a selection; a number beyond the end returns the last page.

    Args:
        scores: Scores of the selection.
        number: Number of the page, from 1.
        size: Rows per page.
    """
    import polars as pl

    about = scores.selection
    if about.unscored:
        rows = scores.rows.filter(pl.col("value").is_null()).with_columns(pl.lit(None, pl.Float64).alias("apart"))
    elif about.view == "each":
        rows = scores.scored.with_columns(pl.lit(None, pl.Float64).alias("apart"))
    else:
        rows = scores.texts()
    if about.low is not None:
        rows = rows.filter(pl.col("value") >= about.low)
    if about.high is not None:
        is_end = about.high >= scores.high - 1e-9
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
        ListedText(
            row["conversation"], row["turn"], row["value"], row["apart"],
            str(row["annotator"]) if about.view == "each" else None, row["system"], row["version"], row["topic"],
            None if row["day"] is None else row["day"].isoformat(), row["unscored"],
        )
        for row in shown.iter_rows(named=True)
    ]  # fmt: skip
    return TextPage(tuple(cells), number, pages, total, _summary(scores, total))


def _first(rows: Any, columns: list[str], down: list[bool], count: int) -> Any:
    """Return the first rows in an order, sorting only those that can be among them."""
    import polars as pl

    key = rows[columns[0]]
    cut = (key.top_k(count) if down[0] else key.bottom_k(count)).sort(descending=down[0])
    known = cut.drop_nulls()
    if len(known) < count:
        return rows.sort(columns, descending=down, nulls_last=True)
    edge = known[-1]
    near = rows.filter(pl.col(columns[0]) >= edge if down[0] else pl.col(columns[0]) <= edge)
    return near.sort(columns, descending=down, nulls_last=True)


def _summary(scores: SelectedScores, total: int) -> str:
    about = scores.selection
    what = "text" if total == 1 else "texts"
    if about.view != "panel":
        what = f"{'score' if total == 1 else 'scores'} of a text for an annotator"
    where = [f"{name} {value or NOT_SAID}" for name, value in about.filters().items()]
    if about.low is not None or about.high is not None:
        low, high = (
            (scores.low if about.low is None else about.low),
            (scores.high if about.high is None else about.high),
        )
        where.append(f"{about.question} from {low:g} to {high:g}")
    order = {"worst": "worst first", "best": "best first", "apart": "most disputed first", "newest": "newest first"}
    kind = f"{what} without a score" if about.unscored else what
    return f"{total:,} {kind}{' with ' + ', '.join(where) if where else ''}, {order[about.order]}"
