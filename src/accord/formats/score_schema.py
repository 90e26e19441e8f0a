"""Scores as a table whose columns are known before the first score: `SCORE_COLUMNS`, and whether a row has a score.

| `status` | what the row says |
|---|---|
| `scored` | a score, with its value |
| `unscored` | no score; `unscored` says why |
| `bad-row` | the row that came in holds no conversation; `unscored` says why |
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from accord.edges import escape_formula
from accord.formats.row_writer import SCORE_NESTED, SCORE_NUMBERS
from accord.values import SCORE_COLUMNS, Score, Signature, Unscored

if TYPE_CHECKING:
    import polars as pl

SCORED, UNSCORED, BAD_ROW = "scored", "unscored", "bad-row"
SCORE_TYPES: Mapping[str, type] = {**{name: SCORE_NUMBERS.get(name, str) for name in SCORE_COLUMNS}, "status": str}
"""Columns of a table of scores, in their order, with their types."""


def score_schema() -> pl.Schema:
    """The columns as Polars has them."""
    import polars as pl

    kinds = {int: pl.Int64(), float: pl.Float64(), bool: pl.Boolean(), str: pl.String()}
    return pl.Schema({name: kinds[kind] for name, kind in SCORE_TYPES.items()})


def arrow_schema() -> Any:
    """The columns as pyarrow has them; needs pyarrow, which whoever asks for it has."""
    import pyarrow as pa

    kinds = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string()}
    return pa.schema([(name, kinds[kind]) for name, kind in SCORE_TYPES.items()])


def score_table(scores: Sequence[Score | Unscored], bad: frozenset[int] = frozenset()) -> pl.DataFrame:
    """Scores as a table, a row each, in their order; those at the places in `bad` are rows that hold no conversation.

    The cells are those that `accord score` writes into a Parquet file.
    """
    import polars as pl

    rows = [_row(score, place in bad) for place, score in enumerate(scores)]
    columns = zip(*rows, strict=True) if rows else ((),) * len(SCORE_TYPES)
    schema = score_schema()
    data = [pl.Series(name, cells, schema[name]) for name, cells in zip(schema, columns, strict=True)]
    return pl.DataFrame(data)


def score_frame(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Make a table of rows from `Score.to_json`; ids stay unchanged, nested cells are JSON."""
    import polars as pl

    columns = {name: [_cell(name, row) for row in rows] for name in SCORE_TYPES}
    return pl.DataFrame([pl.Series(name, columns[name], kind, strict=False) for name, kind in score_schema().items()])


def _cell(name: str, row: Mapping[str, Any]) -> Any:
    if name == "status":
        reason = row.get("unscored")
        return SCORED if reason is None else BAD_ROW if str(reason).startswith(f"{BAD_ROW}:") else UNSCORED
    value = row.get(name)
    return _encoded(value) if name in SCORE_NESTED and value is not None and not isinstance(value, str) else value


def _row(score: Score | Unscored, is_bad: bool) -> tuple[Any, ...]:
    """The cells of one score, in the order of `SCORE_TYPES`."""
    target, notes = score.target, score.notes
    about = (
        escape_formula(target.conversation),
        target.turn,
        escape_formula(score.annotator),
        score.rated,
        score.in_training,
    )
    told, made = json.dumps(dict(notes)) if notes else None, _signature(score.signature)
    if isinstance(score, Unscored):
        why, status = escape_formula(score.reason), BAD_ROW if is_bad else UNSCORED
        return (*about, *_NOTHING, told, why, made, status)
    band_low, band_high = score.band or (None, None)
    return (
        *about, score.value, *score.interval, band_low, band_high, score.variance,
         score.entropy, _encoded(score.distribution), score.warning and escape_formula(score.warning),
        _encoded(dict(score.attributions)) if score.attributions else None, told, None, made, SCORED,
    )  # fmt: skip


_NOTHING = (None,) * (SCORE_COLUMNS.index("notes") - SCORE_COLUMNS.index("value"))
_encoded = json.JSONEncoder().encode


@lru_cache(maxsize=64)
def _signature(signature: Signature) -> str:
    """A signature as its cell; thousands of scores share one."""
    return escape_formula(str(signature))
