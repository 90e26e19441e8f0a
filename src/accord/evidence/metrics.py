"""Metrics: a plain function from a conversation to a number, registered by name; and the table they fill."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from accord.conversation import Conversation
from accord.evidence.table import Column, EvidenceTable
from accord.llm.model import Subject
from accord.registry import Registry
from accord.score import Signature

Metric = Callable[[Conversation], float | None]
"""A number about a conversation, or `None` where it says nothing (no document to compare with)."""

metrics: Registry[Metric] = Registry("metric")


def measure(subjects: Iterable[Subject], names: Sequence[str]) -> EvidenceTable:
    """Each named metric of each subject, as a table.

    A subject that is one turn is measured on that turn, given the conversation up to it.

    Raises:
        UnknownName: No metric is called so.
    """
    chosen = {name: metrics.get(name) for name in names}
    columns = [Column(name, str(Signature.of("metric", name=name))) for name in names]
    rows: dict[object, dict[str, float]] = {}
    absences = {}
    for subject in subjects:
        conversation = subject.conversation.at(subject.turn)
        rows[subject.target] = features = {}
        for name, metric in chosen.items():
            value = metric(conversation)
            if value is None:
                absences[subject.target, name] = "nothing to measure"
            else:
                features[name] = float(value)
    return EvidenceTable.from_rows(columns, rows, absences)  # type: ignore[arg-type]
