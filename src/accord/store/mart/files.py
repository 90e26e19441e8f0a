"""Files of the mart: its folder, parts with their metadata, flushing and locks."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from accord.edges import BadInput, first_line, unreadable_parquet
from accord.store.engine import is_in_memory, parsed_url
from accord.values import ADDED_COLUMNS, mart_schema

if TYPE_CHECKING:
    import polars as pl

FORMAT, METADATA_KEY = "3", "accord-mart"
"""Version and key of the metadata of a part."""
_LOCKED_BYTE = 2**31 - 2
"""Offset of the byte to lock on Windows, past the content, because other processes cannot read a locked byte."""
DAMAGED = ".damaged"
"""Ending of files that were set aside because they cannot be read."""
_OWN = re.compile(r"(?:part|live)-[0-9A-Za-z]+\.(?:parquet|jsonl)", re.ASCII)


def mart_folder(store: str, named: str | None = None, folder: Path = Path()) -> Path | None:
    """Return the folder of a store's mart; `None` for a store in memory.

    It is the `named` folder; by default it is next to a SQLite file, and for PostgreSQL it is `accord.scores` in
    `folder`.

    Raises:
        BadInput: The name is a URL; the mart is a local folder.
    """
    if named is not None:
        if "://" in named:
            raise BadInput("mart: is a local folder, got a URL; name a folder")
        return Path(named)
    url = parsed_url(store)
    if is_in_memory(url):
        return None
    return Path(f"{url.database}.scores") if url.get_backend_name() == "sqlite" else folder / "accord.scores"


@dataclass(frozen=True)
class MartPart:
    """Metadata of a part; `fault` is the reason why the file cannot be read."""

    rows: int = 0
    is_base: bool = False
    replaces: frozenset[str] = frozenset()
    fault: str = ""


SCORE_AGAIN = "score its conversations again and remove the file, or restore it from a backup"
IGNORED = f"it is ignored: {SCORE_AGAIN}"
"""End of the sentence about a damaged file."""


def scan_part(place: str | Path, schema: Mapping[str, pl.DataType], options: Any = None) -> pl.LazyFrame:
    """Return the rows of a part, which are read when they are collected; columns that it lacks are null."""
    import polars as pl

    scan = pl.scan_parquet(place, storage_options=options, glob=False)
    there = scan.collect_schema()
    return scan.select(
        pl.col(name) if name in there else pl.lit(None, kind).alias(name) for name, kind in schema.items()
    )


def check_part(
    place: str | Path, key: str, schema: Mapping[str, pl.DataType], options: Any = None, is_whole: bool = False
) -> dict[str, Any]:
    """Return the metadata of a part of scores after comparing them with its rows and columns.

    Args:
        place: File or URL of the part.
        key: Key of the metadata in the Parquet file; they have the number of `rows`.
        schema: Columns of the part, of which `ADDED_COLUMNS` may be missing.
        options: Storage options of a URL.
        is_whole: True to read every page, too.

    Raises:
        ValueError: It is not a part, or its rows or columns differ from its metadata. Damaged files raise
            any of `unreadable_parquet`.
    """
    import polars as pl

    said = pl.read_parquet_metadata(place, storage_options=options).get(key)
    if said is None:
        raise ValueError("it has no metadata of scores")
    metadata = json.loads(said, parse_constant=_refuse_constant)
    scan = pl.scan_parquet(place, storage_options=options, glob=False)
    found, rows = scan.collect_schema(), int(scan.select(pl.len()).collect().item())
    for name, kind in schema.items():
        if found.get(name) != kind and (name in found or name not in ADDED_COLUMNS):
            raise ValueError(f"it has no column {name!r} of type {kind}")
    if rows != metadata["rows"]:
        raise ValueError(f"it holds {rows:,} rows, and its metadata say {metadata['rows']}")
    for name in found if is_whole else ():
        scan.select(name).collect()
    return dict(metadata)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


def read_metadata(path: Path, is_whole: bool = False) -> MartPart:
    """Return the metadata of a part of the mart, or the fault of a file that is none; see `check_part`."""
    try:
        metadata = check_part(path, METADATA_KEY, mart_schema(), is_whole=is_whole)
        if metadata["format"] != FORMAT:
            raise ValueError("another version of Accord wrote it")
        part = MartPart(int(metadata["rows"]), bool(metadata["base"]), frozenset(map(str, metadata["replaces"])))
        if foreign := [file for file in sorted(part.replaces) if _OWN.fullmatch(file) is None]:
            raise ValueError(f"it replaces {foreign[0]!r}, which is not a file of a mart")
    except FileNotFoundError:
        raise
    except unreadable_parquet(ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        return MartPart(fault=f"{path.name} is damaged, or no part of a mart: {first_line(error)}")
    return part


def sync(path: Path) -> None:
    """Flush a file, or the list of files of a folder, to the disk; Windows cannot flush folders."""
    if path.is_dir() and os.name == "nt":
        return
    file = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def try_lock(stream: IO[bytes]) -> bool:
    """Lock an open file until it is closed or its process ends; return False if another process holds the lock."""
    try:
        if os.name == "nt":
            import msvcrt

            place = os.lseek(stream.fileno(), 0, os.SEEK_CUR)
            os.lseek(stream.fileno(), _LOCKED_BYTE, os.SEEK_SET)
            try:
                msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
            finally:
                os.lseek(stream.fileno(), place, os.SEEK_SET)
        else:
            import fcntl

            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
