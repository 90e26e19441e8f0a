"""Every host gives the scores of `accord score`, and no score with a reason; examples of the docs run in the real package."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from commands import read_rows, write_rows
from live_evaluator import CONTEXT, QUESTION, fitted, learned, replies, support_chats
from special_files import make_link

from accord import Conversation, Document, Label, Labels, Project, Reward, Turn
from accord.edges import BadInput
from accord.hosts.promptfoo import get_assert
from accord.hosts.shared.scores import HostScorer, MissingHost, exchange, fields_about, open_scorer, require
from accord.learning import EvaluatorSettings, make_evaluator
from accord.project import Config
from accord.scoring import ScoreOptions
from accord.testing import sample_project
from accord.values import Sample

ROOT = Path(__file__).parents[1]
QUIET = {
    "DEEPEVAL_TELEMETRY_OPT_OUT": "YES", "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true", "LOGFIRE_SEND_TO_LOGFIRE": "false",
    "MLFLOW_TRACKING_URI": "sqlite:///mlflow.db", "PYTHONWARNINGS": "ignore", "BRAINTRUST_API_KEY": "", "INSPECT_LOG_DIR": "logs", "VF_TELEMETRY": "0",
}  # fmt: skip
"""Settings that switch off telemetry and uploads."""
PACKAGES = {
    "MLflow": "mlflow", "DeepEval": "deepeval", "pydantic-evals": "pydantic_evals", "promptfoo": "accord", "Braintrust": "braintrust",
    "Inspect": "inspect_ai", "verifiers": "verifiers", "TRL": "accord",
}  # fmt: skip
"""Heading of each example of the docs, and the package that it needs."""
PRELUDE = """
import asyncio, json
rows = [json.loads(line) for line in open("chats.jsonl")]
"""
CONTRACT = {
    "pytest": """
from accord.hosts.shared.assertions import assert_score
found = []
for row in rows:
    try:
        assert_score([row, {**rows[0], "id": "first"}], mean_at_least=4, evaluator="evaluators/default")
    except AssertionError as error:
        lines = str(error).splitlines()
        if "no score" in lines[1]:
            found.append([None, lines[1]])
        else:
            mean = float(lines[0].split(": ")[1].split(",")[0])
            first = found[0][0] if found else mean
            found.append([2 * mean - first, ""])
""",
    "MLflow": """
import mlflow
from accord.hosts.mlflow import trace_scorer
mlflow.set_experiment("contract")
@mlflow.trace
def bot(messages):
    mlflow.update_current_trace(metadata={"system": system})
    return messages_of_reply
scorer, found = trace_scorer("evaluators/default"), []
for row in rows:
    messages_of_reply, system = row["messages"][-1], row["system"]
    bot(row["messages"][:-1])
    mlflow.flush_trace_async_logging()
    feedback = scorer(trace=mlflow.get_trace(mlflow.get_last_active_trace_id()))
    found.append([feedback.value, feedback.error_message or ""])
""",
    "DeepEval": """
from deepeval import evaluate
from deepeval.evaluate.configs import DisplayConfig
from deepeval.test_case import ConversationalTestCase, Turn
from accord.hosts.deepeval import AccordMetric
quiet = DisplayConfig(print_results=False, show_indicator=False)
cases = [ConversationalTestCase(name=row["id"], metadata={"system": row["system"]}, turns=[
    Turn(**turn, retrieval_context=row["documents"] if turn is row["messages"][-1] else None) for turn in row["messages"]
]) for row in rows]
by = {each.name: each for each in evaluate(cases, [AccordMetric("evaluators/default")], display_config=quiet).test_results}
found = []
for row, case in zip(rows, cases):
    metric = AccordMetric("evaluators/default")
    metric.measure(case)
    assert (metric.score is None) == (metric.error is not None) and (metric.score is not None or not metric.is_successful())
    [shown] = by[row["id"]].metrics_data
    assert (shown.score, shown.error, shown.success) == (metric.score, metric.error, metric.is_successful())
    found.append([None if metric.score is None else 1 + 3 * metric.score, metric.error or ""])
""",
    "pydantic-evals": """
