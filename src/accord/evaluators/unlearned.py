"""What evaluators share that repeat somebody else's answer: nothing is learned, nothing is saved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from accord.evaluators.base import Arrays, Evaluator
from accord.evaluators.ratings import options_of
from accord.rubric import Question


class Unlearned(Evaluator):
    """A baseline without anything to learn: it imitates no one, and is always ready."""

    def __init__(self, question: Question) -> None:
        super().__init__(question)
        self.options_ = options_of(question)

    def settings(self) -> dict[str, Any]:
        """None."""
        return {}

    @property
    def is_fitted(self) -> bool:
        """Always: there is nothing to learn."""
        return True

    @property
    def annotators(self) -> list[str]:
        """Nobody."""
        return []

    def describe(self) -> dict[str, Any]:
        """The method's name."""
        return {"method": self.method}

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Nothing."""
        return {}, {}

    def restore(self, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """Nothing to restore."""
        return self
