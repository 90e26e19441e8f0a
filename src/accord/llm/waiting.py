"""Waiting for asynchronous work from ordinary code: one event loop for the whole process, in a thread of its own.

Connections belong to the loop they were opened on, so every call shares one; and a notebook, which runs a loop
already, can call the same functions as a script.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import cache
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    Thread(target=loop.run_forever, name="accord-waiting", daemon=True).start()
    return loop


def wait(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`. An interrupt cancels it."""
    future = asyncio.run_coroutine_threadsafe(work, _loop())
    try:
        return future.result()
    except KeyboardInterrupt:
        future.cancel()
        raise
