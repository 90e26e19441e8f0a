"""Messages of OpenAI and Anthropic (`{"messages": [{"role", "content", "tool_calls"?}]}`) and of ShareGPT; roles."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from operator import itemgetter
from typing import Any

from accord.edges import is_sendable
from accord.formats import tool_messages
from accord.formats.record import Fields, Format, Record, WrongShape, abbreviated, formats, mapping_of, plain_name
from accord.values import Conversation, Document, PlainTurns, Turn, steps

_ID_KEYS = (
    "id", "conversation_id", "session_id", "thread_id", "dialogue_id", "dialog_id", "chat_id", "conv_id", "ticket_id",
    "conversation", "custom_id", "request_id",
)  # fmt: skip
_DOCUMENT_KEYS = ("documents", "context", "contexts", "retrieved_contexts", "knowledge")
_TEXT_KEYS = ("text", "content", "page_content", "value")
_ROLE_KEYS = ("role", "speaker", "sender", "from", "author")
_SYSTEM_KEYS = (
    "system_name", "bot", "chatbot", "bot_name", "assistant", "assistant_name", "bot_version", "assistant_version",
    "model", "model_name", "model_version", "version",
)  # fmt: skip
"""Other names of the column with the name or version of the assistant, the most specific first."""
_LONGEST_SYSTEM = 200
_PLAIN = frozenset({"role", "content"})
_CONTENT_KEYS = ("content", "parts", "text", "utterance", "message", "value")


_STANDARD = frozenset({"user", "assistant", "tool", "system"})
ROLES = {
    "human": "user", "customer": "user", "client": "user", "end-user": "user", "visitor": "user", "guest": "user",
    "enduser": "user",
    "caller": "user", "consumer": "user", "shopper": "user", "patient": "user", "student": "user", "kunde": "user",
    "kundin": "user", "nutzer": "user", "nutzerin": "user", "benutzer": "user",
    "ai": "assistant", "gpt": "assistant", "chatgpt": "assistant", "bot": "assistant", "model": "assistant",
    "agent": "assistant", "function_call": "assistant", "operator": "assistant", "chatbot": "assistant",
    "llm": "assistant", "representative": "assistant", "rep": "assistant", "support": "assistant",
    "support-agent": "assistant", "advisor": "assistant", "virtual-assistant": "assistant", "tutor": "assistant",
    "assistent": "assistant", "assistentin": "assistant", "berater": "assistant", "beraterin": "assistant",
    "mitarbeiter": "assistant", "mitarbeiterin": "assistant",
    "usuario": "user", "usuaria": "user", "cliente": "user", "utilisateur": "user", "utilisatrice": "user",
    "usuário": "user", "utente": "user", "пользователь": "user", "клиент": "user",
    "用户": "user", "客户": "user", "顾客": "user", "ユーザー": "user", "お客様": "user",
    "사용자": "user", "고객": "user",
    "asistente": "assistant", "agente": "assistant", "conseiller": "assistant", "conseillère": "assistant",
    "assistente": "assistant", "atendente": "assistant", "operatore": "assistant", "ассистент": "assistant",
    "оператор": "assistant", "助手": "assistant", "客服": "assistant", "机器人": "assistant",
    "アシスタント": "assistant", "オペレーター": "assistant", "상담원": "assistant", "어시스턴트": "assistant",
    "系统": "system", "システム": "system", "시스템": "system",
    "function": "tool", "observation": "tool", "function_response": "tool", "ipython": "tool", "developer": "system",
}  # fmt: skip
"""Other names of the four roles that metrics and judges know; any other role keeps its name."""


@lru_cache(maxsize=1024)
def role_named(name: str) -> str:
    """Return Accord's name of a role."""
    if name in _STANDARD:
        return name
    lowered = name.strip().lower()
    return lowered if lowered in _STANDARD else ROLES.get(lowered) or ROLES.get(re.sub(r"[\s_]+", "-", lowered), name)


