"""Sequential rule: a repetition of the cross-validation that cannot change the verdict's state is not run.

Figures are averages over repetitions, and a state is borderline if repetitions do not share it. After two repetitions,
and after each further one, the state is derived again with all figures moved against the evaluator, and with all moved
in its favor, each by

    max(`WIDE` · (largest - smallest value of the repetitions so far), `LEAST` · half the width of its 95% interval)

No further repetition is run if these two states, the state of the average and the state of each repetition are the
same. The p of a test is moved as a normal score. The share of conversations that are surely good or bad jumps between
repetitions, so it is moved to none and to all. `LEAST` keeps two repetitions that are close to each other by chance
from ending the cross-validation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from accord.decisions.figures import SINGLE, Figures, Measured, rests_on
from accord.decisions.verdict import state_of
from accord.evidence import EvidenceTable
from accord.statistics import SIGNIFICANT, PairedTest, normal_quantile, normal_tail
from accord.validation import NEW, R_NEW, WIDTH_NEW, MetricsTable, Repeats, other_people
from accord.values import Estimate

WIDE, LEAST = 2.0, 0.6
"""Multiple of the range of a figure over repetitions, and share of half its 95% interval, by which it is moved."""
_RESTS = 0.02
"""Movement of the correlation with a single count."""
_HALF_SCORE = 1.96
"""Half the width of the 95% interval of a normal score."""


def is_settled(systems: Mapping[str, Repeats], first: str, table: MetricsTable, evidence: EvidenceTable) -> bool:
    """Return True if further repetitions of the cross-validation cannot change the state of an evaluator.

    Args:
        systems: Predictions of the evaluator, the constant, the best feature and the raw judge in the repetitions so
            far, by name.
        first: Name of the evaluator.
        table: Ratings and draws.
        evidence: Evidence of the ratings.
    """
    if len(systems[first]) < 2:
        return False
    whole = Measured(table.rated, systems, first, other_people(table.rated), table.speakers)
    singles = whole.singles
    served = table.served(systems[first], np.flatnonzero(whole.contest.scored[first]))
    count = rests_on(systems[first], table.rated, evidence, SINGLE - _RESTS)
    known = [each.figures(served[R_NEW]) for each in (whole, *singles)]
    known = [replace(each, rests_on=count if count and abs(count[1]) >= SINGLE else None) for each in known]
    states = {state_of(each) for each in known}
    if len(states) > 1:
        return False
    biases = [each.biases() for each in (whole, *singles)]
    for step in (-1, 1):
        moved = _moved(known[0], known[1:], served, step)
        if count is not None:
            moved = replace(moved, rests_on=count if step < 0 or abs(count[1]) >= SINGLE + _RESTS else None)
        if moved.biased is not None:
            moved = replace(moved, biased=_biased(biases, step))
        states.add(state_of(moved))
    return len(states) == 1


def _moved(known: Figures, singles: Sequence[Figures], served: Mapping[str, Estimate], step: int) -> Figures:
    """Return the figures moved against the evaluator (`step` -1) or in its favor (1)."""

    def by(values: Sequence[float | None], half: float) -> float:
        return step * _movement([each for each in values if each is not None], half)

    error = by([each.error for each in singles], _half(served[NEW]))
    r = by([each.r.value for each in singles], _half(served[R_NEW]))
    width = by([each.band for each in singles], _half(served[WIDTH_NEW]) / ((known.high - known.low) or 1.0))
    tests = {
        name: _with_score(test.difference, test.p, by([_score(each.tests, name) for each in singles], _HALF_SCORE))
        for name, test in known.tests.items()
    }
    shared = known.shared
    return replace(
        known,
        error=None if known.error is None else known.error - error,
        shared=None if shared is None else (shared[0], shared[1] - error, shared[2]),
        r=replace(known.r, **{
            end: None if (value := getattr(known.r, end)) is None else value + r for end in ("value", "low")
        }),
        band=None if known.band is None else known.band - width,
        decided=None if known.decided is None else float(step > 0),
        tests={name: replace(known.tests[name], difference=score, p=p) for name, (score, p) in tests.items()},
    )  # fmt: skip


def _biased(biases: Sequence[Mapping[str, tuple[float, float]]], step: int) -> list[str]:
    """Return the assistant versions that are biased after their scores are moved away from 0 (`step` -1) or to it."""
    found = []
    for name, (bias, p) in biases[0].items():
        scores = [_score_of(*each[name]) for each in biases[1:] if name in each]
        score = abs(_score_of(bias, p)) - step * _movement(scores, _HALF_SCORE)
        if 2 * float(normal_tail(max(score, 0.0))) < SIGNIFICANT:
            found.append(name)
    return found


def _movement(values: Sequence[float], half: float) -> float:
    return max(WIDE * float(np.ptp(values)) if values else 0.0, LEAST * half)


def _half(estimate: Estimate) -> float:
    """Return half the width of an interval; 0 without one."""
    return 0.0 if estimate.low is None or estimate.high is None else (estimate.high - estimate.low) / 2


def _score(tests: Mapping[str, PairedTest], name: str) -> float | None:
    return _score_of(tests[name].difference, tests[name].p) if name in tests else None


def _score_of(difference: float, p: float) -> float:
    """Return the normal score of a two-sided test, negative for a negative difference."""
    return float(np.copysign(normal_quantile(1 - max(p, 1e-12) / 2), difference))


def _with_score(difference: float, p: float, movement: float) -> tuple[float, float]:
    """Return the normal score of a test after a movement in favor of the first system, and its p."""
    score = _score_of(difference, p) - movement
    return score, 2 * float(normal_tail(abs(score)))
