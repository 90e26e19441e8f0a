"""A score: a distribution over the main question's scale, its mean, its interval, and how it was made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from accord.conversation import Target

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = Sequence[float] | NDArray[np.float64]

INTERVAL_MASS = 0.8
"""Share of the distribution that a score's interval holds."""


POPULATION = "population"
"""Who a score speaks for when it names no annotator: a person drawn from those of whom the annotators are some."""


@dataclass(frozen=True, slots=True)
class Signature:
    """How a number was made, as ordered key-value pairs: `calibration|core:mixed|questions:9|...`."""

    name: str
    parts: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, name: str, /, **parts: Any) -> Signature:
        """A signature from keyword arguments, in their order; `None` values are left out."""
        return cls(name, tuple((key, str(value)) for key, value in parts.items() if value is not None))

    def __str__(self) -> str:
        return "|".join([self.name, *(f"{key}:{value}" for key, value in self.parts)])


@dataclass(frozen=True, slots=True)
class Score:
    """What an annotator, or a panel of them, would say of a target.

    Attributes:
        target: The conversation or turn.
        annotator: One person's id, or the panel's rule (`mean`, `max`, `min`), or `population` for a person
            nobody has met.
        options: The scale's values, rising; shape (K,).
        probabilities: One probability an option, summing to 1; shape (K,).
        value: The distribution's mean, the answer with the least expected squared error (LLM-RUBRIC, eq. 2).
        interval: The central `INTERVAL_MASS` of the distribution, as two values of the scale.
        signature: How the score was made.
    """

    target: Target
    annotator: str
    options: tuple[float, ...]
    probabilities: tuple[float, ...]
    value: float
    interval: tuple[float, float]
    signature: Signature

    def to_json(self) -> dict[str, Any]:
        """The score as one flat JSON row."""
        low, high = self.interval
        return {
            "conversation": self.target.conversation,
            "turn": self.target.turn,
            "annotator": self.annotator,
            "value": self.value,
            "low": low,
            "high": high,
            "distribution": {_text(o): p for o, p in zip(self.options, self.probabilities, strict=True)},
            "unscored": None,
            "signature": str(self.signature),
        }


@dataclass(frozen=True, slots=True)
class Unscored:
    """A target without a score, and why: a value in a batch, never NaN, 0 or -1."""

    target: Target
    annotator: str
    reason: str
    signature: Signature

    def to_json(self) -> dict[str, Any]:
        """The same flat row as a score's, with the reason and without a value."""
        return {
            "conversation": self.target.conversation,
            "turn": self.target.turn,
            "annotator": self.annotator,
            "value": None,
            "low": None,
            "high": None,
            "distribution": None,
            "unscored": self.reason,
            "signature": str(self.signature),
        }


def score_from(target: Target, annotator: str, options: Numbers, probabilities: Numbers, signature: Signature) -> Score:
    """A score from a distribution: its mean and its central interval follow.

    `options` are K rising values; `probabilities` K numbers summing to 1.
    """
    return Score(
        target=target,
        annotator=annotator,
        options=tuple(float(option) for option in options),
        probabilities=tuple(float(p) for p in probabilities),
        value=float(sum(o * p for o, p in zip(options, probabilities, strict=True))),
        interval=central_interval(options, probabilities),
        signature=signature,
    )


def central_interval(options: Numbers, probabilities: Numbers, mass: float = INTERVAL_MASS) -> tuple[float, float]:
    """The options at the (1 - mass)/2 and (1 + mass)/2 quantiles of the distribution."""
    return quantile(options, probabilities, (1 - mass) / 2), quantile(options, probabilities, (1 + mass) / 2)


def quantile(options: Numbers, probabilities: Numbers, share: float) -> float:
    """The smallest option whose cumulative probability reaches `share`."""
    total = 0.0
    for option, probability in zip(options, probabilities, strict=True):
        total += probability
        if total >= share - 1e-12:
            return float(option)
    return float(options[-1])


def _text(option: float) -> str:
    return str(int(option)) if option.is_integer() else str(option)
