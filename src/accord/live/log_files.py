"""The files of one log on the disk: which there are beside it, in their order, and each as lines.

A file is known by its number on the disk and by a digest of its first bytes and of those before a place, whatever it is
called by now and whether it was packed since.

| name, where the log is `chats.jsonl` | |
|---|---|
| `chats.jsonl.1`, `chats.jsonl-20261123`, `chats.jsonl.2026-11-23_10`, with `.gz`, `.bz2`, `.xz` after it | rotated |
| `chats-20261123.jsonl`, `chats.2026-11-23_10-00.jsonl`, `chats.1.jsonl`, `chats.1` | rotated |
| any other that begins with `chats` | looked into only for the rest of a file that was begun |

Files with dates are ordered by them, others by when they were last written and then by falling number.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self, cast

from pydantic import ConfigDict, Field

from accord.edges import MB, PACKED_ENDINGS, open_unpacked, parse_whole_number, unpacked_name

LONGEST_LINE = 16 * MB
FIRST, TAIL = 65_536, 256
"""Bytes from the beginning, and before a place, that a file is known by."""
GRACE = 5.0
"""Seconds after its last line that a rotated file is still looked into: its writer may be slow to leave it."""
SECOND = 10**9
_GETVERSION = 0x80087601  # FS_IOC_GETVERSION
_Count = Annotated[int, Field(ge=0)]


class Line(NamedTuple):
    """A line, without its end; `None` where it is too long, and where it begins and ends in the file."""

    content: bytes | None
    start: int
    end: int


@dataclass(frozen=True)
class Mark:
    """How far one file of a log was read.

    Attributes:
        number: Of the file among all that were read, from 0.
        inode: Its number on the disk.
        generation: Which of the files that have had this number; `None` where the disk does not say.
        first: How many first bytes `digest` is of; `None` for those of its first line.
        digest: Of its first bytes.
        offset: Up to where it was read.
        tail: A digest of what stands right before `offset`.
        wrote: When it was last written, before it was last read (nanoseconds).
        state: Whether it is read on (`open`), was read to its end after it was rotated and may get late lines
            (`ended`), or nothing more is looked for in it (`done`).
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    number: _Count
    inode: int
    generation: int | None
    first: _Count | None
    digest: str
    offset: _Count
    tail: str
    wrote: int
    state: Literal["open", "ended", "done"] = "open"


