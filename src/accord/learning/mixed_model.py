"""Linear mixed effects by REML: what the evidence says, how each annotator differs, what a text adds for everyone.

    y = m + Σ_s z_s·b_s + u_a + Σ_s z_s·g_as + v_t + w_c + e,    b_s, u, g_s, v, w ~ N(0, r_k·s²),  e ~ N(0, s²)

z_s is the evidence of source s, standardised on the training rows; a the annotator, t the text, c its group (the
conversation of a turn). The variance ratios r_k maximise the restricted likelihood (Patterson & Thompson, 1971);
everything else follows in closed form (Henderson's mixed model equations). Each source has a ratio of its own, so that
many columns that say nothing are shrunk together and leave a good judge alone (docs/decisions/0028). It is solved over
the fewer of effects and ratings (docs/decisions/0046).
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accord.evidence import by_row
from accord.learning.large_equations import best_ratios, in_equations
from accord.learning.rating_design import OFFSET, Floats, Indices, Layout, in_order, own_effects, standardisation


class MixedModel:
    """The linear mixed model, which takes each row's annotator, text and group beside its evidence.

    Args:
        own_slopes: Whether annotators may weigh the evidence differently (`g`), or differ in level alone (`u`).
        ratios: The variance ratios as in `ratios_`, where they are known; otherwise REML finds them.

    Attributes:
        intercept_: m.
        coef_: (p,) b, per standard deviation of each feature.
        annotators_: (A,) names, sorted.
        offsets_: (A,) u, in units of y.
        offset_error_: (A,) standard error of u.
        own_slopes_: (A, p) g.
        ratios_: (3 + 2·sources,) variance ratios to the noise, 0 where an effect is absent: of b, u, g of the first
            source, v and w, then of b and g of each further source.
        sources_: (p,) the number of each column's source, the first 0.
        noise_: s², the variance of one rating around all effects.
        feature_mean_, feature_scale_: (p,) the standardisation.
        held_out_mean_: (n,) for each training row, its prediction from all other groups.
    """

    def __init__(self, own_slopes: bool = True, ratios: ArrayLike | None = None) -> None:
        self.own_slopes = own_slopes
        self.ratios = ratios

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        annotator: ArrayLike | None = None,
        text: ArrayLike | None = None,
        group: ArrayLike | None = None,
        source: ArrayLike | None = None,
    ) -> Self:
        """Learn from n ratings.

        Args:
            X: (n, p) evidence; NaN where it is missing.
            y: (n,) ratings.
            annotator: (n,) who rated; without it nobody differs.
            text: (n,) which text was rated; without it no two ratings share one.
            group: (n,) what the text belongs to; without it no two texts belong together.
            source: (p,) the source of each column; without it all have one.
        """
        rows, rated = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
        self.feature_mean_, self.feature_scale_ = standardisation(rows)
        Z = self.standardised(rows)
        self.annotators_, who = _indexed(annotator)
        (_, which), (_, of_group) = _indexed(text), _indexed(group)
        people, features = len(self.annotators_), Z.shape[1]
        self.sources_ = in_order(source, features)
        design = in_equations(Layout.of(Z, rated, who, people, which, self.own_slopes, of_group, self.sources_))
        ratios = best_ratios(design) if self.ratios is None else design.of_present(np.asarray(self.ratios))
        learned = design.learn(ratios)
        self.ratios_, self.noise_ = ratios, learned.noise
        self.intercept_ = float(learned.effects[0])
        self.coef_ = learned.effects[1 : 1 + features]
        self.offsets_ = learned.effects[1 + features : 1 + features + people]
        own = learned.effects[1 + features + people :]
        self.own_slopes_ = own.reshape(people, features) if own.size else np.zeros((people, features))
        self.offset_error_ = learned.errors
        self.held_out_mean_ = rated - learned.held_out_residuals
        return self

    def predict(self, X: ArrayLike, annotator: ArrayLike | None = None) -> Floats:
        """(n,) expected ratings; an annotator nobody met is one without habits."""
        Z = self.standardised(np.asarray(X, dtype=float))
        who = self.index_of(annotator, len(Z))
        offsets = np.append(self.offsets_, 0.0)[who]
        own = np.vstack([self.own_slopes_, np.zeros(Z.shape[1])])[who]
        return np.asarray(self.intercept_ + by_row(Z, self.coef_) + offsets + (Z * own).sum(axis=1))

    def habit_variance(self, X: ArrayLike) -> Floats:
        """(n,) how much one person differs from another on each row: the variance of u + z·g."""
        Z = self.standardised(np.asarray(X, dtype=float))
        return np.asarray(self.noise_ * (self.ratios_[OFFSET] + by_row(Z**2, self.own_ratios)))

    @property
    def own_ratios(self) -> Floats:
        """(p,) the variance ratio of the people's own slopes of each column."""
        return np.asarray(self.ratios_[own_effects(len(self.sources_), self.sources_, True)[1]])

    @property
    def slope_ratios(self) -> Floats:
        """(p,) the variance ratio of each column's slope."""
        return np.asarray(self.ratios_[own_effects(len(self.sources_), self.sources_, True)[0]])

    def index_of(self, annotator: ArrayLike | None, rows: int) -> Indices:
        """(n,) each row's annotator as an index into `annotators_`; -1 for one nobody met."""
        if annotator is None:
            return np.full(rows, -1, dtype=np.intp)
        place = {str(name): index for index, name in enumerate(self.annotators_)}
        names = np.asarray(annotator, dtype=object)
        return np.array([-1 if name is None else place.get(str(name), -1) for name in names], dtype=np.intp)

    def standardised(self, X: Floats) -> Floats:
        """(n, p) features in standard deviations of the training rows."""
        # A missing value is the feature's mean: it pulls the prediction nowhere.
        return np.nan_to_num((X - self.feature_mean_) / self.feature_scale_, nan=0.0)


def _indexed(names: ArrayLike | None) -> tuple[NDArray[Any], Indices]:
    if names is None:
        return np.array([], dtype=object), np.array([], dtype=np.intp)
    unique, index = np.unique(np.asarray(names).astype(str), return_inverse=True)
    return unique, index.astype(np.intp)
