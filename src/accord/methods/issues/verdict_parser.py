"""Reading a verdict: what a model wrote about a reply, by its form alone.

Nothing is guessed: a reply that holds two verdicts, or one that is not the first thing in it, could be the transcript's
own words, and is not read. What cannot be read is counted with its reason, and never becomes an issue or a score.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from accord.edges import sendable
from accord.values import MAX_SCORE, MIN_SCORE

LONGEST = 1000
"""Characters of a comment or a quote that are kept."""
MOST_ISSUES = 50

_FENCED = re.compile(r"```(?:json|JSON)?[ \t]*\n?(.*?)\n?[ \t]*```(.*)", re.DOTALL)
_DIGITS = re.compile(r"\s*([0-9])(?:\.0+)?\s*")


@dataclass(frozen=True, slots=True)
class Stated:
    """One issue as a model wrote it down: its type is any text."""

    type: str
    comment: str
    quote: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a model wrote about one reply; `losses` are the reasons why parts of it could not be read."""

    issues: tuple[Stated, ...]
    score: int
    comment: str
    losses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unread:
    """A reply that holds no verdict, and why."""

    reason: str


class _Twice(ValueError):
    """An object names a key twice."""


def read_verdict(text: str) -> Verdict | Unread:
    """The verdict on one reply: `{"issues": [{"type", "comment", "quote"}], "score": 1..5, "comment"}`.

    It may stand in one code fence, and prose may follow it.
    """
    found = _only_object(text)
    return found if isinstance(found, Unread) else _verdict(found)


def read_verdicts(text: str, turns: Sequence[int]) -> dict[int, Verdict | Unread]:
    """The verdicts on several replies, `{"turns": [{"turn": 3, ...}, ...]}`, by turn; every turn has an entry."""
    found = _only_object(text)
    entries = found.get("turns") if isinstance(found, dict) else None
    if not isinstance(entries, list):
        reason = found if isinstance(found, Unread) else Unread("no list of turns")
        return dict.fromkeys(turns, reason)
    read: dict[int, Verdict | Unread] = {}
    for entry in entries:
        turn = _whole(entry.get("turn")) if isinstance(entry, dict) else None
        if turn in turns and turn is not None:
            read[turn] = Unread("two verdicts on one turn") if turn in read else _verdict(entry)
    return {turn: read.get(turn, Unread("no verdict on this turn")) for turn in turns}


def _only_object(text: str) -> dict[str, Any] | Unread:
    """The one JSON object that a text begins with, alone or in a fence."""
    body = text.strip().removeprefix("\ufeff").lstrip()
    fenced = _FENCED.match(body)
    body, after = (fenced[1].strip(), fenced[2]) if fenced else (body, "")
    if not body:
        return Unread("an empty reply")
    if not body.startswith("{"):
        return Unread("a verdict is not the first thing in it" if "{" in body else "no JSON object")
    try:
        found, end = _decoder.raw_decode(body)
    except _Twice:
        return Unread("a key stands twice")
    except (ValueError, RecursionError):
        return Unread("broken or truncated JSON")
    if _more(body[end:] + after):
        return Unread("more than one verdict")
    return found if isinstance(found, dict) else Unread("no JSON object")


def _more(rest: str) -> bool:
    """Whether what follows a verdict could be another one."""
    return "{" in rest and ('"score"' in rest or '"issues"' in rest)


def _verdict(found: Mapping[str, Any]) -> Verdict | Unread:
    score = _score(found.get("score"))
    if score is None:
        return Unread("no score" if found.get("score") is None else "a score that is none of 1 to 5")
    entries = found.get("issues")
    if not isinstance(entries, list):
        return Unread("no list of issues")
    losses: list[str] = []
    issues = tuple(_stated(entries[:MOST_ISSUES], losses))
    losses += ["too many issues"] * max(len(entries) - MOST_ISSUES, 0)
    comment = found.get("comment", "")
    if not isinstance(comment, str):
        losses.append("a comment that is no text")
        comment = ""
    return Verdict(issues, score, _text(comment), tuple(losses))


def _stated(entries: Sequence[Any], losses: list[str]) -> Iterator[Stated]:
    for entry in entries:
        if not isinstance(entry, dict):
            losses.append("an issue that is no object")
            continue
        kind, comment, quote = entry.get("type"), entry.get("comment", ""), entry.get("quote") or ""
        if not isinstance(kind, str) or not kind.strip():
            losses.append("an issue without a type")
        elif not isinstance(comment, str) or not isinstance(quote, str):
            losses.append("an issue whose comment or quote is no text")
        else:
            yield Stated(_text(kind)[:100], _text(comment), _text(quote))


def _score(value: Any) -> int | None:
    """A whole number from 1 to 5, or its digit as text."""
    digit = _DIGITS.fullmatch(value) if isinstance(value, str) else None
    number = int(digit[1]) if digit else _whole(value)
    return number if number is not None and MIN_SCORE <= number <= MAX_SCORE else None


def _whole(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if value == value // 1 else None


def _text(text: str) -> str:
    """A text in one line without what no page and no file can carry."""
    told = text if text.isascii() else sendable(text).replace("\ufffd", "")
    return " ".join(told.replace("\0", "").split())[:LONGEST]


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _Twice
    return found


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


_decoder = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_number)
