"""Scoring with an adaptive rubric: each conversation is asked the questions that say most about its main answer."""

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
    """The adaptive rubric of a fitted evaluator.

    Raises:
        BadInput: Its head cannot do with some answers, none of its sources can be asked question by question, or it
            learned from too few complete answers.
    """
    asked_source(evaluator)
    return AdaptiveRubric(evaluator.head)


def asked_source(evaluator: Evaluator) -> Source:
    """The source whose questions are asked one by one.

    Raises:
        BadInput: None of them can be.
    """
    found = next((source for source in evaluator.sources if source.questions), None)
    if found is None:
        raise BadInput("an adaptive rubric needs a calibration of a judge's answers: sources: [rubric], head: mixed")
    return found


def ask_adaptively(
    project: ScoringProject,
    evaluator: Evaluator,
    samples: Sequence[Sample],
    rubric: AdaptiveRubric,
    most: int,
    until: float = 0.0,
) -> EvidenceTable:
    """The evidence of samples, question by question: each round asks every sample its own best next one.

    At most `most` questions per sample, fewer once the prediction varies less than `until` with what is not known.
    Answers are kept like any others: what the store holds is not asked for again, nor counted less.
    """
    judge = asked_source(evaluator)
    others = [source for source in evaluator.sources if source is not judge]
    measured = project.measure(others, samples, project.models)
    questions = {question.id: question for question in judge.questions}
    answered: dict[Target, list[str]] = {sample.target: [] for sample in samples}
    ours = project.measure([judge], samples)
    for _ in range(most):
        features = rubric.evaluator.features(_only(ours, answered).join(measured))
        wanted: list[tuple[str, Sample]] = []
        for row, sample in enumerate(samples):
            found, done = rubric.outlook(features, row), answered[sample.target]
            open_ = {
                name: gain
                for name, gain in found.gains.items()
                if name not in done and questions[name].applies_to(sample.conversation)
            }
            if open_ and found.spread > until:
                wanted.append((max(open_, key=lambda name: open_[name]), sample))
        if not wanted:
            break
        for name, group in groupby(sorted(wanted, key=lambda one: one[0]), key=lambda one: one[0]):
            chosen = [sample for _, sample in group]
            project.measure([judge.asking([name])], chosen, project.models)
            for sample in chosen:
                answered[sample.target].append(name)
        ours = project.measure([judge], samples)
    return _only(ours, answered).join(measured)


def _only(table: EvidenceTable, answered: Mapping[Target, Sequence[str]]) -> EvidenceTable:
    """The table without the answers that were not asked for here, though the store may hold them."""
    present = table.present.copy()
    for row, target in enumerate(table.targets):
        silent = [c.question is not None and c.question not in answered[target] for c in table.columns]
        present[row, np.array(silent, dtype=bool)] = False
    return table.with_only(present)
