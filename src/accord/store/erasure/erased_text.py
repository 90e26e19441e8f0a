"""Traces of erased conversations in other texts: IDs, telling words, and words in a row.

Results of runs, reports and evaluators may quote a conversation. A text mentions it if it has

- its ID as a word, or followed by a turn: `chat-1#3`;
- a telling word of the conversation: seven or more characters with a digit or an @, except dates and times;
- eight words in a row of a user's message (the whole message if it has five to seven), or twelve of another one. In
  scripts without spaces, such as Japanese, two characters count as a word.

`keep_own` leaves out telling words and quotes that other conversations have too, such as the address of a product or a
shared document: they do not show which conversation a text mentions. An ordinary ID, such as `help` or `7`, or one that
is also the name of an assistant or of a setting, is found only with a turn or in a cell of its own (`has_cell`).
A name or another common word alone is not found.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
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
FEW_WORDS = 100
"""Number of telling words below which each is searched for on its own."""
SHORTEST_ID = 4
"""Smallest number of characters of an ID that is found as a word."""
LONGEST_WORD = 30
"""Largest number of letters of an ordinary word."""
_UNSPACED = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")
_UNSPACED_CHARACTER = re.compile(f"[{_UNSPACED}]")
"""A word, or a character of a script without spaces: Thai, Lao, Burmese, Khmer, Japanese, Chinese."""
_PIECE = re.compile(r"[^\s\"'<>()\[\]{},;=|\\]+")
_ENDS = ".:!?*_`#"
_TIME = re.compile(r"\d{4}-\d\d-\d\d(?:[t ]?[\d:.+z-]*)?|[\d.,%]{1,12}", re.ASCII)
_ESCAPE = re.compile(r'\\(?:u([0-9a-fA-F]{4})|(["\\/bfnrt]))')
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_CELLS, _NODES = re.compile(r'[",;\t\n\r|]'), re.compile("<[^<>]*>")
_OF_CONVERSATIONS = {"conversation", "conversations", "examples", "item_id", "target", "targets"}
"""Keys of results of runs whose values are conversations."""


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
        self._ordinary: set[str] = set()  # IDs
        self._taken: set[str] = set()  # ordinary IDs that are names of other things
        self._folded: set[str] = set()  # ordinary IDs in lower case
        self._words: set[str] = set()
        self._phrases: set[str] = set()
        self._quotes: dict[int, set[int]] = {}
        self._vocabulary: set[str] = set()  # words of the quotes
        self._shared: set[str | int] = set()
        for name in names:
            self._add_name(name)
        for conversation in conversations:
            self.add(conversation)

    def _add_name(self, name: str) -> None:
        self.ids.add(name)
        word = name.casefold()
        if word in self._shared or _is_ordinary(name):
            self._ordinary.add(name)
            self._folded.add(word)
        elif _PIECE.fullmatch(name) is not None and name.strip(_ENDS) == name:
            self._words.add(word)
        elif (phrase := " ".join(word.split())) not in self._shared:
            self._phrases.add(phrase)

    def add(self, conversation: Conversation) -> None:
        """Add a conversation."""
        self._add_name(conversation.id)
        for text, is_user in _texts(conversation):
            telling = (each for each in _pieces(text.casefold()) if _is_telling(each))
            self._words.update(each for each in telling if each not in self._shared)
            words = _words(text)
            length = _quote_length(words, is_user)
            runs = self._quotes.setdefault(length, set())
            runs.update(run for run in _runs(words, length) if run not in self._shared)
            self._vocabulary.update(words)

    def keep_own(self, others: Iterable[Conversation], common: Iterable[str] = ()) -> None:
        """Leave out telling words and quotes of other conversations, and of conversations that are added later.

        Args:
            others: Conversations that are not erased.
            common: Names that are used for other things, such as questions, annotators and settings. An ID among
                them is ordinary.
        """
        names = {each.casefold() for each in common}
        names.update(piece for each in tuple(names) for piece in _pieces(each))
        for other in others:
            names.add((other.system or "").casefold())
            self._shared.add(other.id.casefold())
            for text, _ in _texts(other):
                self._shared.update(self._telling_in(text.casefold()))
                self._shared.update(self._quoted_in(_words(text)))
        self._shared -= {each.casefold() for each in self.ids}  # an ID in another conversation is still this one's
        self._shared |= names
        self._taken |= {each for each in self.ids if each.casefold() in names}
        self._ordinary |= self._taken
        self._folded |= {each.casefold() for each in self._taken}
        self._leave_out_shared()

    def _leave_out_shared(self) -> None:
        if self._shared:
            self._words -= self._shared
            self._phrases -= self._shared
            for known in self._quotes.values():
                known -= self._shared

    def mentions(self, text: str) -> bool:
        """Return True if a text has an ID, a telling word or a quote; HTML and JSON escapes are resolved."""
        if any(self._is_named(each) for each in _readings(text)):
            return True
        return any(self._is_in(each.casefold()) for each in _readings(text))

    def _is_in(self, plain: str) -> bool:
        for piece in _pieces(plain):
            name, mark, turn = piece.rpartition("#")
            if piece in self._words or (mark and turn.isdecimal() and (name in self._words or name in self._folded)):
                return True
        if self._phrases:
            words = " ".join(plain.split())
            if any(phrase in words for phrase in self._phrases):
                return True
        return next(self._quoted_in(_WORD.findall(plain)), None) is not None

    def _telling_in(self, plain: str) -> set[str]:
        """Return the known words among the pieces of a text; most texts have none, which few searches show."""
        if len(self._words) < FEW_WORDS and not any(word in plain for word in self._words):
            return set()
        return self._words.intersection(_pieces(plain))

    def _quoted_in(self, words: Sequence[str]) -> Iterator[int]:
        """Yield the quotes in the words of a text, which are looked for where all words are known."""
        for is_known, group in groupby(words, self._vocabulary.__contains__):
            stretch = list(group) if is_known else []
            for length, known in self._quotes.items() if len(stretch) >= SHORTEST_MESSAGE else ():
                yield from known.intersection(_runs(stretch, length))

    def has_cell(self, text: str, is_page: bool = False) -> bool:
        """Return True if a cell of a line of a table or JSON, or an element of a page, is an ID."""
        parts, names = (_NODES, self.ids - self._taken) if is_page else (_CELLS, self.ids)
        return any(part.strip() in names for each in _readings(text) for part in parts.split(each))

    def scrub(self, value: Any, key: str = "") -> Any:
        """Return a JSON value without what mentions a conversation.

        A text becomes `ERASED`. An object or a list of texts and numbers that names a conversation by its ID is
        removed from its list, and so is an entry whose key is the ID. `key` is the key of the value; an ordinary ID is
        looked for below keys of conversations only.
        """
        if isinstance(value, str):
            return ERASED if self._is_named(value, key) or self.mentions(value) else value
        if isinstance(value, dict):
            kept = {name: inner for name, inner in value.items() if not self._is_named(name, key)}
            return {name: self.scrub(inner, name if name in _OF_CONVERSATIONS else "") for name, inner in kept.items()}
        if isinstance(value, list):
            return [self.scrub(inner, key) for inner in value if not self._names_one(inner, key)]
        return value

    def _is_named(self, text: Any, key: str = "") -> bool:
        """Return True for an ID, also with a turn."""
        if not isinstance(text, str):
            return False
        name, mark, turn = text.rpartition("#")
        if mark and turn.isdecimal() and name in self.ids:
            return True
        return text in self.ids and (text not in self._ordinary or key in _OF_CONVERSATIONS)

    def _names_one(self, value: Any, key: str) -> bool:
        """Return True for an ID, or a row with one."""
        if isinstance(value, str):
            return self._is_named(value, key)
        if isinstance(value, dict):
            return any(self._is_named(cell, name) for name, cell in value.items())
        return isinstance(value, list) and any(self._is_named(cell, key) for cell in value)


def _texts(conversation: Conversation) -> Iterator[tuple[str, bool]]:
    """Yield every text of a conversation, with True for messages of users.

    Texts of calls and results of tools may be JSON, which is read with its escapes resolved.
    """
    for turn in conversation.turns:
        is_user = turn.role not in {"assistant", "system", "tool", "developer", "function"}
        yield from ((text, is_user) for text in ([turn.content] if is_user else _readings(turn.content)))
        for text in strings_in([turn.name, dict(turn.extra)]) if turn.name or turn.extra else ():
            yield from ((each, False) for each in _readings(text))
    for document in conversation.documents:
        yield from ((text, False) for text in (document.text, document.title or "", document.id or ""))
    yield from ((text, False) for text in strings_in(dict(conversation.metadata)))


def strings_in(value: Any, keys: bool = False) -> Iterator[str]:
    """Yield all texts in a JSON value; with `keys`, the names of its entries too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if keys and isinstance(key, str):
                yield key
            yield from strings_in(inner, keys)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from strings_in(inner, keys)


