"""Tables (CSV, TSV, Parquet, flat JSON): one row a turn, one row an exchange, or a column of messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from accord.formats.messages import conversation_from, documents_from, role_named, turn_index, turns_from
from accord.formats.record import Fields, Format, Record, WrongShape, formats, under_our_names
from accord.values import Turn

ALIASES: Mapping[str, tuple[str, ...]] = {
    "conversation": ("conversation_id", "session_id", "thread_id", "dialogue_id", "chat_id"),
    "role": ("speaker", "from", "author"),
    "content": ("text", "message", "value", "utterance"),
    "prompt": ("question", "input", "query", "user", "instruction"),
    "response": ("answer", "output", "reply", "assistant", "completion"),
    "documents": ("context", "contexts", "retrieved_contexts", "knowledge"),
    "messages": ("messages_json",),
    "time": ("timestamp", "created_at"),
    "turn": ("turn_index", "turn_id", "position"),
}
"""What a column of ours is often called elsewhere; a column map says it for any other name."""

_OF_A_TURN = frozenset({"role", "content", "prompt", "response", "messages", "name", "time", "turn"})


def holds_text(fields: Fields) -> bool:
    """Whether a row holds what somebody said: a turn, an exchange, or messages."""
    columns = under_our_names(fields, ALIASES).keys()
    return {"role", "content"} <= columns or {"prompt", "response"} <= columns or "messages" in columns


def _key(fields: Fields) -> str | None:
    row = under_our_names(fields, ALIASES)
    named = next((row[key] for key in ("conversation", "id") if row.get(key) not in (None, "")), None)
    return None if named is None else str(named)


def _convert(rows: Sequence[Fields], default_id: str) -> Record:
    table = _in_order([under_our_names(fields, ALIASES) for fields in rows])
    first = table[0]
    if first.get("messages"):
        turns: Sequence[Turn] = [turn for row in table for turn in turns_from(_as_list(row["messages"]))]
    elif {"role", "content"} <= first.keys():
        if first.get("conversation") in (None, ""):
            raise WrongShape("a turn names no conversation; a table with one row a turn needs a column for it")
        turns = [_turn(row, _varying(table)) for row in table]
    elif {"prompt", "response"} <= first.keys():
        turns = [turn for row in table for turn in _exchange(row)]
    else:
        raise WrongShape(
            f"columns {', '.join(sorted(rows[0]))}: need role and content, or prompt and response, or messages; "
            "name them with a column map"
        )
    return Record(conversation_from(_whole(table), turns, default_id, used={*_OF_A_TURN, "conversation"}))


def _in_order(table: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows by their turn where each has one, else as they stand in the file."""
    if all(row.get("turn") not in (None, "") for row in table):
        return sorted(table, key=lambda row: turn_index(row["turn"]) or 0)
    return table


def _whole(table: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The columns that speak of the whole conversation: those that never differ, and all rows' documents."""
    varying = _varying(table)
    cells = (cell for row in table for cell in row.items())
    whole = {name: value for name, value in cells if value not in (None, "") and name not in varying}
    documents = [document for row in table for document in documents_from(_as_list(row.get("documents")))]
    whole["documents"] = [document.to_json() for document in dict.fromkeys(documents)]
    named = next((row[key] for row in table for key in ("conversation", "id") if row.get(key) not in (None, "")), None)
    return {**whole, "id": named}


def _varying(table: Sequence[Mapping[str, Any]]) -> set[str]:
    """Columns with more than one value in a conversation: they speak of turns."""
    names = dict.fromkeys(name for row in table for name in row if name not in _OF_A_TURN | {"documents"})
    return {name for name in names if len({str(row.get(name)) for row in table if row.get(name) not in (None, "")}) > 1}


def _as_list(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _turn(row: Fields, varying: set[str]) -> Turn:
    role, content = row.get("role"), row.get("content")
    if not role:
        raise WrongShape("a turn has no role")
    extra = {name: row[name] for name in varying if row.get(name) not in (None, "")}
    text = "" if content is None else str(content)
    return Turn(role_named(str(role)), text, _text(row.get("name")), _text(row.get("time")), extra)


def _exchange(row: Fields) -> tuple[Turn, Turn]:
    time = _text(row.get("time"))
    return Turn("user", str(row["prompt"] or ""), time=time), Turn("assistant", str(row["response"] or ""), time=time)


def _text(value: Any) -> str | None:
    return None if value in (None, "") else str(value)


formats.register("table")(Format(recognises=holds_text, convert=_convert, key=_key))
