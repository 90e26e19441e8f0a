"""Rows of the mart of scores: columns, keys, tables and log lines; files of parts; and scores read from them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from accord.edges import FIRST_MOMENT, LAST_MOMENT, sendable, sendable_json

if TYPE_CHECKING:
    import polars as pl


MART: Mapping[str, str] = {
    "conversation": "text", "turn": "whole", "question": "text", "annotator": "text", "evaluator": "text",
    "signature": "text", "is_main": "flag", "value": "number", "low": "number", "high": "number",
    "band_low": "number", "band_high": "number", "options": "numbers", "probabilities": "numbers", "warning": "text",
    "unscored": "text", "attributions": "text", "notes": "text", "system": "text", "version": "text", "topic": "text",
    "user_group": "text", "language": "text", "time": "time", "scored": "time", "synthetic": "flag", "rated": "flag",
    "in_training": "flag", "input": "text", "origin": "text", "run": "text", "bundle": "whole", "key": "key",
}  # fmt: skip
"""Columns with their kinds; times are in milliseconds since 1970."""
LIVE_ROWS, BATCH_ROWS = "live", "batch"
"""Origins of rows: live scoring, or a run."""
BUNDLES = 512
"""Number of bundles of conversations, by hash: resampling bundles stands for resampling a million conversations."""
MartRow = dict[str, Any]
"""A row: the columns of `MART` without `key` and `bundle`, which are computed."""


def row_key(row: Mapping[str, Any]) -> int:
    """Return the key of a row, a hash below 2⁶³ of its target, question, annotator and evaluator."""
    named = [row[name] for name in ("conversation", "turn", "question", "annotator", "evaluator")]
    return int.from_bytes(blake2b(json.dumps(named).encode(), digest_size=8).digest(), "big") >> 1


def bundle_of(conversation: str) -> int:
    """Return the bundle of a conversation, from 0."""
    return int.from_bytes(blake2b(conversation.encode("utf-8", "replace"), digest_size=4).digest(), "big") % BUNDLES


def mart_schema() -> dict[str, pl.DataType]:
    """Return the columns as a Polars schema."""
    import polars as pl

    kinds: dict[str, pl.DataType] = {
        "text": pl.String(), "whole": pl.Int32(), "number": pl.Float64(), "numbers": pl.List(pl.Float32()),
        "time": pl.Datetime("ms"), "flag": pl.Boolean(), "key": pl.Int64(),
    }  # fmt: skip
    return {name: kinds[kind] for name, kind in MART.items()}


def in_calendar_only(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Replace times outside the years 1 to 9999 by null: Python has no dates for them, so every query would fail."""
    import polars as pl

    times = [pl.col(name).dt.epoch("ms").is_between(FIRST_MOMENT, LAST_MOMENT) for name in _TIMES]
    return rows.with_columns(pl.when(ok).then(pl.col(name)) for ok, name in zip(times, _TIMES, strict=True))


_TIMES = tuple(name for name, kind in MART.items() if kind == "time")


def frames_of(rows: Iterable[MartRow], batch_size: int) -> Iterator[pl.DataFrame]:
    """Yield tables of at most `batch_size` rows."""
    batch: list[MartRow] = []
    for row in rows:
        batch.append(row)
        if len(batch) >= batch_size:
            yield frame_of(batch)
            batch = []
    if batch:
        yield frame_of(batch)


def frame_of(rows: Sequence[MartRow]) -> pl.DataFrame:
    """Return rows as a table with sendable texts and with null for times outside the years 1 to 9999."""
    import polars as pl

    columns: dict[str, Any] = {}
    for name, kind in mart_schema().items():
        if name == "key":
            cells: list[Any] = [row_key(row) for row in rows]
        elif name == "bundle":
            cells = [bundle_of(row["conversation"]) for row in rows]
        else:
            cells = [row.get(name) for row in rows]
        if MART[name] == "text":
            cells = [None if cell is None else sendable(str(cell)) for cell in cells]
        times = MART[name] == "time"
        columns[name] = pl.Series(name, cells, pl.Int64() if times else kind, strict=False).cast(kind)
    return in_calendar_only(pl.LazyFrame(columns)).collect()


def read_line(line: bytes) -> MartRow:
    """Return the row of a line of a log.

    Raises:
        ValueError: The line is invalid.
    """
    return msgspec.structs.asdict(_DECODER.decode(line))


_LINE_TYPES: Mapping[str, Any] = {
    "text": str | None, "whole": Annotated[int, msgspec.Meta(ge=0, lt=2**31)] | None, "number": float | None,
    "numbers": list[float] | None, "time": Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)] | None, "flag": bool,
}  # fmt: skip
_REQUIRED = ("conversation", "question", "annotator", "evaluator")
_Line = msgspec.defstruct(
    "_Line",
    [
        *((name, str) for name in _REQUIRED),
        *(
            (name, _LINE_TYPES[kind], name == "is_main" if kind == "flag" else None)
            for name, kind in MART.items()
            if name not in (*_REQUIRED, "bundle", "key")
        ),
    ],
)
_DECODER = msgspec.json.Decoder(_Line)


def lines_of(rows: Sequence[MartRow]) -> bytes:
    """Return rows as lines of a log, with sendable texts."""
    try:
        return b"".join(_ENCODER.encode(row) + b"\n" for row in rows)
    except UnicodeEncodeError:  # checking every text would cost more than the encoding
        return b"".join(_ENCODER.encode(sendable_json(row)) + b"\n" for row in rows)


_ENCODER = msgspec.json.Encoder()


# --- files of parts ---------------------------------------------------------------------------------------------------
