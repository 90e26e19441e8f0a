"""Removing erased conversations and annotators from files of scores and annotations that Accord wrote."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accord.edges import MB, escape_formula, regular_size, unescape_formula, unreadable_parquet, write_atomically
from accord.scoring.parts import MANIFEST, METADATA_KEY, ScorePart, read_manifest, read_part, write_manifest
from accord.scoring.results import ScoreCounts, sum_counts
from accord.store import Erasures
from accord.values import canonical_json

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
_NAMED = ("conversation", "against")
_PEOPLE = ("annotator", "by")
_TEXTS = ("attributions", "notes", "warning", "quote", "comment", "span")
"""Columns that may hold words of a conversation."""


@dataclass(frozen=True)
class ErasedNames:
    """Names to remove from rows.

    Attributes:
        conversations: Pseudonym of each erased conversation whose rows stay without texts; None removes its rows.
        annotators: Pseudonym of each erased annotator.
        common: Names of questions and settings; an annotator of such a name is looked for in entries of annotators.
    """

    conversations: Mapping[str, str | None] = field(default_factory=dict)
    annotators: Mapping[str, str] = field(default_factory=dict)
    common: Set[str] = frozenset()

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
        for column in _PEOPLE:
            if isinstance(name := new.get(column), str) and name in self.annotators:
                new[column] = self.annotators[name]
        return new

    def renamed(self, value: Any, is_person: bool = False) -> Any:
        """Return a JSON value with pseudonyms for annotators; `is_person` is True where every name is one."""
        if isinstance(value, dict):
            return {
                self.renamed(key, is_person): self.renamed(inner, is_person or key in Erasures.people_keys)
                for key, inner in value.items()
            }
        if isinstance(value, list):
            return [self.renamed(inner, is_person) for inner in value]
        is_name = isinstance(value, str) and (is_person or value not in self.common)
        return self.annotators.get(value, value) if is_name else value

    def has(self, row: Mapping[str, Any]) -> bool:
        """Return True if a row has an erased name."""
        named = [row.get(column) in self.conversations for column in _NAMED]
        return any(named) or any(row.get(column) in self.annotators for column in _PEOPLE)


def _columns(path: Path) -> set[str]:
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
    except unreadable_parquet(Exception):  # Accord did not write a file that cannot be read
        return set()


def erase_in_rows(path: Path, names: ErasedNames, writes: bool = True) -> int | None:
    """Remove erased names from a file or a folder of parts that Accord wrote, and return the number of changed rows.

    None means that Accord did not write it. Rows of a log of live scores are overwritten in place with the status
    `erased`, because a follower may be appending to the file.

    Args:
        path: The file or folder.
        names: Names to remove.
        writes: False only counts.

    Raises:
        BadInput: A folder or one of its parts is damaged.
        OSError: A file cannot be written; it is unchanged.
    """
    if path.is_dir():
        return _erase_parts(path, names, writes) if is_parts_folder(path) else None
    columns = _columns(path) if path.suffix in _ENDINGS else set()
    if not any(shape <= columns for shape in _SHAPES):
        return None
    if path.suffix == ".jsonl":
        return (_erase_log if "status" in columns else _erase_lines)(path, names, writes)
    return (_erase_csv if path.suffix == ".csv" else _erase_parquet)(path, names, writes)


def is_parts_folder(folder: Path) -> bool:
    """Return True for a folder of scores in parts."""
    return (folder / MANIFEST).is_file() and any(folder.glob("part-*.parquet"))


def scored_in(path: Path) -> set[str]:
    """Return the conversations in a file of scores or a folder of parts; empty for another or a damaged file."""
    import polars as pl

    if path.is_dir():
        parts = sorted(path.glob("part-*.parquet")) if is_parts_folder(path) else ()
        return {name for part in parts for name in scored_in(part)}
    columns = _columns(path) if path.suffix in _ENDINGS else set()
    if not any(shape <= columns for shape in _SHAPES[:2]):
        return set()
    try:
        if path.suffix == ".parquet":
            names = pl.read_parquet(path, columns=["conversation"], glob=False)["conversation"].to_list()
        elif path.suffix == ".csv":
            with path.open(encoding="utf-8-sig", newline="") as stream:
                names = [row["conversation"] for row in csv.DictReader(stream)]
        else:
            with path.open("rb") as lines:
                names = [row.get("conversation") for _, row in _rows_of(lines)]
    except unreadable_parquet(ValueError, csv.Error):
        return set()
    return {unescape_formula(name) for name in names if isinstance(name, str)}


_GONE = b'{"status": "erased", "conversation": null}'
"""Row of a log in place of an erased one, followed by spaces."""


def _rows_of(lines: Iterable[bytes]) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Yield each line with its row, which is empty for a line without a JSON object."""
    for line in lines:
        row = None
        with suppress(ValueError, RecursionError):
            row = json.loads(line)
        yield line, row if isinstance(row, dict) else {}


