"""Monitoring of live scores: daily aggregation in the store, reports and alarms.

Each process aggregates its scores by system and day (`ScoreMonitor`) and writes the sketches to the store, where
reports and checks merge them.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from threading import Event, Lock, Thread
from typing import Any, NamedTuple, Self, TypedDict

from accord.edges import AccordError
from accord.evidence import Column, EvidenceTable
from accord.live.alarms import (
    FINISHED_DAYS,
    LEVEL,
    PAST_WEEKS,
    Alarm,
    DailySeries,
    SeriesKey,
    find_alarms,
)
from accord.live.daily_sketch import DaySketch, NameLimit
from accord.live.webhook import post_alarms
from accord.store import MonitoringTables, Store
from accord.validation import sample_one_per_group
from accord.values import Score, Unscored

MAX_SYSTEMS, MAX_OPEN_DAYS = 100, 200
"""Systems that are monitored separately, and days that a process aggregates at once."""
UNNAMED_SYSTEM = "not said"
REPORT_DAYS = 28
FLUSH_SECONDS, CHECK_SECONDS, STOP_SECONDS = 10.0, 300.0, 15.0
"""Seconds between writes to the store, between checks, and for a check under way when the thread stops."""


class SketchRow(TypedDict):
    """Row of the store: the sketch of one day, with the columns of its evidence."""

    key: str
    evaluator: str
    system: str
    day: str
    content: dict[str, Any]


class _DayKey(NamedTuple):
    evaluator: str
    system: str
    day: str


class ScoreMonitor:
    """Thread-safe aggregation of scores by evaluator, system and day.

    Args:
        evaluator: Signature of the evaluator.
        columns: Columns of its evidence.
    """

    def __init__(self, evaluator: str, columns: Sequence[Column]) -> None:
        self.evaluator, self.columns = evaluator, list(columns)
        self._columns = {evaluator: self.columns}
        self._days: dict[_DayKey, tuple[str, DaySketch]] = {}
        self._systems = NameLimit(MAX_SYSTEMS)
        self._changed: set[_DayKey] = set()
        self._lock, self._flush_lock = Lock(), Lock()

    def take_over(self, evaluator: str, columns: Sequence[Column]) -> None:
        """Switch to another evaluator; late scores of the previous one still count for its own days."""
        with self._lock:
            self.evaluator, self.columns = evaluator, list(columns)
            self._columns[evaluator] = self.columns

    def add(
        self,
        system: str | None,
        day: str,
        score: Score | Unscored,
        evidence: Mapping[str, float | None],
        evaluator: str | None = None,
    ) -> None:
        """Add a reply.

        Args:
            system: Name of the assistant.
            day: ISO date.
            score: Score of the reply.
            evidence: Features of the reply by column name.
            evaluator: Signature of the evaluator; by default the current one.
        """
        with self._lock:
            key = _DayKey(evaluator or self.evaluator, self._systems.limit(system or UNNAMED_SYSTEM), day)
            values = [evidence.get(column.name) for column in self._columns[key.evaluator]]
            if key not in self._days:
                self._days[key] = uuid.uuid4().hex, DaySketch()
            self._days[key][1].add(score, values)
            self._changed.add(key)

    def flush(self, store: Store) -> None:
        """Write changed sketches to the store, and drop the oldest days beyond `MAX_OPEN_DAYS`."""
        with self._flush_lock:  # an older sketch must not overwrite a newer one
            self._flush(store)

    def _flush(self, store: Store) -> None:
        with self._lock:
            rows = [self._row(key) for key in sorted(self._changed)]
            self._changed.clear()
        try:
            MonitoringTables(store).put_days(rows)
        except BaseException:
            with self._lock:
                self._changed.update(_DayKey(row["evaluator"], row["system"], row["day"]) for row in rows)
            raise
        with self._lock:
            for key in sorted(self._days.keys() - self._changed, key=lambda key: key.day)[:-MAX_OPEN_DAYS]:
                del self._days[key]  # further scores of that day start another sketch, which reports merge

    def _row(self, key: _DayKey) -> SketchRow:
        id, sketch = self._days[key]
        columns = [[column.name, column.signature] for column in self._columns[key.evaluator]]
        content = {**sketch.to_json(), "columns": columns}
        return {"key": id, "evaluator": key.evaluator, "system": key.system, "day": key.day, "content": content}


def load_series(store: Store, since: str) -> DailySeries:
    """Return the merged sketches of all processes from an ISO date on, by evaluator and system."""
    series: dict[SeriesKey, dict[str, DaySketch]] = {}
    for row in MonitoringTables(store).days(since):
        columns = tuple(Column(name, signature) for name, signature in row["content"].pop("columns"))
        days = series.setdefault(SeriesKey(row["evaluator"], row["system"], columns), {})
        days.setdefault(row["day"], DaySketch()).merge(DaySketch.from_json(row["content"]))
    return series


class DayRow(TypedDict):
    """Day of a system: mean score with its 95% interval, and the number of unscored replies by reason.

    The number of many conversations is estimated, with a 95% interval; few conversations are counted.
    """

    system: str
    day: str
    evaluator: str
    replies: int
    conversations: int
    conversations_low: int
    conversations_high: int
    mean: float | None
    low: float | None
    high: float | None
    unscored: dict[str, int]
    warned: int


class EvaluatorChange(TypedDict):
    """First day on which another evaluator scored a system."""

    system: str
    day: str
    evaluator: str


class UncertainReply(TypedDict):
    """Reply whose score has a high variance."""

    conversation: str
    turn: int | None
    system: str
    day: str
    score: float
    variance: float


class MonitoringReport(TypedDict):
    """Report on the scores of the last days; alarms are rows of the store."""

    days: list[DayRow]
    alarms: list[dict[str, Any]]
    evaluator_changes: list[EvaluatorChange]
    label_next: list[UncertainReply]


def report(
    store: Store,
    days: int = REPORT_DAYS,
    now: datetime | None = None,
    labels: int = 10,
    before: Callable[[Store], None] = lambda store: None,
) -> MonitoringReport:
    """Report the scores of the last days, the alarms, and replies to label next.

    Args:
        store: Store with the sketches and alarms.
        days: Number of days.
        now: Current time.
        labels: Number of replies to suggest for labeling: those with the highest variance.
        before: Called with the store first, to write pending sketches.
    """
    before(store)
    series = load_series(store, _date_before(days, now))
    rows = [_day_row(key, day, sketch) for key, sketches in series.items() for day, sketch in sketches.items()]
    return {
        "days": sorted(rows, key=lambda row: (row["system"], row["day"], row["evaluator"])),
        "alarms": [alarm for alarm in MonitoringTables(store).alarms() if alarm["day"] >= _date_before(days, now)],
        "evaluator_changes": _evaluator_changes(series),
        "label_next": _uncertain_replies(series)[:labels],
    }


def _day_row(key: SeriesKey, day: str, sketch: DaySketch) -> DayRow:
    mean, (low, high) = sketch.mean(), sketch.conversations_interval()
    return {
        "system": key.system,
        "day": day,
        "evaluator": key.evaluator,
        "replies": sketch.replies,
        "conversations": sketch.conversations,
        "conversations_low": low,
        "conversations_high": high,
        "mean": mean.mean,
        "low": mean.low,
        "high": mean.high,
        "unscored": dict(sketch.unscored),
        "warned": sketch.warned,
    }


def _uncertain_replies(series: DailySeries) -> list[UncertainReply]:
    """Return distinct replies by decreasing variance."""
    replies = {
        (name, turn): (variance, score, key.system, day)
        for key, sketches in series.items()
        for day, sketch in sketches.items()
        for variance, name, turn, score in sketch.uncertain
    }
    return [
        {"conversation": name, "turn": turn, "system": system, "day": day, "score": score, "variance": variance}
        for (name, turn), (variance, score, system, day) in sorted(replies.items(), key=lambda item: -item[1][0])
    ]


def _evaluator_changes(series: DailySeries) -> list[EvaluatorChange]:
    """Return the days on which another evaluator started; a step of the scores on that day may be due to it."""
    evaluators: dict[str, dict[str, set[str]]] = {}
    for key, sketches in series.items():
        for day in sketches:
            evaluators.setdefault(key.system, {}).setdefault(day, set()).add(key.evaluator)
    return [
        {"system": system, "day": day, "evaluator": evaluator}
        for system, days in sorted(evaluators.items())
        for previous, day in pairwise(sorted(days))
        for evaluator in sorted(days[day] - days[previous])
    ]


def raise_alarms(
    store: Store,
    level: float = LEVEL,
    checks: dict[tuple[str, str, str], int] | None = None,
    training: EvidenceTable | None = None,
    now: datetime | None = None,
) -> list[Alarm]:
    """Compare days with earlier days, and store new alarms.

    Args:
        store: Store with the sketches and alarms.
        level: Probability of a false alarm per system and day.
        checks: Number of checks so far, for repeated calls; see `find_alarms`. `None` checks finished days only.
        training: Evidence that the current evaluator learned from.
        now: Current time.

    Returns:
        The new alarms.
    """
    features = {}
    if training is not None:  # stored sketches name columns by name and signature alone
        for column, values in sample_one_per_group(training).items():
            features[Column(column.name, column.signature)] = values
    series = load_series(store, _date_before(7 * PAST_WEEKS + FINISHED_DAYS + 1, now))
    alarms = find_alarms(series, _date_before(0, now), level, checks, features)
    new = set(MonitoringTables(store).raise_alarms({alarm.key: alarm.to_json() for alarm in alarms}))
    return [alarm for alarm in alarms if alarm.key in new]


def _date_before(days: int, now: datetime | None) -> str:
    return ((now or datetime.now(UTC)).date() - timedelta(days=days)).isoformat()


def send_alarms(store: Store, send: Callable[[Sequence[Mapping[str, Any]]], None]) -> int:
    """Send the alarms that were not sent yet; return their number.

    An exception of `send` leaves them unsent.
    """
    unsent = MonitoringTables(store).alarms(unsent=True)
    if unsent:
        send(unsent)
        MonitoringTables(store).mark_sent([alarm["key"] for alarm in unsent])
    return len(unsent)


class MonitoringThread:
    """Thread that writes sketches to the store, and checks for alarms; a context manager.

    Args:
        monitor: Aggregated scores.
        store: Store of sketches and alarms.
        webhook: URL that receives alarms; `None` only stores them.
        level: Probability of a false alarm per system and day.
        training: Evidence that the evaluator learned from.
        on_alarm: Called with each new alarm.
        on_error: Called with the message of an error; the work is tried again in the next round.
        flush_seconds: Seconds between writes.
        check_seconds: Seconds between checks.
    """

    def __init__(
        self,
        monitor: ScoreMonitor,
        store: Store,
        webhook: str | None = None,
        level: float = LEVEL,
        training: EvidenceTable | None = None,
        on_alarm: Callable[[Alarm], None] = lambda alarm: None,
        on_error: Callable[[str], None] = lambda reason: None,
        flush_seconds: float = FLUSH_SECONDS,
        check_seconds: float = CHECK_SECONDS,
    ) -> None:
        self.monitor, self.store, self.webhook, self.level, self.training = monitor, store, webhook, level, training
        self.on_alarm, self.on_error = on_alarm, on_error
        self.flush_seconds, self.check_seconds = flush_seconds, check_seconds
        self._checks: dict[tuple[str, str, str], int] = {}
        self._stop = Event()
        self._thread = Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        last_check = time.monotonic()
        while not self._stop.wait(self.flush_seconds):
            self._attempt(lambda: self.monitor.flush(self.store))
            if time.monotonic() - last_check >= self.check_seconds:
                last_check = time.monotonic()
                self._attempt(self._check)

    def _check(self) -> None:
        for alarm in raise_alarms(self.store, self.level, self._checks, self.training):
            self.on_alarm(alarm)
        if self.webhook is not None:
            send_alarms(self.store, partial(post_alarms, self.webhook))

    def _attempt(self, work: Callable[[], None]) -> None:
        """Call a function and report its error, so that monitoring never ends by itself."""
        try:
            work()
        except AccordError as error:
            self.on_error(str(error))
        except Exception as error:
            self.on_error(f"{type(error).__name__}, which is a bug; please report it")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(STOP_SECONDS)
        self._attempt(lambda: self.monitor.flush(self.store))
