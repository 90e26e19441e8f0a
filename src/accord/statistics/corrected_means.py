"""Mean ratings from few labels and many scores (prediction-powered inference).

    θ = λ·mean(f, unlabeled) + mean(y - λ·f, labeled)

The labels y correct the errors of the scores f, and the interval is valid for any quality of the scores (Angelopoulos
et al., 2023). λ minimizes its width (Angelopoulos et al., PPI++, 2023); useless scores get λ = 0, the plain mean of the
labels. No label chooses its own λ (each half of the groups uses the λ of the other half, over all systems).

Systems with common inputs are compared by input (`intervals`; docs/decisions/0034). The unit is a rated
conversation or turn. Variances are between groups, and the turns of a conversation form one group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput
from accord.statistics.intervals import CenteredPart, p_value, reach
from accord.statistics.resampling import fold_of, holm

Floats = NDArray[np.float64]

MIN_LABELED = 5
"""Minimum number of labeled conversations or turns of a system."""


@dataclass(frozen=True)
class SystemMean:
    """Mean rating of a system with its 95% interval.

    Attributes:
        system: Name of the system.
        labelled: Number of labeled conversations or turns.
        scored: Number of scored ones, including labeled ones.
        mean, low, high: From labels and scores; the ends are `None` if all labels are equal.
        label_mean, label_low, label_high: From labels only.
        trust: λ, the weight of the scores, 0 to 1.
        reason: Reason of a missing interval.
        parts: Contributions of labeled and of unlabeled units to the mean.
        spent: Share of the degrees of freedom that the choice of λ uses.
        label_part: Contributions of labeled units to `label_mean`.
    """

    system: str
    labelled: int
    scored: int
    mean: float
    low: float | None
    high: float | None
    label_mean: float
    label_low: float | None
    label_high: float | None
    trust: float
    reason: str | None = None
    parts: tuple[CenteredPart, ...] = field(default=(), repr=False)
    spent: float = field(default=0.0, repr=False)
    label_part: CenteredPart | None = field(default=None, repr=False)

    @property
    def width(self) -> float | None:
        """Width of the interval, from end to end."""
        return None if self.low is None or self.high is None else self.high - self.low

    @property
    def label_width(self) -> float | None:
        """Width of the interval of the labels alone."""
        return None if self.label_low is None or self.label_high is None else self.label_high - self.label_low

    @property
    def worth(self) -> float | None:
        """Factor by which the number of labels would have to grow for the same interval without scores."""
        if self.width is None or self.label_width is None:
            return None
        return (self.label_width / max(self.width, 1e-12)) ** 2

    def to_json(self) -> dict[str, Any]:
        """Return a flat row of JSON values."""
        fields = {name: value for name, value in vars(self).items() if name not in ("parts", "spent", "label_part")}
        return {**fields, "worth": self.worth}


@dataclass(frozen=True)
class MeanDifference:
    """Difference of two systems' means, first minus second.

    Attributes:
        first, second: Names of the systems.
        difference, low, high: The difference and its 95% interval; the ends are `None` if a system has no interval.
        p_holm: p-value, with Holm's correction over all pairs.
        shared: Number of groups (topics, inputs) with labels of both systems.
    """

    first: str
    second: str
    difference: float
    low: float | None
    high: float | None
    p_holm: float | None
    shared: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return a flat row of JSON values."""
        return dict(vars(self))


@dataclass(frozen=True)
class LabeledSystem:
    """Labels and scores of a system; the labeled units are a random sample of its conversations, or of its turns.

    Attributes:
        system: Name of the system.
        said: (n,) mean label of each labeled unit.
        predicted: (n,) their out-of-fold scores.
        unlabelled: (N,) scores of the unlabeled units.
        group: (n,) group of each labeled unit, common to all systems, or `None` for one group per unit.
        unlabelled_group: (N,) group of each unlabeled unit.
        unit: `conversations` or `turns`, for messages.
    """

    system: str
    said: Floats
    predicted: Floats
    unlabelled: Floats
    group: Sequence[str] | None = None
    unlabelled_group: Sequence[str] | None = None
    unit: str = "conversations"

    @property
    def groups(self) -> tuple[NDArray[np.str_], NDArray[np.str_]]:
        """Names of the groups of labeled, (n,), and unlabeled, (N,), units."""
        alone = [f"{self.system} {place}" for place in range(len(self.said) + len(self.unlabelled))]
        own = alone[: len(self.said)] if self.group is None else self.group
        others = alone[len(self.said) :] if self.unlabelled_group is None else self.unlabelled_group
        return np.asarray(own, dtype=str), np.asarray(others, dtype=str)


