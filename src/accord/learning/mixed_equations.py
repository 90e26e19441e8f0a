"""Equations of the linear mixed model and the REML search for its variance ratios.

The design W = [1, Z, U, U∘Z] holds the intercept, features, annotators, and annotators times features. Effects that the
ratings of one text share, and effects that the texts of one group share, are eliminated first, so that the work grows
with the number of annotators and features, not of texts. With V = I + r_t·(same text) + r_g·(same group),
w_t = 1/(n_t + 1/r_t), a_t = 1 - n_t·w_t, s_g = Σ_t n_t·a_t and k_g = 1/(s_g + 1/r_g),

    V⁻¹ = I - w_t·(same text) - k_g·a·aᵀ (same group).

`equations_for` picks the system to solve: over effects (`EffectEquations`), over ratings (`RatingEquations`) or, if
both
are too many for a dense system, by conjugate gradients (`IterativeEquations`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self, TypeVar

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from accord.learning.newton import minimize

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Rows = Floats | Any
"""Dense or sparse matrix (scipy.sparse has no types)."""

SLOPE, OFFSET, OWN_SLOPE, TEXT, GROUP = range(5)
"""Indices of the variance ratios. Slopes and annotator slopes of a second source follow, then those of a third."""
FIXED = -1
"""Marks an effect without a variance ratio."""
LOG_RATIO_BOUNDS = (-12.0, 4.0)


@dataclass(frozen=True)
class Nesting:
    """Ratings within texts, and texts within groups.

    Attributes:
        text: (n,) text of each rating.
        size: (T,) number of ratings of each text.
        group: (T,) group of each text.
        groups: Number of groups G.
    """

    text: Indices
    size: Floats
    group: Indices
    groups: int

    @classmethod
    def of(cls, n: int, text: Indices, group: Indices) -> Nesting:
        """Return the nesting of n ratings.

        An empty `text` puts each rating into a text of its own; an empty `group` puts each text into a group of its
        own. All
        ratings of a text must belong to one group.
        """
        text = text if text.size else np.arange(n)
        texts = int(text.max()) + 1 if n else 0
        of_text = np.arange(texts)
        if group.size:
            of_text[text] = group
        return cls(text, np.bincount(text, minlength=texts).astype(float), of_text, int(of_text.max(initial=-1)) + 1)

    @property
    def present(self) -> list[int]:
        """TEXT if a text was rated more than once, GROUP if a group has more than one text."""
        several = np.bincount(self.group, minlength=self.groups) > 1
        grouped = self.groups > 1 and several.any()  # the effect of a single group is the intercept
        return [*([TEXT] if (self.size > 1).any() else []), *([GROUP] if grouped else [])]

    @property
    def group_of_row(self) -> Indices:
        """(n,) group of each rating."""
        return self.group[self.text]

    def by_text(self) -> scipy.sparse.csr_array:
        """Return the (T, n) matrix that sums over the ratings of each text."""
        n = len(self.text)
        return scipy.sparse.csr_array((np.ones(n), (self.text, np.arange(n))), shape=(len(self.size), n))

    def weights(self, ratios: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Return w (T,), a (T,), s (G,) and k (G,) of the module's formula; w and k are 0 for an absent effect."""
        w: Floats = 1.0 / (self.size + 1.0 / ratios[TEXT]) if ratios[TEXT] > 0 else np.zeros(len(self.size))
        a = 1.0 - self.size * w
        s = np.bincount(self.group, self.size * a, self.groups).astype(np.float64)
        k: Floats = 1.0 / (s + 1.0 / ratios[GROUP]) if ratios[GROUP] > 0 else np.zeros(self.groups)
        return w, a, s, k

    def shared(self, a: Floats, k: Floats, sums: Floats) -> Floats:
        """Return (T,) the group part of V⁻¹, k·a·aᵀ, applied to sums by text (T,)."""
        return np.asarray(a * (self.by_group.T @ (k * (self.by_group @ (a * sums)))))

    @cached_property
    def by_group(self) -> scipy.sparse.csr_array:
        """(G, T) matrix that sums over the texts of each group."""
        texts = np.arange(len(self.group))
        return scipy.sparse.csr_array((np.ones(len(texts)), (self.group, texts)), shape=(self.groups, len(texts)))

    def left_out(self) -> Iterator[Indices]:
        """Yield (G, m) ratings to leave out together, one array per group size.

        With a single group, the ratings of each text are left out together.
        """
        of_row, size = self.group_of_row, np.bincount(self.group_of_row, minlength=self.groups)
        if self.groups == 1:  # there is no other group to fit from
            of_row, size = self.text, self.size.astype(np.intp)
        order = np.argsort(of_row, kind="stable")
        starts = np.concatenate([[0], np.cumsum(size)]).astype(int)
        for each in np.unique(size):
            yield order[starts[np.flatnonzero(size == each)][:, None] + np.arange(int(each))]

    def take(self, kept: Indices) -> Nesting:
        """Return the nesting of the ratings at these indices."""
        text = np.unique(self.text[kept], return_inverse=True)[1].astype(np.intp)
        group = np.unique(self.group_of_row[kept], return_inverse=True)[1].astype(np.intp)
        return Nesting.of(len(kept), text, group)


