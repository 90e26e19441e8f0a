"""Tests under way with the inputs of their assertions; free of heavy imports, since every run of pytest loads it."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

PREFIX = "accord "
"""Beginning of the names of properties in JUnit files, which the summary shows."""


@dataclass
class Trial:
    """A test that runs, with what its assertions got in earlier runs.

    Attributes:
        item: The test.
        runs: Number of runs.
        run: Number of the present run, from 1.
        calls: Number of assertions in this run so far.
        pools: Input of each assertion in each run, by its place in the test.
    """

    item: pytest.Item
    runs: int
    run: int = 1
    calls: int = 0
    pools: dict[int, list[Any]] = field(default_factory=dict)

    def pooled(self, given: Any) -> list[Any] | None:
        """Add the input of an assertion; return the inputs of all runs once they are complete, else None."""
        pool = self.pools.setdefault(self.calls, [])
        self.calls += 1
        pool.append(given)
        return pool if len(pool) == self.runs else None


PRESENT: ContextVar[Trial | None] = ContextVar("accord_trial", default=None)
"""The test that runs."""
