"""The verdict: its states, its agreement with the figures, and the report and the terminal that show it."""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from browsing import axe, chromium
from commands import accord_json, printed
from hypothesis import given
from hypothesis import strategies as st
from random_figures import contradictions, random_figures

from accord.decisions import verdict_of
from accord.decisions.figures import Figures
from accord.decisions.held_out_uses import BadFound, VersionGap
from accord.decisions.verdict import STATES, TITLES
from accord.report import verdict_view
from accord.results import Ledger
from accord.statistics import GapOfMeans, PairedTest
from accord.values import Estimate

WON, TIED, LOST = (PairedTest(d, d - 0.1, d + 0.1, p) for d, p in ((-0.4, 0.001), (-0.05, 0.4), (0.3, 0.001)))
GOOD = Figures(
    low=1, high=5, labels=400, error=0.7, constant=1.2, shared=(400, 0.7, 1.2), people=0.75,
    alpha=Estimate(0.6, 0.5, 0.7), r=Estimate(0.7, 0.6, 0.8), people_r=Estimate(0.7, 0.6, 0.8),
    tests={"constant": WON, "best-column": WON, "judge-expected": TIED},
    rivals={"constant": 1.2, "best-column": 1.0, "judge-expected": 0.75}, band=0.4, decided=0.5, biased=[],
)  # fmt: skip


def low(value: float) -> Estimate:
    return Estimate(value + 0.1, value, value + 0.2)


@pytest.mark.parametrize(
    ("changes", "state", "says"),
    [
        ({}, "single", "by 0.70 points on a scale from 1 to 5. Other people miss it by 0.75, a constant guess by 1.20. A single"),
        ({"biased": None}, "single", "0.70 points on a scale from 1 to 5"),
        ({"shared": (400, 0.9, 1.2)}, "systems", "the error must be at most 0.83, 10% above that of other people."),
        ({"shared": (100, 0.8, 1.3)}, "single", "On the 100 ratings with a second person, scores miss by 0.80, other people by 0.75, a constant guess by 1.30."),
        ({"people": None, "shared": None, "alpha": Estimate()}, "systems", "1 to 5. A constant guess misses it by 1.20. Means over many conversations can be compared. Not ready for single conversations: how well people predict each other is unknown"),
        ({"r": low(0.45)}, "systems", "r within annotators may be as low as 0.45 (needed: at least 0.50)"),
        ({"band": 0.6}, "systems", "bands span 60% of the scale"),
        ({"band": None}, "systems", "bands are unknown"),
        ({"band": 0.6, "shared": (400, 0.9, 1.2)}, "systems", "1 more rule is not met."),
        ({"decided": 0.0}, "systems", "no conversation is sure enough to call good or bad"),
        ({"decided": None}, "single", "A single score is about as close"),
        ({"r": low(0.2)}, "triage", "may be as low as 0.20 (needed: at least 0.30)"),
        ({"r": low(-0.02)}, "triage", "may be as low as −0.02 (needed: at least 0.30)"),
        ({"r": Estimate(), "is_within": False}, "triage", "r is undefined"),
        ({"biased": ["bot-b"]}, "triage", "scores are too high or too low for bot-b"),
        ({"alpha": Estimate(-0.02, -0.2, 0.1)}, "triage", "people hardly agree with each other (α −0.02, at least −0.20)"),
        ({"rests_on": ("words-per-reply", 0.97)}, "triage", "it predicts from length (words-per-reply) alone (correlation 0.97)"),
        ({"rests_on": ("apology-rate", -0.95)}, "triage", "it predicts from apology-rate alone (correlation −0.95)"),
        ({"tests": GOOD.tests | {"best-column": LOST}}, "triage", "the best single feature has a smaller error (1.00)"),
        ({"tests": GOOD.tests | {"judge-expected": LOST}}, "triage", "the raw judge has a smaller error (0.75)"),
        ({"tests": {"constant": TIED}}, "not yet", "the error is not shown to be below that of a constant guess (p = 0.4"),
        ({"tests": {}, "constant": None}, "not yet", "not shown to be below that of a constant guess (untested)"),
        ({"r": low(0.4965)}, "systems", "may be as low as 0.496 (needed: at least 0.500)"),
        ({"band": 0.503}, "systems", "bands span 50.3% of the scale (at most 50.0%)"),
        ({"shared": (400, 0.827, 1.2)}, "systems", "the error must be at most 0.825, 10% above"),
        ({"alpha": Estimate(0.1, -0.003, 0.2)}, "triage", "(α 0.10, at least −0.003)"),
        ({"tests": GOOD.tests | {"best-column": LOST}, "rivals": GOOD.rivals | {"best-column": 0.698}}, "triage",
         "the best single feature has a smaller error (0.698)"),
        ({"tests": {"constant": LOST}, "error": 1.3}, "not yet", "the scores are worse than a constant guess (p = 0.001)"),
        ({"tests": {"constant": LOST}, "error": 1.3}, "not yet", "Other people miss it by 0.75, a constant guess by 1.20."),
    ],
)  # fmt: skip
def test_each_state_has_its_rules(changes: dict[str, object], state: str, says: str) -> None:
    found = verdict_of(replace(GOOD, **changes))
    assert (found.state, says in found.sentence) == (state, True), str(found)
    assert 1 <= len(found.actions) <= 3 and all(command.startswith("accord ") for _, command in found.actions)


