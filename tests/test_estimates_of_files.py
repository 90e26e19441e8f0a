"""`accord estimate` with scores of conversations outside the store, as `accord score new.jsonl` makes them."""

from __future__ import annotations

import json
import random
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from commands import accord_json, printed, refused, write, write_rows

pytestmark = pytest.mark.usefixtures("working_folder")
SETTINGS = "rubric: rubric.yaml\nmetrics: [words]\nfolds: 3\nevaluators: {default: {head: mixed}}\n"


def chat(place: int, prefix: str, system: str | None = None) -> dict[str, Any]:
    system = system or f"s{place % 2}"
    words = 4 * (place % 5) + 1 + (3 if system == "s1" else 0)
    turns = [{"role": "user", "content": f"{prefix} {place}"}, {"role": "assistant", "content": "word " * words}]
    return {"id": f"{prefix}{place}", "system": system, "messages": turns}


@pytest.fixture(scope="module")
def fitted_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fitted")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        fit_noisy_labels()
    return folder


@pytest.fixture
def fitted(fitted_once: Path, working_folder: Path) -> None:
    """A copy of a project with an evaluator."""
    shutil.copytree(fitted_once, working_folder, dirs_exist_ok=True)


def fit_noisy_labels() -> None:
    """Make a project with an evaluator of 120 noisy labels that rise with the length of the reply."""
    noise = random.Random(3)
    write("accord.yaml", SETTINGS)
    write("rubric.yaml", "name: r\nmain: good\nquestions:\n- {id: good, text: Good, options: [1, 2, 3, 4, 5]}\n")
    write_rows("chats.jsonl", (chat(n, "c") for n in range(60)))
    rows = [
        f"c{n},{who},{min(max(1 + n % 5 + noise.choice((-1, 0, 0, 1)), 1), 5)}"
        for n in range(60)
        for who in ("ann", "ben")
    ]
    printed("import", "chats.jsonl", write("labels.csv", "\n".join(["conversation,annotator,good", *rows]) + "\n"))
    printed("fit")


def test_scores_of_a_file_are_part_of_the_population(fitted: None) -> None:
    before = accord_json("estimate")
    assert before["from_files"] == 0 and before["scores"] == 60
    write_rows("new.jsonl", (chat(n, "n") for n in range(300)))
    printed("score", "new.jsonl", "--out", "scores.jsonl")
    scored = accord_json("estimate")
    assert scored["from_files"] == 300 and scored["scores"] == 360
    assert [row["scored"] for row in scored["systems"]] == [180, 180]
    text = printed("estimate")
    assert "scores: 60 conversations, predicted by default from evidence in the store" in text
    assert "and 300 outside the store, which it scored in files" in text
    printed("import", "new.jsonl")
    stored = accord_json("estimate")
    assert stored["from_files"] == 0 and stored["scores"] == 360, "a conversation counts once"
    for earlier, plain, same in zip(before["systems"], scored["systems"], stored["systems"], strict=True):
        assert plain["mean"] == pytest.approx(same["mean"], abs=0.05)
        assert plain["high"] - plain["low"] < earlier["high"] - earlier["low"]


def test_scores_of_others_do_not_count(fitted: None) -> None:
    write_rows("new.jsonl", (chat(n, "n", "unlabeled") for n in range(20)))
    printed("score", "new.jsonl", "--out", "scores.jsonl")
    write_rows("same.jsonl", (chat(n, "c") for n in range(20)))
    printed("score", "same.jsonl", "--out", "same_scores.jsonl")
    write_rows("more.jsonl", (chat(n, "m") for n in range(20)))
    printed("score", "more.jsonl", "--out", "ann.jsonl", "--annotator", "ann")
    printed("fit", "constant", "--out", "other")
    printed("score", "more.jsonl", "--out", "other.jsonl", "--evaluator", "other")
    printed("fit", "default")
    found = accord_json("estimate")
    assert found["from_files"] == 0, "another system, training conversations, one annotator, another evaluator"
    assert [row["system"] for row in found["systems"]] == ["s0", "s1"]


def test_files_of_another_machine_are_given_by_name(
    fitted: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scores file whose run this store does not know: as if `accord score` had run elsewhere."""
    before = accord_json("estimate")
    write_rows("new.jsonl", (chat(n, "n", "s0") for n in range(200)))
    here = Path.cwd()
    there = tmp_path.with_name(f"{tmp_path.name}-elsewhere")
    shutil.copytree(here, there)
    monkeypatch.chdir(there)
    printed("score", "new.jsonl", "--out", str(here / "far.jsonl"))
    monkeypatch.chdir(here)
    assert "names no assistant version" in refused("estimate", "--scores", "far.jsonl")
    found = accord_json("estimate", "--scores", "far.jsonl=s0", "--scores", "far.jsonl=s0", "--difference", "0.5")
    assert (found["from_files"], found["scores"]) == (200, before["scores"] + 200), "each conversation counts once"
    narrow, wide = (rows["systems"][0]["high"] - rows["systems"][0]["low"] for rows in (found, before))
    assert narrow < wide and found["narrowest"] in found["widths"]
    text = Path("far.jsonl").read_text(encoding="utf-8")
    Path("far.jsonl").write_text(re.sub(r"\|version:[\d.]+", "|version:0.2.0", text), encoding="utf-8")
    earlier = accord_json("estimate", "--scores", "far.jsonl=s0", "--difference", "0.5")
    assert earlier["systems"] == found["systems"], "an earlier version of Accord scored the file"
    [plan] = found["plans"]
    assert plan["asked"] == 0.5 and 0 < plan["fewest"] <= plan["needed_alone"]
    text = printed("estimate", "--scores", "far.jsonl=s0")
    assert "narrowest here: " in text and "labels show a difference of" in text


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"value": 9.5}, "is not on the scale, 1 to 5"),
        ({"value": 2.0, "signature": "x|question:other"}, "scores the question 'other'"),
        ({"value": 2.0, "signature": "x|question:good"}, "was scored by another evaluator"),
        ({"value": 2.0, "signature": None}, "has no score of a conversation"),
        ({"value": 2.0, "in_training": True}, "has no score of a conversation"),
    ],
)
def test_other_scores_are_refused(fitted: None, row: dict[str, Any], message: str) -> None:
    write_rows("new.jsonl", [chat(0, "n", "s0")])
    printed("score", "new.jsonl", "--out", "scores.jsonl")
    [scored] = [json.loads(line) for line in Path("scores.jsonl").read_text(encoding="utf-8").splitlines()]
    if row.get("signature", "") is None:
        row = {"annotator": "ann"}
    write_rows("odd.jsonl", [{**scored, "conversation": "odd", **row}])
    assert message in refused("estimate", "--scores", "odd.jsonl=s0")
    assert "no file none.jsonl" in refused("estimate", "--scores", "none.jsonl")
    assert "allowed are numbers above 0" in refused("estimate", "--difference", "0")
