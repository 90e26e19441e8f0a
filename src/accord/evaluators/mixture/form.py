"""What a mixture is made of: something that adds up what each metric says, and how it is learned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from accord.evaluators.base import Arrays

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


class Form(Protocol):
    """A learned sum over metrics. X is (n, M), NaN where a value is missing; ŷ = level + Σ contributions."""

    @property
    def level(self) -> float:
        """The mean prediction in training, in units of the scale."""

    def contributions(self, X: Floats) -> Floats:
        """(n, M) what each metric adds to each prediction, in units of the scale."""

    def among(self, X: Floats) -> Self:
        """The same with ranks told among other texts."""

    def curves(self) -> Floats:
        """(M, BINS + 1) what each bin of each metric adds, the last where it is missing."""

    def settings(self) -> dict[str, Any]:
        """What was chosen inside the training side."""

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """All that `restored` needs, as JSON and as arrays."""

    @classmethod
    def restored(cls, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """The inverse of `state`."""


def predicted(form: Form, X: Floats) -> Floats:
    """(n,) predictions."""
    return np.asarray(form.level + form.contributions(X).sum(axis=1))
