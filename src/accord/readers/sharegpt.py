"""ShareGPT: `{"conversations": [{"from": "human" | "gpt" | "system" | "tool", "value"}]}`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from accord.conversation import Turn
from accord.readers.messages import conversation_from, role_named
from accord.readers.record import Fields, Format, Record, WrongShape, formats


def _turn(message: Any) -> Turn:
    if not isinstance(message, Mapping):
        raise WrongShape(f"a message is an object, got {type(message).__name__}")
    role, text = message.get("from"), message.get("value")
    if not isinstance(role, str) or not role:
        raise WrongShape("a ShareGPT message has no 'from'")
    if not isinstance(text, str):
        raise WrongShape("a ShareGPT message has no text in 'value'")
    extra = {key: value for key, value in message.items() if key not in {"from", "value"}}
    return Turn(role_named(role), text, extra=extra)


def _convert(rows: Sequence[Fields], default_id: str) -> Record:
    [fields] = rows
    messages = fields["conversations"]
    if not messages:
        raise WrongShape("the conversation has no messages")
    return Record(conversation_from(fields, [_turn(message) for message in messages], default_id, {"conversations"}))


formats.register("sharegpt")(
    Format(recognises=lambda fields: isinstance(fields.get("conversations"), list), convert=_convert)
)
