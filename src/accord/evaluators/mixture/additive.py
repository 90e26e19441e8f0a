"""A sum of one curve a metric, each as smooth and as flat as the data allow: a penalised least-squares fit.

    ŷ = b + Σ_j f_j(x_j)        minimise Σ w (y - ŷ)² + Σ_j (λ₁ |Δf_j|² + λ₂ |Δ²f_j|²)

over the values of the curves at the knots. MoE-CIU's embeddings of bins (Choi et al., section 3.3), with soft bins and
without its gate, which brought nothing that could be measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from accord.evaluators.base import Arrays
from accord.evaluators.mixture.bins import BINS, Bins
from accord.evaluators.mixture.form import Floats, Indices, predicted

STRENGTHS = ((1.0, 1.0), (3.0, 3.0), (10.0, 3.0), (30.0, 10.0), (100.0, 30.0), (300.0, 100.0))
"""Penalties to choose from: how flat, and how smooth, the curves are."""
_RIDGE = 1e-3


@dataclass(frozen=True)
class Additive:
    """Curves that were fitted.

    Attributes:
        bins: Where values stand among those seen.
        level: b, the mean prediction in training.
        values: (M, BINS + 1) what each bin of each metric adds, 0 on average in training; the last where it is missing.
        strength: λ₁ and λ₂.
    """

    bins: Bins
    level: float
    values: Floats
    strength: tuple[float, float]

    @classmethod
    def learn(
        cls, X: Floats, y: Floats, weight: Floats, fold: Indices, strengths: Sequence[tuple[float, float]] = STRENGTHS
    ) -> tuple[Self, Floats]:
        """Fit with the penalties that predict other folds best; also (n,) predictions without each fold.

        Args:
            X: (n, M) metrics, NaN where missing.
            y: (n,) mean ratings.
            weight: (n,) how many ratings each is the mean of.
            fold: (n,) which texts are left out together.
            strengths: Pairs of λ₁ and λ₂ to choose from.
        """
        found = np.zeros((len(strengths), len(y)))
        for each in np.unique(fold):
            train, test = fold != each, fold == each
            bins = Bins.fit(X[train])
            for row, strength in enumerate(strengths):
                part = cls.fit(bins, X[train], y[train], weight[train], strength)
                found[row, test] = predicted(part, X[test])
        best = int(np.argmin(((found - y) ** 2 * weight).sum(axis=1)))
        return cls.fit(Bins.fit(X), X, y, weight, strengths[best]), found[best]

    @classmethod
    def fit(cls, bins: Bins, X: Floats, y: Floats, weight: Floats, strength: tuple[float, float]) -> Self:
        """The curves that minimise the penalised squared error."""
        basis = bins.soft(X)
        n, metrics, count = basis.shape
        share = weight / weight.sum()
        means = np.tensordot(share, basis, axes=1)
        B = (basis - means).reshape(n, -1)
        level = float(share @ y)
        penalty = np.kron(np.eye(metrics), _penalty(*strength))
        curves = np.linalg.solve(B.T @ (weight[:, None] * B) + penalty, B.T @ (weight * (y - level)))
        found = curves.reshape(metrics, count)
        return cls(bins, level, found - (means * found).sum(axis=1, keepdims=True), strength)

    def contributions(self, X: Floats) -> Floats:
        """(n, M) what each metric adds to each prediction, in units of the scale."""
        return np.asarray((self.bins.soft(X) * self.values).sum(axis=-1))

    def among(self, X: Floats) -> Self:
        """The same with ranks told among other texts."""
        return replace(self, bins=Bins.fit(X))

    def curves(self) -> Floats:
        """(M, BINS + 1) what each bin of each metric adds."""
        return self.values

    def settings(self) -> dict[str, Any]:
        """The penalties that were chosen."""
        return {"flat": self.strength[0], "smooth": self.strength[1]}

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """All of it, as JSON and as arrays."""
        return {"level": self.level, "strength": list(self.strength)}, {"values": self.values, "seen": self.bins.seen}

    @classmethod
    def restored(cls, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """The inverse of `state`."""
        flat, smooth = card["strength"]
        return cls(Bins(arrays["seen"]), card["level"], arrays["values"], (flat, smooth))


def _penalty(flat: float, smooth: float) -> Floats:
    """(BINS + 1, BINS + 1) λ₁ ΔᵀΔ + λ₂ Δ²ᵀΔ² over the bins, and λ₁ for what a missing value adds."""
    first, second = np.diff(np.eye(BINS), axis=0), np.diff(np.eye(BINS), 2, axis=0)
    whole = np.full((BINS + 1, BINS + 1), 0.0)
    whole[:BINS, :BINS] = flat * first.T @ first + smooth * second.T @ second
    whole[BINS, BINS] = flat
    return np.asarray(whole + _RIDGE * np.eye(BINS + 1))
