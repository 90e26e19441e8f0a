"""What is alarming: a day whose scores or inputs are unlike those of the days before, by more than chance.

For each system and evaluator a day is held against the same weekdays before it; where these have too few conversations,
against the same part of the week (Monday to Friday, or the weekend), else against none: people write otherwise on a
Sunday, and that is no news. Held against each other are the mean (a z-test of means whose errors are over
conversations), the distribution of scores and of each feature (Kolmogorov-Smirnov on one reply a conversation, and
population stability), and the share of replies without a score, which on the first weekend is held against all days.
All tests of one look are corrected together (Holm). Inputs are also held against those that were learned from, where
they are known. The present day is looked at when its conversations have doubled; the k-th look spends 6/(π²k²) of the
level, so that looking often raises no more false alarms. Scores of different evaluators are never compared: a new
evaluator begins its own past. Inputs are, as far as both measure them in the same way.
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
from accord.live.monitoring.daily_sketch import Day
from accord.statistics import holm, normal_tail
from accord.validation import SHIFTED, chance, stability

Floats = NDArray[np.float64]

LEVEL = 0.01
FEWEST = 30
"""Conversations that a day needs to be looked at, and the days before it together."""
FINISHED = 7
"""The last finished days are looked at: an alarm is raised once, however often it is found."""
PAST = 4
"""Weeks that a day is held against."""
SATURDAY = 5
MATTERS = 0.2
"""A mean has moved where it moved by so many standard deviations of conversations' means."""
RISEN = 0.05
"""The rise of the share of unscored replies that matters."""
UNLIKE = "unlike"


class Key(NamedTuple):
    """Whose days are comparable: one evaluator's scores of one system, on evidence made in one way."""

    evaluator: str
    system: str
    columns: tuple[Column, ...]


Features = Mapping[Column, Floats]
"""(n,) values of each feature."""
Daily = Mapping[Key, Mapping[str, Day]]


