"""What a page sends of an answer, read strictly: every field has a type, a length and a range."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from accord.edges import BadInput, sendable
from accord.values import Question, Scale, ScaleKind, Value, find_quote

LONGEST = 20_000
"""Characters that a comment or a quote may have."""
LONGEST_VISIT = 24 * 3600.0
"""Seconds that an answer may have taken."""
BOTH_BAD = "both-bad"
"""What a pair is called of which neither is good: an answer beside that to the question."""
ANSWER_ID = re.compile(r"[A-Za-z0-9_-]{16,64}", re.ASCII)

FIELDS = frozenset(
    {"assignment", "id", "question", "value", "comment", "seconds", "turn", "quote", "span", "replaces", "stage"}
)


def text_in(row: Mapping[str, Any], name: str, longest: int = LONGEST) -> str:
    """A text field; empty where it is missing.

    Raises:
        BadInput: It is no text, or too long.
    """
    value = row.get(name)
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > longest:
        raise BadInput(f"{name} is text of at most {longest} characters; got {str(value)[:40]!r}")
    return sendable(value)


def seconds_in(value: Any) -> float | None:
    """How long an answer took, at most `LONGEST_VISIT`; `None` where it is not known.

    Raises:
        BadInput: It is no number from 0 on.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise BadInput("seconds is a number from 0 on; leave it out where it is not known")
    return round(min(float(value), LONGEST_VISIT), 1)


def value_in(question: Question, value: Any) -> Value | None:
    """An answer in the scale's own words; a form sends it as text, and `None` says that the question does not apply.

    Raises:
        BadInput: It is none that the scale allows.
    """
    if value is None:
        return None
    scale = question.scale
    if isinstance(value, str):
        found: Value | None = scale.parse(value)
        if found is None and not scale.options:
            try:
                found = float(value)
            except ValueError:
                found = None
        value = value if found is None else found
    if isinstance(value, bool) or not isinstance(value, int | float | str) or not scale.holds(value):
        raise BadInput(f"{question.id}: got {str(value)[:40]!r}, allowed: {scale}. Choose one.")
    return next((option for option in scale.options if option == value), value)


def quoted(text: str, span: Any, quote: str) -> tuple[str, tuple[int, int] | None]:
    """The words between two characters of a turn, or where it has the quoted ones; nothing where neither is named."""
    if span is None and quote.strip():
        span = find_quote(quote, text)
        if span is None:
            raise BadInput(f"the turn does not say {quote.strip()[:60]!r}; copy the words from it, or leave them out")
    if span is None:
        return "", None
    whole = isinstance(span, list | tuple) and len(span) == 2 and all(type(each) is int for each in span)
    if not whole or not 0 <= span[0] < span[1] <= len(text):
        raise BadInput(f"a span is two whole numbers within the turn's {len(text)} characters; got {str(span)[:40]}")
    return text[span[0] : span[1]], (span[0], span[1])


def both_bad(question: Question) -> Question:
    """What is answered of a pair of which neither is good, beside the question."""
    return Question(
        id=f"{question.id}:{BOTH_BAD}", text="Neither is good.", scale=Scale(kind=ScaleKind.BINARY, options=(0, 1))
    )
