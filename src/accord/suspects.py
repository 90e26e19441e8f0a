"""Annotators whose labels do not follow the evidence as others' do: at random, or the wrong way round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from accord.agreement import pearson
from accord.evaluators.ratings import Ratings
from accord.resampling import holm

Floats = NDArray[np.float64]

FEWEST = 15
"""Labels that an annotator needs before anything is said of them."""
LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class Suspect:
    """An annotator to talk to.

    Attributes:
        annotator: Who.
        labels: How many they gave.
        r: Correlation of their labels with what a person nobody has met would say of the same texts.
        others: The same for all other annotators together.
        kind: `reversed`, where r is below 0, or `random`, where it is below the others' and not above 0.
        p: Of that, corrected over all annotators.
    """

    annotator: str
    labels: int
    r: float
    others: float
    kind: str
    p: float

    def __str__(self) -> str:
        shown = "run against" if self.kind == "reversed" else "have nothing to do with"
        return (
            f"{self.annotator}'s {self.labels} labels {shown} what others say of like conversations "
            f"(r = {self.r:.2f}, others {self.others:.2f}); ask them how they read the question"
        )


def suspects(rated: Ratings, anybody: Floats) -> list[Suspect]:
    """Annotators whose labels look reversed or random, beside everybody else's.

    Args:
        rated: n ratings.
        anybody: (n,) what a person nobody has met is predicted to say, without the rating's conversation.

    Returns:
        Those for whom Fisher's z says so after Holm's correction; only where the others' labels follow the
        evidence at all.
    """
    found: list[tuple[str, int, float, float]] = []
    for name in sorted(set(rated.annotator)):
        mine = (rated.annotator == name) & np.isfinite(anybody)
        rest = ~mine & np.isfinite(anybody)
        r, others = pearson(rated.value[mine], anybody[mine]), pearson(rated.value[rest], anybody[rest])
        if r is not None and others is not None and mine.sum() >= FEWEST and others > 0:
            found.append((str(name), int(mine.sum()), r, others))
    below = holm([float(norm.cdf(_z(r) * np.sqrt(n - 3))) for _, n, r, _ in found])
    apart = holm([float(norm.cdf((_z(r) - _z(others)) * np.sqrt(n - 3))) for _, n, r, others in found])
    named: list[Suspect] = []
    for (name, n, r, others), reverse, random in zip(found, below, apart, strict=True):
        if reverse < LEVEL:
            named.append(Suspect(name, n, r, others, "reversed", reverse))
        elif random < LEVEL and not _is_above_zero(r, n):
            named.append(Suspect(name, n, r, others, "random", random))
    return named


def _z(r: float) -> float:
    return float(np.arctanh(np.clip(r, -0.999, 0.999)))


def _is_above_zero(r: float, n: int) -> bool:
    return bool(_z(r) * np.sqrt(n - 3) > norm.ppf(1 - LEVEL))
