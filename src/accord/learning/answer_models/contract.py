"""Contract of an answer model: distributions over a question's options from evidence and annotator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput
from accord.evidence import Arrays, Column, EvidenceTable, Ratings, ratings
from accord.learning.answer_models.ordinal import OrdinalLink
from accord.statistics import INNER_FOLDS, fold_of
from accord.values import Labels, Question, Target

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


class AnswerModel(ABC):
    """Learns the distribution of answers from rated evidence.

    Attributes:
        uses_other_questions: True if expected answers to other questions help it (`AuxiliaryQuestions`).
        differs_by_annotator: True if annotators get different predictions.
    """

    name: str
    uses_other_questions: ClassVar[bool] = True
    differs_by_annotator: ClassVar[bool] = True

    def prepare(self, evidence: EvidenceTable) -> EvidenceTable:
        """Return the evidence in the form that this model reads: each answer block as its expected answer."""
        return evidence.expected()

    @abstractmethod
    def fit_predict(self, features: EvidenceTable, rated: Ratings, labels: Labels) -> Floats:
        """Learn from n ratings of the main question, and from the same annotators' answers to other questions.

        Returns:
            (n, K) distribution of each rating, predicted without its group.
        """

    def fit(self, features: EvidenceTable, rated: Ratings, labels: Labels) -> None:
        """Learn without predicting the training ratings."""
        self.fit_predict(features, rated, labels)

    def cross_predict(
        self, make: Callable[[], AnswerModel], features: EvidenceTable, rated: Ratings, labels: Labels
    ) -> tuple[Floats, Floats]:
        """Return held-out distributions from models that `make` returns; this model itself learns nothing.

        Returns:
            (n, K) distributions for each rating's annotator, and (n, K) for a new annotator.
        """
        known, new = np.zeros((2, len(rated), len(rated.options)))
        fold = inner_folds(rated)
        for held_out in np.unique(fold):
            model, rows = make(), np.flatnonzero(fold == held_out)
            model.fit(features, rated.take(np.flatnonzero(fold != held_out)), labels)
            test = features.take(rated.row[rows])
            known[rows] = model.distributions(test, list(rated.annotator[rows]))
            new[rows] = model.distributions(test, [None] * len(rows)) if model.differs_by_annotator else known[rows]
        return known, new

    def is_readable(self, features: EvidenceTable) -> NDArray[np.bool_]:
        """Return (n,) True for rows with the evidence that the model needs: any, unless a model needs more."""
        return np.asarray(features.present.any(axis=1))

    @abstractmethod
    def distributions(self, features: EvidenceTable, annotators: Sequence[str | None]) -> Floats:
        """Return (n, K) the distribution of each row for its annotator; an unknown one counts as a new annotator."""

    def notes(self, distributions: Floats) -> Sequence[Mapping[str, Any]]:
        """Return the notes of n scores, from their distributions (n, K); empty without any."""
        return ()

    def contributions(self, features: EvidenceTable) -> Floats:
        """Return (n, d) the contribution of each column to each prediction; (n, 0) if they cannot be separated."""
        return np.zeros((len(features), 0))

    def explained(self, features: EvidenceTable, annotators: Sequence[str | None]) -> tuple[Floats, Floats]:
        """Return `distributions` and `contributions` together."""
        return self.distributions(features, annotators), self.contributions(features)

    @property
    def has_latent(self) -> bool:
        """True if the answers are bins of a latent real value, which `latent` predicts."""
        return False

    def latent(self, features: EvidenceTable, annotators: Sequence[str | None]) -> Floats:
        """Return (n,) the expected latent answer of each row's annotator, in units of the scale (footnote 28)."""
        raise NotImplementedError

    @property
    def caution(self) -> str | None:
        """Warning that belongs on every score, or `None`."""
        return None

    @property
    @abstractmethod
    def annotators(self) -> list[str]:
        """Sorted names of the annotators that the model learned from."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return a JSON description of the learned state for reports."""

    @abstractmethod
    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the learned state as JSON and arrays."""

    @abstractmethod
    def restore(self, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """Restore the learned state from `state`."""

    def in_new_domain(self, domain_correlation: float) -> AnswerModel:
        """Return the model for another domain, where annotator habits correlate by `domain_correlation`.

        A model without annotator habits returns itself.
        """
        return self

    def adapt(self, features: EvidenceTable, rated: Ratings, domain_correlation: float) -> AnswerModel:
        """Return the model updated by some labels from another domain.

        Raises:
            BadInput: The model cannot adapt; the error names a model that can.
        """
        raise BadInput(f"the {self.name} model cannot adapt to another domain; fit with answer_model: mixed")


class TextMeanModel(AnswerModel):
    """Predicts each text's mean rating, followed by an ordered probit that is the same for all annotators.

    A subclass implements `fit_texts` and `predict_texts`.
    """

    differs_by_annotator = False

    @abstractmethod
    def fit_texts(
        self, features: EvidenceTable, texts: Indices, mean: Floats, weight: Floats, fold: Indices, group: Indices
    ) -> Floats:
        """Learn from T rated texts.

        Args:
            features: Evidence.
            texts: (T,) rows of the rated texts.
            mean: (T,) mean rating of each text.
            weight: (T,) number of ratings of each text.
            fold: (T,) inner fold of each text.
            group: (T,) group of each text.

        Returns:
            (T,) predicted mean ratings, without each text's fold.
        """

    @abstractmethod
    def predict_texts(self, features: EvidenceTable) -> Floats:
        """Return (n,) predicted mean ratings, in units of the scale."""

    def fit_predict(self, features: EvidenceTable, rated: Ratings, labels: Labels) -> Floats:
        """Learn from the mean rating of each text; labels of other questions are ignored."""
        linked, fold = self._fit(features, rated)
        return OrdinalLink.held_out(*linked, fold=fold)

    def fit(self, features: EvidenceTable, rated: Ratings, labels: Labels) -> None:
        """Learn without predicting the training ratings."""
        self._fit(features, rated)

    def _fit(
        self, features: EvidenceTable, rated: Ratings
    ) -> tuple[tuple[Floats, Indices, Indices, int, int, float], Indices]:
        """Learn, and return the arguments of the link's fit and (n,) the fold of each rating."""
        texts, first, place = np.unique(rated.row, return_index=True, return_inverse=True)
        weight = np.bincount(place).astype(float)
        mean = np.bincount(place, weights=rated.value) / weight
        fold, group = inner_folds(rated), np.unique(rated.group.astype(str), return_inverse=True)[1]
        self.people_ = sorted({str(name) for name in rated.annotator})
        steps = len(rated.options) - 1
        self.unit_ = np.array([rated.options[0], np.ptp(rated.options) / steps, steps])
        held_out = self.fit_texts(features, texts, mean, weight, fold[first], group[first])
        everyone = np.full(len(rated), -1, dtype=np.intp)
        linked = self._in_steps(held_out[place]), rated.answer, everyone, 0, len(rated.options), 0.0
        self.link_ = OrdinalLink.fit(*linked)
        return linked, fold

    def _in_steps(self, mean: Floats) -> Floats:
        """Return ratings in steps of the scale, 0 to K-1."""
        return np.asarray((mean - self.unit_[0]) / self.unit_[1])

    def distributions(self, features: EvidenceTable, annotators: Sequence[str | None]) -> Floats:
        """Return (n, K) the distribution of each row, the same for every annotator."""
        return self.linked(self.predict_texts(features))

    def linked(self, mean: Floats) -> Floats:
        """Return (n, K) distributions around predicted mean ratings (n,)."""
        return self.link_.distribution(self._in_steps(mean), np.full(len(mean), -1, dtype=np.intp))

    @property
    def annotators(self) -> list[str]:
        """Sorted names of the annotators that the model learned from; all get the same predictions."""
        return self.people_


