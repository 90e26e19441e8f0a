"""A log as a file: which one it is, whatever it is called by now, where reading was broken off, and its lines."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Any, NamedTuple

from accord.values import BadInput

LONGEST_LINE = 16 * 2**20
FIRST, TAIL = 65_536, 256
"""Bytes of a first line, and before a place, that a file is known by."""


class Line(NamedTuple):
    """A line, without its end; `None` where it is too long, and where it begins and ends in the file."""

    content: bytes | None
    start: int
    end: int


@dataclass(frozen=True)
class Place:
    """How far a log was read.

    Attributes:
        file: Which file it is: its number on the disk, and a digest of its first line.
        offset: Up to where it was read.
        back: Where the oldest conversation begins that was under way.
        tail: A digest of what stands right before `offset`.
    """

    file: str
    offset: int = 0
    back: int = 0
    tail: str = ""

    @classmethod
    def read(cls, path: Path) -> Place | None:
        """The place that was noted; `None` where none was.

        Raises:
            BadInput: The file holds something else.
        """
        try:
            found = cls(**json.loads(path.read_text(encoding="utf-8")))
            if not isinstance(found.file, str) or not 0 <= int(found.back) <= int(found.offset):
                raise ValueError
            return found
        except FileNotFoundError:
            return None
        except (ValueError, TypeError):
            raise BadInput(f"{path} notes no place in a log; remove it to begin anew, or name another file") from None

    def write(self, path: Path) -> None:
        """Note the place, whole or not at all."""
        partial = path.with_name(path.name + ".partial")
        partial.write_text(json.dumps(vars(self)) + "\n", encoding="utf-8")
        os.replace(partial, path)


def holds(path: Path, known: Place) -> bool:
    """Whether a file begins as the one that was read, and holds all of what was read of it."""
    with BufferedReader(FileIO(path)) as log:
        return identity(log).partition("-")[2] == known.file.partition("-")[2] and reaches(log, known)


def reaches(log: BufferedReader[FileIO], known: Place) -> bool:
    """Whether a file goes as far as was read, and what stands there is what was read."""
    return os.fstat(log.fileno()).st_size >= known.offset and before(log, known.offset) == known.tail


def identity_of(path: Path) -> str:
    """Which file stands under a name."""
    with BufferedReader(FileIO(path)) as log:
        return identity(log)


def identity(log: BufferedReader[FileIO]) -> str:
    """Which file this is, whatever it is called; asked of the disk, not of what was read before."""
    return named(log, _on_disk(log, 0, FIRST))


def before(log: BufferedReader[FileIO], offset: int) -> str:
    """A digest of what stands right before a place in a file."""
    start = max(offset - TAIL, 0)
    return hashlib.sha256(_on_disk(log, start, offset - start)).hexdigest()[:16]


def _on_disk(log: BufferedReader[FileIO], start: int, count: int) -> bytes:
    """Some bytes of a file as they are by now, whatever was read of it before."""
    with open(os.dup(log.fileno()), "rb", buffering=0) as raw:
        here = raw.tell()
        raw.seek(start)
        found = raw.read(count)
        raw.seek(here)
    return found


def named(log: BufferedReader[FileIO], first: bytes) -> str:
    """A file's number on the disk, and a digest of its first line, as far as its first bytes have it."""
    line = first[:FIRST].partition(b"\n")[0]
    return f"{os.fstat(log.fileno()).st_ino}-{hashlib.sha256(line).hexdigest()[:16]}"


def line_start(log: BufferedReader[FileIO], offset: int) -> int:
    """The beginning of the first line at or after an offset."""
    if offset == 0:
        return 0
    here = log.tell()
    log.seek(offset - 1)
    log.readline()
    found = log.tell()
    log.seek(here)
    return found


def lines_of(log: BufferedReader[FileIO], most: int, whole: bool) -> Iterator[Line]:
    """The next lines; with `whole`, a last one without an end is left for later."""
    for _ in range(most):
        start = log.tell()
        content = log.readline(LONGEST_LINE)
        if not content:
            return
        is_long = len(content) == LONGEST_LINE and not content.endswith(b"\n")
        rest = content
        while is_long and rest and not rest.endswith(b"\n"):
            rest = log.readline(LONGEST_LINE)
        if not rest.endswith(b"\n") and (whole or not _is_json(content)):  # somebody may be writing it
            log.seek(start)
            return
        yield Line(None if is_long else content.strip(b"\r\n \t\xef\xbb\xbf"), start, log.tell())


def _is_json(content: bytes) -> bool:
    try:
        json.loads(content)
    except (ValueError, RecursionError):
        return False
    return True


def parsed(line: Line) -> Any:
    """What a line says.

    Raises:
        BadInput: It is too long, or no JSON.
    """
    if line.content is None:
        raise BadInput(f"the line is longer than {LONGEST_LINE // 2**20} MB")
    try:
        return json.loads(line.content)
    except (ValueError, RecursionError):
        raise BadInput("the line is no JSON") from None
