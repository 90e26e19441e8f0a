"""The studies of the papers: every part runs or states why not, and pages hold what the terminal shows."""

import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from commands import accord, accord_json
from small_sample import sources
from test_plausibility import QUESTION, Grammar, asking, chats

from accord import Conversation, Label, Labels, Turn
from accord.edges import UnknownName
from accord.embedded.language_model import open_language_model
from accord.embedded.minilm import open_sentence_embedder
from accord.evidence import Column, EvidenceTable
from accord.values import Sample, Signature, Target, score_from
from accord_papers import (
    PAPERS,
    Part,
    PartTable,
    StudyInput,
    mean_interval,
    open_paper,
    run_parts,
    spread_name,
    spread_of,
)
from accord_papers.ciu import combinations, plausibility, responses, single_metrics, tables_and_figures
from accord_papers.ciu.published import METRICS

DATA = os.environ.get("ACCORD_DATA")
needs_data = pytest.mark.skipif(DATA is None, reason="ACCORD_DATA names no folder of benchmark data")


@pytest.mark.parametrize("name", PAPERS)
def test_every_part_can_run_or_states_why_not(name):
    paper = open_paper(name)
    names = [part.name for part in paper.parts]
    assert paper.name == name and len(names) == len(set(names)) > 2
    for part in paper.parts:
        assert part.on_data or part.on_project or part.limits, part.name


@pytest.mark.parametrize("name", PAPERS)
def test_a_missing_data_set_skips_a_part_with_the_next_step(name, tmp_path):
    for paper_set in open_paper(name).sets:
        with pytest.raises(Exception, match=f"no data set '{paper_set}'.*--data"):
            StudyInput(tmp_path).folder(paper_set)


def test_case_studies_are_found_in_the_data_and_predicted_from_other_contexts(tmp_path, monkeypatch):
    texts = ["Well. I wonder what the president of Zimbabwe looks like ?", "i wonder if the un has an ambassador to aliens.",
             "I use it a lot. I could have had 100 burgers!", "Hm.", "Aha."]  # fmt: skip
    chats = [Conversation(f"c{row}", (Turn("user", "Hi."), Turn("assistant", text))) for row, text in enumerate(texts)]
    targets = tuple(Target(chat.id, 1) for chat in chats)
    values = np.arange(5.0)[:, None] + np.arange(6.0) / 10
    table = EvidenceTable(targets, tuple(Column(name, name) for name in METRICS), values, np.ones((5, 6), dtype=bool))
    rated = responses.Rated("t", table, Labels(()), {"Overall": np.array([4.0, 3, 5, 1, 2])},
                            np.array(["a", "b", "c", "a", "d"], dtype=object), {"spearman_overall": "Overall"})  # fmt: skip
    monkeypatch.setattr(tables_and_figures, "responses", lambda folder: {responses.WITH_DOCUMENT: rated})
    monkeypatch.setattr(
        tables_and_figures, "read", lambda folder: [SimpleNamespace(conversation=chat) for chat in chats]
    )
    forms = {"moe-ciu": lambda train, test, question: np.array([train.people[question].mean()])}
    monkeypatch.setattr(combinations, "PUBLISHED_FORMS", forms)
    effects = (("bleu", 0.5), ("ruber", -0.25), ("words", 0.1), ("chrf", 0.0))
    told = score_from(targets[0], "population", [1, 5], [0.25, 0.75], Signature("t"), attributions=effects)
    monkeypatch.setattr(tables_and_figures, "scores", lambda train, test, question: [told])
    (tmp_path / "topical_usr").mkdir()
    [result] = run_parts(open_paper("ciu").parts, StudyInput(tmp_path), ["case-study"])
    assert result.status == "partial" and [row["rating"] for row in result.table.rows] == [4, 3, 5]
    assert [row["moe-ciu"] for row in result.table.rows] == pytest.approx([10 / 3, 3, 2.5]), "not from its own context"
    assert [row["ruber"] for row in result.table.rows] == pytest.approx([0.4, 1.4, 2.4])
    assert [(row["id"], row["accord"]) for row in result.table.rows] == [(f"c{n}", 4.0) for n in range(3)]
    assert result.table.rows[0]["reasons"] == "bleu +0.50, ruber -0.25, words +0.10"
    assert result.table.lines()[0][-1] == "0.320 / 0.000 / 0.360 / 3.330 / 3.660"


