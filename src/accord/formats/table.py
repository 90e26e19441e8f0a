"""Tables (CSV, TSV, Parquet, flat JSON): one row a turn, one row an exchange, or a column of messages.

A cell may be a text, a list of messages or the JSON of one. Where several people rated the same, each in a row of their
own, the conversation is read once, and what else stands in those rows is kept under `rated_rows`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from accord.formats.openai_messages import conversation_from, documents_from, role_named, text_of, turn_index
from accord.formats.rating_columns import VALUE_KEYS, is_rating_name
from accord.formats.record import (
    ANNOTATOR_KEYS,
    FOREIGN_CONVERSATIONS,
    FOREIGN_IDS,
    RATED_ROWS,
    Fields,
    Format,
    Record,
    WrongShape,
    formats,
    plain_name,
    under_our_names,
)
from accord.formats.trace_merging import merged_turns
from accord.formats.transcript import cell_turns, is_messages, is_transcript, structured, turns_in
from accord.values import Turn

ALIASES: Mapping[str, tuple[str, ...]] = {
    "conversation": (
        "conversation_id", "session_id", "thread_id", "dialogue_id", "dialog_id", "chat_id", "conv_id", "ticket_id",
        "traceId", "trace_id", *FOREIGN_IDS, *FOREIGN_CONVERSATIONS,
    ),
    "role": (
        "speaker", "from", "author", "rolle", "sprecher", "sprecherin", "rol", "rôle", "ruolo", "papel", "роль", "角色",
        "说话人", "話者", "役割", "역할",
    ),
    "content": (
        "text", "message", "value", "utterance", "inhalt", "nachricht", "contenido", "mensaje", "conteúdo", "mensagem",
        "contenu", "texte", "contenuto", "messaggio", "testo", "текст", "сообщение", "内容", "消息", "文本", "発話",
        "メッセージ", "내용", "메시지",
    ),
    "prompt": (
        "question", "input", "query", "user", "instruction", "frage", "anfrage", "nutzer", "pregunta", "pergunta",
        "domanda", "вопрос", "问题", "提问", "用户", "質問", "질문",
    ),
    "response": (
        "answer", "output", "reply", "assistant", "completion", "antwort", "assistent", "respuesta", "resposta",
        "réponse", "reponse", "risposta", "ответ", "回答", "答案", "回复", "助手", "답변",
    ),
    "documents": ("context", "contexts", "retrieved_contexts", "knowledge"),
    "messages": (
        "messages_json", "transcript", "turns", "dialogue", "dialog", "chat", "chat_log", "transkript",
        "gesprächsverlauf", "聊天记录", *FOREIGN_CONVERSATIONS,
    ),
    "time": ("timestamp", "created_at"),
    "turn": ("turn_index", "turn_id", "position"),
    "id": ("nummer", "nr"),
}  # fmt: skip
"""Other names of each column, in several languages; a column map covers the rest."""

_OF_A_TURN = frozenset({"role", "content", "prompt", "response", "messages", "name", "time", "turn"})
_TELLING = ("turn", "role", "content", "prompt", "response", "messages")
"""Rows that are equal in these tell the same."""
_OF_ALL = ("conversation", "id", "documents")


def holds_text(fields: Fields) -> bool:
    """Whether a row holds what somebody said: a turn, an exchange, or messages."""
    columns = _ours(fields)
    return (
        {"role", "content"} <= columns.keys()
        or {"prompt", "response"} <= columns.keys()
        or (isinstance(columns.get("messages"), str | list | tuple | dict) and columns["messages"] != "")
    )


def _ours(fields: Fields) -> dict[str, Any]:
    """Return the row under Accord's names; a column `conversation` holds an id, or the text of a conversation."""
    row = under_our_names(fields, ALIASES)
    told = row.get("conversation")
    if "messages" not in row and (is_messages(told) or (isinstance(told, str) and _is_text(told, row, fields))):
        row["messages"] = row.pop("conversation")
        row = under_our_names(row, {"conversation": ALIASES["conversation"]})
    return row


_LONGEST_ID = 100


def _is_text(told: str, row: Fields, fields: Fields) -> bool:
    """Return True if the column `conversation` of a row holds the text of a conversation, not its id.

    A column with a foreign word for "conversation" holds an id if it is short and the row has a turn, an exchange or a
    rating.
    """
    if _tells(told):
        return True
    if not any(plain_name(name) in FOREIGN_CONVERSATIONS for name in fields if isinstance(name, str)):
        return False
    if len(told) > _LONGEST_ID or "\n" in told:
        return True
    has_text = {"role", "content"} <= row.keys() or {"prompt", "response"} <= row.keys()
    return not (has_text or any(names_rating(name) for name in row))


def names_annotator(name: Any) -> bool:
    """Return True if a column holds annotators, by its name."""
    return isinstance(name, str) and plain_name(name) in ANNOTATOR_KEYS


def names_rating(name: Any) -> bool:
    """Return True if a column holds an annotator or a rating, by its name."""
    return isinstance(name, str) and (plain_name(name) in (*ANNOTATOR_KEYS, *VALUE_KEYS) or is_rating_name(name))


def _tells(text: str) -> bool:
    return is_transcript(text) or structured(text) is not None


