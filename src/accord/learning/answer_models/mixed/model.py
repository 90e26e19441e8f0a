"""Linear mixed model by REML, its transfer to a new domain, and the answer model built on it.

    y = m + Σ_s z_s·b_s + u_a + Σ_s z_s·g_as + v_t + w_c + e,    b_s, u, g_s, v, w ~ N(0, r_k·s²),  e ~ N(0, s²)

z_s is the evidence of source s, standardized on the training rows; a is the annotator, t the text, c its group (the
conversation of a turn). The variance ratios r_k maximize the restricted likelihood (Patterson & Thompson, 1971); the
effects follow in closed form from Henderson's mixed model equations. Each source has a ratio of its own, so that many
uninformative columns are shrunk together without shrinking a good judge (docs/decisions/0028, 0046).
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accord.evidence import Arrays, EvidenceTable, Ratings, by_row
from accord.learning.answer_models.contract import AnswerModel, card_names, card_number, inner_folds, matrix, sources_of
from accord.learning.answer_models.mixed.equations import best_ratios, equations_for
from accord.learning.answer_models.mixed.layout import (
    GROUP,
    OFFSET,
    OWN_SLOPE,
    SLOPE,
    TEXT,
    Floats,
    Indices,
    RatingLayout,
    own_effects,
    source_numbers,
    standardization,
)
from accord.learning.answer_models.ordinal import OrdinalLink
from accord.values import Json, Labels


class MixedModel:
    """Linear mixed model of ratings with annotator, text and group effects.

    Args:
        own_slopes: True to give annotators their own slopes `g`, False to give them an offset `u` only.
        ratios: Variance ratios as in `ratios_`; None estimates them by REML.

    Attributes:
        intercept_: m.
        coef_: (p,) b, per standard deviation of each feature.
        annotators_: (A,) sorted names.
        offsets_: (A,) u, in units of y.
        offset_error_: (A,) standard error of u.
        own_slopes_: (A, p) g.
        ratios_: (3 + 2·sources,) variance ratios to the noise, 0 for an absent effect: of b, u, g of the first source,
            v and w, then of b and g of each further source.
        sources_: (p,) index of each column's source, starting at 0.
        noise_: s², the residual variance of a rating.
        feature_mean_, feature_scale_: (p,) the standardization.
        held_out_mean_: (n,) prediction of each training row from all other groups.
    """

    def __init__(self, own_slopes: bool = True, ratios: ArrayLike | None = None) -> None:
        self.own_slopes = own_slopes
        self.ratios = ratios

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        annotator: ArrayLike | None = None,
        text: ArrayLike | None = None,
        group: ArrayLike | None = None,
        source: ArrayLike | None = None,
    ) -> Self:
        """Fit the model to n ratings.

        Args:
            X: (n, p) evidence; NaN for a missing value.
            y: (n,) ratings.
            annotator: (n,) annotator of each rating; None fits no annotator effects.
            text: (n,) text of each rating; None fits no text effect.
            group: (n,) group of each rating's text; None fits no group effect.
            source: (p,) source of each column; None means a single source.
        """
        rows, rated = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
        self.feature_mean_, self.feature_scale_ = standardization(rows)
        Z = self.standardize(rows)
        self.annotators_, who = _indexed(annotator)
        (_, which), (_, of_group) = _indexed(text), _indexed(group)
        people, features = len(self.annotators_), Z.shape[1]
        self.sources_ = source_numbers(source, features)
        design = equations_for(RatingLayout.of(Z, rated, who, people, which, self.own_slopes, of_group, self.sources_))
        ratios = best_ratios(design) if self.ratios is None else design.of_present(np.asarray(self.ratios))
        learned = design.fit(ratios)
        self.ratios_, self.noise_ = ratios, learned.noise
        self.intercept_ = float(learned.effects[0])
        self.coef_ = learned.effects[1 : 1 + features]
        self.offsets_ = learned.effects[1 + features : 1 + features + people]
        own = learned.effects[1 + features + people :]
        self.own_slopes_ = own.reshape(people, features) if own.size else np.zeros((people, features))
        self.offset_error_ = learned.errors
        self.held_out_mean_ = rated - learned.held_out_residuals
        return self

    def predict(self, X: ArrayLike, annotator: ArrayLike | None = None) -> Floats:
        """Return (n,) expected ratings; a new annotator has no habits."""
        Z = self.standardize(np.asarray(X, dtype=float))
        who = self.index_of(annotator, len(Z))
        offsets = np.append(self.offsets_, 0.0)[who]
        own = np.vstack([self.own_slopes_, np.zeros(Z.shape[1])])[who]
        return np.asarray(self.intercept_ + by_row(Z, self.coef_) + offsets + (Z * own).sum(axis=1))

    def habit_variance(self, X: ArrayLike) -> Floats:
        """Return (n,) the variance of u + z·g between annotators on each row."""
        Z = self.standardize(np.asarray(X, dtype=float))
        return np.asarray(self.noise_ * (self.ratios_[OFFSET] + by_row(Z**2, self.own_ratios)))

    @property
    def own_ratios(self) -> Floats:
        """(p,) variance ratio of the annotators' slopes of each column."""
        return np.asarray(self.ratios_[own_effects(len(self.sources_), self.sources_, True)[1]])

    @property
    def slope_ratios(self) -> Floats:
        """(p,) variance ratio of each column's slope."""
        return np.asarray(self.ratios_[own_effects(len(self.sources_), self.sources_, True)[0]])

    def index_of(self, annotator: ArrayLike | None, rows: int) -> Indices:
        """Return (n,) the index of each row's annotator in `annotators_`; -1 for a new annotator."""
        if annotator is None:
            return np.full(rows, -1, dtype=np.intp)
        place = {str(name): index for index, name in enumerate(self.annotators_)}
        names = np.asarray(annotator, dtype=object)
        return np.array([-1 if name is None else place.get(str(name), -1) for name in names], dtype=np.intp)

    def standardize(self, X: Floats) -> Floats:
        """(n, p) features in standard deviations of the training rows."""
        # A missing value is replaced by the feature's mean, which leaves the prediction unchanged.
        return np.nan_to_num((X - self.feature_mean_) / self.feature_scale_, nan=0.0)


