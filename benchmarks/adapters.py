"""Tools that an evaluator works in: version, lines of our module, lines that a user writes, and a round trip.

    python benchmarks/adapters.py [--only NAME,...] [--quick] --json OUT

Each row is a tool. Columns:

version     version of the installed tool, or of the public client of a host; null without one
lines       lines of code of our modules, without imports, docstrings, comments and blank lines
user_lines  lines that a user writes: code, settings and commands
round_trip  true if scores went to the tool and came back with the same values: through the real package, or for a
            hosted tool through the loopback server of the tests, which is strict about the documented schema
reason      why there was no round trip
seconds     time of the round trip with the start of its processes

`ACCORD_TEST_NAME`, such as `ACCORD_TEST_TRL`, names a Python with a tool that does not fit into this environment.
`ACCORD_PROMPTFOO` names the command of promptfoo; by default it is the one on the path.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from architecture import code_lines, read_files
from harness import Row, chosen, finish, options

ROOT = Path(__file__).parents[1]
COLUMNS = ["what", "version", "lines", "user_lines", "round_trip", "seconds", "reason"]
QUIET = {
    "DEEPEVAL_TELEMETRY_OPT_OUT": "YES", "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true",
    "MLFLOW_TRACKING_URI": "sqlite:///mlflow.db", "PYTHONWARNINGS": "ignore", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "PYTEST_ADDOPTS": "", "GITHUB_TOKEN": "", "GITHUB_STEP_SUMMARY": "summary.md", "BRAINTRUST_API_KEY": "",
    "PROMPTFOO_DISABLE_TELEMETRY": "1", "PROMPTFOO_DISABLE_UPDATE": "1", "PROMPTFOO_CONFIG_DIR": "promptfoo",
    "NO_PROXY": "127.0.0.1",
}  # fmt: skip
"""Settings that switch off telemetry and uploads."""


class NoRoundTrip(Exception):
    """The reason why scores did not go to a tool and back."""


@dataclass(frozen=True)
class Folder:
    """Folder of a project with the evaluators `constant` and `default`, scores of 20 conversations, and a command.

    Attributes:
        path: The folder.
        scores: Rows of `scores.jsonl`.
    """

    path: Path
    scores: list[Row] = field(default_factory=list)

    def run(self, *command: str, name: str = "", **environment: str) -> str:
        """Run a command in the folder and return its output.

        Raises:
            NoRoundTrip: The command fails; the reason is its last line.
        """
        path = f"{self.path / 'bin'}{os.pathsep}{os.environ['PATH']}"
        sources = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        known = {**os.environ, **QUIET, "PATH": path, "RUNNER_TEMP": str(self.path), "PYTHONPATH": sources}
        done = subprocess.run(
            command, cwd=self.path, env={**known, **environment}, capture_output=True, text=True, timeout=600
        )
        if done.returncode:
            lines = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()
            raise NoRoundTrip(f"{name or Path(command[0]).name} failed: {lines[-1][:200]}")
        return done.stdout

    def python(self, name: str, code: str) -> str:
        """Run a script with the Python of a tool, and return its output."""
        (self.path / "example.py").write_text(code, encoding="utf-8")
        return self.run(python_of(name), "example.py", name="the example")


@dataclass(frozen=True)
class Tool:
    """A tool with our files for it.

    Attributes:
        files: Our files, from the root of the repository.
        user: Code, settings and commands of a user; empty for the example of docs/hosts.md or docs/scale.md.
        trip: Sends scores through the tool and compares them; raises an error if they differ.
        package: Distribution of the tool; empty for a tool without one.
        is_hosted: True if the loopback server replaces the tool, so that the package is not needed.
        is_quick: True if the round trip takes a few seconds.
    """

    files: tuple[str, ...]
    trip: Callable[[Folder, str], None]
    user: str = ""
    package: str = ""
    is_hosted: bool = False
    is_quick: bool = False


def python_of(name: str) -> str:
    """Return the Python that has a tool."""
    return os.environ.get(f"ACCORD_TEST_{name.upper().replace('-', '_')}", sys.executable)


@cache
def version_of(name: str, package: str) -> str | None:
    """Return the installed version of a package, or None; that of promptfoo, which is no package, from its command."""
    if name == "promptfoo":
        if (command := promptfoo_command()) is None:
            return None
        done = subprocess.run([command, "--version"], env={**os.environ, **QUIET}, capture_output=True, text=True)
        found = re.search(r"^\d+\.\d+\S*$", done.stdout, flags=re.M)
        return found and found[0]
    code = f"from importlib.metadata import version; print(version({package!r}))"
    done = subprocess.run([python_of(name), "-c", code], capture_output=True, text=True)
    return done.stdout.strip() if package and not done.returncode else None


def need(is_met: bool, reason: str) -> None:
    """Raise an error if a condition of a round trip is not met."""
    if not is_met:
        raise NoRoundTrip(reason)


# --- tools whose example runs in a process of its own ---------------------------------------------------------------


def example_of(name: str) -> str:
    """Return the code of a user: the example of docs/hosts.md with this heading."""
    text = (ROOT / "docs" / "hosts.md").read_text(encoding="utf-8")
    section = re.split(rf"^## {re.escape(name)}\n", text, flags=re.M | re.I)[1].partition("\n## ")[0]
    found = re.search(r"^```py\n(.*?)^```", section, flags=re.M | re.S)
    assert found is not None, f"docs/hosts.md has no example of {name}"
    return found[1]


def run_example(folder: Folder, name: str) -> None:
    """Run the example of the docs; it prints a score of the evaluator, which is a constant for every conversation."""
    printed = folder.python(name, TOOLS[name].user or example_of(name))
    check_printed(folder, printed)


def run_mlflow(folder: Folder, name: str) -> None:
    """Run the example of the docs, and read the assessments back from the tracking store."""
    printed = folder.python(name, example_of(name) + MLFLOW_READ)
    check_printed(folder, printed.splitlines()[-1])


MLFLOW_READ = """
print([each.value for trace in mlflow.search_traces(return_type="list") for each in trace.info.assessments])
"""


def check_printed(folder: Folder, printed: str) -> None:
    """Check that an output has the score of the evaluator, on the scale from 1 to 4 or as a share of it."""
    numbers = [float(number) for number in re.findall(r"-?\d+\.\d+", printed)]
    value = folder.scores[0]["value"]
    shown = [abs(number - each) < 2e-3 for number in numbers for each in (value, (value - 1) / 3)]
    need(any(shown), f"no score {value:.3f} in the output {printed.strip()[-100:]!r}")


PYTEST = """from accord.hosts.pytest_plugin import assert_score

