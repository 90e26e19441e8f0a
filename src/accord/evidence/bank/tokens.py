"""Words and their stems: of each language one table from every word met to its stem, or to nothing for a stop word."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain, islice
from threading import Lock
from typing import Any, TypeVar

from accord.evidence.bank.languages import (
    ENGLISH,
    OTHERS,
    RUN,
    Language,
    cut,
    is_scrap,
    normalised,
    recognised,
    word_pattern,
)

T = TypeVar("T")

STOP_WORDS = ENGLISH.function_words
KNOWN_WORDS, KNOWN_CHARACTERS = 200_000, 2_000_000
"""The most words whose stems are remembered, and the most characters that these have together."""
LONGEST_WORD = 64
"""A longer one is nobody's word: it is its own stem, and is not remembered."""
CHARACTERS = 8
"""Of a text without blanks, or with few, so many characters count as a word where its length is bounded in words."""
TELLING, ONE_IN = 8, 3
"""Of so many pieces one in so many is a function word: the language of what was said before, without a further look."""
LETTERS_A_WORD, LONG_RUN, LONG_PART = 12, 16, 8
"""Blanks are missing, and words are taken in parts that overlap, where what stands between blanks has more characters
on average, and of the runs of letters in it one is so long, and every other one longer than most words are."""


class _Known(dict[str, T]):
    """word → something of it. Fills itself, and is emptied where it has grown too large."""

    def __init__(self) -> None:
        super().__init__()
        self._characters = 0

    def _remember(self, word: str, made: T) -> T:
        if len(self) >= KNOWN_WORDS or self._characters >= KNOWN_CHARACTERS:
            self.clear()
            self._characters = 0
        self[word] = made
        self._characters += len(word)
        return made


class _Words(_Known[str]):
    """word → another of it, such as its stem."""

    def __init__(self, of: Callable[[str], str]) -> None:
        super().__init__()
        self._of = of

    def __missing__(self, word: str) -> str:
        return word if len(word) > LONGEST_WORD else self._remember(word, self._of(word))


class _Pieces(_Known[tuple[str, ...]]):
    """What stands between blanks → something of the words in it."""

    def __init__(self, of: Callable[[str], Iterable[str]]) -> None:
        super().__init__()
        self._of = of

    def __missing__(self, piece: str) -> tuple[str, ...]:
        made = tuple(filter(None, self._of(piece)))
        return made if len(piece) > LONGEST_WORD else self._remember(piece, made)

    def of(self, pieces: Iterable[str]) -> Iterator[str]:
        """What is in some pieces, in their order."""
        return chain.from_iterable(map(self.__getitem__, pieces))


class Vocabulary:
    """The words of one language as they were met, with their stems.

    Most of what is said has been said before: taking a text apart is looking its pieces up.

    Attributes:
        language: Whose function words are left out, and whose stemmer is asked.
        words_in: What stands between blanks → its words.
        stems_in: The same → the stems of its content words.
    """

    def __init__(self, language: Language, are_apart: bool = True) -> None:
        self.language, self._are_apart = language, are_apart
        self._stemmer: Any = None
        self._stemming = Lock()  # a stemmer keeps the word it is at: one thread at a time
        self._stems, self._units = _Words(self._stem), _Words(self.stem_of)
        self.words_in = _Pieces(self._tokens)
        self.stems_in = _Pieces(lambda piece: self.stems(self._tokens(piece)))

    def tokens(self, text: str) -> list[str]:
        """The words of a text as they are compared; letters, digits and marks of any script."""
        return self._tokens(normalised(text))

    def _tokens(self, normal: str) -> list[str]:
        found = word_pattern(normal).findall(normal)
        if not self._are_apart:
            return [part for run in found for part in self.language.grams(run, RUN)]
        return found if normal.isascii() else [word for run in found for word in cut(run, self.language)]

    def stems(self, words: Iterable[str]) -> list[str]:
        """Each word's stem; '' for a stop word."""
        return list(map(self._stems.__getitem__, words))

    def units(self, words: Iterable[str]) -> list[str]:
        """Each word as it is compared in its order: its stem, a stop word as it is."""
        return list(map(self._units.__getitem__, words))

    def stem_of(self, word: str) -> str:
        """One word's stem; a stop word as it is."""
        return self._stems[word] or word

    def parts(self, pieces: Iterable[str]) -> list[tuple[str, ...]]:
        """The content stems of each piece."""
        return list(map(self.stems_in.__getitem__, pieces))

    def forget(self) -> None:
        """Let go of every word."""
        for table in (self._stems, self._units, self.words_in, self.stems_in):
            table.clear()

    def _stem(self, word: str) -> str:
        """A word's stem by snowball (Porter, 1980; 2001); '' for a stop word. `l'eau` is the word `eau`."""
        if not self._are_apart:
            return word
        if self.language.code in ELIDING:
            word = word.rpartition("'")[2]
        if word in self.language.function_words or (not word.isascii() and is_scrap(word)):
            return ""
        if self.language.stemmer is None:
            return word
        with self._stemming:
            if self._stemmer is None:
                self._stemmer = _new_stemmer(self.language.stemmer)
            return str(self._stemmer.stemWord(word))


