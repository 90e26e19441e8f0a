"""A log followed as it grows: every reply in it is scored at least once, wherever reading was broken off.

The place is noted after the scores of what was read are on the disk. What comes after a place needs the conversations
that were under way there, so reading goes on from where the oldest of them began, scoring nothing before the place.
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
from io import BufferedReader
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

from accord.errors import AccordError, BadInput
from accord.live.intake import Intake, Keep, refused
from accord.live.said import Said
from accord.live.scorer import CONVERSATIONS
from accord.live.unfolding import Unfolding
from accord.readers import formats

AT_ONCE = 256
"""Lines that are taken in together."""
LONGEST_LINE = 16 * 2**20
SECONDS = 2.0
"""Between notes of the place, while there is more to read."""
BACK = 64 * 2**20
"""The most bytes that are read again to remember conversations under way."""
_FIRST = 256


class Line(NamedTuple):
    """A line, without its end; `None` where it is too long, and where it begins and ends in the file."""

    content: bytes | None
    start: int
    end: int


@dataclass(frozen=True)
class Place:
    """How far a log was read.

    Attributes:
        file: Which file it is: its number on the disk, and a digest of its first bytes.
        offset: Up to where it was read.
        back: Where the oldest conversation begins that was under way.
    """

    file: str
    offset: int = 0
    back: int = 0

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


class Follower:
    """Follows one log of JSON lines.

    Args:
        path: The log: a message a line, or a conversation so far a line in any format that is read.
        intake: Takes the messages in.
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
        intake: Intake,
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
        self.path, self.intake, self.keep, self.place, self.format = path, intake, keep, place, format
        self.stop, self.say = stop or Event(), say
        self._unfolding = Unfolding()
        self._file = ""  # which file is read
        self._finished: set[str] = set()  # files of before that nothing more is looked for in
        self._noted = 0.0
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
                with path.open("rb") as log:
                    for count in self._follow(log, once or path != self.path, every):
                        lines += count
                        if on_read is not None:
                            on_read(lines)
                    if path != self.path:
                        self._finished.add(_identity(log))
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
        if self.path.is_file() and _identity_of(self.path) == known.file:
            return None
        near = self.path.parent.glob(f"{escape(self.path.stem)}*")
        found = [each for each in near if each.is_file() and each != self.path and _holds(each, known)]
        if not found and self.path.is_file() and known.offset:
            self._finished.add(known.file)
            self.say(f"the log that was read up to byte {known.offset} is gone; what followed in it is not scored")
        best = max(found, key=lambda each: (_identity_of(each) == known.file, each.stat().st_mtime), default=None)
        return best if best is not None and best.stat().st_size > known.offset else None

    def _follow(self, log: BufferedReader, once: bool, every: float) -> Iterator[int]:
        """Read one file, until another takes its place; yields how many lines were read."""
        log.seek(self._begin(log))
        noted = True
        while not self.stop.is_set():
            start, moved = log.tell(), self._is_moved(log)  # asked first: what came before is still to be read here
            if self._is_rewritten(log, start):
                return
            if start == 0:
                self._file = _named(log, log.peek(_FIRST))  # by what is read now: it may be another file in a moment
            lines = list(_lines(log, AT_ONCE, whole=not (once or moved)))
            if lines:
                self._take(lines)
                yield sum(line.content != b"" for line in lines)
                if self._is_rewritten(log, start):
                    return  # meanwhile, and it begins anew: rather twice than never
                noted = self._note(log, lines[-1].end, at_once=False)
                continue
            if not noted:
                noted = self._note(log, start)
            if moved:
                self._finished.add(self._file)
            if once or moved:
                return
            self.stop.wait(every)
        if not noted:
            self._note(log, log.tell())

    def _begin(self, log: BufferedReader) -> int:
        """Where to go on in a file, what was under way there heard again; 0 in one that was not read yet."""
        known = Place.read(self.place)
        self._file = _identity(log)
        if known is not None and self._is_same(log, known):
            return self._resumed(log, known)
        self._begun = OrderedDict.fromkeys(self._begun, 0)  # in the file before: as near as this one has them
        return 0

    def _is_same(self, log: BufferedReader, known: Place) -> bool:
        same = known.file == _identity(log) or Path(log.name) != self.path  # a copy of what was cut short
        return same and os.fstat(log.fileno()).st_size >= known.offset

    def _is_moved(self, log: BufferedReader) -> bool:
        """Whether the name stands for another file by now."""
        try:
            return self.path.stat().st_ino != os.fstat(log.fileno()).st_ino
        except FileNotFoundError:
            return False

    def _is_rewritten(self, log: BufferedReader, start: int) -> bool:
        """Whether the file was cut short since, or begins otherwise."""
        return start > 0 and (os.fstat(log.fileno()).st_size < start or _identity(log) != self._file)

    def _resumed(self, log: BufferedReader, known: Place) -> int:
        """Hear again what was under way, and return where to go on."""
        log.seek(known.back)
        while log.tell() < known.offset and not self.stop.is_set():
            lines = [line for line in _lines(log, AT_ONCE, whole=True) if line.start < known.offset]
            if not lines:
                break
            messages, _ = self._messages(lines)
            self.intake.scorer.take(messages)
        return known.offset

    def _take(self, lines: list[Line]) -> None:
        messages, bad = self._messages(lines)
        self.intake.take(messages)
        self.keep(bad)

    def _messages(self, lines: list[Line]) -> tuple[list[Said], list[dict[str, Any]]]:
        """The messages of some lines, and rows that say which lines are none."""
        found: list[Said] = []
        bad = []
        for line in lines:
            if line.content == b"":
                continue
            try:
                new, wrong = self._unfolding.messages(_parsed(line), f"{self.path.name}@{line.start}", self.format)
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

    def _note(self, log: BufferedReader, offset: int, at_once: bool = True) -> bool:
        """Note the place, once what was watched is where it outlives the process; not too often unless `at_once`."""
        if not at_once and time.monotonic() - self._noted < SECONDS:
            return False
        try:
            self.intake.settle()
        except AccordError as error:
            self.say(f"the place is not noted yet: {error}")
            self._noted = time.monotonic()
            return False
        back = max(min(self._begun.values(), default=offset), offset - BACK)
        Place(self._file, offset, _line_start(log, back)).write(self.place)
        self._noted = time.monotonic()
        return True


