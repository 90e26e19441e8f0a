"""Table of scores: the columns of files, folders of parts and the mart, and the conversions between their rows.

A score is a `ScoreRow`, with JSON objects. In tables of files and parts, these are JSON texts, and a `status` is added:
`scored`; `unscored`, with the reason in the column `unscored`; or `bad-row` for an input row without a conversation,
with the reason there too. The mart has the distribution as two lists, facts about the conversation, and a row for each
answer to another question.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from accord.edges import FIRST_MOMENT, LAST_MOMENT, escape_formula, sendable, sendable_json, unescape_formula
from accord.values.score import ScoreRow, entropy, variance

if TYPE_CHECKING:
    import polars as pl


class ScoreColumn(NamedTuple):
    """A column of scores.

    Attributes:
        kind: Type of its cells; `json` is an object in a row and a text in tables, `time` in milliseconds since 1970.
        holds_words: True if it may hold words or facts of the people in a conversation, so that an erasure clears it.
        place: Tables that have it.
    """

    kind: Literal["text", "whole", "number", "flag", "json", "numbers", "time", "key"]
    holds_words: bool
    place: Literal["both", "files", "mart"] = "both"


SCORE_TABLE: Mapping[str, ScoreColumn] = {
    "conversation": ScoreColumn("text", False),  # erased as a name
    "turn": ScoreColumn("whole", False),
    "version": ScoreColumn("text", False),
    "annotator": ScoreColumn("text", False),  # erased as a name
    "rated": ScoreColumn("flag", False),
    "in_training": ScoreColumn("flag", False),
    "value": ScoreColumn("number", False),
    "low": ScoreColumn("number", False),
    "high": ScoreColumn("number", False),
    "band_low": ScoreColumn("number", False),
    "band_high": ScoreColumn("number", False),
    "variance": ScoreColumn("number", False, "files"),
    "entropy": ScoreColumn("number", False, "files"),
    "distribution": ScoreColumn("json", False, "files"),
    "warning": ScoreColumn("text", True),
    "attributions": ScoreColumn("json", True),
    "notes": ScoreColumn("json", True),
    "unscored": ScoreColumn("text", True),
    "signature": ScoreColumn("text", False),
    "status": ScoreColumn("text", False, "files"),
    "question": ScoreColumn("text", False, "mart"),
    "evaluator": ScoreColumn("text", False, "mart"),
    "is_main": ScoreColumn("flag", False, "mart"),
    "options": ScoreColumn("numbers", False, "mart"),
    "probabilities": ScoreColumn("numbers", False, "mart"),
    "system": ScoreColumn("text", False, "mart"),
    "topic": ScoreColumn("text", True, "mart"),
    "user_group": ScoreColumn("text", True, "mart"),
    "language": ScoreColumn("text", True, "mart"),
    "time": ScoreColumn("time", False, "mart"),
    "scored": ScoreColumn("time", False, "mart"),
    "synthetic": ScoreColumn("flag", False, "mart"),
    "input": ScoreColumn("text", True, "mart"),  # hash of the words before a reply
    "origin": ScoreColumn("text", False, "mart"),
    "run": ScoreColumn("text", False, "mart"),
    "bundle": ScoreColumn("whole", False, "mart"),
    "key": ScoreColumn("key", False, "mart"),
}
"""Every column of scores, in the order of files."""

SCORE_TYPES: Mapping[str, type] = {
    name: {"whole": int, "number": float, "flag": bool}.get(column.kind, str)
    for name, column in SCORE_TABLE.items()
    if column.place != "mart"
}
"""Columns of a table of scores in files and parts with their types, in order."""
SCORE_COLUMNS = tuple(name for name in SCORE_TYPES if name != "status")
"""Names in a score's flat row, in their order."""
SCORE_NESTED = tuple(name for name in SCORE_TYPES if SCORE_TABLE[name].kind == "json")
"""Columns of scores with JSON text."""
ADDED_COLUMNS = ("version",)
"""Columns that parts of 0.2.0 lack; they are null there."""
MART_COLUMNS = tuple(name for name, column in SCORE_TABLE.items() if column.place != "files")
"""Columns of the mart."""
ANNOTATION_WORDS = frozenset({"quote", "comment", "span"})
"""Fields of annotations that may hold words of a conversation or an annotator."""
WORDS = ANNOTATION_WORDS | {"id", "error"} | {name for name, column in SCORE_TABLE.items() if column.holds_words}
"""Columns of annotations, of live scoring and of scores that may hold words or facts of people."""
SCORED, UNSCORED, BAD_ROW = "scored", "unscored", "bad-row"


