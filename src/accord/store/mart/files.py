"""Files of the mart: its folder, parts with their metadata, flushing and locks."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from accord.edges import BadInput, first_line, unreadable_parquet
from accord.store.engine import is_in_memory, parsed_url
from accord.store.mart.rows import mart_schema

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


IGNORED = "it is ignored. Repair the mart: accord board repair"
"""End of the sentence about a damaged file."""


def scan_part(path: Path) -> pl.LazyFrame:
    """Return the rows of a part, which are read when they are collected."""
    import polars as pl

    return pl.scan_parquet(path, glob=False).select(list(mart_schema()))


def read_metadata(path: Path) -> MartPart:
    """Return the metadata of a part after comparing them with its rows and columns."""
    import polars as pl

    name = path.name
    try:
        metadata = json.loads(pl.read_parquet_metadata(path)[METADATA_KEY])
        if metadata["format"] != FORMAT:
            return MartPart(fault=f"{name} is of another version of Accord; repair the mart: accord board repair")
        part = MartPart(int(metadata["rows"]), bool(metadata["base"]), frozenset(map(str, metadata["replaces"])))
        scan = pl.scan_parquet(path, glob=False)
        schema, rows = scan.collect_schema(), int(scan.select(pl.len()).collect().item())
    except KeyError:
        return MartPart(fault=f"{name} is not a part of a mart")
    except FileNotFoundError:
        raise
    except unreadable_parquet(ValueError, TypeError, RecursionError) as error:
        return MartPart(fault=f"{name} is truncated or no Parquet file ({first_line(error)})")
    if rows != part.rows:
        return MartPart(fault=f"{name} holds {rows:,} rows, and its metadata say {part.rows:,}")
    wrong = next((column for column, kind in mart_schema().items() if schema.get(column) != kind), None)
    if wrong is not None:
        return MartPart(fault=f"{name} has no column {wrong!r} of type {mart_schema()[wrong]}")
    foreign = next((file for file in sorted(part.replaces) if _OWN.fullmatch(file) is None), None)
    if foreign is not None:
        return MartPart(fault=f"{name} replaces {foreign!r}, which is not a file of a mart")
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
