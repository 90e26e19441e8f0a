"""The command line's conventions: help, verbosity, completion, printed commands that run, links, and install hints."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shlex
import subprocess
import sys
import webbrowser
from pathlib import Path
from typing import Any

import pytest
from commands import invoke, printed, write_rows
from new_project import new_project
from small_sample import sources

from accord import project
from accord.edges import MissingExtra

CHATS, RATINGS = map(str, sources())
MESSAGES = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]


@pytest.fixture(autouse=True)
def folder(working_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    return working_folder


# --- help ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [(), ("store",), ("judge",), ("users", "add")])
def test_help_has_a_short_name(command: tuple[str, ...]) -> None:
    assert printed(*command, "-h") == printed(*command, "--help")


def test_help_lists_commands_in_groups_with_whole_sentences() -> None:
    text = printed("--help")
    places = [text.index(f"\n{panel}:\n") for panel in ("Start", "Learn", "Rate", "Operate")]
    assert places == sorted(places) and "\nCommands:" not in text, "every command has a group"
    assert "..." not in text.split("\nStart:\n")[1] and "--install-completion" in text
    assert text.index("\n  demo ") < places[1] < text.index("\n  fit ") < places[2] < text.index("\n  serve ")


def test_rare_options_are_left_out_of_help_and_still_work() -> None:
    text = printed("judge", "--help")
    assert "--verbose" not in text and all(name in text for name in ("--people", "--longest"))
    new_project("models: {judge: {mode: recorded, paths: [nowhere.jsonl]}}\n")
    assert "0 samples: 0 answers" in printed("judge", "--longest", "--people")


# --- verbosity --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [("-v", "compare"), ("compare", "-v"), ("compare", "--verbose")])
def test_verbose_logs_to_stderr(arguments: tuple[str, ...], folder: Path) -> None:
    new_project()
    assert f"info: accord: project in {folder}" in invoke(*arguments, code=1).stderr
    assert "info:" not in invoke("compare", code=1).stderr, "of this run alone"


@pytest.mark.parametrize("place", [0, 3])
def test_quiet_leaves_results_and_errors(place: int) -> None:
    new_project()
    write_rows("c.jsonl", ({"id": f"c{i}", "Q0": i % 3 + 1, "messages": MESSAGES} for i in range(9)))
    arguments = ["import", "c.jsonl", "--format=auto"]
    assert "note: " in invoke(*arguments).stderr
    quiet = invoke(*arguments[:place], "--quiet", *arguments[place:])
    assert quiet.stderr == "" and "already there" in quiet.stdout
    assert invoke("-q", "import", "nowhere.csv", code=1).stderr.startswith("accord: ")
    assert "exclude each other" in invoke("-q", "-v", "compare", code=1).stderr


# --- commands that are printed -----------------------------------------------------------------------------------------


def follow(said: str) -> str:
    """Run the command of the `Next:` line."""
    [line] = [line for line in said.splitlines() if line.startswith("Next: ")]
    program, *arguments = shlex.split(line.removeprefix("Next: "))
    assert program == "accord"
    return printed(*arguments)


def sample(chats: str, ratings: str) -> None:
    Path(chats).write_bytes(Path(CHATS).read_bytes())
    Path(ratings).write_bytes(Path(RATINGS).read_bytes())


def test_init_names_the_files_that_are_there() -> None:
    sample("my chats.jsonl", "ratings.csv")
    assert "40 conversations imported" in follow(printed("init"))


def test_init_reads_only_the_files_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    sample("chats.jsonl", "ratings.csv")
    read = project.survey_files
    surveyed = list[Path]()
    monkeypatch.setattr(
        project, "survey_files", lambda paths, *more, **named: surveyed.extend(paths) or read(paths, *more, **named)
    )
    said = printed("init", "--from", "ratings.csv")
    assert surveyed == [Path("ratings.csv")] and "chats.jsonl" not in said
    assert "name the file that holds them: accord import CONVERSATIONS ratings.csv" in said


def test_init_names_the_given_conversations_and_the_columns() -> None:
    Path("data").mkdir()
    sample("data/my chats.jsonl", "data/rated by all.csv")
    text = (
        Path("data/rated by all.csv").read_text(encoding="utf-8").replace("conversation,annotator", "chat,who is it", 1)
    )
    Path("data/rated by all.csv").write_text(text, encoding="utf-8")
    mapped = ["--columns", "conversation=chat", "--columns", "annotator=who is it"]
    said = follow(printed("init", "--from", "data/rated by all.csv", "data/my chats.jsonl", *mapped))
    assert "40 conversations imported" in said and "0 labels imported" not in said


def test_init_without_data_says_what_is_needed() -> None:
    said = printed("init")
    assert "Next: accord demo" in said and "then: accord import ." in said
    Path("labels.csv").write_text(
        "conversation,annotator,useful\n" + "".join(f"c{i},ann,{i % 3}\n" for i in range(9)), encoding="utf-8"
    )
    said = printed("init", "--from", "labels.csv")
    assert "Next:" not in said and "name the file that holds them: accord import CONVERSATIONS labels.csv" in said


def test_commands_in_notes_run_as_printed() -> None:
    new_project()
    write_rows("my chats.jsonl", ({"id": f"c{i}", "wow": i % 3 + 1, "messages": MESSAGES} for i in range(9)))
    said = invoke("import", "my chats.jsonl").stderr
    [line] = [line for line in said.splitlines() if "To read them: " in line]
    program, *arguments = shlex.split(line.split("To read them: ")[1])
    assert program == "accord" and "9 labels imported" in printed(*arguments)


@pytest.mark.parametrize(
    ("about", "command"),
    [
        ({"url": "file:///src/acc%20ord", "dir_info": {"editable": True}}, "pip install -e '/src/acc ord[gguf]'"),
        ({"url": "file:///src/accord", "dir_info": {}}, "pip install '/src/accord[gguf]'"),
        ({"url": "file:///tmp/accord-1.whl", "archive_info": {}}, "pip install 'accord[gguf]'"),
        (None, "pip install 'accord[gguf]'"),
    ],
)
def test_install_hints_fit_the_installation(
    about: dict[str, Any] | None, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Installed:
        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return None if about is None else json.dumps(about)

    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: Installed())
    assert str(MissingExtra("a GGUF model", "gguf")).endswith(f"Install it: {command}")


# --- the project file --------------------------------------------------------------------------------------------------


def test_the_models_of_the_template_need_only_be_uncommented() -> None:
    invoke("init")
    text = Path("accord.yaml").read_text(encoding="utf-8")
    Path("accord.yaml").write_text(text + "models:\n  judge: {mode: logprobs, model: m}\n", encoding="utf-8")
    assert "no label" in invoke("compare", code=1).stderr
    start = text.index("# models:")
    block = text[start : text.index("# sources:")]
    uncommented = "".join(line.removeprefix("# ") for line in block.splitlines(keepends=True))
    Path("accord.yaml").write_text(text.replace(block, uncommented), encoding="utf-8")
    assert "no label" in invoke("compare", code=1).stderr


def test_a_key_given_twice_is_named_with_its_line() -> None:
    new_project("seed: 0\nmodels: {}\nfolds: 3\nmodels: {judge: {model: m}}\n")
    assert "accord.yaml, line 4: key 'models' occurs twice, in lines 2 and 4" in invoke("compare", code=1).stderr


# --- pages -------------------------------------------------------------------------------------------------------------


def test_view_prints_the_address_where_there_is_no_display(folder: Path) -> None:
    new_project()
    assert "Write one: accord report" in invoke("view", code=1).stderr
    Path("report.html").write_text("<p>", encoding="utf-8")
    Path("deep").mkdir()
    address = (folder / "report.html").as_uri()
    assert printed("view", "report", "--no-open").strip() == printed("view").strip() == address
    assert "unknown page 'bord'. Did you mean 'board'?" in invoke("view", "bord", code=1).stderr


def test_view_opens_a_browser_where_there_is_a_display(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr("webbrowser.open", lambda address: not opened.append(address))
    Path("mine.html").write_text("<p>", encoding="utf-8")
    invoke("view", "report", "--file", "mine.html")
    invoke("view", "report", "--file", "mine.html", "--no-open")
    assert opened == [(folder / "mine.html").as_uri()]


def test_view_finds_a_board_that_runs() -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        assert printed("view", "board", "--port", port).strip() == f"http://127.0.0.1:{port}/board"


def test_view_board_signs_the_single_user_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from served_workbench import Browser, project, served

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(webbrowser, "open", lambda address: True)
    Path("accord.yaml").write_text("store: sqlite:///accord.db\n", encoding="utf-8")
    with project(tmp_path) as opened, served(opened) as port:
        link = printed("view", "board", "--port", str(port)).strip()
        browser = Browser(port, link="/")
        assert browser.ask("GET", link.partition(str(port))[2])[2] == "/board"
        assert "No scores yet" in browser.get("/board") and browser.status == 200


def test_run_ends_with_a_link_to_its_report_and_the_command_for_the_rest(folder: Path) -> None:
    sample("chats.jsonl", "ratings.csv")
    said = printed("run", "chats.jsonl", "ratings.csv", "--evaluator", "mixture", "--set", "draws=20")
    link = f"report: {(folder / 'accord-run/report.html').as_uri()}"
    assert said.splitlines()[-2:] == [link, "all figures: the report; as text in accord-run: accord compare --all"]
    new_project("draws: 20\n")
    invoke("import", "chats.jsonl", "ratings.csv")
    assert printed("report", "mixture").splitlines()[-1] == (folder / "report.html").as_uri()


SHELLS: dict[str, dict[str, str]] = {
    "bash": {"COMP_WORDS": "accord comp", "COMP_CWORD": "1"},
    "zsh": {"_TYPER_COMPLETE_ARGS": "accord comp"},
    "fish": {"_TYPER_COMPLETE_ARGS": "accord comp", "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    "powershell": {"_TYPER_COMPLETE_ARGS": "accord comp", "_TYPER_COMPLETE_WORD_TO_COMPLETE": "comp"},
}


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_is_offered_in_each_shell(shell: str) -> None:
    environment = {**os.environ, **SHELLS[shell], "_ACCORD_COMPLETE": f"complete_{shell}"}
    told = subprocess.run(
        [sys.executable, "-c", "import sys\nfrom accord.cli import main\nsys.argv = ['accord']\nmain()"], capture_output=True, text=True, check=False,
        env=environment,
    )  # fmt: skip
    assert "compare" in told.stdout and "import" not in told.stdout


@pytest.mark.parametrize(
    ("arguments", "near"),
    [
        (["synth", "--how", "DS1"], "--how"),
        (["validate", "--per-turn=3"], "--per-turn"),
        (["import", "x.csv", "--unnamed"], "--unnamed"),
    ],
)
def test_unknown_option_is_a_usage_error(arguments: list[str], near: str) -> None:
    result = invoke(*arguments, code=2)
    assert f"No such option: {near}" in result.output


BASE_INSTALL = """
import sys
sys.modules |= dict.fromkeys(("starlette", "fastapi", "uvicorn"))
from accord.cli.app import main
for arguments in (["users", "add", "ann"], ["users", "role", "ann", "lead"], ["serve"]):
    sys.argv = ["accord", *arguments]
    try:
        main()
    except SystemExit as error:
        print("exit", error.code, flush=True)
"""


def test_base_install_adds_users_and_names_the_extra_that_serves() -> None:
    new_project()
    done = subprocess.run([sys.executable, "-c", BASE_INSTALL], capture_output=True, encoding="utf-8", check=False)
    link, *codes = done.stdout.splitlines()
    assert link.startswith("http://127.0.0.1:8700/in/") and codes == ["exit 0", "exit 0", "exit 1"], done.stderr
    assert "accord: the service needs an optional part. Install it: pip install " in done.stderr
