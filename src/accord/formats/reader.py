"""Read conversations and labels of any supported format, one `Record` at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, TypeVar

from accord.edges import BadInput, BadRow, UnknownName, sendable, unpacked_name
from accord.formats.detection import detect
from accord.formats.files.memory import MemoryTable, Source
from accord.formats.files.row_reader import (
    TABLE_SUFFIXES,
    Lines,
    line_chunks,
    locate,
    read_rows,
    rows_of_lines,
    suffix,
)
from accord.formats.files.row_writer import ENDINGS
from accord.formats.labels.annotations import COLUMNS as ANNOTATION_COLUMNS
from accord.formats.labels.annotations import looks_like_annotations
from accord.formats.labels.label_files import is_judgement, looks_like_labels, mapped
from accord.formats.plain_text_chats import TEXT_SUFFIX
from accord.formats.record import (
    Fields,
    Format,
    Record,
    Row,
    WrongShape,
    admitted,
    formats,
    grouped,
)
from accord.formats.table import ALIASES as TEXT_ALIASES
from accord.formats.table import with_plain_reply
from accord.formats.tables.words import ALIASES as LABEL_ALIASES
from accord.values import plugin_error

T = TypeVar("T")
OnBadRow = Callable[[BadRow], None]
OnSkip = Callable[[str], None]


def _no_report(reason: str) -> None:
    pass


def read(
    path: str | Source,
    format: str = "auto",
    columns: Mapping[str, str] | None = None,
    on_bad_row: OnBadRow | None = None,
    on_skip: OnSkip = _no_report,
    stem: str | None = None,
    limit: int | None = None,
    rows: Iterator[Row | BadRow] | None = None,
) -> Iterator[Record]:
    """Yield every conversation of a file or a table in memory, with the labels of the same rows.

    Args:
        path: A file, which may be compressed with gzip, a benchmark folder, or a table in memory.
        format: A name of `accord plugins`, or `auto` to detect it from the first readable row.
        columns: Accord's column name to the file's, for tables with other column names.
        on_bad_row: Called with each bad row, which is then skipped; without it a bad row is raised.
        on_skip: Called with the reason for each valid row, or part of one, that has no content to read.
        stem: Prefix of the ids of conversations without one; by default the file's name.
        limit: Maximum number of rows; by default all.
        rows: Rows of the file, if it is open already (`sniff_rows`).

    Raises:
        BadInput: The file cannot be read, or its format cannot be detected.
        BadRow: A row is bad, and `on_bad_row` is not given.

    >>> from accord.sample import sources
    >>> record = next(read(sources()[0]))
    >>> record.conversation.id, record.conversation.turns[0].role
    ('support-001', 'user')
    """
    source = locate(path)
    report = on_bad_row or _raise
    readable = islice(_good_rows(source, columns, report, rows), limit)
    if format != "auto":
        yield from _records(source, formats.get(format), readable, report, on_skip, stem)
        return
    unknown: BadInput | None = None
    for first in readable:
        try:
            name = detect(first.fields, str(path))
        except BadInput as error:
            if on_bad_row is None:
                raise
            unknown = unknown or error
            on_bad_row(BadRow(str(source), first.line, str(error)))
        else:
            yield from _records(source, formats.get(name), chain([first], readable), report, on_skip, stem)
            return
    raise unknown or BadInput(f"{path} has no readable row; export it again, or leave it out")


# --- kind and format of a file -------------------------------------------------------------------------------------

Content = Literal["conversations", "labels", "answers", "annotations", "judgements", "scores"]


@dataclass(frozen=True)
class FileKind:
    """Kind of a file, detected from its first readable row.

    Attributes:
        content: `conversations`; `labels`, without text; `answers` of an annotation tool on conversations of another
            file; `annotations` of `accord export`; `judgements`, the recorded answers of a model; or `scores` of an
            evaluator, or its agreement card.
        names: Column names of the file; empty if no row is readable.
        columns: Part of the column map that applies to the file.
        fields: First readable row; `None` if there is none.
    """

    content: Content
    names: frozenset[str] = frozenset()
    columns: Mapping[str, str] = field(default_factory=dict)
    fields: Fields | None = None


def sniff(path: str | Source, columns: Mapping[str, str] | None = None) -> FileKind:
    """Detect the kind of a file, a benchmark folder or a table in memory.

    `columns` maps Accord's column names to column names of several files; names that this file lacks are ignored.

    Raises:
        BadInput: The file cannot be read.
    """
    with closing(_good_rows(locate(path), None, lambda _: None)) as rows:
        return _kind_of(next(rows, None), columns, str(path))


class HeldRows(Iterator[Row | BadRow]):
    """Rows of an open file, of which the first ones can be read again before the file is read on.

    Args:
        rows: All rows of the file.
    """

    def __init__(self, rows: Generator[Row | BadRow]) -> None:
        self._rows, self._first = rows, deque[Row | BadRow]()

    def again(self) -> Iterator[Row | BadRow]:
        """Yield the rows from the next one on, and keep them for later."""
        yield from tuple(self._first)
        for row in self._rows:
            self._first.append(row)
            yield row

    def __next__(self) -> Row | BadRow:
        return self._first.popleft() if self._first else next(self._rows)

    def close(self) -> None:
        """Close the file."""
        self._rows.close()


def sniff_rows(path: str | Source, columns: Mapping[str, str] | None = None) -> tuple[FileKind, HeldRows]:
    """Detect the kind of a file as `sniff` does, and return it with all rows of the file, which is opened once.

    Raises:
        BadInput: The file cannot be read.
    """
    rows = HeldRows(read_rows(locate(path)))
    first = next((row for row in rows.again() if isinstance(row, Row)), None)
    return _kind_of(first, columns, str(path)), rows


def _kind_of(first: Row | None, columns: Mapping[str, str] | None, where: str) -> FileKind:
    """Return the kind of a file by its first readable row."""
    if first is None:
        return FileKind("conversations")
    names = frozenset(first.fields)
    used = {ours: theirs for ours, theirs in (columns or {}).items() if theirs in names}
    [row] = mapped([first], used, where)
    assert isinstance(row, Row)
    return FileKind(_content(row.fields), names, used, first.fields)


_SCORE_ONLY = frozenset({"annotator", "value", "in_training", "signature"})
_CARD_ONLY = frozenset({"accord_version", "subject", "test", "digest"})


def _content(fields: Fields) -> Content:
    if is_judgement(fields):
        return "judgements"
    if looks_like_annotations(fields):
        return "annotations"
    if fields.keys() >= _SCORE_ONLY or fields.keys() >= _CARD_ONLY:
        return "scores"
    if any(kind.holds_answers(fields) for _, kind in formats):
        return "answers"
    if formats.get("pairs").accepts(fields):
        return "conversations"
    return "labels" if looks_like_labels(fields) else "conversations"


def scores_error(path: object) -> str:
    """Return the error about a file of scores, or an agreement card, in place of conversations or labels."""
    return f"{path} holds scores of an evaluator or its agreement card, not conversations or ratings of people"


def reason_to_skip(path: Path) -> str | None:
    """Return the reason to skip a file, or None.

    Skipped are empty files, scores, agreement cards, and texts without speakers such as a README.
    """
    if not path.is_file():
        return None
    if path.stat().st_size == 0:
        return f"{path} is empty"
    if path.suffix in (*ENDINGS, ".json"):
        try:
            return scores_error(path) if sniff(path).content == "scores" else None
        except BadInput:
            return None
    if not unpacked_name(path.name.lower()).endswith(TEXT_SUFFIX):
        return None
    try:
        sniff(path)
    except BadInput as error:
        return str(error)
    return None


def check_column_names(names: Iterable[str], questions: Iterable[str] = ()) -> None:
    """Validate Accord's column names in a column map; the questions of the rubric are column names too.

    Raises:
        UnknownName: No format reads a column of this name.
    """
    ours = {*TEXT_ALIASES, *LABEL_ALIASES, *ANNOTATION_COLUMNS, *_FORMAT_COLUMNS, *questions}
    aliases = {alias for table in (TEXT_ALIASES, LABEL_ALIASES) for names_ in table.values() for alias in names_}
    for name in names:
        if name not in ours and name not in aliases:
            raise UnknownName("column of --columns", name, ours)


_FORMAT_COLUMNS = (
    "name", "metadata", "conversations", "inputs", "outputs", "item_id", "judge_model", "tool_calls", "reference",
    "system",
)  # fmt: skip


# --- single rows and parts of files --------------------------------------------------------------------------------


def line_batches(path: str | Path, format: str, rows: int, size: int) -> tuple[str, Iterator[Lines]] | None:
    """Split a file in which every line is a conversation into batches of `rows` lines or about `size` bytes.

    Returns:
        The format and the batches; `None` if conversations span lines, or the file has no lines.

    Raises:
        BadInput: The file cannot be read.
    """
    file = locate(path)
    chunks = line_chunks(file, rows, size)
    if chunks is None:
        return None
    first = next(read_rows(file))
    assert isinstance(first, Row)
    try:
        name = detect(first.fields, str(path)) if format == "auto" else format
    except BadInput:
        return None
    return (name, chunks) if formats.get(name).key is None else None


def read_lines(
    path: Path,
    format: str,
    lines: Lines,
    on_bad_row: OnBadRow | None = None,
    on_skip: OnSkip = _no_report,
    stem: str | None = None,
) -> Iterator[Record]:
    """Yield the conversations of a batch of lines; see `read`."""
    file, report = locate(path), on_bad_row or _raise
    rows = _without_bad(rows_of_lines(file, lines), report)
    return _records(file, formats.get(format), rows, report, on_skip, stem)


Values = Literal["cells", "json", "live"]
"""Origin of the values of a row."""


def live_row(format: Format, fields: Fields) -> Fields:
    """Return a row that a host or a client sends, in the form in which a format reads texts as texts."""
    return with_plain_reply(fields, is_live=True) if format is formats.get("table") else fields


def _typed(path: Source, format: Format, rows: Iterator[Row]) -> Iterator[Row]:
    """Return the rows of a file; values of JSON have types, unlike the cells of a table."""
    is_table = not path.has_types if isinstance(path, MemoryTable) else suffix(path) in (*TABLE_SUFFIXES, TEXT_SUFFIX)
    if is_table or format is not formats.get("table"):
        return rows
    return (Row(row.line, with_plain_reply(row.fields)) for row in rows)


def convert_row(
    fields: Fields,
    default_id: str,
    format: str = "auto",
    columns: Mapping[str, str] | None = None,
    values: Values = "cells",
) -> Record:
    """Convert a row that holds a whole conversation, with `default_id` as the id of one without.

    `values` tells the texts in which JSON may be messages: `cells` of a table, `json` of a file, or `live` for none.

    Raises:
        WrongShape: The row holds no conversation, or only a part of one, such as a turn or a span.
    """
    [row] = mapped([Row(1, fields)], columns, "the row")
    assert isinstance(row, Row)
    try:
        name = detect(row.fields, "the row") if format == "auto" else format
        kind, fields = formats.get(name), row.fields
        if name == "table" and values != "cells":
            fields = with_plain_reply(fields, is_live=values == "live")
        if _is_whole(kind, fields) is False:
            raise WrongShape(f"a row of the format {name!r} is a part of a conversation; a whole one is needed")
        record = _converted(kind, [fields], default_id)
    except WrongShape:
        raise
    except (BadInput, *_MALFORMED) as error:
        prefix = "" if isinstance(error, BadInput) else f"not of the expected shape ({type(error).__name__}): "
        raise WrongShape(f"{prefix}{error}") from None
    if record is None:
        raise WrongShape("the row holds no conversation")
    return record


def is_part(format: Format, fields: Fields) -> bool:
    """Return True if a row may be a part of a conversation whose other rows are elsewhere in the file."""
    return _is_whole(format, fields) is not True


def _is_whole(format: Format, fields: Fields) -> bool | None:
    if format.key is None:
        return True
    return False if format.is_whole is None else format.is_whole(fields)


def _raise(error: BadRow) -> None:
    raise error


def _good_rows(
    path: Source, columns: Mapping[str, str] | None, report: OnBadRow, rows: Iterator[Row | BadRow] | None = None
) -> Generator[Row]:
    rows = read_rows(path) if rows is None else rows
    yield from _without_bad(mapped(rows, columns, str(path)) if columns else rows, report)


def _without_bad(rows: Iterable[Row | BadRow], report: OnBadRow) -> Iterator[Row]:
    for row in rows:
        if isinstance(row, BadRow):
            report(row)
        else:
            yield row


def _records(
    path: Source, format: Format, rows: Iterator[Row], report: OnBadRow, on_skip: OnSkip, stem: str | None = None
) -> Iterator[Record]:
    prefix, version = sendable(stem or path.name.split(".")[0]), version_of_folder(path)
    if format.key is None:
        for row in _typed(path, format, rows):
            default_id = f"{prefix}-{row.line}" if row.line else prefix
            record = _guarded(path, row.line, report, _converted, format, [row.fields], default_id, row.line, version)
            if record is not None:
                yield record
        return
    yield from _gathered([(path, prefix)], [rows], format, report, on_skip)


def read_parts(
    paths: Sequence[tuple[Path, str]],
    format: str,
    columns: Mapping[str, str] | None,
    report: OnBadRow,
    is_wanted: Callable[[str], bool],
) -> Iterator[Record]:
    """Yield conversations whose parts are rows of several files; memory holds only their ids.

    Each path comes with the prefix of ids for its conversations without one. Rows whose key is not wanted are not
    spooled.
    """
    rows = [_good_rows(locate(path), columns, report) for path, _ in paths]
    yield from _gathered(paths, rows, formats.get(format), report, _no_report, is_wanted)


def _gathered(
    sources: Sequence[tuple[Source, str]],
    rows: Sequence[Iterator[Row]],
    format: Format,
    report: OnBadRow,
    on_skip: OnSkip,
    is_wanted: Callable[[str], bool] = lambda _: True,
) -> Iterator[Record]:
    """Yield conversations whose parts are rows of sources, each source with its prefix of ids."""

    def keyed() -> Iterator[tuple[str, Row]]:
        for place, (path, _) in enumerate(sources):
            for key, row in _keyed(path, format, _typed(path, format, rows[place]), report, on_skip):
                name = key or f"\0{place} {row.line}"
                if is_wanted(name):
                    # The line number encodes the source, which names a conversation without an id.
                    yield name, Row(row.line * len(sources) + place, row.fields)

    groups: Generator[list[Row]] = grouped(keyed())
    with closing(groups):  # deletes the spooled rows, also when a bad row is raised
        for group in groups:
            line, place = divmod(group[0].line, len(sources))
            path, stem = sources[place]
            fields = [row.fields for row in group]
            version = version_of_folder(path)
            record = _guarded(path, line, report, _converted, format, fields, f"{stem}-{line}", line, version)
            if record is not None:
                yield record


def version_of_folder(path: Source) -> str | None:
    """Return the name of the folder of a file, or of the one above, if it is a version such as `v1.2` or `release-7`.

    >>> version_of_folder(Path("logs/v1.2/may/chats.jsonl")), version_of_folder(Path("logs/vacation/chats.jsonl"))
    ('v1.2', None)
    """
    parts = path.parts if isinstance(path, Path) else ()
    for name in reversed(parts[-3:-1]):
        word = name.casefold()
        prefix = next((each for each in ("version", "release", "v") if word.startswith(each)), None)
        number = "" if prefix is None else word.removeprefix(prefix).lstrip(" _-").partition("-")[0]
        if number and number.isascii() and number.strip("0123456789._") == "" and number[0].isdigit():
            return sendable(name)
    return None


def with_version(record: Record, version: str) -> Record:
    """Return a record with a version if its conversation names none; without a system, it is compared by version."""
    conversation = record.conversation
    if not conversation.turns or conversation.version is not None:
        return record
    metadata = {"system": version, **{k: v for k, v in conversation.metadata.items() if v not in (None, "")}}
    return replace(record, conversation=replace(conversation, metadata={**metadata, "version": version}))


def _converted(
    format: Format, fields: Sequence[Fields], default_id: str, line: int = 0, version: str | None = None
) -> Record | None:
    record = format.convert(fields, default_id)
    if record is not None and not isinstance(record, Record):
        raise WrongShape(
            f"`convert` of the format returned an object of type {type(record).__name__}; it returns an "
            "accord.formats.Record, or None to leave the rows out. Check it with accord.testing.check_format"
        )
    if record is not None and version is not None:
        record = with_version(record, version)
    if record is None or not line:
        return record if record is None else admitted(record)
    # `dataclasses.replace` would take three times as long.
    labels, scales = record.labels, record.scales
    return admitted(Record(record.conversation, labels, record.assessments, record.annotations, line, scales))


def _keyed(
    path: Source, format: Format, rows: Iterator[Row], report: OnBadRow, on_skip: OnSkip
) -> Iterator[tuple[str | None, Row]]:
    """Yield rows, after splitting bundles, with the key of their conversation."""
    key = format.key
    assert key is not None
    for row in rows:
        parts = [row.fields] if format.split is None else _guarded(path, row.line, report, format.split, row.fields)
        for part in parts or ():
            found = _guarded(
                path, row.line, report, lambda part=part: (key(part), format.skip_reason and format.skip_reason(part))
            )
            if found is not None:
                name, reason = found
                if reason is not None:
                    on_skip(reason)
                yield name, Row(row.line, part)


_MALFORMED = (KeyError, TypeError, AttributeError, ValueError, RecursionError, ArithmeticError)
"""Exceptions of a row with values that a format does not expect."""


def _guarded(path: Source, line: int, report: OnBadRow, convert: Callable[..., T], *arguments: Any) -> T | None:
    """Return the result of `convert`, or report a bad row and return `None`."""
    try:
        return convert(*arguments)
    except WrongShape as error:
        report(BadRow(str(path), line, str(error)))
    except Exception as error:
        fault = plugin_error(error)
        if fault is None and not isinstance(error, _MALFORMED):
            raise
        # Formats report common mistakes as `WrongShape`; other exceptions must not stop the import either.
        reason = f"no {error}" if isinstance(error, KeyError) else f"{type(error).__name__}: {error}"
        report(BadRow(str(path), line, str(fault or f"not of the expected shape ({reason})")))
    return None