def _indexed(names: ArrayLike | None) -> tuple[NDArray[Any], Indices]:
    if names is None:
        return np.array([], dtype=object), np.array([], dtype=np.intp)
    unique, index = np.unique(np.asarray(names).astype(str), return_inverse=True)
    return unique, index.astype(np.intp)


def shrunk_habits(model: MixedModel, domain_correlation: float) -> MixedModel:
    """Return the model with annotator effects shrunk by `domain_correlation`, for a domain without labels."""
    moved = copy.copy(model)
    moved.offsets_ = domain_correlation * model.offsets_
    moved.own_slopes_ = domain_correlation * model.own_slopes_
    return moved


def adapted(
    model: MixedModel,
    domain_correlation: float,
    X: Floats,
    y: Floats,
    annotator: NDArray[np.object_],
    text: NDArray[np.object_],
) -> MixedModel:
    """Return the model updated by k labels from the new domain; new annotators are added.

    The residuals r of the rows around the carried-over model have covariance K = τ·1 + same annotator·h·s²·(r_u + Σ_s
    r_gs·z_s·z_s') + same text·s²·r_v + s²·I, with h = 1 - domain_correlation² for known annotators and 1 for new ones.
    τ, the variance of the domain's own level, is the variance of the ratings.
    """
    moved = _with_newcomers(shrunk_habits(model, domain_correlation), annotator)
    Z = moved.standardize(X)
    who = moved.index_of(annotator, len(Z))
    known = np.isin(moved.annotators_, model.annotators_)
    looseness = np.where(known, 1 - domain_correlation**2, 1.0)[who]
    offset = model.noise_ * model.ratios_[OFFSET]
    slope = model.noise_ * model.own_ratios
    level = float(np.var(y)) or model.noise_
    same_person = (who[:, None] == who) * looseness
    covariance = (
        level
        + same_person * (offset + (Z * slope) @ Z.T)
        + (text[:, None] == text) * model.noise_ * model.ratios_[TEXT]
        + model.noise_ * np.eye(len(Z))
    )
    pull = np.linalg.solve(covariance, y - moved.predict(X, annotator))
    moved.intercept_ = moved.intercept_ + level * float(pull.sum())
    # A first fit without annotator effects has nothing to update.
    np.add.at(moved.offsets_, who, offset * looseness * pull)
    np.add.at(moved.own_slopes_, who, (looseness * pull)[:, None] * Z * slope)
    return moved


