"""Tables (CSV, TSV, Parquet, flat JSON) with a row per turn, a row per exchange, or a column of messages.

A cell is a text, a list of messages or its JSON. If several annotators rated a conversation in one row each, it is read
once, and the other columns of these rows become the metadata entry `rated_rows`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from accord.formats.labels.rating_columns import VALUE_KEYS, is_rating_name
from accord.formats.openai_messages import conversation_from, documents_from, role_named, text_of, turn_index
from accord.formats.plain_text_chats import cell_turns, is_messages, is_transcript, structured, turns_in
from accord.formats.record import (
    ANNOTATOR_KEYS,
    FILE_NAMES,
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
from accord.formats.traces import merged_turns
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
        "question", "input", "query", "user", "user_input", "instruction", "frage", "anfrage", "nutzer", "pregunta",
        "pergunta", "domanda", "вопрос", "问题", "提问", "用户", "質問", "질문",
    ),
    "response": (
        "answer", "output", "reply", "assistant", "completion", "antwort", "assistent", "respuesta", "resposta",
        "réponse", "reponse", "risposta", "ответ", "回答", "答案", "回复", "助手", "답변",
    ),
    "documents": ("context", "contexts", "retrieved_contexts", "knowledge"),
    "messages": (
        "messages_json", "transcript", "turns", "dialogue", "dialog", "chat", "chat_log", "transkript", "nachrichten",
        "gesprächsverlauf", "mensajes", "mensagens", "messaggi", "сообщения", "聊天记录", *FOREIGN_CONVERSATIONS,
    ),
    "time": ("timestamp", "created_at"),
    "turn": ("turn_index", "turn_id", "position"),
    "id": ("nummer", "nr"),
}  # fmt: skip
"""Other names of each column, in several languages; a column map covers the rest."""

_TURN_COLUMNS = frozenset({"role", "content", "prompt", "response", "messages", "name", "time", "turn"})
_TEXT_COLUMNS = ("turn", "role", "content", "prompt", "response", "messages")
"""Rows with equal values in these columns have the same text."""
_SHARED = ("conversation", "id", "documents")


def holds_text(fields: Fields) -> bool:
    """Return True if a row holds text: a turn, an exchange, or messages."""
    columns = _ours(fields)
    return (
        {"role", "content"} <= columns.keys()
        or {"prompt", "response"} <= columns.keys()
        or (isinstance(columns.get("messages"), str | list | tuple | dict) and columns["messages"] != "")
    )


def _ours(fields: Fields) -> dict[str, Any]:
    """Return the row under Accord's names; a column `conversation` holds an id, or the text of a conversation."""
    row = under_our_names(fields, ALIASES)
    cell = row.get("conversation")
    if "messages" not in row and (is_messages(cell) or (isinstance(cell, str) and _is_text(cell, row, fields))):
        row["messages"] = row.pop("conversation")
        row = under_our_names(row, {"conversation": ALIASES["conversation"]})
    is_named = "conversation" in row or ("id" in row and not {"role", "content"} <= row.keys())
    return row if is_named else under_our_names(row, {"conversation": FILE_NAMES})


_LONGEST_ID = 100


def _is_text(cell: str, row: Fields, fields: Fields) -> bool:
    """Return True if the column `conversation` of a row holds the text of a conversation, not its id.

    A column with a foreign word for "conversation" holds an id if it is short and the row has a turn, an exchange or a
    rating.
    """
    if is_transcript(cell) or structured(cell) is not None:
        return True
    if not any(plain_name(name) in FOREIGN_CONVERSATIONS for name in fields if isinstance(name, str)):
        return False
    if len(cell) > _LONGEST_ID or "\n" in cell:
        return True
    has_text = {"role", "content"} <= row.keys() or {"prompt", "response"} <= row.keys()
    return not (has_text or any(names_rating(name) for name in row))


def names_annotator(name: Any) -> bool:
    """Return True if a column holds annotators, by its name."""
    return isinstance(name, str) and plain_name(name) in ANNOTATOR_KEYS


def names_rating(name: Any) -> bool:
    """Return True if a column holds an annotator or a rating, by its name."""
    return isinstance(name, str) and (plain_name(name) in (*ANNOTATOR_KEYS, *VALUE_KEYS) or is_rating_name(name))


def holds_all(fields: Fields) -> bool | None:
    """Return True for a row of messages, or of an exchange without an id; `None` for an exchange with one."""
    row = _ours(fields)
    if row.get("messages"):
        return True
    return {"prompt", "response"} <= row.keys() and (True if _key(fields) is None else None)


def _key(fields: Fields) -> str | None:
    row = _ours(fields)
    id_ = next((row[key] for key in ("conversation", "id") if row.get(key) not in (None, "")), None)
    return None if id_ is None else str(id_)


