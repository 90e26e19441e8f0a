"""Scores: a distribution over a scale, its mean, spread, quantiles and Bayes decisions (LLM-RUBRIC, eq. 2).

Distributions are K rising options with K probabilities that sum to 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from accord.edges import BadInput, UnknownName
from accord.values.conversation import Target

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = Sequence[float] | NDArray[np.float64]
    pass


def mean(options: Numbers, probabilities: Numbers) -> float:
    """Σ p·y: the answer with the least expected squared error (eq. 2)."""
    return float(sum([o * p for o, p in zip(options, probabilities, strict=True)]))


def variance(options: Numbers, probabilities: Numbers) -> float:
    """Σ p·(y - mean)², in squared units of the scale."""
    middle = mean(options, probabilities)
    return float(sum([p * (o - middle) ** 2 for o, p in zip(options, probabilities, strict=True)]))


def entropy(probabilities: Numbers) -> float:
    """-Σ p·log p, in nats: 0 where one answer is certain, log K where all are equally likely."""
    return float(-sum([p * math.log(p) for p in probabilities if p > 0]))


def quantile(options: Numbers, probabilities: Numbers, share: float) -> float:
    """The smallest option whose cumulative probability reaches `share`."""
    total = 0.0
    for option, probability in zip(options, probabilities, strict=True):
        total += probability
        if total >= share - 1e-12:
            return float(option)
    return float(options[-1])


def central_interval(options: Numbers, probabilities: Numbers, mass: float) -> tuple[float, float]:
    """The options at the (1 - mass)/2 and (1 + mass)/2 quantiles of the distribution."""
    return quantile(options, probabilities, (1 - mass) / 2), quantile(options, probabilities, (1 + mass) / 2)


def _likeliest(options: Numbers, probabilities: Numbers) -> float:
    return float(max(zip(options, probabilities, strict=True), key=lambda pair: pair[1])[0])


def _median(options: Numbers, probabilities: Numbers) -> float:
    return quantile(options, probabilities, 0.5)


LOSSES: Mapping[str, Callable[[Numbers, Numbers], float]] = {
    "squared": mean,  # (ŷ - y)²
    "absolute": _median,  # |ŷ - y|
    "zero-one": _likeliest,  # [ŷ ≠ y]
}
"""The answer with the least expected loss, by the loss's name."""


def decision(loss: str) -> Callable[[Numbers, Numbers], float]:
    """What to answer under a loss.

    Raises:
        UnknownName: No loss is called so.
    """
    if loss not in LOSSES:
        raise UnknownName("loss", loss, LOSSES)
    return LOSSES[loss]


def decode(options: Numbers, probabilities: Numbers, loss: str = "squared") -> float:
    """The answer with the least expected loss under the distribution: the Bayes decision.

    Raises:
        UnknownName: No loss is called so.
    """
    return decision(loss)(options, probabilities)


def least_cost(probabilities: Numbers, costs: Sequence[Numbers]) -> int:
    """The index of the decision with the least expected cost.

    Args:
        probabilities: (K,) of the answers.
        costs: (D, K) what each of D decisions costs where an answer is the true one: any table, need not be square.
    """
    expected = [sum(c * p for c, p in zip(row, probabilities, strict=True)) for row in costs]
    return expected.index(min(expected))


INTERVAL_MASS = 0.8
"""Share of the distribution that a score's interval holds."""


Notes = Mapping[str, Any]
"""Values as JSON, by name."""

POPULATION = "population"
"""Who a score speaks for when it names no annotator: a person drawn from those of whom the annotators are some."""


