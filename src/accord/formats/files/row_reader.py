"""Read the rows of a file one at a time: JSON lines, JSON arrays, CSV, TSV, Parquet, Excel, text; compressed or not.

Memory holds the longest row, except for Excel workbooks, whose size is limited. Rows are limited in bytes, values,
depth and columns, files in `edges.input_limits`. A row over a limit is one bad row.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Generator, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import IO, Any, overload

import msgspec

from accord.edges import (
    MAX_DEPTH,
    MAX_FIELDS,
    MB,
    BadInput,
    BadRow,
    format_size,
    is_too_deep,
    open_unpacked,
    regular_size,
    unpacked_name,
)
from accord.formats.files.encodings import BYTE_ORDER_MARKS, UTF8, WINDOWS, WINDOWS_TEXT, encoding_of
from accord.formats.files.memory import MemoryTable, Source
from accord.formats.files.plugin_lines import has_text_logs, line_parser, parsed_lines
from accord.formats.files.slack_folders import day_files, is_day_file, with_channel
from accord.formats.files.table_files import csv_rows, parquet_rows
from accord.formats.files.workbooks import EXCEL_SUFFIXES, UNREAD_SUFFIXES, excel_rows
from accord.formats.plain_text_chats import TEXT_SUFFIX, text_rows
from accord.formats.record import EMPTY_LINES, ROW_BYTES, ROW_VALUES, Row, plain_name, too_empty, too_long

TABLE_SUFFIXES = {".csv", ".tsv", ".parquet", *EXCEL_SUFFIXES}
_WHOLE_BYTES = 4 * ROW_BYTES
"""Maximum size of a JSON document that is parsed as a whole: an object with many rows."""
_SKIPPED = 4 * _WHOLE_BYTES
"""Maximum length of a line whose end is searched, to continue with the next row."""
MAX_BAD_ROWS = 10_000
"""Number of bad rows in succession after which a file is rejected."""
_CHUNK = 1 << 16
_BOM = b"\xef\xbb\xbf"
_WRAPPERS = ("data", "traces", "items", "rows", "tickets")
_OF_CONVERSATIONS = ("conversations", "dialogues", "chats", "sessions", "records", "results", "examples")
_OPENS_WRAPPER = re.compile(rb'\s*\{\s*"(?:' + "|".join((*_WRAPPERS, *_OF_CONVERSATIONS)).encode() + rb')"\s*:\s*\[')
_MESSAGES = ("messages", "turns", "transcript", "dialogue", "dialog")
_PAGE = frozenset({
    "type", "pages", "count", "total_count", "next_page", "previous_page", "after_url", "before_url", "after_cursor",
    "before_cursor", "end_of_stream", "end_time", "start_time", "has_more", "meta", "links",
})  # fmt: skip
"""Keys other than the list in a page of an API's answer."""
_ITEMS_FILE = "items.jsonl.gz"


@overload
def locate(path: str | Path) -> Path: ...
@overload
def locate(path: str | Source) -> Source: ...
def locate(path: str | Source) -> Source:
    """Return the source to read: a table in memory, a file, the items file of a benchmark folder, or a Slack channel.

    Raises:
        BadInput: The file does not exist, is empty, or is a pipe, a device or a socket.
    """
    if isinstance(path, MemoryTable):
        return path
    file = Path(path)
    if file.is_dir():
        if day_files(file):
            return file
        file = file / _ITEMS_FILE
        if not file.is_file():
            raise BadInput(f"{path} is a folder without {_ITEMS_FILE}; name a file")
    try:
        size = regular_size(file)
    except FileNotFoundError:
        if _URL.match(str(path)):  # a path keeps one slash of a URL's two
            raise BadInput(f"{path} is a URL, and this command reads local files. Download it first") from None
        raise BadInput(f"no file {path} (working folder: {Path.cwd()}); name an existing file") from None
    if size == 0:
        raise BadInput(f"{path} is empty; export it again, or leave it out")
    return file