class LogFile:
    """One open file of a log, unpacked where it is packed; `at` is up to where it was read.

    Args:
        path: What it is called now.
        number: Its place among the files of the log.
        is_moved: Whether it is no longer the log, but rotated.

    Raises:
        BadInput: It is no regular file, or cannot be unpacked.
        FileNotFoundError: Nothing is there.
    """

    def __init__(self, path: Path, number: int = 0, is_moved: bool = False) -> None:
        self.path, self.number, self.is_moved = path, number, is_moved
        self._stream = open_unpacked(path)
        self.is_packed = not self._stream.seekable()
        found = os.fstat(self._stream.fileno())
        self.inode, self.wrote = found.st_ino, found.st_mtime_ns
        self.generation = generation(self._stream.fileno())
        self.at, self.rest, self.has_ended = 0, b"", False
        self._head, self._tail = b"", b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file; what it is known by stays."""
        self._stream.close()

    @property
    def mark(self) -> Mark:
        """How far it was read."""
        state: Literal["open", "ended"] = "ended" if self.has_ended and not self.rest else "open"
        known = (len(self._head), digest(self._head), self.at, digest(self._tail))
        return Mark(self.number, self.inode, self.generation, *known, self.wrote, state)

    def is_numbered_as(self, mark: Mark) -> bool:
        """Whether the disk says that it is the file of a mark; numbers are given again once a file is deleted."""
        is_other = None not in (self.generation, mark.generation) and self.generation != mark.generation
        return self.inode == mark.inode and not is_other

    def holds(self, mark: Mark) -> bool:
        """Whether this is what was read up to a mark; reading then goes on from there."""
        if not self.go_to(min(FIRST, mark.offset)):
            return False
        head = self._head.partition(b"\n")[0] if mark.first is None else self._head[: mark.first]
        return digest(head) == mark.digest and self.go_to(mark.offset) and digest(self._tail) == mark.tail

    def go_to(self, offset: int) -> bool:
        """Go on reading from an offset, forwards where the file is packed; `False` where it ends before."""
        if self.is_packed:
            while self.at < offset and (piece := self._stream.read(min(MB, offset - self.at))):
                self._pass(piece)
            return self.at >= offset
        if os.fstat(self._stream.fileno()).st_size < offset:
            return False
        start = max(offset - TAIL, 0)
        self._head, self._tail = self._on_disk(0, min(FIRST, offset)), self._on_disk(start, offset - start)
        self._stream.seek(offset)
        self.at = offset
        return True

    def is_at_end(self) -> bool:
        """Whether nothing stands after what was read."""
        return not self._stream.peek(1)

    def begins(self, other: LogFile) -> bool:
        """Whether this holds nothing but how another file began, which was read further than this goes."""
        size = os.fstat(self._stream.fileno()).st_size
        return size <= other.at and self.go_to(min(FIRST, size)) and other._head.startswith(self._head)

    def lines(self, most: int, ends: bool) -> list[Line]:
        """The next lines; none where the file `is_cut`.

        A last line without an end is left for later, as `rest`, unless `ends` and it is whole JSON.
        """
        self.wrote = os.fstat(self._stream.fileno()).st_mtime_ns  # before it is read: what comes after is later
        found: list[Line] = []
        pieces: list[bytes] = []
        at = self.at
        for _ in range(most):
            line, piece = self._line(at, ends)
            if line is None:
                self.rest = piece or (self.rest if self.is_packed else b"")
                break
            found.append(line)
            pieces.append(piece)
            at = line.end
        if self.is_cut():
            self._stream.seek(self.at)
            return []
        for line, piece in zip(found, pieces, strict=True):
            self._pass(piece)
            self.at = line.end
        return found

    def _line(self, start: int, ends: bool) -> tuple[Line | None, bytes]:
        """The line at `start` with its bytes (its first and last ones if it is too long); else what there is of it."""
        content = ending = last = self._stream.readline(LONGEST_LINE)
        length = len(content)
        is_long = length == LONGEST_LINE and not content.endswith(b"\n")
        while is_long and last and not last.endswith(b"\n"):
            last = self._stream.readline(LONGEST_LINE)
            length, ending = length + len(last), ending[-TAIL:] + last
        if not last.endswith(b"\n") and not (ends and is_json(content)):  # somebody may be writing it
            if content and not self.is_packed:
                self._stream.seek(start)
            return None, content
        line = Line(None if is_long else stripped(content), start, start + length)
        return line, content[:FIRST] + ending[-TAIL:] if is_long else content

    def skip_rest(self) -> None:
        """Take an unfinished last line for read."""
        piece, self.rest = self.rest, b""
        self._pass(piece)
        if not self.is_packed and not self._stream.closed:
            self._stream.seek(self.at)

    def is_cut(self) -> bool:
        """Whether the file was cut short since it was read, or written anew."""
        if self.is_packed or self._stream.closed:
            return False
        is_short = os.fstat(self._stream.fileno()).st_size < self.at
        start = self.at - len(self._tail)
        parts = ((0, self._head), (start, self._tail))
        return is_short or any(self._on_disk(place, len(part)) != part for place, part in parts)

    def is_quiet(self) -> bool:
        """Whether nobody can be expected to write to it, once it is rotated."""
        return self.is_packed or time.time() - os.fstat(self._stream.fileno()).st_mtime > GRACE

    def _pass(self, piece: bytes) -> None:
        self.at += len(piece)
        self._head += piece[: max(FIRST - len(self._head), 0)]
        self._tail = (self._tail + piece[-TAIL:])[-TAIL:]

    def _on_disk(self, start: int, count: int) -> bytes:
        """Some bytes of the file as they are by now, whatever was read of it before."""
        raw = cast(FileIO, self._stream.raw)
        here = raw.tell()
        raw.seek(start)
        found = raw.read(count)
        raw.seek(here)
        return found


def generation(file: int) -> int | None:
    """Which of the files that have had its number an open file is, where the disk says so (ext4, xfs, btrfs)."""
    if sys.platform != "linux":
        return None
    from fcntl import ioctl

    try:
        return int.from_bytes(ioctl(file, _GETVERSION, bytes(8)), sys.byteorder)
    except OSError:
        return None


def digest(content: bytes) -> str:
    """What some bytes are known by."""
    return hashlib.sha256(content).hexdigest()[:16]


def stripped(content: bytes) -> bytes:
    """A line without its end, a mark of UTF-8, and the hole that a file cut short under its writer begins with."""
    return content.strip(b"\r\n \t\xef\xbb\xbf\0")


def is_json(content: bytes) -> bool:
    """Whether a line is whole."""
    try:
        json.loads(content)
    except (ValueError, RecursionError):
        return False
    return True


# --- which files there are ------------------------------------------------------------------------------------------


class Entry(NamedTuple):
    """A file of a folder as it was listed.

    Attributes:
        path: What it was called.
        inode: Its number on the disk.
        size: Its bytes.
        wrote: When it was last written (nanoseconds).
        stamp: The number or date of a rotated file; empty for the log itself, `None` for any other.
    """

    path: Path
    inode: int
    size: int
    wrote: int
    stamp: str | None

    @property
    def is_log(self) -> bool:
        """Whether it has the log's own name."""
        return self.stamp == ""

    @property
    def number(self) -> int | None:
        """The number behind its name; `None` where that is a date."""
        return parse_whole_number(self.stamp) if self.stamp and not is_date(self.stamp) else None


