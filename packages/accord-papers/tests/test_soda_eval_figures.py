"""Figures 6 and 7 of SODA-EVAL: errors of annotators before and after they see the issues of a model."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from test_validation import project, submitted

from accord.store import Studies
from accord.studies import open_validation
from accord.studies.human_studies import (
    INITIAL,
    OVERALL,
    REVISED,
    ValidatedTurns,
)
from accord.validation.issue_metrics import Called
from accord.values import IssueAnnotation, Target
from accord_papers import (
    REVISION_STATISTICS,
    StudyInput,
    error_chart,
    open_paper,
    reduction_chart,
    revision_rows,
    run_parts,
)
from accord_papers.readiness import obstacle
from accord_papers.soda_eval import whole_run
from accord_papers.soda_eval.macro_test import macro_f1, macro_test

MAKER = "issues|model:m"
SCORES = {"a": 2, "b": 2, "c": 5, "d": 5}
GIVEN = {
    "ann": {"a": (4, 2), "b": (3, 3), "c": (5, 5), "d": (4, 5)},
    "<bob>": {"a": (5, 4), "b": (2, 3), "c": (5, 5)},
}
"""Initial and revised rating by annotator and dialogue; the last rating of <bob> has no second stage."""


def rows() -> list[dict[str, object]]:
    answers = {
        (name, Target(dialogue, 1), question): value
        for name, given in GIVEN.items()
        for dialogue, stages in given.items()
        for question, value in zip((INITIAL, REVISED), stages, strict=True)
    }
    answers["<bob>", Target("d", 1), INITIAL] = 1
    found = [IssueAnnotation(Target(name, 1), (), score, "", MAKER) for name, score in SCORES.items()]
    other = IssueAnnotation(Target("a", 1), (), 1, "", "issues|model:other")
    turns = ValidatedTurns(OVERALL, MAKER, tuple(each.target for each in found))
    return revision_rows(answers, turns, [*found, other], draws=200)


def test_each_annotator_has_errors_and_reductions_with_intervals() -> None:
    by = {(row["annotator"], row["score"]): row for row in rows()}
    assert list(by) == [(name, score) for name in ("all", "<bob>", "ann") for score in (None, 2, 5)]
    expected = {  # means of |initial - model|, |revised - model|, their difference, the step, the share of changes
        ("ann", None): (4, [4 / 4, 1 / 4, 3 / 4, 0 - 1 / 4, 2 / 4]),
        ("ann", 2): (2, [3 / 2, 1 / 2, 2 / 2, -2 / 2, 1 / 2]),
        ("ann", 5): (2, [1 / 2, 0, 1 / 2, 1 / 2, 1 / 2]),
        ("<bob>", None): (3, [3 / 3, 3 / 3, 0, 0, 2 / 3]),
        ("<bob>", 5): (1, [0, 0, 0, 0, 0]),
        ("all", None): (7, [7 / 7, 4 / 7, 3 / 7, -1 / 7, 4 / 7]),
    }
    for key, (count, values) in expected.items():
        row = by[key]
        assert row["ratings"] == count and [row[name] for name in REVISION_STATISTICS] == pytest.approx(values), key
    everyone = by["all", None]
    for name in REVISION_STATISTICS:
        low, value, high = (everyone[f"{name}{end}"] for end in ("_low", "", "_high"))
        assert low < value < high  # type: ignore[operator]


def test_figures_are_drawn_per_annotator() -> None:
    errors, reductions = str(error_chart(rows())), str(reduction_chart(rows()))
    assert errors.count(", alone") >= 3 and "ann, with issues" in errors
    assert "error before minus after" in reductions and "ann" in reductions
    assert "<bob>" not in errors + reductions and "&lt;bob&gt;" in reductions


def test_no_ratings_give_no_rows_of_annotators() -> None:
    found = revision_rows({}, ValidatedTurns(OVERALL, MAKER, ()), [])
    assert [(row["annotator"], row["ratings"]) for row in found] == [("all", 0)] and error_chart(found)


def test_paper_shows_table_2_and_both_figures_of_a_project(tmp_path: Path) -> None:
    parts = open_paper("soda-eval").parts
    with project(tmp_path) as opened:
        given = StudyInput(project=opened)
        [unstarted] = run_parts(parts, given, ["figures-6-7"])
        by_name = {part.name: part for part in parts}
        obstacles = {name: obstacle(by_name[name], given) for name in ("figures", "table-2", "table-8", "abc-eval")}
        assert obstacles["figures"] == "" and "accord validate analysis" in obstacles["table-2"]
        assert "no ratings" in obstacles["table-8"] and "--data FOLDER" in obstacles["abc-eval"]
        assert (unstarted.status, "accord validate overall" in unstarted.reason) == ("skipped", True)
        studies = Studies(opened.store)
        for flow, stages in (("overall", ((INITIAL, 4), (REVISED, 3))), ("analysis", (("analysis:read", 1),))):
            look = open_validation(opened, flow, studies, per_turn=1)
            while (one := look.take("ann")) is not None:
                if flow == "analysis" and one.item.place == 0:
                    look.answer("ann", submitted(one.id, "issue:Fluency", 1, f"mark-{one.id}", turn=1))
                for question, value in stages:
                    look.answer("ann", submitted(one.id, question, value, f"{question[-4:]}-{one.id}"))
                    look.finish("ann", one.id)
        studies.close()
        table, figures = run_parts(parts, given, ["table-2", "figures-6-7"])
    assert table.table is not None and figures.table is not None
    shares = {row["kind"]: (row["share"], row["share_published"]) for row in table.table.rows}
    assert shares["None"] == (pytest.approx(5 / 6), 0.71) and shares["Fluency"] == (pytest.approx(1 / 6), 0.0)
    everyone = figures.table.rows[0]
    assert (everyone["annotator"], everyone["ratings"], everyone["step"]) == ("all", 6, -1.0)
    assert set(figures.table.charts) == {"Error per annotator", "Error reduction per annotator"}


def test_study_of_the_paper_reads_issues_and_answers_of_a_project(tmp_path: Path) -> None:
    with project(tmp_path) as opened:
        parts = open_paper("soda-eval").parts
        given = StudyInput(project=opened)
        [early] = run_parts(parts, given, ["table-13"])
        assert early.status == "skipped" and "accord validate detection" in early.reason
        studies = Studies(opened.store)
        for flow, answers in {"detection": {"validation:detection": 2},
                              "overall": {"validation:initial": 4, "validation:revised": 3}}.items():  # fmt: skip
            session = open_validation(opened, flow, studies, per_turn=2)
            for name in ("ann", "bob"):
                while (one := session.take(name)) is not None:
                    for question, value in answers.items():
                        value -= len(one.id) % 2 if question == "validation:initial" else 0
                        id = f"{name}-{question[-6:]}-{one.id}"[:60]
                        session.answer(name, submitted(one.id, question, value, id))
                        one = session.finish(name, one.id)
        studies.close()
        found = {each.part.name: each for each in run_parts(parts, given, ["figures", "table-4", "table-13"])}
        assert {each.status for each in found.values()} == {"partial"}
        shares = {row["kind"]: row["share"] for row in found["figures"].table.rows}  # type: ignore[union-attr]
        assert shares["no issue"] == 0.5 and shares["Commonsense"] == shares["Engagement"] == 0.5
        assert len(found["figures"].table.charts) >= 4  # type: ignore[union-attr]
        valid = {row["kind"]: row["majority"] for row in found["table-13"].table.rows}  # type: ignore[union-attr]
        assert valid["Commonsense"] == 1.0
        assert [row["stage"] for row in found["table-4"].table.rows] == ["initial", "revised"]  # type: ignore[union-attr]


def abc_eval_files(folder: Path) -> Path:
    """Write three dialogues of ABC-Eval: the finder calls two behaviors, and two people mark some."""
    place = folder / "abc_eval"
    place.mkdir()
    marked = {"h1": {"redundant"}, "h2": {"redundant", "ignore"}}
    called = ("redundant", "ignore", "empathetic")
    items, judged = [], []
    for dialogue in range(3):
        messages = [
            {"role": role, "content": f"{role} {n} of {dialogue}"} for n in range(2) for role in ("user", "assistant")
        ]
        for turn in (1, 3):
            about = {"id": f"abc-{dialogue}-{turn}", "level": "turn", "response_index": turn, "system": "bot",
                     "messages": messages[: turn + 1], "meta": {"dialogue_id": f"abc-{dialogue}"}}  # fmt: skip
            ratings = [{"annotator": who, "question": name, "value": int(turn == 1 and name in marks), "scale": [0, 1]}
                       for who, marks in marked.items() for name in called]  # fmt: skip
            items.append({**about, "ratings": ratings})
            judged += [{"item_id": about["id"], "judge_model": whole_run.FINDER, "question": name,
                        "value": int(turn == 1 or name == "empathetic")} for name in called]  # fmt: skip
    for name, rows in (("items", items), ("judgments", judged)):
        with gzip.open(place / f"{name}.jsonl.gz", "wt", encoding="utf-8") as stream:
            stream.writelines(json.dumps(row) + "\n" for row in rows)
    return folder


def test_a_whole_run_with_a_recorded_finder_has_every_table(tmp_path: Path) -> None:
    data = abc_eval_files(tmp_path)
    names = ["figures", "table-2", "table-4", "figures-6-7", "table-13"]
    found = {each.part.name: each.table for each in run_parts(open_paper("soda-eval").parts, StudyInput(data), names)}
    tables = {name: table for name, table in found.items() if table is not None}
    assert list(tables) == names and all("recorded decisions" in table.note for table in tables.values())
    shares = {row["kind"]: row["share"] for row in tables["figures"].rows}
    assert shares["no issue"] == shares["Coherence"] == shares["Repetition"] == 0.5 and shares["Engagement"] == 0
    marks = {row["kind"]: row["share"] for row in tables["table-2"].rows}
    assert marks["Repetition"] == 0.5 and marks["Relevance"] == 0.0, "the first annotator alone reads the dialogues"
    everyone = tables["figures-6-7"].rows[0]
    assert everyone["revised_error"] < everyone["initial_error"] and "a rule, not a rating" in tables["table-4"].note


def test_mean_f1_of_two_systems_is_tested_by_dialogue() -> None:
    marked = np.arange(40) % 2 == 0
    names = [f"d{row // 4}" for row in range(40)]
    right, wrong = (
        {"a": Called(marked, calls, calls.astype(float), names)} for calls in (marked, np.zeros(40, dtype=bool))
    )
    assert macro_test(right, wrong) < 0.02 and macro_test(right, right) == 1.0
    assert (macro_f1(right), macro_f1(wrong)) == (1.0, 0.0)
