"""The mixed core: a linear mixed model of expected answers and other columns, behind an ordered probit."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from accord.evidence import Arrays, EvidenceTable, Ratings
from accord.learning.annotator_transfer import adapted, remaining_doubt, shrunk_habits
from accord.learning.answer_model import Core, inner_folds, matrix, sources_of
from accord.learning.mixed_model import MixedModel
from accord.learning.ordered_probit import OrdinalLink
from accord.learning.rating_design import (
    GROUP,
    OFFSET,
    OWN_SLOPE,
    SLOPE,
    TEXT,
    Floats,
    Indices,
    in_order,
    standardisation,
)
from accord.values import Json, Labels

_ADDS_NOTHING = 1e-3
_ARRAYS = ("coef_", "offsets_", "own_slopes_", "ratios_", "feature_mean_", "feature_scale_")


BEST = "best"
"""Stands for the column that follows the ratings best."""


def _best(features: EvidenceTable, rated: Ratings) -> str:
    """The column with the strongest correlation with the ratings, where it is missing at its mean."""
    X = matrix(features)[rated.row]
    mean, scale = standardisation(X)
    Z = np.nan_to_num((X - mean) / scale, nan=0.0)
    return features.columns[int(np.argmax(np.abs(Z.T @ (rated.value - rated.value.mean()))))].name


class MixedCore(Core):
    """Expected answers and other columns in; an ordered probit of a linear mixed model's prediction out.

    Args:
        own_slopes: Whether annotators may weigh the evidence differently, or differ in level alone.
        threshold_spread: Prior standard deviation of an annotator's own thresholds around the common ones, in units
            of the latent scale.
        only: The column to learn from: by its name, or `BEST` for the one that follows the ratings best; `None` for
            all.
        name: What it is called among candidates.
    """

    name = "mixed"
    model_: MixedModel

    def __init__(
        self, own_slopes: bool = True, threshold_spread: float = 0.2, only: str | None = None, name: str = "mixed"
    ) -> None:
        self.own_slopes = own_slopes
        self.threshold_spread = threshold_spread
        self.only = only
        self.name = name

    def shown(self, evidence: EvidenceTable) -> EvidenceTable:
        """Each answer block as its expected answer (eq. 2)."""
        return evidence.expected()

    def _own(self, features: EvidenceTable) -> EvidenceTable:
        """The columns that were learned from."""
        if self.only is None:
            return features
        place = {column.name: index for index, column in enumerate(features.columns)}
        return features.select([place[name] for name in self.names_])

    def learn(self, features: EvidenceTable, rated: Ratings, labels: Labels) -> Floats:
        """Learn from the ratings of the main question; other questions' labels are not looked at."""
        linked = self._fitted(features, rated)
        return OrdinalLink.held_out(*linked, fold=inner_folds(rated))

    def fit(self, features: EvidenceTable, rated: Ratings, labels: Labels) -> None:
        """Learn without a word on the ratings that were learned from."""
        self._fitted(features, rated)

    def _fitted(self, features: EvidenceTable, rated: Ratings) -> tuple[Floats, Indices, Indices, int, int, float]:
        """Learn; what the link was fitted on: predictions by the other groups, answers, annotators, sizes, spread."""
        if self.only is not None:
            self.names_ = [_best(features, rated) if self.only == BEST else self.only]
            features = self._own(features)
        X, people = matrix(features)[rated.row], np.asarray(rated.annotator)
        self.sources_ = sources_of(features.columns)
        model = MixedModel(self.own_slopes)
        model.fit(X, rated.value, people, rated.text, rated.group, self.sources_)
        self.options_ = rated.options
        means, who = self._in_steps(model.held_out_mean_), model.index_of(people, len(X))
        linked = means, rated.answer, who, len(model.annotators_), len(rated.options), self.threshold_spread
        self.link_ = OrdinalLink.fit(*linked)
        self.names_ = [column.name for column in features.columns]
        self._speak_for(model, model, np.zeros(len(model.annotators_)))
        return linked

    def distributions(self, features: EvidenceTable, annotators: Sequence[str | None]) -> Floats:
        """(n, K) each row's distribution for its annotator."""
        X, model = matrix(self._own(features)), self.model_
        who = model.index_of(annotators, len(X))  # type: ignore[arg-type]
        # A person nobody met may have any habit; a person met elsewhere may have another one here.
        doubt = np.append(self.doubt_, 1.0)[who] * model.habit_variance(X)
        return self.link_.distribution(self._in_steps(model.predict(X, annotators)), who, doubt / self._step**2)  # type: ignore[arg-type]

    @property
    def annotators(self) -> list[str]:
        """Everyone whose labels were learned from."""
        return [str(name) for name in self.model_.annotators_]

    def in_new_domain(self, domain_correlation: float) -> MixedCore:
        """Habits shrunk by `domain_correlation`, with doubt in their place."""
        doubt = np.full(len(self.home_.annotators_), 1 - domain_correlation**2)
        return copy.copy(self)._speak_for(self.home_, shrunk_habits(self.home_, domain_correlation), doubt)

    def adapt(self, features: EvidenceTable, rated: Ratings, domain_correlation: float) -> MixedCore:
        """Starts from what was learned at home, whatever this core was adapted to before."""
        X = matrix(self._own(features))[rated.row]
        model = adapted(self.home_, domain_correlation, X, rated.value, rated.annotator, rated.text)
        moved = copy.copy(self)
        newcomers = len(model.annotators_) - len(self.link_.shifts)
        shifts = np.vstack([self.link_.shifts, np.zeros((newcomers, self.link_.shifts.shape[1]))])
        moved.link_ = OrdinalLink(self.link_.thresholds, self.link_.slope, shifts, self.link_.floor)
        doubt = remaining_doubt(self.home_, domain_correlation, model.annotators_, Counter(map(str, rated.annotator)))
        return moved._speak_for(self.home_, model, doubt)

    def _speak_for(self, home: MixedModel, model: MixedModel, doubt: Floats) -> MixedCore:
        """Take what was learned at home, what is believed here, and each annotator's share of habit unknown here."""
        self.home_, self.model_, self.doubt_ = home, model, doubt
        return self

    def _in_steps(self, mean: Floats) -> Floats:
        """Predictions as places among the options, 0 to K-1, so that no unit of the scale matters to the link."""
        return np.asarray((mean - self.options_[0]) / self._step)

    @property
    def _step(self) -> float:
        return float(np.ptp(self.options_)) / (len(self.options_) - 1)

    def describe(self) -> dict[str, Any]:
        """Each feature's weight, each annotator's level, and where the variance lies."""
        model = self.model_
        names = {SLOPE: "evidence", OFFSET: "annotator level", OWN_SLOPE: "annotator weights", TEXT: "text",
                 GROUP: "group"}  # fmt: skip
        return {
            "level": model.intercept_,
            "noise_variance": model.noise_,
            "variance_ratios": {name: float(model.ratios_[effect]) for effect, name in names.items()},
            "sources": self._by_source(),
            "weights": dict(zip(self.names_, map(float, model.coef_), strict=True)),
            "levels": dict(zip(self.annotators, map(float, model.offsets_), strict=True)),
        }

    def _by_source(self) -> dict[str, dict[str, Any]]:
        """Each source's number of columns and variance ratio, and whether it adds nothing."""
        found: dict[str, dict[str, Any]] = {}
        for place, name in enumerate(dict.fromkeys(self.sources_)):
            own = self.model_.sources_ == place
            ratio = float(self.model_.slope_ratios[own].max())
            # The features of a source together explain ratio·columns as much variance as the noise has.
            silent = ratio * own.sum() < _ADDS_NOTHING
            adds = "nothing" if silent else "evidence"
            found[name] = {"columns": int(own.sum()), "variance_ratio": ratio, "adds": adds}
        return found

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """What was learned, as JSON and arrays."""
        card = {
            "features": self.names_,
            "sources": self.sources_,
            "link": {"slope": self.link_.slope, "floor": self.link_.floor},
            "here": _plain_parts(self.model_),
            "home": _plain_parts(self.home_),
        }
        places = {"here": self.model_, "home": self.home_}
        arrays = {
            f"{place}.{name}": np.asarray(getattr(model, name), dtype=np.float64)
            for place, model in places.items()
            for name in _ARRAYS
        }
        arrays |= {"thresholds": self.link_.thresholds, "shifts": self.link_.shifts, "options": self.options_}
        return card, {**arrays, "doubt": self.doubt_}

    def restore(self, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """The inverse of `state`."""
        self.names_, self.sources_ = list(card["features"]), list(card["sources"])
        self.link_ = OrdinalLink(arrays["thresholds"], card["link"]["slope"], arrays["shifts"], card["link"]["floor"])
        self.options_ = arrays["options"]
        here, home = (self._restored(card[place], arrays, place) for place in ("here", "home"))
        self._speak_for(home, here, np.asarray(arrays["doubt"]))
        return self

    def _restored(self, parts: Mapping[str, Any], arrays: Arrays, place: str) -> MixedModel:
        model = MixedModel(self.own_slopes)
        for name in _ARRAYS:
            setattr(model, name, np.asarray(arrays[f"{place}.{name}"]))
        model.annotators_ = np.array(parts["annotators"], dtype=object)
        model.intercept_, model.noise_ = parts["intercept"], parts["noise"]
        model.sources_ = in_order(self.sources_, len(self.names_))
        return model


def _plain_parts(model: MixedModel) -> dict[str, Json]:
    names: list[Json] = [str(name) for name in model.annotators_]
    return {"annotators": names, "intercept": model.intercept_, "noise": model.noise_}
