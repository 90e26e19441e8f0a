"""Drift attributed to the assistant or the judge: tests of streams, and anchors that are judged again."""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from commands import accord, accord_json, refused, write_rows

from accord import Conversation, Label, Project, Store, Target
from accord import open as open_project
from accord.board import Board, BoardFilters
from accord.cli import commands  # noqa: F401 - registers the commands
from accord.edges import BadInput, BudgetReached
from accord.live.anchor_rounds import AnchorRounds
from accord.models import Caps
from accord.project import Config, Selection, erase
from accord.project.config import config_from
from accord.project.judges import anchors as judging
from accord.statistics.change_tests import change_test, conformal_ranks
from accord.store.anchors import Anchor, Anchors
from accord.testing import ChatServer, completion
from accord.testing.server import Wire
from accord.validation.attribution import Attribution, ScoredConversation, attribute
from accord.values import Turn

FIRST, DAYS, CHANGE = date(2026, 1, 5), 56, 35
TODAY = (FIRST + timedelta(days=DAYS)).isoformat()


# --- tests of streams -------------------------------------------------------------------------------------------------


def test_ranks_are_uniform_whatever_the_values_and_ties_are() -> None:
    rng = np.random.default_rng(0)
    for values in (rng.normal(size=3000), rng.integers(0, 2, 3000), np.zeros(3000)):
        ranks = conformal_ranks(list(values), list(rng.integers(0, 7, 3000)), list(rng.uniform(size=3000)))
        assert abs(ranks.mean() - 0.5) < 0.02 and abs(ranks.var() - 1 / 12) < 0.005
    assert conformal_ranks([1.0, 2.0, 0.0], "aab", [0.5, 0.5, 0.5]).tolist() == [0.5, 0.75, 0.5]


@pytest.mark.parametrize("count", [0, 1, 2, 7, 64, 65])
def test_ranks_are_counted_among_earlier_values_of_the_stratum(count: int) -> None:
    rng = np.random.default_rng(count)
    values, strata, uniforms = rng.integers(0, 5, count), rng.integers(0, 3, count), rng.uniform(size=count)
    wanted = []
    for place, (value, stratum, uniform) in enumerate(zip(values, strata, uniforms, strict=True)):
        earlier = values[:place][strata[:place] == stratum]
        smaller, equal = (earlier < value).sum(), (earlier == value).sum()
        wanted.append((smaller + uniform * (1 + equal)) / (len(earlier) + 1))
    assert conformal_ranks(list(values), list(strata), list(uniforms)).tolist() == wanted


def test_days_that_move_together_are_no_change_unless_the_move_lasts() -> None:
    rng = np.random.default_rng(2)
    day = np.repeat(np.arange(120), 50)
    ranks = 1 / (1 + np.exp(-rng.logistic(size=6000) - rng.normal(0, 0.5, 120)[day]))  # days move, also on quiet days
    assert change_test(ranks, day, 0.05).is_alarm and not change_test(ranks, day, 0.05, moves_by_day=True).is_alarm
    ranks[day >= 80] = ranks[day >= 80] ** 0.4  # mean rank .71
    found = change_test(ranks, day, 0.05, moves_by_day=True)
    assert found.alarm is not None and 80 <= found.alarm <= 95 and abs(found.start - 80) <= 3


def test_change_is_found_with_its_day_and_no_ranks_are_no_change() -> None:
    rng = np.random.default_rng(1)
    day = np.repeat(np.arange(60), 50)
    ranks = rng.uniform(size=3000)
    assert not change_test(ranks, day, 0.05).is_alarm
    ranks[day >= 40] = np.sqrt(ranks[day >= 40])  # mean rank 2/3
    found = change_test(ranks, day, 0.05)
    assert found.alarm is not None and 40 <= found.alarm <= 43 and abs(found.start - 40) <= 1
    assert change_test(np.zeros(0), np.zeros(0, dtype=np.intp), 0.05).alarm is None


