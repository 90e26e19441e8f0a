"""From turns to a dialogue without learning (SODA-EVAL, appendix C.3): the mean of its turns' scores, or the lowest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np

from accord.assessment import HIGHEST, LOWEST
from accord.errors import BadInput
from accord.evaluators.base import evaluators
from accord.evaluators.unlearned import Unlearned
from accord.evidence.issues import LOWEST_SCORE, NOT_ASSESSED, SCORE
from accord.evidence.table import EvidenceTable
from accord.labels import Labels
from accord.score import POPULATION, Score, Signature, Unscored, score_from
from accord.version import __version__


class _TurnScores(Unlearned):
    """Repeats what a model said of turns, moved to the question's scale, and learns nothing."""

    column: ClassVar[str]

    def fit(self, evidence: EvidenceTable, labels: Labels) -> Self:
        """Check that turns were scored.

        Raises:
            BadInput: They were not.
        """
        self._place(evidence)
        return self

    def predict_each(self, evidence: EvidenceTable, annotators: Sequence[str | None]) -> list[Score | Unscored]:
        """The turns' score, between the two nearest options, whoever is asked for."""
        place = self._place(evidence)
        signature = Signature.of(self.method, question=self.question.id, version=__version__)
        found: list[Score | Unscored] = []
        for row, (target, name) in enumerate(zip(evidence.targets, annotators, strict=True)):
            if evidence.present[row, place]:
                shares = self._shares(float(evidence.values[row, place]))
                found.append(score_from(target, name or POPULATION, self.options_, shares, signature))
            else:
                found.append(Unscored(target, name or POPULATION, NOT_ASSESSED, signature))
        return found

    def _place(self, evidence: EvidenceTable) -> int:
        names = [column.name for column in evidence.columns]
        if self.column not in names:
            raise BadInput(f"no turn has an overall score ({self.column}); have them assessed: accord judge --issues")
        return names.index(self.column)

    def _shares(self, score: float) -> Any:
        """(K,) all mass on the two options around where 1 to 5 lies on the question's scale."""
        options = self.options_
        at = options[0] + (score - LOWEST) / (HIGHEST - LOWEST) * (options[-1] - options[0])
        above = int(np.clip(np.searchsorted(options, at), 1, len(options) - 1))
        share = (at - options[above - 1]) / (options[above] - options[above - 1])
        shares = np.zeros(len(options))
        shares[above - 1], shares[above] = 1.0 - share, share
        return shares


@evaluators.register("mean-turn")
class MeanTurn(_TurnScores):
    """Says of a dialogue the mean of what a model said of its turns."""

    method, column = "mean-turn", SCORE


@evaluators.register("lowest-turn")
class LowestTurn(_TurnScores):
    """Says of a dialogue the lowest of what a model said of its turns: one critical error spoils it."""

    method, column = "lowest-turn", LOWEST_SCORE
