"""Held-out scores in each use: find the conversations that people rate low, and compare versions.

Each text has one score, the mean over the repetitions of the cross-validation, and one rating, the mean of its people.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accord.evidence import Ratings
from accord.statistics import CHART_DRAWS, Clusters, GapOfMeans, central, gap_of_means
from accord.validation import Repeats
from accord.values import Estimate

Floats = NDArray[np.float64]
READ = 10
"""A list of conversations to read is one in this number of all conversations."""
FEWEST_TEXTS = 20
"""Smallest number of rated texts for the figures of lists."""
CURVE_POINTS = 100


@dataclass(frozen=True)
class BadFound:
    """Conversations that people rate low, among those with the lowest scores.

    Attributes:
        found: Number of low-rated texts among the `read` ones with the lowest scores, with its interval over groups.
        read: Number of texts that are read: a tenth of all.
        bad: Number of low-rated texts.
        texts: Number of texts.
        cut: Mean rating up to which a text is low-rated: the lowest quarter of the scale, or the lowest tenth of the
            ratings if none lies there.
        curve: Number of low-rated texts among the first n, the lowest score first, at up to `CURVE_POINTS` places.
    """

    found: Estimate
    read: int
    bad: int
    texts: int
    cut: float
    curve: tuple[tuple[int, int], ...] = ()

    @property
    def chance(self) -> float:
        """Expected number of low-rated texts in a random list of the same length."""
        return self.read * self.bad / self.texts


@dataclass(frozen=True)
class VersionGap:
    """Difference of two assistant versions by scores and by people, on the same held-out conversations.

    Attributes:
        first, second: The versions; differences are first minus second.
        scores, people: Difference of the means.
        gap: Scores minus people.
    """

    first: str
    second: str
    scores: GapOfMeans
    people: GapOfMeans
    gap: GapOfMeans


@dataclass(frozen=True)
class HeldOutTexts:
    """Mean rating and mean score of each rated text, without its own ratings in the fit.

    Attributes:
        rating, score: (n,) means.
        group: (n,) group of each text.
        version: (n,) assistant version; empty names where it is unknown.
    """

    rating: Floats
    score: Floats
    group: NDArray[np.object_]
    version: NDArray[np.object_]
    low: float
    high: float

    @classmethod
    def of(cls, repeats: Repeats, rated: Ratings, speakers: NDArray[np.object_] | None) -> HeldOutTexts:
        """Return the texts that the system scored for a new annotator."""
        value = np.mean([each.new_value for each in repeats], axis=0)
        rows = np.flatnonzero(np.isfinite(value))
        place_of: dict[object, int] = {}
        place = np.array([place_of.setdefault(rated.target[row], len(place_of)) for row in rows], dtype=np.intp)
        counts = np.bincount(place, minlength=len(place_of))
        _, index = np.unique(place, return_index=True)
        first = rows[index]
        version = np.array([""] * len(rated), dtype=object) if speakers is None else speakers
        return cls(
            np.bincount(place, rated.value[rows], len(place_of)) / counts,
            np.bincount(place, value[rows], len(place_of)) / counts,
            rated.group[first].astype(object), version[first], float(rated.options[0]), float(rated.options[-1]),
        )  # fmt: skip

    def bad_found(self) -> BadFound | None:
        """Return how many low-rated texts are among the lowest scores, or `None` if there are too few texts."""
        n = len(self.rating)
        if n < FEWEST_TEXTS or np.ptp(self.rating) == 0:
            return None
        cut = self.low + (self.high - self.low) / 4
        if not (self.rating <= cut).any():
            cut = float(np.quantile(self.rating, 1 / READ))
        is_bad, order = self.rating <= cut, np.argsort(self.score, kind="stable")
        read, ordered = -(-n // READ), is_bad[order]
        clusters = Clusters(self.group)
        found = Estimate(float(ordered[:read].sum()))
        if len(clusters) > 1:
            of_row, shares = clusters.of_row[order], []
            for weights in clusters.counts(CHART_DRAWS, 0):
                times = weights[of_row]
                taken = np.clip(times.sum() / READ - (np.cumsum(times) - times), 0, times)
                shares.append(float(taken @ ordered / max(taken.sum(), 1e-12)))
            low, high = central(np.array(shares))
            found = Estimate(found.value, float(low) * read, float(high) * read)
        places = np.unique(np.linspace(0, n, min(n, CURVE_POINTS) + 1).round().astype(int))
        counted = np.concatenate([[0], np.cumsum(ordered)])
        curve = tuple((int(each), int(counted[each])) for each in places)
        return BadFound(found, read, int(is_bad.sum()), n, cut, curve)

    def version_gap(self) -> VersionGap | None:
        """Return the difference of the two versions with the most texts, or `None` if there are fewer than two."""
        names, counts = np.unique(self.version[self.version != ""].astype(str), return_counts=True)
        if len(names) < 2:
            return None
        largest = sorted(zip((-counts).tolist(), names.tolist(), strict=True))[:2]
        first, second = max(name for _, name in largest), min(name for _, name in largest)
        one, other = self.version == first, self.version == second
        scores, people, gap = (
            gap_of_means(values[one], self.group[one], values[other], self.group[other])
            for values in (self.score, self.rating, self.score - self.rating)
        )
        return VersionGap(first, second, scores, people, gap)
