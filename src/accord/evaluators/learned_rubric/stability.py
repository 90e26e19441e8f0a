"""How often each rubric is chosen when the conversations are drawn anew: what another sample might have said."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from accord.evaluators.learned_rubric.selection import Pool
from accord.evaluators.learned_rubric.sharpness import Floats
from accord.resampling import Clusters

DRAWS = 50
SHAKY = 0.5
"""A chosen rubric that is chosen less often than this is chosen by chance."""

Choose = Callable[[Pool], list[int]]


def stability(pool: Pool, choose: Choose, clusters: Clusters, draws: int = DRAWS, seed: int = 0) -> Floats:
    """(P,) the share of bootstrap resamples of the conversations in which each rubric is chosen.

    Resamples without one of the classes are left out.
    """
    chosen, used = np.zeros(len(pool.sat)), 0
    for count in clusters.counts(draws, seed):
        drawn = pool.of(clusters.rows(count))
        if drawn.good.any() and not drawn.good.all():
            chosen[choose(drawn)] += 1
            used += 1
    return chosen / max(used, 1)
