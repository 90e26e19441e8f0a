"""Metrics that compare a reply with its documents, by the libraries that papers report: sacrebleu, and NLTK's METEOR.

METEOR (Banerjee and Lavie, 2005; Lavie and Agarwal, 2007) matches equal words, then equal stems. Its third stage, words
that share a synset of WordNet, is left out: it needs a download, and NLTK looks up what is left as stems.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from accord.edges import MissingExtra
from accord.evidence.bank.reply_features import COMPARED, ParsedDocument, ParsedText, TurnHistory, turn_metrics
from accord.evidence.bank.tokens import ENGLISH_WORDS, WORDS

NAMES = ("bleu", "chrf", "meteor")


class _Stemmer:
    """The bank's stems, which are remembered; as NLTK asks for them."""

    def __init__(self, stem: Callable[[str], str]) -> None:
        self.stem = stem


class _NoWordNet:
    """No word has a synonym."""

    @staticmethod
    def synsets(word: str) -> tuple[()]:
        return ()


def score(
    hypothesis: Sequence[str], reference: Sequence[str], stem: Callable[[str], str] = ENGLISH_WORDS.stem_of
) -> float:
    """METEOR of some words with those of a reference, 0 to 1.

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
    """Sentence BLEU of the reply with all documents as its references, 0 to 1."""
    if not sources:
        return None
    return float(_sacrebleu().sentence_bleu(reply.text, [source.text for source in sources]).score) / 100


@turn_metrics.register("chrf")
def chrf(reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
    """Sentence chrF of the reply with all documents as its references, 0 to 1."""
    if not sources:
        return None
    return float(_sacrebleu().sentence_chrf(reply.text, [source.text for source in sources]).score) / 100


class Meteor:
    """METEOR of the reply with the document that suits it best, 0 to 1."""

    made_with = f"{WORDS},exact+stem"
    """What its signature names."""

    def __call__(self, reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
        """The score; nothing where there are no documents."""
        if not sources:
            return None
        own, stem = reply.tokens[:COMPARED], reply.words.stem_of
        return max(score(own, source.tokens[:COMPARED], stem) for source in sources)


turn_metrics.register("meteor")(Meteor())
