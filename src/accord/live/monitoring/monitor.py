"""What was scored, a system and a day at a time: added up by each process, kept in the store, and told together."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from threading import Lock
from typing import Any, NamedTuple, TypedDict

from accord.evidence import Column, EvidenceTable
from accord.live.monitoring.alarms import FINISHED, LEVEL, PAST, Alarm, Daily, Features, Key, alarms
from accord.live.monitoring.daily_sketch import Day, Names
from accord.store import MonitoringTables, Store
from accord.validation import one_per_group
from accord.values import Score, Unscored

SYSTEMS, DAYS_OPEN = 100, 200
"""The most systems that are watched apart, and the most days that a process adds up at once."""
NOT_SAID = "not said"
BACK = 28
"""Days that a report looks back."""


class WatchedDay(TypedDict):
    """A row of the store: a system's day as `Day.to_json` has it, with the columns of its evidence."""

    key: str
    evaluator: str
    system: str
    day: str
    content: dict[str, Any]


class _Place(NamedTuple):
    """A day of a system, as one evaluator scored it."""

    evaluator: str
    system: str
    day: str


class Watch:
    """Adds up what is scored, by whose scores they are; may be used from several threads."""

    def __init__(self, evaluator: str, columns: Sequence[Column]) -> None:
        """`evaluator` is the signature of its scores; `columns` say how the evidence is made."""
        self.evaluator, self.columns = evaluator, list(columns)
        self._columns = {evaluator: self.columns}
        self._days: dict[_Place, tuple[str, Day]] = {}
        self._systems = Names(SYSTEMS)
        self._changed: set[_Place] = set()
        self._lock, self._flushing = Lock(), Lock()

    def take_over(self, evaluator: str, columns: Sequence[Column]) -> None:
        """Another evaluator scores from now on; what the one before scored is added to its own days still."""
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
        """Take a reply into account; `day` is an ISO date, and `evaluator` who scored it, where not the present one."""
        with self._lock:
            place = _Place(evaluator or self.evaluator, self._systems.of(system or NOT_SAID), day)
            values = [evidence.get(column.name) for column in self._columns[place.evaluator]]
            if place not in self._days:
                self._days[place] = uuid.uuid4().hex, Day()
            self._days[place][1].add(score, values)
            self._changed.add(place)

    def flush(self, store: Store) -> None:
        """Put what changed into the store; days beyond `DAYS_OPEN` are let go of, the oldest first."""
        with self._flushing:  # an older sketch never takes the place of a newer one
            self._flush(store)

    def _flush(self, store: Store) -> None:
        with self._lock:
            rows = [self._row(place) for place in sorted(self._changed)]
            self._changed.clear()
        try:
            MonitoringTables(store).put_days(rows)
        except BaseException:
            with self._lock:
                self._changed.update(_Place(row["evaluator"], row["system"], row["day"]) for row in rows)
            raise
        with self._lock:
            for place in sorted(self._days.keys() - self._changed, key=lambda each: each.day)[:-DAYS_OPEN]:
                del self._days[place]  # more of that day would begin another sketch, to be added to this one

    def _row(self, place: _Place) -> WatchedDay:
        key, day = self._days[place]
        columns = [[column.name, column.signature] for column in self._columns[place.evaluator]]
        content = {**day.to_json(), "columns": columns}
        return {"key": key, "evaluator": place.evaluator, "system": place.system, "day": place.day, "content": content}


def daily(store: Store, since: str) -> Daily:
    """All days from `since` (ISO) on: the sketches of all processes added up, by evaluator and system."""
    found: dict[Key, dict[str, Day]] = {}
    for row in MonitoringTables(store).days(since):
        columns = tuple(Column(name, signature) for name, signature in row["content"]["columns"])
        days = found.setdefault(Key(row["evaluator"], row["system"], columns), {})
        days.setdefault(row["day"], Day()).merge(Day.from_json(row["content"]))
    return found


