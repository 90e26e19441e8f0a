"""Who rated: people and judges by the columns of a file, spellings of one name, and repeated ratings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from commands import accord, accord_json, invoke, refused, write
from rating_shapes import SHAPES, Shape, is_right, read_shape
from special_files import make_link

from accord import open as open_project
from accord.project import remove_judgements
from accord.project.importing.raters import raters_text
from accord.store import Store
from accord.values import Conversation, Label, Target, Turn, text_hash

QUICK = ["--set", "draws=20", "--set", "metrics=[words]", "--set", "folds=2", "--set", "evaluators.default.head=mixed"]
NAMED = ["--evaluator", "default"]
FEW = SHAPES[:5]
"""Shapes that show that the benchmark counts."""


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_files_of_each_shape_are_read_as_people_or_as_judges(shape: Shape, tmp_path: Path) -> None:
    found = read_shape(shape, tmp_path)
    assert is_right(shape, found), found


def test_wrong_readings_are_counted(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("who_rated")
    monkeypatch.setattr(module, "SHAPES", FEW)
    [row] = module.who_rated_rows()
    assert (row["shapes"], row["wrong"]) == (len(FEW), 0), row["names"]
    monkeypatch.setattr(module, "is_right", lambda shape, found: shape is not FEW[1])
    [row] = module.who_rated_rows()
    assert (row["wrong"], row["names"]) == (1, FEW[1].name)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder with 24 conversations in `chats.csv`."""
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"c{i},What is item {i}?,It is item {i} of {'many ' * (i % 5)}\n" for i in range(24))
    write("chats.csv", "id,prompt,response\n" + rows)
    return tmp_path


def people(name: str = "labels.csv", who: tuple[str, ...] = ("nora", "ben"), **ratings: Any) -> str:
    """Write ratings of all conversations by each person."""
    rows = "".join(f"c{i},{by},{(i + k) % 5 + 1}\n" for i in range(24) for k, by in enumerate(who))
    return write(name, "id,annotator,rating\n" + rows)


def judged(header: str = "id,judge_score", name: str = "judge.csv", more: str = "") -> str:
    """Write a judge's scores of all conversations."""
    return write(name, header + "\n" + "".join(f"c{i},{more}{i % 5 + 1}\n" for i in range(24)))


def rated() -> dict[str, list[Any]]:
    """The values of the labels in the store, by person."""
    with open_project() as opened:
        found: dict[str, list[Any]] = {}
        for label in opened.store.labels():
            found.setdefault(label.annotator, []).append(label.value)
        return found


# --- one line about who rated -------------------------------------------------------------------------------------


def test_init_import_compare_and_run_say_who_rated(folder: Path) -> None:
    sources = [people(), judged("id,judge_model,score", more="gpt-judge,")]
    output = accord("init", "--from", *sources)
    assert "rated by: nora 24, ben 24; judge gpt-judge 24\n" in output
    output = accord("import", "chats.csv", *sources)
    assert "rated by: nora 24, ben 24; judge gpt-judge 24\n" in output
    assert "recorded judgements of gpt-judge are the judge now" in output
    result = accord_json("import", "chats.csv", *sources)
    assert (result["raters"], result["judges"]) == ({"nora": 24, "ben": 24}, {"gpt-judge": 24})
    settings = yaml.safe_load(Path("accord.yaml").read_text(encoding="utf-8"))["models"]["judge"]
    assert settings["mode"] == "recorded"
    rows = [json.loads(line) for line in Path(settings["paths"][0]).read_text(encoding="utf-8").splitlines()]
    assert rows[0] == {"item_id": "c0", "question": "rating", "judge_model": "gpt-judge", "value": 1}
    output = accord("compare", "--jobs", "1", *QUICK, "--only", "default")
    assert "rated by: nora 24, ben 24; judge gpt-judge 24" in output
    with open_project() as opened:
        assert opened.raters_text() == "nora 24, ben 24; judge gpt-judge 24"
    output = accord(
        "run", "chats.csv", *sources, "--out", "run", "--rubric", "rubric.yaml", "--details", *QUICK, *NAMED
    )
    assert "rated by: nora 24, ben 24; judge gpt-judge 24" in output
    assert "gpt-judge: Rating" in output, "its agreement with people is part of the run"


def test_long_lists_are_shortened() -> None:
    text = raters_text({f"p{i}": 20 - i for i in range(18)}, {})
    assert text == "p0 20, p1 19, p2 18, p3 17, p4 16, p5 15, … and 12 more"