@lru_cache(maxsize=1024)
def intended_role(name: str) -> str | None:
    """Return the intended role of a misspelled one; `None` for a known role, and for a name of another kind.

    >>> intended_role("usr"), intended_role("asistant"), intended_role("user"), intended_role("Usher")
    ('user', 'assistant', None, None)
    """
    lowered = name.strip().casefold()
    if role_named(name) in _STANDARD or not lowered.isalpha() or len(lowered) < 3:
        return None
    long = 3 if lowered[0] == name.strip()[0] else 6  # a capitalized word may be a person's name
    known = [role for role in _SPELLED if len(role) >= long]
    swapped = [role for role in known if sorted(role) == sorted(lowered)]
    close = swapped or difflib.get_close_matches(lowered, known, n=1, cutoff=0.8)
    return role_named(close[0]) if close else None


_SPELLED = (*sorted(_STANDARD), "customer", "agent", "human")


def turns_of(messages: Sequence[Any]) -> Sequence[Turn]:
    """Convert the messages of a chat API to turns; see `turns_from_message`."""
    if type(messages) is list and _are_plain(messages):
        return PlainTurns(messages)
    return tuple(turn for message in messages for turn in turns_from_message(message))


_DICTS, _PAIRS, _TEXTS = frozenset({dict}), frozenset({len(_PLAIN)}), frozenset({str})
_ROLE, _CONTENT = itemgetter("role"), itemgetter("content")


def _are_plain(messages: list[Any]) -> bool:
    """Return True if all messages have only a standard role and a text; checking is much faster than converting."""
    if not (_DICTS.issuperset(map(type, messages)) and _PAIRS.issuperset(map(len, messages))):
        return False
    try:
        return _STANDARD.issuperset(map(_ROLE, messages)) and _TEXTS.issuperset(map(type, map(_CONTENT, messages)))
    except (KeyError, TypeError):  # a role may be a list
        return False


def turns_from_message(message: Any) -> tuple[Turn, ...]:
    """Convert a message of a chat API to one turn, or to one turn per tool result; see `turn_from_message`."""
    if isinstance(message, Mapping):
        key = next((key for key in ("content", "parts") if tool_messages.has_results(message.get(key))), None)
        if key is not None:
            return tuple(map(turn_from_message, tool_messages.result_messages(message, key)))
    return (turn_from_message(message),)


def turn_from_message(message: Any) -> Turn:
    """Convert a message of a chat API to a turn; content other than text goes to `extra`, calls to its `tool_calls`.

    A message without a role, or with content of an unknown kind, raises `WrongShape`.
    """
    if not isinstance(message, Mapping):
        raise WrongShape(f"a message is an object, got {type(message).__name__}")
    if message.keys() == _PLAIN:  # the usual case
        role, content = message["role"], message["content"]
        if isinstance(role, str) and role and isinstance(content, str):
            return Turn(role_named(role), content)
    role_key = _role_key(message)
    role = message.get(role_key)
    if not isinstance(role, str) or not role:
        raise WrongShape(
            f"a message has no role; its keys are {abbreviated(list(message))}, and those of speaker and text are "
            "role and content"
        )
    content_key = next((key for key in _CONTENT_KEYS if key in message), "content")
    known = {role_key, content_key, "name", "time", "parts"}
    extra = {key: value for key, value in message.items() if key not in known and value is not None}
    content = message.get(content_key, message.get("parts"))
    text, others = text_of(content)
    if others:
        extra |= tool_messages.fields_of(others, steps.calls_of(Turn("", "", extra=extra)))
    name, time = (None if cell is None else str(cell) for cell in (message.get("name"), message.get("time")))
    return Turn(role_named(role), text, name, time, extra)


def _role_key(message: Mapping[str, Any]) -> str:
    """Return the key of a message's role: `role`, unless it is empty and another known key has a value."""
    if message.get("role"):
        return "role"
    return next((key for key in _ROLE_KEYS if message.get(key) not in (None, "")), "role")


def text_of(content: Any) -> tuple[str, list[Any]]:
    """Return the text of a message's content, and its other parts; content of another kind raises `WrongShape`."""
    if content is None:
        return "", []
    if isinstance(content, str):
        return content, []
    if not isinstance(content, list):
        raise WrongShape(f"a message's content is a string or a list of parts, got {type(content).__name__}")
    texts, others = [], []
    for part in content:
        text = _part_text(part)
        if text is None:
            others.append(part)
        else:
            texts.append(text)
    return "\n".join(texts), others


