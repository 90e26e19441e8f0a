"""Conversations as pages show them: turns with their tool calls, the rated step, and documents; no ids or metadata."""

from __future__ import annotations

import json
from dataclasses import dataclass

from accord.edges import sendable
from accord.values import Conversation, Sample, Turn, steps


@dataclass(frozen=True)
class TurnView:
    """A turn as pages show it, with its tool calls as text; `step` is the step of a rated result of a tool."""

    place: int
    role: str
    text: str
    is_rated: bool
    calls: tuple[str, ...] = ()
    step: steps.Step | None = None


@dataclass(frozen=True)
class ConversationView:
    """A conversation as pages show it: turns up to the rated one, and documents as pairs of title and text."""

    turns: tuple[TurnView, ...]
    documents: tuple[tuple[str, str], ...]


def conversation_view(conversation: Conversation, turn: int | None, with_documents: bool) -> ConversationView:
    """Return a conversation up to a turn as pages show it."""
    found = steps.steps_at(Sample(conversation, turn)) if Sample(conversation, turn).is_step else ()
    step_of = {step.turn: step for step in found}
    turns = tuple(
        TurnView(
            place,
            each.role,
            sendable(each.content),
            place == turn,
            tuple(map(sendable, tool_calls_of(each))),
            step_of.get(place),
        )  # fmt: skip
        for place, each in enumerate(conversation.up_to(turn))
    )
    documents = ((sendable(each.title or ""), sendable(each.text)) for each in conversation.documents)
    return ConversationView(turns, tuple(documents) if with_documents else ())


def tool_calls_of(turn: Turn) -> list[str]:
    """Return each tool call of a turn as text."""
    calls = steps.calls_of(turn)
    return [call if isinstance(call, str) else json.dumps(call, ensure_ascii=False, default=str) for call in calls]
