"""From a real-valued prediction to a distribution over ordered options: an ordered probit with personal thresholds.

    P(y ≤ k | μ, a) = Φ((θ_k + δ_ak - c·μ) / √(1 + c²·w))

θ are common thresholds, δ an annotator's own shifts of them, shrunk by a normal prior; w is variance of μ beyond that
of the training rows (a person nobody met). -log posterior is convex in (θ, c, δ) where everyone's thresholds rise, so
that Newton's steps find its one minimum: a difference of two Φ is log-concave in both edges (Pratt, 1981).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

_LEAST_SLOPE = 0.02
_FAR = 1e9  # where the outermost thresholds are
# Everyone, and nobody in particular, is taken to have chosen every option this often at the mean of μ: thresholds rise
# strictly, and are finite where an option was never chosen. The slope is drawn as weakly to where it starts, which
# decides where all μ are one.
_PRIOR_ROWS = 0.001
_MOST_STEPS = 100  # 4 to 10 are usual


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
        start = _start(mean, answer, options, people if spread > 0 else 0)
        objective = _Objective.of(mean, answer, annotator, start, spread)
        found = objective.minimum(start)
        if found.slope < _LEAST_SLOPE:
            level = start.thresholds + (_LEAST_SLOPE - start.slope) * mean.mean()
            found = objective.minimum(_At(level, _LEAST_SLOPE, start.shifts), hold_slope=True)
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


@dataclass(frozen=True)
class _At:
    """Where the search is: θ (K-1,), c and δ (A, K-1); or a step from there."""

    thresholds: Floats
    slope: float
    shifts: Floats

    def moved(self, step: _At, share: float) -> _At:
        return _At(
            self.thresholds + share * step.thresholds,
            self.slope + share * step.slope,
            self.shifts + share * step.shifts,
        )


def _start(mean: Floats, answer: Indices, options: int, people: int) -> _At:
    """Thresholds under which the options are as frequent as they are, and a slope of one over the residual spread."""
    residual = float(np.std(answer - (mean - mean.mean() + answer.mean()))) or 1.0
    slope = 1.0 / max(residual, 0.1)
    upto = np.cumsum(np.bincount(answer, minlength=options))[:-1]
    # Half a choice more of every option: thresholds rise where one was never chosen.
    share = (upto + 0.5 * np.arange(1, options)) / (len(answer) + 0.5 * options)
    width = np.sqrt(1.0 + slope**2 * mean.var())
    thresholds = slope * mean.mean() + width * scipy.special.ndtri(share)
    return _At(thresholds, slope, np.zeros((people, options - 1)))


@dataclass(frozen=True)
class _Objective:
    """-log posterior, its gradient and its Hessian, of rows that each chose the option between two of K+1 edges.

    Attributes:
        mean: (m,) μ, prior rows behind the others.
        cell: (m,) annotator · K + option; nobody in particular is the last annotator.
        weight: (m,).
        shape: A + 1, K.
        precision: Of the prior on δ, one over its variance.
        usual_slope: Which c is weakly drawn to.
    """

    mean: Floats
    cell: Indices
    weight: Floats
    shape: tuple[int, int]
    precision: float
    usual_slope: float

    @classmethod
    def of(cls, mean: Floats, answer: Indices, annotator: Indices, start: _At, spread: float) -> _Objective:
        people, options = len(start.shifts), len(start.thresholds) + 1
        who = np.where((annotator < 0) | (annotator >= people), people, annotator)
        cells = (people + 1) * options
        return cls(
            np.concatenate([mean, np.full(cells, mean.mean())]),
            np.concatenate([who * options + answer, np.arange(cells)]),
            np.concatenate([np.ones(len(mean)), np.full(cells, _PRIOR_ROWS)]),
            (people + 1, options),
            1 / spread**2 if people else 0.0,
            start.slope,
        )

    def minimum(self, start: _At, hold_slope: bool = False) -> _At:
        """Newton's steps, each halved until it keeps a part of what it promises, until none promises anything."""
        at, loss = start, self.loss(start)
        for _ in range(_MOST_STEPS):
            step, promised = self.step(at, hold_slope)
            if promised < 1e-9 * (1.0 + abs(loss)):
                break
            share = 1.0
            while (reached := self.loss(at.moved(step, share))) > loss - 1e-4 * share * promised:
                if (share := share / 2) < 1e-9:
                    return at
            at, loss = at.moved(step, share), reached
        return at

    def loss(self, at: _At) -> float:
        """Infinite where someone's thresholds do not rise."""
        edges = self._edges(at)
        if not (edges[:, 1:] > edges[:, :-1]).all():
            return np.inf
        prior = self.precision * (at.shifts**2).sum() + _PRIOR_ROWS * (at.slope - self.usual_slope) ** 2
        return float(0.5 * prior - self.weight @ _log_chance(*self._beside(edges, at.slope)))

    def step(self, at: _At, hold_slope: bool) -> tuple[_At, float]:
        """Newton's step, and how much less the loss were after it if it went on as it begins.

        δ of one annotator meet no other's in the Hessian: they are eliminated annotator by annotator, which leaves K
        equations for θ and c.
        """
        above, below = self._beside(self._edges(at), at.slope)
        chance = _log_chance(above, below)
        up, low = (np.exp(-0.5 * (edge**2 + np.log(2 * np.pi)) - chance) for edge in (above, below))
        of_above, of_below, of_both = above * up + up**2, low**2 - below * low, -up * low
        people, options = self.shape
        gradient = np.zeros((people, options + 2))  # by edge 0 to K, then by c
        hessian = np.zeros((people, options + 2, options + 2))
        option = np.arange(options)
        for edge, first, second in ((option + 1, -up, of_above), (option, low, of_below)):
            gradient[:, edge] += self._by_cell(first)
            gradient[:, -1] -= self._by_cell(first * self.mean).sum(axis=1)
            hessian[:, edge, edge] += self._by_cell(second)
            hessian[:, edge, -1] -= self._by_cell((second + of_both) * self.mean)
        hessian[:, option + 1, option] = hessian[:, option, option + 1] = self._by_cell(of_both)
        hessian[:, -1, :] = hessian[:, :, -1]
        hessian[:, -1, -1] = self._by_cell((of_above + of_below + 2 * of_both) * self.mean**2).sum(axis=1)
        cuts = options - 1
        free = [*range(1, options), *([] if hold_slope else [options + 1])]  # the outermost edges stay where they are
        gradient, hessian = gradient[:, free], hessian[:, free][:, :, free]
        common, of_common = gradient.sum(axis=0), hessian.sum(axis=0)
        if not hold_slope:
            common[-1] += _PRIOR_ROWS * (at.slope - self.usual_slope)
            of_common[-1, -1] += _PRIOR_ROWS
        own, of_own = gradient[:-1, :cuts] + self.precision * at.shifts, hessian[:-1, :cuts]
        blocks = of_own[:, :, :cuts] + self.precision * np.eye(cuts)
        solved = np.linalg.solve(blocks, np.concatenate([own[:, :, None], of_own], axis=2))
        eliminated = np.einsum("aki,akj->ij", of_own, solved)
        moved = -np.linalg.solve(of_common - eliminated[:, 1:], common - eliminated[:, 0])
        shifts = -solved[:, :, 0] - solved[:, :, 1:] @ moved
        step = _At(moved[:cuts], 0.0 if hold_slope else float(moved[-1]), shifts)
        return step, float(-(common @ moved + (own * shifts).sum()))

    def _edges(self, at: _At) -> Floats:
        """(A + 1, K + 1) everyone's thresholds between the outermost edges."""
        edges = np.full((self.shape[0], self.shape[1] + 1), _FAR)
        edges[:, 0] = -_FAR
        edges[:, 1:-1] = at.thresholds
        edges[:-1, 1:-1] += at.shifts
        return edges

    def _beside(self, edges: Floats, slope: float) -> tuple[Floats, Floats]:
        """(m,) the edges above and below each row's option, from where the row is."""
        moved = slope * self.mean
        return edges[:, 1:].ravel()[self.cell] - moved, edges[:, :-1].ravel()[self.cell] - moved

    def _by_cell(self, of_rows: Floats) -> Floats:
        """(A + 1, K) weighted sums."""
        sums = np.bincount(self.cell, self.weight * of_rows, minlength=self.shape[0] * self.shape[1])
        return np.asarray(sums.reshape(self.shape), dtype=float)


def _log_chance(above: Floats, below: Floats) -> Floats:
    """log(Φ(above) - Φ(below)), taken in the tail in which both are small."""
    right = above + below > 0
    high, low = np.where(right, -below, above), np.where(right, -above, below)
    larger = scipy.special.log_ndtr(high)
    with np.errstate(divide="ignore"):  # edges that rounding makes one
        return np.asarray(larger + np.log(-np.expm1(scipy.special.log_ndtr(low) - larger)))
