"""Linear mixed effects by REML: what the evidence says, how each annotator differs, what a text adds for everyone.

    y = m + z·b + u_a + z·g_a + v_t + e,    b, u, g, v ~ N(0, r_k·s²),  e ~ N(0, s²)

z is the evidence standardised on the training rows; a the annotator, t the text. The four variance ratios r_k
maximise the restricted likelihood (Patterson & Thompson, 1971); everything else follows in closed form
(Henderson's mixed model equations). Text effects are eliminated first, so the work grows with the number of
annotators and features, not with the number of texts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg, optimize, sparse
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

SLOPE, OFFSET, OWN_SLOPE, TEXT = range(4)
_FIXED = -1
_LOG_RATIO_BOUNDS = (-12.0, 4.0)
_START = 0.05
_GROUPS_AT_ONCE = 256


class MixedEffects(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """The linear mixed model as a scikit-learn regressor that also takes each row's annotator and text.

    Args:
        own_slopes: Whether annotators may weigh the evidence differently (`g`), or differ in level alone (`u`).

    Attributes:
        intercept_: m.
        coef_: (p,) b, per standard deviation of each feature.
        annotators_: (A,) names, sorted.
        offsets_: (A,) u, in units of y.
        own_slopes_: (A, p) g.
        ratios_: (4,) variance ratios of b, u, g, v to the noise; 0 where an effect is absent.
        noise_: s², the variance of one rating around all effects.
        feature_mean_, feature_scale_: (p,) the standardisation.
        held_out_mean_: (n,) for each training row, its prediction from all other texts.
    """

    def __init__(self, own_slopes: bool = True) -> None:
        self.own_slopes = own_slopes

    def fit(
        self, X: ArrayLike, y: ArrayLike, annotator: ArrayLike | None = None, text: ArrayLike | None = None
    ) -> MixedEffects:
        """Learn from n ratings.

        Args:
            X: (n, p) evidence; NaN where it is missing.
            y: (n,) ratings.
            annotator: (n,) who rated; without it nobody differs.
            text: (n,) which text was rated; without it no two ratings share one.
        """
        checked = validate_data(self, X, y, y_numeric=True, ensure_all_finite="allow-nan", dtype=np.float64)
        rows, rated = checked[0], np.asarray(checked[1], dtype=float)
        self.feature_mean_, self.feature_scale_ = standardisation(rows)
        Z = self._standardised(rows)
        self.annotators_, who = _indexed(annotator)
        _, which = _indexed(text)
        design = _Design.of(Z, rated, who, len(self.annotators_), which, self.own_slopes)
        ratios = design.best_ratios()
        solved = design.solve(ratios)
        people, features = len(self.annotators_), Z.shape[1]
        self.ratios_, self.noise_ = ratios, solved.noise
        self.intercept_ = float(solved.effects[0])
        self.coef_ = solved.effects[design.block == SLOPE]
        self.offsets_ = solved.effects[design.block == OFFSET]
        own = solved.effects[design.block == OWN_SLOPE]
        self.own_slopes_ = own.reshape(people, features) if own.size else np.zeros((people, features))
        self.held_out_mean_ = rated - design.held_out_residuals(solved)
        return self

    def predict(self, X: ArrayLike, annotator: ArrayLike | None = None) -> Floats:
        """(n,) expected ratings; an annotator nobody met is one without habits."""
        check_is_fitted(self)
        checked = validate_data(self, X, reset=False, ensure_all_finite="allow-nan", dtype=np.float64)
        Z = self._standardised(np.asarray(checked))
        who = self.index_of(annotator, len(Z))
        offsets = np.append(self.offsets_, 0.0)[who]
        own = np.vstack([self.own_slopes_, np.zeros(Z.shape[1])])[who]
        return np.asarray(self.intercept_ + Z @ self.coef_ + offsets + (Z * own).sum(axis=1))

    def habit_variance(self, X: ArrayLike) -> Floats:
        """(n,) how much one person differs from another on each row: the variance of u + z·g."""
        Z = self._standardised(np.asarray(X, dtype=float))
        return np.asarray(self.noise_ * (self.ratios_[OFFSET] + self.ratios_[OWN_SLOPE] * (Z**2).sum(axis=1)))

    def index_of(self, annotator: ArrayLike | None, rows: int) -> Indices:
        """(n,) each row's annotator as an index into `annotators_`; -1 for one nobody met."""
        if annotator is None:
            return np.full(rows, -1, dtype=np.intp)
        place = {str(name): index for index, name in enumerate(self.annotators_)}
        names = np.asarray(annotator, dtype=object)
        return np.array([-1 if name is None else place.get(str(name), -1) for name in names], dtype=np.intp)

    def _standardised(self, X: Floats) -> Floats:
        # A missing value is the feature's mean: it pulls the prediction nowhere.
        return np.nan_to_num((X - self.feature_mean_) / self.feature_scale_, nan=0.0)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def standardisation(X: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation of each column over what is present; 0 and 1 where nothing is or nothing varies."""
    known = ~np.isnan(X)
    count = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, X, 0.0).sum(axis=0) / count
    spread = np.sqrt((np.where(known, X - mean, 0.0) ** 2).sum(axis=0) / count)
    return mean, np.where(spread > 1e-9 * (1 + np.abs(mean)), spread, 1.0)


def _indexed(names: ArrayLike | None) -> tuple[NDArray[Any], Indices]:
    if names is None:
        return np.array([], dtype=object), np.array([], dtype=np.intp)
    unique, index = np.unique(np.asarray(names).astype(str), return_inverse=True)
    return unique, index.astype(np.intp)


@dataclass(frozen=True)
class _Solved:
    """The mixed model equations solved at given ratios: effects (q,), their covariance over s² (q, q), s²."""

    ratios: Floats
    effects: Floats
    covariance: Floats
    noise: float
    criterion: float
    gradient: Floats


@dataclass(frozen=True)
class _Design:
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
    def of(cls, Z: Floats, y: Floats, who: Indices, people: int, text: Indices, own_slopes: bool) -> _Design:
        n, p = Z.shape
        parts: list[Any] = [np.ones((n, 1)), Z]
        sizes = [(_FIXED, 1), (SLOPE, p)]
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
            objective, start, jac=True, method="L-BFGS-B", bounds=[_LOG_RATIO_BOUNDS] * len(present)
        )
        ratios[present] = np.exp(found.x)
        return ratios

    def solve(self, ratios: Floats) -> _Solved:
        """Henderson's equations at the given ratios; the criterion is -log restricted likelihood, by log r."""
        weight = self._text_weight(ratios)
        shrunk = self.text_design.multiply(weight[:, None]).tocsr()
        penalty = np.where(self.block == _FIXED, 0.0, 1.0 / np.where(self.block == _FIXED, 1.0, ratios[self.block]))
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
        return _Solved(
            ratios, effects, covariance, noise, criterion, self._gradient(ratios, effects, covariance, noise)
        )

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

    def held_out_residuals(self, solved: _Solved) -> Floats:
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

    def _held_out(self, solved: _Solved, members: Indices, weight: Floats, residuals: Floats) -> Floats:
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
