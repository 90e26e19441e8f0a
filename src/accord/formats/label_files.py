"""Labels on their own, in tables or JSON lines: one row a rating, or one row a person with a column a question."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from accord.formats.messages import checked_answer, checked_id, is_storable, turn_index
from accord.formats.record import Fields, Row, WrongShape, under_our_names
from accord.formats.rows import locate, read_rows
from accord.values import BadInput, BadRow, Kind, Label, Question, Rubric, Target, check_label

ALIASES: Mapping[str, tuple[str, ...]] = {
    "conversation": ("conversation_id", "item_id", "dialogue_id", "session_id", "chat_id", "id"),
    "turn": ("turn_index", "response_index"),
    "annotator": ("annotator_id", "rater", "rater_id", "judge", "worker_id"),
    "question": ("question_id", "dimension", "criterion", "name"),
    "value": ("rating", "score", "label", "answer"),
    "against": ("against_id", "other_conversation", "conversation_b"),
    "against_turn": (),
    "time": ("rated_at", "timestamp", "created_at"),
}
NOT_APPLICABLE = {"na", "n/a", "not applicable"}


def looks_like_labels(fields: Fields) -> bool:
    """Whether a row is a rating: it names a conversation and an annotator.

    Raises:
        WrongShape: It holds what was said as well, so that neither reading would be the whole of it.
    """
    names = under_our_names(fields, ALIASES).keys()
    if not {"conversation", "annotator"} <= names:
        return False
    if {"messages", "conversations"} & names or {"role", "content"} <= names or {"prompt", "response"} <= names:
        raise WrongShape("the file holds transcripts and labels in one table; put the labels into a file of their own")
    return True


def read_labels(
    path: str | Path,
    rubric: Rubric,
    columns: Mapping[str, str] | None = None,
    on_bad_row: Callable[[BadRow], None] | None = None,
) -> Iterator[Label]:
    """Every label of a file, in order.

    Args:
        path: A table or JSON lines.
        rubric: Its questions name the columns of a wide table, and its scales say how a value is read.
        columns: Our name to the file's name, for columns that are called otherwise.
        on_bad_row: Called with each bad row, which is then skipped; without it a bad row is raised.

    Raises:
        BadInput: The file cannot be read as a whole, or lacks a column that `columns` names.
        BadRow: A row is no label, or outside its question's scale, and `on_bad_row` is not given.
    """
    found = locate(path)
    rows = read_rows(found)
    for row in mapped(rows, columns, str(found)):
        if isinstance(row, BadRow):
            _complain(row, on_bad_row)
            continue
        try:
            labels = _labels(row.fields, rubric)
            for label in labels:
                check_label(label, rubric)
        except BadInput as error:
            _complain(BadRow(str(found), row.line, str(error)), on_bad_row)
        else:
            yield from labels


def _complain(error: BadRow, on_bad_row: Callable[[BadRow], None] | None) -> None:
    if on_bad_row is None:
        raise error
    on_bad_row(error)


def mapped(rows: Iterable[Row | BadRow], columns: Mapping[str, str] | None, where: str) -> Iterator[Row | BadRow]:
    """Rows with the columns of a column map (our name to the file's) under our names.

    Raises:
        BadInput: The first row lacks a column that the map names.
    """
    first = True
    for row in rows:
        if columns and isinstance(row, Row):
            missing = next((theirs for theirs in columns.values() if theirs not in row.fields), None) if first else None
            if missing is not None:
                raise BadInput(f"{where} has no column {missing!r}; it has {', '.join(map(str, row.fields))}")
            first = False
            taken = {theirs: ours for ours, theirs in columns.items()}
            kept = {name: value for name, value in row.fields.items() if name in taken or name not in columns}
            row = Row(row.line, {taken.get(name, name): value for name, value in kept.items()})
        yield row


def _labels(fields: Fields, rubric: Rubric) -> list[Label]:
    row = {
        name: value.strip() if isinstance(value, str) else value
        for name, value in under_our_names(fields, ALIASES).items()
    }
    if row.get("conversation") in (None, "") or row.get("annotator") in (None, ""):
        raise WrongShape("a label needs a conversation and an annotator (map other column names with --columns)")
    target = Target(checked_id(row["conversation"]), turn_index(row.get("turn")))
    against = None
    if row.get("against") not in (None, ""):
        against = Target(checked_id(row["against"]), turn_index(row.get("against_turn")))
    annotator, time = checked_id(row["annotator"]), row.get("time")
    when = None if time in (None, "") else str(time)
    if when is not None and not is_storable(when):
        raise WrongShape(f"time {when!r} is no text")
    sides = target, against
    return [
        Label(target, checked_id(question), annotator, _value(raw, question, rubric, sides), when, against=against)
        for question, raw in _answers(row, rubric).items()
        if raw not in (None, "")
    ]


def _answers(row: Mapping[str, Any], rubric: Rubric) -> dict[str, Any]:
    """The row's answers by question: the one it names, else those in columns named after questions, else the main."""
    if "value" in row and row.get("question") not in (None, ""):
        return {str(row["question"]): row["value"]}
    wide = {question.id: row[question.id] for question in rubric.questions if question.id in row}
    if not wide and "value" in row:
        return {rubric.main: row["value"]}
    if not wide:
        raise WrongShape(
            f"no value, and no column named after a question of the rubric {rubric.name!r}; it has {', '.join(row)}"
        )
    return wide


def _value(raw: Any, name: str, rubric: Rubric, sides: tuple[Target, Target | None]) -> Any:
    """The value as the question's scale writes it; a number, if it is one, where the question is not the rubric's."""
    question = rubric.get(name)
    if question is not None and question.compares:
        raw = _side(raw, question, sides)
    if isinstance(raw, str):
        if raw.lower() in NOT_APPLICABLE:
            return None
        option = None if question is None else question.scale.parse(raw)
        return option if option is not None else _number(raw)
    if isinstance(raw, bool) and question is not None and question.scale.kind is not Kind.BINARY:
        raise WrongShape(f"{raw!r} is no answer to {name!r}; allowed: {question.scale}")
    return checked_answer(raw)


def _side(raw: Any, question: Question, sides: tuple[Target, Target | None]) -> Any:
    """A comparison's answer: an option as it is; else `first`, `second` or `tie`, or a side's name, as an option."""
    if not isinstance(raw, str) or question.scale.parse(raw) is not None or not isinstance(_number(raw), str):
        return raw
    numbers = question.scale.options or question.scale.numbers
    names = {str(side): end for side, end in zip(sides, (numbers[-1], numbers[0]), strict=True) if side is not None}
    words = {"first": numbers[-1], "second": numbers[0]}
    if len(numbers) % 2:
        words["tie"] = numbers[len(numbers) // 2]
    return {**names, **words}.get(raw, raw)


def _number(text: str) -> Any:
    """The number a text writes in plain digits, or the text itself."""
    if not re.fullmatch(r"[+-]?(\d{1,15}(\.\d*)?|\.\d+)(e[+-]?\d{1,2})?", text, re.ASCII | re.IGNORECASE):
        return text
    number = float(text)
    return int(number) if number.is_integer() else number
