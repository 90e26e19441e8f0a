"""Messages as they come in, over HTTP, from a log or from a call, and which of them are new.

A message is a `Turn` with what a conversation that is still under way has to say beside it: whose it is, its place, and
the documents from now on. A log may tell a conversation a message a row, or repeat all of it in every row.
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

from accord.edges import BadInput, is_in_calendar, is_sendable, sendable_json, validation_messages
from accord.formats import (
    NO_CONTENT,
    NO_MESSAGES,
    Fields,
    Format,
    Record,
    detect,
    documents_from,
    formats,
    role_named,
    under_our_names,
)
from accord.live.memory_limit import DIGEST, Room
from accord.values import NON_SPEAKERS, Conversation, Turn, content_hash

CONVERSATIONS = 10_000
"""The most conversations that are remembered."""
Role = Literal["assistant", "user", "system", "developer", "tool", "function"]
ROLES = frozenset({"assistant", "user"}) | NON_SPEAKERS
MOST_TURNS = 1_000_000
NOBODYS = "conversations that nobody held are not scored live"
LONGEST = 1_000_000
"""Characters of a message, and of its documents together."""
Name = Annotated[str, Field(min_length=1, max_length=512)]


@dataclass(frozen=True, slots=True)
class Message:
    """One message."""

    __pydantic_config__ = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    conversation: Name
    """Whose message it is; a name not heard of, or forgotten, begins anew."""
    role: Role
    """Who speaks; what neither the assistant nor the user says counts as a turn, and no more."""
    content: str
    """What was said."""
    documents: Annotated[tuple[str, ...], Field(max_length=1000)] | None = None
    """What the assistant can see from now on; without them it is what it was."""
    id: Name | None = None
    """Of the message; one that comes again gives what it gave before, and changes nothing."""
    turn: Annotated[int, Field(ge=0, le=MOST_TURNS)] | None = None
    """Its place in the conversation, from 0; one that was passed already is not taken in. Without it: the next one."""
    system: Name | None = None
    """The assistant, or its version: what is watched apart."""
    time: datetime | None = None
    """When it was said; without it, now."""

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise BadInput(f"role {self.role!r} of a message; allowed: {', '.join(sorted(ROLES))}")
        if self.turn is not None and not 0 <= self.turn <= MOST_TURNS:
            raise BadInput(f"turns of a conversation are counted from 0 to {MOST_TURNS}")
        if self.time is not None and not is_in_calendar(self.time):
            raise BadInput(f"time {self.time.isoformat()} of a message is outside the years 1 to 9999 UTC")
        given = sum(map(len, self.documents or ()))
        if len(self.content) > LONGEST or given > LONGEST:
            raise BadInput(
                f"a message of {len(self.content)} characters with documents of {given}; at most {LONGEST} of either. "
                "Send the passages that the assistant was shown"
            )

    @property
    def day(self) -> str:
        """The day of the message in UTC, in ISO format."""
        said = self.time or datetime.now(UTC)
        return (said.astimezone(UTC) if said.tzinfo else said).date().isoformat()


@cache
def adapter() -> TypeAdapter[Message]:
    """What reads messages from JSON, and knows their JSON Schema."""
    return TypeAdapter(Message)


def message_from(row: Any) -> Message:
    """A message from a JSON value.

    Raises:
        BadInput: It is no message; the error says what is wrong with which field.
    """
    if not isinstance(row, Mapping):
        raise BadInput(f"a message is a JSON object with conversation, role and content; got {type(row).__name__}")
    for name in ("conversation", "id"):
        if isinstance(row.get(name), str) and not is_sendable(row[name]):  # replacing them could make two ids equal
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
"""What logs of single messages often call our fields."""
FIELDS = frozenset(Message.__dataclass_fields__)
WINDOW = 200
"""The last turns of a conversation that one told from its middle is recognised by."""
_TIMES = TypeAdapter[datetime | None](datetime | None)
_SHAPES = (BadInput, KeyError, TypeError, AttributeError, ValueError, RecursionError)
"""A row can be wrong in more ways than a format can list."""


class _Known(NamedTuple):
    """What a conversation has said.

    `prefixes` are digests of its first turns: of all, of all but the last, and so on, as far as the window reaches, in
    rising order; `last` are digests of the last turns by themselves. `in_pieces` says that its rows do not repeat what
    was before them: then only a row that holds all of it is taken for a repetition. `used` is when it was told of last,
    `size` what it counts in bytes.
    """

    turns: int = 0
    prefixes: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    in_pieces: bool = False
    used: float = 0.0
    size: int = 0


class Once:
    """Says of each reason why traces say nothing, the first time, what could be done about it."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say, self._said = say, set[str]()

    def __call__(self, reason: str) -> None:
        """Say it, unless it was said."""
        if reason not in self._said:
            self._said.add(reason)
            self.say(NO_CONTENT if reason == NO_MESSAGES else f"spans or log records are passed over: {reason}")


