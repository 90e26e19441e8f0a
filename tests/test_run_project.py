"""The output folder of `accord run` as a project, the evaluator in use, recorded judges, and rows of every conversation."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml
from commands import accord_json, invoke, printed, read_rows, refused, write, write_rows

from accord import open as open_project
from accord.learning import load_evaluator

QUICK = ["--set", "draws=20", "--set", "metrics=[words]", "--set", "folds=2", "--set", "evaluators.default.head=mixed"]
NAMED = ["--evaluator", "mixture"]


@pytest.fixture(autouse=True)
def folder(working_folder: Path) -> Path:
    return working_folder


def talk(place: int, turns: int = 1) -> list[dict[str, str]]:
    said = []
    for turn in range(turns):
        said.append({"role": "user", "content": f"Where is parcel {place} on day {turn}?"})
        said.append(
            {"role": "assistant", "content": f"It comes on day {place + turn}, " + "very " * (place % 5) + "soon."}
        )
    return said


def rated_chats(name: str = "data/chats.jsonl", count: int = 24, turns: int = 1) -> str:
    return write_rows(name, [{"id": f"c{i}", "messages": talk(i, turns), "rating": i % 5 + 1} for i in range(count)])


def items(rated: int = 24, unrated: int = 0, turns: int = 2) -> list[dict[str, Any]]:
    """Benchmark items about the last turn, of which the first ones are rated."""
    return [
        {
            "id": f"t{i}", "level": "turn", "messages": talk(i, turns), "response_index": 2 * turns - 1,
            "ratings": [{"annotator": who, "question": "good", "value": (i + k) % 5 + 1} for k, who in enumerate(("ann", "ben"))]
            if i < rated else [],
        }
        for i in range(rated + unrated)
    ]  # fmt: skip


def judgements(values: Mapping[str, Any], count: int = 24, prefix: str = "c") -> list[dict[str, Any]]:
    """A row per model and item; a value is a function of the item's number."""
    return [
        {"item_id": f"{prefix}{i}", "question": "rating", "judge_model": model, "value": make(i)}
        for i in range(count)
        for model, make in values.items()
    ]


# --- the output folder ----------------------------------------------------------------------------------------------


