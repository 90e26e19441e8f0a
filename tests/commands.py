"""Commands of the command line, run in this process, and the files that tests give them."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from accord.cli.app import app
from accord.values import Conversation, Label, Rubric, dump_rubric


def invoke(*arguments: str, code: int | None = 0) -> Result:
    """Run a command, check its exit code, and raise unexpected exceptions."""
    result = CliRunner().invoke(app, list(arguments), prog_name="accord")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert code is None or result.exit_code == code, result.output
    return result


def accord(*arguments: str, code: int | None = 0) -> str:
    """Run a command and return what it prints on stdout and stderr."""
    return invoke(*arguments, code=code).output


def printed(*arguments: str, code: int | None = 0) -> str:
    """Run a command and return its stdout."""
    return invoke(*arguments, code=code).stdout


def accord_json(*arguments: str, code: int | None = 0) -> Any:
    """Run a command with `--json` and return its result."""
    return json.loads(printed(*arguments, "--json", code=code))


def refused(*arguments: str, code: int = 1) -> str:
    """Run a command that fails and return its one error line."""
    errors = invoke(*arguments, code=code).stderr.splitlines()
    [line] = [line for line in errors if line.startswith("accord: ")]
    assert line == errors[-1], errors
    return line


def write(name: str, content: str) -> str:
    """Write a file, with its folder, and return its name."""
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(content, encoding="utf-8")
    return name


def write_rows(name: str, rows: Iterable[Mapping[str, Any]]) -> str:
    """Write rows as JSON lines."""
    return write(name, "".join(json.dumps(row) + "\n" for row in rows))


def read_rows(name: str) -> list[dict[str, Any]]:
    """Read rows of JSON lines."""
    return [json.loads(line) for line in Path(name).read_text(encoding="utf-8").splitlines()]


def write_corpus(chats: Iterable[Conversation], labels: Iterable[Label], rubric: Rubric) -> None:
    """Write `chats.jsonl`, `labels.csv` and `rubric.yaml`."""
    write("rubric.yaml", dump_rubric(rubric))
    write_rows(
        "chats.jsonl",
        (
            {
                "id": chat.id,
                "messages": [{"role": turn.role, "content": turn.content} for turn in chat.turns],
                "documents": [{"text": each.text} for each in chat.documents],
                "system": chat.system,
            }
            for chat in chats
        ),
    )
    with Path("labels.csv").open("w", encoding="utf-8", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(["conversation", "turn", "question", "annotator", "value"])
        rows.writerows(
            [each.target.conversation, each.target.turn, each.question, each.annotator, each.value] for each in labels
        )
