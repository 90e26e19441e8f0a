"""Conformal prediction by groups, in units of the predicted standard deviation.

    band(x) = the options within mean ± q·sd
    q = the `coverage` quantile of  Σ_g Σ_{i in g} δ(s_i) / ((G+1)·n_g)  +  δ(∞) / (G+1)

with s_i = |y_i - mean_i| / sd_i of ratings predicted without their groups (Vovk et al., 2005; the normalized score of
Papadopoulos et al., 2008; groups as in Dunn, Wasserman and Ramdas, 2022, and Lee, Barber and Willett, 2023). Ratings of
one group may be dependent; the G groups are exchangeable. A rating of a new group falls into its band with probability
`coverage`, on average over groups, for any distributions. With fewer than coverage / (1 - coverage) groups q is ∞: the
band is the whole scale, and scores carry a note. The ends are options of the scale, as in ordinal conformal sets
(arXiv:2509.18658), unless the mean is beyond them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accord.evidence import by_row

Floats = NDArray[np.float64]

_LEAST_SPREAD = 1e-3


def moments(options: Floats, distributions: Floats) -> tuple[Floats, Floats]:
    """Return mean and standard deviation, (n,) each, of (n, K) distributions over the options."""
    mean = by_row(distributions, options)
    spread = np.sqrt(np.maximum((distributions * (options - mean[:, None]) ** 2).sum(axis=1), 0.0))
    return mean, np.maximum(spread, _LEAST_SPREAD * (options[-1] - options[0]))


def band_quantile(
    options: Floats, distributions: Floats, truth: Floats, coverage: float, group: ArrayLike | None = None
) -> float:
    """Return q, the half width of the band in standard deviations; ∞ if there are too few groups.

    Args:
        options: (K,) options of the scale.
        distributions: (n, K) distributions predicted without the rating's group.
        truth: (n,) ratings.
        coverage: Share of new ratings that the band should contain, between 0 and 1.
        group: (n,) group of each rating; None makes every rating a group of its own.
    """
    mean, spread = moments(options, distributions)
    scores = np.abs(truth - mean) / spread
    names = np.arange(len(scores)) if group is None else np.asarray(group).astype(str)
    _, of, size = np.unique(names, return_inverse=True, return_counts=True)
    order = np.argsort(scores, kind="stable")
    cumulative = np.cumsum(1.0 / size[of[order]]) / (len(size) + 1)
    place = int(np.searchsorted(cumulative, coverage - 1e-9))
    return float(scores[order[place]]) if place < len(scores) else float("inf")


def groups_needed(coverage: float) -> int:
    """Return the smallest number of groups with a finite band of this coverage."""
    return int(np.ceil(coverage / (1 - coverage) - 1e-9))


def bands(options: Floats, distributions: Floats, width: float | Floats) -> Floats:
    """Return (n, 2) the lowest and the highest option within mean ± q·sd; the band always holds the mean.

    Ratings are options, so these ends cover as many of them as mean ± q·sd, and are closer to each other. `width` is q
    for all rows, or (n,) one per row.
    """
    mean, spread = moments(options, distributions)
    reach, slack = width * spread, 1e-9 * (options[-1] - options[0])
    low = options[np.minimum(np.searchsorted(options, mean - reach - slack), len(options) - 1)]
    high = options[np.maximum(np.searchsorted(options, mean + reach + slack, side="right") - 1, 0)]
    return np.column_stack([np.minimum(low, mean), np.maximum(high, mean)])
