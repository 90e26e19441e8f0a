"""Whose turn it is: messages of all requests are scored in pieces, and no client waits for all that another has sent.

A piece is as many messages as are measured in some tenths of a second at worst. Pieces are served by fair queueing
(Demers, Keshav and Shenker, 1989; "now" as Goyal, Vin and Cheng, 1996): a client's piece is due at max(now, end of its
last one) + its work, where "now" is the start of the piece under way. So clients share the scorer by work, whatever
they send, and a small message is due before a large one that came earlier. A client is a connection.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

from accord.live.ingest import Row, Takes, not_taken
from accord.live.messages import Message

AT_ONCE, WORK = 256, 20_000
"""The most messages, and characters to measure, that are scored together; one message may have more."""
ASKED_AT_ONCE = 32
"""Pieces under way at once where a model is asked: they wait, and cost nothing meanwhile."""
EACH = 100
"""What a message counts beside its characters."""
CLIENTS = 4096
"""Clients whose share is remembered while they wait for nothing."""
WAITING = 2048
"""The most messages of batches that wait, and the most single ones."""


class Busy(Exception):
    """As many messages wait as may; come again."""


class Late(Exception):
    """Nothing of a request was scored in its time."""


@dataclass(eq=False)
class _Job:
    """A request: its messages, what came of those that are done, and how many were handed over."""

    batch: Sequence[Message]
    done: asyncio.Future[list[Row]]
    rows: list[Row] = field(default_factory=list)
    begun: int = 0
    is_over: bool = False


@dataclass(eq=False)
class _Client:
    """What a client waits for, when its next piece starts and its last one ended (in work done), its place in line."""

    jobs: deque[_Job] = field(default_factory=deque)
    start: int = 0
    end: int = 0
    place: int = -1
    is_served: bool = False


class _Piece(NamedTuple):
    client: _Client
    job: _Job
    batch: Sequence[Message]


def work_of(said: Message) -> int:
    """Characters of a message and of the documents that come with it."""
    return len(said.content) + sum(map(len, said.documents or ()))


class Batcher:
    """Hands messages to threads of its own, in fair turns; those of one client in the order in which they came.

    While some are scored, others gather: under load each call scores more of them, and costs less per message.

    Args:
        ingestor: Takes messages in.
        most: Messages that may wait.
        seconds: Until a request is answered, whatever is done of it by then.
        at_once: Pieces under way at once.
        work: Characters that a message has measured.
    """

    def __init__(
        self,
        ingestor: Takes,
        most: int = WAITING,
        seconds: float = 30.0,
        at_once: int = 1,
        work: Callable[[Message], int] = work_of,
    ) -> None:
        self.ingestor, self.most, self.seconds, self.at_once, self.work = ingestor, most, seconds, at_once, work
        self.waiting, self._single = 0, 0
        self._clients: dict[str, _Client] = {}
        self._due: list[tuple[int, int, _Client]] = []
        self._numbers, self._now = count(), 0
        self._under_way: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="scoring")

    def check_room(self, messages: int = 1) -> None:
        """Raise `Busy` where so many messages more are too many.

        One batch may always wait, and batches take no place of single messages.
        """
        is_full = self._single >= self.most if messages == 1 else self.waiting + messages > self.most
        if is_full and self.waiting:
            raise Busy

    async def take(self, batch: Sequence[Message], client: str = "") -> list[Row]:
        """One row per message; see to it that there is room first.

        Raises:
            Late: Nothing of it was done in time; nothing will be.
        """
        loop = asyncio.get_running_loop()
        job, own = _Job(batch, loop.create_future()), self._clients.setdefault(client, _Client())
        own.jobs.append(job)
        self._count(len(batch), job)
        if len(own.jobs) == 1 and not own.is_served:
            self._enqueue(own)
        late = loop.call_later(self.seconds, self._end, own, job)
        try:
            return await job.done
        finally:
            late.cancel()
            if own.end <= self._now or len(self._clients) > CLIENTS:
                self._forget_idle()

    def _forget_idle(self) -> None:
        """Clients that wait for nothing and have had no more than others."""
        many = len(self._clients) > CLIENTS
        idle = [name for name, each in self._clients.items() if not each.jobs and not each.is_served]
        for name in idle:
            if many or self._clients[name].end <= self._now:
                del self._clients[name]

    def _count(self, messages: int, job: _Job) -> None:
        self.waiting += messages
        self._single += messages if len(job.batch) == 1 else 0

    def _enqueue(self, client: _Client) -> None:
        """Give the first message of a client its place."""
        job = client.jobs[0]
        client.start, client.place = max(self._now, client.end), next(self._numbers)
        heappush(self._due, (client.start + EACH + self.work(job.batch[job.begun]), client.place, client))
        self._wake.set()

    async def run(self) -> None:
        """Score what comes until cancelled."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while self._due and len(self._under_way) < self.at_once:
                    self._begin(self._next())
        finally:
            for task in self._under_way:
                task.cancel()

    def _begin(self, pieces: Sequence[_Piece]) -> None:
        if pieces:
            task = asyncio.create_task(self._score(pieces))
            self._under_way.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        self._wake.set()

    def _next(self) -> list[_Piece]:
        """The pieces that are scored together: those due first, one per client; where models are asked, one alone."""
        pieces: list[_Piece] = []
        work = messages = 0
        while self._due and messages < AT_ONCE and not (pieces and self.at_once > 1):
            due, place, client = self._due[0]
            is_there = place == client.place and client.jobs  # else its time was over
            if is_there and pieces and work + due - client.start > WORK:
                break
            heappop(self._due)
            if is_there:
                self._now = max(self._now, client.start)
                piece, own = self._piece(client, WORK - work, AT_ONCE - messages)
                client.end, client.is_served = client.start + own, True
                pieces.append(piece)
                work, messages = work + own, messages + len(piece.batch)
        return pieces

    def _piece(self, client: _Client, work: int, messages: int) -> tuple[_Piece, int]:
        """As many of a client's next messages as are within some work, at least one; and their work."""
        job, own = client.jobs[0], 0
        shown: dict[str, int] = {}  # characters of documents that come within the piece
        first = last = job.begun
        while last < min(len(job.batch), first + messages):
            said = job.batch[last]
            if said.documents is not None:
                shown[said.conversation] = sum(map(len, said.documents))
            more = EACH + self.work(said) + (0 if said.documents is not None else shown.get(said.conversation, 0))
            if last > first and own + more > work:
                break
            own, last = own + more, last + 1
        job.begun = last
        return _Piece(client, job, job.batch[first:last]), own

    async def _score(self, pieces: Sequence[_Piece]) -> None:
        batch = [said for piece in pieces for said in piece.batch]
        try:
            rows = await asyncio.get_running_loop().run_in_executor(self._threads, self.ingestor.take, batch)
        except Exception as error:  # whoever asked is told; the next is served
            for piece in pieces:
                self._finish(piece.client, piece.job, error)
        else:
            remaining = iter(rows)
            for piece in pieces:
                piece.job.rows += [next(remaining) for _ in piece.batch]
                if piece.job.is_over or len(piece.job.rows) == len(piece.job.batch):
                    self._finish(piece.client, piece.job)
        finally:
            for piece in pieces:
                self._count(-len(piece.batch), piece.job)
                piece.client.is_served = False
                if piece.client.jobs:
                    self._enqueue(piece.client)

    def _end(self, client: _Client, job: _Job) -> None:
        """The time of a request is over; what is being scored is waited for, unless a model is asked."""
        job.is_over = True
        if self.at_once > 1 or not client.is_served or client.jobs[0] is not job:
            self._finish(client, job)

    def _finish(self, client: _Client, job: _Job, error: Exception | None = None) -> None:
        """Answer a request with what is done of it; what was not begun never will be."""
        if job in client.jobs:
            client.jobs.remove(job)
            self._count(job.begun - len(job.batch), job)
        if job.done.done():  # it was answered before all was done, or the client went away
            return
        reason = f"not scored within {self.seconds:g} seconds; send it again"
        if error is not None or not job.rows:
            job.done.set_exception(error or Late(reason))
        else:
            job.done.set_result([*job.rows, *(not_taken(said, reason) for said in job.batch[len(job.rows) :])])
