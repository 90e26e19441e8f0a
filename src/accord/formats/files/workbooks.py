"""Rows of Excel workbooks.

A workbook is a zip archive of XML, which its reader unpacks into memory even if its directory states a wrong size. It
is therefore unpacked here first, and only the counted content is read.

| input | error |
|---|---|
| XML that unpacks to more than `WORKBOOK_BYTES` | the limit |
| cells that span more than `WORKBOOK_CELLS`: the reader keeps empty ones too | the limit and the last cell |
| cells that repeat shared texts to more than `WORKBOOK_BYTES` | the limit |
| an encrypted or damaged archive, or two parts of one name | no workbook |

The number of shared texts that a workbook states is removed: the reader would reserve memory for it. A number of more
than 15 digits, which spreadsheets round, is returned in scientific notation, so that two ids that were rounded to one
are refused and not joined.

All of this happens in a process of its own with limits of memory and time (`WORKBOOK_MEMORY`, `WORKBOOK_SECONDS`), so
that a workbook which passes these checks ends that process, and not a server.
"""

from __future__ import annotations

import atexit
import io
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path
from threading import Timer

from accord.edges import MB, BadInput, BadRow, MissingExtra, format_size, open_regular
from accord.formats.files.table_files import column_names, row_of
from accord.formats.files.workbook_headers import HEADER_ROWS, header_of, merges_of
from accord.formats.record import ROW_BYTES, Row, too_long
from accord.runtime import Worker, WorkerLost, pickled

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
WORKBOOK_BYTES = 256 * MB
"""Maximum unpacked size of a workbook, which is read into memory."""
WORKBOOK_CELLS = 5_000_000
"""Maximum number of cells from the first to the last, about 100 bytes each while they are read."""
WORKBOOK_MEMORY, WORKBOOK_SECONDS = 3 * 1024 * MB, 300
"""Address space of the process that reads a workbook, and the time in which it must have read it."""
_IDLE_SECONDS = 5
"""Time for which that process waits for another workbook."""
_BATCH = 100_000
"""Number of characters of rows that it sends at once."""
_AS_CSV = "save the sheet as CSV UTF-8, which is read row by row"
_REFERENCE = re.compile(rb"r\s*=\s*[\"']([A-Za-z]{0,3})([0-9]{1,9})[\"']")
_ROW, _PREFIXED = re.compile(rb"<(?:\w+:)?row"), re.compile(rb"<\w+:c[\s/>]")
_TEXTS = re.compile(rb"<(?:[^\s<>/:]+:)?sst\b(?:[^<>\"']|\"[^\"]*\"|'[^']*')*>")
_STATED = re.compile(rb"\b(?:count|uniqueCount)\s*=\s*(?:\"[^\"]*\"|'[^']*')")
_LONG_NUMBER = re.compile(
    rb"<(?:\w+:)?c\b([^<>]*)>(?:<(?:\w+:)?f\b[^<>]*(?:/>|>[^<]*</(?:\w+:)?f>))?<(?:\w+:)?v>"
    rb"(-?[0-9]{16,30}|-?[0-9](?:\.[0-9]{1,30})?[eE]\+?[0-9]{2})</"
)
_OTHER_TYPE = re.compile(rb"\bt\s*=\s*[\"'](?!n[\"'])")
_EXACT = 10**15
"""Whole numbers from here on are rounded by spreadsheets, to 15 digits."""
_TEXT_END = re.compile(rb"</(?:\w+:)?si\s*>")
_TEXT_CELL = re.compile(rb"t\s*=\s*[\"']s[\"'][^<]{0,200}<(?:\w+:)?v[^>]{0,50}>\s{0,20}([0-9]{1,9})")


def excel_rows(path: Path) -> Iterator[Row | BadRow]:
    """Yield the rows of an Excel workbook's only sheet with data; empty rows are skipped.

    Raises:
        BadInput: The file is not a workbook, is too large, has no or several sheets with data, or equal column names.
        MissingExtra: The package that reads workbooks is not installed.
    """
    if find_spec("fastexcel") is None:  # the reader that Polars calls
        raise MissingExtra(f"{path}: reading an Excel workbook (saving it as CSV UTF-8 avoids this)", "excel")
    names: list[str] = []
    for line, cells in _cells_from_process(path):
        if cells is None:
            yield BadRow(str(path), line, too_long("a row"))
        elif names:
            yield row_of(path, line, names, cells)
        else:
            names = column_names(path, cells)


