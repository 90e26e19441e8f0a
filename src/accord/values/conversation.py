"""A conversation as a value: turns, the documents the assistant could see, and whatever else the log said."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Literal, NamedTuple, overload

NON_SPEAKERS = frozenset({"system", "developer", "tool", "function"})
"""Roles that neither ask nor reply."""
SYNTHETIC = "synthetic"
"""The key of the metadata under which a conversation that nobody held says how it was made."""
Synthetic = Literal["without", "with", "only"]
"""Which conversations count where none are named: those that people held, all, or those that nobody held."""
WITHOUT_SYNTHETIC: Synthetic = "without"


class Target(NamedTuple):
    """What a label, a piece of evidence or a score is about: a conversation, or one turn of it."""

    conversation: str
    turn: int | None = None

    def __str__(self) -> str:
        return self.conversation if self.turn is None else f"{self.conversation}#{self.turn}"


@dataclass(frozen=True, slots=True)
class Turn:
    """One message: who spoke (`role`), what was said, and what else the log kept of it (tool calls, ids)."""

    role: str
    content: str
    name: str | None = None
    time: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def to_json(self) -> dict[str, Any]:
        """The turn as plain JSON values; what is empty is left out."""
        row: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.name is not None:
            row["name"] = self.name
        if self.time is not None:
            row["time"] = self.time
        if self.extra:
            row["extra"] = dict(self.extra)
        return row


class GrowingTurns(Sequence[Turn]):
    """The turns of a conversation under way, up to one of them: nothing is copied when another is said.

    Equal to the tuple of the same turns. `session` is for whoever works through the conversation turn by turn: what is
    kept there is shared by all views of it, later ones too, and ends with it (`accord.evidence.Source.session`).
    """

    __slots__ = ("_length", "_said", "session")

    def __init__(self, said: list[Turn] | None = None, length: int = 0, session: dict[int, Any] | None = None) -> None:
        self._said = [] if said is None else said
        self._length = length
        self.session = {} if session is None else session

    def plus(self, turn: Turn) -> GrowingTurns:
        """With one more turn; of the latest view alone, since nothing that was said changes."""
        if len(self._said) != self._length:
            raise ValueError("more was said since; add to the latest turns")
        self._said.append(turn)
        return GrowingTurns(self._said, self._length + 1, self.session)

    @overload
    def __getitem__(self, place: int) -> Turn: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Turn]: ...
    def __getitem__(self, place: int | slice) -> Turn | Sequence[Turn]:
        """One turn; of a slice from the first turn on a view, of any other a tuple."""
        if isinstance(place, int):
            return self._said[range(self._length)[place]]
        start, stop, step = place.indices(self._length)
        if start == 0 and step == 1:
            return GrowingTurns(self._said, stop, self.session)
        return tuple(self._said[each] for each in range(start, stop, step))

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Turn]:
        return islice(self._said, self._length)

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, GrowingTurns | PlainTurns | tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))


class PlainTurns(Sequence[Turn]):
    """Turns of which the log kept the role and the text alone, made when somebody looks at them.

    Equal to the tuple of the same turns. A log that is only stored needs none of them.
    """

    __slots__ = ("_made", "messages")

    def __init__(self, messages: Sequence[Mapping[str, str]]) -> None:
        """`messages` have a `role` and a `content` each, and nothing else; they are not to be changed afterwards."""
        self.messages = messages
        self._made: tuple[Turn, ...] | None = None

    def _turns(self) -> tuple[Turn, ...]:
        if self._made is None:
            self._made = tuple(Turn(each["role"], each["content"]) for each in self.messages)
        return self._made

    @overload
    def __getitem__(self, place: int) -> Turn: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Turn]: ...
    def __getitem__(self, place: int | slice) -> Turn | Sequence[Turn]:
        """One turn, or a tuple of some."""
        return self._turns()[place]

    def __len__(self) -> int:
        return len(self.messages)

    def __iter__(self) -> Iterator[Turn]:
        return iter(self._turns())

    def __eq__(self, other: object) -> bool:
        return self._turns() == tuple(other) if isinstance(other, PlainTurns | GrowingTurns | tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._turns())

    def __repr__(self) -> str:
        return repr(self._turns())


@dataclass(frozen=True, slots=True)
class Document:
    """A text the assistant could see: a search result, a help article, a fact."""

    text: str
    id: str | None = None
    title: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The document as plain JSON values; what is empty is left out."""
        named = {"id": self.id, "title": self.title}
        return {"text": self.text, **{key: value for key, value in named.items() if value is not None}}


