"""The in-context evaluator (Pu et al., *ADOROR*, EMNLP 2023): what an ensemble of answers says of people's ratings.

The ensemble itself is asked for by a `Recipe`; here its distribution and its spread are calibrated, on answers about
examples that were not shown and that the selector had not learned from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import asdict, replace
from typing import Any, Self

from accord.evidence import Column, EvidenceTable, options_of, ratings
from accord.learning.base import Arrays, Evaluator, evaluators
from accord.learning.calibration import Calibration
from accord.methods import BLOCK, SPREAD
from accord.values import POPULATION, BadInput, Labels, Question, Score, Signature, Unscored, score_from
from accord.version import __version__


@evaluators.register("in-context")
class InContext(Evaluator):
    """Scores by a model that is shown rated examples: several diverse requests, averaged and calibrated (ADOROR).

    Args:
        question: The dimension; any ordered or real-valued scale.
        calibrate: Whether the ensemble's distribution is mapped to what people say; without it, it stands as it is.
        coverage: Share of new ratings that the conformal band of a calibrated score should hold.
    """

    method = "in-context"

    def __init__(self, question: Question, calibrate: bool = True, coverage: float = 0.9) -> None:
        super().__init__(question)
        options_of(question)
        self.calibrate, self.coverage = calibrate, coverage
        self._calibration()
        self.columns_: tuple[Column, ...] = ()
        self.link_: Calibration | None = None

    def _calibration(self) -> Calibration:
        return Calibration(self.question, core="mixed", own_slopes=False, coverage=self.coverage)

    def settings(self) -> dict[str, Any]:
        """The constructor's arguments beyond the question."""
        return {"calibrate": self.calibrate, "coverage": self.coverage}

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` or `restore` has run."""
        return bool(self.columns_)

    @property
    def annotators(self) -> list[str]:
        """Everyone whose ratings were learned from."""
        return [] if self.link_ is None else self.link_.annotators

    def fit(self, evidence: EvidenceTable, labels: Labels) -> Self:
        """Learn how people's ratings follow from the ensemble's mean and spread.

        Raises:
            BadInput: No ensemble was asked, or there are too few ratings to calibrate by.
        """
        columns = tuple(c for c in evidence.columns if c.question == self.question.id and c.name.startswith(BLOCK))
        if not columns:
            raise BadInput(
                f"the evidence holds no scores of {self.question.id!r} in context; run: accord fit in-context"
            )
        columns += tuple(column for column in evidence.columns if column.name == SPREAD)
        if self.calibrate:
            shown = evidence.align(columns)
            if len(ratings(shown, labels, self.question)) and not shown.present.any():
                raise BadInput("no request about a rated example was answered, so there is nothing to calibrate")
            self.link_ = self._calibration().fit(shown, labels)
        self.columns_ = columns
        return self

    def predict_each(self, evidence: EvidenceTable, annotators: Sequence[str | None]) -> list[Score | Unscored]:
        """One score a row; a row of which too few requests were answered is unscored, with the reason."""
        self.check_fitted()
        shown, signature = evidence.align(self.columns_), self.signature()
        if self.link_ is not None:
            return [replace(score, signature=signature) for score in self.link_.predict_each(shown, annotators)]
        if not len(shown):
            return []
        options, shares, known = shown.distribution(self.question.id)
        reasons = shown.reasons()
        found: list[Score | Unscored] = []
        for row, target in enumerate(shown.targets):
            if known[row]:
                found.append(score_from(target, POPULATION, options, shares[row], signature))
            else:
                why = "; ".join(sorted(reasons.get(target, ()))) or "nothing was asked"
                found.append(Unscored(target, POPULATION, why, signature))
        return found

    def in_new_domain(self) -> InContext:
        """This evaluator for conversations from another place, where habits are trusted less."""
        self.check_fitted()
        other = copy(self)
        other.link_ = None if self.link_ is None else self.link_.in_new_domain()
        return other

    def signature(self) -> Signature:
        """How this evaluator's scores are made."""
        makers = dict.fromkeys(column.made_by for column in self.columns_)
        return Signature.of(
            self.method, question=self.question.id, calibrated=self.link_ is not None,
            domain=None if self.link_ is None else self.link_.domain_, asked="+".join(makers).replace("|", ","),
            coverage=self.coverage if self.calibrate else None, version=__version__,
        )  # fmt: skip

    def describe(self) -> dict[str, Any]:
        """How the ensemble's answers were calibrated."""
        link = None if self.link_ is None else self.link_.describe()
        return {"method": self.method, "signature": str(self.signature()), "rating": link}

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """What was learned, as JSON and arrays."""
        link, arrays = (None, {}) if self.link_ is None else self.link_.state()
        return {"columns": [asdict(column) for column in self.columns_], "link": link}, arrays

    def restore(self, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """The inverse of `state`."""
        self.columns_ = tuple(Column(**column) for column in card["columns"])
        self.link_ = None if card["link"] is None else self._calibration().restore(card["link"], arrays)
        return self
