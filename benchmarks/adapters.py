"""Adapters to other tools: version, lines of our module, lines that a user writes, and whether an example ran.

Each row runs the example of docs/hosts.md, or a small script, in a process of its own with the real package.
`round_trip` is true only if it ran: not for a tool that is not installed or that needs another language.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from harness import Row, chosen, finish, options

ROOT = Path(__file__).parents[1]
HOSTS = ROOT / "src" / "accord" / "hosts"
QUIET = {
    "DEEPEVAL_TELEMETRY_OPT_OUT": "YES", "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true",
    "MLFLOW_TRACKING_URI": "sqlite:///mlflow.db", "PYTHONWARNINGS": "ignore", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "PYTEST_ADDOPTS": "", "GITHUB_TOKEN": "", "GITHUB_STEP_SUMMARY": "summary.md", "BRAINTRUST_API_KEY": "",
}  # fmt: skip
"""Settings that switch off telemetry and uploads."""
COLUMNS = ["what", "version", "lines", "user_lines", "round_trip"]
PYTEST = """from accord.hosts.pytest_plugin import assert_score

def test_replies_are_good():
    assert_score("chats.jsonl", mean_at_least=1, evaluator="evaluators/constant")
"""
GATE = "accord gate --min-mean 1 --include-training --junit gate.xml --markdown gate.md"
ACTION = """- uses: accord-eval/accord@main
  with:
    arguments: --min-mean 1 --include-training
"""


@dataclass(frozen=True)
class Host:
    """A tool with our files for it.

    Attributes:
        package: Distribution of the tool; None for a tool without one.
        files: Our files, from the root of the repository.
        example: Code or settings of a user; None is the example of docs/hosts.md under the heading `heading`.
        heading: Heading of the example in docs/hosts.md.
        command: Command that runs it in the folder of a project; None runs the example as Python.
        runs: False for an example that calls our module alone, since the tool itself is in another language.
    """

    package: str | None
    files: tuple[str, ...]
    example: str | None = None
    heading: str = ""
    command: tuple[str, ...] | None = None
    runs: bool = True


PYTEST_RUN = (
    sys.executable,
    "-m",
    "pytest",
    "-p",
    "accord.hosts.pytest_plugin",
    "-p",
    "no:cacheprovider",
    "example.py",
)
ADAPTERS = {
    "pytest": Host("pytest", ("src/accord/hosts/pytest_plugin.py",), PYTEST, command=PYTEST_RUN),
    "junit": Host(None, ("src/accord/report/gate_files.py",), GATE, command=("sh", "example.py")),
    "action": Host(
        None, ("action.yml", "ci/gate.sh"), ACTION,
        command=("bash", str(ROOT / "ci" / "gate.sh"), "--min-mean", "1", "--include-training"),
    ),
    "mlflow": Host("mlflow", ("src/accord/hosts/mlflow.py", "src/accord/hosts/mlflow_traces.py"), heading="MLflow"),
    "deepeval": Host("deepeval", ("src/accord/hosts/deepeval.py",), heading="DeepEval"),
    "pydantic-evals": Host("pydantic-evals", ("src/accord/hosts/pydantic_evals.py",), heading="pydantic-evals"),
    "promptfoo": Host(None, ("src/accord/hosts/promptfoo.py",), heading="promptfoo", runs=False),
    "braintrust": Host("braintrust", ("src/accord/hosts/braintrust.py",), heading="Braintrust"),
    "inspect": Host("inspect-ai", ("src/accord/hosts/inspect.py",), heading="Inspect"),
    "trl": Host("trl", ("src/accord/live/reward.py",), heading="TRL"),
    "verifiers": Host("verifiers", ("src/accord/hosts/verifiers.py",), heading="verifiers"),
}  # fmt: skip
"""Tools by the name of their row; a new adapter is one entry."""


def example_of(host: Host) -> str:
    """Return the code or the settings of a user."""
    if host.example is not None:
        return host.example
    section = (ROOT / "docs" / "hosts.md").read_text(encoding="utf-8").partition(f"\n## {host.heading}\n")[2]
    found = re.search(r"^```py\n(.*?)^```", section.partition("\n## ")[0], flags=re.M | re.S)
    assert found is not None, f"docs/hosts.md has no example of {host.heading}"
    return found[1]


def version_of(host: Host) -> str | None:
    """Return the installed version of a tool, or None."""
    try:
        return None if host.package is None else version(host.package)
    except PackageNotFoundError:
        return None


def measure(name: str, folder: Path) -> Row:
    """Return the row of a tool, whose example runs in the folder of a project."""
    host, example = ADAPTERS[name], example_of(ADAPTERS[name])
    (folder / "example.py").write_text(example, encoding="utf-8")
    installed = version_of(host)
    is_there = host.runs and (host.package is None or installed is not None)
    command = list(host.command or (sys.executable, "example.py"))
    paths = {"PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}", "RUNNER_TEMP": str(folder)}
    ran = (
        is_there
        and not subprocess.run(
            command, cwd=folder, env={**os.environ, **QUIET, **paths}, capture_output=True
        ).returncode
    )
    lines = sum((ROOT / path).read_text(encoding="utf-8").count("\n") for path in host.files)
    user_lines = sum(bool(line.strip()) for line in example.splitlines())
    return {"what": name, "version": installed, "lines": lines, "user_lines": user_lines, "round_trip": bool(ran)}


def prepare(folder: Path) -> None:
    """Make a project with an evaluator, scores, and a command `accord` of this Python."""
    from accord.project import Config, Project
    from accord.sample import sources

    chats, labels = sources()
    (folder / "bin").mkdir()
    for name, arguments in (("accord", "-m accord "), ("python", "")):
        (folder / "bin" / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments}"$@"\n', encoding="utf-8")
        (folder / "bin" / name).chmod(0o755)
    (folder / "chats.jsonl").write_text("".join(chats.read_text("utf-8").splitlines(True)[:20]), encoding="utf-8")
    store = f"sqlite:///{folder / 'accord.db'}"
    (folder / "accord.yaml").write_text(f"store: {store}\nmetrics: [words]\n", encoding="utf-8")
    with Project(Config(store=store, metrics=["words"], draws=20)) as project:
        project.import_([chats, labels])
        evaluator = project.fit("constant", out=folder / "evaluators" / "constant").evaluator
        evaluator.save(folder / "evaluators" / "default")
        project.score(folder / "chats.jsonl", evaluator=evaluator)


def rows(names: list[str]) -> Iterator[Row]:
    """Yield the row of each tool."""
    with tempfile.TemporaryDirectory(prefix="accord-adapters-") as temporary:
        prepare(Path(temporary))
        for name in names:
            yield measure(name, Path(temporary))


def main() -> None:
    parser = options("adapters", "Adapters to other tools: lines, and whether an example ran.", list(ADAPTERS))
    arguments = parser.parse_args()
    names = chosen(parser, arguments.only, list(ADAPTERS))
    quick = [name for name in names if name in ("pytest", "junit", "action", "promptfoo")]
    finish("adapters", list(rows(quick if arguments.quick else names)), COLUMNS, arguments.json)


if __name__ == "__main__":
    main()
