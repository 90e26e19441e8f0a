"""The verbs of `Project` in a notebook: a rubric from one's own labels, report, gate, run, and errors with Python calls."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from accord import Project, Rubric
from accord.edges import AccordError, BadInput, BadRow, GateFailed, ModelSetting, Step, UnknownName
from accord.project import Config
from accord.values import dump_rubric, load_rubric
from accord.verbs.python_calls import python_text

QUICK: dict[str, Any] = {
    "draws": 20,
    "folds": 2,
    "metrics": ["words"],
    "evaluators": {"default": {"head": "mixed"}},
}
CHATS = [
    {"id": f"c{n}", "messages": [{"role": "user", "content": f"Question {n}?"},
                                 {"role": "assistant", "content": " ".join(["step"] * (1 + n % 9))}]}
    for n in range(40)
]  # fmt: skip


def labels(*questions: str) -> pl.DataFrame:
    rows = [{"conversation": f"c{n}", "annotator": who, **dict.fromkeys(questions, min(5, 1 + n % 9 // 2 + shift))}
            for n in range(40) for shift, who in enumerate(("ann", "bob"))]  # fmt: skip
    return pl.DataFrame(rows)


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Project]]:
    monkeypatch.chdir(tmp_path)
    projects = []

    def open_with(rubric: Rubric | None = None, question: str | None = None, **settings: Any) -> Project:
        config = Config.model_validate({"store": "sqlite:///accord.db", **QUICK, **settings})
        projects.append(Project(config, rubric, question=question))
        return projects[-1]

    yield open_with
    for project in projects:
        project.close()


# --- rubric from labels -----------------------------------------------------------------------------------------------


def test_import_makes_the_rubric_from_own_labels(
    opened: Callable[..., Project], caplog: pytest.LogCaptureFixture
) -> None:
    project = opened()
    done = project.import_([CHATS, labels("helpful", "polite")])
    assert done.labels.new == 160 and not done.counts.other_questions
    assert {each.id for each in project.rubric.questions} == {"helpful", "polite"}
    assert project.question.id == project.rubric.main and project.question.scale.options == (1, 2, 3, 4, 5)
    assert any("questions from the labels: helpful" in each for each in caplog.messages)
    fitted = project.fit("default")
    assert fitted.comparison is not None and fitted.evaluator.question.id == project.question.id


def test_main_question_is_named(opened: Callable[..., Project]) -> None:
    project = opened()
    project.import_([CHATS, labels("helpful", "polite")], main="polite")
    assert project.question.id == project.rubric.main == "polite"
    with pytest.raises(UnknownName, match="'polight'"):
        opened(store="sqlite:///other.db").import_([CHATS, labels("helpful", "polite")], main="polight")


def test_own_rubric_is_extended_and_a_given_one_stays(opened: Callable[..., Project], tmp_path: Path) -> None:
    first = opened()
    first.import_([CHATS, labels("helpful")])
    (tmp_path / "mine.yaml").write_text(dump_rubric(first.rubric), encoding="utf-8")
    project = opened(rubric=None, store="sqlite:///b.db")
    assert project.rubric.hash == load_rubric("llm-rubric").hash
    own = Project(Config.model_validate({"store": "sqlite:///c.db", "rubric": "mine.yaml", **QUICK}))
    with own:
        own.import_([CHATS, labels("polite")])
        assert [each.id for each in own.rubric.questions] == ["helpful", "polite"] and own.rubric.main == "helpful"
    given = opened(first.rubric, store="sqlite:///d.db")
    assert set(given.import_([CHATS, labels("polite")]).counts.other_questions) == {"polite"}
    assert given.rubric == first.rubric


def test_rubric_whose_main_question_is_answered_stays(opened: Callable[..., Project]) -> None:
    project = opened()
    before = project.rubric
    project.import_(
        [CHATS, pl.DataFrame([{"conversation": f"c{n}", "annotator": "a", "Q0": 1 + n % 4} for n in range(9)])]
    )
    assert project.rubric == before


# --- report, gate, run ------------------------------------------------------------------------------------------------


def test_report_and_gate_of_a_project_in_memory(opened: Callable[..., Project], tmp_path: Path) -> None:
    project = opened()
    project.import_([CHATS, labels("helpful")])
    fitted = project.fit("default")
    page = project.report(tmp_path / "report.html", fitted)
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    project.score(CHATS, evaluator=fitted.evaluator)
    verdict, proof, mean, share = project.gate(min_mean=1.5, training=True)
    assert verdict.condition == "verdict of default" and proof.condition == "proof of the mean"
    assert mean.passed and share.passed and mean.estimate is not None
    with pytest.raises(GateFailed, match=r"1 of 4 conditions not met: mean of the latest scores .* required 4\.9"):
        project.gate(min_mean=4.9, training=True)


def test_run_makes_a_project_of_its_own(opened: Callable[..., Project], tmp_path: Path) -> None:
    done = opened(store="sqlite:///:memory:").run([CHATS, labels("helpful")], tmp_path / "out")
    assert done.files["report"].is_file() and (tmp_path / "out" / "accord.yaml").is_file()
    assert done.fitted.evaluator.question.id == "helpful" and done.scored.counts.scored == 40
    with pytest.raises(BadInput, match="models given to Project"):
        Project(Config(store="sqlite:///:memory:"), given={"judge": object()}).run([CHATS], tmp_path / "more")


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda project: project.fit("default"), r"project\.import_\(\['chats\.jsonl', 'labels\.csv'\]\)"),
        (lambda project: project.import_(labels("Q0")), r"project\.import_\(\['chats\.jsonl', 'labels\.csv'\]\)"),
        (lambda project: project.gate(min_agreement=0.1), r"project\.compare\(\)"),
        (lambda project: project.gate(), r"pass min_agreement=\.\.\."),
        (lambda project: project.load(), r"project\.fit\("),
        (lambda project: project.judge(), r"Config\(models="),
    ],
    ids=["no labels", "no conversations", "no comparison", "no condition", "no evaluator", "no judge"],
)
def test_errors_name_the_cause_and_the_python_call(
    opened: Callable[..., Project], call: Callable[[Project], object], said: str
) -> None:
    with pytest.raises(AccordError) as raised:
        call(opened())
    assert re.search(said, str(raised.value)), str(raised.value)
    assert "accord " not in str(raised.value).replace("accord.yaml", "")
    assert re.search(r"accord |--|accord\.yaml", raised.value.for_commands), "commands print the command"


@pytest.mark.parametrize(
    ("step", "command", "call"),
    [
        (Step("fit", "mixture"), "accord fit mixture", "project.fit('mixture')"),
        (Step("fit", question="good"), "accord fit --question good", "Project(config, question='good').fit()"),
        (Step("init", from_="FILE", main="a"), "accord init --from FILE --main a", "project.import_(file, main='a')"),
        (Step("judge", source="issues"), "accord judge --source issues", "project.judge(sources=['issues'])"),
        (Step("import", undo="1f"), "accord import --undo 1f", "accord.store.Imports(project.store).undo('1f')"),
        (Step("score", "a b.csv", out="s/"), "accord score 'a b.csv' --out s/", "project.score('a b.csv', out='s/')"),
        (
            ModelSetting("judge", mode="logprobs", model="NAME"),
            "Add one to accord.yaml: models: {judge: {mode: logprobs, model: NAME}}",
            "Pass it in the settings: Config(models={'judge': {'mode': 'logprobs', 'model': name}})",
        ),
    ],
)
def test_step_of_an_error_is_a_command_and_a_call(step: Step, command: str, call: str) -> None:
    error = pickle.loads(pickle.dumps(BadInput(f"first; then: {step}, or not", step)))
    assert str(error) == f"first; then: {command}, or not"
    assert python_text(error) == f"first; then: {call}, or not"
    row = pickle.loads(pickle.dumps(BadRow("a.csv", 2, f"wrong; {step}", step)))
    assert python_text(row) == f"a.csv, line 2: wrong; {call}"


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("run `accord fit default --every-question` first", "run `project.fit('default', every_question=True)` first"),
        ("fit it: accord fit. Then rate", "fit it: project.fit(). Then rate"),
        ("have them assessed: accord judge --source issues", "have them assessed: project.judge(sources=['issues'])"),
        ("see accord store check", "see accord store check"),
        ("now with: accord judge --anchors", "now with: accord judge --anchors"),
        ("fit it again: accord fit mixture", "fit it again: accord fit mixture"),
        ("the word accord alone", "the word accord alone"),
        ("pass --min-agreement, or --skip-bad-rows", "pass min_agreement=..., or skip_bad_rows=..."),
    ],
)
def test_steps_that_are_the_same_everywhere_become_calls(message: str, said: str) -> None:
    assert python_text(BadInput(message)) == said
