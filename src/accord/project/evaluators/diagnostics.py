"""Diagnostics of an evaluator for the report: errors by group, importance, learning curves, data warnings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from accord.edges import AccordError, BadInput, UnknownName
from accord.evidence import EvidenceTable, Ratings
from accord.learning import Evaluator, Experiment, Importance, importance, make_head, untested_groups
from accord.project.evaluators.fit_cache import FitCache, cache_key, single_threaded
from accord.project.results import Compared, Fitted
from accord.statistics import DETAIL_DRAWS, IMPORTANCE_DRAWS, Clusters, Diagram, diagrams, grouped_folds
from accord.validation import (
    AdaptivePoint,
    Comparison,
    CurvePoint,
    GroupAccuracy,
    adaptive_curve,
    annotator_quality,
    by_group,
    learning_curve,
)
from accord.values import WITHOUT_SYNTHETIC, Conversation, Estimate, Rubric, Sample

if TYPE_CHECKING:
    from accord.project.workspace import Workspace

SYSTEM = "system"
"""Field of the assistant version."""
AUTOMATIC = (SYSTEM, "annotator", "judge-version", "wording")
"""Attributes that are always checked if they have more than one value."""
T = TypeVar("T")
_CURVE_RATINGS = 150
"""Largest number of ratings in the adaptive curve of a report."""


@dataclass(frozen=True)
class Insights:
    """Content of a report beyond the table of agreement.

    Attributes:
        cautions: Warnings about labels, answers and evidence.
        diagrams: Reliability diagram of each option of the main question.
        groups: Agreement by group, for several attributes.
        importance: Importance of each question for the main one.
        curve: Agreement by share of the labels.
        adaptive: Agreement by number of questions; empty without a judge.

    >>> from accord.testing import sample_project
    >>> with sample_project() as project:
    ...     insights = project.insights(project.fit("constant"))
    >>> len(insights.diagrams), len(insights.adaptive)
    (4, 0)
    """

    cautions: Sequence[str]
    diagrams: Sequence[Diagram]
    groups: Sequence[GroupAccuracy]
    importance: Sequence[Importance]
    curve: Sequence[CurvePoint]
    adaptive: Sequence[AdaptivePoint]


def insights(project: Workspace, fitted: Fitted, curve_draws: int | None = None) -> Insights:
    """Compute diagnostics of an evaluator; results of the same inputs are cached. Parts without data are left out.

    `curve_draws` is the number of random subsets of the learning curve, by default the number in the settings.

    Raises:
        BadInput: The question has no ratings.
    """
    if fitted.held_out is None:
        raise BadInput(f"no ratings on {project.question.id!r}; diagnostics need ratings")
    tried, evaluator, rubric = fitted.held_out, fitted.evaluator, project.rubric
    subsets = project.config.curve_draws if curve_draws is None else curve_draws
    comparison, evidence, train = tried.comparison, tried.evidence, tried.train
    rated, system, draws = comparison.ratings, comparison.systems[0], comparison.draws
    scored = np.flatnonzero(system.scored)
    clusters = Clusters(rated.group[scored])
    own = replace(
        evaluator, head=make_head(evaluator.head_name, comparison.question, evaluator.head.chosen()), choose={}
    )
    cache = FitCache(project.store)
    experiment = experiment_of(tried, cache)
    is_cross_validated = comparison.folds > 1
    with single_threaded(len(rated)):
        return Insights(
            cautions=[*comparison.remarks, *cautions(comparison, evidence)],
            diagrams=diagrams(system.paired(rated).take(scored), clusters, draws) if len(clusters) > 1 else [],
            groups=[group for by in AUTOMATIC for group in groups_of(comparison, train.samples, evidence, by)],
            importance=_if_possible(lambda: _importance(cache, experiment, rubric, draws)),
            curve=learning_curve(
                experiment, lambda _: own.learner, system, draws=draws, key=cache_key(own), subsets=subsets
            )
            if is_cross_validated
            else [],
            adaptive=_if_possible(lambda: _adaptive(own, experiment)) if is_cross_validated else [],
        )


def experiment_of(tried: Compared, cache: FitCache | None = None) -> Experiment:
    """Return the experiment of a comparison; without folds if one side was held out."""
    comparison, labels = tried.comparison, tried.train.labels
    rated, question = comparison.ratings, comparison.question
    always = untested_groups(tried.evidence, labels, question, comparison.seen)
    splits = (
        tuple(grouped_folds(list(rated.group), comparison.folds, comparison.seed, always))
        if comparison.folds > 1
        else ()
    )
    return Experiment(
        question, tried.evidence, labels, rated, splits, comparison.folds, comparison.seed, comparison.seen, cache
    )


def _importance(cache: FitCache, experiment: Experiment, rubric: Rubric, draws: int) -> list[Importance]:
    """Return each question's importance for the main one."""
    few = min(IMPORTANCE_DRAWS, draws)

    def work() -> list[dict[str, Any]]:
        conversations = importance(experiment.evidence, experiment.labels, rubric.main_question, rubric.questions, few)
        return [asdict(one) for one in conversations]

    key = ["importance", few, [question.model_dump(mode="json") for question in rubric.questions]]
    rows = cache.rows(experiment, key, work)
    return [Importance(**{**row, "estimate": Estimate(**row["estimate"])}) for row in rows]