def _erase_lines(path: Path, names: ErasedNames, writes: bool) -> int:
    """Remove or change rows of a file of JSON lines that was written as a whole."""
    count, kept = 0, list[bytes]()
    with path.open("rb") as stream:
        for line, row in _rows_of(stream):
            if not names.has(row):
                kept += [line] if line.strip() else []
                continue
            count += 1
            if (changed := names.changed(row)) is not None:
                kept.append(json.dumps(changed).encode() + b"\n")
    if count and writes:
        write_atomically(path, b"".join(kept))
    return count


def _erase_log(path: Path, names: ErasedNames, writes: bool) -> int:
    """Overwrite rows of a log of live scores in place, because a follower may be appending to it.

    The new row has the length of the old one: the row with pseudonyms if it fits, else `_GONE`.
    """
    changes, place = list[tuple[int, bytes]](), 0
    with path.open("rb") as stream:
        for line, row in _rows_of(stream):
            if names.has(row):
                size, changed = len(line.rstrip(b"\r\n")), names.changed(row)
                forms = [b"{}", _GONE, *([] if changed is None else [json.dumps(changed).encode()])]
                changes.append((place, next(form for form in reversed(forms) if len(form) <= size).ljust(size)))
            place += len(line)
    if changes and writes:
        with path.open("r+b", buffering=0) as log:
            for start, content in changes:
                log.seek(start)
                log.write(content)
            os.fsync(log.fileno())
    return len(changes)


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

    gone = _by_form({name: "" for name, pseudonym in names.conversations.items() if pseudonym is None})
    for column in _present(frame, _NAMED):
        frame = frame.filter(~pl.col(column).is_in(list(gone)).fill_null(False))
    kept = _by_form({name: new for name, new in names.conversations.items() if new is not None})
    if kept and "conversation" in frame.columns:
        is_kept = pl.col("conversation").is_in(list(kept)).fill_null(False)
        plain = [pl.when(~is_kept).then(pl.col(name)).alias(name) for name in _present(frame, _TEXTS)]
        frame = frame.with_columns(*plain, pl.col("conversation").replace(kept))
    people = _by_form(names.annotators)
    return frame.with_columns(pl.col(name).replace(people) for name in _present(frame, _PEOPLE)) if people else frame


def _present(frame: pl.DataFrame, columns: Sequence[str]) -> list[str]:
    return [name for name in columns if name in frame.columns]


def _by_form(names: Mapping[str, str]) -> dict[str, str]:
    """Return pseudonyms by name, also as the name is escaped in files."""
    return {form: new for name, new in names.items() for form in (name, escape_formula(name))}


def _difference(before: pl.DataFrame, after: pl.DataFrame) -> int:
    """Return the number of rows that were removed, or at least one if others were changed."""
    return len(before) - len(after) or int(not before.equals(after))


def _erase_parts(folder: Path, names: ErasedNames, writes: bool) -> int:
    """Remove erased names from a folder of score parts, and return the number of changed rows.

    Parts keep their names, so that a repeated run scores nothing again; the manifest lists the new counts.
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
