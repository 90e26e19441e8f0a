"""Rows behind the figures of a check: counts by label and answer, and the rows where the judge and a person differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput, escape_formula, sendable
from accord.formats import RowWriter
from accord.table_check.agreement import judge_pairs, table_point
from accord.table_check.table import JudgedTable

Floats = NDArray[np.float64]

MAX_VALUES = 11
"""Largest number of values of a table of counts."""
ID, SYSTEM, JUDGE, LABELS, CELL, TEXT = "id", "system", "judge", "labels", "cell", "text"
UNANIMOUS, SPLIT, SINGLE = "unanimous", "split", "one label"


@dataclass(frozen=True)
class Confusion:
    """Counts of labels by the label and the judge's answer in the same row.

    Each label of a person is one count; with several runs of the judge, each run of its row is one.

    Attributes:
        values: Values of the scale that occur, as names.
        counts: Counts by label (rows) and answer (columns), in the order of `values`.
        numbers: The values as numbers.
        runs: Number of runs of the judge.
    """

    values: Sequence[str]
    counts: Sequence[Sequence[int]]
    numbers: Sequence[float]
    runs: int = 1

    @property
    def unit(self) -> str:
        """Unit of the counts."""
        return "one count a label" + (" and run of the judge" if self.runs > 1 else "")


def confusion_table(table: JudgedTable) -> Confusion | str:
    """Return the counts, or the reason why there are none."""
    if table.answer is None:
        return table.no_answer
    if table.scale.kind == "continuous":
        return "the scale is continuous"
    pairs = judge_pairs(table, table.answer)
    if not len(pairs):
        return "no row has a score and a label"
    values = np.union1d(pairs.first, pairs.second)
    if table.scale.is_two_valued:
        values = np.union1d(values, table.scale.ends)
    if len(values) > MAX_VALUES:
        return f"{len(values)} values occur, and counts are shown of at most {MAX_VALUES}"
    size = len(values)
    cells = np.searchsorted(values, pairs.first) * size + np.searchsorted(values, pairs.second)
    counts = np.bincount(cells, minlength=size * size).reshape(size, size)
    return Confusion(
        [table.scale.name(value) for value in values], counts.tolist(), values.tolist(), table.answer.shape[1]
    )


def is_split(table: JudgedTable) -> NDArray[np.bool_]:
    """Return (n,) True for rows with different labels of people."""
    low, high = _ends_of_rows(table.labels)
    return high > low


def _ends_of_rows(values: Floats) -> tuple[Floats, Floats]:
    known = ~np.isnan(values)
    return (
        np.where(known, values, np.inf).min(axis=1, initial=np.inf),
        np.where(known, values, -np.inf).max(axis=1, initial=-np.inf),
    )


def differing_rows(table: JudgedTable) -> NDArray[np.intp]:
    """Return the places of rows where the judge, in any run, and any person differ; by over a point if continuous.

    Raises:
        BadInput: The judge answers on another scale.
    """
    if table.answer is None:
        raise BadInput(
            f"{table.name}: {table.no_answer}; without an answer on the scale of people no row can be called different"
        )
    least = table_point(table) if table.scale.kind == "continuous" else 0.0
    low, high = _ends_of_rows(table.labels)
    lowest, highest = _ends_of_rows(table.answer)
    widest = np.maximum(high - lowest, highest - low)  # minus infinity without a label or an answer
    return np.flatnonzero(widest > least + 1e-9)


def most_different(table: JudgedTable, most: int) -> list[dict[str, str | None]]:
    """Return rows where the judge and a person differ; those with the most different mean answer and label first.

    Raises:
        BadInput: The judge answers on another scale.
    """
    places = differing_rows(table)
    answer = table.mean_answer
    assert answer is not None
    order = np.argsort(-np.abs(answer - table.mean_label)[places], kind="stable")[:most]
    return [table_row(table, int(place)) for place in places[order]]


def rows_of_cell(table: JudgedTable, label: float, answer: float) -> NDArray[np.intp]:
    """Return the places of rows with a label and an answer."""
    assert table.answer is not None
    return np.flatnonzero((table.labels == label).any(axis=1) & (table.answer == answer).any(axis=1))


def row_columns(table: JudgedTable) -> list[str]:
    """Return the columns of `table_row`."""
    fixed = [ID, *([SYSTEM] if table.system is not None else []), JUDGE]
    return [*fixed, *_people_columns(table), LABELS, CELL, *([TEXT] if table.text is not None else [])]


def _people_columns(table: JudgedTable) -> list[str]:
    """Return a column for each person, with another name than the fixed columns and each other."""
    taken, names = {ID, SYSTEM, JUDGE, LABELS, CELL, TEXT}, []
    for person in table.people:
        name = person
        while name in taken:
            name += " (person)"
        taken.add(name)
        names.append(name)
    return names


def table_row(table: JudgedTable, place: int) -> dict[str, str | None]:
    """Return a row with its columns: the judge's answers by run, each person's label, and the cells that differ."""
    assert table.answer is not None
    answers = [value for value in table.answer[place] if not np.isnan(value)]
    labels = table.labels[place]
    known = [value for value in labels if not np.isnan(value)]
    name = table.scale.exact_name
    pairs = dict.fromkeys((label, answer) for label in known for answer in answers if label != answer)
    row: dict[str, str | None] = {ID: str(table.item[place])}
    if table.system is not None:
        row[SYSTEM] = table.system[place]
    row[JUDGE] = " / ".join(map(name, answers))
    for column, label in zip(_people_columns(table), labels, strict=True):
        row[column] = None if np.isnan(label) else name(label)
    row[LABELS] = SINGLE if len(known) == 1 else UNANIMOUS if len(set(known)) == 1 else SPLIT
    row[CELL] = "; ".join(f"people {name(label)}, judge {name(answer)}" for label, answer in pairs)
    if table.text is not None:
        row[TEXT] = table.text[place]
    return row


def write_differing_rows(table: JudgedTable, path: Path) -> int:
    """Write the rows where the judge and a person differ as CSV, JSON lines or Parquet; return their number.

    Raises:
        BadInput: The file has another ending, or the judge answers on another scale.
    """
    places, columns = differing_rows(table), row_columns(table)
    is_table = path.suffix != ".jsonl"
    names = {column: _cell(column, is_table) or "" for column in columns}
    with RowWriter(path, "rows", list(names.values()), {}) as writer:
        for place in places:
            row: Mapping[str, Any] = table_row(table, int(place))
            writer.put({names[column]: _cell(row[column], is_table) for column in columns})
    return len(places)


def _cell(value: str | None, is_table: bool) -> str | None:
    return escape_formula(sendable(value)) if is_table and value is not None else value


def cell_rows(table: JudgedTable, confusion: Confusion, most: int) -> Iterator[tuple[int, int, list[dict[str, Any]]]]:
    """Yield the place of each cell with rows (label, answer), and its first `most` rows."""
    for first, label in enumerate(confusion.numbers):
        for second, answer in enumerate(confusion.numbers):
            if confusion.counts[first][second]:
                places = rows_of_cell(table, label, answer)[:most]
                yield first, second, [table_row(table, int(place)) for place in places]
