"""Write rows to JSON lines, CSV or Parquet, by the suffix."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

from accord.edges import BadInput, create_private, escape_formula, open_private, replace_file
from accord.values import SCORE_COLUMNS, SCORE_TYPES, Conversation, Turn, score_cell
from accord.values import arrow_schema as arrow_schema
from accord.values import score_schema as score_schema

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


class ScoreWriter(RowWriter):
    """Writes `Score.to_json` rows; a table has their status, too."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "scores", tuple(SCORE_TYPES), SCORE_TYPES)

    def write(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write some rows."""
        names = SCORE_TYPES if self.is_table else SCORE_COLUMNS
        for row in rows:
            self.put({name: score_cell(name, row) if self.is_table else row[name] for name in names})


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


def _inert(cell: Any) -> Any:
    return escape_formula(cell) if isinstance(cell, str) else cell


def _polars_schema(types: Mapping[str, type]) -> pl.Schema:
    import polars as pl

    kinds = {int: pl.Int64(), float: pl.Float64(), bool: pl.Boolean(), str: pl.String()}
    return pl.Schema({name: kinds[kind] for name, kind in types.items()})
