"""Rows of an Excel workbook as text cells, and the next step for documents that are not read."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from accord.edges import MB, BadInput, MissingExtra, format_size, open_regular

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
"""Endings of documents that are refused, with the next step."""
_UNPACKED_BYTES = 256 * MB
"""The most that a workbook may unpack to: it is read at once."""


def excel_cells(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a workbook's only sheet with data, each with its row number; empty rows are left out.

    Raises:
        BadInput: The file is no workbook, is too large, or has no sheet or several sheets with data.
        MissingExtra: The package that reads workbooks is not installed.
    """
    _check_size(path)
    if find_spec("fastexcel") is None:  # the reader that Polars calls
        raise MissingExtra(f"{path}: reading an Excel workbook (saving it as CSV UTF-8 avoids this)", "excel")
    import polars as pl

    try:
        sheets = pl.read_excel(
            path, sheet_id=0, engine="calamine", has_header=False, infer_schema_length=0, drop_empty_rows=False,
            raise_if_empty=False,
        )  # fmt: skip
    except Exception as error:  # Polars, the reader and its Rust core each have their own
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


def _check_size(path: Path) -> None:
    try:
        with open_regular(path) as stream, zipfile.ZipFile(stream) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
    except (zipfile.BadZipFile, NotImplementedError):
        raise BadInput(f"{path} is not an Excel workbook, although its name ends so; {_AS_TABLE}") from None
    if size > _UNPACKED_BYTES:
        raise BadInput(
            f"{path} unpacks to {format_size(size)}; a workbook may have {format_size(_UNPACKED_BYTES)}. Save "
            "the sheet as CSV UTF-8, which is read row by row"
        )
