"""Conversations: turns, documents of the assistant, and metadata."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Literal, NamedTuple, overload

NON_SPEAKERS = frozenset({"system", "developer", "tool", "function"})
"""Roles that take no part in the dialogue."""
TOOL_ROLES = frozenset({"tool", "function"})
"""Roles of the results of tools."""
SYNTHETIC = "synthetic"
"""Key of the metadata that describe how a synthetic conversation was generated."""
Synthetic = Literal["without", "with", "only"]
"""Setting for listings: real conversations only, all, or synthetic ones only."""
WITHOUT_SYNTHETIC: Synthetic = "without"


_VERSION_NAMES = (
    "version", "release", "revision", "app_version", "appversion", "application_version", "service.version",
    "service_version", "assistant_version", "bot_version", "agent_version", "gen_ai.agent.version", "modelid",
    "model_id", "mlflow.modelid", "model_version", "modelversion", "prompt_version",
)  # fmt: skip
"""Metadata with the version of the assistant, the most specific first, in lower case."""
_LONGEST_VERSION = 200


class Target(NamedTuple):
    """A conversation or one of its turns, as the target of a label, evidence or a score.

    >>> Target("c1").turn is None, Target("c1", 3).turn
    (True, 3)
    """

    conversation: str
    turn: int | None = None

    def __str__(self) -> str:
        return self.conversation if self.turn is None else f"{self.conversation}#{self.turn}"


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a conversation.

    Attributes:
        role: `user`, `assistant`, `system` or `tool`; between two people any two names.
        content: Text of the message.
        name: Name of the speaker, or `None` if unknown.
        time: Time of the message, ISO 8601, or `None` if unknown.
        extra: Further fields of the log, such as tool calls and ids.

    >>> Turn("user", "Where is my order?").to_json()
    {'role': 'user', 'content': 'Where is my order?'}
    """

    role: str
    content: str
    name: str | None = None
    time: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def to_json(self) -> dict[str, Any]:
        """Return JSON values without empty fields."""
        optional = {"name": self.name, "time": self.time, "extra": dict(self.extra) or None}
        row = {"role": self.role, "content": self.content}
        return {**row, **{key: value for key, value in optional.items() if value is not None}}


class _Turns(Sequence[Turn]):
    """Turns that are equal to the tuple of the same turns."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, _Turns | tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))


class GrowingTurns(_Turns):
    """Turns of a conversation in progress; adding a turn copies nothing.

    `session` is a cache for code that processes the conversation turn by turn,
    shared by all views of the conversation (`accord.evidence.Source.session`).
    """

    __slots__ = ("_length", "_turns", "session")

    def __init__(self, turns: list[Turn] | None = None, length: int = 0, session: dict[int, Any] | None = None) -> None:
        self._turns = [] if turns is None else turns
        self._length = length
        self.session = {} if session is None else session

    def plus(self, turn: Turn) -> GrowingTurns:
        """Return a view with one more turn; only the latest view can grow.

        Raises:
            ValueError: This is not the latest view.
        """
        if len(self._turns) != self._length:
            raise ValueError("the conversation has later turns; add to the latest view")
        self._turns.append(turn)
        return GrowingTurns(self._turns, self._length + 1, self.session)

    @overload
    def __getitem__(self, place: int) -> Turn: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Turn]: ...
    def __getitem__(self, place: int | slice) -> Turn | Sequence[Turn]:
        """Return a turn; a view for a slice from the first turn, a tuple for other slices."""
        if isinstance(place, int):
            return self._turns[range(self._length)[place]]
        start, stop, step = place.indices(self._length)
        if start == 0 and step == 1:
            return GrowingTurns(self._turns, stop, self.session)
        return tuple(self._turns[index] for index in range(start, stop, step))

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Turn]:
        return islice(self._turns, self._length)


class PlainTurns(_Turns):
    """Turns with role and text only, created when they are read: imports store them without reading them."""

    __slots__ = ("_made", "messages")

    def __init__(self, messages: Sequence[Mapping[str, str]]) -> None:
        """`messages` have `role` and `content` only, and must not be changed afterwards."""
        self.messages = messages
        self._made: tuple[Turn, ...] | None = None

    def _turns(self) -> tuple[Turn, ...]:
        if self._made is None:
            self._made = tuple(Turn(message["role"], message["content"]) for message in self.messages)
        return self._made

    @overload
    def __getitem__(self, place: int) -> Turn: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Turn]: ...
    def __getitem__(self, place: int | slice) -> Turn | Sequence[Turn]:
        """Return a turn, or a tuple for a slice."""
        return self._turns()[place]

    def __len__(self) -> int:
        return len(self.messages)

    def __iter__(self) -> Iterator[Turn]:
        return iter(self._turns())


@dataclass(frozen=True, slots=True)
class Document:
    """A text available to the assistant: a search result, a help article, a fact.

    Attributes:
        text: The text.
        id: Identifier in the log, or `None` if the log has none.
        title: Title, or `None` if the document is untitled.

    >>> Document("Returns are free for 45 days.", title="Returns").to_json()
    {'text': 'Returns are free for 45 days.', 'title': 'Returns'}
    """

    text: str
    id: str | None = None
    title: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return JSON values without empty fields."""
        named = {"id": self.id, "title": self.title}
        return {"text": self.text, **{key: value for key, value in named.items() if value is not None}}


