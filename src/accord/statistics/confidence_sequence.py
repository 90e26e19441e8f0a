"""Intervals that may be looked at after every label: a confidence sequence for the mean of bounded values, by betting.

An interval of fixed size is right once; whoever looks again and again, and stops when it suits, sees it fail in the
end. A confidence sequence holds at all times together. For each possible mean m somebody bets against it, with capital

    K⁺_t(m) = Π_i (1 + λ⁺_i(m)·(x_i - m)),    K⁻_t(m) = Π_i (1 - λ⁻_i(m)·(x_i - m)),

λ_i chosen from x_1 … x_{i-1} alone. Were m the mean, neither would ever pass 2/α with a probability above α/2 (Ville's
inequality). The means against which nobody has won are the interval: the hedged capital process of Waudby-Smith and
Ramdas, "Estimating means of bounded random variables by betting", JRSS B 86 (2024), theorem 3. It is exact for every n.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accord.statistics.defaults import CONFIDENCE
from accord.values import Estimate

Floats = NDArray[np.float64]

_POINTS = 1000
_MOST = 0.75
"""The largest share of its capital that a bet risks."""


def mean_sequence(values: Floats, low: float, high: float, confidence: float = CONFIDENCE) -> Estimate:
    """The interval of a mean after n values that came one by one; all of them together hold with this confidence.

    Args:
        values: (n,) independent given those before, each with the same mean: one per conversation, in the order in
            which they came. What is above `high` or below `low` must be impossible.
        low: The least value there can be.
        high: The largest.
        confidence: Of holding at every n.

    Returns:
        Within `low` to `high`; all of it before anything is known.

    Raises:
        ValueError: A value lies outside.
    """
    x = (np.asarray(values, dtype=float) - low) / (high - low)
    if ((x < -1e-9) | (x > 1 + 1e-9)).any():
        raise ValueError(f"values from {low} to {high} are wanted")
    if not len(x):
        return Estimate(None, low, high)
    bound = np.log(2 / (1 - confidence))
    m = np.linspace(0, 1, _POINTS + 1)
    n = np.arange(1, len(x) + 1)
    mean = (0.5 + np.cumsum(x)) / (n + 1)
    variance = (0.25 + np.cumsum((x - mean) ** 2)) / (n + 1)
    before = np.concatenate([[0.25], variance[:-1]])
    bet = np.sqrt(2 * bound / (before * n * np.log(n + 1)))[:, None]
    with np.errstate(divide="ignore"):
        up, down = np.minimum(bet, _MOST / m), np.minimum(bet, _MOST / (1 - m))
    off = x[:, None] - m
    wealth = np.maximum(np.cumsum(np.log1p(up * off), axis=0), np.cumsum(np.log1p(-down * off), axis=0))
    left = np.flatnonzero(wealth.max(axis=0) < bound)
    if not len(left):  # the mean has moved: nothing fits all that came
        return Estimate(float(values.mean()))
    first, last = max(left[0] - 1, 0), min(left[-1] + 1, _POINTS)  # the ends lie between two points
    return Estimate(float(values.mean()), float(low + m[first] * (high - low)), float(low + m[last] * (high - low)))
