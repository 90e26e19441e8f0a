"""Test of a saved evaluator on labeled conversations that it has never seen, without adding them to the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from accord.edges import BadInput, count_of
from accord.evidence import EvidenceTable, Training
from accord.learning import Evaluator
from accord.project.evaluators.experiments import judge_state
from accord.project.importing.importing import import_files
from accord.project.results import Compared, speakers_of
from accord.project.workspace import Workspace
from accord.statistics import Split
from accord.validation import compare_held_out
from accord.values import Labels, Sample


class FittedHead:
    """A fitted evaluator in place of an unfitted one."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.predict_each = evaluator.head.predict_each

    def fit(self, evidence: EvidenceTable, labels: Labels) -> FittedHead:
        """Return itself."""
        return self


def tested_on(project: Workspace, evaluator: Evaluator, sources: Sequence[Any]) -> Compared:
    """Compare a fitted evaluator with the baselines on held-out conversations and their ratings.

    The baselines learn from the ratings in the store. Models are asked as by `accord score`.

    Args:
        project: Workspace with the ratings that the evaluator learned from.
        evaluator: The fitted evaluator.
        sources: Files of conversations and ratings, or tables.

    Raises:
        BadInput: The files cannot be read, hold no ratings of the question, or the evaluator learned from one of
            their conversations.
    """
    question = evaluator.question
    settings = project.config.model_copy(update={"store": "sqlite:///:memory:"})
    with Workspace(settings, rubric=project.rubric, question=question.id) as fresh:
        import_files(fresh.store, fresh.rubric, list(sources))
        rated = fresh.rated(question.id)
        samples = fresh.samples(rated.targets)
    if not rated:
        raise BadInput(
            f"the held-out files have no ratings of {question.shown!r}; give a file of conversations and one of labels"
        )
    train, _ = project.training(evaluator)
    _check_unseen(evaluator, samples, train)
    known = project.measure(evaluator.sources, train.samples)
    measured = project.measure(evaluator.sources, samples, project.models)
    groups = {label.target: label.target.conversation for label in rated}
    joined = Labels([*train.labels, *rated], {**train.labels.groups, **groups})
    sides = Split(frozenset(map(train.group_of, train.targets)) - set(groups.values()), frozenset(groups.values()))
    both = Training((*train.samples, *samples), joined, question, train.seed, train.draws)
    comparison = compare_held_out(
        evaluator.name, lambda _: FittedHead(evaluator), question, known.concat(measured), joined, sides,
        draws=project.config.draws, seed=project.config.seed,
        speakers_of=lambda ratings: speakers_of(ratings, both.samples),
    )  # fmt: skip
    return Compared(comparison, measured, both, judge=judge_state(project, measured))


def _check_unseen(evaluator: Evaluator, samples: Sequence[Sample], train: Training) -> None:
    """Raise an error if the evaluator learned from a conversation, or if ratings of another one have its id.

    Raises:
        BadInput: One of the two is true.
    """
    rated = {target.conversation for target in train.targets}
    known = evaluator.training_set
    seen = [] if known is None else [
        sample.conversation.id for sample in samples
        if (at := known.place(sample.conversation)) is not None and known.used[at]
    ]  # fmt: skip
    if seen:
        raise BadInput(
            f"the evaluator learned from {count_of(len(set(seen)), 'conversation')} of the held-out files, such as "
            f"{seen[0]!r}; remove them from the files, or fit an evaluator without their ratings"
        )
    if both := sorted({sample.conversation.id for sample in samples} & rated):
        raise BadInput(
            f"{count_of(len(both), 'conversation')} of the held-out files have ratings in the store under the same id, "
            f"such as {both[0]!r}; give the held-out conversations other ids, or remove them from the files"
        )