_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def suffix(path: Source) -> str:
    """Return the suffix of a file in lower case, without `.gz` or a similar one; empty for a table in memory."""
    return Path(unpacked_name(path.name.lower())).suffix


def encoding_notes(paths: Iterable[Path]) -> list[str]:
    """Return a sentence for each table or text that is read as Windows-1252."""
    texts = (path for path in paths if path.is_file() and suffix(path) in (".csv", ".tsv", TEXT_SUFFIX))
    return [f"{path.name} {WINDOWS_TEXT}" for path in texts if encoding_of(path) == WINDOWS]


def read_rows(path: Source) -> Generator[Row | BadRow]:
    """Yield every row of a file or a table in order; a row that cannot be read is a `BadRow`.

    Raises:
        BadInput: The file as a whole cannot be read: unreadable, not UTF-8 text, a broken archive.
        MissingExtra: The file needs a package that is not installed.
    """
    bad = 0
    try:
        for row in _rows_of_kind(path, suffix(path)):
            yield row
            if not isinstance(row, BadRow):
                bad = 0
            elif (bad := bad + 1) > MAX_BAD_ROWS:
                raise BadInput(f"{path}: {MAX_BAD_ROWS:,} bad rows in succession, up to line {row.line}")
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror or error}") from None


def _rows_of_kind(path: Source, kind: str) -> Iterator[Row | BadRow]:
    if isinstance(path, MemoryTable):
        return (_table_row(path, number, row) for number, row in enumerate(path.rows(), 1))
    if path.is_dir():
        return chain.from_iterable(map(read_rows, day_files(path)))
    if kind in UNREAD_SUFFIXES:
        raise BadInput(f"{path} {UNREAD_SUFFIXES[kind]}")
    if kind == ".parquet":
        return (_table_row(path, number, fields) for number, fields in enumerate(parquet_rows(path), 1))
    if kind in EXCEL_SUFFIXES:
        return excel_rows(path)
    if kind in TABLE_SUFFIXES:
        return csv_rows(path, "\t" if kind == ".tsv" else None, encoding_of(path))
    if is_day_file(path):
        return with_channel(path, _json_rows(path))
    may_be_text = kind == TEXT_SUFFIX or has_text_logs()
    if not may_be_text or _begins_with_json(path):
        return _json_rows(path)
    if (parse := line_parser(path)) is not None:
        return parsed_lines(path, parse)
    return _text_rows(path) if kind == TEXT_SUFFIX else _json_rows(path)


def file_texts(path: Path) -> Iterator[str | BadRow]:
    """Yield every text of a file in the encoding and packing that `read_rows` reads: cells of tables, or lines.

    A part that cannot be read is a `BadRow`. Pieces of a very long line overlap.

    Raises:
        BadInput: The file as a whole cannot be read, or its kind is not read.
        MissingExtra: The file needs a package that is not installed.
    """
    kind = suffix(path)
    if kind in {".parquet", *EXCEL_SUFFIXES, *UNREAD_SUFFIXES}:
        for number, row in enumerate(read_rows(path)):
            if isinstance(row, BadRow):
                yield row
                continue
            yield from () if number else map(str, row.fields)
            yield from _texts_in(row.fields)
        return
    if not regular_size(path):
        return
    try:
        encoding = encoding_of(path)
    except BadInput as error:
        encoding = UTF8
        yield BadRow(str(path), 1, str(error))
    with open_unpacked(path) as stream, io.TextIOWrapper(stream, encoding, "replace", newline="\n") as text:
        tail, line = "", 1
        while part := text.readline(MB):
            if "\0" in part:
                yield BadRow(str(path), line, "it is not text")
            yield tail + part
            is_whole = part.endswith("\n")
            tail, line = ("", line + 1) if is_whole else (part[-_OVERLAP:], line)


_OVERLAP = 4096
"""Characters that the pieces of a long line share."""


