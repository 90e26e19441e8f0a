"""Commands in messages, pages and docstrings can be pasted: they exist, with their options, and need no editing of commas."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from accord.cli.app import app

pytestmark = pytest.mark.repository

SOURCE = Path(__file__).parents[1] / "src" / "accord"
PAPERS = Path(__file__).parents[1] / "packages" / "accord-papers" / "src" / "accord_papers"
_COMMAND = re.compile(r"(?<![\w./])accord ((?:[a-z]+ ?)(?:[^;,`\"\n()|&<>]|,(?=\S))*)")
_LISTED = re.compile(r"\.(?:jsonl|csv|parquet|json), [\w/-]+\.(?:jsonl|csv|parquet|json)\b")


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the texts of a module; values in them are replaced by the name of a file."""
    if path.suffix == ".html":
        yield from enumerate(re.findall(r"<code>([^<]*)</code>", path.read_text(encoding="utf-8")))
        return
    tree = ast.parse(path.read_text(encoding="utf-8"))
    parts = {id(each) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for each in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            pieces = (each.value if isinstance(each, ast.Constant) else "x.jsonl" for each in node.values)
            yield node.lineno, "".join(map(str, pieces))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.lineno, node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Step":
            yield node.lineno, _command_of(node)


def _command_of(step: ast.Call) -> str:
    """Return the command of a `Step`; values in it are replaced by the name of a file."""
    verb, *arguments = [each.value if isinstance(each, ast.Constant) else "x.jsonl" for each in step.args]
    options = (f"--{(each.arg or '').rstrip('_').replace('_', '-')} x.jsonl" for each in step.keywords)
    return " ".join(map(str, ["accord", verb, *arguments, *options]))


def found_commands() -> Iterator[tuple[str, str]]:
    """Yield the place and the words of each command in the sources."""
    for path in sorted([*SOURCE.rglob("*.py"), *SOURCE.rglob("*.html"), *PAPERS.rglob("*.py")]):
        for line, text in texts(path):
            for match in _COMMAND.finditer(text):
                yield f"{path.relative_to(SOURCE.parents[1])}:{line}", match[1].strip()


def _root() -> Any:
    return typer.main.get_command(app)


def problem(words: list[str]) -> str:
    """Return what the command line refuses in the words of a command; empty if they name a command and its options."""
    found, words = _root(), [word.rstrip(":") for word in words]
    while hasattr(found, "commands") and words:
        inner = found.commands.get(words[0])
        if inner is None:
            return "" if words[0].startswith("-") else f"no command {words[0]!r}"
        found, words = inner, words[1:]
    known = {name for parameter in found.params for name in (*parameter.opts, *parameter.secondary_opts)}
    options = [word.partition("=")[0].rstrip(".:") for word in words if re.match(r"--?[a-z]", word)]
    return ", ".join(f"no option {each}" for each in options if each not in known)


VERBS = set(_root().commands)


def test_commands_in_texts_exist_with_their_options() -> None:
    checked = [(place, command) for place, command in found_commands() if command.split()[0] in VERBS]
    assert len(checked) > 150, "most messages name a command"
    faults = [f"{place}: accord {command}: {said}" for place, command in checked if (said := problem(command.split()))]
    assert not faults, "\n".join(faults)


def test_files_of_commands_are_separated_by_blanks() -> None:
    faults = []
    for path in sorted(SOURCE.rglob("*.py")):
        for line, text in texts(path):
            command = re.search(r"accord (?:import|run|score|init) .*", text)
            if command is not None and (_LISTED.search(command[0]) or " ... " in command[0]):
                faults.append(f"{path.relative_to(SOURCE)}:{line}: {command[0][:80]}")
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("import chats.jsonl labels.csv", ""),
        (
            _command_of(ast.parse("Step('label next', count=3, every='x')", mode="eval").body).removeprefix("accord "),
            "no option --every",
        ),  # type: ignore[arg-type]
        ("fit calibration --every-question", ""),
        ("score x --nothing", "no option --nothing"),
        ("models chekc", "no command 'chekc'"),
    ],
)
def test_unknown_commands_and_options_are_found(command: str, said: str) -> None:
    assert problem(command.split()) == said
