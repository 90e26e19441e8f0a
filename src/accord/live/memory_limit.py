"""Memory of live scoring: one limit in bytes for all parts, which forget the least recently used entries.

Python cannot measure the memory that an object keeps alive, so bytes are estimates: the size of each text, and for
structures of its words the measured maximum (short distinct words of a script beyond Latin-1).
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
"""Bytes of an empty conversation, of a turn without its text, and of the result of a message with an id."""
DOCUMENT_WORDS = 20
"""Words added per document to its own: each document is compared with a reply separately."""
DIGEST = 100
"""Bytes of a digest of a turn."""
WORD = 250
"""Bytes of a word of a document: its stem and its places in each passage."""


def turn_bytes(text: str) -> int:
    """Return the bytes of a turn; sources count their sessions themselves (`Source.session`)."""
    return TURN + getsizeof(text)


class MemoryBudget:
    """A limit in bytes shared by the scorer's conversations and other parts.

    Attributes:
        most: The limit.
        used: Bytes in use.
    """

    def __init__(self, most: float = inf) -> None:
        self.most, self.used = most, 0
        self._lock = Lock()
        self._shared: list[tuple[Callable[[], float], Callable[[], None]]] = []

    def share(self, oldest: Callable[[], float], let_go: Callable[[], None]) -> None:
        """Register a part: the last use of its oldest entry (seconds; `inf` without any), and how to forget it."""
        self._shared.append((oldest, let_go))

    def makes_room(self, before: float) -> bool:
        """Forget the least recently used entry of other parts if it was used before a time; return True if one was."""
        times = [(oldest(), let_go) for oldest, let_go in self._shared]
        first, let_go = min(times, key=lambda each: each[0], default=(inf, None))
        if let_go is None or first >= before:
            return False
        let_go()
        return True

    def take(self, size: int) -> None:
        """Add bytes; negative for released ones."""
        with self._lock:
            self.used += size

    @property
    def is_full(self) -> bool:
        """True if the limit is exceeded."""
        return self.used > self.most


@dataclass
class _SharedDocument:
    """A document with the number of conversations that use it."""

    document: Document
    words: int
    size: int
    uses: int = 0


class SharedDocuments:
    """The documents of all conversations, each stored once as long as a conversation uses it.

    Args:
        words: Maximum number of words of all documents of a message.
        memory: Limit that counts them.
    """

    def __init__(self, words: int, memory: MemoryBudget) -> None:
        self.words, self.memory = words, memory
        self._known: dict[str, _SharedDocument] = {}

    def show(self, texts: Sequence[str]) -> tuple[tuple[Document, ...], bool]:
        """Return documents of texts within the limit of words, and False if some were truncated; counts their use."""
        found: list[Document] = []
        left, whole = self.words, True
        for text in texts:
            if left <= 0 or not whole:
                return tuple(found), False
            entry = self._known.get(text)
            if entry is None or entry.words > left:
                clean = sendable(text)
                short = first_words(clean, left)
                entry, whole = self._of(short), short == clean
            entry.uses += 1
            left -= entry.words + DOCUMENT_WORDS
            found.append(entry.document)
        return tuple(found), whole

    def _of(self, text: str) -> _SharedDocument:
        if text not in self._known:
            words = word_count(text)
            entry = self._known[text] = _SharedDocument(
                Document(text), words, TURN + 2 * getsizeof(text) + WORD * words
            )
            self.memory.take(entry.size)
        return self._known[text]

    def let_go(self, documents: Sequence[Document]) -> None:
        """Release documents of a conversation."""
        for document in documents:
            entry = self._known[document.text]
            entry.uses -= 1
            if entry.uses == 0:
                del self._known[document.text]
                self.memory.take(-entry.size)
