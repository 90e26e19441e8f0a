"""BERTScore with the documents as references (Zhang et al., ICLR 2020).

    R = Σ idf(x)·max_y cos(x, y) / Σ idf(x)  over the document's tokens x, y those of the reply; P the other way round

`bertscore-f1@EMBEDDER` names another embedder than the default; one whose vocabulary is not known weighs all tokens
alike.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np

from accord.evidence.bank.message import History, Message, Source, turn_metrics
from accord.evidence.embedders import DEFAULT, ByEmbedder, open_embedder

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMES = ("bertscore-recall", "bertscore-precision", "bertscore-f1")
KEPT_PAIRS = 256


@lru_cache(KEPT_PAIRS)
def scores(embedder: str, reply: str, reference: str) -> tuple[float, float, float]:
    """Recall, precision and F1 of a reply with one reference, each a mean of cosines; 0 where one of them is empty."""
    states = open_embedder(embedder).states
    (own, x), (other, y) = states(reply), states(reference)
    if not len(own) or not len(other):
        return 0.0, 0.0, 0.0
    cosines = x @ y.T
    recall = float(np.average(cosines.max(axis=0), weights=other))
    precision = float(np.average(cosines.max(axis=1), weights=own))
    total = precision + recall
    return recall, precision, 2 * precision * recall / total if total > 0 else 0.0


class BertScore(ByEmbedder):
    """Recall, precision or F1 of BERTScore with the document that suits the reply best, weighted by idf."""

    def __init__(self, place: int, embedder: str = DEFAULT) -> None:
        super().__init__(embedder)
        self.place = place

    def __call__(self, reply: Message, history: History, sources: Sequence[Source]) -> float | None:
        """A mean of cosines; nothing where there are no documents."""
        if not sources:
            return None
        return max(scores(self.made_with, reply.text, source.text)[self.place] for source in sources)


for _place, _name in enumerate(NAMES):
    turn_metrics.register(_name)(BertScore(_place))
    turn_metrics.family(_name, partial(BertScore, _place))
