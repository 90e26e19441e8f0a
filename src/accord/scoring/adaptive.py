"""Scoring with an adaptive rubric: each conversation gets its most informative questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from accord.edges import BadInput
from accord.evidence import EvidenceTable, Source
from accord.learning import AdaptiveRubric, Evaluator
from accord.values import Sample, Target

if TYPE_CHECKING:
    from accord.scoring.pipeline import ScoringProject


def adaptive_rubric(evaluator: Evaluator) -> AdaptiveRubric:
    """Return the adaptive rubric of a fitted evaluator.

    Raises:
        BadInput: The head needs all answers, no source can answer questions one by one, or too few samples had
            complete answers.
    """
    rubric_source(evaluator)
    return AdaptiveRubric(evaluator.head)


def rubric_source(evaluator: Evaluator) -> Source:
    """Return the source that can answer single questions.

    Raises:
        BadInput: There is none.
    """
    source = next((source for source in evaluator.sources if source.questions), None)
    if source is None:
        raise BadInput("an adaptive rubric needs a calibration of a judge's answers: sources: [rubric], head: mixed")
    return source


def ask_adaptively(
    project: ScoringProject,
    evaluator: Evaluator,
    samples: Sequence[Sample],
    rubric: AdaptiveRubric,
    most: int,
    until: float = 0.0,
) -> EvidenceTable:
    """Gather evidence question by question; each round asks the best next question of every sample.

    Args:
        project: The project.
        evaluator: A fitted evaluator.
        samples: The samples.
        rubric: The adaptive rubric of the evaluator.
        most: Maximum number of questions per sample; answers from the store count, too.
        until: Standard deviation of the prediction below which a sample gets no further question.
    """
    judge = rubric_source(evaluator)
    others = [source for source in evaluator.sources if source is not judge]
    measured = project.measure(others, samples, project.models)
    questions = {question.id: question for question in judge.questions}
    answered: dict[Target, list[str]] = {sample.target: [] for sample in samples}
    answers = project.measure([judge], samples)
    for _ in range(most):
        features = rubric.evaluator.features(_asked_only(answers, answered).join(measured))
        wanted: list[tuple[str, Sample]] = []
        for row, sample in enumerate(samples):
            outlook, done = rubric.outlook(features, row), answered[sample.target]
            gains = {
                name: gain
                for name, gain in outlook.gains.items()
                if name not in done and questions[name].applies_to(sample.conversation)
            }
            if gains and outlook.spread > until:
                wanted.append((max(gains, key=lambda name: gains[name]), sample))
        if not wanted:
            break
        for name, group in groupby(sorted(wanted, key=lambda one: one[0]), key=lambda one: one[0]):
            chosen = [sample for _, sample in group]
            project.measure([judge.asking([name])], chosen, project.models)
            for sample in chosen:
                answered[sample.target].append(name)
        answers = project.measure([judge], samples)
    return _asked_only(answers, answered).join(measured)


def _asked_only(table: EvidenceTable, answered: Mapping[Target, Sequence[str]]) -> EvidenceTable:
    """Leave out stored answers to questions that this run did not ask."""
    present = table.present.copy()
    for row, target in enumerate(table.targets):
        is_unasked = [c.question is not None and c.question not in answered[target] for c in table.columns]
        present[row, np.array(is_unasked, dtype=bool)] = False
    return table.with_only(present)
