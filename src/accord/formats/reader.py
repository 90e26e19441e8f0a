"""Reading conversations and labels: any of the common formats in, `Record` and `Label` out, one at a time."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

from accord.edges import BadInput, BadRow, UnknownName, sendable, unpacked_name
from accord.formats.annotations import COLUMNS as OF_ANNOTATIONS
from accord.formats.annotations import looks_like_annotations
from accord.formats.label_files import ALIASES as OF_LABELS
from accord.formats.label_files import is_exchange, looks_like_labels, mapped, read_labels
from accord.formats.memory import Source
from accord.formats.rating_columns import words_of
from accord.formats.record import Fields, Format, Record, Row, WrongShape, admitted, formats, grouped, plain_name
from accord.formats.row_reader import Lines, line_chunks, locate, read_rows, rows_of_lines
from accord.formats.table import ALIASES as OF_TEXT
from accord.formats.table import names_annotator, names_rating
from accord.formats.text_files import TEXT_SUFFIX

__all__ = ["Record", "columns_of", "detect", "formats", "is_label_file", "read", "read_labels"]

_MOST_TELLING_FIRST = (
    "benchmark", "soda-eval", "label-studio", "argilla", "potato", "langsmith", "langfuse-scores", "openai-messages",
    "sharegpt", "mlflow", "langfuse", "otel", "table",
)  # fmt: skip
T = TypeVar("T")
OnBadRow = Callable[[BadRow], None]
OnPassedOver = Callable[[str], None]


def read(
    path: str | Source,
    format: str = "auto",
    columns: Mapping[str, str] | None = None,
    on_bad_row: OnBadRow | None = None,
    on_passed_over: OnPassedOver = lambda reason: None,
    stem: str | None = None,
    most: int | None = None,
) -> Iterator[Record]:
    """Yield every conversation of a file or a table in memory, with the labels of the same rows.

    Args:
        path: A file, which may be compressed with gzip, a benchmark folder, or a table in memory.
        format: A name of `accord plugins`, or `auto` to detect it from the first readable row.
        columns: Accord's column name to the file's, for tables with other column names.
        on_bad_row: Called with each bad row, which is then skipped; without it a bad row is raised.
        on_passed_over: Called with the reason for each row, or part of one, that is well-formed and says nothing.
        stem: Prefix of the ids of conversations without one; by default the file's name.
        most: Rows to read at most; by default all.

    Raises:
        BadInput: The file cannot be read, or its format cannot be told.
        BadRow: A row is broken, and `on_bad_row` is not given.
    """
    found = locate(path)
    complain = on_bad_row or _raise
    rows = islice(_good_rows(found, columns, complain), most)
    if format != "auto":
        yield from _records(found, formats.get(format), rows, complain, on_passed_over, stem)
        return
    unknown: BadInput | None = None
    for first in rows:
        try:
            name = detect(first.fields, str(path))
        except BadInput as error:
            if on_bad_row is None:
                raise
            unknown = unknown or error
            on_bad_row(BadRow(str(found), first.line, str(error)))
        else:
            yield from _records(found, formats.get(name), chain([first], rows), complain, on_passed_over, stem)
            return
    raise unknown or BadInput(f"{path} holds no row that can be read")


def chunks_of_lines(path: str | Path, format: str, most: int, size: int) -> tuple[str, Iterator[Lines]] | None:
    """A file's format and its lines, some at a time, where every line is a conversation; `None` where it is not so.

    So many lines at `most`, or about `size` bytes of them, come at a time.

    Raises:
        BadInput: The file cannot be read.
    """
    found = locate(path)
    chunks = line_chunks(found, most, size)
    if chunks is None:
        return None
    first = next(read_rows(found))
    assert isinstance(first, Row)
    try:
        name = detect(first.fields, str(path)) if format == "auto" else format
    except BadInput:
        return None
    return (name, chunks) if formats.get(name).key is None else None


def records_of_lines(
    path: Path,
    format: str,
    lines: Lines,
    on_bad_row: OnBadRow | None = None,
    on_passed_over: OnPassedOver = lambda reason: None,
) -> Iterator[Record]:
    """The conversations of some lines of a file; see `read`."""
    found, complain = locate(path), on_bad_row or _raise
    rows = _kept(rows_of_lines(found, lines), complain)
    return _records(found, formats.get(format), rows, complain, on_passed_over)


def detect(fields: Fields, where: str) -> str:
    """The name of the format that a file's first row is written in.

    Raises:
        BadInput: It looks like none of them.
    """
    names = [*_MOST_TELLING_FIRST, *(name for name in formats.names() if name not in _MOST_TELLING_FIRST)]
    texts = _text_columns(fields)
    is_rated = any(map(names_rating, fields))
    holds_labels = is_rated and not texts and not any(isinstance(value, list | dict) for value in fields.values())
    asks = {"question", "answer"} <= {plain_name(name) for name in fields if isinstance(name, str)}
    is_answer = holds_labels and asks and any(map(names_annotator, fields)) and not is_exchange(fields)
    for name in names:
        if formats.get(name).recognises(fields) and not (name == "table" and is_answer):
            return name
    shown = ", ".join(map(str, list(fields)[:_MOST_SHOWN])) + (", ..." if len(fields) > _MOST_SHOWN else "")
    if holds_labels:
        raise BadInput(f"{where} holds ratings without text, and no column is known to hold {_id_hint(fields, shown)}")
    prompt, response, *_ = [*map(shlex.quote, texts), "COLUMN", "COLUMN"]
    raise BadInput(
        f"cannot tell the format of {where}: no column is known to hold text ({shown}). Name them with "
        f"--columns prompt={prompt} --columns response={response} for one exchange per row, "
        "role= and content= for one turn per row, messages= for a whole conversation; or name the format: --format "
        f"{', '.join(formats.names())}"
    )


_MOST_SHOWN = 12
_OTHER_WORDS = frozenset({"comment", "comments", "reason", "explanation", "note", "notes", "time", "date"})


def _is_beside_text(name: Any) -> bool:
    """Return True if the name of a column says that it holds a rating, an annotator, a comment or a time."""
    return not isinstance(name, str) or names_rating(name) or bool(_OTHER_WORDS.intersection(words_of(name)))


def _is_prose(text: str) -> bool:
    """Return True if a text has two words, or is as long as a sentence in a script without spaces."""
    return (len(words_of(text)) > 1 and " " in text.strip()) or bool(_UNSPACED.search(text))


_UNSPACED = re.compile("[\u3040-\u30ff\u4e00-\u9fff]{6}")
_NAMES_AN_ID = re.compile(r"(id|no|nr|num|number|key)$|ticket|case|chat|session|call")


def _text_columns(fields: Fields) -> list[str]:
    """Return the columns with text of more than one word, at most the two longest, in the order of the row."""
    texts = {
        name: len(value)
        for name, value in fields.items()
        if isinstance(value, str) and _is_prose(value) and not _is_beside_text(name)
    }
    return sorted(sorted(texts, key=lambda name: -texts[name])[:2], key=list(fields).index)


def _id_hint(fields: Fields, shown: str) -> str:
    """Return the end of an error on labels without a conversation: the columns, and those that may hold the id."""
    of_labels = {name for ours in OF_LABELS if ours != "conversation" for name in (ours, *OF_LABELS[ours])}
    free = [
        n for n in fields if not _is_beside_text(n) and plain_name(n) not in of_labels and fields[n] not in (None, "")
    ]
    chosen, *others = [*sorted(free, key=lambda name: _NAMES_AN_ID.search(plain_name(name)) is None), "COLUMN"]
    instead = f" (or {', '.join(others[:-1])})" if others[:-1] else ""
    return f"the conversation's id ({shown}). Name it: --columns conversation={shlex.quote(chosen)}{instead}"


def check_column_names(names: Iterable[str], questions: Iterable[str] = ()) -> None:
    """Refuse names of a column map that no format reads.

    Args:
        names: Accord's column names, as the user wrote them.
        questions: Questions of the rubric, which name columns too.

    Raises:
        UnknownName: A name is unknown.
    """
    ours = {*OF_TEXT, *OF_LABELS, *OF_ANNOTATIONS, *_OTHER_COLUMNS, *questions}
    others = {name for aliases in (OF_TEXT, OF_LABELS) for each in aliases.values() for name in each}
    for name in names:
        if name not in ours and name not in others:
            raise UnknownName("column of --columns", name, ours)


_OTHER_COLUMNS = (
    "name", "metadata", "conversations", "inputs", "outputs", "item_id", "judge_model", "tool_calls", "reference",
)  # fmt: skip


def record_of(
    fields: Fields, default_id: str, format: str = "auto", columns: Mapping[str, str] | None = None
) -> Record:
    """The conversation that one row holds whole.

    Args:
        fields: The row.
        default_id: The conversation's id where the row names none.
        format: A name of `accord plugins`, or `auto` to tell by this row.
        columns: Our column name to the row's.

    Raises:
        WrongShape: It holds no conversation, or a part of one: a turn, a span.
    """
    [row] = mapped([Row(1, fields)], columns, "the row")
    assert isinstance(row, Row)
    try:
        named = detect(row.fields, "the row") if format == "auto" else format
        found = formats.get(named)
        if _whole(found, row.fields) is False:
            raise WrongShape(f"a row of the format {named!r} is a part of a conversation; one row holds one whole")
        record = _converted(found, [row.fields], default_id)
    except WrongShape:
        raise
    except (BadInput, KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        kind = "" if isinstance(error, BadInput) else f"not of the expected shape ({type(error).__name__}): "
        raise WrongShape(f"{kind}{error}") from None
    if record is None:
        raise WrongShape("the row holds no conversation")
    return record


def is_part(format: Format, fields: Fields) -> bool:
    """Whether a row may hold less than a conversation, so that rows of one may stand far from each other."""
    return _whole(format, fields) is not True


def _whole(format: Format, fields: Fields) -> bool | None:
    if format.key is None:
        return True
    return False if format.is_whole is None else format.is_whole(fields)


def is_label_file(path: str | Source, columns: Mapping[str, str] | None = None) -> bool:
    """Whether a file holds labels rather than conversations, told by its first readable row.

    Raises:
        BadInput: It holds both in one table.
    """
    found = locate(path)
    first = next(_good_rows(found, columns, lambda _: None), None)
    if first is not None and any(kind.alone is not None and kind.alone(first.fields) for _, kind in formats):
        return False
    try:
        return first is not None and looks_like_labels(first.fields)
    except WrongShape as error:
        raise BadInput(f"{path}: {error}") from None


def is_annotation_file(path: str | Source, columns: Mapping[str, str] | None = None) -> bool:
    """Whether a file holds annotations as `accord export` writes them, told by its first readable row."""
    first = next(_good_rows(locate(path), columns, lambda _: None), None)
    return first is not None and looks_like_annotations(first.fields)


def first_row(path: str | Source, columns: Mapping[str, str] | None = None) -> Fields | None:
    """A file's first readable row, under our names; `None` where there is none."""
    first = next(_good_rows(locate(path), columns, lambda _: None), None)
    return None if first is None else first.fields


