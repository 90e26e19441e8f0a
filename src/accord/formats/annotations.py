"""Annotations to files and back, to the last field: JSON lines, CSV or Parquet, told by the ending.

JSON lines hold `Annotation.to_json`. A table has a column per field; `value`, `distribution`, `span`, `made_from` and
`losses` are cells of JSON. A text cell that a spreadsheet would take for a formula (it begins with `=`, `+`, `-`, `@`,
a tab or a line break) is written behind an apostrophe, as is one that begins with an apostrophe; a text that no table
can hold (NUL, half a surrogate pair) is written as JSON behind `'json:`, and an empty text as a lone apostrophe.
Reading takes that away again, so that what comes back equals what was written.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from accord.edges import BadInput, BadRow, escape_formula, is_sendable, unescape_formula
from accord.formats.label_files import mapped
from accord.formats.memory import Source
from accord.formats.openai_messages import checked_id, turn_index
from accord.formats.record import Fields, WrongShape
from accord.formats.row_reader import TABLE_SUFFIXES, locate, read_rows, suffix
from accord.formats.row_writer import RowWriter
from accord.values import ANNOTATOR_KINDS, ISSUE, OVERALL, Annotation, Json, Rubric, canonical_json, check_label

_IDS = ("conversation", "question", "by")
_INDEXES = ("turn", "against_turn", "part")
_IN_COLUMNS = ("signature", "time", "wording", "answer", "replaces")
_TEXTS = ("quote", "comment", "mode", "version", "called", "seen", "group", "study", "stage", "rubric", "shown")
_FLOATS = ("outside", "seconds")
_JSON = ("value", "distribution", "span", "made_from", "losses")
COLUMNS = (
    "conversation", "turn", "question", "by", "kind", "value", "distribution", "outside", "quote", "span", "comment",
    "signature", "mode", "made_from", "version", "time", "wording", "against", "against_turn", "called", "losses",
    "seen", "group", "part", "answer", "replaces", "study", "stage", "seconds", "rubric", "shown",
)  # fmt: skip
_TELLING = frozenset({*_IDS, "kind", "value"})

_AS_JSON = "'json:"


def looks_like_annotations(fields: Fields) -> bool:
    """Whether a row is an annotation, told by its columns."""
    return fields.keys() >= _TELLING


def read_annotations(
    path: str | Source,
    rubric: Rubric,
    columns: Mapping[str, str] | None = None,
    on_bad_row: Callable[[BadInput], None] | None = None,
) -> Iterator[Annotation]:
    """Every annotation of a file, in order.

    Args:
        path: JSON lines or a table.
        rubric: People's answers to its questions are checked against its scales.
        columns: Our name to the file's name, for columns that are called otherwise.
        on_bad_row: Called with each bad row, which is then skipped; without it a bad row is raised.

    Raises:
        BadInput: The file cannot be read as a whole.
        BadRow: A row is no annotation, or outside its question's scale, and `on_bad_row` is not given.
    """
    found = locate(path)
    is_table = suffix(found) in TABLE_SUFFIXES
    for row in mapped(read_rows(found), columns, str(found)):
        error: BadRow
        if isinstance(row, BadRow):
            error = row
        else:
            try:
                annotation = _annotation(_from_cells(row.fields) if is_table else row.fields)
                if annotation.kind == "person":
                    check_label(annotation.to_label(), rubric)
            except BadInput as wrong:
                error = BadRow(str(found), row.line, str(wrong))
            else:
                yield annotation
                continue
        if on_bad_row is None:
            raise error
        on_bad_row(error)


# --- a row that comes in -------------------------------------------------------------------------------------------


def _annotation(fields: Fields) -> Annotation:
    """The annotation that a row of JSON values says.

    Raises:
        WrongShape: A value is missing, or is none that the field can hold.
    """
    row = {name: fields[name] for name in COLUMNS if fields.get(name) is not None}
    missing = next((name for name in (*_IDS, "kind") if name not in row), None)
    if missing is not None:
        raise WrongShape(f"an annotation needs {', '.join(_IDS)} and kind; {missing} is empty")
    if row["kind"] not in ANNOTATOR_KINDS:
        raise WrongShape(f"kind {row['kind']!r} is unknown; allowed: {', '.join(ANNOTATOR_KINDS)}")
    for name in row.keys() & {*_IDS, "against"}:
        row[name] = checked_id(row[name])
    for name in row.keys() & {*_INDEXES}:
        row[name] = turn_index(row[name])
    for name in row.keys() & {*_TEXTS, *_IN_COLUMNS}:
        if not isinstance(row[name], str) or (name in _IN_COLUMNS and not is_sendable(row[name])):
            raise WrongShape(f"{name} {row[name]!r} is no text")
    for name in row.keys() & _SHAPES.keys():
        holds, expected = _SHAPES[name]
        if not holds(row[name]):
            raise WrongShape(f"{name} is {expected}, got {_short(row[name])}")
    found = Annotation.from_json({"value": None, **row})
    _check_issue(found)
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_span(value: Any) -> bool:
    ends = value if isinstance(value, list | tuple) and len(value) == 2 else [None]
    return all(isinstance(end, int) and not isinstance(end, bool) and end >= 0 for end in ends)


_SHAPES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "value": (lambda value: isinstance(value, str) or _is_number(value), "a number or a text"),
    "distribution": (
        lambda value: isinstance(value, Mapping) and all(map(_is_number, value.values())),
        "an object with a probability per option",
    ),
    "outside": (_is_number, "a number"),
    "seconds": (lambda value: _is_number(value) and value >= 0, "a number from 0 on"),
    "span": (_is_span, "two places in a text"),
    "made_from": (lambda value: isinstance(value, Mapping), "an object"),
    "losses": (
        lambda value: isinstance(value, list | tuple) and all(isinstance(each, str) for each in value),
        "a list of texts",
    ),
}


def _check_issue(found: Annotation) -> None:
    """Refuse a row that says it belongs to the issues of a turn, and cannot.

    Raises:
        WrongShape: Says why.
    """
    if not found.group and not found.part:
        return
    if found.kind != "model" or found.signature is None or found.target.turn is None or not found.group:
        raise WrongShape("an issue that a model found needs a turn, a signature and a group")
    if found.part and not found.question.startswith(ISSUE):
        raise WrongShape(f"question {found.question!r} is no issue; an issue's question begins with {ISSUE!r}")
    if not found.part and (found.question != OVERALL or type(found.value) is not int):
        raise WrongShape(f"the first of a group answers {OVERALL!r} with a whole number, got {_short(found.value)}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


# --- cells of tables -----------------------------------------------------------------------------------------------


Cell = str | int | float | None


def _to_cells(annotation: Annotation) -> dict[str, Cell]:
    """The annotation as cells of a table; `None` for an empty one."""
    row = annotation.to_json()
    return {name: _cell(name, row[name]) if row.get(name) is not None else None for name in COLUMNS}


def _cell(name: str, value: Any) -> Cell:
    if name in _JSON:
        return canonical_json(value)
    if not isinstance(value, str):
        return value  # type: ignore[no-any-return]
    if not is_sendable(value):
        return _AS_JSON + canonical_json(value)
    return escape_formula(value)


def _from_cells(fields: Fields) -> dict[str, Json]:
    """The inverse of `_to_cells`, from a line of CSV or a row of Parquet.

    Raises:
        WrongShape: A cell of JSON, or of a number, is none.
    """
    row: dict[str, Json] = {}
    for name in COLUMNS:
        cell = fields.get(name)
        if cell in (None, ""):
            continue
        try:
            if name in _JSON or name in _FLOATS:
                row[name] = json.loads(cell) if isinstance(cell, str) else cell
            else:
                row[name] = _text(cell) if isinstance(cell, str) else cell
        except (ValueError, RecursionError):
            raise WrongShape(f"{name} {_short(cell)} is no JSON (a word stands in quotation marks)") from None
    return row


def _text(cell: str) -> Any:
    if cell.startswith(_AS_JSON):
        return json.loads(cell.removeprefix(_AS_JSON))
    return unescape_formula(cell)


# --- a file that goes out ------------------------------------------------------------------------------------------


class AnnotationWriter(RowWriter):
    """Writes annotations as they come."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "annotations", COLUMNS, dict.fromkeys(_INDEXES, int) | dict.fromkeys(_FLOATS, float))

    def write(self, annotation: Annotation) -> None:
        """Write one annotation."""
        self.put(_to_cells(annotation) if self.is_table else annotation.to_json())
