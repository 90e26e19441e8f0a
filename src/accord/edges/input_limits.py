r"""Limits on input: sizes and kinds of files, nesting, texts, numbers and times.

| input | result |
|---|---|
| a directory, a named pipe, a device or a socket (or a link to one) instead of a file | an error that names it |
| a file that is read whole (YAML, a card, learned arrays) and exceeds its limit | an error with both sizes |
| JSON nested deeper than `MAX_DEPTH` | an error |
| NaN, an infinite number, a number beyond 1e100 or half a surrogate pair in a card | an error |
| a file that is not UTF-8 | an error |
| gzip, bzip2 or xz that unpacks to more than `MAX_UNPACK_RATIO` times its size | an error |
| gzip, bzip2 or xz that is truncated, or whose data or checksum are damaged | an error that names which |
| zstd, lz4, zip or compress | an error that names the unpacking tool |
| NUL or half a surrogate pair in text (`"\ud800"` in JSON) | replaced by U+FFFD (`sendable`) |
| the same in an id, or in YAML | an error: replacing them could make two ids equal |
| digits of another script than ASCII, or more than nine, in place of a number | an error (`parse_whole_number`) |
| a time outside the years 1 to 9999 UTC | dropped from files (`parse_time`), refused in live messages |

Each error is one `BadInput`, raised before the content is in memory. A pipe or a device is never opened, so reading
does not block. `formats/files/row_reader.py` bounds single rows of files that are read row by row.
"""

from __future__ import annotations

import io
import json
import os
import re
import stat
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

from accord.edges.errors import BadInput

MAX_DEPTH = 100
"""Maximum nesting of input: deeper than real data, and shallow enough for every parser's stack."""
MAX_FIELDS = 10_000
"""Maximum number of fields of a row or a message, and of columns of a table."""
MB = 1 << 20
CARD_BYTES = 64 * MB
"""Maximum size of the JSON card of learned arrays."""
ARRAYS_BYTES = 1024 * MB
"""Maximum size of the learned arrays of an evaluator."""

MAX_UNPACK_RATIO = 200
"""Maximum ratio of unpacked to packed size; logs have 5 to 50."""
FREE_BYTES = 64 * MB
"""Unpacked size that is allowed for any packed file."""
PACKED_ENDINGS = (".gz", ".bz2", ".xz", ".zst", ".lz4", ".zip", ".z")
_UNSUPPORTED = {
    b"\x28\xb5\x2f\xfd": "unzstd",
    b"\x04\x22\x4d\x18": "unlz4",
    b"PK\x03\x04": "unzip",
    b"\x1f\x9d": "uncompress",
}
"""First bytes of unsupported compressed formats, with the tools that unpack them."""

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def unpacked_name(name: str) -> str:
    """Return a file's name without the extension of a compression format.

    >>> unpacked_name("chats.jsonl.bz2")
    'chats.jsonl'
    """
    ending = next((ending for ending in PACKED_ENDINGS if name.lower().endswith(ending)), "")
    return name[: len(name) - len(ending)]


def regular_size(path: Path) -> int:
    """Return the size in bytes of a regular file; links are followed.

    Raises:
        BadInput: It is a folder, a pipe, a device or a socket, or its status cannot be read.
        FileNotFoundError: The file does not exist.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:  # a NUL in the name, a cycle of links, or a name that is too long
        raise BadInput(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    return _size(path, status)


def open_regular(path: Path) -> io.FileIO:
    """Open a regular file for reading, without a buffer.

    Raises:
        BadInput: As `regular_size`, or the file must not be read.
        FileNotFoundError: The file does not exist.
    """
    regular_size(path)
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        number = os.open(path, flags)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from None
    try:
        _size(path, os.fstat(number))  # the file may have been replaced since
    except BadInput:
        os.close(number)
        raise
    return io.FileIO(number, "r")


def open_unpacked(path: Path) -> io.BufferedReader[Any]:
    """Open a file for reading and unpack gzip, bzip2 and xz, for any name of the file.

    `fileno` belongs to the file on disk. A compressed file is not `seekable`, and reading it can raise `BadInput`.

    Raises:
        BadInput: As `open_regular`, or the compression format is not supported.
        FileNotFoundError: The file does not exist.
    """
    stream: io.BufferedReader[Any] = io.BufferedReader(open_regular(path), MB)
    try:
        head = stream.peek(6)[:6]
    except OSError as error:
        stream.close()
        raise BadInput(f"cannot read {path}: {error.strerror}") from None
    tool = next((tool for magic, tool in _UNSUPPORTED.items() if head.startswith(magic)), None)
    if tool is not None:
        stream.close()
        raise BadInput(f"{path} has an unsupported packing (supported: gzip, bzip2, xz); unpack it: {tool}")
    packing = next((packing for magic, packing in _PACKINGS.items() if head.startswith(magic)), None)
    return stream if packing is None else io.BufferedReader(_Unpacked(path, stream, *packing), MB)


_PACKINGS = {b"\x1f\x8b": ("gzip", "gzip"), b"BZh": ("bzip2", "bz2"), b"\xfd7zXZ\x00": ("xz", "lzma")}
"""First bytes of packed files, with names and Python's modules, which a build of Python may lack."""


