"""Fair queue of messages: clients share the scorer by work, and small requests do not wait for large ones.

Requests are split into chunks that take some tenths of a second at most. Chunks are ordered by fair queueing (Demers,
Keshav and Shenker, 1989; virtual time as in Goyal, Vin and Cheng, 1996): the chunk of a client is due at max(t, end of
its previous chunk) + its work, where the virtual time t is the start of the chunk under way. A client is a connection.
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

from accord.live.ingest import LiveRow, timed_out_row
from accord.live.messages import Message

MAX_MESSAGES, MAX_WORK = 256, 20_000
"""Messages, and characters to measure, that are scored together; a single message may have more characters."""
MAX_CONCURRENT_CHUNKS = 32
"""Chunks under way at once if scoring sends requests to models, which costs no processor time."""
MESSAGE_WORK = 100
"""Work of a message in addition to its characters."""
MAX_CLIENTS = 4096
"""Idle clients whose share is remembered."""
MAX_WAITING = 2048
"""Maximum number of waiting messages of batches, and of waiting single messages."""


class QueueFull(Exception):
    """The maximum number of messages is waiting."""


class ScoringTimeout(Exception):
    """No message of a request was scored in time."""


@dataclass(eq=False)
class _Job:
    """A request; `rows` holds the results so far, and `started` is the number of messages passed on to the scorer."""

    batch: Sequence[Message]
    result: asyncio.Future[list[LiveRow]]
    rows: list[LiveRow] = field(default_factory=list)
    started: int = 0
    is_expired: bool = False


@dataclass(eq=False)
class _Client:
    """Jobs of a client in order of arrival; `start` and `end` are virtual times of the next and the previous chunk.

    `ticket` is the number of the valid heap entry; older entries are skipped.
    """

    jobs: deque[_Job] = field(default_factory=deque)
    start: int = 0
    end: int = 0
    ticket: int = -1
    is_served: bool = False


class _Chunk(NamedTuple):
    client: _Client
    job: _Job
    batch: Sequence[Message]


def message_size(message: Message) -> int:
    """Return the number of characters of a message and of its documents."""
    return len(message.content) + sum(map(len, message.documents or ()))


class FairQueue:
    """Passes messages on to scoring threads; messages of one client keep their order.

    While some messages are scored, others gather, so that under load each call scores more messages at lower cost.

    Args:
        take: Scores and stores messages; returns a row per message, in order.
        max_waiting: Maximum number of waiting messages.
        seconds: Time after which a request is answered with the rows that are ready.
        concurrency: Number of chunks under way at once.
        work: Returns the number of characters that a message has measured.
    """

    def __init__(
        self,
        take: Callable[[Sequence[Message]], list[LiveRow]],
        max_waiting: int = MAX_WAITING,
        seconds: float = 30.0,
        concurrency: int = 1,
        work: Callable[[Message], int] = message_size,
    ) -> None:
        self.take, self.max_waiting, self.seconds = take, max_waiting, seconds
        self.concurrency, self.work = concurrency, work
        self.waiting, self._waiting_singles = 0, 0
        self._clients: dict[str, _Client] = {}
        self._heap: list[tuple[int, int, _Client]] = []
        self._tickets, self._time = count(), 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._threads = ThreadPoolExecutor(concurrency, thread_name_prefix="scoring")

    def check_room(self, messages: int = 1) -> None:
        """Check that a number of messages may wait.

        One batch may always wait, and batches take no room of single messages.

        Raises:
            QueueFull: Too many messages are waiting.
        """
        if messages == 1:
            is_full = self._waiting_singles >= self.max_waiting
        else:
            is_full = self.waiting + messages > self.max_waiting
        if is_full and self.waiting:
            raise QueueFull

    async def score(self, batch: Sequence[Message], client: str = "") -> list[LiveRow]:
        """Return one row per message. Call `check_room` first.

        Raises:
            ScoringTimeout: No message was scored in time, and none will be.
        """
        loop = asyncio.get_running_loop()
        job, state = _Job(batch, loop.create_future()), self._clients.setdefault(client, _Client())
        state.jobs.append(job)
        self._count(len(batch), job)
        if len(state.jobs) == 1 and not state.is_served:
            self._enqueue(state)
        timer = loop.call_later(self.seconds, self._expire, state, job)
        try:
            return await job.result
        finally:
            timer.cancel()
            if state.end <= self._time or len(self._clients) > MAX_CLIENTS:
                self._remove_idle_clients()

    def _remove_idle_clients(self) -> None:
        """Remove idle clients that have used no more than their share, or all idle ones if there are too many."""
        is_full = len(self._clients) > MAX_CLIENTS
        idle = [name for name, client in self._clients.items() if not client.jobs and not client.is_served]
        for name in idle:
            if is_full or self._clients[name].end <= self._time:
                del self._clients[name]

    def _count(self, messages: int, job: _Job) -> None:
        self.waiting += messages
        self._waiting_singles += messages if len(job.batch) == 1 else 0

    def _enqueue(self, client: _Client) -> None:
        """Add the next message of a client to the heap."""
        job = client.jobs[0]
        client.start, client.ticket = max(self._time, client.end), next(self._tickets)
        due = client.start + MESSAGE_WORK + self.work(job.batch[job.started])
        heappush(self._heap, (due, client.ticket, client))
        self._wake.set()

    async def run(self) -> None:
        """Score messages until cancelled."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while self._heap and len(self._tasks) < self.concurrency:
                    self._start(self._next_chunks())
        finally:
            for task in self._tasks:
                task.cancel()

    def _start(self, chunks: Sequence[_Chunk]) -> None:
        if chunks:
            task = asyncio.create_task(self._score_chunks(chunks))
            self._tasks.add(task)
            task.add_done_callback(self._end_task)

    def _end_task(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._wake.set()

    def _next_chunks(self) -> list[_Chunk]:
        """Return the chunks to score together: the first ones due, one per client; a single one if models are asked."""
        chunks: list[_Chunk] = []
        work = messages = 0
        while self._heap and messages < MAX_MESSAGES and not (chunks and self.concurrency > 1):
            due, ticket, client = self._heap[0]
            is_valid = ticket == client.ticket and client.jobs  # else the job has expired
            if is_valid and chunks and work + due - client.start > MAX_WORK:
                break
            heappop(self._heap)
            if is_valid:
                self._time = max(self._time, client.start)
                chunk, chunk_work = self._next_chunk(client, MAX_WORK - work, MAX_MESSAGES - messages)
                client.end, client.is_served = client.start + chunk_work, True
                chunks.append(chunk)
                work, messages = work + chunk_work, messages + len(chunk.batch)
        return chunks

    def _next_chunk(self, client: _Client, max_work: int, max_messages: int) -> tuple[_Chunk, int]:
        """Return the next messages of a client within some work, at least one, and their work."""
        job, work = client.jobs[0], 0
        document_sizes: dict[str, int] = {}  # characters of the documents of each conversation of the chunk
        first = last = job.started
        while last < min(len(job.batch), first + max_messages):
            message = job.batch[last]
            if message.documents is not None:
                document_sizes[message.conversation] = sum(map(len, message.documents))
            more = MESSAGE_WORK + self.work(message)
            if message.documents is None:
                more += document_sizes.get(message.conversation, 0)
            if last > first and work + more > max_work:
                break
            work, last = work + more, last + 1
        job.started = last
        return _Chunk(client, job, job.batch[first:last]), work

    async def _score_chunks(self, chunks: Sequence[_Chunk]) -> None:
        batch = [message for chunk in chunks for message in chunk.batch]
        try:
            rows = await asyncio.get_running_loop().run_in_executor(self._threads, self.take, batch)
        except Exception as error:  # the error belongs to these requests; the queue goes on
            for chunk in chunks:
                self._finish(chunk.client, chunk.job, error)
        else:
            remaining = iter(rows)
            for chunk in chunks:
                chunk.job.rows += [next(remaining) for _ in chunk.batch]
                if chunk.job.is_expired or len(chunk.job.rows) == len(chunk.job.batch):
                    self._finish(chunk.client, chunk.job)
        finally:
            for chunk in chunks:
                self._count(-len(chunk.batch), chunk.job)
                chunk.client.is_served = False
                if chunk.client.jobs:
                    self._enqueue(chunk.client)

    def _expire(self, client: _Client, job: _Job) -> None:
        """End a job after its timeout; a chunk that is being scored still counts, unless a model is asked."""
        job.is_expired = True
        if self.concurrency > 1 or not client.is_served or client.jobs[0] is not job:
            self._finish(client, job)

    def _finish(self, client: _Client, job: _Job, error: Exception | None = None) -> None:
        """Answer a request with the rows that are ready, and drop its other messages."""
        if job in client.jobs:
            client.jobs.remove(job)
            self._count(job.started - len(job.batch), job)
        if job.result.done():  # answered after the timeout, or the client disconnected
            return
        reason = f"not scored within {self.seconds:g} seconds; send it again"
        if error is not None or not job.rows:
            job.result.set_exception(error or ScoringTimeout(reason))
        else:
            unscored = [timed_out_row(message, reason) for message in job.batch[len(job.rows) :]]
            job.result.set_result([*job.rows, *unscored])
