"""The verdict: its states, its agreement with the figures, and the report and the terminal that show it."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from browsing import axe, chromium
from commands import accord_json, printed
from hypothesis import given
from hypothesis import strategies as st

from accord.statistics import PairedTest
from accord.validation import STATES, Figures, verdict_of
from accord.values import Estimate

WON, TIED, LOST = (PairedTest(d, d - 0.1, d + 0.1, p) for d, p in ((-0.4, 0.001), (-0.05, 0.4), (0.3, 0.001)))
GOOD = Figures(
    low=1, high=5, labels=400, error=0.7, constant=1.2, people=0.75, r=Estimate(0.7, 0.6, 0.8),
    people_r=Estimate(0.7, 0.6, 0.8), tests={"constant": WON, "best-column": WON, "judge-expected": TIED},
    rivals={"constant": 1.2, "best-column": 1.0, "judge-expected": 0.75}, band=0.4, decided=0.5, biased=[],
)  # fmt: skip


def low(value: float) -> Estimate:
    return Estimate(value + 0.1, value, value + 0.2)


@pytest.mark.parametrize(
    ("changes", "state", "says"),
    [
        ({}, "single", "by 0.70 points on a scale from 1 to 5. Other people miss it by 0.75, a constant guess by 1.20. A single"),
        ({"biased": None}, "single", "0.70 points on a scale from 1 to 5"),
        ({"error": 0.9}, "systems", "the error must be at most 0.83, 10% above that of other people."),
        ({"people": None}, "systems", "1 to 5. A constant guess misses it by 1.20. Means over many conversations can be compared. Not ready for single conversations: how well people predict each other is unknown"),
        ({"r": low(0.45)}, "systems", "r within annotators may be as low as 0.45 (needed: at least 0.50)"),
        ({"band": 0.6}, "systems", "bands span 60% of the scale"),
        ({"band": 0.6, "error": 0.9}, "systems", "One more rule is not met."),
        ({"r": low(0.2)}, "triage", "may be as low as 0.20 (needed: at least 0.30)"),
        ({"biased": ["bot-b"]}, "triage", "scores are too high or too low for bot-b"),
        ({"tests": GOOD.tests | {"best-column": LOST}}, "triage", "the best single column has a smaller error (1.00)"),
        ({"tests": GOOD.tests | {"judge-expected": LOST}}, "triage", "the raw judge has a smaller error (0.75)"),
        ({"r": low(-0.02)}, "not yet", "may be as low as −0.02 (needed: above 0)"),
        ({"r": Estimate(), "is_within": False}, "not yet", "r is undefined"),
        ({"tests": {"constant": TIED}}, "not yet", "the difference from a constant guess is not significant, p = 0.4"),
        ({"tests": {}, "constant": None}, "not yet", "not significant, untested"),
        ({"tests": {"constant": LOST}, "error": 1.3}, "not yet", "Other people miss it by 0.75, a constant guess by 1.20."),
    ],
)  # fmt: skip
def test_each_state_has_its_rules(changes: dict[str, object], state: str, says: str) -> None:
    found = verdict_of(replace(GOOD, **changes))
    assert (found.state, says in found.sentence) == (state, True), str(found)
    assert 1 <= len(found.actions) <= 3 and all(command.startswith("accord ") for _, command in found.actions)


def test_not_yet_states_the_number_of_labels() -> None:
    weak = replace(GOOD, tests={"constant": TIED}, labels_needed=240)
    assert verdict_of(weak).title == "Not yet: label about 240 more"
    assert verdict_of(weak).actions[0][1] == "accord label next --count 240"
    assert verdict_of(replace(weak, labels_needed=None, labels=12)).title == (
        "Not yet: label about 30 more, or add evidence"
    )


def test_facts_place_the_error_between_chance_and_people() -> None:
    values = [value for value, _ in verdict_of(replace(GOOD, error=0.975)).facts]
    assert values == ["0.97", "50%", "50%"]
    value, meaning = verdict_of(replace(GOOD, people=None)).facts[1]
    assert value == "0.70" and "people are unknown" in meaning
    assert "people are no better than a constant guess" in verdict_of(replace(GOOD, people=1.3)).facts[1][1]


numbers = st.floats(0.1, 3) | st.none()
tests = st.builds(PairedTest, st.floats(-1, 1), st.none(), st.none(), st.floats(0.0005, 1))


@given(
    st.builds(
        Figures, st.just(1.0), st.just(5.0), st.integers(10, 5000), numbers, numbers, numbers,
        st.floats(-1, 1).map(low) | st.just(Estimate()), st.booleans(),
        tests=st.dictionaries(st.sampled_from(["constant", "best-column", "judge-expected"]), tests),
        band=numbers, decided=st.floats(0, 1) | st.none(),
        biased=st.none() | st.lists(st.sampled_from(["a", "b"]), unique=True),
        labels_needed=st.none() | st.integers(1, 5000),
    )
)  # fmt: skip
def test_verdict_never_contradicts_its_figures(figures: Figures) -> None:
    found, place = verdict_of(figures), STATES.index(verdict_of(figures).state)
    required = [rule for rule in found.checks if STATES.index(rule.state) <= place]
    above = [rule for rule in found.checks if STATES.index(rule.state) == place + 1]
    assert all(rule.is_met is not False for rule in required)
    assert place == 3 or any(rule.is_met is False and rule.failure in found.sentence for rule in above)
    error, people, constant = figures.error, figures.people, figures.constant
    if found.state == "single":
        assert error is not None and people is not None and error <= 1.1 * people and not figures.biased
    if None not in (error, people, constant):
        assert f"Other people miss it by {people:.2f}, a constant guess by {constant:.2f}." in found.sentence
    json.dumps(found.to_json())


# --- report and terminal ----------------------------------------------------------------------------------------------


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    said = printed("demo", "--out", "tried")
    page = Path("tried/report.html").read_text()
    title = re.search(r'<h1 class="state [\w-]+">(.*?)</h1>', page)
    sentence = re.search(r'<p class="verdict">(.*?)</p>', page)
    assert title and sentence
    shown = f"{title[1]}: {html.unescape(sentence[1])[0].lower()}{html.unescape(sentence[1])[1:]}"
    assert said.startswith(shown), "the terminal and the report show the same verdict"
    monkeypatch.chdir("tried")
    again = accord_json("report")
    assert shown == f"{again['verdict']['title']}: {again['verdict']['sentence']}"
    assert printed("report").startswith(shown)
    return page


@pytest.mark.slow
def test_report_begins_with_the_verdict_and_what_to_do(report: str) -> None:
    order = ["tried · ", "<h1", 'class="verdict"', 'class="facts big"', 'id="next"', "<nav", 'id="agreement"',
             'id="misses"', 'id="groups"', 'id="calibration"', 'id="annotators"', 'id="importance"', 'id="curve"',
             'id="drift"', 'id="terms"']  # fmt: skip
    places = [report.index(part) for part in order]
    assert places == sorted(places)
    assert report.count('<details class="miss">') == 10 and "<script" not in report
    assert all(f'id="{name}"' in report for name in re.findall(r'href="#(\w+)"', report))
    assert "Score new ones: <code>accord score" in report, "the empty section of drift says why"
    assert len(report.encode()) < 150_000, "507 ratings; 1,080 ratings of topical_usr take 92 kB"


@pytest.mark.slow
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
        hidden = page.locator("th.detail").first
        assert not hidden.is_visible()
        page.get_by_label("Show rank correlations").check()
        assert hidden.is_visible()
        box = page.locator(".statistics .wide")
        box.evaluate("box => box.scrollLeft = 400")
        first, left = page.locator(".statistics tr.ours td").first.bounding_box(), box.bounding_box()["x"]
        assert abs(first["x"] - left) < 2, "the first column stays in view"
        printout = page.pdf(format="A4")
        assert printout.startswith(b"%PDF") and len(re.findall(rb"/Type\s*/Page\b", printout)) >= 3
        browser.close()
