"""Sure enough: calls (good or bad) with a guaranteed rate of agreement; people rate the uncertain conversations.

The guarantee is tested on ratings that the evaluator did not learn from (`accord.statistics.fixed_sequence`): for
example, at least 90% of the calls agree with people's ratings, with 95% confidence, for annotators and conversations
like these. `accord score --agree`, the verdict, and the calls of learned rubrics use this rule and no other.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from accord.decisions.cut import good_share, is_good, lowest_good
from accord.edges import BadInput
from accord.learning import Evaluator, HeldOutAnswers
from accord.statistics import CONFIDENCE, SelectiveTest, fixed_sequence, tradeoff
from accord.store import Store
from accord.values import Score, ScoreRow, Target, Unscored

LEFT = "left for a person"
"""Reason of a missing score that was too uncertain."""
GOOD, BAD, UNCERTAIN = "good", "bad", "uncertain"
AGREE = 0.9
"""Agreement that the verdict asks of the calls."""


class SureEnough(NamedTuple):
    """Calls on held-out ratings.

    Attributes:
        lowest: Lowest answer that counts as good.
        passed: The widest share of calls that keeps the promise, or `None` if every share fails.
        last: The last share that was tested.
        curve: Agreement of the most confident calls by their share.
    """

    lowest: float
    passed: SelectiveTest | None
    last: SelectiveTest
    curve: Sequence[SelectiveTest]

    @property
    def share(self) -> float:
        """Share of the held-out ratings that can be called with the promised agreement, 0 to 1."""
        return 0.0 if self.passed is None else self.passed.share


def sure_enough(
    answers: HeldOutAnswers, agree: float = AGREE, good: float | None = None, for_anyone: bool = True
) -> SureEnough | None:
    """Test which share of the held-out ratings can be called good or bad.

    Args:
        answers: Held-out predictions.
        agree: Share of the calls that must agree with people, above .5 and below 1.
        good: Lowest answer that counts as good; by default the first above the scale's middle.
        for_anyone: True if scores predict a new annotator, False for a known one.

    Returns:
        `None` if held-out predictions are missing.

    Raises:
        BadInput: `good` is not inside the scale.
    """
    options = answers.options
    lowest = lowest_good(options, good)
    if not len(answers.answer):
        return None
    probability = good_share(options, answers.new if for_anyone else answers.known, lowest)
    is_right = (probability >= 0.5) == is_good(options[answers.answer], lowest)
    sure, ratings = np.maximum(probability, 1 - probability), len(np.unique(answers.rating))
    passed, last = fixed_sequence(sure, is_right, answers.group, agree, ratings=ratings)
    return SureEnough(lowest, passed, last, tuple(tradeoff(sure, is_right, answers.group, ratings=ratings)))


@dataclass(frozen=True)
class Selection:
    """Threshold of selective scores.

    Attributes:
        agree: Share of the calls that must agree with people.
        good: Lowest answer that counts as good.
        tested: The threshold and its agreement with held-out ratings, or `None` if no share keeps the promise.
        curve: Agreement of the most confident calls by their share.
        leaves_open: True if uncertain samples get no score, so that people rate them.
    """

    agree: float
    good: float
    tested: SelectiveTest | None
    curve: Sequence[SelectiveTest] = ()
    leaves_open: bool = True

    @classmethod
    def of(cls, evaluator: Evaluator, agree: float, good: float | None = None, for_anyone: bool = True) -> Selection:
        """Choose the lowest threshold that meets the required agreement.

        Args:
            evaluator: A fitted evaluator with held-out predictions.
            agree: Share of the calls that must agree with people, above .5 and below 1.
            good: Lowest answer that counts as good; by default the first above the scale's middle.
            for_anyone: True if scores predict a new annotator, False for a known one.

        Raises:
            BadInput: `agree` or `good` is out of range, the evaluator has no held-out predictions, or even its most
                confident calls agree too rarely.
        """
        if not 0.5 < agree < 1:
            raise BadInput(f"--agree is a share above .5 and below 1, got {agree:g}; for example .9")
        found = None if evaluator.held_out is None else sure_enough(evaluator.held_out, agree, good, for_anyone)
        if found is None:
            raise BadInput("this evaluator has no held-out predictions; fit it with this version: accord fit")
        if found.passed is None:
            last = found.last
            raise BadInput(
                f"no threshold keeps --agree {agree:.0%}: {last.agreement:.1%} of the most confident {last.share:.0%} "
                f"of the held-out ratings agree with people, at least {last.at_least:.1%} with {CONFIDENCE:.0%} "
                f"confidence. Label more, or lower --agree.\n{_curve_text(found.curve)}"
            )
        return cls(agree, found.lowest, found.passed, found.curve)

    @classmethod
    def noted(cls, evaluator: Evaluator) -> Selection | None:
        """Return the calls that an evaluator's scores carry without `--agree`, or `None` if no source promises any.

        Uncertain conversations keep their score, and their call is `uncertain`.
        """
        promised = next((each.promised for each in evaluator.sources if each.promised is not None), None)
        if promised is None or evaluator.held_out is None or not 0.5 < promised < 1:
            return None
        found = sure_enough(evaluator.held_out, promised)
        return None if found is None else cls(promised, found.lowest, found.passed, found.curve, leaves_open=False)

    @classmethod
    def measured(cls, evaluator: Evaluator, good: float | None = None, for_anyone: bool = True) -> Selection | None:
        """Return the agreement of an evaluator's calls, whether or not it keeps a promise; arguments as of `of`.

        Returns:
            The agreement of the calls, or `None` if the evaluator has no held-out predictions.

        Raises:
            BadInput: `good` is not inside the scale.
        """
        found = None if evaluator.held_out is None else sure_enough(evaluator.held_out, AGREE, good, for_anyone)
        return None if found is None else cls(AGREE, found.lowest, found.passed, found.curve, leaves_open=False)

    def agreement(self, options: Sequence[float], probabilities: Sequence[float]) -> float:
        """Return how often calls as sure as this one agree with people, at least: a lower confidence bound, 0 to 1.

        The bound uses the held-out ratings whose call was at least as sure as the least sure one of the share of
        the curve that this call belongs to. It is 0 if no held-out call was as unsure.

        Args:
            options: (K,) rising values of the scale.
            probabilities: (K,) probability of each option, summing to 1.
        """
        probability = float(good_share(np.array(options), np.array([probabilities]), self.good)[0])
        sure = max(probability, 1 - probability)
        return next((float(each.at_least) for each in self.curve if each.threshold <= sure), 0.0)

    def call(self, score: Score | Unscored) -> Score | Unscored:
        """Return the score with its call; an uncertain one without a value if the selection leaves it open."""
        if isinstance(score, Unscored):
            return score
        probability = float(good_share(np.array(score.options), np.array([score.probabilities]), self.good)[0])
        sure, signature = max(probability, 1 - probability), score.signature.with_part("agree", f"{self.agree:g}")
        if score.warning is not None or self.tested is None or sure < self.tested.threshold:
            if not self.leaves_open:
                return replace(score, signature=signature, notes={**score.notes, "call": UNCERTAIN, "sure": sure})
            notes = {**score.notes, "sure": sure, **({"warning": score.warning} if score.warning else {})}
            return Unscored(score.target, score.annotator, LEFT, signature, notes, version=score.version)
        called = GOOD if probability >= 0.5 else BAD
        return replace(score, signature=signature, notes={**score.notes, "call": called, "sure": sure})

    def to_json(self) -> dict[str, Any]:
        """Return the guarantee, the evidence for it and the summary sentence."""
        curve = [each.to_json() for each in self.curve]
        tested = {} if self.tested is None else self.tested.to_json()
        return {"agree": self.agree, "good": self.good, **tested, "curve": curve, "said": str(self)}

    def __str__(self) -> str:
        tested = self.tested
        if tested is None:
            return f"no share of the calls is sure to agree with people in {self.agree:.0%} of cases, so none is made"
        return (
            f"at least {self.agree:.0%} of the calls good ({self.good:g} or more) and bad agree with people, with "
            f"{CONFIDENCE:.0%} confidence: {tested.agreement:.1%} of the most confident {tested.share:.0%} held-out "
            f"ratings do ({tested.called} ratings, {tested.groups} groups)\n{_curve_text(self.curve)}"
        )


def _curve_text(curve: Sequence[SelectiveTest]) -> str:
    """Return the agreement, and its lower bound, at a few shares of calls."""
    points = [f"{each.share:.0%} {each.agreement:.0%} (≥ {each.at_least:.0%})" for each in curve[::4]]
    return f"share of calls, and their agreement with people: {', '.join(points)}"


def left_for_people(store: Store, scores: Collection[ScoreRow], question: str) -> list[Target]:
    """Return the targets of uncertain scores that are still unrated, the most uncertain first."""
    rated = {label.target for label in store.labels(question).on(question)}
    left = [row for row in scores if row["unscored"] == LEFT]
    left.sort(key=lambda row: float((row["notes"] or {}).get("sure", 0.0)))
    targets = (Target(row["conversation"], row["turn"]) for row in left)
    return [target for target in dict.fromkeys(targets) if target not in rated]
