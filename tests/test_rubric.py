"""Rubrics: shipped rubrics, errors of invalid ones, and rules for when a question applies."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from special_files import make_link, make_pipe, make_socket

from accord import Conversation, Document, Label, Rubric, Scale, Target, Turn, load_rubric
from accord.edges import CARD_BYTES, BadInput, UnknownName, load_yaml, read_json_file, regular_size
from accord.values import check_label, dump_rubric, read_rubric

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


def test_a_rubric_round_trips_through_yaml(rubric: Rubric, tmp_path: Path) -> None:
    copy = load_rubric(written(tmp_path, dump_rubric(rubric)))
    assert copy == rubric and copy.hash == rubric.hash


def test_a_rubric_may_have_all_kinds_of_scales(tmp_path: Path) -> None:
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
    result = load_rubric(path)
    assert len(result["overall"].scale.options) == 10
    assert result["tone"].scale.holds("warm") and not result["tone"].scale.holds("hot")
    assert result["resolved"].meanings == {"0": "no", "1": "yes"}, "yes and no are words here"
    assert result["length"].scale.holds(0.5) and not result["length"].scale.holds(1.5)
    assert load_rubric(written(tmp_path, dump_rubric(result))) == result


def test_the_hash_depends_on_content_not_on_the_name(rubric: Rubric) -> None:
    renamed = rubric.model_copy(update={"name": "other"})
    assert renamed.hash == rubric.hash
    reworded = read_rubric({"name": "a", "main": "good", "questions": [QUESTION]}, "x")
    assert reworded.hash != rubric.hash


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"name": "x", "main": "good", "questions": [{**QUESTION, "options": [1]}]}, "2 to 101 options, got 1"),
        ({"name": "x", "main": "good", "questions": [{**QUESTION, "options": list(range(102))}]}, "2 to 101 options, got 102"),
        ({"name": "x", "main": "bad", "questions": [QUESTION]}, "main question 'bad' is not one of good"),
        ({"name": "x", "main": "good", "questions": [QUESTION, QUESTION]}, "two questions have the id 'good'"),
        ({"name": "x", "main": "good", "questions": [{**QUESTION, "optoins": 1}]}, "unknown key 'optoins'. Did you mean 'options'"),
        ({"name": "x", "main": "good", "question": [QUESTION]}, "unknown key 'question'. Did you mean 'questions'"),
        ({"name": "x", "main": "good", "questions": [{**QUESTION, "options": ["a", "b"]}]}, "'a' of an ordered scale is not a number"),
        ({"name": "x", "main": "good", "questions": [{**QUESTION, "options": [2, 1]}]}, "rising order"),
        ({"name": "x", "main": "good", "questions": [{**QUESTION, "applies": "sometimes"}]}, "applies"),
        ({"name": "x", "main": "good", "questions": []}, "questions"),
        ([], "x.yaml"),
    ],
)  # fmt: skip
def test_an_invalid_rubric_is_a_one_line_error(content: object, reason: str) -> None:
    with pytest.raises(BadInput, match=r"x\.yaml") as caught:
        read_rubric(content, "x.yaml")
    assert reason in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [("", "is empty"), ("name: [", "is not valid YAML"), ("name: a\nname: b\n", "'name' occurs twice")],
)
def test_a_file_that_is_no_rubric_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        load_rubric(written(tmp_path, text))


LAUGHS = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 10)
)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (LAUGHS, "more than 10,000 keys and values"),
        ("".join(f"k{i}: 1\n" for i in range(40_000)), "more than 10,000 keys and values"),
        ("[" * 200_000, "nested deeper than 100 levels"),
        ("{a: " * 100_000, "nested deeper than 100 levels"),
        ("- " * 200_000, "nested deeper than 100 levels"),
        ("&a [*a]", "an alias refers to a mapping or list that contains it"),
        ("name: &a {b: *a}", "an alias refers to a mapping or list that contains it"),
        ("main: " + "9" * 6_000, "invalid value"),
        ("main: 2024-13-45", "month must be in 1..12"),
        ("main: .inf", "not a finite number"),
        ("main: .nan", "not a finite number"),
        ('main: !!int ""', "invalid value"),
        ("main: !!bool maybe", "invalid value"),
        ("main: !!timestamp soon", "invalid value"),
        ("? [1]\n: 2", "a key is a list or a mapping"),
        ("? {a: 1}\n: 2", "a key is a list or a mapping"),
        ("main: !!python/object/apply:os.getcwd []", "could not determine a constructor"),
        ("name: \0", "special characters are not allowed"),
        ("main: !" + "x" * 400_000, "could not determine a constructor"),
        ("x" * 2_000_000, "too large: 2 MB"),
        (("? " + "k" * 60_000 + "\n: 1\n") * 2, "occurs twice, in lines 1 and 3"),
        ("? " + "k" * 60_000 + "\n: 1\n", "unknown key"),
    ],
)
@pytest.mark.attack
def test_hostile_yaml_is_a_short_one_line_error(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(BadInput, match=re.escape(reason)) as caught:
        load_rubric(written(tmp_path, text))
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 800


def test_usual_yaml_aliases_are_read(tmp_path: Path) -> None:
    output = "name: x\nmain: a\nquestions:\n"
    shared = "  - {id: a, text: 'A?', options: &four [1, 2, 3, 4]}\n  - {id: b, text: 'B?', options: *four}\n"
    assert load_rubric(written(tmp_path, output + shared))["b"].scale.options == (1, 2, 3, 4)


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (make_pipe, "a named pipe"),
        (make_socket, "a socket"),
        (Path.mkdir, "a folder"),
        (lambda path: make_link(path, "/dev/zero"), "a device"),
        (lambda path: make_link(path, "rubric.yaml"), "cannot read"),
    ],
)
@pytest.mark.attack
def test_pipes_are_refused_without_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None], kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "rubric.yaml")
    for read in (load_rubric, load_yaml, read_json_file, regular_size):
        with pytest.raises(BadInput, match=kind):
            read(tmp_path / "rubric.yaml")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[" * 101 + "]" * 101, "nested deeper than 100"),
        ("[" * 100_000, "nested deeper than 100"),
        ('{"a": NaN}', "NaN is not a number"),
        ('{"a": -Infinity}', "-Infinity is not a number"),
        ('{"a": 1e999}', "not a finite number"),
        ('{"a": ' + "9" * 6_000 + "}", "is not valid JSON"),
        ("{", "is not valid JSON"),
        (" " * 2_000, "2 kB, at most 1 kB"),
    ],
)
def test_cards_are_bounded_json(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "card.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadInput, match=re.escape(reason)):
        read_json_file(path, most=1024 if text.isspace() else CARD_BYTES)
    path.write_text("\ufeff" + "[" * 100 + "]" * 100, encoding="utf-8")
    assert read_json_file(path) == json.loads("[" * 100 + "]" * 100)


def test_unknown_rubrics_and_questions_get_a_suggestion(rubric: Rubric) -> None:
    with pytest.raises(UnknownName, match="Did you mean 'llm-rubric'"):
        load_rubric("llm-rubirc")
    with pytest.raises(BadInput, match="No such file"):
        load_rubric("nowhere.yaml")
    with pytest.raises(UnknownName, match="unknown question 'Q9'"):
        rubric["Q9"]


def test_applies_rules_select_conversations(rubric: Rubric) -> None:
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


def test_a_scale_parses_its_own_options() -> None:
    scale = Scale(options=(1, 2))
    assert scale.parse(" 2 ") == 2 and scale.parse("2.0") is None and str(scale) == "1, 2"