def test_replies_are_good():
    assert_score("chats.jsonl", mean_at_least=1, evaluator="evaluators/constant")
"""
GATE = "accord gate --min-mean 1 --include-training --allow-unproven --junit gate.xml --markdown gate.md"


def run_pytest(folder: Folder, name: str) -> None:
    """Run a test that passes, and one that fails with the reason."""
    run = (sys.executable, "-m", "pytest", "-p", "accord.hosts.pytest_plugin", "-p", "no:cacheprovider", "-q")
    (folder.path / "test_example.py").write_text(PYTEST, encoding="utf-8")
    need("1 passed" in folder.run(*run, "test_example.py"), "the test did not pass")
    (folder.path / "test_failing.py").write_text(PYTEST.replace("=1", "=4"), encoding="utf-8")
    try:
        folder.run(*run, "test_failing.py")
    except NoRoundTrip as error:
        need("failed" in str(error), str(error))
    else:
        raise NoRoundTrip("a mean below its limit passed")


def run_gate(folder: Folder, name: str) -> None:
    """Run the gate, and read its JUnit file as a CI system does."""
    from xml.etree import ElementTree

    folder.run("sh", "-c", GATE)
    cases = list(ElementTree.parse(folder.path / "gate.xml").iter("testcase"))
    need(len(cases) == 3, f"the JUnit file has {len(cases)} conditions")


def run_action(folder: Folder, name: str) -> None:
    """Run the script of the GitHub action, which writes the table of the job page."""
    folder.run("bash", str(ROOT / "ci" / "gate.sh"), "--min-mean", "1", "--include-training", "--allow-unproven")
    need("mean of the latest scores" in (folder.path / "summary.md").read_text(encoding="utf-8"), "no table")


def promptfoo_command() -> str | None:
    """Return the command of promptfoo, or None."""
    return os.environ.get("ACCORD_PROMPTFOO") or shutil.which("promptfoo")


def run_promptfoo(folder: Folder, name: str) -> None:
    """Let promptfoo itself call the assertion, with a provider that repeats the prompt, and read its results."""
    if (command := promptfoo_command()) is None:
        raise NoRoundTrip("promptfoo is not installed; npm install promptfoo")
    (folder.path / "accord_assert.py").write_text(PROMPTFOO_FILE, encoding="utf-8")
    (folder.path / "promptfooconfig.yaml").write_text(
        "prompts: ['Where is my order?']\nproviders: [echo]\ntests:\n  - " + PROMPTFOO.replace("\n", "\n    "),
        encoding="utf-8",
    )
    folder.run(command, "eval", "--no-cache", "--output", "results.json", PROMPTFOO_PYTHON=sys.executable)
    [result] = json.loads((folder.path / "results.json").read_text(encoding="utf-8"))["results"]["results"]
    value, score = folder.scores[0]["value"], result["gradingResult"]["componentResults"][0]["score"]
    need(abs(1 + 3 * score - value) < 1e-6, f"promptfoo shows {score}, the evaluator gives {value}")


PROMPTFOO_FILE = "from accord.hosts.promptfoo import get_assert\n"
PROMPTFOO = """assert:
  - type: python
    value: file://accord_assert.py
    config: { evaluator: evaluators/default, at_least: 1 }
