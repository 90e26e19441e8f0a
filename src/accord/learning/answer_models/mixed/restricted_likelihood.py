"""Restricted likelihood of a mixed model, and the search for the variance ratios that maximize it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy

from accord.learning.answer_models.mixed.layout import LOG_RATIO_BOUNDS, Floats, Indices, RatingLayout
from accord.learning.answer_models.newton import minimize

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
