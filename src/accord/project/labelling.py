"""What a project's labels can still be asked for: which are worth most next, and how good each system is."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from accord.learning import Fitting, suggest_labels
from accord.project.results import Estimates, NextLabel
from accord.statistics import groups_of
from accord.validation import gaps, system_means
from accord.values import BadInput, Labels

if TYPE_CHECKING:
    from accord.project.project import Project


def label_next(project: Project, count: int, annotators: Collection[str] = ()) -> list[NextLabel]:
    """The labels on the main question that would teach most, the best first; asks no model.

    Raises:
        BadInput: Too few labels to say, nothing left to label, or a main question that compares.
        UnknownName: An annotator who has not labelled yet.
    """
    _check_rates(project)
    samples = list(project.every_sample(project.level()))
    evidence = project.measure(project.evaluator().sources, samples)
    found = suggest_labels(evidence, project.store.labels(), project.question, count, annotators)
    return [
        NextLabel(each.target.conversation, each.target.turn, project.question.id, each.annotator, each.gain)
        for each in found
    ]


def _check_rates(project: Project) -> None:
    """Refuse a main question that compares.

    Raises:
        BadInput: It does.
    """
    if project.question.compares:
        raise BadInput(f"{project.question.id!r} compares two conversations; this needs a main question that rates one")


def estimate(project: Project) -> Estimates:
    """Each system's mean rating from its labels and the scores of all its conversations, and every difference.

    Conversations that the rubric was learned on are left out.

    Raises:
        BadInput: Labels are about turns or comparisons, or a system has too few labelled conversations.
    """
    _check_rates(project)
    question, config = project.question, project.config
    seen = frozenset(project.rubric.learned_on)  # what a rubric was learned on is no random part of what it scores
    labels = Labels(label for label in project.store.labels() if label.target.conversation not in seen)
    if any(label.target.turn is not None for label in labels.on(question.id)):
        raise BadInput("labels are about turns; a system's mean is taken over whole conversations")
    samples = [sample for sample in project.every_sample() if sample.conversation.id not in seen]
    evaluator = project.evaluator()
    evidence = project.measure(evaluator.sources, samples)
    labels = labels.grouped(groups_of(project.samples(labels.on(question.id).targets), config.group_by).of)
    systems = {sample.conversation.id: sample.conversation.system or "not said" for sample in samples}
    found = system_means(evidence, labels, question, lambda _: Fitting(evaluator), systems, config.folds, config.seed)
    return Estimates(question.id, found, gaps(found))
