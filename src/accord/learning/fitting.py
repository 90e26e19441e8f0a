"""How a head learns from evidence that is there: what folds, curves and processes beside this one do again and again.

It knows no source and no model, so that another process which is sent it begins at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from accord.edges import BadInput
from accord.evidence import EvidenceTable, Ratings, in_pairs
from accord.learning.head import Head, make_head
from accord.learning.held_out import Choice, System, held_out
from accord.learning.presets import Level
from accord.statistics import Split
from accord.values import Labels, Question, Target


@dataclass(frozen=True)
class Fitting:
    """A head before learning, and how it learns.

    Attributes:
        question: What is predicted.
        head: Unfitted, with the settings that are given.
        head_name: Under which it is registered.
        choose: Settings that are chosen on inner folds: values by name, the simplest first.
        seed: Of those folds.
    """

    question: Question
    head: Head
    head_name: str
    choose: Mapping[str, Sequence[Any]]
    seed: int

    def fit(self, evidence: EvidenceTable, labels: Labels) -> Head:
        """The head after learning.

        Raises:
            BadInput: There is too little to learn from, or both turns and conversations are rated.
        """
        return self.learned(*self.shown(evidence, labels))

    def shown(self, evidence: EvidenceTable, labels: Labels) -> tuple[EvidenceTable, Labels]:
        """What the head learns from: columns of which something is known; of a comparison, what differs in pairs.

        Raises:
            BadInput: Nothing is known of any sample.
        """
        shown = self.known(evidence)
        if evidence.columns and not shown.columns:
            why = Counter(evidence.absences.values()).most_common(1)
            said = "".join(f": {reason}" for reason, _ in why)
            raise BadInput(
                f"none of the {len(evidence)} samples to learn from has evidence{said}; accord judge asks for it"
            )
        if self.question.compares and all(column.centre is None for column in shown.columns):
            return in_pairs(shown, labels, self.question)
        return shown, labels

    def known(self, evidence: EvidenceTable) -> EvidenceTable:
        """The columns that are known of at least one row; all where the head needs no labels."""
        if not self.head.needs_labels:
            return evidence
        return evidence.select(np.flatnonzero(evidence.present.any(axis=0)).tolist())

    def learned(self, shown: EvidenceTable, labels: Labels) -> Head:
        """The head after learning from what it is shown, with the settings that predict inner folds best."""
        level_of(labels.on(self.question.id).targets)
        given = self.head.settings()
        tried = [{**given, **dict(zip(self.choose, one, strict=True))} for one in product(*self.choose.values())]
        made = [partial(make_head, self.head_name, settings=settings) for settings in tried]
        if len(made) == 1:
            return made[0](self.question).fit(shown, labels)
        return Choice(self.question, made, self.seed).fit(shown, labels)


def predict_unseen(
    name: str, fitting: Fitting, evidence: EvidenceTable, labels: Labels, rated: Ratings, splits: Iterable[Split]
) -> System:
    """Each rating predicted without its group: the head learns on the one side of each split, and predicts the other.

    Where nothing can be learned on one side of a split, the other side's rows stay unscored with the reason.
    """
    return held_out(name, lambda question: fitting, fitting.question, evidence, labels, rated, splits)


@dataclass(frozen=True)
class OneFold:
    """Learns one of several heads without one fold: a piece of work that processes share.

    Attributes:
        given: By name, how a head learns, its evidence and labels.
        rated: What is predicted.
        splits: The folds.
    """

    given: Mapping[str, tuple[Fitting, EvidenceTable, Labels]]
    rated: Ratings
    splits: Sequence[Split]

    def __call__(self, piece: tuple[str, int]) -> System:
        """What the head of that name predicts of the ratings in the fold of that number."""
        name, place = piece
        return predict_unseen(name, *self.given[name], self.rated, [self.splits[place]])


def level_of(targets: Iterable[Target]) -> Level | None:
    """Whether targets are turns or whole conversations; `None` without any.

    Raises:
        BadInput: They are both: answers about turns and about conversations are not pooled.
    """
    levels: set[Level] = {"conversation" if target.turn is None else "turn" for target in targets}
    if len(levels) > 1:
        raise BadInput(
            "people rated both turns and whole conversations under one question; an evaluator learns one of the two: "
            "name it with level: turn or level: conversation in evaluators:"
        )
    return next(iter(levels), None)
