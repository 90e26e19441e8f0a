"""Metrics: plain functions to a number, registered by name, of a conversation or of a reply; the table they fill."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from accord.evidence.bank.message import TurnMetric, parsed_document, turn_metrics
from accord.evidence.bank.session import measured
from accord.evidence.bank.words import WORDS
from accord.evidence.table import Column, EvidenceTable
from accord.values import Conversation, Registry, Sample, Signature

Metric = Callable[[Conversation], float | None]
"""A number about a conversation, or `None` where it says nothing (no document to compare with)."""

metrics: Registry[Metric] = Registry("metric")

NOTHING = "nothing to measure"
"""Why a metric that returned `None` has no value."""


def measure(samples: Iterable[Sample], names: Sequence[str]) -> EvidenceTable:
    """Each named metric of each subject, as a table.

    A subject that is one turn is measured on that turn, given the conversation up to it; of a whole conversation, a
    metric of replies (`accord.evidence.bank`) is the mean over them.

    Raises:
        UnknownName: No metric is called so.
    """
    of_replies = {name: turn_metrics.get(name) for name in names if name in turn_metrics}
    chosen = {name: metrics.get(name) for name in names if name not in of_replies}
    columns = [Column(name, str(signature_of(name))) for name in names]
    samples = list(samples)
    _prepare(of_replies.values(), samples)
    rows: dict[object, dict[str, float]] = {}
    absences = {}
    for sample in samples:
        conversation = sample.conversation.at(sample.turn)
        rows[sample.target] = features = {}
        values, reasons = measured(conversation, of_replies) if of_replies else ({}, {})
        values |= {name: metric(conversation) for name, metric in chosen.items()}
        for name, value in values.items():
            if value is None:
                absences[sample.target, name] = reasons.get(name, NOTHING)
            else:
                features[name] = float(value)
    return EvidenceTable.from_rows(columns, rows, absences)  # type: ignore[arg-type]


def _prepare(chosen: Iterable[TurnMetric], samples: Sequence[Sample]) -> None:
    """Let embedders read ahead what they will be asked for, where that is cheaper together."""
    for embedder in {metric.embedder for metric in chosen if hasattr(metric, "embedder")}:
        conversations = [sample.conversation.at(sample.turn) for sample in samples]
        said = [turn.content for conversation in conversations for turn in conversation.turns]
        embedder.prepare(
            [*said, *(parsed_document(document.text).text for c in conversations for document in c.documents)]
        )


def signature_of(name: str) -> Signature:
    """How a metric is made: one of replies also by its words and stems, or by what it says itself."""
    if name not in turn_metrics:
        return Signature.of("metric", name=name)
    return Signature.of("metric", name=name, words=getattr(turn_metrics.get(name), "made_with", WORDS))
