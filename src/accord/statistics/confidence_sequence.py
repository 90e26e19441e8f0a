"""Confidence sequence for the mean of bounded values, valid at every number of labels.

A fixed-size interval is valid at one sample size. If a reader checks it after every label, it will eventually
fail. A confidence sequence is valid at all sample sizes at once. For each candidate mean m, a bet against it has the
capital

    K⁺_t(m) = Π_i (1 + λ⁺_i(m)·(x_i - m)),    K⁻_t(m) = Π_i (1 - λ⁻_i(m)·(x_i - m)),

with λ_i chosen from x_1 … x_{i-1} only. If m is the mean, each capital exceeds 2/α with probability at most α/2
(Ville's inequality). The interval holds the means whose capital never exceeded it: the hedged capital process of
Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", JRSS B 86 (2024), theorem 3. It is
exact for every n.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accord.statistics.defaults import CONFIDENCE
from accord.values import Estimate

Floats = NDArray[np.float64]

_POINTS = 1000
_MOST = 0.75
"""Largest share of the capital that a bet risks."""


def mean_sequence(values: Floats, low: float, high: float, confidence: float = CONFIDENCE) -> Estimate:
    """Return the interval of a mean after n values; the intervals at all n hold together with this confidence.

    Args:
        values: (n,) values in order of arrival, one per conversation, independent given earlier ones and with the same
            mean.
        low: Smallest possible value.
        high: Largest possible value.
        confidence: Confidence at all n together.

    Returns:
        Interval within `low` to `high`; all of it without values.

    Raises:
        ValueError: A value is outside `low` to `high`.
    """
    x = (np.asarray(values, dtype=float) - low) / (high - low)
    if ((x < -1e-9) | (x > 1 + 1e-9)).any():
        raise ValueError(f"values must be from {low} to {high}")
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
    if not len(left):  # the mean has changed, so no mean fits all values
        return Estimate(float(values.mean()))
    first, last = max(left[0] - 1, 0), min(left[-1] + 1, _POINTS)  # the ends are between two points
    return Estimate(float(values.mean()), float(low + m[first] * (high - low)), float(low + m[last] * (high - low)))