class _Unpacked(io.RawIOBase):
    """Content of a packed file, with errors for damage and excessive size."""

    def __init__(self, path: Path, packed: io.BufferedReader[Any], kind: str, module: str) -> None:
        self._path, self._packed, self._kind, self._unpacked = path, packed, kind, 0
        self._max_bytes = max(FREE_BYTES, MAX_UNPACK_RATIO * os.fstat(packed.fileno()).st_size)
        self._inner = import_module(module).open(packed)

    def readable(self) -> bool:
        """Return True."""
        return True

    def fileno(self) -> int:
        """Return the descriptor of the packed file."""
        return self._packed.fileno()

    def readinto(self, buffer: Any) -> int:
        """Unpack bytes into a buffer."""
        try:
            piece = self._inner.read1(len(buffer))
        except EOFError:
            raise BadInput(f"{self._path} is a broken {self._kind} file: it ends too early") from None
        except Exception as error:  # every format raises its own error, or OSError
            raise BadInput(f"{self._path} is a broken {self._kind} file: {error}") from None
        self._unpacked += len(piece)
        if self._unpacked > self._max_bytes:
            raise BadInput(
                f"{self._path} unpacks to more than {format_size(self._max_bytes)}, {MAX_UNPACK_RATIO} times its size, "
                "more than any log; unpack it by hand if it is one"
            )
        buffer[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        """Close the stream and the file."""
        if not self.closed:
            self._inner.close()
            self._packed.close()
        super().close()


def read_bytes(path: Path, most: int) -> bytes:
    """Return the bytes of a file of at most `most` bytes.

    Raises:
        BadInput: As `open_regular`, or the file is larger, or it cannot be read to its end.
        FileNotFoundError: The file does not exist.
    """
    with io.BufferedReader(open_regular(path)) as stream:
        size = os.fstat(stream.fileno()).st_size
        try:
            content = stream.read(most + 1) if size <= most else b""
        except OSError as error:
            raise BadInput(f"cannot read {path}: {error.strerror}") from None
    size = max(size, len(content))
    if size > most:
        raise BadInput(f"{path} is too large: {format_size(size)}, at most {format_size(most)}")
    return content


def read_text(path: Path, most: int) -> str:
    """Return the text of a UTF-8 file, with or without a byte order mark.

    Raises:
        BadInput: As `read_bytes`, or it is not UTF-8.
        FileNotFoundError: The file does not exist.
    """
    try:
        return read_bytes(path, most).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadInput(f"{path} is not UTF-8; save it as UTF-8") from None


def read_json_file(path: Path, most: int = CARD_BYTES) -> Any:
    """Return the content of a JSON file with finite numbers and at most `MAX_DEPTH` levels.

    Raises:
        BadInput: As `read_text`, or the JSON is invalid.
        FileNotFoundError: The file does not exist.
    """
    text = read_text(path, most)
    try:
        content = json.loads(text, parse_constant=_reject_constant, parse_float=_finite)
    except RecursionError:
        raise BadInput(f"{path} is not valid JSON: nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:  # a JSONDecodeError is one; a number of thousands of digits another
        raise BadInput(f"{path} is not valid JSON: {getattr(error, 'msg', error)}") from None
    if is_too_deep(content):
        raise BadInput(f"{path} is not valid JSON: nested deeper than {MAX_DEPTH} levels")
    return sendable_json(content) if "\\u" in text else content


_UNSENDABLE = re.compile("[\0\ud800-\udfff]")


def is_sendable(text: str) -> bool:
    """Return True if the text has no NUL and no unpaired surrogate, so that databases, files and requests accept it."""
    return (text.isascii() and "\0" not in text) or _UNSENDABLE.search(text) is None


def sendable(text: str) -> str:
    r"""Replace NUL and halves of surrogate pairs by U+FFFD; two adjacent halves become the character they encode.

    >>> sendable("caf\xe9 \ud800"), sendable("\ud83d\ude00") == "\U0001f600"
    ('café �', True)
    """
    if is_sendable(text):
        return text
    return text.replace("\0", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def sendable_json(value: Any) -> Any:
    """Return a JSON value with `sendable` applied to all its texts and keys."""
    if isinstance(value, str):
        return sendable(value)
    if isinstance(value, list):
        return [sendable_json(item) for item in value]
    if isinstance(value, Mapping):
        return {sendable_json(key): sendable_json(item) for key, item in value.items()}
    return value


def parse_whole_number(text: str) -> int | None:
    """Return the number in a text of one to nine ASCII digits, or `None` for any other text.

    `int` and `str.isdigit` accept the digits of every script; `int` fails at thousands of digits.

    >>> parse_whole_number("12"), parse_whole_number("\u0661\u0662"), parse_whole_number("-1")
    (12, None, None)
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def is_web_page(content: bytes) -> bool:
    """Return True for HTML, which a proxy or a login page answers in place of a service, also with status 200.

    >>> is_web_page(b"<!DOCTYPE html><title>Sign in</title>"), is_web_page(b'{"id": "s1"}')
    (True, False)
    """
    return content.lstrip(b"\xef\xbb\xbf \t\r\n")[:14].lower().startswith((b"<!doctype html", b"<html"))


FIRST_MOMENT, LAST_MOMENT = -62_135_596_800_000, 253_402_300_799_999
"""First and last millisecond since 1970 of the years 1 to 9999 UTC, the range of Python's and the mart's dates."""


def is_in_calendar(time: datetime) -> bool:
    """Return True if a time lies in the years 1 to 9999 UTC. A time without a zone is UTC.

    >>> is_in_calendar(datetime.fromisoformat("0001-01-01T00:00:00")), is_in_calendar(
    ...     datetime.fromisoformat("0001-01-01T00:00:00+14:00")
    ... )
    (True, False)
    """
    try:
        (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except OverflowError:
        return False
    return True


_UNITS = ((1e8, 1e11, 1), (1e11, 4e12, 10**3), (1e14, 4e15, 10**6), (1e17, 4e18, 10**9))
"""Range of numbers that are times, from 1973, with their number of units in a second."""
_NUMBER = re.compile(r"\d{9,19}(?:\.\d{1,12})?", re.ASCII)


def parse_time(value: Any) -> datetime | None:
    """Return a time in UTC, or `None` if the value is not a time in the years 1 to 9999.

    Accepts ISO texts, in UTC unless they have a zone, and seconds, milliseconds, microseconds or nanoseconds since
    1970, as a number or as text.

    >>> for given in ("2026-01-31T12:00+01:00", 1769857200, "1769857200000", "noon"):
    ...     print(parse_time(given))
    2026-01-31 11:00:00+00:00
    2026-01-31 11:00:00+00:00
    2026-01-31 11:00:00+00:00
    None
    """
    text = value.strip() if isinstance(value, str) else ""
    if _NUMBER.fullmatch(text):
        value = float(text) if "." in text else int(text)
    elif text:
        try:
            time = datetime.fromisoformat(text)
        except ValueError:
            return None
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC) if is_in_calendar(time) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    unit = next((unit for low, high, unit in _UNITS if low < value <= high), None)
    return None if unit is None else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value * 10**6 // unit)


def unreadable_parquet(*others: type[Exception]) -> tuple[type[BaseException], ...]:
    """Return the exceptions that a damaged Parquet file can raise, including Polars panics, together with `others`."""
    import polars as pl

    return OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException, *others


def first_line(error: BaseException, most: int = 120) -> str:
    """Return the beginning of an error's first line, or the error's type if it has no message."""
    return (str(error).splitlines() or [type(error).__name__])[0][:most]


def is_too_deep(value: Any, deepest: int = MAX_DEPTH) -> bool:
    """Return True if lists and objects are nested more than `deepest` levels.

    >>> is_too_deep([[["a"]]], 2), is_too_deep([[["a"]]], 3)
    (True, False)
    """
    level = [value]
    for _ in range(deepest):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


LARGEST_NUMBER = 1e100
"""Largest number in a card: far above any learned value, and small enough that its square is finite."""


def is_plain_json(value: Any) -> bool:
    r"""Return True if every text can be written as UTF-8 and every number is finite and at most `LARGEST_NUMBER`.

    >>> is_plain_json({"a": [1.5, "text"]}), is_plain_json([10**101]), is_plain_json("\ud800")
    (True, False, False)
    """
    if isinstance(value, str):
        return not any("\ud800" <= letter <= "\udfff" for letter in value)
    if isinstance(value, int | float):
        return -LARGEST_NUMBER <= value <= LARGEST_NUMBER
    if isinstance(value, dict):
        return all(is_plain_json(key) and is_plain_json(item) for key, item in value.items())
    return all(map(is_plain_json, value)) if isinstance(value, list) else True


def _size(path: Path, status: os.stat_result) -> int:
    kind = next((name for test, name in _KINDS if test(status.st_mode)), None)
    if kind is not None:
        raise BadInput(f"{path} is {kind}, not a file; name a file")
    return status.st_size


def format_size(size: int) -> str:
    """Return a size in bytes as text, in MB or kB."""
    return f"{size / MB:,.0f} MB" if size >= MB else f"{size / 1024:,.0f} kB"


def _reject_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


def _finite(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"{digits[:20]} is not a finite number")
    return number
