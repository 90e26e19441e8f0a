"""Messages of live conversations from HTTP, logs and calls, and the removal of repeated ones.

A message is a `Turn` with its conversation, its place and the documents from now on. A log may have one message per
row, or repeat the whole conversation in every row.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial
from math import inf
from time import monotonic
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from accord.edges import (
    MAX_FIELDS,
    BadInput,
    is_in_calendar,
    is_sendable,
    parse_time,
    sendable_json,
    validation_messages,
)
from accord.formats import (
    NO_CONTENT,
    NO_MESSAGES,
    Fields,
    Format,
    Record,
    detect,
    documents_from,
    formats,
    live_row,
    role_named,
    under_our_names,
)
from accord.live.memory_limit import DIGEST, MemoryBudget
from accord.values import NON_SPEAKERS, Conversation, Turn, content_hash

CONVERSATIONS = 10_000
"""Maximum number of remembered conversations."""
Role = Literal["assistant", "user", "system", "developer", "tool", "function"]
ROLES = frozenset({"assistant", "user"}) | NON_SPEAKERS
MAX_TURNS = 1_000_000
SYNTHETIC_REASON = "synthetic conversations are not scored live"
MAX_CHARACTERS = 1_000_000
"""Maximum characters of a message, and of all its documents."""
TRACEPARENT = r"^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$"
"""Form of the HTTP header `traceparent`."""
Name = Annotated[str, Field(min_length=1, max_length=512)]


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a live conversation."""

    __pydantic_config__ = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    conversation: Name
    """Id of the conversation; an unknown or forgotten id starts a new one."""
    role: Role
    """Role of the speaker; messages of other roles than assistant and user count as turns only."""
    content: str
    """Text of the message."""
    documents: Annotated[tuple[str, ...], Field(max_length=1000)] | None = None
    """Documents that the assistant sees from now on; null keeps the previous ones."""
    id: Name | None = None
    """Id of the message; a repeated id returns the previous result and changes nothing."""
    turn: Annotated[int, Field(ge=0, le=MAX_TURNS)] | None = None
    """Place in the conversation from 0; null is the next place. A message at an earlier place is not taken in."""
    system: Name | None = None
    """Name or version of the assistant; monitored separately."""
    time: datetime | None = None
    """Time of the message; null is now."""
    traceparent: Annotated[str, Field(pattern=TRACEPARENT)] | None = None
    """W3C trace context of the span that produced the message; events about its score belong to that span."""

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise BadInput(f"unknown role {self.role!r} of a message; allowed: {', '.join(sorted(ROLES))}")
        if self.turn is not None and not 0 <= self.turn <= MAX_TURNS:
            raise BadInput(f"turn {self.turn} of a message; turns are numbered from 0 to {MAX_TURNS}")
        if self.time is not None and not is_in_calendar(self.time):
            raise BadInput(f"time {self.time.isoformat()} of a message is outside the years 1 to 9999 UTC")
        given = sum(map(len, self.documents or ()))
        if len(self.content) > MAX_CHARACTERS or given > MAX_CHARACTERS:
            raise BadInput(
                f"a message of {len(self.content)} characters with documents of {given}; the limit is {MAX_CHARACTERS} "
                "for each. Send only the passages that the assistant was shown"
            )

    @property
    def day(self) -> str:
        """The day of the message in UTC, in ISO format."""
        time = self.time or datetime.now(UTC)
        return (time.astimezone(UTC) if time.tzinfo else time).date().isoformat()


@cache
def adapter() -> TypeAdapter[Message]:
    """Return the reader of messages, which also gives their JSON Schema."""
    return TypeAdapter(Message)