def stands_alone(path: str | Source, columns: Mapping[str, str] | None = None) -> bool:
    """Whether a file holds a tool's answers about conversations of another file, told by its first readable row."""
    first = next(_good_rows(locate(path), columns, lambda _: None), None)
    return first is not None and any(kind.alone is not None and kind.alone(first.fields) for _, kind in formats)


def columns_of(path: str | Source) -> set[str]:
    """The names in a file's first readable row."""
    first = next(_good_rows(locate(path), None, lambda _: None), None)
    return set() if first is None else set(first.fields)


def reason_to_pass_over(path: Path) -> str | None:
    """Return the reason to pass over a file of a folder that is empty or a text without speakers, such as a README."""
    if not path.is_file():
        return None
    if path.stat().st_size == 0:
        return f"{path} is empty"
    if not unpacked_name(path.name.lower()).endswith(TEXT_SUFFIX):
        return None
    try:
        columns_of(path)
    except BadInput as error:
        return str(error)
    return None


def _raise(error: BadRow) -> None:
    raise error


def _good_rows(path: Source, columns: Mapping[str, str] | None, complain: OnBadRow) -> Iterator[Row]:
    rows = read_rows(path)
    yield from _kept(mapped(rows, columns, str(path)) if columns else rows, complain)


def _kept(rows: Iterable[Row | BadRow], complain: OnBadRow) -> Iterator[Row]:
    for row in rows:
        if isinstance(row, BadRow):
            complain(row)
        else:
            yield row


