"""First sentence of the board, comparisons, figures, names of evaluators, and drift notes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_board import BEGIN, DAY, board, figures, row

from accord import Conversation, Turn
from accord.board import BoardFilters, difference_in_words, new_scores_section
from accord.board.comparisons import MeanDifference
from accord.board.statistics import (
    GroupRow,
    GroupTable,
)
from accord.board.summary import ranking_headline, ranking_in_words
from accord.results import section_text
from accord.statistics import holm
from accord.store import MartRow, MonitoringTables
from accord.values import Estimate, Label, Target


def versions(gap: float, count: int = 80, questions: Sequence[tuple[str, float]] = (), **more: Any) -> list[MartRow]:
    """Versions 2.9 and then 2.10, which differ by `gap`, and other questions with their own gaps; ten days."""
    rng, rows = np.random.default_rng(1), []
    for place in range(count):
        is_new = place % 2
        about = {"version": "2.10" if is_new else "2.9", "time": BEGIN + (place // 2 % 10) * DAY, **more}
        for question, size in (("Q0", gap), *questions):
            value = float(np.clip(2.5 + size * is_new + rng.normal(0, 0.1), 1, 4))
            rows.append(row(f"c{place}", value, question=question, **about))
    return rows


NUMBERS = r"\d\.\d\d points {} than 2\.9 on Satisfaction \(95% interval 0\.\d+ to 0\.\d+\)"
HIGHER, LOWER = (rf"Version 2\.10 scores {NUMBERS.format(word)}" for word in ("higher", "lower"))
SAME = r"; not enough to tell a change in the last day: [+−]?0\.\d\d \[−0\.\d\d, \+0\.\d\d\] points from earlier"


@pytest.mark.parametrize(("rows", "sentence"), [
    (versions(0.4), HIGHER + SAME),
    (versions(-0.4), LOWER + SAME),
    (versions(0.0), r"No clear difference between version 2\.10 and 2\.9 on Satisfaction: [+−]?0\.\d\d points "
     r"\(95% interval −0\.\d+ to \+0\.\d+\)" + SAME),
    (versions(0.4, count=6), r"Too few different scores to compare version 2\.10 with 2\.9 on Satisfaction \(3 and 3 conversations\)"),
    (versions(0.4, questions=[("Q1", 0.3), ("Q2", -0.3), ("Q3", 0.0)]),
     HIGHER + "; higher also on Natural, lower on Answerable, no clear difference on 1 other question" + SAME),
    (versions(-0.4, questions=[(f"Q{n}", -0.3) for n in range(1, 6)]),
     LOWER + "; lower also on Natural, Answerable, Cited and 2 more" + SAME),
    ([{**each, "time": BEGIN} for each in versions(0.4)], HIGHER),
    ([{**each, "version": None} for each in versions(0.0)],
     r"The mean score on Satisfaction is 2\.\d\d on a scale from 1 to 4 \(95% interval 2\.\d\d to 2\.\d\d, 80 conversations\)"
     + SAME),
    ([row("a", 2.0)], r"The mean score on Satisfaction is 2\.00 on a scale from 1 to 4 \(1 conversation\)"),
    ([row("a", None, unscored="refused")], "No conversation has a score on Satisfaction; remove a filter"),
], ids=["better", "worse", "no difference", "too few", "questions", "many questions", "one day", "no version", "one text",
        "unscored"])  # fmt: skip
def test_first_sentence(tmp_path: Path, rows: list[MartRow], sentence: str) -> None:
    with board(tmp_path, rows) as opened:
        scores, found = figures(opened)
        assert re.fullmatch(rf"{sentence}\.", found.summary), found.summary
        if found.difference is not None:
            words = difference_in_words(found.difference, "on Satisfaction")
            assert found.summary.startswith(words), "the sentence and the table state the same test"
        assert all(scores.shown(each.question) in found.summary for each in found.questions[:3] if each.sign)


def test_first_sentence_states_the_filters_and_answers_of_people(tmp_path: Path) -> None:
    with board(tmp_path, versions(0.4, topic="refunds")) as opened:
        assert (
            " on Satisfaction for conversations with topic refunds (95% interval"
            in figures(opened, "topic=refunds")[1].summary
        )
        assert figures(opened, "version=2.9")[1].summary.startswith(
            "The mean score on Satisfaction for conversations with version 2.9 is"
        )
        turns = (Turn("user", "?"), Turn("assistant", "!"))
        opened.project.store.add_conversations(Conversation(f"c{n}", turns) for n in range(80))
        opened.project.store.add_labels(
            Label(Target(f"c{n}"), "Q0", "ann", 2 + n % 2 + (n % 3 == 0)) for n in range(80)
        )
        summary = figures(opened, "answers=given")[1].summary
        assert summary.startswith("People rate version 2.10 0.98 points higher than 2.9 on Satisfaction")


def test_first_sentence_ranks_three_systems_unless_two_are_chosen(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [row(f"c{n}", 2 + 0.4 * (n % 3) + rng.normal(0, 0.1), system="abc"[n % 3]) for n in range(90)]
    with board(tmp_path / "far", rows) as opened:
        summary = figures(opened)[1].summary
        assert re.match(
            r"c scores 0\.[78]\d points higher than a on Satisfaction \(95% interval .*\), the largest of 3 significant "
            r"differences between the 3 assistant versions\.",
            summary,
        )
        chosen = figures(opened, "first=a&second=b")[1].summary
        assert chosen.startswith("a scores 0.") and "lower than b on Satisfaction" in chosen
    near = [{**each, "value": 2 + rng.normal(0, 0.1)} for each in rows]
    with board(tmp_path / "near", near) as opened:
        assert figures(opened)[1].summary.startswith(
            "No significant difference between the 3 assistant versions on Satisfaction: means from "
        )


@pytest.mark.attack
def test_the_sentence_on_many_groups_is_that_of_the_tests_below_it(tmp_path: Path) -> None:
    rng, contradicted, found_some = np.random.default_rng(3), 0, 0
    for place in range(12):  # intervals of means overlap, but the same inputs tell the systems apart, or nearly so
        level, gap = rng.normal(0, 0.5, 30), 0.03 * place
        rows = [row(f"c{n}{name}", float(np.clip(2.5 + level[n] + gap * at + rng.normal(0, 0.25), 1, 4)), system=name,
                    input=f"i{n}") for n in range(30) for at, name in enumerate("abc")]  # fmt: skip
        with board(tmp_path / str(place), rows) as opened:
            found = figures(opened)[1]
        is_any = any(each.p is not None and each.p < 0.05 for each in found.among)
        assert len(found.among) == 3 and found.difference in found.among
        contradicted += is_any == found.summary.startswith("No significant difference")
        found_some += is_any
    assert contradicted == 0 and 0 < found_some < 12


GROUPS = ("a", "b", "c", "d")


def corrected(tests: Sequence[tuple[float, float | None]]) -> list[MeanDifference]:
    """Differences of all pairs of four groups with these values and p, corrected together."""
    adjusted, found = iter(holm([p for _, p in tests if p is not None])), []
    for (second, first), (gap, p) in zip(combinations(GROUPS, 2), tests, strict=True):
        half = 0.9 * abs(gap) if (p or 1) < 0.05 and gap else 1.1 * abs(gap) + 0.01  # as the uncorrected p says
        estimate = Estimate(gap) if p is None else Estimate(gap, gap - half, gap + half)
        p_holm = None if p is None else next(adjusted)
        count = sum(p is not None for _, p in tests)
        found.append(MeanDifference("Q0", "system", first, second, estimate, p_holm, False, 0, (9, 9), count))
    return found


@given(st.lists(st.tuples(st.floats(-3, 3), st.none() | st.floats(1e-6, 1)), min_size=6, max_size=6))
@settings(max_examples=200)
def test_a_ranking_never_contradicts_its_tests(tests: list[tuple[float, float | None]]) -> None:
    among = corrected(tests)
    rows = tuple(GroupRow(name, name, 9, Estimate(2.0, 1.5, 2.5)) for name in GROUPS)
    said = ranking_in_words(GroupTable("system", rows, 0), among, "on Q0")
    significant = [each for each in among if each.sign]
    if all(each.p is None for each in among):
        assert said == ""
    elif significant:
        largest = max(significant, key=lambda each: abs(each.difference.value or 0.0))
        direction = "higher" if (largest.difference.value or 0.0) > 0 else "lower"
        assert re.match(rf"{largest.first} scores .* {direction} than {largest.second} ", said)
        assert "No significant" not in said and "No clear" not in said
    else:
        assert said.startswith("No significant difference between the ")


def test_a_group_without_scores_is_named(tmp_path: Path) -> None:
    with board(tmp_path, versions(0.4)) as opened:
        summary = figures(opened, "first=2.9&second=3")[1].summary
        assert summary.startswith("No scores of version 3 on Satisfaction; choose another version or remove a filter")


@pytest.mark.parametrize(("low", "high", "said"), [
    (0.1, 0.3, "Version 2 scores 0.20 points higher than 1 on Q0 (95% interval 0.10 to 0.30)"),
    (-0.3, -0.1, "Version 2 scores 0.20 points lower than 1 on Q0 (95% interval 0.10 to 0.30)"),
    (0.001, 0.399, "Version 2 scores 0.20 points higher than 1 on Q0 (95% interval 0.00 to 0.40)"),
    (0.001, 0.005, "Version 2 scores less than 0.01 points higher than 1 on Q0 (95% interval 0.00 to 0.01)"),
    (-0.1, 0.3, "No clear difference between version 2 and 1 on Q0: +0.10 points (95% interval −0.10 to +0.30)"),
    (0.0, 0.4, "No clear difference between version 2 and 1 on Q0: +0.20 points (95% interval 0.00 to +0.40)"),
    (None, None, "Too few different scores to compare version 2 with 1 on Q0 (3 and 4 conversations)"),
])  # fmt: skip
def test_a_difference_is_stated_as_its_interval_says(low: float | None, high: float | None, said: str) -> None:
    value = 0.2 if low is None or high is None else (low + high) / 2
    found = MeanDifference("Q0", "version", "2", "1", Estimate(value, low, high), 0.1, False, 0, (3, 4))
    assert difference_in_words(found, "on Q0") == said
    people = difference_in_words(replace(found, values="people"), "on Q0")
    assert "scores" not in people.replace("different scores", "") and (
        not found.sign or people.startswith("People rate")
    )


def test_a_change_in_the_last_day_is_stated_and_shown(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [row(f"c{n}", 2.5 + 0.5 * (n >= 80) + rng.normal(0, 0.1), time=BEGIN + n // 20 * DAY) for n in range(100)]
    with board(tmp_path, rows) as opened:
        found = figures(opened)[1]
        assert found.last_period is not None and found.last_period.sign == 1
        assert f"; the last day scores {found.last_period.difference.value:.2f} points higher than" in found.summary
        assert "no change" not in found.summary
        MonitoringTables(opened.project.store).raise_alarms({"one": {"day": "2026-06-02", "message": "a moved"}})
        assert "; 1 alarm since 1 June 2026, the last day" in figures(opened)[1].summary


def test_only_runs_that_found_drift_are_events(tmp_path: Path) -> None:
    with board(tmp_path, versions(0.4)) as opened:
        for name, moved in (("still", False), ("moved", True), ("other", True)):
            with opened.project.store.run("score", {}) as record:
                record.results.update(drift=[{"feature": "length", "is_shifted": moved}], drift_said=f"{name}.")
            evaluator = "e@2" if name == "other" else "e@1"
            opened.project.mart.add([row(f"r-{name}", 2.5, run=record.id, evaluator=evaluator, scored=BEGIN - 1)])
        found = figures(opened, "evaluator=e%401")[1]
        assert [(each.day, each.kind, each.message) for each in found.time.happened] == [
            ("2026-06-01", "drift", "moved")
        ]
        assert "; drift in 1 run since 1 June 2026" in found.summary


def test_two_evaluators_are_compared_on_the_same_texts(tmp_path: Path) -> None:
    second = [
        {**each, "value": each["value"] + 0.2 + 0.01 * (n % 3), "evaluator": "other@9", "scored": BEGIN + DAY}
        for n, each in enumerate(versions(0.4)[:60])
    ]
    with board(tmp_path, [*versions(0.4), *second]) as opened:
        scores, found = figures(opened, "against=e%401")
        assert found.evaluators is not None and found.evaluators.shared == 60
        assert found.summary.startswith(
            "Evaluator other (2 Jun 2026) scores the same 60 conversations 0.21 points higher than e (1 Jun"
        )
        assert scores.choices.names == {"other@9": "other (2 Jun 2026)", "e@1": "e (1 Jun 2026)"}


def test_evaluators_of_one_name_and_day_have_different_names(tmp_path: Path) -> None:
    times = {"e@1": 0, "e@2": 3_600_000, "e@3": 3_601_000, "f@1": 0}
    rows = [row("a", 2.0, evaluator=name, scored=BEGIN + time) for name, time in times.items()]
    with board(tmp_path, rows) as opened:
        names = figures(opened)[0].choices.names
    assert names == {
        "e@1": "e (1 Jun 2026, 00:00)", "e@2": "e (1 Jun 2026, 01:00:00)", "e@3": "e (1 Jun 2026, 01:00:01)",
        "f@1": "f (1 Jun 2026)",
    }  # fmt: skip


# --- headline -----------------------------------------------------------------------------------------------------------


def levels(*means: float, count: int = 40, **more: Any) -> list[MartRow]:
    """Systems a, b, c, ... with scores around their means."""
    rng = np.random.default_rng(2)
    return [
        row(f"{'abcdefg'[place]}{n}", float(np.clip(mean + rng.normal(0, 0.15), 1, 4)), system="abcdefg"[place], **more)
        for place, mean in enumerate(means)
        for n in range(count)
    ]


@pytest.mark.parametrize(("rows", "headline"), [
    (levels(3.0, 2.4, 3.0), r"b scores lowest on Satisfaction, by 0\.[56]\d points; no clear difference between [ac] and [ac]"),
    (levels(2.4, 3.0, 2.4), r"b scores highest on Satisfaction, by 0\.[56]\d points; no clear difference between [ac] and [ac]"),
    (levels(2.0, 2.6, 3.2), r"c scores highest on Satisfaction, by 0\.[56]\d points; a scores lowest, by 0\.[56]\d points"),
    (levels(2.5, 2.5, 2.5), "No clear difference between the 3 assistant versions on Satisfaction"),
    (levels(2.0, 2.0, 3.0, 3.0), r"[cd] scores \d\.\d\d points higher than [ab] on Satisfaction; 3 of the 5 other differences are "
     "clear"),
    (levels(2.0, 2.6), r"b scores 0\.[56]\d points higher than a on Satisfaction"),
    (levels(2.5, 2.5), "No clear difference between b and a on Satisfaction"),
    (levels(2.5), r"Satisfaction averages 2\.\d\d"),
    (levels(2.0, 3.0, count=1), r"Satisfaction averages 2\.\d\d"),
    ([{**each, "system": None} for each in levels(2.5)], r"Satisfaction averages 2\.\d\d"),
    (levels(2.0, 3.0, 2.0, in_training=True),
     r"Satisfaction averages 2\.\d\d"),
    ([row("a", None, unscored="refused")], "No scores on Satisfaction"),
], ids=["lowest", "highest", "both ends", "none", "two and two", "two", "two alike", "one", "few texts", "no system", "training",
        "no score"])  # fmt: skip
def test_headline_names_the_clear_findings_alone(tmp_path: Path, rows: list[MartRow], headline: str) -> None:
    with board(tmp_path, rows) as opened:
        scores, found = figures(opened)
        assert re.fullmatch(headline, found.headline), found.headline
        if scores.is_self_made:
            assert "higher" not in found.summary and "lower" not in found.summary, "and neither does the home page"
        tests = found.among or ((found.difference,) if found.difference else ())
        if not any(each.sign for each in tests):
            assert not re.search("highest|lowest|higher|lower", found.headline)


@pytest.mark.attack
@given(
    means=st.lists(st.floats(1, 4), min_size=2, max_size=6),
    signs=st.lists(st.integers(-1, 1), min_size=15, max_size=15),
)
@settings(deadline=None)
def test_headline_never_contradicts_the_table_and_its_tests(means: list[float], signs: list[int]) -> None:
    names = "abcdef"[: len(means)]
    table = GroupTable(
        "system",
        tuple(GroupRow(name, name, 9, Estimate(mean)) for name, mean in zip(names, means, strict=True)),
        0,
    )
    among = []
    for (one, other), sign in zip(combinations(names, 2), signs, strict=False):
        gap = means[names.index(one)] - means[names.index(other)]
        ends = (gap - 0.1, gap + 0.1) if not sign else (gap - abs(gap) / 2, gap + abs(gap) / 2)
        p = 0.001 if sign and abs(gap) > 1e-6 else 0.5
        among.append(MeanDifference("Q0", "system", one, other, Estimate(gap, *ends), p, False, 0, (9, 9), 15))
    said = ranking_headline(table, tuple(among), "on Q0")
    for name, word in re.findall(r"(\w) scores (highest|lowest)", said):
        own = [each for each in among if name in (each.first, each.second)]
        assert all(each.sign for each in own), said
        assert means[names.index(name)] == (max if word == "highest" else min)(means), said
    for one, word, other in re.findall(r"(\w) scores \S+ points (higher|lower) than (\w)", said):
        gap = means[names.index(one)] - means[names.index(other)]
        assert (gap > 0) == (word == "higher"), said
    for pair in re.findall(r"no clear difference between (\w) and (\w)", said):
        assert any({each.first, each.second} == set(pair) and not each.sign for each in among), said


# --- figures ------------------------------------------------------------------------------------------------------------


def traps() -> list[MartRow]:
    """Versions that share 12 inputs, one of them with further conversations of its own, and 5 unusual conversations."""
    rng = np.random.default_rng(0)
    same = [
        row(f"{version}{n}", 2 + 0.2 * (version == "v2") + n / 40 + rng.normal(0, 0.01), version=version, input=f"i{n}")
        for n in range(12)
        for version in ("v1", "v2")
    ]
    warning = "unlike the training data: its evidence is 9.0 away"
    return [*same, *(row(f"x{n}", 3.6, version="v1", warning=warning) for n in range(5))]


def test_the_difference_is_that_of_the_means_beside_it_and_every_text_has_its_number(tmp_path: Path) -> None:
    with board(tmp_path, traps()) as opened:
        found = figures(opened)[1]
        ledger, difference = found.ledger(), found.difference
        assert difference is not None and (difference.shared, difference.texts) == (12, (12, 17))
        means = [ledger[f"mean_score:{name}"] for name in ("v2", "v1")]
        gap = ledger["score_difference:v2 − v1"]
        assert gap.value == pytest.approx((means[0].value or 0) - (means[1].value or 0), abs=1e-12)
        assert [row.mean.value for row in found.table.rows if row.value == "v2"] == [means[0].value]
        assert gap.about == "29 new conversations, 12 and 17" and gap.by == "scores" and gap.source
        assert gap.text() in section_text(found.section()) and found.headline in found.section().lead
        assert found.to_json()["figures"] == ledger.to_json() and "tail" not in str(found.to_json())
        number = gap.short.lstrip("+−")
        assert number in found.summary and (number in found.headline or not difference.sign)


def test_every_number_of_a_headline_on_three_groups_is_in_the_ledger(tmp_path: Path) -> None:
    others = [{**each, "evaluator": "other@9", "value": 2.0 + n % 3} for n, each in enumerate(levels(2.0, 2.6, 3.2))]
    with board(tmp_path, [*levels(2.0, 2.6, 3.2), *others]) as opened:
        found = figures(opened, "evaluator=e%401")[1]
        sizes = {each.short.lstrip("+−") for each in found.ledger().values() if each.name == "score_difference"}
        assert set(re.findall(r"\d\.\d\d", found.headline)) <= sizes and len(found.differences) == len(found.among) == 3
        assert found.stated_figure is None
        stated = figures(opened, "evaluator=e%401&against=other%409")[1].stated_figure
        assert (
            stated is not None and stated.name == "evaluator_difference" and stated.about.endswith("that both scored")
        )


def test_conversations_unlike_the_training_data_are_counted_where_versions_are_compared(tmp_path: Path) -> None:
    said = "5 of 29 conversations are unlike the training data, so their scores may be wrong."
    with board(tmp_path, [*traps(), row("old", 2.0, in_training=True)]) as opened:
        scores, found = figures(opened)
        ledger = found.ledger()
        assert ledger["new_scores"].value == 29 and ledger["new_unlike"].text() == "5 of 29"
        assert found.unlike == scores.unlike == said and said in section_text(found.section())
        assert found.section().heading == "New conversations"
        shown = figures(opened, "training=with")[1]
        assert shown.ledger()["new_unlike"] == ledger["new_unlike"] and shown.section().heading == "Conversations"
        page = opened.page(BoardFilters(order="best"))
        assert page is not None and sum(each.is_unlike for each in page[1].rows) == 5


def test_replies_of_a_conversation_are_one_unit_and_unknown_inputs_are_not_shared(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    rows = []
    for n in range(40):
        level = rng.normal(2.5, 0.5)
        rows += [row(f"c{n}", level, turn=turn, version=f"v{n % 2}", input=f"{n}-{turn}") for turn in (1, 3, 5, 7, 9)]
    with board(tmp_path / "turns", rows) as opened:
        gap = figures(opened)[1].difference
        assert gap is not None and gap.difference.low is not None and gap.difference.high is not None
        assert gap.difference.high - gap.difference.low > 0.4, "40 conversations are the evidence, not 200 replies"
    with board(tmp_path / "unknown", versions(0.4)) as opened:
        gap = figures(opened)[1].difference
        assert gap is not None and gap.shared == 0 and not gap.paired


def test_section_of_new_scores_for_the_report(tmp_path: Path) -> None:
    with board(tmp_path / "none", []) as opened:
        assert new_scores_section(opened.project) is None
    with board(tmp_path / "new", traps()) as opened:
        section, own = new_scores_section(opened.project), figures(opened)[1].section()
        assert section is not None and [*section.parts[: len(own.parts)]] == [*own.parts]
        assert section.parts[-1].summary == "Lowest scores, to read first"  # type: ignore[union-attr]
    with board(tmp_path / "learned", [row("c", 2.0, in_training=True)]) as opened:
        section = new_scores_section(opened.project)
        assert section is not None and section.lead.startswith("The evaluator learned from the conversation")
    with board(tmp_path / "damaged", [row("c", 2.0)]) as opened:
        [part] = opened.project.mart.folder.glob("*.parquet")
        part.write_bytes(b"no scores")
        section = new_scores_section(opened.project)
        assert section is not None and section.lead.startswith("Their scores cannot be read: ") and not section.parts
