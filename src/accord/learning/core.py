"""What a core of the calibration evaluator is: how answers follow from evidence and from who answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from accord.evidence import Arrays, EvidenceTable, Ratings
from accord.values import BadInput, Labels

Floats = NDArray[np.float64]


class Core(ABC):
    """Learns from rated evidence; gives one distribution a row, each for its annotator."""

    name: ClassVar[str]

    @abstractmethod
    def shown(self, evidence: EvidenceTable) -> EvidenceTable:
        """The evidence as this core reads it: answer blocks as they are, or as expected answers."""

    @abstractmethod
    def learn(self, features: EvidenceTable, rated: Ratings, labels: Labels) -> Floats:
        """Learn from n ratings of the main question, and from what else those people said.

        Returns:
            (n, K) each rating's distribution as predicted without its text.
        """

    @abstractmethod
    def distributions(self, features: EvidenceTable, annotators: Sequence[str | None]) -> Floats:
        """(n, K) each row's distribution for its annotator; an unknown one is a person nobody has met."""

    @property
    @abstractmethod
    def annotators(self) -> list[str]:
        """The people it has learned to imitate, sorted."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """What was learned, as JSON that a report can show."""

    @abstractmethod
    def state(self) -> tuple[dict[str, Any], Arrays]:
        """What was learned, as JSON and arrays."""

    @abstractmethod
    def restore(self, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """The inverse of `state`."""

    @abstractmethod
    def in_new_domain(self, domain_correlation: float) -> Core:
        """This core for conversations from another place, where habits correlate by `domain_correlation`."""

    def adapt(self, features: EvidenceTable, rated: Ratings, domain_correlation: float) -> Core:
        """This core for another place, after some labels from there.

        Raises:
            BadInput: It cannot; the error names the core that can.
        """
        raise BadInput("only the mixed core learns a new place from a few labels; fit with core: mixed")


def matrix(features: EvidenceTable) -> Floats:
    """(n, d) values, NaN where missing: the numeric cores' own convention, never seen outside them."""
    return np.where(features.present, features.values, np.nan)