Cells = tuple[int, list[str] | None]
"""Number and cells of a row. A row that is too long has no cells (None)."""
_running = set[Worker]()
"""Processes that read workbooks; a generator that is never finished must not be their only owner."""
_idle: list[Worker] = []
"""The process that waits for another workbook; at most one."""


def _cells_from_process(path: Path) -> Iterator[Cells]:
    """Yield the rows of a workbook that another process reads."""
    worker, is_over = _idle.pop() if _idle else _new_worker(), False
    try:
        try:
            rows = _answer(worker, (os.getcwd(), path))
        except WorkerLost:  # one that waited may have ended, or be left with little memory
            _end(worker)
            worker = _new_worker()
            rows = _answer(worker, (os.getcwd(), path))
        while rows:
            yield from rows
            rows = _answer(worker, None)
        is_over = True
    except WorkerLost:
        raise BadInput(
            f"{path} was not read: a workbook may take {format_size(WORKBOOK_MEMORY)} of memory and {WORKBOOK_SECONDS} "
            f"seconds; {_AS_CSV}"
        ) from None
    finally:
        if is_over and not _idle:
            _idle.append(worker)
            _start_timer(_IDLE_SECONDS, end_idle_process)
        else:
            _end(worker)


def _new_worker() -> Worker:
    worker = Worker(("fastexcel", "polars"), WORKBOOK_MEMORY)
    _running.add(worker)
    with suppress(WorkerLost):  # the first question reports it
        worker.send_work(pickled(_next_rows) or b"")
    return worker


def _answer(worker: Worker, place: tuple[str, Path] | None) -> list[Cells]:
    """Return the first rows of a workbook by its folder and path, or the next ones for None; none after the last.

    Raises:
        BadInput: The workbook cannot be read.
        WorkerLost: The process has ended or takes too long.
    """
    timer = _start_timer(WORKBOOK_SECONDS, worker.kill)
    try:
        rows = worker.ask(place)
    finally:
        timer.cancel()
    if isinstance(rows, BadInput):
        raise rows
    if isinstance(rows, list):
        return rows
    raise WorkerLost


def _start_timer(seconds: float, call: Callable[[], None]) -> Timer:
    timer = Timer(seconds, call)
    timer.daemon = True
    timer.start()
    return timer


@atexit.register
def end_idle_process() -> None:
    """End the process that waits."""
    with suppress(IndexError):
        _end(_idle.pop())


def _end(worker: Worker) -> None:
    worker.close()
    _running.discard(worker)


_rows: Iterator[tuple[int, list[str]]] = iter(())
"""In the other process: the rows that are left."""


def _next_rows(place: tuple[str, Path] | None) -> list[Cells] | Exception:
    """Return the next rows of a workbook, or the error. A folder and a path inside this folder name a new workbook."""
    global _rows
    try:
        if place is not None:
            os.chdir(place[0])
            _rows = _excel_cells(place[1])
        rows, size = list[Cells](), 0
        for line, cells in _rows:
            length = sum(map(len, cells)) + len(cells)
            rows.append((line, cells if length <= ROW_BYTES else None))
            size += min(length, ROW_BYTES)
            if size > _BATCH:
                break
        return rows
    except Exception as error:
        return error


def _excel_cells(path: Path) -> Iterator[tuple[int, list[str]]]:
    import polars as pl

    try:
        content, rounded, parts = _unpacked(path)
        sheets = pl.read_excel(
            content, sheet_id=0, engine="calamine", has_header=False, infer_schema_length=0,
            drop_empty_rows=False, drop_empty_cols=False, raise_if_empty=False,
        )  # fmt: skip
    except (BadInput, MemoryError):
        raise
    except Exception as error:  # Polars, the reader and its Rust core have exceptions of their own
        raise BadInput(f"{path} cannot be read as an Excel workbook: {str(error).splitlines()[0]}") from None
    filled = {name: frame for name, frame in sheets.items() if frame.height > 1}
    if len(filled) != 1:
        named = ", ".join(repr(name) for name in filled) or "none"
        raise BadInput(
            f"{path}: a workbook must have one sheet with a header and rows, got {len(filled)} ({named}); save each "
            "sheet in a file of its own"
        )
    [(name, frame)] = filled.items()
    texts = (
        (line, ["" if cell is None else rounded.get(str(cell), str(cell)) for cell in cells])
        for line, cells in enumerate(frame.iter_rows())
        if any(cell is not None for cell in cells)
    )
    first = list(islice(texts, HEADER_ROWS))
    names, taken = header_of(path, first, merges_of(parts, name))
    data = frame.slice(first[taken - 1][0] + 1)
    missing = data.null_count().row(0)
    kept = [place for place, column in enumerate(names) if column or missing[place] < data.height]
    yield first[taken - 1][0] + 1, [names[place] for place in kept]
    for line, cells in chain(first[taken:], texts):
        yield line + 1, cells if len(kept) == len(cells) else [cells[place] for place in kept]


