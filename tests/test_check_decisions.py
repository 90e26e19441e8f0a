"""Checks of tables: rows behind the figures, the share to automate, and whether the judge is good enough."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import accord, accord_json, printed, refused
from scipy import stats

import accord as package
from accord.edges import BadInput
from accord.report import write_check
from accord.statistics import alternative_annotator_test, shares_to_test, upper_bound, widest_share
from accord.table_check import write_rows

Rows = list[dict[str, Any]]


def rows_of(*counts: tuple[str, Sequence[str | None], int]) -> Rows:
    """Return rows with a judge's answer and labels of several people, each as often as counted."""
    return [
        {"id": "", "judge": judge, **{f"human_{n}": label for n, label in enumerate(labels)}}
        for judge, labels, count in counts
        for _ in range(count)
    ]


def numbered(rows: Rows) -> Rows:
    return [{**row, "id": f"q{place}"} for place, row in enumerate(rows)]


@pytest.fixture
def split() -> Rows:
    """40 rows: people agree in 30 and differ in 10; the judge differs from unanimous people in 5."""
    return numbered(rows_of(
        ("pass", ("pass", "pass"), 15), ("fail", ("fail", "fail"), 10), ("pass", ("fail", "fail"), 5),
        ("pass", ("pass", "fail"), 6), ("fail", ("pass", "fail"), 4),
    ))  # fmt: skip


@pytest.fixture
def confident() -> Rows:
    """1,000 rows, 600 labeled: the judge is right with the probability that is its confidence."""
    rng = np.random.default_rng(0)
    rows = []
    for place in range(1000):
        p = 1 - 0.4 * rng.random() ** 3
        judge = rng.random() < 0.5
        label = judge if rng.random() < p else not judge
        rows.append({
            "id": f"q{place}", "topic": ["billing", "other"][place % 2], "judge": int(judge), "confidence": round(p, 4),
            "human": int(label) if place < 600 else None,
        })  # fmt: skip
    return rows


