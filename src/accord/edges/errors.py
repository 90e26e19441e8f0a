"""What can go wrong, said in one line: what happened, what was got, what is allowed, what to do next.

One root, so that the command line can turn every expected failure into one line and an exit code;
anything that is not an `AccordError` is a bug and shows its traceback.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

from accord.edges.installing import install_command
from accord.edges.secrets import redact_message


class AccordError(Exception):
    """Root of every failure Accord expects; `exit_code` is what the command line returns for it.

    Its text never holds a secret, whatever was put into it.
    """

    exit_code = 1

    def __str__(self) -> str:
        return redact_message(super().__str__())


class BadInput(AccordError):
    """A file, a setting or a value that cannot be used as it is."""


class BadRow(BadInput):
    """A row of a file, or of a table in memory, that cannot be read: its place and the reason."""

    def __init__(self, path: str, line: int, reason: str) -> None:
        unit = "row" if path.startswith("<") or path.endswith(".parquet") else "line"
        super().__init__(f"{path}, {unit} {line}: {reason}")
        self.path = path
        self.line = line
        self.reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        """From one process to another."""
        return type(self), (self.path, self.line, self.reason)


class UnknownName(BadInput):
    """A name that no registry, rubric or file holds."""

    def __init__(self, kind: str, got: str, available: Iterable[str]) -> None:
        names = sorted(available)
        swapped = [name for name in names if sorted(name) == sorted(got)]
        close = swapped or difflib.get_close_matches(got, names, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        listed = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
        super().__init__(f"unknown {kind} {got!r}.{hint} Available: {listed or 'none'}.")


class MissingExtra(AccordError):
    """A feature whose optional dependency is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs an optional part. Install it: {install_command(extra)}")


class ModelError(AccordError):
    """A model or its endpoint cannot do what was asked of it."""


class NotSent(ModelError):
    """A request could not be sent: the API key is missing, or the endpoint accepts no connection."""


class NotFitted(AccordError):
    """An evaluator was asked to predict before it learned anything."""


class GateFailed(AccordError):
    """The numbers are below what the gate demands."""

    exit_code = 3


class BudgetReached(AccordError):
    """The next call would pass the budget; everything before it is kept."""

    exit_code = 4


class Unmeasured(AccordError):
    """A metric could not be measured this time; the reason stands beside the missing value."""