def test_a_missed_rule_never_reads_as_a_met_one() -> None:
    """The value and the limit of each rule differ in print wherever the numbers differ."""
    close = replace(GOOD, r=low(0.4999), band=0.5001, shared=(400, 0.82501, 1.2), decided=0.001)
    for rule in verdict_of(close).checks:
        assert rule.value not in rule.limit or not any(map(str.isdigit, rule.value)), rule
    lost = {rule.name: rule.value for rule in verdict_of(replace(GOOD, tests={"constant": LOST})).checks}
    assert lost["error below that of a constant guess"] == "above it, p = 0.001"


def test_numpy_numbers_give_the_same_verdict() -> None:
    poor = replace(GOOD, tests={"constant": TIED}, band=np.float64(0.9), decided=np.float64(0))
    assert verdict_of(poor).state == "not yet"
    numbers = replace(
        GOOD, shared=(400, np.float64(0.9), np.float64(1.2)), people=np.float64(0.75), band=np.float64(0.9)
    )
    assert verdict_of(numbers).state == "systems"
    assert {rule.is_met for rule in verdict_of(numbers).checks} <= {True, False, None}
    json.dumps(verdict_of(numbers).to_json()["checks"])


def test_not_yet_states_the_number_of_labels() -> None:
    weak = replace(GOOD, tests={"constant": TIED}, labels_needed=240)
    assert verdict_of(weak).title == "Not yet: label about 240 more"
    assert verdict_of(weak).actions[0][1] == "accord label next --count 240"
    assert verdict_of(replace(weak, labels_needed=None, labels=12)).title == (
        "Not yet: label about 30 more, or add evidence"
    )


def test_versions_are_compared_only_where_there_are_several() -> None:
    several = verdict_of(replace(GOOD, band=0.6, biased=[]))
    one = verdict_of(replace(GOOD, band=0.6, biased=None))
    assert "Compare versions" in several.actions[0][0] and "Estimate the mean" in one.actions[0][0]


@pytest.mark.parametrize(
    ("judge", "advice"), [("none", "models: judge:"), ("unasked", "the open questions"), ("asked", None)]
)
def test_evidence_is_advised_only_where_some_can_be_added(judge: Any, advice: str | None) -> None:
    for changes in ({"tests": {"constant": TIED}}, {"band": 0.8}):
        found = verdict_of(replace(GOOD, judge=judge, **changes))
        said = [text for text, command in found.actions if command == "accord judge"]
        assert (advice is None) == (not said) and all(advice in text for text in said if advice)
        assert advice is not None or "add evidence" not in found.title


def test_a_state_that_repetitions_do_not_share_is_borderline() -> None:
    wide = replace(GOOD, band=0.51)
    clear = replace(GOOD, repeats=[GOOD, GOOD, GOOD, GOOD, wide])
    assert (
        verdict_of(clear).borderline == ""
        and verdict_of(clear).title == "You can judge single new conversations by their scores"
    )
    unclear = verdict_of(replace(GOOD, repeats=[GOOD, wide, wide, GOOD, GOOD]))
    assert (
        unclear.title == "You can judge single new conversations by their scores (borderline)"
        and unclear.state == "single"
    )
    assert "2 of 5 repetitions" in unclear.borderline and "bands span 51% of the scale" in unclear.borderline
    upward = verdict_of(replace(wide, repeats=[GOOD, GOOD, wide, wide, wide]))
    assert upward.state == "systems" and "there mean width of the bands is met" in upward.borderline


def test_titles_speak_of_new_conversations() -> None:
    assert "new conversations" in verdict_of(replace(GOOD, band=0.6)).title
    assert all("new conversations" in title and len(title) <= 66 for title in TITLES.values())
    assert re.fullmatch(r"\d+ of \d+ rules for all uses met", verdict_view(verdict_of(GOOD).to_json())["rules"])


