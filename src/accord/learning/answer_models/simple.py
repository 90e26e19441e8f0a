"""Simple answer models: the mean of the judge's answers, and linear regressions.

With few labels they are hard to beat, so `auto` averages some with the mixed model. All learn each text's mean rating,
followed by an ordered probit.

    judge-mean     μ(x) = ȳ + b·m(x),  m = mean of the standardized judge columns, each clipped to ±1.5, in standard
                   deviations
                   b = (Σ m·(y - ȳ) + n₀·r₀·sd(y)) / (Σ m² + n₀):  a prior of n₀ texts with correlation r₀
    ridge          penalty by generalized cross-validation (Golub, Heath & Wahba, 1979)
    least-squares  minimum-norm least squares
    pls            one component of partial least squares: slopes along the covariances of columns and ratings
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Self

import numpy as np

from accord.evidence import Arrays, EvidenceTable, Ratings, by_row
from accord.learning.answer_models.contract import (
    AnswerModel,
    Floats,
    Indices,
    TextMeanModel,
    card_names,
    card_number,
    fold_masks,
    judge_columns,
    matrix,
    part_arrays,
    prefixed,
)
from accord.learning.answer_models.mixed.layout import standardization
from accord.learning.answer_models.ordinal import OrdinalLink
from accord.learning.answer_models.trees import BoostedAnswers, TreeAnswers
from accord.values import Labels

PRIOR_CORRELATION, PRIOR_TEXTS = 0.35, 10
"""Prior of the judge mean: correlation with the ratings, and its weight in texts."""
MOST_DEVIATIONS = 1.5
"""The judge mean clips each column at this many standard deviations, which few labels estimate badly."""
PRIOR_RATINGS, PRIOR_SPREAD = 2, 0.25
"""With few labels: weight of the middle of the scale in ratings, and standard deviation of ratings in scale widths."""
FEWEST_LABELS = 8
"""With fewer labels only the judge mean is learned, and its spread is not estimated."""
PENALTIES = np.logspace(-2, 4, 25)
"""Penalties of ridge regression on standardized columns."""


class LinearModel(TextMeanModel):
    """Linear regression of each text's mean rating on standardized columns.

    A subclass implements `slopes`.

    Args:
        judge_only: True to use the judge's answers only, if there are any.
        name: Name among the answer models.
    """

    uses_other_questions = False

    def __init__(self, judge_only: bool = False, name: str | None = None) -> None:
        self.judge_only = judge_only
        if name is not None:
            self.name = name

    @abstractmethod
    def slopes(self, Z: Floats, y: Floats, weight: Floats) -> Floats:
        """Return (d,) slopes for T standardized rows (T, d) and centered mean ratings (T,) with weights (T,)."""

    def standardized(self, X: Floats) -> Floats:
        """Return (n, d) columns in standard deviations; a missing value is at the mean."""
        return np.nan_to_num((X - self.mean_) / self.scale_, nan=0.0)

    def _fit_part(self, X: Floats, y: Floats, weight: Floats) -> None:
        self.mean_, self.scale_ = standardization(X)
        self.level_ = float(np.average(y, weights=weight))
        Z = self.standardized(X)
        self.center_ = np.average(Z, axis=0, weights=weight)
        slopes = self.slopes((Z - self.center_) * self.used_, y - self.level_, weight)
        self.coef_ = np.where(self.used_, slopes, 0.0)

    def fit_texts(
        self, features: EvidenceTable, texts: Indices, mean: Floats, weight: Floats, fold: Indices, group: Indices
    ) -> Floats:
        """Learn from T rated texts."""
        X = matrix(features)[texts]
        is_judge = judge_columns(features)
        self.used_ = is_judge if self.judge_only and is_judge.any() else np.ones(len(is_judge), dtype=bool)
        held_out = np.empty(len(texts))
        for train, test in fold_masks(fold):
            self._fit_part(X[train], mean[train], weight[train])
            held_out[test] = self._mean(X[test])
        self._fit_part(X, mean, weight)
        return held_out

    def _mean(self, X: Floats) -> Floats:
        low, step, top = self.unit_
        value = self.level_ + by_row(self.standardized(X) - self.center_, self.coef_)
        return np.clip(value, low - step, low + step * (top + 1))  # at most one step beyond the scale

    def predict_texts(self, features: EvidenceTable) -> Floats:
        """Return (n,) predicted mean ratings."""
        return self._mean(matrix(features))

    def contributions(self, features: EvidenceTable) -> Floats:
        """Return (n, d) the contribution of each column to the predicted mean rating."""
        return np.asarray((self.standardized(matrix(features)) - self.center_) * self.coef_)

    def describe(self) -> dict[str, Any]:
        """Return the level and the slopes per standard deviation."""
        return {"level": self.level_, "slopes": self.coef_.tolist()}

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the learned state as JSON and arrays."""
        link, link_arrays = self.link_.state()
        arrays = {name: getattr(self, name) for name in _LINEAR_ARRAYS}
        return {"level": self.level_, "link": link, "people": self.people_}, {**prefixed("link", link_arrays), **arrays}

    def restore(self, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """Restore the learned state from `state`."""
        self.people_, self.level_ = card_names(card, "people"), card_number(card, "level")
        for name in _LINEAR_ARRAYS:
            setattr(self, name, np.asarray(arrays[name], dtype=float))
        if len({getattr(self, name).shape for name in _COLUMN_ARRAYS}) > 1:
            raise ValueError("arrays of columns have different lengths")
        self.link_ = OrdinalLink.restored(card["link"], part_arrays("link", arrays))
        return self


_COLUMN_ARRAYS = ("mean_", "scale_", "center_", "coef_")
_LINEAR_ARRAYS = (*_COLUMN_ARRAYS, "unit_")


class JudgeMean(LinearModel):
    """Mean of the standardized judge columns, with a slope shrunk to a prior."""

    name = "judge-mean"

    def __init__(self) -> None:
        super().__init__(judge_only=True)
        self.reach_ = MOST_DEVIATIONS

    def standardized(self, X: Floats) -> Floats:
        """Return (n, d) columns in standard deviations, clipped; a missing value is at the mean."""
        return np.clip(super().standardized(X), -self.reach_, self.reach_)

    def slopes(self, Z: Floats, y: Floats, weight: Floats) -> Floats:
        """Return the same slope for every judge column."""
        return self._slopes(Z, Z, y, weight, float(y.std()))

    def _slopes(self, whole: Floats, Z: Floats, y: Floats, weight: Floats, spread: float) -> Floats:
        """Return slopes learned from rows Z (T, d); the mean answer is standardized on all rows `whole` (n, d)."""
        count = np.count_nonzero(self.used_)
        scale = max(float(whole[:, self.used_].mean(axis=1).std()), count**-0.5)  # at least as for independent columns
        m = Z[:, self.used_].mean(axis=1) / scale
        slope = (weight @ (m * y) + PRIOR_TEXTS * PRIOR_CORRELATION * spread) / (weight @ m**2 + PRIOR_TEXTS)
        return np.full(Z.shape[1], slope / scale / count)

    def fit_predict(self, features: EvidenceTable, rated: Ratings, labels: Labels) -> Floats:
        """Learn from the mean rating of each text, or from the prior with fewer than `FEWEST_LABELS` labels."""
        if len(rated) >= FEWEST_LABELS:
            self.ratings_, self.groups_ = len(rated), len(set(rated.group))
            return super().fit_predict(features, rated, labels)
        self.fit(features, rated, labels)
        return self.distributions(features.take(rated.row), list(rated.annotator))

    def fit(self, features: EvidenceTable, rated: Ratings, labels: Labels) -> None:
        """Learn without predicting the training ratings."""
        self.ratings_, self.groups_ = len(rated), len(set(rated.group))
        if len(rated) >= FEWEST_LABELS:
            super().fit(features, rated, labels)
            return
        X, options, steps = matrix(features), rated.options, len(rated.options) - 1
        width = float(np.ptp(options))
        self.people_ = sorted({str(name) for name in rated.annotator})
        self.unit_ = np.array([options[0], width / steps, steps])
        self.used_ = judge_columns(features)
        self.mean_, self.scale_ = standardization(X)
        Z = self.standardized(X)
        self.center_ = Z.mean(axis=0)
        middle = float(options[0] + options[-1]) / 2
        self.level_ = float((rated.value.sum() + PRIOR_RATINGS * middle) / (len(rated) + PRIOR_RATINGS))
        own, spread = Z[rated.row] - self.center_, PRIOR_SPREAD * width
        slopes = self._slopes(Z - self.center_, own, rated.value - self.level_, np.ones(len(rated)), spread)
        self.coef_ = np.where(self.used_, slopes, 0.0)
        slope = 1 / (PRIOR_SPREAD * steps * np.sqrt(1 - PRIOR_CORRELATION**2))  # in steps of the scale
        self.link_ = OrdinalLink(slope * (np.arange(steps) + 0.5), slope, np.zeros((0, steps)), floor=1e-3)

    @property
    def caution(self) -> str | None:
        """Warning if the model rests on the prior, or on one group."""
        if self.ratings_ >= FEWEST_LABELS:
            return None if self.groups_ > 1 else "learned from ratings of one conversation or context"
        if not self.ratings_:
            return "not calibrated: there are no ratings, so only the order of the scores has a meaning"
        return f"learned from {self.ratings_} ratings: the mean of the judge's answers, with a typical slope"

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the learned state as JSON and arrays."""
        card, arrays = super().state()
        return {**card, "ratings": self.ratings_, "groups": self.groups_, "reach": self.reach_}, arrays

    def restore(self, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """Restore the learned state from `state`."""
        self.ratings_, self.groups_ = int(card_number(card, "ratings")), int(card_number(card, "groups"))
        self.reach_ = card_number(card, "reach") if "reach" in card else np.inf  # earlier versions did not clip
        return super().restore(card, arrays)


class LeastSquares(LinearModel):
    """Minimum-norm least squares."""

    name = "least-squares"

    def slopes(self, Z: Floats, y: Floats, weight: Floats) -> Floats:
        """Return the least-squares slopes."""
        root = np.sqrt(weight)
        return np.asarray(np.linalg.lstsq(Z * root[:, None], y * root, rcond=None)[0])


class Ridge(LinearModel):
    """Ridge regression; generalized cross-validation chooses the penalty."""

    name = "ridge"

    def slopes(self, Z: Floats, y: Floats, weight: Floats) -> Floats:
        """Return the slopes under the penalty of `PENALTIES` with the lowest error."""
        root = np.sqrt(weight)
        U, s, V = np.linalg.svd(Z * root[:, None], full_matrices=False)
        along = U.T @ (y * root)
        kept = s**2 / (s**2 + PENALTIES[:, None])  # (penalties, r)
        rest = float((y * root) @ (y * root) - along @ along)
        errors = (((1 - kept) * along) ** 2).sum(axis=1) + max(rest, 0.0)
        free = np.maximum(len(y) - 1 - kept.sum(axis=1), 1e-3)
        penalty = PENALTIES[int(np.argmin(errors / free**2))]
        return np.asarray(V.T @ (s / (s**2 + penalty) * along))


class PartialLeastSquares(LinearModel):
    """Partial least squares with one component (Wold, 1966)."""

    name = "pls"

    def slopes(self, Z: Floats, y: Floats, weight: Floats) -> Floats:
        """Return slopes along the covariances of the columns with the ratings."""
        direction = Z.T @ (weight * y)
        t = Z @ direction
        return np.asarray(direction * (weight @ (t * y)) / (float(weight @ t**2) or 1.0))


SIMPLE_MODELS: Mapping[str, Callable[[], AnswerModel]] = {
    "judge-mean": JudgeMean,
    "ridge-judge": partial(Ridge, judge_only=True, name="ridge-judge"),
    "ridge": Ridge,
    "least-squares": LeastSquares,
    "pls": PartialLeastSquares,
    "trees": TreeAnswers,
    "boosting": BoostedAnswers,
}
"""Answer models that ignore annotators and need no other settings."""
