"""Transcripts as plain text: speaker lines (`Customer: ...`), WhatsApp exports, and messages in the cell of a table."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from accord.formats.openai_messages import role_named, turn_from_message
from accord.formats.record import WrongShape
from accord.values import Turn

_SPEAKER = re.compile(
    r"^[ \t]*(?:[-*•][ \t]+)?(?:\[[^\]\n]{1,40}\][ \t]*)?(?:\*\*)?"
    r"(?P<who>[^\W\d_][\w .'’-]{0,28}?)(?:\*\*)?(?:[ \t]*[(\[][^)\]\n]{1,40}[)\]])?[ \t]*"
    r"(?:：|:(?:\*\*)?(?:[ \t]+|$))",
    re.MULTILINE,
)
"""`Customer:`, `**Agent**:`, `[10:02] Visitor (web):`, `客服：` at the beginning of a line."""
_MOST_SPEAKERS = 6
_DATE = r"\d{1,4}[./-] ?\d{1,2}[./-] ?\d{1,4}\.?"
_HOUR = (
    r"(?:上午|下午|午前|午後|오전|오후)?[ \u202f\xa0]?\d{1,2}[:.]\d{2}(?:[:.]\d{2})?"
    r"(?:[ \u202f\xa0]?[apAP]\.?[ \u202f\xa0]?[mM]\.?)?"
)
_WHEN = rf"(?P<time>{_DATE},?[ \u202f\xa0]?(?:um |at |a las |às |à )?{_HOUR})"
_MARKS = "[\u200e\u200f\u202a\u202c]*"
_ANDROID = re.compile(rf"^{_MARKS}{_WHEN}(?: [-–] |, )(?P<said>.*)$", re.MULTILINE)
_IOS = re.compile(rf"^{_MARKS}\[{_WHEN}\][ \t]*(?P<said>.*)$", re.MULTILINE)
_NAMED = re.compile(r"(?P<who>[^:\n\"“”„«»]{1,40}?) ?: (?P<text>.*)|(?P<only>[^:\n\"“”„«»]{1,40}):$", re.DOTALL)
_PLACEHOLDER = re.compile(
    r"<.*>|.*(?:omitted|attached|weggelassen|ausgeschlossen|angehängt|omitid|adjunt|anexad|omis\b|joint|omess|allegat|"
    r"省略|忽略|附件|생략)",
    re.IGNORECASE | re.DOTALL,
)
"""WhatsApp's text in place of a picture, a voice message or a file, in several languages."""
_INSIDE = ("messages", "turns", "conversation", "dialogue", "dialog", "history")
_MESSAGE = {"role", "content", "speaker", "from", "text", "value", "message", "parts", "sender", "author", "utterance"}


class _Said(NamedTuple):
    who: str
    text: str
    time: str | None = None


def is_transcript(text: str) -> bool:
    r"""Return True if a text is a WhatsApp export, or begins with a speaker line and has two to six speakers.

    >>> is_transcript("User: Hi\nBot: Hello"), is_transcript("Note: this is one sentence")
    (True, False)
    """
    if _is_whatsapp(text):
        return True
    found = [match["who"] for match in _SPEAKER.finditer(text)]
    first = _SPEAKER.match(text.lstrip())
    speakers = {who.casefold() for who in found}
    return first is not None and len(found) >= 2 and 2 <= len(speakers) <= _MOST_SPEAKERS


def transcript_turns(text: str) -> tuple[Turn, ...]:
    """Return the turns of a transcript in plain text; a line without a speaker continues the turn before it.

    Raises:
        WrongShape: No line begins with a speaker.
    """
    text = text.strip()
    if not is_transcript(text):
        raise WrongShape(
            "a transcript is a list of messages, the JSON of one, or lines that begin with the speaker "
            f"(`User: ...`), got {text[:40]!r}"
        )
    found = _whatsapp_messages(text) if _is_whatsapp(text) else _speaker_lines(text)
    return tuple(Turn(role_named(each.who), each.text, time=each.time) for each in found)


def _speaker_lines(text: str) -> list[_Said]:
    places = list(_SPEAKER.finditer(text))
    ends = [*(place.start() for place in places[1:]), len(text)]
    return [_Said(place["who"], text[place.end() : end].strip()) for place, end in zip(places, ends, strict=True)]


def _is_whatsapp(text: str) -> bool:
    head = text.lstrip("\ufeff \r\n")
    return bool(_ANDROID.match(head) or _IOS.match(head)) and bool(_whatsapp_messages(head[:20_000]))


def _whatsapp_messages(text: str) -> list[_Said]:
    """Return the messages of a WhatsApp export: `date, time - Name: text` of Android, `[date, time] ...` of iOS.

    Lines of the app itself (encryption notice, joined, left) are skipped. Placeholders of media stay as they are.
    """
    form = _IOS if _IOS.match(text.lstrip("\ufeff \r\n")) else _ANDROID
    places = list(form.finditer(text))
    ends = [*(place.start() for place in places[1:]), len(text)]
    found = []
    for place, end in zip(places, ends, strict=True):
        said = place["said"] + text[place.end() : end].rstrip()
        named = _NAMED.fullmatch(said)
        if named is None:
            continue
        content = named["text"] or ""
        if content.startswith("\u200e") and not _PLACEHOLDER.match(content.strip("\u200e")):
            continue  # iOS marks lines of the app so, with the chat's name in front
        who = (named["who"] or named["only"]).strip("\u200e\u202a\u202c~ \u202f\xa0")
        found.append(_Said(who, content.replace("\u200e", "").strip(), place["time"]))
    return found


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
