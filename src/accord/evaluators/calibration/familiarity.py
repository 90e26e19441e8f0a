"""Whether evidence is like that an evaluator has learned from: its distance, in units of how that spreads."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accord.evaluators.calibration.core import matrix
from accord.evaluators.calibration.mixed import standardisation
from accord.evidence.table import EvidenceTable

Floats = NDArray[np.float64]

FAMILIAR = 0.99
"""Share of inputs like the training data that pass without a warning."""
_FEWEST = 20
_FOLDS = 5


@dataclass(frozen=True)
class Familiarity:
    """Mahalanobis distance to the training inputs, √(z'Σ⁻¹z) with Σ shrunk (Ledoit & Wolf, 2004).

    Attributes:
        mean: (d,) of the training inputs.
        scale: (d,) their standard deviations.
        precision: (d, d) Σ⁻¹ of the standardised inputs; missing ones are their mean.
        limit: The distance within which `FAMILIAR` of the training inputs lie, each measured from the others.
    """

    mean: Floats
    scale: Floats
    precision: Floats
    limit: float

    @classmethod
    def fit(cls, features: EvidenceTable) -> Self:
        """Of the rows that were learned from; with fewer than twenty of them nothing is called unlike."""
        X = matrix(features)
        whole = cls._of(X)
        if len(X) < _FEWEST or not X.shape[1]:
            return cls(whole.mean, whole.scale, whole.precision, float("inf"))
        fold = np.arange(len(X)) % _FOLDS
        apart = np.concatenate([cls._of(X[fold != each])._distance(X[fold == each]) for each in range(_FOLDS)])
        return cls(whole.mean, whole.scale, whole.precision, float(np.quantile(apart, FAMILIAR, method="higher")))

    @classmethod
    def _of(cls, X: Floats) -> Self:
        from sklearn.covariance import ledoit_wolf

        mean, scale = standardisation(X)
        Z = np.nan_to_num((X - mean) / scale, nan=0.0)
        if not X.shape[1] or len(X) < 2:
            return cls(mean, scale, np.eye(X.shape[1]), float("inf"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns of a single row or column, which need no shrinking
            covariance, _ = ledoit_wolf(Z, assume_centered=True)
        return cls(mean, scale, np.linalg.pinv(covariance, hermitian=True), float("inf"))

    def _distance(self, X: Floats) -> Floats:
        Z = np.nan_to_num((X - self.mean) / self.scale, nan=0.0)
        return np.asarray(np.sqrt(np.maximum(((Z @ self.precision) * Z).sum(axis=1), 0.0)))

    def warnings(self, features: EvidenceTable) -> list[str | None]:
        """For each row what to say of it, `None` where it is like what was learned from."""
        distance = self._distance(matrix(features))
        return [self._said(each) if each > self.limit else None for each in distance]

    def _said(self, distance: float) -> str:
        return (
            f"unlike what was learned from: its evidence lies {distance:.1f} away, "
            f"{FAMILIAR:.0%} of the training data within {self.limit:.1f}"
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The same as arrays to save."""
        return {
            "familiar.mean": self.mean,
            "familiar.scale": self.scale,
            "familiar.precision": self.precision,
            "familiar.limit": np.array([self.limit]),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The inverse of `arrays`."""
        mean, scale, precision = (np.asarray(arrays[f"familiar.{name}"]) for name in ("mean", "scale", "precision"))
        return cls(mean, scale, precision, float(arrays["familiar.limit"][0]))