class HistoryDeduplicator:
    """Rows to messages; remembers by their digests what conversations that repeat themselves have said.

    Args:
        conversations: How many are remembered.
        room: Where the bytes of that are counted, and by whom let go of; without one they are not.
        on_passed_over: Called with the reason for each part of a row that is well-formed and says nothing.
    """

    def __init__(
        self,
        conversations: int = CONVERSATIONS,
        room: Room | None = None,
        on_passed_over: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self.conversations, self.room, self.on_passed_over = conversations, room or Room(), on_passed_over
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self.room.share(self.oldest, self.let_go_oldest)

    def oldest(self) -> float:
        """When the conversation was told of last that was longest ago; never, where there is none."""
        with suppress(RuntimeError):  # changed meanwhile
            return next(iter(self._known.values())).used if self._known else inf
        return inf

    def let_go_oldest(self) -> None:
        """Make room."""
        with suppress(KeyError):  # forgotten meanwhile
            _, known = self._known.popitem(last=False)
            self.room.take(-known.size)

    def messages(self, row: Any, where: str, format: str = "auto") -> tuple[list[Message], list[str]]:
        """The messages of a row that were not there before, in their order; and why parts of it are none.

        A row may bundle several parts, as a batch of spans does; one that cannot be read costs the others nothing.
        """
        try:
            if format == "auto" and isinstance(row, Mapping) and "role" in row:
                return [_message_in(row)], []
            format = detect(row, where) if format == "auto" and isinstance(row, Mapping) else format
            groups, bad = self.groups(row, where, format)
        except _SHAPES as error:
            return [], [_why(error)]
        found, more = self.heard(groups, format)
        return found, [*bad, *more]

    def groups(self, row: Any, where: str, format: str) -> tuple[dict[str, list[Fields]], list[str]]:
        """The parts of a row by the conversation that they tell of, in their order; and why others tell of none.

        Raises:
            BadInput: It is no row.
        """
        if not isinstance(row, Mapping):
            raise BadInput(f"a row is a JSON object, got {type(row).__name__}")
        reader = formats.get(format)
        groups: dict[str, list[Fields]] = {}
        bad: list[str] = []
        nothing = reader.skip_reason({}) if reader.split and reader.skip_reason else None
        for part in [row] if reader.split is None else reader.split(row):
            if part == {} and nothing is not None:  # as most spans are: it says nothing beside others either
                self.on_passed_over(nothing)
                continue
            try:
                name = (reader.key(part) if reader.key else None) or where
            except _SHAPES as error:
                bad.append(_why(error))
            else:
                reason = reader.skip_reason(part) if reader.skip_reason else None
                if reason is not None:
                    self.on_passed_over(reason)
                groups.setdefault(name, []).append(part)
        return groups, bad

    def heard(self, groups: Mapping[str, list[Fields]], format: str) -> tuple[list[Message], list[str]]:
        """What parts of a row tell that was not there before; and why some of them tell nothing."""
        reader = formats.get(format)
        found: list[Message] = []
        bad: list[str] = []
        for name, group in groups.items():
            for read in self._together(reader, group, name):
                try:
                    found += read()
                except _SHAPES as error:
                    bad.append(_why(error))
        return found, bad

    def _together(self, reader: Format, group: list[Fields], name: str) -> Iterator[Callable[[], list[Message]]]:
        """Parts of one conversation are read together, since some repeat others; one by one where that fails."""
        try:
            record = reader.convert(group, name)
        except _SHAPES as error:
            alone = [partial(self._read, reader, [part], name) for part in group]
            yield from alone if len(alone) > 1 else [partial(_raise, error)]
        else:
            yield partial(self._heard, reader, record)

    def _read(self, reader: Format, parts: list[Fields], name: str) -> list[Message]:
        return self._heard(reader, reader.convert(parts, name))

    def _heard(self, reader: Format, record: Record | None) -> list[Message]:
        if record is None:
            return []
        if record.conversation.is_synthetic:
            self.on_passed_over(NOBODYS)
            return []
        summaries = reader.split is not None  # of spans some tell again what others inside them told
        return [_message_of(record.conversation, turn) for turn in self.new_in(record.conversation, summaries)]

    def state(self, conversation: str) -> _Known | None:
        """What is known of a conversation, for `take_back`; it never changes."""
        return self._known.get(conversation)

    def take_back(self, conversation: str, before: _Known | None, after: _Known | None) -> None:
        """Know of a conversation what was known before a row; all that it says is new where it said more since then."""
        if self._known.get(conversation) is not after:
            self.forget(conversation)
        elif before is not after:
            self.forget(conversation)
            if before is not None:
                self._known[conversation] = before
                self.room.take(before.size)

    def forget(self, conversation: str) -> None:
        """Take all that a conversation says from now on as new."""
        known = self._known.pop(conversation, None)
        self.room.take(0 if known is None else -known.size)

    def new_in(self, conversation: Conversation, summaries: bool = False) -> list[Turn]:
        """The turns of a conversation that were not there when it was seen last.

        A conversation may be told from its beginning, where a turn that differs (a regenerated reply) takes the place
        of what followed; from some turn on (a window); or in pieces that share nothing. With `summaries`, one that
        leaves out turns between others, as the span of an agent around its calls, tells nothing new.
        """
        now = tuple(content_hash([turn.role, turn.content.strip()], length=16) for turn in conversation.turns)
        before = self._known.pop(conversation.id, None) or _Known()
        after, repeated = _after(before, now, summaries)
        after = after._replace(used=monotonic(), size=DIGEST * (3 + len(after.prefixes) + len(after.last)))
        self._known[conversation.id] = after
        self.room.take(after.size - before.size)
        while len(self._known) > self.conversations:
            self.let_go_oldest()
        return [_as_heard(turn) for turn in conversation.turns[repeated:] if turn.role in ROLES]


def _after(before: _Known, now: tuple[str, ...], summaries: bool) -> tuple[_Known, int]:
    """What is known after a row, and how many of its turns, from the first on, were said before."""
    prefixes = _chained("", now)
    shared = _shared(before, prefixes)
    if shared == len(now):
        return before, shared
    if summaries and shared < before.turns and before.last[-1] == now[-1] and _within(now, before.last):
        return before, len(now)
    if shared:
        kept = len(before.prefixes) - (before.turns - shared)
        start = _Known(shared, before.prefixes[:kept], before.last[: len(before.last) - (before.turns - shared)])
        return _longer(start, now[shared:], before.in_pieces), shared
    last = before.last
    overlap = next((n for n in range(min(len(last), len(now)), 0, -1) if last[-n:] == now[:n]), 0)
    if overlap and not before.in_pieces:
        return _longer(before, now[overlap:]), overlap
    return _longer(before, now, in_pieces=before.turns > 0), 0


def _shared(before: _Known, prefixes: Sequence[str]) -> int:
    """How many first turns a row shares with what is known: as many as are within the window."""
    if before.in_pieces:
        whole = before.turns and len(prefixes) >= before.turns and prefixes[before.turns - 1] == before.prefixes[-1]
        return before.turns if whole else 0
    first = before.turns - len(before.prefixes) + 1
    known = dict(enumerate(before.prefixes, first))
    return max((n for n, prefix in enumerate(prefixes, 1) if known.get(n) == prefix), default=0)


def _longer(known: _Known, new: Sequence[str], in_pieces: bool = False) -> _Known:
    prefixes = _chained(known.prefixes[-1] if known.prefixes else "", new)
    return _Known(
        known.turns + len(new), (*known.prefixes, *prefixes)[-WINDOW:], (*known.last, *new)[-WINDOW:], in_pieces
    )


def _within(now: Sequence[str], last: Sequence[str]) -> bool:
    """Whether turns occur among others, in their order."""
    rest = iter(last)
    return all(turn in rest for turn in now)


def _chained(whole: str, turns: Sequence[str]) -> list[str]:
    """Digests of all turns up to each, going on from that of those before."""
    found = []
    for turn in turns:
        whole = hashlib.sha256(f"{whole}{turn}".encode()).hexdigest()[:32]
        found.append(whole)
    return found


def _raise(error: Exception) -> list[Message]:
    raise error


def _why(error: Exception) -> str:
    """What to say of a part that is not of the expected shape."""
    return str(error) if isinstance(error, BadInput) else f"not of the expected shape ({type(error).__name__}: {error})"


def _as_heard(turn: Turn) -> Turn:
    """The turn; what the assistant only hands to a tool is no reply."""
    calls = turn.role == "assistant" and bool(turn.extra) and not turn.content.strip()
    return replace(turn, role="tool") if calls else turn


def _message_of(conversation: Conversation, turn: Turn) -> Message:
    """A turn as a message."""
    known = conversation.metadata
    time = next((known[name] for name in ("time", *ALIASES["time"]) if known.get(name)), None)
    return message_from({
        "conversation": conversation.id,
        "role": turn.role,
        "content": turn.content,
        "documents": [document.text for document in conversation.documents] or None,
        "system": conversation.system,
        "time": _time(turn.time or time),
    })  # fmt: skip


def _time(value: Any) -> datetime | None:
    """Return the time that a log gives, or None if it is not a time between the years 1 and 9999 UTC."""
    try:
        found = _TIMES.validate_python(value)
    except ValidationError:
        return None
    return found if found is not None and is_in_calendar(found) else None


def _message_in(row: Fields) -> Message:
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
    return message_from(ours)