from pydantic_evals import Case, Dataset
from accord.hosts.pydantic_evals import AccordEvaluator
cases = [Case(name=row["id"], inputs=row["messages"][:-1], metadata={"system": row["system"], "documents": row["documents"]})
         for row in rows]
replies = {json.dumps(row["messages"][:-1]): row["messages"][-1]["content"] for row in rows}
report = Dataset(name="chats", cases=cases, evaluators=[AccordEvaluator("evaluators/default")]).evaluate_sync(
    lambda given: replies[json.dumps(given)], progress=False)
by = {case.name: case for case in report.cases}
assert all(case.scores["useful"].evaluator_version for case in by.values() if case.scores)
found = [[by[row["id"]].scores["useful"].value, ""] if by[row["id"]].scores else
         [None, by[row["id"]].evaluator_failures[0].error_message] for row in rows]
""",
    "promptfoo": """
from accord.hosts.promptfoo import get_assert
found = []
for row in rows:
    given = {"vars": {"context": row["documents"]}, "test": {"metadata": {"system": row["system"]}}}
    context = {"prompt": json.dumps(row["messages"][:-1]), "config": {"evaluator": "evaluators/default"}, **given}
    made = get_assert(row["messages"][-1]["content"], context)
    found.append([1 + 3 * made["score"], ""] if made["pass"] else [None, made["reason"]])
""",
    "Braintrust": """
from braintrust import Eval
from accord.hosts.braintrust import scorer
data = [{"input": row["messages"][:-1], "expected": row["messages"][-1]["content"], "id": row["id"],
         "metadata": {"system": row["system"], "documents": row["documents"]}} for row in rows]
replies = {json.dumps(row["input"]): row["expected"] for row in data}
given = scorer("evaluators/default")
reasons = []
def kept(input, output, **more):
    made = given(input, output, **more)
    reasons.append((json.dumps(input), made))
    return made
result = Eval("chats", data=data, task=lambda given: replies[json.dumps(given)], scores=[kept], no_send_logs=True)
by = dict(reasons)
shares = {json.dumps(each.input): each.scores["useful"] for each in result.results}
assert all(shares[name] == each.score for name, each in by.items())
found = [[None if each.score is None else 1 + 3 * each.score, each.metadata["reason"]] for row in data for each in [by[json.dumps(row["input"])]]]
""",
    "Inspect": """
import math
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageAssistant, ChatMessageUser, ModelOutput
from inspect_ai.solver import solver
from accord.hosts.inspect import accord_scorer
made = {"user": ChatMessageUser, "assistant": ChatMessageAssistant}
@solver
def nothing():
    async def solve(state, generate):
        return state
    return solve
samples = [Sample(id=row["id"], input=[made[turn["role"]](content=turn["content"]) for turn in row["messages"]],
                  metadata={"system": row["system"], "documents": row["documents"]}) for row in rows]
[log] = eval(Task(dataset=samples, solver=nothing(), scorer=accord_scorer("evaluators/default")), model="mockllm/model", display="none")
assert log.status == "success", log.error
by = {sample.id: sample.scores["accord_scorer"] for sample in log.samples}
found = [[None if math.isnan(score.value) else score.value, score.explanation] for row in rows for score in [by[row["id"]]]]
mean = log.results.scores[0].metrics["mean"].value
scored = [value for value, _ in found if value is not None]
assert abs(mean - sum(scored) / len(scored)) < 1e-9
""",
    "verifiers": """
import verifiers.v1 as vf
from accord.hosts.verifiers import AccordJudge
made = {"user": vf.UserMessage, "assistant": vf.AssistantMessage}
judge, found = AccordJudge("evaluators/default"), []
for row in rows:
    nodes = [vf.MessageNode(parent=place - 1 if place else None, message=made[turn["role"]](content=turn["content"]))
             for place, turn in enumerate(row["messages"])]
    task = vf.TraceTask(type="Chat", data=vf.TaskData(prompt="Hi."))
    about = {"system": row["system"], "documents": row["documents"]}
    trace = vf.Trace(task=task, agent=vf.AgentInfo(config=vf.AgentConfig()), nodes=nodes, info=about)
    try:
        found.append([asyncio.run(judge.score(task.data, trace)), ""])
    except Exception as error:
        found.append([None, str(error)])
""",
    "TRL": """
