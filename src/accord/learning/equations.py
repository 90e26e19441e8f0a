"""Henderson's mixed model equations, their restricted likelihood and its slope: the algebra of the mixed core.

Effects that the ratings of one text share, and those that the texts of one group share, are eliminated first, so the
work grows with the number of annotators and features, not of texts. With V = I + r_t·(same text) + r_g·(same group),
w_t = 1/(n_t + 1/r_t), a_t = 1 - n_t·w_t, s_g = Σ_t n_t·a_t and k_g = 1/(s_g + 1/r_g),

    V⁻¹ = I - w_t·(same text) - k_g·a·aᵀ (same group).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy

from accord.learning.rating_design import GROUP, OFFSET, TEXT, Floats, Indices, Rows, dense, weighed
from accord.learning.reml import Design, Learned, Solved, inverted

_ROWS_AT_ONCE = 1024
_DENSE_CELLS = 4_000_000


@dataclass(frozen=True)
class Eliminated:
    """What texts and groups take at given ratios: a (T,), s and k (G,), and x weighed by a, summed by group (G, q + 1).

    Without an effect of groups nothing is summed.
    """

    a: Floats
    s: Floats
    k: Floats
    summed: Floats


class MixedDesign(Design):
    """Few enough effects to solve their equations densely, from cross products of x = [w, y] (q + 1 columns)."""

    @cached_property
    def _x(self) -> scipy.sparse.csr_array:
        """(n, q + 1) a row a rating."""
        return scipy.sparse.hstack([self.rows, scipy.sparse.csr_array(self.y[:, None])], format="csr")

    @cached_property
    def _rows_at_hand(self) -> Rows:
        """(n, q + 1) the same; dense where that is small."""
        return dense(self._x) if np.prod(self._x.shape) <= _DENSE_CELLS else self._x

    @cached_property
    def _whole(self) -> Floats:
        """(q + 1, q + 1) cross products of the ratings."""
        return dense(self._x.T @ self._x)

    @cached_property
    def _texts(self) -> Rows:
        """(T, q + 1) x summed by text; dense where that is small, since then nothing is as quick."""
        summed = self.nesting.by_text() @ self._x
        return dense(summed) if np.prod(summed.shape) <= _DENSE_CELLS else summed

    @cached_property
    def _sizes(self) -> tuple[Floats, Indices]:
        """The sizes that texts have, and (T,) which of them each has."""
        sizes, of = np.unique(self.nesting.size, return_inverse=True)
        return sizes, of.astype(np.intp)

    @cached_property
    def _by_size(self) -> Floats | None:
        """(sizes, q + 1, q + 1) cross products of the texts of each size; `None` where they would fill the memory."""
        sizes, of = self._sizes
        if len(sizes) * (len(self.block) + 1) ** 2 > _DENSE_CELLS:
            return None
        return np.stack([self._crossed(np.flatnonzero(of == place)) for place in range(len(sizes))])

    def _crossed(self, texts: Indices) -> Floats:
        some = self._texts[texts]
        return dense(some.T @ some)

    def _over_texts(self, weight: Floats) -> Floats:
        """(q + 1, q + 1) the texts' cross products, those of each size weighed by `weight`."""
        if self._by_size is not None:
            return np.tensordot(weight, self._by_size, 1)
        return dense(self._texts.T @ weighed(self._texts, weight[self._sizes[1]]))

    def _over_groups(self, weight: Floats) -> Floats:
        """(G, q + 1) x summed by group, the texts weighed by `weight` (T,)."""
        return dense(self.nesting.by_group @ weighed(self._texts, weight))

    def learn(self, ratios: Floats) -> Learned:
        """All that the given ratios make of the ratings."""
        solved = self.solve(ratios)
        errors = np.sqrt(solved.noise * np.diag(solved.inverse)[self.block == OFFSET])
        return Learned(solved.effects, solved.noise, errors, self.held_out_residuals(solved))

    def drawn_effects(self, ratios: Floats, draws: Floats, units: Floats) -> Floats:
        """(q,) the effects alone where text t was drawn `draws` (T,) times, each shrunk in its unit of `units` (q,)."""
        x = self._rows_at_hand
        crossed = dense(x.T @ weighed(x, draws[self.nesting.text]))
        if ratios[TEXT] > 0:
            shared = draws**2 / (draws * self.nesting.size + 1.0 / ratios[TEXT])
            crossed = crossed - dense(self._texts.T @ weighed(self._texts, shared))
        system = crossed[:-1, :-1] + np.diag(self.penalty(ratios) * units**2 + 1e-10)
        return np.asarray(scipy.linalg.solve(system, crossed[:-1, -1], assume_a="pos"))

    def solve(self, ratios: Floats) -> Solved:
        """Henderson's equations at the given ratios; the criterion is -log restricted likelihood, by log r."""
        eliminated = self._eliminated(ratios)
        system, right, own = self._system(ratios, eliminated)
        factor, covariance = inverted(system)
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
        return Solved(ratios, effects, covariance, noise, criterion, gradient)

    def _eliminated(self, ratios: Floats) -> Eliminated:
        _, a, s, k = self.nesting.weights(ratios)
        return Eliminated(a, s, k, self._over_groups(a) if ratios[GROUP] > 0 else np.empty((0, 0)))

    def _system(self, ratios: Floats, eliminated: Eliminated) -> tuple[Floats, Floats, float]:
        """WᵀV⁻¹W + D⁻¹ (q, q), WᵀV⁻¹y (q,) and yᵀV⁻¹y."""
        crossed = self._whole
        if ratios[TEXT] > 0:
            crossed = crossed - self._over_texts(1.0 / (self._sizes[0] + 1.0 / ratios[TEXT]))
        if ratios[GROUP] > 0:
            crossed = crossed - eliminated.summed.T @ (eliminated.k[:, None] * eliminated.summed)
        # A column of zeros (an annotator whose evidence never varied) must not stop the factorisation.
        system = crossed[:-1, :-1] + np.diag(self.penalty(ratios) + 1e-10)
        return system, crossed[:-1, -1], float(crossed[-1, -1])

    def _gradient(
        self, ratios: Floats, eliminated: Eliminated, effects: Floats, covariance: Floats, noise: float
    ) -> Floats:
        """The slope by log r_k, (q_k - tr(C_kk)/r_k - |effect_k|²/(r_k·s²)) / 2.

        Of what texts or groups share, with Z their indicators, it is r/2·(tr(ZᵀV⁻¹Z) - Σ xᵀKx) over the rows x of
        ZᵀV⁻¹[W, y], where K = C + bbᵀ/s² and b holds the effects, negative, and 1 for y.
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
            size = self.nesting.by_group @ own**2
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

    def information(self, solved: Solved) -> Floats:
        """(ratios, ratios) the average information by log r, s² at its best (Gilmour, Thompson & Cullis, 1995).

        (xᵀPx/s² - hhᵀ/(s⁴·freedom)) / 2, with x_k the effects of kind k at each rating and h_k = |effect_k|²/r_k. With
        P = V⁻¹ - V⁻¹WCWᵀV⁻¹, the rows of Wᵀ V⁻¹ x_k that a kind in W has to itself cancel but for its own penalty.
        """
        ratios, effects, noise = solved.ratios, solved.effects, solved.noise
        left, from_w = np.zeros((self.count, self.count)), np.zeros((len(effects), self.count))
        for effect, members in self.members.items():
            from_w[members, effect] = effects[members] / ratios[effect]
            left[effect, effect] = effects[members] @ from_w[members, effect]
        spread = np.diag(left).copy()
        if kinds := [effect for effect in (TEXT, GROUP) if ratios[effect] > 0]:
            size, by_group = self.nesting.size, self.nesting.by_group
            _, a, _, k = self.nesting.weights(ratios)
            residual = self._texts @ np.append(-effects, 1.0)
            by_text = a * residual - size * self.nesting.shared(a, k, residual)
            by_kind = {TEXT: by_text, GROUP: by_group.T @ (by_group @ by_text)}
            x = np.stack([ratios[effect] * by_kind[effect] for effect in kinds])
            whitened = np.stack([a * each - self.nesting.shared(a, k, size * each) for each in x])
            spread[kinds] = x @ by_text
            left[np.ix_(kinds, kinds)] = (x * size) @ whitened.T
            from_w[:, kinds] = -(self._texts.T @ whitened.T)[:-1]
        left -= from_w.T @ solved.inverse @ from_w
        return np.asarray(0.5 * (left / noise - np.outer(spread, spread) / (noise**2 * self.freedom)))

    def held_out_residuals(self, solved: Solved) -> Floats:
        """(n,) what each rating differs from its prediction by all other groups: P_gg⁻¹ (P y)_g.

        P = V⁻¹ - V⁻¹ W C⁻¹ Wᵀ V⁻¹, so that no model is fitted again.
        """
        residuals = self.y - self.rows @ solved.effects
        held_out: Floats = np.empty_like(residuals)
        for members in self.nesting.left_out():
            wide = members.shape[1] > len(self.block)
            found = self._without(solved, members) if wide else self._held_out(solved, members, residuals)
            held_out[members.ravel()] = found.ravel()
        return held_out

    def _held_out(self, solved: Solved, members: Indices, residuals: Floats) -> Floats:
        """(G, m) held-out residuals of G groups with m ratings each, a few groups at a time."""
        found = np.empty(members.shape)
        few = max(1, _ROWS_AT_ONCE // members.shape[1])
        for start in range(0, len(members), few):
            rows = members[start : start + few]
            whiten = self._whitening(solved.ratios, rows)
            W = self.rows[rows.ravel()]
            wide = (*rows.shape, -1)
            known = (W @ solved.inverse).reshape(wide) @ W.toarray().reshape(wide).transpose(0, 2, 1)
            P = whiten - whiten @ known @ whiten
            Py = whiten @ residuals[rows][..., None]
            found[start : start + few] = (np.linalg.pinv(P, hermitian=True) @ Py)[..., 0]
        return found

    def _without(self, solved: Solved, members: Indices) -> Floats:
        """The same for groups of more ratings than there are effects: the equations less the group's own part."""
        system, right, _ = self._system(solved.ratios, self._eliminated(solved.ratios))
        found = np.empty(members.shape)
        for place, rows in enumerate(members):
            W, y = self.rows[rows].toarray(), self.y[rows]
            [whiten] = self._whitening(solved.ratios, rows[None])
            seen = whiten @ W
            effects = np.linalg.lstsq(system - seen.T @ W, right - seen.T @ y)[0]
            found[place] = y - W @ effects
        return found

    def _whitening(self, ratios: Floats, rows: Indices) -> Floats:
        """(G, m, m) V⁻¹ of groups with m ratings each."""
        w, a, _, k = self.nesting.weights(ratios)
        text = self.nesting.text[rows]
        same = text[:, :, None] == text[:, None, :]
        kept = a[text]
        shared = k[self.nesting.group[text[:, 0]]][:, None, None] * kept[:, :, None] * kept[:, None, :]
        return np.asarray(np.eye(rows.shape[1]) - w[text][:, :, None] * same - shared)
