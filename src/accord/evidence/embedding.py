"""Embedding evidence: how near the replies are to the documents and to what the user said last, as cosines.

The small embedder runs in this process (`accord models pull minilm-l6`); without it these metrics say how to get it.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

import numpy as np

from accord.conversation import Conversation
from accord.embedded.minilm import open_sentence_embedder
from accord.evidence.metrics import metrics

EMBEDDER = "minilm-l6"
EMBEDDING = ("cosine-documents", "cosine-user")
"""The metrics of this file, in the order of their columns."""


def _cosine(one: str, other: str) -> float:
    """The cosine of two texts' vectors, from -1 to 1; 0 where one of them is empty."""
    embedder = open_sentence_embedder(EMBEDDER)
    return float(np.clip(embedder.embed(one) @ embedder.embed(other), -1.0, 1.0))


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return fmean(found) if found else None


@metrics.register("cosine-documents")
def cosine_documents(conversation: Conversation) -> float | None:
    """Mean cosine of each reply with the document nearest to it; nothing where there are no documents."""
    documents = [document.text for document in conversation.documents]
    if not documents:
        return None
    return _mean(max(_cosine(turn.content, text) for text in documents) for turn in conversation.replies)


@metrics.register("cosine-user")
def cosine_user(conversation: Conversation) -> float | None:
    """Mean cosine of each reply with what somebody else said last before it."""
    asks, answers = ({turn.role for turn in turns} for turns in (conversation.others, conversation.replies))
    said = ""
    cosines = []
    for index, turn in enumerate(conversation.turns):
        if turn.role in asks:
            said = turn.content
        elif said and turn.role in answers and conversation.reply in {None, index}:
            cosines.append(_cosine(turn.content, said))
    return _mean(cosines)
