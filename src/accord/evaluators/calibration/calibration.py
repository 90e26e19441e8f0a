"""The calibration evaluator with its `mixed` core: mixed effects under an ordinal link, one habit per annotator.

Evidence comes in as expected answers (LLM-RUBRIC, eq. 2) and as whatever other columns there are; what comes out is
each annotator's own distribution over the main question's options.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accord.errors import BadInput, UnknownName
from accord.evaluators.base import Arrays, Evaluator, evaluators
from accord.evaluators.calibration.mixed import OFFSET, OWN_SLOPE, SLOPE, TEXT, MixedEffects
from accord.evaluators.calibration.new_domain import adapted, carried_over, remaining_doubt
from accord.evaluators.calibration.ordinal import OrdinalLink
from accord.evaluators.ratings import ratings
from accord.evidence.table import Column, EvidenceTable
from accord.labels import Labels
from accord.rubric import Question
from accord.score import POPULATION, Score, Signature, Unscored, score_from
from accord.version import __version__

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
        self.options_ = rated.options
        self.columns_ = features.columns
        self.link_ = OrdinalLink.fit(
            mean=self._in_steps(model.held_out_mean_),
            answer=rated.answer,
            annotator=model.index_of(people, len(X)),
            people=len(model.annotators_),
            options=len(rated.options),
            spread=self.threshold_spread,
        )
        self.counts_ = {str(name): int((people == name).sum()) for name in model.annotators_}
        self._speak_for(model, model, np.zeros(len(model.annotators_)), domain=None)
        return self

    def in_new_domain(self) -> Calibration:
        """This evaluator for conversations from another place, before anyone has labelled any of them there."""
        self.check_fitted()
        doubt = np.full(len(self.home_.annotators_), 1 - self.carry_over**2)
        return self._copy()._speak_for(self.home_, carried_over(self.home_, self.carry_over), doubt, domain="new")

    def adapt(self, evidence: EvidenceTable, labels: Labels) -> Calibration:
        """This evaluator for another place, after a few labels per annotator from there.

        Starts from what was learned at home, whatever this evaluator was adapted to before.

        Raises:
            BadInput: No label on the main question has evidence, or the evidence is made otherwise than at `fit`.
        """
        self.check_fitted()
        features = self._features(evidence)
        rated = ratings(features, labels, self.question)
        if not len(rated):
            raise BadInput(f"no label on {self.question.id!r} has evidence; adapting needs at least one")
        X = _matrix(features)[rated.row]
        model = adapted(self.home_, self.carry_over, X, rated.value, rated.annotator, rated.text)
        moved = self._copy()
        newcomers = len(model.annotators_) - len(self.link_.shifts)
        shifts = np.vstack([self.link_.shifts, np.zeros((newcomers, self.link_.shifts.shape[1]))])
        moved.link_ = OrdinalLink(self.link_.thresholds, self.link_.slope, shifts, self.link_.floor)
        given = Counter(map(str, rated.annotator))
        moved.counts_ = {name: self.counts_.get(name, 0) + given[name] for name in map(str, model.annotators_)}
        doubt = remaining_doubt(self.home_, self.carry_over, model.annotators_, given)
        return moved._speak_for(self.home_, model, doubt, domain="adapted")

    def _copy(self) -> Calibration:
        twin = Calibration(self.question, **self.settings())
        twin.link_, twin.options_, twin.columns_, twin.counts_ = self.link_, self.options_, self.columns_, self.counts_
        return twin

    def _speak_for(self, home: MixedEffects, model: MixedEffects, doubt: Floats, domain: str | None) -> Calibration:
        """Take what was learned at home, what is believed here, and each annotator's share of habit unknown here."""
        self.home_, self.model_, self.doubt_, self.domain_ = home, model, doubt, domain
        return self

    def _in_steps(self, mean: Floats) -> Floats:
        """Predictions as places among the options, 0 to K-1, so that no unit of the scale matters to the link."""
        return np.asarray((mean - self.options_[0]) / self._step)

    @property
    def _step(self) -> float:
        return float(np.ptp(self.options_)) / (len(self.options_) - 1)

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
        doubt = np.append(self.doubt_, 1.0)[who] * model.habit_variance(X)
        return self.link_.distribution(self._in_steps(model.predict(X, annotators)), who, doubt / self._step**2)  # type: ignore[arg-type]

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
            slopes="own" if self.own_slopes else "common",
            spread=self.threshold_spread,
            domain=self.domain_,
            carry_over=self.carry_over if self.domain_ else None,
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
            "columns": [asdict(column) for column in self.columns_],
            "counts": self.counts_,
            "link": {"slope": self.link_.slope, "floor": self.link_.floor},
            "domain": self.domain_,
            "here": _plain_parts(model),
            "home": _plain_parts(self.home_),
        }
        arrays = {f"here.{name}": np.asarray(getattr(model, name), dtype=np.float64) for name in _MODEL_ARRAYS}
        arrays |= {f"home.{name}": np.asarray(getattr(self.home_, name), dtype=np.float64) for name in _MODEL_ARRAYS}
        arrays |= {"thresholds": self.link_.thresholds, "shifts": self.link_.shifts, "options": self.options_}
        return card, {**arrays, "doubt": self.doubt_}

    def restore(self, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """The inverse of `state`."""
        here, home = (self._restored(card[place], arrays, place, len(card["columns"])) for place in ("here", "home"))
        self.link_ = OrdinalLink(arrays["thresholds"], card["link"]["slope"], arrays["shifts"], card["link"]["floor"])
        self.options_ = arrays["options"]
        self.columns_ = tuple(Column(**column) for column in card["columns"])
        self.counts_ = dict(card["counts"])
        self._speak_for(home, here, np.asarray(arrays["doubt"]), card["domain"])
        return self

    def _restored(self, parts: Mapping[str, Any], arrays: Arrays, place: str, features: int) -> MixedEffects:
        model = MixedEffects(self.own_slopes)
        for name in _MODEL_ARRAYS:
            setattr(model, name, np.asarray(arrays[f"{place}.{name}"]))
        model.annotators_ = np.array(parts["annotators"], dtype=object)
        model.intercept_, model.noise_ = parts["intercept"], parts["noise"]
        model.n_features_in_ = features
        return model

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


def _plain_parts(model: MixedEffects) -> dict[str, Any]:
    names = [str(name) for name in model.annotators_]
    return {"annotators": names, "intercept": model.intercept_, "noise": model.noise_}


def _matrix(features: EvidenceTable) -> Floats:
    """(n, d) values, NaN where missing: the numeric cores' own convention, never seen outside them."""
    return np.where(features.present, features.values, np.nan)


def _why_nothing(features: EvidenceTable, row: int) -> str:
    """Why a row has no evidence at all."""
    target = features.targets[row]
    reasons = {reason for (about, _), reason in features.absences.items() if about == target}
    return "; ".join(["no evidence", *sorted(reasons)])
