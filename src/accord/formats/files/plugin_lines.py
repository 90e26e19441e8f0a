"""Text logs: files whose lines a format of a plug-in reads as rows (`Format.parse`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from accord.edges import BadInput, BadRow, open_unpacked
from accord.formats.record import ROW_BYTES, Row, abbreviated, formats, too_long
from accord.values import plugin_error

Parse = Callable[[str], Any]
_HEAD = 1 << 16
"""Bytes in which the first line with content is searched."""
_BOM = "\ufeff"


def has_text_logs() -> bool:
    """Return True if a format reads text logs."""
    return any(kind.parse is not None for _, kind in formats)


def line_parser(path: Path) -> Parse | None:
    """Return the first parser of a format that reads a file's first line with content, or `None` if no parser does."""
    parsers = [kind.parse for _, kind in formats if kind.parse is not None]
    if not parsers:
        return None
    with open_unpacked(path) as stream:
        head = _decoded(stream.read(_HEAD)).lstrip()
    line = head.partition("\n")[0].rstrip("\r")
    return next((parse for parse in parsers if line and isinstance(_parsed(parse, line), Mapping)), None)


def parsed_lines(path: Path, parse: Parse) -> Iterator[Row | BadRow]:
    """Yield the rows of a text log, without the lines that the parser does not read.

    Raises:
        BadInput: A line is longer than `ROW_BYTES`.
    """
    with open_unpacked(path) as stream:
        number = 0
        while raw := stream.readline(ROW_BYTES + 1):
            number += 1
            if len(raw) > ROW_BYTES and not raw.endswith(b"\n"):
                raise BadInput(f"{path}, line {number}: {too_long('a line')}")
            text = _decoded(raw).rstrip("\r\n")
            row = _parsed(parse, text) if text.strip() else None
            if isinstance(row, Mapping):
                yield Row(number, row)
            elif row is not None:
                reason = str(row) if isinstance(row, BadInput) else f"a row is a mapping, got {abbreviated(row)}"
                yield BadRow(str(path), number, reason)


def _decoded(raw: bytes) -> str:
    return raw.decode("utf-8", "replace").removeprefix(_BOM)


def _parsed(parse: Parse, line: str) -> Any:
    """Return the row of a line; an error in the parser of a plug-in becomes a message of a single line."""
    try:
        return parse(line)
    except Exception as error:
        if (fault := plugin_error(error)) is None:
            raise
        return fault
