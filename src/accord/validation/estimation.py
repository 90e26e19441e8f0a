"""Mean ratings of systems from few labels and many scores (prediction-powered inference).

    θ = λ·mean(f, unlabeled) + mean(y - λ·f, labeled)

The labels y correct the errors of the scores f, and the interval is valid for any quality of the scores (Angelopoulos
et al., 2023). λ minimizes its width (Angelopoulos et al., PPI++, 2023); useless scores get λ = 0, the plain mean of the
labels. No label is used to predict its own conversation (cross-prediction, Zrnic & Candès, 2024), to choose its own λ
(each half of the groups uses the λ of the other half, over all systems), or to estimate its own annotator's effect.

Systems with common inputs are compared by input (`statistics.intervals`; docs/decisions/0034). The unit is what is
rated, a whole conversation or a turn; variances are those between groups, and turns of a conversation are one group.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput
from accord.evidence import EvidenceTable, Ratings, ratings
from accord.learning import MixedModel, level_of
from accord.statistics import FOLDS, CenteredPart, fold_of, grouped_folds, holm, p_value, reach
from accord.values import Labels, Question, Score, Target

Floats = NDArray[np.float64]

MIN_LABELED = 5
"""Minimum number of labeled conversations or turns of a system."""
NOT_SAID = "not said"
_ROUNDS = 3
"""Alternations between estimating annotators' and systems' effects; more do not change printed digits."""


@dataclass(frozen=True)
class SystemMean:
    """Mean rating of a system with its 95% interval.

    Attributes:
        system: Name of the system.
        labelled: Number of labeled conversations or turns.
        scored: Number of scored ones, including labeled ones.
        mean, low, high: From labels and scores; None for the ends if all labels are equal.
        label_mean, label_low, label_high: From labels only.
        trust: λ, the weight of the scores, 0 to 1.
        reason: Reason of a missing interval.
        parts: Contributions of labeled and of unlabeled units to the mean.
        spent: Share of the degrees of freedom that the choice of λ uses.
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

    @property
    def worth(self) -> float | None:
        """Factor by which the number of labels would have to grow for the same interval without scores."""
        if self.low is None or self.high is None or self.label_low is None or self.label_high is None:
            return None
        return ((self.label_high - self.label_low) / max(self.high - self.low, 1e-12)) ** 2

    def to_json(self) -> dict[str, Any]:
        """Return a flat row of JSON values."""
        fields = {name: value for name, value in vars(self).items() if name not in ("parts", "spent")}
        return {**fields, "worth": self.worth}


