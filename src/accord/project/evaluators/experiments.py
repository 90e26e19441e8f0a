"""Parts that `fit` and `compare` share: repetitions, state of the judge, pairs, leak of folds of single samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from accord.decisions import Evidence
from accord.edges import AccordError
from accord.evidence import EvidenceTable, Training, in_pairs, ratings
from accord.learning import Evaluator, Experiment, Predictions, learns, untested_groups
from accord.models import JUDGE
from accord.project.evaluators.fit_cache import cache_key
from accord.statistics import grouped_folds
from accord.validation import Comparison, Leak

if TYPE_CHECKING:
    from accord.project.workspace import Workspace

MOST_REPEATED = 2500
"""Largest number of ratings that are predicted in all repetitions together."""


def repeats_of(most: int, ratings: int) -> int:
    """Return the number of repetitions of the cross-validation: fewer with many ratings, which vary less and cost more.

    >>> [repeats_of(5, count) for count in (180, 1000, 20_000)]
    [5, 2, 1]
    """
    return max(1, min(most, MOST_REPEATED // max(ratings, 1)))


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
    evaluator: Evaluator,
    experiment: Experiment,
    comparison: Comparison,
    predict: Callable[[Experiment], Predictions] | None = None,
) -> Leak | None:
    """Return the agreement that folds of single samples would show for a system; None if groups join no samples.

    Evaluators with sources that learn, and questions about pairs, are not tested.

    Args:
        evaluator: Evaluator to test.
        experiment: Its experiment with folds of groups.
        comparison: Table with the honest results.
        predict: Computes the predictions on folds of single samples; None uses the cache only.
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
    key = cache_key(evaluator)
    try:
        splits = tuple(grouped_folds(list(tested.group), experiment.folds, experiment.seed, always))
        single = replace(experiment, labels=labels, ratings=tested, splits=splits)
        leaking: Predictions | None
        if predict is not None:
            leaking = single.cached(evaluator.name, key, partial(predict, single))
        else:
            leaking = None if key is None or single.cache is None else single.cache.get(single, key)
    except AccordError:
        return None
    if leaking is None or not leaking.scored.any():
        return None
    return Leak.of(leaking, comparison[evaluator.name], tested, groups=len(set(rated.group)))
