"""RUBICON's study: selections on drawn pools and recorded answers, and all tables of a project with a scripted model."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from commands import accord, accord_json, write
from planted_chats import Author, conversations, write_files
from test_assertion_selection import CLASSES, corpus, drawn_pool

from accord.edges import validate
from accord.methods import (
    AssertionBudget,
    selection_policies,
)
from accord.methods.learned_rubric.assertion_selector import (
    AssertionSelector,
    NetSatOutcome,
    verdict_statistics,
    with_intervals,
)
from accord.methods.learned_rubric.assertion_writer import RubricPromptBuilder
from accord.methods.learned_rubric.selection_policies import (
    SelectionSettings,
    UncertaintyWindow,
)
from accord.models import ScriptedModel
from accord.models.requests.flow import run_flow
from accord.statistics import Clusters
from accord.testing import ChatServer, check_selection_policy
from accord.values import AssertionReason, Polarity
from accord_papers import StudyInput, open_paper, run_parts
from accord_papers.rubicon import baselines, outcomes, published, recordings, simulation, writers

DATA = os.environ.get("ACCORD_DATA")
needs_data = pytest.mark.skipif(DATA is None, reason="ACCORD_DATA names no folder of benchmark data")


def test_the_selection_finds_the_informative_assertions_of_a_drawn_pool():
    study = simulation.DrawnStudy(simulation.plain(np.random.default_rng(0), 50), 0)
    rows = {name: study.row(name) for name in baselines.SYSTEMS}
    assert rows["accord"]["found"] > 0.9 > rows["brute force"]["found"] > rows["ucb"]["found"]
    assert rows["all"]["found"] == 1 and rows["all"]["informative"] < 0.3
    assert rows["accord"]["delta_netsat"] > rows["ucb"]["delta_netsat"] and rows["accord"]["accuracy"] > 0.95


def test_scripted_writers_are_weaker_by_the_share_that_is_set():
    pool = simulation.plain(np.random.default_rng(0), 10)
    weak = [writers.weakened(pool, share, 0) for share in writers.WRITERS.values()]
    counts = [each.kinds.count("informative") for each in weak]
    assert counts == [2 * simulation.INFORMATIVE - cut for cut in (0, 4, 10, 16)] or counts[0] == counts[1] + 4
    assert weak[0].kinds == pool.kinds and counts == sorted(counts, reverse=True) and counts[-1] > 0
    rotten = [place for place, kind in enumerate(weak[-1].kinds) if kind != pool.kinds[place]]
    assert (weak[-1].level[rotten].mean(axis=1) > 8).all()


def test_recorded_rubrics_have_their_size(monkeypatch, tmp_path):
    truth = np.arange(40) % 2 == 0
    rng = np.random.default_rng(0)
    answers = {str(row): {name: {"1": 0.5 - by, "2": 0.5 + by} for name in ("Q0", "Q1")}
               for row, by in enumerate(np.where(truth, 0.3, -0.3) + rng.normal(scale=0.05, size=40))}  # fmt: skip
    good = {item: bool(truth[int(item)]) for item in answers}
    monkeypatch.setitem(recordings.SETS, "drawn", lambda folder: (answers, good, {item: f"c{item}" for item in good}))
    rows = writers.rubrics_of(recordings.Recorded.load(tmp_path, "drawn"), 0)
    assert rows["judge asked directly"]["size"] == 1 and rows["all questions"]["size"] == 2
    assert set(rows) == {"accord", "all", "all questions", "judge asked directly"} and rows["accord"]["size"] > 0


def test_spur_rewrites_one_short_list():
    reasons = [AssertionReason(conversation=f"c{i}", text=f"The printer reason {i}") for i in range(20)]
    lists = [[f"The user does thing {i}." for i in range(4)], [f"The user does thing {i}." for i in range(2, 14)]]
    model = ScriptedModel([json.dumps({"assertions": [{"text": t, "numbers": [1]} for t in each]}) for each in lists])
    guidance = RubricPromptBuilder(prompts={"rewrite": baselines.REWRITE})
    written = run_flow(baselines.rewrite(reasons, Polarity.SAT, guidance, 10), model)
    assert [a.text for a in written.assertions] == [f"The user does thing {i}." for i in range(2, 12)]
    asked = [prompt.messages[0].content for prompt in model.asked]
    assert "The user does thing 3." in asked[1] and "at most 10" in asked[0]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project of 60 conversations, in the current folder, whose scripted model writes and judges; yields the model."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    author = Author()
    with ChatServer(author) as server:
        write("task.yaml", "about: Help with printers.\nexpected: [Finds the cause]\n")
        question = "{id: helped, text: 'Did it help?', scale: ordinal, options: [0, 1]}"
        write("rubric.yaml", f"name: planted\nmain: helped\nquestions:\n- {question}\n")
        model = f"model: scripted, base_url: '{server.url}'"
        write("accord.yaml", "rubric: rubric.yaml\ndraws: 20\nsources: {learned-rubric: {task: task.yaml, budgets: [[3, 2]]}}\n"
              f"models: {{judge: {{{model}, mode: decisions}}, writer: {{{model}}}}}\n")  # fmt: skip
        accord("import", *map(str, write_files(tmp_path, conversations(60))))
        yield author


def test_all_tables_of_a_project(project, monkeypatch):
    given = ["paper", "rubicon", "--project", "accord.yaml"]
    found = {part["part"]: part for part in accord_json(*given, "--out", "pages")["parts"]}
    assert {name: part["status"] for name, part in found.items()} == {
        "figure-1": "impossible", "table-1": "partial", "bing": "impossible", "table-2": "partial",
        "table-3": "partial", "pools": "skipped", "section-4-2": "partial", "figures-4-5": "partial",
        "stability": "works",
    }  # fmt: skip
    systems = {name: [row["system"] for row in found[f"table-{name}"]["rows"]] for name in (1, 2, 3)}
    assert systems[1] == ["RUBICON", "judge asked directly", "SPUR"]
    assert systems[2] == ["RUBICON", "without design principles", "without task description", "without both"]
    assert systems[3] == ["RUBICON", "brute force", "separation alone", "UCB bandit"]
    rows = [row for name in systems for row in found[f"table-{name}"]["rows"]]
    assert all(row["accuracy_low"] <= row["accuracy"] <= row["accuracy_high"] for row in rows)
    assert all(row["accuracy"] > 0.8 for row in rows if row["system"] == "RUBICON")
    assert [row["f1_published"] for row in rows if row["system"] == "SPUR"] == [published.TABLE_1["SPUR"][-1]]
    shares = {row["assertion"]: row["share"] for row in found["stability"]["rows"]}
    assert len(shares) == 7 and min(shares, key=shares.__getitem__) == "The user mentions the weather."
    page = Path("pages/rubicon.md").read_text(encoding="utf-8")
    charts = [chart.name for chart in Path("pages").glob("*.svg")]
    assert len(charts) == 3 * 2 + 4 and all(f"({name})" in page for name in charts)
    asked, here = len(project.asked), Path.cwd()
    (here / "elsewhere").mkdir()
    monkeypatch.chdir(here / "elsewhere")
    again = accord_json("paper", "rubicon", "--project", str(here / "accord.yaml"))["parts"]
    assert all(part.get("rows") == found[part["part"]].get("rows") for part in again)
    assert len(project.asked) == asked, "stored replies are used again"


def test_prompts_of_a_given_pool_are_not_ablated(project):
    text = Path("accord.yaml").read_text(encoding="utf-8")
    Path("accord.yaml").write_text(text.replace("task: task.yaml", "pool: llm-rubric"), encoding="utf-8")
    [part] = accord_json("paper", "rubicon", "--project", "accord.yaml", "--only", "table-2")["parts"]
    assert part["status"] == "skipped" and "{pool: llm-rubric}" in part["reason"] and project.asked == []


def test_all_parts_share_one_budget(project):
    with Path("accord.yaml").open("a", encoding="utf-8") as settings:
        settings.write("budget: {requests: 12}\n")
    said = accord("paper", "rubicon", "--project", "accord.yaml", code=4)
    assert "spent: 12 requests" in said and len(project.asked) == 12


def test_without_a_judge_and_a_writer_the_parts_say_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("rubric.yaml", "name: planted\nmain: helped\nquestions:\n"
          "- {id: helped, text: 'Did it help?', scale: ordinal, options: [0, 1]}\n")  # fmt: skip
    write("accord.yaml", "rubric: rubric.yaml\n")
    accord("import", *map(str, write_files(tmp_path, conversations(40))))
    given = ["paper", "rubicon", "--project", "accord.yaml"]
    reasons = {part["part"]: part["reason"] for part in accord_json(*given)["parts"] if part["status"] == "skipped"}
    asking = {"table-1", "table-2", "table-3", "section-4-2", "figures-4-5", "stability"}
    assert reasons.keys() == {*asking, "pools"}
    needed = "models: {writer: {model: NAME}, judge: {model: NAME}}"
    assert {reasons[part] for part in asking} == {
        f"no model configured for 'writer' and 'judge'. Add to accord.yaml: {needed}"
    }
    assert "without further models: none. For table-1, table-2" in accord(*given)
    lacking = {part["part"]: part["missing_models"] for part in accord_json(*given, "--list")["parts"]}
    assert {part for part, roles in lacking.items() if roles == ["writer", "judge"]} == asking
    write("accord.yaml", "rubric: rubric.yaml\nsources: {learned-rubric: {pool: llm-rubric}}\n")
    assert "no model for judge" in accord(*given, "--list"), "a pool needs no writer"


@pytest.mark.parametrize("missing", ["llm_rubric_real", "abc_eval"])
def test_a_missing_data_set_skips_the_parts_on_recorded_answers(missing, tmp_path):
    for name in {"llm_rubric_real", "abc_eval"} - {missing}:
        (tmp_path / name).mkdir()
    results = run_parts(open_paper("rubicon").parts, StudyInput(tmp_path), ["table-3", "section-4-2", "figures-4-5"])
    assert all(each.status == "skipped" and f"no data set '{missing}'" in each.reason for each in results)


@needs_data
def test_selection_on_recorded_answers():
    [result] = run_parts(open_paper("rubicon").parts, StudyInput(Path(DATA), repeats=1), ["table-3"])
    assert result.status == "partial" and len(result.table.rows) == 14 and len(result.table.charts) == 4
    rows = {row["system"]: row for row in result.table.rows if row["dataset"] == "abc_eval"}
    assert rows["RUBICON"]["delta_netsat_published"] == 27.4 and rows["RUBICON"]["accuracy"] > 0.6
    assert "whole pool" in rows and all("accuracy_low" not in row for row in rows.values())


def test_figures_worked_by_hand() -> None:
    scores = np.array([-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 3.5])
    good = np.array([0, 0, 1, 0, 1, 1, 1, 1], dtype=bool)
    tested = NetSatOutcome(
        scores, good, 0.5, UncertaintyWindow(-0.5, 1.5), 0.9, scores + 5, np.array([-5.0] * 7 + [-4.0])
    )
    found = outcomes.figures(tested)
    assert found["delta_netsat"] == pytest.approx(8.5 / 5 + 5 / 3)
    assert found["yield_rate"] == pytest.approx(6 / 8) and found["yield_deployed"] == pytest.approx(6 / 8)
    assert found["precision_deployed"] == pytest.approx(5 / 6)
    assert (found["accuracy"], found["precision"], found["recall"]) == pytest.approx((7 / 8, 1.0, 4 / 5))
    assert found["f1"] == pytest.approx(8 / 9)
    assert found["sat_dsat"] == pytest.approx(-np.corrcoef(tested.sat, tested.dsat)[0, 1])
    clusters = Clusters([str(i // 2) for i in range(8)])
    row, verdict = outcomes.all_intervals(tested, clusters, draws=200), with_intervals(tested, clusters, draws=200)
    assert row["accuracy"].low < row["accuracy"].value < 1.0 and row["delta_netsat"].low < row["delta_netsat"].value
    for name, each in verdict.items():
        assert (each.value, each.low, each.high) == pytest.approx((row[name].value, row[name].low, row[name].high))
    one_class = NetSatOutcome(scores, np.ones(8, dtype=bool), 0.0, UncertaintyWindow(0, 0), 0.9, scores, scores)
    assert {*outcomes.figures(one_class).values(), *verdict_statistics(one_class).values()} == {None}


def test_policies_of_the_paper_follow_their_definitions() -> None:
    for name in ("brute-force", "ucb"):
        check_selection_policy(selection_policies.get(name))
    pool, budget = drawn_pool(seed=5), AssertionBudget(3, 3)
    worth, best = baselines.reward(pool), baselines.brute_force(pool, budget)
    for side in (True, False):
        rows = np.flatnonzero(pool.sat == side)
        assert set(best) & set(rows.tolist()) == set(rows[np.argsort(-worth[rows])][:3].tolist())
    bandit = baselines.ucb(pool, budget, seed=1, pulls=200)
    assert bandit == baselines.ucb(pool, budget, seed=1, pulls=200) and len(set(bandit) & set(best)) >= 4


def test_a_registered_policy_selects_and_has_no_alpha() -> None:
    evidence, labels, question = corpus()
    assert validate(SelectionSettings, {"policy": "ucb"}, "sources: learned-rubric").policy == "ucb"
    settings = SelectionSettings(policy="brute-force", budgets=((2, 3),))
    selector = AssertionSelector(question, CLASSES, settings=settings).fit(evidence, labels)
    side = selector.training_side(evidence, labels)
    chosen = baselines.brute_force(side.pool, AssertionBudget(2, 3))
    assert set(selector.names_) == {side.names[row] for row in chosen} and len(selector.tuned_.tried) == 1
    assert "policy:brute-force" in str(selector.signature()) and "alpha" not in str(selector.signature())
