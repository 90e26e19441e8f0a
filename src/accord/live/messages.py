"""One message of a live conversation: what comes in over the wire, from a log, or from a call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from accord.values import BadInput, reasons, sendable

Role = Literal["assistant", "user", "system", "developer", "tool", "function"]
ROLES = frozenset(Role.__args__)  # type: ignore[attr-defined]
MOST_TURNS = 1_000_000
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
        given = sum(map(len, self.documents or ()))
        if len(self.content) > LONGEST or given > LONGEST:
            raise BadInput(
                f"a message of {len(self.content)} characters with documents of {given}; at most {LONGEST} of either. "
                "Send the passages that the assistant was shown"
            )

    @property
    def day(self) -> str:
        """The day it was said on (UTC), as ISO writes it."""
        said = self.time or datetime.now(UTC)
        try:
            return (said.astimezone(UTC) if said.tzinfo else said).date().isoformat()
        except OverflowError:  # the first or the last day there is
            return said.date().isoformat()


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
    try:
        return adapter().validate_python(_sendable(row))
    except RecursionError:
        raise BadInput("not a message: its values are nested too deeply") from None
    except ValidationError as error:
        raise BadInput(f"not a message: {'; '.join(reasons(error)[:3])}") from None


def _sendable(row: Any) -> Any:
    """The row with every text in it such as every wire can carry."""
    if isinstance(row, str):
        return sendable(row)
    if isinstance(row, list):
        return [_sendable(each) for each in row]
    return {key: _sendable(value) for key, value in row.items()} if isinstance(row, Mapping) else row
