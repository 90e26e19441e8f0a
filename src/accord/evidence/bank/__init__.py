"""The metric bank: what a reply is worth, told from its words, its history and its documents, in microseconds.

One idea a file. Each metric is a function of one reply (`Message`), of what was said before it (`History`), and of the
documents (`Source`s); it looks at nothing else, so that a live message costs its own length.
"""

from accord.evidence.bank import bertscore, ciu, copying, embedding, length, novelty, overlap, reference, ruber  # noqa: F401 - registers RUBER
from accord.evidence.bank.message import History, Message, Source, TurnMetric, Unmeasured, source_of, turn_metrics
from accord.evidence.bank.session import Session, measured

BANK = (*ciu.NAMES, *overlap.NAMES, *novelty.NAMES, *length.NAMES, *copying.NAMES)
"""The default bank: everything that needs neither a model nor a library beyond the base install."""
REFERENCE = reference.NAMES
"""Metrics of machine translation and summaries, with the documents as references."""

BERTSCORE = bertscore.NAMES
"""BERTScore with the small embedder (`accord models pull minilm-l6`)."""
EMBEDDING = embedding.NAMES
"""Cosines of the same embedder."""

__all__ = [
    "BANK",
    "BERTSCORE",
    "EMBEDDING",
    "REFERENCE",
    "History",
    "Message",
    "Session",
    "Source",
    "TurnMetric",
    "Unmeasured",
    "measured",
    "source_of",
    "turn_metrics",
]
