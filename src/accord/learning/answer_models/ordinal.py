"""Ordered probit with annotator thresholds: from a real-valued prediction to a distribution over ordered options.

    P(y ≤ k | μ, a) = Φ((θ_k + δ_ak - c·μ) / √(1 + c²·w))

θ are common thresholds. δ are an annotator's shifts, shrunk by a normal prior. w is the excess variance of μ over
the training rows (for a new annotator). The negative log posterior is convex in (θ, c, δ) as long as all thresholds
rise, because a difference of two Φ is log-concave in both edges (Pratt, 1981), so Newton's method finds its only
minimum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from accord.learning.answer_models.newton import minimize
from accord.statistics import normal_quantile

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

_LEAST_SLOPE = 0.02
_FAR = 1e9
"""Position of the outermost thresholds."""
_PRIOR_ROWS = 0.001
"""Weight of a prior rating of every option by every annotator at the mean of μ.

It keeps thresholds strictly rising and finite if an option was never chosen. The slope has a prior of the same weight.
"""


@dataclass(frozen=True)
class OrdinalLink:
    """Fitted link over K options.

    Attributes:
        thresholds: (K-1,) rising θ.
        slope: c > 0.
        shifts: (A, K-1) δ.
        floor: Minimum probability of every option.
    """

    thresholds: Floats
    slope: float
    shifts: Floats
    floor: float

    @classmethod
    def fit(
        cls, mean: Floats, answer: Indices, annotator: Indices, people: int, options: int, spread: float
    ) -> OrdinalLink:
        """Fit by maximum a posteriori on n rows.

        Args:
            mean: (n,) held-out predictions μ in steps of the scale, 0 to K-1.
            answer: (n,) index of the chosen option, 0 to K-1.
            annotator: (n,) index of the annotator, -1 for none.
            people: Number of annotators A.
            options: Number of options K.
            spread: Standard deviation of the prior on δ; 0 keeps all thresholds common.
        """
        start = _start(mean, answer, annotator, people if spread > 0 else 0, options, spread)
        result = minimize(start)
        if result.slope < _LEAST_SLOPE:
            level = start.thresholds + (_LEAST_SLOPE - start.slope) * mean.mean()
            held = replace(start.rows, holds_slope=True)
            result = minimize(replace(start, rows=held, thresholds=level, slope=_LEAST_SLOPE))
        shifts = result.shifts if spread > 0 else np.zeros((people, options - 1))
        return cls(result.thresholds, result.slope, shifts, floor=1.0 / (2 * len(mean) + options))

    @classmethod
    def held_out(
        cls, mean: Floats, answer: Indices, annotator: Indices, people: int, options: int, spread: float, fold: Indices
    ) -> Floats:
        """Return (n, K) the distribution of each row from a link fitted on the other folds.

        Args:
            mean: (n,) predictions made without the row's fold.
            answer: (n,) as in `fit`.
            annotator: (n,) as in `fit`.
            people: A.
            options: K.
            spread: Standard deviation of the prior on δ.
            fold: (n,) fold of each row.
        """
        result = np.empty((len(mean), options))
        for fold_index in np.unique(fold):
            seen, rest = fold != fold_index, fold == fold_index
            if not seen.any():
                seen = rest
            link = cls.fit(mean[seen], answer[seen], annotator[seen], people, options, spread)
            result[rest] = link.distribution(mean[rest], annotator[rest])
        return result

    def state(self) -> tuple[dict[str, Any], dict[str, Floats]]:
        """Return the link as JSON and arrays."""
        return {"slope": self.slope, "floor": self.floor}, {"thresholds": self.thresholds, "shifts": self.shifts}

    @classmethod
    def restored(cls, card: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> OrdinalLink:
        """Return the link from its `state`."""
        return cls(arrays["thresholds"], card["slope"], arrays["shifts"], card["floor"])

    def distribution(self, mean: Floats, annotator: Indices, extra_variance: Floats | float = 0.0) -> Floats:
        """Return (n, K) probabilities of the options, summing to 1."""
        if len(self.shifts):
            shifts = np.vstack([self.shifts, np.zeros(len(self.thresholds))])[annotator]
            thresholds = np.sort(self.thresholds + shifts, axis=1)
        else:
            thresholds = self._rising
        options = len(self.thresholds) + 1
        edges = np.zeros((len(mean), options + 1))
        distance = thresholds - self.slope * mean[:, None]
        if np.ndim(extra_variance) or extra_variance:
            distance /= np.reshape(np.sqrt(1.0 + self.slope**2 * np.asarray(extra_variance)), (-1, 1))
        edges[:, 1:-1] = scipy.special.ndtr(distance)
        edges[:, -1] = 1.0
        probabilities = edges[:, 1:] - edges[:, :-1]
        return np.asarray((1 - options * self.floor) * probabilities + self.floor)

    @cached_property
    def _rising(self) -> Floats:
        return np.sort(self.thresholds)[None, :]


def _start(mean: Floats, answer: Indices, annotator: Indices, people: int, options: int, spread: float) -> _LinkSearch:
    """Return thresholds that match the frequency of the options, and a slope of one over the residual spread."""
    residual = float(np.std(answer - (mean - mean.mean() + answer.mean()))) or 1.0
    slope = 1.0 / max(residual, 0.1)
    cumulative = np.cumsum(np.bincount(answer, minlength=options))[:-1]
    # Half a rating more of every option keeps thresholds rising if one was never chosen.
    share = (cumulative + 0.5 * np.arange(1, options)) / (len(answer) + 0.5 * options)
    width = np.sqrt(1.0 + slope**2 * mean.var())
    thresholds = slope * mean.mean() + width * normal_quantile(share)
    who = np.where((annotator < 0) | (annotator >= people), people, annotator)
    cells = (people + 1) * options
    rows = _LinkData(
        np.concatenate([mean, np.full(cells, mean.mean())]),
        np.concatenate([who * options + answer, np.arange(cells)]),
        np.concatenate([np.ones(len(mean)), np.full(cells, _PRIOR_ROWS)]),
        (people + 1, options),
        1 / spread**2 if people else 0.0,
        slope,
    )
    return _LinkSearch(rows, thresholds, slope, np.zeros((people, options - 1)))


@dataclass(frozen=True)
class _LinkData:
    """Rows that each chose the option between two of K+1 edges, and the priors.

    Attributes:
        mean: (m,) μ, with prior rows at the end.
        cell: (m,) annotator · K + option; the last annotator is none.
        weight: (m,) weight of each row.
        shape: A + 1 and K.
        precision: Inverse variance of the prior on δ.
        usual_slope: Mean of the weak prior on c.
        holds_slope: True to keep c fixed.
    """

    mean: Floats
    cell: Indices
    weight: Floats
    shape: tuple[int, int]
    precision: float
    usual_slope: float
    holds_slope: bool = False

    def by_cell(self, of_rows: Floats) -> Floats:
        """Return (A + 1, K) weighted sums."""
        sums = np.bincount(self.cell, self.weight * of_rows, minlength=self.shape[0] * self.shape[1])
        return np.asarray(sums.reshape(self.shape), dtype=float)


@dataclass(frozen=True)
class _LinkSearch:
    """Point in the search: θ (K-1,), c and δ (A, K-1)."""

    rows: _LinkData
    thresholds: Floats
    slope: float
    shifts: Floats

    @cached_property
    def edges(self) -> Floats:
        """(A + 1, K + 1) thresholds of each annotator between the outermost edges."""
        edges = np.full((self.rows.shape[0], self.rows.shape[1] + 1), _FAR)
        edges[:, 0] = -_FAR
        edges[:, 1:-1] = self.thresholds
        edges[:-1, 1:-1] += self.shifts
        return edges

    @cached_property
    def chances(self) -> tuple[Floats, Floats, Floats]:
        """(m,) edges of each row's option relative to the row, and the option's log probability."""
        moved = self.slope * self.rows.mean
        above, below = (side.ravel()[self.rows.cell] - moved for side in (self.edges[:, 1:], self.edges[:, :-1]))
        return above, below, _log_chance(above, below)

    @cached_property
    def loss(self) -> float:
        """Negative log posterior; infinite if an annotator's thresholds do not rise."""
        if not (self.edges[:, 1:] > self.edges[:, :-1]).all():
            return np.inf
        rows = self.rows
        prior = rows.precision * (self.shifts**2).sum() + _PRIOR_ROWS * (self.slope - rows.usual_slope) ** 2
        return float(0.5 * prior - rows.weight @ self.chances[2])

    def step(self) -> tuple[Callable[[float], _LinkSearch], float]:
        """Return Newton's step.

        The δ of different annotators do not interact in the Hessian. They are eliminated annotator by annotator, which
        leaves K equations for θ and c.
        """
        rows, (above, below, chance) = self.rows, self.chances
        up, low = (np.exp(-0.5 * (edge**2 + np.log(2 * np.pi)) - chance) for edge in (above, below))
        of_above, of_below, of_both = above * up + up**2, low**2 - below * low, -up * low
        people, options = rows.shape
        gradient = np.zeros((people, options + 2))  # by edge 0 to K, then by c
        hessian = np.zeros((people, options + 2, options + 2))
        option = np.arange(options)
        for edge, first, second in ((option + 1, -up, of_above), (option, low, of_below)):
            gradient[:, edge] += rows.by_cell(first)
            gradient[:, -1] -= rows.by_cell(first * rows.mean).sum(axis=1)
            hessian[:, edge, edge] += rows.by_cell(second)
            hessian[:, edge, -1] -= rows.by_cell((second + of_both) * rows.mean)
        hessian[:, option + 1, option] = hessian[:, option, option + 1] = rows.by_cell(of_both)
        hessian[:, -1, :] = hessian[:, :, -1]
        hessian[:, -1, -1] = rows.by_cell((of_above + of_below + 2 * of_both) * rows.mean**2).sum(axis=1)
        cuts = options - 1
        free = [*range(1, options), *([] if rows.holds_slope else [options + 1])]  # the outermost edges are fixed
        gradient, hessian = gradient[:, free], hessian[:, free][:, :, free]
        common, of_common = gradient.sum(axis=0), hessian.sum(axis=0)
        if not rows.holds_slope:
            common[-1] += _PRIOR_ROWS * (self.slope - rows.usual_slope)
            of_common[-1, -1] += _PRIOR_ROWS
        own, of_own = gradient[:-1, :cuts] + rows.precision * self.shifts, hessian[:-1, :cuts]
        blocks = of_own[:, :, :cuts] + rows.precision * np.eye(cuts)
        solved = np.linalg.solve(blocks, np.concatenate([own[:, :, None], of_own], axis=2))
        eliminated = np.einsum("aki,akj->ij", of_own, solved)
        moved = -np.linalg.solve(of_common - eliminated[:, 1:], common - eliminated[:, 0])
        shifts = -solved[:, :, 0] - solved[:, :, 1:] @ moved
        thresholds, slope = moved[:cuts], 0.0 if rows.holds_slope else float(moved[-1])

        def reached(share: float) -> _LinkSearch:
            at = (self.thresholds + share * thresholds, self.slope + share * slope, self.shifts + share * shifts)
            return _LinkSearch(rows, *at)

        return reached, float(-(common @ moved + (own * shifts).sum()))


def _log_chance(above: Floats, below: Floats) -> Floats:
    """Return log(Φ(above) - Φ(below)), computed in the tail where both are small."""
    right = above + below > 0
    high, low = np.where(right, -below, above), np.where(right, -above, below)
    larger = scipy.special.log_ndtr(high)
    with np.errstate(divide="ignore"):  # rounding can make both edges equal
        return np.asarray(larger + np.log(-np.expm1(scipy.special.log_ndtr(low) - larger)))
