"""Checks of tables: columns, scales, forms of a table, findings, the command and the page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from browsing import axe, chromium
from commands import accord, accord_json, printed, refused, write
from new_user_files import workbook

import accord as package
from accord.edges import BadInput
from accord.report import write_check
from accord.table_check import CheckResult, write_rows

Rows = list[dict[str, Any]]


def check(table: Any, **options: Any) -> CheckResult:
    """Check a table; no figure of the result is NaN or infinite."""
    result = package.check(table, **options)
    json.dumps(result.to_json(), allow_nan=False)
    assert len(str(result).splitlines()) <= 50
    return result


def words(values: Sequence[bool]) -> list[str]:
    return ["pass" if value else "fail" for value in values]


def rows_of(*counts: tuple[str, str | None, int]) -> Rows:
    """Return rows with a judge's answer and a label, each as often as counted."""
    return [{"judge": judge, "human": human} for judge, human, count in counts for _ in range(count)]


@pytest.fixture
def planted() -> Rows:
    """300 rows of two systems and three topics: a judge that is too generous, and two people on 80 rows."""
    rng = np.random.default_rng(0)
    truth = rng.random(300) < 0.5
    judge = np.where(truth, rng.random(300) < 0.95, rng.random(300) < 0.35)
    second = np.where(rng.random(300) < 0.1, ~truth, truth)
    return [
        {
            "id": f"q{place}", "model": f"v{place % 2}", "topic": ["billing", "tech", "other"][place % 3],
            "response_length": int(rng.integers(5, 400)), "judge": words([judge[place]])[0],
            "human_1": words([truth[place]])[0] if place < 80 else None,
            "human_2": words([second[place]])[0] if place < 80 else None,
        }
        for place in range(300)
    ]  # fmt: skip


# --- known answers ----------------------------------------------------------------------------------------------------


def test_textbook_table_has_its_kappa_and_corrected_share() -> None:
    """Kappa .4 of 20, 5, 10 and 15 answers; 75 of 150 rows pass by the judge."""
    rows = rows_of(("pass", "pass", 20), ("fail", "pass", 5), ("pass", "fail", 10), ("fail", "fail", 15))
    result = check(rows + rows_of(("pass", None, 45), ("fail", None, 55)))
    found = {row.statistic: row.judge.value for row in result.agreement}
    assert found == pytest.approx(
        {"Cohen's κ": 0.4, "Gwet's AC1": 0.2050 / 0.5050, "same answer": 0.7, "TPR": 0.8, "TNR": 0.6}
    )
    # By hand: 2/3 of passes and 1/4 of fails are passes of people; half of the rows pass.
    means = {row.method: row.mean.value for row in result.means.rows}
    assert means["efficient"] == pytest.approx(0.5 * 20 / 30 + 0.5 * 5 / 20)
    assert means["error rates (Rogan–Gladen)"] == pytest.approx((0.5 + 0.6 - 1) / (0.8 + 0.6 - 1))
    assert means["the labels alone"] == 0.5 and means["the judge alone"] == 0.5
    assert result.means.bias.value == pytest.approx(0.5 - means["efficient"])
    assert [(row.name, row.n) for row in result.calibration] == [("fail", 20), ("pass", 30)]
    assert result.calibration[1].mean.value == pytest.approx(2 / 3)


def test_mean_of_labels_has_wilsons_interval() -> None:
    """Newcombe (1998): 15 of 148 have the interval .0624 to .1605."""
    rows = rows_of(("pass", "pass", 10), ("fail", "pass", 5), ("pass", "fail", 20), ("fail", "fail", 113))
    [alone] = [row.mean for row in check(rows).means.rows if row.method == "the labels alone"]
    assert (alone.low, alone.high) == pytest.approx((0.0624, 0.1605), abs=5e-5)


