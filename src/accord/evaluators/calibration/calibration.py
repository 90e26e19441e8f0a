"""The calibration evaluator with its `mixed` core: mixed effects under an ordinal link, one habit per annotator.

Evidence comes in as expected answers (LLM-RUBRIC, eq. 2) and as whatever other columns there are; what comes out is
each annotator's own distribution over the main question's options.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accord.errors import BadInput, UnknownName
from accord.evaluators.base import Arrays, Evaluator, evaluators
from accord.evaluators.calibration.mixed import OFFSET, OWN_SLOPE, SLOPE, TEXT, MixedEffects
from accord.evaluators.calibration.new_domain import adapted, carried_over
from accord.evaluators.calibration.ordinal import OrdinalLink
from accord.evaluators.ratings import ratings
from accord.evidence.table import Column, EvidenceTable
from accord.labels import Labels
from accord.rubric import Question
from accord.score import Score, Signature, Unscored, score_from
from accord.version import __version__

POPULATION = "population"
"""Who a score speaks for when it names no annotator: a person drawn from those of whom the annotators are some."""

CORES = ("mixed",)
FEWEST_LABELS = 8

Floats = NDArray[np.float64]


@evaluators.register("calibration")
class Calibration(Evaluator):
    """Learns how each annotator turns evidence into an answer.

    Args:
        question: The main question, ordinal or binary.
        core: How the mapping is learned; `mixed` is a linear mixed model by REML under an ordered probit.
        own_slopes: Whether annotators may weigh the evidence differently, or differ in level alone.
        threshold_spread: Prior standard deviation of an annotator's own thresholds around the common ones, in units
            of the latent scale.
        carry_over: In a new domain, the correlation believed between a person's habits there and here: 1 trusts
            them wholly, 0 forgets them. Used by `in_new_domain` and `adapt` alone.
    """

    method = "calibration"

    def __init__(
        self,
        question: Question,
        core: str = "mixed",
        own_slopes: bool = True,
        threshold_spread: float = 0.2,
        carry_over: float = 0.5,
    ) -> None:
        super().__init__(question)
        if core not in CORES:
            raise UnknownName("core", core, CORES)
        if not 0 <= carry_over <= 1:
            raise BadInput(f"carry_over is a correlation from 0 to 1, got {carry_over}")
        self.core = core
        self.own_slopes = own_slopes
        self.threshold_spread = threshold_spread
        self.carry_over = carry_over
        self.model_: MixedEffects | None = None

    def settings(self) -> dict[str, Any]:
        """The constructor's arguments beyond the question."""
        return {
            "core": self.core,
            "own_slopes": self.own_slopes,
            "threshold_spread": self.threshold_spread,
            "carry_over": self.carry_over,
        }

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` or `restore` has run."""
        return self.model_ is not None

    @property
    def annotators(self) -> list[str]:
        """Everyone whose labels were learned from."""
        return [] if self.model_ is None else [str(name) for name in self.model_.annotators_]

    def fit(self, evidence: EvidenceTable, labels: Labels) -> Self:
        """Learn from every label on the main question whose target has evidence.

        Raises:
            BadInput: Fewer than `FEWEST_LABELS` such labels, or a label outside the scale.
        """
        features = evidence.expected()
        rated = ratings(features, labels, self.question)
        if len(rated) < FEWEST_LABELS:
            raise BadInput(
                f"{len(rated)} labels on {self.question.id!r} have evidence; it needs {FEWEST_LABELS} or more. "
                "Import more labels, or gather evidence for the conversations they rate."
            )
        X = _matrix(features)[rated.row]
        people = np.asarray(rated.annotator)
        model = MixedEffects(self.own_slopes).fit(X, rated.value, people, rated.text)
        self.link_ = OrdinalLink.fit(
            mean=model.held_out_mean_,
            answer=rated.answer,
            annotator=model.index_of(people, len(X)),
            people=len(model.annotators_),
            options=len(rated.options),
            spread=self.threshold_spread,
        )
        self.options_ = rated.options
        self.columns_ = features.columns
        self.counts_ = {str(name): int((people == name).sum()) for name in model.annotators_}
        self.foreign_ = False
        self.model_ = model
        return self

    def in_new_domain(self) -> Calibration:
        """This evaluator for conversations from another place, before anyone has labelled any of them there."""
        model, moved = self._fitted(), self._copy()
        moved.model_ = carried_over(model, self.carry_over)
        moved.foreign_ = True
        return moved

    def adapt(self, evidence: EvidenceTable, labels: Labels) -> Calibration:
        """This evaluator for another place, after a few labels per annotator from there.

        Raises:
            BadInput: No label on the main question has evidence, or the evidence is made otherwise than at `fit`.
        """
        model, moved = self._fitted(), self._copy()
        features = self._features(evidence)
        rated = ratings(features, labels, self.question)
        if not len(rated):
            raise BadInput(f"no label on {self.question.id!r} has evidence; adapting needs at least one")
        X = _matrix(features)[rated.row]
        moved.model_ = adapted(model, self.carry_over, X, rated.value, rated.annotator, rated.text)
        newcomers = len(moved.model_.annotators_) - len(self.link_.shifts)
        shifts = np.vstack([self.link_.shifts, np.zeros((newcomers, self.link_.shifts.shape[1]))])
        moved.link_ = OrdinalLink(self.link_.thresholds, self.link_.slope, shifts, self.link_.floor)
        moved.counts_ = {**self.counts_}
        for name in map(str, rated.annotator):
            moved.counts_[name] = moved.counts_.get(name, 0) + 1
        moved.foreign_ = False
        return moved

    def _copy(self) -> Calibration:
        twin = Calibration(self.question, **self.settings())
        twin.link_, twin.options_, twin.columns_ = self.link_, self.options_, self.columns_
        twin.counts_, twin.foreign_ = self.counts_, self.foreign_
        return twin

    def predict_each(self, evidence: EvidenceTable, annotators: Sequence[str | None]) -> list[Score | Unscored]:
        """One score a row, for that row's annotator; rows without any evidence are unscored."""
        features = self._features(evidence)
        distributions = self.distributions(features, annotators)
        signature = self.signature()
        known = set(self.annotators)
        scores: list[Score | Unscored] = []
        for row, name in enumerate(annotators):
            target, who = features.targets[row], name if name in known else POPULATION
            if not features.present[row].any():
                scores.append(Unscored(target, str(who), _why_nothing(features, row), signature))
            else:
                scores.append(score_from(target, str(who), self.options_, distributions[row], signature))
        return scores

    def distributions(self, features: EvidenceTable, annotators: Sequence[str | None]) -> Floats:
        """(n, K) each row's distribution for its annotator; `features` are this evaluator's own columns."""
        model = self._fitted()
        X = _matrix(features)
        who = model.index_of(annotators, len(X))  # type: ignore[arg-type]
        # A person nobody met may have any habit; a person met elsewhere may have another one here.
        doubt = np.where(who < 0, 1.0, 1 - self.carry_over**2 if self.foreign_ else 0.0)
        extra = doubt * model.habit_variance(X)
        return self.link_.distribution(model.predict(X, annotators), who, extra)  # type: ignore[arg-type]

    def signature(self) -> Signature:
        """How this evaluator's scores are made."""
        makers = dict.fromkeys(c.made_by for c in self.columns_ if c.question is not None)
        return Signature.of(
            self.method,
            core=self.core,
            question=self.question.id,
            features=len(self.columns_),
            annotators=len(self.annotators),
            labels=sum(self.counts_.values()),
            domain="new" if self.foreign_ else None,
            evidence="+".join(makers) or None,
            version=__version__,
        )

    def describe(self) -> dict[str, Any]:
        """What was learned: each feature's weight, each annotator's level, and where the variance lies."""
        model = self._fitted()
        names = {SLOPE: "evidence", OFFSET: "annotator level", OWN_SLOPE: "annotator weights", TEXT: "text"}
        return {
            "method": self.method,
            "core": self.core,
            "signature": str(self.signature()),
            "level": model.intercept_,
            "noise_variance": model.noise_,
            "variance_ratios": {name: float(model.ratios_[effect]) for effect, name in names.items()},
            "weights": {c.name: float(w) for c, w in zip(self.columns_, model.coef_, strict=True)},
            "annotators": {
                name: {"labels": self.counts_.get(name, 0), "level": float(offset)}
                for name, offset in zip(self.annotators, model.offsets_, strict=True)
            },
        }

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """What was learned, as JSON and arrays."""
        model = self._fitted()
        card = {
            "annotators": self.annotators,
            "columns": [asdict(column) for column in self.columns_],
            "counts": self.counts_,
            "intercept": model.intercept_,
            "noise": model.noise_,
            "slope": self.link_.slope,
            "floor": self.link_.floor,
            "new_domain": self.foreign_,
        }
        arrays = {name: np.asarray(getattr(model, name), dtype=np.float64) for name in _MODEL_ARRAYS}
        arrays |= {"thresholds": self.link_.thresholds, "shifts": self.link_.shifts, "options": self.options_}
        return card, arrays

    def restore(self, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """The inverse of `state`."""
        model = MixedEffects(self.own_slopes)
        for name in _MODEL_ARRAYS:
            setattr(model, name, np.asarray(arrays[name]))
        model.annotators_ = np.array(card["annotators"], dtype=object)
        model.intercept_, model.noise_ = card["intercept"], card["noise"]
        model.n_features_in_ = len(card["columns"])
        self.link_ = OrdinalLink(arrays["thresholds"], card["slope"], arrays["shifts"], card["floor"])
        self.options_ = arrays["options"]
        self.columns_ = tuple(Column(**column) for column in card["columns"])
        self.counts_ = dict(card["counts"])
        self.foreign_ = card["new_domain"]
        self.model_ = model
        return self

    def _fitted(self) -> MixedEffects:
        self.check_fitted()
        assert self.model_ is not None
        return self.model_

    def _features(self, evidence: EvidenceTable) -> EvidenceTable:
        """The evidence as this evaluator's own columns, in their order.

        Raises:
            BadInput: A column is missing, or made otherwise than the one that was learned from.
        """
        self.check_fitted()
        found = evidence.expected()
        place = {column.name: index for index, column in enumerate(found.columns)}
        for column in self.columns_:
            if column.name not in place:
                raise BadInput(
                    f"the evidence has no {column.name!r}, which this evaluator learned from; gather it first"
                )
            made_by = found.columns[place[column.name]].made_by
            if made_by != column.made_by:
                raise BadInput(
                    f"evidence {column.name!r} is made by {made_by}, the evaluator learned from {column.made_by}; "
                    "gather it the same way, or fit again"
                )
        order = [place[column.name] for column in self.columns_]
        return EvidenceTable(
            found.targets, self.columns_, found.values[:, order], found.present[:, order], found.absences
        )


_MODEL_ARRAYS = ("coef_", "offsets_", "own_slopes_", "ratios_", "feature_mean_", "feature_scale_")


def _matrix(features: EvidenceTable) -> Floats:
    """(n, d) values, NaN where missing: the numeric cores' own convention, never seen outside them."""
    return np.where(features.present, features.values, np.nan)


def _why_nothing(features: EvidenceTable, row: int) -> str:
    """Why a row has no evidence at all."""
    target = features.targets[row]
    reasons = {reason for (about, _), reason in features.absences.items() if about == target}
    return "; ".join(["no evidence", *sorted(reasons)])