@dataclass(frozen=True, slots=True)
class Conversation:
    """Turns in order, with documents and metadata.

    Attributes:
        id: Identifier, unique in a store.
        turns: A tuple; also `GrowingTurns` of a conversation in progress, or `PlainTurns` of a plain log.
        documents: Texts available to the assistant.
        metadata: `system` (name of the assistant), `topic`, `user`, `version`, and all other keys of the log.
        reply: Index of the judged turn from 0, or `None` to judge all replies (see `at`).

    >>> chat = Conversation("c1", (Turn("user", "Hi."), Turn("assistant", "Hello!")), metadata={"system": "bot-2"})
    >>> chat.system, [turn.content for turn in chat.replies], len(chat.at(0).turns)
    ('bot-2', ['Hello!'], 1)
    """

    id: str
    turns: Sequence[Turn]
    documents: tuple[Document, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    reply: int | None = None

    def by(self, role: str) -> tuple[Turn, ...]:
        """Return the turns of one role, in order."""
        return tuple(turn for turn in self.turns if turn.role == role)

    def up_to(self, turn: int | None) -> Sequence[Turn]:
        """Return the turns that a judge of `turn` may read, up to and including it; all turns for None.

        After the result of a tool follow the results of other calls and the assistant's next turn, which uses them.
        """
        if turn is None:
            return self.turns
        end, count = turn + 1, len(self.turns)
        if 0 <= turn < count and self.turns[turn].role in TOOL_ROLES:
            while end < count and self.turns[end].role in TOOL_ROLES:
                end += 1
            end += end < count and self.turns[end].role == "assistant"
        return self.turns[:end]

    def at(self, turn: int | None) -> Conversation:
        """Return the conversation up to a turn, with that turn as its reply; itself for None."""
        return self if turn is None else replace(self, turns=self.up_to(turn), reply=turn)

    @property
    def replies(self) -> tuple[Turn, ...]:
        """Judged turns: `reply` if set, else the assistant's; between two people, the last speaker's."""
        if self.reply is not None:
            return (self.turns[self.reply],)
        assistant = self.by("assistant")
        people = [turn.role for turn in self.turns if turn.role not in NON_SPEAKERS]
        return assistant or (self.by(people[-1]) if people else ())

    @property
    def others(self) -> tuple[Turn, ...]:
        """Turns that may get a reply, in order, without instructions and tool outputs."""
        role = {turn.role for turn in self.replies}
        return tuple(turn for turn in self.turns if turn.role not in role | NON_SPEAKERS)

    @property
    def system(self) -> str | None:
        """Name of the assistant, if the log has it."""
        system = self.metadata.get("system")
        return None if system is None else str(system)

    @property
    def version(self) -> str | None:
        """Version of the assistant, from metadata such as `version`, `release` or `app_version`, or `None` if unknown.

        Without one, the only version that the turns of a finished conversation name.

        >>> Conversation("c1", (), metadata={"App Version": "2.1", "topic": "returns"}).version
        '2.1'
        """
        if (found := _version_in(self.metadata)) is not None or not isinstance(self.turns, tuple):
            return found
        versions = {name for turn in self.turns if turn.extra and (name := _version_in(turn.extra)) is not None}
        return versions.pop() if len(versions) == 1 else None

    def group(self, by: str) -> Any:
        """Return the value that groups the conversation: its system, its version, or a value of its metadata."""
        return self.system if by == "system" else self.version if by == "version" else self.metadata.get(by)

    @property
    def shown_system(self) -> str | None:
        """Name of the assistant for charts and tables, marked if the conversation is synthetic."""
        return f"{self.system or 'unknown'} (synthetic)" if self.is_synthetic else self.system

    @property
    def is_synthetic(self) -> bool:
        """True if a model played the user; the metadata describe it under `SYNTHETIC`."""
        return self.metadata.get(SYNTHETIC) is not None

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "id": self.id,
            "turns": [turn.to_json() for turn in self.turns],
            "documents": [document.to_json() for document in self.documents],
            "metadata": dict(self.metadata),
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Conversation:
        """Return the conversation of `to_json`."""
        return cls(
            id=row["id"],
            turns=tuple(Turn(**turn) for turn in row["turns"]),
            documents=tuple(Document(**document) for document in row["documents"]),
            metadata=row["metadata"],
        )


# --- JSON -----------------------------------------------------------------------------------------------------------

Json = str | int | float | bool | None | list["Json"] | dict[str, "Json"]
"""A JSON value."""

JsonSchema = dict[str, Any]
"""A JSON Schema."""


def canonical_json(value: Any, default: Callable[[Any], Any] | None = None) -> str:
    """Return JSON that is equal for equal values: sorted keys, no spaces, ASCII only; `default` as in `json.dumps`.

    ASCII escapes store characters that databases reject (NUL, lone surrogates).
    """
    if default is None:
        return _CANONICAL.encode(value)
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=default)


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def content_hash(value: Any, length: int = 64, default: Callable[[Any], Any] | None = None) -> str:
    """Return a digest of a JSON value: `s256:` and the first `length` hexadecimal digits of its SHA-256."""
    return text_hash(canonical_json(value, default), length)


