"""Labels as rows of numbers: one row a rating, with the evidence row it belongs to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput
from accord.evidence.table import EvidenceTable
from accord.values import Kind, Label, Labels, Question, Target, check_value

_LEAST_CHANCE = 1e-12


@dataclass(frozen=True)
class Ratings:
    """n ratings of one question, those whose target has evidence, in the order of the labels.

    Attributes:
        labels: The labels themselves.
        row: (n,) row of the evidence table.
        answer: (n,) index of the chosen option, 0 to K-1.
        value: (n,) the chosen option's number.
        options: (K,) the question's options as numbers, rising.
        groups: What splits keep together, where that is more than a conversation (`Labels.groups`).
    """

    labels: Sequence[Label]
    row: NDArray[np.intp]
    answer: NDArray[np.intp]
    value: NDArray[np.float64]
    options: NDArray[np.float64]
    groups: Mapping[Target, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: NDArray[np.intp]) -> Ratings:
        """The ratings with these indices."""
        kept = [self.labels[int(row)] for row in rows]
        return Ratings(kept, self.row[rows], self.answer[rows], self.value[rows], self.options, self.groups)

    def counts(self, annotators: Sequence[str]) -> dict[str, int]:
        """How many of these ratings each of some annotators gave."""
        return {name: int((self.annotator == name).sum()) for name in annotators}

    def log_loss(self, distributions: NDArray[np.float64]) -> float:
        """Mean -log probability of what was said, in nats, of (n, K) distributions; nothing counts as impossible."""
        chance = distributions[np.arange(len(self)), self.answer]
        return float(-np.log(np.maximum(chance, _LEAST_CHANCE)).mean())

    @cached_property
    def annotator(self) -> NDArray[np.object_]:
        """(n,) who rated."""
        return np.array([label.annotator for label in self.labels], dtype=object)

    @cached_property
    def target(self) -> list[Target]:
        """What was rated."""
        return [label.target for label in self.labels]

    @cached_property
    def text(self) -> NDArray[np.object_]:
        """(n,) what was rated, as a name."""
        return np.array([str(label.target) for label in self.labels], dtype=object)

    @cached_property
    def conversation(self) -> NDArray[np.object_]:
        """(n,) the conversation that was rated, or whose turn was."""
        return np.array([label.target.conversation for label in self.labels], dtype=object)

    @cached_property
    def group(self) -> NDArray[np.object_]:
        """(n,) what splits and resampling keep together: the conversation, or more (`Labels.groups`)."""
        named = (self.groups.get(label.target) or label.target.conversation for label in self.labels)
        return np.array(list(named), dtype=object)


def options_of(question: Question) -> NDArray[np.float64]:
    """(K,) the options of an ordered question as numbers; of a real-valued one, the steps it is read to.

    Raises:
        BadInput: The question's answers are names, which no evaluator here predicts.
    """
    if question.scale.kind is Kind.NOMINAL:
        raise BadInput(
            f"question {question.id!r} has a nominal scale; "
            "the main question needs an ordered one, so that answers have an order and a mean"
        )
    return np.array(question.scale.numbers)


def ratings(evidence: EvidenceTable, labels: Labels, question: Question) -> Ratings:
    """The ratings of `question` whose target has evidence.

    Raises:
        BadInput: A label is outside the question's scale.
    """
    options = options_of(question)
    on_question = labels.on(question.id)
    rows = evidence.rows_of(label.target for label in on_question)
    kept = [(label, row) for label, row in zip(on_question, rows, strict=True) if row >= 0]
    for label, _ in kept:
        assert label.value is not None
        check_value(label.value, question, f"label of {label.annotator!r} on {label.target}")
    said = np.array([label.value for label, _ in kept], dtype=float)
    answer = np.searchsorted((options[1:] + options[:-1]) / 2, said)
    return Ratings(
        labels=[label for label, _ in kept],
        row=np.array([row for _, row in kept], dtype=np.intp),
        answer=answer,
        value=options[answer],
        options=options,
        groups=labels.groups,
    )