def _readings(text: str) -> list[str]:
    """Return a text as it is, and with escapes of HTML and JSON resolved if it has any."""
    plain = html.unescape(text) if "&" in text else text
    if "\\" not in plain:
        return [plain]
    resolved = _ESCAPE.sub(
        lambda found: chr(int(found[1], 16)) if found[1] else _ESCAPED.get(found[2], found[2]), plain
    )
    return [plain, resolved.encode("utf-16", "surrogatepass").decode("utf-16", "replace")]


def _pieces(text: str) -> Iterator[str]:
    """Yield the pieces of a text between spaces, quotes and brackets."""
    return (piece.strip(_ENDS) for piece in _PIECE.findall(text))


def _is_telling(piece: str) -> bool:
    has_sign = any(letter.isdigit() or letter == "@" for letter in piece)
    return len(piece) >= TELLING and has_sign and not _TIME.fullmatch(piece)


def _is_ordinary(name: str) -> bool:
    """Return True for an ID that occurs as a word or number of other texts: `help`, `7`, `1000`."""
    has_letter = any(letter.isalpha() for letter in name)
    is_word = name.isalpha() and len(name) <= LONGEST_WORD
    return len(name) < SHORTEST_ID or is_word or (not has_letter and len(name) < TELLING)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _quote_length(words: Sequence[str], is_user: bool) -> int:
    """Return the number of words in a row that are a quote of a message."""
    unspaced = sum(len(word) == 1 and _UNSPACED_CHARACTER.match(word) is not None for word in words)
    scale = 2 if 2 * unspaced > len(words) else 1
    length = scale * (USER_WORDS if is_user else OTHER_WORDS)
    return len(words) if is_user and scale * SHORTEST_MESSAGE <= len(words) < length else length


def _runs(words: Sequence[str], length: int) -> Iterator[int]:
    """Yield a hash of each `length` words in a row."""
    return (hash(tuple(words[start : start + length])) for start in range(len(words) - length + 1))
