"""`label next` and `estimate`: labels worth collecting, and each chat system's mean rating."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from accord.decisions import LEFT, left_for_people
from accord.edges import BadInput
from accord.learning import (
    FEWEST_LABELS,
    Level,
    judge_level,
    level_of,
    spread_targets,
    stratified_targets,
    suggest_labels,
)
from accord.project.label_scales import check_scales, is_other_scale, note_wordings
from accord.project.results import Estimates, NextLabel
from accord.project.score_files import scores_in_files
from accord.scoring import RowOrigin, latest_scores
from accord.statistics import estimate_systems, groups_of, label_plans, mean_differences
from accord.validation import NOT_SAID, estimation
from accord.values import POPULATION, Labels, Question, Sample, Score, Target

if TYPE_CHECKING:
    from accord.project.workspace import Workspace


Purpose = Literal["evaluator", "agreement"]
ANYONE = "anyone"
"""Annotator of a suggestion that does not depend on the annotator."""


def label_next(
    project: Workspace, count: int, annotators: Collection[str] = (), purpose: Purpose = "evaluator"
) -> list[NextLabel]:
    """Return the labels on the main question that are most informative, best first; asks no model.

    With the purpose `agreement`, texts are a random sample stratified by their scores (`stratified_targets`), whose
    labels give the narrowest valid estimate of agreement; else those that improve the evaluator most.

    Conversations that the latest selective scores left for a person come first. With fewer than eight labels, texts are
    spread over the judge's answers.

    Raises:
        BadInput: Too few labels, nothing left to label, or a main question that compares.
        UnknownName: An annotator has no labels yet.
    """
    _check_rates(project)
    check_scales(project.store, [project.question])
    samples = list(project.all_samples(project.level()))
    if purpose == "agreement":
        return _for_agreement(project, samples, count, annotators)
    evidence = project.measure(project.evaluator().sources, samples)
    labels, question = project.store.labels(), project.question
    scores = latest_scores(project.store, project.mart, project.config.synthetic)
    left = left_for_people(project.store, scores, question.id)
    rated = labels.on(question.id)
    if len(rated) < FEWEST_LABELS:
        targets = spread_targets(evidence, rated.targets, count)
        if not targets:
            raise BadInput("no conversation is left to label; import more: accord import chats.jsonl")
        why = "spread over the judge's answers"
        asked = annotators or (ANYONE,)
        rows = [NextLabel(t.conversation, t.turn, question.id, name, None, why) for t in targets for name in asked]
        return rows[:count]
    first = suggest_labels(evidence, labels, question, count, annotators, only=left) if left else []
    known = {each.target for each in first}
    rest = suggest_labels(evidence, labels, question, count, annotators) if len(first) < count else []
    others = [each for each in rest if each.target not in known][: count - len(first)]
    return [
        NextLabel(each.target.conversation, each.target.turn, question.id, each.annotator, each.gain, reason)
        for found, reason in ((first, LEFT), (others, None))
        for each in found
    ]


def _for_agreement(
    project: Workspace, samples: Sequence[Sample], count: int, annotators: Collection[str]
) -> list[NextLabel]:
    """Return a sample of unlabeled texts, stratified by the scores of the evaluator in use or of the judge.

    Raises:
        BadInput: Nothing is left to label.
    """
    question, seed = project.question, project.config.seed
    found = stratified_targets(*_scored(project, samples), project.rated(question.id).targets, count, seed)
    if not found:
        raise BadInput("no conversation is left to label; import more: accord import chats.jsonl")
    why = f"one of {len(found)} strata of equal size, by score"
    return [
        NextLabel(target.conversation, target.turn, question.id, name, None, why)
        for target in found
        for name in annotators or (ANYONE,)
    ]


def _scored(project: Workspace, samples: Sequence[Sample]) -> tuple[Sequence[Target], NDArray[np.float64]]:
    """Return the n targets and (n,) scores of the evaluator in use; without one, the judge's mean answers."""
    try:
        evaluator = project.load()
    except BadInput:  # no evaluator is fitted
        evaluator = None
    if evaluator is None or evaluator.question.id != project.question.id:
        table = project.measure(project.evaluator().sources, samples)
        return table.targets, judge_level(table)
    table = project.measure(evaluator.sources, samples)
    scores = evaluator.head.predict_each(table, [None] * len(table))
    values = [each.value if isinstance(each, Score) else np.nan for each in scores]
    return table.targets, np.array(values, dtype=float)


def _check_rates(project: Workspace) -> None:
    """Reject a main question that compares."""
    if project.question.compares:
        raise BadInput(f"{project.question.id!r} compares two conversations; this needs a main question that rates one")


DIFFERENCE = 0.2
"""Difference of two versions to plan labels for, in units of the scale."""


