"""Intervals that hold as often as they say: split conformal prediction on residuals in units of the predicted spread.

    band(x) = mean ± q·sd,   q = the ⌈(n+1)·coverage⌉-th smallest of |yᵢ - meanᵢ| / sdᵢ

over ratings predicted without their texts (Vovk et al., 2005; the normalised score of Papadopoulos et al., 2008).
Whatever the distributions are worth, a new rating of the same kind falls into its band with the probability `coverage`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_LEAST_SPREAD = 1e-3


def moments(options: Floats, distributions: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation, (n,) each, of (n, K) distributions over the options."""
    mean = distributions @ options
    spread = np.sqrt(np.maximum((distributions * (options - mean[:, None]) ** 2).sum(axis=1), 0.0))
    return mean, np.maximum(spread, _LEAST_SPREAD * np.ptp(options))


def band_width(options: Floats, distributions: Floats, truth: Floats, coverage: float) -> float:
    """q: how many standard deviations the band reaches on either side.

    Args:
        options: (K,).
        distributions: (n, K) predicted without the rating's text.
        truth: (n,) what was said.
        coverage: Share of new ratings that the band should hold, between 0 and 1.
    """
    mean, spread = moments(options, distributions)
    scores = np.sort(np.abs(truth - mean) / spread)
    place = int(np.ceil((len(scores) + 1) * coverage)) - 1
    return float(scores[min(place, len(scores) - 1)])


def bands(options: Floats, distributions: Floats, width: float) -> Floats:
    """(n, 2) the ends of each row's band, cut to the scale."""
    mean, spread = moments(options, distributions)
    ends = np.column_stack([mean - width * spread, mean + width * spread])
    return np.clip(ends, options[0], options[-1])
