"""The mixed model's equations where there are more effects than can be solved densely."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
import scipy

from accord.learning.equations import Learned, of_some_annotators
from accord.learning.layout import FIXED, GROUP, OFFSET, TEXT, Floats, Indices, Layout, own_effects

DENSE = 2000
"""The most effects that are solved densely."""
_FOLDS = 5
_TOLERANCE = 1e-7


class LargeDesign(Layout):
    """More effects than that: by conjugate gradients, the variance ratios from a sample of whole annotators."""

    @cached_property
    def text_design(self) -> scipy.sparse.csr_array:
        """(T, q) W summed by text."""
        return self.nesting.by_text() @ self.rows

    @cached_property
    def text_sum(self) -> Floats:
        """(T,) y summed by text."""
        return np.asarray(self.nesting.by_text() @ self.y)

    def best_ratios(self) -> Floats:
        """The ratios with the highest restricted likelihood on a sample of whole annotators."""
        return of_some_annotators(self).best_ratios()

    def of_present(self, ratios: Floats) -> Floats:
        """The given ratios, 0 for those that are not given."""
        return np.append(ratios, np.zeros(max(self.count - len(ratios), 0)))[: self.count]

    def learn(self, ratios: Floats) -> Learned:
        """All that the given ratios make of the ratings; an annotator's error is that of their labels alone."""
        effects = self._effects(ratios, None)
        w, a, _, k = self.nesting.weights(ratios)
        group_sum = self.nesting.by_group @ (a * self.text_sum)
        explained = self.text_sum @ (w * self.text_sum) + group_sum @ (k * group_sum) + self._right(ratios) @ effects
        noise = max(float(self.y @ self.y - explained) / max(len(self.y) - 1.0, 1.0), 1e-12)
        errors = np.sqrt(noise * self._level_variance(ratios))
        return Learned(effects, noise, errors, self._held_out_residuals(ratios, effects))

    def _level_variance(self, ratios: Floats) -> Floats:
        """(A,) variance of each level over s², as if nobody else rated the annotator's texts: a small system each."""
        says = 1 / (1 + ratios[TEXT] + ratios[GROUP])
        own_slopes = own_effects(self.Z.shape[1], self.source, True)[1].tolist()
        own = [OFFSET, *(own_slopes if self.own_slopes else [])]
        prior = np.diag(1 / np.maximum(ratios[own], 1e-9))
        order = np.argsort(self.who, kind="stable")
        ends = np.cumsum(np.bincount(self.who, minlength=self.people))
        found = np.empty(self.people)
        for place, rows in enumerate(np.split(order, ends[:-1])):
            mine = np.hstack([np.ones((len(rows), 1)), self.Z[rows, : len(own) - 1]])
            found[place] = np.linalg.inv(says * mine.T @ mine + prior)[0, 0]
        return found

    def _held_out_residuals(self, ratios: Floats, start: Floats) -> Floats:
        """(n,) what each rating differs from its prediction by the groups of the other folds."""
        several = self.nesting.groups > 1
        group, count = (self.nesting.group_of_row, self.nesting.groups) if several else (
            self.nesting.text, len(self.nesting.size)
        )  # fmt: skip
        fold = np.random.default_rng(0).permutation(count)[group] % _FOLDS
        left = np.empty_like(self.y)
        for each in range(_FOLDS):
            seen, rest = np.flatnonzero(fold != each), np.flatnonzero(fold == each)
            effects = self._take(seen)._effects(ratios, start)
            left[rest] = self.y[rest] - self.rows[rest] @ effects
        return left

    def _take(self, kept: Indices) -> LargeDesign:
        rows, nesting = self.rows[kept], self.nesting.take(kept)
        return replace(self, rows=rows, y=self.y[kept], Z=self.Z[kept], who=self.who[kept], nesting=nesting)

    def _right(self, ratios: Floats) -> Floats:
        """WᵀV⁻¹y (q,)."""
        w, a, _, k = self.nesting.weights(ratios)
        shared = w * self.text_sum
        if ratios[GROUP] > 0:
            shared = shared + self.nesting.shared(a, k, self.text_sum)
        return np.asarray(self.rows.T @ self.y - self.text_design.T @ shared)

    def _effects(self, ratios: Floats, start: Floats | None) -> Floats:
        """(q,) by conjugate gradients, preconditioned by the diagonal."""
        w, a, _, k = self.nesting.weights(ratios)
        penalty = np.where(self.block == FIXED, 0.0, 1.0 / np.maximum(ratios[np.maximum(self.block, 0)], 1e-9))

        def product(v: Floats) -> Floats:
            said = self.text_design @ v
            shared = w * said
            if ratios[GROUP] > 0:
                shared = shared + self.nesting.shared(a, k, said)
            return np.asarray(self.rows.T @ (self.rows @ v) - self.text_design.T @ shared + penalty * v)

        diagonal = np.asarray(self.rows.multiply(self.rows).sum(axis=0)).ravel() + penalty
        q = len(self.block)
        system = scipy.sparse.linalg.LinearOperator((q, q), matvec=product, dtype=np.float64)
        scale = scipy.sparse.linalg.LinearOperator(
            (q, q), matvec=lambda v: v / np.maximum(diagonal, 1e-12), dtype=np.float64
        )
        found, _ = scipy.sparse.linalg.cg(system, self._right(ratios), x0=start, rtol=_TOLERANCE, maxiter=500, M=scale)
        return np.asarray(found)
