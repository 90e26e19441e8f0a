"""Batches of scores compared with earlier ones: the statistics, and one sentence on every surface."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import accord, accord_json, printed, refused
from planted_weeks import ratings, week, write_month

from accord import Project
from accord import open as open_project
from accord.board import Board, BoardFilters
from accord.decisions import Batch, BatchChange, batch_change, batch_changes
from accord.edges import BadInput
from accord.live.service.prometheus import ChangeGauges
from accord.project import Config, change_of_scores
from accord.project.scored_batches import LACKS
from accord.scoring import ConversationFacts, RowOrigin
from accord.statistics.batch_changes import Sight, rated_change, ratio, sight, spent_level
from accord.store import MonitoringTables
from accord.values import LIVE_ROWS, SCORE_COLUMNS, Estimate
from accord.verbs import CycleOptions, run_cycle
from accord.verbs.gate import check_gate

SEEN = Sight(Estimate(0.3, 0.2, 0.4), Estimate(0.3, 0.2, 0.4), 200, 400, True, 1.0)


def batch(number: int, shift: float = 0.0, count: int = 150, only: str = "", version: str = "") -> Batch:
    """Scores of a week by two versions about two topics; `only` limits the shift to a topic."""
    rng = np.random.default_rng(number)
    versions, topics = (
        np.array(names, dtype=object)[rng.integers(0, 2, count)] for names in (["v1", "v2"], ["a", "b"])
    )
    moved = shift * (np.ones(count) if not only else topics == only)
    value = rng.normal(3, 0.5, count) + 0.3 * (versions == "v2") + moved
    versions = np.full(count, version, dtype=object) if version else versions
    names = np.array([f"{number}-{place}" for place in range(count)], dtype=object)
    return Batch(str(number), f"week {number}", names, value, versions, topics, np.full(count, "", dtype=object))


WEEKS = [batch(1), batch(2), batch(3)]


@pytest.mark.parametrize(("batches", "state", "said"), [
    ([], "no batch", "No batch of scores yet"),
    (WEEKS[:1], "first", "Not enough batches to tell a change: week 1 is the first one"),
    (WEEKS, "unclear", "Not enough to tell a change of the scores of week 3: "),
    ([*WEEKS, batch(4, -0.4)], "fell", "Scores fell in week 4: −0.30 [−0.49, −0.10] within versions"),
    ([*WEEKS, batch(4, 0.4)], "rose", "Scores rose in week 4: +0.50"),
    ([*WEEKS, batch(4, -0.4), batch(5, -0.4)], "fell", "against 3 earlier batches"),
    ([*WEEKS, batch(4, -0.4), batch(5)], "unclear", "Not enough to tell a change of the scores of week 5: "),
    ([*WEEKS, batch(4, -0.8, only="a")], "fell", "Most of it is in topic a −0.60 [−0.89, −0.32] (others +0.04)"),
    ([*WEEKS, batch(4, -0.5, only="a")], "fell", "Scores of topic a fell in week 4: −0.30"),
    ([*WEEKS, batch(4, -0.9, version="v3")], "fell", "of the new version v3, against the versions of 3 earlier batches"),
    ([*WEEKS, batch(4, count=3)], "few", "Not enough conversations to tell a change: week 4"),
])  # fmt: skip
def test_latest_batch_is_compared_in_one_sentence(batches: list[Batch], state: str, said: str) -> None:
    found = batch_change(batches, SEEN, 4.0)
    assert (found.state, found.is_alarm) == (state, state in ("fell", "rose")), found.summary
    assert said in found.summary and "no change" not in found.summary.lower()
    row = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert row["summary"] == found.summary and found.document().to_json()["sections"][0]["lead"] == found.summary
    assert bool(found.next) == found.is_alarm


def test_a_small_change_that_lasts_is_found_by_several_batches_together() -> None:
    changes = list(batch_changes([*WEEKS, *(batch(n, -0.2) for n in range(40, 45))], SEEN, 4.0))
    stated = next(each for each in changes if each.is_alarm)
    assert stated.window > 1 and f"the latest {stated.window} batches, up to" in stated.finding


@pytest.mark.parametrize(("seen", "said"), [
    (None, "too few held-out ratings are stored with it"),
    (Sight(Estimate(0.1, -0.1, 0.3), Estimate(0.1, -0.1, 0.3), 50, 100, True), "are not shown to rise with people's"),
    (Sight(Estimate(0.1, 0.01, 0.2), Estimate(0.1, 0.01, 0.2), 50, 100, True), "so the interval would be from"),
])  # fmt: skip
def test_evaluator_that_cannot_tell_says_why(seen: Sight | None, said: str) -> None:
    found = batch_change([*WEEKS, batch(4, -0.4)], seen, 4.0)
    assert found.people.value is None and found.blind and "This evaluator cannot tell by how much" in found.summary
    assert said in found.summary


def test_scores_without_evidence_tell_no_change() -> None:
    """Conversations that no judge answered about get nearly the same score, which looks like no change."""
    fallen = batch(4, -0.4)
    for batches, state in (([replace(WEEKS[0], lacking=76)], "first"), ([*WEEKS, replace(fallen, lacking=76)], "fell")):
        found = batch_change(batches, SEEN, 4.0)
        assert found.state == state and found.people.value is None and found.is_without_evidence
        assert (
            "cannot tell by how much people's ratings changed: 76 of 150 conversations lack evidence" in found.summary
        )
    few = batch_change([*WEEKS, replace(fallen, lacking=75)], SEEN, 4.0)
    assert few.people.value is not None and few.to_json()["lacking"] == 75


def test_streams_without_a_change_are_quiet_and_levels_sum_to_the_level() -> None:
    assert sum(spent_level(k) for k in range(1, 5000)) < 0.05
    alarms = 0
    for stream in range(30):
        batches = [batch(1000 * stream + number, count=60) for number in range(6)]
        alarms += any(each.is_alarm for each in batch_changes(batches, None, 4.0))
    assert alarms <= 2


@pytest.mark.parametrize("people", [1, 2])
def test_sight_is_the_part_that_scores_show(people: int) -> None:
    rng = np.random.default_rng(3)
    quality = rng.normal(0, 1, 3000)
    place = np.repeat(np.arange(3000), people)
    rating = quality[place] + rng.normal(0, 1, len(place))
    found = sight(0.3 * quality[place] + rng.normal(0, 0.2, 3000)[place], rating, place, place)
    assert found is not None and found.is_repeated == (people > 1) and found.is_clear
    assert found.least.value is not None and found.most.value is not None
    change = found.change(Estimate(-0.3, -0.35, -0.25))
    assert change.low is not None and change.high is not None and change.low < -1 < change.high
    if people > 1:
        assert found.least.value == pytest.approx(0.3, abs=0.03) and found.least == found.most
    else:
        assert found.least.value < 0.3 < found.most.value


def test_ratio_has_fiellers_interval_or_none() -> None:
    exact = ratio(Estimate(-0.2, -0.3, -0.1), Estimate(0.5, 0.5, 0.5))
    assert (exact.value, exact.low, exact.high) == pytest.approx((-0.4, -0.6, -0.2))
    assert ratio(Estimate(-0.2, -0.3, -0.1), Estimate(0.1, -0.1, 0.3)).value is None


def test_labels_of_both_sides_measure_the_change_whatever_the_scores_see() -> None:
    rng = np.random.default_rng(0)
    n = 80
    is_new, annotator = np.arange(n) % 2 == 0, rng.choice(["ann", "bob"], n)
    rating = 3 - 0.8 * is_new + 0.5 * (annotator == "ann") + rng.normal(0, 0.5, n)
    names, score = [f"c{place}" for place in range(n)], rng.normal(size=n)
    found = rated_change(rating, is_new, ["v"] * n, annotator.tolist(), names, score, None)
    assert found.low is not None and found.high is not None and found.low < -0.8 < found.high < -0.4
    alone = rated_change(rating, is_new, ["v"] * n, ["ann" if new else "bob" for new in is_new], names, score, None)
    assert alone.value is None  # leniency and change cannot be separated
    assert rated_change(rating[:6], is_new[:6], ["v"] * 6, ["ann"] * 6, names[:6], score[:6], None).value is None


# --- commands ---------------------------------------------------------------------------------------------------------

MEANS = (3.25, 3.25, 3.34, 2.12)


@pytest.fixture(scope="module")
def month(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """A fitted project with three scored weeks, the last of which fell by 1.2 points; outputs by command."""
    folder = tmp_path_factory.mktemp("month")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_month(folder, MEANS, count=90)
        accord("import", "week0.jsonl", "ratings.csv")
        accord("fit")
        scored = {f"week{n}": printed("score", f"week{n}.jsonl", "--out", f"scores{n}.jsonl") for n in (1, 2, 3)}
        yield {"folder": folder, **scored}


@pytest.fixture
def here(month: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(month["folder"])
    return month


def change_in(folder: Path) -> BatchChange:
    with open_project(folder / "accord.yaml") as project:
        found = change_of_scores(project)
    assert found is not None
    return found


def test_every_surface_states_the_fall_in_the_same_words(here: dict[str, Any]) -> None:
    found = change_in(here["folder"])
    assert found.state == "fell" and found.people.low is not None and found.people.high is not None
    assert found.people.low < MEANS[3] - np.mean(MEANS[1:3]) < found.people.high < 0
    assert (
        "Not enough batches to tell" in here["week1"] and "Not enough to tell a change of the scores" in here["week2"]
    )
    gate = printed("gate", "--min-mean", "2", "--allow-unproven")
    with open_project("accord.yaml") as project:
        board = Board(project)
        found_figures = board.figures(BoardFilters())
    assert found_figures is not None
    _, figures = found_figures
    watched = accord_json("watch")
    summary = found.summary
    assert summary in here["week3"] and summary == watched["change"]["summary"]
    assert figures.batch is not None and figures.batch.summary == summary == figures.to_json()["batch"]["summary"]
    assert (
        f"change of the latest scores: passed: {summary.rstrip('.')}. This is not a condition; add --max-fall" in gate
    )


def test_gate_fails_on_a_fall_beyond_its_tolerance(here: dict[str, Any]) -> None:
    failed = printed("gate", "--max-fall", "0.3", "--allow-unproven", code=3)
    assert "fall of the latest scores, at most 0.3 points: failed: Scores fell in week3.jsonl" in failed
    assert "at most 4 points: passed: Scores fell" in printed("gate", "--max-fall", "4", "--allow-unproven")
    with open_project("accord.yaml") as project, pytest.raises(BadInput, match="points of the scale from 0 on"):
        check_gate(project, None, None, max_fall=-1.0)


def test_gate_fails_if_scores_without_evidence_cannot_tell(
    here: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = replace(
        change_in(here["folder"]), state="unclear", blind="90 of 90 conversations lack evidence", lacking=90
    )
    monkeypatch.setattr("accord.verbs.gate.change_of_scores", lambda project: replace(found, people=Estimate()))
    failed = printed("gate", "--max-fall", "4", "--allow-unproven", code=3)
    assert "at most 4 points: failed: " in failed and "90 of 90 conversations lack evidence" in failed


def test_alarm_of_a_batch_is_raised_once_with_size_interval_and_versions(here: dict[str, Any]) -> None:
    printed("watch", "--fail-on-alarm", code=None)
    printed("watch", "--fail-on-alarm")
    with open_project("accord.yaml") as project:
        [alarm] = [each for each in MonitoringTables(project.store).alarms() if each["kind"] == "batch"]
    assert alarm["low"] < alarm["change"] < alarm["high"] < 0 and alarm["people_low"] < alarm["people"] < 0
    assert (
        sorted(each["version"] for each in alarm["versions"]) == ["bot-1", "bot-2"]
        and "week3.jsonl" in alarm["message"]
    )
    found = change_in(here["folder"])
    samples = [each for family in ChangeGauges(lambda: found).collect() for each in family.samples]
    bounds = {each.labels["bound"]: each.value for each in samples
              if each.name == "accord_batch_change" and not each.labels["version"]}  # fmt: skip
    assert bounds == found.scores.to_json() and {"bot-1", "bot-2"} < {each.labels.get("version") for each in samples}
    assert list(ChangeGauges(lambda: None).collect()) == []


def test_cycle_compares_cards_and_links_the_report(here: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    with open_project("accord.yaml") as project:
        done = run_cycle(project, ["week3.jsonl"], "twice", CycleOptions(allow_unproven=True))
        assert any(note.startswith("There is no earlier card") for note in done.notes)
        options = CycleOptions(allow_unproven=True, card=Path("twice/agreement-card.json"))
        again = run_cycle(project, ["week3.jsonl"], "more", options)
    assert [path.name for path in done.files] == [
        "index.html", "scores.jsonl", "agreement-card.json", "agreement-card.md", "agreement-card.svg", "report.html",
    ]  # fmt: skip
    assert 'href="report.html"' in Path("twice/index.html").read_text("utf-8")
    assert {name for name, _, _ in again.card} <= {"test.uses", "test.first_used", "made"}, again.card


def test_labels_for_the_change_are_of_both_sides_and_say_if_people_see_it(here: dict[str, Any]) -> None:
    assert "is in the project; import the files that were scored" in refused("label", "next", "--for", "change")
    for number in (1, 2, 3):
        accord("import", f"week{number}.jsonl")
    rows = accord_json("label", "next", "--for", "change", "--count", "40")["labels"]
    sides = [row["reason"].startswith("random, of week3.jsonl") for row in rows]
    assert sum(sides) == 20 == len(sides) - sum(sides)
    wanted = {row["conversation"] for row in rows}
    given = []
    for number, mean in enumerate(MEANS):
        chats, qualities = week(number, mean, 90)
        given += [row for row in ratings(chats, qualities, people=1) if row["conversation"] in wanted]
    with open("more.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(given[0]))
        writer.writeheader()
        writer.writerows(given)
    accord("import", "more.csv")
    found = change_in(here["folder"])
    assert found.rated_counts == (20, 20) and "People see the fall: −" in found.summary and not found.next


def test_cycle_has_one_page_and_one_exit_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_month(tmp_path, (3.3, 3.3, 1.9), count=90)
    accord("import", "week0.jsonl", "ratings.csv")
    accord("fit")
    assert refused("label", "next", "--for", "change").count("accord score") == 1
    first = printed("cycle", "week1.jsonl", "--allow-unproven", "--no-report")
    assert "Go on: 2 conditions met: Not enough batches to tell a change" in first
    found = accord_json("cycle", "week2.jsonl", "--allow-unproven", "--no-report", code=3)
    assert found["change"]["state"] == "fell" and found["alarms"] == [found["change"]["summary"]]
    assert [check["passed"] for check in found["checks"]] == [True, False]
    assert found["imported"]["conversations"]["new"] == 90 == found["scored"]["scored"]
    page = Path(found["files"][0]).read_text("utf-8")
    assert "Stop: 1 of 2 conditions not met" in page and "fall of the latest scores, at most 0 points: failed" in page
    assert 'data-figure="batch_change:version bot-1"' in page and "<title>Accord cycle</title>" in page
    again = accord_json("cycle", "week2.jsonl", "--allow-unproven", "--no-report", "--max-fall", "4")
    assert again["change"]["summary"] == found["change"]["summary"] and again["alarms"] == []


def test_weeks_of_live_scores_are_batches_like_runs(tmp_path: Path) -> None:
    monday = datetime(2026, 3, 2, 9, tzinfo=UTC)
    usual = {**dict.fromkeys(SCORE_COLUMNS), "annotator": "population", "rated": False, "in_training": False}
    rng = np.random.default_rng(0)
    with Project(Config(store=f"sqlite:///{tmp_path}/accord.db")) as project:
        for number in range(4):
            time = int((monday + timedelta(days=7 * number)).timestamp() * 1000)
            origin = RowOrigin(project.question.id, "e@1", LIVE_ROWS)
            warning = f"{LACKS} that nearly all of the training data had: judge" if number == 2 else None
            of_all = {**usual, "turn": None, "warning": warning}
            rows = [{**of_all, "conversation": f"{number}-{place}", "value": float(value)}
                    for place, value in enumerate(rng.normal(2.5 - 0.5 * (number == 2), 0.3, 40))]  # fmt: skip
            facts = ConversationFacts("bot-1", time=time)
            project.mart.add(each for row in rows for each in origin.rows(row, facts, time, None))
        found = change_of_scores(project, "e@1", now=monday + timedelta(days=22))
    assert found is not None and found.state == "fell" and found.batch == "the week of 16 March 2026"
    assert len(found.reference) == 2  # the fourth week is not over
    assert found.lacking == 40 and "40 of 40 conversations lack evidence" in found.summary
