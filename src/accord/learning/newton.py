"""The minimum of a loss by Newton's steps, each halved until it keeps a part of what it promises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, Self, TypeVar

_MOST_STEPS = 100  # 4 to 10 are usual
_WORTH, _PART = 1e-9, 1e-4
_LEAST_SHARE = 1e-9


class Point(Protocol):
    """Where a search is."""

    @property
    def loss(self) -> float:
        """What shall be least; infinite where it is not defined."""

    def step(self) -> tuple[Callable[[float], Self], float]:
        """Where a share of the step leads, and how much less the loss were after all of it if it went on as it begins.

        What is promised is never negative.
        """


P = TypeVar("P", bound=Point)


def minimum(here: P) -> P:
    """The best point that is reached from here, where no step promises anything any more."""
    for _ in range(_MOST_STEPS):
        moved, promised = here.step()
        if promised < _WORTH * (1.0 + abs(here.loss)):
            break
        share = 1.0
        while (there := moved(share)).loss > here.loss - _PART * share * promised:
            if (share := share / 2) < _LEAST_SHARE:
                return here
        here = there
    return here
