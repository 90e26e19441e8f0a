"""Scoring of a growing log file, or of standard input: every line once.

The follower handles a log that is renamed and created again (logrotate's `create`) or copied and truncated
(`copytruncate`) while it runs, and continues in the same file after a restart. Log shippers such as the OpenTelemetry
Collector, Fluent Bit or Vector handle everything else, and post to `accord serve`.

A position file records how far the log was read. It is written before the first row, and whenever the rows of all
lines so far are on the disk. Rows that were written after the last position are not written again after a restart. A
restarted follower first reads the log again from the start of the oldest conversation under way, without scoring, to
restore the conversations in memory.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from io import FileIO
from pathlib import Path
from threading import Event
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from accord.edges import MB, AccordError, BadInput, read_text, regular_size, validation_messages, write_atomically
from accord.formats import formats
from accord.live.ingest import Ingestor, LiveRow, RowLog, is_new_score, refused_row
from accord.live.messages import CONVERSATIONS, HistoryDeduplicator, LogOnce, Message

STDIN = Path("-")
BATCH_LINES = 256
CHUNK_BYTES = MB
MAX_LINE_BYTES = 16 * MB
MAX_REPLAY_BYTES = 64 * MB
"""Maximum part of the log that a restarted follower reads again."""
SAVE_SECONDS = 2.0
"""Seconds between writes of the position while there is more to read."""
GRACE_SECONDS = 5.0
"""Seconds without a new line after which a renamed file is closed: its writer may be slow to open the new one."""
_FINGERPRINT_BYTES = 1024


class Line(NamedTuple):
    """Line of a log with its offset: bytes without the line end; `None` for a line longer than `MAX_LINE_BYTES`."""

    content: bytes | None
    start: int


@dataclass(frozen=True)
class Position:
    """Position in a log.

    Attributes:
        file: Number of the file among those that the follower has read, from 0.
        inode: Inode of the file.
        offset: Offset up to which the file was read.
        fingerprint: Hash of the beginning of the file and of the bytes before `offset`.
        replay: Offset from which a restarted follower reads again.
        rows: Size of the output when the position was written, in bytes.
        version: Version of the format.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    file: Annotated[int, Field(ge=0)] = 0
    inode: int = 0
    offset: Annotated[int, Field(ge=0)] = 0
    fingerprint: str = ""
    replay: Annotated[int, Field(ge=0)] = 0
    rows: Annotated[int, Field(ge=0)] = 0
    version: Literal[3] = 3

    @classmethod
    def load(cls, path: Path) -> Position | None:
        """Load a position; `None` if the file does not exist.

        Raises:
            BadInput: The file is damaged, or of another version.
        """
        solution = (
            "restore it, or remove it to read the log from its beginning (its scores are written again), or name "
            "another file: --position"
        )
        try:
            return TypeAdapter(cls).validate_json(read_text(path, MB), strict=True)
        except FileNotFoundError:
            return None
        except (ValueError, RecursionError) as error:
            reason = validation_messages(error)[0] if isinstance(error, ValidationError) else "it is not a JSON object"
            raise BadInput(f"{path} holds no valid position in a log ({reason}); {solution}") from None

    def save(self, path: Path) -> None:
        """Write the position atomically."""
        write_atomically(path, json.dumps(asdict(self)) + "\n")


