"""Rows of a table as text, from CSV or an Excel workbook: a header, and one row per line."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from accord.edges import MB, BadInput, BadRow
from accord.formats.excel import excel_cells
from accord.formats.parquet import COLUMNS
from accord.formats.record import ROW_BYTES, ROW_VALUES, Row, too_long

_HEADER = MB
"""The longest header of a table, in characters."""


def excel_rows(path: Path) -> Iterator[Row | BadRow]:
    """Yield the rows of an Excel workbook's only sheet with data.

    Raises:
        BadInput: As `excel_cells`, or two columns have the same name.
        MissingExtra: As `excel_cells`.
    """
    names: list[str] = []
    for line, cells in excel_cells(path):
        if names:
            yield _cells(path, line, names, cells)
        else:
            names = _checked_names(path, cells)


def _checked_names(path: Path, cells: Sequence[str]) -> list[str]:
    names = [name.strip() for name in cells]
    twice = next((name for name, times in Counter(names).items() if name and times > 1), None)
    if twice is not None:
        raise BadInput(f"{path} has two columns called {twice!r}; rename one")
    return names


def csv_rows(path: Path, stream: io.BufferedReader[Any], delimiter: str | None) -> Iterator[Row | BadRow]:
    """Yield the rows of a table; without a delimiter the header tells which one it is.

    Raises:
        BadInput: The text is not UTF-8 or no CSV, or its header is too long or has a name twice.
    """
    csv.field_size_limit(ROW_BYTES)
    with stream, io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text:
        try:
            header, before = text.readline(_HEADER), 1
            if header.lower().startswith("sep="):  # what spreadsheets write to name the delimiter
                delimiter, header, before = header.strip()[4:5], text.readline(_HEADER), 2
            delimiter = delimiter or _delimiter(header)
            if header.count(delimiter) >= COLUMNS:
                raise BadInput(f"{path} has more than {COLUMNS:,} columns; a table of conversations has few")
            if len(header) == _HEADER:
                raise BadInput(f"{path} begins with a line of {_HEADER:,} characters or more, which no header is")
            names = _checked_names(path, next(csv.reader([header], delimiter=delimiter), []))
            bounded = _TableLines(path, text, before, delimiter)
            reader = csv.reader(bounded, delimiter=delimiter, strict=True)
            line = before + 1
            for values in reader:
                bounded.length = 0
                if values:
                    yield _cells(path, line, names, values)
                line = reader.line_num + before + 1
        except UnicodeDecodeError:
            raise BadInput(f"{path} is not UTF-8; save it as UTF-8") from None
        except csv.Error as error:
            raise BadInput(f"{path} is no CSV: {error}") from None


class _TableLines:
    """The lines of a table, counted from one row to the next: a quote that is never closed makes a row of all."""

    def __init__(self, path: Path, text: IO[str], line: int, delimiter: str) -> None:
        self._path, self._text, self._line, self._delimiter = path, text, line, delimiter
        self.length = 0

    def __iter__(self) -> _TableLines:
        return self

    def __next__(self) -> str:
        line = self._text.readline(ROW_BYTES + 1)
        if not line:
            raise StopIteration
        self._line += 1
        self.length += len(line)
        if self.length > ROW_BYTES or (self.length > MB and line.count(self._delimiter) > ROW_VALUES):
            raise BadInput(f"{self._path}, line {self._line}: {too_long('a row')}; a quote may be open before it")
        return line


def _cells(path: Path, line: int, names: list[str], values: list[str]) -> Row | BadRow:
    """A row by column name; empty cells beyond the header (a trailing comma) are let go."""
    if len(values) < len(names) or any(values[len(names) :]):
        return BadRow(str(path), line, f"{len(values)} columns, the header has {len(names)}")
    return Row(line, dict(zip(names, values, strict=False)))


def _delimiter(header: str) -> str:
    return max(",;\t|", key=header.count)
