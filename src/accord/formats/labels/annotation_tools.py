"""Exports of annotation tools: Label Studio (JSON), Argilla 2 and Potato.

Answers of annotators become labels, labeled regions and spans become issue marks with quotes, and free text becomes
comments. An answer with several options becomes one label per option, on a question `NAME.OPTION`. Predictions,
suggestions, drafts and canceled annotations are skipped.

- Label Studio Community 1.x: a list of tasks with `data` and `annotations`. A question has the name of the control tag
  (`from_name`). A JSON-MIN export is a table with a column per question: `accord import --labels NAME`.
- Argilla 2: `records.to_json`, `to_list` or `to_list(flatten=True)`. The export does not name the annotated field of a
  span: the last reply is tried first, then all turns that contain the text at the given offsets.
- Potato 2 (`user_state.json`, `jsonl` export) and Potato 1 (`annotated_instances.jsonl`): answers without
  conversations, which are imported from the project's data file. Quotes are searched in the conversation, because
  Potato counts characters of the page. Files of Potato 1 name no annotators.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from accord.formats.labels.answers import answer_to
from accord.formats.labels.rating_columns import UNNAMED
from accord.formats.openai_messages import checked_answer, checked_id, conversation_from, turn_index, turns_from
from accord.formats.record import Fields, Format, Record, WrongShape, answered, formats
from accord.formats.table import holds_text
from accord.values import ISSUE, Annotation, Conversation, Span, Target, Turn, find_quote, first_with_quote


def _conversation(fields: Fields, name: str) -> Conversation | None:
    """Return the conversation of a list of messages or of the columns of a table; `None` if there is neither."""
    chat = next((key for key, value in fields.items() if _is_chat(value)), None)
    if chat is not None:
        return conversation_from(fields, turns_from(fields[chat]), name, used={chat})
    if holds_text(fields):
        record = formats.get("table").convert([fields], name)
        assert record is not None, "the format table converts every row with text"
        return record.conversation
    return None


def _is_chat(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(
        isinstance(message, dict) and {"text", "content"} & message.keys()
        and {"author", "role", "speaker"} & message.keys()
        for message in value
    )  # fmt: skip


def _answer(conversation: str, question: Any, annotator: Any, **fields: Any) -> Annotation:
    """Create a person's answer without a value, with checked ids."""
    return Annotation(Target(conversation), checked_id(question), checked_id(annotator), "person", None, **fields)


# --- Label Studio --------------------------------------------------------------------------------------------------

_REGION_TYPES = ("paragraphlabels", "hypertextlabels", "labels")
_RESULT_TYPES = {*_REGION_TYPES, "choices", "rating", "number", "textarea"}


def _is_label_studio(fields: Fields) -> bool:
    annotations = fields.get("annotations")
    return isinstance(fields.get("data"), dict) and isinstance(annotations, list) and all(
        isinstance(annotation, dict) and isinstance(annotation.get("result"), list) for annotation in annotations
    )  # fmt: skip


def _convert_label_studio(rows: Sequence[Fields], default_id: str) -> Record:
    """Convert a Label Studio task (JSON export) with its annotations."""
    [task] = rows
    data = task.get("data")
    if not isinstance(data, dict) or not isinstance(task.get("annotations"), list):
        raise WrongShape("a task has `data` and a list of `annotations`; export as JSON, not as JSON-MIN")
    name = default_id if task.get("id") in (None, "") else str(task["id"])
    conversation = _conversation(data, name) or _single_text(data, name)
    ignored: Counter[str] = Counter()
    answers = [
        answer for entry in task["annotations"] for answer in _label_studio_answers(entry, conversation, ignored)
    ]
    if ignored:
        metadata = {**conversation.metadata, "label_studio_unread": dict(ignored)}
        conversation = replace(conversation, metadata=metadata)
    return answered(conversation, answers)


def _single_text(data: Fields, name: str) -> Conversation:
    texts = [key for key, value in data.items() if isinstance(value, str) and value.strip()]
    if len(texts) == 1:
        return conversation_from(data, [Turn("assistant", data[texts[0]])], name, used=texts)
    raise WrongShape(
        f"the task's data has the keys {', '.join(map(str, data))}, but no list of messages, no prompt and response "
        "and no single text"
    )


