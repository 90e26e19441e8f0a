"""Intervals of the smooth calibration error.

smece-coverage E         share of 95% intervals of smECE that contain the true error E (0, .02, .05 and .1), in 60
                         conversations of four dependent answers, 150 of one and 300 of four; every probability is off
                         by E, 10 draws per repetition and number of conversations.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from harness import Row
from numpy.typing import NDArray
from scipy.special import expit, ndtr
from true_shared import counted

from accord.statistics import Clusters, Paired, smece_estimates

ERRORS = (0.0, 0.02, 0.05, 0.1)
SIZES = ((60, 4), (150, 1), (300, 4))
"""Numbers of conversations, and of answers in each."""
SAME = 0.3
"""Correlation of the noise of two answers in a conversation."""


def planted_error(conversations: int, answers: int, error: float, seed: int) -> tuple[Paired, Clusters]:
    """Return probabilities of which each is too low by `error`, and the answers.

    Probabilities and the noise of the answers are similar within conversations.
    """
    rng = np.random.default_rng(seed)
    of = np.repeat(np.arange(conversations), answers)

    def dependent() -> NDArray[np.float64]:
        shared, own = rng.normal(size=conversations)[of], rng.normal(size=len(of))
        return np.asarray(np.sqrt(SAME) * shared + np.sqrt(1 - SAME) * own)

    p = expit(dependent() - 0.5)
    answer = (ndtr(dependent()) < p + error).astype(int)
    return Paired(np.array([0.0, 1.0]), answer, np.column_stack([1 - p, p]), p), Clusters([f"c{each}" for each in of])


def smece_coverage(data: Path, draws: int) -> list[Row]:
    """Count the intervals that contain the true error."""
    rows = []
    for error in ERRORS:
        found = []
        for conversations, answers in SIZES:
            for seed in range(10 * draws):
                one = smece_estimates(*planted_error(conversations, answers, error, seed))[1]
                assert one.low is not None and one.high is not None
                found.append(one.low <= error <= one.high)
        rows.append(counted(f"smece-coverage {error:g}", found))
    return rows


RUN: dict[str, Callable[[Path, int], list[Row]]] = {"smece-coverage": smece_coverage}
NEEDS: dict[str, str] = {}