def _if_possible(work: Callable[[], list[T]]) -> list[T]:
    """Return the result of the work, or an empty list if the data do not support it."""
    try:
        return work()
    except AccordError:
        return []


def groups_of(
    comparison: Comparison, samples: Sequence[Sample], evidence: EvidenceTable, by: str
) -> list[GroupAccuracy]:
    """Return the agreement of the first system by group.

    Args:
        comparison: Comparison with predictions of every rating.
        samples: Rated samples.
        evidence: Evidence of the samples.
        by: `system`, `annotator`, `judge-version`, `wording`, or the name of a metadata entry of conversations.

    Raises:
        UnknownName: No rated conversation has the metadata entry.
    """
    rated = comparison.ratings
    named = _groups(rated, samples, evidence, by)
    repeats, draws = comparison.repeats(comparison.systems[0].name), min(DETAIL_DRAWS, comparison.draws)
    return by_group(repeats, rated, named, by, draws, comparison.seed)


def _groups(rated: Ratings, samples: Sequence[Sample], evidence: EvidenceTable, by: str) -> list[str | None]:
    if by == "annotator":
        return [str(name) for name in rated.annotator]
    if by == "wording":
        return [label.wording for label in rated.labels]
    if by == "judge-version":
        return [evidence.versions.get(target) or None for target in rated.target]
    conversations = {sample.conversation.id: sample.conversation for sample in samples}
    if by == SYSTEM:
        return [conversations[name].shown_system if name in conversations else None for name in rated.conversation]
    return _metadata(conversations, rated.conversation, by)


def _metadata(conversations: Mapping[str, Conversation], names: Iterable[str], by: str) -> list[str | None]:
    """Return the metadata entry `by` of each conversation; None where there is none.

    Raises:
        UnknownName: No conversation has such an entry.
    """
    entries = {name for conversation in conversations.values() for name in conversation.metadata}
    if by not in entries and not (by == "version" and any(each.version for each in conversations.values())):
        raise UnknownName("group", by, {*AUTOMATIC, *entries})
    values = [conversations[name].group(by) if name in conversations else None for name in names]
    return [None if value is None else str(value) for value in values]


def cautions(comparison: Comparison, evidence: EvidenceTable) -> list[str]:
    """Return warnings about labels, answers, judges and annotators."""
    rated, sentences = comparison.ratings, []
    people = Counter(map(str, rated.annotator))
    if len(people) == 1:
        sentences.append(f"all labels are by {next(iter(people))}; predictions reflect a single annotator")
    if np.ptp(rated.value) == 0:
        sentences.append(
            f"every label of {comparison.question.id!r} is {rated.value[0]:g}, so there is nothing to learn"
        )
    versions = Counter(evidence.versions.get(target, "") for target in set(rated.target))
    versions.pop("", None)
    if len(versions) > 1:
        counted = ", ".join(f"{count} by {name}" for name, count in versions.most_common())
        sentences.append(f"rated targets were judged by several versions of the judge: {counted}; compare the groups")
    wordings = Counter(label.wording for label in rated.labels if label.wording)
    present_key = comparison.question.key
    old_labels = sum(count for wording, count in wordings.items() if wording.partition(" ")[0] != present_key)
    if old_labels:
        sentences.append(
            f"{old_labels} of {len(rated)} labels answer an earlier wording of {comparison.question.id!r}; they are "
            "used. Compare the groups by wording, and leave them out if they differ"
        )
    return [*sentences, *map(str, annotator_quality(rated, comparison.systems[0].new_value))]


def _adaptive(evaluator: Evaluator, experiment: Experiment) -> list[AdaptivePoint]:
    """Return agreement by number of questions, for a head that can predict from some of a judge's answers."""
    if not any(column.option is not None for column in experiment.evidence.columns):
        return []
    rated = experiment.ratings
    if len(rated) > _CURVE_RATINGS:
        experiment = replace(experiment, splits=experiment.splits[:1])
    tested = {group for split in experiment.splits for group in split.test}
    rows = np.flatnonzero([group in tested for group in rated.group])
    head = partial(make_head, evaluator.head_name, settings=evaluator.head.chosen())
    return adaptive_curve(replace(experiment, ratings=rated.take(rows)), head)


def synthetic_note(project: Workspace) -> str:
    """Return a sentence on the store's synthetic conversations; empty without any."""
    count = project.store.count_conversations("only")
    if not count:
        return ""
    if project.config.synthetic == WITHOUT_SYNTHETIC:
        return f"{count} synthetic conversations left out; --synthetic with counts them"
    if project.config.synthetic == "only":
        return f"{count} synthetic conversations alone"
    return f"{count} synthetic conversations counted with real ones"
