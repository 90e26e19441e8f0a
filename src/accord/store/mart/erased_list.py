"""List of the erased conversations of a mart, which its writers and readers look at before every write and read."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accord.edges import MB, read_text, write_atomically
from accord.store.erasure.tombstones import name_hash

if TYPE_CHECKING:
    import polars as pl

    from accord.store.mart.rows import MartRow

ERASED_NAMES = "erased.json"
_LARGEST = 256 * MB
_TEXTS = ("attributions", "notes", "warning", "input", "topic", "user_group")
"""Columns that may hold words or hashes of a conversation."""


def hashed_name(name: str) -> str:
    """Return the hash of a conversation's name, as hexadecimal digits."""
    return f"{name_hash(name):016x}"


class ErasedList:
    """Hashes of erased conversations in a mart's folder.

    Attributes:
        renamed: Hashes of conversations whose scores stay under a pseudonym.
        annotators: Pseudonyms by the hash of an erased annotator.
        generation: Number of times that the list was written; 0 without a list.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / ERASED_NAMES
        self._keys: frozenset[str] = frozenset()
        self.renamed: frozenset[str] = frozenset()
        self.annotators: Mapping[str, str] = {}
        self._seen: tuple[int, int] | None = None
        self.generation = 0

    def read(self) -> bool:
        """Read the list if its file has changed, and return True if it has."""
        try:
            status = self._path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        if (seen := (status.st_mtime_ns, status.st_ino)) == self._seen:
            return False
        content: dict[str, Any] = json.loads(read_text(self._path, _LARGEST))
        self._seen, self._keys = seen, frozenset(map(str, content["keys"]))
        self.renamed, self.annotators = frozenset(map(str, content["renamed"])), dict(content["annotators"])
        self.generation = int(content["generation"])
        return True

    def write(
        self, keys: Collection[str], renamed: Collection[str] = (), annotators: Mapping[str, str] | None = None
    ) -> None:
        """Replace the list of conversations; `renamed` and `annotators` are added to those so far."""
        self.read()
        content = {
            "generation": self.generation + 1, "keys": sorted(keys),
            "renamed": sorted(self.renamed.union(renamed).intersection(keys)),
            "annotators": {**self.annotators, **(annotators or {})},
        }  # fmt: skip
        write_atomically(self._path, json.dumps(content) + "\n")
        self.read()

    def kept(self, rows: Sequence[MartRow]) -> Sequence[MartRow]:
        """Return the rows of conversations that are not erased."""
        self.read()
        if not (self._keys or self.annotators):
            return rows
        kept = [row for row in rows if hashed_name(row["conversation"]) not in self._keys]
        if not self.annotators:
            return kept
        names = ((row, row["annotator"]) for row in kept)
        return [{**row, "annotator": self.annotators.get(hashed_name(name), name)} for row, name in names]

    def without(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Return a table without the rows of erased conversations, or with a pseudonym and without texts in them."""
        import polars as pl

        self.read()
        if self.annotators:
            people = rows.select(pl.col("annotator").unique()).collect()["annotator"]
            found = {name: new for name in people if name and (new := self.annotators.get(hashed_name(name)))}
            rows = rows.with_columns(pl.col("annotator").replace(found)) if found else rows
        if not self._keys:
            return rows
        names = rows.select(pl.col("conversation").unique()).collect()["conversation"]
        keys = {name: key for name in names if (key := hashed_name(name)) in self._keys}
        gone = [name for name, key in keys.items() if key not in self.renamed]
        rows = rows.filter(~pl.col("conversation").is_in(gone)) if gone else rows
        pseudonyms = {name: f"erased-{key}" for name, key in keys.items() if key in self.renamed}
        if not pseudonyms:
            return rows
        is_renamed = pl.col("conversation").is_in(list(pseudonyms))
        plain = [pl.when(~is_renamed).then(pl.col(name)).alias(name) for name in _TEXTS]
        return rows.with_columns(*plain, pl.col("conversation").replace(pseudonyms))
