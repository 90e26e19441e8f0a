"""Normalized texts in which rules of redaction search, and the searches that they share."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache, cached_property


class SearchedText:
    """A normalized text (`normalized`), with searches that several rules share.

    Attributes:
        text: The text.
    """

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def lowered(self) -> str:
        """The text in lower case, of the same length."""
        return self.text.replace("\u0130", "i").lower()

    @cached_property
    def stretches(self) -> list[tuple[int, int]]:
        """Spans with at least seven digits and few signs between them."""
        return [match.span() for match in _STRETCH.finditer(self.text)]

    @cached_property
    def has_digits(self) -> bool:
        """True if there are seven digits close to each other."""
        return _SEVEN_DIGITS.search(self.text) is not None

    def has(self, *words: str) -> bool:
        """Return True if one of the words, in lower case, is in the text."""
        return any(word in self.lowered for word in words)

    def places(self, words: tuple[str, ...]) -> list[int]:
        """Return the places of words in lower case, in order."""
        found = []
        for word in words:
            place = self.lowered.find(word)
            while place >= 0:
                found.append(place)
                place = self.lowered.find(word, place + len(word))
        return sorted(set(found))

    def words_before(self, place: int) -> str:
        """Return the words before a number in lower case, back to the last digit, bracket, line or 40 characters."""
        return _BREAK.split(self.lowered[max(place - 40, 0) : place].rstrip("+( "))[-1]

    def near_digits(self, pattern: re.Pattern[str], least: int = 7, before: int = 6) -> Iterator[re.Match[str]]:
        """Yield the matches of a pattern in or next to stretches of digits, each of at least `least` characters."""
        for start, end in self.stretches:
            if end - start >= least:
                yield from pattern.finditer(self.text, max(start - before, 0), min(end + 6, len(self.text)))


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
