"""Commands of Accord run in this process."""

from __future__ import annotations

import json
from typing import Any

from typer.testing import CliRunner

from accord.cli import (
    app,
    commands,  # noqa: F401 - registers the commands
)


def accord(*arguments: str, code: int = 0) -> str:
    """Run a command that ends with an exit code, and return what it printed on stdout and stderr."""
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == code, result.output + str(result.exception)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.output


def accord_json(*arguments: str) -> Any:
    """Run a command with `--json` and return what it printed on stdout."""
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)
