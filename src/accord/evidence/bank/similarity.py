"""Similarity of a reply with documents and question: embedding cosines, BERTScore, BLEU, chrF and METEOR.

`cosine-documents@EMBEDDER` and `cosine-user@EMBEDDER` use another embedder than the default
(`accord.models.embedders`).

BLEU and chrF come from sacrebleu, METEOR from NLTK (Banerjee and Lavie, 2005; Lavie and Agarwal, 2007), which matches
equal words, then equal stems. Its third stage, WordNet synonyms, is left out because it needs a download.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from accord.edges import MissingExtra
from accord.evidence.bank.reply_features import COMPARED, ParsedDocument, ParsedText, TurnHistory, turn_metrics
from accord.evidence.bank.tokens import ENGLISH_WORDS, WORDS
from accord.models import DEFAULT, Embedder, open_embedder

if TYPE_CHECKING:
    from collections.abc import Sequence


class ByEmbedder(ABC):
    """A metric of replies that uses an embedder."""

    def __init__(self, embedder: str = DEFAULT) -> None:
        self.made_with = embedder

    @property
    def embedder(self) -> Embedder:
        """Embedder, opened on first use."""
        return open_embedder(self.made_with)

    @abstractmethod
    def __call__(self, reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
        """Return the metric; `None` if it does not apply."""


EMBEDDING = ("cosine-documents", "cosine-user")
"""Cosines of the small embedder (`accord models pull minilm-l6`)."""


class CosineDocuments(ByEmbedder):
    """Cosine of a reply with its nearest document; `None` without documents."""

    def __call__(self, reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
        """Return a cosine, -1 to 1; 0 for an empty text."""
        return max(cosine(self.embedder, reply.text, source.text) for source in sources) if sources else None


class CosineUser(ByEmbedder):
    """Cosine of a reply with the previous turn of another speaker."""

    def __call__(self, reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
        """Return a cosine, -1 to 1; 0 for an empty text, `None` before another speaker has a turn."""
        asked = history.asked
        return cosine(self.embedder, reply.text, asked.text) if asked is not None and asked.text else None


def cosine(embedder: Embedder, one: str, other: str) -> float:
    """Return the cosine of the vectors of two texts."""
    return float(np.clip(embedder.embed(one) @ embedder.embed(other), -1.0, 1.0))


turn_metrics.register("cosine-documents")(CosineDocuments())
turn_metrics.family("cosine-documents", CosineDocuments)
turn_metrics.register("cosine-user")(CosineUser())
turn_metrics.family("cosine-user", CosineUser)


BERTSCORE = ("bertscore-recall", "bertscore-precision", "bertscore-f1")
"""BERTScore with the same embedder."""
KEPT_PAIRS = 256


@lru_cache(KEPT_PAIRS)
def scores(embedder: str, reply: str, reference: str) -> tuple[float, float, float]:
    """Return BERTScore recall, precision and F1 of a reply with one reference; 0 for an empty text."""
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
    """Recall, precision or F1 of BERTScore with the best document, weighted by idf."""

    def __init__(self, place: int, embedder: str = DEFAULT) -> None:
        super().__init__(embedder)
        self.place = place

    def __call__(self, reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
        """Return a mean of cosines; `None` without documents."""
        if not sources:
            return None
        return max(scores(self.made_with, reply.text, source.text)[self.place] for source in sources)


for _place, _name in enumerate(BERTSCORE):
    turn_metrics.register(_name)(BertScore(_place))
    turn_metrics.family(_name, partial(BertScore, _place))


REFERENCE = ("bleu", "chrf", "meteor")


class _Stemmer:
    """Adapter from the bank's cached stems to NLTK's interface."""

    def __init__(self, stem: Callable[[str], str]) -> None:
        self.stem = stem


class _NoWordNet:
    """WordNet stand-in without synonyms."""

    @staticmethod
    def synsets(word: str) -> tuple[()]:
        return ()


def score(
    hypothesis: Sequence[str], reference: Sequence[str], stem: Callable[[str], str] = ENGLISH_WORDS.stem_of
) -> float:
    """Return METEOR of some words with those of a reference, 0 to 1.

        F = P·R / (α·P + (1 - α)·R)        score = F·(1 - γ·(chunks / matches)^β)        α = .9, β = 3, γ = .5

    Raises:
        MissingExtra: `accord[references]` is not installed.
    """
    try:
        from nltk.translate.meteor_score import single_meteor_score
    except ImportError:
        raise MissingExtra("METEOR", "references") from None
    return float(single_meteor_score(reference, hypothesis, preprocess=str, stemmer=_Stemmer(stem), wordnet=_NoWordNet))


@cache
def _sacrebleu() -> Any:
    try:
        import sacrebleu
    except ImportError:
        raise MissingExtra("BLEU and chrF", "references") from None
    return sacrebleu


@turn_metrics.register("bleu")
def bleu(reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
    """Sentence BLEU of the reply with all documents as references, 0 to 1; `None` without documents."""
    if not sources:
        return None
    return float(_sacrebleu().sentence_bleu(reply.text, [source.text for source in sources]).score) / 100


@turn_metrics.register("chrf")
def chrf(reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
    """Sentence chrF of the reply with all documents as references, 0 to 1; `None` without documents."""
    if not sources:
        return None
    return float(_sacrebleu().sentence_chrf(reply.text, [source.text for source in sources]).score) / 100


class Meteor:
    """METEOR of the reply with its best document, 0 to 1."""

    made_with = f"{WORDS},exact+stem"
    """Word rules in the signature."""

    def __call__(self, reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
        """Return the score; `None` without documents."""
        if not sources:
            return None
        own, stem = reply.tokens[:COMPARED], reply.words.stem_of
        return max(score(own, source.tokens[:COMPARED], stem) for source in sources)


turn_metrics.register("meteor")(Meteor())