class LineReader:
    """Reads complete lines of an open file or stream.

    Args:
        stream: Unbuffered binary stream.
        number: Number of the file among those that the follower has read.
    """

    def __init__(self, stream: FileIO, number: int = 0) -> None:
        self.stream, self.number = stream, number
        self.offset = 0
        self.is_renamed = False
        self._buffer = b""  # bytes after `offset`; of a line that is too long, only its last part
        self._skipped = 0  # bytes of such a line before `_buffer`
        self._head, self._tail = b"", b""

    @property
    def inode(self) -> int:
        """Inode of the file."""
        return os.fstat(self.stream.fileno()).st_ino

    @property
    def fingerprint(self) -> str:
        """Hash of the beginning of the file and of the bytes before `offset`."""
        return hashlib.sha256(self._head + b"|" + self._tail).hexdigest()[:32]

    def seek(self, offset: int) -> bool:
        """Move to an offset; return False if the file is shorter."""
        if os.fstat(self.stream.fileno()).st_size < offset:
            return False
        self._head = self._read_at(0, min(offset, _FINGERPRINT_BYTES))
        start = max(offset - _FINGERPRINT_BYTES, 0)
        self._tail = self._read_at(start, offset - start)
        self.stream.seek(offset)
        self.offset, self._buffer, self._skipped = offset, b"", 0
        return True

    def _read_at(self, offset: int, size: int) -> bytes:
        position = self.stream.tell()
        self.stream.seek(offset)
        content = self.stream.read(size)
        self.stream.seek(position)
        return content

    def is_truncated(self) -> bool:
        """Return True if the file was truncated or overwritten since it was read."""
        size = os.fstat(self.stream.fileno()).st_size
        if size < self.offset + self._skipped + len(self._buffer):
            return True
        start = self.offset - len(self._tail)
        return self._read_at(0, len(self._head)) != self._head or self._read_at(start, len(self._tail)) != self._tail

    def read(self) -> bool:
        """Read the next bytes; return False at the end of the file."""
        content = self.stream.read(CHUNK_BYTES)
        self._buffer += content
        return bool(content)

    def lines(self, is_final: bool = False) -> list[Line]:
        """Return the complete lines read so far, at most `BATCH_LINES`.

        Args:
            is_final: Also return a last line without an end, if it is valid JSON.
        """
        lines: list[Line] = []
        begin = 0
        while len(lines) < BATCH_LINES and (end := self._buffer.find(b"\n", begin)) >= 0:
            lines.append(self._line(self._buffer[begin : end + 1]))
            begin = end + 1
        self._buffer = self._buffer[begin:]
        if not lines and is_final and _is_json(self._buffer):
            return self.take_rest()
        if not lines and len(self._buffer) > MAX_LINE_BYTES:
            self._skipped += len(self._buffer) - _FINGERPRINT_BYTES
            self._buffer = self._buffer[-_FINGERPRINT_BYTES:]
        return lines

    def take_rest(self) -> list[Line]:
        """Return a last line without an end, as a list of one or no line."""
        content, self._buffer = self._buffer, b""
        return [self._line(content)] if content else []

    def _line(self, content: bytes) -> Line:
        start, size = self.offset, self._skipped + len(content)
        self.offset, self._skipped = start + size, 0
        self._tail = (self._tail + content)[-_FINGERPRINT_BYTES:]
        if len(self._head) < _FINGERPRINT_BYTES and self.stream.seekable():
            self._head = self._read_at(0, min(self.offset, _FINGERPRINT_BYTES))
        return Line(None if size > MAX_LINE_BYTES else _strip(content), start)


