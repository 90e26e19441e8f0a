"""Scores: a distribution over a scale, its mean, spread and quantiles (LLM-RUBRIC, eq. 2).

A distribution has K rising options and K probabilities that sum to 1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypedDict

from accord.edges import BadInput
from accord.values.conversation import Target

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = Sequence[float] | NDArray[np.float64]


def mean(options: Numbers, probabilities: Numbers) -> float:
    """Σ p·y: the answer with the least expected squared error (eq. 2)."""
    return float(sum([o * p for o, p in zip(options, probabilities, strict=True)]))


def variance(options: Numbers, probabilities: Numbers) -> float:
    """Σ p·(y - mean)², in squared units of the scale."""
    middle = mean(options, probabilities)
    return float(sum([p * (o - middle) ** 2 for o, p in zip(options, probabilities, strict=True)]))


def entropy(probabilities: Numbers) -> float:
    """-Σ p·log p, in nats: 0 for a certain answer, log K for a uniform distribution."""
    return float(-sum([p * math.log(p) for p in probabilities if p > 0]))


def quantile(options: Numbers, probabilities: Numbers, share: float) -> float:
    """Return the smallest option whose cumulative probability reaches `share`."""
    total = 0.0
    for option, probability in zip(options, probabilities, strict=True):
        total += probability
        if total >= share - 1e-12:
            return float(option)
    return float(options[-1])


def central_interval(options: Numbers, probabilities: Numbers, mass: float) -> tuple[float, float]:
    """Return the (1 - mass)/2 and (1 + mass)/2 quantiles of the distribution."""
    return quantile(options, probabilities, (1 - mass) / 2), quantile(options, probabilities, (1 + mass) / 2)


INTERVAL_MASS = 0.8
"""Probability mass inside a score's interval."""


Notes = Mapping[str, Any]
"""JSON values by name."""

POPULATION = "population"
"""Annotator of a score that predicts a new annotator: a person drawn from the population of the known annotators."""


@dataclass(frozen=True, slots=True)
class Signature:
    """Description of how a number was computed: `calibration|answer_model:mixed|questions:9|...`."""

    name: str
    parts: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, name: str, /, **parts: Any) -> Signature:
        """Make a signature from keyword arguments in their order; `None` values are left out."""
        return cls(name, tuple((key, str(value)) for key, value in parts.items() if value is not None))

    def with_part(self, key: str, value: Any) -> Signature:
        """Return this signature with one more pair at its end."""
        return Signature(self.name, (*self.parts, (key, str(value))))

    def __str__(self) -> str:
        return "|".join([self.name, *(f"{key}:{value}" for key, value in self.parts)])

    @staticmethod
    def coverage_of(text: str) -> float | None:
        """Return the share of ratings that the bands of scores hold, 0 to 1, from a signature as text.

        >>> Signature.coverage_of("calibration|features:3|coverage:0.9"), Signature.coverage_of("judge")
        (0.9, None)
        """
        found = re.search(r"\|coverage:(0?\.\d+)(?=\||$)", text)
        return None if found is None else float(found[1])

    @staticmethod
    def without_version(text: str) -> str:
        """Return a signature as text without the version of Accord, which an upgrade changes and a fit does not.

        >>> Signature.without_version("calibration|features:3|version:0.2.0|for:ann")
        'calibration|features:3|for:ann'
        """
        return re.sub(r"\|version:\d[^|]*", "", text)


class ScoreRow(TypedDict):
    """A score, or the reason why it is missing, as a flat row of JSON values.

    `distribution`, `attributions` and `notes` are objects. Without a score, `unscored` holds the reason, and the values
    are null.
    """

    conversation: str
    turn: int | None
    version: str | None
    annotator: str
    rated: bool
    in_training: bool
    value: float | None
    low: float | None
    high: float | None
    band_low: float | None
    band_high: float | None
    variance: float | None
    entropy: float | None
    distribution: dict[str, float] | None
    warning: str | None
    attributions: dict[str, float] | None
    notes: dict[str, Any] | None
    unscored: str | None
    signature: str


