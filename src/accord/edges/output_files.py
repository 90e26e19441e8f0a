"""Creation of output files. Files with transcripts, answers or scores are readable by their owner only.

| function | caller |
|---|---|
| `open_private` | files that are written a row at a time |
| `create_private` | files that a library writes: SQLite, Polars |
| `write_atomically` | files that are replaced in one step: pages, cards, spooled answers |

New files have mode 0600 for every umask; an existing file keeps its mode.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

PRIVATE = 0o600
"""Mode of new files: read and written by their owner."""


def _opener(path: str, flags: int) -> int:
    return os.open(path, flags, PRIVATE)


def open_private(path: Path, mode: str, **options: Any) -> IO[Any]:
    """Open a file for writing or appending, as `open` does; a file that does not exist is created with mode 0600."""
    return open(path, mode, opener=_opener, **options)


def create_private(path: Path) -> Path:
    """Create an empty file with mode 0600 for a library to write to; an existing file stays as it is."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE))
    return path


def write_atomically(path: Path, content: str | bytes, errors: str = "strict") -> None:
    """Write a file with mode 0600 in one step: readers see the old content or the new, never a part.

    A device or a pipe is written to, not replaced.

    Args:
        path: The file, or a link to it; its folders are created.
        content: Bytes, or a text to encode as UTF-8.
        errors: Error handling of the encoding.
    """
    written = content if isinstance(content, bytes) else content.encode("utf-8", errors)
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists() and not target.is_file():
        target.write_bytes(written)
        return
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE), "wb") as file:
            file.write(written)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