@dataclass(frozen=True, slots=True)
class Alarm:
    """Something that moved.

    Attributes:
        kind: `mean`, `scores`, `inputs`, `unlike` or `unscored`.
        system, day, evaluator: Where.
        about: The feature, of `inputs` and `unlike`.
        then, now: Means (of `unscored`, shares) of the days before and of the day.
        stability: Population stability index; `None` for means and shares.
        p: Corrected over all tests of the look.
        said: The same in a sentence.
    """

    kind: str
    system: str
    day: str
    evaluator: str
    about: str
    then: float
    now: float
    stability: float | None
    p: float
    said: str

    @property
    def key(self) -> str:
        """What makes it one alarm, however often it is found; being unlike what was learned from is no day's news."""
        day = "" if self.kind == UNLIKE else self.day
        return "|".join((self.kind, self.system, day, self.about, self.evaluator))

    def to_json(self) -> dict[str, Any]:
        """A flat row."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Test:
    kind: str
    about: str
    then: float
    now: float
    p: float
    matters: bool
    stability: float | None = None


def alarms(
    daily: Daily,
    today: str,
    level: float = LEVEL,
    looked: dict[tuple[str, str, str], int] | None = None,
    learned: Features | None = None,
) -> list[Alarm]:
    """What is alarming in the last finished days of each system, and in the present one.

    Args:
        daily: Days by evaluator and system.
        today: The present day (ISO), which is not over.
        level: The chance of a false alarm a system and day.
        looked: How often each (evaluator, system, day) was looked at; changed in place. Without it the present day
            is left alone.
        learned: What the present evaluator learned from.
    """
    found: list[Alarm] = []
    for key, series in sorted(daily.items(), key=lambda item: item[0][:2]):
        finished = [day for day in sorted(series) if day < today]
        for day in [*finished[-FINISHED:], *([today] if looked is not None and today in series else [])]:
            place, look = (key.evaluator, key.system, day), looks(series[day].conversations)
            if day == today and looked is not None:
                if look <= looked.get(place, 0):
                    continue
                looked[place] = look
            tests = _tests(key, day, daily, learned or {})
            allowed = level * 6 / (pi * (look if day == today else look + 1)) ** 2
            for test, p in zip(tests, holm([test.p for test in tests]), strict=True):
                if p < allowed and test.matters:
                    found.append(_alarm(test, key, day, p))
    return found


def looks(conversations: int) -> int:
    """How often a day with so many conversations has been looked at: at 30, 60, 120, ..."""
    return int(log2(conversations / FEWEST)) + 1 if conversations >= FEWEST else 0


def _tests(key: Key, day: str, daily: Daily, learned: Features) -> list[_Test]:
    """Every comparison of a day with those before it; none where either has too few conversations."""
    now, series = daily[key][day], daily[key]
    if now.conversations < FEWEST:
        return []
    then, always = _before(series, day), _whole(series, _days_before(series, day))
    tests = [] if then.conversations < FEWEST else [*_means(then, now), *_scores(then, now)]
    if always.conversations >= FEWEST:
        tests += _unscored(then if then.conversations >= FEWEST else always, now)
    before = _features(key, day, daily, then)
    return [*tests, *_inputs("inputs", key.columns, before, now), *_inputs(UNLIKE, key.columns, learned, now)]


def _before(series: Mapping[str, Day], day: str) -> Day:
    """The days before that are like this one: the same weekdays, or where these are few the same part of the week."""
    weekday, earlier = _weekday(day), _days_before(series, day)
    same = _whole(series, [name for name in earlier if _weekday(name) == weekday])
    if same.conversations >= FEWEST:
        return same
    return _whole(series, [name for name in earlier if (_weekday(name) >= SATURDAY) == (weekday >= SATURDAY)])


def _days_before(series: Mapping[str, Day], day: str) -> list[str]:
    """The days of the weeks before."""
    now = date.fromisoformat(day).toordinal()
    return [name for name in sorted(series) if now - 7 * PAST <= date.fromisoformat(name).toordinal() < now]


def _weekday(day: str) -> int:
    return date.fromisoformat(day).weekday()


def _whole(series: Mapping[str, Day], names: Sequence[str]) -> Day:
    """Some days, added up."""
    whole = Day()
    for name in names:
        whole.merge(series[name])
    return whole


def _means(then: Day, now: Day) -> list[_Test]:
    before, after = then.mean(), now.mean()
    if before.mean is None or after.mean is None or not before.error or not after.error:
        return []
    z = (after.mean - before.mean) / sqrt(before.error**2 + after.error**2)
    each = np.array([sampled.total / sampled.count for sampled in then.kept.values() if sampled.count])
    matters = abs(after.mean - before.mean) >= MATTERS * float(each.std())
    return [_Test("mean", "", before.mean, after.mean, float(2 * normal_tail(abs(z))), matters)]


def _scores(then: Day, now: Day) -> list[_Test]:
    before, after = then.drawn()[0], now.drawn()[0]
    return [_moved("scores", "", before, after)] if min(len(before), len(after)) >= FEWEST else []


def _inputs(kind: str, columns: Sequence[Column], then: Features, now: Day) -> list[_Test]:
    """Each feature of the day, against those before."""
    found = []
    values = now.drawn()[1]
    for column, after in zip(columns if len(values) else (), values.T, strict=True):
        before, after = then.get(column, np.zeros(0)), after[np.isfinite(after)]
        if min(len(before), len(after)) >= FEWEST:
            found.append(_moved(kind, column.name, before, after))
    return found


def _features(key: Key, day: str, daily: Daily, then: Day) -> Features:
    """Features of the days before; under another evaluator, that measures them in the same way, where there are few."""
    pasts = [(key.columns, then)]
    if then.conversations < FEWEST:
        pasts = [(other.columns, _before(days, day)) for other, days in daily.items() if other.system == key.system]
    parts: dict[Column, list[Floats]] = {}
    for columns, past in pasts:
        values = past.drawn()[1]
        for place, column in enumerate(columns if len(values) else ()):
            parts.setdefault(column, []).append(values[np.isfinite(values[:, place]), place])
    return {column: np.concatenate(each) for column, each in parts.items()}


def _moved(kind: str, about: str, then: Floats, now: Floats) -> _Test:
    index = stability(then, now)
    return _Test(kind, about, float(then.mean()), float(now.mean()), chance(then, now), index >= SHIFTED, index)


def _unscored(then: Day, now: Day) -> list[_Test]:
    """A rise of the share of replies without a score; its error is that of a ratio over conversations."""
    (before, was), (after, error) = then.unscored_share(), now.unscored_share()
    spread = sqrt(was**2 + error**2)
    p = float(normal_tail((after - before) / spread)) if spread > 0 else float(after <= before)
    return [_Test("unscored", "", before, after, p, after - before >= RISEN)]


def _alarm(test: _Test, key: Key, day: str, p: float) -> Alarm:
    what = {
        "mean": "the mean score", "scores": "the distribution of scores", "unscored": "the share of unscored replies",
        "inputs": f"the input {test.about!r}",
    }.get(test.kind)  # fmt: skip
    what = what or f"the input {test.about!r} is unlike what was learned from: it"
    index = "" if test.stability is None else f", stability index {test.stability:.2f}"
    said = f"{key.system}, {day}: {what} moved from {test.then:.3f} to {test.now:.3f} (p {p:.1e}{index})"
    return Alarm(
        test.kind, key.system, day, key.evaluator, test.about, test.then, test.now, test.stability, p, said
    )  # fmt: skip