def to_csv(rows: Rows, name: str = "results.csv") -> str:
    with open(name, "w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return name


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


# --- rows behind the figures ------------------------------------------------------------------------------------------


def test_counts_by_label_and_answer_stand_in_every_output(split: Rows, folder: Path) -> None:
    result = package.check(split)
    assert result.confusion is not None
    assert list(result.confusion.values) == ["fail", "pass"]
    assert result.confusion.counts == [[24, 16], [4, 36]], "a count for each label of a person"
    table = to_csv(split)
    assert ["people", "say", "fail", "24", "16"] in [line.split() for line in printed("check", table).splitlines()]
    assert accord_json("check", table)["counts"]["counts"] == [[24, 16], [4, 36]]
    accord("check", table, "--out", "check.md")
    accord("check", table, "--out", "check.md")  # its own earlier output is replaced
    text = Path("check.md").read_text(encoding="utf-8")
    assert "| people say fail | 24 | 16 |" in text and "\n## Agreement\n" in text
    Path("notes.md").write_text("mine", encoding="utf-8")
    assert "notes.md" in refused("check", table, "--out", "notes.md")


def test_counts_of_the_page_link_to_their_rows(split: Rows, tmp_path: Path) -> None:
    page = write_check(package.check(split), tmp_path / "check.html").read_text(encoding="utf-8")
    assert '<a href="#cell-0-1">16</a>' in page and 'id="cell-0-1"' in page
    cell = page.split('id="cell-1-0"')[1].split("</table>")[0]
    assert [f"q{place}" in cell for place in (35, 36, 39)] == [False, True, True] and "split" in cell


def test_rows_that_differ_are_written_with_each_label(split: Rows, folder: Path) -> None:
    table = to_csv([{**row, "response": f"answer {row['id']}, 'quoted' and long enough"} for row in split])
    accord("check", table, "--rows", "disputed.csv")
    accord("check", table, "--rows", "disputed.csv")
    with open("disputed.csv", encoding="utf-8", newline="") as stream:
        found = list(csv.DictReader(stream))
    assert list(found[0]) == ["id", "judge", "human_0", "human_1", "labels", "cell", "text"]
    assert len(found) == 15 and package.check(table).disputed == 15 and package.check(table).split == 10
    assert found[0] == {
        "id": "q25", "judge": "pass", "human_0": "fail", "human_1": "fail", "labels": "unanimous",
        "cell": "people fail, judge pass", "text": "answer q25, 'quoted' and long enough",
    }  # fmt: skip
    assert found[-1]["labels"] == "split" and found[-1]["cell"] == "people pass, judge fail"
    assert "an input of this command" in refused("check", table, "--rows", table)
    accord("check", table, "--rows", "disputed.jsonl")
    assert json.loads(Path("disputed.jsonl").read_text(encoding="utf-8").splitlines()[0])["id"] == "q25"
    assert "the suffix is one of .jsonl, .csv, .parquet" in refused("check", table, "--rows", "disputed.txt")


@pytest.mark.attack
def test_written_rows_hold_no_formulas(folder: Path) -> None:
    rows: Rows = [
        {"id": "=1+1", "judge": "pass", "=cmd": "fail", "@other": "pass", "response": "+1 is what this answer says"}
        for _ in range(12)
    ] + [{"id": "-2", "judge": "fail", "=cmd": "fail", "@other": "fail", "response": "an answer of some length"}]
    result = package.check(rows, human=["=cmd", "@other"])
    write_rows(result, "disputed.csv")
    lines = Path("disputed.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "id,judge,'=cmd,'@other,labels,cell,text"
    assert lines[1] == "'=1+1,pass,fail,pass,split,\"people fail, judge pass\",'+1 is what this answer says"


def test_a_person_may_have_the_name_of_a_column_of_the_rows(tmp_path: Path) -> None:
    rows = [{"judge": n % 2, "labels": (n // 2) % 2} for n in range(20)]
    write_rows(package.check(rows, human="labels"), tmp_path / "rows.csv")
    header, first, *_ = (tmp_path / "rows.csv").read_text(encoding="utf-8").splitlines()
    assert header == "id,judge,labels (person),labels,cell" and first.startswith("row 2,1,0,one label")


def test_agreement_in_unanimous_rows_is_one_more_statistic(split: Rows) -> None:
    found = {row.statistic: row for row in package.check(split).agreement}
    alone = package.check([row for row in split if row["human_0"] == row["human_1"]])
    assert found["Cohen's κ, unanimous rows"].judge == alone.main.judge
    assert (found["Cohen's κ"].judge.value or 1) < (alone.main.judge.value or 0)
    assert all("unanimous" not in row.statistic for row in alone.agreement), "people are split in no row"


def test_every_row_disputed_is_no_traceback(folder: Path) -> None:
    rows = numbered(rows_of(("pass", ("fail", "fail"), 20), ("fail", ("pass", "pass"), 20)))
    result = package.check(rows)
    assert result.disputed == 40 and "clearly disagree" in result.verdict or "unknown" in result.verdict
    assert "differ in 40 of 40 rows" in str(result)
    one = package.check([{"judge": "pass", "human": "fail"}])
    assert one.disputed == 1 and "1 of 1 row;" in f"{one};" or "1 of 1 row" in str(one)


# --- share to automate ------------------------------------------------------------------------------------------------


def test_the_share_to_automate_has_a_threshold_and_a_bound(confident: Rows, folder: Path) -> None:
    result = package.check(confident)
    found = result.automation
    assert found is not None and found.threshold is not None and found.confidence == "confidence"
    alone = [row for row in confident if row["confidence"] >= found.threshold]
    labeled = [row for row in alone if row["human"] is not None]
    wrong = np.mean([row["judge"] != row["human"] for row in labeled])
    assert found.rows == len(alone) and found.share == len(alone) / 1000 and found.tested == len(labeled)
    assert found.error.value == pytest.approx(wrong) and (found.at_most or 1) <= 0.05
    assert stats.binomtest(round(wrong * len(labeled)), len(labeled), 0.05, "less").pvalue <= 0.05
    assert 0.4 < found.share < 0.8, "the oracle's share is .79"
    assert {(each.by, each.group) for each in found.slices} == {("topic", "billing"), ("topic", "other")}
    assert sum(each.n for each in found.slices) == len(labeled)
    strict = package.check(confident, error=0.002).automation
    assert strict is not None and strict.share == 0 and "600 labeled items; an error of 0.002 needs" in strict.reason


def test_the_gate_compares_the_share(confident: Rows, folder: Path) -> None:
    table = to_csv(confident)
    assert "passed" in printed("check", table, "--min-share", ".3").splitlines()[-1]
    assert "required 0.9: failed" in refused("check", table, "--min-share", ".9", code=3)
    both = refused("check", table, "--min-share", ".9", "--at-least", ".1", code=3)
    assert "passed" in both and "failed" in both
    assert "above 0 and at most 1" in refused("check", table, "--min-share", "2")
    assert "--error 0.7" in refused("check", table, "--error", ".7")
    plain = to_csv([{key: row[key] for key in ("id", "judge", "human")} for row in confident], "plain.csv")
    assert "unknown (the judge's confidence is unknown" in refused("check", plain, "--min-share", ".1", code=3)


def test_words_and_percentages_are_confidences(confident: Rows) -> None:
    words = [{**row, "confidence": "high" if row["confidence"] > 0.95 else "low"} for row in confident]
    found = package.check(words).automation
    assert found is not None and found.share == np.mean([row["confidence"] == "high" for row in words])
    percent = [{**row, "confidence": f"{100 * row['confidence']:.2f}%"} for row in confident]
    first, second = package.check(confident).automation, package.check(percent).automation
    assert first is not None and second is not None and first.share == second.share
    with pytest.raises(BadInput, match=r"the column 'topic' holds no confidence of the judge: 'billing'"):
        package.check(confident, confidence="topic")
    with pytest.raises(BadInput, match="no column 'surety'"):
        package.check(confident, confidence="surety")


def test_a_probability_and_repeated_runs_are_confidences(confident: Rows) -> None:
    rng = np.random.default_rng(1)
    scores = [{"judge": row["confidence"] if row["judge"] else 1 - row["confidence"],
               "human": row["human"]} for row in confident]  # fmt: skip
    found = package.check(scores).automation
    expected = package.check(confident).automation
    assert found is not None and found.confidence == "probability of the answer"
    assert expected is not None and found.share == expected.share
    runs = []
    for place in range(600):  # clear rows and rows where the judge guesses
        truth, flips = int(rng.random() < 0.5), rng.random(5) < (0.01 if place % 3 else 0.5)
        runs.append({f"judge_{n}": int(truth ^ flip) for n, flip in enumerate(flips)} | {"human": truth})
    repeated = package.check(runs).automation
    assert repeated is not None and repeated.confidence == "share of equal runs" and 0 < repeated.share < 1


def test_a_worthless_confidence_automates_nothing() -> None:
    rng = np.random.default_rng(2)
    rows = [{"judge": int(rng.random() < 0.5), "confidence": rng.random()} for _ in range(400)]
    rows = [{**row, "human": row["judge"] if rng.random() < 0.8 else 1 - row["judge"]} for row in rows]
    found = package.check(rows).automation
    assert found is not None and found.share == 0 and found.threshold is None
    assert "the judge may decide no row alone: of the" in str(found)


def test_people_who_are_split_count_as_an_error(split: Rows) -> None:
    rows = [{**row, "confidence": 1} for row in split]
    found = package.check(rows, error=0.49).automation
    assert found is not None and found.error.value == pytest.approx(15 / 40)


def test_repeated_rows_of_an_item_are_no_more_evidence(confident: Rows) -> None:
    once = package.check(confident).automation
    again = package.check([row for row in confident for _ in range(3)]).automation
    assert once is not None and again is not None
    assert again.at_most == pytest.approx(once.at_most, abs=0.01) and again.share == pytest.approx(once.share, abs=0.1)


def test_the_bound_of_the_share_holds() -> None:
    """At a share whose error is 5%, at most 5% of the tables pass."""
    broken = 0
    rng = np.random.default_rng(3)
    for _ in range(300):
        sure = rng.random(300)
        right = rng.random(300) < np.where(sure > 0.6, 0.97, 0.9)
        passed, _ = widest_share(sure, ~right, np.arange(300), 0.05)
        if passed is not None and passed.threshold < 0.6:
            share = 1 - passed.threshold
            broken += (0.4 * 0.03 + (share - 0.4) * 0.1) / share > 0.05
    assert broken <= 15


@pytest.mark.parametrize("groups", [59, 93, 124, 279, 372, 5000])
def test_the_first_share_can_pass(groups: int) -> None:
    first = round(float(shares_to_test(groups, 0.05)[0]) * groups)
    assert upper_bound(np.zeros(first, dtype=bool), np.arange(first)) <= 0.05
    assert shares_to_test(groups, 0.05)[-1] == 1


# --- good enough ------------------------------------------------------------------------------------------------------


def agreeing(rows: int, wrong: int) -> Rows:
    return [{"judge": int(n % 2 != (n < wrong)), "human": n % 2} for n in range(rows)]


@pytest.mark.parametrize(
    ("need", "answer"),
    [
        ("kappa=.6", "yes"),
        ("kappa=.95", "no"),
        ("tpr=.8,tnr=.8", "yes"),
        ("tpr=.8,tnr=.99", "no"),
        ("same=.9", "label"),
    ],
)
def test_a_requirement_is_met_missed_or_undecided(need: str, answer: str) -> None:
    rows = agreeing(200, 20) + [{"judge": n % 2, "human": None} for n in range(4000)]
    found = package.check(rows, need=need).sufficiency
    assert found is not None and found.text.startswith(answer), found


def test_the_planned_labels_decide_the_requirement() -> None:
    rows = agreeing(100, 10) + [{"judge": n % 2, "human": None} for n in range(4000)]
    found = package.check(rows, need="same=.86").sufficiency
    assert found is not None and found.labels is not None and found.text.startswith("label about ")
    more = 100 + found.labels
    for factor, is_enough in ((1.2, True), (0.7, False)):
        planned = package.check(agreeing(round(factor * more), round(factor * more / 10)), need="same=.86").sufficiency
        assert planned is not None and (planned.answer == "yes") == is_enough
    few = package.check(rows[:150], need="same=.86").sufficiency
    assert few is not None and "more than the 50 rows with a score and no label" in few.text


def test_unknown_requirements_are_refused_with_the_names(folder: Path) -> None:
    table = to_csv(agreeing(60, 6))
    assert "names: kappa, ac1, same, tpr" in refused("check", table, "--need", "accuracy=.9").casefold()
    assert "'2' is not a number from -1 to 1" in refused("check", table, "--need", "kappa=2")
    assert "allowed are kappa, ac1, same, tpr, tnr" in refused("check", table, "--need", "alpha=.5")
    few = to_csv(agreeing(6, 1), "few.csv")
    assert "good enough: unknown: Cohen's κ is unknown (6 labels" in printed("check", few, "--need", "kappa=.5")


def people(rows: int, judge_error: float, errors: Sequence[float], seed: int = 0) -> Rows:
    """Return rows of a truth with a judge and people who miss it with some probability."""
    rng = np.random.default_rng(seed)
    truth = rng.random(rows) < 0.5
    answers = [np.where(rng.random(rows) < error, ~truth, truth) for error in (judge_error, *errors)]
    return [
        {"judge": int(answers[0][row]), **{f"human_{n}": int(each[row]) for n, each in enumerate(answers[1:])}}
        for row in range(rows)
    ]


@pytest.mark.parametrize(
    ("judge_error", "begins"),
    [(0.45, "the judge agrees less"), (0.2, "it is not clear"), (0.0, "the judge agrees more")],
)
def test_the_judge_is_compared_with_people_among_themselves(judge_error: float, begins: str) -> None:
    found = package.check(people(300, judge_error, (0.2, 0.2))).sufficiency
    assert found is not None and found.answer == "" and found.text.startswith(begins)


def test_the_alternative_annotator_test_is_that_of_its_paper() -> None:
    """Calderon et al. (2025): paired t tests, Benjamini and Yekutieli's correction, recomputed with SciPy."""
    rng = np.random.default_rng(4)
    truth = rng.integers(0, 3, 80)
    labels = np.stack([np.where(rng.random(80) < 0.2, rng.integers(0, 3, 80), truth) for _ in range(5)], axis=1)
    labels = np.where(rng.random(labels.shape) < 0.2, np.nan, labels)
    answer = np.where(rng.random(80) < 0.2, rng.integers(0, 3, 80), truth).astype(float)
    found = alternative_annotator_test(labels, answer, np.arange(80).astype(object), False)
    assert not isinstance(found, str)
    differences, advantages = [], []
    for person in range(5):
        wins = []
        for row in range(80):
            others = np.delete(labels[row], person)
            others = others[~np.isnan(others)]
            if not np.isnan(labels[row, person]) and len(others):
                own, judge = np.mean(others == labels[row, person]), np.mean(others == answer[row])
                wins.append((float(judge >= own), float(own >= judge)))
        differences.append(np.array(wins)[:, 1] - np.array(wins)[:, 0])
        advantages.append(np.array(wins)[:, 0].mean())
    assert found.advantages == pytest.approx(advantages) and found.advantage.value == pytest.approx(np.mean(advantages))
    for margin, rate in found.winning_rates.items():
        p_values = [stats.ttest_1samp(each, margin, alternative="less").pvalue for each in differences]
        assert rate == np.mean(stats.false_discovery_control(p_values, method="by") <= 0.05)
    assert found.winning_rates[0.2] == 1


def test_the_alternative_annotator_test_needs_three_people_with_shared_rows() -> None:
    good = package.check(people(200, 0.1, (0.2, 0.2, 0.2)))
    assert good.annotators is not None and good.annotators.winning_rates[0.1] == 1
    assert "winning rate ω 1.00 at ε = 0.2" in str(good)
    bad = package.check(people(200, 0.45, (0.1, 0.1, 0.1))).annotators
    assert bad is not None and bad.winning_rates[0.2] == 0
    for rows in (people(29, 0.1, (0.2, 0.2, 0.2)), people(200, 0.1, (0.2, 0.2))):
        result = package.check(rows)
        assert result.annotators is None
        assert dict(result.missing)["alternative annotator test"].startswith("it needs 3 people who share 30 rows")
    ordered = package.check([{**{key: value * 3 + 1 for key, value in row.items()}, "judge": row["judge"] * 2 + 1}
                             for row in people(200, 0.1, (0.2, 0.2, 0.2))])  # fmt: skip
    assert ordered.scale.kind == "ordered" and ordered.annotators is not None


def test_tables_of_other_scales_have_reasons_and_no_traceback() -> None:
    names = ["refund", "bug", "praise"]
    rows: Rows = [{"judge": names[(n + (n % 7 == 0)) % 3], "human_1": names[n % 3], "human_2": names[(n + n // 50) % 3]}
                  for n in range(60)]  # fmt: skip
    nominal = package.check(rows, need="alpha=.3")
    assert nominal.sufficiency is not None and nominal.sufficiency.answer == "yes" and nominal.confusion is not None
    assert "Krippendorff's α, unanimous rows" in {row.statistic for row in nominal.agreement}
    other = package.check([{"judge": n % 10 + 1, "human": "pass" if n % 3 else "fail"} for n in range(60)], need="r=.9")
    assert other.confusion is None and other.sufficiency is not None and other.sufficiency.answer == "no"
    with pytest.raises(BadInput, match="the judge answers on another scale than people"):
        write_rows(other, "rows.csv")
    rng = np.random.default_rng(5)
    continuous = package.check([{"judge": rng.random() * 9, "human": rng.random() * 9} for _ in range(60)])
    assert continuous.confusion is None and continuous.disputed > 0 and "counts by label" not in str(continuous)


@pytest.mark.attack
@pytest.mark.parametrize("values", [[1000, 1001], [10001, 10002, 10003], [2019, 2020, 2021, 2022]])
def test_counts_name_large_values_with_all_digits(values: list[int]) -> None:
    size = len(values)
    found = package.check([{"judge": values[n % size], "human": values[n // 2 % size]} for n in range(40)])
    assert found.confusion is not None and list(found.confusion.values) == list(map(str, values))
    assert str(found.scale).startswith(f"{values[0]} ")


@pytest.mark.attack
def test_written_rows_keep_all_digits(tmp_path: Path) -> None:
    rows = [{"judge": n * 30.0031 + 5000, "human": (n * 7 % 40) * 30.00717 + 5000} for n in range(40)]
    write_rows(package.check(rows), tmp_path / "rows.csv")
    assert "5030.0031" in (tmp_path / "rows.csv").read_text(encoding="utf-8")


@pytest.mark.attack
def test_perfect_agreement_is_not_called_too_few_labels() -> None:
    found = package.check([{"judge": n * 1.0001 + 5000, "human": n * 3.33333 + 5000} for n in range(40)])
    assert "without a disagreement its interval is unknown" in found.verdict
    assert all("--threshold" not in reason for _, reason in found.missing), "a threshold makes two values"


@pytest.mark.attack
@pytest.mark.parametrize("threshold", [float("nan"), float("inf")])
def test_a_threshold_is_a_finite_number(threshold: float) -> None:
    with pytest.raises(BadInput, match="a finite number"):
        package.check([{"judge": n / 40, "human": n % 2} for n in range(40)], threshold=threshold)


@pytest.mark.attack
@pytest.mark.parametrize(
    ("judge", "human", "said"),
    [
        (lambda n: n % 2, lambda n: n // 2 % 2, "with the values of the labels"),
        (lambda n: ("red", "blue")[n % 2], lambda n: ("red", "blue", "pink")[n % 3], "with the values of the labels"),
        (lambda n: n % 5 + 1, lambda n: n // 2 % 5 + 1, "for several runs of the judge"),
        (lambda n: n / 40, lambda n: n // 2 % 5 + 1, "turns scores into two values"),
    ],
)
def test_a_threshold_that_sets_nothing_is_an_error(
    judge: Callable[[int], Any], human: Callable[[int], Any], said: str
) -> None:
    rows = [{"judge": judge(n), "human": human(n)} for n in range(40)]
    with pytest.raises(BadInput) as error:
        package.check(rows, judge="judge", human="human", threshold=1)
    assert said in str(error.value)


@pytest.mark.attack
def test_a_threshold_of_zero_is_stated(folder: Path) -> None:
    table = to_csv([{"judge": (n - 20) / 10, "human": n % 2} for n in range(40)])
    assert accord_json("check", table, "--threshold", "0")["scale"]["threshold"] == 0


@pytest.mark.attack
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--rows", "rows.csv", "--out", "check.pdf"], "check.pdf: a check is written as .html, .json or .md"),
        (["--rows", "rows.csv", "--card", "card.json", "--labels-by", "zzz"], "allowed are people and models"),
        (["--rows", "rows.csv", "--labels-by", "models"], "is for the agreement card"),
        (["--out", "both.md", "--card", "both.json"], "both.md is another output"),
        (["--rows", "rows.csv", "--card", "notes.json"], "notes.md exists and does not look like an earlier output"),
        (["--need", "kappa=.6,kappa=.7"], "kappa has two requirements"),
        (["--judge", "human_0", "--human", "human_0"], "--judge human_0: this column holds labels of people"),
        (["--confidence", "human_0"], "--confidence human_0: this column holds labels of people"),
        (["--group", "human_1"], "--group human_1: this column holds labels of people"),
    ],
)
def test_a_refused_check_writes_and_replaces_nothing(options: list[str], said: str, split: Rows, folder: Path) -> None:
    table = to_csv(split)
    Path("notes.md").write_text("mine", encoding="utf-8")
    assert said in refused("check", table, *options)
    assert sorted(each.name for each in folder.iterdir()) == ["notes.md", table]
    assert Path("notes.md").read_text(encoding="utf-8") == "mine"


def test_a_card_replaces_the_files_of_an_earlier_card(split: Rows, folder: Path) -> None:
    table = to_csv(split)
    for _ in range(2):
        accord("check", table, "--card", "card.json")
