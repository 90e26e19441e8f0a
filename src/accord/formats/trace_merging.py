"""Traces to conversations: each call repeats the history before it, or holds only what is new; both are met."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from accord.formats.openai_messages import turn_from_message
from accord.formats.row_reader import decoded_json
from accord.values import Turn

Call = tuple[Sequence[Turn], Sequence[Turn]]
"""What went into one call of a model, and what came out."""


def joined(calls: Iterable[Call]) -> tuple[tuple[Turn, ...], list[int]]:
    """One conversation from its calls in time order, and for each call the index of the last turn it led to.

    A call may repeat all that was said (its input replaces it), repeat the last input (a regenerated answer
    replaces the old one), repeat the end of it (a sliding window: only what is new is added), or repeat nothing.
    """
    turns: list[Turn] = []
    ends: list[int] = []
    last_sent: list[tuple[str, str]] = []
    for sent, received in calls:
        before, now = _spoken(turns), _spoken(sent)
        if now[: len(before)] == before or (last_sent and now == before[: len(now)] and now == last_sent):
            turns = [*sent, *received]
        else:
            known = {turn.content for turn in turns if turn.role == "system"}
            fresh = [turn for turn in sent if not (turn.role == "system" and turn.content in known)]
            repeated = _overlap(before, now)
            turns += [*fresh[len(fresh) - len(now) + repeated :], *received] if repeated else [*fresh, *received]
        last_sent = now
        ends.append(len(turns) - 1)
    return tuple(turns), ends


def _overlap(before: Sequence[tuple[str, str]], now: Sequence[tuple[str, str]]) -> int:
    """How many turns at the end of `before` are those at the beginning of `now`."""
    longest = min(len(before), len(now))
    return next((size for size in range(longest, 0, -1) if before[-size:] == now[:size]), 0)


def _spoken(turns: Sequence[Turn]) -> list[tuple[str, str]]:
    return [(turn.role, turn.content.strip()) for turn in turns if turn.role != "system"]


def decoded(value: Any) -> Any:
    """The value inside JSON text, as span attributes hold it; a text that is no JSON stays a text."""
    if isinstance(value, str):
        try:
            return decoded_json(value)
        except ValueError:
            return value
    return value


def decoded_messages(value: Any) -> Any:
    """Messages inside JSON text, where it holds some; any other text may be what a person typed, and stays."""
    inner = decoded(value) if isinstance(value, str) and value[:1] in "[{" else value
    holds = inner if isinstance(inner, list) else [inner]
    looks = holds and all(isinstance(entry, dict) and _MESSAGE_KEYS & entry.keys() for entry in holds)
    return inner if looks else value


_MESSAGE_KEYS = {"role", "messages", "choices", "parts"}
_TEXT_KEYS = ("query", "question", "input", "prompt", "text", "message", "response", "answer", "output", "result")
_HISTORY_KEYS = ("chat_history", "history")


def loose_turns(value: Any, role: str) -> tuple[Turn, ...]:
    """Turns from whatever a trace holds as input or output: messages, one message, a reply of a chat API, or a text.

    Raises:
        WrongShape: A list of messages that is none.
    """
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
    history: list[Any] = next((value[key] for key in _HISTORY_KEYS if isinstance(value.get(key), list)), [])
    text = next((value[key] for key in _TEXT_KEYS if isinstance(value.get(key), str | list | dict)), None)
    if text is None:
        return (Turn(role, json.dumps(value, ensure_ascii=False)),)
    return (*loose_turns(history, role), *loose_turns(text, role))


def _with_role(message: Any, role: str) -> Any:
    if isinstance(message, str):
        return {"role": role, "content": message}
    return {"role": role, **message} if isinstance(message, dict) else message
