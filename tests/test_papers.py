"""The studies of the papers: every part runs or states why not, and pages hold what the terminal shows."""

import os
from pathlib import Path

import pytest
from commands import accord, accord_json
from small_sample import sources

from accord.edges import UnknownName
from accord.papers import PAPERS, Part, PartTable, StudyInput, open_paper, run_parts

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


def test_a_table_prints_intervals_and_published_figures():
    rows = [{"system": "ours", "rmse": 0.5, "rmse_low": 0.4, "rmse_high": 0.6, "rmse_published": 0.396},
            {"system": "constant", "rmse": 0.8}]  # fmt: skip
    shown = PartTable(rows, ("system",), ("rmse",))
    assert shown.header() == ["system", "rmse", "published"]
    assert shown.lines() == [["ours", "0.500 [0.400, 0.600]", "0.396"], ["constant", "0.800", "–"]]
    named = PartTable(rows, ("system",), ("rmse",), headings={"rmse": "RMSE"})
    assert named.header() == ["system", "RMSE", "published"]


def test_one_failing_part_leaves_the_others():
    def fails(given):
        raise UnknownName("set", "x", [])

    parts = [Part("a", "A", fails), Part("b", "B", lambda given: PartTable([{"system": "s"}])),
             Part("c", "C", limits="no model"), Part("d", "D", on_project=fails),
             Part("e", "E", lambda given: PartTable([]), limits="half of the data")]  # fmt: skip
    found = {each.part.name: (each.status, each.reason) for each in run_parts(parts, StudyInput(Path()))}
    assert found["a"][0] == "skipped" and "unknown set" in found["a"][1]
    assert found["b"] == ("works", "") and found["c"] == ("impossible", "no model")
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
    assert "does not look like an earlier output" in said and Path("notes/mine.md").read_text() == "# Mine\n"


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


@needs_data
def test_calibration_of_the_answers_is_near_the_published_bound():
    [result] = run_parts(open_paper("llm-rubric").parts, StudyInput(Path(DATA), repeats=1), ["figure-5"])
    assert result.status == "works" and len(result.table.charts) == len(result.table.rows) == 4
    assert all(row["smece"] < 0.06 for row in result.table.rows), "the paper states < .05"
