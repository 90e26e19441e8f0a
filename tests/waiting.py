"""Waiting for events in tests, with a limit that only a hanging process reaches, and calls at the same time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 300.0
"""Limit in seconds, longer than any event on any machine."""


def until(check: Callable[[], object], details: Callable[[], object] = lambda: None) -> None:
    """Poll until `check` holds; fail with `details()` at the limit."""
    limit = time.monotonic() + PATIENCE
    while not check():
        assert time.monotonic() < limit, details()
        time.sleep(0.01)


def at_once(calls: Iterable[Callable[[], T]]) -> list[T]:
    """Call functions in threads of their own, and return their results."""
    functions = list(calls)
    with ThreadPoolExecutor(len(functions)) as pool:
        return [future.result() for future in [pool.submit(function) for function in functions]]
