"""Alarms: days of live scores that differ from earlier days, or from the training data, by more than chance.

For each system and evaluator, a day is compared with the same weekdays before it. If these have too few conversations,
it is compared with the same part of the week (Monday to Friday, or the weekend), because people write differently on
weekends. The comparisons are:

- the mean score: a z-test with standard errors over conversations;
- the distribution of scores and of each feature: a Kolmogorov-Smirnov test on one reply per conversation, and the
  population stability index;
- the share of replies without a score; on the first weekend it is compared with all days.

Features are also compared with the training data, if it is known. All tests of one check are corrected
together (Holm). The current day is checked whenever its number of conversations has doubled; the k-th check spends
6/(π²k²) of the level, so that repeated checks raise no more false alarms. Scores of different evaluators are never
compared. Features are, if both evaluators measure them in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from math import log2, pi, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accord.evidence import Column
from accord.live.daily_sketch import DaySketch
from accord.statistics import CONFIDENCE, SURE, holm, normal_quantile, normal_tail
from accord.validation import SHIFT_THRESHOLD, ks_p_value, stability

Floats = NDArray[np.float64]

MIN_CONVERSATIONS = 30
"""Conversations that a day, and the earlier days together, need for a comparison."""
FINISHED_DAYS = 7
"""Finished days that are checked; an alarm is raised once, in the first check that finds it."""
PAST_WEEKS = 4
"""Weeks before a day that it is compared with."""
SATURDAY = 5
MEAN_EFFECT = 0.2
"""Smallest relevant change of a mean, in standard deviations of conversation means."""
UNSCORED_EFFECT = 0.05
"""Smallest relevant rise of the share of replies without a score."""


class SeriesKey(NamedTuple):
    """Key of a series of comparable days: scores of one evaluator for one system, on the same evidence columns."""

    evaluator: str
    system: str
    columns: tuple[Column, ...]


Features = Mapping[Column, Floats]
"""(n,) values of each feature."""
DailySeries = Mapping[SeriesKey, Mapping[str, DaySketch]]


@dataclass(frozen=True, slots=True)
class Alarm:
    """Significant and relevant difference of a day.

    Attributes:
        kind: `mean`, `scores`, `inputs`, `unlike` (inputs unlike the training data) or `unscored`.
        feature: Name of the feature for `inputs` and `unlike`, else empty.
        before, after: Mean of the earlier days and of the day; for `unscored`, shares.
        stability: Population stability index; `None` for means and shares.
        p: p-value, corrected over all tests of the check.
        change, low, high: Day minus earlier days with its 95% interval, for means and shares; else `None`.
    """

    kind: str
    system: str
    day: str
    evaluator: str
    feature: str
    before: float
    after: float
    stability: float | None
    p: float
    message: str
    change: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def key(self) -> str:
        """Key under which repeated checks find the same alarm; `unlike` has one key for all days."""
        day = "" if self.kind == "unlike" else self.day
        return "|".join((self.kind, self.system, day, self.feature, self.evaluator))

    def to_json(self) -> dict[str, Any]:
        """Return the alarm as a flat row."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Comparison:
    kind: str
    feature: str
    before: float
    after: float
    p: float
    is_relevant: bool
    stability: float | None = None
    error: float | None = None


def find_alarms(
    series: DailySeries,
    today: str,
    level: float = SURE,
    checks: dict[tuple[str, str, str], int] | None = None,
    training: Features | None = None,
) -> list[Alarm]:
    """Find alarms in the last finished days of each system, and in the current day.

    Args:
        series: Days by evaluator and system.
        today: ISO date of the current day.
        level: Probability of a false alarm per system and day.
        checks: Number of checks so far of each (evaluator, system, day); updated in place. `None` skips the current
            day.
        training: Features of the training data of the current evaluator.
    """
    alarms: list[Alarm] = []
    for key, days in sorted(series.items(), key=lambda item: item[0][:2]):
        finished = [day for day in sorted(days) if day < today]
        for day in [*finished[-FINISHED_DAYS:], *([today] if checks is not None and today in days else [])]:
            place, check = (key.evaluator, key.system, day), number_of_checks(days[day].conversations)
            if day == today and checks is not None:
                if check <= checks.get(place, 0):
                    continue
                checks[place] = check
            comparisons = _compare_day(key, day, series, training or {})
            adjusted_level = level * 6 / (pi * (check if day == today else check + 1)) ** 2
            corrected = holm([comparison.p for comparison in comparisons])
            alarms += [
                _alarm(comparison, key, day, p)
                for comparison, p in zip(comparisons, corrected, strict=True)
                if p < adjusted_level and comparison.is_relevant
            ]
    return alarms


def number_of_checks(conversations: int) -> int:
    """Return how often a day with a number of conversations is checked: at 30, 60, 120, ... conversations."""
    return int(log2(conversations / MIN_CONVERSATIONS)) + 1 if conversations >= MIN_CONVERSATIONS else 0


def _compare_day(key: SeriesKey, day: str, series: DailySeries, training: Features) -> list[_Comparison]:
    """Return all comparisons of a day with earlier days that have enough conversations."""
    days = series[key]
    now = days[day]
    if now.conversations < MIN_CONVERSATIONS:
        return []
    similar, earlier = _similar_days(days, day), _merge(days, _earlier_days(days, day))
    has_similar = similar.conversations >= MIN_CONVERSATIONS
    comparisons = [*_compare_means(similar, now), *_compare_scores(similar, now)] if has_similar else []
    if earlier.conversations >= MIN_CONVERSATIONS:
        comparisons.append(_compare_unscored(similar if has_similar else earlier, now))
    comparisons += _compare_features("inputs", key.columns, _past_features(key, day, series, similar), now)
    return [*comparisons, *_compare_features("unlike", key.columns, training, now)]