def test_judges_alone_are_no_ratings_of_people(folder: Path) -> None:
    accord("init")
    output = accord("import", "chats.csv", judged("id,model,rating", more="m1,"))
    assert "0 labels imported" in output and "rated by: no people; judge m1 24" in output and rated() == {}
    assert "no labels to make a rubric from" in refused("init", "--from", "judge.csv")


def test_the_main_question_is_never_a_judge(folder: Path) -> None:
    labels = write(
        "l.csv", "id,annotator,tone,judge_overall\n" + "".join(f"c{i},nora,{i % 3},{i % 5}\n" for i in range(24))
    )
    assert accord_json("init", "--from", labels)["main"] == "tone"
    assert "unknown question 'judge_overall'" in refused("init", "--from", labels, "--main", "judge_overall")


# --- a question instead of a guess --------------------------------------------------------------------------------


@pytest.mark.attack
@pytest.mark.parametrize("command", [("import",), ("init", "--from"), ("run", "--out", "run")])
def test_scores_without_a_rater_are_refused_with_both_commands_before_anything_is_stored(
    folder: Path, command: tuple[str, ...]
) -> None:
    accord("init")
    name, *options = command
    scores = judged("id,score", "s.csv")
    message = refused(name, *options, scores, *([] if name == "init" else ["chats.csv"]))
    assert "column 'score'" in message and "--rater score" in message and "--judge score" in message
    assert not Path("accord.db").exists() or rated() == {}
    accepted = message[message.index("If a model did: accord ") + len("If a model did: accord ") :].split()
    assert accepted[0] == name and accepted[-2:] == ["--judge", "score"]


def test_the_printed_commands_read_the_scores_as_people_or_as_a_judge(folder: Path) -> None:
    accord("init")
    message = refused("import", "chats.csv", judged("id,score", "s.csv"))
    first, second = (part.strip(" .") for part in message.split("If people gave them: ")[1].split("If a model did:"))
    assert first == "accord import chats.csv s.csv --rater score" and second.endswith("chats.csv s.csv --judge score")
    assert "rated by: no people; judge judge 24" in accord(*second.split()[1:])
    assert rated() == {}
    assert "rated by: unnamed 24" in accord(*first.split()[1:])
    assert set(rated()) == {"unnamed"}


def test_options_name_the_person_and_the_judge(folder: Path) -> None:
    accord("init")
    both = write("s.csv", "id,score,grade\n" + "".join(f"c{i},{i % 5},{i % 4}\n" for i in range(24)))
    output = accord("import", "chats.csv", both, "--rater", "grade=Nora Meyer", "--judge", "score=GPT judge")
    assert "rated by: Nora Meyer 24; judge GPT judge 24" in output
    assert "no file has a column 'scor'" in refused("import", "chats.csv", both, "--judge", "scor", "--rater", "grade")


def judge_paths() -> list[str]:
    """Files of the recorded judge that accord.yaml names."""
    models = yaml.safe_load(Path("accord.yaml").read_text(encoding="utf-8")).get("models") or {}
    return list(models["judge"]["paths"]) if "judge" in models else []


@pytest.mark.parametrize(
    "block",
    ["", "# mine\nmodels:\n  judge:\n    mode: recorded\n    paths:\n      - FIRST  # kept\n  scorer: {model: m}\n"],
)
def test_a_second_file_is_added_to_the_recorded_judge(folder: Path, block: str) -> None:
    accord("init")
    accord("import", "chats.csv", judged())
    [first] = judge_paths()
    if block:
        write("accord.yaml", block.replace("FIRST", first))
    output = accord("import", judged("id,llm_score", "second.csv"))
    assert "recorded judgements of llm are added to the judge in" in output
    assert judge_paths()[0] == first and len(judge_paths()) == 2
    assert (
        not block
        or "scorer: {model: m}" in Path("accord.yaml").read_text(encoding="utf-8")
        and "# mine" in Path("accord.yaml").read_text(encoding="utf-8")
    )
    with open_project() as project:
        assert sorted(project.recordings) == ["judge", "llm"]
    assert "are the judge in" in accord("import", "second.csv") and len(judge_paths()) == 2


def test_a_judge_of_another_mode_stays(folder: Path) -> None:
    accord("init")
    text = "models:\n  judge: {model: gpt-x, base_url: 'http://localhost:1/v1'}\n"
    write("accord.yaml", text)
    output = accord("import", "chats.csv", judged())
    assert "names another judge" in output and Path("accord.yaml").read_text(encoding="utf-8") == text


