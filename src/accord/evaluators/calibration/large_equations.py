"""The same equations for more annotators than a dense matrix holds: sparse, by conjugate gradients.

The variance ratios are those of a sample of annotators, small enough for exact restricted likelihood; given the
ratios the effects are exact up to the iterations. Predictions without a text are made by folds of texts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, cg

from accord.evaluators.calibration.equations import (
    FIXED,
    OFFSET,
    OWN_SLOPE,
    SLOPE,
    TEXT,
    Design,
    Indices,
    Learned,
)

Floats = NDArray[np.float64]

DENSE = 2000
"""The most effects that are solved densely."""
SAMPLED_ROWS = 12_000
_FOLDS = 5
_TOLERANCE = 1e-7


@dataclass(frozen=True)
class LargeDesign:
    """W = [1, Z, U, U∘Z] (n, q) and its sums by text (T, q), sparse; the parts it was made of."""

    rows: sparse.csr_array
    by_text: sparse.csr_array
    y: Floats
    block: Indices
    Z: Floats
    who: Indices
    people: int
    text: Indices
    own_slopes: bool

    @classmethod
    def of(cls, Z: Floats, y: Floats, who: Indices, people: int, text: Indices, own_slopes: bool) -> LargeDesign:
        """Lay out the rows; each has 2 + 2p entries at most."""
        n, p = Z.shape
        parts: list[Any] = [sparse.csr_array(np.hstack([np.ones((n, 1)), Z]))]
        sizes = [(FIXED, 1), (SLOPE, p), (OFFSET, people)]
        parts.append(sparse.csr_array((np.ones(n), (np.arange(n), who)), shape=(n, people)))
        if own_slopes:
            columns = (who[:, None] * p + np.arange(p)).ravel()
            own = (Z.ravel(), columns, np.arange(0, n * p + 1, p))
            parts.append(sparse.csr_array(own, shape=(n, people * p)))
            sizes.append((OWN_SLOPE, people * p))
        W = sparse.hstack(parts, format="csr")
        texts = int(text.max()) + 1 if text.size else 0
        sums = sparse.csr_array((np.ones(text.size), (text, np.arange(text.size))), shape=(texts, n))
        block = np.concatenate([np.full(size, kind) for kind, size in sizes]).astype(np.intp)
        return cls(W, sums @ W, y, block, Z, who, people, text, own_slopes)

    def best_ratios(self) -> Floats:
        """(4,) the ratios with the highest restricted likelihood on a sample of whole annotators."""
        most = max(2, DENSE // (self.Z.shape[1] + 1 if self.own_slopes else 1) - 2)
        order = np.random.default_rng(0).permutation(self.people)
        size = np.bincount(self.who, minlength=self.people)[order]
        chosen = order[: min(most, int(np.searchsorted(np.cumsum(size), SAMPLED_ROWS)) + 1)]
        kept = np.flatnonzero(np.isin(self.who, chosen))
        _, who = np.unique(self.who[kept], return_inverse=True)
        text = np.unique(self.text[kept], return_inverse=True)[1] if self.text.size else self.text
        sample = Design.of(
            self.Z[kept], self.y[kept], who.astype(np.intp), len(chosen), text.astype(np.intp), self.own_slopes
        )
        return sample.best_ratios()

    def of_present(self, ratios: Floats) -> Floats:
        """(4,) the given ratios."""
        return ratios

    def learn(self, ratios: Floats) -> Learned:
        """All that the given ratios make of the ratings; an annotator's error is that of their labels alone."""
        effects = self._effects(ratios, None)
        weight = self._text_weight(ratios)
        right = self._right(weight)
        text_sum = np.bincount(self.text, self.y, len(weight)) if self.text.size else np.zeros(0)
        unexplained = self.y @ self.y - text_sum @ (weight * text_sum) - right @ effects
        noise = max(float(unexplained) / max(len(self.y) - 1.0, 1.0), 1e-12)
        errors = np.sqrt(noise * self._level_variance(ratios))
        return Learned(effects, noise, errors, self._held_out_residuals(ratios, effects))

    def _level_variance(self, ratios: Floats) -> Floats:
        """(A,) variance of each level over s², as if nobody else rated the annotator's texts: a small system each."""
        says = 1 / (1 + ratios[TEXT])
        own = [OFFSET, *([OWN_SLOPE] * self.Z.shape[1] if self.own_slopes else [])]
        prior = np.diag(1 / np.maximum(ratios[own], 1e-9))
        order = np.argsort(self.who, kind="stable")
        ends = np.cumsum(np.bincount(self.who, minlength=self.people))
        found = np.empty(self.people)
        for place, rows in enumerate(np.split(order, ends[:-1])):
            mine = np.hstack([np.ones((len(rows), 1)), self.Z[rows, : len(own) - 1]])
            found[place] = np.linalg.inv(says * mine.T @ mine + prior)[0, 0]
        return found

    def _held_out_residuals(self, ratios: Floats, start: Floats) -> Floats:
        """(n,) what each rating differs from its prediction by the texts of the other folds."""
        group = self.text if self.text.size else np.arange(len(self.y))
        fold = np.random.default_rng(0).permutation(int(group.max()) + 1)[group] % _FOLDS
        left = np.empty_like(self.y)
        for each in range(_FOLDS):
            seen, rest = np.flatnonzero(fold != each), np.flatnonzero(fold == each)
            effects = self._take(seen)._effects(ratios, start)
            left[rest] = self.y[rest] - self.rows[rest] @ effects
        return left

    def _take(self, kept: Indices) -> LargeDesign:
        text = np.unique(self.text[kept], return_inverse=True)[1].astype(np.intp) if self.text.size else self.text
        rows = self.rows[kept]
        texts = int(text.max()) + 1 if text.size else 0
        sums = sparse.csr_array((np.ones(text.size), (text, np.arange(text.size))), shape=(texts, len(kept)))
        return replace(
            self, rows=rows, by_text=sums @ rows, y=self.y[kept], Z=self.Z[kept], who=self.who[kept], text=text
        )

    def _text_weight(self, ratios: Floats) -> Floats:
        size = np.bincount(self.text).astype(float) if self.text.size else np.zeros(0)
        return np.zeros(len(size)) if ratios[TEXT] <= 0 else np.asarray(1.0 / (size + 1.0 / ratios[TEXT]))

    def _right(self, weight: Floats) -> Floats:
        text_sum = np.bincount(self.text, self.y, len(weight)) if self.text.size else np.zeros(0)
        return np.asarray(self.rows.T @ self.y - self.by_text.T @ (weight * text_sum))

    def _effects(self, ratios: Floats, start: Floats | None) -> Floats:
        """(q,) by conjugate gradients, preconditioned by the diagonal."""
        weight = self._text_weight(ratios)
        penalty = np.where(self.block == FIXED, 0.0, 1.0 / np.maximum(ratios[np.maximum(self.block, 0)], 1e-9))

        def product(v: Floats) -> Floats:
            shared = self.by_text.T @ (weight * (self.by_text @ v))
            return np.asarray(self.rows.T @ (self.rows @ v) - shared + penalty * v)

        diagonal = np.asarray(self.rows.multiply(self.rows).sum(axis=0)).ravel() + penalty
        q = len(self.block)
        system = LinearOperator((q, q), matvec=product, dtype=np.float64)
        scale = LinearOperator((q, q), matvec=lambda v: v / np.maximum(diagonal, 1e-12), dtype=np.float64)
        found, _ = cg(system, self._right(weight), x0=start, rtol=_TOLERANCE, maxiter=500, M=scale)
        return np.asarray(found)
