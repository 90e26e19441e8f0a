"""Normalized texts in which rules of redaction search, and the searches that they share."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache

Spans = Iterator[tuple[int, int]]
NUMBER_BEGINS = re.compile(r"[0-9(+XYZxyz](?<![\w+].)(?=(?:[ .\-/()+]{0,3}[\dAB]){7})", re.ASCII)
"""First character of what may be a number of a card, of a country, or of a telephone: eight digits or more."""


class SearchedText:
    """A normalized text (`normalized`), with searches that several rules share.

    Attributes:
        text: The text.
        lowered: The text in lower case, of the same length.
        taken: Spans in order that other rules have found, in which no telephone number is searched.
    """

    __slots__ = ("_digits", "_places", "_stretches", "lowered", "taken", "text")

    def __init__(self, text: str) -> None:
        self.text, self.lowered = text, text.replace("\u0130", "i").lower()
        self.taken: Sequence[tuple[int, int, str]] = ()
        self._digits: bool | None = None
        self._stretches: list[tuple[int, int]] | None = None
        self._places = dict[re.Pattern[str], list[int]]()

    @property
    def has_digits(self) -> bool:
        """True if there are seven digits close to each other."""
        if self._digits is None:
            self._digits = _SEVEN_DIGITS.search(self.text) is not None
        return self._digits

    @property
    def stretches(self) -> list[tuple[int, int]]:
        """Spans with at least seven digits and few signs between them."""
        if self._stretches is None:
            self._stretches = [match.span() for match in _STRETCH.finditer(self.text)]
        return self._stretches

    def has(self, words: tuple[str, ...]) -> bool:
        """Return True if one of the words, in lower case, is in the text."""
        return any(map(self.lowered.__contains__, words))

    def places(self, word: str) -> Iterator[int]:
        """Yield the places of a word in lower case, in order."""
        place = self.lowered.find(word)
        while place >= 0:
            yield place
            place = self.lowered.find(word, place + len(word))

    def words_before(self, place: int) -> str:
        """Return the words before a number in lower case, back to a digit, bracket, line, find or 40 characters."""
        first = max([place - 40, 0, *(end for _, end, _ in self.taken if end <= place)])
        return _BREAK.split(self.lowered[first:place].rstrip("+( "))[-1]

    def near_digits(self, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
        """Yield the matches of a pattern in or next to stretches of digits, outside `taken` spans."""
        for start, end in self.stretches:
            for first, last in self._free(max(start - 6, 0), min(end + 6, len(self.text))):
                yield from pattern.finditer(self.text, first, last)

    def _free(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the parts of a span outside `taken` spans."""
        for first, last, _ in self.taken:
            if start < last and first < end:
                if start < first:
                    yield start, first
                start = last
        if start < end:
            yield start, end

    def matches(self, begins: re.Pattern[str], pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
        """Yield matches of a pattern, without overlaps, at the places of another one (`beginning`)."""
        places = self._places.get(begins)
        if places is None:
            self._places[begins] = places = [match.start() for match in begins.finditer(self.text)]
        last = 0
        for place in places:
            if place >= last and (match := self._match(pattern, place)) is not None:
                last = match.end()
                yield match

    def _match(self, pattern: re.Pattern[str], place: int) -> re.Match[str] | None:
        for start, end, _ in self.taken:
            if place < start:
                return pattern.match(self.text, place, start)
            if place < end:
                return None
        return pattern.match(self.text, place)


def only_digits(text: str) -> str:
    """Return the digits of a text."""
    return re.sub(r"\D", "", text)


def beginning(characters: str, *alternatives: str, before: str) -> re.Pattern[str]:
    """Return a pattern of the first character of each text that one of the alternatives matches.

    A search for a pattern that begins by looking back tries every character of a text. This one skips to the next of
    `characters`, looks back (`before`, of two characters with that one), and only then tries the alternatives.
    """
    return re.compile(f"[{characters}]{before}(?<=(?={'|'.join(alternatives)}).)", re.ASCII)


_SEVEN_DIGITS = re.compile(r"\d" + r"[^\d\n]{0,3}\d" * 6, re.ASCII)
_BREAK = re.compile(r"[\d\n+(]")
_STRETCH = re.compile(r"\d" + r"[^\d\n]{0,3}\d" * 6 + r"(?:[^\d\n]{0,3}\d)*", re.ASCII)

# --- normalization --------------------------------------------------------------------------------------------------

_INVISIBLE = re.compile("[\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")
_SPACES = "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe63"


@cache
def _folded() -> dict[int, str]:
    """Return full-width characters, spaces, dashes and digits of other scripts with their ASCII character."""
    digits = {code: unicodedata.decimal(chr(code), None) for code in range(0x660, 0x1FBFA)}
    table = {code: str(digit) for code, digit in digits.items() if digit is not None}
    table |= {0xFEE0 + code: chr(code) for code in range(0x21, 0x7F)}
    return table | dict.fromkeys(map(ord, _SPACES), " ") | dict.fromkeys(map(ord, _DASHES), "-")


@cache
def _odd() -> re.Pattern[str]:
    signs = "".join(re.escape(chr(code)) for code in _folded() if code < 0x10000)
    # One range covers all further planes. A class with hundreds of such characters is a hundred times as slow.
    return re.compile(f"[{signs}{_INVISIBLE.pattern[1:-1]}\U00010000-\U0001fbff]")


def normalized(text: str) -> tuple[str, list[int] | None]:
    """Return a text with ASCII digits, spaces and dashes, without invisible characters.

    Returns:
        The text, and the place in the original of each character; None if every character kept its place.
    """
    if text.isascii() or _odd().search(text) is None:
        return text, None
    table = _folded()
    folded = _odd().sub(lambda match: table.get(ord(match.group()), match.group()), text)
    if _INVISIBLE.search(folded) is None:
        return folded, None
    places = [place for place, character in enumerate(folded) if not _INVISIBLE.match(character)]
    return "".join([folded[place] for place in places]), places
