"""Intervals that hold as often as they say: conformal prediction by groups, in units of the predicted spread.

    band(x) = mean ± q·sd,   q = the `coverage` quantile of  Σ_g Σ_{i in g} δ(s_i) / ((G+1)·n_g)  +  δ(∞) / (G+1)

with s_i = |y_i - mean_i| / sd_i of ratings that were predicted without their groups (Vovk et al., 2005; the normalised
score of Papadopoulos et al., 2008; groups as Dunn, Wasserman and Ramdas, 2022, and Lee, Barber and Willett, 2023).
Ratings of one group may depend on each other: what is exchangeable are the G groups. Whatever the distributions are
worth, a rating of a new group falls into its band with the probability `coverage`, on average over groups. With fewer
than coverage / (1 - coverage) groups no finite q does that: then it is ∞, the band the whole scale, and scores say so.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accord.evidence import by_row

Floats = NDArray[np.float64]

_LEAST_SPREAD = 1e-3


def moments(options: Floats, distributions: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation, (n,) each, of (n, K) distributions over the options."""
    mean = by_row(distributions, options)
    spread = np.sqrt(np.maximum((distributions * (options - mean[:, None]) ** 2).sum(axis=1), 0.0))
    return mean, np.maximum(spread, _LEAST_SPREAD * (options[-1] - options[0]))


def band_quantile(
    options: Floats, distributions: Floats, truth: Floats, coverage: float, group: ArrayLike | None = None
) -> float:
    """q: how many standard deviations the band reaches on either side; ∞ where there are too few groups.

    Args:
        options: (K,).
        distributions: (n, K) predicted without the rating's group.
        truth: (n,) what was said.
        coverage: Share of new ratings that the band should hold, between 0 and 1.
        group: (n,) what belongs together; without it every rating stands alone.
    """
    mean, spread = moments(options, distributions)
    scores = np.abs(truth - mean) / spread
    names = np.arange(len(scores)) if group is None else np.asarray(group).astype(str)
    _, of, size = np.unique(names, return_inverse=True, return_counts=True)
    order = np.argsort(scores, kind="stable")
    reached = np.cumsum(1.0 / size[of[order]]) / (len(size) + 1)
    place = int(np.searchsorted(reached, coverage - 1e-9))
    return float(scores[order[place]]) if place < len(scores) else float("inf")


def groups_needed(coverage: float) -> int:
    """The fewest groups from which a band of this coverage is finite."""
    return int(np.ceil(coverage / (1 - coverage) - 1e-9))


def bands(options: Floats, distributions: Floats, width: float | Floats) -> Floats:
    """(n, 2) the ends of each row's band, cut to the scale, beyond which nobody can answer; with width ∞ all of it.

    `width` is one for all rows, or one per row (n,).
    """
    mean, spread = moments(options, distributions)
    reach, ends = width * spread, np.empty((len(mean), 2))
    ends[:, 0], ends[:, 1] = mean - reach, mean + reach
    return np.asarray(np.minimum(np.maximum(ends, options[0]), options[-1]))
