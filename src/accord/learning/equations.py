"""Henderson's mixed model equations, their restricted likelihood and its slope: the algebra of the mixed core.

Text effects are eliminated first, so the work grows with the number of annotators and features, not of texts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, optimize, sparse
from scipy.sparse.linalg import LinearOperator, cg

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

SLOPE, OFFSET, OWN_SLOPE, TEXT = range(4)
FIXED = -1
LOG_RATIO_BOUNDS = (-12.0, 4.0)
_START = 0.05
_GROUPS_AT_ONCE = 256


@dataclass(frozen=True)
class Solved:
    """The mixed model equations solved at given ratios: effects (q,), their covariance over s² (q, q), s²."""

    ratios: Floats
    effects: Floats
    covariance: Floats
    noise: float
    criterion: float
    gradient: Floats


@dataclass(frozen=True)
class Learned:
    """What a design says at given ratios.

    Attributes:
        effects: (q,) as `block` orders them.
        noise: s².
        errors: (A,) standard error of each annotator's level.
        held_out_residuals: (n,) what each rating differs from its prediction by other texts.
    """

    effects: Floats
    noise: float
    errors: Floats
    held_out_residuals: Floats


@dataclass(frozen=True)
class Design:
    """Cross products of the design W = [1, Z, U, U∘Z] (n, q) with itself, with y, and summed by text."""

    rows: sparse.csr_array
    y: Floats
    block: Indices
    WtW: Floats
    Wty: Floats
    text: Indices
    text_size: Floats
    text_sum: Floats
    text_design: sparse.csr_array

    @classmethod
    def of(cls, Z: Floats, y: Floats, who: Indices, people: int, text: Indices, own_slopes: bool) -> Design:
        """Lay out n ratings; without `people` nobody differs, without `text` no two ratings share one."""
        n, p = Z.shape
        parts: list[Any] = [np.ones((n, 1)), Z]
        sizes = [(FIXED, 1), (SLOPE, p)]
        if people:
            members = sparse.csr_array((np.ones(n), (np.arange(n), who)), shape=(n, people))
            parts.append(members)
            sizes.append((OFFSET, people))
            if own_slopes:
                columns = (who[:, None] * p + np.arange(p)).ravel()
                own = sparse.csr_array((Z.ravel(), (np.repeat(np.arange(n), p), columns)), shape=(n, people * p))
                parts.append(own)
                sizes.append((OWN_SLOPE, people * p))
        W = sparse.hstack([sparse.csr_array(part) for part in parts], format="csr")
        texts = int(text.max()) + 1 if text.size else 0
        sums = sparse.csr_array((np.ones(text.size), (text, np.arange(text.size))), shape=(texts, n))
        return cls(
            rows=W,
            y=y,
            block=np.concatenate([np.full(size, block) for block, size in sizes]).astype(np.intp),
            WtW=(W.T @ W).toarray(),
            Wty=W.T @ y,
            text=text,
            text_size=np.bincount(text, minlength=texts).astype(float),
            text_sum=sums @ y,
            text_design=sums @ W,
        )

    @property
    def _freedom(self) -> float:
        return max(len(self.y) - 1.0, 1.0)

    def present(self) -> list[int]:
        """The random effects that this design has; texts that were rated once each say nothing of their own."""
        effects = [effect for effect in (SLOPE, OFFSET, OWN_SLOPE) if (self.block == effect).any()]
        return [*effects, TEXT] if (self.text_size > 1).any() else effects

    def of_present(self, ratios: Floats) -> Floats:
        """(4,) the given ratios, 0 for an effect that this design does not have."""
        return np.where(np.isin(np.arange(4), self.present()), np.maximum(ratios, np.exp(LOG_RATIO_BOUNDS[0])), 0.0)

    def best_ratios(self) -> Floats:
        """(4,) the variance ratios with the highest restricted likelihood; 0 for an absent effect."""
        present = self.present()
        ratios = np.zeros(4)
        if not present:
            return ratios

        def objective(logs: Floats) -> tuple[float, Floats]:
            trial = np.zeros(4)
            trial[present] = np.exp(logs)
            solved = self.solve(trial)
            return solved.criterion, solved.gradient[present]

        start = np.full(len(present), np.log(_START))
        found = optimize.minimize(
            objective, start, jac=True, method="L-BFGS-B", bounds=[LOG_RATIO_BOUNDS] * len(present)
        )
        ratios[present] = np.exp(found.x)
        return ratios

    def learn(self, ratios: Floats) -> Learned:
        """All that the given ratios make of the ratings."""
        solved = self.solve(ratios)
        errors = np.sqrt(solved.noise * np.diag(solved.covariance)[self.block == OFFSET])
        return Learned(solved.effects, solved.noise, errors, self.held_out_residuals(solved))

    def solve(self, ratios: Floats) -> Solved:
        """Henderson's equations at the given ratios; the criterion is -log restricted likelihood, by log r."""
        weight = self._text_weight(ratios)
        shrunk = self.text_design.multiply(weight[:, None]).tocsr()
        penalty = np.where(self.block == FIXED, 0.0, 1.0 / np.where(self.block == FIXED, 1.0, ratios[self.block]))
        system = self.WtW + np.diag(penalty) - (self.text_design.T @ shrunk).toarray()
        # A column of zeros (an annotator whose evidence never varied) must not stop the factorisation.
        factor = linalg.cholesky(system + 1e-10 * np.eye(len(system)), lower=True)
        right = self.Wty - shrunk.T @ self.text_sum
        covariance = linalg.cho_solve((factor, True), np.eye(len(system)))
        effects = covariance @ right
        unexplained = self.y @ self.y - self.text_sum @ (weight * self.text_sum) - right @ effects
        noise = max(unexplained / self._freedom, 1e-12)
        log_det = 2 * np.log(np.diag(factor)).sum() + sum(
            np.count_nonzero(self.block == effect) * np.log(ratios[effect]) for effect in (SLOPE, OFFSET, OWN_SLOPE)
            if ratios[effect] > 0
        )  # fmt: skip
        if ratios[TEXT] > 0:
            log_det += np.log1p(ratios[TEXT] * self.text_size).sum()
        criterion = 0.5 * (log_det + self._freedom * np.log(noise))
        gradient = self._gradient(ratios, effects, covariance, noise)
        return Solved(ratios, effects, covariance, noise, criterion, gradient)

    def _text_weight(self, ratios: Floats) -> Floats:
        """(T,) 1 / (ratings of the text + 1/r): how far a text's own mean is believed; 0 without text effects."""
        if ratios[TEXT] <= 0:
            return np.zeros(len(self.text_size))
        return np.asarray(1.0 / (self.text_size + 1.0 / ratios[TEXT]))

    def _gradient(self, ratios: Floats, effects: Floats, covariance: Floats, noise: float) -> Floats:
        """(4,) d criterion / d log r_k = (q_k - tr(C_kk)/r_k - |effect_k|²/(r_k·s²)) / 2."""
        gradient = np.zeros(4)
        uncertainty = np.diag(covariance)
        for effect in (SLOPE, OFFSET, OWN_SLOPE):
            members = self.block == effect
            if ratios[effect] > 0 and members.any():
                spread = uncertainty[members].sum() + (effects[members] @ effects[members]) / noise
                gradient[effect] = 0.5 * (np.count_nonzero(members) - spread / ratios[effect])
        if ratios[TEXT] > 0:
            weight = self._text_weight(ratios)
            design = self.text_design
            own = weight + weight**2 * np.asarray((design @ covariance * design.toarray()).sum(axis=1)).ravel()
            text = weight * (self.text_sum - design @ effects)
            gradient[TEXT] = 0.5 * (len(weight) - (own.sum() + (text @ text) / noise) / ratios[TEXT])
        return gradient

    def held_out_residuals(self, solved: Solved) -> Floats:
        """(n,) what each rating differs from its prediction by all other texts: P_tt⁻¹ (P y)_t.

        P = H⁻¹ - H⁻¹ W C⁻¹ Wᵀ H⁻¹ with H = I + r_v·(same text), so that no model is fitted again.
        """
        residuals = self.y - self.rows @ solved.effects
        if not self.text.size:
            return self._held_out(solved, np.arange(len(self.y))[:, None], np.zeros(len(self.y)), residuals).ravel()
        held_out: Floats = np.empty_like(residuals)
        weight = self._text_weight(solved.ratios)
        order = np.argsort(self.text, kind="stable")
        starts = np.concatenate([[0], np.cumsum(self.text_size)]).astype(int)
        for size in np.unique(self.text_size):
            texts = np.flatnonzero(self.text_size == size)
            members = order[starts[texts][:, None] + np.arange(int(size))]
            held_out[members.ravel()] = self._held_out(solved, members, weight[texts], residuals).ravel()
        return held_out

    def _held_out(self, solved: Solved, members: Indices, weight: Floats, residuals: Floats) -> Floats:
        """(G, m) held-out residuals of G texts with m ratings each, a few texts at a time."""
        found = np.empty(members.shape)
        for start in range(0, len(members), _GROUPS_AT_ONCE):
            part = slice(start, start + _GROUPS_AT_ONCE)
            rows, shrink = members[part], weight[part]
            m = rows.shape[1]
            whiten = np.eye(m) - shrink[:, None, None] * np.ones((m, m))
            W = self.rows[rows.ravel()].toarray().reshape(*rows.shape, -1)
            seen = whiten @ W
            P = whiten - seen @ solved.covariance @ seen.transpose(0, 2, 1)
            Py = whiten @ residuals[rows][..., None]
            found[part] = (np.linalg.pinv(P, hermitian=True) @ Py)[..., 0]
        return found


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