def _label_studio_answers(entry: Any, conversation: Conversation, ignored: Counter[str]) -> Iterator[Annotation]:
    """Yield the answers of one annotation of a task; counts results of other types in `ignored`."""
    if not isinstance(entry, Mapping) or entry.get("was_cancelled"):
        return
    time = _last_change(entry)
    results = [result for result in entry.get("result") or () if isinstance(result, Mapping)]
    regions = _regions_by_id(results)
    comments = {r.get("id"): _comment(r) for r in results if r.get("type") == "textarea"}
    for result in results:
        kind, question, id_ = result.get("type"), result.get("from_name"), result.get("id")
        if kind not in _RESULT_TYPES or not question:
            ignored[str(kind)] += 1
            continue
        base = _answer(conversation.id, question, _completed_by(entry), time=time)
        if kind in _REGION_TYPES:
            yield from _region_marks(base, result, conversation, comments.get(id_, ""))
        elif kind != "textarea":
            turn = _located(regions[id_], conversation)[0][0] if id_ in regions else None
            yield from _label_studio_values(replace(base, target=Target(conversation.id, turn)), result)
        elif id_ not in regions and (comment := _comment(result)):
            yield replace(base, comment=comment)


def _last_change(annotation: Fields) -> str | None:
    time = annotation.get("updated_at") or annotation.get("created_at")
    return str(time) if time else None


def _regions_by_id(results: Iterable[Fields]) -> dict[Any, Fields]:
    return {r["id"]: r for r in results if r.get("type") in _REGION_TYPES and r.get("id") is not None}


def _completed_by(annotation: Fields) -> Any:
    """Return the annotator of an annotation: a number, or the email or the number of a user."""
    user = annotation.get("completed_by")
    name = user.get("email") or user.get("id") if isinstance(user, Mapping) else user
    return "label-studio" if name in (None, "") else name


def _value(result: Fields) -> Fields:
    value = result.get("value")
    if not isinstance(value, Mapping):
        raise WrongShape(f"the result of {result.get('from_name')!r} has no value")
    return value


def _comment(result: Fields) -> str:
    text = _value(result).get("text")
    return "\n".join(map(str, text)) if isinstance(text, list) else str(text or "")


def _label_studio_values(base: Annotation, result: Fields) -> Iterator[Annotation]:
    if result["type"] != "choices":
        yield replace(base, value=checked_answer(_value(result).get(str(result["type"]))))
        return
    choices = _value(result).get("choices")
    if not isinstance(choices, list):
        raise WrongShape(f"the choices of {base.question!r} are a list, got {type(choices).__name__}")
    if len(choices) == 1:
        yield replace(base, value=checked_answer(choices[0]))
        return
    for choice in choices:
        yield replace(base, question=checked_id(f"{base.question}.{choice}"), value=1)


def _region_marks(base: Annotation, region: Fields, conversation: Conversation, comment: str) -> Iterator[Annotation]:
    """Yield a mark per label and turn of a region."""
    labels = _value(region).get(str(region["type"]))
    if not isinstance(labels, list):
        raise WrongShape(f"the labels of {base.question!r} are a list, got {type(labels).__name__}")
    for label in labels:
        for turn, quote, span in _located(region, conversation):
            target, question = Target(conversation.id, turn), checked_id(f"{ISSUE}{label}")
            yield replace(base, target=target, question=question, value=1, quote=quote, span=span, comment=comment)


def _located(region: Fields, conversation: Conversation) -> list[tuple[int | None, str, Span | None]]:
    """Return turn, quote and span of a region: by paragraph numbers if it has them, else by a search for its text."""
    value = _value(region)
    if region["type"] == "paragraphlabels":
        first, last = turn_index(value.get("start")), turn_index(value.get("end"))
        if first is None or last is None or not first <= last < len(conversation.turns):
            raise WrongShape(f"a region of paragraphs {first} to {last}; the task has {len(conversation.turns)}")
        places: list[tuple[int | None, str, Span | None]] = []
        for turn in range(first, last + 1):
            text = conversation.turns[turn].content
            start = turn_index(value.get("startOffset")) or 0 if turn == first else 0
            end = turn_index(value.get("endOffset")) if turn == last else None
            end = len(text) if end is None else min(end, len(text))
            places.append((turn, text[start:end], (start, end) if start < end else None))
        return places
    quote = str(value.get("text") or "")
    number = first_with_quote(quote, [turn_.content for turn_ in conversation.turns])
    if number is not None:
        content = conversation.turns[number].content
        start = content.find(quote)
        span = (start, start + len(quote)) if start >= 0 else find_quote(quote, content)
        if span is not None:
            return [(number, content[span[0] : span[1]], span)]
    return [(None, quote, None)]


formats.register("label-studio")(Format(matches=_is_label_studio, convert=_convert_label_studio))