@dataclass(frozen=True)
class MeanDifference:
    """Difference of two systems' means, first minus second.

    Attributes:
        first, second: Names of the systems.
        difference, low, high: The difference and its 95% interval; None for the ends if a system has no interval.
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
        group: (n,) group of each labeled unit, common to all systems; None for one group per unit.
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
    alone = CenteredPart((given.said - given.said.mean()) / n, group)
    reason = _missing_interval(given)
    mean, label_mean = float(off.mean()), float(given.said.mean())
    half, label_half = (None, None) if reason else (reach(parts, spent), reach([alone]))
    return SystemMean(
        given.system, n, n + rest, mean, *_around(mean, half), label_mean, *_around(label_mean, label_half), used,
        reason, parts, spent,
    )  # fmt: skip


def _missing_interval(given: LabeledSystem) -> str | None:
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


def system_means(
    evidence: EvidenceTable,
    labels: Labels,
    question: Question,
    make: Callable[[Question], Any],
    system_of: Mapping[str, str],
    folds: int = FOLDS,
    seed: int = 0,
    scored: Mapping[str, Sequence[tuple[str, float]]] | None = None,
) -> list[SystemMean]:
    """Return each system's mean rating from its labeled and unlabeled conversations or turns.

    Ratings are corrected by the effect of their annotator, estimated on other groups.

    Args:
        evidence: Evidence of whole conversations or of turns, labeled or not.
        labels: Labels of some of them; their groups (`Labels.groups`, also of unlabeled ones) are topics or inputs that
            systems share; the turns of a conversation are in one group.
        question: The main question.
        make: Function that returns an unfitted evaluator.
        system_of: System of each conversation.
        folds: Folds of the cross-prediction; a conversation of an unlabeled group is scored by all evaluators.
        seed: Seed of the folds.
        scored: Further unlabeled units by system: group and score by an evaluator that was fitted on all labels.

    Raises:
        BadInput: There are too few ratings, a system has fewer than `MIN_LABELED` rated conversations or turns, or the
            evidence is about both.
    """
    rated = ratings(evidence, labels, question)
    group_of = {target: labels.group_of(target) for target in evidence.targets}
    system = np.array([system_of.get(name, NOT_SAID) for name in rated.conversation])
    crossed = _CrossScores(rated, group_of, dict.fromkeys(group_of, 0.0), rated.value.copy())
    for split in grouped_folds(list(rated.group), folds, seed):
        evaluator = make(question).fit(evidence.filter(split.train, labels.group_of), labels.filter(split.train))
        crossed.add_fold(evaluator, evidence, split.test, 1.0 / folds)
        crossed.correct(system, split.test)
    members: dict[str, list[Target]] = {}
    for target in group_of:
        members.setdefault(system_of.get(target.conversation, NOT_SAID), []).append(target)
    unit, more = "turns" if level_of(evidence.targets) == "turn" else "conversations", scored or {}
    found = [crossed.of_system(name, members[name], more.get(name, ()), unit) for name in sorted(members)]
    return estimate_systems(found, seed)


@dataclass(frozen=True)
class _CrossScores:
    """Scores of all units by evaluators that were fitted on other groups, and the ratings of some of them.

    Attributes:
        rated: The n ratings.
        group_of: Group of each unit.
        score: Sum of the scores of each unit so far, weighted by the share of each fold.
        fair: (n,) ratings without the effects of their annotators.
    """

    rated: Ratings
    group_of: Mapping[Target, str]
    score: dict[Target, float]
    fair: Floats

    @cached_property
    def rows_of(self) -> Mapping[Target, Sequence[int]]:
        """Rows of `rated` of each labeled unit."""
        rows: dict[Target, list[int]] = {}
        for row, target in enumerate(self.rated.target):
            rows.setdefault(target, []).append(row)
        return rows

    @cached_property
    def far(self) -> set[Target]:
        """Units of groups without a label, which belong to no fold."""
        tested = set(self.rated.group)
        return {target for target, group in self.group_of.items() if group not in tested}

    def add_fold(self, evaluator: Any, evidence: EvidenceTable, test: Collection[str], share: float) -> None:
        """Score the units of the groups `test`, and add `share` of the scores of units that belong to no fold."""
        near = {target for target, group in self.group_of.items() if group in test}
        for targets, weight in ((near, 1.0), (self.far, share)):
            places = [place for place, target in enumerate(evidence.targets) if target in targets]
            for target, value in _by_panel(evaluator, evidence.take(places)).items():
                self.score[target] += weight * value

    def correct(self, system: NDArray[np.str_], test: Collection[str]) -> None:
        """Subtract the effect of its annotator on other groups from each rating of the groups `test`.

        Args:
            system: (n,) system of each rating.
            test: Groups of a fold.
        """
        own = np.array([name in test for name in self.rated.group])
        effects = annotator_effects(self.rated.take(np.flatnonzero(~own)), system[~own], self.rated.annotator)
        self.fair[own] -= [effects[str(name)] for name in self.rated.annotator[own]]

    def of_system(
        self, name: str, members: Sequence[Target], more: Sequence[tuple[str, float]], unit: str
    ) -> LabeledSystem:
        """Return labels and scores of the units of a system, and of `more` unlabeled ones: group and score."""
        own = sorted((target for target in members if target in self.rows_of), key=_place)
        rest = [(self.group_of[target], self.score[target]) for target in members if target not in self.rows_of]
        groups, scores = zip(*rest, *more, strict=True) if rest or more else ((), ())
        plain, fair = (
            [float(values[self.rows_of[target]].mean()) for target in own] for values in (self.rated.value, self.fair)
        )
        said = plain if len(set(plain)) == 1 else fair  # equal labels stay equal
        return LabeledSystem(
            name, np.array(said), np.array([self.score[target] for target in own]), np.array(scores),
            [self.group_of[target] for target in own], groups, unit,
        )  # fmt: skip


def _place(target: Target) -> tuple[str, int]:
    return target.conversation, -1 if target.turn is None else target.turn


def annotator_effects(rated: Ratings, system: NDArray[np.str_], everyone: NDArray[np.object_]) -> dict[str, float]:
    """Return how much higher than the others each annotator rates, with shrinkage (REML).

        y = θ_system + u_annotator + v_conversation + w_group + e

    Args:
        rated: n ratings.
        system: (n,) system of each rating; systems' means and annotators' effects are estimated alternately.
        everyone: Annotators of all ratings, over which the mean effect is 0; an annotator without ratings in `rated`
            has the average effect.
    """
    names, place = np.unique(system, return_inverse=True)
    effect = np.zeros(len(rated))
    found: dict[str, float] = {}
    for _ in range(_ROUNDS if len(set(rated.annotator)) > 1 else 0):
        level = np.bincount(place, rated.value - effect, len(names)) / np.bincount(place, minlength=len(names))
        model = MixedModel(own_slopes=False).fit(
            np.zeros((len(rated), 1)), rated.value - level[place], rated.annotator, rated.text, rated.group
        )
        found = dict(zip(map(str, model.annotators_), model.offsets_.tolist(), strict=True))
        effect = np.array([found[str(name)] for name in rated.annotator])
    middle = float(np.mean([found.get(str(name), 0.0) for name in everyone]))
    return {str(name): found.get(str(name), 0.0) - middle for name in everyone}


def _by_panel(evaluator: Any, evidence: EvidenceTable) -> dict[Target, float]:
    """Return each target's mean score over all annotators; unscored targets get the overall mean."""
    speakers: Sequence[str | None] = evaluator.annotators or [None]
    each = [evaluator.predict_each(evidence, [name] * len(evidence)) for name in speakers]
    values = np.array([[s.value if isinstance(s, Score) else np.nan for s in scores] for scores in each])
    known = np.isfinite(values).all(axis=0)
    mean = np.where(known, np.where(known, values, 0.0).mean(axis=0), np.nan)
    filled = np.where(known, mean, mean[known].mean() if known.any() else 0.0)
    return {target: float(value) for target, value in zip(evidence.targets, filled, strict=True)}
