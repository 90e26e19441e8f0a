"""Equations of the linear mixed model: over effects, over ratings, or iterative.

The design W = [1, Z, U, U∘Z] holds the intercept, features, annotators, and annotators times features. Effects that the
ratings of one text share, and effects that the texts of one group share, are eliminated first, so that the work grows
with the number of annotators and features, not of texts. With V = I + r_t·(same text) + r_g·(same group), w_t = 1/(n_t
+ 1/r_t), a_t = 1 - n_t·w_t, s_g = Σ_t n_t·a_t and k_g = 1/(s_g + 1/r_g),

    V⁻¹ = I - w_t·(same text) - k_g·a·aᵀ (same group).

`equations_for` picks the system to solve: over effects (`EffectEquations`), over ratings (`RatingEquations`) or, if
both are too many for a dense system, by conjugate gradients (`IterativeEquations`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy

from accord.learning.answer_models.mixed.layout import (
    FIXED,
    GROUP,
    OFFSET,
    TEXT,
    Floats,
    Indices,
    RatingLayout,
    Rows,
    dense,
    own_effects,
    weighted,
)
from accord.learning.answer_models.mixed.restricted_likelihood import (
    Equations,
    FittedEffects,
    Solution,
    invert_positive_definite,
)

_ROWS_AT_ONCE = 1024
_DENSE_CELLS = 4_000_000


@dataclass(frozen=True)
class EliminatedEffects:
    """Terms of the eliminated text and group effects at given ratios.

    Attributes:
        a: (T,) as in the module's formula.
        s: (G,) likewise.
        k: (G,) likewise.
        summed: (G, q + 1) x weighted by a and summed by group; empty without a group effect.
    """

    a: Floats
    s: Floats
    k: Floats
    summed: Floats


class EffectEquations(Equations):
    """Dense equations over the effects, from cross products of x = [w, y] (q + 1 columns)."""

    @cached_property
    def _x(self) -> scipy.sparse.csr_array:
        """(n, q + 1) design and rating of each row."""
        return scipy.sparse.hstack([self.rows, scipy.sparse.csr_array(self.y[:, None])], format="csr")

    @cached_property
    def _rows_at_hand(self) -> Rows:
        """(n, q + 1) the same, dense if small."""
        return dense(self._x) if np.prod(self._x.shape) <= _DENSE_CELLS else self._x

    @cached_property
    def _whole(self) -> Floats:
        """(q + 1, q + 1) cross products over the ratings."""
        return dense(self._x.T @ self._x)

    @cached_property
    def _texts(self) -> Rows:
        """(T, q + 1) x summed by text; dense if small, which is fastest."""
        summed = self.nesting.by_text() @ self._x
        return dense(summed) if np.prod(summed.shape) <= _DENSE_CELLS else summed

    @cached_property
    def _sizes(self) -> tuple[Floats, Indices]:
        """Distinct text sizes, and (T,) the index of each text's size."""
        sizes, of = np.unique(self.nesting.size, return_inverse=True)
        return sizes, of.astype(np.intp)

    @cached_property
    def _by_size(self) -> Floats | None:
        """(sizes, q + 1, q + 1) cross products of the texts of each size, or `None` if they need too much memory."""
        sizes, of = self._sizes
        if len(sizes) * (len(self.block) + 1) ** 2 > _DENSE_CELLS:
            return None
        return np.stack([self._crossed(np.flatnonzero(of == place)) for place in range(len(sizes))])

    def _crossed(self, texts: Indices) -> Floats:
        some = self._texts[texts]
        return dense(some.T @ some)

    def _over_texts(self, weight: Floats) -> Floats:
        """Return (q + 1, q + 1) cross products of the texts, weighted by size."""
        if self._by_size is not None:
            return np.tensordot(weight, self._by_size, 1)
        return dense(self._texts.T @ weighted(self._texts, weight[self._sizes[1]]))

    def _over_groups(self, weight: Floats) -> Floats:
        """Return (G, q + 1) x summed by group, with texts weighted by `weight` (T,)."""
        return dense(self.nesting.by_group @ weighted(self._texts, weight))

    def fit(self, ratios: Floats) -> FittedEffects:
        """Return effects, noise, errors and held-out residuals at the given ratios."""
        solved = self.solve(ratios)
        errors = np.sqrt(solved.noise * np.diag(solved.inverse)[self.block == OFFSET])
        return FittedEffects(solved.effects, solved.noise, errors, self.held_out_residuals(solved))

    def drawn_effects(self, ratios: Floats, draws: Floats, units: Floats) -> Floats:
        """Return (q,) effects if text t is drawn `draws` (T,) times, penalized in units of `units` (q,)."""
        x = self._rows_at_hand
        crossed = dense(x.T @ weighted(x, draws[self.nesting.text]))
        if ratios[TEXT] > 0:
            shared = draws**2 / (draws * self.nesting.size + 1.0 / ratios[TEXT])
            crossed = crossed - dense(self._texts.T @ weighted(self._texts, shared))
        system = crossed[:-1, :-1] + np.diag(self.penalty(ratios) * units**2 + 1e-10)
        return np.asarray(scipy.linalg.solve(system, crossed[:-1, -1], assume_a="pos"))

    def solve(self, ratios: Floats) -> Solution:
        """Solve Henderson's equations at the given ratios."""
        eliminated = self._eliminated(ratios)
        system, right, own = self._system(ratios, eliminated)
        factor, covariance = invert_positive_definite(system)
        effects = covariance @ right
        noise = max(float(own - right @ effects) / self.freedom, 1e-12)
        log_det = 2 * np.log(np.diag(factor)).sum()
        for effect, members in self.members.items():
            log_det += np.count_nonzero(members) * np.log(ratios[effect])
        if ratios[TEXT] > 0:
            log_det += np.log1p(ratios[TEXT] * self.nesting.size).sum()
        if ratios[GROUP] > 0:
            log_det += np.log1p(ratios[GROUP] * eliminated.s).sum()
        criterion = 0.5 * (log_det + self.freedom * np.log(noise))
        gradient = self._gradient(ratios, eliminated, effects, covariance, noise)
        return Solution(ratios, effects, covariance, noise, criterion, gradient)

    def _eliminated(self, ratios: Floats) -> EliminatedEffects:
        _, a, s, k = self.nesting.weights(ratios)
        return EliminatedEffects(a, s, k, self._over_groups(a) if ratios[GROUP] > 0 else np.empty((0, 0)))

    def _system(self, ratios: Floats, eliminated: EliminatedEffects) -> tuple[Floats, Floats, float]:
        """Return WᵀV⁻¹W + D⁻¹ (q, q), WᵀV⁻¹y (q,) and yᵀV⁻¹y."""
        crossed = self._whole
        if ratios[TEXT] > 0:
            crossed = crossed - self._over_texts(1.0 / (self._sizes[0] + 1.0 / ratios[TEXT]))
        if ratios[GROUP] > 0:
            crossed = crossed - eliminated.summed.T @ (eliminated.k[:, None] * eliminated.summed)
        # A column of zeros (an annotator whose evidence does not vary) must not stop the factorization.
        system = crossed[:-1, :-1] + np.diag(self.penalty(ratios) + 1e-10)
        return system, crossed[:-1, -1], float(crossed[-1, -1])

    def _gradient(
        self, ratios: Floats, eliminated: EliminatedEffects, effects: Floats, covariance: Floats, noise: float
    ) -> Floats:
        """Return the gradient by log r_k, (q_k - tr(C_kk)/r_k - |effect_k|²/(r_k·s²)) / 2.

        For text and group effects, with Z their indicators, it is r/2·(tr(ZᵀV⁻¹Z) - Σ xᵀKx) over the rows x of ZᵀV⁻¹[W,
        y], where K = C + bbᵀ/s² and b holds the negative effects, and 1 for y.
        """
        gradient = np.zeros(self.count)
        uncertainty = np.diag(covariance)
        for effect, members in self.members.items():
            spread = uncertainty[members].sum() + (effects[members] @ effects[members]) / noise
            gradient[effect] = 0.5 * (np.count_nonzero(members) - spread / ratios[effect])
        b = np.append(-effects, 1.0)
        K = np.outer(b, b) / noise
        K[:-1, :-1] += covariance
        a, s, k, summed = eliminated.a, eliminated.s, eliminated.k, eliminated.summed
        own = a * self.nesting.size
        explained, trace = 0.0, float(own.sum())
        if ratios[GROUP] > 0:
            size = self.nesting.group_sums(own**2)
            known, kept = ((summed @ K) * summed).sum(axis=1), 1.0 - k * s
            gradient[GROUP] = 0.5 * ratios[GROUP] * float((s * kept).sum() - kept**2 @ known)
            if ratios[TEXT] > 0:
                across = ((self._over_groups(a * own) @ K) * summed).sum(axis=1)
                explained, trace = float(k**2 * size @ known - 2 * k @ across), trace - float(k @ size)
        if ratios[TEXT] > 0:
            at = 1.0 - self._sizes[0] / (self._sizes[0] + 1.0 / ratios[TEXT])
            explained += float((self._over_texts(at**2) * K).sum())
            gradient[TEXT] = 0.5 * ratios[TEXT] * (trace - explained)
        return gradient

    def information(self, solved: Solution) -> Floats:
        """Return the average information as `Equations.information` defines it.

        With P = V⁻¹ - V⁻¹WCWᵀV⁻¹, the rows of WᵀV⁻¹x_k that belong to a kind in W cancel except for its own penalty.
        """
        ratios, effects, noise = solved.ratios, solved.effects, solved.noise
        left, from_w = np.zeros((self.count, self.count)), np.zeros((len(effects), self.count))
        for effect, members in self.members.items():
            from_w[members, effect] = effects[members] / ratios[effect]
            left[effect, effect] = effects[members] @ from_w[members, effect]
        spread = np.diag(left).copy()
        if kinds := [effect for effect in (TEXT, GROUP) if ratios[effect] > 0]:
            size = self.nesting.size
            _, a, _, k = self.nesting.weights(ratios)
            residual = self._texts @ np.append(-effects, 1.0)
            by_text = a * residual - size * self.nesting.shared(a, k, residual)
            by_kind = {TEXT: by_text, GROUP: self.nesting.group_sums(by_text)[self.nesting.group]}
            x = np.stack([ratios[effect] * by_kind[effect] for effect in kinds])
            whitened = np.stack([a * each - self.nesting.shared(a, k, size * each) for each in x])
            spread[kinds] = x @ by_text
            left[np.ix_(kinds, kinds)] = (x * size) @ whitened.T
            from_w[:, kinds] = -(self._texts.T @ whitened.T)[:-1]
        left -= from_w.T @ solved.inverse @ from_w
        return np.asarray(0.5 * (left / noise - np.outer(spread, spread) / (noise**2 * self.freedom)))

    def held_out_residuals(self, solved: Solution) -> Floats:
        """Return (n,) the residual of each rating from all other groups, P_gg⁻¹ (P y)_g, without fitting again.

        P = V⁻¹ - V⁻¹ W C⁻¹ Wᵀ V⁻¹.
        """
        residuals = self.y - self.rows @ solved.effects
        held_out: Floats = np.empty_like(residuals)
        for members in self.nesting.left_out():
            wide = members.shape[1] > len(self.block)
            result = self._without(solved, members) if wide else self._held_out(solved, members, residuals)
            held_out[members.ravel()] = result.ravel()
        return held_out

    def _held_out(self, solved: Solution, members: Indices, residuals: Floats) -> Floats:
        """Return (G, m) held-out residuals of G groups with m ratings each, a few groups at a time."""
        result = np.empty(members.shape)
        few = max(1, _ROWS_AT_ONCE // members.shape[1])
        for start in range(0, len(members), few):
            rows = members[start : start + few]
            whiten = self._whitening(solved.ratios, rows)
            W = self.rows[rows.ravel()]
            wide = (*rows.shape, -1)
            known = (W @ solved.inverse).reshape(wide) @ W.toarray().reshape(wide).transpose(0, 2, 1)
            P = whiten - whiten @ known @ whiten
            Py = whiten @ residuals[rows][..., None]
            result[start : start + few] = (np.linalg.pinv(P, hermitian=True) @ Py)[..., 0]
        return result

    def _without(self, solved: Solution, members: Indices) -> Floats:
        """Return the same for groups with more ratings than effects, from the equations without the group's part."""
        system, right, _ = self._system(solved.ratios, self._eliminated(solved.ratios))
        result = np.empty(members.shape)
        for place, rows in enumerate(members):
            W, y = self.rows[rows].toarray(), self.y[rows]
            [whiten] = self._whitening(solved.ratios, rows[None])
            seen = whiten @ W
            effects = np.linalg.lstsq(system - seen.T @ W, right - seen.T @ y)[0]
            result[place] = y - W @ effects
        return result

    def _whitening(self, ratios: Floats, rows: Indices) -> Floats:
        """Return (G, m, m) V⁻¹ of groups with m ratings each."""
        w, a, _, k = self.nesting.weights(ratios)
        text = self.nesting.text[rows]
        same = text[:, :, None] == text[:, None, :]
        kept = a[text]
        shared = k[self.nesting.group[text[:, 0]]][:, None, None] * kept[:, :, None] * kept[:, None, :]
        return np.asarray(np.eye(rows.shape[1]) - w[text][:, :, None] * same - shared)


_DENSE_SHARE = 0.2


class RatingEquations(Equations):
    """Dense equations over the ratings, used if there are fewer ratings than effects.

    With W_k the columns of effect k and V = I + Σ_k r_k·W_k·W_kᵀ (Searle, Casella & McCulloch, 1992),

        P = V⁻¹ - V⁻¹·1·(1ᵀ·V⁻¹·1)⁻¹·1ᵀ·V⁻¹.
    """

    @cached_property
    def _shared(self) -> dict[int, Rows]:
        """(n, n) W_k·W_kᵀ of each effect; sparse if most pairs of ratings share nothing."""
        columns = {effect: self.rows[:, members] for effect, members in self.members.items()}
        nested = {TEXT: self.nesting.text, GROUP: self.nesting.group_of_row}
        columns |= {effect: _indicators(nested[effect]) for effect in self.nesting.present}
        shared = {effect: (W @ W.T).tocsr() for effect, W in columns.items()}
        return {effect: K if K.nnz < _DENSE_SHARE * np.prod(K.shape) else dense(K) for effect, K in shared.items()}

    def solve(self, ratios: Floats) -> Solution:
        """Solve at the given ratios; the gradient by log r_k is r_k·(tr(P·K_k) - yᵀP·K_k·P·y/s²) / 2."""
        V = np.eye(len(self.y))
        for effect, K in self._shared.items():
            V += ratios[effect] * K
        factor, inverse = invert_positive_definite(V)
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
        return Solution(ratios, effects, P, noise, criterion, gradient)

    def information(self, solved: Solution) -> Floats:
        """Return the average information as `Equations.information` defines it."""
        ratios, P, noise = solved.ratios, solved.inverse, solved.noise
        Py, x = P @ self.y, np.zeros((len(self.y), self.count))
        for effect, K in self._shared.items():
            x[:, effect] = ratios[effect] * (K @ Py)
        spread = x.T @ Py
        return np.asarray(0.5 * (x.T @ P @ x / noise - np.outer(spread, spread) / (noise**2 * self.freedom)))

    def fit(self, ratios: Floats) -> FittedEffects:
        """Return effects, noise, errors and held-out residuals P_gg⁻¹ (P y)_g at the given ratios."""
        solved = self.solve(ratios)
        P = solved.inverse
        Py, held_out = P @ self.y, np.empty(len(self.y))
        for members in self.nesting.left_out():
            block = P[members[:, :, None], members[:, None, :]]
            held_out[members] = (np.linalg.pinv(block, hermitian=True) @ Py[members][..., None])[..., 0]
        return FittedEffects(solved.effects, solved.noise, self._errors(solved), held_out)

    def _errors(self, solved: Solution) -> Floats:
        """Return (A,) s·√(r - r²·uᵀPu) of each annotator, with u the indicator of the annotator's ratings."""
        if not self.people:
            return np.zeros(0)
        known = (_indicators(self.who).T @ solved.inverse)[self.who, np.arange(len(self.y))]
        ratio = solved.ratios[OFFSET]
        left = ratio - ratio**2 * np.bincount(self.who, known, self.people)
        return np.asarray(np.sqrt(solved.noise * np.maximum(left, 0.0)))


def _indicators(of: Indices) -> scipy.sparse.csr_array:
    """Return (n, members) 1 if a rating belongs to a member."""
    return scipy.sparse.csr_array((np.ones(len(of)), (np.arange(len(of)), of)))


DENSE = 2000
"""Largest number of effects, or of ratings, that is solved densely."""
SAMPLED, SAMPLED_ROWS = 600, 12_000
"""Above `SAMPLED` effects and ratings, variance ratios are estimated from the ratings of some annotators.

Annotators are drawn until they have `SAMPLED_ROWS` ratings.
"""
_FOLDS = 5
_TOLERANCE = 1e-7


def equations_for(rows: RatingLayout) -> Equations | IterativeEquations:
    """Return the ratings in the equations that are cheapest to solve."""
    too_many = min(len(rows.block), len(rows.y)) > DENSE
    return rows.as_kind(IterativeEquations) if too_many else _dense_equations(rows)


def best_ratios(design: Equations | IterativeEquations) -> Floats:
    """Return the REML variance ratios; for many ratings, estimated from the ratings of some annotators."""
    few = len(design.block) <= SAMPLED or len(design.y) <= SAMPLED
    sample = design if few and isinstance(design, Equations) else _dense_equations(_sample_annotators(design))
    return design.of_present(sample.best_ratios())


def _dense_equations(rows: RatingLayout) -> Equations:
    return rows.as_kind(EffectEquations if len(rows.block) <= len(rows.y) else RatingEquations)


def _sample_annotators(layout: RatingLayout) -> RatingLayout:
    """Return the ratings of randomly drawn annotators: few effects or few ratings; the choice keeps more annotators."""
    most = max(2, SAMPLED // (layout.Z.shape[1] + 1 if layout.own_slopes else 1) - 2)
    if not layout.people or (layout.people <= most and len(layout.y) <= SAMPLED_ROWS):
        return layout
    order = np.random.default_rng(0).permutation(layout.people)
    rated = np.cumsum(np.bincount(layout.who, minlength=layout.people)[order])
    few_effects = min(most, int(np.searchsorted(rated, SAMPLED_ROWS)) + 1)
    chosen = order[: max(few_effects, int(np.searchsorted(rated, SAMPLED, side="right")))]
    kept = np.flatnonzero(np.isin(layout.who, chosen))
    who = np.unique(layout.who[kept], return_inverse=True)[1].astype(np.intp)
    few, slopes = layout.nesting.take(kept), layout.own_slopes
    group = few.group_of_row
    return RatingLayout.of(layout.Z[kept], layout.y[kept], who, len(chosen), few.text, slopes, group, layout.source)


class IterativeEquations(RatingLayout):
    """Equations by conjugate gradients, used if both effects and ratings are too many for a dense system."""

    @cached_property
    def text_design(self) -> scipy.sparse.csr_array:
        """(T, q) W summed by text."""
        return self.nesting.by_text() @ self.rows

    @cached_property
    def text_sum(self) -> Floats:
        """(T,) y summed by text."""
        return np.asarray(self.nesting.by_text() @ self.y)

    def fit(self, ratios: Floats) -> FittedEffects:
        """Return the fit at the given ratios; an annotator's standard error uses the annotator's ratings only."""
        effects = self._effects(ratios, None)
        w, a, _, k = self.nesting.weights(ratios)
        group_sum = self.nesting.by_group @ (a * self.text_sum)
        explained = self.text_sum @ (w * self.text_sum) + group_sum @ (k * group_sum) + self._right(ratios) @ effects
        noise = max(float(self.y @ self.y - explained) / self.freedom, 1e-12)
        errors = np.sqrt(noise * self._level_variance(ratios))
        return FittedEffects(effects, noise, errors, self._held_out_residuals(ratios, effects))

    def _level_variance(self, ratios: Floats) -> Floats:
        """Return (A,) the variance of each offset over s², as if no other annotator rated the same texts."""
        says = 1 / (1 + ratios[TEXT] + ratios[GROUP])
        own_slopes = own_effects(self.Z.shape[1], self.source, True)[1].tolist()
        own = [OFFSET, *(own_slopes if self.own_slopes else [])]
        prior = np.diag(1 / np.maximum(ratios[own], 1e-9))
        order = np.argsort(self.who, kind="stable")
        ends = np.cumsum(np.bincount(self.who, minlength=self.people))
        result = np.empty(self.people)
        for place, rows in enumerate(np.split(order, ends[:-1])):
            own_design = np.hstack([np.ones((len(rows), 1)), self.Z[rows, : len(own) - 1]])
            result[place] = np.linalg.inv(says * own_design.T @ own_design + prior)[0, 0]
        return result

    def _held_out_residuals(self, ratios: Floats, start: Floats) -> Floats:
        """Return (n,) the residual of each rating from the groups of the other folds."""
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

    def _take(self, kept: Indices) -> IterativeEquations:
        rows, nesting = self.rows[kept], self.nesting.take(kept)
        return replace(self, rows=rows, y=self.y[kept], Z=self.Z[kept], who=self.who[kept], nesting=nesting)

    def _right(self, ratios: Floats) -> Floats:
        """Return WᵀV⁻¹y (q,)."""
        w, a, _, k = self.nesting.weights(ratios)
        shared = w * self.text_sum
        if ratios[GROUP] > 0:
            shared = shared + self.nesting.shared(a, k, self.text_sum)
        return np.asarray(self.rows.T @ self.y - self.text_design.T @ shared)

    def _effects(self, ratios: Floats, start: Floats | None) -> Floats:
        """Return (q,) effects by conjugate gradients, preconditioned by the diagonal."""
        w, a, _, k = self.nesting.weights(ratios)
        penalty = self.penalty(ratios)

        def product(v: Floats) -> Floats:
            sums = self.text_design @ v
            shared = w * sums
            if ratios[GROUP] > 0:
                shared = shared + self.nesting.shared(a, k, sums)
            return np.asarray(self.rows.T @ (self.rows @ v) - self.text_design.T @ shared + penalty * v)

        diagonal = np.asarray(self.rows.multiply(self.rows).sum(axis=0)).ravel() + penalty
        q = len(self.block)
        system = scipy.sparse.linalg.LinearOperator((q, q), matvec=product, dtype=np.float64)
        scale = scipy.sparse.linalg.LinearOperator(
            (q, q), matvec=lambda v: v / np.maximum(diagonal, 1e-12), dtype=np.float64
        )
        result, _ = scipy.sparse.linalg.cg(system, self._right(ratios), x0=start, rtol=_TOLERANCE, maxiter=500, M=scale)
        return np.asarray(result)