def gap(value: float, mean: float = 3.0) -> GapOfMeans:
    return GapOfMeans(Estimate(value, value - 0.25, value + 0.25), 0.01, (mean + value, mean), (69, 69), 0)


MEASURED = replace(
    GOOD, units=138, annotators=3, band=0.6, shared=(400, 0.9, 1.2), near=(0.84, 0.93, 0.8), decided=0.0,
    found=BadFound(Estimate(6, 2, 9), 14, 18, 138, 2.0),
    versions=VersionGap("v2", "v1", gap(0.62), gap(0.66), gap(-0.04)),
)  # fmt: skip


def test_uses_state_what_was_measured_for_each_and_the_missing_rule() -> None:
    found = verdict_of(MEASURED)
    assert [use.is_allowed for use in found.uses] == [True, True, False]
    measured = [use.measured for use in found.uses]
    assert measured == [
        "6 [2, 9] of the 14 lowest scores are among the 18 conversations rated 2 or less; chance: 1.8",
        "v2 − v1: by scores +0.62, by people +0.66; difference −0.04 [−0.29, +0.21]",
        "a 90% band is 2.40 points wide; 0 of 138 conversations are clearly good or bad",
    ]
    assert [use.rule for use in found.uses] == ["1 of 1 rule met", "7 of 7 rules met", "8 of 11 rules met"]
    [rules] = found.rules_section().parts
    assert ["error near that of other people", "judging one conversation", "0.90", "at most 0.83", "no"] in rules.rows
    none = verdict_of(replace(GOOD, tests={"constant": TIED}, decided=0.0)).uses
    assert not any(use.is_allowed for use in none) and none[0].rule == "0 of 1 rule met"
    assert none[1].measured == "fewer than two assistant versions: no difference was measured"


def test_shares_of_sure_calls_that_depend_on_the_folds_are_shown_with_their_range() -> None:
    repeats = [replace(GOOD, decided=share) for share in (0.0, 0.5, 0.7)]
    assert ", 0% to 70% in single repetitions" in verdict_of(replace(MEASURED, repeats=repeats)).uses[2].measured
    assert "repetitions" not in verdict_of(replace(MEASURED, repeats=[GOOD, GOOD])).uses[2].measured


def test_ledger_has_each_figure_once_with_the_ratings_it_is_about() -> None:
    ledger = replace(MEASURED, intervals={"error": Estimate(0.7, 0.6, 0.8)}).ledger
    about = "400 held-out ratings of 138 conversations by 3 people"
    assert ledger["error"].sentence() == f"0.70 [0.60, 0.80], {about}" and ledger["error"].over == "conversations"
    assert ledger["people_error"].text() == "0.75" and ledger["within_one"].text() == "84%"
    assert ledger["difference_gap:v2 − v1"].text() == "−0.04 [−0.29, +0.21]"
    assert Ledger.from_json(json.loads(json.dumps(ledger.to_json()))) == ledger
    part = replace(MEASURED, shared=(100, 0.8, 1.3)).ledger
    assert part["shared_error"].text() == "0.80" and part["people_error"].about.startswith("100 held-out ratings of")
    with pytest.raises(ValueError, match=r"two values of error: 0\.70.* and 0\.90"):
        Ledger([*ledger.values(), replace(ledger["error"], value=0.9, low=None, high=None)])


def test_every_state_has_its_step_its_title_and_its_meaning() -> None:
    for changes, step in (({}, 3), ({"band": 0.6}, 2), ({"r": low(0.2)}, 1), ({"tests": {"constant": TIED}}, 0)):
        found = verdict_of(replace(GOOD, **changes))  # type: ignore[arg-type]
        view = verdict_view(found.to_json())
        assert view["title"] == found.title and view["meaning"].endswith(".") and view["meaning"] not in found.title
        assert [use["is_allowed"] for use in view["uses"]] == [place < step for place in range(3)]


def test_random_figures_reach_every_state() -> None:
    verdicts = [verdict_of(random_figures(Random(seed), seed % 6)) for seed in range(400)]
    states = Counter(verdict.state for verdict in verdicts)
    assert set(states) == set(STATES) and min(states.values()) >= 20, states
    assert 20 <= sum(bool(verdict.borderline) for verdict in verdicts) <= 380


@given(st.integers(0, 2**64), st.integers(0, 5))
def test_verdict_never_contradicts_its_figures(seed: int, repeats: int) -> None:
    assert contradictions(random_figures(Random(seed), repeats)) == []


