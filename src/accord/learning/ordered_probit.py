"""From a real-valued prediction to a distribution over ordered options: an ordered probit with personal thresholds.

    P(y ≤ k | μ, a) = Φ((θ_k + δ_ak - c·μ) / √(1 + c²·w))

θ are common thresholds, δ an annotator's own shifts of them, shrunk by a normal prior; w is variance of μ beyond that
of the training rows (a person nobody met). -log posterior is convex in (θ, c, δ) where everyone's thresholds rise, so
that Newton's steps find its one minimum: a difference of two Φ is log-concave in both edges (Pratt, 1981).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import NDArray

from accord.learning.newton import minimum
from accord.statistics import normal_quantile

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

_LEAST_SLOPE = 0.02
_FAR = 1e9  # where the outermost thresholds are
# Everyone, and nobody in particular, is taken to have chosen every option this often at the mean of μ: thresholds rise
# strictly, and are finite where an option was never chosen. The slope is drawn as weakly to where it starts, which
# decides where all μ are one.
_PRIOR_ROWS = 0.001


@dataclass(frozen=True)
class OrdinalLink:
    """A fitted link over K options.

    Attributes:
        thresholds: (K-1,) rising, θ.
        slope: c > 0.
        shifts: (A, K-1) δ.
        floor: Probability that every option keeps at least, shared out evenly: nothing is called impossible.
    """

    thresholds: Floats
    slope: float
    shifts: Floats
    floor: float

    @classmethod
    def fit(
        cls, mean: Floats, answer: Indices, annotator: Indices, people: int, options: int, spread: float
    ) -> OrdinalLink:
        """Maximum a posteriori on n rows.

        Args:
            mean: (n,) held-out predictions μ as places among the options, 0 to K-1.
            answer: (n,) index of the option that was chosen, 0 to K-1.
            annotator: (n,) index of who chose, -1 for nobody in particular.
            people: A.
            options: K.
            spread: Standard deviation of the prior on δ; 0 keeps all thresholds common.
        """
        start = _start(mean, answer, annotator, people if spread > 0 else 0, options, spread)
        found = minimum(start)
        if found.slope < _LEAST_SLOPE:
            level = start.thresholds + (_LEAST_SLOPE - start.slope) * mean.mean()
            held = replace(start.rows, holds_slope=True)
            found = minimum(replace(start, rows=held, thresholds=level, slope=_LEAST_SLOPE))
        shifts = found.shifts if spread > 0 else np.zeros((people, options - 1))
        return cls(found.thresholds, found.slope, shifts, floor=1.0 / (2 * len(mean) + options))

    @classmethod
    def held_out(
        cls, mean: Floats, answer: Indices, annotator: Indices, people: int, options: int, spread: float, fold: Indices
    ) -> Floats:
        """(n, K) each row's distribution by a link fitted on the rows of the other folds; arguments as `fit`.

        Args:
            mean: (n,) predictions that did not see the row's fold either.
            answer: (n,).
            annotator: (n,).
            people: A.
            options: K.
            spread: Of the prior on δ.
            fold: (n,) rows that are left out together.
        """
        found = np.empty((len(mean), options))
        for each in np.unique(fold):
            seen, rest = fold != each, fold == each
            if not seen.any():
                seen = rest
            link = cls.fit(mean[seen], answer[seen], annotator[seen], people, options, spread)
            found[rest] = link.distribution(mean[rest], annotator[rest])
        return found

    def distribution(self, mean: Floats, annotator: Indices, extra_variance: Floats | float = 0.0) -> Floats:
        """(n, K) probabilities of each option, summing to 1."""
        shifts = np.vstack([self.shifts, np.zeros(len(self.thresholds))])[annotator]
        # In folders saved before thresholds had to rise some may cross; sorted ones are the nearest that do not.
        thresholds = np.sort(self.thresholds + shifts, axis=1)
        width = np.sqrt(1.0 + self.slope**2 * np.asarray(extra_variance, dtype=float))
        below = scipy.special.ndtr((thresholds - self.slope * mean[:, None]) / np.reshape(width, (-1, 1)))
        edges = np.hstack([np.zeros((len(mean), 1)), below, np.ones((len(mean), 1))])
        probabilities = np.diff(edges, axis=1)
        options = probabilities.shape[1]
        return np.asarray((1 - options * self.floor) * probabilities + self.floor)


def _start(mean: Floats, answer: Indices, annotator: Indices, people: int, options: int, spread: float) -> _At:
    """Thresholds under which the options are as frequent as they are, and a slope of one over the residual spread."""
    residual = float(np.std(answer - (mean - mean.mean() + answer.mean()))) or 1.0
    slope = 1.0 / max(residual, 0.1)
    upto = np.cumsum(np.bincount(answer, minlength=options))[:-1]
    # Half a choice more of every option: thresholds rise where one was never chosen.
    share = (upto + 0.5 * np.arange(1, options)) / (len(answer) + 0.5 * options)
    width = np.sqrt(1.0 + slope**2 * mean.var())
    thresholds = slope * mean.mean() + width * normal_quantile(share)
    who = np.where((annotator < 0) | (annotator >= people), people, annotator)
    cells = (people + 1) * options
    rows = _Rows(
        np.concatenate([mean, np.full(cells, mean.mean())]),
        np.concatenate([who * options + answer, np.arange(cells)]),
        np.concatenate([np.ones(len(mean)), np.full(cells, _PRIOR_ROWS)]),
        (people + 1, options),
        1 / spread**2 if people else 0.0,
        slope,
    )
    return _At(rows, thresholds, slope, np.zeros((people, options - 1)))


@dataclass(frozen=True)
class _Rows:
    """What is learned from: rows that each chose the option between two of K+1 edges, and the priors.

    Attributes:
        mean: (m,) μ, prior rows behind the others.
        cell: (m,) annotator · K + option; nobody in particular is the last annotator.
        weight: (m,).
        shape: A + 1, K.
        precision: Of the prior on δ, one over its variance.
        usual_slope: Which c is weakly drawn to.
        holds_slope: Whether c stays what it is.
    """

    mean: Floats
    cell: Indices
    weight: Floats
    shape: tuple[int, int]
    precision: float
    usual_slope: float
    holds_slope: bool = False

    def by_cell(self, of_rows: Floats) -> Floats:
        """(A + 1, K) weighted sums."""
        sums = np.bincount(self.cell, self.weight * of_rows, minlength=self.shape[0] * self.shape[1])
        return np.asarray(sums.reshape(self.shape), dtype=float)


@dataclass(frozen=True)
class _At:
    """Where the search is: θ (K-1,), c and δ (A, K-1)."""

    rows: _Rows
    thresholds: Floats
    slope: float
    shifts: Floats

    @cached_property
    def edges(self) -> Floats:
        """(A + 1, K + 1) everyone's thresholds between the outermost edges."""
        edges = np.full((self.rows.shape[0], self.rows.shape[1] + 1), _FAR)
        edges[:, 0] = -_FAR
        edges[:, 1:-1] = self.thresholds
        edges[:-1, 1:-1] += self.shifts
        return edges

    @cached_property
    def chances(self) -> tuple[Floats, Floats, Floats]:
        """(m,) the edges above and below each row's option, from where the row is, and log P of that option."""
        moved = self.slope * self.rows.mean
        above, below = (side.ravel()[self.rows.cell] - moved for side in (self.edges[:, 1:], self.edges[:, :-1]))
        return above, below, _log_chance(above, below)

    @cached_property
    def loss(self) -> float:
        """-log posterior; infinite where someone's thresholds do not rise."""
        if not (self.edges[:, 1:] > self.edges[:, :-1]).all():
            return np.inf
        rows = self.rows
        prior = rows.precision * (self.shifts**2).sum() + _PRIOR_ROWS * (self.slope - rows.usual_slope) ** 2
        return float(0.5 * prior - rows.weight @ self.chances[2])

    def step(self) -> tuple[Callable[[float], _At], float]:
        """Newton's step.

        δ of one annotator meet no other's in the Hessian: they are eliminated annotator by annotator, which leaves K
        equations for θ and c.
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
        free = [*range(1, options), *([] if rows.holds_slope else [options + 1])]  # the outermost edges stay
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

        def reached(share: float) -> _At:
            at = (self.thresholds + share * thresholds, self.slope + share * slope, self.shifts + share * shifts)
            return _At(rows, *at)

        return reached, float(-(common @ moved + (own * shifts).sum()))


def _log_chance(above: Floats, below: Floats) -> Floats:
    """log(Φ(above) - Φ(below)), taken in the tail in which both are small."""
    right = above + below > 0
    high, low = np.where(right, -below, above), np.where(right, -above, below)
    larger = scipy.special.log_ndtr(high)
    with np.errstate(divide="ignore"):  # edges that rounding makes one
        return np.asarray(larger + np.log(-np.expm1(scipy.special.log_ndtr(low) - larger)))
