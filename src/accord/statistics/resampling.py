"""Intervals and tests by resampling conversations: whole conversations are drawn, never single ratings."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accord.statistics.agreement import MeanStatistic, Paired, Statistic, number
from accord.values import BadInput

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

DRAWS = 2000
RANK_DRAWS = 400
"""Fewer draws for statistics that need all rows together: enough for a percentile interval."""
CONFIDENCE = 0.95
_DRAWS_AT_ONCE = 250


@dataclass(frozen=True, slots=True)
class Interval:
    """A central interval of a statistic; `None` where too few draws defined it."""

    low: float | None
    high: float | None


class Clusters:
    """Rows grouped by conversation, so that resampling and swapping move whole conversations.

    `names` is (n,), the conversation of each row. Conversations are ordered by name: results do not depend on the
    order of the rows.
    """

    def __init__(self, names: NDArray[np.object_] | Sequence[str]) -> None:
        self.names, of_row = np.unique(np.asarray(names, dtype=str), return_inverse=True)
        self.of_row: Indices = of_row.astype(np.intp)
        self.sizes = np.bincount(self.of_row, minlength=len(self.names)).astype(float)
        order = np.argsort(self.of_row, kind="stable")
        self.members: list[Indices] = np.split(order, np.cumsum(self.sizes).astype(int)[:-1])

    def __len__(self) -> int:
        return len(self.names)

    def sums(self, rows: Floats) -> Floats:
        """(C, m) sums of (n, m) row values by conversation."""
        total = np.zeros((len(self), rows.shape[1]))
        np.add.at(total, self.of_row, rows)
        return total

    def counts(self, draws: int, seed: int) -> Floats:
        """(draws, C) how often each conversation is drawn, with replacement, C at a time."""
        rng = np.random.default_rng(seed)
        return rng.multinomial(len(self), np.full(len(self), 1 / len(self)), size=draws).astype(float)

    def rows(self, counts: Floats) -> Indices:
        """Row indices of one draw: each conversation's rows as often as it was drawn."""
        return np.concatenate([self.members[c] for c in np.repeat(np.arange(len(self)), counts.astype(int))])


def bootstrap(
    clusters: Clusters, statistic: Statistic, repeats: Sequence[Paired], draws: int = DRAWS, seed: int = 0
) -> Interval:
    """Percentile bootstrap interval of a statistic, over conversations.

    Args:
        clusters: Which of the n rows belong together.
        statistic: What is computed.
        repeats: The n rows as predicted in each repetition of the splits; the statistic is averaged over them.
        draws: Number of bootstrap samples; statistics of ranks take at most `RANK_DRAWS`.
        seed: Fixes them.
    """
    if len(clusters) < 2:
        return Interval(None, None)
    if isinstance(statistic, MeanStatistic):
        return interval(resampled_means(clusters, statistic, repeats, clusters.counts(draws, seed)))
    rows = [clusters.rows(count) for count in clusters.counts(min(draws, RANK_DRAWS), seed)]
    values = [[statistic(paired.take(drawn)) for paired in repeats] for drawn in rows]
    return interval(np.array([[np.nan if v is None else v for v in each] for each in values]).mean(axis=1))


def resampled_means(clusters: Clusters, statistic: MeanStatistic, repeats: Sequence[Paired], counts: Floats) -> Floats:
    """(draws,) the statistic on resamples given as (draws, C) counts of conversations, averaged over repeats."""
    sizes = (counts @ clusters.sizes)[:, None]
    with np.errstate(invalid="ignore"):  # an infinite row times a count of 0 is undefined, and counted so
        each = [statistic.finish((counts @ clusters.sums(statistic.rows(paired))) / sizes) for paired in repeats]
    return np.asarray(np.mean(each, axis=0))


def interval(samples: Floats, confidence: float = CONFIDENCE) -> Interval:
    """The percentile interval of bootstrap samples; undefined ones (NaN) are left out, and most must be defined."""
    defined = samples[np.isfinite(samples)]
    if len(defined) < max(2, len(samples) // 2):
        return Interval(None, None)
    low, high = np.quantile(defined, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(low), float(high))


@dataclass(frozen=True, slots=True)
class PairedTest:
    """A difference between two systems on the same rows, first minus second; p two-sided, by permutation."""

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
    """Permutation test of statistic(first) - statistic(second), with a paired bootstrap interval of the difference.

    Under the null hypothesis the two systems are exchangeable within each conversation: each permutation swaps
    their predictions in a random half of the conversations. p = (1 + #{|d*| ≥ |d|}) / (1 + draws). Both systems
    come as the same repetitions of the splits, and the difference is averaged over them.

    Returns:
        `None` where the statistic is undefined on either system, or there are fewer than two conversations.
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
                a, b = keep @ ours + (1 - keep) @ theirs, keep @ theirs + (1 - keep) @ ours
                total += statistic.finish(a / whole) - statistic.finish(b / whole)
        return total / len(sums)

    observed = number(difference(ones)[0])
    if observed is None:
        return None
    rng = np.random.default_rng(seed)
    extreme = sum(
        int((~(np.abs(difference(keep)) < abs(observed) - 1e-12)).sum()) for keep in _coins(rng, draws, len(clusters))
    )
    counts = clusters.counts(draws, seed)
    ours, theirs = (resampled_means(clusters, statistic, system, counts) for system in (first, second))
    spread = interval(ours - theirs)
    return PairedTest(observed, spread.low, spread.high, (1 + extreme) / (1 + draws))


def _coins(rng: np.random.Generator, draws: int, size: int) -> Iterator[Floats]:
    for start in range(0, draws, _DRAWS_AT_ONCE):
        yield (rng.random((min(_DRAWS_AT_ONCE, draws - start), size)) < 0.5).astype(float)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction: adjusted p-values in the given order, each at most 1."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted, worst = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        worst = max(worst, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = worst
    return adjusted


FOLDS = 5
INNER_FOLDS = 4
"""Folds inside a training side, by which settings are chosen."""


@dataclass(frozen=True, slots=True)
class Split:
    """Names of the groups to learn from, and of those to test on."""

    train: frozenset[str]
    test: frozenset[str]


def fold_of(groups: Iterable[str], folds: int = FOLDS, seed: int = 0) -> dict[str, int]:
    """Each group's fold: names sorted, shuffled by `random.Random(seed)`, position modulo `folds`."""
    names = sorted(set(groups))
    random.Random(seed).shuffle(names)
    return {name: position % folds for position, name in enumerate(names)}


def grouped_folds(
    groups: Sequence[str], folds: int = FOLDS, seed: int = 0, always: Collection[str] = ()
) -> Iterator[Split]:
    """Cross-validation over groups: every group is tested once, and never learned from in that fold.

    Other groups, that are `always` learned from, are never tested.

    Raises:
        BadInput: There are fewer groups than folds.
    """
    place = fold_of(groups, folds, seed)
    if len(place) < folds:
        raise BadInput(f"{len(place)} rated conversations cannot make {folds} folds; rate more, or use fewer folds")
    for fold in range(folds):
        test = frozenset(name for name, at in place.items() if at == fold)
        yield Split((frozenset(place) - test) | frozenset(always), test)
