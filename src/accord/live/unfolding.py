"""What is new in a row of a log: a message by itself, or a whole conversation that repeats what was said before."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError

from accord.conversation import Conversation, Turn, content_hash
from accord.errors import BadInput
from accord.live.said import ROLES, Said, said_from
from accord.live.scorer import CONVERSATIONS
from accord.readers import detect, formats
from accord.readers.messages import documents_from, role_named
from accord.readers.record import Fields, Format, under_our_names

ALIASES = {
    "conversation": ("conversation_id", "session_id", "thread_id", "chat_id"),
    "id": ("message_id",),
    "content": ("text",),
    "time": ("timestamp", "created_at"),
    "documents": ("context", "contexts", "retrieved_contexts", "knowledge"),
}
"""What logs of single messages often call our fields."""
FIELDS = frozenset(Said.__dataclass_fields__)
WINDOW = 200
"""The last turns of a conversation that one told from its middle is recognised by."""
_TIMES = TypeAdapter[datetime | None](datetime | None)
_SHAPES = (BadInput, KeyError, TypeError, AttributeError, ValueError, RecursionError)
"""A row can be wrong in more ways than a format can list."""


class _Known(NamedTuple):
    """What a conversation has said: how many turns, a digest of them all, and digests of the last ones."""

    turns: int = 0
    whole: str = ""
    last: tuple[str, ...] = ()


class Unfolding:
    """Rows to messages; remembers by their digests what conversations that repeat themselves have said."""

    def __init__(self, conversations: int = CONVERSATIONS) -> None:
        self.conversations = conversations
        self._known: OrderedDict[str, _Known] = OrderedDict()

    def messages(self, row: Any, where: str, format: str = "auto") -> tuple[list[Said], list[str]]:
        """The messages of a row that were not there before, in their order; and why parts of it are none.

        A row may bundle several parts, as a batch of spans does; one that cannot be read costs the others nothing.
        """
        found: list[Said] = []
        bad: list[str] = []
        try:
            parts = list(self._parts(row, where, format))
        except _SHAPES as error:
            return [], [_why(error)]
        for read in parts:
            try:
                found += read()
            except _SHAPES as error:
                bad.append(_why(error))
        return found, bad

    def _parts(self, row: Any, where: str, format: str) -> Iterator[Callable[[], list[Said]]]:
        """Each part of a row, to be read: a message, a conversation, or what a row's spans say of one."""
        if not isinstance(row, Mapping):
            raise BadInput(f"a row is a JSON object, got {type(row).__name__}")
        if format == "auto" and "role" in row:
            yield lambda: [_message(row)]
            return
        reader = formats.get(detect(row, where) if format == "auto" else format)
        groups: dict[str, list[Fields]] = {}
        for part in [row] if reader.split is None else reader.split(row):
            try:
                name = (reader.key(part) if reader.key else None) or where
            except _SHAPES as error:
                yield partial(_raise, error)
            else:
                groups.setdefault(name, []).append(part)
        for name, group in groups.items():
            yield from self._together(reader, group, name)

    def _together(self, reader: Format, group: list[Fields], name: str) -> Iterator[Callable[[], list[Said]]]:
        """Parts of one conversation are read together, since some repeat others; one by one where that fails."""
        try:
            record = reader.convert(group, name)
        except _SHAPES:
            if len(group) == 1:
                yield lambda: self._read(reader, group, name)
            else:
                yield from (partial(self._read, reader, [part], name) for part in group)
        else:
            yield lambda: [] if record is None else self.new_in(record.conversation)

    def _read(self, reader: Format, parts: list[Fields], name: str) -> list[Said]:
        record = reader.convert(parts, name)
        return [] if record is None else self.new_in(record.conversation)

    def forget(self, conversation: str) -> None:
        """Take all that a conversation says from now on as new."""
        self._known.pop(conversation, None)

    def new_in(self, conversation: Conversation) -> list[Said]:
        """The turns of a conversation that were not there when it was seen last.

        A conversation may be told from its beginning, or from some turn on (a window): what it begins with is looked
        for at the end of what is known of it. A last turn that was said otherwise (a regenerated reply) is new.
        """
        now = tuple(content_hash([turn.role, turn.content.strip()], length=16) for turn in conversation.turns)
        before = self._known.pop(conversation.id, _Known())
        new = now[_repeated(before, now) :]
        known = _Known(before.turns + len(new), _chained(before.whole, new), (*before.last, *new)[-WINDOW:])
        self._known[conversation.id] = known
        while len(self._known) > self.conversations:
            self._known.popitem(last=False)
        documents = tuple(document.text for document in conversation.documents) or None
        turns = conversation.turns[len(now) - len(new) :]
        return [_said(conversation, turn, documents) for turn in turns if turn.role in ROLES]


def _repeated(before: _Known, now: tuple[str, ...]) -> int:
    """How many of the turns, from the first on, were said before."""
    if before.turns and _chained("", now[: before.turns]) == before.whole and len(now) >= before.turns:
        return before.turns
    last = before.last
    overlap = next((n for n in range(min(len(last), len(now)), 0, -1) if last[-n:] == now[:n]), 0)
    if overlap or not now or not last:
        return overlap
    if last[-1] == now[-1] and _within(now, last):
        return len(now)  # a summary of what was told: an agent's span after the calls inside it
    if len(now) > 1 and last[-len(now) : -1] == now[:-1]:
        return len(now) - 1
    return 0


def _within(now: Sequence[str], last: Sequence[str]) -> bool:
    """Whether turns occur among others, in their order."""
    rest = iter(last)
    return all(turn in rest for turn in now)


def _chained(whole: str, turns: Sequence[str]) -> str:
    """A digest of all turns, from that of those before."""
    for turn in turns:
        whole = hashlib.sha256(f"{whole}{turn}".encode()).hexdigest()
    return whole


def _raise(error: Exception) -> list[Said]:
    raise error


def _why(error: Exception) -> str:
    """What to say of a part that is not of the expected shape."""
    return str(error) if isinstance(error, BadInput) else f"not of the expected shape ({type(error).__name__}: {error})"


def _said(conversation: Conversation, turn: Turn, documents: Sequence[str] | None) -> Said:
    """A turn as a message; what the assistant only hands to a tool is no reply."""
    calls = turn.role == "assistant" and bool(turn.extra) and not turn.content.strip()
    known = conversation.metadata
    time = next((known[name] for name in ("time", *ALIASES["time"]) if known.get(name)), None)
    return said_from({
        "conversation": conversation.id,
        "role": "tool" if calls else turn.role,
        "content": turn.content,
        "documents": list(documents) if documents else None,
        "system": conversation.system,
        "time": _time(turn.time or time),
    })  # fmt: skip


def _time(value: Any) -> datetime | None:
    """When it was, where the log says so in a way that can be read."""
    try:
        return _TIMES.validate_python(value)
    except ValidationError:
        return None


def _message(row: Fields) -> Said:
    """A row that is one message; what a log says beyond our fields is passed over."""
    ours: dict[str, Any] = {name: value for name, value in under_our_names(row, ALIASES).items() if name in FIELDS}
    if isinstance(ours.get("role"), str):
        ours["role"] = role_named(ours["role"])
    if ours.get("documents") is not None:
        ours["documents"] = [document.text for document in documents_from(ours["documents"])]
    ours["time"] = _time(ours.get("time"))
    for name in ("conversation", "id"):
        if isinstance(ours.get(name), int):
            ours[name] = str(ours[name])
    return said_from(ours)
