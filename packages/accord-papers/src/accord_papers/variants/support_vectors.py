"""Answer model `svr`: support vector regression (Drucker et al., 1997), the learned reward of MoE-CIU's paper.

    μ(z) = b + Σ_i α_i·exp(-|z - z_i|² / d)

z is the evidence, standardized on the rated texts; d is the number of columns. C and the tube width are the pair in
`GRID` that has the lowest squared error on inner folds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import scipy

from accord.evidence import Arrays, EvidenceTable, by_row
from accord.learning.answer_models.contract import (
    Floats,
    Indices,
    TextMeanModel,
    card_names,
    card_number,
    matrix,
    part_arrays,
    prefixed,
)
from accord.learning.answer_models.mixed.layout import standardization
from accord.learning.answer_models.ordinal import OrdinalLink

GRID = [(strength, tube) for strength in (0.1, 1.0, 10.0) for tube in (0.1, 0.5)]
"""C and the half width of the tube in steps of the scale, most regularized first."""
MOST_TRIED = 1000
"""Largest number of texts used to choose the settings; the final fit uses all texts."""
_AT_ONCE, _CACHE_MB = 512, 32
"""Rows compared with all support vectors in one step, and memory for the kernel in MB."""
_ARRAYS = ("mean_", "scale_", "support_", "dual_", "unit_")


class SupportVectorAnswers(TextMeanModel):
    """Ordered probit of a support vector regression on each text's mean rating."""

    name = "svr"

    def fit_texts(
        self, features: EvidenceTable, texts: Indices, mean: Floats, weight: Floats, fold: Indices, group: Indices
    ) -> Floats:
        """Learn from T rated texts."""
        X = matrix(features)[texts]
        self.mean_, self.scale_ = standardization(X)
        Z, y = self._standardize(X), self._in_steps(mean)
        sample = np.linspace(0, len(y) - 1, min(len(y), MOST_TRIED)).astype(int)  # time grows with the square of T
        sampled = Z[sample], y[sample], weight[sample], fold[sample]
        trials = [_cross_predict(*sampled, cell) for cell in GRID]
        best = int(np.argmin([weight[sample] @ (trial - y[sample]) ** 2 for trial in trials]))
        self.cell_ = GRID[best]
        self.support_, self.dual_, self.constant_ = _fitted(Z, y, weight, self.cell_)
        held_out = trials[best] if len(sample) == len(y) else _cross_predict(Z, y, weight, fold, self.cell_)
        return np.asarray(self.unit_[0] + self.unit_[1] * held_out)

    def predict_texts(self, features: EvidenceTable) -> Floats:
        """Return (n,) predicted mean ratings."""
        steps = _predict(self._standardize(matrix(features)), self.support_, self.dual_, self.constant_)
        return np.asarray(self.unit_[0] + self.unit_[1] * steps)

    def _standardize(self, X: Floats) -> Floats:
        return np.nan_to_num((X - self.mean_) / self.scale_, nan=0.0)

    def describe(self) -> dict[str, Any]:
        """Return the chosen settings and the number of support vectors."""
        return {"strength": self.cell_[0], "tube": self.cell_[1], "support_vectors": len(self.dual_)}

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the learned state as JSON and arrays."""
        link, link_arrays = self.link_.state()
        card = {"cell": list(self.cell_), "constant": self.constant_, "link": link, "people": self.people_}
        return card, {**prefixed("link", link_arrays), **{name: getattr(self, name) for name in _ARRAYS}}

    def restore(self, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """Restore the learned state from `state`."""
        self.people_ = card_names(card, "people")
        strength, tube = card["cell"]
        self.cell_, self.constant_ = (float(strength), float(tube)), card_number(card, "constant")
        for name in _ARRAYS:
            setattr(self, name, np.asarray(arrays[name]))
        self.link_ = OrdinalLink.restored(card["link"], part_arrays("link", arrays))
        return self


def _cross_predict(Z: Floats, y: Floats, weight: Floats, fold: Indices, cell: tuple[float, float]) -> Floats:
    """Return (T,) predictions from machines that were trained without each text's fold."""
    predictions = np.empty(len(y))
    for held_out in np.unique(fold):
        train = fold != held_out
        predictions[~train] = _predict(Z[~train], *_fitted(Z[train], y[train], weight[train], cell))
    return predictions


def _fitted(Z: Floats, y: Floats, weight: Floats, cell: tuple[float, float]) -> tuple[Floats, Floats, float]:
    """Return support vectors (S, d), their α (S,), and b."""
    from sklearn.svm import SVR

    machine = SVR(C=cell[0], epsilon=cell[1], gamma=1 / max(Z.shape[1], 1), cache_size=_CACHE_MB).fit(Z, y, weight)
    return Z[machine.support_], np.asarray(machine.dual_coef_[0], dtype=float), float(machine.intercept_[0])


def _predict(Z: Floats, support: Floats, dual: Floats, constant: float) -> Floats:
    """Return (n,) μ."""
    values = np.full(len(Z), constant)
    for start in range(0, len(Z), _AT_ONCE):
        rows = slice(start, start + _AT_ONCE)
        kernel = np.exp(-scipy.spatial.distance.cdist(Z[rows], support, "sqeuclidean") / max(Z.shape[1], 1))
        values[rows] += by_row(kernel, dual)
    return values