def message_from(row: Any) -> Message:
    """Read a message from a JSON value.

    Raises:
        BadInput: A field is missing or invalid; the error names it.
    """
    if not isinstance(row, Mapping):
        raise BadInput(f"a message is a JSON object with conversation, role and content; got {type(row).__name__}")
    if len(row) > MAX_FIELDS:
        raise BadInput(f"not a message: {len(row):,} fields; a message may have {MAX_FIELDS:,}")
    for name in ("conversation", "id"):
        if isinstance(row.get(name), str) and not is_sendable(
            row[name]
        ):  # replaced characters could make two ids equal
            raise BadInput(f"not a message: {name}: an id cannot hold NUL or half a surrogate pair")
    try:
        return adapter().validate_python(sendable_json(row))
    except RecursionError:
        raise BadInput("not a message: its values are nested too deeply") from None
    except ValidationError as error:
        raise BadInput(f"not a message: {'; '.join(validation_messages(error)[:3])}") from None


ALIASES = {
    "conversation": ("conversation_id", "session_id", "thread_id", "chat_id"),
    "id": ("message_id",),
    "content": ("text",),
    "time": ("timestamp", "created_at"),
    "documents": ("context", "contexts", "retrieved_contexts", "knowledge"),
}
"""Common names of our fields in logs of single messages."""
FIELDS = frozenset(Message.__dataclass_fields__)
WINDOW = 200
"""Number of last turns by which a conversation without its beginning is recognized."""
_SHAPES = (BadInput, KeyError, TypeError, AttributeError, ValueError, RecursionError)
"""Errors of rows with an unexpected shape."""


class _History(NamedTuple):
    """Digests of the turns of a conversation.

    `prefixes` are digests of its first turns: of all, of all but the last, and so on within the window, in rising
    order. `last` are digests of single last turns. `in_pieces` means that rows do not repeat earlier turns: then only a
    row with all turns is a repetition. `used` is the time of the last row, and `size` its bytes.
    """

    turns: int = 0
    prefixes: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    in_pieces: bool = False
    used: float = 0.0
    size: int = 0


