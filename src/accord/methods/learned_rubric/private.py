"""Private details in assertions: names and identifiers of single conversations are flagged before a rubric is saved."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from accord.evidence import STOP_WORDS

HIDDEN = "[…]"
COMMON_SHARE = 0.1
"""A name that occurs in a larger share of the conversations belongs to the domain."""
FEW = 3
"""A name that occurs in no more conversations is theirs, however few conversations there are."""

_IDENTIFIERS = re.compile(
    r"""[\w.+-]+@[\w-]+(?:\.[\w-]+)+          # mail
      | https?://\S+ | \bwww\.\S+             # addresses
      | (?<!\w)@\w{2,}                        # handles
      | \b\d{1,3}(?:\.\d{1,3}){3}\b           # machines
      | (?<!\w)\+?\d[\d\s().-]{5,}\d          # telephone, card and account numbers
      | \b(?=\w*\d)(?=\w*[A-Za-z])\w{5,}\b    # order numbers, codes
      | \b\d{4,}\b""",
    re.VERBOSE,
)
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_BEGINS = re.compile(r"(?:^|[.!?:]\s+)[\"“'(]?$")


@dataclass(frozen=True)
class Names:
    """The words of some conversations, in how many of them each occurs, and which are no secret.

    What can be found is what is written with a capital in an assertion; scripts without capitals have no names here.
    """

    conversations: int
    seen: Counter[str]
    small: frozenset[str]
    known: frozenset[str]

    @classmethod
    def of(cls, texts: Iterable[str], known: str = "") -> Names:
        """The words of transcripts; `known` is text whose words are no secret, such as the task description."""
        seen: Counter[str] = Counter()
        small: set[str] = set()
        count = 0
        for text in texts:
            count += 1
            words = set(_words(text))
            seen.update({word.lower() for word in words})
            small |= {word for word in words if word.islower()}
        return cls(count, seen, frozenset(small), frozenset(word.lower() for word in _words(known)) | STOP_WORDS)

    def private(self, text: str) -> list[str]:
        """What in a text names somebody or something of a few conversations, in its order."""
        found = [match[0].strip() for match in _IDENTIFIERS.finditer(text)]
        text = text.replace("’", "'")
        return [*found, *(match[0] for match in _WORD.finditer(text) if self._names(match[0], text[: match.start()]))]

    def _names(self, word: str, before: str) -> bool:
        """Whether a word is a name: with a capital where no sentence begins, or nowhere seen without one."""
        lower = word.lower().removesuffix("'s")
        few = 0 < self.seen[lower] <= max(FEW, COMMON_SHARE * self.conversations)
        if not word[0].isupper() or len(word) < 2 or lower in self.known or not few:
            return False
        return lower not in self.small or _BEGINS.search(before) is None

    def hidden(self, text: str) -> str:
        """The text with every private detail blotted out, however it is written there."""
        for detail in sorted(set(self.private(text)), key=len, reverse=True):
            text = re.sub(rf"(?<!\w){re.escape(detail)}(?!\w)", HIDDEN, text.replace("’", "'"), flags=re.IGNORECASE)
        return text


def _words(text: str) -> list[str]:
    """The words of a text, none of them as a possessive."""
    return [word.removesuffix("'s") for word in _WORD.findall(text.replace("’", "'"))]
