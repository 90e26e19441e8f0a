"""Drift attributed to the system or the judge: false alarms, delays and wrong attributions on planted streams.

    python benchmarks/drift.py --json OUT [--only drift-quiet,drift-delay] [--quick]

A stream has 40 conversations a day with lower scores on Mondays and higher ones at weekends, and 40 anchors that are
judged again every day (`weekly`: every seventh day, also on that of the change). Each judging adds noise of .4
standard deviations of a conversation's score, also the one that the evaluator learned from. `rounded` streams have
the scores 1 to 5 alone, so that most ranks are ties. In `busy` streams, all conversations of a day move together by a
random amount with a standard deviation of .2.

drift-quiet    streams without a change that have an alarm on any of 60 days.
drift-delay    days from the evening of a planted change on day 28 to the alarm and to its attribution, for changes in
               standard deviations of a conversation's score; streams with a wrong attribution on any of 42 days, and
               on the last of them; streams without one, and the share of 95% intervals of the judge's share that
               contain the true one when it is first stated, and on the last day.
drift-parts    the same for changes of which the assistant and the judge have unequal, equal or opposite parts: streams
               that name the larger part and the smaller one on any of 42 days and on the last; if both are equal, each
               name counts as the smaller one. Shares of the 95% intervals of both parts that contain the true ones 3,
               10 and 41 days after the change, and streams whose interval of the assistant's part excludes 0 then.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from datetime import date, timedelta
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from harness import Row, chosen, finish, options, rows_of_part

from accord.statistics import CONFIDENCE, share_interval
from accord.store import Anchor
from accord.validation import attribution
from accord.values import Target

PARTS = ("drift-quiet", "drift-delay", "drift-parts")
FIRST = date(2026, 1, 5)
DAYS, CHANGE, PATIENCE = 60, 28, 42
CONVERSATIONS, ANCHORS = 40, 40
MEAN, SPREAD, NOISE, BUSY = 3.0, 0.6, 0.4, 0.2
LIMITS = (1.0, 5.0)
SHIFTS = (0.25, 0.5, 1.0)
KINDS = {"system": (1.0, 0.0), "judge": (0.0, 1.0)}
"""Parts of a change that are the system's and the judge's."""
UNEQUAL = {
    "assistant 2/3": (0.4, 0.2), "judge 2/3": (0.2, 0.4), "equal": (0.3, 0.3), "assistant, opposite": (-0.6, 0.2),
    "judge, opposite": (-0.2, 0.6), "equal, opposite": (-0.4, 0.4),
}  # fmt: skip
"""Parts of the assistant and of the judge in standard deviations."""
READ_ON = (3, 10, PATIENCE - 1)
"""Days after the change on which intervals of parts are read."""
STREAMS, QUIET_STREAMS, PARTS_STREAMS = 20, 500, 50
COLUMNS = (
    "what", "kind", "shift", "streams", "alarms", "share", "alarm_median", "alarm_90", "attributed_median",
    "attributed_90", "wrong", "wrong_last", "never", "share_held", "share_held_last", "larger", "larger_last",
    "smaller", "smaller_last", "judge_held_10", "system_held_10", "system_moved_10",
)  # fmt: skip


class Stream:
    """Planted scores of traffic and anchors by day."""

    def __init__(
        self,
        seed: int,
        days: int,
        system: float = 0.0,
        judge: float = 0.0,
        every: int = 1,
        is_rounded: bool = False,
        busy: float = 0.0,
    ) -> None:
        """`system` and `judge` are changes from day `CHANGE` on, in standard deviations."""
        rng = np.random.default_rng(seed)

        def judged(quality: np.ndarray, change: float) -> list[float]:
            scores = np.clip(quality + (change + rng.normal(0, NOISE, len(quality))) * SPREAD, *LIMITS)
            return [float(each) for each in (scores.round() if is_rounded else scores)]

        quality = rng.normal(MEAN, SPREAD, ANCHORS)
        then = judged(quality, 0.0)
        self.traffic: list[attribution.ScoredConversation] = []
        self.anchors: list[Anchor] = []
        for number in range(days):
            day, weekday = _day(number), (FIRST + timedelta(days=number)).weekday()
            is_changed = number >= CHANGE
            mean = MEAN + 0.3 * SPREAD * (weekday >= 5) - 0.3 * SPREAD * (weekday == 0)
            moved = (system + judge) * is_changed + busy * rng.normal()
            scores = judged(rng.normal(mean, SPREAD, CONVERSATIONS), moved)
            self.traffic += [
                attribution.ScoredConversation(f"{seed} {number} {place}", "bot", day, score)
                for place, score in enumerate(scores)
            ]
            if number % every == 0:
                again = judged(quality, judge * is_changed)
                self.anchors += [
                    Anchor("", Target(f"{seed} anchor {place}"), day, *pair)
                    for place, pair in enumerate(zip(then, again, strict=True))
                ]

    def tests(self) -> attribution.DriftTests:
        """Return the tests of all days; they need no later days, so `on` reads those of any day from them."""
        return attribution.drift_tests(self.traffic, self.anchors, 1 - CONFIDENCE)

    def on(self, number: int, tests: attribution.DriftTests) -> attribution.Attribution:
        """Return the attribution in the evening of a day."""
        day = _day(number)
        judged = [each for each in self.anchors if each.day <= day]
        return attribution.attribute(self.traffic, judged, LIMITS, _day(number + 1), tests=tests.until(day))


def _day(number: int) -> str:
    return (FIRST + timedelta(days=number)).isoformat()


def is_alarm(seed: int, every: int = 1, is_rounded: bool = False, busy: float = 0.0) -> bool:
    """Return True if a quiet stream has an alarm on any day."""
    tests = Stream(seed, DAYS, every=every, is_rounded=is_rounded, busy=busy).tests()
    return tests.moved.is_alarm or tests.judged.is_alarm


def quiet(streams: int, pool: Executor) -> Iterator[Row]:
    """Yield the share of quiet streams with an alarm, for each kind of stream."""
    kinds: dict[str, dict[str, Any]] = {
        "daily": {}, "weekly, rounded": {"every": 7, "is_rounded": True}, "daily, busy": {"busy": BUSY},
    }  # fmt: skip
    for kind, world in kinds.items():
        work = partial(is_alarm, **world)
        found = list(pool.map(work, range(streams), chunksize=5))
        interval = share_interval(found, np.arange(streams))
        yield {
            "what": "drift-quiet", "kind": kind, "streams": streams, "alarms": sum(found),
            "share": interval.value, "share_low": interval.low, "share_high": interval.high,
        }  # fmt: skip


def delays(streams: int, pool: Executor) -> Iterator[Row]:
    """Yield the delays of alarms and attributions after a planted change."""
    kinds: list[tuple[str, str, dict[str, Any]]] = [(name, name, {}) for name in KINDS]
    kinds += [("judge", "judge, weekly", {"every": 7}), ("system", "system, busy", {"busy": BUSY})]
    for (name, kind, world), shift in product(kinds, SHIFTS):
        work = partial(delay, kind=name, shift=shift, **world)
        rows = list(pool.map(work, range(streams), chunksize=5))
        alarms, attributed = [row[0] for row in rows], [row[1] for row in rows]
        wrong, held = [[row[2][place] for row in rows] for place in (0, 1)], [row[3] for row in rows]
        yield {
            "what": "drift-delay", "kind": kind, "shift": shift, "streams": streams, **_quantiles("alarm", alarms),
            **_quantiles("attributed", attributed), "wrong": sum(wrong[0]), "wrong_last": sum(wrong[1]),
            "never": attributed.count(None), "share_held": _share(each[0] for each in held if each),
            "share_held_last": _share(each[-1] for each in held if each),
        }  # fmt: skip


def delay(
    seed: int, kind: str, shift: float, every: int = 1, busy: float = 0.0
) -> tuple[int | None, int | None, tuple[bool, bool], list[bool]]:
    """Return the delays of the alarm and its attribution in days, and two findings on the days after the change.

    These are: True if any attribution is wrong, and if the last is; and for each day with a share of the judge, True
    if its interval holds.
    """
    system, judge = (part * shift for part in KINDS[kind])
    stream = Stream(seed, CHANGE + PATIENCE, system, judge, every, busy=busy)
    tests, alarm, attributed, wrong, held = stream.tests(), None, None, [False], list[bool]()
    for number in range(PATIENCE):
        found = stream.on(CHANGE + number, tests)
        alarm = number if alarm is None and found.is_alarm else alarm
        if found.outcome not in ("system", "judge"):
            wrong.append(False)
            continue
        attributed = number if attributed is None else attributed
        wrong.append(found.outcome != kind)
        share = found.judge_share
        if share.low is not None and share.high is not None:
            held.append(share.low <= KINDS[kind][1] <= share.high)
    return alarm, attributed, (any(wrong), wrong[-1]), held


def parts(streams: int, pool: Executor) -> Iterator[Row]:
    """Yield the named parts, and the coverage of their intervals, for changes with two parts."""
    for (kind, (system, judge)), busy in product(UNEQUAL.items(), (0.0, BUSY)):
        rows = list(pool.map(partial(named, system=system, judge=judge, busy=busy), range(streams), chunksize=5))
        row: Row = {"what": "drift-parts", "kind": f"{kind}, busy" if busy else kind, "system": system, "judge": judge,
                    "streams": streams}  # fmt: skip
        for place, name in enumerate(("larger", "smaller")):
            row[name] = sum(each[0][place] for each in rows)
            row[f"{name}_last"] = sum(each[1][place] for each in rows)
        for place, name in enumerate(("judge_held", "system_held", "system_moved")):
            for nth, day in enumerate(READ_ON):
                row[f"{name}_{day}"] = _share(each[2][nth][place] for each in rows if each[2][nth])
        yield row


def named(
    seed: int, system: float, judge: float, busy: float
) -> tuple[tuple[bool, bool], tuple[bool, bool], list[tuple[bool, ...]]]:
    """Return if the larger and the smaller part of a change are named on any day, the same for the last day, and facts.

    These are, for each of the days `READ_ON`, nothing without a change, or: True if the interval of the judge's part
    holds, if the interval of the assistant's part holds, and if the latter excludes 0.
    """
    stream = Stream(seed, CHANGE + PATIENCE, system, judge, busy=busy)
    tests, width = stream.tests(), LIMITS[1] - LIMITS[0]
    larger = "" if abs(system) == abs(judge) else "system" if abs(system) > abs(judge) else "judge"
    outcomes, facts = list[str](), list[tuple[bool, ...]]()
    for number in range(PATIENCE):
        found = stream.on(CHANGE + number, tests)
        outcomes.append(found.outcome)
        if number in READ_ON:
            ends = [(part.low, part.high) for part in (found.judge_change, found.system_change)]
            shifts = (judge * SPREAD / width, system * SPREAD / width, 0.0)
            known = [(low, high) for low, high in (*ends, ends[1]) if low is not None and high is not None]
            held = [low <= shift <= high for (low, high), shift in zip(known, shifts, strict=False)]
            facts.append((held[0], held[1], not held[2]) if len(held) == 3 else ())
    is_named = [(each == larger, each in ("system", "judge") and each != larger) for each in outcomes]
    return (any(each[0] for each in is_named), any(each[1] for each in is_named)), is_named[-1], facts


def _share(held: Iterable[bool]) -> float | None:
    found = list(held)
    return float(np.mean(found)) if found else None


def _quantiles(name: str, delays: Sequence[int | None]) -> Row:
    """Return the median and the 90% quantile of delays in days: 0 is the evening of the day of the change."""
    days = [each for each in delays if each is not None]
    if not days:
        return {f"{name}_median": None, f"{name}_90": None}
    return {f"{name}_median": float(np.median(days)), f"{name}_90": float(np.quantile(days, 0.9))}


def main() -> None:
    """Run the parts and print their rows."""
    parser = options("drift", __doc__ or "", PARTS)
    asked = parser.parse_args()
    names = chosen(parser, asked.only, PARTS)
    few = 5 if asked.quick else None
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        run: dict[str, Callable[[], Iterator[Row]]] = {
            "drift-quiet": lambda: quiet(asked.limit or few or QUIET_STREAMS, pool),
            "drift-delay": lambda: delays(asked.limit or few or STREAMS, pool),
            "drift-parts": lambda: parts(asked.limit or few or PARTS_STREAMS, pool),
        }
        rows = [row for part in names for row in rows_of_part(part, run[part])]
    finish("drift", rows, COLUMNS, asked.json)


if __name__ == "__main__":
    main()
