"""Henderson's mixed model equations, their restricted likelihood and its slope: the algebra of the mixed core.

Effects that the ratings of one text share, and those that the texts of one group share, are eliminated first, so the
work grows with the number of annotators and features, not of texts. With V = I + r_t·(same text) + r_g·(same group),
w_t = 1/(n_t + 1/r_t), a_t = 1 - n_t·w_t, s_g = Σ_t n_t·a_t and k_g = 1/(s_g + 1/r_g),

    V⁻¹ = I - w_t·(same text) - k_g·a·aᵀ (same group).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, optimize, sparse

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Rows = Floats | Any
"""Dense, or sparse (scipy.sparse has no types)."""

SLOPE, OFFSET, OWN_SLOPE, TEXT, GROUP = range(5)
"""Places of the variance ratios; a second source's slopes and own slopes come after them, then a third's."""
FIXED = -1
LOG_RATIO_BOUNDS = (-12.0, 4.0)
_START = 0.05
SAMPLED_EFFECTS, SAMPLED_ROWS = 600, 12_000
"""With more effects the variance ratios are found on the ratings of some annotators, of about so many rows at most."""
_ROWS_AT_ONCE = 1024
_DENSE_CELLS = 4_000_000


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
class Nesting:
    """Which ratings share a text, and which texts share a group: what is eliminated first.

    Attributes:
        text: (n,) each rating's text.
        size: (T,) ratings of each text.
        group: (T,) each text's group.
        groups: G.
    """

    text: Indices
    size: Floats
    group: Indices
    groups: int

    @classmethod
    def of(cls, n: int, text: Indices, group: Indices) -> Nesting:
        """Of n ratings; without `text` no two share one, without `group` no two texts do.

        Ratings of one text belong to one group.
        """
        text = text if text.size else np.arange(n)
        texts = int(text.max()) + 1 if n else 0
        of_text = np.arange(texts)
        if group.size:
            of_text[text] = group
        return cls(text, np.bincount(text, minlength=texts).astype(float), of_text, int(of_text.max(initial=-1)) + 1)

    @property
    def present(self) -> list[int]:
        """TEXT where a text was rated more than once, GROUP where a group has more than one text."""
        several = np.bincount(self.group, minlength=self.groups) > 1
        grouped = self.groups > 1 and several.any()  # the level of a single group is the model's own
        return [*([TEXT] if (self.size > 1).any() else []), *([GROUP] if grouped else [])]

    @property
    def group_of_row(self) -> Indices:
        """(n,) each rating's group."""
        return self.group[self.text]

    def by_text(self) -> sparse.csr_array:
        """(T, n) sums over the ratings of a text."""
        n = len(self.text)
        return sparse.csr_array((np.ones(n), (self.text, np.arange(n))), shape=(len(self.size), n))

    def weights(self, ratios: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """As the file's opening has them: w (T,), a (T,), s (G,), k (G,); w and k are 0 for an absent effect."""
        w: Floats = 1.0 / (self.size + 1.0 / ratios[TEXT]) if ratios[TEXT] > 0 else np.zeros(len(self.size))
        a = 1.0 - self.size * w
        s = np.bincount(self.group, self.size * a, self.groups).astype(np.float64)
        k: Floats = 1.0 / (s + 1.0 / ratios[GROUP]) if ratios[GROUP] > 0 else np.zeros(self.groups)
        return w, a, s, k

    @cached_property
    def by_group(self) -> sparse.csr_array:
        """(G, T) sums over the texts of a group."""
        texts = np.arange(len(self.group))
        return sparse.csr_array((np.ones(len(texts)), (self.group, texts)), shape=(self.groups, len(texts)))

    def take(self, kept: Indices) -> Nesting:
        """Of some of the ratings."""
        text = np.unique(self.text[kept], return_inverse=True)[1].astype(np.intp)
        group = np.unique(self.group_of_row[kept], return_inverse=True)[1].astype(np.intp)
        return Nesting.of(len(kept), text, group)


def own_effects(p: int, source: Indices | None, own_slopes: bool) -> tuple[Indices, Indices, int]:
    """Where each of p columns has its variance ratios: of its slope (p,), of the people's own slopes (p,); how many.

    `source` is (p,) the number of each column's source, the first 0; without it all columns share one.
    """
    of = np.zeros(p, dtype=np.intp) if source is None else source
    later = GROUP + 2 * of
    slope = np.where(of == 0, SLOPE, later - 1)
    own = np.where(of == 0, OWN_SLOPE, later)
    return slope, own, GROUP + 1 + 2 * int(of.max(initial=0))


@dataclass(frozen=True)
class Layout:
    """n ratings laid out as the design W = [1, Z, U, U∘Z] (n, q), and what their texts and groups share.

    Attributes:
        rows: W, sparse; each rating has 2 + 2p entries at most.
        y: (n,) ratings.
        block: (q,) where each effect has its variance ratio; `FIXED` for the level.
        count: How many ratios there are.
        Z: (n, p) features.
        who: (n,) whose rating it is, of so many `people`.
        source: (p,) the number of each column's source; without it all columns share one variance.
    """

    rows: sparse.csr_array
    y: Floats
    block: Indices
    count: int
    Z: Floats
    who: Indices
    people: int
    nesting: Nesting
    own_slopes: bool
    source: Indices | None

    @classmethod
    def of(
        cls,
        Z: Floats,
        y: Floats,
        who: Indices,
        people: int,
        text: Indices,
        own_slopes: bool,
        group: Indices | None = None,
        source: Indices | None = None,
    ) -> Self:
        """Lay out n ratings; without `people` nobody differs.

        Without `text` no two ratings share one, without `group` no two texts do.
        """
        W, block, count = _laid_out(Z, who, people, own_slopes, source)
        nesting = Nesting.of(len(y), text, np.zeros(0, dtype=np.intp) if group is None else group)
        return cls(W, y, block, count, Z, who, people, nesting, own_slopes, source)

    @cached_property
    def text_design(self) -> Rows:
        """(T, q) W summed by text; dense where that is small, since then nothing is as quick."""
        summed = self.nesting.by_text() @ self.rows
        return summed.toarray() if np.prod(summed.shape) <= _DENSE_CELLS else summed

    @cached_property
    def text_sum(self) -> Floats:
        """(T,) y summed by text."""
        return np.asarray(self.nesting.by_text() @ self.y)

    def sample(self) -> Design:
        """The ratings of some annotators drawn at random, about so many that `SAMPLED_EFFECTS` are not exceeded."""
        most = max(2, SAMPLED_EFFECTS // (self.Z.shape[1] + 1 if self.own_slopes else 1) - 2)
        order = np.random.default_rng(0).permutation(self.people)
        size = np.bincount(self.who, minlength=self.people)[order]
        chosen = order[: min(most, int(np.searchsorted(np.cumsum(size), SAMPLED_ROWS)) + 1)]
        kept = np.flatnonzero(np.isin(self.who, chosen))
        who = np.unique(self.who[kept], return_inverse=True)[1].astype(np.intp)
        few, slopes = self.nesting.take(kept), self.own_slopes
        group = few.group_of_row
        return Design.of(self.Z[kept], self.y[kept], who, len(chosen), few.text, slopes, group, self.source)


class Design(Layout):
    """Few enough effects to solve their equations densely, from cross products."""

    @cached_property
    def _WtW(self) -> Floats:
        return np.asarray((self.rows.T @ self.rows).toarray())

    @cached_property
    def _Wty(self) -> Floats:
        return np.asarray(self.rows.T @ self.y)

    @property
    def _freedom(self) -> float:
        return max(len(self.y) - 1.0, 1.0)

    def present(self) -> list[int]:
        """The random effects that this design has; texts that were rated once each say nothing of their own."""
        return sorted({*self.block[self.block != FIXED].tolist(), *self.nesting.present})

    def of_present(self, ratios: Floats) -> Floats:
        """The given ratios, 0 for an effect that this design does not have."""
        least = np.exp(LOG_RATIO_BOUNDS[0])
        given = np.append(ratios, np.zeros(max(self.count - len(ratios), 0)))[: self.count]
        return np.where(np.isin(np.arange(self.count), self.present()), np.maximum(given, least), 0.0)

    def best_ratios(self) -> Floats:
        """The variance ratios with the highest restricted likelihood; 0 for an absent effect."""
        present = self.present()
        ratios = np.zeros(self.count)
        if not present:
            return ratios
        if len(self.block) > SAMPLED_EFFECTS and (sample := self.sample()).people < self.people:
            return self.of_present(sample.best_ratios())

        def objective(logs: Floats) -> tuple[float, Floats]:
            trial = np.zeros(self.count)
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

    def effects(self, ratios: Floats) -> Floats:
        """(q,) the effects alone, without what `solve` also says: many times as quick."""
        return np.asarray(linalg.solve(*self._system(ratios)[:2], assume_a="pos"))

    def solve(self, ratios: Floats) -> Solved:
        """Henderson's equations at the given ratios; the criterion is -log restricted likelihood, by log r."""
        system, right, own = self._system(ratios)
        factor = linalg.cholesky(system, lower=True)
        covariance = linalg.cho_solve((factor, True), np.eye(len(system)))
        effects = covariance @ right
        noise = max((own - right @ effects) / self._freedom, 1e-12)
        log_det = 2 * np.log(np.diag(factor)).sum()
        for effect in np.unique(self.block[self.block != FIXED]):
            log_det += np.count_nonzero(self.block == effect) * np.log(ratios[effect])
        if ratios[TEXT] > 0:
            log_det += np.log1p(ratios[TEXT] * self.nesting.size).sum()
        if ratios[GROUP] > 0:
            log_det += np.log1p(ratios[GROUP] * self.nesting.weights(ratios)[2]).sum()
        criterion = 0.5 * (log_det + self._freedom * np.log(noise))
        gradient = self._gradient(ratios, effects, covariance, noise)
        return Solved(ratios, effects, covariance, noise, criterion, gradient)

    def _system(self, ratios: Floats) -> tuple[Floats, Floats, float]:
        """WᵀV⁻¹W + D⁻¹ (q, q), WᵀV⁻¹y (q,) and yᵀV⁻¹y."""
        w, a, _, k = self.nesting.weights(ratios)
        penalty = np.where(self.block == FIXED, 0.0, 1.0 / np.where(self.block == FIXED, 1.0, ratios[self.block]))
        system, right, own = self._WtW + np.diag(penalty), self._Wty, float(self.y @ self.y)
        if ratios[TEXT] > 0:
            shrunk = _weighed(self.text_design, w)
            system -= _dense(self.text_design.T @ shrunk)
            right = right - shrunk.T @ self.text_sum
            own -= float(self.text_sum @ (w * self.text_sum))
        if ratios[GROUP] > 0:
            design, said = self._by_group(a)
            system -= design.T @ (k[:, None] * design)
            right = right - design.T @ (k * said)
            own -= float(said @ (k * said))
        # A column of zeros (an annotator whose evidence never varied) must not stop the factorisation.
        return system + 1e-10 * np.eye(len(system)), right, own

    def _by_group(self, a: Floats) -> tuple[Floats, Floats]:
        """(G, q) and (G,) what the texts of a group add up to, each weighed by its a."""
        across = self.nesting.by_group
        return _dense(across @ _weighed(self.text_design, a)), np.asarray(across @ (a * self.text_sum))

    def _gradient(self, ratios: Floats, effects: Floats, covariance: Floats, noise: float) -> Floats:
        """The slope by log r_k, (q_k - tr(C_kk)/r_k - |effect_k|²/(r_k·s²)) / 2; of shared effects as `slope` says."""
        gradient = np.zeros(self.count)
        uncertainty = np.diag(covariance)
        for effect in np.unique(self.block[self.block != FIXED]):
            members = self.block == effect
            spread = uncertainty[members].sum() + (effects[members] @ effects[members]) / noise
            gradient[effect] = 0.5 * (np.count_nonzero(members) - spread / ratios[effect])
        w, a, s, k = self.nesting.weights(ratios)
        group = self.nesting.group

        def slope(ratio: float, design: Any, own: Floats, left: Floats) -> float:
            """r/2·(tr(ZᵀPZ) - |ZᵀPy|²/s²) for indicators Z with ZᵀV⁻¹W = design, diag(ZᵀV⁻¹Z) = own, ZᵀPy = left."""
            known = ((design @ covariance) * _dense(design)).sum()
            return float(0.5 * ratio * (own.sum() - known - (left @ left) / noise))

        shared, said = self.text_design, self.text_sum
        if ratios[GROUP] > 0:
            design, of_group = self._by_group(a)
            kept = 1.0 - k * s
            wide = kept[:, None] * design
            gradient[GROUP] = slope(ratios[GROUP], wide, s * kept, kept * of_group - wide @ effects)
        if ratios[TEXT] > 0:
            each = a * self.nesting.size
            narrow: Rows = _weighed(shared, a)
            left = a * said
            if ratios[GROUP] > 0:
                pull = k[group] * each
                narrow, left = _dense(narrow) - pull[:, None] * design[group], left - pull * of_group[group]
            gradient[TEXT] = slope(ratios[TEXT], narrow, each - k[group] * each**2, left - narrow @ effects)
        return gradient

    def held_out_residuals(self, solved: Solved) -> Floats:
        """(n,) what each rating differs from its prediction by all other groups: P_gg⁻¹ (P y)_g.

        P = V⁻¹ - V⁻¹ W C⁻¹ Wᵀ V⁻¹, so that no model is fitted again.
        """
        residuals = self.y - self.rows @ solved.effects
        of_row = self.nesting.group_of_row
        size = np.bincount(of_row, minlength=self.nesting.groups)
        if self.nesting.groups == 1:  # of a single group no other can speak: its texts are left out in turn
            of_row, size = self.nesting.text, self.nesting.size.astype(np.intp)
        held_out: Floats = np.empty_like(residuals)
        order = np.argsort(of_row, kind="stable")
        starts = np.concatenate([[0], np.cumsum(size)]).astype(int)
        for each in np.unique(size):
            members = order[starts[np.flatnonzero(size == each)][:, None] + np.arange(int(each))]
            wide = each > len(self.block)
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
            known = (W @ solved.covariance).reshape(wide) @ W.toarray().reshape(wide).transpose(0, 2, 1)
            P = whiten - whiten @ known @ whiten
            Py = whiten @ residuals[rows][..., None]
            found[start : start + few] = (np.linalg.pinv(P, hermitian=True) @ Py)[..., 0]
        return found

    def _without(self, solved: Solved, members: Indices) -> Floats:
        """The same for groups of more ratings than there are effects: the equations less the group's own part."""
        system, right, _ = self._system(solved.ratios)
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


def _weighed(rows: Rows, by: Floats) -> Rows:
    """Each row times its weight."""
    return rows * by[:, None] if isinstance(rows, np.ndarray) else rows.multiply(by[:, None]).tocsr()


def _dense(rows: Rows) -> Floats:
    return rows if isinstance(rows, np.ndarray) else np.asarray(rows.toarray())


def _laid_out(
    Z: Floats, who: Indices, people: int, own_slopes: bool, source: Indices | None
) -> tuple[sparse.csr_array, Indices, int]:
    """W = [1, Z, U, U∘Z] (n, q), where each effect has its ratio (q,), and how many ratios there are."""
    n, p = Z.shape
    slope, own, count = own_effects(p, source, own_slopes)
    parts: list[Any] = [sparse.csr_array(np.hstack([np.ones((n, 1)), Z]))]
    blocks = [np.array([FIXED]), slope]
    if people:
        parts.append(sparse.csr_array((np.ones(n), (np.arange(n), who)), shape=(n, people)))
        blocks.append(np.full(people, OFFSET))
        if own_slopes:
            columns = (who[:, None] * p + np.arange(p)).ravel()
            by_person = (Z.ravel(), columns, np.arange(0, n * p + 1, max(p, 1)) if p else np.zeros(n + 1, dtype=int))
            parts.append(sparse.csr_array(by_person, shape=(n, people * p)))
            blocks.append(np.tile(own, people))
    return sparse.hstack(parts, format="csr"), np.concatenate(blocks).astype(np.intp), count
