"""Turns of a transcript as every page shows them: text, folded turns, tool calls and results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from accord.edges import count_of, one_line, sendable, truncate_middle
from accord.values import NON_SPEAKERS, Span
from accord.values.steps import Step
from accord.web.turn_text import render_text

FOLDED = {"system": "System prompt", "developer": "System prompt", "tool": "Tool output", "function": "Tool output"}
"""Titles of turns that are folded, by role."""
PLAIN_ROLES = frozenset({"user", "tool", "function"})
"""Roles whose texts are shown as written: people do not type Markdown, and outputs of tools are data."""
MAX_ARGUMENTS = 120
"""Number of characters of a tool call's arguments, and of its name, in its line."""
MAX_PARSED = 100_000
"""Length of a tool call or output, in characters, up to which its JSON is read."""


def turn_content(
    role: str,
    text: str,
    calls: Sequence[str] = (),
    spans: Sequence[tuple[Span, int, bool]] = (),
    documents: int = 0,
    anchor: str = "d",
) -> dict[str, Any]:
    """Return the values of the macro `said` for a turn.

    Args:
        role: Role of the turn.
        text: Its text.
        calls: Its tool calls as text.
        spans: Quotes, each with its span, its number, and True if it is an issue of a model.
        documents: Number of documents that the turn can cite.
        anchor: Beginning of the documents' ids in the page; the number of the document follows.
    """
    html = render_text(text, spans, role not in PLAIN_ROLES, documents if role not in NON_SPEAKERS else 0, anchor)
    results = result_count(text) if role in ("tool", "function") else ""
    return {"html": html, "is_empty": not text, "folded": FOLDED.get(role, ""), "results": results,
            "calls": [tool_call_line(call) for call in calls]}  # fmt: skip


MAX_SHOWN = 1500
"""Number of characters of an argument, and of a rated result, that are not folded."""
MAX_ROWS = 100
"""Number of arguments of a rated call that have a row of their own."""


def step_content(step: Step) -> dict[str, Any]:
    """Return the values of the macro `step`: the tool, its arguments by name or as text, and the flag of an error.

    >>> step_content(Step(3, 2, "find", '{"city": "Paris", "days": 2}', "ok"))["rows"]
    [('city', 'Paris', False), ('days', '2', False)]
    """
    given = _json_of(step.arguments)
    pairs = list(given.items()) if isinstance(given, Mapping) and len(given) <= MAX_ROWS else []
    texts = [(key, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)) for key, value in pairs]
    return {
        "name": truncate_middle(sendable(step.name), 80),
        "rows": [(sendable(str(key)), sendable(text), len(text) > MAX_SHOWN) for key, text in texts],
        "text": "" if texts or given == {} else sendable(step.arguments),
        "is_long": len(step.arguments) > MAX_SHOWN, "is_error": step.is_error, "is_called": step.call_turn is not None,
    }  # fmt: skip


def tool_call_line(call: str) -> dict[str, str]:
    """Return the name of a tool call, its arguments in one line, and the call as it is stored.

    >>> line = tool_call_line('{"function": {"name": "find", "arguments": {"city": "Paris"}}}')
    >>> line["name"], line["arguments"]
    ('find', 'city: "Paris"')
    """
    row = _json_of(call)
    called = row.get("function", row) if isinstance(row, Mapping) else {}
    name = called.get("name") if isinstance(called, Mapping) else None
    if not isinstance(name, str):
        return {"name": "", "arguments": one_line(call, MAX_ARGUMENTS), "text": call}
    given: Any = next((called[key] for key in ("arguments", "args", "input", "parameters") if key in called), {})
    given = _json_of(given) if isinstance(given, str) else given
    pairs = given.items() if isinstance(given, Mapping) else [("", given)]
    texts = [f"{key}: {_short_json(value)}" if key else _short_json(value) for key, value in list(pairs)[:20]]
    return {"name": truncate_middle(name, 80), "arguments": one_line(", ".join(texts), MAX_ARGUMENTS), "text": call}


def result_count(text: str) -> str:
    """Return the number of results of a tool's output; empty if it is not a list.

    >>> result_count('["a", "b"]'), result_count("21 degrees")
    ('2 results', '')
    """
    rows = _json_of(text)
    return count_of(len(rows), "result") if isinstance(rows, list) else ""


def _short_json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= MAX_ARGUMENTS else text[: MAX_ARGUMENTS - 1] + "…"


def _json_of(text: str) -> Any:
    """Return the value of a JSON text, or the text itself if it is not JSON."""
    if len(text) > MAX_PARSED or text.lstrip()[:1] not in ("{", "[", '"'):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