def _records(
    path: Source,
    format: Format,
    rows: Iterator[Row],
    complain: OnBadRow,
    passed_over: OnPassedOver,
    stem: str | None = None,
) -> Iterator[Record]:
    named = sendable(stem or path.name.split(".")[0])
    if format.key is None:
        for row in rows:
            record = _guarded(
                path, row.line, complain, _converted, format, [row.fields], f"{named}-{row.line}", row.line
            )
            if record is not None:
                yield record
        return
    groups: Generator[list[Row]] = grouped(_keyed(path, format, rows, complain, passed_over))
    with closing(groups):  # a bad row that is raised must not leave what was spooled behind
        for group in groups:
            fields, default_id = [row.fields for row in group], f"{named}-{group[0].line}"
            record = _guarded(path, group[0].line, complain, _converted, format, fields, default_id, group[0].line)
            if record is not None:
                yield record


def read_together(
    paths: Sequence[tuple[Path, str]],
    format: str,
    columns: Mapping[str, str] | None,
    complain: OnBadRow,
    keep: Callable[[str], bool],
    on_passed_over: OnPassedOver = lambda reason: None,
) -> Iterator[Record]:
    """The conversations of several files whose rows are parts of them, wherever these stand; in memory are ids alone.

    Args:
        paths: Each file, and what the ids of conversations begin with that name none.
        format: A name of `accord plugins`, of all files.
        columns: As in `read`.
        complain: Called with each bad row.
        keep: Whether the conversation of a key is wanted now; of all others nothing is spooled.
        on_passed_over: As in `read`.
    """
    made = formats.get(format)

    def wanted() -> Iterator[tuple[str | None, Row]]:
        for place, (path, _) in enumerate(paths):
            rows = _good_rows(locate(path), columns, complain)
            for key, row in _keyed(path, made, rows, complain, on_passed_over):
                name = key or f"\0{place} {row.line}"
                if keep(name):
                    # Where a row stands says in which file, so that a conversation can be named after it.
                    yield name, Row(row.line * len(paths) + place, row.fields)

    groups: Generator[list[Row]] = grouped(wanted())
    with closing(groups):
        for group in groups:
            line, place = divmod(group[0].line, len(paths))
            path, stem = paths[place]
            fields = [row.fields for row in group]
            record = _guarded(path, line, complain, _converted, made, fields, f"{stem}-{line}", line)
            if record is not None:
                yield record