def _part_text(part: Any) -> str | None:
    if isinstance(part, str):
        return part
    if isinstance(part, Mapping) and part.get("type", "text") in {"text", "input_text", "output_text"}:
        text = part.get("text", part.get("content"))
        return text if isinstance(text, str) else None
    return None


def documents_from(value: Any) -> tuple[Document, ...]:
    """Convert documents from a text, or a list of texts or objects; one without text raises `WrongShape`."""
    if not value:
        return ()
    if isinstance(value, str) and value.lstrip().startswith("["):
        with suppress(ValueError, RecursionError):  # a text may begin with a bracket
            value = json.loads(value)
    entries = value if isinstance(value, list | tuple) else [value]
    return tuple(_document(entry) for entry in entries)


def _document(entry: Any) -> Document:
    if isinstance(entry, str):
        return Document(entry)
    if isinstance(entry, Mapping):
        text = next((entry[key] for key in _TEXT_KEYS if isinstance(entry.get(key), str)), None)
        if text is not None:
            id_, title = entry.get("id"), entry.get("title")
            return Document(text, None if id_ is None else str(id_), None if title is None else str(title))
    raise WrongShape("a document is a text, or an object with a text")


def turns_from(messages: Any) -> Sequence[Turn]:
    """Convert a list of messages, or its JSON text, to turns; raises `WrongShape` if there is none."""
    if isinstance(messages, str):
        try:
            messages = json.loads(messages)
        except (ValueError, RecursionError):
            raise WrongShape("messages are a list, got a text that is not JSON") from None
    if not isinstance(messages, list):
        raise WrongShape(f"messages are a list, got {type(messages).__name__}")
    if not messages:
        raise WrongShape("the conversation has no messages")
    return turns_of(messages)


def exchange(given: Any, output: Any) -> list[Any]:
    """Return the messages of an input and an output: texts, messages, or mappings with `messages`.

    A text is always one message. An empty text is a message too, so that an empty reply does not leave the user's
    message last.

    >>> exchange("Where is it?", "It arrives on Monday.")
    [{'role': 'user', 'content': 'Where is it?'}, {'role': 'assistant', 'content': 'It arrives on Monday.'}]
    """
    return [*([] if given is None else _messages_in(given, "user")), *_messages_in(output or "", "assistant")]


def _messages_in(given: Any, role: str) -> list[Any]:
    if isinstance(given, str):
        return [{"role": role, "content": given}]
    if isinstance(given, Mapping):
        return list(given["messages"]) if "messages" in given else [given]
    return list(given)


def fields_about(*given: Any, system: str | None = None, documents: Sequence[Any] = ()) -> dict[str, Any]:
    """Return the documents and the metadata of a row, from mappings that a host has besides the messages.

    Args:
        given: Mappings, of which an earlier one takes precedence; a message or anything else is left out.
        system: Name or version of the assistant if no mapping has one.
        documents: Documents if no mapping has any.

    >>> fields_about({"bot": "bot-2", "context": "Open until six."}, {"topic": "hours"}, system="gpt-9")
    {'documents': ['Open until six.'], 'metadata': {'topic': 'hours', 'bot': 'bot-2', 'system': 'bot-2'}}
    """
    mappings = [each for each in reversed(given) if isinstance(each, Mapping) and "role" not in each]
    known = {str(key): value for each in mappings for key, value in each.items()}
    own = next((known[key] for key in _DOCUMENT_KEYS if known.get(key)), None)
    metadata = {key: value for key, value in known.items() if isinstance(value, str | int | float)}
    metadata = {key: value for key, value in metadata.items() if key not in _DOCUMENT_KEYS}
    if (name := metadata.get("system") or _named_system(metadata) or system) is not None:
        metadata["system"] = name
    own = documents if own is None else own
    return {"documents": list(own) if isinstance(own, list | tuple) else [own], "metadata": metadata}


