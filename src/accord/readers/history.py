"""Traces to conversations: each call repeats the history before it, or holds only what is new; both are met."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from accord.conversation import Turn
from accord.readers.messages import turn_from_message
from accord.readers.record import WrongShape


def joined(calls: Iterable[tuple[Sequence[Turn], Sequence[Turn]]]) -> tuple[Turn, ...]:
    """One conversation from its calls in time order, each as (what went in, what came out).

    A call whose input begins with all that was said so far replaces it; another adds to it.
    """
    turns: list[Turn] = []
    for sent, received in calls:
        spoken = _spoken(turns)
        repeats = _spoken(sent)[: len(spoken)] == spoken
        if repeats:
            turns = [*sent, *received]
        else:
            known = {turn.content for turn in turns if turn.role == "system"}
            turns += [turn for turn in sent if not (turn.role == "system" and turn.content in known)]
            turns += received
    return tuple(turns)


def _spoken(turns: Sequence[Turn]) -> list[tuple[str, str]]:
    return [(turn.role, turn.content) for turn in turns if turn.role != "system"]


def loose_turns(value: Any, role: str) -> tuple[Turn, ...]:
    """Turns from whatever a trace holds as input or output: messages, one message, a reply of a chat API, or a text.

    Raises:
        WrongShape: A list of messages that is none.
    """
    value = _parsed(value)
    if value in (None, "", [], {}):
        return ()
    if isinstance(value, list):
        return tuple(turn_from_message(_with_role(message, role)) for message in value)
    if isinstance(value, dict):
        return _from_object(value, role)
    return (Turn(role, str(value)),)


def _from_object(value: dict[str, Any], role: str) -> tuple[Turn, ...]:
    if isinstance(value.get("choices"), list) and value["choices"]:
        return loose_turns(value["choices"][0].get("message"), role)
    if isinstance(value.get("messages"), list):
        return loose_turns(value["messages"], role)
    if "content" in value or "parts" in value:
        return (turn_from_message(_with_role(value, role)),)
    keys = ("query", "question", "input", "prompt", "text", "message", "response", "answer", "output", "result")
    for key in keys:
        if isinstance(value.get(key), str | list | dict):
            return loose_turns(value[key], role)
    raise WrongShape(f"no message found among the keys {', '.join(sorted(value))}")


def _with_role(message: Any, role: str) -> Any:
    if isinstance(message, str):
        return {"role": role, "content": message}
    return {"role": role, **message} if isinstance(message, dict) else message


def _parsed(value: Any) -> Any:
    """JSON inside a string, as trace attributes often hold it; a text that is no JSON stays a text."""
    if isinstance(value, str) and value[:1] in '[{"':
        try:
            return json.loads(value)
        except json.JSONDecodeError:
            return value
    return value
