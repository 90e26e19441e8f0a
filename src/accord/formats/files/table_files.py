"""Rows of Parquet, CSV and TSV files.

A Parquet footer (Apache Parquet format 2, Thrift's compact protocol) is checked before anything is unpacked. It has the
number of columns, their nesting, and the unpacked size of each row group in bytes and in values; runs of equal values
take no bytes.

| input | error |
|---|---|
| no footer, a truncated one, or more than `FOOTER_BYTES` | no Parquet file, or the size of the footer |
| more than `MAX_FIELDS` columns, or columns nested deeper than `MAX_DEPTH` | the limit |
| pages that unpack to more than `MAX_UNPACK_RATIO` times the file's size | the limit, as for any compressed file |
| a row group with more than `GROUP_VALUES` values, or more than `ROW_VALUES` per row | write smaller groups |
| the same by the sizes in the pages, of a local file | the same |
| pages that contradict the footer | no Parquet file |
"""

from __future__ import annotations

import csv
import io
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from accord.edges import (
    FREE_BYTES,
    MAX_DEPTH,
    MAX_FIELDS,
    MAX_UNPACK_RATIO,
    MB,
    BadInput,
    BadRow,
    first_line,
    format_size,
    open_regular,
    open_unpacked,
    unreadable_parquet,
)
from accord.formats.files.memory import frame_rows
from accord.formats.record import EMPTY_LINES, ROW_BYTES, ROW_VALUES, Row, too_empty, too_long

FOOTER_BYTES = 16 * MB
GROUP_VALUES = 20_000_000
"""Maximum number of values in a row group, which is read at once: 16 bytes each plus their content."""
_LONG = 1 << 16
_MAGIC = b"PAR1"
_TAIL = 8
_STOP, _TRUE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 0, 1, 3, 7, 8, 9, 10, 12
_SCHEMA, _GROUPS, _CHILDREN, _CHUNKS, _GROUP_ROWS, _METADATA, _VALUES, _UNPACKED = 2, 4, 5, 1, 3, 3, 5, 6
_PACKED, _DATA_PAGE, _DICTIONARY_PAGE, _PAGE_UNPACKED, _PAGE_PACKED = 7, 9, 11, 2, 3
"""Thrift field numbers that are read."""


def parquet_rows(path: Path, batch: int = 10_000) -> Iterator[Mapping[str, Any] | BadRow]:
    """Yield every row by column name; a row with a value that Python lacks is a `BadRow`.

    Raises:
        BadInput: The file is not a Parquet file, or over a limit; see the table above.
    """
    import polars as pl

    with open_regular(path) as stream:
        check_pages(str(path), stream, os.fstat(stream.fileno()).st_size)
    number = 0
    try:
        scan = pl.scan_parquet(path)
        scan.collect_schema()
        for start in range(0, scan.select(pl.len()).collect().item(), batch):
            frame = scan.slice(start, batch).collect()
            longest = frame.select(pl.col(pl.String).str.len_bytes().max()).max_horizontal().item() if any(
                kind == pl.String for kind in frame.dtypes
            ) else 0  # fmt: skip
            # A text of megabytes that many rows share takes its size again in each row of the buffer.
            for row in frame_rows(frame, 512 if (longest or 0) < _LONG else 1):
                number += 1
                yield BadRow(str(path), number, str(row)) if isinstance(row, TypeError) else row
    except unreadable_parquet() as error:
        raise BadInput(f"{path} is not a Parquet file: {first_line(error)}") from None


class RowGroup(NamedTuple):
    """Number of rows and unpacked bytes of a row group."""

    rows: int
    unpacked: int


def row_groups(path: str, stream: IO[bytes] | io.FileIO, size: int) -> list[RowGroup]:
    """Return the row groups of a file from its footer.

    Raises:
        BadInput: The file is not a Parquet file, or its footer is over a limit; see the table above.
    """
    return [
        RowGroup(group[_GROUP_ROWS], sum(chunk[_METADATA][_UNPACKED] for chunk in group[_CHUNKS]))
        for group in _groups(path, stream, size)
    ]