def inner_folds(rated: Ratings, seed: int = 0) -> Indices:
    """Return (n,) the inner fold of each rating; groups stay together, or texts if all ratings are of one group."""
    names = [str(name) for name in (rated.group if len(set(rated.group)) > 1 else rated.text)]
    place = fold_of(names, INNER_FOLDS, seed)
    return np.array([place[name] for name in names], dtype=np.intp)


def fold_masks(fold: Indices) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    """Yield the training and the test rows of each fold as masks; a single fold is trained and tested on."""
    folds = np.unique(fold)
    for label in folds:
        test = fold == label
        yield (~test if len(folds) > 1 else test), test


def judge_columns(features: EvidenceTable) -> NDArray[np.bool_]:
    """Return (d,) True for the columns that are a judge's answers."""
    return np.array([column.question is not None for column in features.columns], dtype=bool)


def known_ratings(
    evidence: EvidenceTable, labels: Labels, question: Question, known: NDArray[np.bool_] | None = None
) -> Ratings:
    """Return the ratings of `question` whose target has evidence: any, or where `known` (n,) is True.

    Raises:
        BadInput: A label is outside the question's scale.
    """
    rated = ratings(evidence, labels, question)
    is_known = evidence.present[rated.row].any(axis=1) if known is None else known[rated.row]
    return rated.take(np.flatnonzero(is_known))