@dataclass(frozen=True, slots=True)
class Signature:
    """How a number was made, as ordered key-value pairs: `calibration|answer_model:mixed|questions:9|...`."""

    name: str
    parts: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, name: str, /, **parts: Any) -> Signature:
        """A signature from keyword arguments, in their order; `None` values are left out."""
        return cls(name, tuple((key, str(value)) for key, value in parts.items() if value is not None))

    def with_part(self, key: str, value: Any) -> Signature:
        """This signature with one more pair at its end."""
        return Signature(self.name, (*self.parts, (key, str(value))))

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
        probabilities: One probability per option, summing to 1; shape (K,).
        value: The distribution's mean, the answer with the least expected squared error (LLM-RUBRIC, eq. 2);
            after `decoded`, the answer with the least of another loss.
        interval: The central `INTERVAL_MASS` of the distribution, as two values of the scale.
        signature: How the score was made.
        band: A conformal interval around the mean, where the evaluator has measured one: ratings fall into it as
            often as it says, whether or not the distribution is right.
        warning: Why the score deserves less trust than others; `None` where nothing speaks against it.
        attributions: Pieces of evidence with what each added to the score, in units of the scale, the weightiest first;
            empty where an evaluator does not say.
        notes: What sources attach, by name: issues with their quotes, NetSAT and its verdict, demonstrations, ...
        rated: True if people had rated the target when the evaluator was fitted.
        in_training: True if the evaluator learned from the target's conversation: such a score is better than others.

    Raises:
        BadInput: One of its numbers is NaN or infinite.
    """

    target: Target
    annotator: str
    options: tuple[float, ...]
    probabilities: tuple[float, ...]
    value: float
    interval: tuple[float, float]
    signature: Signature
    band: tuple[float, float] | None = None
    warning: str | None = None
    attributions: tuple[tuple[str, float], ...] = ()
    notes: Notes = field(default_factory=dict, hash=False)
    rated: bool = False
    in_training: bool = False

    def __post_init__(self) -> None:
        numbers = (self.value, *self.interval, *(self.band or ()), *self.options, *self.probabilities)
        if not math.isfinite(sum(numbers)):
            raise BadInput(f"what was learned gives {self.target} no finite score; fit the evaluator again")

    @property
    def entropy(self) -> float:
        """How undecided the distribution is, in nats."""
        return entropy(self.probabilities)

    @property
    def variance(self) -> float:
        """How far answers are expected to spread, in squared units of the scale."""
        return variance(self.options, self.probabilities)

    @property
    def distribution(self) -> dict[str, float]:
        """The probability of each option, by its text."""
        return {_text(o): p for o, p in zip(self.options, self.probabilities, strict=True)}

    def decoded(self, loss: str) -> Score:
        """This score with the answer that has the least expected loss as its value: the Bayes decision.

        Args:
            loss: `squared` (the mean), `absolute` (a median) or `zero-one` (the likeliest option).

        Raises:
            UnknownName: No loss is called so.
        """
        value = decode(self.options, self.probabilities, loss)
        return replace(self, value=value, signature=self.signature.with_part("loss", loss))

    def to_json(self) -> dict[str, Any]:
        """The score as one flat JSON row."""
        (low, high), (band_low, band_high) = self.interval, self.band or (None, None)
        return {
            **_row(self),
            "value": self.value,
            "low": low,
            "high": high,
            "band_low": band_low,
            "band_high": band_high,
            "variance": self.variance,
            "entropy": self.entropy,
            "distribution": self.distribution,
            "warning": self.warning,
            "attributions": dict(self.attributions) or None,
            "notes": dict(self.notes) or None,
        }


@dataclass(frozen=True, slots=True)
class Unscored:
    """A target without a score, and why: a value in a batch, never NaN, 0 or -1."""

    target: Target
    annotator: str
    reason: str
    signature: Signature
    notes: Notes = field(default_factory=dict, hash=False)
    rated: bool = False
    in_training: bool = False

    def to_json(self) -> dict[str, Any]:
        """The same flat row as a score's, with the reason and without a value."""
        return {**_row(self), "notes": dict(self.notes) or None, "unscored": self.reason}


ROW = (
    "conversation", "turn", "annotator", "rated", "in_training", "value", "low", "high", "band_low", "band_high",
    "variance", "entropy", "distribution", "warning", "attributions", "notes", "unscored",
    "signature",
)  # fmt: skip
"""The names in a score's flat row, in their order."""


def _row(score: Score | Unscored) -> dict[str, str | int | bool | None]:
    """A flat row with nothing said but what it is about, for whom, and how it was made."""
    about: dict[str, str | int | bool | None] = {
        "conversation": score.target.conversation,
        "turn": score.target.turn,
        "annotator": score.annotator,
        "rated": score.rated,
        "in_training": score.in_training,
        "signature": str(score.signature),
    }
    return {name: about.get(name) for name in ROW}


def score_from(
    target: Target,
    annotator: str,
    options: Numbers,
    probabilities: Numbers,
    signature: Signature,
    band: tuple[float, float] | None = None,
    warning: str | None = None,
    attributions: tuple[tuple[str, float], ...] = (),
) -> Score:
    """A score from a distribution: its mean and its central interval follow.

    `options` are K rising values; `probabilities` K numbers summing to 1.
    """
    values, shares = tuple(map(float, options)), tuple(map(float, probabilities))
    return Score(
        target=target,
        annotator=annotator,
        options=values,
        probabilities=shares,
        value=mean(values, shares),
        interval=central_interval(values, shares, INTERVAL_MASS),
        signature=signature,
        band=band,
        warning=warning,
        attributions=attributions,
    )


def _text(option: float) -> str:
    return str(int(option)) if option.is_integer() else str(option)
