"""What a distribution over a scale says in one number (LLM-RUBRIC, eq. 2): Bayes decisions, spread, quantiles.

Distributions are K rising options with K probabilities that sum to 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from accord.errors import UnknownName

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = Sequence[float] | NDArray[np.float64]


def mean(options: Numbers, probabilities: Numbers) -> float:
    """Σ p·y: the answer with the least expected squared error (eq. 2)."""
    return float(sum(o * p for o, p in zip(options, probabilities, strict=True)))


def variance(options: Numbers, probabilities: Numbers) -> float:
    """Σ p·(y - mean)², in squared units of the scale."""
    middle = mean(options, probabilities)
    return float(sum(p * (o - middle) ** 2 for o, p in zip(options, probabilities, strict=True)))


def entropy(probabilities: Numbers) -> float:
    """-Σ p·log p, in nats: 0 where one answer is certain, log K where all are equally likely."""
    return float(-sum(p * math.log(p) for p in probabilities if p > 0))


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
