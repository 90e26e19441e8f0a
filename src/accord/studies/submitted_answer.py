"""Answers as pages send them, validated strictly: every field has a type, a length and a range."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from accord.edges import BadInput, sendable
from accord.values import Question, Scale, ScaleKind, Value, find_quote

MAX_TEXT = 20_000
"""Maximum length of a comment or quote, in characters."""
MAX_SECONDS = 24 * 3600.0
"""Maximum time of an answer; longer ones are cut to it."""
BOTH_BAD = "both-bad"
"""Suffix of the question that marks both conversations of a pair as bad."""
_ID = re.compile(r"[A-Za-z0-9_-]{16,64}", re.ASCII)
_TEXT_LIMITS = {
    "assignment": 64, "id": 64, "question": 200, "comment": MAX_TEXT, "stage": 40, "quote": MAX_TEXT, "replaces": 64,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SubmittedAnswer:
    """An answer to a question, or a mark of an issue, as an annotator sends it.

    Attributes:
        assignment: Id of the assignment.
        id: Id of the answer, made by the page; the same id twice is the same answer.
        question: Question of the rubric, or `issue:KIND` for a mark.
        value: Option as the page sends it; `None` if the question does not apply, or to remove a mark.
        stage: Stage that the page shows; empty for the current one.
        seconds: Time that the answer took.
        turn, quote, span: Place of a mark.
        replaces: Id of the mark that this one replaces.

    Raises:
        BadInput: A field has the wrong type, or is too long or out of range.
    """

    assignment: str
    id: str
    question: str
    value: Any = None
    comment: str = ""
    stage: str = ""
    seconds: float | None = None
    turn: int | None = None
    quote: str = ""
    span: Any = None
    replaces: str = ""

    def __post_init__(self) -> None:
        for name, limit in _TEXT_LIMITS.items():
            object.__setattr__(self, name, text_field(vars(self), name, limit))
        object.__setattr__(self, "seconds", _checked_seconds(self.seconds))
        if not _ID.fullmatch(self.id):
            raise BadInput("the answer's id has 16 to 64 letters, digits, '-' and '_'; load the page again")

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> SubmittedAnswer:
        """Return the answer in a JSON object.

        Raises:
            BadInput: The object has an unknown field, or an invalid value.
        """
        allowed = {field.name for field in fields(cls)}
        if unknown := sorted(set(row) - allowed):
            raise BadInput(f"the answer has the field {unknown[0]!r}; allowed: {', '.join(sorted(allowed))}")
        required = {"assignment": "", "id": "", "question": ""}
        return cls(**{**required, **row})

    def quoted(self, text: str) -> tuple[str, tuple[int, int] | None]:
        """Return the words that a mark quotes from the text of its turn, and their span.

        Raises:
            BadInput: The turn does not contain the quote, or the span lies outside it.
        """
        span = self.span
        if span is None and self.quote.strip():
            span = find_quote(self.quote, text)
            if span is None:
                raise BadInput(
                    f"the turn does not contain {self.quote.strip()[:60]!r}; copy the words from it, or leave them out"
                )
        if span is None:
            return "", None
        is_pair = isinstance(span, list | tuple) and len(span) == 2 and all(type(end) is int for end in span)
        if not is_pair or not 0 <= span[0] < span[1] <= len(text):
            raise BadInput(
                f"a span is two whole numbers within the turn's {len(text)} characters; got {str(span)[:40]}"
            )
        return text[span[0] : span[1]], (span[0], span[1])


def text_field(row: Mapping[str, Any], name: str, limit: int = MAX_TEXT) -> str:
    """Return a text field; empty if it is missing.

    Raises:
        BadInput: The field is not text, or is too long.
    """
    value = row.get(name)
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > limit:
        raise BadInput(f"{name} is text of at most {limit} characters; got {str(value)[:40]!r}")
    return sendable(value)


def _checked_seconds(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise BadInput(f"seconds is a number from 0 on; got {str(value)[:40]!r}. Leave it out if it is unknown.")
    return round(min(float(value), MAX_SECONDS), 1)


def parse_value(question: Question, value: Any) -> Value | None:
    """Return an answer as a value of the question's scale; `None` if the question does not apply.

    Args:
        question: The answered question.
        value: Value as JSON, or as the text of a form field.

    Raises:
        BadInput: The scale does not allow the value.
    """
    if value is None:
        return None
    scale = question.scale
    if isinstance(value, str):
        parsed: Value | None = scale.parse(value)
        if parsed is None and not scale.options:
            try:
                parsed = float(value)
            except ValueError:
                parsed = None
        value = value if parsed is None else parsed
    if isinstance(value, bool) or not isinstance(value, int | float | str) or not scale.holds(value):
        raise BadInput(f"{question.shown}: got {str(value)[:40]!r}, allowed: {scale}. Choose one.")
    return next((option for option in scale.options if option == value), value)


def both_bad_question(question: Question) -> Question:
    """Return the question that marks both conversations of a pair as bad."""
    return Question(
        id=f"{question.id}:{BOTH_BAD}", text="Neither is good.", scale=Scale(kind=ScaleKind.BINARY, options=(0, 1))
    )
