"""Waiting in tests for what should come: however slow and busy the machine is, only what hangs is given up."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 300.0
"""Seconds, for whatever takes a limit: nothing that comes takes as long anywhere."""


def until(check: Callable[[], object], said: Callable[[], object] = lambda: None) -> None:
    """Look again and again until `check` holds; where it never does, `said()` is shown."""
    limit = time.monotonic() + PATIENCE
    while not check():
        assert time.monotonic() < limit, said()
        time.sleep(0.01)
