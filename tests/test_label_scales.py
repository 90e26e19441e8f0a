"""Labels and evaluators of another wording or scale than the question of the rubric has now, at each command."""

from __future__ import annotations

import html
import os
import re
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from commands import accord, invoke, printed, refused, write, write_rows

import accord as api
from accord.formats import LabelWordings, label_wordings, on_present_scale
from accord.live import (
    open_ingestor,
    open_service,
    scoring_problem,
)
from accord.live.ingest import EvaluatorReloader, LiveContext
from accord.project import check_scale, rating_counts
from accord.project.label_scales import evaluator_text
from accord.values import Label, Question, Rubric, Scale, ScaleKind, Target

pytestmark = pytest.mark.usefixtures("working_folder")
FIVE = "options: [1, 2, 3, 4, 5]"
ELEVEN = "options: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"
SETTINGS = "rubric: rubric.yaml\nmetrics: [words]\nevaluators: {default: {head: mixed}}\n"


def asks(options: str = FIVE, text: str = "How good is it?") -> None:
    """Write the rubric of the project."""
    write("rubric.yaml", f"name: r\nmain: good\nquestions:\n- id: good\n  text: {text}\n  {options}\n")


def chats(count: int) -> list[dict[str, Any]]:
    return [
        {
            "id": f"c{n}", "system": f"s{n % 2}",
            "messages": [{"role": "user", "content": f"question {n}"}, {"role": "assistant", "content": "word " * (1 + n % 5 * 4)}],
        }
        for n in range(count)
    ]  # fmt: skip


def labeled(name: str, first: int, last: int, top: int = 5) -> str:
    """Write labels of two annotators that rise with the length of the reply, from 1 to `top`."""
    rows = [f"c{n},{who},{1 + (n % 5) * (top - 1) // 4}" for n in range(first, last) for who in ("ann", "ben")]
    return write(name, "\n".join(["conversation,annotator,good", *rows]) + "\n")


@pytest.fixture
def rated() -> None:
    write_rated()


def write_rated() -> None:
    """A project with 40 labels on 1 to 5."""
    write("accord.yaml", SETTINGS)
    asks()
    write_rows("chats.jsonl", chats(40))
    printed("import", "chats.jsonl", labeled("first.csv", 0, 20))