# --- Argilla -------------------------------------------------------------------------------------------------------

_USERS, _STATUS = ".responses.users", ".responses.status"
_RESPONSE_COLUMN = re.compile(r"\.(responses|suggestion)\b|^_")


def _is_argilla(fields: Fields) -> bool:
    is_nested = isinstance(fields.get("fields"), dict) and isinstance(fields.get("responses"), dict)
    return is_nested or any(isinstance(name, str) and name.endswith(_USERS) for name in fields)


def _unflattened(row: Fields) -> Fields:
    """Return a record with nested `fields` and `responses`, also for the columns of `to_list(flatten=True)`."""
    if "fields" in row:
        return row
    responses: dict[str, list[Any]] = {}
    for name in (column.removesuffix(_USERS) for column in row if column.endswith(_USERS)):
        values, users = row.get(f"{name}.responses") or [], row[f"{name}{_USERS}"] or []
        statuses = row.get(f"{name}{_STATUS}") or [None] * len(values)
        responses[name] = [
            {"value": value, "user_id": user, "status": status}
            for value, user, status in zip(values, users, statuses, strict=True)
        ]
    fields = {name: value for name, value in row.items() if not _RESPONSE_COLUMN.search(name)}
    return {"id": row.get("id"), "fields": fields, "responses": responses}


def _convert_argilla(rows: Sequence[Fields], default_id: str) -> Record:
    """Convert an Argilla 2 record with its submitted responses."""
    [row] = map(_unflattened, rows)
    fields, responses = row.get("fields"), row.get("responses") or {}
    if not isinstance(fields, dict) or not isinstance(responses, dict):
        raise WrongShape("a record has `fields` and `responses`, each an object")
    name = default_id if row.get("id") in (None, "") else str(row["id"])
    metadata = {"metadata": row["metadata"]} if isinstance(row.get("metadata"), dict) else {}
    conversation = _conversation({**fields, **metadata, "id": name}, name)
    if conversation is None:
        raise WrongShape(f"the record's fields {', '.join(fields)} hold no chat, and no prompt with a response")
    answers = [
        answer
        for question, given in responses.items()
        for response in given or ()
        for answer in _argilla_answers(conversation, str(question), response)
    ]
    return answered(conversation, answers)


def _argilla_answers(conversation: Conversation, question: str, response: Any) -> Iterator[Annotation]:
    if not isinstance(response, Mapping):
        raise WrongShape(f"a response to {question!r} is an object with a value and a user_id")
    value = response.get("value")
    if response.get("status") in ("draft", "discarded") or value is None:
        return
    base = _answer(conversation.id, question, str(response.get("user_id") or "argilla"))
    if not isinstance(value, list):
        yield replace(base, value=checked_answer(value))
    elif all(isinstance(item, Mapping) and {"start", "end", "label"} <= item.keys() for item in value):
        yield from (_argilla_mark(base, span, conversation) for span in value)
    else:  # a ranking has objects, a multi-label answer has texts
        for position, item in enumerate(value, 1):
            label, rank = (item.get("value"), item.get("rank", position)) if isinstance(item, Mapping) else (item, 1)
            yield replace(base, question=checked_id(f"{question}.{label}"), value=checked_answer(rank))


def _argilla_mark(base: Annotation, span: Fields, conversation: Conversation) -> Annotation:
    start, end = span["start"], span["end"]
    if type(start) is not int or type(end) is not int or not 0 <= start < end:
        raise WrongShape(f"a span of {base.question!r} needs whole offsets with start < end, got {start!r} and {end!r}")
    replies = {id(turn) for turn in conversation.replies}
    turns = sorted(enumerate(conversation.turns), key=lambda entry: (id(entry[1]) in replies, entry[0]), reverse=True)
    text = span.get("text")
    for number, turn in turns:
        quote = turn.content[start:end]
        if len(quote) == end - start and text in (None, quote):
            target, question = Target(conversation.id, number), checked_id(f"{ISSUE}{span['label']}")
            return replace(base, target=target, question=question, value=1, quote=quote, span=(start, end))
    raise WrongShape(f"a span of {base.question!r} ends at {end}, and no turn is that long")


formats.register("argilla")(Format(matches=_is_argilla, convert=_convert_argilla))


# --- Potato --------------------------------------------------------------------------------------------------------

_LABELS, _SPANS = "instance_id_to_label_to_value", "instance_id_to_span_to_value"
_TEXT_BOXES = {"text_box", "textbox", "text"}


