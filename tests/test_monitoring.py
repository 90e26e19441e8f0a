"""Watching: sketches that add up, intervals that hold, alarms for what moved and none for chance or a new evaluator."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from waiting import until

from accord import Score, Store, Target, Unscored
from accord.edges import BadInput
from accord.evidence import Column, EvidenceTable
from accord.live import (
    post_alarms,
    raise_alarms,
    report,
    send_alarms,
)
from accord.live.alarms import number_of_checks
from accord.live.daily_sketch import (
    MAX_CONVERSATIONS,
    MAX_UNCERTAIN,
    DaySketch,
)
from accord.live.monitoring import (
    MonitoringThread,
    ScoreMonitor,
    WebhookError,
)
from accord.store import MonitoringTables
from accord.testing import ChatServer
from accord.testing.server import Wire
from accord.values import Signature, score_from

COLUMNS = [Column("words", "metric|name:words"), Column("ciu", "metric|name:ciu")]
NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
OPTIONS = tuple(np.linspace(1, 5, 41))


def score(value: float, name: str, turn: int = 1, warning: str | None = None) -> Score:
    """A score whose mean is `value`, from 1 to 5."""
    shares = np.interp(OPTIONS, [value - 0.5, value, value + 0.5], [0, 1, 0])
    return score_from(Target(name, turn), "population", OPTIONS, shares / shares.sum(), Signature("m"), None, warning)


def a_day(watch: ScoreMonitor, rng: np.random.Generator, day: str, mean: float, words: float = 20.0, chats: int = 120,
          system: str = "bot") -> None:  # fmt: skip
    for chat in range(chats):
        taste = rng.normal(0, 0.4)  # replies of one conversation are similar
        for turn in range(int(rng.integers(1, 6))):
            value = float(np.clip(mean + taste + rng.normal(0, 0.2), 1.6, 4.4))
            found = {"words": float(rng.normal(words, 5)), "ciu": float(rng.exponential()) if turn else None}
            watch.add(system, day, score(value, f"{system}-{day}-{chat}", turn), found)


@pytest.fixture
def store(memory: Store) -> Store:
    return memory


def lost(name: str, turn: int = 1) -> Unscored:
    return Unscored(Target(name, turn), "population", "no evidence", Signature("m"))


def march(
    means: dict[int, float], seed: int, store: Store | None = None, watch: ScoreMonitor | None = None, **more: Any
) -> ScoreMonitor:
    """Days of March with these means, written to a store if there is one."""
    watch, rng = watch or ScoreMonitor("m", COLUMNS), np.random.default_rng(seed)
    for day, mean in means.items():
        a_day(watch, rng, f"2026-03-{day:02}", mean, **more)
    if store is not None:
        watch.flush(store)
    return watch


def test_a_day_counts_all_and_keeps_a_sample_that_is_the_same_in_any_order() -> None:
    rng = np.random.default_rng(0)
    replies = [(score(float(rng.uniform(2, 4)), f"c{c}", t), [float(c), None]) for c in range(1500) for t in range(3)]

    def sketch(rows: list[Any]) -> DaySketch:
        day = DaySketch()
        for each in rows:
            day.add(*each)
        return day

    def sample(day: DaySketch) -> dict[str, Any]:
        return {name: (each.count, each.key, each.evidence) for name, each in day.sample.items()}

    forward = sketch(replies)
    assert forward.replies == forward.scored == 4500 and len(forward.sample) == MAX_CONVERSATIONS and forward.is_full
    assert sample(forward) == sample(sketch(replies[::-1]))
    assert forward.conversations == pytest.approx(1500, rel=0.15)
    assert forward.mean().value == pytest.approx(np.mean([s.value for s, _ in replies]))
    merged, other = sketch(replies[::2]), sketch(replies[1::2])
    merged.merge(DaySketch.from_json(json.loads(json.dumps(other.to_json()))))
    assert sample(merged) == sample(forward)
    assert merged.replies == 4500 and merged.mean().value == pytest.approx(forward.mean().value)
    most_uncertain = sorted(s.variance for s, _ in replies)[-MAX_UNCERTAIN]
    assert len(forward.uncertain) == MAX_UNCERTAIN and min(forward.uncertain)[0] >= most_uncertain
    assert len(json.dumps(forward.to_json())) < 60_000


def test_the_interval_of_a_day_holds_although_replies_of_a_conversation_are_alike() -> None:
    rng = np.random.default_rng(1)
    held = 0
    for draw in range(100):
        day = DaySketch()
        for chat in range(60):
            taste = rng.normal(0, 0.5)
            for turn in range(5):
                day.add(score(float(np.clip(3 + taste + rng.normal(0, 0.1), 1.6, 4.4)), f"{draw}-{chat}", turn), [])
        mean = day.mean()
        held += mean.low <= 3 <= mean.high
    assert 90 <= held <= 99  # replies taken for independent ones would hold in some 60 % of the draws


def test_unscored_and_warned_replies_are_counted_and_a_lonely_day_has_no_interval() -> None:
    day = DaySketch()
    assert day.mean().value is None and day.conversations == 0
    day.add(lost("a", 0), [None, None])
    day.add(score(3.0, "a", warning="odd"), [1.0, None])
    assert day.replies == 2 and day.scored == 1 and day.warned == 1 and day.unscored == {"no evidence": 1}
    assert day.mean().value == pytest.approx(3.0) and day.mean().low is None


def test_a_drop_and_longer_replies_are_told_and_the_same_bot_on_other_days_is_not(store: Store) -> None:
    watch = march(dict.fromkeys(range(1, 9), 3.4), 2)
    march({9: 2.9}, 3, watch=watch, words=32)
    march(dict.fromkeys(range(1, 10), 3.0), 4, store, watch, system="other")
    found = raise_alarms(store, now=NOW)
    assert {(alarm.kind, alarm.feature, alarm.system, alarm.day) for alarm in found} == {
        ("mean", "", "bot", "2026-03-09"), ("scores", "", "bot", "2026-03-09"), ("inputs", "words", "bot", "2026-03-09")
    }  # fmt: skip
    mean = next(alarm for alarm in found if alarm.kind == "mean")
    assert mean.before == pytest.approx(3.4, abs=0.1) and mean.after == pytest.approx(2.9, abs=0.1)
    assert f"moved from {mean.before:.4g} to" in mean.message
    assert raise_alarms(store, now=NOW) == []  # told once
    told = report(store, now=NOW)
    assert len(told["days"]) == 18 and len(told["alarms"]) == 3 and told["evaluator_changes"] == []
    assert all(row["low"] < row["mean"] < row["high"] for row in told["days"])
    variances = [each["variance"] for each in told["label_next"]]
    assert len(variances) == 10 and variances == sorted(variances, reverse=True)


def a_week(watch: ScoreMonitor, rng: np.random.Generator, monday: datetime, drop: float = 0.0) -> None:
    """Weekends are worse, and their replies longer; by `drop` worse than they always are."""
    for place in range(7):
        day, off = f"{monday + timedelta(days=place):%F}", place >= 5
        a_day(watch, rng, day, 3.4 - (0.3 + drop) * off, 20 + 8 * off, chats=60 if off else 80)


def test_a_weekend_like_those_before_is_no_alarm_and_a_worse_one_is(store: Store) -> None:
    rng, watch, first = np.random.default_rng(12), ScoreMonitor("m", COLUMNS), datetime(2026, 2, 2, 12, tzinfo=UTC)
    for week in range(4):
        a_week(watch, rng, first + timedelta(weeks=week), drop=0.4 * (week == 3))
        watch.flush(store)
        found = raise_alarms(store, now=first + timedelta(weeks=week + 1))
        days = {alarm.day for alarm in found if alarm.kind == "mean"}
        assert days == ({"2026-02-28", "2026-03-01"} if week == 3 else set())
        assert week == 3 or not found


@pytest.mark.parametrize(("days", "gone"), [(range(2, 7), 7), (range(1, 9), 9)], ids=["first weekend", "weekday"])
def test_a_day_without_a_single_score_is_alarming(store: Store, days: range, gone: int) -> None:
    watch, day = march(dict.fromkeys(days, 3.0), 8), f"2026-03-0{gone}"
    for place in range(50):
        watch.add("bot", day, lost(f"lost-{place}"), {"words": None, "ciu": None})
    watch.flush(store)
    [alarm] = raise_alarms(store, now=NOW)
    assert (alarm.kind, alarm.day, alarm.before, alarm.after) == ("unscored", day, 0, 1)
    row = report(store, now=NOW)["days"][-1]
    assert row["mean"] is None and row["conversations"] == 50 and row["unscored"] == {"no evidence": 50}


def test_intervals_stay_on_the_scale_and_an_estimated_count_is_called_one(store: Store) -> None:
    watch = ScoreMonitor("m", [])
    for name, value in (("a", 1.6), ("b", 4.4)):
        watch.add("few", "2026-03-09", score(value, name), {})
    for place in range(1500):
        watch.add("many", "2026-03-09", score(3.0, f"c{place}"), {})
    watch.flush(store)
    few, many = report(store, now=NOW)["days"]
    assert (few["low"], few["mean"], few["high"]) == (1, 3, 5)
    assert few["conversations_low"] == few["conversations"] == few["conversations_high"] == 2
    assert many["conversations_low"] < min(many["conversations"], 1500)
    assert many["conversations_high"] > max(many["conversations"], 1500)


def test_the_interval_of_an_estimated_count_holds() -> None:
    held = 0
    for draw in range(60):
        day = DaySketch()
        for place in range(600):
            day.add(lost(f"{draw} {place}"), [])
        low, high = day.conversations_interval()
        held += low <= 600 <= high
    assert 53 <= held <= 60


def test_chance_alone_raises_few_alarms() -> None:
    raised = 0
    for seed in range(20):
        with closing(Store("sqlite://")) as store:
            march(dict.fromkeys(range(1, 6), 3.0), seed, store, chats=60)
            raised += bool(raise_alarms(store, level=0.05, now=NOW))
    assert raised <= 2


def test_a_new_evaluator_is_no_change_of_the_assistant_but_its_inputs_are_compared(store: Store) -> None:
    old, new, longer = (ScoreMonitor(f"mixture|v:{version}", COLUMNS) for version in (1, 2, 2))
    march(dict.fromkeys(range(1, 9), 3.4), 3, store, old)
    march({9: 2.6}, 4, store, new)  # a harsher evaluator
    assert raise_alarms(store, now=NOW) == []
    change = {"system": "bot", "day": "2026-03-09", "evaluator": "mixture|v:2"}
    assert report(store, now=NOW)["evaluator_changes"] == [change]
    march({9: 2.6}, 5, store, longer, words=60, chats=400)
    assert {(alarm.kind, alarm.feature) for alarm in raise_alarms(store, now=NOW)} == {("inputs", "words")}


def test_the_present_day_is_looked_at_each_time_it_has_doubled(store: Store) -> None:
    assert [number_of_checks(count) for count in (0, 29, 30, 59, 60, 120, 1000)] == [0, 0, 1, 1, 2, 3, 6]
    watch = march(dict.fromkeys(range(5, 10), 3.4), 4)
    march({10: 2.6}, 5, store, watch, chats=70)
    assert raise_alarms(store, now=NOW) == []  # the day is not over, and number_of_checks is unknown
    looked: dict[tuple[str, str, str], int] = {}
    assert {alarm.kind for alarm in raise_alarms(store, checks=looked, now=NOW)} >= {"mean"}
    assert looked == {("m", "bot", "2026-03-10"): 2}


def test_one_conversation_without_a_score_stops_no_alarm(store: Store) -> None:
    watch = march({**dict.fromkeys(range(1, 9), 3.4), 9: 2.6}, 10)
    for day in range(1, 10):
        watch.add("bot", f"2026-03-{day:02}", lost(f"lost-{day}"), {})
    watch.flush(store)
    assert {alarm.kind for alarm in raise_alarms(store, now=NOW)} == {"mean", "scores"}


def test_one_long_conversation_without_scores_is_no_alarm(store: Store) -> None:
    watch = march(dict.fromkeys(range(1, 10), 3.4), 11)
    for turn in range(120):
        watch.add("bot", "2026-03-09", lost("runaway", turn), {})
    watch.flush(store)
    assert raise_alarms(store, now=NOW) == []
    days = DaySketch()
    for chat in range(50):
        for turn in range(4):
            days.add(lost(str(chat), turn) if chat % 5 == 0 else score(3.0, str(chat), turn), [])
    share, error = DaySketch.from_json(json.loads(json.dumps(days.to_json()))).unscored_share()
    assert share == pytest.approx(0.2) and error == pytest.approx(np.sqrt(50 / 49 * 0.16 / 50), rel=1e-6)


def test_evaluators_that_come_back_and_replies_seen_twice_are_told_once(store: Store) -> None:
    watches = {name: ScoreMonitor(name, COLUMNS) for name in ("z-old", "a-new")}
    for name, day in (("z-old", 1), ("z-old", 2), ("a-new", 2), ("a-new", 3), ("z-old", 4)):
        watches[name].add("bot", f"2026-03-0{day}", score(3.0, "c"), {})
    for watch in watches.values():
        watch.flush(store)
    told = report(store, now=NOW)
    changes = [(each["day"], each["evaluator"]) for each in told["evaluator_changes"]]
    assert changes == [("2026-03-02", "a-new"), ("2026-03-04", "z-old")]
    assert [(each["conversation"], each["turn"], each["system"]) for each in told["label_next"]] == [("c", 1, "bot")]


def test_a_watch_goes_on_whatever_happens(store: Store) -> None:
    watch, told = ScoreMonitor("m", COLUMNS), list[str]()
    watch.add("bot", "2026-03-09", score(3.0, "c"), {})
    fails = [RuntimeError("odd"), WebhookError("no")]
    flush = watch.flush

    def flaky(store: Store) -> None:
        if fails:
            raise fails.pop()
        flush(store)

    watch.flush = flaky
    with MonitoringThread(watch, store, log=told.append, flush_seconds=0.01, check_seconds=0.05):
        until(lambda: list(MonitoringTables(store).days()))
    assert told == ["not done yet: no", "not done yet: RuntimeError, which is a bug; please report it"]


def test_what_is_no_answer_of_a_webhook() -> None:
    with ChatServer(lambda _: Wire({}, status=302, headers={"Location": "/elsewhere"})) as server:
        with pytest.raises(WebhookError, match="it answered 302"):
            post_alarms(server.url, [{"message": "x"}], wait=0)
        assert {request["_path"] for request in server.requests} == {"/v1"}
    slow = r"no answer within 0\.2 s"
    with ChatServer(lambda _: Wire({}, after=1.0)) as server, pytest.raises(WebhookError, match=slow):
        post_alarms(server.url, [{"message": "x"}], wait=0, seconds=0.2)
    for page in (b"<!DOCTYPE html><p>Sign in", b"\xef\xbb\xbf\n <HTML>"):
        with ChatServer(lambda _, page=page: Wire(page)) as server, pytest.raises(WebhookError, match="a web page"):
            post_alarms(server.url, [{"message": "x"}], wait=0)
    for url in (server.url, "http://127.0.0.1:1/hook secret"):
        with pytest.raises(WebhookError, match="cannot connect") as caught:
            post_alarms(url, [{"message": "x"}], wait=0)
        assert "secret" not in str(caught.value)
    with pytest.raises(BadInput, match="begins with http"):
        post_alarms("file:///etc/passwd?hush", [])


def evidence(targets: list[Target], columns: list[Column], values: Any) -> EvidenceTable:
    return EvidenceTable(tuple(targets), tuple(columns), values, np.ones_like(values, dtype=bool))


def test_inputs_unlike_what_was_learned_from_are_told_once(store: Store) -> None:
    rng = np.random.default_rng(5)
    values = np.column_stack([rng.normal(60, 5, 200), rng.exponential(size=200)])
    training = evidence([Target(str(place)) for place in range(200)], COLUMNS, values)
    watch = march({8: 3.0}, 5, store)
    [alarm] = raise_alarms(store, training=training, now=NOW)
    assert alarm.kind == "unlike" and alarm.feature == "words" and "unlike the training data" in alarm.message
    march({9: 3.0}, 6, store, watch)
    assert raise_alarms(store, training=training, now=NOW) == []


def test_what_was_learned_from_turns_that_are_alike_is_no_alarm_at_other_conversations() -> None:
    raised = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        level = rng.normal(20, 5, 230)  # of the replies of each conversation: thirty then, two hundred today
        values = np.repeat(level[:30], 13)[:, None] + rng.normal(0, 0.1, (390, 1))
        targets = [Target(f"group {group}", turn) for group in range(30) for turn in range(13)]
        training, watch = evidence(targets, COLUMNS[:1], values), ScoreMonitor("m", COLUMNS[:1])
        for chat in range(30, 230):
            watch.add("bot", "2026-03-08", score(3.0, f"c{chat}"), {"words": level[chat]})
        with closing(Store("sqlite://")) as store:
            watch.flush(store)
            raised += bool(raise_alarms(store, 0.05, training=training, now=NOW))
    assert raised <= 1


def test_what_two_processes_saw_is_added_up_and_a_flush_can_be_repeated(store: Store) -> None:
    one, other = (march({9: 3.0}, seed, store, chats=20) for seed in (6, 7))
    one.add("bot", "2026-03-09", score(3.0, "more"), {"words": 1.0})
    for _ in range(2):
        one.flush(store)
    [row] = report(store, now=NOW)["days"]
    assert row["conversations"] == 21  # both saw the same conversations
    assert row["replies"] == sum(day.replies for watch in (one, other) for _, day in watch._days.values())


def test_systems_beyond_the_bound_are_watched_together(store: Store) -> None:
    watch = ScoreMonitor("m", [])
    for place in range(150):
        watch.add(f"bot-{place}", "2026-03-09", score(3.0, f"c{place}"), {})
    watch.add(None, "2026-03-09", score(3.0, "c"), {})
    watch.flush(store)
    rows = {row["system"]: row["replies"] for row in report(store, now=NOW)["days"]}
    assert len(rows) == 101 and rows["other systems"] == 51


def test_alarms_are_posted_and_told_again_where_nobody_took_them(store: Store) -> None:
    march({**dict.fromkeys(range(1, 9), 3.4), 9: 2.5}, 7, store)
    answers = [Wire({}, status=500)] * 3 + [Wire({}, status=404), Wire({}, status=503), Wire({})]
    with ChatServer(lambda _: answers.pop(0)) as server:

        def send(alarms: Any) -> None:
            post_alarms(f"{server.url}?secret=hush", alarms, wait=0)

        for reason in ("500", "404"):
            with pytest.raises(WebhookError, match=f"it answered {reason}") as caught:
                raise_alarms(store, now=NOW)
                send_alarms(store, send)
            assert "hush" not in str(caught.value)
        assert send_alarms(store, send) == 2
        sent = server.requests[-1]
        assert {alarm["kind"] for alarm in sent["alarms"]} == {"mean", "scores"} and "bot, 2026-03-09" in sent["text"]
        count = len(server.requests)
        assert send_alarms(store, send) == 0 and len(server.requests) == count
