"""Mean ratings of systems from labels and the scores of an evaluator (`statistics.corrected_means`).

No label is used to predict its own conversation (cross-prediction, Zrnic & Candès, 2024), or to estimate its own
annotator's effect.

The scores are control variates within systems. An evaluator that was fitted without a fold has a level that is high if
the labels of that fold are low, because both add up to the mean of all labels. Left in the scores, this correlation
hides their information: λ falls to 0. So each labeled unit's score is taken relative to the mean score that the same
evaluator gives to the unlabeled units of the same system, or without any to all its units.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.evidence import EvidenceTable, Ratings, ratings
from accord.learning import MixedModel, level_of
from accord.statistics import FOLDS, LabeledSystem, SystemMean, estimate_systems, grouped_folds, stratified_means
from accord.values import Labels, Question, Score, Target

Floats = NDArray[np.float64]

NOT_SAID = "not said"
_ROUNDS = 3
"""Alternations between estimating annotators' and systems' effects; more do not change printed digits."""


def labeled_systems(
    evidence: EvidenceTable,
    labels: Labels,
    question: Question,
    make: Callable[[Question], Any],
    system_of: Mapping[str, str],
    folds: int = FOLDS,
    seed: int = 0,
    scored: Mapping[str, Sequence[tuple[str, float]]] | None = None,
) -> list[LabeledSystem]:
    """Return the labels and scores of each system's labeled and unlabeled conversations or turns.

    Ratings are corrected by the effect of their annotator, estimated on other groups.

    Args:
        evidence: Evidence of whole conversations or of turns, labeled or not.
        labels: Labels of some units; their groups (`Labels.groups`, also of unlabeled ones) are topics or inputs that
            systems share; the turns of a conversation are in one group.
        question: The main question.
        make: Function that returns an unfitted evaluator.
        system_of: System of each conversation.
        folds: Folds of the cross-prediction; a conversation of an unlabeled group is scored by all evaluators.
        seed: Seed of the folds.
        scored: Further unlabeled units by system: group and score by an evaluator that was fitted on all labels.

    Raises:
        BadInput: There are too few ratings, or the evidence is about both.
    """
    rated = ratings(evidence, labels, question)
    group_of = {target: labels.group_of(target) for target in evidence.targets}
    system = np.array([system_of.get(name, NOT_SAID) for name in rated.conversation])
    named = {target: system_of.get(target.conversation, NOT_SAID) for target in group_of}
    crossed = _CrossScores(rated, group_of, named, dict.fromkeys(group_of, 0.0), {}, rated.value.copy())
    for split in grouped_folds(list(rated.group), folds, seed):
        evaluator = make(question).fit(evidence.filter(split.train, labels.group_of), labels.filter(split.train))
        crossed.add_fold(evaluator, evidence, split.test, 1.0 / folds)
        crossed.correct(system, split.test)
    members: dict[str, list[Target]] = {}
    for target, name in named.items():
        members.setdefault(name, []).append(target)
    unit, more = "turns" if level_of(evidence.targets) == "turn" else "conversations", scored or {}
    return [crossed.of_system(name, members[name], more.get(name, ()), unit) for name in sorted(members)]


def system_means(
    evidence: EvidenceTable,
    labels: Labels,
    question: Question,
    make: Callable[[Question], Any],
    system_of: Mapping[str, str],
    folds: int = FOLDS,
    seed: int = 0,
) -> list[SystemMean]:
    """Return each system's mean rating; arguments as in `labeled_systems`.

    Raises:
        BadInput: As `labeled_systems`, or a system has fewer than `MIN_LABELED` rated conversations or turns.
    """
    return estimate_systems(labeled_systems(evidence, labels, question, make, system_of, folds, seed), seed)


PPI, STRATIFIED, ALONE = "PPI++", "stratified PPI++", "labels alone"


def method_widths(means: Sequence[SystemMean], given: Sequence[LabeledSystem]) -> dict[str, float]:
    """Return the mean width of the intervals by estimator, over the systems with an interval.

    Args:
        means: Means by PPI++.
        given: Labels and scores of the same systems.
    """
    wide = [each for each in means if each.width is not None and each.label_width is not None]
    if not wide:
        return {}
    by_strata = {each.system: each.width for each in stratified_means.stratified_means(given)}
    widths = [(each.width, by_strata[each.system], each.label_width) for each in wide]
    return dict(zip((PPI, STRATIFIED, ALONE), np.array(widths, dtype=float).mean(axis=0).tolist(), strict=True))


@dataclass(frozen=True)
class _CrossScores:
    """Scores of all units by evaluators that were fitted on other groups, and the ratings of some of these units.

    Attributes:
        rated: The n ratings.
        group_of: Group of each unit.
        system_of: System of each unit.
        score: Sum of the scores of each unit so far, weighted by the share of each fold.
        level: Mean score of the system's units (`reference`) by the evaluator that scored each labeled one.
        fair: (n,) ratings without the effects of their annotators.
    """

    rated: Ratings
    group_of: Mapping[Target, str]
    system_of: Mapping[Target, str]
    score: dict[Target, float]
    level: dict[Target, float]
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

    @cached_property
    def reference(self) -> Mapping[str, Sequence[Target]]:
        """Units whose mean score is an evaluator's level, by system: units of groups without a label, else all."""
        units: dict[str, list[Target]] = {}
        for target, name in self.system_of.items():
            units.setdefault(name, []).append(target)
        return {name: [each for each in every if each in self.far] or every for name, every in units.items()}

    def add_fold(self, evaluator: Any, evidence: EvidenceTable, test: Collection[str], share: float) -> None:
        """Score the units of the groups `test`, and add `share` of the scores of units that belong to no fold."""
        near = {target for target, group in self.group_of.items() if group in test}
        needed = near.union(self.far, *self.reference.values())
        places = [place for place, target in enumerate(evidence.targets) if target in needed]
        found = _by_panel(evaluator, evidence.take(places))
        for targets, weight in ((self.far, share), (near, 1.0)):
            for target in targets:
                self.score[target] += weight * found[target]
        levels = {name: float(np.mean([found[each] for each in units])) for name, units in self.reference.items()}
        self.level.update((target, levels[self.system_of[target]]) for target in near)

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
        predicted = self._predicted(own, [self.score[target] for target in members if target in self.far])
        groups, scores = zip(*rest, *more, strict=True) if rest or more else ((), ())
        plain, fair = (
            [float(values[self.rows_of[target]].mean()) for target in own] for values in (self.rated.value, self.fair)
        )
        said = plain if len(set(plain)) == 1 else fair  # equal labels stay equal
        return LabeledSystem(
            name, np.array(said), np.array(predicted), np.array(scores),
            [self.group_of[target] for target in own], groups, unit,
        )  # fmt: skip

    def _predicted(self, own: Sequence[Target], far: Sequence[float]) -> list[float]:
        """Return the scores of labeled units around the level of `far` units instead of the levels of their folds."""
        level = float(np.mean(far or [self.level[target] for target in own])) if own else 0.0
        return [self.score[target] - self.level[target] + level for target in own]


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
