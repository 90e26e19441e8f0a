"""Rows of a file, one after another and never all at once: JSON lines, a JSON array, CSV, TSV, Parquet; gzip too."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from accord.formats.record import Row
from accord.values import BadInput, BadRow

TABLE_SUFFIXES = {".csv", ".tsv", ".parquet"}
_CHUNK = 1 << 16
_GZIP, _BOM = b"\x1f\x8b", b"\xef\xbb\xbf"
_WRAPPERS = ("data", "traces", "items", "rows")
_OF_CONVERSATIONS = ("conversations", "dialogues", "chats", "sessions", "records", "results", "examples")
_MESSAGES = ("messages", "turns", "transcript", "dialogue", "dialog")
_ITEMS_FILE = "items.jsonl.gz"


def locate(path: str | Path) -> Path:
    """The file to read: `path` itself, or the items file of a benchmark folder.

    Raises:
        BadInput: There is no such file, or it is empty.
    """
    found = Path(path)
    if found.is_dir():
        found = found / _ITEMS_FILE
        if not found.is_file():
            raise BadInput(f"{path} is a folder without {_ITEMS_FILE}; name a file")
    if not found.is_file():
        raise BadInput(f"no file {path}")
    if found.stat().st_size == 0:
        raise BadInput(f"{path} is empty")
    return found


def suffix(path: Path) -> str:
    """The file's ending in lower case, without `.gz`."""
    name = path.name.lower().removesuffix(".gz")
    return Path(name).suffix


def read_rows(path: Path) -> Iterator[Row | BadRow]:
    """Every row of a file in order; a row that cannot be parsed is yielded as the error it is.

    Raises:
        BadInput: The file as a whole cannot be read: unreadable, not UTF-8 text, a broken archive.
    """
    kind = suffix(path)
    try:
        if kind == ".parquet":
            yield from _parquet_rows(path)
        elif kind in TABLE_SUFFIXES:
            yield from _csv_rows(path, "\t" if kind == ".tsv" else None)
        else:
            yield from _json_rows(path)
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror or error}") from None
    except EOFError:
        raise BadInput(f"{path} is a broken gzip file: it ends too early") from None


def _open(path: Path) -> IO[bytes]:
    """The file's bytes, unpacked where they are gzip, whatever the file is called.

    Raises:
        BadInput: The text is UTF-16.
    """
    with path.open("rb") as raw:
        packed = raw.read(2) == _GZIP
    stream: Any = gzip.open(path) if packed else path.open("rb", buffering=1 << 20)  # noqa: SIM115 - the caller closes it
    if stream.peek(2)[:2] in (b"\xff\xfe", b"\xfe\xff"):
        stream.close()
        raise BadInput(f"{path} is UTF-16; save it as UTF-8")
    return stream  # type: ignore[no-any-return]


def _json_rows(path: Path) -> Iterator[Row | BadRow]:
    with _open(path) as stream:
        head = stream.peek(64).removeprefix(_BOM).lstrip()  # type: ignore[attr-defined]
        if head[:1] == b"[":
            yield from _array_rows(path, stream)
        else:
            yield from _line_rows(path, stream)


def _line_rows(path: Path, stream: IO[bytes]) -> Iterator[Row | BadRow]:
    begun = False
    for line, raw in enumerate(stream, 1):
        text = raw.removeprefix(_BOM) if line == 1 else raw
        if not text.strip():
            continue
        row = _parsed(path, line, text)
        if not begun and isinstance(row, BadRow) and text.strip().endswith((b"{", b"[", b",")):
            # Not a line of its own but the opening of one pretty-printed value.
            row = _parsed(path, line, text + stream.read())
            if isinstance(row, BadRow):
                raise BadInput(f"{path} is neither JSON lines nor one JSON value: {row.reason}")
        yield from _unwrapped(path, row) if not begun else (row,)
        begun = True


def _unwrapped(path: Path, row: Row | BadRow) -> Iterator[Row | BadRow]:
    """The rows of a wrapper around a list of them (`{"data": [...]}`); any other row is itself."""
    inner = (
        None if isinstance(row, BadRow) else next((row.fields.get(key) for key in _WRAPPERS if key in row.fields), None)
    )
    if not isinstance(row, BadRow) and inner is None:
        inner = _conversations(row.fields)
    if isinstance(inner, list) and not isinstance(row, BadRow) and len(row.fields) <= max(3, len(inner)):
        yield from (_row(path, number, fields) for number, fields in enumerate(inner, 1))
    else:
        yield row


def _conversations(fields: Mapping[str, Any]) -> list[Any] | None:
    """Conversations in a list under a name for such, or by their ids; `None` where the row is none of that."""

    def told(value: Any) -> bool:
        return isinstance(value, dict) and any(key in value for key in _MESSAGES)

    listed = next((fields[key] for key in _OF_CONVERSATIONS if isinstance(fields.get(key), list)), None)
    if listed and all(map(told, listed)):
        return list(listed)
    if fields and all(map(told, fields.values())):
        return [{"id": key, **value} for key, value in fields.items()]
    return None