def test_five_valued_table_has_the_bias_and_errors_of_its_rows() -> None:
    labels = [1, 2, 3, 4, 5] * 8
    result = check([{"judge": min(label + 1, 5), "human": label} for label in labels])
    found = {row.statistic: row.judge.value for row in result.agreement}
    assert found["mean absolute error"] == pytest.approx(0.8, abs=0.03)
    assert found["within one point"] == 1 and found["same answer"] == pytest.approx(0.2)
    assert result.means.bias.value == pytest.approx(0.8) and "overstates the mean by 0.80" in result.verdict
    assert result.scale.ends == (1, 5)
    shown = result._repr_html_()
    assert result.verdict.partition("κ")[2] in shown and "bias of the judge" in shown


def test_repeats_show_flips_and_the_share_of_noise() -> None:
    """Five of 25 rows flip, and five are wrong in both runs: noise 5·.5 of the error 5·.5 + 5·1."""
    rows = [{"judge_1": "pass", "judge_2": "pass", "human": "pass"}] * 8
    rows += [{"judge_1": "fail", "judge_2": "fail", "human": "fail"}] * 7
    rows += [{"judge_1": "pass", "judge_2": "fail", "human": "pass"}] * 5
    rows += [{"judge_1": "pass", "judge_2": "pass", "human": "fail"}] * 5
    result = check(rows)
    assert result.columns["judge"] == "judge_1, judge_2" and result.repeats is not None
    assert result.repeats.flips.value == pytest.approx(0.2) and result.repeats.same.value == pytest.approx(
        0.8, abs=0.03
    )
    assert result.repeats.noise.value == pytest.approx(2.5 / 7.5)


def test_slice_with_a_planted_bias_is_found_and_others_are_not() -> None:
    rng = np.random.default_rng(1)
    rows = []
    for place in range(300):
        label, topic = int(rng.integers(1, 6)), ["a", "b", "c"][place % 3]
        score = label + (topic == "b") + int(rng.integers(-1, 2))
        rows.append({"judge": int(np.clip(score, 1, 5)), "human": label, "topic": topic, "words": int(place % 90 + 5)})
    found = {(row.by, row.group): row for row in check(rows).biases}
    assert set(found) == {("topic", "a"), ("topic", "b"), ("topic", "c"), ("length", "")}
    assert found["topic", "b"].is_biased and found["topic", "b"].bias.value > 0.4
    assert not found["length", ""].is_biased


def test_planned_labels_give_the_width() -> None:
    rng = np.random.default_rng(2)

    def width(labels: int) -> float:
        truth = rng.random(4000) < 0.5
        judge = np.where(truth, rng.random(4000) < 0.9, rng.random(4000) < 0.2)
        rows = [
            {"judge": int(judge[place]), "human": int(truth[place]) if place < labels else None}
            for place in range(4000)
        ]
        corrected = check(rows).means.corrected
        assert corrected.low is not None and corrected.high is not None
        plan = check(rows, width=0.1).means.plan
        assert plan is not None and plan.labels is not None and plan.labels < plan.labels_alone
        planned.append(plan.labels)
        return corrected.high - corrected.low

    planned: list[int] = []
    width(200)
    assert width(planned[0]) == pytest.approx(0.1, rel=0.1)


# --- the same table in several forms ----------------------------------------------------------------------------------


