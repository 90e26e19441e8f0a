"""Erasing of conversations and annotators in a mart of scores, while other processes read and write it."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

from accord.edges import open_regular
from accord.store.engine import StoreError
from accord.store.mart.erased_list import hashed_name
from accord.store.mart.mart import ABANDONED_SECONDS, Mart
from accord.store.mart.rows import MartRow, read_line

_COMPACTION_SECONDS = 60.0
"""Seconds to wait for the compaction of another process."""


def erase_scores(
    mart: Mart, keys: Collection[str], kept: Collection[str] = (), annotators: Mapping[str, str] | None = None
) -> int:
    """Remove the rows of conversations, whose later rows are dropped, and return their number.

    Rows of logs that other processes are writing are overwritten in place.

    Args:
        mart: The mart.
        keys: Hashes of all erased conversations (`hashed_name`).
        kept: Those whose scores stay under a pseudonym.
        annotators: Pseudonyms by the hash of an erased annotator.

    Raises:
        StoreError: The mart cannot be written, or another process is compacting it.
    """
    if not mart.folder.is_dir():
        return 0
    with mart.store_errors():
        before = _count_erased(mart, keys, annotators or {})
        mart.erased.write(keys, kept, annotators)
        logs = sorted(mart.folder.glob("live-*.jsonl"))
        rows = [row for log in logs for row in _blank_rows(log, frozenset(keys))]
    mart.add(row for row in rows if hashed_name(row["conversation"]) in mart.erased.renamed)
    deadline = time.monotonic() + _COMPACTION_SECONDS
    while before and not mart.compact():
        if time.monotonic() > deadline:
            raise StoreError(f"another process is compacting {mart.folder}; try again when it has ended")
        time.sleep(0.1)
    with mart.store_errors():
        for left in mart.folder.glob("*.partial"):
            if not _has_writer(left):
                left.unlink(missing_ok=True)
        mart.erased.write(keys, kept, annotators)  # readers drop the rows that they hold in memory
    return before


def _count_erased(mart: Mart, keys: Collection[str], annotators: Mapping[str, str]) -> int:
    import polars as pl

    groups = ("conversation", "annotator")
    names, _ = mart.read(lambda rows: rows.group_by(groups).agg(pl.len().alias("rows")).collect())
    found = set(keys)
    return sum(
        count
        for name, annotator, count in names.iter_rows()
        if hashed_name(name) in found or (annotators and hashed_name(annotator) in annotators)
    )


def _blank_rows(log: Path, keys: frozenset[str]) -> list[MartRow]:
    """Overwrite the rows of erased conversations in a log with spaces, and return them; its writer may go on."""
    place, found = 0, list[MartRow]()
    with io.BufferedReader(open_regular(log)) as reader, log.open("r+b", buffering=0) as writer:
        for line in reader:
            with suppress(ValueError):
                if line.endswith(b"\n") and hashed_name((row := read_line(line))["conversation"]) in keys:
                    found.append(row)
                    writer.seek(place)
                    writer.write(b" " * (len(line) - 1))
            place += len(line)
        os.fsync(writer.fileno())
    return found


def _has_writer(partial: Path) -> bool:
    """Return True if the process that writes an unfinished file may still run."""
    number = partial.name.removesuffix(".partial").rpartition(".")[2]
    if not number.isdecimal() or os.name != "posix":
        return partial.stat().st_mtime >= time.time() - ABANDONED_SECONDS
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return int(number) != os.getpid()
