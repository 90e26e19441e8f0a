"""A sum of one curve a metric, each as smooth and as flat as the data allow: a penalised least-squares fit.

    ŷ = b + Σ_j f_j(x_j)        minimise Σ w (y - ŷ)² + Σ_j (λ₁ |Δf_j|² + λ₂ |Δ²f_j|²)

over the values of the curves at the knots. MoE-CIU's embeddings of bins (Choi et al., section 3.3), with soft bins and
without its gate, which brought nothing that could be measured.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accord.evaluators.mixture.soft_bins import BINS

Floats = NDArray[np.float64]

_RIDGE = 1e-3


@dataclass(frozen=True)
class Additive:
    """Curves that were fitted.

    Attributes:
        level: b, the mean prediction in training.
        curves: (M, BINS + 1) what each bin of each metric adds, 0 on average in training; the last where it is missing.
    """

    level: float
    curves: Floats

    @classmethod
    def fit(cls, basis: Floats, y: Floats, weight: Floats, flat: float, smooth: float) -> Additive:
        """From (n, M, BINS + 1) soft bins, (n,) values and (n,) weights; λ₁ is `flat`, λ₂ `smooth`."""
        n, metrics, bins = basis.shape
        share = weight / weight.sum()
        means = np.tensordot(share, basis, axes=1)
        B = (basis - means).reshape(n, -1)
        level = float(share @ y)
        penalty = np.kron(np.eye(metrics), _penalty(flat, smooth))
        curves = np.linalg.solve(B.T @ (weight[:, None] * B) + penalty, B.T @ (weight * (y - level)))
        found = curves.reshape(metrics, bins)
        return cls(level, found - (means * found).sum(axis=1, keepdims=True))

    def contributions(self, basis: Floats) -> Floats:
        """(n, M) what each metric adds to each prediction, in units of the scale."""
        return np.asarray((basis * self.curves).sum(axis=-1))

    def predict(self, basis: Floats) -> Floats:
        """(n,) predictions."""
        return np.asarray(self.level + self.contributions(basis).sum(axis=1))


def _penalty(flat: float, smooth: float) -> Floats:
    """(BINS + 1, BINS + 1) λ₁ ΔᵀΔ + λ₂ Δ²ᵀΔ² over the bins, and λ₁ for what a missing value adds."""
    first, second = np.diff(np.eye(BINS), axis=0), np.diff(np.eye(BINS), 2, axis=0)
    whole = np.full((BINS + 1, BINS + 1), 0.0)
    whole[:BINS, :BINS] = flat * first.T @ first + smooth * second.T @ second
    whole[BINS, BINS] = flat
    return np.asarray(whole + _RIDGE * np.eye(BINS + 1))
