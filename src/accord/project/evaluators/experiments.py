"""Parts that `fit` and `compare` share: planned folds, repetitions, state of the judge, leak of single samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from accord.decisions import Evidence, is_settled
from accord.edges import AccordError
from accord.evidence import EvidenceTable, Training, in_pairs, ratings
from accord.learning import (
    Evaluator,
    Experiment,
    FoldPlan,
    Planned,
    Pool,
    Predictions,
    judge_panel,
    learns,
    untested_groups,
)
from accord.models import JUDGE
from accord.project.evaluators.fit_cache import FitCache, cache_key
from accord.project.results import speakers_of
from accord.statistics import grouped_folds
from accord.validation import BEST_COLUMN, CONSTANT, JUDGE_ALONE, Comparison, Leak, MetricsTable, Repeats
from accord.values import Question, Sample

if TYPE_CHECKING:
    from accord.project.workspace import Workspace

MOST_REPEATED = 2500
"""Largest number of ratings that are predicted in all repetitions together."""
_RIVALS = (CONSTANT, BEST_COLUMN, JUDGE_ALONE)
"""Baselines that the verdict compares an evaluator with."""


def repeats_of(most: int, ratings: int) -> int:
    """Return the number of repetitions of the cross-validation: fewer with many ratings, which vary less and cost more.

    >>> [repeats_of(5, count) for count in (180, 1000, 20_000)]
    [5, 2, 1]
    """
    return max(1, min(most, MOST_REPEATED // max(ratings, 1)))


def folds_and_table(
    project: Workspace, evidence: EvidenceTable, train: Training, question: Question, samples: Sequence[Sample]
) -> tuple[Experiment, MetricsTable]:
    """Return the folds of an evaluator's ratings, and the table for figures on them; `samples` name who speaks."""
    config, cache = project.config, FitCache(project.store)
    experiment = Experiment.of(
        evidence, train.labels, question, config.folds, config.seed, project.rubric.learned_on, cache
    )
    speakers = speakers_of(experiment.ratings, samples)
    return experiment, MetricsTable(experiment.ratings, experiment.folds, experiment.seed, config.draws, speakers)


def planned(evaluator: Evaluator, experiment: Experiment) -> Planned:
    """Return an evaluator whose sources do not learn, to be predicted on the folds of an experiment."""
    learner = evaluator.learner
    return Planned(evaluator.name, lambda question: learner, experiment, cache_key(evaluator))


class Repeated(NamedTuple):
    """Further repetitions of the cross-validation.

    Attributes:
        every: Predictions in the further repetitions that were run, by name of the system.
        counts: Number of repetitions that settle each evaluator, by name.
    """

    every: Mapping[str, Repeats] = MappingProxyType({})
    counts: Mapping[str, int] = MappingProxyType({})

    def shown(self, first: str) -> dict[str, Repeats]:
        """Return the repetitions that figures are averaged over; baselines have as many as the first evaluator."""
        most = self.counts.get(first, 1)
        return {name: each[: self.counts.get(name, most) - 1] for name, each in self.every.items()}


def further_repetitions(
    tested: Sequence[Planned],
    others: Sequence[Planned],
    first: Mapping[str, Predictions],
    most: int,
    table: MetricsTable,
    pool: Pool | None = None,
    on_repetition: Callable[[int, int], None] = lambda number, count: None,
) -> Repeated:
    """Repeat the cross-validation with other folds until the verdict of each evaluator is settled (`is_settled`).

    Several evaluators are compared in all repetitions. The figures of each are averaged over as many repetitions as if
    it were tested alone, so that `fit` and `compare` report the same ones.

    Args:
        tested: Evaluators.
        others: Baselines that they are compared with.
        first: Predictions of evaluators and baselines in the first repetition, by name.
        most: Setting `repeats`.
        table: Ratings, folds and draws.
        pool: Processes for the folds.
        on_repetition: Called with the number of each further repetition and the largest number.
    """
    experiments = tested[0].experiment.repeats(repeats_of(most, len(table.rated)))
    systems = [*tested, *(each for each in others if each.name in (*_RIVALS, judge_panel.BEST_JUDGE))]
    found = {each.name: [first[each.name]] for each in systems}
    counts: dict[str, int] = {}
    for number, again in enumerate(experiments[1:], 2):
        if len(tested) == 1 and counts:
            break
        on_repetition(number, len(experiments))
        plan = FoldPlan([
            each._replace(experiment=replace(each.experiment, seed=again.seed, splits=again.splits)) for each in systems
        ])  # fmt: skip
        for predictions in plan.run(pool):
            found[predictions.name].append(predictions)
        for each in tested:
            if each.name not in counts:
                names = [each.name, *(name for name in found if name in _RIVALS)]
                rivals = {name: found[name] for name in names}
                if is_settled(rivals, each.name, table, each.experiment.evidence):
                    counts[each.name] = number
    every = {name: each[1:] for name, each in found.items()}
    return Repeated(every, {each.name: counts.get(each.name, len(experiments)) for each in tested})


def judge_state(project: Workspace, evidence: EvidenceTable) -> Evidence:
    """Return the state of the judge: none is configured, some answers are missing, or all were asked."""
    if not project.models.has(JUDGE):
        return "none"
    judged = [place for place, column in enumerate(evidence.columns) if column.question is not None]
    return "asked" if judged and evidence.present[:, judged].all() else "unasked"


def in_question(known: EvidenceTable, train: Training) -> tuple[EvidenceTable, Training]:
    """Return evidence and labels of single samples, or the differences of pairs for a question that compares."""
    if not train.question.compares:
        return known, train
    pairs, labels = in_pairs(known, train.labels, train.question)
    return pairs, replace(train, labels=labels)


def synthetic_in(train: Training) -> int:
    """Return the number of synthetic conversations among the training data."""
    return len({sample.conversation.id for sample in train.samples if sample.conversation.is_synthetic})


def leak_of(
    evaluator: Evaluator, experiment: Experiment, comparison: Comparison, pool: Pool | None = None
) -> Leak | None:
    """Return the agreement that folds of single samples would show for a system, or `None` if groups join no samples.

    Evaluators with sources that learn, and questions about pairs, are not tested.

    Args:
        evaluator: Evaluator to test.
        experiment: Its experiment with folds of groups.
        comparison: Table with the honest results.
        pool: Processes for the folds of single samples; None takes their predictions from the cache only.
    """
    rated, question = experiment.ratings, experiment.question
    if len(set(rated.group)) == len(set(rated.target)) or any(map(learns, evaluator.sources)) or experiment.folds < 2:
        return None
    if question.compares:
        return None
    names = {target: f"{target.conversation}#{target.turn}" for target in experiment.evidence.targets}
    untested = untested_groups(experiment.evidence, experiment.labels, question, experiment.always_train)
    always = {name for target, name in names.items() if experiment.labels.group_of(target) in untested}
    labels = experiment.labels.grouped(names)
    rows = ratings(experiment.evidence, labels, question)
    tested = rows.take(np.flatnonzero([name not in always for name in rows.group]))
    try:
        splits = tuple(grouped_folds(list(tested.group), experiment.folds, experiment.seed, always))
    except AccordError:
        return None
    plan = FoldPlan([planned(evaluator, replace(experiment, labels=labels, ratings=tested, splits=splits))])
    leaking = plan.known.get(0) if pool is None else plan.run(pool)[0]
    if leaking is None or not leaking.scored.any():
        return None
    return Leak.of(leaking, comparison[evaluator.name], tested, groups=len(set(rated.group)))
