"""Monitoring of live scores: daily aggregation in the store, reports and alarms.

Each process aggregates its scores by system and day (`ScoreMonitor`) and writes the sketches to the store, where
reports and checks merge them.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from threading import Event, Lock, Thread
from typing import IO, TYPE_CHECKING, Any, NamedTuple, NotRequired, Self, TypedDict

from accord.edges import AccordError, BadInput, check_address, is_web_address, is_web_page, one_line
from accord.evidence import Column, EvidenceTable
from accord.live.alarms import FINISHED_DAYS, PAST_WEEKS, Alarm, DailySeries, SeriesKey, find_alarms
from accord.live.daily_sketch import DaySketch, NameLimit
from accord.models import CallFailed, send_request
from accord.statistics import SURE
from accord.store import COUNTED, Mart, MonitoringTables, Store
from accord.validation import sample_one_per_group
from accord.values import Score, Signature, Target, Unscored

if TYPE_CHECKING:
    from accord.decisions import BatchChange

TIMEOUT_SECONDS, ATTEMPTS = 10.0, 3


class WebhookError(AccordError):
    """A webhook did not accept alarms; they are sent again at the next check."""


def post_alarms(
    url: str, alarms: Sequence[Mapping[str, Any]], wait: float = 1.0, seconds: float = TIMEOUT_SECONDS
) -> None:
    """Post alarms as `{"text": MESSAGES, "alarms": [...]}`, the format of chat webhooks.

    Args:
        url: Address of the webhook.
        alarms: Rows of alarms.
        wait: Seconds before the second attempt; doubled for each further attempt.
        seconds: Timeout of each attempt.

    Raises:
        BadInput: The URL is invalid.
        NotSent: A project names the address, and the user has not confirmed it.
        WebhookError: All attempts failed.
    """
    if not is_web_address(url):
        raise BadInput("a webhook is an address that begins with http:// or https://")
    check_address(url)
    text = "\n".join(one_line(str(alarm["message"])) for alarm in alarms)
    body = json.dumps({"text": text, "alarms": list(alarms)}).encode()
    error = ""
    for attempt in range(ATTEMPTS):
        error = _post(url, body, seconds)
        if not error:
            return
        if error.startswith("it answered 4") and not error.endswith("429"):
            break
        if attempt + 1 < ATTEMPTS:
            time.sleep(wait * 2**attempt)
    raise WebhookError(f"the webhook did not accept the alarms ({error}); they are sent again at the next check")


def _post(url: str, body: bytes, seconds: float) -> str:
    """Post within a time limit; return the error, or an empty text."""
    headers = {"Content-Type": "application/json"}
    try:
        reply = send_request("POST", url, body, headers, seconds=seconds, most_bytes=512)
    except CallFailed as error:
        return error.failure.detail
    if not 200 <= reply.status < 300:
        return f"it answered {reply.status}"
    return "it answered with a web page" if is_web_page(reply.content) else ""


# --- webhook ---------------------------------------------------------------------------------------------------------


MAX_SYSTEMS, MAX_OPEN_DAYS = 100, 200
"""Systems that are monitored separately, and days that a process aggregates at once."""
UNNAMED_SYSTEM = "unknown"
REPORT_DAYS = 28
FLUSH_SECONDS, CHECK_SECONDS, STOP_SECONDS = 10.0, 300.0, 15.0
"""Seconds between writes to the store, between checks, and for a check under way when the thread stops."""


class _DayKey(NamedTuple):
    evaluator: str
    system: str
    day: str


class MonitoredReply(NamedTuple):
    """A reply of an assistant on an ISO date, with its features by column name; see `ScoreMonitor.add`."""

    system: str | None
    day: str
    score: Score | Unscored
    evidence: Mapping[str, float | None]
    evaluator: str | None = None


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
        self._place: tuple[str, str] | None = None
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
        """Add a reply of an assistant on an ISO date, with its features by column name.

        The evaluator is given by its signature; by default it is the current one.
        """
        self.add_all([MonitoredReply(system, day, score, evidence, evaluator)])

    def add_all(self, replies: Sequence[MonitoredReply], place: tuple[str, str] | None = None) -> None:
        """Add replies; `place` is their log, and its size in bytes up to which all replies are added then."""
        with self._lock:
            for reply in replies:
                system = self._systems.limit(reply.system or UNNAMED_SYSTEM)
                key = _DayKey(reply.evaluator or self.evaluator, system, reply.day)
                values = [reply.evidence.get(column.name) for column in self._columns[key.evaluator]]
                if key not in self._days:
                    self._days[key] = uuid.uuid4().hex, DaySketch()
                self._days[key][1].add(reply.score, values)
                self._changed.add(key)
            self._place = place or self._place

    def columns_of(self, evaluator: str) -> Sequence[Column]:
        """Return the columns of an evaluator's evidence."""
        return self._columns[evaluator]

    def flush(self, store: Store, position: tuple[str, str] | None = None) -> None:
        """Write changed sketches to the store, and drop the oldest days beyond `MAX_OPEN_DAYS`.

        `position` is written with them, by default the place of `add_all`; see `MonitoringTables.put_days`.
        """
        with self._flush_lock:  # an older sketch must not overwrite a newer one
            self._flush(store, position)

    def _flush(self, store: Store, position: tuple[str, str] | None) -> None:
        with self._lock:
            rows = [self._row(key) for key in sorted(self._changed)]
            self._changed.clear()
            position = position or (self._place if rows else None)
        try:
            MonitoringTables(store).put_days(rows, position)
        except BaseException:
            with self._lock:
                self._changed.update(_DayKey(row["evaluator"], row["system"], row["day"]) for row in rows)
            raise
        with self._lock:
            for key in sorted(self._days.keys() - self._changed, key=lambda key: key.day)[:-MAX_OPEN_DAYS]:
                del self._days[key]  # further scores of that day start another sketch, which reports merge

    def _row(self, key: _DayKey) -> dict[str, Any]:
        id, sketch = self._days[key]
        columns = [[column.name, column.signature] for column in self._columns[key.evaluator]]
        content = {**sketch.to_json(), "columns": columns}
        return {"key": id, "evaluator": key.evaluator, "system": key.system, "day": key.day, "content": content}