def planted(
    seed: int, system: float = 0.0, judge: float = 0.0, anchors: int = 30, since: int = 0
) -> tuple[list[ScoredConversation], list[Anchor]]:
    """Traffic and anchors on a scale from 1 to 5 that move on day `CHANGE`; anchors are judged from a day on."""
    rng = np.random.default_rng(seed)
    quality = rng.normal(3, 0.6, anchors)
    then = quality + rng.normal(0, 0.2, anchors)
    traffic, judged = [], []
    for number in range(DAYS):
        day, is_weekend = (FIRST + timedelta(days=number)).isoformat(), number % 7 >= 5
        moved = (system + judge) * (number >= CHANGE)
        for chat in range(10 if is_weekend else 30):
            value = rng.normal(3.4 if is_weekend else 3.0, 0.6) + moved
            traffic.append(ScoredConversation(f"{number}-{chat}", f"bot-{chat % 2}", day, float(value)))
        again = quality + rng.normal(0, 0.2, anchors) + judge * (number >= CHANGE)
        pairs = zip(then.tolist(), again.tolist(), strict=True)
        judged += [Anchor("", Target(f"a{place}"), day, *pair) for place, pair in enumerate(pairs) if number >= since]
    return traffic, judged


CASES: list[tuple[dict[str, Any], str, str]] = [
    ({}, "none", r"Not enough to tell a change of the scores day by day since 5 January 2026; the judge has not moved, by 30 anchors"),
    ({"system": 0.6}, "system", r"moved by \+15% of the scale \[\+13%, .* since 9 February 2026: .* or its users is larger"),
    ({"judge": 0.6}, "judge", r": \+15% \[\+14%, \+15%\] by the judge, -0.1% \[-2%, \+2%\] by the assistant .* judge's part is"),
    ({"judge": -0.6}, "judge", r"moved by -15% of .*: -15% \[-16%, -15%\] by the judge, .*; the judge's part is larger"),
    ({"judge": 0.8, "system": -0.3}, "judge", r": \+20% .* by the judge, -8% \[-9%, -6%\] by the assistant or its users; "),
    ({"judge": 0.3, "system": -0.8}, "system", r": \+7% .* by the judge, -20% \[-22%, -18%\] by the assistant or its users; "),
    ({"judge": 0.6, "system": -0.6}, "unknown", r"-0.3% .* \[-2%, .*: \+15% .* by the judge, -15% .*; neither part is clearly"),
    ({"judge": 0.3, "system": 0.3}, "unknown", r": \+7% .* by the judge, \+7% .* its users; neither part is clearly larger\. Run"),
    ({"judge": 0.6, "anchors": 0}, "unknown", r"; system or judge unknown: no anchors since 9 February .*--anchors$"),
    ({"judge": 0.6, "anchors": 6}, "unknown", r"unknown: only 6 anchors since 9 February 2026, 10 needed.*--anchors$"),
    ({"anchors": 0}, "none", r"the judge is not watched: no anchors\. Run: accord judge --anchors"),
    ({"anchors": 6}, "none", r"the judge is hardly watched: only 6 anchors of 10 needed\. Run: accord judge --anchors"),
    ({"judge": 0.6, "since": CHANGE + 1}, "judge", r"the judge's part is larger"),
]  # fmt: skip


@pytest.mark.parametrize(("world", "outcome", "summary"), CASES)
def test_change_has_its_cause_in_one_sentence(world: Mapping[str, Any], outcome: str, summary: str) -> None:
    found = attribute(*planted(3, **world), (1, 5), TODAY)
    assert found.outcome == outcome and re.search(summary, found.summary), found.summary
    assert json.loads(json.dumps(found.to_json()))["summary"] == found.summary
    if outcome == "judge" and found.change.value is not None and "system" not in world:
        assert found.judge_share.low is not None and found.judge_share.high is not None
        assert found.judge_share.low <= 1 <= found.judge_share.high


