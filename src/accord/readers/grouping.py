"""Rows of one conversation brought together, however they are scattered, with only their places in memory."""

from __future__ import annotations

import json
import tempfile
from array import array
from collections.abc import Iterable, Iterator
from typing import IO

from accord.readers.record import Row


def grouped(rows: Iterable[tuple[str | None, Row]]) -> Iterator[list[Row]]:
    """Rows that share a key, together and in file order; groups in the order of their first row.

    Rows are spooled to an unnamed temporary file; memory holds one key and a few integers a row, whatever the
    length of the texts. A row without a key is a group of its own.
    """
    places: dict[str, array[int]] = {}
    with tempfile.TemporaryFile() as spool:
        for key, row in rows:
            name = key or f"\0line {row.line}"
            places.setdefault(name, array("q")).extend((row.line, spool.tell()))
            spool.write(json.dumps(row.fields, default=str).encode("ascii") + b"\n")
        for found in places.values():
            yield [_at(spool, found[i], found[i + 1]) for i in range(0, len(found), 2)]


def _at(spool: IO[bytes], line: int, offset: int) -> Row:
    spool.seek(offset)
    return Row(line, json.loads(spool.readline()))
