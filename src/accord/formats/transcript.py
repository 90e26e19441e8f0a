"""A transcript as plain text: lines that begin with who speaks, and whatever else a cell may hold as messages."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from accord.formats.messages import role_named, turn_from_message
from accord.formats.record import WrongShape
from accord.values import Turn

_SPEAKER = re.compile(
    r"^[ \t]*(?:[-*•][ \t]+)?(?:\[[^\]\n]{1,40}\][ \t]*)?(?:\*\*)?"
    r"(?P<who>[^\W\d_][\w .'’-]{0,28}?)(?:\*\*)?(?:[ \t]*[(\[][^)\]\n]{1,40}[)\]])?[ \t]*:(?:\*\*)?(?:[ \t]+|$)",
    re.MULTILINE,
)
"""`Customer:`, `**Agent**:`, `[10:02] Visitor (web):` at the beginning of a line."""
_MOST_SPEAKERS = 6
_INSIDE = ("messages", "turns", "conversation", "dialogue", "dialog", "history")
_MESSAGE = {"role", "content", "speaker", "from", "text", "value", "message", "parts", "sender", "author", "utterance"}


def is_transcript(text: str) -> bool:
    r"""Whether a text is a transcript: several lines that begin with a speaker, the first among them, who are few.

    >>> is_transcript("User: Hi\nBot: Hello"), is_transcript("Note: this is one sentence")
    (True, False)
    """
    found = [match["who"] for match in _SPEAKER.finditer(text)]
    first = _SPEAKER.match(text.lstrip())
    speakers = {who.casefold() for who in found}
    return first is not None and len(found) >= 2 and 2 <= len(speakers) <= _MOST_SPEAKERS


def transcript_turns(text: str) -> tuple[Turn, ...]:
    """The turns of a transcript in plain text; lines without a speaker go on with the turn before them.

    Raises:
        WrongShape: No lines begin with a speaker.
    """
    text = text.strip()
    if not is_transcript(text):
        raise WrongShape(
            "a transcript is a list of messages, the JSON of one, or lines that begin with the speaker "
            f"(`User: ...`), got {text[:40]!r}"
        )
    places = list(_SPEAKER.finditer(text))
    ends = [*(place.start() for place in places[1:]), len(text)]
    return tuple(
        Turn(role_named(place["who"]), text[place.end() : end].strip()) for place, end in zip(places, ends, strict=True)
    )


def is_messages(value: Any) -> bool:
    """Whether a value is a list of messages, a message, or an object that holds some."""
    if isinstance(value, Mapping):
        return bool({"role", "choices", "parts"} & value.keys()) or any(is_messages(value.get(key)) for key in _INSIDE)
    return (
        isinstance(value, list | tuple)
        and bool(value)
        and all(isinstance(each, Mapping) and len(_MESSAGE & each.keys()) >= 2 for each in value)
    )


def structured(value: Any) -> Any:
    """Messages in a cell, given as such or as their JSON; `None` where it holds a plain text or nothing."""
    if isinstance(value, str):
        if value.lstrip()[:1] not in ("[", "{"):
            return None
        try:
            inner = json.loads(value)
        except (ValueError, RecursionError):
            return None
        return inner if is_messages(inner) else None
    return None if value is None or value == "" else value


def turns_in(value: Any) -> tuple[Turn, ...]:
    """The turns of a cell that holds a conversation: messages, their JSON, or a transcript in plain text.

    Raises:
        WrongShape: It holds none of these.
    """
    inner = structured(value)
    if inner is None:
        return transcript_turns(value) if isinstance(value, str) else ()
    messages: Any = inner
    if isinstance(inner, Mapping):
        messages = next((inner[key] for key in _INSIDE if key in inner), [inner])
    if not isinstance(messages, Sequence) or isinstance(messages, str):
        raise WrongShape(f"messages are a list, got {type(messages).__name__}")
    if not messages:
        raise WrongShape("the conversation has no messages")
    return tuple(turn_from_message(message) for message in messages)


def cell_turns(value: Any, role: str) -> tuple[Turn, ...]:
    """The turns of one side of an exchange: a text of that role, or messages; a message without a role has it too.

    Raises:
        WrongShape: It is neither.
    """
    if value is None or value == "":
        return (Turn(role, ""),)
    inner = structured(value)
    if inner is None:
        return (Turn(role, str(value)),)
    if isinstance(inner, Mapping) and isinstance(inner.get("choices"), list) and inner["choices"]:
        first = inner["choices"][0]
        inner = first.get("message") if isinstance(first, Mapping) else first
    if isinstance(inner, Mapping):
        inner = next((inner[key] for key in _INSIDE if isinstance(inner.get(key), list)), [inner])
    if not isinstance(inner, list | tuple) or not inner or not all(_is_message(each) for each in inner):
        kind = type(value).__name__
        raise WrongShape(f"what was said is a text, a message or a list of messages, got {kind}: {_short(value)}")
    return tuple(turn_from_message({"role": role, **message}) for message in inner)


def _is_message(value: Any) -> bool:
    return isinstance(value, Mapping) and bool({"content", "parts", "tool_calls", "text"} & value.keys())


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