@pytest.mark.parametrize(("system", "judge"), [(0.24, 0.12), (0.12, 0.24), (0.18, 0.18), (-0.36, 0.12), (-0.24, 0.24)])
def test_smaller_part_of_a_change_is_never_named(system: float, judge: float) -> None:
    week = (FIRST + timedelta(days=CHANGE + 6)).isoformat()
    larger = "system" if abs(system) > judge else "judge" if abs(system) < judge else "unknown"
    streams = [attribute(*planted(seed, system, judge), (1, 5), week) for seed in range(8)]
    assert {found.outcome for found in streams} <= {larger, "unknown"}
    for found in streams:
        assert found.cause == ("system" if found.outcome == "system" else "judge")  # its anchors moved for certain
        parts = {"by the judge": found.judge_change, "by the assistant or its users": found.system_change}
        for words, part in parts.items():
            assert re.search(rf"[+-][\d.]+% \[[+-][\d.]+%, [+-][\d.]+%\] {words}", found.finding), found.finding
            assert part.low is not None and part.high is not None and part.low < part.high
    held = [found.system_change.low <= system / 4 <= found.system_change.high for found in streams]  # type: ignore[operator]
    assert sum(held) >= 6


def test_interval_of_a_change_holds_days_that_move_together() -> None:
    rng = np.random.default_rng(6)
    traffic, judged = [], planted(0, judge=0.6)[1]
    for number in range(DAYS):
        moved = rng.normal(0, 0.3) + 0.6 * (number >= CHANGE)
        day = (FIRST + timedelta(days=number)).isoformat()
        traffic += [ScoredConversation(f"{number}-{chat}", "", day, rng.normal(3, 0.6) + moved) for chat in range(100)]
    change = attribute(traffic, judged, (1, 5), TODAY).change
    assert change.low is not None and change.high is not None
    width = 2 * 1.96 * 0.3 / 4 * (1 / 35 + 1 / 21) ** 0.5
    assert change.high - change.low == pytest.approx(width, rel=0.35)


def test_moved_judge_without_conversations_to_compare_is_named() -> None:
    found = attribute([], planted(0, judge=0.6)[1], (1, 5), TODAY)
    assert found.outcome == found.cause == "judge" and "no conversations from before and after" in found.finding


def test_evaluator_without_a_judge_drifts_by_the_system_alone() -> None:
    traffic, _ = planted(3, system=0.6)
    found = attribute(traffic, [], (1, 5), TODAY, asks=False)
    assert found.outcome == "system" and "asks no judge" in found.summary and not found.next
    assert attribute([], [], (1, 5), TODAY).summary == "No new scores of finished days yet, so no drift can be found."


def test_change_among_conversations_that_one_judge_scored_is_not_the_judges() -> None:
    traffic, judged = planted(3, system=0.6, judge=0.6)
    then = [each._replace(scored=each.day) for each in traffic]
    assert attribute(then, judged, (1, 5), TODAY).is_scored_at_once is False
    found = attribute([each._replace(scored=TODAY) for each in traffic], judged, (1, 5), TODAY)
    assert (
        found.outcome == "system"
        and "among conversations that were scored together" in found.summary
        and not found.next
    )


def test_scores_of_today_and_new_systems_are_no_drift() -> None:
    traffic, judged = planted(4)
    traffic += [ScoredConversation(f"today-{chat}", "bot-0", TODAY, 5.0) for chat in range(200)]
    last = (FIRST + timedelta(days=DAYS - 1)).isoformat()
    traffic += [ScoredConversation(f"new-{chat}", "another", last, 5.0) for chat in range(200)]
    assert attribute(traffic, judged, (1, 5), TODAY).outcome == "none"


@pytest.mark.parametrize("world", [{}, {"system": 0.6}, {"judge": 0.6}])
def test_attribution_depends_on_no_order_of_rows(world: Mapping[str, Any]) -> None:
    traffic, judged = planted(5, **world)
    shuffled = random.Random(0)
    once = attribute(traffic, judged, (1, 5), TODAY)
    shuffled.shuffle(traffic)
    shuffled.shuffle(judged)
    again = attribute(traffic, judged, (1, 5), TODAY)
    assert (again.outcome, again.since, again.traffic_e) == (once.outcome, once.since, once.traffic_e)


