"""Metrics of machine translation with the documents as references: BLEU and chrF of sacrebleu, and METEOR.

Papineni et al., 2002; Popović, 2015; Banerjee and Lavie, 2005. `accord[references]` brings sacrebleu.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from accord.errors import MissingExtra
from accord.evidence.bank.message import COMPARED, History, Message, Source, turn_metrics
from accord.evidence.bank.meteor import score, stages
from accord.evidence.bank.words import WORDS

NAMES = ("bleu", "chrf", "meteor")


@cache
def _sacrebleu() -> Any:
    try:
        import sacrebleu
    except ImportError:
        raise MissingExtra("BLEU and chrF", "references") from None
    return sacrebleu


@turn_metrics.register("bleu")
def bleu(reply: Message, history: History, sources: Sequence[Source]) -> float | None:
    """Sentence BLEU of the reply with all documents as its references, 0 to 1."""
    if not sources:
        return None
    return float(_sacrebleu().sentence_bleu(reply.text, [source.text for source in sources]).score) / 100


@turn_metrics.register("chrf")
def chrf(reply: Message, history: History, sources: Sequence[Source]) -> float | None:
    """Sentence chrF of the reply with all documents as its references, 0 to 1."""
    if not sources:
        return None
    return float(_sacrebleu().sentence_chrf(reply.text, [source.text for source in sources]).score) / 100


class Meteor:
    """METEOR of the reply with the document that suits it best, 0 to 1."""

    @property
    def made_with(self) -> str:
        """The stages in use: WordNet's only where it lies on this machine."""
        return f"{WORDS},{stages()}"

    def __call__(self, reply: Message, history: History, sources: Sequence[Source]) -> float | None:
        """The score; nothing where there are no documents."""
        return max(score(reply.tokens, source.tokens[:COMPARED]) for source in sources) if sources else None


turn_metrics.register("meteor")(Meteor())
