"""Removing erased conversations and annotators from files and folders of scores that Accord wrote."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import accord.store
from accord.edges import write_atomically
from accord.formats import is_remote, list_names
from accord.scoring.parts import MANIFEST, METADATA_KEY, ScorePart, part_frame, read_manifest, read_part, write_manifest
from accord.scoring.results import ScoreCounts, sum_counts
from accord.store import ErasedNames, erase_in_file, parquet_of
from accord.values import canonical_json


def is_parts_folder(folder: Path) -> bool:
    """Return True for a folder of scores in parts."""
    return (folder / MANIFEST).is_file() and any(folder.glob("part-*.parquet"))


def is_run(place: str) -> bool:
    """Return True for a folder of scores in parts, here or in object storage."""
    return MANIFEST in list_names(place) if is_remote(place) else is_parts_folder(Path(place))


def scored_in(path: Path) -> set[str]:
    """Return the conversations in a file of scores or a folder of parts; empty for another or a damaged file."""
    parts = sorted(path.glob("part-*.parquet")) if path.is_dir() and is_parts_folder(path) else ()
    return set[str]().union(*map(accord.store.scored_in, parts)) if path.is_dir() else accord.store.scored_in(path)


def erase_in_rows(path: Path, names: ErasedNames, writes: bool = True) -> int | None:
    """Remove erased names from a file or a folder of parts that Accord wrote, and return the number of rows with one.

    None means that Accord did not write it. Parts keep their names, so that a repeated run scores nothing again; the
    manifest lists the new counts. For files see `accord.store.erase_in_file`.

    Raises:
        BadInput: A folder or one of its parts is damaged.
        OSError: A file cannot be written; it is unchanged.
    """
    if not path.is_dir():
        return erase_in_file(path, names, writes)
    if not is_parts_folder(path) or (manifest := read_manifest(str(path))) is None:
        return None
    rows, count = {row["key"]: row for row in manifest["parts"]}, 0
    for file in sorted(path.glob("part-*.parquet")):
        key = file.name.removeprefix("part-").removesuffix(".parquet")
        frame = part_frame(str(path), key)
        if not (found := names.count(frame.lazy(), is_escaped=True)):
            continue
        count += found
        if writes:
            changed, part = names.frame(frame.lazy(), is_escaped=True).collect(), read_part(str(path), key)
            part = replace(part, counts=replace(ScoreCounts.of(changed), spent=part.counts.spent))
            write_atomically(file, parquet_of(changed, {METADATA_KEY: canonical_json(part.to_json())}))
            rows[key] = part.to_json()
    if count and writes:
        counts = sum_counts(ScorePart.from_json(row).counts for row in rows.values())
        of_all = {**asdict(counts), "mean": counts.mean, "parts": list(rows.values())}
        write_manifest(str(path), {**manifest, **of_all})
    return count
