"""What people answered to other questions, as evidence for the main one (LLM-RUBRIC, eq. 1: every sheet counts).

    x' = [x, f_q(x), ...],   f_q(x) = m + Σ z·b   by   y_q = m + Σ z·b + u_a + v_t + w_c + e

A sheet without a main rating (a user's thumb, a form on which somebody answered some of the questions) says how its own
question follows from the evidence. What is expected of that question is one more column, from a source of its own, so
that it has a variance of its own: a few ratings of the main question need to say how the two go together, and not how
each follows from every column. A training text's own column comes from answers about other groups than its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accord.evidence import Arrays, Column, EvidenceTable
from accord.learning.answer_model import matrix, sources_of
from accord.learning.mixed_model import MixedModel
from accord.statistics import INNER_FOLDS, fold_of
from accord.values import ISSUE, Label, Labels, Target

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

FEWEST_SHEETS = 20
"""A question that was answered without a main rating on fewer sheets than so many is not looked at."""
SOURCE = "other questions"
"""The source of the columns."""


@dataclass(frozen=True)
class AuxiliaryQuestions:
    """Q questions that are looked at beside the main one.

    Attributes:
        sheets: On how many sheets without a main rating each was answered, by question.
        level: (Q,) m.
        slopes: (Q, p) b, per standard deviation.
        centre, scale: (Q, p) of each column, on the question's own sheets.
    """

    sheets: Mapping[str, int]
    level: Floats
    slopes: Floats
    centre: Floats
    scale: Floats

    @classmethod
    def learn(cls, evidence: EvidenceTable, labels: Labels, main: str) -> tuple[Self | None, EvidenceTable]:
        """Learn from the labels on other questions than `main` that are numbers, each in its own unit.

        Returns:
            What was learned, and the evidence with the new columns; `None` and the evidence as it is where no other
            question was answered often enough.
        """
        features = evidence.expected()
        X, source = matrix(features), sources_of(features.columns)
        groups = np.array([str(labels.group_of(target)) for target in features.targets], dtype=object)
        sheets, models, held_out = {}, [], []
        for name, count in _alone(features, labels, main).items():
            answers = _Answers.of(features, labels, name, groups)
            place = fold_of(answers.group, INNER_FOLDS)
            if count < FEWEST_SHEETS or len(place) < 2 or not X.shape[1]:
                continue
            fold = np.array([place.get(group, -1) for group in groups], dtype=np.intp)
            whole = answers.fitted(X, np.arange(len(answers.row)), source)
            predicted = whole.predict(X)
            for each in set(place.values()):
                model = answers.fitted(X, np.flatnonzero(fold[answers.row] != each), source)
                predicted[fold == each] = model.predict(X[fold == each])
            sheets[name] = count
            models.append(whole)
            held_out.append(predicted)
        if not models:
            return None, evidence
        of = ("intercept_", "coef_", "feature_mean_", "feature_scale_")
        own = cls(sheets, *(np.array([getattr(each, name) for each in models]) for name in of))
        return own, own._joined(evidence, np.column_stack(held_out))

    def extend(self, features: EvidenceTable) -> EvidenceTable:
        """The evidence that was learned from, with a column per question: what is expected of it."""
        X = matrix(features.expected())[:, None, :]
        Z = np.nan_to_num((X - self.centre) / self.scale, nan=0.0)
        return self._joined(features, self.level + (Z * self.slopes).sum(axis=2))

    def _joined(self, features: EvidenceTable, expected: Floats) -> EvidenceTable:
        columns = tuple(Column(f"answer to {name}", f"other-question|{name}", source=SOURCE) for name in self.sheets)
        known = np.repeat(_told(features)[:, None], len(columns), axis=1)
        return replace(
            features,
            columns=features.columns + columns,
            values=np.hstack([features.values, np.where(known, expected, 0.0)]),
            present=np.hstack([features.present, known]),
        )

    def lines(self) -> list[str]:
        """What was looked at, a sentence for each question."""
        return [
            f"Learned from answers to {name!r} too: {count} sheets without a main rating"
            for name, count in self.sheets.items()
        ]

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """The same as JSON and arrays."""
        arrays = {name: getattr(self, name) for name in ("level", "slopes", "centre", "scale")}
        return {"sheets": dict(self.sheets)}, arrays

    @classmethod
    def restored(cls, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """The inverse of `state`."""
        sheets = {str(name): int(count) for name, count in card["sheets"].items()}
        found = cls(sheets, *(np.asarray(arrays[name]) for name in ("level", "slopes", "centre", "scale")))
        shape = (len(sheets), *found.slopes.shape[1:])
        if found.level.shape != shape[:1] or {found.slopes.shape, found.centre.shape, found.scale.shape} != {shape}:
            raise ValueError("other questions of another shape than their slopes")
        return found


@dataclass(frozen=True)
class _Answers:
    """n answers to one question: (n,) values, rows of the evidence, who answered, texts and their groups."""

    value: Floats
    row: Indices
    annotator: NDArray[np.object_]
    text: NDArray[np.object_]
    group: NDArray[np.object_]

    @classmethod
    def of(cls, features: EvidenceTable, labels: Labels, question: str, groups: NDArray[np.object_]) -> _Answers:
        given = _answers(features, labels.on(question))
        row = features.rows_of(each.target for each in given)
        return cls(
            np.array([each.value for each in given], dtype=float),
            row,
            np.array([str(each.annotator) for each in given], dtype=object),
            np.array([str(each.target) for each in given], dtype=object),
            groups[row],
        )

    def fitted(self, X: Floats, kept: Indices, source: Sequence[str]) -> MixedModel:
        return MixedModel(own_slopes=False).fit(
            X[self.row[kept]], self.value[kept], self.annotator[kept], self.text[kept], self.group[kept], source
        )


def other_sheets(labels: Labels, rated: Labels, without: Collection[str] = ()) -> list[Target]:
    """What was asked about on sheets without a main rating, turns or conversations as the main ratings are about.

    Args:
        labels: All of them.
        rated: Those on the main question.
        without: Questions that are not looked at; nor are labels of issues.
    """
    rows = {(each.target, each.annotator) for each in rated}
    levels, mains = {each.target.turn is None for each in rated}, {each.question for each in rated}
    found: dict[str, list[Target]] = {}
    for each in labels:
        is_other = each.question not in mains | {*without} and not each.question.startswith(ISSUE)
        is_alone = (each.target, each.annotator) not in rows and (each.target.turn is None) in levels
        if is_other and is_alone and _is_number(each):
            found.setdefault(each.question, []).append(each.target)
    return [target for targets in found.values() if len(targets) >= FEWEST_SHEETS for target in targets]


def _told(features: EvidenceTable) -> NDArray[np.bool_]:
    """(n,) of which rows anything is known."""
    return np.asarray(features.present.any(axis=1))


def _is_number(label: Label) -> bool:
    """Whether it is a number that somebody said of one text."""
    return isinstance(label.value, int | float) and label.against is None


def _answers(features: EvidenceTable, labels: Labels) -> list[Label]:
    """The answers that are numbers, about one text that there is evidence of."""
    known = {target for target, there in zip(features.targets, _told(features), strict=True) if there}
    return [each for each in labels if _is_number(each) and each.target in known]


def _alone(features: EvidenceTable, labels: Labels, main: str) -> dict[str, int]:
    """On how many sheets without a main rating each other question was answered that has more than one answer."""
    rated = {(each.target, each.annotator) for each in labels.on(main)}
    found: dict[str, int] = {}
    values: dict[str, set[float]] = {}
    for each in _answers(features, labels):
        if each.question != main:
            alone = (each.target, each.annotator) not in rated
            found[each.question] = found.get(each.question, 0) + alone
            values.setdefault(each.question, set()).add(float(each.value or 0))
    return {name: count for name, count in sorted(found.items()) if len(values[name]) > 1}
