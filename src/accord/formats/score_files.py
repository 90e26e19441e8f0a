"""Scores to files as they come: JSON lines, CSV, or Parquet made of JSON lines at the end; the ending decides."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from accord.values import ROW as COLUMNS
from accord.values import BadInput

ENDINGS = (".jsonl", ".csv", ".parquet")
NESTED = ("distribution", "attributions", "notes")
"""What is no plain value: in a table, a cell of JSON."""


class ScoreWriter:
    """Writes `Score.to_json` rows as they come. Use as a context manager.

    Rows go to `NAME.partial`, which takes the file's place when all are written: a failure leaves what was there.
    """

    def __init__(self, path: Path) -> None:
        """Prepare to write.

        Raises:
            BadInput: The file's ending is none of `ENDINGS`.
        """
        if path.suffix not in ENDINGS:
            raise BadInput(f"cannot write scores to {path.name!r}; the ending is one of {', '.join(ENDINGS)}")
        self.path = path
        self._partial = path.with_name(path.name + ".partial")
        self._stream: IO[str]

    def __enter__(self) -> ScoreWriter:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._stream = self._partial.open("w", encoding="utf-8", newline="")
        if self.path.suffix == ".csv":
            csv.writer(self._stream).writerow(COLUMNS)
        return self

    def write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write some rows."""
        if self.path.suffix == ".csv":
            csv.writer(self._stream).writerows([_flat(row)[name] for name in COLUMNS] for row in rows)
        elif self.path.suffix == ".parquet":
            self._stream.writelines(json.dumps(_flat(row)) + "\n" for row in rows)
        else:
            self._stream.writelines(json.dumps(row) + "\n" for row in rows)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stream.close()
        if kind is None and self.path.suffix == ".parquet":
            _to_parquet(self._partial, self.path)
        elif kind is None:
            self._partial.replace(self.path)


def _to_parquet(lines: Path, path: Path) -> None:
    """JSON lines to Parquet, streamed."""
    import polars as pl

    texts = {
        "conversation",
        "annotator",
        "distribution",
        "warning",
        "attributions",
        "notes",
        "unscored",
        "signature",
    }
    schema = {name: pl.Int64 if name == "turn" else pl.String if name in texts else pl.Float64 for name in COLUMNS}
    if lines.stat().st_size:
        pl.scan_ndjson(lines, schema=schema).select(COLUMNS).sink_parquet(path)
    else:
        pl.DataFrame(schema=schema).write_parquet(path)
    lines.unlink()


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with its mappings as JSON text: each one cell of a table."""
    nested = {name: row[name] for name in NESTED}
    return {**row, **{name: None if value is None else json.dumps(value) for name, value in nested.items()}}
