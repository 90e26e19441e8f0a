"""Scales: the allowed answers of a question, and their order."""

from __future__ import annotations

from enum import StrEnum
from math import isfinite

from pydantic import BaseModel, ConfigDict, model_validator

Value = int | float | str
"""Answer: a number on an ordered or real scale, a string on a nominal scale."""

MAX_JUDGE_OPTIONS = 10
"""Maximum number of options in a question to a judge."""
MAX_OPTIONS = 101
ANCHOR_COUNT = 11
"""Number of points to which recorded answers on wider scales are rounded."""
REAL_STEPS = 100
"""Number of equal steps of a real scale."""


class ScaleKind(StrEnum):
    """Measurement level of a scale."""

    ORDINAL = "ordinal"
    NOMINAL = "nominal"
    BINARY = "binary"
    REAL = "real"


class FrozenModel(BaseModel):
    """Immutable pydantic model without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Scale(FrozenModel):
    """Allowed answers: `options` in order, or `low` to `high` for a real scale."""

    kind: ScaleKind = ScaleKind.ORDINAL
    options: tuple[Value, ...] = ()
    low: float | None = None
    high: float | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Scale:
        if self.kind is ScaleKind.REAL:
            ends = (self.low, self.high)
            finite = all(end is not None and isfinite(end) for end in ends)
            if self.options or not finite or not self.low < self.high:  # type: ignore[operator]
                raise ValueError("a real scale has two finite ends, low < high, and no options")
            return self
        if not 2 <= len(self.options) <= MAX_OPTIONS:
            raise ValueError(f"a scale has 2 to {MAX_OPTIONS} options, got {len(self.options)}")
        if len(set(self.options)) != len(self.options):
            raise ValueError("two options of a scale are equal")
        if not self.is_ordered and len(self.options) > MAX_JUDGE_OPTIONS:
            raise ValueError(f"a nominal scale has 2 to {MAX_JUDGE_OPTIONS} options, got {len(self.options)}")
        if self.kind is ScaleKind.BINARY and len(self.options) != 2:
            raise ValueError(f"a binary scale has 2 options, got {len(self.options)}")
        if self.is_ordered and list(self.options) != sorted(self.options, key=float):
            raise ValueError("options of an ordered scale are numbers in rising order")
        return self

    @property
    def is_ordered(self) -> bool:
        """True if answers are numbers with meaningful distances."""
        return self.kind is not ScaleKind.NOMINAL

    @property
    def numbers(self) -> tuple[float, ...]:
        """Answers of an ordered scale as increasing numbers; a real scale has `REAL_STEPS` equal steps.

        Raises:
            ValueError: The scale is nominal.
        """
        if self.kind is not ScaleKind.REAL:
            return tuple(float(option) for option in self.options)
        assert self.low is not None and self.high is not None
        return tuple(self.low + (self.high - self.low) * step / REAL_STEPS for step in range(REAL_STEPS + 1))

    @property
    def anchored(self) -> Scale:
        """The scale with at most `ANCHOR_COUNT` equally spaced options."""
        if self.kind is not ScaleKind.REAL and len(self.options) <= MAX_JUDGE_OPTIONS:
            return self
        low, high = self.numbers[0], self.numbers[-1]
        points = [low + (high - low) * step / (ANCHOR_COUNT - 1) for step in range(ANCHOR_COUNT)]
        return Scale(options=tuple(int(point) if point.is_integer() else round(point, 9) for point in points))

    def holds(self, value: Value) -> bool:
        """Return True if the scale allows a value."""
        if isinstance(value, bool):
            return False
        if self.kind is not ScaleKind.REAL:
            return value in self.options
        assert self.low is not None and self.high is not None
        return not isinstance(value, str) and self.low <= value <= self.high

    def parse(self, text: str) -> Value | None:
        """Return the option with a text, or None."""
        return next((option for option in self.options if str(option) == text.strip()), None)

    def __str__(self) -> str:
        if self.kind is ScaleKind.REAL:
            return f"{self.low} to {self.high}"
        return ", ".join(str(option) for option in self.options)
