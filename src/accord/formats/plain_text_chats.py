"""Plain-text transcripts: speaker lines (`Customer: ...`), WhatsApp exports, and messages in a cell of a table."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from accord.edges import BadInput
from accord.formats.openai_messages import role_named, turns_from_message
from accord.formats.record import Row, WrongShape, abbreviated
from accord.values import Turn

TEXT_SUFFIX = ".txt"
_DIVIDER = re.compile(r"^[ \t]*(?:-{3,}|={3,}|\*{3,}|#{3,}|_{3,})[ \t]*\n", re.MULTILINE)
_SPEAKER = re.compile(
    r"^[ \t]*(?:[-*•][ \t]+)?(?:\[[^\]\n]{1,40}\][ \t]*)?(?:\*\*)?"
    r"(?P<who>[^\W\d_][\w .'’-]{0,28}?)(?:\*\*)?(?:[ \t]*[(\[][^)\]\n]{1,40}[)\]])?[ \t]*"
    r"(?:：|:(?:\*\*)?(?:[ \t]+|$))",
    re.MULTILINE,
)
"""`Customer:`, `**Agent**:`, `[10:02] Visitor (web):`, `客服：` at the beginning of a line."""
_MAX_SPEAKERS = 6
_DATE = r"\d{1,4}[./-] ?\d{1,2}[./-] ?\d{1,4}\.?"
_HOUR = (
    r"(?:上午|下午|午前|午後|오전|오후)?[ \u202f\xa0]?\d{1,2}[:.]\d{2}(?:[:.]\d{2})?"
    r"(?:[ \u202f\xa0]?[apAP]\.?[ \u202f\xa0]?[mM]\.?)?"
)
_WHEN = rf"(?P<time>{_DATE},?[ \u202f\xa0]?(?:um |at |a las |às |à )?{_HOUR})"
_MARKS = "[\u200e\u200f\u202a\u202c]*"
_ANDROID = re.compile(rf"^{_MARKS}{_WHEN}(?: [-–] |, )(?P<message>.*)$", re.MULTILINE)
_IOS = re.compile(rf"^{_MARKS}\[{_WHEN}\][ \t]*(?P<message>.*)$", re.MULTILINE)
_NAMED = re.compile(r"(?P<who>[^:\n\"“”„«»]{1,40}?) ?: (?P<text>.*)|(?P<only>[^:\n\"“”„«»]{1,40}):$", re.DOTALL)
_PLACEHOLDER = re.compile(
    r"<.*>|.*(?:omitted|attached|weggelassen|ausgeschlossen|angehängt|omitid|adjunt|anexad|omis\b|joint|omess|allegat|"
    r"省略|忽略|附件|생략)",
    re.IGNORECASE | re.DOTALL,
)
"""WhatsApp's placeholder for a picture, a voice message or a file, in several languages."""
_LIST_KEYS = ("messages", "turns", "conversation", "dialogue", "dialog", "history")
_MESSAGE = {"role", "content", "speaker", "from", "text", "value", "message", "parts", "sender", "author", "utterance"}


def text_rows(path: Path, raw: bytes, encoding: str) -> Iterator[Row]:
    """Yield a row for each transcript of a text file; lines of dashes, equals signs and the like separate transcripts.

    The id of a conversation is the name of the file, with a number if there are several.

    Raises:
        BadInput: The text is not in this encoding, or has no speakers.
    """
    try:
        text = raw.decode(encoding).replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeError:
        raise BadInput(f"{path} is damaged or not {encoding}; save it as UTF-8") from None
    parts, line = [], 1
    for part in _DIVIDER.split(text):
        if part.strip():
            parts.append((line + part[: len(part) - len(part.lstrip())].count("\n"), part.strip()))
        line += part.count("\n") + 1
    if not parts:
        raise BadInput(f"{path} has no readable row; export it again, or leave it out")
    if not all(is_transcript(part) for _, part in parts):
        parts = [(1, text.strip())]  # the lines separate messages, not conversations
    if not is_transcript(parts[0][1]):
        raise BadInput(
            f"{path} is plain text without speakers; a transcript has lines such as `Customer: ...` and `Agent: ...`, "
            "or is a WhatsApp export. Save a table as .csv, and JSON lines as .jsonl"
        )
    stem = path.name.split(".")[0]
    for number, (line, part) in enumerate(parts, 1):
        yield Row(line, {"id": stem if len(parts) == 1 else f"{stem}-{number}", "transcript": part})


