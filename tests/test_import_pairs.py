"""Imports of tables of pairwise preferences: two conversations per row, and a comparison for each person."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from commands import accord, accord_json, refused, write_rows

from accord import read
from accord.edges import BadInput
from accord.formats import MemoryTable, Row, check_pair_file, on_comparison
from accord.values import Label, Question, Rubric, Scale, Target

ROW = {
    "question_id": 7, "prompt": "Where is it?", "model_a": "v1", "model_b": "v2", "response_a": "On its way to you.",
    "response_b": "No idea.", "winner": "model_a",
}  # fmt: skip


def records(*rows: dict[str, Any]) -> list[Any]:
    return list(read(MemoryTable(list(rows))))


def comparisons(*rows: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(label.annotator, label.value) for record in records(*rows) for label in record.labels]


def test_a_row_is_two_conversations_and_a_comparison() -> None:
    first, second = records({**ROW, "language": "en"})
    assert [turn.content for turn in first.conversation.turns] == ["Where is it?", "On its way to you."]
    assert second.conversation.metadata == {"question_id": 7, "language": "en", "system": "v2"}
    assert first.conversation.id.startswith("7-v1-") and not second.labels
    [label] = first.labels
    assert (label.value, label.against) == (1, Target(second.conversation.id))


def test_rows_share_conversations() -> None:
    turned = {**ROW, "model_a": "v2", "model_b": "v1", "response_a": "No idea.", "response_b": "On its way to you."}
    assert [len(record.labels) for record in records(ROW, ROW | {"winner": "tie"}, turned)] == [2, 1]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ({"winner": "tie (bothbad)"}, [("unnamed", 0)]),
        ({"winner": "v2"}, [("unnamed", -1)]),
        ({"winner": None, "human_winner": "a"}, [("unnamed", 1)]),
        ({"winner": "a", "judge_winner": "b"}, [("unnamed", 1)]),
        ({"winner": "a", "expert_preference": "b"}, [("expert_preference", -1)]),
        ({"winner": "b", "annotator": "nora"}, [("nora", -1)]),
        ({"winner": "b", "judge": "gpt4_pair"}, []),
        ({"winner": "b", "judge": "expert_3"}, [("expert_3", -1)]),
        ({"winner": None}, []),
    ],
)
def test_preferences_of_people_are_comparisons(cells: dict[str, Any], expected: list[tuple[str, Any]]) -> None:
    assert comparisons({**ROW, **cells}) == expected


def chat(*texts: str) -> list[dict[str, str]]:
    return [{"role": ("user", "assistant")[place % 2], "content": text} for place, text in enumerate(texts)]


def test_messages_with_a_turn_are_compared_at_its_reply() -> None:
    row = {"question_id": 1, "model_a": "x", "model_b": "y", "winner": "model_b", "judge": "expert_1", "turn": 2,
           "conversation_a": chat("Hi", "Hello", "Bye", "See you"),
           "conversation_b": json.dumps(chat("Hi", "Yes?", "Bye", "Bye"))}  # fmt: skip
    first, second = records(row)
    [label] = first.labels
    assert (label.target.turn, label.against) == (3, Target(second.conversation.id, 3))
    assert len(second.conversation.turns) == 4


def test_lists_of_prompts_and_replies_alternate() -> None:
    row = {"id": 1, "model_a": "x", "model_b": "y", "prompt": '["Hi","Bye"]', "response_a": '["Hello","See you"]',
           "response_b": '["Yes?","Bye"]', "winner": "tie"}  # fmt: skip
    assert [turn.content for turn in records(row)[0].conversation.turns] == ["Hi", "Hello", "Bye", "See you"]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"model_b": "v1"}, "compares version 'v1' with itself; correct 'model_a' or 'model_b'"),
        ({"winner": "blue"}, "column 'winner': 'blue' is not a preference; allowed: a, b or tie"),
        ({"response_b": None}, "'response_b' is empty; a pair needs both sides"),
    ],
)
def test_bad_pairs_are_refused_with_their_line(cells: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput) as error:
        records(ROW, {**ROW, **cells})
    assert message in str(error.value) and "2" in str(error.value)


@pytest.mark.parametrize(("options", "values"), [((0, 1, 2), [2, 1, 0]), ((-1, 0, 1), [1, 0, -1])])
def test_preferences_are_on_the_scale_of_the_rubrics_comparison(options: tuple[int, ...], values: list[int]) -> None:
    better = Question(id="better", text="Better?", scale=Scale(options=options), applies="pairs")
    rubric = Rubric(name="r", main="better", questions=(better,))
    labels = [Label(Target("a"), "preference", "ann", value, against=Target("b")) for value in (1, 0, -1)]
    assert [on_comparison(label, rubric).value for label in labels] == values
    assert on_comparison(labels[0], rubric).question == "better"


def test_project_learns_its_question_from_pairs_and_stores_nothing_of_a_bad_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{**ROW, "question_id": place, "judge_winner": "b", "winner": "ab"[place % 2]} for place in range(6)]
    name = write_rows("pairs.jsonl", rows)
    accord("init", "--from", name)
    [question] = yaml.safe_load(Path("rubric.yaml").read_text(encoding="utf-8"))["questions"]
    assert (question["id"], question["applies"], question["options"]) == ("preference", "pairs", {
        -1: "the second", 0: "neither", 1: "the first",
    })  # fmt: skip
    write_rows("bad.jsonl", [*rows, {**ROW, "model_b": "v1"}])
    assert "bad.jsonl, line 7: compares version 'v1' with itself" in refused("import", "bad.jsonl")
    found = accord_json("import", name)
    assert (found["conversations"]["new"], found["labels"]["new"]) == (12, 6)
    assert list(found["ignored"]) == [
        "preferences of judge_winner: recorded judgements are about one conversation; compare these with people's by "
        "accord check"
    ]


@pytest.mark.parametrize(
    ("columns", "judges", "message"),
    [
        ({"winner": [0, 1]}, [], "0 and 1 can mean a tie and the first side"),
        ({"winner": ["a", "b"], "preferred": ["b", "b"]}, [], "Rename the judge's column to judge_winner"),
        ({"winner": ["a", "b"]}, ["winner"], "Rename the judge's column to judge_winner"),
    ],
)
def test_unclear_columns_of_a_file_are_refused(columns: dict[str, Any], judges: list[str], message: str) -> None:
    base = {name: cell for name, cell in ROW.items() if name != "winner"}
    rows = [Row(place, base | {name: cells[place] for name, cells in columns.items()}) for place in range(2)]
    with pytest.raises(BadInput, match=message):
        check_pair_file(rows, judges, "pairs.csv")
