"""The recommendation of `compare`: the default evaluator, unless another one is significantly better.

The decision is about the prediction that `accord score` makes by default, for a new annotator. All figures are averaged
over the repetitions of the cross-validation. If another evaluator may be better, it and the default are compared in all
repetitions; otherwise only as many are run as the verdict needs (`repetitions`). An evaluator can be recommended if its
scores have bands; the constant, a single feature and the raw judge are baselines and never recommended.

1. The default evaluator is chosen, unless another one has a smaller error by a paired permutation test over groups at
   the level `SURE`, with Holm's correction for the number of others. Among these the one with the smallest error is
   chosen.
2. If the default evaluator is not shown to be better than the constant, and another one is (Holm's correction), the one
   with the smallest error among these is chosen.
3. The choice is supported if it is better than the constant at the level `SURE`. Otherwise there are not enough labels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from accord.edges import count_of
from accord.evidence import Ratings
from accord.learning import Predictions
from accord.results import p_text, told_apart
from accord.statistics import (
    DRAWS,
    STATISTICS,
    SURE,
    Clusters,
    MeanStatistic,
    PairedTest,
    holm,
    paired_test,
)
from accord.validation import (
    BEST_COLUMN,
    CONSTANT,
    FEWEST_MORE,
    JUDGE_ALONE,
    Gain,
    Repeats,
    gain_over,
    labels_needed,
)

SEED = 0
"""Seed of the permutations: the same for all folds, so that a decision depends on the predictions alone."""
PROMISING = 0.1
"""The strongest evaluator whose uncorrected p against the default is below this is predicted in every repetition."""
_RMSE = cast(MeanStatistic, STATISTICS["rmse"])


@dataclass(frozen=True)
class Decision:
    """The evaluator to use, and whether the labels support using it.

    Attributes:
        evaluator: The evaluator to fit.
        default: The project's default evaluator, or `None` if it was not compared.
        is_supported: True if the evaluator predicts a new annotator better than the constant does, beyond chance.
        rmse: RMSE for a new annotator by system, on the ratings that the system scored, in units of the scale.
        tests: Paired tests of the RMSE for a new annotator: the evaluator against the constant, the best feature, the
            judge, and the default if it was not chosen. The last p has Holm's correction.
        labels: Number of ratings.
        repeats: Number of repetitions of the cross-validation.
        labels_needed: Further ratings needed to see a difference from the constant; `None` if it cannot be estimated.
        known: Evaluator with a lower RMSE for annotators whose ratings it learned from, with both RMSEs.
        unfit: Evaluators that cannot be recommended, with the reason.
    """

    evaluator: str
    default: str | None
    is_supported: bool
    rmse: Mapping[str, float]
    tests: Mapping[str, PairedTest]
    labels: int
    repeats: int = 1
    labels_needed: int | None = None
    known: tuple[str, float, float] | None = None
    unfit: Mapping[str, str] = field(default_factory=dict)

    @property
    def status(self) -> str:
        """`recommended` or `not enough labels`."""
        return "recommended" if self.is_supported else "not enough labels"

    def to_json(self) -> dict[str, Any]:
        """Return the decision as JSON, with its text."""
        return {
            "status": self.status,
            "evaluator": self.evaluator,
            "default": self.default,
            "rmse_new_annotator": dict(self.rmse),
            "tests": [
                {"evaluator": self.evaluator, "against": name, "difference": test.difference, "low": test.low,
                 "high": test.high, "p": test.p}
                for name, test in self.tests.items()
            ],
            "labels": self.labels,
            "repeats": self.repeats,
            "labels_needed": self.labels_needed,
            "unfit": dict(self.unfit),
            "text": str(self),
        }  # fmt: skip

    def __str__(self) -> str:
        return f"{self._choice()}; {self._support()}. {self._basis()}"

    def _choice(self) -> str:
        name, error = self.evaluator, self.rmse.get(self.evaluator)
        shown = "" if error is None else f" (typical error {error:.2f})"
        if self.default is None or name == self.default:
            kind = "" if self.default is None else ", the default evaluator"
            other = "" if self.default is None else ": no other evaluator is shown to be better"
            return f"use {name}{kind}{shown}{other}"
        if (test := self.tests.get(self.default)) is not None and test.difference < 0 and test.p < SURE:
            own, other = told_apart(self.rmse[name], self.rmse[self.default])
            return (
                f"use {name} (typical error {own}): significantly better than the default {self.default} "
                f"({other}, {p_text(test.p)})"
            )
        return f"use {name}{shown}: the default {self.default} is not shown to be better than a constant guess"

    def _support(self) -> str:
        test = self.tests.get(CONSTANT)
        if test is None:
            return "it was not compared with a constant guess"
        error = told_apart(self.rmse[CONSTANT], self.rmse[self.evaluator])[0]
        constant = f"a constant guess ({error}, {p_text(test.p)})"
        if self.is_supported:
            return f"it is better than {constant}"
        needed = (
            f"about {count_of(self.labels_needed, 'more rating')} {'is' if self.labels_needed == 1 else 'are'} needed"
            if self.labels_needed is not None
            else f"rate at least {max(self.labels, FEWEST_MORE)} more, or add evidence"
        )
        is_worse = test.difference > 0 and test.p < SURE
        compared = "worse than" if is_worse else "not shown to be better than"
        return f"not enough labels: on {self.labels} ratings it is {compared} {constant}; {needed}"

    def _basis(self) -> str:
        times = f"{self.repeats} repetitions of the cross-validation" if self.repeats > 1 else "one cross-validation"
        text = f"Permutation tests of the typical error for a new annotator, significant below p = {SURE}, over {times}"
        if self.known is not None:
            name, better, own = self.known
            text += f". For the annotators in the labels {name} has the smaller error ({better:.2f} against {own:.2f})"
        return text


class Contest:
    """Errors for a new annotator of several systems, and tests between them.

    Args:
        systems: Predictions of each system in each repetition of the cross-validation, by name.
        rated: The n ratings that were predicted.
    """

    def __init__(self, systems: Mapping[str, Repeats], rated: Ratings) -> None:
        self.systems, self.rated = systems, rated
        self.scored = {
            name: np.logical_and.reduce([np.isfinite(each.new_value) for each in repeats])
            for name, repeats in systems.items()
        }

    @cached_property
    def rmse(self) -> dict[str, float]:
        """RMSE of the systems that predict a new annotator, averaged over repetitions."""
        errors = {
            name: [_RMSE(each.paired_new(self.rated).take(np.flatnonzero(self.scored[name]))) for each in repeats]
            for name, repeats in self.systems.items()
            if self.scored[name].any()
        }
        return {name: float(np.mean(values)) for name, values in errors.items()}  # type: ignore[arg-type]

    def test(self, name: str, against: str) -> PairedTest | None:
        """Return the test of two systems on the ratings that both predict, in the repetitions that both have."""
        if name not in self.systems or against not in self.systems or name == against:
            return None
        rows = np.flatnonzero(self.scored[name] & self.scored[against])
        if not len(rows):
            return None
        pairs = zip(self.systems[name], self.systems[against], strict=False)
        ours, theirs = ([each.paired_new(self.rated).take(rows) for each in side] for side in zip(*pairs, strict=True))
        return paired_test(Clusters(self.rated.group[rows]), _RMSE, ours, theirs, DRAWS, SEED)

    def is_below(self, name: str, against: str, level: float) -> PairedTest | None:
        """Return the test if the first system has the smaller error at a level; otherwise None."""
        test = self.test(name, against)
        return test if test is not None and _shows_less(test, level) else None


def unfit_reason(repeats: Repeats) -> str | None:
    """Return the reason why an evaluator cannot be recommended, or None."""
    first = repeats[0]
    rows = first.scored & np.isfinite(first.new_value)
    if not rows.any():
        return "it predicts no new annotator"
    return None if np.isfinite(first.new_band[rows]).all(axis=1).mean() > 0.5 else "its scores have no bands"


def _unfit(systems: Mapping[str, Repeats], names: Sequence[str]) -> dict[str, str]:
    """Return the reason of each evaluator that cannot be recommended."""
    return {name: reason for name in names if (reason := unfit_reason(systems[name])) is not None}


def contenders(systems: Mapping[str, Predictions], names: Sequence[str], default: str, rated: Ratings) -> list[str]:
    """Return the default evaluator and the strongest rival, if one may be better, to predict in further repetitions.

    Args:
        systems: Predictions of the evaluators and the constant in the first repetition, by name.
        names: Names of the evaluators.
        default: Name of the default evaluator.
        rated: The ratings that were predicted.
    """
    contest = Contest({name: [each] for name, each in systems.items()}, rated)
    fit = [name for name in names if name != default and unfit_reason([systems[name]]) is None]
    is_weak = contest.is_below(default, CONSTANT, PROMISING) is None
    rivals = [default, CONSTANT] if is_weak else [default]
    promising = [name for name in fit if any(contest.is_below(name, each, PROMISING) for each in rivals)]
    return [default, *sorted(promising, key=contest.rmse.__getitem__)[:1]]


def decide(
    systems: Mapping[str, Repeats],
    names: Sequence[str],
    rated: Ratings,
    default: str | None = None,
    curve: Callable[[str], Sequence[Gain]] = lambda name: (),
    every: Mapping[str, Repeats] | None = None,
) -> Decision:
    """Choose among evaluators by their error for a new annotator.

    Args:
        systems: Predictions in each repetition of the cross-validation, by name: of the evaluators, the constant and,
            if they are known, the raw judge and the best feature.
        names: Names of the evaluators; at least one.
        rated: The ratings that were predicted.
        default: Name of the default evaluator; if it was not compared, the first of `names` takes its place.
        curve: Returns the gain of an evaluator over the constant for growing numbers of labels; called only if the
            labels do not support the choice.
        every: Predictions in all repetitions that were run, by which evaluators are chosen; by default `systems`, by
            which the choice is compared with the baselines.
    """
    contest = Contest(systems, rated)
    choosing = contest if every is None else Contest(every, rated)
    unfit = _unfit(systems, names)
    fit = [name for name in names if name not in unfit] or names
    known = default if default in fit else None
    first = known or fit[0]
    chosen, better = _choose(choosing, first, fit)
    tests = {name: test for name in (CONSTANT, BEST_COLUMN, JUDGE_ALONE) if (test := contest.test(chosen, name))}
    if chosen != first and (test := better or choosing.test(chosen, first)) is not None:
        tests[first] = test
    supported = CONSTANT in tests and _shows_less(tests[CONSTANT])
    repeats = len(systems[chosen])
    decision = Decision(chosen, known, supported, contest.rmse, tests, len(rated), repeats, None, None, unfit)
    if supported:
        return replace(decision, known=_better_for_known(chosen, {name: systems[name] for name in fit}, rated))
    gain = gain_over(systems[CONSTANT], systems[chosen], rated, len(rated)) if CONSTANT in systems else None
    return decision if gain is None else replace(decision, labels_needed=labels_needed([*curve(chosen), gain]))


def _shows_less(test: PairedTest, level: float = SURE) -> bool:
    """Return True if the first of two errors is the smaller one, at a level of significance."""
    return test.difference < 0 and test.p < level


def _choose(contest: Contest, first: str, names: Sequence[str]) -> tuple[str, PairedTest | None]:
    """Return `first`, or the rival that replaces it, with the corrected test of a rival that is shown to be better.

    The best of the rivals that are shown to be better than `first` replaces it; if there is none and `first` is not
    shown to be better than the constant, the best of those that are.
    """
    others = [name for name in names if name != first]
    if better := _shown_better(contest, others, first):
        chosen = min(better, key=contest.rmse.__getitem__)
        return chosen, better[chosen]
    if contest.is_below(first, CONSTANT, SURE) is None and (able := _shown_better(contest, others, CONSTANT)):
        return min(able, key=contest.rmse.__getitem__), None
    return first, None


def _shown_better(contest: Contest, names: Sequence[str], against: str) -> dict[str, PairedTest]:
    """Return the systems with a significantly smaller error than another one, with tests corrected by Holm's method."""
    tests = {name: test for name in names if (test := contest.test(name, against)) is not None}
    corrected = holm([test.p for test in tests.values()])
    return {
        name: replace(test, p=p)
        for (name, test), p in zip(tests.items(), corrected, strict=True)
        if _shows_less(replace(test, p=p))
    }


def _better_for_known(chosen: str, systems: Mapping[str, Repeats], rated: Ratings) -> tuple[str, float, float] | None:
    """Return the evaluator that is significantly better for known annotators, with both RMSEs."""
    own = systems[chosen][0]
    best, lowest = None, math.inf
    for name, (other, *_) in systems.items():
        rows = np.flatnonzero(own.scored & other.scored)
        if name == chosen or not len(rows):
            continue
        first, second = (each.paired(rated).take(rows) for each in (other, own))
        test = paired_test(Clusters(rated.group[rows]), _RMSE, [first], [second], DRAWS, SEED)
        errors = [_RMSE(paired) or 0.0 for paired in (first, second)]
        if test is not None and _shows_less(test) and errors[0] < lowest:
            best, lowest = (name, errors[0], errors[1]), errors[0]
    return best
