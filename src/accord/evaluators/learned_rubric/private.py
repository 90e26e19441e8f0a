"""Private details in assertions: names and identifiers of single conversations are flagged before a rubric is saved."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

HIDDEN = "[…]"
COMMON_SHARE = 0.05
"""A name that occurs in a larger share of the conversations belongs to the domain."""
FEW = 3
"""A name that occurs in fewer conversations is theirs, however few conversations there are."""

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


@dataclass(frozen=True)
class Names:
    """Words that are written with a capital wherever they occur in some conversations, and in how many of them."""

    conversations: int
    seen: Counter[str]

    @classmethod
    def of(cls, texts: Iterable[str], known: str = "") -> Names:
        """The names in transcripts; `known` is text whose words are no secret, such as the task description."""
        capital: Counter[str] = Counter()
        small: set[str] = {word.lower() for word in _WORD.findall(known)}
        count = 0
        for text in texts:
            count += 1
            words = set(_WORD.findall(text))
            capital.update({word.lower() for word in words if word[0].isupper()})
            small |= {word for word in words if word.islower()}
        return cls(count, Counter({word: n for word, n in capital.items() if word not in small and len(word) > 1}))

    def private(self, text: str) -> list[str]:
        """What in a text names somebody or something of a few conversations, in its order."""
        limit = max(FEW, COMMON_SHARE * self.conversations)
        found = [match[0].strip() for match in _IDENTIFIERS.finditer(text)]
        names = (match[0] for match in _WORD.finditer(text) if match[0][0].isupper())
        return [*found, *(name for name in names if 0 < self.seen[name.lower()] < limit)]

    def hidden(self, text: str) -> str:
        """The text with every private detail blotted out."""
        for detail in sorted(set(self.private(text)), key=len, reverse=True):
            text = text.replace(detail, HIDDEN)
        return text
