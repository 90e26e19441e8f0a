"""Board statistics on scores with planted effects: estimates, intervals, filters, lists."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import accord
from hypothesis import given, settings
from hypothesis import strategies as st

from accord import Conversation, Label, Project, Turn
from accord.board import (
    DIMENSIONS,
    Board,
    BoardFigures,
    BoardFilters,
    SelectedScores,
    describe_test,
)
from accord.edges import BadInput, UnknownName
from accord.project import Config
from accord.store import MartRow, MonitoringTables, StoreError
from accord.values import Target

DAY = 86_400_000
BEGIN = 1_780_272_000_000  # 2026-06-01
NAMES = st.text(min_size=1, max_size=20).filter(lambda text: "\0" not in text and text != "*")  # `*` is all
DATES = st.dates(min_value=datetime.date(1901, 1, 1), max_value=datetime.date(2199, 1, 1))


def row(name: str, value: float | None, **more: Any) -> MartRow:
    shares = None if value is None else [(4 - value) / 3, 0.0, 0.0, (value - 1) / 3]
    about = {"conversation": name, "turn": None, "question": "Q0", "annotator": "population", "evaluator": "e@1"}
    score = {"value": value, "options": [1.0, 2.0, 3.0, 4.0], "probabilities": shares, "signature": "s"}
    times = {"time": BEGIN, "scored": BEGIN, "origin": "batch", "synthetic": False}
    return {**about, **score, **times, **more}


@contextmanager
def board(folder: Path, rows: Sequence[MartRow]) -> Iterator[Board]:
    with Project(Config.model_validate({"store": f"sqlite:///{folder}/accord.db"})) as project:
        project.mart.add(rows)
        yield Board(project)


def figures(opened: Board, query: str = "") -> tuple[SelectedScores, BoardFigures]:
    found = opened.figures(BoardFilters.from_query(query))
    assert found is not None
    json.dumps(found[1].to_json(), allow_nan=False)
    return found


def names(opened: Board, query: str) -> list[str]:
    found = opened.page(BoardFilters.from_query(query))
    assert found is not None
    return [each.conversation for each in found[1].rows]


def planted(count: int = 400, seed: int = 0) -> list[MartRow]:
    """System b is better by .5; both saw the same inputs, half of them; topic t1 is worst; three weeks."""
    rng = np.random.default_rng(seed)
    found = []
    for place in range(count):
        system, pair = "ab"[place % 2], place // 2
        shared = f"i{pair}" if pair % 2 else f"i{place}{system}"
        level = 2.0 + 0.5 * (system == "b") - 0.4 * (pair % 4 == 1) + np.random.default_rng(pair).normal(0, 0.3)
        value = float(np.clip(level + rng.normal(0, 0.1), 1, 4))
        found.append(row(f"c{place}", value, system=system, topic=f"t{pair % 4}", input=shared,
                         time=BEGIN + (place % 21) * DAY))  # fmt: skip
    return found


# --- selections ---------------------------------------------------------------------------------------------------------


@given(st.builds(
    BoardFilters, question=st.none() | NAMES, system=st.none() | st.just("") | NAMES, topic=st.none() | st.just(""),
    since=st.none() | DATES.map(str), annotators=st.lists(NAMES, max_size=3).map(tuple),
    low=st.none() | st.floats(-100, 100).map(lambda v: float(f"{v:.10g}")), unscored=st.booleans(),
    by=st.sampled_from(DIMENSIONS), view=st.sampled_from(["panel", "each"]), order=st.sampled_from(["worst", "apart"]),
))  # fmt: skip
@settings(max_examples=200, deadline=None)
def test_a_selection_goes_through_a_query_and_comes_back(selection: BoardFilters) -> None:
    assert BoardFilters.from_query(selection.to_query()) == selection


@pytest.mark.parametrize(("query", "said"), [
    ("nothing=1", "unknown filter"), ("by=weather", "unknown choice of 'by'"), ("view=", "unknown choice of 'view'"),
    ("low=abc", "allowed: a number"), ("low=nan", "allowed: a number"), ("high=1e999", "allowed: a number"),
    ("since=yesterday", "a day such as"), ("since=0001-01-01", "in the years"), ("unscored=2", "allowed: 1, 0"),
    ("system=a&system=b", "twice"), ("system=" + "x" * 600, "allowed: 512"), ("system=%00", "NUL"),
    ("system=%ff", "cannot be parsed"), ("&".join(f"annotators={n}" for n in range(100)), "cannot be parsed"),
    ("x" * 100_000, "characters"), ("=", "unknown filter"), ("system", ""),
])  # fmt: skip
def test_invalid_query_gives_one_line_error(query: str, said: str) -> None:
    if not said:
        assert BoardFilters.from_query(query).system == ""
        return
    with pytest.raises((BadInput, UnknownName), match=said) as caught:
        BoardFilters.from_query(query)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400


# --- figures ------------------------------------------------------------------------------------------------------------


def test_nothing_scored_is_nothing(tmp_path: Path) -> None:
    with board(tmp_path, []) as opened:
        assert opened.figures(BoardFilters()) is None and opened.page(BoardFilters()) is None


def test_scores_at_the_ends_of_the_calendar_are_shown(tmp_path: Path) -> None:
    first, last = -62_135_596_800_000, 253_402_300_799_999
    times = [first, last, first - 1, last + 1, None]
    with board(tmp_path, [row(f"c{n}", 2.0, time=time) for n, time in enumerate(times)]) as opened:
        moments = figures(opened)[1].time.moments
        assert [moments[0].since, moments[-1].until] == ["0001-01-01", "9999-12-31"]
        assert sum(each.texts for each in moments) == 5 and names(opened, "order=newest")[0] == "c1"


def test_a_board_without_one_readable_part_names_the_damaged_ones(tmp_path: Path) -> None:
    config = tmp_path / "accord.yaml"
    config.write_text(f"store: sqlite:///{tmp_path}/accord.db\n", encoding="utf-8")

    def run(*command: str, code: int = 0) -> str:
        return accord(*command, "--config", str(config), code=code)

    with board(tmp_path, [row("c", 2.0)]) as opened:
        [part] = opened.project.mart.folder.glob("*.parquet")
        part.write_bytes(part.read_bytes()[:-20])
        with pytest.raises(StoreError, match=part.name):
            opened.figures(BoardFilters())
        checked = run("store", "check", code=1)
        assert part.name in checked and "score its conversations again" in checked
        part.unlink()
        assert opened.figures(BoardFilters()) is None and "nothing is damaged" in run("store", "check")


def test_the_difference_of_two_systems_is_found_on_the_inputs_that_both_saw(tmp_path: Path) -> None:
    with board(tmp_path, planted()) as opened:
        gap = figures(opened, "first=b&second=a")[1].difference
        assert gap.paired and gap.shared == 100 and gap.texts == (200, 200)
        assert gap.difference.low < 0.5 < gap.difference.high and gap.p < 1e-6
        assert gap.difference.high - gap.difference.low < 0.11, "half of the pairs differ by noise of .1 alone"
        unpaired = figures(opened, "first=t0&second=t1&by=topic")[1].difference
        assert not unpaired.paired and "no input in common" in describe_test(unpaired)


def test_equal_systems_differ_no_more_often_than_chance(tmp_path: Path) -> None:
    rows = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        rows += [row(f"{seed}-{n}", float(np.clip(level + rng.normal(0, 0.1), 1, 4)), turn=k, system="ab"[n % 2],
                     topic=f"t{seed}")
                 for n in range(60) for level in [rng.normal(2.5, 0.4)] for k in range(5)]  # fmt: skip
    with board(tmp_path, rows) as opened:
        gaps = [figures(opened, f"topic=t{seed}")[1].difference for seed in range(20)]
    assert {gap.texts for gap in gaps} == {(150, 150)}
    assert sum(gap.p < 0.05 for gap in gaps) <= 4, "turns of a conversation are no independent texts"


def test_the_density_is_one_and_its_bins_hold_everything(tmp_path: Path) -> None:
    rows = planted()
    with board(tmp_path, rows) as opened:
        texts, found = figures(opened)
        made, values = found.density, [each["value"] for each in rows]
        assert sum(made.density) * (texts.high - texts.low) / len(made.at) == pytest.approx(1, abs=1e-6)
        assert sum(each.count for each in made.bins) == made.rows == found.texts == 400
        assert all(low <= high for low, high in zip(made.low, made.high, strict=True)) and made.drawn == ("texts",)
        assert made.mean.value == pytest.approx(np.mean(values))
        for each in made.bins:
            assert opened.page(BoardFilters(low=each.low, high=each.high))[1].total == each.count


def test_the_interval_of_a_mean_is_that_of_conversations_and_not_of_turns(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    levels = rng.normal(2.5, 0.4, 3000)
    rows = [row(f"c{n}", float(np.clip(level + rng.normal(0, 0.05), 1, 4)), turn=k)
            for n, level in enumerate(levels) for k in range(4)]  # fmt: skip
    with board(tmp_path, rows) as opened:
        _, found = figures(opened)
        assert found.density.rows == 12_000 and found.density.conversations == 3000
        wanted = 2 * 1.96 * float(np.std(levels)) / 3000**0.5
        assert found.mean.high - found.mean.low == pytest.approx(wanted, rel=0.25)


def annotated(count: int = 120) -> list[MartRow]:
    rng = np.random.default_rng(5)
    shift = {"ann": -0.8, "bob": 0.0, "cy": 0.6}
    return [
        row(f"c{n}", float(np.clip(2.5 + s * (1 + (n == 7)) + rng.normal(0, 0.2), 1, 4)), annotator=who, system="a")
        for n in range(count) for who, s in shift.items()
    ]  # fmt: skip


def test_means_by_annotator_and_disputed_texts(tmp_path: Path) -> None:
    with board(tmp_path, annotated()) as opened:
        texts, found = figures(opened)
        assert found.texts == 120 and texts.annotators == ["ann", "bob", "cy"]
        of = {each.name: each for each in found.annotators.rows}
        assert of["ann"].mean.value < of["bob"].mean.value < of["cy"].mean.value
        worst = found.controversial[0]
        assert (worst.conversation, worst.worst_for, worst.best_for) == ("c7", "ann", "cy")
        assert names(opened, "order=apart")[0] == "c7"
        assert found.density.drawn == ("texts", "annotators")
        alone = figures(opened, "annotators=bob")[1]
        assert alone.annotators is None and alone.density.drawn == ("texts",)
        wide, narrow = (each.mean.high - each.mean.low for each in (found, alone))
        assert wide > 3 * narrow, "three annotators who differ are a small sample of annotators"


def test_disputed_texts_of_a_population_have_the_widest_distributions(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    shares = {f"c{n:02d}": rng.dirichlet(np.ones(4)).tolist() for n in range(40)} | {"c07": [0.5, 0.0, 0.0, 0.5]}
    certain = row("sure", 2.0, probabilities=[0.0, 1.0, 0.0, 0.0])
    rows = [row(name, float(np.dot(p, [1, 2, 3, 4])), probabilities=p) for name, p in shares.items()]
    rows += [certain, row("missing", None, unscored="no evidence"), row("bare", 2.0, probabilities=None)]
    sd = {
        name: np.sqrt(np.dot(p, np.arange(1, 5) ** 2) - np.dot(p, np.arange(1, 5)) ** 2) for name, p in shares.items()
    }
    expected = sorted(sd, key=lambda name: -sd[name])
    with board(tmp_path, rows) as opened:
        texts, found = figures(opened)
        assert texts.is_population and found.annotators is None
        assert [each.conversation for each in found.controversial] == expected[:10]
        first = found.controversial[0]
        assert (first.conversation, first.apart) == ("c07", pytest.approx(1.5))
        assert first.worst_for is None is first.best_for
        assert names(opened, "order=apart")[:40] == expected
        given = opened.figures(BoardFilters.from_query("answers=given"))
        assert given is not None and not given[1].controversial, "no person rated them"


def test_view_of_each_annotator_keeps_answers_apart(tmp_path: Path) -> None:
    with board(tmp_path, annotated()) as opened:
        made = figures(opened, "view=each")[1].density
        assert made.rows == 360 and made.drawn == ("texts", "annotators", "answers")
        ends = [made.density[np.abs(np.array(made.at) - place).argmin()] for place in (1.0, 2.5, 4.0)]
        assert ends[1] < 0.05 < min(ends[0], ends[2]), "p̂ has all its mass on 1 and 4: that is not a mean of 2.5"
        inside = [low <= d <= high for low, d, high in zip(made.low, made.density, made.high, strict=True)]
        assert np.mean(inside) > 0.9
        listed = opened.page(BoardFilters(view="each"))[1]
        assert listed.total == 360 and listed.rows[0].annotator == "ann"


def test_population_scores_are_not_mixed_with_scores_of_annotators(tmp_path: Path) -> None:
    rows = [*annotated(), *(row(f"c{n}", 4.0) for n in range(120))]
    with board(tmp_path, rows) as opened:
        texts, found = figures(opened)
        assert found.mean.value == 4.0 and texts.annotators == ["population"]
        assert any("3 single annotators" in note for note in found.notes)
        assert figures(opened, "view=each")[0].annotators == ["ann", "bob", "cy"]


def test_synthetic_conversations_are_left_out_with_a_note(tmp_path: Path) -> None:
    rows = [*(row(f"c{n}", 2.0) for n in range(10)), *(row(f"s{n}", 4.0, synthetic=True) for n in range(7))]
    with board(tmp_path, rows) as opened:
        plain, only, both = (figures(opened, query)[1] for query in ("", "synthetic=only", "synthetic=with"))
        assert (plain.texts, only.texts, both.texts) == (10, 7, 17) and plain.mean.value == 2.0
        assert plain.notes[0].startswith("7 scores of synthetic conversations are left out")
        assert "only synthetic" in only.notes[0] and "are included" in both.notes[0]


def test_scores_of_two_evaluators_are_never_mixed_and_the_last_one_is_shown(tmp_path: Path) -> None:
    rows = [
        *(row(f"c{n}", 2.0) for n in range(5)),
        *(row(f"c{n}", 3.0, evaluator="e@2", scored=BEGIN + 1) for n in range(4)),
    ]
    with board(tmp_path, rows) as opened:
        texts, found = figures(opened)
        assert texts.selection.evaluator == "e@2" and found.texts == 4
        assert figures(opened, "evaluator=e%401")[1].mean.value == 2.0
        with pytest.raises(UnknownName, match="e@1"):
            figures(opened, "evaluator=e%403")
        with pytest.raises(UnknownName):
            figures(opened, "question=Q9")


def test_periods_have_alarms_and_texts(tmp_path: Path) -> None:
    with board(tmp_path, planted()) as opened:
        alarm = {"kind": "mean", "system": "a", "day": "2026-06-05", "message": "a moved"}
        MonitoringTables(opened.project.store).raise_alarms({"one": alarm})
        _, found = figures(opened)
        assert found.time.step == "day" and len(found.time.moments) == 21
        assert sum(each.texts for each in found.time.moments) == 400
        assert [each.message for each in found.time.happened] == ["a moved"] and "1 alarm since" in found.summary
        first = found.time.moments[0]
        tenths = [first.lowest, first.median, first.highest]
        assert [each.value for each in tenths] == sorted(each.value for each in tenths) and first.mean.low is not None
        assert all(each.low - 0.02 <= each.value <= each.high + 0.02 and each.low < each.high for each in tenths)
        assert len(names(opened, f"since={first.since}&until={first.until}")) == first.texts
        assert not figures(opened, "system=b")[1].time.happened, "an alarm of another system"


def test_many_days_are_weeks(tmp_path: Path) -> None:
    rows = [row(f"c{n}", 2.0, time=BEGIN + n * DAY) for n in range(100)]
    with board(tmp_path, rows) as opened:
        found = figures(opened)[1].time
        assert found.step == "week" and sum(each.texts for each in found.moments) == 100
        assert all(each.since < each.until for each in found.moments)


def test_lists_are_worst_first_and_paged_to_the_end(tmp_path: Path) -> None:
    rows = planted()
    rows[3]["value"], rows[3]["unscored"] = None, "refused"
    with board(tmp_path, rows) as opened:
        seen: list[tuple[float, str]] = []
        for number in range(1, 10):
            page = opened.page(BoardFilters(), number)[1]
            assert page.total == 399 and page.pages == 8
            if page.number == number:
                seen += [(each.value or 0, each.conversation) for each in page.rows]
        assert seen == sorted(seen) and len(seen) == 399
        assert names(opened, "unscored=1") == ["c3"] and figures(opened)[1].unscored == {"refused": 1}
        best = opened.page(BoardFilters(order="best", topic="t1", system="a"))[1].rows
        assert {(each.topic, each.system) for each in best} == {("t1", "a")}
        assert [each.value for each in best] == sorted((each.value for each in best), reverse=True)


def test_groups_that_say_nothing_are_a_group(tmp_path: Path) -> None:
    rows = [row("a", 1.0, system="x"), row("b", 2.0), row("c", 3.0)]
    with board(tmp_path, rows) as opened:
        table = figures(opened)[1].table
        assert [(each.name, each.value, each.texts) for each in table.rows] == [("unknown", "", 2), ("x", "x", 1)]
        assert sorted(names(opened, "system=")) == ["b", "c"]


def test_ten_thousand_systems_are_thirty_rows(tmp_path: Path) -> None:
    rows = [row(f"c{n}", 1.0 + n % 4, system=f"s{n % 10_000}") for n in range(10_100)]
    with board(tmp_path, rows) as opened:
        table = figures(opened)[1].table
        assert len(table.rows) == 30 and table.others == 9_970


def test_given_answers_and_means_as_people_would_give_them(tmp_path: Path) -> None:
    truth = np.clip(np.random.default_rng(0).normal(2.5, 0.6, 400), 1, 4)
    rows = [row(f"c{n}", float(np.clip(v - 0.3, 1, 4)), system="a") for n, v in enumerate(truth)]

    def labels(name: str, count: int, year: int) -> list[Label]:
        time = f"{year}-01-01T00:00:00+00:00"
        return [Label(Target(f"c{n}"), "Q0", name, round(float(truth[n])), time) for n in range(count)]

    with board(tmp_path, rows) as opened:
        store, turns = opened.project.store, (Turn("user", "?"), Turn("assistant", "!"))
        store.add_conversations(Conversation(f"c{n}", turns) for n in range(400))
        assert figures(opened)[1].powered_note.startswith("no ratings")
        store.add_labels(labels("ann", 50, 2020))
        found = figures(opened)[1]
        assert not found.powered and "accord estimate" in found.powered_note, "it may have learned from them"
        assert found.given.rows == 50
        store.add_labels(labels("bob", 100, 2027))
        [mean] = figures(opened)[1].powered
        corrected = "scores are .3 too low, and labels put that right"
        assert mean.labelled == 100 and mean.mean.low < float(np.mean(truth)) < mean.mean.high, corrected
        assert mean.mean.high - mean.mean.low < mean.label_mean.high - mean.label_mean.low
        texts, of_people = figures(opened, "answers=given")
        assert texts.annotators == ["ann", "bob"] and of_people.texts == 100 and of_people.given is None


def test_effects_of_evidence_and_slopes_of_questions(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = []
    for n in range(200):
        x, z = rng.uniform(-1, 1, 2)
        rows.append(row(f"c{n}", 2.5 + x, attributions=json.dumps({"length": x, "asks": 0.1})))
        rows += [row(f"c{n}", 2.0 + 0.5 * x, question="Q1"), row(f"c{n}", 2.0 + z, question="Q2")]
    with board(tmp_path, rows) as opened:
        found = figures(opened)[1]
        assert [each.evidence for each in found.pulls] == ["length", "asks"]
        slopes = {each.question: each.rise.value for each in found.rises}
        assert slopes["Q1"] == pytest.approx(2, abs=1e-6) and abs(slopes["Q2"]) < 0.3
        assert not figures(opened, "question=Q1")[1].rises


@pytest.mark.attack
def test_turns_of_one_conversation_are_no_further_evidence_of_an_effect(tmp_path: Path) -> None:
    def width(folder: Path, turns: int) -> float:
        rows = [row(f"c{n}", 2.5, turn=2 * turn + 1, attributions=json.dumps({"length": n % 7 / 7}))
                for n in range(40) for turn in range(turns)]  # fmt: skip
        with board(folder, rows) as opened:
            [pull] = figures(opened)[1].pulls
        assert pull.weight.low is not None and pull.weight.high is not None
        return pull.weight.high - pull.weight.low

    assert width(tmp_path / "five", 5) == pytest.approx(width(tmp_path / "one", 1), rel=0.01)


def test_scores_that_come_in_are_counted_at_once(tmp_path: Path) -> None:
    with board(tmp_path, planted(40)) as opened:
        assert figures(opened)[1].texts == 40
        with opened.project.mart.writer() as writer:
            writer.write([row("new", 1.0, origin="live")])
            assert figures(opened)[1].texts == 41 and names(opened, "")[0] == "new"


def test_unreadable_part_is_reported(tmp_path: Path) -> None:
    with board(tmp_path, planted(40)) as opened:
        (opened.project.mart.folder / "part-bad.parquet").write_bytes(b"PAR1 and no more")
        found = figures(opened)[1]
        assert found.texts == 40 and "part-bad.parquet" in found.notes[-1]


@pytest.mark.parametrize("rows", [
    [row("a", None, unscored="refused")], [row("a", 2.0)], [row("a", 2.0, time=None)],
    [row(f"c{n}", 2.0, system="<script>", topic="\x1b[31m", conversation=f"{n}" * 200) for n in range(6)],
    [row(f"c{n}", float(n), options=None, probabilities=None, question="free") for n in range(20)],
], ids=["unscored", "one", "no time", "hostile", "no options"])  # fmt: skip
def test_little_and_odd_scores_have_their_figures(tmp_path: Path, rows: list[MartRow]) -> None:
    with board(tmp_path, rows) as opened:
        for query in ("", "view=each", "answers=given", "by=topic", "synthetic=with"):
            figures(opened, query)


def test_scores_of_training_conversations_are_left_out_unless_there_are_no_others(tmp_path: Path) -> None:
    rows = [row(f"c{place}", 1.0 + place % 3, in_training=place < 10) for place in range(30)]
    with board(tmp_path / "some", rows) as opened:
        found, _ = figures(opened)
        assert len(found.rows) == 20 and found.in_training == 10
        assert "10 scores of conversations that the evaluator learned from are left out" in found.notes
        every, _ = figures(opened, "training=with")
        assert len(every.rows) == 30
        assert every.learned.startswith("The evaluator learned from 10 of these conversations; their scores are closer")
        assert not every.is_all_learned and every.notes[-1].startswith("the evaluator learned from 10 of these")
        with pytest.raises(UnknownName, match="choice of 'training'"):
            BoardFilters.from_query("training=maybe")
    with board(tmp_path / "all", rows[:10]) as opened:
        alone, _ = figures(opened)
        assert len(alone.rows) == 10 and alone.is_all_learned and alone.selection.answers == "predicted"
        assert alone.learned == (
            "The evaluator learned from all 10 conversations; import new ones to compare versions by scores."
        )


def rated_levels(opened: Board, rows: Sequence[MartRow], *ratings: int, question: str = "Q0") -> None:
    """Rate the conversation of each row, by turns with these ratings."""
    turns = (Turn("user", "?"), Turn("assistant", "!"))
    store = opened.project.store
    store.add_conversations(Conversation(each["conversation"], turns) for each in rows)
    store.add_labels(
        Label(Target(each["conversation"]), question, "ann", ratings["abc".index(each["system"])] + place % 2)
        for place, each in enumerate(rows)
    )


def test_ratings_of_people_are_shown_where_the_evaluator_learned_from_every_conversation(tmp_path: Path) -> None:
    rows = [
        row(f"c{place}", 2.0 + place % 7 / 10, in_training=True, system="abc"[place % 3], topic="t")
        for place in range(60)
    ]
    with board(tmp_path, rows) as opened:
        rated_levels(opened, rows, 3, 1, 3)
        scores, found = figures(opened)
        assert (scores.selection.answers, scores.selection.to_json()["answers"]) == ("given", "given")
        assert re.fullmatch(
            r"People rate b lowest, by 2\.00 points; no clear difference between [ac] and [ac]", found.headline
        )
        assert scores.learned.startswith("The evaluator learned from all 60 conversations; import new ones")
        chosen, predicted = figures(opened, "answers=predicted")
        assert chosen.learned == scores.learned and predicted.headline.startswith("Satisfaction averages 2.")
        assert not re.search("higher|lower|highest|lowest", f"{predicted.headline} {predicted.summary}")
        assert figures(opened, "against=e%401")[0].selection.answers == "predicted", "a comparison of evaluators"
        assert BoardFilters(answers="predicted").to_query() == "answers=predicted", "a choice stays in the address"
        again, _ = figures(opened)
        assert again.selection.answers == "given", "from the cache too"
        opened.project.mart.add([row("new", 2.0, system="a")])
        scores, _ = figures(opened)
        assert (scores.selection.answers, len(scores.rows), scores.learned) == ("predicted", 1, "")
    with board(tmp_path / "other", rows) as opened:
        rated_levels(opened, rows, 3, 1, 3, question="Q1")
        assert figures(opened)[0].selection.answers == "predicted", "nobody rated this question"