def remaining_doubt(
    model: MixedModel, domain_correlation: float, annotators: NDArray[np.object_], labels: Mapping[str, int]
) -> Floats:
    """Return (A,) the share of each annotator's habit that k labels from the new domain leave unknown.

    The offset has prior variance h·s²·r_u. One label has the noise of a rating and of a text, so k labels leave h / (1
    + k·h·r_u / (1 + r_v)).
    """
    prior = np.where(np.isin(annotators, model.annotators_), 1 - domain_correlation**2, 1.0)
    given = np.array([labels.get(str(name), 0) for name in annotators], dtype=float)
    return np.asarray(prior / (1 + given * prior * model.ratios_[OFFSET] / (1 + model.ratios_[TEXT])))


def _with_newcomers(model: MixedModel, annotator: NDArray[np.object_]) -> MixedModel:
    newcomers = sorted(set(map(str, annotator)) - set(model.annotators_))
    grown = copy.copy(model)
    grown.annotators_ = np.array([*model.annotators_, *newcomers], dtype=object)
    grown.offsets_ = np.append(model.offsets_, np.zeros(len(newcomers)))
    grown.own_slopes_ = np.vstack([model.own_slopes_, np.zeros((len(newcomers), model.own_slopes_.shape[1]))])
    return grown


_ADDS_NOTHING = 1e-3
_ARRAYS = ("coef_", "offsets_", "own_slopes_", "ratios_", "feature_mean_", "feature_scale_")


BEST = "best"
"""Stands for the column with the strongest correlation with the ratings."""


def _best(features: EvidenceTable, rated: Ratings) -> str:
    """Return the column with the strongest correlation with the ratings, with missing values at its mean."""
    X = matrix(features)[rated.row]
    mean, scale = standardization(X)
    Z = np.nan_to_num((X - mean) / scale, nan=0.0)
    return features.columns[int(np.argmax(np.abs(Z.T @ (rated.value - rated.value.mean()))))].name