def conversation_from(fields: Fields, turns: Sequence[Turn], default_id: str, used: Iterable[str] = ()) -> Conversation:
    """Create a conversation from turns and the id, documents and metadata of a row.

    Keys other than those `used` become metadata.
    """
    id_key = next((key for key in _ID_KEYS if fields.get(key) not in (None, "")), None)
    if id_key == "conversation" and not (isinstance(fields[id_key], str | int) and len(str(fields[id_key])) <= 100):
        id_key = None  # the text of the conversation
    documents_key = next((key for key in _DOCUMENT_KEYS if fields.get(key)), None)
    read = {*used, id_key, documents_key, "metadata", "meta"}
    metadata = {**mapping_of(fields.get("meta")), **mapping_of(fields.get("metadata"))}
    metadata |= {key: value for key, value in fields.items() if key not in read and value is not None}
    if metadata.get("system") in (None, "") and (system := _system_in(metadata, turns)) is not None:
        metadata["system"] = system
    return Conversation(
        id=checked_id(default_id if id_key is None else fields[id_key]),
        turns=turns if isinstance(turns, PlainTurns) else tuple(turns),
        documents=documents_from(fields.get(documents_key)) if documents_key else (),
        metadata=metadata,
    )


def _system_in(metadata: Fields, turns: Sequence[Turn]) -> str | None:
    """Return the name or version of the assistant from a column with another name, or from the only one of turns."""
    if (system := _named_system(metadata)) is not None or isinstance(turns, PlainTurns):
        return system
    found = {name for turn in turns if turn.extra and (name := _named_system(turn.extra)) is not None}
    return found.pop() if len(found) == 1 else None


def _named_system(fields: Fields) -> str | None:
    named = {plain_name(key): value for key, value in fields.items() if isinstance(key, str)}
    values = (named.get(key) for key in _SYSTEM_KEYS)
    texts = (str(value).strip() for value in values if isinstance(value, str | int | float) and value != "")
    return next((text for text in texts if text and len(text) <= _LONGEST_SYSTEM and "\n" not in text), None)


_ROUNDED = re.compile(r"-?\d(?:[.,]\d+)?[eE]\+\d{2,3}", re.ASCII)


def checked_id(value: Any) -> str:
    """Return an id as text.

    Raises:
        WrongShape: It is empty, no text or whole number, has invalid characters, or was rounded by a spreadsheet.
    """
    if type(value) is str and "+" in value and _ROUNDED.fullmatch(value):
        raise WrongShape(
            f"{value!r} cannot be an id: a spreadsheet has rounded it, and others may have become equal; format the "
            "column of ids as text, and export it again"
        )
    if type(value) is str and value and is_sendable(value):
        return value
    text = str(value)
    if not isinstance(value, str | int) or not text or not is_sendable(text):
        raise WrongShape(f"{text!r} cannot be an id: it is empty, or has invalid characters")
    return text


def turn_index(value: Any) -> int | None:
    """Return the index of a turn from a number or its digits, or `None` if it is empty; else raise `WrongShape`."""
    if value in (None, ""):
        return None
    if isinstance(value, bool) or not re.fullmatch(r"\d{1,9}", str(value), re.ASCII):
        raise WrongShape(f"turn {value!r} is not an index: 0, 1, 2, ...")
    return int(value)


LARGEST_ANSWER = 10**15
"""Largest number that is an answer: floats still hold every whole number up to it."""


def checked_answer(value: Any) -> int | float | str | None:
    """Return a number, or a text, or `None` for no answer.

    Raises:
        WrongShape: It has another type, or is a number beyond `LARGEST_ANSWER`.
    """
    if value is None or isinstance(value, bool):
        return None if value is None else int(value)
    if isinstance(value, int | float):
        if not -LARGEST_ANSWER <= value <= LARGEST_ANSWER:
            raise WrongShape(f"a number beyond ±{LARGEST_ANSWER:.0e} is not an answer")
        return int(value) if isinstance(value, float) and value.is_integer() else value
    if isinstance(value, str) and is_sendable(value):
        return value
    raise WrongShape(f"{value!r} is not an answer: a number or a text")


# --- logged completions -----------------------------------------------------------------------------------------------

_REQUESTS = ("request", "body")
_RESPONSES = ("response", "completion", "output", "reply")
_ASKING = frozenset({"user", "tool", "system"})


def _is_logged_request(fields: Fields) -> bool:
    """Return True if a row holds a request of the chat completions API: an object with `messages`."""
    return _request_key(fields) is not None