def test_undo_removes_the_judgements_that_the_import_wrote(folder: Path) -> None:
    accord("init")
    before = Path("accord.yaml").read_text(encoding="utf-8")
    accord("import", "chats.csv", people(), judged())
    accord("import", judged("id,llm_score", "second.csv"))
    first, second = judge_paths()
    output = accord("import", "--undo")
    assert f"{second} removed" in output and not Path(second).exists() and judge_paths() == [first]
    assert f"{first} removed" in accord("import", "--undo") and not Path(first).exists()
    assert (
        yaml.safe_load(Path("accord.yaml").read_text(encoding="utf-8")).get("models") in (None, {})
        and judge_paths() == []
    )
    assert set(yaml.safe_load(before)) >= set(yaml.safe_load(Path("accord.yaml").read_text(encoding="utf-8"))) - {
        "models"
    }


def test_undo_keeps_judgements_that_were_changed_or_that_another_import_has(folder: Path) -> None:
    accord("init")
    accord("import", "chats.csv", judged())
    [path] = judge_paths()
    own = write("judgments/mine.jsonl", "{}\n")
    accord("import", "judge.csv")
    assert "removed" not in accord("import", "--undo").partition("labels removed")[2] and judge_paths() == [path]
    with Path(path).open("a", encoding="utf-8") as file:
        file.write("\n")
    output = accord("import", "--undo")
    assert f"{path} stays: it was changed after the import" in output and Path(path).exists() and Path(own).exists()
    assert judge_paths() == [path]


@pytest.mark.attack
@pytest.mark.parametrize(
    "name", ["../victim.jsonl", "/victim.jsonl", "judgments/../victim.jsonl", "judgments/link.jsonl"]
)
def test_undo_removes_no_file_outside_the_folder_of_judgements(folder: Path, name: str) -> None:
    work = folder / "work"
    (work / "judgments").mkdir(parents=True)
    for victim in (folder / "victim.jsonl", work / "victim.jsonl"):
        victim.write_text("{}\n", encoding="utf-8")
    make_link(work / "judgments" / "link.jsonl", folder / "victim.jsonl")
    path = f"{folder}{name}" if name.startswith("/") else str(work / name)
    assert remove_judgements({path: text_hash("{}\n")}, work / "accord.yaml") == []
    assert (folder / "victim.jsonl").exists() and (work / "victim.jsonl").exists()


def test_a_judges_values_off_the_scale_are_refused_row_by_row(folder: Path) -> None:
    accord("init", "--from", people())
    judge = judged()
    with Path(judge).open("a", encoding="utf-8") as file:
        file.write("c3,77\n")
    message = refused("import", "chats.csv", judge)
    assert "judge.csv, line 26: judge 'judge' on c3, question 'rating': got 77, allowed: 1, 2, 3, 4, 5" in message
    output = accord("import", "chats.csv", judge, "--skip-bad-rows")
    assert "1 bad row skipped" in output and "judge judge 24" in output


