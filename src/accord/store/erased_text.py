"""Traces of erased conversations in other texts: IDs, telling words, and words in a row.

Results of runs, reports and evaluators may quote a conversation. A text mentions it if it has

- its ID as a word;
- a telling word of the conversation: seven or more characters with a digit or an @, except dates and times;
- eight words in a row of a user's message (the whole message if it has five to seven), or twelve of another one.

A name or another common word alone is not found.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from accord.values import Conversation

ERASED = "(erased)"
"""Text in place of one that mentioned an erased conversation."""
USER_WORDS, OTHER_WORDS = 8, 12
"""Words in a row that are a quote of a user's message, and of another one."""
SHORTEST_MESSAGE = 5
"""Smallest number of words of a user's message that is a quote as a whole."""
TELLING = 7
"""Smallest number of characters of a telling word."""
_WORD = re.compile(r"\w+")
_PIECE = re.compile(r"[^\s\"'<>()\[\]{},;=|\\]+")
_ENDS = ".:!?*_`#"
_TIME = re.compile(r"\d{4}-\d\d-\d\d(?:[t ]?[\d:.+z-]*)?|[\d.,%]{1,12}", re.ASCII)


class ErasedText:
    """Search terms of erased conversations: IDs, telling words and quotes.

    >>> from accord.values import Turn
    >>> chat = Conversation("chat-1", (Turn("user", "My number is 0171-5550100, please call me back"),))
    >>> found = ErasedText([chat])
    >>> found.mentions("worst: chat-1#3"), found.mentions("call 0171-5550100"), found.mentions("please call me")
    (True, True, False)
    """

    def __init__(self, conversations: Iterable[Conversation] = (), names: Iterable[str] = ()) -> None:
        """`names` are further IDs, or names of annotators."""
        self.ids: set[str] = set()
        self._words: set[str] = set()
        self._phrases: set[str] = set()
        self._quotes: dict[int, set[int]] = {}
        for name in names:
            self._add_name(name)
        for conversation in conversations:
            self.add(conversation)

    def _add_name(self, name: str) -> None:
        self.ids.add(name)
        is_word = _PIECE.fullmatch(name) is not None and name.strip(_ENDS) == name
        (self._words if is_word else self._phrases).add(name.casefold())

    def add(self, conversation: Conversation) -> None:
        """Add a conversation."""
        self._add_name(conversation.id)
        for text, is_user in _texts(conversation):
            self._words.update(filter(_is_telling, _pieces(text.casefold())))
            words = _WORD.findall(text.casefold())
            length = USER_WORDS if is_user else OTHER_WORDS
            if is_user and SHORTEST_MESSAGE <= len(words) < length:
                length = len(words)
            self._quotes.setdefault(length, set()).update(_runs(words, length))

    def mentions(self, text: str) -> bool:
        """Return True if a text has an ID, a telling word or a quote; HTML and JSON escapes are resolved."""
        if not self.ids.isdisjoint((text, text.rpartition("#")[0])):
            return True
        plain = _unescaped(text).casefold()
        if any(part in self._words for piece in _pieces(plain) for part in (piece, piece.partition("#")[0])):
            return True
        if any(phrase in plain for phrase in self._phrases):
            return True
        words = _WORD.findall(plain)
        return any(not known.isdisjoint(_runs(words, length)) for length, known in self._quotes.items())

    def scrub(self, value: Any) -> Any:
        """Return a JSON value without what mentions a conversation.

        A text becomes `ERASED`. An object or a list of texts and numbers that names a conversation by its ID is
        removed from its list, and so is an entry whose key is the ID.
        """
        if isinstance(value, str):
            return ERASED if self.mentions(value) else value
        if isinstance(value, dict):
            return {key: self.scrub(inner) for key, inner in value.items() if not self._is_named(key)}
        if isinstance(value, list):
            return [self.scrub(inner) for inner in value if not self._names_one(inner)]
        return value

    def _is_named(self, text: Any) -> bool:
        return isinstance(text, str) and (text in self.ids or text.rpartition("#")[0] in self.ids)

    def _names_one(self, value: Any) -> bool:
        """Return True for an ID, or a row with one."""
        if isinstance(value, str):
            return self._is_named(value)
        cells = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return any(self._is_named(cell) for cell in cells)


def _texts(conversation: Conversation) -> Iterator[tuple[str, bool]]:
    """Yield every text of a conversation, with True for messages of users."""
    for turn in conversation.turns:
        yield turn.content, turn.role not in {"assistant", "system", "tool", "developer", "function"}
        yield from ((text, False) for text in _strings([turn.name, dict(turn.extra)]))
    for document in conversation.documents:
        yield from ((text, False) for text in (document.text, document.title or "", document.id or ""))
    yield from ((text, False) for text in _strings(dict(conversation.metadata)))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _strings(inner)


def _unescaped(text: str) -> str:
    plain = html.unescape(text) if "&" in text else text
    if "\\u" in plain or "\\n" in plain:
        plain = re.sub(r"\\u([0-9a-fA-F]{4})", lambda match: chr(int(match[1], 16)), plain)
        plain = re.sub(r"\\[nrt]", " ", plain)
    return plain


def _pieces(text: str) -> Iterator[str]:
    """Yield the pieces of a text between spaces, quotes and brackets."""
    return (piece.strip(_ENDS) for piece in _PIECE.findall(text))


def _is_telling(piece: str) -> bool:
    has_sign = any(letter.isdigit() or letter == "@" for letter in piece)
    return len(piece) >= TELLING and has_sign and not _TIME.fullmatch(piece)


def _runs(words: Sequence[str], length: int) -> Iterator[int]:
    """Yield a hash of each `length` words in a row."""
    return (hash(tuple(words[start : start + length])) for start in range(len(words) - length + 1))
