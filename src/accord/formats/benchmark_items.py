"""Benchmark rows: items with `messages`, `knowledge` and every person's `ratings`, one item a line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from accord.formats.openai_messages import checked_id, documents_from, turn_from_message, turn_index, turns_of
from accord.formats.record import Fields, Format, Record, WrongShape, formats
from accord.values import Conversation, Label, Target


def _recognises(fields: Fields) -> bool:
    return isinstance(fields.get("ratings"), list) and "level" in fields


def _convert(rows: Sequence[Fields], default_id: str) -> Record:
    [fields] = rows
    id_ = checked_id(default_id if fields.get("id") is None else fields["id"])
    meta = fields.get("meta") or {}
    # A data set may hold texts it was not allowed to pass on; its ratings are still worth reading.
    turns = turns_of(fields.get("messages") or ())
    kept = {key: fields[key] for key in ("dataset", "system", "level", "references") if fields.get(key)}
    target = Target(id_, turn_index(fields.get("response_index")))
    if target.turn not in (None, len(turns) - 1):
        kept["response_index"] = target.turn
    conversation = Conversation(id_, turns, documents_from(fields.get("knowledge")), {**meta, **kept})
    ratings = tuple(_ratings(fields["ratings"], target))
    return Record(conversation, (*ratings, *_not_applicable(meta, ratings, target)) if meta else ratings)


def _ratings(ratings: Sequence[Any], target: Target) -> Iterator[Label]:
    for rating in ratings:
        try:
            annotator, question, value = rating["annotator"], rating["question"], rating["value"]
        except (KeyError, TypeError):
            raise WrongShape("a rating has an annotator, a question and a value") from None
        yield Label(target, str(question), checked_id(annotator), value, rating.get("time"))


def _not_applicable(meta: Mapping[str, Any], ratings: Sequence[Label], target: Target) -> Iterator[Label]:
    """Pairs of annotator and question; a bare question where one person rated the item alone."""
    annotators = sorted({label.annotator for label in ratings})
    for entry in meta.get("not_applicable") or ():
        if isinstance(entry, list) and len(entry) == 2:
            annotator, question = entry
            yield Label(target, str(question), checked_id(annotator), None)
        elif isinstance(entry, str) and len(annotators) == 1:
            yield Label(target, entry, annotators[0], None)


formats.register("benchmark")(Format(recognises=_recognises, convert=_convert))


NAME = "abc-eval"


def _dialogue(fields: Fields) -> str:
    meta = fields.get("meta")
    if not isinstance(meta, Mapping) or not meta.get("dialogue_id"):
        raise WrongShape("a row of ABC-Eval names its dialogue: meta.dialogue_id")
    return checked_id(meta["dialogue_id"])


def _abc_eval_convert(rows: Sequence[Fields], default_id: str) -> Record:
    name = _dialogue(rows[0])
    whole = max(rows, key=lambda row: len(row["messages"]))
    for row in rows:
        if row["messages"] != whole["messages"][: len(row["messages"])]:
            raise WrongShape(f"the rows of dialogue {name!r} tell it differently")
    turns = tuple(turn_from_message(message) for message in whole["messages"])
    items = {str(turn_index(row.get("response_index"))): row.get("id") for row in rows}
    metadata = {"dataset": NAME, "system": whole.get("system"), "items": items}
    return Record(
        Conversation(name, turns, metadata=metadata), tuple(label for row in rows for label in _labels(row, name))
    )


def _labels(row: Fields, name: str) -> list[Label]:
    turn = turn_index(row.get("response_index"))
    if turn is None:
        raise WrongShape("a row of ABC-Eval is about one turn: response_index")
    return [
        Label(Target(name, turn), str(rating["question"]), checked_id(rating["annotator"]), rating["value"])
        for rating in row["ratings"]
    ]


# Rows look like any benchmark's: the format is named (`--format abc-eval`), never guessed.
formats.register(NAME)(Format(recognises=lambda _: False, convert=_abc_eval_convert, key=_dialogue))