def _holds(path: Path, known: Place) -> bool:
    """Whether a file begins as the one that was read, and holds all of what was read of it."""
    return path.stat().st_size >= known.offset and _identity_of(path).partition("-")[2] == known.file.partition("-")[2]


def _identity_of(path: Path) -> str:
    with path.open("rb") as log:
        return _identity(log)


def _identity(log: BufferedReader) -> str:
    """Which file this is, whatever it is called; asked of the disk, not of what was read before."""
    with open(os.dup(log.fileno()), "rb", buffering=0) as raw:
        here = raw.tell()
        raw.seek(0)
        first = raw.read(_FIRST)
        raw.seek(here)
    return _named(log, first)


def _named(log: BufferedReader, first: bytes) -> str:
    """A file's number on the disk, and a digest of its first line, as far as its first bytes have it."""
    line = first[:_FIRST].partition(b"\n")[0]
    return f"{os.fstat(log.fileno()).st_ino}-{hashlib.sha256(line).hexdigest()[:16]}"


def _line_start(log: BufferedReader, offset: int) -> int:
    """The beginning of the first line at or after an offset."""
    if offset == 0:
        return 0
    here = log.tell()
    log.seek(offset - 1)
    log.readline()
    found = log.tell()
    log.seek(here)
    return found


def _lines(log: BufferedReader, most: int, whole: bool) -> Iterator[Line]:
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


def _parsed(line: Line) -> Any:
    if line.content is None:
        raise BadInput(f"the line is longer than {LONGEST_LINE // 2**20} MB")
    try:
        return json.loads(line.content)
    except (ValueError, RecursionError):
        raise BadInput("the line is no JSON") from None
