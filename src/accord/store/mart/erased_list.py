"""List of the erased conversations of a mart, which its writers and readers look at before every write and read."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from accord.edges import MB, read_text, write_atomically
from accord.store.erasure.erased_rows import ErasedNames

ERASED_NAMES = "erased.json"
_LARGEST = 256 * MB


class ErasedList:
    """Hashes of erased conversations in a mart's folder.

    Attributes:
        names: Erased conversations, of which some stay under a pseudonym, and annotators.
        generation: Number of times that the list was written; 0 without a list.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / ERASED_NAMES
        self._names = ErasedNames()
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
        renamed = {str(key): f"erased-{key}" for key in content["renamed"]}
        self._names = ErasedNames({str(key): renamed.get(key) for key in content["keys"]}, content["annotators"])
        self._seen, self.generation = seen, int(content["generation"])
        return True

    @property
    def names(self) -> ErasedNames:
        """The names, as the file has them now."""
        self.read()
        return self._names

    def write(
        self, keys: Collection[str], renamed: Collection[str] = (), annotators: Mapping[str, str] | None = None
    ) -> None:
        """Replace the list of conversations; `renamed` and `annotators` are added to those so far."""
        before = {key for key, pseudonym in self.names.conversations.items() if pseudonym is not None}
        content = {
            "generation": self.generation + 1, "keys": sorted(keys),
            "renamed": sorted(before.union(renamed).intersection(keys)),
            "annotators": {**self.names.annotators, **(annotators or {})},
        }  # fmt: skip
        write_atomically(self._path, json.dumps(content) + "\n")
        self.read()