def sources_of(columns: Iterable[Column]) -> list[str]:
    """Return the source of each column; without one, `answers` for a judge's answers and `metrics` for the rest."""
    return [column.source or ("answers" if column.question is not None else "metrics") for column in columns]


def missing_reason(reasons: Mapping[Target, Iterable[str]], target: Target) -> str:
    """Return the reason why a target has no evidence, from `EvidenceTable.reasons`."""
    return "; ".join(["no evidence", *sorted(reasons.get(target, ()))])


def matrix(features: EvidenceTable) -> Floats:
    """Return (n, d) values with NaN for missing ones."""
    return np.where(features.present, features.values, np.nan)


def part_arrays(name: str, arrays: Arrays) -> Arrays:
    """Return the arrays of one part, without the part's name as prefix."""
    return {key.removeprefix(f"{name}."): array for key, array in arrays.items() if key.startswith(f"{name}.")}


def card_names(card: Mapping[str, Any], key: str) -> list[str]:
    """Return a list of names of a saved card.

    Raises:
        ValueError: It is another value.
    """
    names = card[key]
    if type(names) is not list or any(type(name) is not str for name in names):
        raise ValueError(f"{key} is not a list of names")
    return list(names)


def card_number(card: Mapping[str, Any], key: str) -> float:
    """Return a finite number of a saved card.

    Raises:
        ValueError: It is another value.
    """
    number = card[key]
    if type(number) not in (int, float) or not np.isfinite(float(number)):
        raise ValueError(f"{key} is not a finite number")
    return float(number)


def prefixed(name: str, arrays: Arrays) -> Arrays:
    """Return arrays with the name of their part as prefix."""
    return {f"{name}.{key}": array for key, array in arrays.items()}


def column_attributions(features: EvidenceTable, contributions: Floats) -> list[list[tuple[str, float]]]:
    """Return each row's contributions by column, largest first."""
    names = [column.name for column in features.columns]
    return [_sorted(zip(names, row, strict=True)) for row in contributions.tolist()]


def part_attributions(
    features: EvidenceTable, means: Floats, predict: Callable[[EvidenceTable, NDArray[np.intp]], Floats]
) -> list[list[tuple[str, float]]]:
    """Return each row's contributions by part of the evidence: the score (n,) minus the score without the part.

    `predict` returns the scores of changed rows, given with their indices.
    """
    parts: dict[str, list[int]] = {}
    for place, column in enumerate(features.columns):
        if column.part_of is not None:
            parts.setdefault(column.part_of, []).append(place)
    attributions: list[list[tuple[str, float]]] = [[] for _ in range(len(features))]
    for name, places in parts.items():
        rows = np.flatnonzero((features.values[:, places] != 0).any(axis=1))
        if not len(rows):
            continue
        without = features.take(rows)
        values = without.values.copy()
        values[:, places] = 0.0
        changed = predict(replace(without, values=values), rows)
        for row, other in zip(rows, changed, strict=True):
            attributions[row].append((name, float(means[row] - other)))
    return [_sorted(parts_of_row) for parts_of_row in attributions]


def _sorted(contributions: Iterable[tuple[str, float]]) -> list[tuple[str, float]]:
    return sorted(contributions, key=lambda part: -abs(part[1]))