from accord import Reward, load_evaluator
reward = Reward(load_evaluator("evaluators/default"), missing=-1.0)
values = reward([row["messages"][:-1] for row in rows], [row["messages"][-1:] for row in rows],
                documents=[row["documents"] for row in rows], system=[row["system"] for row in rows])
found = [[None, "no words"] if value == -1.0 else [value, ""] for value in values]
""",
}
"""Scripts that score the same conversations in each host: `found` has the value in units of the scale, and the reason."""


def with_context(place: int, reply: Sample) -> Conversation:
    """Return a conversation up to a reply, of one of two versions of an assistant that was shown half of it or nothing."""
    turns = reply.conversation.turns[: (reply.turn or 0) + 1]
    words = turns[-1].content.split()
    shown = Document(" ".join(words[: len(words) // 2] if place % 4 < 2 else ["Opening", "hours"]))
    return Conversation(f"chat-{place}", tuple(turns), (shown,), {"system": f"bot-{place % 2}"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an evaluator whose scores depend on the assistant's version and on documents, and conversations."""
    folder = tmp_path_factory.mktemp("hosts")
    chats = [with_context(*each) for each in enumerate(replies(*support_chats())[:70])]
    samples = [Sample(chat, len(chat.turns) - 1) for chat in chats[:60]]
    labels = Labels(Label(each.target, "useful", "ann", 1 + 2 * (place % 2) + (place % 4 < 2))
                    for place, each in enumerate(samples))  # fmt: skip
    settings = EvaluatorSettings(head="curves", settings={"shift_groups": ["system"]})
    metrics = {"metrics": {"names": ("words", "document-share")}}
    evaluator = make_evaluator("default", settings, QUESTION, CONTEXT, ("metrics",), metrics)
    fitted(evaluator, samples, labels).save(folder / "evaluators" / "default")
    rows: list[Any] = [
        {
            "id": chat.id, "system": chat.system, "documents": [document.text for document in chat.documents],
            "messages": [{"role": turn.role, "content": turn.content} for turn in chat.turns],
        }
        for chat in chats[60:]
    ]  # fmt: skip
    wordless = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": ""}]
    rows.append({"id": "wordless", "messages": wordless, "system": "bot-1", "documents": []})
    write_rows(str(folder / "chats.jsonl"), rows)
    write_rows(str(folder / "no-documents.jsonl"), [{**row, "documents": []} for row in rows])
    write_rows(str(folder / "bare.jsonl"), [{"id": row["id"], "messages": row["messages"]} for row in rows])
    return folder


def scored(folder: Path, file: str) -> list[float | None]:
    """Return the scores of `accord score`."""
    with Project(Config(store="sqlite:///:memory:"), CONTEXT.rubric) as project:
        options = ScoreOptions(turns="last")
        scores = project.score(folder / file, evaluator=folder / "evaluators" / "default", options=options)
        rows = {row["conversation"]: row["value"] for row in scores}
    return [rows[row["id"]] for row in read_rows(str(folder / file))]


@pytest.fixture(scope="module")
def expected(folder: Path) -> dict[str, list[float | None]]:
    """Scores of the conversations by the documents and versions that a host passes on."""
    found = {file: scored(folder, file) for file in ("chats.jsonl", "no-documents.jsonl", "bare.jsonl")}
    differing = [len({values[place] for values in found.values()}) for place in range(10)]
    assert max(differing) == 3, "versions and documents change scores"
    return found


WITHOUT_DOCUMENTS = {"MLflow"}
"""Hosts whose records have no documents."""


def output_of(script: str, folder: Path) -> str:
    environment = {**os.environ, **QUIET}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def skip_without(package: str) -> None:
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")


@pytest.mark.parametrize("host", CONTRACT)
def test_host_gives_the_scores_of_accord_score_and_a_reason_without_one(
    host: str, folder: Path, expected: dict[str, list[float | None]]
) -> None:
    skip_without(PACKAGES.get(host, "pytest"))
    wanted = expected["no-documents.jsonl" if host in WITHOUT_DOCUMENTS else "chats.jsonl"]
    found = json.loads(output_of(f"{PRELUDE}{CONTRACT[host]}\nprint(json.dumps(found))", folder).splitlines()[-1])
    values = [value for value, _ in found]
    assert wanted[-1] is None and values[-1] is None and "no words" in found[-1][1]
    rounded = 5e-3 if host == "pytest" else 1e-9  # the message of an assertion has three decimals
    assert values[:-1] == pytest.approx([value for value in wanted if value is not None], abs=rounded)


