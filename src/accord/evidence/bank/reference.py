"""METEOR (Banerjee and Lavie, 2005): unigram matches in stages, with a penalty for how scattered they are.

    F = P·R / (α·P + (1 - α)·R)        score = F·(1 - γ·(chunks / matches)^β)        α = .9, β = 3, γ = .5

Stages: equal words, then equal stems, then, where NLTK's WordNet is on the machine, words that share a synset. Nothing
is downloaded; `STAGES` says which are used.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cache, lru_cache
from typing import Any

from accord.evidence.bank.message import COMPARED, ParsedDocument, ParsedText, TurnHistory, turn_metrics
from accord.evidence.bank.words import KNOWN_WORDS, WORDS, stem_of
from accord.values import MissingExtra

ALPHA, BETA, GAMMA = 0.9, 3.0, 0.5


@cache
def _wordnet() -> Any:
    """NLTK's WordNet, where it lies on this machine; `None` elsewhere."""
    try:
        from nltk.corpus import wordnet

        wordnet.synsets("word")
    except (ImportError, LookupError, OSError):
        return None
    return wordnet


@lru_cache(KNOWN_WORDS)
def _synonyms(word: str) -> frozenset[str]:
    """The word and everything that shares a synset with it."""
    wordnet = _wordnet()
    found = {name for synset in wordnet.synsets(word) for name in synset.lemma_names() if "_" not in name}
    return frozenset(found | {word})


def stages() -> str:
    """The stages in use, as signatures name them."""
    return "exact+stem+wordnet" if _wordnet() is not None else "exact+stem"


def score(hypothesis: Sequence[str], reference: Sequence[str]) -> float:
    """METEOR of some words with those of a reference, 0 to 1."""
    pairs = align(hypothesis, reference)
    if not pairs:
        return 0.0
    precision, recall = len(pairs) / len(hypothesis), len(pairs) / len(reference)
    mean = precision * recall / (ALPHA * precision + (1 - ALPHA) * recall)
    return float(mean * (1 - GAMMA * (_chunks(pairs) / len(pairs)) ** BETA))


def align(hypothesis: Sequence[str], reference: Sequence[str]) -> list[tuple[int, int]]:
    """Pairs of places that match, each place once: by equal words first, then stems, then synonyms."""
    free, left = dict(enumerate(hypothesis)), dict(enumerate(reference))
    pairs = [*_matched(free, left, lambda word: word), *_matched(free, left, stem_of)]
    if _wordnet() is not None:
        pairs += _synonymous(free, left)
    return sorted(pairs)


def _matched(free: dict[int, str], left: dict[int, str], key: Callable[[str], Hashable]) -> list[tuple[int, int]]:
    """Pair what has the same key, last places first, and take it out of both."""
    places: dict[Hashable, list[int]] = {}
    for place, word in left.items():
        places.setdefault(key(word), []).append(place)
    pairs = []
    for place in reversed(free):
        if stack := places.get(key(free[place])):
            pairs.append((place, stack.pop()))
    for own, other in pairs:
        del free[own], left[other]
    return pairs


def _synonymous(free: dict[int, str], left: dict[int, str]) -> list[tuple[int, int]]:
    """Pair words that share a synset, last places first, and take them out of both."""
    places: dict[str, list[int]] = {}
    for place, word in left.items():
        places.setdefault(word, []).append(place)
    pairs = []
    for place in reversed(list(free)):
        alike = [places[word] for word in _synonyms(free[place]) & places.keys() if places[word]]
        if alike:
            other = max(alike, key=lambda stack: stack[-1]).pop()
            pairs.append((place, other))
            del free[place], left[other]
    return pairs


def _chunks(pairs: Sequence[tuple[int, int]]) -> int:
    """Runs of pairs that are neighbours on both sides."""
    steps = zip(pairs, pairs[1:], strict=False)
    return 1 + sum((b[0] - a[0], b[1] - a[1]) != (1, 1) for a, b in steps)


NAMES = ("bleu", "chrf", "meteor")


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

    @property
    def made_with(self) -> str:
        """The stages in use: WordNet's only where it lies on this machine."""
        return f"{WORDS},{stages()}"

    def __call__(self, reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
        """The score; nothing where there are no documents."""
        return max(score(reply.tokens, source.tokens[:COMPARED]) for source in sources) if sources else None


turn_metrics.register("meteor")(Meteor())