def _groups(path: str, stream: IO[bytes] | io.FileIO, size: int) -> list[dict[int, Any]]:
    """Return the checked row groups of a footer."""
    stream.seek(max(size - _TAIL, 0))
    tail = stream.read(_TAIL) or b""
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != _MAGIC or length > size - _TAIL:
        raise BadInput(f"{path} is not a Parquet file: it has no footer")
    if length > FOOTER_BYTES:
        raise BadInput(
            f"{path} has a footer of {format_size(length)}, at most {format_size(FOOTER_BYTES)}: more "
            f"than {MAX_FIELDS:,} columns, or very many groups of rows; a table of conversations has few"
        )
    stream.seek(size - _TAIL - length)
    footer = stream.read(length) or b""
    try:
        metadata = _Compact(footer).struct()
        _check_columns(path, metadata[_SCHEMA])
        groups: list[dict[int, Any]] = metadata.get(_GROUPS, [])
        _check_groups(path, groups, size)
        return groups
    except (LookupError, TypeError, AttributeError, ValueError):
        raise BadInput(f"{path} is not a Parquet file: its footer is damaged") from None


def check_pages(path: str, stream: io.FileIO, size: int) -> None:
    """Check a file's footer, and the sizes in its pages: the reader unpacks these even if the footer states others.

    Raises:
        BadInput: As `row_groups`, or a page is damaged, or all pages together are over the limit.
    """
    unpacked, limit = 0, max(FREE_BYTES, MAX_UNPACK_RATIO * size)
    columns = [chunk[_METADATA] for group in _groups(path, stream, size) for chunk in group[_CHUNKS]]
    try:
        for page_size in (page_size for column in columns for page_size in _page_sizes(stream, column)):
            unpacked += page_size
            if unpacked > limit:
                raise _too_large(path, limit)
    except (LookupError, TypeError, AttributeError, ValueError, OSError):
        raise BadInput(f"{path} is not a Parquet file: its pages are damaged") from None


def _page_sizes(stream: io.FileIO, column: dict[int, Any]) -> Iterator[int]:
    """Yield the unpacked size of each page of a column."""
    start = min(column[_DATA_PAGE], column.get(_DICTIONARY_PAGE) or column[_DATA_PAGE])
    end = start + column[_PACKED]
    while start < end:
        stream.seek(start)
        header = _Compact(stream.read(min(_HEADER, end - start)) or b"")
        page = header.struct()
        if min(page[_PAGE_UNPACKED], page[_PAGE_PACKED]) < 0:
            raise ValueError("a negative size")
        yield page[_PAGE_UNPACKED]
        start += header.place + page[_PAGE_PACKED]


def _too_large(path: str, limit: int) -> BadInput:
    return BadInput(
        f"{path} unpacks to more than {format_size(limit)}, {MAX_UNPACK_RATIO} times its size, which no log reaches"
    )


def _check_columns(path: str, schema: list[dict[int, Any]]) -> None:
    if len(schema) > MAX_FIELDS:
        raise BadInput(f"{path} has more than {MAX_FIELDS:,} columns; a table of conversations has few")
    left: list[int] = []  # number of children to come, per open level
    for element in schema:
        while left and left[-1] == 0:
            left.pop()
        if left:
            left[-1] -= 1
        left.append(element.get(_CHILDREN, 0))
        if len(left) > 2 * MAX_DEPTH:  # a list is two levels
            raise BadInput(f"{path} has columns that are nested deeper than {MAX_DEPTH} levels")


def _check_groups(path: str, groups: list[dict[int, Any]], size: int) -> None:
    unpacked, limit = 0, max(FREE_BYTES, MAX_UNPACK_RATIO * size)
    for group in groups:
        chunks = [chunk[_METADATA] for chunk in group[_CHUNKS]]
        values, rows = sum(chunk[_VALUES] for chunk in chunks), group[_GROUP_ROWS]
        unpacked += sum(chunk[_UNPACKED] for chunk in chunks)
        if unpacked > limit:
            raise _too_large(path, limit)
        if values > GROUP_VALUES or values > max(rows, 0) * ROW_VALUES:
            raise BadInput(
                f"{path} has a group of {rows:,} rows with {values:,} values, at most {GROUP_VALUES:,} and "
                f"{ROW_VALUES:,} a row; write it with smaller groups of rows (row_group_size)"
            )


