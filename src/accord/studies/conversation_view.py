"""Conversations as pages show them: turns with their tool calls, the rated step, and documents; no ids or metadata."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, replace

from accord.edges import sendable
from accord.values import NON_SPEAKERS, TOOL_ROLES, Conversation, Sample, Turn, steps


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


def visible_to(view: ConversationView, parts: Collection[str]) -> ConversationView:
    """Return the parts of a view that a role sees (`PARTS`).

    The reply is the rated turn, or each reply of a conversation that is rated as a whole; the question is the user's
    last message before it, or each message of the user. Calls of tools and their results are `tools`, messages of the
    system `system`, all other turns `history`. A turn that only calls tools is left out without them.
    """
    rated = next((turn.place for turn in view.turns if turn.is_rated), None)
    asked = [turn.place for turn in view.turns if turn.role == "user" and (rated is None or turn.place < rated)]
    questions = set(asked if rated is None else asked[-1:])

    def part_of(turn: TurnView) -> str:
        if turn.is_rated:
            return "reply"
        if turn.role in TOOL_ROLES:
            return "tools"
        if turn.role in NON_SPEAKERS:
            return "system"
        if turn.place in questions:
            return "question"
        return "reply" if rated is None and turn.role == "assistant" else "history"

    shown = [turn for turn in view.turns if part_of(turn) in parts]
    if "tools" not in parts:
        shown = [replace(turn, calls=(), step=None) for turn in shown if turn.text or turn.is_rated or not turn.calls]
    return ConversationView(tuple(shown), view.documents if "documents" in parts else ())


def tool_calls_of(turn: Turn) -> list[str]:
    """Return each tool call of a turn as text."""
    calls = steps.calls_of(turn)
    return [call if isinstance(call, str) else json.dumps(call, ensure_ascii=False, default=str) for call in calls]
