"""From a real-valued prediction to a distribution over ordered options: an ordered probit with personal thresholds.

    P(y ≤ k | μ, a) = Φ((θ_k + δ_ak - c·μ) / √(1 + c²·w))

θ are common thresholds, δ an annotator's own shifts of them, shrunk by a normal prior; w is variance of μ beyond that
of the training rows (a person nobody met).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

_STEP_BOUNDS = (-5.0, 4.0)
_TINY = 1e-9


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
        steps = options - 1
        start = np.concatenate([_start(mean, answer, options), np.zeros(people * steps if spread > 0 else 0)])
        bounds = [(None, None), *[_STEP_BOUNDS] * (steps - 1), (-4.0, 4.0), *[(None, None)] * (len(start) - steps - 1)]
        objective = _Objective(mean, answer, annotator, people, steps, spread)
        found = scipy.optimize.minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds)
        thresholds, slope, shifts = objective.unpacked(found.x)
        return cls(thresholds, slope, shifts, floor=1.0 / (2 * len(mean) + options))

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
        # Personal shifts may cross; sorted thresholds are the nearest that do not.
        thresholds = np.sort(self.thresholds + shifts, axis=1)
        width = np.sqrt(1.0 + self.slope**2 * np.asarray(extra_variance, dtype=float))
        below = scipy.special.ndtr((thresholds - self.slope * mean[:, None]) / np.reshape(width, (-1, 1)))
        edges = np.hstack([np.zeros((len(mean), 1)), below, np.ones((len(mean), 1))])
        probabilities = np.diff(edges, axis=1)
        options = probabilities.shape[1]
        return np.asarray((1 - options * self.floor) * probabilities + self.floor)


def _start(mean: Floats, answer: Indices, options: int) -> Floats:
    """A slope of one over the residual spread, and thresholds under which the options are as frequent as they are."""
    residual = float(np.std(answer - (mean - mean.mean() + answer.mean()))) or 1.0
    slope = 1.0 / max(residual, 0.1)
    upto = np.cumsum(np.bincount(answer, minlength=options))[:-1]
    width = np.sqrt(1.0 + slope**2 * mean.var())
    thresholds = slope * mean.mean() + width * scipy.special.ndtri((upto + 0.5) / (len(answer) + 1.0))
    steps = np.log(np.clip(np.diff(thresholds), *np.exp(_STEP_BOUNDS)))
    return np.concatenate([thresholds[:1], steps, [np.log(slope)]])


@dataclass(frozen=True)
class _Objective:
    """-log posterior and its gradient; parameters are θ_1, log steps, log c, then δ row by row."""

    mean: Floats
    answer: Indices
    annotator: Indices
    people: int
    steps: int
    spread: float

    def unpacked(self, parameters: Floats) -> tuple[Floats, float, Floats]:
        steps = self.steps
        rise = np.exp(parameters[1:steps])
        thresholds = parameters[0] + np.concatenate([[0.0], np.cumsum(rise)])
        own = parameters[steps + 1 :]
        shifts = own.reshape(self.people, steps) if own.size else np.zeros((self.people, steps))
        return thresholds, float(np.exp(parameters[steps])), shifts

    @cached_property
    def _edges(self) -> tuple[Indices, Floats, Floats]:
        """(2n,) above and then below each chosen option: the edge's place by annotator, μ, and the sign of ∂P over √2π.

        The outermost edges are at ±∞.
        """
        who = np.where(self.annotator < 0, self.people, np.minimum(self.annotator, self.people))
        above = who * (self.steps + 2) + self.answer + 1
        signs = np.repeat([-1.0, 1.0], len(self.mean)) / np.sqrt(2 * np.pi)
        return np.concatenate([above, above - 1]), np.tile(self.mean, 2), signs

    def __call__(self, parameters: Floats) -> tuple[float, Floats]:
        thresholds, slope, shifts = self.unpacked(parameters)
        edges = np.full((self.people + 1, self.steps + 2), np.inf)
        edges[:, 0] = -np.inf
        edges[:-1, 1:-1], edges[-1, 1:-1] = thresholds + shifts, thresholds
        # Personal shifts may cross; a likelihood of thresholds that do would promise more than 1 in all.
        crossed = bool((edges[:, 1:] < edges[:, :-1]).any())
        order = np.argsort(edges, axis=1) if crossed else None
        places, mean, signs = self._edges
        at = (edges if order is None else np.take_along_axis(edges, order, axis=1)).ravel()[places] - slope * mean
        above, below = scipy.special.ndtr(at).reshape(2, -1)
        chosen = np.maximum(above - below, _TINY)
        pulls = signs * np.exp(-0.5 * at**2) / np.tile(chosen, 2)
        by_edge = np.bincount(places, pulls, minlength=edges.size).reshape(edges.shape)
        if order is not None:
            by_edge = np.take_along_axis(by_edge, np.argsort(order, axis=1), axis=1)
        by_cut = by_edge[:, 1:-1]
        total = by_cut.sum(axis=0)
        gradient = np.zeros_like(parameters)
        gradient[0] = total.sum()
        gradient[1 : self.steps] = np.exp(parameters[1 : self.steps]) * np.cumsum(total[::-1])[::-1][1:]
        gradient[self.steps] = -slope * (pulls @ mean)
        loss = -np.log(chosen).sum()
        if parameters.size > self.steps + 1:
            gradient[self.steps + 1 :] = (by_cut[:-1] + shifts / self.spread**2).ravel()
            loss += 0.5 * (shifts**2).sum() / self.spread**2
        return float(loss), gradient
