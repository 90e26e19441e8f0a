"""Labels on their own, in tables or JSON lines: one row a rating, or one row a person with a column a question."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from accord.conversation import Target
from accord.errors import BadInput, BadRow
from accord.labels import Label, check_label
from accord.readers.messages import checked_id
from accord.readers.record import Fields, WrongShape
from accord.readers.rows import locate, read_rows
from accord.rubric import Rubric

ALIASES: Mapping[str, tuple[str, ...]] = {
    "conversation": ("conversation_id", "item_id", "dialogue_id", "session_id", "chat_id", "id"),
    "turn": ("turn_index", "response_index"),
    "annotator": ("annotator_id", "rater", "rater_id", "judge", "worker_id", "user"),
    "question": ("question_id", "dimension", "criterion", "name"),
    "value": ("rating", "score", "label", "answer"),
    "time": ("rated_at", "timestamp", "created_at"),
}
NOT_APPLICABLE = {"na", "n/a", "not applicable"}


def looks_like_labels(fields: Fields) -> bool:
    """Whether a row is a rating: it names a conversation and an annotator, and holds no text of a conversation."""
    names = _canonical(fields).keys()
    return {"conversation", "annotator"} <= names and not {"messages", "content", "conversations"} & names


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
    for row in read_rows(found):
        if isinstance(row, BadRow):
            _complain(row, on_bad_row)
            continue
        fields = renamed(row.fields, columns, str(found))
        try:
            labels = _labels(fields, rubric)
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


def renamed(fields: Fields, columns: Mapping[str, str] | None, where: str) -> Fields:
    """The row with the columns of a column map (our name to the file's name) under our names.

    Raises:
        BadInput: The map names a column that the file does not have.
    """
    if not columns:
        return fields
    row = dict(fields)
    for ours, theirs in columns.items():
        if theirs not in fields:
            raise BadInput(f"{where} has no column {theirs!r}; it has {', '.join(map(str, fields))}")
        row[ours] = row.pop(theirs, fields[theirs])
    return row


def _canonical(fields: Fields) -> dict[str, Any]:
    row = dict(fields)
    for name, aliases in ALIASES.items():
        alias = None if name in row else next((alias for alias in aliases if alias in row), None)
        if alias is not None:
            row[name] = row.pop(alias)
    return row


def _labels(fields: Fields, rubric: Rubric) -> list[Label]:
    row = _canonical(fields)
    if not row.get("conversation") or not row.get("annotator"):
        raise WrongShape("a label needs a conversation and an annotator (map other column names with --columns)")
    target = Target(checked_id(row["conversation"]), _turn(row.get("turn")))
    answers = _answers(row, rubric)
    annotator, time = checked_id(row["annotator"]), row.get("time")
    return [
        Label(target, question, annotator, _value(raw, question, rubric), None if time in (None, "") else str(time))
        for question, raw in answers.items()
        if raw not in (None, "")
    ]


def _turn(raw: Any) -> int | None:
    if raw in (None, ""):
        return None
    if not str(raw).isdigit():
        raise WrongShape(f"turn {raw!r} is no index: 0, 1, 2, ...")
    return int(raw)


def _answers(row: Mapping[str, Any], rubric: Rubric) -> dict[str, Any]:
    """The row's answers by question: the one it names, or those in the columns of a wide table."""
    if "value" in row:
        return {str(row.get("question") or rubric.main): row["value"]}
    wide = {question.id: row[question.id] for question in rubric.questions if question.id in row}
    if not wide:
        raise WrongShape(f"no value, and no column named after a question of the rubric {rubric.name!r}")
    return wide


def _value(raw: Any, name: str, rubric: Rubric) -> Any:
    """The value as the question's scale writes it; a number where the question is not the rubric's."""
    if isinstance(raw, bool):
        return int(raw)
    if not isinstance(raw, str):
        return int(raw) if isinstance(raw, float) and raw.is_integer() else raw
    if raw.strip().lower() in NOT_APPLICABLE:
        return None
    question = rubric.get(name)
    option = None if question is None else question.scale.parse(raw)
    return _number(raw.strip()) if option is None else option


def _number(text: str) -> int | float | str:
    try:
        number = float(text)
    except ValueError:
        return text
    return int(number) if number.is_integer() else number
