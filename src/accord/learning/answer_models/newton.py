"""Minimization by Newton's method with step halving."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, Self, TypeVar

_MOST_STEPS = 100  # 4 to 10 are usual
_WORTH, _PART = 1e-9, 1e-4
_LEAST_SHARE = 1e-9


class SearchPoint(Protocol):
    """Point in a search."""

    @property
    def loss(self) -> float:
        """Value to minimize; infinite outside its domain."""

    def step(self) -> tuple[Callable[[float], Self], float]:
        """Return a function from a share of the step to its end point, and the decrease that the full step predicts.

        The predicted decrease is never negative.
        """


P = TypeVar("P", bound=SearchPoint)


def minimize(start: P) -> P:
    """Return the best point reached from `start`, once no step predicts a decrease."""
    point = start
    for _ in range(_MOST_STEPS):
        move, predicted = point.step()
        if predicted < _WORTH * (1.0 + abs(point.loss)):
            break
        share = 1.0
        while (candidate := move(share)).loss > point.loss - _PART * share * predicted:
            if (share := share / 2) < _LEAST_SHARE:
                return point
        point = candidate
    return point
