"""Evidence table: rows are targets, columns are features, with a mask and reasons for missing values."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, TypeAdapter

from accord.edges import BadInput
from accord.values import Sample, Target

MEANING = "meaning:"
"""Prefix of the names of columns of sentence embeddings."""


@dataclass(frozen=True, slots=True)
class Column:
    """One feature.

    Attributes:
        name: Unique name.
        signature: Signature of the source that made the values.
        question: Question of an answer block.
        option: Option of an answer block; the value is the option's probability by the judge.
        centre: In a table of differences, the mean over the compared conversations.
        part_of: Name of the feature that the column belongs to; 0 means that the feature is absent. Attributions
            report the contribution of the feature.
        source: Name of the source.

    >>> Column("words", "length|version:1").name
    'words'
    """

    __pydantic_config__ = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    @property
    def maker(self) -> str:
        """Signature of the source, without the name of the feature and the question."""
        return self.signature.split("|name:")[0].split("|question:")[0]

    name: str
    signature: str
    question: str | None = None
    option: float | None = None
    centre: float | None = None
    part_of: str | None = None
    source: str | None = None


_COLUMNS = TypeAdapter(list[Column])


def columns_from(rows: Iterable[Any]) -> tuple[Column, ...]:
    """Return saved columns, validated; inverse of `dataclasses.asdict`. `ValueError` for two columns of one name."""
    columns = tuple(_COLUMNS.validate_json(json.dumps(list(rows))))
    if len({column.name for column in columns}) < len(columns):
        raise ValueError("two columns have the same name")
    return columns


@dataclass(frozen=True)
class Note:
    """Information that a source attaches to the score of one target.

    Attributes:
        shown: Values in scores, reports and pages, by name (`issues`, `net_sat`, ...).
        warning: Reason to trust the score less.
    """

    shown: Mapping[str, Any] = field(default_factory=dict)
    warning: str | None = None

    def plus(self, other: Note) -> Note:
        """Merge two notes."""
        warnings = [warning for warning in (self.warning, other.warning) if warning]
        return Note({**self.shown, **other.shown}, "; ".join(warnings) or None)


@dataclass(frozen=True)
class EvidenceTable:
    """Features of targets.

    Attributes:
        targets: n rows.
        columns: d columns.
        values: (n, d) floats; 0 if missing.
        present: (n, d) booleans.
        absences: Reason for a missing value, by (target, question or column name).
        versions: Version of the judge by target, if its endpoint returned one.
        notes: Notes by target.
        metadata: Metadata of the conversation by target, such as the system.

    >>> rows = {Target("c1"): {"words": 12.0}, Target("c2"): {}}
    >>> table = EvidenceTable.from_rows([Column("words", "length|version:1")], rows)
    >>> len(table), table.values.tolist(), table.present.tolist()
    (2, [[12.0], [0.0]], [[True], [False]])
    """

    targets: tuple[Target, ...]
    columns: tuple[Column, ...]
    values: NDArray[np.float64]
    present: NDArray[np.bool_]
    absences: Mapping[tuple[Target, str], str] = field(default_factory=dict)
    versions: Mapping[Target, str] = field(default_factory=dict)
    notes: Mapping[Target, Note] = field(default_factory=dict)
    metadata: Mapping[Target, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shape = (len(self.targets), len(self.columns))
        if self.values.shape != shape or self.present.shape != shape:
            raise ValueError(f"values {self.values.shape} and mask {self.present.shape} must be {shape}")

    @classmethod
    def of(cls, samples: Iterable[Sample]) -> EvidenceTable:
        """Return a table of samples without columns, to join evidence to."""
        metadata = {sample.target: sample.conversation.metadata for sample in samples}
        empty = np.zeros((len(metadata), 0))
        return cls(tuple(metadata), (), empty, empty.astype(bool), metadata=metadata)

    @classmethod
    def from_rows(
        cls,
        columns: Sequence[Column],
        rows: Mapping[Target, Mapping[str, float]],
        absences: Mapping[tuple[Target, str], str] | None = None,
    ) -> EvidenceTable:
        """Return a table from features by column name; a name that a row lacks is missing there.

        Args:
            columns: d columns.
            rows: Features of n targets, by target and name of the column.
            absences: Reason for a missing value, by target and name of the column.
        """
        values = np.zeros((len(rows), len(columns)))
        present = np.zeros(values.shape, dtype=bool)
        place = {column.name: index for index, column in enumerate(columns)}
        for row, features in enumerate(rows.values()):
            for name, value in features.items():
                values[row, place[name]] = value
                present[row, place[name]] = True
        return cls(tuple(rows), tuple(columns), values, present, dict(absences or {}))

    def __len__(self) -> int:
        return len(self.targets)

    def rows_of(self, targets: Iterable[Target]) -> NDArray[np.intp]:
        """Return the row index of each target; -1 without evidence."""
        place = {target: row for row, target in enumerate(self.targets)}
        return np.array([place.get(target, -1) for target in targets], dtype=np.intp)

    def reasons(self) -> dict[Target, set[str]]:
        """Return the reasons for missing values by target."""
        reasons: dict[Target, set[str]] = {}
        for (target, _), reason in self.absences.items():
            reasons.setdefault(target, set()).add(reason)
        return reasons

    def take(self, rows: NDArray[np.intp] | Sequence[int]) -> EvidenceTable:
        """Return the rows with these indices, in this order."""
        index = np.asarray(rows, dtype=np.intp)
        targets = tuple(self.targets[row] for row in index)
        selected = frozenset(targets)
        absences = {key: reason for key, reason in self.absences.items() if key[0] in selected}
        return replace(self, targets=targets, values=self.values[index], present=self.present[index], absences=absences)

    def filter(
        self, groups: Iterable[str], group_of: Callable[[Target], str] = lambda target: target.conversation
    ) -> EvidenceTable:
        """Return the rows of some groups (`Labels.group_of`); a group is a conversation by default."""
        selected = frozenset(groups)
        return self.take([row for row, target in enumerate(self.targets) if group_of(target) in selected])

    def select(self, places: Sequence[int]) -> EvidenceTable:
        """Return the columns at these indices, in this order."""
        index = np.asarray(places, dtype=np.intp)
        columns = tuple(self.columns[place] for place in index)
        return replace(self, columns=columns, values=self.values[:, index], present=self.present[:, index])

    def with_only(self, present: NDArray[np.bool_]) -> EvidenceTable:
        """Return the table with all values outside the mask `present` (n, d) missing."""
        known = self.present & present
        return replace(self, values=np.where(known, self.values, 0.0), present=known)

    def concat(self, other: EvidenceTable) -> EvidenceTable:
        """Append the rows of another table with the same columns."""
        values, present = np.vstack([self.values, other.values]), np.vstack([self.present, other.present])
        return self._merged(other, targets=(*self.targets, *other.targets), values=values, present=present)

    def join(self, other: EvidenceTable) -> EvidenceTable:
        """Return the columns of both tables for the targets of either; values outside a table are missing."""
        targets = tuple(dict.fromkeys((*self.targets, *other.targets)))
        parts = [_spread(table, targets) for table in (self, other)]
        values, present = np.hstack([part[0] for part in parts]), np.hstack([part[1] for part in parts])
        columns = (*self.columns, *other.columns)
        return self._merged(other, targets=targets, columns=columns, values=values, present=present)

    def _merged(self, other: EvidenceTable, **changes: Any) -> EvidenceTable:
        """Return this table with some changes, and the reasons, versions, notes and metadata of both tables."""
        shared = {t: note.plus(other.notes[t]) for t, note in self.notes.items() if t in other.notes}
        return replace(
            self, absences={**self.absences, **other.absences}, versions={**self.versions, **other.versions},
            notes={**self.notes, **other.notes, **shared}, metadata={**self.metadata, **other.metadata}, **changes,
        )  # fmt: skip

    def align(self, columns: Sequence[Column]) -> EvidenceTable:
        """Return the table with these columns only, in their order; differences are centered.

        `BadInput` if a column is missing, or has another signature.
        """
        if tuple(columns) == self.columns and not any(column.centre for column in columns):
            return self
        place = {column.name: index for index, column in enumerate(self.columns)}
        for column in columns:
            if column.name not in place:
                raise BadInput(
                    f"the evidence has no column {column.name!r}, which the evaluator learned from. Run: accord judge"
                )
            signature = self.columns[place[column.name]].signature
            if signature != column.signature:
                raise BadInput(
                    f"column {column.name!r} comes from {signature}, the evaluator learned from {column.signature}. "
                    "Gather it the same way, or fit again: accord fit"
                )
        own = self.select([place[column.name] for column in columns])
        # Differences are centered already.
        centres = [new.centre or 0.0 if c.centre is None else 0.0 for c, new in zip(own.columns, columns, strict=True)]
        values = np.where(own.present, own.values - np.array(centres), 0.0)
        return replace(own, columns=tuple(columns), values=values)

    def expected(self) -> EvidenceTable:
        """Return the table with one column per answer block: the expected answer, named by its question.

        The expectation is conditional on the options: probability outside them is ignored. A block without probability
        is missing. Other columns are unchanged.
        """
        if all(column.question is None for column in self.columns):
            return self
        blocks = self._blocks()
        columns: list[Column] = []
        values, present = np.zeros((len(self), len(blocks))), np.zeros((len(self), len(blocks)), dtype=bool)
        for block, (question, places) in enumerate(blocks):
            first = self.columns[places[0]]
            if question is None:
                columns.append(first)
                values[:, block], present[:, block] = self.values[:, places[0]], self.present[:, places[0]]
            else:
                columns.append(Column(question, first.signature, question, source=first.source))
                options = np.array([self.columns[place].option for place in places], dtype=float)
                mass, total, known = self._answered(places)
                values[:, block], present[:, block] = np.where(known, by_row(mass, options) / total, 0.0), known
        return replace(self, columns=tuple(columns), values=values, present=present)

    def distribution(self, question: str) -> tuple[tuple[float, ...], NDArray[np.float64], NDArray[np.bool_]]:
        """Return the answer block of a question.

        Returns:
            Options (K), probabilities (n, K) that sum to 1, and a mask of the rows that have an answer (n).

        Raises:
            BadInput: No column answers the question.
        """
        places = [place for place, column in enumerate(self.columns) if column.question == question]
        options = tuple(self.columns[place].option for place in places)
        if not places or None in options:
            raise BadInput(f"no judge answered question {question!r} in this evidence. Ask one: accord judge")
        mass, total, known = self._answered(places)
        shares = mass / total[:, None]
        return tuple(float(option) for option in options if option is not None), shares, known

    def _answered(self, places: Sequence[int]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
        """Return (n, K) probabilities of an answer block, (n,) their sums or 1, and a mask of answered rows."""
        mass = np.ascontiguousarray(self.values[:, places])  # sums do not depend on other rows, see `by_row`
        total = mass.sum(axis=1)
        known = self.present[:, places].all(axis=1) & (total > 0)
        return mass, np.where(known, total, 1.0), known

    def _blocks(self) -> list[tuple[str | None, list[int]]]:
        """Return column indices in order, grouped by answer block; a plain column is a block without a question."""
        blocks: dict[object, tuple[str | None, list[int]]] = {}
        for place, column in enumerate(self.columns):
            question = None if column.option is None else column.question
            blocks.setdefault(place if question is None else question, (question, []))[1].append(place)
        return list(blocks.values())


def by_row(X: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (n,) X @ w or (n, m) X @ W. Each row is bit-identical for any other rows in X.

    BLAS rounds a row depending on the number of rows, so a reply alone would get another score than in a batch.
    """
    return np.asarray(np.einsum("nk,k...->n...", np.ascontiguousarray(X), weights))


def _spread(table: EvidenceTable, targets: Sequence[Target]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return values and mask of a table with one row per target in `targets`."""
    rows = table.rows_of(targets)
    is_present = rows >= 0
    values = np.zeros((len(targets), len(table.columns)))
    present = np.zeros(values.shape, dtype=bool)
    values[is_present], present[is_present] = table.values[rows[is_present]], table.present[rows[is_present]]
    return values, present
