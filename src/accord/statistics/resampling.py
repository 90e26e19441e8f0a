"""Intervals and tests by resampling groups: whole conversations, never single ratings."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput, count_of
from accord.statistics.agreement import MeanStatistic, Paired, Statistic, WeightedStatistic, number
from accord.statistics.defaults import CONFIDENCE, DRAWS, FOLDS, RANK_DRAWS
from accord.values import Estimate

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

FEWEST_RANK_DRAWS, _RANKED = 100, 2_000_000
"""Smallest number of draws of rank statistics, and the total of rows that sets a number between it and `RANK_DRAWS`.

Fewer draws are enough for a percentile interval of statistics that need all rows together.
"""
_AT_ONCE, _LEAST_AT_ONCE = 100_000, 50
"""Numbers held in memory at a time so that they fit the processor's cache, and the smallest number of draws per
part.
"""


def estimate_from_draws(value: float | None, draws: Floats, confidence: float = CONFIDENCE) -> Estimate:
    """Return a number with the percentile interval of its bootstrap draws.

    Undefined draws (NaN) are left out. The interval is undefined unless at least half of the draws are defined.
    """
    defined = draws[np.isfinite(draws)]
    if len(defined) < max(2, len(draws) // 2):
        return Estimate(value)
    low, high = central(defined, confidence)
    return Estimate(value, float(low), float(high))


def central(draws: Floats, confidence: float = CONFIDENCE) -> tuple[Floats, Floats]:
    """Return the ends of the central interval of draws along the first axis."""
    low, high = np.quantile(draws, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    return low, high


_MOST_SHARED, _MOST_LARGE = 200_000, 4_000_000
"""Numbers of a table of draws that is kept for all clusters of the same number: charts draw the same ones often."""


class Clusters:
    """Rows grouped by conversation, so that resampling and swapping move whole conversations.

    `names` is (n,), the conversation of each row. Conversations are sorted by name, so results do not depend on the
    order of the rows. `from_numbers` is faster for numbered conversations.
    """

    def __init__(self, names: NDArray[np.object_] | Sequence[str]) -> None:
        self._set(*np.unique(np.asarray(names, dtype=str), return_inverse=True))

    @classmethod
    def from_numbers(cls, number: NDArray[np.integer[Any]]) -> Clusters:
        """Return the clusters of (n,) rows by number, from 0; numbers without rows are left out."""
        present = np.bincount(number) > 0
        clusters = cls.__new__(cls)
        clusters._set(np.flatnonzero(present), (np.cumsum(present) - 1)[number])
        return clusters

    def _set(self, names: NDArray[Any], of_row: Indices) -> None:
        self.names = names
        self.of_row: Indices = of_row.astype(np.intp)
        self.sizes = np.bincount(self.of_row, minlength=len(self.names)).astype(float)
        self._counts: dict[int, NDArray[np.uint8]] = {}
        self._tossed: dict[tuple[int, int], NDArray[np.bool_]] = {}

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def members(self) -> list[Indices]:
        """Rows of each conversation."""
        order = np.argsort(self.of_row, kind="stable")
        return np.split(order, np.cumsum(self.sizes).astype(int)[:-1])

    def sums(self, rows: Floats) -> Floats:
        """Return (C, m) sums of (n, m) row values by conversation."""
        columns = [np.bincount(self.of_row, column, len(self)) for column in rows.T]
        return np.column_stack(columns) if columns else np.zeros((len(self), 0))

    def counts(self, draws: int, seed: int) -> Floats:
        """Return (draws, C) the number of times each conversation is drawn, with replacement, C at a time."""
        return self._drawn(draws, seed).astype(float)

    def counts_in_parts(self, draws: int, seed: int, width: int) -> Iterator[Floats]:
        """Yield the counts for some draws at a time, so that arrays `width` wide stay small."""
        kept = self._drawn(draws, seed)
        for start, end in _parts(draws, width):
            yield kept[start:end].astype(float)

    def coins(self, draws: int, seed: int) -> Iterator[Floats]:
        """Yield (at most draws, C) 1 for unchanged conversations and 0 for swapped ones, some draws at a time."""
        if (draws, seed) not in self._tossed:
            rng = np.random.default_rng(seed)
            parts = [rng.random((end - start, len(self))) < 0.5 for start, end in _parts(draws, len(self))]
            self._tossed = {(draws, seed): np.concatenate(parts)}
        kept = self._tossed[draws, seed]
        return (kept[start:end].astype(float) for start, end in _parts(draws, len(self)))

    def _drawn(self, draws: int, seed: int) -> NDArray[np.uint8]:
        """Return the counts as bytes; they are drawn once for all statistics of all systems."""
        if draws * len(self) <= _MOST_SHARED:
            return _shared_counts(len(self), draws, seed)
        if draws * len(self) <= _MOST_LARGE:  # a page of the board draws the same conversations for each statistic
            return _large_counts(len(self), draws, seed)
        if seed not in self._counts or len(self._counts[seed]) < draws:
            self._counts = {seed: _drawn_counts(len(self), draws, seed)}
        return self._counts[seed][:draws]

    def rows(self, counts: Floats) -> Indices:
        """Return the row indices of one draw, each conversation's rows as often as it was drawn."""
        return np.concatenate([self.members[c] for c in np.repeat(np.arange(len(self)), counts.astype(int))])