L = TypeVar("L", bound="RatingLayout")


@dataclass(frozen=True)
class RatingLayout:
    """n ratings with their design matrix W = [1, Z, U, U∘Z] (n, q), texts and groups.

    Attributes:
        rows: W, sparse, with at most 2 + 2p entries per rating.
        y: (n,) ratings.
        block: (q,) index of each effect's variance ratio; `FIXED` for the intercept.
        count: Number of variance ratios.
        Z: (n, p) features.
        who: (n,) annotator of each rating.
        people: Number of annotators.
        nesting: Texts and groups.
        own_slopes: True if annotators have slopes of their own.
        source: (p,) source index of each column; None gives all columns one variance.
    """

    rows: scipy.sparse.csr_array
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
        """Lay out n ratings.

        `people` = 0 fits no annotator effects. An empty `text` or a missing `group` means that no effect is shared.
        """
        W, block, count = _design_matrix(Z, who, people, own_slopes, source)
        nesting = Nesting.of(len(y), text, np.zeros(0, dtype=np.intp) if group is None else group)
        return cls(W, y, block, count, Z, who, people, nesting, own_slopes, source)

    def as_kind(self, kind: type[L]) -> L:
        """Return the same ratings as another class of equations."""
        return kind(**{field.name: getattr(self, field.name) for field in fields(RatingLayout)})

    @cached_property
    def members(self) -> dict[int, NDArray[np.bool_]]:
        """(q,) mask of the effects that share each variance ratio, by index of the ratio."""
        return {effect: self.block == effect for effect in np.unique(self.block[self.block != FIXED]).tolist()}

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the noise: the number of ratings less one for the intercept."""
        return max(len(self.y) - 1.0, 1.0)

    def penalty(self, ratios: Floats) -> Floats:
        """Return (q,) the diagonal of D⁻¹, with D the effects' variances over s²; 0 for the intercept."""
        fixed = self.block == FIXED
        return np.where(fixed, 0.0, 1.0 / np.where(fixed, 1.0, ratios[self.block]))

    def present(self) -> list[int]:
        """Return the indices of the variance ratios that this design can estimate."""
        return sorted({*self.members, *self.nesting.present})

    def of_present(self, ratios: Floats) -> Floats:
        """Return the given ratios, with 0 for effects that this design lacks."""
        lowest = np.exp(LOG_RATIO_BOUNDS[0])
        given = np.append(ratios, np.zeros(max(self.count - len(ratios), 0)))[: self.count]
        return np.where(np.isin(np.arange(self.count), self.present()), np.maximum(given, lowest), 0.0)


def own_effects(p: int, source: Indices | None, own_slopes: bool) -> tuple[Indices, Indices, int]:
    """Return the variance ratio of each column's slope (p,), of its annotator slopes (p,), and the number of ratios.

    `source` holds (p,) source indices starting at 0; None gives all columns one source.
    """
    of = np.zeros(p, dtype=np.intp) if source is None else source
    later = GROUP + 2 * of
    slope = np.where(of == 0, SLOPE, later - 1)
    own = np.where(of == 0, OWN_SLOPE, later)
    return slope, own, GROUP + 1 + 2 * int(of.max(initial=0))