def _with_reply(fields: Fields) -> Fields:
    """Return a row of messages with its reply as the last message; a row without one is returned unchanged.

    The reply is the first of `choices`, or a message or a text in `response`, `completion`, `output` or `reply`. The
    request and the response may be objects of their own. Only a row whose last message waits for a reply gets one.
    """
    row = _flattened(fields)
    messages = row.get("messages")
    if not (isinstance(messages, list) and messages):
        return row
    last = mapping_of(messages[-1]).get("role")
    key, reply = _reply(row) if isinstance(last, str) and role_named(last) in _ASKING else (None, None)
    if key is None:
        return row
    response = mapping_of(row[key])
    response = mapping_of(response.get("body")) or response
    row = {name: value for name, value in row.items() if name != key}
    row["messages"] = [*messages, reply]
    row["model"] = row.get("model") or response.get("model")
    row["request_id"] = row.get("request_id") or response.get("id")
    return row


def _flattened(fields: Fields) -> Fields:
    """Return a row with its request's messages and model as its own fields."""
    key = None if isinstance(fields.get("messages"), list) else _request_key(fields)
    if key is None:
        return fields
    request = fields[key]
    row = {name: value for name, value in fields.items() if name != key}
    return {**row, "messages": request["messages"], "model": fields.get("model") or request.get("model")}


def _request_key(fields: Fields) -> str | None:
    return next((key for key in _REQUESTS if isinstance(mapping_of(fields.get(key)).get("messages"), list)), None)


def _reply(row: Fields) -> tuple[str | None, Any]:
    """Return the key of a row that holds the reply, and the reply as a message."""
    if (message := _first_choice(row)) is not None:
        return "choices", message
    for key in _RESPONSES:
        if (message := _message_in(row.get(key))) is not None:
            return key, message
    return None, None


def _message_in(response: Any) -> Any:
    """Return the message in a response: an object with choices, a message, or a text."""
    if isinstance(response, str):
        return {"role": "assistant", "content": response} if response.strip() else None
    fields = mapping_of(response)
    if fields.get("role") == "assistant" and "content" in fields:
        return fields
    return _first_choice(fields) or _first_choice(mapping_of(fields.get("body")))


def _first_choice(fields: Fields) -> Mapping[str, Any] | None:
    choices = fields.get("choices")
    first = mapping_of(choices[0]) if isinstance(choices, list) and choices else {}
    message = mapping_of(first.get("message"))
    return {"role": "assistant", **message} if message.get("content") or message.get("tool_calls") else None


def _convert(rows: Sequence[Fields], default_id: str) -> Record:
    """Convert a row of OpenAI-style messages, with the reply of a logged completion."""
    fields = _with_reply(rows[0])
    turns = turns_from(fields["messages"])
    return Record(conversation_from(fields, turns, default_id, used={"messages"}))


formats.register("openai-messages")(
    Format(
        matches=lambda fields: isinstance(fields.get("messages"), list) or _is_logged_request(fields), convert=_convert
    )
)


def _sharegpt_turn(message: Any) -> Turn:
    if not isinstance(message, Mapping):
        raise WrongShape(f"a message is an object, got {type(message).__name__}")
    role, text = message.get("from"), message.get("value")
    if not isinstance(role, str) or not role:
        raise WrongShape("a ShareGPT message has no 'from'")
    if not isinstance(text, str):
        raise WrongShape("a ShareGPT message has no text in 'value'")
    extra = {key: value for key, value in message.items() if key not in {"from", "value"}}
    return Turn(role_named(role), text, extra=extra)


def _convert_sharegpt(rows: Sequence[Fields], default_id: str) -> Record:
    """Convert a row of ShareGPT conversations: `{'conversations': [{'from', 'value'}]}`."""
    [fields] = rows
    messages = fields["conversations"]
    if not messages:
        raise WrongShape("the conversation has no messages")
    return Record(
        conversation_from(fields, [_sharegpt_turn(message) for message in messages], default_id, {"conversations"})
    )


formats.register("sharegpt")(
    Format(matches=lambda fields: isinstance(fields.get("conversations"), list), convert=_convert_sharegpt)
)
