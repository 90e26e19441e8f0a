"""Header of a worksheet: titles above it, and a row of merged groups above the names of the columns.

A group is a cell that is merged over several columns with names below it. `Anna` over `Helpfulness` and `Clarity` gives
the columns `Anna Helpfulness` and `Anna Clarity`. A row with a single text above the header is a title, which is left
out.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from accord.edges import BadInput
from accord.formats.labels.rating_columns import number_in

MAX_TITLES = 3
"""Largest number of title rows above a header."""
HEADER_ROWS = MAX_TITLES + 4
"""Rows from which a header is found: titles, two rows of groups, names, and a row below."""
_MERGES = 10_000
"""Largest number of merged cells that are read."""


class Merge(NamedTuple):
    """Rows and columns of a merged cell, from 0, each from the first to before the last."""

    rows: range
    columns: range


Line = tuple[int, list[str]]
"""Place of a row in the sheet, from 0, and its cells."""


def merges_of(parts: dict[str, bytes], sheet: str) -> list[Merge]:
    """Return the merged cells of a sheet by its name, with places relative to its first cell that has a value.

    Args:
        parts: XML parts of the workbook by name.
        sheet: Name of the sheet.
    """
    content = parts.get(_part_of(parts, sheet), b"")
    row, column = _origin(content)
    merges = []
    _, _, listed = content.rpartition(b"mergeCells")[0].rpartition(b"mergeCells")
    for piece in listed.split(b"ref=", _MERGES)[1:]:
        first, _, last = piece[1:].partition(piece[:1])[0].decode("ascii", "replace").partition(":")
        start, end = _place(first), _place(last)
        if start is not None and end is not None:
            merges.append(Merge(range(start[0] - row, end[0] - row + 1), range(start[1] - column, end[1] - column + 1)))
    return merges


def _part_of(parts: dict[str, bytes], sheet: str) -> str:
    """Return the name of the part with a sheet; empty if the workbook does not tell."""
    try:
        entries = ElementTree.fromstring(parts["xl/workbook.xml"]).iter()
        [ids] = [each.attrib for each in entries if each.tag.endswith("}sheet") and each.get("name") == sheet]
        id_ = next(value for name, value in ids.items() if name.endswith("}id"))
        relations = ElementTree.fromstring(parts["xl/_rels/workbook.xml.rels"])
        target = next(each.get("Target", "") for each in relations if each.get("Id") == id_)
    except (KeyError, ValueError, StopIteration, ElementTree.ParseError):
        return ""
    return target.lstrip("/") if target.startswith("/") else f"xl/{target}"


def _origin(content: bytes) -> tuple[int, int]:
    """Return the first row and the first column with values, from 0, at which the reader begins."""
    first, least = None, None
    for piece in content.split(b"<c ")[1:]:
        attributes, _, rest = piece.partition(b">")
        if attributes.endswith(b"/") or not rest.startswith((b"<v", b"<is", b"<f")):
            continue
        _, _, reference = b" ".join([b"", attributes]).partition(b" r=")
        place = _place(reference[1:].partition(reference[:1] or b'"')[0].decode("ascii", "replace"))
        if place is None:
            return 0, 0  # cells without references begin in the first row and column
        first = place[0] if first is None else first
        least = place[1] if least is None else min(least, place[1])
        if least == 0:
            break
    return first or 0, least or 0


def _place(reference: str) -> tuple[int, int] | None:
    """Return the row and the column of a reference such as `B3`, from 0, or `None` for any other text."""
    letters = reference.rstrip("0123456789")
    digits = reference[len(letters) :]
    if not (1 <= len(letters) <= 3 and letters.isascii() and letters.isalpha() and 1 <= len(digits) <= 7):
        return None
    column = 0
    for letter in letters.upper():
        column = column * 26 + ord(letter) - 64
    return int(digits) - 1, column - 1


def header_of(path: Path, lines: Sequence[Line], merges: Sequence[Merge]) -> tuple[list[str], int]:
    """Return the names of the columns, and the number of rows that the header takes with its titles.

    Args:
        path: The workbook, for errors.
        lines: First rows with a value.
        merges: Merged cells of the sheet.

    Raises:
        BadInput: Two rows of groups are above the names.
    """
    place = 0
    while place < min(MAX_TITLES, len(lines) - 1) and _is_title(lines[place], lines[place + 1], merges):
        place += 1
    number, cells = lines[place]
    if place + 1 == len(lines) or not (groups := _groups(lines[place], lines[place + 1], merges)):
        return cells, place + 1
    below = lines[place + 1]
    if place + 2 < len(lines) and _groups(below, lines[place + 2], merges):
        named = ", ".join(repr(cell) for cell in (*cells, *below[1]) if cell)
        raise BadInput(
            f"{path} has a header of three rows ({named[:200]}), and two are read: groups, and names below them. "
            "Delete a row of the header, or save the sheet as CSV with one row of names"
        )
    above = list(cells)
    for group in groups:
        above[group.columns.start : group.columns.stop] = [cells[group.columns.start]] * len(group.columns)
    names = [" ".join(filter(None, map(str.strip, pair))) for pair in zip(above, below[1], strict=True)]
    return names, place + 2


def _is_title(line: Line, below: Line, merges: Sequence[Merge]) -> bool:
    """Return True for a row with a single text, not above names as a group, if the row below can be a header."""
    number, cells = line
    filled = [column for column, cell in enumerate(cells) if cell]
    names = [cell for cell in below[1] if cell]
    if len(filled) != 1 or len(names) < 2 or any(number_in(cell) is not None for cell in names):
        return False
    own = next((each for each in merges if number in each.rows and filled[0] in each.columns), None)
    if own is None:
        return True
    covered = sum(bool(below[1][column]) for column in own.columns if column < len(below[1]))
    return covered == len(names) and below[0] not in own.rows


def _groups(line: Line, below: Line, merges: Sequence[Merge]) -> list[Merge]:
    """Return the cells of a row that are merged over several columns with two or more names below."""
    number, cells = line
    found, end = list[Merge](), 0
    for merge in sorted((each for each in merges if number in each.rows), key=lambda each: each.columns.start):
        columns = merge.columns
        if columns.start < end:
            continue  # a damaged file: merged cells do not overlap
        end = columns.stop
        is_here = merge.rows == range(number, number + 1) and 0 <= columns.start < columns.stop <= len(cells)
        if not is_here or len(columns) < 2:
            continue
        names = [below[1][column] for column in columns if below[1][column]]
        is_merged = bool(cells[columns.start]) and not any(cells[column] for column in columns[1:])
        if is_merged and len(names) > 1 and all(number_in(name) is None for name in names):
            found.append(merge)
    return found