# --- files and parts ------------------------------------------------------------------------------------------------


def score_schema() -> pl.Schema:
    """Return the columns of files and parts as a Polars schema."""
    import polars as pl

    kinds = {int: pl.Int64(), float: pl.Float64(), bool: pl.Boolean(), str: pl.String()}
    return pl.Schema({name: kinds[kind] for name, kind in SCORE_TYPES.items()})


def arrow_schema() -> Any:
    """Return the columns of files and parts as a pyarrow schema; needs pyarrow."""
    import pyarrow as pa

    kinds = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string()}
    return pa.schema([(name, kinds[kind]) for name, kind in SCORE_TYPES.items()])


def score_status(row: Mapping[str, Any]) -> str:
    """Return the status of a row of scores, from its reason if it has no status."""
    reason = row.get("unscored")
    if str(reason).startswith(f"{BAD_ROW}:"):
        return BAD_ROW
    return str(row.get("status") or (SCORED if reason is None else UNSCORED))


def score_cell(name: str, row: Mapping[str, Any], is_escaped: bool = True) -> Any:
    """Return the cell of a table for a column of a `ScoreRow`; `is_escaped` escapes formulas."""
    if name == "status":
        return score_status(row)
    value = row.get(name)
    if name in SCORE_NESTED:
        return value if value is None or isinstance(value, str) else json.dumps(value)
    return escape_formula(value) if is_escaped and isinstance(value, str) else value


def score_frame(
    rows: Sequence[Mapping[str, Any]], bad: frozenset[int] = frozenset(), is_escaped: bool = False
) -> pl.DataFrame:
    """Make a table of rows from `Score.to_json`, with nested cells as JSON.

    `bad` holds the places of rows without a conversation; a reason that begins with `bad-row:` also marks one.
    `is_escaped` escapes texts that a spreadsheet would run as formulas, as in files of scores.
    """
    import polars as pl

    columns = []
    for name, kind in score_schema().items():
        cells = [score_cell(name, row, is_escaped) for row in rows]
        if name == "status":
            cells = [BAD_ROW if place in bad else cell for place, cell in enumerate(cells)]
        columns.append(pl.Series(name, cells, kind, strict=False))
    return pl.DataFrame(columns)


def row_of_cells(cells: Mapping[str, Any]) -> dict[str, Any]:
    """Return a `ScoreRow` with its `status` from the cells of a table; empty texts are null.

    Raises:
        ValueError: A nested cell is not JSON.
    """
    row = dict(cells)
    for name, cell in cells.items():
        if cell == "":
            row[name] = None
        elif isinstance(cell, str):
            if name in SCORE_NESTED:
                row[name] = json.loads(cell)
            elif SCORE_TYPES.get(name) is bool:
                row[name] = cell.casefold() == "true"
            else:
                row[name] = unescape_formula(cell)
    return row


# --- the mart -------------------------------------------------------------------------------------------------------

LIVE_ROWS, BATCH_ROWS = "live", "batch"
"""Origins of rows: live scoring, or a run."""
BUNDLES = 512
"""Number of bundles of conversations, by hash: resampling bundles stands for resampling a million conversations."""
MartRow = dict[str, Any]
"""A row: the columns of the mart without `key` and `bundle`, which are computed."""


def row_key(row: Mapping[str, Any]) -> int:
    """Return the key of a row, a hash below 2⁶³ of its target, question, annotator and evaluator."""
    named = [row[name] for name in ("conversation", "turn", "question", "annotator", "evaluator")]
    return int.from_bytes(blake2b(json.dumps(named).encode(), digest_size=8).digest(), "big") >> 1


def bundle_of(conversation: str) -> int:
    """Return the bundle of a conversation, from 0."""
    return int.from_bytes(blake2b(conversation.encode("utf-8", "replace"), digest_size=4).digest(), "big") % BUNDLES