def holds_all(fields: Fields) -> bool | None:
    """Whether a row holds a whole conversation: its messages, or an exchange; `None` where others may name the same."""
    row = _ours(fields)
    if row.get("messages"):
        return True
    return {"prompt", "response"} <= row.keys() and (True if _key(fields) is None else None)


def _key(fields: Fields) -> str | None:
    row = _ours(fields)
    named = next((row[key] for key in ("conversation", "id") if row.get(key) not in (None, "")), None)
    return None if named is None else str(named)


def _convert(rows: Sequence[Fields], default_id: str) -> Record:
    table, ratings = _once(_in_order([_ours(fields) for fields in rows]))
    first = table[0]
    varying = _varying(table)
    if first.get("messages"):
        turns: Sequence[Turn] = [turn for row in table for turn in turns_in(row["messages"])]
    elif {"role", "content"} <= first.keys():
        if first.get("conversation") in (None, ""):
            raise WrongShape(
                f"a turn names no conversation. The table has {', '.join(map(str, rows[0]))}; name the column with the "
                "conversation's id: --columns conversation=COLUMN"
            )
        turns = [_turn(row, varying) for row in table]
    elif {"prompt", "response"} <= first.keys():
        exchanges = [_exchange(row, varying) for row in table]
        repeats = any(structured(row["prompt"]) is not None for row in table)
        turns = (
            merged_turns(exchanges)[0] if repeats else [turn for sides in exchanges for side in sides for turn in side]
        )
    else:
        raise WrongShape(
            f"columns {', '.join(sorted(rows[0]))}: need role and content, or prompt and response, or messages; "
            "name them with a column map"
        )
    whole = {**_whole(table, varying), **({RATED_ROWS: ratings} if ratings else {})}
    return Record(conversation_from(whole, turns, default_id, used={*_OF_A_TURN, "conversation"}))


def _once(table: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows that tell the same, rated by several people, as one; and a row per rating with what differs between them."""
    said = [str([row.get(name) for name in _TELLING]) for row in table]
    who = next((name for name in ANNOTATOR_KEYS if name in table[0]), None)
    whole = bool(table[0].get("messages"))
    if len(set(said)) == len(said) or not (whole or who):
        return table, []
    kept = list(dict.fromkeys(said))
    if whole and len(kept) > 1:
        raise WrongShape("its rows tell the conversation differently; give each conversation an id of its own")
    names = [n for n in dict.fromkeys(n for row in table for n in row) if n not in {*_TELLING, *_OF_ALL}]
    differing = {name for name in names if len({str(row.get(name)) for row in table}) > 1} | ({who} if who else set())
    rated = [
        {**({} if len(kept) == 1 else {"turn": 2 * kept.index(key) + 1}),
         **{name: row[name] for name in names if row.get(name) not in (None, "")}}
        for key, row in zip(said, table, strict=True)
    ]  # fmt: skip
    once = [table[said.index(key)] for key in kept]
    return [{name: value for name, value in row.items() if name not in differing} for row in once], rated


def _in_order(table: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows by their turn where each has one, else as they stand in the file."""
    if all(row.get("turn") not in (None, "") for row in table):
        return sorted(table, key=lambda row: turn_index(row["turn"]) or 0)
    return table


def _whole(table: Sequence[Mapping[str, Any]], varying: set[str]) -> Fields:
    """The columns that speak of the whole conversation: those that never differ, and all rows' documents."""
    cells = (cell for row in table for cell in row.items())
    whole = {name: value for name, value in cells if value not in (None, "") and name not in varying}
    documents = [document for row in table for document in documents_from(_as_list(row.get("documents")))]
    whole["documents"] = [document.to_json() for document in dict.fromkeys(documents)]
    named = next((row[key] for row in table for key in ("conversation", "id") if row.get(key) not in (None, "")), None)
    return {**whole, "id": named}


def _varying(table: Sequence[Mapping[str, Any]]) -> set[str]:
    """Columns with more than one value in a conversation, or with one that not every row has: they speak of turns."""
    names = dict.fromkeys(name for row in table for name in row if name not in _OF_A_TURN | {"documents"})
    return {name for name in names if len({str(row.get(name, "")) or "None" for row in table}) > 1}


def _as_list(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _turn(row: Fields, varying: set[str]) -> Turn:
    role, content = row.get("role"), row.get("content")
    if not role:
        raise WrongShape("a turn has no role")
    extra = {name: row[name] for name in varying if row.get(name) not in (None, "")}
    text, others = text_of(content)
    extra |= {"parts": others} if others else {}
    return Turn(role_named(str(role)), text, _text(row.get("name")), _text(row.get("time")), extra)


def _exchange(row: Fields, varying: set[str]) -> tuple[tuple[Turn, ...], tuple[Turn, ...]]:
    """What went in and what came out; the columns that speak of this row belong to the reply."""
    time = _text(row.get("time"))
    extra = {name: row[name] for name in varying if row.get(name) not in (None, "")}
    asked = tuple(replace(turn, time=turn.time or time) for turn in cell_turns(row["prompt"], "user"))
    *before, last = (replace(turn, time=turn.time or time) for turn in cell_turns(row["response"], "assistant"))
    return asked, (*before, replace(last, extra={**last.extra, **extra}))


def _text(value: Any) -> str | None:
    return None if value in (None, "") else str(value)


formats.register("table")(Format(matches=holds_text, convert=_convert, key=_key, is_whole=holds_all))
