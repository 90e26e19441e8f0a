"""What an evaluator selects from: a judge's answers about conversations that people called good or bad."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from accord.errors import BadInput
from accord.evaluators.learned_rubric.likert import Points, answered, points, sides, signed
from accord.evaluators.learned_rubric.selection import Pool
from accord.evaluators.learned_rubric.verdicts import Verdicts, check_both, verdicts
from accord.evaluators.ratings import Ratings
from accord.evidence.table import EvidenceTable
from accord.rubric import Question, Side

MOST_WEIGHT = 100_000
"""Of all assertions together: sums of thousandths stay whole numbers of 32 bits."""


@dataclass(frozen=True)
class TrainingSide:
    """A pool with where it comes from.

    Attributes:
        names: (P,) the candidates.
        points: (P, rows) their answers, for every row of the evidence.
        pool: (P, C) the same on the good and the bad conversations, signed and weighted.
        verdicts: Which rows those are.
        groups: (C,) the conversation of each.
    """

    names: Sequence[str]
    points: Points
    pool: Pool
    verdicts: Verdicts
    groups: Sequence[str]

    @classmethod
    def of(
        cls,
        evidence: EvidenceTable,
        rated: Ratings,
        question: Question,
        classes: Mapping[str, str],
        weights: Mapping[str, float],
        answers: str,
        cuts: tuple[float | None, float | None] = (None, None),
    ) -> TrainingSide:
        """The training side of some ratings; see `LearnedRubric` for the settings.

        Raises:
            BadInput: No question was answered, or one of the classes of conversations is missing.
        """
        found = verdicts(rated, question, *cuts)
        check_both(found, question)
        names = list(classes) or answered(evidence, question.id)
        if not names:
            raise BadInput(
                "no judge answered an assertion here; name a judge, and write some: accord fit learned-rubric"
            )
        said = points(evidence, names, answers)
        values = said.values[:, found.row]
        sat = np.array([classes[name] == Side.SAT for name in names]) if classes else sides(values, found.good)
        counted = np.array([weights.get(name, 1.0) for name in names], dtype=float)
        if counted.sum() > MOST_WEIGHT:
            raise BadInput(
                f"the weights of the assertions sum to {counted.sum():g}, allowed: {MOST_WEIGHT}; scale them"
            )
        pool = Pool(signed(values, sat, counted.tolist()), sat, found.good, counted)
        return cls(names, said, pool, found, [evidence.targets[row].conversation for row in found.row])