def _design_matrix(
    Z: Floats, who: Indices, people: int, own_slopes: bool, source: Indices | None
) -> tuple[scipy.sparse.csr_array, Indices, int]:
    """Return W = [1, Z, U, U∘Z] (n, q), the ratio index of each effect (q,), and the number of ratios."""
    n, p = Z.shape
    slope, own, count = own_effects(p, source, own_slopes)
    parts: list[Any] = [scipy.sparse.csr_array(np.hstack([np.ones((n, 1)), Z]))]
    blocks = [np.array([FIXED]), slope]
    if people:
        parts.append(scipy.sparse.csr_array((np.ones(n), (np.arange(n), who)), shape=(n, people)))
        blocks.append(np.full(people, OFFSET))
        if own_slopes:
            columns = (who[:, None] * p + np.arange(p)).ravel()
            by_person = (Z.ravel(), columns, np.arange(0, n * p + 1, max(p, 1)) if p else np.zeros(n + 1, dtype=int))
            parts.append(scipy.sparse.csr_array(by_person, shape=(n, people * p)))
            blocks.append(np.tile(own, people))
    return scipy.sparse.hstack(parts, format="csr"), np.concatenate(blocks).astype(np.intp), count


def weighted(rows: Rows, by: Floats) -> Rows:
    """Multiply each row by its weight."""
    return rows * by[:, None] if isinstance(rows, np.ndarray) else rows.multiply(by[:, None]).tocsr()


def dense(rows: Rows) -> Floats:
    """Return the rows as a dense array."""
    return rows if isinstance(rows, np.ndarray) else np.asarray(rows.toarray())


def standardization(X: Floats, weight: Floats | None = None) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of each column, ignoring missing values.

    Both are 0 and 1 for a column without values or without variation. `weight` (n,) counts each row that often.
    """
    known = ~np.isnan(X) if weight is None else ~np.isnan(X) * weight[:, None]
    count = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, X * known, 0.0).sum(axis=0) / count
    spread = np.sqrt((np.where(known, (X - mean) ** 2 * known, 0.0)).sum(axis=0) / count)
    return mean, np.where(spread > 1e-9 * (1 + np.abs(mean)), spread, 1.0)


def source_numbers(source: ArrayLike | None, columns: int) -> Indices:
    """Return (p,) the index of each column's source, numbered in order of appearance."""
    if source is None:
        return np.zeros(columns, dtype=np.intp)
    names = [str(name) for name in np.asarray(source)]
    place = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return np.array([place[name] for name in names], dtype=np.intp)


_START, _TRUST = 0.05, 0.25


@dataclass(frozen=True)
class Solution:
    """Mixed model solved at given variance ratios.

    Attributes:
        ratios: Variance ratios; 0 for an absent effect.
        effects: (q,) in the order of `RatingLayout.block`.
        inverse: Covariance of the effects over s² (q, q), or P over the ratings (n, n).
        noise: s².
        criterion: -log restricted likelihood up to a constant.
        gradient: Derivative of the criterion by the log of each ratio; 0 for an absent effect.
    """

    ratios: Floats
    effects: Floats
    inverse: Floats
    noise: float
    criterion: float
    gradient: Floats


@dataclass(frozen=True)
class FittedEffects:
    """Effects and diagnostics at given variance ratios.

    Attributes:
        effects: (q,) in the order of `RatingLayout.block`.
        noise: s².
        errors: (A,) standard error of each annotator's offset.
        held_out_residuals: (n,) rating minus its prediction from other groups.
    """

    effects: Floats
    noise: float
    errors: Floats
    held_out_residuals: Floats


class Equations(RatingLayout):
    """Ratings with a restricted likelihood that can be evaluated at any variance ratios."""

    @abstractmethod
    def solve(self, ratios: Floats) -> Solution:
        """Solve the model at the given ratios."""

    @abstractmethod
    def information(self, solved: Solution) -> Floats:
        """Return the average information by log r, with s² at its optimum (Gilmour, Thompson & Cullis, 1995).

        (xᵀPx/s² - hhᵀ/(s⁴·freedom)) / 2, with x_k the effects of kind k at each rating and h_k = |effect_k|²/r_k.
        """

    @abstractmethod
    def fit(self, ratios: Floats) -> FittedEffects:
        """Return effects, noise, errors and held-out residuals at the given ratios."""

    def best_ratios(self) -> Floats:
        """Return the variance ratios that maximize the restricted likelihood; 0 for an absent effect."""
        present = self.present()
        if not present:
            return np.zeros(self.count)
        return minimize(_RatioSearch(self, np.array(present), np.full(len(present), np.log(_START)))).solved.ratios