# --- report and terminal ----------------------------------------------------------------------------------------------


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    said = printed("demo", "--no-judge", "--out", "tried")
    page = Path("tried/report.html").read_text(encoding="utf-8")
    title = re.search(r'<h1 class="state [\w-]+">(.*?)</h1>', page)
    sentence = re.search(r'<p class="sentence"[^>]*>(.*?)</p>', page)
    assert title and sentence
    shown = f"{title[1]}: {html.unescape(sentence[1])[0].lower()}{html.unescape(sentence[1])[1:]}"
    assert said.startswith(shown), "the terminal and the report show the same verdict"
    monkeypatch.chdir("tried")
    again = accord_json("report")
    assert shown == f"{again['verdict']['title']}: {again['verdict']['sentence']}"
    text = printed("report")
    assert text.startswith(shown)
    ours, people, constant = again["verdict"]["figures"]["near"]
    assert 0.8 < constant < ours < people < 1, "all are whole answers; the mean itself is near half of the ratings"
    for use in again["verdict"]["uses"]:
        assert all(html.escape(said) in page for said in (use["use"], use["measured"], use["missing"] or use["rule"]))
        assert all(word in text for word in use["measured"].split())
    assert "507 held-out ratings of 150 conversations by 4 people" in page
    return page


def test_report_begins_with_the_verdict_and_what_to_do(report: str) -> None:
    order = ["<span>tried</span>", "<h1", 'id="uses"', "Find bad conversations", '<ul class="rows">', 'id="errors"',
             'id="details"', 'id="agreement"', 'id="rules"', 'id="statistics"', 'id="misses"', 'id="groups"', 'id="calibration"', 'id="annotators"', 'id="importance"', 'id="curve"',
             'id="drift"', 'id="terms"']  # fmt: skip
    places = [report.index(part) for part in order]
    assert places == sorted(places)
    assert len(re.findall(r'<details class="fold"><summary><b>[^<]* rated ', report)) == 10 and "<script" not in report
    assert all(f'id="{name}"' in report for name in re.findall(r'href="#(\w+)"', report))
    assert "Score new ones: <code>accord score" in report, "the empty section of drift says why"
    written = re.sub(r"data:font/woff2;base64,[^)]*", "", report)
    assert len(written.encode()) < 152_000, "507 ratings; 1,080 ratings of topical_usr take 92 kB"


def test_report_in_a_browser_is_accessible_fits_a_phone_and_prints(report: str, tmp_path: Path) -> None:
    with chromium() as browser:
        page = browser.new_page()
        page.goto((tmp_path / "tried/report.html").as_uri())
        page.evaluate(axe())
        for scheme, width in (("light", 1300), ("dark", 1300), ("light", 390), ("dark", 390)):
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size({"width": width, "height": 800})
            page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
            found = page.evaluate("async () => (await axe.run(document)).violations")
            assert not [(each["id"], node["html"][:200]) for each in found for node in each["nodes"]], (scheme, width)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (scheme, width)
        box = page.locator("details", has_text="All evaluators").locator(".tbl-wrap").first
        box.evaluate("box => box.scrollLeft = 400")
        first, left = box.locator("tbody :is(th, td)").first.bounding_box(), box.bounding_box()["x"]
        assert abs(first["x"] - left) < 2, "the first column stays in view"
        printout = page.pdf(format="A4")
        assert printout.startswith(b"%PDF") and len(re.findall(rb"/Type\s*/Page\b", printout)) >= 3
        browser.close()


def test_repetition_without_the_test_that_fails_is_named() -> None:
    worse = replace(GOOD, tests=GOOD.tests | {"best-column": LOST})
    untested = replace(GOOD, tests={"constant": WON})
    found = verdict_of(replace(worse, repeats=[untested, untested, untested, worse]))
    assert found.state == "triage" and "3 of 4 repetitions" in found.borderline
    assert "(judging one conversation: there the best single feature is not better is met)" in found.borderline


@pytest.mark.parametrize(("doubled", "says"), [(0.4, "changes a score by +0.40"), (-0.25, "changes a score by −0.25")])
def test_change_of_doubled_replies_is_stated_with_its_sign(doubled: float, says: str) -> None:
    found = verdict_of(replace(GOOD, rests_on=("apology-rate", 0.95), doubled=doubled))
    assert f"(correlation 0.95): writing every reply twice {says}" in found.sentence
    assert str(found) == f"{found.title}: {found.sentence}"


def test_json_counts_the_repetitions() -> None:
    counts = [verdict_of(replace(GOOD, repeats=[GOOD] * n)).to_json()["figures"]["repeats"] for n in (0, 2, 5)]
    assert counts == [1, 2, 5]
