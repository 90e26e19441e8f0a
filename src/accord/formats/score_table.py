"""Scores as a table whose columns are known before the first score: `ROW`, and whether a row has a score.

| `status` | what the row says |
|---|---|
| `scored` | a score, with its value |
| `unscored` | no score; `unscored` says why |
| `bad-row` | the row that came in holds no conversation; `unscored` says why |
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from accord.formats.row_writer import SCORE_NUMBERS
from accord.values import ROW, Score, Unscored, inert

if TYPE_CHECKING:
    import polars as pl

SCORED, UNSCORED, BAD_ROW = "scored", "unscored", "bad-row"
SCORE_TYPES: Mapping[str, type] = {**{name: SCORE_NUMBERS.get(name, str) for name in ROW}, "status": str}
"""The columns of a table of scores, in their order: whole numbers, numbers, texts."""


def score_schema() -> pl.Schema:
    """The columns as Polars has them."""
    import polars as pl

    kinds = {int: pl.Int64(), float: pl.Float64(), str: pl.String()}
    return pl.Schema({name: kinds[kind] for name, kind in SCORE_TYPES.items()})


def arrow_schema() -> Any:
    """The columns as pyarrow has them; needs pyarrow, which whoever asks for it has."""
    import pyarrow as pa

    kinds = {int: pa.int64(), float: pa.float64(), str: pa.string()}
    return pa.schema([(name, kinds[kind]) for name, kind in SCORE_TYPES.items()])


def score_table(scores: Sequence[Score | Unscored], bad: frozenset[int] = frozenset()) -> pl.DataFrame:
    """Scores as a table, a row each, in their order; those at the places in `bad` are rows that hold no conversation.

    The cells are those that `accord score` writes into a Parquet file.
    """
    import polars as pl

    data: dict[str, list[Any]] = {name: [make(score) for score in scores] for name, make in _CELLS.items()}
    data["status"] = [
        SCORED if isinstance(score, Score) else BAD_ROW if place in bad else UNSCORED
        for place, score in enumerate(scores)
    ]
    return pl.DataFrame(data, schema=score_schema())


def _of_score(make: Callable[[Score], Any]) -> Callable[[Score | Unscored], Any]:
    return lambda score: make(score) if isinstance(score, Score) else None


def _json(value: Mapping[str, Any]) -> str | None:
    return json.dumps(dict(value)) if value else None


_Made = Callable[[Score | Unscored], Any]
_CELLS: Mapping[str, _Made] = {
    "conversation": lambda score: inert(score.target.conversation),
    "turn": lambda score: score.target.turn,
    "annotator": lambda score: inert(score.annotator),
    "value": _of_score(lambda score: score.value),
    "low": _of_score(lambda score: score.interval[0]),
    "high": _of_score(lambda score: score.interval[1]),
    "band_low": _of_score(lambda score: score.band and score.band[0]),
    "band_high": _of_score(lambda score: score.band and score.band[1]),
    "variance": _of_score(lambda score: score.variance),
    "entropy": _of_score(lambda score: score.entropy),
    "distribution": _of_score(lambda score: json.dumps(score.distribution)),
    "warning": _of_score(lambda score: score.warning and inert(score.warning)),
    "attributions": _of_score(lambda score: _json(dict(score.attributions))),
    "notes": lambda score: _json(score.notes),
    "unscored": lambda score: inert(score.reason) if isinstance(score, Unscored) else None,
    "signature": lambda score: inert(str(score.signature)),
}
"""Each column of `ROW`, as it follows from a score."""
