"""Scores that promise to agree with people: what is sure enough is called good or bad, the rest is left for a person.

The promise rests on ratings that the evaluator predicted without having learned from them (`fixed_sequence`): "of what
is called, at least 90 % agrees with what a person says, with 95 % confidence", for people and conversations like those.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput
from accord.learning import Evaluator
from accord.statistics import CONFIDENCE, Tested, fixed_sequence
from accord.store import Store
from accord.values import Score, Target, Unscored

LEFT = "left for a person"
"""Why a score is missing where it was not sure enough."""
NOT_COUNTED = "left out by --synthetic"
"""Why a score is missing of a conversation that nobody held, where those are not asked for."""


@dataclass(frozen=True)
class Selection:
    """Which scores are sure enough.

    Attributes:
        agree: Share of the calls that people should agree with.
        good: The lowest answer that counts as good.
        found: The threshold, and what it rests on.
    """

    agree: float
    good: float
    found: Tested

    @classmethod
    def of(cls, evaluator: Evaluator, agree: float, good: float | None = None, anybody: bool = True) -> Selection:
        """The widest selection that keeps the promise.

        Args:
            evaluator: Fitted and tried.
            agree: Above .5 and below 1.
            good: The lowest answer that counts as good; by default the first above the scale's middle.
            anybody: Whether scores speak for a person nobody has met, not for one who was learned from.

        Raises:
            BadInput: There is no such share or answer, the evaluator was not tried, or not even its surest calls keep
                the promise.
        """
        if not 0.5 < agree < 1:
            raise BadInput(f"--agree is a share above .5 and below 1, got {agree:g}; for example .9")
        tried = evaluator.held_out
        if tried is None or not len(tried.answer):
            raise BadInput("this evaluator was not tried on held-out labels; fit it with this Accord: accord fit")
        options = tried.options
        lowest = float(options[options > (options[0] + options[-1]) / 2][0]) if good is None else good
        if not options[0] < lowest <= options[-1]:
            raise BadInput(
                f"--good is the lowest answer that counts as good, above {options[0]:g} and at most {options[-1]:g}, "
                f"got {lowest:g}"
            )
        is_good = good_share(options, tried.new if anybody else tried.known, lowest)
        right = (is_good >= 0.5) == (options[tried.answer] >= lowest)
        passed, last = fixed_sequence(np.maximum(is_good, 1 - is_good), right, tried.group, agree)
        if passed is None:
            raise BadInput(
                f"no calls are sure enough: of the surest {last.share:.0%} of {len(right)} held-out ratings "
                f"{last.agreement:.1%} agree with people, at least {last.at_least:.1%} with {CONFIDENCE:.0%} "
                f"confidence, where {agree:.0%} is asked for; label more, or ask for less"
            )
        return cls(agree, lowest, passed)

    def call(self, score: Score | Unscored) -> Score | Unscored:
        """The score with what it is called, or without a value where that is a person's to say."""
        if isinstance(score, Unscored):
            return score
        options, shares = np.array(score.options), np.array([score.probabilities])
        is_good = float(good_share(options, shares, self.good)[0])
        sure, signature = max(is_good, 1 - is_good), score.signature.with_part("agree", f"{self.agree:g}")
        if score.warning is not None or sure < self.found.threshold:
            notes = {**score.notes, "sure": sure, **({"warning": score.warning} if score.warning else {})}
            return Unscored(score.target, score.annotator, LEFT, signature, notes)
        called = "good" if is_good >= 0.5 else "bad"
        return replace(score, signature=signature, notes={**score.notes, "call": called, "sure": sure})

    def to_json(self) -> dict[str, Any]:
        """The promise, what it rests on, and the sentence."""
        return {"agree": self.agree, "good": self.good, **self.found.to_json(), "said": str(self)}

    def __str__(self) -> str:
        found = self.found
        return (
            f"of what is called good ({self.good:g} or more) or bad, at least {self.agree:.0%} agrees with people, "
            f"with {CONFIDENCE:.0%} confidence: {found.agreement:.1%} of the surest {found.share:.0%} held-out ratings "
            f"did ({found.called} ratings, {found.groups} groups)"
        )


def good_share(options: NDArray[np.float64], shares: NDArray[np.float64], lowest: float) -> NDArray[np.float64]:
    """(n,) the probability of a good answer, of (n, K) distributions over K options."""
    return np.asarray(shares[:, options >= lowest - 1e-9].sum(axis=1))


def left_for_people(store: Store, scores: Collection[dict[str, Any]], question: str) -> list[Target]:
    """What the given rows of scores left for a person, the least sure first, and nobody has rated since."""
    rated = {label.target for label in store.labels(question).on(question)}
    left = [row for row in scores if row["unscored"] == LEFT]
    left.sort(key=lambda row: float((row["notes"] or {}).get("sure", 0.0)))
    found = (Target(row["conversation"], row["turn"]) for row in left)
    return [target for target in dict.fromkeys(found) if target not in rated]
