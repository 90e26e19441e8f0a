"""MLflow in a process of its own with a SQLite store: scorers, pushed scores, and judges that learn from annotators."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import pytest
from live_evaluator import learned, support_chats

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("mlflow") is None, reason="mlflow is not installed: pip install 'accord[mlflow]'"),
]

SCRIPT = """
import json, sys
import mlflow
from mlflow.entities import AssessmentSource
from accord import load_evaluator, read
from accord.edges import BadInput
from accord.hosts.mlflow import AccordOptimizer, push, session_scorer, trace_scorer
from accord.hosts.shared.scores import HostScorer
from accord.sample import sources

mlflow.set_tracking_uri("sqlite:///mlflow.db")
mlflow.set_experiment("chats")
found = {}

def ask(messages, session=None):
    @mlflow.trace(name="bot")
    def answer(messages):
        if session:
            mlflow.update_current_trace(metadata={"mlflow.trace.session": session})
        return reply
    reply = messages[-1]["content"] if messages else None
    answer(messages=messages[:-1])
    mlflow.flush_trace_async_logging()
    return mlflow.get_last_active_trace_id()

def traces(names):
    return [mlflow.get_trace(name) for name in names]

rows = [json.loads(line) for line in open("chats.jsonl")]
host = HostScorer(load_evaluator("judge"))
single = [ask(row["messages"]) for row in rows[:3]] + [ask([])]
scorer = trace_scorer("judge")
feedback = [scorer(trace=each) for each in traces(single)]
found["single"] = [each.value for each in feedback]
found["expected"] = [each["value"] for each in host.score(rows[:3])]
found["error"] = [feedback[3].error_code, feedback[3].error_message]
found["source"] = feedback[0].source.source_id

talk = rows[3]["messages"][:4]
session = [ask(talk[:2], "s1"), ask(talk[:4], "s1")]
found["session"] = session_scorer("judge")(session=traces(session)).value
found["session expected"] = host.one(talk)["value"]
found["is session"] = [scorer.is_session_level_scorer, session_scorer("judge").is_session_level_scorer]

found["pushed"] = [push(traces(single), "judge"), push(traces(single), "judge"), push(traces(session), "judge", sessions=True), push(traces(session), "judge", sessions=True)]
stored = [mlflow.get_trace(name).info.assessments for name in [*single, *session]]
found["stored"] = [[(each.name, each.feedback.value) for each in some] for some in stored]
found["stored error"] = stored[3][0].feedback.error.error_message
found["stored session"] = stored[4][0].metadata["mlflow.trace.session"]
push(traces(single), "other")
found["after another evaluator"] = [len(mlflow.get_trace(name).info.assessments) for name in single]

evaluated = mlflow.genai.evaluate(data=traces(single[:2]), scorers=[scorer])
found["evaluated"] = evaluated.metrics["useful/mean"]

names = []
for number, row in enumerate(rows):
    whole, session = row["messages"], f"talk-{number}"
    names += [ask(whole[:2], session), ask(whole, session)]
    for annotator, shift in (("ann", 0), ("bob", 1)):
        value = min(5, 1 + shift + (len(whole[-1]["content"]) > 200) * 3)
        mlflow.log_feedback(trace_id=names[-2], name="polite", value=value, source=AssessmentSource("HUMAN", annotator), metadata={"mlflow.trace.session": session})
mlflow.log_feedback(trace_id=names[0], name="polite", value=1, source=AssessmentSource("LLM_JUDGE", "model"))
mine = traces(names)
try:
    mlflow.genai.make_judge(name="polite", instructions="Is it polite? {{ conversation }}", model="openai:/x").align(mine, AccordOptimizer())
except NotImplementedError as error:
    found["refused"] = str(error)
real = mlflow.genai.make_judge(name="polite", instructions="Is it polite? {{ conversation }}", model="openai:/x")
judge = AccordOptimizer(folder="aligned", metrics=["words"], folds=2, draws=20).align(real, mine)
found["annotators"] = list(load_evaluator("aligned").annotators)
found["aligned"] = [judge.name, judge.is_session_level_scorer, judge.instructions]
found["aligned value"] = judge(session=mine[:2]).value
found["aligned expected"] = HostScorer(load_evaluator("aligned")).one([turn for turn in rows[0]["messages"]])["value"]
found["run"] = judge.run(session=mine[:2]).value
try:
    AccordOptimizer().align(real, traces(single))
except BadInput as error:
    found["no labels"] = str(error)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("mlflow")
    chats = support_chats()
    learned(chats[:10], ["words"]).save(folder / "judge")
    learned(chats[:8], ["words"]).save(folder / "other")
    rows = [
        {"id": chat.id, "messages": [{"role": turn.role, "content": turn.content} for turn in chat.turns]}
        for chat in chats[10:40] if len(chat.turns) >= 4 and len(chat.turns) % 2 == 0
    ]  # fmt: skip
    (folder / "chats.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[:16]), encoding="utf-8")
    (folder / "script.py").write_text(SCRIPT, encoding="utf-8")
    environment = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true", "MLFLOW_TRACKING_URI": ""}
    done = subprocess.run([sys.executable, "script.py"], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


def test_scorers_give_the_scores_of_the_evaluator(found: dict[str, Any]) -> None:
    assert found["single"][:3] == pytest.approx(found["expected"], rel=1e-9) and found["single"][3] is None
    assert found["session"] == pytest.approx(found["session expected"], rel=1e-9)
    assert found["is session"] == [False, True] and found["source"] == "accord:curves"
    assert found["evaluated"] == pytest.approx(sum(found["expected"][:2]) / 2)


def test_trace_without_messages_is_an_error_with_its_reason(found: dict[str, Any]) -> None:
    code, reason = found["error"]
    assert code == "UNSCORED" and reason and reason == found["stored error"]


def test_pushing_again_writes_nothing(found: dict[str, Any]) -> None:
    assert found["pushed"] == [4, 0, 1, 0]
    assert [len(each) for each in found["stored"]] == [1, 1, 1, 1, 1, 0]
    assert [each[0][1] for each in found["stored"][:3]] == pytest.approx(found["expected"])
    assert found["stored session"] == "s1"
    assert found["after another evaluator"] == [1, 1, 1, 1]


def test_optimizer_learns_from_every_annotator_of_sessions(found: dict[str, Any]) -> None:
    assert "not supported for session-level" in found["refused"]
    assert found["annotators"] == ["ann", "bob"]
    assert found["aligned"] == ["polite", True, "Is it polite? {{ conversation }}"]
    assert found["aligned value"] == found["run"] == pytest.approx(found["aligned expected"])
    assert "4 traces have no assessment 'polite' by people" in found["no labels"]
