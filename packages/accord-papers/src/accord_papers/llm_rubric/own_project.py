"""A project's ratings, and its judge's stored answers, as a data set of the study; no request is sent."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from accord import Project
from accord.edges import BadInput
from accord.models import JUDGE
from accord.values import Labels, Question, Rubric, Sample
from accord_papers.llm_rubric.protocols import (
    NETWORK,
    WITH_SHIFT,
    WITHOUT_SHIFT,
    DataSet,
    Predict,
    all_systems,
    systems,
)
from accord_papers.study import StudyInput

FEWEST, FEWEST_GROUPS = 40, 5
"""Smallest number of ratings of a question, and of groups of conversations with a rating."""
MOST_OPTIONS = 10
"""Largest number of options of a question with answers that an oracle knows."""


class OwnSet(NamedTuple):
    """Ratings of a project.

    Attributes:
        data: Texts with an answer of the judge, with all their labels; without questions that it never answered.
        rubric: Questions with enough ratings to be predicted, the main one among them.
        told: The main question, and those with answers that an oracle knows.
        samples: The texts in the order of the data's evidence.
    """

    data: DataSet
    rubric: Rubric
    told: Rubric
    samples: Sequence[Sample]


def roles(project: Project) -> tuple[str, ...]:
    """Return the judge, whose stored answers are the evidence."""
    return (JUDGE,)


@lru_cache(4)
def own_set(given: StudyInput) -> OwnSet:
    """Read the ratings of a project, and the answers of its judge from the store.

    Raises:
        BadInput: The main question compares conversations or has a nominal scale, or has too few ratings of texts that
            the judge answered.
    """
    project = given.required_project()
    main = project.question
    if main.compares or not main.scale.is_ordered:
        raise BadInput(f"{main.id!r} compares conversations or has no order; this study needs a question with a scale")
    train, _ = project.training(project.evaluator("default"))
    table = project.measure([project.source("rubric")], train.samples)
    asked = [place for place, column in enumerate(table.columns) if column.question == main.id]
    answered = table.present[:, asked] if asked else table.present
    kept = table.take(np.flatnonzero(answered.any(axis=1)))
    kept = kept.select(np.flatnonzero(kept.present.any(axis=0)).tolist())
    known = frozenset(kept.targets)
    labels = Labels(
        (label for label in train.labels if label.target in known and label.value is not None), train.labels.groups
    )
    if not _is_predictable(main, labels):
        raise BadInput(
            f"{len(labels.on(main.id))} ratings of {main.id!r} belong to texts that the judge answered; this study "
            f"needs {FEWEST} in {FEWEST_GROUPS} groups of conversations. Ask the judge: accord judge; or import more "
            "ratings: accord import"
        )
    own = project.rubric
    predictable = [question for question in own.questions if _is_predictable(question, labels)]
    short = [q for q in own.questions if q.id == main.id or (_is_scale(q) and len(q.scale.numbers) <= MOST_OPTIONS)]
    data = DataSet("project", systems([sample.conversation for sample in train.samples]), kept, labels, main)
    sample_of = {sample.target: sample for sample in train.samples}
    samples = [sample_of[target] for target in kept.targets]
    return OwnSet(data, _with(own, main, predictable), _with(own, main, short), samples)


def _is_scale(question: Question) -> bool:
    return not question.compares and question.scale.is_ordered


def _is_predictable(question: Question, labels: Labels) -> bool:
    on = labels.on(question.id)
    return (
        _is_scale(question)
        and len(on) >= FEWEST
        and len({on.group_of(label.target) for label in on}) >= FEWEST_GROUPS
        and len({label.value for label in on}) > 1
    )


def _with(rubric: Rubric, main: Question, questions: Sequence[Question]) -> Rubric:
    return rubric.model_copy(update={"questions": tuple(questions), "main": main.id})


def systems_of(data: DataSet) -> dict[str, Predict]:
    """Return the systems of table 1; with a single chat system, those without its shift or indicator."""
    found = all_systems(data.question, new_domain=False)
    if len(set(data.system_of.values())) > 1:
        return found
    redundant = {f"accord, {WITHOUT_SHIFT}", f"{NETWORK}, {WITH_SHIFT}"}
    return {name: each for name, each in found.items() if name not in redundant and "with the system" not in name}