def test_hosts_without_a_package_score_as_accord_score(folder: Path, expected: dict[str, list[float | None]]) -> None:
    host, rows = open_scorer(folder / "evaluators" / "default"), read_rows(str(folder / "chats.jsonl"))[:-1]
    wanted, bare = expected["chats.jsonl"][:-1], expected["bare.jsonl"][:-1]
    assert [row["value"] for row in host.score(rows)] == wanted
    about = [fields_about({"bot": row["system"]}, {"context": row["documents"], "system": ""}) for row in rows]
    assert [host.one(row["messages"], **given)["value"] for row, given in zip(rows, about, strict=True)] == wanted
    by_provider = {"provider": {"id": rows[0]["system"]}, "vars": {"context": rows[0]["documents"][0]}}
    context = {
        "prompt": json.dumps(rows[0]["messages"][:-1]),
        "config": {"evaluator": str(folder / "evaluators" / "default")},
    }
    made = get_assert(rows[0]["messages"][-1]["content"], {**context, **by_provider})
    assert made["score"] == pytest.approx(((wanted[0] or 0) - 1) / 3) and "scored without" not in made["reason"]
    made = get_assert(rows[0]["messages"][-1]["content"], context)
    assert made["score"] == pytest.approx(((bare[0] or 0) - 1) / 3)
    assert "scored without system, which changes scores of this evaluator" in made["reason"]
    reward = Reward(host.evaluator)
    given = [row["messages"][:-1] for row in rows], [row["messages"][-1:] for row in rows]
    documents, systems = [row["documents"] for row in rows], [row["system"] for row in rows]
    assert reward(*given, documents, system=systems, completion_ids=[[1]] * len(rows)) == wanted
    assert reward(*given, trainer_state=object()) == bare


def examples() -> dict[str, str]:
    """Return the example of each host by its heading."""
    text = (ROOT / "docs" / "hosts.md").read_text(encoding="utf-8")
    sections = (section.partition("\n") for section in re.split(r"^## ", text, flags=re.M)[1:])
    blocks = {name: re.findall(r"^```py\n(.*?)^```", body, flags=re.M | re.S) for name, _, body in sections}
    return {name: found[0] for name, found in blocks.items() if found}


def test_docs_have_a_short_example_of_every_host() -> None:
    assert examples().keys() == PACKAGES.keys()
    assert all(sum(map(bool, example.splitlines())) <= 11 for example in examples().values())


@pytest.mark.parametrize("host", PACKAGES)
def test_example_of_the_docs_runs_in_the_real_package(host: str, folder: Path, tmp_path: Path) -> None:
    skip_without(PACKAGES[host])
    make_link(tmp_path / "evaluators", folder / "evaluators")
    assert re.search(r"\d", output_of(examples()[host], tmp_path).splitlines()[-1])


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (None, "accord.hosts.deepeval needs deepeval 4.3 or later, which is not installed. Install it: pip install"),
        ("4.2.9", "accord.hosts.deepeval needs deepeval 4.3 or later, and 4.2.9 is installed. Upgrade it: pip install"),
    ],
)
def test_missing_or_old_package_is_one_sentence_with_the_command(
    monkeypatch: pytest.MonkeyPatch, found: str | None, words: str
) -> None:
    def version(name: str) -> str:
        if found is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return found

    monkeypatch.setattr("accord.hosts.shared.scores.version", version)
    with pytest.raises(MissingHost) as raised:
        require("deepeval", "4.3", "deepeval")
    assert str(raised.value).startswith(words) and "[deepeval]" in str(raised.value) and "\n" not in str(raised.value)
    assert isinstance(raised.value, ImportError)


