"""Parsed replies, documents and history: the inputs of a metric of replies, each value computed on first use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain, islice
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

from accord.evidence.bank.words import ENGLISH, Language, Vocabulary, counted, pieces, taken_apart
from accord.values import Contract, Registry

T = TypeVar("T")


class lazy(Generic[T]):
    """`functools.cached_property` without the lock of Python 3.11, which takes longer than computing these values.

    Two threads may both compute a value; either result is valid.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self._name = make.__name__
        self.__doc__ = make.__doc__

    def __get__(self, instance: Any, owner: type) -> T:
        made = instance.__dict__[self._name] = self._make(instance)
        return made


LONGEST_MESSAGE, LONGEST_DOCUMENT = 20_000, 100_000
"""Largest number of pieces read from a message, and from a document."""
PASSAGE, SHARED, COMPARED = 1000, 100, 20_000
"""Passages of a document have `PASSAGE` words and share `SHARED` with their neighbors; `COMPARED` words are
compared.
"""


TOLD_BY = 200
"""Pieces at the beginning of a document from which its language is detected."""

ENTRY = 150
"""Bytes of an entry in a table of words, as measured."""


class ParsedText:
    """One message, parsed once for all metrics; `content` has the frequency of each content stem, in order."""

    def __init__(self, text: str, before: Language = ENGLISH, named: Language | None = None) -> None:
        """Parse a text in the language `named`, or in the detected one; `before` is the previous language."""
        self.text = text
        self._pieces = pieces(text, LONGEST_MESSAGE)
        self.words, parts = taken_apart(self._pieces, before, named)
        self.content = counted(parts)

    @property
    def has_words(self) -> bool:
        """True if the text has a letter or a digit."""
        return bool(self.content) or any(map(self.words.words_in.__getitem__, self._pieces))

    @lazy
    def tokens(self) -> list[str]:
        """Words."""
        return list(self.words.words_of(self._pieces))

    @lazy
    def stems(self) -> list[str]:
        """Stems of the words; '' for stop words."""
        return self.words.stems(self.tokens)

    @lazy
    def first(self) -> dict[str, int]:
        """Position of the first occurrence of each content stem, in words; '' for stop words."""
        return {stem: place for place, stem in reversed(list(enumerate(self.stems)))}

    @lazy
    def units(self) -> list[str]:
        """Words for comparisons in order, at most as many as in a passage."""
        return self.words.units(self.tokens[:PASSAGE])

    @lazy
    def _places(self) -> dict[DocumentPassage, list[int]]:
        return {}

    def places(self, passage: DocumentPassage) -> list[int]:
        """Return the positions of each unit in a passage, as bits of a number."""
        places = self._places.get(passage)
        if places is None:
            place_of = passage.places.get
            places = self._places[passage] = [place_of(unit, 0) for unit in self.units]
        return places

    @lazy
    def trigrams(self) -> set[tuple[str, ...]]:
        """Distinct word trigrams."""
        words = self.tokens
        return set(zip(words, words[1:], words[2:], strict=False))


class TurnHistory:
    """Turns before a reply, summed so that each message costs its own length.

    Attributes:
        counts: Frequency of each content stem, over all speakers.
        trigrams: Word trigrams of the replies so far, if `keeps_trigrams`.
        asked: Previous turn of another speaker; `None` without one.
    """

    __slots__ = ("_known", "asked", "counts", "keeps_trigrams", "messages", "trigrams")

    def __init__(self, keeps_trigrams: bool = True) -> None:
        self.keeps_trigrams = keeps_trigrams
        self.counts: dict[str, int] = {}
        self.trigrams: set[tuple[str, ...]] = set()
        self.asked: ParsedText | None = None
        self.messages = 0
        self._known: tuple[ParsedText | None, int] = (None, 0)

    @property
    def size(self) -> int:
        """Approximate memory in bytes."""
        asked = 0 if self.asked is None else 2 * len(self.asked.content)
        return ENTRY * (len(self.counts) + len(self.trigrams) + asked)

    def known(self, message: ParsedText) -> int:
        """Return the number of a message's content stems that occur in earlier turns."""
        if self._known[0] is not message:  # two metrics share the value
            self._known = message, len(self.counts.keys() & message.content.keys())  # iterates over the shorter side
        return self._known[1]

    def add(self, message: ParsedText, is_reply: bool) -> None:
        """Add a message."""
        counts = self.counts
        self._known = None, 0
        for stem, count in message.content.items():
            counts[stem] = counts[stem] + count if stem in counts else count
        if is_reply:
            if self.keeps_trigrams:
                self.trigrams.update(message.trigrams)
        else:
            self.asked = message
        self.messages += 1


