"""SODA-EVAL's released annotations: a row a turn, with its issues, an overall score and a comment.

`{"dialogue_id", "turn_index", "issues": [{"type", "comment"}], "score", "comment"}`, with the dialogue beside it or
not: `dialogue` (all turns) or `context` and `response`. Rows of one dialogue need not stand together.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from accord.formats.openai_messages import checked_id, turn_from_message, turn_index
from accord.formats.record import Fields, Format, Record, WrongShape, formats, under_our_names
from accord.values import (
    MAX_SCORE,
    MIN_SCORE,
    Conversation,
    Issue,
    IssueAnnotation,
    Signature,
    Target,
    Turn,
    find_quote,
    load_taxonomy,
)

TAXONOMY, MODEL = "soda-eval", "gpt-4-1106-preview"
MADE_BY = str(Signature.of("issues", model=MODEL, taxonomy=TAXONOMY, via="recorded"))
"""Who made the released annotations (appendix C.2)."""
REPEAT = "|repeat:"
"""What the maker of a turn's second assessment, and of further ones, ends with."""

_NAMES = {
    "dialogue_id": ("dialog_id", "dialogue id", "conversation_id", "id"),
    "turn_index": ("turn index", "turn_id", "turn", "index"),
    "score": ("overall score", "overall_score", "overall", "rating"),
    "comment": ("overall_comment", "overall comment", "explanation"),
    "dialogue": ("turns", "messages"),
    "context": ("history", "dialogue_history"),
}


def _named(fields: Fields) -> Fields:
    row = under_our_names(fields, _NAMES)
    if isinstance(row.get("score"), Mapping):  # {"overall": {"score", "comment"}}
        row |= {name: row["score"].get(name) for name in ("comment", "score")}
    return row


_TELLING = {"dialogue_id", "turn_index", "issues", "score"}


def _recognises(fields: Fields) -> bool:
    if len(fields) < len(_TELLING):
        return False
    row = _named(fields)
    return row.keys() >= _TELLING and "ratings" not in row


def _convert(rows: Sequence[Fields], default_id: str) -> Record:
    named = [_named(fields) for fields in rows]
    name = checked_id(named[0]["dialogue_id"])
    told = [_turns(row) for row in named]
    turns = max(told, key=len)
    if any(each != turns[: len(each)] for each in told):
        raise WrongShape(f"the rows of dialogue {name!r} tell it differently")
    seen: Counter[int] = Counter()
    found = []
    for row in named:
        assessment = _assessment(row, name, turns)
        turn = assessment.target.turn or 0
        seen[turn] += 1
        if seen[turn] > 1:  # who rates twice is another maker: nothing is lost, and nothing is counted twice
            assessment = replace(assessment, signature=f"{MADE_BY}{REPEAT}{seen[turn]}")
        found.append(assessment)
    return Record(Conversation(name, turns), (), tuple(found))


def _assessment(row: Mapping[str, Any], name: str, turns: Sequence[Turn]) -> IssueAnnotation:
    turn, score = turn_index(row["turn_index"]), row["score"]
    if turn is None or (turns and turn >= len(turns)):
        raise WrongShape(f"turn {turn} is none of the dialogue's {len(turns)} (turns count from 0)")
    if isinstance(score, bool) or not isinstance(score, int | float | str) or str(score) not in _SCORES:
        raise WrongShape(f"an overall score is a whole number from {MIN_SCORE} to {MAX_SCORE}, got {score!r}")
    entries = json.loads(row["issues"]) if isinstance(row["issues"], str) else row["issues"]
    if not isinstance(entries, list):
        raise WrongShape(f"issues are a list, got {type(entries).__name__}")
    reply = turns[turn].content if turns else ""
    issues = tuple(_issue(entry, reply) for entry in entries)
    return IssueAnnotation(Target(name, turn), issues, int(float(score)), str(row.get("comment") or ""), MADE_BY)


_SCORES = {text for score in range(MIN_SCORE, MAX_SCORE + 1) for text in (str(score), f"{score}.0")}


def _issue(entry: Any, reply: str) -> Issue:
    """An issue under a kind of the taxonomy, what it was called kept beside it; the residual kind where none fits."""
    if not isinstance(entry, Mapping) or not isinstance(entry.get("type"), str):
        raise WrongShape("an issue is an object with a type and a comment")
    taxonomy = load_taxonomy(TAXONOMY)
    said, kind = entry["type"], taxonomy.find(entry["type"])
    name = kind.name if kind is not None else str(taxonomy.other)
    quote = str(entry.get("quote") or "")
    return Issue(name, str(entry.get("comment") or ""), quote, find_quote(quote, reply), None if said == name else said)


def _turns(row: Mapping[str, Any]) -> tuple[Turn, ...]:
    """The dialogue as far as the row has it: all of it, or what was before the response and the response."""
    whole = row.get("dialogue")
    said = whole if whole is not None else [*_listed(row.get("context")), *_listed(row.get("response"))]
    listed, speakers = _listed(said), row.get("speakers")
    if not isinstance(speakers, list):
        speakers = _named_in(listed)
    return tuple(_turn(each, place, speakers) for place, each in enumerate(listed))


def _named_in(said: Sequence[Any]) -> list[str]:
    """The speakers' names, where every text begins with one and they are few: `Ann: Hello.`; else none."""
    names = [text.partition(": ")[0] for text in said if isinstance(text, str) and ": " in text[:41]]
    return names if len(names) == len(said) and len(set(names)) <= max(2, len(said) // 3) else []


def _listed(value: Any) -> list[Any]:
    if isinstance(value, str):
        return [line for line in value.split("\n") if line.strip()]
    return list(value) if isinstance(value, list | tuple) else []


def _turn(said: Any, place: int, speakers: Sequence[Any]) -> Turn:
    """A message, or a text without its speaker's name before it; without roles the speakers take turns."""
    if isinstance(said, Mapping) and "role" in said:
        return turn_from_message(said)
    text = said.get("text") if isinstance(said, Mapping) else said
    if not isinstance(text, str):
        raise WrongShape("a turn is a text or a message")
    speaker = str(speakers[place]) if place < len(speakers) else None
    role = ("speaker_a", "speaker_b")[place % 2]
    return Turn(role, text if speaker is None else text.removeprefix(f"{speaker}: "), speaker)


formats.register("soda-eval")(
    Format(recognises=_recognises, convert=_convert, key=lambda fields: checked_id(_named(fields)["dialogue_id"]))
)