def is_transcript(text: str) -> bool:
    r"""Return True if a text is a WhatsApp export, or begins with a speaker line and has two to six speakers.

    >>> is_transcript("User: Hi\nBot: Hello"), is_transcript("Note: this is one sentence")
    (True, False)
    """
    if _is_whatsapp(text):
        return True
    names = [match["who"] for match in _SPEAKER.finditer(text)]
    begins = _SPEAKER.match(text.lstrip()) is not None
    return begins and len(names) >= 2 and 2 <= len({name.casefold() for name in names}) <= _MAX_SPEAKERS


def transcript_turns(text: str) -> tuple[Turn, ...]:
    """Return the turns of a transcript in plain text; a line without a speaker continues the turn before it.

    A text without speakers raises `WrongShape`.
    """
    text = text.strip()
    if not is_transcript(text):
        raise WrongShape(
            "a transcript is a list of messages, the JSON of one, or lines that begin with the speaker "
            f"(`User: ...`), got {text[:40]!r}"
        )
    return tuple(_whatsapp_messages(text) if _is_whatsapp(text) else _speaker_lines(text))


def _speaker_lines(text: str) -> list[Turn]:
    starts = list(_SPEAKER.finditer(text))
    ends = [*(start.start() for start in starts[1:]), len(text)]
    places = zip(starts, ends, strict=True)
    return [Turn(role_named(start["who"]), text[start.end() : end].strip()) for start, end in places]


def _is_whatsapp(text: str) -> bool:
    head = text.lstrip("\ufeff \r\n")
    return bool(_ANDROID.match(head) or _IOS.match(head)) and bool(_whatsapp_messages(head[:20_000]))


def _whatsapp_messages(text: str) -> list[Turn]:
    """Return the messages of a WhatsApp export: `date, time - Name: text` of Android, `[date, time] ...` of iOS.

    Lines of the app itself (encryption notice, joined, left) are skipped. Placeholders of media stay as they are.
    """
    form = _IOS if _IOS.match(text.lstrip("\ufeff \r\n")) else _ANDROID
    starts = list(form.finditer(text))
    ends = [*(start.start() for start in starts[1:]), len(text)]
    messages = []
    for start, end in zip(starts, ends, strict=True):
        named = _NAMED.fullmatch(start["message"] + text[start.end() : end].rstrip())
        if named is None:
            continue
        content = named["text"] or ""
        if content.startswith("\u200e") and not _PLACEHOLDER.match(content.strip("\u200e")):
            continue  # a line of the iOS app, with the chat's name in front
        speaker = (named["who"] or named["only"]).strip("\u200e\u202a\u202c~ \u202f\xa0")
        messages.append(Turn(role_named(speaker), content.replace("\u200e", "").strip(), time=start["time"]))
    return messages


# --- cells of tables -----------------------------------------------------------------------------------------------


def is_messages(value: Any) -> bool:
    """Return True for a list of messages, a message, or an object with a list of messages."""
    if isinstance(value, Mapping):
        is_message = bool({"role", "choices", "parts"} & value.keys())
        return is_message or any(is_messages(value.get(key)) for key in _LIST_KEYS)
    return (
        isinstance(value, list | tuple)
        and bool(value)
        and all(isinstance(message, Mapping) and len(_MESSAGE & message.keys()) >= 2 for message in value)
    )


def structured(value: Any) -> Any:
    """Return the messages of a cell, decoded from JSON text; `None` for plain text and empty cells."""
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
    """Return the turns of a cell: messages, their JSON, or a plain-text transcript; else raises `WrongShape`."""
    inner = structured(value)
    if inner is None:
        return transcript_turns(value) if isinstance(value, str) else ()
    messages: Any = inner
    if isinstance(inner, Mapping):
        messages = next((inner[key] for key in _LIST_KEYS if key in inner), [inner])
    if not isinstance(messages, Sequence) or isinstance(messages, str):
        raise WrongShape(f"messages are a list, got {type(messages).__name__}")
    if not messages:
        raise WrongShape("the conversation has no messages")
    return tuple(chain.from_iterable(map(turns_from_message, messages)))


def cell_turns(value: Any, role: str) -> tuple[Turn, ...]:
    """Return the turns of one side of an exchange: a text, or messages; anything else raises `WrongShape`.

    `role` is the role of a text, and of messages that name none.
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
        inner = next((inner[key] for key in _LIST_KEYS if isinstance(inner.get(key), list)), [inner])
    if not isinstance(inner, list | tuple) or not inner or not all(_is_message(message) for message in inner):
        kind = type(value).__name__
        raise WrongShape(f"a prompt or a response is a text or messages, got {kind}: {abbreviated(value)}")
    return tuple(chain.from_iterable(turns_from_message({"role": role, **message}) for message in inner))


def _is_message(value: Any) -> bool:
    return isinstance(value, Mapping) and bool({"content", "parts", "tool_calls", "text"} & value.keys())
