"""Distance to the training inputs, and warnings of rows that are unlike them or lack usual evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accord.evidence import EvidenceTable, by_row
from accord.learning.answer_models.contract import matrix
from accord.learning.answer_models.mixed.layout import standardization
from accord.statistics import fold_of

Floats = NDArray[np.float64]

USUAL = 0.95
"""A row without a value gets a warning if at least this share of training rows has one."""
UNLIKE = "unlike the training data"
"""Words of the warning of a score whose evidence is out of distribution."""
IN_DISTRIBUTION = 0.99
"""Share of inputs like the training data that pass without a warning."""
_FEWEST = 20
_FOLDS = 5
_NAMED = 3


def shrunk_covariance(Z: Floats) -> Floats:
    """Return (d, d) Σ = (1 - ρ)S + ρ·(tr S/d)·I, S = ZᵀZ/n, of n centered rows Z (n, d) (Ledoit & Wolf, 2004).

    ρ = min(b², δ²)/δ² with δ² = |S - (tr S/d)·I|² and b² = Σᵢ |zᵢzᵢᵀ - S|²/n².
    """
    rows, columns = Z.shape
    S = Z.T @ Z / rows
    sphere = np.trace(S) / columns * np.eye(columns)
    apart = float(((S - sphere) ** 2).sum())
    doubt = float((((Z**2).sum(axis=1) ** 2).mean() - (S**2).sum()) / rows)
    share = min(doubt, apart) / apart if apart > 0 else 0.0
    return np.asarray((1 - share) * S + share * sphere)


@dataclass(frozen=True)
class OutOfDistribution:
    """Mahalanobis distance to the training inputs, √(z'Σ⁻¹z) with Σ shrunk (Ledoit & Wolf, 2004).

    Attributes:
        mean: (d,) mean of the training inputs.
        scale: (d,) standard deviation of the training inputs.
        usual: (d,) True if nearly all training rows (`USUAL`) have a value; a row without it lacks evidence.
        precision: (d, d) Σ⁻¹ of the standardized inputs, with missing values at their mean.
        limit: Distance within which `IN_DISTRIBUTION` of the training inputs are, each measured from other groups.
    """

    mean: Floats
    scale: Floats
    precision: Floats
    limit: float
    usual: NDArray[np.bool_]

    @classmethod
    def fit(cls, features: EvidenceTable, group: Sequence[str]) -> Self:
        """Fit to the training rows, each of a group; with fewer than twenty rows no input is out of distribution."""
        X = matrix(features)
        whole = cls._of(X)
        if len(X) < _FEWEST or not X.shape[1] or len(set(group)) < 2:
            return whole
        place = fold_of(group, _FOLDS)
        fold = np.array([place[name] for name in group])
        apart = np.concatenate([cls._of(X[fold != each])._distance(X[fold == each]) for each in np.unique(fold)])
        return replace(whole, limit=float(np.quantile(apart, IN_DISTRIBUTION, method="higher")))

    @classmethod
    def _of(cls, X: Floats) -> Self:
        mean, scale = standardization(X)
        Z = np.nan_to_num((X - mean) / scale, nan=0.0)
        usual = np.isfinite(X).mean(axis=0) >= USUAL if len(X) else np.zeros(X.shape[1], dtype=bool)
        if not X.shape[1] or len(X) < 2:
            return cls(mean, scale, np.eye(X.shape[1]), float("inf"), usual)
        precision = np.asarray(np.linalg.pinv(shrunk_covariance(Z), hermitian=True), dtype=np.float64)
        return cls(mean, scale, precision, float("inf"), usual)

    def _distance(self, X: Floats) -> Floats:
        Z = (X - self.mean) / self.scale
        Z[np.isnan(Z)] = 0.0
        return np.asarray(np.sqrt(np.maximum((by_row(Z, self.precision) * Z).sum(axis=1), 0.0)))

    def lacking(self, features: EvidenceTable) -> NDArray[np.bool_]:
        """Return (n, d) True for missing values that nearly all training rows had."""
        return np.asarray(~features.present & self.usual)

    def warnings(self, features: EvidenceTable, lacking: bool = True) -> list[str | None]:
        """Return a warning for each row that is out of distribution or lacks usual evidence, `None` for the others.

        Lacking evidence is ignored if `lacking` is false.
        """
        distance = self._distance(matrix(features)).tolist()
        lacks = self.lacking(features) & lacking
        is_lacking = np.asarray(lacks.any(axis=1)).tolist()
        found = []
        for row, each in enumerate(distance):
            missing = _missing(features, lacks[row]) if is_lacking[row] else None
            unlike = self._unlike(each) if each > self.limit else None
            found.append("; ".join(part for part in (missing, unlike) if part) or None)
        return found

    def _unlike(self, distance: float) -> str:
        return (
            f"{UNLIKE}: its evidence is {distance:.1f} away, {IN_DISTRIBUTION:.0%} of the training "
            f"data are within {self.limit:.1f}"
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fields as arrays to save."""
        return {
            "distance.mean": self.mean,
            "distance.scale": self.scale,
            "distance.precision": self.precision,
            "distance.limit": np.array([self.limit] if np.isfinite(self.limit) else []),  # saved arrays are finite
            "distance.usual": self.usual.astype(np.float64),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return the distance from `arrays`."""
        mean, scale, precision = (np.asarray(arrays[f"distance.{name}"]) for name in ("mean", "scale", "precision"))
        limit = arrays["distance.limit"]
        return cls(
            mean, scale, precision, float(limit[0]) if len(limit) else float("inf"), arrays["distance.usual"] > 0
        )


def _missing(features: EvidenceTable, lacks: NDArray[np.bool_]) -> str:
    """Return a sentence on missing evidence that names a few of the columns (d,) that a row lacks."""
    columns = [features.columns[place] for place in np.flatnonzero(lacks)]
    lacking = list(dict.fromkeys(column.question or column.name for column in columns))
    more = f" and {len(lacking) - _NAMED} more" if len(lacking) > _NAMED else ""
    return f"lacks evidence that nearly all of the training data had: {', '.join(lacking[:_NAMED])}{more}"
