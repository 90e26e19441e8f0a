"""Rapid Automatic Keyword Extraction (Rose et al., 2010): phrases between stop words, by their words' degree."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

from accord.evidence.bank.words import STOP_WORDS, stems, tokens

_BREAK = re.compile(r"[.,;:!?()\[\]{}\"\n\t–—/]+")


def phrases(text: str) -> list[tuple[str, ...]]:
    """A text's phrases, the best first: runs of content words, scored by Σ degree(word) / frequency(word).

    The degree of a word is the number of words in the phrases it stands in, itself included.
    """
    found: list[tuple[str, ...]] = []
    for part in _BREAK.split(text):
        run: list[str] = []
        for word in [*tokens(part), None]:
            if word is None or word in STOP_WORDS:
                found += [tuple(run)] if run else []
                run = []
            else:
                run.append(word)
    frequency = Counter(word for phrase in found for word in phrase)
    degree: Counter[str] = Counter()
    for phrase in found:
        for word in phrase:
            degree[word] += len(phrase)
    score = {phrase: sum(degree[word] / frequency[word] for word in phrase) for phrase in found}
    return sorted(score, key=lambda phrase: (-score[phrase], phrase))


@lru_cache(512)
def best_phrases(text: str, count: int) -> frozenset[str]:
    """The content stems of a text's best phrases."""
    return frozenset(stem for phrase in phrases(text)[:count] for stem in stems(list(phrase)) if stem)
