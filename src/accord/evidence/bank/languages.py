"""Languages: how a text becomes words in any script, and which language it is in, told by its function words.

Words are compared after NFKC, with their combining marks. A script without blanks between words is cut at its function
words, and what is left is taken in runs of characters that overlap (McNamee and Mayfield, 2004).
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
    """A language whose words can be told apart; each is made once.

    Attributes:
        code: Of ISO 639-1, or `und` for one that is not known.
        script: What it is written in.
        stemmer: Snowball's name of it; `None` where words are their own stems.
        function_words: What carries no content; where words are not written apart, the strings that runs are cut at.
    """

    code: str
    script: str
    stemmer: str | None
    function_words: frozenset[str]

    @property
    def made_with(self) -> str:
        """Its part of a signature."""
        return f"{self.code}-stop-{len(self.function_words)}+{self.stemmer or 'plain'}"

    @property
    def has_blanks(self) -> bool:
        """Whether its words are written apart."""
        return self.script not in _GRAMS and self.script not in _SCRIPT_OF.values()

    @property
    def caution(self) -> str | None:
        """What is to be said of whatever is counted in it, where it is not known."""
        if self.code != UNDETERMINED:
            return None
        return f"no known language was recognised ({self.script} script): its words are compared as they stand"

    @cached_property
    def _cut(self) -> re.Pattern[str]:
        longest_first = sorted(map(re.escape, self.function_words), key=len, reverse=True)
        return re.compile(f"({'|'.join(longest_first)})" if longest_first else "(?!)")

    def grams(self, run: str, kind: str) -> Iterator[str]:
        """A run of characters without blanks: its function words, and what stands between them in overlapping parts."""
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
"""Characters of a part, by script: as many as tell a word."""
RUN, _LETTERS = "run", 4
"""A run of letters whose blanks are missing is taken in parts of so many."""
_SCRIPT_OF = {"hiragana": "kana", "katakana": "kana"}
_SCRAPS = {"hiragana": 2, "katakana": 1, "hangul": 1, "thai": 1, "lao": 1, "myanmar": 1, "khmer": 1}
"""What is so short between function words is the ending of one."""
_KINDS = re.compile("|".join(f"(?P<{name}>[{_RANGES[name]}]+)" for name in _GRAMS))
_SCRAP = re.compile("|".join(f"[{_RANGES[name]}]{{1,{most}}}" for name, most in _SCRAPS.items()))


# --- characters and words ------------------------------------------------------------------------------------------

_ASCII_WORD = re.compile(r"[a-zA-Z0-9]+(?:'[a-zA-Z]+)?")
_UNSEEN = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufe00-\ufe0f\u0640\u2116\u2120\u2122]")
"""What is not seen, or says nothing of a word: joiners, marks of direction, a stretched stroke, a trade mark."""


def normalised(text: str) -> str:
    """A text as its words are compared: NFKC, small letters, without what is not seen."""
    if text.isascii():
        return text.lower()
    plain = _UNSEEN.sub("", text)
    return unicodedata.normalize("NFKC", plain).lower()


@cache
def _word() -> re.Pattern[str]:
    found = [chr(code) for code in range(0x300, 0x20000) if unicodedata.category(chr(code)) in ("Mn", "Mc")]
    marks = "".join(each for each in found if not "\ufe00" <= each <= "\ufe0f")
    return re.compile(rf"[^\W_]+(?:[{marks}]+[^\W_]*)*(?:'[^\W\d_]+(?:[{marks}]+[^\W\d_]*)*)?")


def word_pattern(text: str) -> re.Pattern[str]:
    """What stands between blanks and signs in a text: letters and digits of any script, with their combining marks."""
    return _ASCII_WORD if text.isascii() else _word()


def cut(word: str, language: Language) -> list[str]:
    """A run as words: itself, or what it is cut into where its script has no blanks."""
    if word.isascii() or not _KINDS.search(word):
        return [word]
    found, end = [], 0
    for match in _KINDS.finditer(word):
        found += [word[end : match.start()]] if match.start() > end else []
        found += language.grams(match.group(), str(match.lastgroup))
        end = match.end()
    return [each for part in (*found, word[end:]) if (each := part.strip("'"))]


def is_scrap(word: str) -> bool:
    """Whether it is too short to be a word in a script without blanks."""
    return _SCRAP.fullmatch(word) is not None


# --- which language --------------------------------------------------------------------------------------------------


def _read() -> Iterator[Language]:
    for paragraph in _LISTS.read_text(encoding="utf-8").split("\n\n")[1:]:
        head, _, rest = paragraph.partition("\n")
        code, script, stemmer = head.split()
        words = frozenset(map(normalised, rest.split()))
        yield Language(code, script, None if stemmer == "-" else stemmer, words)


LANGUAGES: Mapping[str, Language] = {language.code: language for language in _read()}
"""The languages that are known, English first."""
ENGLISH = LANGUAGES["en"]
OTHERS = f"{len(LANGUAGES) - 1}-others-{content_hash(_LISTS.read_text(encoding='utf-8'), length=8)}"
"""The other languages in a signature."""
_BY_WORD: dict[str, tuple[str, ...]] = {
    word: tuple(each.code for each in LANGUAGES.values() if word in each.function_words)
    for word in frozenset().union(*(each.function_words for each in LANGUAGES.values()))
    if len(word) > 1  # letters are spelt out in any language
}
_OF_SCRIPT = {
    script: [each for each in LANGUAGES.values() if each.script == script]
    for script in {each.script for each in LANGUAGES.values()}
}
_LOOKED_AT = 200
"""Words of a text, by which its language is told."""
_LEAD = 2
"""A language has so many function words more than that of what was said before, or that one stays."""
_FEWEST, _SHARE = 16, 0.08
"""Of so many words at least this share are function words in any language that is known."""


def named_language(code: str) -> Language:
    """A language by its code.

    Raises:
        UnknownName: It is none of those that are known.
    """
    if code not in LANGUAGES:
        raise UnknownName("language", code, LANGUAGES)
    return LANGUAGES[code]


def recognised(pieces: Sequence[str], before: Language) -> Language:
    """The language of what stands between blanks; that of what was said before where it cannot be told."""
    text = " ".join(pieces[:_LOOKED_AT])[: 10 * _LOOKED_AT]
    words = word_pattern(text).findall(text)
    script = _script_of("".join(words))
    if script is None:
        return before
    if script == "han" and before.script == "kana":
        return before
    mine = _OF_SCRIPT.get(script)
    if mine is None:
        return _undetermined(script)
    if mine[0].stemmer is None:
        return mine[0]
    hits = Counter(code for word in words for code in _BY_WORD.get(word) or _BY_WORD.get(word.partition("'")[0], ()))
    stays = before if before.script == script else mine[0]
    best = max(mine, key=lambda each: hits[each.code]) if hits else stays
    if hits[best.code] < hits[stays.code] + _LEAD:
        best = stays
    is_known = len(words) < _FEWEST or hits[best.code] >= _SHARE * len(words)
    return best if is_known else _undetermined(script)


@cache
def _undetermined(script: str) -> Language:
    return Language(UNDETERMINED, script, None, frozenset())


def _script_of(letters: str) -> str | None:
    """What most of some letters are written in; `None` where there are no letters."""
    if letters.isascii():
        return "latin" if any(map(str.isalpha, letters)) else None
    found = Counter({name: len(re.findall(f"[{each}]", letters)) for name, each in _RANGES.items()})
    kana = found.pop("hiragana") + found.pop("katakana")
    if kana * 10 >= found["han"]:
        found["kana"] = kana + (found.pop("han") if kana else 0)
    known = found.most_common(1)[0]
    others = [each for each in letters if each.isalpha()]
    if 2 * found.total() >= len(others):
        return known[0] if known[1] else None
    return Counter(unicodedata.name(each, "unknown").split()[0].lower() for each in others).most_common(1)[0][0]