# --- replies in logs of the mart -------------------------------------------------------------------------------------


def logged_values(reply: MonitoredReply, evaluator: str, columns: Sequence[Column], is_first: bool) -> dict[str, Any]:
    """Return the values of a reply that a row of a mart's log needs besides the score, to count it after a kill.

    The first row of an evaluator in a log has the columns of its evidence.
    """
    named = {"columns": [[column.name, column.signature] for column in columns]} if is_first else {}
    values = [reply.evidence.get(column.name) for column in columns]
    return {"system": reply.system, "day": reply.day, "evaluator": evaluator, "evidence": values, **named}


def recover(store: Store, mart: Mart) -> int:
    """Count the replies that ended processes logged in the mart and did not write to the store; return their number.

    Their logs become parts. It can be called at any time, by any process.

    Raises:
        StoreError: The store or the mart cannot be written; the next call continues.
    """
    tables, counts = MonitoringTables(store), dict[str, int]()

    def count(log: str, stream: IO[bytes]) -> None:
        stream.seek(int(tables.position(log) or 0))
        start, columns = stream.tell(), _columns_in(stream)
        stream.seek(start)
        days: dict[_DayKey, DaySketch] = {}
        for row in _counted_rows(stream):
            about = row[COUNTED]
            key = _DayKey(about["evaluator"], about["system"] or UNNAMED_SYSTEM, about["day"])
            evidence = about["evidence"] if key.evaluator in columns else []
            days.setdefault(key, DaySketch()).add(_score_of(row), evidence)
        rows = [
            {
                "key": uuid.uuid4().hex,
                **key._asdict(),
                "content": {**sketch.to_json(), "columns": columns.get(key.evaluator, [])},
            }
            for key, sketch in days.items()
        ]
        tables.put_days(rows, (log, str(stream.tell())))
        counts[log] = sum(sketch.replies for sketch in days.values())

    mart.seal(count)
    tables.drop_positions([log for log in counts if not (mart.folder / f"{log}.jsonl").exists()])
    return sum(counts.values())