def _forms(rows: Rows, folder: Path) -> Iterator[tuple[str, Any, Mapping[str, Any]]]:
    header = list(rows[0])
    cells = [[row[name] for name in header] for row in rows]
    frame = pl.DataFrame(rows)
    frame.write_csv(folder / "a.csv")
    yield "csv", folder / "a.csv", {}
    text = "\n".join(";".join("" if cell is None else str(cell) for cell in line) for line in [header, *cells])
    (folder / "b.csv").write_bytes(text.encode("utf-16"))
    yield "csv of a spreadsheet", folder / "b.csv", {}
    frame.write_parquet(folder / "a.parquet")
    yield "parquet", folder / "a.parquet", {}
    frame.write_ndjson(folder / "a.jsonl")
    yield "json lines", str(folder / "a.jsonl"), {}
    workbook(str(folder / "a.xlsx"), [header, *cells])
    yield "excel", folder / "a.xlsx", {}
    yield "polars", frame, {}
    yield "arrow", frame.to_arrow() if _has_arrow() else frame.lazy(), {}
    nested = [{**{name: row[name] for name in header[:4]}, "scores": {"judge": row["judge"]},
               "labels": {name: row[name] for name in ("human_1", "human_2")}} for row in rows]  # fmt: skip
    yield "nested", nested, {}
    long = [
        {**{name: row[name] for name in header[:5]}, "annotator": name, "label": row[name]}
        for row in rows
        for name in ("human_1", "human_2")
    ]
    yield "long", long, {"human": "label"}
    raters = [
        {**{name: row[name] for name in header[:4]}, "annotator": who, "label": row[name]}
        for row in rows
        for who, name in (("ann", "human_1"), ("bob", "human_2"), ("gpt-4o", "judge"))
    ]
    yield "long with the judge as annotator", raters, {}


def _has_arrow() -> bool:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return False
    return True


def test_every_form_of_a_table_gives_the_same_result(planted: Rows, tmp_path: Path) -> None:
    expected = check(planted).to_json()
    forms = list(_forms(planted, tmp_path))
    assert len(forms) == 10
    for name, table, options in forms:
        found = check(table, **options).to_json()
        for part in ("verdict", "agreement", "means", "biases", "systems", "differences", "calibration"):
            assert found[part] == expected[part], (name, part)


def test_runs_in_a_long_table_equal_runs_in_columns() -> None:
    rng = np.random.default_rng(3)
    wide = [
        {"id": place, "judge_1": int(rng.integers(1, 6)), "judge_2": int(rng.integers(1, 6)),
         "human": int(rng.integers(1, 6))}
        for place in range(40)
    ]  # fmt: skip
    long = [
        {"id": row["id"], "run": run, "judge": row[f"judge_{run}"], "human": row["human"]}
        for row in wide
        for run in (1, 2)
    ]
    first, second = check(wide).to_json(), check(long).to_json()
    assert first["repeats"] == second["repeats"] and first["means"] == second["means"]
    assert first["agreement"] == second["agreement"]


def test_rows_of_one_item_are_no_independent_evidence() -> None:
    rng = np.random.default_rng(4)
    once = [{"item": place, "judge": int(rng.random() < 0.5), "human": int(rng.random() < 0.5)} for place in range(60)]
    first, again = check(once), check(once * 3)
    for before, after in zip(first.agreement, again.agreement, strict=True):
        assert (after.judge.low, after.judge.high) == pytest.approx((before.judge.low, before.judge.high), abs=0.01)
    assert again.means.corrected.low == pytest.approx(first.means.corrected.low, abs=0.02)


# --- columns and scales -----------------------------------------------------------------------------------------------

BASE = [("pass", "pass"), ("fail", "fail"), ("pass", "fail"), ("fail", "fail"), ("pass", "pass")] * 6
COLUMNS = [
    (["verdict", "gold"], {"judge": "verdict", "people": "gold"}),
    (["score", "label"], {"judge": "score", "people": "label"}),
    (["gpt-4o_rating", "expert_rating"], {"judge": "gpt-4o_rating", "people": "expert_rating"}),
    (["llm_judge", "rater_1"], {"judge": "llm_judge", "people": "rater_1"}),
    (["auto_score", "Ground Truth"], {"judge": "auto_score", "people": "Ground Truth"}),
    (["passed", "reviewed"], {"judge": "passed", "people": "reviewed"}),
]


@pytest.mark.parametrize(("names", "expected"), COLUMNS)
def test_usual_names_of_columns_are_recognized(names: list[str], expected: dict[str, str]) -> None:
    assert check([dict(zip(names, cells, strict=True)) for cells in BASE]).columns == expected