@dataclass(frozen=True, slots=True)
class Score:
    """Predicted answer of an annotator, or of a panel, about a target.

    Attributes:
        target: The conversation or turn.
        annotator: An annotator's id, the panel's rule (`mean`, `max`, `min`), or `population` for a new annotator.
        options: (K,) rising values of the scale.
        probabilities: (K,) probability of each option, summing to 1.
        value: Mean of the distribution, the answer with the least expected squared error (LLM-RUBRIC, eq. 2); with
            another loss or with costs, the answer with the least expected loss or cost; with `answer: latent`, the
            latent answer, which may lie beyond the options.
        interval: Central `INTERVAL_MASS` of the distribution, as two values of the scale.
        signature: Description of how the score was computed.
        band: Conformal interval around the mean, if the evaluator calibrated one: it contains the promised share of
            ratings even if the distribution is wrong.
        warning: Reason to trust the score less; `None` without one.
        attributions: Pieces of evidence with their contributions to the score, in units of the scale, the largest
            first; empty if the evaluator gives none.
        notes: Values from sources by name: issues with their quotes, NetSAT and its verdict, demonstrations, ...
        rated: True if people had rated the target when the evaluator was fitted.
        in_training: True if the evaluator learned from the target's conversation: such a score is better than others.
        version: Version of the assistant (`Conversation.version`), or `None` if unknown.

    Raises:
        BadInput: A number is NaN or infinite.

    >>> score = score_from(Target("c1"), POPULATION, [1, 2, 3], [0.25, 0.25, 0.5], Signature("example"))
    >>> score.value, score.interval, score.distribution
    (2.25, (1.0, 3.0), {'1': 0.25, '2': 0.25, '3': 0.5})
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
    version: str | None = None

    def __post_init__(self) -> None:
        numbers = (self.value, *self.interval, *(self.band or ()), *self.options, *self.probabilities)
        if not math.isfinite(sum(numbers)):
            raise BadInput(f"the evaluator gives {self.target} no finite score; fit it again")

    @property
    def entropy(self) -> float:
        """Entropy of the distribution, in nats."""
        return entropy(self.probabilities)

    @property
    def variance(self) -> float:
        """Variance of the distribution, in squared units of the scale."""
        return variance(self.options, self.probabilities)

    @property
    def distribution(self) -> dict[str, float]:
        """Probability of each option, by the option's text."""
        return {_text(o): p for o, p in zip(self.options, self.probabilities, strict=True)}

    def to_json(self) -> ScoreRow:
        """Return the score as a flat row."""
        (low, high), (band_low, band_high) = self.interval, self.band or (None, None)
        return {
            "conversation": self.target.conversation, "turn": self.target.turn, "version": self.version,
            "annotator": self.annotator, "rated": self.rated, "in_training": self.in_training,
            "value": self.value, "low": low, "high": high, "band_low": band_low, "band_high": band_high,
            "variance": self.variance, "entropy": self.entropy, "distribution": self.distribution,
            "warning": self.warning, "attributions": dict(self.attributions) or None, "notes": dict(self.notes) or None,
            "unscored": None, "signature": _signature_text(self.signature),
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Unscored:
    """A target without a score, and the reason: a value in a batch, never NaN, 0 or -1.

    Attributes:
        target: The conversation or turn.
        annotator: Annotator whose answer was to be predicted, as in `Score`.
        reason: Reason for the missing score, such as `no evidence`.
        signature: Description of how the score would have been computed.
        notes: Values from sources by name.
        rated: True if people had rated the target when the evaluator was fitted.
        in_training: True if the evaluator learned from the target's conversation.
        version: Version of the assistant, as in `Score`.

    >>> row = Unscored(Target("c1"), POPULATION, "no evidence", Signature("example")).to_json()
    >>> row["value"] is None, row["unscored"]
    (True, 'no evidence')
    """

    target: Target
    annotator: str
    reason: str
    signature: Signature
    notes: Notes = field(default_factory=dict, hash=False)
    rated: bool = False
    in_training: bool = False
    version: str | None = None

    def to_json(self) -> ScoreRow:
        """Return a score's flat row with the reason and without a value."""
        row: Any = {
            **dict.fromkeys(ScoreRow.__annotations__),
            "conversation": self.target.conversation, "turn": self.target.turn,
            "version": self.version, "annotator": self.annotator, "rated": self.rated, "in_training": self.in_training,
            "notes": dict(self.notes) or None, "unscored": self.reason, "signature": _signature_text(self.signature),
        }  # fmt: skip
        return row  # type: ignore[no-any-return]


@lru_cache(maxsize=64)
def _signature_text(signature: Signature) -> str:
    """Return the text of a signature; thousands of scores share one."""
    return str(signature)


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
    """Make a score from a distribution, with its mean and its central interval.

    Args:
        target: The conversation or turn.
        annotator: Annotator whose answer is predicted, as in `Score`.
        options: (K,) rising values of the scale.
        probabilities: (K,) probability of each option, summing to 1.
        signature: Description of how the score was computed.
        band: Conformal interval around the mean.
        warning: Reason to trust the score less.
        attributions: Pieces of evidence with their contributions, in units of the scale, the largest first.

    Raises:
        BadInput: A number is NaN or infinite.

    >>> score_from(Target("c1"), "ann", [1, 2], [0.5, 0.5], Signature("example")).value
    1.5
    """
    values, shares = tuple(map(float, options)), tuple(map(float, probabilities))
    interval = central_interval(values, shares, INTERVAL_MASS)
    value = mean(values, shares)
    return Score(target, annotator, values, shares, value, interval, signature, band, warning, attributions)


def _text(option: float) -> str:
    return str(int(option)) if option.is_integer() else str(option)
