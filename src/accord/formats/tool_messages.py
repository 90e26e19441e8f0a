"""Calls and results of tools in messages: parts of Anthropic (`tool_use`, `tool_result`) and OpenTelemetry.

Calls become `tool_calls` of a turn, in the form of OpenAI. Each result becomes a turn of the role `tool`, as OpenAI
logs it, with the id of its call in `tool_call_id` and `is_error` if it is flagged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from accord.values import steps

_CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use", "tool_call"})
_RESULTS = frozenset({"tool_result", "mcp_tool_result", "tool_call_response"})
_ANSWER_KEYS = ("content", "response", "result", "output")
_CALL_KEYS = frozenset({"type", "id", "name", "input", "arguments"})
_RESULT_KEYS = frozenset({"type", "id", "tool_use_id", "name", *_ANSWER_KEYS})
MESSAGE_PART = "message_part"
"""Key of a turn's `extra`: its number in a message that became several turns, from 1 for the second turn."""


def has_results(content: Any) -> bool:
    """Return True if the content of a message has results of tools as parts."""
    return isinstance(content, list) and any(_kind(part) in _RESULTS for part in content)


def fields_of(parts: Sequence[Any], known: Sequence[Any]) -> dict[str, Any]:
    """Return the fields of a turn for the parts of a message that are not text: `tool_calls` and `parts`.

    The tool calls are the known ones and those in the parts, in the form of OpenAI.
    """
    calls, others = list[dict[str, Any]](), []
    for part in parts:
        if _kind(part) in _CALLS and isinstance(part.get("name"), str):
            more = {key: value for key, value in part.items() if key not in _CALL_KEYS and value is not None}
            id_, name, arguments = steps.parse_call(part)
            named = {} if id_ is None else {"id": id_}
            calls.append({**more, **named, "type": "function", "function": {"name": name, "arguments": arguments}})
        else:
            others.append(part)
    return {**({"tool_calls": [*known, *calls]} if calls else {}), **({"parts": others} if others else {})}


def result_messages(message: Mapping[str, Any], content_key: str) -> list[dict[str, Any]]:
    """Split a message with results: a message per result, then one with the other parts, if there are any."""
    parts = message[content_key]
    results = [_result_message(part) for part in parts if _kind(part) in _RESULTS]
    others = [part for part in parts if _kind(part) not in _RESULTS]
    shared = {key: value for key, value in message.items() if key not in {"role", content_key}}
    if len(results) == 1 and not others:
        return [{**shared, **results[0]}]
    rest = [{**message, content_key: others}] if others else []
    whole = [*results[:-1], {**shared, **results[-1]}, *rest] if not rest else [*results, *rest]
    return [{**each, MESSAGE_PART: number} if number else each for number, each in enumerate(whole)]


def _result_message(part: Mapping[str, Any]) -> dict[str, Any]:
    content = next((part[key] for key in _ANSWER_KEYS if part.get(key) is not None), "")
    is_content = isinstance(content, str) or (isinstance(content, list) and all(map(_is_part, content)))
    id_ = part.get("tool_use_id") or part.get("id")
    return {
        **{key: value for key, value in part.items() if key not in _RESULT_KEYS and value not in (None, False)},
        "role": "tool",
        "content": content if is_content else json.dumps(content, ensure_ascii=False, default=str),
        **({} if id_ is None else {"tool_call_id": str(id_)}),
        **({"name": part["name"]} if part.get("name") else {}),
    }


def _is_part(value: Any) -> bool:
    return isinstance(value, str) or _kind(value) is not None


def _kind(part: Any) -> str | None:
    kind = part.get("type") if isinstance(part, Mapping) else None
    return kind if isinstance(kind, str) else None
