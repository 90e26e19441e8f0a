"""Files of conversations as pieces that are read apart from each other, and never cut a conversation.

| file | pieces |
|---|---|
| Parquet, a conversation a row | rows, within groups of them |
| JSON lines, a conversation a line | bytes; a line belongs to the piece that it begins in |
| any other file of whole conversations (packed, an array, a table) | the file |
| files whose rows are turns or spans | all of them together, in passes: each gathers the conversations of one hash |

A piece is the same piece wherever and whenever it is made from the same files: its `key` says so.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from accord.edges import MB, BadInput, BadRow, first_line, sendable, unreadable_parquet
from accord.formats.excel import EXCEL_SUFFIXES
from accord.formats.label_files import looks_like_labels, mapped
from accord.formats.object_storage import File, here, is_remote, opened, shown_place, storage_options
from accord.formats.parquet import row_groups
from accord.formats.reader import OnBadRow, detect, first_row, is_part, read, read_together, record_of
from accord.formats.record import Fields, Record, Row, WrongShape, formats
from accord.formats.row_reader import begins_with_lines, line_rows, suffix
from accord.formats.text_files import TEXT_SUFFIX
from accord.values import Conversation, content_hash

PIECE_ROWS = 20_000
PIECE_BYTES = 64 * MB
"""What a piece holds at most: rows of a table, bytes of lines or of what rows unpack to. One row may be more."""
PASS_BYTES = 1024 * MB
"""Of files whose rows are parts of conversations, about so much is gathered at once."""
_ROWS_AT_ONCE = 512
_HEAD = MB
_LOOKED_AT_ONCE = 16
Kind = Literal["rows", "lines", "file", "gathered"]


@dataclass(frozen=True)
class Piece:
    """What is read at once.

    Attributes:
        kind: How it is read.
        files: One file; all of them where rows are parts of conversations.
        stems: What ids begin with, of each file, where a conversation names none.
        start: The first row, or byte; the number of the pass.
        end: The one after the last; the number of passes.
        format: Of the rows, as it was told or named.
        size: About how many bytes it is.
        rows: How many rows, where that is known.
    """

    kind: Kind
    files: tuple[File, ...]
    stems: tuple[str, ...]
    start: int
    end: int
    format: str
    size: int
    rows: int | None = None

    @property
    def key(self) -> str:
        """Sixteen digits that are others where anything that is read may be another."""
        said = [self.kind, [list(each) for each in self.files], list(self.stems), self.start, self.end, self.format]
        return content_hash(said, 16).partition(":")[2]

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return {**vars(self), "files": [list(file) for file in self.files], "stems": list(self.stems)}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Piece:
        """The inverse of `to_json`."""
        files = tuple(File(*file) for file in row["files"])
        return cls(**{**row, "files": files, "stems": tuple(row["stems"])})

    @property
    def place(self) -> str:
        """What to call it."""
        first = shown_place(self.files[0].url)
        if self.kind == "gathered":
            return f"{first} and {len(self.files) - 1} more, pass {self.start + 1} of {self.end}"
        return first if self.kind == "file" else f"{first}, {self.kind} {self.start}-{self.end}"


def pieces_of(files: Sequence[File], format: str = "auto", columns: Mapping[str, str] | None = None) -> list[Piece]:
    """The pieces of some files, in the order of the files.

    Raises:
        BadInput: A file cannot be read, is none of conversations, or its format cannot be told.
    """
    stems = _stems(files)
    with ThreadPoolExecutor(_LOOKED_AT_ONCE) as pool:
        found = list(pool.map(partial(_pieces, format=format, columns=columns), files, stems))
    made: list[Piece] = []
    parts: dict[str, list[tuple[File, str]]] = defaultdict(list)
    for file, stem, here_ in zip(files, stems, found, strict=True):
        if isinstance(here_, str):
            parts[here_].append((file, stem))
        else:
            made += here_
    for name, every in parts.items():
        size = sum(file.size for file, _ in every)
        passes = -(-size // PASS_BYTES)
        those, of_those = zip(*every, strict=True)
        made += [Piece("gathered", those, of_those, n, passes, name, size // passes) for n in range(passes)]
    return made


def _stems(files: Sequence[File]) -> list[str]:
    """What ids begin with: a file's name, with all its folders where several that were named have one name."""
    short = [sendable(file.stem) for file in files]
    if len(set(short)) == len(short):
        return short
    return [
        sendable(str(PurePosixPath(file.url).with_name(PurePosixPath(file.stem).name)).rpartition("://")[2].lstrip("/"))
        for file in files
    ]