def test_a_table_prints_intervals_and_published_figures():
    rows = [{"system": "ours", "rmse": 0.5, "rmse_low": 0.4, "rmse_high": 0.6, "rmse_published": 0.396},
            {"system": "constant", "rmse": 0.8}]  # fmt: skip
    shown = PartTable(rows, ("system",), ("rmse",))
    assert shown.header() == ["system", "rmse", "published"]
    assert shown.lines() == [["ours", "0.500 [0.400, 0.600]", "0.396"], ["constant", "0.800", "–"]]
    named = PartTable(rows, ("system",), ("rmse",), headings={"rmse": "RMSE"})
    assert named.header() == ["system", "RMSE", "published"]


def test_a_range_of_few_repeats_is_named_in_the_header():
    few, many = spread_of("f1", [0.1, 0.3, 0.2]), spread_of("f1", np.linspace(0, 1, 201).tolist())
    assert few == {"f1": pytest.approx(0.2), "f1_low": 0.1, "f1_high": 0.3}
    assert (many["f1_low"], many["f1_high"]) == pytest.approx((0.025, 0.975))
    assert spread_name(3, "halvings") == "range of 3 halvings"
    assert spread_name(201, "draws") == "middle 95% of 201 draws"
    rows = [{"system": "ours", **few, "n": 7.0}]
    shown = PartTable(rows, ("system",), ("f1", "n"), headings={"f1": "F1"}, brackets=spread_name(3, "halvings"))
    assert shown.header() == ["system", "F1 [range of 3 halvings]", "n"]


def test_the_interval_of_a_mean_of_few_repeats_holds():
    rng = np.random.default_rng(0)
    found = [mean_interval("f1", rng.normal(size=3).tolist()) for _ in range(400)]
    assert 0.92 <= np.mean([row["f1_low"] <= 0 <= row["f1_high"] for row in found]) <= 0.98
    assert mean_interval("f1", [0.5]) == {"f1": 0.5}


def test_one_failing_part_leaves_the_others():
    def fails(given):
        raise UnknownName("set", "x", [])

    parts = [Part("a", "A", fails), Part("b", "B", lambda given: PartTable([{"system": "s"}])),
             Part("c", "C", limits="no model"), Part("d", "D", on_project=fails),
             Part("e", "E", lambda given: PartTable([]), limits="half of the data")]  # fmt: skip
    found = {each.part.name: (each.status, each.reason) for each in run_parts(parts, StudyInput(Path()))}
    assert found["a"][0] == "skipped" and "unknown set" in found["a"][1]
    assert found["b"] == ("works", "") and found["c"] == ("impossible", "no model")
    assert {each.part.name: each.availability for each in run_parts(parts, StudyInput(Path()))}["d"].startswith(
        "works on a project"
    )
    assert found["d"][0] == "skipped" and "--project" in found["d"][1] and found["e"][0] == "partial"
    with pytest.raises(UnknownName, match="unknown part 'z'"):
        list(run_parts(parts, StudyInput(Path()), ["z"]))


def test_means_of_a_project_as_page_json_and_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("accord.yaml").write_text("seed: 0\n", encoding="utf-8")
    accord("import", *map(str, sources()))
    given = ["paper", "llm-rubric", "--project", "accord.yaml"]
    shown = accord(*given, "--only", "means", "--out", "pages")
    [part] = accord_json(*given, "--only", "means")["parts"]
    assert part["status"] == "works" and all(row["n"] >= 1 for row in part["rows"])
    page = Path("pages/llm-rubric.md").read_text(encoding="utf-8")
    for row in part["rows"]:
        assert f"{row['mean']:.3f}" in shown and f"| {row['system']} | {row['question']} | {row['n']} |" in page
    charts = list(Path("pages").glob("*.svg"))
    assert charts and all(f"({chart.name})" in page for chart in charts)
    accord(*given, "--only", "means", "--out", "pages")  # an earlier page is replaced
    everything = accord_json(*given)["parts"]
    assert {each["status"] for each in everything} == {"works", "skipped", "impossible"}


