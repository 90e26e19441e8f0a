"""Export annotations to JSON lines, CSV or Parquet, by the suffix, and restore all their fields.

JSON lines hold `Annotation.to_json`. A table has a column per field; `value`, `distribution`, `span`, `made_from` and
`losses` are JSON cells. A text that a spreadsheet could run as a formula (it begins with `=`, `+`, `-`, `@`, a tab or a
line break) or that begins with an apostrophe is written after an apostrophe. A text that no table can hold (NUL,
unpaired surrogates) is written as JSON after `'json:`, and an empty text as an apostrophe. Reading reverses this.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from accord.edges import BadInput, BadRow, escape_formula, is_sendable, unescape_formula
from accord.formats.files.memory import Source
from accord.formats.files.row_reader import TABLE_SUFFIXES, locate, read_rows, suffix
from accord.formats.files.row_writer import RowWriter
from accord.formats.labels.label_files import converted_rows, mapped
from accord.formats.openai_messages import checked_id, turn_index
from accord.formats.record import Fields, Row, WrongShape, abbreviated
from accord.values import ANNOTATOR_KINDS, ISSUE, OVERALL, Annotation, Json, Rubric, canonical_json, check_label

_IDS = ("conversation", "question", "by")
_INDEXES = ("turn", "against_turn", "part", "repeat")
_IN_COLUMNS = ("signature", "time", "wording", "answer", "replaces")
_TEXTS = ("quote", "comment", "mode", "version", "called", "seen", "group", "study", "stage", "rubric", "shown")
_FLOATS = ("outside", "seconds")
_JSON = ("value", "distribution", "span", "made_from", "losses")
COLUMNS = (
    "conversation", "turn", "question", "by", "kind", "value", "distribution", "outside", "quote", "span", "comment",
    "signature", "mode", "made_from", "version", "time", "wording", "against", "against_turn", "called", "losses",
    "seen", "group", "part", "answer", "replaces", "study", "stage", "seconds", "rubric", "shown", "repeat",
)  # fmt: skip
_REQUIRED = frozenset({*_IDS, "kind", "value"})

_AS_JSON = "'json:"


def looks_like_annotations(fields: Fields) -> bool:
    """Return True if a row has the columns of an annotation."""
    return fields.keys() >= _REQUIRED


def read_annotations(
    path: str | Source,
    rubric: Rubric,
    columns: Mapping[str, str] | None = None,
    on_bad_row: Callable[[BadInput], None] | None = None,
    rows: Iterable[Row | BadRow] | None = None,
) -> Iterator[Annotation]:
    """Yield every annotation of a file; human answers are validated against the scales of the rubric.

    `columns` maps Accord's column names to the file's. `on_bad_row` is called with each bad row, which is then skipped.
    `rows` are the rows of the file, if it is open already (`sniff_rows`).

    Raises:
        BadInput: The file cannot be read as a whole.
        BadRow: A row is not an annotation, or off its question's scale, and `on_bad_row` is not given.
    """
    source = locate(path)
    is_table = suffix(source) in TABLE_SUFFIXES

    def annotations_of(fields: Fields) -> list[Annotation]:
        annotation = _annotation(_from_cells(fields) if is_table else fields)
        if annotation.kind == "person":
            check_label(annotation.to_label(), rubric)
        return [annotation]

    given = read_rows(source) if rows is None else rows
    return converted_rows(source, mapped(given, columns, str(source)), annotations_of, on_bad_row)


# --- rows of a file ------------------------------------------------------------------------------------------------


def _annotation(fields: Fields) -> Annotation:
    """Convert a row of JSON values to an annotation; raises `WrongShape` for a missing or invalid value."""
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
            raise WrongShape(f"{name} {row[name]!r} is not text")
    for name in row.keys() & _SHAPES.keys():
        holds, expected = _SHAPES[name]
        if not holds(row[name]):
            raise WrongShape(f"{name} is {expected}, got {abbreviated(row[name])}")
    annotation = Annotation.from_json({"value": None, **row})
    _check_issue(annotation)
    return annotation


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
    "seconds": (lambda value: _is_number(value) and value >= 0, "a number from 0"),
    "span": (_is_span, "two places in a text"),
    "made_from": (lambda value: isinstance(value, Mapping), "an object"),
    "losses": (
        lambda value: isinstance(value, list | tuple) and all(isinstance(each, str) for each in value),
        "a list of texts",
    ),
}


def _check_issue(annotation: Annotation) -> None:
    """Raise `WrongShape` if the group and the part of an issue annotation contradict its other fields."""
    if not annotation.group and not annotation.part:
        return
    if annotation.is_correction and not annotation.group:
        if not _is_signed_turn(annotation) or not annotation.question.startswith(ISSUE):
            raise WrongShape(
                "a correction of an issue needs a turn, a signature and a question that begins with " + ISSUE
            )
        return
    if annotation.kind != "model" or not annotation.group or not _is_signed_turn(annotation):
        raise WrongShape("an issue that a model found needs a turn, a signature and a group")
    if annotation.part and not annotation.question.startswith(ISSUE):
        raise WrongShape(f"question {annotation.question!r} is not an issue; an issue's question begins with {ISSUE!r}")
    if not annotation.part and (annotation.question != OVERALL or type(annotation.value) is not int):
        raise WrongShape(
            f"the first of a group answers {OVERALL!r} with a whole number, got {abbreviated(annotation.value)}"
        )


def _is_signed_turn(annotation: Annotation) -> bool:
    return annotation.signature is not None and annotation.target.turn is not None


# --- cells of tables -----------------------------------------------------------------------------------------------


Cell = str | int | float | None


def _to_cells(annotation: Annotation) -> dict[str, Cell]:
    """Convert an annotation to cells of a table; `None` for empty ones."""
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
    """Restore the fields of `_to_cells` from a row; raises `WrongShape` for an invalid cell of JSON or of a number."""
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
            raise WrongShape(f"{name} {abbreviated(cell)} is not JSON (a word needs quotation marks)") from None
    return row


def _text(cell: str) -> Any:
    if cell.startswith(_AS_JSON):
        return json.loads(cell.removeprefix(_AS_JSON))
    return unescape_formula(cell)


# --- writing -------------------------------------------------------------------------------------------------------


class AnnotationWriter(RowWriter):
    """Write annotations one at a time."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "annotations", COLUMNS, dict.fromkeys(_INDEXES, int) | dict.fromkeys(_FLOATS, float))

    def write(self, annotation: Annotation) -> None:
        """Write one annotation."""
        self.put(_to_cells(annotation) if self.is_table else annotation.to_json())