@dataclass(frozen=True)
class _RatioSearch:
    """Point in the search for the variance ratios: logs of the ratios that can be estimated, within their bounds."""

    design: Equations
    present: Indices
    logs: Floats

    @cached_property
    def solved(self) -> Solution:
        """Solution at this point."""
        ratios = np.zeros(self.design.count)
        ratios[self.present] = np.exp(self.logs)
        return self.design.solve(ratios)

    @property
    def loss(self) -> float:
        """-log restricted likelihood."""
        return self.solved.criterion

    def step(self) -> tuple[Callable[[float], _RatioSearch], float]:
        """Return Newton's step by the average information, clipped to the bounds."""
        slope = self.solved.gradient[self.present]
        # A ratio near 0 has almost no information, so its slope bounds the step.
        curve = self.design.information(self.solved)[np.ix_(self.present, self.present)]
        curve += np.diag(_TRUST * np.abs(slope) + 1e-9)
        lowest, most = LOG_RATIO_BOUNDS
        free = np.flatnonzero(np.where(slope > 0, self.logs > lowest, self.logs < most))
        step = np.zeros(len(slope))
        step[free] = -np.linalg.solve(curve[np.ix_(free, free)], slope[free])
        step = np.clip(self.logs + step, lowest, most) - self.logs
        return lambda share: replace(self, logs=self.logs + share * step), max(float(-slope @ step), 0.0)


def invert_positive_definite(system: Floats) -> tuple[Floats, Floats]:
    """Return the lower Cholesky factor and the inverse of a positive definite matrix, by LAPACK.

    Raises:
        numpy.linalg.LinAlgError: The matrix is not positive definite.
    """
    factor, wrong = scipy.linalg.lapack.dpotrf(system, lower=True)
    inverse, also_wrong = scipy.linalg.lapack.dpotri(factor, lower=True)
    if wrong or also_wrong:
        raise np.linalg.LinAlgError("the mixed model equations are not positive definite")
    return np.asarray(factor), np.asarray(inverse + np.tril(inverse, -1).T)  # above the diagonal LAPACK left zeros


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
        """(sizes, q + 1, q + 1) cross products of the texts of each size; None if they need too much memory."""
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
        y],
        where K = C + bbᵀ/s² and b holds the negative effects, and 1 for y.
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

    def held_out_residuals(self, solved: Solution) -> Floats:
        """Return (n,) the residual of each rating from all other groups, P_gg⁻¹ (P y)_g, without fitting again.

        P = V⁻¹ - V⁻¹ W C⁻¹ Wᵀ V⁻¹.
        """
        residuals = self.y - self.rows @ solved.effects
        held_out: Floats = np.empty_like(residuals)
        for members in self.nesting.left_out():
            wide = members.shape[1] > len(self.block)
            found = self._without(solved, members) if wide else self._held_out(solved, members, residuals)
            held_out[members.ravel()] = found.ravel()
        return held_out

    def _held_out(self, solved: Solution, members: Indices, residuals: Floats) -> Floats:
        """Return (G, m) held-out residuals of G groups with m ratings each, a few groups at a time."""
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

    def _without(self, solved: Solution, members: Indices) -> Floats:
        """Return the same for groups with more ratings than effects, from the equations without the group's part."""
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
    """Return the ratings of randomly drawn annotators: few effects or few ratings, whichever keeps more annotators."""
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
        found = np.empty(self.people)
        for place, rows in enumerate(np.split(order, ends[:-1])):
            mine = np.hstack([np.ones((len(rows), 1)), self.Z[rows, : len(own) - 1]])
            found[place] = np.linalg.inv(says * mine.T @ mine + prior)[0, 0]
        return found

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