RANDOM_DRAWS, MAX_VALUES, BINS = 1999, 11, 5
"""Random choices of labeled units that the actual one is compared with, and bins of scores with more values."""


def random_label_p(given: LabeledSystem, seed: int = 0) -> float:
    """Return p of the hypothesis that the labeled units of a system are a random part of its units.

    The counts of labeled units by score are compared with the counts in random choices of as many units (permutation
    test of χ²). Units of one group may be labeled together, so the labeled ones are a single unit with their mean
    score, and the others are another one. Groups with both kinds also suggest that units were chosen one by one: a mean
    of two then differs from a single score by chance. The larger p of both readings counts.
    """
    scores: dict[tuple[str, bool], list[float]] = {}
    for names, values, is_labeled in zip(given.groups, (given.predicted, given.unlabelled), (True, False), strict=True):
        for name, value in zip(names.tolist(), values.tolist(), strict=True):
            scores.setdefault((name, is_labeled), []).append(value)
    labeled = np.array([each for _, each in scores])
    if labeled.all() or not labeled.any():
        return 1.0
    chance = _random_choice_p(np.array([np.mean(each) for each in scores.values()]), labeled, seed)
    if len({name for name, _ in scores}) == len(scores):
        return chance
    every = np.concatenate([given.predicted, given.unlabelled])
    return max(chance, _random_choice_p(every, np.arange(len(every)) < len(given.predicted), seed))


def _random_choice_p(scores: Floats, labeled: NDArray[np.bool_], seed: int) -> float:
    """Return p of the labeled units as a random choice of (n,) units, by their counts of scores."""
    values = np.unique(scores)
    edges = values if len(values) <= MAX_VALUES else np.unique(np.quantile(scores, np.arange(1, BINS + 1) / BINS))
    place = np.searchsorted(edges, scores)
    every, seen = np.bincount(place), np.bincount(place[labeled], minlength=place.max() + 1)
    every, seen = every[every > 0], seen[every > 0]
    draws = np.random.default_rng(seed).multivariate_hypergeometric(every, seen.sum(), RANDOM_DRAWS, method="marginals")
    expected = every * (seen.sum() / every.sum())
    found, others = (((counts - expected) ** 2 / expected).sum(axis=-1) for counts in (seen, draws))
    return float((1 + (others >= found - 1e-9).sum()) / (1 + RANDOM_DRAWS))


def estimate_system(system: str, said: Floats, predicted: Floats, unlabelled: Floats) -> SystemMean:
    """Return the mean of a single system; see `estimate_systems`."""
    return estimate_systems([LabeledSystem(system, said, predicted, unlabelled)])[0]


def estimate_systems(systems: Sequence[LabeledSystem], seed: int = 0) -> list[SystemMean]:
    """Return the mean rating of each system.

    Raises:
        BadInput: A system has fewer than `MIN_LABELED` labeled units.
    """
    for system in systems:
        if (n := len(system.said)) < MIN_LABELED:
            raise BadInput(
                f"{n} labeled {system.unit} of {system.system!r}; a mean with an interval needs at least {MIN_LABELED}"
            )
    trusts = _trusts(systems, seed)
    freedom = sum(len(system.said) - 1 for system in systems)
    spent = 1.0 / freedom if any(trust.any() for trust in trusts) else 0.0
    return [_estimate(system, trust, spent) for system, trust in zip(systems, trusts, strict=True)]


