"""The mixed model's equations by how many ratings and effects there are: over either, or too many of both."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
import scipy

from accord.learning.equations import MixedDesign
from accord.learning.rating_design import GROUP, OFFSET, TEXT, Floats, Indices, Layout, own_effects
from accord.learning.rating_equations import RatingDesign
from accord.learning.reml import Design, Learned

DENSE = 2000
"""The most effects, or ratings, over which equations are solved densely."""
SAMPLED, SAMPLED_ROWS = 600, 12_000
"""With more effects, and more ratings, the variance ratios are found on the ratings of some annotators.

Of so many effects they have `SAMPLED_ROWS` ratings at most.
"""
_FOLDS = 5
_TOLERANCE = 1e-7


def in_equations(rows: Layout) -> Design | LargeDesign:
    """The ratings in the equations that suit their number: over the fewer of effects and ratings, if not too many."""
    too_many = min(len(rows.block), len(rows.y)) > DENSE
    return rows.as_kind(LargeDesign) if too_many else _solved_whole(rows)


def best_ratios(design: Design | LargeDesign) -> Floats:
    """The variance ratios with the highest restricted likelihood, of many ratings those of some annotators."""
    few = len(design.block) <= SAMPLED or len(design.y) <= SAMPLED
    sample = design if few and isinstance(design, Design) else _solved_whole(_some_annotators(design))
    return design.of_present(sample.best_ratios())


def _solved_whole(rows: Layout) -> Design:
    return rows.as_kind(MixedDesign if len(rows.block) <= len(rows.y) else RatingDesign)


def _some_annotators(laid: Layout) -> Layout:
    """The ratings of annotators drawn at random: few effects, or few ratings, whichever are more people."""
    most = max(2, SAMPLED // (laid.Z.shape[1] + 1 if laid.own_slopes else 1) - 2)
    if not laid.people or (laid.people <= most and len(laid.y) <= SAMPLED_ROWS):
        return laid
    order = np.random.default_rng(0).permutation(laid.people)
    rated = np.cumsum(np.bincount(laid.who, minlength=laid.people)[order])
    few_effects = min(most, int(np.searchsorted(rated, SAMPLED_ROWS)) + 1)
    chosen = order[: max(few_effects, int(np.searchsorted(rated, SAMPLED, side="right")))]
    kept = np.flatnonzero(np.isin(laid.who, chosen))
    who = np.unique(laid.who[kept], return_inverse=True)[1].astype(np.intp)
    few, slopes = laid.nesting.take(kept), laid.own_slopes
    group = few.group_of_row
    return Layout.of(laid.Z[kept], laid.y[kept], who, len(chosen), few.text, slopes, group, laid.source)


class LargeDesign(Layout):
    """Too many of both: by conjugate gradients."""

    @cached_property
    def text_design(self) -> scipy.sparse.csr_array:
        """(T, q) W summed by text."""
        return self.nesting.by_text() @ self.rows

    @cached_property
    def text_sum(self) -> Floats:
        """(T,) y summed by text."""
        return np.asarray(self.nesting.by_text() @ self.y)

    def learn(self, ratios: Floats) -> Learned:
        """All that the given ratios make of the ratings; an annotator's error is that of their labels alone."""
        effects = self._effects(ratios, None)
        w, a, _, k = self.nesting.weights(ratios)
        group_sum = self.nesting.by_group @ (a * self.text_sum)
        explained = self.text_sum @ (w * self.text_sum) + group_sum @ (k * group_sum) + self._right(ratios) @ effects
        noise = max(float(self.y @ self.y - explained) / self.freedom, 1e-12)
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
        penalty = self.penalty(ratios)

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
