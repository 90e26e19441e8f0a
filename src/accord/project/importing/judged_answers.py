"""A model's answers in columns of rating files: kept as recorded judgements of a project.

Each source gets a file of judgements in the folder `judgments`, next to the project file. The project file names these
files as its recorded judge.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from accord.edges import BadInput, BadRow
from accord.formats import VALUE_KEYS, JudgedAnswer, WrongShape, answer_to, judge_in, number_in
from accord.models import recorded_item
from accord.project.importing.raters import RaterNames
from accord.store import Store
from accord.values import Question, Rubric, Sample, Target, content_hash

JUDGEMENTS_FOLDER = "judgments"
ON_SCALE_SHARE = 0.95
"""Share of a column's values on the main question's scale from which the column answers the main question."""


class _Read(NamedTuple):
    """A model's answer with the line of its row."""

    answer: JudgedAnswer
    line: int


@dataclass
class JudgedAnswers:
    """A model's answers in the files of an import.

    Attributes:
        rows: Recorded judgements by file, in the form that the recorded judge reads.
        judges: Number of answers by judge.
    """

    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    judges: Counter[str] = field(default_factory=Counter)
    _read: dict[str, list[_Read]] = field(default_factory=dict, repr=False)
    _names: RaterNames = field(default_factory=RaterNames, repr=False)

    def add(self, path: str, line: int, answer: JudgedAnswer) -> None:
        """Add an answer as read."""
        self._read.setdefault(path, []).append(_Read(answer, line))

    def resolve(self, store: Store, rubric: Rubric, main: Question, report: Callable[[BadInput], None]) -> None:
        """Name the question and the item of each answer that was added.

        Args:
            store: Holds the conversations that the answers are about.
            rubric: Its questions are found by the names of columns, such as `judge_helpful`.
            main: Question of answers whose column names none, if their values are on its scale.
            report: Called with an error for each value off the scale of its question; it is left out.
        """
        items = _Items(store, (read.answer.target for found in self._read.values() for read in found))
        for path, found in self._read.items():
            by_column: dict[str, list[_Read]] = {}
            for read in found:
                by_column.setdefault(read.answer.question, []).append(read)
            for column, reads in by_column.items():
                question, name = _question_of(column, [read.answer.value for read in reads], rubric, main)
                for read in reads:
                    value, judge = _value(read.answer.value), self._names.of(read.answer.judge)
                    is_asked = question is not None and rubric.get(question.id) is not None
                    if is_asked and question is not None and not _is_on_scale(value, question):
                        where = f"judge {judge!r} on {read.answer.target}, question {name!r}"
                        report(BadRow(path, read.line, f"{where}: got {value!r}, allowed: {question.scale}"))
                        continue
                    self.judges[judge] += 1
                    row = {"item_id": items.of(read.answer.target), "question": name, "judge_model": judge}
                    self.rows.setdefault(path, []).append({**row, "value": value})
        self._read.clear()

    def write(self, folder: Path) -> list[Path]:
        """Write the judgements of each file into a folder's `judgments`; a later import of a file replaces its own."""
        written = []
        for source, rows in self.rows.items():
            stem = Path(source).name.split(".")[0] if Path(source).is_file() else "table"
            digest = content_hash(str(Path(source).resolve()), length=6).rpartition(":")[2]
            name = f"{stem}-{digest}.jsonl"
            path = folder / JUDGEMENTS_FOLDER / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
            written.append(path)
        return written


class _Items:
    """Item ids of targets, as `recorded_item` reads them. A last turn has the item id of its conversation."""

    def __init__(self, store: Store, targets: Iterable[Target]) -> None:
        names = {target.conversation for target in targets if target.turn is not None}
        self._conversations = {each.id: each for each in store.conversations(names)} if names else {}

    def of(self, target: Target) -> str:
        """Return the item id of a target."""
        conversation = self._conversations.get(target.conversation)
        is_known = conversation is not None and target.turn is not None and target.turn < len(conversation.turns)
        if is_known and conversation is not None:
            return recorded_item(Sample(conversation, target.turn))
        return str(target) if target.turn is not None else target.conversation


def _question_of(column: str, values: Sequence[Any], rubric: Rubric, main: Question) -> tuple[Question | None, str]:
    """Return the question of a column of answers if its scale is known, and the question's name."""
    own = {_plain(question.id): question for question in (*rubric.questions, main)}
    named = _plain(judge_in(column)[1])
    if _plain(column) in own or named in own:
        question = own.get(_plain(column)) or own[named]
        return question, question.id
    if named and column not in VALUE_KEYS:
        return None, column
    usable = [value for value in map(_value, values) if value is not None]
    on_scale = sum(_is_on_scale(value, main) for value in usable)
    return (main, main.id) if on_scale >= ON_SCALE_SHARE * len(usable) else (None, column)


def _plain(name: str) -> str:
    return "".join(character for character in name.casefold() if character.isalnum())


def _value(raw: Any) -> Any:
    """Return a number of a text in plain digits, and any other value unchanged."""
    if isinstance(raw, bool):
        return int(raw)
    number = number_in(raw.strip()) if isinstance(raw, str) else None
    return raw if number is None else int(number) if number.is_integer() else number


def _is_on_scale(value: Any, question: Question) -> bool:
    """Return True if a value is on the question's scale, or between two of its numbers."""
    scale = question.scale
    if isinstance(value, int | float) and scale.is_ordered:
        return scale.numbers[0] <= value <= scale.numbers[-1]
    try:
        answer = answer_to(question, value, question.id)
    except WrongShape:
        return False
    return answer is not None and scale.holds(answer)
