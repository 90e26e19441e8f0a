"""Rows of published data sets: Accord's benchmark files, ABC-Eval, and SODA-EVAL's released annotations.

A benchmark item has `messages`, `knowledge` and the `ratings` of all annotators, one item per line. An ABC-Eval file
has the same fields with one row per rated turn. SODA-EVAL has one row per turn: `dialogue_id`, `turn_index`, `issues`
(objects with `type` and `comment`), `score` and `comment`, with or without the dialogue (`dialogue`, or `context` and
`response`). Rows of a dialogue may be anywhere in the file.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from accord.formats.openai_messages import checked_id, documents_from, turn_from_message, turn_index, turns_of
from accord.formats.record import Fields, Format, Record, WrongShape, formats, under_our_names
from accord.values import (
    MAX_SCORE,
    MIN_SCORE,
    Conversation,
    Issue,
    IssueAnnotation,
    Label,
    Signature,
    Target,
    Turn,
    find_quote,
    load_taxonomy,
)


def _is_benchmark(fields: Fields) -> bool:
    return isinstance(fields.get("ratings"), list) and "level" in fields


def _convert_benchmark(rows: Sequence[Fields], default_id: str) -> Record:
    """Convert a benchmark item: messages, knowledge, and the ratings of all annotators."""
    [fields] = rows
    name = checked_id(default_id if fields.get("id") is None else fields["id"])
    meta = fields.get("meta") or {}
    # Data sets whose texts may not be published still have ratings.
    turns = turns_of(fields.get("messages") or ())
    details = {key: fields[key] for key in ("dataset", "system", "level", "references") if fields.get(key)}
    target = Target(name, turn_index(fields.get("response_index")))
    if target.turn not in (None, len(turns) - 1):
        details["response_index"] = target.turn
    conversation = Conversation(name, turns, documents_from(fields.get("knowledge")), {**meta, **details})
    ratings = tuple(_ratings(fields["ratings"], target))
    labels = (*ratings, *_not_applicable(meta, ratings, target)) if meta else ratings
    return Record(conversation, labels, scales=tuple(rating.get("scale") for rating in fields["ratings"]))


def _ratings(ratings: Sequence[Any], target: Target) -> Iterator[Label]:
    """Yield the ratings of an item; a second one by the same person on a question is a deliberate repeat."""
    counts = Counter[tuple[str, str]]()
    for rating in ratings:
        try:
            annotator, question, value = rating["annotator"], rating["question"], rating["value"]
        except (KeyError, TypeError):
            raise WrongShape("a rating has an annotator, a question and a value") from None
        by, repeat = checked_id(annotator), counts[str(question), str(annotator)]
        counts[str(question), str(annotator)] += 1
        yield Label(target, str(question), by, value, rating.get("time"), repeat=repeat)


def _not_applicable(meta: Fields, ratings: Sequence[Label], target: Target) -> Iterator[Label]:
    """Yield empty labels for `not_applicable`: pairs of annotator and question, or questions of a sole annotator."""
    annotators = sorted({label.annotator for label in ratings})
    for entry in meta.get("not_applicable") or ():
        if isinstance(entry, list) and len(entry) == 2:
            annotator, question = entry
            yield Label(target, str(question), checked_id(annotator), None)
        elif isinstance(entry, str) and len(annotators) == 1:
            yield Label(target, entry, annotators[0], None)


formats.register("benchmark")(Format(matches=_is_benchmark, convert=_convert_benchmark))


# --- ABC-Eval ------------------------------------------------------------------------------------------------------

ABC_EVAL = "abc-eval"


def _abc_eval_key(fields: Fields) -> str:
    meta = fields.get("meta")
    if not isinstance(meta, Mapping) or not meta.get("dialogue_id"):
        raise WrongShape("a row of ABC-Eval names its dialogue: meta.dialogue_id")
    return checked_id(meta["dialogue_id"])


def _convert_abc_eval(rows: Sequence[Fields], default_id: str) -> Record:
    """Convert the ABC-Eval rows of one dialogue, each about one turn."""
    name = _abc_eval_key(rows[0])
    whole = _longest(name, [row["messages"] for row in rows])
    turns = tuple(turn_from_message(message) for message in whole)
    system = next(row.get("system") for row in rows if len(row["messages"]) == len(whole))
    items = {str(turn_index(row.get("response_index"))): row.get("id") for row in rows}
    conversation = Conversation(name, turns, metadata={"dataset": ABC_EVAL, "system": system, "items": items})
    labels = tuple(label for row in rows for label in _abc_eval_labels(row, name))
    return Record(conversation, labels, scales=tuple(each.get("scale") for row in rows for each in row["ratings"]))


def _longest(name: str, dialogues: Sequence[Sequence[Any]]) -> Sequence[Any]:
    """Return the longest version of a dialogue; raises `WrongShape` if it does not start with every other version."""
    longest = max(dialogues, key=len)
    if any(dialogue != longest[: len(dialogue)] for dialogue in dialogues):
        raise WrongShape(f"the rows of dialogue {name!r} have different texts")
    return longest


def _abc_eval_labels(row: Fields, name: str) -> list[Label]:
    turn = turn_index(row.get("response_index"))
    if turn is None:
        raise WrongShape("a row of ABC-Eval is about one turn: response_index")
    return [
        Label(Target(name, turn), str(rating["question"]), checked_id(rating["annotator"]), rating["value"])
        for rating in row["ratings"]
    ]


# The rows look like the rows of other benchmarks, so the format is never detected: `--format abc-eval`.
formats.register(ABC_EVAL)(Format(matches=lambda _: False, convert=_convert_abc_eval, key=_abc_eval_key))


# --- SODA-EVAL -----------------------------------------------------------------------------------------------------

_SODA_TAXONOMY, _SODA_MODEL = "soda-eval", "gpt-4-1106-preview"
_SODA_SIGNATURE = str(Signature.of("issues", model=_SODA_MODEL, taxonomy=_SODA_TAXONOMY, via="recorded"))
"""Signature of the released annotations (appendix C.2)."""
REPEAT = "|repeat:"
"""Suffix of the signature of a turn's second and later assessments, so that none is lost or counted twice."""
_SODA_COLUMNS = {
    "dialogue_id": ("dialog_id", "dialogue id", "conversation_id", "id"),
    "turn_index": ("turn index", "turn_id", "turn", "index"),
    "score": ("overall score", "overall_score", "overall", "rating"),
    "comment": ("overall_comment", "overall comment", "explanation"),
    "dialogue": ("turns", "messages"),
    "context": ("history", "dialogue_history"),
}
_REQUIRED = {"dialogue_id", "turn_index", "issues", "score"}
_SCORES = {text for score in range(MIN_SCORE, MAX_SCORE + 1) for text in (str(score), f"{score}.0")}


