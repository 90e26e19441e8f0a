"""Words and their stems: one table from every word met to its stem, or to nothing for a stop word."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import chain, islice
from threading import Lock
from typing import Any, TypeVar

T = TypeVar("T")

WORDS = "en-stop-190+porter"
"""What the stems of this file are made by; part of the signature of all that is counted from them."""
KNOWN_WORDS, KNOWN_CHARACTERS = 200_000, 2_000_000
"""The most words whose stems are remembered, and the most characters that these have together."""
LONGEST_WORD = 64
"""A longer one is nobody's word: it is its own stem, and is not remembered."""
CHARACTERS = 8
"""Of a text without blanks, or with few, so many characters count as a word where its length is bounded in words."""

_WORD = re.compile(r"[^\W_]+(?:'[^\W\d_]+)?")
_ASCII_WORD = re.compile(r"[a-z0-9]+(?:'[a-z]+)?")  # the same of ASCII, found faster

# English function words by kind. Which words are left out moves results: the list is part of the signature.
_PRONOUNS = """i me my myself we our ours ourselves you you're you've you'll you'd your yours yourself yourselves he him
    his himself she she's her hers herself it it's its itself they them their theirs themselves"""
_POINTING = "what which who whom this that that'll these those here there when where why how"
_VERBS = """am is are was were be been being have has had having do does did doing can will should should've ain aren
    aren't couldn couldn't didn didn't doesn doesn't don don't hadn hadn't hasn hasn't haven haven't isn isn't mightn
    mightn't mustn mustn't needn needn't shan shan't shouldn shouldn't wasn wasn't weren weren't won won't wouldn
    wouldn't"""
_JOINING = """a an the and but if or because as until while of at by for with about against between into through during
    before after above below to from up down in out on off over under again further then once"""
_DEGREES = """all any both each few more most other some such no nor not only own same so than too very just now"""
_REMAINS = "s t d ll m o re ve y ma n't 's 'm 've 're 'll 'd nt im ive dont"
STOP_WORDS = frozenset(" ".join((_PRONOUNS, _POINTING, _VERBS, _JOINING, _DEGREES, _REMAINS)).split())


@cache
def _stemmer() -> Any:
    import snowballstemmer

    return snowballstemmer.stemmer("porter")


_STEMMING = Lock()
"""The stemmer keeps the word it is at: one thread at a time."""


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


def _stem(word: str) -> str:
    """A word's stem (Porter, 1980); '' for a stop word."""
    with _STEMMING:
        return "" if word in STOP_WORDS else str(_stemmer().stemWord(word))


def stem_of(word: str) -> str:
    """One word's stem; a stop word as it is."""
    return _STEMS[word] or word


_STEMS = _Words(_stem)
_UNITS = _Words(stem_of)


class _Pieces(_Known[tuple[str, ...]]):
    """What stands between blanks → something of the words in it."""

    def __init__(self, of: Callable[[list[str]], list[str]]) -> None:
        super().__init__()
        self._of = of

    def __missing__(self, piece: str) -> tuple[str, ...]:
        made = tuple(filter(None, self._of(tokens(piece))))
        return made if len(piece) > LONGEST_WORD else self._remember(piece, made)

    def of(self, pieces: Iterable[str]) -> Iterator[str]:
        """What is in some pieces, in their order."""
        return chain.from_iterable(map(self.__getitem__, pieces))


def pieces(text: str) -> list[str]:
    """What stands between blanks, lower-cased: what `words_in` and `stems_in` take."""
    return text.lower().split()


def tokens(text: str) -> list[str]:
    """The words of a text, lower-cased; letters and digits of any script."""
    lower = text.lower()
    return (_ASCII_WORD if lower.isascii() else _WORD).findall(lower)


def word_count(text: str) -> int:
    """How many words a text has, or how many its length would make of `CHARACTERS` each, if that is more."""
    return max(len(tokens(text)), -(-len(text) // CHARACTERS))


def first_words(text: str, most: int) -> str:
    """As much of a text as has a `word_count` of `most`."""
    short = text[: most * CHARACTERS]
    if len(short) <= most:  # as many words need as many characters
        return short
    beyond = next(islice(_WORD.finditer(short), most, None), None)
    return short if beyond is None else short[: beyond.start()].rstrip()


def stems(words: list[str]) -> list[str]:
    """Each word's stem; '' for a stop word."""
    return list(map(_STEMS.__getitem__, words))


def units(words: list[str]) -> list[str]:
    """Each word as it is compared in its order: its stem, a stop word as it is."""
    return list(map(_UNITS.__getitem__, words))


# Most of what is said has been said before: taking a text apart is looking its pieces up.
words_in = _Pieces(list)
stems_in = _Pieces(stems)


def counted_stems(pieces: Iterable[str]) -> dict[str, int]:
    """How often each stem occurs in some pieces, in the order of first occurrence."""
    counts: dict[str, int] = {}
    for found in filter(None, map(stems_in.__getitem__, pieces)):
        for stem in found:
            counts[stem] = counts[stem] + 1 if stem in counts else 1
    return counts