# --- anchors ----------------------------------------------------------------------------------------------------------


class Endpoint:
    """A judge that reads the quality from a text; it can drift, fail for some texts, or be down."""

    def __init__(self) -> None:
        self.drift, self.is_down, self.refuses = 0.0, False, ""
        self._noise = random.Random(0)

    def __call__(self, request: Mapping[str, Any]) -> Wire:
        text = request["messages"][-1]["content"]
        if self.is_down or (self.refuses and self.refuses in text):
            return Wire({"error": {"message": "no"}}, status=400 if self.refuses else 503)
        quality, labels = re.search(r"quality (\d+)", text), re.search(r"one of ([^\n]*) and nothing else", text)
        assert quality is not None and labels is not None
        options = labels[1].split(", ")
        place = (int(quality[1]) / 100 + self.drift + self._noise.gauss(0, 0.03)) * (len(options) - 1)
        shares = [math.exp(-1.5 * abs(each - place)) for each in range(len(options))]
        return completion(options[0], {name: each / sum(shares) for name, each in zip(options, shares, strict=True)})


RUBRIC = """
name: helpful
main: helpful
questions:
- {id: helpful, text: 'How helpful is it?', scale: ordinal, options: [1, 2, 3, 4, 5]}
"""


def chat(name: str, quality: int, day: str = "") -> Conversation:
    turns = (Turn("user", f"Where is order {name}? quality {quality}"), Turn("assistant", "It is on its way."))
    return Conversation(name, turns, metadata={"system": "bot", **({"time": f"{day}T09:00:00Z"} if day else {})})


