"""Parser of verdicts: issues and score that a model wrote about a reply, read by form only.

The parser never guesses. A reply with two verdicts, or with text before the verdict, could quote the transcript and is
not read. Unreadable parts are counted by reason and never become an issue or a score.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from accord.edges import sendable
from accord.models import Failure
from accord.values import MAX_SCORE, MIN_SCORE, Issue

NO_VERDICT = "no verdict"
"""Reason of a `Failure` for a reply that cannot be read; its detail says why."""

LONGEST = 1000
"""Characters of a comment or a quote; longer ones are cut."""
MOST_ISSUES = 50

_FENCED = re.compile(r"```(?:json|JSON)?[ \t]*\n?(.*?)\n?[ \t]*```(.*)", re.DOTALL)
_DIGITS = re.compile(r"\s*([0-9])(?:\.0+)?\s*")


@dataclass(frozen=True, slots=True)
class Verdict:
    """A model's verdict on one reply: issues of any type, and in `losses` the reasons for unreadable parts."""

    issues: tuple[Issue, ...]
    score: int
    comment: str
    losses: tuple[str, ...] = ()


class _RepeatedKey(ValueError):
    """A JSON object has a key twice."""


def read_verdict(text: str) -> Verdict | Failure:
    """Read the verdict on one reply: `{"issues": [{"type", "comment", "quote"}], "score": 1..5, "comment"}`.

    The verdict may be in one code fence, and text may follow it.
    """
    content = _only_object(text)
    return content if isinstance(content, Failure) else _verdict(content)


def read_verdicts(text: str, turns: Sequence[int]) -> dict[int, Verdict | Failure]:
    """Read verdicts on several replies, `{"turns": [{"turn": 3, ...}, ...]}`; every turn has an entry."""
    content = _only_object(text)
    entries = content.get("turns") if isinstance(content, dict) else None
    if not isinstance(entries, list):
        reason = content if isinstance(content, Failure) else _unreadable("no list of turns")
        return dict.fromkeys(turns, reason)
    by_turn: dict[int, Verdict | Failure] = {}
    for entry in entries:
        turn = _whole(entry.get("turn")) if isinstance(entry, dict) else None
        if turn in turns and turn is not None:
            by_turn[turn] = _unreadable("two verdicts on one turn") if turn in by_turn else _verdict(entry)
    return {turn: by_turn.get(turn, _unreadable("no verdict on this turn")) for turn in turns}


def _unreadable(reason: str) -> Failure:
    return Failure(NO_VERDICT, reason)


def _only_object(text: str) -> dict[str, Any] | Failure:
    """Return the JSON object at the beginning of a text, plain or fenced."""
    body = text.strip().removeprefix("\ufeff").lstrip()
    fenced = _FENCED.match(body)
    body, after = (fenced[1].strip(), fenced[2]) if fenced else (body, "")
    if not body:
        return _unreadable("empty reply")
    if not body.startswith("{"):
        return _unreadable("text before the verdict" if "{" in body else "no JSON object")
    try:
        content, end = _decoder.raw_decode(body)
    except _RepeatedKey:
        return _unreadable("duplicate key")
    except (ValueError, RecursionError):
        return _unreadable("broken or truncated JSON")
    if _more(body[end:] + after):
        return _unreadable("more than one verdict")
    return content if isinstance(content, dict) else _unreadable("no JSON object")


def _more(rest: str) -> bool:
    """Return True if the rest could contain another verdict."""
    return "{" in rest and ('"score"' in rest or '"issues"' in rest)


def _verdict(content: Mapping[str, Any]) -> Verdict | Failure:
    score = _score(content.get("score"))
    if score is None:
        return _unreadable("no score" if content.get("score") is None else "score outside 1 to 5")
    entries = content.get("issues")
    if not isinstance(entries, list):
        return _unreadable("no list of issues")
    losses: list[str] = []
    issues = tuple(_stated(entries[:MOST_ISSUES], losses))
    losses += ["too many issues"] * max(len(entries) - MOST_ISSUES, 0)
    comment = content.get("comment", "")
    if not isinstance(comment, str):
        losses.append("comment is not text")
        comment = ""
    return Verdict(issues, score, _text(comment), tuple(losses))


def _stated(entries: Sequence[Any], losses: list[str]) -> Iterator[Issue]:
    for entry in entries:
        if not isinstance(entry, dict):
            losses.append("issue is not an object")
            continue
        kind, comment, quote = entry.get("type"), entry.get("comment", ""), entry.get("quote") or ""
        if not isinstance(kind, str) or not kind.strip():
            losses.append("issue without a type")
        elif not isinstance(comment, str) or not isinstance(quote, str):
            losses.append("comment or quote of an issue is not text")
        else:
            yield Issue(_text(kind)[:100], _text(comment), _text(quote))


def _score(value: Any) -> int | None:
    """Return an integer from 1 to 5, or its digit as text."""
    digit = _DIGITS.fullmatch(value) if isinstance(value, str) else None
    number = int(digit[1]) if digit else _whole(value)
    return number if number is not None and MIN_SCORE <= number <= MAX_SCORE else None


def _whole(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if value == value // 1 else None


def _text(text: str) -> str:
    """Return a text in one line without characters that pages and files cannot hold."""
    valid = text if text.isascii() else sendable(text).replace("\ufffd", "")
    return " ".join(valid.replace("\0", "").split())[:LONGEST]


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise _RepeatedKey
    return content


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not valid JSON")


_decoder = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_number)