def estimate(project: Workspace, files: Sequence[str] = (), difference: float = DIFFERENCE) -> Estimates:
    """Return each system's mean rating from its labels and all its scores, and the differences between systems.

    The scores are predictions of the evaluator in use for every conversation, or every turn if turns are labeled, from
    evidence in the store; none is predicted with labels of its own conversation. Scores of other conversations that it
    made since (`accord score`) count too, for systems with labels. Conversations that the rubric was
    learned on are left out. Systems are compared on what they share: the same first message, or the attributes in
    `group_by`.

    Args:
        project: Workspace with labels.
        files: Files of scores by the evaluator in use, also of another machine; `PATH=VERSION` names the assistant
            version of a file whose rows do not name it.
        difference: Difference of two versions to plan labels for, in units of the scale.

    Raises:
        BadInput: Labels are about turns and whole conversations, or about comparisons; there are none, or a system has
            too few; a file has other scores; the difference is not above 0.
    """
    if not 0 < difference < float("inf"):
        raise BadInput(f"--difference {difference:g}: allowed are numbers above 0, in units of the scale")
    _check_rates(project)
    check_scales(project.store, [project.question])
    note_wordings(project.store, project.question)
    question, config, evaluator = project.question, project.config, project.evaluator()
    seen = frozenset(project.rubric.learned_on)  # they are not a random sample of the scored conversations
    labels = Labels(label for label in project.store.labels() if label.target.conversation not in seen)
    rated = labels.on(question.id).targets
    level = _rated_level(evaluator.level, rated, question)
    samples = [sample for sample in project.all_samples(level) if sample.conversation.id not in seen]
    evidence = project.measure(evaluator.sources, samples)
    targets = frozenset(sample.target for sample in samples)
    labels = Labels(filter(lambda label: label.target in targets, labels))  # of one level
    topics = [name for name in config.group_by if name != "system"]
    labels = labels.grouped(groups_of(samples, topics, by_input=True).of)
    systems = {sample.conversation.id: sample.conversation.shown_system or NOT_SAID for sample in samples}
    scored = _scored_elsewhere(project, files, level, systems)
    given = estimation.labeled_systems(
        evidence, labels, question, lambda _: evaluator.learner, systems, config.folds, config.seed, scored
    )
    found = estimate_systems(given, config.seed)
    plans = [label_plans.difference_plan(*pair, difference) for pair in combinations(found, 2)]
    known = set(systems.values())
    from_files = sum(len(each) for name, each in scored.items() if name in known)
    return Estimates(
        question.id, found, mean_differences(found), level, project.evaluator_in_use, from_files,
        estimation.method_widths(found, given), [plan for plan in plans if plan is not None],
    )  # fmt: skip


def _rated_level(known: Level | None, rated: Collection[Target], question: Question) -> Level:
    """Return the level of an evaluator or of ratings, or raise BadInput if nothing of that level has a label."""
    level = known or level_of(rated, question) or "conversation"
    if not any((target.turn is None) == (level == "conversation") for target in rated):
        raise BadInput(f"no {level} has a label on {question.id!r}; choose some to label: accord label next")
    return level


def _scored_elsewhere(
    project: Workspace, files: Sequence[str], level: Level, systems: Mapping[str, str]
) -> dict[str, list[tuple[str, float]]]:
    """Return scores of conversations that are not in the store, by system: those of earlier runs and those of files."""
    scored = _scored_in_files(project, level)
    if files:
        present = {*systems, *(conversation for each in scored.values() for conversation, _ in each)}
        for name, each in scores_in_files(files, project.question, level, present, _signature(project)).items():
            scored.setdefault(name, []).extend(each)
    return scored


def _signature(project: Workspace) -> str | None:
    """Return the signature of scores by the evaluator in use; None without a fitted one."""
    try:
        return str(project.load().head.signature())
    except BadInput:
        return None


def _scored_in_files(project: Workspace, level: Level) -> dict[str, list[tuple[str, float]]]:
    """Return the scores by the evaluator in use of conversations outside the store: conversation and score by system.

    They are predictions for a new annotator, made without labels of their conversations.
    """
    import polars as pl

    try:
        evaluator = project.load()
    except BadInput:
        return {}
    question = project.question
    if evaluator.question.id != question.id or is_other_scale(project.rubric, evaluator.question):
        return {}
    origin = RowOrigin.of(evaluator.name, evaluator.digest(), question.id)
    synthetic = pl.col("synthetic").fill_null(False)
    wanted = (
        (pl.col("question") == question.id)
        & (pl.col("evaluator") == origin.evaluator)
        & (pl.col("annotator") == POPULATION)
        & pl.col("value").is_not_null()
        & (pl.col("turn").is_null() == (level == "conversation"))
        & ~pl.col("in_training").fill_null(False)
        & {"without": ~synthetic, "only": synthetic, "with": pl.lit(True)}[project.config.synthetic]
    )
    rows, _ = project.mart.read(
        lambda rows: (
            rows.filter(wanted).select("conversation", "system", "value", synthetic).sort("conversation").collect()
        )
    )
    stored = {each.id for each in project.store.conversations(rows["conversation"].unique().to_list())}
    found: dict[str, list[tuple[str, float]]] = {}
    for conversation, system, value, is_synthetic in rows.iter_rows():
        name = f"{system or 'unknown'} (synthetic)" if is_synthetic else system or NOT_SAID
        if conversation not in stored:
            found.setdefault(name, []).append((conversation, value))
    return found
