"""A log followed as it grows: every reply in it is scored at least once, wherever reading was broken off.

The place is noted after the scores of what was read are on the disk. What comes after a place needs the conversations
that were under way there, so reading goes on from where the oldest of them began, scoring nothing before the place.

A log is known by its number on the disk and its first line, whatever it is called by now: it may be rotated, copied and
cut short, or begun anew under the same name.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from glob import escape
from io import BufferedReader, FileIO
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

from accord.formats import formats
from accord.live.ingest import Ingestor, Keep, refused
from accord.live.messages import CONVERSATIONS, HistoryDeduplicator, Message
from accord.values import AccordError, BadInput

AT_ONCE = 256
"""Lines that are taken in together."""
SECONDS = 2.0
"""Between notes of the place, while there is more to read."""
BACK = 64 * 2**20
"""The most bytes that are read again to remember conversations under way."""
GRACE = 5.0
"""Seconds that a file which was moved is still watched: its writer may be slow to leave it."""


class Follower:
    """Follows one log of JSON lines.

    Args:
        path: The log: a message a line, or a conversation so far a line in any format that is read.
        ingestor: Takes the messages in.
        keep: Called with the rows of lines that are no messages.
        place: The file in which it is noted how far the log was read.
        format: Of the rows; `auto` tells by each row.
        stop: Set when it is time to stop.
        say: Told in a line of what a user should know.

    Raises:
        BadInput: The log, the place and the rows are not three files.
        UnknownName: There is no such format.
    """

    def __init__(
        self,
        path: Path,
        ingestor: Ingestor,
        keep: Keep,
        place: Path,
        format: str = "auto",
        stop: Event | None = None,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        if format != "auto":
            formats.get(format)
        if place.resolve() == path.resolve():
            raise BadInput(f"{path} is the log; name another file for the place")
        self.path, self.ingestor, self.keep, self.place, self.format = path, ingestor, keep, place, format
        self.stop, self.say = stop or Event(), say
        self._unfolding = HistoryDeduplicator()
        self._file = ""  # which file is read
        self._finished: set[str] = set()  # files of before that nothing more is looked for in
        self._noted, self._is_behind = 0.0, False
        self._begun: OrderedDict[str, int] = OrderedDict()  # where each conversation under way begins

    def run(self, once: bool = False, every: float = 0.5, on_read: Callable[[int], None] | None = None) -> int:
        """Follow until told to stop, or, `once`, to the present end of the log; returns how many lines were read.

        Raises:
            BadInput: The noted place cannot be read, or, `once`, there is no such log.
        """
        lines = 0
        while not self.stop.is_set():
            path = self._left_behind() or self.path
            if path.is_file():
                with BufferedReader(FileIO(path), FIRST) as log:
                    for count in self._follow(log, once or path != self.path, every):
                        lines += count
                        if on_read is not None:
                            on_read(lines)
                    if path != self.path:
                        self._finished.add(identity(log))
            elif once:
                raise BadInput(f"no log at {self.path}")
            if once and path == self.path:
                break
            self.stop.wait(0 if path != self.path else every)
        return lines

    def _left_behind(self) -> Path | None:
        """The file that was read last, if it has another name by now and holds more."""
        known = Place.read(self.place)
        if known is None or known.file in self._finished:
            return None
        if self.path.is_file() and identity_of(self.path) == known.file:
            return None
        near = self.path.parent.glob(f"{escape(self.path.stem)}*")
        found = [each for each in near if each.is_file() and each != self.path and holds(each, known)]
        if not found and self.path.is_file() and known.offset:
            self._finished.add(known.file)
            self.say(f"the log that was read up to byte {known.offset} is gone; what followed in it is not scored")
        best = max(found, key=lambda each: (identity_of(each) == known.file, each.stat().st_mtime), default=None)
        return best if best is not None and best.stat().st_size > known.offset else None

    def _follow(self, log: BufferedReader[FileIO], once: bool, every: float) -> Iterator[int]:
        """Read one file, until another takes its place; yields how many lines were read."""
        log.seek(self._begin(log))
        noted, quiet = True, time.monotonic()
        while not self.stop.is_set():
            start, moved = log.tell(), self._is_moved(log)  # asked first: what came before is still to be read here
            if self._is_rewritten(log, start):
                return
            if start == 0:
                self._file = named(log, log.peek(FIRST))  # by what is read now: it may be another file in a moment
            lines = list(lines_of(log, AT_ONCE, whole=not (once or moved)))
            if lines:
                self._take(lines)
                yield sum(line.content != b"" for line in lines)
                if self._is_rewritten(log, start):
                    return  # meanwhile, and it begins anew: rather twice than never
                noted, quiet = self._note(log, lines[-1].end, at_once=False), time.monotonic()
                continue
            if not noted:
                noted = self._note(log, start)
            if once or (moved and time.monotonic() - quiet > GRACE):
                self._finished |= {self._file} if moved else set()
                return
            self.stop.wait(every)
        if not noted:
            self._note(log, log.tell())

    def _begin(self, log: BufferedReader[FileIO]) -> int:
        """Where to go on in a file, what was under way there heard again; 0 in one that was not read yet."""
        known = Place.read(self.place)
        self._file = identity(log)
        if known is not None and self._is_same(log, known):
            return self._resumed(log, known)
        self._begun = OrderedDict.fromkeys(self._begun, 0)  # in the file before: as near as this one has them
        return 0

    def _is_same(self, log: BufferedReader[FileIO], known: Place) -> bool:
        same = known.file == identity(log) or Path(log.name) != self.path  # a copy of what was cut short
        return same and reaches(log, known)

    def _is_moved(self, log: BufferedReader[FileIO]) -> bool:
        """Whether the name stands for another file by now."""
        try:
            return self.path.stat().st_ino != os.fstat(log.fileno()).st_ino
        except FileNotFoundError:
            return False

    def _is_rewritten(self, log: BufferedReader[FileIO], start: int) -> bool:
        """Whether the file was cut short since, or begins otherwise."""
        return start > 0 and (os.fstat(log.fileno()).st_size < start or identity(log) != self._file)

    def _resumed(self, log: BufferedReader[FileIO], known: Place) -> int:
        """Hear again what was under way, and return where to go on."""
        log.seek(known.back)
        while log.tell() < known.offset and not self.stop.is_set():
            lines = [line for line in lines_of(log, AT_ONCE, whole=True) if line.start < known.offset]
            if not lines:
                break
            messages, _ = self._messages(lines)
            self.ingestor.scorer.take(messages)
        return known.offset

    def _take(self, lines: list[Line]) -> None:
        messages, bad = self._messages(lines)
        self.ingestor.take(messages)
        self.keep(bad)

    def _messages(self, lines: list[Line]) -> tuple[list[Message], list[dict[str, Any]]]:
        """The messages of some lines, and rows that say which lines are none."""
        found: list[Message] = []
        bad = []
        for line in lines:
            if line.content == b"":
                continue
            try:
                new, wrong = self._unfolding.messages(parsed(line), f"{self.path.name}@{line.start}", self.format)
            except BadInput as error:
                new, wrong = [], [str(error)]
            bad += [{**refused(reason), "at": line.start} for reason in wrong]
            for said in new:
                self._begun.setdefault(said.conversation, line.start)
                self._begun.move_to_end(said.conversation)
            found += new
        while len(self._begun) > CONVERSATIONS:
            self._begun.popitem(last=False)
        return found, bad

    def _note(self, log: BufferedReader[FileIO], offset: int, at_once: bool = True) -> bool:
        """Note the place, once what was watched is where it outlives the process; not too often unless `at_once`."""
        if not at_once and time.monotonic() - self._noted < SECONDS:
            return False
        try:
            self.ingestor.settle()
        except AccordError as error:
            if not self._is_behind:
                self.say(f"the place is not noted for now: {error}")
            self._is_behind, self._noted = True, time.monotonic()
            return False
        self._is_behind = False
        back = max(min(self._begun.values(), default=offset), offset - BACK)
        Place(self._file, offset, line_start(log, back), before(log, offset)).write(self.place)
        self._noted = time.monotonic()
        return True


# --- the log as a file ----------------------------------------------------------------------------------------------

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
