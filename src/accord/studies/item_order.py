"""Active learning in a study: the order of items from which the evaluator learns most.

`suggest_labels` ranks pairs of item and annotator by the expected decrease of the predictive variance. The order is
computed in the background and updated after `UPDATE_EVERY` answers. A random share of the items (`is_random_sample`) is
mixed in, so that estimates can use a random sample.

The remaining variance describes a person's expected answer. The width of its interval falls with the square root, so a
quarter of the variance is half the width. The model gives it before the labels are collected. A learning curve
would need enough labels to split, and says nothing about an order that was not tried.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from accord.evidence import EvidenceTable
from accord.learning import suggest_labels
from accord.store import Candidate, Item
from accord.values import Labels, Question, StudySettings, Target, content_hash

LOOKAHEAD = 100
"""Number of labels that are planned."""
UPDATE_EVERY = 20
"""Number of new answers after which the order is computed again."""
HALF_WIDTH = 0.25
"""Share of the variance at which the interval has half its width."""


@dataclass(frozen=True)
class ItemOrder:
    """Items to label next.

    Attributes:
        suggested: Pairs of item and annotator, the most informative first.
        remaining_variance: Share of the variance that remains after each pair, from 0 to 1.
    """

    suggested: Sequence[tuple[Target, str]]
    remaining_variance: Sequence[float]

    @classmethod
    def compute(
        cls,
        evidence: EvidenceTable,
        labels: Labels,
        question: Question,
        people: Collection[str],
        count: int = LOOKAHEAD,
        among: Collection[tuple[Target, str]] | None = None,
    ) -> ItemOrder:
        """Compute the order from the labels so far.

        Args:
            evidence: Evidence of every item.
            labels: Labels so far.
            question: Question that the evaluator predicts.
            people: Annotators who can be asked; new annotators are allowed.
            count: Number of labels to plan.
            among: Allowed pairs of item and annotator; by default all.

        Raises:
            BadInput: There are too few labels, or nothing is left to label.
        """
        pairs = among or [(target, name) for target in evidence.targets for name in people]
        suggestions = suggest_labels(evidence, labels, question, count, annotators=people, among=set(pairs))
        remaining = np.maximum(1 - np.cumsum([each.gain for each in suggestions]), 0.0)
        return cls([(each.target, each.annotator) for each in suggestions], remaining.tolist())

    @cached_property
    def by_annotator(self) -> dict[str, list[Target]]:
        """Items to label next, by annotator."""
        targets: dict[str, list[Target]] = {}
        for target, name in self.suggested:
            targets.setdefault(name, []).append(target)
        return targets

    @property
    def labels_to_halve(self) -> int | None:
        """Number of labels after which the evaluator's interval has half its width; `None` if more are needed."""
        return next((count for count, share in enumerate(self.remaining_variance, 1) if share <= HALF_WIDTH), None)

    def sentence(self) -> str:
        """Return how far more labels narrow the evaluator's interval."""
        if not self.remaining_variance:
            return "Nothing is left to label."
        if self.labels_to_halve is not None:
            return f"{self.labels_to_halve} more labels, in this order, halve the evaluator's interval."
        narrower = 1 - self.remaining_variance[-1] ** 0.5
        count = len(self.remaining_variance)
        return f"{count} more labels, in this order, narrow the evaluator's interval by {narrower:.0%}."

    def to_json(self) -> dict[str, Any]:
        """Return the sentence and its numbers."""
        return {
            "summary": self.sentence(), "labels_to_halve": self.labels_to_halve,
            "remaining_variance": [round(share, 4) for share in self.remaining_variance],
        }  # fmt: skip


def is_random_sample(study: StudySettings, item: Item) -> bool:
    """Return True if an item belongs to the random sample that estimates use.

    In the informative order a hash of the item's key selects `random_share` of the items; otherwise all belong to it.
    """
    if study.order != "informative":
        return True
    return int(content_hash(["random", study.seed, item.key])[5:13], 16) / 16**8 < study.random_share


def make_ranking(
    settings: StudySettings, order: Callable[[], ItemOrder | None], draw: Callable[[], float] = random.random
) -> Callable[[Sequence[Candidate], str], Candidate]:
    """Return a function that chooses the next item: the most informative one, or a random one with `random_share`.

    Args:
        settings: Settings of the study.
        order: Returns the current order, or `None` before there is one.
        draw: Returns a random number from 0 to 1.
    """

    def rank(candidates: Sequence[Candidate], person: str) -> Candidate:
        at_random = [each for each in candidates if is_random_sample(settings, each.item)]
        others = [each for each in candidates if not is_random_sample(settings, each.item)]
        current = order()
        if current is None or not others or (at_random and draw() < settings.random_share):
            # One order for all annotators; items that others have begun come first, so that they are completed early.
            return min(at_random or candidates, key=lambda each: (-each.taken, content_hash(each.item.key)))
        by_target = {each.item.target: each for each in others}
        best = next((by_target[t] for t in current.by_annotator.get(person, ()) if t in by_target), None)
        return best or min(others, key=lambda each: (-each.taken, content_hash([person, each.item.key])))

    return rank
