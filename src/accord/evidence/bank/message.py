"""What a metric of one reply looks at: the reply, what was said before, the documents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache

from accord.evidence.bank.words import stems, tokens
from accord.registry import Registry

KEPT_SOURCES = 512
"""Documents that are kept taken apart, whoever uses them; long ones belong to their conversation alone."""
LONG_TEXT = 100_000
PASSAGE, SHARED, COMPARED = 1000, 100, 20_000
"""Words are compared in their order within passages of so many words, neighbours sharing some, of a document's first
words."""


class Message:
    """One message taken apart once for all metrics.

    Attributes:
        text: As it was said.
        tokens: Its words.
        stems: Their stems, '' for stop words; as many as tokens.
        content: How often each content stem occurs, in the order of first occurrence.
    """

    __slots__ = ("content", "stems", "text", "tokens")

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokens(text)
        self.stems = stems(self.tokens)
        self.content: dict[str, int] = {}
        for stem in self.stems:
            if stem:
                self.content[stem] = self.content.get(stem, 0) + 1

    @property
    def trigrams(self) -> list[tuple[str, ...]]:
        """Its runs of three words."""
        words = self.tokens
        return list(zip(words, words[1:], words[2:], strict=False))


class History:
    """What was said before a reply, added up so that a message costs its own length.

    Attributes:
        counts: How often each content stem was said, by anybody.
        trigrams: Every run of three words in the replies so far; kept only where `keeps_trigrams`.
        asked: What somebody else said last; `None` before anybody did.
        messages: How many messages there were.
    """

    __slots__ = ("asked", "counts", "keeps_trigrams", "messages", "trigrams")

    def __init__(self, keeps_trigrams: bool = True) -> None:
        self.keeps_trigrams = keeps_trigrams
        self.counts: dict[str, int] = {}
        self.trigrams: set[tuple[str, ...]] = set()
        self.asked: Message | None = None
        self.messages = 0

    def add(self, message: Message, is_reply: bool) -> None:
        """Take a message into account."""
        counts = self.counts
        for stem, count in message.content.items():
            counts[stem] = counts.get(stem, 0) + count
        if is_reply:
            if self.keeps_trigrams:
                self.trigrams.update(message.trigrams)
        else:
            self.asked = message
        self.messages += 1


class Passage:
    """Words in their order, for comparing them with a reply's.

    Attributes:
        length: How many.
        places: For each stem or stop word, the places where it stands, as the bits of a number.
    """

    __slots__ = ("length", "places")

    def __init__(self, words: Sequence[str]) -> None:
        self.length = len(words)
        self.places: dict[str, int] = {}
        for place, word in enumerate(words):
            self.places[word] = self.places.get(word, 0) | 1 << place


class Source:
    """One document taken apart, as far as anybody asks."""

    def __init__(self, text: str) -> None:
        # Some corpora put their facts as a persona's.
        self.text = text.removeprefix("your persona:").strip()

    @cached_property
    def tokens(self) -> list[str]:
        """Its words."""
        return tokens(self.text)

    @cached_property
    def content(self) -> frozenset[str]:
        """Its content stems."""
        return frozenset(stems(self.tokens)) - {""}

    @cached_property
    def passages(self) -> list[Passage]:
        """Its words in their order: one passage, or several of a long document."""
        words = self.tokens[:COMPARED]
        ordered = units(words, stems(words))
        starts = range(0, max(len(ordered) - SHARED, 1), PASSAGE - SHARED)
        return [Passage(ordered[start : start + PASSAGE]) for start in starts]


def units(words: Sequence[str], stemmed: Sequence[str]) -> list[str]:
    """Words as they are compared in order: the stem, or the word itself where it is a stop word."""
    return [stem or word for stem, word in zip(stemmed, words, strict=True)]


_kept = lru_cache(KEPT_SOURCES)(Source)


def source_of(text: str) -> Source:
    """A document taken apart, kept for whoever uses it next."""
    return _kept(text) if len(text) <= LONG_TEXT else Source(text)


TurnMetric = Callable[[Message, History, Sequence[Source]], "float | None"]
"""A number about a reply, or `None` where it says nothing (no document to compare with)."""

turn_metrics: Registry[TurnMetric] = Registry("turn metric")
