"""What a study came to: answers as a table of turns by annotators, and its statistics with intervals over dialogues."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.statistics import RANK_DRAWS, Clusters, estimate_from_draws
from accord.values import Estimate, Target

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Given = Mapping[tuple[str, Target, str], int]
"""Answers by annotator, turn and question."""


@dataclass(frozen=True)
class Validated:
    """What people looked at: which study, whose assessments, which turns were drawn."""

    flow: str
    signature: str
    turns: tuple[Target, ...]


@dataclass(frozen=True, kw_only=True)
class Outcome(ABC):
    """What a study came to so far; figures carry 95 % intervals over dialogues.

    Attributes:
        flow: Of the study.
        signature: Of the maker whose assessments were validated.
        planned: How many turns were drawn, of which `examples` have answers.
    """

    flow: str
    signature: str
    planned: int
    examples: int

    @abstractmethod
    def lines(self) -> list[str]:
        """Blocks of plain text for a terminal."""

    def to_json(self) -> dict[str, Any]:
        """Everything."""
        return asdict(self)


@dataclass(frozen=True)
class Table:
    """Who answered what.

    Attributes:
        targets: N turns, by conversation and turn.
        annotators: A names, sorted.
        answers: (N, A), NaN where somebody has not answered.
    """

    targets: tuple[Target, ...]
    annotators: tuple[str, ...]
    answers: Floats


def table(given: Given, questions: Sequence[str], known: Iterable[Target]) -> list[Table]:
    """One table per question, of the same turns and annotators; only answers to all questions count."""
    wanted = set(known)
    whole = sorted(
        {(who, turn) for who, turn, _ in given if turn in wanted and all((who, turn, q) in given for q in questions)}
    )
    targets, people = sorted({turn for _, turn in whole}), sorted({who for who, _ in whole})
    row, column = ({name: place for place, name in enumerate(names)} for names in (targets, people))
    tables = []
    for question in questions:
        answers = np.full((len(targets), len(people)), np.nan)
        for who, turn in whole:
            answers[row[turn], column[who]] = given[who, turn, question]
        tables.append(Table(tuple(targets), tuple(people), answers))
    return tables


@dataclass(frozen=True)
class Resampling:
    """Draws of whole dialogues, the same for every statistic.

    Attributes:
        everything: (N,) all rows.
        draws: Row indices of each draw, repeats included.
    """

    everything: Indices
    draws: tuple[Indices, ...]

    @classmethod
    def of(cls, targets: Sequence[Target], draws: int = RANK_DRAWS, seed: int = 0) -> Resampling:
        """Draws of the dialogues of some turns; none where there are fewer than two dialogues."""
        clusters = Clusters([turn.conversation for turn in targets]) if targets else None
        drawn = () if clusters is None or len(clusters) < 2 else tuple(map(clusters.rows, clusters.counts(draws, seed)))
        return cls(np.arange(len(targets)), drawn)

    def figure(self, statistic: Callable[[Indices], float | None]) -> Estimate:
        """A statistic of rows with its 95 % interval; `None` where undefined."""
        value = statistic(self.everything) if len(self.everything) else None
        if value is None or not self.draws:
            return Estimate(value)
        drawn = [statistic(rows) for rows in self.draws]
        return estimate_from_draws(value, np.array([np.nan if each is None else each for each in drawn]))

    def share(self, holds: NDArray[np.bool_], among: NDArray[np.bool_]) -> Estimate:
        """The share of rows `among` (N,) for which something `holds` (N,), as a figure."""

        def of(rows: Indices) -> float | None:
            counted = holds[rows][among[rows]]
            return float(counted.mean()) if len(counted) else None

        return self.figure(of)
