"""Roles of turns: mapping of a file's roles, and notes on roles and turns that readers of an import need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter

from accord.edges import BadInput, count_of
from accord.formats.tool_messages import MESSAGE_PART
from accord.values import Conversation, PlainTurns, Turn

ROLE_NAMES = ("user", "assistant", "system", "tool")
_LISTED_ROLES = 10


def check_roles(roles: Mapping[str, str]) -> dict[str, str]:
    """Validate a mapping of the roles in files to `user`, `assistant`, `system` or `tool`.

    Raises:
        BadInput: A role is empty, or mapped to an unknown role.
    """
    for theirs, ours in roles.items():
        if not theirs or ours not in ROLE_NAMES:
            got = f"{theirs}={ours}" if theirs else ours
            raise BadInput(f"--role takes THEIRS=OURS, got {got}; ours is user, assistant, system or tool")
    return dict(roles)


def with_roles(conversation: Conversation, roles: Mapping[str, str]) -> Conversation:
    """Return a conversation with its roles mapped."""
    if not roles:
        return conversation
    turns = (replace(turn, role=roles.get(turn.role, turn.role)) for turn in conversation.turns)
    return replace(conversation, turns=tuple(turns))


@dataclass
class RoleCounts:
    """Counts of the roles in conversations.

    Attributes:
        roles: Roles in conversations without an assistant.
        speakers: Roles as the files name them; counted only if a mapping of roles is given.
        split: Conversations with messages that became several turns, by `messages`.
    """

    roles: Counter[str] = field(default_factory=Counter)
    speakers: Counter[str] = field(default_factory=Counter)
    split: Counter[str] = field(default_factory=Counter)

    def count_roles(self, conversation: Conversation, unmapped: Conversation | None = None) -> None:
        """Count the roles of a conversation without an assistant, and the speakers before roles were mapped."""
        if not isinstance(conversation.turns, PlainTurns):
            is_split = any(MESSAGE_PART in turn.extra for turn in conversation.turns if turn.extra)
            self.split.update(["messages"] if is_split else [])
        if unmapped is not None:
            self.speakers.update(list(dict.fromkeys(_roles_of(unmapped.turns))))
        if "assistant" not in _roles_of(conversation.turns):
            roles = dict.fromkeys(role for role in _roles_of(conversation.turns) if role not in ("system", "tool"))
            self.roles.update(list(roles))  # in the order in which they speak

    def role_notes(self, roles: Mapping[str, str]) -> list[str]:
        """Return sentences on mapped roles that no conversation has, and on conversations without an assistant."""
        notes = []
        if unused := [name for name in roles if name not in self.speakers]:
            names = ", ".join(repr(name) for name, _ in self.speakers.most_common(_LISTED_ROLES)) or "none"
            notes.append(
                f"--role: no conversation has the role {', '.join(map(repr, unused))}. Roles found: {names}"
                + (", ..." if len(self.speakers) > _LISTED_ROLES else "")
            )
        if (alone := self.roles["user"]) and len(self.roles) == 1:
            notes.append(f"{alone} conversations have messages of the user and no reply; the last message is scored")
        if len(self.roles) > 1:
            notes.append(
                f"conversations without an assistant: {', '.join(self.roles)} speak; the last speaker is scored. "
                "To map their roles: --role NAME=assistant"
            )
        return notes

    def turn_notes(self) -> list[str]:
        """Return a sentence on messages that became several turns, which changes the numbers of later turns."""
        if not (count := self.split["messages"]):
            return []
        return [
            f"{count_of(count, 'conversation')} with several results of tools in one message: each result is a turn of "
            "its own. Turn numbers in label files count these turns, not the messages"
        ]


def _roles_of(turns: Sequence[Turn]) -> Iterator[str]:
    return map(_ROLE, turns.messages) if isinstance(turns, PlainTurns) else (turn.role for turn in turns)


_ROLE = itemgetter("role")
