"""Split files of conversations into pieces that can be read independently and never divide a conversation.

| file | pieces |
|---|---|
| Parquet with a conversation per row | ranges of rows, within row groups |
| JSON lines with a conversation per line | ranges of bytes; a line belongs to the piece in which it begins |
| any other file of whole conversations (compressed, an array, a table) | the file |
| files whose rows are turns or spans | all together, in passes; each pass gathers the conversations of one hash value |

The same files always give the same pieces with the same `key`.
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
from accord.formats.detection import detect
from accord.formats.files.object_storage import File, display_path, is_remote, local_copy, open_file, storage_options
from accord.formats.files.row_reader import begins_with_lines, line_rows, read_rows, suffix
from accord.formats.files.table_files import row_groups
from accord.formats.files.workbooks import EXCEL_SUFFIXES
from accord.formats.labels.label_files import RECORDED_JUDGEMENTS, is_judgement, looks_like_labels, mapped
from accord.formats.plain_text_chats import TEXT_SUFFIX
from accord.formats.reader import (
    OnBadRow,
    Values,
    convert_row,
    is_part,
    read,
    read_parts,
    sniff,
    version_of_folder,
    with_version,
)
from accord.formats.record import ROW_BYTES, Fields, Record, Row, WrongShape, formats
from accord.values import Conversation, content_hash

PIECE_ROWS = 20_000
PIECE_BYTES = 64 * MB
"""Maximum size of a piece in bytes of lines, or of unpacked rows; a single row may be larger."""
PASS_BYTES = 1024 * MB
"""Approximate number of bytes per pass over files whose rows are parts of conversations."""
_ROWS_AT_ONCE = 512
_HEAD = MB
_SNIFFING_THREADS = 16
PieceKind = Literal["rows", "lines", "file", "gathered"]


@dataclass(frozen=True)
class FilePiece:
    """Part of the input that is read at once.

    Attributes:
        kind: `rows`, `lines`, `file`, or `gathered` for a pass over files of turns or spans.
        files: The file; all files of a pass.
        stems: Prefix of ids for conversations without one, by file.
        start: First row or byte; index of the pass.
        end: Last row or byte, exclusive; number of passes.
        format: Format of the rows.
        size: Approximate size in bytes.
        rows: Number of rows; `None` if unknown.
    """

    kind: PieceKind
    files: tuple[File, ...]
    stems: tuple[str, ...]
    start: int
    end: int
    format: str
    size: int
    rows: int | None = None

    @property
    def key(self) -> str:
        """Hash of sixteen digits that changes with the piece or its files."""
        identity = [self.kind, [list(each) for each in self.files], list(self.stems), self.start, self.end, self.format]
        return content_hash(identity, 16).partition(":")[2]

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON."""
        return {**vars(self), "files": [list(file) for file in self.files], "stems": list(self.stems)}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> FilePiece:
        """Restore a piece from `to_json`."""
        files = tuple(File(*file) for file in row["files"])
        return cls(**{**row, "files": files, "stems": tuple(row["stems"])})

    @property
    def place(self) -> str:
        """Name for messages: file and range."""
        first = display_path(self.files[0].url)
        if self.kind == "gathered":
            return f"{first} and {len(self.files) - 1} more, pass {self.start + 1} of {self.end}"
        return first if self.kind == "file" else f"{first}, {self.kind} {self.start}-{self.end}"


