"""What a core of the calibration evaluator is: how answers follow from evidence and from who answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput
from accord.evidence import Arrays, Column, EvidenceTable, Ratings, ratings
from accord.statistics import INNER_FOLDS, fold_of
from accord.values import Labels, Question, Target

Floats = NDArray[np.float64]


class Core(ABC):
    """Learns from rated evidence; gives one distribution a row, each for its annotator."""

    name: str

    @abstractmethod
    def shown(self, evidence: EvidenceTable) -> EvidenceTable:
        """The evidence as this core reads it: answer blocks as they are, or as expected answers."""

    @abstractmethod
    def learn(self, features: EvidenceTable, rated: Ratings, labels: Labels) -> Floats:
        """Learn from n ratings of the main question, and from what else those people said.

        Returns:
            (n, K) each rating's distribution as predicted without its group.
        """

    def fit(self, features: EvidenceTable, rated: Ratings, labels: Labels) -> None:
        """As `learn`, where nobody asks what is predicted of the ratings themselves."""
        self.learn(features, rated, labels)

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


def held_out_by(core: Callable[[], Core], features: EvidenceTable, rated: Ratings, labels: Labels) -> Floats:
    """(n, K) each rating's distribution by a core, made by calling `core`, that learned from the other inner folds."""
    shares = np.zeros((len(rated), len(rated.options)))
    fold = inner_folds(rated)
    for each in np.unique(fold):
        made, rows = core(), np.flatnonzero(fold == each)
        made.fit(features, rated.take(np.flatnonzero(fold != each)), labels)
        shares[rows] = made.distributions(features.take(rated.row[rows]), list(rated.annotator[rows]))
    return shares


def inner_folds(rated: Ratings, seed: int = 0) -> NDArray[np.intp]:
    """(n,) the inner fold of each rating: whole groups, or whole texts where all ratings are of one group."""
    names = [str(name) for name in (rated.group if len(set(rated.group)) > 1 else rated.text)]
    place = fold_of(names, INNER_FOLDS, seed)
    return np.array([place[name] for name in names], dtype=np.intp)


def known_ratings(evidence: EvidenceTable, labels: Labels, question: Question) -> Ratings:
    """The ratings of `question` whose target has some evidence: a row of nothing but absences teaches nothing.

    Raises:
        BadInput: A label is outside the question's scale.
    """
    rated = ratings(evidence, labels, question)
    return rated.take(np.flatnonzero(evidence.present[rated.row].any(axis=1)))


def sources_of(columns: Iterable[Column]) -> list[str]:
    """The source of each column; where none is named, the answers of a judge are one, and all else another."""
    return [column.source or ("answers" if column.question is not None else "metrics") for column in columns]


def why_nothing(reasons: Mapping[Target, Iterable[str]], target: Target) -> str:
    """Why a target has no evidence at all, from `EvidenceTable.reasons`."""
    return "; ".join(["no evidence", *sorted(reasons.get(target, ()))])


def matrix(features: EvidenceTable) -> Floats:
    """(n, d) values, NaN where missing: the numeric cores' own convention, never seen outside them."""
    return np.where(features.present, features.values, np.nan)
