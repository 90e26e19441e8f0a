"""Support vector regression behind an ordered probit (Drucker and others, 1997): the learned reward of MoE-CIU's paper.

    μ(z) = b + Σ_i α_i·exp(-|z - z_i|² / d)

z is the evidence, standardised on the rated texts, d the number of columns. It learns each text's mean rating, the same
whoever rates; C and the width of the tube are those of `GRID` with the least squared error on inner folds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import scipy
from numpy.typing import NDArray

from accord.evidence import Arrays, EvidenceTable, Ratings, by_row
from accord.learning.answer_model import Core, Floats, inner_folds, matrix
from accord.learning.mixture import by_text
from accord.learning.ordered_probit import OrdinalLink
from accord.learning.rating_design import standardisation
from accord.values import Labels

GRID = [(strength, tube) for strength in (0.1, 1.0, 10.0) for tube in (0.1, 0.5)]
"""C, and the half width of the tube in steps between options; the most regularised first."""
MOST_TRIED = 1000
"""The most texts on which the settings are chosen; the machine itself learns from all."""
_AT_ONCE, _CACHE_MB = 512, 32
"""Rows that are held against all support vectors at once, and memory for the products of texts."""
_ARRAYS = ("mean_", "scale_", "support_", "dual_", "unit_")


class SupportVectorCore(Core):
    """Evidence in; an ordered probit of the regression's value out, the same whoever is asked."""

    name = "svr"

    def shown(self, evidence: EvidenceTable) -> EvidenceTable:
        """Each answer block as its expected answer."""
        return evidence.expected()

    def learn(self, features: EvidenceTable, rated: Ratings, labels: Labels) -> Floats:
        """Learn from the mean rating of each text; other questions' labels are not looked at."""
        texts, first, place = np.unique(rated.row, return_index=True, return_inverse=True)
        X, mean, weight = by_text(matrix(features), rated, texts)
        self.unit_ = np.array([rated.options[0], np.ptp(rated.options) / (len(rated.options) - 1)])
        self.mean_, self.scale_ = standardisation(X)
        self.people_ = sorted({str(name) for name in rated.annotator})
        Z, y, fold = self._standardised(X), (mean - self.unit_[0]) / self.unit_[1], inner_folds(rated)
        some = np.linspace(0, len(y) - 1, min(len(y), MOST_TRIED)).astype(int)  # a fit takes the square of its texts
        few = Z[some], y[some], weight[some], fold[first][some]
        tried = [self._held_out(*few, cell) for cell in GRID]
        best = int(np.argmin([weight[some] @ (each - y[some]) ** 2 for each in tried]))
        self.cell_ = GRID[best]
        self.support_, self.dual_, self.constant_ = _fitted(Z, y, weight, self.cell_)
        all_tried = tried[best] if len(some) == len(y) else self._held_out(Z, y, weight, fold[first], self.cell_)
        means, nobody = all_tried[place], np.full(len(rated), -1, dtype=np.intp)
        linked = means, rated.answer, nobody, 0, len(rated.options), 0.0
        self.link_ = OrdinalLink.fit(*linked)
        return OrdinalLink.held_out(*linked, fold=fold)

    def _standardised(self, X: Floats) -> Floats:
        return np.nan_to_num((X - self.mean_) / self.scale_, nan=0.0)

    def _held_out(
        self, Z: Floats, y: Floats, weight: Floats, fold: NDArray[np.intp], cell: tuple[float, float]
    ) -> Floats:
        """(T,) each text's value by a machine that did not see its fold."""
        found = np.empty(len(y))
        for each in np.unique(fold):
            kept = fold != each
            found[~kept] = _valued(Z[~kept], *_fitted(Z[kept], y[kept], weight[kept], cell))
        return found

    def distributions(self, features: EvidenceTable, annotators: Sequence[str | None]) -> Floats:
        """(n, K) each row's distribution, whoever is asked."""
        means = _valued(self._standardised(matrix(features)), self.support_, self.dual_, self.constant_)
        return self.link_.distribution(means, np.full(len(means), -1, dtype=np.intp))

    @property
    def annotators(self) -> list[str]:
        """Everyone whose labels were learned from."""
        return self.people_

    def describe(self) -> dict[str, Any]:
        """What was chosen, and how many texts are support vectors."""
        return {"strength": self.cell_[0], "tube": self.cell_[1], "support_vectors": len(self.dual_)}

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """What was learned, as JSON and arrays."""
        link = {"slope": self.link_.slope, "floor": self.link_.floor}
        card = {"people": self.people_, "cell": list(self.cell_), "constant": self.constant_, "link": link}
        return card, {"thresholds": self.link_.thresholds, **{name: getattr(self, name) for name in _ARRAYS}}

    def restore(self, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """The inverse of `state`."""
        self.people_, self.constant_ = list(card["people"]), float(card["constant"])
        strength, tube = card["cell"]
        self.cell_ = float(strength), float(tube)
        for name in _ARRAYS:
            setattr(self, name, np.asarray(arrays[name]))
        link, thresholds = card["link"], arrays["thresholds"]
        self.link_ = OrdinalLink(thresholds, link["slope"], np.zeros((0, len(thresholds))), link["floor"])
        return self

    def in_new_domain(self, domain_correlation: float) -> SupportVectorCore:
        """The same: it has no habits to trust."""
        return self


def _fitted(Z: Floats, y: Floats, weight: Floats, cell: tuple[float, float]) -> tuple[Floats, Floats, float]:
    """Support vectors (S, d), their α (S,), and b."""
    from sklearn.svm import SVR

    machine = SVR(C=cell[0], epsilon=cell[1], gamma=1 / max(Z.shape[1], 1), cache_size=_CACHE_MB).fit(Z, y, weight)
    return Z[machine.support_], np.asarray(machine.dual_coef_[0], dtype=float), float(machine.intercept_[0])


def _valued(Z: Floats, support: Floats, dual: Floats, constant: float) -> Floats:
    """(n,) μ."""
    found = np.full(len(Z), constant)
    for start in range(0, len(Z), _AT_ONCE):
        some = slice(start, start + _AT_ONCE)
        near = np.exp(-scipy.spatial.distance.cdist(Z[some], support, "sqeuclidean") / max(Z.shape[1], 1))
        found[some] += by_row(near, dual)
    return found