class DocumentPassage:
    """Words in order, to compare with a reply's words; `places` has the positions of each as bits of a number."""

    __slots__ = ("length", "places")

    def __init__(self, words: Sequence[str]) -> None:
        self.length = len(words)
        self.places: dict[str, int] = {}
        for place, word in enumerate(words):
            self.places[word] = self.places.get(word, 0) | 1 << place


class ParsedDocument:
    """One document, parsed on demand; only derived values are kept besides its text."""

    def __init__(self, text: str, before: Language = ENGLISH, named: Language | None = None) -> None:
        """Store the text; arguments as of `ParsedText`."""
        self.text = _without_persona(text).strip()
        self._before, self._named = before, named

    @lazy
    def words(self) -> Vocabulary:
        """Vocabulary of its language."""
        return taken_apart(self._pieces()[:TOLD_BY], self._before, self._named)[0]

    def _pieces(self) -> list[str]:
        return pieces(self.text, LONGEST_DOCUMENT)

    @lazy
    def tokens(self) -> list[str]:
        """Words."""
        return list(self.words.words_of(self._pieces()))

    @lazy
    def content(self) -> frozenset[str]:
        """Content stems."""
        return frozenset(chain.from_iterable(self.words.parts(self._pieces())))

    @lazy
    def phrase_content(self) -> frozenset[str]:
        """Content stems of the best phrases by RAKE (Rose et al., 2010).

        A phrase is a run of content words between stop words and punctuation. Its score is the sum over its words of
        degree / frequency. One phrase is kept for every three distinct content words.
        """
        phrases = _phrases(self._pieces(), self.words)
        frequency = Counter(stem for phrase in phrases for stem in phrase)
        degree = Counter({stem: 0 for stem in frequency})
        for phrase in phrases:
            degree.update(dict.fromkeys(phrase, len(phrase)))
        scores = {phrase: sum(degree[stem] / frequency[stem] for stem in phrase) for phrase in phrases}
        best = sorted(scores, key=lambda phrase: -scores[phrase])[: -(-len(frequency) // 3)]
        return frozenset(chain.from_iterable(best))

    @lazy
    def passages(self) -> list[DocumentPassage]:
        """Words in order: one passage, or several for a long document."""
        ordered = self.words.units(islice(self.words.words_of(self._pieces()), COMPARED))
        starts = range(0, max(len(ordered) - SHARED, 1), PASSAGE - SHARED)
        return [DocumentPassage(ordered[start : start + PASSAGE]) for start in starts]


def _phrases(pieces: Sequence[str], words: Vocabulary) -> list[tuple[str, ...]]:
    """Return the runs of content stems between stop words and punctuation."""
    found: list[tuple[str, ...]] = []
    run: list[str] = []
    for piece in pieces:
        before, after = [[] if end.isalnum() else [""] for end in (piece[0], piece[-1])]
        for stem in [*before, *words.stems(words.words_in[piece]), *after]:  # '' for a stop word or punctuation
            if stem:
                run.append(stem)
            elif run:
                found.append(tuple(run))
                run = []
    return [*found, tuple(run)] if run else found


PERSONA = "your persona:"
"""Prefix of each line of facts in some corpora."""


def _without_persona(text: str) -> str:
    if PERSONA not in text:
        return text
    return "\n".join(line.strip().removeprefix(PERSONA).strip() for line in text.splitlines())


_in_use: WeakValueDictionary[tuple[str, str, bool], ParsedDocument] = WeakValueDictionary()


def parsed_document(text: str, before: Language = ENGLISH, named: Language | None = None) -> ParsedDocument:
    """Return a parsed document, shared while it has users."""
    key = text, (named or before).code, named is not None
    document = _in_use.get(key)
    if document is None:
        document = _in_use[key] = ParsedDocument(text, before, named)
    return document


TurnMetric = Callable[[ParsedText, TurnHistory, Sequence[ParsedDocument]], "float | None"]
"""A number about a reply, or `None` if it does not apply (no document to compare with)."""

turn_metrics: Registry[TurnMetric] = Registry(
    "turn metric",
    *(f"accord.evidence.bank.{name}" for name in ("reply_metrics", "ruber")),
    contract=Contract.function(3, "a function of a reply, the turns before it and the documents", "check_turn_metric"),
)
"""Metrics of replies: functions of the reply, the turns before it and the documents, to a number or `None`."""
