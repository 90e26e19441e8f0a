"""Languages: word segmentation in any script, and language detection by function words.

Words are compared after NFKC normalization, with their combining marks. A script without blanks between words is cut at
its function words; the rest becomes overlapping runs of characters (McNamee and Mayfield, 2004).
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files

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
    """Return a language by its code.

    Raises:
        UnknownName: The code is unknown.
    """
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
