"""Words and stems in any language: detection by function words, word segmentation, and cached stems.

Words are compared after NFKC normalization, with their combining marks. A script without blanks between words is cut at
its function words; the rest becomes overlapping runs of characters (McNamee and Mayfield, 2004). One table per language
maps each word to its stem, or to an empty string for a stop word.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from itertools import chain, islice
from threading import Lock
from typing import Any, TypeVar

from accord.edges import UnknownName
from accord.values import content_hash


@dataclass(frozen=True, eq=False)
class Language:
    """A known language; one instance each.

    Attributes:
        code: ISO 639-1 code, or `und` for an unknown language.
        script: Script.
        stemmer: Snowball's name of the language; `None` without stemming.
        function_words: Words without content; in a script without blanks, strings at which runs are cut.
    """

    code: str
    script: str
    stemmer: str | None
    function_words: frozenset[str]

    @property
    def made_with(self) -> str:
        """Part of a signature."""
        return f"{self.code}-stop-{len(self.function_words)}+{self.stemmer or 'plain'}"

    @property
    def has_blanks(self) -> bool:
        """True if the script separates words by blanks."""
        return self.script not in _GRAMS and self.script not in _SCRIPT_OF.values()

    @property
    def caution(self) -> str | None:
        """Warning for counts in an unknown language."""
        if self.code != UNDETERMINED:
            return None
        return f"unknown language ({self.script} script): its words are compared without stemming"

    @cached_property
    def _cut(self) -> re.Pattern[str]:
        longest_first = sorted(map(re.escape, self.function_words), key=len, reverse=True)
        return re.compile(f"({'|'.join(longest_first)})" if longest_first else "(?!)")

    def grams(self, run: str, kind: str) -> Iterator[str]:
        """Yield the function words of a run of characters without blanks, and overlapping parts of the rest."""
        length = _GRAMS.get(kind, _LETTERS)
        parts = self._cut.split(run) if self.script == _SCRIPT_OF.get(kind, kind) else [run]
        for part in parts:
            if part in self.function_words or len(part) <= length:
                yield part
            else:
                yield from (part[start : start + length] for start in range(len(part) - length + 1))


UNDETERMINED = "und"
_LISTS = files("accord.evidence.bank") / "languages.txt"
_RANGES = {
    "latin": "a-z\u00aa\u00ba\u00c0-\u024f\u1e00-\u1eff",
    "cyrillic": "\u0400-\u052f", "arabic": "\u0600-\u06ff\u0750-\u077f", "devanagari": "\u0900-\u097f",
    "han": "\u3005\u3007\u3400-\u9fff\U00020000-\U0003ffff", "hiragana": "\u3041-\u309f",
    "katakana": "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff", "hangul": "\u1100-\u11ff\uac00-\ud7a3",
    "thai": "\u0e00-\u0e7f", "lao": "\u0e80-\u0eff", "myanmar": "\u1000-\u109f", "khmer": "\u1780-\u17ff",
}  # fmt: skip
_GRAMS = {"han": 2, "hiragana": 3, "katakana": 3, "hangul": 2, "thai": 4, "lao": 4, "myanmar": 4, "khmer": 4}
"""Characters per part by script: about the length of a word."""
RUN, _LETTERS = "run", 4
"""Length of the parts of a run of letters without blanks."""
_SCRIPT_OF = {"hiragana": "kana", "katakana": "kana"}
_SCRAPS = {"hiragana": 2, "katakana": 1, "hangul": 1, "thai": 1, "lao": 1, "myanmar": 1, "khmer": 1}
"""Longest string between function words that is an inflection, by script."""
_KINDS = re.compile("|".join(f"(?P<{name}>[{_RANGES[name]}]+)" for name in _GRAMS))
_SCRAP = re.compile("|".join(f"[{_RANGES[name]}]{{1,{most}}}" for name, most in _SCRAPS.items()))


# --- characters and words ------------------------------------------------------------------------------------------

_ASCII_WORD = re.compile(r"[a-zA-Z0-9]+(?:'[a-zA-Z]+)?")
_UNSEEN = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufe00-\ufe0f\u0640\u2116\u2120\u2122]")
"""Invisible characters, and characters without meaning for a word: joiners, direction marks, tatweel, trade marks."""


def normalised(text: str) -> str:
    """Return a text in the form in which words are compared: NFKC, lower case, without invisible characters."""
    if text.isascii():
        return text.lower()
    plain = _UNSEEN.sub("", text)
    return unicodedata.normalize("NFKC", plain).lower()


@cache
def _word() -> re.Pattern[str]:
    combining = [chr(code) for code in range(0x300, 0x20000) if unicodedata.category(chr(code)) in ("Mn", "Mc")]
    marks = "".join(mark for mark in combining if not "\ufe00" <= mark <= "\ufe0f")
    return re.compile(rf"[^\W_]+(?:[{marks}]+[^\W_]*)*(?:'[^\W\d_]+(?:[{marks}]+[^\W\d_]*)*)?")


def word_pattern(text: str) -> re.Pattern[str]:
    """Return the pattern of words in a text: letters and digits of any script, with combining marks."""
    return _ASCII_WORD if text.isascii() else _word()


def cut(word: str, language: Language) -> list[str]:
    """Split a run into words: itself, or its parts in a script without blanks."""
    if word.isascii() or not _KINDS.search(word):
        return [word]
    words, end = [], 0
    for match in _KINDS.finditer(word):
        words += [word[end : match.start()]] if match.start() > end else []
        words += language.grams(match.group(), str(match.lastgroup))
        end = match.end()
    return [word_part for part in (*words, word[end:]) if (word_part := part.strip("'"))]


def is_scrap(word: str) -> bool:
    """Return True for a string too short to be a word in a script without blanks."""
    return _SCRAP.fullmatch(word) is not None


# --- which language --------------------------------------------------------------------------------------------------


def _read() -> Iterator[Language]:
    for paragraph in _LISTS.read_text(encoding="utf-8").split("\n\n")[1:]:
        head, _, rest = paragraph.partition("\n")
        code, script, stemmer = head.split()
        words = frozenset(map(normalised, rest.split()))
        yield Language(code, script, None if stemmer == "-" else stemmer, words)


LANGUAGES: Mapping[str, Language] = {language.code: language for language in _read()}
"""Known languages, English first."""
ENGLISH = LANGUAGES["en"]
OTHERS = f"{len(LANGUAGES) - 1}-others-{content_hash(_LISTS.read_text(encoding='utf-8'), length=8)}"
"""Part of a signature for the other languages."""
_BY_WORD: dict[str, tuple[str, ...]] = {
    word: tuple(each.code for each in LANGUAGES.values() if word in each.function_words)
    for word in frozenset().union(*(each.function_words for each in LANGUAGES.values()))
    if len(word) > 1  # single letters occur in any language
}
_OF_SCRIPT = {
    script: [each for each in LANGUAGES.values() if each.script == script]
    for script in {each.script for each in LANGUAGES.values()}
}
_LOOKED_AT = 200
"""Words of a text used for detection."""
_LEAD = 2
"""Lead in function words that a language needs over the previous language."""
_FEWEST, _SHARE = 16, 0.08
"""Number of words from which a known language needs a minimum share of function words."""


def named_language(code: str) -> Language:
    """Return a language by its code; `UnknownName` if it is unknown."""
    if code not in LANGUAGES:
        raise UnknownName("language", code, LANGUAGES)
    return LANGUAGES[code]


def recognised(pieces: Sequence[str], before: Language) -> Language:
    """Return the language of some pieces of text, or the previous language `before` if detection fails."""
    text = " ".join(pieces[:_LOOKED_AT])[: 10 * _LOOKED_AT]
    words = word_pattern(text).findall(text)
    script = _script_of("".join(words))
    if script is None:
        return before
    if script == "han" and before.script == "kana":
        return before
    candidates = _OF_SCRIPT.get(script)
    if candidates is None:
        return _undetermined(script)
    if candidates[0].stemmer is None:
        return candidates[0]
    hits = Counter(code for word in words for code in _BY_WORD.get(word) or _BY_WORD.get(word.partition("'")[0], ()))
    fallback = before if before.script == script else candidates[0]
    best = max(candidates, key=lambda candidate: hits[candidate.code]) if hits else fallback
    if hits[best.code] < hits[fallback.code] + _LEAD:
        best = fallback
    is_known = len(words) < _FEWEST or hits[best.code] >= _SHARE * len(words)
    return best if is_known else _undetermined(script)


@cache
def _undetermined(script: str) -> Language:
    return Language(UNDETERMINED, script, None, frozenset())


def _script_of(letters: str) -> str | None:
    """Return the script of most letters; `None` without letters."""
    if letters.isascii():
        return "latin" if any(map(str.isalpha, letters)) else None
    counts = Counter({name: len(re.findall(f"[{letter}]", letters)) for name, letter in _RANGES.items()})
    kana = counts.pop("hiragana") + counts.pop("katakana")
    if kana * 10 >= counts["han"]:
        counts["kana"] = kana + (counts.pop("han") if kana else 0)
    most = counts.most_common(1)[0]
    alphabetic = [letter for letter in letters if letter.isalpha()]
    if 2 * counts.total() >= len(alphabetic):
        return most[0] if most[1] else None
    return Counter(unicodedata.name(letter, "unknown").split()[0].lower() for letter in alphabetic).most_common(1)[0][0]


# --- words and stems --------------------------------------------------------------------------------------------------

T = TypeVar("T")

STOP_WORDS = ENGLISH.function_words
KNOWN_WORDS, KNOWN_CHARACTERS = 200_000, 2_000_000
"""Largest number of words with a cached stem, and of characters in them."""
LONGEST_WORD = 64
"""Longest word that is stemmed and cached."""
CHARACTERS = 8
"""Characters that count as a word in limits for texts without blanks."""
TELLING, ONE_IN = 8, 3
"""A text of at least `TELLING` pieces with one function word in `ONE_IN` keeps the previous language without
detection.
"""
LETTERS_A_WORD, LONG_RUN, LONG_PART = 12, 16, 8
"""A text lacks blanks, and its words become overlapping parts, if its pieces have more characters than this on average,
its longest run of letters exceeds `LONG_RUN`, and half of the runs exceed `LONG_PART`.
"""


class _Table(dict[str, T]):
    """Cache from words or pieces of text to values, which fills itself and is cleared when it is full."""

    def __init__(self, make: Callable[[str], T]) -> None:
        super().__init__()
        self._make, self._characters = make, 0

    def __missing__(self, text: str) -> T:
        made = self._make(text)
        if len(text) <= LONGEST_WORD:
            if len(self) >= KNOWN_WORDS or self._characters >= KNOWN_CHARACTERS:
                self.clear()
                self._characters = 0
            self[text] = made
            self._characters += len(text)
        return made


class Vocabulary:
    """Words of one language with their stems, cached by piece of text, so that most parsing is a series of look-ups."""

    def __init__(self, language: Language, are_apart: bool = True) -> None:
        self.language, self._are_apart = language, are_apart
        self._stemmer: Any = None
        self._stemming = Lock()  # a stemmer has state: one thread at a time
        self._stems, self._units = _Table(self._stem), _Table(self.stem_of)
        self.words_in = _Table(lambda piece: tuple(filter(None, self._tokens(piece))))
        self.stems_in = _Table(lambda piece: tuple(filter(None, self.stems(self._tokens(piece)))))

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

    def words_of(self, pieces: Iterable[str]) -> Iterator[str]:
        """Yield the words of some pieces, in their order."""
        return chain.from_iterable(map(self.words_in.__getitem__, pieces))

    def parts(self, pieces: Iterable[str]) -> list[tuple[str, ...]]:
        """Return the content stems of each piece."""
        return list(map(self.stems_in.__getitem__, pieces))

    def forget(self) -> None:
        """Clear all caches."""
        for table in (self._stems, self._units, self.words_in, self.stems_in):
            table.clear()

    def _stem(self, word: str) -> str:
        """Return a word's Snowball stem (Porter, 1980; 2001); '' for a stop word. `l'eau` is the word `eau`."""
        if not self._are_apart or len(word) > LONGEST_WORD:
            return word
        if self.language.code in ELIDING:
            word = word.rpartition("'")[2]
        if word in self.language.function_words or (not word.isascii() and is_scrap(word)):
            return ""
        if self.language.stemmer is None:
            return word
        with self._stemming:
            if self._stemmer is None:
                import snowballstemmer

                self._stemmer = snowballstemmer.stemmer(self.language.stemmer)
            return str(self._stemmer.stemWord(word))


ELIDING = frozenset({"fr", "it"})
"""Languages that join a short word and the next one by an apostrophe."""


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
    parts = words.parts(pieces)
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