class DayRow(TypedDict):
    """A system's day: its mean score with the 95 % interval, and why replies have no score, counted.

    Of many conversations the number is estimated, with its 95 % interval; that of few is counted, and both its ends.
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


class Change(TypedDict):
    """The day from which on a system was scored by another evaluator."""

    system: str
    day: str
    evaluator: str


class Unsure(TypedDict):
    """A reply whose score has a high variance."""

    conversation: str
    turn: int | None
    system: str
    day: str
    score: float
    variance: float


class WatchReport(TypedDict):
    """What was scored in the last days; alarms are as the store keeps them."""

    days: list[DayRow]
    alarms: list[dict[str, Any]]
    evaluator_changes: list[Change]
    label_next: list[Unsure]


def report(
    store: Store,
    days: int = BACK,
    now: datetime | None = None,
    labels: int = 10,
    before: Callable[[Store], None] = lambda store: None,
) -> WatchReport:
    """What was scored in the last days, alarms raised, and what to label next, as JSON.

    Args:
        store: Where days are kept.
        days: To look back.
        now: The present.
        labels: How many replies to suggest for labelling: those the evaluator is least sure of.
        before: Called with the store first: to keep what is not kept yet.
    """
    before(store)
    found = daily(store, _back(days, now))
    rows: list[DayRow] = [
        {
            "system": key.system, "day": day, "evaluator": key.evaluator, "replies": each.replies,
            "conversations": each.conversations, "conversations_low": least, "conversations_high": most,
            "mean": mean.mean, "low": mean.low, "high": mean.high,
            "unscored": dict(each.unscored), "warned": each.warned,
        }
        for key, series in found.items()
        for day, each in series.items()
        for mean, (least, most) in [(each.mean(), each.conversations_between())]
    ]  # fmt: skip
    return {
        "days": sorted(rows, key=lambda row: (row["system"], row["day"], row["evaluator"])),
        "alarms": [alarm for alarm in MonitoringTables(store).alarms() if alarm["day"] >= _back(days, now)],
        "evaluator_changes": _changes(found),
        "label_next": _least_sure(found)[:labels],
    }


def _least_sure(found: Daily) -> list[Unsure]:
    """Replies that the evaluator is least sure of, each once, the least sure first."""
    unsure = {
        (name, turn): (variance, value, key.system, day)
        for key, series in found.items()
        for day, each in series.items()
        for variance, name, turn, value in each.unsure
    }
    return [
        {"conversation": name, "turn": turn, "system": system, "day": day, "score": value, "variance": variance}
        for (name, turn), (variance, value, system, day) in sorted(unsure.items(), key=lambda item: -item[1][0])
    ]


def _changes(found: Daily) -> list[Change]:
    """Days from which on a system was scored by another evaluator: a step there is the evaluator's."""
    scored_by: dict[str, dict[str, set[str]]] = {}
    for key, series in found.items():
        for day in series:
            scored_by.setdefault(key.system, {}).setdefault(day, set()).add(key.evaluator)
    return [
        {"system": system, "day": day, "evaluator": evaluator}
        for system, days in sorted(scored_by.items())
        for before, day in pairwise(sorted(days))
        for evaluator in sorted(days[day] - days[before])
    ]


def see_to(
    store: Store,
    level: float = LEVEL,
    looked: dict[tuple[str, str, str], int] | None = None,
    learned: EvidenceTable | None = None,
    now: datetime | None = None,
) -> list[Alarm]:
    """Compare days with those before, and keep what is alarming.

    Args:
        store: Where days and alarms are kept.
        level: The chance of a false alarm that a system and day may have.
        looked: How often each day was looked at; kept by whoever calls again and again. Without it, finished days
            alone are looked at.
        learned: The evidence that the present evaluator learned from.
        now: The present.

    Returns:
        The alarms that are new.
    """
    known = {} if learned is None else _by_column(learned)
    since = _back(7 * PAST + FINISHED + 1, now)
    found = alarms(daily(store, since), _back(0, now), level, looked, known)
    new = set(MonitoringTables(store).raise_alarms({alarm.key: alarm.to_json() for alarm in found}))
    return [alarm for alarm in found if alarm.key in new]


def _by_column(table: EvidenceTable) -> Features:
    """What each column was in one text of each group, under its name and how it is made, as days are kept."""
    return {Column(column.name, column.signature): values for column, values in one_per_group(table).items()}


def tell(store: Store, send: Callable[[Sequence[Mapping[str, Any]]], None]) -> int:
    """Send the alarms that nobody was told of yet; returns how many. What `send` raises leaves them for next time."""
    unsent = MonitoringTables(store).alarms(unsent=True)
    if unsent:
        send(unsent)
        MonitoringTables(store).mark_sent([alarm["key"] for alarm in unsent])
    return len(unsent)


def _back(days: int, now: datetime | None) -> str:
    return ((now or datetime.now(UTC)).date() - timedelta(days=days)).isoformat()
