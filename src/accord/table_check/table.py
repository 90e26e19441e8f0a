"""A table with a judge's scores and human labels: its rows as arrays, of any form.

Rows of a long table that name a run or an annotator are joined by item and system. If a run or person occurs twice,
rows stay separate, and are counted as several rows of one item.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput, BadRow, count_of, one_line
from accord.formats import (
    MIN_PARSED,
    Columns,
    MemoryTable,
    TableOptions,
    TableRoles,
    WordOrder,
    encoding_notes,
    holds_text,
    is_missing,
    is_none,
    locate,
    number_of,
    read_rows,
    source_of,
)
from accord.table_check.columns import find_columns
from accord.table_check.scales import Parse, TableScale, has_none_as_answer, ordered_parser, stated_order, table_scale
from accord.values import content_hash

Floats = NDArray[np.float64]
Names = NDArray[np.object_]
ValueCell = tuple[int, str, Any]
"""Row, column and cell of a label or a score."""

MAX_DEPTH = 3
"""Depth up to which the entries of an object are columns: `scores.judge`."""


@dataclass(frozen=True)
class JudgedTable:
    """Rows with the judge's scores and the labels of people.

    Attributes:
        name: Name of the file or table.
        rows: Number of rows of the file.
        roles: Roles of its columns.
        scale: Scale of the labels.
        item: (n,) item of each row.
        system: (n,) system, or `None` for a table without systems.
        score: (n, R) scores of each run of the judge; NaN for none.
        labels: (n, A) labels of each person; NaN for none.
        people: (A,) names.
        groups: (n,) value of each grouping by name.
        length: (n,) length, NaN if unknown, or `None` if the table has no lengths.
        split: (n,) part of the data, or None.
        notes: Remarks on values that were left out.
        confidence: (n,) confidence of the judge, NaN if unknown, or `None` if the table has no such column.
        text: (n,) text that is judged, or None.
    """

    name: str
    rows: int
    roles: TableRoles
    scale: TableScale
    item: Names
    system: Names | None
    score: Floats
    labels: Floats
    people: Sequence[str]
    groups: Mapping[str, Names]
    length: Floats | None
    split: Names | None
    notes: Sequence[str]
    confidence: Floats | None = None
    text: Names | None = None

    @cached_property
    def answer(self) -> Floats | None:
        """(n, R) the judge's answers on the scale of the labels; None on another scale."""
        if self.scale.judge_threshold is not None:
            low, high = self.scale.ends
            return np.where(np.isnan(self.score), np.nan, np.where(self.score >= self.scale.judge_threshold, high, low))
        return self.score if self.scale.has_same else None

    @property
    def no_answer(self) -> str:
        """Reason why the judge has no answers on the scale of the labels."""
        if self.scale.is_two_valued:
            return "the judge answers on another scale than people; set a threshold with --threshold"
        return "the judge answers on another scale than people"

    @property
    def labels_by(self) -> dict[str, int]:
        """Number of labels by person."""
        return {name: int((~np.isnan(self.labels[:, place])).sum()) for place, name in enumerate(self.people)}

    @property
    def digests(self) -> dict[str, str]:
        """Digests of the labels and of the judge's scores with their items; the order of rows makes no difference."""
        parts = {"labels": self.labels, "judge": self.score}
        return {
            name: content_hash(sorted(zip(map(str, self.item), map(str, values.tolist()), strict=True)), length=16)
            for name, values in parts.items()
        }

    @cached_property
    def mean_answer(self) -> Floats | None:
        """(n,) mean answer over the runs on the scale of the labels; None on another scale."""
        return None if self.answer is None else _row_means(self.answer)

    @cached_property
    def mean_score(self) -> Floats:
        """(n,) mean score over the runs."""
        return _row_means(self.score)

    @cached_property
    def mean_label(self) -> Floats:
        """(n,) mean label over people."""
        return _row_means(self.labels)

    @cached_property
    def is_judged(self) -> NDArray[np.bool_]:
        """(n,) True for rows with a score."""
        return ~np.isnan(self.mean_score)

    @cached_property
    def is_labeled(self) -> NDArray[np.bool_]:
        """(n,) True for rows with a score and a label."""
        return self.is_judged & ~np.isnan(self.mean_label)


def _row_means(values: Floats) -> Floats:
    count = (~np.isnan(values)).sum(axis=1)
    return np.where(count > 0, np.nansum(values, axis=1) / np.maximum(count, 1), np.nan)


@dataclass(frozen=True)
class ReadCells:
    """Cells of a table.

    Attributes:
        name: Name of the file or table.
        columns: Cells by column, or `None` for a missing column.
        rows: Number of rows.
        has_text: True if they hold texts of conversations.
        notes: Remarks on rows that were left out.
    """

    name: str
    columns: Columns
    rows: int
    has_text: bool
    notes: Sequence[str]


