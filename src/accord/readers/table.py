"""Tables (CSV, TSV, Parquet, flat JSON): one row a turn, one row an exchange, or a column of messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from accord.conversation import Turn
from accord.readers.messages import conversation_from, turns_from
from accord.readers.record import Fields, Format, Record, WrongShape, formats

ALIASES: Mapping[str, tuple[str, ...]] = {
    "conversation": ("conversation_id", "session_id", "thread_id", "dialogue_id", "chat_id"),
    "role": ("speaker", "from", "author"),
    "content": ("text", "message", "value", "utterance"),
    "prompt": ("question", "input", "query", "user", "instruction"),
    "response": ("answer", "output", "reply", "assistant", "completion"),
    "documents": ("context", "contexts", "retrieved_contexts", "knowledge"),
    "messages": ("messages_json",),
    "time": ("timestamp", "created_at"),
}
"""What a column of ours is often called elsewhere; a column map says it for any other name."""


def canonical(fields: Fields) -> dict[str, Any]:
    """The row with the columns of `ALIASES` under our names; all others as they are."""
    renamed = dict(fields)
    for name, aliases in ALIASES.items():
        if name in renamed:
            continue
        alias = next((alias for alias in aliases if alias in renamed), None)
        if alias is not None:
            renamed[name] = renamed.pop(alias)
    return renamed


def _recognises(fields: Fields) -> bool:
    columns = canonical(fields).keys()
    return {"role", "content"} <= columns or {"prompt", "response"} <= columns or "messages" in columns


def _key(fields: Fields) -> str | None:
    row = canonical(fields)
    return str(row.get("conversation") or row.get("id") or "") or None


def _convert(rows: Sequence[Fields], default_id: str) -> Record:
    table = [canonical(fields) for fields in rows]
    first = {**table[0], "id": table[0].get("conversation") or table[0].get("id")}
    if first.get("messages"):
        turns: Sequence[Turn] = [turn for row in table for turn in turns_from(_as_list(row["messages"]))]
    elif "content" in first:
        turns = [_turn(row) for row in table]
    elif {"prompt", "response"} <= first.keys():
        turns = [turn for row in table for turn in _exchange(row)]
    else:
        raise WrongShape(
            f"columns {', '.join(sorted(rows[0]))}: need role and content, or prompt and response, or messages; "
            "name them with a column map"
        )
    used = {"conversation", "role", "content", "prompt", "response", "messages", "time", "name", "turn"}
    return Record(conversation_from(first, turns, default_id, used))


def _as_list(messages: Any) -> Any:
    return list(messages) if isinstance(messages, tuple) else messages


def _turn(row: Fields) -> Turn:
    role, content = row.get("role"), row.get("content")
    if not role:
        raise WrongShape("a turn has no role")
    return Turn(str(role), "" if content is None else str(content), _text(row.get("name")), _text(row.get("time")))


def _exchange(row: Fields) -> tuple[Turn, Turn]:
    time = _text(row.get("time"))
    return Turn("user", str(row["prompt"] or ""), time=time), Turn("assistant", str(row["response"] or ""), time=time)


def _text(value: Any) -> str | None:
    return None if value in (None, "") else str(value)


formats.register("table")(Format(recognises=_recognises, convert=_convert, key=_key))
