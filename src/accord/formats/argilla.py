"""Argilla 2's records as `records.to_json`, `to_list` or `to_list(flatten=True)` give them.

Fields are the conversation: a chat field, or texts as a table has them. Each person's response is an answer to the
question, of several labels each is a question of its own (`NAME.LABEL`), spans are marks of issues in the text field
that is annotated: the export does not name it, so it is the last reply, or any turn that has the words where they are
given. Suggestions are models' and are left out, and so are responses that are drafts or discarded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from accord.formats.openai_messages import checked_answer, checked_id, conversation_from, turns_from
from accord.formats.record import Fields, Format, Record, WrongShape, answered, formats
from accord.formats.table import holds_text
from accord.values import ISSUE, Annotation, Conversation, Target

_USERS, _STATUS = ".responses.users", ".responses.status"
_OF_ANSWERS = re.compile(r"\.(responses|suggestion)\b|^_")


def _recognises(fields: Fields) -> bool:
    nested = isinstance(fields.get("fields"), dict) and isinstance(fields.get("responses"), dict)
    return nested or any(isinstance(name, str) and name.endswith(_USERS) for name in fields)


def _nested(row: Fields) -> Fields:
    """A record whose columns were flattened (`NAME.responses`, `NAME.responses.users`), as it was."""
    if "fields" in row:
        return row
    responses: dict[str, list[Any]] = {}
    for name in (column.removesuffix(_USERS) for column in row if column.endswith(_USERS)):
        values, users = row.get(f"{name}.responses") or [], row[f"{name}{_USERS}"] or []
        status = row.get(f"{name}{_STATUS}") or [None] * len(values)
        responses[name] = [
            {"value": value, "user_id": user, "status": state}
            for value, user, state in zip(values, users, status, strict=True)
        ]
    told = {name: value for name, value in row.items() if not _OF_ANSWERS.search(name)}
    return {"id": row.get("id"), "fields": told, "responses": responses}


def _convert(rows: Sequence[Fields], default_id: str) -> Record:
    [row] = map(_nested, rows)
    told, responses = row.get("fields"), row.get("responses") or {}
    if not isinstance(told, dict) or not isinstance(responses, dict):
        raise WrongShape("a record has `fields` and `responses`, each an object")
    name = default_id if row.get("id") in (None, "") else str(row["id"])
    metadata = row.get("metadata")
    conversation = _conversation({**told, **({"metadata": metadata} if isinstance(metadata, dict) else {})}, name)
    found = [
        each
        for question, given in responses.items()
        for one in given or ()
        for each in _answers(conversation, str(question), one)
    ]
    return answered(conversation, found)


def _conversation(told: dict[str, Any], name: str) -> Conversation:
    told = {**told, "id": name}
    chat = next((key for key, value in told.items() if _is_chat(value)), None)
    if chat is not None:
        return conversation_from(told, turns_from(told[chat]), name, used={chat})
    if holds_text(told):
        found = formats.get("table").convert([told], name)
        assert found is not None, "a table converts whatever it recognises"
        return found.conversation
    raise WrongShape(f"the record's fields {', '.join(told)} hold no chat, and no prompt with a response")


def _is_chat(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(
        isinstance(each, dict) and {"role", "content"} <= each.keys() for each in value
    )  # fmt: skip


def _answers(conversation: Conversation, question: str, one: Any) -> Iterator[Annotation]:
    """What one person answered to one question."""
    if not isinstance(one, Mapping):
        raise WrongShape(f"a response to {question!r} is an object with a value and a user_id")
    if one.get("status") in ("draft", "discarded") or one.get("value") is None:
        return
    who, value = checked_id(str(one.get("user_id") or "argilla")), one["value"]
    base = Annotation(Target(conversation.id), checked_id(question), who, "person", None)
    if not isinstance(value, list):
        yield replace(base, value=checked_answer(value))
    elif all(isinstance(each, Mapping) and {"start", "end", "label"} <= each.keys() for each in value):
        yield from (_mark(base, each, conversation) for each in value)
    else:
        for place, each in enumerate(value, 1):
            ranked = isinstance(each, Mapping)
            label = each.get("value") if isinstance(each, Mapping) else each
            rank = each.get("rank", place) if isinstance(each, Mapping) else 1
            yield replace(base, question=checked_id(f"{question}.{label}"), value=checked_answer(rank if ranked else 1))


def _mark(base: Annotation, span: Mapping[str, Any], conversation: Conversation) -> Annotation:
    start, end = span["start"], span["end"]
    if type(start) is not int or type(end) is not int or not 0 <= start < end:
        raise WrongShape(f"a span of {base.question!r} has two places in a text, got {start!r} and {end!r}")
    question = checked_id(f"{ISSUE}{span['label']}")
    turns = list(enumerate(conversation.turns))
    replies = {id(turn) for turn in conversation.replies}
    turns.sort(key=lambda each: (id(each[1]) in replies, each[0]), reverse=True)  # replies first, the last before all
    said = span.get("text")
    for place, turn in turns:
        words = turn.content[start:end]
        if len(words) == end - start and (said is None or said == words):
            target = Target(conversation.id, place)
            return replace(base, target=target, question=question, value=1, quote=words, span=(start, end))
    raise WrongShape(f"a span of {base.question!r} ends at {end}, and no turn is that long")


formats.register("argilla")(Format(recognises=_recognises, convert=_convert))