def test_named_columns_override_the_choice(planted: Rows) -> None:
    result = check(planted, human="human_2", system="topic", group="model", item="id", length="response_length")
    assert result.columns["people"] == "human_2" and result.columns["system"] == "topic"
    assert result.columns["groups"] == "model" and {each.system for each in result.systems.systems} == {
        "billing", "tech", "other",
    }  # fmt: skip
    with pytest.raises(BadInput, match=r"has no column 'nobody'; its columns: 'id', 'model'"):
        check(planted, human="nobody")


VALUES = [
    (("yes", "no"), ("pass", "fail")), ((1, 0), ("good", "bad")), ((True, False), (True, False)),
    (("1", "0"), (1, 0)), (("safe", "unsafe"), ("safe", "unsafe")), (("PASS", "FAIL"), ("pass", "fail")),
    ((0.9, 0.1), (1, 0)),
]  # fmt: skip


@pytest.mark.parametrize(("judge", "human"), VALUES)
def test_two_values_in_any_words_give_the_same_figures(judge: tuple[Any, Any], human: tuple[Any, Any]) -> None:
    rows = [{"judge": judge[said == "fail"], "human": human[label == "fail"]} for said, label in BASE]
    result = check(rows)
    assert result.scale.is_two_valued
    values = {row.statistic: row.judge.value for row in result.agreement}
    assert values["TPR"] == 1 and values["TNR"] == pytest.approx(2 / 3)
    assert result.means.corrected.value == pytest.approx(0.4)