def _unpacked(path: Path) -> tuple[io.BytesIO, dict[str, str], dict[str, bytes]]:
    """Return a workbook with its XML unpacked and within the limits, rounded numbers, and the parts by name.

    Rounded numbers are in scientific notation.
    """
    sheets: list[bytes] = []
    contents: dict[str, bytes] = {}
    texts: list[int] = []
    total, copy = 0, io.BytesIO()
    try:
        with open_regular(path) as stream, zipfile.ZipFile(stream) as archive, zipfile.ZipFile(copy, "w") as target:
            parts = [entry for entry in archive.infolist() if entry.filename.lower().endswith((".xml", ".rels"))]
            if len({entry.filename for entry in parts}) < len(parts):
                raise zipfile.BadZipFile("two parts of one name")
            for entry in parts:
                content = _content(path, archive, entry, WORKBOOK_BYTES - total)
                total += len(content)
                content = _TEXTS.sub(lambda start: _STATED.sub(b"", start[0]), content)
                target.writestr(entry.filename, content)
                contents[entry.filename] = content
                if b"sheetData" in content:
                    _check_cells(path, content)
                    sheets.append(content)
                elif _TEXT_END.search(content):
                    texts = [len(text) for text in _TEXT_END.split(content)]
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, zlib.error, OSError, ValueError):
        raise BadInput(f"{path} is not an Excel workbook, despite its suffix; {_AS_TABLE}") from None
    _check_texts(path, sheets, texts)
    numbers = {str(int(number)): f"{number:.14E}" for sheet in sheets for number in _rounded_numbers(sheet)}
    return copy, numbers, contents


def _rounded_numbers(sheet: bytes) -> Iterator[float]:
    """Yield the whole numbers of more than 15 digits in the cells of a sheet that hold numbers."""
    for match in _LONG_NUMBER.finditer(sheet):
        number = float(match[2])
        if abs(number) >= _EXACT and number.is_integer() and not _OTHER_TYPE.search(match[1]):
            yield number


def _content(path: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo, most: int) -> bytes:
    """Unpack an entry of at most `most` bytes, without relying on the size in the directory."""
    is_stored = entry.compress_type == zipfile.ZIP_STORED
    entry.file_size = entry.compress_size if is_stored else 1 << 62  # reading would stop at the stated size
    pieces, size = list[bytes](), 0
    with archive.open(entry) as stream:
        while piece := stream.read(MB):
            pieces.append(piece)
            size += len(piece)
            if size > most:
                raise BadInput(f"{path} unpacks to more than {format_size(WORKBOOK_BYTES)}; {_AS_CSV}")
    return b"".join(pieces)


def _check_cells(path: Path, sheet: bytes) -> None:
    """Check the number of cells from the first to the last; a cell without a reference follows the one before."""
    starts = [match.start() for match in _ROW.finditer(sheet)]
    sign = b":c" if _PREFIXED.search(sheet) else b"<c"
    per_row = (sheet.count(sign, *span) for span in zip(starts, [*starts[1:], len(sheet)], strict=False))
    width, height, columns = max(per_row, default=0), len(starts), set[bytes]()
    for match in _REFERENCE.finditer(sheet):
        columns.add(match[1])
        height = max(height, int(match[2]))
    width = max([width, *map(_column_number, columns)])
    if width * height > WORKBOOK_CELLS:
        raise BadInput(
            f"{path} has cells as far as row {height:,} and column {width:,}, at most {WORKBOOK_CELLS:,} in all; "
            f"delete empty rows and columns, or {_AS_CSV}"
        )


def _column_number(letters: bytes) -> int:
    number = 0
    for letter in letters.upper():
        number = number * 26 + letter - 64
    return number


def _check_texts(path: Path, sheets: list[bytes], texts: list[int]) -> None:
    """Check the total size of shared texts in all cells that show them."""
    longest, size = max(texts, default=0), 0
    for sheet in sheets:
        if longest * sheet.count(b"<") <= WORKBOOK_BYTES:
            continue
        for match in _TEXT_CELL.finditer(sheet):
            place = int(match[1])
            size += texts[place] if place < len(texts) else 0
        if size > WORKBOOK_BYTES:
            raise BadInput(f"{path} repeats texts in its cells to more than {format_size(WORKBOOK_BYTES)}; {_AS_CSV}")
