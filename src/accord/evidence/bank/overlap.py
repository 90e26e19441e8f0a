"""Overlap: how much of a reply is the documents', the question's, the conversation's."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from accord.evidence.bank.reply_features import ParsedDocument, ParsedText, Passage, TurnHistory, turn_metrics
from accord.evidence.bank.tokens import ENGLISH_WORDS, Vocabulary

OVERLAP = ("document-share", "question-share", "history-share")


@turn_metrics.register("document-share")
def document_share(reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
    """Share of the reply's content words that stand in a document; nothing where there are no documents."""
    if not sources:
        return None
    own = reply.content
    return max([len(source.content.intersection(own)) for source in sources]) / len(own) if own else 0.0


@turn_metrics.register("question-share")
def question_share(reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
    """Share of the content words said last by somebody else that the reply takes up."""
    asked = history.asked
    if asked is None or not asked.content:
        return None
    return len(asked.content.keys() & reply.content.keys()) / len(asked.content)


@turn_metrics.register("history-share")
def history_share(reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
    """Share of the reply's content words that were said before, by anybody."""
    own = reply.content
    return history.known(reply) / len(own) if own else None


NOVELTY = ("new-words", "repeated-trigrams", "distinct-share")


@turn_metrics.register("new-words")
def new_words(reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
    """Number of content words that nobody has said before."""
    return float(len(reply.content) - history.known(reply))


@turn_metrics.register("repeated-trigrams")
def repeated_trigrams(reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
    """Share of the reply's runs of three words that it, or a reply before it, has said already."""
    runs = len(reply.tokens) - 2
    return (runs - len(reply.trigrams) + len(reply.trigrams & history.trigrams)) / runs if runs > 0 else 0.0


@turn_metrics.register("distinct-share")
def distinct_share(reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
    """Distinct words over words (distinct-1)."""
    return len(set(reply.tokens)) / len(reply.tokens) if reply.tokens else None


LENGTH = ("words", "content-words", "content-share", "asks", "readability")


@turn_metrics.register("words")
def words(reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
    """Number of words."""
    return float(len(reply.tokens))


@turn_metrics.register("content-words")
def content_words(reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
    """Number of distinct content words."""
    return float(len(reply.content))


@turn_metrics.register("content-share")
def content_share(reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
    """Share of the words that are content words."""
    return sum(reply.content.values()) / len(reply.tokens) if reply.tokens else None


@turn_metrics.register("asks")
def asks(reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
    """Whether the reply asks something: 1 or 0."""
    return float("?" in reply.text)


@turn_metrics.register("readability")
def readability(reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
    """School years that reading takes: 4.71·characters/words + 0.5·words/sentences - 21.43."""
    count = len(reply.tokens)
    if not count:
        return None
    text = reply.text
    sentences = max(1, text.count(".") + text.count("?") + text.count("!"))
    return 4.71 * len("".join(reply.tokens)) / count + 0.5 * count / sentences - 21.43


COPYING = ("rouge-l", "copied-run")
LONGEST_RUN = 200
"""Runs are looked for among so many words of a reply."""


@turn_metrics.register("rouge-l")
def rouge_l(reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
    """ROUGE-L F1 of the reply's words with the passage it has most in common with, stemmed; 0 to 1."""
    if not sources:
        return None
    count = len(reply.units)
    return max(
        [_f1(_common(reply.places(part), part), count, part.length) for source in sources for part in source.passages]
    )


def _common(places: Sequence[int], passage: Passage) -> int:
    """The length of the longest common subsequence, a word of the passage a bit (Hyyrö, 2004).

    Whatever makes it longer carries one bit out at the top.
    """
    free = (1 << passage.length) - 1
    for here in filter(None, places):
        matched = free & here
        free = (free + matched) | (free - matched)
    return free.bit_length() - passage.length


def _f1(common: int, one: int, other: int) -> float:
    return 2 * common / (one + other) if common else 0.0


@turn_metrics.register("copied-run")
def copied_run(reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
    """The longest run of words that stands like this in a document, in words."""
    if not sources:
        return None
    return float(max([_run(reply.places(part)[:LONGEST_RUN], part) for source in sources for part in source.passages]))


def _run(places: Sequence[int], passage: Passage) -> int:
    """The longest run: a diagonal in the table of what matches, a row a word of the reply, a column one of the passage.

    The table is one number, its rows one after another and each with a column to spare. A shift by n rows and columns
    leaves, of the ends of runs, those of runs that are n words longer: the length is found by doubling, then halving.
    """
    width = passage.length // 8 + 1
    rows = [here.to_bytes(width, "little") for here in places]
    ends, step = int.from_bytes(b"".join(rows), "little"), 8 * width + 1
    doubled: list[int] = []  # the ends of runs of 1, 2, 4, ... words
    while ends:
        doubled.append(ends)
        ends &= ends << (step << len(doubled) - 1)
    length = 0
    for power in reversed(range(len(doubled))):
        longer = doubled[power] & (ends << (step << power)) if length else doubled[power]
        if longer:
            ends, length = longer, length + (1 << power)
    return length


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


CIU_NAMES = ("ciu",)
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