def test_words_with_an_order_and_names_without_one() -> None:
    order = ["poor", "fair", "good", "excellent"]
    ordered = check([{"judge": order[min(n % 4 + n % 3 // 2, 3)], "human": order[n % 4]} for n in range(60)])
    assert ordered.scale.kind == "ordered" and ordered.main.statistic == "Cohen's κ, quadratic weights"
    names = ["refund", "bug", "praise"]
    nominal = check([{"judge": names[(n + (n % 7 == 0)) % 3], "human": names[n % 3]} for n in range(60)])
    assert nominal.main.statistic == "Krippendorff's α" and not nominal.means.rows
    assert ("corrected mean", "the values have no order, so they have no mean") in nominal.missing
    pair = [{"judge": "A" if n % 5 else "B", "human": "A" if n % 4 else "B"} for n in range(60)]
    assert "name the value that counts as 1 with --yes" in str(check(pair))
    assert check(pair, yes="A").means.corrected.value == pytest.approx(0.75, abs=0.01)
    with pytest.raises(BadInput, match="no label of people is 'C'; labels are 'B', 'A'"):
        check(pair, yes="C")


def test_decimal_commas_give_the_figures_of_points() -> None:
    rng = np.random.default_rng(5)
    points = [{"judge": f"{label + rng.random():.9f}", "human": str(label)} for label in rng.integers(1, 6, 40)]
    commas = [{**row, "judge": row["judge"].replace(".", ",")} for row in points]
    assert str(check(commas)) == str(check(points))


def test_scores_of_another_scale_correct_the_mean_and_have_no_bias() -> None:
    rng = np.random.default_rng(5)
    rows = [{"judge": int(np.clip(label * 6 + rng.integers(1, 4), 1, 10)), "human": words([label])[0]}
            for label in rng.random(80) < 0.5]  # fmt: skip
    result = check(rows)
    assert result.main.statistic == "r" and result.means.corrected.low is not None and result.means.bias.value is None
    assert any("set one with --threshold" in reason for _, reason in result.missing)
    above = check(rows, threshold=5)
    assert above.agreement[2].judge.value == 1 and above.means.bias.value is not None


# --- unknown, never zero ----------------------------------------------------------------------------------------------

UNKNOWN = [
    (rows_of(("pass", "pass", 3), ("fail", "fail", 3), ("pass", None, 50)), "6 labels of 6 items; at least 10"),
    (rows_of(("pass", "pass", 20), ("fail", "pass", 20)), "all 40 labels are pass"),
    (rows_of(("pass", "pass", 20), ("pass", "fail", 20)), "all 40 answers of the judge are pass"),
    (rows_of(("pass", "pass", 20), ("fail", "fail", 20)), "without a disagreement its interval is unknown"),
    ([{"item": "x", **row} for row in rows_of(("pass", "pass", 20), ("fail", "fail", 20))], "40 labels of 1 item"),
]


@pytest.mark.parametrize(("rows", "reason"), UNKNOWN)
def test_too_little_is_unknown_with_its_reason(rows: Rows, reason: str) -> None:
    result = check(rows)
    assert result.main.judge.low is None and reason in result.verdict and "is unknown" in result.verdict


HOSTILE = [
    ([], "has no rows"),
    ([{"a": 1, "b": 2}] * 20, "no column is named like scores of a judge; its columns: 'a', 'b'. Name it: --judge COLUMN"),
    ([{"judge": 1, "human": None}] * 20, "no column holds labels of people: 'human' is empty"),
    ([{"judge": n if n % 2 else "pass", "human": n % 2} for n in range(20)], "'judge' mixes 10 numbers with 10 words"),
    ([{"judge": 1, "human": 1}] * 20, "every label is '1', so agreement is unknown"),
    ([{"judge": n % 5 + 1, "human": [1, 2, 3, 20, 60, 100][n % 6]} for n in range(60)], "values on two scales"),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "message"), HOSTILE)
def test_tables_without_figures_are_refused_with_the_next_step(rows: Rows, message: str) -> None:
    with pytest.raises(BadInput) as error:
        check(rows)
    assert message in str(error.value)


def test_values_off_the_scale_are_left_out_and_counted() -> None:
    rows = [{"judge": "ERROR" if n % 15 == 0 else said, "human": label} for n, (said, label) in enumerate(BASE)]
    result = check(rows)
    assert "2 scores left out, which are off the scale: 'ERROR'" in result.notes and result.judged == 28
    floats = [{"judge": float("nan") if n % 9 == 0 else float("inf") if n % 7 == 0 else n % 2, "human": n % 2}
              for n in range(60)]  # fmt: skip
    assert check(floats).judged == 45


# --- labels that are no evidence --------------------------------------------------------------------------------------


def test_table_without_a_row_that_both_answered_has_no_bias() -> None:
    rows: Rows = [{"judge": "pass" if n % 3 else "fail", "topic": f"t{n % 2}"} for n in range(20)]
    rows += [{"human": "pass" if n % 3 else "fail", "topic": f"t{n % 2}"} for n in range(20)]
    result = check(rows)
    assert result.labeled == 0 and not result.biases
    assert "bias by topic" in dict(result.missing)


def test_warnings_about_labels_that_are_no_independent_evidence(planted: Rows) -> None:
    copied = [{**row, "human_1": row["judge"]} for row in planted[:80]]
    assert any("equal the judge's scores" in each for each in check(copied).warnings)
    same = [{**row, "human_2": row["human_1"]} for row in planted[:80]]
    assert any("agree on all 80 rows" in each for each in check(same).warnings)
    named = [{"judge": row["judge"], "claude-3-label": row["human_2"]} for row in planted[:80]]
    assert any("look model-made" in each for each in check(named, judge="judge", human="claude-3-label").warnings)
    split = [{**row, "split": "train" if place < 40 else "test"} for place, row in enumerate(planted)]
    [warning] = check(split).warnings
    assert "40 of 80 labeled rows are of split train" in warning and "40 tested rows" in warning
    assert any("was tuned on these labels" in each for each in check(planted, tuned=True).warnings)
    assert not check(planted).warnings


# --- the command and the page -----------------------------------------------------------------------------------------


@pytest.fixture
def table(planted: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    pl.DataFrame(planted).write_csv("results.csv")
    return "results.csv"


def test_command_prints_choices_verdict_and_what_did_not_run(table: str) -> None:
    output = printed("check", table)
    assert "columns: judge = judge · people = human_1, human_2 · item = id · system = model" in output
    lines = output.splitlines()
    assert len(lines) <= 50 and output.index("not run: repeatability") < output.index("The judge agrees")
    result = accord_json("check", table)
    assert result["verdict"] in lines and result["main_statistic"] == "Cohen's κ"
    assert [row["method"] for row in result["means"]["rows"]][-1] == "efficient" == result["means"]["best"]


def test_gate_compares_the_lower_bound(table: str) -> None:
    low = accord_json("check", table)["agreement"][0]["judge"]["low"]
    assert "passed" in printed("check", table, "--at-least", f"{low - 0.01:.3f}").splitlines()[-1]
    message = refused("check", table, "--at-least", f"{low + 0.01:.3f}", code=3)
    assert "Cohen's κ of the judge with people, lower bound of the 95% interval" in message and "failed" in message
    assert "between -1 and 1" in refused("check", table, "--at-least", "2")
    write("few.csv", "judge,human\n" + "pass,pass\nfail,fail\n" * 3)
    assert "unknown (6 labels of 6 items" in refused("check", "few.csv", "--at-least", "-1", code=3)


def test_result_is_written_as_a_page_or_as_json(table: str) -> None:
    accord("check", table, "--out", "check.html")
    accord("check", table, "--out", "check.json")
    accord("check", table, "--out", "check.html")  # its own earlier outputs are replaced
    accord("check", table, "--out", "check.json")
    assert json.loads(Path("check.json").read_text(encoding="utf-8")) == accord_json("check", table)
    page = Path("check.html").read_text(encoding="utf-8")
    assert "The judge is too generous by" in page and "<script" not in page and "http" not in page.split("</style>")[1]
    assert ".html, .json or .md" in refused("check", table, "--out", "check.txt")
    assert "an input of this command" in refused("check", table, "--out", table)
    assert "no file nothing.csv" in refused("check", "nothing.csv")
    assert "above 0" in refused("check", table, "--width", "0")


@pytest.mark.attack
def test_texts_of_a_table_are_escaped(tmp_path: Path) -> None:
    rows = [
        {"judge": said, "human": label, "<script>alert(1)</script>": "<b>x</b>" if n % 2 else "\u202eother",
         "system": "<img src=x>" if n % 2 else "=1+1"}
        for n, (said, label) in enumerate(BASE * 2)
    ]  # fmt: skip
    page = write_check(check(rows), tmp_path / "check.html").read_text(encoding="utf-8")
    body = page.split("</style>")[1]
    assert "<script" not in body and "<b>x" not in body and "<img" not in body and "\u202e" not in body


def test_page_is_accessible_in_each_look(planted: Rows, tmp_path: Path) -> None:
    path = write_check(check(planted), tmp_path / "check.html")
    with chromium() as browser:
        page = browser.new_page()
        page.goto(path.as_uri())
        page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
        page.evaluate(axe())
        for scheme, width in (("light", 1300), ("dark", 1300), ("light", 390)):
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size({"width": width, "height": 800})
            found = page.evaluate("async () => (await axe.run(document)).violations")
            assert not [(each["id"], node["html"][:200]) for each in found for node in each["nodes"]], (scheme, width)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (scheme, width)


def test_one_point_is_the_step_between_the_labels_of_people() -> None:
    """A judge with quarters of a point does not make a quarter of it the point."""
    rows = [{"judge": 1 + (n % 17) / 4, "human_1": 1 + n % 5, "human_2": 1 + (n + 1) % 5} for n in range(60)]
    found = {row.statistic: row for row in package.check(rows).agreement}
    assert found["within one point"].people.value == pytest.approx(0.8, abs=0.03)


def test_letters_tell_people_apart_as_numbers_do() -> None:
    rows = [{"judge": 1 + n % 5, "human_a": 1 + n % 5, "human_b": 1 + (n + 1) % 5} for n in range(30)]
    assert package.check(rows).columns["people"] == "human_a, human_b"


# --- columns and labels that support no figure ------------------------------------------------------------------------


def judged_rows(places: int = 300, seed: int = 0) -> list[dict[str, Any]]:
    """Rows with a judge that agrees with a truth of .6, and a label of each row."""
    rng = np.random.default_rng(seed)
    truth = rng.random(places) < 0.6
    judge = np.where(truth, rng.random(places) < 0.9, rng.random(places) < 0.2)
    return [
        {"id": f"q{place}", "judge": int(judge[place]), "human": int(truth[place]), "tokens": 100}
        for place in range(places)
    ]


SAME_LENGTH = "all 300 labeled rows have the length 100"


@pytest.mark.parametrize(
    ("lengths", "reason"),
    [({}, SAME_LENGTH), ({3: 900}, "one item has nearly all"), ({3: 900, 8: 40, 11: 700, 20: 300}, "")],
)
def test_a_bias_by_length_needs_different_lengths(lengths: dict[int, int], reason: str) -> None:
    rows = judged_rows()
    for place, length in lengths.items():
        rows[place]["tokens"] = length
    result = check(rows)
    assert reason in dict(result.missing).get("bias by length", "")
    assert len(result.biases) == (0 if reason else 1)
    assert all(abs(row.bias.value) < 1 for row in result.biases), "errors lie between -1 and 1"


def test_equal_scores_leave_the_mean_of_the_labels() -> None:
    """The mean of equal scores differs from them by rounding, which is no spread."""
    rows = [{"judge": 0.1, "human": n % 5 + 1 if n < 70 else None} for n in range(300)]
    means = {row.method: row.mean.value for row in check(rows, judge="judge", human="human").means.rows}
    assert means["efficient"] == means["the labels alone"] == pytest.approx(3)


def _labeled(rows: Rows, keeps: Any) -> Rows:
    return [{**row, "human": row["human"] if keeps(place, row) else None} for place, row in enumerate(rows)]


def test_labels_where_the_judge_says_no_correct_no_mean() -> None:
    rows = [{**row, "model": f"v{place % 2}"} for place, row in enumerate(judged_rows())]
    result = check(_labeled(rows, lambda place, row: row["judge"] == 0))
    assert result.means.corrected.value is None and result.means.is_selective
    assert "no mean is reported, because the labeled rows are not a random part" in result.verdict
    assert "report" not in result.verdict.replace("reported", "")
    missing = dict(result.missing)
    assert "differ between the" in missing["corrected mean"] and "p < 0.001" in missing["corrected mean"]
    assert "differ between its labeled and other rows" in missing["comparison of systems"]
    some = check(_labeled(rows, lambda place, row: place < 80))
    assert some.means.corrected.low <= 0.6 <= some.means.corrected.high, "the first rows are a random part"


def test_a_random_part_of_the_rows_is_seldom_refused() -> None:
    rows = judged_rows(200)
    rng, refused_tables = np.random.default_rng(1), 0
    for _ in range(20):
        kept = set(rng.permutation(200)[:40].tolist())
        found = check([{**row, "human": row["human"] if place in kept else None} for place, row in enumerate(rows)])
        refused_tables += found.means.is_selective
    assert refused_tables <= 1


def test_reversed_labels_are_named() -> None:
    result = check([{**row, "human": 1 - row["human"]} for row in judged_rows()])
    assert "clearly disagree" in result.verdict and "reversed?" in result.verdict
    assert "instead of" not in result.verdict, "the mean of reversed labels is not recommended"


def test_one_point_is_a_point_of_the_scale_although_few_labels_lie_between() -> None:
    """Means of two people are halves, and a rare third one makes a gap of a sixth."""
    values = [1, 1.5, 2, 2.5, 3, 3.5, 4, 4.333, 4.5, 5]
    rows = [{"judge": 1 + n % 5, "human": values[n % 10]} for n in range(100)]
    found = {row.statistic: row.judge.value for row in check(rows).agreement}
    near = np.mean([abs(row["judge"] - row["human"]) <= 1 for row in rows])
    assert found["within one point"] == pytest.approx(near, abs=0.03)
    percent = [{"judge": 25 * (n % 5), "human": 25 * (n % 3)} for n in range(60)]
    assert "within 25 points" in {row.statistic for row in check(percent).agreement}


def test_systems_that_are_not_listed_are_counted_and_the_worst_is_shown() -> None:
    rng = np.random.default_rng(2)
    rows = []
    for place in range(440):
        system = place % 11
        truth = rng.random() < 0.9 - 0.07 * system
        label = int(truth) if place < 330 else None
        rows.append({"judge": int(truth ^ (rng.random() < 0.1)), "human": label, "model": f"v{system:02d}"})
    text = str(check([*rows, *({"judge": 1, "human": None, "model": "v99"} for _ in range(9))]))
    shown = [line for line in text.splitlines() if line.startswith("system ")]
    assert len(shown) == 4 and "system v09" in shown[-1], "the worst is one of them"
    assert "not shown: 7 systems, 52 differences, v99 (0 labels, 5 needed) (all: --out check.html)" in text


@pytest.mark.parametrize("option", ["judge", "human", "system", "item", "group", "length"])
def test_an_empty_column_option_is_refused(option: str, table: str) -> None:
    message = f"--{option} is empty; name a column of the table, or leave the option out"
    assert message in refused("check", table, f"--{option}", "")


@pytest.mark.attack
@pytest.mark.parametrize("size", [1e-300, 5e-324, 1e-77])
def test_labels_of_no_size_are_no_labels(size: float) -> None:
    with pytest.raises(BadInput, match="form no scale"):
        package.check([{"judge": n % 7 * size, "human": n % 5 * size} for n in range(40)])


@pytest.mark.attack
@pytest.mark.parametrize(("option", "value"), [("width", 1e-300), ("width", 1e-160), ("error", 1e-320)])
def test_a_limit_of_no_size_is_an_error(option: str, value: float) -> None:
    with pytest.raises(BadInput, match="at least|a share from"):
        package.check(
            [{"judge": n % 2, "human": n // 2 % 2, "confidence": n / 40} for n in range(40)], **{option: value}
        )


@pytest.mark.attack
@pytest.mark.parametrize("values", [(0, "0.0"), (1, "1.0"), (True, " 1"), ("1,0", "1.00")])
def test_a_column_with_one_number_written_twice_is_not_a_scale(values: tuple[object, object]) -> None:
    rows = [{"judge": n % 2, "human": n // 2 % 2, "other": values[n % 2]} for n in range(40)]
    assert package.check(rows).labeled == 40


@pytest.mark.attack
def test_rows_with_half_a_surrogate_pair_are_written(tmp_path: Path) -> None:
    rows = [
        {"id": f"{n}\ud83d", "judge\udcff": n % 2, "human": n // 2 % 2, "response": "\udcff" * 9} for n in range(40)
    ]
    result = package.check(rows, judge="judge\udcff")
    for name in ("rows.csv", "rows.jsonl", "rows.parquet"):
        write_rows(result, tmp_path / name)
        assert (tmp_path / name).stat().st_size > 0


@pytest.mark.attack
def test_the_noise_of_runs_with_one_wrong_item_has_no_interval() -> None:
    rows = [{"item": n // 2, "judge_1": n % 2, "judge_2": n % 2 if n else 1, "human": n % 2} for n in range(40)]
    repeats = package.check(rows).repeats
    assert not isinstance(repeats, str) and repeats.noise.low is None