def mart_schema() -> pl.Schema:
    """Return the columns of the mart as a Polars schema."""
    import polars as pl

    kinds: dict[str, pl.DataType] = {
        "text": pl.String(), "json": pl.String(), "whole": pl.Int32(), "number": pl.Float64(),
        "numbers": pl.List(pl.Float32()), "time": pl.Datetime("ms"), "flag": pl.Boolean(), "key": pl.Int64(),
    }  # fmt: skip
    return pl.Schema({name: kinds[SCORE_TABLE[name].kind] for name in MART_COLUMNS})


def mart_answer(score: Mapping[str, Any]) -> MartRow:
    """Return the mart's columns of a predicted answer: a `ScoreRow`, or an answer to another question in its notes."""
    shares = score.get("distribution") or {}
    names = ("value", "low", "high", "band_low", "band_high", "warning", "unscored")
    return {
        **{name: score.get(name) for name in names},
        "options": [float(option) for option in shares] or None, "probabilities": list(shares.values()) or None,
        **{name: json.dumps(score[name]) if score.get(name) else None for name in ("attributions", "notes")},
    }  # fmt: skip


def row_of_mart(row: Mapping[str, Any]) -> ScoreRow:
    """Return a row of the mart as a flat row of a score; probabilities are rounded to 6 digits."""
    options, shares = row["options"], row["probabilities"]
    score: dict[str, Any] = {name: row.get(name) for name in SCORE_COLUMNS}
    score["attributions"], score["notes"] = (json.loads(row[name] or "null") for name in ("attributions", "notes"))
    if options:
        score["variance"], score["entropy"] = variance(options, shares), entropy(shares)
        score["distribution"] = {f"{option:g}": round(share, 6) for option, share in zip(options, shares, strict=True)}
    return score  # type: ignore[return-value]


def mart_frame(rows: Sequence[MartRow]) -> pl.DataFrame:
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
        if kind == pl.String:
            cells = [None if cell is None else sendable(str(cell)) for cell in cells]
        of_time = SCORE_TABLE[name].kind == "time"
        columns[name] = pl.Series(name, cells, pl.Int64() if of_time else kind, strict=False).cast(kind)
    return in_calendar_only(pl.LazyFrame(columns)).collect()


def in_calendar_only(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Replace times outside the years 1 to 9999 by null: Python has no dates for them, so every query would fail."""
    import polars as pl

    names = [name for name in MART_COLUMNS if SCORE_TABLE[name].kind == "time"]
    times = [pl.col(name).dt.epoch("ms").is_between(FIRST_MOMENT, LAST_MOMENT) for name in names]
    return rows.with_columns(pl.when(ok).then(pl.col(name)) for ok, name in zip(times, names, strict=True))


def mart_lines(rows: Iterable[MartRow]) -> bytes:
    """Return rows of the mart as lines of a log, with sendable texts."""
    import msgspec

    try:
        return b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
    except UnicodeEncodeError:  # checking every text would cost more than the encoding
        return b"".join(msgspec.json.encode(sendable_json(row)) + b"\n" for row in rows)


def row_of_line(line: bytes) -> MartRow:
    """Return the row of a line of a log.

    Raises:
        ValueError: The line is invalid.
    """
    import msgspec

    return msgspec.structs.asdict(_line_decoder().decode(line))


@cache
def _line_decoder() -> Any:
    """Return the decoder of lines, which checks their types."""
    import msgspec

    types: Mapping[str, Any] = {
        "text": str | None, "json": str | None, "whole": Annotated[int, msgspec.Meta(ge=0, lt=2**31)] | None,
        "number": float | None, "numbers": list[float] | None, "flag": bool,
        "time": Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)] | None,
    }  # fmt: skip
    required = ("conversation", "question", "annotator", "evaluator")
    fields: list[Any] = [(name, str) for name in required]
    for name in MART_COLUMNS:
        if name not in (*required, "bundle", "key"):
            kind = SCORE_TABLE[name].kind
            fields.append((name, types[kind], name == "is_main" if kind == "flag" else None))
    return msgspec.json.Decoder(msgspec.defstruct("_Line", fields))
