"""Answers to other questions as evidence for the main one (LLM-RUBRIC, eq. 1: every sheet counts).

    x' = [x, f_q(x), ...],   f_q(x) = m + Σ z·b   by   y_q = m + Σ z·b + u_a + v_t + w_c + e

A sheet without a main rating (a user's thumb, a form with some answers) shows how its own question depends on the
evidence. The expected answer to that question becomes one more column, from a source with a variance of its own: a few
ratings of the main question are enough to estimate how the two are related. A training text's column is learned from
answers about other groups.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accord.evidence import Arrays, Column, EvidenceTable
from accord.learning.answer_models.contract import matrix, sources_of
from accord.learning.answer_models.mixed.model import MixedModel
from accord.statistics import INNER_FOLDS, fold_of
from accord.values import ISSUE, Label, Labels, Target

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

FEWEST_ANSWERS = 20
"""Smallest number of answers, with or without a main rating, from which a question is predicted. Fewer lowered r."""
SOURCE = "other questions"
"""Source name of the added columns."""


@dataclass(frozen=True)
class AuxiliaryQuestions:
    """Linear models of Q other questions.

    Attributes:
        sheets: Number of sheets without a main rating by question.
        level: (Q,) m.
        slopes: (Q, p) b, per standard deviation.
        centre, scale: (Q, p) standardization of each column on the question's own sheets.
    """

    sheets: Mapping[str, int]
    level: Floats
    slopes: Floats
    centre: Floats
    scale: Floats

    @classmethod
    def learn(cls, evidence: EvidenceTable, labels: Labels, main: str) -> tuple[Self | None, EvidenceTable]:
        """Learn from numeric labels on other questions than `main`, each in its own unit.

        Returns:
            The learned models and the evidence with the new columns; None and the unchanged evidence if no other
            question has
            enough answers.
        """
        features = evidence.expected()
        X, source = matrix(features), sources_of(features.columns)
        groups = np.array([str(labels.group_of(target)) for target in features.targets], dtype=object)
        raters = {str(label.annotator) for label in labels.on(main)}
        sheets, models, held_out = {}, [], []
        alone = {name: count for name, count in _alone(features, labels, main).items() if count and X.shape[1]}
        for name, count in alone.items():
            answers = _Answers.of(features, labels.on(name), raters, groups)
            place = fold_of(answers.group, INNER_FOLDS)
            if len(answers.row) < FEWEST_ANSWERS or len(place) < 2:
                continue
            fold = np.array([place.get(group, -1) for group in groups], dtype=np.intp)
            whole = answers.fitted(X, np.arange(len(answers.row)), source)
            predicted = whole.predict(X)
            for label in set(place.values()):
                model = answers.fitted(X, np.flatnonzero(fold[answers.row] != label), source)
                predicted[fold == label] = model.predict(X[fold == label])
            sheets[name] = count
            models.append(whole)
            held_out.append(predicted)
        if not models:
            return None, evidence
        of = ("intercept_", "coef_", "feature_mean_", "feature_scale_")
        own = cls(sheets, *(np.array([getattr(label, name) for label in models]) for name in of))
        return own, own._joined(evidence, np.column_stack(held_out))

    def extend(self, features: EvidenceTable) -> EvidenceTable:
        """Return the training columns with one more column per question: its expected answer."""
        X = matrix(features.expected())[:, None, :]
        Z = np.nan_to_num((X - self.centre) / self.scale, nan=0.0)
        return self._joined(features, self.level + (Z * self.slopes).sum(axis=2))

    def _joined(self, features: EvidenceTable, expected: Floats) -> EvidenceTable:
        columns = tuple(Column(f"answer to {name}", f"other-question|{name}", source=SOURCE) for name in self.sheets)
        known = np.repeat(_has_evidence(features)[:, None], len(columns), axis=1)
        return replace(
            features,
            columns=features.columns + columns,
            values=np.hstack([features.values, np.where(known, expected, 0.0)]),
            present=np.hstack([features.present, known]),
        )

    def lines(self) -> list[str]:
        """Return a sentence for each question that was learned from."""
        return [
            f"Learned from answers to {name!r} too: {count} sheets without a main rating"
            for name, count in self.sheets.items()
        ]

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the learned state as JSON and arrays."""
        arrays = {name: getattr(self, name) for name in ("level", "slopes", "centre", "scale")}
        return {"sheets": dict(self.sheets)}, arrays

    @classmethod
    def restored(cls, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """Return the models from `state`."""
        sheets = {str(name): int(count) for name, count in card["sheets"].items()}
        counts = cls(sheets, *(np.asarray(arrays[name]) for name in ("level", "slopes", "centre", "scale")))
        shape = (len(sheets), *counts.slopes.shape[1:])
        if counts.level.shape != shape[:1] or {counts.slopes.shape, counts.centre.shape, counts.scale.shape} != {shape}:
            raise ValueError("auxiliary questions and slopes have different shapes")
        return counts


@dataclass(frozen=True)
class _Answers:
    """n answers to one question: (n,) values, evidence rows, annotators, texts and groups.

    Annotators without a main rating share one name, because they get no terms of their own (footnote 26).
    """

    value: Floats
    row: Indices
    annotator: NDArray[np.object_]
    text: NDArray[np.object_]
    group: NDArray[np.object_]

    @classmethod
    def of(
        cls, features: EvidenceTable, labels: Labels, raters: Collection[str], groups: NDArray[np.object_]
    ) -> _Answers:
        given = _answers(features, labels)
        row = features.rows_of(label.target for label in given)
        return cls(
            np.array([label.value for label in given], dtype=float),
            row,
            np.array([label.annotator if str(label.annotator) in raters else "" for label in given], dtype=object),
            np.array([str(label.target) for label in given], dtype=object),
            groups[row],
        )

    def fitted(self, X: Floats, kept: Indices, source: Sequence[str]) -> MixedModel:
        annotator = self.annotator[kept] if (self.annotator[kept] != "").any() else None
        return MixedModel(own_slopes=False).fit(
            X[self.row[kept]], self.value[kept], annotator, self.text[kept], self.group[kept], source
        )


def other_sheets(labels: Labels, rated: Labels, without: Collection[str] = ()) -> list[Target]:
    """Return the targets of sheets without a main rating, at the level of the main ratings.

    Args:
        labels: All labels.
        rated: Labels on the main question.
        without: Questions to ignore; labels of issues are ignored too.
    """
    rows = {(label.target, label.annotator) for label in rated}
    levels, mains = {label.target.turn is None for label in rated}, {label.question for label in rated}
    return list(dict.fromkeys(
        label.target for label in labels
        if label.question not in mains | {*without} and not label.question.startswith(ISSUE)
        and label.value is not None and label.against is None
        and (label.target, label.annotator) not in rows and (label.target.turn is None) in levels
    ))  # fmt: skip


def _has_evidence(features: EvidenceTable) -> NDArray[np.bool_]:
    """Return (n,) True for rows with any value."""
    return np.asarray(features.present.any(axis=1))


def _is_number(label: Label) -> bool:
    """Return True for a numeric answer about one text."""
    return isinstance(label.value, int | float) and label.against is None


def _answers(features: EvidenceTable, labels: Labels) -> list[Label]:
    """Return the numeric answers about single texts with evidence."""
    known = {target for target, there in zip(features.targets, _has_evidence(features), strict=True) if there}
    return [label for label in labels if _is_number(label) and label.target in known]


def _alone(features: EvidenceTable, labels: Labels, main: str) -> dict[str, int]:
    """Return the number of sheets without a main rating for each other question that has several distinct answers."""
    rated = {(label.target, label.annotator) for label in labels.on(main)}
    counts: dict[str, int] = {}
    values: dict[str, set[float]] = {}
    for label in _answers(features, labels):
        if label.question != main:
            alone = (label.target, label.annotator) not in rated
            counts[label.question] = counts.get(label.question, 0) + alone
            values.setdefault(label.question, set()).add(float(label.value or 0))
    return {name: count for name, count in sorted(counts.items()) if len(values[name]) > 1}