def listed(log: Path, not_these: Collection[Path] = ()) -> list[Entry]:
    """The files of a log, oldest first and the log itself last; looked for until two looks agree.

    Raises:
        BadInput: The log is a folder, a pipe or a device.
    """
    found = _listing(log, not_these)
    for _ in range(10):
        before, found = found, _listing(log, not_these)
        if names(before) == names(found):
            break
    return sorted(found, key=_order(found))


def names(entries: Iterable[Entry]) -> set[tuple[Path, int]]:
    """What files are called, each with its number on the disk: two looks agree where these do."""
    return {(entry.path, entry.inode) for entry in entries}


def _listing(log: Path, not_these: Collection[Path]) -> list[Entry]:
    real = log.resolve()
    own, infix = re.escape(real.name), re.escape(real.stem)
    date = r"\d{4}[-_.]?\d{2}[\d_.:TZ+-]*?"
    forms = (
        rf"{own}[._-](\d[\d_.:TZ+-]*?)",
        rf"{infix}(?:[._-]({date})|\.(\d+)){re.escape(real.suffix)}",
        rf"{infix}\.(\d+)",
    )
    endings = "|".join(map(re.escape, PACKED_ENDINGS))
    rotated = re.compile(f"(?:{'|'.join(forms)})(?:{endings})?", re.IGNORECASE | re.ASCII)
    found: dict[int, Entry] = {}
    links = {each.name: each.is_symlink() for each in os.scandir(real.parent)} if real.parent.is_dir() else {}
    # Of several names the file's own is taken.
    for name in sorted(links, key=lambda name: (name != real.name, links[name], name)):
        path, match = real.parent / name, rotated.fullmatch(name)
        is_near = name.startswith(real.stem) and path not in not_these
        if is_near and (name == unpacked_name(name) or unpacked_name(name) not in links):  # else it is being packed
            stamp = "" if path == real else next(filter(None, match.groups())) if match else None
            entry = _entry(path, stamp)
            if entry is not None:
                found.setdefault(entry.inode, entry)
    return list(found.values())


def _entry(path: Path, stamp: str | None) -> Entry | None:
    try:
        seen = path.stat()
    except OSError:  # gone by now, or a link to nothing
        return None
    is_file = stat.S_ISREG(seen.st_mode)
    return Entry(path, seen.st_ino, seen.st_size, seen.st_mtime_ns, stamp) if is_file else None


def is_date(stamp: str) -> bool:
    """Whether a stamp is a date, or seconds since 1970, rather than a number that counts."""
    return sum(map(str.isdigit, stamp)) >= 6


def _order(entries: Sequence[Entry]) -> Callable[[Entry], tuple[int, ...]]:
    dated = all(is_date(e.stamp) for e in entries if e.stamp)

    def key(entry: Entry) -> tuple[int, ...]:
        rank = 2 if entry.is_log else 1 if entry.stamp else 0
        if rank == 1 and dated:
            return (rank, *map(int, re.findall(r"\d+", entry.stamp or "")), entry.wrote)
        return (rank, entry.wrote, -(entry.number or 0))

    return key