@pytest.fixture(scope="module")
def fitted_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project with an evaluator that learned the labels."""
    folder = tmp_path_factory.mktemp("fitted")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_rated()
        printed("fit")
    return folder


@pytest.fixture
def fitted(fitted_once: Path, working_folder: Path) -> None:
    """A copy of the project with its evaluator."""
    shutil.copytree(fitted_once, working_folder, dirs_exist_ok=True)


@pytest.fixture
def two_wordings(rated: None) -> None:
    asks(text="How helpful is it?")
    printed("import", labeled("second.csv", 20, 30))


@pytest.fixture
def two_scales(rated: None) -> None:
    asks(ELEVEN)
    printed("import", labeled("second.csv", 20, 40, top=9))


WORDINGS = "20 labels of 'good' answer the present wording, 40 an earlier one"
SCALES = "40 labels of 'good' answer the present wording, 40 one with the scale 1..5 (5)"


@pytest.mark.parametrize("command", [["fit"], ["compare", "--only", "default"], ["estimate"]], ids=str)
def test_labels_of_two_wordings_are_counted(
    two_wordings: None, command: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    printed(*command)
    assert caplog.messages == [WORDINGS], "once"


def test_score_counts_labels_by_wording_and_names_an_evaluator_of_another_wording(
    fitted: None, caplog: pytest.LogCaptureFixture
) -> None:
    printed("score", "chats.jsonl", "--out", "scores.jsonl")
    assert not caplog.messages
    asks(text="How helpful is it?")
    printed("import", labeled("second.csv", 20, 30))
    printed("score", "chats.jsonl", "--out", "scores.jsonl")
    [other, counted] = caplog.messages
    assert counted == WORDINGS
    assert other == (
        "default learned 'good' as 'How good is it?', and the rubric asks 'How helpful is it?'; to learn the present "
        "wording: accord fit"
    )


@pytest.mark.parametrize(
    "command",
    [["fit"], ["compare", "--only", "default"], ["estimate"], ["label", "next"], ["report"], ["fit", "--best"]],
    ids=str,
)
def test_labels_on_two_scales_are_refused_with_each_way_on(two_scales: None, command: list[str]) -> None:
    error = refused(*command)
    assert SCALES in error and "the present scale is 0..10 (11)" in error
    assert all(f"--other-scales {way}" in error for way in ("leave-out", "map", "keep"))
    invoke(*command, "--other-scales", "leave-out")


def test_old_labels_alone_are_refused_too(rated: None) -> None:
    asks(ELEVEN)
    assert "0 labels of 'good' answer the present wording, 40 one with the scale 1..5 (5)" in refused("fit")


@pytest.mark.parametrize(
    ("way", "values"),
    [
        ("leave-out", {1, 3, 5, 7, 9}),
        ("map", {0, 3, 5, 8, 10, 1, 7, 9}),
        ("keep", {1, 2, 3, 4, 5, 7, 9}),
    ],
)
def test_labels_on_another_scale_are_left_out_mapped_or_kept(
    two_scales: None, way: str, values: set[int], caplog: pytest.LogCaptureFixture
) -> None:
    write("accord.yaml", SETTINGS + f"other_scales: {way}\n")
    printed("fit")
    [said] = caplog.messages
    assert said.startswith(f"{SCALES}; labels on another scale ")
    with api.open("accord.yaml") as project:
        found = project.rated("good")
        assert len(found) == (40 if way == "leave-out" else 80)
        assert {label.value for label in found} == values
        assert project.estimate().systems


def test_other_questions_on_another_scale_are_not_mixed(rated: None) -> None:
    both = "name: r\nmain: good\nquestions:\n- {id: good, text: Good, options: [1, 2, 3, 4, 5]}\n- {id: kind, text: Kind, options: %s}\n"
    write("rubric.yaml", both % "[1, 2, 3]")
    rows = [f"c{n},ann,{1 + n % 3}" for n in range(20)]
    printed("import", write("kind.csv", "\n".join(["conversation,annotator,kind", *rows]) + "\n"))
    write("rubric.yaml", both % "[1, 2, 3, 4, 5, 6]")
    write("accord.yaml", SETTINGS.replace("mixed", "network"))
    error = refused("fit")
    assert "0 labels of 'kind' answer the present wording, 20 one with the scale 1..3 (3)" in error


def test_score_stops_at_an_evaluator_of_another_scale(fitted: None) -> None:
    asks(ELEVEN)
    for out in ("scores.jsonl", "scores/"):
        error = refused("score", "chats.jsonl", "--out", out)
        assert "default answers 'good' on the scale 1..5 (5), and the rubric asks it on 0..10 (11)" in error
        assert "accord fit" in error and not Path(out).exists()


def test_follow_and_serve_stop_at_an_evaluator_of_another_scale(fitted: None) -> None:
    asks(ELEVEN)
    write_rows("log.jsonl", chats(3))
    error = refused("follow", "log.jsonl", "--out", "rows.jsonl", "--once")
    assert "default answers 'good' on the scale 1..5 (5), and the rubric asks it on 0..10 (11)" in error
    assert not Path("rows.jsonl").exists() or not Path("rows.jsonl").read_text(encoding="utf-8")
    with api.open() as project:
        assert scoring_problem(project, Path("evaluators/default")) == error.removeprefix("accord: ")
        with (
            pytest.raises(api.AccordError, match="the rubric asks it on 0..10"),
            open_service(project, Path("evaluators/default")),
        ):
            pass


def test_follow_names_an_evaluator_of_another_wording(fitted: None, caplog: pytest.LogCaptureFixture) -> None:
    asks(text="How helpful is it?")
    write_rows("log.jsonl", chats(3))
    printed("follow", "log.jsonl", "--out", "rows.jsonl", "--once")
    assert any("the rubric asks 'How helpful is it?'" in each for each in caplog.messages)
    assert len(Path("rows.jsonl").read_text(encoding="utf-8").splitlines()) == 3


def test_live_scoring_keeps_its_evaluator_if_a_new_one_has_another_scale(fitted: None) -> None:
    told: list[str] = []
    with api.open() as project:
        folder = Path("evaluators/default")
        check = partial(check_scale, project.rubric)
        with open_ingestor(folder, context=LiveContext(check=check), log=told.append, every=60) as ingestor:
            before = ingestor.scorer.evaluator.digest()
            asks(ELEVEN)
            with api.open() as other:
                reloader = EvaluatorReloader(folder, None, partial(check_scale, other.rubric), told.append)
                reloader.check()
            assert ingestor.scorer.evaluator.digest() == before
    assert len(told) == 1 and "stays in use" in told[0] and "0..10 (11)" in told[0]


def test_the_gate_fails_on_results_of_another_scale(fitted: None) -> None:
    printed("score", "chats.jsonl", "--out", "scores.jsonl")
    conditions = ["--min-agreement=-1", "--min-mean=1", "--include-training"]
    assert "scale of" not in accord("gate", *conditions)
    asks(ELEVEN)
    output = accord("gate", *conditions, code=3)
    assert "2 of 8 conditions not met" in output
    for what, command in (("comparison", "accord compare"), ("scores", "accord fit, then accord score")):
        assert f"scale of the latest {what}: failed: the latest {what} answer 'good' on the scale 1..5 (5)" in output
        assert f"Make new ones: {command}" in output


def test_the_board_marks_scores_of_another_scale_and_compares_them_with_nothing(fitted: None) -> None:
    from accord.board import Board, BoardFilters

    printed("score", "chats.jsonl", "--out", "scores.jsonl")
    asks(ELEVEN)
    printed("import", labeled("second.csv", 0, 40, top=9))
    with api.open("accord.yaml") as project:
        found = Board(project).figures(BoardFilters(training="with"))
        assert found is not None
        scores, figures = found
        assert (scores.low, scores.high) == (1, 5) and figures.given is None and not figures.powered
        assert any(
            "these scores are on a scale from 1 to 5, and the rubric asks good on 0..10" in note
            for note in figures.notes
        )
        old = str(scores.selection.evaluator)
    said = printed("fit", "--other-scales", "leave-out")
    assert (
        "cannot be compared with the candidate: it scores good on 1..5 (5), and the rubric now asks good on 0" in said
    )
    printed("score", "chats.jsonl", "--out", "new.jsonl")
    with api.open("accord.yaml") as project:
        found = Board(project).figures(BoardFilters(training="with", against=old))
        assert found is not None
        scores, figures = found
        assert (scores.low, scores.high) == (0, 10) and figures.evaluators is None
        assert figures.given is not None and figures.given.rows == 40, "equal ratings take the new scale"
        assert any("scored on another scale; not compared" in note for note in figures.notes)


def question(options: tuple[Any, ...] = (1, 2, 3), text: str = "Good?", **scale: Any) -> Question:
    return Question(id="q", text=text, scale=Scale(options=options, **scale))


REAL = Question(id="q", text="Good?", scale=Scale(kind=ScaleKind.REAL, low=0, high=1))
WORDS = Question(id="q", text="Good?", scale=Scale(kind=ScaleKind.NOMINAL, options=("bad", "good")))


@pytest.mark.parametrize(
    ("old", "new", "value", "mapped"),
    [
        (question((1, 2, 3, 4, 5)), question(tuple(range(11))), 4, 8),
        (question(tuple(range(11))), question((1, 2, 3, 4, 5)), 4, 3),
        (question((0, 1), kind=ScaleKind.BINARY), question((1, 2, 3)), 1, 3),
        (question((1, 2, 3, 4, 5)), REAL, 2, 0.25),
        (REAL, question((1, 2, 3)), 0.9, 3),
        (question((-2, -1, 0, 1, 2)), REAL, -2, 0.0),
    ],
    ids=str,
)
def test_values_are_mapped_linearly_to_the_nearest_option(
    old: Question, new: Question, value: float, mapped: float
) -> None:
    rubric = Rubric(name="r", main="q", questions=(new,))
    label = Label(Target("c"), "q", "ann", value, wording=old.wording)
    [found] = on_present_scale([label], rubric, "map")
    assert found.value == mapped
    [again] = on_present_scale([found], rubric, "map")
    assert again == found, "a mapped label is on the present scale"
    assert list(on_present_scale([label], rubric, "leave-out")) == []
    assert list(on_present_scale([label], rubric, "stop")) == [label]


@pytest.mark.parametrize(
    "wording", [WORDS.wording, "s256:0123", "x" * 5000, "s256:1 9..9..9", "s256:1 1..1 (1)", "a ..", ""]
)
@pytest.mark.attack
def test_a_wording_that_names_no_scale_cannot_be_mapped(wording: str) -> None:
    rubric = Rubric(name="r", main="q", questions=(question(),))
    label = Label(Target("c"), "q", "ann", 9, wording=wording)
    ways = "--other-scales leave-out, or other_scales: leave-out in accord.yaml"
    with pytest.raises(api.AccordError, match=f"cannot be mapped to 1..3 .3.. Leave such labels out: {ways}"):
        list(on_present_scale([label], rubric, "map"))


def test_labels_of_older_stores_are_sorted_by_their_values() -> None:
    asked = question()
    other = question(text="Kind?")
    counted = [
        (asked.wording, 1, 3),
        (asked.key, 2, 2),
        (other.key, 3, 5),
        (None, 2, 7),
        (None, 9, 1),
        ("s256:0", 8, 4),
    ]
    found = label_wordings(asked, counted)
    assert found == LabelWordings("q", 5, 5, 7, {"an unknown scale": 5})
    assert str(found) == (
        "5 labels of 'q' answer the present wording, 5 an earlier one, 7 one that is not stored, 5 one with the scale "
        "an unknown scale"
    )
    assert not str(label_wordings(asked, counted[:2])) and not str(label_wordings(asked, counted[3:4]))
    yes = Question(
        id="q", text="Good?", scale=Scale(options=(0, 1), kind=ScaleKind.BINARY), meanings={"0": "no", "1": "yes"}
    )
    assert label_wordings(yes, [(None, "yes", 4)]).unknown == 4, "a value of the file is read by its meaning"


def test_ratings_by_wording_and_learned_and_new_ones_add_up(fitted: None) -> None:
    """Ten people's ratings of the present wording replace own earlier ones, two files come later, one without times."""
    with api.open() as project:
        folder = project.folder()
        before = rating_counts(project, folder, 40)
        assert before.text.endswith("40 ratings by 2 people: all learned") and not before.wordings_text
        assert set(before.ledger()) == {
            "conversations",
            "rated",
            "ratings",
            "people",
            "learned",
            "new_ratings",
            "replaced_ratings",
        }
    asks(text="How helpful is it?")
    with api.open() as project:
        now, wording = "2999-01-01T00:00:00+00:00", project.question.wording
        again = [Label(Target(f"c{n}"), "good", "ann", 1 + (n + 1) % 5, now, wording) for n in range(10)]
        other = [Label(Target(f"c{n}"), "good", "ben", 4, None, wording) for n in (1, 30)]
        old = [Label(Target("c31"), "good", "ben", 4, "2001-01-01T00:00:00+00:00", wording)]
        project.store.add_labels([*again, *other, *old])
        found = rating_counts(project, folder, 40)
        ledger = found.ledger()
        counted = {name: figure.value for name, figure in ledger.items()}
        assert counted == {
            "conversations": 40, "rated": 22, "ratings": 42, "people": 2, "present_wording": 13, "earlier_wording": 29,
            "learned": 29, "new_ratings": 13, "replaced_ratings": 11,
        }  # fmt: skip
        assert found.text == (
            "40 conversations (22 rated), 42 ratings by 2 people: 29 learned, 13 new, of which 11 replace earlier ones "
            "of the same person and conversation"
        )
        assert found.wordings_text == "13 labels of 'good' answer the present wording, 29 an earlier one"
        assert found.to_json()["new"] == 13 and ledger.text("present_wording") == "13 of 42"
        # A store that was made again from its files after the fit: the evaluator learned from as many as it recorded.
        os.utime(folder / "evaluator.json", (10**9, 10**9))
        assert rating_counts(project, folder, 30).learned == 30 and rating_counts(project, folder).learned == 0
        assert rating_counts(project).learned is None and "learned" not in rating_counts(project).ledger()