def _converted(format: Format, fields: Sequence[Fields], default_id: str, line: int = 0) -> Record | None:
    record = format.convert(fields, default_id)
    return None if record is None else admitted(replace(record, line=line) if line else record)


def _keyed(
    path: Source, format: Format, rows: Iterator[Row], complain: OnBadRow, passed_over: OnPassedOver
) -> Iterator[tuple[str | None, Row]]:
    """Rows, split where one bundles several, each with the id of its conversation."""
    key = format.key
    assert key is not None
    for row in rows:
        parts = [row.fields] if format.split is None else _guarded(path, row.line, complain, format.split, row.fields)
        for part in parts or ():
            name = _guarded(path, row.line, complain, lambda part=part: (key(part),))
            if name is not None:
                reason = format.passed_over(part) if format.passed_over else None
                if reason is not None:
                    passed_over(reason)
                yield name[0], Row(row.line, part)


def _guarded(path: Source, line: int, complain: OnBadRow, convert: Callable[..., T], *arguments: Any) -> T | None:
    """What `convert` makes of a row, or `None` after complaining of it."""
    try:
        return convert(*arguments)
    except WrongShape as error:
        complain(BadRow(str(path), line, str(error)))
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        # A row can be wrong in more ways than a format can list; each is this row's fault alone.
        complain(BadRow(str(path), line, f"not of the expected shape ({type(error).__name__}: {error})"))
    return None