def read_cells(given: Any, orders: Sequence[WordOrder] = ()) -> ReadCells:
    """Read the cells of a path, data frame, Arrow table, or list of dicts.

    Raises:
        BadInput: The table cannot be read, or has no rows.
    """
    source = locate(source_of(given))
    name = "the table" if isinstance(source, MemoryTable) else source.name
    return ReadCells(name, *_read_columns(source, name, orders))


def judged_table(
    cells: ReadCells, options: TableOptions, yes: str | None, threshold: float | None, orders: Sequence[WordOrder] = ()
) -> JudgedTable:
    """Return the rows of a table as arrays.

    Args:
        cells: Its cells.
        options: Columns that the user names.
        yes: Word that counts as the upper of two values.
        threshold: Lowest value that counts as upper.
        orders: Orders of words that the user states.

    Raises:
        BadInput: An order lacks a value, or the table holds no judge's scores or no labels.
    """
    roles = find_columns(cells.columns, options, cells.name, cells.has_text)
    notes = [*cells.notes, *roles.notes]
    return _built(cells.name, cells.columns, cells.rows, roles, yes, threshold, notes, orders)


def _read_columns(
    source: Path | MemoryTable, name: str, orders: Sequence[WordOrder]
) -> tuple[dict[str, list[Any]], int, bool, list[str]]:
    """Return the cells by column, the number of rows, True if they hold texts of conversations, and remarks."""
    cells: dict[str, list[Any]] = {}
    rows, bad, first, has_text = 0, 0, "", False
    for row in read_rows(source):
        if isinstance(row, BadRow):
            bad, first = bad + 1, first or f"line {row.line}: {row.reason}"
            continue
        has_text = has_text or (rows == 0 and holds_text(row.fields))
        for column, cell in _flat(row.fields):
            column_cells = cells.setdefault(column, [])
            column_cells += [None] * (rows - len(column_cells))
            column_cells.append(None if is_missing(cell) and not is_none(cell) else cell)
        rows += 1
    for column_cells in cells.values():
        column_cells += [None] * (rows - len(column_cells))
        if any(map(is_none, column_cells)) and not has_none_as_answer(column_cells, orders):
            column_cells[:] = [None if is_none(cell) else cell for cell in column_cells]
    if not rows:
        raise BadInput(
            f"{name} has no rows" + (f" that can be read ({first})" if first else "") + "; name another file"
        )
    notes = [] if isinstance(source, MemoryTable) else encoding_notes([source])
    notes += [f"{count_of(bad, 'row')} left out: {first}"] if bad else []
    return cells, rows, has_text, notes


def _flat(fields: Mapping[str, Any], prefix: str = "", depth: int = MAX_DEPTH) -> Iterator[tuple[str, Any]]:
    """Yield columns and cells; entries of objects are columns with dotted names."""
    for name, cell in fields.items():
        if isinstance(cell, Mapping) and depth > 1:
            yield from _flat(cell, f"{prefix}{name}.", depth - 1)
        else:
            yield f"{prefix}{name}", cell


def _built(
    name: str,
    cells: Columns,
    rows: int,
    roles: TableRoles,
    yes: str | None,
    threshold: float | None,
    notes: list[str],
    orders: Sequence[WordOrder] = (),
) -> JudgedTable:
    """Return the rows of a table as arrays."""
    people_cells, judge_cells = _value_cells(cells, rows, roles)
    scale, parse, parse_judge = table_scale(
        [cell for *_, cell in people_cells], [cell for *_, cell in judge_cells], yes, threshold, name,
        stated_order(orders, [*people_cells, *judge_cells], name),
    )  # fmt: skip
    place, size = _places(cells, rows, roles, notes)
    people = _matrix(people_cells, place, size, parse, cells, roles.annotator, roles.people, notes, "label")
    judge = _matrix(judge_cells, place, size, parse_judge, cells, roles.run, list(roles.judges), notes, "score")
    first = np.full(size, -1, dtype=np.intp)
    first[place[::-1]] = np.arange(rows)[::-1]

    def column_of(column: str | None) -> Names | None:
        if column is None:
            return None
        found: Names = np.full(size, None, dtype=object)
        found[:] = [None if cells[column][int(row)] is None else str(cells[column][int(row)]) for row in first]
        return found

    item = column_of(roles.item)
    missing = [f"row {row + 1}" for row in first]
    names = missing if item is None else [each or other for each, other in zip(item, missing, strict=True)]
    groups = {each: column_of(each) for each in roles.groups}
    return JudgedTable(
        name=name, rows=rows, roles=roles, scale=scale, item=np.array(names, dtype=object),
        system=column_of(roles.system), score=judge[0], labels=people[0], people=people[1],
        groups={each: values for each, values in groups.items() if values is not None},
        length=_length(cells, roles, first), split=column_of(roles.split), notes=notes,
        confidence=_confidence(cells, roles, place, size, name), text=column_of(roles.text),
    )  # fmt: skip


