"""What one reader yields: a conversation with the labels that came with it, or the reason why there is none."""

from __future__ import annotations

import json
import tempfile
from array import array
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, NamedTuple

from accord.values import BadInput, Conversation, IssueAnnotation, Label, Registry

Fields = Mapping[str, Any]
"""One row of a file, whatever its format: a JSON object, or a line of a table by column name."""


ANNOTATOR_KEYS = (
    "annotator", "annotator_id", "rater", "rater_id", "judge", "worker_id", "worker", "labeler", "labeller", "reviewer",
    "coder", "rated_by", "annotated_by", "evaluator_id",
)  # fmt: skip
"""What a column is called that says who rated."""

RATED_ROWS = "rated_rows"
"""Where a conversation keeps the rows of several people who rated it, without the text that they share."""


def under_our_names(fields: Fields, aliases: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The row with columns that are often called otherwise under our names; all others as they are."""
    row = dict(fields)
    for name, others in aliases.items():
        alias = None if name in row else next((other for other in others if other in row), None)
        if alias is not None:
            row[name] = row.pop(alias)
    return row


class Row(NamedTuple):
    """One row and the line (from 1) it began on."""

    line: int
    fields: Fields


@dataclass(frozen=True, slots=True)
class Record:
    """A conversation, and the labels and assessments that stood beside it in the file."""

    conversation: Conversation
    labels: tuple[Label, ...] = ()
    assessments: tuple[IssueAnnotation, ...] = ()


class WrongShape(BadInput):
    """A row that is not what its format says; the reader adds file and line."""


@dataclass(frozen=True, slots=True)
class Format:
    """One conversation format.

    Attributes:
        recognises: Whether a row looks like this format; asked of a file's first row.
        convert: The rows of one conversation, in file order, to a record. The second argument is the id to use
            where the rows name none. `None` where they hold no conversation (a span of something else).
            Raises `WrongShape`.
        key: The id that rows of one conversation share, where a conversation spans rows; else `None`.
        split: One row of the file to the rows it bundles (an OTLP batch holds many spans); else `None`.
    """

    recognises: Callable[[Fields], bool]
    convert: Callable[[Sequence[Fields], str], Record | None]
    key: Callable[[Fields], str | None] | None = None
    split: Callable[[Fields], Sequence[Fields]] | None = None


formats: Registry[Format] = Registry("format")


def grouped(rows: Iterable[tuple[str | None, Row]]) -> Generator[list[Row]]:
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
