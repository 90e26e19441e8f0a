"""Labelled conversations in two parts: those that a rubric is learned from, and those that it is tried on."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from accord.config import Config
from accord.errors import BadInput
from accord.evaluators.calibration.calibration import FEWEST_LABELS
from accord.evaluators.learned_rubric import LearnedRubric
from accord.evaluators.learned_rubric.sharpness import Flags
from accord.evaluators.learned_rubric.tuning import kinds_of
from accord.evaluators.learned_rubric.verdicts import FEWEST, check_both, verdicts
from accord.evaluators.ratings import ratings
from accord.evidence import EvidenceTable
from accord.llm.model import Subject
from accord.pipeline.collecting import subjects_of
from accord.pipeline.learning import check_settings
from accord.rubric import Rubric
from accord.splits import fold_of
from accord.store import Store

OWN = ("classes", "weights")
"""Settings that follow from a rubric's file."""


@dataclass(frozen=True)
class Sides:
    """The conversations that people called good or bad, those to learn from and those to try on.

    Attributes:
        train: Subjects with whether they are good.
        test: The same, of other conversations.
        between: Subjects of the training side that are neither; their ratings calibrate scores.
        contradicted: How many were called good by some and bad by others.
    """

    train: Sequence[tuple[Subject, bool]]
    test: Sequence[tuple[Subject, bool]]
    between: Sequence[Subject]
    contradicted: int

    @property
    def trained(self) -> list[str]:
        """The conversations whose labels may be looked at."""
        return [subject.conversation.id for subject in (*(s for s, _ in self.train), *self.between)]


def evaluator_settings(config: Config) -> dict[str, Any]:
    """The project's settings of the evaluator, where it is the configured one.

    Raises:
        UnknownName: It has no such setting.
        BadInput: A setting belongs into the rubric's file.
    """
    if config.evaluator.method != LearnedRubric.method:
        return {}
    settings = dict(config.evaluator.settings)
    check_settings(LearnedRubric, settings)
    if misplaced := next((name for name in OWN if name in settings), None):
        raise BadInput(f"{misplaced} of assertions stand in their rubric's file; give it with --pool")
    return settings


def sides_of(store: Store, config: Config, rubric: Rubric, share: float, seen: Collection[str] = ()) -> Sides:
    """The labelled conversations in two parts, whole conversations on one side, good and bad dealt out apart.

    Args:
        store: Holds them.
        config: Says which ratings are good and bad.
        rubric: Its main question is what they rate.
        share: Of the conversations that are held out.
        seen: Conversations that a rubric was learned on before: they are never held out.

    Raises:
        BadInput: The main question compares, or there are too few good or bad ones for both sides.
    """
    main, settings, labels = rubric.main_question, evaluator_settings(config), store.labels()
    if main.compares:
        raise BadInput(f"{main.id!r} compares two conversations; a rubric is learned from ratings of one")
    LearnedRubric(main, **{"seed": config.seed, **settings})  # its settings are checked before anything is paid for
    targets = labels.on(main.id).targets
    bare = EvidenceTable.from_rows([], {target: {} for target in targets})
    found = verdicts(ratings(bare, labels, main), main, settings.get("bad"), settings.get("good"))
    check_both(found, main, 2 * FEWEST)
    groups = [targets[row].conversation for row in found.row]
    held_out = _held_out(groups, found.good, share, config.seed)
    held_out &= ~np.isin(groups, list(seen))
    for side in (held_out, ~held_out):
        if len(set(found.good[side])) < 2:
            why = "were seen when a rubric was learned" if len(seen) else "belong to the same few conversations"
            raise BadInput(
                f"too many of the labelled good and bad conversations {why}; label others to try the rubric on"
            )
    subjects = {subject.target: subject for subject in subjects_of(store, targets)}
    both = [(subjects[targets[row]], bool(good)) for row, good in zip(found.row, found.good, strict=True)]
    train = [each for each, out in zip(both, held_out, strict=True) if not out]
    test = [each for each, out in zip(both, held_out, strict=True) if out]
    decided = {subject.target for subject, _ in both}
    tested = {subject.conversation.id for subject, _ in test}
    between = [s for target, s in subjects.items() if target not in decided and target.conversation not in tested]
    between = between[:: max(1, 2 * len(between) // max(len(train), 1))]
    sides = Sides(train, test, between, found.contradicted)
    learnable = len(labels.of(sides.trained).on(main.id))
    if learnable < FEWEST_LABELS:
        raise BadInput(
            f"{learnable} labels are left to learn from, {FEWEST_LABELS} are needed; label more conversations"
        )
    return sides


def _held_out(groups: Sequence[str], good: Flags, share: float, seed: int) -> Flags:
    """(C,) what is held out: a share of the groups of each kind, drawn by the seed."""
    out: set[str] = set()
    for kind in kinds_of(groups, good):
        place = fold_of(kind, max(len(kind), 1), seed)
        count = min(max(1, round(share * len(kind))), len(kind) - 1)
        out |= {name for name in kind if place[name] < count}
    return np.array([name in out for name in groups], dtype=bool)
