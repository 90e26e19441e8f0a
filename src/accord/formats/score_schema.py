"""Scores as a table with fixed columns: `ScoreRow`, and the status of each row.

| `status` | meaning |
|---|---|
| `scored` | a score with its value |
| `unscored` | no score; `unscored` has the reason |
| `bad-row` | the input row holds no conversation; `unscored` has the reason |
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from accord.edges import escape_formula
from accord.formats.row_writer import BAD_ROW, SCORE_NESTED, SCORE_NUMBERS, score_status
from accord.values import SCORE_COLUMNS

if TYPE_CHECKING:
    import polars as pl

SCORE_TYPES: Mapping[str, type] = {**{name: SCORE_NUMBERS.get(name, str) for name in SCORE_COLUMNS}, "status": str}
"""Columns of a table of scores with their types, in order."""


def score_schema() -> pl.Schema:
    """Return the columns as a Polars schema."""
    import polars as pl

    kinds = {int: pl.Int64(), float: pl.Float64(), bool: pl.Boolean(), str: pl.String()}
    return pl.Schema({name: kinds[kind] for name, kind in SCORE_TYPES.items()})


def arrow_schema() -> Any:
    """Return the columns as a pyarrow schema; needs pyarrow."""
    import pyarrow as pa

    kinds = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string()}
    return pa.schema([(name, kinds[kind]) for name, kind in SCORE_TYPES.items()])


def score_frame(
    rows: Sequence[Mapping[str, Any]], bad: frozenset[int] = frozenset(), is_escaped: bool = False
) -> pl.DataFrame:
    """Make a table of rows from `Score.to_json`, with nested cells as JSON.

    Args:
        rows: Rows of scores in order.
        bad: Places of rows that hold no conversation; a reason that begins with `bad-row:` also marks one.
        is_escaped: True to escape texts that a spreadsheet would run as formulas, as in files of scores.
    """
    import polars as pl

    columns = []
    for name, kind in score_schema().items():
        if name == "status":
            cells: list[Any] = [BAD_ROW if place in bad else score_status(row) for place, row in enumerate(rows)]
        elif name in SCORE_NESTED:
            cells = [_encoded(row.get(name)) for row in rows]
        elif is_escaped and SCORE_TYPES[name] is str:
            cells = [None if row.get(name) is None else escape_formula(row[name]) for row in rows]
        else:
            cells = [row.get(name) for row in rows]
        columns.append(pl.Series(name, cells, kind, strict=False))
    return pl.DataFrame(columns)


def _encoded(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)
