"""Rows of a file, one after another and never all at once: JSON lines, a JSON array, CSV, TSV, Parquet; gzip too."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from accord.errors import BadInput, BadRow
from accord.readers.record import Row

TABLE_SUFFIXES = {".csv", ".tsv", ".parquet"}
_CHUNK = 1 << 16
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


def _open(path: Path) -> io.BufferedReader:
    raw: Any = gzip.open(path) if path.name.lower().endswith(".gz") else path.open("rb", buffering=0)  # noqa: SIM115
    return io.BufferedReader(raw, 1 << 20)


def _json_rows(path: Path) -> Iterator[Row | BadRow]:
    with _open(path) as stream:
        head = stream.peek(4)[:4]
        if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise BadInput(f"{path} is UTF-16; save it as UTF-8")
        if head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"[":
            yield from _array_rows(path, stream)
        else:
            yield from _line_rows(path, stream)


def _line_rows(path: Path, stream: IO[bytes]) -> Iterator[Row | BadRow]:
    for line, raw in enumerate(stream, 1):
        text = raw.removeprefix(b"\xef\xbb\xbf") if line == 1 else raw
        if not text.strip():
            continue
        if line == 1 and text.strip() in (b"{", b"{ "):
            yield from _object_rows(path, raw + stream.read())
            return
        yield _parsed(path, line, text)


def _parsed(path: Path, line: int, text: bytes) -> Row | BadRow:
    try:
        fields = json.loads(text.decode("utf-8"))
    except UnicodeDecodeError as error:
        return BadRow(str(path), line, f"not UTF-8 at byte {error.start}; save the file as UTF-8")
    except (json.JSONDecodeError, RecursionError) as error:
        return BadRow(str(path), line, f"not JSON: {getattr(error, 'msg', 'nested too deeply')}")
    return _row(path, line, fields)


def _row(path: Path, line: int, fields: Any) -> Row | BadRow:
    if not isinstance(fields, dict):
        return BadRow(str(path), line, f"expected a JSON object, got {type(fields).__name__}")
    return Row(line, fields)


def _object_rows(path: Path, text: bytes) -> Iterator[Row | BadRow]:
    """One pretty-printed object: a wrapper around a list of rows (`{"traces": [...]}`), or itself the only row."""
    parsed = _parsed(path, 1, text)
    if isinstance(parsed, BadRow):
        raise BadInput(f"{path} is neither JSON lines nor one JSON value: {parsed.reason}")
    for wrapper in ("data", "traces", "items", "rows"):
        inner = parsed.fields.get(wrapper)
        if isinstance(inner, list) and len(parsed.fields) <= 3:
            yield from (_row(path, number, fields) for number, fields in enumerate(inner, 1))
            return
    yield parsed


def _array_rows(path: Path, stream: IO[bytes]) -> Iterator[Row | BadRow]:
    """Elements of one JSON array, decoded from a sliding window, so that a large export needs little memory."""
    decoder = json.JSONDecoder()
    text = io.TextIOWrapper(stream, encoding="utf-8-sig")
    window, line = "", 1
    try:
        while chunk := text.read(_CHUNK):
            window += chunk
            if line == 1 and window.lstrip().startswith("["):
                skipped = window.index("[") + 1
                line, window = line + window.count("\n", 0, skipped), window[skipped:]
                break
        while True:
            lead = len(window) - len(window.lstrip(" \t\r\n,"))
            line, window = line + window.count("\n", 0, lead), window[lead:]
            if window.startswith("]"):
                return
            try:
                fields, end = decoder.raw_decode(window)
            except json.JSONDecodeError as error:
                # An unfinished element grows the window by doubling, so that a long one is parsed few times.
                more = text.read(max(_CHUNK, len(window)))
                if not more:
                    raise BadInput(f"{path}, line {line}: not JSON: {error.msg}") from None
                window += more
                continue
            yield _row(path, line, fields)
            line, window = line + window.count("\n", 0, end), window[end:]
    except UnicodeDecodeError:
        raise BadInput(f"{path} is not UTF-8; save it as UTF-8") from None


def _csv_rows(path: Path, delimiter: str | None) -> Iterator[Row | BadRow]:
    csv.field_size_limit(1 << 30)
    with _open(path) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
        try:
            header = text.readline()
            reader = csv.reader(text, delimiter=delimiter or _delimiter(header))
            names = next(csv.reader([header], delimiter=delimiter or _delimiter(header)), [])
            line = 2
            for values in reader:
                if values and len(values) != len(names):
                    yield BadRow(str(path), line, f"{len(values)} columns, the header has {len(names)}")
                elif values:
                    yield Row(line, dict(zip(names, values, strict=True)))
                line = reader.line_num + 2
        except UnicodeDecodeError:
            raise BadInput(f"{path} is not UTF-8; save it as UTF-8") from None
        except csv.Error as error:
            raise BadInput(f"{path} is no CSV: {error}") from None


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