def _trusts(systems: Sequence[LabeledSystem], seed: int) -> list[Floats]:
    """Return λ of each labeled unit, chosen on the half of the groups without its own.

        λ = cov(y, f) / ((1 + n/N)·var f), between 0 and 1; 0 without unlabeled units

    Both moments are centered per system and pooled over all systems: five labels estimate a covariance poorly.
    """
    half = fold_of([str(name) for each in systems for name in each.groups[0]], 2, seed)
    halves = [np.array([half[str(name)] for name in each.groups[0]]) for each in systems]
    every = [np.concatenate([each.predicted, each.unlabelled]) for each in systems]
    spread = sum(float(((f - f.mean()) ** 2).sum()) for f in every) / sum(len(f) - 1 for f in every)
    found = [np.zeros(len(each.said)) for each in systems]
    for number in (0, 1):
        together, count = 0.0, 0
        for each, mine in zip(systems, halves, strict=True):
            y, f = each.said[mine != number], each.predicted[mine != number]
            together += float(((y - y.mean()) * (f - f.mean())).sum()) if len(y) else 0.0
            count += max(len(y) - 1, 0)
        for each, mine, trust in zip(systems, halves, found, strict=True):
            if spread > 0 and count and (rest := len(each.unlabelled)) > 1:
                trust[mine == number] = np.clip(together / count / spread / (1 + len(each.said) / rest), 0.0, 1.0)
    return found


def _estimate(given: LabeledSystem, trust: Floats, spent: float) -> SystemMean:
    """Return the mean of a system; `trust` is λ of each labeled unit, (n,)."""
    n, rest, used = len(given.said), len(given.unlabelled), float(trust.mean())
    middle = float(given.unlabelled.mean()) if rest else 0.0
    off = given.said - trust * (given.predicted - middle)
    group, other_group = given.groups
    parts = (
        CenteredPart((off - off.mean()) / n, group),
        CenteredPart(used * (given.unlabelled - middle) / max(rest, 1), other_group),
    )  # fmt: skip
    alone = label_part_of(given)
    reason = missing_interval(given)
    mean, label_mean = float(off.mean()), float(given.said.mean())
    half, label_half = (None, None) if reason else (reach(parts, spent), reach([alone]))
    return SystemMean(
        given.system, n, n + rest, mean, *_around(mean, half), label_mean, *_around(label_mean, label_half), used,
        reason, parts, spent, alone,
    )  # fmt: skip


def label_part_of(given: LabeledSystem) -> CenteredPart:
    """Return the contributions of labeled units to the mean of the labels."""
    return CenteredPart((given.said - given.said.mean()) / len(given.said), given.groups[0])


def missing_interval(given: LabeledSystem) -> str | None:
    """Return the reason of a missing interval, or None."""
    n = len(given.said)
    if np.ptp(given.said) == 0:
        return f"all {n} labels are {given.said[0]:g}, so their variance is unknown; label more {given.unit}"
    if len(set(given.groups[0])) < 2:
        return f"all {n} labels are of one group, so the variance between groups is unknown; label other groups"
    return None


def _around(middle: float, half: float | None) -> tuple[float | None, float | None]:
    return (None, None) if half is None else (middle - half, middle + half)


def mean_differences(means: Sequence[SystemMean]) -> list[MeanDifference]:
    """Return the difference of every pair of systems, by group for shared groups."""
    rows: list[tuple[SystemMean, SystemMean, float | None, float | None]] = []
    for first, second in combinations(means, 2):
        if first.reason or second.reason:
            rows.append((first, second, None, None))
            continue
        parts = [*first.parts, *(part.times(-1.0) for part in second.parts)]
        p = p_value(first.mean - second.mean, parts, first.spent)
        rows.append((first, second, p, reach(parts, first.spent)))
    corrected = iter(holm([p for *_, p, _ in rows if p is not None]))
    return [
        MeanDifference(
            first.system,
            second.system,
            first.mean - second.mean,
            *_around(first.mean - second.mean, half),
            p_holm=None if p is None else next(corrected),
            shared=len(_labelled_groups(first) & _labelled_groups(second)),
        )
        for first, second, p, half in rows
    ]


def _labelled_groups(mean: SystemMean) -> set[str]:
    return set(mean.parts[0].group.tolist())