class LogFollower:
    """Follows one log of JSON lines.

    Args:
        path: Log with a message or a conversation per line; `-` for standard input.
        ingestor: Scores messages; it must not write rows itself.
        rows: Output of the rows of replies, and of invalid lines.
        position_path: File of the position; not used for standard input.
        format: Format of the lines; `auto` detects it for each line.

    Attributes:
        gaps: Number of times that lines may have been lost; each was reported to `log`.

    Raises:
        BadInput: The log and the position file are the same file.
        UnknownName: The format does not exist.
    """

    def __init__(
        self,
        path: Path,
        ingestor: Ingestor,
        rows: RowLog,
        position_path: Path,
        format: str = "auto",
        stop: Event | None = None,
        log: Callable[[str], None] = lambda text: None,
    ) -> None:
        if format != "auto":
            formats.get(format)
        if position_path.resolve() == path.resolve():
            raise BadInput(f"{path} is the log; name another file for the position")
        self.path, self.ingestor, self.rows, self.position_path = path, ingestor, rows, position_path
        self.format, self.stop, self.log = format, stop or Event(), log
        self._key = f"{platform.node()} {position_path.absolute()}"
        self.gaps = 0
        self._history = HistoryDeduplicator(memory=ingestor.scorer.memory, on_skipped=LogOnce(log))
        self._starts: OrderedDict[str, int] = OrderedDict()  # offset of each conversation under way
        self._written: Counter[tuple[str, ...]] = Counter()  # rows after the last position
        self._files: deque[LineReader] = deque()  # renamed files that are still read, then the log
        self._saved: Position | None = None
        self._saved_at, self._is_save_failing = 0.0, False

    def run(self, once: bool = False, interval: float = 0.5, on_read: Callable[[int], None] | None = None) -> int:
        """Follow the log until stopped.

        Args:
            once: Stop at the current end of the log.
            interval: Seconds between checks for new lines.
            on_read: Called with the number of lines read.

        Returns:
            The number of lines read.

        Raises:
            BadInput: The position is invalid, the log is not a regular file, or, with `once`, it does not exist.
        """
        if self.path == STDIN:
            return self._follow_stdin(on_read)
        total = 0
        position = self._last_position()
        try:
            while not self.stop.is_set():
                self._open_log()
                if position is not None and self._files:
                    self._resume(position)
                    position = None
                for count in self._read_files(once):
                    total += count
                    if on_read is not None:
                        on_read(total)
                self._save()
                if once:
                    if not self._files:
                        raise BadInput(f"no log at {self.path}; name an existing file, or - for standard input")
                    break
                self.stop.wait(interval)
            self._save()
        finally:
            for file in self._files:
                file.stream.close()
        return total

    def _follow_stdin(self, on_read: Callable[[int], None] | None) -> int:
        total, file = 0, LineReader(FileIO(sys.stdin.fileno(), closefd=False))
        is_open = True
        while is_open and not self.stop.is_set():
            is_open = file.read()
            while lines := file.lines(is_final=not is_open):
                self._score(file, lines)
                total += sum(line.content != b"" for line in lines)
                if on_read is not None:
                    on_read(total)
        self._score(file, file.take_rest())
        self.ingestor.settle()
        return total

    def _last_position(self) -> Position | None:
        """Return the saved position, or the one in the monitoring data if the process was killed between the two."""
        position, settled = Position.load(self.position_path), self.ingestor.position(self._key)
        if position is None or settled is None:
            return position
        try:
            later = TypeAdapter(Position).validate_json(settled, strict=True)
        except ValueError:
            return position
        return later if (later.file, later.offset) > (position.file, position.offset) else position

    # --- files -------------------------------------------------------------------------------------------------------

    def _open_log(self) -> None:
        """Open the file at the log's path, if it is a new one."""
        try:
            regular_size(self.path)
            if self._files and self.path.stat().st_ino == self._files[-1].inode:
                return
            stream = FileIO(self.path)
        except FileNotFoundError:  # between rename and create
            return
        number = 0
        if self._files:
            self._files[-1].is_renamed = True
            number = self._files[-1].number + 1
        self._files.append(LineReader(stream, number))

    def _read_files(self, once: bool) -> Iterator[int]:
        """Read the log to its current end, renamed files first; yield the number of lines of each batch."""
        while self._files and not self.stop.is_set():
            file = self._files[0]
            yield from self._read_file(file, once)
            if not file.is_renamed or self.stop.is_set():
                return
            if time.time() - os.fstat(file.stream.fileno()).st_mtime < GRACE_SECONDS:
                return
            if lines := file.take_rest():
                self._score(file, lines)
                yield len(lines)
            self._files.popleft().stream.close()
            self._starts.clear()
            self._save()

    def _read_file(self, file: LineReader, once: bool) -> Iterator[int]:
        if self._saved is None:  # a killed follower must resume in the file that it started with
            self._save()
        has_more = True
        while has_more and not self.stop.is_set():
            has_more = file.read()
            if file.is_truncated():
                self._restart_file(file)
                has_more = True
                continue
            while lines := file.lines(is_final=once and not has_more):
                self._score(file, lines)
                yield sum(line.content != b"" for line in lines)
                self._save(min_seconds=SAVE_SECONDS)
                if self.stop.is_set():
                    return

    def _restart_file(self, file: LineReader) -> None:
        """Read a truncated file from its beginning."""
        self.gaps += 1
        self.log(
            f"{self.path} was truncated; lines written between the last read and the truncation are lost. Rotate by "
            "renaming (logrotate: create) to keep them"
        )
        self._rewind(file)
        self._save()

    def _rewind(self, file: LineReader) -> None:
        file.seek(0)
        file.number += 1
        self._starts.clear()

    # --- lines -------------------------------------------------------------------------------------------------------

    def _score(self, file: LineReader, lines: list[Line]) -> None:
        """Score lines, and write the rows that are not in the output yet."""
        messages, rows = self._parse(file, lines)
        scored = self.ingestor.take([message for _, message in messages])
        rows += [
            {**row, "at": line.start} for (line, _), row in zip(messages, scored, strict=True) if is_new_score(row)
        ]
        self.rows.write([row for row in sorted(rows, key=lambda row: row["at"]) if not self._is_written(row)])

    def _is_written(self, row: LiveRow) -> bool:
        key = _row_key(row)
        self._written[key] -= 1
        if self._written[key] >= 0:
            return True
        del self._written[key]
        return False

    def _parse(self, file: LineReader, lines: list[Line]) -> tuple[list[tuple[Line, Message]], list[LiveRow]]:
        """Return the new messages of lines, and refused rows of invalid lines."""
        messages: list[tuple[Line, Message]] = []
        refused_rows: list[LiveRow] = []
        name = f"{self.path.name}#{file.number}" if file.number else self.path.name
        for line in lines:
            if line.content == b"":
                continue
            try:
                new, errors = self._history.messages(_parse_line(line), f"{name}@{line.start}", self.format)
            except BadInput as error:
                new, errors = [], [str(error)]
            refused_rows += [{**refused_row(error), "at": line.start} for error in errors]
            for message in new:
                self._starts.setdefault(message.conversation, line.start)
                self._starts.move_to_end(message.conversation)
                messages.append((line, message))
        while len(self._starts) > CONVERSATIONS:
            self._starts.popitem(last=False)
        return messages, refused_rows

    # --- position ----------------------------------------------------------------------------------------------------

    def _resume(self, position: Position) -> None:
        """Continue at a position, or at the beginning of the log if it is another file by now."""
        file = self._files[0]
        self._saved = position
        file.number = position.file
        has_content = file.seek(position.offset) and file.fingerprint == position.fingerprint
        if not has_content or (position.offset == 0 and file.inode != position.inode):
            self.gaps += 1
            self.log(
                f"{self.path} is not the file that was read up to byte {position.offset}: it was rotated or truncated "
                "while the follower was stopped. It is read from its beginning; lines between the two are not scored"
            )
            self._rewind(file)
            return
        self._written = Counter(map(_row_key, self.rows.after(position.rows)))
        self._replay(file, position)

    def _replay(self, file: LineReader, position: Position) -> None:
        """Restore the conversations under way, without rows."""
        file.seek(position.replay)
        while file.offset < position.offset and not self.stop.is_set():
            has_more = file.read()
            while lines := file.lines(is_final=not has_more):
                messages, _ = self._parse(file, [line for line in lines if line.start < position.offset])
                self.ingestor.scorer.take(self.ingestor.redacted([message for _, message in messages]))
            if not has_more:
                break
        file.seek(position.offset)

    def _position(self) -> Position:
        if not self._files:
            return self._saved or Position(rows=self.rows.size)
        file = self._files[0]
        start = min(self._starts.values(), default=file.offset)
        replay = max(start, file.offset - MAX_REPLAY_BYTES)
        return Position(file.number, file.inode, file.offset, file.fingerprint, replay, self.rows.size)

    def _save(self, min_seconds: float = 0.0) -> None:
        """Save the position, after the aggregated scores of all lines so far are in the store."""
        if not self._files or time.monotonic() - self._saved_at < min_seconds:
            return
        position = self._position()
        if position == self._saved and self.position_path.exists():
            return
        try:
            if self._saved is not None:
                self.ingestor.settle((self._key, json.dumps(asdict(position))))
        except AccordError as error:
            if not self._is_save_failing:
                self.log(f"the position is not saved for now: {error}")
            self._is_save_failing, self._saved_at = True, time.monotonic()
            return
        position.save(self.position_path)
        self._saved, self._is_save_failing, self._saved_at = position, False, time.monotonic()


def _row_key(row: LiveRow) -> tuple[str, ...]:
    """Return a key of the reply or of the invalid line of a row."""
    return tuple(str(row.get(name)) for name in ("at", "conversation", "turn", "id", "error"))


def _parse_line(line: Line) -> Any:
    """Return the JSON of a line.

    Raises:
        BadInput: The line is too long, or not JSON.
    """
    if line.content is None:
        raise BadInput(f"the line is longer than {MAX_LINE_BYTES // MB} MB")
    try:
        return json.loads(line.content)
    except (ValueError, RecursionError):
        raise BadInput("the line is no JSON") from None


def _strip(content: bytes) -> bytes:
    """Remove the line end, a byte order mark, and the null bytes that a truncated file of a slow writer begins with."""
    return content.strip(b"\r\n \t\xef\xbb\xbf\0")


def _is_json(content: bytes) -> bool:
    try:
        json.loads(content)
    except (ValueError, RecursionError):
        return False
    return True
