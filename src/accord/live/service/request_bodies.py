"""Bodies of `POST /v1/scores`: a message, a batch of messages, or a whole conversation.

A whole conversation is a list of chat messages, a body of the chat completions API, or a row of a file.
A conversation without an id gets one from its content, so that the same request sent twice is scored once. Each message
gets an id from its place and text, so that a conversation with an id may be sent again as it grows.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from accord.edges import MAX_FIELDS, BadInput, count_of, sendable
from accord.formats import Fields, detect, formats, live_row
from accord.live.ingest import LiveRow, refused_row
from accord.live.messages import ALIASES, Message, as_messages, message_from
from accord.live.service.schemas import JSON, MAX_BATCH, media_type
from accord.values import content_hash

MAX_REASONS = 3
"""Maximum number of reasons in the error of a batch."""

_ID_NAMES = ("conversation", *ALIASES["conversation"])
_ID_LENGTH = 20


def parse_messages(
    body: bytes, content_type: str, conversation: str | None = None
) -> tuple[list[Message | LiveRow], bool]:
    """Return the messages of a request, with a refused row for each invalid one, and False for a single message.

    Args:
        body: Body of the request.
        content_type: Its content type.
        conversation: Id for a whole conversation without one, URL-encoded or not.

    Raises:
        BadInput: The body is not a message, a batch or a conversation.
    """
    content = parse_json(body, content_type)
    if (row := _conversation_in(content)) is not None:
        return _parse_conversation(row, None if conversation is None else unquote(conversation)), True
    content = {"messages": content} if isinstance(content, list) else content
    if not isinstance(content, dict) or "messages" not in content:
        return [_parse_message(content)], False
    messages = content["messages"]
    if len(content) > 1 or not isinstance(messages, list):
        raise BadInput("a batch is an object with a list of messages, and nothing else")
    _check_size(messages)
    return [_parse_message(row) for row in messages], True


def _parse_conversation(row: Fields, id: str | None) -> list[Message | LiveRow]:
    try:
        messages = _messages_of(row, id)
    except BadInput as error:
        return [refused_row(str(error), row)]
    _check_size(messages)
    return list(messages)


def _check_size(messages: Sequence[Any]) -> None:
    if len(messages) > MAX_BATCH:
        raise BadInput(f"a batch of {len(messages)} messages; at most {MAX_BATCH} are allowed per request")


def parse_json(body: bytes, content_type: str, is_strict: bool = False) -> Any:
    """Return the JSON of a request.

    Args:
        body: Body of the request.
        content_type: Its content type.
        is_strict: True to reject NaN, infinite numbers, and objects with a key twice.

    Raises:
        BadInput: The body is not JSON, or its content type is another one: a web page may send other types to any
            server without a preflight request.
    """
    if media_type(content_type) != JSON:
        raise BadInput(f"content type {content_type!r}; send application/json")
    try:
        return json.loads(body, parse_constant=_reject, object_pairs_hook=_distinct) if is_strict else json.loads(body)
    except (ValueError, RecursionError) as error:
        at = f" at byte {error.pos}" if isinstance(error, json.JSONDecodeError) else ""
        raise BadInput(f"the body is no JSON{at}; send one message, or {{'messages': [...]}}") from None


def _reject(name: str) -> Any:
    raise BadInput(f"the body has the number {name}; send finite numbers")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON.

    Raises:
        BadInput: A key occurs twice; another reader could see the other value.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        names = Counter(name for name, _ in pairs)
        raise BadInput(f"the body has the key {sendable(names.most_common(1)[0][0])[:200]!r} twice in one object")
    return found


def parse_conversation(content: Any) -> list[Message | LiveRow] | None:
    """Return the messages of a whole conversation, with a refused row if they are invalid, or `None` for other JSON.

    Raises:
        BadInput: The conversation has too many messages.
    """
    row = _conversation_in(content)
    return None if row is None else _parse_conversation(row, None)


def _parse_message(row: Any) -> Message | LiveRow:
    try:
        return message_from(row)
    except BadInput as error:
        return refused_row(str(error), row)


def refusal_of(rows: Sequence[LiveRow]) -> str:
    """Return the reasons of a request of which every message was refused, the most frequent first."""
    reasons = Counter(str(row["error"]) for row in rows).most_common(MAX_REASONS)
    listed = "; ".join(f"{reason} ({count_of(count, 'message')})" for reason, count in reasons)
    return f"nothing was scored, because every message was refused: {listed}"


# --- whole conversations ---------------------------------------------------------------------------------------------


def _conversation_in(content: Any) -> Fields | None:
    """Return the whole conversation in a request's JSON as a row with `messages`; `None` for messages and batches.

    | JSON | conversation |
    |---|---|
    | `[{"role", "content"}, ...]`, `{"messages": [...]}` | these messages, if they name no conversation |
    | request of the chat completions API | its messages |
    | response of that API | the reply of its first choice |
    | `{"request": ..., "response": ...}` | both |
    | a row of another format of conversations, such as `{"conversations": [...]}` | as in a file |
    """
    if isinstance(content, list):
        content = {"messages": content}
    if not isinstance(content, Mapping) or "role" in content or "content" in content:
        return None
    request, response = _object(content.get("request")), _object(content.get("response"))
    if request and response:
        reply = _of_response(response)
        return {**content, **request, **reply, "messages": [*_list_in(request, "messages"), *reply["messages"]]}
    if isinstance(content.get("choices"), list):
        return _of_response(content)
    messages = content.get("messages")
    if isinstance(messages, list):
        return content if messages and all(map(_is_message_alone, messages)) else None
    return content if _is_conversation(content) else None


def _is_message_alone(message: Any) -> bool:
    """Return True for a message with a role that names no conversation."""
    return isinstance(message, Mapping) and "role" in message and not any(name in message for name in _ID_NAMES)


def _is_conversation(content: Fields) -> bool:
    if len(content) > MAX_FIELDS:
        return False
    try:
        return formats.get(detect(content, "the request")).split is None
    except (BadInput, AttributeError, TypeError):
        return False


def _of_response(response: Fields) -> dict[str, Any]:
    """Return the reply of a response; the id of the response is the id of the message, not of a conversation."""
    choice = next((each for each in _list_in(response, "choices") if isinstance(each, Mapping)), {})
    message = _object(choice.get("message"))
    known = {name: response[name] for name in (*_ID_NAMES, "model") if name in response}
    return {**known, "messages": [message] if message else [], "response_id": response.get("id")}


def _list_in(fields: Fields, name: str) -> list[Any]:
    found = fields.get(name)
    return found if isinstance(found, list) else []


def _messages_of(row: Fields, given_id: str | None = None) -> list[Message]:
    """Return the messages of a whole conversation.

    Args:
        row: Row of `_conversation_in`.
        given_id: Id of the conversation that the request names elsewhere; its own id comes first.

    Raises:
        BadInput: The conversation cannot be read.
    """
    metadata = _object(row.get("metadata"))
    ids = [*(each.get(name) for each in (row, metadata) for name in _ID_NAMES), row.get("id"), given_id]
    id = next((each for each in ids if each not in (None, "")), None)
    reader = formats.get("openai-messages" if "messages" in row else detect(row, "the request"))
    other = ("id", "request", "response") if "messages" in row else ("id",)
    known = {name: value for name, value in row.items() if name not in (*_ID_NAMES, *other)}
    try:
        name = f"chat-{_digest(known)}" if id is None else str(id)
        record = reader.convert([live_row(reader, known)], name)
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise BadInput(f"the conversation cannot be read ({type(error).__name__}: {error})") from None
    found = as_messages(record) if record is not None else []
    if not found:
        raise BadInput("the conversation has no messages; send a list of {'role', 'content'}")
    return _with_ids([replace(message, conversation=name) for message in found])


def _with_ids(messages: Sequence[Message]) -> list[Message]:
    return [
        replace(each, turn=place, id=_digest([place, each.role, each.content])) for place, each in enumerate(messages)
    ]


def _digest(value: Any) -> str:
    return content_hash(value, length=_ID_LENGTH).partition(":")[2]


def _object(value: Any) -> Fields:
    return value if isinstance(value, Mapping) else {}
