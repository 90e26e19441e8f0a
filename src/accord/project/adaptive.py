"""Scoring with an adaptive rubric: each conversation is asked the questions that say most about its main answer."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from accord.evidence import EvidenceTable, RubricAnswers, Source
from accord.learning import AdaptiveRubric, Calibration, Evaluator
from accord.values import BadInput, Sample

if TYPE_CHECKING:
    from accord.project.project import Project


def asking(evaluator: Evaluator) -> AdaptiveRubric:
    """The adaptive rubric of a fitted evaluator.

    Raises:
        BadInput: Its head cannot do with some answers, no judge answers, or it learned from too few complete answers.
    """
    if not isinstance(evaluator.head, Calibration) or _rubric_of(evaluator) is None:
        raise BadInput("an adaptive rubric needs a calibration of a judge's answers: sources: [rubric], head: mixed")
    return AdaptiveRubric(evaluator.head)


def _rubric_of(evaluator: Evaluator) -> RubricAnswers | None:
    return next((source for source in evaluator.sources if isinstance(source, RubricAnswers)), None)


def ask_adaptively(
    project: Project,
    evaluator: Evaluator,
    samples: Sequence[Sample],
    asked: AdaptiveRubric,
    most: int,
    until: float = 0.0,
) -> EvidenceTable:
    """The evidence of samples, question by question: each round asks every sample its own best next one.

    At most `most` questions per sample, fewer once the prediction varies less than `until` with what is not known.
    Answers are kept like any others: what the store holds is not asked for again, nor counted less.
    """
    judge = _rubric_of(evaluator)
    assert judge is not None
    others: list[Source] = [source for source in evaluator.sources if source is not judge]
    measured = project.measure(others, samples, project.models)
    questions: dict[str, list[str]] = {sample.conversation.id: [] for sample in samples}
    ours = project.measure([judge], samples)

    def known() -> EvidenceTable:
        return _only(ours, questions).join(measured)

    table = known()
    for _ in range(most):
        features = asked.evaluator.features(table)
        wanted: list[tuple[str, Sample]] = []
        for row, sample in enumerate(samples):
            found, done = asked.outlook(features, row), questions[sample.conversation.id]
            open_ = {
                name: gain
                for name, gain in found.gains.items()
                if name not in done and judge.rubric[name].applies_to(sample.conversation)
            }
            if open_ and found.spread > until:
                wanted.append((max(open_, key=lambda name: open_[name]), sample))
        if not wanted:
            break
        for name, group in groupby(sorted(wanted, key=lambda one: one[0]), key=lambda one: one[0]):
            chosen = [sample for _, sample in group]
            project.measure([judge.asking([name])], chosen, project.models)
            for sample in chosen:
                questions[sample.conversation.id].append(name)
        ours = project.measure([judge], samples)
        table = known()
    return table


def _only(table: EvidenceTable, questions: dict[str, list[str]]) -> EvidenceTable:
    """The table without the answers that were not asked for here, though the store may hold them."""
    present = table.present.copy()
    for row, target in enumerate(table.targets):
        asked = questions[target.conversation]
        silent = [c.question is not None and c.question not in asked for c in table.columns]
        present[row, np.array(silent, dtype=bool)] = False
    return table.with_only(present)
