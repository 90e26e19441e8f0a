"""Tails and quantiles of distributions: `scipy.stats` has them too, and takes half a second to import."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike


def normal_tail(z: ArrayLike) -> Any:
    """P(Z > z) of a standard normal variable, in the shape of `z`."""
    return scipy.special.ndtr(np.negative(z))


def normal_quantile(p: ArrayLike) -> Any:
    """Where a standard normal variable is at most with probability `p`."""
    return scipy.special.ndtri(p)


def t_tail(value: float, freedom: float) -> float:
    """P(T > value) of Student's t."""
    return float(scipy.special.stdtr(freedom, -value))


def t_quantile(p: float, freedom: float) -> float:
    """Where Student's t is at most with probability `p`."""
    return float(scipy.special.stdtrit(freedom, p))


def beta_quantile(p: float, a: float, b: float) -> float:
    """Where a Beta(a, b) variable is at most with probability `p`."""
    return float(scipy.special.betaincinv(a, b, p))


def gamma_quantile(p: float, shape: float) -> float:
    """Where a Gamma(shape) variable of scale 1 is at most with probability `p`."""
    return float(scipy.special.gammaincinv(shape, p))