class MixedAnswers(AnswerModel):
    """Ordered probit of a linear mixed model's prediction.

    Args:
        own_slopes: True to give annotators their own slopes, False to give them an offset only.
        threshold_spread: Prior standard deviation of an annotator's thresholds around the common ones, in units of the
            latent scale.
        only: Name of the single column to learn from, or `BEST`; None learns from all columns.
        name: Name among the candidates.
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

    def _own(self, features: EvidenceTable) -> EvidenceTable:
        """Return the columns that the model learned from."""
        if self.only is None:
            return features
        place = {column.name: index for index, column in enumerate(features.columns)}
        return features.select([place[name] for name in self.names_])

    def fit_predict(self, features: EvidenceTable, rated: Ratings, labels: Labels) -> Floats:
        """Learn from the ratings of the main question."""
        linked = self._fitted(features, rated)
        return OrdinalLink.held_out(*linked, fold=inner_folds(rated))

    def fit(self, features: EvidenceTable, rated: Ratings, labels: Labels) -> None:
        """Learn without predicting the training ratings."""
        self._fitted(features, rated)

    def _fitted(self, features: EvidenceTable, rated: Ratings) -> tuple[Floats, Indices, Indices, int, int, float]:
        """Learn, and return the arguments of the link's fit."""
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
        self._set_models(model, model, np.zeros(len(model.annotators_)))
        return linked

    def distributions(self, features: EvidenceTable, annotators: Sequence[str | None]) -> Floats:
        """Return (n, K) the distribution of each row for its annotator."""
        X, model = matrix(self._own(features)), self.model_
        who = model.index_of(annotators, len(X))  # type: ignore[arg-type]
        # The habits of a new annotator are unknown, and those learned in another domain are partly unknown here.
        doubt = np.append(self.doubt_, 1.0)[who] * model.habit_variance(X)
        return self.link_.distribution(self._in_steps(model.predict(X, annotators)), who, doubt / self._step**2)  # type: ignore[arg-type]

    @property
    def has_latent(self) -> bool:
        """True: the linear prediction is on the scale, because it is fitted to the ratings as real numbers."""
        return True

    def latent(self, features: EvidenceTable, annotators: Sequence[str | None]) -> Floats:
        """Return (n,) the linear prediction for each row's annotator."""
        return self.model_.predict(matrix(self._own(features)), annotators)  # type: ignore[arg-type]

    @property
    def annotators(self) -> list[str]:
        """Annotators whose labels were learned from."""
        return [str(name) for name in self.model_.annotators_]

    def in_new_domain(self, domain_correlation: float) -> MixedAnswers:
        """Return the model with habits shrunk by `domain_correlation` and more variance instead."""
        doubt = np.full(len(self.home_.annotators_), 1 - domain_correlation**2)
        return copy.copy(self)._set_models(self.home_, shrunk_habits(self.home_, domain_correlation), doubt)

    def adapt(self, features: EvidenceTable, rated: Ratings, domain_correlation: float) -> MixedAnswers:
        """Return the model updated by labels from another domain, starting from the domain of the first fit."""
        X = matrix(self._own(features))[rated.row]
        model = adapted(self.home_, domain_correlation, X, rated.value, rated.annotator, rated.text)
        moved = copy.copy(self)
        newcomers = len(model.annotators_) - len(self.link_.shifts)
        shifts = np.vstack([self.link_.shifts, np.zeros((newcomers, self.link_.shifts.shape[1]))])
        moved.link_ = OrdinalLink(self.link_.thresholds, self.link_.slope, shifts, self.link_.floor)
        doubt = remaining_doubt(self.home_, domain_correlation, model.annotators_, Counter(map(str, rated.annotator)))
        return moved._set_models(self.home_, model, doubt)

    def _set_models(self, home: MixedModel, model: MixedModel, doubt: Floats) -> MixedAnswers:
        """Set the model of the first domain, the present model, and (A,) each annotator's unknown share of habit."""
        self.home_, self.model_, self.doubt_ = home, model, doubt
        return self

    def _in_steps(self, mean: Floats) -> Floats:
        """Return predictions in steps of the scale, 0 to K-1, which makes the link independent of its units."""
        return np.asarray((mean - self.options_[0]) / self._step)

    @property
    def _step(self) -> float:
        return float(np.ptp(self.options_)) / (len(self.options_) - 1)

    def describe(self) -> dict[str, Any]:
        """Return feature weights, annotator offsets and variance ratios."""
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
        """Return each source's number of columns, variance ratio and contribution."""
        by_source: dict[str, dict[str, Any]] = {}
        for place, name in enumerate(dict.fromkeys(self.sources_)):
            own = self.model_.sources_ == place
            ratio = float(self.model_.slope_ratios[own].max())
            # Together, the features of a source explain ratio·columns times the noise variance.
            silent = ratio * own.sum() < _ADDS_NOTHING
            adds = "nothing" if silent else "evidence"
            by_source[name] = {"columns": int(own.sum()), "variance_ratio": ratio, "adds": adds}
        return by_source

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the learned state as JSON and arrays."""
        link, link_arrays = self.link_.state()
        card = {
            "features": self.names_,
            "sources": self.sources_,
            "link": link,
            "here": _plain_parts(self.model_),
            "home": _plain_parts(self.home_),
        }
        places = {"here": self.model_, "home": self.home_}
        arrays = {
            f"{place}.{name}": np.asarray(getattr(model, name), dtype=np.float64)
            for place, model in places.items()
            for name in _ARRAYS
        }
        return card, {**arrays, **link_arrays, "options": self.options_, "doubt": self.doubt_}

    def restore(self, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """Restore the learned state from `state`."""
        self.names_, self.sources_ = card_names(card, "features"), card_names(card, "sources")
        self.link_ = OrdinalLink.restored(card["link"], arrays)
        self.options_ = arrays["options"]
        here, home = (self._restored(card[place], arrays, place) for place in ("here", "home"))
        self._set_models(home, here, np.asarray(arrays["doubt"]))
        return self

    def _restored(self, parts: Mapping[str, Any], arrays: Arrays, place: str) -> MixedModel:
        model = MixedModel(self.own_slopes)
        for name in _ARRAYS:
            setattr(model, name, np.asarray(arrays[f"{place}.{name}"]))
        model.annotators_ = np.array(card_names(parts, "annotators"), dtype=object)
        model.intercept_, model.noise_ = card_number(parts, "intercept"), card_number(parts, "noise")
        model.sources_ = source_numbers(self.sources_, len(self.names_))
        return model


def _plain_parts(model: MixedModel) -> dict[str, Json]:
    names: list[Json] = [str(name) for name in model.annotators_]
    return {"annotators": names, "intercept": model.intercept_, "noise": model.noise_}
