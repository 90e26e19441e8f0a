"""Checks of pairwise preferences: columns, figures, bad tables, the command and the page."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import printed, refused

import accord as package
from accord.edges import BadInput
from accord.report import write_check
from accord.statistics import LabeledSystem, bradley_terry, random_label_p

Rows = list[dict[str, Any]]
VERSIONS = {"v1": 0.7, "v2": 0.0, "v3": -0.7}


@pytest.fixture
def pairs() -> Rows:
    """200 questions, each answered by two of three versions in both orders; people labeled 150 of the 400 rows.

    The judge prefers A regardless of the responses in 15% of the rows.
    """
    rng = np.random.default_rng(0)
    names, rows = list(VERSIONS), list[dict[str, Any]]()
    for question in range(200):
        one, other = (names[place] for place in rng.choice(3, 2, replace=False))
        wins = rng.random() < 1 / (1 + np.exp(VERSIONS[other] - VERSIONS[one]))
        best = "" if rng.random() < 0.15 else one if wins else other
        for first, second in ((one, other), (other, one)):
            winner = "tie" if not best else "model_a" if best == first else "model_b"
            said = winner if rng.random() < 0.7 else ["model_a", "model_b", "tie (bothbad)"][rng.integers(3)]
            rows.append({
                "id": len(rows), "prompt": f"question {question}", "model_a": first, "model_b": second,
                "judge_winner": "model_a" if rng.random() < 0.15 else said, "human_winner": winner,
            })  # fmt: skip
    for row in rng.permutation(len(rows))[150:]:
        rows[row]["human_winner"] = None
    return rows


def check(table: Any, **options: Any) -> Any:
    """Check a table; no figure of the result is NaN or infinite."""
    result = package.check(table, **options)
    json.dumps(result.to_json(), allow_nan=False)
    assert len(str(result).splitlines()) <= 45
    return result


def test_pairs_have_agreement_win_rates_position_bias_and_strengths(pairs: Rows) -> None:
    result = check(pairs)
    assert result.columns["item"] == "prompt", "the same question in both orders has two ids"
    assert result.main.statistic == "Cohen's κ" and 0.3 < result.main.judge.low < result.main.judge.high < 0.8
    assert [each.system for each in result.systems.systems] == ["v1", "v2", "v3"]
    assert result.means.bias.low > 0, "the judge prefers A more often than people"
    assert result.pairs.swapped == 200 and 0.1 < result.pairs.same_position.low < 0.5
    assert result.pairs.first_twice.value > result.pairs.same_position.value / 2
    strengths = {each.version: each.strength for each in result.pairs.strengths}
    assert all(strengths[name].low < truth < strengths[name].high for name, truth in VERSIONS.items())
    assert "win rate of v1" in result.verdict and not result.pairs.analyses["strengths of versions"]


def test_a_version_wins_as_often_as_the_other_loses(pairs: Rows) -> None:
    two = [row for row in pairs if {row["model_a"], row["model_b"]} == {"v1", "v3"}]
    first, second = check(two).systems.systems
    assert first.mean + second.mean == pytest.approx(1.0)
    assert first.high + second.low == pytest.approx(1.0)


def with_names(**names: str) -> Callable[[Rows], Rows]:
    return lambda rows: [{names.get(name, name): value for name, value in row.items()} for row in rows]


def words(**values: Any) -> Callable[[Rows], Rows]:
    """Return a function that writes preferences in other words."""
    known = {"model_a": values["a"], "model_b": values["b"], "tie": values["tie"], "tie (bothbad)": values["tie"]}
    return lambda rows: [
        {**row, **{name: known.get(row[name]) for name in ("judge_winner", "human_winner")}} for row in rows
    ]


def by_name(rows: Rows) -> Rows:
    """Write the name of the preferred version."""
    return [
        {**row, **{name: row.get(str(row[name]), row[name]) for name in ("judge_winner", "human_winner")}}
        for row in rows
    ]


def in_long_form(rows: Rows) -> Rows:
    """Write a row for each preference, as MT-bench does; people saw the other order."""
    found = []
    turned = {"model_a": "model_b", "model_b": "model_a"}
    for row in rows:
        known = {name: row[name] for name in ("id", "prompt", "model_a", "model_b")}
        found.append({**known, "judge": "gpt4_pair", "winner": row["judge_winner"]})
        if row["human_winner"]:
            other = {**known, "model_a": row["model_b"], "model_b": row["model_a"]}
            winner = turned.get(row["human_winner"], row["human_winner"])
            found.append({**other, "judge": "expert_1", "winner": winner})
    return found


@pytest.mark.parametrize(
    ("changed", "options"),
    [
        (with_names(judge_winner="winner_gpt4", human_winner="human_preference"), {}),
        (with_names(judge_winner="winner"), {}),
        (with_names(human_winner="winner"), {}),
        (with_names(judge_winner="choice", human_winner="nora"), {"judge": "choice", "human": "nora"}),
        (with_names(model_a="system_1", model_b="system_2"), {"system": "system_2"}),
        (words(a="A", b="B", tie="neither"), {}),
        (words(a="[[A]]", b="[[B]]", tie="[[C]]"), {}),
        (words(a="left", b="right", tie="both bad"), {}),
        (words(a=1, b=2, tie=0), {}),
        (words(a="1.0", b="2.0", tie="1.5"), {}),
        (words(a="response_a", b="response_b", tie="no preference"), {}),
        (by_name, {}),
    ],
)
def test_forms_of_pairs_have_the_same_figures(
    pairs: Rows, changed: Callable[[Rows], Rows], options: dict[str, str]
) -> None:
    expected, found = check(pairs[:120]), check(changed(pairs[:120]), **options)
    assert found.main.judge == expected.main.judge and found.systems.systems[0].low == expected.systems.systems[0].low


def test_people_of_a_long_table_may_see_the_other_order(pairs: Rows) -> None:
    one_order = pairs[::2]
    expected, found = check(one_order), check(in_long_form(one_order))
    assert found.columns["judge"] == "gpt4_pair" and found.columns["annotator"] == "judge"
    assert found.main.judge == expected.main.judge and found.means.corrected == expected.means.corrected


def edited(place: int, **cells: Any) -> Callable[[Rows], Rows]:
    return lambda rows: [{**row, **cells} if number == place else row for number, row in enumerate(rows)]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (edited(4, model_b="v1", model_a="v1"), "row 5 compares version 'v1' with itself"),
        (edited(4, model_b=None), "row 5: 'model_b' is empty; a pair needs both sides"),
        (edited(4, judge_winner="blue"), "row 5, column 'judge_winner': 'blue' is not a preference; allowed: a, b or tie"),
        (edited(4, human_winner="-1"), "row 5, column 'human_winner': '-1' is not a preference"),
        (words(a=1, b=0, tie=0), "0 and 1 can mean a tie and the first side, or the two sides; write a, b, tie"),
        (lambda rows: [{**row, "human_winner": None} for row in rows], "no column holds preferences of people"),
        (with_names(judge_winner="preferred", human_winner="winner"), "Name both: --judge COLUMN --human preferred"),
        (lambda rows: [row for row in in_long_form(rows) if row["judge"] != "gpt4_pair"], "preferences of a judge"),
    ],
)  # fmt: skip
def test_bad_pairs_are_refused_with_the_next_step(pairs: Rows, changed: Callable[[Rows], Rows], message: str) -> None:
    with pytest.raises(BadInput) as error:
        check(changed(pairs))
    assert message in str(error.value)


@pytest.mark.parametrize("options", [{"threshold": 0.5}, {"yes": "a"}, {"length": "id"}])
def test_options_without_a_meaning_for_pairs_are_refused(pairs: Rows, options: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match="has no meaning; leave the option out"):
        check(pairs, **options)


def test_one_pair_is_unknown_with_reasons(pairs: Rows) -> None:
    result = check([{**pairs[0], "human_winner": "a"}])
    assert result.main.judge.value is None and "at least 10 labels" in result.main.reason
    assert dict(result.missing)["position bias by swapped pairs"].startswith("the judge has 0 pairs in both orders")


def test_two_responses_without_a_preference_are_no_pairs() -> None:
    rows = [{"response_a": "x", "response_b": "y", "score": n % 4, "human": n % 4} for n in range(12)]
    assert check(rows).pairs is None


def test_command_gates_kappa_and_writes_the_page(pairs: Rows, tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(pairs[0]))
        writer.writeheader()
        writer.writerows(pairs)
    text = printed("check", str(path), "--at-least", "0.2")
    assert "in both orders, the judge prefers the same position" in text and "version v1: win rate" in text
    assert "gate failed: Cohen's κ" in refused("check", str(path), "--at-least", "0.95", code=3)
    page = write_check(check(path), tmp_path / "check.html").read_text(encoding="utf-8")
    assert "Strength of each version" in page and "prefers A too often" in page


def test_strengths_reach_a_given_win_rate() -> None:
    share = np.full(50, 0.8)
    first, second = bradley_terry(np.zeros(50, dtype=np.intp), np.ones(50, dtype=np.intp), share, 2)
    assert 1 / (1 + np.exp(second - first)) == pytest.approx(0.8, abs=0.003)


def test_labels_chosen_row_by_row_within_items_are_random() -> None:
    rng = np.random.default_rng(0)
    score, item = np.tile([0.0, 1.0], 200), np.repeat(np.arange(200), 2).astype(str)
    labeled = rng.random(400) < 0.3
    given = LabeledSystem(
        "all", score[labeled], score[labeled], score[~labeled], list(item[labeled]), list(item[~labeled])
    )  # fmt: skip
    assert random_label_p(given) > 0.05


@pytest.mark.attack
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"group": "topic"}, "has no column 'topic'"),
        ({"confidence": "item"}, "--confidence item has no meaning"),
        ({"judge": "model_a"}, "'model_a' is a side of the pairs"),
        ({"item": "model_b"}, "'model_b' is a side of the pairs"),
    ],
)
def test_options_that_pairs_lack_are_errors(options: dict[str, Any], said: str) -> None:
    rows = [
        {"item": n, "model_a": "v1", "model_b": "v2", "judge_winner": "ab"[n % 2], "human_winner": "ab"[n // 2 % 2]}
        for n in range(20)
    ]
    with pytest.raises(BadInput) as error:
        package.check(rows, **options)
    assert said in str(error.value)
