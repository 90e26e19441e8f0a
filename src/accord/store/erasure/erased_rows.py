"""Removing erased conversations and annotators from tables of scores and annotations: rows, frames and files.

Names are looked up by their hashes, so that a list of erased names does not hold the names. A row about an erased
conversation is removed, or it stays under a pseudonym without the columns that may hold words (`WORDS`).
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from accord.edges import MB, open_regular, regular_size, unescape_formula, unreadable_parquet, write_atomically
from accord.store.erasure.erasing import Erasures
from accord.store.erasure.tombstones import name_hash
from accord.values import WORDS

if TYPE_CHECKING:
    import polars as pl

_SHAPES = (
    {"conversation", "value", "signature"},
    {"conversation", "status"},
    {"conversation", "question", "by", "kind"},
)
"""Columns of scores, of rows of live scoring, and of exported annotations."""
_FIRST_ROWS = 20
_ENDINGS = {".jsonl", ".csv", ".parquet"}
_NAMED, _PEOPLE = ("conversation", "against"), ("annotator", "by")
"""Columns with names of conversations, and of annotators."""
_NO_REASON = "erased"
"""Reason of a row without a score in place of its own, which may hold words."""


@lru_cache(maxsize=4096)
def hashed_name(name: str) -> str:
    """Return the hash of a name, as hexadecimal digits."""
    return f"{name_hash(name):016x}"


@dataclass(frozen=True)
class ErasedNames:
    """Names to remove from rows, by their hashes (`hashed_name`).

    Attributes:
        conversations: Pseudonym of each erased conversation whose rows stay without words; None removes its rows.
        annotators: Pseudonym of each erased annotator.
        common: Names of questions and settings; an annotator of such a name is looked for in entries of annotators.
    """

    conversations: Mapping[str, str | None] = field(default_factory=dict)
    annotators: Mapping[str, str] = field(default_factory=dict)
    common: Set[str] = frozenset()

    @classmethod
    def of(
        cls, conversations: Mapping[str, str | None], annotators: Mapping[str, str] | None = None,
        common: Set[str] = frozenset(),
    ) -> Self:  # fmt: skip
        """Return the names to remove from pseudonyms by name."""
        people = {hashed_name(name): new for name, new in (annotators or {}).items()}
        return cls({hashed_name(name): new for name, new in conversations.items()}, people, common)

    def __bool__(self) -> bool:
        return bool(self.conversations or self.annotators)

    def has(self, name: object) -> bool:
        """Return True for the name of an erased conversation."""
        return isinstance(name, str) and hashed_name(name) in self.conversations

    def annotator(self, name: Any) -> Any:
        """Return the pseudonym of an erased annotator, and every other value as it is."""
        return self.annotators.get(hashed_name(name), name) if isinstance(name, str) else name

    def row(self, row: Mapping[str, Any], is_escaped: bool = False) -> Mapping[str, Any] | None:
        """Return a row without erased names, the row itself if it has none, or None to remove it.

        With `is_escaped`, names may be escaped as in tables.
        """
        new: dict[str, Any] = {}
        for column in _NAMED:
            if (name := self._found(row.get(column), self.conversations, is_escaped)) is None:
                continue
            if (pseudonym := self.conversations[name]) is None:
                return None
            new |= {text: None for text in WORDS if row.get(text) is not None} | {column: pseudonym}
        for column in _PEOPLE:
            if (name := self._found(row.get(column), self.annotators, is_escaped)) is not None:
                new[column] = self.annotators[name]
        if "unscored" in new:
            new["unscored"] = _NO_REASON
        return {**row, **new} if new else row

    def _found(self, name: Any, names: Mapping[str, Any], is_escaped: bool) -> str | None:
        """Return the hash of a name if it is among some names, else None."""
        if not names or not isinstance(name, str):
            return None
        forms = (name, unescape_formula(name)) if is_escaped else (name,)
        return next((key for form in forms if (key := hashed_name(form)) in names), None)

    def _in(self, rows: pl.LazyFrame, column: str, names: Mapping[str, Any], is_escaped: bool) -> dict[str, Any]:
        """Return the pseudonyms of the erased names in a column."""
        import polars as pl

        found = rows.select(pl.col(column).unique()).collect()[column] if names else ()
        keys = ((name, self._found(name, names, is_escaped)) for name in found)
        return {name: names[key] for name, key in keys if key is not None}

    def frame(self, rows: pl.LazyFrame, is_escaped: bool = False) -> pl.LazyFrame:
        """Return a table without erased names, as `row` does for each row."""
        import polars as pl

        columns = rows.collect_schema().names()
        for column in [name for name in _NAMED if name in columns]:
            found = self._in(rows, column, self.conversations, is_escaped)
            if gone := [name for name, new in found.items() if new is None]:
                rows = rows.filter(~pl.col(column).is_in(gone).fill_null(False))
            if kept := {name: new for name, new in found.items() if new is not None}:
                is_kept = pl.col(column).is_in(list(kept)).fill_null(False)
                words = [name for name in columns if name in WORDS]
                cells = {
                    name: pl.when(pl.col(name).is_not_null()).then(pl.lit(_NO_REASON if name == "unscored" else None))
                    for name in words
                }
                cleared = [pl.when(is_kept).then(cells[name]).otherwise(pl.col(name)).alias(name) for name in words]
                rows = rows.with_columns(*cleared, pl.col(column).replace(kept))
        for column in [name for name in _PEOPLE if name in columns]:
            if found := self._in(rows, column, self.annotators, is_escaped):
                rows = rows.with_columns(pl.col(column).replace(found))
        return rows

    def count(self, rows: pl.LazyFrame, is_escaped: bool = False) -> int:
        """Return the number of rows of a table with an erased name."""
        import polars as pl

        columns = [name for name in (*_NAMED, *_PEOPLE) if name in rows.collect_schema().names()]
        names = rows.group_by(columns).agg(pl.len().alias("rows")).collect()
        return sum(row["rows"] for row in names.iter_rows(named=True) if self.row(row, is_escaped) is not row)

    def renamed(self, value: Any, is_person: bool = False) -> Any:
        """Return a JSON value with pseudonyms for annotators; `is_person` is True where every name is one."""
        if isinstance(value, dict):
            return {
                self.renamed(key, is_person): self.renamed(inner, is_person or key in Erasures.people_keys)
                for key, inner in value.items()
            }
        if isinstance(value, list):
            return [self.renamed(inner, is_person) for inner in value]
        return self.annotator(value) if is_person or value not in self.common else value


# --- files ----------------------------------------------------------------------------------------------------------


def erase_in_file(path: Path, names: ErasedNames, writes: bool = True) -> int | None:
    """Remove erased names from a file that Accord wrote, and return the number of rows with one.

    None means that Accord did not write it. Rows of a log of live scores are overwritten in place with the status
    `erased`, because a follower may be appending to the file.

    Args:
        path: The file.
        names: Names to remove.
        writes: False only counts.

    Raises:
        OSError: The file cannot be written; it is unchanged.
    """
    columns = _columns(path)
    if not any(shape <= columns for shape in _SHAPES):
        return None
    if path.suffix == ".jsonl" and "status" in columns:
        return len(overwrite_erased(path, names, _GONE, writes))
    count, made = 0, list[bytes]()
    if path.suffix == ".parquet":
        import polars as pl

        frame = pl.read_parquet(path, glob=False).lazy()
        if (count := names.count(frame, is_escaped=True)) and writes:
            made = [parquet_of(names.frame(frame, is_escaped=True).collect())]
    elif path.suffix == ".csv":
        with path.open(encoding="utf-8-sig", newline="") as stream:
            reader, text = csv.DictReader(stream), io.StringIO(newline="")
            writer = csv.DictWriter(text, reader.fieldnames or (), lineterminator="\n", extrasaction="ignore")
            writer.writeheader()
            for row in reader:
                changed = names.row(row, is_escaped=True)
                count += changed is not row
                if changed is not None:
                    writer.writerow(changed)
        made = [text.getvalue().encode()]
    else:
        with path.open("rb") as lines:
            for line, fields in _rows_of(lines):
                kept = names.row(fields)
                count += kept is not fields
                if kept is not None and line.strip():
                    made.append(line if kept is fields else json.dumps(kept).encode() + b"\n")
    if count and writes:
        write_atomically(path, b"".join(made))
    return count


_GONE = b'{"status": "erased", "conversation": null}'
"""Row of a log in place of an erased one, followed by spaces."""


def overwrite_erased(
    path: Path, names: ErasedNames, gone: bytes = b"", writes: bool = True
) -> list[Mapping[str, Any] | None]:
    """Overwrite the rows with an erased name in a log, whose writer may go on, and return the changed rows.

    A row is overwritten by `gone`, or by the row under a pseudonym if that is as short; None stands for a removed row
    and for one that was written in place.
    """
    changes, left, place = list[tuple[int, bytes]](), list[Mapping[str, Any] | None](), 0
    with io.BufferedReader(open_regular(path)) as stream:
        for line, row in _rows_of(stream):
            if (kept := names.row(row)) is not row:
                size = len(line.rstrip(b"\r\n"))
                new = b"" if kept is None else json.dumps(kept).encode()
                fits = 0 < len(new) <= size
                changes.append((place, (new if fits else gone if len(gone) <= size else b"{}").ljust(size)))
                left.append(None if fits else kept)
            place += len(line)
    if changes and writes:
        with path.open("r+b", buffering=0) as log:
            for start, content in changes:
                log.seek(start)
                log.write(content)
            os.fsync(log.fileno())
    return left


def scored_in(path: Path) -> set[str]:
    """Return the conversations in a file of scores; empty for another or a damaged file."""
    import polars as pl

    columns = _columns(path)
    if not any(shape <= columns for shape in _SHAPES[:2]):
        return set()
    try:
        if path.suffix == ".parquet":
            names: Sequence[Any] = pl.read_parquet(path, columns=["conversation"], glob=False)["conversation"].to_list()
        elif path.suffix == ".csv":
            with path.open(encoding="utf-8-sig", newline="") as stream:
                names = [row["conversation"] for row in csv.DictReader(stream)]
        else:
            with path.open("rb") as lines:
                names = [row.get("conversation") for _, row in _rows_of(lines)]
    except unreadable_parquet(ValueError, csv.Error):
        return set()
    return {unescape_formula(name) for name in names if isinstance(name, str)}


def parquet_of(frame: pl.DataFrame, metadata: dict[str, str] | None = None) -> bytes:
    """Return a table as the bytes of a Parquet file."""
    made = io.BytesIO()
    frame.write_parquet(made, metadata=metadata)
    return made.getvalue()


def _columns(path: Path) -> set[str]:
    """Return the columns of a file of rows; empty for a file that cannot be read, which Accord did not write."""
    if path.suffix not in _ENDINGS:
        return set()
    try:
        regular_size(path)
        if path.suffix == ".parquet":
            import polars as pl

            return set(pl.read_parquet_schema(path))
        with path.open(encoding="utf-8-sig", errors="replace") as stream:
            lines = islice((line for line in iter(lambda: stream.readline(MB), "") if line.strip()), _FIRST_ROWS)
            if path.suffix == ".csv":
                return set(next(csv.reader(lines), ()))
            rows = (json.loads(line) for line in lines)  # the first row of a log may be a refused one
            return {name for row in rows if isinstance(row, dict) for name in row}
    except unreadable_parquet(Exception):
        return set()


def _rows_of(lines: Iterable[bytes]) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Yield each line with its row, which is empty for a line without a JSON object."""
    for line in lines:
        row = None
        with suppress(ValueError, RecursionError):
            row = json.loads(line)
        yield line, row if isinstance(row, dict) else {}
