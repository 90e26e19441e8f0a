"""Rubrics: what ships, what is refused and how it is said, when a question applies."""

from __future__ import annotations

from pathlib import Path

import pytest

from accord import Conversation, Document, Label, Rubric, Scale, Target, Turn, load_rubric
from accord.values import BadInput, UnknownName, check_label, dump_rubric, read_rubric

QUESTION = {"id": "good", "text": "Good?", "options": [1, 2, 3]}


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "rubric.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_shipped_rubric_is_the_papers_nine_questions(rubric: Rubric) -> None:
    assert [question.id for question in rubric.questions] == [*(f"Q{i}" for i in range(1, 9)), "Q0"]
    assert rubric.main == "Q0"
    assert {question.id for question in rubric.questions if question.applies == "with-documents"} == {
        "Q2",
        "Q3",
        "Q4",
        "Q5",
    }
    assert [len(question.scale.options) for question in rubric.questions] == [4] * 7 + [3, 4]
    assert all(set(q.meanings) == set(map(str, q.scale.options)) for q in rubric.questions if q.id != "Q0")


def test_yaml_out_and_in_is_the_same_rubric(rubric: Rubric, tmp_path: Path) -> None:
    copy = load_rubric(written(tmp_path, dump_rubric(rubric)))
    assert copy == rubric and copy.hash == rubric.hash


def test_scales_of_every_kind_in_one_rubric(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
name: mixed
main: overall
questions:
  - {id: overall, text: 'Overall?', options: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]}
  - {id: tone, text: 'Which tone?', scale: nominal, options: [warm, neutral, cold]}
  - {id: resolved, text: 'Resolved?', scale: binary, options: {0: no, 1: yes}, applies: multi-turn}
  - {id: length, text: 'How long?', scale: real, low: 0, high: 1}
""",
    )
    found = load_rubric(path)
    assert len(found["overall"].scale.options) == 10
    assert found["tone"].scale.holds("warm") and not found["tone"].scale.holds("hot")
    assert found["resolved"].meanings == {"0": "no", "1": "yes"}, "yes and no are words here"
    assert found["length"].scale.holds(0.5) and not found["length"].scale.holds(1.5)
    assert load_rubric(written(tmp_path, dump_rubric(found))) == found


def test_the_hash_follows_the_content_and_not_the_name(rubric: Rubric) -> None:
    renamed = rubric.model_copy(update={"name": "other"})
    assert renamed.hash == rubric.hash
    reworded = read_rubric({"name": "a", "main": "good", "questions": [QUESTION]}, "x")
    assert reworded.hash != rubric.hash


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"name": "x", "main": "good", "questions": [{**QUESTION, "options": [1]}]}, "2 to 101 options, got 1"),
        ({"name": "x", "main": "good", "questions": [{**QUESTION, "options": list(range(102))}]}, "2 to 101 options, got 102"),
        ({"name": "x", "main": "bad", "questions": [QUESTION]}, "main question 'bad' is none of good"),
        ({"name": "x", "main": "good", "questions": [QUESTION, QUESTION]}, "two questions are called 'good'"),
        ({"name": "x", "main": "good", "questions": [{**QUESTION, "optoins": 1}]}, "unknown key 'optoins'. Did you mean 'options'"),
        ({"name": "x", "main": "good", "question": [QUESTION]}, "unknown key 'question'. Did you mean 'questions'"),
        ({"name": "x", "main": "good", "questions": [{**QUESTION, "options": ["a", "b"]}]}, "'a' of an ordered scale is no number"),
        ({"name": "x", "main": "good", "questions": [{**QUESTION, "options": [2, 1]}]}, "rising order"),
        ({"name": "x", "main": "good", "questions": [{**QUESTION, "applies": "sometimes"}]}, "applies"),
        ({"name": "x", "main": "good", "questions": []}, "questions"),
        ([], "x.yaml"),
    ],
)  # fmt: skip
def test_a_wrong_rubric_is_one_clear_line(content: object, reason: str) -> None:
    with pytest.raises(BadInput, match=r"x\.yaml") as caught:
        read_rubric(content, "x.yaml")
    assert reason in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [("", "is empty"), ("name: [", "is no YAML"), ("name: a\nname: b\n", "'name' is given twice")],
)
def test_a_file_that_is_no_rubric(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        load_rubric(written(tmp_path, text))


def test_unknown_rubrics_and_questions_are_met_with_a_guess(rubric: Rubric) -> None:
    with pytest.raises(UnknownName, match="Did you mean 'llm-rubric'"):
        load_rubric("llm-rubirc")
    with pytest.raises(BadInput, match="No such file"):
        load_rubric("nowhere.yaml")
    with pytest.raises(UnknownName, match="unknown question 'Q9'"):
        rubric["Q9"]


def test_when_a_question_applies(rubric: Rubric) -> None:
    turns = (Turn("user", "a"), Turn("assistant", "b"))
    bare, backed = Conversation("c", turns), Conversation("c", turns, (Document("d"),))
    assert not rubric["Q2"].applies_to(bare) and rubric["Q2"].applies_to(backed)
    assert rubric["Q0"].applies_to(bare)
    assert rubric["Q2"].applies_to(Conversation("c", ())), "without its texts a log decides nothing"


def test_labels_are_checked_against_the_scale_of_their_question(rubric: Rubric) -> None:
    check_label(Label(Target("c"), "Q8", "ann", 3), rubric)
    check_label(Label(Target("c"), "elsewhere", "ann", 99), rubric)
    check_label(Label(Target("c"), "Q8", "ann", None), rubric)
    with pytest.raises(BadInput, match="question 'Q8': got 4, allowed: 1, 2, 3"):
        check_label(Label(Target("c"), "Q8", "ann", 4), rubric)


def test_a_scale_reads_its_own_options() -> None:
    scale = Scale(options=(1, 2))
    assert scale.parse(" 2 ") == 2 and scale.parse("2.0") is None and str(scale) == "1, 2"