def _parsed(path: Path, line: int, text: bytes) -> Row | BadRow:
    try:
        fields = json.loads(text.decode("utf-8"))
    except UnicodeDecodeError as error:
        return BadRow(str(path), line, f"not UTF-8 at byte {error.start}; save the file as UTF-8")
    except RecursionError:
        return BadRow(str(path), line, "not JSON: nested too deeply")
    except ValueError as error:  # JSONDecodeError is one; a number of thousands of digits is another
        return BadRow(str(path), line, f"not JSON: {getattr(error, 'msg', error)}")
    return _row(path, line, fields)


def _row(path: Path, line: int, fields: Any) -> Row | BadRow:
    if not isinstance(fields, dict):
        return BadRow(str(path), line, f"expected a JSON object, got {type(fields).__name__}")
    return Row(line, fields)


def _array_rows(path: Path, stream: IO[bytes]) -> Iterator[Row | BadRow]:
    """Elements of one JSON array, decoded from a sliding window, so that a large export needs little memory."""
    with io.TextIOWrapper(stream, encoding="utf-8-sig") as text:
        try:
            for line, fields in _elements(text):
                yield _row(path, line, fields)
        except UnicodeDecodeError:
            raise BadInput(f"{path} is not UTF-8; save it as UTF-8") from None
        except json.JSONDecodeError as error:
            raise BadInput(f"{path}, after line {error.lineno}: not JSON: {error.msg}") from None
        except (ValueError, RecursionError) as error:
            raise BadInput(f"{path} is not JSON: {error}") from None


def _elements(text: IO[str]) -> Iterator[tuple[int, Any]]:
    """Each element of the array with the line it begins on.

    Raises:
        JSONDecodeError: The text is no JSON array; its `lineno` is the line the broken element begins on.
    """
    decoder = json.JSONDecoder()
    window = text.read(_CHUNK)
    opening = window.index("[") + 1
    line, window, first = 1 + window.count("\n", 0, opening), window[opening:], True
    while True:
        lead = _space(window)
        if lead == len(window) and (more := text.read(_CHUNK)):
            window += more
            continue
        line, window = line + window.count("\n", 0, lead), window[lead:]
        if window.startswith("]"):
            if window[1:].strip() or text.read().strip():
                raise _broken("something stands after the array", line)
            return
        if not first:
            if not window.startswith(","):
                raise _broken("expecting ',' between elements", line)
            window = window[1:]
        try:
            lead = _space(window)
            fields, end = decoder.raw_decode(window, lead)
        except json.JSONDecodeError as error:
            # An unfinished element grows the window by doubling, so that a long one is parsed few times.
            more = text.read(max(_CHUNK, len(window)))
            if not more:
                raise _broken(error.msg, line) from None
            window = window + more if first else "," + window + more
        else:
            yield line + window.count("\n", 0, lead), fields
            line, window, first = line + window.count("\n", 0, end), window[end:], False


def _space(window: str) -> int:
    return len(window) - len(window.lstrip(" \t\r\n"))


def _broken(reason: str, line: int) -> json.JSONDecodeError:
    error = json.JSONDecodeError(reason, "", 0)
    error.lineno = line
    return error


def _csv_rows(path: Path, delimiter: str | None) -> Iterator[Row | BadRow]:
    csv.field_size_limit(1 << 30)
    with _open(path) as stream, io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text:
        try:
            header, before = text.readline(), 1
            if header.lower().startswith("sep="):  # what spreadsheets write to name the delimiter
                delimiter, header, before = header.strip()[4:5], text.readline(), 2
            delimiter = delimiter or _delimiter(header)
            names = [name.strip() for name in next(csv.reader([header], delimiter=delimiter), [])]
            twice = next((name for name in names if name and names.count(name) > 1), None)
            if twice is not None:
                raise BadInput(f"{path} has two columns called {twice!r}; rename one")
            reader = csv.reader(text, delimiter=delimiter, strict=True)
            line = before + 1
            for values in reader:
                if values:
                    yield _cells(path, line, names, values)
                line = reader.line_num + before + 1
        except UnicodeDecodeError:
            raise BadInput(f"{path} is not UTF-8; save it as UTF-8") from None
        except csv.Error as error:
            raise BadInput(f"{path} is no CSV: {error}") from None


def _cells(path: Path, line: int, names: list[str], values: list[str]) -> Row | BadRow:
    """A row by column name; empty cells beyond the header (a trailing comma) are let go."""
    if len(values) < len(names) or any(values[len(names) :]):
        return BadRow(str(path), line, f"{len(values)} columns, the header has {len(names)}")
    return Row(line, dict(zip(names, values, strict=False)))


def _delimiter(header: str) -> str:
    return max(",;\t|", key=header.count)


def _parquet_rows(path: Path, batch: int = 10_000) -> Iterator[Row | BadRow]:
    import polars as pl

    try:
        scan = pl.scan_parquet(path)
        for start in range(0, scan.select(pl.len()).collect().item(), batch):
            frame = scan.slice(start, batch).collect()
            for offset, fields in enumerate(frame.iter_rows(named=True), start + 1):
                yield Row(offset, fields)
    except pl.exceptions.PolarsError as error:
        raise BadInput(f"{path} is no Parquet file: {str(error).splitlines()[0]}") from None
