"""Write rows to JSON lines, CSV or Parquet, by the suffix, and scores as tables with fixed columns.

The `status` of a row of scores is `scored`; `unscored`, with the reason in the column `unscored`; or `bad-row` for an
input row without a conversation, with the reason there too.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

from accord.edges import BadInput, create_private, escape_formula, open_private, replace_file
from accord.values import SCORE_COLUMNS, Conversation, Turn

if TYPE_CHECKING:
    import polars as pl

ENDINGS = (".jsonl", ".csv", ".parquet")


class RowWriter:
    """Write rows of one kind; a context manager.

    Rows go to `NAME.partial`, which replaces the file at the end, so that a failure leaves the old file.
    """

    def __init__(self, path: Path, kind: str, columns: Sequence[str], numbers: Mapping[str, type]) -> None:
        """Prepare to write rows of a kind, which errors name, with these columns in a table.

        `numbers` has the types of columns with numbers or booleans; all others are text.

        Raises:
            BadInput: The file has a suffix other than `ENDINGS`.
        """
        if path.suffix not in ENDINGS:
            raise BadInput(f"cannot write {kind} to {path.name!r}; the suffix is one of {', '.join(ENDINGS)}")
        self.path = path
        self.is_table = path.suffix != ".jsonl"
        self._columns, self._numbers = columns, numbers
        self._partial = path.with_name(path.name + ".partial")
        self._stream: IO[str]

    def __enter__(self) -> Self:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._stream = open_private(self._partial, "w", encoding="utf-8", newline="")
        self._csv = csv.writer(self._stream)
        if self.path.suffix == ".csv":
            self._csv.writerow(self._columns)
        return self

    def put(self, row: Mapping[str, Any]) -> None:
        """Write a row, of cells for a table."""
        if self.path.suffix == ".csv":
            self._csv.writerow([row[name] for name in self._columns])
        else:
            self._stream.write(json.dumps(row) + "\n")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stream.close()
        if kind is None and self.path.suffix == ".parquet":
            self._to_parquet()
        elif kind is None:
            replace_file(self._partial, self.path)

    def _to_parquet(self) -> None:
        import polars as pl

        schema = _polars_schema({name: self._numbers.get(name, str) for name in self._columns})
        create_private(self.path)
        if self._partial.stat().st_size:
            pl.scan_ndjson(self._partial, schema=schema).select(self._columns).sink_parquet(self.path)
        else:
            pl.DataFrame(schema=schema).write_parquet(self.path)
        self._partial.unlink()


class QueueWriter(RowWriter):
    """Write labels to fill in, each with an empty value."""

    _COLUMNS = ("conversation", "turn", "question", "annotator", "value")

    def __init__(self, path: Path) -> None:
        super().__init__(path, "labels to fill in", self._COLUMNS, {"turn": int})

    def write(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write the columns of labels of some rows."""
        for row in rows:
            cells = {name: row.get(name) for name in self._COLUMNS}
            self.put({name: _inert(cell) for name, cell in cells.items()} if self.is_table else cells)


SCORE_NUMBERS: Mapping[str, type] = {"turn": int, "rated": bool, "in_training": bool} | dict.fromkeys(
    ("value", "low", "high", "band_low", "band_high", "variance", "entropy"), float
)
"""Types of score columns with numbers or booleans; all others are text."""
SCORE_NESTED = ("distribution", "attributions", "notes")
"""Score columns with JSON text."""


SCORED, UNSCORED, BAD_ROW = "scored", "unscored", "bad-row"


def score_status(row: Mapping[str, Any]) -> str:
    """Return the status of a row of scores, from its reason if it has no status."""
    reason = row.get("unscored")
    if str(reason).startswith(f"{BAD_ROW}:"):
        return BAD_ROW
    return str(row.get("status") or (SCORED if reason is None else UNSCORED))


class ScoreWriter(RowWriter):
    """Writes `Score.to_json` rows; a table has their status, too."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "scores", (*SCORE_COLUMNS, "status"), SCORE_NUMBERS)

    def write(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write some rows."""
        for row in rows:
            cells = {name: row[name] for name in SCORE_COLUMNS}
            if self.is_table:
                cells = {name: _cell(name, cell) for name, cell in cells.items()} | {"status": score_status(row)}
            self.put(cells)


class ConversationWriter(RowWriter):
    """Write conversations as JSON lines with messages, documents and metadata, which `read` restores."""

    def __init__(self, path: Path) -> None:
        if path.suffix != ".jsonl":
            raise BadInput(f"cannot write conversations to {path.name!r}; the suffix is .jsonl")
        super().__init__(path, "conversations", (), {})

    def write(self, conversations: Iterable[Conversation]) -> None:
        """Write some conversations."""
        for conversation in conversations:
            messages = [_message(turn) for turn in conversation.turns]
            documents = [document.to_json() for document in conversation.documents]
            extra = {"documents": documents} if documents else {}
            self.put({**conversation.metadata, "id": conversation.id, "messages": messages, **extra})


def _message(turn: Turn) -> dict[str, Any]:
    optional = {key: value for key, value in {"name": turn.name, "time": turn.time}.items() if value}
    return {**turn.extra, "role": turn.role, "content": turn.content, **optional}


def _cell(name: str, value: Any) -> Any:
    """Return a value of a score row as a cell of a table; nested values become JSON."""
    if value is not None and name in SCORE_NESTED:
        return json.dumps(value)
    return _inert(value)


def _inert(cell: Any) -> Any:
    return escape_formula(cell) if isinstance(cell, str) else cell


SCORE_TYPES: Mapping[str, type] = {**{name: SCORE_NUMBERS.get(name, str) for name in SCORE_COLUMNS}, "status": str}
"""Columns of a table of scores with their types, in order."""


def score_schema() -> pl.Schema:
    """Return the columns as a Polars schema."""
    return _polars_schema(SCORE_TYPES)


def _polars_schema(types: Mapping[str, type]) -> pl.Schema:
    import polars as pl

    kinds = {int: pl.Int64(), float: pl.Float64(), bool: pl.Boolean(), str: pl.String()}
    return pl.Schema({name: kinds[kind] for name, kind in types.items()})


def arrow_schema() -> Any:
    """Return the columns as a pyarrow schema; needs pyarrow."""
    import pyarrow as pa

    kinds = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string()}
    return pa.schema([(name, kinds[kind]) for name, kind in SCORE_TYPES.items()])


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