def split_files(
    files: Sequence[File], format: str = "auto", columns: Mapping[str, str] | None = None
) -> list[FilePiece]:
    """Split files into pieces, in the order of the files; `columns` maps Accord's column names to the files'.

    Raises:
        BadInput: A file cannot be read, holds no conversations, or its format cannot be detected.
    """
    stems = _stems(files)
    with ThreadPoolExecutor(_SNIFFING_THREADS) as pool:
        split = list(pool.map(partial(_pieces, format=format, columns=columns), files, stems))
    pieces: list[FilePiece] = []
    parts: dict[str, list[tuple[File, str]]] = defaultdict(list)
    for file, stem, own in zip(files, stems, split, strict=True):
        if isinstance(own, str):
            parts[own].append((file, stem))
        else:
            pieces += own
    for name, group in parts.items():
        size = sum(file.size for file, _ in group)
        passes = -(-size // PASS_BYTES)
        group_files, group_stems = zip(*group, strict=True)
        pieces += [
            FilePiece("gathered", group_files, group_stems, number, passes, name, size // passes)
            for number in range(passes)
        ]
    return pieces


def _stems(files: Sequence[File]) -> list[str]:
    """Return the prefixes of ids: the file's name, with all its folders if two files have the same name."""
    short = [sendable(file.stem) for file in files]
    if len(set(short)) == len(short):
        return short
    return [
        sendable(str(PurePosixPath(file.url).with_name(PurePosixPath(file.stem).name)).rpartition("://")[2].lstrip("/"))
        for file in files
    ]


def _pieces(file: File, stem: str, format: str, columns: Mapping[str, str] | None) -> list[FilePiece] | str:
    """Return the pieces of a file, or its format if its rows are parts of conversations."""
    groups = None
    if suffix(Path(file.url)) == ".parquet":
        with open_file(file.url) as stream:
            groups = row_groups(display_path(file.url), stream, file.size)
    fields = _first_row(file, columns)
    if fields is None:
        raise BadInput(f"{display_path(file.url)} holds no row")
    name = _detected(file, fields) if format == "auto" else format
    if is_part(formats.get(name), fields):
        return name
    whole = partial(FilePiece, files=(file,), stems=(stem,), format=name)
    if groups is not None:
        return [
            whole("rows", start=start, end=end, size=size, rows=end - start)
            for start, end, size in _row_ranges([(group.rows, group.unpacked) for group in groups])
        ]
    if file.size > PIECE_BYTES and suffix(Path(file.url)) not in (".csv", ".tsv") and _is_lines(file):
        count = -(-file.size // PIECE_BYTES)
        ends = [file.size * place // count for place in range(count + 1)]
        return [whole("lines", start=s, end=e, size=e - s) for s, e in zip(ends, ends[1:], strict=False)]
    return [whole("file", start=0, end=file.size, size=file.size)]


def _detected(file: File, fields: Fields) -> str:
    """Return the format of a file of conversations by its first row.

    Raises:
        BadInput: No format matches, or the file holds labels or recorded answers of a judge.
    """
    name = detect(fields, display_path(file.url))
    if is_judgement(fields):
        raise BadInput(f"{display_path(file.url)}: {RECORDED_JUDGEMENTS}")
    if looks_like_labels(fields):
        raise BadInput(f"{display_path(file.url)} holds labels, not conversations; name the files of conversations")
    return name


def _row_ranges(groups: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """Yield start, end and bytes of each piece: large row groups are divided, small adjacent ones are joined."""
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
        fields = next(iter(_table_rows(file, 0, 1)), None)
    else:
        kind = suffix(Path(file.url))
        is_read_whole = kind in {*EXCEL_SUFFIXES, TEXT_SUFFIX} or (kind == ".json" and file.size <= ROW_BYTES)
        with local_copy(file.url, None if is_read_whole else _HEAD) as path:
            fields = sniff(path).fields
            if fields is None and isinstance(bad := next(read_rows(path), None), BadRow):
                raise BadRow(display_path(file.url), bad.line, bad.reason)
    rows = [] if fields is None else [Row(1, fields)]
    first = next(mapped(rows, columns, display_path(file.url)), None)
    return first.fields if isinstance(first, Row) else None


def _is_lines(file: File) -> bool:
    with open_file(file.url) as stream:
        return begins_with_lines(stream.read(_HEAD))


def read_piece(piece: FilePiece, columns: Mapping[str, str] | None = None) -> Iterator[Conversation | BadRow]:
    """Yield the conversations of a piece, and its bad rows.

    Raises:
        BadInput: A file cannot be read, or has changed.
    """
    if piece.kind == "rows":
        yield from _read_rows(piece, columns)
    elif piece.kind == "lines":
        yield from _read_line_range(piece, columns)
    elif piece.kind == "file":
        [file] = piece.files
        with local_copy(file.url) as path:
            yield from _with_bad(lambda bad: read(path, piece.format, columns, bad, stem=piece.stems[0]))
    else:
        yield from _gathered(piece, columns)


def _read_rows(piece: FilePiece, columns: Mapping[str, str] | None) -> Iterator[Conversation | BadRow]:
    [file], [stem] = piece.files, piece.stems
    rows = _table_rows(file, piece.start, piece.end - piece.start)
    for number, fields in enumerate(rows, piece.start + 1):
        yield _conversation(fields, display_path(file.url), number, f"{stem}-{number}", piece, columns)


def _read_line_range(piece: FilePiece, columns: Mapping[str, str] | None) -> Iterator[Conversation | BadRow]:
    [file], [stem] = piece.files, piece.stems
    prefix = f"{stem}-{piece.start}" if piece.start else stem
    where = display_path(file.url) + (f" from byte {piece.start} on" if piece.start else "")
    with open_file(file.url) as stream:
        for row in line_rows(where, stream, piece.start, piece.end):
            if isinstance(row, BadRow):
                yield row
            else:
                yield _conversation(row.fields, where, row.line, f"{prefix}-{row.line}", piece, columns)


def _conversation(
    fields: Fields, where: str, line: int, default_id: str, piece: FilePiece, columns: Mapping[str, str] | None
) -> Conversation | BadRow:
    try:
        values: Values = "json" if piece.kind == "lines" else "cells"
        record = convert_row(fields, default_id, piece.format, columns, values)
        version = version_of_folder(Path(piece.files[0].url))
        return (record if version is None else with_version(record, version)).conversation
    except WrongShape as error:
        return BadRow(where, line, str(error))


def _table_rows(file: File, start: int, count: int) -> Iterator[Fields]:
    """Yield rows of a Parquet file; the piece is read at once and converted to Python in batches.

    Raises:
        BadInput: The file cannot be read, or is not a Parquet file.
    """
    import polars as pl

    try:
        scan = pl.scan_parquet(file.url, storage_options=storage_options(file.url), glob=False)
        frame = scan.slice(start, count).collect()
    except unreadable_parquet() as error:
        raise BadInput(f"{display_path(file.url)} cannot be read as Parquet: {first_line(error)}") from None
    yield from frame.iter_rows(named=True, buffer_size=_ROWS_AT_ONCE)


def _gathered(piece: FilePiece, columns: Mapping[str, str] | None) -> Iterator[Conversation | BadRow]:
    def is_wanted(name: str) -> bool:
        return zlib.crc32(name.encode("utf-8", "surrogatepass")) % piece.end == piece.start

    with ExitStack() as stack:
        paths = [
            (stack.enter_context(local_copy(file.url)), stem)
            for file, stem in zip(piece.files, piece.stems, strict=True)
        ]
        # Every pass reads every bad row; only the first pass reports them.
        rows = _with_bad(lambda bad: read_parts(paths, piece.format, columns, bad, is_wanted))
        yield from (row for row in rows if piece.start == 0 or not isinstance(row, BadRow))


def _with_bad(reading: Callable[[OnBadRow], Iterator[Record]]) -> Iterator[Conversation | BadRow]:
    """Yield the conversations of records, with bad rows in their order."""
    bad: list[BadRow] = []
    for record in reading(bad.append):
        yield from bad
        bad.clear()
        yield record.conversation
    yield from bad
