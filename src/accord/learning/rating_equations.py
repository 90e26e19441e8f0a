"""The mixed model's equations over its ratings: for fewer ratings than effects, as many people who rated little leave.

With W_k the columns of effect k and V = I + Σ_k r_k·W_k·W_kᵀ, all follows from (Searle, Casella & McCulloch, 1992)

    P = V⁻¹ - V⁻¹·1·(1ᵀ·V⁻¹·1)⁻¹·1ᵀ·V⁻¹.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy

from accord.learning.rating_design import FIXED, GROUP, OFFSET, TEXT, Floats, Indices, Rows, dense
from accord.learning.reml import Design, Learned, Solved, inverted

_DENSE_SHARE = 0.2


class RatingDesign(Design):
    """Few enough ratings to invert their covariance."""

    @cached_property
    def _shared(self) -> dict[int, Rows]:
        """(n, n) for each effect W_k·W_kᵀ: what it has two ratings share; sparse where most pairs share nothing."""
        columns = {effect: self.rows[:, members] for effect, members in self.members.items()}
        nested = {TEXT: self.nesting.text, GROUP: self.nesting.group_of_row}
        columns |= {effect: _indicators(nested[effect]) for effect in self.nesting.present}
        shared = {effect: (W @ W.T).tocsr() for effect, W in columns.items()}
        return {effect: K if K.nnz < _DENSE_SHARE * np.prod(K.shape) else dense(K) for effect, K in shared.items()}

    def solve(self, ratios: Floats) -> Solved:
        """V at the given ratios inverted; the slope by log r_k is r_k·(tr(P·K_k) - yᵀP·K_k·P·y/s²) / 2."""
        V = np.eye(len(self.y))
        for effect, K in self._shared.items():
            V += ratios[effect] * K
        factor, inverse = inverted(V)
        seen = inverse.sum(axis=1)
        weight = float(seen.sum())
        P = inverse - np.outer(seen, seen) / weight
        Py = P @ self.y
        noise = max(float(self.y @ Py) / self.freedom, 1e-12)
        log_det = 2 * np.log(np.diag(factor)).sum() + np.log(weight)
        criterion = 0.5 * (log_det + self.freedom * np.log(noise))
        gradient = np.zeros(self.count)
        for effect, K in self._shared.items():
            trace = (K * P).sum() if isinstance(K, np.ndarray) else K.multiply(P).sum()
            gradient[effect] = 0.5 * ratios[effect] * float(trace - Py @ (K @ Py) / noise)
        random = np.where(self.block == FIXED, 0.0, ratios[self.block]) * (self.rows.T @ Py)
        effects = np.where(self.block == FIXED, seen @ self.y / weight, random)
        return Solved(ratios, effects, P, noise, criterion, gradient)

    def information(self, solved: Solved) -> Floats:
        """As `Design.information`."""
        ratios, P, noise = solved.ratios, solved.inverse, solved.noise
        Py, x = P @ self.y, np.zeros((len(self.y), self.count))
        for effect, K in self._shared.items():
            x[:, effect] = ratios[effect] * (K @ Py)
        spread = x.T @ Py
        return np.asarray(0.5 * (x.T @ P @ x / noise - np.outer(spread, spread) / (noise**2 * self.freedom)))

    def learn(self, ratios: Floats) -> Learned:
        """All that the given ratios make of the ratings; a rating held out differs by P_gg⁻¹ (P y)_g."""
        solved = self.solve(ratios)
        P = solved.inverse
        Py, held_out = P @ self.y, np.empty(len(self.y))
        for members in self.nesting.left_out():
            own = P[members[:, :, None], members[:, None, :]]
            held_out[members] = (np.linalg.pinv(own, hermitian=True) @ Py[members][..., None])[..., 0]
        return Learned(solved.effects, solved.noise, self._errors(solved), held_out)

    def _errors(self, solved: Solved) -> Floats:
        """(A,) s·√(r - r²·uᵀPu) of each annotator, u the indicator of their ratings."""
        if not self.people:
            return np.zeros(0)
        known = (_indicators(self.who).T @ solved.inverse)[self.who, np.arange(len(self.y))]
        ratio = solved.ratios[OFFSET]
        left = ratio - ratio**2 * np.bincount(self.who, known, self.people)
        return np.asarray(np.sqrt(solved.noise * np.maximum(left, 0.0)))


def _indicators(of: Indices) -> scipy.sparse.csr_array:
    """(n, members) 1 where a rating is of a member."""
    return scipy.sparse.csr_array((np.ones(len(of)), (np.arange(len(of)), of)))
