"""Words and stems: one table per language from each word to its stem, or to an empty string for a stop word."""

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
"""Largest number of words with a cached stem, and of characters in them."""
LONGEST_WORD = 64
"""Longest word that is stemmed and cached."""
CHARACTERS = 8
"""Characters that count as one word in limits for texts without blanks."""
TELLING, ONE_IN = 8, 3
"""A text of at least `TELLING` pieces with one function word in `ONE_IN` keeps the previous language without
detection.
"""
LETTERS_A_WORD, LONG_RUN, LONG_PART = 12, 16, 8
"""A text lacks blanks, and its words become overlapping parts, if its pieces have more characters than this on average,
its longest run of letters exceeds `LONG_RUN`, and half of the runs exceed `LONG_PART`.
"""


class _BoundedTable(dict[str, T]):
    """Cache from words to values that fills itself and is cleared when it is full."""

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


class _WordTable(_BoundedTable[str]):
    """Cache from a word to a string, such as its stem."""

    def __init__(self, of: Callable[[str], str]) -> None:
        super().__init__()
        self._of = of

    def __missing__(self, word: str) -> str:
        return word if len(word) > LONGEST_WORD else self._remember(word, self._of(word))


class _PieceTable(_BoundedTable[tuple[str, ...]]):
    """Cache from a piece of text between blanks to strings, such as its words."""

    def __init__(self, of: Callable[[str], Iterable[str]]) -> None:
        super().__init__()
        self._of = of

    def __missing__(self, piece: str) -> tuple[str, ...]:
        made = tuple(filter(None, self._of(piece)))
        return made if len(piece) > LONGEST_WORD else self._remember(piece, made)

    def of(self, pieces: Iterable[str]) -> Iterator[str]:
        """Yield the strings of some pieces, in their order."""
        return chain.from_iterable(map(self.__getitem__, pieces))


class Vocabulary:
    """Words of one language with their stems.

    Most words have occurred before, so that parsing a text is a series of look-ups.

    Attributes:
        language: Language of function words and stemmer.
        words_in: Words of each piece of text.
        stems_in: Stems of the content words of each piece of text.
    """

    def __init__(self, language: Language, are_apart: bool = True) -> None:
        self.language, self._are_apart = language, are_apart
        self._stemmer: Any = None
        self._stemming = Lock()  # a stemmer has state: one thread at a time
        self._stems, self._units = _WordTable(self._stem), _WordTable(self.stem_of)
        self.words_in = _PieceTable(self._tokens)
        self.stems_in = _PieceTable(lambda piece: self.stems(self._tokens(piece)))

    def tokens(self, text: str) -> list[str]:
        """Return the normalized words of a text: letters, digits and marks of any script."""
        return self._tokens(normalised(text))

    def _tokens(self, normal: str) -> list[str]:
        runs = word_pattern(normal).findall(normal)
        if not self._are_apart:
            return [part for run in runs for part in self.language.grams(run, RUN)]
        return runs if normal.isascii() else [word for run in runs for word in cut(run, self.language)]

    def stems(self, words: Iterable[str]) -> list[str]:
        """Return the stem of each word; '' for a stop word."""
        return list(map(self._stems.__getitem__, words))

    def units(self, words: Iterable[str]) -> list[str]:
        """Return each word for comparisons in order: its stem, or the stop word itself."""
        return list(map(self._units.__getitem__, words))

    def stem_of(self, word: str) -> str:
        """Return the stem of a word; a stop word itself."""
        return self._stems[word] or word

    def parts(self, pieces: Iterable[str]) -> list[tuple[str, ...]]:
        """Return the content stems of each piece."""
        return list(map(self.stems_in.__getitem__, pieces))

    def forget(self) -> None:
        """Clear all caches."""
        for table in (self._stems, self._units, self.words_in, self.stems_in):
            table.clear()

    def _stem(self, word: str) -> str:
        """Return a word's Snowball stem (Porter, 1980; 2001); '' for a stop word. `l'eau` is the word `eau`."""
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
"""Languages that join a short word and the next one by an apostrophe."""


def _new_stemmer(name: str) -> Any:
    import snowballstemmer

    return snowballstemmer.stemmer(name)


@cache
def vocabulary(language: Language, are_apart: bool = True) -> Vocabulary:
    """Return the vocabulary of a language; texts without blanks have their own."""
    return Vocabulary(language, are_apart)


def counted(parts: Sequence[tuple[str, ...]]) -> dict[str, int]:
    """Return the frequency of each stem, in the order of first occurrence."""
    counts: dict[str, int] = {}
    for part in filter(None, parts):
        for stem in part:
            counts[stem] = counts[stem] + 1 if stem in counts else 1
    return counts


def counted_stems(pieces: Iterable[str]) -> dict[str, int]:
    """Return the frequency of each English stem, in the order of first occurrence."""
    return counted(ENGLISH_WORDS.parts(pieces))


def taken_apart(
    pieces: list[str], before: Language, named: Language | None
) -> tuple[Vocabulary, list[tuple[str, ...]]]:
    """Return the vocabulary for a text, and the content stems of each piece.

    The language is `named`, or detected; the previous language `before` is kept if it fits.
    """
    words = vocabulary(named or before)
    parts = list(map(words.stems_in.__getitem__, pieces))
    if len(parts) >= TELLING and parts.count(()) * ONE_IN >= len(parts):
        return words, parts
    detected = _vocabulary_of(pieces, before, named)
    return (words, parts) if detected is words else (detected, detected.parts(pieces))


def _vocabulary_of(pieces: list[str], before: Language, named: Language | None) -> Vocabulary:
    length = sum(map(len, pieces))
    language = named or recognised(pieces, before)
    if language.has_blanks and length > max(2, len(pieces)) * LETTERS_A_WORD:
        lengths = [len(run) for piece in pieces for run in word_pattern(piece).findall(piece)]
        if max(lengths, default=0) > LONG_RUN and 2 * sum(
            length_of_run > LONG_PART for length_of_run in lengths
        ) >= len(lengths):
            return vocabulary(before if before.has_blanks else language, are_apart=False)
    return vocabulary(language)


ENGLISH_WORDS = vocabulary(ENGLISH)
tokens, stems = ENGLISH_WORDS.tokens, ENGLISH_WORDS.stems
WORDS = f"{ENGLISH.made_with},{OTHERS}"
"""Word rules in signatures where languages are detected."""


def pieces(text: str, most: int | None = None) -> list[str]:
    """Return the normalized pieces of a text between blanks, at most `most` from `most` * `CHARACTERS` characters."""
    if most is not None and len(text) > most:  # a piece has at least one character
        return normalised(text[: most * CHARACTERS]).split()[:most]
    return (text.lower() if text.isascii() else normalised(text)).split()


def word_count(text: str) -> int:
    """Return the number of words in a text, or its length over `CHARACTERS` if that is larger."""
    return max(len(word_pattern(text).findall(text)), -(-len(text) // CHARACTERS))


def first_words(text: str, most: int) -> str:
    """Return the beginning of a text with a `word_count` of `most`."""
    short = text[: most * CHARACTERS]
    if len(short) <= most:  # a word has at least one character
        return short
    beyond = next(islice(word_pattern(text).finditer(short), most, None), None)
    return short if beyond is None else short[: beyond.start()].rstrip()
