"""Metrics in bins by rank, and an additive model of one penalized curve per metric."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from accord.evidence import Arrays

Floats = NDArray[np.float64]

BINS = 5
KEPT = 1000
"""Largest number of values of a metric that are stored to compute ranks."""


@dataclass(frozen=True)
class Bins:
    """Stored values of each metric.

    Ranks carry over between domains where raw values do not; a value beyond all stored ones counts as the last.

    Attributes:
        seen: (m, M) each metric's values in ascending order; NaN at the end if there are fewer.
    """

    seen: Floats

    @classmethod
    def fit(cls, X: Floats) -> Bins:
        """Return the bins of (n, M) values, with NaN for missing ones."""
        ordered = np.sort(X, axis=0)  # NaN comes last
        if len(X) <= KEPT:
            return cls(ordered)
        known = np.isfinite(ordered).sum(axis=0)
        places = np.linspace(0, 1, KEPT)[:, None] * np.maximum(known - 1, 0)
        return cls(np.take_along_axis(ordered, places.round().astype(int), axis=0))

    def ranks(self, X: Floats) -> Floats:
        """Return (n, M) the mid-rank of each value, 0 to 1; NaN if it is missing or no value is stored."""
        result = np.full(X.shape, np.nan)
        for column, known in enumerate(self.known):
            if len(known):
                result[:, column] = self.places(column, X[:, column]) / (2 * len(known))
        result[np.isnan(X)] = np.nan
        return result

    @cached_property
    def known(self) -> list[Floats]:
        """Stored values of each column in ascending order."""
        return [column[np.isfinite(column)] for column in self.seen.T]

    def soft(self, X: Floats) -> Floats:
        """(n, M, BINS + 1) membership of each value in each bin, summing to 1; the last bin is for missing values."""
        return _soft(self.ranks(X))

    def places(self, column: int, values: Floats) -> NDArray[np.intp]:
        """Return (n,) twice the number of seen values below each value, plus the number of equal ones."""
        known = self.known[column]
        return known.searchsorted(values, "left") + known.searchsorted(values, "right")

    def hard(self, X: Floats) -> Floats:
        """Return (n, M, BINS + 1) 1 for the bin of each value, with equally full bins.

        The last one marks a missing value.
        """
        ranks = self.ranks(X)
        place = np.where(np.isnan(ranks), BINS, np.minimum(np.nan_to_num(ranks) * BINS, BINS - 1)).astype(int)
        return np.asarray(np.eye(BINS + 1)[place])


def _soft(ranks: Floats) -> Floats:
    """Return (..., BINS + 1) membership of ranks in bins; NaN belongs to the last."""
    missing = np.isnan(ranks)
    knots = np.linspace(0, 1, BINS)
    hats = np.maximum(0.0, 1 - np.abs(np.where(missing, 0.0, ranks)[..., None] - knots) * (BINS - 1))
    return np.concatenate([np.where(missing[..., None], 0.0, hats), missing[..., None]], axis=-1)


FEW_ROWS = 64
"""Rows up to which a column is looked up value by value; NumPy is faster for more."""
_MOST_COLUMNS = 4096
Indices = NDArray[np.intp]


class Form(Protocol):
    """A learned sum over metrics. X is (n, M), NaN for missing values; ŷ = level + Σ contributions."""

    @property
    def level(self) -> float:
        """Mean prediction in training, in units of the scale."""

    def contributions(self, X: Floats) -> Floats:
        """Return (n, M) the contribution of each metric to each prediction, in units of the scale."""

    def among(self, X: Floats) -> Self:
        """Return the model with ranks among other texts."""

    def curves(self) -> Floats:
        """Return (M, BINS + 1) the contribution of each bin of each metric; the last one is for a missing value."""

    def settings(self) -> dict[str, float]:
        """Return the settings chosen on the training side."""

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return everything that `restored` needs, as JSON and arrays."""

    @classmethod
    def restored(cls, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """Return the model from `state`."""


def predicted(form: Form, X: Floats) -> Floats:
    """Return (n,) predictions."""
    return np.asarray(form.level + form.contributions(X).sum(axis=1))


STRENGTHS = ((1.0, 1.0), (3.0, 3.0), (10.0, 3.0), (30.0, 10.0), (100.0, 30.0), (300.0, 100.0))
"""Candidate penalties for slope and for curvature."""
_RIDGE = 1e-3
FEW_GROUPS = 10
"""Shrinkage of missing-value contributions: n/(n + 10), with n the number of groups with the missing value."""


@dataclass(frozen=True)
class Additive:
    """Fitted curves.

    Attributes:
        bins: Stored values of each metric.
        level: b, the mean prediction in training.
        values: (M, BINS + 1) contribution of each bin, 0 on average in training; the last one is for a missing value.
        strength: λ₁ and λ₂.
    """

    bins: Bins
    level: float
    values: Floats
    strength: tuple[float, float]

    @classmethod
    def learn(
        cls,
        X: Floats,
        y: Floats,
        weight: Floats,
        fold: Indices,
        group: Indices,
        strengths: Sequence[tuple[float, float]] = STRENGTHS,
    ) -> tuple[Self, Floats]:
        """Fit with the penalties that predict other folds best; also return (n,) held-out predictions.

        Args:
            X: (n, M) metrics, NaN for missing ones.
            y: (n,) mean ratings.
            weight: (n,) number of ratings in each mean.
            fold: (n,) fold of each text.
            group: (n,) group of each text.
            strengths: Candidate pairs of λ₁ and λ₂.
        """
        result = np.zeros((len(strengths), len(y)))
        for each in np.unique(fold):
            train, test = fold != each, fold == each
            bins = Bins.fit(X[train])
            tried = cls.fit_each(bins, X[train], y[train], weight[train], group[train], strengths)
            unseen = bins.soft(X[test])
            for row, part in enumerate(tried):
                result[row, test] = part.level + (unseen * part.values).sum(axis=-1).sum(axis=1)
        best = int(np.argmin(((result - y) ** 2 * weight).sum(axis=1)))
        return cls.fit(Bins.fit(X), X, y, weight, group, strengths[best]), result[best]

    @classmethod
    def fit(
        cls, bins: Bins, X: Floats, y: Floats, weight: Floats, group: Indices, strength: tuple[float, float]
    ) -> Self:
        """Return the curves that minimize the penalized squared error.

        Contributions of missing values are shrunk afterwards.
        """
        return cls.fit_each(bins, X, y, weight, group, [strength])[0]

    @classmethod
    def fit_each(
        cls,
        bins: Bins,
        X: Floats,
        y: Floats,
        weight: Floats,
        group: Indices,
        strengths: Sequence[tuple[float, float]],
    ) -> list[Self]:
        """Return `fit` for several strengths, which share everything except the penalty."""
        basis = bins.soft(X)
        n, metrics, count = basis.shape
        share = weight / weight.sum()
        means = np.tensordot(share, basis, axes=1)
        B = (basis - means).reshape(n, -1)
        level = float(share @ y)
        crossed, right = B.T @ (weight[:, None] * B), B.T @ (weight * (y - level))
        groups = np.array([len(np.unique(group[column])) for column in np.isnan(X).T])
        made = []
        for strength in strengths:
            penalty = np.kron(np.eye(metrics), _penalty(*strength))
            result = np.linalg.solve(crossed + penalty, right).reshape(metrics, count)
            centred = result - (means * result).sum(axis=1, keepdims=True)
            centred[:, BINS] *= groups / (groups + FEW_GROUPS)
            made.append(cls(bins, level, centred, strength))
        return made

    def contributions(self, X: Floats) -> Floats:
        """(n, M) contribution of each metric to each prediction, in units of the scale."""
        rows, columns = X.shape
        result = np.empty((columns, rows))
        if rows == 1:
            result[:, 0] = [self._contribution(column, value) for column, value in enumerate(X[0].tolist())]
        elif rows <= FEW_ROWS:
            # Rows that differ in a few columns only: those that complete a row without some evidence.
            is_constant = (X[:1] == X).all(axis=0).tolist() if rows else [False] * columns
            for column, value in enumerate(X[0].tolist() if rows else [0.0] * columns):
                constant = is_constant[column]
                result[column] = self._contribution(column, value) if constant else self._repeated(column, X[:, column])
        else:
            for column in range(columns):
                result[column] = self._looked_up(column, X[:, column])
        return np.ascontiguousarray(result.T)

    @cached_property
    def _tables(self) -> list[tuple[list[float], Floats, list[float]]]:
        """Each column's seen values, and its contribution by `Bins.places`; the last one belongs to missing values."""
        tables = []
        for known, values in zip(self.bins.known, self.values, strict=True):
            ranks = np.append(np.arange(2 * len(known) + 1) / (2 * max(len(known), 1)), np.nan)
            if not len(known):
                ranks[:] = np.nan
            table = (_soft(ranks) * values).sum(axis=-1)
            tables.append((known.tolist(), table, table.tolist()))
        return tables

    def _contribution(self, column: int, value: float) -> float:
        known, _, table = self._tables[column]
        return table[-1] if value != value else table[bisect_left(known, value) + bisect_right(known, value)]

    def _looked_up(self, column: int, values: Floats) -> Floats:
        places = self.bins.places(column, values)
        return np.asarray(self._tables[column][1][np.where(np.isnan(values), -1, places)])

    @cached_property
    def _columns(self) -> dict[tuple[int, bytes], Floats]:
        return {}

    def _repeated(self, column: int, values: Floats) -> Floats:
        """Look up a column, cached because live replies with the same missing evidence repeat it."""
        key = column, values.tobytes()
        result = self._columns.get(key)
        if result is None:
            if len(self._columns) >= _MOST_COLUMNS:
                self._columns.clear()
            result = self._columns[key] = self._looked_up(column, values)
        return result

    def among(self, X: Floats) -> Self:
        """Return the model with ranks among other texts."""
        return replace(self, bins=Bins.fit(X))

    def curves(self) -> Floats:
        """Return (M, BINS + 1) the contribution of each bin of each metric."""
        return self.values

    def settings(self) -> dict[str, float]:
        """Return the chosen penalties."""
        return {"flat": self.strength[0], "smooth": self.strength[1]}

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the learned state as JSON and arrays."""
        return {"level": self.level, "strength": list(self.strength)}, {"values": self.values, "seen": self.bins.seen}

    @classmethod
    def restored(cls, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """Return the model from `state`."""
        flat, smooth = card["strength"]
        return cls(Bins(arrays["seen"]), card["level"], arrays["values"], (flat, smooth))


def _penalty(flat: float, smooth: float) -> Floats:
    """Return (BINS + 1, BINS + 1) λ₁ ΔᵀΔ + λ₂ Δ²ᵀΔ² over the bins, and λ₁ for a missing value."""
    first, second = np.diff(np.eye(BINS), axis=0), np.diff(np.eye(BINS), 2, axis=0)
    whole = np.full((BINS + 1, BINS + 1), 0.0)
    whole[:BINS, :BINS] = flat * first.T @ first + smooth * second.T @ second
    whole[BINS, BINS] = flat
    return np.asarray(whole + _RIDGE * np.eye(BINS + 1))
