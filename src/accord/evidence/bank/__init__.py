"""The metric bank: what a reply is worth, told from its words, its history and its documents, in microseconds.

One idea per file. Each metric is a function of one reply (`ParsedText`), of what was said before it (`TurnHistory`),
and of the documents (`ParsedDocument`s); it looks at nothing else, so that a live reply costs its own length. A
`MetricSession` goes through a conversation, live and in a batch alike.
"""

from accord.evidence.bank import ruber  # noqa: F401 - registers RUBER
from accord.evidence.bank.ciu import NAMES as CIU
from accord.evidence.bank.counts import COPYING, LENGTH, NOVELTY, OVERLAP
from accord.evidence.bank.embedding import BERTSCORES, COSINES
from accord.evidence.bank.message import (
    ParsedDocument,
    ParsedText,
    TurnHistory,
    TurnMetric,
    parsed_document,
    turn_metrics,
)
from accord.evidence.bank.reference import NAMES as REFERENCES
from accord.evidence.bank.session import NOTHING, WORDLESS, MetricSession, measured

BANK = (*CIU, *OVERLAP, *NOVELTY, *LENGTH, *COPYING)
"""The default bank: everything that needs neither a model nor a library beyond the base install."""
REFERENCE = REFERENCES
"""Metrics of machine translation and summaries, with the documents as references."""
BERTSCORE = BERTSCORES
"""BERTScore with the small embedder (`accord models pull minilm-l6`)."""
EMBEDDING = COSINES
"""Cosines of the same embedder."""

__all__ = [
    "BANK",
    "BERTSCORE",
    "EMBEDDING",
    "MetricSession",
    "NOTHING",
    "ParsedDocument",
    "ParsedText",
    "REFERENCE",
    "TurnHistory",
    "TurnMetric",
    "WORDLESS",
    "measured",
    "parsed_document",
    "turn_metrics",
]