def _is_potato(fields: Fields) -> bool:
    is_export = {"instance_id", "user_id", "labels"} <= fields.keys() and isinstance(fields["labels"], dict | list)
    return is_export or _LABELS in fields or {"id", "label_annotations"} <= fields.keys()


def _potato_items(row: Fields) -> Sequence[Fields]:
    """Split the state of an annotator (`user_state.json`) into a row per item."""
    if _LABELS not in row:
        return [row]
    labels, spans = _by_item(row, _LABELS), _by_item(row, _SPANS)
    return [
        {"instance_id": name, "user_id": row.get("user_id"), "labels": labels.get(name), "spans": spans.get(name)}
        for name in dict.fromkeys((*labels, *spans))
    ]


def _by_item(row: Fields, name: str) -> Fields:
    items = row.get(name) or {}
    if not isinstance(items, Mapping):
        raise WrongShape(f"{name} is an object by item, got {type(items).__name__}")
    return items


def _potato_key(row: Fields) -> str | None:
    name = row.get("instance_id", row.get("id"))
    return None if name in (None, "") else str(name)


def _convert_potato(rows: Sequence[Fields], default_id: str) -> Record:
    """Convert the Potato answers of one item; its conversation comes from another file."""
    name = _potato_key(rows[0])
    if name is None:
        raise WrongShape("an answer names no item: instance_id is empty")
    answers = [answer for row in rows for answer in _potato_answers(row, checked_id(name))]
    return answered(Conversation(name, ()), answers)


def _potato_answers(row: Fields, name: str) -> Iterator[Annotation]:
    annotator = row.get("user_id") or UNNAMED
    for scheme, options in _schemes(row.get("labels", row.get("label_annotations"))).items():
        yield from _scheme_answers(_answer(name, scheme, annotator), options)
    for span in _span_objects(row.get("spans", row.get("span_annotations"))):
        label = span.get("name") or span.get("label") or span.get("annotation")
        if not label:
            raise WrongShape("a span has no label")
        quote = str(span.get("text") or span.get("span") or "")
        yield replace(_answer(name, f"{ISSUE}{label}", annotator), value=1, quote=quote)


def _schemes(labels: Any) -> dict[str, dict[str, Any]]:
    """Return chosen options by scheme, from an object by scheme or from pairs of a label and its value."""
    if isinstance(labels, Mapping):
        return {
            str(k): dict(options) if isinstance(options, Mapping) else {"": options} for k, options in labels.items()
        }
    schemes: dict[str, dict[str, Any]] = {}
    for pair in labels or ():
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not isinstance(pair[0], Mapping):
            raise WrongShape("labels are an object by scheme, or pairs of a label and its value")
        scheme, name = str(pair[0].get("schema", "")), str(pair[0].get("name", ""))
        schemes.setdefault(scheme, {})[name] = pair[1]
    return schemes


def _span_objects(spans: Any) -> Iterator[Fields]:
    """Yield span objects from an object by scheme, a list, or pairs of a span and a value."""
    for group in spans.values() if isinstance(spans, Mapping) else [spans or ()]:
        for entry in group.values() if isinstance(group, Mapping) else group:
            span = entry[0] if isinstance(entry, list | tuple) and entry else entry
            if not isinstance(span, Mapping):
                raise WrongShape("a span is an object with a label and its text")
            yield span


def _scheme_answers(base: Annotation, scheme: Fields) -> Iterator[Annotation]:
    """Yield the answers of a scheme: one if a single option is chosen, else one per option; text boxes are comments."""
    given = {name: value for name, value in scheme.items() if value not in (None, "")}
    comment = "\n".join(str(value) for name, value in given.items() if name.lower() in _TEXT_BOXES)
    chosen = {
        name: value
        for name, value in given.items()
        if name.lower() not in _TEXT_BOXES and value not in (False, "false")
    }
    checked = {name for name, value in chosen.items() if value is True or value in ("true", name)}
    if len(chosen) == 1:
        [(name, value)] = chosen.items()
        yield replace(
            base, value=answer_to(None, name if name in checked else value, base.question), comment=comment
        )  # fmt: skip
        return
    for name, value in chosen.items():
        question = checked_id(f"{base.question}.{name}")
        yield replace(base, question=question, value=answer_to(None, 1 if name in checked else value, question))
    if comment:  # the name of the text box in Potato's tables
        yield replace(base, question=checked_id(f"{base.question}.text_box"), comment=comment)


formats.register("potato")(
    Format(matches=_is_potato, convert=_convert_potato, key=_potato_key, split=_potato_items, is_answer=_is_potato)
)
