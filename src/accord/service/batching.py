"""Requests that come at once are scored together; more than can wait are turned away at once, not slowly."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from accord.live.intake import Row, Takes
from accord.live.said import Said

AT_ONCE = 256
"""Messages that are scored together."""
WAITING = 2048
"""The most messages that wait."""


class Busy(Exception):
    """As many messages wait as may; come again."""


class _Job(NamedTuple):
    batch: Sequence[Said]
    done: asyncio.Future[list[Row]]


class Batcher:
    """Hands messages to a thread of its own, in the order in which they came.

    While it scores some, others gather: under load each call scores more of them, and costs less a message.
    """

    def __init__(self, intake: Takes, most: int = WAITING) -> None:
        self.intake, self.most = intake, most
        self.waiting = 0
        self._jobs: deque[_Job] = deque()
        self._wake = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="scoring")

    def check_room(self, count: int = 1) -> None:
        """Raise `Busy` where so many messages more are too many; one batch may always wait."""
        if self.waiting and self.waiting + count > self.most:
            raise Busy

    async def take(self, batch: Sequence[Said]) -> list[Row]:
        """A row a message; see to it that there is room first."""
        job = _Job(batch, asyncio.get_running_loop().create_future())
        self._jobs.append(job)
        self.waiting += len(batch)
        self._wake.set()
        return await job.done

    async def run(self) -> None:
        """Score what comes until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._jobs:
                await self._score(self._next())

    def _next(self) -> list[_Job]:
        jobs = [self._jobs.popleft()]
        while self._jobs and sum(len(job.batch) for job in jobs) + len(self._jobs[0].batch) <= AT_ONCE:
            jobs.append(self._jobs.popleft())
        return jobs

    async def _score(self, jobs: Sequence[_Job]) -> None:
        batch = [said for job in jobs for said in job.batch]
        try:
            rows = await asyncio.get_running_loop().run_in_executor(self._thread, self.intake.take, batch)
        except Exception as error:  # whoever asked is told; the next is served
            for job in jobs:
                if not job.done.done():
                    job.done.set_exception(error)
        else:
            remaining = iter(rows)
            for job in jobs:
                own = [next(remaining) for _ in job.batch]
                if not job.done.done():  # a client that went away is not waited for
                    job.done.set_result(own)
        finally:
            self.waiting -= len(batch)
