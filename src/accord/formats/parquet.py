"""Rows of a Parquet file, once its own table of contents says that they fit: nothing is unpacked before that.

The footer (Apache Parquet format 2, Thrift's compact protocol) tells how many columns there are, how they are nested,
and what each group of rows unpacks to: its bytes, and its values, of which runs of equal ones take no bytes.

| what comes in | what is said |
|---|---|
| no footer, one that ends too early, or of more than `FOOTER_BYTES` | that it is no Parquet file, or how large it is |
| more than `COLUMNS` columns, or columns nested deeper than `MAX_DEPTH` | that it has |
| pages that unpack to more than `MAX_UNPACK_RATIO` times the file's size | that they do, as for any packed file |
| a group of rows with more than `GROUP_VALUES` values, or more than `ROW_VALUES` a row | to write smaller groups |
| pages that are not what the footer says | that it is no Parquet file |
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

from accord.edges import (
    FREE_BYTES,
    MAX_DEPTH,
    MAX_UNPACK_RATIO,
    MB,
    BadInput,
    first_line,
    format_size,
    open_regular,
    unreadable_parquet,
)
from accord.formats.record import ROW_VALUES

COLUMNS = 10_000
"""The most columns of a table."""
FOOTER_BYTES = 16 * MB
GROUP_VALUES = 20_000_000
"""The most values in a group of rows, which is read at once: 16 bytes each, and what they say."""
_LONG = 1 << 16
_MAGIC = b"PAR1"
_TAIL = 8
_STOP, _TRUE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 0, 1, 3, 7, 8, 9, 10, 12
_SCHEMA, _GROUPS, _CHILDREN, _CHUNKS, _GROUP_ROWS, _ABOUT, _VALUES, _UNPACKED = 2, 4, 5, 1, 3, 3, 5, 6
"""Numbers of the fields that are looked at."""


def parquet_rows(path: Path, batch: int = 10_000) -> Iterator[Mapping[str, Any]]:
    """Every row in order, by column name.

    Raises:
        BadInput: It is no Parquet file, or more than is read: see the table above.
    """
    import polars as pl

    with open_regular(path) as stream:
        row_groups(str(path), stream, os.fstat(stream.fileno()).st_size)
    try:
        scan = pl.scan_parquet(path)
        scan.collect_schema()
        for start in range(0, scan.select(pl.len()).collect().item(), batch):
            frame = scan.slice(start, batch).collect()
            longest = frame.select(pl.col(pl.String).str.len_bytes().max()).max_horizontal().item() if any(
                kind == pl.String for kind in frame.dtypes
            ) else 0  # fmt: skip
            # One text of megabytes that many rows share takes its size again in each that is at hand.
            yield from frame.iter_rows(named=True, buffer_size=512 if (longest or 0) < _LONG else 1)
    except unreadable_parquet() as error:
        raise BadInput(f"{path} is no Parquet file: {first_line(error)}") from None


class RowGroup(NamedTuple):
    """Rows of a Parquet file that are packed together: how many, and the bytes that they unpack to."""

    rows: int
    unpacked: int


def row_groups(path: str, stream: IO[bytes] | io.FileIO, size: int) -> list[RowGroup]:
    """The groups of rows of a file, from its footer alone.

    Raises:
        BadInput: The file is none, or its footer says that it is too much: see the table above.
    """
    stream.seek(max(size - _TAIL, 0))
    tail = stream.read(_TAIL) or b""
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != _MAGIC or length > size - _TAIL:
        raise BadInput(f"{path} is no Parquet file: it does not end as one")
    if length > FOOTER_BYTES:
        raise BadInput(
            f"{path} has a table of contents of {format_size(length)}, at most {format_size(FOOTER_BYTES)}: more "
            f"than {COLUMNS:,} columns, or very many groups of rows; a table of conversations has few"
        )
    stream.seek(size - _TAIL - length)
    footer = stream.read(length) or b""
    try:
        found = _Compact(footer).struct()
        _check_columns(path, found[_SCHEMA])
        groups = found.get(_GROUPS, [])
        _check_groups(path, groups, size)
        return [
            RowGroup(group[_GROUP_ROWS], sum(chunk[_ABOUT][_UNPACKED] for chunk in group[_CHUNKS])) for group in groups
        ]
    except (LookupError, TypeError, AttributeError, ValueError):
        raise BadInput(f"{path} is no Parquet file: its table of contents is damaged") from None


def _check_columns(path: str, schema: list[dict[int, Any]]) -> None:
    if len(schema) > COLUMNS:
        raise BadInput(f"{path} has more than {COLUMNS:,} columns; a table of conversations has few")
    left: list[int] = []  # of each level that is open, how many children are still to come
    for element in schema:
        while left and left[-1] == 0:
            left.pop()
        if left:
            left[-1] -= 1
        left.append(element.get(_CHILDREN, 0))
        if len(left) > 2 * MAX_DEPTH:  # a list is two levels
            raise BadInput(f"{path} has columns that are nested deeper than {MAX_DEPTH} levels")


def _check_groups(path: str, groups: list[dict[int, Any]], size: int) -> None:
    unpacked, most = 0, max(FREE_BYTES, MAX_UNPACK_RATIO * size)
    for group in groups:
        about = [chunk[_ABOUT] for chunk in group[_CHUNKS]]
        values, rows = sum(chunk[_VALUES] for chunk in about), group[_GROUP_ROWS]
        unpacked += sum(chunk[_UNPACKED] for chunk in about)
        if unpacked > most:
            raise BadInput(
                f"{path} unpacks to more than {format_size(most)}, {MAX_UNPACK_RATIO} times its size, which no log does"
            )
        if values > GROUP_VALUES or values > max(rows, 0) * ROW_VALUES:
            raise BadInput(
                f"{path} has a group of {rows:,} rows with {values:,} values, at most {GROUP_VALUES:,} and "
                f"{ROW_VALUES:,} a row; write it with smaller groups of rows (row_group_size)"
            )


class _Compact:
    """Thrift's compact protocol: what of a footer is read, as fields by their numbers.

    Whatever is damaged raises IndexError or ValueError.
    """

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """Fields by number up to the stop."""
        if depth > MAX_DEPTH:
            raise ValueError("nested too deeply")
        found: dict[int, Any] = {}
        number = 0
        while (head := self._byte()) & 15 != _STOP:
            number = number + (head >> 4) if head >> 4 else self._whole()
            found[number] = self._value(head & 15, depth)
        return found

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
        raise ValueError("a kind that no footer has")

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
            raise ValueError("it ends too early")

    def _byte(self) -> int:
        found = self._content[self._at]
        self._at += 1
        return found

    def _varint(self) -> int:
        found = shift = 0
        while (byte := self._byte()) & 128:
            found |= (byte & 127) << shift
            shift += 7
            if shift > 63:
                raise ValueError("no number")
        return found | byte << shift

    def _whole(self) -> int:
        found = self._varint()
        return found >> 1 ^ -(found & 1)
