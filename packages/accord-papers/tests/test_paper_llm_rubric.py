"""LLM-RUBRIC's study on a project with recorded answers of a judge, and its oracles on the public data."""

import json
import os
import random
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from commands import accord, accord_json
from small_sample import sources

from accord.edges import BadInput
from accord.evidence import Column, EvidenceTable
from accord.learning import Constant
from accord.statistics import Paired
from accord.values import Label, Labels, Question, Scale, Target
from accord_papers import PartTable, StudyInput, open_paper, run_parts
from accord_papers.llm_rubric import ablations, distillation, marks, protocols, tables_and_figures

DATA = os.environ.get("ACCORD_DATA")
needs_data = pytest.mark.skipif(DATA is None, reason="ACCORD_DATA names no folder of benchmark data")
GIVEN = ["paper", "llm-rubric", "--project", "accord.yaml", "--repeats", "1"]
PARTS = {"table-1", "oracle", "table-2", "table-3", "figure-2", "figure-4", "figure-5", "appendix-a", "appendix-b",
         "distillation"}  # fmt: skip


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project of the small sample; its recorded judge answers near the mean rating, but never about citations."""
    monkeypatch.chdir(tmp_path)
    chats, ratings = sources()
    rng = random.Random(0)
    with Path("judge.jsonl").open("w", encoding="utf-8") as file:
        for row in pl.read_csv(ratings, infer_schema=False).unique("conversation", maintain_order=True).to_dicts():
            for question in ("Q0", "Q1", "Q6", "Q7", "Q8"):
                options = range(1, 4 if question == "Q8" else 5)
                near = float(row[question]) + rng.gauss(0, 0.5)
                weight = {str(option): 2.0 ** -abs(option - near) for option in options}
                shares = {option: each / sum(weight.values()) for option, each in weight.items()}
                answer = {
                    "item_id": row["conversation"],
                    "judge_model": "m",
                    "question": question,
                    "distribution": shares,
                }
                file.write(json.dumps(answer) + "\n")
    Path("accord.yaml").write_text(
        "metrics: []\nmodels: {judge: {mode: recorded, paths: [judge.jsonl]}}\n", encoding="utf-8"
    )
    accord("import", str(chats), str(ratings))
    accord("judge")


def test_bound_of_a_row_is_that_of_its_own_published_r():
    data = SimpleNamespace(rated=SimpleNamespace(value=np.array([1.0, 2.0, 3.0, 4.0])))
    figures = {"a oracle": (0.2, 0.6), "accord": (0.4, 0.3)}
    rows = tables_and_figures.beside_paper([{"system": name} for name in (*figures, "ridge")], data, figures)
    bounds = [row.get(tables_and_figures.LEAST) for row in rows]
    assert bounds[:2] == pytest.approx([1.118 * 0.8, 1.118 * 0.954], abs=1e-3) and bounds[2] is None
    table = PartTable(rows, ("system",), ("rmse", "pearson", tables_and_figures.LEAST))
    assert table.header()[-2:] == ["least_rmse", "published"] and table.lines()[0][-1] == "0.200 / 0.600"


def run(*names):
    """Rows by part, with the system of each as key; every part runs."""
    parts = accord_json(*GIVEN, "--only", ",".join(names))["parts"]
    assert {part["status"] for part in parts} == {"works"}, parts
    return {part["part"]: part["rows"] for part in parts}


def test_marks_name_the_rows_that_are_worse_by_a_test():
    rng = np.random.default_rng(0)
    answer = np.arange(120) % 4
    data = SimpleNamespace(rated=SimpleNamespace(group=[f"d{row // 2}" for row in range(120)]))
    said = {"random": rng.permutation(answer), "judge-expected": answer + rng.normal(scale=2, size=120),
            "accord": answer + rng.normal(scale=0.3, size=120), "ridge": answer}  # fmt: skip
    shares = np.full((120, 4), 0.25)
    systems = {name: [Paired(np.arange(4.0), answer, shares, each.astype(float))] for name, each in said.items()}
    assert marks.superscripts(data, systems)["accord"] == "RMSE 13, r 13"
    assert "6" not in marks.superscripts(data, systems)["random"]
    rows = [{"against": "accord, without Q1", "statistic": name, "p": p, "difference": by}
            for name, p, by in (("rmse", 0.01, -0.1), ("pearson", 0.2, 0.1), ("log_loss", 0.01, -0.1))]  # fmt: skip
    assert marks.drops(rows) == {"accord, without Q1": "▽ RMSE"}
    assert {"network, without fine-tuning", "accord, without Q1"} <= tables_and_figures.published.MARKED_2


def test_oracles_questions_and_figures_of_a_project(project):
    found = run("oracle", "table-3", "figure-2", "figure-4", "figure-5")
    oracles = {row["system"][0]: row for row in found["oracle"]}
    assert set(oracles) == set("abcdef") and oracles["a"]["n"] == 127 and oracles["a"]["pearson_published"] == 0.717
    assert oracles["a"]["rmse"] < oracles["e"]["rmse"], "an annotator's own answers tell more than those of others"
    questions = {row["question"]: row for row in found["table-3"] if row["system"] == "judge-expected"}
    assert questions["Q0"]["pearson"] > 0.3 and questions["Q0"]["n"] == 127
    assert questions["Q2"]["missing"] == "the judge never answered 'Q2'"
    shares = [row for row in found["figure-2"] if row["annotator"] == "amira"]
    assert sum(row["actual"] for row in shares) == pytest.approx(1) == sum(row["predicted"] for row in shares)
    curve = {row["share"]: row["rmse"] for row in found["figure-4"]}
    assert len(curve) == 6 and curve[1.0] < curve[0.1]
    assert {row["answer"] for row in found["figure-5"]} == set("1234")


def test_appendices_and_distillation_of_a_project(project):
    found = run("appendix-a", "appendix-b", "distillation")
    assert {row["protocol"] for row in found["appendix-a"]} == {"panel", "controversial", "errors by person"}
    asked = [row["questions_asked"] for row in found["appendix-b"] if row["rule"] == "by number"]
    assert asked == sorted(asked) and asked[0] == 0
    distilled = {(row["rated"], row["system"]): row for row in found["distillation"]}
    assert len(distilled) == 8 and all(row["n"] == 127 for row in distilled.values())
    assert distilled["100%", "fast, distilled"]["rmse"] < distilled["100%", "constant"]["rmse"]


def test_tables_of_a_project_state_the_reason_for_a_row_that_cannot_be_computed(project, monkeypatch):
    def without_jax(*arguments, **settings):
        raise BadInput("the network needs accord[networks]")

    monkeypatch.setattr(protocols, "authors_network", without_jax)
    monkeypatch.setattr(ablations, "authors_network", without_jax)
    found = run("table-1", "table-2")
    table_1 = {row["system"]: row for row in found["table-1"]}
    assert {"accord", "mixed, without own slopes", "calibrated Q0 alone", "ridge", "constant"} <= set(table_1)
    assert table_1["accord"]["rmse"] < table_1["constant"]["rmse"]
    table_2 = {row["system"]: row for row in found["table-2"]}
    assert {"accord, without Q0", "accord, without personalization"} <= set(table_2)
    assert "accord, without Q2" not in table_2, "the judge never answered Q2"
    assert "rmse_published" in table_2["accord"] and "rmse_published" not in table_2["accord, without Q0"]
    for rows in (table_1, table_2):
        assert {row["missing"] for name, row in rows.items() if "network" in name} == {
            "the network needs accord[networks]"
        }


def test_a_project_without_a_judge_or_enough_ratings_says_so(project):
    Path("accord.yaml").write_text("metrics: [lexical]\n", encoding="utf-8")
    lacking = {part["part"]: part["missing_models"] for part in accord_json(*GIVEN, "--list")["parts"]}
    assert {part for part, roles in lacking.items() if roles == ["judge"]} == PARTS
    Path("accord.yaml").write_text(
        "metrics: []\nmodels: {judge: {mode: recorded, paths: [empty.jsonl]}}\n", encoding="utf-8"
    )
    row = json.loads(Path("judge.jsonl").read_text(encoding="utf-8").splitlines()[0])
    Path("empty.jsonl").write_text(json.dumps(row | {"judge_model": "other"}) + "\n", encoding="utf-8")
    [part] = accord_json(*GIVEN, "--only", "oracle")["parts"]
    assert part["status"] == "skipped" and "needs 40 in 5 groups" in part["reason"] and "accord judge" in part["reason"]


@needs_data
@pytest.mark.slow
def test_oracles_of_the_real_dialogues_are_near_the_published_ones_only_inside_the_real_set(monkeypatch):
    monkeypatch.setattr(tables_and_figures.ablations, "has_several_annotators", lambda data: False)
    [result] = run_parts(open_paper("llm-rubric").parts, StudyInput(Path(DATA), repeats=1), ["oracle"])
    rows = {(row["dataset"], row["system"][0]): row for row in result.table.rows}
    inside, across = ("llm_rubric_real, 5-fold", "llm_rubric_real")
    for row in "acd":
        assert rows[inside, row]["pearson"] == pytest.approx(rows[inside, row]["pearson_published"], abs=0.05)
    assert [rows[across, row]["pearson_published"] for row in "abcd"] == [0.717, 0.625, 0.582, 0.650]
    assert rows[across, "a"]["pearson_high"] < rows[across, "a"]["pearson_published"]


def test_drawn_answers_have_the_frequencies_of_the_distribution():
    question = Question(id="Q0", text="How good?", scale=Scale(options=(1, 2, 3)))
    targets = tuple(Target(f"c{place}") for place in range(300))
    evidence = EvidenceTable(targets, (Column("x", "x"),), np.zeros((300, 1)), np.ones((300, 1), dtype=bool))
    labels = Labels(Label(target, "Q0", f"p{place % 4}", (1, 1, 3)[place % 3]) for place, target in enumerate(targets))
    head = Constant(question).fit(evidence, labels)
    first, again = (distillation.drawn(head, evidence, labels, question, 0) for _ in range(2))
    assert list(first) == list(again) and list(first) != list(distillation.drawn(head, evidence, labels, question, 1))
    assert len(first) == 900 and len({(label.target, label.annotator) for label in first}) == 900
    shares = {option: np.mean([label.value == option for label in first]) for option in (1, 2, 3)}
    [score] = head.predict_each(evidence.take([0]), ["p0"])
    assert shares == pytest.approx(dict(zip((1, 2, 3), score.probabilities, strict=True)), abs=0.05)