@pytest.mark.parametrize(
    ("found", "is_enough"), [("4.3", True), ("4.10.0rc1", True), ("5", True), ("4.3.dev1", True), ("4.2", False)]
)
def test_versions_are_compared_as_numbers(monkeypatch: pytest.MonkeyPatch, found: str, is_enough: bool) -> None:
    monkeypatch.setattr("accord.hosts.shared.scores.version", lambda name: found)
    if is_enough:
        assert require("json", "4.3", "deepeval") is json
    else:
        with pytest.raises(MissingHost):
            require("json", "4.3", "deepeval")


def test_every_required_version_is_that_of_the_extra() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for path in (ROOT / "src" / "accord" / "hosts").glob("*.py"):
        for package, version, extra in re.findall(
            r'require\(\s*"([\w-]+)", "([\d.]+)", "([\w-]+)"', path.read_text(encoding="utf-8")
        ):
            assert f'{extra} = ["{package}>={version}"]' in text, path.name
            assert path.stem.replace("_traces", "") == extra.replace("-", "_")


def test_evaluator_is_opened_from_a_folder_a_project_or_as_it_is(tmp_path: Path) -> None:
    with sample_project() as project:
        fitted = project.fit("constant")
        row = {"id": "a", "prompt": "Hi.", "response": "Hello!"}
        opened = [open_scorer(each) for each in (fitted.folder, fitted.evaluator, project, str(fitted.folder))]
        values = {each.score([row])[0]["value"] for each in opened}
        assert len(values) == 1 and opened[2].project is project and open_scorer(opened[0]) is opened[0]
    with pytest.raises(BadInput, match="holds neither an evaluator .* nor a project"):
        open_scorer(tmp_path)


def test_repeated_ids_and_broken_rows_are_scored_one_by_one() -> None:
    scorer = HostScorer(learned(support_chats()[:10], ["words"]))
    rows = [
        {"id": "a", "messages": [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": text}]}
        for text in ("Yes.", "No " * 300)
    ]
    first, second, broken = scorer.score([*rows, {"id": "b", "messages": 3}])
    assert first["value"] != second["value"] and first["conversation"] == second["conversation"] == "a"
    assert broken["value"] is None and broken["unscored"] and broken["conversation"] == "b"
    assert scorer.share(broken) is None and 0 <= (scorer.share(first) or 0) <= 1


def test_many_threads_of_a_host_get_the_scores_of_one() -> None:
    scorer = HostScorer(learned(support_chats()[:10], ["words"]))
    chats = [[turn.to_json() for turn in chat.turns] for chat in support_chats()[10:30]]
    expected = [scorer.one(chat)["value"] for chat in chats]
    with ThreadPoolExecutor(50) as pool:
        found = list(pool.map(lambda chat: scorer.one(chat)["value"], chats * 10))
    assert len(set(expected)) > 10 and found == expected * 10


def test_failure_of_one_conversation_leaves_the_others_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluator = learned(support_chats()[:10], ["words"])
    scorer = HostScorer(evaluator)
    scores = scorer._scorer.scores

    def fail(samples: Any, models: Any) -> Any:
        if any(sample.conversation.id == "bad" for sample in samples):
            raise RuntimeError("no \x1b[31mluck")
        return scores(samples, models)

    monkeypatch.setattr(scorer._scorer, "scores", fail)
    chats = [chat_of("a"), chat_of("bad"), chat_of("c")]
    rows = scorer.score(chats)
    assert [row["value"] is None for row in rows] == [False, True, False]
    assert rows[1]["unscored"] == "failed: no \\u001b[31mluck"


def chat_of(name: str) -> Any:
    return {"id": name, "messages": [Turn("user", "Hi.").to_json(), Turn("assistant", "Hello there.").to_json()]}


@pytest.mark.parametrize(
    ("given", "output", "roles"),
    [
        ("Hi.", "Hello.", ["user", "assistant"]),
        ([{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi."}], {"role": "assistant", "content": "Hello."}, ["system", "user", "assistant"]),
        (None, {"messages": [{"role": "user", "content": "Hi."}]}, ["user"]),
        ({"messages": [{"role": "user", "content": "Hi."}]}, "", ["user", "assistant"]),
        ("Hi.", None, ["user", "assistant"]),
    ],
)  # fmt: skip
def test_inputs_and_outputs_become_messages(given: Any, output: Any, roles: list[str]) -> None:
    assert [each["role"] for each in exchange(given, output)] == roles