def _similar_days(days: Mapping[str, DaySketch], day: str) -> DaySketch:
    """Merge the same weekdays before a day; if they have too few conversations, the same part of the week."""
    weekday, earlier = _weekday(day), _earlier_days(days, day)
    same = _merge(days, [name for name in earlier if _weekday(name) == weekday])
    if same.conversations >= MIN_CONVERSATIONS:
        return same
    return _merge(days, [name for name in earlier if (_weekday(name) >= SATURDAY) == (weekday >= SATURDAY)])


def _earlier_days(days: Mapping[str, DaySketch], day: str) -> list[str]:
    """Return the days of the `PAST_WEEKS` before a day."""
    end = date.fromisoformat(day).toordinal()
    return [name for name in sorted(days) if end - 7 * PAST_WEEKS <= date.fromisoformat(name).toordinal() < end]


def _weekday(day: str) -> int:
    return date.fromisoformat(day).weekday()


def _merge(days: Mapping[str, DaySketch], names: Sequence[str]) -> DaySketch:
    merged = DaySketch()
    for name in names:
        merged.merge(days[name])
    return merged


def _compare_means(before: DaySketch, after: DaySketch) -> list[_Comparison]:
    old, new = before.mean(), after.mean()
    if old.value is None or new.value is None or not old.error or not new.error:
        return []
    error = sqrt(old.error**2 + new.error**2)
    z = (new.value - old.value) / error
    conversation_means = np.array([c.total / c.count for c in before.sample.values() if c.count])
    is_relevant = abs(new.value - old.value) >= MEAN_EFFECT * float(conversation_means.std())
    p = float(2 * normal_tail(abs(z)))
    return [_Comparison("mean", "", old.value, new.value, p, is_relevant, error=error)]


def _compare_scores(before: DaySketch, after: DaySketch) -> list[_Comparison]:
    old, new = before.sampled_values()[0], after.sampled_values()[0]
    enough = min(len(old), len(new)) >= MIN_CONVERSATIONS
    return [_compare_values("scores", "", old, new)] if enough else []


def _compare_features(kind: str, columns: Sequence[Column], before: Features, after: DaySketch) -> list[_Comparison]:
    """Compare each feature of a day with earlier values."""
    comparisons = []
    values = after.sampled_values()[1]
    for column, day_values in zip(columns if len(values) else (), values.T, strict=True):
        old, new = before.get(column, np.zeros(0)), day_values[np.isfinite(day_values)]
        if min(len(old), len(new)) >= MIN_CONVERSATIONS:
            comparisons.append(_compare_values(kind, column.name, old, new))
    return comparisons


def _past_features(key: SeriesKey, day: str, series: DailySeries, similar: DaySketch) -> Features:
    """Return the features of the similar days; if these are too few, also those measured for other evaluators."""
    pasts = [(key.columns, similar)]
    if similar.conversations < MIN_CONVERSATIONS:
        pasts = [
            (other.columns, _similar_days(days, day)) for other, days in series.items() if other.system == key.system
        ]
    parts: dict[Column, list[Floats]] = {}
    for columns, sketch in pasts:
        values = sketch.sampled_values()[1]
        for index, column in enumerate(columns if len(values) else ()):
            parts.setdefault(column, []).append(values[np.isfinite(values[:, index]), index])
    return {column: np.concatenate(arrays) for column, arrays in parts.items()}


def _compare_values(kind: str, feature: str, before: Floats, after: Floats) -> _Comparison:
    index = stability(before, after)
    p = ks_p_value(before, after)
    return _Comparison(kind, feature, float(before.mean()), float(after.mean()), p, index >= SHIFT_THRESHOLD, index)


def _compare_unscored(before: DaySketch, after: DaySketch) -> _Comparison:
    """Test for a rise of the share of replies without a score, with standard errors of ratios over conversations."""
    (old, old_error), (new, new_error) = before.unscored_share(), after.unscored_share()
    error = sqrt(old_error**2 + new_error**2)
    p = float(normal_tail((new - old) / error)) if error > 0 else float(new <= old)
    return _Comparison("unscored", "", old, new, p, new - old >= UNSCORED_EFFECT, error=error)


def _alarm(comparison: _Comparison, key: SeriesKey, day: str, p: float) -> Alarm:
    subject = {
        "mean": "the mean score",
        "scores": "the distribution of scores",
        "unscored": "the share of unscored replies",
        "inputs": f"the input {comparison.feature!r}",
        "unlike": f"the input {comparison.feature!r} is unlike the training data: it",
    }[comparison.kind]
    index = "" if comparison.stability is None else f", stability index {comparison.stability:.2f}"
    change = comparison.after - comparison.before
    half = None if comparison.error is None else float(normal_quantile((1 + CONFIDENCE) / 2)) * comparison.error
    ends = (None, None, None) if half is None else (change, change - half, change + half)
    size = "" if half is None else f", by {change:+.3f} [{change - half:+.3f}, {change + half:+.3f}]"
    message = (
        f"{key.system}, {day}: {subject} moved from {comparison.before:.3f} to {comparison.after:.3f}{size} "
        f"(p {p:.1e}{index})"
    )
    changes = comparison.before, comparison.after, comparison.stability
    return Alarm(comparison.kind, key.system, day, key.evaluator, comparison.feature, *changes, p, message, *ends)
