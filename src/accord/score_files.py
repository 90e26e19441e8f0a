"""Scores to files: JSON lines and CSV row by row, Parquet at the end; the ending decides."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from accord.errors import BadInput

COLUMNS = ("conversation", "turn", "annotator", "value", "low", "high", "distribution", "unscored", "signature")
ENDINGS = (".jsonl", ".csv", ".parquet")


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
        self._stream: IO[str] | None = None
        self._kept: list[Mapping[str, Any]] = []

    def __enter__(self) -> ScoreWriter:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.suffix != ".parquet":
            self._stream = self._partial.open("w", encoding="utf-8", newline="")
            if self.path.suffix == ".csv":
                csv.writer(self._stream).writerow(COLUMNS)
        return self

    def write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write some rows."""
        if self._stream is None:
            self._kept += [_flat(row) for row in rows]
        elif self.path.suffix == ".csv":
            csv.writer(self._stream).writerows([_flat(row)[name] for name in COLUMNS] for row in rows)
        else:
            self._stream.writelines(json.dumps(row) + "\n" for row in rows)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._stream is not None:
            self._stream.close()
        elif kind is None:
            import polars as pl

            types = {"turn": pl.Int64, "value": pl.Float64, "low": pl.Float64, "high": pl.Float64}
            schema = {name: types.get(name, pl.String) for name in COLUMNS}
            pl.DataFrame(self._kept, schema=schema, orient="row").write_parquet(self._partial)
        if kind is None:
            self._partial.replace(self.path)


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with its distribution as JSON text: one cell of a table."""
    distribution = row["distribution"]
    return {**row, "distribution": None if distribution is None else json.dumps(distribution)}
