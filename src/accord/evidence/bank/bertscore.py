"""BERTScore with a small local embedder and the documents as references (Zhang et al., ICLR 2020).

    R = Σ idf(x)·max_y cos(x, y) / Σ idf(x)  over the document's tokens x, y those of the reply; P the other way round

Needs no corpus for idf: a WordPiece vocabulary is in the order of frequency, and by Zipf's law the logarithm of a
token's place stands in for its idf.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from accord.embedded.minilm import open_sentence_embedder
from accord.evidence.bank.message import History, Message, Source, turn_metrics

EMBEDDER = "minilm-l6"
NAMES = ("bertscore-recall", "bertscore-precision", "bertscore-f1")
FIRST_WORD = 1996
"""Place of the most frequent word in the vocabulary; before it stand marks, letters and unused entries."""
KEPT_PAIRS = 256

Floats = NDArray[np.float32]


def idf(tokens: Sequence[int]) -> Floats:
    """(n,) each token's weight, at least log 2."""
    places = np.maximum(np.asarray(tokens) - FIRST_WORD, 0)
    return np.asarray(np.log(2.0 + places), dtype=np.float32)


@lru_cache(KEPT_PAIRS)
def scores(reply: str, reference: str) -> tuple[float, float, float]:
    """Recall, precision and F1 of a reply with one reference, each a mean of cosines; 0 where one of them is empty."""
    embedder = open_sentence_embedder(EMBEDDER)
    (own, x), (other, y) = embedder.token_states(reply), embedder.token_states(reference)
    if not len(own) or not len(other):
        return 0.0, 0.0, 0.0
    cosines = x @ y.T
    recall = float(np.average(cosines.max(axis=0), weights=idf(other)))
    precision = float(np.average(cosines.max(axis=1), weights=idf(own)))
    total = precision + recall
    return recall, precision, 2 * precision * recall / total if total > 0 else 0.0


def _best(place: int, what: str) -> Callable[[Message, History, Sequence[Source]], float | None]:
    def metric(reply: Message, history: History, sources: Sequence[Source]) -> float | None:
        return max(scores(reply.text, source.text)[place] for source in sources) if sources else None

    metric.__doc__ = f"BERTScore's {what} with the document that suits the reply best, weighted by idf."
    return metric


for _place, _name in enumerate(NAMES):
    turn_metrics.register(_name)(_best(_place, _name.removeprefix("bertscore-")))