def _soda_row(fields: Fields) -> Fields:
    row = under_our_names(fields, _SODA_COLUMNS)
    if isinstance(row.get("score"), Mapping):  # {"overall": {"score", "comment"}}
        row |= {name: row["score"].get(name) for name in ("comment", "score")}
    return row


def _is_soda_eval(fields: Fields) -> bool:
    if len(fields) < len(_REQUIRED):
        return False
    row = _soda_row(fields)
    return row.keys() >= _REQUIRED and "ratings" not in row


def _convert_soda_eval(rows: Sequence[Fields], default_id: str) -> Record:
    """Convert the SODA-EVAL rows of one dialogue: issues, a score and a comment per turn."""
    table = [_soda_row(fields) for fields in rows]
    name = checked_id(table[0]["dialogue_id"])
    turns = tuple(_longest(name, [_dialogue(row) for row in table]))
    counts: Counter[int] = Counter()
    assessments = []
    for row in table:
        assessment = _assessment(row, name, turns)
        turn = assessment.target.turn or 0
        counts[turn] += 1
        if counts[turn] > 1:
            assessment = replace(assessment, signature=f"{_SODA_SIGNATURE}{REPEAT}{counts[turn]}")
        assessments.append(assessment)
    return Record(Conversation(name, turns), (), tuple(assessments))


