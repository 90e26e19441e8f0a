"""Normalized texts in which rules of redaction search, and the searches that they share."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cache

Spans = Iterator[tuple[int, int]]
NUMBER_BEGINS = re.compile(r"[0-9(+XYZxyz](?<![A-Za-z0-9+].)(?=(?:[ .\-/()+]{0,3}[\dAB]){6})", re.ASCII)
"""First character of a possible number of a card, a country or a telephone: seven digits or more."""


class SearchedText:
    """A normalized text (`normalized`), with searches that several rules share.

    Attributes:
        text: The text.
        lowered: The text in lower case, of the same length.
        taken: Spans without overlaps, in order, that other rules have found: no telephone number is searched there.
    """

    __slots__ = ("_digits", "_ends", "_places", "_stretches", "lowered", "taken", "text")

    def __init__(self, text: str) -> None:
        self.text, self.lowered = text, text.replace("\u0130", "i").lower()
        self.taken: Sequence[tuple[int, int, str]] = ()
        self._ends: list[int] = []
        self._digits: bool | None = None
        self._stretches: list[tuple[int, int]] | None = None
        self._places = dict[re.Pattern[str], list[int]]()

    def take(self, spans: Sequence[tuple[int, int, str]]) -> None:
        """Set `taken`."""
        self.taken, self._ends = tuple(spans), [end for _, end, _ in spans]

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
        number = bisect_right(self._ends, place)
        first = max(place - 40, 0, self._ends[number - 1] if number else 0)
        return _BREAK.split(self.lowered[first:place].rstrip("+( "))[-1]

    def near_digits(self, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
        """Yield the matches of a pattern in or next to stretches of digits, outside `taken` spans."""
        for start, end in self.stretches:
            for first, last in self._free(max(start - 6, 0), min(end + 6, len(self.text))):
                yield from pattern.finditer(self.text, first, last)

    def _free(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the parts of a span outside `taken` spans."""
        for number in range(bisect_right(self._ends, start), len(self.taken)):
            first, last, _ = self.taken[number]
            if first >= end:
                break
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
        last, match_at = 0, self._match if self.taken else self._match_anywhere
        for place in places:
            if place >= last and (match := match_at(pattern, place)) is not None:
                last = match.end()
                yield match

    def _match_anywhere(self, pattern: re.Pattern[str], place: int) -> re.Match[str] | None:
        return pattern.match(self.text, place)

    def _match(self, pattern: re.Pattern[str], place: int) -> re.Match[str] | None:
        number = bisect_right(self._ends, place)
        if number == len(self.taken):
            return pattern.match(self.text, place)
        start = self.taken[number][0]
        return pattern.match(self.text, place, start) if place < start else None


def only_digits(text: str) -> str:
    """Return the digits of a text."""
    return _NO_DIGITS.sub("", text)


def beginning(characters: str, *alternatives: str, before: str) -> re.Pattern[str]:
    """Return a pattern of the first character of each text that one of the alternatives matches.

    A search for a pattern that begins by looking back tries every character of a text. This one skips to the next of
    `characters`, looks back (`before`, of two characters with that one), and only then tries the alternatives.
    """
    return re.compile(f"[{characters}]{before}(?<=(?={'|'.join(alternatives)}).)", re.ASCII)


_NO_DIGITS = re.compile(r"\D+", re.ASCII)
_SEVEN_DIGITS = re.compile(r"\d" + r"[^\d\n]{0,3}\d" * 6, re.ASCII)
_BREAK = re.compile(r"[\d\n+(]")
_STRETCH = re.compile(r"\d" + r"[^\d\n]{0,3}\d" * 6 + r"(?:[^\d\n]{0,3}\d)*", re.ASCII)

# --- normalization --------------------------------------------------------------------------------------------------

_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
_IGNORED = "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0"
"""Marks and letters that are not shown; characters of the Unicode category of formats are not listed."""
_STRAY_MARK = re.compile("(?<![^\\W\\d_])[\u0300-\u036f]")
"""A combining mark that stands on no letter; on a digit it hides the number."""


class _Folded(dict[int, str]):
    """ASCII character in place of each character that looks like it; an empty text for one that is not shown."""

    def __missing__(self, code: int) -> str:
        self[code] = found = _folded(chr(code))
        return found


def _folded(character: str) -> str:
    """Return a space, dash, digit, letter or sign of ASCII, an empty text, or the character itself.

    Digits of other scripts, full-width characters and circled or mathematical ones look like an ASCII character.
    Formats, variation selectors, enclosing and striking marks, and control characters change no character.
    """
    code, category = ord(character), unicodedata.category(character)
    if character.isspace():
        return character if code < 128 or character in "\x85\u2028\u2029" else " "
    if category in ("Cf", "Me", "Cc") or character in _IGNORED or 0x334 <= code <= 0x338 or 0x20D0 <= code <= 0x20FF:
        return ""
    if 0xFE00 <= code <= 0xFE0F or 0xE0000 <= code <= 0xE0FFF:
        return ""
    if character in _DASHES:
        return "-"
    digit = unicodedata.digit(character, None)
    plain = unicodedata.normalize("NFKC", character) if digit is None else str(digit)
    return plain if len(plain) == 1 and plain.isascii() else character


_FOLDED = _Folded()


@cache
def _odd() -> re.Pattern[str]:
    """Return a pattern of the characters that may change; letters of the large scripts do not."""
    large = ((0x3400, 0xA000), (0xAC00, 0xD7A4), (0xD800, 0xF900))
    codes = [code for code in range(0x80, 0x10000) if not any(first <= code < end for first, end in large)]
    odd = "".join(re.escape(chr(code)) for code in codes if _folded(chr(code)) != chr(code))
    return re.compile(f"[\x00-\x08\x0e-\x1b\x7f\u0300-\u036f{odd}\U00010000-\U0010ffff]")


def normalized(text: str) -> tuple[str, list[int] | None]:
    """Return a text with ASCII digits, spaces and dashes, without invisible characters.

    Returns:
        The text, and the place in the original of each character, or `None` if every character kept its place.
    """
    if (text.isascii() and text.isprintable()) or _odd().search(text) is None:
        return text, None
    plain = text.translate(_FOLDED)
    strays = {match.start() for match in _STRAY_MARK.finditer(plain)}
    if len(plain) == len(text) and not strays:
        return plain, None
    places = [place for place, character in enumerate(text) if _FOLDED[ord(character)]]
    if strays:
        places = [place for number, place in enumerate(places) if number not in strays]
        plain = _STRAY_MARK.sub("", plain)
    return plain, places