def test_pages_name_labels_by_wording_and_evaluators_of_another_question(fitted: None, workbench: Any) -> None:
    asks(text="How helpful is it?")
    printed("import", labeled("second.csv", 20, 30))
    browser = workbench(opened=api.open("accord.yaml")).browser()
    for page in ("/", "/evaluators"):
        text = re.sub(r"\s+", " ", html.unescape(browser.get(page)))
        assert f"{WORDINGS}." in text
        assert "default learned 'good' as 'How good is it?', and the rubric asks 'How helpful is it?'" in text
    asks(ELEVEN)
    browser = workbench(opened=api.open("accord.yaml")).browser()
    page = html.unescape(browser.get("/evaluators"))
    assert "default answers 'good' on the scale 1..5 (5), and the rubric asks it on 0..10 (11)" in page


def test_equal_ratings_that_are_imported_again_take_the_new_scale(rated: None) -> None:
    asks(ELEVEN)
    assert SCALES not in printed("import", "first.csv")
    with api.open() as project:
        assert {label.wording for label in project.store.labels()} == {project.question.wording}
        assert len(project.store.labels()) == 40
    printed("fit")


def test_equal_ratings_of_another_wording_keep_their_wording(rated: None) -> None:
    asks(text="How helpful is it?")
    printed("import", "first.csv")
    with api.open() as project:
        assert {label.wording for label in project.store.labels()} != {project.question.wording}


def test_labels_of_a_file_that_lacks_them_keep_their_scale(rated: None) -> None:
    asks(ELEVEN)
    printed("import", labeled("half.csv", 0, 10))
    assert "20 labels of 'good' answer the present wording, 20 one with the scale 1..5 (5)" in refused("fit")


def test_a_changed_wording_of_several_lines_is_told_in_one() -> None:
    scale = Scale(kind=ScaleKind.ORDINAL, options=(1, 2, 3))
    old, new, folded = (
        Question(id="Q0", text=text, scale=scale)
        for text in ("How good\nwas it?\n", "How\nhelpful was it?", "How good was it?")
    )
    rubrics = [Rubric(name="lines", main="Q0", questions=(each,)) for each in (new, folded)]
    changed, broken = (evaluator_text(each, "default", old) for each in rubrics)
    assert changed.endswith("as 'How good was it?', and the rubric asks 'How helpful was it?'")
    assert "other line breaks" in broken and "\\n" not in changed + broken