ELIDING = frozenset({"fr", "it"})
"""Languages that write a short word and the next one as one, with an apostrophe."""


def _new_stemmer(name: str) -> Any:
    import snowballstemmer

    return snowballstemmer.stemmer(name)


@cache
def vocabulary(language: Language, are_apart: bool = True) -> Vocabulary:
    """The words of a language; those of texts whose blanks are missing apart from the others."""
    return Vocabulary(language, are_apart)


def counted(parts: Sequence[tuple[str, ...]]) -> dict[str, int]:
    """How often each stem occurs in some parts, in the order of first occurrence."""
    counts: dict[str, int] = {}
    for part in filter(None, parts):
        for stem in part:
            counts[stem] = counts[stem] + 1 if stem in counts else 1
    return counts


def counted_stems(pieces: Iterable[str]) -> dict[str, int]:
    """How often each English stem occurs in some pieces, in the order of first occurrence."""
    return counted(ENGLISH_WORDS.parts(pieces))


def taken_apart(
    pieces: list[str], before: Language, named: Language | None
) -> tuple[Vocabulary, list[tuple[str, ...]]]:
    """The words that a text of some pieces is taken apart with, and the content stems of each piece.

    Those of the language that is `named`, else of that which is recognised: the one `before` wherever it suits.
    """
    words = vocabulary(named or before)
    parts = list(map(words.stems_in.__getitem__, pieces))
    if len(parts) >= TELLING and parts.count(()) * ONE_IN >= len(parts):
        return words, parts
    others = _vocabulary_of(pieces, before, named)
    return (words, parts) if others is words else (others, others.parts(pieces))


def _vocabulary_of(pieces: list[str], before: Language, named: Language | None) -> Vocabulary:
    length = sum(map(len, pieces))
    language = named or recognised(pieces, before)
    if language.has_blanks and length > max(2, len(pieces)) * LETTERS_A_WORD:
        found = [len(run) for piece in pieces for run in word_pattern(piece).findall(piece)]
        if max(found, default=0) > LONG_RUN and 2 * sum(each > LONG_PART for each in found) >= len(found):
            return vocabulary(before if before.has_blanks else language, are_apart=False)
    return vocabulary(language)


ENGLISH_WORDS = vocabulary(ENGLISH)
tokens, stems = ENGLISH_WORDS.tokens, ENGLISH_WORDS.stems
WORDS = f"{ENGLISH.made_with},{OTHERS}"
"""What the stems are made by where languages are recognised; part of the signature of all that is counted from them."""


def pieces(text: str, most: int | None = None) -> list[str]:
    """What stands between blanks, as it is compared: no more than `most` of them, or than as many would be long."""
    if most is not None and len(text) > most:  # as many pieces need as many characters
        return normalised(text[: most * CHARACTERS]).split()[:most]
    return (text.lower() if text.isascii() else normalised(text)).split()


def word_count(text: str) -> int:
    """How many words a text has, or how many its length would make of `CHARACTERS` each, if that is more."""
    return max(len(word_pattern(text).findall(text)), -(-len(text) // CHARACTERS))


def first_words(text: str, most: int) -> str:
    """As much of a text as has a `word_count` of `most`."""
    short = text[: most * CHARACTERS]
    if len(short) <= most:  # as many words need as many characters
        return short
    beyond = next(islice(word_pattern(text).finditer(short), most, None), None)
    return short if beyond is None else short[: beyond.start()].rstrip()