def with_plain_reply(fields: Fields, is_live: bool = False) -> Fields:
    """Return a row of JSON in which the text of a reply is a text, even if it looks like messages.

    A cell of a table can hold messages only as their JSON, but a value of JSON can be a list: if its text were decoded,
    the judged assistant could choose the judged text. In a file, a prompt that is the JSON of messages shows that both
    columns were written like this. `is_live` is True for rows that a host or a client sends; they have no such columns.
    """
    row = under_our_names(fields, {name: ALIASES[name] for name in ("prompt", "response")})
    prompt, reply = row.get("prompt"), row.get("response")
    if prompt is None or not isinstance(reply, str) or structured(reply) is None:
        return fields
    if isinstance(prompt, str) and structured(prompt) is not None and not is_live:
        return fields
    return {**row, "response": [{"role": "assistant", "content": reply}]}


def _convert(rows: Sequence[Fields], default_id: str) -> Record:
    """Convert the table rows of a conversation: turns, exchanges, or columns of messages."""
    table, ratings = _without_repeats(_in_order([_ours(fields) for fields in rows]))
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
            "name them with --columns"
        )
    fields = {**_shared_columns(table, varying), **({RATED_ROWS: ratings} if ratings else {})}
    return Record(conversation_from(fields, turns, default_id, used={*_TURN_COLUMNS, "conversation"}))


def _without_repeats(table: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Merge the rows of several annotators with the same text; also returns a row per rating with the differences."""
    texts = [str(list(map(row.get, _TEXT_COLUMNS))) for row in table]
    annotator = next((name for name in ANNOTATOR_KEYS if name in table[0]), None)
    has_messages = bool(table[0].get("messages"))
    distinct = list(dict.fromkeys(texts))
    if len(distinct) == len(texts) or not (has_messages or annotator):
        return table, []
    if has_messages and len(distinct) > 1:
        raise WrongShape("its rows have different texts; give each conversation an id of its own")
    names = _columns_of(table, {*_TEXT_COLUMNS, *_SHARED})
    turns = {text: {"turn": 2 * place + 1} if len(distinct) > 1 else {} for place, text in enumerate(distinct)}
    rated = [{**turns[text], **_filled(row, names)} for text, row in zip(texts, table, strict=True)]
    of_raters = {*_differing(names, table), *filter(None, [annotator])}
    first = [table[texts.index(text)] for text in distinct]
    return [{name: value for name, value in row.items() if name not in of_raters} for row in first], rated


def _columns_of(table: Iterable[Mapping[str, Any]], but: Collection[str]) -> list[str]:
    """Return the columns of a table in order, except some."""
    return list(dict.fromkeys(name for row in table for name in row if name not in but))


def _filled(row: Fields, names: Iterable[str]) -> dict[str, Any]:
    """Return the named cells that have a value."""
    return {name: row[name] for name in names if row.get(name) not in (None, "")}


def _differing(names: Iterable[str], table: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the columns that have several values."""
    return {name for name in names if len({str(row.get(name)) for row in table}) > 1}


def _in_order(table: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows by turn if each has one, else in the order of the file."""
    if all(row.get("turn") not in (None, "") for row in table):
        return sorted(table, key=lambda row: turn_index(row["turn"]) or 0)
    return table


def _shared_columns(table: Sequence[Mapping[str, Any]], varying: set[str]) -> Fields:
    """Return the columns about the whole conversation: those with one value, and the documents of all rows."""
    cells = (cell for row in table for cell in row.items())
    shared = {name: value for name, value in cells if value not in (None, "") and name not in varying}
    documents = [document for row in table for document in documents_from(_as_list(row.get("documents")))]
    shared["documents"] = [document.to_json() for document in dict.fromkeys(documents)]
    id_ = next((row[key] for row in table for key in ("conversation", "id") if row.get(key) not in (None, "")), None)
    return {**shared, "id": id_}


def _varying(table: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the columns about turns: those with several values, or with a value in only some rows."""
    names = _columns_of(table, {*_TURN_COLUMNS, "documents"})
    return {name for name in names if len({str(row.get(name, "")) or "None" for row in table}) > 1}


def _as_list(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _turn(row: Fields, varying: set[str]) -> Turn:
    role, content = row.get("role"), row.get("content")
    if not role:
        raise WrongShape("a turn has no role")
    extra = _filled(row, varying)
    text, others = text_of(content)
    extra |= {"parts": others} if others else {}
    return Turn(role_named(str(role)), text, _text(row.get("name")), _text(row.get("time")), extra)


def _exchange(row: Fields, varying: set[str]) -> tuple[tuple[Turn, ...], tuple[Turn, ...]]:
    """Return the turns of prompt and response; columns about the row become extras of the last reply."""
    time = _text(row.get("time"))
    extra = _filled(row, varying)
    prompt = tuple(replace(turn, time=turn.time or time) for turn in cell_turns(row["prompt"], "user"))
    *before, last = (replace(turn, time=turn.time or time) for turn in cell_turns(row["response"], "assistant"))
    return prompt, (*before, replace(last, extra={**last.extra, **extra}))


def _text(value: Any) -> str | None:
    return None if value in (None, "") else str(value)


formats.register("table")(Format(matches=holds_text, convert=_convert, key=_key, is_whole=holds_all))