@dataclass(frozen=True, slots=True)
class Conversation:
    """Turns in order, documents, and metadata (system, topic, user, version, and every key nobody knew).

    The turns are a tuple; those of a conversation under way are `GrowingTurns`, those of a plain log `PlainTurns`.
    `reply` is the one turn that is looked at, where it is only one: see `at`. It is no part of what a log says.
    """

    id: str
    turns: Sequence[Turn]
    documents: tuple[Document, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    reply: int | None = None

    def by(self, role: str) -> tuple[Turn, ...]:
        """The turns of one role, in order."""
        return tuple(turn for turn in self.turns if turn.role == role)

    def up_to(self, turn: int | None) -> Sequence[Turn]:
        """The turns a judge of `turn` may see: all before it and itself; all of them for `None`."""
        return self.turns if turn is None else self.turns[: turn + 1]

    def at(self, turn: int | None) -> Conversation:
        """The conversation as it stood at a turn, that turn being its reply; itself for `None`."""
        return self if turn is None else replace(self, turns=self.up_to(turn), reply=turn)

    @property
    def replies(self) -> tuple[Turn, ...]:
        """What is judged: the one reply, else the assistant's turns; of two people, those of whoever spoke last."""
        if self.reply is not None:
            return (self.turns[self.reply],)
        assistant = self.by("assistant")
        people = [turn.role for turn in self.turns if turn.role not in NON_SPEAKERS]
        return assistant or (self.by(people[-1]) if people else ())

    @property
    def others(self) -> tuple[Turn, ...]:
        """The turns of those who are replied to, in order; instructions and tools' outputs are nobody's."""
        role = {turn.role for turn in self.replies}
        return tuple(turn for turn in self.turns if turn.role not in role | NON_SPEAKERS)

    @property
    def system(self) -> str | None:
        """The assistant that held the conversation, where the log says so."""
        system = self.metadata.get("system")
        return None if system is None else str(system)

    @property
    def shown_system(self) -> str | None:
        """The assistant as figures name it, with a word where nobody held the conversation."""
        return f"{self.system or 'not said'} (synthetic)" if self.is_synthetic else self.system

    @property
    def is_synthetic(self) -> bool:
        """Whether a model played the user: the metadata say by whom and how, under `SYNTHETIC`."""
        return self.metadata.get(SYNTHETIC) is not None

    def to_json(self) -> dict[str, Any]:
        """The conversation as plain JSON values."""
        return {
            "id": self.id,
            "turns": [turn.to_json() for turn in self.turns],
            "documents": [document.to_json() for document in self.documents],
            "metadata": dict(self.metadata),
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Conversation:
        """The inverse of `to_json`."""
        return cls(
            id=row["id"],
            turns=tuple(Turn(**turn) for turn in row["turns"]),
            documents=tuple(Document(**document) for document in row["documents"]),
            metadata=row["metadata"],
        )


def canonical_json(value: Any, default: Callable[[Any], Any] | None = None) -> str:
    """JSON that is equal for equal values: sorted keys, no spaces, ASCII only; `default` as in `json.dumps`.

    ASCII escapes keep what databases refuse (NUL, lone surrogates) readable and storable.
    """
    if default is None:
        return _CANONICAL.encode(value)
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=default)


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def content_hash(value: Any, length: int = 64, default: Callable[[Any], Any] | None = None) -> str:
    """A tagged digest of a JSON value: `s256:` and the first `length` hexadecimal digits of its SHA-256."""
    return text_hash(canonical_json(value, default), length)


def text_hash(canonical: str, length: int = 64) -> str:
    """The digest of a JSON value that is written canonically already; see `content_hash`."""
    return "s256:" + hashlib.sha256(canonical.encode("ascii")).hexdigest()[:length]


@dataclass(frozen=True, slots=True)
class Sample:
    """What a judge looks at: a conversation, or one turn of it given all turns before.

    Turns with an index in `hidden`, from the first up to the second, are not shown: see `windowing`.
    """

    conversation: Conversation
    turn: int | None = None
    hidden: tuple[int, int] | None = None

    def saying(self, turns: Sequence[Turn]) -> Sample:
        """The same subject with other words in its turns; what was hidden stays so."""
        return replace(self, conversation=replace(self.conversation, turns=turns))

    @property
    def target(self) -> Target:
        """What answers about this subject point at."""
        return Target(self.conversation.id, self.turn)