def _pieces(file: File, stem: str, format: str, columns: Mapping[str, str] | None) -> list[Piece] | str:
    """The pieces of a file; of one whose rows are parts of conversations, its format."""
    packed_rows = None
    if suffix(Path(file.url)) == ".parquet":
        with opened(file.url) as stream:
            packed_rows = row_groups(shown_place(file.url), stream, file.size)
    fields = _first_row(file, columns)
    if fields is None:
        raise BadInput(f"{shown_place(file.url)} holds no row")
    name = detect(fields, shown_place(file.url)) if format == "auto" else format
    if format == "auto" and looks_like_labels(fields):
        raise BadInput(f"{shown_place(file.url)} holds labels, not conversations; name the files of conversations")
    if is_part(formats.get(name), fields):
        return name
    whole = partial(Piece, files=(file,), stems=(stem,), format=name)
    if packed_rows is not None:
        return [
            whole("rows", start=start, end=end, size=size, rows=end - start)
            for start, end, size in _row_ranges([(group.rows, group.unpacked) for group in packed_rows])
        ]
    if file.size > PIECE_BYTES and suffix(Path(file.url)) not in (".csv", ".tsv") and _is_lines(file):
        count = -(-file.size // PIECE_BYTES)
        ends = [file.size * place // count for place in range(count + 1)]
        return [whole("lines", start=s, end=e, size=e - s) for s, e in zip(ends, ends[1:], strict=False)]
    return [whole("file", start=0, end=file.size, size=file.size)]


def _row_ranges(groups: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """First row, end and bytes of each piece: a group of rows in parts, or small neighbouring groups together."""
    begun = first = size = 0
    for rows, unpacked in groups:
        if first > begun and (first - begun + rows > PIECE_ROWS or size + unpacked > PIECE_BYTES):
            yield begun, first, size
            begun, size = first, 0
        count = max(1, -(-rows // PIECE_ROWS), -(-unpacked // PIECE_BYTES))
        if count == 1:
            size += unpacked
        else:
            ends = [first + rows * place // count for place in range(count + 1)]
            yield from ((s, e, unpacked // count) for s, e in zip(ends, ends[1:], strict=False) if e > s)
            begun = first + rows
        first += rows
    if first > begun:
        yield begun, first, size


def _first_row(file: File, columns: Mapping[str, str] | None) -> Fields | None:
    if suffix(Path(file.url)) == ".parquet" and is_remote(file.url):
        rows = [Row(1, row) for row in _table_rows(file, 0, 1)]
        found = next(mapped(rows, columns, shown_place(file.url)), None)
        return found.fields if isinstance(found, Row) else None
    is_read_whole = suffix(Path(file.url)) in {*EXCEL_SUFFIXES, TEXT_SUFFIX}
    with here(file.url, None if is_read_whole else _HEAD) as path:
        return first_row(path, columns)


def _is_lines(file: File) -> bool:
    with opened(file.url) as stream:
        return begins_with_lines(stream.read(_HEAD))


def read_piece(piece: Piece, columns: Mapping[str, str] | None = None) -> Iterator[Conversation | BadRow]:
    """What a piece holds, row by row: conversations, and rows that are none.

    Raises:
        BadInput: A file cannot be read, or is not what it was.
    """
    if piece.kind == "rows":
        yield from _of_rows(piece, columns)
    elif piece.kind == "lines":
        yield from _of_lines(piece, columns)
    elif piece.kind == "file":
        [file] = piece.files
        with here(file.url) as path:
            yield from _with_bad(lambda bad: read(path, piece.format, columns, bad, stem=piece.stems[0]))
    else:
        yield from _gathered(piece, columns)


def _of_rows(piece: Piece, columns: Mapping[str, str] | None) -> Iterator[Conversation | BadRow]:
    [file], [stem] = piece.files, piece.stems
    rows = _table_rows(file, piece.start, piece.end - piece.start)
    for place, fields in enumerate(rows, piece.start + 1):
        yield _conversation(fields, shown_place(file.url), place, f"{stem}-{place}", piece.format, columns)


def _of_lines(piece: Piece, columns: Mapping[str, str] | None) -> Iterator[Conversation | BadRow]:
    [file], [stem] = piece.files, piece.stems
    named = f"{stem}-{piece.start}" if piece.start else stem
    said = shown_place(file.url) + (f" from byte {piece.start} on" if piece.start else "")
    with opened(file.url) as stream:
        for row in line_rows(said, stream, piece.start, piece.end):
            if isinstance(row, BadRow):
                yield row
            else:
                yield _conversation(row.fields, said, row.line, f"{named}-{row.line}", piece.format, columns)


def _conversation(
    fields: Fields, where: str, line: int, default_id: str, format: str, columns: Mapping[str, str] | None
) -> Conversation | BadRow:
    try:
        return record_of(fields, default_id, format, columns).conversation
    except WrongShape as error:
        return BadRow(where, line, str(error))


def _table_rows(file: File, start: int, count: int) -> Iterator[Fields]:
    """Some rows of a Parquet file, which is read once: a piece is bounded, and becomes Python's some rows at a time.

    Raises:
        BadInput: It cannot be read, or is no Parquet file.
    """
    import polars as pl

    try:
        scan = pl.scan_parquet(file.url, storage_options=storage_options(file.url), glob=False)
        frame = scan.slice(start, count).collect()
    except unreadable_parquet() as error:
        raise BadInput(f"{shown_place(file.url)} cannot be read as Parquet: {first_line(error)}") from None
    yield from frame.iter_rows(named=True, buffer_size=_ROWS_AT_ONCE)


def _gathered(piece: Piece, columns: Mapping[str, str] | None) -> Iterator[Conversation | BadRow]:
    def keep(name: str) -> bool:
        return zlib.crc32(name.encode("utf-8", "surrogatepass")) % piece.end == piece.start

    with ExitStack() as stack:
        paths = [
            (stack.enter_context(here(file.url)), stem) for file, stem in zip(piece.files, piece.stems, strict=True)
        ]
        # Every pass meets every bad row; the first one tells of them.
        rows = _with_bad(lambda bad: read_together(paths, piece.format, columns, bad, keep))
        yield from (row for row in rows if piece.start == 0 or not isinstance(row, BadRow))


def _with_bad(reading: Callable[[OnBadRow], Iterator[Record]]) -> Iterator[Conversation | BadRow]:
    """Records as conversations, with bad rows where they were met."""
    bad: list[BadRow] = []
    for record in reading(bad.append):
        yield from bad
        bad.clear()
        yield record.conversation
    yield from bad
