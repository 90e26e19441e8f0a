"""Rating pages of steps: the call with its arguments and result, escaped, and folded if they are long."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from served_workbench import StartWorkbench, form_of
from test_workbench_pages import EVIL

from accord import Project
from accord.edges import BadInput
from accord.project import Config
from accord.store import Studies
from accord.studies import StudySession
from accord.values import Conversation, Target, Turn

STUDY = {"title": "Steps", "level": "step"}


def opened(folder: Path, *turns: Turn, **study: Any) -> Project:
    config = {"store": f"sqlite:///{folder}/a.db", "rubric": "agent-steps", "studies": {"look": {**STUDY, **study}}}
    project = Project(Config.model_validate(config))
    project.store.add_conversations([Conversation("c", turns)])
    return project


def step(arguments: Any, result: str, name: str = "find", **extra: Any) -> tuple[Turn, Turn]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    call = {"id": "x", "function": {"name": name, "arguments": text}}
    return Turn("assistant", "", extra={"tool_calls": [call]}), Turn(
        "tool", result, extra={"tool_call_id": "x", **extra}
    )


def test_a_step_is_rated_on_a_page_with_its_call_result_and_use(workbench: StartWorkbench, tmp_path: Path) -> None:
    turns = (Turn("user", "Where is A-1?"), *step({"order": "A-1", "days": [1, 2]}, "no such order", is_error=True),
             Turn("assistant", "It is on its way."), Turn("user", "A later question."))  # fmt: skip
    bench = workbench(opened=opened(tmp_path, *turns))
    browser = bench.browser()
    page = browser.get("/rate/look/next")
    inside = page[page.index('<div class="step">') : page.index('<div class="step">') + 900]
    for part in (
        "Call of <code>find</code>",
        "<dt>order</dt>",
        "A-1</dd>",
        "[1, 2]</dd>",
        "flagged as an error",
        "no such order",
    ):
        assert part in inside, part
    assert "It is on its way." in page and "A later question." not in page and page.count("to rate</span>") == 1
    where, fields = form_of(page)
    given = {f"value.{name}": "1" for name in ("step", "tool", "arguments", "policy")} | {"value.result": "0"}
    assert browser.post(where, **fields, do="save", **given)[0] == 303
    labels = {(label.target, label.question): label.value for label in bench.store.labels()}
    assert labels[Target("c", 2), "result"] == 0 and len(labels) == 5


@pytest.mark.attack
@pytest.mark.parametrize("kind", ["script", "long", "no JSON", "no call", "nothing"])
def test_hostile_and_long_steps_are_shown_as_text(workbench: StartWorkbench, tmp_path: Path, kind: str) -> None:
    long = "y" * 40_000
    turns = {
        "script": step({EVIL: EVIL, "b": [EVIL]}, EVIL, EVIL), "long": step({"text": long}, long),
        "no JSON": step("{" + EVIL + long, "[" * 1000), "no call": (Turn("tool", EVIL),), "nothing": step("", "", ""),
    }[kind]  # fmt: skip
    page = workbench(opened=opened(tmp_path, *turns)).browser().get("/rate/look/next")
    shown = page[page.index('<div class="step">') :]
    assert EVIL not in page
    expected = {
        "script": "&lt;", "long": "<summary>Result, 40,000 characters</summary>", "no JSON": "<summary>Arguments, ",
        "no call": "Result without a call in the log", "nothing": "The result is empty.",
    }[kind]  # fmt: skip
    assert expected in shown and (kind != "long" or "<summary>40,000 characters</summary>" in shown)


def test_a_study_asks_about_its_own_unit_alone(tmp_path: Path) -> None:
    message = r"question 'tool' is about one call of a tool, but the study rates a turn"
    project = opened(tmp_path, *step({}, "ok"), level="turn", stages=[{"questions": ["tool"]}])
    with project, closing(Studies(project.store)) as studies, pytest.raises(BadInput, match=message):
        StudySession(project, "look", studies).begin()