@pytest.mark.parametrize("value", ["value", "score", "rating"])
def test_recorded_judgements_name_their_value_in_any_usual_way(folder: Path, value: str) -> None:
    accord("init", "--from", people())
    rows = [{"item_id": f"c{i}", "question": "rating", "judge_model": "m", value: i % 5 + 1} for i in range(24)]
    write("j.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert "rated by: nora 24, ben 24; judge m 24" in accord("import", "chats.csv", "labels.csv", "j.jsonl")
    with open_project() as opened:
        assert len(opened.recordings["m"].answered("rating")) == 24


def test_a_judges_scores_of_turns_are_found_for_rated_turns(folder: Path) -> None:
    turns = [{"role": role, "content": text} for role, text in (("user", "a"), ("assistant", "b")) * 2]
    write("t.jsonl", "".join(json.dumps({"id": f"t{i}", "messages": turns}) + "\n" for i in range(6)))
    write(
        "l.csv",
        "id,turn,annotator,rating\n" + "".join(f"t{i},{t},nora,{i % 4 + 1}\n" for i in range(6) for t in (1, 3)),
    )
    write("j.csv", "id,turn,judge_score\n" + "".join(f"t{i},{t},{i % 4 + 1}\n" for i in range(6) for t in (1, 3)))
    accord("init", "--from", "l.csv")
    accord("import", "t.jsonl", "l.csv", "j.csv")
    with open_project() as opened:
        items = opened.recordings["judge"].answered("rating")
    assert items == {name for i in range(6) for name in (f"t{i}", f"t{i}#1")}


# --- spellings and repeats ----------------------------------------------------------------------------------------


@pytest.mark.attack
def test_spellings_of_one_name_are_one_person_in_this_import_and_in_later_ones(folder: Path) -> None:
    accord("init", "--from", people(who=("Nora Meyer",)))
    accord("import", "chats.csv", "labels.csv")
    spellings = ("nora meyer", " Nora  Meyer ", "NORA\u00a0MEYER", "\uff2eora Meyer", "Nora\u200b Meyer")
    rows = "".join(f"c{i},{spellings[i % 5]},rating,{(i + 1) % 5 + 1}\n" for i in range(24))
    output = accord("import", write("later.csv", "id,annotator,question,value\n" + rows))
    assert "rated by: Nora Meyer 24" in output
    assert "spellings of one name are one person: 'Nora Meyer': 'nora meyer'" in output
    assert set(rated()) == {"Nora Meyer"} and len(rated()["Nora Meyer"]) == 24


def test_spellings_beside_the_text_are_one_person(folder: Path) -> None:
    rows = [
        {"id": f"x{i}", "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
         "ratings": [{"annotator": ("Ann", "ANN ")[i % 2], "rating": i % 5 + 1}]}
        for i in range(10)
    ]  # fmt: skip
    accord("init", "--from", write("x.jsonl", "".join(json.dumps(row) + "\n" for row in rows)))
    result = accord_json("import", "x.jsonl")
    assert result["raters"] == {"Ann": 10} and result["joined_raters"] == {"Ann": ["ANN "]}
    assert {name: len(values) for name, values in rated().items()} == {"Ann": 10}
    assert accord_json("import", "x.jsonl")["labels"] == {"new": 0, "known": 10}


def test_the_last_of_repeated_ratings_counts_and_the_first_is_named(folder: Path) -> None:
    accord("init", "--from", people(who=("nora",)))
    with Path("labels.csv").open("a", encoding="utf-8") as file:
        file.write("c0,nora,5\nc0,NORA,4\n")
    output = accord("import", "chats.csv", "labels.csv")
    assert "2 ratings repeat an earlier one by the same person; the last counts" in output
    assert "labels.csv, line 26: nora on c0, question 'rating'" in output and "rated by: nora 24" in output
    assert rated()["nora"][-1] == 4 and len(rated()["nora"]) == 24
    with open_project() as opened:
        assert len(list(opened.store.annotations(["person"]))) == 26, "all are kept"


def test_the_latest_time_counts_in_any_order(folder: Path) -> None:
    accord("init", "--from", people(who=("nora",)))
    rows = "c0,nora,5,2026-03-02T10:00:00\nc0,nora,2,2026-03-01T10:00:00Z\nc1,nora,3,2026-03-01\n"
    accord("import", "chats.csv", write("timed.csv", "id,annotator,rating,time\n" + rows))
    assert sorted(rated()["nora"]) == [3, 5]


def test_the_same_labels_with_and_without_times_count_once(folder: Path) -> None:
    accord("init", "--from", people(who=("nora",)))
    rows = "".join(f"c{i},nora,{i % 5 + 1},2026-01-0{i % 9 + 1}\n" for i in range(24))
    accord("import", "chats.csv", "labels.csv")
    accord("import", write("timed.csv", "id,annotator,rating,time\n" + rows))
    accord("import", "labels.csv", "timed.csv")
    assert {name: len(values) for name, values in rated().items()} == {"nora": 24}


def test_ratings_without_a_name_may_be_by_several_people() -> None:
    store = Store("sqlite:///:memory:")
    store.add_conversations([Conversation("a", (Turn("user", "x"), Turn("assistant", "y")))])
    store.add_labels(Label(Target("a"), "Q0", name, value) for name in ("unnamed", "ann") for value in (1, 2))
    assert [(label.annotator, label.value) for label in store.labels()] == [("unnamed", 1), ("unnamed", 2), ("ann", 2)]
    store.close()


def test_deliberate_repeats_of_a_data_set_all_count(folder: Path) -> None:
    ratings = [{"annotator": "ann", "question": "Q0", "value": value} for value in (1, 2, 2)]
    row = {"id": "b", "level": "dialogue", "messages": [{"role": "user", "content": "x"}], "ratings": ratings}
    accord("init")
    write("items.jsonl", json.dumps(row) + "\n")
    assert accord_json("import", "items.jsonl")["repeated"]["count"] == 0 and rated() == {"ann": [1, 2, 2]}
    accord("export", "all.csv")
    Path("accord.db").unlink()
    accord("import", "items.jsonl", "all.csv")
    assert rated() == {"ann": [1, 2, 2]}


def test_plain_files_of_people_ask_nothing(folder: Path) -> None:
    accord("init", "--from", people())
    result = invoke("import", "chats.csv", "labels.csv")
    assert "rated by: nora 24, ben 24\n" in result.output and "--judge" not in result.output
