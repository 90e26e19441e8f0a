"""Offline judging: request files by shard, an engine's batch output, and replies as a recorded judge."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from misbehaving_endpoint import answer_any

from accord import Conversation, Project, Turn
from accord.project import config_from
from accord.values import (
    Label,
    Rubric,
    Target,
)
from accord.values.rubric import Applies

FILE = Path(__file__).parents[1] / "examples" / "offline_judge.py"


@pytest.fixture
def offline() -> ModuleType:
    spec = importlib.util.spec_from_file_location("offline_judge", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def project(tmp_path: Path, rubric: Rubric) -> Iterator[Project]:
    two = tuple(q.model_copy(update={"applies": Applies.ALWAYS}) for q in rubric.questions if q.id in ("Q0", "Q1"))
    asked = rubric.model_copy(update={"questions": two})
    config = config_from({"store": f"sqlite:///{tmp_path}/a.db",
                          "models": {"judge": {"mode": "recorded", "paths": [str(tmp_path / "one.jsonl"),
                                                                             str(tmp_path / "two.jsonl")]}}})  # fmt: skip
    with Project(config, asked) as opened:
        said = (Turn("user", "Why is it red?"), Turn("assistant", "Hold the button."))
        opened.store.add_conversations(Conversation(f"c{n}", said) for n in range(7))
        opened.store.add_labels(Label(Target(f"c{n}"), "Q0", "p", 3) for n in range(5))
        yield opened


def engine(requests: Path, replies: Path) -> None:
    """Imitate an engine's batch run: a line of output per request, in any order, with some failures."""
    lines = []
    for line in requests.read_text(encoding="utf-8").splitlines():
        asked = json.loads(line)
        assert asked["url"] == "/v1/chat/completions" and asked["body"]["logprobs"] and asked["body"]["max_tokens"] == 1
        failed = json.loads(asked["custom_id"]) == ["c3", "Q1"]
        body = (
            {"error": {"message": "too long"}} if failed else answer_any({**asked["body"], "_path": asked["url"]}).body
        )
        response = {"status_code": 400 if failed else 200, "request_id": "r", "body": body}
        lines.append(json.dumps({"id": "b", "custom_id": asked["custom_id"], "response": response, "error": None}))
    replies.write_text("\n".join([*reversed(lines), "", "{cut off"]), encoding="utf-8")


def test_offline_answers_are_a_recorded_judge(offline: ModuleType, project: Project, tmp_path: Path) -> None:
    counts = []
    for number, name in ((1, "one"), (2, "two")):
        asked = offline.write_requests(project, tmp_path / "requests", "big", (number, 2))
        engine(tmp_path / "requests", tmp_path / "replies")
        found = offline.write_recording(project, tmp_path / "replies", tmp_path / f"{name}.jsonl", "big")
        counts.append((asked, found["recorded"], found["HTTP 400"]))
    assert counts == [(6, 6, 0), (4, 3, 1)], "five rated conversations, two questions: every second one in each shard"
    done = project.judge()
    assert done.answered == 9 and dict(done.unanswered) == {"not recorded": 1} and done.spent["requests"] == 0
    answers = [each for each in project.store.annotations(["model"]) if each.distribution]
    assert len(answers) == 9 and {each.mode for each in answers} == {"recorded"}
    assert all(
        abs(sum(each.distribution.values()) + (each.outside or 0.0) - 1) < 1e-6 for each in answers if each.distribution
    )


def test_all_conversations_have_requests(offline: ModuleType, project: Project, tmp_path: Path) -> None:
    assert offline.write_requests(project, tmp_path / "requests", "big", every=True) == 14