class LogOnce:
    """Logs each reason why traces hold no messages once, with advice."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say, self._said = say, set[str]()

    def __call__(self, reason: str) -> None:
        """Log a reason that was not logged before."""
        if reason not in self._said:
            self._said.add(reason)
            self.say(NO_CONTENT if reason == NO_MESSAGES else f"skipped spans or log records: {reason}")


class HistoryDeduplicator:
    """Turns rows into messages, without those that earlier rows of a conversation had.

    Args:
        conversations: Maximum number of remembered conversations.
        memory: Limit that counts the digests; None does not count them.
        on_skipped: Called with the reason for each valid part of a row without messages.
    """

    def __init__(
        self,
        conversations: int = CONVERSATIONS,
        memory: MemoryBudget | None = None,
        on_skipped: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self.conversations, self.memory, self.on_skipped = conversations, memory or MemoryBudget(), on_skipped
        self._known: OrderedDict[str, _History] = OrderedDict()
        self.memory.share(self.oldest, self.forget_oldest)

    def oldest(self) -> float:
        """Return the time of the least recently used conversation; infinity without any."""
        with suppress(RuntimeError):  # changed meanwhile
            return next(iter(self._known.values())).used if self._known else inf
        return inf

    def forget_oldest(self) -> None:
        """Forget the least recently used conversation."""
        with suppress(KeyError):  # forgotten meanwhile
            _, known = self._known.popitem(last=False)
            self.memory.take(-known.size)

    def messages(self, row: Any, where: str, format: str = "auto") -> tuple[list[Message], list[str]]:
        """Return the new messages of a row in order, and the reasons of parts that cannot be read.

        A row may bundle several parts, such as a batch of spans; a bad part does not affect the others.
        """
        try:
            if format == "auto" and isinstance(row, Mapping) and "role" in row:
                return [_message_in(row)], []
            format = detect(row, where) if format == "auto" and isinstance(row, Mapping) else format
            groups, bad = self.groups(row, where, format)
        except _SHAPES as error:
            return [], [_reason(error)]
        found, more = self.new_messages(groups, format)
        return found, [*bad, *more]

    def groups(self, row: Any, where: str, format: str) -> tuple[dict[str, list[Fields]], list[str]]:
        """Return the parts of a row by conversation, and the reasons of parts that cannot be read.

        Raises:
            BadInput: The row is not a JSON object.
        """
        if not isinstance(row, Mapping):
            raise BadInput(f"a row is a JSON object, got {type(row).__name__}")
        reader = formats.get(format)
        groups: dict[str, list[Fields]] = {}
        bad: list[str] = []
        nothing = reader.skip_reason({}) if reader.split and reader.skip_reason else None
        for part in [row] if reader.split is None else reader.split(row):
            if part == {} and nothing is not None:  # like most spans
                self.on_skipped(nothing)
                continue
            try:
                name = (reader.key(part) if reader.key else None) or where
            except _SHAPES as error:
                bad.append(_reason(error))
            else:
                reason = reader.skip_reason(part) if reader.skip_reason else None
                if reason is not None:
                    self.on_skipped(reason)
                groups.setdefault(name, []).append(live_row(reader, part))
        return groups, bad

    def new_messages(self, groups: Mapping[str, list[Fields]], format: str) -> tuple[list[Message], list[str]]:
        """Return the new messages of parts of a row, and the reasons of parts that cannot be read."""
        reader = formats.get(format)
        found: list[Message] = []
        bad: list[str] = []
        for name, group in groups.items():
            for read in self._group_readers(reader, group, name):
                try:
                    found += read()
                except _SHAPES as error:
                    bad.append(_reason(error))
        return found, bad

    def _group_readers(self, reader: Format, group: list[Fields], name: str) -> Iterator[Callable[[], list[Message]]]:
        """Yield readers of a conversation's parts: one for all, since some repeat others, or one each if that fails."""
        try:
            record = reader.convert(group, name)
        except _SHAPES as error:
            alone = [partial(self._read, reader, [part], name) for part in group]
            yield from alone if len(alone) > 1 else [partial(_raise, error)]
        else:
            yield partial(self._new_messages, reader, record)

    def _read(self, reader: Format, parts: list[Fields], name: str) -> list[Message]:
        return self._new_messages(reader, reader.convert(parts, name))

    def _new_messages(self, reader: Format, record: Record | None) -> list[Message]:
        if record is None:
            return []
        if record.conversation.is_synthetic:
            self.on_skipped(SYNTHETIC_REASON)
            return []
        summaries = reader.split is not None  # some spans repeat the spans inside them
        return [_message_of(record.conversation, turn) for turn in self.new_in(record.conversation, summaries)]

    def state(self, conversation: str) -> _History | None:
        """Return the immutable state of a conversation, for `roll_back`."""
        return self._known.get(conversation)

    def roll_back(self, conversation: str, before: _History | None, after: _History | None) -> None:
        """Restore the state of a conversation before a row; forget it if other rows came since."""
        if self._known.get(conversation) is not after:
            self.forget(conversation)
        elif before is not after:
            self.forget(conversation)
            if before is not None:
                self._known[conversation] = before
                self.memory.take(before.size)

    def forget(self, conversation: str) -> None:
        """Forget a conversation, so that all its messages count as new."""
        known = self._known.pop(conversation, None)
        self.memory.take(0 if known is None else -known.size)

    def new_in(self, conversation: Conversation, summaries: bool = False) -> list[Turn]:
        """Return the turns of a conversation that earlier rows did not have.

        A row may hold the conversation from its beginning (a changed turn, such as a regenerated reply, replaces the
        following ones), a window of its last turns, or only new turns. With `summaries`, a row that leaves out turns
        between others holds nothing new, such as the span of an agent around its calls.
        """
        now = tuple(content_hash([turn.role, turn.content.strip()], length=16) for turn in conversation.turns)
        before = self._known.pop(conversation.id, None) or _History()
        after, repeated = _updated(before, now, summaries)
        after = after._replace(used=monotonic(), size=DIGEST * (3 + len(after.prefixes) + len(after.last)))
        self._known[conversation.id] = after
        self.memory.take(after.size - before.size)
        while len(self._known) > self.conversations:
            self.forget_oldest()
        return [_as_message_turn(turn) for turn in conversation.turns[repeated:] if turn.role in ROLES]


