"""Rows of CSV, TSV and Excel files as text cells: a header, then one row per line."""

from __future__ import annotations

import csv
import io
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from accord.edges import MB, BadInput, BadRow, MissingExtra, format_size, open_regular
from accord.formats.parquet import COLUMNS
from accord.formats.record import ROW_BYTES, ROW_VALUES, Row, too_long

EXCEL_SUFFIXES = {".xlsx", ".xlsm"}
_AS_TABLE = "open it and save the sheet as .xlsx or as CSV UTF-8"
_AS_TEXT = "save it as plain text (.txt) with a line such as `Customer: ...` for each message"
UNREAD_SUFFIXES = {
    ".xls": f"is an Excel workbook of the format before 2007, which is not read; {_AS_TABLE}",
    ".xlsb": f"is a binary Excel workbook, which is not read; {_AS_TABLE}",
    ".ods": f"is an OpenDocument spreadsheet, which is not read; {_AS_TABLE}",
    ".numbers": f"is a Numbers spreadsheet, which is not read; {_AS_TABLE}",
    ".docx": f"is a Word document, which is not read; {_AS_TEXT}",
    ".doc": f"is a Word document, which is not read; {_AS_TEXT}",
    ".rtf": f"is a rich-text document, which is not read; {_AS_TEXT}",
    ".pdf": f"is a PDF, which is not read; {_AS_TEXT}",
}
"""Suffixes of documents that are refused, with the next step."""
_HEADER = MB
"""Maximum length of a header, in characters."""
_WORKBOOK_BYTES = 256 * MB
"""Maximum unpacked size of a workbook, which is read into memory."""


def excel_rows(path: Path) -> Iterator[Row | BadRow]:
    """Yield the rows of an Excel workbook's only sheet with data; empty rows are skipped.

    Raises:
        BadInput: The file is not a workbook, is too large, or has no or several sheets with data; or two columns have
            the same name.
        MissingExtra: The package that reads workbooks is not installed.
    """
    names: list[str] = []
    for line, cells in _excel_cells(path):
        if names:
            yield _row(path, line, names, cells)
        else:
            names = _column_names(path, cells)


def _excel_cells(path: Path) -> Iterator[tuple[int, list[str]]]:
    _check_workbook_size(path)
    if find_spec("fastexcel") is None:  # the reader that Polars calls
        raise MissingExtra(f"{path}: reading an Excel workbook (saving it as CSV UTF-8 avoids this)", "excel")
    import polars as pl

    try:
        sheets = pl.read_excel(
            path, sheet_id=0, engine="calamine", has_header=False, infer_schema_length=0, drop_empty_rows=False,
            raise_if_empty=False,
        )  # fmt: skip
    except Exception as error:  # Polars, the reader and its Rust core have exceptions of their own
        raise BadInput(f"{path} cannot be read as an Excel workbook: {str(error).splitlines()[0]}") from None
    filled = {name: frame for name, frame in sheets.items() if frame.height > 1}
    if len(filled) != 1:
        named = ", ".join(repr(name) for name in filled) or "none"
        raise BadInput(
            f"{path}: a workbook must have one sheet with a header and rows, got {len(filled)} ({named}); save each "
            "sheet in a file of its own"
        )
    [frame] = filled.values()
    for line, cells in enumerate(frame.iter_rows(), 1):
        if any(cell is not None for cell in cells):
            yield line, ["" if cell is None else str(cell) for cell in cells]


def _check_workbook_size(path: Path) -> None:
    try:
        with open_regular(path) as stream, zipfile.ZipFile(stream) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
    except (zipfile.BadZipFile, NotImplementedError):
        raise BadInput(f"{path} is not an Excel workbook, despite its suffix; {_AS_TABLE}") from None
    if size > _WORKBOOK_BYTES:
        raise BadInput(
            f"{path} unpacks to {format_size(size)}; a workbook may have {format_size(_WORKBOOK_BYTES)}. Save the "
            "sheet as CSV UTF-8, which is read row by row"
        )


def csv_rows(path: Path, stream: io.BufferedReader[Any], delimiter: str | None) -> Iterator[Row | BadRow]:
    """Yield the rows of a delimited table.

    Args:
        path: The file, for errors.
        stream: Its unpacked bytes.
        delimiter: Delimiter of the cells; by default the most frequent candidate in the header.

    Raises:
        BadInput: The text is not UTF-8 or not CSV, or its header is too long or has a name twice.
    """
    csv.field_size_limit(ROW_BYTES)
    with stream, io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text:
        try:
            header, header_line = text.readline(_HEADER), 1
            if header.lower().startswith("sep="):  # spreadsheets name the delimiter like this
                delimiter, header, header_line = header.strip()[4:5], text.readline(_HEADER), 2
            delimiter = delimiter or max(",;\t|", key=header.count)
            if header.count(delimiter) >= COLUMNS:
                raise BadInput(f"{path} has more than {COLUMNS:,} columns; a table of conversations has few")
            if len(header) == _HEADER:
                raise BadInput(f"{path} begins with a line of {_HEADER:,} characters or more; a header is shorter")
            names = _column_names(path, next(csv.reader([header], delimiter=delimiter), []))
            lines = _BoundedLines(path, text, header_line, delimiter)
            reader = csv.reader(lines, delimiter=delimiter, strict=True)
            line = header_line + 1
            for values in reader:
                lines.row_length = 0
                if values:
                    yield _row(path, line, names, values)
                line = reader.line_num + header_line + 1
        except UnicodeDecodeError:
            raise BadInput(f"{path} is not UTF-8; save it as UTF-8") from None
        except csv.Error as error:
            raise BadInput(f"{path} is not CSV: {error}") from None


class _BoundedLines:
    """Lines of a table with a limit per row, because an unclosed quote joins all following lines to one row."""

    def __init__(self, path: Path, text: IO[str], line: int, delimiter: str) -> None:
        self._path, self._text, self._line, self._delimiter = path, text, line, delimiter
        self.row_length = 0

    def __iter__(self) -> _BoundedLines:
        return self

    def __next__(self) -> str:
        line = self._text.readline(ROW_BYTES + 1)
        if not line:
            raise StopIteration
        self._line += 1
        self.row_length += len(line)
        if self.row_length > ROW_BYTES or (self.row_length > MB and line.count(self._delimiter) > ROW_VALUES):
            raise BadInput(f"{self._path}, line {self._line}: {too_long('a row')}; a quote may be open before it")
        return line


def _column_names(path: Path, cells: Sequence[str]) -> list[str]:
    names = [name.strip() for name in cells]
    duplicate = next((name for name, count in Counter(names).items() if name and count > 1), None)
    if duplicate is not None:
        raise BadInput(f"{path} has two columns called {duplicate!r}; rename one")
    return names


def _row(path: Path, line: int, names: list[str], cells: list[str]) -> Row | BadRow:
    """Return a row by column name; empty cells beyond the header (a trailing comma) are dropped."""
    if len(cells) < len(names) or any(cells[len(names) :]):
        return BadRow(str(path), line, f"{len(cells)} columns, the header has {len(names)}")
    return Row(line, dict(zip(names, cells, strict=False)))
