"""Effect of text length on scores: the same conversations with every reply written twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from accord.evidence import EvidenceTable
from accord.learning import Evaluator, learns
from accord.values import Sample, Score, Turn

if TYPE_CHECKING:
    from accord.project.workspace import Workspace

MOST_DOUBLED = 50
"""Largest number of samples that are measured again."""


def doubling(
    project: Workspace, evaluator: Evaluator, evidence: EvidenceTable, samples: Sequence[Sample]
) -> float | None:
    """Return the mean change of the score for a new annotator if every reply is written twice.

    Only sources that ask no model measure the longer texts; the answers of models stay as they are.

    Args:
        project: The project, for its sources.
        evaluator: A fitted evaluator.
        evidence: Evidence of the samples, with a row each.
        samples: Samples of the evidence.

    Returns:
        The change in units of the scale, or `None` if no source measures without a model or nothing has a score.
    """
    sources = [source for source in evaluator.sources if not source.roles and not learns(source)]
    chosen = [sample for sample in samples if sample.conversation.turns][:MOST_DOUBLED]
    if not sources or not chosen:
        return None
    before = evidence.take(evidence.rows_of([sample.target for sample in chosen]))
    longer = project.measure(sources, [_doubled(sample) for sample in chosen])
    after = _with_columns(before, longer)
    scores = [evaluator.head.predict_each(table, [None] * len(chosen)) for table in (before, after)]
    changes = [
        new.value - old.value
        for old, new in zip(*scores, strict=True)
        if isinstance(old, Score) and isinstance(new, Score)
    ]
    return float(np.mean(changes)) if changes else None


def _with_columns(table: EvidenceTable, other: EvidenceTable) -> EvidenceTable:
    """Return a table with the values of another one, of the same rows, in the columns that both have."""
    places = {column.name: place for place, column in enumerate(other.columns)}
    values, present = table.values.copy(), table.present.copy()
    for place, column in enumerate(table.columns):
        if column.name in places:
            new = places[column.name]
            values[:, place], present[:, place] = other.values[:, new], other.present[:, new]
    return replace(table, values=values, present=present)


def _doubled(sample: Sample) -> Sample:
    """Return a sample with the texts of its replies written twice."""
    replies = {id(turn) for turn in sample.conversation.replies}

    def longer(turn: Turn) -> Turn:
        return replace(turn, content=f"{turn.content}\n\n{turn.content}") if id(turn) in replies else turn

    return sample.saying(tuple(map(longer, sample.conversation.turns)))
