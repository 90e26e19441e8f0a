"""Waiting for asynchronous work from ordinary code: one event loop for the whole process, in a thread of its own.

Connections belong to the loop they were opened on, so every call shares one; and a notebook, which runs a loop
already, can call the same functions as a script.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import suppress
from functools import cache
from threading import Thread, current_thread
from typing import Any, TypeVar

T = TypeVar("T")
_NAME = "accord-waiting"
LAST_SECONDS = 10.0
"""How long an interrupted call may take to let go of what it holds."""


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    Thread(target=loop.run_forever, name=_NAME, daemon=True).start()
    return loop


def wait(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`. An interrupt cancels it, and is passed on when it has let go of what it holds."""
    if current_thread().name == _NAME:
        work.close()
        raise RuntimeError("wait() was called from the loop it would wait for; await the work instead")
    done: Future[T] = Future()
    started: Future[asyncio.Task[None]] = Future()

    async def run() -> None:
        try:
            done.set_result(await work)
        except BaseException as error:  # handed over to whoever waits
            done.set_exception(error)

    _loop().call_soon_threadsafe(lambda: started.set_result(_loop().create_task(run())))
    try:
        return done.result()
    except KeyboardInterrupt:
        _loop().call_soon_threadsafe(started.result().cancel)
        with suppress(BaseException):
            done.result(timeout=LAST_SECONDS)
        raise


def start(work: Coroutine[Any, Any, T]) -> Future[T]:
    """Begin `work` on the same loop without waiting for it; to cancel what is returned cancels the work."""
    return asyncio.run_coroutine_threadsafe(work, _loop())
