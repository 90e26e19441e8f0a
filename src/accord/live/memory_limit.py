"""What live scoring remembers, counted in bytes against one bound: what was used longest ago makes room.

Python does not say what an object keeps alive, so that bytes are estimated: those of each text, and for what is made
of its words as much as was measured of the most costly ones (short words that all differ, of a script beyond Latin-1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from sys import getsizeof
from threading import Lock

from accord.edges import sendable
from accord.evidence import first_words, word_count
from accord.values import Document

CONVERSATION, TURN, RESULT = 2500, 400, 4500
"""Bytes that a conversation counts before anything is said, a turn beside its text, and a score that is kept for a
message with an id, in case it comes again."""
APART = 20
"""Words that a document counts beside its own: each is held against a reply by itself."""
DIGEST = 100
"""Bytes of a digest of what was said."""
SHOWN = 250
"""Bytes that a word of a document counts: its stem, and its places in each passage."""


def said_size(text: str) -> int:
    """The bytes that a turn counts; what sources make of it they count themselves (`Source.session`)."""
    return TURN + getsizeof(text)


class Room:
    """Bytes that several parts keep within one bound; the scorer's conversations, and whoever shares it with them.

    Attributes:
        most: The bound.
        used: What is kept at present.
    """

    def __init__(self, most: float = inf) -> None:
        self.most, self.used = most, 0
        self._lock = Lock()
        self._shared: list[tuple[Callable[[], float], Callable[[], None]]] = []

    def share(self, oldest: Callable[[], float], let_go: Callable[[], None]) -> None:
        """Take another part in: when what it used longest ago was used (seconds, `inf` for nothing), and its end."""
        self._shared.append((oldest, let_go))

    def makes_room(self, before: float) -> bool:
        """Let go of what other parts used longest ago, if that was before some time; whether there was any."""
        times = [(oldest(), let_go) for oldest, let_go in self._shared]
        first, let_go = min(times, key=lambda each: each[0], default=(inf, None))
        if let_go is None or first >= before:
            return False
        let_go()
        return True

    def take(self, size: int) -> None:
        """Count some bytes; those that were let go of are negative."""
        with self._lock:
            self.used += size

    @property
    def is_full(self) -> bool:
        """Whether more is kept than may be."""
        return self.used > self.most


@dataclass
class _Shown:
    """A document, and how many conversations show it."""

    document: Document
    words: int
    size: int
    uses: int = 0


class Documents:
    """The documents of all conversations: each is kept and counted once, as long as a conversation shows it.

    Args:
        words: As many words of the documents of a message are looked at, over all of them.
        room: Where they are counted.
    """

    def __init__(self, words: int, room: Room) -> None:
        self.words, self.room = words, room
        self._known: dict[str, _Shown] = {}

    def show(self, texts: Sequence[str]) -> tuple[tuple[Document, ...], bool]:
        """Documents of these texts as far as they are looked at, each in use once more; and whether that is all."""
        found: list[Document] = []
        left, whole = self.words, True
        for text in texts:
            if left <= 0 or not whole:
                return tuple(found), False
            shown = self._known.get(text)
            if shown is None or shown.words > left:
                said = sendable(text)
                short = first_words(said, left)
                shown, whole = self._of(short), short == said
            shown.uses += 1
            left -= shown.words + APART
            found.append(shown.document)
        return tuple(found), whole

    def _of(self, text: str) -> _Shown:
        if text not in self._known:
            words = word_count(text)
            shown = self._known[text] = _Shown(Document(text), words, TURN + 2 * getsizeof(text) + SHOWN * words)
            self.room.take(shown.size)
        return self._known[text]

    def let_go(self, documents: Sequence[Document]) -> None:
        """Documents that a conversation shows no more."""
        for document in documents:
            shown = self._known[document.text]
            shown.uses -= 1
            if shown.uses == 0:
                del self._known[document.text]
                self.room.take(-shown.size)
