"""The recommendation of `compare`: an evaluator to use, or "not enough labels".

The decision is about the prediction that `accord score` makes by default, that for a new annotator. Candidates are the
evaluators, the raw judge and the best single column. A candidate is supported if a paired permutation test over groups
shows it to be better than the constant, with p corrected for the number of candidates by Holm's method. Among the
supported ones the one-standard-error rule (Breiman et al. 1984, section 3.4.3) picks the simplest whose mean squared
error is within one standard error of the lowest; the standard error is that of the paired difference, over groups.
Without support the project's default evaluator is used: with few labels its average is close to the constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from accord.edges import count_of
from accord.evidence import Ratings
from accord.learning import Predictions
from accord.statistics import DRAWS, STATISTICS, Clusters, MeanStatistic, PairedTest, holm, paired_test
from accord.values import p_text

CONSTANT, JUDGE_ALONE, BEST_COLUMN = "constant", "judge-expected", "best-column"
SURE = 0.01
"""A choice is supported below this p. At 0.05 one in 20 data sets without any signal would get a recommendation."""
DETECTED = 3.4
"""Standard errors by which an effect must exceed 0 to be found at p < 0.01 with a probability of 80%."""
LEAST_MORE = 0.1
"""Smallest number of further ratings to report, as a share of the present ones; smaller estimates are imprecise."""
FEWEST_MORE = 30
"""Smallest number of further ratings to suggest: fewer rarely change a test."""
MOST_TIMES = 50
"""Estimates above this multiple of the present labels are not printed."""
_RMSE = cast(MeanStatistic, STATISTICS["rmse"])

Cost = tuple[int, ...]
Floats = NDArray[np.float64]


class Gain(NamedTuple):
    """Mean squared error of the constant minus that of a candidate, learned from some number of labels."""

    labels: float
    value: float
    error: float


@dataclass(frozen=True)
class Decision:
    """The evaluator to use, and whether the labels support using it.

    Attributes:
        evaluator: The evaluator to fit. Without support it is the default one; without a default, one whose error is
            below the constant's by more than one standard error, or else `constant`.
        is_supported: True if it predicts a new annotator better than the constant does, beyond chance.
        rmse: RMSE for a new annotator by system, on the ratings that all candidates scored, in units of the scale.
        tests: Paired tests of the RMSE for a new annotator: `tested` against the constant, the best column and the
            judge. The p of the test against the constant is corrected for the number of candidates.
        tested: The evaluator; without support, the candidate with the lowest error.
        labels: Number of ratings.
        labels_needed: Further ratings needed to see a difference from the constant; `None` if it cannot be estimated.
        known: Evaluator with a lower RMSE for annotators whose ratings it learned from, with both RMSEs.
    """

    evaluator: str
    is_supported: bool
    rmse: Mapping[str, float]
    tests: Mapping[str, PairedTest]
    tested: str
    labels: int
    labels_needed: int | None = None
    known: tuple[str, float, float] | None = None

    @property
    def status(self) -> str:
        """`recommended` or `not enough labels`."""
        return "recommended" if self.is_supported else "not enough labels"

    def to_json(self) -> dict[str, Any]:
        """Return the decision as JSON, with its text."""
        return {
            "status": self.status,
            "evaluator": self.evaluator,
            "rmse_new_annotator": dict(self.rmse),
            "tests": [
                {"system": self.tested, "against": name, "difference": test.difference, "low": test.low,
                 "high": test.high, "p": test.p}
                for name, test in self.tests.items()
            ],
            "labels": self.labels,
            "labels_needed": self.labels_needed,
            "text": str(self),
        }  # fmt: skip

    def __str__(self) -> str:
        return self._recommended() if self.is_supported else self._undecided()

    def _recommended(self) -> str:
        parts = [f"use {self.evaluator}: RMSE for a new annotator {self.rmse[self.evaluator]:.3f}"]
        parts += [self._against(name, test) for name, test in self.tests.items()]
        text = f"{'; '.join(parts)} (permutation tests of the RMSE for a new annotator; significant: p < {SURE})"
        if self.known is not None:
            name, better, own = self.known
            text += f". For the annotators in the labels {name} has the lower RMSE ({better:.3f} against {own:.3f})"
        return text

    def _against(self, name: str, test: PairedTest) -> str:
        verb = (
            "no significant difference from"
            if test.p >= SURE
            else "better than"
            if test.difference < 0
            else "worse than"
        )
        return f"{verb} {name} ({self.rmse[name]:.3f}, {p_text(test.p)})"

    def _undecided(self) -> str:
        compared = ""
        if CONSTANT in self.tests:
            ours, constant, p = self.rmse[self.tested], self.rmse[CONSTANT], self.tests[CONSTANT].p
            compared = (
                f" on {self.labels} ratings {self.tested} is not significantly better than the constant (RMSE for a "
                f"new annotator {ours:.3f} and {constant:.3f}; {p_text(p)} by a permutation test of this "
                f"RMSE, needed: below {SURE});"
            )
        needed = (
            f" about {count_of(self.labels_needed, 'more rating')} {'is' if self.labels_needed == 1 else 'are'} needed"
            if self.labels_needed is not None
            else f" rate at least {max(self.labels, FEWEST_MORE)} more, or add evidence: a judge under models: in "
            "accord.yaml"
        )
        meanwhile = (
            "until then every score is the mean rating"
            if self.evaluator == CONSTANT
            else f"{self.evaluator} is the best guess until then"
        )
        return f"not enough labels:{compared}{needed}; {meanwhile}"


def decide(
    candidates: Sequence[Predictions],
    costs: Mapping[str, Cost],
    constant: Predictions,
    rated: Ratings,
    seed: int,
    curve: Callable[[Predictions], Sequence[Gain]] = lambda system: (),
    others: Sequence[Predictions] = (),
    default: str | None = None,
) -> Decision:
    """Choose among candidates by their error for a new annotator.

    Args:
        candidates: Held-out predictions of the evaluators, the raw judge and the best column; at least one.
        costs: Complexity of each candidate by name: sources that learn, models asked, sources. Lower is simpler.
        constant: Held-out predictions of the constant.
        rated: The n ratings that were predicted.
        seed: Random seed of the permutations and bootstrap samples, `DRAWS` of each.
        curve: Returns the gain of a candidate over the constant for growing numbers of labels; called only if the
            labels do not support a choice.
        others: Held-out predictions of the raw judge and the best column if they cannot be chosen; the choice is still
            tested against them.
        default: Evaluator that is preferred among equally complex ones, and used without support.
    """
    by_name = {each.name: each for each in (*candidates, *others, constant)}
    errors = {name: (each.new_value - rated.value) ** 2 for name, each in by_name.items()}
    gains = {each.name: _gain(errors[CONSTANT], errors[each.name], rated) for each in candidates}
    order = sorted(gains, key=lambda name: (costs[name], name != default, -gains[name].value))

    def tested(name: str, against: str) -> PairedTest | None:
        rows = np.flatnonzero(np.isfinite(errors[name]) & np.isfinite(errors[against]))
        if not len(rows):
            return None
        ours, theirs = (by_name[one].paired_new(rated).take(rows) for one in (name, against))
        return paired_test(Clusters(rated.group[rows]), _RMSE, [ours], [theirs], DRAWS, seed)

    over_constant = {name: test for name in order if (test := tested(name, CONSTANT)) is not None}
    corrected = dict(zip(over_constant, holm([test.p for test in over_constant.values()]), strict=True))
    over_constant = {name: replace(test, p=corrected[name]) for name, test in over_constant.items()}
    supported = [name for name in order if (test := over_constant.get(name)) and test.difference < 0 and test.p < SURE]
    best = max(order, key=lambda name: gains[name].value)
    chosen = _simplest_within_one_error(supported, errors, gains, rated) if supported else best
    tests = {CONSTANT: over_constant[chosen]} if chosen in over_constant else {}
    for name in (BEST_COLUMN, JUDGE_ALONE):
        if name in by_name and name != chosen and (test := tested(chosen, name)) is not None:
            tests[name] = test
    rmse = {name: math.sqrt(float(np.nanmean(error))) for name, error in errors.items() if np.isfinite(error).any()}
    decision = Decision(chosen, bool(supported), rmse, tests, chosen, len(rated))
    if supported:
        return replace(decision, known=_better_for_known(chosen, candidates, rated))
    needed = labels_needed([*curve(by_name[best]), gains[best]])
    if default in gains:
        return replace(decision, evaluator=str(default), labels_needed=needed)
    promising = [name for name in order if gains[name].value > gains[name].error]
    meanwhile = _simplest_within_one_error(promising, errors, gains, rated) if promising else CONSTANT
    return replace(decision, evaluator=meanwhile, labels_needed=needed)


def gain_over(constant: Predictions, system: Predictions, rated: Ratings, labels: float) -> Gain | None:
    """Mean squared error of the constant minus a system's, for a new annotator; `None` without predictions.

    Args:
        constant: Predictions of the constant.
        system: Predictions of the system.
        rated: The ratings that both predict.
        labels: The number of ratings that both learned from, on average over the folds.
    """
    ours, other = ((each.new_value - rated.value) ** 2 for each in (system, constant))
    gain = _gain(other, ours, rated)
    return gain._replace(labels=labels) if math.isfinite(gain.error) else None


def labels_needed(curve: Sequence[Gain]) -> int | None:
    """Estimate the number of further ratings that would show the gain over the constant, from a learning curve.

    The gain from n ratings is taken to be a - b / n with b >= 0, fitted by least squares weighted by n. Its standard
    error shrinks with the square root of n.

    Args:
        curve: Gains for growing numbers of ratings; the last one from all ratings.

    Returns:
        The number of ratings beyond the last point's, rounded up to two digits; `None` if the curve does not rise
        above 0, or more than `MOST_TIMES` as many would be needed.

    >>> labels_needed([Gain(50, 0.10, 0.10), Gain(100, 0.15, 0.10)])
    240
    >>> labels_needed([Gain(100, -0.1, 0.1)]) is None
    True
    """
    if not math.isfinite(curve[-1].error):
        return None
    n, value = (np.array([getattr(point, name) for point in curve], dtype=float) for name in ("labels", "value"))
    last = curve[-1]
    limit, slope = float(np.average(value, weights=n)), 0.0
    if len(curve) > 1:
        root = np.sqrt(n)
        (fitted, falling), *_ = np.linalg.lstsq(np.column_stack([root, -root / n]), root * value, rcond=None)
        limit, slope = (float(fitted), float(falling)) if falling > 0 else (limit, 0.0)
    for total in np.geomspace(last.labels, MOST_TIMES * last.labels, 400):
        if limit - slope / total >= DETECTED * last.error * math.sqrt(last.labels / total):
            more = max(total - last.labels, LEAST_MORE * last.labels, FEWEST_MORE)
            digits = 10 ** max(int(math.log10(more)) - 1, 0)
            return int(math.ceil(more / digits) * digits)
    return None


def _gain(other: Floats, ours: Floats, rated: Ratings) -> Gain:
    """Return the mean of `other` - `ours` (n,) over ratings that have both, and its standard error over groups."""
    rows = np.flatnonzero(np.isfinite(other) & np.isfinite(ours))
    clusters = Clusters(rated.group[rows])
    groups = len(clusters)
    if groups < 2:
        return Gain(len(rows), -math.inf, math.inf)
    difference = (other - ours)[rows]
    mean = float(difference.mean())
    sums = clusters.sums((difference - mean)[:, None])[:, 0]
    return Gain(len(rows), mean, math.sqrt(groups / (groups - 1) * float(sums @ sums)) / len(rows))


def _simplest_within_one_error(
    order: Sequence[str], errors: Mapping[str, Floats], gains: Mapping[str, Gain], rated: Ratings
) -> str:
    """Return the simplest candidate (first in `order`) whose error is within one standard error of the lowest."""
    lowest = max(order, key=lambda name: gains[name].value)
    for name in order:
        worse = _gain(errors[name], errors[lowest], rated)
        if name == lowest or worse.value <= worse.error < math.inf:
            return name
    return lowest


def _better_for_known(
    chosen: str, candidates: Sequence[Predictions], rated: Ratings
) -> tuple[str, float, float] | None:
    """Return the candidate that is better for known annotators by over one standard error, with both RMSEs."""
    errors = {each.name: np.where(each.scored, (each.value - rated.value) ** 2, np.nan) for each in candidates}
    better = {name: _gain(errors[chosen], error, rated) for name, error in errors.items() if name != chosen}
    best = max(better, key=lambda name: better[name].value, default=chosen)
    if best == chosen or better[best].value <= better[best].error:
        return None
    return best, math.sqrt(float(np.nanmean(errors[best]))), math.sqrt(float(np.nanmean(errors[chosen])))