def test_run_leaves_a_project_that_other_commands_use(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rated_chats()
    write_rows("data/judge.jsonl", judgements({"m": lambda i: i % 5 + 1}))
    printed("run", "data", "--out", "out", *QUICK)
    new = write_rows("new.jsonl", [{"id": f"n{i}", "messages": talk(30 + i)} for i in range(4)])
    settings = yaml.safe_load(Path("out/accord.yaml").read_text(encoding="utf-8"))
    assert settings["store"] == "sqlite:///accord.db" and settings["rubric"] == "rubric.yaml"
    assert settings["models"]["judge"]["paths"] == [str((folder / "data/judge.jsonl").resolve())]
    shutil.move("out", "moved")
    monkeypatch.chdir(folder / "moved")
    used = load_evaluator(Path("evaluators") / settings["evaluator"])
    scored = invoke("score", f"../{new}", "--out", "x.jsonl")
    assert f"evaluator: evaluators/{settings['evaluator']}" in scored.stderr
    assert {row["signature"] for row in read_rows("x.jsonl")} == {str(used.head.signature())}
    compared = accord_json("compare", "--only", settings["evaluator"])
    assert compared["rows"][0]["evaluator"] == settings["evaluator"]
    assert f"evaluator: {settings['evaluator']}" in invoke("report").stderr


def test_run_continues_in_its_own_folder_and_keeps_edits(folder: Path) -> None:
    rated_chats()
    printed("run", "data", "--out", "out", *QUICK, *NAMED)
    before = read_rows("out/scores.jsonl")
    again = accord_json("run", "data", "--out", "out", *QUICK, *NAMED)
    assert again["imported"]["conversations"] == {"new": 0, "known": 24}
    assert [row["value"] for row in read_rows("out/scores.jsonl")] == [row["value"] for row in before]

    rubric = Path("out/rubric.yaml")
    rubric.write_text(rubric.read_text(encoding="utf-8").replace("How", "How exactly"), encoding="utf-8")
    assert "sets the main question" in refused("run", "data", "--out", "out", "--main", "rating")
    settings = Path("out/accord.yaml")
    settings.write_text(settings.read_text(encoding="utf-8").replace("folds: 2", "folds: 3"), encoding="utf-8")
    kept = rubric.read_text(encoding="utf-8"), settings.read_text(encoding="utf-8")
    done = invoke("run", "data", "--out", "out", *NAMED)
    assert (rubric.read_text(encoding="utf-8"), settings.read_text(encoding="utf-8")) == kept
    assert "rubric.yaml was edited and is used unchanged" in done.stderr
    assert accord_json("run", "data", "--out", "out", *NAMED)["comparison"]["folds"] == 3
    assert "accord.yaml was edited" in refused("run", "data", "--out", "out", "--set", "folds=4")


@pytest.mark.parametrize("command", [["run", "data"], ["demo"]])
def test_run_overwrites_no_folder_of_something_else(folder: Path, command: list[str]) -> None:
    rated_chats()
    for name in ("mine/rubric.yaml", "file"):
        write(name, "name: mine\n")
        out = name.split("/")[0]
        assert f"{out} exists and is not the output of an earlier run" in refused(*command, "--out", out)
        assert Path(name).read_text(encoding="utf-8") == "name: mine\n"


def test_run_writes_no_secret_of_a_variable(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rated_chats()
    monkeypatch.setenv("HOOK", "https://hooks.example/secret-part")
    write("accord.yaml", "monitoring: {webhook: '${HOOK}'}\ndraws: 20\nmetrics: [words]\nrubric: mine.yaml\n")
    write("mine.yaml", "name: mine\nmain: rating\nquestions: [{id: rating, text: Good, options: [1, 2, 3, 4, 5]}]\n")
    printed("run", "data", "--out", "out", *NAMED)
    written = Path("out/accord.yaml").read_text(encoding="utf-8")
    assert "secret-part" not in written
    assert yaml.safe_load(written)["monitoring"] == {"webhook": "${HOOK}"}
    assert yaml.safe_load(Path("out/rubric.yaml").read_text(encoding="utf-8"))["name"] == "mine"


# --- the evaluator in use -------------------------------------------------------------------------------------------


def test_commands_use_the_evaluator_that_was_fitted_last(folder: Path) -> None:
    write(
        "accord.yaml",
        "metrics: [words]\nevaluators: {default: {head: mixed}}\nrubric: r.yaml\n",
    )
    write("r.yaml", "name: r\nmain: rating\nquestions:\n- {id: rating, text: Good, options: [1, 2, 3, 4, 5]}\n"
          "- {id: other, text: Other, options: [1, 2, 3, 4, 5]}\n")  # fmt: skip
    name = rated_chats()
    printed("import", name, "--labels", "rating")
    assert refused("score", name, "--out", "x.jsonl").endswith("fit one: accord fit")
    printed("fit", "mixture")
    assert "evaluator: evaluators/mixture" in invoke("score", name, "--out", "x.jsonl").stderr
    assert "evaluator: mixture" in invoke("report").stderr
    with open_project() as project:
        assert project.evaluator_in_use == "mixture" and project.load().name == "mixture"
    printed("fit")
    assert "evaluator: evaluators/default" in invoke("score", name, "--out", "x.jsonl").stderr
    printed("fit", "mixture", "--out", "elsewhere/mine")
    assert f"evaluator: {folder.resolve() / 'elsewhere/mine'}" in invoke("score", name, "--out", "x.jsonl").stderr
    explicit = invoke("score", name, "--out", "x.jsonl", "--evaluator", "evaluators/default").stderr
    assert "evaluator: evaluators/default" in explicit
    shutil.rmtree("elsewhere")  # an evaluator that is gone is not in use
    assert "evaluator: evaluators/default" in invoke("score", name, "--out", "x.jsonl").stderr


# --- recorded judges ------------------------------------------------------------------------------------------------


def test_run_and_single_steps_use_the_same_recorded_judges(folder: Path) -> None:
    rated_chats()
    write_rows("data/judge.jsonl", judgements({"near": lambda i: 1 + i % 5 * 0.9, "far": lambda i: i % 3}))
    whole = accord_json("run", "data", "--out", "out", *QUICK)
    printed("init", "--from", "data")
    settings = Path("accord.yaml")
    quick = "metrics: [words]\ndraws: 20\nevaluators: {default: {head: mixed}}"
    edited = settings.read_text(encoding="utf-8").replace("metrics: [lexical]", quick)
    settings.write_text(edited.replace("folds: 5", "folds: 2"), encoding="utf-8")
    done = invoke("import", "data", "--labels", "rating")
    assert "recorded judgements of near, far are the judge now" in done.stderr
    assert yaml.safe_load(settings.read_text(encoding="utf-8"))["models"] == {
        "judge": {"mode": "recorded", "paths": ["data/judge.jsonl"]}
    }
    assert "# Accord's project file." in settings.read_text(encoding="utf-8"), "other lines stay as they are"
    agreement = {row["model"]: row["spearman"] for row in whole["recorded"]}
    assert agreement["near"] == pytest.approx(1.0) and agreement["far"] < 0.5
    assert any("evidence of other recorded models: far" in line for line in whole["notes"])
    compared = accord_json("compare")
    assert [row for row in compared["rows"]] == [row for row in whole["comparison"]["rows"]]
    by_name = {row["evaluator"]: row for row in compared["rows"]}
    assert by_name["judge-expected"]["n"] == 24 and by_name["judge-expected"]["pearson"] > 0.99
    assert "are the judge in accord.yaml already" in invoke("import", "data", "--labels", "rating").stderr
    printed("fit", "--best")
    printed("score", "data/chats.jsonl", "--out", "x.jsonl")
    assert len(read_rows("x.jsonl")) == 24


@pytest.mark.parametrize(
    ("before", "says", "written"),
    [
        ("models: {judge: {mode: logprobs, model: m}}\n", "names another judge", False),
        ("models:\n    writer: {model: w}  # writes\n", "are the judge now", True),
        ("models: {writer: {model: w}}\n", "Add to models: in accord.yaml: judge: {mode: recorded", False),
        ("folds: 3\n", "are the judge now", True),
    ],
)
def test_import_registers_judgements_without_changing_settings(
    folder: Path, before: str, says: str, written: bool
) -> None:
    write("accord.yaml", before)
    name = write_rows("judge.jsonl", judgements({"m": lambda i: i % 5 + 1}))
    assert says in invoke("import", rated_chats(), name).stderr
    after = Path("accord.yaml").read_text(encoding="utf-8")
    assert before.replace("\n", "") in after.replace("\n", "") or written
    entry = {"mode": "recorded", "paths": ["judge.jsonl"]}
    known = yaml.safe_load(before) or {} if before else {}
    wanted = {**known, "models": {**known.get("models", {}), "judge": entry}} if written else known
    assert yaml.safe_load(after) == wanted


def test_judge_is_the_recorded_model_of_rated_questions(folder: Path) -> None:
    write_rows("data/items.jsonl", items())
    elsewhere = judgements({"elsewhere": lambda i: i % 5 + 1}, 60, prefix="dialogue")
    here = judgements({"here": lambda i: i % 5 + 1}, 20, prefix="t")
    write_rows("data/judge.jsonl", [{**row, "question": "good"} for row in (*elsewhere, *here)])
    done = accord_json("run", "data", "--out", "out", *QUICK, "--evaluator", "default")
    assert any("the judge is the recorded 'here'" in line for line in done["notes"])
    named = ["--recorded-model", "elsewhere", "--evaluator", "default"]
    other = accord_json("run", "data", "--out", "named", *QUICK, *named)
    assert any("the judge is the recorded 'elsewhere'" in line for line in other["notes"])
    rows = {row["evaluator"]: row for row in other["comparison"]["rows"]}
    assert rows["default"]["pearson"] > 0.3, "answers of the other recorded model are evidence too"


# --- rows -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("without_texts", [False, True])
def test_every_conversation_has_a_row(folder: Path, without_texts: bool) -> None:
    rows = items(24, 12)
    for place in range(24, 30):  # equal to a rated conversation, or its beginning
        rows[place]["messages"] = rows[place - 20]["messages"][: 2 if place % 2 else 4]
        rows[place]["response_index"] = len(rows[place]["messages"]) - 1
    rows[-1]["messages"] = [{"role": "system", "content": "Be kind."}]
    rows[-1]["response_index"] = None
    rows[-1]["level"] = "dialogue"
    if without_texts:
        rows = [{**row, "messages": [], "level": "dialogue", "response_index": None} for row in rows]
        write_rows("data/judge.jsonl", [
            {**row, "question": "good"} for row in judgements({"m": lambda i: i % 5 + 1}, 36, prefix="t")
        ])  # fmt: skip
    write_rows("data/items.jsonl", rows)
    named = ["--evaluator", "default" if without_texts else "mixture"]
    printed("run", "data", "--out", "out", *QUICK, *named)
    scored = read_rows("out/scores.jsonl")
    assert sorted(row["conversation"] for row in scored) == sorted(row["id"] for row in rows)
    missing = {row["conversation"]: row["unscored"] for row in scored if row["value"] is None}
    assert missing == ({} if without_texts else {"t35": "no reply to score"})


def test_run_refuses_roles_without_messages(folder: Path) -> None:
    said = refused("run", rated_chats(), "--out", "out", "--role", "agt=assistant", *QUICK, *NAMED)
    assert "no conversation has the role 'agt'. Roles found: 'user', 'assistant'" in said


def test_rated_turns_are_scored_separately(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_rows("data/items.jsonl", items(24, 6, turns=3))
    printed("run", "data", "--out", "out", *QUICK, *NAMED)
    scored = read_rows("out/scores.jsonl")
    assert {row["turn"] for row in scored} == {5} and len(scored) == 30
    assert all(row["rated"] == (int(row["conversation"][1:]) < 24) for row in scored)
    whole = printed("run", "data", "--out", "out", "--turns", "all", "--details", *QUICK, *NAMED)
    assert "24 of 90 scored turns have ratings" in whole
    assert sum(row["rated"] for row in read_rows("out/scores.jsonl")) == 24

    plain = write_rows("plain.jsonl", [{"id": "p", "messages": talk(3, 3)}])
    monkeypatch.chdir(folder / "out")
    for source, turns in ((f"../{plain}", [1, 3, 5]), ("../data/items.jsonl", [5] * 30)):
        for ending in ("jsonl", "csv", "parquet"):
            printed("score", source, "--out", f"x.{ending}")
        assert [row["turn"] for row in read_rows("x.jsonl")] == turns
        flags = {name: [row[name] for row in read_rows("x.jsonl")] for name in ("rated", "in_training")}
        for frame in (pl.read_csv("x.csv"), pl.read_parquet("x.parquet")):
            assert {name: list(map(_flag, frame[name])) for name in flags} == flags
    parts = printed("score", "../data/items.jsonl", "--out", "parts/", "--workers", "1")
    assert "24 of 30 rows are of conversations used in training" in parts
    printed("export", "merged.jsonl", "--scores", "parts")
    merged = {row["conversation"]: (row["rated"], row["in_training"]) for row in read_rows("merged.jsonl")}
    assert merged == {f"t{i}": (i < 24, i < 24) for i in range(30)}
    assert (
        "is not one of 'rated', 'all', 'last'"
        in invoke("score", "x.jsonl", "--out", "y.jsonl", "--turns", "first", code=2).output
    )


def _flag(value: Any) -> bool:
    return value in (True, "True", "true")


def test_scores_of_training_conversations_are_flagged_and_left_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chats = rated_chats(count=60)
    printed("run", "data", "--out", "out", *QUICK, *NAMED)
    monkeypatch.chdir(folder / "out")
    known = printed("score", f"../{chats}", "--out", "x.jsonl")
    assert "60 of 60 scored conversations were used in training; their scores are closer to the ratings than" in known
    assert "learned from" not in known.split("used in training")[1]
    assert all(row["in_training"] for row in read_rows("x.jsonl"))
    assert "--include-training" in refused("gate", "--min-mean", "1")
    assert "passed" in printed("gate", "--min-mean", "1", "--include-training")
    asked = printed("score", f"../{chats}", "--out", "x.jsonl", "--include-training")
    assert "is shown to be shifted from the training data" in asked

    rows = [{"id": f"c{i}", "messages": talk(i)} for i in range(3)]
    rows[0]["messages"] = talk(0, 2)  # the same id, another content
    rows += [{"id": f"n{i}", "messages": talk(i)} for i in range(2)]  # the same content, another id
    write_rows("mixed.jsonl", rows)
    mixed = printed("score", "mixed.jsonl", "--out", "x.jsonl")
    assert "2 of 5 scored conversations were used in training" in mixed
    assert [row["in_training"] for row in read_rows("x.jsonl")] == [False, True, True, False, False]
    checks = accord_json("gate", "--min-mean", "1", code=None)["checks"]
    check = next(each for each in checks if each["condition"].startswith("mean of the latest scores"))
    new = [row["value"] for row in read_rows("x.jsonl") if not row["in_training"]]
    assert check["estimate"] == pytest.approx(sum(new) / len(new)) and check["value"] < check["estimate"]
    assert "lower bound of the 95% interval over 3 conversations" in check["text"]


def test_run_compares_nothing_if_all_conversations_form_one_group(folder: Path) -> None:
    write_rows("data/chats.jsonl", [{"id": f"c{i}", "messages": talk(0), "rating": i % 5 + 1} for i in range(12)])
    settings = QUICK[: QUICK.index("evaluators.default.head=mixed") - 1]  # `mixed` alone needs two groups
    assert accord_json("run", "data", "--out", "out", *settings)["comparison"] is None
    assert len(read_rows("out/scores.jsonl")) == 12


def test_conversations_that_a_recording_lacks_get_the_distribution_of_all_ratings(folder: Path) -> None:
    rated_chats()
    rows = [row for row in judgements({"m": lambda i: i % 5 + 1}) if row["item_id"] not in ("c3", "c4")]
    write_rows("data/judge.jsonl", rows)
    printed("run", "data", "--out", "out", *QUICK, "--set", "metrics=[]", "--evaluator", "default")
    found = {row["conversation"]: row for row in read_rows("out/scores.jsonl")}
    lacking = [row for row in found.values() if (row["warning"] or "").startswith("no evidence (not recorded)")]
    assert [row["conversation"] for row in lacking] == ["c3", "c4"]
    assert len({row["value"] for row in lacking}) == 1 and all(row["value"] is not None for row in found.values())


def test_outputs_of_accord_in_a_folder_are_no_input(folder: Path) -> None:
    rated_chats("chats.jsonl")
    printed("init", "--from", "chats.jsonl")
    printed("import", "chats.jsonl")
    printed("fit", "mixture", *QUICK)
    for ending in ("jsonl", "csv", "parquet"):
        printed("score", "chats.jsonl", "--out", f"scores.{ending}")
        assert "holds scores of an evaluator" in refused("import", f"scores.{ending}")
    Path("agreement-card.json").write_text(
        '{"accord_version": "1", "subject": {}, "test": {}, "digest": "s256:0"}', encoding="utf-8"
    )
    again = invoke("import", ".")
    assert "0 labels imported, 24 already there" in again.stdout and "evaluators" not in again.output
    assert "skipped: scores.csv holds scores of an evaluator" in again.stderr
    assert "skipped: agreement-card.json" in again.stderr
    assert "Next: accord import chats.jsonl" in (said := printed("init", "--rubric", "narrow-questions"))
    assert "rubric: narrow-questions" in said and "scores" not in said
    assert accord_json("run", ".", "--out", "out", *QUICK, *NAMED)["imported"]["labels"]["new"] == 24
    assert accord_json("run", ".", "--out", "out", *QUICK, *NAMED)["imported"]["labels"] == {"new": 0, "known": 24}


def test_run_names_the_project_file_it_uses_and_labels_that_its_rubric_does_not_ask(folder: Path) -> None:
    rated_chats()
    printed("init")
    errors = invoke("run", "data", "--out", "out", *QUICK, *NAMED, code=None).stderr
    assert "settings and rubric of accord.yaml" in errors
    assert "no label answers 'Q0', the main question of the rubric 'llm-rubric'; the labels answer rating" in errors