"""


def run_trl(folder: Folder, name: str) -> None:
    """Train a model with random weights for one step of GRPO with the reward."""
    printed = folder.python(name, TRL)
    need(f"{folder.scores[0]['value']:.3f}" in printed, f"the trainer logged {printed.strip()[-100:]}")


TRL = """
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer
from accord import Reward, load_evaluator

words = {word: place for place, word in enumerate("[PAD] [EOS] where is my order it arrives on Monday".split())}
tokenizer = Tokenizer(models.WordLevel(words, unk_token="[EOS]"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", eos_token="[EOS]")
config = LlamaConfig(vocab_size=len(words), hidden_size=16, intermediate_size=16, num_hidden_layers=1,
                     num_attention_heads=2, pad_token_id=0, eos_token_id=1)
args = GRPOConfig(output_dir="trl", max_steps=1, per_device_train_batch_size=2, num_generations=2,
                  max_completion_length=4, report_to=[], logging_steps=1, use_cpu=True, bf16=False)
trainer = GRPOTrainer(model=LlamaForCausalLM(config), reward_funcs=Reward(load_evaluator("evaluators/default")),
                      args=args, train_dataset=Dataset.from_dict({"prompt": ["where is my order"] * 4}),
                      processing_class=tokenizer)
trainer.train()
print(f"{trainer.state.log_history[0]['reward']:.3f}")
"""
TRL_USER = "reward = Reward(load_evaluator(FOLDER))\nGRPOTrainer(..., reward_funcs=reward)"
SPARK = """
from pyspark.sql import SparkSession
spark = (SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
         .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1").getOrCreate())
"""
SPARK_USER = """import accord

chats = spark.read.parquet("chats.parquet")
accord.score_frame(chats, "evaluators/default").write.parquet("scored")
"""


def run_spark(folder: Folder, name: str) -> None:
    """Score a file on a local Spark, and compare its rows with `accord score`."""
    import polars as pl

    rows = [json.loads(line) for line in (folder.path / "chats.jsonl").read_text("utf-8").splitlines()]
    messages = [[{"role": each["role"], "content": each["content"]} for each in row["messages"]] for row in rows]
    pl.DataFrame({"id": [row["id"] for row in rows], "messages": messages}).write_parquet(folder.path / "chats.parquet")
    (folder.path / "example.py").write_text(SPARK + SPARK_USER, encoding="utf-8")
    folder.run(python_of(name), "example.py", name="Spark", PYSPARK_PYTHON=python_of(name))
    scored = pl.read_parquet(folder.path / "scored/*.parquet")
    compare(folder, dict(zip(scored["conversation"], scored["value"], strict=True)))


def compare(folder: Folder, found: dict[str, float]) -> None:
    """Compare values by conversation with the scores of `accord score`."""
    expected = {row["conversation"]: row["value"] for row in folder.scores}
    off = [name for name, value in expected.items() if abs(found.get(name, float("nan")) - value) > 1e-6]
    off += [name for name in expected if name not in found]
    need(not off and found.keys() == expected.keys(), f"{len(off)} of {len(expected)} scores differ")


# --- agents and annotation tools ------------------------------------------------------------------------------------


def run_mcp(folder: Folder, name: str) -> None:
    """Ask the server for each score by the client of the official package."""
    import anyio
    from mcp import Client, StdioServerParameters, stdio_client

    server = StdioServerParameters(
        command=sys.executable, args=["-m", "accord", "mcp"], cwd=str(folder.path), env=dict(os.environ)
    )

    async def ask() -> dict[str, float]:
        found = {}
        with open(os.devnull, "w", encoding="utf-8") as errors:
            async with Client(stdio_client(server, errlog=errors)) as client:
                for row in folder.scores:
                    result = await client.call_tool("why_score", {"conversation": row["conversation"]})
                    found[row["conversation"]] = json.loads(result.content[0].text)["scores"][0]["value"]
        return found

    compare(folder, anyio.run(ask))


def run_label_studio(folder: Folder, name: str) -> None:
    """Write tasks, let the SDK validate them, and read the answers of a person who accepts each prediction."""
    from label_studio_sdk.label_interface import LabelInterface

    from accord import Project, read
    from accord.formats import answer_to
    from accord.hosts import label_studio
    from accord.project import load_project

    folder.run("sh", "-c", LABEL_STUDIO)
    tasks = json.loads((folder.path / "tasks.json").read_text(encoding="utf-8"))
    with Project(load_project(folder.path / "accord.yaml")) as project:
        question = project.question
    interface = LabelInterface(label_studio.interface(question))
    interface.validate()
    errors = [each for task in tasks for one in task["predictions"]
              for each in interface.validate_prediction(one, return_errors=True)]  # fmt: skip
    need(not errors and len(tasks) == len(folder.scores), f"{len(tasks)} tasks, errors: {errors[:1]}")
    answered = [{**task, "annotations": [{**task["predictions"][0], "completed_by": 7}]} for task in tasks]
    (folder.path / "export.json").write_text(json.dumps(answered), encoding="utf-8")
    expected = {row["conversation"]: round(row["value"]) for row in folder.scores}
    records = list(read(folder.path / "export.json"))
    answers: dict[str, list[Any]] = {each.conversation.id: [*each.labels, *each.annotations] for each in records}
    found = {name: answer_to(question, each[0].value, question.id) for name, each in answers.items() if len(each) == 1}
    need(found == expected, f"answers that were read: {str(found)[:100]}")


LABEL_STUDIO = "accord push scores.jsonl --to label-studio --out tasks.json"

# --- the evaluator as a decision model, and scores as events --------------------------------------------------------


def run_systemone(folder: Folder, name: str) -> None:
    """Ask by the client of System One, and compare the probabilities of the answer."""
    from decision_service import CHAT, LEVELS
    from serving import TOKEN
    from typesafe_sdk import Score, TypeSafeClient

    with decision_service() as (port, shares):
        url = f"http://127.0.0.1:{port}"
        with TypeSafeClient(base_url=url, api_key=TOKEN, model="accord", compression=False) as client:
            found = client.system_one(CHAT, {"useful": Score(criteria=LEVELS)})
    need(list(found.scores["useful"].probabilities.values()) == shares, "the probabilities differ")


def run_decisions(folder: Folder, name: str) -> None:
    """Ask by OpenAI's client, and compare the probabilities of the answer."""
    from decision_service import CHAT, LEVELS
    from openai import OpenAI
    from serving import TOKEN

    chat: Any = CHAT
    levels = [{"label": each.partition(":")[0]} for each in LEVELS]
    question: Any = {"type": "score", "name": "useful", "levels": levels, "instructions": "Is it useful?"}
    with decision_service() as (port, shares), OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=TOKEN) as client:
        need(hasattr(client, "decisions"), "this version of openai has no decisions")
        found = client.decisions.create(model="accord", input=chat, questions=[question])
    answer: Any = found.answers[0]
    need([row.probability for row in answer.probabilities] == shares, "the probabilities differ")


def decision_service() -> Any:
    """Return a context with the port of a service and the probabilities of its score of the example."""
    from contextlib import contextmanager

    from decision_service import CHAT, fitted_project, served

    @contextmanager
    def serve() -> Iterator[tuple[int, list[float]]]:
        with (
            tempfile.TemporaryDirectory() as folder,
            fitted_project(Path(folder)) as project,
            served(project.load()) as port,
        ):
            [score] = project.score([{"id": "q", "messages": CHAT}]).scores
            yield port, list((score["distribution"] or {}).values())

    return serve()


def run_otel(folder: Folder, name: str) -> None:
    """Send the scores as log records to a collector, and compare the values."""
    from collector import collecting

    from accord.hosts.otel import EvaluationEvents

    with collecting() as (url, collector):
        events = EvaluationEvents(url)
        for row in folder.scores:
            events.emit(row, "useful", {"accord.evaluator.id": "default"})  # type: ignore[arg-type]
        events.close()
        values = sorted(each["gen_ai.evaluation.score.value"] for each in collector.attributes())
    expected = sorted(row["value"] for row in folder.scores)
    need(values == expected, f"{len(values)} of {len(expected)} records")


# --- scores sent to a host on the loopback interface ----------------------------------------------------------------

HOST_SETTINGS: dict[str, dict[str, str]] = {
    "langfuse": {"public_key": "${LANGFUSE_PUBLIC_KEY}", "secret_key": "${LANGFUSE_SECRET_KEY}"},
    "phoenix": {"api_key": "${PHOENIX_API_KEY}"},
    "langsmith": {"api_key": "${LANGSMITH_API_KEY}"},
}
SENT = 200
"""Scores that a host gets."""


def user_settings(host: str) -> str:
    """Return the lines of `accord.yaml` and of the shell until scores are at a host."""
    lines = [f"    {name}: {value}" for name, value in {"url": "URL", **HOST_SETTINGS[host]}.items()]
    return "\n".join(["push:", f"  {host}:", *lines, f"accord push scores.jsonl --to {host}"])


def run_push(folder: Folder, name: str) -> None:
    """Send scores to a host, kill the command midway and run it again: the host has each score once, with its band."""
    from host_servers import KEYS, HostServer

    from accord.formats import ScoreWriter
    from accord.values import Signature, Target, score_from

    keys = {"LANGFUSE_PUBLIC_KEY": KEYS["langfuse"][0], "LANGFUSE_SECRET_KEY": KEYS["langfuse"][1],
            "PHOENIX_API_KEY": str(KEYS["phoenix"]), "LANGSMITH_API_KEY": str(KEYS["langsmith"])}  # fmt: skip
    ids = [str(uuid.UUID(int=number + 1)) for number in range(SENT)]
    shares = [place / SENT for place in range(SENT)]
    made = [score_from(Target(each), "population", [0, 4], [1 - share, share], Signature("mixture"), (0.0, 4.0))
            for each, share in zip(ids, shares, strict=True)]  # fmt: skip
    with tempfile.TemporaryDirectory() as temporary, HostServer(name, set(ids)) as server:
        server.on_request = lambda: time.sleep(0.02)
        settings = {"url": server.url, **HOST_SETTINGS[name], "ids": "trace"}
        Path(temporary, "accord.yaml").write_text(json.dumps({"push": {name: settings}}), encoding="utf-8")
        with ScoreWriter(Path(temporary, "scores.jsonl")) as writer:
            writer.write(score.to_json() for score in made)
        command = [sys.executable, "-m", "accord", "push", "scores.jsonl", "--to", name]
        environment = {**os.environ, **QUIET, **keys}
        first = subprocess.Popen(command, cwd=temporary, env=environment, stdout=subprocess.DEVNULL)
        while len(server.stored) < SENT // 3 and first.poll() is None:
            time.sleep(0.002)
        first.kill()
        first.wait()
        subprocess.run(command, cwd=temporary, env=environment, check=True, stdout=subprocess.DEVNULL)
    held = {str(row.get("traceId") or row.get("trace_id")): _figures(row) for row in server.stored.values()}
    expected = {score.target.conversation: (round(score.value, 4), 0.0, 4.0) for score in made}
    need(len(server.stored) == SENT and held == expected, f"the host holds {len(server.stored)} scores of {SENT}")


def _figures(row: dict[str, Any]) -> tuple[float, float, float]:
    details = row.get("metadata") or row["feedback_source"]["metadata"]
    value = row.get("value", row.get("score", row.get("result", {}).get("score")))
    return round(float(value), 4), details["band_low"], details["band_high"]


# --- the table ------------------------------------------------------------------------------------------------------

HOSTS, DECISIONS = "src/accord/hosts", "src/accord/live/service/decision_requests.py"
PLUGIN = (f"{HOSTS}/pytest_plugin.py", f"{HOSTS}/shared/assertions.py", f"{HOSTS}/shared/assertion_input.py")
ACTION = "- uses: accord-eval/accord@main\n  with:\n    arguments: --min-mean 1 --include-training\n"
MCP = '{"mcpServers": {"accord": {"command": "accord", "args": ["mcp"]}}}'
SYSTEM_ONE = "client = TypeSafeClient(base_url=URL, api_key=TOKEN, model='accord')\nclient.system_one(chat, questions)"
OPENAI = "client = OpenAI(base_url=URL, api_key=TOKEN)\nclient.decisions.create(model='accord', input=chat, ...)"
TOOLS = {
    "pytest": Tool(PLUGIN, run_pytest, PYTEST, "pytest", is_quick=True),
    "junit": Tool(("src/accord/verbs/gate_files.py",), run_gate, GATE, is_quick=True),
    "action": Tool(("action.yml", "ci/gate.sh"), run_action, ACTION, is_quick=True),
    "systemone": Tool((DECISIONS,), run_systemone, SYSTEM_ONE, "typesafe-sdk"),
    "decisions": Tool((DECISIONS,), run_decisions, OPENAI, "openai"),
    "mlflow": Tool((f"{HOSTS}/mlflow.py", f"{HOSTS}/mlflow_traces.py"), run_mlflow, package="mlflow"),
    "langfuse": Tool((f"{HOSTS}/langfuse.py",), run_push, user_settings("langfuse"), "langfuse", is_hosted=True),
    "phoenix": Tool((f"{HOSTS}/phoenix.py",), run_push, user_settings("phoenix"), "arize-phoenix-client", True),
    "langsmith": Tool((f"{HOSTS}/langsmith.py",), run_push, user_settings("langsmith"), "langsmith", is_hosted=True),
    "otel": Tool((f"{HOSTS}/otel.py",), run_otel, "monitoring: {otel: URL}", "opentelemetry-sdk"),
    "deepeval": Tool((f"{HOSTS}/deepeval.py",), run_example, package="deepeval"),
    "pydantic-evals": Tool((f"{HOSTS}/pydantic_evals.py",), run_example, package="pydantic-evals"),
    "promptfoo": Tool((f"{HOSTS}/promptfoo.py",), run_promptfoo, PROMPTFOO_FILE + PROMPTFOO),
    "braintrust": Tool((f"{HOSTS}/braintrust.py",), run_example, package="braintrust"),
    "inspect": Tool((f"{HOSTS}/inspect.py",), run_example, package="inspect-ai"),
    "verifiers": Tool((f"{HOSTS}/verifiers.py",), run_example, package="verifiers"),
    "trl": Tool(("src/accord/live/reward.py",), run_trl, TRL_USER, "trl"),
    "spark": Tool(("src/accord/scoring/frames.py",), run_spark, SPARK_USER, "pyspark"),
    "mcp": Tool((f"{HOSTS}/agents/mcp.py",), run_mcp, MCP, "mcp"),
    "label-studio": Tool((f"{HOSTS}/label_studio.py",), run_label_studio, LABEL_STUDIO, "label-studio-sdk"),
}  # fmt: skip
"""Tools by the name of their row; a new adapter is one entry."""


def lines_of(paths: tuple[str, ...]) -> int:
    """Return the lines of code in some files; in settings and scripts, lines that are neither empty nor comments."""
    missing = [path for path in paths if not (ROOT / path).is_file()]
    assert not missing, f"{missing} moved; correct TOOLS"
    named = {path.removeprefix("src/accord/") for path in paths}
    python = code_lines(file for file in read_files(ROOT / "src" / "accord") if file.path in named)
    other = [path for path in paths if not path.endswith(".py")]
    texts = (line.strip() for path in other for line in (ROOT / path).read_text("utf-8").splitlines())
    return python + sum(bool(line) and not line.startswith("#") for line in texts)


def measure(name: str, folder: Folder) -> Row:
    """Return the row of a tool."""
    tool = TOOLS[name]
    user = tool.user or example_of(name)
    row: Row = {"what": name, "version": version_of(name, tool.package), "lines": lines_of(tool.files)}
    row["user_lines"] = sum(bool(line.strip()) for line in user.splitlines())
    start = time.perf_counter()
    try:
        if tool.package and not tool.is_hosted and row["version"] is None:
            raise NoRoundTrip(f"{tool.package} is not installed")
        tool.trip(folder, name)
    except (NoRoundTrip, ImportError, OSError, subprocess.SubprocessError) as error:
        return {**row, "round_trip": False, "seconds": None, "reason": str(error)}
    return {**row, "round_trip": True, "seconds": round(time.perf_counter() - start, 1), "reason": None}


def prepare(folder: Path) -> Folder:
    """Make a project with evaluators, scores, and a command `accord` of this Python."""
    from accord import Project
    from accord.project import load_project
    from accord.sample import sources

    chats, labels = sources()
    (folder / "bin").mkdir()
    for name, arguments in (("accord", "-m accord "), ("python", "")):
        (folder / "bin" / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments}"$@"\n', encoding="utf-8")
        (folder / "bin" / name).chmod(0o755)
    (folder / "chats.jsonl").write_text("".join(chats.read_text("utf-8").splitlines(True)[:20]), encoding="utf-8")
    store = f"sqlite:///{folder / 'accord.db'}"
    (folder / "accord.yaml").write_text(f"store: {store}\nmetrics: [words]\ndraws: 20\n", encoding="utf-8")
    with Project(load_project(folder / "accord.yaml")) as project:
        project.import_([chats, labels])
        evaluator = project.fit("constant", out=folder / "evaluators" / "constant").evaluator
        evaluator.save(folder / "evaluators" / "default")
        project.score(folder / "chats.jsonl", folder / "scores.jsonl", evaluator=evaluator)
    lines = (folder / "scores.jsonl").read_text(encoding="utf-8").splitlines()
    return Folder(folder, [json.loads(line) for line in lines])


def rows(names: list[str]) -> Iterator[Row]:
    """Yield the row of each tool."""
    with tempfile.TemporaryDirectory(prefix="accord-adapters-") as temporary:
        folder = prepare(Path(temporary))
        before = Path.cwd()
        os.chdir(temporary)  # services of the tests keep their files here
        try:
            for name in names:
                yield measure(name, folder)
        finally:
            os.chdir(before)


def main() -> None:
    """Measure all tools."""
    parser = options("adapters", "Tools that an evaluator works in: lines, and a round trip of scores.", list(TOOLS))
    arguments = parser.parse_args()
    names = chosen(parser, arguments.only, list(TOOLS))
    quick = [name for name in names if TOOLS[name].is_quick]
    out = None if arguments.json is None else arguments.json.resolve()
    finish("adapters", list(rows(quick if arguments.quick and arguments.only is None else names)), COLUMNS, out)


if __name__ == "__main__":
    main()
