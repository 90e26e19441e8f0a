"""Strengths of systems from pairwise preferences of a judge and of people (Bradley and Terry, 1952), and their κ.

System i wins against j with probability σ(θ_i - θ_j); a tie is half a win. θ sums to 0, so a strength is the log-odds
of a win against a system of mean strength. For preferences y_k (1, .5 or 0) of rows with the design vector x_k (1 for
the first system, -1 for the second), θ solves

    Σ_k x_k·(y_k - σ(x_k·θ)) = P·θ,

the likelihood equation with a normal prior of precision P, which keeps θ finite for a system that won every time.

**Correction by labels.** The judge's preferences f_k of all rows have the strengths γ. On the n labeled rows, y_k is
replaced by y_k - s·(f_k - σ(x_k·γ)), with s the least-squares slope of people's residuals on the judge's. γ makes the
sum of the judge's residuals over all rows 0, so the equation stays unbiased for any judge (prediction-powered
inference, Angelopoulos et al., 2023). The standard errors are sandwich ones by group, with the residuals divided by
√(1 - leverage).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from accord.statistics.agreement import MeanStatistic, Paired
from accord.statistics.intervals import CenteredPart, reach
from accord.values import Estimate

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

PRIOR = 0.1
"""Precision P of the prior of each strength; one pair of equal systems has a precision of 1/4 in their difference."""
STEPS, SMALL, MAX_LEVERAGE = 50, 1e-9, 0.9


@dataclass(frozen=True)
class Preferences:
    """Preferences between two systems per row.

    Attributes:
        first: (n,) number of the first system.
        second: (n,) number of the second system.
        value: (n,) share of a win that the first system gets: 1, .5 for a tie, or 0.
        group: (n,) group of the row.
    """

    first: Indices
    second: Indices
    value: Floats
    group: NDArray[np.str_]

    def design(self, systems: int) -> Floats:
        """Return the (n, K) design: 1 for the first system, -1 for the second."""
        x = np.zeros((len(self.first), systems))
        rows = np.arange(len(self.first))
        x[rows, self.first], x[rows, self.second] = 1.0, -1.0
        return x


def bradley_terry(first: Indices, second: Indices, value: Floats, systems: int) -> Floats:
    """Return the (K,) strengths of systems with mean 0, as log-odds.

    Args:
        first: (n,) number of the first system of each pair.
        second: (n,) number of the second one.
        value: (n,) share of a win of the first one; values beyond 0 to 1 are corrected ones.
        systems: K.

    >>> bradley_terry(np.array([0, 0, 0, 0]), np.array([1, 1, 1, 1]), np.array([1.0, 1, 1, 0]), 2).round(2)
    array([ 0.52, -0.52])
    """
    wins = np.zeros((systems, systems))
    np.add.at(wins, (first, second), value)
    np.add.at(wins, (second, first), 1 - value)
    met = wins + wins.T
    strength = np.zeros(systems)
    for _ in range(STEPS):
        share = scipy.special.expit(strength[:, None] - strength[None, :])
        slope = (wins - met * share).sum(axis=1) - PRIOR * strength
        weight = met * share * (1 - share)
        curve = np.diag(weight.sum(axis=1) + PRIOR) - weight
        step = np.linalg.solve(curve, slope)
        strength = strength + step * min(1.0, 2.0 / max(np.abs(step).max(), SMALL))
        if np.abs(step).max() < SMALL:
            break
    return np.asarray(strength - strength.mean())


def corrected_strengths(labeled: Preferences, judged: Floats, others: Preferences, systems: int) -> list[Estimate]:
    """Return the strength of each system from people's preferences, with the judge's as help, and its 95% interval.

    A system that won, or lost, all of its labeled pairs has no interval.

    Args:
        labeled: People's preferences of the labeled rows, a random part of all rows.
        judged: (n,) the judge's preferences of the same rows.
        others: The judge's preferences of the other rows.
        systems: Number of systems K; each has labeled pairs, and chains of labeled pairs connect all.
    """
    n, total = len(labeled.value), len(labeled.value) + len(others.value)
    first, second = (
        np.concatenate([getattr(each, name) for each in (labeled, others)]) for name in ("first", "second")
    )
    said = np.concatenate([judged, others.value])
    x, every = labeled.design(systems), np.concatenate([labeled.design(systems), others.design(systems)])
    judge_residual = said - scipy.special.expit(every @ bradley_terry(first, second, said, systems))
    own = judge_residual[:n]
    plain = labeled.value - scipy.special.expit(
        x @ bradley_terry(labeled.first, labeled.second, labeled.value, systems)
    )
    slope = float(plain @ own) / float(own @ own) if float(own @ own) > SMALL else 0.0
    strength = bradley_terry(labeled.first, labeled.second, labeled.value - slope * own, systems)
    share = scipy.special.expit(x @ strength)
    residual = labeled.value - slope * own - share
    weight = share * (1 - share)
    inverse = np.linalg.inv((x * weight[:, None]).T @ x + PRIOR * np.eye(systems))
    inverse = inverse - inverse.mean(axis=0, keepdims=True)  # strengths have mean 0
    leverage = np.minimum(weight * np.einsum("ik,kl,il->i", x, inverse, x), MAX_LEVERAGE)
    adds = (x @ inverse.T) * (residual / np.sqrt(1 - leverage))[:, None]
    helped = slope * n / total * (every @ inverse.T) * judge_residual[:, None]
    groups = np.concatenate([labeled.group, others.group])
    wins = np.bincount(labeled.first, labeled.value, systems) + np.bincount(labeled.second, 1 - labeled.value, systems)
    met = np.bincount(labeled.first, minlength=systems) + np.bincount(labeled.second, minlength=systems)
    found = []
    for place in range(systems):
        parts = [
            CenteredPart(_centered(adds[:, place]), labeled.group),
            CenteredPart(_centered(helped[:, place]), groups),
        ]
        half, value = reach(parts), float(strength[place])
        is_open = 0 < wins[place] < met[place] and half > 0
        found.append(Estimate(value, value - half, value + half) if is_open else Estimate(value))
    return found


def _centered(values: Floats) -> Floats:
    return np.asarray(values - values.mean())


def parts_apart(first: Sequence[int], second: Sequence[int], systems: int) -> int:
    """Return the number of sets of systems that no chain of pairs connects; 1 if all can be compared."""
    pairs = scipy.sparse.coo_array((np.ones(len(first)), (first, second)), shape=(systems, systems))
    return int(scipy.sparse.csgraph.connected_components(pairs, directed=False)[0])


# --- agreement --------------------------------------------------------------------------------------------------------


def _places_of_both(paired: Paired) -> Floats:
    options = np.arange(len(paired.options))
    first, second = paired.answer[:, None] == options, paired.decided[:, None] == options
    return np.column_stack([paired.answer == paired.decided, first, second]).astype(float)


def _plain_kappa(means: Floats) -> Floats:
    observed, shares = means[..., 0], means[..., 1:]
    half = shares.shape[-1] // 2
    chance = (shares[..., :half] * shares[..., half:]).sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(chance < 1 - SMALL, (observed - chance) / (1 - chance), np.nan)


KAPPA = MeanStatistic(_places_of_both, _plain_kappa)
"""Cohen's κ (1960) of any number of options, each disagreement with the same weight."""
