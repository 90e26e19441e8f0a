"""Outputs of commands: no command replaces its inputs, the files of a project, or a file of another kind."""

from __future__ import annotations

import ast
import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import polars as pl
import pytest
import typer
from special_files import make_link
from typer.testing import CliRunner

from accord import Conversation, Label, Store, Target, Turn
from accord.cli import commands  # noqa: F401 - registers the commands
from accord.cli.app import app  # noqa: F401 - registers the commands
from accord.cli.outputs import outputs_of  # noqa: F401 - registers the commands
from accord.edges import BadInput, ProtectedFile, check_output, is_same_path
from accord.formats import QueueWriter
from accord.values import dump_rubric, load_rubric

EACH_OUTPUT = {"ids": lambda each: " ".join(each) if isinstance(each, tuple) else each}
SOURCE = Path(__file__).parents[1] / "src" / "accord"
PAPERS = Path(__file__).parents[1] / "packages" / "accord-papers" / "src" / "accord_papers"
ROWS = [{"id": f"c{n}", "messages": [{"role": "user", "content": "Hi?"}, {"role": "assistant", "content": "Yes."}]}
        for n in range(4)]  # fmt: skip


def leaves(group: Any, names: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield every command of the application with the words that call it."""
    for name, each in group.commands.items():
        if hasattr(each, "commands"):
            yield from leaves(each, (*names, name))
        else:
            yield (*names, name), each


COMMANDS = dict(leaves(typer.main.get_command(app)))
OUTPUTS = [(words, name) for words, each in COMMANDS.items() for name in outputs_of(each.callback.__wrapped__)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with conversations and labels, in the working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ACCORD_STORE", raising=False)
    Path("rubric.yaml").write_text(dump_rubric(load_rubric("llm-rubric")), encoding="utf-8")
    models = {"judge": {"mode": "recorded", "paths": ["answers.jsonl"]}}
    Path("accord.yaml").write_text(json.dumps({"rubric": "rubric.yaml", "models": models}), encoding="utf-8")
    for name in ("prices.yaml", ".env", "answers.jsonl"):
        Path(name).write_text("# mine\n", encoding="utf-8")
    Path("chats.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    for holder, card in (("evaluators/default", "evaluator.json"), ("accord.db.scores", "base.parquet")):
        Path(holder).mkdir(parents=True)
        (Path(holder) / card).write_text("{}", encoding="utf-8")
    store = Store("sqlite:///accord.db")
    store.add_conversations(Conversation(row["id"], (Turn("user", "Hi?"), Turn("assistant", "Yes."))) for row in ROWS)
    store.add_labels(Label(Target(row["id"]), "Q0", name, 1 + n) for n, row in enumerate(ROWS) for name in "ab")
    store.close()
    make_link(Path("link.jsonl"), "chats.jsonl")
    os.link("chats.jsonl", "hard.jsonl")
    os.link("accord.db", "hard.db")
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def call(words: tuple[str, ...], output: str, path: str, *more: str) -> Any:
    """Call a command with an output path, and `chats.jsonl` for every other parameter that is required."""
    arguments = list(words)
    for each in COMMANDS[words].params:
        is_option = each.param_type_name == "option"
        if each.name == output:
            arguments += [each.opts[0], path] if is_option else [path]
        elif each.required:
            arguments += [each.opts[0], "new-output.jsonl"] if is_option else ["chats.jsonl"]
    return CliRunner().invoke(app, [*arguments, *more])


PROTECTED = [
    "accord.db", "accord.db-wal", "hard.db", "accord.yaml", "./evaluators/../accord.yaml", "rubric.yaml",
    "prices.yaml", ".env", "answers.jsonl", "evaluators/default/evaluator.json", "evaluators/default/new.jsonl",
    "accord.db.scores/new.jsonl",
]  # fmt: skip


# One function decides for all outputs: every output tries one file, and the first and the last output try every file.
@pytest.mark.parametrize(
    ("words", "output", "path"),
    [(*each, path) for each in OUTPUTS for path in (PROTECTED if each in (OUTPUTS[0], OUTPUTS[-1]) else PROTECTED[:1])],
)
@pytest.mark.attack
def test_no_output_replaces_a_file_of_the_project(folder: Path, words: tuple[str, ...], output: str, path: str) -> None:
    if words in {("run",), ("demo",)} and not Path(path).exists():
        pytest.skip("a new folder of a run may lie anywhere that is no evaluator or mart")
    before = contents(folder)
    for force in ((), ("--force",)):
        found = call(words, output, path, *force)
        assert found.exit_code in {1, 2} and found.exception is not None, found.output
        assert "Traceback" not in found.output and isinstance(found.exception, SystemExit)
        assert contents(folder) == before


@pytest.mark.parametrize("path", ["chats.jsonl", "link.jsonl", "hard.jsonl", "evaluators/../chats.jsonl"])
@pytest.mark.parametrize(
    ("words", "output"),
    [each for each in OUTPUTS if any(p.required and p.param_type_name == "argument" and p.name != each[1]
                                     for p in COMMANDS[each[0]].params)],
    **EACH_OUTPUT,
)  # fmt: skip
@pytest.mark.attack
def test_no_output_replaces_an_input(folder: Path, words: tuple[str, ...], output: str, path: str) -> None:
    before = contents(folder)
    for force in ((), ("--force",)):
        assert call(words, output, path, *force).exit_code in {1, 2}
        assert contents(folder) == before


@pytest.mark.parametrize(("words", "output"), OUTPUTS, **EACH_OUTPUT)
def test_an_empty_output_path_is_refused(folder: Path, words: tuple[str, ...], output: str) -> None:
    before = contents(folder)
    found = call(words, output, "")
    assert found.exit_code == 2 and "the path of an output is empty" in " ".join(found.output.split())
    assert contents(folder) == before


def test_an_output_that_grows_too_large_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))

    monkeypatch.setattr("accord.formats.files.row_writer.RowWriter.put", fail)
    found = CliRunner().invoke(app, ["export", "labels.jsonl"])
    assert found.exit_code == 1 and "cannot use labels.jsonl: File too large" in found.output


def test_every_output_option_is_marked() -> None:
    marked = {(words, name) for words, name in OUTPUTS}
    for words, each in COMMANDS.items():
        for param in each.params:
            if {"--out", "-o"} & set(param.opts) or (param.name or "") in {"out", "target"}:
                assert (words, param.name) in marked, f"accord {' '.join(words)} writes {param.name} unchecked"
    assert len(marked) >= 14


@pytest.mark.parametrize(
    ("words", "name"),
    [(("report",), "page.html"), (("export",), "labels.csv"), (("label", "next"), "labels.csv"), (("fit",), "mine")],
)
def test_a_file_that_is_no_earlier_output_is_kept_unless_forced(
    folder: Path, words: tuple[str, ...], name: str
) -> None:
    output, text = dict(OUTPUTS)[words], "conversation,annotator,Q0\nc0,ann,3\n"
    mine = Path(name) / "notes.txt" if words == ("fit",) else Path(name)
    mine.parent.mkdir(exist_ok=True)
    mine.write_text(text, encoding="utf-8")
    found = call(words, output, name)
    assert found.exit_code == 1 and "does not look like an earlier output" in found.stderr, found.output
    assert "--force" in found.stderr and mine.read_text(encoding="utf-8") == text
    if words == ("export",):
        assert call(words, output, name, "--force").exit_code == 0
        assert "signature" in mine.read_text(encoding="utf-8")
        assert call(words, output, name).exit_code == 0, "an earlier output is replaced"


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_labels_that_were_filled_in_are_kept(folder: Path, ending: str) -> None:
    row, path = {"conversation": "c0", "turn": None, "question": "Q0", "annotator": "a"}, Path(f"queue.{ending}")
    with QueueWriter(path) as writer:
        writer.write([{**row, "value": None}])
    call(("label", "next"), "out", str(path), "--force")
    filled = pl.DataFrame([{**row, "value": "3"}])
    {"csv": filled.write_csv, "jsonl": filled.write_ndjson, "parquet": filled.write_parquet}[ending](path)
    before = path.read_bytes()
    found = call(("label", "next"), "out", str(path))
    assert found.exit_code == 1 and "does not look like an earlier output" in found.stderr
    assert path.read_bytes() == before


def test_paths_are_compared_through_links_dots_and_capitals(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_text("x", encoding="utf-8")
    make_link(tmp_path / "link", tmp_path / "a.db")
    (tmp_path / "folder").mkdir()
    make_link(tmp_path / "other", tmp_path / "folder")
    for name in ("a.db", "link", "folder/../a.db", "other/../a.db"):
        assert is_same_path(tmp_path / name, tmp_path / "a.db")
    assert is_same_path(tmp_path / "A.DB-WAL", tmp_path / "a.db-wal"), "a file that does not exist may be either"
    assert not is_same_path(tmp_path / "b.db", tmp_path / "a.db")
    with pytest.raises(BadInput, match="other/new.csv is the mart"):
        check_output(Path(f"{tmp_path}/other/new.csv"), [ProtectedFile(tmp_path / "folder", "the mart")])
    with pytest.raises(BadInput, match="is an input"):
        check_output(
            tmp_path / "b", [ProtectedFile(tmp_path / "b.partial", "an input")], written=[tmp_path / "b.partial"]
        )


# --- writes outside the modules that write ------------------------------------------------------------------------------

WRITERS = {
    "accord.edges.output_escaping": "files that are written whole",
    "accord.edges.output_paths": "files with transcripts",
    "accord.formats.files.row_writer": "rows of outputs",
    "accord.formats.files.object_storage": "objects of a store, and their parts",
    "accord.report.report": "the report", "accord.report.issues_page": "the page of issues",
    "accord.verbs.run": "the folder of a run, which keeps files that were edited",
    "accord.cli.commands.init": "new files, never existing ones",
    "accord.hosts.agents.skill": "the folder of a skill",
    "accord.hosts.agents.mcp": "the pipe to the server of its own process",
    "accord.project.importing.judged_answers": "judgements of imported files, in the folder of the project",
    "accord.verbs.project": "a rubric in a temporary folder",
    "accord.project.judges.recorded_judges": "one line of accord.yaml, at the user's request",
    "accord.learning.evaluator_files": "the folder of an evaluator",
    "accord.evidence.bank.ruber": "the folder of a metric",
    "accord.finetune.training": "the folder of a training",
    "accord.project.evaluators.retrain": "a candidate next to the evaluator in use",
    "accord.embedded.gguf_weights": "the folder of a model that is fetched",
    "accord.embedded.catalogue": "the folder of a model that is fetched",
    "accord.live.ingest": "rows of live scoring", "accord.live.log_follower": "the place in a log",
    "accord.store.mart.mart": "the mart",
    "accord.web.uploads": "a new file in the folder uploads",
    "accord.runtime.worker_pool": "the pipe to a worker",
    "accord_papers.rubicon.project_tables": "prompts in a temporary folder",
    "accord_papers.soda_eval.abc_eval": "a taxonomy in a temporary folder",
    "accord_papers.soda_eval.macro_test": "a taxonomy in a temporary folder",
}  # fmt: skip
"""Modules that open files for writing, with the files they write."""


def writes(tree: ast.Module) -> Iterator[int]:
    """Yield the lines of calls that open a file for writing."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        modes = [
            each.value for each in (*node.args, *(k.value for k in node.keywords)) if isinstance(each, ast.Constant)
        ]
        if name in {"write_text", "write_bytes"} or (
            name in {"open", "fdopen"} and any(isinstance(m, str) and len(m) < 4 and set(m) & set("wax") for m in modes)
        ):
            yield node.lineno


@pytest.mark.repository
def test_files_are_written_by_few_modules() -> None:
    found = {}
    for path in [*SOURCE.rglob("*.py"), *PAPERS.rglob("*.py")]:
        package = PAPERS if path.is_relative_to(PAPERS) else SOURCE
        name = ".".join(path.relative_to(package.parent).with_suffix("").parts)
        lines = list(writes(ast.parse(path.read_text(encoding="utf-8"))))
        if lines and not name.startswith("accord.testing"):
            found[name] = lines
    unlisted = {name: lines for name, lines in found.items() if name not in WRITERS}
    assert not unlisted, f"these modules write files; write through one of {sorted(WRITERS)}, or list them: {unlisted}"