def _updated(before: _History, now: tuple[str, ...], summaries: bool) -> tuple[_History, int]:
    """Return the state after a row, and the number of its first turns that are not new."""
    prefixes = _chained("", now)
    shared = _shared_turns(before, prefixes)
    if shared == len(now):
        return before, shared
    if summaries and shared < before.turns and before.last[-1] == now[-1] and _is_subsequence(now, before.last):
        return before, len(now)
    if shared:
        kept = len(before.prefixes) - (before.turns - shared)
        start = _History(shared, before.prefixes[:kept], before.last[: len(before.last) - (before.turns - shared)])
        return _extended(start, now[shared:], before.in_pieces), shared
    last = before.last
    overlap = next((n for n in range(min(len(last), len(now)), 0, -1) if last[-n:] == now[:n]), 0)
    if overlap and not before.in_pieces:
        return _extended(before, now[overlap:]), overlap
    return _extended(before, now, in_pieces=before.turns > 0), 0


def _shared_turns(before: _History, prefixes: Sequence[str]) -> int:
    """Return the number of first turns that a row shares with the known ones, within the window."""
    if before.in_pieces:
        whole = before.turns and len(prefixes) >= before.turns and prefixes[before.turns - 1] == before.prefixes[-1]
        return before.turns if whole else 0
    first = before.turns - len(before.prefixes) + 1
    known = dict(enumerate(before.prefixes, first))
    return max((n for n, prefix in enumerate(prefixes, 1) if known.get(n) == prefix), default=0)


def _extended(known: _History, new: Sequence[str], in_pieces: bool = False) -> _History:
    prefixes = _chained(known.prefixes[-1] if known.prefixes else "", new)
    return _History(
        known.turns + len(new), (*known.prefixes, *prefixes)[-WINDOW:], (*known.last, *new)[-WINDOW:], in_pieces
    )


def _is_subsequence(now: Sequence[str], last: Sequence[str]) -> bool:
    """Return True if turns occur among others in the same order."""
    rest = iter(last)
    return all(turn in rest for turn in now)


def _chained(whole: str, turns: Sequence[str]) -> list[str]:
    """Return the digest of all turns up to each one, continuing from an earlier digest."""
    found = []
    for turn in turns:
        whole = hashlib.sha256(f"{whole}{turn}".encode()).hexdigest()[:32]
        found.append(whole)
    return found


def as_messages(record: Record) -> list[Message]:
    """Return all turns of a conversation as messages, without roles that no message has.

    Raises:
        BadInput: A turn is not a valid message.
    """
    turns = map(_as_message_turn, record.conversation.turns)
    return [_message_of(record.conversation, turn) for turn in turns if turn.role in ROLES]


def _raise(error: Exception) -> list[Message]:
    raise error


def _reason(error: Exception) -> str:
    """Return the reason why a part cannot be read."""
    return str(error) if isinstance(error, BadInput) else f"unexpected shape ({type(error).__name__}: {error})"


def _as_message_turn(turn: Turn) -> Turn:
    """Return the turn; a message of the assistant with only tool calls is not a reply."""
    calls = turn.role == "assistant" and bool(turn.extra) and not turn.content.strip()
    return replace(turn, role="tool") if calls else turn


def _message_of(conversation: Conversation, turn: Turn) -> Message:
    """Return a turn as a message."""
    known = conversation.metadata
    time = next((known[name] for name in ("time", *ALIASES["time"]) if known.get(name)), None)
    return message_from({
        "conversation": conversation.id,
        "role": turn.role,
        "content": turn.content,
        "documents": [document.text for document in conversation.documents] or None,
        "system": conversation.system,
        "time": parse_time(turn.time or time),
    })  # fmt: skip


def _message_in(row: Fields) -> Message:
    """Read a row that is one message; fields that are not ours are ignored."""
    ours: dict[str, Any] = {name: value for name, value in under_our_names(row, ALIASES).items() if name in FIELDS}
    if isinstance(ours.get("role"), str):
        ours["role"] = role_named(ours["role"])
    if ours.get("documents") is not None:
        ours["documents"] = [document.text for document in documents_from(ours["documents"])]
    ours["time"] = parse_time(ours.get("time"))
    for name in ("conversation", "id"):
        if isinstance(ours.get(name), int):
            ours[name] = str(ours[name])
    return message_from(ours)
