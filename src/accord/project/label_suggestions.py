"""`label next`: labels worth collecting."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from accord.decisions import LEFT, left_for_people
from accord.edges import BadInput
from accord.learning import FEWEST_LABELS, judge_level, spread_targets, stratified_targets, suggest_labels
from accord.project.label_scales import check_scales
from accord.project.rated_units import check_rates, units
from accord.project.results import NextLabel
from accord.project.scored_batches import changed_batches
from accord.scoring import latest_scores
from accord.values import Sample, Score, Target

if TYPE_CHECKING:
    from accord.project.workspace import Workspace


Purpose = Literal["evaluator", "agreement", "change"]
ANYONE = "anyone"
"""Annotator of a suggestion that does not depend on the annotator."""


def label_next(
    project: Workspace, count: int, annotators: Collection[str] = (), purpose: Purpose = "evaluator"
) -> list[NextLabel]:
    """Return the labels on the main question that are most informative, best first; asks no model.

    With the purpose `agreement`, texts are a random sample stratified by their scores (`stratified_targets`), whose
    labels give the narrowest valid estimate of agreement. With `change`, texts are such samples of the latest batch of
    scores, which changed, and of the batches before it. Else they are those that improve the evaluator most.

    Conversations that the latest selective scores left for a person come first. With fewer than eight labels, texts are
    spread over the judge's answers.

    Raises:
        BadInput: Too few labels, nothing left to label, or a main question that compares.
        UnknownName: An annotator has no labels yet.
    """
    check_rates(project)
    check_scales(project.store, [project.question])
    samples = units(project, project.level()).samples
    if purpose == "change":
        return _for_change(project, samples, count, annotators)
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


def _for_change(
    project: Workspace, samples: Sequence[Sample], count: int, annotators: Collection[str]
) -> list[NextLabel]:
    """Return texts of a batch that changed and of its reference, stratified by score, as many labels of each.

    Raises:
        BadInput: No batch changed, or its conversations are not in the project.
    """
    found, batches = changed_batches(project)
    rated = project.rated(project.question.id).targets
    sides: list[tuple[list[Target], NDArray[np.float64], int]] = []
    of_conversation = {sample.conversation.id: sample.target for sample in samples}
    shared = set.intersection(*(
        {str(version) for each in batches if each.key in keys for version in each.version}
        for keys in (found.keys, found.reference_keys)
    ))  # fmt: skip
    for keys in (found.keys, found.reference_keys):
        known = {
            of_conversation[name]: value
            for each in batches if each.key in keys
            for name, version, value, is_in in zip(each.conversation, each.version, each.value.tolist(),
                                                   found.is_about(each).tolist(), strict=True)
            if is_in and name in of_conversation and (version in shared or found.new_version)
        }  # fmt: skip
        if not known:
            raise BadInput(
                f"no conversation of {'the earlier batches' if sides else found.batch} is in the project; import the "
                "files that were scored: accord import NEW.jsonl"
            )
        sides.append((list(known), np.array(list(known.values())), len(rated & known.keys())))
    halves = _shares(count, *(done for _, _, done in sides))
    named = (found.batch, "the earlier batches")
    return [
        NextLabel(target.conversation, target.turn, project.question.id, name, None, f"random, of {batch}")
        for (targets, scores, _), batch, wanted in zip(sides, named, halves, strict=True) if wanted
        for target in stratified_targets(targets, scores, rated, wanted, project.config.seed)
        for name in annotators or (ANYONE,)
    ]  # fmt: skip


def _shares(count: int, first: int, second: int) -> tuple[int, int]:
    """Return how many labels each of two sides gets, so that both end with as many as possible alike.

    >>> _shares(10, 0, 0), _shares(10, 0, 30), _shares(10, 4, 0)
    ((5, 5), (10, 0), (3, 7))
    """
    own = min(max((count + second - first + 1) // 2, 0), count)
    return own, count - own


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
