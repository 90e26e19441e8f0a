"""Several judges of one project: their answers are joint evidence, and questions are routed by expertise."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accord import Conversation, Label, Project, Score, Target, Turn, load_evaluator
from accord.edges import BadInput
from accord.evidence import SourceContext, make_source
from accord.models import NOT_APPLICABLE, Models, ScriptedJudge, run
from accord.project import config_from
from accord.store import Store
from accord.values import Question, Rubric, Sample, Scale

QUESTIONS = tuple(Question(id=name, text=f"{name}?", scale=Scale(options=(1, 2, 3, 4))) for name in ("main", "law"))
RUBRIC = Rubric(name="two", questions=QUESTIONS, main="main")
MODELS = {"judge": {"mode": "logprobs", "model": "a"}, "judge-law": {"mode": "logprobs", "model": "b"}}


def read(part: int) -> ScriptedJudge:
    """A judge that sees one of the two numbers in a conversation's id."""

    def answer(sample: Sample, question: Question) -> Mapping[str, float]:
        level = int(sample.target.conversation.split("-")[part])
        return {str(option): 0.7 if option == level else 0.1 for option in question.scale.options}

    return ScriptedJudge(answer, f"reads-{part}")


def conversations(n: int = 80) -> list[Conversation]:
    rng = np.random.default_rng(0)
    return [
        Conversation(
            f"{place}-{rng.integers(1, 5)}-{rng.integers(1, 5)}",
            (Turn("user", "Tell me."), Turn("assistant", f"Reply {place}.")), metadata={"topic": "law" if place % 2 else "tax"},
        ) for place in range(n)
    ]  # fmt: skip


def project(folder: Path, judges: Mapping[str, Any], models: Mapping[str, Any] = MODELS) -> Project:
    content = {
        "store": f"sqlite:///{folder}/accord.db", "metrics": [], "models": dict(models), "folds": 4, "draws": 20,
        "sources": {"rubric": {"judges": judges}} if judges else {},
        "evaluators": {"m": {"sources": ["rubric"], "head": "mixed", "settings": {"own_slopes": False}}}, "evaluator": "m",
    }  # fmt: skip
    given = {role: read(place) for place, role in enumerate(models, start=1)}
    return Project(config_from(content), RUBRIC, given=given)


def test_evaluator_learns_from_the_answers_of_all_judges(tmp_path: Path) -> None:
    rng, errors = np.random.default_rng(1), {}
    chats = conversations()
    labels = []
    for chat in chats:
        _, first, second = map(int, chat.id.split("-"))
        value = int(np.clip(round((first + second) / 2 + rng.normal(scale=0.3)), 1, 4))
        labels += [Label(Target(chat.id), "main", name, value) for name in ("ann", "ben")]
    for name, models in (("one", {"judge": MODELS["judge"]}), ("both", MODELS)):
        folder = tmp_path / name
        folder.mkdir()
        with project(folder, {}, models) as opened:
            opened.store.add_conversations(chats)
            opened.store.add_labels(labels)
            assert opened.judge().answered == len(models) * 2 * len(chats)
            fitted = opened.fit(out=folder / "m")
            assert fitted.comparison is not None
            errors[name] = fitted.comparison["m"].to_json()["rmse"]
            assert fitted.evaluator.roles == tuple(models)
    assert errors["both"] < 0.7 * errors["one"]
    columns = [column.name for column in fitted.evaluator.head.columns or ()]
    assert columns == ["main", "law", "main (judge-law)", "law (judge-law)"]
    with project(tmp_path / "both", {}) as opened:
        loaded = load_evaluator(tmp_path / "both" / "m")
        best, worst = (Conversation(f"x-{n}-{n}", chats[0].turns) for n in (4, 1))
        table = run(loaded.evidence([Sample(best), Sample(worst)]), opened.models)
        high, low = loaded.head.predict(table)
        assert isinstance(high, Score) and isinstance(low, Score) and high.value > low.value + 2


def test_questions_are_routed_to_judges(tmp_path: Path) -> None:
    route = {"judge": {"questions": ["main"]}, "judge-law": {"questions": ["law"], "where": {"topic": ["law"]}}}
    chats = conversations(6)
    with project(tmp_path, route) as opened:
        source = opened.source("rubric")
        table = run(source.measure([Sample(chat) for chat in chats]), opened.models)
    first, second = (opened.given[role].asked for role in MODELS)
    assert [(s.target.conversation, q) for s, q in first] == [(chat.id, "main") for chat in chats]
    assert [(s.target.conversation, q) for s, q in second] == [(chat.id, "law") for chat in chats[1::2]]
    expected = table.expected()
    assert [column.name for column in expected.columns] == ["main", "law (judge-law)"]
    assert len(table) == 6 and expected.present[:, 0].all()
    assert expected.present[:, 1].tolist() == [False, True] * 3
    for row, chat in enumerate(chats):
        _, level, other = map(int, chat.id.split("-"))
        assert expected.values[row, 0] == pytest.approx(0.7 * level + 0.1 * (10 - level))
        if row % 2:
            assert expected.values[row, 1] == pytest.approx(0.7 * other + 0.1 * (10 - other))
    assert {table.absences[Target(chat.id), "law (judge-law)"] for chat in chats[::2]} == {NOT_APPLICABLE}


def test_single_questions_of_further_judges_are_asked_and_saved(tmp_path: Path) -> None:
    settings = {"judges": {"judge-law": {}}}
    source: Any = make_source("rubric", settings, SourceContext(RUBRIC))
    assert [question.id for question in source.questions] == ["main", "law", "main (judge-law)", "law (judge-law)"]
    part = source.asking(["law (judge-law)"])
    again: Any = make_source(
        "rubric", settings, SourceContext(Rubric.model_construct(questions=QUESTIONS[:1], main="main"))
    )
    again = again.restored(part.state())
    judge = read(2)
    store = Store(f"sqlite:///{tmp_path}/accord.db")
    models = Models({}, store, given={"judge-law": judge})
    for each in (part, again):
        table = run(each.measure([Sample(chat) for chat in conversations(3)]), models)
        assert [column.question for column in table.columns] == ["law (judge-law)"] * 4
        assert each.roles == ("judge-law",)
    store.close()
    assert [name for _, name in judge.asked] == ["law"] * 3, "the second evaluator reads stored answers"


@pytest.mark.parametrize(
    ("models", "judges", "message"),
    [
        ({"judge-law": MODELS["judge-law"]}, {}, "name the first one judge"),
        ({**MODELS, "judge-": MODELS["judge"]}, {}, "judge-NAME"),
        ({"judges": MODELS["judge"]}, {}, "judge-NAME"),
        (MODELS, {"judge-tax": {}}, "judge-tax.*add it to models"),
        (MODELS, {"judge-law": {"topics": ["law"]}}, "topics"),
    ],
)
def test_invalid_judges_are_rejected(models: dict[str, Any], judges: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        config_from({"models": models, "sources": {"rubric": {"judges": judges}}})


def test_route_of_an_unknown_question_is_rejected(tmp_path: Path) -> None:
    with project(tmp_path, {"judge-law": {"questions": ["tax"]}}) as opened, pytest.raises(BadInput, match="tax"):
        run(opened.source("rubric").measure([Sample(conversations(1)[0])]), opened.models)