def _counted_rows(stream: IO[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a log with values for monitoring; erased and torn ones are left out."""
    for line in stream:
        with suppress(ValueError):
            row = json.loads(line)
            if isinstance(row, dict) and COUNTED in row:
                yield row


def _columns_in(stream: IO[bytes]) -> dict[str, list[list[str]]]:
    """Return the names and signatures of columns by evaluator, which the first row of each in a log has."""
    stream.seek(0)
    named = (row[COUNTED] for row in _counted_rows(stream))
    return {about["evaluator"]: about["columns"] for about in named if "columns" in about}


def _score_of(row: Mapping[str, Any]) -> Score | Unscored:
    target, signature = Target(row["conversation"], row["turn"]), Signature(row["signature"] or "")
    if row["value"] is None:
        return Unscored(target, row["annotator"], row["unscored"] or "", signature)
    interval = row["low"], row["high"]
    options, shares = tuple(row["options"] or ()), tuple(row["probabilities"] or ())
    return Score(target, row["annotator"], options, shares, row["value"], interval, signature, warning=row["warning"])


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


class MonitoringReport(TypedDict):
    """Scores of the last days, alarms, first days of new evaluators, and replies with a high variance.

    `change`, if requested, compares the latest batch of scores with the earlier ones, and `drift` attributes a change
    to the assistant or the judge.
    """

    days: list[DayRow]
    alarms: list[dict[str, Any]]
    evaluator_changes: list[dict[str, str]]
    label_next: list[dict[str, Any]]
    change: NotRequired[dict[str, Any] | None]
    drift: NotRequired[dict[str, Any] | None]


def report(
    store: Store,
    days: int = REPORT_DAYS,
    now: datetime | None = None,
    labels: int = 10,
    before: Callable[[Store], None] = lambda store: None,
) -> MonitoringReport:
    """Report the scores of the last days, the alarms, and the `labels` replies with the highest variance.

    `before` is called with the store first, to write pending sketches.
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
    (low, high), mean = sketch.conversations_interval(), sketch.mean()
    return {
        "system": key.system,
        "day": day,
        "evaluator": key.evaluator,
        "replies": sketch.replies,
        "conversations": sketch.conversations,
        "conversations_low": low,
        "conversations_high": high,
        "mean": mean.value,
        "low": mean.low,
        "high": mean.high,
        "unscored": dict(sketch.unscored),
        "warned": sketch.warned,
    }


def _uncertain_replies(series: DailySeries) -> list[dict[str, Any]]:
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


def _evaluator_changes(series: DailySeries) -> list[dict[str, str]]:
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
    level: float = SURE,
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

    `log` is called with one line per new alarm, and per error; failed work is tried again in the next round.
    `training` is the evidence that the evaluator learned from. Without `flushes`, a follower writes the sketches, each
    time with its position in the log. `mart` has the logs of other processes, which may have been killed.
    `check_batches` compares the latest batch of scores with the earlier ones, at the start and in each check; `change`
    is the latest comparison.
    """

    def __init__(
        self,
        monitor: ScoreMonitor,
        store: Store,
        webhook: str | None = None,
        level: float = SURE,
        training: EvidenceTable | None = None,
        log: Callable[[str], None] = lambda text: None,
        flush_seconds: float = FLUSH_SECONDS,
        check_seconds: float = CHECK_SECONDS,
        flushes: bool = True,
        mart: Mart | None = None,
        check_batches: Callable[[], tuple[BatchChange | None, bool]] | None = None,
    ) -> None:
        self.flushes, self.mart, self.check_batches = flushes, mart, check_batches
        self.change: BatchChange | None = None
        self.monitor, self.store, self.webhook, self.level, self.training = monitor, store, webhook, level, training
        self.log, self.flush_seconds, self.check_seconds = log, flush_seconds, check_seconds
        self._checks: dict[tuple[str, str, str], int] = {}
        self._stop = Event()
        self._thread = Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        last_check = time.monotonic()
        self._attempt(self._check_batches)
        while not self._stop.wait(self.flush_seconds):
            if self.flushes:
                self._attempt(lambda: self.monitor.flush(self.store))
            if time.monotonic() - last_check >= self.check_seconds:
                last_check = time.monotonic()
                self._attempt(self._check)

    def _check(self) -> None:
        if self.mart is not None:
            recover(self.store, self.mart)
        for alarm in raise_alarms(self.store, self.level, self._checks, self.training):
            self.log(f"alarm: {alarm.message}")
        self._check_batches()
        if self.webhook is not None:
            send_alarms(self.store, partial(post_alarms, self.webhook))

    def _check_batches(self) -> None:
        if self.check_batches is not None:
            self.change, is_new = self.check_batches()
            if self.change is not None and is_new:
                self.log(f"alarm: {self.change.summary}")

    def _attempt(self, work: Callable[[], None]) -> None:
        """Call a function and report its error, so that monitoring never ends by itself."""
        try:
            work()
        except AccordError as error:
            self.log(f"not done yet: {error}")
        except Exception as error:
            self.log(f"not done yet: {type(error).__name__}, which is a bug; please report it")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(STOP_SECONDS)
        if self.flushes:
            self._attempt(lambda: self.monitor.flush(self.store))