def text_hash(canonical: str, length: int = 64) -> str:
    """Return the digest of canonical JSON; see `content_hash`."""
    return "s256:" + hashlib.sha256(canonical.encode("ascii")).hexdigest()[:length]


@dataclass(frozen=True, slots=True)
class Sample:
    """The unit that is judged: a conversation, or one turn together with all turns before it.

    The turn of a tool's result stands for the step: the call with its result (`accord.values.steps`).

    Attributes:
        conversation: The conversation.
        turn: Index of the judged turn, from 0. `None` stands for the whole conversation.
        hidden: Range of turns that are not shown, first and last + 1; see `models/context_window.py`.

    >>> Sample(Conversation("c1", (Turn("user", "Hi."), Turn("assistant", "Hello!"))), turn=1).target
    Target(conversation='c1', turn=1)
    """

    conversation: Conversation
    turn: int | None = None
    hidden: tuple[int, int] | None = None

    @property
    def is_step(self) -> bool:
        """True if the judged turn is the result of a tool: the unit is one call with its result."""
        turns = self.conversation.turns
        return self.turn is not None and self.turn < len(turns) and turns[self.turn].role in TOOL_ROLES

    def saying(self, turns: Sequence[Turn]) -> Sample:
        """Return the sample with other texts in its turns, and the same hidden range."""
        return replace(self, conversation=replace(self.conversation, turns=turns))

    @property
    def target(self) -> Target:
        """Target of annotations of this sample."""
        return Target(self.conversation.id, self.turn)


def _version_in(fields: Mapping[str, Any]) -> str | None:
    """Return the first value under the names of versions: a short text or a number."""
    named = {key.strip().casefold().replace(" ", "_").replace("-", "_"): key for key in fields if isinstance(key, str)}
    values = (fields[named[name]] for name in _VERSION_NAMES if name in named)
    texts = (str(value).strip() for value in values if isinstance(value, str | int | float))
    return next((text for text in texts if text and len(text) <= _LONGEST_VERSION and "\n" not in text), None)
