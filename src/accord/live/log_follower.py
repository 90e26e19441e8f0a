"""A follower that scores every line of a growing log once, across restarts, rotation and compression.

The place is a file that records how far the log was read. It is written before the first row, so that a follower killed
at any moment resumes in the file it started with even if that file is rotated meanwhile, and again whenever the rows of
the lines read so far are on the disk. Rows that were written after the last place are not written again on resume.
Scoring needs the conversations under way at the place, so a resumed follower rereads the log from where the oldest of
them begins and scores nothing before the place.
"""

from __future__ import annotations

import json
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from threading import Event
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from accord.edges import MB, AccordError, BadInput, read_text, validation_messages, write_atomically
from accord.formats import formats
from accord.live.ingest import Ingestor, Row, RowLog, is_kept, refused
from accord.live.log_files import LONGEST_LINE, SECOND, Line, LogFile, Mark, is_json, stripped
from accord.live.messages import CONVERSATIONS, HistoryDeduplicator, Message, Once
from accord.live.rotation import Chain, waits

AT_ONCE = 256
"""Lines that are taken in together."""
SECONDS = 2.0
"""Between notes of the place, while there is more to read."""
BACK = 64 * 2**20
"""The most bytes that are read again to remember conversations under way."""
_Told = list[tuple[Line, Message]]


