"""Label Studio's JSON export (Community 1.x: a list of tasks, each with `data` and `annotations`).

A task's `data` is the conversation: a list of messages (the tags Paragraphs and Chat), or any text that a table may
hold. Of each person's annotation the choices and ratings become answers to the question that the control tag is named
(`from_name`), labelled regions become marks of issues with their quotes, and a text area is a comment: of the region it
belongs to, else under its own name. Of a choice of several each is a question of its own, `NAME.CHOICE`. What was
cancelled, and predictions, are left out. JSON-MIN is a table with a column per question: `accord import --labels NAME`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from accord.formats.openai_messages import checked_answer, checked_id, conversation_from, turn_index, turns_from
from accord.formats.record import Fields, Format, Record, WrongShape, answered, formats
from accord.formats.table import holds_text
from accord.values import ISSUE, Annotation, Conversation, Target, Turn, find_quote

_KINDS = ("paragraphlabels", "hypertextlabels", "labels")
_KNOWN = {*_KINDS, "choices", "rating", "number", "textarea"}


def _recognises(fields: Fields) -> bool:
    listed = fields.get("annotations")
    return isinstance(fields.get("data"), dict) and isinstance(listed, list) and all(
        isinstance(each, dict) and isinstance(each.get("result"), list) for each in listed
    )  # fmt: skip


def _convert(rows: Sequence[Fields], default_id: str) -> Record:
    [task] = rows
    if not isinstance(task.get("data"), dict) or not isinstance(task.get("annotations"), list):
        raise WrongShape("a task has `data` and a list of `annotations`; export as JSON, not as JSON-MIN")
    name = default_id if task.get("id") in (None, "") else str(task["id"])
    conversation = _conversation(task["data"], name)
    unread: Counter[str] = Counter()
    found = [each for one in task["annotations"] for each in _of_person(one, conversation, unread)]
    if unread:
        metadata = {**conversation.metadata, "label_studio_unread": dict(unread)}
        conversation = replace(conversation, metadata=metadata)
    return answered(conversation, found)


def _conversation(told: Mapping[str, Any], name: str) -> Conversation:
    listed = next((key for key, value in told.items() if _is_dialogue(value)), None)
    if listed is not None:
        return conversation_from(told, turns_from(told[listed]), name, used={listed})
    if holds_text(told):
        found = formats.get("table").convert([told], name)
        assert found is not None, "a table converts whatever it recognises"
        return found.conversation
    texts = [key for key, value in told.items() if isinstance(value, str) and value.strip()]
    if len(texts) == 1:
        return conversation_from(told, [Turn("assistant", told[texts[0]])], name, used=texts)
    raise WrongShape(
        f"the task's data has the keys {', '.join(map(str, told))}, and no list of messages, no prompt and response "
        "and no single text"
    )


def _is_dialogue(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(
        isinstance(each, dict) and {"text", "content"} & each.keys() and {"author", "role", "speaker"} & each.keys()
        for each in value
    )  # fmt: skip


def _of_person(one: Any, conversation: Conversation, unread: Counter[str]) -> Iterator[Annotation]:
    """What one person said of a task."""
    if not isinstance(one, Mapping) or one.get("was_cancelled"):
        return
    who, time = _who(one.get("completed_by")), one.get("updated_at") or one.get("created_at")
    result = [each for each in one.get("result") or () if isinstance(each, Mapping)]
    regions = {each["id"]: each for each in result if each.get("type") in _KINDS and each.get("id") is not None}
    texts = {each.get("id"): _text(each) for each in result if each.get("type") == "textarea"}
    for each in result:
        kind, name = each.get("type"), each.get("from_name")
        if kind not in _KNOWN or not name:
            unread[str(kind)] += 1
            continue
        base = Annotation(Target(conversation.id), checked_id(name), who, "person", None, time=_time(time))
        if kind in _KINDS:
            yield from _marks(base, each, conversation, texts.get(each.get("id"), ""))
        elif kind == "textarea":
            if each.get("id") not in regions and _text(each):
                yield replace(base, comment=_text(each))
        else:
            region = regions.get(each.get("id"))
            turn = None if region is None else _places(region, conversation)[0][0]
            yield from _answers(replace(base, target=Target(conversation.id, turn)), each)


def _who(person: Any) -> str:
    """Who annotated: a number, or an object with an email or an id."""
    if isinstance(person, Mapping):
        person = person.get("email") or person.get("id")
    return checked_id("label-studio" if person in (None, "") else person)


def _time(value: Any) -> str | None:
    return None if value in (None, "") else str(value)


def _text(result: Mapping[str, Any]) -> str:
    found = _value(result).get("text")
    return "\n".join(map(str, found)) if isinstance(found, list) else str(found or "")


def _value(result: Mapping[str, Any]) -> Mapping[str, Any]:
    found = result.get("value")
    if not isinstance(found, Mapping):
        raise WrongShape(f"the result of {result.get('from_name')!r} has no value")
    return found


def _answers(base: Annotation, result: Mapping[str, Any]) -> Iterator[Annotation]:
    value = _value(result)
    if result["type"] != "choices":
        yield replace(base, value=checked_answer(value.get(str(result["type"]))))
        return
    chosen = value.get("choices")
    if not isinstance(chosen, list):
        raise WrongShape(f"the choices of {base.question!r} are a list, got {type(chosen).__name__}")
    if len(chosen) == 1:
        yield replace(base, value=checked_answer(chosen[0]))
        return
    for each in chosen:
        yield replace(base, question=checked_id(f"{base.question}.{each}"), value=1)


def _marks(
    base: Annotation, result: Mapping[str, Any], conversation: Conversation, comment: str
) -> Iterator[Annotation]:
    """A mark per label and turn of a region: its words, and where in the turn they stand."""
    labels = _value(result).get(str(result["type"]))
    if not isinstance(labels, list):
        raise WrongShape(f"the labels of {base.question!r} are a list, got {type(labels).__name__}")
    for label in labels:
        for turn, quote, span in _places(result, conversation):
            target, kind = Target(conversation.id, turn), checked_id(f"{ISSUE}{label}")
            yield replace(base, target=target, question=kind, value=1, quote=quote, span=span, comment=comment)


def _places(
    result: Mapping[str, Any], conversation: Conversation
) -> list[tuple[int | None, str, tuple[int, int] | None]]:
    """Where a region stands: of paragraphs by their numbers, of other texts by its words."""
    value = _value(result)
    if result["type"] == "paragraphlabels":
        first, last = turn_index(value.get("start")), turn_index(value.get("end"))
        if first is None or last is None or not first <= last < len(conversation.turns):
            raise WrongShape(f"a region of paragraphs {first} to {last}; the task has {len(conversation.turns)}")
        found: list[tuple[int | None, str, tuple[int, int] | None]] = []
        for turn in range(first, last + 1):
            text = conversation.turns[turn].content
            start = turn_index(value.get("startOffset")) or 0 if turn == first else 0
            end = turn_index(value.get("endOffset")) if turn == last else None
            end = len(text) if end is None else min(end, len(text))
            found.append((turn, text[start:end], (start, end) if start < end else None))
        return found
    quote = str(value.get("text") or "")
    for turn, each in enumerate(conversation.turns):
        start = each.content.find(quote) if quote else -1
        span = (start, start + len(quote)) if start >= 0 else find_quote(quote, each.content)
        if span is not None:
            return [(turn, each.content[span[0] : span[1]], span)]
    return [(None, quote, None)]


formats.register("label-studio")(Format(recognises=_recognises, convert=_convert))
