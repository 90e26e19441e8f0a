"""How near a reply is to the documents and to what it answers, as cosines of an embedder's vectors.

`cosine-documents@EMBEDDER` and `cosine-user@EMBEDDER` name another one than the default (`accord.evidence.embedders`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from accord.evidence.bank.message import History, Message, Source, turn_metrics
from accord.evidence.embedders import ByEmbedder, Embedder

NAMES = ("cosine-documents", "cosine-user")


class CosineDocuments(ByEmbedder):
    """Cosine of a reply with the document nearest to it; nothing where there are no documents."""

    def __call__(self, reply: Message, history: History, sources: Sequence[Source]) -> float | None:
        """From -1 to 1; 0 where a text is empty."""
        return max(cosine(self.embedder, reply.text, source.text) for source in sources) if sources else None


class CosineUser(ByEmbedder):
    """Cosine of a reply with what somebody else said last before it."""

    def __call__(self, reply: Message, history: History, sources: Sequence[Source]) -> float | None:
        """From -1 to 1; 0 where a text is empty, nothing before anybody has asked."""
        asked = history.asked
        return cosine(self.embedder, reply.text, asked.text) if asked is not None and asked.text else None


def cosine(embedder: Embedder, one: str, other: str) -> float:
    """The cosine of two texts' vectors."""
    return float(np.clip(embedder.embed(one) @ embedder.embed(other), -1.0, 1.0))


turn_metrics.register("cosine-documents")(CosineDocuments())
turn_metrics.family("cosine-documents", CosineDocuments)
turn_metrics.register("cosine-user")(CosineUser())
turn_metrics.family("cosine-user", CosineUser)
