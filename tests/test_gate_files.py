"""Files of the gate, and the script of the GitHub action against a server on loopback."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from markdown_it import MarkdownIt
from special_files import make_link
from typer.testing import CliRunner

from accord.cli.app import app
from accord.testing import sample_project
from accord.verbs.gate import NO_VERDICT, UNPROVEN, Check, verdict_checks
from accord.verbs.gate_files import gate_junit, gate_markdown, gate_text

ROOT = Path(__file__).parents[1]
HOSTILE = "r of <img src=x onerror=alert(1)> | [a](http://x) @team `b` \x1b[31m\x00"
CHECKS = [Check("mean", 2.0, 2.5, 2.7), Check(HOSTILE, 0.5, None), Check("rubric", 1.0, None, reason="it has\nchanged")]


def test_junit_file_has_a_case_for_each_condition_with_its_values() -> None:
    suite = ElementTree.fromstring(gate_junit(CHECKS))[0]
    assert (suite.attrib["tests"], suite.attrib["failures"]) == ("3", "2")
    first, second, third = suite.iter("testcase")
    values = {each.attrib["name"]: each.attrib["value"] for each in first.iter("property")}
    assert values == {"required": "2", "value": "2.5", "estimate": "2.7"} and first.find("failure") is None
    assert "<img" in second.attrib["name"] and "\\u001b" in second.attrib["name"]
    assert "it has\nchanged" in "".join(third.itertext())


def test_markdown_shows_texts_of_a_project_as_text() -> None:
    text = gate_markdown(CHECKS)
    page = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    assert "accord gate: failed: 2 of 3 conditions not met" in page and page.count("<tr>") == 4
    assert "<img" not in page and "<a " not in page and "<code>" not in page and "@team" not in text
    assert "it has changed" in page and "2.500" in page


def test_a_failed_condition_never_reads_as_a_met_one() -> None:
    close = Check("r", 0.5, 0.49996)
    assert str(close) == "r: 0.49996, required 0.5: failed" and "| 0.49996 | 0.5 |" in gate_markdown([close])


@pytest.mark.parametrize(
    ("state", "allow", "passes", "says"),
    [
        ("not yet", False, [False], "not shown to differ. Allow it with --allow-unproven"),
        ("not yet", True, [True], f"not shown to differ. Allowed: {UNPROVEN}; the gate passes without this proof"),
        ("triage", False, [True, True], "a mean of scores is not shown to follow people's mean rating"),
        ("systems", False, [True], "passed: Ready: not shown to differ"),
        (None, False, [], NO_VERDICT),
    ],
)
def test_verdict_is_the_first_condition(state: str | None, allow: bool, passes: list[bool], says: str) -> None:
    verdict = None if state is None else {"state": state, "title": "Ready", "sentence": "not shown to differ."}
    checks = [*verdict_checks("mine", verdict, True, allow), Check("mean", 2.0, 2.5)]
    assert [check.passed for check in checks[:-1]] == passes and says in gate_text(checks)
    lead = gate_markdown(checks).splitlines()[2]
    assert lead == (NO_VERDICT[:1].upper() + NO_VERDICT[1:] if state is None else lead) and "| mean |" not in lead
    assert state is None or lead.startswith(f"Verdict of mine: {'passed' if passes[0] else 'failed'}: Ready")
    case = next(ElementTree.fromstring(gate_junit(checks)).iter("testcase"))
    text = "".join(case.itertext())
    assert state is None or (case.attrib["name"] == "verdict of mine" and "Ready: not shown to differ" in text)


def test_command_writes_both_files_also_when_the_gate_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with sample_project(store=f"sqlite:///{tmp_path}/accord.db") as project:
        evaluator = project.fit("constant").evaluator
        project.score([{"id": str(n), "prompt": "Hi.", "response": "Hello!"} for n in range(3)], evaluator=evaluator)
    (tmp_path / "accord.yaml").write_text(f"store: sqlite:///{tmp_path}/accord.db\n", encoding="utf-8")
    files = ["--junit", "gate.xml", "--markdown", "gate.md", "--allow-unproven"]
    for minimum, code, word in (("4", 3, "**failed**"), ("1", 0, "passed")):
        result = CliRunner().invoke(app, ["gate", "--min-mean", minimum, *files])
        assert result.exit_code == code, result.output + result.stderr
        assert word in Path("gate.md").read_text(encoding="utf-8") and "<testcase" in Path("gate.xml").read_text(
            encoding="utf-8"
        )
    unproven = CliRunner().invoke(app, ["gate", "--min-mean", "1", *files[:-1]])
    assert unproven.exit_code == 3 and "verdict of constant: failed: Not yet: label about" in unproven.output
    Path("gate.md").write_text("my notes", encoding="utf-8")
    refused = CliRunner().invoke(app, ["gate", "--min-mean", "1", *files])
    assert refused.exit_code == 1 and Path("gate.md").read_text(encoding="utf-8") == "my notes"


# --- script of the action ---------------------------------------------------------------------------------------------


@dataclass
class GitHub:
    """Comments of a pull request, as the API of GitHub serves them."""

    comments: list[dict[str, Any]] = field(default_factory=list)
    calls: list[tuple[str, str, str]] = field(default_factory=list)
    foreign: set[int] = field(default_factory=set)
    status: int = 200
    url: str = ""

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        if self.status != 200:
            return self.status, {}
        if method == "GET":
            page = int(path.rpartition("page=")[2])
            return 200, self.comments[100 * (page - 1) : 100 * page]
        if method == "POST":
            self.comments.append({"id": 1000 + len(self.comments), **body})
            return 201, self.comments[-1]
        number = int(path.rpartition("/")[2])
        if number in self.foreign:
            return 403, {}
        [found] = [each for each in self.comments if each["id"] == number]
        found.update(body)
        return 200, found


@pytest.fixture
def github() -> Iterator[GitHub]:
    state = GitHub()

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            state.calls.append((self.command, self.path, self.headers.get("Authorization", "")))
            status, reply = state.answer(self.command, self.path, body)
            content = json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PATCH = handle_any

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield state
    server.shutdown()
    server.server_close()


GATE = """#!/bin/sh
echo "$@" > arguments
env > environment
[ "$CODE" = 1 ] && { echo "accord: no scores" >&2; exit 1; }
for path; do :; done
echo "### accord gate: $TEXT" > "$path"
exit "$CODE"
"""


@dataclass(frozen=True)
class Job:
    """A job whose `accord` ends with a given code."""

    folder: Path
    github: GitHub

    def run(self, code: int = 0, text: str = "passed", **environment: str) -> subprocess.CompletedProcess[str]:
        known = {
            "PATH": f"{self.folder}/bin:{os.environ['PATH']}", "CODE": str(code), "TEXT": text, "RUNNER_TEMP": str(self.folder),
            "GITHUB_STEP_SUMMARY": str(self.folder / "summary.md"), "GITHUB_API_URL": self.github.url, "GITHUB_TOKEN": "ghs_secret",
            "GITHUB_REPOSITORY": "team/bot", "ACCORD_PULL_REQUEST": "7",
        }  # fmt: skip
        command = ["bash", str(ROOT / "ci" / "gate.sh"), "--min-mean", "3"]
        done = subprocess.run(command, cwd=self.folder, env={**known, **environment}, capture_output=True, text=True)
        assert "ghs_secret" not in done.stdout + done.stderr
        assert not list(self.folder.glob("accord-gate.*"))
        return done


@pytest.fixture
def job(tmp_path: Path, github: GitHub) -> Job:
    if os.name != "posix" or shutil.which("bash") is None or shutil.which("curl") is None:
        pytest.skip("bash and curl are needed for the script of the action")
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "accord").write_text(GATE, encoding="utf-8")
    (tools / "accord").chmod(0o755)
    make_link(tools / "python", sys.executable)
    return Job(tmp_path, github)


def test_script_updates_one_comment_and_ends_with_the_code_of_the_gate(job: Job, github: GitHub) -> None:
    github.comments += [{"id": n, "body": "Looks good."} for n in range(1, 102)]
    for code, text in ((3, "failed: 1 of 2"), (0, "passed")):
        done = job.run(code, text)
        assert (done.returncode, done.stderr) == (code, "")
        [own] = [each for each in github.comments if each["body"].startswith("<!-- accord-gate:gate -->\n")]
        assert own["body"].endswith(f"### accord gate: {text}\n") and len(github.comments) == 102
    assert (job.folder / "summary.md").read_text(encoding="utf-8").count("### accord gate") == 2
    assert {call[2] for call in github.calls} == {"Bearer ghs_secret"}
    assert (job.folder / "arguments").read_text(encoding="utf-8").startswith("gate --min-mean 3 --markdown ")


def test_script_leaves_comments_of_others_and_of_other_gates_alone(job: Job, github: GitHub) -> None:
    imitation = {"id": 1, "body": "<!-- accord-gate:gate -->\npassed"}
    github.comments += [dict(imitation), {"id": 2, "body": "<!-- accord-gate:other -->\nfailed"}]
    github.foreign = {1}
    job.run(text="fresh")
    assert github.comments[0] == imitation and "failed" in github.comments[1]["body"]
    assert github.comments[2]["body"] == "<!-- accord-gate:gate -->\n### accord gate: fresh\n"
    job.run(text="second", ACCORD_GATE_NAME="other --> <script>")
    assert github.comments[3]["body"].startswith("<!-- accord-gate:other--script -->")


@pytest.mark.parametrize("missing", ["GITHUB_TOKEN", "ACCORD_PULL_REQUEST", "GITHUB_REPOSITORY"])
def test_script_without_token_or_pull_request_writes_no_comment(job: Job, github: GitHub, missing: str) -> None:
    done = job.run(3, **{missing: ""})
    assert (done.returncode, done.stderr, github.calls) == (3, "", [])
    assert "### accord gate" in (job.folder / "summary.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("code", [0, 3])
def test_script_warns_if_the_comment_cannot_be_written(job: Job, github: GitHub, code: int) -> None:
    github.status = 403
    done = job.run(code)
    assert done.returncode == code and "::warning::accord: no comment on pull request 7" in done.stdout


def test_script_states_that_the_gate_could_not_run(job: Job, github: GitHub) -> None:
    done = job.run(1)
    assert done.returncode == 1 and "no scores" in done.stderr
    assert "could not run\n\nExit code 1" in github.comments[0]["body"]


def test_action_passes_inputs_as_environment_and_runs_the_script() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    scripts = [step["run"] for step in action["runs"]["steps"] if "run" in step]
    assert not any("${{" in script for script in scripts)
    assert "ci/gate.sh" in scripts[-1] and os.access(ROOT / "ci" / "gate.sh", os.X_OK)
    used = "\n".join(
        str(step.get("env", "")) + str(step.get("working-directory", "")) for step in action["runs"]["steps"]
    )
    assert all(f"inputs.{name}" in used for name in action["inputs"])


def test_last_step_of_the_action_passes_each_argument(job: Job) -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    environment = {
        "PATH": f"{job.folder}/bin:{os.environ['PATH']}", "CODE": "0", "TEXT": "passed", "GITHUB_ACTION_PATH": str(ROOT),
        "ACCORD_ARGUMENTS": "--min-within 0.3 *\n --card $(touch made)", "ACCORD_JUNIT": "my gate.xml", "RUNNER_TEMP": str(job.folder),
    }  # fmt: skip
    script = action["runs"]["steps"][-1]["run"]
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script], cwd=job.folder, env=environment, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    given = (job.folder / "arguments").read_text(encoding="utf-8")
    assert given.startswith("gate --min-within 0.3 * --card $(touch made) --junit my gate.xml --markdown ")
    assert not (job.folder / "made").exists()


@pytest.fixture
def hostile_job(job: Job) -> Job:
    """A job in whose folder a pull request has put modules that Python would import, and a name that is an option."""
    for name in ("json", "pathlib", "pip", "sys", "os", "runpy"):
        (job.folder / f"{name}.py").write_text(f"open({str(job.folder / 'ran')!r}, 'w').close()\n", encoding="utf-8")
    (job.folder / "--min-mean=0").touch()
    python = job.folder / "bin" / "python"
    python.unlink()  # a link out of the virtual environment would lack pip
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    return job


@pytest.mark.attack
def test_script_runs_no_file_of_the_pull_request_and_passes_no_token_on(hostile_job: Job, github: GitHub) -> None:
    done = hostile_job.run(0, "passed", token="of the job")
    assert (done.returncode, done.stderr) == (0, "") and len(github.comments) == 1
    assert not (hostile_job.folder / "ran").exists()
    assert "ghs_secret" not in (hostile_job.folder / "environment").read_text(encoding="utf-8")


@pytest.mark.attack
def test_jobs_run_no_file_of_the_pull_request(hostile_job: Job) -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    template = yaml.safe_load((ROOT / "ci" / "gitlab.yml").read_text(encoding="utf-8"))[".accord-gate"]
    environment = {
        "PATH": f"{hostile_job.folder}/bin:{os.environ['PATH']}", "CODE": "0", "TEXT": "passed", "ACCORD_FOLDER": ".",
        "ACCORD_INSTALL": "--help", "ACCORD_ARGUMENTS": "--min-within 0.3 * $(touch made)", "CI_PROJECT_DIR": str(hostile_job.folder),
    }  # fmt: skip
    for script in (action["runs"]["steps"][1]["run"], "\n".join(template["script"])):
        command = ["bash", "-eo", "pipefail", "-c", script]
        done = subprocess.run(command, cwd=hostile_job.folder, env=environment, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "") and "pip install [options]" in done.stdout
    given = (hostile_job.folder / "arguments").read_text(encoding="utf-8")
    assert given.startswith("gate --min-within 0.3 * $(touch made) --junit ")
    assert not (hostile_job.folder / "ran").exists() and not (hostile_job.folder / "made").exists()


def test_gitlab_template_reports_the_files_of_the_gate() -> None:
    job = yaml.safe_load((ROOT / "ci" / "gitlab.yml").read_text(encoding="utf-8"))[".accord-gate"]
    assert (
        job["artifacts"]["reports"]["junit"] in job["script"][-1] and job["artifacts"]["paths"][0] in job["script"][-1]
    )


def test_page_lists_the_exit_codes_of_the_command_line() -> None:
    from accord.cli.app import EXIT_CODES

    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    for each in EXIT_CODES.partition(":")[2].strip(" .").split(", "):
        code, _, meaning = each.partition(" ")
        assert f"| {code} | {meaning}" in page