def _texts_in(value: Any) -> Iterator[str]:
    """Yield the texts and numbers of a cell and of its nested values."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield str(key)
            yield from _texts_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts_in(inner)
    elif isinstance(value, bytes):
        yield value.decode("utf-8", "replace")
    elif value is not None:
        yield str(value)


def _begins_with_json(path: Path) -> bool:
    with open_unpacked(path) as stream:
        return re.match(rb"\s*(?:\{|\[\s*[\[{\]])", stream.peek(1024).removeprefix(_BOM)) is not None


def _text_rows(path: Path) -> Iterator[Row]:
    with open_unpacked(path) as stream:
        raw = stream.read(ROW_BYTES + 1)
    if len(raw) > ROW_BYTES:
        raise BadInput(f"{path}: a text file may have {format_size(ROW_BYTES)}; write one file per conversation")
    yield from text_rows(path, raw, encoding_of(path))


def _open(path: Path) -> io.BufferedReader[Any]:
    """Open a file and decompress it if its content is compressed, regardless of its name; refuse UTF-16."""
    stream = open_unpacked(path)
    try:
        head = stream.peek(2)[:2]
    except BadInput:
        stream.close()
        raise
    if head in BYTE_ORDER_MARKS:
        stream.close()
        raise BadInput(f"{path} is UTF-16; save it as UTF-8")
    return stream


def _json_rows(path: Path) -> Iterator[Row | BadRow]:
    with _open(path) as stream:
        head = stream.peek(1024).removeprefix(_BOM).lstrip()
        if head[:1] == b"[":
            yield from _array_rows(path, stream)
            return
        wraps = _OPENS_WRAPPER.match(head) is not None
        try:
            yield from _line_rows(path, stream, wraps)
            return
        except _OneLargeValue:
            if not wraps:
                raise BadInput(
                    f"{path} is one JSON value of more than {format_size(_WHOLE_BYTES)}; write one conversation a line"
                ) from None
    with _open(path) as stream:
        yield from _array_rows(path, stream, wrapped=True)


def begins_with_lines(head: bytes) -> bool:
    """Return True if the head of a file shows a row per line: not compressed, no array, no value of several lines."""
    line, newline, _ = head.removeprefix(_BOM).lstrip().partition(b"\n")
    if not newline or not line.startswith(b"{"):
        return False
    row = _parsed(Path("head"), 1, line)
    return isinstance(row, Row) and [row] == list(_unwrapped(Path("head"), row))


def line_rows(name: str, stream: IO[bytes], start: int, end: int) -> Iterator[Row | BadRow]:
    """Yield the rows of a file of lines that begin in the bytes from `start` to before `end`, numbered from 1."""
    path, line = Path(name), 0
    stream.seek(max(start - 1, 0))
    if start:
        while (raw := stream.readline(MB)) and not raw.endswith(b"\n"):
            pass  # the rest of a line that began before `start`
    place = stream.tell()
    while place < end and (raw := stream.readline(ROW_BYTES + 1)):
        line += 1
        place += len(raw)
        if len(raw) > ROW_BYTES and not raw.endswith(b"\n"):
            while (raw := stream.readline(MB)) and not raw.endswith(b"\n"):
                place += len(raw)
            place += len(raw)
            yield BadRow(name, line, too_long("a row"))
            continue
        text = raw.removeprefix(_BOM) if place == len(raw) else raw
        if not text.isspace():
            yield _parsed(path, line, text)


class _OneLargeValue(Exception):
    """The first JSON value of a file is longer than the limit of a row."""


def _lines(path: Path, stream: IO[bytes], wraps: bool) -> Iterator[tuple[int, bytes | BadRow]]:
    """Yield lines with their numbers; a line over the limit is an error, or `_OneLargeValue` if it opens a wrapper."""
    line, empty = 0, 0
    while raw := stream.readline((ROW_BYTES if line else _WHOLE_BYTES) + 1):
        line += 1
        empty = empty + 1 if raw.isspace() else 0
        if empty > EMPTY_LINES:
            raise BadInput(too_empty(path, line))
        if len(raw) <= (ROW_BYTES if line > 1 else _WHOLE_BYTES):
            yield line, raw
            continue
        if line == 1 and wraps:
            raise _OneLargeValue
        length = len(raw)
        while raw and not raw.endswith(b"\n"):
            raw = stream.readline(MB)
            length += len(raw)
            if length > _SKIPPED:
                raise BadInput(f"{path}, line {line}: longer than {format_size(_SKIPPED)}, the limit for a skipped row")
        yield line, BadRow(str(path), line, too_long("a row"))


Lines = list[tuple[int, bytes | BadRow]]
"""Lines of a file with their numbers; a line over the limit is an error."""


def line_chunks(path: Path, limit: int, size: int) -> Iterator[Lines] | None:
    """Split a file with a row per line into chunks of at most `limit` lines that end after `size` bytes.

    Returns:
        The chunks; `None` if the first line is not a row.

    Raises:
        BadInput: As `read_rows`.
    """
    if path.is_dir() or suffix(path) in {*TABLE_SUFFIXES, *UNREAD_SUFFIXES, TEXT_SUFFIX}:
        return None
    with _open(path) as stream:
        raw = stream.readline(ROW_BYTES + 1).removeprefix(_BOM)
        row = _parsed(path, 1, raw) if len(raw) <= ROW_BYTES and raw.lstrip()[:1] == b"{" else None
    is_row = isinstance(row, Row) and next(_unwrapped(path, row)) is row
    return _chunks(path, limit, size) if is_row else None


def _chunks(path: Path, limit: int, size: int) -> Iterator[Lines]:
    chunk: Lines = []
    held = 0
    try:
        with _open(path) as stream:
            for line in _lines(path, stream, wraps=False):
                chunk.append(line)
                held += len(line[1]) if isinstance(line[1], bytes) else 0
                if len(chunk) == limit or held >= size:
                    full, chunk, held = chunk, [], 0
                    yield full
        yield chunk
    except BadInput:
        yield chunk  # the lines before the unreadable part
        raise
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror or error}") from None


def rows_of_lines(path: Path, lines: Lines) -> Iterator[Row | BadRow]:
    """Yield the rows of a chunk of lines."""
    for line, raw in lines:
        if isinstance(raw, BadRow):
            yield raw
        elif text := (raw.removeprefix(_BOM) if line == 1 else raw).strip():
            yield _parsed(path, line, text)


def _is_crowded(text: str) -> bool:
    return len(text) > MB and text.count(",") + text.count("[") + text.count("{") > ROW_VALUES


def _line_rows(path: Path, stream: IO[bytes], wraps: bool) -> Iterator[Row | BadRow]:
    begun = False
    for line, raw in _lines(path, stream, wraps):
        if isinstance(raw, BadRow):
            yield raw
            begun = True
            continue
        text = raw.removeprefix(_BOM) if line == 1 else raw
        if not text or text.isspace():
            continue
        row = _parsed(path, line, text)
        if begun and len(text) <= ROW_BYTES:
            yield row
            continue
        if not begun and isinstance(row, BadRow) and text.strip().endswith((b"{", b"[", b",")):
            # The opening of one value that is spread over several lines.
            whole = text + stream.read(_WHOLE_BYTES + 1 - len(text))
            if len(whole) > _WHOLE_BYTES:
                raise _OneLargeValue
            row = _parsed(path, line, whole)
            if isinstance(row, BadRow):
                raise BadInput(f"{path} is neither JSON lines nor one JSON value: {row.reason}")
        rows = _unwrapped(path, row) if not begun else (row,)
        yield from rows if len(text) <= ROW_BYTES else (_inner_row(path, inner, row) for inner in rows)
        begun = True


def _inner_row(path: Path, row: Row | BadRow, line: Row | BadRow) -> Row | BadRow:
    """Return a row of a first line over the limit; the line itself is an error, the rows inside it are not."""
    return BadRow(str(path), 1, too_long("a row")) if row is line and isinstance(row, Row) else row


def _unwrapped(path: Path, row: Row | BadRow) -> Iterator[Row | BadRow]:
    """Yield the rows of a wrapper around a list (`{"data": [...]}`); any other row is yielded itself."""
    inner = None
    if not isinstance(row, BadRow):
        key = next((key for key in _WRAPPERS if key in row.fields), None)
        inner = (None if key is None else row.fields[key]) or _conversations(row.fields)
        is_page = row.fields.keys() - {key, *_OF_CONVERSATIONS} <= _PAGE
        if not isinstance(inner, list) or not (is_page or len(row.fields) <= max(3, len(inner))):
            inner = None
    if inner is None:
        yield row
    else:
        yield from (_row(path, number, fields) for number, fields in enumerate(inner, 1))


def _conversations(fields: Mapping[str, Any]) -> list[Any] | None:
    """Return conversations in a list under a usual name, or by id; `None` if the row has neither."""

    def is_conversation(value: Any) -> bool:
        return isinstance(value, dict) and any(key in value for key in (*_MESSAGES, "conversation_parts"))

    listed = next((fields[key] for key in _OF_CONVERSATIONS if isinstance(fields.get(key), list)), None)
    if listed and all(map(is_conversation, listed)):
        return list(listed)
    if fields and all(map(is_conversation, fields.values())):
        return [{"id": key, **value} for key, value in fields.items()]
    return None


def _parsed(path: Path, line: int, text: bytes) -> Row | BadRow:
    if len(text) > MB or not text.isascii():  # short ASCII text needs no check
        try:
            decoded = text.decode("utf-8")
        except UnicodeDecodeError as error:
            return BadRow(str(path), line, f"not UTF-8 at byte {error.start}; save the file as UTF-8")
        if _is_crowded(decoded):
            return BadRow(str(path), line, too_long("a row"))
    try:
        fields = decoded_json(text)
    except RecursionError:
        return BadRow(str(path), line, "not JSON: nested too deeply")
    except ValueError as error:  # JSONDecodeError, or a number of thousands of digits
        return BadRow(str(path), line, f"not JSON: {getattr(error, 'msg', error)}")
    return _row(path, line, fields, may_be_deep=text.count(b"[") + text.count(b"{") > MAX_DEPTH)


_FAST = msgspec.json.Decoder()


def decoded_json(text: bytes | str) -> Any:
    """Decode JSON, as text or UTF-8 bytes, as `json.loads` does.

    The fast decoder rejects NaN, numbers beyond a float and unpaired surrogates; `json` decides on these.
    """
    try:
        return _FAST.decode(text)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return json.loads(text if isinstance(text, str) else text.decode("utf-8"))


def _row(path: Source, line: int, fields: Any, may_be_deep: bool = True) -> Row | BadRow:
    if not isinstance(fields, dict):
        return BadRow(str(path), line, f"expected a JSON object, got {type(fields).__name__}")
    if len(fields) > MAX_FIELDS:
        return BadRow(str(path), line, f"{len(fields):,} fields; a row may have {MAX_FIELDS:,}")
    if may_be_deep and is_too_deep(fields):
        return BadRow(str(path), line, f"nested deeper than {MAX_DEPTH} levels")
    return Row(line, fields)


def _table_row(path: Source, line: int, fields: Mapping[str, Any] | BadRow) -> Row | BadRow:
    if isinstance(fields, BadRow):
        return fields
    if any(isinstance(cell, str | bytes) and len(cell) > ROW_BYTES for cell in fields.values()):
        return BadRow(str(path), line, too_long("a row"))
    return _row(path, line, dict(fields))


def _array_rows(path: Path, stream: io.BufferedReader[Any], wrapped: bool = False) -> Iterator[Row | BadRow]:
    """Yield the elements of a JSON array, decoded from a sliding window, so that a large export needs little memory.

    A `wrapped` array is the first value of an object; values after it are ignored.
    """
    with io.TextIOWrapper(stream, encoding="utf-8-sig") as text:
        try:
            elements = _elements(text, wrapped)
            first = next(elements, None)
            if first is not None and not wrapped and _is_message(first[1]):
                yield _whole_file(path, chain([first], elements))
                return
            for number, (line, fields) in enumerate(chain([] if first is None else [first], elements), 1):
                is_chat = isinstance(fields, list) and bool(fields) and all(map(_is_message, fields))
                yield _row(path, number, {"messages": fields}) if is_chat else _row(path, line, fields)
        except UnicodeDecodeError:
            raise BadInput(f"{path} is not UTF-8; save it as UTF-8") from None
        except json.JSONDecodeError as error:
            raise BadInput(f"{path}, after line {error.lineno}: not JSON: {error.msg}") from None
        except (ValueError, RecursionError) as error:
            raise BadInput(f"{path} is not JSON: {error}") from None


_OF_CONVERSATION = frozenset(
    {"conversation", "conversation_id", "session_id", "thread_id", "dialogue_id", "dialog_id", "chat_id", "ticket_id"}
)


def _is_message(value: Any) -> bool:
    """Return True for a message of a chat API that names no conversation."""
    is_spoken = isinstance(value, dict) and isinstance(value.get("role"), str) and "content" in value
    return is_spoken and not any(plain_name(key) in _OF_CONVERSATION for key in value)


def _whole_file(path: Path, elements: Iterator[tuple[int, Any]]) -> Row | BadRow:
    """Return a single row with all messages of a file. Its line is 0, so its conversation has the name of the file."""
    messages, size = list[Any](), 0
    for _, message in elements:
        messages.append(message)
        size += len(str(message))
        if size > ROW_BYTES or len(messages) > ROW_VALUES:
            return BadRow(str(path), 0, too_long("a conversation"))
    return _row(path, 0, {"messages": messages})


def _elements(text: IO[str], wrapped: bool) -> Iterator[tuple[int, Any]]:
    """Yield each element of the array with its first line; `lineno` of an error is the line of the invalid element."""
    decoder = json.JSONDecoder()
    window = text.read(_CHUNK)
    at = window.index("[") + 1
    line, first = 1 + window.count("\n", 0, at), True
    while True:
        start = _space(window, at)
        line, at = line + window.count("\n", at, start), start
        if at == len(window) and (more := text.read(_CHUNK)):
            window, at = more, 0
            continue
        if window.startswith("]", at):
            # Reading to the end also detects a damaged archive.
            has_more = _has_text(text) or bool(window[at + 1 :].strip())
            if has_more and not wrapped:
                raise _broken("unexpected text after the array", line)
            return
        if not first and not window.startswith(",", at):
            raise _broken("expecting ',' between elements", line)
        begin = _space(window, at if first else at + 1)
        try:
            fields, end = decoder.raw_decode(window, begin)
        except json.JSONDecodeError as error:
            # The window doubles for an unfinished element, so that a long one is parsed few times.
            more = _more(text, window[at:], line)
            if not more:
                raise _broken(error.msg, line) from None
            window, at = window[at:] + more, 0
        else:
            line += window.count("\n", at, begin)
            yield line, fields
            line, at, first = line + window.count("\n", begin, end), end, False


def _more(text: IO[str], window: str, line: int) -> str:
    if len(window) > ROW_BYTES or _is_crowded(window):
        raise _broken(too_long("an element"), line)
    return text.read(max(_CHUNK, len(window)))


def _has_text(text: IO[str]) -> bool:
    """Read a text to its end and return True if it holds more than white space."""
    return any([bool(piece.strip()) for piece in iter(lambda: text.read(_CHUNK), "")])


_BLANK = re.compile(r"[ \t\r\n]*")


def _space(window: str, at: int) -> int:
    """Return the position after white space."""
    match = _BLANK.match(window, at)
    return at if match is None else match.end()


def _broken(reason: str, line: int) -> json.JSONDecodeError:
    error = json.JSONDecodeError(reason, "", 0)
    error.lineno = line
    return error
