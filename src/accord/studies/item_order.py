"""Which item somebody rates next, where the study asks for the order that the evaluator learns most from.

The order is that of `suggest_labels`: of all items and people, the label after which predictions are expected to be
surest, then the next. It is made in the background and used until it is made again. A share of the items is drawn at
random beforehand (`is_random`) and mixed in, so that estimates have a sample of everything.

How much is left to learn is told in the units of the evaluator's interval. Under the model that orders them, the value
of labels is known before they are given, each by itself and without trying on held-out labels; a learning curve needs
enough labels to be cut into parts, is as uncertain as its few points, and says nothing about an order that was not
tried. The interval meant is that of what a person is expected to say on average; it narrows with the root of the
variance, so that a quarter of the variance is half the interval. How much people vary from time to time is no part of
it: labels do not lessen that.
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

AHEAD = 100
"""How many labels are thought ahead."""
EVERY = 20
"""After so many new answers the order is made again."""
HALF = 0.25
"""The share of the variance at which the interval is half as wide."""


@dataclass(frozen=True)
class Order:
    """What to label next.

    Attributes:
        suggested: Items, each with the person who should label it, the most valuable first.
        left: The share of the variance that is left after each of them.
    """

    suggested: Sequence[tuple[Target, str]]
    left: Sequence[float]

    @classmethod
    def of(
        cls,
        evidence: EvidenceTable,
        labels: Labels,
        question: Question,
        people: Collection[str],
        count: int = AHEAD,
        among: Collection[tuple[Target, str]] | None = None,
    ) -> Order:
        """Think ahead from the labels there are.

        Args:
            evidence: Of every item.
            labels: What was said so far.
            question: That the evaluator predicts.
            people: Who can be asked; somebody new may be among them.
            count: How many labels to think ahead.
            among: Which items are shown to whom; by default all to everybody.

        Raises:
            BadInput: Too few labels to say what is not known yet, or nothing left to label.
        """
        pairs = among or [(target, name) for target in evidence.targets for name in people]
        found = suggest_labels(evidence, labels, question, count, annotators=people, among=set(pairs))
        left = np.maximum(1 - np.cumsum([each.gain for each in found]), 0.0)
        return cls([(each.target, each.annotator) for each in found], left.tolist())

    @cached_property
    def wanted(self) -> dict[str, list[Target]]:
        """The same by person."""
        found: dict[str, list[Target]] = {}
        for target, name in self.suggested:
            found.setdefault(name, []).append(target)
        return found

    @property
    def to_half(self) -> int | None:
        """After how many labels the evaluator's interval is half as wide; `None` where those ahead are not enough."""
        return next((count for count, share in enumerate(self.left, 1) if share <= HALF), None)

    def said(self) -> str:
        """The stopping rule, as a sentence."""
        if not self.left:
            return "Nothing is left to label."
        if self.to_half is not None:
            return f"{self.to_half} more labels, in this order, halve the evaluator's interval."
        narrower = 1 - self.left[-1] ** 0.5
        return f"{len(self.left)} more labels, in this order, narrow the evaluator's interval by {narrower:.0%}."

    def to_json(self) -> dict[str, Any]:
        """The sentence and what it comes from."""
        return {"said": self.said(), "to_half": self.to_half, "variance_left": [round(each, 4) for each in self.left]}


def is_random(study: StudySettings, item: Item) -> bool:
    """Whether an item stands for all others in estimates: of those in the informative order, a share drawn beforehand.

    What the evaluator learns most from is like nothing else. The share follows from the items' keys, so that it is a
    simple random sample of them, whoever asks, and nothing has to be written down.
    """
    if study.order != "informative":
        return True
    return int(content_hash(["random", study.seed, item.key])[5:13], 16) / 16**8 < study.random_share


def ranking(
    settings: StudySettings, order: Callable[[], Order | None], draw: Callable[[], float] = random.random
) -> Callable[[Sequence[Candidate], str], Candidate]:
    """Chooses among candidates: with the study's share a random item, else the one that teaches most.

    Args:
        settings: Of the study.
        order: The order as it is now; `None` before there is one.
        draw: A number from 0 to 1, anew each time.
    """

    def rank(found: Sequence[Candidate], person: str) -> Candidate:
        at_random = [each for each in found if is_random(settings, each.item)]
        others = [each for each in found if not is_random(settings, each.item)]
        now = order()
        if now is None or not others or (at_random and draw() < settings.random_share):
            # One order for everybody, what somebody has begun first: items get their full number early.
            return min(at_random or found, key=lambda each: (-each.taken, content_hash(each.item.key)))
        there = {each.item.target: each for each in others}
        best = next((there[target] for target in now.wanted.get(person, ()) if target in there), None)
        return best or min(others, key=lambda each: (-each.taken, content_hash([person, each.item.key])))

    return rank
