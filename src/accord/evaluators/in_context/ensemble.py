"""Several answers about one input as one distribution: their mean, which keeps how far they are apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from accord.conversation import Target
from accord.evaluators.in_context.reading import Reading
from accord.evidence.table import Column, EvidenceTable
from accord.llm.model import Failure
from accord.rubric import Question

BLOCK, SPREAD = "in-context", "in-context:spread"
"""What the names of the columns begin with, and the column of the answers' standard deviation."""
LEAST_ANSWERED = 0.5
"""An input with fewer of its requests answered has no score."""


@dataclass(frozen=True, slots=True)
class Ensemble:
    """What several requests said of one input.

    Attributes:
        shares: (K,) the mean of their distributions.
        value: The mean of their scores.
        spread: Their standard deviation.
        lost: How many gave no score.
    """

    shares: tuple[float, ...]
    value: float
    spread: float
    lost: int = 0


def together(readings: Sequence[Reading | Failure]) -> Ensemble | Failure:
    """The mean of the distributions; a failure where more than half of the requests gave no score."""
    said = [reading for reading in readings if isinstance(reading, Reading)]
    lost = [reading for reading in readings if isinstance(reading, Failure)]
    if len(said) < LEAST_ANSWERED * len(readings) or not said:
        [(reason, count)] = Counter(failure.reason for failure in lost).most_common(1)
        return Failure(reason, f"{count} of {len(readings)} requests")
    shares = np.mean([reading.shares for reading in said], axis=0)
    values = np.array([reading.value for reading in said])
    return Ensemble(tuple((shares / shares.sum()).tolist()), float(values.mean()), float(values.std()), len(lost))


def as_evidence(question: Question, made_by: str, found: Sequence[tuple[Target, Ensemble | Failure]]) -> EvidenceTable:
    """Ensembles as a table: a column an option, and how far the answers were apart."""
    options = question.scale.numbers
    columns = [Column(f"{BLOCK}={option:.12g}", made_by, question.id, option) for option in options]
    columns.append(Column(SPREAD, made_by))
    rows: dict[Target, dict[str, float]] = {}
    absences: dict[tuple[Target, str], str] = {}
    for target, said in found:
        if isinstance(said, Failure):
            rows[target], absences[target, BLOCK] = {}, f"{said.reason} ({said.detail})"
        else:
            shares = {f"{BLOCK}={option:.12g}": share for option, share in zip(options, said.shares, strict=True)}
            rows[target] = {**shares, SPREAD: said.spread}
    return EvidenceTable.from_rows(columns, rows, absences)
