"""Merge the model calls of a trace into one conversation.

A call may repeat the history before it, or contain only new messages.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from accord.formats.openai_messages import turn_from_message
from accord.formats.row_reader import decoded_json
from accord.values import Turn

Call = tuple[Sequence[Turn], Sequence[Turn]]
"""Input and output of one model call."""


def merged_turns(calls: Iterable[Call]) -> tuple[tuple[Turn, ...], list[int]]:
    """Merge calls in order of time into one conversation.

    A call's input replaces the conversation if it repeats all of it, or if it equals the last input (a regenerated
    reply). If it repeats the end of the conversation (a sliding window), only its new turns are added.

    Args:
        calls: Inputs and outputs, in order of time.

    Returns:
        The turns, and for each call the index of the last turn after it.
    """
    turns: list[Turn] = []
    ends: list[int] = []
    last_sent: list[tuple[str, str]] = []
    for sent, received in calls:
        before, now = _without_system(turns), _without_system(sent)
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
    """Return the length of the longest end of `before` that is a beginning of `now`."""
    longest = min(len(before), len(now))
    return next((size for size in range(longest, 0, -1) if before[-size:] == now[:size]), 0)


def _without_system(turns: Sequence[Turn]) -> list[tuple[str, str]]:
    return [(turn.role, turn.content.strip()) for turn in turns if turn.role != "system"]


def decoded(value: Any) -> Any:
    """Decode JSON text, as attributes of spans contain it; any other value is returned unchanged."""
    if isinstance(value, str):
        try:
            return decoded_json(value)
        except ValueError:
            return value
    return value


def decoded_messages(value: Any) -> Any:
    """Decode JSON text that holds messages; any other text is returned unchanged, since users type JSON too."""
    inner = decoded(value) if isinstance(value, str) and value[:1] in "[{" else value
    entries = inner if isinstance(inner, list) else [inner]
    has_messages = entries and all(isinstance(entry, dict) and _MESSAGE_KEYS & entry.keys() for entry in entries)
    return inner if has_messages else value


_MESSAGE_KEYS = {"role", "messages", "choices", "parts"}
_TEXT_KEYS = ("query", "question", "input", "prompt", "text", "message", "response", "answer", "output", "result")
_HISTORY_KEYS = ("chat_history", "history")


def loose_turns(value: Any, role: str) -> tuple[Turn, ...]:
    """Return the turns of a trace's input or output: messages, one message, a reply of a chat API, or a text.

    Args:
        value: Input or output in any of these forms.
        role: Role of a message that names none.

    Raises:
        WrongShape: A list contains something else than messages.
    """
    if value in (None, "", [], {}):
        return ()
    if isinstance(value, list):
        return tuple(turn_from_message(_with_role(message, role)) for message in value)
    if isinstance(value, dict):
        return _object_turns(value, role)
    return (Turn(role, str(value)),)


def _object_turns(value: dict[str, Any], role: str) -> tuple[Turn, ...]:
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
