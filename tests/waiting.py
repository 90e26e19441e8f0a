"""Waiting for events in tests, with a limit that only a hanging process reaches."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 300.0
"""Limit in seconds, longer than any event on any machine."""


def until(check: Callable[[], object], details: Callable[[], object] = lambda: None) -> None:
    """Poll until `check` holds; fail with `details()` at the limit."""
    limit = time.monotonic() + PATIENCE
    while not check():
        assert time.monotonic() < limit, details()
        time.sleep(0.01)
