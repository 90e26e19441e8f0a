"""Removing erased conversations and annotators from files of scores and annotations that Accord wrote."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accord.edges import MB, escape_formula, regular_size, unescape_formula, unreadable_parquet, write_atomically
from accord.scoring.parts import MANIFEST, METADATA_KEY, ScorePart, read_manifest, read_part, write_manifest
from accord.scoring.results import ScoreCounts, sum_counts
from accord.values import canonical_json

if TYPE_CHECKING:
    import polars as pl

_SHAPES = (
    {"conversation", "value", "signature"},
    {"conversation", "status"},
    {"conversation", "question", "by", "kind"},
)
"""Columns of scores, of rows of live scoring, and of exported annotations."""
_NAMED = ("conversation", "against")
_TEXTS = ("attributions", "notes", "warning", "quote", "comment", "span")
"""Columns that may hold words of a conversation."""


@dataclass(frozen=True)
class ErasedNames:
    """What to remove from rows.

    Attributes:
        conversations: Pseudonym of each erased conversation whose rows stay without texts; None removes its rows.
        annotators: Pseudonym of each erased annotator.
    """

    conversations: Mapping[str, str | None] = field(default_factory=dict)
    annotators: Mapping[str, str] = field(default_factory=dict)

    def changed(self, row: Mapping[str, Any], unescape: bool = False) -> dict[str, Any] | None:
        """Return a row without erased names, the same row if it has none, or None to remove it."""
        new = dict(row)
        for column in _NAMED:
            name = new.get(column)
            name = unescape_formula(name) if unescape and isinstance(name, str) else name
            if isinstance(name, str) and name in self.conversations:
                pseudonym = self.conversations[name]
                if pseudonym is None:
                    return None
                new |= {column: pseudonym, **{text: None for text in _TEXTS if new.get(text) is not None}}
        for column in ("annotator", "by"):
            if isinstance(name := new.get(column), str) and name in self.annotators:
                new[column] = self.annotators[name]
        return new

    def renamed(self, value: Any) -> Any:
        """Return a JSON value with pseudonyms in place of annotators."""
        if isinstance(value, dict):
            return {self.annotators.get(key, key): self.renamed(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.renamed(inner) for inner in value]
        return self.annotators.get(value, value) if isinstance(value, str) else value

    def has(self, row: Mapping[str, Any]) -> bool:
        """Return True if a row has an erased name."""
        named = [row.get(column) in self.conversations for column in _NAMED]
        return any(named) or any(row.get(column) in self.annotators for column in ("annotator", "by"))


def is_own_table(path: Path) -> bool:
    """Return True for a file of scores, of live rows, or of annotations that Accord wrote."""
    columns = _columns(path)
    return any(shape <= columns for shape in _SHAPES)


def _columns(path: Path) -> set[str]:
    try:
        regular_size(path)
        if path.suffix == ".parquet":
            import polars as pl

            return set(pl.read_parquet_schema(path))
        with path.open(encoding="utf-8-sig", errors="replace") as stream:
            line = next((line for line in iter(lambda: stream.readline(MB), "") if line.strip()), "")
        if path.suffix == ".csv":
            return set(next(csv.reader([line]), ()))
        row = json.loads(line) if path.suffix == ".jsonl" else None
        return set(row) if isinstance(row, dict) else set()
    except unreadable_parquet(Exception):  # a file that cannot be read is none of Accord's
        return set()


def erase_in_table(path: Path, names: ErasedNames, writes: bool = True) -> int:
    """Remove erased names from a file of rows, and return the number of changed rows; without `writes`, only count.

    Lines of JSON are overwritten in place if the row is removed, because a follower may be appending to the file.

    Raises:
        OSError: The file cannot be written; it is unchanged.
    """
    erase = {".jsonl": _erase_lines, ".csv": _erase_csv, ".parquet": _erase_parquet}[path.suffix]
    return erase(path, names, writes)


def _erase_lines(path: Path, names: ErasedNames, writes: bool) -> int:
    removed, renamed, place = list[tuple[int, int]](), False, 0
    with path.open("rb") as stream:
        for line in stream:
            with suppress(ValueError):
                row = json.loads(line) if line.strip() else None
                if isinstance(row, dict) and names.has(row):
                    removed.append((place, len(line) - line.endswith(b"\n")))
                    renamed = renamed or names.changed(row) is not None
            place += len(line)
    if not writes:
        return len(removed)
    if removed and not renamed:
        with path.open("r+b", buffering=0) as stream:
            for start, length in removed:
                stream.seek(start)
                stream.write(b" " * length)
            os.fsync(stream.fileno())
    elif removed:
        with path.open("rb") as source:
            content = b"".join(_changed_lines(source, names))
        write_atomically(path, content)
    return len(removed)


def _changed_lines(lines: Any, names: ErasedNames) -> Iterator[bytes]:
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:
            yield line
            continue
        if not isinstance(row, dict) or not names.has(row):
            yield line
        elif (changed := names.changed(row)) is not None:
            yield json.dumps(changed).encode() + b"\n"


def _erase_csv(path: Path, names: ErasedNames, writes: bool) -> int:
    count, made = 0, io.StringIO(newline="")
    with path.open(encoding="utf-8-sig", newline="") as stream:
        reader = csv.DictReader(stream)
        writer = csv.DictWriter(made, reader.fieldnames or (), lineterminator="\n", extrasaction="ignore")
        writer.writeheader()
        for row in reader:
            changed = names.changed(row, unescape=True)
            count += changed != row
            if changed is not None:
                writer.writerow(changed)
    if count and writes:
        write_atomically(path, made.getvalue().encode("utf-8"))
    return count


def _erase_parquet(path: Path, names: ErasedNames, writes: bool) -> int:
    import polars as pl

    frame = pl.read_parquet(path, glob=False)
    changed = _without(frame, names)
    count = _difference(frame, changed)
    if count and writes:
        write_atomically(path, _as_parquet(changed))
    return count


def _as_parquet(frame: pl.DataFrame, **options: Any) -> bytes:
    made = io.BytesIO()
    frame.write_parquet(made, **options)
    return made.getvalue()


def _without(frame: pl.DataFrame, names: ErasedNames) -> pl.DataFrame:
    """Return a table without erased names."""
    import polars as pl

    gone = [form for name, pseudonym in names.conversations.items() if pseudonym is None for form in _forms(name)]
    kept = {form: new for name, new in names.conversations.items() if new is not None for form in _forms(name)}
    for column in _NAMED:
        if column in frame.columns:
            frame = frame.filter(~pl.col(column).is_in(gone).fill_null(False))
    if kept and "conversation" in frame.columns:
        is_kept = pl.col("conversation").is_in(list(kept)).fill_null(False)
        plain = [pl.when(~is_kept).then(pl.col(name)).alias(name) for name in _TEXTS if name in frame.columns]
        frame = frame.with_columns(*plain, pl.col("conversation").replace(kept))
    people = {form: new for name, new in names.annotators.items() for form in _forms(name)}
    renamed = [pl.col(name).replace(people) for name in ("annotator", "by") if people and name in frame.columns]
    return frame.with_columns(*renamed)


def _forms(name: str) -> set[str]:
    return {name, escape_formula(name)}


def _difference(before: pl.DataFrame, after: pl.DataFrame) -> int:
    """Return the number of rows that were removed, or at least one if others were changed."""
    return len(before) - len(after) or int(not before.equals(after))


def erase_in_parts(folder: Path, names: ErasedNames, writes: bool = True) -> int:
    """Remove erased names from a folder of score parts, and return the number of changed rows (see `erase_in_table`).

    Parts keep their names, so that a repeated run scores nothing again; the manifest lists the new counts.

    Raises:
        BadInput: The folder or a part is damaged.
        OSError: A part cannot be written; it is unchanged.
    """
    import polars as pl

    manifest, count = read_manifest(str(folder)), 0
    if manifest is None:
        return 0
    rows = {row["key"]: row for row in manifest["parts"]}
    for path in sorted(folder.glob("part-*.parquet")):
        frame = pl.read_parquet(path, glob=False)
        changed = _without(frame, names)
        if not (difference := _difference(frame, changed)):
            continue
        count += difference
        if not writes:
            continue
        part = read_part(str(folder), path.name.removeprefix("part-").removesuffix(".parquet"))
        part = replace(part, counts=replace(ScoreCounts.of(changed), spent=part.counts.spent))
        content = _as_parquet(changed, metadata={METADATA_KEY: canonical_json(part.to_json())})
        write_atomically(path, content)
        rows[part.key] = part.to_json()
    if count and writes:
        counts = sum_counts(ScorePart.from_json(row).counts for row in rows.values())
        of_all = {**asdict(counts), "mean": counts.mean}
        write_manifest(str(folder), {**manifest, **of_all, "parts": list(rows.values())})
    return count


def is_parts_folder(folder: Path) -> bool:
    """Return True for a folder of score parts."""
    return (folder / MANIFEST).is_file() and any(folder.glob("part-*.parquet"))
