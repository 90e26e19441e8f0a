"""The restricted likelihood of a mixed model, and the search for the variance ratios at which it is highest."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy

from accord.learning.newton import minimum
from accord.learning.rating_design import LOG_RATIO_BOUNDS, Floats, Indices, Layout

_START, _TRUST = 0.05, 0.25


@dataclass(frozen=True)
class Solved:
    """A mixed model at given ratios.

    Attributes:
        ratios: As `Layout.block` numbers them; 0 for an absent effect.
        effects: (q,) as `Layout.block` orders them.
        inverse: What the design has inverted: the effects' covariance over s² (q, q), or P over the ratings (n, n).
        noise: s².
        criterion: -log restricted likelihood, but for a constant.
        gradient: Its slope by the log of each ratio; 0 for an absent effect.
    """

    ratios: Floats
    effects: Floats
    inverse: Floats
    noise: float
    criterion: float
    gradient: Floats


@dataclass(frozen=True)
class Learned:
    """What a design says at given ratios.

    Attributes:
        effects: (q,) as `Layout.block` orders them.
        noise: s².
        errors: (A,) standard error of each annotator's level.
        held_out_residuals: (n,) what each rating differs from its prediction by other texts.
    """

    effects: Floats
    noise: float
    errors: Floats
    held_out_residuals: Floats


class Design(Layout):
    """Ratings laid out so that the restricted likelihood is known at any ratios."""

    @abstractmethod
    def solve(self, ratios: Floats) -> Solved:
        """Everything at the given ratios."""

    @abstractmethod
    def information(self, solved: Solved) -> Floats:
        """(ratios, ratios) the average information by log r, s² at its best (Gilmour, Thompson & Cullis, 1995).

        (xᵀPx/s² - hhᵀ/(s⁴·freedom)) / 2, with x_k the effects of kind k at each rating and h_k = |effect_k|²/r_k.
        """

    @abstractmethod
    def learn(self, ratios: Floats) -> Learned:
        """All that the given ratios make of the ratings."""

    def best_ratios(self) -> Floats:
        """The variance ratios with the highest restricted likelihood; 0 for an absent effect."""
        present = self.present()
        if not present:
            return np.zeros(self.count)
        return minimum(_At(self, np.array(present), np.full(len(present), np.log(_START)))).solved.ratios


@dataclass(frozen=True)
class _At:
    """Where the search for the variance ratios is: the logs of those that are present, in their bounds."""

    design: Design
    present: Indices
    logs: Floats

    @cached_property
    def solved(self) -> Solved:
        """The equations there."""
        ratios = np.zeros(self.design.count)
        ratios[self.present] = np.exp(self.logs)
        return self.design.solve(ratios)

    @property
    def loss(self) -> float:
        """-log restricted likelihood."""
        return self.solved.criterion

    def step(self) -> tuple[Callable[[float], _At], float]:
        """Newton's step by the average information, no further than the bounds."""
        slope = self.solved.gradient[self.present]
        # A ratio on its way to nothing has hardly any information left: its slope says how far.
        curve = self.design.information(self.solved)[np.ix_(self.present, self.present)]
        curve += np.diag(_TRUST * np.abs(slope) + 1e-9)
        least, most = LOG_RATIO_BOUNDS
        free = np.flatnonzero(np.where(slope > 0, self.logs > least, self.logs < most))
        step = np.zeros(len(slope))
        step[free] = -np.linalg.solve(curve[np.ix_(free, free)], slope[free])
        step = np.clip(self.logs + step, least, most) - self.logs
        return lambda share: replace(self, logs=self.logs + share * step), max(float(-slope @ step), 0.0)


def inverted(system: Floats) -> tuple[Floats, Floats]:
    """The lower Cholesky factor of a positive definite matrix, and its inverse: LAPACK's own, a hundred times a fit.

    Raises:
        numpy.linalg.LinAlgError: It is not positive definite.
    """
    factor, wrong = scipy.linalg.lapack.dpotrf(system, lower=True)
    inverse, also_wrong = scipy.linalg.lapack.dpotri(factor, lower=True)
    if wrong or also_wrong:
        raise np.linalg.LinAlgError("the mixed model equations are not positive definite")
    return np.asarray(factor), np.asarray(inverse + np.tril(inverse, -1).T)  # above the diagonal LAPACK left zeros