@dataclass(frozen=True)
class Place:
    """How far a log was read.

    Attributes:
        files: Those that were read, oldest first.
        back: The file (its number) and the offset in it where the oldest conversation begins that was under way.
        rows: How many bytes of rows were written for what was read; `None` where that was not noted.
        version: Of this file.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    files: tuple[Mark, ...] = ()
    back: tuple[int, Annotated[int, Field(ge=0)]] = (0, 0)
    rows: int | None = None
    version: Literal[2] = 2

    @classmethod
    def read(cls, path: Path) -> Place | None:
        """The place that was noted; `None` where none was.

        Raises:
            BadInput: The file is damaged, or a later version's; the line says how to go on.
        """
        way_out = (
            "put back a copy of it, or remove it to read the log from its beginning (what was scored comes again), "
            "or name another file (--place)"
        )
        try:
            text = read_text(path, MB)
            content = json.loads(text)
            if not isinstance(content, dict):
                raise ValueError("it holds no JSON object")
            if content.get("version", 1) == 1:
                return _first_version(content, int(path.stat().st_mtime))
            if content["version"] != cls.version:
                raise BadInput(f"{path} is of version {content['version']!r}, not 1 or {cls.version}; {way_out}")
            return _adapter().validate_json(text, strict=True)
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            why = (
                validation_messages(error)[0]
                if isinstance(error, ValidationError)
                else "it is cut off or no JSON of a place"
            )
            raise BadInput(f"{path} is damaged and notes no place in a log ({why}); {way_out}") from None

    def write(self, path: Path) -> None:
        """Write the place in one step."""
        write_atomically(path, json.dumps(asdict(self)) + "\n")


@cache
def _adapter() -> TypeAdapter[Place]:
    return TypeAdapter(Place)


def _first_version(content: dict[str, object], noted: int) -> Place:
    """A place as version 0.1 noted it: one file, known by its first line."""
    inode, known = str(content["file"]).split("-")
    offset, back = int(str(content["offset"])), int(str(content["back"]))
    if not 0 <= back <= offset:
        raise ValueError
    mark = Mark(0, int(inode), None, None, known, offset, str(content["tail"]), noted * SECOND)
    return Place((mark,), (0, back))


class Follower:
    """Follows one log of JSON lines.

    Args:
        path: The log: a message a line, or a conversation so far a line in any format that is read.
        ingestor: Takes the messages in; one that keeps no rows itself.
        rows: Where the rows of replies are kept, and of lines that are no messages.
        place: The file in which it is noted how far the log was read.
        format: Of the rows; `auto` tells by each row.
        stop: Set when it is time to stop.
        say: Told in a line of what a user should know.

    Raises:
        BadInput: The log and the place are one file.
        UnknownName: There is no such format.
    """

    def __init__(
        self,
        path: Path,
        ingestor: Ingestor,
        rows: RowLog,
        place: Path,
        format: str = "auto",
        stop: Event | None = None,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        if format != "auto":
            formats.get(format)
        if place.resolve() == path.resolve():
            raise BadInput(f"{path} is the log; name another file for the place")
        self.path, self.ingestor, self.rows, self.place, self.format = path, ingestor, rows, place, format
        self.stop, self.say = stop or Event(), say
        self.gaps = 0
        """How many times something could not be found, of which `say` was told."""
        self._unfolding = HistoryDeduplicator(room=ingestor.scorer.room, on_passed_over=Once(say))
        self._begun: OrderedDict[str, tuple[int, int]] = OrderedDict()  # where each conversation under way begins
        self._written: Counter[tuple[Any, ...]] = Counter()  # rows behind the place that are there already
        self._noted, self._noted_at, self._is_behind = Place(), 0.0, False

    def run(self, once: bool = False, every: float = 0.5, on_read: Callable[[int], None] | None = None) -> int:
        """Follow until told to stop, or, `once`, to the present end of the log; returns how many lines were read.

        Raises:
            BadInput: The noted place cannot be read, the log is no regular file, a rotated one cannot be unpacked, or,
                `once`, there is no such log.
        """
        lines = 0
        place = Place.read(self.place)
        with closing(
            Chain(self.path, None if place is None else place.files, self.say, (self.place, self.rows.path))
        ) as chain:
            if place is not None:
                self._resume(chain, place)
            is_unnoted = place is None
            while not self.stop.is_set():
                for file in chain.files():
                    if is_unnoted:
                        self._write(Place(tuple(chain.marks), self._back(chain), self.rows.size))
                        is_unnoted = False
                    for count in self._read(chain, file, once):
                        lines += count
                        if on_read is not None:
                            on_read(lines)
                    self._finish(chain)
                    if self.stop.is_set():
                        break
                self.gaps = chain.gaps
                self._note(chain)
                if once and not chain.held and not lines:
                    raise BadInput(f"no log at {self.path}")
                if once:
                    break
                self.stop.wait(every)
            self._note(chain)
        return lines

    # --- one file ----------------------------------------------------------------------------------------------------

    def _read(self, chain: Chain, file: LogFile, once: bool) -> Iterator[int]:
        """Read a file to its present end; yields how many lines were read."""
        while not self.stop.is_set():
            lines = _lines(file, once)
            if not lines:
                file.has_ended = file.is_moved
                return
            lines = _joined(_before(chain, file), lines)
            self._take(file, lines)
            yield sum(line.content != b"" for line in lines)
            self._note(chain, at_once=False)

    def _finish(self, chain: Chain) -> None:
        """Let go of rotated files that nobody writes to any more; a line that was never finished is none."""
        for file, following in zip(list(chain.held), chain.held[1:], strict=False):
            if file.has_ended and file.is_quiet() and (not file.rest or following.at):
                if file.rest:
                    end = file.at + len(file.rest)
                    self._take(file, [Line(stripped(file.rest), file.at, end)])
                    file.skip_rest()
                chain.finish(file)

    def _take(self, file: LogFile, lines: list[Line]) -> None:
        """Score some lines, and keep the rows that are not there yet."""
        told, rows = self._messages(file, lines)
        found = self.ingestor.take([message for _, message in told])
        rows += [{**row, "at": line.start} for (line, _), row in zip(told, found, strict=True) if is_kept(row)]
        self.rows.write([row for row in sorted(rows, key=lambda row: row["at"]) if not self._is_written(row)])

    def _is_written(self, row: Row) -> bool:
        known = _known_by(row)
        self._written[known] -= 1
        if self._written[known] >= 0:
            return True
        del self._written[known]
        return False

    def _messages(self, file: LogFile, lines: list[Line]) -> tuple[_Told, list[Row]]:
        """The messages of some lines, and rows that say which lines are none."""
        told: _Told = []
        bad: list[Row] = []
        whose = f"{self.path.name}#{file.number}" if file.number else self.path.name
        for line in lines:
            if line.content == b"":
                continue
            try:
                new, wrong = self._unfolding.messages(parsed(line), f"{whose}@{line.start}", self.format)
            except BadInput as error:
                new, wrong = [], [str(error)]
            bad += [{**refused(reason), "at": line.start} for reason in wrong]
            for said in new:
                self._begun.setdefault(said.conversation, (file.number, line.start))
                self._begun.move_to_end(said.conversation)
                told.append((line, said))
        while len(self._begun) > CONVERSATIONS:
            self._begun.popitem(last=False)
        return told, bad

    # --- the place ---------------------------------------------------------------------------------------------------

    def _resume(self, chain: Chain, place: Place) -> None:
        """Hear again what was under way, and see which rows were written behind the place."""
        self._noted = place
        size = self.rows.size
        self._written = Counter(map(_known_by, self.rows.after(size if place.rows is None else place.rows)))
        before = None
        for file, end in chain.before(place.back):
            while file.at < end and not self.stop.is_set() and (lines := _lines(file, once=True)):
                told, _ = self._messages(file, _joined(before, [line for line in lines if line.start < end]))
                self.ingestor.scorer.take([message for _, message in told])
            before = file

    def _note(self, chain: Chain, at_once: bool = True) -> None:
        """Note the place, once what was watched is where it outlives the process; not too often unless `at_once`."""
        if not at_once and time.monotonic() - self._noted_at < SECONDS:
            return
        place = Place(tuple(chain.marks), self._back(chain), self.rows.size)
        if place == self._noted and self.place.exists():
            return
        try:
            self.ingestor.settle()
        except AccordError as error:
            if not self._is_behind:
                self.say(f"the place is not noted for now: {error}")
            self._is_behind, self._noted_at = True, time.monotonic()
            return
        self._is_behind, self._noted_at = False, time.monotonic()
        self._write(place)

    def _write(self, place: Place) -> None:
        place.write(self.place)
        self._noted = place

    def _back(self, chain: Chain) -> tuple[int, int]:
        """Where the oldest conversation begins that is under way, as far as that is not too far back."""
        marks = chain.marks
        if not marks:
            return (0, 0)
        here = (marks[-1].number, marks[-1].offset)
        number, offset = min(self._begun.values(), default=here)
        left = BACK
        for mark in reversed(marks):
            if mark.number < number:  # what stood in between is not remembered
                return (mark.number + 1, 0)
            first = offset if mark.number == number else 0
            if mark.offset - first > left:
                return (mark.number, mark.offset - left)
            if mark.number == number:
                return (number, offset)
            left -= mark.offset
        return (marks[0].number, 0)


def _known_by(row: Row) -> tuple[Any, ...]:
    """What two rows of the same reply, or of the same line, share."""
    return tuple(str(row.get(name)) for name in ("at", "conversation", "turn", "id", "error"))


def _lines(file: LogFile, once: bool) -> list[Line]:
    try:
        return file.lines(AT_ONCE, ends=once or file.is_moved)
    except BadInput as error:
        raise BadInput(waits(error)) from None


def _before(chain: Chain, file: LogFile) -> LogFile | None:
    """The file that this one follows, while that is held."""
    return next((each for each in reversed(chain.held) if each.number < file.number), None)


def _joined(before: LogFile | None, lines: list[Line]) -> list[Line]:
    """The lines, the first one with its beginning where the file before ends within it."""
    if before is None or not before.rest or not lines or lines[0].start or not lines[0].content:
        return lines
    content = stripped(before.rest + lines[0].content)
    if is_json(lines[0].content) or not is_json(content):
        return lines
    before.skip_rest()
    return [lines[0]._replace(content=content), *lines[1:]]


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
