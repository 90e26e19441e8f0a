"""Potato's answers: `user_state.json` and the `jsonl` export of Potato 2, `annotated_instances.jsonl` of Potato 1.

They hold no conversations: those stand in the project's data file, which is imported first (or in the same command). A
scheme is a question. One label that was chosen is its answer; of several, each is a question of its own, as in Potato's
own tables (`SCHEME.LABEL`). A text box is a comment. Spans are marks of issues: the conversation is searched for their
words, since Potato counts characters of the page. The files of Potato 1 name nobody; their folders do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from accord.formats.label_files import answer_to
from accord.formats.openai_messages import checked_id
from accord.formats.rating_columns import UNNAMED
from accord.formats.record import Fields, Format, Record, WrongShape, answered, formats
from accord.values import ISSUE, Annotation, Conversation, Target

_LABELS, _SPANS = "instance_id_to_label_to_value", "instance_id_to_span_to_value"
_TEXTS = {"text_box", "textbox", "text"}


def _recognises(fields: Fields) -> bool:
    exported = {"instance_id", "user_id", "labels"} <= fields.keys() and isinstance(fields["labels"], dict | list)
    return exported or _LABELS in fields or {"id", "label_annotations"} <= fields.keys()


def _split(row: Fields) -> Sequence[Fields]:
    """One row per item that a person annotated."""
    if _LABELS not in row:
        return [row]
    labels, spans = _object(row, _LABELS), _object(row, _SPANS)
    return [
        {"instance_id": name, "user_id": row.get("user_id"), "labels": labels.get(name), "spans": spans.get(name)}
        for name in dict.fromkeys((*labels, *spans))
    ]


def _object(row: Fields, name: str) -> Mapping[str, Any]:
    found = row.get(name) or {}
    if not isinstance(found, Mapping):
        raise WrongShape(f"{name} is an object by item, got {type(found).__name__}")
    return found


def _key(row: Fields) -> str | None:
    name = row.get("instance_id", row.get("id"))
    return None if name in (None, "") else str(name)


def _convert(rows: Sequence[Fields], default_id: str) -> Record:
    name = _key(rows[0])
    if name is None:
        raise WrongShape("an answer names no item: instance_id is empty")
    found = [each for row in rows for each in _of_person(row, checked_id(name))]
    return answered(Conversation(name, ()), found)


def _of_person(row: Fields, name: str) -> Iterator[Annotation]:
    who = checked_id(row.get("user_id") or UNNAMED)
    base = Annotation(Target(name), "", who, "person", None)
    for scheme, given in _schemes(row.get("labels", row.get("label_annotations"))).items():
        yield from _answers(replace(base, question=checked_id(scheme)), given)
    for span in _listed(row.get("spans", row.get("span_annotations"))):
        kind = span.get("name") or span.get("label") or span.get("annotation")
        if not kind:
            raise WrongShape("a span has no label")
        quote = str(span.get("text") or span.get("span") or "")
        yield replace(base, question=checked_id(f"{ISSUE}{kind}"), value=1, quote=quote)


def _schemes(labels: Any) -> dict[str, dict[str, Any]]:
    """Labels by scheme: given so, or as a list of pairs of what was chosen and its value."""
    found: dict[str, dict[str, Any]] = {}
    if isinstance(labels, Mapping):
        return {str(name): dict(each) if isinstance(each, Mapping) else {"": each} for name, each in labels.items()}
    for pair in labels or ():
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not isinstance(pair[0], Mapping):
            raise WrongShape("labels are an object by scheme, or pairs of a label and its value")
        scheme, name = str(pair[0].get("schema", "")), str(pair[0].get("name", ""))
        found.setdefault(scheme, {})[name] = pair[1]
    return found


def _listed(spans: Any) -> Iterator[Mapping[str, Any]]:
    """Spans: by scheme, in a list, or in pairs with a value."""
    groups = spans.values() if isinstance(spans, Mapping) else [spans or ()]
    for group in groups:
        for each in group.values() if isinstance(group, Mapping) else group:
            span = each[0] if isinstance(each, list | tuple) and each else each
            if not isinstance(span, Mapping):
                raise WrongShape("a span is an object with a label and its words")
            yield span


def _answers(base: Annotation, given: Mapping[str, Any]) -> Iterator[Annotation]:
    texts = [str(value) for name, value in given.items() if name.lower() in _TEXTS and value not in (None, "")]
    chosen = {
        name: value for name, value in given.items()
        if name.lower() not in _TEXTS and value not in (None, "", False, "false")
    }  # fmt: skip
    comment = "\n".join(texts)
    if len(chosen) == 1:
        [(name, value)] = chosen.items()
        is_only_chosen = value is True or value in ("true", name)
        raw = name if is_only_chosen else value
        yield replace(base, value=answer_to(None, raw, base.question), comment=comment)
        return
    for name, value in chosen.items():
        raw = 1 if value is True or value in ("true", name) else value
        question = checked_id(f"{base.question}.{name}")
        yield replace(base, question=question, value=answer_to(None, raw, question))
    if comment:  # of no answer: a question of its own, as Potato's tables have it
        yield replace(base, question=checked_id(f"{base.question}.text_box"), comment=comment)


formats.register("potato")(Format(recognises=_recognises, convert=_convert, key=_key, split=_split, alone=_recognises))