def _assessment(row: Fields, name: str, turns: Sequence[Turn]) -> IssueAnnotation:
    turn, score = turn_index(row["turn_index"]), row["score"]
    if turn is None or (turns and turn >= len(turns)):
        raise WrongShape(f"turn {turn} is not one of the dialogue's {len(turns)} turns (turns count from 0)")
    if isinstance(score, bool) or not isinstance(score, int | float | str) or str(score) not in _SCORES:
        raise WrongShape(f"an overall score is a whole number from {MIN_SCORE} to {MAX_SCORE}, got {score!r}")
    entries = json.loads(row["issues"]) if isinstance(row["issues"], str) else row["issues"]
    if not isinstance(entries, list):
        raise WrongShape(f"issues are a list, got {type(entries).__name__}")
    reply, comment = turns[turn].content if turns else "", str(row.get("comment") or "")
    issues = tuple(_issue(entry, reply) for entry in entries)
    return IssueAnnotation(Target(name, turn), issues, int(float(score)), comment, _SODA_SIGNATURE)


def _issue(entry: Any, reply: str) -> Issue:
    """Map an issue to a kind of the taxonomy, or to its residual kind, and keep the original name."""
    if not isinstance(entry, Mapping) or not isinstance(entry.get("type"), str):
        raise WrongShape("an issue is an object with a type and a comment")
    taxonomy, original = load_taxonomy(_SODA_TAXONOMY), entry["type"]
    kind = taxonomy.find(original)
    name = kind.name if kind is not None else str(taxonomy.other)
    comment, quote = str(entry.get("comment") or ""), str(entry.get("quote") or "")
    return Issue(name, comment, quote, find_quote(quote, reply), None if original == name else original)


def _dialogue(row: Fields) -> tuple[Turn, ...]:
    """Return the turns that a row has: the dialogue, or its context and response."""
    dialogue = row.get("dialogue")
    given = dialogue if dialogue is not None else [*_as_list(row.get("context")), *_as_list(row.get("response"))]
    messages, speakers = _as_list(given), row.get("speakers")
    if not isinstance(speakers, list):
        speakers = _speakers_in(messages)
    return tuple(_soda_turn(message, number, speakers) for number, message in enumerate(messages))


def _speakers_in(messages: Sequence[Any]) -> list[str]:
    """Return the speaker of each text (`Ann: Hello.`) if all texts name one of few speakers, else an empty list."""
    names = [text.partition(": ")[0] for text in messages if isinstance(text, str) and ": " in text[:41]]
    return names if len(names) == len(messages) and len(set(names)) <= max(2, len(messages) // 3) else []


def _as_list(value: Any) -> list[Any]:
    if isinstance(value, str):
        return [line for line in value.split("\n") if line.strip()]
    return list(value) if isinstance(value, list | tuple) else []


def _soda_turn(message: Any, number: int, speakers: Sequence[Any]) -> Turn:
    """Return a turn of a message or a text; texts without roles alternate between two speakers."""
    if isinstance(message, Mapping) and "role" in message:
        return turn_from_message(message)
    text = message.get("text") if isinstance(message, Mapping) else message
    if not isinstance(text, str):
        raise WrongShape("a turn is a text or a message")
    speaker = str(speakers[number]) if number < len(speakers) else None
    role = ("speaker_a", "speaker_b")[number % 2]
    return Turn(role, text if speaker is None else text.removeprefix(f"{speaker}: "), speaker)


formats.register("soda-eval")(
    Format(
        matches=_is_soda_eval, convert=_convert_soda_eval,
        key=lambda fields: checked_id(_soda_row(fields)["dialogue_id"]),
    )
)  # fmt: skip