def test_a_folder_with_other_files_is_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("notes").mkdir()
    Path("notes/mine.md").write_text("# Mine\n", encoding="utf-8")
    Path("accord.yaml").write_text("seed: 0\n", encoding="utf-8")
    said = accord("paper", "llm-rubric", "--project", "accord.yaml", "--out", "notes", code=1)
    assert (
        "does not look like an earlier output" in said
        and Path("notes/mine.md").read_text(encoding="utf-8") == "# Mine\n"
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["nope", "--data", "."], "unknown paper 'nope'"),
        (["llm-rubric"], "give either --data FOLDER"),
        (["llm-rubric", "--data", ".", "--project", "accord.yaml"], "give either --data FOLDER"),
        (["llm-rubric", "--data", ".", "--only", "table-9"], "unknown part 'table-9'"),
    ],
)
def test_wrong_input_is_refused(given, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert said in accord("paper", *given, code=1)


# --- CIU --------------------------------------------------------------------------------------------------------------


@needs_data
def test_single_metrics_of_topical_usr_are_those_measured_before():
    wanted = {"ciu": (0.467, 0.796), "ciu-paper": (0.438, 0.749), "ciu-unsupported": (0.521, 0.781)}
    names = [*wanted, *single_metrics.ABLATIONS.values()]
    data = responses.load(Path(DATA) / "topical_usr", names, single_metrics.RENAMED)["with-document"]
    rows = {row["system"]: row for row in single_metrics.standalone({"with-document": data}, draws=20)}
    for name, (overall, knowledge) in wanted.items():
        assert rows[name]["spearman_overall"] == pytest.approx(overall, abs=0.005)
        assert rows[name]["spearman_uses_knowledge"] == pytest.approx(knowledge, abs=0.005)
    assert rows["ciu-paper"]["spearman_overall_published"] == 0.415 and rows["ciu"]["n"] == 312
    assert {
        name: rows[name]["spearman_overall"] for name in single_metrics.ABLATIONS
    }.keys() == single_metrics.ABLATIONS.keys()
    assert rows["ciu-paper-no-pos"]["spearman_overall"] > rows["ciu-paper"]["spearman_overall"]
    assert 0.7 < single_metrics.one_annotator(data)["spearman_overall"] < 0.85


def test_a_metric_without_its_model_is_a_row_with_the_reason(monkeypatch):
    chats = [
        Conversation(f"c{n}", (Turn("user", "What?"), Turn("assistant", f"word {n} " * (n + 1)))) for n in range(12)
    ]
    samples, question = [Sample(chat, 1) for chat in chats], "Overall"
    monkeypatch.setenv("ACCORD_MODELS", "no-such-folder")
    monkeypatch.setattr(responses, "missing_metric", responses.missing_metric.__wrapped__)
    open_sentence_embedder.cache_clear()
    evidence, missing = responses.measured(samples, ["words", "bertscore-f1", "ruber", "ciu"], {})
    assert missing.keys() == {"bertscore-f1", "ruber"} and "accord models pull minilm-l6" in missing["bertscore-f1"]
    labels = Labels(Label(sample.target, question, who, n % 5 + 1) for n, sample in enumerate(samples) for who in "ab")
    people = {question: np.array([n % 5 + 1.0 for n in range(12)])}
    context = np.array([chat.id for chat in chats], dtype=object)
    data = responses.Rated("own", evidence, labels, people, context, {"spearman": question}, missing)
    rows = {row["system"]: row for row in single_metrics.standalone({"rated": data}, draws=20)}
    assert rows["words"]["n"] == 12 and "spearman" in rows["words"]
    assert rows["bertscore-f1"]["missing"] == missing["bertscore-f1"] and "spearman" not in rows["ruber"]
    assert rows["ciu"]["missing"] == "fewer than 10 values: nothing to measure", "no conversation has a document"
    assert single_metrics.one_annotator(data)["spearman"] == pytest.approx(1)


def drawn_responses(name, metrics):
    """80 responses; the second metric orders their ratings, the others are noise."""
    rng = np.random.default_rng(0)
    truth, values = rng.normal(size=80), rng.normal(size=(80, len(metrics)))
    values[:, 1] = truth + 0.1 * values[:, 1]
    targets = tuple(Target(f"c{n}") for n in range(80))
    columns = tuple(Column(metric, metric) for metric in metrics)
    evidence = EvidenceTable(targets, columns, values, np.ones(values.shape, dtype=bool))
    context = np.array([f"c{n // 2}" for n in range(80)], dtype=object)
    return responses.Rated(name, evidence, Labels([]), {"q": truth}, context, {"spearman": "q"})


@pytest.mark.parametrize(
    ("metrics", "bank", "is_published"),
    [
        (METRICS, "the paper's six", True),
        (METRICS[:4], "4 of the paper's six", False),
        ((*METRICS, "words"), "the paper's six and 1 more", False),
        (("words", "turns"), "0 of the paper's six and 2 more", False),
    ],
)
def test_published_figures_stand_beside_all_six_metrics_only(metrics, bank, is_published):
    rows = combinations.select(drawn_responses("topical_usr", metrics), 1, ("grouped",), ("univariate",))
    assert {row["bank"] for row in rows} == {bank}
    assert all(("spearman_overall_published" in row) == is_published for row in rows)
    assert all(("ratio_published" in row) == is_published for row in combinations.ratios(rows))


def test_a_strategy_keeps_the_metric_that_orders_the_ratings():
    data = drawn_responses("own", ("noise", "signal", "other"))
    assert combinations.splits_of(data) == combinations.SPLITS
    rows = combinations.select(data, 1, ("grouped",), ("univariate", "forward-1", "recursive-2"))
    for row in rows:
        assert row["kept"]["signal"] == 1 and row["spearman"] > 0.9
    ratio = {row["metric"]: row["ratio"] for row in combinations.ratios(rows)}
    assert ratio["signal"] == 1 and ratio["noise"] < 1 and "ratio_published" not in combinations.ratios(rows)[0]


def test_ciu_of_a_project_compares_its_metrics_and_states_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("accord.yaml").write_text("metrics: [lexical, {ciu: {frequency: false}}]\n", encoding="utf-8")
    accord("import", *map(str, sources()))
    monkeypatch.setattr(tables_and_figures, "METRICS", ("bleu", "ciu-paper"))
    given = ["paper", "ciu", "--project", "accord.yaml", "--repeats", "1", "--only", "table-1,ratios,ours,plausibility"]
    found = {part["part"]: part for part in accord_json(*given)["parts"]}
    assert {part["status"] for name, part in found.items() if name in {"table-1", "ratios"}} == {"partial"}
    single_rows = {(row["question"], row["system"]): row for row in found["table-1"]["rows"]}
    assert {"Q0", "Q8"} <= {question for question, _ in single_rows}
    assert {"turns", "ciu", "ciu-no-freq", "bleu", "one annotator"} <= {system for _, system in single_rows}
    assert "ciu@frequency=false" in {row["metric"] for row in found["ratios"]["rows"]}
    assert {row["system"] for row in found["ours"]["rows"]} == {"mixture", "ridge"}
    assert found["plausibility"]["status"] == "skipped" and "no likelihood model" in found["plausibility"]["reason"]


@needs_data
def test_the_plausibility_check_is_skipped_without_its_model(monkeypatch, tmp_path):
    monkeypatch.setenv("ACCORD_MODELS", str(tmp_path))
    open_language_model.cache_clear()
    [result] = run_parts(open_paper("ciu").parts, StudyInput(Path(DATA)), ["plausibility"])
    assert result.status == "skipped" and "accord models pull smollm2-135m" in result.reason


# --- LLM-RUBRIC -------------------------------------------------------------------------------------------------------


@needs_data
def test_calibration_of_the_answers_is_near_the_published_bound():
    [result] = run_parts(open_paper("llm-rubric").parts, StudyInput(Path(DATA), repeats=1), ["figure-5"])
    assert result.status == "works" and len(result.table.charts) == len(result.table.rows) == 4
    assert all(row["smece"] < 0.06 for row in result.table.rows), "the paper states < .05"


def test_the_study_shows_that_planted_replies_lose_their_score() -> None:
    samples = [Sample(chat, 1) for chat in chats(80)]
    labels = Labels(Label(s.target, "useful", "ann", 2 + len(s.conversation.turns[1].content) % 4) for s in samples)
    rows = plausibility.check_rows(samples, labels, QUESTION, asking(Grammar()))
    drop = {row["replies"]: row for row in rows if row["measure"] == plausibility.DROP}
    for kind in ("shuffled", "foreign", "random"):
        assert drop[kind]["with_check_low"] > drop[kind]["without_check_high"], kind
    assert drop["real"]["without_check"] == 0 and drop["real"]["with_check"] < 0.3
    [agreement] = [row for row in rows if row["measure"] == plausibility.AGREEMENT]
    assert agreement["with_check_low"] <= agreement["with_check"] <= agreement["with_check_high"]