class _Compact:
    """Reader of Thrift's compact protocol, as fields by number.

    Damaged content raises IndexError or ValueError.
    """

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    @property
    def place(self) -> int:
        """Number of bytes that were read."""
        return self._at

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """Return the fields of a struct by number."""
        if depth > MAX_DEPTH:
            raise ValueError("nested too deeply")
        fields: dict[int, Any] = {}
        number = 0
        while (head := self._byte()) & 15 != _STOP:
            number = number + (head >> 4) if head >> 4 else self._whole()
            fields[number] = self._value(head & 15, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind <= _TRUE + 1:
            return kind == _TRUE
        if kind < _DOUBLE:
            return self._byte() if kind == _BYTE else self._whole()
        if kind in (_DOUBLE, _BINARY):
            return self._skipped(8 if kind == _DOUBLE else self._varint())
        if kind in (_LIST, _SET):
            return self._list(depth)
        if kind == _STRUCT:
            return self.struct(depth + 1)
        raise ValueError("unknown type")

    def _list(self, depth: int) -> list[Any]:
        head = self._byte()
        kind, count = head & 15, head >> 4
        count = self._varint() if count == 15 else count
        if count > len(self._content) - self._at:
            raise ValueError("longer than the footer")
        if kind <= _TRUE + 1:
            return [self._byte() for _ in range(count)]
        return [self._value(kind, depth + 1) for _ in range(count)]

    def _skipped(self, length: int) -> None:
        self._at += length
        if self._at > len(self._content):
            raise ValueError("truncated")

    def _byte(self) -> int:
        byte = self._content[self._at]
        self._at += 1
        return byte

    def _varint(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 128:
            value |= (byte & 127) << shift
            shift += 7
            if shift > 63:
                raise ValueError("number too long")
        return value | byte << shift

    def _whole(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)


# --- CSV -------------------------------------------------------------------------------------------------------------

_HEADER = MB
"""Maximum length of a header, in characters."""


def csv_rows(path: Path, delimiter: str | None, encoding: str) -> Iterator[Row | BadRow]:
    """Yield the rows of a delimited table; by default the most frequent candidate in the header is the delimiter.

    Raises:
        BadInput: The text is not in this encoding or not CSV, or its header is too long or has a name twice.
    """
    csv.field_size_limit(ROW_BYTES)
    with open_unpacked(path) as stream, io.TextIOWrapper(stream, encoding=encoding, newline="") as text:
        try:
            header, header_line = text.readline(_HEADER), 1
            if header.lower().startswith("sep="):  # spreadsheets name the delimiter like this
                delimiter, header, header_line = header.strip()[4:5], text.readline(_HEADER), 2
            delimiter = delimiter or max(",;\t|", key=header.count)
            if header.count(delimiter) >= MAX_FIELDS:
                raise BadInput(f"{path} has more than {MAX_FIELDS:,} columns; a table of conversations has few")
            if len(header) == _HEADER:
                raise BadInput(f"{path} begins with a line of {_HEADER:,} characters or more; a header is shorter")
            names = column_names(path, next(csv.reader([header], delimiter=delimiter), []))
            lines = _BoundedLines(path, text, header_line, delimiter)
            reader = csv.reader(lines, delimiter=delimiter, strict=True)
            line = header_line + 1
            for values in reader:
                lines.row_length = 0
                if values:
                    yield row_of(path, line, names, values)
                line = reader.line_num + header_line + 1
        except UnicodeError:
            raise BadInput(f"{path} is damaged or not {encoding}; save it as UTF-8") from None
        except csv.Error as error:
            raise BadInput(f"{path} is not CSV: {error}") from None


class _BoundedLines:
    """Lines of a table with a limit per row, because an unclosed quote joins all following lines to one row."""

    def __init__(self, path: Path, text: IO[str], line: int, delimiter: str) -> None:
        self._path, self._text, self._line, self._delimiter = path, text, line, delimiter
        self.row_length = self._empty = 0

    def __iter__(self) -> _BoundedLines:
        return self

    def __next__(self) -> str:
        line = self._text.readline(ROW_BYTES + 1)
        if not line:
            raise StopIteration
        self._line += 1
        self._empty = self._empty + 1 if line.isspace() else 0
        if self._empty > EMPTY_LINES:
            raise BadInput(too_empty(self._path, self._line))
        self.row_length += len(line)
        if self.row_length > ROW_BYTES or (self.row_length > MB and line.count(self._delimiter) > ROW_VALUES):
            raise BadInput(f"{self._path}, line {self._line}: {too_long('a row')}; a quote may be open before it")
        return line


def column_names(path: Path, cells: Sequence[str]) -> list[str]:
    """Return the names of a header.

    Raises:
        BadInput: A name occurs twice.
    """
    names = [name.strip() for name in cells]
    duplicate = next((name for name, count in Counter(names).items() if name and count > 1), None)
    if duplicate is not None:
        raise BadInput(f"{path} has two columns called {duplicate!r}; rename one")
    return names


def row_of(path: Path, line: int, names: list[str], cells: list[str]) -> Row | BadRow:
    """Return a row by column name; empty cells beyond the header (a trailing comma) are dropped."""
    if len(cells) < len(names) or any(cells[len(names) :]):
        return BadRow(str(path), line, f"{len(cells)} columns, the header has {len(names)}")
    return Row(line, dict(zip(names, cells, strict=False)))
