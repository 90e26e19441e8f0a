"""Rapid Automatic Keyword Extraction (Rose et al., 2010): phrases between stop words, by their words' degree."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from accord.evidence.bank.reply_features import ParsedDocument, ParsedText, TurnHistory, turn_metrics
from accord.evidence.bank.tokens import ENGLISH_WORDS, Vocabulary

_BREAK = re.compile(r"[.,;:!?()\[\]{}\"\n\t–—/。、！？；：।؟،]+")


def phrases(text: str, words: Vocabulary = ENGLISH_WORDS) -> list[tuple[str, ...]]:
    """A text's phrases, the best first: runs of content words, scored by Σ degree(word) / frequency(word).

    The degree of a word is the number of words in the phrases it stands in, itself included.
    """
    found: list[tuple[str, ...]] = []
    for part in _BREAK.split(text):
        run: list[str] = []
        for word in [*words.tokens(part), None]:
            if word is None or word in words.language.function_words:
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


def best_phrases(text: str, count: int, words: Vocabulary = ENGLISH_WORDS) -> frozenset[str]:
    """The content stems of a text's best phrases."""
    return frozenset(stem for phrase in phrases(text, words)[:count] for stem in words.stems(phrase) if stem)


NAMES = ("ciu",)
PAPER_EFFORT = 0.005


@dataclass(frozen=True)
class CIU:
    """Information of the documents that a reply passes on; nothing where there are no documents.

    The defaults are what holds up: only the discount by frequency predicts what people say.

    Attributes:
        position: g, the discount of what comes late; 1 in the paper.
        frequency: Whether what was said before counts less.
        effort: C, the cost of a word; 0.005 in the paper.
        unsupported: Credit β for content that no document holds; it rewards invention too.
        phrases: Keep only so many of each document's best RAKE phrases; `None` keeps all its content.
    """

    position: float = 0.0
    frequency: bool = True
    effort: float = 0.0
    unsupported: float = 0.0
    phrases: int | None = None

    def __call__(self, reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
        """The utility of a reply; unbounded, about 0 to 10."""
        if not sources:
            return None
        found = max([self._worth(reply, history, self._held(source)) for source in sources])
        if self.unsupported:
            invented = frozenset(reply.content).difference(*map(self._held, sources))
            found += self.unsupported * self._worth(reply, history, invented)
        return found - self.effort * len(reply.tokens) if self.effort else found

    def _held(self, source: ParsedDocument) -> frozenset[str]:
        """The content stems of a document that count."""
        return source.content if self.phrases is None else best_phrases(source.text, self.phrases, source.words)

    def _worth(self, reply: ParsedText, history: TurnHistory, counted: frozenset[str]) -> float:
        """Σ γ / freq over those content stems of the reply that are to be counted."""
        before, found = history.counts, 0.0
        for stem, count in reply.content.items():
            if stem in counted:
                worth = 1 / (before.get(stem, 0) + count) if self.frequency else 1.0
                found += worth * (1 - self.position * reply.first[stem] / len(reply.tokens)) if self.position else worth
        return found


turn_metrics.register("ciu")(CIU())
turn_metrics.register("ciu-paper")(CIU(position=1.0, effort=PAPER_EFFORT))
turn_metrics.register("ciu-unsupported")(CIU(unsupported=0.25))
