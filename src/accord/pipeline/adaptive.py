"""Scoring with an adaptive rubric: each conversation is asked the questions that say most about its main answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from accord.config import Config
from accord.evidence import EvidenceTable
from accord.learning import AdaptiveRubric, Calibration, Evaluator
from accord.pipeline.collecting import collect
from accord.pipeline.models import Models
from accord.store import Store
from accord.values import BadInput, Rubric, Sample


def asking(evaluator: Evaluator, models: Models) -> AdaptiveRubric:
    """The adaptive rubric of a fitted evaluator.

    Raises:
        BadInput: The evaluator is no calibration, there is no judge, or it learned from too few complete answers.
    """
    if not isinstance(evaluator, Calibration) or models.judge is None:
        raise BadInput("an adaptive rubric needs a calibration evaluator, and a judge to ask")
    return AdaptiveRubric(evaluator)


def ask_adaptively(
    store: Store,
    config: Config,
    rubric: Rubric,
    models: Models,
    samples: Sequence[Sample],
    asking: AdaptiveRubric,
    most: int,
    until: float = 0.0,
) -> EvidenceTable:
    """The evidence of subjects, question by question: each round asks every subject its own best next one.

    At most `most` questions a subject, fewer once the prediction varies less than `until` with what is not known.
    Answers are kept like any others: what the store holds is not asked for again, nor counted less.
    """
    questions: dict[str, list[str]] = {sample.conversation.id: [] for sample in samples}
    judge, bare = Models(judge=models.judge), config.model_copy(update={"metrics": [], "issues": None})
    measured = collect(store, config, rubric, samples, replace(models, judge=None))

    def known() -> EvidenceTable:
        return _only(collect(store, bare, rubric, samples, judge, ask=False), questions).join(measured)

    table = known()
    for _ in range(most):
        features = asking.evaluator.features(table)
        wanted: list[tuple[str, Sample]] = []
        for row, sample in enumerate(samples):
            found, done = asking.outlook(features, row), questions[sample.conversation.id]
            open_ = {
                name: gain
                for name, gain in found.gains.items()
                if name not in done and rubric[name].applies_to(sample.conversation)
            }
            if open_ and found.spread > until:
                wanted.append((max(open_, key=lambda name: open_[name]), sample))
        if not wanted:
            break
        for name, group in groupby(sorted(wanted, key=lambda one: one[0]), key=lambda one: one[0]):
            alone = rubric.model_copy(update={"questions": (rubric[name],), "main": name})
            chosen = [sample for _, sample in group]
            collect(store, bare, alone, chosen, judge)
            for sample in chosen:
                questions[sample.conversation.id].append(name)
        table = known()
    return table


def _only(table: EvidenceTable, questions: dict[str, list[str]]) -> EvidenceTable:
    """The table without the answers that were not asked for here, though the store may hold them."""
    present = table.present.copy()
    for row, target in enumerate(table.targets):
        asked = questions[target.conversation]
        for place, column in enumerate(table.columns):
            if column.question is not None and column.question not in asked:
                present[row, place] = False
    return table.with_only(present)