@pytest.fixture(scope="module")
def endpoint() -> Iterator[tuple[Endpoint, str]]:
    judge = Endpoint()
    with ChatServer(judge) as server:
        yield judge, server.url


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory, endpoint: tuple[Endpoint, str]) -> Path:
    """A project with 24 rated conversations, a judge and a fitted evaluator, which each test copies."""
    folder = tmp_path_factory.mktemp("anchors")
    model = {"model": "m1", "mode": "logprobs", "base_url": endpoint[1], "attempts": 1}
    settings = {
        "rubric": "rubric.yaml", "models": {"judge": model}, "draws": 10, "folds": 2, "repeats": 1, "metrics": ["words"],
        "evaluator": "ridge-judge",
        "monitoring": {"anchors": {"count": 20}},
    }  # fmt: skip
    (folder / "rubric.yaml").write_text(RUBRIC, encoding="utf-8")
    (folder / "accord.yaml").write_text(json.dumps(settings), encoding="utf-8")
    noise = random.Random(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "sk-none")
        with open_project(folder / "accord.yaml") as project:
            chats = [chat(f"chat-{place}", 10 + 80 * place // 23) for place in range(24)]
            project.store.add_conversations(chats)
            project.store.add_labels(
                Label(Target(each.id), "helpful", by, 1 + round(4 * place / 23 + noise.uniform(-0.4, 0.4)))
                for place, each in enumerate(chats)
                for by in ("ann", "bob")
            )
            project.judge()
            project.fit()
    return folder


@pytest.fixture
def project(fitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint: tuple[Endpoint, str]) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    for path in fitted.rglob("*"):
        place = folder / path.relative_to(fitted)
        place.mkdir(exist_ok=True) if path.is_dir() else place.write_bytes(path.read_bytes())
    monkeypatch.chdir(folder)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    endpoint[0].drift, endpoint[0].is_down, endpoint[0].refuses = 0.0, False, ""
    return folder


def judged(now: datetime | None = None, count: int | None = None) -> judging.AnchorRun:
    with open_project("accord.yaml") as opened:
        return judging.judge_anchors(opened, count, now=now)


def stored() -> list[Anchor]:
    with open_project("accord.yaml") as opened:
        used = opened.load()
        return Anchors(opened.store).of(judging.evaluator_id(used))


def answers_learned_from() -> list[tuple[Any, ...]]:
    with open_project("accord.yaml") as opened:
        return sorted((each.target, each.signature, each.distribution) for each in opened.store.annotations({"model"}))


def days_ago(days: int) -> datetime:
    return datetime.now(UTC) - timedelta(days=days)


def test_anchors_are_judged_once_a_day_beside_the_answers_that_evaluators_learned_from(project: Path) -> None:
    before = answers_learned_from()
    planned = accord_json("judge", "--anchors", "--plan")
    assert planned["requests"] == 20 and not stored()
    assert "20 anchors of ridge-judge@" in accord("judge", "--anchors") and "20 judged now" not in accord(
        "judge", "--anchors"
    )
    assert accord_json("judge", "--anchors", "--plan")["requests"] == 0
    first = stored()
    assert len(first) == len({each.target for each in first}) == 20
    assert {each.day for each in first} == {datetime.now(UTC).date().isoformat()}
    assert all(abs(sum(each.answers.values()) - 1) < 0.01 and abs(each.now - each.then) < 1 for each in first)
    assert any(each.now != each.then for each in first)
    assert judged(days_ago(-1)).judged == 20
    assert {each.target for each in stored()} == {each.target for each in first}  # the sample is fixed
    assert answers_learned_from() == before


def test_two_processes_judge_no_anchor_twice(project: Path, endpoint: tuple[Endpoint, str]) -> None:
    with ThreadPoolExecutor(2) as pool:
        runs = list(pool.map(lambda _: judged(), range(2)))
    rest = judged()
    assert sum(each.judged for each in (*runs, rest)) == len(stored()) == 20
    assert sum(int(each.spent["requests"] or 0) for each in (*runs, rest)) == 20


def test_budget_that_ends_in_the_middle_keeps_what_was_judged(project: Path) -> None:
    said = accord("judge", "--anchors", "--max-requests", "7", code=4)
    assert "7 judged now" in said and "exceed the budget of 7 requests" in said and len(stored()) == 7
    assert accord_json("judge", "--anchors")["judged"] == 13


def test_daily_caps_hold_over_all_rounds_of_a_day(project: Path) -> None:
    caps = ["--set", "monitoring.anchors.budget.requests=9"]
    accord("judge", "--anchors", *caps, code=4)
    assert "0 judged now, 9 earlier today" in accord("judge", "--anchors", *caps, code=4)
    with Project(config_from(json.loads(Path("accord.yaml").read_text(encoding="utf-8")), folder=Path())) as opened:
        opened.config.monitoring.anchors.budget = Caps(requests=9)
        assert judging.plan_anchors(opened, now=days_ago(-1)).requests == 20
        with pytest.raises(BudgetReached):
            judging.judge_anchors(opened, now=days_ago(-1))
    assert len(stored()) == 18


def test_anchor_without_an_answer_is_left_out_and_asked_again(project: Path, endpoint: tuple[Endpoint, str]) -> None:
    judged(days_ago(1))
    lost = stored()[3].target.conversation
    endpoint[0].refuses = f"order {lost}?"
    said = accord("judge", "--anchors", code=5)
    assert "19 judged now" in said and "1 not judged: " in said and "not judged: no answer" not in said
    endpoint[0].refuses = ""
    assert accord_json("judge", "--anchors")["judged"] == 1


def test_judge_that_is_down_stores_nothing_and_says_so(project: Path, endpoint: tuple[Endpoint, str]) -> None:
    endpoint[0].is_down = True
    said = accord("judge", "--anchors", "--set", "models.judge.attempts=1", code=5)
    assert "0 judged now" in said and "20 not judged: server" in said and not stored()


def test_erased_anchor_is_gone_and_another_takes_its_place(project: Path) -> None:
    judged(days_ago(2))
    gone = stored()[0].target.conversation
    with open_project("accord.yaml") as opened:
        assert erase(opened, Selection(conversations=(gone,))).rows["anchors"] == 1
        used = judging.evaluator_id(opened.load())
        assert Anchors(opened.store).add([Anchor(used, Target(gone), "2026-01-01", 3.0, 3.0)]) == 0  # a late writer
    assert gone not in Path("accord.db").read_bytes().decode("latin-1")
    assert gone not in {each.target.conversation for each in stored()}
    again = judged()
    assert again.judged == 20 and len({each.target for each in stored()}) == 20


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("monitoring.anchors.count=3", "monitoring.anchors.count"),
        ("monitoring.anchors.every=2 hours", "at most once a day; use 1 day or more"),
        ("monitoring.anchors.budget.shared=all", "leave it out here"),
    ],
)
def test_invalid_settings_are_refused(project: Path, setting: str, message: str) -> None:
    assert message in refused("judge", "--anchors", "--set", setting)
    assert "takes --limit alone" in refused("judge", "--anchors", "--all")


