"""Search for words in the texts of conversations, in any language.

The databases compare letters beyond ASCII by case only with extensions, so the texts are compared here. The database
leaves out conversations in ASCII that lack a word. A search covers at most `MAX_SEARCHED` conversations, and the
results of the latest searches are kept until the store changes.
"""

from __future__ import annotations

import unicodedata
from collections import OrderedDict
from dataclasses import dataclass
from functools import cache
from threading import Lock

import msgspec
from sqlalchemy import ColumnElement, and_, false, func, or_, select, true

from accord.edges import BadInput
from accord.store.engine import read_json
from accord.store.schema import conversations
from accord.store.store import Store

MAX_SEARCHED = 50_000
"""Maximum number of conversations that a search reads, the first ones by ID."""
MAX_WORDS, MAX_LENGTH = 10, 200
"""Maximum number of words in a search, and its maximum length in characters."""
_CACHED_SEARCHES = 16


class _Turn(msgspec.Struct):
    content: str = ""


class _Texts(msgspec.Struct):
    turns: list[_Turn] = []


_DECODER = msgspec.json.Decoder(_Texts)


@dataclass(frozen=True)
class FoundTexts:
    """IDs of the conversations that contain all words, and the number of conversations that were not read."""

    ids: frozenset[str]
    unread: int


def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a search in a form that compares without case.

    Raises:
        BadInput: The search is too long or has too many words.

    >>> words_of("  Straße STRASSE ﬁle ")
    ('file', 'strasse')
    """
    if len(text) > MAX_LENGTH:
        raise BadInput(f"find: got {len(text):,} characters, allowed: {MAX_LENGTH}; search for a few words")
    words = tuple(sorted(set(_folded(text).split())))
    if len(words) > MAX_WORDS:
        raise BadInput(f"find: got {len(words)} words, allowed: {MAX_WORDS}; search for a few words")
    return words


def _folded(text: str) -> str:
    """Return a text that compares without case and without variants of a sign, such as ligatures."""
    if text.isascii():
        return text.lower()
    folded = text.casefold().replace("i\N{COMBINING DOT ABOVE}", "i")  # of the Turkish capital
    return folded if unicodedata.is_normalized("NFKC", folded) else unicodedata.normalize("NFKC", folded).casefold()


class TextSearch:
    """Search in the texts of a store's conversations; safe for use from several threads."""

    def __init__(self, store: Store) -> None:
        self._store, self._lock = store, Lock()
        self._found: OrderedDict[tuple[tuple[int, str], tuple[str, ...]], FoundTexts] = OrderedDict()

    def find(self, text: str) -> FoundTexts:
        """Return the conversations whose turns contain all words of a text, as parts of words too.

        Raises:
            BadInput: The text is too long or has too many words.
            StoreError: The store cannot be read.
        """
        words = words_of(text)
        with self._lock:
            version = self._version()
            key = version, words
            if key not in self._found:
                self._found[key] = self._read(words, version[0])
                while len(self._found) > _CACHED_SEARCHES:
                    self._found.popitem(last=False)
            self._found.move_to_end(key)
            return self._found[key]

    def _version(self) -> tuple[int, str]:
        """Return a value that changes with the stored conversations: their number, and when the last was added."""
        query = select(func.count(), func.max(conversations.c.added)).select_from(conversations)
        [(count, added)] = self._store._stream(query)
        return count, added or ""

    def _read(self, words: tuple[str, ...], count: int) -> FoundTexts:
        query = select(conversations.c.id, conversations.c.content).where(self._may_have_all(words))
        if count > MAX_SEARCHED:
            last = select(conversations.c.id).order_by(conversations.c.id).offset(MAX_SEARCHED - 1).limit(1)
            query = query.where(conversations.c.id <= last.scalar_subquery())
        escapes = _escapes_like("".join(words)) if all(map(_is_plain, words)) else None
        ids = frozenset(
            name for name, content in self._store._stream(query)
            if (escapes is None or _holds(content, words, escapes)) and _has_all(content, words)
        )  # fmt: skip
        return FoundTexts(ids, max(count - MAX_SEARCHED, 0))

    def _may_have_all(self, words: tuple[str, ...]) -> ColumnElement[bool]:
        """Return a condition that holds for each conversation with all words.

        The content is JSON in ASCII. It holds a word of printable ASCII in any case, or the escape of a character that
        compares equal to ASCII characters, such as a ligature.
        """
        content = conversations.c.content
        if self._store._engine.dialect.name == "sqlite":  # LIKE compares letters of ASCII without case
            lowered: ColumnElement[str] = content
        else:
            lowered = func.lower(content.collate("C"))
        conditions: list[ColumnElement[bool]] = []
        for word in words:
            if not word.isascii():
                conditions.append(false())
            elif _is_plain(word):
                conditions.append(lowered.contains(word, autoescape=True))
        has_words = and_(true(), *conditions)
        return or_(content.contains("\\u", autoescape=True), has_words)


def _is_plain(word: str) -> bool:
    """Return True if JSON holds a word as it is: printable ASCII without quotes and backslashes."""
    return word.isascii() and word.isprintable() and '"' not in word and "\\" not in word


def _holds(content: str, words: tuple[str, ...], escapes: frozenset[str]) -> bool:
    """Return True if JSON in ASCII holds all words in any case, or one of these escapes."""
    lowered = content.lower()
    if all(word in lowered for word in words):
        return True
    return not escapes.isdisjoint([part[:4] for part in lowered.split("\\u")[1:]])


def _escapes_like(letters: str) -> frozenset[str]:
    """Return the hexadecimal digits of the escapes in JSON of characters that may compare as some letters of ASCII."""
    same = set(letters)
    found = [code for code, folded in _compared_as_ascii().items() if not folded or not same.isdisjoint(folded)]
    return frozenset(f"{code:04x}" for code in found)


@cache
def _compared_as_ascii() -> dict[int, str]:
    """Return the code units beyond ASCII in whose place ASCII or nothing is compared; empty if it is not known.

    Chinese characters, Korean syllables and the pictographs of one surrogate (U+1F400 to U+1F7FF) are never compared as
    ASCII.
    """
    large = ((0x3400, 0xA000), (0xAC00, 0xD7A4), (0xD800, 0xF900))
    codes = (code for code in range(0x80, 0x10000) if not any(first <= code < end for first, end in large))
    folded = {code: text for code in codes if not (text := _folded(chr(code))) or any(map(str.isascii, text))}
    return folded | {0x307: "i"} | {code: "" for code in range(0xD800, 0xDC00) if code != 0xD83D}


def _has_all(content: str, words: tuple[str, ...]) -> bool:
    """Return True if the turns of a stored conversation contain all words."""
    try:
        turns = [turn.content for turn in _DECODER.decode(content).turns]
    except (msgspec.MsgspecError, UnicodeError):  # texts that msgspec rejects, such as half of a surrogate pair
        turns = [str(turn.get("content") or "") for turn in read_json(content).get("turns") or ()]
    text = _folded("\n".join(turns))
    return all(word in text for word in words)