def _drawn_counts(clusters: int, draws: int, seed: int) -> NDArray[np.uint8]:
    rng, even = np.random.default_rng(seed), np.full(clusters, 1 / clusters)
    parts = (rng.multinomial(clusters, even, size=end - start) for start, end in _parts(draws, clusters))
    return np.concatenate([np.minimum(part, 255).astype(np.uint8) for part in parts])


_shared_counts = lru_cache(maxsize=64)(_drawn_counts)
_large_counts = lru_cache(maxsize=4)(_drawn_counts)


def bootstrap(
    clusters: Clusters, statistic: Statistic, repeats: Sequence[Paired], draws: int = DRAWS, seed: int = 0
) -> Estimate:
    """Return a statistic with its percentile bootstrap interval over conversations.

    Args:
        clusters: Groups of the n rows.
        statistic: Statistic to compute.
        repeats: The n rows as predicted in each repetition of the splits; the statistic is averaged over them.
        draws: Number of bootstrap samples; rank statistics use at most `RANK_DRAWS`, and fewer from 5,000 rows, down to
            `FEWEST_RANK_DRAWS`.
        seed: Random seed.
    """
    return bootstrap_all(clusters, {"it": statistic}, repeats, draws, seed)["it"]


def bootstrap_all(
    clusters: Clusters,
    statistics: Mapping[str, Statistic],
    repeats: Sequence[Paired],
    draws: int = DRAWS,
    seed: int = 0,
) -> dict[str, Estimate]:
    """Return the estimate of each of several statistics from the same draws."""
    values = {name: mean_over(statistic, repeats) for name, statistic in statistics.items()}
    if len(clusters) < 2:
        return {name: Estimate(value) for name, value in values.items()}
    means = {name: each for name, each in statistics.items() if isinstance(each, MeanStatistic)}

    def on_draws(statistic: WeightedStatistic, weights: Floats) -> Floats:
        return np.asarray(np.mean([statistic.of(paired, weights) for paired in repeats], axis=0))

    samples = dict(zip(means, _resampled(clusters, list(means.values()), repeats, draws, seed), strict=True))
    for name, statistic in statistics.items():
        if not isinstance(statistic, MeanStatistic):
            rows = len(clusters.of_row)
            most = min(draws, RANK_DRAWS, max(FEWEST_RANK_DRAWS, _RANKED // rows))
            few = clusters.counts_in_parts(most, seed, rows)
            samples[name] = np.concatenate([on_draws(statistic, counts[:, clusters.of_row]) for counts in few])
    return {name: estimate_from_draws(values[name], samples[name]) for name in statistics}


def mean_over(statistic: Statistic, repeats: Sequence[Paired]) -> float | None:
    """Return a statistic's mean over repetitions of the splits, or `None` if it is undefined for any repetition."""
    values = [statistic(paired) for paired in repeats]
    defined = [value for value in values if value is not None]
    return float(np.mean(defined)) if len(defined) == len(values) else None


def _resampled(
    clusters: Clusters, statistics: Sequence[MeanStatistic], repeats: Sequence[Paired], draws: int, seed: int
) -> list[Floats]:
    """Return (draws,) each statistic on the same resamples, averaged over repeats."""
    if not statistics:
        return []
    sums = [[clusters.sums(statistic.rows(paired)) for statistic in statistics] for paired in repeats]
    ends = np.cumsum([each.shape[1] for each in sums[0]])[:-1]
    stacked = np.hstack([clusters.sizes[:, None], *(each for of_repeat in sums for each in of_repeat)])
    parts: list[list[Floats]] = []
    with np.errstate(invalid="ignore"):  # an infinite row times a count of 0 is undefined
        for counts in clusters.counts_in_parts(draws, seed, len(clusters)):
            drawn = counts @ stacked
            repeated = np.split(drawn[:, 1:] / drawn[:, :1], len(repeats), axis=1)
            each = [
                [
                    statistic.finish(part)
                    for statistic, part in zip(statistics, np.split(one, ends, axis=1), strict=True)
                ]
                for one in repeated
            ]
            parts.append(list(np.mean(each, axis=0)))
    return [np.concatenate(parts_of_one) for parts_of_one in zip(*parts, strict=True)]


@dataclass(frozen=True, slots=True)
class PairedTest:
    """Difference between two systems on the same rows, first minus second.

    Attributes:
        difference: Difference of the statistic.
        low, high: Ends of its 95% interval, or `None` if undefined.
        p: Two-sided p of the permutation test.
    """

    difference: float
    low: float | None
    high: float | None
    p: float


def paired_test(
    clusters: Clusters,
    statistic: MeanStatistic,
    first: Sequence[Paired],
    second: Sequence[Paired],
    draws: int = DRAWS,
    seed: int = 0,
) -> PairedTest | None:
    """Return the permutation test of statistic(first) - statistic(second), with a paired bootstrap interval.

    Under the null hypothesis the two systems are exchangeable within each conversation: each permutation swaps their
    predictions in a random half of the conversations. p = (1 + #{|d*| ≥ |d|}) / (1 + draws). Both systems come as the
    same repetitions of the splits, and the difference is averaged over them.

    Returns:
        The test, or `None` if the statistic is undefined for either system or there are fewer than two conversations.
    """
    if len(clusters) < 2:
        return None
    whole, ones = clusters.sizes.sum(), np.ones((1, len(clusters)))
    sums = [
        (clusters.sums(statistic.rows(a)), clusters.sums(statistic.rows(b))) for a, b in zip(first, second, strict=True)
    ]

    def difference(keep: Floats) -> Floats:
        """(draws,) the difference where `keep` (draws, C) is 1 for conversations left as they are, 0 for swapped."""
        total = np.zeros(len(keep))
        with np.errstate(invalid="ignore"):
            for ours, theirs in sums:
                moved = keep @ (ours - theirs)
                a, b = theirs.sum(axis=0) + moved, ours.sum(axis=0) - moved
                total += statistic.finish(a / whole) - statistic.finish(b / whole)
        return total / len(sums)

    observed = number(difference(ones)[0])
    if observed is None:
        return None
    near = abs(observed) - 1e-12
    extreme = sum(int((~(np.abs(difference(keep)) < near)).sum()) for keep in clusters.coins(draws, seed))
    ours, theirs = (_resampled(clusters, [statistic], system, draws, seed)[0] for system in (first, second))
    spread = estimate_from_draws(observed, ours - theirs)
    return PairedTest(observed, spread.low, spread.high, (1 + extreme) / (1 + draws))


def _parts(draws: int, width: int) -> Iterator[tuple[int, int]]:
    """Yield the first and last draw of parts for which arrays `width` wide hold about `_AT_ONCE` numbers."""
    step = max(_LEAST_AT_ONCE, _AT_ONCE // max(width, 1))
    return ((start, min(start + step, draws)) for start in range(0, draws, step))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values with Holm's step-down correction in the given order, each at most 1."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted, worst = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        worst = max(worst, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = worst
    return adjusted


INNER_FOLDS = 4
"""Number of folds inside a training side, used to choose settings."""


class SingleGroup(BadInput):
    """All samples belong to one group, so nothing can be held out."""


@dataclass(frozen=True, slots=True)
class Split:
    """Names of the groups to learn from, and of those to test on."""

    train: frozenset[str]
    test: frozenset[str]


def fold_of(groups: Iterable[str], folds: int = FOLDS, seed: int = 0) -> dict[str, int]:
    """Return each group's fold: names sorted, shuffled by `random.Random(seed)`, position modulo `folds`."""
    names = sorted(set(groups))
    random.Random(seed).shuffle(names)
    return {name: position % folds for position, name in enumerate(names)}


def grouped_folds(
    groups: Sequence[str], folds: int = FOLDS, seed: int = 0, always: Collection[str] = ()
) -> Iterator[Split]:
    """Yield the splits of a cross-validation over groups: every group is tested once.

    With fewer groups than folds, each group is a fold.

    Args:
        groups: Names of the groups to test, repeats allowed.
        folds: Number of folds.
        seed: Random seed.
        always: Groups that are learned from in every fold and never tested.

    Raises:
        SingleGroup: There is a single group.
    """
    folds = min(folds, len(set(groups)))
    if folds < 2:
        raise SingleGroup(
            f"the ratings belong to {count_of(folds, 'group')} of conversations with a common context, so nothing can "
            "be held out; rate conversations of at least two groups"
        )
    place = fold_of(groups, folds, seed)
    for fold in range(folds):
        test = frozenset(name for name, at in place.items() if at == fold)
        yield Split((frozenset(place) - test) | frozenset(always), test)