def test_evaluator_without_a_model_and_recordings_have_no_anchors(project: Path) -> None:
    with open_project("accord.yaml") as opened:
        opened.fit("constant")
        with pytest.raises(BadInput, match="asks no model"):
            judging.judge_anchors(opened)
        assert not judging.is_due(opened)
    assert accord_json("watch")["drift"]["asks"] is False


def scored(patch: pytest.MonkeyPatch, first: int, days: int, shift: int = 0) -> None:
    """Score traffic of some days, ten conversations each, as if on the last of them."""
    patch.setattr("accord.scoring.score_rows.time", SimpleNamespace(time=days_ago(first - days + 1).timestamp))
    quality = random.Random(first)
    chats = [
        chat(f"new-{ago}-{place}", quality.randint(10, 60) + shift, days_ago(ago).date().isoformat())
        for ago in range(first, first - days, -1)
        for place in range(10)
    ]
    write_rows("new.jsonl", [each.to_json() for each in chats])
    accord("score", "new.jsonl", "--out", "scores.jsonl")


def test_drift_of_the_judge_is_on_the_board_in_watch_and_an_alarm(
    project: Path, endpoint: tuple[Endpoint, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    scored(monkeypatch, 28, 21)
    judged(days_ago(20))
    assert "the judge has not moved, by 20 anchors" in accord("watch")
    endpoint[0].drift = 0.3
    scored(monkeypatch, 7, 7)
    unknown = accord_json("watch")["drift"]
    assert unknown["outcome"] == "unknown" and "no anchors since" in unknown["summary"]
    for ago in (4, 2):
        judged(days_ago(ago))
    failed = accord("watch", "--fail-on-alarm", code=3)
    assert re.search(
        r"drift: Scores moved by \+\d+% of the scale .*% \[.*\] by the judge, .*judge's part is larger", failed
    )
    told = accord_json("watch")
    assert told["drift"]["outcome"] == "judge" and told["new_alarms"] == 0
    with open_project("accord.yaml") as opened:
        found = Board(opened).figures(BoardFilters())
        assert found is not None and isinstance(found[1].drift, Attribution)
        assert found[1].drift.summary == told["drift"]["summary"]
        given = Board(opened).figures(BoardFilters(answers="given"))
        assert given is None or given[1].drift is None


def test_server_judges_anchors_when_they_are_due(project: Path) -> None:
    config, said = Config(monitoring={"anchors": {"every": "7 days", "count": 20}}), list[str]()  # type: ignore[arg-type]
    settings = {
        **json.loads(Path("accord.yaml").read_text(encoding="utf-8")),
        "monitoring": {"anchors": {"every": "7 days", "count": 20}},
    }
    Path("accord.yaml").write_text(json.dumps(settings), encoding="utf-8")
    rounds = AnchorRounds(config, lambda: open_project("accord.yaml"), said.append)
    rounds.work()
    rounds.work()
    assert said == ["anchors: 20 anchors judged again"]
    with open_project("accord.yaml") as opened:
        assert not judging.is_due(opened, days_ago(-6)) and judging.is_due(opened, days_ago(-7))


def test_store_of_an_earlier_version_gets_the_table(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/old.db"
    with closing(Store(url)) as store, store._engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE anchors")
        connection.exec_driver_sql("UPDATE schema_version SET version = 2")
    with closing(Store(url)) as store:
        assert Anchors(store).state() == (0, "")
