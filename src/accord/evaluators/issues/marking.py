"""Which issues people would mark in a turn: how findings become marks, for every kind with enough marks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accord.errors import BadInput
from accord.evaluators.issues.design import Design
from accord.evaluators.issues.marks import Marks, learn_marks
from accord.evidence.issues import WORST
from accord.evidence.table import EvidenceTable
from accord.labels import Labels
from accord.taxonomy import ISSUE

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Marked:
    """How probable it is that a person marks an issue of this kind, and whether that is enough to call it there."""

    type: str
    probability: float
    is_called: bool


@dataclass(frozen=True)
class Marking:
    """What was learned of people's marks.

    Attributes:
        design: How evidence becomes inputs.
        marks: By kind.
    """

    design: Design
    marks: Mapping[str, Marks]

    @classmethod
    def fit(cls, evidence: EvidenceTable, labels: Labels, seed: int = 0) -> Self:
        """Learn from every mark whose target has evidence; kinds with too few marks are left out.

        Raises:
            BadInput: A mark is neither 0 nor 1.
        """
        turns = [row for row, target in enumerate(evidence.targets) if target.turn is not None]
        evidence = evidence.take(turns) if turns else evidence  # a mark of a whole dialogue is of another kind
        design = Design.fit(evidence)
        inputs = design.of(evidence)
        found: dict[str, Marks] = {}
        for kind in kinds_of(evidence):
            own, known = finding(evidence, kind)
            rows, marked = marks_of(evidence, labels, kind)
            rows, marked = rows[known[rows]], marked[known[rows]]
            groups = [evidence.targets[row].conversation for row in rows]
            learned = learn_marks(own[rows], inputs[rows], marked, groups, seed)
            if learned is not None:
                found[kind] = learned
        return cls(design, found)

    def chances(self, evidence: EvidenceTable, kind: str) -> tuple[Floats, NDArray[np.bool_]]:
        """(n,) the probability of a mark of a kind, and which rows have a finding to go by (n,)."""
        own, known = finding(evidence, kind)
        return self.marks[kind].probabilities(own, self.design.of(evidence)), known

    def find(self, evidence: EvidenceTable) -> list[list[Marked]]:
        """For each row the kinds that were learned of, the likeliest first; none where nothing was found or looked for.

        Raises:
            BadInput: The evidence lacks a column, or was made otherwise than what was learned from.
        """
        found: list[list[Marked]] = [[] for _ in evidence.targets]
        for kind, marks in self.marks.items():
            chances, known = self.chances(evidence, kind)
            for row in np.flatnonzero(known):
                found[row].append(Marked(kind, float(chances[row]), bool(chances[row] >= marks.threshold)))
        return [sorted(each, key=lambda one: -one.probability) for each in found]

    def to_json(self) -> dict[str, Any]:
        """All but the design's arrays."""
        return {"design": self.design.to_json(), "marks": {kind: each.to_json() for kind, each in self.marks.items()}}

    @classmethod
    def restore(cls, card: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The inverse of `to_json` and `design.arrays`."""
        marks = {kind: Marks.from_json(row) for kind, row in card["marks"].items()}
        return cls(Design.restore(card["design"], arrays), marks)


def kinds_of(evidence: EvidenceTable) -> list[str]:
    """The kinds of issues that evidence tells of, in the order of its columns."""
    names = [column.name for column in evidence.columns]
    return [name.removeprefix(ISSUE) for name in names if name.startswith(ISSUE) and f"{name}{WORST}" in names]


def finding(evidence: EvidenceTable, kind: str) -> tuple[Floats, NDArray[np.bool_]]:
    """(n,) how much of a kind was found in each row, and where somebody looked (n,).

    Raises:
        BadInput: Nobody looked for it.
    """
    names = [column.name for column in evidence.columns]
    if ISSUE + kind not in names:
        raise BadInput(f"the evidence says nothing of {kind!r}; it tells of {', '.join(kinds_of(evidence)) or 'none'}")
    place = names.index(ISSUE + kind)
    return evidence.values[:, place], evidence.present[:, place]


def marks_of(evidence: EvidenceTable, labels: Labels, kind: str) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """(n,) rows and whether they were marked: one a label of 0 or 1 on a kind of issue whose target has evidence.

    Raises:
        BadInput: A mark is neither.
    """
    on_kind = [*labels.on(kind), *labels.on(ISSUE + kind)]
    for label in on_kind:
        if label.value not in (0, 1):
            said = f"label of {label.annotator!r} on {label.target}"
            raise BadInput(f"{said}: a mark of {kind!r} is 0 or 1, got {label.value!r}")
    rows = evidence.rows_of(label.target for label in on_kind)
    kept = [(int(row), label.value == 1) for row, label in zip(rows, on_kind, strict=True) if row >= 0]
    return np.array([row for row, _ in kept], dtype=np.intp), np.array([mark for _, mark in kept], dtype=bool)
