"""Every benchmark starts, and its cheap parts give rows."""

import ast
import json
import os
import sys
from pathlib import Path

import pytest

from accord_papers import StudyInput, open_paper
from accord_papers.llm_rubric import protocols

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "benchmarks"
HELPERS = {
    "board_scores",
    "eager", "harness", "wording",
    "hostile",
    "load", "privacy_erasing", "scale_live", "scale_scoring", "scale_store",
    "true_bands", "true_calibration", "true_heads", "true_labels", "true_shared", "true_texts", "true_watch", "who_rated", "workbench_order",
}  # fmt: skip
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in HELPERS)
DATA = os.environ.get("ACCORD_DATA")
pytestmark = pytest.mark.posix  # benchmarks measure with `resource`
needs_data = pytest.mark.skipif(DATA is None, reason="ACCORD_DATA names no folder of benchmark data")


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_benchmark_says_what_it_does(name, load, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--help"])
    with pytest.raises(SystemExit) as ended:
        load(name).main()
    said = capsys.readouterr().out
    assert ended.value.code == 0 and "--quick" in said and "--json" in said


def test_make_bench_names_benchmarks_that_exist():
    listed = (ROOT / "Makefile").read_text(encoding="utf-8").split("BENCHMARKS := ")[1].split("\n\n")[0]
    assert sorted([*listed.replace("\\\n", " ").split(), "cost"]) == SCRIPTS


SMALLEST = {
    "adoror": ["--only", "systems,prompts,prefixes,real"],
    "adapters": ["--only", "junit"],
    "agent_steps": ["--only", "shared"],
    "agreement": ["--only", "estimate-width,estimate-units", "--limit", "1"],
    "batches": ["--only", "batches-quiet", "--limit", "2"],
    "calibration_speed": ["--only", "mixed", "--limit", "1"],
    "check_table": ["--limit", "2"],
    "ciu": [],
    "compare_speed": ["--only", "planted-20000"],
    "drift": ["--only", "drift-quiet", "--limit", "2"],
    "cost": ["--baseline", "HEAD", "--only", "start-up"],
    "decision": ["--only", "contradictions"],
    "failure_modes": ["--only", "en"],
    "faults": ["--only", "paid_twice", "--limit", "20"],
    "first_hour": ["--only", "kinds,rows"],
    "first_labels": ["--only", "llm_rubric_real"],
    "import_speed": ["--limit", "50"],
    "issues": ["--only", "reading"],
    "judging_overhead": ["--limit", "4"],
    "live_scoring": ["--only", "scorer"],
    "paper_claims": ["--only", "llm-rubric"],
    "peers": ["--only", "accord"],
    "privacy": ["--only", "written"],
    "rubric_selection": ["--only", "growth", "--limit", "1"],
    "simulated_annotators": ["--limit", "1"],
    "specification_gaps": ["--limit", "4"],
    "workbench": ["--only", "bare,page"],
}
"""Options of the smallest run of each benchmark, besides `--quick`."""
SMALLER = {
    "check_table": {"AUTOMATE": ("clear", "items"), "AUTOMATE_LABELS": (300,), "POPULATION": 2_000},
    "compare_speed": {"RATINGS": 1_200},
    "faults": {"DATABASES": ("sqlite",), "PROCESSES": (2,)},
    "rubric_selection": {"SIZES": ((30, 60),)},
    "specification_gaps": {"SIZES": (60,)},
}
"""Sizes of a benchmark that its smallest run replaces."""
TOO_LONG = {
    "architecture": "test_architecture_counts.py runs it",
    "attacks": "runs hundreds of tests, which the suite runs anyway",
    "demonstration_selection": "takes minutes",
    "loop": "runs tests, which the suite runs anyway",
    "scale": "takes minutes",
    "synth": "takes minutes",
    "true_numbers": "takes minutes",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_benchmark_writes_rows(name, load, monkeypatch, tmp_path):
    if name in TOO_LONG:
        pytest.skip(TOO_LONG[name])
    source = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    if DATA is None and "data_folder(" in source:
        pytest.skip("ACCORD_DATA names no folder of benchmark data")
    out = tmp_path / "rows.json"
    data = ["--data", str(tmp_path / "none")] if DATA is None else ["--data", DATA]
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--quick", *SMALLEST.get(name, []), *data, "--json", str(out)])
    benchmark = load(name)
    for size, less in SMALLER.get(name, {}).items():
        monkeypatch.setattr(benchmark, size, less)
    benchmark.main()
    assert json.loads(out.read_text(encoding="utf-8"))["rows"]


def test_a_run_of_some_parts_keeps_the_rows_of_others(load, tmp_path):
    path = tmp_path / "rows.json"
    rows = [{"what": "a", "value": 1}, {"what": "a", "value": 2, "commit": "1234567", "code": "0"}, {"what": "b"}]
    path.write_text(json.dumps({"commit": "7654321", "code": "1", "rows": rows}), encoding="utf-8")
    kept = load("harness").earlier_rows(path, lambda row: row["what"] != "b")
    assert [(row["value"], row["commit"], row["code"]) for row in kept] == [(1, "7654321", "1"), (2, "1234567", "0")]
    assert load("harness").earlier_rows(tmp_path / "none.json", lambda row: True) == []


@pytest.mark.parametrize(
    ("is_same_data", "p", "value", "reaches", "expected"),
    [
        (True, 0.01, 0.4, 0.5, "reproduced"),
        (True, 0.01, 0.6, 0.5, "not reproduced"),
        (True, 0.2, 0.4, None, "not reproduced"),
        (True, 0.01, 0.9, None, "not reproduced"),
        (False, 0.01, 0.4, None, "other data, shown"),
        (False, None, 0.4, None, "other data, not shown"),
    ],
)
def test_verdicts_on_claims_follow_the_rule(load, is_same_data, p, value, reaches, expected):
    figures = {"value": value, "against": 0.8, "p": p}
    assert load("paper_claims").claim("a", "error", figures, is_same_data, True, reaches)["verdict"] == expected


def test_no_reply_yields_an_issue_that_nobody_stated(load):
    rows = load("issues").reading_rows(500)
    assert [row["count"] for row in rows[:3]] == [0, 0, 500]


def test_what_is_learned_from_turns_beats_their_mean(load):
    rows = {row["system"]: row for row in load("issues").dialogue_rows(1)}
    assert set(rows) == {"accord", "mean-turn", "lowest-turn", "annotator-mean"}
    assert rows["accord"]["rmse"] < rows["mean-turn"]["rmse"] and rows["accord"]["rmse"] < rows["lowest-turn"]["rmse"]


def test_the_loop_over_algorithm_1_comes_to_the_same(load, monkeypatch):
    selection = load("rubric_selection")
    monkeypatch.setattr(selection, "REPEATS", 1)
    [ours, loop] = selection._speed(12, 50)
    assert ours["same"] == "True" and ours["ratio"] > loop["ratio"]


def test_habits_are_found_again(load):
    found = load("simulated_annotators").measured(10, 50)
    assert found["recovery"] > 0.95 and found["coverage"] >= 0.9 and 0.85 < found["held"] < 0.95


def test_the_textbook_way_finds_the_same_ratios(load, tmp_path):
    speed = load("calibration_speed")
    name, evidence, labels, question = speed.corpus(tmp_path / "no data here")
    few = sorted({target.conversation for target in evidence.targets})[:40]
    rows = speed.mixed(evidence.filter(few), labels.filter(few), question, 1)
    assert name == "planted" and rows[1]["log_ratio_difference"] < 0.05


def test_a_live_reply_is_scored_by_an_evaluator_of_metrics(load):
    live = load("live_scoring")
    fitted = live.fitted()
    score = live.LiveScorer(fitted).message("c", "assistant", "It blinks.")
    assert fitted.is_live and 1 <= score.value <= 4


def test_scripts_of_other_processes_import_names_of_this_release():
    nodes = [node for path in FOLDER.glob("*.py") for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    scripts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    lines = {line for script in scripts for line in script.splitlines() if line.startswith("from accord")}
    assert len(lines) > 8
    exec("\n".join(lines), {})


@needs_data
def test_the_comparable_rows_are_those_of_the_manifest():
    synth, _ = protocols.both(Path(DATA))
    protocols.check_manifest(synth)


@needs_data
def test_the_papers_table_of_means_per_system_and_question_is_that_of_its_data():
    table = open_paper("llm-rubric").parts[5].on_data(StudyInput(Path(DATA)))
    rows = {(row["dataset"], row["system"], row["question"]): row for row in table.rows}
    paper = {"DS1": (3.329, 3.473, 3.552), "DS2": (3.197, 3.436, 3.295), "DS3": (3.066, 3.473, 3.500)}
    for system, figures in paper.items():
        found = [rows["llm_rubric_real", system, question] for question in ("Q1", "Q6", "Q7")]
        assert [row["mean"] for row in found] == pytest.approx(figures, abs=2e-3)
        assert [row["mean_published"] for row in found] == list(figures)
        assert all(0.1 < row["mean_high"] - row["mean"] < 0.26 for row in found), "the paper says .24"
    assert "mean_low" not in rows["llm_rubric_synth", "DS1", "Q2"], "all answers are equal"
