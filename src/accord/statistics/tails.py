"""Tails and quantiles of distributions from `scipy.special`; importing `scipy.stats` would take half a second."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike


def normal_tail(z: ArrayLike) -> Any:
    """Return P(Z > z) of a standard normal variable, in the shape of `z`."""
    return scipy.special.ndtr(np.negative(z))


def normal_quantile(p: ArrayLike) -> Any:
    """Return the `p` quantile of a standard normal variable."""
    return scipy.special.ndtri(p)


def t_tail(value: float, freedom: float) -> float:
    """Return P(T > value) of Student's t."""
    return float(scipy.special.stdtr(freedom, -value))


def t_quantile(p: float, freedom: float) -> float:
    """Return the `p` quantile of Student's t."""
    return float(scipy.special.stdtrit(freedom, p))


def beta_quantile(p: float, a: float, b: float) -> float:
    """Return the `p` quantile of a Beta(a, b) variable."""
    return float(scipy.special.betaincinv(a, b, p))


def gamma_quantile(p: float, shape: float) -> float:
    """Return the `p` quantile of a Gamma(shape) variable with scale 1."""
    return float(scipy.special.gammaincinv(shape, p))
