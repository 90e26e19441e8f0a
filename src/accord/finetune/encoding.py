"""Examples as tokens: what is asked, then the answer, of which alone is learned.

An example that is too long loses the turns it begins with, whole turns at a time and said so; the answer is never cut.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from accord.finetune.examples import Example
from accord.issues.guidance import Guidance
from accord.llm.hf_folder import Opened, prompt_tokens

TOO_LONG = "too long even without the turns before it"
SHORTENED = "shortened"


@dataclass(frozen=True, slots=True)
class Encoded:
    """One example's tokens, and the place of the answer's first one; the last token ends the answer."""

    tokens: tuple[int, ...]
    answer: int


@dataclass(frozen=True)
class Lesson:
    """The examples of a part as tokens.

    Attributes:
        rows: Those that are learned from.
        left_out: How many are not, by reason.
        shortened: How many of the rows lack turns at their beginning.
    """

    rows: tuple[Encoded, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)
    shortened: int = 0

    def to_json(self) -> dict[str, Any]:
        """How many examples there are, were shortened, and were left out for which reason."""
        return {"learned": len(self.rows), "shortened": self.shortened, "left_out": dict(self.left_out)}


def encode(examples: Sequence[Example], guidance: Guidance, opened: Opened, max_tokens: int) -> Lesson:
    """The examples as tokens, each of at most `max_tokens` and of what the model reads."""
    room = min(max_tokens, opened.context)
    rows: list[Encoded] = []
    left_out: Counter[str] = Counter()
    shortened = 0
    for example in examples:
        row, hidden = _fitted(example, guidance, opened, room)
        if row is None:
            left_out[TOO_LONG] += 1
        else:
            rows.append(row)
            shortened += hidden > 0
    return Lesson(tuple(rows), dict(left_out), shortened)


def _fitted(example: Example, guidance: Guidance, opened: Opened, room: int) -> tuple[Encoded | None, int]:
    """The tokens with as few turns left out at the beginning as fit, and how many those are; `None` where none do."""
    answer = [*opened.tokenizer(example.answer, add_special_tokens=False).input_ids, opened.end]
    subject = example.subject
    assert subject.turn is not None

    def asked(hidden: int) -> list[int]:
        shown = replace(subject, hidden=(0, hidden)) if hidden else subject
        return prompt_tokens(opened.tokenizer, guidance.of_turn(shown).messages)

    def encoded(hidden: int) -> Encoded | None:
        prompt = asked(hidden)
        return Encoded((*prompt, *answer), len(prompt)) if len(prompt) + len(answer) <= room else None

    low, high = 0, subject.turn
    fits = encoded(low)
    if fits is not None or high == 0:
        return fits, 0
    low, fits = 1, encoded(high)
    while fits is not None and low < high:
        middle = (low + high) // 2
        shorter = encoded(middle)
        low, high, fits = (low, middle, shorter) if shorter is not None else (middle + 1, high, fits)
    return fits, high