def _value_cells(cells: Columns, rows: int, roles: TableRoles) -> tuple[list[ValueCell], list[ValueCell]]:
    """Return the labels of people and the judge's scores; in a long table the annotator decides which a cell is."""
    people = [(row, column, cells[column][row]) for column in roles.people for row in range(rows)]
    judge = [(row, column, cells[column][row]) for column in roles.judges for row in range(rows)]
    if roles.models:
        assert roles.annotator is not None
        who = cells[roles.annotator]
        judge = [each for each in people if str(who[each[0]]) in roles.models]
        people = [each for each in people if str(who[each[0]]) not in roles.models]
    return people, judge


def _places(cells: Columns, rows: int, roles: TableRoles, notes: list[str]) -> tuple[NDArray[np.intp], int]:
    """Return the (rows,) place of each row among the joined rows, and their number."""
    forms = [each for each in (roles.annotator, roles.run) if each is not None]
    if roles.item is None or not forms:
        return np.arange(rows), rows
    keys: dict[tuple[Any, ...], int] = {}
    seen: set[tuple[Any, ...]] = set()
    place = np.zeros(rows, dtype=np.intp)
    for row in range(rows):
        if cells[roles.item][row] is None:  # rows without an item have nothing in common
            place[row] = keys.setdefault((row,), len(keys))
            continue
        key = tuple(str(cells[column][row]) for column in (roles.item, roles.system) if column is not None)
        form = (*key, *(str(cells[column][row]) for column in forms))
        if form in seen:
            notes.append(
                f"item {key[0]!r} has two rows of the same {' and '.join(forms)}, so rows are not joined by item; they "
                "are counted as separate rows of one item"
            )
            return np.arange(rows), rows
        seen.add(form)
        place[row] = keys.setdefault(key, len(keys))
    return place, len(keys)


def _matrix(
    given: Sequence[ValueCell], place: NDArray[np.intp], size: int, parse: Parse, cells: Columns,
    by: str | None, columns: Sequence[str], notes: list[str], what: str,
) -> tuple[Floats, list[str]]:  # fmt: skip
    """Return (size, sources) numbers, and the names of their sources: columns, or values of the column `by`."""
    sources: dict[str, int] = {} if by is not None else {column: number for number, column in enumerate(columns)}
    found: list[tuple[int, int, float]] = []
    left: list[Any] = []
    for row, column, cell in given:
        if cell is None:
            continue
        number = parse(cell)
        if number is None:
            left.append(cell)
            continue
        name = column if by is None else str(cells[by][row])
        found.append((int(place[row]), sources.setdefault(name, len(sources)), number))
    values = np.full((size, max(len(sources), 1)), np.nan)
    for row, source, number in found:
        values[row, source] = number
    if left:
        examples = ", ".join(dict.fromkeys(repr(str(each)[:20]) for each in left[:20]))
        notes.append(
            f"{count_of(len(left), what)} left out, which {'is' if len(left) == 1 else 'are'} off the scale: {examples}"
        )
    return values, list(sources)


def _length(cells: Columns, roles: TableRoles, first: NDArray[np.intp]) -> Floats | None:
    """Return the (n,) length of each row, from a column or from the words of a text."""
    if roles.length is not None:
        column = cells[roles.length]
        return np.array([_number(column[row]) for row in first])
    if roles.text is not None:
        column = cells[roles.text]
        return np.array([len(str(column[row]).split()) if column[row] is not None else np.nan for row in first], float)
    return None


def _confidence(cells: Columns, roles: TableRoles, place: NDArray[np.intp], size: int, name: str) -> Floats | None:
    """Return the (size,) confidence of each row, the mean of joined rows; words are numbered in their order."""
    if roles.confidence is None:
        return None
    column = cells[roles.confidence]
    if roles.annotator is not None and roles.models:  # people may have a confidence, too
        who = cells[roles.annotator]
        column = [cell if str(name) in roles.models else None for cell, name in zip(column, who, strict=True)]
    present = [cell for cell in column if not is_missing(cell)]
    parse: Parse | None = _number_or_percent
    if sum(_number_or_percent(cell) is not None for cell in present) < MIN_PARSED * len(present):
        parse = ordered_parser(present)
    if parse is None or not present:
        example = repr(one_line(str(present[0]), 30)) if present else "it is empty"
        raise BadInput(
            f"{name}: the column {roles.confidence!r} holds no confidence of the judge: {example}. A confidence is a "
            "number, or a word with an order (low, medium, high), and higher is surer; name another with --confidence"
        )
    numbers = [None if is_missing(cell) else parse(cell) for cell in column]
    values = np.array([np.nan if number is None else number for number in numbers])
    known = np.isfinite(values)
    counts, sums = (np.bincount(place[known], weights, size) for weights in (None, values[known]))
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def _number_or_percent(cell: Any) -> float | None:
    return number_of(cell.strip().removesuffix("%") if isinstance(cell, str) else cell)


def _number(cell: Any) -> float:
    try:
        return float(cell)
    except (TypeError, ValueError):
        return float("nan")
