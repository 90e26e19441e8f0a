"""What a metric of replies sees: the reply and the documents, taken apart as far as it asks, and what was before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

from accord.evidence.bank.languages import ENGLISH, Language
from accord.evidence.bank.tokens import Vocabulary, counted, pieces, taken_apart
from accord.values import Registry

T = TypeVar("T")


class lazy(Generic[T]):
    """`functools.cached_property` without the lock of Python 3.11, which costs more than what is made here.

    Two threads that ask at once may both make the value; either will do.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self._name = make.__name__
        self.__doc__ = make.__doc__

    def __get__(self, instance: Any, owner: type) -> T:
        made = instance.__dict__[self._name] = self._make(instance)
        return made


LONGEST_MESSAGE, LONGEST_DOCUMENT = 20_000, 100_000
"""What stands between blanks beyond so many of a message, or of a document, or their length, is not looked at."""
PASSAGE, SHARED, COMPARED = 1000, 100, 20_000
"""Words are compared in their order within passages of so many words, neighbours sharing some, of a document's first
words."""


TOLD_BY = 200
"""What stands between blanks at a document's beginning tells its language."""

ENTRY = 150
"""Bytes that an entry of a table of words takes, as measured where all of them differ."""


class ParsedText:
    """One message, taken apart once for all metrics and as far as they ask.

    Attributes:
        text: As it was said.
        words: The words of its language, with their stems.
        content: How often each content stem occurs, in the order of first occurrence.
    """

    def __init__(self, text: str, before: Language = ENGLISH, named: Language | None = None) -> None:
        """Take it apart as `named` has it, else as its own words tell, else as what was said `before`."""
        self.text = text
        self._pieces = pieces(text, LONGEST_MESSAGE)
        self.words, parts = taken_apart(self._pieces, before, named)
        self.content = counted(parts)

    @property
    def has_words(self) -> bool:
        """Whether there is a letter or a digit in it."""
        return bool(self.content) or any(map(self.words.words_in.__getitem__, self._pieces))

    @lazy
    def tokens(self) -> list[str]:
        """Its words."""
        return list(self.words.words_in.of(self._pieces))

    @lazy
    def stems(self) -> list[str]:
        """Their stems, '' for stop words; as many as tokens."""
        return self.words.stems(self.tokens)

    @lazy
    def first(self) -> dict[str, int]:
        """Where each content stem stands first, in words; '' for stop words."""
        return {stem: place for place, stem in reversed(list(enumerate(self.stems)))}

    @lazy
    def units(self) -> list[str]:
        """Its words as they are compared in order, no more than a passage has."""
        return self.words.units(self.tokens[:PASSAGE])

    @lazy
    def _places(self) -> dict[Passage, list[int]]:
        return {}

    def places(self, passage: Passage) -> list[int]:
        """Where each of its units stands in a passage, as the bits of a number."""
        found = self._places.get(passage)
        if found is None:
            here = passage.places.get
            found = self._places[passage] = [here(unit, 0) for unit in self.units]
        return found

    @lazy
    def trigrams(self) -> set[tuple[str, ...]]:
        """Its distinct runs of three words."""
        words = self.tokens
        return set(zip(words, words[1:], words[2:], strict=False))


class TurnHistory:
    """What was said before a reply, added up so that a message costs its own length.

    Attributes:
        counts: How often each content stem was said, by anybody.
        trigrams: Every run of three words in the replies so far; kept only where `keeps_trigrams`.
        asked: What somebody else said last; `None` before anybody did.
        messages: How many messages there were.
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
        """About how many bytes it keeps alive."""
        asked = 0 if self.asked is None else 2 * len(self.asked.content)
        return ENTRY * (len(self.counts) + len(self.trigrams) + asked)

    def known(self, message: ParsedText) -> int:
        """How many of a message's content stems were said before, by anybody."""
        if self._known[0] is not message:  # two metrics ask
            self._known = message, len(self.counts.keys() & message.content.keys())  # walks the shorter side
        return self._known[1]

    def add(self, message: ParsedText, is_reply: bool) -> None:
        """Take a message into account."""
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


class ParsedDocument:
    """One document taken apart, as far as anybody asks; only what was made of it is kept beside its text."""

    def __init__(self, text: str, before: Language = ENGLISH, named: Language | None = None) -> None:
        """See `ParsedText`."""
        self.text = _without_persona(text).strip()
        self._before, self._named = before, named

    @lazy
    def words(self) -> Vocabulary:
        """The words of its language, with their stems."""
        return taken_apart(self._pieces()[:TOLD_BY], self._before, self._named)[0]

    def _pieces(self) -> list[str]:
        return pieces(self.text, LONGEST_DOCUMENT)

    @lazy
    def tokens(self) -> list[str]:
        """Its words."""
        return list(self.words.words_in.of(self._pieces()))

    @lazy
    def content(self) -> frozenset[str]:
        """Its content stems."""
        return frozenset(self.words.stems_in.of(self._pieces()))

    @lazy
    def passages(self) -> list[Passage]:
        """Its words in their order: one passage, or several of a long document."""
        ordered = self.words.units(islice(self.words.words_in.of(self._pieces()), COMPARED))
        starts = range(0, max(len(ordered) - SHARED, 1), PASSAGE - SHARED)
        return [Passage(ordered[start : start + PASSAGE]) for start in starts]


PERSONA = "your persona:"
"""What some corpora put before each line of facts."""


def _without_persona(text: str) -> str:
    if PERSONA not in text:
        return text
    return "\n".join(line.strip().removeprefix(PERSONA).strip() for line in text.splitlines())


_in_use: WeakValueDictionary[tuple[str, str, bool], ParsedDocument] = WeakValueDictionary()


def parsed_document(text: str, before: Language = ENGLISH, named: Language | None = None) -> ParsedDocument:
    """A document taken apart, shared with whoever else uses it; it is kept as long as anybody does."""
    key = text, (named or before).code, named is not None
    found = _in_use.get(key)
    if found is None:
        found = _in_use[key] = ParsedDocument(text, before, named)
    return found


TurnMetric = Callable[[ParsedText, TurnHistory, Sequence[ParsedDocument]], "float | None"]
"""A number about a reply, or `None` where it says nothing (no document to compare with)."""

turn_metrics: Registry[TurnMetric] = Registry(
    "turn metric", *(f"accord.evidence.bank.{name}" for name in ("overlap", "similarity", "ruber"))
)
